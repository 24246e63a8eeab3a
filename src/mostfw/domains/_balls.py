"""The simplex and the norm balls."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .. import atoms, checks, trees
from ..errors import ShapeError
from ..trees import Point
from ._base import DOMAINS, ArrayDomain, Domain, LinearMinimum, no_products
from ._least import Least, below, host, sum_below


@DOMAINS.register
class Simplex(ArrayDomain):
    """{x >= 0, sum x <= total}, or sum x = total with `equality=True` (the default).

    >>> import jax.numpy as jnp, mostfw as fw
    >>> float(fw.domains.Simplex(3, total=2.0).lmo(jnp.array([1.0, -1.0, 0.0])).value)
    -2.0
    """

    shape: tuple[int, ...] = eqx.field(static=True)
    total: float
    equality: bool = eqx.field(static=True)

    def __init__(self, shape: int | Sequence[int], total: float = 1.0, equality: bool = True):
        self.shape = checks.shape("Simplex shape", shape)
        self.total = checks.number("the total of a Simplex", total, above=0)
        self.equality = equality

    def start(self, dtype: Any) -> Point:
        level = self.total / math.prod(self.shape) if self.equality else 0.0
        return jnp.full(self.shape, level, dtype)

    def lmo(
        self, direction: Point, *, key: Any = None, start: Any = None, tolerance: Any = 0.0
    ) -> LinearMinimum:
        flat = direction.reshape(-1)
        index = jnp.argmin(flat)
        active = True if self.equality else ~(flat[index] >= 0)
        height = jnp.where(active, jnp.asarray(self.total, flat.dtype), 0)
        atom = atoms.Sparse(index[None], height[None], self.shape)
        return LinearMinimum(atom, height * flat[index], no_products())

    def least(self, direction: Point) -> Least:
        lowest = float(np.min(host(direction)))
        lowest = lowest if self.equality else min(lowest, 0.0)
        return Least(below(float(self.total) * lowest), True)

    def excess(self, x: Point) -> jax.Array:
        over = jnp.sum(x) - self.total
        over = jnp.abs(over) if self.equality else jnp.maximum(over, 0)
        return jnp.maximum(over, jnp.max(-x))

    @property
    def diameter(self) -> float:
        return (math.sqrt(2.0) if math.prod(self.shape) > 1 else 1.0) * float(self.total)

    @staticmethod
    def examples() -> list[Domain]:
        return [Simplex(5), Simplex((2, 3), 2.0), Simplex(4, 3.0, equality=False), Simplex(1)]


@DOMAINS.register
class L1Ball(ArrayDomain):
    """{||x||_1 <= radius}; the LMO is -radius sign(s_i) e_i at the largest |s_i|.

    >>> import jax.numpy as jnp, mostfw as fw
    >>> float(fw.domains.L1Ball(2, radius=3.0).lmo(jnp.array([1.0, -2.0])).value)
    -6.0
    """

    shape: tuple[int, ...] = eqx.field(static=True)
    radius: float

    def __init__(self, shape: int | Sequence[int], radius: float = 1.0) -> None:
        self.shape = checks.shape("L1Ball shape", shape)
        self.radius = checks.number("the radius of an L1Ball", radius, above=0)

    def lmo(
        self, direction: Point, *, key: Any = None, start: Any = None, tolerance: Any = 0.0
    ) -> LinearMinimum:
        flat = direction.reshape(-1)
        index = jnp.argmax(jnp.abs(flat))
        height = jnp.where(flat[index] > 0, -self.radius, self.radius).astype(flat.dtype)
        atom = atoms.Sparse(index[None], height[None], self.shape)
        return LinearMinimum(atom, height * flat[index], no_products())

    def least(self, direction: Point) -> Least:
        return Least(below(-float(self.radius) * float(np.max(np.abs(host(direction))))), True)

    def excess(self, x: Point) -> jax.Array:
        return jnp.maximum(jnp.sum(jnp.abs(x)) - self.radius, 0)

    @property
    def diameter(self) -> float:
        return 2.0 * float(self.radius)

    @staticmethod
    def examples() -> list[Domain]:
        return [L1Ball(5, 2.0), L1Ball((2, 3), 0.5), L1Ball(1, 1.0)]


@DOMAINS.register
class L2Ball(ArrayDomain):
    """{||x - center|| <= radius}; the LMO is center - radius s/||s||.

    >>> import jax.numpy as jnp, mostfw as fw
    >>> float(fw.domains.L2Ball(2, radius=2.0).lmo(jnp.array([3.0, 4.0])).value)
    -10.0
    """

    shape: tuple[int, ...] = eqx.field(static=True)
    radius: float
    center: Any

    def __init__(self, shape: int | Sequence[int], radius: float = 1.0, center: Any = 0.0) -> None:
        self.shape = checks.shape("L2Ball shape", shape)
        self.radius = checks.number("the radius of an L2Ball", radius, above=0)
        if isinstance(center, list | tuple):  # ragged ones are refused by name
            center = checks.data("the center of an L2Ball", center)
        self.center = checks.data("the center of an L2Ball", center) if np.ndim(center) else center
        if np.ndim(center) == 0:
            checks.number("the center of an L2Ball", center)
        elif np.shape(center) != self.shape:
            raise ShapeError(
                f"the center of an L2Ball has shape {np.shape(center)}, but it has {self.shape}."
            )

    def start(self, dtype: Any) -> Point:
        return jnp.broadcast_to(jnp.asarray(self.center, dtype), self.shape)

    def lmo(
        self, direction: Point, *, key: Any = None, start: Any = None, tolerance: Any = 0.0
    ) -> LinearMinimum:
        length = trees.norm(direction)
        unit = direction / jnp.where(length > 0, length, 1)
        point = jnp.asarray(self.center, direction.dtype) - self.radius * unit
        return LinearMinimum(atoms.Dense(point), jnp.sum(direction * point), no_products())

    def least(self, direction: Point) -> Least:
        s = host(direction).ravel()
        scale = float(np.max(np.abs(s))) or 1.0  # squares neither overflow nor vanish
        length = scale * math.sqrt(-sum_below(-((s / scale) ** 2)))
        center = np.broadcast_to(host(self.center), self.shape).ravel()
        middle, reach = sum_below(s * center), float(self.radius) * length
        return Least(below(middle - reach, abs(middle) + reach, 16), True)

    def excess(self, x: Point) -> jax.Array:
        return jnp.maximum(trees.norm(x - jnp.asarray(self.center, x.dtype)) - self.radius, 0)

    @property
    def diameter(self) -> float:
        return 2.0 * float(self.radius)

    @staticmethod
    def examples() -> list[Domain]:
        return [L2Ball(4, 2.0), L2Ball((2, 2), 0.5, center=1.0), L2Ball(3, 1.0, np.arange(3.0))]
