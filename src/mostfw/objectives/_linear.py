"""A linear form, sampled entry by entry or by blocks."""

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
from ..terms import Numbers, batch_size
from ..trees import Point, Structure
from ._base import OBJECTIVES, Objective


class LinearForm(Objective):
    """<C, x> for a matrix C, sampled by entries or by principal blocks.

    Subclasses say what C is: its `side`, the drawn `entries`, `whole_value` and `add_whole`.
    """

    gathers: ClassVar[bool] = True
    sampling: eqx.AbstractVar[str]

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
        return self.sampling == "entries"

    def sample(self, key: Any, size: int) -> Any:
        if self.sampling == "block":
            return jax.random.permutation(key, self.side)[: math.isqrt(size)]
        if self.symmetric:  # row and column apart: n^2 may not fit 32 bits
            return tuple(jax.random.randint(key, (2, size), 0, self.side))
        return jax.random.randint(key, (size,), 0, self.slots)

    def look(self, x: Point, xi: Any) -> Any:
        return ()  # a linear form's gradient does not depend on x

    def _places(self, xi: Any) -> Any:
        return (xi[:, None], xi[None, :]) if self.sampling == "block" else xi

    def _at(self, array: jax.Array, xi: Any) -> jax.Array:
        return array[self._places(xi)] if self.symmetric else array.reshape(-1)[xi]

    def message(self, view: Any, xi: Any, numbers: Numbers) -> Any:
        entries = self.entries(xi)
        if self.sampling == "block":
            n, side = self.side, xi.shape[0]
            # Diagonal entries are drawn more often than the others; `scale` undoes the average.
            off = n * (n - 1) / (side * (side - 1)) * (side / n) ** 2
            on = (n / side) * (side / n) ** 2
            return entries * jnp.where(jnp.eye(side, dtype=bool), on, off).astype(entries.dtype)
        return entries

    def spread(self, y: Point, c: Any, message: Any, xi: Any) -> Point:
        c = jnp.asarray(c, y.dtype)
        if self.sampling == "block":
            return y.at[self._places(xi)].add(c * message)
        if not self.symmetric:
            return y.reshape(-1).at[xi].add(c * message).reshape(y.shape)
        return trees.add_symmetric(y, xi[0], xi[1], c * message)

    def value(self, x: Point, xi: Any) -> jax.Array:
        if xi is None:
            return self.whole_value(x)
        entries = self._at(x, xi)
        return self.scale(entries.size) * jnp.sum(entries * self.message((), xi, _NO_NUMBERS))

    def slot(self, xi: Any) -> jax.Array:
        if self.sampling == "block":
            raise InvalidInputError("a table needs sampling='entries', not 'block'.")
        return xi[0] * self.side + xi[1] if self.symmetric else xi

    @property
    def slots(self) -> int:
        assert self.total is not None
        return self.total


@OBJECTIVES.register
class Linear(LinearForm):
    """<C, x>, sampled entry by entry (with replacement, unbiased) or by principal blocks.

    For a symmetric C each sampled entry acts on both of its places, so that gradients stay
    symmetric. `sampling="block"` draws a random principal block with about `batch` entries.

    >>> import numpy as np, mostfw as fw
    >>> objective = fw.objectives.Linear(np.eye(4), batch=0.25)
    >>> objective.batch, objective.total
    (4, 16)
    """

    matrix: Any
    batch: int = eqx.field(static=True)
    total: int | None = eqx.field(static=True)
    sampling: str = eqx.field(static=True)
    is_symmetric: bool = eqx.field(static=True)

    def __init__(self, C: Any, batch: float | int | None = None, sampling: str = "entries"):
        self.sampling = known_sampling(sampling)
        several = isinstance(C, tuple | dict)  # blocks; a list is one matrix
        C = jax.tree.map(_checked, C) if several else _checked(C)
        self.matrix = C
        self.total = trees.dimension(C)
        self.is_symmetric = all(
            np.ndim(m) == 2 and np.shape(m)[0] == np.shape(m)[1] and np.array_equal(m, m.T)
            for m in (np.asarray(leaf) for leaf in jax.tree.leaves(C))
        )
        size = batch_size(batch, self.total, "a Linear objective's entries")
        if size < self.total and len(jax.tree.leaves(C)) > 1:
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
        ]


def known_sampling(sampling: str) -> str:
    if sampling not in ("entries", "block"):
        raise InvalidInputError(f"sampling is {sampling!r}: give 'entries' or 'block'.")
    return sampling


def block_size(size: int, side: int) -> int:
    """How many entries the smallest principal block with at least `size` of them has."""
    return min(max(2, math.ceil(math.sqrt(size))), side) ** 2


def _checked(block: Any) -> Any:
    return checks.data("the matrix C of a Linear objective", block)


_NO_NUMBERS: Any = None  # linear messages do not look at the iteration's numbers
