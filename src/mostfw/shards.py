"""The rows of one process in a file of its own: what a run of several processes keeps on disk.

Arrays that are whole on every device are in the checkpoint itself, which the first process writes
once all these files are there; it names each of them with its checksum, and so commits them all. A
file that no checkpoint names is nothing. How rows are cut is written down with them, so that any
other number of processes and devices can take them up again: each reads the rows that it needs.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from . import container, processes
from .errors import DamagedFileError, UnusableFolderError
from .placement import Rows

NAME = re.compile(r"checkpoint-(\d{12})\.rows-(\d{5})-of-(\d{5})\.mostfw-rows")
SEEN_WITHIN = 10.0  # seconds, in which a file that one process wrote is there for the others
_SEEN_BY_ALL = ".seen-by-all"
_AT = "@"  # between the name of an array and its first row, in the name of a piece


def file_of(folder: Path, k: int, process: int, processes: int) -> Path:
    """Where a process puts its rows at iteration k.

    >>> from pathlib import Path
    >>> from mostfw.shards import file_of
    >>> file_of(Path("run"), 7, 1, 4).name
    'checkpoint-000000000007.rows-00001-of-00004.mostfw-rows'
    """
    return folder / f"checkpoint-{k:012d}.rows-{process:05d}-of-{processes:05d}.mostfw-rows"


def check_shared(folder: Path) -> None:
    """Refuses a folder that is another one to other processes: of the same name on every machine's
    own disk, it would not do."""
    number, path = secrets.randbelow(2**50), folder / _SEEN_BY_ALL
    with processes.in_step("writing to the folder of its checkpoints"):
        if processes.first():
            path.write_text(str(number))
    wanted, until = str(int(processes.gathered(number)[0, 0])), time.monotonic() + SEEN_WITHIN
    with processes.in_step("looking for the folder of its checkpoints"):
        while not (path.is_file() and path.read_text() == wanted):
            if time.monotonic() > until:
                raise UnusableFolderError(
                    f"the folder {str(folder)!r} of process {jax.process_index()} is not that of "
                    "the first one: give one on a file system that all share."
                )
            time.sleep(0.05)
    if processes.first():
        path.unlink(missing_ok=True)


def split(arrays: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Those that are spread over processes, and the others.

    >>> import numpy as np
    >>> from mostfw.shards import split
    >>> [list(part) for part in split({"x": np.ones(2)})]
    [[], ['x']]
    """
    spread = {name: array for name, array in arrays.items() if processes.apart(array)}
    return spread, {name: array for name, array in arrays.items() if name not in spread}


def pieces(arrays: Mapping[str, jax.Array]) -> dict[str, Any]:
    """What this process has of each array, by the name of the array and the first row."""
    found = {}
    for name, array in arrays.items():
        for shard in array.addressable_shards:
            found[f"{name}{_AT}{shard.index[0].start or 0}"] = shard.data
    return found


def write(folder: Path, k: int, arrays: Mapping[str, jax.Array]) -> dict[str, Any]:
    """Writes the rows of this process, waits for the others, and returns what a checkpoint says of
    them all: which files there are, under which checksums, and what is in them."""
    total = processes.count()
    with processes.in_step("writing its rows"):
        own = file_of(folder, k, jax.process_index(), total)
        digest = container.write(own, {"k": k}, pieces(arrays))
    digests = [found.hex() for found in processes.gathered_bytes(bytes.fromhex(digest))]
    names = [file_of(folder, k, process, total).name for process in range(total)]
    return {
        "shards": [list(pair) for pair in zip(names, digests, strict=True)],
        "spread": [[name, str(a.dtype), list(a.shape)] for name, a in arrays.items()],
    }


class _File:
    """The rows of one process on the disk; believed once its checksum has been compared."""

    def __init__(self, path: Path, digest: str, checkpoint: Path) -> None:
        self.path, self.digest, self.checkpoint = path, digest, checkpoint
        self.sure = False
        with self._damage():
            if NAME.fullmatch(path.name) is None:  # a stranger's name must not lead elsewhere
                raise DamagedFileError(f"{path.name[:80]!r} is no name of a file of rows.", path)
            self.arrays = container.mapped(path)

    def verify(self) -> None:
        with self._damage():
            if not self.sure and container.verify(self.path) != self.digest:
                raise DamagedFileError(f"{str(self.path)!r} is of another checkpoint.", self.path)
        self.sure = True

    @contextlib.contextmanager
    def _damage(self) -> Iterator[None]:
        """Where a part is damaged the checkpoint is."""
        try:
            yield
        except DamagedFileError as error:
            raise DamagedFileError(
                f"{str(self.checkpoint)!r} cannot be used: {error}", self.checkpoint
            ) from error


class Spread(Rows):
    """An array whose rows are in several files. Only files of which rows are asked for are read:
    each process looks at its own share of a checkpoint."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype) -> None:
        self.shape, self.dtype = shape, dtype
        self.parts: list[tuple[int, np.ndarray, _File]] = []  # first rows, what begins there

    def complete(self) -> bool:
        """Whether every row is there once."""
        end = 0
        for first, part, _ in sorted(self.parts, key=lambda found: found[0]):
            if first != end or part.shape[1:] != self.shape[1:] or part.dtype != self.dtype:
                return False
            end += len(part)
        return end == self.shape[0]

    def __getitem__(self, index: Any) -> np.ndarray:
        rows, *rest = index if isinstance(index, tuple) else (index,)
        start, stop, _ = rows.indices(self.shape[0])
        made = np.empty((stop - start, *self.shape[1:]), self.dtype)
        for first, part, file in self.parts:
            low, high = max(start, first), min(stop, first + len(part))
            if low < high:
                file.verify()
                made[low - start : high - start] = part[low - first : high - first]
        return made[(slice(None), *rest)]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self[:].astype(self.dtype if dtype is None else dtype, copy=False)


def read(folder: Path, header: Mapping[str, Any], path: Path) -> dict[str, Spread]:
    """The arrays that the header of the checkpoint `path` says are in files beside it."""
    try:
        listed = [(str(name), str(digest)) for name, digest in header["shards"]]
        found = {
            str(name): Spread(tuple(map(int, shape)), np.dtype(str(dtype)))
            for name, dtype, shape in header["spread"]
            if dtype in container.DTYPES
        }
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedFileError(f"{str(path)!r} was not written by mostfw: {error!r}.", path) from (
            error
        )
    for name, digest in listed:
        file = _File(folder / Path(name).name, digest, path)
        for piece, part in file.arrays.items():
            array, _, first = piece.rpartition(_AT)
            if array in found and first.isdecimal():
                found[array].parts.append((int(first), part, file))
    for name, array in found.items():
        if not array.complete():
            raise DamagedFileError(f"{str(path)!r} has not every row of {name!r}.", path)
    return found


def remove_unused(folder: Path, kept: set[int]) -> None:
    """Removes files of rows that belong to none of these iterations.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from mostfw import shards
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     shards.file_of(Path(folder), 7, 0, 1).touch()
    ...     shards.remove_unused(Path(folder), {8})
    ...     list(Path(folder).iterdir())
    []
    """
    for path in folder.iterdir():
        found = NAME.fullmatch(path.name)
        if found is not None and int(found.group(1)) not in kept:
            with contextlib.suppress(OSError):
                path.unlink()
