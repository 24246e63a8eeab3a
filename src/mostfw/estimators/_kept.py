"""The best answer that a run has come by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


class Kept:
    """A `Problem.feasible` that rounds each point it is shown and remembers the best answer.

    A run shows it the points where bounds are worked out, and a later point need not round to a
    better answer than an earlier one.

    >>> from mostfw.estimators._kept import Kept
    >>> kept = Kept(rounded=round, value=abs, point=float)
    >>> kept(2.2), kept(-1.1), kept(3.3), kept.best
    (2.0, -1.0, -1.0, -1)
    """

    def __init__(
        self,
        rounded: Callable[[Any], Any],
        value: Callable[[Any], float],
        point: Callable[[Any], np.ndarray],
    ) -> None:
        self.rounded, self.value, self.point = rounded, value, point
        self.best: Any = None

    def __call__(self, x: Any) -> Any:
        found = self.rounded(x)
        if self.best is None or self.value(found) < self.value(self.best):
            self.best = found
        return self.point(self.best)

    # All alike to a compiler, which would otherwise compile a run's measures for each fit.
    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def __hash__(self) -> int:
        return hash(type(self))
