"""A report as one HTML file that needs nothing else: no network, no fonts, no scripts."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from typing import Any

from ..errors import MissingDependencyError
from . import plots
from .model import Claim, Panel, Report, Section, Table, Verdict

LONG = 16  # rows from which on a table is folded
# A verdict's class, the word for it in the count, and its glyph in a box of 16
SIGNS = {
    Verdict.HOLDS: ("holds", ("holds", "hold"), "M4 8.5 7 11.5 12.2 5"),
    Verdict.IN_PART: ("part", ("holds in part", "hold in part"), "M3.5 9.2C5.5 5.4 8 12 12.5 6.8"),
    Verdict.FAILS: (
        "fails",
        ("does not hold", "do not hold"),
        "M4.6 4.6 11.4 11.4M11.4 4.6 4.6 11.4",
    ),
    Verdict.UNKNOWN: (
        "unknown",
        ("not measured", "not measured"),
        "M4.2 8H4.6M7.8 8H8.2M11.4 8H11.8",
    ),
}
ONE = r"[<>≤≥≈~]?\s?[+−-]?(?:\d[\d,  ]*(?:\.\d+)?|\.\d+)(?:e[+−-]?\d+)?"
POWER = r"(?:\s?[·×]\s?10(?:\^?[+−-]?\d+|[⁺⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+))?"
UNIT = r"\s?(?:%|×|x|s|ms|µs|min|h|[kKMG]i?B)?"
NUMBER = re.compile(f"(?:{ONE}{POWER}{UNIT})(?:\\s?±\\s?{ONE}{POWER}{UNIT})?", re.IGNORECASE)
BLANK = {"", "-", "–", "—", "nan", "NaN", "n/a", "inf", "∞"}


def html(report: Report) -> str:
    """The whole page; the same report gives the same text.

    >>> text = html(Report("Runs & results", "All of them.", claims=(), sections=()))
    >>> text[:15], "Runs &amp; results" in text, "<script" in text
    ('<!doctype html>', True, False)
    """
    try:
        from jinja2 import Environment, StrictUndefined
        from markupsafe import Markup
    except ImportError as error:
        raise MissingDependencyError(
            "Writing a report needs jinja2: pip install 'mostfw[experiments]'."
        ) from error
    here = files("mostfw.report")
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["paragraphs"] = paragraphs
    template = environment.from_string((here / "template.html").read_text("utf-8"))
    taken: set[str] = {"claims", "environment", "top"}
    return template.render(
        report=report,
        style=Markup((here / "style.css").read_text("utf-8")),
        claims=[_claim(claim) for claim in report.claims],
        counts=_counts(report.claims),
        sections=[_section(section, taken, Markup) for section in report.sections],
    )


def write(report: Report, path: str | Path) -> None:
    """Write the page to a file, and the folders above it if need be.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write(Report("Runs", "All of them.", (), ()), Path(folder) / "new" / "index.html")
    ...     (Path(folder) / "new" / "index.html").exists()
    True
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(html(report).encode("utf-8", "replace"))


def paragraphs(text: str) -> list[str]:
    """A text's paragraphs, which empty lines divide.

    >>> paragraphs("One\\nline.\\n\\nAnother.")
    ['One\\nline.', 'Another.']
    """
    return [part.strip() for part in re.split(r"\n\s*\n", text) if part.strip()]


def numeric(cells: list[str]) -> bool:
    """Whether a column holds numbers, perhaps with units, errors or gaps.

    >>> numeric(["1.2e-3", "—", "95%", "1,024 ± 3"]), numeric(["3", "most-fw"]), numeric(["–"])
    (True, False, False)
    """
    full = [cell.strip() for cell in cells if cell.strip() not in BLANK]
    return bool(full) and all(NUMBER.fullmatch(cell) for cell in full)


def _claim(claim: Claim) -> dict[str, Any]:
    kind, _, glyph = SIGNS[claim.verdict]
    return {"item": claim, "kind": kind, "glyph": glyph}


def _counts(claims: tuple[Claim, ...]) -> list[dict[str, Any]]:
    """How many claims got each verdict, those that none got left out."""
    counted = []
    for verdict, (kind, words, glyph) in SIGNS.items():
        number = sum(claim.verdict is verdict for claim in claims)
        if number:
            word = words[number > 1]
            counted.append({"number": number, "word": word, "kind": kind, "glyph": glyph})
    return counted


def _section(section: Section, taken: set[str], safe: Any) -> dict[str, Any]:
    slug = re.sub(r"[^a-z0-9]+", "-", section.name.lower()).strip("-") or "section"
    name, number = slug, 1
    while name in taken:
        number += 1
        name = f"{slug}-{number}"
    taken.add(name)
    return {
        "item": section,
        "id": name,
        "panels": [_panel(p, f"{name}-{i}-", safe) for i, p in enumerate(section.panels)],
        "tables": [_table(table) for table in section.tables],
    }


def _panel(panel: Panel, prefix: str, safe: Any) -> dict[str, Any]:
    legend: dict[tuple[str, str], None] = {}  # the same line under the same name once only
    for curve in panel.curves:
        if curve.label:
            legend[(plots.swatch(curve), curve.label)] = None
    return {
        "item": panel,
        "svg": safe(plots.svg(panel, prefix)),
        "legend": [(safe(swatch), label) for swatch, label in legend],
    }


def _table(table: Table) -> dict[str, Any]:
    columns = [[row[i] for row in table.rows if i < len(row)] for i in range(len(table.head))]
    short = [max(map(len, column), default=0) <= 24 for column in columns]
    kinds = [
        "number" if numeric(c) else "word" if s else "text"
        for c, s in zip(columns, short, strict=True)
    ]
    return {"item": table, "kinds": kinds, "folded": table.folded or len(table.rows) >= LONG}
