"""The unknown entries of a matrix of low rank whose entries lie in a known range."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from .. import checks
from ..errors import InvalidInputError, ShapeError
from ..method import Method
from ..problem import Problem
from ..problems.completion import checked_bounds, completion, observations, pulled, smallest_entry
from ..result import Result
from ..rounding import rounded_up
from ..solving import solve
from ..trees import replaced
from ._base import SolvingEstimator, cgal_in_units, ended_in_words, was_interrupted
from ._cost import Cost, Load
from ._refit import Entries, LowRank, Refit, chosen, error

HELD_OUT = 0.2  # of the observations
FEWEST_HELD_OUT = 5  # below, there is nothing to choose by
RANKS = (1.1, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 10.0, 16.0, 25.0, 40.0)  # radii are tried in turn
FALLBACK_RANK = 2.0
PATIENCE = 2  # radii that may bring nothing before the search ends
SEARCH_SHARE = 4  # a radius is tried with this part of the steps
TRIED = 6  # radii, about
# What a fit takes, as measured (docs/jobs.md): arrays of the matrix's shape, and passes over one.
# A try compiles anew, for its entries are fewer.
ARRAYS, PASSES, REFIT_PASSES, COMPILING_AGAIN = 40, 50, 1e5, 4.0
MOST_REFITTED = 40  # ranks of a refit, where none is given


class MatrixCompletion(OneToOneFeatureMixin, TransformerMixin, SolvingEstimator):
    """Fills a matrix from some of its entries: low rank by a nuclear-norm ball, entries in a box.

    It minimises the mean of (X_ij - r_ij)^2/2 over the known entries, over the matrices whose
    singular values sum to at most a radius, subject to bounds[0] <= X_ij <= bounds[1] for all.

    Parameters
    ----------
    rank_bound : int or None
        The rank r that is thought enough. It sets the radius to what no matrix of rank r exceeds
        whose entries have the mean and the spread of the known ones: sqrt(mn) (|mean| + sqrt(r - 1)
        deviation), or sqrt(r mn) times their root mean square if that is the valid bound.
    bounds : (lower, upper)
        The range of all entries. Observed ones may lie outside: they are noisy.
    radius : float or None
        The radius itself, whatever `rank_bound` says. If neither is given, radii of growing rank
        are tried on a random 80% of the known entries, and the one that predicts the other 20% best
        is used for all of them.
    refit : bool
        Whether to fit a matrix of rank `rank_bound` (or of the rank that predicts best) to the
        known entries anew, from the convex problem's point, without the shrinkage that the radius
        brings. It is kept if it predicts a fifth of the known entries better from the others than
        the convex problem's point does. Nothing is proved for it.
    tol : float
        A fit ends when the certified relative gap of the mean squared error is this small.
    max_iter, time_limit : int, float or None
        Budgets: steps of the last fit, and seconds of its steps. A radius is tried with a quarter
        of the steps, and so is the one that a refit is compared with.
    random_state : int, RandomState or None
        Of the entries held out, and of the starting vectors of the singular value searches.
    verbose : int
        Not 0: what the fit will take, on standard error, and a progress bar.

    Attributes
    ----------
    matrix_ : the completed matrix, inside the box. It is the refit, or else `result_.x`, which is
        inside the ball but may leave the box by a little, clipped to the box; how far that is
        clipped is `clipped_by_`.
    refit_ : None where `matrix_` is no refit; else its `rank`, `ridge`, and `held_out_error`, with
        the `convex_error` of the point it replaced
    singular_values_ : of `matrix_`, largest first
    radius_ : the radius that was used
    held_out_ : rows (radius, root mean squared error), one a radius tried; None if none was
    certificate_ : bounds on the smallest possible mean squared error (halved) of the convex
        problem. They say nothing about a refit, which is outside of its ball.
    n_iter_, n_features_in_, result_, summary_ : as named

    >>> import numpy as np
    >>> from mostfw.estimators import MatrixCompletion
    >>> known = np.array([[5.0, 5.0, np.nan], [5.0, 5.0, 1.0], [5.0, 5.0, 1.0]])
    >>> model = MatrixCompletion(rank_bound=1, max_iter=500, random_state=0).fit(known)
    >>> model.transform(known).round().tolist()
    [[5.0, 5.0, 1.0], [5.0, 5.0, 1.0], [5.0, 5.0, 1.0]]
    >>> model.predict([(0, 2)]).round().tolist()
    [1.0]
    """

    def __init__(
        self,
        rank_bound: int | None = None,
        *,
        bounds: tuple[float, float] = (1, 5),
        radius: float | None = None,
        refit: bool = True,
        tol: float = 1e-2,
        max_iter: int = 3000,
        time_limit: float | None = None,
        random_state: Any = None,
        verbose: int = 0,
        checkpoint: str | Path | None = None,
    ) -> None:
        self.rank_bound = rank_bound
        self.bounds = bounds
        self.radius = radius
        self.refit = refit
        self.tol = tol
        self.max_iter = max_iter
        self.time_limit = time_limit
        self.random_state = random_state
        self.verbose = verbose
        self.checkpoint = checkpoint

    def fit(self, X: Any, y: Any = None) -> MatrixCompletion:
        """X is a matrix with NaN for what is unknown, or a tuple (rows, columns, values)."""
        self._check_budgets()
        bounds = checked_bounds(self.bounds)
        *entries, shape = self._observations(X, reset=True)
        entries = (entries[0], entries[1], entries[2])
        self._announce(
            self._cost(shape), f"{shape[0]} by {shape[1]} entries", "leave rows or columns out"
        )
        self.held_out_, self.refit_ = None, None
        parts = _parted(entries, self._seed())
        self.radius_, trial = self._chosen_radius(entries, parts, shape, bounds)
        result = self._completed(entries, shape, trial)
        self.matrix_ = np.clip(result.x, *bounds)
        self.clipped_by_ = float(np.abs(self.matrix_ - result.x).max())
        if self.refit and parts is not None and not was_interrupted(result):
            self._refit(entries, parts, shape, trial)
        self.singular_values_ = np.linalg.svd(self.matrix_, compute_uv=False)
        self.summary_ = ended_in_words(self._summary(entries), result)
        return self

    def cost(self, X: Any) -> Cost:
        """What a fit of X will take at most: memory, and seconds if all `max_iter` steps are done.

        >>> import numpy as np
        >>> from mostfw.estimators import MatrixCompletion
        >>> MatrixCompletion(max_iter=100).cost(np.ones((3, 9))).memory_bytes > 2**20
        True
        """
        self._check_budgets()
        *_, shape = observations(X)
        return self._cost(shape)

    def transform(self, X: Any) -> np.ndarray:
        """X with its NaN filled in, row by row as fitted; a tuple of entries gives the matrix."""
        check_is_fitted(self)
        if isinstance(X, tuple):
            return self.matrix_.copy()
        X = self._matrix(X, reset=False)
        unknown = np.isnan(X)
        if not unknown.any():
            return X
        if len(X) != len(self.matrix_):
            raise ShapeError(
                f"X has {len(X)} rows, but the matrix was fitted with {len(self.matrix_)}: only "
                "those can be filled in. Fit again with the new rows."
            )
        return np.where(unknown, self.matrix_, X)

    def predict(self, pairs: Any) -> np.ndarray:
        """The completed values at (row, column) pairs, one a row of `pairs`."""
        check_is_fitted(self)
        places = np.asarray(pairs)
        if places.ndim != 2 or places.shape[1] != 2 or places.dtype.kind not in "iu":
            raise InvalidInputError(
                f"pairs have shape {places.shape} and hold {places.dtype}: give whole numbers "
                "(row, column), one pair a row."
            )
        inside = (places >= 0) & (places < self.matrix_.shape)
        if not inside.all():
            first = places[~inside.all(axis=1)][0].tolist()
            raise InvalidInputError(
                f"pair {first} is outside the matrix of shape {self.matrix_.shape}: count from 0."
            )
        return self.matrix_[places[:, 0], places[:, 1]]

    def score(self, X: Any, y: Any = None) -> float:
        """Minus the root mean squared error on the known entries of X; 0 is best."""
        check_is_fitted(self)
        rows, columns, values, shape = self._observations(X, reset=False)
        if shape[0] > self.matrix_.shape[0] or shape[1] > self.matrix_.shape[1]:
            raise ShapeError(f"X has shape {shape}, but the matrix {self.matrix_.shape}.")
        return -error(self.matrix_, (rows, columns, values))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _cost(self, shape: tuple[int, int]) -> Cost:
        """Where the radius is searched, most of the tries may come to nothing, but not all."""
        searched = self.radius is None and self.rank_bound is None
        refit = checks.flag("refit", self.refit)
        steps = self.max_iter * (1 + (TRIED if searched else refit) / SEARCH_SHARE)
        load = Load(shape[0] * shape[1], ARRAYS, PASSES, last=REFIT_PASSES, besides=COMPILING_AGAIN)
        return load.cost(round(steps)).within(self.time_limit)

    def _matrix(self, X: Any, reset: bool) -> np.ndarray:
        rules: dict[str, Any] = {"dtype": np.float64, "ensure_all_finite": "allow-nan"}
        return np.asarray(validate_data(self, X, reset=reset, copy=True, **rules))

    def _observations(self, X: Any, reset: bool) -> Any:
        """Rows, columns and values of what is known, and the shape."""
        found = observations(X if isinstance(X, tuple) else self._matrix(X, reset))
        if isinstance(X, tuple) and reset:
            self.n_features_in_ = found[3][1]
        return found

    def _posed(
        self, entries: Entries, shape: tuple[int, int], radius: float
    ) -> tuple[Problem, Method]:
        """The problem and its method: exact gradients, for all observations fit into one step."""
        bounds = checked_bounds(self.bounds)
        problem = completion(entries, radius=radius, shape=shape, bounds=bounds)
        problem = replaced(problem, answer=None, feasible=Inside(bounds, radius), name="completion")
        gradient = float(np.linalg.norm(entries[2])) / len(entries[2])
        return problem, cgal_in_units(gradient * radius, radius)

    def _chosen_radius(
        self,
        entries: Entries,
        parts: tuple[Entries, Entries] | None,
        shape: tuple[int, int],
        bounds: tuple[float, float],
    ) -> tuple[float, Result | None]:
        """The radius, and the run on a part of the entries that has shown it, if one has."""
        if self.radius is not None:
            return checks.number("radius", self.radius, above=0), None
        values = np.clip(entries[2], *bounds)
        if self.rank_bound is not None:
            rank = checks.whole("rank_bound", self.rank_bound, 1)
            return rank_radius(values, shape, min(rank, *shape), bounds), None
        if parts is None:
            return rank_radius(values, shape, min(FALLBACK_RANK, *shape), bounds), None
        return self._searched_radius(parts, shape, bounds)

    def _searched_radius(
        self,
        parts: tuple[Entries, Entries],
        shape: tuple[int, int],
        bounds: tuple[float, float],
    ) -> tuple[float, Result]:
        """The radius whose fit to some of the entries predicts the others best, and that fit."""
        train, test = parts
        tried: list[tuple[float, float]] = []
        runs: list[Result] = []
        best = 0
        for rank in (rank for rank in RANKS if rank <= min(shape)):
            radius = rank_radius(np.clip(train[2], *bounds), shape, rank, bounds)
            runs.append(self._tried(train, shape, radius))
            tried.append((radius, error(np.clip(runs[-1].x, *bounds), test)))
            best = min(range(len(tried)), key=lambda i: tried[i][1])
            if was_interrupted(runs[-1]):
                best = len(runs) - 1  # whose status tells
                break
            if len(tried) - 1 - best >= PATIENCE:
                break
        self.held_out_ = np.array(tried)
        return tried[best][0], runs[best]

    def _tried(self, train: Entries, shape: tuple[int, int], radius: float) -> Result:
        return solve(
            *self._posed(train, shape, radius),
            iterations=max(1, self.max_iter // SEARCH_SHARE),
            seconds=self.time_limit,
            seed=self._seed(),
            certify=False,
            record=(),
            progress=bool(self.verbose),
            **self._kept(f"trial-{radius:.9g}"),
        )

    def _completed(self, entries: Entries, shape: tuple[int, int], trial: Result | None) -> Result:
        """The run on all entries: the shortest one there is if the search was interrupted."""
        posed = self._posed(entries, shape, self.radius_)
        if trial is None or not was_interrupted(trial):
            return self._solve(*posed)
        return self._solve(*posed, interrupted=trial)

    def _refit(
        self,
        entries: Entries,
        parts: tuple[Entries, Entries],
        shape: tuple[int, int],
        trial: Result | None,
    ) -> None:
        """Puts a refit in the place of the convex problem's point if it predicts better."""
        bounds, (train, test) = checked_bounds(self.bounds), parts
        trial = self._tried(train, shape, self.radius_) if trial is None else trial
        ranks = range(1, min(*shape, MOST_REFITTED) + 1)
        if self.rank_bound is not None:
            ranks = [min(self.rank_bound, *shape)]
        found = chosen(LowRank(train, shape, bounds), trial.x, test, ranks)
        if found is None or was_interrupted(trial):
            return
        refit = Refit(*found, convex_error=error(np.clip(trial.x, *bounds), test))
        if not refit.better:
            return
        for ridge, matrix in LowRank(entries, shape, bounds).path(self.matrix_, refit.rank):
            if ridge == refit.ridge:
                self.matrix_, self.refit_ = matrix, refit
                return

    def _summary(self, entries: Entries) -> str:
        rows, columns = self.matrix_.shape
        words = (
            f"Matrix of {rows} by {columns} from {len(entries[2])} known entries, on which its "
            f"error is {error(self.matrix_, entries):.3g} (root mean square)"
        )
        known, refit = self.certificate_, self.refit_
        share = math.inf if known is None else known.relative_gap
        gap = "" if math.isinf(share) else f"{rounded_up(100 * share, 3)}%"
        if refit is None:
            return f"{words}; the certified relative gap is {gap}." if gap else f"{words}."
        words += (
            f". It is a refit of rank {refit.rank}: on known entries that were held out its error "
            f"was {refit.held_out_error:.3g}, that of the convex problem's point "
            f"{refit.convex_error:.3g}; nothing is proved for it"
        )
        return f"{words} (for that point, a relative gap of {gap})." if gap else f"{words}."


