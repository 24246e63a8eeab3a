"""`python -m benchmarks.tuning`: is a method without parameters near its best over a grid?

Every method runs on every problem as it is, and with 13 constants in the problem's own units
(beta_0 or 1/mu_c from 4^-6 to 4^6), all side by side as one sweep. Reported is the merit at the
end, |relative gap| + violations in the problem's units, as a median over the last record points
and over seeds, against the best of the grid, and how many times that best each constant has. Five
problems are drawn at random; `--draw 11` are those on which the constants were chosen, the default
draw was not looked at before.
"""

from __future__ import annotations

import argparse
import functools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import cvxpy as cp
import jax.numpy as jnp
import numpy as np

import mostfw as fw
from mostfw.cli.table import aligned
from mostfw.experiments import reference
from mostfw.problems.completion import generated_ratings
from mostfw.problems.logistic import generated_labels

from . import instances
from .grids import GRID, members
from .rows import heading, machine

LOOKS = 20  # record points of the last twentieth of a run, whose median is taken
WANTED = 3.0
INSIDE = 1e-3  # a merit this small is inside of any tolerance in use
BATCH = 0.02  # of the tasks of figure 5, as there


def merits(
    problem: fw.Problem, chosen: Sequence[fw.Method], iterations: int, seed: int = 0
) -> list[float]:
    """Of each of these methods, side by side."""
    points = np.unique(np.linspace(0.95 * iterations, iterations, LOOKS).astype(int)).tolist()
    results = fw.sweep(
        problem, chosen, seeds=seed, iterations=iterations, record=points, progress=False
    )
    units = fw.scaling.measured(problem, problem.objective)  # the same for all methods
    names = [constraint.name for constraint in problem.constraints]
    reaches = dict(zip(names, map(float, units.reaches), strict=True))
    return [
        float(np.median([merit(record, reaches) for record in result.history]))
        for result in results
    ]


def merit(record: fw.Record, reaches: dict[str, float]) -> float:
    """|relative gap| + violations, each in units of the largest ||Gz|| of an atom z."""
    assert record.relative_gap is not None
    far = sum(value / reaches[name] for name, value in record.violation.items())
    return abs(record.relative_gap) + far


def row(
    task: str, problem: fw.Problem, method: fw.Method, iterations: int, seeds: int
) -> dict[str, Any]:
    chosen, draws = members(method), not isinstance(method.tracker, fw.trackers.Exact)
    found = [merits(problem, chosen, iterations, seed) for seed in range(seeds if draws else 1)]
    own, *grid = map(float, np.median(found, axis=0))
    best = int(np.argmin(grid))
    ratio = own / grid[best]
    return {
        "task": task,
        "method": method.name,
        "ours": own,
        "best": grid[best],
        "best_at": GRID[best],
        "ratio": ratio,
        "met": ratio <= WANTED or own <= INSIDE,
        "grid": grid,
    }


def posed(quick: bool, seed: int) -> dict[str, tuple[fw.Problem, fw.Problem | None]]:
    """The tasks: a problem with whole constraints, and one with sampled ones or None."""
    graph = fw.datasets.karate_club() if quick else instances.small_graph()
    optimum = fw.datasets.get(graph.name).optimum if not quick else None
    count = 12 if quick else 60
    found: dict[str, tuple[fw.Problem, fw.Problem | None]] = {}
    if optimum is not None:
        nodes = functools.partial(fw.problems.sparsest_cut, graph, batch=0.05, optimum=optimum)
        found["sparsest cut, 25 nodes"] = both(nodes, 0.05)
    found[f"k-means, N = {count}"] = both(clustering(count), 0.05)
    found["covariance, n = 100"] = (
        fw.problems.covariance(12 if quick else 100, batch=50),
        None,
    )
    found["completion, 60 x 40"] = both(completion(*((8, 6) if quick else (60, 40))), BATCH)
    found["logistic, 200 x 20"] = both(logistic(*((20, 4) if quick else (200, 20))), BATCH)
    found.update(drawn(8 if quick else 30, seed))
    return found


def both(pose: Callable[..., fw.Problem], share: float) -> tuple[fw.Problem, fw.Problem]:
    """With whole constraints, and with such a share of their rows a step."""
    return pose(), pose(constraint_batch=share)


def clustering(count: int) -> Callable[..., fw.Problem]:
    points = instances.blobs(count)
    best = kmeans_optimum(points)
    pose = functools.partial(fw.problems.kmeans, points, instances.CLUSTERS)
    return functools.partial(pose, batch=0.05, optimum=best)


