"""Objectives whose summands are drawn one by one: with replacement, or in shuffled passes."""

from __future__ import annotations

import abc
from typing import Any

import equinox as eqx
import jax

from .. import checks
from ..errors import InvalidInputError
from ..shuffling import Grid, Passes, Turn, Visit, Words, countable, even_batch
from ..terms import Numbers, batch_size
from ._base import Objective


class Summed(Objective):
    """A finite sum. With `sampling="shuffled"` the steps of a run go through its summands in
    passes, each pass in a new random order that no array holds: see `mostfw.shuffling`.

    A draw of a pass is a `Visit`, any other one is what `sample` gives.
    """

    sampling: eqx.AbstractVar[str]

    @abc.abstractmethod
    def summands(self, words: Words) -> Any:
        """What stands at these places of the grid, as `sample` gives it."""

    @property
    def grid(self) -> Grid:
        """The places that a pass goes through."""
        assert self.total is not None
        return Grid.near(self.total)

    def draw_in_turn(self, key: Any, feed: Any, turn: Turn) -> Any:
        if self.sampling != "shuffled" or self.whole:
            return self.draw(key, feed)
        passes = Passes(self.grid, self.batch)
        words, valid = passes.visit(turn)
        return Visit(self.summands(words), valid, passes.gain)

    def weighted(self, message: Any, xi: Any) -> Any:
        return xi.weighted(message) if isinstance(xi, Visit) else message


class Counted(Summed):
    """A sum whose summands are counted 0, 1, ...: a draw is their numbers.

    Subclasses have `table_message`, what each drawn summand says.
    """

    def sample(self, key: Any, size: int) -> Any:
        return jax.random.randint(key, (size,), 0, self.slots)

    def summands(self, words: Words) -> Any:
        return self.grid.place(words)

    @abc.abstractmethod
    def table_message(self, view: Any, xi: Any, numbers: Numbers) -> Any: ...

    def message(self, view: Any, xi: Any, numbers: Numbers) -> Any:
        return self.weighted(self.table_message(view, xi, numbers), xi)

    def slot(self, xi: Any) -> jax.Array:
        return index_of(xi)

    @property
    def slots(self) -> int:
        assert self.total is not None
        return self.total


def index_of(xi: Any) -> Any:
    """What was drawn, in a pass or not."""
    return xi.index if isinstance(xi, Visit) else xi


REPLACEMENT = ("replacement", "shuffled")


def endless_sampling(sampling: str, thing: str, remedy: str) -> str:
    """What an endless stream can be asked for: no pass over it ever ends."""
    if checks.choice("sampling", sampling, REPLACEMENT) == "shuffled":
        raise InvalidInputError(
            f"sampling of {thing} is 'shuffled', but its draws never end, so that there is no "
            f"pass over them: {remedy}."
        )
    return sampling


def summed_batch(batch: float | int | None, total: int, sampling: str, thing: str) -> int:
    """The batch as a count; for shuffled passes, one that their steps can share out evenly."""
    size = batch_size(batch, total, thing)
    if sampling != "shuffled" or size == total:
        return size
    return even_batch(size, total)


def counted_batch(batch: float | int | None, total: int, sampling: str, thing: str) -> int:
    """As `summed_batch`, for summands that are counted by one number."""
    if sampling == "shuffled":
        countable(total, thing)
    return summed_batch(batch, total, sampling, thing)
