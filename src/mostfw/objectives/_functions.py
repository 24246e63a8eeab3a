"""Objectives given by a function; gradients come from autodiff."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .. import checks, keys, placement, trees
from ..errors import InvalidInputError, MostFWError, ShapeError
from ..shuffling import Words
from ..terms import Numbers, batch_size
from ..trees import Point, Structure
from ._base import OBJECTIVES, Objective
from ._summed import REPLACEMENT, Summed, counted_batch, endless_sampling, index_of


class Differentiated(Objective):
    """Objectives given by a function: the message is the gradient of the draw's mean value."""

    costly: ClassVar[bool] = True

    def scale(self, size: int) -> float:
        return 1.0  # `value` is a mean already

    def message(self, view: Any, xi: Any, numbers: Numbers) -> Any:
        return jax.grad(self.value)(view, xi)

    def spread(self, y: Point, c: Any, message: Any, xi: Any) -> Point:
        return trees.plus(y, c, message)

    def add_whole(self, y: Point, c: Any, x: Point, numbers: Numbers) -> Point:
        return trees.plus(y, c, jax.grad(self.whole_value)(x))

    def resolve(self, structure: Structure) -> Objective:
        if not self.online:  # whose first minibatch is seen when a run starts
            self.check_value(structure)
        return self

    def check_value(self, structure: Structure, minibatch: Any = None) -> None:
        """The user's function returns one real number; `minibatch` is for online objectives."""
        try:
            given = self.online or self.whole
            draw = minibatch if given else self.sample(jax.random.PRNGKey(0), self.batch)
            found = jax.eval_shape(self.value, structure, draw)
            whole = found if self.online else jax.eval_shape(self.whole_value, structure)
        except MostFWError:
            raise
        except Exception as error:
            raise InvalidInputError(
                f"the value function of {self.label} fails on a point of shape "
                f"{trees.describe(structure)}: {type(error).__name__}: {error}"
            ) from error
        if getattr(found, "shape", None) != getattr(whole, "shape", None):
            raise ShapeError(f"the whole= function of {self.label} must return one number.")
        if getattr(found, "shape", None) != ():
            raise ShapeError(
                f"the value function of {self.label} returns shape "
                f"{trees.describe(found)}: it must return one number."
            )
        if not jnp.issubdtype(found.dtype, jnp.floating):
            raise InvalidInputError(
                f"the value function of {self.label} returns {found.dtype}: it must return a "
                "real floating-point number, or it has no gradient."
            )


@OBJECTIVES.register
class Smooth(Differentiated):
    """A plain function f(x), nothing sampled; the gradient comes from autodiff.

    >>> import jax.numpy as jnp, mostfw as fw
    >>> objective = fw.objectives.Smooth(lambda x: jnp.sum((x - 1.0) ** 2))
    >>> float(objective.whole_value(jnp.zeros(3)))
    3.0
    """

    function: Callable[[Point], jax.Array] = eqx.field(static=True)
    batch: int = eqx.field(static=True)
    total: int | None = eqx.field(static=True)

    def __init__(self, value: Callable[[Point], jax.Array]) -> None:
        self.function, self.batch, self.total = value, 1, 1

    def sample(self, key: Any, size: int) -> Any:
        return None

    def value(self, x: Point, xi: Any) -> jax.Array:
        return self.function(x)

    def whole_value(self, x: Point) -> jax.Array:
        return self.function(x)

    @staticmethod
    def examples() -> list[tuple[Objective, Any]]:
        return [(Smooth(lambda x: jnp.sum(jnp.exp(x))), np.arange(3.0))]


@OBJECTIVES.register
class Sampled(Differentiated):
    """E f(x, xi) for any JAX function f(x, xi) and a sampler key -> xi.

    `batch` draws are averaged a step. `whole`, where it is known, is the function x -> E f(x, xi)
    for evaluation; without it the objective is reported on `evaluation` fixed draws.

    >>> import jax, jax.numpy as jnp, mostfw as fw
    >>> objective = fw.objectives.Sampled(
    ...     lambda x, xi: jnp.sum((x - xi) ** 2), lambda key: jax.random.normal(key, (2,)), batch=4
    ... )
    >>> objective.total is None
    True
    """

    function: Callable[[Point, Any], jax.Array] = eqx.field(static=True)
    sampler: Callable[[Any], Any] = eqx.field(static=True)
    batch: int = eqx.field(static=True)
    total: int | None = eqx.field(static=True)
    expectation: Callable[[Point], jax.Array] | None = eqx.field(static=True)
    evaluation: int = eqx.field(static=True)

    def __init__(
        self,
        value: Callable[[Point, Any], jax.Array],
        sample: Callable[[Any], Any],
        batch: int = 1,
        whole: Callable[[Point], jax.Array] | None = None,
        evaluation: int = 1024,
        sampling: str = "replacement",
    ) -> None:
        endless_sampling(sampling, "a Sampled objective", "give data in memory as a FiniteSum")
        self.function, self.sampler = value, sample
        self.total = None
        self.batch = batch_size(batch, None, "a Sampled objective's draws")
        self.expectation, self.evaluation = whole, evaluation

    @property
    def finite(self) -> bool:
        return self.expectation is not None

    def sample(self, key: Any, size: int) -> Any:
        return jax.vmap(self.sampler)(keys.plain(jax.random.split(key, size)))

    def value(self, x: Point, xi: Any) -> jax.Array:
        xi = placement.shared(xi, x)
        return jnp.mean(jax.vmap(lambda one: self.function(x, one))(xi))

    def whole_value(self, x: Point) -> jax.Array:
        if self.expectation is not None:
            return self.expectation(x)
        # The same draws at every record point, so that a history shows progress and not noise.
        return self.value(x, self.sample(jax.random.PRNGKey(0), self.evaluation))

    @staticmethod
    def examples() -> list[tuple[Objective, Any]]:
        def loss(x: Any, xi: Any) -> jax.Array:
            return jnp.sum((x - xi) ** 2) / 2

        def whole(x: Any) -> jax.Array:
            return jnp.sum(x**2) / 2 + 1.5

        draw = lambda key: jax.random.normal(key, (3,))  # noqa: E731
        return [(Sampled(loss, draw, batch=8, whole=whole), np.ones(3))]


