"""A matrix of low rank fitted to known entries without the shrinkage of a nuclear-norm ball.

Of the matrices in a nuclear-norm ball the best one has all its singular values shrunk, the large
ones that carry the answer as much as those of the noise. Here only the rank is bounded. The problem
is not convex, so that nothing is proved: whoever uses it has to compare on entries held out.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator

import numpy as np

Entries = tuple[np.ndarray, np.ndarray, np.ndarray]

# Of what a singular value of noise as large as the entries' spread would be. With the box, 0.003
# serves for noise of 0 to 0.3 of the spread (MatrixCompletion's benchmark), and more only where
# there is hardly anything else than noise.
RIDGES = tuple(np.geomspace(1.0, 0.003, 7).tolist())
SWEEPS = 200
STILL = 1e-4  # a sweep that moves the matrix by less, relatively, is the last
PATIENCE = 2  # ranks that may bring nothing before the search ends


@dataclasses.dataclass(frozen=True)
class Refit:
    """How a refit was chosen: its errors (root mean square) are those on the entries held out, of
    itself and of the convex problem's point, both fitted to the other entries.

    >>> from mostfw.estimators._refit import Refit
    >>> Refit(rank=3, ridge=0.1, held_out_error=0.3, convex_error=0.4).better
    True
    """

    rank: int
    ridge: float
    held_out_error: float
    convex_error: float

    @property
    def better(self) -> bool:
        return self.held_out_error < self.convex_error


class LowRank:
    """min over U, V of half the sum of (X_ij - r_ij)^2 over the known entries, of the squared
    distance of all others from the box, and of ridge (|U|^2 + |V|^2), X = mean + U V'.

    The others count, for a matrix of the rank that fits what is known may be far outside elsewhere.

    >>> import numpy as np
    >>> from mostfw.estimators._refit import LowRank
    >>> rows, columns = np.nonzero(~np.eye(4, dtype=bool))
    >>> truth = np.outer([1.0, 2, 3, 4], [1.0, 0.5, 1, 1.25])
    >>> fit = LowRank((rows, columns, truth[rows, columns]), (4, 4), (0.5, 5.0))
    >>> *_, (ridge, found) = fit.path(np.full((4, 4), 2.0) + truth / 9, rank=2)
    >>> bool(np.abs(found - truth).max() < 0.2)
    True
    """

    def __init__(
        self, entries: Entries, shape: tuple[int, int], bounds: tuple[float, float]
    ) -> None:
        rows, columns, values = entries
        self.mean, self.bounds = float(np.mean(values)), bounds
        self.known = np.zeros(shape, dtype=bool)
        self.known[rows, columns] = True
        self.values = np.zeros(shape)
        self.values[rows, columns] = values - self.mean
        a_row = len(values) / min(shape)  # known entries in one of the fuller sort of lines
        self.unit = float(np.std(values)) * math.sqrt(a_row)

    def path(
        self, start: np.ndarray, rank: int, ridges: Iterable[float] = RIDGES
    ) -> Iterator[tuple[float, np.ndarray]]:
        """Each ridge, largest first, and its X clipped to the box; one starts where the last ended,
        and the first in the leading singular spaces of `start`."""
        left, sizes, right = np.linalg.svd(start - self.mean, full_matrices=False)
        root = np.sqrt(sizes[:rank])
        u, v = left[:, :rank] * root, right[:rank].T * root
        for ridge in ridges:
            u, v = self._still(u, v, ridge * self.unit)
            yield ridge, np.clip(self.mean + u @ v.T, *self.bounds)

    def _still(self, u: np.ndarray, v: np.ndarray, ridge: float) -> tuple[np.ndarray, np.ndarray]:
        """Sweeps until nothing moves."""
        x = u @ v.T
        for _ in range(SWEEPS):
            weights, targets = self._wanted(x)
            u = _least_squares(v, weights, targets, ridge)
            weights, targets = self._wanted(u @ v.T)
            v = _least_squares(u, weights.T, targets.T, ridge)
            before, x = x, u @ v.T
            if np.linalg.norm(x - before) <= STILL * np.linalg.norm(x):
                break
        return u, v

    def _wanted(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Which entries pull and where to: the known ones, and those outside of the box. The
        distance from the box lies below that from its nearest point now, so that the sum falls."""
        low, high = (bound - self.mean for bound in self.bounds)
        inside = np.clip(x, low, high)
        return (self.known | (inside != x)) * 1.0, np.where(self.known, self.values, inside)


def _least_squares(
    fixed: np.ndarray, weights: np.ndarray, targets: np.ndarray, ridge: float
) -> np.ndarray:
    """One factor, row by row, with the other one fixed."""
    rank = fixed.shape[1]
    products = (fixed[:, :, None] * fixed[:, None, :]).reshape(len(fixed), -1)
    systems = (weights @ products).reshape(-1, rank, rank) + ridge * np.eye(rank)
    return np.linalg.solve(systems, ((weights * targets) @ fixed)[..., None])[..., 0]


def chosen(
    fit: LowRank, start: np.ndarray, test: Entries, ranks: Iterable[int]
) -> tuple[int, float, float] | None:
    """Rank, ridge and error of the member of all paths that predicts `test` best; ranks are tried
    until some have brought nothing. None where the known entries do not vary."""
    if fit.unit <= 0:
        return None
    best, vain = None, 0
    for rank in ranks:
        of_rank = min(
            ((rank, ridge, error(x, test)) for ridge, x in fit.path(start, rank)),
            key=lambda tried: tried[2],
        )
        if best is None or of_rank[2] < best[2]:
            best, vain = of_rank, 0
        else:
            vain += 1
        if vain >= PATIENCE:
            break
    return best


def error(matrix: np.ndarray, entries: Entries) -> float:
    """Root mean square.

    >>> import numpy as np
    >>> from mostfw.estimators._refit import error
    >>> error(np.zeros((2, 2)), (np.array([0]), np.array([1]), np.array([3.0])))
    3.0
    """
    rows, columns, values = entries
    return math.sqrt(float(np.mean((matrix[rows, columns] - values) ** 2)))
