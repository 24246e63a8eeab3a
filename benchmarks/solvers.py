"""Ours against conic solvers: seconds to the same gap and violation, both by our own evaluation.

A solver runs as it is used (SCS at 1e-3, Clarabel as it comes). Where its point is better than a
loose target (gap 5%, violation 1e-2), the target is that one, and the solver's time is that of its
loosest accuracy that meets it. Where it ended with a worse point, that point is the target.
"""

from __future__ import annotations

import dataclasses

import numpy as np

import mostfw as fw
from mostfw.certificates import values_at
from mostfw.experiments import reference
from mostfw.measures import recorded

from . import instances
from .posed import Attempt, Instance, attempt, attempt_apart
from .rows import Case, Row, Settings

VIOLATION = 1e-2  # of the loose target; its gap is the instance's
USUAL: dict[str, float | None] = {"SCS": 1e-3, "Clarabel": None}
LOOSER = (1e-1, 3e-2, 1e-2)  # tried from the loosest on
MU_C = {"k-means": 1.0, "sparsest cut": 1.5, "covariance": 1.0}
LARGE = 80  # from here on a solver gets a process of its own


def cases(settings: Settings) -> list[Case]:
    sizes = {"k-means": (100, 200), "sparsest cut": (34,), "covariance": (60,)}
    if settings.quick:
        sizes = {"k-means": (16,), "sparsest cut": (8,)}
    found = [Instance(kind, size) for kind, several in sizes.items() for size in several]
    return [Case(f"solvers, {one}", lambda s, one=one: rows(s, one)) for one in found]


@dataclasses.dataclass(frozen=True)
class Judged:
    """A solver's attempt and what our own evaluation says of its X."""

    attempt: Attempt
    record: fw.Record | None
    outside: float  # by how much X leaves the domain

    def __str__(self) -> str:
        spent = f"{self.attempt.seconds:.2f} s (posing {self.attempt.posing_seconds:.2f} s)"
        if self.record is None:
            return f"{self.attempt}: {self.attempt.status}, no point, {spent}"
        found = f"{accuracy(self.record)}, outside the domain by {self.outside:.1e}"
        return f"{self.attempt}: {self.attempt.status}, {found}, {spent}"


def accuracy(record: fw.Record) -> str:
    return f"gap {abs(record.relative_gap or 0.0):.1e}, violation {worst(record):.1e}"


def worst(record: fw.Record) -> float:
    return max(record.relative_violation.values(), default=0.0)


def judged(problem: fw.Problem, found: Attempt) -> Judged:
    if found.x is None:
        return Judged(found, None, 0.0)
    with problem.precision():
        x = np.asarray((found.x + found.x.T) / 2, problem.dtype)
        seen = (*values_at(problem.on_device(), x), {})
        scales = {c.name: c.rhs_norm() for c in problem.constraints}
        record = recorded(problem, scales, seen, 0, found.seconds, fw.Counts())
        return Judged(found, record, float(problem.domain.excess(x)))


def optimum_of(instance: Instance, clarabel: Attempt) -> tuple[float, str]:
    """The optimum and where it is from: known, Clarabel's at its own 1e-8, or splitting's."""
    known = instance.known_optimum()
    if known is not None:
        return known, "known in closed form"
    if clarabel.finished and clarabel.x is not None:
        problem = instance.problem(None)
        with problem.precision():
            return float(values_at(problem.on_device(), clarabel.x)[0]), "Clarabel's (1e-8)"
    found = reference.kmeans(instance.points(), instances.CLUSTERS, iterations=3000, tolerance=1e-5)
    return found.value, f"splitting's, proven to {found.proven:.0e}"


def ours(
    problem: fw.Problem, method: fw.Method, stop: fw.Tolerance, seconds: float
) -> tuple[fw.Result, float]:
    """One run up to the tightest of the targets, and what compiling took before it.

    Records are dense, so that the times at which targets are reached are sharp.
    """
    compiled = fw.solve(problem, method, iterations=3, progress=False).compile_seconds
    last = 10**7
    points = np.unique(np.geomspace(1, last, 500).astype(int)).tolist()
    result = fw.solve(
        problem, method, iterations=last, seconds=seconds, stop=stop, record=points, progress=False
    )
    return result, compiled


