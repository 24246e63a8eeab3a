"""Where arrays live when a run has several devices: matrices by rows, all else on each device.

The rules are JAX's own shardings, and the compiler makes the collectives. Code that is traced asks
JAX's mesh context whether there is a mesh, and without one nothing here adds anything to a program.
The context is part of the key under which JAX keeps its programs; a variable of our own would not
be, and a program traced with a mesh might serve a run without.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, Mesh, PartitionSpec

from .errors import InvalidInputError
from .trees import Structure, describe

AXIS = "rows"
BY_ROWS, WHOLE = PartitionSpec(AXIS), PartitionSpec()


def mesh_of(given: Mesh | int | None, structure: Structure) -> Mesh | None:
    """The mesh that a user means: the first so many local devices, or one with an axis "rows".

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
    if mesh.is_multi_process:
        raise InvalidInputError(
            "mesh has devices of several processes, which mostfw does not join yet: give devices "
            "of this one, jax.local_devices()."
        )
    _check_sizes(mesh.size, structure)
    return mesh


def _of_devices(count: Any) -> Mesh:
    devices = jax.local_devices()
    whole = isinstance(count, int | np.integer) and not isinstance(count, bool)
    if not whole or not 1 <= count <= len(devices):
        raise InvalidInputError(
            f"mesh is {count!r}: give a number from 1 to {len(devices)}, which is how many devices "
            "there are here, or a jax.sharding.Mesh with the one axis 'rows'. (On a CPU, "
            "XLA_FLAGS=--xla_force_host_platform_device_count=8 makes 8 of it.)"
        )
    return Mesh(np.array(devices[: int(count)]), (AXIS,))


def _check_sizes(count: int, structure: Structure) -> None:
    matrices = _matrices(structure)
    if not matrices:
        raise InvalidInputError(
            f"mesh is for points that are matrices, not of shape {describe(structure)}: leave it "
            "out."
        )
    # JAX's shardings are even: an uneven output of a program comes out whole on every device.
    for rows, *_ in matrices:
        if rows % count:
            fits = max(d for d in range(1, count) if rows % d == 0)
            raise InvalidInputError(
                f"mesh has {count} devices, which do not divide the {rows} rows of a point: give "
                f"one whose number divides them, such as mesh={fits}."
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


def rule(shape: tuple[int, ...], structure: Structure) -> PartitionSpec:
    """By rows: what has the shape of a point's matrix, or one more axis or more behind it, or is
    such an array written out as a list (the tables of sampled rows). All else: whole.

    >>> import jax
    >>> from mostfw.placement import rule
    >>> point = jax.ShapeDtypeStruct((4, 4), "float32")
    >>> [rule(shape, point) for shape in ((4, 4), (4, 4, 4), (16,), (4, 2), (4,), ())]
    [P('rows',), P('rows',), P('rows',), P(), P(), P()]
    """
    for matrix in _matrices(structure):
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
    is_array = lambda leaf: isinstance(leaf, np.ndarray | jax.Array)  # noqa: E731
    return jax.tree.map(lambda leaf: put(leaf, structure) if is_array(leaf) else leaf, tree)


def put(leaf: Any, structure: Structure, dtype: Any = None) -> Any:
    """One array where it belongs. Each device is given its rows only: the whole of a matrix may
    have room on none."""
    if not active():
        return jnp.asarray(leaf, dtype)
    if not isinstance(leaf, jax.Array):
        leaf = np.asarray(leaf, dtype)
        leaf = leaf.astype(jax.dtypes.canonicalize_dtype(leaf.dtype), copy=False)
    elif dtype is not None:
        leaf = leaf.astype(dtype)
    return jax.device_put(leaf, rule(leaf.shape, structure))


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
    r"= (\([^=]*?\)|\S+) (all-gather|all-reduce|all-to-all|collective-permute|reduce-scatter|"
    r"collective-broadcast|ragged-all-to-all)(?:-start)?\(([^)]*)\)"
)
_SHAPE = re.compile(r"\b[a-z]+\d*\[([\d,]*)\]")


def collectives(text: str) -> Iterator[Collective]:
    """The collectives of a compiled program, from its text (`compiled.as_text()`).

    >>> from mostfw.placement import collectives
    >>> text = "%g = f64[64]{0} all-gather(f64[8]{0} %v), channel_id=1, dimensions={0}"
    >>> [(c.kind, c.largest) for c in collectives(text)]
    [('all-gather', 64)]
    """
    for found in _COLLECTIVE.finditer(text):
        sizes = [one.group(1) for one in _SHAPE.finditer(f"{found.group(1)} {found.group(3)}")]
        shapes = tuple(tuple(int(d) for d in size.split(",") if d) for size in sizes)
        yield Collective(found.group(2), shapes)
