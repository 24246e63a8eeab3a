"""What a run will take, said before it starts."""

from __future__ import annotations

import dataclasses
import time

import numpy as np

from ..errors import InvalidInputError
from ..resources import machine_bytes

# Measured with 1000 and 2000 samples. Of n x n arrays some are of the loop, in its dtype, but most
# are of the bounds, which are in float64 whatever the dtype.
LOOP_ARRAYS, BOUND_ARRAYS = 6, 20
FIXED_BYTES = 6 * 10**8  # of libraries and of compiled programs, half each
PRODUCTS = 60  # with a vector, or passes over the matrix that take as long, in a step
BOUNDS_SHARE = 1.3  # the steps with the bounds that are looked at along them
EIGENVALUES = 5  # times that all of them are computed at the end, 2n products each
COMPILING = 5.0  # seconds, of any run
COMPILING_ALL = 8.0  # where units are measured, too, or there are several runs
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

    def require_memory(self, what: str, remedy: str) -> None:
        """Refuses what the machine has no room for."""
        available = machine_bytes()
        if available is not None and self.memory_bytes > available:
            raise InvalidInputError(
                f"{what} take {self}, but this machine has {_bytes(available)}: {remedy}."
            )

    def within(self, time_limit: float | None) -> Cost:
        """The same where the steps end after some seconds: compiling and bounds are beside them.

        >>> Cost(memory_bytes=1000, seconds=95.0).within(10.0).seconds
        25.0
        """
        if time_limit is None:
            return self
        return Cost(self.memory_bytes, min(self.seconds, 1.5 * time_limit + 10))


@dataclasses.dataclass(frozen=True)
class Load:
    """What a job holds and does, counted in arrays of its largest sort and passes over one.

    >>> from mostfw.estimators._cost import Load
    >>> small, large = Load(100, arrays=9, passes=5), Load(10**6, arrays=9, passes=5)
    >>> small.cost(steps=10).memory_bytes < large.cost(steps=10).memory_bytes
    True
    """

    numbers: int  # of one of the arrays, in float64
    arrays: float  # that are held at once
    passes: float  # in a step; those of the bounds are beside them
    last: float = 0.0  # passes after the steps
    besides: float = 0.0  # seconds for other things
    overhead: float = 2e-4  # seconds of a step however small its arrays

    def cost(self, steps: int) -> Cost:
        """The cost of so many steps; a few passes over an array of that size are timed."""
        passes = BOUNDS_SHARE * self.passes * steps + self.last
        seconds = COMPILING_ALL + self.besides + BOUNDS_SHARE * self.overhead * steps
        memory = FIXED_BYTES + round(8 * self.arrays * self.numbers)
        return Cost(memory, seconds + passes * _pass_seconds(self.numbers))


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
    return _seconds_of(np.ones((side, side), dtype), np.ones(side, dtype)) * (n / side) ** 2


def _pass_seconds(numbers: int) -> float:
    count = min(numbers, SAMPLE**2)
    return _seconds_of(np.ones(count), np.ones(count)) * numbers / count


def _seconds_of(left: np.ndarray, right: np.ndarray) -> float:
    """The least of some times that their product took: other programs only lengthen it."""
    spent = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        np.dot(left, right)
        spent.append(time.perf_counter() - began)
    return min(spent)


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
