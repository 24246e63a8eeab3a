"""Registering a class puts it here: every registered part keeps the promises of its kind."""

import jax
import jax.numpy as jnp
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
    fw.testing.check_domain(domain, tolerance=1e-9)


@pytest.mark.parametrize("example", examples(MAPS))
def test_map(example):
    fw.testing.check_map(*example)


@pytest.mark.parametrize("example", examples(MAPS))
def test_the_size_of_an_adjoint_is_that_of_what_it_sums_up(example):
    """|G|'|u| from the rows one by one; a function's rows are nobody's to see."""
    linear_map, like, _ = example
    structure = structure_of(like)
    shape = jax.eval_shape(linear_map.forward, structure).shape
    u = jax.random.normal(jax.random.PRNGKey(0), shape)
    size = linear_map.adjoint_size(u, structure)
    if isinstance(linear_map, fw.maps.Function):
        assert size is None
        return
    units = jnp.eye(u.size).reshape(-1, *shape)
    rows = jax.vmap(lambda one: linear_map.adjoint(one, structure))(units)
    weights = jnp.abs(u.reshape(-1))
    sums = [jnp.tensordot(weights, jnp.abs(leaf), axes=1) for leaf in jax.tree.leaves(rows)]
    summed = float(jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in sums)))
    assert summed * (1 - 1e-6) <= size <= 3 * summed + 1e-12


@pytest.mark.parametrize("example", examples(OBJECTIVES))
def test_objective(example):
    fw.testing.check_objective(*example)


@pytest.mark.parametrize("tracker", examples(TRACKERS))
def test_tracker(tracker):
    fw.testing.check_tracker(tracker)


SETS = [fw.sets.Point(0.3), fw.sets.Orthant(-1), fw.sets.Box(-0.2, 0.5)]


def constraints():
    """Every map with one of the sets in turn, whole, and sampled where it can be."""
    for index, param in enumerate(examples(MAPS)):
        (example,) = param.values
        linear_map, like, _ = example
        yield pytest.param(example, SETS[index % 3], None, id=f"{param.id}-whole")
        if linear_map.sampleable and linear_map.rows(structure_of(like)) > 3:
            yield pytest.param(example, SETS[(index + 1) % 3], 3, id=f"{param.id}-sampled")


@pytest.mark.parametrize("example, the_set, batch", list(constraints()))
def test_constraint(example, the_set, batch):
    linear_map, like, symmetric = example
    rule = fw.constraints.Affine(linear_map, the_set, weight=2.5, batch=batch)
    fw.testing.check_constraint(rule, like, symmetric)


BALLS = [fw.sets.L1Ball(0.7), fw.sets.L2Ball(0.5), fw.sets.Simplex(1.0), fw.sets.Free()]


@pytest.mark.parametrize("the_set", BALLS, ids=str)
def test_constraint_with_a_set_that_couples_rows(the_set):
    rng = np.random.default_rng(0)
    rule = fw.constraints.Affine(rng.standard_normal((4, 3)), the_set)
    fw.testing.check_constraint(rule, np.zeros(3))


@pytest.mark.parametrize("numbers", [1, 130, 200])
def test_triangles_formed_in_several_slabs(monkeypatch, numbers):
    """One node at a time, two at a time with one left, three at a time with two left."""
    monkeypatch.setattr("mostfw.maps._triangles.SLAB_NUMBERS", numbers)
    for example in fw.maps.Triangles.examples():
        fw.testing.check_map(*example)


@pytest.mark.parametrize("domain", examples(DOMAINS))
def test_every_domain_serves_in_a_run(domain):
    """Twice, since the loop gives the buffers of its state away."""
    objective = fw.objectives.Smooth(
        lambda x: sum(jnp.sum((leaf - 1) ** 2) for leaf in jax.tree.leaves(x))
    )
    problem = fw.Problem(objective, domain, dtype=np.float64)
    for _ in range(2):
        result = fw.solve(problem, "most-fw", iterations=3)
        assert domain.contains(result.x, 1e-9)


def test_a_set_that_treats_places_differently_is_not_called_symmetric():
    bounds = fw.sets.Box(np.linspace(-0.3, 0.1, 4), 2.0)
    rule = fw.constraints.Affine(fw.maps.Identity(symmetric=True), bounds)
    assert not rule.resolve(structure_of(np.zeros((4, 4)))).symmetric
    alike = fw.constraints.Affine(fw.maps.Identity(symmetric=True), fw.sets.Box(-0.3, 2.0))
    assert alike.resolve(structure_of(np.zeros((4, 4)))).symmetric
    fw.testing.check_constraint(rule, np.zeros((4, 4)), symmetric=True)


def test_a_function_called_symmetric_has_a_symmetric_adjoint():
    fw.testing.check_map(
        fw.maps.Function(lambda x: x[0, 1:4], symmetric=True), np.zeros((4, 4)), symmetric=True
    )


def test_places_of_triangles_that_are_no_rows_do_not_count():
    rule = fw.constraints.Affine(fw.maps.Triangles(), fw.sets.Box(-10.0, -1.0))
    rule = rule.resolve(structure_of(np.zeros((8, 8))))
    assert float(rule.violation(np.zeros((8, 8)))) == pytest.approx(np.sqrt(8 * 7 * 6 / 2))
