"""Lines as cells, and cells as numbers: the rules that tables, ratings and graphs share."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Sequence

from ._text import TextLines

# What programs write where a number is unknown; NaN and infinities are known as numbers.
MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?"})
DELIMITERS = ("\t", ";", ",", None)  # None: blanks
NO_DELIMITER = "\x1f"  # a control character that the lines of no text hold
_DECIMAL_COMMA = re.compile(r"[+-]?[0-9][0-9.]*,[0-9]+")
_IN_BLANKS = re.compile(r'"((?:[^"]|"")*)"(?=\s|$)|(\S+)')


def split(line: str, delimiter: str | None) -> list[str]:
    """The cells of a line. Quotes protect the delimiter, as in the csv module.

    >>> split('1, "a,b",2', ","), split('x  "y z"', None)
    (['1', 'a,b', '2'], ['x', 'y z'])
    """
    if '"' not in line or delimiter == "::":
        cells = line.split(delimiter)
        blanks = delimiter is not None and (" " in line or "\t" in line)
        return [cell.strip() for cell in cells] if blanks else cells
    if delimiter is None:
        return [
            bare or quoted.replace('""', '"') for quoted, bare in _IN_BLANKS.findall(line.strip())
        ]
    # One line at a time: a quote that is not closed must not swallow the lines after it.
    reader = csv.reader([line], delimiter=delimiter, skipinitialspace=True, strict=True)
    return [cell.strip() for cell in next(reader)]


def cells_of(text: TextLines, line: str, delimiter: str | None) -> list[str]:
    """The same, with an error that names the line."""
    try:
        return split(line, delimiter)
    except (csv.Error, StopIteration) as error:
        raise text.wrong(f"{line[:40]!r} cannot be split ({error})", "correct it") from error


def is_row(line: str) -> bool:
    """Whether a line is neither empty nor a comment."""
    start = line.lstrip()
    return bool(start) and start[0] != "#"


def delimiter_of(
    lines: Sequence[str], known: Sequence[str | None] = DELIMITERS, commas: bool = False
) -> str | None:
    """What separates the cells of the first lines of a file; `commas`: they are expected.

    That which gives each line the same number of cells, if possible such that they are numbers.
    Where all that are not numbers are so but for a decimal comma, the comma separates nothing:
    the cells are left as they are, for an error.

    >>> delimiter_of(["name;size, in m", "a;1", "b;2"]), delimiter_of(["a;1,5", "b;2,5"])
    (';', ';')
    """
    # The first line may be a header with a cell less or with delimiters in its words.
    sample = list(lines[1:]) or list(lines)
    widths = {delimiter: width_of(sample, delimiter) for delimiter in known}
    even = {each: split(sample[-1], each) for each, width in widths.items() if width > 1}
    for delimiter, cells in even.items():
        comma = delimiter == "," or (delimiter is None and commas)
        if not comma and _with_decimal_commas(cells):
            return delimiter
    for delimiter, cells in even.items():
        if all(map(is_number, cells[1:])):
            return delimiter
    if even:
        return next(iter(even))
    occur = [each for each in known if each is None or each in lines[0]]
    # One number a line below a word or more. Below numbers, it is a row that lacks some.
    alone = len(lines) > 1 and set(widths.values()) == {1}
    if alone and not any(map(is_numeral, re.split(r"[\s,;]+", lines[0]))):
        return NO_DELIMITER
    return (occur or [None])[0]


def _with_decimal_commas(cells: list[str]) -> bool:
    """Whether these are numbers, some of them with a decimal comma, but perhaps for a label."""
    odd = [cell for cell in cells[1:] if not is_number(cell)]
    first = bool(_DECIMAL_COMMA.fullmatch(cells[0])) and is_number(cells[1])
    return (bool(odd) or first) and all(map(_DECIMAL_COMMA.fullmatch, odd))


def width_of(lines: Sequence[str], delimiter: str | None) -> int:
    """The number of cells of each of these lines, or 0 if they differ."""
    try:
        widths = {len(split(line, delimiter)) for line in lines}
    except (csv.Error, StopIteration):
        return 0
    return widths.pop() if len(widths) == 1 else 0


def to_float(cell: str) -> float | None:
    """The number that a cell is, or None. `float` would take 1_000 and digits of all scripts."""
    if "_" in cell or not cell.isascii():
        return None
    try:
        return float(cell)
    except ValueError:
        return None


def is_numeral(cell: str) -> bool:
    """Whether this is a number, or almost one, that would be a mistake as a word."""
    if _DECIMAL_COMMA.fullmatch(cell):
        return True
    try:
        return math.isfinite(float(cell))
    except ValueError:
        return False


def is_missing(cell: str) -> bool:
    return cell.lower() in MISSING


def is_number(cell: str) -> bool:
    """Whether a number stands here, or a mark that it is missing."""
    return is_missing(cell) or to_float(cell) is not None


def numbers(
    text: TextLines, cells: list[str], columns: Sequence[str], missing: bool
) -> list[float]:
    """The numbers of a row, NaN where one is missing and may be; `columns` name the places."""
    try:
        row = [*map(float, cells)]
    except ValueError:
        row = None
    # A sum tells in one go that all are finite. Where it does not, each cell is looked at, and
    # so it is where `float` might have been too kind.
    if row is not None and math.isfinite(sum(row)) and _plain(cells):
        return row
    return [
        _number(text, cell, column, missing) for cell, column in zip(cells, columns, strict=True)
    ]


def _plain(cells: list[str]) -> bool:
    joined = "".join(cells)
    return joined.isascii() and "_" not in joined


def _number(text: TextLines, cell: str, column: str, missing: bool) -> float:
    value = math.nan if is_missing(cell) else to_float(cell)
    if value is None:
        remedy = "give a number"
        if _DECIMAL_COMMA.fullmatch(cell):
            remedy = "write decimals with a point, and thousands without a comma"
        raise text.wrong(f"{cell[:40]!r} is not a number", remedy, column=column)
    if math.isfinite(value):
        return value
    if missing:
        return math.nan
    found = f"{cell[:40]!r} is not a finite number" if cell else "the cell is empty"
    raise text.wrong(found, "fill it in, or drop the row or the column", column=column)
