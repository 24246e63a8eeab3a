"""A step of ours against a step of a plain NumPy loop, and against the speed of the memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import mostfw as fw
from mostfw.problems.covariance import block_factor
from mostfw.problems.kmeans import squared_distances

from . import instances, timing
from .numpy_loops import CovarianceLoop, KMeansLoop, KMeansPlusLoop, SparsestCutLoop
from .rows import Case, Goal, Row, Settings


def cases(settings: Settings) -> list[Case]:
    quick = settings.quick
    n, tiny = (16, 8) if quick else (1000, None)
    graphs = {
        f"sparsest cut, {tiny or 25} nodes": lambda: (
            instances.random_graph(tiny) if tiny else instances.small_graph()
        ),
        f"sparsest cut, random graph, {tiny or 102} nodes": lambda: instances.random_graph(
            tiny or 102
        ),
        f"sparsest cut, karate club, {tiny or 34} nodes": lambda: (
            instances.random_graph(tiny) if tiny else fw.datasets.karate_club()
        ),
    }
    goals = (Goal(least=4), Goal(least=6), None)
    return [
        Case(f"covariance, n = {n}, batch 200", lambda s: [covariance_row(s, n)]),
        Case(f"k-means, N = {n}, 1%", lambda s: [kmeans_row(s, n, plus=False)]),
        Case(f"k-means, N = {n}, 1% and 1%", lambda s: [kmeans_row(s, n, plus=True)]),
        *(
            Case(name, lambda s, name=name, graph=graph, goal=goal: [cut_row(s, name, graph, goal)])
            for (name, graph), goal in zip(graphs.items(), goals, strict=True)
        ),
        Case(f"memory limit, k-means, N = {n}", lambda s: [limit_row(s, n)]),
    ]


def compared(
    settings: Settings,
    name: str,
    problem: fw.Problem,
    method: fw.Method,
    peer: str,
    loop: Callable[[int], Any],
    steps: int,
    goal: Goal | None,
    notes: tuple[str, ...] = (),
    side: int | None = None,
) -> Row:
    """Ours makes `steps` steps a round, the slower peer a tenth of them. A matrix row names its
    `side`: the limit, 12 n² numbers moved, is timed between them."""
    few = max(5, steps // 10)
    measured = [timing.our_step(problem, method, steps), timing.loop_step(loop, few)]
    if side is not None:
        measured.append(lambda _: timing.memory_limit(side))
    ours, theirs, *limit = timing.alternating(settings.rounds, *measured)
    details = {"method": method.name, "steps": steps, "peer_steps": few}
    return Row(
        name,
        ours,
        "s",
        peer,
        theirs,
        theirs / ours,
        goal=goal,
        limit=limit[0] if limit else None,
        notes=notes,
        details=details,
    )


def cut_row(
    settings: Settings, name: str, make: Callable[[], fw.graphs.Graph], goal: Goal | None
) -> Row:
    graph = make()
    problem = fw.problems.sparsest_cut(graph, batch=0.05, sampling="entries")
    steps = settings.steps if graph.nodes < 64 else settings.steps // 50
    return compared(
        settings,
        name,
        problem,
        fw.methods.most_fw(mu_c=1.5),
        "NumPy, eigh",
        lambda seed: SparsestCutLoop(graph.laplacian(), problem.objective.batch, 1.5, seed),  # pyright: ignore[reportAttributeAccessIssue]
        max(10, steps),
        goal,
        (f"graph {graph.name}",),
    )


def covariance_row(settings: Settings, n: int) -> Row:
    factor = block_factor(n)
    truth = factor @ factor.T
    trace, radius = float(np.trace(truth)), float(np.abs(truth).sum())
    return compared(
        settings,
        f"covariance, n = {n}, batch 200",
        fw.problems.covariance(factor=factor, batch=200),
        fw.methods.most_fw(mu_c=1.0),
        "NumPy, eigsh, sort",
        lambda seed: CovarianceLoop(factor, 200, trace, radius, 1.0, seed),
        max(10, settings.steps // 100),
        Goal(least=6),
        side=n,
    )


def kmeans_row(settings: Settings, n: int, plus: bool) -> Row:
    points = instances.features(n)
    distances = squared_distances(points)
    loop = KMeansPlusLoop if plus else KMeansLoop
    mu_c = 5.0 if plus else 1.0
    return compared(
        settings,
        f"k-means, N = {n}, 1%{' and 1%' if plus else ''}",
        instances.kmeans(points, plus),
        instances.kmeans_method(plus),
        "NumPy, eigsh",
        lambda seed: loop(distances, instances.CLUSTERS, instances.SHARE, float(n), mu_c, seed),
        max(10, settings.steps // 50),
        Goal(least=6 if plus else 7),
        side=n,
    )


def limit_row(settings: Settings, n: int) -> Row:
    """The copies are timed between our rounds, so that both meet the same state of the machine."""
    problem, method = instances.kmeans(instances.features(n)), instances.kmeans_method()
    steps = max(10, settings.steps // 50)
    copies: dict[str, float] = {}

    def limit(_: int) -> float:
        for name, seconds in timing.copy_seconds(n).items():
            copies[name] = min(seconds, copies.get(name, seconds))
        return timing.limit_of(copies)

    ours, bound = timing.alternating(
        settings.rounds, timing.our_step(problem, method, steps), limit
    )
    speeds = {name: 2 * 8 * n * n / seconds / 1e9 for name, seconds in copies.items()}
    words = ", ".join(f"{name} {speed:.1f} GB/s" for name, speed in speeds.items())
    matvecs = timing.run(problem, method, steps).counts.matvecs / steps
    return Row(
        f"memory limit, k-means, N = {n}",
        ours,
        "s",
        "12 n² numbers moved",
        bound,
        ours / bound,
        "times the limit",
        Goal(most=2.5),
        (f"copies of {8e-6 * n * n:.3g} MB: {words}; {matvecs:.1f} products a step",),
        {"gigabytes_a_second": speeds, "matvecs_a_step": matvecs, "steps": steps},
    )
