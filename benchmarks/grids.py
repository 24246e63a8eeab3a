"""Grids of constants in a problem's own units, run side by side as one sweep."""

from __future__ import annotations

from collections.abc import Sequence

import mostfw as fw
from mostfw.smoothing import AugmentedLagrangian
from mostfw.trees import replaced

GRID = tuple(4.0**power for power in range(-6, 7))


def members(method: fw.Method, grid: Sequence[float] = GRID) -> list[fw.Method]:
    """The method as it is, then with each strength of the grid: beta_0, or 1/mu_c."""
    return [method, *(with_strength(method, strength) for strength in grid)]


def with_strength(method: fw.Method, strength: float) -> fw.Method:
    smoothing = method.smoothing
    assert smoothing is not None
    if isinstance(smoothing, AugmentedLagrangian):
        other = replaced(smoothing, beta_0=strength)
    else:
        other = replaced(smoothing, mu=replaced(smoothing.mu, scale=1 / strength))
    return replaced(method, smoothing=other)
