"""What a run will hold is known before it is made, and refused where the device has no room."""

import time
import tracemalloc

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from benchmarks import instances

import mostfw as fw
from common import compiled_programs, problem_for
from mostfw import memory, resources, scaling
from mostfw.frank_wolfe import advance, start
from mostfw.trees import replaced

GB = 10**9
LAPTOP = 16 * GB


def compiled_bytes(problem, method):
    """State and scratch of the compiled loop."""
    with problem.precision():
        core, bound = problem.on_device().core(), memory._bound(problem, method)
        state, number = start(core, bound), jnp.asarray(1, jnp.int32)
        fixed = (core, bound, jax.random.PRNGKey(0), number, None, number)
        analysis = advance.lower(fixed, state).compile().compiled.memory_analysis()
    fresh = max(0, analysis.output_size_in_bytes - analysis.alias_size_in_bytes)
    return memory._bytes(state) + analysis.temp_size_in_bytes + fresh


def kmeans(n, plus=False, dtype=np.float64):
    return instances.kmeans(instances.blobs(n), plus, dtype)


def covariance(n):
    return fw.problems.covariance(n, dtype=np.float32)


def max_cut(n):
    return fw.problems.max_cut(instances.random_graph(n))


WHOLE = ("most-fw", "t-most-fw", "most-al")
CASES = [
    *[(kmeans, name) for name in WHOLE],
    *[(covariance, name) for name in WHOLE],
    *[(max_cut, name) for name in WHOLE],
    *[(lambda n: kmeans(n, plus=True), name) for name in ("most-fw+", "h-sag-cgm")],
]
# some of each kind in every `make test`, all of them in `make studies`
CASES = [
    case if index % 3 == 1 else pytest.param(*case, marks=pytest.mark.study)
    for index, case in enumerate(CASES)
]


@pytest.mark.slow
@pytest.mark.exact  # programs that are optimised less hold more
@pytest.mark.parametrize("build, name", CASES)
def test_the_estimate_is_that_of_the_compiled_program(build, name):
    problem, method = build(500), fw.methods.get(name)
    need = memory.estimate(problem, method)
    assert need.state + need.step == pytest.approx(compiled_bytes(problem, method), rel=0.25)


def measuring_bytes(problem):
    """What the program that measures a problem's units makes."""
    with problem.precision():
        device = problem.on_device()
        rows = tuple(scaling._row_weights(c, device) for c in device.constraints)
        lowered = scaling._lengths.lower(device, problem.objective, rows, None, True)
        analysis = lowered.compile().compiled.memory_analysis()
    return analysis.temp_size_in_bytes + analysis.output_size_in_bytes


@pytest.mark.slow
@pytest.mark.exact
@pytest.mark.parametrize("build", [kmeans, lambda n: kmeans(n, plus=True), covariance, max_cut])
def test_the_estimate_of_measuring_is_that_of_the_compiled_program(build):
    problem = build(500)
    estimated = memory._units_bytes(problem)
    assert estimated == pytest.approx(measuring_bytes(problem), rel=0.25)


def huge_graph(n=100_000):
    ring = np.arange(n)
    return scipy.sparse.coo_array((np.ones(n), (ring, (ring + 1) % n)), shape=(n, n))


HUGE = {
    "k-means": lambda: fw.problems.kmeans(np.zeros((100_000, 3)) + np.arange(3), 3),
    "k-means, P+": lambda: fw.problems.kmeans(
        np.zeros((100_000, 3)) + np.arange(3), 3, batch=1000, constraint_batch=1000
    ),
    "max-cut": lambda: fw.problems.max_cut(huge_graph() + huge_graph().T),
    "spectrahedron": lambda: fw.Problem(
        fw.objectives.Laplacian([(0, 99_999)]), fw.domains.Spectrahedron(10**5, trace=1.0)
    ),
}


