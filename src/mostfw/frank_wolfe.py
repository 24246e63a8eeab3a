"""The one step that every method takes, and the state that it carries."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from . import counting, placement, trees
from .constraints import Affine
from .domains import LinearMinimum
from .linalg import Accuracy
from .method import Method
from .operators import SymmetricOperator
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
    reference: Point | None  # trimming: the direction of the last LMO call
    lmo: jax.Array
    lmo_skipped: jax.Array
    matvecs: jax.Array
    fallbacks: jax.Array  # LMOs that had to be solved in the slower, sure way
    level: jax.Array  # |<y_j, x_j>| at the last power of two: the unit of the LMO's error
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
    memos, estimate = method.memos(problem, x, atom), Estimate.zero(structure)
    for constraint, memo in zip(method.exact_constraints(problem), memos, strict=True):
        if memo is not None and memo.sampled:  # a table begins with every row at the start
            estimate = estimate.counted(constraint, constraint.total)
    first = State(
        k=jnp.zeros((), jnp.int32),
        x=x,
        atom=atom,
        eta=jnp.zeros((), dtype),
        estimate=estimate,
        memory=method.tracker.start(method.terms(problem), structure, dtype),
        memos=memos,
        reference=None if method.trimming is None else trees.zeros(structure),
        lmo=counting.zero(),
        lmo_skipped=counting.zero(),
        matvecs=counting.zero(),
        fallbacks=counting.zero(),
        level=jnp.zeros((), dtype),
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
    x = current(problem, state)
    now = before.at(x, numbers_of(method, k, state))
    estimate, memory = method.tracker.arrive(estimate, memory, now, k)
    if any(term.pointwise for term in before.terms):
        # The estimate is renewed first, from x_{k-1} and the atom in one pass; then x moves in
        # place. Otherwise both points would be alive at once.
        x = problem.domain.move(state.x, state.atom, _after(estimate.stored, state.eta))
    return x, estimate, memory


def _after(point: Point, number: jax.Array) -> jax.Array:
    """The number as it is, which the compiler cannot know before it has the point: no comparison
    of these is ever true."""
    entry = jnp.ravel(jax.tree.leaves(point)[0])[0]
    return jnp.where(number + jnp.abs(entry) < number, 0, number)


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


class Applied(SymmetricOperator):
    """The direction as products with vectors, from x, y and the constraints: never a matrix."""

    stored: jax.Array
    factor: jax.Array
    x: jax.Array
    constraints: tuple[Affine, ...]
    memos: tuple[Any, ...]
    numbers: Numbers

    @property
    def size(self) -> int:
        return self.x.shape[0]

    @property
    def dtype(self) -> Any:
        return self.x.dtype

    def matvec(self, v: jax.Array) -> jax.Array:
        # The barrier keeps what x and y are made into inside the loop over products; outside it
        # would be a matrix after all.
        x, v = lax.optimization_barrier((self.x, v))
        # A sum, as in the maps' products: on a GPU it stores nothing of the size of x.
        product = self.factor * jnp.sum(self.stored * v, axis=1)
        for constraint, memo in zip(self.constraints, self.memos, strict=True):
            product = product + constraint.product(v, x, self.numbers, memo)
        return placement.by_rows(product)


def step(problem: Problem, method: Method, state: State, key: Any, feed: Any = None) -> State:
    """One iteration: draw, track, direct, minimise (or trim), and leave the move pending."""
    k = state.k + 1
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
    if method.direction == "applied":
        s = Applied(estimate.stored, estimate.factor, x, exact, memos, numbers)
    else:
        s, memos = _aim(problem, method, x, estimate.y, numbers, memos)
    accuracy = method.accuracy(k, level)
    found, skipped, reference = _minimise(problem, method, state, s, k, lmo_key, accuracy)
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


def _minimise(
    problem: Problem,
    method: Method,
    state: State,
    s: Point,
    k: jax.Array,
    key: Any,
    accuracy: Accuracy,
) -> tuple[LinearMinimum, jax.Array, Point | None]:
    def call() -> LinearMinimum:
        return problem.domain.lmo(s, key=key, start=state.atom, tolerance=accuracy)

    if method.trimming is None or state.reference is None:
        return call(), jnp.zeros((), bool), None
    skip = method.trimming.may_skip(s, state.reference, k)

    def again() -> LinearMinimum:
        zero = jnp.zeros((), state.eta.dtype)
        return LinearMinimum(state.atom, zero, jnp.zeros((), jnp.int32))

    # Only the atom goes through the branch: passing n x n arrays through it would copy them.
    found = lax.cond(skip, again, call)
    return found, skip, when(~skip, lambda _: s, state.reference)


@eqx.filter_jit(donate="all-except-first")
def advance(fixed: tuple[Problem, Method, Any, Any, Any, Any], state: State) -> State:
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
