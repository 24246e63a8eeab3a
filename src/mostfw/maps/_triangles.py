"""The triangle inequalities of a Gram matrix, formed where they are summed up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from .. import placement, resources, trees
from ..errors import InvalidInputError
from ..trees import Point, Structure, stored
from ._base import MAPS, LinearMap, Residual
from ._structured import require_square

# How many rows of a map without storage are formed at a time. On a CPU a loop over slabs is slower
# than one slab by 1.5 to 3 times, so this is as large as memory easily allows: n = 322 in one.
SLAB_NUMBERS = 2**25
UNROLLED = 16  # matrices that are summed up in one pass of a loop
WRITTEN_OUT = 64  # as many are summed up without a loop, which takes two thirds of the time


class Slab(NamedTuple):
    """`size` entries of an axis, from `first` on."""

    first: Any
    size: int

    def of(self, array: jax.Array) -> jax.Array:
        """These rows of an array."""
        return lax.dynamic_slice_in_dim(array, self.first, self.size)


def _by_slabs(n: int, function: Callable[[Slab], jax.Array]) -> jax.Array:
    """function(slab) for all n rows, slab by slab; each may form size x n x n numbers."""
    size = max(1, min(n, SLAB_NUMBERS // (n * n)))
    slabs, left = divmod(n, size)
    if slabs == 1 and not left:
        return function(Slab(0, n))
    found = lax.map(lambda index: function(Slab(index * size, size)), jnp.arange(slabs))
    found = found.reshape(slabs * size, n)
    return jnp.concatenate([found, function(Slab(slabs * size, left))]) if left else found


def _sum_over_rows(x: jax.Array, term: Callable[[jax.Array, jax.Array], jax.Array]) -> jax.Array:
    """The sum of term(x[j], x[j, j]), each of the shape of x, over all j."""
    n = x.shape[0]
    diagonal = jnp.diagonal(x)

    def block(first: Any, size: int, total: jax.Array) -> jax.Array:
        slab = Slab(first, size)
        rows, corners = lax.optimization_barrier((slab.of(x), slab.of(diagonal)))
        for index in range(size):
            total = total + term(rows[index], corners[index])
        return total

    if n <= WRITTEN_OUT:
        return block(0, n, jnp.zeros_like(x))
    blocks, left = divmod(n, UNROLLED)
    total = block(0, left, jnp.zeros_like(x))
    return lax.fori_loop(0, blocks, lambda b, t: block(left + b * UNROLLED, UNROLLED, t), total)


@MAPS.register
class Triangles(LinearMap):
    """All triangle inequalities of a Gram matrix: X_ij + X_jk - X_ik - X_jj, none stored.

    Each middle j with each unordered pair {i, k} of others is one row: n (n-1) (n-2) / 2 of them,
    6,900 for n = 25. Rows are numbered by (j, i, k) with i < k in an n x n x n array whose other
    places are 0; directions and distances are had without it.

    >>> import numpy as np
    >>> from mostfw.maps import Triangles
    >>> from mostfw.trees import structure_of
    >>> Triangles().rows(structure_of(np.zeros((25, 25))))
    6900
    """

    stored: ClassVar[bool] = False
    side: int | None = eqx.field(static=True, default=None)  # known as part of a Problem

    @property
    def symmetric(self) -> bool:
        return True

    def rows(self, structure: Structure) -> int:
        n = structure.shape[0]
        return n * (n - 1) * (n - 2) // 2

    def _rows(self, x: jax.Array, middles: Slab) -> jax.Array:
        """Those of some middles by (j, i, k): with (k, i) too, and also where i, j and k are not
        three nodes."""
        # grouped so that rows with j = i or j = k are 0 exactly, whatever the rounding
        near = middles.of(x)
        return (near - middles.of(jnp.diagonal(x))[:, None])[:, :, None] + (near[:, None, :] - x)

    def pull(self, x: Point, residual: Residual) -> Point:
        n = x.shape[0]
        apart = ~jnp.eye(n, dtype=bool)
        nothing = residual(jnp.zeros((), x.dtype))
        if placement.spread(n) or resources.accelerator_bytes() is not None:
            ends, across = self._sums(x, residual, apart)
        else:
            ends, across = self._sums_by_rows(x, residual)
        # rows with j = i or j = k are no rows, and say what 0 says
        ends = jnp.where(apart, ends - nothing, 0)
        return self._put(ends, jnp.where(apart, across / 2 - nothing, 0))

    def _sums_by_rows(self, x: jax.Array, residual: Residual) -> tuple[jax.Array, jax.Array]:
        """As `_sums`, each the sum of n matrices that are functions of x entry by entry. On a CPU
        that is computed in registers, and at n = 102 five times as fast as a sum over an axis, of
        which the compiler stores all the summands."""
        diagonal = jnp.diagonal(x)

        def to_end(row: jax.Array, _: jax.Array) -> jax.Array:  # row k: by (j, i)
            return residual((x - diagonal[:, None]) + (row[:, None] - row[None, :]))

        def over_middle(row: jax.Array, corner: jax.Array) -> jax.Array:  # row j: by (i, k)
            return residual((row - corner)[:, None] + (row[None, :] - x))

        def both() -> tuple[jax.Array, jax.Array]:
            same = residual((x - diagonal[:, None]) + (x - diagonal[None, :]))  # i = k
            return _sum_over_rows(x, to_end) - same, _sum_over_rows(x, over_middle)

        # a loop stores what it ends with; else the compiler would make each number wherever it is
        # used, also across the diagonal
        return stored(both) if x.shape[0] <= WRITTEN_OUT else both()

    def _sums(
        self, x: jax.Array, residual: Residual, apart: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Of the rows with two different ends: by (j, i), and by (i, k)."""
        # Each formed anew with the summed index last: of all ways tried on a GPU the fastest. Rows
        # with j = i or j = k are taken off afterwards: a mask of all three would double the time,
        # and none, by which the compiler splits each sum, treble it.
        n = x.shape[0]

        def ends_of(middles: Slab) -> jax.Array:
            rows = residual(self._rows(x, middles))
            return jnp.sum(jnp.where(apart, rows, 0), axis=2)

        def across_of(first: Slab) -> jax.Array:  # by (i, k, j)
            near = first.of(x)
            to_middle = (near - jnp.diagonal(x))[:, None, :]
            rows = residual(to_middle + (x - near[:, :, None]))
            return jnp.sum(jnp.where(first.of(apart)[:, :, None], rows, 0), axis=2)

        return _by_slabs(n, ends_of), _by_slabs(n, across_of)

    def _put(self, ends: jax.Array, across: jax.Array) -> jax.Array:
        y = ends - across
        return (y + y.T) / 2 - jnp.diag(jnp.sum(ends, axis=1) / 2)

    def squares(self, x: Point, residual: Residual) -> jax.Array:
        def squares_of(middles: Slab) -> jax.Array:
            once = self._once(x.shape[0], middles)
            return jnp.sum(jnp.where(once, residual(self._rows(x, middles)), 0) ** 2, axis=2)

        return jnp.sum(_by_slabs(x.shape[0], squares_of))

    def forward(self, x: Point) -> jax.Array:
        return self.residual(x, lambda rows: rows)

    def placed(self, u: jax.Array) -> jax.Array:
        return jnp.where(self._once(u.shape[0], Slab(0, u.shape[0])), u, 0)

    def adjoint_size(self, u: jax.Array, structure: Structure) -> jax.Array | None:
        once = jnp.abs(self.placed(u))
        ends = jnp.sum(once, axis=2) + jnp.sum(once, axis=1)
        y = ends + jnp.sum(once, axis=0)
        return trees.norm((y + y.T) / 2 + jnp.diag(jnp.sum(ends, axis=1) / 2))

    def adjoint(self, u: jax.Array, structure: Structure) -> Point:
        once = self.placed(u)
        return self._put(jnp.sum(once, axis=2) + jnp.sum(once, axis=1), jnp.sum(once, axis=0))

    def residual(self, x: Point, residual: Residual) -> jax.Array:
        return self.placed(residual(self._rows(x, Slab(0, x.shape[0]))))

    def _once(self, n: int, middles: Slab) -> jax.Array:
        """Where j, i and k are three nodes and i < k."""
        i, k = jnp.arange(n)[:, None], jnp.arange(n)[None, :]
        j = middles.of(jnp.arange(n))[:, None, None]
        return (i < k) & (i != j) & (k != j)

    def draw(self, key: Any, size: int, rows: int) -> Any:
        n = self._side
        middle_key, first_key, second_key = jax.random.split(key, 3)
        j = jax.random.randint(middle_key, (size,), 0, n)
        first = jax.random.randint(first_key, (size,), 1, n)
        second = jax.random.randint(second_key, (size,), 1, n - 1)
        second = second + (second >= first)
        i, k = (j + first) % n, (j + second) % n
        return j, jnp.minimum(i, k), jnp.maximum(i, k)

    def entries(self, x: Point, rows: Any) -> jax.Array:
        j, i, k = rows
        return x[j, i] + x[j, k] - x[i, k] - x[j, j]

    def scatter(self, y: Point, values: jax.Array, rows: Any) -> Point:
        j, i, k = rows
        half = values / 2
        at = (
            jnp.concatenate([i, j, j, k, i, k, j]),
            jnp.concatenate([j, i, k, j, k, i, j]),
        )
        return y.at[at].add(jnp.concatenate([half] * 4 + [-half] * 2 + [-values]))

    def slot(self, rows: Any) -> jax.Array:
        j, i, k = rows
        n = self._side
        return (j * n + i) * n + k

    @property
    def _side(self) -> int:
        if self.side is None:
            raise InvalidInputError("Triangles must be part of a Problem before it has a table.")
        return self.side

    def slots(self, structure: Structure) -> int:
        return structure.shape[0] ** 3

    def resolve(self, structure: Structure) -> LinearMap:
        require_square(self, structure, least=3)
        return Triangles(side=structure.shape[0])

    @staticmethod
    def examples() -> list[tuple[LinearMap, Any, bool]]:
        return [(Triangles(side=n), np.zeros((n, n)), True) for n in (3, 5, 8)]
