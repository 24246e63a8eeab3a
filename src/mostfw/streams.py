"""Online data: minibatches from a Python iterator, stacked ahead of the device."""

from __future__ import annotations

import queue
import threading
from typing import Any

import jax
import numpy as np

from .errors import StreamError
from .objectives import Online

CHUNK_BYTES = 64 * 2**20
CHUNK_MOST = 256


class Feeder:
    """Reads minibatches `first`, `first` + 1, ... in a thread and stacks them in chunks.

    All chunks have one length (the last is padded), so that the loop is compiled once.
    """

    def __init__(self, objective: Online, first: int, most: int, dtype: Any) -> None:
        self._iterator = iter(objective.source.open(first))
        self._dtype = dtype
        self._queue: queue.Queue[Any] = queue.Queue(maxsize=2)
        self._next = first
        head = self._read()
        if head is None and first == 0:
            raise StreamError("the stream of the Online objective is empty.")
        self._shape = jax.tree.map(np.shape, head)
        self._tree = jax.tree.structure(head)
        bytes_each = sum(leaf.nbytes for leaf in jax.tree.leaves(head))
        self.length = max(1, min(CHUNK_MOST, CHUNK_BYTES // max(1, bytes_each)))
        self._left = most - 1
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._work, args=(head,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the thread; a run that stops early must not leave it waiting forever."""
        self._closed.set()

    def _put(self, item: Any) -> None:
        while not self._closed.is_set():
            try:
                self._queue.put(item, timeout=0.1)
            except queue.Full:
                continue
            return

    def chunk(self) -> tuple[Any, int]:
        """The next stack and how many of its minibatches are real; 0 when the stream is over."""
        found = self._queue.get()
        if isinstance(found, BaseException):
            raise found
        return found

    def _read(self) -> Any:
        number = self._next
        try:
            minibatch = next(self._iterator)
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
        return minibatch

    def _array(self, leaf: Any) -> np.ndarray:
        array = np.asarray(leaf)
        if array.dtype == object or array.dtype.kind in "USO":
            raise StreamError(f"minibatch {self._next - 1} of the stream is not made of numbers.")
        return array.astype(self._dtype) if array.dtype.kind == "f" else array

    def _work(self, head: Any) -> None:
        try:
            pending = head
            while pending is not None and not self._closed.is_set():
                stack = [pending]
                while len(stack) < self.length and self._left > 0:
                    self._left -= 1
                    following = self._read()
                    if following is None:
                        break
                    self._check(following)
                    stack.append(following)
                real = len(stack)
                stack += [stack[-1]] * (self.length - real)
                self._put((jax.tree.map(lambda *leaves: np.stack(leaves), *stack), real))
                pending = None
                if real == self.length and self._left > 0:
                    self._left -= 1
                    pending = self._read()
                    if pending is not None:
                        self._check(pending)
            self._put((None, 0))
        except BaseException as error:
            self._put(error)

    def _check(self, minibatch: Any) -> None:
        if jax.tree.structure(minibatch) != self._tree or (
            jax.tree.map(np.shape, minibatch) != self._shape
        ):
            raise StreamError(
                f"minibatch {self._next - 1} of the stream has shape "
                f"{jax.tree.map(np.shape, minibatch)}, but the first one had {self._shape}."
            )
