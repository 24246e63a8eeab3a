"""`solve`: one method on one problem. What it does is in `running`."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from pathlib import Path

import numpy as np
from jax.sharding import Mesh

from . import checks, memory, placement, processes, resources
from . import methods as presets
from .bounds import Bounds
from .checkpoints import EVERY
from .errors import InvalidInputError
from .interruption import listening
from .joint_bounds import JointBounds
from .method import Method, has_table
from .objectives import FiniteSum, Sampled
from .oracles import ZerothOrder
from .problem import Problem
from .progress import Bar
from .result import Record, Result
from .running import Run
from .schedules import LAST_ITERATION
from .stopping import Certified, Stop, check_stop


def solve(
    problem: Problem,
    method: Method | str | None = None,
    *,
    iterations: int = 10_000,
    seconds: float | None = None,
    seed: int | None = None,
    stop: Stop | None = None,
    certify: bool | None = None,
    record: int | Iterable[int] | None = None,
    callback: Callable[[Record], bool | None] | None = None,
    progress: bool | None = None,
    warm_start: Result | None = None,
    checkpoint: str | Path | None = None,
    every: float = EVERY,
    mesh: Mesh | int | None = None,
) -> Result:
    """Runs `method` on `problem` and returns the last point with its measures.

    - `method`: a composition, a registry name, or None: without constraints `most-fw`, with
      sampled ones `most-al+` (`most-fw+` where they have too many rows for a table), with whole
      ones `most-al`, or `cgal` if nothing of the objective is sampled.
    - `iterations`, `seconds`: budgets; of seconds only the steps count, not compiling or
      evaluating. Reaching one is a status, not an error.
    - `stop`: a `Tolerance` or `Certified` gap, looked at where records are made.
    - `certify`: bounds on the optimum, for convex objectives. None: where records are made, in at
      most 5% of the run's seconds (and outside of them), but not for points of a gigabyte; True:
      for those too; False: none. An infeasible problem ends the run with `Status.INFEASIBLE`.
    - `record`: iterations to evaluate at: None for geometric spacing, a number for every so many,
      or the iterations themselves. The last one is always recorded.
    - `callback(record)`: sees iteration, measures and counts; returning True stops the run.
    - `progress`: a bar on standard error; None shows it on a terminal only.
    - `warm_start`: continue an earlier result: its point, iteration count, tracker and seed. On
      another problem, multipliers stay with the constraints that it has, too, and a point outside
      of its domain is drawn in by the steps.
    - `checkpoint`: a folder in which the run is kept, written `every` so many seconds and at the
      end. If there is one of this run already, it is continued, bit for bit, and the budgets are
      those of both together. One of another problem, method or seed is refused.
    - `mesh`: the devices over which matrices are spread by rows: a `jax.sharding.Mesh` with the
      one axis "rows", or how many of the devices. Their number divides the rows of a point. They
      may be of several processes, each of which calls `solve` (docs/scale.md).

    Ctrl-C or SIGTERM ends the run at the next good moment (about a second at most, once compiled)
    with `Status.INTERRUPTED` and all that a result has; a second one raises KeyboardInterrupt.

    The same seed gives the same bits on a CPU, whatever the record points and interruptions.

    >>> import numpy as np, mostfw as fw
    >>> problem = fw.Problem(
    ...     fw.objectives.Linear(np.diag([2.0, 1.0, 3.0])),
    ...     fw.domains.Spectrahedron(3, trace=1.0, equality=True),
    ...     optimum=1.0,
    ... )
    >>> result = fw.solve(problem, "sfw", iterations=50, seed=0)
    >>> round(result.objective, 6), result.counts.lmo
    (1.0, 50)
    """
    method = chosen(problem, method)
    check_budgets(iterations, seconds)
    check_stop(problem, stop, certify)
    check_callback(callback)
    if certify is not None:
        checks.flag("certify", certify)
    resources.keeper.look()
    shares_work = _shares_work(problem, method)
    kept_in = None if checkpoint is None else str(checkpoint)
    with (
        placement.on(placement.mesh_of(mesh, problem.structure, shares_work)),
        processes.noticing_losses(kept_in),
    ):
        memory.require(problem, method, certify=bool(certify) or isinstance(stop, Certified))
        run = Run(problem, method, seed, warm_start)
        if run.first + iterations > LAST_ITERATION:
            raise InvalidInputError(
                f"warm_start has made {run.first} iterations, and {iterations} more are beyond "
                f"{LAST_ITERATION}: make fewer."
            )
        run.bounds = _bounds(problem, warm_start, certify, stop)
        points = record_points(record, run.first, run.first + iterations)
        bar = Bar(run.first, run.first + iterations, progress if processes.first() else False)
        kept = None if checkpoint is None else run.kept_in(checkpoint, every)
        with problem.precision(), listening() as interruption, kept or nullcontext(), run, bar:
            run.interruption = interruption
            return run.execute(points, seconds, stop, callback, bar)


def chosen(problem: Problem, method: Method | str | None) -> Method:
    if not isinstance(problem, Problem):
        raise InvalidInputError(
            f"solve needs a mostfw.Problem, got a {type(problem).__name__}: build one from an "
            "objective, a domain and constraints, or with mostfw.problems."
        )
    if method is None:
        return _default(problem)
    if isinstance(method, str):
        return presets.get(method)
    if not isinstance(method, Method):
        raise InvalidInputError(
            f"the method is a {type(method).__name__}: give a name, a mostfw.Method such as "
            "mostfw.methods.most_fw(), or None."
        )
    return method


def _default(problem: Problem) -> Method:
    """What the measurements choose (docs/accuracy.md)."""
    if not problem.constraints:
        return presets.most_fw()
    if sampled := problem.sampled_constraints:
        tabled = all(constraint.whole or has_table(constraint) for constraint in sampled)
        return presets.most_al_plus() if tabled else presets.most_fw_plus()
    # Of exact gradients there is the method that is proved, and that asks more of its LMO.
    return presets.cgal() if problem.objective.whole else presets.most_al()


def _shares_work(problem: Problem, method: Method) -> bool:
    """Whether devices that all have the whole of a point can share a step: the draws of an
    objective given by a function, or the directions along which values are taken."""
    drawn = isinstance(problem.objective, FiniteSum | Sampled)
    return drawn or isinstance(method.oracle, ZerothOrder)


def check_budgets(iterations: int, seconds: float | None) -> None:
    checks.whole("iterations", iterations, 1, LAST_ITERATION)
    if seconds is not None:
        checks.number("seconds", seconds, above=0)


def check_callback(callback: object) -> None:
    if callback is not None and not callable(callback):
        raise InvalidInputError(
            f"callback is a {type(callback).__name__}: give a function of the record, or None."
        )


def _bounds(
    problem: Problem, warm_start: Result | None, certify: bool | None, stop: Stop | None
) -> Bounds:
    eager = isinstance(stop, Certified)  # the run waits for them
    if eager:
        certify = True
    if processes.count() > 1:
        return JointBounds(problem, certify, eager)
    if warm_start is not None and warm_start.problem is problem:
        return warm_start.bounds.continued(certify, eager)
    return Bounds(problem, certify, eager)


def record_points(record: int | Iterable[int] | None, first: int, last: int) -> list[int]:
    """The iterations to evaluate at, in (first, last], the last one included."""
    if record is None:
        per_decade = 12
        count = max(2, math.ceil(per_decade * math.log10(max(last, 10))) + 1)
        points = np.unique(np.geomspace(1, last, count).round().astype(int)).tolist()
    elif isinstance(record, int | np.integer):
        checks.whole("record", record, 1)
        points = list(range(first + record, last + 1, record))
    else:
        try:
            points = sorted({operator.index(point) for point in record})
        except TypeError:
            raise InvalidInputError(
                f"record is {record!r}: give None, a spacing, or the iterations themselves."
            ) from None
    return [p for p in points if first < p < last] + [last]
