"""Oracles: how the objective's gradient is had: from autodiff, or from values alone.

Zeroth-order estimators take differences of values f(x + rho u, xi). Their directions belong to
the sample, so that both points of a momentum step use the same ones. The constraint's gradient is
always explicit.
"""

from __future__ import annotations

import abc
import math
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jax.flatten_util import ravel_pytree

from . import checks, placement, trees
from .objectives import Objective
from .registry import Registry
from .schedules import Power
from .shuffling import Turn
from .terms import Numbers, Term
from .trees import Point

ORACLES: Registry = Registry("oracle")

PROBE_NUMBERS = 2**20  # points evaluated side by side hold at most about this many numbers


class Probe(eqx.Module):
    """A gradient estimate, with the size of the values that it came from.

    >>> import jax, jax.numpy as jnp, mostfw as fw
    >>> x = jnp.ones(2)
    >>> probe = fw.oracles.CGE().estimate(lambda p: jnp.sum(p**2), x, 0.5, jax.random.PRNGKey(0))
    >>> probe.gradient.tolist()
    [2.0, 2.0]
    """

    gradient: Point
    size: jax.Array


class FirstOrder(eqx.Module):
    """Gradients as the objective gives them.

    >>> import mostfw as fw
    >>> print(fw.oracles.FirstOrder())
    gradients
    """

    def term(self, objective: Objective, dimension: int) -> Term:
        return objective

    def __str__(self) -> str:
        return "gradients"


class ZerothOrder(eqx.Module):
    """A gradient estimated from values. `values_per_point(d)` says how many it takes."""

    floor_power: ClassVar[float] = 1 / 3  # of eps |f|: central differences; 1/2 for forward ones

    @abc.abstractmethod
    def values_per_point(self, dimension: int) -> int: ...

    @abc.abstractmethod
    def estimate(self, value: Any, x: jax.Array, rho: jax.Array, key: Any) -> Probe:
        """The estimate at a flat point x of the function `value` of flat points."""

    @abc.abstractmethod
    def radius(self, dimension: int, diameter: float) -> Power:
        """The schedule of rho_k that its analysis asks for."""

    @abc.abstractmethod
    def averaging_weight(self, dimension: int) -> Power:
        """The weight of an averaging tracker that its analysis asks for (ZO-SFW)."""

    def term(self, objective: Objective, dimension: int) -> Term:
        return Estimated(objective, self, dimension)

    def __str__(self) -> str:
        return f"values ({type(self).__name__})"


