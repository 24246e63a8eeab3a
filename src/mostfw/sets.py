"""Closed convex sets with a cheap projection: the X of a constraint Gx in X."""

from __future__ import annotations

import abc
import dataclasses
import math
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.typing import ArrayLike
from jaxtyping import Array

from .errors import InvalidInputError, ShapeError
from .registry import Registry
from .thresholds import floating, simplex_threshold, threshold_below

Shape = tuple[int, ...]
SETS: Registry = Registry("set")

# what a parameter must be, in words and as a test
_FINITE = "finite; for no bound use Box or Free", np.isfinite
_SIZE = "finite and >= 0; for no bound use Free", lambda v: (v >= 0) & (v < np.inf)
_LOWER = "a number, or -inf for no bound", lambda v: v < np.inf
_UPPER = "a number, or inf for no bound", lambda v: v > -np.inf
_NORMAL = "finite and not all zero; for no bound use Free", lambda v: np.isfinite(v) & np.any(v)
_SIGN = "1 for r >= 0 or -1 for r <= 0", lambda v: abs(v) == 1
_LEFT = {"right_hand_side": False}  # marks the fields that `rhs_norm` leaves out


class ConvexSet(eqx.Module):
    """A closed convex set of arrays of one shape, with the Euclidean norm over all entries.

    Parameters are numbers or arrays that broadcast to the projected array's shape. All methods
    trace. A new set gives `examples`, and `_project` and `_support`, which get a floating array.
    """

    separable: ClassVar[bool] = False  # whether the set is a product over entries

    @abc.abstractmethod
    def _project(self, r: Array) -> Array: ...

    @abc.abstractmethod
    def _support(self, l: Array) -> Array: ...

    @staticmethod
    @abc.abstractmethod
    def examples() -> list[tuple[ConvexSet, Shape]]:
        """Instances with varied parameters and a shape for each, for the contract tests."""

    def project(self, r: ArrayLike) -> Array:
        """The point of the set nearest to `r`, in `r`'s shape and dtype."""
        return self._project(floating(r))

    def support(self, l: ArrayLike) -> Array:
        """sup of <l, s> over s in the set: a scalar, +inf where there is no bound."""
        l = floating(l)
        return self._support(l).astype(l.dtype)

    def support_size(self, l: ArrayLike, shape: Shape) -> Array:
        """A bound on the sum of the absolute values that `support` sums up, whatever cancels there;
        `shape` is that of the rows."""
        l = floating(l)
        return jnp.abs(self.support(l)) + _norm(l) * self.rhs_norm(shape).astype(l.dtype)

    def supported(self, l: ArrayLike) -> Array:
        """The nearest array to `l` whose support is finite; `l` itself for bounded sets.

        Rounding, or a mean of several multipliers, leaves that cone by a little.
        """
        return floating(l)

    def residual(self, r: ArrayLike, guess: Array | None = None) -> tuple[Array, Array | None]:
        """r - project(r), and a guess for the next r where a projection is searched for.

        `guess` is what came with the residual of an r near by; any number is safe.
        """
        r = floating(r)
        return r - self._project(r), guess

    def first_guess(self, dtype: Any) -> Array | None:
        """The guess before there is one; None for sets that project without a search."""
        return None

    def distance(self, r: ArrayLike) -> Array:
        """Euclidean distance from `r` to the set: ||r - project(r)||."""
        return _norm(floating(r) - self.project(r))

    def rhs_norm(self, shape: Shape) -> Array:
        """Euclidean norm of the finite right-hand-side numbers, as broadcast to `shape`."""
        self.check(shape)
        total = jnp.zeros(())
        for field in dataclasses.fields(self):
            if field.metadata.get("right_hand_side", True):
                value = floating(getattr(self, field.name))
                # a radius is one number on the right-hand side, a bound one for each entry
                copies = math.prod(shape) / max(value.size, 1) if self.separable else 1
                finite = jnp.where(jnp.isfinite(value), value, 0)
                total = jnp.hypot(total, _norm(finite) * math.sqrt(copies))
        return total

    def at(self, indices: Any, shape: Shape | None = None) -> ConvexSet:
        """The set for some entries of r, so that those can be projected without the rest.

        `indices` is an integer array into the flattened r, or a tuple of index arrays into r.
        Array parameters must have r's full shape, unless `shape` gives it to broadcast them to.
        """
        if not self.separable:
            raise InvalidInputError(f"{self} is no product over entries: project the whole array.")

        def gather(parameter: Any) -> Any:
            if np.ndim(parameter) == 0:
                return parameter
            # `indices` may be traced, and a tracer indexes JAX arrays only
            parameter = jnp.broadcast_to(parameter, np.shape(parameter) if shape is None else shape)
            return parameter[indices] if isinstance(indices, tuple) else parameter.ravel()[indices]

        return jax.tree_util.tree_map(gather, self)  # every leaf is a parameter

    def check(self, shape: Shape) -> None:
        """Raises `ShapeError` if an array parameter does not broadcast to exactly `shape`."""
        for field in dataclasses.fields(self):
            have, want = np.shape(getattr(self, field.name)), tuple(shape)
            pairs = zip(reversed(have), reversed(want), strict=False)
            if len(have) > len(want) or any(a not in (1, b) for a, b in pairs):
                misfit = f"{field.name} of shape {have} does not broadcast to {want}"
                raise ShapeError(f"{self}: {misfit}. Give a number or an array of that shape.")

    def __str__(self) -> str:
        values = (getattr(self, field.name) for field in dataclasses.fields(self))
        words = (f"{v:g}" if type(v) is float else f"array of shape {np.shape(v)}" for v in values)
        return f"{type(self).__name__}({', '.join(words)})"

    def _fit(self, value: Any, like: Array) -> Array:
        """The parameter in `like`'s shape and dtype, so that no float64 leaks into float32."""
        self.check(like.shape)
        return jnp.broadcast_to(jnp.asarray(value, like.dtype), like.shape)


