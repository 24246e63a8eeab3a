"""`python -m benchmarks`: ours against a peer, alternating in one run, after warm-up."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import mostfw as fw
from mostfw.experiments.folders import environment
from mostfw.problems.covariance import block_factor
from mostfw.problems.kmeans import squared_distances

from .numpy_loops import CovarianceLoop, KMeansLoop, KMeansPlusLoop, SparsestCutLoop


def machine() -> str:
    """Where and when, for the head of the table."""
    found = environment()
    versions = f"jax {found['jax']}, numpy {found['numpy']}"
    return f"{found['processor']}, {found['cores']} cores, {versions}, {found['date']}"


@dataclass(frozen=True)
class Row:
    """One comparison: a step of ours against a step of the peer's loop."""

    name: str
    problem: fw.Problem
    method: fw.Method
    peer: str
    loop: Callable[[int], Any]  # from a seed
    steps: int  # of ours; the peer makes a tenth
    wanted: float | None = None  # how many times faster

    def measured(self, rounds: int) -> dict[str, Any]:
        """Seconds a step, the best of rounds in which the two alternate."""
        fw.solve(self.problem, self.method, iterations=20, progress=False)  # compiles
        ours, peer = [], []
        for seed in range(rounds):
            loop = self.loop(seed)
            few = max(5, self.steps // 10)
            for _ in range(few // 5):
                loop.step()
            began = time.perf_counter()
            for _ in range(few):
                loop.step()
            peer.append((time.perf_counter() - began) / few)
            result = fw.solve(
                self.problem,
                self.method,
                iterations=self.steps,
                seed=seed,
                record=[self.steps],
                progress=False,
            )
            ours.append(result.seconds / self.steps)
        return {
            "row": self.name,
            "peer": self.peer,
            "ours_us": 1e6 * min(ours),
            "peer_us": 1e6 * min(peer),
            "ratio": min(peer) / min(ours),
            "wanted": self.wanted,
        }


def rows(steps: int) -> Iterator[Row]:
    """The comparisons, small problems first."""
    graphs = [(fw.datasets.karate_club(), None), (random_graph(102), 6.0)]
    if fw.datasets.state("mammalia-primate-association-13").status == "present":
        graphs.insert(0, (fw.datasets.primate_graph(), 4.0))
    for graph, wanted in graphs:
        yield cut_row(graph, steps if graph.nodes < 64 else steps // 50, wanted)
    yield covariance_row(1000, steps // 100, 6.0)
    points = fw.datasets.digits_features(1000).points
    yield kmeans_row(points, steps // 50, plus=False, wanted=7.0)
    yield kmeans_row(points, steps // 50, plus=True, wanted=6.0)


def random_graph(nodes: int) -> fw.graphs.Graph:
    """A ring with random chords, about six neighbours a node."""
    rng = np.random.default_rng(0)
    ring = [(i, (i + 1) % nodes) for i in range(nodes)]
    chords = [tuple(rng.choice(nodes, 2, replace=False)) for _ in range(2 * nodes)]
    return fw.graphs.as_graph([*ring, *chords], f"random-{nodes}")


def cut_row(graph: fw.graphs.Graph, steps: int, wanted: float | None) -> Row:
    problem = fw.problems.sparsest_cut(graph, batch=0.05)
    return Row(
        f"sparsest cut, {graph.nodes} nodes, most-fw",
        problem,
        fw.methods.most_fw(mu_c=1.5),
        "NumPy, eigh",
        lambda seed: SparsestCutLoop(graph.laplacian(), problem.objective.batch, 1.5, seed),
        steps,
        wanted,
    )


def covariance_row(n: int, steps: int, wanted: float | None) -> Row:
    factor = block_factor(n)
    truth = factor @ factor.T
    trace, radius = float(np.trace(truth)), float(np.abs(truth).sum())
    return Row(
        f"covariance, n = {n}, batch 200, most-fw",
        fw.problems.covariance(factor=factor, batch=200),
        fw.methods.most_fw(mu_c=1.0),
        "NumPy, eigsh, sort",
        lambda seed: CovarianceLoop(factor, 200, trace, radius, 1.0, seed),
        steps,
        wanted,
    )


def kmeans_row(points: np.ndarray, steps: int, plus: bool, wanted: float | None) -> Row:
    n, distances = len(points), squared_distances(points)
    loop = KMeansPlusLoop if plus else KMeansLoop
    problem = fw.problems.kmeans(
        points, 10, batch=0.01, constraint_batch=0.01 if plus else None, sign_weight=float(n)
    )
    mu_c = 5.0 if plus else 1.0
    return Row(
        f"k-means, N = {n}, 1%, {'most-fw+' if plus else 'most-fw'}",
        problem,
        fw.methods.most_fw_plus(mu_c) if plus else fw.methods.most_fw(mu_c),
        "NumPy, eigsh",
        lambda seed: loop(distances, 10, 0.01, float(n), mu_c, seed),
        steps,
        wanted,
    )


def memory_limit(n: int, rounds: int = 30) -> float:
    """Seconds to move 12 n^2 numbers at the speed at which arrays of that size are copied: 8
    products, X read and written, y read, the direction written."""
    source, target = np.random.default_rng(0).random((2, n, n))
    spent = []
    for _ in range(rounds):
        began = time.perf_counter()
        np.copyto(target, source)
        spent.append(time.perf_counter() - began)
    return 12 / 2 * min(spent)  # a copy moves each number twice


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("--steps", type=int, default=20_000, help="of the smallest problem")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    print(machine())
    found = []
    for row in rows(options.steps):
        found.append(row.measured(options.rounds))
        print(line(found[-1]), flush=True)
        if row.name.startswith("k-means"):
            limit = memory_limit(row.problem.structure.shape[0])
            times = found[-1]["ours_us"] / (1e6 * limit)
            words = f"{times:.1f} times the time to move 12 n² numbers ({1e6 * limit:.0f} us)"
            print(f"{'':<42} {words}", flush=True)
            found[-1]["limit_us"] = 1e6 * limit
    if options.json:
        Path(options.json).write_text(json.dumps({"machine": machine(), "rows": found}, indent=1))


def line(row: dict[str, Any]) -> str:
    goal = "" if row["wanted"] is None else f" (wanted {row['wanted']:g})"
    ours, peer = f"ours {row['ours_us']:8.1f} us", f"{row['peer']} {row['peer_us']:9.1f} us"
    return f"{row['row']:<42} {ours}   {peer}   {row['ratio']:.1f} times faster{goal}"


if __name__ == "__main__":
    main()
