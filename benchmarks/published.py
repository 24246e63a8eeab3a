"""`python -m benchmarks.published`: the methods on the 25-node sparsest cut of the literature.

Needs the graph in the folder that MOSTFW_DATA names. Medians of 5 seeds, 5% batches; the gap is
relative to the known optimum 2500/23, feasibility is |equality| + sqrt(2 sum of squared triangle
violations). Published: H1-SFW (.244, .084) and SHCGM (.511, 4.03, 1,000 iterations), H-SPIDER-FW
(.0174, .295) after 1,000 passes over the constraints.
"""

from __future__ import annotations

import numpy as np

import mostfw as fw
from mostfw.cli.table import aligned

from .rows import heading

ROWS = [
    ("hfw", 1.0, 20_000),
    ("most-fw", 1.5, 20_000),
    ("shcgm", 100.0, 20_000),
    ("most-fw+", 1.0, 20_000),
    ("h1-sfw", 0.01, 20_000),
    ("h-spider-fw", 10.0, None),
    *(("h-sag-cgm", mu_c, 20_000) for mu_c in (0.01, 0.1, 1.0, 10.0, 100.0)),
    *(("h1-sfw", mu_c, 20_000) for mu_c in (0.1, 1.0, 10.0, 100.0)),
]
SEEDS = range(5)


def row(graph: fw.graphs.Graph, name: str, mu_c: float, iterations: int | None) -> tuple[str, ...]:
    method = fw.methods.get(name, mu_c=mu_c)
    sampled = method.constraints == "sampled"
    problem = fw.problems.sparsest_cut(
        graph,
        batch=0.05,
        constraint_batch=0.05 if sampled else None,
        sampling="entries",
        optimum=2500 / 23,
    )
    passes = problem.constraints[1].total

    def enough(record: fw.Record) -> bool:
        return record.counts.constraints >= 1000 * passes

    ends = []
    for seed in SEEDS:
        result = fw.solve(
            problem,
            method,
            iterations=iterations or 10**5,
            seed=seed,
            record=[iterations] if iterations else 16,
            callback=None if iterations else enough,
            progress=False,
        )
        gap, feasibility = result.relative_gap, result.last.metrics["feasibility"]
        ends.append((abs(gap or 0.0), feasibility, result.iterations, result.seconds))
    gap, feasibility, steps, seconds = np.median(ends, axis=0)
    spread = f"{min(e[0] for e in ends):.1e} to {max(e[0] for e in ends):.1e}"
    numbers = (f"{steps:.0f}", f"{gap:.2e}", spread, f"{feasibility:.3f}", f"{seconds:.1f}")
    return (name, f"{mu_c:g}", *numbers)


def main() -> None:
    folder = fw.datasets.data_folder()
    if folder is None:
        raise SystemExit("set MOSTFW_DATA to the folder with mammalia-primate-association-13.edges")
    graph = fw.graphs.as_graph(folder / "mammalia-primate-association-13.edges")
    print(heading())
    head = ("method", "mu_c", "iterations", "gap", "gap over seeds", "feasibility", "seconds")
    print(aligned([head, *(row(graph, *case) for case in ROWS)]))


if __name__ == "__main__":
    main()
