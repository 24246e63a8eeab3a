"""Domains with finitely many vertices beyond the simplex, and products of domains."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import linear_sum_assignment

from .. import atoms, checks
from ..assignment import assign
from ..errors import InvalidInputError, ShapeError
from ..trees import Point, Structure
from ._balls import L1Ball, Simplex
from ._base import DOMAINS, ArrayDomain, Domain, LinearMinimum, no_products
from ._least import Least, below, host, sum_below
from ._spectral import Spectrahedron


@DOMAINS.register
class Box(ArrayDomain):
    """{lower <= x <= upper}, all bounds finite; the LMO takes the bound against each sign.

    >>> import jax.numpy as jnp, mostfw as fw
    >>> float(fw.domains.Box(0.0, 1.0, shape=3).lmo(jnp.array([1.0, -1.0, -2.0])).value)
    -3.0
    """

    lower: Any
    upper: Any
    shape: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, lower: Any, upper: Any, shape: int | Sequence[int] | None = None) -> None:
        for bound in (lower, upper):
            checks.data("a bound of a Box domain", bound)
        try:
            natural = np.broadcast_shapes(np.shape(lower), np.shape(upper))
            self.shape = checks.shape("Box shape", natural if shape is None else shape)
            np.broadcast_shapes(natural, self.shape)
        except ValueError:
            raise ShapeError(
                f"the bounds of a Box have shapes {np.shape(lower)} and {np.shape(upper)}, which "
                f"do not fit {'each other' if shape is None else f'the shape {shape}'}."
            ) from None
        if np.broadcast_shapes(natural, self.shape) != self.shape:
            raise ShapeError(f"the bounds of a Box have shape {natural}, but it has {self.shape}.")
        self.lower, self.upper = lower, upper
        if np.any(np.asarray(lower) > np.asarray(upper)):
            raise InvalidInputError("a Box domain has lower > upper somewhere: it is empty.")

    def _bounds(self, dtype: Any) -> tuple[jax.Array, jax.Array]:
        return (
            jnp.broadcast_to(jnp.asarray(self.lower, dtype), self.shape),
            jnp.broadcast_to(jnp.asarray(self.upper, dtype), self.shape),
        )

    def start(self, dtype: Any) -> Point:
        lower, upper = self._bounds(dtype)
        return lower / 2 + upper / 2

    def lmo(
        self, direction: Point, *, key: Any = None, start: Any = None, tolerance: Any = 0.0
    ) -> LinearMinimum:
        lower, upper = self._bounds(direction.dtype)
        corner = jnp.where(direction > 0, lower, upper)
        return LinearMinimum(atoms.Dense(corner), jnp.sum(direction * corner), no_products())

    def least(self, direction: Point) -> Least:
        s = host(direction)
        return Least(sum_below(np.minimum(s * host(self.lower), s * host(self.upper))), True)

    def excess(self, x: Point) -> jax.Array:
        lower, upper = self._bounds(x.dtype)
        return jnp.max(jnp.maximum(jnp.maximum(lower - x, x - upper), 0))

    @property
    def diameter(self) -> float:
        lower, upper = np.broadcast_arrays(self.lower, self.upper, np.empty(self.shape))[:2]
        return float(np.linalg.norm(upper - lower))

    @staticmethod
    def examples() -> list[Domain]:
        return [Box(-1.0, 2.0, shape=4), Box(np.zeros(3), np.arange(1.0, 4.0)), Box(0.0, 1.0, 1)]


def LinfBall(shape: int | Sequence[int], radius: float = 1.0) -> Box:
    """{||x||_inf <= radius}: the box from -radius to radius.

    >>> import mostfw as fw
    >>> fw.domains.LinfBall(4, 0.5).diameter
    2.0
    """
    radius = checks.number("the radius of a LinfBall", radius, above=0)
    return Box(-radius, radius, shape=checks.shape("LinfBall shape", shape))


@DOMAINS.register
class KSparse(ArrayDomain):
    """conv{x : at most k entries not 0, each within radius} = {||x||_1 <= k r, ||x||_inf <= r}.

    The LMO puts -radius sign(s_i) at the k largest |s_i|.

    >>> import jax.numpy as jnp, mostfw as fw
    >>> float(fw.domains.KSparse(3, k=2).lmo(jnp.array([1.0, -4.0, 2.0])).value)
    -6.0
    """

    shape: tuple[int, ...] = eqx.field(static=True)
    k: int = eqx.field(static=True)
    radius: float

    def __init__(self, shape: int | Sequence[int], k: int, radius: float = 1.0) -> None:
        self.shape = checks.shape("KSparse shape", shape)
        self.radius = checks.number("the radius of a KSparse polytope", radius, above=0)
        self.k = checks.whole("KSparse k", k, 1, math.prod(self.shape))

    def lmo(
        self, direction: Point, *, key: Any = None, start: Any = None, tolerance: Any = 0.0
    ) -> LinearMinimum:
        flat = direction.reshape(-1)
        _, indices = jax.lax.top_k(jnp.abs(flat), self.k)
        values = jnp.where(flat[indices] > 0, -self.radius, self.radius).astype(flat.dtype)
        atom = atoms.Sparse(indices, values, self.shape)
        # The sum over all entries, not only the chosen, so that a NaN anywhere is seen.
        return LinearMinimum(
            atom, jnp.sum(values * flat[indices]) + 0 * jnp.sum(flat), no_products()
        )

    def least(self, direction: Point) -> Least:
        falling = np.sort(-np.abs(host(direction)).ravel())
        return Least(below(float(self.radius) * sum_below(falling[: self.k])), True)

    def excess(self, x: Point) -> jax.Array:
        sizes = jnp.abs(x)
        over = jnp.maximum(jnp.sum(sizes) - self.k * self.radius, jnp.max(sizes) - self.radius)
        return jnp.maximum(over, 0)

    @property
    def diameter(self) -> float:
        return 2.0 * float(self.radius) * math.sqrt(self.k)

    @staticmethod
    def examples() -> list[Domain]:
        return [KSparse(6, 2), KSparse((2, 3), 4, 0.5), KSparse(3, 3, 2.0)]


@DOMAINS.register
class Birkhoff(Domain):
    """Doubly stochastic n x n matrices; the LMO is a linear assignment.

    >>> import jax.numpy as jnp, mostfw as fw
    >>> float(fw.domains.Birkhoff(2).lmo(jnp.array([[4.0, 1.0], [2.0, 3.0]])).value)
    3.0
    """

    n: int = eqx.field(static=True)

    def __init__(self, n: int) -> None:
        self.n = checks.whole("Birkhoff size n", n, 1)

    def structure(self, dtype: Any) -> Structure:
        return jax.ShapeDtypeStruct((self.n, self.n), dtype)

    def start(self, dtype: Any) -> Point:
        return jnp.full((self.n, self.n), 1.0 / self.n, dtype)

    def lmo(
        self, direction: Point, *, key: Any = None, start: Any = None, tolerance: Any = 0.0
    ) -> LinearMinimum:
        columns = assign(direction)
        value = jnp.sum(direction[jnp.arange(self.n), columns]) + 0 * jnp.sum(direction)
        return LinearMinimum(
            atoms.Permutation(columns, jnp.ones((), direction.dtype)), value, no_products()
        )

    def least(self, direction: Point) -> Least:
        s = host(direction)
        rows, columns = linear_sum_assignment(s)
        value = sum_below(s[rows, columns])
        # Not proved: that this permutation is the best rests on the search's own comparisons.
        return Least(below(value, self.n * float(np.max(np.abs(s))), 4.0 * self.n), False)

    def excess(self, x: Point) -> jax.Array:
        sums = jnp.concatenate([jnp.sum(x, 0), jnp.sum(x, 1)])
        return jnp.maximum(jnp.max(jnp.abs(sums - 1)), jnp.max(-x))

    @property
    def diameter(self) -> float:
        return math.sqrt(2.0 * self.n) if self.n > 1 else 0.0

    @staticmethod
    def examples() -> list[Domain]:
        return [Birkhoff(1), Birkhoff(2), Birkhoff(5)]


@DOMAINS.register
class Product(Domain):
    """C_1 x C_2 x ...: a tree of domains; a point is the same tree of points.

    >>> import mostfw as fw
    >>> pair = fw.domains.Product({"w": fw.domains.L1Ball(3), "p": fw.domains.Simplex(2)})
    >>> sorted(pair.start(float))
    ['p', 'w']
    """

    parts: Any

    def __init__(self, parts: Any) -> None:
        self.parts = tuple(parts) if isinstance(parts, list) else parts
        leaves = self._leaves()
        if not leaves or not all(isinstance(leaf, Domain) for leaf in leaves):
            raise InvalidInputError("a Product needs a tuple, list or dict of domains, not empty.")

    def _leaves(self) -> list[Any]:
        return jax.tree.leaves(self.parts, is_leaf=lambda p: isinstance(p, Domain))

    def _map(self, function: Any, *trees_: Any) -> Any:
        return jax.tree.map(function, self.parts, *trees_, is_leaf=lambda p: isinstance(p, Domain))

    def structure(self, dtype: Any) -> Structure:
        return self._map(lambda part: part.structure(dtype))

    def start(self, dtype: Any) -> Point:
        return self._map(lambda part: part.start(dtype))

    def lmo(
        self, direction: Point, *, key: Any = None, start: Any = None, tolerance: Any = 0.0
    ) -> LinearMinimum:
        key = jax.random.PRNGKey(0) if key is None else key
        count = iter(range(1, len(self._leaves()) + 1))
        warm = self._map(lambda _: None) if start is None else start
        found = self._map(
            lambda part, s, atom: part.lmo(
                s, key=jax.random.fold_in(key, next(count)), start=atom, tolerance=tolerance
            ),
            direction,
            warm,
        )
        is_found = lambda node: isinstance(node, LinearMinimum)  # noqa: E731
        leaves = jax.tree.leaves(found, is_leaf=is_found)
        return LinearMinimum(
            jax.tree.map(lambda minimum: minimum.atom, found, is_leaf=is_found),
            functools.reduce(jnp.add, [minimum.value for minimum in leaves]),
            sum((minimum.matvecs for minimum in leaves), no_products()),
        )

    def least(self, direction: Point) -> Least:
        found = jax.tree.leaves(
            self._map(lambda part, s: part.least(s), direction),
            is_leaf=lambda node: isinstance(node, Least),
        )
        value = sum_below(np.array([part.value for part in found]))
        return Least(value, all(part.proved for part in found))

    def tangent(self, direction: Point) -> Point:
        return self._map(lambda part, leaf: part.tangent(leaf), direction)

    def excess(self, x: Point) -> jax.Array:
        found = jax.tree.leaves(self._map(lambda part, leaf: part.excess(leaf), x))
        return functools.reduce(jnp.maximum, found)

    @property
    def diameter(self) -> float:
        return math.sqrt(sum(part.diameter**2 for part in self._leaves()))

    @staticmethod
    def examples() -> list[Domain]:
        return [
            Product((L1Ball(3, 2.0), Simplex(4))),
            Product({"matrix": Spectrahedron(3, 2.0), "vector": Box(0.0, 1.0, shape=2)}),
            Product((Spectrahedron(2, 1.0), Product((Simplex(2), Birkhoff(3))))),
        ]
