"""A graph and a cut through it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse
import scipy.sparse.linalg

from ..graphs import as_graph
from ..report.looks import BLUE, GREY, OCHRE, VERMILLION

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAMED = 60  # more nodes than that are drawn without their names
SPRINGS = 1000  # and more than that by eigenvectors, which take less time


@dataclasses.dataclass(frozen=True)
class CutPicture:
    """A graph with the two sides of a cut in two colours and the edges between them in a third.

    >>> import mostfw as fw
    >>> from mostfw.pictures import CutPicture
    >>> CutPicture(fw.datasets.karate_club(), [0] * 30 + [1] * 4).title
    '34 nodes: 30 and 4, 29 edges cut'
    """

    graph: Any
    labels: Any

    @property
    def title(self) -> str:
        labels = np.asarray(self.labels)
        ones, cut = int(np.sum(labels != labels[0])), int(np.sum(self._crossing(self._edges())))
        return f"{len(labels)} nodes: {len(labels) - ones} and {ones}, {cut} edges cut"

    def _edges(self) -> np.ndarray:
        half = scipy.sparse.triu(as_graph(self.graph).adjacency).tocoo()
        return np.stack([half.row, half.col], axis=1)

    def _crossing(self, edges: np.ndarray) -> np.ndarray:
        labels = np.asarray(self.labels)
        return labels[edges[:, 0]] != labels[edges[:, 1]]

    def __call__(self, axes: Axes) -> None:
        from matplotlib.collections import LineCollection

        graph, labels = as_graph(self.graph), np.asarray(self.labels)
        places, edges = layout(graph), self._edges()
        crossing = self._crossing(edges)
        # Thousands of opaque lines would be one dark spot.
        faint = float(np.clip(200 / max(len(edges), 1), 0.06, 0.6))
        for mine, colour, opacity, above in (
            (edges[~crossing], GREY, faint, 1),
            (edges[crossing], VERMILLION, min(1.0, 1.6 * faint), 2),
        ):
            axes.add_collection(
                LineCollection(
                    list(places[mine]), colors=colour, alpha=opacity, linewidths=1.0, zorder=above
                )
            )
        size = float(np.clip(9000 / graph.nodes, 8, 220))
        for value, colour in zip(np.unique(labels), (BLUE, OCHRE), strict=False):
            mine = places[labels == value]
            axes.scatter(mine[:, 0], mine[:, 1], s=size, color=colour, zorder=3, linewidths=0)
        if graph.nodes <= NAMED:
            names = getattr(graph, "names", None) or range(graph.nodes)
            for (x, y), name in zip(places, names, strict=True):
                axes.text(
                    x, y, str(name), size=7, color="white", ha="center", va="center", zorder=4
                )
        axes.set_title(self.title)
        axes.set_axis_off()
        axes.set_aspect("equal")
        axes.margins(0.08)  # nodes are wider than their places


def layout(graph: Any) -> np.ndarray:
    """A place in the plane for every node: springs where networkx is there, else eigenvectors.

    >>> import mostfw as fw
    >>> layout(fw.datasets.karate_club()).shape
    (34, 2)
    """
    if graph.nodes <= SPRINGS:
        try:
            import networkx
        except ImportError:
            pass
        else:
            whole = networkx.from_scipy_sparse_array(abs(graph.adjacency))
            found = networkx.spring_layout(whole, seed=1, iterations=100)
            return np.array([found[node] for node in range(graph.nodes)])
    degrees = np.maximum(abs(graph.adjacency).sum(axis=1), 1e-12)
    scale = scipy.sparse.diags_array(1 / np.sqrt(degrees))
    walk = scale @ abs(graph.adjacency) @ scale
    if graph.nodes <= 4:
        return np.stack(np.broadcast_arrays(np.arange(graph.nodes), 0.0), axis=1).astype(float)
    start = np.random.default_rng(0).normal(size=graph.nodes)
    _, axes = scipy.sparse.linalg.eigsh(walk, k=3, which="LA", v0=start)
    return (scale @ axes)[:, :2]