@pytest.mark.parametrize("name", list(HUGE))
def test_a_problem_too_large_is_posed_and_refused_without_making_anything_large(name):
    tracemalloc.start()
    began = time.perf_counter()
    problem = HUGE[name]()
    method = fw.methods.most_fw_plus() if "P+" in name else fw.methods.most_fw()
    with pytest.raises(fw.ResourceError, match="needs about") as caught:
        memory.require(problem, method, available=LAPTOP)
    seconds, (_, peak) = time.perf_counter() - began, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < GB / 4
    assert seconds < 20  # it is 1 on an idle machine, most of it tracing
    error = caught.value
    assert isinstance(error, MemoryError)
    assert error.needed > 2 * 8 * 10**10
    assert error.available == LAPTOP
    assert problem.name in str(error)
    assert "has 16 GB left" in str(error)
    assert "n up to about" in str(error)


def refusal(problem, method, available, **options):
    with pytest.raises(fw.ResourceError) as caught:
        memory.require(problem, method, available, **options)
    return str(caught.value)


def test_what_would_fit_is_named_with_its_estimate():
    problem, method = kmeans(4000), fw.methods.most_fw(mu_c=1.0)
    needed = memory.estimate(problem, method).total
    assert "float32 (about" in refusal(problem, method, int(needed * 0.7))
    said = refusal(problem, fw.methods.trimmed(method), int(1.01 * needed / 1.25))
    assert "float32" in said
    said = refusal(problem, method, int(1.1 * needed), certify=True)
    assert f"certify=False (about {memory.in_words(needed)})" in said
    assert "a GPU or machine with" in said


def test_the_largest_side_that_is_named_fits():
    method = fw.methods.most_fw(mu_c=1.0)
    said = refusal(kmeans(20_000, dtype=np.float32), method, GB)
    side = int(said.split("n up to about ")[1].rstrip("."))
    memory.require(kmeans(side, dtype=np.float32), method, GB)
    assert side > 5000


def test_multipliers_of_very_many_rows_are_named():
    graph = instances.random_graph(600)
    said = refusal(fw.problems.sparsest_cut(graph), fw.methods.most_al(), 2 * GB)
    assert "most-fw, which keeps no multipliers (about" in said
    assert "most-fw+, which keeps none (about" in said


def test_a_sweep_needs_the_states_of_all_its_members():
    problem, method = kmeans(2000), fw.methods.most_fw(mu_c=1.0)
    one = memory.estimate(problem, method)
    ten = memory.estimate(problem, method, members=10)
    assert ten.state == 10 * one.state
    said = refusal(problem, method, 2 * one.total, members=10)
    assert "a sweep of 10 members" in said
    assert "one solve after the other" in said


def test_what_fits_is_not_refused_and_takes_no_time():
    problem, method = kmeans(300), fw.methods.most_al()
    memory.require(problem, method)
    began = time.perf_counter()
    for _ in range(20):
        memory.require(problem, method)
    assert (time.perf_counter() - began) / 20 < 0.02  # 1 ms on an idle machine
    need = memory.estimate(problem, method)
    memory.require(problem, method, available=need.total)
    memory.require(problem, method, available=int(need.total / 1.2))
    with pytest.raises(fw.ResourceError):
        memory.require(problem, method, available=need.total // 2)


@pytest.mark.parametrize("name", fw.methods.names())
def test_every_method_has_an_estimate_below_the_rough_one(name):
    method = fw.methods.get(name)
    problem = problem_for(method)
    need = memory.estimate(problem, method)
    assert 3 * 64 <= need.state <= need.total < memory._rough_bytes(problem, method)


def test_float32_takes_half():
    method = replaced(fw.methods.most_fw(mu_c=1.0), lmo_precision="full")
    double, single = (
        memory.estimate(kmeans(2000, dtype=dtype), method) for dtype in (np.float64, np.float32)
    )
    assert single.total == pytest.approx(double.total / 2, rel=0.01)


# What the machine has


def test_a_container_has_less_than_the_machine(tmp_path, monkeypatch):
    monkeypatch.setattr(resources, "_GROUPS", tmp_path)
    whole = resources.machine_bytes()
    (tmp_path / "memory.max").write_text("max\n")
    assert resources.machine_bytes() == whole
    (tmp_path / "memory.max").write_text("1000000\n")
    (tmp_path / "memory.current").write_text("700000\n")
    (tmp_path / "memory.stat").write_text("anon 300000\ninactive_file 400000\n")
    assert resources.machine_bytes() == 1_000_000
    assert resources.available_bytes() == 700_000  # the system would drop the files
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "memory.limit_in_bytes").write_text("600000\n")  # version 1
    assert resources.machine_bytes() == 600_000
    (tmp_path / "memory" / "memory.usage_in_bytes").write_text("900000\n")
    assert resources.available_bytes() == 0


