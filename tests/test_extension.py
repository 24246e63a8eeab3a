"""A part of a user's own, written here, runs in the loop without a change in src."""

import jax.numpy as jnp
import numpy as np
import pytest

import mostfw as fw
from common import clustering_problem, logistic_problem


class NormalisedMomentum(fw.trackers.Tracker):
    """Momentum whose correction is shortened to at most the length of the estimate."""

    weight: fw.schedules.Power = fw.schedules.Power(1)

    def start(self, terms, structure, dtype):
        return fw.trees.zeros(structure)

    def depart(self, estimate, memory, here, k):
        keep = 1 - self.weight(k)
        before = here.add(estimate.scaled(0.0), 1.0)
        return before.holding(estimate.scaled(keep).y), fw.trees.scaled(keep, before.y)

    def arrive(self, estimate, memory, here, k):
        now = here.add(estimate.scaled(0.0), 1.0)
        correction = fw.trees.minus(now.y, memory)
        limit = 10 * fw.trees.norm(now.y)
        short = jnp.minimum(1.0, limit / jnp.maximum(fw.trees.norm(correction), 1e-30))
        return now.holding(fw.trees.plus(estimate.y, short, correction)), memory


def test_a_tracker_of_ones_own_passes_the_checks():
    fw.testing.check_tracker(NormalisedMomentum())


def test_it_runs_is_trimmed_counted_and_recorded():
    method = fw.Method(
        name="normalised",
        tracker=NormalisedMomentum(),
        step_size=fw.schedules.Power(2, shift=1),
        smoothing=fw.smoothing.Penalty(fw.schedules.Power(1.0, exponent=0.5)),
        constraints="whole",
    )
    problem = clustering_problem(batch=5)
    result = fw.solve(problem, method, iterations=200, progress=False)
    assert result.counts.gradients == 5 * 2 * 200
    assert len(result.history) > 10
    trimmed = fw.solve(problem, fw.methods.trimmed(method, tau_0=100.0), iterations=200)
    assert trimmed.counts.lmo + trimmed.counts.lmo_skipped == 200
    assert trimmed.counts.lmo_skipped > 0
    assert "NormalisedMomentum" in str(method)


class Ellipsoid(fw.domains.Domain):
    """{x : sum (x_i / a_i)^2 <= 1}: the LMO is -a^2 s / ||a s||."""

    axes: tuple[float, ...] = (2.0, 1.0, 0.5)

    def structure(self, dtype):
        return fw.trees.structure_of(jnp.zeros(len(self.axes), dtype))

    def start(self, dtype):
        return jnp.zeros(len(self.axes), dtype)

    def lmo(self, direction, *, key=None, start=None, tolerance=0.0):
        scaled = jnp.asarray(self.axes) * direction
        length = jnp.linalg.norm(scaled)
        point = -jnp.asarray(self.axes) * scaled / jnp.where(length > 0, length, 1)
        atom = fw.atoms.Dense(point)
        return fw.domains.LinearMinimum(atom, jnp.sum(direction * point), jnp.zeros((), jnp.int32))

    def excess(self, x):
        return jnp.maximum(jnp.linalg.norm(x / jnp.asarray(self.axes)) - 1, 0)

    @property
    def diameter(self):
        return 2 * max(self.axes)


def test_a_domain_of_ones_own():
    fw.testing.check_domain(Ellipsoid())
    center = np.array([3.0, 0.0, 0.0])
    objective = fw.objectives.Smooth(lambda x: jnp.sum((x - center) ** 2))
    result = fw.solve(fw.Problem(objective, Ellipsoid(), dtype=np.float64), "hfw", iterations=500)
    np.testing.assert_allclose(result.x, [2.0, 0.0, 0.0], atol=1e-2)


class Lying(fw.trackers.Tracker):
    """Never looks at the gradient."""

    def arrive(self, estimate, memory, here, k):
        return estimate.scaled(0.0), memory


class Sloppy(Ellipsoid):
    """Its LMO returns an argmax."""

    def lmo(self, direction, **options):
        return super().lmo(-direction, **options)


def test_checks_catch_parts_that_break_their_promises():
    with pytest.raises(AssertionError, match="closer to the gradient"):
        fw.testing.check_tracker(Lying(), steps=20)
    with pytest.raises(AssertionError, match="value is <s, atom>"):
        fw.testing.check_domain(Sloppy())
    biased = fw.objectives.FiniteSum(lambda x, row: jnp.sum(x * row), np.eye(3), batch=1)
    broken = fw.objectives.Sampled(
        biased.function, lambda key: jnp.ones(3), whole=lambda x: jnp.sum(x) / 3
    )
    with pytest.raises(AssertionError, match="unbiased"):
        fw.testing.check_objective(broken, np.ones(3))
    wrong = fw.maps.Function(jnp.cumsum, at=lambda x, rows: x[rows], rows=3)
    with pytest.raises(fw.InvalidInputError, match="not its Gx"):
        fw.testing.check_map(wrong, np.zeros(3))


def test_any_callable_serves_as_a_schedule():
    method = fw.Method(
        name="plain",
        tracker=fw.trackers.Averaging(lambda k: 1 / k),
        step_size=lambda k: 2 / (k + 1),
    )
    problem = logistic_problem(batch=3)
    result = fw.solve(problem, method, iterations=50)
    assert problem.domain.contains(result.x)
