"""`python -m benchmarks.thresholds`: how many LMO calls relative trimming skips, and at what loss.

tau_0 is in units of ||s_k||. Of each threshold: the share of the calls that were skipped, and the
merit (gap + violations, median over the second half of the records and over seeds) as a multiple
of the untrimmed method's. Nothing else is tuned.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np

import mostfw as fw
from mostfw.cli.table import aligned

from . import instances
from .rows import heading

THRESHOLDS = (0.03, 0.1, 0.3, 1.0, 3.0)
METHODS = ("most-fw", "most-al", "most-fw+", "most-al+")
SHARE = 0.05


def problems(quick: bool) -> dict[str, fw.Problem]:
    """The tasks by name, with optima; a "+" has its constraints sampled."""
    graph = instances.random_graph(8) if quick else instances.small_graph()
    points = instances.blobs(16 if quick else 60)
    made = {}
    for mark, sampled in (("", {}), ("+", {"constraint_batch": SHARE})):
        cut = fw.problems.sparsest_cut(graph, batch=SHARE, **sampled)
        kmeans = fw.problems.kmeans(points, instances.CLUSTERS, batch=SHARE, **sampled)
        made |= {f"cut{mark}": cut, f"k-means{mark}": kmeans}
    made["covariance"] = fw.problems.covariance(20 if quick else 100, batch=50)
    return made


def optimum_of(problem: fw.Problem, steps: int) -> float:
    """Half way between proved bounds, or the value where they are not to be had."""
    found = fw.solve(problem, "cgal", iterations=steps, progress=False)
    certificate = found.certificate
    if certificate is None or certificate.upper is None:
        return found.objective
    return (certificate.lower + certificate.upper) / 2


def measured(
    problem: fw.Problem, name: str, tau_0: float, steps: int, seeds: int
) -> tuple[float, float]:
    """The share of the LMO calls that were skipped, and the merit."""
    method = fw.methods.get(f"t-{name}", tau_0=tau_0, relative=True)
    merits, skipped = [], []
    for seed in range(seeds):
        result = fw.solve(
            problem, method, iterations=steps, seed=seed, certify=False, progress=False
        )
        late = [record.merit for record in result.history if record.iteration > steps / 2]
        merits.append(np.median(late))
        skipped.append(result.counts.lmo_skipped / steps)
    return float(np.mean(skipped)), float(np.median(merits))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.thresholds")
    parser.add_argument("--iterations", type=int, default=4000)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to test the harness")
    given = parser.parse_args(arguments)
    steps = 60 if given.quick else given.iterations
    print(heading(), flush=True)
    head = ("task", "method", *(f"{tau:g}" for tau in THRESHOLDS))
    table: list[tuple[str, ...]] = [head]
    for task, problem in problems(given.quick).items():
        exact = task.removesuffix("+")
        if problem.optimum is None:
            whole = problems(given.quick)[exact]
            problem = fw.Problem(
                problem.objective,
                problem.domain,
                problem.constraints,
                optimum=optimum_of(whole, 10 * steps),
            )
        for name in METHODS:
            if name.endswith("+") != task.endswith("+"):
                continue
            base = measured(problem, name, 0.0, steps, given.seeds)[1]
            found = [measured(problem, name, tau, steps, given.seeds) for tau in THRESHOLDS]
            cells = [f"{100 * skipped:.0f}%, {merit / base:.2f}" for skipped, merit in found]
            table.append((task, name, *cells))
            print("  ".join(table[-1]), flush=True)
    print(aligned(table))


if __name__ == "__main__":
    main()
