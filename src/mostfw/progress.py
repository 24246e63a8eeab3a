"""A one-line progress bar on standard error, silent when that is not a terminal."""

from __future__ import annotations

import math
import shutil
import sys
import time
from typing import TYPE_CHECKING, Any

from . import checks
from .rounding import rounded_up

if TYPE_CHECKING:
    from .certificates import Certificate
    from .result import Record


class Bar:
    """Iterations done, the last measures, and the time left."""

    def __init__(self, first: int, last: int, wanted: bool | None) -> None:
        self.first, self.last = first, last
        self.on = sys.stderr.isatty() if wanted is None else checks.flag("progress", wanted)
        self.measures = ""
        self.drawn = 0.0

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: Any) -> None:
        if self.on:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()

    def show(self, record: Record, known: Certificate | None = None) -> None:
        gap = ""
        if record.relative_gap is not None:
            gap = f"  gap {record.relative_gap:+.2e}"
        elif known is not None and math.isfinite(known.relative_gap):
            gap = f"  gap at most {rounded_up(100 * abs(known.relative_gap))}%"
        worst = max(record.relative_violation.values(), default=0.0)
        self.measures = f"objective {record.objective:.6g}{gap}  violation {worst:.1e}"

    def step(self, done: int, seconds: float) -> None:
        if not self.on or (time.monotonic() - self.drawn < 0.1 and done < self.last):
            return
        self.drawn = time.monotonic()
        share = (done - self.first) / max(1, self.last - self.first)
        left = seconds / share * (1 - share) if share > 0 else 0.0
        filled = round(20 * share)
        line = f"{'#' * filled}{'.' * (20 - filled)} {done}/{self.last}  {self.measures}"
        line = f"{line}  {left:.0f} s left"
        width = shutil.get_terminal_size().columns - 1
        sys.stderr.write("\r\033[K" + line[:width])
        sys.stderr.flush()
