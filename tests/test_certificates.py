"""Bounds are never above the optimum, and a run says what it has proved, or why it has not.

Optima come from an interior-point solver (Clarabel, by cvxpy), good to about 1e-8.
"""

import json
import math
import time
from fractions import Fraction

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import hadamard
from scipy.sparse import csr_array

import mostfw as fw
from common import clustering_problem, cut_problem, logistic_problem
from mostfw import bounds, certificates, intervals
from mostfw.domains import DOMAINS, Domain, _least
from mostfw.joint_bounds import JointBounds
from mostfw.trees import replaced, structure_of

# The least value of a linear function over each domain


def directions(domain, trials=6):
    for trial in range(trials):
        key = jax.random.PRNGKey(trial)
        leaves, tree = jax.tree.flatten(domain.structure(jnp.float64))
        drawn = [jax.random.normal(key, leaf.shape) * 10.0 ** (trial - 2) for leaf in leaves]
        s = domain.tangent(jax.tree.unflatten(tree, drawn))
        # nothing negative, and ties: where an LMO returns 0 or has a choice
        yield s if trial < 4 else jax.tree.map(jnp.abs if trial == 4 else jnp.ones_like, s)


def exact_inner(a, b):
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return math.fsum(np.concatenate([np.ravel(u) * np.ravel(v) for u, v in pairs]))


def check_least(domain):
    lmo = jax.jit(lambda s: domain.dense(domain.lmo(s, tolerance=0.0).atom))
    for s in directions(domain):
        atom = lmo(s)
        value, size = exact_inner(s, atom), float(fw.trees.norm(s)) * max(1, domain.diameter)
        found = domain.least(jax.tree.map(np.asarray, s))
        assert found.value <= value + 1e-14 * size  # the atom itself is rounded
        assert found.value >= value - 1e-9 * size
        yield found


def test_every_domain_but_one_proves_its_least_value():
    """That it is one, and near, `check_domain` looks at for all of them."""
    unproved = {
        type(domain).__name__
        for _, cls in DOMAINS.items()
        for domain in cls.examples()
        if "Birkhoff" not in str(domain)
        and not domain.least(jax.tree.map(np.asarray, domain.start(np.float64))).proved
    }
    assert not unproved


@pytest.mark.parametrize(
    "domain", [*fw.domains.Spectrahedron.examples()[1:4], fw.domains.NuclearBall((4, 6), 2.0)]
)
def test_large_matrices_are_bounded_by_a_factor(domain, monkeypatch):
    monkeypatch.setattr(_least, "DENSE_BELOW", 3)
    assert all(found.proved for found in check_least(domain))


def rotated(eigenvalues):
    """A matrix with exactly these integer eigenvalues: nothing here is rounded."""
    h = hadamard(len(eigenvalues)).astype(float)
    return h @ np.diag(eigenvalues) @ h.T / len(eigenvalues)


@pytest.mark.parametrize("limit", [4, 3000])
def test_an_eigenvalue_known_exactly_is_not_exceeded(limit, monkeypatch):
    monkeypatch.setattr(_least, "DENSE_BELOW", limit)
    rng = np.random.default_rng(0)
    for _ in range(30):
        eigenvalues = rng.integers(-(2**20), 2**20, 64)
        found = _least.lowest_eigenvalue(rotated(eigenvalues))
        assert found.proved
        assert eigenvalues.min() - 1e-2 <= found.value <= eigenvalues.min()
        largest = _least.largest_singular_value(rotated(eigenvalues)[:, ::-1])
        size = np.abs(eigenvalues).max()
        assert size <= largest.value <= size + 1e-2


def test_a_factor_that_fails_proves_nothing(monkeypatch):
    monkeypatch.setattr(_least, "DENSE_BELOW", 4)
    monkeypatch.setattr(_least, "_has_factor", lambda matrix: False)
    found = _least.lowest_eigenvalue(rotated(np.arange(8)))
    assert not found.proved and found.value <= 0


def test_nothing_is_claimed_of_numbers_that_are_not_finite():
    assert not _least.lowest_eigenvalue(np.full((2, 2), np.nan)).proved
    assert not _least.largest_singular_value(np.full((2, 2), np.inf)).proved


