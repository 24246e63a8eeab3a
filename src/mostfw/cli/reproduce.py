"""`mostfw reproduce`, `report` and `data`: the paper's experiments, their page, their data."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from pathlib import Path
from typing import Any

from .. import datasets
from ..experiments.folders import write
from .devices import DEVICES, use_device


def add(commands: Any) -> None:
    """Adds the three commands to the parser."""
    reproduce = commands.add_parser(
        "reproduce", help="the paper's figures and a report with a verdict on every claim"
    )
    reproduce.add_argument("--quick", action="store_true", help="small and short: a few minutes")
    reproduce.add_argument(
        "--figure", type=int, action="append", choices=range(1, 6), help="repeatable; default: all"
    )
    reproduce.add_argument("--seeds", type=int, help="of the final runs; default 3")
    reproduce.add_argument("--device", choices=DEVICES)
    reproduce.add_argument("--out", required=True, help="folder; a killed run continues there")
    reproduce.add_argument(
        "--literal-bounds", action="store_true", help="Figure 2 with the paper's swapped bounds"
    )
    reproduce.add_argument("--offline", action="store_true", help="download nothing")
    reproduce.set_defaults(command=_reproduce)

    report = commands.add_parser("report", help="write the report of a folder anew")
    report.add_argument("out", metavar="DIR")
    report.set_defaults(command=_report)

    data = commands.add_parser("data", help="the data sets: sources, licences, checksums")
    data.add_argument("--fetch", metavar="NAME", help="download one, checked, into the cache")
    data.set_defaults(command=_data)


def _reproduce(options: argparse.Namespace) -> int:
    from ..experiments.runner import reproduce

    use_device(options.device)
    out = Path(options.out)
    failed = reproduce(
        out,
        quick=options.quick,
        figures=options.figure or range(1, 6),
        seeds=options.seeds,
        download=not options.offline,
        literal=options.literal_bounds,
    )
    for name in failed:
        print(f"FAILED: {out / 'runs' / name} (its log.txt says why)", file=sys.stderr)
    _remember(out, f"mostfw reproduce {_said(options)}")
    _report(options)
    return 1 if failed else 0


def _remember(out: Path, command: str) -> None:
    """All commands that made the folder, each once, for the head of the report."""
    path = out / "commands.json"
    known = json.loads(path.read_text("utf-8")) if path.is_file() else []
    write(path, json.dumps([*(c for c in known if c != command), command], indent=1) + "\n")


def _said(options: argparse.Namespace) -> str:
    """The options as they were given, for the report."""
    words = ["--quick"] if options.quick else []
    words += [f"--figure {number}" for number in options.figure or ()]
    words += [f"--{n} {v}" for n in ("seeds", "device") if (v := getattr(options, n)) is not None]
    words += ["--literal-bounds"] if options.literal_bounds else []
    words += ["--offline"] if options.offline else []
    return " ".join([*words, f"--out {shlex.quote(Path(options.out).name)}"])


def _report(options: argparse.Namespace) -> int:
    from ..report import write_report

    for claim in write_report(Path(options.out)).claims:
        print(f"{claim.verdict.value:<14} {claim.name}: {claim.measured}")
    print(f"report: {Path(options.out) / 'report.html'}")
    return 0


def _data(options: argparse.Namespace) -> int:
    if options.fetch is not None:
        print(datasets.fetch(options.fetch))
        return 0
    print(datasets.listing())
    return 0
