"""`python -m benchmarks.lmo`: does the LMO's tolerance schedule change where methods end?

Every method runs with LMO calls as they are by default (from side 256 on in single precision) and
to 1e-10, over the same seeds. The default is harmless where the mean end of the former lies within
what the seeds alone make of the latter.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import mostfw as fw
from mostfw.cli.table import aligned

from . import instances
from .rows import heading, machine

TIGHT = 1e-10
Ends = Mapping[str, Sequence[float]]  # by measure, one number a seed


@dataclasses.dataclass(frozen=True)
class Task:
    name: str
    problem: fw.Problem
    method: fw.Method


def tasks(quick: bool) -> list[Task]:
    nodes, dimension, count = (8, 16, 16) if quick else (102, 300, 300)
    graph, points = instances.random_graph(nodes), instances.features(count)
    cut = fw.problems.sparsest_cut
    found = [
        (f"cut, {nodes} nodes", cut(graph, batch=0.05), fw.methods.most_fw(1.5)),
        (
            f"cut, {nodes} nodes",
            cut(graph, batch=0.05, constraint_batch=0.05),
            fw.methods.most_fw_plus(1.0),
        ),
        (
            f"covariance, n = {dimension}",
            fw.problems.covariance(dimension, batch=200),
            fw.methods.most_fw(1.0),
        ),
        *(
            (
                f"k-means, N = {count}",
                instances.kmeans(points, plus),
                instances.kmeans_method(plus),
            )
            for plus in (False, True)
        ),
        (
            f"max-cut, {count} nodes",
            fw.problems.max_cut(instances.random_graph(count)),
            fw.methods.cgal(),
        ),
    ]
    return [Task(*parts) for parts in (found[:1] if quick else found)]


def ends(task: Task, method: fw.Method, iterations: int, seeds: int) -> tuple[Ends, float]:
    """Where the seeds end, by measure, and the products a step."""
    found: dict[str, list[float]] = {}
    products = 0
    for seed in range(seeds):
        result = fw.solve(
            task.problem,
            method,
            iterations=iterations,
            seed=seed,
            record=[iterations],
            progress=False,
        )
        gap = result.relative_gap
        head = ("objective", result.objective) if gap is None else ("relative gap", gap)
        rest = {f"violation {name}": v for name, v in result.relative_violation.items()}
        if "relative_error" in result.last.metrics:
            rest["relative error"] = result.last.metrics["relative_error"]
        for name, value in (head, *rest.items()):
            found.setdefault(name, []).append(float(value))
        products += result.counts.matvecs
    return found, products / (iterations * seeds)


def verdict(own: Ends, tight: Ends) -> dict[str, bool]:
    """By measure, whether the mean of `own` is within the least and the largest of `tight`.

    >>> verdict({"gap": [1.0, 3.0]}, {"gap": [1.5, 2.5]}), verdict({"gap": [3.0]}, {"gap": [1.0]})
    ({'gap': True}, {'gap': False})
    """
    found = {}
    for name, values in own.items():
        lowest, highest = min(tight[name]), max(tight[name])
        slack = 1e-12 * max(abs(lowest), abs(highest))  # for the rounding of the mean only
        found[name] = bool(lowest - slack <= np.mean(values) <= highest + slack)
    return found


def compared(task: Task, iterations: int, seeds: int) -> dict[str, Any]:
    own, products = ends(task, task.method, iterations, seeds)
    exact = task.method.with_lmo_tolerance(TIGHT)
    tight, tight_products = ends(task, exact, iterations, seeds)
    inside = verdict(own, tight)
    return {
        "task": task.name,
        "method": task.method.name,
        "measures": {
            name: {"own": list(own[name]), "tight": list(tight[name]), "inside": inside[name]}
            for name in own
        },
        "matvecs_a_step": products,
        "tight_matvecs_a_step": tight_products,
        "saved": 1 - products / tight_products if tight_products else 0.0,
        "inside": all(inside.values()),
    }


def lines(found: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """The rows of the table for one task and method: a measure each."""
    made = []
    for name, values in found["measures"].items():
        made.append(
            (
                f"{found['task']}, {found['method']}",
                name,
                spread(values["own"]),
                spread(values["tight"]),
                "yes" if values["inside"] else "NO",
                f"{found['matvecs_a_step']:.1f}",
                f"{found['tight_matvecs_a_step']:.1f}",
                f"{found['saved']:.0%}",
            )
        )
    return made


def spread(values: Sequence[float]) -> str:
    return f"{np.mean(values):.4g} ({min(values):.4g} to {max(values):.4g})"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lmo")
    parser.add_argument("--iterations", type=int, default=2000)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("bench"), help="folder for lmo.json")
    parser.add_argument("--quick", action="store_true", help="one tiny task")
    given = parser.parse_args(arguments)
    iterations = min(given.iterations, 100) if given.quick else given.iterations
    print(heading(), flush=True)
    head = ("task", "measure", "as it is: mean (least to most)", f"LMO to {TIGHT:g}", "inside")
    head = (*head, "products a step", "tight", "saved")
    results, table = [], [head]
    for task in tasks(given.quick):
        print(f"{task.name}, {task.method.name} ...", flush=True)
        results.append(compared(task, iterations, given.seeds))
        table += lines(results[-1])
    print(aligned(table))
    outside = [f"{one['task']}, {one['method']}" for one in results if not one["inside"]]
    print("inside seed noise everywhere: " + ("yes" if not outside else f"NO: {outside}"))
    given.out.mkdir(parents=True, exist_ok=True)
    settings = {"iterations": iterations, "seeds": given.seeds, "tight": TIGHT}
    text = json.dumps({"machine": machine(), "settings": settings, "rows": results}, indent=1)
    (given.out / "lmo.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
