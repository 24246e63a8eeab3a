"""Files that are there whole or not at all, and folders that one process has for itself."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from .errors import FolderInUseError


@contextlib.contextmanager
def replacing(path: str | Path) -> Iterator[BinaryIO]:
    """A binary file that takes the place of `path` once all of it is on the disk.

    A reader, or a process that is killed, never sees half of it. If the body fails, what was at
    `path` before stays there. Pipes and devices are written to as they are.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from mostfw.atomic import replacing
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(Path(folder) / "note.txt") as file:
    ...         _ = file.write(b"all of it")
    ...     (Path(folder) / "note.txt").read_bytes()
    b'all of it'
    """
    path = Path(path).resolve()  # of a link, what it points to
    if path.exists() and not path.is_file():
        with path.open("wb") as file:
            yield file
        return
    scratch = path.with_name(f".{path.name}.new")
    try:
        with scratch.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        scratch.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            scratch.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """The new name, too, must survive a loss of power; not every system lets a folder be opened."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextlib.contextmanager
def alone_in(folder: str | Path) -> Iterator[None]:
    """Makes the folder if need be and holds its lock; refuses where another process holds it.

    The system lets go of the lock when the process ends, however it ends.

    >>> import tempfile
    >>> from mostfw.atomic import alone_in
    >>> with tempfile.TemporaryDirectory() as folder, alone_in(folder):
    ...     with alone_in(folder):
    ...         pass
    Traceback (most recent call last):
    mostfw.errors.FolderInUseError: ...
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("a+") as file:
        if not _locked(file):
            raise FolderInUseError(
                f"folder {str(folder)!r} is in use by another run: wait for it, end it, or give "
                "this one a folder of its own."
            )
        yield


def _locked(file: Any) -> bool:
    try:
        import fcntl
    except ImportError:  # Windows, which locks bytes and not files
        import msvcrt

        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # pyright: ignore[reportAttributeAccessIssue]
        except OSError:
            return False
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
