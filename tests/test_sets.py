"""Contracts of every registered set, and references for the projections without a sort."""

import doctest
import functools
import re

import cvxpy as cp
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import mostfw.sets as sets_module
from mostfw.errors import InvalidInputError, ShapeError
from mostfw.sets import (
    SETS,
    Box,
    ConvexSet,
    Free,
    HalfSpace,
    L1Ball,
    L2Ball,
    Orthant,
    Point,
    Simplex,
    simplex_threshold,
)

EXAMPLES = [(name, example) for name, cls in SETS.items() for example in cls.examples()]
IDS = [f"{name}-{i}" for i, (name, _) in enumerate(EXAMPLES)]
every_example = pytest.mark.parametrize("name, example", EXAMPLES, ids=IDS)
separable_examples = pytest.mark.parametrize(
    "example", [example for _, example in EXAMPLES if example[0].separable and example[1]]
)

TOLERANCE = 1e-13  # times 1 + the size of the numbers: some hundred roundings


def points(shape, scales=(1e-3, 1.0, 30.0)):
    elements = st.floats(-1, 1, allow_subnormal=False)
    base = hnp.arrays(np.float64, shape, elements=elements)
    return st.tuples(base, st.sampled_from(scales)).map(lambda pair: np.asarray(pair[0] * pair[1]))


def norm(x):
    return float(np.linalg.norm(np.ravel(x)))


def inner(a, b):
    return float(np.sum(np.asarray(a) * np.asarray(b)))


def index_of(example):
    return next(i for i, (_, other) in enumerate(EXAMPLES) if other is example)


@functools.cache
def compiled(index, method):
    """One compilation for all the draws of a test."""
    convex_set, shape = EXAMPLES[index][1]
    if method == "at":
        return jax.jit(lambda indices, r: convex_set.at(indices, shape).project(r))
    # not jit of the bound method: JAX hashes that, and a set with arrays has no hash
    return jax.jit(lambda r: getattr(convex_set, method)(r))


def methods(example):
    index = index_of(example)
    return (
        lambda r: np.asarray(compiled(index, "project")(r)),
        lambda l: float(compiled(index, "support")(l)),
        lambda r: float(compiled(index, "distance")(r)),
    )


def excess(convex_set, s):
    """How far `s` breaks the definition of the set, written apart from the projection."""
    match convex_set:
        case Point(value=value):
            return np.max(np.abs(s - value))
        case Orthant(sign=sign):
            return max(0.0, -np.min(sign * s))
        case Box(lower=lower, upper=upper):
            return max(0.0, np.max(lower - s), np.max(s - upper))
        case L1Ball(radius=radius):
            return max(0.0, np.sum(np.abs(s)) - radius)
        case L2Ball(radius=radius, center=center):
            return max(0.0, norm(s - center) - radius)
        case Simplex(total=total):
            return max(0.0, -np.min(s), abs(np.sum(s) - total))
        case HalfSpace(normal=normal, offset=offset):
            return max(0.0, inner(normal * np.ones_like(s), s) - offset)
        case Free():
            return 0.0
    raise AssertionError(f"write a membership test for {type(convex_set).__name__}")


# ---------------------------------------------------------------- contracts of every set


def test_registry_holds_every_set_with_several_examples():
    here = [c for c in ConvexSet.__subclasses__() if c.__module__ == sets_module.__name__]
    assert {cls.__name__ for cls in here} <= set(SETS)
    assert all(len(cls.examples()) >= 3 for _, cls in SETS.items())


@every_example
@given(data=st.data())
def test_projection(name, example, data):
    convex_set, shape = example
    project, _, distance = methods(example)
    r, q = data.draw(points(shape)), data.draw(points(shape))
    p, s = project(r), project(q)
    tolerance = TOLERANCE * (1 + norm(r) + norm(q) + norm(p))
    assert p.shape == shape and p.dtype == r.dtype
    assert excess(convex_set, p) <= tolerance, "lands in the set"
    assert distance(p) <= tolerance
    assert norm(project(p) - p) <= tolerance, "idempotent"
    assert distance(r) == pytest.approx(norm(r - p), abs=tolerance)
    assert norm(p - s) <= norm(r - q) + tolerance, "nonexpansive"
    assert inner(r - p, s - p) <= tolerance * (1 + norm(r - p) + norm(s - p)), "nearest"
    if excess(convex_set, r) == 0:
        assert norm(p - r) <= tolerance, "leaves the points of the set alone"


