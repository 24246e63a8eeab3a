"""Trackers: how samples become an estimate y_k of the gradient.

Each iteration, a tracker first `depart`s from x_{k-1} and then `arrive`s at x_k, both under the
same sample; between the two the point moves, so that it is never stored twice. It only adds
multiples of gradients into the estimate (`sight.add`), which also counts them. A tracker of your
own is one class with `arrive` (and `depart` if it needs the previous point).
"""

from __future__ import annotations

import abc
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from . import trees
from .registry import Registry
from .schedules import Power, Schedule, place_in_epoch
from .sight import Estimate, Sight, when
from .terms import Term

TRACKERS: Registry = Registry("tracker")


class Tracker(eqx.Module):
    """The base: `start` gives the memory; `depart` and `arrive` renew estimate and memory.

    >>> import mostfw as fw
    >>> class Newest(fw.trackers.Tracker):
    ...     def arrive(self, estimate, memory, here, k):
    ...         return here.add(estimate.scaled(0.0), 1.0), memory
    >>> fw.Method("newest", Newest(), fw.schedules.Power(2, shift=1)).name
    'newest'
    """

    needs_whole: ClassVar[bool] = False  # asks for gradients of the whole sum
    needs_sum: ClassVar[bool] = False  # draws batches of its own: every term must be a finite sum
    needs_table: ClassVar[bool] = False  # stores a number a summand
    holds: ClassVar[bool] = False  # its memory between the two points is what it held back there
    drifts: ClassVar[bool] = False  # y changes by `scaled` and `add` alone: its way can be bounded
    amplifies: ClassVar[bool] = False  # differences between two points enter y unaveraged
    reduces: ClassVar[bool] = False  # its variance falls so fast that drawn rows cost no rate

    def start(self, terms: tuple[Term, ...], structure: Any, dtype: Any) -> Any:
        """The memory before the first iteration."""
        return ()

    def depart(
        self, estimate: Estimate, memory: Any, here: Sight, k: jax.Array
    ) -> tuple[Estimate, Any]:
        """At x_{k-1}, with the numbers of iteration k - 1."""
        return estimate, memory

    @abc.abstractmethod
    def arrive(
        self, estimate: Estimate, memory: Any, here: Sight, k: jax.Array
    ) -> tuple[Estimate, Any]:
        """At x_k."""

    def elsewhere(self, memory: Any) -> Any:
        """What of the memory still holds when the run goes on with another problem."""
        return memory


@TRACKERS.register
class Exact(Tracker):
    """y_k = the gradient of the whole sum at x_k.

    That of a linear objective is made once and counted each time, for what is counted is what the
    method asks for. The memory then says whether it is there.

    >>> import mostfw as fw
    >>> print(fw.trackers.Exact())
    exact
    """

    needs_whole: ClassVar[bool] = True
    reduces: ClassVar[bool] = True
    drifts: ClassVar[bool] = True  # not at all, where it is known

    def start(self, terms: tuple[Term, ...], structure: Any, dtype: Any) -> Any:
        return jnp.zeros((), bool) if all(term.linear for term in terms) else ()

    def arrive(
        self, estimate: Estimate, memory: Any, here: Sight, k: jax.Array
    ) -> tuple[Estimate, Any]:
        def made() -> Estimate:
            return here.add_whole(estimate.scaled(0.0), 1.0)

        if not all(term.linear for term in here.terms):
            return made(), memory
        stored = when(~memory, lambda _: made().stored, estimate.stored)
        return here.count_whole(estimate).holding(stored), jnp.ones_like(memory)

    def elsewhere(self, memory: Any) -> Any:
        return jax.tree.map(jnp.zeros_like, memory)

    def __str__(self) -> str:
        return "exact"

    @staticmethod
    def examples() -> list[Tracker]:
        return [Exact()]


