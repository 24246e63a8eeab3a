"""Axes: what they can show, where they end, and their ticks."""

from __future__ import annotations

import math

import numpy as np

DIGITS, SUPERSCRIPTS = "−0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"
LARGEST = 1e150  # beyond this, or below its inverse, axes overflow; such numbers are not shown


def number(value: float) -> str:
    """A tick's label.

    >>> number(0.25), number(20000), number(-2e-7), number(1e5), number(0.0)
    ('0.25', '20,000', '−2·10⁻⁷', '10⁵', '0')
    """
    if value == 0 or 1e-3 <= abs(value) < 1e5:
        return f"{value:,.6g}".replace("-", "−")
    mantissa, exponent = f"{value:.4e}".split("e")
    mantissa = f"{float(mantissa):g}·".replace("-", "−")
    return f"{'' if mantissa == '1·' else mantissa}10{_raised(int(exponent))}"


def _raised(exponent: int) -> str:
    return str(exponent).replace("-", "−").translate(str.maketrans(DIGITS, SUPERSCRIPTS))


def power(value: float) -> str:
    """The label of a power of ten.

    >>> power(1e-3), power(1)
    ('10⁻³', '10⁰')
    """
    return "10" + _raised(round(math.log10(value)))


class Scale:
    """One axis: which values it can show, its ends, its ticks and places along it.

    >>> scale = Scale([np.array([0.0, 1.0, 100.0, np.inf])], log=True)
    >>> scale.ticks()[0], round(scale.part(10.0), 3)
    ([1.0, 10.0, 100.0], 0.5)
    """

    def __init__(self, values: list[np.ndarray], log: bool) -> None:
        self.log = log
        seen = np.concatenate([[], *(v[self.shows(v)] for v in values)])
        self.empty = not seen.size
        low, high = (float(seen.min()), float(seen.max())) if seen.size else (1.0, 10.0)
        if log:
            low, high = math.log10(low), math.log10(high)
            if high - low < 1e-3:
                low, high = low - 0.3, high + 0.3
        elif 0 <= low < 0.35 * high:
            low = 0.0
        elif high - low <= 1e-9 * abs(high):
            low, high = low - (abs(low) / 2 or 1.0), high + (abs(high) / 2 or 1.0)
        self.start, self.span = low - 0.03 * (high - low), 1.06 * (high - low)
        self.limits = (self.at(0.0), self.at(1.0))

    def shows(self, values: np.ndarray) -> np.ndarray:
        """Which values have a place on this axis."""
        with np.errstate(invalid="ignore"):
            fine = np.isfinite(values) & (np.abs(values) < LARGEST)
            return fine & (values > 1 / LARGEST) if self.log else fine

    def at(self, part: float) -> float:
        """The value at a part of the way from the axis' start (0) to its end (1)."""
        value = self.start + part * self.span
        return 10.0 ** min(max(value, -300.0), 300.0) if self.log else value

    def part(self, value: float) -> float:
        """How far along the axis a value lies."""
        return ((math.log10(value) if self.log else value) - self.start) / self.span

    def ticks(self) -> tuple[list[float], list[float]]:
        """Ticks with labels and ticks without; on a log axis powers of ten if there are two."""
        from matplotlib.ticker import MaxNLocator

        low, high = self.limits
        if self.log:
            powers = range(math.ceil(self.start), math.floor(self.start + self.span) + 1)
            if len(powers) >= 2:
                every = math.ceil(len(powers) / 6)
                between = range(2, 10) if len(powers) <= 6 else range(1, 2)
                outer = range(powers[0] - 1, powers[-1] + 1)
                minor = [m * 10.0**k for k in outer for m in between]
                return [10.0**k for k in powers[::every]], [m for m in minor if low <= m <= high]
            near = range(math.floor(self.start), math.ceil(self.start + self.span) + 1)
            nice = [m * 10.0**k for k in near for m in (1, 2, 5)]
            if len(nice := [value for value in nice if low <= value <= high]) >= 2:
                return nice, []
        places = MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
        return [float(v) for v in places if low <= v <= high], []
