"""Least squares to some observed entries of a matrix."""

from __future__ import annotations

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .. import checks, trees
from ..errors import InvalidInputError, ShapeError
from ..terms import Numbers
from ..trees import Point, Structure
from ._base import OBJECTIVES, Objective
from ._summed import REPLACEMENT, Counted, counted_batch, index_of


@OBJECTIVES.register
class EntryLoss(Counted):
    """The mean of (X_ij - value)^2/2 over observed entries (i, j) of a matrix X.

    `rows`, `columns` and `values` say one observation each; an entry may be observed several
    times. `batch` samples the observations, with replacement or, `sampling="shuffled"`, each once a
    pass; a sampled gradient is a scatter on their entries.

    >>> import jax.numpy as jnp, mostfw as fw
    >>> objective = fw.objectives.EntryLoss([0, 1], [2, 0], [4.0, 2.0], batch=1)
    >>> float(objective.whole_value(jnp.zeros((2, 3))))
    5.0
    """

    gathers: ClassVar[bool] = True
    row_index: Any
    column_index: Any
    values: Any
    batch: int = eqx.field(static=True)
    total: int | None = eqx.field(static=True)
    sampling: str = eqx.field(static=True)

    def __init__(
        self,
        rows: Any,
        columns: Any,
        values: Any,
        batch: float | int | None = None,
        sampling: str = "replacement",
    ) -> None:
        self.sampling = checks.choice("sampling", sampling, REPLACEMENT)
        self.row_index = _positions("rows", rows)
        self.column_index = _positions("columns", columns)
        values = checks.data("the values of an EntryLoss", values)
        # Whole numbers, as ratings are, would make whole-number differences of a float32 point.
        floating = jnp.issubdtype(values.dtype, jnp.floating)
        self.values = values if floating else np.asarray(values, dtype=float)
        shapes = [np.shape(part) for part in (self.row_index, self.column_index, self.values)]
        if len(shapes[0]) != 1 or len(set(shapes)) != 1:
            raise ShapeError(
                f"the rows, columns and values of an EntryLoss have shapes {shapes}: "
                "give three lists of one length."
            )
        total = shapes[0][0]
        self.total = total
        self.batch = counted_batch(batch, total, sampling, "an EntryLoss's observations")

    def resolve(self, structure: Structure) -> EntryLoss:
        shape = getattr(structure, "shape", ())
        if len(shape) != 2:
            raise ShapeError(
                f"an EntryLoss needs matrices, but points of the domain have shape "
                f"{trees.describe(structure)}."
            )
        pairs = ("row", self.row_index, shape[0]), ("column", self.column_index, shape[1])
        for name, positions, size in pairs:
            # A scatter would drop what is outside without a word.
            if np.max(positions) >= size:
                raise ShapeError(
                    f"an EntryLoss observes {name} {np.max(positions)}, but points of the domain "
                    f"have shape {tuple(shape)}: count from 0, or give a larger domain."
                )
        return self

    def _observed(self, xi: Any) -> tuple[jax.Array, jax.Array, jax.Array]:
        parts = (jnp.asarray(p) for p in (self.row_index, self.column_index, self.values))
        rows, columns, values = parts if xi is None else (part[index_of(xi)] for part in parts)
        return rows, columns, values

    def look(self, x: Point, xi: Any) -> Any:
        rows, columns, _ = self._observed(xi)
        return x[rows, columns]

    def _misfit(self, view: jax.Array, xi: Any) -> jax.Array:
        return view - self._observed(xi)[2].astype(view.dtype)

    def table_message(self, view: Any, xi: Any, numbers: Numbers) -> Any:
        return self._misfit(view, xi) / self.slots

    def spread(self, y: Point, c: Any, message: Any, xi: Any) -> Point:
        rows, columns, _ = self._observed(xi)
        return y.at[rows, columns].add(jnp.asarray(c, y.dtype) * message)

    def add_whole(self, y: Point, c: Any, x: Point, numbers: Numbers) -> Point:
        return self.spread(y, c, self.message(self.look(x, None), None, numbers), None)

    def value(self, x: Point, xi: Any) -> jax.Array:
        return jnp.mean(self.weighted(self._misfit(self.look(x, xi), xi) ** 2, xi)) / 2

    def whole_value(self, x: Point) -> jax.Array:
        return self.value(x, None)

    @staticmethod
    def examples() -> list[tuple[Objective, Any]]:
        rng = np.random.default_rng(3)
        x = rng.standard_normal((3, 4))
        rows, columns = [0, 2, 1, 0, 2], [3, 1, 1, 3, 0]  # one entry twice
        values = rng.standard_normal(5)
        return [
            (EntryLoss(rows, columns, values, batch=2), x),
            (EntryLoss(rows, columns, values), x),
            (EntryLoss(rows, columns, values, batch=2, sampling="shuffled"), x),
        ]


def _positions(thing: str, given: Any) -> np.ndarray:
    positions = np.asarray(checks.data(f"the {thing} of an EntryLoss", given))
    if positions.dtype.kind not in "iu":
        raise InvalidInputError(
            f"the {thing} of an EntryLoss hold {positions.dtype}: give whole numbers."
        )
    if positions.min() < 0:
        raise InvalidInputError(
            f"the {thing} of an EntryLoss hold {positions.min()}: positions count from 0."
        )
    return positions.astype(np.int32)
