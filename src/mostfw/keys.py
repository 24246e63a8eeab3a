"""Random keys whose numbers are JAX's own, had in one kernel on a CPU.

JAX's hash (Threefry, of 2 x 32 bits) is a loop of five turns on a CPU, each of some ten kernels: in
a step that takes 50 us, drawing takes a sixth. Written out, it becomes part of the kernel that uses
its bits; the bits are the same.

A key made of a key is stored. Else the compiler makes it again for every number drawn, and of keys
made of such keys jaxlib 0.11 writes out so many copies that it never ends.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.random import define_prng_impl

from . import trees

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
_WORDS = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}


def opened(key: Any) -> Any:
    """A key of which the hash is written out; unchanged where that is not faster.

    >>> import jax
    >>> from mostfw.keys import opened
    >>> key = jax.random.PRNGKey(3)
    >>> bool((jax.random.bits(opened(key), (9,)) == jax.random.bits(key, (9,))).all())
    True
    """
    ours = jax.default_backend() == "cpu" and jax.config.jax_threefry_partitionable  # pyright: ignore[reportAttributeAccessIssue]
    return jax.random.wrap_key_data(key, impl=_WRITTEN_OUT) if ours and _is_plain(key) else key


def plain(key: Any) -> Any:
    """The key as two words, as JAX's PRNGKey gives it: what functions of users are called with.

    >>> import jax
    >>> from mostfw.keys import opened, plain
    >>> plain(opened(jax.random.PRNGKey(3))).tolist()
    [0, 3]
    """
    return key if _is_plain(key) else jax.random.key_data(key)


def _is_plain(key: Any) -> bool:
    return not jnp.issubdtype(key.dtype, jax.dtypes.prng_key)


def _hashed(key: jax.Array, high: jax.Array, low: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The hash of the words of a counter."""
    words = (key[0], key[1], key[0] ^ key[1] ^ np.uint32(_PARITY))
    a, b = high + words[0], low + words[1]
    for turn in range(5):
        for bits in _ROTATIONS[turn % 2]:
            a = a + b
            b = a ^ ((b << np.uint32(bits)) | (b >> np.uint32(32 - bits)))
        a = a + words[(turn + 1) % 3]
        b = b + words[(turn + 2) % 3] + np.uint32(turn + 1)
    return a, b


def _counted(key: jax.Array, shape: tuple[int, ...]) -> tuple[jax.Array, jax.Array]:
    count = math.prod(shape)
    assert count < 2**32, "counters here have one word"
    low = lax.iota(np.uint32, count).reshape(shape)
    return _hashed(key, jnp.zeros_like(low), low)


def _split(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    return trees.stored(lambda: jnp.stack(_counted(key, shape), axis=-1))


def _fold_in(key: jax.Array, data: Any) -> jax.Array:
    low = jnp.asarray(data, np.uint32)
    return trees.stored(lambda: jnp.stack(_hashed(key, jnp.zeros_like(low), low)))


def _random_bits(key: jax.Array, width: int, shape: tuple[int, ...]) -> jax.Array:
    high, low = _counted(key, shape)
    if width == 64:
        return (high.astype(np.uint64) << np.uint64(32)) | low.astype(np.uint64)
    return (high ^ low).astype(_WORDS[width])


def _seed(seed: jax.Array) -> jax.Array:
    return jax.random.key_data(jax.random.key(seed))


_WRITTEN_OUT = define_prng_impl(
    key_shape=(2,),
    seed=_seed,
    split=_split,
    random_bits=_random_bits,
    fold_in=_fold_in,
    name="threefry2x32, written out",
    tag="fryo",
)
