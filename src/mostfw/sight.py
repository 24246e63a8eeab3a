"""What a tracker sees: the tracked terms from one point, under this iteration's sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from . import counting, trees
from .oracles import Probe
from .shuffling import Turn
from .terms import Numbers, Term
from .trees import Point, replaced

COUNTERS = ("gradients", "values", "constraints")
# A batch of any size is drawn in pieces of 1, 16, 256 and 4096 samples: see `add_batch`. Larger
# pieces would reserve memory of the size of the whole sum from the first step on.
_PIECE = 16
_LARGEST_PIECE = 4096
# Below this the common factor of an estimate is multiplied in: 2^20 steps of weight 1/k come first.
_SMALLEST_FACTOR = 2.0**-20


Held = tuple[Any, ...]  # a weighted message of each term, None for those already added


class Drift(eqx.Module):
    """How far a point has gone at most since it was last looked at, and how long it is at most.

    >>> import jax.numpy as jnp
    >>> from mostfw.sight import Drift
    >>> drift = Drift(jnp.array(0.0), jnp.array(8.0)).scaled(0.5).added(1.0)
    >>> float(drift.gone), float(drift.length)
    (5.0, 5.0)
    """

    gone: jax.Array
    length: jax.Array

    def scaled(self, c: Any) -> Drift:
        """After c times the point."""
        return Drift(self.gone + jnp.abs(1 - c) * self.length, jnp.abs(c) * self.length)

    def added(self, length: Any) -> Drift:
        """After something so long was added to it."""
        return Drift(self.gone + length, self.length + length)


class Estimate(eqx.Module):
    """The tracked gradient y_k, with the oracle calls that were spent on it.

    It is kept as `factor` times `stored`: to shrink it by 1 - g_k then takes no pass over an
    n x n array, and sampled gradients are scattered into the array where it stands.
    """

    stored: Point
    factor: jax.Array
    counts: dict[str, jax.Array]
    size: jax.Array  # |f| as a zeroth-order oracle last saw it
    drift: Drift | None = None  # kept where trimming asks how far y has gone

    @staticmethod
    def zero(structure: Any, drifting: bool = False) -> Estimate:
        dtype = jax.tree.leaves(structure)[0].dtype
        counts = {name: counting.zero() for name in COUNTERS}
        one, none = jnp.ones((), dtype), jnp.zeros((), dtype)
        drift = Drift(none, none) if drifting else None
        return Estimate(trees.zeros(structure), one, counts, none, drift)

    @property
    def y(self) -> Point:
        """The estimate itself."""
        return trees.scaled(self.factor, self.stored)

    def scaled(self, c: Any) -> Estimate:
        """c y."""
        if isinstance(c, float) and c == 0:
            return self.holding(trees.zeros(trees.structure_of(self.stored)))
        factor = self.factor * jnp.asarray(c, self.factor.dtype)
        small = jnp.abs(factor) < _SMALLEST_FACTOR
        return replaced(
            self,
            stored=when(small, lambda stored: trees.scaled(factor, stored), self.stored),
            factor=jnp.where(small, 1, factor),
            drift=None if self.drift is None else self.drift.scaled(jnp.asarray(c, factor.dtype)),
        )

    def holding(self, y: Point) -> Estimate:
        """Another y, the same counts."""
        return replaced(self, stored=y, factor=jnp.ones_like(self.factor))

    def counted(self, term: Term, samples: Any, when: Any = True) -> Estimate:
        """The same, with so many samples of a term more in its counts."""
        amount = samples * term.calls
        counts = dict(self.counts)
        counts[term.counter] = counting.plus(counts[term.counter], amount, when)
        return replaced(self, counts=counts)


class Sight(eqx.Module):
    """The terms seen from x. All of them share one sample, at whichever point they are seen."""

    terms: tuple[Term, ...]
    x: Point
    numbers: Numbers
    key: Any
    draws: tuple[Any, ...]

    @staticmethod
    def open(
        terms: Sequence[Term],
        x: Point,
        numbers: Numbers,
        key: Any,
        feed: Any,
        turn: Turn | None = None,
    ) -> Sight:
        """Draws this iteration's sample; `feed` is the minibatch of an online objective. Without
        a turn, which says where in a pass a run is, all draws are with replacement."""
        draws = []
        for index, term in enumerate(terms):
            own = jax.random.fold_in(key, index)
            if turn is None:
                draws.append(term.draw(own, feed))
            else:
                draws.append(term.draw_in_turn(own, feed, turn.of_term(index)))
        return Sight(tuple(terms), x, numbers, key, tuple(draws))

    def at(self, x: Point, numbers: Numbers | None = None) -> Sight:
        """The same sample seen from another point."""
        return replaced(self, x=x, numbers=self.numbers if numbers is None else numbers)

    def add(self, estimate: Estimate, c: Any, held: Held | None = None) -> Estimate:
        """estimate + c times the sampled gradient here (whole terms: their gradient), and what
        was held back elsewhere under the same sample."""
        befores = (None,) * len(self.terms) if held is None else held
        for term, xi, before in zip(self.terms, self.draws, befores, strict=True):
            estimate = self._add_term(term, estimate, c, xi, before)
        return estimate

    def hold(self, estimate: Estimate, c: Any) -> tuple[Estimate, Held]:
        """As `add`, but sampled gradients that are a few numbers are held back, for the next point
        to add together with its own: one scatter then serves both."""
        held = []
        for term, xi in zip(self.terms, self.draws, strict=True):
            message = None
            if term.whole or not term.gathers:
                estimate = self._add_term(term, estimate, c, xi)
            else:
                weight = c * term.scale(term.batch) * term.gain(self.numbers)
                message = term.message(term.look(self.x, xi), xi, self.numbers)
                message = trees.scaled(weight, message)
                estimate = estimate.counted(term, term.batch, _acts(c))
            held.append(message)
        return estimate, tuple(held)

    def count(self, estimate: Estimate, when: Any = True) -> Estimate:
        """The estimate as it is, with one more look at this sample counted."""
        for term in self.terms:
            size = (term.total or 1) if term.whole else term.batch
            estimate = estimate.counted(term, size, when)
        return estimate

    def count_whole(self, estimate: Estimate) -> Estimate:
        """The estimate as it is, with one more look at every summand counted."""
        for term in self.terms:
            estimate = estimate.counted(term, term.total or 1)
        return estimate

    def add_whole(self, estimate: Estimate, c: Any) -> Estimate:
        """estimate + c times the gradient of the whole sum here."""
        for term in self.terms:
            estimate = self._add_whole(term, estimate, c)
        return estimate

    def add_batch(self, estimate: Estimate, c: Any, size: Any, cancels: bool = False) -> Estimate:
        """As `add`, with `size` samples (traced; at most all summands) instead of the batch.

        `cancels`: the tracker adds the same samples with -c at another point, so that what is
        linear would cancel; it is counted, and neither drawn nor added.

        Compiled shapes are fixed, so the batch is put together from pieces of 1, 16, 256 and 4096
        samples, as many of each as the digits of `size` in base 16 say. A repeated call in one
        iteration draws the same samples. All summands are each of them once, not that many draws:
        the noise of these would add up over a long epoch.
        """
        for index, term in enumerate(self.terms):
            assert term.total is not None
            limit = jnp.minimum(jnp.asarray(size, jnp.int32), min(term.total, 2**31 - 1))
            if cancels and term.linear:
                estimate = estimate.counted(term, limit, _acts(c))
                continue
            every = limit == term.total if term.total < 2**31 else jnp.zeros((), bool)
            drawn = jnp.where(every, 0, limit)
            key = jax.random.fold_in(self.key, len(self.terms) + index)
            piece, left = 1, drawn
            largest = min(term.total, _LARGEST_PIECE)
            while piece <= largest:
                last = piece * _PIECE > largest
                digit = left if last else left % _PIECE
                estimate = self._add_pieces(term, estimate, c, key, piece, digit, drawn)
                left, piece = left // _PIECE, piece * _PIECE
            estimate = estimate.counted(term, drawn, _acts(c))
            estimate = when(every, lambda e, term=term: self._add_whole(term, e, c), estimate)
        return estimate

    def _add_pieces(
        self, term: Term, estimate: Estimate, c: Any, key: Any, piece: int, count: Any, limit: Any
    ) -> Estimate:
        share = term.scale(piece) * piece / jnp.maximum(limit, 1)

        def one(i: jax.Array, estimate: Estimate) -> Estimate:
            xi = term.sample(jax.random.fold_in(jax.random.fold_in(key, piece), i), piece)
            return self._add_sampled(term, estimate, c * share, xi)

        return lax.fori_loop(0, count, one, estimate)

    def _add_term(
        self, term: Term, estimate: Estimate, c: Any, xi: Any, before: Any = None
    ) -> Estimate:
        if term.whole:
            return self._add_whole(term, estimate, c)
        estimate = self._add_sampled(term, estimate, c * term.scale(term.batch), xi, before)
        return estimate.counted(term, term.batch, _acts(c))

    def _add_sampled(
        self, term: Term, estimate: Estimate, c: Any, xi: Any, before: Any = None
    ) -> Estimate:
        numbers = replaced(self.numbers, size=estimate.size)
        c = jnp.asarray(c * term.gain(numbers), estimate.size.dtype)
        view = term.look(self.x, xi)
        say = lambda: term.message(view, xi, numbers)  # noqa: E731
        message = lax.cond(c != 0, say, lambda: _silence(say)) if term.costly else say()
        size = estimate.size
        if isinstance(message, Probe):
            size = jnp.where(c != 0, message.size, size)
        if before is not None:
            message, c = trees.plus(before, c, message), jnp.ones_like(c)
        stored, drift = term.spread(estimate.stored, c / estimate.factor, message, xi), None
        if estimate.drift is not None:
            length = term.length(message)
            assert length is not None  # or the method would not have been bound
            drift = estimate.drift.added(jnp.abs(c) * length)
        return replaced(estimate, stored=stored, size=size, drift=drift)

    def _add_whole(self, term: Term, estimate: Estimate, c: Any) -> Estimate:
        xi = term.whole_draw(self.key)
        if xi is not None:
            estimate = self._add_sampled(term, estimate, c, xi)
        else:
            share = c / estimate.factor
            stored = term.add_whole(estimate.stored, share, self.x, self.numbers)
            estimate = replaced(estimate, stored=stored)
        return estimate.counted(term, term.total or 1, _acts(c))


def _acts(c: Any) -> Any:
    """Whether a gradient with weight c is evaluated at all."""
    return jnp.asarray(c) != 0


def when(flag: Any, function: Any, carry: Any) -> Any:
    """function(carry) if flag, else carry: a loop of at most one turn, which works in place where
    a pass-through `cond` would copy its operands.

    >>> from mostfw.sight import when
    >>> int(when(True, lambda c: c + 1, 1)), int(when(False, abs, -1))
    (2, -1)
    """
    return lax.fori_loop(0, jnp.asarray(flag, jnp.int32), lambda _, c: function(c), carry)


def _silence(say: Any) -> Any:
    return jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), jax.eval_shape(say))
