"""The maximum cut and its semidefinite relaxation (Goemans and Williamson)."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
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
SEARCHED = 8  # the best of these, which a tabu search goes on from
FLIPS_PER_NODE, MOST_FLIPS = 25, 100_000  # of each tabu search
SWEEPS = 300  # of the refinement of vectors, at most
STILL = 1e-7  # the change in a sweep, relative to the value, that ends it


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
    tabu search; the feasible point near X is D^-1/2 X D^-1/2 with D = diag X.

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
    dtype = checks.float_dtype(dtype)
    quarters = dataclasses.replace(graph, adjacency=-0.25 * graph.adjacency)
    return Problem(
        cut_objective(quarters, batch, sampling, dtype),
        domains.Spectrahedron(n, trace=float(n), equality=True),
        [Affine(maps.Diagonal(), sets.Point(1.0), name="diagonal")],
        optimum=optimum,
        answer=functools.partial(rounded, graph, seed=seed),
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


def refined(graph: Graph, vectors: np.ndarray, sweeps: int = SWEEPS) -> np.ndarray:
    """Unit vectors of a better point: node by node, each is moved to where, the others fixed, the
    relaxation's value is best (the mixing method of Wang and Kolter).

    A run's point is near the optimum but not at it, and from nearby these sweeps close in fast.
    Rows of about sqrt(2n) numbers are enough.

    >>> import numpy as np, mostfw as fw
    >>> from mostfw.problems.max_cut import refined
    >>> vectors = refined(fw.graphs.as_graph([(0, 1), (1, 2)]), np.eye(3))
    >>> (vectors @ vectors.T).round(3).tolist()[1]
    [-1.0, 1.0, -1.0]
    """
    vectors = np.array(vectors, dtype=float)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors = np.where(lengths > 0, vectors / np.where(lengths > 0, lengths, 1), _axis(vectors))
    adjacency = graph.adjacency
    size = float(np.abs(adjacency.data).sum())
    for _ in range(sweeps):
        gained = 0.0
        for node in range(graph.nodes):
            edges = slice(adjacency.indptr[node], adjacency.indptr[node + 1])
            pull = adjacency.data[edges] @ vectors[adjacency.indices[edges]]
            length = float(np.sqrt(pull @ pull))
            if length > 0:
                gained += length + float(vectors[node] @ pull)
                vectors[node] = -pull / length
        if gained <= STILL * size:
            break
    return vectors


def _axis(vectors: np.ndarray) -> np.ndarray:
    """The first axis, for nodes that have no vector."""
    return np.eye(1, vectors.shape[1])


def diagonal_multipliers(graph: Graph, vectors: np.ndarray) -> np.ndarray:
    """Multipliers of diag X = 1 that prove how good unit vectors are: the better, the more.

    Where no vector can be moved with gain, the pull W v_i of its neighbours is -l_i v_i. The
    objective is (W - D)/4 with D the degrees, to which multipliers (D + diag l)/4 add up to a
    matrix that is psd at an optimum. For `mostfw.certificates.lower_bound`.

    >>> import numpy as np, mostfw as fw
    >>> from mostfw.problems.max_cut import diagonal_multipliers
    >>> path = fw.graphs.as_graph([(0, 1), (1, 2)])
    >>> multipliers = diagonal_multipliers(path, np.array([[1.0], [-1.0], [1.0]]))
    >>> bound = fw.certificates.lower_bound(
    ...     fw.problems.max_cut(path), np.eye(3), {"diagonal": multipliers}
    ... )
    >>> round(bound.value, 6)
    -2.0
    """
    pulls = np.linalg.norm(graph.adjacency @ vectors, axis=1)
    return (pulls + graph.adjacency.sum(axis=1)) / 4


def rounded(graph: Graph, x: Any, hyperplanes: int = HYPERPLANES, seed: int = 0) -> Bipartition:
    """The best cut of random hyperplanes through the vectors of X, improved by flips of nodes.

    >>> import numpy as np, mostfw as fw
    >>> from mostfw.problems.max_cut import rounded
    >>> path = fw.graphs.as_graph([(0, 1), (1, 2)])
    >>> rounded(path, np.eye(3))
    Bipartition(side=(1,), weight=2.0)
    """
    return cut_by_hyperplanes(graph, unit_vectors(x), hyperplanes, seed)


def cut_by_hyperplanes(
    graph: Graph, vectors: np.ndarray, hyperplanes: int = HYPERPLANES, seed: int = 0
) -> Bipartition:
    """The best cut of random hyperplanes through one vector a node, improved by flips of nodes.

    >>> import numpy as np, mostfw as fw
    >>> from mostfw.problems.max_cut import cut_by_hyperplanes
    >>> path = fw.graphs.as_graph([(0, 1), (1, 2)])
    >>> cut_by_hyperplanes(path, np.array([[1.0], [-1.0], [1.0]])).side
    (1,)
    """
    rng = np.random.default_rng(seed)
    count = checks.whole("hyperplanes", hyperplanes, 1)
    signs = np.where(vectors @ rng.standard_normal((vectors.shape[1], count)) >= 0, 1.0, -1.0)
    polished = _each(flipped_uphill, graph, _heaviest(graph, signs, POLISHED))
    search = functools.partial(searched, rng=rng)
    found = _each(search, graph, _heaviest(graph, polished, SEARCHED))
    best = _heaviest(graph, found, 1)
    side = np.flatnonzero(best[:, 0] != best[0, 0])
    return Bipartition(tuple(side.tolist()), float(cut_weights(graph, best)[0]))


def _heaviest(graph: Graph, signs: np.ndarray, count: int) -> np.ndarray:
    different = np.unique(signs * signs[0], axis=1)
    return different[:, np.argsort(-cut_weights(graph, different), kind="stable")[:count]]


def _each(search: Callable[[Graph, np.ndarray], np.ndarray], graph: Graph, signs: Any) -> Any:
    return np.stack([search(graph, column) for column in signs.T], axis=1)


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
    gains, least = _gains(graph, signs)
    while True:
        node = int(np.argmax(gains))
        if gains[node] <= least:
            return signs
        _flip(graph, signs, gains, node)


def searched(
    graph: Graph, signs: np.ndarray, rng: np.random.Generator, flips: int | None = None
) -> np.ndarray:
    """The best signs on a walk of single flips, each the best there is: a node that was flipped
    rests for a while, so that the walk leaves a local optimum (tabu search).

    >>> import numpy as np, mostfw as fw
    >>> from mostfw.problems.max_cut import searched
    >>> path = fw.graphs.as_graph([(0, 1), (1, 2)])
    >>> searched(path, np.ones(3), np.random.default_rng(0)).tolist()
    [1.0, -1.0, 1.0]
    """
    n, signs = graph.nodes, np.array(signs, dtype=float)
    flips = min(FLIPS_PER_NODE * n, MOST_FLIPS) if flips is None else flips
    gains, least = _gains(graph, signs)
    rests = n // 20 + rng.integers(0, min(10, n // 4 + 1), flips)
    # Among equal gains the choice is random: always the first one would confine the walk.
    ties, places = 1e3 * least * rng.random(2 * n), rng.integers(0, n, flips)
    resting_until = np.zeros(n, dtype=int)
    best, ahead = signs.copy(), 0.0  # the best so far, and how far the walk is above it
    for turn in range(flips):
        # Who rests may be flipped all the same where no cut so far was as heavy.
        free = (resting_until <= turn) | (gains + ahead > least)
        scores = gains + ties[places[turn] : places[turn] + n]
        node = int(np.argmax(np.where(free, scores, -np.inf)))
        ahead += gains[node]
        _flip(graph, signs, gains, node)
        resting_until[node] = turn + 1 + rests[turn]
        if ahead > least:
            best, ahead = signs.copy(), 0.0
    return best


def _gains(graph: Graph, signs: np.ndarray) -> tuple[np.ndarray, float]:
    """What a flip of each node brings: the weight of its edges inside a side less those cut; and
    the least that is more than a rounding error."""
    adjacency = graph.adjacency
    return signs * (adjacency @ signs), 1e-9 * float(np.abs(adjacency.data).max(initial=0.0))


def _flip(graph: Graph, signs: np.ndarray, gains: np.ndarray, node: int) -> None:
    """Flips a node and renews the gains, in place."""
    adjacency = graph.adjacency
    signs[node] = -signs[node]
    gains[node] = -gains[node]
    edges = slice(adjacency.indptr[node], adjacency.indptr[node + 1])
    neighbours = adjacency.indices[edges]
    gains[neighbours] += 2 * adjacency.data[edges] * signs[node] * signs[neighbours]
