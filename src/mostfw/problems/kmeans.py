"""k-means clustering and its semidefinite relaxation (Peng and Wei)."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import checks, domains, maps, objectives, sets
from ..constraints import Affine
from ..errors import InvalidInputError, ShapeError
from ..problem import Problem

SAMPLINGS = ("shuffled", "entries", "block")
EPS = float(np.finfo(np.float64).eps)
STARTS = 4  # of Lloyd's steps, for each rounding


def kmeans(
    points: Any,
    clusters: int,
    *,
    batch: float | int | None = None,
    constraint_batch: float | int | None = None,
    sampling: str | None = None,
    sign_weight: float = 1000.0,
    stored: bool = False,
    optimum: float | None = None,
    dtype: Any = np.float64,
) -> Problem:
    """min <D, X> over {X psd, tr X <= K}, X1 = 1, X >= 0, D the squared distances of the points.

    `batch` samples the entries of D, which are computed when drawn; `constraint_batch` the signs,
    which makes the problem P+; the row sums are always whole. `sampling` is how: in shuffled passes
    ("shuffled", the default), by single entries with replacement as in the paper ("entries"), or by
    principal blocks ("block"). `sign_weight` is the weight of X >= 0 against X1 = 1. `stored` keeps
    D, as large as X, where it would be computed anew at each step: for exact gradients. The inertia
    of a clustering is half the objective of its X.

    >>> import numpy as np, mostfw as fw
    >>> problem = fw.problems.kmeans(np.array([[0.0], [0.1], [5.0], [5.1]]), clusters=2)
    >>> problem.domain.trace
    2.0
    """
    dtype = checks.float_dtype(dtype)
    points = np.asarray(checks.data("the points", points), dtype=dtype)
    if points.ndim != 2:
        raise ShapeError(f"the points have shape {points.shape}: give one row a point.")
    n = points.shape[0]
    clusters = checks.whole("clusters", clusters, 1, n)
    stored = checks.flag("stored", stored)
    sampling = checks.choice("sampling", "shuffled" if sampling is None else sampling, SAMPLINGS)
    return Problem(
        _distances(points, batch, sampling, stored),
        ClusterMatrices(n, trace=float(clusters)),  # pyright: ignore[reportCallIssue]
        [
            Affine(maps.RowSums(), sets.Point(1.0), name="rows"),
            Affine(
                maps.Identity(symmetric=True),
                sets.Orthant(1),
                weight=sign_weight,
                name="sign",
                batch=constraint_batch,
            ),
        ],
        optimum=optimum,
        metrics={"trace": _trace},
        answer=functools.partial(rounded, points, clusters=clusters),
        feasible=functools.partial(_clustered, points, clusters),
        name=f"kmeans N={n} K={clusters}",
        dtype=dtype,
    )


def _distances(
    points: np.ndarray, batch: float | int | None, sampling: str, stored: bool
) -> objectives.Objective:
    if not stored:
        return objectives.SquaredDistances(points, batch=batch, sampling=sampling)
    if batch is not None:
        raise InvalidInputError(
            f"batch is {batch!r} and stored is True: sampled distances are computed when drawn. "
            "Leave one of them out."
        )
    about = points - points.mean(axis=0)  # where least cancels
    return objectives.Linear(squared_distances(about))


# Partial applications of these and no closures, which pickle refuses, as it does jnp.trace.
def _trace(x: jax.Array) -> jax.Array:
    return jnp.trace(x)


def _clustered(points: np.ndarray, clusters: int, x: np.ndarray) -> np.ndarray:
    return cluster_matrix(rounded(points, x, clusters))


class ClusterMatrices(domains.Spectrahedron):
    """{X psd, tr X <= K}, which knows what X1 = 1 and X >= 0 mean where both are constraints.

    With them no eigenvalue of X is above 1, so that X = 11'/n + Y with Y1 = 0, 0 <= Y <= I and
    tr Y <= K - 1, and <S, X> is at least 1'S1/n plus the K - 1 least eigenvalues of S on the
    complement of 1, where they are negative; of one more only the share by which K - 1 exceeds a
    whole number. The K-fold of the least one, which holds for every X of the set, is a far lower
    number, and all there is where a constraint is missing.

    >>> import numpy as np, mostfw as fw
    >>> problem = fw.problems.kmeans(np.array([[0.0], [1.0]]), clusters=1)
    >>> cost = np.array([[0.0, 1.0], [1.0, 0.0]])
    >>> round(problem.domain.least_feasible(cost, problem.constraints).value, 6)
    1.0
    >>> round(problem.domain.least_feasible(cost, []).value, 6)
    -1.0
    """

    def least_feasible(self, direction: Any, constraints: Sequence[Any]) -> domains.Least:
        matrix = np.asarray(direction, dtype=np.float64)
        held = any(map(_is_row_sums, constraints)) and any(map(_is_sign, constraints))
        if not held or not np.all(np.isfinite(matrix)):
            return self.least(direction)
        n, room = len(matrix), max(float(self.trace) - 1, 0.0)
        matrix = (matrix + matrix.T) / 2
        rows = matrix.mean(axis=1)
        centred = matrix - rows[:, None] - rows[None, :] + rows.mean()
        found = domains.lowest_sum(centred, int(room))
        value, proved = found
        share = room - int(room)
        if share:
            more = domains.lowest_sum(centred, int(room) + 1)
            value, proved = (1 - share) * value + share * more.value, proved and more.proved
        # The mean of n^2 numbers and the centring, each with a few roundings of their size.
        slack = 16 * EPS * n * (1 + room) * float(np.abs(matrix).sum(axis=1).max())
        return domains.Least(n * float(rows.mean()) + value - slack, proved)


def _is_row_sums(constraint: Affine) -> bool:
    """Whether it says X1 = 1."""
    exact = isinstance(constraint.set, sets.Point) and np.all(np.asarray(constraint.set.value) == 1)
    return bool(exact) and isinstance(constraint.map, maps.RowSums)


def _is_sign(constraint: Affine) -> bool:
    """Whether it says X >= 0."""
    positive = isinstance(constraint.set, sets.Orthant) and constraint.set.sign > 0
    return positive and isinstance(constraint.map, maps.Identity)


def squared_distances(points: np.ndarray) -> np.ndarray:
    """D_ij = ||p_i - p_j||^2, exactly symmetric with a zero diagonal.

    >>> import numpy as np
    >>> from mostfw.problems.kmeans import squared_distances
    >>> squared_distances(np.array([[0.0], [2.0]])).tolist()
    [[0.0, 4.0], [4.0, 0.0]]
    """
    squares = np.sum(points**2, axis=1)
    gram = points @ points.T
    distances = np.maximum(squares[:, None] + squares[None, :] - (gram + gram.T), 0)
    np.fill_diagonal(distances, 0)
    return distances


def rounded(points: np.ndarray, x: np.ndarray, clusters: int, starts: int = STARTS) -> np.ndarray:
    """Labels: the best of Lloyd's steps from some spread-out choices of centers among the points
    that X has denoised, and of single moves after them.

    >>> import numpy as np
    >>> from mostfw.problems.kmeans import cluster_matrix, rounded
    >>> points = np.array([[0.0], [0.1], [5.0], [5.1]])
    >>> rounded(points, cluster_matrix(np.array([0, 0, 1, 1])), 2).tolist()
    [0, 0, 1, 1]
    """
    points = np.asarray(points, dtype=float)
    denoised = np.asarray(x, dtype=float) @ points
    rng = np.random.default_rng(0)  # the same point has one answer
    found = [lloyd(points, denoised[farthest(denoised, clusters)])]
    for _ in range(starts - 1):
        found.append(lloyd(points, denoised[scattered(denoised, clusters, rng)]))
    best = min(found, key=functools.partial(inertia, points))
    return moved_singly(points, best, clusters)


def farthest(points: np.ndarray, count: int) -> list[int]:
    """Points far from each other: the one farthest from the mean, then each from those before."""
    chosen = [int(np.argmax(np.sum((points - points.mean(axis=0)) ** 2, axis=1)))]
    gaps = np.full(len(points), np.inf)
    while len(chosen) < count:
        gaps = np.minimum(gaps, np.sum((points - points[chosen[-1]]) ** 2, axis=1))
        chosen.append(int(np.argmax(gaps)))
    return chosen


def scattered(points: np.ndarray, count: int, rng: np.random.Generator) -> list[int]:
    """Points drawn in proportion to the squared distance from those before (k-means++)."""
    chosen = [int(rng.integers(len(points)))]
    gaps = np.full(len(points), np.inf)
    while len(chosen) < count:
        gaps = np.minimum(gaps, np.sum((points - points[chosen[-1]]) ** 2, axis=1))
        total = gaps.sum()
        even = not total > 0  # fewer different points than centers
        chosen.append(int(rng.choice(len(points), p=None if even else gaps / total)))
    return chosen


def lloyd(points: np.ndarray, means: np.ndarray, sweeps: int = 100) -> np.ndarray:
    """Labels after Lloyd's steps from these centers; one that lost its points stays put."""
    means = np.array(means)
    labels = np.full(len(points), -1)
    for _ in range(sweeps):
        renewed = np.argmin(np.sum(means**2, axis=1) - 2 * points @ means.T, axis=1)
        if np.array_equal(renewed, labels):
            break
        labels = renewed
        sizes = np.bincount(labels, minlength=len(means))
        sums = (labels == np.arange(len(means))[:, None]).astype(float) @ points
        means = np.where(sizes[:, None] > 0, sums / np.maximum(sizes, 1)[:, None], means)
    return labels