class Unproved(fw.domains.Simplex):
    """As a user writes one: nothing but an LMO."""

    least = Domain.least


def test_a_domain_of_ones_own_gives_numerical_bounds():
    problem = fw.Problem(fw.objectives.Linear(np.array([3.0, 1.0])), Unproved(2))
    certificate = fw.solve(problem, "sfw", iterations=10).certificate
    assert certificate.kind == "numerical"
    assert certificate.lower == pytest.approx(1.0)


# 200 random problems


def misfit(x, row):
    return (jnp.sum(row["look"] * x) - row["aim"]) ** 2


SHAPES = {
    "spectrahedron": (fw.domains.Spectrahedron(6, trace=2.0), (6, 6)),
    "spectrahedron, trace fixed": (fw.domains.Spectrahedron(30, 1.0, equality=True), (30, 30)),
    "nuclear ball": (fw.domains.NuclearBall((4, 7), 1.5), (4, 7)),
    "l1 ball": (fw.domains.L1Ball(30, 2.0), (30,)),
    "simplex": (fw.domains.Simplex(12), (12,)),
}


def rules_of(name, x):
    if name.startswith("spectrahedron"):
        trace = cp.trace(x)
        return [x >> 0, trace == 1 if "fixed" in name else trace <= 2]
    if name == "nuclear ball":
        return [cp.normNuc(x) <= 1.5]
    return [cp.norm1(x) <= 2] if name == "l1 ball" else [x >= 0, cp.sum(x) == 1]


def random_problem(name, kind, rule, seed):
    """A feasible problem, its optimum and its optimal point and multipliers."""
    rng = np.random.default_rng(seed)
    domain, shape = SHAPES[name]
    symmetric = name.startswith("spectrahedron")
    x = cp.Variable(shape, symmetric=symmetric)
    flat = cp.vec(x, order="C") if len(shape) > 1 else x
    if kind == "linear":
        matrix = rng.standard_normal(shape)
        matrix = matrix + matrix.T if symmetric else matrix
        objective, value = fw.objectives.Linear(matrix), matrix.ravel() @ flat
    else:
        looks, aims = rng.standard_normal((5, *shape)), rng.standard_normal(5)
        objective = fw.objectives.FiniteSum(misfit, {"look": looks, "aim": aims})
        value = cp.sum_squares(looks.reshape(5, -1) @ flat - aims) / 5
    inside = domain.dense(domain.lmo(jnp.asarray(rng.standard_normal(shape))).atom) / 2
    inside = np.asarray(inside + domain.start(jnp.float64) / 2)
    rows = rng.standard_normal((3, inside.size))
    level = rows @ inside.ravel()
    if rule == "equality":
        the_set, dual = fw.sets.Point(level), [rows @ flat == level]
    else:
        the_set, dual = fw.sets.Box(-np.inf, level), [rows @ flat <= level]
    reference = cp.Problem(cp.Minimize(value), rules_of(name, x) + dual)
    reference.solve(solver=cp.CLARABEL)
    assert reference.status == cp.OPTIMAL
    problem = fw.Problem(objective, domain, [fw.constraints.Affine(rows, the_set, name="rule")])
    return problem, float(reference.value), np.asarray(x.value), np.asarray(dual[0].dual_value)


@pytest.mark.parametrize("rule", ["equality", "inequality"])
@pytest.mark.parametrize("kind", ["linear", "quadratic"])
@pytest.mark.parametrize("name", SHAPES)
def test_no_bound_is_above_the_optimum(name, kind, rule):
    for seed in range(10):
        problem, optimum, best, dual = random_problem(name, kind, rule, seed)
        rng = np.random.default_rng(seed)
        start = problem.domain.start(jnp.float64)
        size = max(1.0, abs(optimum))
        for x, multiplier in [
            (start, rng.standard_normal(3) * 10.0 ** rng.integers(-3, 4)),
            (best, -dual),
            (start, dual + 1e-3 * rng.standard_normal(3)),
            (best, dual),
        ]:
            bound = fw.certificates.lower_bound(problem, x, {"rule": multiplier})
            assert bound.proved
            assert bound.value <= optimum + 1e-7 * size
        assert bound.value >= optimum - 1e-4 * size  # the last one is the best there is


