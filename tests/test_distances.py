"""The distances computed when drawn are those of a stored matrix, which is never formed."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mostfw as fw
from mostfw.errors import InvalidInputError, ShapeError
from mostfw.objectives import Linear, SquaredDistances
from mostfw.problems.kmeans import squared_distances

BATCHES = [(None, "entries"), (7, "entries"), (0.3, "block")]


def points_of(n=6, features=3, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    return (5 + rng.standard_normal((n, features))).astype(dtype)


def pair(points, batch, sampling):
    """The objective from points, and the one from a stored matrix, on the device."""
    both = (
        SquaredDistances(points, batch, sampling),
        Linear(squared_distances(points), batch, sampling),
    )
    return jax.tree.map(jnp.asarray, both)


def symmetric_matrix(n, seed, dtype):
    x = np.random.default_rng(seed).standard_normal((n, n))
    return jnp.asarray(x + x.T, dtype)


@jax.jit
def answers(objective, x, y, key):
    """What an objective says of the whole, and of one draw where it is sampled."""
    whole = objective.whole_value(x), objective.value(x, None), objective.add_whole(y, 0.3, x, None)
    if objective.whole:
        return None, whole
    xi = objective.sample(key, objective.batch)
    message = objective.message((), xi, None)
    return xi, (*whole, message, objective.spread(y, 0.3, message, xi), objective.value(x, xi))


@pytest.mark.parametrize("dtype, rounding", [(np.float64, 1e-14), (np.float32, 5e-6)])
@pytest.mark.parametrize("batch, sampling", BATCHES)
@settings(max_examples=8)
@given(st.integers(0, 2**31 - 1))
def test_it_is_the_linear_form_of_the_distances(batch, sampling, dtype, rounding, seed):
    agree(points_of(6, 5, seed, dtype), batch, sampling, rounding, seed)


@pytest.mark.parametrize("shape", [(1, 1), (2, 1)])
def test_few_points_and_features(shape):
    for sampling in ("entries", "block"):
        agree(points_of(*shape), 1, sampling, 1e-14, 0)


def agree(points, batch, sampling, rounding, seed):
    both = pair(points, batch, sampling)
    told = [
        (o.batch, o.total, o.whole, o.symmetric, o.single, o.slots, o.scale(o.batch)) for o in both
    ]
    assert told[0] == told[1]
    n, dtype = len(points), points.dtype
    x, y = symmetric_matrix(n, seed, dtype), symmetric_matrix(n, seed + 1, dtype)
    (xi, got), (again, want) = (answers(o, x, y, jax.random.PRNGKey(seed)) for o in both)
    jax.tree.map(np.testing.assert_array_equal, xi, again)
    for ours, theirs in zip(got, want, strict=True):
        assert ours.dtype == theirs.dtype == dtype
        # the stored matrix is of points about 9 from the origin: its own rounding is the larger
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=rounding * 100 * n * n)
    if xi is not None and sampling == "entries":
        np.testing.assert_array_equal(both[0].slot(xi), both[1].slot(xi))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_distances_are_symmetric_with_a_zero_diagonal(dtype):
    points = points_of(30, 7, dtype=dtype)
    objective = SquaredDistances(points, 0.5, "block")
    everyone = jnp.arange(30)
    block, whole = objective.entries(everyone), objective.matrix
    rows, columns = np.indices((30, 30)).reshape(2, -1)
    drawn = SquaredDistances(points, 5).entries((rows, columns)).reshape(30, 30)
    for distances in (block, whole, drawn):
        np.testing.assert_array_equal(distances, distances.T)
        np.testing.assert_array_equal(np.diag(distances), 0)
    np.testing.assert_array_equal(block, drawn)
    np.testing.assert_allclose(whole, drawn, atol=1e3 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype, rounding", [(np.float64, 1e-13), (np.float32, 1e-5)])
def test_points_far_from_the_origin_lose_no_digits(dtype, rounding):
    """The products of these points are 10^8 times their distances."""
    points = np.array([[0, 0], [1, 0], [0, 2], [3, 1]]) + np.array([1e4, -1e4])
    want = squared_distances(points - points.mean(axis=0))
    objective = SquaredDistances(points.astype(dtype), 3)
    assert objective.points.dtype == dtype
    np.testing.assert_allclose(objective.matrix, want, atol=10 * rounding)
    x = symmetric_matrix(4, 0, dtype)
    assert float(objective.whole_value(x)) == pytest.approx(
        np.sum(want * np.asarray(x)), abs=100 * rounding
    )
    drawn = objective.entries((jnp.array([0, 1]), jnp.array([3, 2])))
    np.testing.assert_allclose(drawn, [10, 5], rtol=rounding)


def test_whole_numbers_become_floats():
    objective = SquaredDistances([[0], [1], [5]])
    assert objective.points.dtype == np.float64
    np.testing.assert_array_equal(objective.matrix, [[0, 1, 25], [1, 0, 16], [25, 16, 0]])


def mean_gradient(objective, draws, size):
    """The mean over all draws of what a step adds."""
    y = jnp.zeros((objective.side, objective.side))
    for xi in draws:
        y = objective.spread(y, 1.0, objective.message((), xi, None), xi)
    return y * objective.scale(size) / len(draws)


def test_drawn_entries_are_unbiased():
    points = points_of(4)
    objective = SquaredDistances(points, 1)
    draws = [(jnp.array([i]), jnp.array([j])) for i, j in itertools.product(range(4), repeat=2)]
    got = mean_gradient(objective, draws, 1)
    np.testing.assert_allclose(got, squared_distances(points), atol=1e-12)


def test_drawn_blocks_are_unbiased():
    points = points_of(4)
    objective = SquaredDistances(points, 4, "block")
    draws = [jnp.array(some) for some in itertools.permutations(range(4), 2)]
    got = mean_gradient(objective, draws, 4)
    np.testing.assert_allclose(got, squared_distances(points), atol=1e-12)


@pytest.mark.parametrize("batch, sampling", BATCHES)
def test_no_matrix_is_held(batch, sampling):
    problem = fw.problems.kmeans(points_of(50), 2, batch=batch, sampling=sampling)
    for made in (problem, problem.on_device()):
        assert isinstance(made.objective, SquaredDistances)
        assert sum(np.size(leaf) for leaf in jax.tree.leaves(made.objective)) == 50 * 3


@pytest.mark.parametrize("sampling", ["entries", "block"])
def test_more_entries_than_fit_32_bits(sampling):
    """Their matrix would take 29 GB."""
    points = points_of(60_000)
    objective = SquaredDistances(points, 100, sampling)
    assert objective.total == 3_600_000_000
    xi = objective.sample(jax.random.PRNGKey(0), objective.batch)
    rows, columns = np.meshgrid(xi, xi) if sampling == "block" else map(np.asarray, xi)
    assert rows.max() > 2**15
    want = np.sum((points[rows] - points[columns]) ** 2, axis=-1)
    np.testing.assert_allclose(objective.entries(xi), want, rtol=1e-12)


@pytest.mark.parametrize("sampling", ["entries", "block"])
def test_draws_and_values_need_no_room_for_matrices(sampling):
    """Neither for n x n numbers nor for the points of a draw."""
    objective, _ = pair(points_of(300, 60), 2000, sampling)

    def drawn(objective, key):
        return objective.message((), objective.sample(key, 2000), None)

    def room(function, *given):
        made = jax.jit(function).lower(objective, *given).compile()
        return made.memory_analysis().temp_size_in_bytes / 8

    x = jax.ShapeDtypeStruct((300, 300), np.float64)
    assert room(drawn, jax.random.PRNGKey(0)) < 2000 * 60 / 2
    assert room(SquaredDistances.whole_value, x) < 300 * 300 / 2
    assert room(lambda o: o.matrix) >= 300 * 300  # what is counted here is seen


@pytest.mark.parametrize(
    "points, error, said",
    [
        (np.ones(3), ShapeError, r"points of a SquaredDistances.*\(3,\): give one row a point"),
        (np.ones((2, 2, 2)), ShapeError, r"SquaredDistances.*\(2, 2, 2\)"),
        ([[1.0], [np.nan]], InvalidInputError, "points of a SquaredDistances.*1 entries are NaN"),
        ([["a"], ["b"]], InvalidInputError, "SquaredDistances.*real numbers"),
        ([[1.0], [1.0, 2.0]], InvalidInputError, "SquaredDistances.*ragged"),
        (np.zeros((0, 2)), InvalidInputError, "SquaredDistances.*empty"),
        ([[0.0], [1e200]], InvalidInputError, "SquaredDistances.*overflow float64"),
        (np.float32([[0.0], [1e25]]), InvalidInputError, "SquaredDistances.*overflow float32"),
    ],
)
def test_bad_points_are_refused(points, error, said):
    with pytest.raises(error, match=said):
        SquaredDistances(points)


def test_bad_settings_are_refused():
    with pytest.raises(InvalidInputError, match="sampling is 'rows': give 'entries' or 'block'"):
        SquaredDistances(points_of(), 3, "rows")
    with pytest.raises(InvalidInputError, match="a SquaredDistances objective's entries is 37"):
        SquaredDistances(points_of(), 37)
    with pytest.raises(InvalidInputError, match="a table needs sampling='entries'"):
        SquaredDistances(points_of(), 4, "block").slot(jnp.arange(2))
    with pytest.raises(ShapeError, match=r"of 6 points needs matrices of shape \(6, 6\).*\(5, 5\)"):
        fw.Problem(SquaredDistances(points_of()), fw.domains.Spectrahedron(5, trace=1.0))


def test_runs_are_those_with_a_stored_matrix():
    points = points_of(10, 2)
    points[:5] += 4
    ours = fw.problems.kmeans(points, 2, batch=7, sampling="entries", sign_weight=10.0)
    stored = Linear(squared_distances(points), batch=7)
    theirs = fw.Problem(stored, ours.domain, ours.constraints)
    found, wanted = (
        fw.solve(problem, "most-fw", iterations=50, seed=3, progress=False)
        for problem in (ours, theirs)
    )
    np.testing.assert_allclose(found.x, wanted.x, rtol=0, atol=1e-8)
    assert found.objective == pytest.approx(wanted.objective, rel=1e-8)
    assert found.violation == pytest.approx(wanted.violation, abs=1e-8)


# The norm of all of D, from the points


@settings(max_examples=60)
@given(
    st.integers(1, 40),
    st.one_of(st.integers(1, 6), st.integers(30, 90)),
    st.sampled_from([0.0, 1e-3, 1.0, 1e4]),
    st.sampled_from([0, 1, 3]),
    st.integers(0, 2**31 - 1),
)
def test_the_norm_of_the_whole_is_that_of_the_matrix(n, features, offset, copies, seed):
    """Clouds, clouds far from the origin, some points far from the others, and points twice."""
    rng = np.random.default_rng(seed)
    points = offset + rng.standard_normal((n, features)) * 10.0 ** rng.integers(-3, 4, (n, 1))
    points = np.concatenate([points, *[points[:1]] * copies])
    held = SquaredDistances(points).points
    exact = np.linalg.norm(((held[:, None] - held[None]) ** 2).sum(axis=2))
    assert float(SquaredDistances(points).whole_norm()) == pytest.approx(exact, rel=1e-12, abs=0)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("power", [-60, -20, 20, 30])
def test_powers_of_two_keep_the_digits_of_the_norm(power, dtype):
    points = points_of(30, 4, seed=3, dtype=dtype)
    plain = SquaredDistances(points).whole_norm()
    scaled = SquaredDistances(points * dtype(2.0**power)).whole_norm()
    assert scaled.dtype == dtype
    assert float(scaled) == float(plain) * 4.0**power


def test_equal_points_have_no_distances():
    assert float(SquaredDistances(np.full((7, 3), 0.1)).whole_norm()) == 0.0


def test_points_apart_by_a_rounding_have_their_norm():
    points = np.array([[1.0], [1.0 + 2.0**-52], [1.0]])
    assert float(SquaredDistances(points).whole_norm()) == 2 * 2.0**-104


def test_the_units_of_a_problem_form_no_distances(monkeypatch):
    """A method without parameters measures them, at any size: what else is n x n is the point."""
    posed = fw.problems.kmeans(points_of(40, 3), 2, batch=5)
    want = 2 * np.linalg.norm(squared_distances(points_of(40, 3)))  # atoms have the trace 2
    monkeypatch.setattr(SquaredDistances, "matrix", property(lambda _: pytest.fail("formed")))
    jax.clear_caches()
    assert float(fw.methods.most_fw().bind(posed).units.value) == pytest.approx(want, rel=1e-9)
