"""`mostfw solve`: a semidefinite program from a file."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ... import problems, sdpa
from ...certificates import SURE, relative_gap
from ...errors import MissingDependencyError
from ...result import Result, worst_violation
from ...rounding import rounded_up
from ...solving import solve
from ...stopping import Certified
from ..keeping import kept
from ._common import Outcome, add_job, shown

if TYPE_CHECKING:
    from ...estimators._cost import Cost

CONVERGED = 0.01
DIGITS = 8  # of bounds in sentences
# Arrays of as many numbers as Y and the equations have, and passes over one in a step, as measured;
# the bounds that a run waits for take some seconds more.
ARRAYS, PASSES, BOUNDS_SECONDS = 30, 60, 4.0


def add(commands: Any) -> None:
    parser = add_job(
        commands,
        "solve",
        "Solves a semidefinite program in the SDPA sparse format",
        _solve,
        file=".dat-s, gzip too",
        iterations=50_000,
        gap=1e-3,
    )
    parser.add_argument("--trace-bound", type=float, metavar="T", help="on the trace of Y")
    parser.add_argument("--method", default="cgal", help="a name from `mostfw methods`")
    parser.add_argument("--violation", type=float, default=1e-3, help="relative; default 1e-3")


def _solve(options: argparse.Namespace) -> Outcome:
    program = sdpa.read(options.file)
    problem = problems.sdp(program, options.trace_bound)
    _announce(options, program)
    result = solve(
        problem,
        options.method,
        iterations=options.iterations,
        seconds=options.time,
        seed=options.seed,
        stop=Certified(gap=options.gap, violation=options.violation),
        progress=shown(options),
        **kept(options),
    )
    found = result.answer
    bound = None if result.certificate is None else -result.certificate.lower
    return Outcome(
        words=_words(result, found.value, options.trace_bound),
        facts={"value": found.value, "upper_bound": bound},
        arrays={f"block_{index + 1}": block for index, block in enumerate(found.blocks)},
        header=("block", "row", "column", "value"),
        rows=_entries(found.blocks),
        panels=list,
        result=result,
    )


def _announce(options: argparse.Namespace, program: sdpa.SemidefiniteProgram) -> None:
    """Says what the run will take, and refuses what the machine has no room for. How many steps it
    needs is known to nobody, so that the time is that of all which are allowed."""
    try:
        cost = cost_of(program, options.iterations).within(options.time)
    except MissingDependencyError:  # scikit-learn is not needed for anything else here
        return
    sizes = ", ".join(str(side) for side, _ in _sides(program)[:4])
    more = ", ..." if len(program.sizes) > 4 else ""
    what = f"blocks of size {sizes}{more} with {program.constraints} equations"
    cost.require_memory(what, "use a machine with more")
    if not options.quiet:
        print(f"This will take {cost}.", file=sys.stderr)


def cost_of(program: sdpa.SemidefiniteProgram, iterations: int) -> Cost:
    """What so many steps will take."""
    from ...estimators._cost import Load

    entries = len(program.value) + program.constraints
    numbers = sum(side if plain else side**2 for side, plain in _sides(program)) + entries
    return Load(numbers, ARRAYS, PASSES, besides=BOUNDS_SECONDS).cost(iterations)


def _sides(program: sdpa.SemidefiniteProgram) -> list[tuple[int, bool]]:
    """Of each block, and whether it is diagonal."""
    return list(zip(program.sizes, program.diagonal, strict=True))


def _words(result: Result, value: float, trace_bound: float | None) -> str:
    """The file's own problem is a maximum, so that the certificate is a bound from above."""
    text, certificate = f"<F_0, Y> = {value:.8g}", result.certificate
    if certificate is None:
        return f"{text}; no bound is known."
    bound = -certificate.lower
    violation = worst_violation(result.last)
    side = "above" if bound >= value else "below"
    gap = abs(relative_gap(bound, value))
    apart = side if math.isinf(gap) else f"{rounded_up(100 * gap)}% {side}"
    # The file does not say this bound: what a Y of larger trace has is not known.
    feasible = "feasible Y" if trace_bound is None else f"feasible Y of trace <= {trace_bound!r}"
    text = (
        f"{text}; no {feasible} has more than {rounded_up(bound, DIGITS)} "
        f"({SURE[certificate.kind]}), {apart} that."
    )
    if gap <= CONVERGED and violation <= CONVERGED:
        return text
    return (
        f"{text} That is not converged: both the gap and the relative violation of the equations "
        f"should be below {100 * CONVERGED:g}%. More --iterations may help; a smaller "
        "--trace-bound, if you know one, helps most."
    )


def _entries(blocks: Any) -> Iterator[tuple[int, int, int, float]]:
    """The upper triangles, counted from 1 as in the file."""
    for index, block in enumerate(blocks):
        for i, row in enumerate(block):
            if block.ndim == 1:
                yield index + 1, i + 1, i + 1, float(row)
                continue
            for j in range(i, len(block)):
                if row[j]:
                    yield index + 1, i + 1, j + 1, float(row[j])
