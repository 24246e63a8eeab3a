"""What trimming saves on a whole run, at thresholds that leave the end where it was."""

from __future__ import annotations

import dataclasses
import time

import mostfw as fw
from mostfw.experiments.tasks import trimming_scale

from . import instances, timing
from .rows import Case, Goal, Row, Settings

# tau_0 in units of 2 L_G D/mu_c, the scale of what the penalty's direction can change by
SHARES = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5)
NEAR = 0.05  # how far objective and violations may be from those of the untrimmed run


@dataclasses.dataclass
class Trial:
    """The runs at one threshold; 0 is the method without trimming."""

    tau_0: float
    method: fw.Method
    seconds: float
    result: fw.Result

    @property
    def skipped(self) -> float:
        return self.result.counts.lmo_skipped / self.result.iterations


def cases(settings: Settings) -> list[Case]:
    n = 16 if settings.quick else 2000
    return [Case(f"trimming, k-means, N = {n}", lambda s: [row(s, n)])]


def deviation(trimmed: fw.Result, plain: fw.Result) -> float:
    """The largest relative difference in the objective and in any violation, either way."""
    pairs = [(trimmed.objective, plain.objective)]
    pairs += [(trimmed.violation[name], value) for name, value in plain.violation.items()]
    return max(abs(new - old) / (abs(old) or 1.0) for new, old in pairs)


def wall(problem: fw.Problem, method: fw.Method, iterations: int) -> tuple[float, fw.Result]:
    began = time.perf_counter()
    result = timing.run(problem, method, iterations)
    return time.perf_counter() - began, result


def row(settings: Settings, n: int) -> Row:
    """All thresholds once; then those that qualify and the plain method again, taking turns."""
    iterations = 20 if settings.quick else settings.iterations
    problem, plain = instances.kmeans(instances.features(n)), instances.kmeans_method()
    unit = trimming_scale(problem)  # mu_c is 1
    grid = [float(f"{share * unit:.3g}") for share in (SHARES[::4] if settings.quick else SHARES)]
    methods = {tau: fw.methods.trimmed(plain, tau) for tau in grid}
    for method in (plain, next(iter(methods.values()))):
        timing.run(problem, method, 3)  # compiles: thresholds are only numbers to the program
    base = Trial(0.0, plain, *wall(problem, plain, iterations))
    trials = [Trial(tau, m, *wall(problem, m, iterations)) for tau, m in methods.items()]

    def fits(trial: Trial) -> bool:
        return deviation(trial.result, base.result) <= NEAR

    for _ in range(settings.rounds - 1):
        for trial in [base, *filter(fits, trials)]:
            trial.seconds = min(trial.seconds, wall(problem, trial.method, iterations)[0])
    best = min(filter(fits, trials), key=lambda trial: trial.seconds, default=None)
    table = [
        {
            "tau_0": trial.tau_0,
            "skipped": trial.skipped,
            "deviation": deviation(trial.result, base.result),
            "time_ratio": trial.seconds / base.seconds,
        }
        for trial in trials
    ]
    notes = [
        f"tau_0 {line['tau_0']:<9.3g} skipped {line['skipped']:6.1%}  deviation "
        f"{line['deviation']:8.2%}  time {line['time_ratio']:.3f} of untrimmed"
        + ("  (too far)" if line["deviation"] > NEAR else "")
        for line in table
    ]
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
