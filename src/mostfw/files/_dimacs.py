"""Graphs in DIMACS' formats: a line `p`, then an edge `e u v` or an arc `a u v weight` a line."""

from __future__ import annotations

import re

from ._collected import (
    Collected,
    EdgeList,
    check_nodes,
    node_in,
    not_numbered,
    weight_of,
    whole_numbers,
)
from ._text import TextLines

# What the problem line calls its kind: that of edges (of colouring and cliques), that of arcs.
_EDGES, _ARCS = ("edge", "edges", "col"), ("sp",)
_PROBLEM = re.compile(r"p\s+(?:edges?|col|sp)(?:\s|$)")
_IGNORED = ("c", "n", "d", "v", "x")  # comments; values of nodes and of other things


def is_dimacs(first: str) -> bool:
    """Whether the first line that is no comment of DIMACS' tells its format.

    >>> is_dimacs("p edge 5 3"), is_dimacs("p q 5 3"), is_dimacs("1 2")
    (True, False, False)
    """
    return bool(_PROBLEM.match(first.strip()))


def is_comment(line: str) -> bool:
    """Whether a line of DIMACS' says nothing: `c`, alone or before a blank.

    >>> is_comment("c made by hand"), is_comment("cat dog")
    (True, False)
    """
    words = line.split(maxsplit=1)
    return not words or words[0] == "c"


def dimacs(text: TextLines, one_based: bool | None) -> EdgeList:
    if one_based is not None:
        raise not_numbered(text.path)
    lines = (line for line in text if not is_comment(line))
    kind, nodes, promised = _problem(text, next(lines))
    found = Collected(text)
    for line in lines:
        words = line.split()
        if words[0] not in _IGNORED:
            _add(found, words, line, kind, nodes)
    listed = len(found.lines)
    u, v, _ = found.arrays()
    # Some files count each edge twice, and some list it twice.
    if promised not in (listed, 2 * listed, listed - int((u > v).sum())):
        raise text.wrong(
            f"{listed} edges are there, but {promised} are promised", "complete the file"
        )
    return found.edges(nodes, 1)


def _problem(text: TextLines, line: str) -> tuple[str, int, int]:
    _, kind, *rest = line.split()
    numbers = whole_numbers(" ".join(rest))
    if numbers is None or len(numbers) != 2:
        raise text.wrong(
            f"{line.strip()[:40]!r} is not the problem line", f"give `p {kind} nodes edges`"
        )
    check_nodes(text, numbers[0], numbers[1])
    return kind, numbers[0], numbers[1]


def _add(found: Collected, words: list[str], line: str, kind: str, nodes: int) -> None:
    mark, width = ("a", 4) if kind in _ARCS else ("e", 3)
    # Weighted edges are not in the format, but many files have them.
    if words[0] != mark or len(words) not in {width, 4}:
        wanted = "a u v weight" if mark == "a" else "e u v"
        raise found.text.wrong(f"{line.strip()[:40]!r} is no line `{wanted}`", "correct it")
    u, v = (node_in(found.text, word, nodes) for word in words[1:3])
    found.add(u, v, weight_of(found.text, words[3], line.strip()) if len(words) == 4 else 1.0)
