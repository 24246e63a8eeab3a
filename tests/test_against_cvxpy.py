"""Every method ends at the optimum that an interior-point solver (Clarabel, by cvxpy) finds.

The problems are small, so that a compiled run of many iterations takes a fraction of a second. A
tolerance is two to three times the worst that three seeds gave when it was set, which is far below
where a run starts and where one without its constraint, its momentum or its table ends. With
constraints a gap may be negative: a penalty's point is a little outside, and better by that much.
"""

import functools

import cvxpy as cp
import jax.numpy as jnp
import numpy as np
import pytest

import mostfw as fw

SEEDS = (0, 1, 2)
exact_gradients = fw.Method(
    name="exact", tracker=fw.trackers.Exact(), step_size=fw.schedules.Power(2, shift=1)
)


def optimum(objective, rules):
    reference = cp.Problem(cp.Minimize(objective), rules)
    reference.solve(solver=cp.CLARABEL)
    assert reference.status == cp.OPTIMAL
    return float(reference.value)


def worst_of(problem, method, iterations, seeds=SEEDS):
    """The largest |gap| and violations over the seeds, after looking that each x is in C."""
    gap, violations = 0.0, dict.fromkeys((c.name for c in problem.constraints), 0.0)
    for seed in seeds:
        result = fw.solve(problem, method, iterations=iterations, seed=seed, record=[])
        gap = max(gap, abs(result.objective - problem.optimum))
        violations = {name: max(v, result.violation[name]) for name, v in violations.items()}
        assert problem.domain.contains(result.x)
        if method.trimming is not None:  # or there would be nothing to compare
            assert result.counts.lmo_skipped > 0.1 * iterations
        if not problem.constraints:  # no point of the domain is better than its best
            assert result.objective >= problem.optimum - 1e-7
    return gap, violations


# A matrix from noisy linear looks at it, the misfit's noise depending on x; the sets leave the
# truth out, so that constraints and trace bound all act.

N, TRACE, LOOKS = 6, 2.0, 24


@functools.cache
def looks():
    rng = np.random.default_rng(5)

    def psd(rank, trace):
        factor = rng.standard_normal((N, rank))
        return factor @ factor.T * (trace / np.sum(factor**2))

    look = rng.standard_normal((LOOKS, N, N)) / 2
    seen = np.einsum("kij,ij->k", look, psd(2, 2 * TRACE)) + 0.3 * rng.standard_normal(LOOKS)
    inside = psd(3, 0.8 * TRACE)
    rows, columns = np.triu_indices(3, 1)
    equality = rng.standard_normal((2, N * N))
    signs = rng.standard_normal((20, N * N))
    return {
        "data": {"look": look, "seen": seen},
        "entries": (rows, columns),
        "box": (inside[rows, columns] - 0.1, inside[rows, columns] + 0.1),
        "equality": (equality, equality @ inside.ravel()),
        "signs": signs * np.sign(signs @ inside.ravel())[:, None],
    }


def misfit(x, one):
    return (jnp.sum(one["look"] * x) - one["seen"]) ** 2 / 2


@functools.cache
def matrix_problem(sampled):
    """Problem P (a box and an equality), or P+ (a whole box and 20 sampled signs)."""
    given = looks()
    lower, upper = given["box"]
    x = cp.Variable((N, N), PSD=True)
    flat, entries = cp.vec(x, order="C"), x[given["entries"]]
    rules = [cp.trace(x) <= TRACE, entries >= lower, entries <= upper]
    rules += (
        [given["signs"] @ flat >= 0]
        if sampled
        else [given["equality"][0] @ flat == given["equality"][1]]
    )
    residual = given["data"]["look"].reshape(LOOKS, -1) @ flat - given["data"]["seen"]
    box = fw.constraints.Affine(
        fw.maps.Entries(*given["entries"], symmetric=True), fw.sets.Box(lower, upper), name="box"
    )
    if sampled:
        other = fw.constraints.Affine(given["signs"], fw.sets.Orthant(), name="signs", batch=5)
    else:
        matrix, value = given["equality"]
        other = fw.constraints.Affine(matrix, fw.sets.Point(value), name="equality")
    return fw.Problem(
        fw.objectives.FiniteSum(misfit, given["data"], batch=3),
        fw.domains.Spectrahedron(N, trace=TRACE),
        [box, other],
        optimum=optimum(cp.sum_squares(residual) / (2 * LOOKS), rules),
    )


