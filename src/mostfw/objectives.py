"""Objectives: what is minimised, E f(x, xi), with samples, values and gradients.

An objective is a `Term` that also has values: `value(x, xi)` of one draw (an unbiased sample of
the objective, what a zeroth-order oracle may ask for) and `whole_value(x)`.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from . import trees
from .errors import InvalidInputError, MostFWError, ShapeError
from .registry import Registry
from .terms import Numbers, Term, batch_size
from .trees import Point, Structure

OBJECTIVES: Registry = Registry("objective")


class Objective(Term):
    """A term with values."""

    @abc.abstractmethod
    def value(self, x: Point, xi: Any) -> jax.Array:
        """The objective on one draw: unbiased, and its gradient is what the draw adds."""

    def whole_value(self, x: Point) -> jax.Array | None:
        """E f(x, xi), or None where only samples can be had."""
        return None

    @property
    def finite(self) -> bool:
        """Whether the gradient of the whole can be had."""
        return self.total is not None


def _finite(thing: str, array: Any) -> None:
    if not np.all(np.isfinite(np.asarray(array))):
        bad = int(np.size(array) - np.sum(np.isfinite(np.asarray(array))))
        raise InvalidInputError(
            f"{thing} has {bad} NaN or infinite entries: clean or drop them first."
        )


@OBJECTIVES.register
class Linear(Objective):
    """<C, x>, sampled entry by entry (with replacement, unbiased) or by principal blocks.

    For a symmetric C each sampled entry acts on both of its places, so that gradients stay
    symmetric. `sampling="block"` draws a random principal block with about `batch` entries.

    >>> import numpy as np, mostfw as fw
    >>> objective = fw.objectives.Linear(np.eye(4), batch=0.25)
    >>> objective.batch, objective.total
    (4, 16)
    """

    matrix: Any
    batch: int = eqx.field(static=True)
    total: int | None = eqx.field(static=True)
    sampling: str = eqx.field(static=True)
    is_symmetric: bool = eqx.field(static=True)

    def __init__(self, C: Any, batch: float | int | None = None, sampling: str = "entries"):
        if sampling not in ("entries", "block"):
            raise InvalidInputError(f"sampling is {sampling!r}: give 'entries' or 'block'.")
        for leaf in jax.tree.leaves(C):
            _finite("the matrix C of a Linear objective", leaf)
        self.matrix = C
        self.total = trees.dimension(C)
        self.sampling = sampling
        self.is_symmetric = all(
            np.ndim(m) == 2 and np.shape(m)[0] == np.shape(m)[1] and np.array_equal(m, m.T)
            for m in (np.asarray(leaf) for leaf in jax.tree.leaves(C))
        )
        size = batch_size(batch, self.total, "a Linear objective's entries")
        if size < self.total and len(jax.tree.leaves(C)) > 1:
            raise InvalidInputError("a Linear objective over several blocks cannot be sampled.")
        if sampling == "block" and size < self.total:
            if not self.is_symmetric:
                raise InvalidInputError("sampling='block' needs a symmetric matrix C.")
            side = min(max(2, math.ceil(math.sqrt(size))), np.shape(C)[0])
            size = side * side
        self.batch = size

    @property
    def symmetric(self) -> bool:
        return self.is_symmetric

    def resolve(self, structure: Structure) -> Linear:
        mine = trees.structure_of(self.matrix)
        if trees.describe(mine) != trees.describe(structure):
            raise ShapeError(
                f"the matrix C of a Linear objective has shape {trees.describe(mine)}, "
                f"but points of the domain have {trees.describe(structure)}."
            )
        return self

    def sample(self, key: Any, size: int) -> Any:
        if self.sampling == "block":
            side = math.isqrt(size)
            return jax.random.permutation(key, self.matrix.shape[0])[:side]
        return jax.random.randint(key, (size,), 0, self.total)

    def look(self, x: Point, xi: Any) -> Any:
        return ()  # a linear form's gradient does not depend on x

    def message(self, view: Any, xi: Any, numbers: Numbers) -> Any:
        if self.sampling == "block":
            n, side = self.matrix.shape[0], xi.shape[0]
            block = self.matrix[xi[:, None], xi[None, :]]
            # Diagonal entries are drawn more often than the others; `scale` undoes the average.
            off = n * (n - 1) / (side * (side - 1)) * (side / n) ** 2
            on = (n / side) * (side / n) ** 2
            return block * jnp.where(jnp.eye(side, dtype=bool), on, off).astype(block.dtype)
        return self.matrix.reshape(-1)[xi]

    def spread(self, y: Point, c: Any, message: Any, xi: Any) -> Point:
        c = jnp.asarray(c, y.dtype)
        if self.sampling == "block":
            return y.at[xi[:, None], xi[None, :]].add(c * message)
        if not self.is_symmetric:
            return y.reshape(-1).at[xi].add(c * message).reshape(y.shape)
        rows, columns = jnp.divmod(xi, y.shape[1])
        both = (jnp.concatenate([rows, columns]), jnp.concatenate([columns, rows]))
        return y.at[both].add(jnp.tile(c / 2 * message, 2))

    def add_whole(self, y: Point, c: Any, x: Point, numbers: Numbers) -> Point:
        return trees.plus(y, c, self.matrix)

    def value(self, x: Point, xi: Any) -> jax.Array:
        if xi is None:
            return self.whole_value(x)
        if self.sampling == "block":
            entries, size = x[xi[:, None], xi[None, :]], xi.shape[0] ** 2
        else:
            entries, size = x.reshape(-1)[xi], xi.shape[0]
        return self.scale(size) * jnp.sum(entries * self.message((), xi, _NO_NUMBERS))

    def whole_value(self, x: Point) -> jax.Array:
        return trees.inner(self.matrix, x)

    def slot(self, xi: Any) -> jax.Array:
        if self.sampling == "block":
            raise InvalidInputError("a table needs sampling='entries', not 'block'.")
        return xi

    @property
    def slots(self) -> int:
        return trees.dimension(self.matrix)

    @staticmethod
    def examples() -> list[tuple[Objective, Any]]:
        rng = np.random.default_rng(0)
        square = rng.standard_normal((4, 4))
        return [
            (Linear(square + square.T, batch=5), square + square.T),
            (Linear(square + square.T, batch=0.5, sampling="block"), square),
            (Linear(square[:2], batch=3), square[:2]),
            (Linear(square + square.T), square),
        ]


_NO_NUMBERS: Any = None  # linear messages do not look at the iteration's numbers


@OBJECTIVES.register
class Covariance(Objective):
    """E ||X - w w'||^2 / 2 for random vectors w: least squares to a covariance.

    The vectors come from N(0, F F') with a given `factor` F (an endless stream), or are the rows
    of `data`. The gradient is X minus the second moment of the batch.

    >>> import numpy as np, mostfw as fw
    >>> objective = fw.objectives.Covariance(data=np.eye(3), batch=1)
    >>> round(float(objective.whole_value(np.eye(3) / 3)), 6)
    0.333333
    """

    factor: Any
    data: Any
    batch: int = eqx.field(static=True)
    total: int | None = eqx.field(static=True)

    def __init__(self, *, factor: Any = None, data: Any = None, batch: float | int | None = None):
        if (factor is None) == (data is None):
            raise InvalidInputError("a Covariance objective needs either factor= or data=.")
        given = factor if data is None else data
        if np.ndim(given) != 2:
            raise ShapeError(f"factor or data has shape {np.shape(given)}: two axes are needed.")
        _finite("the factor or data of a Covariance objective", given)
        self.factor, self.data = factor, data
        self.total = None if data is None else np.shape(data)[0]
        self.batch = batch_size(batch, self.total, "a Covariance objective's vectors")

    @property
    def symmetric(self) -> bool:
        return True

    @property
    def finite(self) -> bool:
        return True  # the second moment is known in both cases

    def scale(self, size: int) -> float:
        return 1.0  # a draw is one batch mean

    def resolve(self, structure: Structure) -> Covariance:
        n = np.shape(self.factor)[0] if self.data is None else np.shape(self.data)[1]
        if trees.describe(structure) != str((n, n)):
            raise ShapeError(
                f"a Covariance objective in {n} dimensions needs points of shape {(n, n)}, "
                f"but the domain's have {trees.describe(structure)}."
            )
        return self

    def sample(self, key: Any, size: int) -> Any:
        if self.data is None:
            normal = jax.random.normal(key, (size, self.factor.shape[1]), self.factor.dtype)
            return _matmul(normal, self.factor.T)
        return self.data[jax.random.randint(key, (size,), 0, self.data.shape[0])]

    def message(self, view: Any, xi: Any, numbers: Numbers) -> Any:
        return view - _second_moment(xi)

    def spread(self, y: Point, c: Any, message: Any, xi: Any) -> Point:
        return trees.plus(y, c, message)

    def _moment(self) -> jax.Array:
        if self.data is None:
            return _matmul(self.factor, self.factor.T)
        return _second_moment(jnp.asarray(self.data))

    def add_whole(self, y: Point, c: Any, x: Point, numbers: Numbers) -> Point:
        return trees.plus(y, c, x - self._moment())

    def value(self, x: Point, xi: Any) -> jax.Array:
        if xi is None:
            return self.whole_value(x)
        norms = jnp.sum(xi**2, axis=1)
        fit = jnp.sum(_matmul(xi, x) * xi) / xi.shape[0]
        return jnp.sum(x**2) / 2 - fit + jnp.mean(norms**2) / 2

    def whole_value(self, x: Point) -> jax.Array:
        moment = self._moment()
        if self.data is None:  # E ||w||^4 of a Gaussian
            fourth = jnp.trace(moment) ** 2 + 2 * jnp.sum(moment**2)
        else:
            fourth = jnp.mean(jnp.sum(jnp.asarray(self.data) ** 2, axis=1) ** 2)
        return jnp.sum((x - moment) ** 2) / 2 + (fourth - jnp.sum(moment**2)) / 2

    @staticmethod
    def examples() -> list[tuple[Objective, Any]]:
        rng = np.random.default_rng(1)
        x = np.eye(3)
        return [
            (Covariance(factor=rng.standard_normal((3, 2)), batch=4), x),
            (Covariance(data=rng.standard_normal((6, 3)), batch=2), x),
            (Covariance(data=rng.standard_normal((6, 3))), x),
        ]


def _matmul(a: Any, b: Any) -> jax.Array:
    return jnp.matmul(a, b, precision=jax.lax.Precision.HIGHEST)


def _second_moment(rows: jax.Array) -> jax.Array:
    return _matmul(rows.T, rows) / rows.shape[0]


class _Differentiated(Objective):
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
        draw = None if self.whole or self.online else self.sample(jax.random.PRNGKey(0), self.batch)
        if not self.online:
            try:
                found = jax.eval_shape(self.value, structure, draw)
            except MostFWError:
                raise
            except Exception as error:
                raise InvalidInputError(
                    f"the value function of {self.label} fails on a point of shape "
                    f"{trees.describe(structure)}: {type(error).__name__}: {error}"
                ) from error
            if getattr(found, "shape", None) != ():
                raise ShapeError(
                    f"the value function of {self.label} returns shape "
                    f"{trees.describe(found)}: it must return one number."
                )
        return self


@OBJECTIVES.register
class Smooth(_Differentiated):
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
class Sampled(_Differentiated):
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
    ) -> None:
        self.function, self.sampler = value, sample
        self.total = None
        self.batch = batch_size(batch, None, "a Sampled objective's draws")
        self.expectation, self.evaluation = whole, evaluation

    @property
    def finite(self) -> bool:
        return self.expectation is not None

    def sample(self, key: Any, size: int) -> Any:
        return jax.vmap(self.sampler)(jax.random.split(key, size))

    def value(self, x: Point, xi: Any) -> jax.Array:
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
class FiniteSum(_Differentiated):
    """(1/N) sum of value(x, datum) over a data set, sampled in minibatches.

    `data` is an array or a tree of arrays whose first axis counts the N data.

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

    def __init__(
        self,
        value: Callable[[Point, Any], jax.Array],
        data: Any,
        batch: float | int | None = None,
    ) -> None:
        lengths = {np.shape(leaf)[:1] for leaf in jax.tree.leaves(data)}
        if len(lengths) != 1 or lengths == {()}:
            raise ShapeError(f"the data of a FiniteSum have first axes {sorted(lengths)}: one N.")
        (length,) = lengths.pop()
        for leaf in jax.tree.leaves(data):
            _finite("the data of a FiniteSum", leaf)
        self.function, self.data, self.total = value, data, int(length)
        self.batch = batch_size(batch, self.total, "a FiniteSum's data")

    def sample(self, key: Any, size: int) -> Any:
        index = jax.random.randint(key, (size,), 0, self.total)
        return index, jax.tree.map(lambda leaf: leaf[index], self.data)

    def value(self, x: Point, xi: Any) -> jax.Array:
        if xi is None:
            return self.whole_value(x)
        return jnp.mean(jax.vmap(lambda one: self.function(x, one))(xi[1]))

    def whole_value(self, x: Point) -> jax.Array:
        return jnp.mean(jax.vmap(lambda one: self.function(x, one))(self.data))

    def slot(self, xi: Any) -> jax.Array:
        return xi[0]

    @property
    def slots(self) -> int:
        assert self.total is not None
        return self.total

    def table_message(self, view: Any, xi: Any, numbers: Numbers) -> Any:
        gradient = jax.vmap(lambda one: jax.grad(self.function)(view, one))(xi[1])
        return trees.scaled(1 / self.slots, gradient)

    def table_spread(self, y: Point, c: Any, message: Any, xi: Any) -> Point:
        return trees.plus(y, c, jax.tree.map(lambda leaf: jnp.sum(leaf, axis=0), message))

    @staticmethod
    def examples() -> list[tuple[Objective, Any]]:
        rng = np.random.default_rng(2)
        data = {"a": rng.standard_normal((7, 3)), "b": rng.standard_normal(7)}

        def loss(x: Any, row: Any) -> jax.Array:
            return jnp.logaddexp(0.0, -row["b"] * jnp.dot(row["a"], x))

        return [(FiniteSum(loss, data, batch=3), np.ones(3)), (FiniteSum(loss, data), np.ones(3))]


class Online(_Differentiated):
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
    stream: Iterable[Any] | Callable[[int], Iterable[Any]] = eqx.field(static=True)
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
        self.function, self.stream, self.holdout = value, stream, holdout
        self.batch, self.total = batch_size(batch, None, "an Online objective"), None

    def sample(self, key: Any, size: int) -> Any:
        raise InvalidInputError(
            "an Online objective's minibatches come from its stream, one a step: "
            "a method that draws batches of its own needs a FiniteSum."
        )

    def value(self, x: Point, xi: Any) -> jax.Array:
        return self.function(x, xi)

    def whole_value(self, x: Point) -> jax.Array | None:
        return None if self.holdout is None else self.function(x, self.holdout)
