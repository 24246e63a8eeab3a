"""Numbers in sentences that promise something: rounded to the safe side."""

from __future__ import annotations

from decimal import ROUND_CEILING, Context, Decimal


def rounded_up(value: float, digits: int = 2) -> str:
    """The number with so many digits, not below it.

    >>> from mostfw.estimators._words import rounded_up
    >>> rounded_up(4.11), rounded_up(12083.19, 6), rounded_up(100.0), rounded_up(0.0)
    ('4.2', '12083.2', '100', '0')
    """
    exact = Decimal(float(value))
    held = Context(prec=digits, rounding=ROUND_CEILING).plus(exact)
    # Plain notation; digits after the point that are 0 say nothing.
    text = f"{held:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
