"""A linear form, sampled entry by entry or by blocks."""

from __future__ import annotations

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .. import checks, trees
from ..errors import InvalidInputError, ShapeError
from ..terms import Numbers, batch_size
from ..trees import Point, Structure
from ._base import OBJECTIVES, Objective


@OBJECTIVES.register
class Linear(Objective):
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
        if sampling not in ("entries", "block"):
            raise InvalidInputError(f"sampling is {sampling!r}: give 'entries' or 'block'.")
        several = isinstance(C, tuple | dict)  # blocks; a list is one matrix
        C = jax.tree.map(_checked, C) if several else _checked(C)
        self.matrix = C
        self.total = trees.dimension(C)
        self.sampling = sampling
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
            side = min(max(2, math.ceil(math.sqrt(size))), np.shape(C)[0])
            size = side * side
        self.batch = size

    @property
    def symmetric(self) -> bool:
        return self.is_symmetric

    @property
    def single(self) -> bool:
        return self.sampling == "entries"

    def resolve(self, structure: Structure) -> Linear:
        mine = trees.structure_of(self.matrix)
        if trees.describe(mine) != trees.describe(structure):
            raise ShapeError(
                f"the matrix C of a Linear objective has shape {trees.describe(mine)}, "
                f"but points of the domain have {trees.describe(structure)}."
            )
        return self

    def sample(self, key: Any, size: int) -> Any:
        if self.sampling == "block":
            side = math.isqrt(size)
            return jax.random.permutation(key, self.matrix.shape[0])[:side]
        if self.is_symmetric:  # row and column apart: n^2 may not fit 32 bits
            return tuple(jax.random.randint(key, (2, size), 0, self.matrix.shape[0]))
        return jax.random.randint(key, (size,), 0, self.slots)

    def look(self, x: Point, xi: Any) -> Any:
        return ()  # a linear form's gradient does not depend on x

    def _at(self, array: jax.Array, xi: Any) -> jax.Array:
        return array[xi] if self.is_symmetric else array.reshape(-1)[xi]

    def message(self, view: Any, xi: Any, numbers: Numbers) -> Any:
        if self.sampling == "block":
            n, side = self.matrix.shape[0], xi.shape[0]
            block = self.matrix[xi[:, None], xi[None, :]]
            # Diagonal entries are drawn more often than the others; `scale` undoes the average.
            off = n * (n - 1) / (side * (side - 1)) * (side / n) ** 2
            on = (n / side) * (side / n) ** 2
            return block * jnp.where(jnp.eye(side, dtype=bool), on, off).astype(block.dtype)
        return self._at(self.matrix, xi)

    def spread(self, y: Point, c: Any, message: Any, xi: Any) -> Point:
        c = jnp.asarray(c, y.dtype)
        if self.sampling == "block":
            return y.at[xi[:, None], xi[None, :]].add(c * message)
        if not self.is_symmetric:
            return y.reshape(-1).at[xi].add(c * message).reshape(y.shape)
        return trees.add_symmetric(y, xi[0], xi[1], c * message)

    def add_whole(self, y: Point, c: Any, x: Point, numbers: Numbers) -> Point:
        return trees.plus(y, c, self.matrix)

    def value(self, x: Point, xi: Any) -> jax.Array:
        if xi is None:
            return self.whole_value(x)
        if self.sampling == "block":
            entries, size = x[xi[:, None], xi[None, :]], xi.shape[0] ** 2
        else:
            entries = self._at(x, xi)
            size = entries.shape[0]
        return self.scale(size) * jnp.sum(entries * self.message((), xi, _NO_NUMBERS))

    def whole_value(self, x: Point) -> jax.Array:
        return trees.inner(self.matrix, x)

    def slot(self, xi: Any) -> jax.Array:
        if self.sampling == "block":
            raise InvalidInputError("a table needs sampling='entries', not 'block'.")
        return xi[0] * self.matrix.shape[0] + xi[1] if self.is_symmetric else xi

    @property
    def slots(self) -> int:
        return trees.dimension(self.matrix)

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


def _checked(block: Any) -> Any:
    return checks.data("the matrix C of a Linear objective", block)


_NO_NUMBERS: Any = None  # linear messages do not look at the iteration's numbers
