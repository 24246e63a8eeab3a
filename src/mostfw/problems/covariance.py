"""Estimation of a sparse covariance matrix from a stream of Gaussian vectors."""

from __future__ import annotations

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .. import checks, domains, maps, objectives, sets
from ..constraints import Affine
from ..errors import InvalidInputError, ShapeError
from ..problem import Problem

SAMPLINGS = ("shuffled", "replacement")
LARGEST = 10**6  # a side whose square no machine holds


def block_factor(n: int, blocks: int = 10, seed: int = 0) -> np.ndarray:
    """psi_1, ..., psi_blocks as columns: uniform in [-1, 1] on disjoint random supports.

    Their covariance W = sum psi_i psi_i' is block diagonal up to an order of the coordinates,
    which is what makes it sparse.

    >>> from mostfw.problems.covariance import block_factor
    >>> factor = block_factor(20, blocks=4)
    >>> factor.shape, bool((abs(factor) > 0).sum(axis=1).max() <= 1)
    ((20, 4), True)
    """
    blocks = checks.whole("blocks", blocks, 1, checks.whole("n", n, 1))
    seed = checks.whole("seed", seed, 0)
    rng = np.random.default_rng(seed)
    factor = np.zeros((n, blocks))
    for block, support in enumerate(np.array_split(rng.permutation(n), blocks)):
        factor[support, block] = rng.uniform(-1, 1, support.size)
    return factor


def covariance(
    n: int | None = None,
    *,
    factor: Any = None,
    data: Any = None,
    batch: float | int | None = 200,
    sampling: str | None = None,
    trace: float | None = None,
    l1_radius: float | None = None,
    blocks: int = 10,
    seed: int = 0,
    dtype: Any = np.float64,
) -> Problem:
    """min E ||X - ww'||^2/2 over {X psd, tr X <= trace} subject to ||vec X||_1 <= l1_radius.

    The vectors come from a generated block-sparse W (give `n`), from N(0, FF') (`factor`), or are
    the rows of `data`; with `n` or `factor` beside the data, W is their truth. `batch` rows of the
    data are drawn a step, in shuffled passes (`sampling="shuffled"`, the default where there are
    data) or with replacement ("replacement"); generated vectors never end. The bounds default
    to those of the truth (W, or the second moment of the data), so that it is feasible:
    trace = tr W and l1_radius = ||vec W||_1. The metric `relative_error` is ||X - W||^2/||W||^2,
    `l1_excess` is max(||vec X||_1 - l1_radius, 0)/l1_radius.

    >>> import mostfw as fw
    >>> problem = fw.problems.covariance(30, batch=10)
    >>> [constraint.name for constraint in problem.constraints]
    ['l1']
    """
    if (n is not None and factor is not None) or (n is None and factor is None and data is None):
        raise InvalidInputError("covariance needs one of n, factor= and data=, not n and factor=.")
    dtype = checks.float_dtype(dtype)
    if n is not None:
        n = checks.whole("n", n, 1, LARGEST)
        factor = block_factor(n, min(checks.whole("blocks", blocks, 1), n), seed)
    truth: Any = None
    if factor is not None:
        factor = np.asarray(checks.data("factor", factor), dtype=dtype)
        if factor.ndim != 2:
            raise ShapeError(f"factor has shape {factor.shape}: two axes are needed.")
        with np.errstate(over="ignore"):  # an infinite trace is refused below
            truth = factor @ factor.T
    known = truth is not None
    if data is not None:
        data = np.asarray(checks.data("data", data), dtype=dtype)
        passes = "shuffled" if sampling is None else sampling
        objective = objectives.Covariance(data=data, batch=batch, sampling=passes)
        truth = truth if known else data.T @ data / len(data)
    else:
        drawn = "replacement" if sampling is None else sampling
        objective = objectives.Covariance(factor=factor, batch=batch, sampling=drawn)
    trace = np.trace(truth) if trace is None else trace
    l1_radius = np.abs(truth).sum() if l1_radius is None else l1_radius
    trace = checks.number("trace", trace, above=0)
    l1_radius = checks.number("l1_radius", l1_radius, above=0)
    slack = 1 + 1e-9
    infeasible = np.trace(truth) > trace * slack or np.abs(truth).sum() > l1_radius * slack
    unknown = infeasible or (known and data is not None)  # W does not minimise over these data

    return Problem(
        objective,
        domains.Spectrahedron(truth.shape[0], trace=trace),
        [Affine(maps.Identity(symmetric=True), sets.L1Ball(l1_radius), name="l1")],
        optimum=None if unknown else _value_at(truth, data),
        metrics={"relative_error": RelativeError(truth), "l1_excess": Excess(l1_radius)},
        answer=np.asarray,
        feasible=functools.partial(shrunk, trace=trace, l1_radius=l1_radius),
        name=f"covariance n={truth.shape[0]}",
        dtype=dtype,
    )


