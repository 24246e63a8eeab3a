"""Registering a class puts it here: every registered part keeps the promises of its kind."""

import numpy as np
import pytest

import mostfw as fw
from mostfw.domains import DOMAINS
from mostfw.maps import MAPS
from mostfw.objectives import OBJECTIVES
from mostfw.trackers import TRACKERS
from mostfw.trees import structure_of


def examples(registry):
    return [
        pytest.param(example, id=f"{name}-{index}")
        for name, cls in registry.items()
        for index, example in enumerate(cls.examples())
    ]


@pytest.mark.parametrize("domain", examples(DOMAINS))
def test_domain(domain):
    fw.testing.check_domain(domain)


@pytest.mark.parametrize("example", examples(MAPS))
def test_map(example):
    fw.testing.check_map(*example)


@pytest.mark.parametrize("example", examples(OBJECTIVES))
def test_objective(example):
    fw.testing.check_objective(*example)


@pytest.mark.parametrize("tracker", examples(TRACKERS))
def test_tracker(tracker):
    fw.testing.check_tracker(tracker)


SETS = {
    "point": fw.sets.Point(0.3),
    "orthant": fw.sets.Orthant(-1),
    "box": fw.sets.Box(-0.2, 0.5),
}


@pytest.mark.parametrize("batch", [None, 3], ids=["whole", "sampled"])
@pytest.mark.parametrize("the_set", SETS.values(), ids=SETS)
@pytest.mark.parametrize("example", examples(MAPS))
def test_constraint(example, the_set, batch):
    linear_map, like, symmetric = example
    rows = linear_map.rows(structure_of(like))
    if batch is not None and (not linear_map.sampleable or rows <= batch):
        batch = None
    rule = fw.constraints.Affine(linear_map, the_set, weight=2.5, batch=batch)
    fw.testing.check_constraint(rule, like, symmetric)


BALLS = [fw.sets.L1Ball(0.7), fw.sets.L2Ball(0.5), fw.sets.Simplex(1.0), fw.sets.Free()]


@pytest.mark.parametrize("the_set", BALLS, ids=str)
def test_constraint_with_a_set_that_couples_rows(the_set):
    rng = np.random.default_rng(0)
    rule = fw.constraints.Affine(rng.standard_normal((4, 3)), the_set)
    fw.testing.check_constraint(rule, np.zeros(3))


@pytest.mark.parametrize("numbers", [1, 130, 200])
def test_triangles_formed_in_several_blocks(monkeypatch, numbers):
    """One middle at a time, two at a time with one left, three at a time with two left."""
    monkeypatch.setattr("mostfw.maps._structured.BLOCK_NUMBERS", numbers)
    for example in fw.maps.Triangles.examples():
        fw.testing.check_map(*example)
