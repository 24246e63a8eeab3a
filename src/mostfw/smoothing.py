"""How constraints enter the direction: by a penalty whose smoothing mu_k shrinks (homotopy), or by
an augmented Lagrangian, a penalty whose center moves with a dual variable."""

from __future__ import annotations

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from .errors import InvalidInputError
from .schedules import LAST_ITERATION, Power, Schedule
from .terms import Numbers


class Penalty(eqx.Module):
    """Each constraint is replaced by w/(2 mu_k) dist(Gx, X)^2.

    If it is `scaled`, mu_k is in the problem's own units (`mostfw.scaling`), which also give the
    weights; else in the user's, with the weights of the constraints.

    >>> import mostfw as fw
    >>> print(fw.smoothing.Penalty(fw.schedules.Power(1.5, exponent=0.5)))
    penalty, mu_k = 1.5/k^(1/2)
    """

    mu: Schedule
    scaled: bool = eqx.field(static=True, default=False)
    dual: ClassVar[bool] = False
    boost: ClassVar[float] = 0.0

    def strength(self, k: Any) -> Any:
        """1/mu_k: 0 where mu_k is infinite (k = 0), so that nothing is 0 times infinity."""
        return 1 / self.mu(k)

    def dual_step(self, k: Any) -> Any:
        return 0.0

    def check(self, dtype: Any) -> None:
        """Refuses numbers of which mu_k or 1/mu_k would leave the range of the dtype."""
        if not isinstance(self.mu, Power) or isinstance(self.mu.scale, Tracer):
            return
        usual = float(self.mu.exponent) <= 1  # others are experiments, and end where they break
        for k in (1, LAST_ITERATION) if usual else (1,):
            mu = float(self.mu.scale) / (k + float(self.mu.shift)) ** float(self.mu.exponent)
            if not _in_range(mu, dtype):
                raise InvalidInputError(
                    f"mu_k = {self.mu} is {mu:g} at iteration {k}, which {np.dtype(dtype)} cannot "
                    "divide by: give mu_c nearer to 1, or a problem in float64."
                )

    @property
    def formula(self) -> str:
        return f"mu = {self.mu}"

    def __str__(self) -> str:
        return f"penalty, mu_k = {self.mu}{_units(self.scaled)}"


class AugmentedLagrangian(eqx.Module):
    """Each constraint has a dual variable l, and beta_k/2 dist(Gx + l/beta_k, X)^2 in its place.

    beta_k = beta_0 (k+1)^(1/2). At each new point l moves by sigma (Gx - Proj_X(Gx + l/beta_k)),
    sigma = min(`dual_step`, 4 beta_k eta^2 ||G||^2/||r||^2), r that residual, and at most beta_k.
    So l is always a mean of itself and a normal of X, and never leaves the directions in which X
    has an end: l <= 0 for Gx >= 0. Rows that are sampled move their l when they are drawn, as far
    as `boost` of the steps would that they wait for on average, and at most by beta_k.

    With exact gradients this is CGAL (Yurtsever, Fercoq, Cevher 2019), whose objective and
    violation are O(k^-1/2). With sampled gradients or rows nothing is proved: it is measured.

    >>> import mostfw as fw
    >>> print(fw.smoothing.AugmentedLagrangian(0.5))
    augmented Lagrangian, beta_k = 0.5 (k+1)^(1/2), dual step 0.5
    """

    beta_0: Any
    own_step: Any = None  # None: beta_0
    boost: Any = 0.3
    scaled: bool = eqx.field(static=True, default=False)  # as in `Penalty`
    dual: ClassVar[bool] = True

    def strength(self, k: Any) -> Any:
        beta_0 = jnp.asarray(self.beta_0)
        return beta_0 * jnp.sqrt(jnp.asarray(k).astype(beta_0.dtype) + 1)

    def dual_step(self, k: Any) -> Any:
        """sigma/beta_k."""
        step = self.beta_0 if self.own_step is None else self.own_step
        return jnp.minimum(step / self.strength(k), 1)

    def check(self, dtype: Any) -> None:
        """Refuses numbers of which beta_k or 1/beta_k would leave the range of the dtype."""
        if isinstance(self.beta_0, Tracer):
            return
        for k in (1, LAST_ITERATION):
            beta = float(self.beta_0) * (k + 1) ** 0.5
            if not _in_range(beta, dtype):
                raise InvalidInputError(
                    f"beta_k = {float(self.beta_0):g} (k+1)^(1/2) is {beta:g} at iteration {k}, "
                    f"which {np.dtype(dtype)} cannot divide by: give beta_0 nearer to 1, or a "
                    "problem in float64."
                )

    @property
    def formula(self) -> str:
        return f"beta = {float(self.beta_0):g} (k+1)^(1/2)"

    def __str__(self) -> str:
        step = self.beta_0 if self.own_step is None else self.own_step
        return (
            f"augmented Lagrangian, beta_k = {float(self.beta_0):g} (k+1)^(1/2), "
            f"dual step {float(step):g}{_units(self.scaled)}"
        )


def _in_range(number: float, dtype: Any) -> bool:
    """Whether a number and its inverse are neither 0 nor infinite nor subnormal."""
    least = float(np.finfo(dtype).tiny)
    return least <= number <= 1 / least / 4


def _units(scaled: bool) -> str:
    return ", in the problem's units" if scaled else ""


Smoothing = Penalty | AugmentedLagrangian


def numbers_at(
    k: Any, smoothing: Smoothing | None, rho: Schedule, size: Any, dtype: Any
) -> Numbers:
    """The numbers of iteration k.

    >>> import numpy as np, mostfw as fw
    >>> mu = fw.schedules.Power(2.0, exponent=0.5)
    >>> numbers = fw.smoothing.numbers_at(
    ...     4, fw.smoothing.Penalty(mu), fw.schedules.Constant(0.1), 0.0, np.float32
    ... )
    >>> float(numbers.penalty)
    1.0
    """
    penalty, step, boost = 0.0, 0.0, 0.0
    if smoothing is not None:
        penalty, step, boost = smoothing.strength(k), smoothing.dual_step(k), smoothing.boost
    return Numbers(
        penalty=jnp.asarray(penalty, dtype),
        dual_step=jnp.asarray(step, dtype),
        sampled_step=jnp.asarray(boost * step, dtype),
        rho=jnp.asarray(rho(k), dtype),
        size=jnp.asarray(size, dtype),
    )
