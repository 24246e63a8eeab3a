"""What all estimators share: how a problem is run, and what a fit leaves behind."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from .. import checks
from ..method import Method
from ..methods import cgal
from ..problem import Problem
from ..result import Result
from ..scaling import Units
from ..solve import solve
from ..stopping import Certified
from ..trees import replaced


class SolvingEstimator(BaseEstimator):
    """An estimator whose fit is a run of `mostfw.solve`.

    Its parameters include `tol` (a run ends when the certified relative gap is that small),
    `max_iter`, `time_limit` (seconds of the steps, or None), `random_state` and `verbose` (a
    progress bar). A fit leaves `result_`, `certificate_` and `n_iter_`.
    """

    tol: float | None
    max_iter: int
    time_limit: float | None
    random_state: Any
    verbose: int

    def _check_budgets(self) -> None:
        checks.whole("max_iter", self.max_iter, 1)
        if self.tol is not None:
            checks.number("tol", self.tol, least=0)
        if self.time_limit is not None:
            checks.number("time_limit", self.time_limit, above=0)

    def _seed(self) -> int:
        """The seed of a run; the same number for every use in one fit with an int."""
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _solve(
        self, problem: Problem, method: Method | str | None = None, *, certified: bool = True
    ) -> Result:
        """Runs the problem within the budgets of the estimator and keeps what is known after."""
        stop = Certified(gap=self.tol) if certified and self.tol is not None else None
        result = solve(
            problem,
            method,
            iterations=self.max_iter,
            seconds=self.time_limit,
            seed=self._seed(),
            stop=stop,
            progress=bool(self.verbose),
        )
        self.result_, self.n_iter_ = result, result.iterations
        self.certificate_ = result.certificate
        return result


def cgal_in_units(gradient: float, length: float) -> Method:
    """CGAL, all gradients exact, for one constraint on the point itself, whose units are known: the
    norm of the first gradient and the largest of an atom. So they need not be measured.

    >>> from mostfw.estimators._base import cgal_in_units
    >>> cgal_in_units(gradient=3.0, length=2.0).units.weights
    (1.5,)
    """
    value = gradient * length if gradient > 0 else 1.0
    units = Units(value, (value / length**2,), (None,), (length,))
    return replaced(cgal(), units=units)
