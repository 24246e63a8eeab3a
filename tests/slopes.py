"""Two problems with x-dependent noise whose optimum, multiplier and Slater point are known."""

import jax
import jax.numpy as jnp
import numpy as np

import mostfw as fw


def _noisy_square(center, spread):
    """E d(xi) (x - c)^2 / 2 with E d = 1: the noise of the gradient is proportional to x - c."""

    def value(x, weights):
        return jnp.sum(weights * (x - center) ** 2) / 2

    def sample(key):
        return 1 + spread * jax.random.rademacher(key, center.shape, dtype=center.dtype)

    return fw.objectives.Sampled(
        value, sample, batch=1, whole=lambda x: jnp.sum((x - center) ** 2) / 2
    )


VECTOR_CENTER = np.array([0.9, -0.5, 0.8, 0.3, 0.7, 0.1])
VECTOR_BOUND = np.array([0.5, 0.4, 0.6, 0.2])
MATRIX_CENTER = np.array([0.9, 0.8, 0.7, 0.5, 0.4])
MATRIX_BOUND = np.full(3, 0.5)


def vector_problem(batch=None):
    """x_i <= b_i over a ball: x* = min(c, b) is inside; multipliers c - b; 0 is a Slater point."""
    rows = fw.constraints.Affine(
        np.eye(6)[:4], fw.sets.Box(-np.inf, VECTOR_BOUND), name="bound", batch=batch
    )
    return fw.Problem(
        _noisy_square(VECTOR_CENTER, 0.8),
        fw.domains.L2Ball(6, 2.0),
        [rows],
        optimum=float(np.sum(known_multiplier(vector_problem) ** 2) / 2),
    )


def matrix_problem(batch=None):
    """X_ii <= b over {X psd, tr X <= 4}: X* = diag(min(c, b)), the optimum inside the domain."""
    rows = fw.constraints.Affine(
        fw.maps.Entries([0, 1, 2], [0, 1, 2], symmetric=True),
        fw.sets.Box(-np.inf, MATRIX_BOUND),
        name="bound",
        batch=batch,
    )
    return fw.Problem(
        _noisy_square(np.diag(MATRIX_CENTER), 0.3),
        fw.domains.Spectrahedron(5, trace=4.0),
        [rows],
        optimum=float(np.sum(known_multiplier(matrix_problem) ** 2) / 2),
    )


def known_multiplier(make):
    center, bound = {
        vector_problem: (VECTOR_CENTER, VECTOR_BOUND),
        matrix_problem: (MATRIX_CENTER, MATRIX_BOUND),
    }[make]
    return np.maximum(center[: len(bound)] - bound, 0)


def decade_slope(iterations, errors):
    """The log-log slope over the last decade of the largest error in [k/2, k]."""
    iterations, errors = np.asarray(iterations), np.abs(errors)
    ends = np.geomspace(iterations[-1] / 10, iterations[-1], 13)
    worst = [errors[(iterations > k / 2) & (iterations <= k)].max() for k in ends]
    return np.polyfit(np.log(ends), np.log(worst), 1)[0]
