"""What comes from outside stays data: nothing of it is run, and nothing of it takes the machine."""

import ast
import gzip
import io
import os
import re
import struct
import threading
import time
import tomllib
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse

import mostfw as fw
from mostfw import files, resources
from mostfw.datasets import _store
from mostfw.files import _limits, _text

ROOT = Path(__file__).parents[1]
FOLDERS = ("src", "benchmarks", "examples")
SOURCES = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]

# Nothing that is read is run


RUNS_TEXT = {"eval", "exec", "__import__", "compile"}
RUNS_ATTRIBUTES = {
    ("os", "system"),
    ("os", "popen"),
    ("pickle", "load"),
    ("pickle", "loads"),
    ("pickle", "Unpickler"),
    ("marshal", "load"),
    ("marshal", "loads"),
    ("shelve", "open"),
    ("joblib", "load"),
    ("yaml", "load"),
    ("yaml", "unsafe_load"),
    ("subprocess", "getoutput"),
    ("subprocess", "getstatusoutput"),
}
FORBIDDEN_MODULES = {"pickle", "marshal", "shelve", "dill", "cloudpickle"}


def dangers(tree):
    """(line, what) of each call or import that could run what was read."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = node.module if isinstance(node, ast.ImportFrom) else None
            names = {alias.name for alias in node.names}
            wrong = FORBIDDEN_MODULES & ({module} if module else names)
            if wrong:
                yield node.lineno, f"import {wrong.pop()}"
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        if isinstance(called, ast.Name) and called.id in RUNS_TEXT:
            yield node.lineno, called.id
        owner = getattr(getattr(called, "value", None), "id", None)
        if (owner, getattr(called, "attr", None)) in RUNS_ATTRIBUTES:
            yield node.lineno, f"{owner}.{called.attr}"
        for option in node.keywords:
            value = getattr(option.value, "value", True)  # what is not written out may be True
            if option.arg in ("shell", "allow_pickle") and value is not False:
                yield node.lineno, f"{option.arg}={value}"


def test_no_source_runs_what_it_reads():
    assert len(SOURCES) > 100
    for path in SOURCES:
        found = list(dangers(ast.parse(path.read_text("utf-8"))))
        assert not found, f"{path}: {found}"


@pytest.mark.parametrize(
    "text",
    [
        "eval(x)",
        "exec(x)",
        "__import__(x)",
        "os.system(x)",
        "subprocess.run(x, shell=True)",
        "subprocess.run(x, shell=flag)",
        "np.load(x, allow_pickle=True)",
        "import pickle",
        "from pickle import loads",
        "yaml.load(x)",
    ],
)
def test_the_walk_sees_what_it_is_for(text):
    assert list(dangers(ast.parse(text)))


def test_a_pickle_in_an_array_file_is_not_unpickled(tmp_path):
    ran = tmp_path / "ran"

    class Evil:
        def __reduce__(self):
            return Path.touch, (ran,)

    np.save(tmp_path / "evil.npy", np.array([Evil()], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "evil.npz", a=np.array([Evil()], dtype=object))
    for name in ("evil.npy", "evil.npz"):
        with pytest.raises(fw.InvalidInputError, match="object"):
            files.read_matrix(tmp_path / name)
    assert not ran.exists()


# Files are not larger than they look


def bomb(path, dtype="|u1", promised=2**34):
    """An archive whose one member promises, and unpacks to, far more than the file weighs."""
    header = io.BytesIO()
    description = {"descr": dtype, "fortran_order": False, "shape": (promised,)}
    np.lib.format.write_array_header_1_0(header, description)
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("a.npy", "w", force_zip64=True) as member,
    ):
        member.write(header.getvalue())
        member.write(bytes(2**22))
    return path


@pytest.fixture
def small_measure(monkeypatch):
    """Ratios count from a megabyte on."""
    monkeypatch.setattr(_text, "RATIO_COUNTS_FROM", 2**20)


def test_an_archive_that_unpacks_beyond_measure(tmp_path, small_measure):
    with pytest.raises(fw.InvalidInputError, match="times its"):
        files.read_matrix(bomb(tmp_path / "bomb.npz", promised=2**22))


def test_a_member_that_promises_more_than_it_holds(tmp_path):
    with pytest.raises(fw.InvalidInputError):
        files.read_matrix(bomb(tmp_path / "bomb.npz"))


def test_a_header_that_promises_more_than_the_file_holds(tmp_path):
    path = tmp_path / "short.npy"
    np.save(path, np.zeros(3))
    path.write_bytes(path.read_bytes().replace(b"(3,)", b"(9" + b"9" * 1 + b",)"))
    with pytest.raises(fw.InvalidInputError):
        files.read_matrix(path)


def test_a_header_of_megabytes(tmp_path):
    path = tmp_path / "wide.npy"
    path.write_bytes(b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**20) + b" " * 2**20)
    with pytest.raises(fw.InvalidInputError, match="read as numbers"):
        files.read_matrix(path)


def test_small_numbers_that_grow_when_they_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(_limits, "ALWAYS_ALLOWED", 1000)
    monkeypatch.setattr(resources, "free_bytes", lambda: 10_000)
    small = np.zeros((100, 100), np.uint8)
    np.save(tmp_path / "a.npy", small)
    np.savez(tmp_path / "a.npz", a=small)
    scipy.io.savemat(tmp_path / "a.mat", {"a": small})
    for ending in ("npy", "npz", "mat"):
        with pytest.raises(fw.InvalidInputError, match=r"no memory left.*save a part"):
            files.read_matrix(tmp_path / f"a.{ending}")


def test_a_mat_file_that_unpacks_beyond_measure(tmp_path, small_measure):
    packed = zlib.compress(bytes(2**22), 9)
    head = b"MATLAB 5.0 MAT-file".ljust(124) + b"\x00\x01IM"
    path = tmp_path / "bomb.mat"
    path.write_bytes(head + struct.pack("<II", 15, len(packed)) + packed)
    with pytest.raises(fw.InvalidInputError, match="times its"):
        files.read_matrix(path)


def test_a_text_that_unpacks_beyond_measure(tmp_path, small_measure):
    path = tmp_path / "bomb.csv.gz"
    path.write_bytes(gzip.compress(b"1,1\n" * 2**20))
    with pytest.raises(fw.InvalidInputError, match="times its"):
        files.read_table(path)


@pytest.mark.parametrize("name", ["../../evil.npy", "/evil.npy", "a/../../evil.npy", "a\\evil.npy"])
def test_names_in_archives_lead_nowhere(tmp_path, name):
    inside = tmp_path / "one" / "two"
    inside.mkdir(parents=True)
    held = io.BytesIO()
    np.save(held, np.arange(3.0))
    path = inside / "tricky.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(name, held.getvalue())
    before = sorted(tmp_path.rglob("*"))
    assert files.read_matrix(path).tolist() == [0, 1, 2]
    assert sorted(tmp_path.rglob("*")) == before


def test_what_is_no_plain_file_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")  # reading it would wait for ever
    (tmp_path / "loop.csv").symlink_to(tmp_path / "loop.csv")
    (tmp_path / "zero.csv").symlink_to("/dev/zero")
    for name in ("pipe.csv", "loop.csv", "zero.csv"):
        for read in (files.read_table, files.read_ratings, files.read_edge_list, files.read_matrix):
            with pytest.raises(fw.InvalidInputError, match="there is no"):
                read(tmp_path / name)


def test_an_archive_with_thousands_of_arrays_beside_a_sparse_matrix(tmp_path):
    path = tmp_path / "many.npz"
    scipy.sparse.save_npz(path, scipy.sparse.csr_array(np.eye(3)))
    with zipfile.ZipFile(path, "a") as archive:
        for index in range(1000):
            archive.writestr(f"other{index}.npy", b"not an array")
    assert files.read_matrix(path).toarray().tolist() == np.eye(3).tolist()


# The network


class Endless:
    """A server that never ends."""

    def __init__(self, pause=0.0):
        self.pause, self.refused = pause, threading.Event()

    def __call__(self, url, output, pooch):
        while True:
            time.sleep(self.pause)
            try:
                output.write(bytes(2**20))
            except OverflowError:
                self.refused.set()
                raise


@pytest.mark.parametrize("pause", [0.0, 0.05], ids=["fast", "slow"])
def test_a_download_has_an_end(tmp_path, monkeypatch, pause):
    pooch = pytest.importorskip("pooch")
    server = Endless(pause)
    monkeypatch.setattr(pooch, "HTTPDownloader", lambda **options: server)
    monkeypatch.setattr(_store, "MOST_BYTES", 2**25 if pause == 0 else 2**40)
    monkeypatch.setattr(_store, "DEADLINE", 20.0 if pause == 0 else 0.3)
    target = tmp_path / "endless"
    with pytest.raises(fw.DataError, match="could not be downloaded"):
        _store.download("https://example.org/endless", target)
    assert server.refused.wait(20)  # the thread that loads has ended, too
    assert target.stat().st_size <= 2**25


@pytest.mark.parametrize(
    "url", ["http://a/b", "ftp://a/b", "file:///etc/passwd", "HTTPS:/a", "//a/b", "a", ""]
)
def test_no_other_way_of_loading_than_https(tmp_path, url):
    with pytest.raises(fw.InvalidInputError, match="not https"):
        _store.download(url, tmp_path / "x")


def test_redirects_are_not_followed_and_checksums_are_there(monkeypatch, tmp_path):
    pooch = pytest.importorskip("pooch")
    seen = {}

    def downloader(**options):
        seen.update(options)
        return lambda url, output, pooch: output.write(b"x")

    monkeypatch.setattr(pooch, "HTTPDownloader", downloader)
    _store.download("https://example.org/x", tmp_path / "x")
    assert seen["allow_redirects"] is False
    assert seen["timeout"] <= 10
    for dataset in fw.datasets.DATASETS:
        assert re.fullmatch("[0-9a-f]{64}", dataset.sha256)


# Dependencies


def test_every_dependency_has_a_range():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    for line in (line for group in groups for line in group if not line.startswith("mostfw[")):
        assert re.fullmatch(r"[\w-]+(\[\w+\])?>=[\d.]+,<[\d.]+", line), line
