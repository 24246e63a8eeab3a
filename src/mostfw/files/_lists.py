"""Edge lists: two nodes a line, numbers or names, and perhaps a weight."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ._cells import cells_of, is_numeral, to_float
from ._collected import (
    THING,
    Collected,
    EdgeList,
    check_nodes,
    no_edge,
    not_numbered,
    weight_of,
    without_comment,
)
from ._limits import MOST_FOR_EACH_ENTRY
from ._text import TextLines, open_text

# Pairs of words by which a header is known where the nodes have names themselves.
_HEADERS = {
    ("source", "target"),
    ("from", "to"),
    ("src", "dst"),
    ("node1", "node2"),
    ("node_1", "node_2"),
    ("start", "end"),
}
_WEIGHTS = {"weight", "weights", "w", "value"}


def edge_list(path: Path, one_based: bool | None) -> EdgeList:
    with open_text(path, THING) as text:
        first, second = (*text.ahead(2, lambda line: bool(without_comment(line))), "", "")[:2]
        delimiter = _delimiter(first)
        header = _is_header(
            *(cells_of(text, without_comment(line), delimiter) for line in (first, second))
        )
        rows = _rows(text, delimiter)
        place = _weight_place(next(rows)[1]) if header else 2
        start = cells_of(text, without_comment(second if header else first), delimiter)
        numbered = any(map(is_numeral, start[:2]))
        reader = _EdgeReader(text, place, numbered)
        for line, cells in rows:
            reader.add(line, cells)
        return reader.numbered(one_based) if numbered else reader.named(one_based)


def _rows(text: TextLines, delimiter: str | None) -> Iterator[tuple[str, list[str]]]:
    for line in text:
        if content := without_comment(line):
            yield content, cells_of(text, content, delimiter)


def _delimiter(line: str) -> str | None:
    """A tab between names may have blanks beside it, one between numbers is a blank."""
    line = without_comment(line)
    if "\t" in line and not all(map(is_numeral, line.split())):
        return "\t"
    return next((mark for mark in ";," if mark in line), None)


def _is_header(first: list[str], second: list[str]) -> bool:
    """Whether the first row has words only, and not because the nodes have names."""
    if len(first) < 2 or any(map(is_numeral, first)):
        return False
    if len(second) > 1 and all(map(is_numeral, second[:2])):
        return True
    weighted = len(first) > 2 and any(map(is_numeral, second[2:]))
    return weighted or (first[0].lower(), first[1].lower()) in _HEADERS


def _weight_place(header: list[str]) -> int:
    """The place of the weights."""
    found = (place for place, word in enumerate(header) if word.lower() in _WEIGHTS)
    return max(next(found, 2), 2)


class _EdgeReader:
    """Takes the rows of an edge list one by one."""

    def __init__(self, text: TextLines, place: int, numbered: bool) -> None:
        self.text, self.place = text, place  # of the weight in a row
        self.node = self.number if numbered else self.place_of
        self.found = Collected(text)
        self.places: dict[str, int] = {}  # of the names
        self.widths: dict[int, int] = {}  # how many rows have so many cells

    def add(self, line: str, cells: list[str]) -> None:
        while cells and not cells[-1]:
            cells.pop()  # a delimiter at the end
        if len(cells) < 2 or not cells[0] or not cells[1]:
            raise no_edge(self.text, line)
        self.check_width(len(cells))
        u, v = self.node(cells[0], line), self.node(cells[1], line)
        weighted = len(cells) > self.place
        self.found.add(u, v, weight_of(self.text, cells[self.place], line) if weighted else 1.0)

    def check_width(self, width: int) -> None:
        """A row may lack its weight. What stands behind the weight is left out, but in all rows."""
        self.widths[width] = self.widths.get(width, 0) + 1
        if max(self.widths) > 3 and len(self.widths) > 1:
            raise self.text.wrong(
                f"the row has {width} cells, those before have {next(iter(self.widths))}",
                "give two nodes and perhaps a weight in each",
            )

    def number(self, word: str, line: str) -> int:
        if word.isdecimal() and word.isascii() and len(word) <= 15:
            return int(word)
        value = to_float(word)
        if value is None or not math.isfinite(value) or not value.is_integer():
            raise no_edge(self.text, line)
        if not 0 <= value < 10**15:
            found = "a node is negative" if value < 0 else f"node {word[:40]} is too large"
            raise self.text.wrong(found, "number the nodes 0, 1, 2, ...")
        return int(value)

    def place_of(self, word: str, line: str) -> int:
        if word == "p" and not self.places and len(line.split()) == 4:
            raise self.text.wrong(
                "this is a format of DIMACS' that is not read",
                "give `p edge` with lines `e u v`, or `p sp` with lines `a u v weight`",
            )
        return self.places.setdefault(word, len(self.places))

    def named(self, one_based: bool | None) -> EdgeList:
        if one_based is not None:
            raise not_numbered(self.text.path)
        return self.found.edges(len(self.places), 0, tuple(self.places))

    def numbered(self, one_based: bool | None) -> EdgeList:
        u, v, _ = self.found.arrays()
        self.check_no_matrix(len(u))
        nodes = None if one_based is False else self.header_nodes(u, v)
        if nodes is not None:
            self.found.drop_first()
            return self.found.edges(nodes, 1)
        least, most = min(u.min(), v.min()), max(u.max(), v.max())
        base = min(1, int(least)) if one_based is None else int(one_based)
        if least < base:
            place = np.flatnonzero(np.minimum(u, v) < base)[0]
            raise self.text.wrong(
                "node 0 is there, but one_based says that nodes count from 1",
                "leave one_based out",
                line=self.found.lines[place],
            )
        nodes = int(most) + 1 - base
        if nodes > MOST_FOR_EACH_ENTRY * (len(u) + 1):
            place = np.argmax(np.maximum(u, v))
            raise self.text.wrong(
                f"there is node number {most}, but only {len(u)} edges",
                "number the nodes 0, 1, 2, ... without large gaps, or give them names",
                line=self.found.lines[place],
            )
        return self.found.edges(nodes, base)

    def check_no_matrix(self, rows: int) -> None:
        """A square of numbers would pass for edges with something behind their weights."""
        width = next(iter(self.widths))
        if width == rows > 3:
            raise self.text.wrong(
                f"the {rows} rows have {width} cells each, as a matrix has",
                "read a matrix with mostfw.files.read_table, and give its values as the graph",
                line=self.found.lines[0],
            )

    def header_nodes(self, u: np.ndarray, v: np.ndarray) -> int | None:
        """The number of nodes, if the first row is a header `nodes edges` of weighted edges.

        It is one if it alone has no weight and its first number is at least every node. Were it
        an edge, its first node would have to be the largest of all and its weight be left out by
        mistake.
        """
        nodes, promised, listed = int(u[0]), int(v[0]), len(u) - 1
        first_alone = list(self.widths) == [2, 3] and self.widths[2] == 1
        if not first_alone or min(u[1:].min(), v[1:].min()) < 1:
            return None
        if max(u[1:].max(), v[1:].max()) > nodes:
            return None
        line = self.found.lines[0]
        if listed != promised:
            raise self.text.wrong(
                f"the line promises {promised} edges, but {listed} follow",
                "complete the file, or give every edge a weight if that line is an edge",
                line=line,
            )
        check_nodes(self.text, nodes, listed, line)
        return nodes
