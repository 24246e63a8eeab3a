"""Runs over several devices make the steps of one device, and no device ever has a whole matrix."""

import json
import math
import os
import subprocess
import sys
from collections import Counter
from importlib.metadata import version
from pathlib import Path

import pytest

from sharded import DEVICES, DRAWN, LARGE

WORKER = Path(__file__).with_name("sharded.py")
# A triangle inequality looks at three pairs of nodes: with all of them, or a table of them, devices
# must tell each other all of x. Drawn ones need no more than what is drawn. A table that is a point
# is made symmetric at each step.
TELLS_ALL = {"cut/most-fw", "cut/most-al+", "kmeans/h-sag-cgm"}
# What is gathered in a compiled loop, by how many numbers: vectors, and two points for triangles.
GATHERED = {
    "kmeans/t-most-fw": {64: 9},
    "kmeans/most-al+": {64: 8},
    "cut/most-fw": {24: 5, 2 * 24: 1, 24 * 24: 2},
    "cut/most-fw+": {24: 5},
}


@pytest.fixture(scope="module", params=["few", pytest.param("all", marks=pytest.mark.study)])
def found(request):
    flags = f"--xla_force_host_platform_device_count={DEVICES} --xla_backend_optimization_level=0"
    if version("jaxlib").startswith("0.10."):  # as in conftest.py: nothing is of the last bits
        flags += " --xla_cpu_use_fusion_emitters=false"
    run = subprocess.run(
        [sys.executable, str(WORKER), request.param],
        env=os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    return json.loads(run.stdout)


# Each test looks at all cases, and is not one test a case: of many, both workers of `make test`
# would take some, and each would run the process above.
def test_one_step_is_that_of_one_device(found):
    for case, one in found["cases"].items():
        assert ".x" in one["differences"] and ".atom.vector" in one["differences"]
        far = {name: d for name, d in one["differences"].items() if not d <= 1e-10}
        assert far == {}, case


def test_many_steps_end_within_seed_noise(found):
    for case, one in found["cases"].items():
        for measure, *singles in zip(one["sharded"], *one["singles"], strict=True):
            noise = max(singles) - min(singles)
            assert min(singles) - noise <= measure <= max(singles) + noise, case


def test_each_device_holds_its_rows(found):
    for case, one in found["cases"].items():
        assert "rows" in one["spec"], case
        assert one["shards"] == [[one["rows"] // DEVICES, one["rows"]]], case


def largest(kind, shapes):
    """Of an all-to-all each device gets its part from each other one, apart."""
    return (sum if kind == "all-to-all" else max)(map(math.prod, shapes))


def test_no_collective_has_a_matrix(found):
    for case, one in found["cases"].items():
        limit = max(one["rows"] ** 2 // DEVICES, DRAWN + 1)
        sizes = [largest(*told) for told in one["collectives"]]
        assert sizes, case  # devices do tell each other things
        assert (max(sizes) >= limit) == (case in TELLS_ALL), case


def test_only_the_collectives_that_are_expected(found):
    """A better compiler may need fewer."""
    for case, expected in GATHERED.items():
        told = found["cases"][case]["collectives"]
        kinds = {"all-gather", "all-reduce"} | ({"all-to-all"} if case in TELLS_ALL else set())
        assert {kind for kind, _ in told} <= kinds, case
        gathered = Counter(largest(*each) for each in told if each[0] == "all-gather")
        assert gathered <= Counter(expected), case
        assert gathered[found["cases"][case]["rows"]] > 0, case
        summed = [largest(*each) for each in told if each[0] == "all-reduce"]
        assert max(summed) <= DRAWN, case


def test_a_device_holds_its_share(found):
    one, many = found["bytes"]["1"], found["bytes"][str(DEVICES)]
    assert many["held"] < one["held"] / 4
    point = 8 * LARGE**2
    assert many["given_away"] >= 3 * point / DEVICES  # x, y and the trimming's reference
    assert many["largest"] <= LARGE


def test_devices_share_draws_and_directions(found):
    for name, one in found["shared"].items():
        assert one["difference"] <= 1e-10, name
        alone, together = one["operations"]
        if name == "i-rdsa":  # a loop over directions: a turn is the same, and turns are fewer
            assert together < 1.5 * alone
        else:
            assert together < 1.5 * alone / DEVICES + 2000, name


def test_runs_go_on_over_other_meshes(found):
    solved = found["solved"]
    assert solved["devices"] == [DEVICES, 4, 1, 2]
    assert solved["iterations"] == [20, 40, 60, 80]
    assert solved["on_host"] == "ndarray"
    continued, plain = solved["objectives"]
    assert continued == pytest.approx(plain, rel=1e-3)


def test_meshes_that_do_not_fit_are_refused(found):
    uneven, many, flag, vectors, axis = found["refused"]
    assert "3 devices" in uneven and "1030 rows" in uneven and "mesh=2" in uneven
    assert "mesh is 9" in many and "from 1 to 8" in many
    assert "mesh is True" in flag
    assert "(8,)" in vectors and "leave it out" in vectors
    assert "('columns',)" in axis
