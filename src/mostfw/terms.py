"""Terms: the objective and each smoothed constraint, as the trackers see them.

A term is a sum (or an expectation) of summands. A step draws a sample xi of them, *looks* at the
point for the few numbers that the sample needs (gathered entries, row sums), turns these into a
*message* (what each summand says: a scalar, a vector or a whole gradient) and *spreads* the
message into the estimate, as a scatter where the term is sampled. Keeping the three apart is what
lets sampled gradients stay scatters, both points of a momentum step share one sample, and a table
store one scalar a summand.
"""

from __future__ import annotations

import abc
import math
from typing import Any, ClassVar

import equinox as eqx
import jax
import numpy as np

from .errors import InvalidInputError
from .shuffling import Turn
from .trees import Point, Structure


class Numbers(eqx.Module):
    """The schedule values of one iteration that terms need."""

    penalty: jax.Array  # 1/mu_k; 0 at k = 0, where mu_0 never acts
    rho: jax.Array  # radius of zeroth-order differences
    size: jax.Array  # |f| as last seen by a zeroth-order oracle, 0 before
    # steps of an augmented Lagrangian's multipliers, in units of `penalty`; 0 for a penalty
    dual_step: jax.Array
    sampled_step: jax.Array  # of rows that are sampled, for each step that they wait


class Term(eqx.Module):
    """A sum of summands that can be sampled. Messages are such that their whole sum is the
    gradient; a sample of `size` of them is rescaled by `total/size` to be unbiased."""

    counter: ClassVar[str] = "gradients"  # which counter its samples go to
    costly: ClassVar[bool] = False  # whether a message with weight 0 is worth skipping
    online: ClassVar[bool] = False  # samples come from the host
    gathers: ClassVar[bool] = False  # whether a sample looks at a few numbers of x, not at all
    pointwise: ClassVar[bool] = False  # whether each entry of a gradient needs that of x only
    linear: ClassVar[bool] = False  # whether the gradient is the same at every point
    batch: eqx.AbstractVar[int]
    total: eqx.AbstractVar[int | None]

    @property
    def calls(self) -> int:
        """Calls of the oracle a sample and point."""
        return 1

    @property
    def whole(self) -> bool:
        """Whether a draw is every summand exactly once, so that nothing is sampled."""
        return self.batch == self.total

    @property
    def symmetric(self) -> bool:
        """Whether the gradients of matrices come out symmetric."""
        return False

    @property
    def single(self) -> bool:
        """Whether summands can be drawn one by one, as growing batches need."""
        return self.total is not None

    def scale(self, size: int) -> float:
        """What makes the sum over `size` samples unbiased: total/size, or a mean of draws."""
        return (1 if self.total is None else self.total) / size

    @abc.abstractmethod
    def sample(self, key: Any, size: int) -> Any:
        """Draws `size` summands, with replacement."""

    def draw(self, key: Any, feed: Any) -> Any:
        """This iteration's sample: the minibatch fed by the host, or `batch` summands; None for
        a whole term."""
        if self.online:
            return feed
        return None if self.whole else self.sample(key, self.batch)

    def draw_in_turn(self, key: Any, feed: Any, turn: Turn) -> Any:
        """As `draw`, for terms whose draws depend on the iteration too, as those of passes do."""
        return self.draw(key, feed)

    def whole_draw(self, key: Any) -> Any:
        """What a message of the whole sum needs; None where `add_whole` does without."""
        return None

    def look(self, x: Point, xi: Any) -> Any:
        """The numbers of x that the sample needs."""
        return x

    @abc.abstractmethod
    def message(self, view: Any, xi: Any, numbers: Numbers) -> Any:
        """What the sampled summands say at the point looked at, without `gain`."""

    @abc.abstractmethod
    def spread(self, y: Point, c: Any, message: Any, xi: Any) -> Point:
        """y + c times the sum of the sampled gradients."""

    def length(self, message: Any) -> jax.Array | None:
        """At most how long what a message spreads to is, from its numbers alone; None where they
        do not tell."""
        return None

    def whole_norm(self) -> jax.Array | None:
        """The norm of the gradient of the whole sum, where it is the same at every point and known
        without forming it; else None."""
        return None

    @abc.abstractmethod
    def add_whole(self, y: Point, c: Any, x: Point, numbers: Numbers) -> Point:
        """y + c times the gradient of the whole sum at x."""

    def gain(self, numbers: Numbers) -> Any:
        """What multiplies every message at this iteration (1/mu_k for a penalty)."""
        return 1.0

    def table_message(self, view: Any, xi: Any, numbers: Numbers) -> Any:
        """The message with one entry a summand, as a table stores it."""
        return self.message(view, xi, numbers)

    def weighted(self, message: Any, xi: Any) -> Any:
        """Messages with one entry a summand, each times the weight that this draw gives it."""
        return message

    def table_spread(self, y: Point, c: Any, message: Any, xi: Any) -> Point:
        """y + c times the sum of such messages, without rescaling."""
        return self.spread(y, c, message, xi)

    @property
    def table_is_point(self) -> bool:
        """Whether the places of a table are those of the flattened point: a sampled summand's
        gradient is its message there, or half of it there and half at the place across the
        diagonal. Then the table tells the sum of the gradients, and none is kept beside it."""
        return False

    def of_table(self, table: Point) -> Point:
        """The sum of the gradients whose messages stand in such a table."""
        return table

    def slot(self, xi: Any) -> jax.Array:
        """Positions of the sampled summands in a table with `slots` places."""
        raise InvalidInputError(f"{self.label} has no table: it is not a sum of simple summands.")

    @property
    def slots(self) -> int:
        raise InvalidInputError(f"{self.label} has no table: it is not a sum of simple summands.")

    @property
    def label(self) -> str:
        """The term's name in messages."""
        return f"the objective {type(self).__name__}"

    def resolve(self, structure: Structure) -> Term:
        """The term checked against the shape of a point, with its sizes filled in."""
        return self


def batch_size(batch: float | int | None, total: int | None, thing: str) -> int:
    """A batch in words to a count: a float in (0, 1] is a fraction, rounded up; an int a count.

    >>> from mostfw.terms import batch_size
    >>> batch_size(0.05, 625, "entries"), batch_size(7, 625, "entries")
    (32, 7)
    >>> batch_size(1.0, 625, "entries"), batch_size(None, 625, "entries")
    (625, 625)
    """
    if batch is None:
        if total is None:
            raise InvalidInputError(f"batch of {thing} is None: an endless stream needs a count.")
        return total
    if isinstance(batch, bool) or not isinstance(batch, int | float | np.integer | np.floating):
        raise InvalidInputError(f"batch of {thing} is {batch!r}: give a fraction or a count.")
    if isinstance(batch, int | np.integer):
        if batch < 1 or (total is not None and batch > total):
            most = "" if total is None else f" and at most {total}, the number of summands"
            raise InvalidInputError(f"batch of {thing} is {batch}: give at least 1{most}.")
        return int(batch)
    if total is None:
        raise InvalidInputError(
            f"batch of {thing} is the fraction {batch}: a stream has no end, give a count."
        )
    if not 0 < batch <= 1:
        raise InvalidInputError(f"batch of {thing} is {batch}: a fraction is in (0, 1].")
    return math.ceil(batch * total)
