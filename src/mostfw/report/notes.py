"""What a reader should know about a figure, in sentences with measured numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..experiments.folders import Run
from .claims import SKIP_POINTS, Case, ratio
from .results import Group, Results, Trimmed, number


def normalisation(case: Case, study: Trimmed) -> str:
    """The factor on objective and gradient at which the paper's tau_0 skips what it says."""
    taus = np.array(list(study.by_threshold))
    skipped = np.array([group.skipped.median for group in study.by_threshold.values()])
    head = f"t-{case.method}: the paper's {case.percent:g}% at tau_0 = {case.tau_0:g}"
    if not skipped.min() <= case.percent <= skipped.max():
        return f"{head} lies outside what this grid of tau_0 skips."
    above = int(np.argmax(skipped >= case.percent))
    high, steps = taus[above], f"{study.plain.spec.iterations:,} steps"
    below = max(above - 1, 0)
    low = taus[below]
    factors = case.tau_0 / high, case.tau_0 / low
    reached = (
        f"{head} is reached here between tau_0 = {number(low)} ({skipped[below]:.0f}%) and "
        f"{number(high)} ({skipped[above]:.0f}%) after {steps}, so its scale needs s_k times "
        f"{number(factors[0])} to {number(factors[1])} (objective times that, mu_c divided by it)."
    )
    # within a factor 2 of the bracket counts as reproduced
    fits = [
        f"{label} ({number(value)})"
        for label, value in _SCALES[case.task](study.plain)
        if factors[0] / 2 <= value <= factors[1] * 2
    ]
    stated = f"That fits {' or '.join(fits)}." if fits else "No stated normalisation fits."
    wide = " The grid is too coarse there to decide." if high > 4 * low and fits else ""
    return f"{reached} {stated}{wide} {_by_halves(study.by_threshold[high])}"


def _by_halves(group: Group) -> str:
    """Whether a percentage depends on the number of steps, from the counters of one run."""
    k, skipped = (group.runs[0].history[name] for name in ("iteration", "counts.lmo_skipped"))
    middle = int(np.searchsorted(k, k[-1] / 2))
    first = 100 * skipped[middle] / k[middle]
    second = 100 * (skipped[-1] - skipped[middle]) / (k[-1] - k[middle])
    apart = abs(second - first) > SKIP_POINTS
    verdict = f"a percentage {'means little' if apart else 'can stand'} without the number of steps"
    return (
        f"At tau_0 = {number(float(group.label))} it skipped {first:.0f}% of the first "
        f"{k[middle]:,.0f} steps and {second:.0f}% of the rest: {verdict}."
    )


def _cut_scales(group: Group) -> list[tuple[str, float]]:
    share = float(group.spec.options["batch"])
    entries = group.runs[0].history["counts.gradients"][0] / share  # d^2, rounded up in the batch
    return [
        ("the objective as it is here, <L, X>", 1.0),
        ("1/d², as the paper writes the objective", 1 / entries),
        # the penalty dominates s_k, so scaling its part scales s_k: weight d and (d^2/2)^2 go
        ("the equality divided by its right-hand side, with weight 1", 4 / entries**2.5),
    ]


def _kmeans_scales(group: Group) -> list[tuple[str, float]]:
    count = int(group.spec.options["count"])
    return [
        ("the objective as it is here, <D, X>", 1.0),
        ("1/|Omega| = 1/N², as the paper writes the objective", 1 / count**2),
        ("1/N, a mean over points", 1 / count),
        (
            "X >= 0 with weight 1, as the penalty dominates",
            1 / float(group.spec.options["sign_weight"]),
        ),
    ]


def _covariance_scales(group: Group) -> list[tuple[str, float]]:
    return [
        ("the gradient as it is here, X - ww'", 1.0),
        ("2(X - ww'), as the paper writes the objective", 2.0),
    ]


_SCALES = {
    "covariance": _covariance_scales,
    "kmeans": _kmeans_scales,
    "sparsest-cut": _cut_scales,
}


def _covariance_note(results: Results, groups: list[Group]) -> str:
    literal = results.select(figure=2, stage="literal")
    if groups[0].spec.options.get("bounds") == "literal":
        return (
            "These are the paper's literal bounds, tr X <= ||W||_1 and ||X||_1 <= tr W: W, from "
            "which the error is measured, is not feasible."
        )
    if not literal:
        return ""
    run = literal[0]
    return (
        "Bounds: the paper swaps them. Here tr X <= tr W and ||X||_1 <= ||W||_1, for which W is "
        "feasible. With the paper's literal ones, ||X||_1 <= tr W, W is far outside: "
        f"{run.spec.method} then ends at a relative error of {number(run.gap()[-1])}, and ||X||_1 "
        f"exceeds the radius by {number(run.violation()[-1])} times the radius. HFW sees one fixed "
        "batch, a new one for each seed."
    )


def _kmeans_note(results: Results, groups: list[Group]) -> str:
    options = groups[0].spec.options
    return (
        f"X >= 0 has weight {options['sign_weight']:g} against X1 = 1 (the baselines' codes have "
        "1000 at N = 1000, and penalise row and column sums both); the LMO is solved to a relative "
        f"residual of {options.get('lmo_tolerance', 1e-6):g}. Gaps below 0 are on the infeasible "
        "side: an objective better than the optimum."
    )


def _cut_note(results: Results, groups: list[Group]) -> str:
    feasibility = ", ".join(f"{g.label} {number(g.last('feasibility'))}" for g in groups)
    return (
        "Published feasibility |equality| + sqrt(2 sum of squared triangle violations) at the "
        f"end: {feasibility}. H-SAG-CGM is newer than the paper."
    )


_CORRECTION = (
    "On the paper's three tasks the noise does not depend on x, so the momentum correction is zero "
    "or free of noise. Here it is neither."
)


# A penalty, and the augmented Lagrangian with the same tracker.
_DUALS = (("hfw", "cgal"), ("most-fw", "most-al"), ("most-fw+", "most-al+"))


def _duals(groups: list[Group]) -> str:
    """How the augmented Lagrangians end beside the penalties with the same tracker and budget."""
    merits = {group.label: group.end(Run.merit).median for group in groups}
    found = [
        f"{dual} has {number(ratio(merits[dual], merits[penalty]))} times {penalty}'s merit"
        for penalty, dual in _DUALS
        if {dual, penalty} <= set(merits)
    ]
    if not found:
        return ""
    return (
        f" Augmented Lagrangians, of which nothing is tuned: {', '.join(found)}, for the same work."
    )


def _completion_note(results: Results, groups: list[Group]) -> str:
    return f"{_CORRECTION}{_duals(groups)}"


def _logistic_note(results: Results, groups: list[Group]) -> str:
    exact = "The loss is not quadratic, so zeroth order is not exact either."
    return f"{_CORRECTION} {exact}{_duals(groups)}"


TASK_NOTES: dict[str, Callable[[Results, list[Group]], str]] = {
    "covariance": _covariance_note,
    "kmeans": _kmeans_note,
    "sparsest-cut": _cut_note,
    "completion": _completion_note,
    "logistic": _logistic_note,
}
