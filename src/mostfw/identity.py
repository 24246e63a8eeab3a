"""What a problem or a method is, as a table of words: to tell whether two of them are the same.

Arrays are known by a checksum of their numbers, functions by their name, their code, their
defaults and what they enclose, other objects by their type and what they hold. Lists, sets and
dictionaries that a function encloses are known by their type only, for functions write into them.
What a function reads from elsewhere (globals, files) is beyond us.
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
import scipy.sparse

from . import processes

DEEPEST = 12  # levels: what is farther inside is known by its type
SHORT = 4  # numbers that are shown as they are
_NUMBERS = "fiub"  # kinds of dtypes
_JITTED = type(jax.jit(len))

Table = dict[str, str]
Parts = Iterator[tuple[str, str]]


def table_of(thing: Any) -> Table:
    """Every part by its path.

    >>> from mostfw.identity import table_of
    >>> from mostfw.schedules import Power
    >>> table_of(Power(2, shift=1))["scale"]
    '2.0'
    """
    return dict(_Walk().parts("", thing, 0))


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


class _Walk:
    """One description in progress; what was described once is not described again."""

    def __init__(self) -> None:
        self.seen: dict[int, str] = {}
        self.held: list[Any] = []  # so that no id is used twice

    def parts(self, path: str, thing: Any, depth: int) -> Parts:
        if isinstance(thing, np.ndarray | jax.Array | np.generic):
            yield path, _numbers(thing)
            return
        if thing is None or isinstance(thing, bool | int | float | complex | str | bytes | type):
            yield path, repr(thing)
            return
        if depth > DEEPEST:
            yield path, _type(thing)
            return
        if id(thing) in self.seen:
            yield path, f"the same as {self.seen[id(thing)] or 'the whole'}"
            return
        self.seen[id(thing)] = path
        self.held.append(thing)
        yield from self._inside(path, thing, depth + 1)

    def _inside(self, path: str, thing: Any, depth: int) -> Parts:
        if isinstance(thing, Mapping):
            yield path, f"{type(thing).__name__} of {len(thing)}"
            for key in sorted(thing, key=repr):
                yield from self.parts(f"{path}[{key!r}]", thing[key], depth)
        elif isinstance(thing, set | frozenset):
            yield path, _constant(thing)
        elif isinstance(thing, list | tuple):
            yield path, f"{type(thing).__name__} of {len(thing)}"
            for index, item in enumerate(thing):
                yield from self.parts(f"{path}[{index}]", item, depth)
        elif scipy.sparse.issparse(thing):  # which keeps notes about itself as it is used
            entries = thing.tocsr().tocoo()
            yield path, f"{_type(thing)} {thing.shape}"
            for name in ("row", "col", "data"):
                yield f"{path}.{name}", _numbers(np.asarray(getattr(entries, name)))
        elif isinstance(thing, functools.partial):
            yield path, _type(thing)
            for name in ("func", "args", "keywords"):
                yield from self.parts(f"{path}.{name}", getattr(thing, name), depth)
        elif isinstance(thing, types.MethodType):
            yield from self.parts(f"{path}.function", thing.__func__, depth)
            yield from self.parts(f"{path}.self", thing.__self__, depth)
        elif isinstance(thing, _JITTED):  # a compiled function is what it was made of
            yield from self.parts(path, getattr(thing, "__wrapped__", None), depth)
        elif isinstance(getattr(thing, "__code__", None), types.CodeType):
            yield from self._function(path, thing, depth)
        else:
            yield from self._object(path, thing, depth)

    def _function(self, path: str, thing: Any, depth: int) -> Parts:
        name = f"{thing.__module__}.{thing.__qualname__}"
        yield path, f"function {name} ({_code(thing.__code__)})"
        yield from self.parts(f"{path}.defaults", thing.__defaults__, depth)
        yield from self.parts(f"{path}.named_defaults", thing.__kwdefaults__, depth)
        for variable, cell in zip(thing.__code__.co_freevars, thing.__closure__ or (), strict=True):
            try:
                content = cell.cell_contents
            except ValueError:  # not yet filled
                continue
            if isinstance(content, list | set | dict):  # a log, perhaps, of the function's own
                yield f"{path}.{variable}", _type(content)
            else:
                yield from self.parts(f"{path}.{variable}", content, depth)

    def _object(self, path: str, thing: Any, depth: int) -> Parts:
        yield path, _type(thing)
        if isinstance(thing, types.BuiltinFunctionType | types.ModuleType | Iterator):
            name = getattr(thing, "__qualname__", getattr(thing, "__name__", ""))
            yield f"{path}.name" if path else "name", str(name)
            return
        if dataclasses.is_dataclass(thing):
            held = {f.name: getattr(thing, f.name, None) for f in dataclasses.fields(thing)}
        else:
            held = dict(getattr(thing, "__dict__", {}))
            for cls in type(thing).__mro__:
                for name in getattr(cls, "__slots__", ()):
                    if hasattr(thing, name):
                        held[name] = getattr(thing, name)
        for name, item in held.items():
            yield from self.parts(f"{path}.{name}" if path else name, item, depth)


def _code(code: types.CodeType) -> str:
    """A checksum of what a function does: not of its file, its lines or its comments."""
    found = hashlib.sha256(code.co_code)
    for constant in code.co_consts:
        found.update(_constant(constant).encode())
    found.update(repr((code.co_names, code.co_varnames)).encode())
    return found.hexdigest()[:12]


def _constant(constant: Any) -> str:
    """Words that are the same in every process: a set's order is not."""
    if isinstance(constant, types.CodeType):
        return _code(constant)
    if isinstance(constant, set | frozenset):
        return f"set {sorted(map(_constant, constant))}"
    if isinstance(constant, tuple):
        return f"({', '.join(map(_constant, constant))})"
    return repr(constant)


def _numbers(array: Any) -> str:
    shown = "x".join(map(str, array.shape))
    if array.dtype == object:
        return f"objects {shown}"
    if not processes.apart(array):
        array = np.asarray(array)
        if array.ndim == 0 and array.dtype.kind in _NUMBERS:
            return repr(array.item())
        if array.size <= SHORT:
            return f"{array.dtype} {array.tolist()}"
        if array.dtype.kind not in _NUMBERS:
            content = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
            return f"{array.dtype} {shown} ({hashlib.sha256(content.data).hexdigest()[:12]})"
    # one for all: what is spread over processes today may be on one tomorrow
    return f"{array.dtype} {shown} (sum {processes.checksum(array):08x})"


def _type(thing: Any) -> str:
    return f"{type(thing).__module__}.{type(thing).__qualname__}"
