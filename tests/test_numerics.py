"""Numbers that stay sane: failing eigensolvers, very many steps, very large and small numbers, and
problems with nothing in them."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from benchmarks import soak

import mostfw as fw
from mostfw import frank_wolfe, linalg
from mostfw.errors import InvalidInputError, NonFiniteError
from mostfw.linalg import _search, leading_singular_pair, smallest_eigenpair
from mostfw.operators import SymmetricOperator
from mostfw.trees import replaced

KEY = jax.random.PRNGKey(3)
LAST = 2**31 - 2  # the largest number of iterations
FLOATS = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def solve(problem, method, iterations=40, **options):
    options = {"record": [iterations], "progress": False, **options}
    return fw.solve(problem, method, iterations=iterations, **options)


def path_laplacian(n):
    """Its smallest eigenvalues lie within 10/n^2 of each other: hard for every Krylov search."""
    return 2 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1)


def exactly(values, found, rtol=1e-6):
    np.testing.assert_allclose(float(found), values, rtol=rtol)


# ---- failing eigensolvers -------------------------------------------------------------------


@FLOATS
def test_a_search_that_ran_out_of_restarts_is_solved_by_all_eigenvectors(dtype):
    a = jnp.asarray(path_laplacian(100), dtype)
    tight = 1e-12 if dtype == np.float64 else 1e-6
    given_up = smallest_eigenpair(a, KEY, tolerance=tight, steps=6, restarts=1)
    assert not given_up.converged and int(given_up.fallbacks) == 0
    pair = smallest_eigenpair(a, KEY, tolerance=tight, steps=6, restarts=1, fallback=True)
    assert bool(pair.converged) and int(pair.fallbacks) == 1
    assert int(pair.matvecs) == int(given_up.matvecs) and pair.vector.dtype == dtype
    values, vectors = np.linalg.eigh(path_laplacian(100))
    exactly(values[0], pair.value, 1e-9 if dtype == np.float64 else 1e-2)
    assert abs(np.asarray(pair.vector) @ vectors[:, 0]) > 1 - 1e-3
    easy = smallest_eigenpair(a, KEY, tolerance=1e-2, fallback=True)
    assert bool(easy.converged) and int(easy.fallbacks) == 0


class Products(SymmetricOperator):
    """A diagonal matrix that nobody has written out."""

    entries: jax.Array
    size = property(lambda self: self.entries.shape[0])
    dtype = property(lambda self: self.entries.dtype)

    def matvec(self, v):
        return self.entries * v


def test_an_operator_without_a_matrix_is_searched_further():
    entries = jnp.linspace(0.0, 1.0, 300) ** 2
    given_up = smallest_eigenpair(Products(entries), KEY, tolerance=1e-10, restarts=3)
    assert not given_up.converged
    pair = smallest_eigenpair(Products(entries), KEY, tolerance=1e-10, restarts=3, fallback=True)
    assert bool(pair.converged) and int(pair.fallbacks) == 1
    assert int(pair.matvecs) > int(given_up.matvecs) and abs(float(pair.value)) < 1e-9


def test_singular_pairs_fall_back_too():
    b = jnp.asarray(np.linalg.cholesky(path_laplacian(90)[::-1, ::-1] + 0 * np.eye(90)))
    b = jnp.concatenate([b, b[:20]])  # no eigengap to speak of, and not square
    options = {"tolerance": 1e-12, "steps": 4, "restarts": 0}
    for matrix in (b, b.T):
        assert not leading_singular_pair(matrix, KEY, **options).converged
        pair = leading_singular_pair(matrix, KEY, **options, fallback=True)
        assert bool(pair.converged) and int(pair.fallbacks) == 1
        exactly(np.linalg.norm(matrix, 2), pair.value, 1e-12)
        np.testing.assert_allclose(matrix @ pair.right, pair.value * pair.left, atol=1e-10)


def test_a_dense_factor_that_fails_is_noticed(monkeypatch):
    broken = linalg.Eigenpair(*(jnp.nan * jnp.ones(s) for s in ((), (3,), ())), 0, jnp.array(False))
    monkeypatch.setattr(_search, "smallest_dense", lambda a, tolerance: broken)
    a = jnp.diag(jnp.array([2.0, -1.0, 5.0]))
    pair = smallest_eigenpair(a, KEY, fallback=True)
    assert float(pair.value) == -1 and bool(pair.converged) and int(pair.fallbacks) == 1
    assert np.isnan(smallest_eigenpair(a.at[0, 0].set(jnp.nan), KEY, fallback=True).value)


@pytest.mark.parametrize("n", [20, 70], ids=["dense", "krylov"])
def test_what_is_not_finite_does_not_fall_back(n):
    for bad in (jnp.nan, jnp.inf):
        pair = smallest_eigenpair(jnp.eye(n).at[1, 1].set(bad), KEY, fallback=True)
        assert int(pair.fallbacks) == 0 and not bool(pair.converged)


def test_one_member_of_a_batch_falls_back():
    stack = jnp.stack([jnp.asarray(path_laplacian(70)), jnp.eye(70), jnp.zeros((70, 70))])
    keys = jax.random.split(KEY, 3)
    pairs = jax.vmap(
        lambda a, key: smallest_eigenpair(a, key, tolerance=1e-12, restarts=0, fallback=True)
    )(stack, keys)
    assert pairs.fallbacks.tolist() == [1, 0, 0] and bool(jnp.all(pairs.converged))
    lowest = [np.linalg.eigvalsh(a)[0] for a in stack]
    np.testing.assert_allclose(pairs.value, lowest, atol=1e-12)


@pytest.fixture
def few_restarts(monkeypatch):
    """Searches that give up after four products and look at nothing twice."""
    monkeypatch.setattr(_search, "STEPS", 4)
    monkeypatch.setattr(_search, "RESTARTS", 0)


def test_fallbacks_are_counted_in_runs(few_restarts):
    n = 66
    box = fw.constraints.Affine(fw.maps.Diagonal(), fw.sets.Point(1.0), name="diagonal")
    domain = fw.domains.Spectrahedron(n, trace=float(n), equality=True)
    cost = np.cos(np.add.outer(np.arange(n) ** 2, np.arange(n) ** 2))
    problem = fw.Problem(fw.objectives.Linear(cost), domain, [box])
    method = fw.methods.hfw(1.0).with_lmo_tolerance(1e-12)
    result = solve(problem, method, 20)
    assert 0 < result.counts.fallbacks <= result.counts.lmo == 20
    assert result.to_dict()["counts"]["fallbacks"] == result.counts.fallbacks
    from mostfw.cli.run import summary

    assert f", {result.counts.fallbacks} fallbacks" in summary(result)
    few = dataclasses.replace(result.last, counts=dataclasses.replace(result.counts, fallbacks=0))
    result.history[-1] = few
    assert "fallback" not in summary(result)


def test_fallbacks_of_a_nuclear_ball_are_counted(few_restarts):
    cost = np.random.default_rng(0).standard_normal((70, 80))
    problem = fw.Problem(fw.objectives.Linear(cost), fw.domains.NuclearBall((70, 80), 1.0))
    result = solve(problem, fw.methods.most_fw().with_lmo_tolerance(1e-12), 2)
    assert result.counts.fallbacks == 2
    exactly(-np.linalg.norm(cost, 2), result.objective, 1e-9)


def test_the_way_out_costs_nothing_while_it_is_not_taken():
    """No matrix is reordered or copied for it outside of its own loop."""
    n, dtype = 80, np.float64
    problem = small_cut(dtype, n).on_device().core()
    method = fw.methods.most_fw(1.0).bind(problem)
    state = frank_wolfe.start(problem, method)
    step = jax.jit(lambda s: frank_wolfe.step(problem, method, s, KEY))
    text = step.lower(state).compile().as_text()
    loops = [line for line in text.splitlines() if " while(" in line and f"f64[{n},{n}]" in line]
    assert loops and not any(f"f64[{n},{n}]{{0,1}}" in line for line in loops)
    main = text[text.index("ENTRY") :]
    assert f"f64[{n},{n}]{{0,1}}" not in main


# ---- very many steps ------------------------------------------------------------------------


def small_cut(dtype, n=12):
    ring = [(i, (i + 1) % n) for i in range(n)] + [(i, (i + 3) % n) for i in range(0, n, 2)]
    return fw.problems.max_cut(fw.graphs.as_graph(ring), batch=6, dtype=dtype)


@FLOATS
def test_many_steps_stay_in_the_domain_and_their_memos_are_right(dtype):
    problem, eps = small_cut(dtype), np.finfo(dtype).eps
    result = solve(problem, fw.methods.most_fw(1.0), 3 * frank_wolfe.RENEWED_EVERY)
    x = np.asarray(result.state.x, np.float64)
    assert np.array_equal(x, x.T)
    assert abs(np.trace(x) - 12) <= 50 * eps * 12
    assert np.linalg.eigvalsh(x)[0] >= -50 * eps
    # this is a multiple of 4096: the carried image was made anew at this very point
    np.testing.assert_array_equal(result.state.memos[0].image, np.diagonal(result.state.x))
    assert result.counts.lmo == result.iterations and result.counts.fallbacks == 0


def test_resumed_runs_renew_at_the_same_steps():
    problem, method = small_cut(np.float32), fw.methods.most_fw(1.0)
    whole = solve(problem, method, 5000)
    part = solve(problem, method, 3000)
    part = solve(problem, method, 2000, warm_start=part)
    for one, other in zip(jax.tree.leaves(whole.state), jax.tree.leaves(part.state), strict=True):
        np.testing.assert_array_equal(one, other)


def at_iteration(problem, method, k):
    """A run that stands before iteration k + 1, at the domain's start."""
    result = solve(problem, method, 1)
    state = replaced(result.state, k=jnp.asarray(k, jnp.int32))
    return dataclasses.replace(result, state=state)


