"""Graphs in the Matrix Market format: a banner, the size, and one entry a line."""

from __future__ import annotations

from collections.abc import Iterator

from ._collected import (
    Collected,
    EdgeList,
    check_nodes,
    node_in,
    not_numbered,
    weight_of,
    whole_numbers,
    without_comment,
)
from ._text import TextLines


def matrix_market(text: TextLines, one_based: bool | None) -> EdgeList:
    if one_based is not None:
        raise not_numbered(text.path)
    lines = iter(text)
    banner = next(line for line in lines if line.strip())
    words = banner.lower().split()[1:]
    if (
        len(words) != 4
        or words[:2] != ["matrix", "coordinate"]
        or words[2] not in ("real", "integer", "double", "pattern")
        or words[3] not in ("symmetric", "general")
    ):
        raise text.wrong(
            f"{banner[:80]!r} is no graph",
            "save it as `matrix coordinate`, real, integer or pattern, symmetric or general",
        )
    width = 2 if words[2] == "pattern" else 3
    nodes, promised = _matrix_size(text, lines)
    found, listed = Collected(text), 0
    for line in lines:
        if not (content := without_comment(line)):
            continue
        cells = content.split()
        if len(cells) != width:
            wanted = "two node numbers" if width == 2 else "two node numbers and a weight"
            raise text.wrong(f"{content[:40]!r} is not an entry", f"give {wanted}")
        u, v = (node_in(text, cell, nodes) for cell in cells[:2])
        weight = weight_of(text, cells[2], content) if width == 3 else 1.0
        listed += 1
        if weight:
            found.add(u, v, weight)
    if listed != promised:
        raise text.wrong(
            f"{listed} entries are there, but {promised} are promised", "complete the file"
        )
    if words[3] == "general":
        found.check_mirrored(nodes, "write `symmetric` above if each edge is there once")
    return found.edges(nodes, 1)


def _matrix_size(text: TextLines, lines: Iterator[str]) -> tuple[int, int]:
    content = next((content for line in lines if (content := without_comment(line))), "")
    sizes = whole_numbers(content)
    if sizes is None or len(sizes) != 3:
        raise text.wrong(f"{content[:40]!r} is not the size", "give `rows columns entries`")
    rows, columns, entries = sizes
    if rows != columns:
        found = f"the matrix has {rows} rows and {columns} columns"
        raise text.wrong(found, "a graph needs a square matrix")
    check_nodes(text, rows, entries)
    return rows, entries
