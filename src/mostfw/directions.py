"""The direction s_k as an LMO over matrices takes it: products with vectors.

Most of an iteration is spent on reading matrices, so the direction is made such that little is
read: not formed at all where there is no room for it, else formed without what is thin (a few
vectors, whose products are cheap by themselves), and in single precision where the LMO need not be
more exact than that.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from . import placement
from .constraints import Affine
from .maps import LinearMap
from .operators import SymmetricOperator, dot, total
from .sight import Estimate
from .terms import Numbers
from .trees import Structure, after, replaced, scaled

GLANCE = 16  # the share of a matrix that shows in most cases that it is another one


class Applied(SymmetricOperator):
    """The direction as products with vectors, from x, y and the constraints: never a matrix."""

    stored: jax.Array
    factor: jax.Array
    x: jax.Array
    constraints: tuple[Affine, ...]
    memos: tuple[Any, ...]
    numbers: Numbers

    @property
    def size(self) -> int:
        return self.x.shape[0]

    @property
    def dtype(self) -> Any:
        return self.x.dtype

    def matvec(self, v: jax.Array) -> jax.Array:
        # The barrier keeps what x and y are made into inside the loop over products; outside it
        # would be a matrix after all.
        x, v = lax.optimization_barrier((self.x, v))
        # A sum, as in the maps' products: on a GPU it stores nothing of the size of x.
        product = self.factor * jnp.sum(self.stored * v, axis=1)
        for constraint, memo in zip(self.constraints, self.memos, strict=True):
            product = product + constraint.product(v, x, self.numbers, memo)
        return placement.by_rows(product)


class Thin(eqx.Module):
    """G'u of a map whose products with vectors take a few passes over vectors."""

    map: LinearMap
    u: jax.Array
    side: int = eqx.field(static=True)

    def dense(self) -> jax.Array:
        return self.map.adjoint(self.u, self._structure(self.u.dtype))

    def product(self, v: jax.Array, unit: jax.Array) -> jax.Array:
        """(G'u / unit) v."""
        return self.map.product((self.u / unit).astype(v.dtype), v, self._structure(v.dtype))

    def norm(self) -> jax.Array:
        return self.map.adjoint_norm(self.u, self._structure(self.u.dtype))

    def _structure(self, dtype: Any) -> Structure:
        return jax.ShapeDtypeStruct((self.side, self.side), dtype)


class Lean(SymmetricOperator):
    """`unit` times a matrix, perhaps in single precision, plus thin ones.

    >>> import jax.numpy as jnp
    >>> from mostfw.directions import Lean, Thin
    >>> from mostfw.maps import Trace
    >>> lean = Lean(jnp.eye(2), jnp.array(2.0), (Thin(Trace(), jnp.array([6.0]), 2),))
    >>> lean.matvec(jnp.ones(2)).tolist()  # in units of 2
    [4.0, 4.0]
    """

    matrix: jax.Array
    unit: jax.Array
    thin: tuple[Thin, ...]

    @property
    def size(self) -> int:
        return self.matrix.shape[0]

    @property
    def dtype(self) -> Any:
        return self.matrix.dtype

    def matvec(self, v: jax.Array) -> jax.Array:
        """The product in units of `unit`."""
        product = dot(self.matrix, v)
        for part in self.thin:
            product = product + part.product(v, self.unit)
        return placement.by_rows(product)


