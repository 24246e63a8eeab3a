"""The one step that every method takes, and the state that it carries."""

from __future__ import annotations

import dataclasses
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from . import counting, keys, placement, trees
from .constraints import Affine
from .directions import Aim, Applied, Lean
from .domains import LinearMinimum
from .linalg import Accuracy
from .method import Method
from .problem import Problem
from .shuffling import Turn
from .sight import Estimate, Sight, when
from .smoothing import numbers_at
from .terms import Numbers
from .trees import Point, replaced

# Images of x that are carried from step to step are made anew when k is a multiple of this, so that
# their rounding errors do not add up over a run: to 1e-5 in 20,000 float32 steps.
RENEWED_EVERY = 4096
EXACT_BELOW = 2.0**-10
POWERS_OF_FOUR = 0x55555555
# A GPU's autotuner copies what it tries ways of reading with, and so an array of the size of x.
UNTUNED = {"xla_gpu_autotune_level": 0}


class State(eqx.Module):
    """Where a run stands after iteration k.

    The point is kept as x_k with a move still to make, x_{k+1} = x_k + eta_k (z_k - x_k): the
    next step looks at x_k under its own sample before it moves, so that no second copy is needed.
    """

    k: jax.Array
    x: Point
    atom: Any  # z_k
    eta: jax.Array  # eta_k, 0 before the first iteration
    estimate: Estimate
    memory: Any  # the tracker's
    memos: tuple[Any, ...]  # of the constraints that are handled exactly, at x_k
    reference: Point | Lean | None  # trimming: the direction of the last LMO call
    lmo: jax.Array
    lmo_skipped: jax.Array
    matvecs: jax.Array
    fallbacks: jax.Array  # LMOs that had to be solved in the slower, sure way
    level: jax.Array  # |<y_j, x_j>| at the last power of two: the unit of the LMO's error
    unit: jax.Array  # the largest entry of a lean direction at the last power of four
    failed: jax.Array  # the first iteration whose direction was not finite, else 0


# Compiled, so that large arrays are made in place; and x is an array of its own, for the loop gives
# its buffers away and a domain may return one that it keeps.
@eqx.filter_jit
def start(problem: Problem, method: Method) -> State:
    """The state before the first iteration."""
    dtype, structure = problem.dtype, problem.structure
    minimum = jax.eval_shape(
        lambda: problem.domain.lmo(trees.zeros(structure), key=jax.random.PRNGKey(0))
    )
    atom = trees.zeros(minimum.atom)
    x = problem.domain.start(dtype)
    memos, estimate = method.memos(problem, x, atom), Estimate.zero(structure, method.by_bound)
    for constraint, memo in zip(method.exact_constraints(problem), memos, strict=True):
        if memo is not None and memo.sampled:  # a table begins with every row at the start
            estimate = estimate.counted(constraint, constraint.total)
    reference = None if method.trimming is None else trees.zeros(structure)
    if reference is not None and method.lean:
        numbers = numbers_at(0, method.smoothing, method.rho, estimate.size, dtype)  # pyright: ignore[reportArgumentType]
        aim = Aim.at(estimate, x, method.exact_constraints(problem), memos, numbers)
        reference = aim.formed(method.lmo_dtype(problem), jnp.ones((), dtype))[0]
    first = State(
        k=jnp.zeros((), jnp.int32),
        x=x,
        atom=atom,
        eta=jnp.zeros((), dtype),
        estimate=estimate,
        memory=method.tracker.start(method.terms(problem), structure, dtype),
        memos=memos,
        reference=reference,
        lmo=counting.zero(),
        lmo_skipped=counting.zero(),
        matvecs=counting.zero(),
        fallbacks=counting.zero(),
        level=jnp.zeros((), dtype),
        unit=jnp.ones((), dtype),
        failed=jnp.zeros((), jnp.int32),
    )
    return placement.constrained(first, structure)


def current(problem: Problem, state: State) -> Point:
    """x_{k+1}: the point after the pending move."""
    return problem.domain.move(state.x, state.atom, state.eta)


