"""Where arrays live when a run has several devices: matrices by rows, all else on each device.

The rules are JAX's own shardings, and the compiler makes the collectives. Code that is traced asks
JAX's mesh context whether there is a mesh, and without one nothing here adds anything to a program.
The context is part of the key under which JAX keeps its programs; a variable of our own would not
be, and a program traced with a mesh might serve a run without.
"""

from __future__ import annotations

import abc
import dataclasses
import math
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from . import processes
from .errors import InvalidInputError, MostFWWarning
from .trees import Structure, describe

AXIS = "rows"
# Points with up to so many rows may be kept whole on every device, where these do not divide them:
# a step takes a millisecond or so, and to spread it would bring nothing.
LARGEST_WHOLE = 1024
BY_ROWS, WHOLE = PartitionSpec(AXIS), PartitionSpec()


def mesh_of(
    given: Mesh | int | None, structure: Structure, shares_work: bool = False
) -> Mesh | None:
    """The mesh that a user means: the first so many devices, or one with an axis "rows". Of several
    processes each gives as many. `shares_work`: whether there is something to share of a point that
    is whole everywhere, draws or directions.

    >>> import jax
    >>> from mostfw.placement import mesh_of
    >>> mesh_of(1, jax.ShapeDtypeStruct((4, 4), "float32")).axis_names
    ('rows',)
    """
    if given is None:
        return None
    mesh = given if isinstance(given, Mesh) else _of_devices(given)
    if mesh.axis_names != (AXIS,) or mesh.axis_types != (AxisType.Auto,):
        raise InvalidInputError(
            f"mesh has the axes {mesh.axis_names} of types {mesh.axis_types}: give one of a single "
            f"axis {AXIS!r} of type Auto, such as jax.sharding.Mesh(jax.devices(), ('rows',)), or "
            "the number of devices."
        )
    _check_processes(mesh)
    _check_sizes(mesh, structure, shares_work)
    return mesh


def _of_devices(count: Any) -> Mesh:
    total, several = jax.device_count(), jax.process_count()
    whole = isinstance(count, int | np.integer) and not isinstance(count, bool)
    if not whole or not 1 <= count <= total:
        raise InvalidInputError(
            f"mesh is {count!r}: give a number from 1 to {total}, which is how many devices "
            "there are here, or a jax.sharding.Mesh with the one axis 'rows'. (On a CPU, "
            "XLA_FLAGS=--xla_force_host_platform_device_count=8 makes 8 of it.)"
        )
    each, rest = divmod(int(count), several)
    own: dict[int, list[Any]] = {}
    for device in jax.devices():
        own.setdefault(device.process_index, []).append(device)
    if rest or each > min(map(len, own.values())):
        raise InvalidInputError(
            f"mesh is {count}, of which {several} processes cannot give the same number each: "
            f"give a multiple of {several}, up to {several * min(map(len, own.values()))}."
        )
    return Mesh(np.array([d for i in sorted(own) for d in own[i][:each]]), (AXIS,))


def _check_processes(mesh: Mesh) -> None:
    """Processes that a run leaves out would wait for it, or it for them."""
    inside = {device.process_index for device in mesh.devices.flat}
    if len(inside) not in (1, jax.process_count()) or jax.process_index() not in inside:
        raise InvalidInputError(
            f"mesh has devices of the processes {sorted(inside)}, of {jax.process_count()}: give "
            f"devices of all of them, or of this one (process {jax.process_index()}) alone."
        )


def _check_sizes(mesh: Mesh, structure: Structure, shares_work: bool) -> None:
    count, matrices = mesh.size, _matrices(structure)
    if not matrices and not shares_work:
        raise InvalidInputError(
            f"mesh is for points that are matrices, not of shape {describe(structure)}, or for "
            "objectives of samples and methods of values, whose work is shared: leave it out."
        )
    # JAX's shardings are even: an uneven output of a program comes out whole on every device. For
    # a small matrix that is as well: `rule` keeps it whole.
    for rows, *_ in matrices:
        if rows % count and rows <= LARGEST_WHOLE:
            with on(mesh):
                first = processes.first()
            if first:
                work = "they share draws or directions" if shares_work else "each makes all steps"
                warnings.warn(
                    f"mesh has {count} devices, which do not divide the {rows} rows of a point: "
                    f"it is kept whole on each of them, and {work}.",
                    MostFWWarning,
                    stacklevel=4,
                )
        elif rows % count:
            fits = max(d for d in range(1, count) if rows % d == 0)
            raise InvalidInputError(
                f"mesh has {count} devices, which do not divide the {rows} rows of a point: give "
                f"one whose number divides them, such as mesh={fits}. (Up to {LARGEST_WHOLE} rows "
                "a point would be kept whole on every device.)"
            )