@FLOATS
def test_small_steps_leave_the_weights_of_a_mean(dtype):
    """Where 1 - eta is rounded, the trace would creep away, by 1e-4 in a million steps."""
    method = fw.methods.most_fw(1.0).bind(small_cut(dtype))
    for k in (2048, 12_345, 10**6 + 7, 10**7 + 3, 10**9 + 1, LAST):
        eta = frank_wolfe._step_size(method, jnp.asarray(k, jnp.int32), dtype)
        kept = np.asarray(1 - eta)
        assert float(eta) + float(kept) == 1  # in float64, where nothing is rounded
        assert abs(float(eta) - 2 / (k + 1)) <= np.finfo(dtype).eps
    for k in (1, 2, 30, 2000):  # these are as they were
        assert frank_wolfe._step_size(method, jnp.asarray(k), dtype) == dtype(2) / dtype(k + 1)


def test_a_short_soak(capsys):
    """A few thousand of the steps that `python -m benchmarks.soak` makes a million of."""
    assert soak.main(["--steps", "4500", "--side", "70", "--dtype", "float32", "--no-timing"]) == 0
    assert "all well" in capsys.readouterr().out


def test_a_soak_says_what_is_wrong(capsys):
    report = soak.Report(paces=[1e-4] * 45 + [2e-4] * 5, products=[8.0] * 50)
    soak.judge_speed(report)
    assert report.faults == ["steps became slower, by 2.00"]
    report = soak.Report()
    result = solve(soak.problem(70, np.dtype(np.float32)), "most-fw", 5)
    assert soak.look(report, result) and not report.faults
    spoilt = replaced(result.state, x=result.state.x.at[0, 1].add(1e-3))
    soak.look(report, dataclasses.replace(result, state=spoilt))
    assert any("not symmetric" in fault for fault in report.faults)