def exact_bound(cost, rows, multiplier, level):
    """Of min <cost, z> over the simplex with rows z = level, in rational numbers."""
    exact = np.vectorize(Fraction, otypes=[object])
    slope = exact(cost) + exact(multiplier) @ exact(rows)
    return min(slope) - exact(multiplier) @ exact(level)


def cancelling(rng, count=40):
    """Multipliers of 1e12 and numbers that they are nearly orthogonal to."""
    half = 1e12 * rng.standard_normal(count)
    numbers = rng.standard_normal((count, 3))
    return np.concatenate([half, -half]), np.concatenate([numbers, numbers + 1e-15 * numbers])


SPARSE = lambda rows: fw.maps.Sparse(csr_array(rows))  # noqa: E731


@pytest.mark.parametrize("made", [fw.maps.Dense, SPARSE], ids=["dense", "sparse"])
def test_what_cancels_in_a_slope_is_rounded_too(made):
    """The rounding of a sum is a share of its summands, which are 1e12 times as large here."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        cost, (multiplier, rows) = rng.standard_normal(3), cancelling(rng)
        rule = fw.constraints.Affine(made(rows), fw.sets.Point(0.0), name="rule")
        problem = fw.Problem(fw.objectives.Linear(cost), fw.domains.Simplex(3), [rule])
        bound = fw.certificates.lower_bound(problem, np.ones(3) / 3, {"rule": multiplier})
        assert bound.proved
        assert Fraction(bound.value) <= exact_bound(cost, rows, multiplier, np.zeros(len(rows)))


def test_what_cancels_in_the_support_of_a_ball_is_rounded_too():
    rng = np.random.default_rng(0)
    for _ in range(20):
        cost, (multiplier, numbers) = rng.standard_normal(3), cancelling(rng)
        rows, center = np.zeros((len(numbers), 3)), numbers[:, 0]
        ball = fw.sets.L2Ball(0.0, center)
        rule = fw.constraints.Affine(fw.maps.Dense(rows), ball, name="rule")
        problem = fw.Problem(fw.objectives.Linear(cost), fw.domains.Simplex(3), [rule])
        bound = fw.certificates.lower_bound(problem, np.ones(3) / 3, {"rule": multiplier})
        assert Fraction(bound.value) <= exact_bound(cost, rows, multiplier, center)


def test_a_function_as_a_map_gives_numerical_bounds():
    """What it sums up is not known, so neither is what rounding adds."""
    rule = fw.constraints.Affine(lambda x: x[:1], fw.sets.Box(-np.inf, 0.3), name="rule")
    problem = fw.Problem(
        fw.objectives.Linear(np.array([-3.0, -1.0])), fw.domains.Simplex(2), [rule]
    )
    bound = fw.certificates.lower_bound(problem, np.ones(2) / 2, {"rule": [2.0]})
    assert bound.value == pytest.approx(-1.6) and not bound.proved


def test_multipliers_of_feasible_problems_separate_nothing():
    """So that no feasible problem is called infeasible."""
    for name in SHAPES:
        problem, *_ = random_problem(name, "linear", "inequality", 1)
        rng = np.random.default_rng(0)
        on_device = problem.on_device()
        for _ in range(10):
            multiplier = {"rule": jnp.asarray(rng.standard_normal(3))}
            parts = certificates._whole(on_device, problem.domain.start(jnp.float64), multiplier)
            ray = certificates.fetched(on_device, parts).ray()
            assert ray.least(problem).value <= 0


# Multipliers


@pytest.mark.parametrize("make", [cut_problem, clustering_problem])
def test_pulled_multipliers_meet_points_as_multipliers_meet_images(make):
    """Also for the triangles, whose image has places that are no rows."""
    problem = make()
    result = fw.solve(problem, "hfw", iterations=30)
    x = jnp.asarray(result.x)
    for constraint in problem.constraints:
        multiplier = jnp.asarray(result.dual[constraint.name])
        pulled = constraint.map.adjoint(multiplier, structure_of(x))
        image = constraint.map.forward(x)
        assert float(jnp.sum(pulled * x)) == pytest.approx(float(jnp.sum(multiplier * image)))
        # the support of a residual: at the projection of Gx
        expected = jnp.sum(multiplier * (image - constraint._residual(image)))
        if constraint.map.stored:
            support = constraint.set.support(constraint.set.supported(multiplier))
            assert float(support) == pytest.approx(float(expected), abs=1e-9)


@pytest.mark.parametrize("cls", [cls for _, cls in fw.sets.SETS.items()])
def test_a_supported_multiplier_has_a_finite_support(cls):
    for the_set, shape in cls.examples():
        for seed in range(4):
            l = jax.random.normal(jax.random.PRNGKey(seed), shape)
            near = the_set.supported(l)
            assert bool(jnp.isfinite(the_set.support(near)))
            if bool(jnp.isfinite(the_set.support(l))):
                assert np.allclose(near, l, atol=1e-7)


def test_unknown_names_and_samples_are_refused():
    problem = clustering_problem()
    with pytest.raises(fw.InvalidInputError, match="no such names"):
        fw.certificates.lower_bound(problem, np.eye(8), {"signs": 0.0})
    with pytest.raises(fw.InvalidInputError, match="samples only"):
        fw.certificates.lower_bound(sampled_problem(), np.ones(3) / 3)


# Runs


def capped(limit=0.6, **options):
    """min 3a + b on the simplex with both at most `limit`: 1.8 for 0.6, infeasible below 0.5."""
    rule = fw.constraints.Affine(np.eye(2), fw.sets.Box(-np.inf, limit), name="limit")
    objective = fw.objectives.Linear(np.array([3.0, 1.0]))
    return fw.Problem(objective, fw.domains.Simplex(2), [rule], **options)


@pytest.mark.parametrize("method", ["hfw", "most-fw", "cgal"])
def test_a_run_brackets_the_optimum(method):
    problem = capped(feasible=lambda x: np.array([0.4, 0.6]))
    result = fw.solve(problem, method, iterations=2000)
    certificate = result.certificate
    assert certificate.lower <= 1.8 <= certificate.upper
    assert certificate.upper == pytest.approx(1.8)
    assert certificate.relative_gap <= 0.02
    assert certificate.kind == "proved"
    assert "lies between" in str(certificate)
    assert result.evidence == ""


def test_a_point_that_is_not_feasible_gives_no_upper_value():
    for point in ([0.5, 0.6], [0.3, 0.7], [0.0, 0.0]):  # outside the domain, the rule, the domain
        problem = capped(feasible=lambda x, point=point: np.array(point))
        certificate = fw.solve(problem, "hfw", iterations=200).certificate
        assert certificate.upper is None
        assert "breaks its constraints by up to" in str(certificate)
        assert certificate.relative_gap == pytest.approx(
            (certificate.objective - certificate.lower)
            / min(abs(certificate.objective), abs(certificate.lower))
        )


def test_a_certified_gap_stops_a_run():
    problem = capped(feasible=lambda x: np.array([0.4, 0.6]))
    result = fw.solve(problem, "cgal", iterations=10**6, stop=fw.Certified(gap=5e-3))
    assert result.status is fw.Status.CERTIFIED
    assert result.iterations < 10**6
    assert result.certificate.relative_gap <= 5e-3
    near = fw.Certified(gap=0.5, violation=1e-2)
    result = fw.solve(capped(), "cgal", iterations=10**6, stop=near)
    assert result.status is fw.Status.CERTIFIED
    assert max(result.relative_violation.values()) <= 1e-2


def test_a_certified_gap_is_refused_where_it_cannot_be_had():
    with pytest.raises(fw.InvalidInputError, match="certify=False"):
        fw.solve(capped(), "hfw", stop=fw.Certified(gap=0.1), certify=False)
    with pytest.raises(fw.InvalidInputError, match="samples only"):
        fw.solve(sampled_problem(), "sfw", stop=fw.Certified(gap=0.1))
    with pytest.raises(fw.InvalidInputError, match="tolerance of gap"):
        fw.Certified(gap=-1.0)


def test_the_best_bound_is_kept_when_a_run_goes_on():
    problem = capped()
    first = fw.solve(problem, "cgal", iterations=300)
    lower = first.certificate.lower
    again = fw.solve(problem, "cgal", iterations=1, warm_start=first)
    assert again.certificate.lower >= lower
    assert fw.solve(capped(), "cgal", iterations=1, warm_start=first).certificate is not None


def test_bounds_on_the_way_stay_within_their_share_of_time(monkeypatch):
    problem = capped()
    held = bounds.Bounds(problem)
    assert not held._affordable(0.1) and held._affordable(1.0)
    held.spent = 0.1
    assert not held._affordable(1.0) and held._affordable(3.0)
    monkeypatch.setattr(bounds, "FIRST_AFTER", 0.0)
    monkeypatch.setattr(bounds, "SHARE", 1e3)
    result = fw.solve(problem, "most-fw", iterations=500)
    assert result.bounds._looks > 10
    assert math.isfinite(result.bounds.lower) and result.bounds.spent > 0
    assert result.certificate.lower >= result.bounds.lower


def test_proved_and_numerical_bounds_are_kept_apart():
    """What is told is never the number of one with the name of the other."""
    held = bounds.Bounds(capped())
    held.note(1.0, proved=True)
    held.note(1.5, proved=False)
    assert (held.lower, held.known(2.0, 0.0).kind) == (1.5, "numerical")
    held.note(1.5 - 1e-9, proved=True)  # says as much, and is sure
    assert (held.lower, held.known(2.0, 0.0).kind) == (1.5 - 1e-9, "proved")
    held.note(1.7, proved=False)
    for again in (held.continued(None, False), bounds.Bounds(capped())):
        again.restore(json.loads(json.dumps(held.kept())), [])
        assert (again.lower, again.proved) == (1.7, False)
        again.note(1.6, proved=True)
        assert (again.lower, again.proved) == (1.7, False)
        again.note(1.7, proved=True)
        assert again.proved


def test_bounds_of_several_processes_do_not_take_over_the_word_proved():
    """Of a run that a single process began, whose bound was proved."""
    problem = capped()
    first = fw.solve(problem, "cgal", iterations=20)
    held, poor = JointBounds(problem), bounds.Bounds(problem)
    poor.note(-5.0, proved=True)
    held.restore(poor.kept(), [])
    assert held.known(2.0, 0.0).kind == "proved"
    with problem.precision():
        held._take_turn(problem.on_device().core(), first.method, first.state, 1.0)
    assert held.lower > 0
    assert held.known(2.0, 0.0).kind == "numerical"


def test_what_the_end_of_a_run_spends_is_counted():
    result = fw.solve(capped(), "hfw", iterations=100)
    on_the_way = result.bounds.spent
    began = time.perf_counter()
    assert result.certificate is not None
    assert on_the_way < result.bounds.spent <= on_the_way + time.perf_counter() - began


def test_certificates_can_be_switched_off():
    result = fw.solve(capped(), "hfw", iterations=100, certify=False)
    assert result.certificate is None
    assert "certify=False" in result.evidence
    assert result.to_dict()["certificate"] is None


def test_large_problems_are_certified_only_if_asked(monkeypatch):
    monkeypatch.setattr(bounds, "LARGE_BYTES", 8)
    assert "certify=True" in fw.solve(capped(), "hfw", iterations=10).evidence
    assert fw.solve(capped(), "hfw", iterations=10, certify=True).certificate is not None


def test_a_certificate_in_json():
    result = fw.solve(capped(), fw.methods.hfw(mu_c=1.0), iterations=100)
    stored = json.loads(json.dumps(result.to_dict(), allow_nan=False))["certificate"]
    assert stored["upper"] is None
    assert stored["kind"] == "proved"
    assert stored["words"] == str(result.certificate)


def test_sentences_round_bounds_to_the_safe_side():
    """108.6957 rounds to 108.696, which is above what was proved."""
    of = fw.Certificate.of
    words = str(of(lower=108.6957, upper=109.10501, objective=109.0))
    assert "between 108.695 and 109.106 (proved)" in words
    assert "at least 108.695 (proved)" in str(of(lower=108.6957, objective=109.0))
    negative = str(of(lower=-1.234569, upper=-1.234561, objective=0.0))
    assert "between -1.23457 and -1.23456 " in negative
    assert "at most 0.127% from it" in str(of(lower=8.0, upper=8.010101, objective=0.0))  # 0.1262


@pytest.mark.parametrize("ends", [(8.0, 10.0), (-10.0, -8.0), (-1e-9, -1e-12), (0.5, 0.5)])
def test_no_optimum_is_further_than_the_gap_says(ends):
    lower, upper = ends
    gap = fw.Certificate.of(lower=lower, upper=upper, objective=upper).relative_gap
    optima = np.linspace(lower, upper, 11)
    assert np.all((upper - optima) / np.abs(optima) <= gap * (1 + 1e-12))
    assert gap == (upper - lower) / min(abs(lower), abs(upper))


@pytest.mark.parametrize("ends", [(-1.0, 1.0), (0.0, 1e-9), (-1e-9, 0.0)])
def test_no_gap_is_relative_to_an_optimum_that_may_be_zero(ends):
    certificate = fw.Certificate.of(lower=ends[0], upper=ends[1], objective=0.0)
    assert certificate.relative_gap == math.inf
    assert not fw.Certified(gap=1.0).reached(fw.solve(capped(), "hfw").last, certificate)
    assert "%" not in str(certificate) and "may be 0" in str(certificate)
    stored = json.loads(json.dumps(certificate.to_dict(), allow_nan=False))
    assert stored["relative_gap"] is None
    assert fw.Certificate.of(lower=0.0, upper=0.0, objective=0.0).relative_gap == 0.0
    infeasible = fw.Certificate.of(lower=1.0, objective=-1.0)
    assert infeasible.relative_gap == -math.inf
    assert "The point found has -1, below that" in str(infeasible)


@pytest.mark.parametrize("shift", [-3.0, -1.0])
def test_optima_that_are_zero_or_negative_are_certified(shift):
    """min (3 + shift) a + (1 + shift) b on the simplex: 1 + shift, bounded and worded."""
    objective = fw.objectives.Linear(np.array([3.0, 1.0]) + shift)
    problem = fw.Problem(objective, fw.domains.Simplex(2))
    result = fw.solve(problem, "sfw", iterations=200, stop=fw.Certified(gap=1e-2))
    certificate, optimum = result.certificate, 1 + shift
    assert certificate.lower <= optimum <= certificate.upper
    assert json.dumps(result.to_dict(), allow_nan=False)
    ended = fw.Status.CERTIFIED if optimum else fw.Status.ITERATIONS
    assert result.status is ended
    assert (certificate.relative_gap <= 1e-2) == bool(optimum)


def test_single_precision_proves_nothing():
    certificate = fw.solve(capped(dtype=np.float32), "cgal", iterations=500).certificate
    assert certificate.kind == "numerical"
    assert 1.7 <= certificate.lower <= 1.8


def test_sweeps_have_certificates_too():
    (result,) = fw.sweep(capped(), ["hfw"], seeds=0, iterations=200)
    assert 1.5 <= result.certificate.lower <= 1.8


def black_box(x):
    """JAX knows no derivative of it."""
    number = jax.ShapeDtypeStruct((), x.dtype)
    return jax.pure_callback(lambda a: np.sum(a**2), number, x, vmap_method="sequential")


def test_a_function_without_a_derivative_does_not_end_the_run():
    problem = fw.Problem(fw.objectives.Smooth(black_box), fw.domains.Simplex(2), dtype=np.float64)
    result = fw.solve(problem, "zo-most-fw", iterations=5)
    assert result.certificate is None
    assert "cannot be had" in result.evidence


# Infeasible problems


@pytest.mark.parametrize("method", ["hfw", "most-fw", "cgal", "most-al"])
def test_an_infeasible_problem_is_recognised(method):
    result = fw.solve(capped(limit=0.4), method, iterations=5000)
    assert result.status is fw.Status.INFEASIBLE
    assert str(result.status).startswith("infeasible (suspected)")
    assert "on the whole domain" in result.evidence
    assert result.certificate is None


@pytest.mark.parametrize("method", ["most-fw+", "most-al+"])
def test_an_infeasible_problem_is_recognised_by_samples_of_its_rows(method):
    """In P+, which asks for all rows that are sampled."""
    rule = fw.constraints.Affine(np.eye(4), fw.sets.Box(-np.inf, 0.2), name="limit", batch=1)
    objective = fw.objectives.Linear(np.array([3.0, 1.0, 2.0, 4.0]))
    problem = fw.Problem(objective, fw.domains.Simplex(4), [rule])
    result = fw.solve(problem, method, iterations=5000)
    assert result.status is fw.Status.INFEASIBLE
    assert "on the whole domain" in result.evidence


def infeasible_by_samples(kind, limit=0.2):
    rule = fw.constraints.Affine(np.eye(3), fw.sets.Box(-np.inf, limit), name="limit")
    made = sampled_problem() if kind == "sampled" else online_problem(minibatches)
    return fw.Problem(made.objective, made.domain, [rule], dtype=np.float64)


@pytest.mark.parametrize("method", ["most-fw", "most-al"])
@pytest.mark.parametrize("kind", ["sampled", "online"])
def test_an_infeasible_problem_is_recognised_without_its_objective(kind, method):
    """Rays are of the constraints alone."""
    result = fw.solve(infeasible_by_samples(kind), method, iterations=2000)
    assert result.status is fw.Status.INFEASIBLE
    assert "on the whole domain" in result.evidence
    assert result.certificate is None


@pytest.mark.parametrize("looked", [False, True])
def test_an_infeasible_problem_is_recognised_without_a_derivative(looked, monkeypatch):
    """Also after a look at the objective that failed."""
    if looked:
        monkeypatch.setattr(bounds, "FIRST_AFTER", 0.0)
        monkeypatch.setattr(bounds, "SHARE", 1e3)
    rule = fw.constraints.Affine(np.eye(2), fw.sets.Box(-np.inf, 0.4), name="limit")
    problem = fw.Problem(
        fw.objectives.Smooth(black_box), fw.domains.Simplex(2), [rule], dtype=np.float64
    )
    result = fw.solve(problem, "zo-most-al", iterations=2000)
    assert result.status is fw.Status.INFEASIBLE
    assert "on the whole domain" in result.evidence


@pytest.mark.parametrize("kind", ["sampled", "online"])
def test_a_barely_feasible_problem_of_samples_raises_no_alarm(kind, monkeypatch):
    monkeypatch.setattr(bounds.Bounds, "stalled", True)
    result = fw.solve(infeasible_by_samples(kind, limit=1 / 3), "most-al", iterations=500)
    assert result.status is fw.Status.ITERATIONS


class Hasty(fw.domains.Simplex):
    """Its LMO takes the first corner, and so its least value is far too high."""

    least = Domain.least

    def lmo(self, direction, *, key=None, start=None, tolerance=0.0):
        found = super().lmo(jnp.arange(1.0, 1 + direction.size))
        return replaced(found, value=direction[0] * self.total)


def test_a_least_value_that_is_not_proved_raises_no_alarm():
    """x = (0, 1) keeps the constraint; by the LMO's word all of the domain is on the other side."""
    rule = fw.constraints.Affine(np.eye(2)[:1], fw.sets.Box(-np.inf, 0.5), name="limit")
    problem = fw.Problem(fw.objectives.Linear(np.array([3.0, 1.0])), Hasty(2), [rule])
    result = fw.solve(problem, "cgal", iterations=2000)
    assert result.relative_violation["limit"] > 0.1
    assert result.status is fw.Status.ITERATIONS
    assert result.bounds.infeasible is None


