"""What is looked at where a record is made: values and violations, and the record of them."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax

from .frank_wolfe import UNTUNED, State, current
from .problem import Problem
from .result import Counts, Record
from .trees import Point

# From here on each measure is a program of its own. Of several in one program the compiler would
# store what the pending move makes, for all to share: one more array of the size of x.
APART_FROM_BYTES = 2**30


def measures(problem: Problem, state: State, seen: Any) -> tuple[Any, list[Any], dict[str, Any]]:
    """The objective, every violation, the metrics at x_{k+1}; `seen` is an online objective's
    minibatch."""
    large = sum(leaf.nbytes for leaf in jax.tree.leaves(state.x)) >= APART_FROM_BYTES
    of = _apart if large else _together
    names = (None, *range(len(problem.constraints)), *problem.metrics)
    objective, *rest = of(names, problem, state, seen)
    count = len(problem.constraints)
    return objective, rest[:count], dict(zip(problem.metrics, rest[count:], strict=True))


def _apart(
    names: tuple[str | int | None, ...], problem: Problem, state: State, seen: Any
) -> list[jax.Array]:
    return [_untuned((name,), problem, state, seen)[0] for name in names]


def _all(
    names: tuple[str | int | None, ...], problem: Problem, state: State, seen: Any
) -> list[jax.Array]:
    x = current(problem, state)
    return [_measure(name, problem, x, seen) for name in names]


_together = eqx.filter_jit(_all)
_untuned = eqx.filter_jit(_all, compiler_options=UNTUNED)  # pyright: ignore[reportCallIssue, reportArgumentType]


def _measure(name: str | int | None, problem: Problem, x: Point, seen: Any) -> jax.Array:
    """The objective, the violation of the constraint with that number, or the metric."""
    if isinstance(name, int):
        return problem.constraints[name].violation(x)
    if name is not None:
        return problem.metrics[name](x)
    value = problem.objective.whole_value(x)
    return problem.objective.value(x, seen) if value is None else value


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
