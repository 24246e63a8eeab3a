"""What a reader should know about a figure, in sentences with measured numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .claims import Case
from .results import Group, Results, Trimmed, number


def normalisation(case: Case, study: Trimmed) -> str:
    """The factor on objective and gradient at which the paper's tau_0 skips what it says."""
    taus = np.array(list(study.by_threshold))
    skipped = np.array([group.skipped.median for group in study.by_threshold.values()])
    head = f"t-{case.method}: the paper's {case.percent:g}% at tau_0 = {case.tau_0:g}"
    if not skipped.min() <= case.percent <= skipped.max():
        return f"{head} lies outside what this grid of tau_0 skips."
    rising = np.maximum.accumulate(skipped)
    # the last point below and the first one not below; between them log tau_0 is interpolated
    above = int(np.argmax(rising >= case.percent))
    below = max(0, above - 1)
    span = rising[above] - rising[below]
    part = (case.percent - rising[below]) / span if span > 0 else 0.0
    ours = float(np.exp((1 - part) * np.log(taus[below]) + part * np.log(taus[above])))
    factor = case.tau_0 / ours
    named = {label: value for label, value in _SCALES[case.task](study.plain)}
    near = min(named, key=lambda label: abs(np.log(named[label] / factor)))
    off = float(np.exp(abs(np.log(named[near] / factor))))
    verdict = (
        "which reproduces its scale" if off <= 2 else f"off by a factor {number(off)}: none does"
    )
    return (
        f"{head} is reached here at tau_0 = {number(ours)} after {study.plain.spec.iterations:,} "
        f"steps, so the paper's scale needs objective and gradient times {number(factor)} (mu_c "
        f"divided by the same). The nearest stated normalisation is {near} "
        f"({number(named[near])}), {verdict}."
    )


def _cut_scales(group: Group) -> list[tuple[str, float]]:
    nodes = {"karate-club": 34}.get(str(group.spec.options["graph"]), 25)
    return [
        ("the objective as it is here, <L, X>", 1.0),
        ("1/d², as the paper writes the objective", 1 / nodes**2),
        ("the equality divided by its right-hand side d²/2, squared", 4 / nodes**4),
    ]


def _kmeans_scales(group: Group) -> list[tuple[str, float]]:
    count = int(group.spec.options["count"])
    return [
        ("the objective as it is here, <D, X>", 1.0),
        ("1/|Omega| = 1/N², as the paper writes the objective", 1 / count**2),
        ("1/N, a mean over points", 1 / count),
        (
            "sign constraints of weight 1 instead of the hidden weight",
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
    if not literal:
        return ""
    run = literal[0]
    return (
        "Bounds: the paper swaps them. Here tr X <= tr W and ||X||_1 <= ||W||_1, for which W is "
        "feasible. With the paper's literal ones, ||X||_1 <= tr W, W is far outside: "
        f"{run.spec.method} then ends at a relative error of {number(run.gap()[-1])}, with "
        f"||X||_1 {number(run.violation()[-1])} of the radius above it. HFW sees one fixed batch, "
        "a new one for each seed."
    )


def _kmeans_note(results: Results, groups: list[Group]) -> str:
    return (
        "X >= 0 has the hidden weight of the baselines' codes against X1 = 1, and the LMO is "
        f"solved to a relative residual of {groups[0].spec.options.get('lmo_tolerance', 1e-6):g}."
    )


def _cut_note(results: Results, groups: list[Group]) -> str:
    feasibility = ", ".join(f"{g.label} {number(g.last('feasibility'))}" for g in groups)
    return (
        "Published feasibility |equality| + sqrt(2 sum of squared triangle violations) at the "
        f"end: {feasibility}. H-SAG-CGM is newer than the paper."
    )


def _ours_note(results: Results, groups: list[Group]) -> str:
    return (
        "The paper's three objectives are linear or have noise that does not depend on x, so they "
        "never exercise the momentum correction, and zeroth order is exact there. Here it does "
        "and is not."
    )


TASK_NOTES: dict[str, Callable[[Results, list[Group]], str]] = {
    "covariance": _covariance_note,
    "kmeans": _kmeans_note,
    "sparsest-cut": _cut_note,
    "completion": _ours_note,
    "logistic": _ours_note,
}
