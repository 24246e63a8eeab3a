"""Problem = objective + domain + constraints (+ what is known): refuses what does not fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from . import checks, placement
from .constraints import Affine
from .domains import Domain, Least
from .errors import InvalidInputError, ShapeError
from .objectives import Objective
from .trees import Point, Structure, replaced


class Problem(eqx.Module):
    """min over x in `domain` of `objective`, subject to every constraint.

    Problem P has whole constraints; with sampled ones it is P+. Shapes and dtypes are checked
    here. The dtype follows the data (float64 NumPy arrays make a float64 problem) unless given.
    `optimum` is the known optimal value; `metrics` are named functions of x to record beside the
    objective; `answer` turns a solution into what the user asked for (labels, a cut); `feasible`
    turns it into a point nearby that keeps every constraint, whose value bounds the optimum.

    >>> import numpy as np, mostfw as fw
    >>> problem = fw.Problem(
    ...     objective=fw.objectives.Linear(np.diag([1.0, 2.0, 3.0])),
    ...     domain=fw.domains.Spectrahedron(3, trace=1.0, equality=True),
    ...     constraints=[fw.constraints.Affine(fw.maps.Entries([0], [0]), fw.sets.Point(0.5))],
    ... )
    >>> print(problem)
    min Linear over Spectrahedron, subject to constraint: Entries x in Point(0.5)
    """

    objective: Objective
    domain: Domain
    constraints: tuple[Affine, ...]
    optimum: float | None = eqx.field(static=True)
    metrics: dict[str, Callable[[Point], jax.Array]]
    answer: Callable[[Any], Any] | None = eqx.field(static=True)
    feasible: Callable[[Any], Any] | None = eqx.field(static=True)
    name: str = eqx.field(static=True)
    dtype_name: str = eqx.field(static=True)

    def __init__(
        self,
        objective: Objective,
        domain: Domain,
        constraints: Sequence[Affine] | Affine = (),
        *,
        optimum: float | None = None,
        metrics: dict[str, Callable[[Point], jax.Array]] | None = None,
        answer: Callable[[Any], Any] | None = None,
        feasible: Callable[[Any], Any] | None = None,
        name: str = "problem",
        dtype: Any = None,
    ) -> None:
        if not isinstance(objective, Objective):
            raise InvalidInputError(
                f"the objective is a {type(objective).__name__}: wrap a function in "
                "mostfw.objectives.Smooth, Sampled or FiniteSum."
            )
        if not isinstance(domain, Domain):
            raise InvalidInputError(
                f"the domain is a {type(domain).__name__}: use one of mostfw.domains."
            )
        constraints = (constraints,) if isinstance(constraints, Affine) else _listed(constraints)
        for constraint in constraints:
            if not isinstance(constraint, Affine):
                raise InvalidInputError(
                    f"a constraint is a {type(constraint).__name__}: write "
                    "mostfw.constraints.Affine(G, X)."
                )
        names = [constraint.name for constraint in constraints]
        if len(set(names)) != len(names):
            raise InvalidInputError(f"two constraints share a name: {names}. Give each its own.")
        if optimum is not None:
            checks.number("the known optimum", optimum)
        self.dtype_name = str(_dtype((objective, domain, constraints), dtype))
        with self.precision():
            structure = domain.structure(self.dtype)
            self.objective = objective.resolve(structure)  # pyright: ignore[reportAttributeAccessIssue]
            self.constraints = tuple(c.resolve(structure) for c in constraints)
        self.domain = domain
        self.optimum = None if optimum is None else float(optimum)
        if not (metrics is None or isinstance(metrics, dict)):
            raise InvalidInputError(f"metrics is {metrics!r}: give a dict of functions by name.")
        self.metrics, self.answer, self.name = dict(metrics or {}), answer, str(name)
        self.feasible = feasible
        self._check_metrics()

    def _check_metrics(self) -> None:
        for name, function in self.metrics.items():
            try:
                with self.precision():
                    found = jax.eval_shape(function, self.structure)
            except Exception as error:
                raise InvalidInputError(
                    f"metric {name!r} fails on a point: {type(error).__name__}: {error}"
                ) from error
            if getattr(found, "shape", None) != ():
                raise ShapeError(f"metric {name!r} must return one number, not {found}.")

    def __str__(self) -> str:
        head = f"min {type(self.objective).__name__} over {type(self.domain).__name__}"
        rules = "; ".join(map(str, self.constraints))
        return f"{head}, subject to {rules}" if rules else head

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(self.dtype_name)

    def precision(self) -> Any:
        """The context in which this problem's numbers keep their precision; no global switch."""
        return jax.enable_x64(self.dtype == np.float64 or bool(jax.config.read("jax_enable_x64")))

    def least(self, direction: Point) -> Least:
        """A number that <direction, x> is not below at any x that is in the domain and keeps every
        constraint."""
        return self.domain.least_feasible(direction, self.constraints)

    @property
    def structure(self) -> Structure:
        return self.domain.structure(self.dtype)

    @property
    def sampled_constraints(self) -> tuple[Affine, ...]:
        return tuple(c for c in self.constraints if c.sampled)

    def core(self) -> Problem:
        """What the loop needs and no more: other metrics or names must not compile it anew."""
        return replaced(self, optimum=None, metrics={}, answer=None, feasible=None, name="")

    def to_measure(self) -> Problem:
        """What a record needs and no more: other names or answers must not compile it anew."""
        return replaced(self.core(), metrics=self.metrics)

    def on_device(self) -> Problem:
        """The same problem with its arrays on the device, or on those of the mesh that there is;
        floats in the problem's dtype."""
        structure = self.structure
        return jax.tree.map(lambda leaf: _to_device(leaf, self.dtype, structure), self)


def _listed(constraints: Any) -> tuple[Any, ...]:
    try:
        return tuple(constraints)
    except TypeError:
        raise InvalidInputError(
            f"constraints is {constraints!r}: give a list of mostfw.constraints.Affine."
        ) from None


def _to_device(leaf: Any, dtype: Any, structure: Structure) -> Any:
    if isinstance(leaf, float):
        return placement.put(leaf, structure, dtype)
    if isinstance(leaf, np.ndarray | jax.Array):
        floating = jnp.issubdtype(leaf.dtype, jnp.floating)
        return placement.put(leaf, structure, dtype if floating else None)
    return leaf


def _dtype(parts: Any, given: Any) -> np.dtype:
    """float64 if asked for or if any float array is float64; else float32 if there is one."""
    if given is not None:
        return checks.float_dtype(given)
    arrays = [leaf for leaf in jax.tree.leaves(parts) if isinstance(leaf, np.ndarray | jax.Array)]
    floats = [a.dtype for a in arrays if jnp.issubdtype(a.dtype, jnp.floating)]
    if any(d == np.float64 for d in floats):
        return np.dtype(np.float64)
    if floats:
        return np.dtype(np.float32)
    return np.dtype(jnp.result_type(float))
