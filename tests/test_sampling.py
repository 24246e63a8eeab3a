"""Shuffled passes: a bijection computed on the fly, exact after every pass, the same bits however
a run is cut; and graphs as sums over edges."""

import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import mostfw as fw
from common import ring_with_chords
from mostfw import frank_wolfe
from mostfw.errors import InvalidInputError, ShapeError
from mostfw.experiments.figures import Data, plan
from mostfw.experiments.tasks import problem_of
from mostfw.objectives import (
    Covariance,
    EntryLoss,
    FiniteSum,
    Laplacian,
    Linear,
    Sampled,
    SquaredDistances,
)
from mostfw.objectives._linear import pair_grid, paired
from mostfw.shuffling import Grid, Passes, Turn, Visit, _multiple, even_batch, shuffled

KEYS = [jax.random.PRNGKey(seed) for seed in range(3)]
POINTS = np.random.default_rng(0).standard_normal((9, 2))


def solve(problem, method="most-fw", **options):
    return fw.solve(problem, method, progress=False, **options)


def test_a_keyed_permutation_is_a_bijection():
    """For all totals in one compiled program, which takes the sides of the grid as numbers."""

    @jax.jit
    def orders(rows, columns, total, tags):
        place = jnp.where(jnp.arange(300) < total, jnp.arange(300), 0)
        words = (place // columns).astype(jnp.uint32), (place % columns).astype(jnp.uint32)
        grid = Grid(rows, columns, total)
        row, column = jax.vmap(lambda tags: grid.walked(words, tags))(tags)
        return row * columns + column

    tags = jax.random.bits(KEYS[0], (5, 4, 2), jnp.uint32)
    for total in range(1, 301):
        grid = Grid.near(total)
        for order in np.asarray(orders(grid.rows, grid.columns, total, tags)):
            np.testing.assert_array_equal(np.sort(order[:total]), np.arange(total))


@pytest.mark.parametrize("total", [1, 7, 100])
def test_a_range_is_shuffled(total):
    orders = [shuffled(jnp.arange(total), total, key).tolist() for key in KEYS]
    assert all(sorted(order) == list(range(total)) for order in orders)
    assert total < 7 or orders[0] != orders[1]


@pytest.mark.parametrize("total", range(1, 301, 7))
def test_grids_have_room_for_all_and_are_nearly_square(total):
    grid = Grid.near(total)
    assert 0 <= grid.rows * grid.columns - total < grid.rows
    assert total < 3 or max(grid.rows, grid.columns) <= 3 * min(grid.rows, grid.columns)


@pytest.mark.parametrize("things", [3, 5])
def test_all_orders_of_a_few_things_come_alike_often(things):
    draws = 30_000
    keys = jax.random.split(jax.random.PRNGKey(1), draws)
    orders = jax.jit(jax.vmap(lambda key: shuffled(jnp.arange(things), things, key)))(keys)
    counts = np.unique(orders, axis=0, return_counts=True)[1]
    wanted = draws / math.factorial(things)
    freedom = math.factorial(things) - 1
    assert len(counts) == freedom + 1
    assert np.sum((counts - wanted) ** 2 / wanted) < freedom + 4 * math.sqrt(2 * freedom)


def test_neighbours_are_put_apart():
    total = 10_007
    order = np.asarray(shuffled(jnp.arange(total), total, KEYS[0]))
    other = np.asarray(shuffled(jnp.arange(total), total, KEYS[1]))
    for first, second in ((order[:-1], order[1:]), (order, np.arange(total)), (order, other)):
        assert abs(np.corrcoef(first, second)[0, 1]) < 4 / math.sqrt(total)
    steps = np.diff(order) % total
    assert len(np.unique(steps)) > 0.6 * total  # 63% of random numbers are different


@pytest.mark.parametrize("side", range(1, 10))
def test_pairs_fill_their_grid(side):
    grid = pair_grid(side)
    words = np.indices((grid.rows, grid.columns)).reshape(2, -1).astype(np.uint32)
    rows, columns = paired(tuple(words), side)
    wanted = {(i, j) for i in range(side) for j in range(i + 1)}
    assert grid.rows * grid.columns == grid.total == len(wanted)
    assert set(zip(rows.tolist(), columns.tolist(), strict=True)) == wanted


@pytest.mark.parametrize("total, batch", [(1, 1), (10, 7), (181, 10), (30, 29)])
def test_a_pass_visits_every_summand_once_and_the_next_in_another_order(total, batch):
    passes = Passes(Grid.near(total), even_batch(batch, total))
    assert passes.steps == math.ceil(total / batch)
    visit = jax.jit(lambda k: passes.visit(Turn(k, KEYS[0])))
    orders = []
    for number in range(2):
        order = []
        for step in range(passes.steps):
            words, valid = visit(1 + number * passes.steps + step)
            assert passes.batch - 1 <= np.sum(valid) <= passes.batch
            assert len(words[0]) == passes.batch
            order += passes.grid.place(words)[valid].tolist()
        assert sorted(order) == list(range(total))
        orders.append(order)
    assert total < 10 or orders[0] != orders[1]


def test_more_pairs_than_fit_32_bits():
    """A pass over the 3.2e9 pairs of 80,000 points."""
    objective = SquaredDistances(np.zeros((80_000, 1)), batch=100_000, sampling="shuffled")
    assert objective.total == 3_200_040_000
    passes = Passes(objective.grid, objective.batch)
    words, valid = jax.jit(lambda k: passes.visit(Turn(k, KEYS[0])))(12_345)
    assert bool(jnp.all(valid))
    rows, columns = objective.summands(words)
    assert np.all(rows >= columns) and np.all(columns >= 0) and np.all(rows < 80_000)
    distinct = set(zip(rows.tolist(), columns.tolist(), strict=True))
    assert len(distinct) == objective.batch == 99_999
    assert abs(np.mean(rows) / 80_000 - 2 / 3) < 0.01


def test_where_a_step_begins_may_pass_32_bits():
    row, column = _multiple(jnp.asarray(31_999, jnp.int32), 100_001, 40_000, 32_000)
    assert int(row) * 40_000 + int(column) == 31_999 * 100_001


SQUARE = np.random.default_rng(1).standard_normal((7, 7))
LINEAR_FORMS = {
    "pairs": lambda: Linear(SQUARE + SQUARE.T, batch=5, sampling="shuffled"),
    "entries": lambda: Linear(SQUARE, batch=10, sampling="shuffled"),
    "distances": lambda: SquaredDistances(POINTS[:7], batch=0.2, sampling="shuffled"),
    "edges": lambda: Laplacian([(0, 1), (1, 2), (5, 6), (4, 3), (2, 6)], nodes=7, batch=2,
                               sampling="shuffled"),
}  # fmt: skip


def tracked(problem, method, steps):
    """k and y_k of every step."""
    problem = problem.on_device()
    method = method.bind(problem)
    advance = jax.jit(lambda s: frank_wolfe.step(problem, method, s, KEYS[1]))
    state = frank_wolfe.start(problem, method)
    for k in range(1, steps + 1):
        state = advance(state)
        yield k, np.asarray(state.estimate.y)


@pytest.mark.parametrize("make", LINEAR_FORMS.values(), ids=LINEAR_FORMS)
def test_the_tracked_gradient_of_a_linear_form_is_exact_after_every_pass(make):
    objective = make()
    domain = fw.domains.Box(np.zeros((7, 7)), np.ones((7, 7)))
    problem = fw.Problem(objective, domain, dtype=np.float64)
    steps = math.ceil(objective.total / objective.batch)
    whole = objective.add_whole(jnp.zeros((7, 7)), 1.0, None, None)
    errors = [np.abs(y - whole).max() for _, y in tracked(problem, fw.methods.most_fw(), 3 * steps)]
    assert max(errors[steps - 1 :: steps]) < 1e-12
    assert min(errors[: steps - 1]) > 1e-3  # and not before


def loss(x, row):
    return jnp.logaddexp(0.0, jnp.dot(row, x))


SUMS = {
    **{name: (make, np.zeros((7, 7))) for name, make in LINEAR_FORMS.items()},
    "observations": (
        lambda: EntryLoss([0, 1, 2, 0, 1], [0, 1, 1, 1, 1], np.arange(5.0), 2, "shuffled"),
        np.ones((3, 2)),
    ),
    "data": (lambda: FiniteSum(loss, POINTS, batch=4, sampling="shuffled"), np.ones(2)),
    "covariance": (lambda: Covariance(data=POINTS, batch=4, sampling="shuffled"), np.eye(2)),
}


@pytest.mark.parametrize("make, x", SUMS.values(), ids=SUMS)
def test_the_steps_of_a_pass_add_up_to_the_whole(make, x):
    """Gradients and values of the draws of a pass, at one point, have the whole's as their mean;
    and a draw is a function of the run's key and k alone."""
    objective = jax.tree.map(lambda a: jnp.asarray(a) if isinstance(a, np.ndarray) else a, make())
    x = jnp.asarray(x) + 0.3
    steps = math.ceil(objective.total / objective.batch)

    @jax.jit
    def at(k, key):
        xi = objective.draw_in_turn(key, None, Turn(k, KEYS[2]))
        view = objective.look(x, xi)
        message = objective.message(view, xi, None)
        scale = objective.scale(objective.batch)
        return objective.spread(jnp.zeros_like(x), scale, message, xi), objective.value(x, xi)

    seen = [at(k, KEYS[0]) for k in range(1 + steps, 1 + 2 * steps)]
    gradient, value = (sum(part) / steps for part in zip(*seen, strict=True))
    np.testing.assert_allclose(gradient, objective.add_whole(jnp.zeros_like(x), 1.0, x, None))
    assert float(value) == pytest.approx(float(objective.whole_value(x)))
    again = at(1 + steps, KEYS[1])
    jax.tree.map(np.testing.assert_array_equal, seen[0], again)


def cut(**options):
    return fw.problems.sparsest_cut(ring_with_chords(), batch=3, **options)


def clusters(**options):
    return fw.problems.kmeans(POINTS, 2, batch=4, sign_weight=10.0, **options)


def test_chunks_and_resuming_give_the_same_bits():
    problem = cut()
    whole = solve(problem, iterations=40, seed=5)
    chunks = solve(problem, iterations=40, seed=5, record=7)
    half = solve(problem, iterations=17, seed=5)
    resumed = solve(problem, iterations=23, seed=5, warm_start=half)
    for other in (chunks, resumed):
        np.testing.assert_array_equal(whole.x, other.x)
    assert not np.array_equal(whole.x, solve(problem, iterations=40, seed=6).x)


K = 23


@pytest.mark.parametrize(
    "name, spent", [("most-fw", 2 * K - 1), ("hfw", None), ("zo-most-fw", 2 * K - 1)]
)
def test_counts(name, spent):
    """A step counts its batch, though one of it may repeat another with weight 0."""
    problem = clusters()
    batch, total = problem.objective.batch, problem.objective.total
    assert (batch, total) == (4, 45)
    counts = solve(problem, name, iterations=K).counts
    if name == "zo-most-fw":
        assert counts.values == batch * 2 * 81 * spent
    else:
        assert counts.gradients == (total * K if spent is None else batch * spent)


@pytest.mark.parametrize("name, make", [("h-sag-cgm", cut), ("h-spider-fw", clusters)])
def test_methods_that_keep_tables_or_draw_their_own_batches_serve(name, make):
    problem = make(constraint_batch=5)
    result = solve(problem, name, iterations=60)
    assert problem.domain.contains(result.x, 1e-9)


@pytest.mark.parametrize(
    "make, unbiased", [(LINEAR_FORMS["pairs"], False), (LINEAR_FORMS["edges"], True)]
)
def test_a_table_holds_the_whole_gradient_after_one_pass(make, unbiased):
    objective = make()
    domain = fw.domains.Box(np.zeros((7, 7)), np.ones((7, 7)))
    problem = fw.Problem(objective, domain, dtype=np.float64)
    method = fw.Method("table", fw.trackers.Table(unbiased), fw.schedules.Power(2, shift=1))
    steps = math.ceil(objective.total / objective.batch)
    whole = objective.add_whole(jnp.zeros((7, 7)), 1.0, None, None)
    errors = [np.abs(y - whole).max() for _, y in tracked(problem, method, steps + 3)]
    first = steps if unbiased else steps - 1  # SAGA's estimate is one step behind its table
    assert max(errors[first:]) < 1e-12
    assert min(errors[:first]) > 1e-3


def test_slots_are_one_place_a_summand():
    for objective in (LINEAR_FORMS["pairs"](), LINEAR_FORMS["entries"]()):
        passes, slots = Passes(objective.grid, objective.batch), []
        draw = jax.jit(lambda k, o=objective: o.draw_in_turn(KEYS[0], None, Turn(k, KEYS[0])))
        for k in range(1, passes.steps + 1):
            visit = draw(k)
            assert isinstance(visit, Visit)
            slots += np.asarray(objective.slot(visit))[visit.valid].tolist()
        assert len(set(slots)) == objective.total
        assert max(slots) < objective.slots


def test_two_terms_have_two_orders():
    turn = Turn(1, KEYS[0])
    passes = Passes(Grid.near(100), 50)
    first, second = (passes.visit(turn.of_term(index))[0] for index in range(2))
    assert not np.array_equal(first[0], second[0])


def test_a_laplacian_is_that_of_its_graph():
    graph = ring_with_chords()
    edges, entries = cut().objective, cut(sampling="entries").objective
    x = np.random.default_rng(2).standard_normal((8, 8))
    x = x + x.T
    assert edges.total == graph.edges
    assert float(edges.whole_value(x)) == pytest.approx(float(entries.whole_value(x)))
    whole = edges.add_whole(jnp.zeros((8, 8)), 1.0, x, None)
    np.testing.assert_allclose(whole, graph.laplacian())


def test_a_weighted_laplacian_that_is_not_sampled():
    path = Laplacian([(0, 1), (2, 1)], weights=[1, 3], nodes=4)
    want = [[1, -1, 0, 0], [-1, 4, -3, 0], [0, -3, 3, 0], [0, 0, 0, 0]]
    np.testing.assert_array_equal(path.add_whole(jnp.zeros((4, 4)), 1.0, None, None), want)
    assert path.whole and path.nodes == 4


ROWS = np.random.default_rng(2).standard_normal((12, 3))
SUMS_IN_MEMORY = (
    functools.partial(fw.problems.completion, np.abs(ROWS) + 1, radius=30.0, batch=4),
    functools.partial(fw.problems.logistic, ROWS, np.sign(ROWS[:, 0]), batch=4),
    functools.partial(fw.problems.covariance, data=ROWS, batch=4),
)


def test_defaults_of_problems_have_least_variance():
    assert isinstance(cut().objective, Laplacian)
    assert cut().objective.sampling == clusters().objective.sampling == "shuffled"
    assert clusters(sampling="entries").objective.sampling == "entries"
    assert cut(sampling="shuffled").objective.total == 36
    for build in SUMS_IN_MEMORY:
        assert build().objective.sampling == "shuffled"
        assert build(sampling="replacement").objective.sampling == "replacement"
    assert fw.problems.covariance(5, batch=2).objective.sampling == "replacement"  # endless


def test_reproduce_draws_with_replacement_as_the_paper_does():
    """Whole constraints and exact methods too: what is not drawn has no order."""
    data = Data("karate-club", 2312 / 145, "mnist-digits")
    for part in (*plan(data, quick=True)[4], *plan(data, quick=True)[5]):
        specs = part.finals(dict.fromkeys(part.methods, 1.0))
        drawn = [p.objective for p in map(problem_of, specs) if not p.objective.whole]
        assert drawn
        assert {objective.sampling for objective in drawn} <= {"entries", "replacement"}


def error_of(estimate_of, objective, draws=400):
    """The mean squared error of the mean of the first four draws of a run."""
    objective = jax.tree.map(jnp.asarray, objective)
    whole = objective.add_whole(jnp.zeros(SQUARE.shape), 1.0, None, None)

    def one(key):
        def add(k, total):
            xi = estimate_of(objective, jax.random.fold_in(key, k), Turn(k, key))
            message = objective.message((), xi, None)
            return objective.spread(total, objective.scale(objective.batch) / 4, message, xi)

        return jnp.sum((lax.fori_loop(1, 5, add, jnp.zeros_like(whole)) - whole) ** 2)

    return float(jnp.mean(jax.jit(jax.vmap(one))(jax.random.split(KEYS[0], draws))))


def test_passes_have_less_variance_than_replacement_and_pairs_less_than_entries():
    """With four looks at the matrix a step, four steps: a third of a pass over 28 pairs."""
    plain = Linear(SQUARE + SQUARE.T, batch=4)
    pairs = Linear(SQUARE + SQUARE.T, batch=4, sampling="shuffled")
    replaced = error_of(lambda o, key, turn: o.sample(key, o.batch), plain)
    passes = error_of(lambda o, key, turn: o.draw_in_turn(key, None, turn), pairs)
    same = error_of(lambda o, key, turn: o.sample(key, o.batch), pairs)
    assert passes < 0.6 * replaced
    assert same == pytest.approx(replaced, rel=0.2)  # pairs are as good as entries, before passes


REFUSED = {
    "stream": (
        lambda: Sampled(loss, lambda key: jnp.ones(2), sampling="shuffled"),
        "Sampled objective is 'shuffled'.*never end.*FiniteSum",
    ),
    "factor": (
        lambda: Covariance(factor=np.eye(2), batch=2, sampling="shuffled"),
        "'shuffled'.*never end.*give data=",
    ),
    "finite sum": (
        lambda: FiniteSum(loss, POINTS, sampling="block"),
        "sampling is 'block': give 'replacement' or 'shuffled'",
    ),
    "cut": (lambda: cut(sampling="block"), "'block': give 'edges' or 'shuffled' or 'entries'"),
    "clusters": (lambda: clusters(sampling="edges"), "'edges': give 'shuffled' or 'entries' or"),
    "loop": (lambda: Laplacian([(0, 1), (2, 2)]), "edge 1 .* joins node 2 to itself"),
    "fraction": (lambda: Laplacian([(0.5, 1.0)]), "whole numbers from 0"),
    "negative": (lambda: Laplacian([(-1, 1)]), "whole numbers from 0"),
    "few nodes": (lambda: Laplacian([(0, 4)], nodes=3), "nodes of a Laplacian is 3"),
    "too many": (lambda: shuffled(jnp.arange(3), 2**31, KEYS[0]), "2147483648 summands.*2\\^31"),
}


@pytest.mark.parametrize("make, said", REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_is_refused_by_name(make, said):
    with pytest.raises(InvalidInputError, match=said):
        make()


@pytest.mark.parametrize(
    "make, said",
    [
        (lambda: Laplacian([(0, 1, 2)]), r"\(1, 3\): give pairs"),
        (lambda: Laplacian([(0, 1)], weights=[1.0, 2.0]), r"\(2,\): give one for each of its 1"),
        (
            lambda: fw.Problem(Laplacian([(0, 1)]), fw.domains.Spectrahedron(3, trace=1.0)),
            r"2 nodes needs matrices of shape \(2, 2\).*\(3, 3\)",
        ),
    ],
)
def test_shapes_that_do_not_fit_are_refused(make, said):
    with pytest.raises(ShapeError, match=said):
        make()


def test_a_batch_is_lowered_to_what_a_pass_can_share_out():
    for total, batch in itertools.product((1, 2, 9, 10, 100), (1, 2, 3, 7, 60)):
        batch = min(batch, total)
        even = even_batch(batch, total)
        assert even <= batch
        assert math.ceil(total / even) == math.ceil(total / batch)
    assert FiniteSum(loss, POINTS, batch=7, sampling="shuffled").batch == 5
    assert FiniteSum(loss, POINTS, batch=1.0, sampling="shuffled").whole