def numbers_of(method: Method, k: Any, state: State) -> Numbers:
    return numbers_at(k, method.smoothing, method.rho, state.estimate.size, state.eta.dtype)  # pyright: ignore[reportArgumentType]


def multipliers(problem: Problem, method: Method, state: State) -> dict[str, jax.Array]:
    """The dual variable of each constraint: an augmented Lagrangian's own; the penalty's weight
    (Gx - Proj)/mu_k at x_{k+1}."""
    own = {
        constraint.name: memo.dual
        for constraint, memo in zip(method.exact_constraints(problem), state.memos, strict=True)
        if memo is not None and memo.dual is not None
    }
    numbers, x = numbers_of(method, state.k, state), current(problem, state)
    return {
        c.name: own[c.name] if c.name in own else c.multiplier(x, numbers)
        for c in method.weighted(problem)
    }


def track(
    problem: Problem,
    method: Method,
    state: State,
    key: Any,
    feed: Any = None,
    turn: Turn | None = None,
) -> tuple[Point, Estimate, Any]:
    """x_k, y_k and the tracker's memory, from the state after iteration k - 1."""
    k = state.k + 1
    numbers = numbers_of(method, k - 1, state)
    before = Sight.open(method.terms(problem), state.x, numbers, key, feed, turn)
    estimate, memory = method.tracker.depart(state.estimate, state.memory, before, k)
    waiting = replaced(state, eta=_after_held(memory, state.eta)) if method.tracker.holds else state
    x = current(problem, waiting)
    now = before.at(x, numbers_of(method, k, state))
    estimate, memory = method.tracker.arrive(estimate, memory, now, k)
    if any(term.pointwise for term in before.terms):
        # The estimate is renewed first, from x_{k-1} and the atom in one pass; then x moves in
        # place. Otherwise both points would be alive at once.
        entry = jnp.ravel(jax.tree.leaves(estimate.stored)[0])[0]
        x = problem.domain.move(state.x, state.atom, trees.after(entry, state.eta))
    return x, estimate, memory


def _after_held(held: Any, eta: jax.Array) -> jax.Array:
    """eta, known only when all that is held back was read from the last point: it moves in place
    then, and is not copied."""
    for message in jax.tree.leaves(held):
        eta = trees.after(jnp.sum(message).astype(eta.dtype), eta)
    return eta


def direction(problem: Problem, method: Method, x: Point, y: Point, numbers: Numbers) -> Point:
    """s_k = y_k, plus the directions of the constraints that are handled exactly."""
    unknown = (None,) * len(method.exact_constraints(problem))
    return _aim(problem, method, x, y, numbers, unknown)[0]


def _aim(
    problem: Problem, method: Method, x: Point, y: Point, numbers: Numbers, memos: tuple[Any, ...]
) -> tuple[Point, tuple[Any, ...]]:
    """The direction with the help of the constraints' memos, and the memos renewed."""
    s, renewed = y, []
    exact = method.exact_constraints(problem)
    for constraint, memo in zip(exact, memos, strict=True):
        s, memo = constraint.push(s, x, numbers, memo)
        renewed.append(memo)
    if not all(term.symmetric for term in (*method.terms(problem), *exact)):
        s = problem.domain.tangent(s)
    return s, tuple(renewed)