class Estimated(Term):
    """An objective seen through its values only.

    >>> import numpy as np, mostfw as fw
    >>> objective = fw.objectives.Linear(np.arange(3.0), batch=1)
    >>> fw.oracles.CGE().term(objective, dimension=3).calls
    6
    """

    counter: ClassVar[str] = "values"
    costly: ClassVar[bool] = True
    objective: Objective
    oracle: ZerothOrder
    batch: int = eqx.field(static=True)
    total: int | None = eqx.field(static=True)
    dimension: int = eqx.field(static=True)

    def __init__(self, objective: Objective, oracle: ZerothOrder, dimension: int) -> None:
        self.objective, self.oracle, self.dimension = objective, oracle, dimension
        self.batch, self.total = objective.batch, objective.total

    @property
    def calls(self) -> int:
        return self.oracle.values_per_point(self.dimension)

    @property
    def online(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.objective.online

    @property
    def single(self) -> bool:
        return self.objective.single

    @property
    def label(self) -> str:
        return self.objective.label

    def scale(self, size: int) -> float:
        return 1.0  # `value` is unbiased already

    def sample(self, key: Any, size: int) -> Any:
        return self.objective.sample(key, size), _directions(key)

    def draw(self, key: Any, feed: Any) -> Any:
        # The objective's own sample: with one seed, first and zeroth order see the same data.
        return self.objective.draw(key, feed), _directions(key)

    def draw_in_turn(self, key: Any, feed: Any, turn: Turn) -> Any:
        return self.objective.draw_in_turn(key, feed, turn), _directions(key)

    def whole_draw(self, key: Any) -> Any:
        return None, _directions(key)

    def message(self, view: Any, xi: Any, numbers: Numbers) -> Any:
        draw, key = xi
        flat, unravel = ravel_pytree(view)
        # Rounding makes an error of eps |f| / rho, which beats the bias once rho is too small.
        eps = jnp.finfo(flat.dtype).eps
        floor = (eps * numbers.size) ** self.oracle.floor_power
        rho = jnp.maximum(numbers.rho, floor).astype(flat.dtype)
        value = self.objective.whole_value if draw is None else self._of(draw)
        with placement.sharing(view):
            probe = self.oracle.estimate(lambda p: value(unravel(p)), flat, rho, key)
        return Probe(unravel(probe.gradient), probe.size)

    def spread(self, y: Point, c: Any, message: Any, xi: Any) -> Point:
        return trees.plus(y, c, message.gradient)

    def _of(self, draw: Any) -> Any:
        return lambda x: self.objective.value(x, draw)

    def add_whole(self, y: Point, c: Any, x: Point, numbers: Numbers) -> Point:
        xi = self.whole_draw(jax.random.PRNGKey(0))
        return self.spread(y, c, self.message(x, xi, numbers), xi)


def _directions(key: Any) -> Any:
    """A key with a tag of its own: fold_in(key, i) belongs to the sample of term i."""
    return jax.random.fold_in(key, 2**30)


def _along_coordinates(value: Any, x: jax.Array, rho: jax.Array, one: Any) -> jax.Array:
    """`one(f)` for every coordinate i, with f(c) = value(x + c rho e_i), in bounded memory."""
    d = x.shape[0]
    side = max(1, min(d, PROBE_NUMBERS // max(1, d)))

    def along(coordinates: jax.Array) -> jax.Array:
        return lax.map(
            lambda i: one(lambda c: value(x.at[i].add(c * rho))), coordinates, batch_size=side
        )

    return placement.listed(along, d)


@ORACLES.register
class CGE(ZerothOrder):
    """Central differences along every coordinate: 2 d values a point, exact for quadratics.

    >>> import mostfw as fw
    >>> fw.oracles.CGE().values_per_point(625)
    1250
    """

    def values_per_point(self, dimension: int) -> int:
        return 2 * dimension

    def estimate(self, value: Any, x: jax.Array, rho: jax.Array, key: Any) -> Probe:
        def one(f: Any) -> jax.Array:
            ahead, behind = f(1.0), f(-1.0)
            return jnp.stack([(ahead - behind) / (2 * rho), jnp.maximum(abs(ahead), abs(behind))])

        found = _along_coordinates(value, x, rho, one)
        return Probe(found[:, 0], jnp.max(found[:, 1]))

    def radius(self, dimension: int, diameter: float) -> Power:
        return Power(min(2.0, diameter) / math.sqrt(dimension), shift=1)

    def averaging_weight(self, dimension: int) -> Power:
        return Power(4, shift=8, exponent=2 / 3, cap=1)


@ORACLES.register
class KWSA(ZerothOrder):
    """Forward differences along every coordinate: d + 1 values a point.

    >>> import mostfw as fw
    >>> fw.oracles.KWSA().values_per_point(10)
    11
    """

    floor_power: ClassVar[float] = 1 / 2

    def values_per_point(self, dimension: int) -> int:
        return dimension + 1

    def estimate(self, value: Any, x: jax.Array, rho: jax.Array, key: Any) -> Probe:
        here = value(x)
        slopes = _along_coordinates(value, x, rho, lambda f: (f(1.0) - here) / rho)
        return Probe(slopes, jnp.abs(here))

    def radius(self, dimension: int, diameter: float) -> Power:
        return Power(2 / math.sqrt(dimension), shift=8, exponent=1 / 3)

    def averaging_weight(self, dimension: int) -> Power:
        return Power(4, shift=8, exponent=2 / 3, cap=1)


@ORACLES.register
class RDSA(ZerothOrder):
    """One difference along one Gaussian direction: 2 values a point, variance of order d.

    >>> import mostfw as fw
    >>> fw.oracles.RDSA().values_per_point(10)
    2
    """

    def values_per_point(self, dimension: int) -> int:
        return 2

    def estimate(self, value: Any, x: jax.Array, rho: jax.Array, key: Any) -> Probe:
        return _along_gaussians(value, x, rho, key, 1)

    def radius(self, dimension: int, diameter: float) -> Power:
        return Power(2 / dimension**1.5, shift=8, exponent=1 / 3)

    def averaging_weight(self, dimension: int) -> Power:
        return Power(4 / dimension ** (1 / 3), shift=8, exponent=2 / 3, cap=1)

    floor_power: ClassVar[float] = 1 / 2


@ORACLES.register
class IRDSA(ZerothOrder):
    """The mean over m Gaussian directions: m + 1 values a point (Remark 4 of the paper).

    >>> import mostfw as fw
    >>> fw.oracles.IRDSA(directions=6).values_per_point(10)
    7
    """

    floor_power: ClassVar[float] = 1 / 2
    directions: int = eqx.field(static=True, default=6)

    def __check_init__(self) -> None:
        checks.whole("the directions of I-RDSA", self.directions, 1)

    def values_per_point(self, dimension: int) -> int:
        return self.directions + 1

    def estimate(self, value: Any, x: jax.Array, rho: jax.Array, key: Any) -> Probe:
        return _along_gaussians(value, x, rho, key, self.directions)

    def radius(self, dimension: int, diameter: float) -> Power:
        scale = 2 * math.sqrt(self.directions) / dimension**1.5
        return Power(scale, shift=8, exponent=1 / 3)

    def averaging_weight(self, dimension: int) -> Power:
        ratio = (1 + dimension / self.directions) ** (1 / 3)
        return Power(4 / ratio, shift=8, exponent=2 / 3, cap=1)

    def __str__(self) -> str:
        return f"values (I-RDSA, {self.directions} directions)"


def _along_gaussians(value: Any, x: jax.Array, rho: jax.Array, key: Any, count: int) -> Probe:
    here = value(x)

    def add(i: jax.Array, total: jax.Array) -> jax.Array:
        u = jax.random.normal(jax.random.fold_in(key, i), x.shape, x.dtype)
        return total + (value(x + rho * u) - here) / rho * u

    def part(first: Any, last: Any) -> jax.Array:
        return lax.fori_loop(first, last, add, jnp.zeros_like(x))

    return Probe(placement.summed(part, count) / count, jnp.abs(here))
