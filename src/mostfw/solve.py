"""The one host loop: compiled chunks between record points; budgets, stopping, callbacks."""

from __future__ import annotations

import math
import operator
import time
from collections.abc import Callable, Iterable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from . import checks
from . import methods as presets
from .atoms import RankOneSymmetric
from .bounds import Bounds
from .errors import InvalidInputError, NonFiniteError
from .frank_wolfe import State, advance, current, direction, numbers_of, start
from .measures import measures, recorded
from .method import Method
from .objectives import Online
from .problem import Problem
from .progress import Bar
from .result import Counts, History, Record, Result, Status, worst_violation
from .shuffling import Turn
from .sight import Estimate, Sight
from .stopping import Certified, Stop, check_stop
from .streams import Feeder
from .trees import Point, replaced

SLAB_BYTES = 2**30
CHUNK_SECONDS = 1.0  # budgets and progress are looked at about this often


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
) -> Result:
    """Runs `method` on `problem` and returns the last point with its measures.

    - `method`: a composition, a registry name, or None for `most-al` (`most-al+` with
      sampled constraints, `most-fw` with none).
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
    - `warm_start`: continue an earlier result: its point, iteration count, tracker and seed.

    The same seed gives the same bits on a CPU, whatever the record points.

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
    method = _chosen(problem, method)
    _check_budgets(iterations, seconds)
    check_stop(problem, stop, certify)
    run = _Run(problem, method, seed, warm_start)
    run.bounds = _bounds(problem, warm_start, certify, stop)
    first = run.done
    points = _record_points(record, first, first + iterations)
    bar = Bar(first, first + iterations, progress)
    with problem.precision(), bar, run:
        return run.execute(points, seconds, stop, callback, bar)


def _chosen(problem: Problem, method: Method | str | None) -> Method:
    if not isinstance(problem, Problem):
        raise InvalidInputError(
            f"solve needs a mostfw.Problem, got a {type(problem).__name__}: build one from an "
            "objective, a domain and constraints, or with mostfw.problems."
        )
    if method is None:
        if not problem.constraints:
            return presets.most_fw()
        return presets.most_al_plus() if problem.sampled_constraints else presets.most_al()
    if isinstance(method, str):
        return presets.get(method)
    if not isinstance(method, Method):
        raise InvalidInputError(
            f"the method is a {type(method).__name__}: give a name, a mostfw.Method such as "
            "mostfw.methods.most_fw(), or None."
        )
    return method


def _check_budgets(iterations: int, seconds: float | None) -> None:
    checks.whole("iterations", iterations, 1, 2**31 - 2)
    if seconds is not None:
        checks.number("seconds", seconds, above=0)


def _bounds(
    problem: Problem, warm_start: Result | None, certify: bool | None, stop: Stop | None
) -> Bounds:
    eager = isinstance(stop, Certified)  # the run waits for them
    if eager:
        certify = True
    if warm_start is not None and warm_start.problem is problem:
        return warm_start.bounds.continued(certify, eager)
    return Bounds(problem, certify, eager)


def _record_points(record: int | Iterable[int] | None, first: int, last: int) -> list[int]:
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


class _Run:
    """One run in progress."""

    def __init__(
        self, problem: Problem, method: Method, seed: int | None, warm_start: Result | None
    ) -> None:
        if not (warm_start is None or isinstance(warm_start, Result)):
            raise InvalidInputError(
                f"warm_start is a {type(warm_start).__name__}: give the Result of an earlier solve."
            )
        self.problem, self.method = problem, method.bind(problem)
        if seed is None:
            seed = 0 if warm_start is None else warm_start.seed
        self.seed = checks.whole("seed", seed, 0, 2**32 - 1)
        self.seconds, self.compile_seconds = 0.0, 0.0
        self.history = History()
        self.bounds = Bounds(problem)
        with problem.precision():
            self.on_device = problem.on_device()
            self.core = self.on_device.core()
            self.key = jax.random.PRNGKey(self.seed)
            self.scales = {c.name: c.rhs_norm() for c in problem.constraints}
            if warm_start is None:
                self.state = start(self.core, self.method)
            else:
                self.state = _continued(warm_start, problem, self.method)
                self.history.extend(warm_start.history)
                self.seconds = warm_start.seconds
        self.done = int(self.state.k)
        self.feeder: Feeder | None = None
        self.fed, self.feed_end, self.feed = self.done + 1, self.done, None
        self.pace = 0.0  # seconds a step, as last measured

    def __enter__(self) -> _Run:
        return self

    def __exit__(self, *_: Any) -> None:
        if self.feeder is not None:
            self.feeder.close()

    def execute(
        self,
        points: list[int],
        seconds: float | None,
        stop: Stop | None,
        callback: Callable[[Record], bool | None] | None,
        bar: Bar,
    ) -> Result:
        if isinstance(self.problem.objective, Online):
            most = points[-1] - self.done
            self.feeder = Feeder(self.problem.objective, self.done, most, self.problem.dtype)
            if not self._refill():  # continued after the stream's end
                return self._result(Status.STREAM_ENDED)
            self.problem.objective.check_value(self.problem.structure, self._minibatch(self.fed))
        self._compile()
        limit = math.inf if seconds is None else self.seconds + seconds
        for point in points:
            status = self._until(point, limit, bar)
            record = self._record()
            self._bound(record, last=status is not None or point == points[-1])
            bar.show(record, self.bounds.known(record.objective, worst_violation(record)))
            if status is None:
                status = self._stopped(stop, record)
            if callback is not None and callback(record) and status is None:
                status = Status.CALLBACK
            if status is not None:
                return self._result(self._concluded(status))
        return self._result(self._concluded(Status.ITERATIONS))

    def _bound(self, record: Record, last: bool) -> None:
        compiled = self.bounds.compile_seconds
        self.bounds.observe(
            self.core, self.method, self.state, self.seconds, worst_violation(record), last
        )
        self.compile_seconds += self.bounds.compile_seconds - compiled

    def _stopped(self, stop: Stop | None, record: Record) -> Status | None:
        if self.bounds.infeasible is not None:
            return Status.INFEASIBLE
        if isinstance(stop, Certified):
            known = self.bounds.known(record.objective, worst_violation(record))
            return Status.CERTIFIED if stop.reached(record, known) else None
        return Status.TOLERANCE if stop is not None and stop.reached(record) else None

    def _concluded(self, status: Status) -> Status:
        """A budget that was used up may have been used in vain."""
        if status in (Status.ITERATIONS, Status.SECONDS, Status.STREAM_ENDED):
            self.bounds.conclude(self.core, self.method, self.state)
            if self.bounds.infeasible is not None:
                return Status.INFEASIBLE
        return status

    def _compile(self) -> None:
        began = time.perf_counter()
        self._advance(self.done)  # compiles, and makes no step
        self._evaluate()
        self.compile_seconds = time.perf_counter() - began

    def _advance(self, until: int) -> None:
        fixed = (
            self.core,
            self.method,
            self.key,
            jnp.asarray(until, jnp.int32),
            self.feed,
            jnp.asarray(self.fed, jnp.int32),
        )
        self.state = jax.block_until_ready(advance(fixed, self.state))
        self.done = int(self.state.k)

    def _until(self, point: int, limit: float, bar: Bar) -> Status | None:
        """Steps to iteration `point`; the status if the run must end before or there."""
        while self.done < point:
            if self.seconds >= limit:
                return Status.SECONDS
            if self.feeder is not None and self.done >= self.feed_end and not self._refill():
                return Status.STREAM_ENDED
            began, before = time.perf_counter(), self.done
            self._advance(self._chunk_end(point, limit))
            spent = time.perf_counter() - began
            self.seconds += spent
            if int(self.state.failed):
                self._fail()
            self.pace = spent / max(1, self.done - before)
            bar.step(self.done, self.seconds)
        return None

    def _chunk_end(self, point: int, limit: float) -> int:
        """As far as about CHUNK_SECONDS, the time budget and the minibatches at hand allow."""
        allowed = min(CHUNK_SECONDS, limit - self.seconds)
        steps = max(1, int(allowed / self.pace)) if self.pace > 0 else 16
        end = min(point, self.done + steps)
        return end if self.feeder is None else min(end, self.feed_end)

    def _refill(self) -> bool:
        assert self.feeder is not None
        stack, real = self.feeder.chunk()
        if real == 0:
            return False
        self.feed = jax.tree.map(jnp.asarray, stack)
        self.fed, self.feed_end = self.done + 1, self.done + real
        return True

    def _evaluate(self) -> tuple[Any, ...]:
        seen = None
        if isinstance(self.problem.objective, Online):
            last = max(0, self.done - self.fed)
            seen = jax.tree.map(lambda leaf: leaf[last], self.feed)
        return measures(self.on_device, self.state, seen)

    def _record(self) -> Record:
        seen = self._evaluate()
        value = float(seen[0])
        if not math.isfinite(value):
            self._fail_value(value)
        if self.history and self.history[-1].iteration == self.done:
            self.history.pop()
        counts = Counts.of(self.state)
        self.history.append(
            recorded(self.problem, self.scales, seen, self.done, self.seconds, counts)
        )
        return self.history[-1]

    def _result(self, status: Status, x: Point | None = None) -> Result:
        if x is None:
            x = moved_to_host(self.core, self.state)
        return Result(
            problem=self.problem,
            method=self.method,
            status=status,
            x=jax.tree.map(np.asarray, x),
            history=self.history,
            seconds=self.seconds,
            compile_seconds=self.compile_seconds,
            seed=self.seed,
            state=self.state,
            bounds=self.bounds,
        )

    def _fail(self) -> None:
        """The loop stopped at x_k because its direction is not finite: say which term broke."""
        k = int(self.state.failed)
        culprit = _culprit(self.on_device, self.method, self.state, self.key, self._minibatch(k))
        result = self._result(Status.NON_FINITE, self.state.x) if self.history else None
        raise NonFiniteError(
            f"{culprit} is NaN or infinite at iteration {k}. Check its function and data there; "
            "the run so far is on this error as .result.",
            iteration=k,
            result=result,
        )

    def _fail_value(self, value: float) -> None:
        """Directions were finite, but the objective is not at x_{k+1}, where the next step is."""
        result = self._result(Status.NON_FINITE, self.state.x) if self.history else None
        raise NonFiniteError(
            f"the value of {self.problem.objective.label} is {value} at the point of iteration "
            f"{self.done + 1}. Check its function and data there; the run so far is on "
            "this error as .result.",
            iteration=self.done + 1,
            result=result,
        )

    def _minibatch(self, k: int) -> Any:
        return jax.tree.map(lambda leaf: leaf[k - self.fed], self.feed)


_current = eqx.filter_jit(current)


def moved_to_host(problem: Problem, state: State) -> Point:
    """x_{k+1} as NumPy arrays; a large matrix slab by slab, for the device may have no room for a
    second one."""
    x, atom = state.x, state.atom
    if not isinstance(atom, RankOneSymmetric) or x.nbytes < SLAB_BYTES:
        return jax.tree.map(np.asarray, _current(problem, state))
    size = max(1, SLAB_BYTES * x.shape[0] // x.nbytes)
    made = np.empty(x.shape, x.dtype)
    for first in range(0, x.shape[0], size):
        rows = slice(first, first + size)
        made[rows] = np.asarray(_moved_rows(x[rows], atom, atom.vector[rows], state.eta))
    return made


@jax.jit
def _moved_rows(rows: jax.Array, atom: RankOneSymmetric, ends: jax.Array, eta: Any) -> jax.Array:
    return atom.move_rows(rows, ends, eta)


def _continued(result: Result, problem: Problem, method: Method) -> State:
    """A copy of an earlier state (the loop gives its buffers away), checked to fit."""
    if result.method.name != method.name:
        raise InvalidInputError(
            f"warm_start comes from method {result.method.name!r}, whose tracker means something "
            f"else to method {method.name!r}: continue with the same method."
        )
    fresh = jax.eval_shape(lambda: start(problem.on_device().core(), method))
    shapes = lambda tree: jax.tree.map(lambda a: (a.shape, str(a.dtype)), tree)  # noqa: E731
    if jax.tree.structure(fresh) != jax.tree.structure(result.state) or (
        shapes(fresh) != shapes(result.state)
    ):
        raise InvalidInputError(
            f"warm_start comes from method {result.method.name!r} on another kind of problem: its "
            f"state does not fit method {method.name!r} here. Use the same method and shapes."
        )
    state = jax.tree.map(jnp.array, result.state)
    if result.problem is problem:
        return state
    # another problem's constraints: what was carried along is not theirs
    exact = method.exact_constraints(problem.on_device())
    return replaced(state, memos=tuple(c.memo(state.x, state.atom) for c in exact))


def _culprit(problem: Problem, method: Method, state: State, key: Any, feed: Any) -> str:
    """The name of the first term that is not finite at x_k under the sample of iteration k."""
    k = state.k
    sample_key, _ = jax.random.split(jax.random.fold_in(key, k))
    numbers = numbers_of(method, k, state)
    turn = Turn(k, key)
    sight = Sight.open(method.terms(problem), state.x, numbers, sample_key, feed, turn)
    for index, term in enumerate(sight.terms):
        alone = Sight((term,), sight.x, sight.numbers, sight.key, (sight.draws[index],))
        if not _finite(alone.add(Estimate.zero(problem.structure), 1.0).y):
            return term.label
    for constraint in method.exact_constraints(problem):
        zero = Estimate.zero(problem.structure).y
        if not _finite(constraint.add_whole(zero, 1.0, state.x, numbers)):
            return constraint.label
    s = direction(problem, method, state.x, state.estimate.y, numbers)
    return "the LMO of the domain" if _finite(s) else "the tracked gradient"


def _finite(tree: Any) -> bool:
    return all(bool(jnp.all(jnp.isfinite(leaf))) for leaf in jax.tree.leaves(tree))
