"""Numbers in sentences that promise something: rounded to the safe side."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal


def rounded_up(value: float, digits: int = 2) -> str:
    """The number with so many digits, not below it.

    >>> from mostfw.rounding import rounded_up
    >>> rounded_up(4.11), rounded_up(12083.19, 6), rounded_up(100.0), rounded_up(0.0)
    ('4.2', '12083.2', '100', '0')
    >>> rounded_up(1.23456e-9), rounded_up(-4.19)
    ('1.3e-9', '-4.1')
    """
    return _rounded(value, digits, ROUND_CEILING)


def rounded_down(value: float, digits: int = 2) -> str:
    """The number with so many digits, not above it.

    >>> from mostfw.rounding import rounded_down
    >>> rounded_down(108.6958, 6), rounded_down(-4.11), rounded_down(9.9, 6)
    ('108.695', '-4.2', '9.9')
    """
    return _rounded(value, digits, ROUND_FLOOR)


def _rounded(value: float, digits: int, way: str) -> str:
    exact = Decimal(float(value) + 0.0)  # without the sign of a zero
    held = Context(prec=digits, rounding=way).plus(exact).normalize()
    # Plain notation, but where most digits would be zeros.
    return f"{held:f}" if -6 < held.adjusted() < 16 else f"{held:e}"
