"""Trimming: when the last atom may serve again instead of a new LMO call (Algorithm 3)."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from . import trees
from .schedules import Schedule
from .trees import Point

SLICES, SLICED_FROM = 16, 2**17  # a smaller array is read at once


class Trimming(eqx.Module):
    """Skip the LMO while ||s_k - v|| < tau_k, v the direction of the last call.

    The norm is that of the LMO's inner product (Frobenius for matrices). tau_k is absolute, as in
    the paper, or a fraction of ||s_k|| with `relative=True`, which survives a change of units.

    >>> import mostfw as fw
    >>> print(fw.trimming.Trimming(fw.schedules.Power(5, shift=1, exponent=0.5)))
    skip while ||s_k - v|| < 5/(k+1)^(1/2)
    """

    tau: Schedule
    relative: bool = eqx.field(static=True, default=False)

    def may_skip(self, direction: Point, reference: Point, k: Any) -> jax.Array:
        """NaN compares false, so that a broken direction goes to the LMO and is noticed."""
        threshold = self.tau(k)
        if self.relative:
            threshold = threshold * trees.norm(direction)
        return (k > 1) & _nearer(direction, reference, threshold)

    def __str__(self) -> str:
        unit = " ||s_k||" if self.relative else ""
        return f"skip while ||s_k - v|| < {self.tau}{unit}"


def _nearer(a: Point, b: Point, limit: Any) -> jax.Array:
    """||a - b|| < limit, read only as far as it takes to know that it is not.

    A pass over two n x n arrays is a good part of what trimming saves. Where the answer is no, the
    first slices mostly show it, for a sum of squares only grows.
    """
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    limit = jnp.asarray(limit, jax.tree.leaves(a)[0].dtype)
    used = jnp.zeros_like(limit)  # the squares seen so far, in units of the squared limit
    for u, v in pairs:
        used = _plus_squares(jnp.atleast_1d(u), jnp.atleast_1d(v), limit, used)
    return (used < 1) & (limit > 0)


def _plus_squares(u: jax.Array, v: jax.Array, limit: jax.Array, used: jax.Array) -> jax.Array:
    rows = u.shape[0] if u.size < SLICED_FROM else -(-u.shape[0] // SLICES)

    def squares(first: Any, rows: int) -> jax.Array:
        part = (lax.dynamic_slice_in_dim(array, first, rows) for array in (u, v))
        # divided first, so that squares of large directions cannot overflow
        return jnp.sum((jnp.subtract(*part) / limit) ** 2)

    slices, left = divmod(u.shape[0], rows) if rows else (0, 0)
    _, used = lax.while_loop(
        lambda state: (state[0] < slices) & (state[1] < 1),
        lambda state: (state[0] + 1, state[1] + squares(state[0] * rows, rows)),
        (jnp.int32(0), used),
    )
    return used + squares(slices * rows, left) if left else used
