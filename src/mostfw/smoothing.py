"""How constraints enter the direction: a penalty whose smoothing mu_k shrinks (homotopy)."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax.numpy as jnp

from .schedules import Schedule
from .terms import Numbers


class Penalty(eqx.Module):
    """Each constraint is replaced by w/(2 mu_k) dist(Gx, X)^2.

    >>> import mostfw as fw
    >>> print(fw.smoothing.Penalty(fw.schedules.Power(1.5, exponent=0.5)))
    penalty, mu_k = 1.5/k^(1/2)
    """

    mu: Schedule

    def inverse(self, k: Any) -> Any:
        """1/mu_k: 0 where mu_k is infinite (k = 0), so that nothing is 0 times infinity."""
        return 1 / self.mu(k)

    def __str__(self) -> str:
        return f"penalty, mu_k = {self.mu}"


def numbers_at(k: Any, smoothing: Penalty | None, rho: Schedule, size: Any, dtype: Any) -> Numbers:
    """The numbers of iteration k.

    >>> import numpy as np, mostfw as fw
    >>> mu = fw.schedules.Power(2.0, exponent=0.5)
    >>> numbers = fw.smoothing.numbers_at(
    ...     4, fw.smoothing.Penalty(mu), fw.schedules.Constant(0.1), 0.0, np.float32
    ... )
    >>> float(numbers.penalty)
    1.0
    """
    penalty = 0.0 if smoothing is None else smoothing.inverse(k)
    return Numbers(
        penalty=jnp.asarray(penalty, dtype),
        rho=jnp.asarray(rho(k), dtype),
        size=jnp.asarray(size, dtype),
    )
