"""Atoms: what a linear minimisation oracle returns, kept factored.

An atom is a vertex of the domain (or a point of its boundary). Storing n x n numbers for a
rank-one matrix, or n numbers for one coordinate, would cost more than the step itself, so each
kind keeps its factors and knows how to move a point towards itself.
"""

from __future__ import annotations

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp


class Atom(eqx.Module):
    """A point z of the domain, in factored form."""

    @abc.abstractmethod
    def dense(self) -> jax.Array:
        """z as an array."""

    def move(self, x: jax.Array, eta: Any) -> jax.Array:
        """x + eta (z - x), in one pass over x where the factors allow it."""
        eta = jnp.asarray(eta, x.dtype)
        return (1 - eta) * x + eta * self.dense()


class RankOneSymmetric(Atom):
    """z = scale v v'.

    >>> import jax.numpy as jnp, mostfw as fw
    >>> fw.atoms.RankOneSymmetric(jnp.array([1.0, 0.0]), jnp.array(2.0)).dense().tolist()
    [[2.0, 0.0], [0.0, 0.0]]
    """

    vector: jax.Array
    scale: jax.Array

    def dense(self) -> jax.Array:
        return (self.scale * self.vector)[:, None] * self.vector[None, :]

    def move(self, x: jax.Array, eta: Any) -> jax.Array:
        return self.move_rows(x, self.vector, eta)

    def move_rows(self, rows: jax.Array, ends: jax.Array, eta: Any) -> jax.Array:
        """`move` of some rows of x, with the entries `ends` of the vector that belong to them."""
        eta = jnp.asarray(eta, rows.dtype)
        # sqrt(scale) on both sides keeps z exactly symmetric in floating point
        root = jnp.sqrt(jnp.maximum(eta * self.scale, 0))
        return (1 - eta) * rows + (root * ends)[:, None] * (root * self.vector)[None, :]


class RankOne(Atom):
    """z = scale u v'.

    >>> import jax.numpy as jnp, mostfw as fw
    >>> fw.atoms.RankOne(jnp.ones(1), jnp.array([1.0, 2.0]), jnp.array(3.0)).dense().tolist()
    [[3.0, 6.0]]
    """

    left: jax.Array
    right: jax.Array
    scale: jax.Array

    def dense(self) -> jax.Array:
        return (self.scale * self.left)[:, None] * self.right[None, :]


class Sparse(Atom):
    """z is zero but for `values` at the flat positions `indices`.

    >>> import jax.numpy as jnp, mostfw as fw
    >>> fw.atoms.Sparse(jnp.array([1]), jnp.array([2.0]), (3,)).dense().tolist()
    [0.0, 2.0, 0.0]
    """

    indices: jax.Array
    values: jax.Array
    shape: tuple[int, ...] = eqx.field(static=True)

    def dense(self) -> jax.Array:
        return self._added(jnp.zeros(self.shape, self.values.dtype), 1)

    def move(self, x: jax.Array, eta: Any) -> jax.Array:
        eta = jnp.asarray(eta, x.dtype)
        return self._added((1 - eta) * x, eta)

    def _added(self, x: jax.Array, c: Any) -> jax.Array:
        return x.reshape(-1).at[self.indices].add(c * self.values).reshape(self.shape)


class Permutation(Atom):
    """The permutation matrix with a one at (i, columns[i]).

    >>> import jax.numpy as jnp, mostfw as fw
    >>> fw.atoms.Permutation(jnp.array([1, 0]), jnp.array(1.0)).dense().tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """

    columns: jax.Array
    one: jax.Array  # a scalar 1 that carries the dtype

    def dense(self) -> jax.Array:
        n = self.columns.shape[0]
        return jnp.zeros((n, n), self.one.dtype).at[jnp.arange(n), self.columns].set(self.one)


class Dense(Atom):
    """z as it is.

    >>> import jax.numpy as jnp, mostfw as fw
    >>> fw.atoms.Dense(jnp.ones(2)).move(jnp.zeros(2), 0.5).tolist()
    [0.5, 0.5]
    """

    value: jax.Array

    def dense(self) -> jax.Array:
        return self.value


def is_atom(node: Any) -> bool:
    """Whether a node of a tree is an atom.

    >>> import jax.numpy as jnp, mostfw as fw
    >>> fw.atoms.is_atom(fw.atoms.Dense(jnp.ones(2))), fw.atoms.is_atom(jnp.ones(2))
    (True, False)
    """
    return isinstance(node, Atom)


def move(x: Any, atoms: Any, eta: Any) -> Any:
    """x + eta (z - x) for a tree of atoms and the matching tree of arrays.

    >>> import jax.numpy as jnp, mostfw as fw
    >>> fw.atoms.move((jnp.zeros(1),), (fw.atoms.Dense(jnp.ones(1)),), 0.25)[0].tolist()
    [0.25]
    """
    return jax.tree.map(lambda atom, leaf: atom.move(leaf, eta), atoms, x, is_leaf=is_atom)


def dense(atoms: Any) -> Any:
    """A tree of atoms as a tree of arrays.

    >>> import jax.numpy as jnp, mostfw as fw
    >>> fw.atoms.dense((fw.atoms.Dense(jnp.ones(1)),))[0].tolist()
    [1.0]
    """
    return jax.tree.map(lambda atom: atom.dense(), atoms, is_leaf=is_atom)
