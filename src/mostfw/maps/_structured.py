"""Maps with structure: none of them stores a matrix."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .. import checks, placement, resources, trees
from ..atoms import RankOneSymmetric
from ..errors import InvalidInputError, ShapeError
from ..trees import Point, Structure, replaced
from ._base import MAPS, LinearMap, Residual

# How many rows of a map without storage are formed at a time. On a CPU a loop over slabs is slower
# than one slab by 1.5 to 3 times, so this is as large as memory easily allows: n = 322 in one.
SLAB_NUMBERS = 2**25
UNROLLED = 16  # matrices that are summed up in one pass
BY_ROWS_FROM = 48  # side from which that takes less time than a sum over an axis, on a CPU


def _require_square(linear_map: LinearMap, structure: Structure, least: int = 1) -> None:
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
        _require_square(self, structure)
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
        _require_square(self, structure)
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

    @staticmethod
    def examples() -> list[tuple[LinearMap, Any, bool]]:
        return [(TotalSpread(), np.zeros((4, 4)), True)]


class Slab(NamedTuple):
    """`size` entries of an axis, from `first` on."""

    first: Any
    size: int

    def of(self, array: jax.Array) -> jax.Array:
        """These rows of an array."""
        return lax.dynamic_slice_in_dim(array, self.first, self.size)


def _by_slabs(n: int, function: Callable[[Slab], jax.Array]) -> jax.Array:
    """function(slab) for all n rows, slab by slab; each may form size x n x n numbers."""
    size = max(1, min(n, SLAB_NUMBERS // (n * n)))
    slabs, left = divmod(n, size)
    if slabs == 1 and not left:
        return function(Slab(0, n))
    found = lax.map(lambda index: function(Slab(index * size, size)), jnp.arange(slabs))
    found = found.reshape(slabs * size, n)
    return jnp.concatenate([found, function(Slab(slabs * size, left))]) if left else found


def _sum_over_rows(x: jax.Array, term: Callable[[jax.Array, jax.Array], jax.Array]) -> jax.Array:
    """The sum of term(x[j], x[j, j]), each of the shape of x, over all j: UNROLLED in one pass."""
    n = x.shape[0]
    diagonal = jnp.diagonal(x)

    def block(first: Any, size: int, total: jax.Array) -> jax.Array:
        slab = Slab(first, size)
        rows, corners = lax.optimization_barrier((slab.of(x), slab.of(diagonal)))
        for index in range(size):
            total = total + term(rows[index], corners[index])
        return total

    blocks, left = divmod(n, UNROLLED)
    total = jnp.zeros_like(x)
    total = lax.fori_loop(0, blocks, lambda b, t: block(b * UNROLLED, UNROLLED, t), total)
    return block(n - left, left, total) if left else total


@MAPS.register
class Triangles(LinearMap):
    """All triangle inequalities of a Gram matrix: X_ij + X_jk - X_ik - X_jj, none stored.

    Each middle j with each unordered pair {i, k} of others is one row: n (n-1) (n-2) / 2 of them,
    6,900 for n = 25. Rows are numbered by (j, i, k) with i < k in an n x n x n array whose other
    places are 0; directions and distances are had without it.

    >>> import numpy as np
    >>> from mostfw.maps import Triangles
    >>> from mostfw.trees import structure_of
    >>> Triangles().rows(structure_of(np.zeros((25, 25))))
    6900
    """

    stored: ClassVar[bool] = False
    side: int | None = eqx.field(static=True, default=None)  # known as part of a Problem

    @property
    def symmetric(self) -> bool:
        return True

    def rows(self, structure: Structure) -> int:
        n = structure.shape[0]
        return n * (n - 1) * (n - 2) // 2

    def _rows(self, x: jax.Array, middles: Slab) -> jax.Array:
        """Those of some middles by (j, i, k): with (k, i) too, and also where i, j and k are not
        three nodes."""
        # grouped so that rows with j = i or j = k are 0 exactly, whatever the rounding
        near = middles.of(x)
        return (near - middles.of(jnp.diagonal(x))[:, None])[:, :, None] + (near[:, None, :] - x)

    def pull(self, x: Point, residual: Residual) -> Point:
        n = x.shape[0]
        apart = ~jnp.eye(n, dtype=bool)
        nothing = residual(jnp.zeros((), x.dtype))
        elsewhere = placement.active() or resources.accelerator_bytes() is not None
        if n < BY_ROWS_FROM or elsewhere:
            ends, across = self._sums(x, residual, apart)
        else:
            ends, across = self._sums_by_rows(x, residual)
        # rows with j = i or j = k are no rows, and say what 0 says
        ends = jnp.where(apart, ends - nothing, 0)
        return self._put(ends, jnp.where(apart, across / 2 - nothing, 0))

    def _sums_by_rows(self, x: jax.Array, residual: Residual) -> tuple[jax.Array, jax.Array]:
        """As `_sums`, each the sum of n matrices that are functions of x entry by entry. On a CPU
        that is computed in registers, and at n = 102 five times as fast as a sum over an axis, of
        which the compiler stores all the summands."""
        diagonal = jnp.diagonal(x)

        def to_end(row: jax.Array, _: jax.Array) -> jax.Array:  # row k: by (j, i)
            return residual((x - diagonal[:, None]) + (row[:, None] - row[None, :]))

        def over_middle(row: jax.Array, corner: jax.Array) -> jax.Array:  # row j: by (i, k)
            return residual((row - corner)[:, None] + (row[None, :] - x))

        same = residual((x - diagonal[:, None]) + (x - diagonal[None, :]))  # i = k
        return _sum_over_rows(x, to_end) - same, _sum_over_rows(x, over_middle)

    def _sums(
        self, x: jax.Array, residual: Residual, apart: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Of the rows with two different ends: by (j, i), and by (i, k)."""
        # Each formed anew with the summed index last: of all ways tried on a GPU the fastest. Rows
        # with j = i or j = k are taken off afterwards: a mask of all three would double the time,
        # and none, by which the compiler splits each sum, treble it.
        n = x.shape[0]

        def ends_of(middles: Slab) -> jax.Array:
            rows = residual(self._rows(x, middles))
            return jnp.sum(jnp.where(apart, rows, 0), axis=2)

        def across_of(first: Slab) -> jax.Array:  # by (i, k, j)
            near = first.of(x)
            to_middle = (near - jnp.diagonal(x))[:, None, :]
            rows = residual(to_middle + (x - near[:, :, None]))
            return jnp.sum(jnp.where(first.of(apart)[:, :, None], rows, 0), axis=2)

        return _by_slabs(n, ends_of), _by_slabs(n, across_of)

    def _put(self, ends: jax.Array, across: jax.Array) -> jax.Array:
        y = ends - across
        return (y + y.T) / 2 - jnp.diag(jnp.sum(ends, axis=1) / 2)

    def squares(self, x: Point, residual: Residual) -> jax.Array:
        def squares_of(middles: Slab) -> jax.Array:
            once = self._once(x.shape[0], middles)
            return jnp.sum(jnp.where(once, residual(self._rows(x, middles)), 0) ** 2, axis=2)

        return jnp.sum(_by_slabs(x.shape[0], squares_of))

    def forward(self, x: Point) -> jax.Array:
        return self.residual(x, lambda rows: rows)

    def placed(self, u: jax.Array) -> jax.Array:
        return jnp.where(self._once(u.shape[0], Slab(0, u.shape[0])), u, 0)

    def adjoint(self, u: jax.Array, structure: Structure) -> Point:
        once = self.placed(u)
        return self._put(jnp.sum(once, axis=2) + jnp.sum(once, axis=1), jnp.sum(once, axis=0))

    def residual(self, x: Point, residual: Residual) -> jax.Array:
        return self.placed(residual(self._rows(x, Slab(0, x.shape[0]))))

    def _once(self, n: int, middles: Slab) -> jax.Array:
        """Where j, i and k are three nodes and i < k."""
        i, k = jnp.arange(n)[:, None], jnp.arange(n)[None, :]
        j = middles.of(jnp.arange(n))[:, None, None]
        return (i < k) & (i != j) & (k != j)

    def draw(self, key: Any, size: int, rows: int) -> Any:
        n = self._side
        middle_key, first_key, second_key = jax.random.split(key, 3)
        j = jax.random.randint(middle_key, (size,), 0, n)
        first = jax.random.randint(first_key, (size,), 1, n)
        second = jax.random.randint(second_key, (size,), 1, n - 1)
        second = second + (second >= first)
        i, k = (j + first) % n, (j + second) % n
        return j, jnp.minimum(i, k), jnp.maximum(i, k)

    def entries(self, x: Point, rows: Any) -> jax.Array:
        j, i, k = rows
        return x[j, i] + x[j, k] - x[i, k] - x[j, j]

    def scatter(self, y: Point, values: jax.Array, rows: Any) -> Point:
        j, i, k = rows
        half = values / 2
        at = (
            jnp.concatenate([i, j, j, k, i, k, j]),
            jnp.concatenate([j, i, k, j, k, i, j]),
        )
        return y.at[at].add(jnp.concatenate([half] * 4 + [-half] * 2 + [-values]))

    def slot(self, rows: Any) -> jax.Array:
        j, i, k = rows
        n = self._side
        return (j * n + i) * n + k

    @property
    def _side(self) -> int:
        if self.side is None:
            raise InvalidInputError("Triangles must be part of a Problem before it has a table.")
        return self.side

    def slots(self, structure: Structure) -> int:
        return structure.shape[0] ** 3

    def resolve(self, structure: Structure) -> LinearMap:
        _require_square(self, structure, least=3)
        return Triangles(side=structure.shape[0])

    @staticmethod
    def examples() -> list[tuple[LinearMap, Any, bool]]:
        return [(Triangles(side=n), np.zeros((n, n)), True) for n in (3, 5, 8)]
