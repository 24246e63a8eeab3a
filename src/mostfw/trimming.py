"""Trimming: when the last atom may serve again instead of a new LMO call (Algorithm 3)."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from . import trees
from .schedules import Schedule
from .trees import Point


class Trimming(eqx.Module):
    """Skip the LMO while ||s_k - v|| < tau_k, v the direction of the last call.

    The norm is that of the LMO's inner product (Frobenius for matrices). tau_k is absolute, as in
    the paper, or a fraction of ||s_k|| with `relative=True`, which survives a change of units.

    >>> import mostfw as fw
    >>> print(fw.trimming.Trimming(fw.schedules.Power(5, shift=1, exponent=0.5)))
    skip while ||s_k - v|| < 5/(k+1)^(1/2)
    """

    tau: Schedule
    relative: bool = eqx.field(static=True, default=False)

    def may_skip(self, direction: Point, reference: Point, k: Any) -> jax.Array:
        """NaN compares false, so that a broken direction goes to the LMO and is noticed."""
        threshold = self.tau(k)
        if self.relative:
            threshold = threshold * trees.norm(direction)
        distance = trees.norm(trees.minus(direction, reference))
        return (k > 1) & (distance < jnp.asarray(threshold, distance.dtype))

    def __str__(self) -> str:
        unit = " ||s_k||" if self.relative else ""
        return f"skip while ||s_k - v|| < {self.tau}{unit}"
