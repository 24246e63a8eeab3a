"""The paper's claims, each with a rule that turns runs into a verdict. Nothing is typed in."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from .. import theory
from ..experiments.folders import Run
from ..experiments.known import decade_slope
from .model import Claim, Verdict
from .results import Group, Results, Trimmed, number

SIMILAR = 1.25  # two merits within this factor are similar
SKIP_POINTS = 5.0  # percentages within so many points are the same


def claims(results: Results) -> tuple[Claim, ...]:
    """Every claim of section IV and of the trimming section, in the paper's order.

    >>> from mostfw.report.claims import claims
    >>> from mostfw.report.results import Results
    >>> {claim.verdict.value for claim in claims(Results([]))}
    {'not measured'}
    """
    return tuple(rule(results) for rule in _rules())


def _rules() -> Iterator[Callable[[Results], Claim]]:
    yield _rates
    yield _covariance("objective", Run.gap)
    yield _covariance("constraint violation", Run.violation)
    yield _saturation
    yield _trimming(TRIMMING[0])
    yield _similar_to_hfw
    yield _ahead(
        "MOST-FW is the best that samples, on k-means", 3, "kmeans",
        {"most-fw": ("shcgm", "h1-sfw", "most-fw+")},
        "MOST-FW shows the best practical performance.",
    )  # fmt: skip
    yield _ahead(
        "MOST-FW+ against H1-SFW on k-means", 3, "kmeans", {"most-fw+": ("h1-sfw",)},
        "MOST-FW+ shows slightly better performance than H1-SFW.",
    )  # fmt: skip
    yield _trimming(TRIMMING[1])
    yield _trimming(TRIMMING[2])
    yield _ahead(
        "Both are ahead on the sparsest cut", 4, "sparsest-cut",
        {"most-fw": ("shcgm", "h1-sfw"), "most-fw+": ("shcgm", "h1-sfw")},
        "Both proposed algorithms outperform SHCGM and H1-SFW.",
    )  # fmt: skip
    yield _zeroth_order
    yield _calls
    yield _trimming(TRIMMING[3])
    yield _trimming(TRIMMING[4])
    yield _rises
    yield _thirty


@dataclasses.dataclass(frozen=True)
class Case:
    """One trimming case of the paper: its figure, method, tau_0 and the percentage skipped."""

    figure: int
    task: str
    method: str
    tau_0: float
    percent: float
    kept: bool = True  # whether the paper adds that the performance is almost the same


TRIMMING = (
    Case(2, "covariance", "most-fw", 3.5, 28),
    Case(3, "kmeans", "most-fw", 5.0, 15, kept=False),
    Case(3, "kmeans", "most-fw+", 14.0, 25),
    Case(4, "sparsest-cut", "most-fw", 1.0, 40),
    Case(4, "sparsest-cut", "most-fw+", 5.0, 37),
)


def _unknown(name: str, said: str) -> Claim:
    return Claim(name, said, "—", Verdict.UNKNOWN, "Its runs are not in this folder.")


def _seeds(group: Group) -> str:
    return f"{len(group.runs)} seeds" if len(group.runs) > 1 else "1 seed"


def compare(ahead: Group, others: list[Group], measure: Callable[[Run], np.ndarray]) -> Verdict:
    """Holds if even the worst seed is ahead of each rival's best; in part if it is ahead of some,
    or level with one."""
    mine = ahead.end(measure)
    theirs = [other.end(measure) for other in others]
    if not all(np.isfinite(spread.median) for spread in (mine, *theirs)):
        return Verdict.UNKNOWN
    if all(mine.high < other.low for other in theirs):
        return Verdict.HOLDS
    wins = [mine.median <= other.median for other in theirs]
    return Verdict.IN_PART if any(wins) else Verdict.FAILS


def ratio(above: float, below: float) -> float:
    """above/below, where two zeros are equal."""
    if below == 0:
        return 1.0 if above == 0 else float("inf")
    return above / below


def _times(ahead: Group, other: Group, measure: Callable[[Run], np.ndarray]) -> str:
    mine, theirs = ahead.end(measure).median, other.end(measure).median
    if mine == 0:
        return f"{other.label} {number(theirs)} against exactly 0"
    return f"{other.label} {number(theirs / mine)} times {ahead.label}'s"


def _covariance(thing: str, measure: Callable[[Run], np.ndarray]) -> Callable[[Results], Claim]:
    def rule(results: Results) -> Claim:
        title = f"MOST-FW is ahead on sparse covariance ({thing})"
        said = f"MOST-FW converges much faster and to a better {thing} than HFW and SHCGM."
        groups = results.finals(2, "covariance")
        if not {"most-fw", "hfw", "shcgm"} <= set(groups):
            return _unknown(title, said)
        ours, rivals = groups["most-fw"], [groups["shcgm"], groups["hfw"]]
        measured = "; ".join(_times(ours, rival, measure) for rival in rivals)
        verdict = compare(ours, rivals, measure)
        return Claim(title, said, f"{measured} (medians, {_seeds(ours)})", verdict, _why(verdict))

    return rule


def _why(verdict: Verdict) -> str:
    return {
        Verdict.HOLDS: "The worst seed is ahead of the best seed of every rival.",
        Verdict.IN_PART: "It is ahead of some rivals, level, or ahead by medians only.",
        Verdict.FAILS: "Its median is behind every rival's.",
        Verdict.UNKNOWN: "Some of the numbers are not finite.",
    }[verdict]


def _saturation(results: Results) -> Claim:
    name = "HFW saturates"
    said = "HFW converges fast but saturates, as it uses the same data points all the time."
    groups = results.finals(2, "covariance")
    if "hfw" not in groups:
        return _unknown(name, said)
    group = groups["hfw"]
    ratios = []
    for run in group.runs:
        k, gap = run.history["iteration"], run.gap()
        ratios.append(gap[-1] / gap[np.searchsorted(k, k[-1] / 4)])
    left = float(np.median(ratios))
    verdict = Verdict.HOLDS if left > 0.9 else Verdict.IN_PART if left > 0.5 else Verdict.FAILS
    measured = f"at the end its error is {100 * left:.0f}% of that at a quarter of the run"
    why = f"The error at the end is {number(group.end(Run.gap).median)} (median)."
    return Claim(name, said, f"{measured} ({_seeds(group)})", verdict, why)


def _similar_to_hfw(results: Results) -> Claim:
    name = "MOST-FW equals HFW on k-means"
    said = "MOST-FW is very similar to HFW although it uses 1% of the data at each iteration."
    groups = results.finals(3, "kmeans")
    if not {"most-fw", "hfw"} <= set(groups):
        return _unknown(name, said)
    ratios = [
        ratio(groups["most-fw"].end(measure).median, groups["hfw"].end(measure).median)
        for measure in (Run.gap, Run.violation)
    ]
    near = [1 / SIMILAR <= found <= SIMILAR for found in ratios]
    verdict = _share(sum(near), len(near))
    measured = f"gap {ratios[0]:.2f} and violation {ratios[1]:.2f} times HFW's"
    why = f"Similar means within a factor {SIMILAR:g} in both."
    return Claim(name, said, f"{measured} ({_seeds(groups['most-fw'])})", verdict, why)


def _ahead(
    name: str, figure: int, task: str, rivals: Mapping[str, tuple[str, ...]], said: str
) -> Callable[[Results], Claim]:
    """By merit, and gap and violation told apart: a method can buy one with the other."""

    def rule(results: Results) -> Claim:
        groups = results.finals(figure, task)
        wanted = {method for pair in rivals.items() for method in (pair[0], *pair[1])}
        if not wanted <= set(groups):
            return _unknown(name, said)
        verdicts, words = [], []
        for method, others in rivals.items():
            for other in others:
                ours, theirs = groups[method], groups[other]
                verdicts.append(compare(ours, [theirs], Run.merit))
                gap, violation, merit = (
                    ratio(theirs.end(measure).median, ours.end(measure).median)
                    for measure in (Run.gap, Run.violation, Run.merit)
                )
                words.append(
                    f"{other}: merit {number(merit)} (gap {number(gap)}, violation "
                    f"{number(violation)}) times {method}'s"
                )
        verdict = _together(verdicts)
        why = {
            Verdict.HOLDS: "Merit is gap + violation; the worst seed beats every rival's best.",
            Verdict.IN_PART: "Merit is gap + violation; ahead of some only, or seeds overlap.",
            Verdict.FAILS: "Merit is gap + violation; the medians are behind.",
            Verdict.UNKNOWN: "Some of the numbers are not finite.",
        }[verdict]
        some = next(iter(groups.values()))
        return Claim(name, said, f"{'; '.join(words)} ({_seeds(some)})", verdict, why)

    return rule


def _together(verdicts: list[Verdict]) -> Verdict:
    if Verdict.UNKNOWN in verdicts:
        return Verdict.UNKNOWN
    if all(v is Verdict.HOLDS for v in verdicts):
        return Verdict.HOLDS
    return Verdict.FAILS if all(v is Verdict.FAILS for v in verdicts) else Verdict.IN_PART


def _zeroth_order(results: Results) -> Claim:
    name = "Zeroth order is as good"
    said = "On the sparsest cut the ZO variants show almost similar performance."
    groups = results.finals(4, "sparsest-cut")
    pairs = [("most-fw", "zo-most-fw"), ("most-fw+", "zo-most-fw+")]
    if not {method for pair in pairs for method in pair} <= set(groups):
        return _unknown(name, said)
    ratios = {
        twin: ratio(groups[twin].end(Run.merit).median, groups[parent].end(Run.merit).median)
        for parent, twin in pairs
    }
    near = [
        ratios[twin] <= SIMILAR
        or groups[twin].end(Run.merit).median <= 1.1 * groups[parent].end(Run.merit).high
        for parent, twin in pairs
    ]
    verdict = _share(sum(near), len(near))
    words = [f"{twin}: {found:.2f} times its parent's merit" for twin, found in ratios.items()]
    measured = "; ".join(words)
    why = "The objective is linear, where coordinate differences give the gradient itself."
    return Claim(name, said, f"{measured} ({_seeds(groups['most-fw'])})", verdict, why)


def _calls(results: Results) -> Claim:
    name = "2m values an iteration"
    said = "The zeroth-order variants need 2m SZO calls an iteration."
    groups = results.finals(4, "sparsest-cut")
    if not {"most-fw", "zo-most-fw"} <= set(groups):
        return _unknown(name, said)
    twin, parent = groups["zo-most-fw"], groups["most-fw"]
    # the parent calls a gradient where the twin takes the values of one sample at one point
    calls = parent.last("counts.gradients")
    each = twin.last("counts.values") / calls
    first = parent.runs[0].history  # the first step looks at one point only
    batch = first["counts.gradients"][0] / first["iteration"][0]
    points = calls / batch / parent.last("iteration")
    # the batch is a share of the m entries of the matrix: a check on m that uses no values
    share = float(parent.spec.options["batch"])
    right = round(batch) == int(np.ceil(share * each / 2))
    verdict = (
        Verdict.HOLDS if right and points < 1.01 else Verdict.IN_PART if right else Verdict.FAILS
    )
    measured = f"{each:.0f} values a sample and point, at {points:.2f} points an iteration"
    why = (
        f"With m = {each / 2:.0f} entries that is {2 * points:.2f}m: momentum looks "
        "at two points from the second iteration on."
    )
    return Claim(name, said, measured, verdict, why)


def _trimming(case: Case) -> Callable[[Results], Claim]:
    def rule(results: Results) -> Claim:
        name = f"T-{case.method.upper()} on {case.task}"
        kept = " with almost the same performance" if case.kept else ""
        said = (
            f"At tau_0 = {case.tau_0:g} it skips around {case.percent:g}% of the LMO calls{kept}."
        )
        study = results.trimmed(case.figure, case.task, case.method)
        if study is None or case.tau_0 not in study.by_threshold:
            return _unknown(name, said)
        found = study.by_threshold[case.tau_0].skipped.median
        best = most_skipped(study)
        steps = study.plain.spec.iterations
        words = f"{found:.0f}% of {steps:,} at tau_0 = {case.tau_0:g}; "
        words += (
            f"with the same performance up to {best[1]:.0f}%, at tau_0 = {best[0]:g}"
            if best
            else "no tau_0 that skips keeps the performance"
        )
        literal = abs(found - case.percent) <= SKIP_POINTS and (
            not case.kept or study.same(case.tau_0)
        )
        saved = best is not None and best[1] >= case.percent - SKIP_POINTS
        verdict = Verdict.HOLDS if literal else Verdict.IN_PART if saved else Verdict.FAILS
        why = {
            Verdict.HOLDS: "The percentage is within 5 points, the merit within a tenth.",
            Verdict.IN_PART: "So many calls can be skipped, but at another tau_0: it has units.",
            Verdict.FAILS: "No tau_0 of the grid skips so many calls with a merit within a tenth.",
        }[verdict]
        return Claim(name, said, words, verdict, why)

    return rule


def most_skipped(study: Trimmed) -> tuple[float, float] | None:
    """(tau_0, percent) of the largest share skipped with almost the same performance."""
    kept = [
        (tau, group.skipped.median)
        for tau, group in study.by_threshold.items()
        if group.skipped.median > 0 and study.same(tau)
    ]
    return max(kept, key=lambda pair: pair[1], default=None)


def _studies(results: Results) -> list[tuple[Case, Trimmed]]:
    found = [(case, results.trimmed(case.figure, case.task, case.method)) for case in TRIMMING]
    return [(case, study) for case, study in found if study is not None]


def _rises(results: Results) -> Claim:
    name = "More is skipped as tau_0 rises"
    said = "The algorithms skip more LMO calls as the threshold grows."
    studies = _studies(results)
    if not studies:
        return _unknown(name, said)
    rising = [
        bool(np.all(np.diff([g.skipped.median for g in study.by_threshold.values()]) >= -1))
        for _, study in studies
    ]
    count = sum(rising)
    verdict = _share(count, len(rising))
    measured = f"in {count} of {len(rising)} cases it never falls by a point along the grid"
    return Claim(name, said, measured, verdict, "Counted calls, not an estimate.")


def _thirty(results: Results) -> Claim:
    name = "More than 30% skipped"
    said = "A significant reduction in LMO calls (more than 30%) with almost similar accuracy."
    studies = _studies(results)
    if not studies:
        return _unknown(name, said)
    best = [(case, most_skipped(study)) for case, study in studies]
    count = sum(found is not None and found[1] > 30 for _, found in best)
    words = ", ".join(
        f"{case.method} on {case.task} {found[1] if found else 0:.0f}%" for case, found in best
    )
    own = sum(case.percent > 30 for case in TRIMMING)
    why = f"So in {count} of {len(best)} cases here, and in {own} of {len(TRIMMING)} in the paper."
    return Claim(name, said, f"at most, without loss: {words}", _share(count, len(best)), why)


def _share(count: int, total: int) -> Verdict:
    return Verdict.HOLDS if count == total else Verdict.IN_PART if count else Verdict.FAILS


def slopes(group: Group, measure: Callable[[Run], np.ndarray]) -> float:
    """The median over seeds of the log-log slope over the last decade."""
    found = [decade_slope(run.history["iteration"], measure(run)) for run in group.runs]
    known = [slope for slope in found if slope == slope]
    return float(np.median(known)) if known else float("nan")


def _rates(results: Results) -> Claim:
    name = "The rates of Table 1"
    said = "Gap and violation of MOST-FW fall like k^(-1/2), those of MOST-FW+ like k^(-1/4)."
    groups = results.groups(results.select(figure=1, stage="rate"))
    if not {"most-fw", "most-fw+"} <= set(groups):
        return _unknown(name, said)
    words, kept, below = [], [], 0
    for method in ("most-fw", "most-fw+"):
        rate = theory.rate(method)
        found = slopes(groups[method], Run.gap), slopes(groups[method], Run.violation)
        words.append(f"{method}: {found[0]:.2f} and {found[1]:.2f}")
        # The gap is bounded from above: below 0 the bound holds whatever the slope. And a proved
        # rate is a bound: steeper is fine, and a finite run cannot tell 0.05 apart.
        negative = groups[method].signed_gap < 0
        below += negative
        kept.append(negative or found[0] <= float(rate.gap_exponent or 0) + 0.05)
        kept.append(found[1] <= float(rate.violation_exponent or 0) + 0.05)
    verdict = _share(sum(kept), len(kept))
    steps = int(groups["most-fw"].iterations[-1])
    why = (
        f"Slopes of |gap| and violation over the last decade of {steps:,} steps, to 0.05. "
        f"{below} of 2 gaps end below 0, where the bound from above holds anyhow."
    )
    return Claim(name, said, f"{'; '.join(words)} (medians)", verdict, why)
