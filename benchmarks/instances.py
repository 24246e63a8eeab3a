"""The problems that are timed: the same data whenever the same size is asked for."""

from __future__ import annotations

from typing import Any

import numpy as np

import mostfw as fw

CLUSTERS = 10
SHARE = 0.01  # of the entries, and of the signs where they are sampled


def blobs(count: int, dimensions: int = 10, seed: int = 0) -> np.ndarray:
    """Ten Gaussian clouds of points, cloud after cloud: any number of them, from a seed.

    Their mean squared distance is 1.5, as it is for the digits' features: one mu_c serves both.
    """
    rng = np.random.default_rng(seed)
    centers = 2.0 * rng.standard_normal((CLUSTERS, dimensions))
    labels = np.sort(np.arange(count) % CLUSTERS)
    points = centers[labels] + rng.standard_normal((count, dimensions))
    return points * np.sqrt(1.5 / (2 * points.var(axis=0).sum()))


def has_digits(count: int) -> bool:
    """Whether so many digits are at hand; a handful would leave most of the classes alone."""
    if count < 100:
        return False
    try:
        fw.datasets.digits_features(count)
    except fw.MostFWError:
        return False
    return True


def features(count: int, digits: bool | None = None) -> np.ndarray:
    """Digits where there are enough, else blobs; `digits` decides for sizes that are compared."""
    digits = has_digits(count) if digits is None else digits
    return fw.datasets.digits_features(count).points if digits else blobs(count)


def kmeans(
    points: np.ndarray, plus: bool = False, dtype: Any = np.float64, optimum: float | None = None
) -> fw.Problem:
    """The k-means SDP as it is timed: 1% of the distances and, for P+, 1% of the signs."""
    return fw.problems.kmeans(
        points,
        CLUSTERS,
        batch=SHARE,
        constraint_batch=SHARE if plus else None,
        sampling="entries",
        sign_weight=float(len(points)),
        optimum=optimum,
        dtype=dtype,
    )


def kmeans_method(plus: bool = False) -> fw.Method:
    return fw.methods.most_fw_plus(mu_c=5.0) if plus else fw.methods.most_fw(mu_c=1.0)


def random_graph(nodes: int) -> fw.graphs.Graph:
    """A ring with random chords, about six neighbours a node."""
    rng = np.random.default_rng(0)
    ring = [(i, (i + 1) % nodes) for i in range(nodes)]
    chords = [tuple(rng.choice(nodes, 2, replace=False)) for _ in range(2 * nodes)]
    return fw.graphs.as_graph([*ring, *chords], f"random-{nodes}")


def small_graph() -> fw.graphs.Graph:
    """The 25-node graph of the literature where it is at hand, else a random one of its size."""
    if fw.datasets.state("mammalia-primate-association-13").status == "present":
        return fw.datasets.primate_graph()
    return random_graph(25)
