"""What every benchmark hands back: rows with ours, the peer, their ratio, and what is wanted."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import math
from collections.abc import Callable
from typing import Any

from mostfw.experiments.folders import environment

PEERS = ("cvxpy", "scs", "clarabel", "matplotlib")


@dataclasses.dataclass(frozen=True)
class Settings:
    """How long and how large; `quick` takes sizes at which only the harness itself is tested."""

    rounds: int = 3
    steps: int = 20_000  # of the smallest problem; larger ones make fewer
    quick: bool = False
    iterations: int = 100_000  # of a whole run, for trimming
    test: str = "bound"  # by which LMO calls are trimmed
    seconds: float = 60.0  # for a solver, and for ours against it


@dataclasses.dataclass(frozen=True)
class Goal:
    """What a number should be: at least, or at most, so much."""

    least: float = -math.inf
    most: float = math.inf

    def met(self, value: float) -> bool:
        return self.least <= value <= self.most

    def __str__(self) -> str:
        return f"at least {self.least:g}" if self.least > -math.inf else f"at most {self.most:g}"


@dataclasses.dataclass(frozen=True)
class Row:
    """One comparison. The goal is one for the ratio or, where there is no peer, for ours."""

    name: str
    ours: float | None
    unit: str = "s"
    peer: str = ""
    theirs: float | None = None
    ratio: float | None = None
    ratio_is: str = "times faster"
    goal: Goal | None = None
    notes: tuple[str, ...] = ()
    details: dict[str, Any] = dataclasses.field(default_factory=dict)
    limit: float | None = None  # of the memory's speed, in the unit of `ours`

    @property
    def met(self) -> bool | None:
        value = self.ours if self.ratio is None else self.ratio
        return None if self.goal is None or value is None else self.goal.met(value)

    def to_dict(self) -> dict[str, Any]:
        wanted = None if self.goal is None else str(self.goal)
        return {**dataclasses.asdict(self), "goal": wanted, "met": self.met}

    def __str__(self) -> str:
        parts = [f"{self.name:<46}", f"ours {amount(self.ours, self.unit):>10}"]
        if self.peer:
            parts.append(f"{self.peer} {amount(self.theirs, self.unit):>10}")
        if self.ratio is not None:
            parts.append(f"{self.ratio:.3g} {self.ratio_is}")
        if self.limit is not None:
            parts.append(f"limit {amount(self.limit, self.unit)}")
        if self.goal is not None:
            verdict = {True: "met", False: "NOT MET", None: "not measured"}[self.met]
            parts.append(f"wanted {self.goal}: {verdict}")
        return "\n".join(["  ".join(parts).rstrip(), *(f"{'':<6}{note}" for note in self.notes)])


@dataclasses.dataclass(frozen=True)
class Case:
    """Something to measure, by a name that `--only` can choose before any work is done."""

    name: str
    measure: Callable[[Settings], list[Row]]


def amount(value: float | None, unit: str) -> str:
    """A number with its unit, seconds in the unit that reads best.

    >>> amount(0.00123, "s"), amount(2.5, "n²"), amount(None, "s")
    ('1.23 ms', '2.5 n²', 'none')
    """
    if value is None:
        return "none"
    if unit != "s":
        return f"{value:.3g} {unit}".rstrip()
    for scale, word in ((1.0, "s"), (1e-3, "ms")):
        if value >= scale:
            return f"{value / scale:.3g} {word}"
    return f"{value / 1e-6:.3g} us"


def machine() -> dict[str, str]:
    """Processor, cores, date and versions, the peers' included."""
    found = environment()
    for name in PEERS:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "absent"
    return found


def heading() -> str:
    """Where and when in one line, for the head of a table."""
    found = machine()
    versions = ", ".join(f"{name} {found[name]}" for name in ("jax", "numpy", "scipy", *PEERS))
    return f"{found['processor']}, {found['cores']} cores, {versions}, {found['date']}"
