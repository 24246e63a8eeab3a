"""`python -m benchmarks.gpu`: k-means in float32 on one large GPU.

Each part runs in a process of its own, so that its peak of memory is its own. Nothing but NumPy
and the package itself is needed; the points are ten seeded Gaussian clouds.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

import mostfw as fw

from . import instances, timing
from .rows import Goal, Row, machine


@dataclasses.dataclass(frozen=True)
class Sizes:
    """How large and how long; the batches are shares of the n^2 entries."""

    small: int = 1000
    small_steps: int = 2000
    members: int = 16
    middle: int = 40_000
    middle_steps: int = 2000
    large: int = 100_000
    large_steps: int = 40
    batch: float = 0.01
    large_batch: float = 0.001  # of those that are not small
    mesh: int = 20_000
    mesh_steps: int = 200
    mesh_rounds: int = 3

    @staticmethod
    def tiny() -> Sizes:
        return Sizes(16, 20, 2, 24, 20, 32, 5, large_batch=0.01, mesh=64, mesh_steps=10)


def say(text: str) -> None:
    print(text, flush=True)


def problem_of(n: int, batch: float, dtype: Any = np.float32) -> fw.Problem:
    say(f"building k-means, N = {n}, {np.dtype(dtype).name}")
    points = instances.blobs(n).astype(dtype)
    weight = float(n)
    return fw.problems.kmeans(
        points,
        instances.CLUSTERS,
        batch=batch,
        sampling="entries",
        sign_weight=weight,
        dtype=dtype,
    )


def peak_gigabytes() -> float | None:
    """The most that the device held at once in this process; None where it does not say."""
    found = jax.local_devices()[0].memory_stats()
    return None if not found else found["peak_bytes_in_use"] / 1e9


def small(sizes: Sizes) -> list[Row]:
    """Steps where overhead counts, in both precisions, and many seeds side by side."""
    rows, n, steps = [], sizes.small, sizes.small_steps
    method = instances.kmeans_method()
    for dtype, goal in ((np.float64, None), (np.float32, Goal(most=0.7))):
        problem = problem_of(n, sizes.batch, dtype)
        spent = timing.alternating(3, timing.our_step(problem, method, steps))[0]
        name = f"k-means, N = {n}, {np.dtype(dtype).name}, a step"
        rows.append(Row(name, 1e3 * spent, "ms", goal=goal, details={"steps": steps}))
        say(str(rows[-1]))
    problem = problem_of(n, sizes.batch)
    members = [method] * sizes.members

    def together(_: int) -> float:
        given = {"seeds": range(sizes.members), "iterations": steps, "record": [steps]}
        results = fw.sweep(problem, members, progress=False, **given)
        return sum(result.seconds for result in results)  # each holds its share of the whole

    def alone(seed: int) -> float:
        return timing.run(problem, method, steps, seed).seconds

    together(0)  # compiles
    swept, single = timing.alternating(3, together, alone)
    rows.append(
        Row(
            f"k-means, N = {n}, sweep of {sizes.members} seeds",
            swept,
            "s",
            "one run",
            single,
            swept / single,
            "times one run",
            Goal(most=4.0),
            details={"steps": steps},
        )
    )
    say(str(rows[-1]))
    return rows


def long_run(n: int, steps: int, batch: float, goal: Goal, peak_goal: Goal | None) -> list[Row]:
    """Many steps on one large problem, looked at where a tenth, a third and all are done."""
    problem, method = problem_of(n, batch), instances.kmeans_method()

    def show(record: fw.Record) -> None:
        violation = ", ".join(f"{k} {v:.3e}" for k, v in record.relative_violation.items())
        pace = 1e3 * record.seconds / record.iteration
        say(
            f"  step {record.iteration}: {pace:.2f} ms a step, objective {record.objective:.6g}, "
            f"violation {violation}"
        )

    points = sorted({1, max(1, steps // 10), max(1, steps // 3), steps})
    result = fw.solve(
        problem, method, iterations=steps, record=points, callback=show, progress=False
    )
    say(f"  compiled in {result.compile_seconds:.1f} s")
    peak = peak_gigabytes()
    history = [dataclasses.asdict(record) for record in result.history]
    details = {
        "steps": steps,
        "batch": batch,
        "compile_seconds": result.compile_seconds,
        "matvecs_a_step": result.counts.matvecs / steps,
        "history": history,
    }
    name = f"k-means, N = {n}, float32"
    notes = (f"{details['matvecs_a_step']:.1f} products a step, batch {batch:g}",)
    pace = 1e3 * result.seconds / steps
    rows = [
        Row(f"{name}, a step", pace, "ms", goal=goal, notes=notes, details=details),
        Row(f"{name}, peak memory", peak, "GB", goal=peak_goal),
    ]
    for row in rows:
        say(str(row))
    return rows


def middle(sizes: Sizes) -> list[Row]:
    return long_run(sizes.middle, sizes.middle_steps, sizes.large_batch, Goal(most=30), None)


def large(sizes: Sizes) -> list[Row]:
    return long_run(
        sizes.large, sizes.large_steps, sizes.large_batch, Goal(most=250), Goal(most=100)
    )


def mesh(sizes: Sizes) -> list[Row]:
    """What the way over several devices costs where there is only one."""
    problem, method = problem_of(sizes.mesh, sizes.large_batch), instances.kmeans_method()

    def step(devices: int | None) -> Callable[[int], float]:
        def measured(seed: int) -> float:
            given = {"iterations": sizes.mesh_steps, "record": [sizes.mesh_steps], "seed": seed}
            result = fw.solve(problem, method, mesh=devices, certify=False, progress=False, **given)
            products.setdefault(devices, []).append(result.counts.matvecs / sizes.mesh_steps)
            return result.seconds / sizes.mesh_steps

        return measured

    products: dict[int | None, list[float]] = {}
    over_one, plain = timing.alternating(sizes.mesh_rounds, step(1), step(None))
    row = Row(
        f"k-means, N = {sizes.mesh}, float32, a step over a mesh of one device",
        1e3 * over_one,
        "ms",
        "without a mesh",
        1e3 * plain,
        over_one / plain,
        "times as long",
        Goal(most=1.05),
        details={"steps": sizes.mesh_steps, "products": list(products.values())},
    )
    say(str(row))
    return [row]


PARTS: dict[str, Callable[[Sizes], list[Row]]] = {
    "small": small,
    "middle": middle,
    "large": large,
    "mesh": mesh,
}


def children(given: argparse.Namespace) -> dict[str, Any]:
    """Each part in its own process, one after the other; one that fails does not end the rest."""
    environment = dict(os.environ)
    # three quarters, the default, would be less than the largest part needs
    environment.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.95")
    found: dict[str, Any] = {}
    for name in given.part or PARTS:
        say(f"part {name}")
        command = [sys.executable, "-m", "benchmarks.gpu", "--alone", "--part", name]
        command += ["--out", str(given.out)] + (["--quick"] if given.quick else [])
        for option in ("batch", "steps", "mesh-size"):
            value = getattr(given, option.replace("-", "_"))
            command += [] if value is None else [f"--{option}", str(value)]
        code = subprocess.run(command, env=environment, check=False).returncode
        path = given.out / f"gpu-{name}.json"
        found[name] = json.loads(path.read_text()) if code == 0 else {"failed": f"exit {code}"}
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu")
    parser.add_argument("--part", action="append", choices=list(PARTS), help="repeatable")
    parser.add_argument("--out", type=Path, default=Path("bench"), help="folder for gpu*.json")
    parser.add_argument("--batch", type=float, help="share of the entries drawn a step")
    parser.add_argument("--steps", type=int, help="instead of the part's own number")
    parser.add_argument("--mesh-size", type=int, help="N of the part mesh (default 20,000)")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to test the harness")
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    given.out.mkdir(parents=True, exist_ok=True)
    if not given.alone:
        found = children(given)
        (given.out / "gpu.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        return
    (name,) = given.part
    sizes = Sizes.tiny() if given.quick else Sizes()
    if given.batch is not None:
        sizes = dataclasses.replace(sizes, batch=given.batch, large_batch=given.batch)
    if given.mesh_size is not None:
        sizes = dataclasses.replace(sizes, mesh=given.mesh_size)
    if given.steps is not None:
        sizes = dataclasses.replace(sizes, **{f"{name}_steps": given.steps})
    found = machine()
    say(f"{found['device']}, jax {found['jax']}, {found['date']}")
    rows = [row.to_dict() for row in PARTS[name](sizes)]
    text = json.dumps({"machine": found, "rows": rows}, indent=1)
    (given.out / f"gpu-{name}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
