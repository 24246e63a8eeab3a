"""What speed rests on: few arrays, few compilations, and nothing that drifts."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from benchmarks import instances
from benchmarks.memory import numbers_per_step

import mostfw as fw
from common import clustering_problem, compiled_programs, modules_after
from mostfw import handover, linalg, sets
from mostfw.frank_wolfe import State, advance, current, start
from mostfw.schedules import Power
from mostfw.thresholds import simplex_threshold, threshold_below
from mostfw.trees import replaced

POINTS = np.random.default_rng(0).standard_normal((300, 4))


def clusters(**options):
    return fw.problems.kmeans(POINTS, 3, **{"batch": 0.01, **options})


def after(problem, method, steps):
    """The state after some steps."""
    with problem.precision():
        method = method.bind(problem)
        core = problem.on_device().core()
        key, fed = jax.random.PRNGKey(0), jnp.asarray(1, jnp.int32)
        fixed = (core, method, key, jnp.asarray(steps, jnp.int32), None, fed)
        return core, method, advance(fixed, start(core, method))


# The limits of docs/speed.md; at this side lists of the batch and the Krylov basis matter little.
@pytest.mark.parametrize(
    ("name", "most"),
    [
        ("most-fw", 3),
        ("most-fw+", 3),
        ("t-most-fw", 4),
        ("t-most-fw+", 4),
        ("most-al", 4),  # multipliers
        ("most-al+", 5),  # multipliers and a table
        ("h-sag-cgm", 5),  # two tables
    ],
)
def test_a_step_holds_few_matrices(name, most):
    own = {"beta_0": 1.0} if "-al" in name else {"mu_c": 1.0}
    method = fw.methods.get(name, **own)
    plus = method.constraints == "sampled"
    found = numbers_per_step(instances.kmeans(instances.blobs(600), plus), method)
    assert found["total"] <= most


def test_a_covariance_step_holds_three_matrices():
    problem = fw.problems.covariance(factor=np.random.default_rng(0).random((600, 4)), batch=20)
    assert numbers_per_step(problem, fw.methods.most_fw(1.0))["total"] < 3.1


def test_an_applied_direction_gives_the_same_run():
    problem = clusters()
    formed = fw.methods.get("most-fw", lmo_tolerance=1e-12)
    applied = replaced(formed, direction="applied")
    runs = [fw.solve(problem, m, iterations=12, progress=False) for m in (formed, applied)]
    np.testing.assert_allclose(runs[1].x, runs[0].x, atol=1e-7)
    assert runs[1].violation["sign"] == pytest.approx(runs[0].violation["sign"], rel=1e-6)


def test_a_direction_is_applied_only_where_that_is_possible():
    method = replaced(fw.methods.get("t-most-fw", tau_0=1.0), direction="applied")
    with pytest.raises(fw.UnsuitableMethodError, match="applies its direction"):
        fw.solve(clusters(), method, iterations=2)
    with pytest.raises(fw.InvalidInputError, match="direction is 'both'"):
        replaced(fw.methods.most_fw(), direction="both")


def test_a_direction_that_does_not_fit_the_device_is_applied(monkeypatch):
    problem, method = clusters(), fw.methods.most_fw()
    assert method.bind(problem).direction == "formed"
    monkeypatch.setattr("mostfw.resources.accelerator_bytes", lambda: 3 * 8 * 300**2)
    assert method.bind(problem).direction == "applied"
    monkeypatch.setattr("mostfw.resources.accelerator_bytes", lambda: 5 * 8 * 300**2)
    assert method.bind(problem).direction == "formed"


def test_carried_images_follow_the_point():
    problem = clusters()
    core, _, state = after(problem, fw.methods.most_fw(), 200)
    rows = core.constraints[0]
    np.testing.assert_allclose(state.memos[0].image, rows.map.forward(state.x), atol=1e-12)
    assert state.memos[1].image is None  # of X itself


@pytest.mark.parametrize(
    "linear_map",
    [
        fw.maps.RowSums(),
        fw.maps.Trace(),
        fw.maps.TotalSpread(),
        fw.maps.Entries([0, 2], [1, 2], symmetric=True),
    ],
    ids=lambda m: type(m).__name__,
)
def test_images_of_atoms(linear_map):
    v = np.random.default_rng(0).standard_normal(5)
    atom = fw.atoms.RankOneSymmetric(jnp.asarray(v), jnp.asarray(1.7))
    np.testing.assert_allclose(
        linear_map.image_of(atom), linear_map.forward(atom.dense()), rtol=1e-5
    )
    assert linear_map.image_of(fw.atoms.Dense(atom.dense())) is None


@pytest.mark.parametrize("the_set", [sets.L1Ball(3.0), sets.Simplex(2.0), sets.Box(-0.2, 0.4)])
@pytest.mark.parametrize("guess", [0.0, 0.3, 1e6, -1e6, np.nan])
def test_a_guess_changes_nothing(the_set, guess):
    with jax.enable_x64(True):
        r = jnp.asarray(np.random.default_rng(3).standard_normal((20, 30)))
        found, again = the_set.residual(r, jnp.asarray(guess))
        np.testing.assert_allclose(found, r - the_set.project(r), atol=1e-12)
        if the_set.first_guess(r.dtype) is not None:
            np.testing.assert_allclose(the_set.residual(r, again)[0], found, atol=1e-13)


def passes_of(values, total, start):
    """How often the threshold's Newton looks at all the values."""
    looks = []

    def size(v):
        jax.debug.callback(lambda _: looks.append(1), v[0])
        return v

    jax.block_until_ready(threshold_below(jnp.max(values), values, size, total, start))
    jax.effects_barrier()
    return len(looks)


