"""Bounds on the optimum that a run can prove, and what they say in words.

For a convex f, any x in C and any multipliers l whose support sigma_X(l) is finite,

    f* >= f(x) - <g, x> + min over z in C of <g + G'l, z> - sigma_X(l),    g the gradient of f at x:

convexity gives f(z) >= f(x) + <g, z - x>, and <l, Gz> <= sigma_X(l) where Gz is in X. The gradient
is that of the whole objective, never a tracked estimate. That f is convex is the user's word: no
function can be asked.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from . import trees
from .domains import Least
from .errors import InvalidInputError
from .frank_wolfe import State, current, multipliers, numbers_of
from .method import Method
from .problem import Problem
from .rounding import rounded_down, rounded_up
from .trees import Point

__all__ = ["Certificate", "lower_bound"]

# What rounding may add to sums of numbers of a size, as a share of it: the sums of a device over
# 10^6 products were off by up to 2e-14 and 1e-6. Longer ones are more, as the root of their number.
ROUNDING = {"float64": 2e-13, "float32": 4e-6}
MEASURED_AT = 10**6
# A point this near to every set X, relative to its right-hand side, counts as feasible.
FEASIBLE = {"float64": 1e-8, "float32": 1e-5}
DIGITS = 6  # of bounds in sentences

PROVED, NUMERICAL, INTERVAL = "proved", "numerical", "confidence interval"
SURE = {  # in sentences
    PROVED: "proved",
    NUMERICAL: "by numerical evidence",
    INTERVAL: "with 99% confidence, from fresh samples",
}


@dataclasses.dataclass(frozen=True)
class Certificate:
    """What is known about the optimum f*, for a convex objective.

    - `lower`: f* is not below this; how sure that is, `kind` says: "proved" (rounding accounted
      for), "numerical" (up to the accuracy of an eigenvalue, or in float32) or "confidence
      interval" (both ends from fresh samples, together with 99%).
    - `upper`: the value at a point that is in the domain and keeps every constraint (to 1e-8
      relative, in float32 1e-5), so f* is not above it. None where no such point is known: a point
      that breaks constraints may have a value below f*.
    - `objective`: the value at the run's own point, and `violation` the largest relative violation
      of it.
    - `relative_gap`: from `lower` to `upper`, or to `objective` where there is no upper; over the
      smaller of the two in absolute value, so that (upper - f*)/|f*| is not above it wherever
      between them f* is. Infinite where they differ and f* may be 0.

    >>> import mostfw as fw
    >>> certificate = fw.Certificate.of(lower=9.9, upper=10.0, objective=9.8, violation=1e-3)
    >>> print(certificate)
    The best possible value lies between 9.9 and 10 (proved): the best known point that keeps
    all constraints is at most 1.02% from it.
    >>> round(certificate.relative_gap, 6)
    0.010101
    """

    lower: float
    upper: float | None
    objective: float
    relative_gap: float
    violation: float
    kind: str = PROVED

    @staticmethod
    def of(
        *,
        lower: float,
        objective: float,
        upper: float | None = None,
        violation: float = 0.0,
        kind: str = PROVED,
    ) -> Certificate:
        """A certificate with the gap worked out."""
        top = objective if upper is None else max(upper, lower)
        return Certificate(lower, upper, objective, relative_gap(top, lower), violation, kind)

    def __str__(self) -> str:
        sure, least = SURE[self.kind], rounded_down(self.lower, DIGITS)
        if self.upper is not None:
            return (
                f"The best possible value lies between {least} and "
                f"{rounded_up(self.upper, DIGITS)} ({sure}): {self._nearness()}."
            )
        return (
            f"The best possible value is at least {least} ({sure}). The point found has "
            f"{self.objective:.6g}, {self._side()} that, but breaks its constraints by up to "
            f"{self.violation:.1e} (relative), so that the best value may be larger than it."
        )

    def _nearness(self) -> str:
        if math.isinf(self.relative_gap):
            return "it may be 0, of which no distance is a share"
        return (
            f"the best known point that keeps all constraints is at most {self._percent()} from it"
        )

    def _side(self) -> str:
        side = "above" if self.relative_gap >= 0 else "below"
        return side if math.isinf(self.relative_gap) else f"at most {self._percent()} {side}"

    def _percent(self) -> str:
        return f"{rounded_up(100 * abs(self.relative_gap), 3)}%"

    def to_dict(self) -> dict[str, Any]:
        """The fields and the sentence, ready for JSON, which has no infinite numbers: such a gap is
        None."""
        gap = self.relative_gap if math.isfinite(self.relative_gap) else None
        return {**dataclasses.asdict(self), "relative_gap": gap, "words": str(self)}


def relative_gap(top: float, lower: float) -> float:
    """top - lower over the least |f*| that an f* between them can have; with its sign.

    >>> from mostfw.certificates import relative_gap
    >>> relative_gap(-4.0, -5.0), relative_gap(0.0, 0.0), relative_gap(1.0, -1.0)
    (0.25, 0.0, inf)
    """
    if top == lower:
        return 0.0
    size = min(abs(top), abs(lower)) if (top > 0) == (lower > 0) else 0.0
    with np.errstate(over="ignore", divide="ignore"):
        return float(np.float64(top - lower) / size)


class Minorant(NamedTuple):
    """offset + <slope, z>: not above f(z) for any z in C with Gz in X. Arrays are on the host.

    Means of minorants are minorants. A `ray`, offset + <slope, z> <= 0 for all such z, can be added
    to one any number of times, and if it is above 0 on all of C there is no such z. `sure` is
    whether the offset leaves room for all rounding: what a user's map sums up nobody knows.
    """

    offset: float
    slope: Point
    sure: bool = True

    def plus(self, weight: float, other: Minorant) -> Minorant:
        slope = jax.tree.map(lambda a, b: a + weight * b, self.slope, other.slope)
        sure = self.sure and other.sure
        return Minorant(self.offset + weight * other.offset, slope, sure)

    def mixed(self, weight: float, other: Minorant) -> Minorant:
        """(1 - weight) of this and weight of the other."""
        slope = jax.tree.map(lambda a, b: (1 - weight) * a + weight * b, self.slope, other.slope)
        offset = (1 - weight) * self.offset + weight * other.offset
        return Minorant(offset, slope, self.sure and other.sure)

    def least(self, problem: Problem) -> Least:
        """A number that it is not below at any point that keeps the problem's constraints."""
        found = problem.least(self.slope)
        return Least(self.offset + found.value, found.proved and self.sure)


