"""What a run will hold in memory, said before it is asked for, and refused where it is too much.

Nothing of the size of a point is made for this: the state is known from its shapes alone, and what
a compiled step, the measuring of units and the bounds put beside it is counted in points, by the
parts that a method is made of. The counts were read off compiled programs (`benchmarks/memory.py`);
a test compares them with what the compiler says today.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from . import placement, processes, resources, trees
from .constraints import Affine
from .domains import NuclearBall, Spectrahedron
from .errors import MostFWError, ResourceError
from .frank_wolfe import start
from .linalg import DENSE_BELOW
from .linalg._search import SURE_BELOW
from .method import Method
from .methods import most_fw, most_fw_plus
from .objectives import Linear, SquaredDistances
from .problem import Problem
from .scaling import Units
from .terms import Term
from .trackers import HessianMomentum, Snapshot, Spider
from .trees import replaced

KRYLOV_VECTORS = 84  # basis, Ritz vectors and what a restart makes of them
NUMBERS_A_DRAW = 12  # places, entries and messages of one drawn summand
SURE_POINTS = 1  # where an LMO may be solved by all eigenvectors, which are a matrix
BATCHES_OF_A_TERM = 3  # points: what loops over growing batches copy, for each term
HESSIAN_POINTS = 4
UNITS_POINTS = 3
UNITS_POINTS_DRAWN = 5  # where the objective has samples only
BOUND_POINTS = 12  # in float64, whatever the dtype: measured, n = 1500, 10 more than in a step
# The model is within a quarter of what the compiler says: nothing is refused that would fit if the
# model were that much too high, for a run that is refused in vain is worse than one that swaps.
SLACK = 1.25
# No method known holds more than this, in points and rows of constraints: what is below it fits,
# and need not be looked at closely.
ROUGH_POINTS = 40
SAMPLED = 0.01  # the share of the rows, where a remedy says that they be sampled
_UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB")


@dataclasses.dataclass(frozen=True)
class Need:
    """Bytes that a run holds: `data` of the problem, `state` from step to step, and beside them at
    most one of: what a `step` makes, what the `bounds` make. `units` is made before the state is,
    where a method measures its problem.

    >>> from mostfw.memory import Need
    >>> print(Need(data=10**6, state=2 * 10**9, step=10**9, units=0, bounds=0))
    3 GB (data 1 MB, state 2 GB, a step 1 GB)
    """

    data: int
    state: int
    step: int
    units: int
    bounds: int

    @property
    def total(self) -> int:
        """At the largest."""
        return self.data + max(self.state + max(self.step, self.bounds), self.units)

    def __str__(self) -> str:
        parts = {"data": self.data, "state": self.state, "a step": self.step}
        more = {"measuring the units": self.units, "the bounds": self.bounds}
        parts |= {name: size for name, size in more.items() if size > self.step}
        listed = ", ".join(f"{name} {in_words(size)}" for name, size in parts.items())
        return f"{in_words(self.total)} ({listed})"


def estimate(
    problem: Problem, method: Method, *, certify: bool | None = None, members: int = 1
) -> Need:
    """What a run of the method holds; of a sweep, with so many members. `certify` as in `solve`:
    bounds count where they are asked for, since a run does without those that it has no room for.

    >>> import numpy as np, mostfw as fw
    >>> from mostfw import memory
    >>> problem = fw.problems.kmeans(np.zeros((100_000, 2)), clusters=3)
    >>> memory.estimate(problem, fw.methods.most_fw(mu_c=1.0)).state > 2 * 8 * 100_000**2
    True
    """
    with problem.precision():
        shapes = _shapes(problem)
        bound = _bound(problem, method)
        state = _bytes(eqx.filter_eval_shape(start, shapes.core(), bound))
        step = _step_bytes(problem, bound)
    measured = method.units is None and bound.units is not None
    return Need(
        data=_bytes(shapes),
        state=members * state,
        step=members * step,
        units=_units_bytes(problem) if measured else 0,
        bounds=_bound_bytes(problem) if certify else 0,
    )


def require(
    problem: Problem,
    method: Method,
    available: int | None = None,
    *,
    certify: bool | None = None,
    members: int = 1,
) -> None:
    """Refuses a run that the device has no room for, with what would fit.

    `available` is in bytes; None asks the device. Ordinary runs are far from it, which takes no
    tracing to see.

    >>> import numpy as np, mostfw as fw
    >>> from mostfw import memory
    >>> problem = fw.problems.kmeans(np.zeros((100_000, 2)), clusters=3)
    >>> try:
    ...     memory.require(problem, fw.methods.most_fw(mu_c=1.0), available=16 * 10**9)
    ... except fw.ResourceError as error:
    ...     print(str(error).split(" (")[0])
    problem 'kmeans N=100000 K=3' with method 'most-fw' needs about 280 GB
    """
    available = _available() if available is None else available
    if available is None or members * _rough_bytes(problem, method) < available:
        return
    need = estimate(problem, method, certify=certify, members=members)
    if need.total > SLACK * available:
        run = _Run(problem, method, certify, members)
        raise ResourceError(_message(run, need, available), need.total, available)


def _available() -> int | None:
    """Of all devices of a mesh together, as nearly all of a run is spread over them evenly; of the
    process that has least, for all must come to the same conclusion."""
    available = resources.available_bytes()
    least, machines = processes.least(math.inf if available is None else available)
    if not math.isfinite(least):
        return None
    # the devices of a CPU, and processes on one machine, share its memory
    own = resources.accelerator_bytes() is not None
    return (placement.devices() if own else machines) * int(least)


def room_for_bounds(problem: Problem, available: int | None = None) -> bool:
    """Whether the arrays that bounds on the optimum are computed with fit, beside a run's own.

    >>> import numpy as np, mostfw as fw
    >>> from mostfw import memory
    >>> problem = fw.problems.kmeans(np.zeros((1000, 2)), clusters=3)
    >>> memory.room_for_bounds(problem, 10**9), memory.room_for_bounds(problem, 10**7)
    (True, False)
    """
    available = resources.available_bytes() if available is None else available
    return available is None or _bound_bytes(problem) <= available


@dataclasses.dataclass(frozen=True)
class _Run:
    """One way to run a problem."""

    problem: Problem
    method: Method
    certify: bool | None
    members: int

    def need(self) -> Need:
        return estimate(self.problem, self.method, certify=self.certify, members=self.members)


def in_words(count: float) -> str:
    """A number of bytes.

    >>> from mostfw.memory import in_words
    >>> in_words(1_700_000_000)
    '1.7 GB'
    """
    for unit in _UNITS[:-1]:
        if count < 999.5:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} {_UNITS[-1]}"


def _message(run: _Run, need: Need, available: int) -> str:
    who = (
        f"a sweep of {run.members} members" if run.members > 1 else f"problem {run.problem.name!r}"
    )
    remedies = [*_remedies(run, available), _larger(need), _smaller(run.problem, need, available)]
    return (
        f"{who} with method {run.method.name!r} needs about {need} of memory, but "
        f"{resources.device_name()} has {in_words(available)} left. What would fit: "
        f"{'; '.join(remedies)}."
    )


def _remedies(run: _Run, available: int) -> Iterator[str]:
    """Changes that are enough, each alone; else all that help, together."""
    together, words = run, []
    for word, change in _changes(run):
        try:
            alone, sofar = change(run), change(together)
            need, joint = alone.need(), sofar.need()
        except MostFWError:  # this method or problem cannot be changed so
            continue
        if need.total <= available:
            yield f"{word} (about {in_words(need.total)})"
        elif joint.total < 0.9 * together.need().total:
            together, words = sofar, [*words, word]
            if joint.total <= available:
                yield f"{' with '.join(words)} (about {in_words(joint.total)})"


def _changes(run: _Run) -> Iterator[tuple[str, Any]]:
    problem, method = run.problem, run.method
    if run.certify:
        yield "certify=False", lambda r: dataclasses.replace(r, certify=False)
    if problem.dtype == np.float64:
        single = lambda r: dataclasses.replace(r, problem=replaced(r.problem, dtype_name="float32"))  # noqa: E731
        yield "dtype=float32", single
    if method.trimming is not None:
        untrimmed = lambda r: dataclasses.replace(r, method=replaced(r.method, trimming=None))  # noqa: E731
        yield f"{method.name.removeprefix('t-')} without trimming", untrimmed
    if method.smoothing is not None and method.smoothing.dual:
        # what stands for the multipliers of every row
        if method.constraints == "whole":
            yield (
                "most-fw, which keeps no multipliers",
                lambda r: dataclasses.replace(r, method=most_fw(1.0)),
            )
        yield f"rows sampled (batch={SAMPLED}) by most-fw+, which keeps none", _sampled
    elif method.tracker.needs_table and problem.sampled_constraints:
        yield "most-fw+, which keeps no table", _sampled
    if run.members > 1:
        yield (
            "one solve after the other instead of a sweep",
            lambda r: dataclasses.replace(r, members=1),
        )


def _sampled(run: _Run) -> _Run:
    """The same with sampled rows wherever there can be."""
    structure = run.problem.structure
    sampled = tuple(
        replaced(c, requested=c.requested or SAMPLED).resolve(structure)
        if c.map.sampleable and c.set.separable and math.prod(c.image) > trees.dimension(structure)
        else c
        for c in run.problem.constraints
    )
    if not any(c.sampled for c in sampled):
        sampled = tuple(
            replaced(c, requested=SAMPLED).resolve(structure)
            if c.map.sampleable and c.set.separable
            else c
            for c in run.problem.constraints
        )
    problem = replaced(run.problem, constraints=sampled)
    return dataclasses.replace(run, problem=problem, method=most_fw_plus(1.0))


def _larger(need: Need) -> str:
    gigabytes = math.ceil(need.total / 1e9)
    return f"a GPU or machine with {gigabytes} GB free"


def _smaller(problem: Problem, need: Need, available: int) -> str:
    """The largest of the same kind that fits."""
    sides = [max(leaf.shape, default=1) for leaf in jax.tree.leaves(problem.structure)]
    square = any(len(leaf.shape) == 2 for leaf in jax.tree.leaves(problem.structure))
    cubic = any(math.prod(c.image) >= max(sides) ** 3 > 1 for c in problem.constraints)
    power = 1 / 3 if cubic and square else 1 / 2 if square else 1
    side = max(1, int(max(sides) * (available / need.total) ** power))
    digits = 10 ** max(0, len(str(side)) - 2)
    return f"n up to about {side // digits * digits}"


def _bound(problem: Problem, method: Method) -> Method:
    """The method as a run has it, but with units that were not measured: measuring makes points."""
    smoothing = method.smoothing
    counted = smoothing is not None and (smoothing.scaled or smoothing.dual)
    if counted and problem.constraints and method.units is None:
        count = len(problem.constraints)
        ones, nothing = (1.0,) * count, (None,) * count
        method = replaced(method, units=Units(1.0, ones, nothing, ones))
    return method.bind(problem)


def _shapes(problem: Problem) -> Problem:
    """The problem as it will be on the device, of shapes only."""

    def shape_of(leaf: Any) -> Any:
        if isinstance(leaf, float):
            return jax.ShapeDtypeStruct((), problem.dtype)
        if isinstance(leaf, np.ndarray | jax.Array):
            floating = jnp.issubdtype(leaf.dtype, jnp.floating)
            dtype = problem.dtype if floating else jax.dtypes.canonicalize_dtype(leaf.dtype)
            return jax.ShapeDtypeStruct(leaf.shape, dtype)
        return leaf

    return jax.tree.map(shape_of, problem)


def _bytes(tree: Any) -> int:
    leaves = [leaf for leaf in jax.tree.leaves(tree) if hasattr(leaf, "dtype")]
    return sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in leaves)


def _step_bytes(problem: Problem, method: Method) -> int:
    """What the compiled loop makes beside its state: at its largest either before the direction is
    there or while it is minimised over."""
    item, point = problem.dtype.itemsize, _bytes(problem.structure)
    terms, exact = method.terms(problem), method.exact_constraints(problem)
    direction = 0.0 if method.direction == "applied" else 1.0
    if method.lean:  # with trimming, the squares of how far it is from the last one
        direction = method.lmo_dtype(problem).itemsize / item
    if not all(term.symmetric for term in (*terms, *exact)):
        direction += 1  # made symmetric, or a gradient that is moved to where the direction is
    gradients = float(sum(map(_gradient_points, terms)))
    if isinstance(method.tracker, Spider | Snapshot):
        gradients += BATCHES_OF_A_TERM * len(terms)
    if isinstance(method.tracker, HessianMomentum):
        gradients += HESSIAN_POINTS
    before = gradients * point + sum(_residual_bytes(c, problem, method) for c in exact)
    minimising = _sure_points(problem) * point
    lists = _krylov_numbers(problem) + NUMBERS_A_DRAW * max(map(_drawn, terms))
    return int(direction * point + max(before, minimising) + lists * item)


def _residual_bytes(constraint: Affine, problem: Problem, method: Method) -> int:
    """Of rows whose residuals are stored before they become a part of the direction; of multipliers
    only their squares are, in single precision."""
    dual = method.smoothing is not None and method.smoothing.dual
    rows, item = math.prod(constraint.image), problem.dtype.itemsize
    if constraint.image == getattr(problem.structure, "shape", ()):
        return 4 * rows if dual else 0
    return item * rows if dual or constraint.map.stored else 0


def _sure_points(problem: Problem) -> int:
    sides = [max(leaf.shape, default=1) for leaf in jax.tree.leaves(problem.structure)]
    if not isinstance(problem.domain, Spectrahedron | NuclearBall) or max(sides) >= SURE_BELOW:
        return 0
    return SURE_POINTS


def _gradient_points(term: Term) -> float:
    """Points that the gradient of a term is formed as, before it is added."""
    if isinstance(term, SquaredDistances):
        return float(term.whole)
    if isinstance(term, Linear) or term.gathers:
        return 0.0
    return float(term.whole)


def _drawn(term: Term) -> int:
    """How many summands a step looks at one by one."""
    if not term.whole:
        return term.batch
    return (
        (term.total or 0) if term.gathers and not isinstance(term, Linear | SquaredDistances) else 0
    )


def _krylov_numbers(problem: Problem) -> int:
    if not isinstance(problem.domain, Spectrahedron | NuclearBall):
        return 0
    numbers = 0
    for leaf in jax.tree.leaves(problem.structure):
        small = min(leaf.shape) <= DENSE_BELOW
        numbers += 2 * math.prod(leaf.shape) if small else KRYLOV_VECTORS * max(leaf.shape)
    return numbers


def _units_bytes(problem: Problem) -> int:
    points = UNITS_POINTS
    if problem.objective.total is None and not problem.objective.online:
        points = UNITS_POINTS_DRAWN
    return points * _bytes(problem.structure)


def _bound_bytes(problem: Problem) -> int:
    rows = max((math.prod(c.image) for c in problem.constraints), default=0)
    numbers = max(trees.dimension(problem.structure), rows)
    return BOUND_POINTS * np.dtype(float).itemsize * numbers


def _rough_bytes(problem: Problem, method: Method) -> int:
    """More than a run can need, from sizes alone."""
    structure = problem.structure
    rows = sum(math.prod(c.image) + c.table_slots for c in problem.constraints)
    numbers = ROUGH_POINTS * (trees.dimension(structure) + rows)
    numbers += (KRYLOV_VECTORS + 1) * sum(sum(leaf.shape) for leaf in jax.tree.leaves(structure))
    objective = problem.objective
    numbers += 4 * NUMBERS_A_DRAW * max(objective.batch, 1)
    if method.tracker.needs_table:
        numbers += 2 * (objective.total or 0) * trees.dimension(structure)
    return 2 * _bytes(problem) + 8 * numbers
