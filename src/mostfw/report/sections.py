"""One section a figure: panels, tables and notes, from complete runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from .. import theory
from ..experiments.folders import Run
from ..experiments.tasks import method_of
from ..trackers import Exact
from .claims import TRIMMING, Case, slopes
from .model import Curve, Guide, Panel, Section
from .notes import TASK_NOTES, normalisation
from .results import Group, Results, Trimmed, number
from .tables import (
    cost_table,
    final_table,
    reference_table,
    size_words,
    slope_table,
    time_table,
    trimming_table,
    tuning_table,
)

HALF = Guide("k^{-1/2}", -0.5)
QUARTER = Guide("k^{-1/4}", -0.25)
Measure = Callable[[Run], np.ndarray]


def sections(results: Results) -> tuple[Section, ...]:
    """Those figures that have runs.

    >>> from mostfw.report.results import Results
    >>> from mostfw.report.sections import sections
    >>> sections(Results([]))
    ()
    """
    found = [
        _rates(results),
        _comparison(results, 2, "covariance", "Figure 2: sparse covariance"),
        _comparison(results, 3, "kmeans", "Figure 3: k-means as a semidefinite program"),
        _comparison(results, 4, "sparsest-cut", "Figure 4: uniform sparsest cut"),
        _comparison(results, 5, "completion", "Figure 5a, ours: matrix completion"),
        _comparison(results, 5, "logistic", "Figure 5b, ours: logistic loss and a black box"),
    ]
    return tuple(section for section in found if section is not None)


# --- Figure 1 -------------------------------------------------------------------------------------


def _rates(results: Results) -> Section | None:
    groups = results.groups(results.select(figure=1, stage="rate"))
    if not groups:
        return None
    constrained = {
        n: g for n, g in groups.items() if g.spec.violation and "b" not in g.spec.parameters
    }
    steps = int(next(iter(groups.values())).iterations[-1])
    return Section(
        name="figure-1",
        title="Figure 1: rates",
        summary=(
            "Exponents of Table 1, proved and measured, on a problem whose noise depends on x and "
            f"whose optimum is known ({steps:,} steps). A proved rate is a bound: to be steeper "
            "is no contradiction. The gap is bounded from above only; where it ends below 0, "
            "|gap| falls as the violation does."
        ),
        panels=(
            _exponents(constrained),
            _remark_3(groups),
            _curves(
                "rates-gap",
                "Gap on the known problem",
                "relative gap",
                constrained.values(),
                Run.gap,
                (HALF, QUARTER),
            ),
            _curves(
                "rates-violation",
                "Violation on the known problem",
                "violation",
                constrained.values(),
                Run.violation,
                (HALF, QUARTER),
            ),
        ),
        tables=(slope_table(groups),),
    )


def _exponents(groups: dict[str, Group]) -> Panel:
    curves = []
    for name, group in groups.items():
        rate = theory.rate(group.method)
        proved = -float(rate.gap_exponent or 0), -float(rate.violation_exponent or 0)
        found = -slopes(group, Run.gap), -slopes(group, Run.violation)
        x, y = (np.array(pair) for pair in zip(proved, found, strict=True))
        ends = x[1:], y[1:]
        curves.append(Curve(f"{name}, measured", group.method, *ends, line="none", marker="o"))
        curves.append(Curve(f"{name}, from proved", group.method, x, y, line="dotted"))
    return Panel(
        name="rates-exponents",
        title="Exponents, from proved to measured",
        x_label="exponent of the gap",
        y_label="exponent of the violation",
        curves=tuple(curves),
        x_log=False,
        y_log=False,
        description="Each dotted line leads from the proved to the measured pair of exponents.",
        caption="Twins in zeroth order share their parent's hue.",
    )


def _remark_3(groups: dict[str, Group]) -> Panel:
    b = np.linspace(1 / 6, 1 / 4, 20)
    proved = np.array([[-float(e) for e in theory.remark_3(value)] for value in b])
    runs = [
        (g.spec.parameters.get("b", 0.25), g) for g in groups.values() if g.method == "most-fw+"
    ]
    runs.sort(key=lambda pair: pair[0])
    at = np.array([pair[0] for pair in runs], dtype=float)
    gap = np.array([-slopes(group, Run.gap) for _, group in runs])
    violation = np.array([-slopes(group, Run.violation) for _, group in runs])
    return Panel(
        name="rates-remark-3",
        title="Remark 3: MOST-FW+ with μ = μ_c/(k+1)^b",
        x_label="b",
        y_label="exponent",
        curves=(
            Curve("gap, proved: 1/2 - b", "most-fw+", b, proved[:, 0]),
            Curve("violation, proved: b", "most-fw", b, proved[:, 1], line="dashed"),
            Curve("gap, measured", "most-fw+", at, gap, line="none", marker="o"),
            Curve("violation, measured", "most-fw", at, violation, line="none", marker="s"),
        ),
        x_log=False,
        y_log=False,
        description="A larger b trades the rate of the gap for that of the violation.",
    )


# --- Figures 2 to 5 -------------------------------------------------------------------------------


def _comparison(results: Results, figure: int, task: str, title: str) -> Section | None:
    finals = results.finals(figure, task)
    if not finals:
        return None
    groups = list(finals.values())
    spec = groups[0].spec
    name = f"figure-{figure}" + (f"-{task}" if figure == 5 else "")
    panels = [
        _curves(f"{name}-gap", "Gap", _GAPS.get(spec.gap, spec.gap), groups, Run.gap, (HALF,)),
        _curves(
            f"{name}-violation",
            "Violation",
            _violation_label(spec.violation),
            groups,
            Run.violation,
            (HALF,),
        ),
        _fronts(results, figure, task, name),
    ]
    tables = [final_table(groups), tuning_table(results, figure, task), cost_table(groups)]
    notes = [TASK_NOTES[task](results, groups)] if task in TASK_NOTES else []
    for case in TRIMMING:
        study = results.trimmed(case.figure, case.task, case.method)
        if case.figure == figure and case.task == task and study is not None:
            panels += _trimming_panels(case, study, name)
            tables.append(trimming_table(case, study))
            notes.append(normalisation(case, study))
    split = time_table(groups)
    reference = reference_table(results, figure, task)
    tables += [table for table in (split, reference) if table is not None]
    return Section(
        name=name,
        title=f"{title}{_data_in_title(groups[0])}",
        summary=_summary(groups),
        panels=tuple(panels),
        tables=tuple(tables),
        notes=tuple(note for note in notes if note),
    )


_GAPS = {
    "relative_gap": "|f(x) - f*| / |f*|",
    "relative_error": "||X - W||² / ||W||²",
}


def _violation_label(columns: Iterable[str]) -> str:
    short = [name.rpartition(".")[2].replace("_", " ") for name in columns]
    return "violation: " + " + ".join(short)


def _data_in_title(group: Group) -> str:
    options = group.spec.options
    if "graph" in options:
        return f" of {options['graph']}"
    if "data" in options:
        return f" ({options['data']}, N = {options['count']})"
    return f" (n = {options['n']})" if "n" in options else ""


def _summary(groups: list[Group]) -> str:
    spec, seeds = groups[0].spec, min(len(group.runs) for group in groups)
    options = ", ".join(
        f"{k.replace('_', ' ')} {v:g}" if isinstance(v, float) else f"{k.replace('_', ' ')} {v}"
        for k, v in spec.options.items()
    )
    return (
        f"{spec.iterations:,} iterations; lines are medians of {seeds} seeds, bands reach from the "
        f"lowest to the highest. Each method at the mu_c that one seed and a tenth of the "
        f"iterations found best by merit (gap + violation); augmented Lagrangians as they are. "
        f"{_sampling(groups)}\n\n"
        f"Setting: {options}."
    )


def _sampling(groups: list[Group]) -> str:
    """Who samples what: the batch sizes of the setting are not everybody's."""
    exact = [g.label for g in groups if isinstance(method_of(g.spec).tracker, Exact)]
    whole = [g.label for g in groups if method_of(g.spec).constraints == "whole"]
    words = [f"The objective is not sampled by {', '.join(exact)}."] if exact else []
    if "constraint_batch" in groups[0].spec.options:
        words.append(f"The constraints are whole for {', '.join(whole)}.")
    return " ".join(words)


