"""Shuffled passes over a finite sum: every summand once a pass, in an order computed on the fly.

The order is a keyed permutation of the places of a grid, so that neither a sort nor an index array
of the sum's size is needed: a Feistel network whose two words are row and column. Words are added
modulo the grid's sides, which is a bijection for sides of any size, and no number is ever as large
as the sum: n^2 places need not fit 32 bits.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from .errors import InvalidInputError

Words = tuple[jax.Array, jax.Array]  # row and column of places in a grid, as uint32

# Two places are put evenly after four rounds of two; that all orders of a few things come alike
# often, as a chi-square test can tell, takes eight.
_ROUNDS, _ROUNDS_OF_FEW, _FEW = 4, 8, 256
_ORDERS = 2**31  # what `Turn` adds to its key; fold_in(key, k) belongs to iteration k


class Turn(eqx.Module):
    """Which iteration of which run a draw is for: all that the order of a pass may depend on.

    >>> import jax
    >>> from mostfw.shuffling import Turn
    >>> Turn(7, jax.random.PRNGKey(0)).k
    7
    """

    k: Any
    key: Any  # the run's, the same in all its iterations

    def of_term(self, index: int) -> Turn:
        """The turn of one of several terms: each has an order of its own."""
        return Turn(self.k, jax.random.fold_in(self.key, _ORDERS + index))


class Visit(eqx.Module):
    """The summands of one step of a pass: `index` as the objective draws them, and which of them
    count. At most one does not: it repeats another where the steps cannot all have one size.

    >>> import jax.numpy as jnp
    >>> from mostfw.shuffling import Visit
    >>> Visit(jnp.array([3, 3]), jnp.array([True, False]), 1.5).weighted(jnp.ones(2)).tolist()
    [1.5, 0.0]
    """

    index: Any
    valid: jax.Array
    gain: float = eqx.field(static=True)  # steps a pass over total/batch, the usual rescaling

    def weighted(self, messages: Any) -> Any:
        """Numbers with one entry a summand, each times its weight."""

        def one(leaf: jax.Array) -> jax.Array:
            weight = jnp.where(self.valid, jnp.asarray(self.gain, leaf.dtype), 0)
            return leaf * weight.reshape(weight.shape + (1,) * (leaf.ndim - 1))

        return jax.tree.map(one, messages)


@dataclasses.dataclass(frozen=True)
class Grid:
    """The places (row, column) of `total` summands, row by row; the last row may be cut short.

    >>> from mostfw.shuffling import Grid
    >>> Grid.near(181)
    Grid(rows=14, columns=13, total=181)
    """

    rows: int
    columns: int
    total: int

    @staticmethod
    def near(total: int) -> Grid:
        """A nearly square grid with few places too many."""
        root = math.isqrt(total - 1) + 1
        # Square, since a word with few values mixes badly; few too many, since each is walked past.
        rows = min(range(root, root - min(root // 4, 64) - 1, -1), key=lambda side: -total % side)
        return Grid(rows, -(-total // rows), total)

    def place(self, words: Words) -> jax.Array:
        """Places as single numbers, for grids with fewer than 2^31 of them."""
        return (words[0] * jnp.uint32(self.columns) + words[1]).astype(jnp.int32)

    def uniform(self, key: Any, size: int) -> Words:
        """Places drawn with replacement, in a grid without a row cut short."""
        assert self.rows * self.columns == self.total
        row, column = jax.random.split(key)
        return (
            jax.random.randint(row, (size,), 0, self.rows).astype(jnp.uint32),
            jax.random.randint(column, (size,), 0, self.columns).astype(jnp.uint32),
        )

    def permuted(self, words: Words, key: Any) -> Words:
        """Where the permutation of this key puts these places."""
        rounds = _ROUNDS_OF_FEW if self.total <= _FEW else _ROUNDS
        tags = jax.random.bits(key, (rounds, 2), jnp.uint32)
        full = self.rows * self.columns == self.total
        return self._mixed(words, tags) if full else self.walked(words, tags)

    def walked(self, words: Words, tags: jax.Array) -> Words:
        """Whoever is put on a place too many walks on, and comes to a summand at last, for the
        place it started from is one."""

        def walk(words: Words) -> Words:
            further, outside = self._mixed(words, tags), self._outside(words)
            return (
                jnp.where(outside, further[0], words[0]),
                jnp.where(outside, further[1], words[1]),
            )

        def some_outside(words: Words) -> jax.Array:
            return jnp.any(self._outside(words))

        return lax.while_loop(some_outside, walk, self._mixed(words, tags))

    def _outside(self, words: Words) -> jax.Array:
        last = self.columns - (self.rows * self.columns - self.total)  # places of the last row
        return (words[0] == self.rows - 1) & (words[1] >= last)

    def _mixed(self, words: Words, tags: jax.Array) -> Words:
        row, column = words
        for to_row, to_column in tags:
            row = _added(row, _hashed(column, to_row), self.rows)
            column = _added(column, _hashed(row, to_column), self.columns)
        return row, column


@dataclasses.dataclass(frozen=True)
class Passes:
    """Passes over the grid in steps of at most `batch` summands.

    >>> import jax
    >>> from mostfw.shuffling import Grid, Passes, Turn
    >>> passes = Passes(Grid.near(10), batch=4)
    >>> passes.steps
    3
    >>> seen = []
    >>> for k in (1, 2, 3):
    ...     words, valid = passes.visit(Turn(k, jax.random.PRNGKey(0)))
    ...     seen += passes.grid.place(words)[valid].tolist()
    >>> sorted(seen)
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """

    grid: Grid
    batch: int

    @property
    def steps(self) -> int:
        """Steps a pass."""
        return -(-self.grid.total // self.batch)

    @property
    def gain(self) -> float:
        """What brings the rescaling of a sample, total/batch, to the number of steps."""
        return self.steps * self.batch / self.grid.total

    def visit(self, turn: Turn) -> tuple[Words, jax.Array]:
        """The summands of iteration k = 1, 2, ..., and which of them count."""
        steps = min(self.steps, 2**31 - 1)  # no run has more
        since = jnp.asarray(turn.k, jnp.int32) - 1
        key = jax.random.fold_in(turn.key, since // steps)
        order, start = jax.random.split(key)
        # Some steps have one summand less than others. Whichever comes first is left to chance, so
        # that a summand is in any one step with the same probability: each step is unbiased.
        step = (since + jax.random.randint(start, (), 0, steps)) % steps
        size, larger = divmod(self.grid.total, self.steps)
        taken = size + (step < larger)
        place = jnp.minimum(jnp.arange(self.batch, dtype=jnp.int32), taken - 1)
        before = place + jnp.minimum(step, larger)
        first = _multiple(step, size, self.grid.columns, steps)
        return (
            self.grid.permuted(_shifted(first, before, self.grid.columns), order),
            jnp.arange(self.batch) < taken,
        )


def shuffled(place: Any, total: int, key: Any) -> jax.Array:
    """A keyed permutation of 0, ..., total - 1 at some places, each computed by itself.

    >>> import jax, jax.numpy as jnp
    >>> from mostfw.shuffling import shuffled
    >>> sorted(shuffled(jnp.arange(7), 7, jax.random.PRNGKey(3)).tolist())
    [0, 1, 2, 3, 4, 5, 6]
    """
    grid = Grid.near(countable(total, "a shuffled range"))
    place = jnp.asarray(place, jnp.uint32)
    words = place // jnp.uint32(grid.columns), place % jnp.uint32(grid.columns)
    return grid.place(grid.permuted(words, key))


def even_batch(batch: int, total: int) -> int:
    """The smallest batch with as few steps a pass: then no two steps differ by more than one.

    >>> from mostfw.shuffling import even_batch
    >>> even_batch(7, 10), even_batch(32, 625)
    (5, 32)
    """
    return -(-total // -(-total // batch))


def countable(total: int, thing: str) -> int:
    """The total, which a place as one number of 32 bits must be able to reach.

    >>> from mostfw.shuffling import countable
    >>> countable(625, "the entries")
    625
    """
    if total >= 2**31:
        raise InvalidInputError(
            f"{thing} has {total} summands, and a shuffled pass counts fewer than 2^31 unless "
            "they are the pairs of a symmetric matrix: draw them with replacement."
        )
    return total


def _multiple(factor: jax.Array, size: int, columns: int, limit: int) -> tuple[Any, Any]:
    """Row and column of place factor * size, by doubling: the product may not fit 32 bits."""
    row, column = jnp.zeros((), jnp.int32), jnp.zeros((), jnp.int32)
    for bit in reversed(range((limit - 1).bit_length())):
        here = (factor >> bit) & 1
        column = 2 * column + here * (size % columns)
        row = 2 * row + here * (size // columns) + column // columns
        column = column % columns
    return row, column


def _shifted(words: tuple[Any, Any], by: jax.Array, columns: int) -> Words:
    column = words[1] + by
    row = words[0] + column // columns
    return row.astype(jnp.uint32), (column % columns).astype(jnp.uint32)


def _added(word: jax.Array, other: jax.Array, side: int) -> jax.Array:
    """The sum of a word and any number, modulo a side."""
    total = word + other % jnp.uint32(side)
    return jnp.where(total >= side, total - jnp.uint32(side), total)


def _hashed(word: jax.Array, tag: jax.Array) -> jax.Array:
    """MurmurHash3's last step, which changes about half of the bits whichever bit differs."""
    word = (word ^ tag) * jnp.uint32(0x9E3779B1)
    word = (word ^ (word >> 16)) * jnp.uint32(0x85EBCA6B)
    word = (word ^ (word >> 13)) * jnp.uint32(0xC2B2AE35)
    return word ^ (word >> 16)
