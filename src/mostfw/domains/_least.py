"""Numbers that are not above the least value of a linear function, rounding included.

A certificate rests on them, so they are computed on the host in float64, whatever a run uses.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg

from .. import linalg

# From this side on all eigenvalues of a matrix take longer (5 s and more on two cores) than a few
# products and a Cholesky factor, which prove the same.
DENSE_BELOW = 3000
EPS = float(np.finfo(np.float64).eps)


class Least(NamedTuple):
    """A number that no value of the linear function is below, and whether that is proved.

    >>> import numpy as np, mostfw as fw
    >>> fw.domains.Simplex(2).least(np.array([3.0, 1.0])).proved
    True
    """

    value: float
    proved: bool


def below(value: float, size: float = 0.0, roundings: float = 4.0) -> float:
    """`value` less what rounding in numbers of this size may have added to it."""
    return value - roundings * EPS * max(abs(value), size)


def sum_below(terms: np.ndarray) -> float:
    """A lower bound of the exact sum of products that are rounded each."""
    # NumPy sums blocks of 128 and these pairwise, so that errors grow with the logarithm only.
    roundings = 32 + math.log2(max(1, terms.size))
    return below(float(np.sum(terms)), float(np.sum(np.abs(terms))), roundings)


def host(array: Any) -> np.ndarray:
    """The array in float64 on the host."""
    return np.asarray(array, dtype=np.float64)


def lowest_eigenvalue(matrix: Any) -> Least:
    """A number not above the smallest eigenvalue of the symmetric part of a matrix."""
    matrix = host(matrix)
    matrix = (matrix + matrix.T) / 2
    if not np.all(np.isfinite(matrix)):
        return Least(-math.inf, False)
    if matrix.shape[0] >= DENSE_BELOW:
        return _lowest_of_large(matrix)
    values = scipy.linalg.eigvalsh(matrix, check_finite=False, overwrite_a=True)
    # The computed values are exact for a matrix that is off by a few n eps ||S|| at most.
    size = float(max(abs(values[0]), abs(values[-1])))
    return Least(below(float(values[0]), size, 4.0 * len(values)), True)


def _lowest_of_large(matrix: np.ndarray) -> Least:
    """By Lanczos steps, whose value no eigenvalue need be near, and a factor that proves it."""
    n = matrix.shape[0]
    with jax.enable_x64(True):
        found = linalg.smallest_eigenpair(
            jnp.asarray(matrix), jax.random.PRNGKey(0), tolerance=1e-9, dense_below=0
        )
        value, residual = float(found.value), float(found.residual)
    size = float(np.max(np.sum(np.abs(matrix), axis=1)))
    # A Ritz value is mostly much nearer to its eigenvalue than the residual says.
    for slack in 1e-11 * size + np.array([0.0, residual, 100 * residual + 1e-9 * size]):
        shift = value - float(slack)
        matrix[np.diag_indices(n)] -= shift
        trace = float(np.trace(matrix))
        proved = _has_factor(matrix)
        matrix[np.diag_indices(n)] += shift
        if proved:
            # Rump: a factor in floating point leaves lambda_min >= -(n + 2) eps trace.
            return Least(shift - 2 * (n + 2) * EPS * trace - 4 * EPS * size, True)
    return Least(value - residual - 1e-11 * size, False)


def _has_factor(matrix: np.ndarray) -> bool:
    try:
        scipy.linalg.cholesky(matrix, lower=True, check_finite=False)
    except np.linalg.LinAlgError:
        return False
    return True


def largest_singular_value(matrix: Any) -> Least:
    """A number not *below* the largest singular value of a matrix."""
    matrix = host(matrix)
    if not np.all(np.isfinite(matrix)):
        return Least(math.inf, False)
    if min(matrix.shape) < DENSE_BELOW:
        value = float(scipy.linalg.svdvals(matrix, check_finite=False)[0])
        return Least(value * (1 + 4 * max(matrix.shape) * EPS), True)
    small = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    scale = float(np.max(np.abs(small))) or 1.0  # squares must not overflow
    small = small / scale
    found = lowest_eigenvalue(-(small @ small.T))
    square = -found.value + 2 * small.shape[1] * EPS * float(np.sum(small**2))
    return Least(scale * math.sqrt(max(0.0, square)) * (1 + 4 * EPS), found.proved)
