"""Files that are there whole or not at all, and folders that one process has for itself."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from .errors import FolderInUseError, MostFWWarning, UnusableFolderError

_HELD = (errno.EAGAIN, errno.EACCES)
_NO_LOCKS = (errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK, errno.EOPNOTSUPP)


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
    path = Path(path)
    # A name below /dev or /proc stands for something open, whatever it is.
    special = path.absolute().parts[1:2] in (("dev",), ("proc",))
    if special or (path.exists() and not path.is_file()):
        with path.open("wb") as file:
            yield file
        return
    path = path.resolve()  # of a link, what it points to
    # A name that nobody can know beforehand, or a link could be waiting there.
    handle, scratch = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".new", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            _take_mode(file.fileno(), path)
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(scratch)
        raise
    _sync_folder(path.parent)


def _take_mode(handle: int, path: Path) -> None:
    """The permissions of the file that is replaced, or those that a new one would have."""
    if not hasattr(os, "fchmod"):  # Windows
        return
    try:
        mode = path.stat().st_mode & 0o777
    except OSError:
        mask = os.umask(0)
        os.umask(mask)
        mode = 0o666 & ~mask
    os.fchmod(handle, mode)


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

    The system lets go of the lock when the process ends, however it ends. File systems without
    locks get a warning instead.

    >>> import tempfile
    >>> from mostfw.atomic import alone_in
    >>> with tempfile.TemporaryDirectory() as folder, alone_in(folder):
    ...     with alone_in(folder):
    ...         pass
    Traceback (most recent call last):
    mostfw.errors.FolderInUseError: ...
    """
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        handle = os.open(folder / "lock", flags, 0o666)
    except OSError as error:
        raise UnusableFolderError(
            f"the folder {str(folder)!r} cannot be written to ({error}): give another one."
        ) from error
    with os.fdopen(handle, "r+") as file:
        if not _locked(file, folder):
            raise FolderInUseError(
                f"folder {str(folder)!r} is in use by another run: wait for it, end it, or give "
                "this one a folder of its own."
            )
        yield


def _locked(file: Any, folder: Path) -> bool:
    try:
        _lock(file)
    except OSError as error:
        if error.errno in _HELD:
            return False
        if error.errno not in _NO_LOCKS:
            raise
        warnings.warn(
            f"the file system of {str(folder)!r} has no locks ({error}): see to it yourself that "
            "no second run works there.",
            MostFWWarning,
            stacklevel=4,
        )
    return True


def _lock(file: Any) -> None:
    try:
        import fcntl
    except ImportError:  # Windows, which locks bytes and not files
        import msvcrt

        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # pyright: ignore[reportAttributeAccessIssue]
        return
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