@pytest.mark.parametrize("method", ["hfw", "cgal"])
def test_an_infeasible_problem_over_matrices_is_recognised(method):
    """tr X <= 2, but the diagonal shall be 1."""
    places = np.arange(5)
    diagonal = fw.maps.Entries(places, places, symmetric=True)
    rule = fw.constraints.Affine(diagonal, fw.sets.Point(1.0), name="diagonal")
    matrix = np.random.default_rng(0).standard_normal((5, 5))
    problem = fw.Problem(
        fw.objectives.Linear(matrix + matrix.T), fw.domains.Spectrahedron(5, 2.0), [rule]
    )
    result = fw.solve(problem, method, iterations=5000)
    assert result.status is fw.Status.INFEASIBLE


def test_an_infeasible_run_ends_early(monkeypatch):
    monkeypatch.setattr(bounds, "FIRST_AFTER", 0.0)
    monkeypatch.setattr(bounds, "SHARE", 1e3)
    result = fw.solve(capped(limit=0.4), "hfw", iterations=10**6)
    assert result.status is fw.Status.INFEASIBLE
    assert result.iterations < 10**4


@pytest.mark.parametrize("method", ["hfw", "most-fw", "cgal"])
@pytest.mark.parametrize("limit", [0.5, 0.501])
def test_a_barely_feasible_problem_raises_no_alarm(method, limit, monkeypatch):
    """Here looked at whether or not the violation falls."""
    monkeypatch.setattr(bounds.Bounds, "stalled", True)
    monkeypatch.setattr(bounds, "FIRST_AFTER", 0.0)
    monkeypatch.setattr(bounds, "SHARE", 1e3)
    result = fw.solve(capped(limit), method, iterations=2000)
    assert result.status is fw.Status.ITERATIONS
    assert result.bounds.infeasible is None


