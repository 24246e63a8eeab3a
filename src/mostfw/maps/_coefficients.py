"""Maps that see few entries of symmetric matrices: the diagonal, and sparse coefficients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .. import checks, trees
from ..atoms import RankOneSymmetric, is_atom
from ..errors import InvalidInputError, ShapeError
from ..trees import Point, Structure
from ._base import MAPS, LinearMap
from ._structured import OfSquare

MOST_ROWS = 2**27  # a number is kept of each, whether it has coefficients or not


@MAPS.register
class Diagonal(OfSquare):
    """Gx = diag X.

    >>> import jax.numpy as jnp
    >>> from mostfw.maps import Diagonal
    >>> Diagonal().forward(jnp.arange(4.0).reshape(2, 2)).tolist()
    [0.0, 3.0]
    """

    thin: ClassVar[bool] = True

    def forward(self, x: Point) -> jax.Array:
        return jnp.diagonal(x)

    def image_of(self, atom: Any) -> jax.Array | None:
        return atom.scale * atom.vector**2 if isinstance(atom, RankOneSymmetric) else None

    def adjoint(self, u: jax.Array, structure: Structure) -> Point:
        return jnp.diag(u)

    def product(self, u: jax.Array, v: jax.Array, structure: Structure) -> jax.Array:
        return u * v

    def adjoint_norm(self, u: jax.Array, structure: Structure) -> jax.Array:
        return trees.norm(u)

    def adjoint_size(self, u: jax.Array, structure: Structure) -> jax.Array | None:
        return trees.norm(u)

    def entries(self, x: Point, rows: Any) -> jax.Array:
        return x[rows, rows]

    def scatter(self, y: Point, values: jax.Array, rows: Any) -> Point:
        return y.at[rows, rows].add(values)

    @staticmethod
    def examples() -> list[tuple[LinearMap, Any, bool]]:
        return [(Diagonal(), np.zeros((4, 4)), True), (Diagonal(), np.zeros((1, 1)), True)]


class _Block(eqx.Module):
    """The coefficients of one matrix of the point, sorted by the row of G that they belong to.

    A place off the diagonal stands for itself and its mirror image, so its value is doubled here.
    """

    row_of: Any  # of each coefficient, in order
    row_start: Any
    first: Any
    second: Any
    doubled: Any
    rows: int = eqx.field(static=True)
    longest: int = eqx.field(static=True)

    def __init__(
        self, rows: int, row: np.ndarray, first: np.ndarray, second: np.ndarray, value: np.ndarray
    ) -> None:
        if not row.size:  # nothing can be gathered from no coefficients: one that is 0
            row, first, second, value = (np.zeros(1, part.dtype) for part in (row,) * 3 + (value,))
        places = np.stack([row, np.minimum(first, second), np.maximum(first, second)])
        # sorted by row; a place that is given twice has the sum
        places, which = np.unique(places, axis=1, return_inverse=True)
        value = np.bincount(which, weights=value, minlength=places.shape[1])
        self.row_of, self.first, self.second = places.astype(np.int32)
        self.doubled = np.where(self.first == self.second, 1.0, 2.0) * value
        lengths = np.bincount(self.row_of, minlength=rows)
        self.row_start = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
        self.rows, self.longest = rows, int(lengths.max())

    def squares(self) -> jax.Array:
        """||F_k||^2 for each row k."""
        doubled = jnp.asarray(self.doubled)
        return self.sums(jnp.where(jnp.equal(self.first, self.second), doubled, doubled / 2))

    def sums(self, seen: jax.Array) -> jax.Array:
        """Row by row, the coefficients times what is seen at their places."""
        products = jnp.asarray(self.doubled, seen.dtype) * seen
        return jax.ops.segment_sum(products, self.row_of, self.rows, indices_are_sorted=True)

    def spread(self, y: jax.Array, u: jax.Array) -> jax.Array:
        """y + the sum of u_k F_k."""
        return trees.add_symmetric(y, self.first, self.second, self.doubled * u[self.row_of])

    def sizes(self, y: jax.Array, u: jax.Array) -> jax.Array:
        """y + the sum of u_k |F_k|, entry by entry."""
        return trees.add_symmetric(
            y, self.first, self.second, jnp.abs(self.doubled) * u[self.row_of]
        )

    def product(self, u: jax.Array, v: jax.Array) -> jax.Array:
        """The sum of u_k F_k, times v."""
        halves = self.doubled * u[self.row_of] / 2
        out = jnp.zeros_like(v).at[self.first].add(halves * v[self.second])
        return out.at[self.second].add(halves * v[self.first])

    def drawn(self, rows: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Places and values of the drawn rows, short rows filled up with zeros."""
        start = jnp.asarray(self.row_start)
        place = start[rows][:, None] + jnp.arange(self.longest)
        inside = place < start[rows + 1][:, None]
        place = jnp.where(inside, place, 0)
        first, second, doubled = (
            jnp.asarray(part)[place] for part in (self.first, self.second, self.doubled)
        )
        return first, second, jnp.where(inside, doubled, 0)


