"""Checks for parts of your own: what the loop relies on, tested from outside.

Each check raises AssertionError with a sentence that names the promise that was broken. The
library's own parts are under the same checks, through their registries.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from . import trees
from .constraints import Affine
from .domains import Domain, L2Ball
from .frank_wolfe import start, step
from .maps import LinearMap
from .method import Method
from .methods import trimmed
from .objectives import FiniteSum, Objective
from .problem import Problem
from .schedules import Power
from .shuffling import Turn, Visit
from .sight import Estimate, Sight
from .terms import Numbers, Term
from .trackers import Tracker

__all__ = ["check_constraint", "check_domain", "check_map", "check_objective", "check_tracker"]


def _require(truth: Any, promise: str) -> None:
    if not bool(truth):
        raise AssertionError(promise)


def _close(a: Any, b: Any, promise: str, tolerance: float = 1e-8) -> None:
    for left, right in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        left, right = np.asarray(left, dtype=float), np.asarray(right, dtype=float)
        size = 1 + max(np.abs(left).max(initial=0), np.abs(right).max(initial=0))
        off = np.abs(left - right).max(initial=0) / size
        _require(off <= tolerance, f"{promise} (off by {off:.1e} relative)")


def _numbers(dtype: Any) -> Numbers:
    one = jnp.ones((), dtype)
    return Numbers(penalty=one, rho=one * 1e-2, size=one, dual_step=one, sampled_step=one)


def check_domain(domain: Domain, trials: int = 4, tolerance: float = 1e-6) -> None:
    """The LMO is an argmin over the domain, atoms and moves stay inside, the diameter is one.

    >>> import mostfw as fw
    >>> fw.testing.check_domain(fw.domains.L1Ball(3, radius=2.0))
    """
    with jax.enable_x64(True):
        dtype = jnp.float64
        structure = domain.structure(dtype)
        x = domain.start(dtype)
        _require(
            trees.describe(trees.structure_of(x)) == trees.describe(structure),
            "start() has the shape that structure() says",
        )
        _require(domain.contains(x), "start() is in the domain")
        lmo = jax.jit(lambda s, key: domain.lmo(s, key=key, tolerance=0.0))
        points = [x]
        for trial in range(trials):
            key = jax.random.PRNGKey(trial)
            s = domain.tangent(trees.normal(key, structure))
            found = lmo(s, key)
            z = domain.dense(found.atom)
            _require(domain.contains(z, tolerance), "atoms are in the domain")
            size = float(trees.norm(s)) * max(1.0, domain.diameter)
            _require(
                abs(float(trees.inner(s, z) - found.value)) <= tolerance * size,
                "the LMO's value is <s, atom>",
            )
            least = domain.least(jax.tree.map(np.asarray, s)).value
            _require(
                least <= float(trees.inner(s, z)) + 1e-14 * size,  # the atom itself is rounded
                "least(s) is not above the value of any point",
            )
            _require(least >= float(found.value) - tolerance * size, "least(s) is near the minimum")
            for point in points:
                _require(
                    float(found.value) <= float(trees.inner(s, point)) + tolerance * size,
                    "no point of the domain is below the LMO's value",
                )
            moved = domain.move(points[-1], found.atom, 0.25)
            by_hand = trees.plus(points[-1], 0.25, trees.minus(z, points[-1]))
            _close(moved, by_hand, "move(x, atom, eta) is x + eta (atom - x)")
            _require(domain.contains(moved, tolerance), "a move stays in the domain")
            for point in points:
                apart = float(trees.norm(trees.minus(z, point)))
                _require(
                    apart <= domain.diameter * (1 + 1e-9) + 1e-9,
                    "no two points are apart by more than the diameter",
                )
            _close(
                trees.inner(domain.tangent(s), moved),
                trees.inner(s, moved),
                "tangent(s) acts like s on the domain",
            )
            points += [z, moved]
        zero = trees.zeros(structure)
        value = float(lmo(zero, jax.random.PRNGKey(0)).value)
        _require(value == 0, "the LMO of the zero direction is finite, with value 0")


def check_map(linear_map: LinearMap, like: Any, symmetric: bool = False) -> None:
    """forward and adjoint belong together, whole and row by row; `like` has a point's shape.

    >>> import numpy as np, mostfw as fw
    >>> fw.testing.check_map(fw.maps.Dense(np.ones((2, 3))), np.zeros(3))
    """
    with jax.enable_x64(True):
        structure = jax.tree.map(lambda a: jax.ShapeDtypeStruct(np.shape(a), jnp.float64), like)
        linear_map = linear_map.resolve(structure)
        keys = iter(jax.random.split(jax.random.PRNGKey(0), 8))
        x = trees.normal(next(keys), structure)
        x = trees.symmetrised(x) if symmetric else x
        image = jax.jit(lambda p: linear_map.forward(p))(x)
        u = jax.random.normal(next(keys), image.shape, image.dtype)
        if linear_map.symmetric and image.ndim == 2:
            u = trees.symmetrised(u)  # as the multipliers of a symmetric image are
        back = linear_map.adjoint(u, structure)
        _close(jnp.sum(image * u), trees.inner(x, back), "<Gx, u> = <x, G'u>")
        if linear_map.symmetric:
            _close(back, trees.symmetrised(back), "a symmetric map's adjoint is symmetric")
            if hasattr(structure, "shape"):
                v = jax.random.normal(next(keys), structure.shape[1:], structure.dtype)
                _close(linear_map.product(u, v, structure), back @ v, "product is (G'u) v")
        _close(linear_map.adjoint_norm(u, structure), trees.norm(back), "adjoint_norm is ||G'u||")

        def twice(rows: jax.Array) -> jax.Array:
            return 2 * rows

        def beyond(rows: jax.Array) -> jax.Array:
            return rows - jnp.clip(rows, -2.0, -1.0)  # not 0 at 0, as rows of some sets are not

        for name, residual in ("twice", twice), ("beyond", beyond):
            kept = linear_map.residual(x, residual)
            found = linear_map.squares(x, residual)
            _close(found, jnp.sum(kept**2), f"squares takes every row once ({name})")
            found = linear_map.pull(x, residual)
            _close(found, linear_map.adjoint(kept, structure), f"pull is G'r(Gx) ({name})")
        image_again = linear_map.residual(x, twice)
        _close(image_again, 2 * image, "residual is a function of Gx")
        if not linear_map.sampleable:
            return
        drawn = linear_map.draw(next(keys), 64, linear_map.rows(structure))
        entries = linear_map.entries(x, drawn)
        slots = linear_map.slot(drawn)
        _close(entries, image.reshape(-1)[slots], "entries(x, rows) is Gx at these rows")
        _require(
            slots.min() >= 0 and slots.max() < linear_map.slots(structure), "slots are in the table"
        )
        values = jax.random.normal(next(keys), entries.shape, entries.dtype)
        scattered = linear_map.scatter(trees.zeros(structure), values, drawn)
        _close(
            trees.inner(x, scattered),
            jnp.sum(entries * values),
            "scatter is the adjoint of entries",
        )


def check_constraint(constraint: Affine, like: Any, symmetric: bool = False) -> None:
    """Its map passes `check_map`, the projection projects, and its direction is a gradient.

    >>> import numpy as np, mostfw as fw
    >>> rule = fw.constraints.Affine(np.ones((2, 3)), fw.sets.Orthant(1), batch=1)
    >>> fw.testing.check_constraint(rule, np.zeros(3))
    """
    check_map(constraint.map, like, symmetric)
    with jax.enable_x64(True):
        structure = jax.tree.map(lambda a: jax.ShapeDtypeStruct(np.shape(a), jnp.float64), like)
        constraint = constraint.resolve(structure)
        x = trees.normal(jax.random.PRNGKey(1), structure)
        x = trees.symmetrised(x) if symmetric else x
        image = constraint.map.forward(x)
        nearest = constraint.set.project(image)
        _close(constraint.set.project(nearest), nearest, "projecting twice is projecting once")
        _close(
            jnp.linalg.norm(constraint.map.residual(x, _distance_to(constraint)).reshape(-1)),
            constraint.violation(x),
            "violation is the distance of Gx to X",
        )
        numbers = _numbers(jnp.float64)
        zero = trees.zeros(structure)
        got = constraint.add_whole(zero, 1.0, x, numbers)
        if constraint.symmetric:
            _close(got, trees.symmetrised(got), "what is called symmetric is symmetric")
        along = trees.normal(jax.random.PRNGKey(5), structure)
        along = trees.symmetrised(along) if symmetric else along
        near = [constraint.violation(trees.plus(x, h, along)) ** 2 for h in (1e-5, -1e-5)]
        slope = constraint.weight * (near[0] - near[1]) / 4e-5
        _close(trees.inner(got, along), slope, "its direction is the slope of w/2 dist^2", 1e-4)
        if not constraint.whole:
            _check_mean(constraint, x, got, symmetric, numbers)


def _distance_to(constraint: Affine) -> Any:
    return lambda rows: rows - constraint.set.project(rows)


def check_objective(objective: Objective, like: Any, draws: int = 4000) -> None:
    """Draws are unbiased in value and gradient, those of passes too, and the gradient is the
    value's.

    >>> import numpy as np, mostfw as fw
    >>> fw.testing.check_objective(fw.objectives.Linear(np.eye(3), batch=4), np.eye(3))
    """
    with jax.enable_x64(True):
        structure = jax.tree.map(lambda a: jax.ShapeDtypeStruct(np.shape(a), jnp.float64), like)
        objective = objective.resolve(structure)  # pyright: ignore[reportAssignmentType]
        objective = jax.tree.map(
            lambda a: jnp.asarray(a) if isinstance(a, np.ndarray) else a, objective
        )
        x = jax.tree.map(lambda a: jnp.asarray(a, jnp.float64), like)
        if objective.symmetric:
            x = trees.symmetrised(x)
        numbers = _numbers(jnp.float64)
        zero = trees.zeros(structure)
        for draw in _draws(objective):
            xi = draw(jax.random.PRNGKey(3))
            got = jax.jit(lambda x, xi: _sampled_gradient(objective, x, xi, numbers))(x, xi)
            want = jax.jit(jax.grad(objective.value))(x, xi)
            if objective.symmetric:
                want = trees.symmetrised(want)
            _close(got, want, "what a draw adds is the gradient of its value")
            length = objective.length(objective.message(objective.look(x, xi), xi, numbers))
            if length is not None:
                most = objective.scale(objective.batch) * length * (1 + 1e-12)
                _require(trees.norm(got) <= most, "a draw adds no more than its length")
        if not objective.finite:
            return
        whole = jax.jit(lambda x: objective.add_whole(zero, 1.0, x, numbers))(x)
        want = jax.jit(jax.grad(lambda p: objective.whole_value(p)))(x)
        _close(whole, want, "add_whole is the gradient of whole_value")
        for draw in _draws(objective):
            _check_mean(objective, x, whole, objective.symmetric, numbers, draws, draw)
            values = jax.jit(jax.vmap(lambda key: objective.value(x, draw(key))))(  # noqa: B023
                jax.random.split(jax.random.PRNGKey(4), draws)
            )
            _unbiased(values[:, None], jnp.asarray(objective.whole_value(x))[None], "values")


def _draws(objective: Objective) -> list[Any]:
    """The ways from a key to a draw: with replacement, and some step of a pass where it has them;
    none where nothing is sampled."""

    def sampled(key: Any) -> Any:
        return objective.sample(key, objective.batch)

    def visited(key: Any) -> Any:
        return objective.draw_in_turn(key, None, Turn(jax.random.randint(key, (), 1, 99), key))

    if objective.whole:
        return []
    if objective.online or not isinstance(jax.eval_shape(visited, jax.random.PRNGKey(0)), Visit):
        return [sampled]
    return [sampled, visited]


def _sampled_gradient(term: Term, x: Any, xi: Any, numbers: Numbers) -> Any:
    message = term.message(term.look(x, xi), xi, numbers)
    c = term.scale(term.batch) * jnp.asarray(term.gain(numbers))
    return term.spread(trees.zeros(trees.structure_of(x)), c, message, xi)


def _check_mean(
    term: Term,
    x: Any,
    whole: Any,
    symmetric: bool,
    numbers: Numbers,
    draws: int = 4000,
    draw: Any = None,
) -> None:
    def one(key: Any) -> jax.Array:
        xi = term.sample(key, term.batch) if draw is None else draw(key)
        gradient = _sampled_gradient(term, x, xi, numbers)
        gradient = trees.symmetrised(gradient) if symmetric else gradient
        return jnp.concatenate([leaf.reshape(-1) for leaf in jax.tree.leaves(gradient)])

    samples = jax.jit(jax.vmap(one))(jax.random.split(jax.random.PRNGKey(2), draws))
    target = jnp.concatenate([leaf.reshape(-1) for leaf in jax.tree.leaves(whole)])
    _unbiased(samples, target, "gradients")


def _unbiased(samples: Any, target: Any, what: str) -> None:
    """The mean is within six standard errors everywhere: a bias of that size would be seen."""
    mean, error = samples.mean(axis=0), samples.std(axis=0) / np.sqrt(len(samples))
    off = jnp.max(jnp.abs(mean - target) / (error + 1e-9 * (1 + jnp.abs(target))))
    _require(off <= 6, f"sampled {what} are unbiased (off by {float(off):.1f} standard errors)")


def check_tracker(tracker: Tracker, steps: int = 400) -> None:
    """It runs compiled with a stable state, counts its calls, can be trimmed, and tracks: at the
    end the estimate is closer to the gradient than a single sample is.

    >>> import mostfw as fw
    >>> fw.testing.check_tracker(fw.trackers.Momentum(fw.schedules.Power(1)))
    """
    with jax.enable_x64(True):
        rng = np.random.default_rng(0)
        # The targets are out of reach, so that the gradient at the solution is far from 0.
        data = {"a": 1 + 0.3 * rng.standard_normal((40, 5)), "b": 5 + rng.standard_normal(40)}

        def loss(x: Any, row: Any) -> jax.Array:
            return (jnp.dot(row["a"], x) - row["b"]) ** 2 / 2

        problem = Problem(FiniteSum(loss, data, batch=2), L2Ball(5, 1.0)).on_device()
        method = Method(name="checked", tracker=tracker, step_size=Power(2, shift=1)).bind(problem)
        key = jax.random.PRNGKey(0)
        state = start(problem, method)
        shapes = trees.describe(trees.structure_of(state))

        @jax.jit
        def advance(state: Any) -> Any:
            state = step(problem, method, state, key)
            zero = Estimate.zero(problem.structure)
            fresh = jax.random.fold_in(key, -state.k)
            seen = Sight.open(method.terms(problem), state.x, _numbers(jnp.float64), fresh, None)
            exact = seen.add_whole(zero, 1.0).y
            error = trees.norm(trees.minus(state.estimate.y, exact))
            return state, error, trees.norm(trees.minus(seen.add(zero, 1.0).y, exact))

        errors, noise = np.zeros(steps), np.zeros(steps)
        for index in range(steps):
            state, errors[index], noise[index] = advance(state)
        _require(
            trees.describe(trees.structure_of(state)) == shapes,
            "a tracker keeps the shapes of its estimate and memory",
        )
        _require(np.all(np.isfinite(errors)), "a tracker's estimate stays finite")
        late = slice(steps // 2, None)
        _require(
            np.mean(errors[late]) < np.mean(noise[late]),
            "a tracker's estimate ends closer to the gradient than a single sample is "
            f"({np.mean(errors[late]):.2e} against {np.mean(noise[late]):.2e})",
        )
        counts = state.estimate.counts["gradients"]
        _require(int(counts[1]) > 0, "a tracker's gradients are counted (use sight.add)")
        short = trimmed(method, tau_0=1e6)
        state = start(problem, short)
        trim = jax.jit(lambda s: step(problem, short, s, key))
        for _ in range(3):
            state = trim(state)
        _require(int(state.lmo_skipped[1]) == 2, "a trimmed run skips its LMO calls")
