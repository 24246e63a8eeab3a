"""Semidefinite programs in the SDPA sparse format (.dat-s), as SDPLIB and most solvers use it.

A file poses a pair of programs with symmetric block diagonal matrices F_0, ..., F_m:

    (P)  min c'x        subject to  x_1 F_1 + ... + x_m F_m - F_0 psd
    (D)  max <F_0, Y>   subject to  <F_k, Y> = c_k for k = 1, ..., m,  Y psd
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from . import checks, files
from .errors import InvalidInputError

# A matrix of that side takes 80 GB, and a diagonal of that length 0.8 GB.
_MOST_SIDE, _MOST_DIAGONAL = 10**5, 10**8
_SEPARATORS = str.maketrans(",(){}", "     ")


@dataclass(frozen=True)
class SemidefiniteProgram:
    """The numbers of such a file. Each entry of F_k is there once, in its upper triangle.

    `matrix` (k, 0 for F_0), `block`, `row` and `column` count from 0 and belong to `value`, one
    number an entry. A `diagonal` block has entries on its diagonal only.

    >>> from mostfw import sdpa
    >>> program = sdpa.parse("1\\n2\\n2 -3\\n1.0\\n0 1 1 2 5.0\\n1 2 3 3 1.0\\n")
    >>> program.sizes, program.diagonal, program.constraints
    ((2, 3), (False, True), 1)
    """

    name: str
    right_hand_side: np.ndarray
    sizes: tuple[int, ...]
    diagonal: tuple[bool, ...]
    matrix: np.ndarray
    block: np.ndarray
    row: np.ndarray
    column: np.ndarray
    value: np.ndarray

    @property
    def constraints(self) -> int:
        """m."""
        return len(self.right_hand_side)

    def blocks_of(self, k: int) -> tuple[np.ndarray, ...]:
        """The blocks of F_k as full matrices.

        >>> from mostfw import sdpa
        >>> program = sdpa.parse("1\\n1\\n2\\n1.0\\n0 1 1 2 5.0\\n")
        >>> program.blocks_of(0)[0].tolist()
        [[0.0, 5.0], [5.0, 0.0]]
        """
        checks.whole("the number k of a matrix F_k", k, 0, self.constraints)
        blocks = tuple(np.zeros((n, n)) for n in self.sizes)
        mine = self.matrix == k
        for b, i, j, value in zip(
            self.block[mine], self.row[mine], self.column[mine], self.value[mine], strict=True
        ):
            blocks[b][i, j] = blocks[b][j, i] = value
        return blocks


def read(path: str | Path) -> SemidefiniteProgram:
    r"""A file in the SDPA sparse format, gzip too.

    >>> import pathlib, tempfile
    >>> from mostfw import sdpa
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "one.dat-s")
    ...     _ = path.write_text('"one number\n1 = m\n1 = blocks\n(1)\n{2.0}\n1 1 1 1 1.0\n')
    ...     sdpa.read(path).name
    'one'
    """
    name = checks.path("SDPA file", path).name.removesuffix(".gz").removesuffix(".dat-s")
    with files.open_text(path, "SDPA file") as text:
        return _Reader(str(path), iter(text)).program(name)


def parse(text: str, name: str = "sdp") -> SemidefiniteProgram:
    """The same from the text of a file.

    >>> from mostfw import sdpa
    >>> sdpa.parse("1\\n1\\n1\\n2.0\\n1 1 1 1 1.0\\n").right_hand_side.tolist()
    [2.0]
    """
    if not isinstance(text, str) or not isinstance(name, str):
        raise InvalidInputError(f"the text of an SDPA file is {text!r}, its name {name!r}.")
    return _Reader(name, iter(text.splitlines())).program(name)


class _Reader:
    """Walks through the lines of a file and knows where it is, for the messages."""

    def __init__(self, source: str, lines: Iterator[str]) -> None:
        self.source, self.lines, self.number = source, lines, 0

    def wrong(self, found: str, remedy: str) -> InvalidInputError:
        return InvalidInputError(
            f"SDPA file {self.source!r}, line {self.number}: {found}: {remedy}."
        )

    def next_line(self, wanted: str) -> str:
        """The next line that is not empty."""
        for line in self.lines:
            self.number += 1
            if line.strip():
                return line
        raise self.wrong(f"the file ends before {wanted}", "complete the file")

    def program(self, name: str) -> SemidefiniteProgram:
        line = self.next_line("the number of constraints")
        while line.lstrip()[0] in '"*':
            line = self.next_line("the number of constraints")
        count = self.leading_count(line, "the number of constraints")
        blocks = self.leading_count(self.next_line("the number of blocks"), "the number of blocks")
        sizes = [self.size(token) for token in self.vector(blocks, "block sizes")]
        right_hand_side = [self.real(token) for token in self.vector(count, "right-hand sides")]
        entries = self.entries(count, sizes)
        places = np.array(list(entries), dtype=int).reshape(-1, 4)
        return SemidefiniteProgram(
            name=name,
            right_hand_side=np.array(right_hand_side),
            sizes=tuple(abs(size) for size in sizes),
            # a block of side 1 is a diagonal one either way
            diagonal=tuple(size < 0 for size in sizes),
            matrix=places[:, 0],
            block=places[:, 1],
            row=places[:, 2],
            column=places[:, 3],
            value=np.array(list(entries.values()), dtype=float),
        )

    def leading_count(self, line: str, thing: str) -> int:
        """The number that a line begins with; what follows it is a comment."""
        found = re.match(r"[\s,(){}]*\+?(\d{1,9})(?![\d.eEdD])", line)
        if not found or int(found[1]) < 1:
            raise self.wrong(
                f"{line.strip()[:40]!r} is not {thing}", "give a whole number from 1 on, below 10^9"
            )
        return int(found[1])

    def vector(self, count: int, thing: str) -> list[str]:
        """`count` words from this line and, where it is short, the next ones."""
        words: list[str] = []
        while len(words) < count:
            line = self.next_line(f"all {count} {thing}, after {len(words)} of them")
            words += line.translate(_SEPARATORS).split()
        # What stands behind is a comment, unless it is one number more.
        if len(words) > count and _is_real(words[count]):
            raise self.wrong(f"there are more than {count} {thing}", f"give {count} of them")
        return words[:count]

    def size(self, word: str) -> int:
        size = self.integer(word, "a block size")
        if size == 0:
            raise self.wrong("a block has size 0", "leave the block out")
        if size > _MOST_SIDE or -size > _MOST_DIAGONAL:
            raise self.wrong(
                f"a block has size {size}",
                f"sizes are at most {_MOST_SIDE}, of diagonal blocks {_MOST_DIAGONAL}",
            )
        return size

    def integer(self, word: str, thing: str) -> int:
        if not re.fullmatch(r"[+-]?\d{1,9}", word):
            raise self.wrong(f"{word[:40]!r} is not {thing}", "give a whole number below 10^9")
        return int(word)

    def real(self, word: str) -> float:
        if not _is_real(word):
            raise self.wrong(f"{word[:40]!r} is not a finite number", "correct it")
        return _as_float(word)

    def entries(self, count: int, sizes: list[int]) -> dict[tuple[int, int, int, int], float]:
        """The value at (matrix, block, row, column), row <= column, all counted from 0."""
        found: dict[tuple[int, int, int, int], float] = {}
        for line in self.lines:
            self.number += 1
            words = line.translate(_SEPARATORS).split()
            if not words:
                continue
            if len(words) != 5:
                raise self.wrong(
                    f"{line.strip()[:40]!r} has {len(words)} numbers", "give matrix block i j value"
                )
            matrix, block, i, j = (self.integer(word, "an index") for word in words[:4])
            value = self.real(words[4])
            self.check_range("matrix", matrix, 0, count)
            self.check_range("block", block, 1, len(sizes))
            size = sizes[block - 1]
            for index in i, j:
                self.check_range(f"row or column of block {block}", index, 1, abs(size))
            if value == 0:
                continue
            if size < 0 and i != j:
                raise self.wrong(
                    f"({i}, {j}) is off the diagonal of block {block}, which is diagonal",
                    "make its size positive, or drop the entry",
                )
            place = (matrix, block - 1, min(i, j) - 1, max(i, j) - 1)
            if place in found:
                raise self.wrong(
                    f"entry ({i}, {j}) of block {block} of matrix {matrix} is there twice",
                    "give each entry once, in the upper triangle",
                )
            found[place] = value
        return found

    def check_range(self, thing: str, index: int, least: int, most: int) -> None:
        if not least <= index <= most:
            raise self.wrong(f"{thing} is {index}", f"give a number from {least} to {most}")


def _as_float(word: str) -> float:
    return float(word.replace("D", "e").replace("d", "e"))  # Fortran's exponents


def _is_real(word: str) -> bool:
    try:
        return bool(np.isfinite(_as_float(word)))
    except ValueError:
        return False
