"""Exact counters inside compiled loops.

32-bit integers overflow after 134 steps of 1% at N = 40,000, and 64-bit ones do not exist unless
x64 is on. So a counter is two words of 31 bits, put together on the host as a Python integer.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

_BITS = 31
_MASK = (1 << _BITS) - 1


def zero() -> jax.Array:
    return jnp.zeros(2, jnp.uint32)


def plus(counter: jax.Array, amount: Any, when: Any = True) -> jax.Array:
    """counter + amount, for a Python integer of any size or a traced one below 2^31.

    >>> from mostfw import counting
    >>> counting.total(counting.plus(counting.plus(counting.zero(), 10**12), 7))
    1000000000007
    """
    if isinstance(amount, int):
        high, low = np.uint32(amount >> _BITS), np.uint32(amount & _MASK)
    else:
        high, low = np.uint32(0), jnp.asarray(amount).astype(jnp.uint32)
    flag = jnp.asarray(when).astype(jnp.uint32)
    lower = counter[1] + flag * low
    carry = lower >> _BITS
    return jnp.stack([counter[0] + flag * high + carry, lower & _MASK])


def total(counter: Any) -> int:
    high, low = (int(word) for word in np.asarray(counter))
    return (high << _BITS) + low
