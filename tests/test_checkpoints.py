"""Runs that are kept on disk: continued bit for bit, refused by name, never taken from a torn
file."""

import dataclasses
import functools
import hashlib
import json
import multiprocessing
import os
import struct
import subprocess
import sys
import warnings

import jax
import numpy as np
import pytest
import scipy.sparse

import mostfw as fw
from mostfw import checkpoints, container, running
from mostfw.atomic import alone_in, replacing
from mostfw.cli import main
from mostfw.identity import difference, table_of

STEPS = 120


@pytest.fixture(scope="module")
def cut():
    return fw.problems.sparsest_cut(fw.datasets.karate_club(), batch=0.05)


@pytest.fixture(scope="module")
def sampled_cut():
    return fw.problems.sparsest_cut(fw.datasets.karate_club(), batch=0.05, constraint_batch=0.05)


def same(one, other):
    """All that a run is, but for the seconds."""
    for a, b in zip(jax.tree.leaves(one.state), jax.tree.leaves(other.state), strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
    assert one.x.tobytes() == other.x.tobytes()
    assert one.counts == other.counts
    timeless = [[dataclasses.replace(r, seconds=0.0) for r in run.history] for run in (one, other)]
    assert timeless[0] == timeless[1]


METHODS = (
    ("most-fw", "cut", {}),
    ("t-most-fw", "cut", {"tau_0": 8.0, "relative": True}),
    ("cgal", "cut", {}),
    ("most-al", "cut", {}),
    ("most-fw+", "sampled_cut", {}),
    ("t-most-fw+", "sampled_cut", {"tau_0": 8.0, "relative": True}),
    ("most-al+", "sampled_cut", {}),
    ("h-spider-fw", "sampled_cut", {}),
    ("h-sag-cgm", "sampled_cut", {}),
    ("zo-most-fw", "cut", {}),
)


@pytest.mark.parametrize(("name", "problem", "numbers"), METHODS, ids=[m[0] for m in METHODS])
def test_a_run_in_pieces_is_the_run(name, problem, numbers, request, tmp_path):
    problem, method = request.getfixturevalue(problem), fw.methods.get(name, **numbers)
    whole = fw.solve(problem, method, iterations=STEPS, seed=3, certify=False)
    for steps in (7, 8, 53):  # a stop right after another, and one in the middle of a chunk

        def enough(record, steps=steps):
            return record.iteration >= steps

        ended = fw.solve(
            problem,
            method,
            iterations=STEPS,
            seed=3,
            certify=False,
            record=[steps],
            callback=enough,
            checkpoint=tmp_path / "run",
        )
        assert ended.iterations == steps
    resumed = fw.solve(
        problem, method, iterations=STEPS, seed=3, certify=False, checkpoint=tmp_path / "run"
    )
    assert resumed.status is fw.Status.ITERATIONS
    assert resumed.x.tobytes() == whole.x.tobytes()
    assert resumed.counts == whole.counts
    if name.startswith("t-"):
        assert whole.counts.lmo_skipped > 0  # so that some piece began while steps were skipped


def test_records_of_a_resumed_run_are_those_of_the_undisturbed_one(cut, tmp_path):
    whole = fw.solve(cut, "most-al", iterations=STEPS, certify=False)
    short = {"seconds": 1e-9, "certify": False, "checkpoint": tmp_path}
    begun = fw.solve(cut, "most-al", iterations=STEPS, **short)
    assert begun.status is fw.Status.SECONDS
    resumed = fw.solve(cut, "most-al", iterations=STEPS, certify=False, checkpoint=tmp_path)
    same(resumed, whole)


def test_a_record_is_made_though_the_checkpoint_came_before_it(cut, tmp_path, monkeypatch):
    """As if the process were killed between the step to a record point and the record."""

    class Killed(BaseException):
        pass

    def killed(run, state):
        if run.done == 17:
            raise Killed
        return evaluate(run, state)

    evaluate = running.Run._evaluate
    given = {"iterations": STEPS, "record": [17, 40], "certify": False}
    whole = fw.solve(cut, "most-fw", **given)
    monkeypatch.setattr(running.Run, "_evaluate", killed)
    with pytest.raises(Killed):
        fw.solve(cut, "most-fw", checkpoint=tmp_path, every=0.0, **given)
    monkeypatch.undo()
    assert (tmp_path / "checkpoint-000000000017.mostfw").exists()
    same(fw.solve(cut, "most-fw", checkpoint=tmp_path, **given), whole)


def test_a_finished_run_is_returned_at_once(cut, tmp_path):
    first = fw.solve(cut, "most-fw", iterations=STEPS, checkpoint=tmp_path)
    again = fw.solve(cut, "most-fw", iterations=STEPS, checkpoint=tmp_path)
    same(first, again)
    assert again.seconds == first.seconds
    assert again.certificate.lower >= first.bounds.lower
    stopped = fw.Tolerance(violation=1e9)
    early = fw.solve(cut, "most-fw", iterations=500, stop=stopped, checkpoint=tmp_path)
    assert (early.status, early.iterations) == (fw.Status.TOLERANCE, STEPS)


def test_seconds_are_a_budget_of_all_pieces_together(cut, tmp_path):
    first = fw.solve(cut, "most-fw", iterations=10**6, seconds=0.05, checkpoint=tmp_path)
    again = fw.solve(cut, "most-fw", iterations=10**6, seconds=0.05, checkpoint=tmp_path)
    assert again.status is fw.Status.SECONDS
    assert again.iterations == first.iterations


def test_only_the_last_two_are_kept(cut, tmp_path):
    fw.solve(cut, "most-fw", iterations=3000, checkpoint=tmp_path, every=0.0)
    kept = sorted(path.name for path in tmp_path.glob("*.mostfw"))
    assert len(kept) == 2
    assert kept[-1] == "checkpoint-000000003000.mostfw"
    assert not list(tmp_path.glob(".*.new"))


REFUSALS = {
    "seed": ("its seed is 0, this run's 1", {"seed": 1}),
    "method": ("its method is another one: 'name' is 'most-fw'", {"method": "cgal"}),
    "number": ("'smoothing.mu.scale' is 0.25 there", {"method": fw.methods.most_fw(mu_c=3.0)}),
    "batch": ("'objective.batch' is 4 there and 8 here", {"batch": 0.1}),
    "dtype": ("its dtype is 'float64', this run's 'float32'", {"dtype": np.float32}),
}


@pytest.mark.parametrize("kind", REFUSALS)
def test_another_run_is_refused_and_the_difference_named(kind, cut, tmp_path):
    words, change = REFUSALS[kind]
    fw.solve(cut, "most-fw", iterations=5, checkpoint=tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    other = {"batch": 0.05, "dtype": np.float64} | {
        name: value for name, value in change.items() if name in ("batch", "dtype")
    }
    problem = fw.problems.sparsest_cut(fw.datasets.karate_club(), **other)
    method, seed = change.get("method", "most-fw"), change.get("seed", 0)
    with pytest.raises(fw.CheckpointError, match="of another run") as caught:
        fw.solve(problem, method, seed=seed, iterations=5, checkpoint=tmp_path)
    assert words in str(caught.value)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_another_version_is_refused(cut, tmp_path, monkeypatch):
    fw.solve(cut, "most-fw", iterations=5, checkpoint=tmp_path)
    monkeypatch.setattr(checkpoints, "__version__", "0.9.0")
    with pytest.raises(fw.CheckpointError, match=r"version of mostfw is '0.1', this run's '0.9'"):
        fw.solve(cut, "most-fw", iterations=5, checkpoint=tmp_path)


def test_data_are_compared_by_their_numbers(tmp_path):
    def problem(cost):
        return fw.Problem(fw.objectives.Linear(cost), fw.domains.Simplex(8))

    cost = np.arange(8.0)
    fw.solve(problem(cost), "sfw", iterations=5, checkpoint=tmp_path)
    fw.solve(problem(cost.copy()), "sfw", iterations=6, checkpoint=tmp_path)
    cost[3] = np.nextafter(cost[3], 9)
    with pytest.raises(fw.CheckpointError, match=r"'objective.matrix'"):
        fw.solve(problem(cost), "sfw", iterations=7, checkpoint=tmp_path)


def test_functions_are_compared_by_what_they_do():
    def scaled(factor):
        return lambda x: factor * x

    assert difference(table_of(scaled(2.0)), table_of(scaled(2.0))) is None
    assert "factor" in difference(table_of(scaled(2.0)), table_of(scaled(3.0)))
    assert difference(table_of(lambda x: x + 1), table_of(lambda x: x + 2)) is not None


class Model:
    def __init__(self, factor):
        self.factor = factor

    def loss(self, x):
        return self.factor * x

    def __call__(self, x):
        return self.factor * x


def wrapped(factor):
    def decorate(function):
        @functools.wraps(function)
        def inner(x):
            return factor * function(x)

        return inner

    return decorate(Model.loss)


def with_default(factor):
    def loss(x, *, by=factor):
        return by * x

    return loss


def enclosing(matrix):
    return lambda x: matrix @ x


KINDS = {
    "methods": lambda factor: Model(factor).loss,
    "callable objects": Model,
    "wrapped functions": wrapped,
    "compiled methods": lambda factor: jax.jit(Model(factor).loss),
    "keyword defaults": with_default,
    "partials": lambda factor: functools.partial(Model.loss, x=factor),
    "sparse matrices": lambda factor: enclosing(factor * scipy.sparse.eye_array(9).tocsr()),
    "sets": lambda factor: {factor, 7},
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_functions_enclose_tells_them_apart(kind):
    make = KINDS[kind]
    assert difference(table_of(make(2.0)), table_of(make(2.0))) is None
    assert difference(table_of(make(2.0)), table_of(make(3.0))) is not None


def test_an_identity_is_the_same_in_every_process():
    script = (
        "from mostfw.identity import table_of\n"
        "print(table_of(lambda x: x in {'a', 'b', 'c', 'd'} or (1, frozenset('xyz'))))"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", script],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(seen) == 1


def test_a_log_that_a_function_writes_is_not_a_difference(tmp_path):
    log = []

    def value(x):
        log.append("traced")
        return (x**2).sum()

    problem = fw.Problem(fw.objectives.Smooth(value), fw.domains.Simplex(3), dtype=np.float64)
    fw.solve(problem, "sfw", iterations=5, checkpoint=tmp_path)
    assert fw.solve(problem, "sfw", iterations=9, checkpoint=tmp_path).iterations == 9


def damaged_at(path, where):
    content = bytearray(path.read_bytes())
    content[where % len(content)] ^= 0x10
    path.write_bytes(bytes(content))


@pytest.mark.parametrize("where", [0, 20, 300, -1, -40, "half", "empty"])
def test_a_torn_or_changed_file_is_recognised_and_the_one_before_it_used(where, cut, tmp_path):
    whole = fw.solve(cut, "most-al", iterations=STEPS, certify=False)
    for steps in (40, 80):
        fw.solve(cut, "most-al", iterations=steps, certify=False, checkpoint=tmp_path)
    newest = tmp_path / "checkpoint-000000000080.mostfw"
    if isinstance(where, int):
        damaged_at(newest, where)
    else:
        content = newest.read_bytes()
        newest.write_bytes(content[: len(content) // 2] if where == "half" else b"")
    with pytest.warns(fw.CheckpointWarning, match=r"000080.*damaged.*one before it is used"):
        resumed = fw.solve(cut, "most-al", iterations=STEPS, certify=False, checkpoint=tmp_path)
    assert resumed.x.tobytes() == whole.x.tobytes()
    assert newest.with_suffix(".damaged").exists()
    with warnings.catch_warnings():  # the damaged one is out of the way
        warnings.simplefilter("error")
        fw.solve(cut, "most-al", iterations=STEPS, certify=False, checkpoint=tmp_path)


def test_where_all_are_damaged_nothing_is_begun_over_them(cut, tmp_path):
    fw.solve(cut, "most-fw", iterations=5, checkpoint=tmp_path)
    for path in tmp_path.glob("*.mostfw"):
        damaged_at(path, 500)
    with pytest.raises(fw.CheckpointError, match=r"no checkpoint .* is whole .*checksum"):
        fw.solve(cut, "most-fw", iterations=5, checkpoint=tmp_path)


FORGERIES = {
    "no facts": lambda header: header.pop("facts"),
    "facts are a list": lambda header: header.update(facts=[1]),
    "columns of nothing": lambda header: header.update(history={"names": ["a"]}),
    "history is text": lambda header: header.update(history="text"),
    "problem is text": lambda header: header.update(problem="x"),
    "facts are empty": lambda header: header.update(facts={}),
    "seconds are text": lambda header: header["facts"].update(seconds="x"),
    "no bounds": lambda header: header["facts"].update(bounds=None),
}


@pytest.mark.parametrize("kind", FORGERIES)
def test_a_forged_file_with_a_right_checksum_is_an_error_of_ours(kind, cut, tmp_path):
    fw.solve(cut, "most-fw", iterations=5, checkpoint=tmp_path)
    (path,) = tmp_path.glob("*.mostfw")
    header, arrays = container.read(path)
    FORGERIES[kind](header)
    container.write(path, header, arrays)
    with pytest.raises(fw.CheckpointError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fw.solve(cut, "most-fw", iterations=9, checkpoint=tmp_path)


def with_checksum(content):
    return content + hashlib.sha256(content).digest()


def with_header(text):
    return container.MAGIC + struct.pack("<Q", len(text)) + text


HOSTILE = {
    "huge header": container.MAGIC + struct.pack("<Q", 2**60),
    "not JSON": container.MAGIC + struct.pack("<Q", 3) + b"abc",
    "no table": container.MAGIC + struct.pack("<Q", 2) + b"[]",
    "an object array": with_header(b'{"arrays":[["x","object",[1]]]}'),
    "more than there is": with_header(b'{"arrays":[["x","float64",[4000000000]]]}'),
    "negative side": with_header(b'{"arrays":[["x","float64",[-1]]]}'),
    "too many axes": with_header(b'{"arrays":[["x","float64",[' + b"1," * 70 + b"1]]]}"),
    "huge and empty": with_header(b'{"arrays":[["x","float64",[0,4000000000,4000000000]]]}'),
    "deep": container.MAGIC + struct.pack("<Q", 10**5) + b"[" * 10**5,
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_files_are_refused(kind, tmp_path):
    path = tmp_path / "checkpoint"
    path.write_bytes(with_checksum(HOSTILE[kind]))
    with pytest.raises(fw.CheckpointError, match="damaged"):
        container.read(path)


def test_arrays_come_back_as_they_were(tmp_path):
    arrays = {
        "scalar": np.float32(1.5).reshape(()),
        "empty": np.zeros((0, 3)),
        "flags": np.array([True, False]),
        "words": np.arange(6, dtype=np.uint32).reshape(2, 3),
        "device": jax.numpy.arange(5, dtype=np.int32),
        "turned": np.arange(6.0).reshape(2, 3).T,
    }
    container.write(tmp_path / "a", {"name": "é"}, arrays)
    header, found = container.read(tmp_path / "a")
    assert header == {"name": "é"}
    assert list(found) == list(arrays)
    for name, array in arrays.items():
        assert (found[name].shape, found[name].dtype) == (array.shape, array.dtype)
        assert np.array_equal(found[name], array)


def test_a_large_array_goes_through_in_slabs(tmp_path, monkeypatch):
    monkeypatch.setattr(container, "SLAB_BYTES", 1000)
    large = np.random.default_rng(0).normal(size=(70, 13))
    container.write(tmp_path / "a", {}, {"x": jax.numpy.asarray(large, np.float32)})
    assert np.array_equal(container.read(tmp_path / "a")[1]["x"], large.astype(np.float32))


def test_a_full_disk_loses_no_run(cut, tmp_path, monkeypatch):
    whole = fw.solve(cut, "most-fw", iterations=STEPS)
    write, calls = container.write, []

    def full(path, header, arrays):
        calls.append(path)
        if len(calls) > 1:
            raise OSError(28, "No space left on device")
        write(path, header, arrays)

    monkeypatch.setattr(container, "write", full)
    with pytest.warns(fw.CheckpointWarning, match=r"No space left.*is the last one") as seen:
        result = fw.solve(cut, "most-fw", iterations=STEPS, checkpoint=tmp_path, every=0.0)
    assert result.x.tobytes() == whole.x.tobytes()
    assert len(calls) > 2
    assert len([w for w in seen if w.category is fw.CheckpointWarning]) == 1  # said once
    monkeypatch.undo()
    resumed = fw.solve(cut, "most-fw", iterations=STEPS, checkpoint=tmp_path)
    assert resumed.x.tobytes() == whole.x.tobytes()


def test_half_a_file_never_takes_the_place_of_a_whole_one(tmp_path):
    path = tmp_path / "note"
    path.write_text("before")

    class Broken(Exception):
        pass

    with pytest.raises(Broken), replacing(path) as file:
        file.write(b"after")
        raise Broken
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["note"]
    link = tmp_path / "link"
    link.symlink_to(path)
    with replacing(link) as file:
        file.write(b"through a link")
    assert link.is_symlink()
    assert path.read_bytes() == b"through a link"


def test_links_and_pipes_in_a_folder_lead_nowhere(cut, tmp_path):
    """What a stranger may have put there: a run neither follows nor waits for it."""
    folder, outside = tmp_path / "kept", tmp_path / "outside"
    folder.mkdir()
    (folder / "lock").symlink_to(outside)
    with pytest.raises(fw.UnusableFolderError, match="give another one"):
        fw.solve(cut, "most-fw", iterations=5, checkpoint=folder)
    (folder / "lock").unlink()
    (folder / ".checkpoint-000000000005.mostfw.new").symlink_to(outside)
    os.mkfifo(folder / "checkpoint-000000000002.mostfw")
    with pytest.raises(fw.CheckpointError, match="it is no file"):
        fw.solve(cut, "most-fw", iterations=5, checkpoint=folder)
    (folder / "checkpoint-000000000002.mostfw").unlink()
    fw.solve(cut, "most-fw", iterations=5, checkpoint=folder)
    assert not outside.exists()


def test_replacing_keeps_permissions_and_writes_to_pipes(tmp_path):
    path = tmp_path / "private"
    path.write_text("before")
    path.chmod(0o600)
    with replacing(path) as one, replacing(path) as other:  # two writers do not meet
        one.write(b"one")
        other.write(b"other")
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_bytes() == b"one"
    script = (
        "from mostfw.atomic import replacing\nwith replacing('/dev/stdout') as f: f.write(b'x')"
    )
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert told.stdout == b"x"


def test_a_read_that_fails_now_is_no_damage(cut, tmp_path, monkeypatch):
    fw.solve(cut, "most-fw", iterations=5, checkpoint=tmp_path)

    def fails(path):
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(container, "read", fails)
    with pytest.raises(fw.CheckpointError, match="cannot be read now"):
        fw.solve(cut, "most-fw", iterations=5, checkpoint=tmp_path)
    assert not list(tmp_path.glob("*.damaged"))


def test_pieces_may_have_other_metrics_and_an_optimum(tmp_path):
    def problem(**known):
        objective = fw.objectives.Linear(np.arange(8.0))
        return fw.Problem(objective, fw.domains.Simplex(8), **known)

    fw.solve(problem(), "sfw", iterations=5, record=5, checkpoint=tmp_path)
    more = problem(metrics={"first": lambda x: x[0]}, optimum=0.0)
    fw.solve(more, "sfw", iterations=10, record=5, checkpoint=tmp_path)
    result = fw.solve(more, "sfw", iterations=10, record=5, checkpoint=tmp_path)
    assert [list(record.metrics) for record in result.history] == [[], ["first"]]
    assert result.history[0].relative_gap is None
    assert result.history[1].relative_gap is not None


def test_records_of_an_earlier_plan_stay(cut, tmp_path):
    fw.solve(cut, "most-fw", iterations=20, record=[5, 20], checkpoint=tmp_path)
    fw.solve(cut, "most-fw", iterations=30, record=[30], checkpoint=tmp_path)
    result = fw.solve(cut, "most-fw", iterations=30, record=[30], checkpoint=tmp_path)
    assert [record.iteration for record in result.history] == [5, 20, 30]


def _hold(folder, ready, over):
    with alone_in(folder):
        ready.set()
        over.wait(60)


def test_a_second_process_on_one_folder_is_refused(cut, tmp_path):
    context = multiprocessing.get_context("spawn")
    ready, over = context.Event(), context.Event()
    holder = context.Process(target=_hold, args=(tmp_path, ready, over))
    holder.start()
    try:
        assert ready.wait(60)
        with pytest.raises(fw.FolderInUseError, match="in use by another run"):
            fw.solve(cut, "most-fw", iterations=5, checkpoint=tmp_path)
    finally:
        over.set()
        holder.join()
    fw.solve(cut, "most-fw", iterations=5, checkpoint=tmp_path)


def test_streams_are_taken_up_where_they_were(tmp_path):
    rows = np.random.default_rng(1).normal(size=(60, 4, 3))
    opened = []

    def stream(start):
        opened.append(start)
        return iter(rows[start:])

    def loss(x, batch):
        return ((batch @ x - 1) ** 2).mean()

    objective = fw.objectives.Online(loss, stream, batch=4, holdout=rows[0])
    problem = fw.Problem(objective, fw.domains.L1Ball(3, radius=1.0))
    whole = fw.solve(problem, "sfw", iterations=50)
    fw.solve(problem, "sfw", iterations=20, checkpoint=tmp_path)
    resumed = fw.solve(problem, "sfw", iterations=50, checkpoint=tmp_path)
    assert opened[-1] == 19  # the last one once more, should its record be missing
    assert resumed.x.tobytes() == whole.x.tobytes()


def without_holdout(rows):
    def loss(x, batch):
        return ((batch @ x - 1) ** 2).mean()

    objective = fw.objectives.Online(loss, lambda start: iter(rows[start:]), batch=4)
    return fw.Problem(objective, fw.domains.L1Ball(3, radius=1.0))


def test_a_stream_that_had_ended_is_returned_at_once(tmp_path):
    rows = np.random.default_rng(1).normal(size=(12, 4, 3))
    first = fw.solve(without_holdout(rows), "sfw", iterations=50, checkpoint=tmp_path)
    again = fw.solve(without_holdout(rows), "sfw", iterations=50, checkpoint=tmp_path)
    assert first.status is again.status is fw.Status.STREAM_ENDED
    assert again.objective == first.objective


def test_a_missing_record_of_a_stream_is_made_on_its_own_minibatch(tmp_path, monkeypatch):
    rows = np.random.default_rng(1).normal(size=(60, 4, 3))
    given = {"iterations": 40, "record": [17, 40]}
    whole = fw.solve(without_holdout(rows), "sfw", **given)
    evaluate = running.Run._evaluate

    class Killed(BaseException):
        pass

    def killed(run, state):
        if run.done == 17:
            raise Killed
        return evaluate(run, state)

    monkeypatch.setattr(running.Run, "_evaluate", killed)
    with pytest.raises(Killed):
        fw.solve(without_holdout(rows), "sfw", checkpoint=tmp_path, every=0.0, **given)
    monkeypatch.undo()
    same(fw.solve(without_holdout(rows), "sfw", checkpoint=tmp_path, **given), whole)


def test_a_fit_is_continued_by_the_same_fit(tmp_path):
    from mostfw.estimators import SDPKMeans

    points = np.random.default_rng(0).normal(size=(12, 2))
    first = SDPKMeans(3, max_iter=20, tol=None, checkpoint=tmp_path).fit(points)
    again = SDPKMeans(3, max_iter=60, tol=None, checkpoint=tmp_path).fit(points)
    whole = SDPKMeans(3, max_iter=60, tol=None, checkpoint=tmp_path / "other").fit(points)
    assert (first.n_iter_, again.n_iter_) == (20, 60)
    assert again.result_.x.tobytes() == whole.result_.x.tobytes()


def test_warm_starts_are_kept_too(cut, tmp_path):
    before = fw.solve(cut, "most-fw", iterations=30)
    whole = fw.solve(cut, "most-fw", iterations=STEPS - 30, warm_start=before)
    fw.solve(cut, "most-fw", iterations=20, warm_start=before, checkpoint=tmp_path)
    resumed = fw.solve(
        cut, "most-fw", iterations=STEPS - 30, warm_start=before, checkpoint=tmp_path
    )
    assert (resumed.iterations, whole.iterations) == (STEPS, STEPS)
    assert resumed.x.tobytes() == whole.x.tobytes()
    with pytest.raises(fw.CheckpointError, match="iteration at which the run began is 30"):
        fw.solve(cut, "most-fw", iterations=STEPS, checkpoint=tmp_path)
    other = fw.solve(cut, "most-fw", iterations=30, seed=9)
    with pytest.raises(fw.CheckpointError, match="its warm start is"):
        fw.solve(cut, "most-fw", iterations=90, seed=0, warm_start=other, checkpoint=tmp_path)


RUN = ["run", "sparsest-cut", "--method", "most-fw", "--quiet"]


def test_the_command_line_continues_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    whole = [*RUN, "--iterations", "90", "--json", "whole.json"]
    assert main(whole) == 0
    begun = [*RUN, "--iterations", "90", "--seconds", "1e-9", "--json", "run.json"]
    assert main([*begun, "--checkpoint", "kept"]) == 0
    assert json.loads((tmp_path / "run.json").read_text())["iterations"] < 90
    (tmp_path / "kept").rename(tmp_path / "moved")
    command = json.loads((tmp_path / "moved" / "command.json").read_text())["command"]
    trimmed = [word for word in command if word not in ("--seconds", "1e-9")]
    (tmp_path / "moved" / "command.json").write_text(json.dumps({"command": trimmed}))
    assert main(["resume", "moved"]) == 0
    assert "--checkpoint moved" in capsys.readouterr().err
    one, other = (json.loads((tmp_path / f).read_text()) for f in ("whole.json", "run.json"))
    assert one["iterations"] == other["iterations"] == 90
    assert one["objective"] == other["objective"]


def test_a_refused_command_is_not_the_folders(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main([*RUN, "--iterations", "5", "--checkpoint", "kept"]) == 0
    before = (tmp_path / "kept" / "command.json").read_bytes()
    assert main([*RUN, "--iterations", "5", "--seed", "5", "--checkpoint", "kept"]) == 2
    assert (tmp_path / "kept" / "command.json").read_bytes() == before
    assert main(["resume", "kept"]) == 0


BAD_FOLDERS = {
    "nothing": (None, "has no command.json"),
    "not JSON": ("{", "is damaged"),
    "no command": ("{}", "is damaged"),
    "no words": ('{"command": [1]}', "is damaged"),
    "another command": ('{"command": ["reproduce", "--out", "x"]}', "can be resumed"),
    "resume itself": ('{"command": ["resume", "x"]}', "can be resumed"),
    "a place outside": (
        '{"command": ["run", "sparsest-cut", "--json", "/outside/a.json"]}',
        "outside of the current folder",
    ),
}


@pytest.mark.parametrize("kind", BAD_FOLDERS)
def test_what_cannot_be_resumed_says_so(kind, tmp_path, monkeypatch, capsys):
    content, words = BAD_FOLDERS[kind]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kept").mkdir()
    if content is not None:
        (tmp_path / "kept" / "command.json").write_text(content)
    assert main(["resume", "kept"]) == 2
    assert words in capsys.readouterr().err
