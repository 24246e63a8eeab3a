"""Schedules: iteration k -> number. They print as formulas and compare by value."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

LAST_ITERATION = 2**31 - 2  # a run counts them in 32 bits

Schedule = Callable[[Any], jax.Array]
"""Any `k -> number` serves; `Power` and `Constant` also print, compare and stay traced."""


def _as_float(value: Any) -> Any:
    return float(value) if isinstance(value, int | np.generic) else value


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


class FirstOne(eqx.Module):
    """1 at k = 1, then another schedule.

    >>> import mostfw as fw
    >>> first_one = fw.schedules.FirstOne(fw.schedules.Power(1, shift=1))
    >>> float(first_one(1)), float(first_one(3))
    (1.0, 0.25)
    """

    rest: Power

    def __call__(self, k: Any) -> jax.Array:
        rest = self.rest(k)
        return jnp.where(jnp.asarray(k) <= 1, jnp.ones_like(rest), rest)

    def __str__(self) -> str:
        return f"1 at k=1, then {self.rest}"


class EpochStep(eqx.Module):
    """2/(j+1) with j counted from the start of SVRF's epoch.

    >>> import mostfw as fw
    >>> float(fw.schedules.EpochStep()(15))  # the second epoch begins
    1.0
    """

    inner: Power = Power(2, shift=1)

    def __call__(self, k: Any) -> jax.Array:
        return self.inner(place_in_epoch(k))

    def __str__(self) -> str:
        return "2/(j+1), j the step in its epoch"


_EPOCH_ENDS = np.cumsum([2 ** (t + 3) - 2 for t in range(1, 27)])  # of SVRF, up to 2^30


def place_in_epoch(k: Any) -> jax.Array:
    """The step j = 1, 2, ... of iteration k within SVRF's epochs of 14, 30, 62, ... steps.

    >>> from mostfw.schedules import place_in_epoch
    >>> [int(place_in_epoch(k)) for k in (1, 14, 15, 44, 45)]
    [1, 14, 1, 30, 1]
    """
    starts = jnp.asarray(np.concatenate([[0], _EPOCH_ENDS]), jnp.int32)
    epoch = jnp.searchsorted(starts, jnp.asarray(k, jnp.int32), side="left") - 1
    return jnp.asarray(k, jnp.int32) - starts[epoch]


def _fraction(value: float) -> str:
    fraction = Fraction(value).limit_denominator(12)
    if abs(float(fraction) - value) > 1e-9:
        return f"{value:g}"
    return str(fraction) if fraction.denominator == 1 else f"({fraction})"
