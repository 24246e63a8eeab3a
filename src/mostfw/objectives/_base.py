"""What an objective is."""

from __future__ import annotations

import abc
from typing import Any

import jax

from ..registry import Registry
from ..terms import Term
from ..trees import Point

OBJECTIVES: Registry = Registry("objective")


class Objective(Term):
    """A term with values: what a Problem minimises."""

    @abc.abstractmethod
    def value(self, x: Point, xi: Any) -> jax.Array:
        """The objective on one draw: unbiased, and its gradient is what the draw adds."""

    def whole_value(self, x: Point) -> jax.Array | None:
        """E f(x, xi), or None where only samples can be had."""
        return None

    @property
    def finite(self) -> bool:
        """Whether the gradient of the whole can be had."""
        return self.total is not None
