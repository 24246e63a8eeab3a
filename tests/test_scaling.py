"""The problem's own units: no change of the user's units changes what a method does."""

import importlib
import time

import numpy as np
import pytest

import mostfw as fw

RNG = np.random.default_rng(8)
N = 7
COST = RNG.standard_normal((N, N))
COST = COST + COST.T
ROWS = RNG.standard_normal((4, N * N)) * np.array([[1.0], [3.0], [0.2], [1.0]])
INSIDE = np.full((N, N), 0.1) + 0.9 * np.eye(N)
METHODS = [
    "hfw",
    "most-fw",
    "shcgm",
    "cgal",
    "most-al",
    "most-fw+",
    "most-al+",
    "h1-sfw",
    "t-most-al+",
]


def problem(objective=1.0, limit=1.0, rows=1.0, sampled=False):
    """The same problem with its objective and its constraints multiplied by numbers."""
    right = rows * (ROWS @ INSIDE.ravel() / N)
    return fw.Problem(
        fw.objectives.Linear(objective * COST, batch=0.3),
        fw.domains.Spectrahedron(N, trace=1.0),
        [
            fw.constraints.Affine(rows * ROWS, fw.sets.Point(right), name="rows"),
            fw.constraints.Affine(
                limit * np.eye(N * N),
                fw.sets.Box(-limit * 0.2, limit * 0.2),
                name="limit",
                batch=5 if sampled else None,
            ),
        ],
    )


def run(name, **units):
    sampled = fw.methods.get(name).constraints == "sampled"
    return fw.solve(problem(sampled=sampled, **units), name, iterations=60, seed=3, progress=False)


@pytest.mark.parametrize("name", METHODS)
def test_powers_of_two_change_nothing(name):
    plain = run(name)
    for units in (
        {"objective": 2.0**20, "limit": 2.0**-10, "rows": 2.0**10},
        {"objective": 2.0**-20, "limit": 2.0**10, "rows": 2.0**-10},
    ):
        scaled = run(name, **units)
        np.testing.assert_allclose(scaled.x, plain.x, rtol=1e-12, atol=1e-15)
        for one, other in zip(scaled.history, plain.history, strict=True):
            assert one.objective / units["objective"] == pytest.approx(other.objective, rel=1e-12)
            for part in ("limit", "rows"):
                seen = one.violation[part] / units[part]
                assert seen == pytest.approx(other.violation[part], rel=1e-12)


def test_other_factors_change_rounding_only():
    plain = run("cgal")
    scaled = run("cgal", objective=1e6, limit=1e-3, rows=7.0)
    assert scaled.objective / 1e6 == pytest.approx(plain.objective, rel=1e-6)


@pytest.mark.parametrize("name", ["cgal", "most-al"])
def test_a_million_is_lost_in_the_noise(name):
    """No power of two: rounding differs, and parts runs where eigenvalues nearly tie. Of the last
    steps the scaled run has the medians that the seeds of the other one have, jumps and all."""

    def ends(seed, objective=1.0, **others):
        result = fw.solve(
            problem(objective=objective, **others),
            name,
            iterations=2000,
            seed=seed,
            record=range(1805, 2000, 5),
            progress=False,
        )
        units = [objective, *(others.get(part, 1.0) for part in result.violation)]
        return np.array([[r.objective, *r.violation.values()] for r in result.history]) / units

    usual = np.concatenate([ends(seed) for seed in range(5)])
    room = 1e-6 * np.abs(usual).max(axis=0)
    for given in ({"objective": 1e6}, {"rows": 1e6}, {"limit": 1e-6}):
        middle = np.median(ends(0, **given), axis=0)
        assert np.all(usual.min(axis=0) - room <= middle), given
        assert np.all(middle <= usual.max(axis=0) + room), given


def test_explicit_parameters_keep_their_meaning():
    ends = [
        fw.solve(problem(objective=c), fw.methods.hfw(mu_c=1.0), iterations=60, progress=False).x
        for c in (1.0, 2.0**20)
    ]
    assert np.abs(ends[0] - ends[1]).max() > 1e-3
    assert fw.methods.hfw(mu_c=1.0).bind(problem()).units is None


