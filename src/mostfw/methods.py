"""Table 1 as code: each method of the paper, and its relatives, is one short function.

k = 1, 2, ...; the constants are the published ones and every one of them is a parameter of
`Method`. `get("t-NAME")` gives the trimmed form of any of them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from . import checks
from .errors import InvalidInputError
from .method import Method
from .oracles import CGE, ZerothOrder
from .registry import Registry
from .schedules import EpochStep, FirstOne, Power
from .smoothing import AugmentedLagrangian, Penalty
from .trackers import (
    Averaging,
    Exact,
    HessianMomentum,
    Momentum,
    Snapshot,
    Spider,
    Table,
)
from .trees import replaced
from .trimming import Trimming

METHODS: Registry[Callable[..., Method]] = Registry("method")

# What no parameter stands for, in the problem's own units (docs/accuracy.md has the grids).
MU_C = 1 / 4
BETA_0 = 1 / 4
BETA_0_STOCHASTIC = 3 / 16  # where gradients are sampled
BETA_0_SAMPLED = 1 / 16  # where rows of constraints are, too
BOOST = 0.3
TAU_0 = 0.3  # in units of ||s_k||


def _named(name: str) -> Callable[[Callable[..., Method]], Callable[..., Method]]:
    return lambda function: METHODS.register(function, name)


def _penalty(mu_c: float | None, shift: float, exponent: float) -> Penalty:
    """mu_c/(k + shift)^exponent; None: a constant of our own, in the problem's units."""
    if mu_c is None:
        return Penalty(Power(MU_C, shift=shift, exponent=exponent), scaled=True)
    checks.number("mu_c", mu_c, above=0)
    return Penalty(Power(mu_c, shift=shift, exponent=exponent))


@_named("sfw")
def sfw(step: float = 9.0, step_shift: float = 8.0) -> Method:
    """SFW (Mokhtari, Hassani, Karbasi): averaging, no constraints. Public codes differ in steps.

    >>> import mostfw as fw
    >>> fw.methods.sfw().name
    'sfw'
    """
    checks.number("step", step, above=0)
    checks.number("step_shift", step_shift, least=0)
    return Method(
        name="sfw",
        tracker=Averaging(Power(4, shift=7, exponent=2 / 3, cap=1)),
        step_size=Power(step, shift=step_shift, cap=1),
    )


@_named("1-sfw")
def one_sfw(hessian: bool = False) -> Method:
    """1-SFW (Zhang et al.): momentum; with `hessian`, by Hessian-vector products.

    >>> import mostfw as fw
    >>> print(fw.methods.one_sfw().step_size)
    1/k
    """
    weight = Power(1, shift=-1, cap=1)
    return Method(
        name="1-sfw",
        tracker=HessianMomentum(weight) if checks.flag("hessian", hessian) else Momentum(weight),
        step_size=Power(1),
    )


@_named("orgfw")
def orgfw(exponent: float = 1.0) -> Method:
    """ORGFW (Xie et al.): momentum with weight 1/(k+1)^exponent, the first one 1.

    >>> import mostfw as fw
    >>> print(fw.methods.orgfw().tracker)
    momentum, weight 1 at k=1, then 1/(k+1)
    """
    checks.number("the exponent of the weight", exponent, above=0)
    return Method(
        name="orgfw",
        tracker=Momentum(FirstOne(Power(1, shift=1, exponent=exponent))),
        step_size=Power(1, shift=1, cap=1),
    )


@_named("hfw")
def hfw(mu_c: float | None = None) -> Method:
    """HFW = HCGM (Yurtsever et al. 2018): exact gradients, whole constraints.

    >>> import mostfw as fw
    >>> print(fw.methods.hfw(mu_c=2).smoothing)
    penalty, mu_k = 2/(k+1)^(1/2)
    """
    return Method(
        name="hfw",
        tracker=Exact(),
        smoothing=_penalty(mu_c, 1, 1 / 2),
        constraints="whole",
        step_size=Power(2, shift=1),
    )


