"""Known entries of a matrix: who rated what how, as a list of triples or as a matrix with gaps."""

from __future__ import annotations

import array
import dataclasses
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from . import _arrays
from ._cells import (
    DELIMITERS,
    cells_of,
    delimiter_of,
    is_number,
    is_numeral,
    is_row,
    split,
    to_float,
    width_of,
)
from ._tables import Table, read_table, table_of
from ._text import TextLines, existing, name_of, open_text, refusal

_THING = "rating file"
_SAMPLE = 10
_KNOWN = ("::", *DELIMITERS)  # :: is MovieLens'
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")


@dataclass(frozen=True)
class RatingTable:
    """Known entries: `values[k]` is at `rows[k]` and `columns[k]`, which count from 0 in the names.

    >>> import numpy as np
    >>> from mostfw import files
    >>> one = files.RatingTable(np.array([0]), np.array([1]), np.array([5.0]), ("u",), ("a", "b"))
    >>> one.shape
    (1, 2)
    """

    rows: np.ndarray
    columns: np.ndarray
    values: np.ndarray
    row_names: tuple[str, ...]
    column_names: tuple[str, ...]
    name: str = "ratings"

    @property
    def shape(self) -> tuple[int, int]:
        """Of the matrix with these entries."""
        return len(self.row_names), len(self.column_names)


def read_ratings(path: str | Path, *, key: str | None = None) -> RatingTable:
    r"""Ratings from lines `user,item,rating` or from a matrix with gaps.

    Text with 3 or 4 columns is a list, the fourth column (a time) being ignored. Users and items
    have any names, kept in the order of their first appearance, or in their own if they are whole
    numbers. Cells are separated by commas, semicolons, tabs, blanks or ::, a header may come
    first, and gzip may have packed it all. Text with fewer or more columns is a table (see
    `read_table`) in which an empty cell is unknown. .npy, .npz and .mat files hold a matrix: NaN
    is unknown, and so is what a sparse one does not store. `key` names it among several.

    >>> import pathlib, tempfile
    >>> from mostfw import files
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "ratings.csv")
    ...     _ = path.write_text("user,film,stars\nann,Heat,4\nbob,Heat,2.5\nann,Ran,5\n")
    ...     ratings = files.read_ratings(path)
    >>> ratings.row_names, ratings.column_names, ratings.values.tolist()
    (('ann', 'bob'), ('Heat', 'Ran'), [4.0, 2.5, 5.0])
    """
    path = existing(path, _THING)
    kind = _arrays.kind_of(path, _THING)
    if kind in (".npy", ".npz", ".mat"):
        return _from_matrix(_arrays.read_matrix(path, key=key, thing=_THING), path)
    if key is not None:
        raise refusal(_THING, path, f"it has no key {key!r}", "leave the key out")
    if kind is not None:
        return _from_table(read_table(path, missing=True), path)
    with open_text(path, _THING) as text:
        sample = text.ahead(_SAMPLE, is_row)
        if not sample:
            raise refusal(_THING, path, "it is empty", "give lines `user,item,rating`")
        delimiter = _delimiter(sample)
        if width_of(sample[:1], delimiter) in (3, 4):
            return _from_list(text, delimiter)
        return _from_table(table_of(text, missing=True), path)


def _delimiter(sample: list[str]) -> str | None:
    """What makes a list of the first lines, whatever stands in their names; or else a table."""
    lines = sample[1:] or sample
    for delimiter in _KNOWN:
        if width_of(lines, delimiter) in (3, 4) and _is_rating(split(lines[-1], delimiter)[2]):
            return delimiter
    return delimiter_of(sample, _KNOWN)


def _is_rating(cell: str) -> bool:
    """With a decimal comma it is one as well, though one that will be refused."""
    return is_number(cell) or is_numeral(cell)


