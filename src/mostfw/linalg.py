"""Smallest eigenpairs and leading singular pairs, for use inside compiled loops.

Two methods stand behind both questions. A small operator is written out as a matrix and reduced
to tridiagonal form, where bisection finds the one eigenvalue that is wanted. A larger one is only
multiplied: a Krylov basis, completely reorthogonalised, with thick restarts.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, ArrayLike, Bool, Float, Int

from .errors import InvalidInputError, ShapeError
from .operators import (
    DenseMatrix,
    MatrixOperator,
    SymmetricOperator,
    as_matrix,
    as_symmetric,
    dot,
)

# Microseconds for one eigenpair in a compiled loop on two CPU cores, float64, tolerance 1e-6: the
# dense path / Krylov on random symmetric matrices / Krylov on low rank plus noise:
#   n = 25: 21 / 107 / 54;  60: 96 / 156 / 75;  80: 150 / 180 / 75;  100: 235 / 240 / 80.
# (jnp.linalg.eigh: 51 at 25, 280 at 64, 700 at 100.) The paths cross between 60 and 100; from about
# 64 on LAPACK uses threads, which on a busy machine wait for each other (7,700 at n = 80).
DENSE_BELOW = 64
# 12 to 32 basis vectors need the same number of products within a tenth on random matrices; 16 is
# the smallest that does not fall behind on hard ones. A restart needs several Ritz vectors, which
# take long on a GPU, and with 24 the directions of a run rarely need one.
STEPS = 24
# The basis is looked at when it has 8, 12, 16, ... vectors. Looks every 2 or 3 steps save a tenth
# of the products and cost that much; before 8 the start's luck decides too often. The steps between
# looks are of a fixed number, so that an accelerator need not ask the host after each.
LOOK_EVERY = 4
RESTARTS = 200
# Norm of the random part of the starting direction beside a given start of norm 1. It must be
# large: from a start near the second smallest eigenvector the residual is small before the smallest
# shows. Of 60 such searches (n = 500, tolerance 1e-3 or 1e-4, gap 0.002 or 0.004 of the norm) 52 to
# 60 ended wrong with a share of 0.03, 3 to 60 with 0.3, 0 to 4 with 10, 0 to 3 with no start at
# all. The price: a perfect start saves 10 to 20% of the products (80% with 0.03).
RANDOM_SHARE = 10.0

_SHIFTS = 15  # bisection tests 15 points at once, which gains 4 bits a pass


def _norm(v: Array) -> Array:
    return jnp.sqrt(jnp.sum(v * v))


def _nonzero(scale: Array) -> Array:
    """A divisor: the scale, or 1 where it is 0 (or so small that dividing by it overflows)."""
    return jnp.where(scale < 4 * jnp.finfo(scale.dtype).tiny, 1, scale)


def _unit(v: Array) -> Array:
    """v / ||v||, whatever the scale of v; 0 stays 0."""
    v = v / _nonzero(jnp.max(jnp.abs(v)))
    return v / _nonzero(_norm(v))


def _generic(n: int, dtype: Any) -> Array:
    """A fixed vector that no structured matrix is likely to have as its orthogonal."""
    return _unit(jnp.cos(jnp.arange(1, n + 1, dtype=dtype) ** 2))


class Eigenpair(eqx.Module):
    """A v = value v, but for `residual` = ||A v - value v||; v has norm 1.

    `matvecs` counts the products that the Krylov path made; the dense path makes none.
    `converged` says whether the residual is within the tolerance asked.

    >>> import jax, jax.numpy as jnp
    >>> from mostfw.linalg import smallest_eigenpair
    >>> pair = smallest_eigenpair(jnp.eye(3), jax.random.PRNGKey(0))
    >>> round(float(pair.value), 6), bool(pair.converged)
    (1.0, True)
    """

    value: Float[Array, ""]
    vector: Float[Array, " n"]
    residual: Float[Array, ""]
    matvecs: Int[Array, ""]
    converged: Bool[Array, ""]


class Accuracy(eqx.Module):
    """How exact an eigenpair or an LMO must be: within `relative` of the operator's norm, or within
    `absolute` in its own units (for an LMO, of <direction, atom>), whichever comes first.

    >>> from mostfw.linalg import Accuracy
    >>> float(Accuracy(1e-6, absolute=0.5).allowed(10.0))
    0.5
    """

    relative: Any
    absolute: Any = 0.0

    @staticmethod
    def of(tolerance: Any, dtype: Any) -> Accuracy:
        """A number is relative."""
        given = tolerance if isinstance(tolerance, Accuracy) else Accuracy(tolerance)
        return jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), given)

    def over(self, scale: Any) -> Accuracy:
        """The same in units that are `scale` times as large."""
        return Accuracy(self.relative, self.absolute / scale)

    def allowed(self, norm: Any) -> Array:
        """The residual that will do: never more than the arithmetic can give."""
        norm = jnp.asarray(norm)
        relative = jnp.maximum(self.relative, 4 * jnp.finfo(norm.dtype).eps)
        return jnp.maximum(relative * norm, self.absolute)


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
def _smallest_dense(a: Array, tolerance: Accuracy) -> Eigenpair:
    n, dtype = a.shape[0], a.dtype
    scale = _nonzero(jnp.max(jnp.abs(a)))
    a = a / scale
    if n > 1:
        _, diagonal, off, _ = lax.linalg.tridiagonal(a, lower=True)
    else:
        diagonal, off = a[0], a[0, :0]
    columns = diagonal**2 + jnp.pad(off, (1, 0)) ** 2 + jnp.pad(off, (0, 1)) ** 2
    norm = jnp.sqrt(jnp.max(columns))  # within a factor sqrt(3) of the spectral norm
    # Inverse iteration on the matrix itself, shifted to be positive definite just beyond rounding:
    # whatever the cluster, the residual is at most the distance from the shift.
    shift = _lower_bound(diagonal, off) - 4 * n * jnp.finfo(dtype).eps * _nonzero(norm)
    factor = lax.linalg.cholesky(a - shift * jnp.eye(n, dtype=dtype), symmetrize_input=False)
    v = _generic(n, dtype)[:, None]
    solve = partial(lax.linalg.triangular_solve, factor, left_side=True, lower=True)
    for _ in range(3):
        v = _unit(solve(solve(v), transpose_a=True))
    v = v[:, 0]
    product = dot(a, v)
    value = jnp.sum(product * v)
    residual = _norm(product - value * v)
    rounding = 8 * n * jnp.finfo(dtype).eps * norm
    converged = residual <= jnp.maximum(tolerance.over(scale).allowed(norm), rounding)
    return Eigenpair(value * scale, v, residual * scale, jnp.int32(0), converged)


class _Search(NamedTuple):
    """The Krylov path's state; numbers are in units of `scale`."""

    basis: Array  # (steps + 2, n): orthonormal rows, the next direction, then anything finite
    projected: Array  # (steps + 1, steps + 1): V A V', the rest anything finite
    used: Array  # basis vectors that have been multiplied
    coupling: Array  # norm of what the last product had outside the basis
    norm: Array  # lower bound of the operator's norm: the largest ||A v|| or |Ritz value| seen
    scale: Array  # the largest entry of the first product, so that squares cannot overflow
    matvecs: Array
    restarts: Array
    mixture: Array  # (steps, keep): the lowest Ritz vectors in terms of the basis, at the last look
    value: Array
    residual: Array


