"""Graphs in: edge lists, matrices and networkx graphs as one checked, connected Graph."""

from __future__ import annotations

import gzip
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
import scipy.sparse.csgraph

from .errors import DisconnectedGraphError, InvalidInputError, MostFWWarning, ShapeError


@dataclass(frozen=True)
class Graph:
    """An undirected graph with weights: a symmetric adjacency matrix without diagonal.

    >>> import mostfw as fw
    >>> graph = fw.graphs.as_graph([(0, 1), (1, 2), (2, 0), (2, 3)])
    >>> graph.nodes, graph.edges
    (4, 4)
    """

    adjacency: Any  # a scipy.sparse.csr_array
    name: str = "graph"

    @property
    def nodes(self) -> int:
        return int(self.adjacency.shape[0])

    @property
    def edges(self) -> int:
        return int(self.adjacency.nnz // 2)

    def laplacian(self) -> np.ndarray:
        """D - A, dense."""
        dense = self.adjacency.toarray()
        return np.diag(dense.sum(axis=1)) - dense

    def components(self) -> list[list[int]]:
        """The nodes of each connected piece, largest first."""
        count, labels = scipy.sparse.csgraph.connected_components(self.adjacency, directed=False)
        pieces = [np.flatnonzero(labels == piece).tolist() for piece in range(count)]
        return sorted(pieces, key=len, reverse=True)

    def require_connected(self) -> None:
        pieces = self.components()
        if len(pieces) > 1:
            sizes = ", ".join(str(len(piece)) for piece in pieces[:8])
            raise DisconnectedGraphError(
                f"graph {self.name!r} has {len(pieces)} components (sizes {sizes}"
                f"{', ...' if len(pieces) > 8 else ''}): its sparsest cut is 0 and separates them. "
                "They are on this error as .components; solve each one by itself.",
                pieces,
            )

    def require_nonnegative(self) -> None:
        negative = int(np.sum(self.adjacency.data < 0))
        if negative:
            raise InvalidInputError(
                f"graph {self.name!r} has {negative} negative weights: a sparsest cut needs "
                "weights of at least 0."
            )


def as_graph(source: Any, name: str | None = None) -> Graph:
    """A graph from a matrix (dense or scipy.sparse), networkx graph, edge pairs, or a file.

    >>> import numpy as np, mostfw as fw
    >>> fw.graphs.as_graph(np.array([[0, 1], [1, 0]])).edges
    1
    """
    if isinstance(source, Graph):
        return source
    if isinstance(source, str | Path):
        return read_edges(source)
    if scipy.sparse.issparse(source):
        return _checked(source, name or "graph")
    if hasattr(source, "adj") and hasattr(source, "number_of_nodes"):
        import networkx

        matrix = networkx.to_scipy_sparse_array(source, dtype=float)
        return _checked(matrix, name or str(source.name or "graph"))
    try:
        array = np.asarray(source, dtype=float)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            "a graph must be a square matrix, a list of edges, a networkx graph or a file name, "
            f"got a {type(source).__name__}."
        ) from error
    # A list of tuples is edges, even when two of them would make a square matrix.
    pairs = not isinstance(source, np.ndarray) and all(isinstance(row, tuple) for row in source)
    square = array.ndim == 2 and array.shape[0] == array.shape[1]
    if array.ndim == 2 and array.shape[1] in (2, 3) and (pairs or not square):
        return _from_edges(array, name or "graph")
    if square:
        return _checked(array, name or "graph")
    raise ShapeError(f"a graph of shape {array.shape} is neither a square matrix nor edges.")


def read_edges(path: str | Path) -> Graph:
    r"""An edge list file: `u v` or `u v weight` a line, comments with # or %, gzip too.

    Nodes are numbered from the smallest number in the file (0 or 1). A first line `nodes edges`
    before weighted edges from 1 on, as in the Gset collection, is known by its numbers.

    >>> import pathlib, tempfile, mostfw as fw
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "path.edges")
    ...     _ = path.write_text("# a path\n1 2\n2 3 0.5\n")
    ...     fw.graphs.read_edges(path).edges
    2
    """
    path = Path(path)
    if not path.is_file():
        raise InvalidInputError(f"there is no graph file {str(path)!r}.")
    rows = []
    try:
        with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
            for number, line in enumerate(lines, start=1):
                text = line.split("#")[0].split("%")[0].replace(",", " ").split()
                if not text:
                    continue
                rows.append(_edge(text, path, number))
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"graph file {str(path)!r} cannot be read: {error}") from error
    if not rows:
        raise InvalidInputError(f"graph file {str(path)!r} has no edges.")
    name = path.name.removesuffix(".gz").removesuffix(".edges")
    nodes = _header_nodes(rows, path)
    if nodes is not None:
        edges = _weighted(rows[1:])
        edges[:, :2] -= 1
        return _from_edges(edges, name, nodes)
    edges = _weighted(rows)
    edges[:, :2] -= min(1.0, edges[:, :2].min())
    return _from_edges(edges, name)


