"""Reference optima, by algorithms that are not Frank-Wolfe, with bounds that prove them.

The matrix problems are min f(A) + g(B) subject to A = B, with f over a set of rows or entries and g
the indicator of a spectral set. Douglas-Rachford splitting (ADMM) alternates their closed-form
proximal steps. Whatever its iterates are, *any* matrix V proves a lower bound,

    inf_A f(A) + <V, A>  +  inf_B g(B) - <V, B>  <=  optimum,

both infima in closed form, and a feasible point near the iterates an upper one. Both hold up to the
rounding of one eigenvalue problem. NumPy and SciPy only, in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.optimize
import scipy.special

from .. import checks
from ..errors import InvalidInputError, ShapeError
from ..problems.completion import checked_bounds, observations, smallest_entry
from ..problems.kmeans import inertia, rounded, squared_distances
from ..problems.logistic import checked_data

# progress(iterations, value, lower, infeasibility), called where the bound is evaluated
Progress = Callable[[int, float, float, float], None]

_RELAXATION = 1.7  # over-relaxation: 1 is none, below 2 converges
_EVERY = 10  # iterations between two looks at bound and residuals


@dataclass(frozen=True)
class Reference:
    """An optimum with its proof: lower <= optimum <= upper up to rounding; `value` estimates it.

    `upper` is the objective of `x`, which is feasible. `infeasibility` is that of the iterates that
    `value` comes from, ||A - B||/max(||A||, ||B||); for logistic it is 0, the value being `upper`.
    `converged` tells whether `infeasibility` and `accuracy` met the tolerance.

    >>> from mostfw.experiments.reference import Reference
    >>> found = Reference(2.0, 1.5, 3.0, 0.0, 100, True, None)
    >>> found.accuracy, found.proven
    (0.25, 0.75)
    """

    value: float
    lower: float
    upper: float
    infeasibility: float
    iterations: int
    converged: bool
    x: Any

    @property
    def accuracy(self) -> float:
        """(value - lower)/|value|: the optimum is below the value by no more."""
        return self._relative(self.value - self.lower)

    @property
    def proven(self) -> float:
        """(upper - lower)/|value|: no number between the bounds is further from the optimum."""
        return self._relative(self.upper - self.lower)

    def _relative(self, gap: float) -> float:
        return max(gap, 0.0) / (abs(self.value) or 1.0)


@dataclass
class _Blocks:
    """What splitting needs of a problem: two proximal steps, the objective and the bound."""

    simple: Callable[[np.ndarray, float], np.ndarray]  # (M, rho): prox of f/rho at M
    spectral: Callable[[np.ndarray], tuple[np.ndarray, float]]  # projection, support of the rest
    objective: Callable[[np.ndarray], float]
    bound: Callable[[np.ndarray, float], float]  # (V, sup of <V, B>): the lower bound
    unit: float  # what objective and bound are multiples of


def _split(
    blocks: _Blocks, B: np.ndarray, tolerance: float, iterations: int, progress: Progress | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, Any]:
    """The last A and B, the V of the best bound, and (value, infeasibility, iterations, done)."""
    U, rho, lower, renew = np.zeros_like(B), 4.0, -math.inf, _EVERY
    least = 1e-6 * abs(blocks.objective(B)) + 1e-9  # what is small where the optimum is 0
    A, best, value, apart, k, done = B, U, math.nan, math.inf, 0, False
    while k < iterations and not done:
        k += 1
        A = blocks.simple(B - U, rho)
        M = _RELAXATION * A + (1 - _RELAXATION) * B + U
        previous, (B, support) = B, blocks.spectral(M)
        U = M - B
        if k % _EVERY and k < iterations:
            continue
        V = rho * U
        found = blocks.bound(V, rho * support)
        if found > lower:
            lower, best = found, V
        # f(A) + <V, A - B> is off by the product of two small errors, f(A) by one of them.
        value = blocks.objective(A) + float(np.sum(V * (A - B)))
        size = max(float(np.linalg.norm(A)), float(np.linalg.norm(B)), 1e-300)
        apart = float(np.linalg.norm(A - B)) / size
        if progress is not None:
            progress(k, blocks.unit * value, blocks.unit * lower, apart)
        done = apart <= tolerance and abs(value - lower) <= tolerance * max(abs(value), least)
        if k >= renew:
            # Steps that leave both residuals alike; ever rarer changes cannot spoil convergence.
            moved = rho * np.linalg.norm(B - previous) / max(float(np.linalg.norm(V)), 1e-300)
            ratio = math.sqrt(apart / moved) if moved > 0 and apart > 0 else 1.0
            if not 0.5 <= ratio <= 2:
                factor = min(max(ratio, 0.25), 4.0)
                rho, U = rho * factor, U / factor
            renew = k + max(_EVERY, k // 5)
    return A, B, best, (value, apart, k, done)


def _limits(tolerance: float, iterations: int) -> tuple[float, int]:
    return checks.number("tolerance", tolerance, above=0), checks.whole("iterations", iterations, 1)


def _onto_simplex(M: np.ndarray, total: float) -> np.ndarray:
    """Every row of M projected onto {r >= 0, sum of r = total}."""
    falling = -np.sort(-M, axis=1)
    excess = np.cumsum(falling, axis=1) - total
    count = np.arange(1, M.shape[1] + 1)
    active = np.count_nonzero(falling * count > excess, axis=1)
    level = excess[np.arange(len(M)), active - 1] / active
    return np.maximum(M - level[:, None], 0)


def _capped(spectrum: np.ndarray, total: float) -> np.ndarray:
    """A spectrum projected onto {w >= 0, sum of w <= total}."""
    positive = np.maximum(spectrum, 0)
    return positive if positive.sum() <= total else _onto_simplex(spectrum[None], total)[0]


def kmeans(
    points: Any,
    clusters: int,
    *,
    distances: bool = False,
    tolerance: float = 1e-5,
    iterations: int = 5000,
    progress: Progress | None = None,
) -> Reference:
    """The optimum of the k-means relaxation: min <D, X>, X psd, tr X <= K, X >= 0, X1 = 1.

    `points` has one row a point, or is D itself with `distances=True`. An iteration costs one
    dense eigenvalue problem.

    >>> import numpy as np
    >>> from mostfw.experiments import reference
    >>> found = reference.kmeans(np.array([[0.0], [1.0], [9.0], [10.0]]), clusters=2)
    >>> round(found.value, 3), found.lower <= found.upper, found.converged
    (2.0, True, True)
    """
    given = np.asarray(checks.data("the points", points), dtype=float)
    if given.ndim != 2 or (distances and given.shape[0] != given.shape[1]):
        raise ShapeError(f"the points have shape {given.shape}: give a row a point, or square D.")
    n = given.shape[0]
    clusters = checks.whole("clusters", clusters, 1, n)
    tolerance, iterations = _limits(tolerance, iterations)
    D = (given + given.T) / 2 if distances else squared_distances(given)
    # Entries of size 1, so that one rho is a fair start; all points may be equal.
    scale = float(np.linalg.norm(D)) / n or 1.0
    C = D / scale

    def spectral(M: np.ndarray) -> tuple[np.ndarray, float]:
        w, Q = np.linalg.eigh((M + M.T) / 2)
        p = _capped(w, clusters)
        kept = Q[:, p > 0]
        return (kept * p[p > 0]) @ kept.T, clusters * max(float(np.max(w - p)), 0.0)

    def bound(V: np.ndarray, support: float) -> float:
        return float(np.sum(np.min(C + V, axis=1))) - support

    blocks = _Blocks(
        simple=lambda M, rho: _onto_simplex(M - C / rho, 1.0),
        spectral=spectral,
        objective=lambda A: float(np.sum(C * A)),
        bound=bound,
        unit=scale,
    )
    inner = _inner_clustering(n, clusters)
    _, B, V, (value, apart, k, done) = _split(blocks, inner, tolerance, iterations, progress)
    x = _feasible_clustering(B, clusters)
    highest = float(np.linalg.eigvalsh((V + V.T) / 2)[-1])  # afresh: the proof rests on V alone
    lower = scale * bound(V, clusters * max(highest, 0.0))
    upper = float(np.sum(D * x))
    if not distances:  # a clustering is feasible too, and half its objective the inertia
        labels = rounded(given, B, clusters)
        if 2 * inertia(given, labels) < upper:
            x = np.asarray(labels[:, None] == labels[None, :], dtype=float)
            x /= x.sum(axis=1)
            upper = float(np.sum(D * x))
    return Reference(min(max(scale * value, lower), upper), lower, upper, apart, k, done, x)


def _inner_clustering(n: int, clusters: int) -> np.ndarray:
    """aI + b11' with rows that sum to 1, half way between trace 1 and K: inside of every bound."""
    a = (clusters - 1) / (2 * (n - 1)) if n > 1 else 0.0
    return a * np.eye(n) + (1 - a) / n


