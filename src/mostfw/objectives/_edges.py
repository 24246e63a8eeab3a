"""A graph's Laplacian as a linear form: a sum over edges."""

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
class Laplacian(Counted):
    """<L, X>, L the Laplacian of a graph: the sum over edges {i, j} of w (X_ii + X_jj - 2 X_ij).

    `edges` is a list of pairs of nodes; `weights` one number each, by default 1; `nodes` how many
    nodes there are, by default those up to the last that an edge names. `batch` samples the edges,
    with replacement or, `sampling="shuffled"`, each once a pass. A drawn edge is a matrix
    w (e_i - e_j)(e_i - e_j)' of rank one, scattered on its four entries: unlike single entries of
    L, any draw of edges is again the Laplacian of a graph, and no draw is an entry that is 0.

    >>> import numpy as np, mostfw as fw
    >>> path = fw.objectives.Laplacian([(0, 1), (1, 2)], weights=[1.0, 3.0], batch=1)
    >>> path.nodes, path.total
    (3, 2)
    >>> float(path.whole_value(np.outer([0.0, 1.0, 3.0], [0.0, 1.0, 3.0])))
    13.0
    """

    gathers: ClassVar[bool] = True
    linear: ClassVar[bool] = True
    heads: Any
    tails: Any
    weights: Any
    nodes: int = eqx.field(static=True)
    batch: int = eqx.field(static=True)
    total: int | None = eqx.field(static=True)
    sampling: str = eqx.field(static=True)

    def __init__(
        self,
        edges: Any,
        weights: Any = None,
        nodes: int | None = None,
        batch: float | int | None = None,
        sampling: str = "replacement",
    ) -> None:
        self.sampling = checks.choice("sampling", sampling, REPLACEMENT)
        pairs = _pairs(edges)
        self.heads, self.tails = pairs[:, 0], pairs[:, 1]
        self.weights = _edge_weights(weights, len(pairs))
        least = int(pairs.max()) + 1
        self.nodes = least if nodes is None else checks.whole("nodes of a Laplacian", nodes, least)
        self.total = len(pairs)
        self.batch = counted_batch(batch, self.total, sampling, "a Laplacian's edges")

    @property
    def symmetric(self) -> bool:
        return True

    def resolve(self, structure: Structure) -> Laplacian:
        shape = (self.nodes, self.nodes)
        if trees.describe(structure) != str(shape):
            raise ShapeError(
                f"a Laplacian of {self.nodes} nodes needs matrices of shape {shape}, but points "
                f"of the domain have {trees.describe(structure)}."
            )
        return self

    def look(self, x: Point, xi: Any) -> Any:
        return ()  # a linear form's gradient does not depend on x

    def _drawn(self, xi: Any) -> tuple[jax.Array, jax.Array, jax.Array]:
        parts = (jnp.asarray(part) for part in (self.heads, self.tails, self.weights))
        heads, tails, weights = parts if xi is None else (part[index_of(xi)] for part in parts)
        return heads, tails, weights

    def table_message(self, view: Any, xi: Any, numbers: Numbers) -> Any:
        return self._drawn(xi)[2]

    def spread(self, y: Point, c: Any, message: Any, xi: Any) -> Point:
        heads, tails, _ = self._drawn(xi)
        rows = jnp.concatenate([heads, tails, heads, tails])
        columns = jnp.concatenate([heads, tails, tails, heads])
        once = jnp.asarray(c, y.dtype) * message.astype(y.dtype)
        return y.at[rows, columns].add(jnp.concatenate([once, once, -once, -once]))

    def add_whole(self, y: Point, c: Any, x: Point, numbers: Numbers) -> Point:
        return self.spread(y, c, self._drawn(None)[2], None)

    def _stretch(self, x: Point, xi: Any) -> jax.Array:
        """(e_i - e_j)'X(e_i - e_j) of each edge."""
        heads, tails, _ = self._drawn(xi)
        diagonal = x[heads, heads] + x[tails, tails]
        return diagonal - x[heads, tails] - x[tails, heads]

    def value(self, x: Point, xi: Any) -> jax.Array:
        x = jnp.asarray(x)
        message = self.message((), xi, _NO_NUMBERS).astype(x.dtype)
        scale = 1.0 if xi is None else self.scale(message.shape[0])
        return scale * jnp.sum(message * self._stretch(x, xi))

    def whole_value(self, x: Point) -> jax.Array:
        return self.value(x, None)

    @staticmethod
    def examples() -> list[tuple[Objective, Any]]:
        x = np.random.default_rng(5).standard_normal((4, 4))
        edges, weights = [(0, 1), (1, 2), (2, 0), (3, 1), (2, 3)], [1.0, 2.0, 0.5, 3.0, 1.0]
        return [
            (Laplacian(edges, weights, batch=2), x),
            (Laplacian(edges, weights, batch=2, sampling="shuffled"), x),
            (Laplacian(edges, weights), x),
        ]


def _pairs(edges: Any) -> np.ndarray:
    pairs = np.asarray(checks.data("the edges of a Laplacian", edges))
    if pairs.ndim != 2 or pairs.shape[1] != 2:
        raise ShapeError(
            f"the edges of a Laplacian have shape {pairs.shape}: give pairs of nodes, and "
            "weights= apart."
        )
    if pairs.dtype.kind not in "iu" or pairs.min() < 0:
        raise InvalidInputError(
            "the edges of a Laplacian name nodes that are no whole numbers from 0 on: number the "
            "nodes 0, 1, 2, ...."
        )
    loops = np.flatnonzero(pairs[:, 0] == pairs[:, 1])
    if loops.size:
        raise InvalidInputError(
            f"edge {loops[0]} of a Laplacian joins node {pairs[loops[0], 0]} to itself: leave it "
            "out, for it changes nothing."
        )
    return pairs.astype(np.int32)


def _edge_weights(weights: Any, count: int) -> np.ndarray:
    if weights is None:
        return np.ones(count)
    weights = np.asarray(checks.data("the weights of a Laplacian", weights))
    if weights.shape != (count,):
        raise ShapeError(
            f"the weights of a Laplacian have shape {weights.shape}: give one for each of its "
            f"{count} edges."
        )
    return weights if weights.dtype.kind == "f" else weights.astype(float)


_NO_NUMBERS: Any = None  # linear messages do not look at the iteration's numbers
