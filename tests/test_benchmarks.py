"""The peers of the benchmarks do the same arithmetic as the library, and the harness works."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import jax
import numpy as np
import pytest
from benchmarks import (
    growth,
    instances,
    lmo,
    memory,
    posed,
    rows,
    sampling,
    shares,
    solvers,
    timing,
    tuning,
)
from benchmarks.numpy_loops import (
    CovarianceLoop,
    KMeansLoop,
    KMeansPlusLoop,
    SparsestCutLoop,
)
from benchmarks.torture import __main__ as torture

import mostfw as fw
from common import ring_with_chords
from mostfw import frank_wolfe
from mostfw.atomic import alone_in
from mostfw.problems.kmeans import squared_distances
from mostfw.schedules import Power
from mostfw.smoothing import numbers_at

ROOT = Path(__file__).parents[1]


def test_numpy_loop_has_our_direction_and_converges():
    graph = ring_with_chords(9)
    loop = SparsestCutLoop(graph.laplacian(), batch=5, mu_c=1.5, seed=0)
    for _ in range(50):
        loop.step()
    problem = fw.problems.sparsest_cut(graph, batch=5, sampling="entries").on_device()
    method = fw.methods.most_fw(1.5).bind(problem)
    numbers = numbers_at(loop.k, method.smoothing, Power(0.0), 0.0, np.float64)
    ours = frank_wolfe.direction(problem, method, jax.numpy.asarray(loop.x), 0 * loop.y, numbers)
    theirs = loop.penalty(loop.x) * np.sqrt(loop.k) / 1.5
    np.testing.assert_allclose(ours, theirs, atol=1e-9 * np.abs(theirs).max())
    assert problem.domain.contains(loop.x)


def our_penalty(problem, method, x, k):
    """Our direction at x after k steps, without the objective."""
    problem = problem.on_device()
    method = method.bind(problem)
    numbers = numbers_at(k, method.smoothing, Power(0.0), 0.0, np.float64)
    return frank_wolfe.direction(problem, method, jax.numpy.asarray(x), 0 * x, numbers)


def test_covariance_loop_has_our_direction_and_error():
    factor = np.random.default_rng(0).standard_normal((12, 3))
    problem = fw.problems.covariance(factor=factor, batch=4)
    radius = float(problem.constraints[0].set.radius) / 2  # so that the penalty acts
    loop = CovarianceLoop(factor, 4, problem.domain.trace, radius, 1.5, seed=0)
    for _ in range(50):
        loop.step()
    narrow = fw.problems.covariance(factor=factor, batch=4, l1_radius=radius)
    with problem.precision():
        ours = our_penalty(narrow, fw.methods.most_fw(1.5), loop.x, loop.k)
    theirs = loop.penalty(loop.x) * np.sqrt(loop.k) / 1.5
    assert np.abs(theirs).max() > 0
    np.testing.assert_allclose(ours, theirs, atol=1e-9 * np.abs(theirs).max())
    plain = CovarianceLoop(factor, 50, problem.domain.trace, 1e9, 1.0, seed=1)
    for _ in range(300):
        plain.step()
    assert problem.metrics["relative_error"](plain.x) < 0.1


def test_kmeans_loops_have_our_direction_and_mean():
    points = np.random.default_rng(0).standard_normal((12, 2))
    distances = squared_distances(points)
    loop = KMeansLoop(distances, 3, 0.2, 7.0, 1.5, 0)
    for _ in range(50):
        loop.step()
    problem = fw.problems.kmeans(points, 3, sign_weight=7.0)
    with problem.precision():
        ours = our_penalty(problem, fw.methods.most_fw(1.5), loop.x, loop.k)
    theirs = loop.penalty(loop.x) * np.sqrt(loop.k) / 1.5
    np.testing.assert_allclose(ours, theirs, atol=1e-9 * np.abs(theirs).max())
    # whole batches in the mean: MOST-FW+'s tracked estimate is D + the signs' gradient
    plus = KMeansPlusLoop(distances, 3, 1.0, 0.0, 1.5, 0)
    for _ in range(4000):
        plus.step()
    assert np.abs(plus.y - distances).max() < 0.2 * distances.max()


@pytest.mark.study
def test_quick_run_writes_every_row_and_the_plot(tmp_path):
    # a process of its own, for compiling without optimisations is a setting of the whole process
    environment = {**os.environ, "JAX_DISABLE_MOST_OPTIMIZATIONS": "1", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-m", "benchmarks", "--quick", "--out", str(tmp_path)]
    done = subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "bench.json").read_text())
    assert {"jax", "numpy", "cvxpy", "processor"} <= found["machine"].keys()
    names = [row["name"] for row in found["rows"]]
    wanted = (
        "covariance, n", "k-means, N = 16, 1%", "k-means, N = 16, 1% and 1%", "sparsest cut, 8",
        "sparsest cut, random", "sparsest cut, karate", "memory limit", "trimming", "growth",
        "solvers, k-means", "solvers, sparsest cut", "float32", "memory, k-means, P, most-fw",
        "memory, k-means, P+, most-fw+", "memory, k-means, P, t-most-fw", "import", "compile",
    )  # fmt: skip
    assert not [word for word in wanted if not any(name.startswith(word) for name in names)]
    assert all(name in done.stdout for name in names)
    assert (tmp_path / "growth.png").stat().st_size > 5000
    assert (tmp_path / "growth.svg").read_text().rstrip().endswith("</svg>")


@pytest.mark.slow
def test_quick_steps_have_their_limit_and_the_load_and_no_second_benchmark_runs(
    tmp_path, monkeypatch, capsys
):
    from benchmarks.__main__ import main

    monkeypatch.setenv("TMPDIR", str(tmp_path))  # other workers, and people, may run them, too
    monkeypatch.setattr(tempfile, "tempdir", None)
    words = ["--quick", "--only", "k-means, N = 16, 1%", "--out", str(tmp_path)]
    with alone_in(tmp_path / "mostfw-benchmarks"), pytest.raises(SystemExit, match="another"):
        main(words)
    main(words)
    found = json.loads((tmp_path / "bench.json").read_text())
    assert len(found["load_average"]["before"]) == 3
    assert [row["name"] for row in found["rows"]] == [
        "k-means, N = 16, 1%", "k-means, N = 16, 1% and 1%",
    ]  # fmt: skip
    assert all(row["limit"] > 0 for row in found["rows"])
    assert "limit" in capsys.readouterr().out


def test_only_chooses_by_name():
    from benchmarks.__main__ import chosen

    settings = rows.Settings()
    assert len(chosen(settings, [])) > 40
    assert [case.name for case in chosen(settings, ["trimming", "import"])] == [
        "trimming, k-means, N = 2000",
        "import mostfw",
    ]


def test_row_says_ours_the_peer_the_ratio_and_what_is_wanted():
    row = rows.Row("a", 1e-3, "s", "NumPy", 5e-3, 5.0, goal=rows.Goal(least=6))
    assert row.met is False
    for word in ("ours", "1 ms", "NumPy", "5 ms", "5 times faster", "at least 6: NOT MET"):
        assert word in str(row)
    assert rows.Row("a", 1.0, goal=rows.Goal(most=1.5)).met is True
    assert rows.Row("a", None, goal=rows.Goal(most=1.5)).met is None
    limited = rows.Row("a", 1e-3, limit=5e-4)
    assert "limit 500 us" in str(limited)
    assert limited.to_dict()["limit"] == 5e-4


def test_fitted_exponent_is_that_of_the_data():
    sizes = np.array([500, 1000, 2000, 4000])
    noise = 1 + 0.01 * np.array([1, -1, -1, 1])
    exponent, constant = growth.fitted_exponent(sizes, 3e-8 * sizes**2.1 * noise)
    assert exponent == pytest.approx(2.1, abs=0.02)
    assert constant == pytest.approx(3e-8, rel=0.15)


def test_memory_limit_is_six_times_the_faster_copy():
    assert timing.limit_of({"one thread": 2.0, "2 threads": 1.5}) == 9.0
    assert 0 < timing.memory_limit(64, repeats=2) < 1


def test_numbers_per_step_counts_the_state():
    problem = instances.kmeans(instances.blobs(40))
    found = memory.numbers_per_step(problem, instances.kmeans_method())
    assert 2 <= found["state"] < 2.2  # x and y, and some vectors
    assert found["total"] == found["state"] + found["beside"]


def test_verdict_turns_on_altered_numbers():
    tight = {"gap": [1.0, 2.0, 3.0], "violation rows": [0.1, 0.1, 0.1]}
    assert lmo.verdict(tight, tight) == {"gap": True, "violation rows": True}
    altered = {"gap": [2.9, 3.0, 3.2], "violation rows": [0.1, 0.1, 0.1]}
    assert lmo.verdict(altered, tight) == {"gap": False, "violation rows": True}


def test_tuning_shows_every_constant_against_the_best():
    grid = [2.0 * 3.0**place for place in range(len(tuning.GRID))]
    head, row = tuning.by_constant([{"task": "a", "method": "b", "best": 2.0, "grid": grid}])
    assert head[2:6] == ("1/4096", "1/1024", "1/256", "1/64")
    assert head[-2:] == ("4096", "best")
    assert row[:4] == ("a", "b", "1.0", "3.0") and row[-2:] == ("531441", "2.0e+00")


def test_targets_of_solvers_are_theirs_or_the_loose_one():
    def found(gap, violation, status="optimal", x=True):
        attempt = posed.Attempt("SCS", 1e-3, status, 1.0, 0.1, np.eye(2) if x else None)
        record = fw.Record(0, 1.0, 1.0, gap, {"a": violation}, {"a": violation}, {}, fw.Counts())
        return solvers.Judged(attempt, record if x else None, 0.0)

    loose = fw.Tolerance(gap=0.05, violation=1e-2)
    assert solvers.target_of(found(1e-3, 1e-3), loose)[::2] == (loose, True)
    own = solvers.target_of(found(-0.2, 1e-3), loose)
    assert own[::2] == (fw.Tolerance(gap=0.2, violation=1e-3), True)
    assert solvers.target_of(found(0.2, 0.5, "user_limit"), loose)[::2] == (loose, False)
    assert solvers.target_of(found(0.0, 0.0, "exit 1", x=False), loose)[::2] == (loose, False)


@pytest.mark.parametrize("kind", ["k-means", "sparsest cut", "covariance"])
def test_posed_instances_are_ours(kind):
    """At a random psd X, CVXPY's objective and violations are ours, up to the constant."""
    instance = posed.Instance(kind, 12)
    problem = instance.problem(None)
    cvx, x = instance.posed()
    values, sides = [], []
    for seed in (0, 1):
        factor = np.random.default_rng(seed).standard_normal((12, 3)) / 5
        x.value = factor @ factor.T
        judged = solvers.judged(problem, posed.Attempt("SCS", None, "", 0.0, 0.0, x.value))
        values.append((float(cvx.objective.value), judged.record.objective))
        theirs = [np.ravel(rule.violation()) for rule in cvx.constraints[1:]]
        sides.append((sum(float(np.linalg.norm(v)) for v in theirs), judged.record.violation))
    (first, ours_first), (second, ours_second) = values
    assert first - second == pytest.approx(ours_first - ours_second, rel=1e-9)
    for total, violation in sides:
        if kind == "covariance":  # a distance to the ball against an excess of the norm
            assert (total > 1e-9) == (violation["l1"] > 1e-9)
        else:
            assert total == pytest.approx(sum(violation.values()), rel=1e-9)


@pytest.mark.study
def test_shares_in_short(tmp_path, capsys):
    shares.main(["--quick", "--out", str(tmp_path)])
    (found,) = json.loads((tmp_path / "shares.json").read_text())["rows"]
    assert found["own"] == found["as_all"], "a tenth of the rows is as stiff as all"
    assert min(found["grid"]) <= found["own"]
    assert "as stiff as all rows" in capsys.readouterr().out


def test_sampling_in_short(tmp_path, capsys):
    sampling.main(["--quick", "--out", str(tmp_path)])
    found = json.loads((tmp_path / "sampling.json").read_text())["rows"]
    assert [row["draws"] for row in found] == [
        "entries", "shuffled", "edges",
        "entries", "shuffled", "entries, then whole", "entries, then whole, weight 1",
    ]  # fmt: skip
    assert all(np.isfinite([row["gap"], row["bound"]]).all() for row in found)
    assert "bound below optimum" in capsys.readouterr().out


@pytest.mark.slow
def test_torture_in_short(tmp_path):
    assert torture.main(["--quick", "--seed", "3", "--out", str(tmp_path)]) == 0
    found = json.loads((tmp_path / "torture.json").read_text())["rows"]
    assert [row["passed"] for row in found] == [True] * 3
