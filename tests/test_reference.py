"""Reference optima against an interior-point solver (Clarabel, by cvxpy) at small sizes."""

import functools

import cvxpy as cp
import numpy as np
import pytest

import mostfw as fw
from mostfw.experiments import reference
from mostfw.problems.completion import generated_ratings
from mostfw.problems.kmeans import squared_distances
from mostfw.problems.logistic import generated_labels

SLACK = 1e-7  # what Clarabel may be off, relative


def optimum(objective, rules):
    problem = cp.Problem(cp.Minimize(objective), rules)
    problem.solve(solver=cp.CLARABEL)
    assert problem.status == cp.OPTIMAL
    return float(problem.value)


def assert_brackets(found, true):
    assert found.lower <= true + SLACK * abs(true)
    assert found.upper >= true - SLACK * abs(true)
    assert found.lower <= found.value <= found.upper


@functools.cache
def points():
    return np.random.default_rng(3).standard_normal((14, 2))  # no clusters: the relaxation is loose


@functools.cache
def clustering_optimum(clusters):
    x = cp.Variable((14, 14), PSD=True)
    distances = squared_distances(points())
    rules = [cp.trace(x) <= clusters, x >= 0, cp.sum(x, axis=1) == 1]
    return optimum(cp.sum(cp.multiply(distances, x)), rules)


@pytest.mark.parametrize("clusters", [2, 3, 5])
def test_kmeans(clusters):
    true = clustering_optimum(clusters)
    found = reference.kmeans(points(), clusters, tolerance=1e-7)
    assert found.converged
    assert found.value == pytest.approx(true, rel=1e-6)
    assert_brackets(found, true)
    assert found.accuracy <= 1e-6
    assert found.proven <= 1e-4
    x = found.x
    assert np.sum(squared_distances(points()) * x) == pytest.approx(found.upper)
    assert np.linalg.eigvalsh(x)[0] >= -1e-12
    assert x.min() >= -1e-12
    assert np.trace(x) <= clusters + 1e-12
    np.testing.assert_allclose(x.sum(axis=1), 1, atol=1e-12)


@pytest.mark.parametrize("iterations", [1, 7, 20, 60])
def test_kmeans_bounds_hold_long_before_convergence(iterations):
    found = reference.kmeans(points(), 3, tolerance=1e-9, iterations=iterations)
    assert not found.converged
    assert found.iterations == iterations
    assert_brackets(found, clustering_optimum(3))


def test_kmeans_from_distances():
    by_points = reference.kmeans(7 * points(), 3)
    by_distances = reference.kmeans(49 * squared_distances(points()), 3, distances=True)
    assert by_distances.value == pytest.approx(by_points.value)
    assert by_distances.value == pytest.approx(49 * clustering_optimum(3), rel=1e-5)


def test_kmeans_with_one_cluster_and_with_one_a_point():
    """tr X <= 1 leaves X = 11'/n alone; with K = n the identity costs nothing."""
    one = reference.kmeans(points(), 1)
    assert one.value == pytest.approx(squared_distances(points()).sum() / 14, rel=1e-5)
    assert_brackets(one, squared_distances(points()).sum() / 14)
    all_alone = reference.kmeans(points(), 14)
    assert all_alone.value == pytest.approx(0, abs=1e-6)
    all_equal = reference.kmeans(np.ones((4, 2)), 2)
    assert all_equal.converged
    assert all_equal.value == pytest.approx(0, abs=1e-9)


def test_progress_is_told():
    told = []
    found = reference.kmeans(points(), 3, progress=lambda *numbers: told.append(numbers))
    assert [row[0] for row in told] == list(range(10, found.iterations + 1, 10))
    assert np.all(np.diff([row[2] for row in told]) >= 0)
    assert told[-1][1:] == pytest.approx((found.value, found.lower, found.infeasibility))
    told.clear()
    entries, radius = ratings()
    found = reference.completion(
        entries, shape=(6, 5), radius=radius, progress=lambda *numbers: told.append(numbers)
    )
    assert told[-1][1:] == pytest.approx((found.value, found.lower, found.infeasibility))


@functools.cache
def ratings():
    """6 x 5 with one entry observed three times, and a radius that leaves the truth out."""
    made = generated_ratings(6, 5, rank=2, observed=0.6, noise=0.5)
    rows, columns = made.rows, made.columns
    again = [0, 0]
    entries = (
        np.concatenate([rows, rows[again]]),
        np.concatenate([columns, columns[again]]),
        np.concatenate([made.values, made.values[again] + [0.7, -0.2]]),
    )
    return entries, 0.85 * made.radius


@functools.cache
def completion_optimum():
    (rows, columns, values), radius = ratings()
    x = cp.Variable((6, 5))
    misfit = cp.hstack([x[int(i), int(j)] for i, j in zip(rows, columns, strict=True)]) - values
    rules = [cp.normNuc(x) <= radius, x >= 1, x <= 5]
    found = optimum(cp.sum_squares(misfit) / (2 * len(values)), rules)
    assert np.linalg.norm(x.value, "nuc") == pytest.approx(radius, rel=1e-5)  # the ball acts
    assert np.count_nonzero((x.value < 1 + 1e-5) | (x.value > 5 - 1e-5)) >= 3  # and the box
    return found


