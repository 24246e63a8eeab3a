"""`python -m benchmarks`: ours against a peer, alternating in one run, after warm-up."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import time
from pathlib import Path

import jax
import numpy as np

import mostfw as fw

from .numpy_loops import SparsestCutLoop


def machine() -> str:
    """Where and when, for the head of the table."""
    model = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines() if os.name == "posix" else []:
        if line.startswith("model name"):
            model = line.split(":")[1].strip()
            break
    day = datetime.date.today().isoformat()
    return f"{model}, {os.cpu_count()} cores, jax {jax.__version__}, numpy {np.__version__}, {day}"


def sparsest_cut_step(
    graph: fw.graphs.Graph, iterations: int, rounds: int, wanted: float | None
) -> dict:
    """Seconds a step of most-fw, ours and NumPy's, the best of alternating rounds."""
    problem = fw.problems.sparsest_cut(graph, batch=0.05)
    method = fw.methods.most_fw(mu_c=1.5)
    fw.solve(problem, method, iterations=100, progress=False)  # compiles
    ours, peer = [], []
    for seed in range(rounds):
        loop = SparsestCutLoop(graph.laplacian(), problem.objective.batch, 1.5, seed)
        for _ in range(100):
            loop.step()
        steps = iterations // 10
        began = time.perf_counter()
        for _ in range(steps):
            loop.step()
        peer.append((time.perf_counter() - began) / steps)
        result = fw.solve(
            problem, method, iterations=iterations, seed=seed, record=[iterations], progress=False
        )
        ours.append(result.seconds / iterations)
    return {
        "row": f"sparsest cut, {graph.nodes} nodes, most-fw, a step",
        "peer": "NumPy loop with eigh",
        "ours_us": 1e6 * min(ours),
        "peer_us": 1e6 * min(peer),
        "ratio": min(peer) / min(ours),
        "wanted": wanted,
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("--iterations", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    print(machine())
    graphs = [(fw.datasets.karate_club(), None)]
    folder = fw.datasets.data_folder()
    if folder is not None:
        published = fw.graphs.as_graph(folder / "mammalia-primate-association-13.edges")
        graphs.insert(0, (published, 3.0))
    rows = [
        sparsest_cut_step(graph, options.iterations, options.rounds, wanted)
        for graph, wanted in graphs
    ]
    for row in rows:
        goal = "" if row["wanted"] is None else f" (wanted {row['wanted']:g})"
        print(
            f"{row['row']:<45} ours {row['ours_us']:7.1f} us   {row['peer']} "
            f"{row['peer_us']:7.1f} us   {row['ratio']:.1f} times faster{goal}"
        )
    if options.json:
        Path(options.json).write_text(json.dumps({"machine": machine(), "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
