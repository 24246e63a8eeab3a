"""Pictures: every panel draws into every kind of file, for small and odd data."""

import numpy as np
import pytest

import mostfw as fw
from mostfw import pictures
from mostfw.pictures import _graphs
from mostfw.pictures._graphs import layout
from mostfw.pictures._matrices import block_order, correlations
from mostfw.pictures._points import principal_plane

RNG = np.random.default_rng(0)
RUN = fw.solve(
    fw.Problem(fw.objectives.Linear(np.array([3.0, 1.0])), fw.domains.Simplex(2)),
    "sfw",
    iterations=20,
)
PANELS = {
    "clusters": pictures.Clusters(RNG.normal(size=(30, 4)), np.arange(30) % 3),
    "many clusters": pictures.Clusters(RNG.normal(size=(30, 1)), np.arange(30)),
    "one point": pictures.Clusters(np.zeros((1, 3)), np.zeros(1, int)),
    "cut": pictures.CutPicture(fw.datasets.karate_club(), np.arange(34) % 2),
    "uncut": pictures.CutPicture([(0, 1), (1, 2)], np.zeros(3, int)),
    "covariance": pictures.Correlations(
        np.cov(RNG.normal(size=(9, 5)), rowvar=False), list("abcde")
    ),
    "no variance": pictures.Correlations(np.zeros((3, 3))),
    "entries": pictures.Entries(np.array([[1.0, np.nan], [5.0, 2.0]]), (1, 5), "known"),
    "convergence": pictures.Convergence(RUN),
}


@pytest.mark.parametrize("name", PANELS)
def test_every_panel_draws(name, tmp_path):
    path = pictures.draw(tmp_path / "a.png", PANELS[name])
    assert path.stat().st_size > 5_000


@pytest.mark.parametrize(
    "ending, head", [(".svg", b"<?xml"), (".pdf", b"%PDF"), (".PNG", b"\x89PNG")]
)
def test_every_format(ending, head, tmp_path):
    path = pictures.draw(tmp_path / f"a{ending}", PANELS["entries"], PANELS["convergence"])
    assert path.read_bytes().startswith(head)


@pytest.mark.parametrize("file", ["a.gif", "a", "no/such/folder/a.png"])
def test_impossible_files_are_refused(file):
    with pytest.raises(fw.InvalidInputError, match="picture"):
        pictures.draw(file, PANELS["entries"])


def test_the_plane_is_that_of_a_dense_decomposition():
    points = RNG.normal(size=(20, 5)) * np.array([5, 3, 1, 1, 1])
    plane, shares = principal_plane(points)
    sizes, axes = np.linalg.eigh(np.cov(points, rowvar=False))
    along = (points - points.mean(axis=0)) @ axes[:, [-1, -2]]
    np.testing.assert_allclose(np.abs(plane), np.abs(along), atol=1e-10)
    np.testing.assert_allclose(shares, sizes[[-1, -2]] / sizes.sum())


def test_blocks_stand_together():
    mixed = RNG.permutation(9)
    truth = np.kron(np.eye(3), np.full((3, 3), 0.8)) + 0.2 * np.eye(9)
    order = block_order(truth[np.ix_(mixed, mixed)])
    assert sorted(order) == list(range(9))
    blocks = mixed[order].reshape(3, 3) // 3
    assert (blocks == blocks[:, :1]).all()


def test_correlations_have_a_unit_diagonal():
    found = correlations(np.array([[4.0, 2.0, 0.0], [2.0, 4.0, 0.0], [0.0, 0.0, 0.0]]))
    assert found.tolist() == [[1, 0.5, 0], [0.5, 1, 0], [0, 0, 1]]


def test_large_graphs_have_a_layout_that_tells_pieces_apart(monkeypatch):
    monkeypatch.setattr(_graphs, "SPRINGS", 100)
    half = RNG.random((300, 300)) < 0.1
    edges = [(i, j) for i in range(300) for j in range(i) if half[i, j]]
    edges += [(i + 300, j + 300) for i, j in edges] + [(0, 300)]
    places = layout(fw.graphs.as_graph(edges))
    assert places.shape == (600, 2) and np.isfinite(places).all()
    left, right = places[:300].mean(axis=0), places[300:].mean(axis=0)
    assert np.linalg.norm(left - right) > 4 * np.median(np.abs(places[:300] - left))
