"""What cannot work is refused by name, with the value and the remedy, before any iteration where
it can be known then: never a traceback of JAX, never a NaN as a result."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse

import mostfw as fw
from mostfw import constraints, domains, graphs, maps, methods, objectives, problems, sets
from mostfw.cli import main

NAN, INF = float("nan"), float("inf")
SQUARE = np.eye(3)


def spoiled(value, array=SQUARE):
    array = np.array(array, dtype=float)
    array[0, 1] = array[1, 0] = value
    return array


def ring(n=5):
    shifted = np.roll(np.eye(n), 1, axis=1)
    return shifted + shifted.T


def over_simplex(objective=None, rules=(), **options):
    objective = objectives.Linear(np.array([3.0, 1.0])) if objective is None else objective
    return fw.Problem(objective, domains.Simplex(2), rules, **options)


def rule(G=np.ones((4, 2)), X=None, **options):
    return constraints.Affine(G, sets.Box(0.0, 1.0) if X is None else X, **options)


def cases(*given):
    """(label, what to call, error, words of its message) as parameters."""
    return pytest.mark.parametrize(
        ("call", "error", "words"), [pytest.param(*rest, id=label) for label, *rest in given]
    )


INVALID, SHAPE = fw.InvalidInputError, fw.ShapeError


def refused(call, error, words):
    with pytest.raises(error, match=words) as caught:
        call()
    assert isinstance(caught.value, fw.MostFWError)
    return caught.value


def loss(x, row):
    return jnp.dot(row, x) ** 2


@cases(
    (
        "linear-nan",
        lambda: objectives.Linear(spoiled(NAN)),
        INVALID,
        "Linear.*2 entries are NaN.*clean",
    ),
    (
        "linear-inf",
        lambda: objectives.Linear(spoiled(INF)),
        INVALID,
        "Linear.*2 entries are NaN or infinite",
    ),
    (
        "points",
        lambda: problems.kmeans(spoiled(NAN), 2),
        INVALID,
        "the points: 2 entries are NaN.*index .0, .*drop",
    ),
    (
        "finite-sum",
        lambda: objectives.FiniteSum(loss, spoiled(NAN)),
        INVALID,
        "FiniteSum.*2 entries are NaN",
    ),
    (
        "factor",
        lambda: problems.covariance(factor=spoiled(INF)),
        INVALID,
        "factor.*2 entries are NaN or inf",
    ),
    (
        "vectors",
        lambda: objectives.Covariance(data=spoiled(NAN)),
        INVALID,
        "data.*2 entries are NaN",
    ),
    ("adjacency", lambda: graphs.as_graph(spoiled(NAN, ring())), INVALID, "adjacency.*NaN"),
    ("dense-g", lambda: rule(spoiled(NAN)), INVALID, "matrix G.*NaN"),
    ("sparse-g", lambda: rule(scipy.sparse.csr_array(spoiled(INF))), INVALID, "matrix G.*NaN"),
    ("optimum", lambda: over_simplex(optimum=NAN), INVALID, "optimum is nan: give a finite number"),
)
def test_data_that_are_not_finite(call, error, words):
    refused(call, error, words)


@cases(
    ("not-square", lambda: graphs.as_graph(np.ones((4, 5))), SHAPE, r"\(4, 5\).*square"),
    (
        "sparse-not-square",
        lambda: graphs.as_graph(scipy.sparse.csr_array(np.ones((4, 5)))),
        SHAPE,
        r"\(4, 5\), not square",
    ),
    (
        "not-symmetric",
        lambda: problems.sparsest_cut(np.triu(ring())),
        INVALID,
        r"not symmetric: use \(A \+ A.T\)/2",
    ),
    (
        "block-not-symmetric",
        lambda: objectives.Linear(np.triu(np.ones((4, 4))), batch=4, sampling="block"),
        INVALID,
        "block.*symmetric",
    ),
    (
        "negative-weights",
        lambda: problems.sparsest_cut(spoiled(-1.0, ring())),
        INVALID,
        "2 negative weights.*at least 0",
    ),
    ("two-nodes", lambda: problems.sparsest_cut(ring(2) / 2), INVALID, "2 nodes.*needs 3"),
    ("no-graph", lambda: graphs.as_graph(object()), INVALID, "square matrix, a list of edges"),
    ("points-1d", lambda: problems.kmeans(np.ones(3), 1), SHAPE, r"\(3,\): give one row a point"),
    ("factor-1d", lambda: problems.covariance(factor=np.ones(3)), SHAPE, r"\(3,\): two axes"),
    (
        "ragged-data",
        lambda: objectives.FiniteSum(loss, {"a": np.ones(3), "b": np.ones(4)}),
        SHAPE,
        r"first axes \[\(3,\), \(4,\)\]",
    ),
    (
        "matrix-c",
        lambda: over_simplex(objectives.Linear(np.ones(3))),
        SHAPE,
        r"C.*\(3,\), but points of the domain have \(2,\)",
    ),
    (
        "covariance-size",
        lambda: fw.Problem(objectives.Covariance(data=SQUARE), domains.Spectrahedron(2, 1.0)),
        SHAPE,
        r"3 dimensions.*\(3, 3\)",
    ),
)
def test_matrices_and_graphs_that_do_not_fit(call, error, words):
    refused(call, error, words)


def test_a_disconnected_graph_says_its_components():
    pieces = np.kron(np.eye(2), ring(4))[:7, :7]  # a ring of 4 and a path of 3
    error = refused(
        lambda: problems.sparsest_cut(pieces),
        fw.DisconnectedGraphError,
        r"2 components \(sizes 4, 3\).*solve each",
    )
    assert error.components == [[0, 1, 2, 3], [4, 5, 6]]


def test_self_loops_are_dropped_with_a_warning():
    with pytest.warns(fw.MostFWWarning, match="5 self loops were dropped"):
        graph = graphs.as_graph(ring() + np.eye(5))
    assert np.array_equal(graph.adjacency.toarray(), ring())


@pytest.mark.parametrize("clusters", [0, -1, 4, 1.5, NAN, "2"])
def test_clusters(clusters):
    refused(
        lambda: problems.kmeans(SQUARE, clusters),
        INVALID,
        f"clusters is {clusters!r}: give a whole number from 1 to 3",
    )


@pytest.mark.parametrize("trace", [0, -1.0, NAN, INF, "one", None])
def test_trace_bound(trace):
    refused(
        lambda: domains.Spectrahedron(3, trace=trace),
        INVALID,
        f"trace bound of a Spectrahedron is {trace!r}: give a finite number above 0",
    )


@pytest.mark.parametrize(
    ("batch", "words"),
    [
        (0, "give at least 1 and at most 16"),
        (-1, "give at least 1 and at most 16"),
        (17, "give at least 1 and at most 16"),
        (NAN, r"a fraction is in \(0, 1\]"),
        (1.5, r"a fraction is in \(0, 1\]"),
        (0.0, r"a fraction is in \(0, 1\]"),
        (True, "give a fraction or a count"),
        ("all", "give a fraction or a count"),
    ],
)
def test_batch(batch, words):
    said = f"is {batch!r}: {words}"
    refused(lambda: objectives.Linear(np.eye(4), batch=batch), INVALID, "entries " + said)
    refused(lambda: objectives.FiniteSum(loss, np.eye(16), batch=batch), INVALID, "data " + said)
    rows = rule(np.ones((16, 2)), batch=batch, name="capacity")
    refused(lambda: over_simplex(rules=rows), INVALID, "'capacity' " + said)


def test_a_stream_has_no_fraction():
    words = "fraction 0.5.*give a count"
    refused(lambda: problems.covariance(5, batch=0.5), INVALID, words)
    refused(lambda: objectives.Online(loss, [], batch=0.5), INVALID, words)
    refused(lambda: problems.covariance(5, batch=None), INVALID, "None.*needs a count")


@cases(
    (
        "unknown",
        lambda: methods.get("most-fvv"),
        fw.UnknownNameError,
        "'most-fvv'. Did you mean 'most-fw'",
    ),
    ("not-a-name", lambda: methods.get(3), fw.UnknownNameError, "unknown method '3'.*Known: sfw"),
    (
        "unknown-in-solve",
        lambda: fw.solve(over_simplex(), "svfr"),
        fw.UnknownNameError,
        "Did you mean 'svrf'",
    ),
    (
        "not-a-method",
        lambda: fw.solve(over_simplex(), methods.sfw),
        INVALID,
        "method is a function: give a name, a mostfw.Method",
    ),
    ("not-a-problem", lambda: fw.solve(3, "sfw"), INVALID, "needs a mostfw.Problem, got a int"),
    ("parameter", lambda: methods.get("most-fw", mu=1.0), INVALID, "no parameter 'mu'.*mu_c"),
    (
        "no-parameters",
        lambda: methods.get("spider-fw", mu_c=1.0),
        INVALID,
        "'mu_c': it takes lmo_tol",
    ),
    ("untrimmed-tau", lambda: methods.get("most-fw", tau_0=1.0), INVALID, "no parameter 'tau_0'"),
    ("tau-negative", lambda: methods.get("t-most-fw", tau_0=-1), INVALID, "tau_0 is -1"),
    ("tau", lambda: methods.get("t-most-fw", tau_0=-1.0), INVALID, "tau_0 is -1.0.*at least 0"),
    (
        "trimming-test",
        lambda: methods.get("t-most-fw", test="guess"),
        INVALID,
        "test is 'guess'.*norm.*bound",
    ),
    (
        "trimming-relative-bound",
        lambda: methods.get("t-most-fw", test="bound"),
        INVALID,
        "reads no direction.*give tau_0",
    ),
    ("b", lambda: methods.get("most-fw+", b=0.0), INVALID, "exponent b.*0.0.*above 0"),
    ("step", lambda: methods.get("sfw", step=-1.0), INVALID, "step is -1.0.*above 0"),
    ("exponent", lambda: methods.get("orgfw", exponent=NAN), INVALID, "exponent.*nan.*above 0"),
    ("growth", lambda: methods.get("svrf", growth=0), INVALID, "growth is 0.*at least 1"),
    (
        "kind",
        lambda: fw.Method(
            name="own",
            tracker=fw.trackers.Exact(),
            step_size=fw.schedules.Power(1),
            constraints="some",
        ),
        INVALID,
        "'some': give one of none, whole, sampled",
    ),
    (
        "no-smoothing",
        lambda: fw.Method(
            name="own",
            tracker=fw.trackers.Exact(),
            step_size=fw.schedules.Power(1),
            constraints="whole",
        ),
        INVALID,
        "'own' handles constraints: give smoothing=",
    ),
)
def test_methods_and_their_parameters(call, error, words):
    refused(call, error, words)


@pytest.mark.parametrize("mu_c", [0, -1.0, NAN, INF, "1.5"])
@pytest.mark.parametrize("name", ["hfw", "most-fw", "zo-most-fw+", "h-sag-cgm"])
def test_mu_c(name, mu_c):
    refused(lambda: methods.get(name, mu_c=mu_c), INVALID, f"mu_c is {mu_c!r}: .* above 0")


def stream():
    return fw.Problem(
        objectives.Online(loss, iter(np.ones((9, 2)))), domains.Simplex(2), dtype=np.float64
    )


def gaussian():
    objective = objectives.Covariance(factor=np.eye(2), batch=2)
    return fw.Problem(objective, domains.Spectrahedron(2, 1.0))


WHOLE, SAMPLED = rule(name="capacity"), rule(name="capacity", batch=2)


@pytest.mark.parametrize(
    ("make", "name", "words"),
    [
        (lambda: over_simplex(rules=WHOLE), "most-fw+", "needs sampled constraints.*fit: most-fw "),
        (over_simplex, "h1-sfw", "needs sampled constraints.*fit: most-fw "),
        (
            lambda: over_simplex(rules=SAMPLED),
            "most-fw",
            r"needs whole constraints, but 'capacity' is sampled.*most-fw\+ or h1-sfw",
        ),
        (
            lambda: over_simplex(rules=WHOLE),
            "sfw",
            "cannot handle constraints.*'capacity'.*most-fw, shcgm or hfw",
        ),
        (
            lambda: over_simplex(rules=SAMPLED),
            "svrf",
            r"cannot handle constraints.*'capacity'.*most-fw\+ or h1-sfw",
        ),
        (stream, "hfw", "whole objective.*Online has only samples.*most-fw"),
        (stream, "zo-fw", "whole objective.*Online has only samples.*most-fw"),
        (stream, "spider-fw", "whole objective.*Online has only samples.*sfw"),
        (stream, "svrf", "whole objective.*Online has only samples.*sfw"),
        (stream, "saga-fw", "table of summands.*Online has none.*sfw"),
        (gaussian, "spider-fw", "finite sum.*Covariance is not one that.*sfw"),
        (gaussian, "saga-fw", "table of summands.*Covariance has none.*sfw"),
    ],
)
def test_a_method_that_does_not_suit_the_problem(make, name, words):
    refused(lambda: fw.solve(make(), name), fw.UnsuitableMethodError, f"'{name[:3]}.*{words}")


def function(forward, adjoint=None):
    return rule(maps.Function(forward, adjoint=adjoint), name="own")


@cases(
    ("columns", rule(np.ones((4, 3))), SHAPE, r"\(4, 3\).*\(2,\) have 2 numbers.*columns"),
    (
        "sparse-columns",
        rule(scipy.sparse.csr_array(np.ones((4, 3)))),
        SHAPE,
        r"\(4, 3\).*\(2,\) have 2 numbers.*columns",
    ),
    ("set", rule(X=sets.Point(np.ones(3))), SHAPE, r"value of shape \(3,\).*\(4,\)"),
    ("entries", rule(maps.Entries([0], [0])), SHAPE, r"Entries.*outside of a point of shape \(2,"),
    ("triangles", rule(maps.Triangles(), sets.Orthant()), SHAPE, "square matrix of side 3 or more"),
    ("raises", function(lambda x: x @ np.ones(3)), SHAPE, r"'own': G does not apply.*\(2,\)"),
    ("constant", function(lambda x: x + 1), INVALID, "'own': .*gives 1 at 0.*not linear.*into the"),
    ("square", function(lambda x: x**2), INVALID, "'own': .*not linear"),
    (
        "adjoint",
        function(jnp.cumsum, adjoint=lambda u: 2 * u),
        INVALID,
        "'own': the adjoint of G does not match.*Leave adjoint= out",
    ),
    (
        "adjoint-shape",
        function(jnp.cumsum, adjoint=lambda u: u[:1]),
        SHAPE,
        r"adjoint of G gives shape \(1,\) for points of shape \(2,\)",
    ),
    (
        "function-sampled",
        rule(lambda x: x, batch=1),
        INVALID,
        "Function map cannot be sampled.*leave batch out",
    ),
    (
        "ball-sampled",
        rule(X=sets.L2Ball(1.0), batch=1),
        INVALID,
        "L2Ball.*not a product over rows.*leave batch out",
    ),
)
def test_constraints_that_do_not_fit_the_points(call, error, words):
    refused(lambda: over_simplex(rules=call), error, words)


@cases(
    ("axes", lambda: rule(np.ones(3)), SHAPE, r"two axes, got shape \(3,\)"),
    ("set", lambda: rule(X=(0, 1)), INVALID, "is a tuple: use one of mostfw.sets"),
    ("weight", lambda: rule(weight=0.0), INVALID, "weight.*is 0.0: give a finite number above 0"),
    ("at", lambda: maps.Function(lambda x: x, rows=2), INVALID, "both at= and rows="),
    (
        "names",
        lambda: over_simplex(rules=[rule(), rule()]),
        INVALID,
        r"share a name: \['constraint', 'constraint'\]. Give each its own",
    ),
    ("objective", lambda: over_simplex(lambda x: x[0]), INVALID, "is a function: wrap.*Smooth"),
    (
        "domain",
        lambda: fw.Problem(objectives.Linear(SQUARE), 3),
        INVALID,
        "domain is a int: use one of mostfw.domains",
    ),
    ("dtype", lambda: over_simplex(dtype=int), INVALID, "dtype is int64: give float32 or float64"),
    ("half", lambda: over_simplex(dtype=np.float16), INVALID, "float16: give float32 or float64"),
    ("kmeans-dtype", lambda: problems.kmeans(SQUARE, 2, dtype=int), INVALID, "dtype is int64"),
    ("box-bounds", lambda: domains.Box(1.0, 0.0, shape=2), INVALID, "lower > upper.*empty"),
    (
        "box-open",
        lambda: domains.Box(0.0, INF, shape=2),
        INVALID,
        "bound of a Box domain.*infinite",
    ),
    ("radius", lambda: domains.L1Ball(2, radius=-1.0), INVALID, "radius of an L1Ball is -1.0"),
    ("shape", lambda: domains.Simplex((2, 0)), INVALID, r"Simplex shape is 0.*at least 1"),
    ("half-shape", lambda: domains.Simplex(1.5), INVALID, r"Simplex shape is 1.5.*whole"),
    ("nuclear", lambda: domains.NuclearBall((3,), 1.0), INVALID, r"\(3,\): give two sizes"),
    ("k", lambda: domains.KSparse(3, k=4), INVALID, "k is 4: give a whole number from 1 to 3"),
    ("half-k", lambda: domains.KSparse(3, k=1.5), INVALID, "k is 1.5: give a whole number"),
    ("center", lambda: domains.L2Ball(2, center=NAN), INVALID, "center of an L2Ball is nan"),
    ("product", lambda: domains.Product(()), INVALID, "tuple, list or dict of domains"),
    ("set-box", lambda: sets.Box(1.0, 0.0), INVALID, "lower 1.0 exceeds upper 0.0.*exchange"),
    ("set-point", lambda: sets.Point(NAN), INVALID, "Point: value is nan.*finite"),
    ("set-orthant", lambda: sets.Orthant(2), INVALID, "sign is 2; it must be 1.*or -1"),
    ("set-ball", lambda: sets.L1Ball(-1.0), INVALID, "radius is -1.0.*>= 0"),
    ("covariance-l1", lambda: problems.covariance(5, l1_radius=NAN), INVALID, "radius is nan"),
    ("covariance-none", lambda: problems.covariance(), INVALID, "needs one of n, factor="),
)
def test_parts_that_cannot_be(call, error, words):
    refused(call, error, words)


@cases(
    ("zero", {"iterations": 0}, INVALID, "iterations is 0: give a whole number from 1"),
    ("negative", {"iterations": -5}, INVALID, "iterations is -5"),
    ("float", {"iterations": 10.0}, INVALID, "iterations is 10.0: give a whole number"),
    ("too-many", {"iterations": 2**31}, INVALID, "iterations is 2147483648: .* to 2147483646"),
    ("no-time", {"seconds": 0}, INVALID, "seconds is 0: give a finite number above 0"),
    ("negative-time", {"seconds": -1.0}, INVALID, "seconds is -1.0"),
    ("nan-time", {"seconds": NAN}, INVALID, "seconds is nan"),
    ("word-time", {"seconds": "5"}, INVALID, "seconds is '5'"),
    ("negative-seed", {"seed": -1}, INVALID, "seed is -1: give a whole number from 0"),
    ("float-seed", {"seed": 0.5}, INVALID, "seed is 0.5: give a whole number from 0"),
    ("large-seed", {"seed": 2**32}, INVALID, "seed is 4294967296: .*to 4294967295"),
    ("gap", {"stop": fw.Tolerance(gap=0.1)}, INVALID, "gap of 0.1.*optimum is not known"),
    ("stop", {"stop": 0.1}, INVALID, "stop is 0.1: give a mostfw.Tolerance"),
    ("record", {"record": 0}, INVALID, "record is 0: give a whole number of at least 1"),
    ("float-record", {"record": 2.5}, INVALID, "record is 2.5: give None, a spacing, or"),
    ("records", {"record": [2.5]}, INVALID, r"record is \[2.5\]: give None"),
    ("warm", {"warm_start": np.ones(2)}, INVALID, "warm_start is a ndarray: give the Result"),
)
def test_budgets_and_options_of_a_run(call, error, words):
    seen = []
    options = {"iterations": 5, "callback": seen.append, **call}
    refused(lambda: fw.solve(over_simplex(), "sfw", **options), error, words)
    assert not seen


def test_a_warm_start_belongs_to_its_method_and_problem():
    first = fw.solve(over_simplex(), "sfw", iterations=3)
    refused(
        lambda: fw.solve(over_simplex(), "orgfw", warm_start=first),
        INVALID,
        "comes from method 'sfw'.*'orgfw': continue with the same method",
    )
    larger = fw.Problem(objectives.Linear(np.ones(3)), domains.Simplex(3))
    refused(
        lambda: fw.solve(larger, "sfw", warm_start=first), INVALID, "does not fit.*same.*shapes"
    )


def broken(x):
    raise RuntimeError("no licence")


@cases(
    ("vector", objectives.Smooth(lambda x: x), SHAPE, r"Smooth returns shape \(2,\).*one number"),
    ("nothing", objectives.Smooth(lambda x: None), SHAPE, "Smooth returns shape None"),
    ("raises", objectives.Smooth(broken), INVALID, "Smooth fails.*RuntimeError: no licence"),
    ("whole", objectives.Smooth(lambda x: jnp.sum(x > 0)), INVALID, "returns int64.*no gradient"),
    (
        "row",
        objectives.FiniteSum(lambda x, row: row @ x, np.ones((4, 3)), batch=2),
        INVALID,
        r"FiniteSum fails on a point of shape \(2,\)",
    ),
    (
        "sampler",
        objectives.Sampled(lambda x, xi: jnp.sum(x), broken, batch=2),
        INVALID,
        "Sampled fails.*RuntimeError: no licence",
    ),
)
def test_value_functions_that_are_wrong(call, error, words):
    refused(lambda: over_simplex(call), error, words)


def online(minibatches, value=None):
    value = flagged if value is None else value
    return fw.Problem(objectives.Online(value, minibatches), domains.Simplex(2), dtype=np.float64)


def flagged(x, minibatch):
    """Least squares, and NaN for a minibatch whose flag is up."""
    return jnp.where(minibatch["flag"] > 0, jnp.nan, 1.0) * jnp.mean((minibatch["rows"] @ x) ** 2)


def minibatches(count=30, at=None, change=None):
    """`count` minibatches; number `at` goes through `change`, by default its flag goes up."""
    rng = np.random.default_rng(0)
    for index in range(count):
        one = {"rows": rng.standard_normal((4, 2)), "flag": np.zeros(())}
        if index == at:
            one = {**one, "flag": np.ones(())} if change is None else change(one)
        yield one


@pytest.mark.parametrize("k", [1, 2, 7, 20])
def test_a_value_that_turns_nan_is_found_at_its_iteration(k):
    error = refused(
        lambda: fw.solve(online(minibatches(at=k - 1)), "most-fw", iterations=30, record=[5, 25]),
        fw.NonFiniteError,
        f"objective Online is NaN or infinite at iteration {k}. Check its function",
    )
    assert error.iteration == k
    if k == 1:
        assert error.result is None  # not even the start could be evaluated
    elif k <= 5:
        assert [record.iteration for record in error.result.history] == [0]  # the start
    else:
        assert error.result.status is fw.Status.NON_FINITE
        assert np.all(np.isfinite(error.result.x))
        assert [record.iteration for record in error.result.history] == [5]


CONSTANT_STEPS = fw.Method(
    name="constant steps", tracker=fw.trackers.Exact(), step_size=fw.schedules.Constant(0.25)
)


@pytest.mark.parametrize("record", [1, [2]])
@pytest.mark.parametrize("kind", ["value", "gradient"])
def test_a_value_that_is_nan_at_some_points_is_never_a_result(kind, record):
    # x_k[0] = 1 - 0.75^(k-1) passes 0.7 at k = 6
    def value(x):
        factor = jnp.where(x[0] > 0.7, jnp.nan, 1.0)
        return -x[0] * factor if kind == "gradient" else -x[0] + jax.lax.stop_gradient(factor)

    problem = fw.Problem(
        objectives.Smooth(value), domains.Simplex(2, equality=False), dtype=np.float64
    )
    error = refused(
        lambda: fw.solve(problem, CONSTANT_STEPS, iterations=9, record=record),
        fw.NonFiniteError,
        "objective Smooth is (NaN|nan)",
    )
    # between record points only the gradient is looked at
    assert error.iteration == (10 if kind == "value" and record != 1 else 6)
    assert np.all(np.isfinite(error.result.history.column("objective")))


def test_a_constraint_that_overflows_is_named():
    huge = rule(1e200 * np.ones((2, 2)), sets.Point(0.0), name="huge")
    refused(
        lambda: fw.solve(over_simplex(rules=huge), methods.most_fw(mu_c=1e-300), iterations=3),
        fw.NonFiniteError,
        "constraint 'huge' is NaN or infinite at iteration 1",
    )


def fails(one):
    raise OSError("disk gone")


@cases(
    (
        "nan",
        lambda: minibatches(at=6, change=lambda m: {**m, "rows": m["rows"] * NAN}),
        fw.StreamError,
        "minibatch 6 of the stream has NaN",
    ),
    (
        "nan-first",
        lambda: minibatches(at=0, change=lambda m: {**m, "rows": m["rows"] * NAN}),
        fw.StreamError,
        "minibatch 0 of the stream has NaN",
    ),
    (
        "shape",
        lambda: minibatches(at=6, change=lambda m: {**m, "rows": m["rows"][:3]}),
        fw.StreamError,
        r"minibatch 6 of the stream has shape.*\(3, 2\).*first one had.*\(4, 2\)",
    ),
    (
        "tree",
        lambda: minibatches(at=6, change=lambda m: m["rows"]),
        fw.StreamError,
        "minibatch 6 of the stream has shape",
    ),
    (
        "words",
        lambda: minibatches(at=6, change=lambda m: {**m, "flag": "up"}),
        fw.StreamError,
        "minibatch 6 of the stream is not made of numbers",
    ),
    (
        "raises",
        lambda: minibatches(at=6, change=fails),
        fw.StreamError,
        "failed at minibatch 6: OSError: disk gone",
    ),
    (
        "raises-first",
        lambda: minibatches(at=0, change=fails),
        fw.StreamError,
        "failed at minibatch 0: OSError: disk gone",
    ),
    ("empty", lambda: iter(()), fw.StreamError, "stream of the Online objective is empty"),
)
def test_streams_that_are_unusable(call, error, words):
    refused(lambda: fw.solve(online(call()), "sfw", iterations=30), error, words)


@cases(
    ("vector", lambda x, one: x, SHAPE, r"Online returns shape \(2,\).*one number"),
    ("raises", lambda x, one: one["no"], INVALID, "Online fails.*KeyError: 'no'"),
    ("row", lambda x, one: jnp.sum(one["rows"].T @ x), INVALID, r"Online fails.*shape \(2,\)"),
)
def test_value_functions_that_do_not_fit_the_stream(call, error, words):
    refused(lambda: fw.solve(online(minibatches(), call), "sfw", iterations=5), error, words)


def test_a_stream_that_ends_early_is_a_status():
    result = fw.solve(online(minibatches(12)), "sfw", iterations=30)
    assert result.status is fw.Status.STREAM_ENDED
    assert result.iterations == result.last.iteration == 12
    assert np.isfinite(result.objective)


def test_a_plain_iterable_cannot_be_resumed_and_a_function_can():
    plain = online(minibatches())
    first = fw.solve(plain, "sfw", iterations=5)
    refused(
        lambda: fw.solve(plain, "sfw", iterations=5, warm_start=first),
        fw.StreamError,
        r"resumes at minibatch 5.*plain iterable.*stream\(start\)",
    )
    seekable = online(lambda start: itertools.islice(minibatches(), start, None))
    resumed = fw.solve(seekable, "sfw", iterations=5, warm_start=first)
    whole = fw.solve(online(minibatches()), "sfw", iterations=10)
    assert np.array_equal(resumed.x, whole.x)


FILES = {
    "bad.edges": "0 1\n# fine\n1 2\nfoo bar\n",
    "weight.edges": "0 1 heavy\n",
    "empty.edges": "# nothing\n",
    "pieces.edges": "0 1\n2 3\n",
    "ragged.csv": "1,2\n3\n",
    "nan.csv": "1,2\n3,nan\n5,6\n",
    "words.csv": "a,b\nc,d\n",
    "fine.csv": "1,2\n3,4\n5,6\n",
    "garbage.npy": "garbage",
}
CUT, KMEANS = ["run", "sparsest-cut", "--graph"], ["run", "kmeans", "--clusters", "2", "--data"]
FINE = [*KMEANS, "fine.csv"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([*CUT, "no.edges"], "no graph file 'no.edges'"),
        ([*CUT, "bad.edges"], "'bad.edges', line 4: 'foo bar' is not an edge (two node numbers"),
        ([*CUT, "weight.edges"], "line 1: '0 1 heavy' is not an edge"),
        ([*CUT, "empty.edges"], "'empty.edges' has no edges"),
        ([*CUT, "pieces.edges"], "has 2 components (sizes 2, 2)"),
        (["report", "no-folder"], "no complete run"),
        (["data", "--fetch", "mnist"], "unknown data set 'mnist'"),
        ([*KMEANS, "no.csv"], "no data file 'no.csv'"),
        ([*KMEANS, "ragged.csv"], "'ragged.csv', line 2: the row has 1 cells, the rows before"),
        ([*KMEANS, "nan.csv"], "'nan.csv', line 2, column 2: 'nan' is not a finite number"),
        ([*KMEANS, "words.csv"], "'words.csv', line 2, column 2 ('b'): 'd' is not a number"),
        ([*KMEANS, "garbage.npy"], "'garbage.npy': it cannot be read as numbers, for it is no"),
        ([*FINE, "--method", "most-fvv"], "unknown method 'most-fvv'. Did you mean 'most-fw'?"),
        (["methods", "most-fvv"], "unknown method 'most-fvv'. Did you mean 'most-fw'?"),
        ([*FINE, "--method", "sfw"], "method 'sfw' cannot handle constraints"),
        ([*FINE, "--set", "mu_c"], "--set 'mu_c' is not of the form NAME=VALUE"),
        ([*FINE, "--set", "mu_c=big"], "--set mu_c=big: 'big' is not a number"),
        ([*FINE, "--set", "mu=1"], "has no parameter 'mu': it takes lmo_tolerance, mu_c"),
        ([*FINE, "--set", "oracle=guess"], "oracle is 'guess': give one of cge"),
        ([*FINE, "--iterations", "0"], "iterations is 0"),
        ([*FINE, "--batch", "1.5"], "is 1.5: a fraction is in (0, 1]"),
        ([*FINE, "--seed", "-1"], "seed is -1"),
        (
            [*FINE, "--json", "no/such/folder.json"],
            "--json 'no/such/folder.json': its folder does not exist",
        ),
        (["run", "covariance"], "needs either --n or --data"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_the_command_line_says_it_in_one_line(arguments, words, tmp_path, monkeypatch, capsys):
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    if arguments[0] == "run":
        arguments = [*arguments, "--quiet"]
        if "--iterations" not in arguments:
            arguments += ["--iterations", "2"]
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("mostfw: ")
    assert err.count("\n") == 1
    assert words in err


def _sampled_map(rows, at):
    return fw.constraints.Affine(
        fw.maps.Function(jnp.cumsum, at=at, rows=rows), fw.sets.Orthant(1), batch=1
    )


REFUSED = {
    "linear-strings": (lambda: fw.objectives.Linear(["a", "b"]), "Linear.*real numbers"),
    "linear-complex": (lambda: fw.objectives.Linear(1j * np.eye(2)), "Linear.*complex"),
    "linear-empty": (lambda: fw.objectives.Linear(np.zeros((0, 0))), "Linear.*empty"),
    "linear-ragged": (lambda: fw.objectives.Linear([[1.0], [1.0, 2.0]]), "Linear.*ragged"),
    "points-strings": (lambda: fw.problems.kmeans([["a", "b"]], 1), "points.*real numbers"),
    "clusters-flag": (lambda: fw.problems.kmeans(np.eye(3), True), "clusters is True"),
    "covariance-half": (lambda: fw.problems.covariance(2.5), "n is 2.5: give a whole number"),
    "covariance-seed": (lambda: fw.problems.covariance(5, seed=-1), "seed is -1"),
    "directions": (lambda: fw.oracles.IRDSA(0), "directions of I-RDSA is 0"),
    "oracle-name": (lambda: fw.methods.zo_most_fw(oracle="cge"), "oracle is 'cge'.*CGE"),
    "step-shift": (lambda: fw.methods.sfw(step_shift=float("nan")), "step_shift is nan"),
    "tolerance": (lambda: fw.Tolerance(violation=float("nan")), "tolerance of violation is nan"),
    "box-bounds": (lambda: fw.domains.Box(np.zeros(3), np.ones(2)), "Box.*do not fit each other"),
    "box-shape": (lambda: fw.domains.Box(np.zeros(3), 1.0, shape=2), "Box.*fit the shape 2"),
    "birkhoff": (lambda: fw.domains.Birkhoff((2, 3)), "Birkhoff size n is .2, 3."),
    "center-shape": (lambda: fw.domains.L2Ball(3, center=np.zeros(2)), "center.*shape .2,."),
    "row-sums": (
        lambda: fw.constraints.Affine(fw.maps.RowSums(), fw.sets.Point(1.0)).resolve(
            fw.trees.structure_of(np.zeros((2, 3)))
        ),
        "RowSums needs a square matrix",
    ),
    "rows": (
        lambda: _sampled_map(5, lambda x, rows: jnp.cumsum(x)[rows]).resolve(
            fw.trees.structure_of(np.zeros(3))
        ),
        "3 rows, but rows= says 5",
    ),
    "at": (
        lambda: _sampled_map(3, lambda x, rows: x[rows]).resolve(
            fw.trees.structure_of(np.zeros(3))
        ),
        "at.x, rows. of a Function map is not its Gx",
    ),
    "metric": (
        lambda: fw.Problem(
            fw.objectives.Linear(np.ones(3)), fw.domains.Simplex(3), metrics={"vector": abs}
        ),
        "metric 'vector' must return one number",
    ),
    "constraint": (
        lambda: fw.Problem(
            fw.objectives.Linear(np.ones(3)), fw.domains.Simplex(3), [fw.sets.Orthant(1)]
        ),
        "a constraint is a Orthant.*Affine",
    ),
    "dtype-name": (
        lambda: fw.Problem(
            fw.objectives.Linear(np.ones(3)), fw.domains.Simplex(3), dtype="float33"
        ),
        "dtype is 'float33'",
    ),
    "stream": (lambda: fw.objectives.Online(lambda x, w: x, 3), "stream.*is a int"),
}


@pytest.mark.parametrize("make, words", REFUSED.values(), ids=REFUSED)
def test_what_no_method_could_work_with(make, words):
    refused(make, fw.InvalidInputError, words)


def test_a_stream_function_that_fails_is_named():
    def stream(start):
        raise OSError("no such feed")

    objective = fw.objectives.Online(lambda x, w: jnp.sum(x * w), stream)
    problem = fw.Problem(objective, fw.domains.Simplex(3))
    refused(lambda: fw.solve(problem, "sfw"), fw.StreamError, "stream.0. .*no such feed")


def test_blocks_cannot_be_drawn_one_by_one():
    objective = fw.objectives.Linear(np.eye(6), batch=0.3, sampling="block")
    problem = fw.Problem(objective, fw.domains.Spectrahedron(6, 1.0))
    for name in ("spider-fw", "svrf", "saga-fw"):
        refused(lambda name=name: fw.solve(problem, name), fw.UnsuitableMethodError, "sfw")


def test_two_edges_are_edges_and_not_a_matrix():
    assert fw.graphs.as_graph([(0, 1), (1, 2)]).edges == 2
    assert fw.graphs.as_graph([(0, 1, 0.5), (1, 2, 0.5), (0, 2, 1.0)]).edges == 3
    assert fw.graphs.as_graph(np.array([[0.0, 1.0], [1.0, 0.0]])).edges == 1


# Found by fuzzing


def test_complex_weights_of_a_graph_are_refused():
    complexes = np.array([[0, 1j], [1j, 0]])
    with pytest.raises(fw.InvalidInputError, match="complex"):
        fw.graphs.as_graph(complexes)
    with pytest.raises(fw.InvalidInputError, match="complex"):
        fw.graphs.as_graph(scipy.sparse.csr_array(complexes))


def test_more_rows_than_can_be_counted_are_refused():
    with pytest.raises(fw.InvalidInputError, match="number of rows of Coefficients"):
        fw.maps.Coefficients([0], [0], [0], [1.0], rows=2**63, sizes=2)


@pytest.mark.parametrize("given", [{"methods": np.array(1.0)}, {"seeds": np.array(1.0)}])
def test_an_array_without_an_axis_is_no_list_of_members(given):
    problem = fw.Problem(fw.objectives.Linear(np.ones(2)), fw.domains.Simplex(2))
    with pytest.raises(fw.InvalidInputError, match=next(iter(given))):
        fw.sweep(problem, **{"methods": ["sfw"], "seeds": [0], "iterations": 1} | given)


def test_a_ragged_matrix_is_no_map():
    with pytest.raises(fw.InvalidInputError, match="no matrix"):
        fw.constraints.Affine([[1, 2], [3]], fw.sets.Orthant(1))


def test_a_factor_whose_squares_overflow_is_refused():
    with pytest.raises(fw.InvalidInputError, match="trace"):
        fw.problems.covariance(factor=np.full((3, 3), 1e300), batch=2)


def test_a_sweep_names_the_iteration_at_which_its_callback_failed():
    problem = fw.Problem(fw.objectives.Linear(np.ones(2)), fw.domains.Simplex(2))
    with pytest.raises(fw.UserCodeError, match="callback failed at iteration 3"):
        fw.sweep(problem, ["sfw"], seeds=[0], iterations=3, record=[3], callback=abs)
