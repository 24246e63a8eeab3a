"""The augmented Lagrangian: against a loop in plain NumPy, and what holds of its multipliers."""

import numpy as np
import pytest

import mostfw as fw
from common import clustering_problem, cut_problem
from mostfw.frank_wolfe import multipliers

RNG = np.random.default_rng(5)
N = 6
COST = RNG.standard_normal((N, N))
COST = COST + COST.T
WEIGHTS = {"diagonal": 1.0, "sign": 3.0}


def problem(**sampling):
    places = np.arange(N)
    return fw.Problem(
        fw.objectives.Linear(COST),
        fw.domains.Spectrahedron(N, trace=float(N), equality=True),
        [
            fw.constraints.Affine(
                fw.maps.Entries(places, places, symmetric=True),
                fw.sets.Point(1.0),
                WEIGHTS["diagonal"],
                name="diagonal",
            ),
            fw.constraints.Affine(
                fw.maps.Identity(symmetric=True),
                fw.sets.Orthant(1),
                WEIGHTS["sign"],
                name="sign",
                **sampling,
            ),
        ],
    )


def plain_loop(steps, beta_0, dual_step):
    """CGAL as its authors write it, with a projection for the inequality."""
    x = np.eye(N)
    dual = {"diagonal": np.zeros(N), "sign": np.zeros((N, N))}
    forward = {"diagonal": np.diag, "sign": lambda x: x}
    adjoint = {"diagonal": np.diag, "sign": lambda u: u}
    project = {"diagonal": lambda r: np.ones_like(r), "sign": lambda r: np.maximum(r, 0)}
    reach = {"diagonal": N, "sign": N}  # ||Gz|| of an atom N v v': v = e_i; any v
    for k in range(1, steps + 1):
        direction = COST.copy()
        for name, weight in WEIGHTS.items():
            beta = weight * beta_0 * np.sqrt(k + 1)
            shifted = forward[name](x) + dual[name] / beta
            direction += adjoint[name](beta * (shifted - project[name](shifted)))
        v = np.linalg.eigh(direction)[1][:, 0]
        eta = 2 / (k + 1)
        x = x + eta * (N * np.outer(v, v) - x)
        if k == steps:
            break
        for name, weight in WEIGHTS.items():
            beta = weight * beta_0 * np.sqrt(k + 2)
            r = forward[name](x) - project[name](forward[name](x) + dual[name] / beta)
            bound = 4 * beta * eta**2 * reach[name] ** 2 / max(np.sum(r * r), 1e-300)
            dual[name] = dual[name] + min(weight * dual_step, bound, beta) * r
    return x, dual


@pytest.mark.parametrize("dual_step", [0.3, 0.0, 50.0])
def test_cgal_is_the_plain_loop(dual_step):
    steps = 25
    result = fw.solve(problem(), fw.methods.cgal(beta_0=0.3, dual_step=dual_step), iterations=steps)
    x, dual = plain_loop(steps, 0.3, dual_step)
    np.testing.assert_allclose(result.x, x, rtol=1e-8, atol=1e-9)
    for name, values in dual.items():
        np.testing.assert_allclose(result.dual[name], values, rtol=1e-8, atol=1e-9)


def test_without_a_dual_step_it_is_the_penalty():
    lagrangian = fw.methods.cgal(beta_0=0.5, dual_step=0.0)
    penalty = fw.methods.hfw(mu_c=2.0)
    ends = [fw.solve(problem(), method, iterations=30).x for method in (lagrangian, penalty)]
    np.testing.assert_allclose(*ends, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["cgal", "most-al", "t-most-al", "zo-most-al"])
def test_it_is_far_more_accurate_than_the_penalty(name):
    given = {"tau_0": 1e-3} if name.startswith("t-") else {}
    end = fw.solve(problem(), fw.methods.get(name, **given), iterations=4000, progress=False)
    plain = fw.solve(problem(), "hfw", iterations=4000, progress=False)
    assert max(end.relative_violation.values()) < 0.2 * max(plain.relative_violation.values())


@pytest.mark.parametrize("batch", [None, 5])
def test_multipliers_of_inequalities_stay_in_the_polar_direction(batch):
    method = "most-al" if batch is None else "most-al+"

    result = fw.solve(
        clustering_problem(batch=6, constraint_batch=batch),
        method,
        iterations=200,
        progress=False,
    )
    assert result.dual["sign"].max() <= 0 < -result.dual["sign"].min()
    np.testing.assert_array_equal(result.dual["sign"], result.dual["sign"].T)


TRACKERS = {
    f"{name}-{place}": tracker
    for name, kind in fw.trackers.TRACKERS.items()
    for place, tracker in enumerate(kind.examples())
}


