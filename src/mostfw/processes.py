"""Several processes that make one run: how they come together, and how they stay in step.

Each process runs the same program, and a step waits for all of them. So whatever a process decides
from its own clock, signals, disk or memory has to be told to the others before anybody acts on it:
`gathered` and `in_step` are the only ways. All of this is JAX's own runtime (`jax.distributed` and
its collectives); without several processes nothing is sent, and nothing waits.
"""

from __future__ import annotations

import contextlib
import math
import platform
import zlib
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import multihost_utils

from .errors import InvalidInputError, LostProcessError, PeerError

# Within a minute of the loss of one process the others have ended: after so many seconds without
# a sign of life it counts as lost.
HEARTBEAT_SECONDS = 30
# Those that are done wait so long for the others, or JAX would end the first one while it still
# writes what came out.
GOODBYE_SECONDS = 3600
_SLAB = 2**20  # words of an array that are stirred at once
# What the runtime says when it cannot reach a process, by transport: Gloo, NCCL, the coordinator.
_LOST = ("gloo", "nccl", "unavailable", "connection", "coordination", "peer", "deadline", "socket")


def join(
    coordinator: str | None = None,
    processes: int | None = None,
    process_id: int | None = None,
) -> None:
    """Joins this process to the others of a job: before anything else is asked of JAX.

    `coordinator` is "host:port" of the first process. What is None is found by `jax.distributed`
    in the variables that Slurm, Open MPI, GKE and the like set for each process.

    >>> from mostfw import processes
    >>> processes.join("a host without a port", 2, 0)
    Traceback (most recent call last):
    mostfw.errors.InvalidInputError: ...
    """
    if coordinator is not None and not _address(coordinator):
        raise InvalidInputError(
            f"coordinator is {coordinator!r}: give HOST:PORT of the first process, such as "
            "10.0.0.1:8476."
        )
    if processes is not None and process_id is not None and not 0 <= process_id < processes:
        raise InvalidInputError(
            f"process_id is {process_id} of {processes} processes: give 0 to {processes - 1}, "
            "each process its own."
        )
    # Our own handling of SIGTERM ends a run; JAX's service would take the signal for itself.
    jax.config.update("jax_enable_preemption_service", False)
    try:
        jax.distributed.initialize(
            coordinator,
            processes,
            process_id,
            heartbeat_timeout_seconds=HEARTBEAT_SECONDS,
            shutdown_timeout_seconds=GOODBYE_SECONDS,
        )
    except ValueError as error:
        raise InvalidInputError(
            f"this process cannot join the others: {error} Nothing here (Slurm, Open MPI, "
            "Kubernetes) says which processes there are: give the coordinator's HOST:PORT, the "
            "number of processes and the number of this one."
        ) from error
    except RuntimeError as error:
        raise InvalidInputError(f"this process cannot join the others: {error}") from error


def _address(text: str) -> bool:
    host, colon, port = text.rpartition(":")
    return bool(host and colon) and port.isdecimal() and 0 < int(port) < 2**16


def count() -> int:
    """How many processes make this run: those whose devices are in the mesh that there is.

    >>> from mostfw import processes
    >>> processes.count()
    1
    """
    if jax.process_count() == 1:
        return 1
    mesh = jax.sharding.get_mesh()
    return 1 if mesh.empty else len({device.process_index for device in mesh.devices.flat})


def first() -> bool:
    """Whether this is the one that prints and writes, as a run of one process is.

    >>> from mostfw import processes
    >>> processes.first()
    True
    """
    return count() == 1 or jax.process_index() == 0


def gathered(*numbers: float) -> np.ndarray:
    """The numbers of each process, one row a process; all must call this.

    >>> from mostfw import processes
    >>> processes.gathered(0.5, True)
    array([[0.5, 1. ]])
    """
    found = [np.frombuffer(row) for row in gathered_bytes(np.array(numbers, np.float64).tobytes())]
    return np.stack(found)


def gathered_bytes(own: bytes) -> list[bytes]:
    """The bytes of each process, of all the same number; all must call this.

    >>> from mostfw import processes
    >>> processes.gathered_bytes(b"own")
    [b'own']
    """
    if count() == 1:
        return [own]
    # numbers would come back as float32 where float64 is switched off: so they go as bytes, too
    found = multihost_utils.process_allgather(np.frombuffer(own, np.uint8))
    return [row.tobytes() for row in found]


def least(number: float) -> tuple[float, int]:
    """The least that a process has of something, and on how many machines they are; all must call
    this.

    >>> from mostfw import processes
    >>> processes.least(3.0)
    (3.0, 1)
    """
    found = gathered(number, zlib.crc32(platform.node().encode()))
    return float(found[:, 0].min()), len(set(found[:, 1]))


