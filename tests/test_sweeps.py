"""Many runs in one program: each is its single run up to rounding, and none disturbs another."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mostfw as fw
import mostfw.sweeps
from common import clustering_problem, cut_problem
from mostfw.schedules import Power
from mostfw.smoothing import Penalty
from mostfw.trees import replaced

# Not 0: the cut's first direction then has its smallest eigenvalue three times, so that the vector
# of the LMO is a matter of rounding.
SEEDS = [3, 3, 1, 2**32 - 1]


def sweep(problem, methods, **options):
    return fw.sweep(problem, methods, progress=False, **options)


def larger_clustering_problem():
    """n = 70: beyond the size up to which eigenpairs are found on the dense path."""
    points = np.random.default_rng(0).standard_normal((70, 2))
    points[:30] += 4
    return fw.problems.kmeans(points, 2, batch=0.05)


def momentum(*numbers, **others):
    return [replaced(fw.methods.most_fw(mu_c), **others) for mu_c in numbers]


def named(name, **numbers):
    """One method for each value of the one parameter given."""
    ((parameter, values),) = numbers.items()
    return [fw.methods.get(name, **{parameter: value}) for value in values]


CASES = {
    "most-fw": (cut_problem(batch=5), momentum(0.3, 1.0, 1.0, 5.0)),
    # A Krylov search starts from the last vector, whose sign is a matter of rounding: only a tight
    # tolerance makes it end at the same one.
    "krylov": (
        larger_clustering_problem(),
        momentum(1.0, 3.0, 3.0, 9.0, lmo_tolerance=Power(1e-13, exponent=0.0)),
    ),
    "t-most-fw+": (
        clustering_problem(batch=5, constraint_batch=7),
        named("t-most-fw+", tau_0=[1, 1000, 2000, 4000]),
    ),
    "h-spider-fw": (
        clustering_problem(batch=5, constraint_batch=7),
        named("h-spider-fw", mu_c=[1.0, 2.0, 2.0, 5.0]),
    ),
    "h-sag-cgm": (
        clustering_problem(batch=5, constraint_batch=7),
        named("h-sag-cgm", mu_c=[1.0, 2.0, 2.0, 5.0]),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_every_member_is_its_single_run(name):
    problem, methods = CASES[name]
    options = {"iterations": 20, "record": [4, 17]}
    results = sweep(problem, methods, seeds=SEEDS, **options)
    singles = [
        fw.solve(problem, method, seed=seed, progress=False, **options)
        for method, seed in zip(methods, SEEDS, strict=True)
    ]
    for result, single in zip(results, singles, strict=True):
        assert result.status is fw.Status.ITERATIONS
        assert result.seed == single.seed
        assert str(result.method) == str(single.method)
        np.testing.assert_allclose(result.x, single.x, atol=1e-8, rtol=1e-8)
        assert [r.iteration for r in result.history] == [4, 17, 20]
        for record, alone in zip(result.history, single.history, strict=True):
            assert record.counts.matvecs == pytest.approx(alone.counts.matvecs, rel=0.1)
            matvecs = alone.counts.matvecs
            assert dataclasses.replace(record.counts, matvecs=matvecs) == alone.counts
            assert record.objective == pytest.approx(alone.objective, rel=1e-8, abs=1e-8)
            assert record.violation == pytest.approx(alone.violation, rel=1e-7, abs=1e-7)
            assert record.metrics == pytest.approx(alone.metrics, rel=1e-7, abs=1e-7)
    assert not np.allclose(results[1].x, results[2].x)  # another seed or number, another run
    if name == "t-most-fw+":
        skipped = [result.counts.lmo_skipped for result in results]
        assert len(set(skipped)) > 2, skipped
        assert all(r.counts.lmo + r.counts.lmo_skipped == 20 for r in results)


def test_the_same_sweep_gives_the_same_bits_whatever_the_record_points():
    problem, methods = CASES["most-fw"]
    one = sweep(problem, methods, seeds=SEEDS, iterations=300)
    other = sweep(problem, methods, seeds=SEEDS, iterations=300, record=70)
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a.x, b.x)
        assert a.counts == b.counts
        assert [record.iteration for record in b.history] == [70, 140, 210, 280, 300]


def test_other_numbers_and_seeds_do_not_compile_again():
    problem, methods = CASES["most-fw"]
    sweep(problem, methods, seeds=SEEDS, iterations=5)
    loops = fw.sweeps._advance_all._cached._cache_size()
    again = sweep(problem, momentum(7.0, 8.0, 9.0, 10.0), seeds=1, iterations=11, record=2)
    assert fw.sweeps._advance_all._cached._cache_size() == loops
    assert 4 * again[0].compile_seconds < 0.3


def test_a_result_can_be_continued_and_tells_its_share_of_the_time():
    problem, methods = CASES["most-fw"]
    first = sweep(problem, methods, seeds=SEEDS, iterations=10)[3]
    continued = fw.solve(problem, methods[3], iterations=10, warm_start=first, progress=False)
    once = fw.solve(problem, methods[3], iterations=20, seed=SEEDS[3], progress=False)
    np.testing.assert_allclose(continued.x, once.x, atol=1e-8)
    assert continued.iterations == 20
    assert set(first.dual) == set(once.dual)
    assert 0 < first.seconds == first.last.seconds


def breaking(at):
    """MOST-FW whose 1/mu_k = k^exponent overflows at iteration `at`, with finite parameters."""
    exponent = 1024 * np.log(2) / np.log(at - 0.5)
    return replaced(fw.methods.most_fw(), smoothing=Penalty(Power(1.0, exponent=exponent)))


def test_a_member_that_breaks_ends_and_the_others_keep_their_bits():
    problem, methods = CASES["krylov"]
    options = {"seeds": SEEDS, "iterations": 25, "record": 5}
    sound = sweep(problem, methods, **options)
    broken = sweep(problem, [breaking(4), methods[1], breaking(13), methods[3]], **options)
    for index in (1, 3):
        np.testing.assert_array_equal(broken[index].x, sound[index].x)
        assert broken[index].history[-1].violation == sound[index].history[-1].violation
        assert broken[index].counts == sound[index].counts
        assert broken[index].status is fw.Status.ITERATIONS
    early, late = broken[0], broken[2]
    assert early.status is late.status is fw.Status.NON_FINITE
    assert (early.iterations, late.iterations) == (4, 13)
    assert [record.iteration for record in early.history] == []
    assert [record.iteration for record in late.history] == [5, 10]
    assert np.all(np.isfinite(late.x))
    assert problem.domain.excess(jnp.asarray(late.x)) < 1e-9


def test_a_value_that_is_not_finite_ends_a_member_at_the_record_point():
    def value(x):  # NaN near a corner, where its gradient is finite all the same
        return jnp.where(x[0] > 0.9, jnp.nan, 0.0) + jnp.sum(jnp.array([1.0, 2.0]) * x)

    problem = fw.Problem(
        fw.objectives.Smooth(value), fw.domains.Simplex(2), dtype=np.float64, name="edge"
    )
    steps = [Power(0.01), Power(1.0, exponent=0.0), Power(0.02)]
    methods = [replaced(fw.methods.get("sfw"), step_size=step) for step in steps]
    seen = []
    results = sweep(problem, methods, seeds=0, iterations=9, record=3, callback=seen.append)
    assert [str(r.status) for r in results[::2]] == [str(fw.Status.ITERATIONS)] * 2
    assert results[1].status is fw.Status.NON_FINITE
    assert len(results[1].history) == 0
    assert [[record is None for record in records] for records in seen] == [
        [False, True, False]
    ] * 3
    with pytest.raises(fw.NonFiniteError, match=r"every member.*methods\[2\].*value of the objec"):
        sweep(problem, [methods[1]] * 3, seeds=0, iterations=9)


def test_if_every_member_breaks_the_error_names_the_term():
    problem, _ = CASES["krylov"]
    with pytest.raises(fw.NonFiniteError, match=r"every member.*constraint 'rows'") as caught:
        sweep(problem, [breaking(at) for at in (4, 12, 8, 8)], seeds=SEEDS, iterations=25, record=5)
    assert caught.value.iteration == 12
    assert len(caught.value.result.history) == 2


def test_a_callback_sees_all_members_and_can_stop():
    problem, methods = CASES["most-fw"]
    seen = []

    def callback(records):
        seen.append([record.objective for record in records])
        return records[0].iteration >= 8

    results = sweep(problem, methods, seeds=SEEDS, iterations=50, record=4, callback=callback)
    assert [result.status for result in results] == [fw.Status.CALLBACK] * 4
    assert [result.iterations for result in results] == [8] * 4
    assert seen[-1] == [result.objective for result in results]


REFUSED = {
    "parts": ([fw.methods.most_fw(), fw.methods.hfw()], 0, "'most-fw'.*'hfw'.*name"),
    "schedule": (
        [
            fw.methods.most_fw(),
            replaced(fw.methods.most_fw(), step_size=fw.schedules.FirstOne(Power(2, shift=1))),
        ],
        0,
        r"methods\[0\] \('most-fw'\) and methods\[1\] .* step_size",
    ),
    "trimming": (
        [fw.methods.most_fw(), replaced(fw.methods.get("t-most-fw", tau_0=1), name="most-fw")],
        0,
        "trimming",
    ),
    "one method": (fw.methods.most_fw(), [0, 1], r"\[method\] \* 5"),
    "none": ([], [], "methods is empty"),
    "seeds": (momentum(1.0, 2.0), [0, 1, 2], "seeds has 3 numbers for 2 methods"),
    "seed": (momentum(1.0, 2.0), [0, -1], "seed is -1"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_one_program_is_refused(name):
    methods, seeds, words = REFUSED[name]
    with pytest.raises(fw.InvalidInputError, match=words):
        sweep(cut_problem(batch=5), methods, seeds=seeds, iterations=5)


def test_a_stream_is_refused():
    objective = fw.objectives.Online(lambda x, rows: jnp.sum(rows @ x), iter([]), batch=2)
    problem = fw.Problem(objective, fw.domains.Simplex(3), dtype=np.float64)
    with pytest.raises(fw.InvalidInputError, match=r"stream.*mostfw\.solve"):
        sweep(problem, [fw.methods.sfw()] * 2, seeds=[0, 1], iterations=5)


def test_the_loop_chooses_between_no_two_versions_of_the_points():
    """One flag ends the loop of all members; one for each would be a select over every array."""
    problem, methods = CASES["krylov"]
    run = fw.sweeps._Sweep(problem, [m.bind(problem) for m in methods], SEEDS)
    fixed = (run.core, run.stacked, run.keys, jnp.int32(5))
    text = str(jax.make_jaxpr(lambda s: fw.sweeps._advance_all(fixed, s))(run.state))
    choices = [line for line in text.splitlines() if "select_n" in line]
    assert choices
    assert not [line for line in choices if "f64[4,70,70] = select_n" in line]