DOMAINS = {
    "simplex": fw.domains.Simplex(6),
    "simplex below": fw.domains.Simplex(6, 2.0, equality=False),
    "l1": fw.domains.L1Ball(6, 2.0),
    "l2": fw.domains.L2Ball(6, 2.0),
    "box": fw.domains.Box(-1.0, 2.0, shape=6),
    "nuclear": fw.domains.NuclearBall((3, 2), 2.0),
    "birkhoff": fw.domains.Birkhoff(3),
    "spectrahedron": fw.domains.Spectrahedron(3, trace=2.0),
}


@FLOATS
@pytest.mark.parametrize("name", DOMAINS)
def test_every_domain_keeps_its_points(name, dtype):
    """20,000 steps towards atoms that change all the time, from where steps are small on."""
    domain = DOMAINS[name]
    shape = jax.tree.leaves(domain.structure(dtype))[0].shape

    @jax.jit
    def walk(x, first):
        def one(i, x):
            s = jax.random.normal(jax.random.fold_in(KEY, i), shape, dtype)
            found = domain.lmo(domain.tangent(s), key=KEY)
            eta = frank_wolfe._step_size(METHOD, first + i, dtype)
            return domain.move(x, found.atom, eta)

        return jax.lax.fori_loop(0, 20_000, one, x)

    x = walk(domain.start(dtype), jnp.asarray(1, jnp.int32))
    excess = float(domain.excess(x.astype(np.float64)))
    assert excess <= 200 * np.finfo(dtype).eps * domain.diameter


