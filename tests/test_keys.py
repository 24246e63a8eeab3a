"""Keys whose hash is written out give the numbers that JAX gives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mostfw as fw
from mostfw.keys import opened, plain

DRAWS = {
    "bits of 8": lambda key: jax.random.bits(key, (5, 3), np.uint8),
    "bits of 64": lambda key: jax.random.bits(key, (7,), np.uint64),
    "integers": lambda key: jax.random.randint(key, (2, 31), 0, 1000),
    "normal": lambda key: jax.random.normal(key, (9,), np.float32),
    "uniform": lambda key: jax.random.uniform(key, ()),
    "order": lambda key: jax.random.permutation(key, 40),
    "split": lambda key: plain(jax.random.split(key, (2, 3))),
    "side by side": lambda key: jax.vmap(jax.random.uniform)(jax.random.split(key, 4)),
}


@pytest.mark.parametrize("name", DRAWS)
@given(seed=st.integers(0, 2**32 - 1), k=st.integers(0, 2**32 - 1))
def test_numbers_are_those_of_jax(name, seed, k):
    with jax.enable_x64(True):
        key = jax.random.fold_in(jax.random.PRNGKey(seed), jnp.uint32(k))
        other = jax.random.fold_in(opened(jax.random.PRNGKey(seed)), jnp.uint32(k))
        np.testing.assert_array_equal(DRAWS[name](other), DRAWS[name](key))


def test_a_user_s_sampler_gets_a_key_of_two_words():
    seen = []

    def sampler(key):
        seen.append((key.shape, key.dtype))
        return jax.random.normal(key, (2,))

    objective = fw.objectives.Sampled(lambda x, xi: jnp.sum((x - xi) ** 2), sampler, batch=3)
    fw.solve(fw.Problem(objective, fw.domains.Simplex(2)), "sfw", iterations=3, progress=False)
    assert set(seen) == {((2,), np.dtype(np.uint32))}


def test_a_key_made_of_keys_is_made_once():
    def drawn(key, keys):
        key = opened(key)
        for turn in range(keys):
            key = jax.random.split(jax.random.fold_in(key, turn))[1]
        return jax.random.normal(key, (9,))

    def size(keys):
        program = jax.jit(drawn, static_argnums=1).lower(jax.random.PRNGKey(0), keys)
        return program.compile().as_text().count(" xor(")

    sizes = [size(keys) for keys in (1, 2, 3, 4)]
    assert len(set(np.diff(sizes))) == 1, "each hash would be written out wherever it is used"
