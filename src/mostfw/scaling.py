"""What a problem is measured in, so that a method without parameters suits any units.

In normalised units atoms have norm 1, the objective's gradient has norm 1, every row of a
constraint has norm 1 and each block Gz of an atom z is at most 1 long. Nothing is rewritten: the
units only say with which weights the constraints enter, in the user's own units.

For a penalty, which knows a constraint by what violates it, the unit of a block is the geometric
mean of two lengths: the largest ||Gz - c||, c the point of X nearest to 0, and the largest distance
of Gz from X. For equations both are that distance, wherever their right-hand side is; inequalities
that most atoms keep with room to spare (triangles: seven times as far inside as outside) are
stiffer than by how long Gz is.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from . import trees
from .constraints import Affine
from .linalg import Accuracy
from .objectives import Online
from .problem import Problem
from .schedules import Constant
from .sets import ConvexSet, Point
from .sight import Estimate, Sight
from .smoothing import numbers_at
from .terms import Term

POWER_STEPS = 4  # each makes ||Gz|| larger; the first two bring most
LMO_ACCURACY = Accuracy(1e-3)
SEEN = 1e-6  # of the right-hand side of equations: what is less is rounding, in float32 too
DRAWS = 8  # samples of an objective that has no whole gradient


class Units(eqx.Module):
    """The units of a problem.

    >>> import numpy as np, mostfw as fw
    >>> limit = fw.constraints.Affine(np.array([[0.0, 4.0]]), fw.sets.Box(0.0, 2.0))
    >>> objective = fw.objectives.Linear(np.array([3.0, 4.0]))
    >>> problem = fw.Problem(objective, fw.domains.Simplex(2), [limit])
    >>> units = fw.scaling.measured(problem, objective)
    >>> float(units.value), float(units.reaches[0]), float(units.weights[0])
    (5.0, 4.0, 0.3125)
    """

    value: Any  # of the objective: gradient norm times the norm of an atom
    weights: tuple[Any, ...]  # of the constraints in an objective of these units
    row_weights: tuple[Any, ...]  # of their rows, None where all are alike
    reaches: tuple[Any, ...]  # how long their blocks are, rows so weighted

    def applied(self, constraints: tuple[Affine, ...]) -> tuple[Affine, ...]:
        """The constraints with these weights."""
        parts = zip(constraints, self.weights, self.row_weights, self.reaches, strict=True)
        return tuple(
            trees.replaced(c, weight=weight, row_weights=rows, reach=reach)
            for c, weight, rows, reach in parts
        )

    def softened(self, factors: Iterable[float]) -> Units:
        """With the weight of each constraint times its factor."""
        weights = zip(self.weights, factors, strict=True)
        return trees.replaced(self, weights=tuple(weight * factor for weight, factor in weights))


def measured(problem: Problem, term: Term | None, penalty: bool = False) -> Units:
    """The units of a problem, for a penalty or for an augmented Lagrangian; `term` is its objective
    as the method's oracle sees it, or None where that one's unit does not matter.

    >>> import numpy as np, mostfw as fw
    >>> objective = fw.objectives.Linear(np.array([3.0, 4.0]))
    >>> problem = fw.Problem(objective, fw.domains.Simplex(2, total=2.0))
    >>> float(fw.scaling.measured(problem, objective).value)
    10.0
    """
    with problem.precision():
        feed = None if term is None else _first_minibatch(problem)
        problem = problem.on_device()
        rows = tuple(_row_weights(c, problem) for c in problem.constraints)
        atom, blocks, gradient = _lengths(problem, term, rows, feed, penalty)
        value = float(atom) * float(gradient)
    # A flat objective has no unit, nor has a broken one: the run itself will say so.
    value = value if 0 < value < math.inf else 1.0
    squares = [
        _squared(_right_side(c, weights), *map(float, lengths))
        for c, weights, lengths in zip(problem.constraints, rows, blocks, strict=True)
    ]
    reaches = tuple(map(math.sqrt, squares))
    return Units(value, tuple(value / square for square in squares), rows, reaches)


def _squared(right: float, *lengths: float) -> float:
    """One length, or the geometric mean of two, squared. One of 0 or beyond all says nothing, nor
    does the rounding of an equation that every atom keeps: that one is as long as its right-hand
    side, or 1."""
    told = [length for length in lengths if SEEN * right < length < math.inf]
    return told[0] * told[-1] if told else right**2 or 1.0


def _right_side(constraint: Affine, weights: Any) -> float:
    """||c|| of equations Gz = c, rows weighted; 0 for all else."""
    if not (isinstance(constraint.set, Point) and constraint.map.stored):
        return 0.0
    value = np.broadcast_to(np.asarray(constraint.set.value, float), constraint.image)
    return float(np.linalg.norm(value if weights is None else np.sqrt(weights) * value))


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


@eqx.filter_jit
def _lengths(
    problem: Problem, term: Term | None, rows: tuple[Any, ...], feed: Any, penalty: bool
) -> tuple[jax.Array, tuple[tuple[jax.Array, ...], ...], jax.Array]:
    """The largest ||z|| of an atom z, the lengths of the block of each constraint, and the norm of
    the objective's gradient at the start of a run, or at an atom where that is 0.

    All lengths are roots of convex functions, so the LMO of a linearisation makes each larger, from
    whatever atom on.
    """
    domain, structure = problem.domain, problem.structure
    blocks = [
        [_Length(c, weights, part) for part in _told_by(c.set, penalty)]
        for c, weights in zip(problem.constraints, rows, strict=True)
    ]
    parts = [part for block in blocks for part in block]
    climbs = [lambda z: z, *(part.slope for part in parts)]
    heights = [lambda z: trees.inner(z, z), *(part.square for part in parts)]
    steps = 1 + POWER_STEPS
    first = trees.normal(jax.random.PRNGKey(0), structure)  # no structured map sends it to 0

    def one(turn: jax.Array, found: tuple[Any, jax.Array]) -> tuple[Any, jax.Array]:
        z, squares = found
        which = turn // steps
        ahead = lax.switch(which, climbs, z)
        new = turn % steps == 0
        direction = jax.tree.map(lambda a, b: jnp.where(new, a, -b), first, ahead)
        lowest = domain.lmo(domain.tangent(direction), tolerance=LMO_ACCURACY)
        z = domain.dense(lowest.atom)
        return z, squares.at[which].set(lax.switch(which, heights, z))

    # one loop with one LMO in it, for each in a program takes long to compile
    nothing = jnp.zeros(len(climbs), problem.dtype)
    atom, squares = lax.fori_loop(0, steps * len(climbs), one, (trees.zeros(structure), nothing))
    longest, *others = jnp.sqrt(squares)
    found = iter(others)
    lengths = tuple(tuple(next(found) for _ in block) for block in blocks)
    if term is None or (term.online and feed is None):
        return longest, lengths, jnp.ones((), problem.dtype)
    known = term.whole_norm()
    if known is not None:
        return longest, lengths, known
    start = domain.start(problem.dtype)
    here, there = (_gradient_norm_at(term, x, feed) for x in (start, atom))
    return longest, lengths, jnp.where(here > 0, here, there)


@dataclasses.dataclass(frozen=True)
class _Length:
    """||part(Gz)||, rows weighted, as something to climb; part is r - Proj(r) onto a convex set."""

    constraint: Affine
    weights: Any
    part: Callable[[ConvexSet, jax.Array], jax.Array]

    def slope(self, z: Any) -> Any:
        scale = 1.0 if self.weights is None else self.weights
        return self.constraint.map.pull(z, lambda r: scale * self.part(self.constraint.set, r))

    def square(self, z: Any) -> jax.Array:
        scale = 1.0 if self.weights is None else jnp.sqrt(self.weights)
        return self.constraint.map.squares(z, lambda r: scale * self.part(self.constraint.set, r))


def _told_by(to: ConvexSet, penalty: bool) -> tuple[Callable[[ConvexSet, jax.Array], Any], ...]:
    """Of which parts of Gz the lengths make the unit of a block."""
    if not penalty:
        return (_itself,)
    # from a single point both are the same
    return (_outside,) if isinstance(to, Point) else (_from_nearest, _outside)


def _itself(_: ConvexSet, r: jax.Array) -> jax.Array:
    return r


def _from_nearest(to: ConvexSet, r: jax.Array) -> jax.Array:
    """From the point of the set that is nearest to 0."""
    return r - to.project(jnp.zeros_like(r))


def _outside(to: ConvexSet, r: jax.Array) -> jax.Array:
    return to.residual(r)[0]


def _gradient_norm_at(term: Term, x: Any, feed: Any) -> jax.Array:
    structure, key = trees.structure_of(x), jax.random.PRNGKey(0)
    dtype = jax.tree.leaves(structure)[0].dtype
    numbers = numbers_at(1, None, Constant(1e-3), 0.0, dtype)

    def drawn(index: Any) -> Any:
        sight = Sight.open([term], x, numbers, jax.random.fold_in(key, index), feed)
        add = sight.add_whole if term.total is not None else sight.add
        return add(Estimate.zero(structure), 1.0).y

    if term.total is not None or feed is not None:
        return trees.norm(drawn(0))

    # Of independent samples, <g_i, g_j> is ||grad f||^2 on average; ||g_i||^2 has their noise too.
    def one(index: Any, sums: tuple[Any, jax.Array]) -> tuple[Any, jax.Array]:
        sample = drawn(index)
        return trees.plus(sums[0], 1.0, sample), sums[1] + trees.inner(sample, sample)

    # in a loop, so that one sample is alive at a time
    nothing = trees.zeros(structure), jnp.zeros((), dtype)
    total, squares = lax.fori_loop(0, DRAWS, one, nothing)
    between = (trees.inner(total, total) - squares) / (DRAWS * (DRAWS - 1))
    return jnp.sqrt(jnp.maximum(between, squares / DRAWS**2))