# Objectives known from samples only


AIM = np.array([0.5, 0.4, 0.3])  # its projection on the simplex is AIM - 0.2/3


def loss(x, xi):
    return jnp.sum((x - xi) ** 2) / 2


def draw(key):
    return AIM + jax.random.normal(key, (3,))


OPTIMUM = 3 / 2 + 0.2**2 / 6  # half of variance and squared distance


def sampled_problem():
    return fw.Problem(fw.objectives.Sampled(loss, draw, batch=4), fw.domains.Simplex(3))


def test_fresh_samples_give_a_confidence_interval():
    inside = 0
    for iterations in range(40, 52):
        certificate = fw.solve(sampled_problem(), "sfw", iterations=iterations).certificate
        assert certificate.kind == "confidence interval"
        inside += certificate.lower <= OPTIMUM <= certificate.upper
    assert inside >= 11
    assert "99% confidence" in str(certificate)
    assert certificate.upper - certificate.lower < 0.5


def online_problem(stream):
    def value(x, rows):
        return jnp.mean(jax.vmap(lambda row: loss(x, row))(rows))

    return fw.Problem(fw.objectives.Online(value, stream, batch=64), fw.domains.Simplex(3))


def minibatches(start=0, end=10**6):
    for index in range(start, end):
        yield AIM + np.random.default_rng(index).standard_normal((64, 3))


