"""An objective fed by a stream of minibatches."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import equinox as eqx
import jax

from ..errors import InvalidInputError, StreamError
from ..terms import batch_size
from ..trees import Point, Structure
from ._base import Objective
from ._functions import Differentiated


class Source:
    """Where an online objective's minibatches come from; it hides the iterator from JAX, which
    would take it for data."""

    def __init__(self, stream: Iterable[Any] | Callable[[int], Iterable[Any]]) -> None:
        if not callable(stream) and not isinstance(stream, Iterable):
            raise InvalidInputError(
                f"the stream of an Online objective is a {type(stream).__name__}: give an iterable "
                "of minibatches or a function stream(start) that returns one."
            )
        self._stream = stream

    def peek(self) -> Any:
        """The first minibatch, which a run then still sees; None where there is none."""
        if callable(self._stream):
            return next(iter(self.open(0)), None)
        minibatches = iter(self._stream)
        first = next(minibatches, None)
        if minibatches is self._stream and first is not None:
            self._stream = itertools.chain([first], minibatches)
        return first

    def open(self, first: int) -> Iterable[Any]:
        """The minibatches from number `first` on."""
        if callable(self._stream):
            try:
                opened = iter(self._stream(first))
            except Exception as error:
                raise StreamError(
                    f"stream({first}) of the Online objective fails or gives no iterable: "
                    f"{type(error).__name__}: {error}"
                ) from error
            return opened
        if first > 0:
            raise StreamError(
                f"the run resumes at minibatch {first}, but its stream is a plain iterable that "
                "cannot start there: give Online a function stream(start)."
            )
        return self._stream


class Online(Differentiated):
    """E f(x, minibatch) with minibatches from any Python iterator, each seen once.

    `stream` is an iterable of minibatches (all of one shape), or a function `stream(start)` that
    gives one from minibatch number `start` (counting from 0) on, which is what lets a run be
    resumed. `value(x, minibatch)` is the mean loss over the minibatch. The host stacks a chunk of
    minibatches while the device works. `holdout` is a minibatch to report the objective on;
    without it the last one seen serves.

    >>> import numpy as np, jax.numpy as jnp, mostfw as fw
    >>> rows = np.random.default_rng(0).normal(size=(100, 5, 2))
    >>> objective = fw.objectives.Online(lambda x, w: jnp.mean((w @ x) ** 2), iter(rows), batch=5)
    >>> objective.online
    True
    """

    online: ClassVar[bool] = True
    function: Callable[[Point, Any], jax.Array] = eqx.field(static=True)
    source: Source = eqx.field(static=True)
    batch: int = eqx.field(static=True)
    holdout: Any
    total: int | None = eqx.field(static=True)

    def __init__(
        self,
        value: Callable[[Point, Any], jax.Array],
        stream: Iterable[Any] | Callable[[int], Iterable[Any]],
        batch: int = 1,
        holdout: Any = None,
    ) -> None:
        self.function, self.source, self.holdout = value, Source(stream), holdout
        self.batch, self.total = batch_size(batch, None, "an Online objective"), None

    def sample(self, key: Any, size: int) -> Any:
        raise InvalidInputError(
            "an Online objective's minibatches come from its stream, one a step: "
            "a method that draws batches of its own needs a FiniteSum."
        )

    def value(self, x: Point, xi: Any) -> jax.Array:
        return self.function(x, xi)

    def resolve(self, structure: Structure) -> Objective:
        if self.holdout is not None:
            self.check_value(structure, self.holdout)
        return self

    def whole_value(self, x: Point) -> jax.Array | None:
        return None if self.holdout is None else self.function(x, self.holdout)
