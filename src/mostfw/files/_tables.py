"""Tables of numbers from text and from files of arrays."""

from __future__ import annotations

import array
import dataclasses
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..checks import whole
from . import _arrays
from ._cells import (
    cells_of,
    delimiter_of,
    is_missing,
    is_number,
    is_numeral,
    is_row,
    numbers,
    to_float,
)
from ._text import TextLines, existing, name_of, open_text, refusal

_THING = "data file"
_SAMPLE = 10  # lines that tell what separates the cells
_TEXT = "OUSM"  # kinds of columns that label the rows: words and dates


@dataclass(frozen=True)
class Table:
    """Numbers in rows and columns, with the names of both where the file has them.

    >>> import numpy as np
    >>> from mostfw import files
    >>> table = files.Table(np.eye(2), columns=("a", "b"), name="small")
    >>> table.values.shape, table.rows
    ((2, 2), None)
    """

    values: np.ndarray
    columns: tuple[str, ...] | None = None
    rows: tuple[str, ...] | None = None
    name: str = "table"

    @property
    def transposed(self) -> Table:
        """Rows as columns.

        >>> import numpy as np
        >>> from mostfw import files
        >>> files.Table(np.ones((1, 2)), columns=("a", "b")).transposed.rows
        ('a', 'b')
        """
        values = np.ascontiguousarray(self.values.T)
        return Table(values, columns=self.rows, rows=self.columns, name=self.name)


def read_table(
    path: str | Path,
    *,
    key: str | None = None,
    transpose: bool = False,
    missing: bool = False,
    at_least_rows: int = 1,
    at_least_columns: int = 1,
) -> Table:
    r"""A table of numbers from .csv, .tsv, other text, .npy, .npz, .mat or .parquet.

    All but .parquet may be packed with gzip. The cells of text are separated by commas, semicolons,
    tabs or blanks, its decimals are written with a point, and lines that begin with # are comments.
    A first line of words is a header. A first column of words or dates in every row labels the
    rows, and so does one whose header is empty, as pandas and R write it. `key` names the array in
    .npz and .mat files that hold several; `transpose` swaps rows and columns; with `missing` a cell
    that is empty, NaN or infinite becomes NaN, without it is an error.

    >>> import pathlib, tempfile
    >>> from mostfw import files
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "prices.csv")
    ...     _ = path.write_text("day,A,B\n2020-01-02,1.5,2\n2020-01-03,1.25,3\n")
    ...     table = files.read_table(path)
    >>> table.columns, table.rows, table.values.tolist()
    (('A', 'B'), ('2020-01-02', '2020-01-03'), [[1.5, 2.0], [1.25, 3.0]])
    """
    path = existing(path, _THING)
    kind = _arrays.kind_of(path, _THING)
    if key is not None and kind not in (".npz", ".mat"):
        raise refusal(_THING, path, f"it has no key {key!r}", "leave the key out")
    if kind is None:
        with open_text(path, _THING) as text:
            table = table_of(text, missing)
    elif kind == ".parquet":
        table = _from_parquet(path, missing)
    else:
        matrix = _arrays.dense(_arrays.read_matrix(path, key=key), _THING, path)
        table = _checked(Table(matrix, name=name_of(path)), path, missing)
    table = table.transposed if transpose else table
    for side, least, found in zip(
        ("rows", "columns"), (at_least_rows, at_least_columns), table.values.shape, strict=True
    ):
        if found < whole(f"at_least_{side}", least, 0):
            raise refusal(
                _THING,
                path,
                f"it has {found} {side} of numbers",
                f"at least {least} are needed; transpose swaps rows and columns",
            )
    return table


def table_of(text: TextLines, missing: bool) -> Table:
    """The table that a text holds."""
    sample = text.ahead(_SAMPLE, is_row)
    if not sample:
        raise refusal(text.thing, text.path, "it is empty", "give rows of numbers")
    delimiter = delimiter_of(sample, commas=text.path.name.removesuffix(".gz").endswith(".csv"))
    rows = (cells_of(text, line, delimiter) for line in text if is_row(line))
    first = next(rows)
    if not _is_header(first):
        reader = _RowReader(text, None, missing)
        reader.add(first)
    else:
        reader = _RowReader(text, first, missing)
    for cells in rows:
        reader.add(cells)
    return reader.table()


def _is_header(cells: list[str]) -> bool:
    """Whether a first line has no numbers, but for its first cell, which may label the row.

    An empty first cell stands above the labels, and pandas numbers columns without a name.
    """
    rest = cells[1:]
    if cells[0] == "" and rest == [str(place) for place in range(len(rest))]:
        return len(cells) > 1
    named = [cell for cell in rest if not is_missing(cell)]
    if not named:
        return len(cells) == 1 and not _is_numeral(cells[0])
    return not any(map(_is_numeral, named))


