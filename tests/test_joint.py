"""Several processes make one run: the same steps, the same decisions, and none waits for ever."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import pytest

import joint as joint_runs
import mostfw as fw

WORKER = Path(__file__).with_name("joint.py")
LONGEST_GOODBYE = 60  # seconds, in which the others end when one process is lost


class Job:
    """Processes of one job on this machine, with so many devices each."""

    def __init__(self, out, parts, processes=2, devices=2, folder=None):
        flags = f"--xla_force_host_platform_device_count={devices}"
        flags += " --xla_backend_optimization_level=0"
        if version("jaxlib").startswith("0.10."):  # as in conftest.py
            flags += " --xla_cpu_use_fusion_emitters=false"
        environment = os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
        with socket.socket() as found:  # a port that nobody has
            found.bind(("127.0.0.1", 0))
            port = found.getsockname()[1]
        out.mkdir(exist_ok=True)
        self.out, self.logs, self.members = out, [], []
        for number in range(processes):
            command = [sys.executable, str(WORKER), "--port", str(port), "--out", str(out)]
            command += ["--processes", str(processes), "--process-id", str(number)]
            command += [] if folder is None else ["--folder", str(folder)]
            self.logs.append(out / f"log-{number}")
            with self.logs[-1].open("w") as log:
                member = subprocess.Popen(
                    [*command, *parts], env=environment, stdout=log, stderr=subprocess.STDOUT
                )
            self.members.append(member)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for member in self.members:
            member.kill()
            member.wait()

    def said(self, number):
        return self.logs[number].read_text()

    def wait(self, seconds=900):
        until = time.monotonic() + seconds
        for number, member in enumerate(self.members):
            code = member.wait(max(1, until - time.monotonic()))
            assert code == 0, self.said(number)[-3000:]

    def found(self, part, number=0):
        return json.loads((self.out / f"{part}-{number}.json").read_text())


def run_job(out, parts, seconds=900, **given):
    with Job(out, parts, **given) as job:
        job.wait(seconds)
        return job


def kept_at(folder):
    """The iterations of which there are checkpoints."""
    return sorted(int(path.stem[-12:]) for path in folder.glob("checkpoint-*[0-9].mostfw"))


def disturbed(out, folder, parts, processes, devices, victim=1):
    """A job of which one process is killed amid the run; how long the others took to end after
    that, and what they said."""
    with Job(out, [*parts, "kept"], processes, devices, folder) as job:
        until = time.monotonic() + 900
        while max(kept_at(folder), default=0) <= joint_runs.KEPT_RECORD:
            assert time.monotonic() < until
            assert all(m.poll() is None for m in job.members), job.said(0)[-3000:]
            time.sleep(0.02)
        job.members[victim].send_signal(signal.SIGKILL)
        began = time.monotonic()
        for number, member in enumerate(job.members):
            if number != victim:
                member.wait(LONGEST_GOODBYE)
        spent = time.monotonic() - began
        codes = [member.wait() for member in job.members]
        assert not (out / "kept-0.json").exists()  # it had not ended before
        return job, spent, codes


def assert_said_clearly(said, folder):
    """In our words where the transport notices that a process is gone; where it waits instead, JAX
    notices by heartbeats or by those who left, and ends the process in its own words."""
    ours = "another process of this run was lost" in said and str(folder) in said
    theirs = "another task died" in said
    assert ours or theirs, said[-3000:]


def assert_same_steps(cases):
    for case, one in cases.items():
        assert ".x" in one["differences"] and ".atom.vector" in one["differences"]
        far = {name: d for name, d in one["differences"].items() if not d <= 1e-10}
        assert far == {}, case
        assert ("rows" in one["spec"]) == (not case.startswith("cut/")), case


def assert_within_seed_noise(cases):
    for case, one in cases.items():
        assert_in_band(one["sharded"], one["singles"], case)


def assert_in_band(found, seeds, case=""):
    """Objective and violations are where those of other seeds are, and as far again beside."""
    for measure, *singles in zip(found, *seeds, strict=True):
        # where all seeds agree (an equality that each step keeps), rounding is what is left
        noise = max(singles) - min(singles) + 1e-10 * max(map(abs, singles))
        assert min(singles) - noise <= measure <= max(singles) + noise, case


@pytest.fixture(scope="module")
def joint(tmp_path_factory):
    """Two processes of two devices each, the second of which is killed in the end."""
    out, folder = tmp_path_factory.mktemp("joint"), tmp_path_factory.mktemp("kept")
    parts = ["each", "long", "rows", "refused", "undisturbed"]
    return disturbed(out, folder, parts, processes=2, devices=2), folder


# `make test` runs these after the others and by one worker: they take both cores themselves, and
# each worker would start all processes for its share of the tests.
pytestmark = pytest.mark.joint


def test_steps_are_those_of_one_device(joint):
    (job, *_), _ = joint
    assert_same_steps(job.found("each"))


def test_long_runs_end_where_those_of_one_device_do(joint):
    (job, *_), _ = joint
    assert_same_steps(job.found("long"))
    assert_within_seed_noise(job.found("long"))


def test_data_that_is_spread_already_stays_where_it_is(joint):
    (job, *_), _ = joint
    found = job.found("rows")
    assert found["apart"]
    assert found["objective"] == pytest.approx(found["wanted"], rel=0.05)
    assert found["objective"] >= found["wanted"] - 1e-9
    assert found["kind"] == "numerical"
    assert found["lower"] == pytest.approx(found["wanted"], rel=1e-6)
    # and goes on in one process, which has all of it
    problem = joint_runs.linear_problem(joint_runs.symmetric_matrix())
    more = fw.solve(problem, "sfw", iterations=310, checkpoint=job.out / "spread")
    assert more.iterations == 310 and more.objective <= found["objective"]


def test_nobody_waits_for_a_process_that_failed(joint):
    (job, *_), _ = joint
    for number in range(2):
        failed, many, few, callback, asked = job.found("refused", number)
        if number == 1:
            assert failed == "ValueError: it was I"
        else:
            assert failed.startswith("PeerError: process 1") and "while trying" in failed
        assert "from 1 to 4" in many and "a multiple of 2" in few
        assert callback.startswith("1 the callback failed at iteration 1")
        assert asked == "CALLBACK"


@pytest.fixture(scope="module")
def seeds():
    """Where the run that is kept ends on one device, with several seeds."""
    return [measures(kept_on_one_device(None, seed)) for seed in range(6)]


def measures(result):
    return [result.objective, *result.relative_violation.values()]


def test_a_lost_process_ends_the_others_and_the_run_goes_on(joint, seeds, tmp_path):
    (job, spent, codes), folder = joint
    undisturbed = job.found("undisturbed")
    assert codes[1] == -signal.SIGKILL and codes[0] not in (0, None)
    assert spent < LONGEST_GOODBYE
    assert_said_clearly(job.said(0), folder)
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    again = run_job(tmp_path / "again", ["kept"], processes=2, devices=2, folder=folder)
    assert_went_on(again.found("kept"), undisturbed)
    alone = kept_on_one_device(copy)
    assert alone.iterations == undisturbed["iterations"]
    assert_in_band(measures(alone), seeds)
    # Rows that were changed on the disk: the checkpoint that they belong to is not used.
    *_, newest = sorted(folder.glob("*.mostfw-rows"))
    content = bytearray(newest.read_bytes())
    content[len(content) // 2] ^= 1
    newest.write_bytes(content)
    with pytest.warns(fw.CheckpointWarning, match="The one before it is used"):
        before = kept_on_one_device(folder)
    assert before.iterations == undisturbed["iterations"]
    assert_in_band(measures(before), seeds)


def assert_went_on(found, undisturbed):
    """The same bits; and not because all was made once more, for the first record was not."""
    assert undisturbed.pop("seen") == [joint_runs.KEPT_RECORD, joint_runs.KEPT_STEPS]
    assert found.pop("seen") == [joint_runs.KEPT_STEPS]
    assert found == undisturbed


def kept_on_one_device(folder, seed=joint_runs.SEED):
    record = [joint_runs.KEPT_RECORD]
    given = {"seed": seed, "checkpoint": folder, "certify": False, "record": record}
    problem, method = joint_runs.kept_problem(), joint_runs.METHOD
    return fw.solve(problem, method, iterations=joint_runs.KEPT_STEPS, **given)


@pytest.mark.study
@pytest.mark.parametrize("victim", [1, 0])
def test_one_of_four_is_killed_and_two_go_on(victim, seeds, tmp_path):
    """The first one, too, who commits checkpoints and through whom the others found each other."""
    folder, copy = tmp_path / "kept", tmp_path / "copy"
    folder.mkdir()
    parts = ["undisturbed"]
    job, spent, codes = disturbed(tmp_path / "one", folder, parts, 4, 1, victim)
    undisturbed = job.found("undisturbed")
    assert spent < LONGEST_GOODBYE
    assert codes[victim] == -signal.SIGKILL and all(code not in (0, None) for code in codes)
    for number in {0, 1, 2, 3} - {victim}:
        assert_said_clearly(job.said(number), folder)
    shutil.copytree(folder, copy)
    again = run_job(tmp_path / "two", ["kept"], processes=4, devices=1, folder=folder)
    fewer = run_job(tmp_path / "three", ["kept"], processes=2, devices=1, folder=copy)
    found = fewer.found("kept")
    assert found["seen"] == [joint_runs.KEPT_STEPS]
    assert found["iterations"] == undisturbed["iterations"]
    assert found["bits"] != undisturbed["bits"]  # other sums: it is another mesh
    assert_in_band([found["objective"], *found["violation"]], seeds)
    assert_went_on(again.found("kept"), undisturbed)


@pytest.mark.study
def test_slurm_starts_the_command_line_and_one_process_writes(tmp_path):
    """With the variables that Slurm sets; each process runs the same words."""
    environment = os.environ | {
        "XLA_FLAGS": "--xla_force_host_platform_device_count=2",
        "JAX_PLATFORMS": "cpu",
        "SLURM_JOB_ID": str(os.getpid()),  # of which JAX makes the port
        "SLURM_STEP_NODELIST": "localhost",
        "SLURM_NTASKS": "2",
        "SLURM_STEP_NUM_NODES": "1",
    }
    words = "run covariance --n 16 --iterations 20 --coordinator auto --json - --checkpoint run"
    members = []
    for number in range(2):
        own = {"SLURM_PROCID": str(number), "SLURM_LOCALID": str(number)}
        command = [sys.executable, "-m", "mostfw.cli", *words.split()]
        members.append(
            subprocess.Popen(
                command, env=environment | own, cwd=tmp_path, stdout=subprocess.PIPE, text=True
            )
        )
    said = [member.communicate(timeout=300)[0] for member in members]
    assert [member.returncode for member in members] == [0, 0]
    assert json.loads(said[0])["iterations"] == 20 and said[1] == ""
    assert len(list((tmp_path / "run").glob("*.mostfw-rows"))) == 2
    resumed = subprocess.run(
        [sys.executable, "-m", "mostfw.cli", "resume", "run", "--mesh", "rows=1"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(resumed.stdout)["objective"] == json.loads(said[0])["objective"]


@pytest.mark.study
def test_every_tracker_and_constraint_ends_where_it_does_on_one_device(tmp_path):
    job = run_job(tmp_path, ["all"], seconds=7200)
    assert_same_steps(job.found("all"))
    assert_within_seed_noise(job.found("all"))
