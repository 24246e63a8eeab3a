"""Matrices of numbers in MATLAB's .mat files, version 5 to 7.

scipy.io reads these too, but damaged bytes can make it end the process (seen in 1.17).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ._limits import from_compressed

_NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8"}
_NUMBERS |= {12: "i8", 13: "u8"}
_MATRIX, _COMPRESSED = 14, 15
_CLASSES = {1: "cells", 2: "a struct", 3: "an object", 4: "text"}  # from 5 on: numbers
_SPARSE = 5
_COMPLEX = 0x800
_HEADER = 128


class Variable:
    """One variable of a file, whose numbers are read when they are asked for."""

    def __init__(self, content: memoryview, order: str) -> None:
        self.order = order
        kinds, sizes, name, *self.parts = _elements(content, order)
        self.flags, _ = self.numbers(kinds).tolist()
        self.shape: tuple[int, ...] = tuple(self.numbers(sizes).tolist())
        self.name = bytes(name[1]).decode("ascii")

    @property
    def unfit(self) -> str | None:
        """What it holds instead of real numbers."""
        if self.flags & _COMPLEX:
            return "complex numbers"
        kind = self.flags & 0xFF
        return _CLASSES.get(kind, None if _SPARSE <= kind <= 15 else "an unknown class")

    @property
    def entries(self) -> int:
        """The number of entries that are stored."""
        return len(self.numbers(self.parts[2 if self.flags & 0xFF == _SPARSE else 0]))

    def matrix(self) -> Any:
        """An array, or a sparse matrix."""
        if self.flags & 0xFF != _SPARSE:
            if min(self.shape) < 0:  # which reshape would take for "as many as fit"
                raise ValueError(f"shape {self.shape}")
            return self.numbers(self.parts[0]).reshape(self.shape, order="F")
        rows, starts, values = map(self.numbers, self.parts[:3])
        height, width = self.shape
        return from_compressed((height, width), values.astype(float), rows, starts, by_rows=False)

    def numbers(self, element: tuple[int, memoryview]) -> np.ndarray:
        kind, content = element
        return np.frombuffer(content, np.dtype(self.order + _NUMBERS[kind]))


def variables(data: bytes, check: Callable[[int, int], None]) -> Iterator[Variable]:
    """Those of a file. `check` is called with the sizes of what was unpacked, and of the packed.

    >>> import io, numpy as np, scipy.io
    >>> file = io.BytesIO()
    >>> scipy.io.savemat(file, {"a": np.eye(2)})
    >>> [(found.name, found.shape) for found in variables(file.getvalue(), lambda *sizes: None)]
    [('a', (2, 2))]
    """
    order = {b"IM": "<", b"MI": ">"}[data[_HEADER - 2 : _HEADER]]
    for kind, content in _elements(memoryview(data)[_HEADER:], order):
        if kind == _COMPRESSED:
            unpacked = _unpacked(content, check)
            kind, content = next(_elements(memoryview(unpacked), order))
        if kind == _MATRIX and len(content):
            variable = Variable(content, order)
            if variable.name:  # MATLAB keeps things of its own without a name
                yield variable


def _unpacked(content: memoryview, check: Callable[[int, int], None]) -> bytes:
    unpacker, parts, count = zlib.decompressobj(), [], 0
    rest: Any = content
    while not unpacker.eof:
        part = unpacker.decompress(rest, 2**24)
        rest = unpacker.unconsumed_tail
        if not part and not rest:
            raise EOFError("a variable is cut off")
        parts.append(part)
        count += len(part)
        check(count, len(content))
    return b"".join(parts)


def _elements(data: memoryview, order: str) -> Iterator[tuple[int, memoryview]]:
    """(kind, content) of each element: eight bytes that say so, then the content."""
    at = 0
    while at + 8 <= len(data):
        kind, size = struct.unpack_from(order + "II", data, at)
        start = at + 8
        if kind >> 16:  # up to four bytes of content stand in the eight
            kind, size, start = kind & 0xFFFF, kind >> 16, at + 4
        if start + size > len(data) or (start == at + 4 and size > 4):
            raise EOFError(f"an element of {size} bytes is cut off")
        yield kind, data[start : start + size]
        at = max(start + size, at + 8)
        if kind != _COMPRESSED:
            at += -at % 8
