"""The host loop: budgets, stopping, records, determinism, continuing, precision, streams."""

import json
import subprocess
import sys
import threading
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mostfw as fw
import mostfw.frank_wolfe
from common import clustering_problem, cut_problem, logistic_problem
from mostfw.solving import chosen


def solve(problem, method="most-fw", **options):
    return fw.solve(problem, method, progress=False, **options)


@pytest.mark.parametrize(
    "name", ["most-fw", "t-most-fw+", "h-sag-cgm", "h-spider-fw", "zo-most-fw"]
)
def test_same_bits_whatever_the_record_points_and_when_continued(name):
    trimmed = {"tau_0": 100.0} if name.startswith("t-") else {}
    method = fw.methods.get(name, mu_c=2.0, **trimmed)
    sampled = method.constraints == "sampled"
    problem = clustering_problem(batch=5, constraint_batch=7 if sampled else None)
    once = solve(problem, method, iterations=60, seed=3)
    often = solve(problem, method, iterations=60, seed=3, record=[1, 7, 8, 31])
    first = solve(problem, method, iterations=23, seed=3)
    continued = solve(problem, method, iterations=37, warm_start=first)
    for other in (often, continued):
        np.testing.assert_array_equal(once.x, other.x)
        assert once.counts == other.counts
    assert [record.iteration for record in often.history] == [1, 7, 8, 31, 60]
    assert continued.iterations == 60
    assert continued.history[-1].iteration == 60


def test_another_seed_gives_another_run():
    problem = clustering_problem(batch=5)
    one, other = (solve(problem, iterations=30, seed=seed) for seed in (0, 1))
    assert not np.array_equal(one.x, other.x)


def test_continuing_leaves_the_earlier_result_usable():
    problem = clustering_problem(batch=5)
    first = solve(problem, iterations=10)
    before = first.x.copy()
    solve(problem, iterations=10, warm_start=first)
    again = solve(problem, iterations=10, warm_start=first)
    np.testing.assert_array_equal(first.x, before)
    assert again.iterations == 20
    assert len(first.history) < len(again.history)


def test_a_linear_objective_is_looked_at_anew_when_another_takes_its_place():
    costs = np.array([3.0, 1.0, 2.0]), np.array([1.0, 4.0, 9.0])
    one, other = (fw.Problem(fw.objectives.Linear(c), fw.domains.Simplex(3)) for c in costs)
    first = solve(one, "hfw", iterations=5)
    np.testing.assert_array_equal(first.state.estimate.y, costs[0])
    moved = solve(other, "hfw", iterations=5, warm_start=first)
    np.testing.assert_array_equal(moved.state.estimate.y, costs[1])
    assert moved.counts.gradients == 10 * 3  # as many as the method asks for


def test_default_records_are_geometric_and_end_with_the_last():
    history = solve(cut_problem(batch=5), iterations=1000).history
    steps = [record.iteration for record in history]
    assert steps[0] == 1
    assert steps[-1] == 1000
    assert 25 <= len(steps) <= 40
    assert max(np.diff(np.log(steps[5:]))) < 0.4


def test_time_budget_is_a_status():
    result = solve(cut_problem(batch=5), iterations=10**9, seconds=0.3)
    assert result.status is fw.Status.SECONDS
    assert 0.3 <= result.seconds < 1.5
    assert 1 < result.iterations < 10**9


def test_callback_sees_records_and_can_stop():
    seen = []

    def callback(record):
        seen.append((record.iteration, record.counts.lmo, record.objective))
        return record.iteration >= 20

    result = solve(cut_problem(batch=5), iterations=100, record=10, callback=callback)
    assert result.status is fw.Status.CALLBACK
    assert [s[:2] for s in seen] == [(10, 10), (20, 20)]
    assert seen[-1][2] == result.objective


def test_tolerances_stop_a_run():
    problem = fw.Problem(
        fw.objectives.Linear(np.diag([2.0, 1.0, 3.0])),
        fw.domains.Spectrahedron(3, trace=1.0, equality=True),
        optimum=1.0,
    )
    result = solve(problem, "sfw", iterations=10_000, stop=fw.Tolerance(gap=1e-3))
    assert result.status is fw.Status.TOLERANCE
    assert abs(result.relative_gap) <= 1e-3
    assert result.iterations < 10_000


def test_measures_are_what_they_say():
    problem = clustering_problem()
    result = solve(problem, fw.methods.most_fw(mu_c=1.0), iterations=200)
    x, distances = result.x, np.asarray(problem.objective.matrix)
    assert result.objective == pytest.approx(np.sum(x * distances), rel=1e-12)
    rows = np.linalg.norm(x.sum(axis=1) - 1)
    sign = np.linalg.norm(np.minimum(x, 0))
    assert result.violation == pytest.approx({"rows": rows, "sign": sign}, rel=1e-9)
    assert result.relative_violation["rows"] == pytest.approx(rows / np.sqrt(8))
    assert result.relative_violation["sign"] == pytest.approx(sign)
    mu = 1 / np.sqrt(200)
    np.testing.assert_allclose(result.dual["rows"], (x.sum(axis=1) - 1) / mu, atol=1e-10)
    np.testing.assert_allclose(result.dual["sign"], 10 * np.minimum(x, 0) / mu, atol=1e-10)
    frame = result.history.to_frame()
    assert frame["violation.rows"].iloc[-1] == pytest.approx(rows)
    assert json.loads(json.dumps(result.to_dict()))["counts"]["lmo"] == 200


