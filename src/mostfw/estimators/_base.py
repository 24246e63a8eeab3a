"""What all estimators share: how a problem is run, and what a fit leaves behind."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from .. import checks
from ..method import Method
from ..methods import cgal
from ..problem import Problem
from ..result import Result, Status
from ..scaling import Units
from ..solving import solve
from ..stopping import Certified
from ..trees import replaced
from ._cost import Cost


class SolvingEstimator(BaseEstimator):
    """An estimator whose fit is a run of `mostfw.solve`.

    Its parameters include `tol` (a run ends when the certified relative gap is that small),
    `max_iter`, `time_limit` (seconds of the steps, or None), `random_state`, `verbose` (what the
    fit will take, on standard error, and a progress bar) and `checkpoint` (a folder: a fit that was
    ended there is continued by the same fit). A fit leaves `result_`, `certificate_` and `n_iter_`.
    """

    tol: float | None
    max_iter: int
    time_limit: float | None
    random_state: Any
    verbose: int
    checkpoint: str | Path | None

    def _check_budgets(self) -> None:
        checks.whole("max_iter", self.max_iter, 1)
        if self.tol is not None:
            checks.number("tol", self.tol, least=0)
        if self.time_limit is not None:
            checks.number("time_limit", self.time_limit, above=0)

    def _announce(self, cost: Cost, what: str, remedy: str) -> None:
        """Says what the fit will take, and refuses what the machine has no room for."""
        cost.require_memory(what, remedy)
        if self.verbose:
            print(f"{type(self).__name__}: {what} take {cost}.", file=sys.stderr)

    def _seed(self) -> int:
        """The seed of a run; the same number for every use in one fit with an int."""
        # A run that may be continued needs a seed that is the same next time.
        unseeded = self.random_state is None and self.checkpoint is not None
        return int(check_random_state(0 if unseeded else self.random_state).randint(2**31 - 1))

    def _kept(self, part: str) -> dict[str, Any]:
        """Where a run of the fit is kept, for `mostfw.solve`."""
        return {} if self.checkpoint is None else {"checkpoint": Path(self.checkpoint) / part}

    def _solve(
        self,
        problem: Problem,
        method: Method | str | None = None,
        *,
        interrupted: Result | None = None,
    ) -> Result:
        """Runs the problem within the budgets of the estimator and keeps what is known after.

        `interrupted` is a run before this one that a user has ended: then a single step is made,
        for there must be a point, and the result says why.
        """
        result = solve(
            problem,
            method,
            iterations=self.max_iter if interrupted is None else 1,
            seconds=self.time_limit,
            seed=self._seed(),
            stop=None if self.tol is None else Certified(gap=self.tol),
            progress=bool(self.verbose),
            **self._kept("run"),
        )
        if interrupted is not None:
            result = dataclasses.replace(result, status=interrupted.status)
        self.result_, self.n_iter_ = result, result.iterations
        self.certificate_ = result.certificate
        return result


def cgal_in_units(value: float, *reaches: float) -> Method:
    """CGAL, all gradients exact, where the units are known: of the objective (the norm of its first
    gradient times the largest of an atom) and of each constraint (the largest ||G atom||). So they
    need not be measured, which is half of what there is to compile.

    >>> from mostfw.estimators._base import cgal_in_units
    >>> cgal_in_units(6.0, 2.0).units.weights
    (1.5,)
    """
    value = value if value > 0 else 1.0
    weights = tuple(value / reach**2 for reach in reaches)
    return replaced(cgal(), units=Units(value, weights, (None,) * len(reaches), reaches))


def ended_in_words(words: str, result: Result | None) -> str:
    """The words about an answer, and that it is a preliminary one if the run was interrupted."""
    if result is None or not was_interrupted(result):
        return words
    steps = f"{result.iterations} step{'s' * (result.iterations != 1)}"
    ended = f"the run was interrupted after {steps}, and more may improve it"
    return f"{words[:-1]}; {ended}." if words.endswith(".") else f"{words}; {ended}"


def was_interrupted(result: Result) -> bool:
    """Whether a user has ended the run: then no other one should follow it."""
    return result.status is Status.INTERRUPTED
