"""Smallest eigenpairs by products alone: a Krylov basis with thick restarts."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array

from .. import placement
from ..operators import SymmetricOperator, dot
from ._pairs import Accuracy, Eigenpair, nonzero, norm_of, unit

# 12 to 32 basis vectors need the same number of products within a tenth on random matrices; 16 is
# the smallest that does not fall behind on hard ones. A restart needs several Ritz vectors, which
# take long on a GPU, and with 24 the directions of a run rarely need one.
STEPS = 24
# The basis is looked at when it has 8, 12, 16, ... vectors. Looks every 2 or 3 steps save a tenth
# of the products and cost that much; before 8 the start's luck decides too often. The steps between
# looks are of a fixed number, so that an accelerator need not ask the host after each.
LOOK_EVERY = 4
RESTARTS = 200
# Where a search that used them up must go on by itself, so many more: 24,000 products in all.
RESTARTS_BEYOND = 1000
# Norm of the random part of the starting direction beside a given start of norm 1. It must be
# large: from a start near the second smallest eigenvector the residual is small before the smallest
# shows. Of 60 such searches (n = 500, tolerance 1e-3 or 1e-4, gap 0.002 or 0.004 of the norm) 52 to
# 60 ended wrong with a share of 0.03, 3 to 60 with 0.3, 0 to 4 with 10, 0 to 3 with no start at
# all. The price: a perfect start saves 10 to 20% of the products (80% with 0.03).
RANDOM_SHARE = 10.0


class _Search(NamedTuple):
    """The Krylov path's state; numbers are in units of `scale`."""

    basis: Array  # (steps + 2, n): orthonormal rows, the next direction, then anything finite
    projected: Array  # (steps + 1, steps + 1): V A V', the rest anything finite
    used: Array  # basis vectors that have been multiplied
    coupling: Array  # norm of what the last product had outside the basis
    norm: Array  # lower bound of the operator's norm: the largest ||A v|| or |Ritz value| seen
    scale: Array  # the largest entry of the first product, so that squares cannot overflow
    matvecs: Array
    restarts: Array
    mixture: Array  # (steps, keep): the lowest Ritz vectors in terms of the basis, at the last look
    value: Array
    residual: Array


def _reach(small: Array) -> Array:
    """A bound on the absolute values of a matrix's eigenvalues: the largest row."""
    return jnp.max(jnp.sum(jnp.abs(small), axis=1))


def _lowest(keep: int, small: Array, filled: Array) -> Array:
    """Eigenvectors of the `keep` smallest eigenvalues of a matrix's filled part, as columns."""
    beyond = 1 + _reach(small)  # so that what is not filled comes last
    small = small + jnp.diag(jnp.where(filled, 0, beyond))
    mixture = lax.linalg.eigh(small, symmetrize_input=False)[0][:, :keep]
    # On a GPU the float32 vectors of the small problem are orthonormal only to 2e-6, and that
    # would add up over the restarts: one Newton step squares the error.
    return 1.5 * mixture - 0.5 * dot(mixture, dot(mixture.T, mixture))


def _lowest_quickly(keep: int, small: Array, filled: Array) -> Array:
    """The first of these columns, the others 0, by squaring the matrix turned about 2^12 times.

    On a GPU `eigh` of 16 x 16 takes as long as 20 products with a matrix of side 1000. This takes
    under a third; what it does not resolve is part of the residual that is looked at.
    """
    power = jnp.diag(jnp.where(filled, _reach(small), 0)) - small
    for _ in range(4):
        power = power / nonzero(jnp.max(jnp.abs(power)))
        for _ in range(3):
            power = dot(power, power)
    column = power[:, jnp.argmax(jnp.diagonal(power))]
    return jnp.zeros((small.shape[0], keep), small.dtype).at[:, 0].set(unit(column))


