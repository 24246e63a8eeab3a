"""The linear assignment problem inside a compiled loop (the Birkhoff polytope's LMO)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax


def assign(cost: jax.Array) -> jax.Array:
    """The columns of a permutation that minimises sum_i cost[i, columns[i]].

    Shortest augmenting paths with potentials (Hungarian method), O(n^3): row after row enters,
    each by a Dijkstra search over columns whose inner work is one vector operation.

    >>> import numpy as np
    >>> from mostfw.assignment import assign
    >>> assign(np.array([[4.0, 1.0], [2.0, 3.0]])).tolist()
    [1, 0]
    """
    cost = jnp.asarray(cost)
    n = cost.shape[0]
    infinity = jnp.asarray(jnp.inf, cost.dtype)
    # Column n is a sentinel: the search for a new row starts there.
    row_of = jnp.full(n + 1, n, jnp.int32)  # n means free
    potentials = (jnp.zeros(n + 1, cost.dtype), jnp.zeros(n + 1, cost.dtype))
    padded = jnp.concatenate([cost, jnp.zeros((1, n), cost.dtype)])

    def insert(row: jax.Array, carry: tuple) -> tuple:
        u, v, row_of = carry
        row_of = row_of.at[n].set(row)
        search = (
            jnp.asarray(n, jnp.int32),
            jnp.full(n + 1, infinity),
            jnp.full(n + 1, n, jnp.int32),
            jnp.zeros(n + 1, bool),
            u,
            v,
        )

        def extend(state: tuple) -> tuple:
            column, reach, via, used, u, v = state
            used = used.at[column].set(True)
            reduced = padded[row_of[column]] - u[row_of[column]] - v[:n]
            better = ~used[:n] & (reduced < reach[:n])
            reach = reach.at[:n].set(jnp.where(better, reduced, reach[:n]))
            via = via.at[:n].set(jnp.where(better, column, via[:n]))
            open_reach = jnp.where(used, infinity, reach).at[n].set(infinity)
            following = jnp.argmin(open_reach).astype(jnp.int32)
            delta = open_reach[following]
            u = u.at[row_of].add(jnp.where(used, delta, 0))
            v = jnp.where(used, v - delta, v)
            reach = jnp.where(used, reach, reach - delta)
            return following, reach, via, used, u, v

        # NaN costs would search forever: every step marks a new column, so n + 1 steps suffice.
        def unfinished(state: tuple) -> jax.Array:
            column, _, _, used, _, _ = state
            return (row_of[column] != n) & ~jnp.all(used)

        column, _, via, _, u, v = lax.while_loop(unfinished, extend, search)

        def flip(state: tuple) -> tuple:
            column, row_of = state
            before = via[column]
            return before, row_of.at[column].set(row_of[before])

        _, row_of = lax.while_loop(lambda s: s[0] != n, flip, (column, row_of))
        return u, v, row_of

    _, _, row_of = lax.fori_loop(0, n, insert, (*potentials, row_of))
    columns = jnp.arange(n, dtype=jnp.int32)
    return jnp.zeros(n, jnp.int32).at[row_of[:n]].set(columns, mode="drop")
