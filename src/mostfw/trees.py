"""The few verbs through which points are touched: a point is an array or a pytree of arrays."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Point = Any  # an array, or a pytree of arrays
Structure = Any  # the same tree with jax.ShapeDtypeStruct leaves


def inner(a: Point, b: Point) -> jax.Array:
    """<a, b>, summed over all leaves (Frobenius for matrices).

    >>> import jax.numpy as jnp
    >>> float(inner((jnp.ones(2), jnp.ones(3)), (jnp.ones(2), jnp.ones(3))))
    5.0
    """
    products = jax.tree.map(lambda u, v: jnp.sum(u * v), a, b)
    return functools.reduce(jnp.add, jax.tree.leaves(products))


def norm(a: Point) -> jax.Array:
    """The norm of that inner product, scaled so that squares neither overflow nor vanish.

    >>> import jax.numpy as jnp
    >>> float(norm(jnp.array([3.0, 4.0])))
    5.0
    """
    largest = functools.reduce(jnp.maximum, [_largest(leaf) for leaf in jax.tree.leaves(a)])
    safe = jnp.where(largest > 0, largest, 1)
    squares = [jnp.sum((leaf / safe) ** 2) for leaf in jax.tree.leaves(a)]
    return jnp.where(largest > 0, largest * jnp.sqrt(functools.reduce(jnp.add, squares)), largest)


def _largest(leaf: jax.Array) -> jax.Array:
    return jnp.max(jnp.abs(leaf)) if leaf.size else jnp.zeros((), leaf.dtype)


def normal(key: Any, structure: Structure) -> Point:
    """A point of independent normal numbers.

    >>> import jax, jax.numpy as jnp
    >>> normal(jax.random.PRNGKey(0), structure_of(jnp.zeros((2, 3)))).shape
    (2, 3)
    """
    leaves, tree = jax.tree.flatten(structure)
    keys = jax.random.split(key, len(leaves))
    drawn = [jax.random.normal(k, s.shape, s.dtype) for k, s in zip(keys, leaves, strict=True)]
    return jax.tree.unflatten(tree, drawn)


def scaled(c: Any, a: Point) -> Point:
    """c a, in the dtype of a.

    >>> import jax.numpy as jnp
    >>> scaled(2, jnp.ones(2)).tolist()
    [2.0, 2.0]
    """
    return jax.tree.map(lambda u: jnp.asarray(c, u.dtype) * u, a)


def plus(a: Point, c: Any, b: Point) -> Point:
    """a + c b.

    >>> import jax.numpy as jnp
    >>> plus(jnp.ones(2), 3, jnp.ones(2)).tolist()
    [4.0, 4.0]
    """
    return jax.tree.map(lambda u, v: u + jnp.asarray(c, u.dtype) * v, a, b)


def minus(a: Point, b: Point) -> Point:
    """a - b.

    >>> import jax.numpy as jnp
    >>> minus(jnp.ones(2), jnp.ones(2)).tolist()
    [0.0, 0.0]
    """
    return jax.tree.map(jnp.subtract, a, b)


def zeros(structure: Structure) -> Point:
    """The zero point of a structure.

    >>> import jax.numpy as jnp
    >>> zeros(structure_of(jnp.ones(2))).tolist()
    [0.0, 0.0]
    """
    return jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), structure)


def structure_of(a: Point) -> Structure:
    """The shapes and dtypes of a point.

    >>> import numpy as np
    >>> structure_of(np.ones((2, 3), np.float32)).shape
    (2, 3)
    """
    return jax.tree.map(lambda u: jax.ShapeDtypeStruct(jnp.shape(u), jnp.result_type(u)), a)


def dimension(structure: Structure) -> int:
    """How many numbers a point has (the paper's m).

    >>> import numpy as np
    >>> dimension((np.ones(2), np.ones((2, 2))))
    6
    """
    return sum(int(np.prod(s.shape)) for s in jax.tree.leaves(structure))


def symmetrised(a: Point) -> Point:
    """Each matrix leaf replaced by its symmetric part.

    >>> import jax.numpy as jnp
    >>> symmetrised(jnp.array([[0.0, 2.0], [0.0, 0.0]])).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    return jax.tree.map(lambda u: (u + u.T) / 2, a)


def add_symmetric(y: jax.Array, rows: Any, columns: Any, values: jax.Array) -> jax.Array:
    """y with values/2 added at (row, column) and at (column, row).

    >>> import jax.numpy as jnp
    >>> add_symmetric(jnp.zeros((2, 2)), jnp.array([0]), jnp.array([1]), jnp.array([2.0])).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    both = (jnp.concatenate([rows, columns]), jnp.concatenate([columns, rows]))
    return y.at[both].add(jnp.tile(values / 2, 2))


def describe(structure: Structure) -> str:
    """Shapes in words, for error messages.

    >>> import numpy as np
    >>> describe(structure_of({"a": np.ones((2, 3))}))
    "{'a': (2, 3)}"
    """
    shapes = jax.tree.map(lambda s: tuple(s.shape), structure)
    return str(shapes)


def replaced(module: Any, **fields: Any) -> Any:
    """A copy of a frozen module with some fields changed, static ones too.

    >>> from mostfw.schedules import Power
    >>> print(replaced(Power(2, shift=1), scale=3.0))
    3/(k+1)
    """
    unknown = set(fields) - {field.name for field in dataclasses.fields(module)}
    if unknown:
        raise TypeError(f"{type(module).__name__} has no fields {sorted(unknown)}")
    made = object.__new__(type(module))
    for field in dataclasses.fields(module):
        value = fields[field.name] if field.name in fields else getattr(module, field.name)
        object.__setattr__(made, field.name, value)
    if hasattr(made, "__check_init__"):
        made.__check_init__()
    return made


def after(read: jax.Array, numbers: jax.Array) -> jax.Array:
    """The numbers as they are, which the compiler cannot know before it has the others.

    No comparison of these is ever true. An array is written on where it stands only if all
    readings of it come before; where nothing says so, the compiler makes a copy.

    >>> import jax.numpy as jnp
    >>> from mostfw.trees import after
    >>> after(jnp.array([-1.0, jnp.nan]), jnp.array([2.0, 3.0])).tolist()
    [2.0, 3.0]
    """
    return jnp.where(read + jnp.abs(read) < read, jnp.zeros_like(numbers), numbers)


def stored(make: Callable[[], Any]) -> Any:
    """What `make` gives, made once: without this a compiler may make it wherever it is used.

    It is a branch that is always taken, which the compiler does not know.

    >>> import jax, jax.numpy as jnp
    >>> from mostfw.trees import stored
    >>> jax.jit(lambda x: stored(lambda: 2 * x))(jnp.ones(2)).tolist()
    [2.0, 2.0]
    """
    always = jax.lax.optimization_barrier(jnp.ones((), bool))
    return jax.lax.cond(always, make, lambda: zeros(jax.eval_shape(make)))
