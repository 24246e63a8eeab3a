"""One of several processes that make runs together, for test_joint.py, which starts them all.

What the first one finds goes to a folder as JSON, part by part: one of them may be killed."""

import argparse
import contextlib
import json
import os
import sys
import time
from pathlib import Path

import jax
import numpy as np
from jax.experimental import multihost_utils

import mostfw as fw
from mostfw import placement, processes
from mostfw.frank_wolfe import start
from sharded import UNCONSTRAINED, Setting, compared

SIZES = {"kmeans": 512, "cut": 55, "cut by rows": 64, "covariance": 256, "sum": 64}
AHEAD = 5
# Where the sixth LMO is a tie of 0 and the vector of ones, which rounding decides.
SOONER = {("cut by rows", "most-fw"): 4}
KMEANS = ("most-fw", "most-fw+", "t-most-fw", "shcgm", "h1-sfw", "h-spider-fw", "h-sag-cgm")
KMEANS += ("cgal", "most-al", "most-al+")
# Every tracker, and every way to handle constraints
EACH = (
    *(("kmeans", name) for name in KMEANS),
    *(("cut", name) for name in ("most-fw", "most-fw+", "most-al+", "zo-most-fw")),
    *(("cut by rows", name) for name in ("most-fw", "most-al+")),
    ("covariance", "most-al"),
    *(("sum", name) for name in UNCONSTRAINED),
)
ALL = (*EACH, ("cut", "h-spider-fw"), ("covariance", "t-most-fw"), ("covariance", "shcgm"))
LONG = (("kmeans", "most-fw"), ("cut", "most-fw"), ("covariance", "most-al"))
# Steps that are made on from the one that is compared, and the seeds that they are compared with.
FURTHER = {"each": (0, 0), "all": (100, 5), "long": (2000, 5)}
KEPT_STEPS, KEPT_RECORD, SEED, METHOD = 400, 60, 3, "t-most-fw"


def told(tree, like, teller):
    """One process's arrays, on all."""
    mine = jax.process_index() == teller
    own = tree if mine else jax.tree.map(lambda s: np.zeros(s.shape, s.dtype), like)
    told = multihost_utils.broadcast_one_to_all(own, is_source=mine)
    return jax.tree.map(np.asarray, told)


def on_one_device(kind, name):
    """A state, and the one after it."""
    one, ahead = Setting(kind, name, SIZES[kind], None), SOONER.get((kind, name), AHEAD)
    state = one.advanced(one.start(), ahead)
    kept = jax.tree.map(np.array, state)
    return kept, jax.tree.map(np.array, one.advanced(state, ahead + 1))


def one_case(kind, name, states, teller, steps, seeds):
    """A step from one state, on one device of a process and on all; then many."""
    n = SIZES[kind]
    one, many = Setting(kind, name, n, None), Setting(kind, name, n, jax.device_count())
    with placement.on(many.mesh):
        like = jax.eval_shape(lambda: start(many.core, many.method))
        kept, stepped = told(states, (like, like), teller)
    sharded = many.advanced(many.placed(kept), int(kept.k) + 1)
    spec = str(sharded.x.sharding.spec)
    with placement.on(many.mesh):
        differences = compared(stepped, processes.whole(sharded))
    found = {"differences": differences, "spec": spec}
    if not steps:
        return found
    began = time.perf_counter()
    last = many.measured(many.advanced(sharded, steps))
    spent = (time.perf_counter() - began) / steps
    # each process makes some of the runs on one device
    own, mine = np.zeros((seeds, len(last))), range(jax.process_index(), seeds, jax.process_count())
    for seed in mine:
        own[seed] = one.measured(one.advanced(one.start(), steps, seed))
    with placement.on(many.mesh):
        singles = processes.gathered(*own.ravel()).sum(axis=0).reshape(own.shape)
    return {**found, "sharded": last, "singles": singles.tolist(), "seconds_a_step": spent}


def compared_cases(cases, part, given):
    found, own, many = {}, jax.process_index(), jax.process_count()
    with placement.on(placement.mesh_of(jax.device_count(), kept_problem().structure)):
        processes.gathered(0.0)  # Gloo connects now: later it would wait for who compiles longest
    states = {case: on_one_device(*case) for case in cases[own::many]}
    for number, case in enumerate(cases):
        began = time.perf_counter()
        teller = number % many
        found["/".join(case)] = one_case(*case, states.get(case), teller, *FURTHER[part])
        print(*case, f"{time.perf_counter() - began:.1f} s", file=sys.stderr, flush=True)
        (given.out / f"{part}-so-far-{jax.process_index()}").write_text(json.dumps(found))
    return found


def kept_problem():
    rng = np.random.default_rng(0)
    points = rng.standard_normal((64, 3)) + 4 * rng.integers(0, 3, (64, 1))
    return fw.problems.kmeans(points, clusters=3, batch=200)


