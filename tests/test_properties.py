"""Property tests of every registered LMO and adjoint, over random and degenerate inputs."""

import functools

import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings

from mostfw import trees
from mostfw.domains import DOMAINS
from mostfw.maps import MAPS
from test_contracts import examples

KINDS = ["normal", "huge", "tiny", "ties", "sparse", "zero"]


def random_tree(structure, seed, kind):
    """Normal numbers, scaled, rounded to a few values, mostly zero, or all zero."""
    rng = np.random.default_rng(seed)

    def leaf(s):
        drawn = rng.standard_normal(s.shape)
        return {
            "normal": drawn,
            "huge": 1e100 * drawn,
            "tiny": 1e-100 * drawn,
            "ties": np.sign(drawn),
            "sparse": drawn * (rng.random(s.shape) < 0.2),
            "zero": 0 * drawn,
        }[kind]

    return jax.tree.map(leaf, structure)


@functools.cache
def compiled_lmo(index):
    domain = DOMAIN_EXAMPLES[index]

    @jax.jit
    def both(s, t):
        s, t = domain.tangent(s), domain.tangent(t)
        one, other = domain.lmo(s), domain.lmo(t)
        z, w = domain.dense(one.atom), domain.dense(other.atom)
        point = domain.move(w, one.atom, 0.3)
        return one.value, trees.inner(s, z), trees.inner(s, w), trees.inner(s, point), trees.norm(s)

    return both


DOMAIN_EXAMPLES = [param.values[0] for param in examples(DOMAINS)]
DOMAIN_NAMES = [param.id for param in examples(DOMAINS)]


@pytest.mark.parametrize("index", range(len(DOMAIN_EXAMPLES)), ids=DOMAIN_NAMES)
@settings(max_examples=20)
@given(seed=st.integers(0, 10**6), kind=st.sampled_from(KINDS), other=st.integers(0, 10**6))
def test_no_point_is_below_the_lmo(index, seed, kind, other):
    domain = DOMAIN_EXAMPLES[index]
    structure = domain.structure(jnp.float64)
    s, t = random_tree(structure, seed, kind), random_tree(structure, other, "normal")
    value, at_atom, at_other, at_mix, size = map(float, compiled_lmo(index)(s, t))
    slack = 1e-9 * size * max(1.0, domain.diameter)
    assert abs(value - at_atom) <= slack
    assert value <= at_other + slack
    assert value <= at_mix + slack
    assert np.isfinite(value)


@functools.cache
def compiled_map(index):
    linear_map, like, symmetric = MAP_EXAMPLES[index]
    structure = jax.tree.map(lambda a: jax.ShapeDtypeStruct(np.shape(a), jnp.float64), like)

    @jax.jit
    def both(x, u):
        x = trees.symmetrised(x) if symmetric else x
        image = linear_map.forward(x)
        u = u.reshape(-1)[: image.size].reshape(image.shape)
        if linear_map.symmetric and image.ndim == 2:
            u = trees.symmetrised(u)
        back = linear_map.adjoint(u, structure)
        return jnp.sum(image * u), trees.inner(x, back), trees.norm(x) * trees.norm(u)

    return structure, both


MAP_EXAMPLES = [param.values[0] for param in examples(MAPS)]
MAP_NAMES = [param.id for param in examples(MAPS)]


@pytest.mark.parametrize("index", range(len(MAP_EXAMPLES)), ids=MAP_NAMES)
@settings(max_examples=20)
@given(seed=st.integers(0, 10**6), kind=st.sampled_from(["normal", "ties", "sparse", "zero"]))
def test_adjoint_identity(index, seed, kind):
    structure, both = compiled_map(index)
    u = np.random.default_rng(seed + 1).standard_normal(1024)
    left, right, size = map(float, both(random_tree(structure, seed, kind), u))
    assert abs(left - right) <= 1e-11 * (1 + 10 * size)