def test_gap_is_signed_and_relative_to_the_optimum():
    problem = clustering_problem()
    known = fw.Problem(problem.objective, problem.domain, [], optimum=-4.0, metrics=problem.metrics)
    result = solve(known, "sfw", iterations=5)
    assert result.relative_gap == pytest.approx((result.objective + 4) / 4)


def _default_method_name(problem):
    return solve_default(problem).method.name


def solve_default(problem):
    return fw.solve(problem, iterations=2, progress=False)


def test_default_method_follows_what_is_sampled():
    assert _default_method_name(cut_problem()) == "cgal"
    assert _default_method_name(cut_problem(batch=1.0)) == "cgal"
    assert _default_method_name(cut_problem(batch=5)) == "most-al"
    assert _default_method_name(cut_problem(batch=5, constraint_batch=5)) == "most-al+"
    assert _default_method_name(logistic_problem()) == "most-fw"


def test_default_method_suits_constraints_without_a_table():
    nodes = 1291  # the first with more than 2^31 triangles, counted with their places
    ring = [(i, (i + 1) % nodes) for i in range(nodes)]
    problem = fw.problems.sparsest_cut(ring, batch=0.05, constraint_batch=1000)
    with pytest.raises(fw.UnsuitableMethodError, match="too many for one"):
        fw.methods.most_al_plus().bind(problem)
    assert chosen(problem, None).name == "most-fw+"
    # with a number given: without one, the units of 10^9 triangles would be measured
    assert fw.methods.most_fw_plus(mu_c=1.0).bind(problem)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["most-fw", "h1-sfw", "h-spider-fw", "h-sag-cgm", "zo-most-fw"])
def test_dtype_follows_the_problem(name, dtype):
    sampled = fw.methods.get(name).constraints == "sampled"
    points = np.random.default_rng(0).standard_normal((6, 2))
    problem = fw.problems.kmeans(
        points, 2, batch=4, constraint_batch=5 if sampled else None, dtype=dtype
    )
    result = solve(problem, name, iterations=20)
    assert result.x.dtype == dtype
    floats = [leaf for leaf in jax.tree.leaves(result.state) if leaf.dtype.kind == "f"]
    assert floats and all(leaf.dtype == dtype for leaf in floats)


def test_float64_input_keeps_its_precision_where_x64_is_off():
    program = """
import jax, numpy as np, mostfw as fw
assert not jax.config.jax_enable_x64
problem = fw.problems.kmeans(np.random.default_rng(0).standard_normal((6, 2)), 2, batch=4)
result = fw.solve(problem, "most-fw", iterations=20)
assert result.x.dtype == np.float64, result.x.dtype
assert result.dual["rows"].dtype == np.float64
assert not jax.config.jax_enable_x64
single = fw.problems.kmeans(np.zeros((6, 2)), 2, batch=4, dtype=np.float32)
assert fw.solve(single, "most-fw", iterations=5).x.dtype == np.float32
print(repr(float(result.x.sum())))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    problem = fw.problems.kmeans(np.random.default_rng(0).standard_normal((6, 2)), 2, batch=4)
    here = solve(problem, "most-fw", iterations=20)
    assert float(done.stdout) == float(here.x.sum())  # restarting gives the same bits


def stream_problem(stream, **options):
    def loss(x, rows):  # mean of ||X - ww'||^2 / 2 up to a constant
        return jnp.sum(x**2) / 2 - jnp.mean(jnp.sum((rows @ x) * rows, axis=1))

    objective = fw.objectives.Online(loss, stream, batch=10, **options)
    return fw.Problem(objective, fw.domains.Spectrahedron(3, trace=3.0), dtype=np.float64)


def minibatches(start=0):
    def one(number):
        rng = np.random.default_rng(number)
        return rng.standard_normal((10, 3)) * np.array([1.0, 0.5, 0.2])

    return (one(number) for number in range(start, 2000))


def test_online_tracker_is_the_mean_of_all_minibatches():
    """With gamma_k = 1/k and noise that does not depend on x, y_k = x_k - mean of ww'."""
    result = solve(stream_problem(minibatches()), "most-fw", iterations=700)
    rows = np.concatenate(list(minibatches())[:700])
    np.testing.assert_allclose(
        result.state.estimate.y, np.asarray(result.state.x) - rows.T @ rows / len(rows), atol=1e-9
    )
    truth = np.diag([1.0, 0.25, 0.04])
    assert np.linalg.norm(result.x - truth) < 0.1
    assert result.counts.gradients == 10 * (2 * 700 - 1)