def moved_singly(
    points: np.ndarray, labels: np.ndarray, clusters: int, moves: int = 1000
) -> np.ndarray:
    """Labels after moves of one point at a time to the cluster that gains most by it, the best
    first (Hartigan): they see that a mean moves with its points, where Lloyd's steps end early.

    >>> import numpy as np
    >>> from mostfw.problems.kmeans import moved_singly
    >>> points = np.array([[0.0], [2.0], [3.1], [3.2], [3.3]])
    >>> moved_singly(points, np.array([0, 0, 1, 1, 1]), 3).tolist()
    [2, 0, 1, 1, 1]
    """
    labels = np.array(labels)
    sizes = np.bincount(labels, minlength=clusters).astype(float)
    sums = (labels == np.arange(clusters)[:, None]).astype(float) @ points
    # All that distances to the means need: renewed as points move, the means never formed.
    products, lengths = points @ sums.T, np.sum(sums**2, axis=1)
    squares = np.sum(points**2, axis=1)
    for _ in range(moves):
        counts = np.maximum(sizes, 1)
        gaps = squares[:, None] - 2 * products / counts + lengths / counts**2
        mover, new, gain = _best_move(gaps, sizes, labels)
        if gain <= 1e-12 * float(squares.sum()):
            break
        along = points @ points[mover]
        for cluster, sign in ((labels[mover], -1.0), (new, 1.0)):
            lengths[cluster] += sign * 2 * products[mover, cluster] + squares[mover]
            products[:, cluster] += sign * along
            sizes[cluster] += sign
        labels[mover] = new
    return labels


