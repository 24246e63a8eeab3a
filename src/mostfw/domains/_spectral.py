"""Domains of matrices whose LMO is an extreme eigenpair or singular pair."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .. import atoms, checks, linalg, operators, trees
from ..errors import InvalidInputError
from ..trees import Point, Structure
from ._base import DOMAINS, ArrayDomain, Domain, LinearMinimum, no_products
from ._least import Least, below, largest_singular_value, lowest_eigenvalue


@DOMAINS.register
class Spectrahedron(Domain):
    """{X symmetric psd, tr X <= trace}, or tr X = trace with `equality=True`.

    With several sizes the point is a tuple of matrices under one trace bound. The LMO is the
    smallest eigenpair: trace v v', or 0 where no eigenvalue is negative and the trace may shrink.

    >>> import jax.numpy as jnp, mostfw as fw
    >>> domain = fw.domains.Spectrahedron(3, trace=2.0)
    >>> float(domain.lmo(jnp.diag(jnp.array([1.0, -3.0, 2.0]))).value)
    -6.0
    >>> float(domain.lmo(jnp.eye(3)).value)
    0.0
    """

    sizes: tuple[int, ...] = eqx.field(static=True)
    trace: float
    equality: bool = eqx.field(static=True)
    single: bool = eqx.field(static=True)

    def __init__(self, n: int | Sequence[int], trace: float, equality: bool = False) -> None:
        self.single = isinstance(n, int | np.integer)
        self.sizes = checks.shape("Spectrahedron size n", n)
        self.trace = checks.number("the trace bound of a Spectrahedron", trace, above=0)
        self.equality = equality

    def _tree(self, blocks: list[Any]) -> Any:
        return blocks[0] if self.single else tuple(blocks)

    def _blocks(self, tree: Any) -> tuple[Any, ...]:
        return (tree,) if self.single else tuple(tree)

    def structure(self, dtype: Any) -> Structure:
        return self._tree([jax.ShapeDtypeStruct((n, n), dtype) for n in self.sizes])

    def start(self, dtype: Any) -> Point:
        level = self.trace / sum(self.sizes) if self.equality else 0.0
        return self._tree([level * jnp.eye(n, dtype=dtype) for n in self.sizes])

    def tangent(self, direction: Point) -> Point:
        return trees.symmetrised(direction)

    def lmo(
        self, direction: Point, *, key: Any = None, start: Any = None, tolerance: Any = 0.0
    ) -> LinearMinimum:
        key = jax.random.PRNGKey(0) if key is None else key
        accuracy = linalg.Accuracy.of(tolerance, None).over(self.trace)
        starts = self._blocks(start) if start is not None else (None,) * len(self.sizes)
        pairs = [
            linalg.smallest_eigenpair(
                operators.as_symmetric(block),
                jax.random.fold_in(key, index) if index else key,
                start=None if warm is None else warm.vector,
                tolerance=accuracy,
                fallback=True,
            )
            for index, (block, warm) in enumerate(zip(self._blocks(direction), starts, strict=True))
        ]
        values = jnp.stack([pair.value for pair in pairs])
        lowest, where = jnp.min(values), jnp.argmin(values)
        # a direction may be of less precision than the point
        dtype = values.dtype if starts[0] is None else starts[0].scale.dtype
        trace = jnp.asarray(self.trace, dtype)
        # `~(lowest >= 0)` lets NaN through, so that a broken direction is seen and not hidden.
        active = True if self.equality else ~(lowest >= 0)
        scale = jnp.where(active, trace, 0).astype(dtype)
        chosen = [
            atoms.RankOneSymmetric(
                linalg.as_unit(pair.vector, dtype), jnp.where(where == index, scale, 0)
            )
            for index, pair in enumerate(pairs)
        ]
        return LinearMinimum(
            self._tree(chosen),
            jnp.where(active, trace * lowest.astype(dtype), 0),
            sum((pair.matvecs for pair in pairs), no_products()),
            sum((pair.fallbacks for pair in pairs), no_products()),
        )

    def least(self, direction: Point) -> Least:
        found = [lowest_eigenvalue(block) for block in self._blocks(direction)]
        lowest = min(one.value for one in found)
        if not self.equality:
            lowest = min(lowest, 0.0)
        return Least(below(float(self.trace) * lowest), all(one.proved for one in found))

    def excess(self, x: Point) -> jax.Array:
        blocks = self._blocks(x)
        lowest = jnp.stack([jnp.linalg.eigvalsh(b)[0] for b in blocks]).min()
        trace = sum(jnp.trace(b) for b in blocks) - self.trace
        skew = jnp.stack([jnp.max(jnp.abs(b - b.T)) for b in blocks]).max()
        over = jnp.abs(trace) if self.equality else jnp.maximum(trace, 0)
        return jnp.maximum(jnp.maximum(over, -lowest), skew)

    @property
    def diameter(self) -> float:
        return math.sqrt(2.0) * float(self.trace) if sum(self.sizes) > 1 else float(self.trace)

    @staticmethod
    def examples() -> list[Domain]:
        return [
            Spectrahedron(1, trace=2.0),
            Spectrahedron(6, trace=3.0),
            Spectrahedron(5, trace=1.0, equality=True),
            Spectrahedron((2, 4, 3), trace=2.0),
            Spectrahedron((3, 2), trace=0.5, equality=True),
        ]


@DOMAINS.register
class NuclearBall(ArrayDomain):
    """{X : sum of singular values <= radius}; the LMO is -radius u v' of the leading pair.

    >>> import jax.numpy as jnp, mostfw as fw
    >>> ball = fw.domains.NuclearBall((2, 3), radius=2.0)
    >>> round(float(ball.lmo(jnp.array([[3.0, 0.0, 0.0], [0.0, 1.0, 0.0]])).value), 6)
    -6.0
    """

    shape: tuple[int, ...] = eqx.field(static=True)
    radius: float

    def __init__(self, shape: Sequence[int], radius: float) -> None:
        self.shape = checks.shape("NuclearBall shape", shape)
        if len(self.shape) != 2:
            raise InvalidInputError(f"NuclearBall shape is {self.shape}: give two sizes (m, n).")
        self.radius = checks.number("the radius of a NuclearBall", radius, above=0)

    def lmo(
        self, direction: Point, *, key: Any = None, start: Any = None, tolerance: Any = 0.0
    ) -> LinearMinimum:
        key = jax.random.PRNGKey(0) if key is None else key
        warm = None if start is None else (start.left, start.right)
        accuracy = linalg.Accuracy.of(tolerance, None).over(self.radius)
        pair = linalg.leading_singular_pair(
            direction, key, start=warm, tolerance=accuracy, fallback=True
        )
        radius = jnp.asarray(self.radius, pair.value.dtype)
        atom = atoms.RankOne(pair.left, pair.right, -radius)
        return LinearMinimum(atom, -radius * pair.value, pair.matvecs, pair.fallbacks)

    def least(self, direction: Point) -> Least:
        largest = largest_singular_value(direction)
        return Least(below(-float(self.radius) * largest.value), largest.proved)

    def excess(self, x: Point) -> jax.Array:
        return jnp.maximum(jnp.sum(jnp.linalg.svd(x, compute_uv=False)) - self.radius, 0)

    @property
    def diameter(self) -> float:
        return 2.0 * float(self.radius)

    @staticmethod
    def examples() -> list[Domain]:
        return [NuclearBall((4, 6), 2.0), NuclearBall((5, 3), 0.5), NuclearBall((1, 1), 1.0)]
