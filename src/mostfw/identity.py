"""What a problem or a method is, as a table of words: to tell whether two of them are the same.

Arrays are known by a checksum of their numbers, functions by their name, their code and what they
enclose. What a function reads from elsewhere (globals, files) is beyond us.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import types
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np

DEEPEST = 12  # levels: what is farther inside is known by its type
SHORT = 4  # numbers that are shown as they are

Table = dict[str, str]


def table_of(thing: Any) -> Table:
    """Every part by its path.

    >>> from mostfw.identity import table_of
    >>> from mostfw.schedules import Power
    >>> table_of(Power(2, shift=1))["scale"]
    '2.0'
    """
    return dict(_parts("", thing, 0))


def difference(there: Mapping[str, str], here: Mapping[str, str]) -> str | None:
    """The first part in which two tables differ, in words; None if they are the same.

    >>> from mostfw.identity import difference
    >>> difference({"mu.scale": "2.0"}, {"mu.scale": "3.0"})
    "'mu.scale' is 2.0 there and 3.0 here"
    """
    for name in dict.fromkeys((*there, *here)):
        one, other = there.get(name, "absent"), here.get(name, "absent")
        if one != other:
            return f"{name or 'it'!r} is {one} there and {other} here"
    return None


def _parts(path: str, thing: Any, depth: int) -> Iterator[tuple[str, str]]:
    if depth > DEEPEST:
        yield path, _type(thing)
    elif isinstance(thing, np.ndarray | jax.Array | np.generic):
        yield path, _numbers(np.asarray(thing))
    elif thing is None or isinstance(thing, bool | int | float | complex | str | bytes):
        yield path, repr(thing)
    elif isinstance(thing, Mapping):
        for key in sorted(thing, key=str):
            yield from _parts(f"{path}[{key!r}]", thing[key], depth + 1)
    elif isinstance(thing, list | tuple):
        yield path, f"{type(thing).__name__} of {len(thing)}"
        for index, item in enumerate(thing):
            yield from _parts(f"{path}[{index}]", item, depth + 1)
    elif dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        yield path, _type(thing)
        for field in dataclasses.fields(thing):
            inner = f"{path}.{field.name}" if path else field.name
            yield from _parts(inner, getattr(thing, field.name, None), depth + 1)
    elif callable(thing):
        yield from _function(path, thing, depth)
    else:
        yield path, _type(thing)


def _function(path: str, thing: Any, depth: int) -> Iterator[tuple[str, str]]:
    thing = getattr(thing, "__wrapped__", thing)  # what jax.jit and functools.wraps went around
    if isinstance(thing, functools.partial):
        yield from _parts(f"{path}.func", thing.func, depth + 1)
        yield from _parts(f"{path}.args", thing.args, depth + 1)
        yield from _parts(f"{path}.keywords", thing.keywords, depth + 1)
        return
    code = getattr(thing, "__code__", None)
    name = f"{getattr(thing, '__module__', '')}.{getattr(thing, '__qualname__', _type(thing))}"
    if not isinstance(code, types.CodeType):
        yield path, name
        return
    yield path, f"function {name} ({_code(code)})"
    yield from _parts(f"{path}.defaults", getattr(thing, "__defaults__", None), depth + 1)
    for variable, cell in zip(code.co_freevars, thing.__closure__ or (), strict=True):
        try:
            content = cell.cell_contents
        except ValueError:  # not yet filled
            continue
        yield from _parts(f"{path}.{variable}", content, depth + 1)


def _code(code: types.CodeType) -> str:
    """A checksum of what a function does: not of its file, its lines or its comments."""
    found = hashlib.sha256(code.co_code)
    for constant in code.co_consts:
        text = _code(constant) if isinstance(constant, types.CodeType) else repr(constant)
        found.update(text.encode())
    found.update(repr((code.co_names, code.co_varnames)).encode())
    return found.hexdigest()[:12]


def _numbers(array: np.ndarray) -> str:
    if array.ndim == 0 and array.dtype.kind in "fiub":
        return repr(array.item())
    shown = "x".join(map(str, array.shape))
    if array.dtype == object:
        return f"objects {shown}"
    if array.size <= SHORT:
        return f"{array.dtype} {array.tolist()}"
    checksum = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:12]
    return f"{array.dtype} {shown} ({checksum})"


def _type(thing: Any) -> str:
    return f"{type(thing).__module__}.{type(thing).__qualname__}"