def _parameter(name: str, rule: Any = _FINITE, scalar: bool = False, **options: Any) -> Any:
    """A field that turns numbers to float and lists to NumPy, and checks what is concrete."""

    def convert(value: Any) -> Any:
        if isinstance(value, Tracer):
            return value
        try:
            array = np.asarray(value)
        except ValueError:
            raise ShapeError(f"{name} is ragged: its rows have several lengths.") from None
        if array.dtype.kind not in "biuf" and not jnp.issubdtype(array.dtype, jnp.floating):
            raise InvalidInputError(f"{name} is {value!r}; it must be a real number or array.")
        if scalar and array.ndim:
            raise ShapeError(f"{name} has shape {array.shape}; it must be one number.")
        bad = np.flatnonzero(~np.broadcast_to(rule[1](array), array.shape))
        if bad.size:
            where = f" at flat position {bad[0]} ({bad.size} such)" if array.ndim else ""
            raise InvalidInputError(f"{name} is {array.flat[bad[0]]}{where}; it must be {rule[0]}.")
        if isinstance(value, jax.Array):
            return value
        array = array if array.dtype.kind == "f" else array.astype(float)
        return array if array.ndim or isinstance(value, np.ndarray) else float(array)

    return eqx.field(converter=convert, **options)


def _norm(x: Array) -> Array:
    """Euclidean norm over all entries, scaled: squares of 1e20 would overflow in float32."""
    scale = jnp.max(jnp.abs(x), initial=jnp.finfo(x.dtype).tiny)
    return scale * jnp.sqrt(jnp.sum((x / scale) ** 2))


@SETS.register
class Point(ConvexSet):
    """One point, {value}: the constraint Gx = value.

    >>> Point(2.0).project([1.0, 5.0]).tolist()
    [2.0, 2.0]
    """

    value: Any = _parameter("Point: value")
    separable: ClassVar[bool] = True

    def _project(self, r: Array) -> Array:
        return self._fit(self.value, r)

    def _support(self, l: Array) -> Array:
        return jnp.sum(l * self._fit(self.value, l))

    @staticmethod
    def examples() -> list[tuple[ConvexSet, Shape]]:
        return [(Point(0.0), (4,)), (Point(1.5), (2, 2)), (Point([[-2.0, 0.5]]), (1, 2))]


@SETS.register
class Orthant(ConvexSet):
    """All r with sign * r >= 0 entrywise: r >= 0 for sign = 1, r <= 0 for sign = -1.

    >>> Orthant().project([-1.0, 5.0]).tolist()
    [0.0, 5.0]
    """

    sign: float = _parameter("Orthant: sign", _SIGN, True, default=1, static=True, metadata=_LEFT)
    separable: ClassVar[bool] = True

    def _project(self, r: Array) -> Array:
        return jnp.maximum(r, 0) if self.sign > 0 else jnp.minimum(r, 0)

    def _support(self, l: Array) -> Array:
        return jnp.where(jnp.all(l * self.sign <= 0), 0, jnp.inf)

    def supported(self, l: ArrayLike) -> Array:
        return jnp.minimum(floating(l), 0) if self.sign > 0 else jnp.maximum(floating(l), 0)

    def __str__(self) -> str:
        return f"Orthant({'>=' if self.sign > 0 else '<='} 0)"

    @staticmethod
    def examples() -> list[tuple[ConvexSet, Shape]]:
        return [(Orthant(), (5,)), (Orthant(1), (2, 3)), (Orthant(-1), (4,)), (Orthant(-1), ())]