def step(problem: Problem, method: Method, state: State, key: Any, feed: Any = None) -> State:
    """One iteration: draw, track, direct, minimise (or trim), and leave the move pending."""
    k, key = state.k + 1, keys.opened(key)
    own_key = jax.random.fold_in(key, k)
    sample_key, lmo_key = jax.random.split(own_key)
    x, estimate, memory = track(problem, method, state, sample_key, feed, Turn(k, key))
    exact = method.exact_constraints(problem)
    numbers = numbers_of(method, k, state)
    level, carried = _renewed(state, x, estimate, exact, k)
    memos = []
    for index, (constraint, memo) in enumerate(zip(exact, carried, strict=True)):
        xi = None
        if memo is not None and memo.sampled:
            xi = constraint.draw(jax.random.fold_in(sample_key, 1 + index), None)
            estimate = estimate.counted(constraint, constraint.batch)
        memos.append(constraint.ascended(memo, x, numbers, state.eta, xi))
    memos = tuple(memos)
    minimise = Minimisation(problem, method, state, k, lmo_key, method.accuracy(k, level))
    unit = state.unit
    if method.lean:
        aim = Aim.at(estimate, x, exact, memos, numbers)
        due = (k & (k - 1) == 0) & (k & POWERS_OF_FOUR != 0)
        unit = lax.cond(due, lambda: aim.largest(), lambda: state.unit)
        gone = None
        if estimate.drift is not None:
            then = numbers_of(method, state.k, state)
            gone = estimate.drift.gone + aim.strain(then, state.eta, method.trimming.diameter)  # pyright: ignore[reportOptionalMemberAccess]
        found, skipped, reference, memos = minimise.along(aim, unit, gone)
        if gone is not None:
            drift = replaced(estimate.drift, gone=jnp.where(skipped, gone, 0))
            estimate = replaced(estimate, drift=drift)
    else:
        if method.direction == "applied":
            s = Applied(estimate.stored, estimate.factor, x, exact, memos, numbers)
        else:
            s, memos = _aim(problem, method, x, estimate.y, numbers, memos)
        found, skipped, reference = minimise(s)
    healthy = jnp.isfinite(found.value)
    return State(
        k=k,
        x=x,
        atom=found.atom,
        eta=_step_size(method, k, state.eta.dtype),
        estimate=estimate,
        memory=memory,
        memos=memos,
        reference=reference,
        lmo=counting.plus(state.lmo, 1, ~skipped),
        lmo_skipped=counting.plus(state.lmo_skipped, 1, skipped),
        matvecs=counting.plus(state.matvecs, found.matvecs),
        fallbacks=counting.plus(state.fallbacks, found.fallbacks),
        level=level,
        unit=unit,
        failed=jnp.where((state.failed == 0) & ~healthy, k, state.failed),
    )


def _step_size(method: Method, k: jax.Array, dtype: Any) -> jax.Array:
    """eta_k, at most 1; a small one such that 1 - eta_k is exact.

    Else the weights of x and of the atom do not sum to 1, always to the same side for as long as
    1 - eta_k rounds to the same number: a float32 trace is off by 1e-4 after 10^6 steps, by 1e-3
    after 3 10^6. (A float32 run stands still from step 3 10^7 on, where 1 - eta_k is 1.)
    """
    eta = jnp.minimum(method.step_size(k), 1).astype(dtype)
    kept = lax.optimization_barrier(1 - eta)
    return jnp.where(eta < EXACT_BELOW, 1 - kept, eta)


def _renewed(
    state: State, x: Point, estimate: Estimate, exact: tuple[Affine, ...], k: jax.Array
) -> tuple[jax.Array, tuple[Any, ...]]:
    """|<y_k, x_k>|, renewed when k is a power of two, and the constraints' memos at x_k, whose
    images of x are moved along and at times made anew: no pass over x in the other iterations."""
    pairs = zip(exact, state.memos, strict=True)
    memos = tuple(c.moved(memo, state.atom, state.eta) for c, memo in pairs)
    images = (c.carried(memo, state.atom) for c, memo in zip(exact, memos, strict=True))
    moved = {index: image for index, image in enumerate(images) if image is not None}
    doubled, due = k & (k - 1) == 0, k % RENEWED_EVERY == 0

    def look() -> tuple[jax.Array, dict[int, jax.Array]]:
        level = jnp.abs(estimate.factor * trees.inner(estimate.stored, x))
        made = {index: exact[index].map.forward(x) for index in moved}
        made = {index: jnp.where(due, made[index], moved[index]) for index in moved}
        return jnp.where(doubled, level, state.level), made

    # one branch for both: on an accelerator each asks the host
    level, carried = lax.cond(doubled | due, look, lambda: (state.level, moved))
    return level, tuple(
        replaced(memo, image=carried[index]) if index in carried else memo
        for index, memo in enumerate(memos)
    )