def kmeans_optimum(points: np.ndarray) -> float:
    n = len(points)
    distances = np.sum((points[:, None] - points[None]) ** 2, axis=2)
    x = cp.Variable((n, n), PSD=True)
    rules = [cp.sum(x, axis=1) == 1, x >= 0, cp.trace(x) <= instances.CLUSTERS]
    return _solved(cp.sum(cp.multiply(distances, x)), rules)


def completion(rows: int, columns: int) -> Callable[..., fw.Problem]:
    """Figure 5's completed matrix at its quick size: the noise of its gradients depends on x."""
    ratings = generated_ratings(rows, columns, rank=4)
    given: dict[str, Any] = {"shape": ratings.truth.shape, "radius": 0.9 * ratings.radius}
    given["optimum"] = reference.completion(ratings.entries, **given, tolerance=1e-4).value
    return functools.partial(fw.problems.completion, ratings.entries, batch=BATCH, **given)


def logistic(rows: int, dimension: int) -> Callable[..., fw.Problem]:
    """Figure 5's regression at its quick size: no quadratic, and no matrix."""
    data = generated_labels(rows, dimension)
    best = reference.logistic(*data, tolerance=1e-6).value
    return functools.partial(fw.problems.logistic, *data, batch=BATCH, optimum=best)


def _solved(value: Any, rules: list[Any]) -> float:
    problem = cp.Problem(cp.Minimize(value), rules)
    problem.solve(solver=cp.CLARABEL)
    return float(problem.value)  # pyright: ignore[reportArgumentType]


def drawn(n: int, seed: int) -> dict[str, tuple[fw.Problem, fw.Problem | None]]:
    """Five problems at random, with optima from an interior-point solver."""
    rng = np.random.default_rng(seed)
    return {
        "random SDP, equations": (_equations(rng, n), None),
        "random max-cut": (_max_cut(rng, n), None),
        "random completion, box": (_completion(rng, n), None),
        "random LP over a simplex": (_simplex(rng, n), None),
        "random QP over an l1 ball": (_l1(rng, n), None),
    }


def _symmetric(rng: np.random.Generator, n: int) -> np.ndarray:
    a = rng.standard_normal((n, n))
    return (a + a.T) / 2


