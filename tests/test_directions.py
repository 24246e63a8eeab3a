"""Directions that are made so that little is read: the same matrix, and LMOs as exact as asked."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mostfw as fw
from mostfw import frank_wolfe
from mostfw.directions import Aim, Lean
from mostfw.maps._triangles import WRITTEN_OUT
from mostfw.method import LEAN_FROM
from mostfw.trees import replaced

SIDE = LEAN_FROM
POINTS = np.random.default_rng(0).standard_normal((SIDE, 4))


def clusters(constraint_batch=None, scale=1.0):
    return fw.problems.kmeans(scale * POINTS, 3, batch=0.05, constraint_batch=constraint_batch)


def graph_problem():
    rng = np.random.default_rng(1)
    edges = [tuple(rng.choice(SIDE, 2, replace=False)) for _ in range(3 * SIDE)]
    return fw.problems.max_cut(fw.graphs.as_graph(edges))


def covariance():
    return fw.problems.covariance(factor=np.random.default_rng(0).random((SIDE, 4)), batch=20)


CASES = {
    "most-fw": clusters,
    "most-fw+": lambda: clusters(0.05),
    "most-al": clusters,
    "most-al+": lambda: clusters(0.05),
    "cgal": graph_problem,
    "t-most-fw": clusters,
    "hfw": covariance,
}


def stepped(problem, method, steps):
    """The state after some steps, and what a test needs to look at it."""
    with problem.precision():
        method = method.bind(problem)
        core = problem.on_device().core()
        state = frank_wolfe.start(core, method)
        fixed = (core, method, jax.random.PRNGKey(0), jnp.asarray(steps, jnp.int32), None)
        return core, method, frank_wolfe.advance((*fixed, jnp.asarray(1, jnp.int32)), state)


@pytest.mark.parametrize("name", CASES)
def test_a_lean_direction_is_the_direction(name):
    given = {"tau_0": 1.0} if name.startswith("t-") else {}
    problem = CASES[name]()
    core, method, state = stepped(problem, fw.methods.get(name, **given), 7)
    assert method.lean and method.lmo_precision == "single"
    with problem.precision():
        exact, numbers = method.exact_constraints(core), frank_wolfe.numbers_of(method, 7, state)
        whole, memos = frank_wolfe._aim(
            core, method, state.x, state.estimate.y, numbers, state.memos
        )
        aim = Aim.at(state.estimate, state.x, exact, state.memos, numbers)
        lean, kept = aim.formed(np.float64, state.unit)
        made = state.unit * lean.dense()
        np.testing.assert_allclose(made, whole, rtol=0, atol=1e-12 * np.abs(whole).max())
        for one, other in zip(jax.tree.leaves(kept), jax.tree.leaves(memos), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12)
        assert float(aim.norm(state.unit) * state.unit) == pytest.approx(
            np.linalg.norm(whole), rel=1e-5
        )


@pytest.mark.parametrize("name", ["most-fw", "most-al", "cgal"])
def test_an_lmo_in_single_precision_is_within_its_tolerance(name):
    problem = CASES[name]()
    # no share of |<y, x>|: what is left is 1e-6 of the direction's norm
    strict = replaced(fw.methods.get(name), lmo_error=fw.schedules.Constant(0.0))
    core, method, state = stepped(problem, strict, 12)
    assert method.lmo_precision == "single"
    with problem.precision():
        numbers = frank_wolfe.numbers_of(method, 12, state)
        s, _ = frank_wolfe._aim(core, method, state.x, state.estimate.y, numbers, state.memos)
        values, vector = np.linalg.eigvalsh(np.asarray(s)), np.asarray(state.atom.vector)
    assert vector.dtype == np.float64
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-15)
    assert vector @ np.asarray(s) @ vector <= values[0] + 2e-6 * np.abs(values).max()


def test_a_run_in_full_precision_is_that_without_lean_directions():
    problem, method = clusters(), fw.methods.get("most-fw", lmo_tolerance=1e-12)
    assert method.bind(problem).lmo_precision == "full"
    core, bound, state = stepped(problem, method, 10)
    with problem.precision():
        plain = replaced(bound, lean=False)
        fixed = (core, plain, jax.random.PRNGKey(0), jnp.asarray(10, jnp.int32), None)
        start = frank_wolfe.start(core, plain)
        other = frank_wolfe.advance((*fixed, jnp.asarray(1, jnp.int32)), start)
    np.testing.assert_allclose(state.x, other.x, rtol=0, atol=1e-9)


TRIMMED = {
    "absolute": {"tau_0": 30_000.0},
    "relative": {"tau_0": 3.0, "relative": True},
    "by a bound": {"tau_0": 60_000.0, "test": "bound"},
}


@pytest.mark.parametrize("rule", TRIMMED)
def test_trimming_of_lean_directions_keeps_its_promise(rule):
    problem, relative = clusters(), rule == "relative"
    method = fw.methods.get("t-most-fw", mu_c=1.0, **TRIMMED[rule])
    with problem.precision():
        method = method.bind(problem)
        core = problem.on_device().core()
        assert method.lean
        key, state = jax.random.PRNGKey(0), frank_wolfe.start(core, method)

        @jax.jit
        def advance(state):
            state = frank_wolfe.step(core, method, state, key)
            numbers = frank_wolfe.numbers_of(method, state.k, state)
            s = frank_wolfe.direction(core, method, state.x, state.estimate.y, numbers)
            limit = method.trimming.tau(state.k) * (jnp.linalg.norm(s) if relative else 1.0)
            assert isinstance(state.reference, Lean)
            distance = jnp.linalg.norm(s - state.reference.unit * state.reference.dense())
            # the reference itself is in single precision
            return state, distance - 1e-6 * jnp.linalg.norm(s), limit

        for _ in range(60):
            state, distance, limit = advance(state)
            assert distance < limit
    assert 0 < fw.Counts.of(state).lmo_skipped < 59


@pytest.mark.parametrize("rule", TRIMMED)
def test_a_warm_start_on_another_problem_asks_the_lmo_first(rule):
    """Whatever the threshold: the last atom was another direction's."""
    given = TRIMMED[rule] | {"tau_0": 1e12}
    method = fw.methods.get("t-most-fw", mu_c=1.0, **given)
    first = fw.solve(clusters(), method, iterations=5)
    assert first.counts.lmo == 1
    for where, more in ((first.problem, 0), (clusters(scale=2.0), 1)):
        moved = fw.solve(where, method, iterations=5, warm_start=first)
        assert moved.counts.lmo == 1 + more


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("t-most-al", clusters),  # multipliers go their own way
        ("t-h-sag-cgm", lambda: clusters(0.05)),  # and so does a table
        ("t-most-fw", covariance),  # whose draws are dense
        ("t-most-fw", lambda: fw.problems.kmeans(POINTS[:20], 3)),  # no lean directions
    ],
)
def test_a_bound_that_is_not_known_is_not_promised(name, problem):
    method = fw.methods.get(name, tau_0=1.0, test="bound")
    with pytest.raises(fw.UnsuitableMethodError, match=f"{name}.*bound.*test='norm'"):
        fw.solve(problem(), method, iterations=2)