@TRACKERS.register
class Averaging(Tracker):
    """y_k = (1 - g_k) y_{k-1} + g_k grad(x_k, xi_k); weight None: the zeroth-order oracle's own.

    >>> import mostfw as fw
    >>> print(fw.trackers.Averaging(fw.schedules.Power(4, 7, 2 / 3, cap=1)))
    averaging, weight min(1, 4/(k+7)^(2/3))
    """

    drifts: ClassVar[bool] = True
    weight: Schedule | None

    def arrive(
        self, estimate: Estimate, memory: Any, here: Sight, k: jax.Array
    ) -> tuple[Estimate, Any]:
        assert self.weight is not None, "Method.bind fills in the oracle's weight"
        gamma = self.weight(k)
        return here.add(estimate.scaled(1 - gamma), gamma), memory

    def __str__(self) -> str:
        return f"averaging, weight {self.weight or 'by estimator'}"

    @staticmethod
    def examples() -> list[Tracker]:
        return [Averaging(Power(4, 7, 2 / 3, cap=1))]


@TRACKERS.register
class Momentum(Tracker):
    """y_k = (1 - g_k) (y_{k-1} - grad(x_{k-1}, xi_k)) + grad(x_k, xi_k), equation (estimator).

    >>> import mostfw as fw
    >>> print(fw.trackers.Momentum(fw.schedules.Power(1)))
    momentum, weight 1/k
    """

    holds: ClassVar[bool] = True
    drifts: ClassVar[bool] = True
    amplifies: ClassVar[bool] = True
    weight: Schedule

    def depart(
        self, estimate: Estimate, memory: Any, here: Sight, k: jax.Array
    ) -> tuple[Estimate, Any]:
        keep = 1 - self.weight(k)
        return here.hold(estimate.scaled(keep), -keep)

    def arrive(
        self, estimate: Estimate, memory: Any, here: Sight, k: jax.Array
    ) -> tuple[Estimate, Any]:
        return here.add(estimate, 1.0, held=memory), ()

    def __str__(self) -> str:
        return f"momentum, weight {self.weight}"

    @staticmethod
    def examples() -> list[Tracker]:
        return [Momentum(Power(1))]


@TRACKERS.register
class HessianMomentum(Tracker):
    """Momentum whose correction is an unbiased Hessian-vector product at a random point between.

    y_k = (1 - g_k) (y_{k-1} + H (x_k - x_{k-1})) + g_k grad(x_k, xi_k), with the Hessian H of
    f(., xi_k) at x_{k-1} + a (x_k - x_{k-1}) and a uniform in [0, 1]: the correction of 1-SFW
    that needs no second gradient of the same sample. (Samplers here do not see x; for noise
    whose law depends on x a score term would join.) It keeps x_{k-1} beside x_k.

    >>> import mostfw as fw
    >>> print(fw.trackers.HessianMomentum(fw.schedules.Power(1, shift=-1, cap=1)))
    momentum by Hessian-vector products, weight min(1, 1/(k-1))
    """

    amplifies: ClassVar[bool] = True
    weight: Schedule

    def start(self, terms: tuple[Term, ...], structure: Any, dtype: Any) -> Any:
        return trees.zeros(structure)

    def depart(
        self, estimate: Estimate, memory: Any, here: Sight, k: jax.Array
    ) -> tuple[Estimate, Any]:
        return estimate, here.x

    def arrive(
        self, estimate: Estimate, memory: Any, here: Sight, k: jax.Array
    ) -> tuple[Estimate, Any]:
        gamma = self.weight(k)
        step = trees.minus(here.x, memory)
        place = jax.random.uniform(jax.random.fold_in(here.key, 2**20), (), estimate.size.dtype)
        between = trees.plus(memory, place, step)

        def gradient(x: Any) -> Any:
            return here.at(x).add(estimate.scaled(0.0), 1.0).y

        correction = lax.cond(
            gamma < 1,
            lambda: jax.jvp(gradient, (between,), (step,))[1],
            lambda: trees.scaled(0.0, step),
        )
        kept = trees.scaled(1 - gamma, trees.plus(estimate.y, 1, correction))
        counted = here.count(estimate, gamma < 1)  # the product's own look at the sample
        return here.add(counted.holding(kept), gamma), here.x

    def __str__(self) -> str:
        return f"momentum by Hessian-vector products, weight {self.weight}"

    @staticmethod
    def examples() -> list[Tracker]:
        return [HessianMomentum(Power(1, shift=-1, cap=1))]