def _curves(
    name: str,
    title: str,
    y: str,
    groups: Iterable[Group],
    measure: Measure,
    guides: tuple[Guide, ...],
) -> Panel:
    curves = []
    for group in groups:
        shown = _shown(group.iterations)
        k, (median, low, high) = group.iterations[shown], group.band(measure)
        band = median[shown], low[shown], high[shown]
        curves.append(Curve(group.label, group.method, k, *band, line=_line(group)))
    ends = ", ".join(f"{g.label} {number(g.end(measure).median)}" for g in groups)
    return Panel(
        name,
        title,
        "iteration k",
        y,
        tuple(curves),
        guides=guides,
        description=f"At the end: {ends}.",
        caption=_zeros(curves),
    )


def _zeros(curves: list[Curve]) -> str:
    """A log axis cannot show 0, and a line that ends without a word would mislead."""
    names = [curve.label for curve in curves if np.any(curve.y == 0)]
    return f"Exactly 0 in places, which is not drawn: {', '.join(names)}." if names else ""


def _shown(iterations: np.ndarray, most: int = 80) -> np.ndarray:
    """Which record points to draw: slopes need more of them than an eye can tell apart."""
    if len(iterations) <= most:
        return np.arange(len(iterations))
    wanted = np.geomspace(iterations[0], iterations[-1], most)
    return np.unique(np.searchsorted(iterations, wanted * (1 - 1e-9)).clip(max=len(iterations) - 1))