@every_example
@given(data=st.data())
def test_support(name, example, data):
    project, support, _ = methods(example)
    r, q, l = (data.draw(points(example[1])) for _ in range(3))
    p, s = project(r), project(q)
    value = support(l)
    assert not np.isnan(value)
    assert inner(l, s) <= value + TOLERANCE * (1 + norm(l)) * (1 + norm(s))
    normal = r - p
    # a normal that is mostly rounding has no direction left to test
    assume(norm(normal) == 0 or norm(normal) > 1e-6 * (1 + norm(r)))
    tolerance = TOLERANCE * (1 + norm(r) + norm(p)) ** 2
    assert support(normal) == pytest.approx(inner(normal, p), abs=tolerance, rel=1e-13)


@separable_examples
@given(data=st.data())
def test_at_projects_gathered_entries(example, data):
    shape = example[1]
    r = data.draw(points(shape))
    whole = methods(example)[0](r)
    at = compiled(index_of(example), "at")
    flat = data.draw(hnp.arrays(np.int32, (4,), elements=st.integers(0, r.size - 1)))
    several = np.unravel_index(flat, shape)
    np.testing.assert_array_equal(at(flat, r.ravel()[flat]), whole.ravel()[flat])
    np.testing.assert_array_equal(at(several, r[several]), whole[several])


def test_at_gathers_full_arrays_without_a_shape_and_under_jit():
    lower, upper = np.arange(6.0).reshape(2, 3), np.arange(6.0).reshape(2, 3) + 1
    box = Box(lower, upper)
    r = jnp.full((2, 3), 2.5)
    flat = jnp.array([5, 0, 2])
    gathered = jax.jit(lambda i: box.at(i).project(r.ravel()[i]))(flat)
    np.testing.assert_array_equal(gathered, box.project(r).ravel()[flat])
    pair = (jnp.array([0, 1]), jnp.array([2, 0]))
    np.testing.assert_array_equal(box.at(pair).lower, [2.0, 3.0])
    assert Box(0.0, upper).at(pair).lower == 0.0, "numbers stay"


@pytest.mark.parametrize("convex_set", [L1Ball(1.0), L2Ball(1.0), Simplex(), HalfSpace(1.0, 0.0)])
def test_at_refuses_sets_that_are_no_product(convex_set):
    with pytest.raises(InvalidInputError, match=re.escape(f"{convex_set} is no product")):
        convex_set.at(jnp.array([0]))


@every_example
def test_dtype_follows_the_array(name, example):
    convex_set, shape = example
    as_arrays = jax.tree_util.tree_map(lambda p: np.asarray(p, np.float64), convex_set)
    for variant in (convex_set, as_arrays, jax.tree_util.tree_map(jnp.asarray, as_arrays)):
        for dtype in (jnp.float32, jnp.float64):
            r = jax.ShapeDtypeStruct(shape, dtype)
            for method in ("project", "support", "distance"):
                out = jax.eval_shape(lambda r, f=getattr(variant, method): f(r), r)
                assert out.dtype == dtype, method


@every_example
def test_jit_and_vmap(name, example):
    convex_set, shape = example
    r = np.random.default_rng(0).normal(size=(4, *shape)) * 3

    def both(convex_set, r):
        return convex_set.project(r), convex_set.support(r)

    expected = [both(convex_set, row) for row in r]
    batched = jax.jit(jax.vmap(both, in_axes=(None, 0)))(convex_set, r)  # parameters are traced
    for i, (p, value) in enumerate(expected):
        np.testing.assert_allclose(batched[0][i], p, rtol=1e-14, atol=1e-14)
        np.testing.assert_allclose(batched[1][i], value, rtol=1e-14)
    assert isinstance(str(convex_set), str)


def test_sets_can_be_made_from_traced_parameters():
    r = jnp.array([2.0, -1.0])
    made = jax.jit(lambda t: (L1Ball(t).project(r), Box(-t, t).project(r), Simplex(t).project(r)))
    np.testing.assert_allclose(made(1.0)[0], [1.0, 0.0], atol=1e-15)
    np.testing.assert_array_equal(made(1.5)[1], [1.5, -1.0])
    np.testing.assert_allclose(made(2.0)[2], [2.0, 0.0], atol=1e-15)
    radii = jnp.array([0.5, 1.0, 9.0])
    batch = jax.vmap(lambda radius: L2Ball(radius).project(r))(radii)
    np.testing.assert_allclose(jnp.linalg.norm(batch, axis=1), [0.5, 1.0, np.sqrt(5)], rtol=1e-14)


# ---------------------------------------------------------------- simplex and l1 ball


