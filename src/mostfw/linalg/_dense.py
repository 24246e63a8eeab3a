"""Smallest eigenpairs of matrices that are written out."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array

from ..operators import dot
from ._pairs import Accuracy, Eigenpair, generic, nonzero, norm_of, unit

_SHIFTS = 15  # bisection tests 15 points at once, which gains 4 bits a pass
# So many pivots are multiplied up before the product is divided out: single precision has less
# room. A product that underflows all the same was of pivots at rounding.
_TOGETHER = {8: 16, 4: 4}


def _lower_bound(diagonal: Array, off: Array) -> Array:
    """The smallest eigenvalue of a tridiagonal matrix with entries of about 1, from below, to
    n eps times its norm (bisection)."""
    n, dtype = diagonal.shape[0], diagonal.dtype
    reach = jnp.abs(jnp.pad(off, (1, 0))) + jnp.abs(jnp.pad(off, (0, 1)))
    low, high = jnp.min(diagonal - reach), jnp.min(diagonal)
    fractions = jnp.arange(1, _SHIFTS + 1, dtype=dtype) / (_SHIFTS + 1)
    together = min(_TOGETHER[dtype.itemsize], max(1, n - 1))
    # rows that no shift of the bracket makes negative fill the last group up
    missing = -(n - 1) % together
    further = jnp.pad(diagonal[1:], (0, missing), constant_values=1) + jnp.where(
        jnp.arange(n - 1 + missing) < n - 1, 0, jnp.abs(high)
    )
    squares = jnp.pad(off * off, (0, missing))
    groups = further.reshape(-1, together), squares.reshape(-1, together)

    def narrow(_: Any, bracket: tuple[Array, Array]) -> tuple[Array, Array]:
        low, width = bracket
        shifts = low + width * fractions

        # Leading minors, each a sum of two products, where pivots would be a division each.
        def minors(carry: tuple[Array, Array, Array], group: tuple[Array, Array]) -> Any:
            before, now, least = carry
            before, now = jnp.ones_like(now), now / before
            for entry, square in zip(*group, strict=True):
                before, now = now, (entry - shifts) * now - square * before
                least = jnp.minimum(least, now)
            return (before, now, least), None

        first = diagonal[0] - shifts
        # unrolled, some tens of minors become one kernel
        start = jnp.ones_like(first), first, first
        (_, _, least), _ = lax.scan(minors, start, groups, unroll=max(1, 64 // together))
        # A shift is below every eigenvalue if and only if all minors are positive. After one that
        # is 0 there may be NaN, which is not.
        width = width / (_SHIFTS + 1)
        return low + jnp.sum(least > 0) * width, width

    passes = math.ceil((jnp.finfo(dtype).nmant - math.log2(n)) / math.log2(_SHIFTS + 1))
    return lax.fori_loop(0, passes, narrow, (low, high - low))[0]


@eqx.filter_jit
def smallest_dense(a: Array, tolerance: Accuracy) -> Eigenpair:
    n, dtype = a.shape[0], a.dtype
    scale = nonzero(jnp.max(jnp.abs(a)))
    a = a / scale
    if n > 1:
        _, diagonal, off, _ = lax.linalg.tridiagonal(a, lower=True)
    else:
        diagonal, off = a[0], a[0, :0]
    columns = diagonal**2 + jnp.pad(off, (1, 0)) ** 2 + jnp.pad(off, (0, 1)) ** 2
    norm = jnp.sqrt(jnp.max(columns))  # within a factor sqrt(3) of the spectral norm
    # Inverse iteration on the matrix itself, shifted to be positive definite just beyond rounding:
    # whatever the cluster, the residual is at most the distance from the shift.
    shift = _lower_bound(diagonal, off) - 4 * n * jnp.finfo(dtype).eps * nonzero(norm)
    factor = lax.linalg.cholesky(a - shift * jnp.eye(n, dtype=dtype), symmetrize_input=False)
    v = generic(n, dtype)[:, None]
    solve = partial(lax.linalg.triangular_solve, factor, left_side=True, lower=True)
    for _ in range(3):  # each makes v longer by at most 1/eps or so
        v = solve(solve(v), transpose_a=True)
    v = unit(v[:, 0])
    product = dot(a, v)
    value = jnp.sum(product * v)
    residual = norm_of(product - value * v)
    rounding = 8 * n * jnp.finfo(dtype).eps * norm
    converged = residual <= jnp.maximum(tolerance.over(scale).allowed(norm), rounding)
    return Eigenpair(value * scale, v, residual * scale, jnp.int32(0), converged)


def smallest_surely(a: Array) -> Eigenpair:
    """By all eigenvectors: nothing is faster that works for every matrix.

    The residual is what LAPACK promises, for this must be short: every program with a search has
    it, and a look at the true one would add 0.2 s to the 0.1 s that it takes to compile.
    """
    # The transpose is the same matrix in the order that LAPACK asks for. Of the other one the
    # compiler makes it before it knows whether this is needed, at each step of a run.
    vectors, values = lax.linalg.eigh(a.T, symmetrize_input=False)
    norm = jnp.maximum(jnp.abs(values[0]), jnp.abs(values[-1]))
    residual = a.shape[0] * jnp.finfo(a.dtype).eps * norm
    found = jnp.isfinite(values[0])  # a failure of LAPACK's own is NaN
    return Eigenpair(values[0], unit(vectors[:, 0]), residual, jnp.int32(0), found, jnp.int32(1))
