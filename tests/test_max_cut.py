"""The max-cut relaxation: graphs of the Gset kind, the problem posed, and rounding."""

import gzip
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mostfw as fw
from mostfw.problems.max_cut import cut_weights, flipped_uphill, rounded

# Of data/README.md: nodes, edges, the weights that occur, the best cut known.
GSET = {"G1": (800, 19176, {1.0}, 11624), "G11": (800, 1600, {-1.0, 1.0}, 564)}


@st.composite
def weighted_graphs(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    n = draw(st.integers(2, 8))
    weights = np.triu(rng.standard_normal((n, n)) * (rng.random((n, n)) < 0.7), 1)
    weights[0, 1] = 1.0  # at least one edge
    return fw.graphs.as_graph(weights + weights.T)


def every_cut(nodes):
    signs = itertools.product([1.0], *[[-1.0, 1.0]] * (nodes - 1))
    return np.array(list(signs)).T


# Graphs


def test_a_gset_file(tmp_path):
    path = tmp_path / "G0.gz"
    path.write_bytes(gzip.compress(b"5 3\n1 2 1\n2 3 -1\n1 3 2\n"))
    graph = fw.graphs.as_graph(path)
    assert (graph.name, graph.nodes, graph.edges) == ("G0", 5, 3)  # two nodes without edges
    assert graph.adjacency[1, 2] == -1
    assert graph.adjacency[0, 2] == 2


@pytest.mark.parametrize(
    ("text", "nodes", "edges"),
    [
        ("1 2\n2 3 0.5\n", 3, 2),  # an edge without a weight, then one with
        ("3 2\n1 2\n2 3\n", 3, 2),  # no weights: 3 2 is an edge, as it always was
        ("0 1 1\n1 2 1\n", 3, 2),
        ("9 2\n0 1 1\n1 9 1\n", 10, 3),  # nodes from 0: no header of the Gset kind
    ],
)
def test_edge_lists_without_a_header(text, nodes, edges, tmp_path):
    path = tmp_path / "some.edges"
    path.write_text(text)
    graph = fw.graphs.read_graph(path)
    assert (graph.nodes, graph.edges) == (nodes, edges)


def test_a_gset_file_that_is_cut_off(tmp_path):
    path = tmp_path / "G0"
    path.write_text("5 4\n1 2 1\n2 3 -1\n1 3 2\n")
    with pytest.raises(fw.InvalidInputError, match=r"G0.*promises 4 edges, but 3 follow.*complete"):
        fw.graphs.read_graph(path)


@pytest.mark.parametrize("name", GSET)
def test_graphs_of_the_gset(name):
    folder = fw.datasets.data_folder()
    path = None if folder is None else folder / "gset" / f"{name}.gz"
    if path is None or not path.is_file():
        pytest.skip(f"MOSTFW_DATA has no graph {name}")
    nodes, edges, weights, best = GSET[name]
    graph = fw.graphs.as_graph(path)
    assert (graph.nodes, graph.edges) == (nodes, edges)
    assert set(graph.adjacency.data) == weights
    assert 0.75 * best <= rounded(graph, np.eye(nodes)).weight <= best


def test_a_sparsest_cut_refuses_negative_weights_and_a_max_cut_takes_them():
    ring = [(0, 1, 1.0), (1, 2, -2.0), (2, 0, 1.0)]
    with pytest.raises(fw.InvalidInputError, match="2 negative weights"):
        fw.problems.sparsest_cut(ring)
    assert fw.problems.max_cut(ring).answer(np.eye(3)).weight == 2.0


def test_graphs_without_a_cut():
    with pytest.raises(fw.InvalidInputError, match=r"3 nodes and 0 edges.*an edge"):
        fw.problems.max_cut(np.zeros((3, 3)))


# The problem


@settings(max_examples=8)
@given(weighted_graphs())
def test_the_value_of_a_cut_is_minus_its_weight(graph):
    problem = fw.problems.max_cut(graph)
    signs = every_cut(graph.nodes)
    weights = cut_weights(graph, signs)
    for column, weight in zip(signs.T[:4], weights[:4], strict=False):
        x = np.outer(column, column)
        assert float(problem.objective.whole_value(x)) == pytest.approx(-weight)
        assert problem.domain.contains(x)
        assert float(problem.constraints[0].violation(x)) == 0
        apart = column[:, None] != column[None, :]
        assert weight == pytest.approx(graph.adjacency.toarray()[apart].sum() / 2)


def test_the_pentagon_brackets_its_known_optimum():
    """5 (1 + cos(pi/5))/2, Goemans and Williamson; the best cut is 4."""
    optimum = -5 * (1 + math.cos(math.pi / 5)) / 2
    problem = fw.problems.max_cut([(i, (i + 1) % 5) for i in range(5)], optimum=optimum)
    result = fw.solve(problem, fw.methods.get("hfw", mu_c=1.0), iterations=3000, record=[])
    assert result.objective == pytest.approx(optimum, rel=2e-2)
    value = float(problem.objective.whole_value(problem.feasible(result.x)))
    assert optimum * (1 + 1e-12) <= value <= 0.98 * optimum
    assert problem.answer(result.x).weight == 4.0


# Rounding


@given(weighted_graphs())
def test_small_graphs_are_cut_in_the_best_way(graph):
    best = cut_weights(graph, every_cut(graph.nodes)).max()
    found = rounded(graph, np.eye(graph.nodes))
    assert found.weight == pytest.approx(best)
    signs = np.ones(graph.nodes)
    signs[list(found.side)] = -1
    assert cut_weights(graph, signs[:, None])[0] == pytest.approx(found.weight)
    assert 0 not in found.side


@given(weighted_graphs(), st.integers(0, 2**16))
def test_no_single_flip_improves_what_local_search_returns(graph, seed):
    start = np.random.default_rng(seed).choice([-1.0, 1.0], graph.nodes)
    end = flipped_uphill(graph, start)
    value = cut_weights(graph, end[:, None])[0]
    assert value >= cut_weights(graph, start[:, None])[0] - 1e-12
    neighbours = end[:, None] * (1 - 2 * np.eye(graph.nodes))
    assert np.all(cut_weights(graph, neighbours) <= value + 1e-7)


def test_rounding_is_a_function_of_the_seed():
    rng = np.random.default_rng(0)
    weights = np.triu(rng.standard_normal((40, 40)), 1)
    graph = fw.graphs.as_graph(weights + weights.T)
    x = np.eye(40)
    assert rounded(graph, x, seed=3) == rounded(graph, x, seed=3)
    with pytest.raises(fw.InvalidInputError, match="seed is -1"):
        fw.problems.max_cut(graph, seed=-1)
    with pytest.raises(fw.InvalidInputError, match="NaN"):
        rounded(graph, np.full((40, 40), np.nan))