def test_a_stream_that_can_be_opened_again_gives_a_confidence_interval():
    certificate = fw.solve(online_problem(minibatches), "sfw", iterations=200).certificate
    assert certificate.kind == "confidence interval"
    assert certificate.lower <= OPTIMUM <= certificate.upper


def test_a_stream_without_fresh_minibatches_gives_none_and_says_why():
    result = fw.solve(online_problem(minibatches()), "sfw", iterations=20)
    assert result.certificate is None
    assert "stream(start)" in result.evidence
    short = online_problem(lambda start: minibatches(start, 25))
    result = fw.solve(short, "sfw", iterations=20)
    assert result.certificate is None
    assert f"{intervals.BATCHES * intervals.MINIBATCHES} minibatches" in result.evidence


def test_the_bound_of_a_nonlinear_objective_uses_the_whole_gradient():
    """A tracked estimate from few samples would give another number, or a false one."""
    problem = logistic_problem(batch=2)
    result = fw.solve(problem, "most-fw", iterations=3000)
    x = cp.Variable(5)
    data = problem.objective.data
    margins = cp.multiply(np.asarray(data["label"]), np.asarray(data["feature"]) @ x)
    reference = cp.Problem(cp.Minimize(cp.sum(cp.logistic(-margins)) / 40), [cp.norm1(x) <= 3.0])
    optimum = reference.solve(solver=cp.CLARABEL)
    certificate = result.certificate
    assert certificate.lower <= optimum + 1e-7 <= certificate.upper + 1e-6
    assert certificate.relative_gap <= 0.1
