"""What a problem is measured in, so that a method without parameters suits any units.

In normalised units atoms have norm 1, the objective's gradient has norm 1, every row of a
constraint has norm 1 and each block Gz of an atom z is at most 1 long. Nothing is rewritten: the
units only say with which weights the constraints enter, in the user's own units.
"""

from __future__ import annotations

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from . import trees
from .constraints import Affine
from .domains import Domain
from .linalg import Accuracy
from .objectives import Online
from .problem import Problem
from .schedules import Constant
from .sight import Estimate, Sight
from .smoothing import numbers_at
from .terms import Term

POWER_STEPS = 4  # each makes ||Gz|| larger; the first two bring most
LMO_ACCURACY = Accuracy(1e-3)
DRAWS = 8  # samples of an objective that has no whole gradient


class Units(eqx.Module):
    """The units of a problem.

    >>> import numpy as np, mostfw as fw
    >>> limit = fw.constraints.Affine(np.array([[0.0, 4.0]]), fw.sets.Box(0.0, 2.0))
    >>> objective = fw.objectives.Linear(np.array([3.0, 4.0]))
    >>> problem = fw.Problem(objective, fw.domains.Simplex(2), [limit])
    >>> units = fw.scaling.measured(problem, objective)
    >>> float(units.value), float(units.weights[0]), float(units.row_weights[0][0])
    (5.0, 5.0, 0.0625)
    """

    value: Any  # of the objective: gradient norm times the norm of an atom
    weights: tuple[Any, ...]  # of the constraints in an objective of these units
    row_weights: tuple[Any, ...]  # of their rows, None where all are alike
    reaches: tuple[Any, ...]  # the largest ||Gz|| of an atom z, rows so weighted

    def applied(self, constraints: tuple[Affine, ...]) -> tuple[Affine, ...]:
        """The constraints with these weights."""
        parts = zip(constraints, self.weights, self.row_weights, self.reaches, strict=True)
        return tuple(
            trees.replaced(c, weight=weight, row_weights=rows, reach=reach)
            for c, weight, rows, reach in parts
        )


def measured(problem: Problem, term: Term) -> Units:
    """The units of a problem; `term` is its objective as the method's oracle sees it."""
    with problem.precision():
        feed = _first_minibatch(problem)
        problem = problem.on_device()
        value = float(_largest_norm(problem.domain, problem.structure))
        if not (term.online and feed is None):
            value *= float(_gradient_norm(problem, term, feed))
        # A flat objective has no unit, nor has a broken one: the run itself will say so.
        value = value if 0 < value < math.inf else 1.0
        rows = tuple(_row_weights(c, problem) for c in problem.constraints)
        reaches = tuple(
            float(_reach(c, r, problem.domain, problem.structure))
            for c, r in zip(problem.constraints, rows, strict=True)
        )
    reaches = tuple(reach if reach > 0 else 1.0 for reach in reaches)
    return Units(value, tuple(value / reach**2 for reach in reaches), rows, reaches)


def _first_minibatch(problem: Problem) -> Any:
    """Of an online objective; None where there is none to be had: the run itself will say why."""
    if not isinstance(problem.objective, Online):
        return None
    try:
        first = problem.objective.source.peek()
        first = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf)), first)
        jax.eval_shape(problem.objective.value, problem.structure, first)
    except Exception:
        return None
    return first


def _row_weights(constraint: Affine, problem: Problem) -> np.ndarray | None:
    norms = constraint.map.row_norms(problem.structure)
    if norms is None or not constraint.set.separable:
        return None
    norms = np.asarray(norms, problem.dtype)
    if not norms.size or np.all(norms == norms.flat[0]):
        return None
    return 1 / np.where(norms > 0, norms, 1) ** 2


def _start(domain: Domain, structure: Any) -> Any:
    """A point that no structured map is likely to send to 0: the atom of a random direction."""
    leaves, tree = jax.tree.flatten(structure)
    keys = jax.random.split(jax.random.PRNGKey(0), len(leaves))
    drawn = [jax.random.normal(k, s.shape, s.dtype) for k, s in zip(keys, leaves, strict=True)]
    return _atom(domain, jax.tree.unflatten(tree, drawn))


def _atom(domain: Domain, direction: Any) -> Any:
    direction = domain.tangent(direction)
    return domain.dense(domain.lmo(direction, tolerance=LMO_ACCURACY).atom)


@eqx.filter_jit
def _largest_norm(domain: Domain, structure: Any) -> jax.Array:
    """max ||z||: each LMO finds the point farthest along the last one."""
    return trees.norm(_climbed(domain, structure, lambda z: z))


@eqx.filter_jit
def _reach(constraint: Affine, rows: Any, domain: Domain, structure: Any) -> jax.Array:
    """max ||Gz||, rows weighted: ||Gz||^2 is convex, so its linearisations climb."""
    linear_map = constraint.map
    scale = 1.0 if rows is None else rows

    def climb(z: Any) -> Any:
        return linear_map.pull(z, lambda r: scale * r)

    z = _climbed(domain, structure, climb)
    return jnp.sqrt(trees.inner(climb(z), z))


def _climbed(domain: Domain, structure: Any, climb: Any) -> Any:
    """An atom where the convex function whose gradient `climb` is can hardly grow any more."""
    # a loop, for each LMO in the program takes long to compile
    return lax.fori_loop(
        0,
        POWER_STEPS,
        lambda _, z: _atom(domain, trees.scaled(-1, climb(z))),
        _start(domain, structure),
    )


@eqx.filter_jit
def _gradient_norm(problem: Problem, term: Term, feed: Any) -> jax.Array:
    """||grad f|| at the start of a run, or at an atom where that is 0."""
    start = problem.domain.start(problem.dtype)
    atom = _start(problem.domain, problem.structure)
    here, there = (_gradient_norm_at(term, x, feed) for x in (start, atom))
    return jnp.where(here > 0, here, there)


def _gradient_norm_at(term: Term, x: Any, feed: Any) -> jax.Array:
    structure, key = trees.structure_of(x), jax.random.PRNGKey(0)
    dtype = jax.tree.leaves(structure)[0].dtype
    numbers = numbers_at(1, None, Constant(1e-3), 0.0, dtype)

    def drawn(index: int) -> Any:
        sight = Sight.open([term], x, numbers, jax.random.fold_in(key, index), feed)
        add = sight.add_whole if term.total is not None else sight.add
        return add(Estimate.zero(structure), 1.0).y

    if term.total is not None or feed is not None:
        return trees.norm(drawn(0))
    # Of independent samples, <g_i, g_j> is ||grad f||^2 on average; ||g_i||^2 has their noise too.
    samples = [drawn(index) for index in range(DRAWS)]
    total = samples[0]
    for sample in samples[1:]:
        total = trees.plus(total, 1.0, sample)
    squares = sum(trees.inner(s, s) for s in samples)
    between = (trees.inner(total, total) - squares) / (DRAWS * (DRAWS - 1))
    return jnp.sqrt(jnp.maximum(between, squares / DRAWS**2))
