"""Two problems with noise that depends on x, whose optimum and multiplier are known."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from .. import constraints, domains, maps, objectives, sets
from ..problem import Problem

VECTOR_CENTER = np.array([0.9, -0.5, 0.8, 0.3, 0.7, 0.1])
VECTOR_BOUND = np.array([0.5, 0.4, 0.6, 0.2])
MATRIX_CENTER = np.array([0.9, 0.8, 0.7, 0.5, 0.4])
MATRIX_BOUND = np.full(3, 0.5)


def vector_problem(batch: float | int | None = None, constrained: bool = True) -> Problem:
    """x_i <= b_i over a ball: x* = min(c, b) is inside; multipliers c - b; 0 is a Slater point.

    >>> from mostfw.experiments.known import vector_problem
    >>> round(vector_problem().optimum, 3)
    0.105
    """
    rows = constraints.Affine(
        np.eye(6)[:4], sets.Box(-np.inf, VECTOR_BOUND), name="bound", batch=batch
    )
    return Problem(
        _noisy_square(VECTOR_CENTER, 0.8),
        domains.L2Ball(6, 2.0),
        [rows] if constrained else [],
        optimum=float(np.sum(known_multiplier(vector_problem) ** 2) / 2) if constrained else 0.0,
        name="known vector",
        dtype=np.float64,
    )


def matrix_problem(batch: float | int | None = None) -> Problem:
    """X_ii <= b over {X psd, tr X <= 4}: X* = diag(min(c, b)), the optimum inside the domain.

    >>> from mostfw.experiments.known import matrix_problem
    >>> round(matrix_problem().optimum, 3)
    0.145
    """
    rows = constraints.Affine(
        maps.Entries([0, 1, 2], [0, 1, 2], symmetric=True),
        sets.Box(-np.inf, MATRIX_BOUND),
        name="bound",
        batch=batch,
    )
    return Problem(
        _noisy_square(np.diag(MATRIX_CENTER), 0.3),
        domains.Spectrahedron(5, trace=4.0),
        [rows],
        optimum=float(np.sum(known_multiplier(matrix_problem) ** 2) / 2),
        name="known matrix",
        dtype=np.float64,
    )


def known_multiplier(make: Callable[..., Problem]) -> np.ndarray:
    """The multipliers c - b of the constrained coordinates."""
    center, bound = {
        vector_problem: (VECTOR_CENTER, VECTOR_BOUND),
        matrix_problem: (MATRIX_CENTER, MATRIX_BOUND),
    }[make]
    return np.maximum(center[: len(bound)] - bound, 0)


def _noisy_square(center: np.ndarray, spread: float) -> objectives.Sampled:
    """E d(xi) (x - c)^2 / 2 with E d = 1: the noise of the gradient is proportional to x - c."""

    def value(x, weights):
        return jnp.sum(weights * (x - center) ** 2) / 2

    def sample(key):
        return 1 + spread * jax.random.rademacher(key, center.shape, dtype=center.dtype)

    return objectives.Sampled(
        value, sample, batch=1, whole=lambda x: jnp.sum((x - center) ** 2) / 2
    )


def decade_slope(iterations: np.ndarray, errors: np.ndarray) -> float:
    """The log-log slope over the last decade of the largest error in [k/2, k]; NaN if it is 0.

    >>> import numpy as np
    >>> from mostfw.experiments.known import decade_slope
    >>> k = np.arange(1.0, 1e4 + 1)
    >>> round(decade_slope(k, k**-0.5), 3)
    -0.5
    """
    iterations, errors = np.asarray(iterations), np.abs(errors)
    ends = np.geomspace(iterations[-1] / 10, iterations[-1], 13)
    worst = [errors[(iterations > k / 2) & (iterations <= k * (1 + 1e-9))].max() for k in ends]
    seen = np.array(worst) > 0  # an error that is exactly 0 has no logarithm
    if np.count_nonzero(seen) < 3:
        return float("nan")
    return float(np.polyfit(np.log(ends[seen]), np.log(np.array(worst)[seen]), 1)[0])