def test_where_nothing_tells_nothing_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(resources, "_GROUPS", tmp_path)
    monkeypatch.setattr(resources, "_MEMORY", tmp_path / "absent")
    monkeypatch.setattr(resources.os, "sysconf", lambda name: int("no"))
    assert resources.machine_bytes() is None
    assert resources.available_bytes() is None
    memory.require(HUGE["spectrahedron"](), fw.methods.most_fw())


def test_an_accelerator_says_what_it_has(monkeypatch):
    stats = {"bytes_limit": 100, "bytes_in_use": 30}
    monkeypatch.setattr(resources, "_accelerator", lambda: stats)
    assert (resources.accelerator_bytes(), resources.available_bytes()) == (100, 70)


# Many solves in one process


def fresh_problem(seed):
    rng = np.random.default_rng(seed)
    return fw.Problem(
        fw.objectives.Linear(rng.standard_normal((4, 4))),
        fw.domains.Spectrahedron(4, trace=1.0),
        [fw.constraints.Affine(fw.maps.Diagonal(), fw.sets.Box(0.0, 0.5))],
    )


def resident_bytes():
    return resources._named_number(resources.Path("/proc/self/status"), "VmRSS:") * 1024


@pytest.mark.slow
@pytest.mark.skipif(resources.maps_in_use() is None, reason="needs /proc")
@pytest.mark.parametrize("count", [300, pytest.param(1000, marks=pytest.mark.study)])
def test_a_thousand_solves_hold_no_more_than_fifty(count, monkeypatch):
    method = fw.methods.most_fw(mu_c=1.0)

    def solve_some(first, count):
        for seed in range(first, first + count):
            fw.solve(fresh_problem(seed), method, iterations=2, record=2, seed=seed, certify=False)

    solve_some(0, 50)
    arrays, maps, before = len(jax.live_arrays()), resources.maps_in_use(), resident_bytes()
    compiled = compiled_programs(monkeypatch)
    solve_some(50, count)
    assert not compiled
    assert len(jax.live_arrays()) <= arrays
    assert resources.maps_in_use() < maps + 50
    assert resident_bytes() - before < 8e6


def test_programs_are_forgotten_before_there_are_too_many(monkeypatch):
    forgotten = []
    monkeypatch.setattr(resources.jax, "clear_caches", lambda: forgotten.append(1))
    monkeypatch.setattr(resources, "most_maps", lambda: 1000)
    monkeypatch.setattr(resources, "maps_in_use", lambda: 599)
    keeper = resources.ProgramKeeper(every=4)
    assert not any(keeper.look() for _ in range(40))
    monkeypatch.setattr(resources, "maps_in_use", lambda: 601)
    assert [keeper.look() for _ in range(3)] == [False] * 3
    with pytest.warns(fw.MostFWWarning, match="601 memory maps of the 1000.*several processes"):
        assert keeper.look()
    assert forgotten == [1]
    monkeypatch.setattr(resources, "maps_in_use", lambda: None)
    assert not any(keeper.look() for _ in range(8))