def test_online_reads_no_more_than_it_needs_and_resumes_where_it_was():
    taken = []

    def stream(start=0):
        for number, minibatch in enumerate(minibatches(start), start):
            taken.append(number)
            yield minibatch

    once = solve(stream_problem(stream), "most-fw", iterations=300)
    assert taken == list(range(300))
    problem = stream_problem(stream)
    first = solve(problem, "most-fw", iterations=130)
    taken.clear()
    continued = solve(problem, "most-fw", iterations=170, warm_start=first)
    assert taken == list(range(130, 300))
    np.testing.assert_array_equal(once.x, continued.x)


def test_online_objective_is_reported_on_the_holdout():
    rows = np.eye(3)
    result = solve(stream_problem(minibatches(), holdout=rows), "sfw", iterations=20)
    want = np.sum(result.x**2) / 2 - np.trace(result.x) / 3
    assert result.objective == pytest.approx(want)


def test_zeroth_order_on_a_stream():
    result = solve(stream_problem(minibatches()), "zo-most-fw", iterations=300)
    assert np.linalg.norm(result.x - np.diag([1.0, 0.25, 0.04])) < 0.15


def test_changing_numbers_does_not_compile_again():
    problem = logistic_problem(batch=3)
    solve(problem, fw.methods.most_fw(1.0), iterations=5)
    again = solve(problem, fw.methods.most_fw(7.0), iterations=11, seed=5, record=2)
    assert again.compile_seconds < 0.1


def test_a_tree_of_blocks_and_a_coupling_constraint():
    domain = fw.domains.Product({"p": fw.domains.Simplex(3), "q": fw.domains.Box(0.0, 1.0, 2)})
    objective = fw.objectives.Smooth(
        lambda x: jnp.sum((x["p"] - 0.5) ** 2) + jnp.sum((x["q"] - 1.0) ** 2)
    )
    coupling = fw.constraints.Affine(
        lambda x: x["q"] - x["p"][:2], fw.sets.Point(0.0), name="coupling"
    )
    problem = fw.Problem(objective, domain, [coupling], dtype=np.float64)
    result = solve(problem, fw.methods.hfw(0.3), iterations=3000)
    # q = (p_1, p_2), p_3 = 1 - p_1 - p_2: p_1 = p_2 = 1/2 minimises 4 (p - 1/2)^2 ... by symmetry
    best = min(
        2 * (p - 0.5) ** 2 + (0.5 - 2 * p) ** 2 + 2 * (p - 1) ** 2
        for p in np.linspace(0, 0.5, 5001)
    )
    assert result.violation["coupling"] < 0.02
    assert result.objective == pytest.approx(best, abs=0.03)


def test_numpy_numbers_serve_as_parameters():
    for number in (np.int64(2), np.float32(2), 2):
        assert float(fw.methods.most_fw(mu_c=number).smoothing.mu(4)) == 1.0


def test_the_same_problem_built_again_does_not_compile_the_loop_again():
    def kmeans(name):
        points = np.random.default_rng(1).standard_normal((7, 2))
        return fw.problems.kmeans(points, 2, batch=4, optimum=name)

    solve(kmeans(1.0), iterations=5)
    compiled = fw.frank_wolfe.advance._cached._cache_size()
    solve(kmeans(2.0), iterations=5)
    assert fw.frank_wolfe.advance._cached._cache_size() == compiled


def test_float64_bounds_make_a_float64_problem():
    box = fw.domains.Box(np.zeros(3), np.ones(3))
    assert fw.Problem(fw.objectives.Smooth(jnp.sum), box).dtype == np.float64


def test_a_run_that_stops_early_leaves_no_thread():
    def endless(start=0):
        while True:
            yield np.ones((10, 3))

    before = threading.active_count()
    for _ in range(3):
        solve(stream_problem(endless), "sfw", iterations=10**6, record=1, callback=lambda r: True)
    deadline = time.monotonic() + 5
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert threading.active_count() <= before


def test_spider_needs_no_memory_for_batches_that_it_never_draws():
    graph = fw.graphs.as_graph(np.ones((60, 60)) - np.eye(60))
    problem = fw.problems.sparsest_cut(graph, batch=0.01, constraint_batch=0.01, dtype=np.float32)
    problem = problem.on_device().core()
    method = fw.methods.h_spider_fw().bind(problem)
    state = fw.frank_wolfe.start(problem, method)
    loop = jax.jit(lambda s: fw.frank_wolfe.step(problem, method, s, jax.random.PRNGKey(0)))
    temporary = loop.lower(state).compile().memory_analysis().temp_size_in_bytes
    assert temporary < 8 * 60**3 * 4


def test_continuing_after_the_end_of_a_stream_is_a_status():
    def short(start=0):
        return (np.ones((10, 3)) for _ in range(start, 20))

    problem = stream_problem(short)
    first = solve(problem, "sfw", iterations=50)
    assert (first.status, first.iterations) == (fw.Status.STREAM_ENDED, 20)
    again = solve(problem, "sfw", iterations=50, warm_start=first)
    assert (again.status, again.iterations) == (fw.Status.STREAM_ENDED, 20)
    np.testing.assert_array_equal(first.x, again.x)
