"""Ctrl-C and SIGTERM: what is going on ends at the next good moment, and nothing is lost."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruption:
    """Whether the user, or the system, has asked to stop.

    >>> from mostfw.interruption import Interruption
    >>> Interruption().requested
    False
    """

    def __init__(self, tell: Callable[[str], None] | None = None) -> None:
        self.signal: int | None = None
        self.patient = False
        self._tell = tell

    @property
    def requested(self) -> bool:
        return self.signal is not None

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.requested and not self.patient:  # a second time: at once
            raise KeyboardInterrupt
        self.signal = number
        if self._tell is not None:
            self._tell("stopping at the next good moment; once more to stop at once")


_listening: list[Interruption] = []  # none, or the outermost one


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
    if threading.current_thread() is not threading.main_thread():
        yield Interruption()
        return
    if _listening:
        yield _listening[-1]
        return
    interruption, before = Interruption(tell), {}
    try:
        interruption.patient = True  # while handlers change hands, a second signal waits, too
        _listening.append(interruption)
        for number in SIGNALS:
            handler = signal.getsignal(number)
            if handler is not None and handler is not signal.SIG_IGN:  # None: not Python's
                before[number] = signal.signal(number, interruption._on_signal)
        interruption.patient = False
        yield interruption
    finally:
        interruption.patient = True
        for number, handler in before.items():
            signal.signal(number, handler)
        _listening.clear()