def _from_list(text: TextLines, delimiter: str | None) -> RatingTable:
    users, items = _Names(), _Names()
    values, lines = array.array("d"), array.array("q")
    width = 0
    for line in filter(is_row, text):
        cells = cells_of(text, line, delimiter)
        if not width:
            width = len(cells)
            if _is_header(cells):
                continue
        if len(cells) != width:
            raise text.wrong(
                f"the line has {len(cells)} cells, the lines before have {width}",
                "give `user,item,rating`, and a time in every line or in none",
            )
        if not cells[0] or not cells[1]:
            raise text.wrong("the user or the item is empty", "name both")
        values.append(_rating(text, cells[2]))
        lines.append(text.number)
        users.add(cells[0])
        items.add(cells[1])
    if not values:
        raise refusal(_THING, text.path, "it has a header only", "give lines `user,item,rating`")
    (rows, row_names), (columns, column_names) = users.sorted(), items.sorted()
    keys = rows * len(column_names) + columns
    _, earliest, which = np.unique(keys, return_index=True, return_inverse=True)
    again = np.flatnonzero(earliest[which] != np.arange(len(keys)))
    if len(again):
        first, second = earliest[which[again[0]]], again[0]
        raise text.wrong(
            f"user {row_names[rows[first]]!r} has rated item {column_names[columns[first]]!r} on "
            f"line {lines[first]} too",
            "keep one of the two",
            line=lines[second],
        )
    return RatingTable(rows, columns, np.array(values), row_names, column_names, name_of(text.path))


def _is_header(cells: list[str]) -> bool:
    """Whether a word stands for the rating. It is a mistake between numbers, and so is `5stars`."""
    user, item, word = cells[:3]
    if is_number(word) or not word[0].isalpha():
        return False
    return not (is_numeral(user) and is_numeral(item))


def _rating(text: TextLines, cell: str) -> float:
    value = to_float(cell)
    if value is None or not math.isfinite(value):
        found = f"the rating {cell[:40]!r} is not a finite number"
        raise text.wrong(found, "give a number, or leave the line out", column="3")
    return value


class _Names:
    """Names as they come, and which of them each entry has."""

    def __init__(self) -> None:
        self.places: dict[str, int] = {}
        self.entries = array.array("q")

    def add(self, name: str) -> None:
        self.entries.append(self.places.setdefault(name, len(self.places)))

    def sorted(self) -> tuple[np.ndarray, tuple[str, ...]]:
        """The place of each entry among the names, which are in order if they are whole numbers."""
        names, entries = list(self.places), np.array(self.entries)
        if not all(map(_WHOLE.fullmatch, names)):
            return entries, tuple(names)
        order = sorted(range(len(names)), key=lambda place: int(names[place]))
        new = np.empty(len(names), dtype=np.int64)
        new[order] = np.arange(len(names))
        return new[entries], tuple(names[place] for place in order)


def _from_table(table: Table, path: Path) -> RatingTable:
    known = _from_matrix(table.values, path)
    return dataclasses.replace(
        known,
        row_names=table.rows or known.row_names,
        column_names=table.columns or known.column_names,
    )


def _from_matrix(matrix: Any, path: Path) -> RatingTable:
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise refusal(_THING, path, f"it holds an array of shape {matrix.shape}", "give a matrix")
    if scipy.sparse.issparse(matrix):
        entries = matrix.tocoo()
        (rows, columns), values = entries.coords, entries.data
    else:
        rows, columns = np.nonzero(~np.isnan(matrix))
        values = matrix[rows, columns]
    if not len(values):
        raise refusal(_THING, path, "it has no known entry", "give some")
    if not np.all(np.isfinite(values)):
        raise refusal(_THING, path, "an entry is NaN or infinite", "drop it; NaN is for unknown")
    return RatingTable(
        rows.astype(np.int64),
        columns.astype(np.int64),
        np.array(values, dtype=float),
        *(tuple(map(str, range(count))) for count in matrix.shape),
        name=name_of(path),
    )
