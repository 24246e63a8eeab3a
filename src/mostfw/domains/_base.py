"""What a domain is: a convex set C over which a linear function is easy to minimise.

LMO means argmin, everywhere: `lmo(s)` gives an atom z with <s, z> = min over C of <s, .>.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from .. import atoms
from ..registry import Registry
from ..trees import Point, Structure
from ._least import Least

DOMAINS: Registry = Registry("domain")


def no_products() -> jax.Array:
    return jnp.zeros((), jnp.int32)


class LinearMinimum(eqx.Module):
    """What an LMO found: the atom, <s, atom>, and the operator products that it took; `fallbacks`
    counts searches that failed and were made again in a slower, sure way.

    >>> import jax.numpy as jnp, mostfw as fw
    >>> found = fw.domains.Simplex(2).lmo(jnp.array([3.0, 1.0]))
    >>> found.atom.dense().tolist(), float(found.value), int(found.matvecs)
    ([0.0, 1.0], 1.0, 0)
    """

    atom: Any
    value: jax.Array
    matvecs: jax.Array
    fallbacks: jax.Array = eqx.field(default_factory=no_products)


class Domain(eqx.Module):
    """A compact convex set. A new one needs the five abstract members and nothing else."""

    @abc.abstractmethod
    def structure(self, dtype: Any) -> Structure:
        """The shapes of a point."""

    @abc.abstractmethod
    def start(self, dtype: Any) -> Point:
        """A point of the domain to begin with (x_1)."""

    @abc.abstractmethod
    def lmo(
        self, direction: Point, *, key: Any = None, start: Any = None, tolerance: Any = 0.0
    ) -> LinearMinimum:
        """argmin over the domain of <direction, .>.

        `key` and `start` (an earlier atom) serve iterative oracles; `tolerance` is relative to
        the direction's norm, or a `mostfw.linalg.Accuracy`; exact oracles ignore all three.
        """

    @abc.abstractmethod
    def excess(self, x: Point) -> jax.Array:
        """By how much x breaks the domain's definition (0 inside), in the units of x."""

    @property
    @abc.abstractmethod
    def diameter(self) -> float:
        """The largest distance between two points (the paper's D)."""

    def least(self, direction: Point) -> Least:
        """A number not above the minimum of <direction, .> over the domain, for certificates.

        This default takes the LMO's value and does not call it proved: an LMO that stops early
        ends above the minimum. A domain that knows better overrides it, on the host.
        """
        return Least(float(self.lmo(direction).value), False)

    def least_feasible(self, direction: Point, constraints: Sequence[Any]) -> Least:
        """A number not above <direction, .> at those points that keep all of these constraints.

        This default asks nothing of them. A domain that knows what some of them mean together with
        its own definition finds them here, and where they are not among these, `least` it is.
        """
        return self.least(direction)

    def tangent(self, direction: Point) -> Point:
        """The part of a direction that the domain can see: its symmetric part for matrices."""
        return direction

    def move(self, x: Point, atom: Any, eta: Any) -> Point:
        """x + eta (z - x), fused with the atom's factors."""
        return atoms.move(x, atom, eta)

    def dense(self, atom: Any) -> Point:
        """An atom as a point."""
        return atoms.dense(atom)

    def contains(self, x: Point, tolerance: float = 1e-9) -> bool:
        """Whether x is in the domain, to `tolerance` relative to its diameter."""
        return bool(self.excess(x) <= tolerance * max(1.0, self.diameter))


class ArrayDomain(Domain):
    """A domain whose points are one array of a given `shape`; it starts from 0."""

    shape: eqx.AbstractVar[tuple[int, ...]]

    def structure(self, dtype: Any) -> Structure:
        return jax.ShapeDtypeStruct(self.shape, dtype)

    def start(self, dtype: Any) -> Point:
        return jnp.zeros(self.shape, dtype)