def test_rows_of_one_constraint_count_alike():
    """A row in other units than its neighbours is weighted as if it were not."""
    uneven = np.array([[1.0], [2.0**8], [2.0**-6], [1.0]])

    def posed(scale):
        rows, right = scale * ROWS, (scale * ROWS) @ INSIDE.ravel() / N
        return fw.Problem(
            fw.objectives.Linear(COST),
            fw.domains.Spectrahedron(N, trace=1.0),
            [fw.constraints.Affine(rows, fw.sets.Point(right))],
        )

    ends = [fw.solve(posed(scale), "cgal", iterations=60).x for scale in (1.0, uneven)]
    np.testing.assert_allclose(*ends, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("domain", "largest"),
    [
        (fw.domains.Spectrahedron(5, trace=3.0), 3.0),
        (fw.domains.NuclearBall((3, 4), radius=2.0), 2.0),
        (fw.domains.Simplex(4, total=2.0), 2.0),
        (fw.domains.L1Ball(4, 1.5), 1.5),
    ],
)
def test_units_are_what_they_say(domain, largest):
    structure = domain.structure(np.float64)
    cost = RNG.standard_normal(structure.shape)
    cost = cost + cost.T if isinstance(domain, fw.domains.Spectrahedron) else cost
    objective = fw.objectives.Linear(cost)
    bound = fw.constraints.Affine(fw.maps.Identity(), fw.sets.Box(-0.1, 0.1), name="bound")
    units = fw.scaling.measured(fw.Problem(objective, domain, [bound]), objective)
    assert float(units.value) == pytest.approx(largest * np.linalg.norm(cost), rel=1e-6)
    assert float(units.reaches[0]) == pytest.approx(largest, rel=1e-6)


def test_a_stream_is_measured_by_its_first_minibatch_and_not_robbed_of_it():
    def stream():
        rng = np.random.default_rng(0)
        return (rng.standard_normal((6, 3)) for _ in range(40))

    limit = fw.constraints.Affine(np.ones((1, 3)), fw.sets.Box(-0.1, 0.1), name="limit")
    ends = []
    for source in (stream(), lambda start: list(stream())[start:]):
        objective = fw.objectives.Online(lambda x, w: ((w @ x - 1) ** 2).mean(), source, batch=6)
        posed = fw.Problem(objective, fw.domains.L2Ball(3, 1.0), [limit], dtype=np.float64)
        result = fw.solve(posed, "most-al", iterations=40, progress=False)
        assert result.iterations == 40
        ends.append(result.x)
    np.testing.assert_array_equal(*ends)


@pytest.mark.parametrize(
    ("limit", "square"),
    [
        (fw.sets.Point(6.0), 6.0 * 6.0),  # the right-hand side is 6 from an atom's 0
        (fw.sets.Box(-np.inf, 1.0), 4.0 * 3.0),  # the longest is 4, and 3 outside
        (fw.sets.Box(5.0, 6.0), 5.0 * 5.0),  # both from 5, the point nearest to 0
        (fw.sets.Box(-np.inf, 9.0), 4.0 * 4.0),  # nothing is outside: as long as it is
    ],
)
def test_a_penalty_measures_what_is_outside(limit, square):
    """The atoms of this simplex have the images 0 and 4."""
    row = fw.constraints.Affine(np.array([[0.0, 4.0]]), limit)
    objective = fw.objectives.Linear(np.array([3.0, 4.0]))
    posed = fw.Problem(objective, fw.domains.Simplex(2), [row])
    units = fw.scaling.measured(posed, objective, penalty=True)
    assert float(units.weights[0]) == pytest.approx(5.0 / square, rel=1e-6)
    assert float(units.reaches[0]) == pytest.approx(square**0.5)
    plain = fw.scaling.measured(posed, objective)
    assert float(plain.weights[0]) == pytest.approx(5.0 / 16.0, rel=1e-6)


