"""Trimming: when the last atom may serve again instead of a new LMO call (Algorithm 3)."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from . import checks, trees
from .directions import Aim, Lean, first_rows
from .errors import InvalidInputError
from .schedules import Schedule
from .trees import Point

READ_AT_ONCE = 2**17  # an array this small is not worth a glance
TESTS = ("norm", "bound")


class Trimming(eqx.Module):
    """Skip the LMO while ||s_k - v|| < tau_k, v the direction of the last call.

    The norm is that of the LMO's inner product (Frobenius for matrices). tau_k is absolute, as in
    the paper, or a fraction of ||s_k|| with `relative=True`, which survives a change of units.

    The norm takes a pass over three n x n arrays. With `test="bound"` none is read: skipped is what
    a bound on it allows, from how long the sampled gradients are, how far the point can have moved
    and how stiff the constraints are. So less is skipped for the same tau_0, and what is, is
    within tau_k all the same: if Gx in X can be met, and, where entries are drawn with replacement,
    with a probability of 1 - 1e-12 a step.

    >>> import mostfw as fw
    >>> print(fw.trimming.Trimming(fw.schedules.Power(5, shift=1, exponent=0.5)))
    skip while ||s_k - v|| < 5/(k+1)^(1/2)
    >>> print(fw.trimming.Trimming(fw.schedules.Power(5), test="bound"))
    skip while ||s_k - v|| < 5/k by a bound
    """

    tau: Schedule
    relative: bool = eqx.field(static=True, default=False)
    test: str = eqx.field(static=True, default="norm")
    diameter: Any = None  # of the domain, as `Method.bind` finds

    def __check_init__(self) -> None:
        checks.choice("test", self.test, TESTS)
        if self.relative and self.by_bound:
            raise InvalidInputError(
                "trimming by a bound reads no direction, so tau_0 cannot be relative to its norm: "
                "give tau_0 and leave relative= out."
            )

    @property
    def by_bound(self) -> bool:
        return self.test == "bound"

    def may_skip(self, direction: Point, reference: Point, k: Any) -> jax.Array:
        """NaN compares false, so that a broken direction goes to the LMO and is noticed."""
        threshold = self.tau(k)
        if self.relative:
            threshold = threshold * trees.norm(direction)
        return (k > 1) & _nearer(direction, reference, threshold)

    def may_skip_along(self, aim: Aim, reference: Lean, unit: jax.Array, k: Any) -> jax.Array:
        """The same of a direction that is not formed yet, and whose entries are about `unit`."""
        limit = jnp.asarray(self.tau(k), unit.dtype)
        if self.relative:
            limit = limit * unit * aim.norm(unit)
        near = aim.distance(reference, limit, glance=True) < 1
        whole = lambda: aim.distance(reference, limit) < 1  # noqa: E731
        return (k > 1) & (limit > 0) & lax.cond(near, whole, lambda: False)

    def may_skip_after(self, gone: jax.Array, aim: Aim, reference: Lean, k: Any) -> jax.Array:
        """By a bound: `gone` is how far all that is not thin can have gone."""
        limit = jnp.asarray(self.tau(k), gone.dtype)
        return (k > 1) & (gone + aim.thin_distance(reference) < limit)

    def __str__(self) -> str:
        unit = " ||s_k||" if self.relative else ""
        how = " by a bound" if self.by_bound else ""
        return f"skip while ||s_k - v|| < {self.tau}{unit}{how}"


def _nearer(a: Point, b: Point, limit: Any) -> jax.Array:
    """||a - b|| < limit, after a glance that mostly shows where it is not.

    A pass over two n x n arrays is a good part of what trimming saves. The first rows come first,
    for a sum of squares only grows. The rest is not cut further: what is cut out of an array is
    stored before it is summed up, and reading all of it once takes less.
    """
    pairs = list(zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))
    limit = jnp.asarray(limit, pairs[0][0].dtype)

    def used(pairs: list[tuple[jax.Array, jax.Array]]) -> jax.Array:
        # in units of the limit, so that squares of large directions cannot overflow
        return sum((jnp.sum(((u - v) / limit) ** 2) for u, v in pairs), jnp.zeros_like(limit))

    u, v = pairs[0]
    if u.size < READ_AT_ONCE:
        return (used(pairs) < 1) & (limit > 0)
    glance = used([(first_rows(u), first_rows(v))])
    # NaN goes on to the second look, and ends as "no" there
    return lax.cond(glance >= 1, lambda: False, lambda: used(pairs) < 1) & (limit > 0)
