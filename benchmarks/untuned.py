"""Without tuning against a conic solver: seconds to 0.2% of the optimum on the k-means SDP.

Ours runs with the parameters that no one chose until gap and violation are reached; SCS, through
CVXPY, until its own accuracy of 1e-3, but not for longer than ten times ours.
"""

from __future__ import annotations

import time

import mostfw as fw

from . import instances
from .posed import Instance, attempt_apart
from .rows import Case, Goal, Row, Settings
from .solvers import Judged, accuracy, judged, optimum_of

TARGET = fw.Tolerance(gap=2e-3, violation=1e-3)
PATIENCE = 10.0  # times ours
WANTED = Goal(least=8.0)
DIGITS = fw.datasets.get("mnist-softmax-1000").optimum  # optimal <D, X>


def cases(settings: Settings) -> list[Case]:
    size = 16 if settings.quick else 1000
    return [Case(f"untuned, k-means, N = {size}", lambda s: rows(s, size))]


def rows(settings: Settings, size: int) -> list[Row]:
    instance = Instance("k-means", size)
    known = DIGITS if size == 1000 and instances.has_digits(size) else None
    optimum = known or optimum_of(instance, attempt_apart(instance, "Clarabel", None, 60.0))[0]
    found = {name: ours(settings, instance, optimum, name) for name in ("cgal", "most-al")}
    reached = [seconds for seconds, result in found.values() if TARGET.reached(result.last)]
    limit = min(PATIENCE * min(reached, default=settings.seconds), 30 * settings.seconds)
    peer = judged(instance.problem(optimum), attempt_apart(instance, "SCS", 1e-3, limit))
    return [row(instance, name, *one, peer, limit) for name, one in found.items()]


def ours(
    settings: Settings, instance: Instance, optimum: float, method: str
) -> tuple[float, fw.Result]:
    """One run to the target, by the clock on the wall, evaluations included; compiled before."""
    batch = None if method == "cgal" else instances.SHARE
    problem = fw.problems.kmeans(
        instance.points(), instances.CLUSTERS, batch=batch, optimum=optimum
    )
    how = {"certify": False, "progress": False}
    fw.solve(problem, method, iterations=3, **how)
    began = time.perf_counter()
    result = fw.solve(
        problem,
        method,
        iterations=2_000 if settings.quick else 200_000,
        seconds=10 * settings.seconds,
        stop=TARGET,
        record=500,
        **how,
    )
    return time.perf_counter() - began, result


def row(
    instance: Instance, name: str, seconds: float, result: fw.Result, peer: Judged, limit: float
) -> Row:
    mine = seconds if TARGET.reached(result.last) else None
    theirs = peer.attempt.seconds if peer.attempt.finished else None
    notes = [f"ours: {result.iterations} steps, {accuracy(result.last)}", str(peer)]
    if theirs is None:
        notes.append(f"SCS was not done after {limit:.0f} s: the ratio is at least that")
    ratio = None if mine is None else (limit if theirs is None else theirs) / mine
    return Row(
        f"untuned, {instance}: {name} to 0.2% and 1e-3",
        mine,
        "s",
        "SCS at 1e-3",
        theirs,
        ratio,
        goal=WANTED,
        notes=tuple(notes),
        details={"iterations": result.iterations, "solver_status": peer.attempt.status},
    )
