"""`python -m benchmarks.accuracy`: how near do methods come without any tuning?

Tasks with known optima, each with the parameters that no one chose: relative gap and violation as
medians over the last 200 steps and over seeds, and how far below the optimum the best certified
bound of the run is. The data folder is the one that MOSTFW_DATA names; tasks without their file are
left out. `--long` adds the rows of 100,000 steps.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import mostfw as fw
from mostfw.cli.table import aligned

from . import instances
from .rows import heading, machine

WINDOW, LOOKS = 200, 20  # the violation of a last iterate jumps from step to step
DIGITS = fw.datasets.get("mnist-softmax-1000").optimum  # optimal <D, X>
PRIMATES = 108.6956522  # 2500/23
GSET = {"G1": 12083.1976, "G11": 629.1648, "G14": 3191.5668}
SDPLIB = {
    "mcp100": 226.15735,
    "mcp250-1": 317.26434,
    "mcp500-1": 598.14852,
    "theta1": 23.0,
    "theta2": 32.87917,
    "gpp100": -44.94354,
}


@dataclasses.dataclass(frozen=True)
class Task:
    """One row: what is solved, how, and what is wanted of it."""

    name: str
    method: str
    steps: int
    gap: float
    violation: dict[str, float]  # wanted, by relative violation or metric
    problem: Callable[[], fw.Problem]
    seeds: int = 1  # of methods that draw nothing one is enough


def data(*parts: str) -> Path | None:
    folder = os.environ.get("MOSTFW_DATA")
    path = None if folder is None else Path(folder, *parts)
    return path if path is not None and path.exists() else None


def digits(**sampling: Any) -> fw.Problem:
    points = fw.datasets.digits_features(1000).points
    return fw.problems.kmeans(points, 10, batch=0.01, optimum=DIGITS, **sampling)


def primates(**sampling: Any) -> fw.Problem:
    return fw.problems.sparsest_cut(fw.datasets.primate_graph(), optimum=PRIMATES, **sampling)


def tasks(long: bool, quick: bool) -> list[Task]:
    if quick:
        points = instances.blobs(16)
        return [
            Task("k-means, N = 16", "most-al", 60, 1.0, {"rows": 1.0}, lambda: _tiny(points), 2)
        ]
    found = []
    if data("mammalia-primate-association-13.edges"):
        edges = 0.05
        found += [
            Task("cut, 25 nodes", "cgal", 20_000, 5e-4, {"feasibility": 5e-2}, primates),
            Task("cut, 25 nodes", "cgal", 100_000, 2e-4, {"feasibility": 5e-3}, primates),
            Task(
                "cut, 25 nodes, 5% of the edges",
                "most-al",
                20_000,
                5e-4,
                {"feasibility": 2e-2},
                lambda: primates(batch=edges),
                5,
            ),
        ]
    for name, optimum in SDPLIB.items():
        path = data("sdplib", f"{name}.dat-s.gz")
        if path is not None:
            gap, violation = _wanted_of(name)
            found.append(
                Task(
                    name,
                    "cgal",
                    20_000,
                    gap,
                    {"equations": violation},
                    lambda path=path, optimum=optimum: fw.problems.sdp(path, optimum=-optimum),
                )
            )
    for name, optimum in GSET.items():
        path = data("gset", f"{name}.gz")
        if path is not None:
            found.append(
                Task(
                    name,
                    "cgal",
                    20_000,
                    1.5e-3,
                    {"diagonal": 1.5e-3},
                    lambda path=path, optimum=optimum: fw.problems.max_cut(path, optimum=-optimum),
                )
            )
    if data("kmeans_mnist", "data_features.mat"):
        found.append(_digits("most-al", 20_000, 1.5e-2, 1e-3, 5e-3))
        if long:
            found.append(_digits("most-al", 100_000, 3e-3, 2e-4, 1e-3))
            found.append(_digits("most-al+", 100_000, 5e-2, 1e-3, 1e-2))
    return found


def _tiny(points: np.ndarray) -> fw.Problem:
    return fw.problems.kmeans(points, instances.CLUSTERS, batch=0.1, optimum=1.0)


def _digits(method: str, steps: int, gap: float, rows: float, sign: float) -> Task:
    sampled = {"constraint_batch": 0.01} if method.endswith("+") else {}
    wanted = {"rows": rows, "sign": sign}
    return Task("k-means, N = 1000", method, steps, gap, wanted, lambda: digits(**sampled), 5)


def _wanted_of(name: str) -> tuple[float, float]:
    if name.startswith("theta"):
        return 3e-3, 1e-3
    return (5e-3, 2e-2) if name.startswith("gpp") else (1.5e-3, 1.5e-3)


def measured(task: Task, seeds: int | None) -> dict[str, Any]:
    problem = task.problem()
    points = list(range(task.steps - WINDOW + WINDOW // LOOKS, task.steps + 1, WINDOW // LOOKS))
    early = [task.steps // 4, task.steps // 2] if task.steps > 4 * WINDOW else []
    ends = []
    for seed in range(task.seeds if seeds is None else min(seeds, task.seeds)):
        result = fw.solve(
            problem,
            task.method,
            iterations=task.steps,
            seed=seed,
            record=[*early, *(p for p in points if p > 0)],
            progress=False,
        )
        ends.append((result, [r for r in result.history if r.iteration in points]))
    gap = np.median([[r.relative_gap for r in records] for _, records in ends])
    violation = {
        name: float(np.median([[seen(r, name) for r in records] for _, records in ends]))
        for name in task.violation
    }
    return {
        "task": task.name,
        "method": task.method,
        "steps": task.steps,
        "seeds": len(ends),
        "gap": float(gap),
        "violation": violation,
        "bound": bound_below([result for result, _ in ends], problem),
        "seconds": float(np.median([result.seconds for result, _ in ends])),
        "wanted": {"gap": task.gap, **task.violation},
        "met": bool(abs(gap) <= task.gap)
        and all(violation[name] <= limit for name, limit in task.violation.items()),
    }


def seen(record: fw.Record, name: str) -> float:
    return record.metrics[name] if name in record.metrics else record.relative_violation[name]


def bound_below(results: list[fw.Result], problem: fw.Problem) -> float | None:
    """How far below the optimum the certified bounds are, relative to it: the median."""
    optimum = problem.optimum
    lower = [r.certificate.lower for r in results if r.certificate is not None]
    if not lower or optimum is None:
        return None
    return float(np.median([(optimum - value) / abs(optimum) for value in lower]))


def line(found: dict[str, Any]) -> tuple[str, ...]:
    bound = found["bound"]
    return (
        found["task"],
        found["method"],
        f"{found['steps']:,}",
        f"{found['gap']:+.2e} ({found['wanted']['gap']:g})",
        ", ".join(
            f"{name} {value:.1e} ({found['wanted'][name]:g})"
            for name, value in found["violation"].items()
        ),
        "-" if bound is None else f"{bound:.2e}",
        f"{found['seconds']:.0f}",
        "met" if found["met"] else "NOT MET",
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy")
    parser.add_argument("--only", action="append", default=[], metavar="WORD", help="repeatable")
    parser.add_argument("--seeds", type=int, help="at most so many of a row")
    parser.add_argument("--long", action="store_true", help="rows of 100,000 steps of k-means too")
    parser.add_argument("--out", type=Path, default=Path("bench"), help="folder for accuracy.json")
    parser.add_argument("--quick", action="store_true", help="one tiny task")
    given = parser.parse_args(arguments)
    print(heading(), flush=True)
    head = ("task", "method", "steps", "relative gap (wanted)", "violation (wanted)")
    rows: list[dict[str, Any]] = []
    table: list[tuple[str, ...]] = [(*head, "bound below optimum", "s", "")]
    for task in tasks(given.long, given.quick):
        if given.only and not any(word in task.name for word in given.only):
            continue
        rows.append(measured(task, given.seeds))
        table.append(line(rows[-1]))
        print("  ".join(table[-1]), flush=True)
    print(aligned(table))
    given.out.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"machine": machine(), "rows": rows}, indent=1)
    (given.out / "accuracy.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
