"""Identities that hold by mathematics, so that no reference implementation is needed."""

import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given

import mostfw as fw
from common import (
    WITH_CONSTRAINTS,
    clustering_problem,
    covariance_problem,
    cut_problem,
    logistic_problem,
    snapshot_samples,
    spider_samples,
)
from mostfw import frank_wolfe, trees
from mostfw.schedules import Power
from mostfw.sight import Estimate, Sight
from mostfw.smoothing import Penalty
from mostfw.trees import replaced

SEEDS = [0, 1, 2]


def run(problem, method, iterations, seed=0, **options):
    return fw.solve(problem, method, iterations=iterations, seed=seed, progress=False, **options)


def assert_same_point(one, other, tolerance=1e-7):
    """Compared after few steps: the LMO is discontinuous, so long trajectories may part."""
    np.testing.assert_allclose(one.x, other.x, rtol=0, atol=tolerance * (1 + np.abs(one.x).max()))


def assert_directions_of_hfw(problem, method, mu, seed, steps=40):
    """At every iterate of `method`, its direction is HFW's there with the smoothing mu_k."""
    problem = problem.on_device()
    method = method.bind(problem)
    key = jax.random.PRNGKey(seed)
    state = frank_wolfe.start(problem, method)

    @jax.jit
    def advance(state):
        state = frank_wolfe.step(problem, method, state, key)
        numbers = frank_wolfe.numbers_of(method, state.k, state)
        found = frank_wolfe.direction(problem, method, state.x, state.estimate.y, numbers)
        numbers = replaced(numbers, penalty=1 / mu(state.k))
        want = problem.objective.add_whole(jnp.zeros_like(state.x), 1.0, state.x, numbers)
        for constraint in problem.constraints:
            want = constraint.add_whole(want, 1.0, state.x, numbers)
        return state, trees.norm(found - want) / trees.norm(want)

    for _ in range(steps):
        state, error = advance(state)
        assert error < 1e-12


@pytest.mark.parametrize("make", WITH_CONSTRAINTS.values(), ids=WITH_CONSTRAINTS)
def test_exact_gradients_make_most_fw_hfw(make):
    mu = Power(2.0, exponent=0.5)
    for seed in SEEDS:
        assert_directions_of_hfw(make(), fw.methods.most_fw(2.0), mu, seed)


@pytest.mark.parametrize("make", [clustering_problem, covariance_problem])
def test_exact_gradients_make_most_fw_hfw_as_runs_too(make):
    hfw = replaced(fw.methods.hfw(), smoothing=Penalty(Power(2.0, exponent=0.5)))
    problem = make()
    assert_same_point(run(problem, fw.methods.most_fw(2.0), 40), run(problem, hfw, 40))


@pytest.mark.parametrize("batch", [3, None])
def test_without_constraints_most_fw_is_orgfw_with_its_weights(batch):
    problem = logistic_problem(batch)
    orgfw = replaced(
        fw.methods.orgfw(), tracker=fw.trackers.Momentum(Power(1)), step_size=Power(2, shift=1)
    )
    for seed in SEEDS:
        one, other = run(problem, fw.methods.most_fw(), 200, seed), run(problem, orgfw, 200, seed)
        np.testing.assert_array_equal(one.x, other.x)


@pytest.mark.exact
@pytest.mark.parametrize("name", ["most-fw", "shcgm", "most-fw+", "h1-sfw"])
def test_trimming_with_threshold_zero_changes_nothing(name):
    sampled = fw.methods.get(name).constraints == "sampled"
    problem = cut_problem(batch=5, constraint_batch=7 if sampled else None)
    plain = run(problem, fw.methods.get(name, mu_c=2.0), 150)
    for relative in (False, True):
        trimmed = run(
            problem, fw.methods.get(f"t-{name}", mu_c=2.0, tau_0=0.0, relative=relative), 150
        )
        np.testing.assert_array_equal(plain.x, trimmed.x)
        assert (trimmed.counts.lmo, trimmed.counts.lmo_skipped) == (150, 0)


