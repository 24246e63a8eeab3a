"""A linear form, sampled entry by entry, by blocks, or in shuffled passes."""

from __future__ import annotations

import abc
import math
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .. import checks, trees
from ..errors import InvalidInputError, ShapeError
from ..shuffling import Grid, Words
from ..terms import Numbers
from ..trees import Point, Structure
from ._base import OBJECTIVES, Objective
from ._summed import Summed, counted_batch, index_of, summed_batch

SAMPLINGS = ("entries", "block", "shuffled")


class LinearForm(Summed):
    """<C, x> for a matrix C, sampled by entries, by principal blocks or in shuffled passes.

    Subclasses say what C is: its `side`, the drawn `entries`, `whole_value` and `add_whole`.

    In passes over a symmetric C the summands are the pairs i >= j, each acting on both of its
    places: a distance or a look into C then serves two entries. For as many looks a step the
    variance of a single draw is that of ordered entries, and a pass is half as long.
    """

    gathers: ClassVar[bool] = True
    linear: ClassVar[bool] = True

    @property
    @abc.abstractmethod
    def side(self) -> int:
        """The rows of C, and its columns where it is symmetric."""

    @abc.abstractmethod
    def entries(self, xi: Any) -> jax.Array:
        """The drawn entries of C."""

    @abc.abstractmethod
    def whole_value(self, x: Point) -> jax.Array: ...

    @property
    def single(self) -> bool:
        return self.sampling != "block"

    @property
    def by_pairs(self) -> bool:
        """Whether the summands are the pairs i >= j of a symmetric C, not its entries."""
        return self.sampling == "shuffled" and self.symmetric

    @property
    def grid(self) -> Grid:
        return pair_grid(self.side) if self.by_pairs else super().grid

    def summands(self, words: Words) -> Any:
        return paired(words, self.side) if self.by_pairs else super().grid.place(words)

    def sample(self, key: Any, size: int) -> Any:
        if self.sampling == "block":
            return jax.random.permutation(key, self.side)[: math.isqrt(size)]
        if self.by_pairs:
            return self.summands(self.grid.uniform(key, size))
        if self.symmetric:  # row and column apart: n^2 may not fit 32 bits
            return tuple(jax.random.randint(key, (2, size), 0, self.side))
        return jax.random.randint(key, (size,), 0, self.slots)

    def look(self, x: Point, xi: Any) -> Any:
        return ()  # a linear form's gradient does not depend on x

    def _places(self, xi: Any) -> Any:
        index = index_of(xi)
        return (index[:, None], index[None, :]) if self.sampling == "block" else index

    def _at(self, array: jax.Array, xi: Any) -> jax.Array:
        return array[self._places(xi)] if self.symmetric else array.reshape(-1)[index_of(xi)]

    def table_message(self, view: Any, xi: Any, numbers: Numbers) -> Any:
        entries = self.entries(xi)
        if self.by_pairs:
            rows, columns = index_of(xi)
            return entries * jnp.where(rows == columns, 1, 2).astype(entries.dtype)
        return entries

    def message(self, view: Any, xi: Any, numbers: Numbers) -> Any:
        entries = self.weighted(self.table_message(view, xi, numbers), xi)
        if self.sampling == "block":
            n, side = self.side, xi.shape[0]
            # Diagonal entries are drawn more often than the others; `scale` undoes the average.
            off = n * (n - 1) / (side * (side - 1)) * (side / n) ** 2
            on = (n / side) * (side / n) ** 2
            return entries * jnp.where(jnp.eye(side, dtype=bool), on, off).astype(entries.dtype)
        return entries

    def spread(self, y: Point, c: Any, message: Any, xi: Any) -> Point:
        c, places = jnp.asarray(c, y.dtype), self._places(xi)
        if self.sampling == "block":
            return y.at[places].add(c * message)
        if not self.symmetric:
            return y.reshape(-1).at[places].add(c * message).reshape(y.shape)
        rows, columns = places
        return trees.add_symmetric(y, rows, columns, c * message)

    def length(self, message: Any) -> jax.Array | None:
        return math.sqrt(self._most_at_once()) * trees.norm(message)

    def _most_at_once(self) -> int:
        """How many of a draw fall on one entry at most: a block has each once, a pass too (a step
        may see the end of one and the start of the next). With replacement more than this many
        do with a probability of at most 1e-12: the mean number of pairs that are hit as often."""
        if self.sampling != "entries":
            return 1 if self.sampling == "block" else 2
        assert self.total is not None
        pairs = self.total / 2  # (i, j) and (j, i) of a symmetric matrix are one
        most, often = 1, pairs * (self.batch / pairs) ** 2 / 2
        while often > 1e-12:
            most += 1
            often *= self.batch / pairs / (most + 1)
        return most

    def value(self, x: Point, xi: Any) -> jax.Array:
        if xi is None:
            return self.whole_value(x)
        entries = self._at(x, xi)
        return self.scale(entries.size) * jnp.sum(entries * self.message((), xi, _NO_NUMBERS))

    @property
    def table_is_point(self) -> bool:
        return self.sampling != "block"

    def of_table(self, table: Point) -> Point:
        return trees.symmetrised(table) if self.symmetric else table

    def slot(self, xi: Any) -> jax.Array:
        if self.sampling == "block":
            raise InvalidInputError("a table needs sampling='entries', not 'block'.")
        places = self._places(xi)
        return places[0] * self.side + places[1] if self.symmetric else places

    @property
    def slots(self) -> int:
        assert self.total is not None
        return self.side**2 if self.by_pairs else self.total  # as `slot` counts them