def _reach(small: Array) -> Array:
    """A bound on the absolute values of a matrix's eigenvalues: the largest row."""
    return jnp.max(jnp.sum(jnp.abs(small), axis=1))


def _lowest(keep: int, small: Array, filled: Array) -> Array:
    """Eigenvectors of the `keep` smallest eigenvalues of a matrix's filled part, as columns."""
    beyond = 1 + _reach(small)  # so that what is not filled comes last
    small = small + jnp.diag(jnp.where(filled, 0, beyond))
    mixture = lax.linalg.eigh(small, symmetrize_input=False)[0][:, :keep]
    # On a GPU the float32 vectors of the small problem are orthonormal only to 2e-6, and that
    # would add up over the restarts: one Newton step squares the error.
    return 1.5 * mixture - 0.5 * dot(mixture, dot(mixture.T, mixture))


def _lowest_quickly(keep: int, small: Array, filled: Array) -> Array:
    """The first of these columns, the others 0, by squaring the matrix turned about 2^12 times.

    On a GPU `eigh` of 16 x 16 takes as long as 20 products with a matrix of side 1000. This takes
    under a third; what it does not resolve is part of the residual that is looked at.
    """
    power = jnp.diag(jnp.where(filled, _reach(small), 0)) - small
    for _ in range(4):
        power = power / _nonzero(jnp.max(jnp.abs(power)))
        for _ in range(3):
            power = dot(power, power)
    column = power[:, jnp.argmax(jnp.diagonal(power))]
    return jnp.zeros((small.shape[0], keep), small.dtype).at[:, 0].set(_unit(column))


