"""Runs over eight devices, for test_sharding.py: JAX must be told how many there are before it
starts (XLA_FLAGS), so this is a process of its own, which prints what it found as JSON."""

import json
import shutil
import sys
import tempfile
import time
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

import mostfw as fw
from mostfw import placement
from mostfw.frank_wolfe import advance, start
from mostfw.measures import measures
from mostfw.trees import replaced

DEVICES = 8
AHEAD, STEPS, SEEDS = 5, 200, 5
LARGE = 512  # rows, where memory is looked at
DRAWN = 200
METHODS = ("most-fw", "most-fw+", "t-most-fw", "cgal", "most-al", "most-al+", "h-sag-cgm")
METHODS += ("shcgm", "h1-sfw")
# Those of the trackers that no method with constraints has; and what their methods are called with.
UNCONSTRAINED = ("1-sfw", "svrf", "saga-fw")
PARAMETERS = {"1-sfw": {"hessian": True}, "svrf": {"growth": 2}}
FEW = [("kmeans", "t-most-fw"), ("kmeans", "most-al+"), ("cut", "most-fw"), ("cut", "most-fw+")]
CASES = [
    *(("kmeans", name) for name in METHODS),
    *(("cut", name) for name in ("most-fw", "most-fw+", "most-al+")),
    *(("covariance", name) for name in ("t-most-fw", "most-al")),
]


@cache
def problem_of(kind, n, sampled):
    rng = np.random.default_rng(0)
    drawn = DRAWN if sampled else None
    if kind == "kmeans":
        points = rng.standard_normal((n, 3)) + 4 * rng.integers(0, 3, (n, 1))
        return fw.problems.kmeans(points, clusters=3, batch=DRAWN, constraint_batch=drawn)
    if kind.startswith("cut"):
        upper = np.triu(rng.random((n, n)) < 0.3, 1)
        graph = (upper + upper.T).astype(float)
        return fw.problems.sparsest_cut(graph, batch=20, constraint_batch=drawn)
    if kind == "sum":
        data = {"row": rng.standard_normal((50, n)) / n**0.5, "aim": rng.standard_normal(50)}
        objective = fw.objectives.FiniteSum(_misfit, data, batch=10)
        return fw.Problem(objective, fw.domains.Spectrahedron(n, trace=3.0))
    return fw.problems.covariance(n=n, blocks=4)


def _misfit(x, given):
    return (given["row"] @ x @ given["row"] - given["aim"]) ** 2 / 2


def _logistic(x, row):
    return jnp.logaddexp(0.0, -row["label"] * jnp.dot(row["feature"], x))


@cache
def vector_problem():
    """A finite sum over vectors: there are no rows to spread, but draws and directions."""
    rng = np.random.default_rng(0)
    features = rng.standard_normal((400, 100))
    labels = np.sign(features @ rng.standard_normal(100))
    objective = fw.objectives.FiniteSum(_logistic, {"feature": features, "label": labels}, batch=64)
    return fw.Problem(objective, fw.domains.L1Ball(100, 3.0))


class Setting:
    """A method on a problem, over so many devices; None: without a mesh."""

    def __init__(self, kind, name, n, devices):
        # steps are compared to 1e-10, which LMOs in single precision are not alike to
        method = fw.methods.get(name, **PARAMETERS.get(name, {}))
        method = replaced(method, lmo_precision="full")
        self._begin(problem_of(kind, n, method.constraints == "sampled"), method, devices)

    @staticmethod
    def of(problem, method, devices):
        made = object.__new__(Setting)
        made._begin(problem, method, devices)
        return made

    def _begin(self, problem, method, devices):
        self.problem = problem
        method = method.bind(problem)
        self.mesh = placement.mesh_of(devices, problem.structure, shares_work=True)
        with placement.on(self.mesh):
            self.whole = self.problem.on_device()
            self.core = self.whole.core()
            self.method = placement.placed(method, self.problem.structure)

    def start(self):
        with placement.on(self.mesh):
            return start(self.core, self.method)

    def placed(self, state):
        with placement.on(self.mesh):
            return placement.placed(jax.tree.map(np.array, state), self.problem.structure)

    def fixed(self, until, seed=0):
        numbers = jnp.asarray(until, jnp.int32), None, jnp.asarray(1, jnp.int32)
        return (self.core, self.method, jax.random.PRNGKey(seed), *numbers)

    def advanced(self, state, until, seed=0):
        with placement.on(self.mesh):
            return jax.block_until_ready(advance(self.fixed(until, seed), state))

    def measured(self, state):
        with placement.on(self.mesh):
            objective, violations, _ = measures(self.whole, state, None)
        return [float(objective), *map(float, violations)]

    def compiled(self, state):
        with placement.on(self.mesh):
            return advance.lower(self.fixed(1), state).compile()