METHOD = fw.methods.most_fw().bind(
    fw.Problem(fw.objectives.Linear(np.ones(2)), fw.domains.Simplex(2))
)


# ---- very late iterations, very small and large numbers --------------------------------------

CONSTRAINED = ["most-fw", "hfw", "cgal", "most-al", "shcgm", "zo-most-fw", "t-most-fw"]
SAMPLED = ["most-fw+", "most-al+", "h1-sfw", "h-spider-fw", "h-sag-cgm"]


def vector_problem(dtype=np.float64, scale=1.0, level=0.5, sampled=False, radius=1.0, batch=2):
    """min <c, x> over a simplex with x_0 <= level and x_1 <= level, times scale."""
    cost = np.array([-3.0, -2.0, -1.0, 0.0], dtype) * dtype(scale)
    rows = np.eye(4, dtype=dtype)[:2]
    bound = fw.sets.Box(0.0, level * radius)
    limit = fw.constraints.Affine(rows, bound, name="limit", batch=1 if sampled else None)
    objective = fw.objectives.Linear(cost, batch=batch)
    return fw.Problem(objective, fw.domains.Simplex(4, radius), [limit], dtype=dtype)


def check_sane(result):
    """Finite measures, a point of the domain, and a certificate that says nothing untrue."""
    domain = result.problem.domain
    assert math.isfinite(result.objective)
    assert all(math.isfinite(v) for v in result.violation.values())
    eps = float(np.finfo(result.problem.dtype).eps)
    x = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), result.x)
    assert float(domain.excess(x)) <= 1e4 * eps * max(domain.diameter, 1e-300)
    certificate = result.certificate
    if certificate is not None:
        assert not math.isnan(certificate.lower)
    return result


@FLOATS
@pytest.mark.parametrize("name", [*CONSTRAINED, *SAMPLED])
def test_schedules_reach_the_last_iteration(name, dtype):
    problem = vector_problem(dtype, sampled=name in SAMPLED)
    method = fw.methods.get(name).bind(problem)
    for k in (1, 2**24, 2**24 + 1, 2**30, LAST):
        numbers = frank_wolfe.numbers_at(
            jnp.asarray(k, jnp.int32), method.smoothing, method.rho, 0.0, dtype
        )
        eta = frank_wolfe._step_size(method, jnp.asarray(k, jnp.int32), dtype)
        for number in (
            *jax.tree.leaves(numbers),
            eta,
            method.lmo_error(k),
            method.lmo_tolerance(k),
        ):
            assert np.isfinite(number) and number.dtype == dtype
        assert 0 < numbers.penalty < np.inf and 0 <= eta <= 1


@FLOATS
@pytest.mark.parametrize("name", ["most-fw", "cgal", "most-fw+", "most-al+"])
def test_the_last_iterations_can_be_run(name, dtype):
    problem = vector_problem(dtype, sampled=name in SAMPLED)
    start = at_iteration(problem, fw.methods.get(name), LAST - 5)
    result = check_sane(solve(problem, name, 5, warm_start=start, record=[LAST]))
    assert result.iterations == LAST and int(result.state.k) == LAST


@FLOATS
@pytest.mark.parametrize("name", ["most-fw", "cgal", "most-fw+", "most-al+"])
@pytest.mark.parametrize("power", [-45, -30, 30, 45])
def test_extreme_smoothing_works_or_is_refused(name, power, dtype):
    constant = "beta_0" if "al" in name else "mu_c"
    problem = vector_problem(dtype, sampled=name in SAMPLED)
    start = None
    for first in (0, LAST - 5):
        try:
            method = fw.methods.get(name, **{constant: 10.0**power})
            if first:
                start = at_iteration(problem, method, first)
            check_sane(solve(problem, method, 5, warm_start=start, record=[first + 5]))
        except (InvalidInputError, NonFiniteError) as error:
            assert constant in str(error) or "constraint 'limit'" in str(error)


EXTREMES = [(np.float32, 1e-42), (np.float32, 1e-30), (np.float32, 1e30)]
EXTREMES += [(np.float64, 1e-310), (np.float64, 1e-200), (np.float64, 1e200)]