@OBJECTIVES.register
class Linear(LinearForm):
    """<C, x>, sampled entry by entry (with replacement, unbiased), by principal blocks, or in
    shuffled passes.

    For a symmetric C each sampled entry acts on both of its places, so that gradients stay
    symmetric. `sampling="block"` draws a random principal block with about `batch` entries;
    `"shuffled"` takes every entry once a pass, the n(n+1)/2 pairs of entries where C is symmetric.

    >>> import numpy as np, mostfw as fw
    >>> objective = fw.objectives.Linear(np.eye(4), batch=0.25)
    >>> objective.batch, objective.total
    (4, 16)
    >>> fw.objectives.Linear(np.eye(4), batch=0.2, sampling="shuffled").total
    10
    """

    matrix: Any
    batch: int = eqx.field(static=True)
    total: int | None = eqx.field(static=True)
    sampling: str = eqx.field(static=True)
    is_symmetric: bool = eqx.field(static=True)

    def __init__(self, C: Any, batch: float | int | None = None, sampling: str = "entries"):
        self.sampling = checks.choice("sampling", sampling, SAMPLINGS)
        several = isinstance(C, tuple | dict)  # blocks; a list is one matrix
        C = jax.tree.map(_checked, C) if several else _checked(C)
        self.matrix = C
        self.is_symmetric = all(map(checks.symmetric, jax.tree.leaves(C)))
        blocks = len(jax.tree.leaves(C))
        self.total = trees.dimension(C)
        if self.by_pairs and blocks == 1:
            self.total = pair_grid(self.side).total
        thing = "a Linear objective's entries"
        count = summed_batch if self.is_symmetric else counted_batch
        size = count(batch, self.total, sampling, thing)
        if size < self.total and blocks > 1:
            raise InvalidInputError("a Linear objective over several blocks cannot be sampled.")
        if sampling == "block" and size < self.total:
            if not self.is_symmetric:
                raise InvalidInputError("sampling='block' needs a symmetric matrix C.")
            size = block_size(size, np.shape(C)[0])
        self.batch = size

    @property
    def symmetric(self) -> bool:
        return self.is_symmetric

    @property
    def side(self) -> int:
        return self.matrix.shape[0]

    def resolve(self, structure: Structure) -> Linear:
        mine = trees.structure_of(self.matrix)
        if trees.describe(mine) != trees.describe(structure):
            raise ShapeError(
                f"the matrix C of a Linear objective has shape {trees.describe(mine)}, "
                f"but points of the domain have {trees.describe(structure)}."
            )
        return self

    def entries(self, xi: Any) -> jax.Array:
        return self._at(self.matrix, xi)

    def add_whole(self, y: Point, c: Any, x: Point, numbers: Numbers) -> Point:
        return trees.plus(y, c, self.matrix)

    def whole_norm(self) -> jax.Array:
        return trees.norm(self.matrix)

    def whole_value(self, x: Point) -> jax.Array:
        return trees.inner(self.matrix, x)

    @staticmethod
    def examples() -> list[tuple[Objective, Any]]:
        rng = np.random.default_rng(0)
        square = rng.standard_normal((4, 4))
        return [
            (Linear(square + square.T, batch=5), square + square.T),
            (Linear(square + square.T, batch=0.5, sampling="block"), square),
            (Linear(square[:2], batch=3), square[:2]),
            (Linear(square + square.T), square),
            (Linear(square + square.T, batch=4, sampling="shuffled"), square),
            (Linear(square[:2], batch=3, sampling="shuffled"), square[:2]),
        ]


def pair_grid(side: int) -> Grid:
    """The pairs i >= j of 0, ..., side - 1, folded into a full rectangle.

    >>> from mostfw.objectives._linear import pair_grid
    >>> pair_grid(4), pair_grid(5)
    (Grid(rows=5, columns=2, total=10), Grid(rows=5, columns=3, total=15))
    """
    return Grid(side + 1 - side % 2, (side + 1) // 2, side * (side + 1) // 2)


def paired(words: Words, side: int) -> tuple[jax.Array, jax.Array]:
    """The pairs i >= j at these places of `pair_grid`: below the diagonal of the rectangle stand
    the first columns of the triangle, above it its other columns, turned."""
    row, column = (word.astype(jnp.int32) for word in words)
    even, half = 1 - side % 2, (side + 1) // 2
    below = row >= column + even
    return (
        jnp.where(below, row - even, half - 1 + even + column),
        jnp.where(below, column, half + row),
    )


def block_size(size: int, side: int) -> int:
    """How many entries the smallest principal block with at least `size` of them has."""
    return min(max(2, math.ceil(math.sqrt(size))), side) ** 2


def _checked(block: Any) -> Any:
    return checks.data("the matrix C of a Linear objective", block)


_NO_NUMBERS: Any = None  # linear messages do not look at the iteration's numbers
