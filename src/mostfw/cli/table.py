"""`mostfw methods`: Table 1, live."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from .. import methods, theory
from ..method import Method


def add(commands: Any) -> None:
    """Adds `methods` to the commands of the parser."""
    table = commands.add_parser("methods", help="the methods: parts, rates, oracle calls")
    table.add_argument("name", nargs="?", help="show one method with all its parts")
    table.set_defaults(command=_methods)


def _methods(options: argparse.Namespace) -> int:
    if options.name is not None:
        method = methods.get(options.name)
        rate = theory.rate(method.name)
        print(method)
        print(f"  gap          {_power(rate.gap_exponent)}")
        print(f"  violation    {_power(rate.violation_exponent)}")
        print(f"  calls        {rate.oracle_calls} ({rate.oracle})")
        print(f"  reference    {rate.reference}")
        return 0
    rows = [("method", "oracle", "tracker", "constraints", "step", "gap", "violation", "calls")]
    rows += [method_row(methods.get(name)) for name in methods.names()]
    print(aligned(rows))
    print(
        "\nt- before any name is its trimmed form. `mostfw methods NAME` shows one with its parts."
    )
    return 0


def method_row(method: Method) -> tuple[str, ...]:
    """One row of the table of methods."""
    rate = theory.rate(method.name)
    handling = method.constraints
    if method.smoothing is not None:
        handling = f"{handling}, {method.smoothing.formula}"
    return (
        method.name,
        str(method.oracle),
        str(method.tracker),
        handling,
        str(method.step_size),
        _power(rate.gap_exponent),
        _power(rate.violation_exponent),
        rate.oracle_calls,
    )


def _power(exponent: Any) -> str:
    return "-" if exponent is None else f"k^({exponent})"


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Columns of equal width, a rule under the head."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(f"{c:<{w}}" for c, w in zip(row, widths, strict=True)) for row in rows]
    return "\n".join([lines[0].rstrip(), "-" * len(lines[0]), *(s.rstrip() for s in lines[1:])])
