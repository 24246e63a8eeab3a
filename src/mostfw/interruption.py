"""Ctrl-C and SIGTERM: what is going on ends at the next good moment, and nothing is lost."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruption:
    """Whether the user, or the system, has asked to stop.

    >>> from mostfw.interruption import Interruption
    >>> Interruption().requested
    False
    """

    def __init__(self, tell: Callable[[str], None] | None = None) -> None:
        self.signal: int | None = None
        self._tell = tell

    @property
    def requested(self) -> bool:
        return self.signal is not None

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.requested:  # a second time: at once
            raise KeyboardInterrupt
        self.signal = number
        if self._tell is not None:
            self._tell("stopping at the next good moment; once more to stop at once")


_listening: list[Interruption] = []


@contextlib.contextmanager
def listening(tell: Callable[[str], None] | None = None) -> Iterator[Interruption]:
    """While this is open, the first Ctrl-C or SIGTERM only sets `requested`; a second one raises
    KeyboardInterrupt.

    Inside another one it is the same one: a command that has been asked to stop starts no new run.
    Signals reach the main thread only; in others nothing is ever requested. A signal that the
    process ignores stays ignored.

    >>> import signal
    >>> from mostfw.interruption import listening
    >>> with listening() as interruption:
    ...     signal.raise_signal(signal.SIGINT)
    ...     interruption.requested
    True
    """
    if _listening and threading.current_thread() is threading.main_thread():
        yield _listening[-1]
        return
    interruption = Interruption(tell)
    before: dict[int, Any] = {}
    try:
        for number in SIGNALS:
            handler = signal.getsignal(number)
            if handler is None or handler is signal.SIG_IGN:  # None: not Python's to change
                continue
            before[number] = signal.signal(number, interruption._on_signal)
        _listening.append(interruption)
    except ValueError:  # not the main thread
        yield interruption
        return
    try:
        yield interruption
    finally:
        _listening.remove(interruption)
        for number, handler in before.items():
            signal.signal(number, handler)
