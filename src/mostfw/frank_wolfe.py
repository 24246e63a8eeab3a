"""The one step that every method takes, and the state that it carries."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from . import counting, trees
from .domains import LinearMinimum
from .method import Method
from .problem import Problem
from .sight import Estimate, Sight
from .smoothing import numbers_at
from .terms import Numbers
from .trees import Point


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
    reference: Point | None  # trimming: the direction of the last LMO call
    lmo: jax.Array
    lmo_skipped: jax.Array
    matvecs: jax.Array
    failed: jax.Array  # the first iteration whose direction was not finite, else 0


def start(problem: Problem, method: Method) -> State:
    """The state before the first iteration."""
    dtype, structure = problem.dtype, problem.structure
    # A copy: the loop gives its buffers away, and a domain may return an array of its own.
    x = jax.tree.map(jnp.array, problem.domain.start(dtype))
    minimum = jax.eval_shape(lambda: problem.domain.lmo(x, key=jax.random.PRNGKey(0)))
    return State(
        k=jnp.zeros((), jnp.int32),
        x=x,
        atom=trees.zeros(minimum.atom),
        eta=jnp.zeros((), dtype),
        estimate=Estimate.zero(structure),
        memory=method.tracker.start(method.terms(problem), structure, dtype),
        reference=None if method.trimming is None else trees.zeros(structure),
        lmo=counting.zero(),
        lmo_skipped=counting.zero(),
        matvecs=counting.zero(),
        failed=jnp.zeros((), jnp.int32),
    )


def current(problem: Problem, state: State) -> Point:
    """x_{k+1}: the point after the pending move."""
    return problem.domain.move(state.x, state.atom, state.eta)


def numbers_of(method: Method, k: Any, state: State) -> Numbers:
    return numbers_at(k, method.smoothing, method.rho, state.estimate.size, state.eta.dtype)  # pyright: ignore[reportArgumentType]


def track(
    problem: Problem, method: Method, state: State, key: Any, feed: Any = None
) -> tuple[Point, Estimate, Any]:
    """x_k, y_k and the tracker's memory, from the state after iteration k - 1."""
    k = state.k + 1
    before = Sight.open(method.terms(problem), state.x, numbers_of(method, k - 1, state), key, feed)
    estimate, memory = method.tracker.depart(state.estimate, state.memory, before, k)
    x = current(problem, state)
    now = before.at(x, numbers_of(method, k, state))
    estimate, memory = method.tracker.arrive(estimate, memory, now, k)
    return x, estimate, memory


def direction(problem: Problem, method: Method, x: Point, y: Point, numbers: Numbers) -> Point:
    """s_k = y_k, plus the directions of the constraints that are handled exactly."""
    s = y
    exact = method.exact_constraints(problem)
    for constraint in exact:
        s = constraint.add_whole(s, 1.0, x, numbers)
    if all(term.symmetric for term in (*method.terms(problem), *exact)):
        return s
    return problem.domain.tangent(s)


def step(problem: Problem, method: Method, state: State, key: Any, feed: Any = None) -> State:
    """One iteration: draw, track, direct, minimise (or trim), and leave the move pending."""
    k = state.k + 1
    own_key = jax.random.fold_in(key, k)
    sample_key, lmo_key = jax.random.split(own_key)
    x, estimate, memory = track(problem, method, state, sample_key, feed)
    s = direction(problem, method, x, estimate.y, numbers_of(method, k, state))
    found, skipped, reference = _minimise(problem, method, state, s, k, lmo_key)
    healthy = jnp.isfinite(found.value)
    return State(
        k=k,
        x=x,
        atom=found.atom,
        eta=jnp.minimum(method.step_size(k), 1).astype(state.eta.dtype),
        estimate=estimate,
        memory=memory,
        reference=reference,
        lmo=counting.plus(state.lmo, 1, ~skipped),
        lmo_skipped=counting.plus(state.lmo_skipped, 1, skipped),
        matvecs=counting.plus(state.matvecs, found.matvecs),
        failed=jnp.where((state.failed == 0) & ~healthy, k, state.failed),
    )


def _minimise(
    problem: Problem, method: Method, state: State, s: Point, k: jax.Array, key: Any
) -> tuple[LinearMinimum, jax.Array, Point | None]:
    def call() -> LinearMinimum:
        return problem.domain.lmo(s, key=key, start=state.atom, tolerance=method.lmo_tolerance(k))

    if method.trimming is None or state.reference is None:
        return call(), jnp.zeros((), bool), None
    skip = method.trimming.may_skip(s, state.reference, k)

    def again() -> LinearMinimum:
        zero = jnp.zeros((), state.eta.dtype)
        return LinearMinimum(state.atom, zero, jnp.zeros((), jnp.int32))

    # Only the atom goes through the branch: passing n x n arrays through it would copy them.
    found = lax.cond(skip, again, call)
    reference = jax.tree.map(lambda old, new: jnp.where(skip, old, new), state.reference, s)
    return found, skip, reference


@eqx.filter_jit(donate="all-except-first")
def advance(fixed: tuple[Problem, Method, Any, Any, Any, Any], state: State) -> State:
    """Steps until iteration `until`, or until something is not finite; one compiled loop.

    `fixed` is (problem, method, key, until, feed, fed): for online objectives `feed` is a stack of
    minibatches, the first of which belongs to iteration `fed`.
    """
    problem, method, key, until, feed, fed = fixed

    def one(state: State) -> State:
        minibatch = jax.tree.map(lambda leaf: leaf[state.k + 1 - fed], feed)
        return step(problem, method, state, key, minibatch)

    return lax.while_loop(lambda s: (s.k < until) & (s.failed == 0), one, state)
