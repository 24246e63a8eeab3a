"""Completion of a matrix of low rank whose entries are known to lie in a range."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import checks, domains, maps, objectives, sets
from ..constraints import Affine
from ..errors import InvalidInputError, ShapeError
from ..problem import Problem
from .covariance import RelativeError


def completion(
    entries: Any,
    *,
    radius: float,
    shape: Sequence[int] | None = None,
    bounds: tuple[float, float] = (1.0, 5.0),
    batch: float | int | None = None,
    constraint_batch: float | int | None = None,
    sampling: str = "shuffled",
    box_weight: float | None = None,
    optimum: float | None = None,
    truth: Any = None,
    dtype: Any = np.float64,
) -> Problem:
    """min of the mean of (X_ij - r_ij)^2/2 over the observed entries, over the nuclear ball,
    subject to bounds[0] <= X_ij <= bounds[1] for all entries.

    `entries` is (rows, columns, values), or a matrix with NaN where nothing is known. `radius`
    bounds the sum of singular values. `batch` samples the observations, in shuffled passes or as
    in the paper (`sampling="replacement"`); `constraint_batch` the bounds, which makes the problem
    P+. `box_weight` is the weight of the bounds; by default it is 1/(number of observations), what
    one observation weighs in the mean, so that values of mu_c near 1 serve at every size. With the
    `truth` T the metric `relative_error` is ||X - T||^2/||T||^2. The answer is X moved into the
    bounds.

    >>> import numpy as np, mostfw as fw
    >>> known = np.array([[5.0, 5.0, np.nan], [5.0, np.nan, 1.0]])
    >>> problem = fw.problems.completion(known, radius=9.0)
    >>> print(problem)
    min EntryLoss over NuclearBall, subject to box: Identity x in Box(1, 5)
    """
    rows, columns, values, shape = observations(entries, shape)
    lower, upper = checked_bounds(bounds)
    radius = checks.number("radius", radius, above=0)
    # Entries of size c make a Frobenius norm of c sqrt(mn), and no nuclear norm is below that.
    least = smallest_entry(lower, upper) * math.sqrt(shape[0] * shape[1])
    if radius < least:
        raise InvalidInputError(
            f"radius is {radius:g}, but a matrix of shape {shape} with entries in "
            f"[{lower:g}, {upper:g}] has a nuclear norm of at least {least:g}: raise the radius."
        )
    box_weight = 1 / len(values) if box_weight is None else box_weight
    box = Affine(
        maps.Identity(),
        sets.Box(lower, upper),
        weight=box_weight,
        name="box",
        batch=constraint_batch,
    )
    metrics = {}
    if truth is not None:
        truth = np.asarray(checks.data("the truth", truth), dtype=dtype)
        if truth.shape != shape:
            raise ShapeError(f"the truth has shape {truth.shape}, but the matrix has {shape}.")
        metrics["relative_error"] = RelativeError(truth)
    return Problem(
        objectives.EntryLoss(rows, columns, values.astype(dtype), batch, sampling),
        domains.NuclearBall(shape, radius),
        [box],
        optimum=optimum,
        metrics=metrics,
        answer=functools.partial(np.clip, a_min=lower, a_max=upper),
        feasible=functools.partial(pulled, bounds=(lower, upper), radius=radius),
        name=f"completion {shape[0]}x{shape[1]}",
        dtype=dtype,
    )


def pulled(x: Any, *, bounds: tuple[float, float], radius: float) -> np.ndarray:
    """X as far towards a constant matrix as it takes to be inside the bounds: the ball is convex,
    so that a point of it stays there.

    >>> import numpy as np
    >>> from mostfw.problems.completion import pulled
    >>> pulled(np.array([[3.0, 6.0]]), bounds=(1.0, 5.0), radius=9.0).round(3).tolist()
    [[3.0, 5.0]]
    """
    x = np.asarray(x, dtype=float)
    lower, upper = bounds
    most = radius / math.sqrt(x.size)  # a constant c has the nuclear norm |c| sqrt(mn)
    middle = min(max((lower + upper) / 2, -most), most)
    rooms, lengths = np.where(x > middle, upper - middle, middle - lower), np.abs(x - middle)
    outside = lengths > rooms
    share = np.min(rooms[outside] / lengths[outside], initial=1.0)
    return middle + max(share, 0.0) * (x - middle)


def observations(
    entries: Any, shape: Sequence[int] | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, tuple[int, int]]:
    """Rows, columns and values of the observed entries, and the shape of the matrix.

    `entries` is a tuple (rows, columns, values), whose shape is the smallest that holds them
    unless it is given, or a matrix with NaN where nothing is known.

    >>> from mostfw.problems.completion import observations
    >>> observations([[float("nan"), 3.0], [2.0, float("nan")]])[2].tolist()
    [3.0, 2.0]
    """
    if isinstance(entries, tuple):
        if len(entries) != 3:
            raise InvalidInputError(
                f"the entries are a tuple of {len(entries)}: give (rows, columns, values)."
            )
        # EntryLoss has the rules for positions and values; it says what is wrong with them.
        loss = objectives.EntryLoss(*entries)
        rows, columns = np.asarray(loss.row_index), np.asarray(loss.column_index)
        values = np.asarray(loss.values, dtype=float)
        least = (int(rows.max()) + 1, int(columns.max()) + 1)
    else:
        try:
            matrix = np.asarray(entries, dtype=float)
        except (TypeError, ValueError):
            raise InvalidInputError(
                "the entries are no matrix of numbers: give one with NaN for what is unknown, or "
                "a tuple (rows, columns, values)."
            ) from None
        if matrix.ndim != 2:
            raise ShapeError(f"the entries have shape {matrix.shape}: give a matrix.")
        rows, columns = np.nonzero(~np.isnan(matrix))
        values = checks.data("the observed entries", matrix[rows, columns])
        least = (matrix.shape[0], matrix.shape[1])
    sizes = least if shape is None else checks.shape("shape", shape)
    if len(sizes) != 2 or sizes[0] < least[0] or sizes[1] < least[1]:
        raise ShapeError(f"shape is {sizes}, but the entries need two sizes of at least {least}.")
    return rows, columns, values, (sizes[0], sizes[1])


def checked_bounds(bounds: Any) -> tuple[float, float]:
    """Two finite numbers, the lower first.

    >>> from mostfw.problems.completion import checked_bounds
    >>> checked_bounds((1, 5))
    (1.0, 5.0)
    """
    if np.shape(bounds) != (2,):
        raise InvalidInputError(f"bounds are {bounds!r}: give (lower, upper).")
    lower = checks.number("the lower bound", bounds[0])
    return lower, checks.number("the upper bound", bounds[1], above=lower)


def smallest_entry(lower: float, upper: float) -> float:
    """The smallest |c| with lower <= c <= upper.

    >>> from mostfw.problems.completion import smallest_entry
    >>> smallest_entry(1.0, 5.0), smallest_entry(-2.0, 3.0)
    (1.0, 0.0)
    """
    return max(lower, -upper, 0.0)


@dataclasses.dataclass(frozen=True)
class Ratings:
    """Noisy ratings of some entries of a known matrix: `entries` is what `completion` takes, and
    `radius` the nuclear norm of the `truth`."""

    rows: np.ndarray
    columns: np.ndarray
    values: np.ndarray
    truth: np.ndarray
    radius: float

    @property
    def entries(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.rows, self.columns, self.values


def generated_ratings(
    rows: int,
    columns: int,
    rank: int,
    observed: float = 0.3,
    noise: float = 0.3,
    bounds: tuple[float, float] = (1.0, 5.0),
    seed: int = 0,
) -> Ratings:
    """Ratings of `columns` things by `rows` people, who are mixtures of `rank` types.

    A type likes (upper bound) three things in ten, dislikes (lower bound) as many, and is between
    about the others. Half of the people are of one pure type, so that the truth, of rank at most
    `rank`, has many entries on the bounds. A share `observed` of the entries is seen, each once,
    with Gaussian noise of that standard deviation, which may leave the bounds.

    >>> from mostfw.problems.completion import generated_ratings
    >>> ratings = generated_ratings(20, 10, rank=2)
    >>> len(ratings.values), float(ratings.truth.min()), float(ratings.truth.max())
    (60, 1.0, 5.0)
    """
    rows, columns = checks.whole("rows", rows, 1), checks.whole("columns", columns, 1)
    rank = checks.whole("rank", rank, 1, min(rows, columns))
    share = checks.number("observed", observed, above=0)
    if share > 1:
        raise InvalidInputError(f"observed is {observed!r}: give a share in (0, 1].")
    noise = checks.number("noise", noise, least=0)
    lower, upper = checked_bounds(bounds)
    rng = np.random.default_rng(checks.whole("seed", seed, 0))
    between = rng.uniform(lower, upper, (rank, columns))
    chance = rng.random((rank, columns))
    tastes = np.where(chance < 0.3, lower, np.where(chance < 0.6, upper, between))
    mixtures = rng.dirichlet(np.ones(rank), rows)
    pure = rng.random(rows) < 0.5
    mixtures[pure] = np.eye(rank)[rng.integers(0, rank, rows)][pure]
    # A mixture of numbers on a bound is on it; rounding must not carry it across.
    truth = np.clip(mixtures @ tastes, lower, upper)
    seen = rng.choice(rows * columns, math.ceil(share * rows * columns), replace=False)
    values = truth.reshape(-1)[seen] + noise * rng.standard_normal(seen.size)
    return Ratings(
        rows=seen // columns,
        columns=seen % columns,
        values=values,
        truth=truth,
        radius=float(np.linalg.norm(truth, "nuc")),
    )