def _feasible_clustering(x: np.ndarray, clusters: int) -> np.ndarray:
    """x with its row sums put right, mixed with an inner point until nothing is violated."""
    n = len(x)
    missing = 1 - x.sum(axis=1)
    shift = (missing - missing.mean() / 2) / n
    x = x + shift[:, None] + shift[None, :]
    inner = _inner_clustering(n, clusters)
    corner = inner[0, -1] if n > 1 else inner[0, 0]
    pairs = [  # how far x and the inner point are from each bound, where positive is inside
        (float(np.linalg.eigvalsh(x)[0]), (clusters - 1) / (2 * (n - 1)) if n > 1 else 1.0),
        (float(x.min()), float(corner)),
        (clusters - float(np.trace(x)), clusters - float(np.trace(inner))),
    ]
    share = max([0.0, *(-out / (inside - out) for out, inside in pairs if out < 0)])
    return x + min(share, 1.0) * (inner - x)


def completion(
    entries: Any,
    *,
    radius: float,
    shape: Any = None,
    bounds: tuple[float, float] = (1.0, 5.0),
    tolerance: float = 1e-5,
    iterations: int = 5000,
    progress: Progress | None = None,
) -> Reference:
    """The optimum of `problems.completion` with the same arguments.

    An iteration costs one singular value decomposition.

    >>> import numpy as np
    >>> from mostfw.experiments import reference
    >>> found = reference.completion(np.array([[7.0, np.nan], [np.nan, 3.0]]), radius=8.0)
    >>> round(found.value, 3), found.lower <= found.upper, found.converged
    (1.0, True, True)
    """
    rows, columns, values, shape = observations(entries, shape)
    lo, hi = checked_bounds(bounds)
    radius = checks.number("radius", radius, above=0)
    flat = np.full(shape, min(max(0.0, lo), hi))  # the entries nearest to 0 have least norm
    least = smallest_entry(lo, hi) * math.sqrt(flat.size)
    if radius < least:
        raise InvalidInputError(
            f"radius is {radius:g}, but entries in [{lo:g}, {hi:g}] need {least:g}: raise it."
        )
    tolerance, iterations = _limits(tolerance, iterations)
    count, total = np.zeros(shape), np.zeros(shape)
    np.add.at(count, (rows, columns), 1.0)  # an entry may be observed several times
    np.add.at(total, (rows, columns), values)
    constant = float(np.sum(values**2)) / 2

    def objective(A: np.ndarray) -> float:  # the sum; the mean is taken at the end
        return float(np.sum((A[rows, columns] - values) ** 2)) / 2

    def spectral(M: np.ndarray) -> tuple[np.ndarray, float]:
        left, s, right = np.linalg.svd(M, full_matrices=False)
        p = _capped(s, radius)
        return (left * p) @ right, radius * float(np.max(s - p))

    def bound(V: np.ndarray, support: float) -> float:
        slope = np.where(V > 0, -math.inf, math.inf)  # where nothing is observed, to a bound
        a = np.clip(np.divide(total - V, count, out=slope, where=count > 0), lo, hi)
        return float(np.sum(count * a**2 / 2 + (V - total) * a)) + constant - support

    blocks = _Blocks(
        simple=lambda M, rho: np.clip((total + rho * M) / (count + rho), lo, hi),
        spectral=spectral,
        objective=objective,
        bound=bound,
        unit=1 / len(values),
    )
    A, _, V, (value, apart, k, done) = _split(blocks, flat, tolerance, iterations, progress)
    size = float(np.linalg.norm(A, "nuc"))
    over = (size - radius) / (size - least) if size > radius else 0.0
    x = A + over * (flat - A)  # in the box as both are, and in the ball by convexity of the norm
    lower = bound(V, radius * float(np.linalg.norm(V, 2))) / len(values)
    upper, value = objective(x) / len(values), value / len(values)
    return Reference(min(max(value, lower), upper), lower, upper, apart, k, done, x)