def delayed(monkeypatch, name, seconds=0.7):
    package, _, attribute = name.rpartition(".")
    honest = getattr(importlib.import_module(package), attribute)

    def later(*given, **options):
        time.sleep(seconds)
        return honest(*given, **options)

    monkeypatch.setattr(name, later)


@pytest.mark.parametrize("name", ["scaling.measured", "running.start"])
def test_measuring_and_starting_count_as_compiling(name, monkeypatch):
    """Each compiles programs of its own before the first step."""
    once = fw.solve(problem(), "most-fw", iterations=2, progress=False)  # all else is compiled
    delayed(monkeypatch, f"mostfw.{name}")
    result = fw.solve(problem(), "most-fw", iterations=2, progress=False)
    assert once.method.units is not None
    assert result.compile_seconds > 0.7 > result.seconds


@pytest.mark.parametrize("name", ["scaling.measured", "sweeps.start"])
def test_they_count_in_sweeps(name, monkeypatch):
    def sweep():
        methods = ["most-fw"] * 2
        return fw.sweep(problem(), methods, seeds=[0, 1], iterations=2, progress=False)

    sweep()
    delayed(monkeypatch, f"mostfw.{name}")
    assert sum(result.compile_seconds for result in sweep()) > 0.7


@pytest.mark.parametrize("penalty", [True, False])
@pytest.mark.parametrize("size", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("dtype, n", [(np.float64, 5), (np.float32, 300)])
def test_an_equation_that_every_atom_keeps_has_no_unit_of_rounding(penalty, size, dtype, n):
    """tr X = K over {X psd, tr X = K}: what is left of it is some roundings or 0, by luck."""
    domain = fw.domains.Spectrahedron(n, trace=3.0, equality=True)
    objective = fw.objectives.Linear(np.diag(np.arange(n)).astype(dtype))
    row = dtype(size) * np.eye(n, dtype=dtype).reshape(1, -1)
    kept = fw.constraints.Affine(row, fw.sets.Point(np.array([3.0 * size], dtype)))
    posed = fw.Problem(objective, domain, [kept], dtype=dtype)
    units = fw.scaling.measured(posed, objective, penalty=penalty)
    assert float(units.reaches[0]) == pytest.approx(3.0 * size, rel=1e-6)


def test_a_dual_step_needs_no_gradient_from_values():
    """Of so many variables each takes two million values."""
    method = fw.methods.get("zo-most-al", beta_0=1.0)
    problem = fw.problems.kmeans(np.random.default_rng(0).standard_normal((1000, 2)), 3, batch=0.01)
    reaches = method.bind(problem).units.reaches
    assert np.asarray(reaches, float) == pytest.approx([3 * 1000**0.5, 3.0], rel=0.05)


@pytest.mark.parametrize(
    "name, drawn, share",
    [
        ("most-fw+", 1, 20 / 49),
        ("most-fw+", 5, 1.0),
        ("zo-most-fw+", 1, 20 / 49),
        ("h1-sfw", 1, 1.0),  # averages what it draws
        ("h-spider-fw", 1, 1.0),
        ("most-al+", 1, 1.0),  # has a table
    ],
)
def test_few_drawn_rows_are_softer_where_differences_enter_in_full(name, drawn, share):
    """From a twentieth of the rows on, the weight is that of all of them; less, in proportion. What
    is not drawn keeps its own."""
    posed = problem(sampled=True)
    rows, limit = posed.constraints
    limit = fw.constraints.Affine(limit.map, limit.set, name="limit", batch=drawn)
    posed = fw.Problem(posed.objective, posed.domain, [rows, limit])
    method = fw.methods.get(name)
    weights = method.bind(posed).units.weights
    penalty = not method.smoothing.dual
    plain = fw.scaling.measured(posed, posed.objective, penalty).weights
    np.testing.assert_allclose(weights, [plain[0], share * plain[1]], rtol=1e-6)
