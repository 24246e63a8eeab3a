"""Eigenpairs and singular pairs against LAPACK, on the spectra that break eigensolvers."""

import doctest

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mostfw import linalg
from mostfw.errors import InvalidInputError, ShapeError
from mostfw.linalg import leading_singular_pair, smallest_eigenpair
from mostfw.operators import DenseMatrix, DenseSymmetric, MatrixOperator, SymmetricOperator

KEY = jax.random.key(7)
singular = eqx.filter_jit(leading_singular_pair)  # outside jit it would compile op by op
PATHS = pytest.mark.parametrize("dense_below", [0, 10_000], ids=["krylov", "dense"])


def rotation(n, seed=0):
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((n, n)))[0]


def with_spectrum(values, seed=0):
    q = rotation(len(values), seed)
    a = (q * np.asarray(values)) @ q.T
    return (a + a.T) / 2


def clustered(n, width):
    return with_spectrum(np.r_[-1 + width * np.arange(4), np.linspace(0, 1, n - 4)])


def gaussian(n, seed=0):
    g = np.random.default_rng(seed).standard_normal((n, n))
    return (g + g.T) / 2


def check_eigenpair(a, pair, tolerance):
    """Value, norm, honest residual, dtype: everything that an Eigenpair promises."""
    dtype = a.dtype
    eps = float(np.finfo(dtype).eps)
    exact = np.asarray(a, np.float64)
    largest = np.abs(exact).max() if exact.any() else 1.0
    exact = exact / largest
    eigenvalues = np.linalg.eigvalsh(exact)
    norm = np.abs(eigenvalues).max()
    rounding = 20 * len(a) * eps * norm
    vector = np.asarray(pair.vector, np.float64)
    value, residual = float(pair.value) / largest, float(pair.residual) / largest
    true_residual = np.linalg.norm(exact @ vector - value * vector)
    assert pair.value.dtype == pair.vector.dtype == pair.residual.dtype == dtype
    assert abs(np.linalg.norm(vector) - 1) <= 10 * eps
    assert abs(value - eigenvalues[0]) <= tolerance * norm + rounding
    assert abs(true_residual - residual) <= 1e-3 * true_residual + rounding
    assert true_residual <= tolerance * norm + rounding
    assert bool(pair.converged)


