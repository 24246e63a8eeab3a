"""Runs the figures into run folders; what is complete there is not run again."""

from __future__ import annotations

import dataclasses
import functools
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .. import checks, resources
from ..atomic import alone_in
from ..errors import InvalidInputError
from ..interruption import Interruption, listening
from ..result import Record, Result, Status
from ..solving import solve
from ..sweeps import sweep
from .figures import Comparison, Figure, Rates, plan, size_of
from .folders import Run, RunFolder, Spec, read_run
from .parts import time_split
from .study import Manifest, opened
from .tasks import method_of, own_data, problem_of, reference_of, trimming_scale

COMPILE_SECONDS = 2.5  # a guess, for the first estimate of the time left


@dataclasses.dataclass
class Progress:
    """What is done, what is left, and about how long that takes."""

    tell: Callable[[str], None]
    planned: list[tuple[str, int]]  # (kind of run, iterations) of every run, known from the start
    done: int = 0
    pace: dict[str, float] = dataclasses.field(default_factory=dict)  # seconds a step, by kind

    def left(self) -> float:
        """Seconds, from the pace of the runs of the same kind, or of all."""
        usual = float(np.median(list(self.pace.values()))) if self.pace else 1e-3
        rest = self.planned[self.done :]
        fresh = {kind for kind, _ in rest} - set(self.pace)
        steps = sum(self.pace.get(kind, usual) * steps for kind, steps in rest)
        return steps + COMPILE_SECONDS * len(fresh)

    def note(self, spec: Spec, words: str, run: Run | None = None) -> None:
        self.done += 1
        if run is not None:
            self.pace[kind(spec)] = run.facts["seconds"] / max(1.0, run.last("iteration"))
        minutes, seconds = divmod(round(self.left()), 60)
        self.tell(
            f"[{self.done}/{len(self.planned)}] {words}  (about {minutes}:{seconds:02d} left)"
        )


def kind(spec: Spec) -> str:
    """Runs of one kind take equally long a step."""
    return f"{spec.figure} {spec.task} {size_of(spec)} {spec.method}"


def reproduce(
    out: str | Path,
    *,
    quick: bool = False,
    figures: Iterable[int] = (1, 2, 3, 4, 5),
    seeds: int | None = None,
    download: bool = True,
    literal: bool = False,
    sweeps: bool | None = None,
    tell: Callable[[str], None] = print,
) -> list[str]:
    """Runs the figures into `out`, continuing what is there; the names of runs that failed.

    A run that was killed is begun anew, a failed one is tried again, a complete one is kept.
    `literal` gives the covariance the paper's swapped bounds, for which its truth is infeasible.
    `sweeps` runs the seeds or parameters of one method together in one compiled program: None does
    so where arrays go to an accelerator by default, on which a small run is bound by latency. On a
    CPU one run after the other takes less time (docs/speed.md).

    >>> from mostfw.experiments.runner import reproduce
    >>> reproduce("out", figures=[6])
    Traceback (most recent call last):
    mostfw.errors.InvalidInputError: figure [6]: give 1, 2, 3, 4 or 5.
    """
    out = Path(out)
    if out.exists() and not out.is_dir():
        raise InvalidInputError(f"the output folder {str(out)!r} is a file: give a folder.")
    chosen = sorted(set(figures))
    wrong = [number for number in chosen if number not in range(1, 6)]
    if wrong or not chosen:
        raise InvalidInputError(f"figure {wrong or 'none'}: give 1, 2, 3, 4 or 5.")
    if seeds is not None:
        checks.whole("seeds", seeds, 1)
    with alone_in(out):
        data = opened(out, quick, chosen, download, literal)
        everything = plan(data, quick, seeds, literal)
        parts = [part for number in chosen for part in everything[number]]
        pays = resources.accelerator_bytes() is not None
        return run_all(out, parts, sweeps=pays if sweeps is None else sweeps, tell=tell)


