"""Operators: matrices known by their products, for the eigenpair and singular pair searches."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, ArrayLike, Float

from . import placement
from .errors import InvalidInputError, ShapeError


def dot(a: Array, b: Array) -> Array:
    # float32 products would otherwise run in TF32 on GPUs, with three digits
    return jnp.matmul(a, b, precision=lax.Precision.HIGHEST)


def total(a: Array) -> Array:
    """The sum of all entries, by rows as a product with ones: on a CPU a sum of what is computed on
    the way runs on one core, and takes longer than eight products.

    >>> import jax.numpy as jnp
    >>> from mostfw.operators import total
    >>> float(total(jnp.ones((2, 3, 4))))
    24.0
    """
    return jnp.sum(a if a.ndim < 2 else dot(a, jnp.ones(a.shape[-1], a.dtype)))


class SymmetricOperator(eqx.Module):
    """A symmetric n x n matrix, known by its products with vectors.

    >>> class Diagonal(SymmetricOperator):
    ...     entries: jax.Array
    ...     size = property(lambda self: self.entries.shape[0])
    ...     dtype = property(lambda self: self.entries.dtype)
    ...     def matvec(self, v):
    ...         return self.entries * v
    >>> from mostfw.linalg import smallest_eigenpair
    >>> pair = smallest_eigenpair(Diagonal(jnp.linspace(-1.0, 1.0, 200)), jax.random.key(0))
    >>> print(round(float(pair.value), 4))
    -1.0
    """

    @property
    @abstractmethod
    def size(self) -> int: ...

    @property
    @abstractmethod
    def dtype(self) -> Any: ...

    @abstractmethod
    def matvec(self, v: Float[Array, " n"]) -> Float[Array, " n"]: ...

    def dense(self) -> Float[Array, "n n"]:
        """The matrix itself, asked only of small operators; override where it is known."""
        return jax.vmap(self.matvec)(jnp.eye(self.size, dtype=self.dtype))


class DenseSymmetric(SymmetricOperator):
    """A symmetric array as an operator; its symmetry is taken on trust.

    >>> import jax.numpy as jnp
    >>> from mostfw.operators import DenseSymmetric
    >>> DenseSymmetric(2 * jnp.eye(2)).matvec(jnp.ones(2)).tolist()
    [2.0, 2.0]
    """

    array: Float[Array, "n n"]

    @property
    def size(self) -> int:
        return self.array.shape[0]

    @property
    def dtype(self) -> Any:
        return self.array.dtype

    def matvec(self, v: Float[Array, " n"]) -> Float[Array, " n"]:
        # said, for the whole product might be made on every device, of the whole matrix
        return placement.by_rows(dot(self.array, v))

    def dense(self) -> Float[Array, "n n"]:
        return self.array


class MatrixOperator(eqx.Module):
    """A rectangular matrix A, known by its products A v and A' u."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]: ...

    @property
    @abstractmethod
    def dtype(self) -> Any: ...

    @abstractmethod
    def matvec(self, v: Float[Array, " columns"]) -> Float[Array, " rows"]: ...

    @abstractmethod
    def rmatvec(self, u: Float[Array, " rows"]) -> Float[Array, " columns"]: ...


class DenseMatrix(MatrixOperator):
    """An array as an operator.

    >>> import jax.numpy as jnp
    >>> from mostfw.operators import DenseMatrix
    >>> DenseMatrix(jnp.ones((1, 2))).matvec(jnp.ones(2)).tolist()
    [2.0]
    """

    array: Float[Array, "rows columns"]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def dtype(self) -> Any:
        return self.array.dtype

    def matvec(self, v: Float[Array, " columns"]) -> Float[Array, " rows"]:
        return placement.by_rows(dot(self.array, v))

    def rmatvec(self, u: Float[Array, " rows"]) -> Float[Array, " columns"]:
        return dot(placement.by_rows(u), self.array)


def _matrix(a: ArrayLike) -> Array:
    array = jnp.asarray(a)
    if array.ndim != 2 or 0 in array.shape:
        raise ShapeError(f"expected a matrix with rows and columns, got shape {array.shape}")
    if jnp.issubdtype(array.dtype, jnp.complexfloating):
        raise InvalidInputError(f"expected a real matrix, got {array.dtype}: take its real part")
    # integers and the half precisions, for which there is no factorisation, go up
    return array.astype(jnp.promote_types(array.dtype, jnp.float32))


def as_symmetric(a: ArrayLike | SymmetricOperator) -> SymmetricOperator:
    """An array becomes a `DenseSymmetric`; an operator stays itself.

    >>> type(as_symmetric(jnp.eye(2))).__name__
    'DenseSymmetric'
    """
    if isinstance(a, SymmetricOperator):
        return a
    array = _matrix(a)
    if array.shape[0] != array.shape[1]:
        raise ShapeError(f"a symmetric operator is square, got shape {array.shape}")
    return DenseSymmetric(array)


def as_matrix(a: ArrayLike | MatrixOperator) -> MatrixOperator:
    """An array becomes a `DenseMatrix`; an operator stays itself.

    >>> as_matrix([[1.0, 2.0]]).shape
    (1, 2)
    """
    return a if isinstance(a, MatrixOperator) else DenseMatrix(_matrix(a))
