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
import scipy.sparse.linalg

from .. import linalg

# From this side on all eigenvalues of a matrix take longer (5 s and more on two cores) than a few
# products and a Cholesky factor, which prove the same.
DENSE_BELOW = 3000
EPS = float(np.finfo(np.float64).eps)
LANCZOS_ROUNDS = 50  # for several eigenvectors, which need not be exact


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


def lowest_sum(matrix: np.ndarray, count: int) -> Least:
    """A number not above the sum of the `count` least eigenvalues, of those that are negative.

    >>> import numpy as np
    >>> from mostfw.domains import lowest_sum
    >>> round(lowest_sum(np.diag([-2.0, -1.0, 3.0, 4.0]), 3).value, 6)
    -3.0
    """
    n = len(matrix)
    count = min(count, n)
    if count == 0:
        return Least(0.0, True)
    if n >= DENSE_BELOW and count < n // 4:
        return _lowest_sum_of_large(matrix, count)
    values = scipy.linalg.eigvalsh(matrix, subset_by_index=(0, count - 1), check_finite=False)
    size = float(np.abs(matrix).sum(axis=1).max())  # no eigenvalue is beyond it
    return Least(float(np.minimum(values, 0).sum()) - 4 * EPS * n * count * size, True)


def _lowest_sum_of_large(matrix: np.ndarray, count: int) -> Least:
    """By a few eigenvectors, and the least eigenvalue of what they leave.

    Let Q be about the vectors of the least eigenvalues t_i, and s the largest of these. The sum of
    the least eigenvalues of a sum is not below that of the sums. For Q diag(t - s) Q' it is the
    sum of t_i - s, and for what remains `count` times its least eigenvalue, which is near s.
    """
    values, vectors = _lowest_pairs(matrix, count)
    vectors, _ = np.linalg.qr(vectors)
    top = min(float(values.max()), 0.0) if values.size else 0.0
    under = np.minimum(values, top) - top
    rest = matrix - (vectors * under) @ vectors.T
    least = _lowest_of_large((rest + rest.T) / 2)
    return Least(float(under.sum()) * (1 + 1e-10) + count * min(least.value, 0.0), least.proved)


def _lowest_pairs(matrix: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    start = np.random.default_rng(0).standard_normal(len(matrix))
    lanczos: Any = scipy.sparse.linalg.eigsh
    try:
        return lanczos(matrix, count, which="SA", v0=start, tol=1e-6, maxiter=LANCZOS_ROUNDS)
    except scipy.sparse.linalg.ArpackNoConvergence as error:  # what there is serves as well
        return error.eigenvalues, error.eigenvectors


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
