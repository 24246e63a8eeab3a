"""Online data: minibatches from a Python iterator, stacked ahead of the device."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from .errors import StreamError
from .objectives import Online

CHUNK_BYTES = 64 * 2**20
CHUNK_MOST = 256
GLANCE_SECONDS = 0.05  # between looks at whether to go on waiting
FILL_SECONDS = 0.2  # a stack of a slow stream goes to the device with what has come by then

_END = object()


class Feeder:
    """Reads minibatches `first`, `first` + 1, ... in a thread and stacks them in chunks.

    All chunks have one length (padded where fewer have come), so that the loop is compiled once.
    """

    def __init__(self, objective: Online, first: int, most: int, dtype: Any) -> None:
        self._objective, self._dtype = objective, dtype
        self._first = self._next = first
        self._left = most
        self._arrived: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._room = threading.Semaphore(1)  # for the first one; it says how many more
        self._closed = threading.Event()
        self._pending: Any = None  # what ends the stream, met behind minibatches
        self._shapes: Any = None
        self.length, self._measured = 1, False
        threading.Thread(target=self._work, daemon=True).start()

    def close(self) -> None:
        """Ends the thread; a run that stops early must not leave it waiting forever."""
        self._closed.set()

    def chunk(self, may_wait: Callable[[], bool]) -> tuple[Any, int] | None:
        """The next stack and how many of its minibatches are real; 0 when the stream is over. None
        if nothing came while `may_wait` allowed to wait."""
        first = self._take(may_wait)
        if first is None:
            return None
        if not self._measured and not _ends(first):
            self._measure(first)
        stack, until = [], time.monotonic() + FILL_SECONDS
        while first is not None:
            if _ends(first):
                self._pending = first
                break
            stack.append(first)
            full = len(stack) == self.length
            first = None if full else self._take(lambda: time.monotonic() < until)
        if not stack:
            return self._over()
        padding = [stack[-1]] * (self.length - len(stack))
        return jax.tree.map(lambda *leaves: np.stack(leaves), *stack, *padding), len(stack)

    def _measure(self, minibatch: Any) -> None:
        size = sum(leaf.nbytes for leaf in jax.tree.leaves(minibatch))
        self.length = max(1, min(CHUNK_MOST, CHUNK_BYTES // max(1, size)))
        self._room.release(2 * self.length - 1)
        self._measured = True

    def _over(self) -> tuple[Any, int]:
        if isinstance(self._pending, BaseException):
            raise self._pending
        return None, 0

    def _take(self, may_wait: Callable[[], bool]) -> Any:
        """The next thing that has arrived; None if none did in time."""
        if self._pending is not None:
            return self._pending
        while True:
            try:
                found = self._arrived.get(timeout=GLANCE_SECONDS)
            except queue.Empty:
                if not may_wait():
                    return None
                continue
            self._room.release()
            return found

    def _work(self) -> None:
        try:
            minibatches = iter(self._objective.source.open(self._first))
            while self._left > 0 and self._acquired():
                self._left -= 1
                minibatch = self._read(minibatches)
                if minibatch is None:
                    break
                self._arrived.put(minibatch)
            if self._next == 0:
                raise StreamError("the stream of the Online objective is empty.")
            self._arrived.put(_END)
        except BaseException as error:
            self._arrived.put(error)

    def _acquired(self) -> bool:
        while not self._closed.is_set():
            if self._room.acquire(timeout=GLANCE_SECONDS):
                return True
        return False

    def _read(self, minibatches: Any) -> Any:
        number = self._next
        try:
            minibatch = next(minibatches)
        except StopIteration:
            return None
        except Exception as error:
            raise StreamError(
                f"the stream failed at minibatch {number}: {type(error).__name__}: {error}"
            ) from error
        self._next += 1
        minibatch = jax.tree.map(self._array, minibatch)
        for leaf in jax.tree.leaves(minibatch):
            if not np.all(np.isfinite(leaf)):
                raise StreamError(f"minibatch {number} of the stream has NaN or infinite entries.")
        self._check(minibatch)
        return minibatch

    def _array(self, leaf: Any) -> np.ndarray:
        array = np.asarray(leaf)
        if array.dtype == object or array.dtype.kind in "USO":
            raise StreamError(f"minibatch {self._next - 1} of the stream is not made of numbers.")
        return array.astype(self._dtype) if array.dtype.kind == "f" else array

    def _check(self, minibatch: Any) -> None:
        shapes = (jax.tree.structure(minibatch), jax.tree.map(np.shape, minibatch))
        if self._next - 1 == self._first:
            self._shapes = shapes
        elif shapes != self._shapes:
            raise StreamError(
                f"minibatch {self._next - 1} of the stream has shape {shapes[1]}, but the first "
                f"one had {self._shapes[1]}."
            )


def _ends(arrived: Any) -> bool:
    return arrived is _END or isinstance(arrived, BaseException)
