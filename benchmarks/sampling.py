"""`python -m benchmarks.sampling`: what the same budget brings with other draws of the objective.

most-al without parameters, with the paper's entries with replacement, with shuffled passes and, on
the sparsest cut, with edges: relative gap and violation as medians over the last 200 steps and over
seeds, and how far below the optimum the certified bounds are. On k-means also how exact gradients
at the end mend the bound, for multipliers found with noisy gradients fit their noise: the last 5%
of the steps go on with the whole objective, by a warm start. With the weight 1/k of most-al the
estimate stays, for the most part, the mean of what was drawn; with the weight 1 it is the gradient
at once.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import mostfw as fw
from mostfw.cli.table import aligned
from mostfw.experiments import reference
from mostfw.trees import replaced

from . import instances
from .accuracy import LOOKS, WINDOW, bound_below, seen
from .rows import heading, machine

EXACT_SHARE = 0.05  # of the steps, the last ones, where gradients are to be exact at the end
CUT = "mammalia-primate-association-13"


@dataclasses.dataclass(frozen=True)
class Case:
    """One row: a problem by how it is drawn, and what its last steps go on with, if with others."""

    task: str
    draws: str
    problem: fw.Problem
    violation: tuple[str, ...]  # relative violations, or metrics
    ending: tuple[fw.Problem, fw.Method] | None = None


def newest() -> fw.Method:
    """most-al whose estimate is the last gradient alone; it can go on from most-al's state."""
    tracker = fw.trackers.Momentum(fw.schedules.Constant(1.0))
    return replaced(fw.methods.most_al(), tracker=tracker)


def cases(quick: bool) -> list[Case]:
    return [*cuts(quick), *clusterings(quick)]


def cuts(quick: bool) -> list[Case]:
    """The 25-node graph of the literature where it is at hand, else the karate club."""
    present = not quick and fw.datasets.state(CUT).status == "present"
    graph = fw.datasets.primate_graph() if present else fw.datasets.karate_club()
    optimum = fw.datasets.get(graph.name).optimum
    return [
        Case(
            f"sparsest cut, {graph.nodes} nodes, 5%",
            draws,
            fw.problems.sparsest_cut(graph, batch=0.05, sampling=draws, optimum=optimum),
            ("feasibility",),
        )
        for draws in ("entries", "shuffled", "edges")
    ]


def clusterings(quick: bool) -> list[Case]:
    count = 16 if quick else 250
    share = 0.1 if quick else instances.SHARE
    points = instances.features(count)
    known = reference.kmeans(points, instances.CLUSTERS, tolerance=1e-2 if quick else 1e-5)
    task = f"k-means, N = {count}, {share:.0%}"
    print(f"{task}: optimum {known.value:.6g}, in [{known.lower:.6g}, {known.upper:.6g}]")

    def posed(**drawn: Any) -> fw.Problem:
        return fw.problems.kmeans(points, instances.CLUSTERS, optimum=known.value, **drawn)

    entries, whole = posed(batch=share, sampling="entries"), posed()
    names = ("rows", "sign")
    return [
        Case(task, "entries", entries, names),
        Case(task, "shuffled", posed(batch=share, sampling="shuffled"), names),
        Case(task, "entries, then whole", entries, names, (whole, fw.methods.most_al())),
        Case(task, "entries, then whole, weight 1", entries, names, (whole, newest())),
    ]


def measured(case: Case, steps: int, seeds: int) -> dict[str, Any]:
    window = min(WINDOW, round(EXACT_SHARE * steps))
    last = np.unique(np.linspace(steps - window, steps, LOOKS + 1).astype(int)[1:]).tolist()
    ends = [run(case, steps, seed, last) for seed in range(seeds)]
    looks = [[r for r in result.history if r.iteration in last] for result in ends]
    gaps = [[abs(r.relative_gap) for r in records] for records in looks]  # pyright: ignore[reportArgumentType]
    return {
        "task": case.task,
        "draws": case.draws,
        "steps": steps,
        "seeds": seeds,
        "gap": float(np.median(gaps)),
        "gaps": [float(np.median(of_seed)) for of_seed in gaps],
        "violation": {
            name: float(np.median([[seen(r, name) for r in records] for records in looks]))
            for name in case.violation
        },
        "bound": bound_below(ends, case.problem),
    }


def run(case: Case, steps: int, seed: int, last: list[int]) -> fw.Result:
    exact = 0 if case.ending is None else round(EXACT_SHARE * steps)
    record = sorted({steps // 4, steps // 2, steps - exact, *last})
    given: dict[str, Any] = {"record": record, "progress": False}
    result = fw.solve(case.problem, "most-al", iterations=steps - exact, seed=seed, **given)
    if case.ending is None:
        return result
    problem, method = case.ending
    return fw.solve(problem, method, iterations=exact, warm_start=result, **given)


def line(found: dict[str, Any]) -> tuple[str, ...]:
    least, most = min(found["gaps"]), max(found["gaps"])
    return (
        found["task"],
        found["draws"],
        f"{found['steps']:,}",
        f"{found['gap']:.1e} ({least:.1e} to {most:.1e})",
        ", ".join(f"{name} {value:.1e}" for name, value in found["violation"].items()),
        "-" if found["bound"] is None else f"{found['bound']:.2e}",
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sampling")
    parser.add_argument("--iterations", type=int, default=20_000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", action="append", default=[], metavar="WORD", help="repeatable")
    parser.add_argument("--out", type=Path, default=Path("bench"), help="folder for sampling.json")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to test the harness")
    given = parser.parse_args(arguments)
    steps, seeds = (60, 1) if given.quick else (given.iterations, given.seeds)
    print(heading(), flush=True)
    rows: list[dict[str, Any]] = []
    head = ("task", "draws", "steps", "|relative gap| (over seeds)", "violation")
    table: list[tuple[str, ...]] = [(*head, "bound below optimum")]
    for case in cases(given.quick):
        if given.only and not any(word in f"{case.task}, {case.draws}" for word in given.only):
            continue
        rows.append(measured(case, steps, seeds))
        table.append(line(rows[-1]))
        print("  ".join(table[-1]), flush=True)
    print(aligned(table))
    given.out.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"machine": machine(), "rows": rows}, indent=1)
    (given.out / "sampling.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
