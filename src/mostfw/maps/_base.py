"""What a linear map is."""

from __future__ import annotations

import abc
import math
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from .. import trees
from ..errors import InvalidInputError
from ..operators import dot
from ..registry import Registry
from ..trees import Point, Structure

MAPS: Registry = Registry("linear map")

Residual = Callable[[jax.Array], jax.Array]


class LinearMap(eqx.Module):
    """x -> Gx. `forward` and `adjoint` are enough for whole constraints; sampled ones also need
    `entries` and `scatter`, which touch only the rows drawn."""

    sampleable: ClassVar[bool] = True
    stored: ClassVar[bool] = True  # whether Gx is an array that one can have at once
    thin: ClassVar[bool] = False  # whether `product` takes only a few passes over vectors
    pointwise: ClassVar[bool] = False  # whether each entry of Gx and of G'u is one of x and of u

    @property
    def symmetric(self) -> bool:
        """Whether the adjoint's matrices are symmetric (for a symmetric u, if u is a matrix)."""
        return False

    @abc.abstractmethod
    def forward(self, x: Point) -> jax.Array:
        """Gx."""

    @abc.abstractmethod
    def adjoint(self, u: jax.Array, structure: Structure) -> Point:
        """G'u, with the structure of a point."""

    def rows(self, structure: Structure) -> int:
        """How many scalar rows G has on points of this structure."""
        return math.prod(jax.eval_shape(self.forward, structure).shape)

    def pull(self, x: Point, residual: Residual) -> Point:
        """G' residual(Gx): the direction of a constraint."""
        return self.adjoint(self.residual(x, residual), trees.structure_of(x))

    def squares(self, x: Point, residual: Residual) -> jax.Array:
        """The sum of residual(Gx)^2."""
        return jnp.sum(self.residual(x, residual) ** 2)

    def residual(self, x: Point, residual: Residual) -> jax.Array:
        """residual(Gx), an elementwise function of the rows that exist."""
        return residual(self.forward(x))

    def product(self, u: jax.Array, v: jax.Array, structure: Structure) -> jax.Array:
        """(G'u) v for a map of symmetric matrices: the direction applied instead of formed."""
        return dot(self.adjoint(u, structure), v)

    def adjoint_norm(self, u: jax.Array, structure: Structure) -> jax.Array:
        """||G'u||; a thin map knows it without the matrix."""
        return trees.norm(self.adjoint(u, structure))

    def adjoint_size(self, u: jax.Array, structure: Structure) -> jax.Array | None:
        """A bound on || |G|'|u| ||: what the entries of G'u sum up, whatever cancels there, which
        their rounding is a share of. None where it is not known."""
        return None

    def placed(self, u: jax.Array) -> jax.Array:
        """An array like Gx, 0 where its places are no rows."""
        return u

    def row_norms(self, structure: Structure) -> jax.Array | None:
        """||row i of G||, like Gx; None where all are the same by construction."""
        return None

    def image_of(self, atom: Any) -> jax.Array | None:
        """Gz from an atom's factors, where that costs no more than a few vectors; else None.

        A run then carries Gx along with its moves and never reads x for it.
        """
        return None

    def draw(self, key: Any, size: int, rows: int) -> Any:
        """Rows drawn uniformly, with replacement."""
        return jax.random.randint(key, (size,), 0, rows)

    def entries(self, x: Point, rows: Any) -> jax.Array:
        """(Gx) at the drawn rows."""
        raise not_sampleable(self)

    def scatter(self, y: Point, values: jax.Array, rows: Any) -> Point:
        """y + sum of values[i] times row i of G."""
        raise not_sampleable(self)

    def slot(self, rows: Any) -> jax.Array:
        """Flat positions of the drawn rows in a table."""
        return rows

    def slots(self, structure: Structure) -> int:
        """The size of that table."""
        return self.rows(structure)

    def places(self, rows: Any) -> jax.Array:
        """Flat positions, in an array like Gx, that say what the drawn rows say: (copies, size)."""
        return self.slot(rows)[None]

    def resolve(self, structure: Structure) -> LinearMap:
        """Checked against the structure of a point."""
        return self


def not_sampleable(linear_map: LinearMap) -> InvalidInputError:
    return InvalidInputError(
        f"{type(linear_map).__name__} cannot be sampled row by row: give a matrix, a structured "
        "map, or a Function with at= and rows=."
    )