def logistic(
    features: Any,
    labels: Any,
    *,
    radius: float = 1.5,
    score_bound: float = 1.5,
    tolerance: float = 1e-5,
    iterations: int = 500,
) -> Reference:
    """The optimum of `problems.logistic` with the same arguments, by sequential least squares.

    With x = p - q, p and q >= 0, all constraints are linear. The loss is convex, hence above its
    tangent at x, and a linear program (HiGHS) has the least value of that: the lower bound.

    >>> from mostfw.experiments import reference
    >>> found = reference.logistic([[2.0, 0.0], [0.0, 1.0]], [1, -1], radius=1.0, score_bound=0.5)
    >>> round(found.value, 3), found.lower <= found.upper, found.converged
    (0.474, True, True)
    """
    features, labels = checked_data(features, labels)
    radius = checks.number("radius", radius, above=0)
    score_bound = checks.number("score_bound", score_bound, above=0)
    tolerance, iterations = _limits(tolerance, iterations)
    dimension = features.shape[1]
    signed = -labels[:, None] * features

    def loss(x: np.ndarray) -> tuple[float, np.ndarray]:
        scores = signed @ x
        slope = scipy.special.expit(scores) @ signed / len(labels)
        return float(np.mean(np.logaddexp(0.0, scores))), slope

    def split_loss(pq: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = loss(pq[:dimension] - pq[dimension:])
        return value, np.concatenate([slope, -slope])

    split = np.hstack([features, -features])
    G = np.vstack([np.ones((1, 2 * dimension)), split, -split])  # G (p, q) <= limits
    limits = np.concatenate([[radius], np.full(2 * len(labels), score_bound)])
    found = scipy.optimize.minimize(
        split_loss,
        np.zeros(2 * dimension),
        jac=True,
        method="SLSQP",
        bounds=[(0, None)] * (2 * dimension),
        constraints={"type": "ineq", "fun": lambda z: limits - G @ z, "jac": lambda _: -G},
        options={"ftol": 1e-14, "maxiter": iterations},
    )
    x = found.x[:dimension] - found.x[dimension:]
    # 0 is inside of every bound, so that shrinking makes a point a hair outside feasible.
    x = x / max(1.0, np.abs(x).sum() / radius, np.abs(features @ x).max() / score_bound)
    value, slope = loss(x)
    tangent = scipy.optimize.linprog(
        np.concatenate([slope, -slope]), A_ub=G, b_ub=limits, method="highs"
    )
    # HiGHS's point may be outside by its tolerance; its multipliers (<= 0) prove a bound, any do.
    dual = np.minimum(tangent.ineqlin.marginals, 0.0)
    spare = np.concatenate([slope, -slope]) - G.T @ dual  # >= 0 up to that tolerance
    lower = value - float(slope @ x) + float(dual @ limits) + radius * min(float(spare.min()), 0.0)
    done = value - lower <= tolerance * abs(value)
    return Reference(value, lower, value, 0.0, int(found.nit), done, x)
