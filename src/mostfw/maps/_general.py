"""Maps given by a matrix or a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse
from jax.flatten_util import ravel_pytree

from .. import trees
from ..errors import InvalidInputError, ShapeError
from ..operators import dot
from ..trees import Point, Structure
from ._base import MAPS, LinearMap, not_sampleable


def _real(matrix: Any) -> Any:
    """Real numbers as an array: what one is already stays as it is."""
    if not isinstance(matrix, np.ndarray | jax.Array):
        try:
            matrix = np.asarray(matrix)
        except ValueError:
            raise ShapeError("the matrix G of a constraint is ragged.") from None
    if matrix.dtype.kind not in "fiub":
        raise InvalidInputError(
            f"the matrix G of a constraint holds {matrix.dtype}: give real numbers."
        )
    return matrix


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
        if scipy.sparse.issparse(matrix):
            raise InvalidInputError("the matrix G of a Dense map is sparse: give maps.Sparse(G).")
        matrix = _real(matrix)
        if matrix.ndim != 2:
            raise ShapeError(f"a matrix G needs two axes, got shape {matrix.shape}.")
        if not np.all(np.isfinite(np.asarray(matrix))):
            raise InvalidInputError("the matrix G of a constraint has NaN or infinite entries.")
        self.matrix = matrix

    def resolve(self, structure: Structure) -> LinearMap:
        return _fits(self, self.matrix.shape, structure)

    def forward(self, x: Point) -> jax.Array:
        return dot(self.matrix, ravel_pytree(x)[0])

    def adjoint(self, u: jax.Array, structure: Structure) -> Point:
        return _unravel(structure, dot(u, self.matrix))

    def adjoint_size(self, u: jax.Array, structure: Structure) -> jax.Array | None:
        # A sum, not a product: |G| is not stored for it.
        return trees.norm(jnp.sum(jnp.abs(u[:, None] * jnp.asarray(self.matrix)), axis=0))

    def row_norms(self, structure: Structure) -> jax.Array | None:
        return jnp.linalg.norm(jnp.asarray(self.matrix), axis=1)

    def entries(self, x: Point, rows: Any) -> jax.Array:
        return dot(jnp.asarray(self.matrix)[rows], ravel_pytree(x)[0])

    def scatter(self, y: Point, values: jax.Array, rows: Any) -> Point:
        drawn = dot(values, jnp.asarray(self.matrix)[rows])
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
        if not scipy.sparse.issparse(matrix):
            matrix = _real(matrix)
        if matrix.ndim != 2 or matrix.dtype.kind not in "fiub":
            raise ShapeError(
                f"a matrix G needs two axes and real numbers, got shape {matrix.shape} and "
                f"{matrix.dtype}."
            )
        csr: Any = scipy.sparse.csr_array(matrix)
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

    def adjoint_size(self, u: jax.Array, structure: Structure) -> jax.Array | None:
        products = jnp.abs(jnp.asarray(self.data) * u[self.row_of])
        return trees.norm(jnp.zeros(self.shape[1], u.dtype).at[self.columns].add(products))

    def row_norms(self, structure: Structure) -> jax.Array | None:
        squares = jnp.asarray(self.data) ** 2
        return jnp.sqrt(jax.ops.segment_sum(squares, jnp.asarray(self.row_of), self.shape[0]))

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
            back = self.own_adjoint(u)
        else:
            back = jax.vjp(self.function, trees.zeros(structure))[1](u)[0]
        return trees.symmetrised(back) if self.is_symmetric else back

    def entries(self, x: Point, rows: Any) -> jax.Array:
        if self.at is None:
            raise not_sampleable(self)
        return self.at(x, rows)

    def scatter(self, y: Point, values: jax.Array, rows: Any) -> Point:
        zero = trees.zeros(trees.structure_of(y))
        back = jax.vjp(lambda x: self.entries(x, rows), zero)[1](values)[0]
        return trees.plus(y, 1, trees.symmetrised(back) if self.is_symmetric else back)

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
            x = trees.symmetrised(x)
        left, right = float(jnp.sum(self.function(x) * u)), float(trees.inner(x, back))
        size = float(trees.norm(self.function(x)) * trees.norm(u)) + 1e-30
        if not abs(left - right) <= 1e-3 * size:  # NaN too
            raise InvalidInputError(
                f"the adjoint of G does not match: <Gx, u> = {left:g} but <x, G'u> = {right:g} "
                "(or G is not linear). Leave adjoint= out to have it by autodiff."
            )
        self._check_rows(x)
        return self

    def _check_rows(self, x: Point) -> None:
        if self.at is None or self.row_count is None:
            return
        whole = np.asarray(self.function(x)).reshape(-1)
        if whole.size != self.row_count:
            raise ShapeError(f"G has {whole.size} rows, but rows= says {self.row_count}.")
        drawn = np.asarray(self.at(x, jnp.arange(self.row_count)))
        if drawn.shape != whole.shape or not np.allclose(drawn, whole, rtol=1e-3, atol=1e-6):
            raise InvalidInputError("at(x, rows) of a Function map is not its Gx at these rows.")

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
    return ravel_pytree(trees.zeros(structure))[1](flat)


def as_map(G: Any) -> LinearMap:
    """A matrix, scipy.sparse matrix, function or map as a map.

    >>> import numpy as np, mostfw as fw
    >>> type(fw.maps.as_map(np.ones((1, 2)))).__name__
    'Dense'
    """
    if isinstance(G, LinearMap):
        return G
    if scipy.sparse.issparse(G):
        return Sparse(G)
    if callable(G):
        return Function(G)  # pyright: ignore[reportArgumentType]
    try:
        matrix = G if isinstance(G, jax.Array) else np.asarray(G)
    except (TypeError, ValueError) as error:  # as of rows of different lengths
        raise InvalidInputError(
            f"G is a {type(G).__name__} that is no matrix ({error}): give a matrix, a function or "
            "one of mostfw.maps."
        ) from error
    return Dense(matrix)