@TRACKERS.register
class Spider(Tracker):
    """Epochs of length K = 1, 2, 4, ...: a whole gradient, then SPIDER steps with batches of K.

    y_k = y_{k-1} + grad(x_k, B_k) - grad(x_{k-1}, B_k) with |B_k| = min(n, K). It ignores `batch`.

    >>> import mostfw as fw
    >>> print(fw.trackers.Spider())
    spider, epochs 1, 2, 4, ...
    """

    needs_whole: ClassVar[bool] = True
    needs_sum: ClassVar[bool] = True
    reduces: ClassVar[bool] = True

    def _epoch(self, k: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Whether an epoch starts at k, and its length: the highest power of two in k."""
        length = jnp.asarray(1, jnp.int32) << (31 - lax.clz(jnp.asarray(k, jnp.int32)))
        return k == length, length

    def depart(
        self, estimate: Estimate, memory: Any, here: Sight, k: jax.Array
    ) -> tuple[Estimate, Any]:
        fresh, length = self._epoch(k)
        estimate = estimate.scaled(jnp.where(fresh, 0.0, 1.0))
        return here.add_batch(estimate, -1.0, jnp.where(fresh, 0, length), cancels=True), memory

    def arrive(
        self, estimate: Estimate, memory: Any, here: Sight, k: jax.Array
    ) -> tuple[Estimate, Any]:
        fresh, length = self._epoch(k)
        estimate = here.add_batch(estimate, 1.0, jnp.where(fresh, 0, length), cancels=True)
        return when(fresh, lambda e: here.add_whole(e, 1.0), estimate), memory

    def __str__(self) -> str:
        return "spider, epochs 1, 2, 4, ..."

    @staticmethod
    def examples() -> list[Tracker]:
        return [Spider()]


@TRACKERS.register
class Snapshot(Tracker):
    """SVRF: y_k = grad(w) + grad(x_k, B_k) - grad(w, B_k), w the point where the epoch began.

    Epoch t has 2^(t+3) - 2 steps; |B_k| = `growth` (j + 1), j the step in the epoch, at most n.

    >>> import mostfw as fw
    >>> print(fw.trackers.Snapshot())
    snapshot, epochs 14, 30, 62, ...
    """

    needs_whole: ClassVar[bool] = True
    needs_sum: ClassVar[bool] = True
    reduces: ClassVar[bool] = True
    growth: int = eqx.field(static=True, default=96)

    def start(self, terms: tuple[Term, ...], structure: Any, dtype: Any) -> Any:
        return trees.zeros(structure), trees.zeros(structure)

    def arrive(
        self, estimate: Estimate, memory: Any, here: Sight, k: jax.Array
    ) -> tuple[Estimate, Any]:
        place = place_in_epoch(k)
        fresh = place == 1
        estimate = estimate.scaled(0.0)

        def renewed(carry: Any) -> Any:
            estimate, _ = carry
            there = here.add_whole(estimate, 1.0)
            return there.scaled(0.0), (here.x, there.y)

        estimate, (point, gradient) = when(fresh, renewed, (estimate, memory))
        # Clipped: no sum needs a larger batch, and the product must fit 32 bits.
        size = jnp.where(fresh, 0, self.growth * jnp.minimum(place + 1, 2**30 // self.growth))
        estimate = here.add_batch(estimate.holding(gradient), 1.0, size, cancels=True)
        there = here.at(point)
        return there.add_batch(estimate, -1.0, size, cancels=True), (point, gradient)

    def __str__(self) -> str:
        return "snapshot, epochs 14, 30, 62, ..."

    @staticmethod
    def examples() -> list[Tracker]:
        return [Snapshot(growth=1)]


@TRACKERS.register
class Table(Tracker):
    """The last message of every summand, summed up (SAG); `unbiased=True` corrects it as SAGA does.

    For constraints and linear forms a message is one scalar, stored without 1/mu_k, so that the
    direction is G'table/mu_k with today's mu_k. Where each is about an entry of the point, the
    table is a point, and no sum is kept beside it.

    >>> import mostfw as fw
    >>> print(fw.trackers.Table())
    table (SAG)
    """

    needs_table: ClassVar[bool] = True
    reduces: ClassVar[bool] = True
    unbiased: bool = eqx.field(static=True, default=False)

    def start(self, terms: tuple[Term, ...], structure: Any, dtype: Any) -> Any:
        memory = []
        for term in terms:
            if term.whole:
                memory.append(((), ()))
                continue
            total = trees.zeros(structure)
            if self._suffices(term):
                memory.append(((), total))
                continue
            message = jax.eval_shape(lambda term=term: self._one_message(term, structure))
            table = jax.tree.map(lambda m: jnp.zeros((term.slots, *m.shape[1:]), m.dtype), message)  # noqa: B023
            memory.append((total, table))
        return tuple(memory)

    def _one_message(self, term: Term, structure: Any) -> Any:
        xi = term.sample(jax.random.PRNGKey(0), 1)
        return term.table_message(term.look(trees.zeros(structure), xi), xi, None)  # pyright: ignore[reportArgumentType]

    def _suffices(self, term: Term) -> bool:
        """Whether the table serves without its sum, which the corrections of SAGA ask for."""
        return term.table_is_point and not self.unbiased

    def arrive(
        self, estimate: Estimate, memory: Any, here: Sight, k: jax.Array
    ) -> tuple[Estimate, Any]:
        y = trees.zeros(trees.structure_of(estimate.stored))
        renewed = []
        for term, xi, (total, table) in zip(here.terms, here.draws, memory, strict=True):
            factor = term.gain(here.numbers)
            if term.whole:
                y = term.add_whole(y, 1.0, here.x, here.numbers)
                renewed.append((total, table))
                continue
            slot = term.slot(xi)
            new = term.table_message(term.look(here.x, xi), xi, here.numbers)
            if self._suffices(term):  # `set`, never `add`: what is drawn twice was seen once
                table = table.reshape(-1).at[slot].set(new).reshape(table.shape)
                y = trees.plus(y, factor, term.of_table(table))
                renewed.append((total, table))
                continue
            old = jax.tree.map(lambda t: t[slot], table)  # noqa: B023
            seen, table = _marked(table, slot, old)
            first = seen == jnp.arange(slot.shape[0])
            change = jax.tree.map(jnp.subtract, new, old)
            once = jax.tree.map(lambda m: m * _beside(first, m), change)  # noqa: B023
            if self.unbiased:
                assert term.total is not None
                y = trees.plus(y, factor, total)
                weighted = term.weighted(change, xi)
                y = term.table_spread(y, factor * term.total / slot.shape[0], weighted, xi)
            total = term.table_spread(total, 1.0, once, xi)
            if not self.unbiased:
                y = trees.plus(y, factor, total)
            new = jax.tree.map(lambda m: trees.after(_beside(seen, m), m), new)  # noqa: B023
            table = jax.tree.map(lambda t, m: t.at[slot].set(m), table, new)  # noqa: B023
            renewed.append((total, table))
        return here.count(estimate).holding(y), tuple(renewed)

    def __str__(self) -> str:
        return f"table ({'SAGA' if self.unbiased else 'SAG'})"

    @staticmethod
    def examples() -> list[Tracker]:
        return [Table(), Table(unbiased=True)]


def _marked(table: Any, slot: jax.Array, old: Any) -> tuple[jax.Array, Any]:
    """Which draw owns each drawn place, for with replacement a summand may be drawn twice and must
    count once; and the table with the marks that show it.

    All draws write their number to their places, and what is left is the owner's. The places are
    those of the table that are about to be written anew, for an array of their own would be as
    large as the table. `old` is what it held there, and has been read when this writes.
    """
    leaves, tree = jax.tree.flatten(table)
    marks = leaves[0].reshape(leaves[0].shape[0], -1)
    assert slot.shape[0] <= 2**24, "single precision can tell these numbers apart"
    turn = jnp.arange(slot.shape[0], dtype=marks.dtype)
    held = jax.tree.leaves(old)[0].reshape(slot.shape[0], -1)[:, 0]
    marks = marks.at[slot, 0].set(trees.after(held, turn))
    return marks[slot, 0], jax.tree.unflatten(tree, [marks.reshape(leaves[0].shape), *leaves[1:]])


def _beside(flags: jax.Array, message: jax.Array) -> jax.Array:
    return flags.reshape(flags.shape + (1,) * (message.ndim - 1)).astype(message.dtype)
