"""Small problems that several test files use."""

import inspect
import json
import subprocess
import sys

import jax.numpy as jnp
import numpy as np

import mostfw as fw


def ring_with_chords(nodes=8, seed=0):
    rng = np.random.default_rng(seed)
    ring = [(i, (i + 1) % nodes) for i in range(nodes)]
    chords = [tuple(sorted(rng.choice(nodes, 2, replace=False))) for _ in range(nodes)]
    return fw.graphs.as_graph([(u, v) for u, v in ring + chords if u != v], f"ring-{nodes}")


def cut_problem(batch=None, constraint_batch=None, seed=0):
    return fw.problems.sparsest_cut(
        ring_with_chords(seed=seed),
        batch=batch,
        constraint_batch=constraint_batch,
        sampling="entries",
    )


def clustering_problem(batch=None, constraint_batch=None, seed=0):
    points = np.random.default_rng(seed).standard_normal((8, 2))
    points[:4] += 4
    return fw.problems.kmeans(
        points,
        2,
        batch=batch,
        constraint_batch=constraint_batch,
        sampling="entries",
        sign_weight=10.0,
    )


def covariance_problem(batch=None, seed=0):
    rng = np.random.default_rng(seed)
    data = rng.standard_normal((30, 6))
    return fw.problems.covariance(data=data, batch=batch, sampling="replacement")


def _logistic(x, row):
    return jnp.logaddexp(0.0, -row["label"] * jnp.dot(row["feature"], x))


def logistic_problem(batch=None, seed=0, rows=40, dimension=5):
    """Not quadratic, and its noise depends on x."""
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((rows, dimension))
    labels = np.sign(features @ rng.standard_normal(dimension) + 0.5 * rng.standard_normal(rows))
    data = {"feature": features, "label": labels}
    return fw.Problem(
        fw.objectives.FiniteSum(_logistic, data, batch=batch), fw.domains.L1Ball(dimension, 3.0)
    )


def problem_for(method):
    """Eight numbers, with the constraint and the samples that the method can handle."""
    rules = []
    if method.constraints != "none":
        batch = 5 if method.constraints == "sampled" else None
        rules = [fw.constraints.Affine(np.eye(8), fw.sets.Box(0.0, 1.0), batch=batch)]
    data = np.arange(24.0).reshape(3, 8)
    objective = fw.objectives.FiniteSum(lambda x, row: jnp.dot(row, x) ** 2, data, batch=1)
    if method.tracker.needs_table and method.constraints == "sampled":
        objective = fw.objectives.Linear(np.arange(8.0), batch=2)
    return fw.Problem(objective, fw.domains.Simplex(8), rules)


WITH_CONSTRAINTS = {
    "cut": cut_problem,
    "clustering": clustering_problem,
    "covariance": covariance_problem,
}


def with_unit_constant(name, **parameters):
    """A method by name with mu_c or beta_0 = 1 where it has one: not scaled to the problem."""
    function = fw.methods.METHODS[name.removeprefix("t-")]
    for constant in ("mu_c", "beta_0"):
        if constant in inspect.signature(function).parameters:
            parameters.setdefault(constant, 1.0)
    return fw.methods.get(name, **parameters)


def modules_after(code):
    """The modules of a new process that has run the code: `import mostfw` alone imports nothing."""
    code = f"import json, sys\n{code}\nprint(json.dumps([*sys.modules]))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(out.stdout))


def compiled_programs(monkeypatch):
    """A list that grows with each program that is compiled."""
    compiled = []
    from jax._src import compiler

    own = compiler.compile_or_get_cached

    def counted(*args, **options):
        compiled.append(1)
        return own(*args, **options)

    monkeypatch.setattr(compiler, "compile_or_get_cached", counted)
    return compiled


def spider_samples(total, iterations):
    """A whole sum when k is a power of two, else both points on min(total, epoch length)."""
    spent = 0
    for k in range(1, iterations + 1):
        length = 2 ** (k.bit_length() - 1)
        spent += total if k == length else 2 * min(total, length)
    return spent


def snapshot_samples(total, iterations, growth=96):
    """A whole sum when an epoch begins, else both points on min(total, growth (j + 1))."""
    spent, k = 0, 0
    for epoch in range(1, 20):
        for j in range(1, 2 ** (epoch + 3) - 1):
            k += 1
            if k > iterations:
                return spent
            spent += total if j == 1 else 2 * min(total, growth * (j + 1))
    raise AssertionError
