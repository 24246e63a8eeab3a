"""A sparse covariance of daily returns, followed week by week as the days come in.

    python examples/online_covariance.py
    python examples/online_covariance.py prices.csv

Without a file, the returns of generated assets in a few independent industries are used, whose true
covariance is known. A file has one column an asset and one row a day of prices, with a header.
"""

import sys
from pathlib import Path

import numpy as np

from mostfw.estimators import SparseCovariance
from mostfw.problems.covariance import block_factor

WEEK = 5


def main(
    file: str | Path | None = None, assets: int = 40, days: int = 500
) -> tuple[SparseCovariance, float | None]:
    """The model after the last week, and its relative error where the truth is known."""
    truth = None
    if file is None:
        factor = 0.01 * block_factor(assets, blocks=8)
        truth = factor @ factor.T
        returns = np.random.default_rng(0).normal(size=(days, 8)) @ factor.T
    else:
        returns = np.diff(np.log(np.loadtxt(file, delimiter=",", skiprows=1)), axis=0)

    model = SparseCovariance(random_state=0)  # a step for every day
    error = None
    for week, first in enumerate(range(0, len(returns), WEEK), start=1):
        model.partial_fit(returns[first : first + WEEK])
        if week & (week - 1) == 0 or first + WEEK >= len(returns):  # weeks 1, 2, 4, 8, ...
            error = None if truth is None else _relative_error(model.covariance_, truth)
            told = "" if error is None else f", error {error:.3f}"
            groups = len(np.unique(model.groups_))
            print(f"week {week}: {model.n_samples_seen_} days, {groups} groups{told}")
    deviations = np.sqrt(np.diag(model.covariance_))
    print(model.summary_)
    print(f"The daily deviation of an asset is {100 * deviations.mean():.2g}% on average.")
    return model, error


def _relative_error(found: np.ndarray, truth: np.ndarray) -> float:
    return float(np.linalg.norm(found - truth) / np.linalg.norm(truth))


if __name__ == "__main__":
    main(*sys.argv[1:2])
