"""One run in progress: compiled chunks of steps, and what happens between them."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from . import checks, faults, placement, processes
from .bounds import Bounds
from .checkpoints import Checkpoints, Identity
from .errors import (
    CheckpointError,
    InvalidInputError,
    MostFWWarning,
    PeerError,
    StreamError,
    UserCodeError,
)
from .frank_wolfe import State, advance, advance_untuned, start
from .handover import continued, current_point, moved_to_host
from .interruption import Interruption
from .measures import measures, recorded
from .method import Method
from .objectives import Online
from .problem import Problem
from .progress import Bar
from .result import Counts, History, Record, Result, Status, worst_violation
from .stopping import Certified, Stop
from .streams import Feeder
from .trees import Point, replaced, zeros

CHUNK_SECONDS = 1.0  # budgets, signals and progress are looked at about this often
GROWTH = 8  # of one chunk to the next: a step may take far longer than those before it

# What the runtime raises when a function that it calls has failed: it depends on whether the call
# was waited for.
RUNTIME_ERRORS = (jax.errors.JaxRuntimeError, ValueError)

Callback = Callable[[Record], bool | None]


class Run:
    """One run: its state, what it has recorded, and where it is kept."""

    def __init__(
        self, problem: Problem, method: Method, seed: int | None, warm_start: Result | None
    ) -> None:
        if not (warm_start is None or isinstance(warm_start, Result)):
            raise InvalidInputError(
                f"warm_start is a {type(warm_start).__name__}: give the Result of an earlier solve."
            )
        if processes.count() > 1:
            _check_joint(problem, False)
        self.problem, self.chosen = problem, method
        began = time.perf_counter()
        self.method = placement.placed(method.bind(problem), problem.structure)
        if seed is None:
            seed = 0 if warm_start is None else warm_start.seed
        self.seed = checks.whole("seed", seed, 0, 2**32 - 1)
        self.seconds = 0.0
        self.history = History()
        self.bounds = Bounds(problem)
        with problem.precision():
            self.on_device = problem.on_device().to_measure()
            self.core = self.on_device.core()
            self.key = jax.random.PRNGKey(self.seed)
            self.scales = {c.name: c.rhs_norm() for c in problem.constraints}
            if warm_start is None:
                self.state = start(self.core, self.method)
            else:
                self.state = continued(warm_start, problem, self.method)
                self.history.extend(warm_start.history)
                self.seconds = warm_start.seconds
        # measuring the problem's units and making the state compile programs of their own
        self.compile_seconds = time.perf_counter() - began
        self.first = self.done = int(self.state.k)
        self.seconds_before = self.seconds
        # A record that only the end of a piece of the run brings is none of the undisturbed one.
        self.extra_at: int | None = None
        self.extra: Record | None = None
        self.interruption = Interruption()
        self.told_to_stop = False  # some process of several was
        self.checkpoints: Checkpoints | None = None
        self.black_box = False
        self.seen_first: Any = None  # measures where the run began: should it fail before a record
        self.feeder: Feeder | None = None
        self.fed, self.feed_end, self.feed = self.done + 1, self.done, None
        self.pace, self.steps = 0.0, 0  # of the last chunk: seconds a step, and how many

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: Any) -> None:
        if self.feeder is not None:
            self.feeder.close()

    def kept_in(self, folder: str | Path, every: float) -> Checkpoints:
        """The run's place on disk. Methods are compared as they were given: what they measure of
        a problem may differ in the last digit between machines."""
        identity = Identity.of(self.problem, self.chosen, self.seed, self.state)
        self.checkpoints = Checkpoints(folder, identity, checks.number("every", every, least=0))
        return self.checkpoints

    @property
    def interrupted(self) -> bool:
        """Whether to stop: of several processes only what all of them know of counts."""
        return self.told_to_stop or (processes.count() == 1 and self.interruption.requested)

    def _in_step(self, spent: float) -> tuple[float, bool]:
        """What depends on clocks and signals, the same for all processes: the seconds and whether
        a checkpoint is due are the first one's, and a signal to one is a signal to all."""
        due = self.checkpoints is not None and self.checkpoints.due
        found = processes.gathered(spent, due, self.interruption.requested)
        if len(found) > 1:
            self.told_to_stop = self.told_to_stop or bool(found[:, 2].any())
        return float(found[0, 0]), bool(found[0, 1])

    def execute(
        self,
        points: list[int],
        seconds: float | None,
        stop: Stop | None,
        callback: Callback | None,
        bar: Bar,
    ) -> Result:
        self._resume()
        limit = math.inf if seconds is None else self.seconds_before + seconds
        status = self._resumed_status(points, stop)
        if status is None and isinstance(self.problem.objective, Online):
            status = self._open(points[-1], limit)
        if status is not None:
            return self._finished(status)
        self._compile()
        for point in points:
            if point < self.done or self._recorded(point):
                continue
            status = self._until(point, limit, bar)
            self.extra_at = self.done if self.done < point else None
            record = self._record()
            self._bound(record, last=status is not None or point == points[-1])
            bar.show(record, self.bounds.known(record.objective, worst_violation(record)))
            if status is None:
                status = self._stopped(stop, record)
            if callback is not None and self._asked_to_stop(callback, record) and status is None:
                status = Status.CALLBACK
            if status is not None:
                return self._finished(self._concluded(status))
        return self._finished(self._concluded(Status.ITERATIONS))

    def _resume(self) -> None:
        """Takes up the run where its newest checkpoint stands."""
        if self.checkpoints is None:
            return
        template = jax.eval_shape(lambda: start(self.core, self.method))
        saved = self.checkpoints.load(template)
        if saved is None:
            return
        self.state, self.history, self.extra = saved.state, saved.history, saved.extra
        self.done = int(self.state.k)
        self.fed, self.feed_end = self.done + 1, self.done
        seen = [(record.iteration, worst_violation(record)) for record in self.history]
        try:
            self.seconds = float(saved.facts["seconds"])
            self.seconds_before = float(saved.facts["seconds_before"])
            self.bounds.restore(saved.facts["bounds"], seen)
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"a checkpoint in {str(self.checkpoints.folder)!r} was not written by mostfw "
                f"({error!r}): give another folder to begin anew."
            ) from error

    def _resumed_status(self, points: list[int], stop: Stop | None) -> Status | None:
        """Why there is nothing left to do, if the run had ended before."""
        if self.done == self.first:
            return None
        status = self._stopped(stop, self.history[-1]) if self._recorded(self.done) else None
        over = self.done > points[-1] or self._recorded(points[-1])
        return Status.ITERATIONS if status is None and over else status

    def _recorded(self, point: int) -> bool:
        """A checkpoint may stand between the last step to a record point and its record."""
        return bool(self.history) and self.history[-1].iteration == point

    def _save(self) -> None:
        if self.checkpoints is None:
            return
        facts = {
            "seconds": self.seconds,
            "seconds_before": self.seconds_before,
            "bounds": self.bounds.kept(),
        }
        extra = self.extra_at is not None and self._recorded(self.extra_at)
        self.checkpoints.save(self.state, self.history, facts, extra)

    def _finished(self, status: Status) -> Result:
        if not self._recorded(self.done):
            self.extra_at = self.done
            if self.extra is not None and self.extra.iteration == self.done:
                self.history.append(self.extra)
            else:
                self._record()
        self._save()
        if self.interrupted:  # perhaps since the last look at it
            status = Status.INTERRUPTED
        return self._result(status)

    def _open(self, last: int, limit: float) -> Status | None:
        """The first minibatches of an online objective; the status if there are none."""
        objective = self.problem.objective
        assert isinstance(objective, Online)
        # After a resumption the last minibatch once more, should a record be missing.
        back = int(self.done > self.first)
        first = self.done - back
        self.feeder = Feeder(objective, first, last - first, self.problem.dtype)
        status = self._refill(limit, back)
        if self.feed is not None and not self.history:
            objective.check_value(self.problem.structure, self._minibatch(self.fed))
        elif status is Status.INTERRUPTED and not self.history:
            raise KeyboardInterrupt  # nothing was seen that a result could be made of
        elif status is Status.SECONDS and not self.history:
            raise StreamError(
                "the stream of the Online objective gave no minibatch within the time budget."
            )
        return status

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

    def _asked_to_stop(self, callback: Callback, record: Record) -> bool:
        asked, raised = False, None
        if processes.first():
            try:
                asked = bool(callback(record))
            except Exception as error:
                raised = error
        asked, failed = map(bool, processes.gathered(asked, raised is not None)[0])
        if failed:
            error = raised or PeerError("it is the first process's")
            raise self._user_error("the callback", self.done, error) from error
        return asked

    def _concluded(self, status: Status) -> Status:
        """A budget that was used up may have been used in vain."""
        if status in (Status.ITERATIONS, Status.SECONDS, Status.STREAM_ENDED):
            self.bounds.conclude(self.core, self.method, self.state)
            if self.bounds.infeasible is not None:
                return Status.INFEASIBLE
        return status

    def _compile(self) -> None:
        self._in_step(0.0)
        if self.interrupted:  # before it began: not one step will be made
            return
        began = time.perf_counter()
        minibatch = self._minibatch(self.fed)
        self.black_box = faults.calls_host(self.core, self.method, minibatch)
        if processes.count() > 1:
            _check_joint(self.problem, self.black_box)
        self.state = self._advanced(self.done)  # compiles, and makes no step
        self.seen_first = self._measured()
        self.compile_seconds += time.perf_counter() - began

    def _advance(self, until: int) -> None:
        spare = _copied(self.state) if self.black_box else None  # the loop gives its buffers away
        try:
            self.state = self._advanced(until)
        except RUNTIME_ERRORS:
            if spare is None:
                raise
            self._advance_one_by_one(spare, until)
        self.done = int(self.state.k)

    def _advanced(self, until: int) -> State:
        fixed = (
            self.core,
            self.method,
            self.key,
            jnp.asarray(until, jnp.int32),
            self.feed,
            jnp.asarray(self.fed, jnp.int32),
        )
        loop = advance_untuned if self.method.direction == "applied" else advance
        return jax.block_until_ready(loop(fixed, self.state))

    def _advance_one_by_one(self, state: State, until: int) -> None:
        """A black box failed somewhere in a chunk: again from the chunk's beginning, to find out
        at which iteration; one that fails no more is forgiven."""
        first = int(state.k)
        self.state = state
        for k in range(first + 1, until + 1):
            before = _copied(self.state)
            try:
                self.state = self._advanced(k)
            except RUNTIME_ERRORS as error:
                self.state, self.done = before, k - 1
                moved = replaced(before, k=before.k + 1, x=current_point(self.core, before))
                term = faults.failing(
                    self.on_device, self.method, moved, self.key, self._minibatch(k)
                )
                raise self._user_error(term, k, error) from error
        warnings.warn(
            f"{self.problem.objective.label} failed once between iterations {first + 1} and "
            f"{until}, and not when these were made again: the run goes on.",
            MostFWWarning,
            2,
        )

    def _until(self, point: int, limit: float, bar: Bar) -> Status | None:
        """Steps to iteration `point`; the status if the run must end before or there."""
        while self.done < point:
            if self.interrupted:
                return Status.INTERRUPTED
            if self.seconds >= limit:
                return Status.SECONDS
            if self.feeder is not None and self.done >= self.feed_end:
                status = self._refill(limit)
                if status is not None:
                    return status
            began, before = time.perf_counter(), self.done
            self._advance(self._chunk_end(point, limit))
            spent, due = self._in_step(time.perf_counter() - began)
            self.seconds += spent
            if int(self.state.failed):
                self._fail()
            self.steps = max(1, self.done - before)
            self.pace = spent / self.steps
            bar.step(self.done, self.seconds)
            if due:
                self._save()
        return None

    def _chunk_end(self, point: int, limit: float) -> int:
        """As far as about CHUNK_SECONDS, the time budget and the minibatches at hand allow."""
        allowed = min(CHUNK_SECONDS, limit - self.seconds)
        if self.checkpoints is not None:
            allowed = min(allowed, max(self.checkpoints.every, CHUNK_SECONDS / 100))
        steps = min(int(allowed / self.pace), GROWTH * self.steps) if self.pace > 0 else 1
        end = min(point, self.done + max(1, steps))
        return end if self.feeder is None else min(end, self.feed_end)

    def _refill(self, limit: float, back: int = 0) -> Status | None:
        """More minibatches. Waiting for them is part of the time budget."""
        assert self.feeder is not None
        began, before = time.perf_counter(), self.seconds

        def may_wait() -> bool:
            self.seconds = before + time.perf_counter() - began
            return self.seconds < limit and not self.interruption.requested

        try:
            found = self.feeder.chunk(may_wait)
        except StreamError as error:
            error.result = self._so_far()
            raise
        if found is None:
            return Status.INTERRUPTED if self.interruption.requested else Status.SECONDS
        stack, real = found
        if real == 0:
            return Status.STREAM_ENDED
        self.feed = jax.tree.map(jnp.asarray, stack)
        self.fed, self.feed_end = self.done + 1 - back, self.done + real - back
        return None

    def _evaluate(self, state: State) -> tuple[Any, ...]:
        seen = None
        if isinstance(self.problem.objective, Online):
            last = max(0, self.done - self.fed)
            seen = jax.tree.map(lambda leaf: leaf[last], self.feed)
        return jax.block_until_ready(measures(self.on_device, state, seen))

    def _measured(self) -> tuple[Any, ...]:
        try:
            return self._evaluate(self.state)
        except RUNTIME_ERRORS as error:
            if not self.black_box:
                raise
            raise self._user_error(self.problem.objective.label, self.done, error) from error

    def _record(self) -> Record:
        seen = self._measured()
        value = float(seen[0])
        if not math.isfinite(value):
            self._fail_value(value)
        return self._noted(seen, self.done)

    def _noted(self, seen: tuple[Any, ...], iteration: int) -> Record:
        if self.history and self.history[-1].iteration == iteration:
            self.history.pop()
        counts = Counts.of(self.state)
        self.history.append(
            recorded(self.problem, self.scales, seen, iteration, self.seconds, counts)
        )
        return self.history[-1]

    def _result(self, status: Status, x: Point | None = None) -> Result:
        if x is None:
            x = moved_to_host(self.core, self.state)
        return Result(
            problem=self.problem,
            method=self.method,
            status=status,
            x=jax.tree.map(lambda leaf: leaf if processes.apart(leaf) else np.asarray(leaf), x),
            history=self.history,
            seconds=self.seconds,
            compile_seconds=self.compile_seconds,
            seed=self.seed,
            state=self.state,
            bounds=self.bounds,
        )

    def _so_far(self) -> Result | None:
        """The run up to the iteration before a failure; on disk, too, where it is kept."""
        self._save()
        try:
            seen = self._evaluate(self.state)
            if math.isfinite(float(seen[0])):
                self._noted(seen, self.done)
        except Exception:  # what failed was the evaluation, or there is nothing to evaluate on
            pass
        return self._failed(Status.FAILED)

    def _failed(self, status: Status, x: Point | None = None) -> Result | None:
        """The result on an error: None only where not even the start could be evaluated."""
        seen = self.seen_first
        if not self.history and seen is not None and math.isfinite(float(seen[0])):
            self.history.append(
                recorded(self.problem, self.scales, seen, self.first, 0.0, Counts())
            )
        return self._result(status, x) if self.history else None

    def _user_error(self, term: str, iteration: int, error: Exception) -> UserCodeError:
        return faults.user_error(term, iteration, error, self._so_far())

    def _fail(self) -> None:
        """The loop stopped at x_k because its direction is not finite: say which term broke."""
        k = int(self.state.failed)
        term = faults.culprit(self.on_device, self.method, self.state, self.key, self._minibatch(k))
        # x_k is where the iteration before had come to; its move is made, and no other is pending.
        atom = zeros(self.state.atom)
        seen = self._evaluate(replaced(self.state, atom=atom, eta=jnp.zeros_like(self.state.eta)))
        if math.isfinite(float(seen[0])):
            self._noted(seen, k - 1)
        raise faults.not_finite(term, k, self._failed(Status.NON_FINITE, self.state.x))

    def _fail_value(self, value: float) -> None:
        """Directions were finite, but the objective is not at x_{k+1}, where the next step is."""
        result = self._failed(Status.NON_FINITE, self.state.x)
        raise faults.value_not_finite(self.problem.objective.label, value, self.done + 1, result)

    def _minibatch(self, k: int) -> Any:
        return jax.tree.map(lambda leaf: leaf[k - self.fed], self.feed)


def _copied(state: State) -> State:
    return jax.tree.map(jnp.copy, state)


def _check_joint(problem: Problem, black_box: bool) -> None:
    """Refuses what each process would do on its own, and not in step with the others."""
    if isinstance(problem.objective, Online) or black_box:
        what = "reads a stream" if isinstance(problem.objective, Online) else "calls Python"
        raise InvalidInputError(
            f"{problem.objective.label} {what} while the run goes on, which several processes "
            "would not do in step: give data or a JAX function, or run it in one process."
        )
