"""Objectives and constraints times powers of two, one at a time: not a digit of a history moves."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import mostfw as fw
from common import ring_with_chords
from mostfw.trees import replaced

POINTS = np.random.default_rng(4).standard_normal((8, 3)) + 4 * (np.arange(8) % 2)[:, None]
CLOUD = np.random.default_rng(5).standard_normal((256, 3))  # from this side on directions are lean
WHOLE = ["hfw", "shcgm", "most-fw", "t-most-fw", "cgal", "most-al", "zo-most-fw"]
SAMPLED = ["h1-sfw", "h-spider-fw", "h-sag-cgm", "most-fw+", "most-al+", "t-most-al+"]
SHORT = ["most-al", "most-al+", "h-sag-cgm"]  # on the cut; the others are a study


class Scaled(fw.maps.LinearMap):
    """A map times a number that no program is compiled for."""

    inner: fw.maps.LinearMap
    factor: Any

    sampleable = property(lambda self: self.inner.sampleable)
    stored = property(lambda self: self.inner.stored)
    thin = property(lambda self: self.inner.thin)
    pointwise = False  # an entry of Gx is no longer one of x
    symmetric = property(lambda self: self.inner.symmetric)

    def times(self, numbers):
        return numbers * jnp.asarray(self.factor, numbers.dtype)

    def resolve(self, structure):
        return Scaled(self.inner.resolve(structure), self.factor)

    def forward(self, x):
        return self.times(self.inner.forward(x))

    def adjoint(self, u, structure):
        return self.inner.adjoint(self.times(u), structure)

    def rows(self, structure):
        return self.inner.rows(structure)

    def pull(self, x, residual):
        return self.inner.pull(x, lambda r: self.times(residual(self.times(r))))

    def squares(self, x, residual):
        return self.inner.squares(x, lambda r: residual(self.times(r)))

    def residual(self, x, residual):
        return self.inner.residual(x, lambda r: residual(self.times(r)))

    def product(self, u, v, structure):
        return self.inner.product(self.times(u), v, structure)

    def adjoint_norm(self, u, structure):
        return self.inner.adjoint_norm(self.times(u), structure)

    def placed(self, u):
        return self.inner.placed(u)

    def row_norms(self, structure):
        norms = self.inner.row_norms(structure)
        return None if norms is None else self.times(norms)

    def image_of(self, atom):
        image = self.inner.image_of(atom)
        return None if image is None else self.times(image)

    def draw(self, key, size, rows):
        return self.inner.draw(key, size, rows)

    def entries(self, x, rows):
        return self.times(self.inner.entries(x, rows))

    def scatter(self, y, values, rows):
        return self.inner.scatter(y, self.times(values), rows)

    def slot(self, rows):
        return self.inner.slot(rows)

    def slots(self, structure):
        return self.inner.slots(structure)

    def places(self, rows):
        return self.inner.places(rows)


def clusters(objective, sampled, points=POINTS):
    """The distances are squares: their unit is that of the points, squared."""
    return fw.problems.kmeans(
        objective**0.5 * points, 2, batch=0.1, constraint_batch=0.1 if sampled else None
    )


def cloud(objective, sampled):
    return clusters(objective, sampled, CLOUD)


def cut(objective, sampled):
    edges = ring_with_chords(6).adjacency.tocoo()
    weighted = [
        (u, v, objective) for u, v in zip(edges.row.tolist(), edges.col.tolist(), strict=True)
        if u < v
    ]  # fmt: skip
    return fw.problems.sparsest_cut(
        fw.graphs.as_graph(weighted, "ring"), batch=0.3, constraint_batch=0.2 if sampled else None
    )


def posed(make, sampled, objective=1.0, factors=None):
    """The problem with every map in a `Scaled`, so that all of them share their programs."""
    problem = make(objective, sampled)
    constraints = []
    for one in problem.constraints:
        factor = np.float64((factors or {}).get(one.name, 1.0))
        to = one.set
        if isinstance(to, fw.sets.Point):  # a cone stays where it is
            to = replaced(to, value=factor * to.value)
        constraints.append(replaced(one, map=Scaled(one.map, factor), set=to))
    # what else a problem has would compile the measures anew
    return replaced(problem.core(), constraints=tuple(constraints))


def history(make, name, objective=1.0, factors=None, steps=24):
    sampled = fw.methods.get(name).constraints == "sampled"
    problem = posed(make, sampled, objective, factors)
    result = fw.solve(
        problem, name, iterations=steps, seed=3, record=[1, 3, 9], progress=False, certify=False
    )
    return unscaled(result, objective, factors)


def unscaled(result, objective, factors):
    """What the records of a scaled problem say of the one that is not scaled."""
    units = [objective, *((factors or {}).get(name, 1.0) for name in result.violation)]
    seen = [[record.objective, *record.violation.values()] for record in result.history]
    return np.array(seen) / units


def cases(make):
    names = [one.name for one in make(1.0, False).constraints]
    yield from ({"objective": 2.0**power} for power in (20, -20))
    yield from ({"factors": {name: 2.0**power}} for name in names for power in (10, -10))


def check(make, name, **given):
    plain = history(make, name, **given)
    assert np.ptp(plain[:, 0]) > 0
    for case in cases(make):
        found = history(make, name, **case, **given)
        np.testing.assert_allclose(found, plain, rtol=1e-12, atol=1e-300, err_msg=str(case))


@pytest.mark.parametrize("name", [*WHOLE, *SAMPLED])
def test_on_clusters(name):
    check(clusters, name)


@pytest.mark.parametrize(
    "name",
    [n if n in SHORT else pytest.param(n, marks=pytest.mark.study) for n in [*WHOLE, *SAMPLED]],
)
def test_on_a_cut(name):
    check(cut, name)


@pytest.mark.parametrize("name", ["most-al", pytest.param("most-fw", marks=pytest.mark.study)])
def test_with_lean_directions_in_single_precision(name):
    bound = fw.methods.get(name).bind(cloud(1.0, False))
    assert bound.lean and bound.lmo_precision == "single"
    check(cloud, name, steps=10)


@pytest.mark.parametrize("name", ["most-al", pytest.param("most-fw", marks=pytest.mark.study)])
def test_with_lean_directions_that_read_the_entries_themselves(name):
    ends = []
    for objective in (1.0, 2.0**20, 2.0**-20):
        problem = cloud(objective, False).core()
        assert any(constraint.map.pointwise for constraint in problem.constraints)
        result = fw.solve(problem, name, iterations=10, seed=3, progress=False, certify=False)
        ends.append(unscaled(result, objective, None))
    np.testing.assert_allclose(ends[1:], [ends[0]] * 2, rtol=1e-12, atol=1e-300)
