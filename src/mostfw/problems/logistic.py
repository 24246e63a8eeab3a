"""Sparse logistic regression whose scores are bounded on every datum."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import checks, domains, objectives, sets
from ..constraints import Affine
from ..errors import InvalidInputError, ShapeError
from ..problem import Problem


def logistic(
    features: Any,
    labels: Any,
    *,
    radius: float = 1.5,
    score_bound: float = 1.5,
    batch: float | int | None = None,
    constraint_batch: float | int | None = None,
    sampling: str = "shuffled",
    optimum: float | None = None,
    dtype: Any = np.float64,
) -> Problem:
    """min of the mean of log(1 + exp(-b_i a_i'x)) over {||x||_1 <= radius}, subject to
    |a_i'x| <= score_bound for every row a_i of `features`.

    The `labels` b_i are 1 and -1. A bound on the scores keeps every predicted chance away from 0
    and 1; with the defaults, the ball and some of the bounds act on `generated_labels`. `batch`
    samples the data, in shuffled passes or as in the paper (`sampling="replacement"`);
    `constraint_batch` the bounds, which makes the problem P+. It is not quadratic, and the noise of
    its gradients depends on x.

    >>> import mostfw as fw
    >>> from mostfw.problems.logistic import generated_labels
    >>> problem = fw.problems.logistic(*generated_labels(50, 8), batch=5)
    >>> print(problem)
    min FiniteSum over L1Ball, subject to scores: Dense x in Box(-1.5, 1.5)
    """
    features, labels = checked_data(features, labels)
    features, labels = features.astype(dtype), labels.astype(dtype)
    radius = checks.number("radius", radius, above=0)
    score_bound = checks.number("score_bound", score_bound, above=0)
    bounds = sets.Box(-score_bound, score_bound)
    return Problem(
        objectives.FiniteSum(_loss, {"feature": features, "label": labels}, batch, sampling),
        domains.L1Ball(features.shape[1], radius),
        [Affine(features, bounds, name="scores", batch=constraint_batch)],
        optimum=optimum,
        answer=np.asarray,
        name=f"logistic {features.shape[0]}x{features.shape[1]}",
        dtype=dtype,
    )


def _loss(x: Any, row: Any) -> jax.Array:
    return jnp.logaddexp(0.0, -row["label"] * jnp.dot(row["feature"], x))


def checked_data(features: Any, labels: Any) -> tuple[np.ndarray, np.ndarray]:
    """One row of numbers a datum and as many labels, each 1 or -1.

    >>> from mostfw.problems.logistic import checked_data
    >>> checked_data([[0.5, 1.0], [2.0, 0.0]], [1, -1])[1].tolist()
    [1.0, -1.0]
    """
    features = np.asarray(checks.data("the features", features), dtype=float)
    labels = np.asarray(checks.data("the labels", labels), dtype=float)
    if features.ndim != 2 or labels.shape != features.shape[:1]:
        raise ShapeError(
            f"the features have shape {features.shape} and the labels {labels.shape}: give one "
            "row of features and one label a datum."
        )
    odd = labels[np.abs(labels) != 1]
    if odd.size:
        raise InvalidInputError(f"a label is {odd[0]:g}: labels are 1 and -1.")
    return features, labels


def generated_labels(rows: int, dimension: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Gaussian features and labels drawn from a sparse logistic model.

    Of the columns, a quarter (at least one) decides the labels, the next half copies the deciding
    ones with noise of the same size (correlated and irrelevant), the rest is noise.

    >>> from mostfw.problems.logistic import generated_labels
    >>> features, labels = generated_labels(100, 8)
    >>> features.shape, sorted(set(labels.tolist()))
    ((100, 8), [-1.0, 1.0])
    """
    rows, dimension = checks.whole("rows", rows, 1), checks.whole("dimension", dimension, 1)
    rng = np.random.default_rng(checks.whole("seed", seed, 0))
    deciding = max(1, dimension // 4)
    copies = min(dimension // 2, dimension - deciding)
    features = rng.standard_normal((rows, dimension))
    copied = features[:, np.arange(copies) % deciding]
    middle = slice(deciding, deciding + copies)
    features[:, middle] = (features[:, middle] + copied) / np.sqrt(2)
    weights = rng.uniform(1.0, 2.0, deciding) * rng.choice([-1.0, 1.0], deciding)
    chance = 1 / (1 + np.exp(-features[:, :deciding] @ weights))
    return features, np.where(rng.random(rows) < chance, 1.0, -1.0)
