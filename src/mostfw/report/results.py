"""Complete runs, grouped as the figures need them. Everything here comes from run folders."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from ..experiments.folders import Run, Spec, digest, read_run
from ..experiments.runner import tuned
from ..experiments.study import manifest


@dataclasses.dataclass(frozen=True)
class Spread:
    """The median over seeds with the smallest and the largest.

    >>> from mostfw.report.results import Spread
    >>> str(Spread.of([0.3, 0.1, 0.2]))
    '0.2 [0.1, 0.3]'
    """

    median: float
    low: float
    high: float

    @staticmethod
    def of(values: Iterable[float]) -> Spread:
        found = np.array(list(values), dtype=float)
        return Spread(float(np.median(found)), float(found.min()), float(found.max()))

    def __str__(self) -> str:
        return f"{number(self.median)} [{number(self.low)}, {number(self.high)}]"


def number(value: float) -> str:
    """Two or three digits, as people write them.

    >>> from mostfw.report.results import number
    >>> [number(v) for v in (0.0, 12.345, 0.01234, 1.234e-5, 123456.0)]
    ['0', '12.3', '0.0123', '1.2e-05', '1.2e+05']
    """
    if value == 0 or 1e-3 <= abs(value) < 1e4:
        return f"{value:.3g}"
    return f"{value:.1e}"


@dataclasses.dataclass(frozen=True)
class Group:
    """The runs of one method and setting, one a seed."""

    label: str
    runs: tuple[Run, ...]

    @property
    def spec(self) -> Spec:
        return self.runs[0].spec

    @property
    def method(self) -> str:
        return self.spec.method

    @property
    def iterations(self) -> np.ndarray:
        return self.runs[0].history["iteration"]

    def end(self, measure: Callable[[Run], np.ndarray]) -> Spread:
        """The largest value over the second half of the iterations: a gap that crosses 0 at the
        last step would else look like an optimum."""
        return Spread.of(float(np.max(measure(run)[_second_half(run)])) for run in self.runs)

    @property
    def signed_gap(self) -> float:
        """The gap at the last step with its sign, median over seeds."""
        return float(np.median([run.signed_gap()[-1] for run in self.runs]))

    def band(self, measure: Callable[[Run], np.ndarray]) -> tuple[np.ndarray, ...]:
        """Median, lowest and highest over seeds at each record point."""
        found = np.array([measure(run) for run in self.runs])
        return np.median(found, axis=0), found.min(axis=0), found.max(axis=0)

    def last(self, column: str) -> float:
        return float(np.median([run.last(column) for run in self.runs]))

    @property
    def skipped(self) -> Spread:
        """Skipped LMO calls in percent of the iterations, from the counters."""
        share = (run.last("counts.lmo_skipped") / run.last("iteration") for run in self.runs)
        return Spread.of(100 * value for value in share)


def _second_half(run: Run) -> np.ndarray:
    k = run.history["iteration"]
    return k > k[-1] / 2


@dataclasses.dataclass(frozen=True)
class Trimmed:
    """One trimming study: the untrimmed method, and its trimmed form by tau_0."""

    plain: Group
    by_threshold: Mapping[float, Group]

    def same(self, tau_0: float) -> bool:
        """Almost the same performance: a merit at most a tenth above the worst untrimmed seed."""
        worst = self.plain.end(Run.merit).high
        return self.by_threshold[tau_0].end(Run.merit).median <= 1.1 * worst


class Results:
    """All complete runs of an output folder."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self.runs = list(runs)

    @staticmethod
    def read(out: Path) -> Results:
        """The runs that the study lists, as far as their folders are complete and unchanged."""
        found = []
        for name, wanted in sorted(manifest(out).items()):
            run = read_run(out / "runs" / name)
            if run is not None and run.spec.folder == name and digest(run.spec) == wanted:
                found.append(run)
        return Results(found)

    def select(self, **wanted: object) -> list[Run]:
        """The runs whose spec has these values, by method, parameters and seed."""
        found = [
            run
            for run in self.runs
            if all(getattr(run.spec, name) == value for name, value in wanted.items())
        ]
        return sorted(found, key=lambda run: (run.spec.method, run.spec.seed))

    def groups(self, runs: Iterable[Run]) -> dict[str, Group]:
        """By method and what tells its variants apart, in the order of first appearance."""
        found: dict[str, list[Run]] = {}
        for run in runs:
            found.setdefault(label(run.spec), []).append(run)
        return {name: Group(name, tuple(members)) for name, members in found.items()}

    def finals(self, figure: int, task: str) -> dict[str, Group]:
        return self.groups(self.select(figure=figure, task=task, stage="final"))

    def fronts(self, figure: int, task: str) -> dict[str, list[Run]]:
        """The tuning runs of each method, by mu_c."""
        found: dict[str, list[Run]] = {}
        for run in self.select(figure=figure, task=task, stage="tune"):
            found.setdefault(run.spec.method, []).append(run)
        for runs in found.values():
            runs.sort(key=lambda run: run.spec.parameters["mu_c"])
        return found

    def chosen(self, figure: int, task: str) -> dict[str, float]:
        return tuned(self.select(figure=figure, task=task, stage="tune"))

    def trimmed(self, figure: int, task: str, method: str) -> Trimmed | None:
        """The trimming study of `method`, or None where it is not complete."""
        runs = self.select(figure=figure, task=task, stage="trim", method=f"t-{method}")
        if not runs:
            return None
        by: dict[float, list[Run]] = {}
        for run in runs:
            by.setdefault(float(run.spec.parameters["tau_0"]), []).append(run)
        # tau_0 = 0 never skips: it is the untrimmed method, run where the size is another one
        plain = by.pop(0.0, None) or self.select(
            figure=figure, task=task, stage="final", method=method
        )
        if not plain or not by:
            return None
        groups = {tau: Group(f"{tau:g}", tuple(by[tau])) for tau in sorted(by)}
        return Trimmed(Group(method, tuple(plain)), groups)


def label(spec: Spec) -> str:
    """A method with what its name does not say.

    >>> from mostfw.experiments.folders import Spec
    >>> from mostfw.report.results import label
    >>> label(Spec(5, "final", "logistic", "zo-most-fw", 1, 0, {"mu_c": 1.0, "oracle": "RDSA"}))
    'zo-most-fw (RDSA)'
    """
    extra = [
        f"{value}" if name == "oracle" else f"{name} = {number(float(value))}"
        for name, value in spec.parameters.items()
        if name not in ("mu_c", "tau_0")
    ]
    return f"{spec.method} ({', '.join(extra)})" if extra else spec.method