@eqx.filter_jit
def _smallest_krylov(
    operator: SymmetricOperator, key: Array, start: Array | None, tolerance: Accuracy, limits: Any
) -> Eigenpair:
    n, dtype, (steps, restarts) = operator.size, operator.dtype, limits
    keep = max(1, min(LOOK_EVERY, steps // 3))
    floor = 4 * jnp.finfo(dtype).eps
    direction = _unit(jax.random.normal(key, (n,), dtype))
    if start is not None:
        direction = _unit(_unit(start) + RANDOM_SHARE * direction)

    # A coupling of rounding size means that the basis spans an invariant space. It contains an
    # eigenvector of the smallest eigenvalue, for the start had a random part: (A - value) u = 0
    # gives |Ritz value - value| <= coupling / |<start, u>|. So there is nothing left to do: steps
    # that remain before the next look make their products and change nothing.
    def extend(_: Any, s: _Search) -> _Search:
        more = (s.coupling > floor * s.norm) & (s.used < steps)
        product = operator.matvec(s.basis[s.used])
        scale = jnp.where(s.matvecs == 0, _nonzero(jnp.max(jnp.abs(product))), s.scale)
        rest, row = product / scale, jnp.zeros(steps + 2, dtype)
        # A restart leaves old vectors behind; they have no part in the new basis.
        mine = (jnp.arange(steps + 2) <= s.used).astype(dtype)
        for _ in range(2):  # the second pass removes the rounding errors of the first
            part = mine * dot(s.basis, rest)
            rest, row = rest - dot(part, s.basis), row + part
        coupling = _norm(rest)
        seen = jnp.sqrt(jnp.sum(row * row) + coupling**2)
        return s._replace(
            basis=s.basis.at[s.used + 1].set(rest / _nonzero(coupling)),
            projected=s.projected.at[s.used].set(row[:-1]).at[:, s.used].set(row[:-1]),
            used=s.used + more,
            coupling=jnp.where(more, coupling, s.coupling),
            norm=jnp.where(more, jnp.maximum(s.norm, seen), s.norm),
            scale=scale,
            matvecs=s.matvecs + 1,
        )

    def restart(s: _Search) -> _Search:
        """The lowest Ritz vectors, then the next direction, as the first rows of the basis."""
        low = dot(s.mixture.T, dot(s.projected[:steps, :steps], s.mixture))
        kept = dot(s.mixture.T, s.basis[:steps])
        return s._replace(
            basis=s.basis.at[keep].set(s.basis[steps]).at[:keep].set(kept),
            projected=jnp.pad(low, (0, steps + 1 - keep)),
            used=jnp.int32(keep),
            restarts=s.restarts + 1,
        )

    def look(s: _Search) -> _Search:
        """The lowest Ritz pair: quickly, or in full where a restart needs more than one."""
        filled = jnp.arange(steps) < s.used
        inside = filled[:, None] & filled[None, :]
        small = jnp.where(inside, s.projected[:steps, :steps], 0)
        last = (s.used == steps) | (s.coupling <= floor * s.norm)
        ways = partial(_lowest, keep), partial(_lowest_quickly, keep)
        mixture = lax.cond(last, *ways, small, filled)
        lowest = mixture[:, 0]
        image = dot(small, lowest)
        value = jnp.sum(lowest * image)
        outside = s.coupling * lowest[s.used - 1]
        return s._replace(
            norm=jnp.maximum(s.norm, jnp.abs(value)),
            mixture=mixture,
            value=value,
            residual=jnp.sqrt(jnp.sum((image - value * lowest) ** 2) + outside**2),
        )

    def cycle(s: _Search) -> _Search:
        seen = s.residual < jnp.inf  # a small basis is full before the first look
        s = lax.cond((s.used == steps) & seen, restart, lambda s: s, s)
        return look(lax.fori_loop(0, LOOK_EVERY, extend, s))

    zero, none = jnp.zeros((), dtype), jnp.int32(0)
    first = _Search(
        basis=jnp.zeros((steps + 2, n), dtype).at[0].set(direction),
        projected=jnp.zeros((steps + 1, steps + 1), dtype),
        used=none,
        coupling=zero + jnp.inf,
        norm=zero,
        scale=zero + 1,
        matvecs=none,
        restarts=none,
        mixture=jnp.zeros((steps, keep), dtype),
        value=zero,
        residual=zero + jnp.inf,
    )

    def unfinished(s: _Search) -> Array:  # of NaN there is nothing to be had: it compares false
        may = (s.used < steps) | (s.restarts < restarts)
        # after a look at an invariant space nothing would change any more
        may = may & (s.coupling > floor * s.norm)
        first = s.matvecs == LOOK_EVERY  # one look there is always, so that NaN shows in the value
        return first | (may & (s.residual > tolerance.over(s.scale).allowed(s.norm)))

    s = lax.while_loop(unfinished, cycle, lax.fori_loop(0, LOOK_EVERY, extend, first))
    vector = _unit(dot(s.mixture[:, 0], s.basis[:steps]))
    # the formula for the residual does not know of the products' own rounding
    residual = jnp.maximum(s.residual, jnp.finfo(dtype).eps * s.norm)
    converged = residual <= tolerance.over(s.scale).allowed(s.norm)
    return Eigenpair(s.value * s.scale, vector, residual * s.scale, s.matvecs, converged)


def smallest_eigenpair(
    operator: ArrayLike | SymmetricOperator,
    key: Array,
    *,
    start: ArrayLike | None = None,
    tolerance: ArrayLike | Accuracy = 1e-6,
    steps: int | None = None,
    restarts: int = RESTARTS,
    dense_below: int = DENSE_BELOW,
) -> Eigenpair:
    """The smallest eigenvalue of a symmetric operator, and a vector of norm 1 that belongs to it.

    `tolerance` bounds the residual, relative to the operator's norm (as far as it was seen) or as
    an `Accuracy` says; it may be traced. `start` is a guess of the vector; any guess is harmless,
    for a random vector from `key` is mixed in. The Krylov basis has at most `steps` vectors and
    restarts at most `restarts` times; operators of size below `dense_below` are solved as matrices,
    without start and key.

    >>> pair = smallest_eigenpair(jnp.diag(jnp.array([3.0, -1.0, 2.0])), jax.random.key(0))
    >>> print(round(float(pair.value), 4), jnp.abs(pair.vector).round(4), bool(pair.converged))
    -1.0 [0. 1. 0.] True
    """
    operator = as_symmetric(operator)
    n = operator.size
    steps = min(n, STEPS if steps is None else steps)
    if steps < min(n, 2) or restarts < 0:
        raise InvalidInputError(
            f"steps = {steps}, restarts = {restarts}: give at least 2 steps and 0 restarts"
        )
    if start is not None:
        start = jnp.asarray(start, operator.dtype)
        if start.shape != (n,):
            raise ShapeError(f"start has shape {start.shape}, the operator needs ({n},)")
    limit = Accuracy.of(tolerance, operator.dtype)
    if n < dense_below:
        return _smallest_dense(operator.dense(), limit)
    return _smallest_krylov(operator, key, start, limit, (steps, restarts))


class SingularPair(eqx.Module):
    """A right = value left and A' left = value right, but for `residual` in the second.

    Both vectors have norm 1. `matvecs` counts products with A and with A'.

    >>> import jax, jax.numpy as jnp
    >>> from mostfw.linalg import leading_singular_pair
    >>> pair = leading_singular_pair(2 * jnp.eye(2, 3), jax.random.PRNGKey(0))
    >>> round(float(pair.value), 6)
    2.0
    """

    value: Float[Array, ""]
    left: Float[Array, " rows"]
    right: Float[Array, " columns"]
    residual: Float[Array, ""]
    matvecs: Int[Array, ""]
    converged: Bool[Array, ""]


class _NegativeGram(SymmetricOperator):
    """-B'B / scale^2, where B is A or, where that is smaller, A'."""

    matrix: MatrixOperator
    scale: Array
    flipped: bool = eqx.field(static=True)

    @property
    def size(self) -> int:
        return min(self.matrix.shape)

    @property
    def dtype(self) -> Any:
        return self.matrix.dtype

    def forward(self, v: Array) -> Array:
        return (self.matrix.rmatvec(v) if self.flipped else self.matrix.matvec(v)) / self.scale

    def matvec(self, v: Array) -> Array:
        product = self.forward(v)
        back = self.matrix.matvec(product) if self.flipped else self.matrix.rmatvec(product)
        return -back / self.scale


def leading_singular_pair(
    matrix: ArrayLike | MatrixOperator,
    key: Array,
    *,
    start: tuple[ArrayLike, ArrayLike] | None = None,
    tolerance: ArrayLike | Accuracy = 1e-6,
    dense_below: int = DENSE_BELOW,
    **options: int,
) -> SingularPair:
    """The largest singular value of a matrix with its two vectors.

    `start` is a guess (left, right); the other parameters are those of `smallest_eigenpair`, where
    `dense_below` is for arrays and their smaller side. The work is on A'A or AA', whichever is
    smaller: squaring spoils small singular values, but the largest keeps all its digits, and the
    symmetric form [[0, A], [A', 0]] needs twice the products, for its spectrum has two ends.

    >>> pair = leading_singular_pair(jnp.array([[0.0, 3.0], [1.0, 0.0]]), jax.random.key(0))
    >>> print(round(float(pair.value), 4), jnp.abs(pair.left).round(4))
    3.0 [1. 0.]
    """
    matrix = as_matrix(matrix)
    flipped, small = matrix.shape[0] < matrix.shape[1], min(matrix.shape)
    dense = isinstance(matrix, DenseMatrix) and small < dense_below
    # The scale keeps the squares from overflow. Where the entries are not known it costs a product.
    gram, probes = _NegativeGram(matrix, jnp.ones((), matrix.dtype), flipped), 0
    if isinstance(matrix, DenseMatrix):
        known = matrix.array
    else:
        known, probes = gram.forward(_generic(small, matrix.dtype)), 1
    gram = _NegativeGram(matrix, _nonzero(jnp.max(jnp.abs(known))), flipped)
    options.update(dense_below=dense_below if dense else 0)
    guess = None if start is None else start[0 if flipped else 1]
    # A residual r of the pair is value r in the Gram matrix, and the scale is at most the value.
    limit = Accuracy.of(tolerance, matrix.dtype).over(gram.scale)
    pair = smallest_eigenpair(gram, key, start=guess, tolerance=limit, **options)
    image = gram.forward(pair.vector)
    value = _norm(image)
    other = jnp.where(value > 0, _unit(image), jnp.zeros_like(image).at[0].set(1))
    left, right = (pair.vector, other) if flipped else (other, pair.vector)
    # B'B v - value^2 v = value (B' image/value - value v)
    residual = pair.residual / _nonzero(value)
    matvecs = jnp.int32(0) if dense else 2 * pair.matvecs + 1 + probes
    value, residual = value * gram.scale, residual * gram.scale
    return SingularPair(value, left, right, residual, matvecs, pair.converged)
