"""float32 against float64: how much faster a step is, and where the same run ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import mostfw as fw

from . import instances, timing
from .rows import Case, Row, Settings


def cases(settings: Settings) -> list[Case]:
    n = 16 if settings.quick else 1000

    def kmeans(dtype: Any) -> fw.Problem:
        return instances.kmeans(instances.features(n), dtype=dtype)

    def covariance(dtype: Any) -> fw.Problem:
        return fw.problems.covariance(n, batch=200, dtype=dtype)

    makers = {"k-means": kmeans, "covariance": covariance}
    if settings.quick:
        makers.pop("covariance")
    return [
        Case(
            f"float32, {kind}, n = {n}",
            lambda s, kind=kind, make=make: [row(s, f"float32, {kind}, n = {n}", make)],
        )
        for kind, make in makers.items()
    ]


def row(settings: Settings, name: str, make: Callable[[Any], fw.Problem]) -> Row:
    steps = max(10, settings.steps // 50)
    method = fw.methods.most_fw(mu_c=1.0)
    ends: dict[Any, fw.Result] = {}

    def measured(dtype: Any) -> Callable[[int], float]:
        problem = make(dtype)
        timing.run(problem, method, min(steps, 20))

        def one(_: int) -> float:  # always seed 0, for the ends are compared
            ends[dtype] = timing.run(problem, method, steps)
            return ends[dtype].seconds / steps

        return one

    single, double = timing.alternating(settings.rounds, measured(np.float32), measured(np.float64))
    small, large = ends[np.float32], ends[np.float64]
    apart = {"objective": relative(small.objective, large.objective)}
    for constraint, value in large.violation.items():
        apart[f"violation {constraint}"] = relative(small.violation[constraint], value)
    words = ", ".join(f"{what} {difference:.1e}" for what, difference in apart.items())
    return Row(
        name,
        single,
        "s",
        "float64",
        double,
        double / single,
        notes=(f"relative difference after {steps} steps, same seed: {words}",),
        details={"steps": steps, "relative_difference": apart},
    )


def relative(one: float, other: float) -> float:
    return abs(one - other) / (abs(other) or 1.0)
