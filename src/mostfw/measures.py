"""What is looked at where a record is made: values and violations, and the record of them."""

from __future__ import annotations

from typing import Any

import equinox as eqx

from .problem import Problem
from .result import Counts, Record
from .trees import Point


@eqx.filter_jit
def measures(problem: Problem, x: Point, seen: Any) -> tuple[Any, list[Any], dict[str, Any]]:
    """The objective, every violation, the metrics; `seen` is an online objective's minibatch."""
    objective = problem.objective.whole_value(x)
    if objective is None:
        objective = problem.objective.value(x, seen)
    violations = [constraint.violation(x) for constraint in problem.constraints]
    return objective, violations, {name: f(x) for name, f in problem.metrics.items()}


def recorded(
    problem: Problem,
    scales: dict[str, float],
    found: tuple[Any, list[Any], dict[str, Any]],
    iteration: int,
    seconds: float,
    counts: Counts,
) -> Record:
    """What `measures` found, as numbers; `scales` are what relative violations divide by."""
    objective, violations, metrics = found
    pairs = zip(problem.constraints, violations, strict=True)
    violation = {constraint.name: float(v) for constraint, v in pairs}
    return Record(
        iteration=iteration,
        seconds=seconds,
        objective=float(objective),
        relative_gap=_relative_gap(float(objective), problem.optimum),
        violation=violation,
        relative_violation={name: v / scales[name] for name, v in violation.items()},
        metrics={name: float(v) for name, v in metrics.items()},
        counts=counts,
    )


def _relative_gap(value: float, optimum: float | None) -> float | None:
    if optimum is None:
        return None
    return (value - optimum) / (abs(optimum) if optimum else 1.0)