def _parted(entries: Entries, seed: int) -> tuple[Entries, Entries] | None:
    """Entries to fit to, and those that are held out to choose by; None where they are too few."""
    count = len(entries[2])
    if HELD_OUT * count < FEWEST_HELD_OUT:
        return None
    order = check_random_state(seed).permutation(count)
    held = math.ceil(HELD_OUT * count)
    test, train = (
        (entries[0][part], entries[1][part], entries[2][part])
        for part in (order[:held], order[held:])
    )
    return train, test


class Inside:
    """`pulled` for a problem: its point inside ball and box."""

    def __init__(self, bounds: tuple[float, float], radius: float) -> None:
        self.bounds, self.radius = bounds, radius

    def __call__(self, x: Any) -> np.ndarray:
        return pulled(x, bounds=self.bounds, radius=self.radius)

    # All alike to a compiler, which would otherwise compile a run's measures for each radius.
    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def __hash__(self) -> int:
        return hash(type(self))


def rank_radius(
    values: np.ndarray, shape: tuple[int, int], rank: float, bounds: tuple[float, float]
) -> float:
    """The largest nuclear norm of an m x n matrix of this rank whose entries have the mean and the
    mean square of `values`; any number from 1 on serves as a rank.

    The largest singular value is at least |mean| sqrt(mn) and the squares of all sum to mn times
    the mean square, so that the others sum to most if they are alike.

    >>> import numpy as np
    >>> from mostfw.estimators._completion import rank_radius
    >>> rank_radius(np.array([2.0, 4.0]), (4, 9), rank=5, bounds=(1.0, 5.0))  # 6 (3 + 2 * 1)
    30.0
    """
    side = math.sqrt(shape[0] * shape[1])
    mean, square = abs(float(np.mean(values))), math.sqrt(float(np.mean(values**2)))
    if mean * math.sqrt(rank) >= square:
        radius = side * (mean + math.sqrt(rank - 1) * float(np.std(values)))
    else:
        radius = side * math.sqrt(rank) * square
    # Rounding must not bring it below what the box needs, nor zeros to nothing.
    least = side * smallest_entry(*bounds) * (1 + 1e-9)
    return max(radius, least, 1e-9 * side * max(abs(bound) for bound in bounds))