@eqx.filter_jit
def smallest_krylov(
    operator: SymmetricOperator, key: Array, start: Array | None, tolerance: Accuracy, limits: Any
) -> Eigenpair:
    """`limits`: vectors of the basis, restarts, and restarts beyond these, of which one is a
    fallback."""
    n, dtype, (steps, restarts, beyond) = operator.size, operator.dtype, limits
    keep = max(1, min(LOOK_EVERY, steps // 3))
    floor = 4 * jnp.finfo(dtype).eps
    direction = unit(jax.random.normal(key, (n,), dtype))
    if start is not None:
        direction = unit(unit(start) + RANDOM_SHARE * direction)
    direction = placement.whole(direction)

    # A coupling of rounding size means that the basis spans an invariant space. It contains an
    # eigenvector of the smallest eigenvalue, for the start had a random part: (A - value) u = 0
    # gives |Ritz value - value| <= coupling / |<start, u>|. So there is nothing left to do: steps
    # that remain before the next look make their products and change nothing.
    def extend(_: Any, s: _Search) -> _Search:
        more = (s.coupling > floor * s.norm) & (s.used < steps)
        # of a matrix by rows each device has its part of the product: here they are put together
        product = placement.whole(operator.matvec(placement.whole(s.basis[s.used])))
        scale = jnp.where(s.matvecs == 0, nonzero(jnp.max(jnp.abs(product))), s.scale)
        rest, row = product / scale, jnp.zeros(steps + 2, dtype)
        # A restart leaves old vectors behind; they have no part in the new basis.
        mine = (jnp.arange(steps + 2) <= s.used).astype(dtype)
        for _ in range(2):  # the second pass removes the rounding errors of the first
            part = mine * dot(s.basis, rest)
            rest, row = rest - dot(part, s.basis), row + part
        coupling = norm_of(rest)
        seen = jnp.sqrt(jnp.sum(row * row) + coupling**2)
        return s._replace(
            basis=placement.whole(s.basis.at[s.used + 1].set(rest / nonzero(coupling))),
            projected=s.projected.at[s.used].set(row[:-1]).at[:, s.used].set(row[:-1]),
            used=s.used + more,
            coupling=jnp.where(more, coupling, s.coupling),
            norm=jnp.where(more, jnp.maximum(s.norm, seen), s.norm),
            scale=scale,
            matvecs=s.matvecs + 1,
        )

    def restart(s: _Search) -> _Search:
        """The lowest Ritz vectors, then the next direction, as the first rows of the basis."""
        low = dot(s.mixture.T, dot(s.projected[:steps, :steps], s.mixture))
        kept = dot(s.mixture.T, s.basis[:steps])
        return s._replace(
            basis=placement.whole(s.basis.at[keep].set(s.basis[steps]).at[:keep].set(kept)),
            projected=jnp.pad(low, (0, steps + 1 - keep)),
            used=jnp.int32(keep),
            restarts=s.restarts + 1,
        )

    def look(s: _Search) -> _Search:
        """The lowest Ritz pair: quickly, or in full where a restart needs more than one."""
        filled = jnp.arange(steps) < s.used
        inside = filled[:, None] & filled[None, :]
        small = jnp.where(inside, s.projected[:steps, :steps], 0)
        last = (s.used == steps) | (s.coupling <= floor * s.norm)
        ways = partial(_lowest, keep), partial(_lowest_quickly, keep)
        mixture = lax.cond(last, *ways, small, filled)
        lowest = mixture[:, 0]
        image = dot(small, lowest)
        value = jnp.sum(lowest * image)
        outside = s.coupling * lowest[s.used - 1]
        return s._replace(
            norm=jnp.maximum(s.norm, jnp.abs(value)),
            mixture=mixture,
            value=value,
            residual=jnp.sqrt(jnp.sum((image - value * lowest) ** 2) + outside**2),
        )

    def cycle(s: _Search) -> _Search:
        seen = s.residual < jnp.inf  # a small basis is full before the first look
        s = lax.cond((s.used == steps) & seen, restart, lambda s: s, s)
        return look(lax.fori_loop(0, LOOK_EVERY, extend, s))

    zero, none = jnp.zeros((), dtype), jnp.int32(0)
    first = _Search(
        basis=placement.whole(jnp.zeros((steps + 2, n), dtype).at[0].set(direction)),
        projected=jnp.zeros((steps + 1, steps + 1), dtype),
        used=none,
        coupling=zero + jnp.inf,
        norm=zero,
        scale=zero + 1,
        matvecs=none,
        restarts=none,
        mixture=jnp.zeros((steps, keep), dtype),
        value=zero,
        residual=zero + jnp.inf,
    )

    def unfinished(s: _Search) -> Array:  # of NaN there is nothing to be had: it compares false
        may = (s.used < steps) | (s.restarts < restarts + beyond)
        # after a look at an invariant space nothing would change any more
        may = may & (s.coupling > floor * s.norm)
        first = s.matvecs == LOOK_EVERY  # one look there is always, so that NaN shows in the value
        return first | (may & (s.residual > tolerance.over(s.scale).allowed(s.norm)))

    s = lax.while_loop(unfinished, cycle, lax.fori_loop(0, LOOK_EVERY, extend, first))
    vector = placement.whole(unit(dot(s.mixture[:, 0], s.basis[:steps])))
    # the formula for the residual does not know of the products' own rounding
    residual = jnp.maximum(s.residual, jnp.finfo(dtype).eps * s.norm)
    converged = residual <= tolerance.over(s.scale).allowed(s.norm)
    value, residual = s.value * s.scale, residual * s.scale
    fallbacks = (s.restarts > restarts).astype(jnp.int32)
    return Eigenpair(value, vector, residual, s.matvecs, converged, fallbacks)
