"""What the commands on files share: options, progress, the summary, and where results go."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import InvalidInputError
from ...result import Result, worst_violation
from ..devices import DEVICES, use_device
from ..keeping import add_options, kept
from ..writing import check_folder, write_csv, write_json, write_npz

if TYPE_CHECKING:
    from ...estimators._cost import Cost

FORMATS = (".csv", ".npz", ".json")


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a job found: in words, as numbers, as arrays, as a table, as pictures."""

    words: str
    facts: dict[str, Any]
    arrays: dict[str, np.ndarray]
    header: Sequence[str]
    rows: Iterable[Sequence[Any]]
    panels: Callable[[], Sequence[Any]]
    result: Result | None  # None where the answer was plain without a run


def add_job(
    commands: Any,
    name: str,
    summary: str,
    job: Callable[[argparse.Namespace], Outcome],
    *,
    file: str,
    iterations: int | None = None,
    gap: float | None = None,
) -> argparse.ArgumentParser:
    """Adds a command that reads `file`, and the options that all of them have. Without their own
    defaults, iterations and gap are those of the estimator."""
    parser = commands.add_parser(name, help=summary, description=f"{summary}.")
    parser.add_argument("file", metavar="FILE", help=file)
    parser.add_argument("--out", metavar="FILE", help="the result: .csv, .npz or .json")
    parser.add_argument("--plot", metavar="FILE", help="a picture: .png, .svg or .pdf")
    parser.add_argument("--json", metavar="FILE", help="the summary and history ('-': printed)")
    parser.add_argument("--time", type=float, metavar="SECONDS", help="a budget for the steps")
    parser.add_argument("--iterations", type=int, default=iterations, help="steps at most")
    parser.add_argument(
        "--gap", type=float, default=gap, help="stop when this relative gap is proved, e.g. 0.01"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quiet", action="store_true", help="no progress bar, no summary")
    parser.add_argument("--device", choices=DEVICES)
    add_options(parser, every=False)
    parser.set_defaults(command=_run, job=job)
    return parser


def shown(options: argparse.Namespace) -> bool:
    """Whether a progress bar would be seen."""
    return not options.quiet and sys.stderr.isatty()


def budgets(options: argparse.Namespace) -> dict[str, Any]:
    """The options that every estimator has, by its names for them; its defaults where none is
    given."""
    given = {"tol": options.gap, "max_iter": options.iterations, "time_limit": options.time}
    return {
        "random_state": options.seed,
        "verbose": int(shown(options)),
        **{name: value for name, value in given.items() if value is not None},
        **kept(options),
    }


def say_cost(options: argparse.Namespace, cost: Cost) -> None:
    """What the job will take, before it starts. With a progress bar the estimator says it."""
    if not options.quiet and not shown(options):
        print(f"This will take {cost}.", file=sys.stderr)


def _run(options: argparse.Namespace) -> int:
    use_device(options.device)
    _check_targets(options)
    outcome = options.job(options)
    if options.out:
        _write(outcome, options.out)
    if options.plot:
        from ...pictures import Convergence, draw

        panels, result = list(outcome.panels()), outcome.result
        if result is not None and (len(result.history) > 1 or not panels):
            panels.append(Convergence(result))
        draw(options.plot, *panels)
    if options.json:
        run = None if outcome.result is None else outcome.result.to_dict()
        write_json({"summary": outcome.words, **outcome.facts, "run": run}, options.json)
    if not options.quiet and options.json != "-":
        print(summary(outcome, options))
    return 0


def _check_targets(options: argparse.Namespace) -> None:
    check_folder("--json", options.json)
    check_folder("--out", options.out)
    if options.out and Path(options.out).suffix.lower() not in FORMATS:
        raise InvalidInputError(
            f"--out {options.out!r} has the ending {Path(options.out).suffix!r}: give one of "
            f"{', '.join(FORMATS)}."
        )
    if options.plot:
        from ...pictures import check_target

        check_target(options.plot)


def _write(outcome: Outcome, target: str) -> None:
    kind = Path(target).suffix.lower()
    if kind == ".csv":
        write_csv(outcome.header, outcome.rows, target)
    elif kind == ".npz":
        write_npz(outcome.arrays, target)
    else:
        write_json({"summary": outcome.words, **outcome.facts, **outcome.arrays}, target)


def summary(outcome: Outcome, options: argparse.Namespace) -> str:
    """The answer in words, how the run ended, and what was written where."""
    lines = [outcome.words[0].upper() + outcome.words[1:].rstrip(".") + "."]
    lines += ["No run was needed."] if outcome.result is None else _of_run(outcome.result)
    written = [name for name in (options.out, options.plot, options.json) if name]
    lines += [f"Wrote {', '.join(written)}."] if written else []
    return "\n".join(lines)


def _of_run(result: Result) -> list[str]:
    lines = []
    if result.problem.constraints:
        violation = worst_violation(result.last)
        lines.append(f"The run's point keeps its constraints to {violation:.1e} (relative).")
    if result.certificate is None and result.evidence:
        lines.append(result.evidence)
    return [
        *lines,
        f"{result.iterations} iterations of {result.method.name} in {result.seconds:.1f} s "
        f"(compiling {result.compile_seconds:.1f} s); ended because {result.status}.",
    ]
