"""What a run gives back: the point, its measures, the counts, the history, the status."""

from __future__ import annotations

import dataclasses
import enum
import functools
from typing import Any

import equinox as eqx
import jax
import numpy as np

from . import counting, placement, processes
from .bounds import Bounds
from .certificates import Certificate
from .errors import MissingDependencyError
from .frank_wolfe import State, multipliers
from .method import Method
from .problem import Problem

_multipliers = eqx.filter_jit(multipliers)


class Status(enum.Enum):
    """Why a run ended. Reaching a budget is not a failure.

    >>> import mostfw as fw
    >>> print(fw.Status.ITERATIONS)
    the iteration budget was used
    """

    ITERATIONS = "the iteration budget was used"
    SECONDS = "the time budget was used"
    TOLERANCE = "the tolerances were reached"
    CERTIFIED = "the certificate shows that the gap is small enough"
    INFEASIBLE = "infeasible (suspected): no point of the domain seems to keep all constraints"
    CALLBACK = "the callback asked to stop"
    STREAM_ENDED = "the stream of minibatches ended"
    NON_FINITE = "a number became NaN or infinite"
    INTERRUPTED = "it was interrupted"
    FAILED = "a function or a stream of the user's failed"

    def __str__(self) -> str:
        return self.value


@dataclasses.dataclass(frozen=True)
class Counts:
    """Calls that were asked for; those whose answer is known are not made (docs/adr/0017).

    `gradients`, `values` and `constraints` count samples times points; `fallbacks` the LMOs whose
    search failed, so that they were solved in a slower, sure way.

    >>> import mostfw as fw
    >>> fw.Counts().lmo
    0
    """

    lmo: int = 0
    lmo_skipped: int = 0
    gradients: int = 0
    values: int = 0
    constraints: int = 0
    matvecs: int = 0
    fallbacks: int = 0

    @staticmethod
    def of(state: State) -> Counts:
        return Counts(
            lmo=counting.total(state.lmo),
            lmo_skipped=counting.total(state.lmo_skipped),
            matvecs=counting.total(state.matvecs),
            fallbacks=counting.total(state.fallbacks),
            **{name: counting.total(words) for name, words in state.estimate.counts.items()},
        )


@dataclasses.dataclass(frozen=True)
class Record:
    """One record point: `iteration` steps were done, and this was seen at the new point.

    >>> import mostfw as fw
    >>> fw.Record(9, 0.1, 2.0, -0.5, {"rows": 3.0}, {"rows": 0.25}, {}, fw.Counts()).merit
    0.75
    """

    iteration: int
    seconds: float
    objective: float
    relative_gap: float | None
    violation: dict[str, float]
    relative_violation: dict[str, float]
    metrics: dict[str, float]
    counts: Counts

    @property
    def merit(self) -> float | None:
        """|relative gap| + sum of relative violations; None where no optimum is known."""
        if self.relative_gap is None:
            return None
        return abs(self.relative_gap) + sum(self.relative_violation.values())

    def flat(self) -> dict[str, Any]:
        """One row: nested names joined with dots."""
        row: dict[str, Any] = {}
        for key, value in dataclasses.asdict(self).items():
            if isinstance(value, dict):
                head = "" if key == "metrics" else f"{key}."
                row.update({f"{head}{name}": v for name, v in value.items()})
            else:
                row[key] = value
        return row


def worst_violation(record: Record) -> float:
    """The largest relative violation; 0 without constraints."""
    return max(record.relative_violation.values(), default=0.0)


class History(list[Record]):
    """The record points of a run, oldest first.

    >>> import mostfw as fw
    >>> len(fw.History())
    0
    """

    def column(self, name: str) -> np.ndarray:
        """One column by its flat name, e.g. `objective`, `violation.rows`, `counts.lmo`."""
        return np.array([record.flat()[name] for record in self])

    def to_frame(self) -> Any:
        """A pandas DataFrame with one row a record point."""
        try:
            import pandas as pd
        except ImportError as error:
            raise MissingDependencyError(
                "History.to_frame needs pandas: pip install 'mostfw[experiments]'."
            ) from error
        return pd.DataFrame([record.flat() for record in self])

    def to_dict(self) -> dict[str, Any]:
        """Columns as lists, `violation` and the like nested by name: what a run's JSON holds."""
        columns: dict[str, Any] = {}
        for record in self:
            for key, value in dataclasses.asdict(record).items():
                if isinstance(value, dict):
                    if key == "metrics":
                        for name, number in value.items():
                            columns.setdefault(name, []).append(number)
                        continue
                    inner = columns.setdefault(key, {})
                    for name, number in value.items():
                        inner.setdefault(name, []).append(number)
                else:
                    columns.setdefault(key, []).append(value)
        return columns