def _weighted(rows: list[tuple[float, ...]]) -> np.ndarray:
    return np.array([row if len(row) == 3 else (*row, 1.0) for row in rows])


def _header_nodes(rows: list[tuple[float, ...]], path: Path) -> int | None:
    """The number of nodes, if the first row is a header `nodes edges` of weighted edges.

    It is one if it alone has no weight and its first number is at least every node. Were it an
    edge, its first node would have to be the largest of all and its weight be left out by mistake.
    """
    nodes, promised = rows[0][:2]
    listed = rows[1:]
    if len(rows[0]) != 2 or not listed or any(len(row) == 2 for row in listed):
        return None
    if min(min(row[:2]) for row in listed) < 1 or max(max(row[:2]) for row in listed) > nodes:
        return None
    if len(listed) != promised:
        raise InvalidInputError(
            f"graph file {str(path)!r}: its first line promises {promised:.0f} edges, but "
            f"{len(listed)} follow: complete the file, or give every edge a weight if that line "
            "is an edge."
        )
    return int(nodes)


def _edge(text: list[str], path: Path, number: int) -> tuple[float, ...]:
    """Two nodes, and a weight if there is one."""
    try:
        u, v, weight = int(text[0]), int(text[1]), [float(weight) for weight in text[2:3]]
    except (ValueError, IndexError):
        raise InvalidInputError(
            f"graph file {str(path)!r}, line {number}: {' '.join(text)!r} is not an edge "
            "(two node numbers and perhaps a weight)."
        ) from None
    if u < 0 or v < 0:
        raise InvalidInputError(f"graph file {str(path)!r}, line {number}: a node is negative.")
    return float(u), float(v), *weight


def _from_edges(edges: np.ndarray, name: str, count: int | None = None) -> Graph:
    nodes = edges[:, :2]
    if not np.all(np.isfinite(edges)):
        raise InvalidInputError(f"graph {name!r}: an edge has a NaN or infinite number.")
    if np.any(nodes != np.round(nodes)) or nodes.min() < 0:
        raise InvalidInputError(f"graph {name!r}: nodes must be whole numbers from 0 on.")
    count = int(nodes.max()) + 1 if count is None else count
    if count > 50 * (len(edges) + 1):
        raise InvalidInputError(
            f"graph {name!r} has node number {count - 1} but only {len(edges)} edges: number the "
            "nodes 0, 1, 2, ... without large gaps."
        )
    weights = edges[:, 2] if edges.shape[1] > 2 else np.ones(len(edges))
    u, v = nodes.astype(int).T
    low, high = np.minimum(u, v), np.maximum(u, v)
    # The same edge listed twice (or in both directions) is one edge: the last weight stands.
    _, last = np.unique((low * count + high)[::-1], return_index=True)
    keep = len(edges) - 1 - last
    half = scipy.sparse.coo_array((weights[keep], (low[keep], high[keep])), shape=(count, count))
    loops = scipy.sparse.diags_array(half.diagonal())
    return _checked(half + half.T - loops, name)


def _checked(matrix: Any, name: str) -> Graph:
    adjacency: Any = scipy.sparse.csr_array(matrix, dtype=float)
    if adjacency.shape[0] != adjacency.shape[1]:
        raise ShapeError(
            f"the adjacency of graph {name!r} has shape {adjacency.shape}, not square."
        )
    if not np.all(np.isfinite(adjacency.data)):
        raise InvalidInputError(f"the adjacency of graph {name!r} has NaN or infinite weights.")
    if abs(adjacency - adjacency.T).max() > 0:
        raise InvalidInputError(
            f"the adjacency of graph {name!r} is not symmetric: use (A + A.T)/2 for an undirected "
            "graph."
        )
    loops = np.flatnonzero(adjacency.diagonal())
    if loops.size:
        warnings.warn(
            f"graph {name!r}: {loops.size} self loops were dropped; no cut can separate them.",
            MostFWWarning,
            stacklevel=3,
        )
        adjacency = scipy.sparse.csr_array(
            adjacency - scipy.sparse.diags_array(adjacency.diagonal())
        )
    adjacency.eliminate_zeros()
    return Graph(adjacency, name)
