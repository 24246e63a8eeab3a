"""When a run may end before its budget: rules that are looked at where records are made."""

from __future__ import annotations

import dataclasses
import math

from . import checks
from .certificates import Certificate
from .errors import InvalidInputError
from .problem import Problem
from .result import Record, worst_violation


@dataclasses.dataclass(frozen=True)
class Tolerance:
    """Stop when |relative gap| and every relative violation are this small.

    The gap is against the known optimum of the problem.

    >>> import mostfw as fw
    >>> fw.Tolerance(gap=1e-2, violation=1e-3).violation
    0.001
    """

    gap: float = math.inf
    violation: float = math.inf

    def __post_init__(self) -> None:
        _check(self)
        if self.gap == self.violation == math.inf:
            raise InvalidInputError("Tolerance needs gap= or violation=: without, all is reached.")

    def reached(self, record: Record) -> bool:
        gap = math.inf if record.relative_gap is None else abs(record.relative_gap)
        near = gap <= self.gap or math.isinf(self.gap)
        return near and worst_violation(record) <= self.violation


@dataclasses.dataclass(frozen=True)
class Certified:
    """Stop when the certificate's |relative gap| and every relative violation are this small.

    No optimum need be known. The bounds take up to a quarter of the run's time.

    >>> import numpy as np, mostfw as fw
    >>> objective = fw.objectives.Linear(np.array([3.0, 1.0]))
    >>> problem = fw.Problem(objective, fw.domains.Simplex(2))
    >>> result = fw.solve(problem, "sfw", stop=fw.Certified(gap=1e-3))
    >>> print(result.status)
    the certificate shows that the gap is small enough
    >>> result.certificate.upper <= 1.001
    True
    """

    gap: float
    violation: float = math.inf

    def __post_init__(self) -> None:
        _check(self)

    def reached(self, record: Record, certificate: Certificate | None) -> bool:
        if certificate is None or worst_violation(record) > self.violation:
            return False
        return abs(certificate.relative_gap) <= self.gap


Stop = Tolerance | Certified


def _check(stop: Stop) -> None:
    for name in ("gap", "violation"):
        value = getattr(stop, name)
        if not (isinstance(value, float) and value == math.inf):
            checks.number(f"the tolerance of {name}", value, least=0)


def check_stop(problem: Problem, stop: Stop | None, certify: bool | None) -> None:
    """Refuses a rule that could never be looked at."""
    if stop is None:
        return
    if not isinstance(stop, Tolerance | Certified):
        raise InvalidInputError(
            f"stop is {stop!r}: give a mostfw.Tolerance(gap=, violation=) or a "
            "mostfw.Certified(gap=, violation=)."
        )
    if isinstance(stop, Tolerance):
        if math.isfinite(stop.gap) and problem.optimum is None:
            raise InvalidInputError(
                f"stop asks for a gap of {stop.gap:g}, but the problem's optimum is not known: "
                "give Problem(optimum=...), stop on a mostfw.Certified gap, or on violation only."
            )
    elif certify is False:
        raise InvalidInputError("stop is Certified, but certify=False: leave one of them out.")
    elif not problem.objective.finite:
        raise InvalidInputError(
            f"stop is Certified, but {problem.objective.label} is known from samples only: looking "
            "again and again would spoil their confidence. Give whole= or a FiniteSum, or leave "
            "stop out."
        )