def simplex_by_sorting(a, total):
    """The textbook projection, in extended precision so that it can judge float64."""
    a = np.asarray(a, np.longdouble)
    a = a - a.max()
    descending = np.sort(a)[::-1]
    candidates = (np.cumsum(descending) - total) / np.arange(1, a.size + 1)
    active = np.flatnonzero(descending > candidates)
    theta = candidates[active[-1]] if active.size else np.longdouble(0)
    return np.maximum(a - theta, 0)


def l1_by_sorting(r, radius):
    r = np.asarray(r, np.longdouble)
    if np.abs(r).sum() <= radius:
        return r
    return np.sign(r) * simplex_by_sorting(np.abs(r), radius)


@pytest.mark.parametrize("dtype, tolerance", [(np.float64, 1e-14), (np.float32, 1e-5)])
@given(data=st.data())
def test_projections_agree_with_sorting(dtype, tolerance, data):
    size = data.draw(st.sampled_from([1, 2, 5, 40]))
    scale, total = (data.draw(st.sampled_from([1e-15, 1e-3, 1.0, 1e4, 1e15])) for _ in range(2))
    # few distinct values: ties
    elements = st.one_of(st.floats(-1, 1, allow_subnormal=False), st.sampled_from([0.0, 0.5, 1.0]))
    r = (data.draw(hnp.arrays(np.float64, size, elements=elements)) * scale).astype(dtype)
    exact_total = np.longdouble(dtype(total))
    p = np.asarray(Simplex(total).project(r))
    assert p.dtype == dtype
    np.testing.assert_allclose(p, simplex_by_sorting(r, exact_total), atol=tolerance * total)
    p = np.asarray(L1Ball(total).project(r))
    np.testing.assert_allclose(p, l1_by_sorting(r, exact_total), atol=tolerance * total)


@pytest.mark.parametrize("dtype, tolerance", [(np.float64, 1e-12), (np.float32, 1e-5)])
@pytest.mark.parametrize("total", [0.1, 100.0, 1e5])
@pytest.mark.parametrize("kind", ["normal", "heavy", "geometric", "ties"])
def test_many_values(dtype, tolerance, total, kind):
    generator = np.random.default_rng(1)
    values = {
        "normal": generator.normal(size=20_000),
        "heavy": generator.standard_cauchy(20_000),
        "geometric": -np.geomspace(1e-9, 1e9, 20_000),  # the slow case of active-set methods
        "ties": generator.integers(0, 3, 20_000) * 1.0,
    }[kind].astype(dtype)
    p = np.asarray(Simplex(total).project(values), np.float64)
    assert p.sum() == pytest.approx(total, rel=tolerance)
    reference = simplex_by_sorting(values, total)
    np.testing.assert_allclose(p, reference, atol=tolerance * float(reference.max()))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_extreme_scales(dtype):
    big, small = np.finfo(dtype).max / 4, np.finfo(dtype).tiny * 1e6
    one = np.asarray(Simplex(1.0).project(np.array([big, -big, big / 2], dtype)))
    np.testing.assert_array_equal(one, [1.0, 0.0, 0.0])
    tie = np.asarray(L1Ball(1.0).project(np.array([big, -big, 0.0], dtype)))
    np.testing.assert_array_equal(tie, [0.5, -0.5, 0.0])
    tiny = np.asarray(Simplex(float(small)).project(np.array([1.0, 1.0, 0.0], dtype)))
    np.testing.assert_allclose(tiny / small, [0.5, 0.5, 0.0], rtol=1e-5)
    zeros = np.asarray(Simplex(1.0).project(np.zeros(4, dtype)))
    np.testing.assert_array_equal(zeros, 0.25)
    np.testing.assert_array_equal(L1Ball(1.0).project(np.zeros(3, dtype)), 0.0)
    offset = np.asarray(Simplex(1.0).project(np.array([1e8, 1e8, 0.0], dtype)))
    np.testing.assert_array_equal(offset, [0.5, 0.5, 0.0])
    ball = np.asarray(L2Ball(5.0).project(np.array([3.0, 4.0], dtype) * (big / 8)))
    np.testing.assert_allclose(ball, [3.0, 4.0], rtol=1e-6)


@given(
    values=hnp.arrays(np.float64, st.sampled_from([1, 2, 7, 30]), elements=st.floats(-5, 5)),
    total=st.floats(0, 20),
    start=st.one_of(st.floats(-5, 5), st.none(), st.sampled_from([-np.inf, -1e6, np.inf])),
)
def test_threshold_solves_its_equation_from_any_start(values, total, start):
    theta = float(simplex_threshold(values, total, start))
    largest = values.max()
    assert largest - total - 1e-14 * (5 + total) <= theta <= largest
    gap = np.maximum(values - theta, 0).sum() - total
    assert abs(gap) <= 1e-15 * values.size * (10 + total)