@dataclasses.dataclass(frozen=True)
class Minimisation:
    """This iteration's LMO call, or none where trimming allows it."""

    problem: Problem
    method: Method
    state: State
    k: jax.Array
    key: Any
    accuracy: Accuracy

    def __call__(self, s: Any) -> tuple[LinearMinimum, jax.Array, Point | None]:
        """Over a direction that is there: the minimum, whether the call was skipped, and what
        trimming compares the next direction with."""
        if self.method.trimming is None:
            return self._called(s, self.accuracy), jnp.zeros((), bool), None
        skip = self.method.trimming.may_skip(s, self.state.reference, self.k)
        found = self._unless(skip, s, self.accuracy)
        return found, skip, when(~skip, lambda _: s, self.state.reference)

    def along(
        self, aim: Aim, unit: jax.Array, gone: jax.Array | None
    ) -> tuple[LinearMinimum, jax.Array, Lean | None, tuple[Any, ...]]:
        """Over a direction that is still to be formed, and has `gone` so far at most, where that
        is known; and the constraints' memos."""
        dtype, trimming = self.method.lmo_dtype(self.problem), self.method.trimming
        accuracy = self.accuracy.over(unit)
        if trimming is None:
            lean, memos = aim.formed(dtype, unit)
            return self._called(lean, accuracy), jnp.zeros((), bool), None, memos
        assert isinstance(self.state.reference, Lean)
        if gone is None:
            skip = trimming.may_skip_along(aim, self.state.reference, unit, self.k)
        else:
            skip = trimming.may_skip_after(gone, aim, self.state.reference, self.k)

        # Made where the old one is, and only where it is needed: no copy, and no third matrix.
        def anew(old: Lean) -> Lean:
            return aim.behind(old.matrix[0, 0]).formed(dtype, unit)[0]

        reference = when(~skip, anew, self.state.reference)
        found = self._unless(skip, reference, accuracy)
        return found, skip, reference, aim.memos

    def _called(self, s: Any, accuracy: Accuracy) -> LinearMinimum:
        return self.problem.domain.lmo(s, key=self.key, start=self.state.atom, tolerance=accuracy)

    def _unless(self, skip: jax.Array, s: Any, accuracy: Accuracy) -> LinearMinimum:
        def again() -> LinearMinimum:
            zero = jnp.zeros((), self.state.eta.dtype)
            return LinearMinimum(self.state.atom, zero, jnp.zeros((), jnp.int32))

        # Only the atom goes through the branch: passing n x n arrays through it would copy them.
        return lax.cond(skip, again, lambda: self._called(s, accuracy))


def _advance(fixed: tuple[Problem, Method, Any, Any, Any, Any], state: State) -> State:
    """Steps until iteration `until`, or until something is not finite; one compiled loop.

    `fixed` is (problem, method, key, until, feed, fed): for online objectives `feed` is a stack of
    minibatches, the first of which belongs to iteration `fed`.
    """
    problem, method, key, until, feed, fed = fixed

    # At the loop's door and in it: what goes round must come out as it went in, or the next call
    # would be another program's.
    def held(state: State) -> State:
        return placement.constrained(state, problem.structure)

    def one(state: State) -> State:
        minibatch = jax.tree.map(lambda leaf: leaf[state.k + 1 - fed], feed)
        return held(step(problem, method, state, key, minibatch))

    return held(lax.while_loop(lambda s: (s.k < until) & (s.failed == 0), one, held(state)))


advance = eqx.filter_jit(_advance, donate="all-except-first")
# Where a point leaves no room for a second one: the autotuner would copy it.
advance_untuned = eqx.filter_jit(_advance, donate="all-except-first", compiler_options=UNTUNED)  # pyright: ignore[reportCallIssue, reportArgumentType]
