"""Graphs in the METIS format: numbers of nodes and edges, then the neighbours of each node."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from ._collected import (
    COMMENTS,
    THING,
    Collected,
    EdgeList,
    check_nodes,
    node_in,
    not_numbered,
    weight_of,
    whole_numbers,
)
from ._text import TextLines, open_text


@dataclass(frozen=True)
class _Header:
    nodes: int
    edges: int
    skipped: int  # numbers of the node itself before its neighbours
    weighted: bool


def metis(path: Path, one_based: bool | None) -> EdgeList:
    if one_based is not None:
        raise not_numbered(path)
    with open_text(path, THING) as text:
        lines = (line for line in text if not line.lstrip().startswith(COMMENTS))
        header = _header(text, next((line for line in lines if line.strip()), ""))
        found, node = Collected(text), 0
        for line in lines:
            if node == header.nodes and not line.strip():
                continue  # empty lines at the end are no nodes
            node += 1
            if node <= header.nodes:
                _add_neighbours(found, node, line.split(), header)
        if node != header.nodes:
            raise text.wrong(
                f"{node} lines of neighbours are there, but {header.nodes} nodes are promised",
                "complete the file, or let its name end in .edges if it lists edges",
            )
        _check_neighbours(found, header)
        return found.edges(header.nodes, 1)


def _header(text: TextLines, line: str) -> _Header:
    words, numbers = line.split(), whole_numbers(line)
    layout, count = (*words[2:4], *("0", "1")[len(words[2:4]) :])
    if numbers is None or not 2 <= len(words) <= 4 or not re.fullmatch("[01]{1,3}", layout):
        raise text.wrong(
            f"{line.strip()[:40]!r} is not the first line of a METIS file",
            "give `nodes edges [fmt [ncon]]`, or let its name end in .edges if it lists edges",
        )
    nodes, edges = numbers[:2]
    check_nodes(text, nodes, edges)
    sizes, weights, weighted = map(int, layout.zfill(3))
    return _Header(nodes, edges, sizes + weights * int(count), bool(weighted))


def _add_neighbours(found: Collected, node: int, words: list[str], header: _Header) -> None:
    rest = words[header.skipped :]
    if len(words) < header.skipped:
        raise found.text.wrong(
            f"the line has {len(words)} numbers", f"give the {header.skipped} of the node first"
        )
    if header.weighted and len(rest) % 2:
        raise found.text.wrong("a neighbour has no weight", "give a weight after each neighbour")
    neighbours = rest[::2] if header.weighted else rest
    weights = rest[1::2] if header.weighted else ["1"] * len(rest)
    for neighbour, weight in zip(neighbours, weights, strict=True):
        other = node_in(found.text, neighbour, header.nodes)
        found.add(node, other, weight_of(found.text, weight, f"{neighbour} {weight}"))


def _check_neighbours(found: Collected, header: _Header) -> None:
    """Each edge is there with both of its nodes, and all that were promised are."""
    u, v, _ = found.arrays()
    found.check_mirrored(header.nodes, "list each edge with both of its nodes")
    # A loop may be listed once or twice.
    if 2 * header.edges not in (len(u), len(u) + int((u == v).sum())):
        raise found.text.wrong(
            f"there are {len(u)} neighbours, but {header.edges} edges are promised, each with two",
            "correct the first line, or complete the file",
        )