def test_threshold_comes_back_from_a_start_far_above_the_root():
    values = np.append(1.0, np.zeros(1000))
    assert float(simplex_threshold(values, 5.0, 0.999)) == pytest.approx(-4 / 1001, rel=1e-13)


def test_threshold_takes_no_sort():
    jaxpr = str(
        jax.make_jaxpr(lambda v: (Simplex().project(v), L1Ball(1.0).project(v)))(np.ones(9))
    )
    assert "sort" not in jaxpr and "top_k" not in jaxpr and "while" in jaxpr


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["l1", "simplex", "box"])
def test_agrees_with_cvxpy(kind, seed):
    r = np.random.default_rng(seed).normal(size=12) * 2
    x = cp.Variable(12)
    lower = np.where(np.arange(12) % 3, -0.3, -1.0)
    convex_set, constraints = {
        "l1": (L1Ball(2.5), [cp.norm1(x) <= 2.5]),
        "simplex": (Simplex(1.5), [x >= 0, cp.sum(x) == 1.5]),
        "box": (Box(lower, 0.5), [x >= lower, x <= 0.5]),
    }[kind]
    cp.Problem(cp.Minimize(cp.sum_squares(x - r)), constraints).solve(solver=cp.CLARABEL)
    np.testing.assert_allclose(convex_set.project(r), x.value, atol=1e-5)  # Clarabel's accuracy


# ---------------------------------------------------------------- values known by hand


@pytest.mark.parametrize(
    "convex_set, l, value",
    [
        (Orthant(), [-1.0, 0.0], 0.0),
        (Orthant(), [-1.0, 1e-300], np.inf),
        (Orthant(-1), [1.0, 0.0], 0.0),
        (Orthant(-1), [1.0, -1e-300], np.inf),
        (Box(-np.inf, np.inf), [0.0, 0.0], 0.0),
        (Box(-np.inf, 2.0), [3.0, 0.0], 6.0),
        (Box(-np.inf, 2.0), [3.0, -1e-9], np.inf),
        (Box(0.0, np.inf), [-3.0, 0.0], 0.0),
        (Box([-1.0, -2.0], [4.0, np.inf]), [-3.0, -1.0], 5.0),
        (Box([-1.0, -2.0], [4.0, np.inf]), [2.0, 1.0], np.inf),
        (Point([2.0, -3.0]), [1.0, 1.0], -1.0),
        (L1Ball(2.0), [1.0, -3.0], 6.0),
        (L2Ball(2.0, [1.0, 0.0]), [3.0, 4.0], 13.0),
        (Simplex(2.0), [-1.0, -3.0], -2.0),
        (HalfSpace([3.0, 4.0], 10.0), [6.0, 8.0], 20.0),
        (HalfSpace([3.0, 4.0], 10.0), [-6.0, -8.0], np.inf),
        (HalfSpace([3.0, 4.0], 10.0), [6.0, 8.001], np.inf),
        (HalfSpace([3.0, 4.0], 10.0), [0.0, 0.0], 0.0),
        (Free(), [0.0, 0.0], 0.0),
        (Free(), [0.0, 1e-300], np.inf),
    ],
)
def test_support_values(convex_set, l, value):
    assert float(convex_set.support(np.array(l))) == pytest.approx(value, rel=1e-15)


@pytest.mark.parametrize(
    "convex_set, shape, value",
    [
        (Point(2.0), (3, 3), 6.0),
        (Point([[3.0, 4.0]]), (4, 2), 10.0),
        (Box(-np.inf, 2.0), (4,), 4.0),
        (Box([-np.inf, 3.0], [4.0, np.inf]), (2,), 5.0),
        (Box(3.0, 4.0), (2, 2), 10.0),
        (Orthant(), (4,), 0.0),
        (Free(), (4,), 0.0),
        (L1Ball(3.0), (4,), 3.0),
        (L2Ball(3.0, 7.0), (4,), 3.0),
        (Simplex(3.0), (2, 2), 3.0),
        (HalfSpace(2.0, -3.0), (4,), 3.0),
    ],
)
def test_rhs_norm(convex_set, shape, value):
    assert float(convex_set.rhs_norm(shape)) == pytest.approx(value, rel=1e-15)


