"""Maps with structure: none of them stores a matrix."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .. import checks, trees
from ..atoms import RankOneSymmetric
from ..errors import ShapeError
from ..trees import Point, Structure, replaced
from ._base import MAPS, LinearMap


def require_square(linear_map: LinearMap, structure: Structure, least: int = 1) -> None:
    """Refuses points that are not square matrices, or smaller than this."""
    shape = getattr(structure, "shape", ())
    if len(shape) != 2 or shape[0] != shape[1] or shape[0] < least:
        side = "" if least == 1 else f" of side {least} or more"
        raise ShapeError(
            f"{type(linear_map).__name__} needs a square matrix{side}, not points of shape "
            f"{trees.describe(structure)}."
        )


class OfSquare(LinearMap):
    """A map of symmetric matrices."""

    @property
    def symmetric(self) -> bool:
        return True

    def resolve(self, structure: Structure) -> LinearMap:
        require_square(self, structure)
        return self


@MAPS.register
class Identity(LinearMap):
    """Gx = x. `symmetric=True` (for symmetric matrices) spreads a sampled entry to both places.

    >>> import jax.numpy as jnp
    >>> from mostfw.maps import Identity
    >>> Identity().forward(jnp.ones(2)).tolist()
    [1.0, 1.0]
    """

    pointwise: ClassVar[bool] = True
    is_symmetric: bool = eqx.field(static=True)
    side: int = eqx.field(static=True)

    def __init__(self, symmetric: bool = False) -> None:
        self.is_symmetric, self.side = symmetric, 0

    @property
    def symmetric(self) -> bool:
        return self.is_symmetric

    def resolve(self, structure: Structure) -> LinearMap:
        if not self.is_symmetric:
            return self
        require_square(self, structure)
        return replaced(self, side=structure.shape[0])

    def draw(self, key: Any, size: int, rows: int) -> Any:
        if not self.is_symmetric:
            return super().draw(key, size, rows)
        # Row and column apart: n^2 does not fit 32 bits above n = 46,340.
        return tuple(jax.random.randint(key, (2, size), 0, math.isqrt(rows)))

    def slot(self, rows: Any) -> jax.Array:
        return rows[0] * self.side + rows[1] if self.is_symmetric else rows

    def places(self, rows: Any) -> jax.Array:
        if not self.is_symmetric:
            return rows[None]
        return jnp.stack([self.slot(rows), self.slot((rows[1], rows[0]))])

    def forward(self, x: Point) -> jax.Array:
        return x

    def adjoint(self, u: jax.Array, structure: Structure) -> Point:
        return u

    def adjoint_size(self, u: jax.Array, structure: Structure) -> jax.Array | None:
        return trees.norm(u)

    def product(self, u: jax.Array, v: jax.Array, structure: Structure) -> jax.Array:
        return jnp.sum(u * v, axis=1)  # not `dot`: a sum is fused with what forms u

    def entries(self, x: Point, rows: Any) -> jax.Array:
        return x[rows] if self.is_symmetric else x.reshape(-1)[rows]

    def scatter(self, y: Point, values: jax.Array, rows: Any) -> Point:
        if self.is_symmetric:
            return trees.add_symmetric(y, rows[0], rows[1], values)
        return y.reshape(-1).at[rows].add(values).reshape(y.shape)

    @staticmethod
    def examples() -> list[tuple[LinearMap, Any, bool]]:
        return [
            (Identity(), np.zeros(4), False),
            (Identity(), np.zeros((2, 3)), False),
            (Identity(symmetric=True), np.zeros((4, 4)), True),
        ]


@MAPS.register
class RowSums(OfSquare):
    """Gx = X 1 for a symmetric X; the adjoint is the symmetric part of u 1'.

    >>> import jax.numpy as jnp
    >>> from mostfw.maps import RowSums
    >>> RowSums().forward(jnp.eye(2)).tolist()
    [1.0, 1.0]
    """

    thin: ClassVar[bool] = True

    def forward(self, x: Point) -> jax.Array:
        return jnp.sum(x, axis=1)

    def image_of(self, atom: Any) -> jax.Array | None:
        if not isinstance(atom, RankOneSymmetric):
            return None
        return (atom.scale * jnp.sum(atom.vector)) * atom.vector

    def adjoint(self, u: jax.Array, structure: Structure) -> Point:
        return (u[:, None] + u[None, :]) / 2

    def product(self, u: jax.Array, v: jax.Array, structure: Structure) -> jax.Array:
        return (u * jnp.sum(v) + jnp.sum(u * v)) / 2

    def adjoint_norm(self, u: jax.Array, structure: Structure) -> jax.Array:
        return jnp.sqrt((u.size * jnp.sum(u * u) + jnp.sum(u) ** 2) / 2)

    def adjoint_size(self, u: jax.Array, structure: Structure) -> jax.Array | None:
        return self.adjoint_norm(jnp.abs(u), structure)

    def entries(self, x: Point, rows: Any) -> jax.Array:
        return jnp.sum(x[rows], axis=1)

    def scatter(self, y: Point, values: jax.Array, rows: Any) -> Point:
        return y.at[rows].add(values[:, None] / 2).at[:, rows].add(values[None, :] / 2)

    @staticmethod
    def examples() -> list[tuple[LinearMap, Any, bool]]:
        return [(RowSums(), np.zeros((4, 4)), True), (RowSums(), np.zeros((1, 1)), True)]


@MAPS.register
class Entries(LinearMap):
    """Gx = the entries x[rows, columns]; `symmetric=True` for symmetric matrices.

    >>> import jax.numpy as jnp
    >>> from mostfw.maps import Entries
    >>> Entries([0], [1]).forward(jnp.arange(4.0).reshape(2, 2)).tolist()
    [1.0]
    """

    row_index: Any
    column_index: Any
    is_symmetric: bool = eqx.field(static=True)

    def __init__(self, rows: Any, columns: Any, symmetric: bool = False) -> None:
        self.row_index = checks.indices("the rows of Entries", rows)
        self.column_index = checks.indices("the columns of Entries", columns)
        self.is_symmetric = symmetric
        if self.row_index.shape != self.column_index.shape or self.row_index.ndim != 1:
            raise ShapeError(
                f"Entries needs as many rows as columns, got {self.row_index.shape} and "
                f"{self.column_index.shape}."
            )

    @property
    def symmetric(self) -> bool:
        return self.is_symmetric

    def resolve(self, structure: Structure) -> LinearMap:
        shape = getattr(structure, "shape", ())
        indices = (self.row_index, self.column_index)
        if len(shape) != 2 or any(
            i.size and (i.min() < 0 or i.max() >= n) for i, n in zip(indices, shape, strict=True)
        ):
            raise ShapeError(f"Entries has positions outside of a point of shape {shape}.")
        return self

    def _spread(self, y: Any, rows: Any, columns: Any, values: Any) -> Point:
        if self.is_symmetric:
            return trees.add_symmetric(y, rows, columns, values)
        return y.at[rows, columns].add(values)

    def forward(self, x: Point) -> jax.Array:
        return x[self.row_index, self.column_index]

    def image_of(self, atom: Any) -> jax.Array | None:
        if not isinstance(atom, RankOneSymmetric):
            return None
        v = atom.vector
        return atom.scale * v[self.row_index] * v[self.column_index]

    def adjoint(self, u: jax.Array, structure: Structure) -> Point:
        rows, columns = jnp.asarray(self.row_index), jnp.asarray(self.column_index)
        return self._spread(jnp.zeros(structure.shape, u.dtype), rows, columns, u)

    def adjoint_size(self, u: jax.Array, structure: Structure) -> jax.Array | None:
        return trees.norm(self.adjoint(jnp.abs(u), structure))

    def entries(self, x: Point, rows: Any) -> jax.Array:
        return x[jnp.asarray(self.row_index)[rows], jnp.asarray(self.column_index)[rows]]

    def scatter(self, y: Point, values: jax.Array, rows: Any) -> Point:
        i, j = jnp.asarray(self.row_index)[rows], jnp.asarray(self.column_index)[rows]
        return self._spread(y, i, j, values)

    @staticmethod
    def examples() -> list[tuple[LinearMap, Any, bool]]:
        return [
            (Entries([0, 1, 1, 0], [2, 0, 0, 0]), np.zeros((2, 3)), False),
            (Entries([0, 1, 2], [1, 1, 0], symmetric=True), np.zeros((3, 3)), True),
        ]


@MAPS.register
class Trace(OfSquare):
    """Gx = (tr X).

    >>> import jax.numpy as jnp
    >>> from mostfw.maps import Trace
    >>> Trace().forward(jnp.eye(3)).tolist()
    [3.0]
    """

    sampleable: ClassVar[bool] = False
    thin: ClassVar[bool] = True

    def forward(self, x: Point) -> jax.Array:
        return jnp.trace(x)[None]

    def image_of(self, atom: Any) -> jax.Array | None:
        if not isinstance(atom, RankOneSymmetric):
            return None
        return (atom.scale * jnp.sum(atom.vector**2))[None]

    def adjoint(self, u: jax.Array, structure: Structure) -> Point:
        return u[0] * jnp.eye(*structure.shape, dtype=u.dtype)

    def product(self, u: jax.Array, v: jax.Array, structure: Structure) -> jax.Array:
        return u[0] * v

    def adjoint_norm(self, u: jax.Array, structure: Structure) -> jax.Array:
        return jnp.abs(u[0]) * math.sqrt(structure.shape[0])

    def adjoint_size(self, u: jax.Array, structure: Structure) -> jax.Array | None:
        return self.adjoint_norm(jnp.abs(u), structure)

    @staticmethod
    def examples() -> list[tuple[LinearMap, Any, bool]]:
        return [(Trace(), np.zeros((3, 3)), True)]


@MAPS.register
class TotalSpread(OfSquare):
    """Gx = (n tr X - 1'X1): for a Gram matrix, the squared distances of all pairs, summed.

    >>> import jax.numpy as jnp
    >>> from mostfw.maps import TotalSpread
    >>> TotalSpread().forward(jnp.diag(jnp.array([1.0, 0.0]))).tolist()
    [1.0]
    """

    sampleable: ClassVar[bool] = False
    thin: ClassVar[bool] = True

    def forward(self, x: Point) -> jax.Array:
        return (x.shape[0] * jnp.trace(x) - jnp.sum(x))[None]

    def image_of(self, atom: Any) -> jax.Array | None:
        if not isinstance(atom, RankOneSymmetric):
            return None
        v = atom.vector
        return (atom.scale * (v.shape[0] * jnp.sum(v**2) - jnp.sum(v) ** 2))[None]

    def adjoint(self, u: jax.Array, structure: Structure) -> Point:
        n = structure.shape[0]
        return u[0] * (n * jnp.eye(n, dtype=u.dtype) - 1)

    def product(self, u: jax.Array, v: jax.Array, structure: Structure) -> jax.Array:
        return u[0] * (structure.shape[0] * v - jnp.sum(v))

    def adjoint_norm(self, u: jax.Array, structure: Structure) -> jax.Array:
        n = structure.shape[0]
        return jnp.abs(u[0]) * (n * math.sqrt(n - 1))

    def adjoint_size(self, u: jax.Array, structure: Structure) -> jax.Array | None:
        return jnp.abs(u[0]) * (2 * structure.shape[0] ** 1.5)  # n^2 summands of n and of 1

    @staticmethod
    def examples() -> list[tuple[LinearMap, Any, bool]]:
        return [(TotalSpread(), np.zeros((4, 4)), True)]
