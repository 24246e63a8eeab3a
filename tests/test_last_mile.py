"""`Problem.feasible`: from any psd matrix to a point that keeps every constraint."""

import functools

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mostfw as fw
from common import ring_with_chords
from mostfw.problems.kmeans import ClusterMatrices, cluster_matrix
from mostfw.problems.kmeans import inertia as inertia_of

SIDE = 9
POINTS = np.random.default_rng(1).standard_normal((SIDE, 2))
PROBLEMS = {
    "kmeans": functools.cache(lambda: fw.problems.kmeans(POINTS, 3)),
    "sparsest cut": functools.cache(lambda: fw.problems.sparsest_cut(ring_with_chords(SIDE))),
    "max cut": functools.cache(lambda: fw.problems.max_cut(ring_with_chords(SIDE))),
}


@st.composite
def psd_matrices(draw):
    """Zero, rank one and up; some nodes without a vector; of any size and in both precisions."""
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    factor = rng.standard_normal((SIDE, draw(st.integers(0, SIDE))))
    factor[rng.random(SIDE) < draw(st.sampled_from([0.0, 0.5]))] = 0
    x = draw(st.sampled_from([1e-12, 1.0, 1e9])) * factor @ factor.T
    return x.astype(draw(st.sampled_from([np.float32, np.float64])))


@pytest.mark.parametrize("name", PROBLEMS)
@given(x=psd_matrices())
def test_every_constraint_is_kept(name, x):
    problem = PROBLEMS[name]()
    point = problem.feasible(x)
    assert point.dtype == np.float64
    assert problem.domain.contains(point, 1e-9)
    for constraint in problem.constraints:
        assert float(constraint.violation(point)) <= 1e-9 * constraint.rhs_norm()


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_point_that_is_feasible_already_stays_about_as_good(name):
    problem = PROBLEMS[name]()
    point = problem.feasible(np.eye(SIDE))
    again = problem.feasible(point)
    value, renewed = (float(problem.objective.whole_value(p)) for p in (point, again))
    assert renewed <= value + 1e-6 * abs(value)


def test_the_values_are_those_of_the_answers():
    x = np.eye(SIDE)
    clusters = PROBLEMS["kmeans"]()
    inertia = inertia_of(POINTS, clusters.answer(x))
    assert float(clusters.objective.whole_value(clusters.feasible(x))) == pytest.approx(2 * inertia)
    cut = PROBLEMS["sparsest cut"]()
    value = float(cut.objective.whole_value(cut.feasible(x)))
    assert value == pytest.approx(SIDE**2 / 2 * cut.answer(x).value)


def test_a_max_cut_point_is_the_normalised_one():
    rng = np.random.default_rng(0)
    factor = rng.standard_normal((SIDE, 4))
    x = factor @ factor.T
    roots = np.sqrt(np.diag(x))
    point = PROBLEMS["max cut"]().feasible(x)
    np.testing.assert_allclose(point, x / np.outer(roots, roots), atol=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_the_least_over_cluster_matrices_is_below_all_of_them(seed):
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(12) % 4)
    one = cluster_matrix(labels)
    domain = ClusterMatrices(12, trace=4.0)
    # <X, X> = 4 for this X, and no other has a larger product with it
    assert domain.least(-one).value == pytest.approx(-4, rel=1e-9)
    cost = rng.standard_normal((12, 12))
    least = domain.least(cost + cost.T)
    assert least.proved
    for _ in range(50):
        other = cluster_matrix(rng.integers(0, 4, 12))
        assert least.value <= np.sum((cost + cost.T) * other)


def test_the_least_over_cluster_matrices_is_below_the_conic_optimum():
    rng = np.random.default_rng(0)
    cost = rng.standard_normal((6, 6))
    x = cp.Variable((6, 6), PSD=True)
    rules = [cp.trace(x) <= 3, cp.sum(x, axis=1) == 1, x >= 0]
    value = cp.sum(cp.multiply(cost + cost.T, x))
    optimum = cp.Problem(cp.Minimize(value), rules).solve(solver="CLARABEL")
    least = ClusterMatrices(6, trace=3.0).least(cost + cost.T).value
    plain = fw.domains.Spectrahedron(6, trace=3.0).least(cost + cost.T).value
    assert plain < least <= optimum + 1e-7
