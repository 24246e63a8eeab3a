"""The peers of the benchmarks do the same arithmetic as the library."""

import sys
from pathlib import Path

import jax
import numpy as np

import mostfw as fw
from common import ring_with_chords
from mostfw import frank_wolfe
from mostfw.problems.kmeans import squared_distances
from mostfw.schedules import Power
from mostfw.smoothing import numbers_at

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.numpy_loops import (
    CovarianceLoop,
    KMeansLoop,
    KMeansPlusLoop,
    SparsestCutLoop,
)


def test_numpy_loop_has_our_direction_and_converges():
    graph = ring_with_chords(9)
    loop = SparsestCutLoop(graph.laplacian(), batch=5, mu_c=1.5, seed=0)
    for _ in range(50):
        loop.step()
    problem = fw.problems.sparsest_cut(graph, batch=5).on_device()
    method = fw.methods.most_fw(1.5).bind(problem)
    numbers = numbers_at(loop.k, method.smoothing, Power(0.0), 0.0, np.float64)
    ours = frank_wolfe.direction(problem, method, jax.numpy.asarray(loop.x), 0 * loop.y, numbers)
    theirs = loop.penalty(loop.x) * np.sqrt(loop.k) / 1.5
    np.testing.assert_allclose(ours, theirs, atol=1e-9 * np.abs(theirs).max())
    assert problem.domain.contains(loop.x)


def our_penalty(problem, method, x, k):
    """Our direction at x after k steps, without the objective."""
    problem = problem.on_device()
    method = method.bind(problem)
    numbers = numbers_at(k, method.smoothing, Power(0.0), 0.0, np.float64)
    return frank_wolfe.direction(problem, method, jax.numpy.asarray(x), 0 * x, numbers)


def test_covariance_loop_has_our_direction_and_error():
    factor = np.random.default_rng(0).standard_normal((12, 3))
    problem = fw.problems.covariance(factor=factor, batch=4)
    radius = float(problem.constraints[0].set.radius) / 2  # so that the penalty acts
    loop = CovarianceLoop(factor, 4, problem.domain.trace, radius, 1.5, seed=0)
    for _ in range(50):
        loop.step()
    narrow = fw.problems.covariance(factor=factor, batch=4, l1_radius=radius)
    with problem.precision():
        ours = our_penalty(narrow, fw.methods.most_fw(1.5), loop.x, loop.k)
    theirs = loop.penalty(loop.x) * np.sqrt(loop.k) / 1.5
    assert np.abs(theirs).max() > 0
    np.testing.assert_allclose(ours, theirs, atol=1e-9 * np.abs(theirs).max())
    plain = CovarianceLoop(factor, 50, problem.domain.trace, 1e9, 1.0, seed=1)
    for _ in range(300):
        plain.step()
    assert problem.metrics["relative_error"](plain.x) < 0.1


def test_kmeans_loops_have_our_direction_and_mean():
    points = np.random.default_rng(0).standard_normal((12, 2))
    distances = squared_distances(points)
    loop = KMeansLoop(distances, 3, 0.2, 7.0, 1.5, 0)
    for _ in range(50):
        loop.step()
    problem = fw.problems.kmeans(points, 3, sign_weight=7.0)
    with problem.precision():
        ours = our_penalty(problem, fw.methods.most_fw(1.5), loop.x, loop.k)
    theirs = loop.penalty(loop.x) * np.sqrt(loop.k) / 1.5
    np.testing.assert_allclose(ours, theirs, atol=1e-9 * np.abs(theirs).max())
    # whole batches in the mean: MOST-FW+'s tracked estimate is D + the signs' gradient
    plus = KMeansPlusLoop(distances, 3, 1.0, 0.0, 1.5, 0)
    for _ in range(4000):
        plus.step()
    assert np.abs(plus.y - distances).max() < 0.2 * distances.max()