@pytest.mark.parametrize("constraint_batch", [None, 9], ids=["whole", "sampled"])
@pytest.mark.parametrize("name", TRACKERS)
def test_every_tracker_composes_with_it(name, constraint_batch):
    method = fw.Method(
        name,
        TRACKERS[name],
        fw.schedules.Power(2, shift=1),
        smoothing=fw.smoothing.AugmentedLagrangian(1 / 8, scaled=True),
        constraints="whole" if constraint_batch is None else "sampled",
    )
    posed = clustering_problem(batch=6, constraint_batch=constraint_batch).core()
    result = fw.solve(posed, method, iterations=400, record=[8], progress=False, certify=False)
    early, last = (max(r.relative_violation.values()) for r in result.history)
    assert last < 0.3 * early
    assert np.abs(result.dual["rows"]).min() > 0
    assert result.dual["sign"].max() <= 0 < -result.dual["sign"].min()


def test_multipliers_of_triangles_are_where_rows_are():
    result = fw.solve(cut_problem(), "cgal", iterations=200, progress=False)
    dual = result.dual["triangles"]
    assert dual.min() >= 0 and dual.max() > 0
    i, k = np.tril_indices(dual.shape[1])
    assert not dual[:, i, k].any()


def test_a_table_holds_what_was_last_seen():
    posed = problem(batch=7)
    result = fw.solve(posed, "most-al+", iterations=400, progress=False)
    table = np.asarray(result.state.memos[1].image)
    # x moves by at most 2/(k+1) of the diameter a step, and each row was seen lately
    assert np.abs(table - result.x).max() < 0.2
    np.testing.assert_array_equal(table, table.T)
    assert result.counts.constraints == N * N + 7 * 400  # all rows at the start


def test_sampled_constraints_end_near_whole_ones():
    whole = fw.solve(problem(), "cgal", iterations=20_000, progress=False)
    sampled = fw.solve(problem(batch=7), "most-al+", iterations=20_000, progress=False)
    assert sampled.objective == pytest.approx(whole.objective, abs=2e-2 * np.linalg.norm(COST))
    assert max(sampled.relative_violation.values()) < 2e-2


def test_chunks_and_resuming_do_not_change_a_bit():
    posed = clustering_problem(batch=6, constraint_batch=5)
    once = fw.solve(posed, "most-al+", iterations=60, progress=False)
    first = fw.solve(posed, "most-al+", iterations=25, record=4, progress=False)
    rest = fw.solve(posed, "most-al+", iterations=35, warm_start=first, progress=False)
    np.testing.assert_array_equal(once.x, rest.x)
    np.testing.assert_array_equal(once.dual["sign"], rest.dual["sign"])


def test_multipliers_of_a_state_are_the_results():
    result = fw.solve(problem(), "cgal", iterations=10, progress=False)
    posed = result.problem.on_device()
    found = multipliers(posed, result.method, result.state)
    assert set(found) == set(WEIGHTS)
    np.testing.assert_array_equal(found["sign"], result.dual["sign"])


@pytest.mark.parametrize(
    ("name", "sampled"), [("cgal", {}), ("most-al", {}), ("most-al+", {"batch": 7})]
)
def test_a_warm_start_on_the_same_problem_made_anew_loses_nothing(name, sampled):
    posed = problem(**sampled)
    first = fw.solve(posed, name, iterations=25, progress=False)
    ends = [
        fw.solve(where, name, iterations=35, warm_start=first, progress=False)
        for where in (posed, problem(**sampled))
    ]
    np.testing.assert_allclose(ends[0].x, ends[1].x, rtol=1e-9, atol=1e-9)
    for constraint in ("diagonal", "sign"):
        np.testing.assert_allclose(*(e.dual[constraint] for e in ends), rtol=1e-8, atol=1e-9)
    assert ends[1].counts == ends[0].counts


@pytest.mark.parametrize("name", ["most-fw+", "h1-sfw"])
def test_a_warm_start_may_have_other_sampled_constraints(name):
    """Of which the state keeps nothing; without mu_c, units are those of the new problem."""
    before = clustering_problem(batch=6, constraint_batch=5)
    (rows, sign), box = before.constraints, fw.sets.Box(-1.0, 1.0)
    more = fw.constraints.Affine(fw.maps.Identity(), box, name="box", batch=5)
    after = fw.Problem(before.objective, before.domain, [rows, sign, more])
    first = fw.solve(before, name, iterations=25, progress=False)
    rest = fw.solve(after, name, iterations=35, warm_start=first, progress=False)
    assert rest.iterations == 60 and "box" in rest.violation


def test_a_warm_start_on_other_constraints_has_multipliers_of_its_own():
    def over(least):
        places = np.arange(N)
        rule = fw.constraints.Affine(
            fw.maps.Entries(places, places, symmetric=True), fw.sets.Box(least, 2.0), name="entries"
        )
        domain = fw.domains.Spectrahedron(N, trace=float(N), equality=True)
        return fw.Problem(fw.objectives.Linear(COST), domain, [rule])

    first = fw.solve(over(0.5), "cgal", iterations=30, progress=False)
    moved = fw.solve(over(0.7), "cgal", iterations=4000, warm_start=first, progress=False)
    fresh = fw.solve(over(0.7), "cgal", iterations=4000, progress=False)
    assert np.abs(first.dual["entries"]).max() > 0
    assert moved.objective == pytest.approx(fresh.objective, rel=1e-2)
    assert moved.relative_violation["entries"] < 1e-2