def nearest(moment: Any, *, trace: float, l1_radius: float, dtype: Any = np.float64) -> Problem:
    """The same for a known second moment M: min ||X||^2/2 - <X, M>, the constant left out.

    So the optimum f* is about -||X*||^2/2, and a feasible X with a relative gap of t is at most
    sqrt(t) ||X*|| from X*, for f(X) - f* >= ||X - X*||^2/2.

    >>> import numpy as np
    >>> from mostfw.problems.covariance import nearest
    >>> print(nearest(np.eye(3), trace=3.0, l1_radius=2.0))
    min FiniteSum over Spectrahedron, subject to l1: Identity x in L1Ball(2)
    """
    dtype = checks.float_dtype(dtype)
    moment = np.asarray(checks.data("the moment", moment), dtype=dtype)
    # One name for all and no `feasible`: they would compile the measures anew for every moment.
    return Problem(
        objectives.FiniteSum(_half_square_less_fit, moment[None]),
        domains.Spectrahedron(moment.shape[0], trace=trace),
        [Affine(maps.Identity(symmetric=True), sets.L1Ball(l1_radius), name="l1")],
        name="nearest covariance",
        dtype=dtype,
    )


def _half_square_less_fit(x: Any, moment: Any) -> Any:
    return (x * (x / 2 - moment)).sum()


def nearest_bound(moment: Any, multiplier: Any, *, trace: float, l1_radius: float) -> float:
    """A lower bound on the optimum of `nearest`, from a multiplier L of ||vec X||_1 <= l1_radius.

    It is the dual function, min over the spectrahedron of ||X||^2/2 - <X, M - L>, less
    l1_radius max |L|, and less what rounding may have added. No linear bound is as high.

    >>> import numpy as np
    >>> from mostfw.problems.covariance import nearest_bound
    >>> bound = nearest_bound(np.eye(2), 0.5 * np.eye(2), trace=2.0, l1_radius=1.0)
    >>> round(bound, 6)  # X = I/2
    -0.75
    """
    moment, multiplier = np.asarray(moment, float), np.asarray(multiplier, float)
    shifted = moment - (multiplier + multiplier.T) / 2
    values = np.linalg.eigvalsh(shifted)
    kept = onto_solid_simplex(values, trace)
    limit = l1_radius * np.abs(multiplier).max()
    rounding = 1e-13 * len(values) * (np.sum(values**2) + limit)
    return float(np.sum(kept * (kept / 2 - values)) - limit - rounding)


def onto_solid_simplex(values: np.ndarray, total: float) -> np.ndarray:
    """The nearest point with entries >= 0 and a sum of at most `total`.

    >>> import numpy as np
    >>> from mostfw.problems.covariance import onto_solid_simplex
    >>> onto_solid_simplex(np.array([3.0, 2.0, -1.0]), 2.0).tolist()
    [1.5, 0.5, 0.0]
    """
    positive = np.maximum(values, 0)
    if positive.sum() <= total:
        return positive
    falling = np.sort(positive)[::-1]
    levels = (np.cumsum(falling) - total) / np.arange(1, len(falling) + 1)
    return np.maximum(positive - levels[falling > levels][-1], 0)


def shrunk(x: Any, *, trace: float, l1_radius: float) -> np.ndarray:
    """X times the largest number up to 1 that keeps both bounds: psd if X is.

    >>> import numpy as np
    >>> from mostfw.problems.covariance import shrunk
    >>> shrunk(np.eye(2), trace=3.0, l1_radius=1.0).tolist()
    [[0.5, 0.0], [0.0, 0.5]]
    """
    x = np.asarray(x)
    sizes = np.trace(x), np.abs(x).sum()
    ratios = [bound / size for bound, size in zip((trace, l1_radius), sizes, strict=True) if size]
    return x * min([1.0, *ratios])


class RelativeError(eqx.Module):
    """||X - W||^2 / ||W||^2."""

    truth: Any

    def __call__(self, x: jax.Array) -> jax.Array:
        truth = jnp.asarray(self.truth, x.dtype)
        return jnp.sum((x - truth) ** 2) / jnp.sum(truth**2)


class Excess(eqx.Module):
    """max(||vec X||_1 - radius, 0)/radius."""

    radius: float

    def __call__(self, x: jax.Array) -> jax.Array:
        return jnp.maximum(jnp.sum(jnp.abs(x)) - self.radius, 0) / self.radius


def _value_at(truth: np.ndarray, data: np.ndarray | None) -> float:
    """The objective at the truth W: (E ||w||^4 - ||W||^2)/2."""
    truth = truth.astype(float)
    size = np.sum(truth**2)
    if data is None:  # E ||w||^4 of a Gaussian
        fourth = np.trace(truth) ** 2 + 2 * size
    else:
        fourth = np.mean(np.sum(data.astype(float) ** 2, axis=1) ** 2)
    return float(fourth - size) / 2