def test_a_threshold_near_the_last_one_takes_fewer_passes():
    with jax.enable_x64(True):
        rng = np.random.default_rng(0)
        values = jnp.asarray(np.abs(rng.standard_normal(20_000)))
        moved = values * (1 + 1e-4 * jnp.asarray(rng.standard_normal(20_000)))
        for share in (0.1, 0.3, 0.6):
            total = share * jnp.sum(values)
            last = simplex_threshold(values, total) - jnp.max(moved)
            fresh, warm = (passes_of(moved, total, start) for start in (None, last))
            assert warm <= fresh / 2, (warm, fresh)


def test_the_estimate_is_shrunk_without_a_pass_and_in_time():
    """1/k shrinks the common factor; below 2^-20 it is multiplied in, and nothing changes."""
    with jax.enable_x64(True):
        structure = jax.ShapeDtypeStruct((3, 3), jnp.float64)
        estimate = fw.sight.Estimate.zero(structure).holding(jnp.eye(3))
        for _ in range(30):
            estimate = estimate.scaled(jnp.asarray(0.5))
        assert float(estimate.factor) == 2.0**-9  # after 21 halvings it was made 1 again
        np.testing.assert_allclose(estimate.y, 2.0**-30 * np.eye(3), rtol=1e-15)


def test_other_numbers_do_not_compile_anew(monkeypatch):
    """Another mu_c, tolerance, seed, data of the same shape, record points or budget."""
    problem = clustering_problem(batch=6)
    points = np.random.default_rng(9).standard_normal(problem.objective.points.shape)
    other = fw.problems.kmeans(points, 2, batch=6, sampling="entries", sign_weight=10.0)
    jax.clear_caches()
    compiled = compiled_programs(monkeypatch)

    def compiling(posed, method, **given):
        before = len(compiled)
        fw.solve(posed, method, progress=False, **given)
        return len(compiled) - before

    assert compiling(problem, fw.methods.most_fw(1.0), iterations=10) > 2  # start, loop, measures
    assert compiling(problem, fw.methods.most_fw(2.5), iterations=23, seed=4) == 0
    method = fw.methods.get("most-fw", mu_c=3.0, lmo_tolerance=1e-9)
    assert compiling(problem, method, iterations=5) == 0
    assert compiling(problem, method, iterations=9, record=[2, 3, 7]) == 0
    assert compiling(problem, method, iterations=9, seconds=5.0) == 0
    assert compiling(other, fw.methods.most_fw(0.5), iterations=7) == 0
    assert compiling(clustering_problem(batch=7), method, iterations=3) > 0  # sizes are shapes


def test_a_large_point_comes_to_the_host_slab_by_slab(monkeypatch):
    problem = clusters()
    core, _, state = after(problem, fw.methods.most_fw(), 20)
    whole = np.asarray(current(core, state))
    monkeypatch.setattr(handover, "SLAB_BYTES", 8 * 300 * 77)
    slabs = handover.moved_to_host(core, state)
    np.testing.assert_allclose(slabs, whole, rtol=0, atol=1e-15)


def test_measures_apart_are_the_measures_together(monkeypatch):
    problem = clusters()
    together = fw.solve(problem, "most-fw", iterations=5, progress=False)
    monkeypatch.setattr("mostfw.measures.APART_FROM_BYTES", 1)
    apart = fw.solve(problem, "most-fw", iterations=5, progress=False)
    assert apart.objective == pytest.approx(together.objective, rel=1e-12)
    for name, value in together.violation.items():
        assert apart.violation[name] == pytest.approx(value, rel=1e-12)