@_named("shcgm")
def shcgm(mu_c: float | None = None) -> Method:
    """SHCGM (Locatello et al.): averaging, whole constraints.

    >>> import mostfw as fw
    >>> print(fw.methods.shcgm().step_size)
    min(1, 9/(k+8))
    """
    return Method(
        name="shcgm",
        tracker=Averaging(Power(4, shift=7, exponent=2 / 3, cap=1)),
        smoothing=_penalty(mu_c, 8, 1 / 2),
        constraints="whole",
        step_size=Power(9, shift=8, cap=1),
    )


@_named("h1-sfw")
def h1_sfw(mu_c: float | None = None) -> Method:
    """H1-SFW (Vladarean et al.): averaging of objective and sampled constraints.

    >>> import mostfw as fw
    >>> fw.methods.h1_sfw().constraints
    'sampled'
    """
    return Method(
        name="h1-sfw",
        tracker=Averaging(Power(3, shift=5, exponent=2 / 3, cap=1)),
        smoothing=_penalty(mu_c, 1, 1 / 6),
        constraints="sampled",
        step_size=Power(2, shift=1),
    )


@_named("h-spider-fw")
def h_spider_fw(mu_c: float | None = None) -> Method:
    """H-SPIDER-FW (Vladarean et al.): spider over objective and sampled constraints.

    >>> import mostfw as fw
    >>> print(fw.methods.h_spider_fw().tracker)
    spider, epochs 1, 2, 4, ...
    """
    return Method(
        name="h-spider-fw",
        tracker=Spider(),
        smoothing=_penalty(mu_c, 1, 1 / 2),
        constraints="sampled",
        step_size=Power(2, shift=1),
    )


@_named("h-sag-cgm")
def h_sag_cgm(mu_c: float | None = None) -> Method:
    """H-SAG-CGM (Dresdner et al. 2022): a table over objective and sampled constraints.

    >>> import mostfw as fw
    >>> print(fw.methods.h_sag_cgm().tracker)
    table (SAG)
    """
    return Method(
        name="h-sag-cgm",
        tracker=Table(),
        smoothing=_penalty(mu_c, 1, 1 / 2),
        constraints="sampled",
        step_size=Power(2, shift=1),
    )


@_named("most-fw")
def most_fw(mu_c: float | None = None) -> Method:
    """MOST-FW (Algorithm 1): momentum, whole constraints.

    >>> import mostfw as fw
    >>> print(fw.methods.most_fw().tracker)
    momentum, weight 1/k
    """
    return Method(
        name="most-fw",
        tracker=Momentum(Power(1)),
        smoothing=_penalty(mu_c, 0, 1 / 2),
        constraints="whole",
        step_size=Power(2, shift=1),
    )


@_named("most-fw+")
def most_fw_plus(mu_c: float | None = None, b: float = 1 / 4) -> Method:
    """MOST-FW+ (Algorithm 2): momentum of objective and sampled constraints; b as in Remark 3.

    >>> import mostfw as fw
    >>> print(fw.methods.most_fw_plus(mu_c=1, b=1 / 6).smoothing)
    penalty, mu_k = 1/(k+1)^(1/6)
    """
    checks.number("the exponent b of mu_k", b, above=0)
    return Method(
        name="most-fw+",
        tracker=Momentum(Power(1)),
        smoothing=_penalty(mu_c, 1, b),
        constraints="sampled",
        step_size=Power(2, shift=1),
    )


def _lagrangian(
    beta_0: float | None, dual_step: float | None, own: float, boost: float = BOOST
) -> AugmentedLagrangian:
    """None: `own`, in the problem's units, in which `dual_step` is then too."""
    boost = checks.number("boost", boost, least=0)
    if dual_step is not None:
        checks.number("dual_step", dual_step, least=0)
    if beta_0 is None:
        return AugmentedLagrangian(own, dual_step, boost, scaled=True)
    return AugmentedLagrangian(checks.number("beta_0", beta_0, above=0), dual_step, boost)