def _matrices(structure: Structure) -> list[tuple[int, ...]]:
    return [tuple(leaf.shape) for leaf in jax.tree.leaves(structure) if len(leaf.shape) == 2]


def on(mesh: Mesh | None) -> AbstractContextManager[Any]:
    """The context in which programs are made for a mesh; None: nothing at all.

    >>> from mostfw.placement import active, on
    >>> with on(None):
    ...     active()
    False
    """
    return nullcontext() if mesh is None else jax.set_mesh(mesh)


def active() -> bool:
    """Whether there is a mesh here.

    >>> from mostfw.placement import active
    >>> active()
    False
    """
    return AXIS in jax.sharding.get_abstract_mesh().axis_names


def devices() -> int:
    """How many devices matrices are spread over here.

    >>> from mostfw.placement import devices
    >>> devices()
    1
    """
    return jax.sharding.get_abstract_mesh().shape[AXIS] if active() else 1


def spread(rows: int) -> bool:
    """Whether a matrix of so many rows is spread over devices here.

    >>> from mostfw.placement import spread
    >>> spread(64)
    False
    """
    return active() and rows % devices() == 0


def rule(shape: tuple[int, ...], structure: Structure) -> PartitionSpec:
    """By rows: what has the shape of a point's matrix, or one more axis or more behind it, or is
    such an array written out as a list (the tables of sampled rows). All else: whole; and so is all
    of a point whose rows the devices do not divide.

    >>> import jax
    >>> from mostfw.placement import rule
    >>> point = jax.ShapeDtypeStruct((4, 4), "float32")
    >>> [rule(shape, point) for shape in ((4, 4), (4, 4, 4), (16,), (4, 2), (4,), ())]
    [P('rows',), P('rows',), P('rows',), P(), P(), P()]
    """
    for matrix in _matrices(structure):
        if matrix[0] % devices():
            continue
        if tuple(shape[:2]) == matrix:
            return BY_ROWS
        entries = math.prod(matrix)
        if len(shape) == 1 and shape[0] in (entries, entries * matrix[0]):
            return BY_ROWS
    return WHOLE


def placed(tree: Any, structure: Structure) -> Any:
    """The arrays of a tree where they belong; without a mesh, where they are.

    >>> import jax, numpy as np
    >>> from mostfw.placement import mesh_of, on, placed
    >>> point = jax.ShapeDtypeStruct((2, 2), "float32")
    >>> with on(mesh_of(1, point)):
    ...     placed({"x": np.eye(2), "label": "a"}, point)["x"].sharding.spec
    P('rows',)
    """
    if not active():
        return tree
    is_array = lambda leaf: isinstance(leaf, np.ndarray | jax.Array | Rows)  # noqa: E731
    return jax.tree.map(lambda leaf: put(leaf, structure) if is_array(leaf) else leaf, tree)


def put(leaf: Any, structure: Structure, dtype: Any = None) -> Any:
    """One array where it belongs. Each device is given its rows only: the whole of a matrix may
    have room on none. An array that is there already stays."""
    if not active():
        return jnp.asarray(leaf, dtype)
    several = jax.sharding.get_mesh().is_multi_process
    if isinstance(leaf, jax.Array) and not (several and leaf.is_fully_addressable):
        leaf = leaf if dtype is None else leaf.astype(dtype)
        return jax.device_put(leaf, rule(leaf.shape, structure))
    if not isinstance(leaf, Rows):
        leaf = np.asarray(leaf, dtype)
    dtype = jax.dtypes.canonicalize_dtype(leaf.dtype if dtype is None else dtype)
    place = NamedSharding(jax.sharding.get_mesh(), rule(leaf.shape, structure))
    # Of several processes each makes its own part: `device_put` would compare the whole of them.
    return jax.make_array_from_callback(
        tuple(leaf.shape), place, lambda index: np.asarray(leaf[index]).astype(dtype, copy=False)
    )


class Rows(abc.ABC):
    """An array that is read a few rows at a time, for it may have room nowhere."""

    shape: tuple[int, ...]
    dtype: np.dtype

    @abc.abstractmethod
    def __getitem__(self, index: Any) -> np.ndarray: ...


def constrained(tree: Any, structure: Structure) -> Any:
    """The arrays of a traced tree, held to the places that they have between steps."""
    if not active():
        return tree
    held = lambda leaf: lax.with_sharding_constraint(leaf, rule(leaf.shape, structure))  # noqa: E731
    return jax.tree.map(held, tree)


