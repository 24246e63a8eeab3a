"""k-means clustering and its semidefinite relaxation (Peng and Wei)."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from .. import checks, domains, maps, objectives, sets
from ..constraints import Affine
from ..errors import ShapeError
from ..problem import Problem

SAMPLINGS = ("shuffled", "entries", "block")


def kmeans(
    points: Any,
    clusters: int,
    *,
    batch: float | int | None = None,
    constraint_batch: float | int | None = None,
    sampling: str | None = None,
    sign_weight: float = 1000.0,
    optimum: float | None = None,
    dtype: Any = np.float64,
) -> Problem:
    """min <D, X> over {X psd, tr X <= K}, X1 = 1, X >= 0, D the squared distances of the points.

    `batch` samples the entries of D, which are computed when drawn; `constraint_batch` the signs,
    which makes the problem P+; the row sums are always whole. `sampling` is how: in shuffled passes
    ("shuffled", the default), by single entries with replacement as in the paper ("entries"), or by
    principal blocks ("block"). `sign_weight` is the weight of X >= 0 against X1 = 1. The inertia of
    a clustering is half the objective of its X.

    >>> import numpy as np, mostfw as fw
    >>> problem = fw.problems.kmeans(np.array([[0.0], [0.1], [5.0], [5.1]]), clusters=2)
    >>> problem.domain.trace
    2.0
    """
    points = np.asarray(checks.data("the points", points), dtype=dtype)
    if points.ndim != 2:
        raise ShapeError(f"the points have shape {points.shape}: give one row a point.")
    n = points.shape[0]
    clusters = checks.whole("clusters", clusters, 1, n)
    sampling = checks.choice("sampling", "shuffled" if sampling is None else sampling, SAMPLINGS)
    return Problem(
        objectives.SquaredDistances(points, batch=batch, sampling=sampling),
        domains.Spectrahedron(n, trace=float(clusters)),
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
        metrics={"trace": jnp.trace},
        answer=lambda x: rounded(points, x, clusters),
        feasible=lambda x: cluster_matrix(rounded(points, x, clusters)),
        name=f"kmeans N={n} K={clusters}",
        dtype=dtype,
    )


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


def rounded(points: np.ndarray, x: np.ndarray, clusters: int, sweeps: int = 100) -> np.ndarray:
    """Labels: the points denoised by X, spread-out centers among them, then Lloyd's steps."""
    denoised = np.asarray(x, dtype=float) @ points
    centers = [int(np.argmax(np.sum((denoised - denoised.mean(axis=0)) ** 2, axis=1)))]
    while len(centers) < clusters:
        gaps = np.min([np.sum((denoised - denoised[c]) ** 2, axis=1) for c in centers], axis=0)
        centers.append(int(np.argmax(gaps)))
    means = denoised[centers]
    labels = np.full(len(points), -1)
    for _ in range(sweeps):
        cost = np.sum(means**2, axis=1)[None, :] - 2 * points @ means.T
        renewed = np.argmin(cost, axis=1)
        if np.array_equal(renewed, labels):
            break
        labels = renewed
        for c in range(clusters):
            if np.any(labels == c):
                means[c] = points[labels == c].mean(axis=0)
    return labels


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
