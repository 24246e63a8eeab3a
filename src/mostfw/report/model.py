"""What a report is made of, before it is drawn: claims, sections, panels, tables."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

import numpy as np


class Verdict(enum.Enum):
    """What the runs say of a claim."""

    HOLDS = "holds"
    IN_PART = "holds in part"
    FAILS = "does not hold"
    UNKNOWN = "not measured"


@dataclass(frozen=True)
class Claim:
    """One sentence of the paper, what was measured here, and the verdict computed from it."""

    name: str
    said: str
    measured: str
    verdict: Verdict
    why: str


@dataclass(frozen=True)
class Curve:
    """A line with a band over seeds; `method` decides its colour everywhere."""

    label: str
    method: str
    x: np.ndarray
    y: np.ndarray
    low: np.ndarray | None = None
    high: np.ndarray | None = None
    line: str = "solid"  # solid, dashed, dotted, or none for markers alone
    marker: str = ""  # matplotlib's name of a marker, on every point
    shade: float = 1.0  # below 1: a paler member of a family, such as another tau_0
    notes: tuple[str, ...] = ()  # one a point, written beside it


@dataclass(frozen=True)
class Guide:
    """A thin line of a theoretical slope: y = level (x/x_1)^slope."""

    label: str
    slope: float


@dataclass(frozen=True)
class Panel:
    """One picture: axes and what is drawn in them."""

    name: str
    title: str
    x_label: str
    y_label: str
    curves: tuple[Curve, ...]
    x_log: bool = True
    y_log: bool = True
    guides: tuple[Guide, ...] = ()
    description: str = ""  # for people who cannot see it
    caption: str = ""  # for people who can


@dataclass(frozen=True)
class Table:
    """Rows of text under a head; numbers are right-aligned by the page."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    folded: bool = False  # shown on demand; tables of many rows always are


@dataclass(frozen=True)
class Section:
    """One figure of the paper, with its tables and what to know about it."""

    name: str
    title: str
    summary: str
    panels: tuple[Panel, ...] = ()
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Report:
    """The whole page."""

    title: str
    summary: str
    claims: tuple[Claim, ...]
    sections: tuple[Section, ...]
    environment: dict[str, str] = field(default_factory=dict)
    command: str = ""
    date: str = ""
