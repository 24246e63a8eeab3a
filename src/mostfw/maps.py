"""Linear maps G with adjoints, whole or row by row: the left-hand sides of constraints."""

from __future__ import annotations

import abc
import math
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse
from jax import lax
from jax.flatten_util import ravel_pytree

from . import trees
from .errors import InvalidInputError, ShapeError
from .registry import Registry
from .trees import Point, Structure

MAPS: Registry = Registry("linear map")

BLOCK_NUMBERS = 2**18  # how many rows of a map without storage are formed at a time


class LinearMap(eqx.Module):
    """x -> Gx. `forward` and `adjoint` are enough for whole constraints; sampled ones also need
    `entries` and `scatter`, which touch only the rows drawn."""

    sampleable: ClassVar[bool] = True
    blocked: ClassVar[bool] = False  # rows come in several blocks, never all at once

    @property
    def symmetric(self) -> bool:
        """Whether the adjoint's matrices are symmetric (for a symmetric u, if u is a matrix)."""
        return False

    @abc.abstractmethod
    def forward(self, x: Point) -> jax.Array:
        """Gx."""

    @abc.abstractmethod
    def adjoint(self, u: jax.Array, structure: Structure) -> Point:
        """G'u, with the structure of a point."""

    def rows(self, structure: Structure) -> int:
        """How many scalar rows G has on points of this structure."""
        return math.prod(jax.eval_shape(self.forward, structure).shape)

    def fold(self, x: Point, function: Callable[..., Any], carry: Any) -> Any:
        """Calls `carry = function(carry, rows, back)` for each block of rows of Gx, where
        `back(u)` is the adjoint of those rows. Most maps have one block."""
        structure = trees.structure_of(x)
        return function(carry, self.forward(x), lambda u: self.adjoint(u, structure))

    def draw(self, key: Any, size: int, rows: int) -> Any:
        """Rows drawn uniformly, with replacement."""
        return jax.random.randint(key, (size,), 0, rows)

    def entries(self, x: Point, rows: Any) -> jax.Array:
        """(Gx) at the drawn rows."""
        raise _not_sampleable(self)

    def scatter(self, y: Point, values: jax.Array, rows: Any) -> Point:
        """y + sum of values[i] times row i of G."""
        raise _not_sampleable(self)

    def slot(self, rows: Any) -> jax.Array:
        """Flat positions of the drawn rows in a table."""
        return rows

    def slots(self, structure: Structure) -> int:
        """The size of that table."""
        return self.rows(structure)

    def resolve(self, structure: Structure) -> LinearMap:
        """Checked against the structure of a point."""
        return self


def _not_sampleable(linear_map: LinearMap) -> InvalidInputError:
    return InvalidInputError(
        f"{type(linear_map).__name__} cannot be sampled row by row: give a matrix, a structured "
        "map, or a Function with at= and rows=."
    )


def _add_symmetric(
    y: jax.Array, rows: jax.Array, columns: jax.Array, values: jax.Array
) -> jax.Array:
    """values/2 at (row, column) and at (column, row)."""
    both = (jnp.concatenate([rows, columns]), jnp.concatenate([columns, rows]))
    return y.at[both].add(jnp.tile(values / 2, 2))


@MAPS.register
class Identity(LinearMap):
    """Gx = x. `symmetric=True` (for symmetric matrices) spreads a sampled entry to both places.

    >>> import jax.numpy as jnp
    >>> from mostfw.maps import Identity
    >>> Identity().forward(jnp.ones(2)).tolist()
    [1.0, 1.0]
    """

    is_symmetric: bool = eqx.field(static=True, default=False)

    @property
    def symmetric(self) -> bool:
        return self.is_symmetric

    def forward(self, x: Point) -> jax.Array:
        return x

    def adjoint(self, u: jax.Array, structure: Structure) -> Point:
        return u

    def entries(self, x: Point, rows: Any) -> jax.Array:
        return x.reshape(-1)[rows]

    def scatter(self, y: Point, values: jax.Array, rows: Any) -> Point:
        if self.is_symmetric:
            return _add_symmetric(y, *jnp.divmod(rows, y.shape[1]), values)
        return y.reshape(-1).at[rows].add(values).reshape(y.shape)

    @staticmethod
    def examples() -> list[tuple[LinearMap, Any, bool]]:
        return [
            (Identity(), np.zeros(4), False),
            (Identity(), np.zeros((2, 3)), False),
            (Identity(is_symmetric=True), np.zeros((4, 4)), True),
        ]