@pytest.mark.parametrize(
    "convex_set, text",
    [
        (Box(0, 1), "Box(0, 1)"),
        (Box(-np.inf, np.zeros(3)), "Box(-inf, array of shape (3,))"),
        (Orthant(), "Orthant(>= 0)"),
        (Orthant(-1), "Orthant(<= 0)"),
        (Point(np.zeros(3)), "Point(array of shape (3,))"),
        (Simplex(), "Simplex(1)"),
        (Free(), "Free()"),
    ],
)
def test_text(convex_set, text):
    assert str(convex_set) == text


def test_parameters_keep_their_kind():
    array = np.array([1.0, 2.0])
    assert Point(array).value is array
    assert isinstance(Point(jnp.asarray(array)).value, jax.Array)
    for number in (1, 1.0, np.float32(1), True):
        assert type(Point(number).value) is float
    assert Point([1, 2]).value.dtype == np.float64
    assert Orthant(-1) == Orthant(-1.0) and not jax.tree_util.tree_leaves(Orthant(-1))
    assert eqx.tree_equal(Box(0, 1), Box(0.0, 1.0))
    assert Box(0.5, 0.75).project(jnp.array([0, 1])).tolist() == [0.5, 0.75], "integers convert"


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: Point(np.nan), "Point: value is nan; it must be finite"),
        (lambda: Point([1.0, np.inf]), r"Point: value is inf at flat position 1 \(1 such\)"),
        (lambda: Point(1j), "Point: value is 1j; it must be a real number"),
        (lambda: Point("one"), "Point: value is 'one'; it must be a real number"),
        (lambda: Orthant(0), "Orthant: sign is 0; it must be 1 for"),
        (lambda: Box(np.nan, 1.0), "Box: lower is nan; it must be a number, or -inf"),
        (lambda: Box(np.inf, np.inf), "Box: lower is inf"),
        (lambda: Box(0.0, -np.inf), "Box: upper is -inf; it must be a number, or inf"),
        (lambda: Box(0.0, jnp.array([1.0, jnp.nan])), "Box: upper is nan at flat position 1"),
        (lambda: Box(1.0, [2.0, 0.5]), "Box: lower 1.0 exceeds upper 0.5 at flat position 1; exch"),
        (lambda: L1Ball(-1.0), "L1Ball: radius is -1.0; it must be finite and >= 0"),
        (lambda: L1Ball(np.nan), "L1Ball: radius is nan"),
        (lambda: L2Ball(np.inf), "L2Ball: radius is inf.*use Free"),
        (lambda: L2Ball(1.0, np.inf), "L2Ball: center is inf"),
        (lambda: Simplex(-2.0), "Simplex: total is -2.0"),
        (lambda: HalfSpace([0.0, 0.0], 1.0), "HalfSpace: normal is 0.0.*not all zero"),
        (lambda: HalfSpace([1.0, np.nan], 1.0), "HalfSpace: normal is nan at flat position 1"),
        (lambda: HalfSpace(1.0, np.inf), "HalfSpace: offset is inf"),
    ],
)
def test_bad_parameters(make, words):
    with pytest.raises(InvalidInputError, match=words):
        make()


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: L1Ball([1.0, 2.0]), r"L1Ball: radius has shape \(2,\)"),
        (lambda: HalfSpace(1.0, [1.0]), r"HalfSpace: offset has shape \(1,\)"),
        (lambda: Box([0.0, 0.0], [1.0, 1.0, 1.0]), "Box: lower and upper must fit together"),
        (lambda: Point([1.0, 2.0]).check((3,)), r"value of shape \(2,\) does not .* to \(3,\)"),
        (lambda: Point([[1.0], [2.0]]).check((2,)), r"value of shape \(2, 1\) does not .* \(2,\)"),
        (lambda: Box(0.0, [1.0, 2.0]).check((1,)), r"upper of shape \(2,\) does not .* to \(1,\)"),
        (lambda: L2Ball(1.0, [1.0, 2.0]).project(np.ones(3)), r"L2Ball\(1.*center of shape"),
        (lambda: HalfSpace([1.0, 2.0], 0.0).support(np.ones(3)), "HalfSpace.*normal of shape"),
        (lambda: Point([1.0, 2.0]).rhs_norm((3,)), r"Point\(array.*value of shape \(2,\)"),
    ],
)
def test_shapes_that_do_not_fit(make, words):
    with pytest.raises(ShapeError, match=words):
        make()


@every_example
def test_check_accepts_its_shape(name, example):
    convex_set, shape = example
    convex_set.check(shape)
    convex_set.check((7, *shape))


def test_examples_in_docstrings():
    result = doctest.testmod(sets_module)
    assert result.attempted >= len(SETS) and result.failed == 0