@MAPS.register
class Coefficients(LinearMap):
    """Gx = (<F_1, X>, ..., <F_m, X>) for sparse symmetric F_k: what a semidefinite program needs.

    A coefficient is given by its `row` k (from 0), its place (`first`, `second`) in one of the
    triangles and its value, which also stands at the mirrored place; a place that is given twice
    has the sum. For points that are tuples of matrices `block` says which matrix it is in. `rows`
    is m, `sizes` the sides of the matrices: one number, or a tuple for several. Work and memory go
    with the number of coefficients.

    >>> import jax.numpy as jnp
    >>> from mostfw.maps import Coefficients
    >>> two = Coefficients([0, 1], [0, 0], [0, 1], value=[3.0, 1.0], rows=2, sizes=2)
    >>> two.forward(jnp.array([[1.0, 5.0], [5.0, 2.0]])).tolist()
    [3.0, 10.0]
    """

    blocks: tuple[_Block, ...]
    sizes: tuple[int, ...] = eqx.field(static=True)
    single: bool = eqx.field(static=True)
    count: int = eqx.field(static=True)

    def __init__(
        self,
        row: Any,
        first: Any,
        second: Any,
        value: Any,
        *,
        rows: int,
        sizes: int | Sequence[int],
        block: Any = None,
    ) -> None:
        self.count = checks.whole("the number of rows of Coefficients", rows, 1, MOST_ROWS)
        self.single = isinstance(sizes, int | np.integer)
        self.sizes = checks.shape("the sizes of Coefficients", sizes)
        value = np.asarray(checks.data("the values of Coefficients", value), dtype=float)
        block = np.zeros(value.shape, int) if block is None else block
        places = {"row": row, "first": first, "second": second, "block": block}
        indices = {name: _indices(name, given, value.shape) for name, given in places.items()}
        row, first, second, block = indices.values()
        _within("row", row, self.count)
        _within("block", block, len(self.sizes))
        sides = np.asarray(self.sizes)[block]
        _within("first", first, sides)
        _within("second", second, sides)
        self.blocks = tuple(
            _Block(self.count, *(part[block == b] for part in (row, first, second, value)))
            for b in range(len(self.sizes))
        )

    @property
    def symmetric(self) -> bool:
        return True

    def resolve(self, structure: Structure) -> LinearMap:
        sides = [(n, n) for n in self.sizes]
        expected = sides[0] if self.single else tuple(sides)
        if trees.describe(structure) != str(expected):
            raise ShapeError(
                f"Coefficients are of matrices of shape {expected}, not of points of shape "
                f"{trees.describe(structure)}."
            )
        return self

    def _pairs(self, tree: Any) -> zip[tuple[_Block, Any]]:
        leaves = jax.tree.leaves(tree, is_leaf=is_atom)
        return zip(self.blocks, leaves, strict=True)

    def _tree(self, leaves: list[jax.Array]) -> Point:
        return leaves[0] if self.single else tuple(leaves)

    def rows(self, structure: Structure) -> int:
        return self.count

    def forward(self, x: Point) -> jax.Array:
        return sum(b.sums(leaf[b.first, b.second]) for b, leaf in self._pairs(x))  # pyright: ignore[reportReturnType]

    def row_norms(self, structure: Structure) -> jax.Array | None:
        return jnp.sqrt(sum(b.squares() for b in self.blocks))  # pyright: ignore[reportArgumentType]

    def image_of(self, atom: Any) -> jax.Array | None:
        pairs = list(self._pairs(atom))
        if not all(isinstance(leaf, RankOneSymmetric) for _, leaf in pairs):
            return None
        ends = ((b, z.scale, z.vector[b.first] * z.vector[b.second]) for b, z in pairs)
        return sum(scale * b.sums(seen) for b, scale, seen in ends)  # pyright: ignore[reportReturnType]

    def adjoint(self, u: jax.Array, structure: Structure) -> Point:
        return self._tree(
            [b.spread(jnp.zeros(s.shape, u.dtype), u) for b, s in self._pairs(structure)]
        )

    def adjoint_size(self, u: jax.Array, structure: Structure) -> jax.Array | None:
        pairs = self._pairs(structure)
        return trees.norm([b.sizes(jnp.zeros(s.shape, u.dtype), jnp.abs(u)) for b, s in pairs])

    def product(self, u: jax.Array, v: jax.Array, structure: Structure) -> jax.Array:
        return self.blocks[0].product(u, v)  # directions of several matrices are always formed

    def entries(self, x: Point, rows: Any) -> jax.Array:
        seen = ((b.drawn(rows), leaf) for b, leaf in self._pairs(x))
        return sum(jnp.sum(value * leaf[i, j], axis=1) for (i, j, value), leaf in seen)  # pyright: ignore[reportReturnType]

    def scatter(self, y: Point, values: jax.Array, rows: Any) -> Point:
        leaves = []
        for b, leaf in self._pairs(y):
            i, j, value = (part.reshape(-1) for part in b.drawn(rows))
            leaves.append(trees.add_symmetric(leaf, i, j, value * jnp.repeat(values, b.longest)))
        return self._tree(leaves)

    @staticmethod
    def examples() -> list[tuple[LinearMap, Any, bool]]:
        rng = np.random.default_rng(5)

        def drawn(count: int, rows: int, sizes: Any) -> LinearMap:
            block = rng.integers(0, np.size(sizes), count)
            sides = np.atleast_1d(sizes)[block]
            row, value = rng.integers(0, rows, count), rng.standard_normal(count)
            first, second = rng.integers(0, sides), rng.integers(0, sides)
            return Coefficients(row, first, second, value, rows=rows, sizes=sizes, block=block)

        return [
            (drawn(9, 5, 4), np.zeros((4, 4)), True),
            (drawn(12, 6, (3, 1, 2)), tuple(np.zeros((n, n)) for n in (3, 1, 2)), True),
            (drawn(1, 4, (2, 2)), tuple(np.zeros((2, 2)) for _ in range(2)), True),
        ]


def _indices(name: str, given: Any, shape: tuple[int, ...]) -> np.ndarray:
    try:
        found = np.asarray(given)
    except ValueError:
        raise ShapeError(f"the {name} of Coefficients is ragged.") from None
    if len(shape) != 1 or found.shape != shape:
        raise ShapeError(
            f"the {name} of Coefficients has shape {found.shape} and the values {shape}: give "
            "lists of one length."
        )
    if found.dtype.kind not in "iu":
        raise InvalidInputError(
            f"the {name} of Coefficients holds {found.dtype}: give whole numbers from 0 on."
        )
    return found


def _within(name: str, indices: np.ndarray, limit: Any) -> None:
    wrong = np.flatnonzero((indices < 0) | (indices >= limit))
    if wrong.size:
        most = int(np.broadcast_to(limit, indices.shape)[wrong[0]]) - 1
        raise ShapeError(
            f"the {name} of coefficient {wrong[0]} is {indices[wrong[0]]}: give a whole number "
            f"from 0 to {most}."
        )
