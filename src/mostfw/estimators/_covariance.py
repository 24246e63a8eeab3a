"""A sparse covariance matrix, from samples in memory or from a stream of them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse.csgraph
import scipy.stats
from sklearn.utils.validation import check_is_fitted, validate_data

from .. import checks
from ..bounds import Bounds
from ..certificates import PROVED, Certificate
from ..errors import InvalidInputError
from ..method import Method
from ..problem import Problem
from ..problems.covariance import nearest, nearest_bound, onto_solid_simplex, shrunk
from ..result import History, Result, worst_violation
from ..solving import solve
from ._base import SolvingEstimator, cgal_in_units, ended_in_words, was_interrupted
from ._cost import Cost, Load

SIGNIFICANCE = 0.01  # the chance that any pair of unrelated Gaussian features is kept together
ARRAYS, PASSES = 30, 100  # of features by features, held and gone over in a step (docs/jobs.md)
LARGEST = 1e150  # of an entry
FIRST_ROUND = 128  # steps; then as many again as there were so far


@dataclasses.dataclass
class Moments:
    """The running mean and covariance of rows, exact for batches of any length.

    >>> import numpy as np
    >>> from mostfw.estimators._covariance import Moments
    >>> moments = Moments(1, centered=False)
    >>> for rows in ([[1.0]], [[2.0], [6.0]]):
    ...     moments.add(np.array(rows))
    >>> moments.count, float(moments.mean[0]), round(float(moments.covariance[0, 0]), 6)
    (3, 3.0, 4.666667)
    """

    features: int
    centered: bool
    count: int = 0

    def __post_init__(self) -> None:
        self.mean = np.zeros(self.features)
        self.scatter = np.zeros((self.features, self.features))

    def add(self, rows: np.ndarray) -> None:
        mean = np.zeros(self.features) if self.centered else rows.mean(axis=0)
        far, apart = rows - mean, mean - self.mean
        total = self.count + len(rows)
        self.scatter += far.T @ far
        self.scatter += np.outer(apart, apart) * (self.count * len(rows) / total)
        self.mean = self.mean + apart * (len(rows) / total)
        self.count = total

    @property
    def covariance(self) -> np.ndarray:
        return self.scatter / self.count


@dataclasses.dataclass(frozen=True)
class Target:
    """What X is fitted to and within which bounds, in units of the first mean variance."""

    moment: np.ndarray  # 0 between groups
    together: np.ndarray  # whether two features are in one group
    trace: float
    l1_radius: float

    def kept(self, x: np.ndarray) -> np.ndarray:
        """X made symmetric, without what joins groups, inside both bounds. Leaving out the blocks
        between groups keeps a matrix psd, which leaving out single entries would not."""
        x = np.where(self.together, (x + x.T) / 2, 0.0)
        return shrunk(x, trace=self.trace, l1_radius=self.l1_radius)

    def problem(self) -> Problem:
        return nearest(self.moment, trace=self.trace, l1_radius=self.l1_radius)

    def method(self) -> Method:
        """Exact gradients: the moment is at hand. MOST-FW's momentum with weight 1/k would keep
        X less the mean of the moments of all batches, which this is, batches of any length."""
        return cgal_in_units(float(np.linalg.norm(self.moment)) * self.trace, self.trace)

    def certificate(self, kept: np.ndarray, result: Result) -> Certificate:
        upper = float(np.sum(kept * (kept / 2 - self.moment)))
        lower = nearest_bound(
            self.moment, result.dual["l1"], trace=self.trace, l1_radius=self.l1_radius
        )
        return Certificate.of(
            lower=min(lower, upper),
            upper=upper,
            objective=result.objective,
            violation=worst_violation(result.last),
            kind=PROVED,
        )

    def support(self, kept: np.ndarray, result: Result) -> np.ndarray:
        """At the minimiser X is the projection of X + L onto the l1 ball, L the multiplier; near
        it the projection has the zeros that X only approaches."""
        ahead = np.abs(kept + result.dual["l1"])
        projected = onto_solid_simplex(ahead.reshape(-1), self.l1_radius)
        return (projected.reshape(ahead.shape) > 0) & self.together


class SparseCovariance(SolvingEstimator):
    """A covariance matrix with a small sum of absolute entries, for more features than samples.

    It minimises E ||X - ww'||^2/2 over the positive semidefinite X with tr X <= `trace`, subject
    to ||vec X||_1 <= radius, w the centered samples: of all such matrices the one nearest to the
    sample covariance S.

    Parameters
    ----------
    alpha : float in (0, 1] or None
        The radius is alpha ||vec S||_1: with 1 the answer is S, with less it is sparser. None lets
        the data choose. A pair of features counts as related if its sample correlation is larger
        than chance makes one, at 1% for all pairs together (Fisher's z for Gaussian samples). The
        radius is the sum of |S_ij| over related pairs and the diagonal, and features that no chain
        of related pairs joins are in different groups, between which the covariance is exactly 0.
    trace : float or None
        The largest trace, in the squared units of the data; None for the trace of S.
    assume_centered : bool
        Whether the samples have mean zero, so that none is taken off.
    batch : int
        Of a stream only: the rows for which one step is made. `partial_fit` makes at least one.
    tol : float
        A fit ends when the certified relative gap is this small; then `covariance_` is at most
        sqrt(tol) of its Frobenius norm from the exact minimiser, and usually far nearer.
    max_iter, time_limit : int, float or None
        Budgets of a fit: steps, and seconds of the steps.
    random_state : int, RandomState or None
        Of the starting vectors of the eigenvalue searches.
    verbose : int
        Not 0: what the fit will take, on standard error, and a progress bar.

    Attributes
    ----------
    covariance_ : symmetric, psd, inside both bounds
    support_ : boolean matrix, the entries that the l1 ball leaves nonzero. `covariance_` has exact
        zeros only between groups (`groups_`, one label a feature): single entries cannot be
        cleared without losing positive semidefiniteness.
    precision_ : its pseudo-inverse, worked out when first read
    location_ : the mean that was taken off
    radius_ : the l1 radius that was used
    certificate_ : bounds on the optimum, in units of the mean variance, as `result_` is
    n_iter_, n_samples_seen_, n_features_in_, result_, summary_ : as named; of a stream `result_`
        has the last record only, for those before are of other data

    Multiplying the data by a number multiplies the answer by its square: nothing depends on units.

    >>> import numpy as np
    >>> from mostfw.estimators import SparseCovariance
    >>> from mostfw.problems.covariance import block_factor
    >>> factor = block_factor(20, blocks=4)
    >>> samples = np.random.default_rng(0).normal(size=(50, 4)) @ factor.T
    >>> model = SparseCovariance(random_state=0).fit(samples)
    >>> print(model.summary_)
    Covariance of 20 features from 50 samples: 4 groups, 25% of the entries are not 0.
    >>> truth, sample = factor @ factor.T, np.cov(samples.T)
    >>> ours = model.error_norm(truth, scaling=False, squared=False)
    >>> bool(ours < np.linalg.norm(sample - truth))
    True
    """

    n_features_in_: int

    def __init__(
        self,
        alpha: float | None = None,
        trace: float | None = None,
        *,
        assume_centered: bool = False,
        batch: int = 1,
        tol: float = 1e-3,
        max_iter: int = 2000,
        time_limit: float | None = None,
        random_state: Any = None,
        verbose: int = 0,
        checkpoint: str | Path | None = None,
    ) -> None:
        self.alpha = alpha
        self.trace = trace
        self.assume_centered = assume_centered
        self.batch = batch
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.random_state = random_state
        self.verbose = verbose
        self.checkpoint = checkpoint

    def fit(self, X: Any, y: Any = None) -> SparseCovariance:
        """Fits the rows of X, or a stream: an iterator of batches of rows, each seen once."""
        self._forget()
        if isinstance(X, Iterator):
            for rows in X:
                self.partial_fit(rows)
            if not hasattr(self, "_moments"):
                raise InvalidInputError("the stream of batches is empty: give at least one.")
            return self
        self._take(X)
        remedy = "leave features out, or fit groups of related ones by themselves"
        features = self.n_features_in_
        self._announce(self.cost(self.covariance_), f"{features} features", remedy)
        target = self._target()
        if target is None:
            raise InvalidInputError(
                f"the samples do not vary (n_samples={self.n_samples_seen_}): there is no "
                "covariance to fit. Give samples that differ, or assume_centered=True."
            )
        problem, result = target.problem(), None
        while self._goes_on(result):
            done = 0 if result is None else result.iterations
            steps = min(max(done, FIRST_ROUND), self.max_iter - done)
            result = self._advanced(problem, target.method(), result, steps, self.time_limit)
            self._keep(target, result)
        return self

    def cost(self, X: Any) -> Cost:
        """What a fit of X will take at most: memory, and seconds if all `max_iter` steps are done.

        >>> import numpy as np
        >>> from mostfw.estimators import SparseCovariance
        >>> SparseCovariance(max_iter=100).cost(np.zeros((3, 9))).memory_bytes > 2**20
        True
        """
        self._check_parameters()
        load = Load(np.shape(X)[1] ** 2, arrays=ARRAYS, passes=PASSES)
        return load.cost(self.max_iter).within(self.time_limit)

    def partial_fit(self, X: Any, y: Any = None) -> SparseCovariance:
        """Takes in one more batch of rows and makes one step for every `batch` of them.

        The mean and the second moment are exact running ones; the point, its multipliers and the
        count of steps are carried on. Samples that do not vary yet are only counted.
        """
        rows = self._take(X)
        target = self._target()
        if target is not None:
            steps = math.ceil(rows / self.batch)
            problem, method = target.problem(), target.method()
            self._keep(target, self._advanced(problem, method, self.result_, steps, online=True))
        return self

    def score(self, X: Any, y: Any = None) -> float:
        """Minus ||covariance_ - S||_F^2/||S||_F^2, S the second moment of X about `location_`.

        The covariance may be singular, so that a Gaussian likelihood would not do. 0 is best.
        """
        check_is_fitted(self)
        rows = np.asarray(validate_data(self, X, dtype=np.float64, reset=False)) - self.location_
        moment = rows.T @ rows / len(rows)
        size = np.sum(moment**2)
        return -self.error_norm(moment, scaling=False) / (float(size) or 1.0)

    def error_norm(
        self, comp_cov: Any, norm: str = "frobenius", scaling: bool = True, squared: bool = True
    ) -> float:
        """The mean squared error of `covariance_` against another covariance.

        `norm` is "frobenius" or "spectral"; `scaling` divides the square by the number of
        features; `squared=False` takes the root.
        """
        check_is_fitted(self)
        norm = checks.choice("norm", norm, ("frobenius", "spectral"))
        error = np.asarray(comp_cov, dtype=float) - self.covariance_
        found = np.sum(error**2) if norm == "frobenius" else np.linalg.norm(error, 2) ** 2
        found = found / len(error) if scaling else found
        return float(found if squared else math.sqrt(found))

    @property
    def precision_(self) -> np.ndarray:
        """The pseudo-inverse of `covariance_`."""
        check_is_fitted(self)
        if self._precision is None:
            self._precision = np.asarray(scipy.linalg.pinvh(self.covariance_, check_finite=False))
        return self._precision

    def _forget(self) -> None:
        """A new fit begins: nothing of an earlier one is carried on."""
        vars(self).pop("_moments", None)

    def _take(self, X: Any) -> int:
        """Counts the rows in; how many they are."""
        self._check_parameters()
        first = not hasattr(self, "_moments")
        rows = np.asarray(validate_data(self, X, dtype=np.float64, reset=first))
        if rows.size and np.abs(rows).max() > LARGEST:
            raise InvalidInputError(
                f"the samples have entries up to {np.abs(rows).max():.3g}, whose squares are "
                "beyond floating point: give them in larger units."
            )
        if first:
            features = rows.shape[1]
            self._moments = Moments(features, bool(self.assume_centered))
            self._unit, self._precision, self.result_, self.certificate_ = None, None, None, None
            self.n_iter_, self.groups_ = 0, np.arange(features)
            self.covariance_ = np.zeros((features, features))
            self.support_ = np.zeros((features, features), dtype=bool)
        self._moments.add(rows)
        self.n_samples_seen_, self.location_ = self._moments.count, self._moments.mean
        self.summary_ = self._summary()
        return len(rows)

    def _check_parameters(self) -> None:
        if self.alpha is not None and checks.number("alpha", self.alpha, above=0) > 1:
            raise InvalidInputError(f"alpha is {self.alpha!r}: give a share in (0, 1], or None.")
        if self.trace is not None:
            checks.number("trace", self.trace, above=0)
        checks.whole("batch", self.batch, 1)
        self._check_budgets()

    def _target(self) -> Target | None:
        """None while the samples vary by no more than rounding."""
        moments = self._moments
        covariance = moments.covariance
        spread = float(np.trace(covariance))
        noise = np.finfo(float).eps * np.abs(moments.mean).max()
        if spread <= moments.features * (4 * noise) ** 2:
            return None
        if self._unit is None:
            self._unit = spread / moments.features
        together = related = np.ones_like(covariance, dtype=bool)
        if self.alpha is None:
            related = related_pairs(covariance, moments.count)
            self.groups_ = scipy.sparse.csgraph.connected_components(related, directed=False)[1]
            together = self.groups_[:, None] == self.groups_[None, :]
        else:
            self.groups_ = np.zeros(moments.features, dtype=int)
        share = 1.0 if self.alpha is None else self.alpha
        self.radius_ = share * float(np.abs(covariance[related]).sum())
        return Target(
            moment=np.where(together, covariance, 0.0) / self._unit,
            together=together,
            trace=(spread if self.trace is None else self.trace) / self._unit,
            l1_radius=self.radius_ / self._unit,
        )

    def _advanced(
        self,
        problem: Problem,
        method: Method,
        result: Result | None,
        steps: int,
        seconds: float | None = None,
        online: bool = False,
    ) -> Result:
        """The run carried on by some steps, on this problem's data and bounds. A stream's next
        batch makes another problem, which the records of the last one say nothing about."""
        same = result is not None and result.problem is problem
        if result is not None:
            bounds = Bounds(problem, certify=False)
            history = result.history if same else History()
            result = dataclasses.replace(result, problem=problem, history=history, bounds=bounds)
            seconds = None if seconds is None else seconds - result.seconds
        compiled = 0.0 if result is None else result.compile_seconds
        found = solve(
            problem,
            method,
            iterations=steps,
            seconds=seconds,
            seed=self._seed() if result is None else None,
            certify=False,  # `Target.certificate` is better and costs less
            record=() if online else None,
            progress=bool(self.verbose),
            warm_start=result,
            **({} if online else self._kept(f"from-{0 if result is None else result.iterations}")),
        )
        return dataclasses.replace(found, compile_seconds=compiled + found.compile_seconds)

    def _keep(self, target: Target, result: Result) -> None:
        kept = target.kept(result.x)
        certificate = target.certificate(kept, result)
        bounds = Bounds(result.problem)
        bounds.note(certificate.lower, proved=True)
        bounds.upper = certificate.upper
        self.result_, self.certificate_ = dataclasses.replace(result, bounds=bounds), certificate
        self.n_iter_, self._precision = result.iterations, None
        self.covariance_ = self._unit * kept
        self.support_ = target.support(kept, result)
        self.summary_ = self._summary()

    def _goes_on(self, result: Result | None) -> bool:
        if result is None or self.certificate_ is None:
            return True
        if was_interrupted(result):
            return False
        late = self.time_limit is not None and result.seconds >= self.time_limit
        near = self.tol is not None and self.certificate_.relative_gap <= self.tol
        return not (late or near) and result.iterations < self.max_iter

    def _summary(self) -> str:
        share = 100 * np.mean(self.covariance_ != 0)
        groups = len(np.unique(self.groups_))
        words = (
            f"Covariance of {self.n_features_in_} features from {self.n_samples_seen_} samples: "
            f"{groups} group{'s' * (groups > 1)}, {share:.3g}% of the entries are not 0."
        )
        return ended_in_words(words, self.result_)


def related_pairs(covariance: np.ndarray, samples: int) -> np.ndarray:
    """The pairs whose correlation is larger than that of unrelated Gaussian features is, but with
    a chance of `SIGNIFICANCE` for all pairs together (Fisher's z); the diagonal is related.

    >>> import numpy as np
    >>> from mostfw.estimators._covariance import related_pairs
    >>> related_pairs(np.array([[4.0, 1.9], [1.9, 1.0]]), samples=20).tolist()
    [[True, True], [True, True]]
    >>> related_pairs(np.array([[4.0, 0.5], [0.5, 1.0]]), samples=20).tolist()
    [[True, False], [False, True]]
    """
    features = len(covariance)
    alone = np.eye(features, dtype=bool)
    if samples <= 3 or features == 1:  # any two features may seem related by so few samples
        return alone
    pairs = features * (features - 1) / 2
    level = scipy.stats.norm.isf(SIGNIFICANCE / (2 * pairs))
    limit = math.tanh(level / math.sqrt(samples - 3))
    deviations = np.sqrt(np.diag(covariance))
    return (np.abs(covariance) > limit * np.outer(deviations, deviations)) | alone
