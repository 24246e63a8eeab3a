"""`python -m benchmarks.shares`: does one constant of most-fw+ suit however few rows are drawn?

Four tasks of the experiments at their small sizes, with shares of their constraints' rows from 0.5
to 30%. Reported is the merit of most-fw+ without parameters (as in benchmarks.tuning), a median
over seeds, as so many times the best over a grid of constants; and the same for the constant that
it would take if few rows were as stiff as all of them.
"""

from __future__ import annotations

import argparse
import functools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import mostfw as fw
from mostfw.cli.table import aligned
from mostfw.method import STIFF_FROM

from .grids import members
from .rows import heading, machine
from .tuning import clustering, completion, logistic, merits, times

GRID = tuple(4.0**power for power in range(-3, 4))
OWN = 1 / fw.methods.MU_C
PRIMATES = "mammalia-primate-association-13"


def tasks(quick: bool) -> dict[str, tuple[Callable[..., fw.Problem], tuple[float, ...]]]:
    """How a problem is posed, given the share of rows, and the shares."""
    if quick:
        return {"k-means, N = 12": (clustering(12), (0.1,))}
    found = {"k-means, N = 60": (clustering(60), (0.01, 0.02, 0.05, 0.2))}
    if fw.datasets.state(PRIMATES).status == "present":
        graph, optimum = fw.datasets.primate_graph(), fw.datasets.get(PRIMATES).optimum
        cut = functools.partial(fw.problems.sparsest_cut, graph, batch=0.05, optimum=optimum)
        found["sparsest cut, 25 nodes"] = (cut, (0.01, 0.05, 0.2))
    found["completion, 60 x 40"] = (completion(60, 40), (0.005, 0.02, 0.1, 0.3))
    found["logistic, 200 x 20"] = (logistic(200, 20), (0.01, 0.02, 0.1, 0.3))
    return found


def measured(
    task: str, problem: fw.Problem, share: float, iterations: int, seeds: int
) -> dict[str, Any]:
    alike = OWN / min(1.0, share / STIFF_FROM)
    chosen = members(fw.methods.most_fw_plus(), (alike, *GRID))
    found = [merits(problem, chosen, iterations, seed) for seed in range(seeds)]
    own, as_all, *grid = (float(merit) for merit in np.median(found, axis=0))
    return {"task": task, "share": share, "own": own, "as_all": as_all, "grid": grid}


def line(row: dict[str, Any]) -> tuple[str, ...]:
    best = min(row["as_all"], *row["grid"])
    ratios = (times(row[name] / best) for name in ("own", "as_all"))
    return row["task"], f"{row['share']:.1%}", f"{row['own']:.1e}", *ratios, f"{best:.1e}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shares")
    parser.add_argument("--iterations", type=int, default=3000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("bench"), help="folder for shares.json")
    parser.add_argument("--quick", action="store_true", help="a tiny problem")
    given = parser.parse_args(arguments)
    lengths = (40, 1) if given.quick else (given.iterations, given.seeds)
    print(heading(), flush=True)
    rows: list[dict[str, Any]] = []
    head = ("task", "rows a step", "merit", "times the best", "as stiff as all rows", "best")
    table: list[tuple[str, ...]] = [head]
    for task, (pose, shares) in tasks(given.quick).items():
        for share in shares:
            rows.append(measured(task, pose(constraint_batch=share), share, *lengths))
            table.append(line(rows[-1]))
            print("  ".join(table[-1]), flush=True)
    print(aligned(table))
    given.out.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"machine": machine(), "rows": rows}, indent=1)
    (given.out / "shares.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