def solved(steps=KEPT_STEPS, **given):
    """The run that is disturbed, or the same undisturbed."""
    given = {"certify": False, "mesh": jax.device_count(), "seed": SEED, **given}
    return fw.solve(kept_problem(), METHOD, iterations=steps, **given)


def bits(result):
    """All numbers of the state, as words."""
    mesh = placement.mesh_of(jax.device_count(), result.problem.structure)
    with placement.on(mesh):
        leaves = jax.tree.leaves(processes.whole(result.state))
    return [np.asarray(leaf).tobytes().hex() for leaf in leaves]


def summary(**given):
    """Of the run, and at which record points this piece of it has been."""
    seen = []
    result = solved(record=[KEPT_RECORD], callback=lambda r: seen.append(r.iteration), **given)
    return {
        "seen": seen,
        "bits": bits(result),
        "iterations": result.iterations,
        "objective": result.objective,
        "violation": list(result.relative_violation.values()),
        "status": result.status.name,
        "records": [r.iteration for r in result.history],
    }


def symmetric_matrix():
    rng = np.random.default_rng(1)
    matrix = rng.standard_normal((64, 64))
    return matrix + matrix.T


def linear_problem(matrix):
    domain = fw.domains.Spectrahedron(64, trace=1.0, equality=True)
    return fw.Problem(fw.objectives.Linear(matrix), domain)


def data_by_rows(folder):
    """An objective whose matrix is spread over the processes already, and never gathered."""
    matrix = symmetric_matrix()
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("rows",))
    place = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("rows"))
    spread = jax.make_array_from_callback(matrix.shape, place, lambda index: matrix[index])
    result = fw.solve(linear_problem(spread), "sfw", iterations=300, mesh=mesh, checkpoint=folder)
    certificate = result.certificate
    return {
        "objective": result.objective,
        "wanted": float(np.linalg.eigvalsh(matrix)[0]),
        "apart": processes.apart(result.x),
        "lower": certificate.lower,
        "kind": certificate.kind,
    }


def refused():
    """What is said to processes that do not agree, or would not stay in step."""
    said = []
    failing = jax.process_index() == 1
    with placement.on(placement.mesh_of(jax.device_count(), kept_problem().structure)):
        try:
            with processes.in_step("trying"):
                if failing:
                    raise ValueError("it was I")
        except (ValueError, fw.PeerError) as error:
            said.append(f"{type(error).__name__}: {error}")
    for mesh in (jax.device_count() + 1, 1):
        try:
            fw.solve(kept_problem(), iterations=1, mesh=mesh)
        except fw.InvalidInputError as error:
            said.append(str(error))

    def fails(record):
        raise ValueError("no more")

    try:
        solved(steps=3, callback=fails)
    except fw.UserCodeError as error:
        said.append(f"{error.result.iterations} {error}")
    asked = solved(steps=30, callback=lambda record: record.iteration >= 5)
    return [*said, asked.status.name]


PARTS = {
    "undisturbed": lambda given: summary(),
    "kept": lambda given: summary(checkpoint=given.folder, every=0.05),
    "rows": lambda given: data_by_rows(given.out / "spread"),
    "refused": lambda given: refused(),
    "each": lambda given: compared_cases(EACH, "each", given),
    "all": lambda given: compared_cases(ALL, "all", given),
    "long": lambda given: compared_cases(LONG, "long", given),
}


def quieten_transport():
    """Gloo's threads ask the system for messages without pause. Where there are more threads than
    cores, whoever has something to do would wait for a slice of theirs, and be woken up on top of
    whoever has: 29 ms a step of k-means, not 10."""
    known = set(os.listdir("/proc/self/task"))
    jax.devices()  # makes them
    for thread in map(int, set(os.listdir("/proc/self/task")) - known):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            if Path(f"/proc/self/task/{thread}/comm").read_text().startswith("tf_"):
                os.sched_setscheduler(thread, os.SCHED_BATCH, os.sched_param(0))
            else:
                os.setpriority(os.PRIO_PROCESS, thread, 19)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", required=True)
    parser.add_argument("--processes", type=int, required=True)
    parser.add_argument("--process-id", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--folder")
    parser.add_argument("parts", nargs="+", choices=PARTS)
    given = parser.parse_args()
    processes.join(f"127.0.0.1:{given.port}", given.processes, given.process_id)
    quieten_transport()
    jax.config.update("jax_enable_x64", True)
    for name in given.parts:
        began = time.perf_counter()
        try:
            found = PARTS[name](given)
        except fw.PeerError as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            raise
        if jax.process_index() == 0 or name == "refused":
            scratch = given.out / f"{name}-{jax.process_index()}.new"
            scratch.write_text(json.dumps(found))
            scratch.rename(given.out / f"{name}-{jax.process_index()}.json")
        print(name, f"{time.perf_counter() - began:.1f} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