def run_all(
    out: str | Path,
    parts: Sequence[Figure],
    *,
    sweeps: bool = False,
    tell: Callable[[str], None] = print,
) -> list[str]:
    """Brings every run of the parts to a complete folder; the names of those that failed.

    >>> import tempfile
    >>> from mostfw.experiments.figures import Rates
    >>> from mostfw.experiments.runner import run_all
    >>> tiny = Rates(iterations=20, seeds=1, methods=("hfw",), exponents=())
    >>> with tempfile.TemporaryDirectory() as out:
    ...     run_all(out, [tiny], tell=lambda line: None)
    []
    """
    progress = Progress(tell, [pair for part in parts for pair in _expected(part)])
    manifest = Manifest(Path(out), {part.figure for part in parts})
    runner = Runner(Path(out), progress, manifest, sweeps)
    with listening() as runner.interruption:
        for part in parts:
            if isinstance(part, Rates):
                runner.all(part.runs())
            else:
                runner.comparison(part)
    return runner.failed


def _expected(part: Figure) -> list[tuple[str, int]]:
    if isinstance(part, Rates):
        specs = part.runs()
    else:
        unknown = dict.fromkeys(part.methods, 1.0)
        trimmed = part.trimmed(unknown, lambda _: 1e300)  # a unit that makes no two tau_0 equal
        later = [*part.finals(unknown), *trimmed, *part.extras(unknown)]
        specs = [*part.references(), *part.tuning(), *later]
    return [(kind(spec), spec.iterations) for spec in specs]


@dataclasses.dataclass
class Runner:
    """Brings specs to complete folders, one after the other or in sweeps."""

    out: Path
    progress: Progress
    manifest: Manifest
    sweeps: bool = False
    failed: list[str] = dataclasses.field(default_factory=list)
    interruption: Interruption = dataclasses.field(default_factory=Interruption)

    def comparison(self, part: Comparison) -> None:
        references = self.all(part.references())
        optimum = {size_of(run.spec): run.last("value") for run in references}

        def runs(specs: Sequence[Spec]) -> list[Run]:
            return self.all([part.with_optimum(spec, optimum) for spec in specs])

        chosen = tuned(runs(part.tuning()))
        runs(part.finals(chosen))
        runs(part.trimmed(chosen, lambda spec: trimming_scale(problem_of(spec))))
        runs(part.extras(chosen))

    def all(self, specs: Sequence[Spec]) -> list[Run]:
        groups = _sweepable(specs) if self.sweeps else [[spec] for spec in specs]
        found = [run for group in groups for run in self.together(group)]
        return [run for run in found if run is not None]

    def together(self, specs: Sequence[Spec]) -> list[Run | None]:
        """The runs of specs that differ in numbers only: as they are on disk, or made now."""
        folders = [RunFolder(self.out / "runs" / spec.folder) for spec in specs]
        if all(f.is_complete(s) for f, s in zip(folders, specs, strict=True)):
            return [self._kept(f, s) for f, s in zip(folders, specs, strict=True)]
        if self.interruption.requested:
            raise KeyboardInterrupt
        for folder, spec in zip(folders, specs, strict=True):
            folder.begin(spec)
            folder.log(f"begins: {spec.method} on {spec.task}, {spec.iterations} iterations")
        try:
            if specs[0].stage == "reference":
                _find_reference(specs[0], folders[0], self.interruption)
            else:
                _solve(specs, folders)
        except Exception as error:
            return [self._failure(f, s, error) for f, s in zip(folders, specs, strict=True)]
        return [self._made(f, s) for f, s in zip(folders, specs, strict=True)]

    def _kept(self, folder: RunFolder, spec: Spec) -> Run | None:
        self.manifest.add(spec)
        run = read_run(folder.path)
        self.progress.note(spec, f"{spec.folder}: kept", run)
        return run

    def _made(self, folder: RunFolder, spec: Spec) -> Run | None:
        run = read_run(folder.path)
        if run is None:  # its member of a sweep became NaN or infinite
            return self._failure(folder, spec, ArithmeticError("a number is NaN or infinite"))
        self.manifest.add(spec)
        ends = f"gap {run.gap()[-1]:.1e}  violation {run.violation()[-1]:.1e}"
        words = f"{run.facts['seconds']:.1f} s  {ends}"
        self.progress.note(spec, f"{spec.folder}: {words}", run)
        return run

    def _failure(self, folder: RunFolder, spec: Spec, error: Exception) -> None:
        folder.log("".join(traceback.format_exception(error)))
        self.failed.append(spec.folder)
        reason = next(iter(str(error).splitlines()), "")
        self.progress.note(spec, f"{spec.folder}: FAILED, {type(error).__name__}: {reason}")