def compared(one, other):
    """The largest difference of each leaf, relative to its largest number; atoms are compared as
    matrices, for the sign of a vector is nobody's."""
    found = {}
    for state in (one, other):
        vector = np.asarray(state.atom.vector)
        atom = float(state.atom.scale) * np.outer(vector, vector)
        leaves = jax.tree_util.tree_flatten_with_path(state)[0]
        named = {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}
        named[".atom.vector"] = atom
        for name, leaf in named.items():
            found.setdefault(name, []).append(leaf.astype(float))
    return {
        name: float(np.max(np.abs(a - b), initial=0) / max(np.max(np.abs(a), initial=0), 1e-300))
        for name, (a, b) in found.items()
    }


def one_case(kind, name):
    n = 24 if kind == "cut" else 64
    # below 64 a single device has another LMO than a mesh: there a mesh of one is the reference
    one = Setting(kind, name, n, 1 if kind == "cut" else None)
    many = Setting(kind, name, n, DEVICES)
    began = time.perf_counter()
    state = one.advanced(one.start(), AHEAD)
    kept = jax.tree.map(np.array, state)
    stepped = one.advanced(state, AHEAD + 1)
    state = many.placed(kept)
    program = many.compiled(state)
    sharded = program(many.fixed(AHEAD + 1), state)
    differences = compared(stepped, sharded)
    text = program.compiled.as_text()
    listed = [(c.kind, c.shapes) for c in placement.collectives(text)]
    shards = {tuple(shard.data.shape) for shard in sharded.x.addressable_shards}
    singles = [one.measured(one.advanced(one.start(), STEPS, seed)) for seed in range(SEEDS)]
    last = one.measured(one.placed(program(many.fixed(STEPS), sharded)))
    return {
        "differences": differences,
        "spec": str(sharded.x.sharding.spec),
        "collectives": listed,
        "shards": sorted(shards),
        "rows": n,
        "singles": singles,
        "sharded": last,
        "seconds": time.perf_counter() - began,
    }


def bytes_of(devices):
    """What one device holds of a step: its arguments and what the program makes beside them."""
    setting = Setting("kmeans", "t-most-fw", LARGE, devices)
    compiled = setting.compiled(setting.start()).compiled
    found = compiled.memory_analysis()
    listed = [c.largest for c in placement.collectives(compiled.as_text())]
    return {
        "held": found.argument_size_in_bytes + found.temp_size_in_bytes,
        "given_away": found.alias_size_in_bytes,
        "largest": max(listed, default=0),
    }


def shared():
    """What a device does of a step whose draws or directions are shared: operations, and whether
    the steps are those of one device."""
    found = {}
    oracles = {"cge": fw.oracles.CGE(), "kwsa": fw.oracles.KWSA(), "i-rdsa": fw.oracles.IRDSA(13)}
    methods = {name: fw.methods.get("zo-sfw", oracle=oracle) for name, oracle in oracles.items()}
    for name, method in {"gradients": fw.methods.most_fw(), **methods}.items():
        ends, operations = [], []
        for devices in (None, DEVICES):
            setting = Setting.of(vector_problem(), method, devices)
            program = setting.compiled(setting.start())
            operations.append(program.compiled.cost_analysis()["flops"])
            ends.append(np.asarray(setting.advanced(setting.start(), 30).x))
        found[name] = {
            "operations": operations,
            "difference": float(np.max(np.abs(ends[0] - ends[1]))),
        }
    return found


def solved():
    """A run over eight devices, kept on disk, and taken up over four and over one."""
    problem, method = problem_of("kmeans", 64, False), fw.methods.most_fw()
    folder = tempfile.mkdtemp()
    try:
        first = fw.solve(problem, method, iterations=20, mesh=DEVICES, checkpoint=folder)
        again = fw.solve(problem, method, iterations=40, mesh=4, checkpoint=folder)
        whole = fw.solve(problem, method, iterations=60, checkpoint=folder)
    finally:
        shutil.rmtree(folder)
    warm = fw.solve(problem, method, iterations=20, warm_start=whole, mesh=2)
    plain = fw.solve(problem, method, iterations=80)
    runs = [first, again, whole, warm]
    return {
        "devices": [len(run.state.x.sharding.device_set) for run in runs],
        "iterations": [run.iterations for run in runs],
        "objectives": [warm.objective, plain.objective],
        "on_host": type(first.x).__name__,
    }


def refused():
    """What is said of meshes that do not fit."""
    kmeans, large = problem_of("kmeans", 64, False), problem_of("kmeans", 1030, False)
    vectors = fw.Problem(fw.objectives.Linear(np.ones(8)), fw.domains.Simplex(8))
    columns = jax.sharding.Mesh(np.array(jax.devices()[:2]), ("columns",))
    said = []
    for problem, mesh in [
        (large, 3),
        (kmeans, 9),
        (kmeans, True),
        (vectors, 2),
        (kmeans, columns),
    ]:
        try:
            fw.solve(problem, iterations=1, mesh=mesh)
        except fw.InvalidInputError as error:
            said.append(str(error))
    return said


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    cases = FEW if sys.argv[1:] == ["few"] else CASES
    found = {"cases": {"/".join(case): one_case(*case) for case in cases}}
    found["shared"] = shared()
    found["bytes"] = {devices: bytes_of(devices) for devices in (1, DEVICES)}
    print(json.dumps({**found, "solved": solved(), "refused": refused()}))
