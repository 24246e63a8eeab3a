"""Semidefinite programs from files in the SDPA sparse format, or put together by hand."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
import scipy.sparse.linalg

from .. import checks, domains, maps, objectives, sets
from ..constraints import Affine
from ..errors import InvalidInputError
from ..problem import Problem
from ..sdpa import SemidefiniteProgram, read

# How well a combination of the constraint matrices must be the identity to count as it: the error
# of the trace is at most that large, relative to the trace.
SPAN_TOLERANCE = 1e-9
# A matrix further from the identity bounds the trace too, but far above what solutions have: on
# SDPLIB's control1 by 168,000. A run would be slow in proportion, so a person is asked instead.
LEAST_EIGENVALUE = 0.1


def sdp(
    source: str | Path | SemidefiniteProgram,
    trace_bound: float | None = None,
    *,
    constraint_batch: float | int | None = None,
    optimum: float | None = None,
    dtype: Any = np.float64,
) -> Problem:
    """min <-F_0, Y> subject to <F_k, Y> = c_k for all k, over {Y psd, tr Y <= trace_bound}.

    `source` is a file in the SDPA sparse format (.dat-s, gzip too) or what `mostfw.sdpa` read. This
    is the program (D) of that format, max <F_0, Y>, as a minimisation: `optimum` is *minus* the
    published value. Y is a matrix, or a tuple of matrices under one trace bound where the file has
    several blocks. A diagonal block of p numbers is a p x p matrix of which only the diagonal
    counts: that of a psd matrix is any p numbers >= 0, and its LMO is a smallest number.

    Where the constraints say what the trace is (as diag Y = 1 does), or bound it, that is found
    and `trace_bound` can be left out. `constraint_batch` samples the constraints, which makes the
    problem P+. The answer is a `Solution` in the terms of the file.

    >>> import numpy as np, mostfw as fw
    >>> text = "2\\n1\\n2\\n1 1\\n0 1 1 2 1.0\\n1 1 1 1 1.0\\n2 1 2 2 1.0\\n"
    >>> problem = fw.problems.sdp(fw.sdpa.parse(text))
    >>> problem.domain.trace, problem.domain.equality
    (2.0, True)
    >>> problem.answer(np.ones((2, 2))).value
    2.0
    """
    program = source if isinstance(source, SemidefiniteProgram) else read(source)
    _require_possible(program)
    if trace_bound is None:
        trace, exact = _needed_trace(program)
    else:
        trace, exact = checks.number("trace_bound", trace_bound, above=0), False
    single = len(program.sizes) == 1
    sizes = program.sizes[0] if single else program.sizes
    counted = program.matrix > 0
    coefficients = maps.Coefficients(
        program.matrix[counted] - 1,
        program.row[counted],
        program.column[counted],
        program.value[counted],
        rows=program.constraints,
        sizes=sizes,
        block=program.block[counted],
    )
    try:
        objective = tuple((-block).astype(dtype) for block in program.blocks_of(0))
    except MemoryError:
        raise InvalidInputError(
            f"the blocks of {program.name!r} have sizes {program.sizes[:8]}: their matrices do not "
            "fit into memory."
        ) from None
    return Problem(
        objectives.Linear(objective[0] if single else objective),
        domains.Spectrahedron(sizes, trace=trace, equality=exact),
        [
            Affine(
                coefficients,
                sets.Point(program.right_hand_side.astype(dtype)),
                name="equations",
                batch=constraint_batch,
            )
        ],
        optimum=optimum,
        answer=lambda y: solution(program, y),
        name=f"sdp {program.name}",
        dtype=dtype,
    )


@dataclasses.dataclass(frozen=True)
class Solution:
    """Y block by block, diagonal blocks as vectors, and <F_0, Y>, which the file maximises.

    >>> from mostfw.problems.sdp import Solution
    >>> Solution(blocks=(), value=23.0).value
    23.0
    """

    blocks: tuple[np.ndarray, ...]
    value: float


def solution(program: SemidefiniteProgram, y: Any) -> Solution:
    """A point of the problem in the terms of the file.

    >>> import numpy as np, mostfw as fw
    >>> from mostfw.problems.sdp import solution
    >>> program = fw.sdpa.parse("1\\n1\\n-2\\n1.0\\n0 1 1 1 5.0\\n1 1 2 2 1.0\\n")
    >>> solution(program, np.eye(2)).value
    5.0
    """
    blocks = [np.asarray(block, dtype=float) for block in (y if isinstance(y, tuple) else (y,))]
    value = sum(
        float(np.sum(f * block)) for f, block in zip(program.blocks_of(0), blocks, strict=True)
    )
    shown = (
        np.diagonal(block) if flat else block
        for flat, block in zip(program.diagonal, blocks, strict=True)
    )
    return Solution(tuple(shown), value)


def implied_trace(program: SemidefiniteProgram) -> tuple[float, bool] | None:
    """What <F_k, Y> = c_k for all k says about tr Y: (number, True) if it is that number,
    (number, False) if it is at most that, None if nothing was found.

    If the sum of a_k F_k is the identity, tr Y = a'c. If it is a matrix S with smallest eigenvalue
    e > 0, then e tr Y <= <S, Y> = a'c for every psd Y. Tried is the a with S nearest to the
    identity, so there may be a bound where none is found.

    >>> import mostfw as fw
    >>> from mostfw.problems.sdp import implied_trace
    >>> head = "2\\n1\\n2\\n1.0 3.0\\n"
    >>> implied_trace(fw.sdpa.parse(head + "1 1 1 1 1.0\\n2 1 2 2 1.0\\n"))
    (4.0, True)
    >>> implied_trace(fw.sdpa.parse(head + "1 1 1 2 1.0\\n2 1 2 2 1.0\\n")) is None
    True
    """
    counted = program.matrix > 0
    entries = np.stack([program.block, program.row, program.column])[:, counted]
    places, place = np.unique(entries, axis=1, return_inverse=True)
    on_diagonal = places[1] == places[2]
    if np.count_nonzero(on_diagonal) < sum(program.sizes):
        return None  # some Y_ii is in no constraint
    # Each F_k as a column, such that the norm of a column is that of the matrix.
    lengths = np.where(on_diagonal, 1.0, np.sqrt(2.0))
    shape = (places.shape[1], program.constraints)
    where = (place.reshape(-1), program.matrix[counted] - 1)
    values = program.value[counted] * lengths[where[0]]
    columns: Any = scipy.sparse.csr_array((values, where), shape=shape)
    norms = np.sqrt(np.maximum(columns.power(2).sum(axis=0), np.finfo(float).tiny))
    scaled = columns @ scipy.sparse.diags_array(1 / norms)
    identity = on_diagonal.astype(float)
    found = scipy.sparse.linalg.lsqr(scaled, identity, atol=1e-14, btol=1e-14, iter_lim=10_000)
    weights = found[0] / norms
    combined = columns @ weights
    # Known to the tolerance only: without the digits beyond it, tr Y = n is found as n.
    trace = float(f"{weights @ program.right_hand_side:.10e}")
    if np.linalg.norm(combined - identity) <= SPAN_TOLERANCE:
        return trace, True
    smallest = _smallest_eigenvalue(program.sizes, places, combined / lengths)
    return (trace / smallest, False) if smallest >= LEAST_EIGENVALUE else None


def _smallest_eigenvalue(sizes: tuple[int, ...], places: np.ndarray, values: np.ndarray) -> float:
    smallest = np.inf
    for index, size in enumerate(sizes):
        _, row, column = places[:, places[0] == index]
        block = np.zeros((size, size))
        block[row, column] = block[column, row] = values[places[0] == index]
        smallest = min(smallest, float(np.linalg.eigvalsh(block)[0]))
    return smallest


def _needed_trace(program: SemidefiniteProgram) -> tuple[float, bool]:
    found = implied_trace(program)
    if found is None:
        raise InvalidInputError(
            f"the constraints of {program.name!r} imply no bound on the trace of Y that could be "
            "found: give trace_bound=, a number that the sum of the eigenvalues of a solution does "
            "not exceed. Too large a number is safe but slows the run in proportion."
        )
    if found[0] <= 0:
        raise InvalidInputError(
            f"the constraints of {program.name!r} imply that the trace of Y is at most "
            f"{found[0]:g}, which no psd Y but 0 has: check the right-hand sides."
        )
    return found


def _require_possible(program: SemidefiniteProgram) -> None:
    """A constraint without a matrix can be kept only if its right-hand side is 0."""
    empty = np.bincount(program.matrix, minlength=program.constraints + 1)[1:] == 0
    broken = np.flatnonzero(empty & (program.right_hand_side != 0))
    if broken.size:
        raise InvalidInputError(
            f"constraint {broken[0] + 1} of {program.name!r} has no entries, but the right-hand "
            f"side {program.right_hand_side[broken[0]]:g}: no Y fulfils it; correct the file."
        )
