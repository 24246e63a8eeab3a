"""The bounds of one run: looked at where records are made, within a share of the run's time."""

from __future__ import annotations

import contextlib
import copy
import math
import time
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize, minimize_scalar

from . import memory, trees
from .certificates import (
    FEASIBLE,
    NUMERICAL,
    PROVED,
    Certificate,
    Look,
    Minorant,
    look_at_state,
    proves,
    ray_at_state,
    seen_at,
)
from .errors import StreamError
from .frank_wolfe import State, current
from .intervals import confidence_interval
from .method import Method
from .problem import Problem
from .trees import Point

SHARE = 0.05  # of a run's seconds, for all its bounds
EAGER_SHARE = 0.25  # where a run waits for its certificate
EAGER_SECONDS = 0.5  # and this much in any case, or short runs would never look
FIRST_AFTER = 0.25  # seconds: shorter runs do without bounds on the way
LAST_SECONDS = 0.2  # to improve the last bound, or its share of the run if that is more
SECONDS_PER_CUBE = 2e-10  # of the eigenvalues of a matrix, times its side cubed: before the first
LARGE_BYTES = 2**30  # points and multipliers from here on have no certificate unless asked for
RECENT = 4  # looks that the average is mostly of
FIRST_FACTOR = 0.02  # by which each constraint's multipliers are changed first
CLOSE_ENOUGH = 1e-5  # relative, to end the search for the best factors
STALLED = 0.8  # violations above this share of what they were at a quarter of the iterations
EARLIEST_STALL = 64
SEPARATED = {"float64": 1e-7, "float32": 1e-4}  # relative, far beyond rounding