def by_rows(array: jax.Array) -> jax.Array:
    """A traced matrix, kept by rows; or a vector of which each device makes its part."""
    if not active() or array.shape[0] % devices():
        return array
    return lax.with_sharding_constraint(array, BY_ROWS)


def whole(array: jax.Array) -> jax.Array:
    """A traced array, of which every device has the whole."""
    return lax.with_sharding_constraint(array, WHOLE) if active() else array


def shared(tree: Any, point: Any) -> Any:
    """The arrays of a traced minibatch: where every device has the whole of the point, each works
    on its part of the batch. One that the devices do not divide stays whole, too; and so does one
    that is seen along directions which devices share."""
    if not active() or _sharing.get() or not _everywhere(point):
        return tree
    return jax.tree.map(by_rows, tree)


def _everywhere(point: Any) -> bool:
    return all(rule(jnp.shape(leaf), point) == WHOLE for leaf in jax.tree.leaves(point))


_sharing: ContextVar[bool] = ContextVar("sharing", default=False)


@contextmanager
def sharing(point: Any) -> Iterator[None]:
    """What is traced in here may share its work, as `summed` and `listed` do, where every device
    has the whole of the point. (It depends on the mesh and on shapes alone, as programs do.)

    >>> from mostfw.placement import sharing, summed
    >>> with sharing(0.0):
    ...     summed(lambda first, last: sum(range(first, last)), 5)
    10
    """
    token = _sharing.set(active() and _everywhere(point))
    try:
        yield
    finally:
        _sharing.reset(token)


def summed(function: Callable[[Any, Any], Any], count: int) -> Any:
    """function(0, count), a sum over numbers from the first to before the last, of which each
    device makes its part where work is shared."""
    if not _sharing.get() or count == 1:
        return function(0, count)
    each = -(-count // devices())

    def own(first: jax.Array) -> Any:
        return function(jnp.minimum(first, count), jnp.minimum(first + each, count))

    parts = by_rows(jax.vmap(own)(by_rows(each * jnp.arange(devices()))))
    return whole(jnp.sum(parts, axis=0))


def listed(function: Callable[[jax.Array], jax.Array], count: int) -> jax.Array:
    """function(numbers) for 0, 1, ... before count, along the first axis, of which each device
    makes its part where work is shared.

    >>> from mostfw.placement import listed
    >>> listed(lambda numbers: numbers**2, 4).tolist()
    [0, 1, 4, 9]
    """
    if not _sharing.get() or count == 1:
        return function(jnp.arange(count))
    each = -(-count // devices())
    # the last ones more than once, where devices do not divide the count
    numbers = jnp.minimum(jnp.arange(devices() * each), count - 1).reshape(devices(), each)
    parts = by_rows(jax.vmap(function)(by_rows(numbers)))
    return whole(whole(parts).reshape(-1, *parts.shape[2:])[:count])


@dataclasses.dataclass(frozen=True)
class Collective:
    """What devices tell each other at one place of a compiled program."""

    kind: str
    shapes: tuple[tuple[int, ...], ...]  # of its results

    @property
    def largest(self) -> int:
        """The numbers in its largest array."""
        return max((math.prod(shape) for shape in self.shapes), default=0)


_COLLECTIVE = re.compile(
    r"= (\([^()]*\)|\S+) (all-gather|all-reduce|all-to-all|collective-permute|reduce-scatter|"
    r"collective-broadcast|ragged-all-to-all)(?:-start)?\(([^)]*)\)"
)
_SHAPE = re.compile(r"\b[a-z]+\d*\[([\d,]*)\]")


def collectives(text: str) -> Iterator[Collective]:
    """The collectives of a compiled program, from its text (`compiled.as_text()`).

    >>> from mostfw.placement import collectives
    >>> text = "%g = f64[64]{0} all-gather(f64[8]{0} %v), channel_id=1, dimensions={0}"
    >>> [(c.kind, c.largest) for c in collectives(text)]
    [('all-gather', 64)]
    >>> text = "%a = (f64[1,8]{1,0}, /*index=1*/f64[1,8]{1,0}) all-to-all(%u, %v), dimensions={0}"
    >>> [(c.kind, c.shapes) for c in collectives(text)]
    [('all-to-all', ((1, 8), (1, 8)))]
    """
    for found in _COLLECTIVE.finditer(text):
        sizes = [one.group(1) for one in _SHAPE.finditer(f"{found.group(1)} {found.group(3)}")]
        shapes = tuple(tuple(int(d) for d in size.split(",") if d) for size in sizes)
        yield Collective(found.group(2), shapes)
