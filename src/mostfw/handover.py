"""What a run takes over from an earlier one, and what it hands to the host at its end."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from . import placement, processes
from .atoms import RankOneSymmetric
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
    # another problem's gradients and constraints: what was carried along is not theirs
    memos = tuple(c.memo(state.x, state.atom) for c in method.exact_constraints(on_device))
    return replaced(state, memory=method.tracker.elsewhere(state.memory), memos=memos)