SPECTRA = {
    "zero": lambda n: np.zeros((n, n)),
    "identity": lambda n: np.eye(n),
    "minus identity": lambda n: -np.eye(n),
    "one at the end": lambda n: np.diag(np.eye(n)[-1]),
    "minus one at the end": lambda n: np.diag(-np.eye(n)[-1]),
    "zero at the end": lambda n: np.diag(1 - np.eye(n)[-1]),
    "rank 3": lambda n: with_spectrum(np.r_[np.zeros(n - 3), 1.0, 2.0, 3.0]),
    "negative rank 3": lambda n: with_spectrum(np.r_[np.zeros(n - 3), -1.0, -2.0, -3.0]),
    "cluster 1e-6": lambda n: clustered(n, 1e-6),
    "cluster 1e-10": lambda n: clustered(n, 1e-10),
    "all clustered": lambda n: with_spectrum(1 + 1e-10 * np.arange(n)),
    "repeated": lambda n: with_spectrum(np.r_[-np.ones(5), np.linspace(0, 1, n - 5)]),
    "two values": lambda n: with_spectrum(np.r_[-np.ones(n // 2), np.ones(n - n // 2)]),
    "graph laplacian": lambda n: n * np.eye(n) - np.ones((n, n)),
    "minus ones": lambda n: -np.ones((n, n)),
    "tridiagonal": lambda n: 2 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1),
    "huge gap": lambda n: with_spectrum(np.r_[-1e-4, np.zeros(n - 2), 1.0]),
}


@PATHS
@pytest.mark.parametrize("n", [1, 2, 12, 17, 40, 100])
def test_random_symmetric(n, dense_below):
    n = 300 if n == 100 and dense_below == 0 else n
    a = jnp.asarray(gaussian(n, n))
    pair = smallest_eigenpair(a, KEY, dense_below=dense_below)
    check_eigenpair(a, pair, 1e-6)
    assert (int(pair.matvecs) > 0) == (dense_below == 0)


@PATHS
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", SPECTRA)
def test_hard_spectra(name, dtype, dense_below):
    for n in (12, 40):
        a = jnp.asarray(SPECTRA[name](n).astype(dtype))
        tolerance = 1e-6 if dtype == np.float64 else 1e-4
        pair = smallest_eigenpair(a, KEY, tolerance=tolerance, dense_below=dense_below)
        check_eigenpair(a, pair, tolerance)


@PATHS
def test_tolerances(dense_below):
    a = jnp.asarray(gaussian(100))
    spent = []
    for tolerance in (1e-2, 1e-5, 1e-9, 1e-13, 0.0):
        pair = smallest_eigenpair(a, KEY, tolerance=tolerance, dense_below=dense_below)
        check_eigenpair(a, pair, tolerance)
        spent.append(int(pair.matvecs))
    assert spent == sorted(spent)


@PATHS
@pytest.mark.parametrize(
    ("dtype", "scale"),
    [(np.float64, s) for s in (1e-290, 1e-150, 1e-100, 1e100, 1e150, 1e290)]
    + [(np.float32, s) for s in (1e-30, 1e-15, 1e15, 1e30)],
)
def test_scales(dtype, scale, dense_below):
    tolerance = 1e-6 if dtype == np.float64 else 1e-4
    for a in (gaussian(40), SPECTRA["rank 3"](40), SPECTRA["minus one at the end"](40)):
        a = jnp.asarray((a * scale).astype(dtype))
        pair = smallest_eigenpair(a, KEY, tolerance=tolerance, dense_below=dense_below)
        check_eigenpair(a, pair, tolerance)
    b = jnp.asarray((np.random.default_rng(0).standard_normal((40, 70)) * scale).astype(dtype))
    check_singular(b, singular(b, KEY, tolerance=tolerance, dense_below=dense_below), tolerance)


def test_subnormal_and_not_finite_inputs_do_not_hang():
    a = jnp.full((20, 20), 1e-310)
    for dense_below in (0, 100):
        pair = smallest_eigenpair(a, KEY, dense_below=dense_below)
        assert np.isfinite(pair.value) and abs(np.linalg.norm(pair.vector) - 1) < 1e-12
        broken = smallest_eigenpair(a.at[0, 0].set(jnp.nan), KEY, dense_below=dense_below)
        assert not bool(broken.converged)


@pytest.mark.parametrize("tolerance", [1e-3, 1e-6])
def test_any_start_is_harmless(tolerance):
    n = 150
    values = np.linspace(-1, 1, n)
    q = rotation(n, 3)
    a = jnp.asarray(with_spectrum(values, 3))
    random = np.random.default_rng(0).standard_normal(n)
    starts = {
        "nothing": np.zeros(n),
        "wrong eigenvector": q[:, -1],
        "next eigenvector": 1e-200 * q[:, 1],
        "orthogonal": 1e200 * (random - q[:, 0] * (q[:, 0] @ random)),
        "orthogonal to fifty": q[:, 50:] @ (q[:, 50:].T @ random),
        "the answer": q[:, 0],
    }
    spent = {}
    for name, start in starts.items():
        pair = smallest_eigenpair(a, KEY, start=start, tolerance=tolerance)
        check_eigenpair(a, pair, tolerance)
        spent[name] = int(pair.matvecs)
    assert spent["the answer"] <= spent["nothing"]
    assert max(spent.values()) <= 1.5 * spent["nothing"]


LEVELS = [-1.0, -1 + 1e-9, -0.5, 0.0, 1e-14, 1e-3, 1.0]


@given(
    st.sampled_from([1, 12, 40]).flatmap(
        lambda n: st.lists(st.sampled_from(LEVELS), min_size=n, max_size=n)
    ),
    st.integers(0, 2**31),
    st.sampled_from([0, 1000]),
)
def test_property_spectra_with_repetitions(values, seed, dense_below):
    a = jnp.asarray(with_spectrum(values, seed))
    pair = smallest_eigenpair(a, jax.random.key(seed), dense_below=dense_below)
    check_eigenpair(a, pair, 1e-6)


@given(
    st.sampled_from([12, 40]),
    st.integers(-12, 0),
    st.integers(0, 2**31),
    st.sampled_from([0, 1000]),
    st.sampled_from([np.float32, np.float64]),
)
def test_property_graded_spectra(n, power, seed, dense_below, dtype):
    values = np.random.default_rng(seed).choice([-1, 1], n) * np.logspace(power, 0, n)
    a = jnp.asarray(with_spectrum(values, seed).astype(dtype))
    tolerance = 1e-6 if dtype == np.float64 else 1e-4
    pair = smallest_eigenpair(a, jax.random.key(seed), tolerance=tolerance, dense_below=dense_below)
    check_eigenpair(a, pair, tolerance)


def test_same_key_same_numbers():
    a = jnp.asarray(gaussian(90))
    first, second = (smallest_eigenpair(a, KEY) for _ in range(2))
    assert np.array_equal(first.vector, second.vector)


def test_budget_is_respected_and_reported():
    a = jnp.asarray(gaussian(100))
    pair = smallest_eigenpair(a, KEY, tolerance=1e-12, steps=12, restarts=2)
    assert int(pair.matvecs) == 12 + 2 * 8 and not bool(pair.converged)
    true = np.linalg.norm(a @ pair.vector - pair.value * pair.vector)
    assert np.isclose(true, pair.residual, rtol=1e-6)
    for steps in (2, 30):
        check_eigenpair(a, smallest_eigenpair(a, KEY, tolerance=1e-3, steps=steps), 1e-3)


class Counted(SymmetricOperator):
    """A diagonal operator that tells Python of every product."""

    entries: jax.Array
    calls: list = eqx.field(static=True)

    size = property(lambda self: self.entries.shape[0])
    dtype = property(lambda self: self.entries.dtype)

    def __hash__(self):
        return id(self)

    def matvec(self, v):
        jax.debug.callback(lambda: self.calls.append(1))
        return self.entries * v


class Calls(list):
    __hash__ = object.__hash__


class CountedMatrix(MatrixOperator):
    inner: DenseMatrix
    calls: list = eqx.field(static=True)

    shape = property(lambda self: self.inner.shape)
    dtype = property(lambda self: self.inner.dtype)

    def matvec(self, v):
        jax.debug.callback(lambda: self.calls.append(1))
        return self.inner.matvec(v)

    def rmatvec(self, u):
        jax.debug.callback(lambda: self.calls.append(1))
        return self.inner.rmatvec(u)


@pytest.mark.parametrize(
    "entries", [np.linspace(-1, 1, 150), np.zeros(150), np.ones(150), np.r_[np.zeros(149), 1.0]]
)
def test_products_are_counted_exactly(entries):
    calls = Calls()
    pair = smallest_eigenpair(Counted(jnp.asarray(entries), calls), KEY)
    jax.block_until_ready(pair)
    jax.effects_barrier()
    assert len(calls) == int(pair.matvecs) > 0
    if np.unique(entries).size <= 2:  # an invariant space ends the search at the first look
        assert len(calls) == 2 * linalg.LOOK_EVERY


@pytest.mark.parametrize("shape", [(80, 120), (9, 5)])
def test_products_with_a_matrix_are_counted_exactly(shape):
    calls = Calls()
    b = DenseMatrix(jnp.asarray(np.random.default_rng(0).standard_normal(shape)))
    pair = leading_singular_pair(CountedMatrix(b, calls), KEY)
    jax.block_until_ready(pair)
    jax.effects_barrier()
    assert len(calls) == int(pair.matvecs) > 0
    assert int(singular(b, KEY, dense_below=10_000).matvecs) == 0


def test_inside_a_compiled_loop_with_traced_tolerance():
    n = 90

    @jax.jit
    def run(a, tolerance):
        def body(i, carry):
            a, vector, worst = carry
            pair = smallest_eigenpair(
                a, jax.random.fold_in(KEY, i), start=vector, tolerance=tolerance
            )
            worst = jnp.maximum(worst, jnp.abs(pair.value - jnp.linalg.eigvalsh(a)[0]))
            return a + jnp.outer(pair.vector, pair.vector), pair.vector, worst

        return jax.lax.fori_loop(0, 30, body, (a, jnp.zeros(n), 0.0))[2]

    assert run(jnp.asarray(gaussian(n)), 1e-7) <= 1e-6


@PATHS
def test_vmap(dense_below):
    a = jnp.stack(
        [jnp.asarray(gaussian(12, s)) for s in range(3)] + [jnp.zeros((12, 12)), jnp.eye(12)]
    )
    keys = jax.random.split(KEY, len(a))
    pairs = jax.vmap(lambda a, k: smallest_eigenpair(a, k, dense_below=dense_below))(a, keys)
    for i in range(len(a)):
        check_eigenpair(a[i], jax.tree.map(lambda leaf, i=i: leaf[i], pairs), 1e-6)
    pairs = jax.vmap(lambda a, k: leading_singular_pair(a, k, dense_below=dense_below))(a, keys)
    for i in range(len(a)):
        check_singular(a[i], jax.tree.map(lambda leaf, i=i: leaf[i], pairs), 1e-6)


def check_singular(b, pair, tolerance):
    eps = float(np.finfo(b.dtype).eps)
    largest = float(np.abs(b).max()) or 1.0
    exact = np.asarray(b, np.float64) / largest
    norm = np.linalg.norm(exact, 2)
    rounding = 20 * max(b.shape) * eps * norm
    value, residual = float(pair.value) / largest, float(pair.residual) / largest
    left, right = np.asarray(pair.left, np.float64), np.asarray(pair.right, np.float64)
    back = np.linalg.norm(exact.T @ left - value * right)
    forth = np.linalg.norm(exact @ right - value * left)
    assert pair.value.dtype == pair.left.dtype == pair.right.dtype == b.dtype
    assert left.shape == b.shape[:1] and right.shape == b.shape[1:]
    assert abs(np.linalg.norm(left) - 1) <= 10 * eps
    assert abs(np.linalg.norm(right) - 1) <= 10 * eps
    assert abs(value - norm) <= tolerance * norm + rounding
    assert max(back, forth) <= tolerance * norm + rounding
    assert max(back, forth) <= 1.001 * residual + rounding
    assert bool(pair.converged)


@PATHS
@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((1, 1), np.float64),
        ((6, 1), np.float64),
        ((40, 70), np.float64),
        ((70, 40), np.float32),
        ((90, 110), np.float64),
    ],
)
def test_singular_pairs(shape, dtype, dense_below):
    rng = np.random.default_rng(1)
    tolerance = 1e-6 if dtype == np.float64 else 1e-4
    u, v = rng.standard_normal(shape[0]), rng.standard_normal(shape[1])
    matrices = [rng.standard_normal(shape), np.zeros(shape), np.outer(u, v), np.eye(*shape)]
    for b in matrices:
        b = jnp.asarray(b.astype(dtype))
        check_singular(
            b,
            singular(b, KEY, tolerance=tolerance, dense_below=dense_below),
            tolerance,
        )
        warm = singular(b, KEY, start=(u, v), tolerance=tolerance, dense_below=dense_below)
        check_singular(b, warm, tolerance)


