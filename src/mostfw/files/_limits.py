"""Sizes and places that a file claims, looked at before they are believed."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from .. import resources

ALWAYS_ALLOWED = 10**6  # a few arrays of so many numbers never hurt
MOST_FOR_EACH_ENTRY = 50


def is_absurd(size: int, entries: int) -> bool:
    """Whether a side (nodes, rows) is far too long for so few entries, and made by mistake.

    Arrays of that length would be made, so it is asked before.

    >>> is_absurd(1000, 2), is_absurd(10**9, 5)
    (False, True)
    """
    return size > max(ALWAYS_ALLOWED, MOST_FOR_EACH_ENTRY * (entries + 1))


def lacks_room(numbers: int) -> bool:
    """Whether so many numbers are more than the machine has room for, once they are float64.

    Small ones take up to eight times the bytes that a file holds of them.

    >>> lacks_room(10**6), lacks_room(10**18)
    (False, True)
    """
    if numbers <= ALWAYS_ALLOWED:
        return False
    available = resources.free_bytes()
    return available is not None and np.dtype(float).itemsize * numbers > available


def from_compressed(
    shape: tuple[int, int], values: Any, inner: Any, starts: Any, by_rows: bool
) -> scipy.sparse.csr_array:
    """A sparse matrix from its compressed rows or columns.

    scipy's compiled code follows these numbers wherever they lead, and its own check
    (`check_format`) does not see all that is wrong with them.

    >>> from_compressed((2, 2), [5.0], [1], [0, 1, 1], by_rows=True).toarray().tolist()
    [[0.0, 5.0], [0.0, 0.0]]
    """
    values, inner, starts = map(np.asarray, (values, inner, starts))
    lengths = np.diff(starts.astype(np.int64))
    outer = shape[0] if by_rows else shape[1]
    if (
        starts.shape != (outer + 1,)
        or starts[0] != 0
        or np.any(lengths < 0)
        or starts[-1] > min(len(values), len(inner))
    ):
        raise ValueError("the starts of its rows or columns are wrong")
    inner = inner[: starts[-1]].astype(np.int64)
    places = np.repeat(np.arange(outer), lengths), inner
    return from_places(shape, values[: starts[-1]], *(places if by_rows else places[::-1]))


def from_places(shape: tuple[int, int], values: Any, rows: Any, columns: Any) -> Any:
    """A sparse matrix from its entries.

    >>> from_places((2, 2), [5.0], [0], [1]).toarray().tolist()
    [[0.0, 5.0], [0.0, 0.0]]
    """
    for places, side in zip((rows, columns), shape, strict=True):
        if len(places) and not 0 <= np.min(places) <= np.max(places) < side:
            raise ValueError("an entry is outside of the matrix")
    return scipy.sparse.csr_array(scipy.sparse.coo_array((values, (rows, columns)), shape=shape))
