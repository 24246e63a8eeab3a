"""What people would rate that they have not seen: a rating matrix, completed.

    python examples/complete_ratings.py

A third of the ratings is known, with noise. All predictions are between 1 and 5, and how much the
matrix may vary is chosen by ratings held out.
"""

import numpy as np

from mostfw.estimators import MatrixCompletion
from mostfw.problems.completion import generated_ratings


def main(people: int = 120, things: int = 60, iterations: int = 3000) -> tuple[float, float]:
    """The error on unseen ratings, and that of each thing's mean rating."""
    ratings = generated_ratings(people, things, rank=3)
    known = np.full((people, things), np.nan)
    known[ratings.rows, ratings.columns] = ratings.values
    unseen = np.isnan(known)

    model = MatrixCompletion(max_iter=iterations, random_state=0).fit(known)
    error = _error(model.matrix_[unseen], ratings.truth[unseen])
    means = np.broadcast_to(np.nanmean(known, axis=0), known.shape)
    plain = _error(means[unseen], ratings.truth[unseen])

    print(model.summary_)
    print(
        f"The nuclear norm may be {model.radius_:.0f}; that of the truth is {ratings.radius:.0f}."
    )
    print(f"Error on unseen ratings: {error:.3f}; of each thing's mean: {plain:.3f}.")
    best = np.argsort(np.where(unseen[0], -model.matrix_[0], 0))[:3]
    for thing in best:
        print(f"Person 0 has not seen thing {thing}: we expect {model.matrix_[0, thing]:.1f}.")
    return error, plain


def _error(found: np.ndarray, truth: np.ndarray) -> float:
    return float(np.sqrt(np.mean((found - truth) ** 2)))


if __name__ == "__main__":
    main()