@SETS.register
class Box(ConvexSet):
    """All r with lower <= r <= upper entrywise; bounds may be infinite.

    >>> Box(0.0, 1.0).project([-1.0, 0.5, 3.0]).tolist()
    [0.0, 0.5, 1.0]
    """

    lower: Any = _parameter("Box: lower", _LOWER)
    upper: Any = _parameter("Box: upper", _UPPER)
    separable: ClassVar[bool] = True

    def __check_init__(self) -> None:
        if isinstance(self.lower, Tracer) or isinstance(self.upper, Tracer):
            return
        try:
            lower, upper = np.broadcast_arrays(self.lower, self.upper)
        except ValueError as error:
            raise ShapeError(f"Box: lower and upper must fit together; {error}.") from None
        bad = np.flatnonzero(lower > upper)
        if bad.size:
            what = f"lower {lower.flat[bad[0]]} exceeds upper {upper.flat[bad[0]]}"
            raise InvalidInputError(f"Box: {what} at flat position {bad[0]}; exchange the bounds.")

    def _project(self, r: Array) -> Array:
        return jnp.clip(r, self._fit(self.lower, r), self._fit(self.upper, r))

    def _support(self, l: Array) -> Array:
        bound = jnp.where(l > 0, self._fit(self.upper, l), self._fit(self.lower, l))
        finite = jnp.isfinite(bound)
        # infinite bounds stay out of the products, where 0 * inf would be NaN
        value = jnp.sum(l * jnp.where(finite, bound, 0))
        return jnp.where(jnp.all(finite | (l == 0)), value, jnp.inf)

    def supported(self, l: ArrayLike) -> Array:
        l = floating(l)
        bound = jnp.where(l > 0, self._fit(self.upper, l), self._fit(self.lower, l))
        return jnp.where(jnp.isfinite(bound), l, 0)

    @staticmethod
    def examples() -> list[tuple[ConvexSet, Shape]]:
        low = np.array([[-np.inf, -1.0, 0.0], [-np.inf, 0.5, -3.0]])
        top = np.array([[np.inf, 2.0, 0.0], [-1.0, np.inf, -2.5]])
        boxes = Box(0, 1), Box(-np.inf, 0.5), Box(low, top), Box(low, 4), Box(-9, top[1])
        return [(box, (2, 3)) for box in boxes]


@SETS.register
class Simplex(ConvexSet):
    """All r >= 0 with sum of r_i = total.

    >>> Simplex(2.0).project([3.0, 2.0, 0.0]).tolist()
    [1.5, 0.5, 0.0]
    """

    total: Any = _parameter("Simplex: total", _SIZE, True, default=1.0)

    def _project(self, r: Array) -> Array:
        top = jnp.max(r)
        return jnp.maximum(r - top - threshold_below(top, r, lambda v: v, self.total, None), 0)

    def residual(self, r: ArrayLike, guess: Array | None = None) -> tuple[Array, Array | None]:
        r = floating(r)
        threshold = simplex_threshold(r, self.total, guess)
        return jnp.minimum(r, threshold), threshold

    def first_guess(self, dtype: Any) -> Array | None:
        return jnp.zeros((), dtype)

    def _support(self, l: Array) -> Array:
        return self.total * jnp.max(l)

    @staticmethod
    def examples() -> list[tuple[ConvexSet, Shape]]:
        return [(Simplex(), (5,)), (Simplex(4.0), (2, 3)), (Simplex(0.0), (3,)), (Simplex(2), (1,))]


@SETS.register
class L1Ball(ConvexSet):
    """All r with sum of |r_i| <= radius.

    >>> L1Ball(2.0).project([3.0, -2.0, 0.0]).tolist()
    [1.5, -0.5, 0.0]
    """

    radius: Any = _parameter("L1Ball: radius", _SIZE, True)

    def _search(self, r: Array, guess: Array | None) -> tuple[Array, Array, Array]:
        """Whether r is inside, the largest |r_i|, and the threshold below that."""
        radius, inside = jnp.asarray(self.radius, r.dtype), jnp.sum(jnp.abs(r)) <= self.radius
        r, inside = jax.lax.optimization_barrier((r, inside))  # as in the search: |r| is not stored
        top = jnp.max(jnp.abs(r))
        start = None if guess is None else guess - top
        # Only a number goes through the branch: inside the ball there is nothing to search for.
        threshold = jax.lax.cond(
            inside,
            lambda: jnp.zeros((), r.dtype),
            lambda: threshold_below(top, r, jnp.abs, radius, start),
        )
        return inside, top, threshold

    def _project(self, r: Array) -> Array:
        inside, top, threshold = self._search(r, None)
        shrunk = jnp.sign(r) * jnp.maximum(jnp.abs(r) - top - threshold, 0)
        return jnp.where(inside, r, shrunk)

    def residual(self, r: ArrayLike, guess: Array | None = None) -> tuple[Array, Array | None]:
        r = floating(r)
        inside, top, threshold = self._search(r, guess)
        limit = jnp.where(inside, 0, jnp.maximum(top + threshold, 0))
        return jnp.clip(r, -limit, limit), limit

    def first_guess(self, dtype: Any) -> Array | None:
        return jnp.zeros((), dtype)

    def _support(self, l: Array) -> Array:
        return self.radius * jnp.max(jnp.abs(l))

    @staticmethod
    def examples() -> list[tuple[ConvexSet, Shape]]:
        return [(L1Ball(1.0), (5,)), (L1Ball(3.5), (2, 3)), (L1Ball(0.0), (3,)), (L1Ball(2), (1,))]