@pytest.mark.parametrize("dtype, scale", EXTREMES)
@pytest.mark.parametrize("name", ["most-fw", "cgal", "most-al", "t-most-fw", "zo-most-fw"])
def test_data_of_any_size(name, dtype, scale):
    problem = vector_problem(dtype, scale=scale, batch=None)
    if (name, scale) == ("zo-most-fw", 1e30):  # a difference quotient is beyond float32
        with pytest.raises(NonFiniteError, match="the tracked gradient is NaN or infinite"):
            solve(problem, name, 200)
        return
    result = check_sane(solve(problem, name, 200))
    assert result.objective <= 0
    if result.certificate is not None and result.certificate.kind == "proved":
        assert result.certificate.lower <= -2.5 * scale * (1 - 1e-6)
    if scale > 1e-40 and name != "zo-most-fw":  # of subnormal numbers only a few digits are left
        assert result.objective <= -1.5 * scale and result.violation["limit"] < 0.3


@pytest.mark.parametrize("radius", [1e-12, 1e12])
@pytest.mark.parametrize("name", ["most-fw", "cgal", "most-al", "t-most-fw", "zo-most-fw"])
def test_domains_of_any_size(name, radius):
    result = check_sane(solve(vector_problem(radius=radius, batch=None), name, 200))
    assert -3 * radius <= result.objective <= -1.5 * radius
    assert result.violation["limit"] < 0.3 * radius
    assert result.certificate is None or result.certificate.lower <= -2.5 * radius * (1 - 1e-9)


# ---- degenerate problems ---------------------------------------------------------------------

MATRIX_METHODS = ["most-fw", "cgal", "t-most-fw", "zo-most-fw"]
PLUS_METHODS = ["most-fw+", "most-al+", "h-spider-fw"]


def matrix_problem(cost=None, G=None, level=None, batch=None, constraint_batch=None, n=3):
    cost = np.zeros((n, n)) if cost is None else np.asarray(cost, float)
    limits = []
    if G is not None:
        point = fw.sets.Point(np.asarray(level, float))
        limits = [fw.constraints.Affine(G, point, name="limit", batch=constraint_batch)]
    domain = fw.domains.Spectrahedron(n, trace=1.0)
    return fw.Problem(fw.objectives.Linear(cost, batch=batch), domain, limits)


COST = np.diag([-1.0, -2.0, -3.0])
FIRST = np.eye(9)[:1]  # X_00
REPEATED = np.repeat(FIRST, 3, axis=0)  # its Gram matrix has rank 1
DEPENDENT = np.stack([FIRST[0], np.eye(9)[4], FIRST[0] + np.eye(9)[4]])
# name: cost, G, right-hand side, the optimal value
FEASIBLE = {
    "zero objective": (None, FIRST, [0.5], 0.0),
    "zero constraints": (COST, np.zeros((2, 9)), [0.0, 0.0], -3.0),
    "everything zero": (None, np.zeros((1, 9)), [0.0], 0.0),
    "duplicate rows": (COST, REPEATED, [0.5] * 3, -2.0),
    "dependent rows": (COST, DEPENDENT, [0.25, 0.25, 0.5], -2.25),
    "a zero row among others": (COST, np.stack([FIRST[0], np.zeros(9)]), [0.5, 0.0], -2.0),
    "one point": (COST, FIRST, [1.0], -1.0),
}


@pytest.mark.parametrize(
    "case, name",
    [
        # of these two every program takes seconds to compile
        pytest.param(case, name, marks=pytest.mark.study)
        if name in ("zo-most-fw", "h-spider-fw") and case != "zero objective"
        else (case, name)
        for case in FEASIBLE
        for name in (*MATRIX_METHODS, *PLUS_METHODS)
    ],
)
def test_degenerate_problems(case, name):
    cost, G, level, optimum = FEASIBLE[case]
    plus = name in PLUS_METHODS
    # as many rows in every case, so that the program is compiled once
    G, level = np.resize(np.asarray(G), (3, 9)), np.resize(level, 3)
    problem = matrix_problem(cost, G, level, constraint_batch=2 if plus else None)
    result = check_sane(solve(problem, name, 300))
    assert result.status is not fw.Status.INFEASIBLE
    if result.certificate is not None:
        assert result.certificate.lower <= optimum + 1e-9
    if not plus:
        assert result.violation["limit"] < 0.2 and abs(result.objective - optimum) < 0.6