@_named("cgal")
def cgal(beta_0: float | None = None, dual_step: float | None = None) -> Method:
    """CGAL (Yurtsever, Fercoq, Cevher 2019): exact gradients, whole constraints with a dual
    variable. Objective and violation are proved to be O(k^-1/2).

    >>> import mostfw as fw
    >>> print(fw.methods.cgal(beta_0=1).smoothing)
    augmented Lagrangian, beta_k = 1 (k+1)^(1/2), dual step 1
    """
    return Method(
        name="cgal",
        tracker=Exact(),
        smoothing=_lagrangian(beta_0, dual_step, BETA_0),
        constraints="whole",
        step_size=Power(2, shift=1),
    )


@_named("most-al")
def most_al(beta_0: float | None = None, dual_step: float | None = None) -> Method:
    """MOST-FW with an augmented Lagrangian in the place of the penalty: far more accurate after
    the same work, by measurement only (docs/accuracy.md).

    >>> import mostfw as fw
    >>> print(fw.methods.most_al().tracker)
    momentum, weight 1/k
    """
    return replaced(
        most_fw(), name="most-al", smoothing=_lagrangian(beta_0, dual_step, BETA_0_STOCHASTIC)
    )


@_named("most-al+")
def most_al_plus(
    beta_0: float | None = None, dual_step: float | None = None, boost: float = BOOST
) -> Method:
    """The same with sampled constraints: a table of what was last seen of each row, and a dual
    variable that moves where rows are drawn (`boost` as in `AugmentedLagrangian`). Measured only.

    >>> import mostfw as fw
    >>> fw.methods.most_al_plus().constraints
    'sampled'
    """
    return replaced(
        most_fw_plus(),
        name="most-al+",
        smoothing=_lagrangian(beta_0, dual_step, BETA_0_SAMPLED, boost),
    )


@_named("zo-fw")
def zo_fw(oracle: ZerothOrder = CGE()) -> Method:  # noqa: B008 (a frozen module)
    """ZO-FW (Sahu et al.): the whole objective's gradient estimated from values.

    >>> import mostfw as fw
    >>> print(fw.methods.zo_fw().oracle)
    values (CGE)
    """
    return Method(name="zo-fw", oracle=oracle, tracker=Exact(), step_size=Power(2, shift=1))


@_named("zo-sfw")
def zo_sfw(oracle: ZerothOrder = CGE()) -> Method:  # noqa: B008
    """ZO-SFW (Sahu et al.): averaging of zeroth-order estimates, the weight by estimator.

    >>> import mostfw as fw
    >>> print(fw.methods.zo_sfw(fw.oracles.RDSA()).step_size)
    min(1, 2/(k+8))
    """
    return Method(
        name="zo-sfw",
        oracle=oracle,
        tracker=Averaging(None),
        step_size=Power(2, shift=8, cap=1),
    )


@_named("zo-most-fw")
def zo_most_fw(mu_c: float | None = None, oracle: ZerothOrder = CGE()) -> Method:  # noqa: B008
    """ZO-MOST-FW: MOST-FW on values.

    >>> import mostfw as fw
    >>> print(fw.methods.zo_most_fw().oracle)
    values (CGE)
    """
    return replaced(most_fw(mu_c), name="zo-most-fw", oracle=oracle)


@_named("zo-most-fw+")
def zo_most_fw_plus(
    mu_c: float | None = None,
    b: float = 1 / 4,
    oracle: ZerothOrder = CGE(),  # noqa: B008
) -> Method:
    """ZO-MOST-FW+: MOST-FW+ on values; the constraints' gradients stay explicit.

    >>> import mostfw as fw
    >>> fw.methods.zo_most_fw_plus().constraints
    'sampled'
    """
    return replaced(most_fw_plus(mu_c, b), name="zo-most-fw+", oracle=oracle)


@_named("zo-most-al")
def zo_most_al(
    beta_0: float | None = None,
    dual_step: float | None = None,
    oracle: ZerothOrder = CGE(),  # noqa: B008
) -> Method:
    """MOST-AL on values.

    >>> import mostfw as fw
    >>> print(fw.methods.zo_most_al().oracle)
    values (CGE)
    """
    return replaced(most_al(beta_0, dual_step), name="zo-most-al", oracle=oracle)