@MAPS.register
class RowSums(LinearMap):
    """Gx = X 1 for a symmetric X; the adjoint is the symmetric part of u 1'.

    >>> import jax.numpy as jnp
    >>> from mostfw.maps import RowSums
    >>> RowSums().forward(jnp.eye(2)).tolist()
    [1.0, 1.0]
    """

    @property
    def symmetric(self) -> bool:
        return True

    def forward(self, x: Point) -> jax.Array:
        return jnp.sum(x, axis=1)

    def adjoint(self, u: jax.Array, structure: Structure) -> Point:
        return (u[:, None] + u[None, :]) / 2

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
        self.row_index = np.asarray(rows, np.int32)
        self.column_index = np.asarray(columns, np.int32)
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
            return _add_symmetric(y, rows, columns, values)
        return y.at[rows, columns].add(values)

    def forward(self, x: Point) -> jax.Array:
        return x[self.row_index, self.column_index]

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
class Trace(LinearMap):
    """Gx = (tr X).

    >>> import jax.numpy as jnp
    >>> from mostfw.maps import Trace
    >>> Trace().forward(jnp.eye(3)).tolist()
    [3.0]
    """

    sampleable: ClassVar[bool] = False

    @property
    def symmetric(self) -> bool:
        return True

    def forward(self, x: Point) -> jax.Array:
        return jnp.trace(x)[None]

    def adjoint(self, u: jax.Array, structure: Structure) -> Point:
        return u[0] * jnp.eye(*structure.shape, dtype=u.dtype)

    @staticmethod
    def examples() -> list[tuple[LinearMap, Any, bool]]:
        return [(Trace(), np.zeros((3, 3)), True)]


