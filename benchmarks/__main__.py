"""`python -m benchmarks`: ours against peers, alternating in one run, after warm-up."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from mostfw.atomic import alone_in
from mostfw.errors import FolderInUseError
from mostfw.interruption import listening
from mostfw.trimming import TESTS

from . import (
    growth,
    growth_plot,
    memory,
    precision,
    solvers,
    starting,
    steps,
    sweeping,
    trimming,
    untuned,
)
from .rows import Case, Row, Settings, heading, machine

# what counts compiling comes last: it empties the caches that the others share
PARTS = (steps, trimming, growth, solvers, untuned, precision, memory, sweeping, starting)


def chosen(settings: Settings, words: Sequence[str]) -> list[Case]:
    """The cases whose names contain one of the words; all without words."""
    every = [case for part in PARTS for case in part.cases(settings)]
    return [case for case in every if not words or any(word in case.name for word in words)]


def options(arguments: Sequence[str] | None) -> argparse.Namespace:
    default = Settings()
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("--out", type=Path, default=Path("bench"), help="folder for JSON and plot")
    parser.add_argument("--only", action="append", default=[], metavar="WORD", help="repeatable")
    parser.add_argument("--rounds", type=int, default=default.rounds)
    parser.add_argument("--steps", type=int, default=default.steps, help="of the smallest problem")
    parser.add_argument("--iterations", type=int, default=default.iterations, help="of trimming")
    parser.add_argument("--test", choices=TESTS, default=default.test, help="of trimming")
    parser.add_argument("--seconds", type=float, default=default.seconds, help="for a solver")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to test the harness")
    return parser.parse_args(arguments)


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """No second benchmark on this machine, whatever folder it writes to: both would be slower."""
    try:
        with alone_in(Path(tempfile.gettempdir()) / "mostfw-benchmarks"):
            yield
    except FolderInUseError:
        sys.exit("another benchmark runs on this machine: wait for it, for both would be slower.")


def load() -> list[float] | None:
    """How many processes wanted a core over the last 1, 5 and 15 minutes; ours is one of them."""
    return list(os.getloadavg()) if hasattr(os, "getloadavg") else None


def write(folder: Path, settings: Settings, rows: Sequence[Row], before: list | None) -> None:
    """After each case, so that an interrupted run keeps what it has measured."""
    found = {
        "machine": machine(),
        "load_average": {"before": before, "now": load()},
        "settings": dataclasses.asdict(settings),
        "rows": [row.to_dict() for row in rows],
    }
    (folder / "bench.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> None:
    given = options(arguments)
    settings = Settings(
        rounds=1 if given.quick else given.rounds,
        steps=min(given.steps, 50) if given.quick else given.steps,
        quick=given.quick,
        iterations=given.iterations,
        test=given.test,
        seconds=given.seconds,
    )
    given.out.mkdir(parents=True, exist_ok=True)
    print(heading(), flush=True)
    rows: list[Row] = []
    before = load()
    with alone(), listening() as interruption:
        for case in chosen(settings, given.only):
            measured = case.measure(settings)
            if interruption.requested:  # what was cut short is no measurement
                sys.exit(128 + (interruption.signal or 0))
            for row in measured:
                rows.append(row)
                print(row, flush=True)
            write(given.out, settings, rows, before)
    for path in growth_plot.draw(rows, given.out):
        print(path)
    missed = [row.name for row in rows if row.met is False]
    if settings.quick:
        print("quick: the sizes are tiny, so the goals mean nothing here")
    print(f"{len(rows)} rows, {len(missed)} goals not met", *missed, sep="\n  ")


if __name__ == "__main__":
    main()
