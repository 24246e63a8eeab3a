"""k-means clustering with a proof of how good it is."""

from __future__ import annotations

import functools
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from .. import checks
from ..certificates import Certificate
from ..errors import MostFWWarning
from ..method import Method
from ..problems.kmeans import cluster_matrix, inertia, kmeans, rounded, squared_distances
from ..rounding import rounded_up
from ..trees import replaced
from ._base import SolvingEstimator, cgal_in_units, ended_in_words
from ._cost import Cost, estimate
from ._kept import Kept

STARTS, LAST_STARTS = 2, 10  # of Lloyd's steps: at each look of a run, and at its end


class SDPKMeans(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, SolvingEstimator):
    """k-means clustering by its semidefinite relaxation: with a lower bound on every clustering.

    - `n_clusters`: how many clusters at most.
    - `tol`: the fit ends when the inertia is proved to be within this share of the best possible.
      Where the relaxation leaves a gap that never happens, and `max_iter` steps or `time_limit`
      seconds of them end it.
    - `batch`: None for exact gradients; else the share or number of distances drawn for a step.
    - `dtype`: "float32" steps take half as long; the bound then is numerical evidence, no proof.
    - `verbose`: 1 says what the fit will take, on standard error, and shows a progress bar.

    A fit leaves `labels_`, `cluster_centers_`, `inertia_`, `inertia_bound_` (no clustering has a
    lower inertia), `ratio_` = inertia_/inertia_bound_, `summary_` (that in words), `certificate_`
    (of the relaxation, whose value is twice an inertia), `result_` (the run, in units in which the
    largest coordinate is about 1; None where none was needed), `n_iter_` and `n_features_in_`.
    Memory and time go with the square of the number of samples: `cost(X)` tells.

    >>> import numpy as np
    >>> from mostfw.estimators import SDPKMeans
    >>> points = np.array([[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]])
    >>> clusters = SDPKMeans(n_clusters=2, random_state=0).fit(points)
    >>> clusters.labels_.tolist(), round(clusters.inertia_, 6)
    ([0, 0, 0, 1, 1, 1], 0.04)
    >>> print(clusters.summary_)
    the inertia of this clustering is the best possible (to 0.1%)
    >>> clusters.predict([[0.3], [4.0]]).tolist()
    [0, 1]
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        tol: float | None = 1e-3,
        max_iter: int = 3000,
        time_limit: float | None = None,
        batch: float | int | None = None,
        random_state: Any = None,
        dtype: str = "float64",
        verbose: int = 0,
        checkpoint: str | Path | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.batch = batch
        self.random_state = random_state
        self.dtype = dtype
        self.verbose = verbose
        self.checkpoint = checkpoint

    def fit(self, X: Any, y: Any = None) -> SDPKMeans:
        """Clusters the rows of X."""
        self._check_parameters()
        points = np.asarray(validate_data(self, X, dtype=np.float64))
        centred, unit = _in_own_units(points)
        labels = self._plain_answer(centred)
        if labels is None:
            labels = self._clustered(centred)
        else:
            value = 2 * inertia(centred, labels)
            self.result_, self.n_iter_ = None, 0
            self.certificate_ = Certificate.of(lower=value, upper=value, objective=value)
        self._keep(points, centred, unit, _ordered(labels))
        return self

    def cost(self, X: Any) -> Cost:
        """What a fit of X will take at most: memory, and seconds if all `max_iter` steps are done.

        >>> import numpy as np
        >>> from mostfw.estimators import SDPKMeans
        >>> SDPKMeans(max_iter=100).cost(np.zeros((1000, 2))).memory_bytes > 2**20
        True
        """
        self._check_parameters()
        return estimate(len(X), self.max_iter, self.dtype).within(self.time_limit)

    def predict(self, X: Any) -> np.ndarray:
        """The number of the nearest center for each row."""
        return np.argmin(self.transform(X), axis=1)

    def transform(self, X: Any) -> np.ndarray:
        """The distance to each center for each row."""
        check_is_fitted(self)
        points = np.asarray(validate_data(self, X, dtype=np.float64, reset=False))
        differences = [np.linalg.norm(points - center, axis=1) for center in self.cluster_centers_]
        return np.stack(differences, axis=1)

    def score(self, X: Any, y: Any = None) -> float:
        """Minus the inertia of X about the centers: higher is better."""
        return -float(np.sum(self.transform(X).min(axis=1) ** 2))

    @property
    def _n_features_out(self) -> int:
        return len(self.cluster_centers_)

    def _check_parameters(self) -> None:
        checks.whole("n_clusters", self.n_clusters, 1)
        self._check_budgets()
        checks.choice("dtype", self.dtype, ("float32", "float64"))

    def _plain_answer(self, points: np.ndarray) -> np.ndarray | None:
        """Labels where no run is needed: one cluster, or one for each different point."""
        if self.n_clusters == 1:
            return np.zeros(len(points), dtype=int)
        different, labels = np.unique(points, axis=0, return_inverse=True)
        if len(different) > self.n_clusters:
            return None
        if len(different) < self.n_clusters:
            warnings.warn(
                f"n_clusters is {self.n_clusters}, but only {len(different)} of the samples "
                "differ: each of these is a cluster, and there are no others.",
                MostFWWarning,
                stacklevel=3,
            )
        return labels.reshape(-1)

    def _clustered(self, points: np.ndarray) -> np.ndarray:
        """The best labels that a run has come by."""
        remedy = "fit a part of them, such as a random sample, and predict the labels of the others"
        self._announce(self.cost(points), f"{len(points)} samples", remedy)
        exact = self.batch is None
        labels = functools.partial(rounded, points, clusters=self.n_clusters)
        kept = Kept(
            functools.partial(labels, starts=STARTS),
            functools.partial(inertia, points),
            cluster_matrix,
        )
        problem = kmeans(points, self.n_clusters, batch=self.batch, stored=exact, dtype=self.dtype)
        # A run's measures are compiled anew for another name or answer.
        problem = replaced(problem, answer=None, feasible=kept, name="kmeans")
        result = self._solve(problem, _cgal(points, self.n_clusters) if exact else None)
        kept.rounded = functools.partial(labels, starts=LAST_STARTS)
        kept(result.x)
        return kept.best

    def _keep(
        self, points: np.ndarray, centred: np.ndarray, unit: float, labels: np.ndarray
    ) -> None:
        value, known = inertia(centred, labels), self.certificate_
        bound = 0.0 if known is None else min(max(0.0, float(known.lower) / 2), value)
        groups = range(int(labels.max()) + 1)
        self.labels_ = labels.astype(np.int32)
        self.cluster_centers_ = np.stack([points[labels == c].mean(axis=0) for c in groups])
        self.inertia_, self.inertia_bound_ = value * unit**2, bound * unit**2
        self.ratio_ = _ratio(value, bound)
        self.summary_ = ended_in_words(_in_words(self.ratio_), self.result_)
        if known is not None:  # in the units of X
            self.certificate_ = Certificate.of(
                lower=2 * self.inertia_bound_,
                upper=2 * self.inertia_,
                objective=known.objective * unit**2,
                violation=known.violation,
                kind=known.kind,
            )


def _in_own_units(points: np.ndarray) -> tuple[np.ndarray, float]:
    """The points about their mean over a power of two, which no digit is lost by, and that."""
    centred = points - points.mean(axis=0)
    largest = float(np.abs(centred).max())
    unit = 2.0 ** math.frexp(largest)[1] if largest > 0 else 1.0
    return centred / unit, unit


def _cgal(points: np.ndarray, clusters: int) -> Method:
    """Of the atoms X = K v v', X1 is longest for v = 1/sqrt(n)."""
    value = clusters * float(np.linalg.norm(squared_distances(points)))
    return cgal_in_units(value, clusters * math.sqrt(len(points)), float(clusters))


def _ordered(labels: np.ndarray) -> np.ndarray:
    """The clusters numbered without gaps in the order of their first members."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse.reshape(-1)]


def _ratio(value: float, bound: float) -> float:
    if value <= bound:
        return 1.0
    return value / bound if bound > 0 else math.inf


def _in_words(ratio: float) -> str:
    if math.isinf(ratio):
        return "nothing is known about how much lower the inertia of another clustering may be"
    if ratio <= 1.001:
        return "the inertia of this clustering is the best possible (to 0.1%)"
    excess = rounded_up(100 * (ratio - 1))
    return f"the inertia of this clustering is at most {excess}% above the best possible"
