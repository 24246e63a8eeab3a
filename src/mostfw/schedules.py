"""Schedules: iteration k -> number. They print as formulas and compare by value."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

Schedule = Callable[[Any], jax.Array]
"""Any `k -> number` serves; `Power` and `Constant` also print, compare and stay traced."""


class Power(eqx.Module):
    """min(cap, scale / (k + shift)^exponent): every schedule of the paper is one of these.

    >>> from mostfw.schedules import Power
    >>> print(Power(2, shift=1), "|", Power(1.5, exponent=0.5), "|", Power(4, 7, 2 / 3, cap=1))
    2/(k+1) | 1.5/k^(1/2) | min(1, 4/(k+7)^(2/3))
    >>> float(Power(2, shift=1)(3))
    0.5
    """

    scale: Any
    shift: Any
    exponent: Any
    cap: Any

    def __init__(
        self, scale: Any, shift: Any = 0.0, exponent: Any = 1.0, cap: Any = float("inf")
    ) -> None:
        # Floats become traced leaves when a run starts, so that other values do not recompile.
        self.scale = _as_float(scale)
        self.shift = _as_float(shift)
        self.exponent = _as_float(exponent)
        self.cap = _as_float(cap)

    def __call__(self, k: Any) -> jax.Array:
        scale = jnp.asarray(self.scale)
        base = jnp.maximum(jnp.asarray(k).astype(scale.dtype) + self.shift, 0)
        return jnp.minimum(scale / base**self.exponent, self.cap).astype(scale.dtype)

    def __str__(self) -> str:
        shift, exponent, cap = (float(v) for v in (self.shift, self.exponent, self.cap))
        k = f"(k{shift:+g})" if shift else "k"
        power = "" if exponent == 1 else f"^{_fraction(exponent)}"
        text = f"{float(self.scale):g}" if exponent == 0 else f"{float(self.scale):g}/{k}{power}"
        return text if np.isinf(cap) else f"min({cap:g}, {text})"


class Constant(eqx.Module):
    """The same number at every iteration.

    >>> from mostfw.schedules import Constant
    >>> print(Constant(0.1))
    0.1
    """

    value: Any

    def __init__(self, value: Any) -> None:
        self.value = _as_float(value)

    def __call__(self, k: Any) -> jax.Array:
        return jnp.asarray(self.value)

    def __str__(self) -> str:
        return f"{float(self.value):g}"


def _as_float(value: Any) -> Any:
    return float(value) if isinstance(value, int) else value


def _fraction(value: float) -> str:
    fraction = Fraction(value).limit_denominator(12)
    if abs(float(fraction) - value) > 1e-9:
        return f"{value:g}"
    return str(fraction) if fraction.denominator == 1 else f"({fraction})"
