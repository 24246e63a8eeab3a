"""`python -m benchmarks.rivals`: sampled constraints, every method at its best over a grid.

The k-means SDP of 1000 digits with 1% of the objective and 1% of the signs a step. `most-al+`,
`most-fw+` and `h1-sfw` run with eight strengths each (beta_0 or 1/mu_c in the problem's units,
powers of 4) and as they come, side by side; the best of each, by |relative gap| + violations, and
`most-al+` as it comes then make the whole number of steps with several seeds. `most-al` with all
signs a step comes along for its row of 100,000 steps. Meant for a GPU, where the members of a sweep
share most of the time; on a CPU `--apart` makes one run after the other. The data folder is the one
that MOSTFW_DATA names.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import mostfw as fw
from mostfw.cli.table import aligned

from . import instances
from .accuracy import LOOKS, WINDOW, digits
from .grids import members
from .rows import heading, machine

WHOLE = "most-al"
GRIDS = {
    "most-al+": tuple(4.0**power for power in range(-6, 2)),
    "most-fw+": tuple(4.0**power for power in range(-1, 7)),
    "h1-sfw": tuple(4.0**power for power in range(-1, 7)),
}


def problem_of(method: str, quick: bool) -> fw.Problem:
    sampled = {"constraint_batch": 0.1 if quick else 0.01} if method in GRIDS else {}
    if quick:
        points = instances.blobs(16)
        return fw.problems.kmeans(points, instances.CLUSTERS, batch=0.1, optimum=1.0, **sampled)
    return digits(**sampled)


def ends(
    problem: fw.Problem,
    methods: Sequence[fw.Method],
    seeds: Sequence[int],
    steps: int,
    apart: bool,
) -> list[dict[str, float]]:
    """Of every member: medians over the last steps."""
    points = list(range(steps - WINDOW + WINDOW // LOOKS, steps + 1, WINDOW // LOOKS))
    given = {"iterations": steps, "record": [point for point in points if point > 0]}
    if not apart:
        found = fw.sweep(problem, methods, seeds=seeds, progress=False, **given)
        return [_end(result) for result in found]
    return [_one(problem, *pair, given) for pair in zip(methods, seeds, strict=True)]


def _one(
    problem: fw.Problem, method: fw.Method, seed: int, given: dict[str, Any]
) -> dict[str, float]:
    try:
        return _end(fw.solve(problem, method, seed=seed, certify=False, progress=False, **given))
    except fw.NonFiniteError:
        return _end(None)


def _end(result: fw.Result | None) -> dict[str, float]:
    if result is None or result.status is fw.Status.NON_FINITE:
        return {"gap": np.inf, "rows": np.inf, "sign": np.inf, "merit": np.inf}
    found = {"gap": float(np.median([record.relative_gap for record in result.history]))}
    for name in result.relative_violation:
        found[name] = float(np.median([r.relative_violation[name] for r in result.history]))
    found["merit"] = abs(found["gap"]) + sum(v for name, v in found.items() if name != "gap")
    return found


def study(
    name: str,
    steps: int,
    tuning_steps: int,
    seeds: Sequence[int],
    quick: bool,
    apart: bool = False,
) -> Iterator[dict[str, Any]]:
    """The runs of one method: each strength, then the best one and the method as it comes."""
    problem, method = problem_of(name, quick), fw.methods.get(name)
    finalists: list[tuple[float | None, fw.Method]] = [(None, method)]
    if name in GRIDS:
        strengths = (None, *GRIDS[name])
        chosen = members(method, GRIDS[name])
        found = ends(problem, chosen, [seeds[0]] * len(chosen), tuning_steps, apart)
        for strength, end in zip(strengths, found, strict=True):
            yield {"method": name, "steps": tuning_steps, "strength": strength, **end}
        best = min(range(len(found)), key=lambda index: found[index]["merit"])
        own = finalists if name == "most-al+" and best else []
        finalists = [(strengths[best], chosen[best]), *own]
    everyone = [(strength, one, seed) for strength, one in finalists for seed in seeds]
    chosen, own_seeds = [one for _, one, _ in everyone], [seed for *_, seed in everyone]
    found = ends(problem, chosen, own_seeds, steps, apart)
    for (strength, _, seed), end in zip(everyone, found, strict=True):
        yield {"method": name, "steps": steps, "strength": strength, "seed": seed, **end}


def medians(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One line a method, length and strength, over its seeds."""
    kinds = list(dict.fromkeys(kind_of(row) for row in rows))
    found = []
    for kind in kinds:
        own = [row for row in rows if kind_of(row) == kind]
        numbers = {
            name: float(np.median([row[name] for row in own]))
            for name in ("gap", "rows", "sign", "merit")
        }
        method, steps, strength = kind
        found.append(
            {"method": method, "steps": steps, "strength": strength, "seeds": len(own), **numbers}
        )
    return found


def kind_of(row: dict[str, Any]) -> tuple[str, int, float | None]:
    return row["method"], row["steps"], row["strength"]


def line(row: dict[str, Any]) -> tuple[str, ...]:
    strength = row["strength"]
    return (
        row["method"],
        f"{row['steps']:,}",
        "as it comes" if strength is None else f"{strength:.4g}",
        str(row["seeds"]),
        f"{row['gap']:+.2e}",
        f"{row['rows']:.1e}",
        f"{row['sign']:.1e}",
        f"{row['merit']:.2e}",
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rivals")
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--tuning-steps", type=int, default=20_000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", action="append", default=[], choices=(WHOLE, *GRIDS))
    parser.add_argument("--out", type=Path, default=Path("bench"), help="folder for rivals.json")
    parser.add_argument("--apart", action="store_true", help="one run after the other")
    parser.add_argument("--quick", action="store_true", help="a tiny problem")
    given = parser.parse_args(arguments)
    print(heading(), flush=True)
    lengths = (given.steps, given.tuning_steps)
    lengths = (60, 40) if given.quick else lengths
    rows: list[dict[str, Any]] = []
    given.out.mkdir(parents=True, exist_ok=True)
    for name in given.only or (WHOLE, *GRIDS):
        began = time.perf_counter()
        for row in study(name, *lengths, range(given.seeds), given.quick, given.apart):
            rows.append(row)  # and at once to the disk: the next sweep may take long
            text = json.dumps({"machine": machine(), "rows": rows}, indent=1)
            (given.out / "rivals.json").write_text(text + "\n", encoding="utf-8")
        print(f"{name}: {time.perf_counter() - began:.0f} s", flush=True)
    head = ("method", "steps", "strength", "seeds", "relative gap", "rows", "signs", "merit")
    print(aligned([head, *map(line, medians(rows))]))


if __name__ == "__main__":
    main()