class Aim(eqx.Module):
    """What a direction will be made of: each use makes what it needs of it, where it needs it.

    A compiler that is given the formed matrix for two uses stores it, though one of them may
    need it in half the precision, or a sixteenth of it, or not in this iteration.
    """

    stored: jax.Array  # y is factor times this
    factor: jax.Array
    x: jax.Array
    constraints: tuple[Affine, ...]
    memos: tuple[Any, ...]
    told: tuple[jax.Array | None, ...]  # what a thin constraint says; None: it is no thin one
    numbers: Numbers

    @staticmethod
    def at(
        estimate: Estimate,
        x: jax.Array,
        constraints: tuple[Affine, ...],
        memos: tuple[Any, ...],
        numbers: Numbers,
    ) -> Aim:
        said = [
            c.told(x, numbers, memo) if c.map.thin and memo is not None else (None, memo)
            for c, memo in zip(constraints, memos, strict=True)
        ]
        told, renewed = zip(*said, strict=True) if said else ((), ())
        return Aim(estimate.stored, estimate.factor, x, constraints, renewed, told, numbers)

    def behind(self, number: jax.Array) -> Aim:
        """The same, which the compiler cannot use before it has the number: in a loop, what does
        not depend on its turns would be made before it, whether there are any or not."""
        stored, x, number = lax.optimization_barrier((self.stored, self.x, number))
        # used, for what nothing uses is taken out of the barrier
        factor = after(number.astype(x.dtype), self.factor)
        return replaced(self, stored=stored, x=x, factor=factor)

    @property
    def thin(self) -> tuple[Thin, ...]:
        pairs = zip(self.constraints, self.told, strict=True)
        return tuple(Thin(c.map, u, self.x.shape[0]) for c, u in pairs if u is not None)

    def _thick(self) -> tuple[jax.Array, tuple[Any, ...]]:
        """The matrix without what is thin, and the memos renewed."""
        s, renewed = scaled(self.factor, self.stored), []
        for c, memo, u in zip(self.constraints, self.memos, self.told, strict=True):
            if u is None:
                s, memo = c.push(s, self.x, self.numbers, memo)
            renewed.append(memo)
        return s, tuple(renewed)

    def largest(self) -> jax.Array:
        """The largest entry of the matrix: a unit in which single precision has room for it."""
        largest = jnp.max(jnp.abs(self._thick()[0]))
        usable = (1 / largest < jnp.inf) & (largest < jnp.inf)
        return jnp.where(usable, largest, 1)

    def formed(self, dtype: Any, unit: jax.Array) -> tuple[Lean, tuple[Any, ...]]:
        """The direction, and the memos renewed."""
        s, renewed = self._thick()
        return Lean((s * (1 / unit)).astype(dtype), unit, self.thin), renewed

    def distance(self, reference: Lean, unit: jax.Array, glance: bool = False) -> jax.Array:
        """||s - reference|| in units; at a glance, what the first rows have of it."""
        s = self._thick()[0] - reference.unit * reference.matrix.astype(self.x.dtype)
        s = sum((part.dense() for part in self._thin_change(reference)), s)
        return _norm(first_rows(s) if glance else s, unit)

    def _thin_change(self, reference: Lean) -> list[Thin]:
        pairs = zip(self.thin, reference.thin, strict=True)
        return [replaced(now, u=now.u - then.u) for now, then in pairs]

    def thin_distance(self, reference: Lean) -> jax.Array:
        """How far at most what is thin is from the reference's: no matrix is read."""
        parts = (part.norm() for part in self._thin_change(reference))
        return sum(parts, jnp.zeros((), self.x.dtype))

    def strain(self, before: Numbers, eta: jax.Array, diameter: Any) -> jax.Array:
        """How far at most a step of eta took the thick constraints' part, w/mu (x - Proj_X(x)).

        It changes by no more than x, times w/mu; and with w/mu, times the distance of x from X,
        which is no more than that of x from a point of the domain in X.
        """
        total = jnp.zeros((), self.x.dtype)
        for c, u in zip(self.constraints, self.told, strict=True):
            if u is None:
                now, then = c.gain(self.numbers), c.gain(before)
                stiff = 1.0 if c.row_weights is None else jnp.max(c.row_weights)
                total = total + stiff * diameter * (eta * now + jnp.abs(now - then))
        return total

    def norm(self, unit: jax.Array) -> jax.Array:
        """||s|| in units."""
        return _norm(sum((part.dense() for part in self.thin), self._thick()[0]), unit)


def _norm(a: jax.Array, unit: jax.Array) -> jax.Array:
    """In single precision, of which half as much is stored."""
    return jnp.sqrt(total(((a * (1 / unit)) ** 2).astype(jnp.float32))).astype(a.dtype)


def first_rows(a: jax.Array) -> jax.Array:
    """The first rows; of a matrix whose rows are on several devices, what all have: columns."""
    if placement.active() and a.ndim == 2:
        return a[:, : a.shape[1] // GLANCE]
    return a[: a.shape[0] // GLANCE]
