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


def _lower_bound(diagonal: Array, off: Array) -> Array:
    """The smallest eigenvalue of a tridiagonal matrix, to rounding, from below (bisection)."""
    dtype = diagonal.dtype
    reach = jnp.abs(jnp.pad(off, (1, 0))) + jnp.abs(jnp.pad(off, (0, 1)))
    low, high = jnp.min(diagonal - reach), jnp.min(diagonal)
    fractions = jnp.arange(1, _SHIFTS + 1, dtype=dtype) / (_SHIFTS + 1)
    # never 0, so that a pivot 0 makes the next one infinite (which is right), never NaN
    squares = jnp.maximum(off * off, jnp.finfo(dtype).tiny)

    def narrow(_: Any, bracket: tuple[Array, Array]) -> tuple[Array, Array]:
        low, width = bracket
        shifts = low + width * fractions

        def eliminate(carry: tuple[Array, Array], entry: tuple[Array, Array]) -> Any:
            pivot, least = carry
            pivot = entry[0] - shifts - entry[1] / pivot
            return (pivot, jnp.minimum(least, pivot)), None

        first = diagonal[0] - shifts
        # unrolled, some tens of eliminations become one kernel
        (_, least), _ = lax.scan(eliminate, (first, first), (diagonal[1:], squares), unroll=64)
        # a shift is below every eigenvalue if and only if no pivot is negative
        width = width / (_SHIFTS + 1)
        return low + jnp.sum(least >= 0) * width, width

    passes = math.ceil(jnp.finfo(dtype).nmant / math.log2(_SHIFTS + 1)) + 1
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
    for _ in range(3):
        v = unit(solve(solve(v), transpose_a=True))
    v = v[:, 0]
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
