"""The few verbs through which points are touched: a point is an array or a pytree of arrays."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Point = Any  # an array, or a pytree of arrays
Structure = Any  # the same tree with jax.ShapeDtypeStruct leaves


def inner(a: Point, b: Point) -> jax.Array:
    """<a, b>, summed over all leaves (Frobenius for matrices)."""
    products = jax.tree.map(lambda u, v: jnp.sum(u * v), a, b)
    return functools.reduce(jnp.add, jax.tree.leaves(products))


def norm(a: Point) -> jax.Array:
    """The norm of that inner product, scaled so that squares neither overflow nor vanish."""
    largest = functools.reduce(jnp.maximum, [_largest(leaf) for leaf in jax.tree.leaves(a)])
    safe = jnp.where(largest > 0, largest, 1)
    squares = [jnp.sum((leaf / safe) ** 2) for leaf in jax.tree.leaves(a)]
    return jnp.where(largest > 0, largest * jnp.sqrt(functools.reduce(jnp.add, squares)), largest)


def _largest(leaf: jax.Array) -> jax.Array:
    return jnp.max(jnp.abs(leaf)) if leaf.size else jnp.zeros((), leaf.dtype)


def scaled(c: Any, a: Point) -> Point:
    return jax.tree.map(lambda u: jnp.asarray(c, u.dtype) * u, a)


def plus(a: Point, c: Any, b: Point) -> Point:
    """a + c b."""
    return jax.tree.map(lambda u, v: u + jnp.asarray(c, u.dtype) * v, a, b)


def minus(a: Point, b: Point) -> Point:
    return jax.tree.map(jnp.subtract, a, b)


def zeros(structure: Structure) -> Point:
    return jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), structure)


def structure_of(a: Point) -> Structure:
    return jax.tree.map(lambda u: jax.ShapeDtypeStruct(jnp.shape(u), jnp.result_type(u)), a)


def dimension(structure: Structure) -> int:
    """How many numbers a point has (the paper's m)."""
    return sum(int(np.prod(s.shape)) for s in jax.tree.leaves(structure))


def symmetrised(a: Point) -> Point:
    """Each matrix leaf replaced by its symmetric part."""
    return jax.tree.map(lambda u: (u + u.T) / 2, a)


def describe(structure: Structure) -> str:
    """Shapes in words, for error messages: `(25, 25)`, or the tree of them."""
    shapes = jax.tree.map(lambda s: tuple(s.shape), structure)
    return str(shapes)