def _is_numeral(cell: str) -> bool:
    return is_number(cell) or is_numeral(cell)


class _RowReader:
    """Takes the rows of a text one by one, and knows what each column is called."""

    def __init__(self, text: TextLines, header: list[str] | None, missing: bool) -> None:
        self.text, self.header, self.missing = text, header, missing
        self.values, self.labels = array.array("d"), []
        self.columns: list[str] = []
        self.width = 0
        # An empty header says that a column labels the rows, whatever it holds.
        self.labelled: bool | None = True if header and header[0] == "" else None

    def add(self, cells: list[str]) -> None:
        if not self.width:
            self.begin(cells)
        if len(cells) != self.width:
            raise self.text.wrong(
                f"the row has {len(cells)} cells, the rows before have {self.width}",
                "give every row as many",
            )
        if self.labelled:
            self.check_label(cells[0])
            self.labels.append(cells[0])
            cells = cells[1:]
        self.values.extend(numbers(self.text, cells, self.columns, self.missing))

    def begin(self, cells: list[str]) -> None:
        """What the first row of numbers tells of all of them."""
        self.width = len(cells)
        if self.header is not None and len(self.header) == self.width - 1:
            self.header.insert(0, "")  # as R writes it: no name above the labels
            self.labelled = True
        if self.header is not None and len(self.header) != self.width:
            raise self.text.wrong(
                f"the row has {self.width} cells, the header has {len(self.header)}",
                "give every column a name and every row as many cells",
            )
        self.sure = self.labelled is True
        self.labelled = self.sure or not is_number(cells[0])
        if self.labelled and self.width == 1:
            raise self.text.wrong(f"{cells[0][:40]!r} is not a number", "give rows of numbers")
        names = self.header or [""] * self.width
        places = [
            f"{place} ({name[:40]!r})" if name else f"{place}"
            for place, name in enumerate(names, start=1)
        ]
        self.columns = places[1:] if self.labelled else places

    def check_label(self, cell: str) -> None:
        if not self.sure and to_float(cell) is not None:
            raise self.text.wrong(
                f"{cell[:40]!r} stands where the rows before have words",
                "give words in every row to label them, or numbers in every row",
                column="1",
            )
        if _is_several(cell) or (not self.sure and is_numeral(cell)):
            raise self.text.wrong(
                f"{cell[:40]!r} is neither a number nor a word",
                "write decimals with a point, and one delimiter between all cells",
                column="1",
            )

    def table(self) -> Table:
        path = self.text.path
        if not self.width:
            raise refusal(self.text.thing, path, "it has a header only", "give rows of numbers")
        width = self.width - bool(self.labelled)
        names = None if self.header is None else tuple(self.header[-width:])
        return Table(
            np.array(self.values).reshape(-1, width),
            columns=names,
            rows=tuple(self.labels) if self.labelled else None,
            name=name_of(path),
        )


def _is_several(cell: str) -> bool:
    """Whether a label holds numbers, which then are separated by something else than assumed."""
    words, parts = re.split(r"[\s,;]+", cell), re.split(r"[;\t]", cell)
    if len(words) > 1 and all(map(is_numeral, words)):
        return True
    return len(parts) > 1 and is_numeral(parts[-1])


def _from_parquet(path: Path, missing: bool) -> Table:
    names, columns, index = _arrays.read_parquet(path, _THING)
    if index is None and columns and columns[0].dtype.kind in _TEXT:
        index, names, columns = columns[0], names[1:], columns[1:]
    if not columns:
        raise refusal(_THING, path, "it has no column of numbers", "give some")
    values = np.stack(
        [
            _arrays.real(column, f"its column {name!r}", _THING, path)
            for name, column in zip(names, columns, strict=True)
        ],
        axis=1,
    )
    rows = None if index is None else tuple(map(str, index))
    return _checked(Table(values, tuple(names), rows, name_of(path)), path, missing)


def _checked(table: Table, path: Path, missing: bool) -> Table:
    """The table of a file of arrays, if it is one of finite numbers."""
    values = table.values
    if values.ndim != 2 or 0 in values.shape:
        raise refusal(
            _THING, path, f"it holds an array of shape {values.shape}", "rows of numbers are needed"
        )
    unknown = ~np.isfinite(values)
    if not unknown.any():
        return table
    if missing:
        return dataclasses.replace(table, values=np.where(unknown, np.nan, values))
    row, column = np.argwhere(unknown)[0].tolist()
    name = f" ({table.columns[column]!r})" if table.columns else ""
    raise refusal(
        _THING,
        path,
        f"{np.sum(unknown)} numbers are NaN or infinite, the first in row {row + 1}, column "
        f"{column + 1}{name}, counted from 1",
        "fill them in, or drop the rows or the columns",
    )
