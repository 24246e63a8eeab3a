"""What a run takes over from an earlier one, and what it hands to the host at its end."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from . import placement, processes
from .atoms import RankOneSymmetric
from .constraints import Affine
from .errors import InvalidInputError
from .frank_wolfe import State, current, start
from .method import Method
from .problem import Problem
from .result import Result
from .trees import Point, replaced

SLAB_BYTES = 2**30

current_point = eqx.filter_jit(current)


def moved_to_host(problem: Problem, state: State) -> Point:
    """x_{k+1} as NumPy arrays; a large matrix slab by slab, for the device may have no room for a
    second one. What is spread over processes stays so: no host need have room for it."""
    x, atom = state.x, state.atom
    if processes.count() > 1:
        return current_point(problem, state)
    if not isinstance(atom, RankOneSymmetric) or x.nbytes < SLAB_BYTES:
        return jax.tree.map(np.asarray, current_point(problem, state))
    size = max(1, SLAB_BYTES * x.shape[0] // x.nbytes)
    made = np.empty(x.shape, x.dtype)
    for first in range(0, x.shape[0], size):
        rows = slice(first, first + size)
        made[rows] = np.asarray(_moved_rows(x[rows], atom, atom.vector[rows], state.eta))
    return made


@jax.jit
def _moved_rows(rows: jax.Array, atom: RankOneSymmetric, ends: jax.Array, eta: Any) -> jax.Array:
    return atom.move_rows(rows, ends, eta)


def continued(result: Result, problem: Problem, method: Method) -> State:
    """A copy of an earlier state (the loop gives its buffers away), checked to fit."""
    if result.method.name != method.name:
        raise InvalidInputError(
            f"warm_start comes from method {result.method.name!r}, whose tracker means something "
            f"else to method {method.name!r}: continue with the same method."
        )
    on_device = problem.on_device()
    fresh = jax.eval_shape(lambda: start(on_device.core(), method))
    shapes = lambda tree: jax.tree.map(lambda a: (a.shape, str(a.dtype)), tree)  # noqa: E731
    if jax.tree.structure(fresh) != jax.tree.structure(result.state) or (
        shapes(fresh) != shapes(result.state)
    ):
        raise InvalidInputError(
            f"warm_start comes from method {result.method.name!r} on another kind of problem: its "
            f"state does not fit method {method.name!r} here. Use the same method and shapes."
        )
    state = placement.placed(jax.tree.map(jnp.array, result.state), problem.structure)
    if result.problem is problem:
        return state
    return _elsewhere(state, result.problem.on_device(), on_device, method)


def _elsewhere(state: State, before: Problem, problem: Problem, method: Method) -> State:
    """The state without what belongs to another problem's gradients and constraints. Multipliers
    and images of x stay with constraints that are the same; other ones begin anew."""
    made = method.memos(problem, state.x, state.atom)
    pairs = zip(*(_exact(method, each) for each in (before, problem)), strict=True)
    same = [bool(eqx.tree_equal((old.map, old.set), (new.map, new.set))) for old, new in pairs]
    memos = tuple(
        old if kept else new for kept, old, new in zip(same, state.memos, made, strict=True)
    )
    # The next LMO is made, whatever the direction of the last one; and until |<y, x>| is looked at
    # again (at a power of two, which all members of a sweep reach together) they are as exact as
    # they can be.
    reference = jax.tree.map(lambda leaf: jnp.full_like(leaf, jnp.nan), state.reference)
    estimate = state.estimate
    if estimate.drift is not None:
        drift = replaced(estimate.drift, gone=jnp.full_like(estimate.drift.gone, jnp.inf))
        estimate = replaced(estimate, drift=drift)
    return replaced(
        state,
        estimate=estimate,
        memory=method.tracker.elsewhere(state.memory),
        memos=memos,
        reference=reference,
        level=jnp.zeros_like(state.level),
    )


def _exact(method: Method, problem: Problem) -> list[Affine]:
    """As `Method.exact_constraints`, but as they are: units are of one problem only."""
    return [constraint for constraint in problem.constraints if not method.tracks(constraint)]
