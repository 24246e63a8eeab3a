"""The theorems of the paper (Akhtar and Rajawat) as numbers: bounds, rates and oracle calls.

The constants are the corrected ones. Theorem 1 as printed loses the factor 4 of its own Lemma on
recursions and takes eta^2/2 with eta = 2/(k+1) for 1/(k+1)^2 where it is 2/(k+1)^2; Theorem 3
prints its trimming terms without mu_c. All bounds are for the iterate x_{k+1}, after k steps.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .errors import InvalidInputError, UnknownNameError

HALF, QUARTER = Fraction(1, 2), Fraction(1, 4)


def _check(name: str, value: float, *, positive: bool = False) -> None:
    if not math.isfinite(value) or value < 0 or (positive and value == 0):
        wanted = "positive" if positive else "not negative"
        raise InvalidInputError(f"{name} is {value!r}; give a finite number that is {wanted}.")


def _over(constant: float, k: ArrayLike, exponent: Fraction) -> Any:
    """constant / k^|exponent|, by square roots: monotone in k as computed, unlike a power."""
    root = np.asarray(k, dtype=float)
    if not np.all(np.isfinite(root)) or np.any(root < 1):
        raise InvalidInputError(f"the iteration k is {k!r}; give finite numbers of 1 or more.")
    for _ in range(exponent.denominator.bit_length() - 1):
        root = np.sqrt(root)
    return constant / root if np.ndim(k) else float(constant / root)


@dataclass(frozen=True)
class Constants:
    """The constants of the paper's assumptions: L, D, sigma, L_G and ||lambda*||.

    `smoothness` L of f(., xi); `diameter` D of the domain C; `noise` sigma, the root of the bound
    on the gradient's variance; `map_norm_squared` L_G, which bounds ||G||^2 and every
    ||G(xi)||^2; `dual_norm` ||lambda*||, the norm of an optimal multiplier.

    >>> Constants(smoothness=1.0, diameter=-2.0)
    Traceback (most recent call last):
    mostfw.errors.InvalidInputError: diameter is -2.0; give a finite number that is positive.
    """

    smoothness: float
    diameter: float
    noise: float = 0.0
    map_norm_squared: float = 0.0
    dual_norm: float = 0.0

    def __post_init__(self) -> None:
        for field in fields(self):
            _check(field.name, getattr(self, field.name), positive=field.name == "diameter")


@dataclass(frozen=True)
class Bounds:
    """One theorem at given constants; made by `most_fw` and `most_fw_plus`.

    A method with `k` takes a number or an array, and answers in kind.

    >>> most_fw(Constants(smoothness=1.0, diameter=1.0), mu_c=1.0).gap_exponent
    Fraction(-1, 2)
    """

    method: str
    constants: Constants
    mu_c: float
    tau_0: float
    gap_constant: float
    violation_constant: float
    tracking_constant: float
    gap_exponent: Fraction
    violation_exponent: Fraction
    tracking_exponent: Fraction

    def smoothed_gap(self, k: ArrayLike) -> Any:
        """Bound on E F_{mu_k}(x_{k+1}) - f(x*), the smoothed gap of the paper's Lemmas.

        >>> most_fw(Constants(smoothness=1.0, diameter=1.0), mu_c=1.0).smoothed_gap([1, 4])
        array([168.,  84.])
        """
        return _over(self.gap_constant, k, self.gap_exponent)

    def gap(self, k: ArrayLike) -> Any:
        """Bound on E f(x_{k+1}) - f(x*): the smoothed one, as the penalty is never negative.

        >>> most_fw(Constants(smoothness=1.0, diameter=1.0), mu_c=1.0).gap(100)
        16.8
        """
        return self.smoothed_gap(k)

    def violation(self, k: ArrayLike) -> Any:
        """Bound on the expected distance of G x_{k+1} from the set X.

        >>> constants = Constants(smoothness=0.0, diameter=1.0, map_norm_squared=1.0)
        >>> most_fw(constants, mu_c=1.0).violation(100)
        0.4
        """
        return _over(self.violation_constant, k, self.violation_exponent)

    def tracking_error(self, k: ArrayLike) -> Any:
        """Bound on E ||y_k - grad||^2, grad of f for MOST-FW, of the smoothed F for MOST-FW+.

        >>> most_fw(Constants(smoothness=0.0, diameter=1.0, noise=1.0), mu_c=1.0).tracking_error(4)
        12.0
        """
        return _over(self.tracking_constant, k, self.tracking_exponent)

    def iterations(self, gap: float | None = None, violation: float | None = None) -> int:
        """Smallest k whose bounds are at most `gap` and `violation` (None: not asked for).

        >>> bounds = most_fw(Constants(smoothness=1.0, diameter=1.0), mu_c=1.0)
        >>> bounds.iterations(gap=16.8), bounds.iterations(gap=16.8, violation=0.19)
        (100, 10000)
        """
        asked = {"gap": gap, "violation": violation}
        limits = {name: value for name, value in asked.items() if value is not None}
        if not limits:
            raise InvalidInputError("gap and violation are both None; give at least one accuracy.")
        for name, value in limits.items():
            _check(name, value, positive=True)

        def enough(k: int) -> bool:
            return all(getattr(self, name)(k) <= value for name, value in limits.items())

        # Bisection on integers with the bounds as computed, so that the answer always agrees
        # with `gap` and `violation`: solving for k in floating point can be off by one.
        high = 1
        while not enough(high):
            high *= 2
            if high.bit_length() > 1000:
                raise InvalidInputError(f"{limits} takes over 2^999 iterations; ask for less.")
        low = high // 2  # not enough, or 0
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if enough(middle) else (middle, high)
        return high

    def oracle_calls(
        self, gap: float | None = None, violation: float | None = None, dimension: int | None = None
    ) -> int:
        """Calls with one sample a step: gradients (SFO), or values (SZO) given a `dimension` m.

        Momentum looks at two points a step from the second on, 2k - 1 in all; the coordinate-wise
        estimator takes 2m values a point.

        >>> bounds = most_fw(Constants(smoothness=1.0, diameter=1.0), mu_c=1.0)
        >>> bounds.oracle_calls(gap=16.8), bounds.oracle_calls(gap=16.8, dimension=10)
        (199, 3980)
        """
        points = 2 * self.iterations(gap, violation) - 1
        if dimension is not None and (dimension < 1 or dimension != int(dimension)):
            raise InvalidInputError(f"dimension is {dimension!r}; give a whole number above 0.")
        return points if dimension is None else 2 * int(dimension) * points


def most_fw(constants: Constants, mu_c: float, tau_0: float = 0.0) -> Bounds:
    """Theorem 1 (MOST-FW), or with tau_0 > 0 Theorem 3(a) (T-MOST-FW), corrected.

    gap: 4(8 sqrt(3) sigma D + (42 L + 2 L_G/mu_c) D^2 + 2 tau_0 D) / sqrt(k);
    violation: (2 mu_c ||lambda*|| + 11 sqrt(sigma D mu_c) + 19 D sqrt(L mu_c) + 4 D sqrt(L_G)
    + 4 sqrt(tau_0 D mu_c)) / sqrt(k); tracking error: 16(3 sigma^2 + 25 L^2 D^2) / k.

    >>> bounds = most_fw(Constants(1.0, 2.0, 3.0, map_norm_squared=4.0, dual_norm=5.0), mu_c=0.5)
    >>> round(bounds.gap(4), 4), round(bounds.violation(1), 4)
    (630.2769, 66.9226)
    """
    # 2 sqrt(k)/(k+1)^2 comes as near to 2/k^(3/2) as one likes, so L_G needs its 2; in 42 = 40 + 2
    # the second part could be 0.65. Of 8 mu_c A: sqrt(64 sqrt(3)) <= 11, sqrt(336) <= 19, 4, 4.
    coefficients = (8 * math.sqrt(3), 42, 2, 2), (11, 19, 4, 4), (48, 400, 0)
    return _bounds("most-fw", constants, mu_c, tau_0, HALF, *coefficients)


def most_fw_plus(constants: Constants, mu_c: float, tau_0: float = 0.0) -> Bounds:
    """Theorem 2 (MOST-FW+), or with tau_0 > 0 Theorem 3(b) (T-MOST-FW+), corrected.

    gap: 8(4 sqrt(6) sigma D + (35 L + 31 L_G/mu_c) D^2 + tau_0 D) / k^(1/4);
    violation: 2(mu_c ||lambda*|| + 9 sqrt(sigma D mu_c) + 17 D sqrt(L mu_c) + 16 D sqrt(L_G)
    + 3 sqrt(tau_0 D mu_c)) / k^(1/4);
    tracking error: 96(sigma^2 + 12 L^2 D^2 + 9 (L_G D/mu_c)^2) / sqrt(k).

    >>> bounds = most_fw_plus(Constants(1.0, 1.0, map_norm_squared=1.0), mu_c=1.0)
    >>> bounds.gap(16), bounds.violation(16), bounds.tracking_error(16)
    (264.0, 33.0, 504.0)
    """
    # 2 sqrt(96 * 12) + 2 <= 70 and 2 sqrt(96 * 9) + 2 <= 62; of 4 mu_c 4A, as Theorem 2 bounds the
    # mean square: sqrt(128 sqrt(6)) <= 18, sqrt(1120) <= 34, sqrt(992) <= 32, sqrt(32) <= 6.
    coefficients = (8 * math.sqrt(6), 70, 62, 2), (18, 34, 32, 6), (96, 1152, 864)
    return _bounds("most-fw+", constants, mu_c, tau_0, QUARTER, *coefficients)


def _bounds(
    method: str, c: Constants, mu_c: float, tau_0: float, power: Fraction, *theorem: Sequence[float]
) -> Bounds:
    """From the coefficients of noise, smoothness, map and trimming in the three bounds."""
    amplitude, violation, tracking = theorem
    _check("mu_c", mu_c, positive=True)
    _check("tau_0", tau_0)
    smooth, mapped = c.smoothness * c.diameter, c.map_norm_squared * c.diameter / mu_c
    terms = [c.diameter * term for term in (c.noise, smooth, mapped, tau_0)]
    # The smoothed gap psi_k <= (1 - eta_k) psi_{k-1} + A/k^(1+power) is at most 4A/k^power, and
    # d^2/(2 mu_k) - ||lambda*|| d <= psi_k makes d <= 2 mu_k ||lambda*|| + sqrt(2 mu_k psi_k).
    gap = recursion_bound(float(np.dot(amplitude, terms)), 1 + float(power), 1)
    distance = 2 * mu_c * c.dual_norm + float(np.dot(violation, np.sqrt(mu_c * np.array(terms))))
    error = float(np.dot(tracking, np.square([c.noise, smooth, mapped])))
    name = f"t-{method}" if tau_0 else method
    return Bounds(name, c, mu_c, tau_0, gap, distance, error, -power, -power, -2 * power)


def recursion_bound(A: float, a: float, k: ArrayLike) -> Any:
    """The paper's Lemma on recursions: psi_k <= 4 A / k^(a-1), for 1 <= a <= 2.

    It holds for psi_k <= (1 - 1/k)^2 psi_{k-1} + A/k^a and for
    psi_k <= (1 - 2/(k+1)) psi_{k-1} + A/k^a. The paper's 4 is generous: 1 is enough for the first
    recursion, and for the second up to a = 3/2 (1.22 at a = 2): a quarter of each gap holds too.

    >>> recursion_bound(3.0, 1.5, 16)
    3.0
    """
    _check("A", A)
    if not 1 <= a <= 2:
        raise InvalidInputError(f"a is {a!r}; the Lemma needs 1 <= a <= 2.")
    return 4 * A * _over(1.0, k, Fraction(1)) ** (a - 1)


def remark_3(b: float | Fraction) -> tuple[Fraction, Fraction]:
    """Remark 3: exponents of gap and violation of MOST-FW+ with mu_k = mu_c/(k+1)^b.

    The gap falls like k^(b - 1/2), the violation like k^-min(b, 1/4), for 1/6 <= b <= 1/4.

    >>> remark_3(1 / 6)
    (Fraction(-1, 3), Fraction(-1, 6))
    """
    # a float such as 1/6 means the fraction, not the binary number just below it
    exact = Fraction(b).limit_denominator(10**6) if math.isfinite(b) else None
    if exact is None or not Fraction(1, 6) <= exact <= QUARTER:
        raise InvalidInputError(f"b is {b!r}; Remark 3 needs 1/6 <= b <= 1/4.")
    return exact - HALF, -min(exact, QUARTER)


@dataclass(frozen=True)
class Rate:
    """What is proved of one method, for convex objectives: a row of the paper's Table 1.

    `gap_exponent` and `violation_exponent` are powers of k, the number of steps; None means no
    constraint, or no rate proved. `oracle_calls` is for accuracy eps in all that is bounded,
    with m the dimension and n the number of summands.

    >>> rate("most-fw").oracle_calls
    'O(eps^-2)'
    """

    method: str
    gap_exponent: Fraction | None
    violation_exponent: Fraction | None
    objective: str
    constraint: str
    oracle: str
    oracle_calls: str
    reference: str


# Only the paper's own four methods are derived here (`Bounds`). The other rows are quoted: from
# Table 1 down to zo-sfw, then from the paper's text on H-SPIDER-FW (k^-1/2 in steps whose batches
# grow like k, thus k^2 samples), then from the named works.
_TABLE = """
sfw         | -1/3 | -     | stochastic    | none          | SFO | O(eps^-3)   | Mokhtari
1-sfw       | -1/2 | -     | stochastic    | none          | SFO | O(eps^-2)   | Zhang
orgfw       | -1/2 | -     | stochastic    | none          | SFO | O(eps^-2)   | Xie
hfw         | -1/2 | -1/2  | deterministic | deterministic | FO  | O(eps^-2)   | 2018
shcgm       | -1/3 | -5/12 | stochastic    | deterministic | SFO | O(eps^-3)   | Locatello
h1-sfw      | -1/6 | -1/6  | stochastic    | stochastic    | SFO | O(eps^-6)   | Vladarean
most-fw     | -1/2 | -1/2  | stochastic    | deterministic | SFO | O(eps^-2)   | Akhtar
most-fw+    | -1/4 | -1/4  | stochastic    | stochastic    | SFO | O(eps^-4)   | Akhtar
zo-most-fw  | -1/2 | -1/2  | stochastic    | deterministic | SZO | O(m eps^-2) | Akhtar
zo-most-fw+ | -1/4 | -1/4  | stochastic    | stochastic    | SZO | O(m eps^-4) | Akhtar
zo-fw       | -1   | -     | deterministic | none          | ZO  | O(m eps^-1) | Sahu
zo-sfw      | -1/3 | -     | stochastic    | none          | SZO | O(m eps^-3) | Sahu
h-spider-fw | -1/2 | -1/2  | stochastic    | stochastic    | SFO | O(eps^-4)   | Vladarean
h-sag-cgm   | -1/2 | -1/2  | finite sum    | stochastic    | SFO | O(eps^-2)   | Dresdner
spider-fw   | -1   | -     | finite sum    | none          | SFO | O(n log(1/eps) + eps^-2) | Sra
svrf        | -1   | -     | finite sum    | none          | SFO | O(n log(1/eps) + eps^-2) | Hazan
saga-fw     | -    | -     | finite sum    | none          | SFO | not proved for convex f | Reddi
cgal        | -1/2 | -1/2  | deterministic | deterministic | FO  | O(eps^-2)   | Fercoq
most-al     | -    | -     | stochastic    | deterministic | SFO | measured only | Fercoq
most-al+    | -    | -     | stochastic    | stochastic    | SFO | measured only | Fercoq
zo-most-al  | -    | -     | stochastic    | deterministic | SZO | measured only | Fercoq
"""
_REFERENCES = """
Mokhtari, Hassani and Karbasi 2020, Stochastic conditional gradient methods
Zhang et al. 2020, One sample stochastic Frank-Wolfe
Xie et al. 2020, Efficient projection-free online methods with stochastic recursive gradient
Yurtsever et al. 2018, A conditional gradient framework for composite convex minimization
Locatello et al. 2019, Stochastic Frank-Wolfe for composite convex minimization
Vladarean et al. 2020, Conditional gradient methods for stochastically constrained minimization
Akhtar and Rajawat 2022, Zeroth and first order stochastic Frank-Wolfe algorithms
Sahu, Zaheer and Kar 2019, Towards gradient free and projection free stochastic optimization
Dresdner et al. 2022, Faster one-sample stochastic conditional gradient method
Yurtsever, Sra and Cevher 2019, Conditional gradient methods via SPIDER
Hazan and Luo 2016, Variance-reduced and projection-free stochastic optimization
Reddi et al. 2016, Stochastic Frank-Wolfe methods for nonconvex optimization
Yurtsever, Fercoq and Cevher 2019, A conditional-gradient-based augmented Lagrangian framework
"""


def _row(line: str) -> Rate:
    name, gap, violation, objective, kind, oracle, calls, key = map(str.strip, line.split("|"))
    (reference,) = (line for line in _REFERENCES.splitlines() if key in line)
    gap, violation = (None if power == "-" else Fraction(power) for power in (gap, violation))
    return Rate(name, gap, violation, objective, kind, oracle, calls, reference)


RATES: Mapping[str, Rate] = MappingProxyType(
    {row.method: row for row in map(_row, _TABLE.strip().splitlines())}
)


def rate(name: str) -> Rate:
    """The `Rate` of a method by its registry name; "t-" in front is its trimmed variant.

    Trimming adds eta_k tau_k D to the gap's recursion, hence k^-1/2 to the gap (k^-1/4 with
    stochastic constraints). Theorem 3 thus keeps the exponents of the paper's methods, and of
    every method no faster than that; a faster one would lose its rate, so has none proved.

    >>> rate("t-most-fw+").gap_exponent, rate("t-svrf").gap_exponent
    (Fraction(-1, 4), None)
    >>> rate("most-fv")
    Traceback (most recent call last):
    mostfw.errors.UnknownNameError: unknown method 'most-fv'. Did you mean 'most-fw'?
    """
    parent = name.removeprefix("t-")
    if parent not in RATES:
        near = difflib.get_close_matches(parent, RATES, n=1, cutoff=0.4)
        hint = f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(RATES)}."
        raise UnknownNameError(f"unknown method {name!r}. {hint}")
    found = replace(RATES[parent], method=name)
    trimmed = QUARTER if found.constraint == "stochastic" else HALF
    if name != parent and found.gap_exponent is not None and found.gap_exponent < -trimmed:
        calls = "not proved with trimming"
        return replace(found, gap_exponent=None, violation_exponent=None, oracle_calls=calls)
    return found
