"""One file of named arrays and a JSON header, with a checksum. Reading it runs no code.

MOSTFW-ARRAYS 1\n | length of the header, 8 bytes | header | bytes of the arrays | SHA-256
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from .atomic import replacing
from .errors import DamagedFileError

MAGIC = b"MOSTFW-ARRAYS 1\n"
DTYPES = ("bool", "int8", "uint8", "int32", "uint32", "int64", "uint64", "float32", "float64")
DIGEST_BYTES = 32
LONGEST_HEADER = 2**24
MOST_AXES = 32
SLAB_BYTES = 2**26  # arrays go through the host, and the checksum, in pieces of this size


def write(path: Path, header: Mapping[str, Any], arrays: Mapping[str, Any]) -> str:
    """Writes NumPy or device arrays, all or nothing; the checksum in words.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from mostfw import container
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "state"
    ...     digest = container.write(path, {"k": 7}, {"x": np.arange(3.0)})
    ...     header, arrays = container.read(path)
    >>> header["k"], arrays["x"].tolist()
    (7, [0.0, 1.0, 2.0])
    """
    listed = [[name, str(array.dtype), list(array.shape)] for name, array in arrays.items()]
    for name, dtype, _ in listed:
        if dtype not in DTYPES:
            raise TypeError(f"array {name!r} has dtype {dtype}, which the format does not have")
    text = json.dumps({**header, "arrays": listed}).encode()
    if len(text) > LONGEST_HEADER:
        raise ValueError(f"the header has {len(text)} bytes, more than the format allows")
    checksum = hashlib.sha256()
    with replacing(path) as file:
        pieces = [MAGIC, struct.pack("<Q", len(text)), text]
        for piece in pieces:
            file.write(piece)
            checksum.update(piece)
        for array in arrays.values():
            for slab in _slabs(array):
                file.write(slab)
                checksum.update(slab)
        file.write(checksum.digest())
    return checksum.hexdigest()


def _slabs(array: Any) -> Iterator[memoryview]:
    """The bytes in C order, a few rows at a time: a device may have no room for a copy."""
    if array.size == 0:
        return
    rows = max(1, SLAB_BYTES * max(1, len(array) if array.ndim else 1) // array.nbytes)
    parts = (array[i : i + rows] for i in range(0, len(array), rows)) if array.ndim else (array,)
    for part in parts:
        # little-endian on every machine, as read() expects
        host = np.ascontiguousarray(np.asarray(part), _little(part.dtype))
        yield host.reshape(-1).view(np.uint8).data


def _little(dtype: Any) -> np.dtype:
    return np.dtype(dtype).newbyteorder("<")


def read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The header and the arrays. Nothing is believed before the checksum has been compared."""
    with _opened(path) as file:
        _verify(path, file)
        header = _header(path, file)
        return header, dict(_arrays(path, file, header.pop("arrays", None)))


def mapped(path: Path) -> dict[str, np.ndarray]:
    """The arrays, which stay on the disk until they are looked at: call `verify` before that."""
    with _opened(path) as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise _damaged(path, f"it does not begin with {MAGIC.decode().strip()!r}")
        header = _header(path, file)
        return dict(_arrays(path, file, header.pop("arrays", None), mapped=True))


def verify(path: Path) -> str:
    """The checksum of a file, which is that of its content; else it is refused as damaged."""
    with _opened(path) as file:
        return _verify(path, file)


def _opened(path: Path) -> BinaryIO:
    if path.is_symlink() or not path.is_file():  # of a pipe one could wait for ever
        raise _damaged(path, "it is no file")
    return path.open("rb")


def _damaged(path: Path, what: str) -> DamagedFileError:
    return DamagedFileError(f"{str(path)!r} is damaged: {what}.", path)


def _verify(path: Path, file: BinaryIO) -> str:
    size = path.stat().st_size
    if file.read(len(MAGIC)) != MAGIC:
        raise _damaged(path, f"it does not begin with {MAGIC.decode().strip()!r}")
    left = size - DIGEST_BYTES
    if left < len(MAGIC) + 8:
        raise _damaged(path, f"it ends after {size} bytes")
    file.seek(0)
    checksum = hashlib.sha256()
    while left > 0:
        piece = file.read(min(left, SLAB_BYTES))
        if not piece:
            raise _damaged(path, "it ends early")
        checksum.update(piece)
        left -= len(piece)
    if file.read() != checksum.digest():
        raise _damaged(path, "its checksum is not that of its content (cut short or changed)")
    file.seek(len(MAGIC))
    return checksum.hexdigest()


def _header(path: Path, file: BinaryIO) -> dict[str, Any]:
    sized = file.read(8)
    if len(sized) < 8:
        raise _damaged(path, "it ends early")
    (length,) = struct.unpack("<Q", sized)
    if length > min(LONGEST_HEADER, path.stat().st_size):
        raise _damaged(path, f"its header would have {length} bytes")
    try:
        header = json.loads(file.read(length))
    except (ValueError, RecursionError) as error:
        raise _damaged(path, f"its header is not JSON ({error})") from error
    if not isinstance(header, dict):
        raise _damaged(path, "its header is no table")
    return header


def _arrays(
    path: Path, file: BinaryIO, listed: Any, mapped: bool = False
) -> Iterator[tuple[str, np.ndarray]]:
    left = path.stat().st_size - file.tell() - DIGEST_BYTES
    for name, dtype, shape in _checked(path, listed):
        size = math.prod(shape) * np.dtype(dtype).itemsize
        if size > left:
            raise _damaged(path, f"array {name!r} would have {size} bytes, but {left} are left")
        left -= size
        if mapped and size:
            at = file.tell()
            yield name, np.memmap(file, _little(dtype), "r", at, shape)
            file.seek(at + size)
            continue
        content = np.fromfile(file, _little(dtype), math.prod(shape))
        yield name, content.astype(np.dtype(dtype), copy=False).reshape(shape)
    if left:
        raise _damaged(path, f"{left} bytes belong to no array")


def _checked(path: Path, listed: Any) -> list[tuple[str, str, tuple[int, ...]]]:
    most = path.stat().st_size

    def whole(number: Any) -> bool:
        return type(number) is int and 0 <= number <= most

    if not isinstance(listed, list):
        raise _damaged(path, "its header lists no arrays")
    for entry in listed:
        fits = isinstance(entry, list) and len(entry) == 3
        if not (
            fits
            and isinstance(entry[0], str)
            and entry[1] in DTYPES
            and isinstance(entry[2], list)
            and len(entry[2]) <= MOST_AXES
            and all(map(whole, entry[2]))
        ):
            raise _damaged(path, f"its header lists an array as {str(entry)[:80]}")
    return [(name, dtype, tuple(shape)) for name, dtype, shape in listed]