class Look(NamedTuple):
    """What one point and its multipliers say: base + sum of t_i ray_i is a minorant for every
    t >= 0, ray_i from the multipliers of constraint i."""

    objective: float
    base: Minorant
    rays: tuple[Minorant, ...]

    def mixed(self, weight: float, other: Look) -> Look:
        pairs = zip(self.rays, other.rays, strict=True)
        rays = tuple(mine.mixed(weight, theirs) for mine, theirs in pairs)
        return Look(self.objective, self.base.mixed(weight, other.base), rays)

    def minorant(self, weights: Iterable[float] | None = None) -> Minorant:
        """With the multipliers as they are, or each constraint's times a weight."""
        return _sum(self.base, self.rays, weights)

    def ray(self) -> Minorant:
        """The multipliers alone."""
        nothing = Minorant(0.0, jax.tree.map(np.zeros_like, self.base.slope))
        return _sum(nothing, self.rays, None)


def _sum(base: Minorant, rays: tuple[Minorant, ...], weights: Iterable[float] | None) -> Minorant:
    weights = (1.0,) * len(rays) if weights is None else weights
    for weight, ray in zip(weights, rays, strict=True):
        base = base.plus(weight, ray)
    return base


def look_at_state(problem: Problem, method: Method, state: State) -> Look:
    """The look at x_{k+1} with the state's multipliers. `problem` is on the device."""
    return fetched(problem, parts_of_state(problem, method, state))


def ray_at_state(
    problem: Problem, method: Method, state: State, residual: bool = False
) -> Minorant:
    """The multipliers alone, for which nothing of the objective need be known; with `residual`,
    those of a penalty, which point from the set to Gx, whatever the method carries."""
    parts, fetch = _rays_of_state(problem, method, state, residual), _fetching(problem)
    return functools.reduce(lambda a, b: a.plus(1.0, b), map(fetch, parts))


def lower_bound(problem: Problem, x: Any, multipliers: Mapping[str, Any] | None = None) -> Least:
    """A lower bound on the optimum from any point x of the domain and any multipliers by name.

    Multipliers have the shape of Gx; those with an infinite support are moved to the nearest that
    have a finite one (a sign that does not fit becomes 0), and constraints not named get 0.

    >>> import numpy as np, mostfw as fw
    >>> limit = fw.constraints.Affine(np.eye(2), fw.sets.Box(0.0, 0.6), name="limit")
    >>> objective = fw.objectives.Linear(np.array([3.0, 1.0]))
    >>> problem = fw.Problem(objective, fw.domains.Simplex(2), [limit])
    >>> x = np.array([0.4, 0.6])
    >>> for multiplier in ([0.0, 0.0], [0.0, 2.0]):
    ...     bound = fw.certificates.lower_bound(problem, x, {"limit": multiplier})
    ...     print(round(bound.value, 6), bound.proved)
    1.0 True
    1.8 True
    """
    if not problem.objective.finite:
        raise InvalidInputError(
            f"{problem.objective.label} is known from samples only, so that no bound is sure: "
            "look at the certificate of a run, which gives a confidence interval."
        )
    given = dict(multipliers or {})
    unknown = sorted(set(given) - {c.name for c in problem.constraints})
    if unknown:
        raise InvalidInputError(f"multipliers are for {unknown}: the problem has no such names.")
    with problem.precision():
        on_device = problem.on_device().core()
        x = jax.tree.map(lambda leaf: jnp.asarray(leaf, problem.dtype), x)
        full = {
            c.name: jnp.broadcast_to(jnp.asarray(given.get(c.name, 0.0), problem.dtype), c.image)
            for c in problem.constraints
        }
        found = fetched(on_device, _whole(on_device, x, full)).minorant().least(problem)
    return Least(found.value, found.proved and proves(problem))