@MAPS.register
class Triangles(LinearMap):
    """All triangle inequalities of a Gram matrix: X_ij + X_jk - X_ik - X_jj, none stored.

    Each middle j with each unordered pair {i, k} of others is one row: n (n-1) (n-2) / 2 of them,
    6,900 for n = 25. Rows are numbered by (j, i, k) with i < k in an n x n x n array whose other
    places are 0; they are formed a block of middles at a time.

    >>> import numpy as np
    >>> from mostfw.maps import Triangles
    >>> from mostfw.trees import structure_of
    >>> Triangles().rows(structure_of(np.zeros((25, 25))))
    6900
    """

    blocked: ClassVar[bool] = True

    @property
    def symmetric(self) -> bool:
        return True

    def rows(self, structure: Structure) -> int:
        n = structure.shape[0]
        return n * (n - 1) * (n - 2) // 2

    def _valid(self, middles: jax.Array, n: int) -> jax.Array:
        i, k = jnp.arange(n)[:, None], jnp.arange(n)[None, :]
        j = middles[:, None, None]
        return (i < k) & (i != j) & (k != j)

    def _rows_of(self, x: jax.Array, middles: jax.Array) -> jax.Array:
        to_middle = x[middles]
        values = (
            to_middle[:, :, None]
            + to_middle[:, None, :]
            - x[None]
            - x[middles, middles][:, None, None]
        )
        return jnp.where(self._valid(middles, x.shape[0]), values, 0)

    def _back(self, u: jax.Array, middles: jax.Array) -> jax.Array:
        u = jnp.where(self._valid(middles, u.shape[1]), u, 0)
        ends = jnp.sum(u, axis=2) + jnp.sum(u, axis=1)  # what each (j, end) receives
        total = jnp.sum(ends, axis=1) / 2
        y = jnp.zeros(u.shape[1:], u.dtype).at[middles].add(ends) - jnp.sum(u, axis=0)
        y = (y + y.T) / 2
        return y.at[middles, middles].add(-total)

    def forward(self, x: Point) -> jax.Array:
        return self._rows_of(x, jnp.arange(x.shape[0]))

    def adjoint(self, u: jax.Array, structure: Structure) -> Point:
        return self._back(u, jnp.arange(u.shape[0]))

    def fold(self, x: Point, function: Callable[..., Any], carry: Any) -> Any:
        n = x.shape[0]
        size = max(1, min(n, BLOCK_NUMBERS // (n * n)))
        blocks, left = divmod(n, size)

        def one(first: Any, carry: Any, size: int) -> Any:
            middles = first + jnp.arange(size)
            return function(carry, self._rows_of(x, middles), lambda u: self._back(u, middles))

        if blocks == 1:
            carry = one(0, carry, size)
        else:
            carry = lax.fori_loop(0, blocks, lambda b, c: one(b * size, c, size), carry)
        return one(blocks * size, carry, left) if left else carry

    def draw(self, key: Any, size: int, rows: int) -> Any:
        # n from the number of rows, n (n-1) (n-2) / 2
        n = round((2 * rows) ** (1 / 3)) + 1
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

    side: int | None = eqx.field(static=True, default=None)

    @property
    def _side(self) -> int:
        if self.side is None:
            raise InvalidInputError("Triangles must be part of a Problem before it has a table.")
        return self.side

    def slots(self, structure: Structure) -> int:
        return structure.shape[0] ** 3

    def resolve(self, structure: Structure) -> LinearMap:
        shape = getattr(structure, "shape", ())
        if len(shape) != 2 or shape[0] != shape[1] or shape[0] < 3:
            raise ShapeError(f"Triangles needs a square matrix of side 3 or more, got {shape}.")
        return Triangles(side=shape[0])

    @staticmethod
    def examples() -> list[tuple[LinearMap, Any, bool]]:
        return [(Triangles(side=n), np.zeros((n, n)), True) for n in (3, 5, 8)]


@MAPS.register
class Dense(LinearMap):
    """Gx = matrix @ vec(x), vec running over all leaves of x in order.

    >>> import numpy as np
    >>> from mostfw.maps import Dense
    >>> Dense(np.array([[1.0, 2.0]])).forward(np.ones(2)).tolist()
    [3.0]
    """

    matrix: Any

    def __init__(self, matrix: Any) -> None:
        if np.ndim(matrix) != 2:
            raise ShapeError(f"a matrix G needs two axes, got shape {np.shape(matrix)}.")
        if not np.all(np.isfinite(np.asarray(matrix))):
            raise InvalidInputError("the matrix G of a constraint has NaN or infinite entries.")
        self.matrix = matrix

    def resolve(self, structure: Structure) -> LinearMap:
        return _fits(self, self.matrix.shape, structure)

    def forward(self, x: Point) -> jax.Array:
        return _matmul(self.matrix, ravel_pytree(x)[0])

    def adjoint(self, u: jax.Array, structure: Structure) -> Point:
        return _unravel(structure, _matmul(u, self.matrix))

    def entries(self, x: Point, rows: Any) -> jax.Array:
        return _matmul(jnp.asarray(self.matrix)[rows], ravel_pytree(x)[0])

    def scatter(self, y: Point, values: jax.Array, rows: Any) -> Point:
        drawn = _matmul(values, jnp.asarray(self.matrix)[rows])
        return trees.plus(y, 1, _unravel(trees.structure_of(y), drawn))

    @staticmethod
    def examples() -> list[tuple[LinearMap, Any, bool]]:
        rng = np.random.default_rng(3)
        return [
            (Dense(rng.standard_normal((5, 4))), np.zeros(4), False),
            (Dense(rng.standard_normal((2, 6))), np.zeros((2, 3)), False),
            (Dense(rng.standard_normal((3, 7))), (np.zeros(3), np.zeros((2, 2))), False),
        ]


@MAPS.register
class Sparse(LinearMap):
    """Gx = matrix @ vec(x) for a scipy.sparse matrix, kept row by row.

    >>> import numpy as np, scipy.sparse
    >>> from mostfw.maps import Sparse
    >>> Sparse(scipy.sparse.csr_matrix(np.array([[0.0, 2.0]]))).forward(np.ones(2)).tolist()
    [2.0]
    """

    data: Any
    columns: Any
    row_of: Any
    row_start: Any
    shape: tuple[int, int] = eqx.field(static=True)
    longest: int = eqx.field(static=True)

    def __init__(self, matrix: Any) -> None:
        csr = scipy.sparse.csr_array(matrix)
        csr.sum_duplicates()
        if not np.all(np.isfinite(csr.data)):
            raise InvalidInputError("the matrix G of a constraint has NaN or infinite entries.")
        lengths = np.diff(csr.indptr)
        self.data, self.columns = csr.data, csr.indices.astype(np.int32)
        self.row_of = np.repeat(np.arange(csr.shape[0], dtype=np.int32), lengths)
        self.row_start = csr.indptr.astype(np.int32)
        self.shape = (int(csr.shape[0]), int(csr.shape[1]))
        self.longest = max(1, int(lengths.max(initial=0)))

    def resolve(self, structure: Structure) -> LinearMap:
        return _fits(self, self.shape, structure)

    def forward(self, x: Point) -> jax.Array:
        flat = ravel_pytree(x)[0]
        products = self.data * flat[self.columns]
        return jax.ops.segment_sum(products, self.row_of, self.shape[0], indices_are_sorted=True)

    def adjoint(self, u: jax.Array, structure: Structure) -> Point:
        flat = jnp.zeros(self.shape[1], u.dtype).at[self.columns].add(self.data * u[self.row_of])
        return _unravel(structure, flat)

    def _drawn(self, rows: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Columns and data of the drawn rows, short rows filled up with zeros."""
        start = jnp.asarray(self.row_start)
        place = start[rows][:, None] + jnp.arange(self.longest)
        inside = place < start[rows + 1][:, None]
        place = jnp.where(inside, place, 0)
        return jnp.asarray(self.columns)[place], jnp.where(inside, jnp.asarray(self.data)[place], 0)

    def entries(self, x: Point, rows: Any) -> jax.Array:
        columns, data = self._drawn(rows)
        return jnp.sum(data * ravel_pytree(x)[0][columns], axis=1)

    def scatter(self, y: Point, values: jax.Array, rows: Any) -> Point:
        columns, data = self._drawn(rows)
        flat, unravel = ravel_pytree(y)
        return unravel(flat.at[columns].add(data * values[:, None]))

    @staticmethod
    def examples() -> list[tuple[LinearMap, Any, bool]]:
        rng = np.random.default_rng(4)
        dense = rng.standard_normal((6, 9)) * (rng.random((6, 9)) < 0.4)
        dense[2] = 0
        return [
            (Sparse(scipy.sparse.csr_array(dense)), np.zeros((3, 3)), False),
            (Sparse(scipy.sparse.coo_array(dense[:, :4])), np.zeros(4), False),
        ]


@MAPS.register
class Function(LinearMap):
    """Gx = function(x) for any linear JAX function; the adjoint comes from autodiff.

    A hand-written `adjoint(u)` may be given; it is checked against the function. To sample rows,
    give `at(x, rows)` = Gx at an array of row numbers, and `rows`, their number.

    >>> import jax.numpy as jnp
    >>> from mostfw.maps import Function
    >>> Function(lambda x: jnp.cumsum(x)).forward(jnp.ones(3)).tolist()
    [1.0, 2.0, 3.0]
    """

    function: Callable[[Point], jax.Array] = eqx.field(static=True)
    own_adjoint: Callable[[jax.Array], Point] | None = eqx.field(static=True)
    at: Callable[[Point, Any], jax.Array] | None = eqx.field(static=True)
    row_count: int | None = eqx.field(static=True)
    is_symmetric: bool = eqx.field(static=True)

    def __init__(
        self,
        function: Callable[[Point], jax.Array],
        adjoint: Callable[[jax.Array], Point] | None = None,
        at: Callable[[Point, Any], jax.Array] | None = None,
        rows: int | None = None,
        symmetric: bool = False,
    ) -> None:
        self.function, self.own_adjoint = function, adjoint
        self.at, self.row_count, self.is_symmetric = at, rows, symmetric
        if (at is None) != (rows is None):
            raise InvalidInputError("a Function map that is sampled needs both at= and rows=.")

    @property
    def symmetric(self) -> bool:
        return self.is_symmetric

    @property
    def sampleable(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.at is not None

    def rows(self, structure: Structure) -> int:
        return self.row_count if self.row_count is not None else super().rows(structure)

    def forward(self, x: Point) -> jax.Array:
        return self.function(x)

    def adjoint(self, u: jax.Array, structure: Structure) -> Point:
        if self.own_adjoint is not None:
            return self.own_adjoint(u)
        return jax.vjp(self.function, trees.zeros(structure))[1](u)[0]

    def entries(self, x: Point, rows: Any) -> jax.Array:
        if self.at is None:
            raise _not_sampleable(self)
        return self.at(x, rows)

    def scatter(self, y: Point, values: jax.Array, rows: Any) -> Point:
        zero = trees.zeros(trees.structure_of(y))
        back = jax.vjp(lambda x: self.entries(x, rows), zero)[1](values)[0]
        return trees.plus(y, 1, back)

    def resolve(self, structure: Structure) -> LinearMap:
        shape = jax.eval_shape(self.function, structure).shape
        rng = np.random.default_rng(0)
        x = jax.tree.map(lambda s: rng.standard_normal(s.shape).astype(s.dtype), structure)
        u = rng.standard_normal(shape).astype(jax.tree.leaves(structure)[0].dtype)
        zero = np.asarray(self.function(trees.zeros(structure)))
        if np.any(zero != 0):
            raise InvalidInputError(
                f"the function G gives {np.max(np.abs(zero)):g} at 0, so it is not linear: "
                "move its constant part into the set X."
            )
        back = self.adjoint(jnp.asarray(u), structure)
        if trees.describe(trees.structure_of(back)) != trees.describe(structure):
            raise ShapeError(
                f"the adjoint of G gives shape {trees.describe(trees.structure_of(back))} for "
                f"points of shape {trees.describe(structure)}."
            )
        if self.is_symmetric:
            x, back = trees.symmetrised(x), trees.symmetrised(back)
        left, right = float(jnp.sum(self.function(x) * u)), float(trees.inner(x, back))
        size = float(trees.norm(self.function(x)) * trees.norm(u)) + 1e-30
        if abs(left - right) > 1e-3 * size:
            raise InvalidInputError(
                f"the adjoint of G does not match: <Gx, u> = {left:g} but <x, G'u> = {right:g} "
                "(or G is not linear). Leave adjoint= out to have it by autodiff."
            )
        return self

    @staticmethod
    def examples() -> list[tuple[LinearMap, Any, bool]]:
        def sums(x: Any) -> jax.Array:
            return jnp.cumsum(x)

        return [
            (Function(sums), np.zeros(4), False),
            (Function(sums, at=lambda x, rows: jnp.cumsum(x)[rows], rows=4), np.zeros(4), False),
            (Function(lambda x: x["a"] + 2 * x["b"]), {"a": np.zeros(3), "b": np.zeros(3)}, False),
        ]


def _fits(linear_map: LinearMap, shape: tuple[int, ...], structure: Structure) -> LinearMap:
    if shape[1] != trees.dimension(structure):
        raise ShapeError(
            f"the matrix G has shape {shape}, but points of shape {trees.describe(structure)} "
            f"have {trees.dimension(structure)} numbers: it needs as many columns."
        )
    return linear_map


def _unravel(structure: Structure, flat: jax.Array) -> Point:
    return ravel_pytree(trees.zeros(structure))[1](flat.astype(flat.dtype))


def _matmul(a: Any, b: Any) -> jax.Array:
    return jnp.matmul(a, b, precision=jax.lax.Precision.HIGHEST)


def as_map(G: Any) -> LinearMap:
    """A matrix, scipy.sparse matrix, function or map as a map."""
    if isinstance(G, LinearMap):
        return G
    if scipy.sparse.issparse(G):
        return Sparse(G)
    if callable(G):
        return Function(G)
    return Dense(np.asarray(G) if not isinstance(G, jax.Array) else G)
