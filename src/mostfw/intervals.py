"""Confidence intervals for the optimum of an objective that is known from samples only.

min over z of <g + G'l, z> is concave in g, so with an unbiased estimate of the gradient the lower
bound of a batch of samples is on average below that of the whole objective. The mean over batches,
less a quantile of Student's t times its error, is therefore a lower confidence limit; drawn after
the point and its multipliers were fixed, the samples know nothing of them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.stats

from .certificates import INTERVAL, Certificate, Parts, fetched, parts
from .errors import StreamError
from .frank_wolfe import State, current, multipliers
from .method import Method
from .objectives import Objective, Online
from .problem import Problem
from .trees import Point

BATCHES = 8
SAMPLES = 1024  # in a batch, where the objective can be sampled at will
MINIBATCHES = 4  # in a batch, where they come from a stream
ONE_SIDE = 0.995  # two sides, together 99%
SALT = 0x5EED  # apart from the keys of runs


def confidence_interval(
    problem: Problem,
    method: Method,
    state: State,
    feasible: Point | None,
    violation: float,
) -> Certificate:
    """The certificate from fresh samples; `feasible` is a point that keeps the constraints.

    Raises StreamError where an online objective has no fresh minibatches.
    """
    on_device = problem.on_device().core()
    lower, objective, upper = [], [], []
    for xi in _fresh(problem, int(state.k)):
        look = fetched(on_device, _parts_of_batch(on_device, method, state, xi))
        lower.append(look.minorant().least(problem).value)
        objective.append(look.objective)
        if feasible is not None:
            upper.append(float(_value(on_device, feasible, xi)))
    return Certificate.of(
        lower=_limit(lower, -1.0),
        upper=_limit(upper, 1.0) if upper else None,
        objective=float(np.mean(objective)),
        violation=violation,
        kind=INTERVAL,
    )


def _limit(values: list[float], side: float) -> float:
    quantile = float(scipy.stats.t.ppf(ONE_SIDE, len(values) - 1))
    error = float(np.std(values, ddof=1)) / math.sqrt(len(values))
    return float(np.mean(values)) + side * quantile * error


def _fresh(problem: Problem, done: int) -> Iterator[Any]:
    """BATCHES batches of samples that the run has not seen."""
    objective = problem.objective
    if not isinstance(objective, Online):
        for index in range(BATCHES):
            key = jax.random.fold_in(jax.random.fold_in(jax.random.PRNGKey(SALT), done), index)
            yield _sample(objective, key)
        return
    stream = iter(objective.source.open(done))
    for _ in range(BATCHES):
        drawn = list(itertools.islice(stream, MINIBATCHES))
        if len(drawn) < MINIBATCHES:
            raise StreamError(
                f"the stream ends before {BATCHES * MINIBATCHES} minibatches beyond the {done} "
                "that the run has used."
            )
        yield jax.tree.map(lambda *leaves: jnp.stack([jnp.asarray(a) for a in leaves]), *drawn)


@eqx.filter_jit
def _sample(objective: Objective, key: Any) -> Any:
    return objective.sample(key, max(SAMPLES, objective.batch))


def _mean(problem: Problem, x: Point, xi: Any) -> jax.Array:
    if isinstance(problem.objective, Online):
        return jnp.mean(jax.vmap(lambda one: problem.objective.value(x, one))(xi))
    return problem.objective.value(x, xi)


_value = eqx.filter_jit(_mean)


@eqx.filter_jit
def _parts_of_batch(problem: Problem, method: Method, state: State, xi: Any) -> Parts:
    x = current(problem, state)
    value, gradient = jax.value_and_grad(lambda point: _mean(problem, point, xi))(x)
    return parts(problem, x, value, gradient, multipliers(problem, method, state))