def test_float32_ends_where_float64_does():
    """A run's own noise is larger: one seed, 400 steps, the two precisions within 2%."""
    exact = fw.solve(clusters(), "most-fw", iterations=400, progress=False)
    single = fw.solve(clusters(dtype=np.float32), "most-fw", iterations=400, progress=False)
    assert single.x.dtype == np.float32
    assert single.objective == pytest.approx(exact.objective, rel=0.02)


def test_a_loose_tolerance_takes_fewer_products_and_an_exact_lmo_can_be_asked_for():
    counts = [
        fw.solve(clusters(), method, iterations=100, progress=False).counts.matvecs
        for method in (
            fw.methods.get("most-fw", lmo_tolerance=Power(0.3, exponent=0.5)),
            fw.methods.get("most-fw", lmo_tolerance=1e-10),
        )
    ]
    assert counts[0] < 0.6 * counts[1]


@pytest.mark.parametrize("seed", range(3))
def test_quick_looks_report_what_they_do_not_resolve(seed):
    """The residual of a loose search is the true one, and the value is above the smallest."""
    with jax.enable_x64(True):
        rng = np.random.default_rng(seed)
        q = np.linalg.qr(rng.standard_normal((200, 200)))[0]
        values = np.r_[-1.0, -1 + 1e-5, -1 + 2e-5, np.linspace(-0.9, 1, 197)]
        a = (q * values) @ q.T
        pair = linalg.smallest_eigenpair((a + a.T) / 2, jax.random.key(seed), tolerance=0.05)
        v = np.asarray(pair.vector)
        true = np.linalg.norm(a @ v - float(pair.value) * v)
        assert float(pair.residual) == pytest.approx(true, rel=1e-6)
        assert bool(pair.converged)
        assert -1 - 1e-12 <= float(pair.value) <= -0.9


def test_importing_is_quick():
    """No plotting, solver or scikit-learn is imported: that is what takes seconds."""
    found = modules_after("import mostfw; mostfw.solve, mostfw.problems")
    assert {"mostfw.solving", "mostfw.problems.kmeans", "jax"} <= found  # the engine is there
    heavy = {"matplotlib", "sklearn", "cvxpy", "jinja2", "networkx", "pandas", "pooch", "rich"}
    assert not heavy & found


def test_the_state_is_a_pytree_of_arrays():
    """Resuming, sweeping and donating rest on it."""
    _, _, state = after(clusters(), fw.methods.most_fw(), 3)
    assert isinstance(state, State)
    assert all(eqx.is_array(leaf) for leaf in jax.tree.leaves(state))


def test_an_invariant_space_ends_the_search_whatever_the_tolerance():
    """Few distinct eigenvalues and a tolerance of rounding size: it must end, at once."""
    for dtype, seed in ((jnp.float32, 0), (jnp.float32, 1), (jnp.float64, 2)):
        q = np.linalg.qr(np.random.default_rng(seed).standard_normal((100, 100)))[0]
        a = (q * np.repeat([-1.0, 0.5, 2.0, 3.0], 25)) @ q.T
        a = jnp.asarray((a + a.T) / 2, dtype)
        pair = linalg.smallest_eigenpair(a, jax.random.key(seed), tolerance=0.0)
        assert float(pair.value) == pytest.approx(-1, abs=1e-5)
        assert int(pair.matvecs) < 100
    few = linalg.smallest_eigenpair(a, jax.random.key(0), steps=4, restarts=0)
    assert float(jnp.linalg.norm(few.vector)) == pytest.approx(1)


def test_a_warm_start_on_another_problem_carries_no_images_over():
    def problem(row, column):
        rule = fw.constraints.Affine(
            fw.maps.Entries([row], [column], symmetric=True), fw.sets.Point(0.1), name="entry"
        )
        c = np.diag(np.arange(6.0))
        return fw.Problem(fw.objectives.Linear(c), fw.domains.Spectrahedron(6, trace=1.0), [rule])

    first = fw.solve(problem(0, 1), "hfw", iterations=5, progress=False)
    other = problem(2, 3)
    second = fw.solve(other, "hfw", iterations=6, warm_start=first, progress=False)
    with other.precision():
        want = other.constraints[0].map.forward(second.state.x)
    np.testing.assert_allclose(second.state.memos[0].image, want, atol=1e-12)
