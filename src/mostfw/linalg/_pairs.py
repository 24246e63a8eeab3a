"""What is found, how exactly it is asked for, and a few vector helpers."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int


def norm_of(v: Array) -> Array:
    return jnp.sqrt(jnp.sum(v * v))


def nonzero(scale: Array) -> Array:
    """A divisor: the scale, or 1 where it is 0 (or so small that dividing by it overflows)."""
    return jnp.where(scale < 4 * jnp.finfo(scale.dtype).tiny, 1, scale)


def unit(v: Array) -> Array:
    """v / ||v||, whatever the scale of v; 0 stays 0."""
    v = v / nonzero(jnp.max(jnp.abs(v)))
    return v / nonzero(norm_of(v))


def as_unit(v: Array, dtype: Any) -> Array:
    """A vector of norm 1 in another precision, where it must be made one again.

    >>> import jax.numpy as jnp
    >>> from mostfw.linalg import as_unit
    >>> as_unit(jnp.array([0.6, 0.8]), "float32").dtype
    dtype('float32')
    """
    return v if v.dtype == dtype else unit(v.astype(dtype))


def generic(n: int, dtype: Any) -> Array:
    """A fixed vector that no structured matrix is likely to have as its orthogonal."""
    return unit(jnp.cos(jnp.arange(1, n + 1, dtype=dtype) ** 2))


def _none() -> Array:
    return jnp.zeros((), jnp.int32)


class Eigenpair(eqx.Module):
    """A v = value v, but for `residual` = ||A v - value v||; v has norm 1.

    `matvecs` counts the products that the Krylov path made; the dense path makes none.
    `converged` says whether the residual is within the tolerance asked, `fallbacks` how often (0 or
    1) the usual way was given up for a slower, sure one.

    >>> import jax, jax.numpy as jnp
    >>> from mostfw.linalg import smallest_eigenpair
    >>> pair = smallest_eigenpair(jnp.eye(3), jax.random.PRNGKey(0))
    >>> round(float(pair.value), 6), bool(pair.converged), int(pair.fallbacks)
    (1.0, True, 0)
    """

    value: Float[Array, ""]
    vector: Float[Array, " n"]
    residual: Float[Array, ""]
    matvecs: Int[Array, ""]
    converged: Bool[Array, ""]
    fallbacks: Int[Array, ""] = eqx.field(default_factory=_none)


class Accuracy(eqx.Module):
    """How exact an eigenpair or an LMO must be: within `relative` of the operator's norm, or within
    `absolute` in its own units (for an LMO, of <direction, atom>), whichever comes first.

    >>> from mostfw.linalg import Accuracy
    >>> float(Accuracy(1e-6, absolute=0.5).allowed(10.0))
    0.5
    """

    relative: Any
    absolute: Any = 0.0

    @staticmethod
    def of(tolerance: Any, dtype: Any) -> Accuracy:
        """A number is relative."""
        given = tolerance if isinstance(tolerance, Accuracy) else Accuracy(tolerance)
        return jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), given)

    def over(self, scale: Any) -> Accuracy:
        """The same in units that are `scale` times as large."""
        return Accuracy(self.relative, self.absolute / scale)

    def allowed(self, norm: Any) -> Array:
        """The residual that will do: never more than the arithmetic can give."""
        norm = jnp.asarray(norm)
        relative = jnp.maximum(self.relative, 4 * jnp.finfo(norm.dtype).eps)
        return jnp.maximum(relative * norm, self.absolute)


class SingularPair(eqx.Module):
    """A right = value left and A' left = value right, but for `residual` in the second.

    Both vectors have norm 1. `matvecs` counts products with A and with A'.

    >>> import jax, jax.numpy as jnp
    >>> from mostfw.linalg import leading_singular_pair
    >>> pair = leading_singular_pair(2 * jnp.eye(2, 3), jax.random.PRNGKey(0))
    >>> round(float(pair.value), 6)
    2.0
    """

    value: Float[Array, ""]
    left: Float[Array, " rows"]
    right: Float[Array, " columns"]
    residual: Float[Array, ""]
    matvecs: Int[Array, ""]
    converged: Bool[Array, ""]
    fallbacks: Int[Array, ""] = eqx.field(default_factory=_none)
