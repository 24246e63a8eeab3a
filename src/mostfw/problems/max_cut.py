"""The maximum cut and its semidefinite relaxation (Goemans and Williamson)."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from .. import checks, domains, maps, sets
from ..constraints import Affine
from ..errors import InvalidInputError
from ..graphs import Graph, as_graph
from ..problem import Problem
from .sparsest_cut import cut_objective

HYPERPLANES = 500
POLISHED = 20  # the best cuts of the hyperplanes that local search starts from


def max_cut(
    graph: Any,
    *,
    batch: float | int | None = None,
    sampling: str = "edges",
    optimum: float | None = None,
    seed: int = 0,
    dtype: Any = np.float64,
) -> Problem:
    """min <-L/4, X> over {X psd, tr X = n}, diag X = 1, L the Laplacian of the graph.

    The library minimises: the value is *minus* the weight that the relaxation says can be cut, and
    `optimum` is minus the published maximum (-226.157 for SDPLIB's mcp100). Weights may be
    negative. `batch` samples the objective, by `sampling` as `sparsest_cut` does; no matrix L is
    formed for the edges. The answer is a `Bipartition`, by random hyperplanes (from `seed`) and
    local search; the feasible point near X is D^-1/2 X D^-1/2 with D = diag X.

    >>> import mostfw as fw
    >>> pentagon = fw.graphs.as_graph([(i, (i + 1) % 5) for i in range(5)])
    >>> problem = fw.problems.max_cut(pentagon)
    >>> print(problem)
    min Laplacian over Spectrahedron, subject to diagonal: Diagonal x in Point(1)
    >>> x = fw.solve(problem, "hfw", iterations=50).x
    >>> problem.answer(x).weight
    4.0
    """
    graph = as_graph(graph)
    n = graph.nodes
    if n < 2 or not graph.edges:
        raise InvalidInputError(
            f"graph {graph.name!r} has {n} nodes and {graph.edges} edges: a cut needs two nodes "
            "and an edge."
        )
    checks.whole("seed", seed, 0)
    quarters = dataclasses.replace(graph, adjacency=-0.25 * graph.adjacency)
    return Problem(
        cut_objective(quarters, batch, sampling, dtype),
        domains.Spectrahedron(n, trace=float(n), equality=True),
        [Affine(maps.Diagonal(), sets.Point(1.0), name="diagonal")],
        optimum=optimum,
        answer=lambda x: rounded(graph, x, seed=seed),
        feasible=unit_diagonal,
        name=f"max-cut {graph.name}",
        dtype=dtype,
    )


@dataclasses.dataclass(frozen=True)
class Bipartition:
    """A cut: the nodes of the side without node 0, and the weight of the edges between the sides.

    >>> from mostfw.problems.max_cut import Bipartition
    >>> Bipartition(side=(1, 3), weight=4.0).side
    (1, 3)
    """

    side: tuple[int, ...]
    weight: float


def unit_vectors(x: Any) -> np.ndarray:
    """A row v_i a node with <v_i, v_j> = X_ij/sqrt(X_ii X_jj), each of norm 1.

    A node with X_ii = 0 gets an axis of its own. The products of the rows are psd with a unit
    diagonal for every symmetric x, which a rounding error cannot spoil.

    >>> import numpy as np
    >>> from mostfw.problems.max_cut import unit_vectors
    >>> abs(unit_vectors(np.zeros((2, 2)))).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    gram = np.asarray(checks.data("the point X of a max-cut", x), dtype=float)
    gram = (gram + gram.T) / 2
    diagonal = np.diagonal(gram).copy()
    # Cholesky and not eigh, which takes several times longer. It needs a little more than psd.
    lift = 1e-12 * max(float(diagonal.max()), np.finfo(float).tiny * 1e20)
    while True:
        np.fill_diagonal(gram, diagonal + lift)
        try:
            factor = np.linalg.cholesky(gram)
        except np.linalg.LinAlgError:
            lift *= 10
        else:
            return factor / np.linalg.norm(factor, axis=1, keepdims=True)


def unit_diagonal(x: Any) -> np.ndarray:
    """D^-1/2 X D^-1/2 with D = diag X: psd with a unit diagonal, so a point of the relaxation.

    >>> import numpy as np
    >>> from mostfw.problems.max_cut import unit_diagonal
    >>> unit_diagonal(np.array([[4.0, 1.0], [1.0, 1.0]])).round(6).tolist()
    [[1.0, 0.5], [0.5, 1.0]]
    """
    vectors = unit_vectors(x)
    gram = vectors @ vectors.T
    np.fill_diagonal(gram, 1.0)
    return (gram + gram.T) / 2


def rounded(graph: Graph, x: Any, hyperplanes: int = HYPERPLANES, seed: int = 0) -> Bipartition:
    """The best cut of random hyperplanes through the vectors of X, improved by single flips.

    >>> import numpy as np, mostfw as fw
    >>> from mostfw.problems.max_cut import rounded
    >>> path = fw.graphs.as_graph([(0, 1), (1, 2)])
    >>> rounded(path, np.eye(3))
    Bipartition(side=(1,), weight=2.0)
    """
    rng = np.random.default_rng(seed)
    normals = rng.standard_normal((graph.nodes, checks.whole("hyperplanes", hyperplanes, 1)))
    signs = np.where(unit_vectors(x) @ normals >= 0, 1.0, -1.0)
    weights = cut_weights(graph, signs)
    best = np.argsort(-weights, kind="stable")[:POLISHED]
    polished = np.stack([flipped_uphill(graph, signs[:, column]) for column in best], axis=1)
    weights = cut_weights(graph, polished)
    winner = int(np.argmax(weights))
    side = np.flatnonzero(polished[:, winner] != polished[0, winner])
    return Bipartition(tuple(side.tolist()), float(weights[winner]))


def cut_weights(graph: Graph, signs: np.ndarray) -> np.ndarray:
    """The weights of the cuts whose sides are the signs in each column.

    >>> import numpy as np, mostfw as fw
    >>> from mostfw.problems.max_cut import cut_weights
    >>> cut_weights(fw.graphs.as_graph([(0, 1), (1, 2)]), np.array([[1], [-1], [1]])).tolist()
    [2.0]
    """
    agreement = np.sum(signs * (graph.adjacency @ signs), axis=0)
    return (graph.adjacency.sum() - agreement) / 4


def flipped_uphill(graph: Graph, signs: np.ndarray) -> np.ndarray:
    """The signs after flips of one node at a time, the best first, until none gains weight.

    >>> import numpy as np, mostfw as fw
    >>> from mostfw.problems.max_cut import flipped_uphill
    >>> flipped_uphill(fw.graphs.as_graph([(0, 1), (1, 2)]), np.ones(3)).tolist()
    [1.0, -1.0, 1.0]
    """
    signs = np.array(signs, dtype=float)
    adjacency = graph.adjacency
    # what a flip of each node brings: the weight of its edges inside a side less those cut
    gains = signs * (adjacency @ signs)
    least = 1e-9 * float(np.abs(adjacency.data).max(initial=0.0))  # no flips for rounding errors
    while True:
        node = int(np.argmax(gains))
        if gains[node] <= least:
            return signs
        signs[node] = -signs[node]
        gains[node] = -gains[node]
        edges = slice(adjacency.indptr[node], adjacency.indptr[node + 1])
        neighbours = adjacency.indices[edges]
        gains[neighbours] += 2 * adjacency.data[edges] * signs[node] * signs[neighbours]