def test_completion():
    entries, radius = ratings()
    true = completion_optimum()
    found = reference.completion(entries, shape=(6, 5), radius=radius, tolerance=1e-8)
    assert found.converged
    assert found.value == pytest.approx(true, rel=1e-6)
    assert_brackets(found, true)
    assert found.proven <= 1e-5
    assert np.linalg.norm(found.x, "nuc") <= radius * (1 + 1e-12)
    assert found.x.min() >= 1
    assert found.x.max() <= 5
    problem = fw.problems.completion(entries, shape=(6, 5), radius=radius)
    assert float(problem.objective.whole_value(found.x)) == pytest.approx(found.upper)


@pytest.mark.parametrize("iterations", [1, 5, 20])
def test_completion_bounds_hold_long_before_convergence(iterations):
    entries, radius = ratings()
    found = reference.completion(
        entries, shape=(6, 5), radius=radius, tolerance=1e-12, iterations=iterations
    )
    assert not found.converged
    assert_brackets(found, completion_optimum())


def test_completion_whose_optimum_is_zero():
    known = np.array([[2.0, 3.0], [np.nan, 4.0]])
    found = reference.completion(known, radius=20.0)
    assert found.converged
    assert found.value == pytest.approx(0, abs=1e-8)


@pytest.mark.parametrize(("bounds", "nearest"), [((-3.0, -1.0), -1.0), ((-2.0, 2.0), 0.0)])
def test_completion_with_a_radius_that_leaves_one_point(bounds, nearest):
    """The flat matrix with the entry nearest to 0 has the least nuclear norm, |c| sqrt(mn)."""
    known = np.array([[-2.0, np.nan, -1.5], [np.nan, 1.0, -2.5]])
    radius = abs(nearest) * np.sqrt(6) + 1e-9
    found = reference.completion(known, radius=radius, bounds=bounds, tolerance=1e-4)
    at_it = np.nanmean((known - nearest) ** 2) / 2
    assert found.upper == pytest.approx(at_it, rel=1e-4)
    assert found.lower == pytest.approx(at_it, rel=1e-3)


@functools.cache
def logistic_optimum(radius, score_bound):
    features, labels = generated_labels(20, 4)
    x = cp.Variable(4)
    losses = cp.logistic(cp.multiply(-labels, features @ x))
    rules = [cp.norm1(x) <= radius, cp.abs(features @ x) <= score_bound]
    return optimum(cp.sum(losses) / 20, rules)


@pytest.mark.parametrize(("radius", "score_bound"), [(1.5, 1.5), (0.4, 9.0), (9.0, 0.6), (50, 50)])
def test_logistic(radius, score_bound):
    data = generated_labels(20, 4)
    true = logistic_optimum(radius, score_bound)
    found = reference.logistic(*data, radius=radius, score_bound=score_bound)
    assert found.converged
    assert found.value == pytest.approx(true, rel=1e-6)
    assert_brackets(found, true)
    assert found.proven <= 1e-5
    assert np.abs(found.x).sum() <= radius * (1 + 1e-12)
    assert np.abs(data[0] @ found.x).max() <= score_bound * (1 + 1e-12)


@pytest.mark.parametrize("iterations", [1, 3])
def test_logistic_bounds_hold_long_before_convergence(iterations):
    found = reference.logistic(*generated_labels(20, 4), iterations=iterations)
    assert not found.converged
    assert_brackets(found, logistic_optimum(1.5, 1.5))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_defaults_of_logistic_make_ball_and_bounds_act(seed):
    features, labels = generated_labels(100, 10, seed)
    x = reference.logistic(features, labels).x
    assert np.abs(x).sum() == pytest.approx(1.5)
    assert np.count_nonzero(np.abs(features @ x) > 1.5 - 1e-6) >= 2


@pytest.mark.parametrize("method", ["most-fw", "most-fw+"])
def test_frank_wolfe_ends_at_the_logistic_reference(method):
    data = generated_labels(40, 8, seed=2)
    found = reference.logistic(*data)
    sampled = {"constraint_batch": 0.25} if method == "most-fw+" else {}
    problem = fw.problems.logistic(*data, batch=0.25, optimum=found.value, **sampled)
    result = fw.solve(problem, fw.methods.get(method, mu_c=2.0), iterations=20_000, record=[])
    assert abs(result.objective - found.value) <= (1e-2 if sampled else 1e-3)
    assert result.violation["scores"] <= (6e-2 if sampled else 3e-3)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: reference.kmeans(np.ones(3), 2), "shape"),
        (lambda: reference.kmeans(np.ones((3, 2)), 2, distances=True), "square"),
        (lambda: reference.kmeans(np.ones((3, 2)), 4), "clusters is 4"),
        (lambda: reference.kmeans(np.ones((3, 2)), 2, tolerance=0), "tolerance is 0"),
        (lambda: reference.kmeans(np.ones((3, 2)), 2, iterations=0), "iterations is 0"),
        (lambda: reference.completion(np.ones((3, 2)), radius=1.0), "raise it"),
        (lambda: reference.completion(np.ones((3, 2)), radius=-1.0), "radius is -1.0"),
        (lambda: reference.logistic(np.ones((3, 2)), [1, -1, 0]), "labels are 1 and -1"),
        (lambda: reference.logistic(np.ones((3, 2)), [1, -1]), "one label a datum"),
        (lambda: reference.logistic(np.ones((1, 2)), [1], score_bound=0), "score_bound is 0"),
    ],
)
def test_bad_input_is_refused_by_name(call, words):
    with pytest.raises(fw.InvalidInputError, match=words):
        call()
