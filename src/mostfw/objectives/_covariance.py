"""Least squares to a covariance."""

from __future__ import annotations

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .. import checks, trees
from ..errors import InvalidInputError, ShapeError
from ..operators import dot
from ..shuffling import Words
from ..terms import Numbers, batch_size
from ..trees import Point, Structure
from ._base import OBJECTIVES, Objective
from ._summed import REPLACEMENT, Summed, counted_batch, endless_sampling, index_of


@OBJECTIVES.register
class Covariance(Summed):
    """E ||X - w w'||^2 / 2 for random vectors w: least squares to a covariance.

    The vectors come from N(0, F F') with a given `factor` F (an endless stream), or are the rows
    of `data`, drawn with replacement or, `sampling="shuffled"`, each once a pass. The gradient is X
    minus the second moment of the batch.

    >>> import numpy as np, mostfw as fw
    >>> objective = fw.objectives.Covariance(data=np.eye(3), batch=1)
    >>> round(float(objective.whole_value(np.eye(3) / 3)), 6)
    0.333333
    """

    pointwise: ClassVar[bool] = True
    factor: Any
    data: Any
    moment: Any  # of data that are never sampled: formed once, not at each step
    batch: int = eqx.field(static=True)
    total: int | None = eqx.field(static=True)
    sampling: str = eqx.field(static=True)

    def __init__(
        self,
        *,
        factor: Any = None,
        data: Any = None,
        batch: float | int | None = None,
        sampling: str = "replacement",
    ) -> None:
        if (factor is None) == (data is None):
            raise InvalidInputError("a Covariance objective needs either factor= or data=.")
        given = factor if data is None else data
        given = checks.data("the factor or data of a Covariance objective", given)
        if np.ndim(given) != 2:
            raise ShapeError(f"factor or data has shape {np.shape(given)}: two axes are needed.")
        self.factor, self.data = (given, None) if data is None else (None, given)
        self.total = None if data is None else np.shape(data)[0]
        thing = "a Covariance objective's vectors"
        if self.total is None:
            endless_sampling(sampling, thing, "give data= for passes over its rows")
            self.sampling, self.batch = sampling, batch_size(batch, None, thing)
        else:
            self.sampling = checks.choice("sampling", sampling, REPLACEMENT)
            self.batch = counted_batch(batch, self.total, sampling, thing)
        whole = data is not None and self.batch == self.total
        self.moment = given.T @ given / self.total if whole else None

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
            return jax.random.normal(key, (size, self.factor.shape[1]), self.factor.dtype)
        return self.data[jax.random.randint(key, (size,), 0, self.data.shape[0])]

    def summands(self, words: Words) -> Any:
        return self.data[self.grid.place(words)]

    def _vectors(self, xi: Any) -> jax.Array:
        """The sampled w, one a row: a draw from a factor holds only its normal numbers."""
        return index_of(xi) if self.factor is None else dot(xi, self.factor.T)

    def message(self, view: Any, xi: Any, numbers: Numbers) -> Any:
        if self.factor is not None and self.factor.shape[1] < xi.shape[0]:
            # F S F' with a small S: a twentieth of the work of ww' for the paper's 200 and 10
            return view - dot(dot(self.factor, _second_moment(xi)), self.factor.T)
        vectors = self._vectors(xi)
        return view - _second_moment(vectors, self.weighted(vectors, xi))

    def spread(self, y: Point, c: Any, message: Any, xi: Any) -> Point:
        return trees.plus(y, c, message)

    def _moment(self) -> jax.Array:
        if self.data is None:
            return dot(self.factor, self.factor.T)
        return _second_moment(jnp.asarray(self.data)) if self.moment is None else self.moment

    def add_whole(self, y: Point, c: Any, x: Point, numbers: Numbers) -> Point:
        return trees.plus(y, c, x - self._moment())

    def value(self, x: Point, xi: Any) -> jax.Array:
        if xi is None:
            return self.whole_value(x)
        vectors = self._vectors(xi)
        norms = self.weighted(jnp.sum(vectors**2, axis=1) ** 2, xi)
        fit = jnp.sum(dot(vectors, x) * self.weighted(vectors, xi)) / vectors.shape[0]
        return jnp.sum(x**2) / 2 - fit + jnp.mean(norms) / 2

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
            (Covariance(data=rng.standard_normal((7, 3)), batch=2, sampling="shuffled"), x),
        ]


def _second_moment(rows: jax.Array, weighted: jax.Array | None = None) -> jax.Array:
    return dot(rows.T, rows if weighted is None else weighted) / rows.shape[0]
