"""Every error of the library, each naming the thing, the value and the remedy."""

from __future__ import annotations

from pathlib import Path
from typing import Any


class MostFWError(Exception):
    """Base of all errors that mostfw raises on purpose.

    >>> import mostfw as fw
    >>> try:
    ...     fw.methods.get("most-fwv")
    ... except fw.MostFWError as error:
    ...     print(type(error).__name__)
    UnknownNameError
    """


class InvalidInputError(MostFWError, ValueError):
    """Data or a parameter that no method can work with: NaN, a wrong sign, a wrong size."""


class ShapeError(InvalidInputError):
    """Two things that must fit together do not: shapes, dtypes or tree structures."""


class UnknownNameError(MostFWError, KeyError):
    """A registry name that does not exist; the message suggests the nearest one."""

    def __str__(self) -> str:  # KeyError would print the repr of the message
        return str(self.args[0]) if self.args else ""


class UnsuitableMethodError(MostFWError):
    """The method needs something that the problem lacks; the message says what would fit."""


class DisconnectedGraphError(InvalidInputError):
    """A graph in several pieces: its sparsest cut is 0, and `components` are the answer."""

    def __init__(self, message: str, components: list[list[int]]) -> None:
        super().__init__(message)
        self.components = components


class NonFiniteError(MostFWError, ArithmeticError):
    """A number became NaN or infinite at `iteration`.

    `result` is the run so far: its x is the point where it happened (in the domain), its measures
    are those of the last record point; None if nothing could be recorded yet.
    """

    def __init__(self, message: str, iteration: int, result: Any = None) -> None:
        super().__init__(message)
        self.iteration = iteration
        self.result = result


class StreamError(MostFWError):
    """An online objective's iterator gave something unusable, or cannot be resumed.

    `result` is the run up to there, where there is one.
    """

    result: Any = None


class UserCodeError(MostFWError):
    """A function of the user's failed at `iteration`; what it raised is the error's cause.

    `result` is the run before that iteration; None if there was none yet.
    """

    def __init__(self, message: str, iteration: int, result: Any = None) -> None:
        super().__init__(message)
        self.iteration = iteration
        self.result = result


class CheckpointError(MostFWError):
    """A checkpoint that cannot be continued from: of another run, another version, or damaged."""


class DamagedFileError(CheckpointError):
    """A file of ours whose content is not what was written: cut short, or changed."""

    def __init__(self, message: str, path: Path) -> None:
        super().__init__(message)
        self.path = path


class PeerError(MostFWError):
    """Another process of the same run failed, and this one ends with it."""


class LostProcessError(PeerError):
    """Another process of the same run is gone: killed, crashed, or out of reach."""


class UnusableFolderError(MostFWError, OSError):
    """A folder that cannot be made or written to."""


class FolderInUseError(MostFWError):
    """Another process works in that folder."""


class ResourceError(MostFWError, MemoryError):
    """A run needs more memory than the device has; the message says what would fit.

    `needed` and `available` are in bytes.
    """

    def __init__(self, message: str, needed: int, available: int) -> None:
        super().__init__(message)
        self.needed = needed
        self.available = available


class MissingDependencyError(MostFWError, ImportError):
    """An optional package is not installed; the message names the extra that brings it."""


class DataError(MostFWError):
    """A data set is not there, or is not the one it should be: `state` is "absent" or "damaged".

    >>> import mostfw as fw
    >>> try:
    ...     raise fw.DataError("data set 'x' is not here.", "absent")
    ... except fw.MostFWError as error:
    ...     print(error.state)
    absent
    """

    def __init__(self, message: str, state: str) -> None:
        super().__init__(message)
        self.state = state


class MostFWWarning(UserWarning):
    """Something was repaired or ignored, and the user should know."""


class CheckpointWarning(MostFWWarning):
    """A checkpoint could not be written or read; the run goes on with what there is."""
