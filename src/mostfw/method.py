"""A method is a composition: oracle x tracker x constraint handling x schedules x trimming."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import numpy as np

from . import checks, placement, resources, scaling, trees
from .constraints import Affine, Memo
from .domains import Spectrahedron
from .errors import InvalidInputError, UnsuitableMethodError
from .linalg import Accuracy
from .oracles import FirstOrder, ZerothOrder
from .problem import Problem
from .scaling import Units
from .schedules import Constant, Power, Schedule
from .smoothing import Penalty, Smoothing
from .terms import Term
from .trackers import Averaging, Exact, Tracker
from .trees import Point, replaced
from .trimming import Trimming

LMO_TOLERANCE = 1e-6  # a safe residual of LMOs, relative to the direction's norm
LMO_SHARE = 4.0  # of |<y_k, x_k>|, over k^b: the error of <s_k, z_k> that a step may have
DIRECTIONS = ("auto", "formed", "applied")
PRECISIONS = ("auto", "single", "full")
LEAN_FROM = 256  # side of matrices from which reading less of them is worth what it takes
FORMED_SHARE = 0.75  # of the device's memory that x, y and a formed direction may take
# Kinds of constraints that a method can handle, with the exponent of the best rate known for each;
# of sampled ones, by a tracker whose variance does not fall as fast as that of whole ones.
BEST_RATES = {"none": 1.0, "whole": 1 / 2, "sampled": 1 / 4}
# The share of rows a step from which on a tracked penalty is as stiff as one of all rows.
STIFF_FROM = 1 / 20
# Augmented Lagrangians are faster than what is proved: with sampled and with exact gradients, by
# measurement (mcp100, 20,000 steps of cgal: a gap of 0.56% with 1/2, 0.02% with 3/4).
DUAL_RATES = (1 / 2, 3 / 4)


class Method(eqx.Module):
    """One row of the paper's Table 1, or one of your own.

    `constraints` says which it can handle: "none", "whole" (problem P) or "sampled" (P+, tracked
    with the objective). `rho=None` takes the radius that the zeroth-order oracle's analysis asks
    for.

    An LMO's eigenpair may have a residual of `lmo_tolerance` relative to the direction's norm, or
    leave an error of `lmo_error` times |<y_k, x_k>| in <s_k, z_k>, both schedules. By default they
    are 1e-6 and 4/k^b, where k^-b is the rate that the method has at best (docs/lmo.md); given a
    tolerance (`with_lmo_tolerance`), that alone counts.

    `direction` is "formed" as a matrix once a step, or "applied": to vectors, from x and y, which
    reads twice as much and stores a third less; "auto" applies it only where three matrices would
    not fit an accelerator (on a CPU the compiler stores what it applies, and nothing is saved).

    `lmo_precision` is the arithmetic of a formed direction and of its LMO: "single", whatever the
    dtype of the problem, "full", the problem's own; "auto" takes single precision for matrices of
    side 256 or more on a CPU, which halves what an LMO reads and errs by less than the 1e-6 that it
    is asked for by default, and full precision where a tolerance is given.

    >>> import mostfw as fw
    >>> print(fw.methods.most_fw(mu_c=1.5))
    most-fw
      oracle       gradients
      tracker      momentum, weight 1/k
      constraints  whole: penalty, mu_k = 1.5/k^(1/2)
      step         2/(k+1)
      trimming     none
    """

    name: str = eqx.field(static=True)
    tracker: Tracker
    step_size: Schedule
    smoothing: Smoothing | None = None
    oracle: FirstOrder | ZerothOrder = FirstOrder()
    trimming: Trimming | None = None
    constraints: str = eqx.field(static=True, default="none")
    rho: Schedule | None = None
    lmo_tolerance: Schedule | None = None
    lmo_error: Schedule | None = None
    direction: str = eqx.field(static=True, default="auto")
    lmo_precision: str = eqx.field(static=True, default="auto")
    lean: bool = eqx.field(static=True, default=False)  # as `bind` finds
    units: Units | None = None  # the problem's, where the method is to suit them

    def __check_init__(self) -> None:
        if self.constraints not in BEST_RATES:
            raise InvalidInputError(
                f"constraints is {self.constraints!r}: give one of {', '.join(BEST_RATES)}."
            )
        if not isinstance(self.oracle, FirstOrder | ZerothOrder):
            raise InvalidInputError(
                f"the oracle is {self.oracle!r}: give one of mostfw.oracles, such as CGE()."
            )
        for name, known in (("direction", DIRECTIONS), ("lmo_precision", PRECISIONS)):
            if getattr(self, name) not in known:
                given = getattr(self, name)
                raise InvalidInputError(f"{name} is {given!r}: give one of {', '.join(known)}.")
        if self.constraints != "none" and self.smoothing is None:
            raise InvalidInputError(f"method {self.name!r} handles constraints: give smoothing=.")

    def __str__(self) -> str:
        handling = self.constraints
        if self.smoothing is not None:
            handling = f"{handling}: {self.smoothing}"
        rows = {
            "oracle": self.oracle,
            "tracker": self.tracker,
            "constraints": handling,
            "step": self.step_size,
            "trimming": self.trimming or "none",
        }
        return "\n".join([self.name, *(f"  {key:<12} {value}" for key, value in rows.items())])

    def with_lmo_tolerance(self, tolerance: float | Schedule) -> Method:
        """The method with LMOs solved to a relative residual: a number or a schedule.

        >>> import mostfw as fw
        >>> print(fw.methods.most_fw().with_lmo_tolerance(1e-10).lmo_tolerance)
        1e-10
        """
        if not callable(tolerance):
            # as a power, which the default is too: one sweep may then have both
            tolerance = Power(checks.number("the LMO tolerance", tolerance, least=0), exponent=0.0)
        return replaced(self, lmo_tolerance=tolerance)

    def bind(self, problem: Problem) -> Method:
        """The method with what it takes from the problem, after checking that they fit."""
        self._check(problem)
        d = trees.dimension(problem.structure)
        rho, tracker = self.rho, self.tracker
        if isinstance(self.oracle, ZerothOrder):
            rho = rho or self.oracle.radius(d, problem.domain.diameter)
            if isinstance(tracker, Averaging) and tracker.weight is None:
                tracker = Averaging(self.oracle.averaging_weight(d))
        elif isinstance(tracker, Averaging) and tracker.weight is None:
            raise InvalidInputError(
                f"method {self.name!r} has Averaging without a weight, which only zeroth-order "
                "oracles bring along: give Averaging(weight)."
            )
        direction = self._placed(problem)
        lean = direction == "formed" and self._may_be_lean(problem)
        trimming = self.trimming
        if trimming is not None and trimming.by_bound:
            self._check_bound(problem, lean)
            trimming = replaced(trimming, diameter=float(problem.domain.diameter))
        bound = replaced(
            self,
            rho=rho or Constant(0.0),
            tracker=tracker,
            lmo_tolerance=self.lmo_tolerance or Power(LMO_TOLERANCE, exponent=0.0),
            lmo_error=self.lmo_error or self._own_lmo_error(),
            trimming=trimming,
            direction=direction,
            lean=lean,
            lmo_precision=self._precision(problem, lean),
            units=self._units(problem),
        )
        if self.smoothing is not None and problem.constraints:
            self.smoothing.check(problem.dtype)
        return jax.tree.map(
            lambda leaf: np.asarray(leaf, problem.dtype) if _is_number(leaf) else leaf, bound
        )

    def _units(self, problem: Problem) -> Units | None:
        """Where numbers are in these units, and for the bound of a dual step."""
        smoothing = self.smoothing
        if self.units is not None or smoothing is None or not problem.constraints:
            return self.units
        if not (smoothing.scaled or smoothing.dual):
            return None
        term = None  # a gradient from values may take long, and for a dual step it is not asked
        if smoothing.scaled:
            term = self.oracle.term(problem.objective, trees.dimension(problem.structure))
        units = scaling.measured(problem, term, penalty=not smoothing.dual)
        if not smoothing.scaled:
            own = tuple(c.weight for c in problem.constraints)
            rows = tuple(None for _ in problem.constraints)
            units = replaced(units, weights=own, row_weights=rows)
        elif self.tracker.amplifies:
            units = units.softened(map(self._softness, problem.constraints))
        return units

    def _softness(self, constraint: Affine) -> float:
        """Drawn rows are rescaled by N/b, and with them what their gradients change by from point
        to point: where that enters y in full, mu is to be as much larger when few are drawn."""
        if not self.tracks(constraint) or constraint.total is None:
            return 1.0
        return min(1.0, constraint.batch / constraint.total / STIFF_FROM)

    def _own_lmo_error(self) -> Schedule:
        share = LMO_SHARE if self.lmo_tolerance is None else 0.0
        return Power(share, exponent=self._own_rate())

    def _own_rate(self) -> float:
        """The exponent of the rate that the method has at best, as its parts tell it."""
        smoothing = self.smoothing
        if smoothing is not None and smoothing.dual:
            return DUAL_RATES[isinstance(self.tracker, Exact)]
        if self.constraints != "sampled":
            return BEST_RATES[self.constraints]
        if self.tracker.reduces:
            return BEST_RATES["whole"]
        # of drawn rows with mu_k = mu_c/(k+1)^b the gap falls like k^(b - 1/2) (Remark 3)
        mu = smoothing.mu if isinstance(smoothing, Penalty) else None
        exponent = float(mu.exponent) if isinstance(mu, Power) else BEST_RATES["sampled"]
        return max(BEST_RATES["sampled"], 1 / 2 - exponent)

    def _symmetric(self, problem: Problem) -> bool:
        """Whether a direction is one symmetric matrix over a Spectrahedron as it comes."""
        one = isinstance(problem.domain, Spectrahedron) and problem.domain.single
        terms = (*self.terms(problem), *self.exact_constraints(problem))
        return one and all(term.symmetric for term in terms)

    def _may_be_lean(self, problem: Problem) -> bool:
        """Whether the direction is to be formed so that little is read. With trimming it is made
        several times a step, so there all of it must be made entry by entry."""
        if not self._symmetric(problem) or problem.structure.shape[0] < LEAN_FROM:
            return False
        if self.trimming is not None and not all(
            c.map.thin or (c.map.pointwise and c.set.separable)
            for c in self.exact_constraints(problem)
        ):
            return False
        return resources.accelerator_bytes() is None

    @property
    def by_bound(self) -> bool:
        """Whether trimming goes by a bound on how far the direction has gone."""
        return self.trimming is not None and self.trimming.by_bound

    def _check_bound(self, problem: Problem, lean: bool) -> None:
        dual = self.smoothing is not None and self.smoothing.dual
        exact = isinstance(self.tracker, Exact)
        known = all(t.linear if exact else _tells_length(t) for t in self.terms(problem))
        if not (lean and self.tracker.drifts and known) or dual:
            raise self._unsuitable(
                "is trimmed by a bound on how far its direction has gone, which needs one "
                f"symmetric matrix of side {LEAN_FROM} or more on a CPU, penalties of entries and "
                "thin maps, and draws from a linear form (or exact gradients of one)",
                "test='norm'",
            )

    def _precision(self, problem: Problem, lean: bool) -> str:
        if self.lmo_precision == "single" and not lean:
            raise self._unsuitable(
                "minimises in single precision, which needs one symmetric matrix of side "
                f"{LEAN_FROM} or more over a Spectrahedron, on a CPU",
                "lmo_precision='auto'",
            )
        if self.lmo_precision != "auto":
            return self.lmo_precision
        return "single" if lean and self.lmo_tolerance is None else "full"

    def _placed(self, problem: Problem) -> str:
        """Whether the direction is formed or applied."""
        structure = problem.structure
        possible = self._symmetric(problem) and self.trimming is None
        if self.direction == "applied" and not possible:
            raise self._unsuitable(
                "applies its direction, which needs one symmetric matrix over a Spectrahedron, "
                "terms that keep it symmetric, and no trimming",
                "direction='formed'",
            )
        if self.direction != "auto" or not possible:
            return "applied" if self.direction == "applied" else "formed"
        room = resources.accelerator_bytes()
        needed = 3 * structure.size * structure.dtype.itemsize / placement.devices()
        return "formed" if room is None or needed < FORMED_SHARE * room else "applied"

    def accuracy(self, k: Any, level: jax.Array) -> Accuracy:
        """What iteration k asks of its LMO, `level` being |<y, x>| as it was last looked at."""
        assert self.lmo_tolerance is not None, "Method.bind fills it in"
        assert self.lmo_error is not None, "Method.bind fills it in"
        return Accuracy(self.lmo_tolerance(k), self.lmo_error(k) * level)

    def lmo_dtype(self, problem: Problem) -> np.dtype:
        """Of a lean direction."""
        return np.dtype(np.float32 if self.lmo_precision == "single" else problem.dtype)

    def terms(self, problem: Problem) -> tuple[Term, ...]:
        """What the tracker tracks: the objective, and for P+ the sampled constraints."""
        d = trees.dimension(problem.structure)
        objective = self.oracle.term(problem.objective, d)
        return (objective, *(c for c in self.weighted(problem) if self.tracks(c)))

    def exact_constraints(self, problem: Problem) -> tuple[Affine, ...]:
        """The constraints whose direction is added as a whole: exactly, or from a table of what was
        last seen of each row."""
        return tuple(c for c in self.weighted(problem) if not self.tracks(c))

    def weighted(self, problem: Problem) -> tuple[Affine, ...]:
        """The constraints with the weights that this method gives them."""
        own = problem.constraints
        return own if self.units is None else self.units.applied(own)

    def tracks(self, constraint: Affine) -> bool:
        """Whether the tracker tracks the constraint: sampled ones, where they have no table."""
        tracking = self.constraints == "sampled" and not (self.smoothing and self.smoothing.dual)
        return tracking and constraint.sampled

    def memos(self, problem: Problem, x: Point, atom: Any) -> tuple[Memo | None, ...]:
        """What a run keeps of each of these constraints, at its start x."""
        dual = self.smoothing is not None and self.smoothing.dual
        sampled = dual and self.constraints == "sampled"
        return tuple(
            c.memo(x, atom, dual, sampled and c.sampled and not c.whole)
            for c in self.exact_constraints(problem)
        )

    def _check(self, problem: Problem) -> None:
        partly = [c.name for c in problem.constraints if c.sampled and not c.whole]
        names = ", ".join(repr(c.name) for c in problem.constraints)
        if self.constraints == "none" and problem.constraints:
            raise self._unsuitable(
                f"cannot handle constraints, and the problem has {names}",
                "most-fw+ or h1-sfw" if partly else "most-fw, shcgm or hfw",
            )
        if self.constraints == "whole" and partly:
            raise self._unsuitable(
                f"needs whole constraints, but {', '.join(map(repr, partly))} is sampled",
                "most-fw+ or h1-sfw (or leave the constraint's batch out)",
            )
        if self.constraints == "sampled" and not problem.sampled_constraints:
            raise self._unsuitable(
                "needs sampled constraints, and the problem has none",
                "most-fw (or give a constraint a batch)",
            )
        if self.smoothing is not None and self.smoothing.dual and self.constraints == "sampled":
            for constraint in problem.sampled_constraints:
                if not (constraint.whole or has_table(constraint)):
                    raise self._unsuitable(
                        f"keeps a table of rows, and {constraint.label} has too many for one",
                        "most-fw+ (or most-al, with the constraint's batch left out)",
                    )
        self._check_objective(problem)

    def _check_objective(self, problem: Problem) -> None:
        objective = problem.objective
        if self.tracker.needs_whole and not objective.finite:
            raise self._unsuitable(
                f"needs gradients of the whole objective, and {objective.label} has only samples",
                "most-fw, shcgm or sfw",
            )
        for term in self.terms(problem):
            if self.tracker.needs_sum and not term.single:
                raise self._unsuitable(
                    f"draws growing batches of a finite sum, and {term.label} is not one that can "
                    "be drawn summand by summand",
                    "most-fw or sfw",
                )
            if self.tracker.needs_table and not (term.whole or has_table(term)):
                raise self._unsuitable(
                    f"keeps a table of summands, and {term.label} has none",
                    "most-fw, most-fw+ or sfw",
                )

    def _unsuitable(self, why: str, fits: str) -> UnsuitableMethodError:
        return UnsuitableMethodError(f"method {self.name!r} {why}. What would fit: {fits}.")


def _tells_length(term: Term) -> bool:
    return not term.whole and type(term).length is not Term.length


def has_table(term: Term) -> bool:
    """Whether a number can be kept for each summand.

    >>> import numpy as np, mostfw as fw
    >>> from mostfw.method import has_table
    >>> entries = fw.objectives.Linear(np.eye(4), batch=3)
    >>> has_table(entries), has_table(fw.objectives.Linear(np.eye(4), batch=4, sampling="block"))
    (True, False)
    """
    try:
        return term.single and 1 <= term.slots < 2**31
    except InvalidInputError:
        return False


def _is_number(leaf: Any) -> bool:
    if isinstance(leaf, np.ndarray | np.generic | jax.Array):
        return np.issubdtype(leaf.dtype, np.floating)
    return isinstance(leaf, float)
