"""Graphs in: files, edges, matrices and networkx graphs as one checked, connected Graph."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
import scipy.sparse.csgraph

from . import files
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
    names: tuple[str, ...] | None = None  # of the nodes

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
    if not (name is None or isinstance(name, str)):
        raise InvalidInputError(f"the name of a graph is {name!r}: give a string.")
    if isinstance(source, Graph):
        return source
    if isinstance(source, str | Path):
        return read_graph(source)
    if scipy.sparse.issparse(source):
        return _checked(source, name or "graph")
    if hasattr(source, "adj") and hasattr(source, "number_of_nodes"):
        import networkx

        matrix = networkx.to_scipy_sparse_array(source, dtype=float)
        return _checked(matrix, name or str(source.name or "graph"))
    try:
        given = np.asarray(source)
        if np.iscomplexobj(given):  # NumPy would drop the imaginary parts with a warning
            raise TypeError("complex numbers")
        array = np.asarray(given, dtype=float)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            "a graph must be a square matrix, a list of edges, a networkx graph or a file name, "
            f"got a {type(source).__name__} ({error})."
        ) from error
    # A list of tuples is edges, even when two of them would make a square matrix.
    listed = array.ndim == 2 and not isinstance(source, np.ndarray)
    pairs = listed and all(isinstance(row, tuple) for row in source)
    square = array.ndim == 2 and array.shape[0] == array.shape[1]
    if array.ndim == 2 and array.shape[1] in (2, 3) and (pairs or not square):
        return _from_edges(array, name or "graph")
    if square:
        return _checked(array, name or "graph")
    raise ShapeError(f"a graph of shape {array.shape} is neither a square matrix nor edges.")


def read_graph(path: str | Path, *, one_based: bool | None = None) -> Graph:
    r"""A graph from a file: an edge list, Matrix Market, METIS, DIMACS, or a matrix in .npy, .npz,
    .mat.

    An edge list has `u v` or `u v weight` a line, with blanks, commas, semicolons or tabs between
    them; comments begin with #, % or //, and a line of words may come first. Nodes are numbers
    from 0 or 1 on (the smallest one in the file tells, or `one_based` does), or names, which
    `Graph.names` then holds. A first line `nodes edges` before weighted edges from 1 on, as in the
    Gset collection, is known by its numbers. Matrix Market files are known by their first line,
    METIS files by the ending .graph or by their numbers, DIMACS' by their line `p edge` or `p sp`.
    All may be packed with gzip.

    >>> import pathlib, tempfile, mostfw as fw
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "path.edges")
    ...     _ = path.write_text("# a path\n1 2\n2 3 0.5\n")
    ...     fw.graphs.read_graph(path).edges
    2
    """
    found = files.read_edge_list(path, one_based=one_based)
    return _joined(found.nodes, found.u, found.v, found.weights, found.name, found.names)


def _from_edges(edges: np.ndarray, name: str) -> Graph:
    """From rows (u, v) or (u, v, weight)."""
    nodes = edges[:, :2]
    if not np.all(np.isfinite(edges)):
        raise InvalidInputError(f"graph {name!r}: an edge has a NaN or infinite number.")
    if np.any(nodes != np.round(nodes)) or nodes.min() < 0:
        raise InvalidInputError(f"graph {name!r}: nodes must be whole numbers from 0 on.")
    count = int(nodes.max()) + 1
    if count > 50 * (len(edges) + 1):
        raise InvalidInputError(
            f"graph {name!r} has node number {count - 1} but only {len(edges)} edges: number the "
            "nodes 0, 1, 2, ... without large gaps."
        )
    weights = edges[:, 2] if edges.shape[1] > 2 else np.ones(len(edges))
    u, v = nodes.astype(int).T
    kept, clash = files.distinct_edges(count, u, v, weights)
    if clash is not None:
        first, second = clash
        raise InvalidInputError(
            f"graph {name!r}: edges {first} and {second} of the list join the same nodes with "
            f"weights {weights[first]:g} and {weights[second]:g}: give each edge one weight."
        )
    return _joined(count, u[kept], v[kept], weights[kept], name)


def _joined(
    count: int,
    u: np.ndarray,
    v: np.ndarray,
    weights: np.ndarray,
    name: str,
    names: tuple[str, ...] | None = None,
) -> Graph:
    """From edges that are there once each."""
    half = scipy.sparse.coo_array((weights, (u, v)), shape=(count, count))
    loops = scipy.sparse.diags_array(half.diagonal())
    return _checked(half + half.T - loops, name, names)


def _checked(matrix: Any, name: str, names: tuple[str, ...] | None = None) -> Graph:
    if np.iscomplexobj(matrix):
        raise InvalidInputError(
            f"the adjacency of graph {name!r} has complex weights: give real ones."
        )
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
    return Graph(adjacency, name, names)