def _line(group: Group) -> str:
    """Variants of one method in one panel share its colour, so they need other dashes."""
    return {"IRDSA": "dotted", "RDSA": "dashdot"}.get(
        str(group.spec.parameters.get("oracle")), "solid"
    )


def _fronts(results: Results, figure: int, task: str, name: str) -> Panel:
    curves = []
    for method, runs in results.fronts(figure, task).items():
        x = np.array([run.violation()[-1] for run in runs])
        y = np.array([run.gap()[-1] for run in runs])
        notes = tuple(
            f"{run.spec.parameters['mu_c']:g}" if i in (0, len(runs) - 1) else ""
            for i, run in enumerate(runs)
        )
        curves.append(Curve(method, method, x, y, marker="o", shade=0.8, notes=notes))
    return Panel(
        name=f"{name}-fronts",
        title="Fronts over μ_c",
        x_label="violation",
        y_label="gap",
        curves=tuple(curves),
        description="Gap against violation over mu_c.",
        caption="Tuning runs, one seed, a tenth of the iterations; the ends show their μ_c.",
    )


def _trimming_panels(case: Case, study: Trimmed, name: str) -> list[Panel]:
    method, taus = f"t-{case.method}", np.array(list(study.by_threshold))
    skipped = np.array([group.skipped.median for group in study.by_threshold.values()])
    paper = Curve(
        f"the paper: {case.percent:g}% at {case.tau_0:g}",
        "reference",
        np.array([case.tau_0]),
        np.array([float(case.percent)]),
        line="none",
        marker="*",
    )
    share = Panel(
        name=f"{name}-{method}-skipped".replace("+", "plus"),
        title=f"{method}: LMO calls skipped",
        x_label="τ₀",
        y_label="skipped (%)",
        curves=(Curve(method, method, taus, skipped, marker="o"), paper),
        y_log=False,
        description="Percentages of the iterations, from the counters.",
        caption=f"Of {study.plain.spec.iterations:,} iterations{size_words(study)}, counted.",
    )
    every = [
        ("0", study.plain),
        *((f"{tau:g}", group) for tau, group in study.by_threshold.items()),
    ]
    curves = []
    for index, (tau, group) in enumerate(every):
        median, _, _ = group.band(Run.gap)
        shade = 1 - 0.8 * index / max(1, len(every) - 1)
        words = f"τ₀ = {tau}, {group.skipped.median:.0f}% skipped"
        curves.append(
            Curve(
                words,
                method,
                group.iterations,
                median,
                shade=shade,
                line="solid" if index else "dashed",
            )
        )
    gap = Panel(
        name=f"{name}-{method}-gap".replace("+", "plus"),
        title=f"{method}: gap by τ₀",
        x_label="iteration k",
        y_label=_GAPS.get(study.plain.spec.gap, study.plain.spec.gap),
        curves=tuple(curves),
        guides=(HALF,),
    )
    return [share, gap]
