"""Counters equal closed forms, and the calls that a black box really receives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mostfw as fw
from common import (
    clustering_problem,
    cut_problem,
    logistic_problem,
    snapshot_samples,
    spider_samples,
)
from mostfw import counting

K = 37
B, C = 5, 11  # batches of objective and constraints
ENTRIES, TRIANGLES = 64, 8 * 7 * 6 // 2


def counts(name, problem, iterations=K, **parameters):
    method = fw.methods.get(name, **parameters)
    return fw.solve(problem, method, iterations=iterations, progress=False).counts


@pytest.mark.parametrize(
    "name, gradients, constraints",
    [
        ("hfw", ENTRIES * K, 0),
        ("shcgm", B * K, 0),
        ("most-fw", B * (2 * K - 1), 0),
        ("h1-sfw", B * K, C * K),
        ("most-fw+", B * (2 * K - 1), C * (2 * K - 1)),
        ("h-sag-cgm", B * K, C * K),
        ("h-spider-fw", spider_samples(ENTRIES, K), spider_samples(TRIANGLES, K)),
    ],
)
def test_constrained_methods(name, gradients, constraints):
    sampled = fw.methods.get(name).constraints == "sampled"
    found = counts(name, cut_problem(batch=B, constraint_batch=C if sampled else None))
    assert (found.gradients, found.constraints) == (gradients, constraints)
    assert (found.values, found.lmo, found.lmo_skipped) == (0, K, 0)


@pytest.mark.parametrize(
    "name, expected, parameters",
    [
        ("sfw", 3 * K, {}),
        ("1-sfw", 3 * (K + K - 2), {}),  # weights 1, 1, 1/2, ...: one point in the first two steps
        ("1-sfw", 3 * (K + K - 2), {"hessian": True}),
        ("orgfw", 3 * (2 * K - 1), {}),
        ("saga-fw", 3 * K, {}),
        ("spider-fw", spider_samples(40, K), {}),
        ("svrf", snapshot_samples(40, K, 4), {"growth": 4}),
    ],
)
def test_unconstrained_methods(name, expected, parameters):
    found = counts(name, logistic_problem(batch=3), **parameters)
    assert found.gradients == expected


D = 5


@pytest.mark.parametrize(
    "oracle, a_point",
    [
        (fw.oracles.CGE(), 2 * D),
        (fw.oracles.KWSA(), D + 1),
        (fw.oracles.RDSA(), 2),
        (fw.oracles.IRDSA(directions=3), 4),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, int) else "",
)
def test_zeroth_order(oracle, a_point):
    single, batch = logistic_problem(batch=1), logistic_problem(batch=3)
    assert counts("zo-sfw", single, oracle=oracle).values == a_point * K
    assert counts("zo-sfw", batch, oracle=oracle).values == 3 * a_point * K
    assert counts("zo-most-fw", single, oracle=oracle).values == a_point * (2 * K - 1)
    assert counts("zo-fw", batch, oracle=oracle).values == 40 * a_point * K
    assert counts("zo-fw", batch, oracle=oracle).gradients == 0


@pytest.mark.parametrize("name", ["zo-most-fw", "zo-sfw", "zo-fw"])
@pytest.mark.parametrize("oracle", [fw.oracles.CGE(), fw.oracles.RDSA()], ids=["CGE", "RDSA"])
def test_a_black_box_is_called_as_often_as_counted(name, oracle):
    calls = []

    def outside(x, xi):
        calls.append(1)
        return np.asarray(np.sum((x - xi) ** 2), x.dtype)

    def black_box(x, xi):
        shape = jax.ShapeDtypeStruct((), x.dtype)
        return jax.pure_callback(outside, shape, x, xi, vmap_method="sequential")

    domain = fw.domains.L1Ball(3, 1.0)
    if name == "zo-fw":
        objective = fw.objectives.Smooth(lambda x: black_box(x, jnp.zeros(3)))
    else:
        objective = fw.objectives.Sampled(
            black_box,
            lambda key: jax.random.normal(key, (3,)),
            whole=lambda x: jnp.sum(x**2) + 3,  # so that evaluation does not call the box
        )
    method = fw.methods.get(name, oracle=oracle)
    result = fw.solve(fw.Problem(objective, domain), method, iterations=9, progress=False)
    evaluations = 1 + len(result.history) if name == "zo-fw" else 0  # the records, and compiling
    assert len(calls) - evaluations == result.counts.values


def test_trimmed_calls_and_skips_add_up():
    found = counts("t-most-fw", clustering_problem(batch=B), mu_c=2.0, tau_0=100.0)
    assert found.lmo + found.lmo_skipped == K
    assert 0 < found.lmo_skipped < K


def test_counters_do_not_overflow_32_bits():
    counter = counting.zero()
    expected = 0
    for amount in (2**31 - 1, 16_000_000, 10**10, 2**31 - 1, 1):
        counter, expected = counting.plus(counter, amount), expected + amount
    counter = counting.plus(counter, jnp.asarray(2**31 - 1, jnp.int32))
    counter = counting.plus(counter, 12345, when=jnp.asarray(False))
    assert counting.total(counter) == expected + 2**31 - 1