def _best_move(gaps: np.ndarray, sizes: np.ndarray, labels: np.ndarray) -> tuple[int, int, float]:
    """Which point moves to which cluster, and the inertia that it saves; `gaps` are the squared
    distances to the means. A mean moves with the point that joins or leaves it."""
    everyone, own = np.arange(len(labels)), sizes[labels]
    joining = sizes / (sizes + 1) * gaps
    joining[everyone, labels] = np.inf
    new = np.argmin(joining, axis=1)
    leaving = np.where(own > 1, own / np.maximum(own - 1, 1) * gaps[everyone, labels], 0.0)
    saved = leaving - joining[everyone, new]
    mover = int(np.argmax(saved))
    return mover, int(new[mover]), float(saved[mover])


def cluster_matrix(labels: np.ndarray) -> np.ndarray:
    """X with 1/|S| between the members of each cluster S: a point of the relaxation, whose
    objective is twice the inertia.

    >>> import numpy as np
    >>> from mostfw.problems.kmeans import cluster_matrix
    >>> cluster_matrix(np.array([0, 1, 0])).tolist()
    [[0.5, 0.0, 0.5], [0.0, 1.0, 0.0], [0.5, 0.0, 0.5]]
    """
    labels = np.asarray(labels)
    together = labels[:, None] == labels[None, :]
    return together / together.sum(axis=1)


def inertia(points: np.ndarray, labels: np.ndarray) -> float:
    """Sum of squared distances to the mean of each cluster.

    >>> import numpy as np
    >>> from mostfw.problems.kmeans import inertia
    >>> inertia(np.array([[0.0], [2.0], [9.0]]), np.array([0, 0, 1]))
    2.0
    """
    total = 0.0
    for label in np.unique(labels):
        members = points[labels == label]
        total += float(np.sum((members - members.mean(axis=0)) ** 2))
    return total