@SETS.register
class L2Ball(ConvexSet):
    """All r with ||r - center|| <= radius, in the Euclidean norm over all entries.

    >>> L2Ball(5.0).project([6.0, 8.0]).tolist()
    [3.0, 4.0]
    """

    radius: Any = _parameter("L2Ball: radius", _SIZE, True)
    center: Any = _parameter("L2Ball: center", metadata=_LEFT, default=0.0)

    def _project(self, r: Array) -> Array:
        center, radius = self._fit(self.center, r), jnp.asarray(self.radius, r.dtype)
        length = _norm(r - center)
        inside = length <= radius  # then r itself: center + (r - center) would round
        return jnp.where(inside, r, center + (r - center) * (radius / jnp.where(inside, 1, length)))

    def _support(self, l: Array) -> Array:
        return jnp.sum(l * self._fit(self.center, l)) + self.radius * _norm(l)

    def support_size(self, l: ArrayLike, shape: Shape) -> Array:
        l = floating(l)  # the center is left out of the right-hand side, which would not see it
        return super().support_size(l, shape) + _norm(l) * _norm(self._fit(self.center, l))

    @staticmethod
    def examples() -> list[tuple[ConvexSet, Shape]]:
        c = np.array([1.0, -2.0, 0.5])
        return [(L2Ball(1), (5,)), (L2Ball(2, 1), ()), (L2Ball(0, c), (3,)), (L2Ball(1, c), (2, 3))]


@SETS.register
class HalfSpace(ConvexSet):
    """All r with <normal, r> <= offset; a scalar normal stands for an array of that number.

    The support is finite on one ray only, l = t * normal with t >= 0. A computed l never lies on
    it exactly, so l within a relative distance sqrt(eps) of the ray counts.

    >>> HalfSpace([1.0, 0.0], 2.0).project([3.0, 1.0]).tolist()
    [2.0, 1.0]
    """

    normal: Any = _parameter("HalfSpace: normal", _NORMAL, metadata=_LEFT)
    offset: Any = _parameter("HalfSpace: offset", scalar=True)

    def _unit(self, like: Array) -> tuple[Array, Array]:
        length = _norm(self._fit(self.normal, like))  # a scaled pair overflows in no product
        return self._fit(self.normal, like) / length, jnp.asarray(self.offset, like.dtype) / length

    def _project(self, r: Array) -> Array:
        unit, offset = self._unit(r)
        return r - jnp.maximum(jnp.sum(unit * r) - offset, 0) * unit

    def _support(self, l: Array) -> Array:
        unit, offset = self._unit(l)
        along = jnp.sum(unit * l)
        near = _norm(l - along * unit) <= math.sqrt(jnp.finfo(l.dtype).eps) * _norm(l)
        return jnp.where(near & (along >= 0), along * offset, jnp.inf)

    def supported(self, l: ArrayLike) -> Array:
        unit, _ = self._unit(floating(l))
        return jnp.maximum(jnp.sum(unit * l), 0) * unit

    @staticmethod
    def examples() -> list[tuple[ConvexSet, Shape]]:
        a = np.array([[1.0, -2.0, 0.0], [0.5, 3.0, -1.0]])
        return [(HalfSpace(1, 1), (5,)), (HalfSpace(a, -2), (2, 3)), (HalfSpace(-a, 0), (2, 3))]


@SETS.register
class Free(ConvexSet):
    """The whole space: no constraint.

    >>> Free().project([-1.0, 5.0]).tolist()
    [-1.0, 5.0]
    """

    separable: ClassVar[bool] = True

    def _project(self, r: Array) -> Array:
        return r

    def _support(self, l: Array) -> Array:
        return jnp.where(jnp.all(l == 0), 0, jnp.inf)

    def supported(self, l: ArrayLike) -> Array:
        return jnp.zeros_like(floating(l))

    @staticmethod
    def examples() -> list[tuple[ConvexSet, Shape]]:
        return [(Free(), (4,)), (Free(), (2, 3)), (Free(), ())]