def test_default_dense_of_an_operator():
    pair = smallest_eigenpair(Counted(jnp.arange(5.0) - 2, Calls()), KEY)
    assert np.isclose(pair.value, -2) and int(pair.matvecs) == 0
    assert np.array_equal(DenseSymmetric(jnp.eye(3)).dense(), np.eye(3))


def test_integers_are_accepted_and_nonsense_is_not():
    assert np.isclose(smallest_eigenpair(np.array([[2, 1], [1, 2]]), KEY).value, 1)
    with pytest.raises(ShapeError):
        smallest_eigenpair(jnp.ones((2, 3)), KEY)
    with pytest.raises(ShapeError):
        smallest_eigenpair(jnp.eye(3), KEY, start=jnp.ones(2))
    with pytest.raises(ShapeError):
        leading_singular_pair(jnp.ones(3), KEY)
    with pytest.raises(InvalidInputError):
        smallest_eigenpair(jnp.eye(3) * 1j, KEY)
    with pytest.raises(InvalidInputError):
        smallest_eigenpair(jnp.eye(3), KEY, steps=1)


def test_docstrings():
    results = [doctest.testmod(module) for module in (linalg._pairs, linalg._search)]
    assert sum(r.attempted for r in results) >= 8 and not any(r.failed for r in results)