@pytest.mark.parametrize("make", [cut_problem, clustering_problem])
def test_full_batches_make_most_fw_plus_hfw(make):
    problem = make(batch=1.0, constraint_batch=1.0)
    mu = Power(2.0, shift=1, exponent=0.25)
    for seed in SEEDS:
        assert_directions_of_hfw(problem, fw.methods.most_fw_plus(2.0), mu, seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_linear_objective_makes_the_tracked_gradient_a_running_mean(seed):
    problem = cut_problem(batch=5).on_device()
    method = fw.methods.most_fw(2.0).bind(problem)
    key = jax.random.PRNGKey(seed)
    state = frank_wolfe.start(problem, method)
    advance = jax.jit(lambda s: frank_wolfe.step(problem, method, s, key))

    @jax.jit
    def sampled(x, k):
        sample_key, _ = jax.random.split(jax.random.fold_in(key, k))
        numbers = frank_wolfe.numbers_of(method, k, state)
        sight = Sight.open(method.terms(problem), x, numbers, sample_key, None)
        return sight.add(Estimate.zero(problem.structure), 1.0).y

    total = 0.0
    for k in range(1, 31):
        state = advance(state)
        total = total + np.asarray(sampled(state.x, k))
        np.testing.assert_allclose(state.estimate.y, total / k, atol=1e-10)


def objective_gradient(problem, x):
    zero = trees.zeros(problem.structure)
    return problem.objective.add_whole(zero, 1.0, x, None)


@pytest.mark.parametrize("name", ["spider-fw", "svrf"])
def test_differences_of_a_linear_objective_are_no_noise(name):
    """Its gradients at two points are one, to the last bit: none is drawn, and all are counted."""
    problem = clustering_problem()
    problem = fw.Problem(problem.objective, problem.domain)
    estimates = []
    for steps in (1, 5, 30):
        result = run(problem, fw.methods.get(name), steps)
        want = objective_gradient(problem.on_device(), jnp.asarray(result.x))
        estimates.append(result.state.estimate.y)
        # which is another program, of other roundings where the compiler differs
        np.testing.assert_allclose(estimates[-1], want, rtol=1e-15)
        np.testing.assert_array_equal(estimates[-1], estimates[0])
    samples = {"spider-fw": spider_samples(64, 30), "svrf": snapshot_samples(64, 30)}
    assert result.counts.gradients == samples[name]


QUADRATIC = {"linear": cut_problem, "quadratic": covariance_problem}


@pytest.mark.exact
@pytest.mark.parametrize("make", QUADRATIC.values(), ids=QUADRATIC)
def test_central_differences_are_the_gradient_of_quadratics(make):
    """At every recorded point, with the radius of that iteration, to the rounding of the values:
    1e-13 of the gradient at first, some 1e-9 of it at the end, where it is near 0 itself."""
    problem = make()
    method = fw.methods.zo_most_fw(2.0).bind(problem)
    (term,) = method.terms(problem.on_device())
    seen = []

    def compare(record):
        seen.append(record.iteration)

    result = None
    for iterations in (1, 9, 90, 900):
        result = run(
            problem, fw.methods.zo_most_fw(2.0), iterations, warm_start=result, callback=compare
        )
        x = jnp.asarray(result.x)
        numbers = frank_wolfe.numbers_of(method, result.state.k, result.state)
        probe = term.message(x, term.whole_draw(jax.random.PRNGKey(0)), numbers)
        exact = objective_gradient(problem, x)
        error = trees.norm(trees.minus(probe.gradient, exact))
        rounding = jnp.finfo(x.dtype).eps * probe.size * x.size**0.5 / numbers.rho
        assert error < rounding, f"off by {error:.1e} at iteration {result.iterations}"
    assert seen[-1] == 1000


@pytest.mark.parametrize("relative", [False, True])
@pytest.mark.parametrize("name", ["t-most-fw", "t-most-fw+"])
def test_the_direction_used_is_within_the_threshold(name, relative):
    sampled = 9 if name.endswith("+") else None
    problem = clustering_problem(batch=5, constraint_batch=sampled).on_device()
    tau_0 = 0.3 if relative else 100.0
    method = fw.methods.get(name, mu_c=2.0, tau_0=tau_0, relative=relative).bind(problem)
    key = jax.random.PRNGKey(0)
    state = frank_wolfe.start(problem, method)

    @jax.jit
    def advance(state):
        state = frank_wolfe.step(problem, method, state, key)
        numbers = frank_wolfe.numbers_of(method, state.k, state)
        s = frank_wolfe.direction(problem, method, state.x, state.estimate.y, numbers)
        limit = method.trimming.tau(state.k) * (trees.norm(s) if relative else 1.0)
        return state, trees.norm(trees.minus(s, state.reference)), limit

    for _ in range(200):
        state, distance, limit = advance(state)
        assert distance < limit
    assert 0 < fw.Counts.of(state).lmo_skipped < 199


@given(
    n=st.integers(2, 7),
    seed=st.integers(0, 10**6),
    kind=st.sampled_from(["random", "clustered", "zero", "identity", "corner", "negative"]),
    equality=st.booleans(),
)
def test_lmo_of_a_spectrahedron_is_the_smallest_eigenvalue(n, seed, kind, equality):
    rng = np.random.default_rng(seed)
    basis, _ = np.linalg.qr(rng.standard_normal((n, n)))
    spectrum = {
        "random": rng.standard_normal(n),
        "clustered": -1 + 1e-9 * rng.standard_normal(n),
        "zero": np.zeros(n),
        "identity": np.ones(n),
        "corner": np.eye(n)[-1],
        "negative": -rng.random(n) - 0.1,
    }[kind]
    s = (basis * spectrum) @ basis.T
    domain = fw.domains.Spectrahedron(n, trace=3.0, equality=equality)
    lowest = np.linalg.eigvalsh(s)[0]
    want = 3.0 * (lowest if equality else min(0.0, lowest))
    assert abs(float(domain.lmo(jnp.asarray(s)).value) - want) < 1e-8


@pytest.mark.parametrize("name", ["sfw", "shcgm", "most-fw", "h1-sfw", "most-fw+", "h-spider-fw"])
def test_every_iterate_stays_in_the_domain(name):
    method = fw.methods.get(name)
    if method.constraints == "none":
        problem = logistic_problem(batch=3)
    else:
        sampled = method.constraints == "sampled"
        problem = clustering_problem(batch=6, constraint_batch=8 if sampled else None)
    domain, result = problem.domain, None
    for _ in range(12):
        result = run(problem, method, 5, warm_start=result)
        assert domain.contains(result.x, 1e-12)


def test_hessian_vector_correction_equals_the_difference_for_quadratics():
    """With f(., xi) quadratic the Hessian is constant, so both forms of 1-SFW are one."""
    problem = covariance_problem(batch=4)
    problem = fw.Problem(problem.objective, problem.domain)
    for seed in SEEDS:
        one = run(problem, fw.methods.one_sfw(), 60, seed)
        other = run(problem, fw.methods.one_sfw(hessian=True), 60, seed)
        assert_same_point(one, other)
