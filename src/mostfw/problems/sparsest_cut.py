"""The uniform sparsest cut and its semidefinite relaxation."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np
import scipy.sparse

from .. import checks, domains, maps, objectives, sets
from ..constraints import Affine
from ..errors import InvalidInputError
from ..graphs import Graph, as_graph
from ..problem import Problem

SAMPLINGS = ("edges", "shuffled", "entries")


def sparsest_cut(
    graph: Any,
    *,
    batch: float | int | None = None,
    constraint_batch: float | int | None = None,
    sampling: str | None = None,
    optimum: float | None = None,
    dtype: Any = np.float64,
) -> Problem:
    """min <L, X> over {X psd, tr X <= d}, d tr X - 1'X1 = d^2/2, all triangle inequalities.

    L is the Laplacian, d the number of nodes. `batch` samples the objective; `constraint_batch` the
    triangles, which makes the problem P+. The equality is always whole, with weight d. `sampling`
    is of the edges in shuffled passes ("edges", the default), of the entries of L in shuffled
    passes ("shuffled"), or of its entries with replacement as in the paper ("entries"). The metric
    `feasibility` is |equality| + sqrt(2 sum of squared triangle violations), as published.

    >>> import mostfw as fw
    >>> square = fw.graphs.as_graph([(0, 1), (1, 2), (2, 3), (3, 0)])
    >>> problem = fw.problems.sparsest_cut(square)
    >>> [constraint.name for constraint in problem.constraints]
    ['equality', 'triangles']
    """
    graph = as_graph(graph)
    d = graph.nodes
    if d < 3:
        raise InvalidInputError(f"graph {graph.name!r} has {d} nodes: a sparsest cut needs 3.")
    graph.require_connected()
    graph.require_nonnegative()
    dtype = checks.float_dtype(dtype)
    laplacian = graph.laplacian().astype(dtype)

    equality = Affine(maps.TotalSpread(), sets.Point(d * d / 2.0), weight=d, name="equality")
    triangles = Affine(maps.Triangles(), sets.Orthant(-1), name="triangles", batch=constraint_batch)

    return Problem(
        cut_objective(graph, batch, "edges" if sampling is None else sampling, dtype),
        domains.Spectrahedron(d, trace=float(d)),
        [equality, triangles],
        optimum=optimum,
        metrics={"feasibility": Feasibility(equality, triangles)},
        answer=functools.partial(best_cut, laplacian),
        feasible=functools.partial(_cut_point, laplacian),
        name=f"sparsest-cut {graph.name}",
        dtype=dtype,
    )


def cut_objective(
    graph: Graph, batch: float | int | None, sampling: str, dtype: Any = np.float64
) -> objectives.Objective:
    """<L, X>, as a sum over the edges of the graph or over the entries of its Laplacian L.

    >>> import mostfw as fw
    >>> from mostfw.problems.sparsest_cut import cut_objective
    >>> square = fw.graphs.as_graph([(0, 1), (1, 2), (2, 3), (3, 0)])
    >>> cut_objective(square, 2, "edges").total, cut_objective(square, 2, "entries").total
    (4, 16)
    """
    if checks.choice("sampling", sampling, SAMPLINGS) != "edges":
        return objectives.Linear(graph.laplacian().astype(dtype), batch=batch, sampling=sampling)
    half = scipy.sparse.triu(graph.adjacency).tocoo()
    edges, weights = np.stack([half.row, half.col], axis=1), half.data.astype(dtype)
    return objectives.Laplacian(edges, weights, graph.nodes, batch, sampling="shuffled")


class Feasibility(eqx.Module):
    """|equality| + sqrt(2 sum of squared triangle violations), the published measure."""

    equality: Affine
    triangles: Affine

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.equality.violation(x) + math.sqrt(2) * self.triangles.violation(x)


@dataclasses.dataclass(frozen=True)
class Cut:
    """A cut: the smaller side, edges (weight) cut, and value edges/(|A| |B|)."""

    side: tuple[int, ...]
    edges: float
    value: float


def best_cut(laplacian: np.ndarray, x: np.ndarray) -> Cut:
    """The best cut among sweeps over the embedding: distances from each node, and main axes.

    >>> import numpy as np
    >>> from mostfw.problems.sparsest_cut import best_cut
    >>> path = np.array([[1.0, -1, 0, 0], [-1, 2, -1, 0], [0, -1, 2, -1], [0, 0, -1, 1]])
    >>> best_cut(path, np.outer([-1, -1, 1, 1], [-1.0, -1, 1, 1])).value
    0.25
    """
    d = laplacian.shape[0]
    gram = np.asarray(x, dtype=float)
    squares = np.diag(gram)
    distances = squares[:, None] + squares[None, :] - 2 * gram
    _, axes = np.linalg.eigh((gram + gram.T) / 2)
    best: Cut | None = None
    for score in [*distances, *axes.T[-min(d, 8) :]]:
        order = np.argsort(score, kind="stable")
        along = laplacian[np.ix_(order, order)]
        # of the first nodes, inside' L inside: each adds its degree less twice its edges to those
        edges = np.cumsum(np.diag(along) + 2 * np.tril(along, -1).sum(axis=1))[:-1]
        sizes = np.arange(1, d)
        values = edges / (sizes * (d - sizes))
        at = int(np.argmin(values))
        if best is None or values[at] < best.value:
            side = order[: at + 1] if 2 * (at + 1) <= d else order[at + 1 :]
            best = Cut(tuple(sorted(int(i) for i in side)), float(edges[at]), float(values[at]))
    assert best is not None
    return best


def _cut_point(laplacian: np.ndarray, x: np.ndarray) -> np.ndarray:
    return cut_matrix(len(laplacian), best_cut(laplacian, x).side)


def cut_matrix(nodes: int, side: Sequence[int]) -> np.ndarray:
    """The point of the relaxation that a cut is: two values, centered, so that X1 = 0.

    Its objective is d^2/2 times the value of the cut and its trace d/2, and of three nodes two are
    on one side, so that no triangle inequality is broken.

    >>> from mostfw.problems.sparsest_cut import cut_matrix
    >>> cut_matrix(4, (0, 1)).tolist()[0]
    [0.5, 0.5, -0.5, -0.5]
    """
    inside = np.zeros(nodes, dtype=bool)
    inside[list(side)] = True
    size, rest = len(side), nodes - len(side)
    values = np.where(inside, rest, -size)
    # The squared distance of the two is then d^2/(2 |A| |B|), which the equality asks for.
    return np.outer(values, values) / (2 * size * rest)
