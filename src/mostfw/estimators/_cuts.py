"""Cuts of graphs with a proof of how good they are."""

from __future__ import annotations

import abc
import functools
import math
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import ClusterMixin
from sklearn.utils.validation import validate_data

from ..certificates import NUMERICAL, PROVED, Certificate, lower_bound
from ..errors import InvalidInputError
from ..graphs import Graph, as_graph
from ..problem import Problem
from ..problems.max_cut import (
    Bipartition,
    cut_by_hyperplanes,
    diagonal_multipliers,
    max_cut,
    refined,
)
from ..problems.sparsest_cut import Cut, best_cut, cut_matrix, sparsest_cut
from ..rounding import rounded_up
from ..trees import replaced
from ._base import SolvingEstimator, ended_in_words
from ._cost import Cost, Load
from ._kept import Kept

ROUNDING = 1e-12  # by which an adjacency matrix may miss its symmetry
AXES = 8  # columns of an embedding, at most
# What a fit takes, as measured (docs/jobs.md): of arrays of a number for each triangle, and of
# nodes by nodes. The search for a cut after the run goes with the nodes.
TRIANGLE_ARRAYS, TRIANGLE_PASSES = 20, 25
MATRIX_ARRAYS, MATRIX_PASSES, SEARCH_SECONDS = 30, 25, 0.012


