"""float32 against float64: how much faster a step is, and whether runs end elsewhere.

Ends are compared over seeds, at a smaller size: the mean of the single precision ones should lie
within what the seeds alone make of the double precision ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import mostfw as fw

from . import instances, lmo, timing
from .rows import Case, Row, Settings

ENDS_SIDE, ENDS_STEPS, SEEDS = 300, 3000, 5


def cases(settings: Settings) -> list[Case]:
    n = 16 if settings.quick else 1000

    def kmeans(n: int, dtype: Any) -> fw.Problem:
        return instances.kmeans(instances.features(n), dtype=dtype)

    def covariance(n: int, dtype: Any) -> fw.Problem:
        return fw.problems.covariance(n, batch=200, dtype=dtype)

    makers = {"k-means": kmeans, "covariance": covariance}
    if settings.quick:
        makers.pop("covariance")
    return [
        Case(
            f"float32, {kind}, n = {n}",
            lambda s, kind=kind, make=make: [row(s, f"float32, {kind}, n = {n}", n, make)],
        )
        for kind, make in makers.items()
    ]


def row(settings: Settings, name: str, n: int, make: Callable[[int, Any], fw.Problem]) -> Row:
    steps = max(10, settings.steps // 50)
    method = fw.methods.most_fw(mu_c=1.0)
    single, double = timing.alternating(
        settings.rounds,
        *(timing.our_step(make(n, dtype), method, steps) for dtype in (np.float32, np.float64)),
    )
    side, iterations, seeds = (16, 20, 2) if settings.quick else (ENDS_SIDE, ENDS_STEPS, SEEDS)
    ends = {
        dtype: lmo.ends(lmo.Task(name, make(side, dtype), method), method, iterations, seeds)[0]
        for dtype in (np.float32, np.float64)
    }
    inside = lmo.verdict(ends[np.float32], ends[np.float64])
    words = (
        f"{measure}: {lmo.spread(values)}, float64 {lmo.spread(ends[np.float64][measure])}"
        f"{'' if inside[measure] else ', OUTSIDE the spread of seeds'}"
        for measure, values in ends[np.float32].items()
    )
    return Row(
        name,
        single,
        "s",
        "float64",
        double,
        double / single,
        notes=(f"ends of {seeds} seeds, n = {side}, {iterations} steps:", *words),
        details={
            "steps": steps,
            "ends": {np.dtype(dtype).name: found for dtype, found in ends.items()},
            "ends_of": {"n": side, "iterations": iterations, "seeds": seeds},
            "inside": inside,
        },
    )
