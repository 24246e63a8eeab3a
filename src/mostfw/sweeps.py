"""Many runs of one problem in one compiled program: other numbers, other seeds, side by side."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from . import checks, faults, memory
from .bounds import Bounds
from .errors import InvalidInputError, NonFiniteError, UserCodeError
from .frank_wolfe import State, start, step
from .handover import current_point
from .interruption import Interruption, listening
from .measures import measures, recorded
from .method import Method
from .objectives import Online
from .problem import Problem
from .progress import Bar
from .result import Counts, History, Record, Result, Status
from .running import CHUNK_SECONDS, GROWTH
from .solving import check_budgets, check_callback, chosen, record_points
from .trees import replaced


def sweep(
    problem: Problem,
    methods: Sequence[Method | str],
    *,
    seeds: int | Sequence[int],
    iterations: int,
    record: int | Iterable[int] | None = None,
    progress: bool | None = None,
    callback: Callable[[list[Record | None]], bool | None] | None = None,
) -> list[Result]:
    """Runs `methods[i]` with `seeds[i]`, all members at once, and returns one result for each.

    - `methods`: one for each member. They may differ in numbers only (mu_c, tau_0, exponents),
      not in their parts.
    - `seeds`: one for each member, or one number for all.
    - `iterations`, `record`, `progress`: as in `solve`; the bar shows the first member that runs.
    - `callback(records)`: sees at each record point a list with the record of every member, None
      for one that has ended; returning True stops the sweep.

    Ctrl-C or SIGTERM ends all members at the next good moment with `Status.INTERRUPTED`.

    Member i draws what `solve(problem, methods[i], seed=seeds[i])` draws and takes the same steps
    up to rounding, for a sweep is a program of its own. Ties of the LMO magnify rounding: an exact
    one may part the two at once, near ones after some tens of steps, as with two single runs whose
    mu_c differ in the last digit. The same sweep gives the same bits on a CPU.

    A result's `seconds` and `compile_seconds`, and the seconds of its records, are those of the
    whole sweep divided by the number of members. A member that meets NaN or infinity ends with
    `Status.NON_FINITE`, the history so far (empty before the first record point) and the point
    where it happened; the others go on undisturbed. If every member ends so, NonFiniteError is
    raised.

    What pays is the work that members share: small problems, whose steps are mostly overhead, and
    accelerators. Memory is that of all members together, and an LMO call lasts as long as that of
    its slowest member. Trimming saves no time here, for side by side both branches run, but the
    skipped calls are counted rightly.

    >>> import numpy as np, mostfw as fw
    >>> limit = fw.constraints.Affine(np.eye(2), fw.sets.Box(0.0, 0.6), name="limit")
    >>> objective = fw.objectives.Linear(np.array([3.0, 1.0]))
    >>> problem = fw.Problem(objective, fw.domains.Simplex(2), [limit])
    >>> methods = [fw.methods.hfw(mu_c) for mu_c in (0.1, 10.0)]
    >>> for result in fw.sweep(problem, methods, seeds=0, iterations=300):
    ...     print(f"{result.objective:.1f} {result.violation['limit']:.1f}")
    1.8 0.0
    1.0 0.4
    """
    check_budgets(iterations, None)
    check_callback(callback)
    began = time.perf_counter()
    members, numbers = _members(problem, methods, seeds)
    points = record_points(record, 0, iterations)
    bar = Bar(0, iterations, progress)
    run = _Sweep(problem, members, numbers)
    run.compile_seconds = (time.perf_counter() - began) / len(members)
    with problem.precision(), listening() as run.interruption, bar:
        return run.execute(points, callback, bar)


def _members(
    problem: Problem, methods: Sequence[Method | str], seeds: int | Sequence[int]
) -> tuple[list[Method], list[int]]:
    """The bound methods and their seeds, after checking that one program can run them all."""
    if not _listed(methods):
        raise InvalidInputError(
            "methods is one method, or none: give a sequence with one for each member, such as "
            "[method] * 5, or use mostfw.solve."
        )
    own = [chosen(problem, method) for method in methods]
    for method in own[:1]:  # binding measures the problem, which takes memory already
        memory.require(problem, method, members=len(own))
    bound = [method.bind(problem) for method in own]
    if not bound:
        raise InvalidInputError("methods is empty: give one method for each member of the sweep.")
    if isinstance(problem.objective, Online):
        raise InvalidInputError(
            f"{problem.objective.label} reads a stream, of which every minibatch comes only once: "
            "a sweep cannot share it. Use mostfw.solve for each run."
        )
    for index, method in enumerate(bound):
        where = _difference(bound[0], method)
        if where is not None:
            raise InvalidInputError(
                f"methods[0] ({bound[0].name!r}) and methods[{index}] ({method.name!r}) differ in "
                f"their {where} by more than numbers, and a sweep is one compiled program: sweep "
                "them apart."
            )
    if isinstance(seeds, int | np.integer):
        seeds = [int(seeds)] * len(bound)
    if not _listed(seeds):
        raise InvalidInputError(f"seeds is {seeds!r}: give a whole number for each member.")
    if len(seeds) != len(bound):
        raise InvalidInputError(
            f"seeds has {len(seeds)} numbers for {len(bound)} methods: give one for each, or one "
            "number for all."
        )
    return bound, [checks.whole("seed", seed, 0, 2**32 - 1) for seed in seeds]


def _listed(given: Any) -> bool:
    """Whether something holds one thing for each member; an array of no axis holds none."""
    if isinstance(given, np.ndarray):
        return given.ndim > 0
    return isinstance(given, Sequence) and not isinstance(given, str)


def _asked(callback: Callable[[list[Record | None]], Any], records: Any, point: int) -> bool:
    try:
        return bool(callback(records))
    except Exception as error:
        words = faults.words_of(error)
        raise UserCodeError(f"the callback failed at iteration {point}: {words}.", point) from error


def _difference(one: Method, other: Method) -> str | None:
    """The first field in which two methods differ by more than the values of arrays."""
    for field in dataclasses.fields(Method):
        first, second = getattr(one, field.name), getattr(other, field.name)
        if jax.tree.structure(first) != jax.tree.structure(second):
            return field.name
        for a, b in zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True):
            if eqx.is_array(a) and eqx.is_array(b):
                alike = (a.shape, a.dtype) == (b.shape, b.dtype)
            else:
                alike = type(a) is type(b) and a == b
            if not alike:
                return field.name
    return None


class _Sweep:
    """One sweep in progress.

    `state` holds all members: each leaf has a leading axis, but for the iteration `k`, which is one
    number. So what depends on k only (epochs, batch sizes) stays a branch or a loop that is really
    taken or not; batched, it would become a choice between two versions of every array.
    """

    def __init__(self, problem: Problem, methods: list[Method], seeds: list[int]) -> None:
        self.problem, self.methods, self.seeds = problem, methods, seeds
        self.histories = [History() for _ in methods]
        self.results: list[Result | None] = [None] * len(methods)  # of the members that ended
        self.scales = {c.name: c.rhs_norm() for c in problem.constraints}
        self.done, self.pace, self.steps = 0, 0.0, 0
        self.interruption = Interruption()
        self.seconds, self.compile_seconds = 0.0, 0.0  # a member's share
        with problem.precision():
            self.on_device = problem.on_device().to_measure()
            self.core = self.on_device.core()
            self.stacked = jax.tree.map(_stack, *methods)
            self.keys = jnp.stack([jax.random.PRNGKey(seed) for seed in seeds])
            first = start(self.core, methods[0])
            copies = jax.tree.map(lambda a: jnp.repeat(a[None], len(methods), axis=0), first)
            self.state: State = replaced(copies, k=first.k)

    def execute(
        self,
        points: list[int],
        callback: Callable[[list[Record | None]], bool | None] | None,
        bar: Bar,
    ) -> list[Result]:
        self._compile()
        status = Status.ITERATIONS
        for point in points:
            interrupted = self._until(point, bar)
            records = self._record()
            bar.show(next(record for record in records if record is not None))
            asked = callback is not None and _asked(callback, records, point)
            if interrupted or asked:
                status = Status.INTERRUPTED if interrupted else Status.CALLBACK
                break
        return [
            self._result(index, status) if ended is None else ended
            for index, ended in enumerate(self.results)
        ]

    def _compile(self) -> None:
        began = time.perf_counter()
        self._advance(0)  # compiles, and makes no step
        jax.block_until_ready(_measures_of_all(self.on_device, self.state))
        self.compile_seconds += (time.perf_counter() - began) / len(self.methods)

    def _advance(self, until: int) -> None:
        fixed = (self.core, self.stacked, self.keys, jnp.asarray(until, jnp.int32))
        self.state = jax.block_until_ready(_advance_all(fixed, self.state))
        self.done = int(self.state.k)

    def _until(self, point: int, bar: Bar) -> bool:
        """Steps to iteration `point`; whether the user asked to stop before."""
        while self.done < point:
            if self.interruption.requested:
                return True
            steps = min(int(CHUNK_SECONDS / self.pace), GROWTH * self.steps) if self.pace > 0 else 1
            began, before = time.perf_counter(), self.done
            self._advance(min(point, self.done + max(1, steps)))
            spent = time.perf_counter() - began
            self.seconds += spent / len(self.methods)
            self.steps = max(1, self.done - before)
            self.pace = spent / self.steps
            failed = np.flatnonzero(np.asarray(self.state.failed)).tolist()
            if failed:
                self._end(failed)
            bar.step(self.done, self.seconds * len(self.methods))
        return False

    def _record(self) -> list[Record | None]:
        """The records of this iteration, None for members that have ended, here or before."""
        objectives, violations, metrics = jax.tree.map(
            np.asarray, _measures_of_all(self.on_device, self.state)
        )
        ending = [i for i in self._running() if not math.isfinite(objectives[i])]
        if ending:
            self._end(ending)
        counters = jax.tree.map(np.asarray, _without_points(self.state))
        records: list[Record | None] = [None] * len(self.methods)
        for index in self._running():
            found = jax.tree.map(lambda a: a[index], (objectives, violations, metrics))  # noqa: B023
            counts = Counts.of(_member(counters, index))
            record = recorded(self.problem, self.scales, found, self.done, self.seconds, counts)
            self.histories[index].append(record)
            records[index] = record
        return records

    def _running(self) -> list[int]:
        return [index for index, ended in enumerate(self.results) if ended is None]

    def _end(self, failed: list[int]) -> None:
        """Ends these members, whose places then are taken by copies of one that runs: NaN would
        keep an iterative LMO at work until its limit, and everyone waits for the slowest."""
        ending = [index for index in failed if self.results[index] is None]
        for index in ending:
            self.results[index] = self._result(index, Status.NON_FINITE)
        running = self._running()
        if not running:
            self._raise(ending[-1])
        for index in failed:
            places = jnp.asarray(running[0]), jnp.asarray(index)
            members = (self.stacked, self.keys, replaced(self.state, k=None))
            self.stacked, self.keys, copied = _copied(places, members)
            self.state = replaced(copied, k=self.state.k)

    def _raise(self, index: int) -> None:
        """No member is left: says what broke the one that came farthest."""
        result = self.results[index]
        assert result is not None
        iteration = int(result.state.failed)
        culprit = f"the value of {self.problem.objective.label}"
        if iteration:
            key = jax.random.PRNGKey(result.seed)
            culprit = faults.culprit(self.on_device, result.method, result.state, key, None)
        else:  # directions were finite, but not the value at the point where the next step is
            iteration = self.done + 1
        raise NonFiniteError(
            f"every member of the sweep met NaN or infinity, methods[{index}] "
            f"({result.method.name!r}) as the last: {culprit} is NaN or infinite at iteration "
            f"{iteration}. Check its function and data there, or the numbers of the methods; that "
            "member's run so far is on this error as .result.",
            iteration=iteration,
            result=result if result.history else None,
        )

    def _result(self, index: int, status: Status) -> Result:
        state = _member(self.state, index)
        x = state.x if status is Status.NON_FINITE else current_point(self.core, state)
        return Result(
            problem=self.problem,
            method=self.methods[index],
            status=status,
            x=jax.tree.map(np.asarray, x),
            history=self.histories[index],
            seconds=self.seconds,
            compile_seconds=self.compile_seconds,
            seed=self.seeds[index],
            state=state,
            bounds=Bounds(self.problem),
        )


@eqx.filter_jit(donate="all-except-first")
def _advance_all(fixed: tuple[Problem, Method, Any, Any], state: State) -> State:
    """Steps of all members until iteration `until`, or until one of them is not finite.

    The condition is one flag for all: a flag for each member would make every step choose between
    the old and the new version of its whole state.
    """
    problem, methods, keys, until = fixed

    def all_step(state: State) -> State:
        def one(method: Method, key: Any, member: State) -> State:
            return replaced(step(problem, method, replaced(member, k=state.k), key), k=None)

        stepped = eqx.filter_vmap(one)(methods, keys, replaced(state, k=None))
        return replaced(stepped, k=state.k + 1)

    return lax.while_loop(lambda s: (s.k < until) & jnp.all(s.failed == 0), all_step, state)


@eqx.filter_jit
def _measures_of_all(problem: Problem, state: State) -> tuple[Any, list[Any], dict[str, Any]]:
    def one(member: State) -> tuple[Any, list[Any], dict[str, Any]]:
        return measures(problem, member, None)

    return eqx.filter_vmap(one)(replaced(state, k=None))


@eqx.filter_jit(donate="all-except-first")
def _copied(places: tuple[Any, Any], members: Any) -> Any:
    """The members with the first place's copied to the second."""
    source, target = places
    return jax.tree.map(lambda a: a.at[target].set(a[source]) if eqx.is_array(a) else a, members)


def _stack(*leaves: Any) -> Any:
    return jnp.stack(leaves) if eqx.is_array(leaves[0]) else leaves[0]


def _member(state: State, index: int) -> State:
    """One member's own state."""
    return replaced(jax.tree.map(lambda a: a[index], replaced(state, k=None)), k=jnp.array(state.k))


def _without_points(state: State) -> State:
    """The counters of all members: what is small enough to be fetched at every record point."""
    estimate = replaced(state.estimate, stored=None)
    large = dict.fromkeys(("x", "atom", "memory", "memos", "reference"))
    return replaced(state, estimate=estimate, **large)
