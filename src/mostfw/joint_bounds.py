"""Bounds of a run that several processes make: no host sees a whole matrix.

The least value of <g + G'l, z> over the domain is found by the LMO's own search, over the mesh, to
a tight tolerance: a Ritz value is not a proof, so these bounds are "numerical". Nothing is left for
later, for a certificate that is worked out when it is read would need all processes to read it.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from . import processes, trees
from .bounds import Bounds
from .certificates import ROUNDING, Certificate, parts_of_state
from .frank_wolfe import State
from .linalg import Accuracy
from .method import Method
from .problem import Problem
from .trees import Point

TOLERANCE = {"float64": 1e-9, "float32": 1e-5}  # of the eigenpair, relative to the matrix


class JointBounds(Bounds):
    """The best bounds so far; every process has the same.

    >>> import numpy as np, mostfw as fw
    >>> from mostfw.joint_bounds import JointBounds
    >>> problem = fw.Problem(fw.objectives.Linear(np.array([3.0, 1.0])), fw.domains.Simplex(2))
    >>> JointBounds(problem).lower
    -inf
    """

    def __init__(self, problem: Problem, certify: bool | None = None, eager: bool = False) -> None:
        super().__init__(problem, certify, eager)
        self.objective: float | None = None  # at the last look
        self._separated = True  # never looked for here, so no turn compiles that
        if not self.reason and not self.exact:
            self.reason = "a confidence interval is not worked out over several processes."
        refused = processes.gathered(bool(self.reason))[:, 0].any()
        if refused and not self.reason:
            self.reason = "another process has no memory for a bound beside the run."

    def kept(self) -> dict[str, Any]:
        return {**super().kept(), "objective": self.objective}

    def restore(self, kept: dict[str, Any], violations: list[tuple[int, float]]) -> None:
        super().restore(kept, violations)
        objective = kept.get("objective")  # a single process keeps none
        self.objective = None if objective is None else float(objective)

    def _due(self, seconds: float, last: bool) -> bool:
        """As the first process has it, the last record point always: no look comes after it."""
        return bool(processes.gathered(last or self._affordable(seconds))[0, 0])

    def _take_turn(self, problem: Problem, method: Method, state: State, seconds: float) -> None:
        objective, lowers = _lowers(problem, method, state, float(problem.domain.diameter))
        self.objective = float(objective)
        for lower in filter(math.isfinite, map(float, lowers)):
            self.note(lower, proved=False)
        self._looks += 1

    def conclude(self, problem: Problem, method: Method, state: State) -> None:
        """That a problem is infeasible is not looked for here."""

    def certificate(
        self, method: Method, state: State, x: Point, violation: float, seconds: float
    ) -> Certificate | None:
        if not self.reason and (self.objective is None or not math.isfinite(self.lower)):
            self.reason = "no bound was worked out while the processes were together."
        if self.reason or self.objective is None:
            return None
        return self.known(self.objective, violation)


@eqx.filter_jit
def _lowers(
    problem: Problem, method: Method, state: State, diameter: float
) -> tuple[jax.Array, list[jax.Array]]:
    """The objective, and the bounds without multipliers and with those of the state."""
    parts = parts_of_state(problem, method, state)
    domain, dtype = problem.domain, str(problem.dtype)
    reach, summed = diameter + trees.norm(domain.start(problem.dtype)), [parts.base, *parts.rays]
    slack = [
        part.size + reach * (trees.norm(part.slope) if part.length is None else part.length)
        for part in summed
    ]

    def bound(terms: int) -> jax.Array:
        parts = summed[:terms]
        slope = functools.reduce(lambda a, b: trees.plus(a, 1.0, b), [p.slope for p in parts])
        least = domain.lmo(
            slope, key=jax.random.PRNGKey(0), tolerance=Accuracy(TOLERANCE[dtype])
        ).value
        return sum(p.offset for p in parts) - ROUNDING[dtype] * sum(slack[:terms]) + least

    return parts.value, [jnp.asarray(bound(terms)) for terms in sorted({1, len(summed)})]
