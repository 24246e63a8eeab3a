"""The squared distances of points as a linear form, known by the points alone."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .. import checks, placement, trees
from ..errors import InvalidInputError, ShapeError
from ..operators import dot
from ..terms import Numbers
from ..trees import Point, Structure
from ._base import OBJECTIVES, Objective
from ._linear import SAMPLINGS, LinearForm, block_size, pair_grid
from ._summed import summed_batch

FUSED_FROM, FUSED_FEATURES = 2**15, 32


@OBJECTIVES.register
class SquaredDistances(LinearForm):
    """<D, X> with D_ij = ||p_i - p_j||^2, the rows p_i of `points` given: what k-means minimises.

    It samples as `Linear(D)` does (`sampling` too) and holds the points, never D: a draw costs a
    distance for each of its entries. Only the gradient of the whole forms D, and drops it after
    use; its norm follows from the points.

    >>> import numpy as np, mostfw as fw
    >>> objective = fw.objectives.SquaredDistances([[0.0], [1.0], [5.0]], batch=4)
    >>> objective.batch, objective.total
    (4, 9)
    >>> float(objective.whole_value(np.ones((3, 3))))
    84.0
    """

    points: Any  # about their mean
    batch: int = eqx.field(static=True)
    total: int | None = eqx.field(static=True)
    sampling: str = eqx.field(static=True)

    def __init__(self, points: Any, batch: float | int | None = None, sampling: str = "entries"):
        self.sampling = checks.choice("sampling", sampling, SAMPLINGS)
        self.points = _centred(points)
        self.total = pair_grid(self.side).total if self.by_pairs else self.side**2
        size = summed_batch(batch, self.total, sampling, "a SquaredDistances objective's entries")
        drawn = sampling == "block" and size < self.total
        self.batch = block_size(size, self.side) if drawn else size

    @property
    def side(self) -> int:
        return self.points.shape[0]

    @property
    def symmetric(self) -> bool:
        return True

    def resolve(self, structure: Structure) -> SquaredDistances:
        shape = (self.side, self.side)
        if trees.describe(structure) != str(shape):
            raise ShapeError(
                f"a SquaredDistances objective of {self.side} points needs matrices of shape "
                f"{shape}, but points of the domain have {trees.describe(structure)}."
            )
        return self

    def entries(self, xi: Any) -> jax.Array:
        return _distances(jnp.asarray(self.points), *self._places(xi))

    @property
    def matrix(self) -> jax.Array:
        """D, formed anew: by products, since n^2 sums of differences take several times longer."""
        points, squares = self._with_squares()
        products = placement.by_rows(dot(points, points.T))
        distances = jnp.maximum(squares + squares.T - _twice(products), 0)
        return jnp.where(jnp.eye(self.side, dtype=bool), 0, distances)

    def add_whole(self, y: Point, c: Any, x: Point, numbers: Numbers) -> Point:
        return trees.plus(y, c, self.matrix)

    def whole_norm(self) -> jax.Array:
        """||D||, without forming D where there are more points than features: the sum of
        (s_i + s_j - 2 p_i'p_j)^2, s the squares, is 2n sum s^2 + 2 (sum s)^2 + 4 ||P'P||^2
        - 8 (P's)'(P'1).

        About the mean the last part is rounding, so nothing cancels. The mean is taken of
        differences to the first point, which are exact where points are nearly equal.
        """
        points = jnp.asarray(self.points)
        points = points - points[:1]
        largest = jnp.max(jnp.abs(points), initial=0)
        points = points / jnp.where(largest > 0, largest, 1)  # no square overflows or vanishes
        points = points - jnp.mean(points, axis=0)
        squares = jnp.sum(points**2, axis=1)
        wide = points.shape[1] > points.shape[0]
        products = dot(points, points.T) if wide else dot(points.T, points)
        parts = (
            2 * self.side * jnp.sum(squares**2),
            2 * jnp.sum(squares) ** 2,
            4 * jnp.sum(products**2),
            -8 * jnp.sum(dot(squares, points) * jnp.sum(points, axis=0)),
        )
        return largest * (largest * jnp.sqrt(sum(parts)))

    def whole_value(self, x: Point) -> jax.Array:
        # D = A B' with A = [s, 1, -2P] and B = [1, s, P], s the squares: <A, X B> is <D, X>
        points, squares = self._with_squares()
        if self.side >= FUSED_FROM and points.shape[1] <= FUSED_FEATURES:
            # Summed up entry by entry, x may be what a pending move makes of another matrix, and
            # is not stored for a product.
            products = sum(p[:, None] * p for p in points.T)
            return jnp.sum(x * (squares + squares.T - 2 * products))
        ones = jnp.ones_like(squares)
        right = dot(x, jnp.concatenate([ones, squares, points], axis=1))
        return jnp.sum(jnp.concatenate([squares, ones, -2 * points], axis=1) * right)

    def _with_squares(self) -> tuple[jax.Array, jax.Array]:
        points = jnp.asarray(self.points)
        return points, jnp.sum(points**2, axis=1, keepdims=True)

    @staticmethod
    def examples() -> list[tuple[Objective, Any]]:
        rng = np.random.default_rng(4)
        points, x = rng.standard_normal((5, 2)), rng.standard_normal((5, 5))
        return [
            (SquaredDistances(points, batch=6), x),
            (SquaredDistances(points, batch=0.5, sampling="block"), x),
            (SquaredDistances(points), x),
            (SquaredDistances(points, batch=4, sampling="shuffled"), x),
        ]


def _twice(products: jax.Array) -> jax.Array:
    """A product of matrices is symmetric up to rounding, its sum with its transpose exactly. Where
    rows are on several devices the transpose is elsewhere, and rounding must do."""
    return 2 * products if placement.active() else products + products.T


def _centred(points: Any) -> np.ndarray:
    """The points about their mean, where least cancels in products; distances do not change."""
    points = np.asarray(checks.data("the points of a SquaredDistances objective", points))
    if points.ndim != 2:
        raise ShapeError(
            f"the points of a SquaredDistances objective have shape {points.shape}: "
            "give one row a point."
        )
    dtype = points.dtype if points.dtype.kind == "f" else np.dtype(float)
    with np.errstate(over="ignore", invalid="ignore"):
        centred = (points - points.mean(axis=0, dtype=float)).astype(dtype)
        largest = 4 * np.sum(centred**2, axis=1).max()  # no squared distance is above it
    if not np.isfinite(largest):
        raise InvalidInputError(
            "the points of a SquaredDistances objective are so far apart that squares of their "
            f"distances overflow {dtype}: scale them down."
        )
    return centred


@jax.jit  # outside a compiled loop the scan would be compiled at each call
def _distances(points: jax.Array, rows: jax.Array, columns: jax.Array) -> jax.Array:
    """The squared distances of points[rows] to points[columns].

    Differences and not products, for blocks too: nothing cancels, the diagonal is 0 and the two
    places of an entry get the same bits. Feature after feature: points gathered whole would take
    d times the room of the draw, and more time. Four features at once are fastest.
    """

    def add(distances: jax.Array, feature: jax.Array) -> tuple[jax.Array, None]:
        return distances + (feature[rows] - feature[columns]) ** 2, None

    none = jnp.zeros(jnp.broadcast_shapes(rows.shape, columns.shape), points.dtype)
    return lax.scan(add, none, points.T, unroll=4)[0]