class Bounds:
    """The best bounds on a problem's optimum so far, and what else the looks at it have shown.

    `infeasible` holds the evidence, in words, that no point of the domain keeps all constraints;
    `reason` says why there is no certificate, where there is none.

    >>> import numpy as np, mostfw as fw
    >>> from mostfw.bounds import Bounds
    >>> problem = fw.Problem(fw.objectives.Linear(np.array([3.0, 1.0])), fw.domains.Simplex(2))
    >>> Bounds(problem).lower
    -inf
    """

    def __init__(self, problem: Problem, certify: bool | None = None, eager: bool = False) -> None:
        self.problem, self.eager = problem, eager
        self._lowers = {PROVED: -math.inf, NUMERICAL: -math.inf}
        self.upper: float | None = None
        self.infeasible: str | None = None
        self.reason = _refusal(problem, certify)
        self._refused = bool(self.reason)  # what comes later says nothing about constraints
        self.spent, self.compile_seconds = 0.0, 0.0
        self._average: Look | None = None
        self._looks, self._separated = 0, False
        entries = trees.dimension(problem.structure)
        self._cost = SECONDS_PER_CUBE * entries**1.5  # of one least value
        self._turn = 2 * self._cost  # of one record point
        self._violations: list[tuple[int, float]] = []

    def continued(self, certify: bool | None, eager: bool) -> Bounds:
        """For another run of the same problem, which what is known already holds for."""
        fresh = Bounds(self.problem, certify, eager)
        fresh._lowers, fresh.upper = dict(self._lowers), self.upper
        fresh._violations = list(self._violations)
        return fresh

    def kept(self) -> dict[str, Any]:
        """What a checkpoint keeps of them, as JSON: all but the averaged multipliers."""
        return {
            "lower": _or_none(self.lower),
            "proved": self.proved,
            "proved_lower": _or_none(self._lowers[PROVED]),
            "upper": self.upper,
            "infeasible": self.infeasible,
            "spent": self.spent,
        }

    def restore(self, kept: dict[str, Any], violations: list[tuple[int, float]]) -> None:
        """Takes up what `kept` gave, and what was seen at record points."""
        lower, upper, infeasible = kept["lower"], kept["upper"], kept["infeasible"]
        if lower is not None:
            self.note(float(lower), bool(kept["proved"]))
        if kept.get("proved_lower") is not None:
            self.note(float(kept["proved_lower"]), proved=True)
        self.spent = float(kept["spent"])
        self.upper = None if upper is None else float(upper)
        self.infeasible = None if infeasible is None else str(infeasible)
        self._violations = violations

    def about(self, problem: Problem) -> Bounds:
        """The same bounds with another copy of the problem: a pickle's, with NumPy arrays."""
        held = copy.copy(self)
        held.problem = problem
        return held

    def note(self, lower: float, proved: bool) -> None:
        """A bound. Those that are proved and those that are not are kept apart."""
        kind = PROVED if proved else NUMERICAL
        self._lowers[kind] = max(self._lowers[kind], lower)

    @property
    def lower(self) -> float:
        """The best bound: of those that are proved, unless another says notably more."""
        return self._lowers[PROVED if self.proved else NUMERICAL]

    @property
    def proved(self) -> bool:
        """Whether that bound is proved."""
        proved, numerical = self._lowers[PROVED], self._lowers[NUMERICAL]
        return proved >= numerical - CLOSE_ENOUGH * abs(numerical)

    @property
    def _sees(self) -> bool:
        """Whether there is an objective to look at."""
        return self.exact and not self.reason

    @property
    def exact(self) -> bool:
        """Whether the whole objective can be had, so that bounds are sure."""
        return self.problem.objective.finite

    def observe(
        self,
        problem: Problem,
        method: Method,
        state: State,
        seconds: float,
        violation: float,
        last: bool = False,
    ) -> None:
        """A record point: looks if there is time. `problem` is the loop's, on the device."""
        self._violations.append((int(state.k), violation))
        if self._refused or not self._due(seconds, last) or not (self._sees or self.stalled):
            return
        began = time.perf_counter()
        first = (self._sees and self._looks == 0) or (self.stalled and not self._separated)
        self._take_turn(problem, method, state, seconds)
        whole = time.perf_counter() - began
        # All but the least values of a turn that does something first is compiling.
        self._turn = min(whole, 2 * self._cost) if first else whole
        self.compile_seconds += whole - self._turn
        self.spent += self._turn

    def _take_turn(self, problem: Problem, method: Method, state: State, seconds: float) -> None:
        look = self._look(problem, method, state) if self._sees else None
        if look is not None:
            self._try(look.minorant())
        if self._looks > 1 and self._average is not None:
            self._try(self._average.minorant())
        if self.stalled:
            self._separate(problem, method, state)
        if self.eager and look is not None:
            self._improve(look, (EAGER_SHARE * seconds - self.spent) / 2)
            x = jax.tree.map(np.asarray, current(problem, state))
            self._descend(self._feasible(x, self._violations[-1][1]))

    def _due(self, seconds: float, last: bool) -> bool:
        return self._affordable(seconds) or (last and self.eager)

    def _affordable(self, seconds: float) -> bool:
        cost = self.spent + self._turn
        if self.eager:
            return cost <= EAGER_SECONDS + EAGER_SHARE * seconds
        return seconds >= FIRST_AFTER and cost <= SHARE * seconds

    @property
    def stalled(self) -> bool:
        """Whether the violation has not fallen since a quarter of the iterations."""
        if not self._violations:
            return False
        now, violation = self._violations[-1]
        before = [v for k, v in self._violations if k <= now / 4]
        large = violation > 10 * FEASIBLE[str(self.problem.dtype)]
        return now >= EARLIEST_STALL and large and bool(before) and violation > STALLED * before[-1]

    def conclude(self, problem: Problem, method: Method, state: State) -> None:
        """The end of a run: if its violation did not fall, whether it could have."""
        if not self._refused and self.stalled and self.infeasible is None:
            with self._counted():
                self._separate(problem, method, state)

    def certificate(
        self, method: Method, state: State, x: Point, violation: float, seconds: float
    ) -> Certificate | None:
        """The certificate of the point x at which the run stands."""
        if self.infeasible is not None:
            self.reason = f"the problem has no optimum: {self.infeasible}"
        if self.reason:
            return None
        with self._counted():
            return self._last(method, state, x, violation, seconds)

    def _last(
        self, method: Method, state: State, x: Point, violation: float, seconds: float
    ) -> Certificate | None:
        feasible = self._feasible(x, violation)
        if not self.exact:
            nearest = feasible[0] if feasible else None
            return self._interval(method, state, nearest, violation)
        problem = self.problem.on_device().core()
        look = self._look(problem, method, state)
        if look is None:
            return None
        self._improve(look, max(LAST_SECONDS, SHARE * seconds - self.spent))
        if not math.isfinite(self.lower):
            self.reason = "no finite bound was found: a gradient or multiplier is not finite."
        self._descend(feasible)
        return self.known(look.objective, violation)

    def known(self, objective: float, violation: float) -> Certificate | None:
        """The certificate from the bounds so far, for a point with this value and violation."""
        if self.reason or not math.isfinite(self.lower):
            return None
        return Certificate.of(
            lower=self.lower,
            upper=self.upper,
            objective=objective,
            violation=violation,
            kind=PROVED if self.proved and proves(self.problem) else NUMERICAL,
        )

    def _descend(self, feasible: list[Point]) -> None:
        for point in feasible:
            value = seen_at(self.problem.on_device().core(), point).objective
            self.upper = value if self.upper is None else min(value, self.upper)

    def _look(self, problem: Problem, method: Method, state: State) -> Look | None:
        try:
            look = look_at_state(problem, method, state)
        except Exception as error:  # a function without a derivative must not end a run
            self.reason = (
                f"the gradient of {problem.objective.label} cannot be had: "
                f"{type(error).__name__}: {error}"
            )
            return None
        self._looks += 1
        average = self._average or look
        self._average = average.mixed(1 / min(self._looks, RECENT), look)
        return look

    def _try(self, minorant: Minorant) -> float:
        began = time.perf_counter()
        found = minorant.least(self.problem)
        self._cost = time.perf_counter() - began
        self.note(found.value, found.proved)
        return found.value

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        """What the end of a run spends on its bounds counts as what was spent on the way."""
        began = time.perf_counter()
        yield
        self.spent += time.perf_counter() - began

    def _improve(self, look: Look, seconds: float) -> None:
        """The multipliers as they are, none, their average, what lies between; then each
        constraint's multipliers by a factor of their own."""
        until = time.perf_counter() + seconds
        self._try(look.base)
        last, average = self._try(look.minorant()), self._average
        if self._looks > 1 and average is not None:
            mean = self._try(average.minorant())
            share = self._mixture(look, average, until)
            look = look.mixed(float(mean > last) if share is None else share, average)
        evaluations = self._evaluations(until)
        if look.rays and evaluations > 2 * len(look.rays):
            ones = np.ones(len(look.rays))
            minimize(  # concave, but not smooth; a search without derivatives does
                lambda weights: -self._try(look.minorant(np.maximum(weights, 0))),
                ones,
                method="Nelder-Mead",
                options={
                    "maxfev": evaluations,
                    "initial_simplex": np.vstack([ones, ones + FIRST_FACTOR * np.diag(ones)]),
                    "fatol": CLOSE_ENOUGH * abs(self.lower),
                    "xatol": CLOSE_ENOUGH,
                },
            )

    def _mixture(self, look: Look, average: Look, until: float) -> float | None:
        """The best share of the average, if there is time to search for it."""
        evaluations = min(8, self._evaluations(until) // 3)
        if evaluations < 3:
            return None
        found: Any = minimize_scalar(
            lambda share: -self._try(look.mixed(share, average).minorant()),
            bounds=(0.0, 1.0),
            method="bounded",
            options={"maxiter": evaluations},
        )
        return float(found.x)

    def _evaluations(self, until: float) -> int:
        return min(100, int((until - time.perf_counter()) / max(self._cost, 1e-6)))

    def _separate(self, problem: Problem, method: Method, state: State) -> None:
        """Looks whether the multipliers separate the domain's image from the set. Only a least
        value that is proved can show it: any other may be above what the domain has."""
        self._separated = True
        rays = [ray_at_state(problem, method, state)]
        if self._average is not None:
            rays.append(self._average.ray())
        if method.smoothing is not None and method.smoothing.dual:
            rays.append(ray_at_state(problem, method, state, residual=True))
        for ray in rays:
            (least, proved), most = self.problem.domain.least(ray.slope), -ray.offset
            margin = SEPARATED[str(problem.dtype)] * (abs(least) + abs(most))
            if proved and least - most > margin:
                now, violation = self._violations[-1]
                self.infeasible = (
                    f"the violation, {violation:.2g}, has not fallen since iteration {now // 4}, "
                    f"and at iteration {now} there are multipliers l for which <l, Gx> is at least "
                    f"{least:.6g} on the whole domain, but at most {most:.6g} wherever the "
                    "constraints hold."
                )

    def _feasible(self, x: Point, violation: float) -> list[Point]:
        """The run's point and the nearby one that the problem knows, if they keep everything."""
        tolerance = FEASIBLE[str(self.problem.dtype)]
        found = [jax.tree.map(jnp.asarray, x)] if violation <= tolerance else []
        if self.problem.feasible is None:
            return found
        nearby = jax.tree.map(np.asarray, self.problem.feasible(x))
        nearby = jax.tree.map(lambda leaf: jnp.asarray(leaf, self.problem.dtype), nearby)
        kept = seen_at(self.problem.on_device().core(), nearby).violation <= tolerance
        inside = kept and self.problem.domain.contains(nearby, tolerance)
        return [*found, nearby] if inside else found

    def _interval(
        self, method: Method, state: State, feasible: Point | None, violation: float
    ) -> Certificate | None:
        try:
            return confidence_interval(self.problem, method, state, feasible, violation)
        except StreamError as error:
            self.reason = f"a confidence interval needs fresh minibatches: {error}"
            return None


def _or_none(number: float) -> float | None:
    """For JSON."""
    return number if math.isfinite(number) else None


def _refusal(problem: Problem, certify: bool | None) -> str:
    """Why there will be no certificate; empty if there may be one."""
    if certify is False:
        return "certificates were switched off: certify=False."
    structure = problem.structure
    numbers = [trees.dimension(structure), *(math.prod(c.image) for c in problem.constraints)]
    if certify is None and max(numbers) * problem.dtype.itemsize >= LARGE_BYTES:
        return (
            f"points or multipliers have {max(numbers):.1e} numbers, and a bound forms several "
            "such arrays beside the run's: ask for it with certify=True."
        )
    if certify is None and not memory.room_for_bounds(problem):
        return "there is no memory for a bound beside the run: ask for it with certify=True."
    return ""
