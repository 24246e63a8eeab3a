"""What a run on n x n matrices will take, said before it starts."""

from __future__ import annotations

import dataclasses
import os
import time
from pathlib import Path

import numpy as np

from ..errors import InvalidInputError

# Measured with 1000 and 2000 samples. Of n x n arrays some are of the loop, in its dtype, but most
# are of the bounds, which are in float64 whatever the dtype.
LOOP_ARRAYS, BOUND_ARRAYS = 6, 20
FIXED_BYTES = 4 * 10**8  # of compiled programs
PRODUCTS = 60  # with a vector, or passes over the matrix that take as long, in a step
BOUNDS_SHARE = 1.3  # the steps with the bounds that are looked at along them
EIGENVALUES = 5  # times that all of them are computed at the end, 2n products each
COMPILING = 5.0  # seconds, of any run
SAMPLE = 2000  # no larger matrix is timed: beyond, the time goes with the entries
REPEATS = 20


@dataclasses.dataclass(frozen=True)
class Cost:
    """Memory at the largest and about how many seconds.

    >>> from mostfw.estimators._cost import Cost
    >>> print(Cost(memory_bytes=1_700_000_000, seconds=95.0))
    about 1.7 GB of memory and at most about 2 minutes
    """

    memory_bytes: int
    seconds: float

    def __str__(self) -> str:
        memory, time_taken = _bytes(self.memory_bytes), _duration(self.seconds)
        return f"about {memory} of memory and at most about {time_taken}"

    def require_memory(self, n: int, available: int | None = None) -> None:
        """Refuses what the machine has no room for."""
        available = machine_bytes() if available is None else available
        if available is not None and self.memory_bytes > available:
            raise InvalidInputError(
                f"{n} samples take {self}, but this machine has {_bytes(available)}: fit a part "
                "of them, such as a random sample, and predict the labels of the others."
            )


def estimate(n: int, steps: int, dtype: str = "float64") -> Cost:
    """The cost of so many steps with n x n matrices; a few products of that size are timed.

    >>> from mostfw.estimators._cost import estimate
    >>> small, large = estimate(50, 100), estimate(1000, 1000)
    >>> small.memory_bytes < large.memory_bytes, small.seconds < large.seconds
    (True, True)
    """
    number = LOOP_ARRAYS * np.dtype(dtype).itemsize + BOUND_ARRAYS * np.dtype(float).itemsize
    products = BOUNDS_SHARE * PRODUCTS * steps + 2 * EIGENVALUES * n
    return Cost(FIXED_BYTES + number * n * n, COMPILING + products * _product_seconds(n, dtype))


def _product_seconds(n: int, dtype: str) -> float:
    side = min(n, SAMPLE)
    matrix, vector = np.ones((side, side), dtype), np.ones(side, dtype)
    spent = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        np.dot(matrix, vector)
        spent.append(time.perf_counter() - began)
    return min(spent) * (n / side) ** 2


def machine_bytes() -> int | None:
    """The memory that a process may have here; None where nothing tells."""
    found = []
    try:
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
        found.append(int(Path("/sys/fs/cgroup/memory.max").read_text()))  # a container's limit
    except (AttributeError, OSError, ValueError):
        pass
    return min(found) if found else None


def _bytes(count: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{max(1, round(seconds))} seconds"
    if seconds < 5400:
        return f"{round(seconds / 60)} minutes"
    return f"{seconds / 3600:.2g} hours"
