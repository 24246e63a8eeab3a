"""The tables of a section: slopes, ends, tuning, calls, trimming, times, reference optima."""

from __future__ import annotations

from .. import theory
from ..experiments.folders import Run
from .claims import Case, slopes
from .model import Table
from .results import Group, Results, Trimmed, number


def slope_table(groups: dict[str, Group]) -> Table:
    rows = []
    for name, group in groups.items():
        rate = theory.rate(group.method)
        proved = rate.gap_exponent, rate.violation_exponent
        if "b" in group.spec.parameters:
            proved = theory.remark_3(float(group.spec.parameters["b"]))
        bound = group.spec.violation
        rows.append(
            (
                name,
                "-" if proved[0] is None else str(proved[0]),
                f"{slopes(group, Run.gap):.2f}",
                "-" if proved[1] is None or not bound else str(proved[1]),
                f"{slopes(group, Run.violation):.2f}" if bound else "-",
                str(len(group.runs)),
            )
        )
    head = (
        "method",
        "gap, proved",
        "gap, measured",
        "violation, proved",
        "violation, measured",
        "seeds",
    )
    note = "Slopes over the last decade of the largest error in [k/2, k], medians over seeds."
    return Table("Slopes", head, tuple(rows), note)


def final_table(groups: list[Group]) -> Table:
    rows = tuple(
        (
            group.label,
            f"{group.spec.parameters['mu_c']:g}" if "mu_c" in group.spec.parameters else "none",
            f"{group.signed_gap:+.2e}",
            str(group.end(Run.gap)),
            str(group.end(Run.violation)),
            str(group.end(Run.merit)),
            str(len(group.runs)),
        )
        for group in groups
    )
    head = ("method", "mu_c", "last gap", "|gap|", "violation", "merit", "seeds")
    note = (
        "The last gap with its sign; the others are the largest over the second half of the "
        "iterations, median [lowest, highest] over seeds. Zeroth-order twins have their parent's "
        "mu_c; methods with an augmented Lagrangian have none, nor was anything tuned for them."
    )
    return Table("At the end", head, rows, note)


def tuning_table(results: Results, figure: int, task: str) -> Table:
    chosen, rows = results.chosen(figure, task), []
    edge = False
    for method, runs in results.fronts(figure, task).items():
        for run in runs:
            mu_c = float(run.spec.parameters["mu_c"])
            mark = "chosen" if chosen.get(method) == mu_c else ""
            if mark and run in (runs[0], runs[-1]):
                mark, edge = "chosen, at the edge", True
            ends = (run.gap()[-1], run.violation()[-1], run.merit()[-1])
            rows.append((method, f"{mu_c:g}", *map(number, ends), mark))
    head = ("method", "mu_c", "gap", "violation", "merit", "")
    note = "One seed, a tenth of the iterations; gap and violation at the last one."
    if edge:
        note += " A choice at the edge of the grid might be better beyond it."
    return Table("Tuning", head, tuple(rows), note, folded=True)


_COUNTERS = ("lmo", "lmo_skipped", "gradients", "values", "constraints", "matvecs")


def cost_table(groups: list[Group]) -> Table:
    rows = tuple(
        (group.label, *(f"{group.last(f'counts.{name}'):,.0f}" for name in _COUNTERS))
        for group in groups
    )
    head = ("method", "LMO", "skipped", "gradients", "values", "constraint rows", "matvecs")
    return Table("Oracle calls", head, rows, "Counted, medians over seeds.", folded=True)


def trimming_table(case: Case, study: Trimmed) -> Table:
    entries = [("0 (untrimmed)", study.plain, True)]
    entries += [(f"{t:g}", g, study.same(t)) for t, g in study.by_threshold.items()]
    rows = tuple(
        (
            tau,
            f"{group.skipped.median:.1f}",
            *(number(group.end(m).median) for m in (Run.gap, Run.violation, Run.merit)),
            "yes" if same else "no",
        )
        for tau, group, same in entries
    )
    head = ("tau_0", "skipped (%)", "gap", "violation", "merit", "same performance")
    note = (
        f"After {study.plain.spec.iterations:,} iterations{size_words(study)}. The same "
        "performance: a merit at most a tenth above the worst untrimmed seed."
    )
    return Table(f"t-{case.method} by tau_0", head, rows, note)


def size_words(study: Trimmed) -> str:
    """Trimming on k-means has another N than the comparison, and the mu_c that was tuned there."""
    count = study.plain.spec.options.get("count")
    return "" if count is None else f", N = {count}, at the mu_c of the comparison"


TIMES = "Where the time goes"  # the one table that differs between two runs of the same numbers


def time_table(groups: list[Group]) -> Table | None:
    rows = []
    for group in groups:
        run = group.runs[0]
        split, members = run.facts.get("split"), run.facts.get("members", 1)
        if split:
            step = f"{1e6 * run.facts['seconds'] / run.spec.iterations:.0f}"
            shared = f"{step} (of {members} together)" if members > 1 else step
            parts = (f"{1e6 * split[name]:.0f}" for name in ("LMO", "gradient", "projection"))
            rows.append((group.label, shared, *parts, run.environment["device"]))
    head = ("method", "a step (µs)", "LMO (µs)", "gradient (µs)", "projection (µs)", "device")
    note = (
        "Parts are compiled and timed alone at the end of a run, less what an empty call costs, so "
        "they need not add up to a step; runs of a sweep share the step's time."
    )
    return Table(TIMES, head, tuple(rows), note, folded=True) if rows else None


def reference_table(results: Results, figure: int, task: str) -> Table | None:
    rows = []
    for run in results.select(figure=figure, task=task, stage="reference"):
        size = str(run.spec.options.get("count", ""))
        values = (f"{run.last(name):.7g}" for name in ("value", "lower", "upper"))
        rows.append((size or task, *values, f"{run.last('iteration'):.0f}", run.facts["status"]))
    head = ("size", "optimum used", "lower bound", "upper bound", "steps", "")
    note = (
        "By operator splitting or SQP, not by Frank-Wolfe; both bounds are proved. Gaps as small "
        "as the distance of the bounds are not resolved."
    )
    return Table("Reference optimum", head, tuple(rows), note, folded=True) if rows else None
