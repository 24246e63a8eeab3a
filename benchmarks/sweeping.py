"""Seeds of one small problem side by side in one program, against one run after the other."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax

import mostfw as fw

from . import instances
from .rows import Case, Row, Settings

SEEDS = 5


def cases(settings: Settings) -> list[Case]:
    nodes, count = (8, 8) if settings.quick else (25, 60)
    makers = {
        f"sparsest cut, {nodes} nodes": lambda: (
            fw.problems.sparsest_cut(
                instances.random_graph(nodes) if settings.quick else instances.small_graph(),
                batch=0.05,
                sampling="entries",
            ),
            fw.methods.most_fw(mu_c=1.5),
        ),
        f"k-means, N = {count}": lambda: (
            instances.kmeans(instances.blobs(count)),
            instances.kmeans_method(),
        ),
    }
    return [
        Case(
            f"sweep of {SEEDS} seeds, {name}",
            lambda s, name=name, make=make: [row(s, f"sweep of {SEEDS} seeds, {name}", make)],
        )
        for name, make in makers.items()
    ]


def row(settings: Settings, name: str, make: Callable[[], tuple[fw.Problem, fw.Method]]) -> Row:
    """All of what the user waits for, compilation included: as if each way were a new process."""
    problem, method = make()
    steps = 20 if settings.quick else settings.steps
    shared: Any = {"iterations": steps, "record": [steps], "progress": False}

    def together() -> float:
        results = fw.sweep(problem, [method] * SEEDS, seeds=range(SEEDS), **shared)
        return sum(result.seconds for result in results)  # each holds its share of the whole

    def alone() -> float:
        return sum(fw.solve(problem, method, seed=s, **shared).seconds for s in range(SEEDS))

    spent = [(timed(together), timed(alone)) for _ in range(min(2, settings.rounds))]
    (swept, stepping), (single, stepping_alone) = map(min, zip(*spent, strict=True))
    notes = (f"steps only: {stepping:.3g} s against {stepping_alone:.3g} s; {steps} steps a seed",)
    details = {"seeds": SEEDS, "steps": steps, "of_steps": [stepping, stepping_alone]}
    peer = "one after the other"
    return Row(name, swept, "s", peer, single, single / swept, notes=notes, details=details)


def timed(runs: Callable[[], float]) -> tuple[float, float]:
    """Seconds of all of it, from empty caches, and of its steps alone."""
    jax.clear_caches()
    began = time.perf_counter()
    stepping = runs()
    return time.perf_counter() - began, stepping
