"""Registries: a registered class is found by name and put under the contract tests."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from .errors import UnknownNameError

T = TypeVar("T", bound=Callable[..., Any])


class Registry(Generic[T]):
    """Names to things of one kind.

    >>> from mostfw.registry import Registry
    >>> shapes = Registry("shape")
    >>> @shapes.register
    ... class Circle: ...
    >>> list(shapes)
    ['Circle']
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._items: dict[str, T] = {}

    def register(self, item: T, name: str | None = None) -> T:
        """Adds `item` under `name` (default: its own name); usable as a decorator."""
        self._items[name or item.__name__] = item
        return item

    def __getitem__(self, name: str) -> T:
        if name not in self._items:
            raise UnknownNameError(self._unknown(name))
        return self._items[name]

    def __contains__(self, name: object) -> bool:
        return name in self._items

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def items(self) -> list[tuple[str, T]]:
        return list(self._items.items())

    def _unknown(self, name: str) -> str:
        near = difflib.get_close_matches(str(name), self._items, n=1, cutoff=0.4)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        return f"unknown {self.kind} {name!r}.{hint} Known: {', '.join(self._items)}."
