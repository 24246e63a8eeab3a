"""Input rules, each said once: what is not a number, a count or clean data is refused by name."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .errors import InvalidInputError


def number(
    thing: str, value: Any, *, above: float | None = None, least: float | None = None
) -> float:
    """A finite real number as a float.

    >>> from mostfw.checks import number
    >>> number("mu_c", 2, above=0)
    2.0
    """
    real = isinstance(value, int | float | np.number | jax.Array) and not isinstance(value, bool)
    real = real and np.ndim(value) == 0 and not np.iscomplexobj(value)
    held = float(value) if real else math.nan
    rule = "" if above is None else f" above {above:g}"
    rule = rule if least is None else f" of at least {least:g}"
    if (
        not math.isfinite(held)
        or (above is not None and held <= above)
        or (least is not None and held < least)
    ):
        raise InvalidInputError(f"{thing} is {value!r}: give a finite number{rule}.")
    return held


def whole(thing: str, value: Any, least: int, most: int | None = None) -> int:
    """A whole number in a range.

    >>> from mostfw.checks import whole
    >>> whole("seed", 3, 0)
    3
    """
    integral = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not integral or value < least or (most is not None and value > most):
        rule = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise InvalidInputError(f"{thing} is {value!r}: give a whole number {rule}.")
    return int(value)


def shape(thing: str, value: int | Sequence[int]) -> tuple[int, ...]:
    """One size or several, as a tuple.

    >>> from mostfw.checks import shape
    >>> shape("the shape", 3), shape("the shape", (2, 3))
    ((3,), (2, 3))
    """
    if isinstance(value, np.ndarray):
        value = value.tolist()
    sizes = tuple(value) if isinstance(value, Sequence) else (value,)
    if not sizes or isinstance(value, str):
        raise InvalidInputError(f"{thing} is {value!r}: give whole numbers of at least 1.")
    return tuple(whole(thing, size, 1) for size in sizes)


def data(thing: str, array: Any) -> Any:
    """Clean real numbers, not empty: a list becomes a NumPy array, arrays stay as they are.

    >>> from mostfw.checks import data
    >>> data("the points", [[1, 2], [3, 4]]).shape
    (2, 2)
    """
    if not isinstance(array, np.ndarray | jax.Array):
        try:
            array = np.asarray(array)
        except ValueError:
            raise InvalidInputError(f"{thing} is ragged: its rows have several lengths.") from None
    if array.dtype.kind not in "fiub":
        raise InvalidInputError(f"{thing} holds {array.dtype}: give real numbers.")
    if array.size == 0:
        raise InvalidInputError(f"{thing} is empty, with shape {array.shape}.")
    if spread(array):
        if not bool(jnp.all(jnp.isfinite(array))):
            raise InvalidInputError(f"{thing} has entries that are NaN or infinite: clean them.")
        return array
    bad = np.argwhere(~np.isfinite(np.asarray(array)))
    if len(bad):
        raise InvalidInputError(
            f"{thing}: {len(bad)} entries are NaN or infinite, the first at index "
            f"{bad[0].tolist()}: clean or drop them."
        )
    return array


def spread(array: Any) -> bool:
    """Whether an array is in parts on several devices: then it is not brought together to look.

    >>> import numpy as np
    >>> from mostfw.checks import spread
    >>> spread(np.ones(2))
    False
    """
    return isinstance(array, jax.Array) and not array.is_fully_replicated


def symmetric(matrix: Any) -> bool:
    """Whether a matrix is its own transpose, to the last bit.

    >>> import numpy as np
    >>> from mostfw.checks import symmetric
    >>> symmetric(np.eye(2)), symmetric(np.ones((2, 3)))
    (True, False)
    """
    if np.ndim(matrix) != 2 or np.shape(matrix)[0] != np.shape(matrix)[1]:
        return False
    if spread(matrix):
        return bool(jnp.array_equal(matrix, matrix.T))
    matrix = np.asarray(matrix)
    return np.array_equal(matrix, matrix.T)


def flag(thing: str, value: Any) -> bool:
    """Yes or no.

    >>> from mostfw.checks import flag
    >>> flag("equality", True)
    True
    """
    if not isinstance(value, bool | np.bool_):
        raise InvalidInputError(f"{thing} is {value!r}: give True or False.")
    return bool(value)


def float_dtype(given: Any) -> np.dtype:
    """The dtype of a problem's numbers.

    >>> from mostfw.checks import float_dtype
    >>> float_dtype("float32")
    dtype('float32')
    """
    try:
        dtype = np.dtype(given)
    except (TypeError, ValueError):
        dtype = None
    # NumPy takes None for float64, also when it compares
    if given is None or dtype is None or dtype not in (np.float32, np.float64):
        said = repr(given) if dtype is None else dtype
        raise InvalidInputError(f"dtype is {said}: give float32 or float64.")
    return dtype


def path(thing: str, value: Any) -> Path:
    """The name of a file.

    >>> from mostfw.checks import path
    >>> path("data file", "a.csv").name
    'a.csv'
    """
    if not isinstance(value, str | os.PathLike):
        raise InvalidInputError(f"the {thing} is {value!r}: give the name of a file.")
    return Path(value)


def indices(thing: str, values: Any) -> np.ndarray:
    """Places, as 32-bit whole numbers from 0 on.

    >>> from mostfw.checks import indices
    >>> indices("the rows", [0, 2]).tolist()
    [0, 2]
    """
    held = data(thing, values)
    if np.any(np.asarray(held) != np.floor(np.asarray(held))):
        raise InvalidInputError(f"{thing} holds numbers that are not whole.")
    least, most = float(np.min(held)), float(np.max(held))
    if least < 0 or most > np.iinfo(np.int32).max:
        raise InvalidInputError(f"{thing} has places from {least:g} to {most:g}.")
    return np.asarray(held, np.int32)


def choice(thing: str, given: object, known: Sequence[str]) -> str:
    """One of some names.

    >>> from mostfw.checks import choice
    >>> choice("sampling", "block", ("entries", "block"))
    'block'
    """
    if not isinstance(given, str) or given not in known:
        names = " or ".join(repr(name) for name in known)
        raise InvalidInputError(f"{thing} is {given!r}: give {names}.")
    return given