def _sweepable(specs: Sequence[Spec]) -> list[list[Spec]]:
    """Specs that differ in the seed and in numbers of the method only, side by side; trimmed ones
    alone, for side by side every member makes the LMO calls that another one cannot skip."""
    groups: dict[str, list[Spec]] = {}
    for spec in specs:
        names = {n: v for n, v in spec.parameters.items() if not isinstance(v, int | float)}
        alike = dataclasses.replace(spec, seed=own_data(spec), parameters=names)
        kind = f"{alike.to_toml()} {sorted(spec.parameters)}"
        alone = spec.method.startswith("t-")
        groups.setdefault(spec.folder if alone else kind, []).append(spec)
    return list(groups.values())


def _solve(specs: Sequence[Spec], folders: Sequence[RunFolder]) -> None:
    spec, problem = specs[0], problem_of(specs[0])
    shared: Any = {"iterations": spec.iterations, "record": _records(spec)}
    if len(specs) == 1:
        note = functools.partial(_note, folders[0])
        results = [solve(problem, method_of(spec), seed=spec.seed, callback=note, **shared)]
    else:
        seeds = [each.seed for each in specs]
        results = sweep(problem, [method_of(each) for each in specs], seeds=seeds, **shared)
    if any(result.status is Status.INTERRUPTED for result in results):
        raise KeyboardInterrupt  # what is not finished has no mark, and is begun anew next time
    for each, folder, result in zip(specs, folders, results, strict=True):
        if result.status is Status.NON_FINITE:
            continue  # no mark: a failed run is never taken for finished
        folder.finish(
            each,
            [_row(record) for record in result.history],
            status=str(result.status),
            seconds=result.seconds,
            compile_seconds=result.compile_seconds,
            members=len(specs),  # of the sweep; the seconds are a member's share
            split=_split(each, result),
        )


def _note(folder: RunFolder, record: Record) -> None:
    worst = max(record.relative_violation.values(), default=0.0)
    folder.log(f"{record.iteration}: objective {record.objective!r}, violation {worst!r}")


def _records(spec: Spec) -> list[int] | None:
    """Where slopes are measured, many points over the last decade (and half of one before)."""
    count = spec.options.get("dense_records")
    if count is None:
        return None
    last = spec.iterations
    points = np.concatenate([np.geomspace(1, last, 60), np.geomspace(last / 20, last, int(count))])
    return np.unique(points.round().astype(int)).tolist()


def _row(record: Record) -> Mapping[str, Any]:
    """Counters and measures; the seconds go to the mark, so that equal runs have equal files."""
    return {name: value for name, value in record.flat().items() if name != "seconds"}


def _split(spec: Spec, result: Result) -> dict[str, float] | None:
    """Where the time goes, once for each of the paper's methods: parts must be compiled anew."""
    first = spec.figure < 5 and spec.stage == "final" and spec.seed == 0
    return time_split(result) if first and spec.method in ("most-fw", "most-fw+") else None


def _find_reference(spec: Spec, folder: RunFolder, interruption: Interruption) -> None:
    began = time.perf_counter()

    def note(step: int, value: float, lower: float, infeasibility: float) -> None:
        if interruption.requested:
            raise KeyboardInterrupt
        folder.log(f"{step}: value {value!r}, lower {lower!r}, infeasibility {infeasibility!r}")

    found = reference_of(spec, note)
    row = {
        "iteration": found.iterations,
        "value": found.value,
        "lower": found.lower,
        "upper": found.upper,
        "relative_gap": found.accuracy,
    }
    folder.finish(
        spec,
        [row],
        status="converged" if found.converged else "the iteration budget was used",
        seconds=time.perf_counter() - began,
    )


def tuned(runs: Iterable[Run]) -> dict[str, float]:
    """The mu_c of least merit at the end, by method."""
    best: dict[str, tuple[float, float]] = {}
    for run in runs:
        merit, mu_c = float(run.merit()[-1]), float(run.spec.parameters["mu_c"])
        if merit == merit and merit < best.get(run.spec.method, (float("inf"), 0.0))[0]:
            best[run.spec.method] = (merit, mu_c)
    return {method: mu_c for method, (_, mu_c) in best.items()}
