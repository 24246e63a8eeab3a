"""What is looked at where a record is made: values and violations, and the record of them."""

from __future__ import annotations

from typing import Any

import equinox as eqx
from jax import lax

from .frank_wolfe import State, current
from .problem import Problem
from .result import Counts, Record
from .trees import Point, replaced


@eqx.filter_jit
def measures(problem: Problem, state: State, seen: Any) -> tuple[Any, list[Any], dict[str, Any]]:
    """The objective, every violation, the metrics at x_{k+1}; `seen` is an online objective's
    minibatch."""

    def point(after: Any) -> Point:
        # The pending move is made anew for each measure, and after the last one: if several could
        # share what it makes, the compiler would store it, one more array of the size of x.
        x, _ = lax.optimization_barrier((state.x, after))
        return current(problem, replaced(state, x=x))

    x = point(())
    objective = problem.objective.whole_value(x)
    if objective is None:
        objective = problem.objective.value(x, seen)
    last, violations, metrics = objective, [], {}
    for constraint in problem.constraints:
        last = constraint.violation(point(last))
        violations.append(last)
    for name, function in problem.metrics.items():
        metrics[name] = last = function(point(last))
    return objective, violations, metrics


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