@dataclasses.dataclass(frozen=True)
class Result:
    """The end of a run. `x` is in the domain; `violation` says how far Gx is from X, by name.

    A run over devices of several processes leaves `x` where it is, by rows, as a `jax.Array`;
    `mostfw.processes.whole(result.x)` brings all of it to each of them.

    >>> import numpy as np, mostfw as fw
    >>> problem = fw.Problem(fw.objectives.Linear(np.array([3.0, 1.0])), fw.domains.Simplex(2))
    >>> result = fw.solve(problem, fw.methods.sfw(), iterations=10)
    >>> result.x.round(3).tolist(), str(result.status)
    ([0.0, 1.0], 'the iteration budget was used')
    """

    problem: Problem
    method: Method
    status: Status
    x: Any
    history: History
    seconds: float
    compile_seconds: float  # all before the first step: units measured, programs compiled
    seed: int
    state: State = dataclasses.field(repr=False)
    bounds: Bounds = dataclasses.field(repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """What a pickle holds: NumPy arrays, for one of jax read where float64 is switched off
        would come back as float32."""
        held = dict(self.__dict__)
        for name in ("problem", "method", "x", "state"):
            held[name] = jax.tree.map(_on_host, held[name])
        held["bounds"] = self.bounds.about(held["problem"])
        return held

    @property
    def last(self) -> Record:
        return self.history[-1]

    @property
    def iterations(self) -> int:
        return int(self.state.k)

    @property
    def objective(self) -> float:
        return self.last.objective

    @property
    def relative_gap(self) -> float | None:
        """(objective - optimum)/|optimum|, signed; None where no optimum is known."""
        return self.last.relative_gap

    @property
    def violation(self) -> dict[str, float]:
        """||Gx - Proj_X(Gx)|| by constraint."""
        return self.last.violation

    @property
    def relative_violation(self) -> dict[str, float]:
        """The same over max(1, norm of the right-hand side)."""
        return self.last.relative_violation

    @property
    def counts(self) -> Counts:
        return self.last.counts

    @functools.cached_property
    def dual(self) -> dict[str, Any]:
        """The multiplier of each constraint: the penalty's weight (Gx - Proj)/mu_k. Of a run of
        several processes all must ask for it."""
        with self.problem.precision():
            if processes.apart(jax.tree.leaves(self.state.x)[0]):  # then it stays where it is
                with placement.on(jax.tree.leaves(self.state.x)[0].sharding.mesh):
                    return _multipliers(self.problem.on_device().core(), self.method, self.state)
            found = _multipliers(self.problem.on_device().core(), self.method, self.state)
            return {name: np.asarray(value) for name, value in found.items()}

    @functools.cached_property
    def certificate(self) -> Certificate | None:
        """What is known about the optimum; the last bound is worked out when this is first read.

        None where there is none: `evidence` then says why.

        >>> import numpy as np, mostfw as fw
        >>> problem = fw.Problem(fw.objectives.Linear(np.array([3.0, 1.0])), fw.domains.Simplex(2))
        >>> result = fw.solve(problem, "sfw", iterations=10)
        >>> result.certificate.kind, round(result.certificate.lower, 6)
        ('proved', 1.0)
        """
        if not self.history or self.status is Status.NON_FINITE:
            return None
        with self.problem.precision():
            return self.bounds.certificate(
                self.method, self.state, self.x, worst_violation(self.last), self.seconds
            )

    @property
    def evidence(self) -> str:
        """What speaks for an infeasible problem, or why there is no certificate; else empty."""
        if self.bounds.infeasible is not None:
            return self.bounds.infeasible
        return "" if self.certificate is not None else self.bounds.reason

    @property
    def answer(self) -> Any:
        """What the problem makes of x (labels, a cut); None for a problem posed from parts. Of a
        run of several processes all must ask for it, and each has room for the whole of x."""
        return None if self.problem.answer is None else self.problem.answer(processes.whole(self.x))

    def to_dict(self) -> dict[str, Any]:
        """The JSON of a run, but for what only the caller knows."""
        return {
            "problem": self.problem.name,
            "method": self.method.name,
            "iterations": self.iterations,
            "seed": self.seed,
            "objective": self.objective,
            "optimum": self.problem.optimum,
            "relative_gap": self.relative_gap,
            "violation": self.violation,
            "relative_violation": self.relative_violation,
            **self.last.metrics,
            "counts": dataclasses.asdict(self.counts),
            "certificate": None if self.certificate is None else self.certificate.to_dict(),
            "seconds": self.seconds,
            "compile_seconds": self.compile_seconds,
            "status": str(self.status),
            "history": self.history.to_dict(),
        }


def _on_host(leaf: Any) -> Any:
    return processes.whole(leaf) if isinstance(leaf, jax.Array) else leaf