def proves(problem: Problem) -> bool:
    """Whether the arithmetic is fine enough for a proof."""
    return problem.dtype == np.float64


class Part(NamedTuple):
    """A minorant before it is fetched from the device."""

    offset: jax.Array
    slope: Point
    size: jax.Array  # of what the offset sums up, for its rounding
    length: jax.Array | None  # the norm of what the slope sums up; None where not known


class Parts(NamedTuple):
    """A look before it is fetched from the device."""

    value: jax.Array
    base: Part
    rays: list[Part]  # of each constraint


@eqx.filter_jit
def parts_of_state(problem: Problem, method: Method, state: State) -> Parts:
    """The look at where a run stands."""
    return _whole(problem, current(problem, state), multipliers(problem, method, state))


@eqx.filter_jit
def _rays_of_state(problem: Problem, method: Method, state: State, residual: bool) -> list[Part]:
    if not residual:
        return _rays(problem, multipliers(problem, method, state))
    x, numbers = current(problem, state), numbers_of(method, state.k, state)
    return _rays(problem, {c.name: c.multiplier(x, numbers) for c in method.weighted(problem)})


@eqx.filter_jit
def _whole(problem: Problem, x: Point, found: dict[str, jax.Array]) -> Parts:
    value = problem.objective.whole_value(x)
    assert value is not None
    no_numbers: Any = None  # schedules are for constraints and oracles: f itself has none
    zero = trees.zeros(problem.structure)
    gradient = problem.objective.add_whole(zero, 1.0, x, no_numbers)
    return parts(problem, x, value, gradient, found)


def parts(
    problem: Problem, x: Point, value: jax.Array, gradient: Point, found: dict[str, jax.Array]
) -> Parts:
    """The look at x, where the objective has this value and gradient; `found` are multipliers."""
    gradient = problem.domain.tangent(gradient)
    magnitudes = functools.partial(jax.tree.map, jnp.abs)
    size = jnp.abs(value) + trees.inner(magnitudes(gradient), magnitudes(x))
    base = Part(value - trees.inner(gradient, x), gradient, size, trees.norm(gradient))
    return Parts(value, base, _rays(problem, found))


def _rays(problem: Problem, found: dict[str, jax.Array]) -> list[Part]:
    rays = []
    for constraint in problem.constraints:
        the_map, the_set = constraint.map, constraint.set
        multiplier = the_set.supported(found[constraint.name])
        rays.append(
            Part(
                offset=-the_set.support(multiplier),
                slope=problem.domain.tangent(the_map.adjoint(multiplier, problem.structure)),
                size=the_set.support_size(multiplier, constraint.image),
                length=the_map.adjoint_size(multiplier, problem.structure),
            )
        )
    return rays


def fetched(problem: Problem, parts: Parts) -> Look:
    """On the host in float64, each offset less what rounding may have added to the minorant."""
    fetch = _fetching(problem)
    return Look(float(parts.value), fetch(parts.base), tuple(map(fetch, parts.rays)))


def _fetching(problem: Problem) -> Callable[[Part], Minorant]:
    numbers = max(
        trees.dimension(problem.structure), *(math.prod(c.image) for c in problem.constraints), 1
    )
    share = ROUNDING[str(problem.dtype)] * max(1.0, math.sqrt(numbers / MEASURED_AT))
    reach = float(problem.domain.diameter) + _length(problem.domain.start(problem.dtype))

    def fetch(part: Part) -> Minorant:
        slope = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), part.slope)
        # What cancels in a slope is no longer seen in it, but its rounding is.
        summed = max(_length(slope), 0.0 if part.length is None else float(part.length))
        slack = share * (float(part.size) + reach * summed)
        return Minorant(float(part.offset) - slack, slope, part.length is not None)

    return fetch


def _length(tree: Point) -> float:
    leaves = [np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(tree)]
    largest = max((float(np.abs(leaf).max(initial=0.0)) for leaf in leaves), default=0.0)
    if not 0 < largest < np.inf:
        return largest
    return largest * float(np.sqrt(sum(np.sum((leaf / largest) ** 2) for leaf in leaves)))


class Seen(NamedTuple):
    """A point's value (NaN where only samples tell) and its largest relative violation."""

    objective: float
    violation: float


def seen_at(problem: Problem, x: Point) -> Seen:
    """The value and the largest relative violation of a point from elsewhere."""
    value, violations = values_at(problem, x)
    scales = [c.rhs_norm() for c in problem.constraints]
    pairs = zip(violations, scales, strict=True)
    value = float("nan") if value is None else float(value)
    return Seen(value, max((float(v) / scale for v, scale in pairs), default=0.0))


@eqx.filter_jit
def values_at(problem: Problem, x: Point) -> tuple[jax.Array | None, list[jax.Array]]:
    """The objective and every violation at a point that comes from elsewhere."""
    return problem.objective.whole_value(x), [c.violation(x) for c in problem.constraints]
