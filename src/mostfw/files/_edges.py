"""Graphs from files: the format is recognised, and its edges are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from ..errors import InvalidInputError
from ._arrays import kind_of, read_matrix
from ._collected import THING, EdgeList, no_edges, not_numbered
from ._dimacs import dimacs, is_comment, is_dimacs
from ._lists import edge_list
from ._market import matrix_market
from ._metis import metis
from ._text import existing, name_of, open_text, refusal

_METIS_ENDINGS = (".graph", ".metis")


def read_edge_list(path: str | Path, *, one_based: bool | None = None) -> EdgeList:
    r"""The edges of a graph: see `mostfw.graphs.read_graph` for the files that it takes.

    >>> import pathlib, tempfile
    >>> from mostfw import files
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "path.csv")
    ...     _ = path.write_text("source,target,weight\nann,bob,2\ncyd,bob,0.5\n")
    ...     edges = files.read_edge_list(path)
    >>> edges.names, edges.u.tolist(), edges.v.tolist(), edges.weights.tolist()
    (('ann', 'bob', 'cyd'), [0, 1], [1, 2], [2.0, 0.5])
    """
    path = existing(path, THING)
    if kind_of(path, THING) is not None:
        if one_based is not None:
            raise not_numbered(path)
        return _from_matrix(read_matrix(path, preferred=("A", "adjacency"), thing=THING), path)
    if path.name.lower().removesuffix(".gz").endswith(_METIS_ENDINGS):
        return metis(path, one_based)
    with open_text(path, THING) as text:
        first = text.ahead(1, lambda line: bool(line.strip()))
        if first and first[0].lower().startswith("%%matrixmarket"):
            return matrix_market(text, one_based)
        if any(map(is_dimacs, text.ahead(1, lambda line: not is_comment(line)))):
            return dimacs(text, one_based)
    try:
        return edge_list(path, one_based)
    except InvalidInputError as error:
        # Lists of neighbours make no edge list, but the numbers of METIS' header tell them.
        try:
            return metis(path, one_based)
        except InvalidInputError:
            raise error from None


def _from_matrix(matrix: Any, path: Path) -> EdgeList:
    """The edges of a symmetric matrix of weights."""
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise refusal(THING, path, f"it holds shape {matrix.shape}", "save a square matrix")
    matrix = scipy.sparse.csr_array(matrix)
    if not np.all(np.isfinite(matrix.data)):
        raise refusal(THING, path, "a weight is NaN or infinite", "save finite numbers")
    apart: Any = (matrix != matrix.T).tocoo()
    if apart.nnz:
        row, column = (int(place[0]) for place in apart.coords)
        raise refusal(
            THING,
            path,
            f"its matrix is not symmetric: entry ({row}, {column}), from 0 on, is "
            f"{matrix[row, column]:g}, and ({column}, {row}) is {matrix[column, row]:g}",
            "save (A + A.T) / 2 for an undirected graph",
        )
    upper: Any = scipy.sparse.triu(matrix).tocoo()
    if not upper.nnz:
        raise no_edges(path)
    u, v = (place.astype(np.int64) for place in upper.coords)
    return EdgeList(matrix.shape[0], u, v, upper.data, name=name_of(path))