@OBJECTIVES.register
class FiniteSum(Differentiated, Summed):
    """(1/N) sum of value(x, datum) over a data set, sampled in minibatches.

    `data` is an array or a tree of arrays whose first axis counts the N data. Minibatches are drawn
    with replacement or, `sampling="shuffled"`, in passes that take every datum once.

    >>> import jax.numpy as jnp, numpy as np, mostfw as fw
    >>> objective = fw.objectives.FiniteSum(
    ...     lambda x, row: jnp.dot(row, x) ** 2 / 2, np.eye(3), batch=2
    ... )
    >>> round(float(objective.whole_value(jnp.ones(3))), 6)
    0.5
    """

    function: Callable[[Point, Any], jax.Array] = eqx.field(static=True)
    data: Any
    batch: int = eqx.field(static=True)
    total: int | None = eqx.field(static=True)
    sampling: str = eqx.field(static=True)

    def __init__(
        self,
        value: Callable[[Point, Any], jax.Array],
        data: Any,
        batch: float | int | None = None,
        sampling: str = "replacement",
    ) -> None:
        self.sampling = checks.choice("sampling", sampling, REPLACEMENT)
        lengths = {_length(leaf) for leaf in jax.tree.leaves(data)}
        if len(lengths) != 1 or lengths == {()}:
            raise ShapeError(f"the data of a FiniteSum have first axes {sorted(lengths)}: one N.")
        (length,) = lengths.pop()
        data = jax.tree.map(lambda leaf: checks.data("the data of a FiniteSum", leaf), data)
        self.function, self.data, self.total = value, data, int(length)
        self.batch = counted_batch(batch, self.total, sampling, "a FiniteSum's data")

    def sample(self, key: Any, size: int) -> Any:
        return self._data(jax.random.randint(key, (size,), 0, self.slots))

    def summands(self, words: Words) -> Any:
        return self._data(self.grid.place(words))

    def _data(self, index: jax.Array) -> tuple[jax.Array, Any]:
        return index, jax.tree.map(lambda leaf: jnp.asarray(leaf)[index], self.data)

    def value(self, x: Point, xi: Any) -> jax.Array:
        if xi is None:
            return self.whole_value(x)
        drawn = placement.shared(index_of(xi)[1], x)
        values = jax.vmap(lambda one: self.function(x, one))(drawn)
        return jnp.mean(self.weighted(values, xi))

    def whole_value(self, x: Point) -> jax.Array:
        data = placement.shared(jax.tree.map(jnp.asarray, self.data), x)
        return jnp.mean(jax.vmap(lambda one: self.function(x, one))(data))

    def slot(self, xi: Any) -> jax.Array:
        return index_of(xi)[0]

    @property
    def slots(self) -> int:
        assert self.total is not None
        return self.total

    def table_message(self, view: Any, xi: Any, numbers: Numbers) -> Any:
        gradient = jax.vmap(lambda one: jax.grad(self.function)(view, one))(index_of(xi)[1])
        return trees.scaled(1 / self.slots, gradient)

    def table_spread(self, y: Point, c: Any, message: Any, xi: Any) -> Point:
        return trees.plus(y, c, jax.tree.map(lambda leaf: jnp.sum(leaf, axis=0), message))

    @staticmethod
    def examples() -> list[tuple[Objective, Any]]:
        rng = np.random.default_rng(2)
        data = {"a": rng.standard_normal((7, 3)), "b": rng.standard_normal(7)}

        def loss(x: Any, row: Any) -> jax.Array:
            return jnp.logaddexp(0.0, -row["b"] * jnp.dot(row["a"], x))

        return [
            (FiniteSum(loss, data, batch=3), np.ones(3)),
            (FiniteSum(loss, data), np.ones(3)),
            (FiniteSum(loss, data, batch=3, sampling="shuffled"), np.ones(3)),
        ]


def _length(leaf: Any) -> tuple[int, ...]:
    """The first axis of data; of what has none, nothing."""
    try:
        return tuple(np.shape(leaf)[:1])
    except (TypeError, ValueError):
        raise InvalidInputError(f"the data of a FiniteSum hold {leaf!r}: give arrays.") from None
