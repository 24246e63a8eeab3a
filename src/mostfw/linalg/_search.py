"""The two questions: a smallest eigenpair, a leading singular pair."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, ArrayLike

from .. import placement
from ..errors import InvalidInputError, ShapeError
from ..operators import (
    DenseMatrix,
    DenseSymmetric,
    MatrixOperator,
    SymmetricOperator,
    as_matrix,
    as_symmetric,
    dot,
)
from ..trees import replaced
from ._dense import smallest_dense, smallest_surely
from ._krylov import RESTARTS, RESTARTS_BEYOND, STEPS, smallest_krylov
from ._pairs import Accuracy, Eigenpair, SingularPair, generic, nonzero, norm_of, unit

# Microseconds for one eigenpair in a compiled loop on two CPU cores, float64, tolerance 1e-6: the
# dense path / Krylov on random symmetric matrices / Krylov on low rank plus noise:
#   n = 25: 21 / 107 / 54;  60: 96 / 156 / 75;  80: 150 / 180 / 75;  100: 235 / 240 / 80.
# (jnp.linalg.eigh: 51 at 25, 280 at 64, 700 at 100.) The paths cross between 60 and 100; from about
# 64 on LAPACK uses threads, which on a busy machine wait for each other (7,700 at n = 80).
DENSE_BELOW = 64
# Sides below which all eigenvectors are the way out of a search that failed. A program that may
# take it has room for a fourth matrix set aside, which from here on is too much.
SURE_BELOW = 256


def smallest_eigenpair(
    operator: ArrayLike | SymmetricOperator,
    key: Array,
    *,
    start: ArrayLike | None = None,
    tolerance: ArrayLike | Accuracy = 1e-6,
    steps: int | None = None,
    restarts: int | None = None,
    dense_below: int = DENSE_BELOW,
    fallback: bool = False,
) -> Eigenpair:
    """The smallest eigenvalue of a symmetric operator, and a vector of norm 1 that belongs to it.

    `tolerance` bounds the residual, relative to the operator's norm (as far as it was seen) or as
    an `Accuracy` says; it may be traced. `start` is a guess of the vector; any guess is harmless,
    for a random vector from `key` is mixed in. The Krylov basis has at most `steps` vectors and
    restarts at most `restarts` times (None: 200); operators of size below `dense_below` are solved
    as matrices, without start and key.

    With `fallback`, what has not converged then, though the operator is finite, is solved in a
    slower, sure way: arrays of side below 256 by all their eigenvectors, other operators by up to
    1000 restarts more. Else the best pair so far is returned as not `converged`.

    >>> import jax, jax.numpy as jnp
    >>> pair = smallest_eigenpair(jnp.diag(jnp.array([3.0, -1.0, 2.0])), jax.random.key(0))
    >>> print(round(float(pair.value), 4), jnp.abs(pair.vector).round(4), bool(pair.converged))
    -1.0 [0. 1. 0.] True
    """
    operator = as_symmetric(operator)
    n = operator.size
    steps = min(n, STEPS if steps is None else steps)
    restarts = RESTARTS if restarts is None else restarts
    if steps < min(n, 2) or restarts < 0:
        raise InvalidInputError(
            f"steps = {steps}, restarts = {restarts}: give at least 2 steps and 0 restarts"
        )
    if start is not None:
        start = jnp.asarray(start, operator.dtype)
        if start.shape != (n,):
            raise ShapeError(f"start has shape {start.shape}, the operator needs ({n},)")
    limit = Accuracy.of(tolerance, operator.dtype)
    if placement.spread(n):  # LAPACK would ask for the whole matrix on every device
        dense_below = 0
    formed = _formed(operator) if fallback and n < _sure_below(n) else None
    if n < dense_below:
        matrix = operator.dense()
        found = smallest_dense(matrix, limit)
        # By construction its residual is of rounding size, unless the factor it rests on is NaN.
        failed = jnp.isfinite(jnp.max(jnp.abs(matrix))) & ~jnp.isfinite(found.value)
        return _or_surely(found, failed, lambda: matrix) if fallback else found
    beyond = RESTARTS_BEYOND if fallback and formed is None else 0
    found = smallest_krylov(operator, key, start, limit, (steps, restarts, beyond))
    if formed is None:
        return found
    return _or_surely(found, jnp.isfinite(found.value) & ~found.converged, formed)


def _sure_below(rows: int) -> int:
    return 0 if placement.spread(rows) else SURE_BELOW


def _or_surely(found: Eigenpair, failed: Array, matrix: Callable[[], Array]) -> Eigenpair:
    """What was found unless it failed, else what all eigenvectors of the matrix say.

    A loop of at most one turn and no `cond`, of which `vmap` would run both branches at each step.
    """

    def solve(_: tuple[Array, Eigenpair]) -> tuple[Array, Eigenpair]:
        return jnp.zeros((), bool), smallest_surely(matrix())

    nothing = jax.tree.map(jnp.zeros_like, found)
    _, sure = lax.while_loop(lambda carry: carry[0], solve, (failed, nothing))
    better = failed & sure.converged
    kept = jax.tree.map(lambda new, old: jnp.where(better, new, old), sure, found)
    return replaced(kept, matvecs=found.matvecs, fallbacks=found.fallbacks + sure.fallbacks)


def _formed(operator: SymmetricOperator) -> Callable[[], Array] | None:
    """How to write an operator as a matrix where its numbers are at hand."""
    if isinstance(operator, DenseSymmetric):
        return operator.dense
    if isinstance(operator, _NegativeGram) and isinstance(operator.matrix, DenseMatrix):
        return operator.formed
    return None


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

    def formed(self) -> Array:
        assert isinstance(self.matrix, DenseMatrix)
        b = self.matrix.array / self.scale
        return -(dot(b, b.T) if self.flipped else dot(b.T, b))

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
    **options: Any,
) -> SingularPair:
    """The largest singular value of a matrix with its two vectors.

    `start` is a guess (left, right); the other parameters are those of `smallest_eigenpair`, where
    `dense_below` is for arrays and their smaller side. The work is on A'A or AA', whichever is
    smaller: squaring spoils small singular values, but the largest keeps all its digits, and the
    symmetric form [[0, A], [A', 0]] needs twice the products, for its spectrum has two ends.

    >>> import jax, jax.numpy as jnp
    >>> pair = leading_singular_pair(jnp.array([[0.0, 3.0], [1.0, 0.0]]), jax.random.key(0))
    >>> print(round(float(pair.value), 4), jnp.abs(pair.left).round(4))
    3.0 [1. 0.]
    """
    matrix = as_matrix(matrix)
    flipped, small = matrix.shape[0] < matrix.shape[1], min(matrix.shape)
    dense = isinstance(matrix, DenseMatrix) and small < dense_below
    dense = dense and not placement.spread(matrix.shape[0])
    # The scale keeps the squares from overflow. Where the entries are not known it costs a product.
    gram, probes = _NegativeGram(matrix, jnp.ones((), matrix.dtype), flipped), 0
    if isinstance(matrix, DenseMatrix):
        known = matrix.array
    else:
        known, probes = gram.forward(generic(small, matrix.dtype)), 1
    gram = _NegativeGram(matrix, nonzero(jnp.max(jnp.abs(known))), flipped)
    options.update(dense_below=dense_below if dense else 0)
    guess = None if start is None else start[0 if flipped else 1]
    # A residual r of the pair is value r in the Gram matrix, and the scale is at most the value.
    limit = Accuracy.of(tolerance, matrix.dtype).over(gram.scale)
    pair = smallest_eigenpair(gram, key, start=guess, tolerance=limit, **options)
    image = gram.forward(pair.vector)
    value = norm_of(image)
    other = jnp.where(value > 0, unit(image), jnp.zeros_like(image).at[0].set(1))
    left, right = (pair.vector, other) if flipped else (other, pair.vector)
    # B'B v - value^2 v = value (B' image/value - value v)
    residual = pair.residual / nonzero(value)
    matvecs = jnp.int32(0) if dense else 2 * pair.matvecs + 1 + probes
    value, residual = value * gram.scale, residual * gram.scale
    return SingularPair(value, left, right, residual, matvecs, pair.converged, pair.fallbacks)