def test_a_threshold_of_zero_skips_nothing():
    """From the same states: on its own, rounding of 5e-7 grows tenfold in five steps."""
    problem, trimmed = clusters(), fw.methods.get("t-most-fw", mu_c=1.0, tau_0=0.0)
    core, method, state = stepped(problem, fw.methods.most_fw(mu_c=1.0), 0)
    with problem.precision():
        trimmed = trimmed.bind(problem)
        reference, key = frank_wolfe.start(core, trimmed).reference, jax.random.PRNGKey(0)
        step = eqx.filter_jit(frank_wolfe.step)
        for _ in range(20):
            other = step(core, trimmed, replaced(state, reference=reference), key)
            state, reference = step(core, method, state, key), other.reference
            assert fw.Counts.of(other).lmo_skipped == 0
            ours, plain = (frank_wolfe.current(core, s) for s in (other, state))
            np.testing.assert_allclose(ours, plain, rtol=0, atol=1e-5)


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_numbers_beyond_single_precision_are_minimised_over(scale):
    """Squared distances of about 1e60 and 1e-60."""
    usual = fw.solve(clusters(), "most-fw", iterations=30)
    other = fw.solve(clusters(scale=scale), "most-fw", iterations=30)
    assert other.objective / scale**2 == pytest.approx(usual.objective, rel=0.2)


def test_single_precision_is_refused_where_it_is_not_to_be_had():
    small = fw.problems.kmeans(POINTS[:8], 3)
    method = replaced(fw.methods.most_fw(), lmo_precision="single")
    with pytest.raises(fw.UnsuitableMethodError, match="side 256"):
        fw.solve(small, method, iterations=1)
    with pytest.raises(fw.InvalidInputError, match="lmo_precision is 'double'"):
        replaced(fw.methods.most_fw(), lmo_precision="double")


@pytest.mark.parametrize("side", [5, WRITTEN_OUT, WRITTEN_OUT + 3])
def test_triangles_are_summed_up_by_rows(side):
    """Written out, and in a loop; `adjoint` has all rows."""
    x = np.random.default_rng(side).standard_normal((side, side))
    x, triangles = jnp.asarray(x + x.T), fw.maps.Triangles(side=side)
    every = triangles.residual(x, jax.nn.relu)
    expected = triangles.adjoint(every, jax.eval_shape(lambda: x))
    np.testing.assert_allclose(triangles.pull(x, jax.nn.relu), expected, rtol=0, atol=1e-11 * side)