def rows(settings: Settings, instance: Instance) -> list[Row]:
    limit = min(settings.seconds, 1.0) if settings.quick else settings.seconds
    solve = attempt if instance.size < LARGE else attempt_apart
    usual = {solver: solve(instance, solver, eps, limit) for solver, eps in USUAL.items()}
    optimum, source = optimum_of(instance, usual["Clarabel"])
    problem = instance.problem(optimum)
    loose = fw.Tolerance(gap=instance.loose_gap(), violation=VIOLATION)
    targets: dict[str, tuple[fw.Tolerance, Judged, bool]] = {}
    tried: dict[str, list[Judged]] = {}
    for solver, found in usual.items():
        first = judged(problem, found)
        tried[solver] = [first]
        targets[solver] = target_of(first, loose)
        if first.record is None or not loose.reached(first.record):
            continue
        for eps in LOOSER:
            tried[solver].append(judged(problem, solve(instance, solver, eps, limit)))
            record = tried[solver][-1].record
            if record is not None and loose.reached(record):
                targets[solver] = (loose, tried[solver][-1], True)
                break
    tightest = fw.Tolerance(
        gap=min(target.gap for target, _, _ in targets.values()),
        violation=min(target.violation for target, _, _ in targets.values()),
    )
    made = []
    penalty = {"mu_c": MU_C[instance.kind]}
    given = {"most-fw": penalty, "hfw": penalty, "cgal": {}}  # the last as it comes
    for name in ("most-fw",) if settings.quick else given:
        method = fw.methods.get(name, **given[name])
        result, compiled = ours(problem, method, tightest, limit)
        for solver, (target, peer, reached) in targets.items():
            notes = [f"optimum {optimum:.6g}, {source}"] if not made else []
            notes += [str(one) for one in tried[solver]] if name == "most-fw" else []
            notes.append(f"ours compiled in {compiled:.2f} s, apart")
            title = f"solvers, {instance}: {name}"
            made.append(row(title, solver, target, peer, reached, result, notes, limit))
    return made


def target_of(first: Judged, loose: fw.Tolerance) -> tuple[fw.Tolerance, Judged, bool]:
    """What both must reach, and whether the solver did: see the head of this file."""
    if first.record is None:
        return loose, first, False
    if loose.reached(first.record):
        return loose, first, True
    if not first.attempt.finished:  # cut short: its point is no aim
        return loose, first, False
    gap = abs(first.record.relative_gap or 0.0)
    return fw.Tolerance(gap=gap, violation=worst(first.record)), first, True


def row(
    name: str,
    solver: str,
    target: fw.Tolerance,
    peer: Judged,
    reached: bool,
    result: fw.Result,
    notes: list[str],
    limit: float,
) -> Row:
    hit = next((record for record in result.history if target.reached(record)), None)
    mine = None if hit is None else hit.seconds
    theirs = peer.attempt.seconds if reached else None
    aim = f"to gap {target.gap:.1e} and violation {target.violation:.1e}"
    if mine is None:
        nearest = min(result.history, key=lambda r: distance(r, target))
        notes.append(f"ours not reached in {result.seconds:.0f} s: {accuracy(nearest)} at best")
    if theirs is None:
        notes.append(f"{solver} not reached in {limit:.0f} s: {peer}")
    notes.append(f"{aim}: {winner(mine, theirs, str(peer.attempt))}")
    ratio = None if mine is None or theirs is None else theirs / mine
    details = {
        "gap": target.gap,
        "violation": target.violation,
        "solver": str(peer.attempt),
        "status": peer.attempt.status,
        "solver_outside_domain": peer.outside,
        "posing_seconds": peer.attempt.posing_seconds,
        "iterations": result.iterations,
        "winner": winner(mine, theirs, solver),
    }
    return Row(name, mine, "s", solver, theirs, ratio, notes=tuple(notes), details=details)


def distance(record: fw.Record, target: fw.Tolerance) -> float:
    """How many times the worse of gap and violation is too large."""
    gap = abs(record.relative_gap or 0.0) / max(target.gap, 1e-300)
    return max(gap, worst(record) / max(target.violation, 1e-300))


def winner(mine: float | None, theirs: float | None, peer: str) -> str:
    """Who was there first, in words.

    >>> winner(2.0, 1.0, "SCS"), winner(None, None, "SCS")
    ('SCS wins, 2.0 times faster', 'neither got there')
    """
    if mine is None and theirs is None:
        return "neither got there"
    if theirs is None:
        return f"ours wins, {peer} did not get there"
    if mine is None:
        return f"{peer} wins, ours did not get there"
    faster = max(mine, theirs) / max(min(mine, theirs), 1e-9)
    return f"{'ours' if mine < theirs else peer} wins, {faster:.1f} times faster"