@_named("spider-fw")
def spider_fw() -> Method:
    """SPIDER-FW (Yurtsever, Sra, Cevher): H-SPIDER-FW without constraints.

    >>> import mostfw as fw
    >>> fw.methods.spider_fw().constraints
    'none'
    """
    return Method(name="spider-fw", tracker=Spider(), step_size=Power(2, shift=1))


@_named("saga-fw")
def saga_fw() -> Method:
    """SAGA-FW: an unbiased table (SAGA) of gradients over a finite sum, steps 2/(k+1). Reddi et
    al. draw a second sample to renew the table; here one sample does both.

    >>> import mostfw as fw
    >>> print(fw.methods.saga_fw().tracker)
    table (SAGA)
    """
    return Method(name="saga-fw", tracker=Table(unbiased=True), step_size=Power(2, shift=1))


@_named("svrf")
def svrf(growth: int = 96) -> Method:
    """SVRF (Hazan and Luo): a snapshot gradient an epoch, steps 2/(j+1) within each.

    >>> import mostfw as fw
    >>> print(fw.methods.svrf().step_size)
    2/(j+1), j the step in its epoch
    """
    tracker = Snapshot(growth=checks.whole("growth", growth, 1))
    return Method(name="svrf", tracker=tracker, step_size=EpochStep())


def trimmed(
    method: Method,
    tau_0: float | None = None,
    relative: bool | None = None,
    test: str = "norm",
) -> Method:
    """The T- form of a method: tau_k = tau_0/(k+1)^(1/2), or ^(1/4) with sampled constraints.

    Without tau_0 the threshold is 0.3 in units of ||s_k||, which suits every scaling of a problem;
    a tau_0 that is given is absolute, as in the paper, unless `relative=True`. `test="bound"` asks
    a bound on ||s_k - v|| instead of the norm, which reads no matrix (see `Trimming`).

    >>> import mostfw as fw
    >>> print(fw.methods.trimmed(fw.methods.most_fw_plus(), tau_0=5).trimming)
    skip while ||s_k - v|| < 5/(k+1)^(1/4)
    """
    if not isinstance(method, Method):
        raise InvalidInputError(f"the method to trim is {method!r}: give a mostfw.Method.")
    relative = tau_0 is None if relative is None else checks.flag("relative", relative)
    tau_0 = TAU_0 if tau_0 is None else checks.number("tau_0", tau_0, least=0)
    exponent = 1 / 4 if method.constraints == "sampled" else 1 / 2
    rule = Trimming(Power(tau_0, shift=1, exponent=exponent), relative, test)
    return replaced(method, name=f"t-{method.name}", trimming=rule)


def get(name: str, **parameters: Any) -> Method:
    """A method by its registry name, lower case, `t-` before it for the trimmed form.

    `lmo_tolerance` (every method has it) is a number or a schedule: 1e-10 is as good as exact.

    >>> import mostfw as fw
    >>> fw.methods.get("t-most-fw+", mu_c=1.0, tau_0=5.0).name
    't-most-fw+'
    >>> fw.methods.get("most-few")
    Traceback (most recent call last):
    ...
    mostfw.errors.UnknownNameError: unknown method 'most-few'. Did you mean 'most-fw'? Known: ...
    """
    name = str(name).lower()
    trim = name.startswith("t-")
    function = METHODS[name[2:] if trim else name]
    allowed = set(inspect.signature(function).parameters)
    own = ("tau_0", "relative", "test") if trim else ()
    trimming = {key: parameters.pop(key) for key in own if key in parameters}
    tolerance = parameters.pop("lmo_tolerance", None)
    unknown = set(parameters) - allowed
    if unknown:
        known = sorted(allowed.union(own, ["lmo_tolerance"]))
        raise InvalidInputError(
            f"method {name!r} has no parameter {sorted(unknown)[0]!r}: it takes {', '.join(known)}."
        )
    method = function(**parameters)
    if tolerance is not None:
        method = method.with_lmo_tolerance(tolerance)
    return trimmed(method, **trimming) if trim else method


def names() -> list[str]:
    """All registry names, without the `t-` forms.

    >>> import mostfw as fw
    >>> fw.methods.names()[:3]
    ['sfw', '1-sfw', 'orgfw']
    """
    return list(METHODS)