@pytest.mark.parametrize("name", [*MATRIX_METHODS, *PLUS_METHODS])
def test_zero_constraints_that_cannot_hold(name):
    batch = 2 if name in PLUS_METHODS else None
    problem = matrix_problem(COST, np.zeros((3, 9)), [1.0, 1.0, 1.0], constraint_batch=batch)
    result = check_sane(solve(problem, name, 300))
    infeasible = result.status is fw.Status.INFEASIBLE
    assert infeasible or result.violation["limit"] == pytest.approx(math.sqrt(3))


@pytest.mark.parametrize("name", ["most-fw", "sfw", "zo-most-fw", "spider-fw", "saga-fw"])
def test_no_constraints_and_nothing_to_minimise(name):
    result = check_sane(solve(matrix_problem(batch=2), name, 30))
    assert result.objective == 0 and (result.certificate is None or result.certificate.lower <= 0)


ONE = {
    "spectrahedron": (fw.domains.Spectrahedron(1, trace=2.0, equality=True), (1, 1), 2.0),
    "trace at most": (fw.domains.Spectrahedron(1, trace=2.0), (1, 1), 0.0),
    "simplex": (fw.domains.Simplex(1), (1,), 1.0),
    "box": (fw.domains.Box(-1.0, 2.0, shape=1), (1,), -1.0),
    "l1": (fw.domains.L1Ball(1, 2.0), (1,), -2.0),
    "l2": (fw.domains.L2Ball(1, 2.0), (1,), -2.0),
    "nuclear": (fw.domains.NuclearBall((1, 1), 2.0), (1, 1), -2.0),
    "birkhoff": (fw.domains.Birkhoff(1), (1, 1), 1.0),
}


@pytest.mark.parametrize("domain", ONE)
def test_problems_with_one_number(domain):
    where, shape, optimum = ONE[domain]
    objective = fw.objectives.Linear(np.ones(shape))
    limit = fw.constraints.Affine(np.ones((1, 1)), fw.sets.Point(optimum), name="limit")
    for name, limits in (("most-fw", []), ("cgal", [limit])):
        result = check_sane(solve(fw.Problem(objective, where, limits), name, 50))
        assert result.objective == pytest.approx(optimum, abs=1e-6)
        assert result.certificate is None or result.certificate.lower <= optimum + 1e-9


def test_a_constant_objective():
    constant = fw.objectives.Smooth(lambda x: 7.0 + 0 * jnp.sum(x))
    result = check_sane(solve(fw.Problem(constant, fw.domains.Simplex(4)), "most-fw", 30))
    assert result.objective == 7 and result.certificate.lower <= 7


POINTS = {
    "all the same": (np.full((4, 2), 3.0), 2, 0.0),
    "pairs": (np.repeat(np.array([[0.0, 0.0], [5.0, 0.0]]), 2, axis=0), 2, 0.0),
    "as many clusters as points": (np.arange(8.0).reshape(4, 2), 4, 0.0),
    "one cluster": (np.arange(8.0).reshape(4, 2), 1, 80.0),
}


@pytest.mark.parametrize("case", POINTS)
@pytest.mark.parametrize("name", ["most-fw", "most-al", "most-fw+", "most-al+"])
def test_clusterings_of_few_and_equal_points(case, name):
    points, clusters, optimum = POINTS[case]
    batch = 4 if name in PLUS_METHODS else None
    problem = fw.problems.kmeans(points, clusters, batch=4, constraint_batch=batch)
    result = check_sane(solve(problem, name, 200))
    assert result.certificate is None or result.certificate.lower <= optimum + 1e-6
    labels = np.asarray(result.answer)
    assert labels.shape == (4,) and len(np.unique(labels)) <= clusters
    if case == "pairs":
        assert labels[0] == labels[1] != labels[2] == labels[3]


@pytest.mark.parametrize("name", ["most-fw", "most-al", "cgal"])
def test_the_cut_of_one_edge(name):
    graph = fw.graphs.as_graph([(0, 1)])
    result = check_sane(solve(fw.problems.max_cut(graph), name, 200))
    assert result.answer.weight == 1 and result.objective == pytest.approx(-1, abs=0.2)
    assert result.certificate is None or result.certificate.lower <= -1 + 1e-9


def test_sparsest_cuts_need_three_nodes():
    with pytest.raises(InvalidInputError, match=r"2 nodes|three"):
        fw.problems.sparsest_cut(fw.graphs.as_graph([(0, 1)]))
    path = fw.problems.sparsest_cut(fw.graphs.as_graph([(0, 1), (1, 2)]))
    check_sane(solve(path, "most-fw", 50))