# The gap of a penalty method falls as k^(-1/2) with whole constraints and with tables, as k^(-1/4)
# (most-fw+) or k^(-1/6) (h1-sfw) with sampled ones; mu_c trades it against the violation. Hence
# the loose numbers of the latter, whose smoothing mu_k is still 0.08 to 0.2 mu_c at the end.
# name: parameters, |gap| (the optimum is about 0.55), violation of the box, and of the other one.
WHOLE = {
    "hfw": ({"mu_c": 1.0}, 1.2e-2, 1.2e-2, 2e-3),
    "shcgm": ({"mu_c": 5.0}, 2.5e-2, 6e-2, 8e-3),
    "most-fw": ({"mu_c": 1.0}, 1.2e-2, 1.2e-2, 2e-3),
    "t-most-fw": ({"mu_c": 1.0, "tau_0": 20.0}, 1.2e-2, 1.2e-2, 2e-3),
    "zo-most-fw": ({"mu_c": 1.0}, 1.2e-2, 1.2e-2, 2e-3),
    # augmented Lagrangians, with nothing given
    "cgal": ({}, 3e-5, 1e-4, 4e-4),
    "most-al": ({}, 6e-4, 2e-4, 1e-3),
    "zo-most-al": ({}, 6e-4, 2e-4, 1e-3),
}
SAMPLED = {
    "h1-sfw": ({"mu_c": 0.1}, 8e-3, 4e-2, 1e-2),
    "h-spider-fw": ({"mu_c": 1.0}, 2e-2, 1.2e-2, 2.5e-3),
    "h-sag-cgm": ({"mu_c": 3.0}, 3e-2, 3.5e-2, 6e-3),
    "most-fw+": ({"mu_c": 1.0}, 6e-2, 0.15, 0.15),
    "t-most-fw+": ({"mu_c": 1.0, "tau_0": 0.5}, 6e-2, 0.15, 0.15),
    "zo-most-fw+": ({"mu_c": 1.0}, 6e-2, 0.15, 0.15),
    "most-al+": ({}, 2e-3, 5e-4, 1e-2),
}


@pytest.mark.parametrize("name", WHOLE)
def test_whole_constraints(name):
    parameters, gap, box, equality = WHOLE[name]
    found = worst_of(matrix_problem(sampled=False), fw.methods.get(name, **parameters), 20_000)
    assert found[0] <= gap
    assert found[1]["box"] <= box
    assert found[1]["equality"] <= equality


@pytest.mark.parametrize("name", SAMPLED)
def test_sampled_constraints(name):
    parameters, gap, box, signs = SAMPLED[name]
    found = worst_of(matrix_problem(sampled=True), fw.methods.get(name, **parameters), 20_000)
    assert found[0] <= gap
    assert found[1]["box"] <= box
    assert found[1]["signs"] <= signs


def logistic(x, one):
    return jnp.logaddexp(0.0, -one["label"] * jnp.dot(one["row"], x))


@functools.cache
def classification():
    """Sparse logistic regression: 40 labelled rows, ||x||_1 <= 2."""
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((40, 5))
    chance = 1 / (1 + np.exp(-2 * rows @ np.array([1.5, -1.0, 0.0, 0.0, 0.5])))
    labels = np.where(rng.random(40) < chance, 1.0, -1.0)
    x = cp.Variable(5)
    loss = cp.sum(cp.logistic(cp.multiply(-labels, rows @ x))) / 40
    return fw.Problem(
        fw.objectives.FiniteSum(logistic, {"row": rows, "label": labels}, batch=4),
        fw.domains.L1Ball(5, radius=2.0),
        optimum=optimum(loss, [cp.norm1(x) <= 2.0]),
    )


# 4064 iterations are eight whole epochs of svrf, whose steps start large again in each.
FREE = {
    "sfw": ("sfw", {}, 1e-2),  # the weight k^(-2/3) leaves noise: k^(-1/3)
    "1-sfw": ("1-sfw", {}, 5e-4),
    "1-sfw, Hessian": ("1-sfw", {"hessian": True}, 5e-4),
    "orgfw": ("orgfw", {}, 5e-4),
    "spider-fw": ("spider-fw", {}, 1e-6),
    "saga-fw": ("saga-fw", {}, 1e-5),
    "svrf": ("svrf", {"growth": 2}, 1e-6),
    "zo-fw": ("zo-fw", {}, 2e-7),
    "zo-sfw": ("zo-sfw", {}, 3e-3),
}


@pytest.mark.parametrize("label", FREE)
def test_without_constraints(label):
    name, parameters, gap = FREE[label]
    found, _ = worst_of(classification(), fw.methods.get(name, **parameters), 4064)
    assert found <= gap


def test_every_method_of_the_registry_is_compared():
    compared = {*WHOLE, *SAMPLED, *(name for name, _, _ in FREE.values())}
    assert compared == {*fw.methods.names(), "t-most-fw", "t-most-fw+"}


def entry_misfit(x, one):
    return (x[one["row"], one["column"]] - one["value"]) ** 2 / 2