class GraphEstimator(ClusterMixin, SolvingEstimator):
    """An estimator that splits the nodes of one graph in two; it has nothing to say of others."""

    def __init__(
        self,
        *,
        tol: float | None = 1e-3,
        max_iter: int = 500,
        time_limit: float | None = None,
        batch: float | int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        checkpoint: str | Path | None = None,
    ) -> None:
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.batch = batch
        self.random_state = random_state
        self.verbose = verbose
        self.checkpoint = checkpoint

    def fit(self, X: Any, y: Any = None) -> Any:
        """Cuts the graph X: an adjacency matrix (dense or sparse), a networkx graph, pairs of nodes
        (with weights, if any), a file of these, or a `mostfw.graphs.Graph`."""
        self._check_budgets()
        self._cut(self._graph(X))
        return self

    def cost(self, X: Any) -> Cost:
        """What a fit of X will take at most: memory, and seconds if all `max_iter` steps are done.

        >>> from mostfw.estimators import MaxCut
        >>> MaxCut(max_iter=100).cost([(0, 1), (1, 2)]).memory_bytes > 2**20
        True
        """
        self._check_budgets()
        graph = self._graph(X)
        return self._load(graph).cost(self.max_iter).within(self.time_limit)

    @abc.abstractmethod
    def _load(self, graph: Graph) -> Load: ...

    @abc.abstractmethod
    def _cut(self, graph: Graph) -> None: ...

    def _announce_graph(self, graph: Graph) -> None:
        self._announce(
            self.cost(graph), f"{graph.nodes} nodes", "cut a part of the graph, or a coarser one"
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = True
        tags.input_tags.sparse = True
        return tags

    def _graph(self, source: Any) -> Graph:
        """The graph; matrices pass scikit-learn's checks first."""
        if _is_matrix(source):
            source = validate_data(self, source, accept_sparse="csr", dtype=np.float64)
            source = _symmetric(source)
        graph = as_graph(source)
        self.n_features_in_ = graph.nodes
        if graph.nodes < 2:
            raise InvalidInputError(
                f"graph {graph.name!r} has n_samples={graph.nodes} nodes: a cut needs two."
            )
        return graph

    def _embed(self, x: np.ndarray) -> np.ndarray:
        """Keeps the first axes of the nodes' vectors, and gives all of them."""
        values, vectors = np.linalg.eigh((x + x.T) / 2)
        values, vectors = values[::-1], vectors[:, ::-1]
        largest = vectors[np.abs(vectors).argmax(axis=0), np.arange(vectors.shape[1])]
        # An eigenvector's sign is arbitrary: the same one on every machine.
        rows = vectors * np.sqrt(np.maximum(values, 0)) * np.sign(largest)
        self.embedding_ = rows[:, :AXES].copy()
        return rows

    def _keep_side(self, nodes: int, side: tuple[int, ...]) -> None:
        self.side_ = np.array(side, dtype=np.int64)
        self.labels_ = np.zeros(nodes, dtype=np.int32)
        self.labels_[self.side_] = 1


class SparsestCut(GraphEstimator):
    """The sparsest cut of a connected graph: least weight/(|A| |B|) between the sides A and B.

    - `tol`: the fit ends when the cut is proved to be within this share of the best possible, or
      after `max_iter` steps or `time_limit` seconds of them.
    - `batch`: None for exact gradients; else the share or number of edges drawn for a step.

    A fit leaves `labels_` (1 on the smaller side), `side_` (its nodes), `cut_value_`, `cut_weight_`
    (of the edges cut), `cut_bound_` (no cut has a lower value), `embedding_` (a row a node, from
    the main axes of the relaxation), `summary_` in words, `certificate_` (of the relaxation, whose
    value is nodes^2/2 times that of a cut), `result_` and `n_iter_`. A graph in several pieces has
    a cut of value 0 between them, which needs no run.

    >>> from mostfw.estimators import SparsestCut
    >>> two_triangles = [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3), (2, 3)]
    >>> cut = SparsestCut(random_state=0).fit(two_triangles)
    >>> sorted(cut.labels_.tolist()), cut.cut_weight_, round(cut.cut_value_, 6)
    ([0, 0, 0, 1, 1, 1], 1.0, 0.111111)
    >>> print(cut.summary_)
    the value of this cut, 0.1111, is the least possible (to 0.1%)
    """

    def __init__(
        self,
        *,
        tol: float | None = 1e-3,
        max_iter: int = 20_000,
        time_limit: float | None = None,
        batch: float | int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        checkpoint: str | Path | None = None,
    ) -> None:
        super().__init__(
            tol=tol,
            max_iter=max_iter,
            time_limit=time_limit,
            batch=batch,
            random_state=random_state,
            verbose=verbose,
            checkpoint=checkpoint,
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags

    def _cut(self, graph: Graph) -> None:
        try:
            graph.require_nonnegative()
        except InvalidInputError as error:  # in the words that scikit-learn's tools look for
            raise InvalidInputError(f"Negative values in data: {error}") from None
        pieces = graph.components()
        laplacian = graph.laplacian()
        if len(pieces) > 1 or graph.nodes == 2:
            self._keep_plain(laplacian, pieces[0] if len(pieces) > 1 else [1])
            return
        self._announce_graph(graph)
        kept = Kept(
            functools.partial(best_cut, laplacian),
            _value,
            functools.partial(_cut_point, graph.nodes),
        )
        problem = sparsest_cut(graph, batch=self.batch)
        problem = replaced(problem, answer=None, feasible=kept, metrics={}, name="sparsest-cut")
        result = self._solve(problem)
        kept(result.x)
        self._embed(result.x)
        self._keep(graph.nodes, kept.best)

    def _load(self, graph: Graph) -> Load:
        """One number for each triangle inequality: each i < j with all k."""
        return Load(graph.nodes**3, arrays=TRIANGLE_ARRAYS, passes=TRIANGLE_PASSES)

    def _keep_plain(self, laplacian: np.ndarray, side: list[int]) -> None:
        """The cut between pieces, or of two nodes: there is nothing to search."""
        nodes = len(laplacian)
        inside = np.isin(np.arange(nodes), side)
        inside = inside if 2 * inside.sum() <= nodes else ~inside
        signs = np.where(inside, 1.0, -1.0)
        weight = float(signs @ laplacian @ signs) / 4
        value = weight / (inside.sum() * (~inside).sum())
        cut = Cut(tuple(np.flatnonzero(inside).tolist()), weight, value)
        scale = nodes**2 / 2
        self.result_, self.n_iter_ = None, 0
        self.certificate_ = Certificate.of(
            lower=scale * value, upper=scale * value, objective=scale * value
        )
        self._embed(cut_matrix(nodes, cut.side))
        self._keep(nodes, cut)

    def _keep(self, nodes: int, cut: Cut) -> None:
        known = self.certificate_
        lower = 0.0 if known is None else max(0.0, float(known.lower) * 2 / nodes**2)
        self.cut_value_, self.cut_weight_ = cut.value, cut.edges
        self.cut_bound_ = min(lower, cut.value)
        self._keep_side(nodes, cut.side)
        words = _least_in_words(self.cut_value_, self.cut_bound_)
        self.summary_ = ended_in_words(words, self.result_)


class MaxCut(GraphEstimator):
    """The maximum cut of a graph: the sides between which the edges weigh most.

    - `tol`: the run ends when the relaxation is solved to this share, or after `max_iter` steps or
      `time_limit` seconds of them. Its vectors are then refined one by one, which sharpens the
      bound further, and random hyperplanes through them are improved by tabu search.
    - `batch`: None for exact gradients; else the share or number of edges drawn for a step.

    A fit leaves `labels_` (1 on the side without node 0), `side_` (its nodes), `cut_value_` (the
    weight cut), `cut_bound_` (no cut weighs more), `embedding_` (a row a node, from the main axes
    of the relaxation), `summary_` in words, `certificate_` (of the relaxation, which minimises
    minus the weight), `result_` and `n_iter_`. Weights may be negative.

    >>> from mostfw.estimators import MaxCut
    >>> pentagon = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)]
    >>> cut = MaxCut(random_state=0).fit(pentagon)
    >>> cut.cut_value_, round(cut.cut_bound_, 1)
    (4.0, 4.5)
    >>> print(cut.summary_)
    this cut weighs 4: at least 88% of the largest possible, which is not above 4.52...
    """

    def _cut(self, graph: Graph) -> None:
        if not graph.edges:
            self._keep_edgeless(graph.nodes)
            return
        self._announce_graph(graph)
        problem = replaced(max_cut(graph, batch=self.batch), answer=None, name="max-cut")
        result = self._solve(problem)
        rows = self._embed(result.x)
        # Optima have no more than sqrt(2n) dimensions, and more would only take time.
        vectors = refined(graph, rows[:, : math.isqrt(2 * graph.nodes) + 2])
        self._sharpen(problem, graph, vectors)
        self._keep(graph.nodes, cut_by_hyperplanes(graph, vectors, seed=self._seed()))

    def _load(self, graph: Graph) -> Load:
        return Load(
            graph.nodes**2,
            arrays=MATRIX_ARRAYS,
            passes=MATRIX_PASSES,
            besides=SEARCH_SECONDS * graph.nodes,
        )

    def _sharpen(self, problem: Problem, graph: Graph, vectors: np.ndarray) -> None:
        """What the refined vectors prove, beside what the run has."""
        x = vectors @ vectors.T
        bound = lower_bound(problem, x, {"diagonal": diagonal_multipliers(graph, vectors)})
        # W_ij (1 - <v_i, v_j>)/4 over all i, j: each column a share of the products.
        agreement = float(np.sum(vectors * (graph.adjacency @ vectors)))
        value = (agreement - float(graph.adjacency.sum())) / 4
        known = self.certificate_
        if known is None:
            return
        upper = value if known.upper is None else min(value, known.upper)
        # The kind is that of the bound which stands: a higher one may be proved less.
        proved = bound.proved if bound.value > known.lower else known.kind == PROVED
        self.certificate_ = Certificate.of(
            lower=max(bound.value, known.lower),
            upper=upper,
            objective=known.objective,
            violation=known.violation,
            kind=PROVED if proved else NUMERICAL,
        )

    def _keep_edgeless(self, nodes: int) -> None:
        self.result_, self.n_iter_ = None, 0
        self.certificate_ = Certificate.of(lower=0.0, upper=0.0, objective=0.0)
        self._embed(np.eye(nodes))
        self._keep(nodes, Bipartition((1,), 0.0))

    def _keep(self, nodes: int, cut: Bipartition) -> None:
        known = self.certificate_
        self.cut_value_ = cut.weight
        self.cut_bound_ = math.inf if known is None else max(-float(known.lower), cut.weight)
        self._keep_side(nodes, cut.side)
        words = _most_in_words(self.cut_value_, self.cut_bound_)
        self.summary_ = ended_in_words(words, self.result_)


def _is_matrix(source: Any) -> bool:
    """Whether the input is for scikit-learn to check: not a graph, a file or a list of edges."""
    if isinstance(source, Graph | str) or hasattr(source, "__fspath__"):
        return False
    if hasattr(source, "number_of_nodes"):
        return False
    if isinstance(source, list | tuple) and source and isinstance(source[0], tuple):
        return False
    shape = getattr(source, "shape", None)
    known = isinstance(shape, tuple)  # of a class it is a description
    pairs = known and len(shape) == 2 and shape[1] in (2, 3) and shape[0] > shape[1]
    return not pairs


def _symmetric(matrix: Any) -> Any:
    """The symmetric part, where the rest is rounding: a product A A' has some."""
    if matrix.shape[0] != matrix.shape[1]:
        return matrix
    half = (matrix + matrix.T) / 2
    apart, size = abs(matrix - half).max(), abs(matrix).max()
    return half if apart <= ROUNDING * size else matrix


def _value(cut: Cut) -> float:
    return cut.value


def _cut_point(nodes: int, cut: Cut) -> np.ndarray:
    return cut_matrix(nodes, cut.side)


def _least_in_words(value: float, bound: float) -> str:
    if value <= bound * 1.001:
        return f"the value of this cut, {value:.4g}, is the least possible (to 0.1%)"
    if bound <= 0:
        return f"the value of this cut is {value:.4g}; how low another's may be is not known"
    excess = rounded_up(100 * (value / bound - 1))
    return f"the value of this cut, {value:.4g}, is at most {excess}% above the least possible"


def _most_in_words(value: float, bound: float) -> str:
    if value >= bound * 0.999:
        return f"this cut weighs {value:.6g}, the largest possible (to 0.1%)"
    if value <= 0 or math.isinf(bound):
        return f"this cut weighs {value:.6g}; how much more another may is not known"
    share = math.floor(100 * value / bound)
    return (
        f"this cut weighs {value:.6g}: at least {share}% of the largest possible, which is not "
        f"above {rounded_up(bound, 6)}"
    )
