"""What trimming saves on a whole run, at thresholds that leave the end where it was."""

from __future__ import annotations

import dataclasses
import time

import mostfw as fw
from mostfw.experiments.tasks import trimming_scale
from mostfw.method import LEAN_FROM

from . import instances, timing
from .rows import Case, Goal, Row, Settings

# tau_0 in units of 2 L_G D/mu_c, the scale of what the penalty's direction can change by. By a
# bound every other call is skipped from 0.9 to 1.1 of it, so that one of them stands for all.
SHARES = {"norm": (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5), "bound": (1.0,)}
NEAR = 0.05  # how far objective and violation may be from those of the untrimmed run


@dataclasses.dataclass
class Trial:
    """The runs at one threshold; 0 is the method without trimming."""

    tau_0: float
    seconds: float
    result: fw.Result

    @property
    def skipped(self) -> float:
        return self.result.counts.lmo_skipped / self.result.iterations


def cases(settings: Settings) -> list[Case]:
    n = LEAN_FROM if settings.quick else 2000
    return [Case(f"trimming, k-means, N = {n}", lambda s: [row(s, n)])]


def changes(trimmed: fw.Result, plain: fw.Result) -> dict[str, float]:
    """By which fraction the objective has changed, and the violation, as `reproduce` sums it up
    (relative, all constraints)."""
    ends = {"objective": (trimmed.objective, plain.objective)}
    ends["violation"] = (_violation(trimmed), _violation(plain))
    return {name: (new - old) / (abs(old) or 1.0) for name, (new, old) in ends.items()}


def _violation(result: fw.Result) -> float:
    return sum(result.relative_violation.values())


def wall(problem: fw.Problem, method: fw.Method, iterations: int) -> tuple[float, fw.Result]:
    began = time.perf_counter()
    result = timing.run(problem, method, iterations)
    return time.perf_counter() - began, result


def row(settings: Settings, n: int) -> Row:
    """Each threshold once: a run of minutes has its slow moments as all the others do."""
    iterations = 20 if settings.quick else settings.iterations
    problem, plain = instances.kmeans(instances.features(n)), instances.kmeans_method()
    unit = trimming_scale(problem)  # mu_c is 1
    grid = [float(f"{share * unit:.3g}") for share in SHARES[settings.test]]
    methods = {tau: fw.methods.trimmed(plain, tau, test=settings.test) for tau in grid}
    for method in (plain, next(iter(methods.values()))):
        timing.run(problem, method, 3)  # compiles: thresholds are only numbers to the program
    base = Trial(0.0, *wall(problem, plain, iterations))
    trials = [Trial(tau, *wall(problem, m, iterations)) for tau, m in methods.items()]
    table = [
        {
            "tau_0": trial.tau_0,
            "skipped": trial.skipped,
            **changes(trial.result, base.result),
            "time_ratio": trial.seconds / base.seconds,
        }
        for trial in trials
    ]
    near = [max(abs(line[name]) for name in ("objective", "violation")) <= NEAR for line in table]
    fitting = [trial for trial, fits in zip(trials, near, strict=True) if fits]
    best = min(fitting, key=lambda trial: trial.seconds, default=None)
    notes = [
        f"tau_0 {line['tau_0']:<9.3g} skipped {line['skipped']:6.1%}  objective "
        f"{line['objective']:+8.2%}  violation {line['violation']:+8.2%}  time "
        f"{line['time_ratio']:.3f} of untrimmed" + ("" if fits else "  (too far)")
        for line, fits in zip(table, near, strict=True)
    ]
    for trial in [base, *trials]:
        parts = ", ".join(f"{name} {v:.3g}" for name, v in trial.result.violation.items())
        notes.append(f"tau_0 {trial.tau_0:<9.3g} {trial.result.objective:.5g}, violations: {parts}")
    notes.append(
        f"no tau_0 of the grid stays within {NEAR:.0%}"
        if best is None
        else f"best within {NEAR:.0%}: tau_0 = {best.tau_0:g}; {iterations} iterations"
    )
    return Row(
        f"trimming, k-means, N = {n}",
        None if best is None else best.seconds,
        "s",
        "untrimmed",
        base.seconds,
        None if best is None else best.seconds / base.seconds,
        "of the time",
        Goal(most=0.85),
        tuple(notes),
        {"iterations": iterations, "thresholds": table, "tau_0": best and best.tau_0},
    )