@pytest.mark.parametrize(("name", "gap", "box"), [("hfw", 1.2e-3, 9e-3), ("most-fw", 8e-3, 1e-2)])
def test_matrix_completion_in_a_nuclear_ball(name, gap, box):
    rng = np.random.default_rng(2)
    truth = np.outer(rng.uniform(1, 2, 5), rng.uniform(1, 2, 4))
    rows, columns = np.nonzero(rng.random((5, 4)) < 0.6)
    values = truth[rows, columns]
    x = cp.Variable((5, 4))
    problem = fw.Problem(
        fw.objectives.FiniteSum(
            entry_misfit, {"row": rows, "column": columns, "value": values}, batch=2
        ),
        fw.domains.NuclearBall((5, 4), radius=8.0),
        fw.constraints.Affine(fw.maps.Identity(), fw.sets.Box(0.5, 2.0), name="range"),
        optimum=optimum(
            cp.sum_squares(x[rows, columns] - values) / (2 * len(values)),
            [cp.normNuc(x) <= 8.0, x >= 0.5, x <= 2.0],
        ),
    )
    found = worst_of(problem, fw.methods.get(name, mu_c=10.0), 10_000)
    assert found[0] <= gap
    assert found[1]["range"] <= box


def test_a_product_of_domains_with_a_coupling_constraint():
    rng = np.random.default_rng(3)
    mix, blend = rng.standard_normal((2, 4)), rng.standard_normal((2, 3))
    aim, share = rng.standard_normal(4), np.array([0.6, 0.3, 0.1])
    w, p = cp.Variable(4), cp.Variable(3)
    problem = fw.Problem(
        fw.objectives.Smooth(
            lambda x: jnp.sum((x["w"] - aim) ** 2) / 2 + jnp.sum((x["p"] - share) ** 2) / 2
        ),
        fw.domains.Product({"w": fw.domains.L1Ball(4, 1.5), "p": fw.domains.Simplex(3)}),
        fw.constraints.Affine(
            lambda x: mix @ x["w"] - blend @ x["p"], fw.sets.Point(0.1), name="coupling"
        ),
        optimum=optimum(
            (cp.sum_squares(w - aim) + cp.sum_squares(p - share)) / 2,
            [cp.norm1(w) <= 1.5, p >= 0, cp.sum(p) == 1, mix @ w - blend @ p == 0.1],
        ),
        dtype=np.float64,
    )
    found = worst_of(problem, fw.methods.hfw(mu_c=3.0), 20_000, seeds=[0])
    assert found[0] <= 1e-3
    assert found[1]["coupling"] <= 5e-3


def test_several_blocks_under_one_trace_bound():
    rng = np.random.default_rng(4)
    first, second = (m + m.T for m in (rng.standard_normal((3, 3)), rng.standard_normal((2, 2))))
    x, y = cp.Variable((3, 3), PSD=True), cp.Variable((2, 2), PSD=True)
    problem = fw.Problem(
        fw.objectives.Linear((first, second)),
        fw.domains.Spectrahedron((3, 2), trace=2.0),
        [
            fw.constraints.Affine(
                lambda blocks: (jnp.trace(blocks[0]) - jnp.trace(blocks[1]))[None],
                fw.sets.Point(0.5),
                name="balance",
            ),
            fw.constraints.Affine(
                lambda blocks: jnp.diag(blocks[0]), fw.sets.Box(0.2, 0.6), name="diagonal"
            ),
        ],
        optimum=optimum(
            cp.sum(cp.multiply(first, x)) + cp.sum(cp.multiply(second, y)),
            [
                cp.trace(x) + cp.trace(y) <= 2.0,
                cp.trace(x) - cp.trace(y) == 0.5,
                cp.diag(x) >= 0.2,
                cp.diag(x) <= 0.6,
            ],
        ),
    )
    found = worst_of(problem, fw.methods.hfw(mu_c=0.2), 20_000, seeds=[0])
    assert found[0] <= 4e-3
    assert found[1]["balance"] <= 4e-3
    assert found[1]["diagonal"] <= 1e-3


def simplex(x):
    return [x >= 0, cp.sum(x) == 1]


def birkhoff(x):
    return [x >= 0, cp.sum(x, axis=0) == 1, cp.sum(x, axis=1) == 1]


def k_sparse(x):
    return [cp.norm1(x) <= 2 * 0.5, cp.norm_inf(x) <= 0.5]


@pytest.mark.parametrize(
    ("domain", "shape", "rules", "gap"),
    [
        (fw.domains.Simplex(6), (6,), simplex, 5e-7),
        (fw.domains.Birkhoff(4), (4, 4), birkhoff, 3e-6),
        (fw.domains.KSparse(6, k=2, radius=0.5), (6,), k_sparse, 5e-7),
    ],
    ids=["simplex", "birkhoff", "k-sparse"],
)
def test_a_quadratic_over_a_polytope(domain, shape, rules, gap):
    rng = np.random.default_rng(6)
    rows = rng.standard_normal((8, int(np.prod(shape))))
    aim = rng.standard_normal(8)
    x = cp.Variable(shape)
    flat = cp.vec(x, order="C") if len(shape) > 1 else x
    problem = fw.Problem(
        fw.objectives.Smooth(lambda x: jnp.sum((rows @ x.ravel() - aim) ** 2) / 2),
        domain,
        optimum=optimum(cp.sum_squares(rows @ flat - aim) / 2, rules(x)),
        dtype=np.float64,
    )
    found, _ = worst_of(problem, exact_gradients, 10_000, seeds=[0])
    assert found <= gap
