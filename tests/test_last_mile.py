"""`Problem.feasible`: from any psd matrix to a point that keeps every constraint."""

import functools

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mostfw as fw
from common import ring_with_chords
from mostfw.constraints import Affine
from mostfw.problems.kmeans import ClusterMatrices, cluster_matrix
from mostfw.problems.kmeans import inertia as inertia_of

SIDE = 9
POINTS = np.random.default_rng(1).standard_normal((SIDE, 2))
PROBLEMS = {
    "kmeans": functools.cache(lambda: fw.problems.kmeans(POINTS, 3)),
    "sparsest cut": functools.cache(lambda: fw.problems.sparsest_cut(ring_with_chords(SIDE))),
    "max cut": functools.cache(lambda: fw.problems.max_cut(ring_with_chords(SIDE))),
}

RULES = [
    Affine(fw.maps.RowSums(), fw.sets.Point(1.0)),
    Affine(fw.maps.Identity(symmetric=True), fw.sets.Orthant(1)),
]


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
    assert domain.least_feasible(-one, RULES).value == pytest.approx(-4, rel=1e-9)
    cost = rng.standard_normal((12, 12))
    least = domain.least_feasible(cost + cost.T, RULES)
    assert least.proved
    for _ in range(50):
        other = cluster_matrix(rng.integers(0, 4, 12))
        assert least.value <= np.sum((cost + cost.T) * other)


def random_cost(side=6):
    cost = np.random.default_rng(0).standard_normal((side, side))
    return cost + cost.T


def conic_optimum(cost, trace, rows=True, sign=True):
    x = cp.Variable(cost.shape, PSD=True)
    rules = [cp.trace(x) <= trace]
    rules += [cp.sum(x, axis=1) == 1] if rows else []
    rules += [x >= 0] if sign else []
    return cp.Problem(cp.Minimize(cp.sum(cp.multiply(cost, x))), rules).solve(solver="CLARABEL")


@pytest.mark.parametrize("trace", [1.0, 1.4, 2.4, 2.6, 3.0, 6.5])
def test_the_least_over_cluster_matrices_is_below_the_conic_optimum(trace):
    """Also where a part of an eigenvalue has room, which rounding would count as all or none."""
    cost = random_cost()
    least = ClusterMatrices(6, trace=trace).least_feasible(cost, RULES).value
    plain = fw.domains.Spectrahedron(6, trace=trace).least(cost).value
    assert plain < least <= conic_optimum(cost, trace) + 1e-7


@pytest.mark.parametrize("trace", [1.4, 2.6, 4.0])
def test_the_least_value_uses_all_the_room_that_there_is(trace):
    """With X1 = 1 and X <= I it is attained, whatever the share of the last eigenvalue."""
    cost = random_cost()
    x = cp.Variable(cost.shape, PSD=True)
    rules = [cp.trace(x) <= trace, cp.sum(x, axis=1) == 1, np.eye(6) - x >> 0]
    least = cp.Problem(cp.Minimize(cp.sum(cp.multiply(cost, x))), rules).solve(solver="CLARABEL")
    found = ClusterMatrices(6, trace=trace).least_feasible(cost, RULES)
    assert found.value == pytest.approx(least, abs=1e-6)


OTHERS = {
    "no constraints": [],
    "row sums alone": RULES[:1],
    "signs alone": RULES[1:],
    "another right-hand side": [Affine(fw.maps.RowSums(), fw.sets.Point(2.0)), RULES[1]],
    "the other sign": [RULES[0], Affine(fw.maps.Identity(symmetric=True), fw.sets.Orthant(-1))],
}


@pytest.mark.parametrize("rules", OTHERS.values(), ids=OTHERS)
def test_cluster_matrices_without_their_constraints_are_any_matrices(rules):
    domain, cost = ClusterMatrices(6, trace=3.0), random_cost()
    assert domain.least_feasible(cost, rules) == domain.least(cost)
    assert domain.least(cost).value <= conic_optimum(cost, 3, rows=False, sign=False) + 1e-7


@pytest.mark.parametrize("kept", [0, 1, 2])
def test_bounds_of_kmeans_hold_when_constraints_are_dropped(kept):
    """The domain outlives them, as in a problem that somebody puts together from its parts."""
    made = PROBLEMS["kmeans"]()
    rules = made.constraints[:kept]
    problem = fw.Problem(made.objective, made.domain, rules)
    bound = fw.certificates.lower_bound(problem, np.eye(SIDE) / SIDE)
    cost = np.asarray(made.objective.matrix)
    assert bound.proved
    assert bound.value <= conic_optimum(cost, 3, rows=kept > 0, sign=kept > 1) + 1e-7
