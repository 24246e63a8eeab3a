"""Text files, plain or packed with gzip, as numbered lines: what all parsers of text begin with."""

from __future__ import annotations

import collections
import contextlib
import gzip
import io
import re
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from .. import checks
from ..errors import InvalidInputError

# The numbers of a text take about as much memory as the text. Beyond this .npy is the way.
MOST_BYTES = 4 * 2**30
# gzip packs up to 1000 times. Numbers that say something are packed 2 to 20 times; a file that
# unpacks to much more than it weighs is an accident or an attack once it no longer is small.
MOST_RATIO = 200
RATIO_COUNTS_FROM = 2**26
GZIP = b"\x1f\x8b"
# A million numbers with all their digits are 25 million characters.
MOST_CHARACTERS_A_LINE = 2**25


def refusal(
    thing: str, path: Path, found: str, remedy: str, line: int | None = None, column: str = ""
) -> InvalidInputError:
    """An error that names the file and the place in it, what is there, and what to do."""
    place = "" if line is None else f", line {line}"
    place += f", column {column}" if column else ""
    return InvalidInputError(f"{thing} {str(path)!r}{place}: {found}: {remedy}.")


def unreadable(thing: str, path: Path, error: OSError) -> InvalidInputError:
    return refusal(thing, path, f"it cannot be read ({error.strerror})", "make it readable")


def existing(path: str | Path, thing: str) -> Path:
    """The path of a file that is there."""
    path = checks.path(thing, path)
    try:
        there, folder = path.is_file(), path.is_dir()
    except (OSError, ValueError):  # a name that no file can have
        there, folder = False, False
    if folder:
        raise refusal(thing, path, "this is a folder", "give a file in it")
    if not there:
        raise InvalidInputError(f"there is no {thing} {str(path)!r}.")
    return path


def name_of(path: Path) -> str:
    """The name of a file without the endings that say how it is written.

    >>> from pathlib import Path
    >>> name_of(Path("data/G1.gz")), name_of(Path("jazz.graph.gz"))
    ('G1', 'jazz')
    """
    return re.sub(r"\.[A-Za-z][\w-]*$", "", path.name.removesuffix(".gz")) or path.name


class TextLines:
    r"""The lines of an open text, without their ends; `number` is that of the last one, from 1 on.

    >>> import pathlib, tempfile
    >>> from mostfw import files
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "two.txt")
    ...     _ = path.write_text("one\ntwo\n")
    ...     with files.open_text(path) as text:
    ...         [(text.number, line) for line in text]
    [(1, 'one'), (2, 'two')]
    """

    def __init__(self, stream: TextIO, path: Path, thing: str) -> None:
        self.path, self.thing, self.number = path, thing, 0
        self._stream, self._read = stream, 0
        self._ahead: collections.deque[str] = collections.deque()

    def __iter__(self) -> Iterator[str]:
        while (line := self._ahead.popleft() if self._ahead else self._next()) is not None:
            self.number += 1
            yield line

    def ahead(self, count: int, wanted: Callable[[str], bool]) -> list[str]:
        """The next lines that are wanted, up to a count. All are still to come."""
        found = [line for line in self._ahead if wanted(line)]
        while len(found) < count and (line := self._next()) is not None:
            self._ahead.append(line)
            if wanted(line):
                found.append(line)
        return found[:count]

    def _next(self) -> str | None:
        try:
            line = self._stream.readline(MOST_CHARACTERS_A_LINE + 1)
        except UnicodeDecodeError as error:
            # What was decoded before has no line end left in it, or it would have been read.
            at = self._read + 1 + error.object[: error.start].count(b"\n")
            found = f"byte 0x{error.object[error.start]:02x} is not UTF-8 text"
            raise self.wrong(found, "save it as UTF-8", line=at) from error
        except (OSError, EOFError, zlib.error) as error:
            raise refusal(
                self.thing,
                self.path,
                f"it cannot be read after line {self._read} ({error})",
                "fetch or pack it again",
            ) from error
        if not line:
            return None
        self._read += 1
        if len(line) > MOST_CHARACTERS_A_LINE:
            found = f"the line is longer than {MOST_CHARACTERS_A_LINE} characters"
            remedy = "write one row a line, or save the numbers as .npy"
            raise self.wrong(found, remedy, line=self._read)
        if "\0" in line:
            found = "a byte is 0, so this is not text"
            raise self.wrong(found, "give the file the ending of its format", line=self._read)
        return line.rstrip("\r\n")

    def wrong(
        self, found: str, remedy: str, line: int | None = None, column: str = ""
    ) -> InvalidInputError:
        """The error that names this file, the line (that read last if none is given), a remedy."""
        return refusal(
            self.thing, self.path, found, remedy, self.number if line is None else line, column
        )