@contextlib.contextmanager
def in_step(doing: str) -> Iterator[None]:
    """An error in here, of whichever process, is one of all of them: nobody waits in vain.

    >>> from mostfw import processes
    >>> with processes.in_step("adding"):
    ...     1 + 1
    2
    """
    raised: Exception | None = None
    try:
        yield
    except Exception as error:
        if count() == 1:
            raise
        raised = error
    failed = np.flatnonzero(gathered(raised is not None)[:, 0])
    if raised is not None:
        raise raised
    if failed.size:
        raise PeerError(
            f"process {failed[0]} of this run failed while {doing}: its own message says why."
        )


def whole(tree: Any) -> Any:
    """The arrays of a tree as NumPy arrays on every process; all must call this.

    >>> import numpy as np
    >>> from mostfw import processes
    >>> processes.whole(np.ones(2)).tolist()
    [1.0, 1.0]
    """
    return jax.tree.map(_whole, tree)


def _whole(leaf: Any) -> Any:
    if not apart(leaf):
        return np.asarray(leaf) if isinstance(leaf, jax.Array) else leaf
    return np.asarray(multihost_utils.process_allgather(leaf, tiled=True))


def apart(leaf: Any) -> bool:
    """Whether some of an array is where only other processes can read it.

    >>> import jax.numpy as jnp
    >>> from mostfw import processes
    >>> processes.apart(jnp.ones(2))
    False
    """
    return isinstance(leaf, jax.Array) and not (
        leaf.is_fully_addressable or leaf.is_fully_replicated
    )


def checksum(array: Any) -> int:
    """Of an array of numbers: a sum over its entries, each stirred with its place, so that how it
    is spread over devices and processes does not matter; of one that is, all must call this.

    >>> import jax.numpy as jnp
    >>> from mostfw import processes
    >>> one, other = jnp.array([1.0, 2.0]), jnp.array([2.0, 1.0])
    >>> processes.checksum(one) == processes.checksum(other)
    False
    """
    return int(_checksum(array)) if apart(array) else _checksum_here(np.asarray(array))


@jax.jit
def _checksum(array: jax.Array) -> jax.Array:
    size = array.dtype.itemsize
    if array.dtype == bool:
        words = array.astype(np.uint32)
    else:  # of 8 bytes two words, along one more axis
        words = lax.bitcast_convert_type(array, np.dtype(f"u{min(size, 4)}")).astype(np.uint32)
    place = jnp.zeros(words.shape, np.uint32)
    for axis in range(words.ndim):  # an axis at a time: 32 bits do not count all entries
        place = _mixed(place + lax.broadcasted_iota(np.uint32, words.shape, axis))
    return jnp.sum(_mixed(words + place), dtype=np.uint32)


def _checksum_here(array: np.ndarray) -> int:
    """The same by NumPy, for which JAX need not know the dtype, and slab by slab, without an array
    of the size of this one."""
    size = array.dtype.itemsize
    shape = (*array.shape, size // 4) if size > 4 else array.shape
    flat = np.ascontiguousarray(array).reshape(-1).view(f"u{min(size, 4)}")
    words = flat.reshape(shape or (1,))
    total, slab = 0, max(1, _SLAB // max(1, math.prod(words.shape[1:])))
    for first in range(0, words.shape[0], slab):
        part = words[first : first + slab].astype(np.uint32)
        place = np.zeros((), np.uint32)
        for axis, length in enumerate(part.shape if shape else ()):
            index = np.arange(length, dtype=np.uint32) + np.uint32(first if axis == 0 else 0)
            place = _mixed(place[..., None] + index)
        total += int(np.sum(_mixed(part + place), dtype=np.uint32))
    return total % 2**32


def _mixed(words: Any) -> Any:
    """Two rounds of a common way to stir 32 bits."""
    for factor in (0x7FEB352D, 0x846CA68B):
        words = (words ^ (words >> 16)) * np.uint32(factor)
    return words + np.uint32(0x9E3779B9)


@contextlib.contextmanager
def noticing_losses(kept: str | None = None) -> Iterator[None]:
    """What the runtime raises when another process is gone, in words; `kept` is the folder of the
    checkpoints.

    >>> from mostfw import processes
    >>> with processes.noticing_losses():
    ...     1 + 1
    2
    """
    several = count() > 1
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        said = str(error).strip().splitlines()
        if not several or not any(word in str(error).lower() for word in _LOST):
            raise
        remedy = (
            "Nothing was kept of this run: give it checkpoint= next time."
            if kept is None
            else f"Start all processes again, as many as there are: the run goes on from its last "
            f"checkpoint in {kept!r}."
        )
        raise LostProcessError(
            f"another process of this run was lost ({said[0][:200] if said else 'no reason given'})"
            f". {remedy}"
        ) from error