def _equations(rng: np.random.Generator, n: int) -> fw.Problem:
    cost, rows = _symmetric(rng, n), [_symmetric(rng, n) for _ in range(n // 3)]
    inside = rng.standard_normal((n, n))
    inside = inside @ inside.T
    inside /= np.trace(inside)
    right = np.array([np.sum(row * inside) for row in rows])
    x = cp.Variable((n, n), PSD=True)
    rules = [cp.trace(x) <= 1, *(cp.sum(cp.multiply(r, x)) == b for r, b in zip(rows, right))]  # noqa: B905
    return fw.Problem(
        fw.objectives.Linear(cost, batch=0.1),
        fw.domains.Spectrahedron(n, trace=1.0),
        [fw.constraints.Affine(np.array([row.ravel() for row in rows]), fw.sets.Point(right))],
        optimum=_solved(cp.sum(cp.multiply(cost, x)), rules),
    )


def _max_cut(rng: np.random.Generator, n: int) -> fw.Problem:
    weights = np.triu(rng.random((n, n)) < 0.3, 1) * rng.random((n, n))
    laplacian = np.diag((weights + weights.T).sum(axis=0)) - weights - weights.T
    x = cp.Variable((n, n), PSD=True)
    places = np.arange(n)
    return fw.Problem(
        fw.objectives.Linear(-laplacian / 4, batch=0.1),
        fw.domains.Spectrahedron(n, trace=float(n), equality=True),
        [
            fw.constraints.Affine(
                fw.maps.Entries(places, places, symmetric=True), fw.sets.Point(1.0)
            )
        ],
        optimum=_solved(-cp.sum(cp.multiply(laplacian, x)) / 4, [cp.diag(x) == 1]),
    )


def _completion(rng: np.random.Generator, n: int) -> fw.Problem:
    m = n // 2
    truth = np.clip(rng.standard_normal((m, 2)) @ rng.standard_normal((2, n)), -1, 1)
    seen = rng.choice(m * n, size=m * n // 2, replace=False)
    rows, columns = np.unravel_index(seen, (m, n))
    values = truth[rows, columns] + 0.1 * rng.standard_normal(len(seen))
    radius = 0.8 * float(np.linalg.norm(truth, "nuc"))
    x = cp.Variable((m, n))
    misfit = cp.sum_squares(cp.vec(x, order="C")[seen] - values) / (2 * len(seen))
    rules = [cp.norm(x, "nuc") <= radius, x >= -0.5, x <= 0.5]
    return fw.Problem(
        fw.objectives.EntryLoss(rows, columns, values, batch=0.1),
        fw.domains.NuclearBall((m, n), radius),
        [fw.constraints.Affine(fw.maps.Identity(), fw.sets.Box(-0.5, 0.5))],
        optimum=_solved(misfit, rules),
    )


def _simplex(rng: np.random.Generator, n: int) -> fw.Problem:
    cost, rows = rng.random(n) + 0.5, rng.standard_normal((n // 3, n))
    upper = rows @ np.full(n, 1 / n) + 0.05
    x = cp.Variable(n)
    rules = [x >= 0, cp.sum(x) == 1, rows @ x <= upper]
    return fw.Problem(
        fw.objectives.Linear(cost, batch=0.2),
        fw.domains.Simplex(n),
        [fw.constraints.Affine(rows, fw.sets.Box(-np.inf, upper))],
        optimum=_solved(cost @ x, rules),
    )


def _l1(rng: np.random.Generator, n: int) -> fw.Problem:
    target, rows = 10.0 * rng.standard_normal(n), rng.standard_normal((n // 6, n))
    right = rows @ (rng.standard_normal(n) / n)
    matrix = rng.standard_normal((2 * n, n))
    x = cp.Variable(n)
    rules = [cp.norm1(x) <= 5.0, rows @ x == right]

    def value(point: Any, row: Any) -> Any:
        return jnp.sum(row * (point - target)) ** 2 / 2

    optimum = _solved(cp.sum_squares(matrix @ (x - target)) / (4 * n), rules)
    return fw.Problem(
        fw.objectives.FiniteSum(value, matrix, batch=0.1),
        fw.domains.L1Ball(n, 5.0),
        [fw.constraints.Affine(rows, fw.sets.Point(right))],
        optimum=optimum,
    )


def by_constant(rows: Sequence[dict[str, Any]]) -> list[tuple[str, ...]]:
    """The merit at each constant as so many times the best: docs/accuracy.md shows the middle."""
    head = (f"1/{1 / strength:g}" if strength < 1 else f"{strength:g}" for strength in GRID)
    table: list[tuple[str, ...]] = [("task", "method", *head, "best")]
    for one in rows:
        ratios = (times(merit / one["best"]) for merit in one["grid"])
        table.append((one["task"], one["method"], *ratios, f"{one['best']:.1e}"))
    return table


def times(ratio: float) -> str:
    """Three digits, and no power of ten below a thousand."""
    return f"{ratio:.1f}" if ratio < 99.95 else f"{ratio:.0f}"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tuning")
    parser.add_argument("--iterations", type=int, default=5000)
    parser.add_argument("--seeds", type=int, default=3, help="of methods that draw")
    parser.add_argument("--only", action="append", default=[], metavar="WORD")
    parser.add_argument("--method", action="append", default=[])
    parser.add_argument("--draw", type=int, default=2026, help="seed of the random problems")
    parser.add_argument("--out", type=Path, default=Path("bench"))
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to test the harness")
    given = parser.parse_args(arguments)
    iterations, seeds = (40, 1) if given.quick else (given.iterations, given.seeds)
    print(heading(), flush=True)
    rows, table = [], [("task", "method", "as it is", "best of grid", "at", "ratio", "")]
    for task, (whole, sampled) in posed(given.quick, given.draw).items():
        if given.only and not any(word in task for word in given.only):
            continue
        for method in (
            fw.methods.most_fw(),
            fw.methods.cgal(),
            fw.methods.most_al(),
            fw.methods.most_fw_plus(),
            fw.methods.most_al_plus(),
        ):
            problem = sampled if method.constraints == "sampled" else whole
            if problem is None or (given.method and method.name not in given.method):
                continue
            try:
                method.bind(problem)
            except fw.UnsuitableMethodError:
                continue  # no exact gradients of an endless objective
            rows.append(row(task, problem, method, iterations, seeds))
            one = rows[-1]
            shown = (f"{one['ours']:.2e}", f"{one['best']:.2e}", f"{one['best_at']:.3g}")
            table.append(
                (task, method.name, *shown, f"{one['ratio']:.2f}", "" if one["met"] else "MISSED")
            )
            print("  ".join(table[-1]), flush=True)
    print(aligned(table))
    print("\nmerit at each constant, divided by the best:")
    print(aligned(by_constant(rows)))
    given.out.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"machine": machine(), "iterations": iterations, "rows": rows}, indent=1)
    (given.out / "tuning.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