def is_packed(start: bytes) -> bool:
    """Whether a file that starts so is packed with gzip."""
    return start.startswith(GZIP)


def unpacked(path: Path, thing: str, most: int | None = None) -> bytes:
    """What gzip has packed into a file, up to some bytes or all: no more than is reasonable."""
    with path.open("rb") as file, gzip.GzipFile(fileobj=file, mode="rb") as source:
        limited: Any = _Limited(source, path.stat().st_size, thing, path)
        return io.BufferedReader(limited).read(-1 if most is None else most)


@contextlib.contextmanager
def open_text(path: str | Path, thing: str = "data file") -> Iterator[TextLines]:
    r"""The numbered lines of a text in UTF-8; what is packed with gzip is known by its first bytes.

    `thing` is what the messages call the file. Text that is cut off, damaged, not UTF-8 or
    unpacks beyond all measure is refused.

    >>> import gzip, pathlib, tempfile
    >>> from mostfw import files
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "packed.txt")
    ...     _ = path.write_bytes(gzip.compress(b"one\r\ntwo"))
    ...     with files.open_text(path) as text:
    ...         list(text)
    ['one', 'two']
    """
    path = existing(path, thing)
    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(path.open("rb"))
            packed = is_packed(file.peek(2))
            size = path.stat().st_size
        except OSError as error:
            raise refusal(
                thing, path, f"it cannot be read ({error})", "make it readable"
            ) from error
        if path.suffix == ".gz" and not packed:
            raise refusal(
                thing,
                path,
                "it cannot be read: its name ends in .gz, but it is not packed with gzip",
                "fetch it again, or take .gz off its name",
            )
        if size > MOST_BYTES:
            raise _too_long(thing, path)
        source: Any = file
        if packed:
            unpacker = stack.enter_context(gzip.GzipFile(fileobj=file, mode="rb"))
            source = io.BufferedReader(_Limited(unpacker, size, thing, path))  # pyright: ignore
        stream = io.TextIOWrapper(source, encoding="utf-8-sig")
        yield TextLines(stream, path, thing)


class _Limited(io.RawIOBase):
    """The bytes of an unpacker, up to a limit."""

    def __init__(self, source: BinaryIO | gzip.GzipFile, size: int, thing: str, path: Path) -> None:
        self.source, self.size, self.count = source, size, 0
        self.thing, self.path = thing, path

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self.source.readinto(buffer)  # pyright: ignore[reportAttributeAccessIssue]
        self.count += count
        check_unpacked(self.count, self.size, self.thing, self.path)
        return count


def check_unpacked(count: int, size: int, thing: str, path: Path) -> None:
    """Refuses `count` bytes out of `size` packed ones if that is beyond all measure."""
    if count > MOST_BYTES:
        raise _too_long(thing, path)
    if count > RATIO_COUNTS_FROM and count > MOST_RATIO * size:
        raise refusal(
            thing,
            path,
            f"it unpacks to more than {MOST_RATIO} times its {size} bytes",
            "unpack it yourself if you trust it",
        )


def _too_long(thing: str, path: Path) -> InvalidInputError:
    return refusal(
        thing,
        path,
        f"it is longer than {MOST_BYTES // 2**30} GiB",
        "give a part of it, or save the numbers as .npy",
    )
