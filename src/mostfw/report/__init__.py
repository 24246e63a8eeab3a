"""The report: figures, tables and one self-contained page, from run folders only."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from pathlib import Path

from ..errors import InvalidInputError
from ..experiments.folders import Run, write
from ..experiments.study import STUDY
from .claims import claims
from .model import Report, Table
from .results import Results
from .sections import sections
from .tables import TIMES

__all__ = ["build", "write_report"]


def build(out: Path) -> Report:
    """The report of the complete runs under `out`, before it is drawn.

    >>> from pathlib import Path
    >>> from mostfw.report import build
    >>> build(Path("no-such-folder"))
    Traceback (most recent call last):
    mostfw.errors.InvalidInputError: folder 'no-such-folder' has no complete run: ...
    """
    results = Results.read(out)
    if not results.runs:
        raise InvalidInputError(
            f"folder {str(out)!r} has no complete run: make some with `mostfw reproduce --out`."
        )
    commands = out / "commands.json"
    return Report(
        title="Stochastic Frank-Wolfe with many constraints: what the runs say",
        summary=_QUICK * _is_quick(out)
        + (
            "Section IV of “Zeroth and First Order Stochastic Frank-Wolfe Algorithms for "
            "Constrained Optimization” (Akhtar, Rajawat), run again. Every verdict is computed "
            "from the runs below, by the rule that its row states. “Merit” is gap + violation; "
            "gaps, violations and merits are the largest over the second half of a run."
        ),
        claims=claims(results),
        sections=sections(results),
        environment=_environment(results.runs),
        command="; ".join(json.loads(commands.read_text())) if commands.is_file() else "",
        date=max(run.environment["date"] for run in results.runs),
    )


_QUICK = (
    "The quick form: small problems, few steps. Verdicts can differ at the paper's sizes, which "
    "mostfw reproduce runs without --quick.\n\n"
)


def _is_quick(out: Path) -> bool:
    path = out / STUDY
    return path.is_file() and json.loads(path.read_text("utf-8")).get("size") == "quick"


def _environment(runs: list[Run]) -> dict[str, str]:
    """What all runs have in common, and the variants where they differ."""
    found: dict[str, set[str]] = {}
    for run in runs:
        for name, value in run.environment.items():
            found.setdefault(name, set()).add(str(value))
    hours = sum(run.facts["seconds"] + run.facts.get("compile_seconds", 0.0) for run in runs) / 3600
    totals = {"runs": str(len(runs)), "hours of runs": f"{hours:.2f}"}
    return {name: ", ".join(sorted(values)) for name, values in found.items()} | totals


def write_report(out: Path) -> Report:
    """Writes report.html, tables/*.csv and figures/*.svg under `out`, and returns what it says."""
    from . import page, plots

    out = Path(out)
    report = build(out)
    rows = [(c.name, c.said, c.measured, c.verdict.value, c.why) for c in report.claims]
    head = ("claim", "the paper says", "measured", "verdict", "why")
    _write_table(out / "tables" / "claims.csv", Table("claims", head, tuple(rows)))
    for section in report.sections:
        for table in section.tables:
            folder = out / ("times" if table.title == TIMES else "tables")
            name = f"{section.name}-{table.title}".lower().replace(" ", "-").replace("+", "plus")
            _write_table(folder / f"{name}.csv", table)
        for panel in section.panels:
            path = out / "figures" / f"{panel.name}.svg"
            path.parent.mkdir(parents=True, exist_ok=True)
            figure = section.title.partition(":")[0]  # a file stands alone, without its section
            plots.save_svg(dataclasses.replace(panel, title=f"{figure}: {panel.title}"), path)
    page.write(report, out / "report.html")
    return report


def _write_table(path: Path, table: Table) -> None:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(table.head)
    writer.writerows(table.rows)
    write(path, file.getvalue())
