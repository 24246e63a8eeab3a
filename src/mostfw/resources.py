"""What the machine has, and how much of it is left."""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import warnings
from pathlib import Path
from typing import Any

import jax

from .errors import MostFWWarning

_MEMORY = Path("/proc/meminfo")
_GROUPS = Path("/sys/fs/cgroup")
# A container's limit, what it uses, and how much of that are files which the system would drop:
# in control groups of version 2 and of version 1.
_LIMITS = (
    ("memory.max", "memory.current", "memory.stat", "inactive_file"),
    (
        "memory/memory.limit_in_bytes",
        "memory/memory.usage_in_bytes",
        "memory/memory.stat",
        "total_inactive_file",
    ),
)
_MAPS = Path("/proc/self/maps")
_MOST_MAPS = Path("/proc/sys/vm/max_map_count")
# A compiled program takes a few dozen maps and one solve compiles several; the share that is left
# free is far more than the programs between two looks take. A look at 10,000 maps takes 3 ms.
MAPS_SHARE = 0.6
LOOK_EVERY = 16


def accelerator_bytes() -> int | None:
    """The memory of the accelerator that arrays go to by default; None on a CPU.

    >>> from mostfw.resources import accelerator_bytes
    >>> (accelerator_bytes() or 2**40) > 2**20
    True
    """
    stats = _accelerator()
    return None if stats is None else stats["bytes_limit"]


def machine_bytes() -> int | None:
    """The memory that a process may have here, in use or not; None where nothing tells.

    >>> from mostfw.resources import machine_bytes
    >>> (machine_bytes() or 2**40) > 2**20
    True
    """
    found = [limit for limit, _ in _containers()]
    with contextlib.suppress(AttributeError, OSError, ValueError):
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return min(found, default=None)


def available_bytes() -> int | None:
    """The memory that new arrays can have where they go by default: of an accelerator, or of this
    machine and the container in it. None where nothing tells.

    >>> from mostfw.resources import available_bytes, machine_bytes
    >>> (available_bytes() or 0) <= (machine_bytes() or 2**50)
    True
    """
    stats = _accelerator()
    if stats is not None:
        return max(0, stats["bytes_limit"] - stats.get("bytes_in_use", 0))
    return free_bytes()


def free_bytes() -> int | None:
    """The memory that this machine, and the container in it, has for new arrays of NumPy.

    >>> from mostfw.resources import free_bytes
    >>> free_bytes() != 0
    True
    """
    found = [max(0, limit - used) for limit, used in _containers()]
    free = _named_number(_MEMORY, "MemAvailable:")
    if free is not None:
        found.append(1024 * free)
    return min(found, default=machine_bytes())


def device_name() -> str:
    """What the memory belongs to, in words.

    >>> from mostfw.resources import accelerator_bytes, device_name
    >>> device_name() == "this machine" or accelerator_bytes() is not None
    True
    """
    return "this machine" if _accelerator() is None else f"this {_device().device_kind}"


def maps_in_use() -> int | None:
    """How many memory maps this process holds; None where nothing tells.

    >>> from mostfw.resources import maps_in_use
    >>> maps_in_use() != 0
    True
    """
    try:
        return _MAPS.read_bytes().count(b"\n")
    except OSError:
        return None


@functools.cache
def most_maps() -> int | None:
    """How many the system grants a process; None where nothing tells.

    >>> from mostfw.resources import most_maps
    >>> (most_maps() or 65530) > 1000
    True
    """
    return _number(_MOST_MAPS)


class ProgramKeeper:
    """Forgets compiled programs before the system ends the process for holding too many.

    Each holds some memory maps for as long as it is remembered, and where a process has all that it
    is granted the compiler aborts. So a process that solves problems of very many shapes has to
    compile some of them again. Only every sixteenth `look` counts the maps.

    >>> from mostfw.resources import ProgramKeeper
    >>> ProgramKeeper(every=1, share=1.0).look()
    False
    """

    def __init__(self, every: int = LOOK_EVERY, share: float = MAPS_SHARE) -> None:
        self.every, self.share, self._calls = every, share, 0

    def look(self) -> bool:
        """Whether programs had to be forgotten."""
        self._calls += 1
        if self._calls % self.every:
            return False
        held, most = maps_in_use(), most_maps()
        if held is None or most is None or held <= self.share * most:
            return False
        jax.clear_caches()
        warnings.warn(
            f"this process holds {held} memory maps of the {most} that the system grants it, most "
            "of them of compiled programs: these were forgotten, and shapes that come again are "
            "compiled again. Solve problems of so many shapes in several processes, or raise "
            "vm.max_map_count.",
            MostFWWarning,
            stacklevel=3,
        )
        return True


keeper = ProgramKeeper()


@functools.cache
def processor() -> str:
    """The name of the processor.

    >>> from mostfw.resources import processor
    >>> len(processor()) > 0
    True
    """
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown"
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or "unknown"


def cores() -> int:
    """How many cores this process may use.

    >>> from mostfw.resources import cores
    >>> cores() > 0
    True
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _device() -> Any:
    device = jax.config.values.get("jax_default_device")
    return device if isinstance(device, jax.Device) else jax.local_devices()[0]


def _accelerator() -> dict[str, int] | None:
    """What the default device says about its memory; a CPU says nothing."""
    stats = _device().memory_stats()
    return dict(stats) if stats and "bytes_limit" in stats else None


def _containers() -> list[tuple[int, int]]:
    """(limit, bytes that are in use and needed) of each container that has a limit."""
    found = []
    for limit_file, usage_file, stat_file, dropped in _LIMITS:
        limit, used = _number(_GROUPS / limit_file), _number(_GROUPS / usage_file)
        if limit is not None:
            files = _named_number(_GROUPS / stat_file, dropped) or 0
            found.append((limit, max(0, (used or 0) - files)))
    return found


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):  # not there, or the word "max"
        return None


def _named_number(path: Path, name: str) -> int | None:
    """The number behind a name at the start of a line."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        words = line.split()
        if len(words) > 1 and words[0] == name:
            return int(words[1])
    return None
