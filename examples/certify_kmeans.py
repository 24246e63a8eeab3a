"""How far from the best is a k-means result? A proof, after scikit-learn has clustered.

    python examples/certify_kmeans.py

Lloyd's steps stop at a local optimum and say nothing of better clusterings elsewhere. The
semidefinite relaxation bounds the inertia of every clustering from below.
"""

from typing import NamedTuple

import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs

import mostfw as fw
from mostfw.rounding import rounded_down, rounded_up


class Answer(NamedTuple):
    inertia: float
    bound: float  # no clustering has less
    labels: np.ndarray


def main(points: int = 200, clusters: int = 5, iterations: int = 3000) -> Answer:
    data, _ = make_blobs(points, centers=clusters, cluster_std=1.0, random_state=0)
    found = KMeans(clusters, n_init=10, random_state=0).fit(data)
    inertia = float(found.inertia_)

    problem = fw.problems.kmeans(data, clusters)
    result = fw.solve(problem, iterations=iterations, seed=0, stop=fw.Certified(gap=1e-3))
    bound = result.certificate.lower / 2  # an inertia is half the relaxation's objective

    print(f"scikit-learn's inertia: {inertia:.4f}")
    print(f"No clustering has less than {rounded_down(bound, 6)} ({result.certificate.kind}).")
    print(f"So the best one is at most {rounded_up(100 * (1 - bound / inertia))}% better.")
    return Answer(inertia, bound, found.labels_)


if __name__ == "__main__":
    main()
