"""Estimators and jobs whose run was interrupted: after a step, or before the first one."""

import dataclasses
import json

import jax
import numpy as np
import pytest

import mostfw as fw
from mostfw.cli import main
from mostfw.cli.jobs import sdp
from mostfw.estimators import (
    MatrixCompletion,
    MaxCut,
    SDPKMeans,
    SparseCovariance,
    SparsestCut,
    _base,
    _completion,
    _covariance,
)
from mostfw.pictures import Convergence, draw

SAID = "the run was interrupted after 1 step, and more may improve it"
RNG = np.random.default_rng(0)
POINTS = RNG.normal(size=(30, 3))
HALF = np.triu(RNG.random((20, 20)) < 0.3, 1) * 1.0
GRAPH = HALF + HALF.T
KNOWN = np.where(RNG.random((20, 15)) < 0.5, RNG.uniform(1, 5, (20, 15)), np.nan)


def after_a_step(result):
    return result


def at_the_start(result):
    """The point before the first step, with its one record."""
    problem = result.problem
    with problem.precision():
        x = jax.tree.map(np.asarray, problem.domain.start(problem.dtype))
    history = fw.History([dataclasses.replace(result.last, iteration=0)])
    return dataclasses.replace(result, x=x, history=history)


@pytest.fixture(params=[after_a_step, at_the_start])
def runs(request, monkeypatch):
    """Every run is interrupted; how many there were."""
    count = []

    def interrupted(problem, method=None, *, iterations, **options):
        count.append(iterations)
        result = fw.solve(problem, method, iterations=1, **options)
        return dataclasses.replace(request.param(result), status=fw.Status.INTERRUPTED)

    for module in _base, _completion, _covariance, sdp:
        monkeypatch.setattr(module, "solve", interrupted)
    return count


def test_clusters(runs):
    model = SDPKMeans(4, random_state=0).fit(POINTS)
    assert set(model.labels_) == {0, 1, 2, 3}
    assert model.inertia_bound_ <= model.inertia_
    assert SAID in model.summary_


@pytest.mark.parametrize("estimator", [SparsestCut, MaxCut])
def test_cuts(estimator, runs):
    model = estimator(random_state=0).fit(GRAPH)
    assert set(model.labels_) == {0, 1}
    inside = model.labels_ == 1
    weight = GRAPH[inside][:, ~inside].sum()
    size = inside.sum() * (~inside).sum() if estimator is SparsestCut else 1
    assert model.cut_value_ == pytest.approx(weight / size)
    assert SAID in model.summary_


def test_covariances(runs):
    model = SparseCovariance(random_state=0).fit(POINTS)
    assert len(runs) == 1  # no other round follows
    np.testing.assert_array_equal(model.covariance_, model.covariance_.T)
    assert np.linalg.eigvalsh(model.covariance_)[0] >= -1e-12
    assert SAID in model.summary_
    assert model.partial_fit(POINTS).n_samples_seen_ == 60


@pytest.mark.parametrize("rank", [None, 2])
def test_completions(rank, runs):
    model = MatrixCompletion(rank, random_state=0).fit(KNOWN)
    assert runs == ([750, 1] if rank is None else [3000])  # neither another radius nor a refit
    assert 1 <= model.matrix_.min() <= model.matrix_.max() <= 5
    assert model.refit_ is None
    assert model.result_.status is fw.Status.INTERRUPTED
    assert SAID in model.summary_


def test_programs(runs, tmp_path, capsys):
    path = tmp_path / "two.dat-s"
    path.write_text("2\n1\n2\n1 1\n0 1 1 2 1.0\n1 1 1 1 1.0\n2 1 2 2 1.0\n")
    targets = {"--out": "out.csv", "--plot": "out.png", "--json": "out.json"}
    given = [word for option, name in targets.items() for word in (option, str(tmp_path / name))]
    assert main(["solve", str(path), *given]) == 0
    assert "interrupted" in capsys.readouterr().out
    found = json.loads((tmp_path / "out.json").read_text())
    assert found["value"] <= found["upper_bound"] + 1e-9


def test_a_run_without_a_step_is_drawn(tmp_path, recwarn):
    problem = fw.Problem(fw.objectives.Linear(np.array([0.0, 0.0])), fw.domains.Simplex(2))
    draw(tmp_path / "a.png", Convergence(at_the_start(fw.solve(problem, "sfw", iterations=1))))
    assert not [each for each in recwarn if "log" in str(each.message)]
