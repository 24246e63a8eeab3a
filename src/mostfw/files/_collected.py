"""Edges as they are collected from any format of graphs, and what these formats share."""

from __future__ import annotations

import array
import math
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..errors import InvalidInputError
from ._cells import to_float
from ._limits import is_absurd
from ._text import TextLines, name_of, refusal

THING = "graph file"
COMMENTS = ("#", "%", "//")
_LATE_COMMENT = re.compile(r"\s(?:#|%|//).*")
_NODE = re.compile(r"\+?[0-9]{1,15}")


@dataclass(frozen=True)
class EdgeList:
    """An undirected graph: edge k joins u[k] <= v[k], each pair once; `names` are the nodes'.

    >>> import numpy as np
    >>> from mostfw import files
    >>> files.EdgeList(3, np.array([0, 1]), np.array([1, 2]), np.ones(2)).nodes
    3
    """

    nodes: int
    u: np.ndarray
    v: np.ndarray
    weights: np.ndarray
    names: tuple[str, ...] | None = None
    name: str = "graph"


def without_comment(line: str) -> str:
    """A line without its comment."""
    if line.lstrip().startswith(COMMENTS):
        return ""
    return _LATE_COMMENT.sub("", line).strip()


class Collected:
    """Edges as they come, with the lines that they stand on."""

    def __init__(self, text: TextLines) -> None:
        self.text = text
        self.ends = array.array("q"), array.array("q")
        self.weights, self.lines = array.array("d"), array.array("q")

    def add(self, u: int, v: int, weight: float) -> None:
        self.ends[0].append(u)
        self.ends[1].append(v)
        self.weights.append(weight)
        self.lines.append(self.text.number)

    def drop_first(self) -> None:
        for column in (*self.ends, self.weights, self.lines):
            del column[0]

    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        if not self.lines:
            raise no_edges(self.text.path)
        u, v = (np.array(end) for end in self.ends)
        return u, v, np.array(self.weights)

    def edges(self, nodes: int, base: int, names: tuple[str, ...] | None = None) -> EdgeList:
        """The graph, with nodes numbered from `base` on in the file."""
        u, v, weights = self.arrays()
        kept, clash = distinct_edges(nodes, u, v, weights)
        if clash is not None:
            first, second = clash
            shown = [names[end[second]] if names else str(end[second]) for end in (u, v)]
            raise self.text.wrong(
                f"the edge {' '.join(shown)} has weight {weights[second]:g}, and on line "
                f"{self.lines[first]} it has {weights[first]:g}",
                "give each edge one weight",
                line=self.lines[second],
            )
        low, high = np.minimum(u, v)[kept] - base, np.maximum(u, v)[kept] - base
        return EdgeList(nodes, low, high, weights[kept], names, name_of(self.text.path))

    def check_mirrored(self, nodes: int, remedy: str) -> None:
        """Refuses (u, v) without (v, u) where both must be there."""
        u, v, _ = self.arrays()
        alone = np.flatnonzero(~np.isin(u * (nodes + 1) + v, v * (nodes + 1) + u))
        if len(alone):
            place = alone[0]
            raise self.text.wrong(
                f"there is {u[place]} {v[place]}, but no {v[place]} {u[place]}",
                remedy,
                line=self.lines[place],
            )


def distinct_edges(
    nodes: int, u: np.ndarray, v: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, tuple[int, int] | None]:
    """The places where an edge is listed first, and those of two that clash, if any do.

    The same edge listed again, or in the other direction, is one edge; with another weight it
    is a clash.

    >>> import numpy as np
    >>> from mostfw import files
    >>> u, v = np.array([0, 1, 1]), np.array([1, 0, 2])
    >>> kept, clash = files.distinct_edges(3, u, v, np.array([5.0, 6.0, 1.0]))
    >>> kept.tolist(), clash
    ([0, 2], (0, 1))
    """
    keys = np.minimum(u, v) * (nodes + 1) + np.maximum(u, v)
    _, kept, which = np.unique(keys, return_index=True, return_inverse=True)
    others = np.flatnonzero(weights != weights[kept[which]])
    clash = (int(kept[which[others[0]]]), int(others[0])) if len(others) else None
    return kept, clash


def weight_of(text: TextLines, word: str, line: str) -> float:
    value = to_float(word)
    if value is None:
        raise no_edge(text, line)
    if not math.isfinite(value):
        raise text.wrong(f"the weight is {word[:40]!r}", "give a finite number")
    return value


def no_edges(path: Path) -> InvalidInputError:
    return InvalidInputError(f"{THING} {str(path)!r} has no edges: give some.")


def no_edge(text: TextLines, line: str) -> InvalidInputError:
    return text.wrong(
        f"{line[:40]!r} is not an edge (two node numbers and perhaps a weight)",
        "correct it, or use names for nodes from the first edge on",
    )


def not_numbered(path: Path) -> InvalidInputError:
    return refusal(
        THING,
        path,
        "one_based is for lists of edges between numbers, which this is not",
        "leave one_based out",
    )


def check_nodes(text: TextLines, nodes: int, edges: int, line: int | None = None) -> None:
    if is_absurd(nodes, edges):
        raise text.wrong(
            f"there are {nodes} nodes for {edges} edges", "leave nodes without edges out", line
        )


def whole_numbers(content: str) -> list[int] | None:
    words = content.split()
    return [int(word) for word in words] if all(map(_NODE.fullmatch, words)) else None


def node_in(text: TextLines, word: str, nodes: int) -> int:
    """A node of a file that says how many there are, from 1 on."""
    if not _NODE.fullmatch(word) or not 1 <= int(word) <= nodes:
        raise text.wrong(f"{word[:40]!r} is not a node", f"give a number from 1 to {nodes}")
    return int(word)
