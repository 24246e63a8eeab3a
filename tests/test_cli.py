"""The command line: the JSON of a run, the tables, the self-check."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import mostfw as fw
from common import modules_after
from mostfw.cli import main
from mostfw.cli.joining import again
from mostfw.cli.parser import parser

ROOT = Path(__file__).parents[1]
FIELDS = {
    "problem", "method", "parameters", "iterations", "seed", "objective", "optimum",
    "relative_gap", "violation", "relative_violation", "counts", "certificate", "seconds",
    "compile_seconds", "status", "history",
}  # fmt: skip


def run(tmp_path, *arguments):
    path = tmp_path / "out.json"
    assert main(["run", *arguments, "--quiet", "--json", str(path)]) == 0
    return json.loads(path.read_text())


def test_sparsest_cut(tmp_path):
    graph = tmp_path / "graph.edges"
    graph.write_text("% two triangles and a bridge\n1 2\n2 3\n3 1\n4 5\n5 6\n6 4\n3 4\n")
    found = run(
        tmp_path, "sparsest-cut", "--graph", str(graph), "--method", "most-fw", "--set", "mu_c=1.5",
        "--batch", "0.5", "--iterations", "3000", "--seed", "3", "--optimum", "2",
    )  # fmt: skip
    assert set(found) >= FIELDS | {"feasibility"}
    assert found["parameters"] == {"mu_c": 1.5}
    assert (found["iterations"], found["seed"], found["method"]) == (3000, 3, "most-fw")
    assert found["counts"]["gradients"] == 4 * (2 * 3000 - 1)  # half of seven edges, rounded up
    # the bridge cuts 3 from 3: 2 <L, X> / d^2 = 1/9, so <L, X> = 2
    assert abs(found["relative_gap"]) < 0.02
    assert found["feasibility"] < 0.2
    history = found["history"]
    assert history["iteration"][-1] == 3000
    assert len(history["violation"]["triangles"]) == len(history["seconds"])
    same = fw.solve(
        fw.problems.sparsest_cut(str(graph), batch=0.5),
        fw.methods.most_fw(1.5),
        iterations=3000,
        seed=3,
    )
    assert same.objective == found["objective"]


def test_kmeans(tmp_path):
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.standard_normal((6, 2)), rng.standard_normal((6, 2)) + 9])
    np.savez(tmp_path / "points.npz", points=points.T, other=np.zeros(3))
    found = run(
        tmp_path, "kmeans", "--data", str(tmp_path / "points.npz"), "--key", "points",
        "--transpose", "--clusters", "2", "--method", "most-fw+", "--batch", "0.2",
        "--constraint-batch", "0.2", "--iterations", "50", "--sampling", "block",
    )  # fmt: skip
    assert set(found["violation"]) == {"rows", "sign"}
    assert found["counts"]["constraints"] == 29 * (2 * 50 - 1)
    assert found["optimum"] is None
    assert found["relative_gap"] is None


def test_covariance(tmp_path):
    found = run(
        tmp_path, "covariance", "--n", "12", "--method", "shcgm", "--batch", "20",
        "--iterations", "200", "--dtype", "float32",
    )  # fmt: skip
    assert found["counts"]["gradients"] == 20 * 200
    assert found["relative_error"] < 0.3


def test_covariance_of_data_in_passes_or_with_replacement(tmp_path):
    np.save(tmp_path / "rows.npy", np.random.default_rng(0).standard_normal((20, 4)))
    ends = [
        run(tmp_path, "covariance", "--data", str(tmp_path / "rows.npy"), "--batch", "5",
            "--iterations", "8", *given)["objective"]
        for given in ((), ("--sampling", "shuffled"), ("--sampling", "replacement"))
    ]  # fmt: skip
    assert ends[0] == ends[1] != ends[2]


def test_sampling_as_in_the_paper(tmp_path):
    found = run(tmp_path, "sparsest-cut", "--batch", "7", "--iterations", "5", "--sampling",
                "entries")  # fmt: skip
    assert found["counts"]["gradients"] == 7 * (2 * 5 - 1)


def test_trimmed_and_zeroth_order_parameters(tmp_path):
    found = run(
        tmp_path, "sparsest-cut", "--method", "t-zo-most-fw", "--set", "tau_0=1e12",
        "--set", "oracle=rdsa", "--batch", "3", "--iterations", "5",
    )  # fmt: skip
    assert found["counts"]["lmo"] == 1
    assert found["counts"]["values"] == 3 * 2 * 9
    assert found["parameters"]["oracle"] == "values (RDSA)"


def test_summary_is_printed(capsys):
    assert main(["run", "sparsest-cut", "--batch", "0.05", "--iterations", "20"]) == 0
    printed = capsys.readouterr().out
    for word in ("objective", "violation", "feasibility", "20 LMO", "iteration budget"):
        assert word in printed


def test_methods_table_lists_everything(capsys):
    assert main(["methods"]) == 0
    printed = capsys.readouterr().out
    for name in fw.methods.names():
        assert f"\n{name} " in printed
    assert main(["methods", "t-most-fw+"]) == 0
    assert "k^(-1/4)" in capsys.readouterr().out


def test_doctor_passes_in_a_process_of_its_own():
    done = subprocess.run(
        [sys.executable, "-m", "mostfw.cli", "doctor"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "FAIL" not in done.stdout


def test_the_command_line_brings_only_core_dependencies():
    found = modules_after(
        "import mostfw, mostfw.cli.parser\n"
        "mostfw.solve, mostfw.problems, mostfw.cli.parser.parser()"
    )
    assert {"mostfw.solving", "mostfw.problems.kmeans", "mostfw.cli.run", "jax"} <= found
    assert not {"pandas", "sklearn", "matplotlib", "networkx", "cvxpy", "rich"} & found


@pytest.mark.slow
def test_the_wheel_holds_the_package_and_its_command(tmp_path):
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--outdir", str(tmp_path), str(ROOT)],
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        entry = next(name for name in names if name.endswith("entry_points.txt"))
        assert "mostfw = mostfw.cli:main" in archive.read(entry).decode()
    for wanted in ("py.typed", "problems/kmeans.py", "report/template.html", "report/style.css"):
        assert f"mostfw/{wanted}" in names
    assert not [name for name in names if "test_" in name or "benchmarks" in name]


def test_processes_that_cannot_join_are_refused(capsys):
    command = ["run", "covariance", "--n", "8", "--quiet"]
    assert main([*command, "--coordinator", "nowhere"]) == 2
    assert "HOST:PORT" in capsys.readouterr().err
    given = ["--coordinator", "127.0.0.1:1", "--processes", "2", "--process-id", "2"]
    assert main([*command, *given]) == 2
    assert "process_id is 2 of 2" in capsys.readouterr().err


def test_a_run_is_resumed_by_other_processes():
    words = ["run", "kmeans", "--mesh", "rows=4", "--processes=2", "--seed", "1"]
    options = parser().parse_args(
        ["resume", "run", "--mesh", "rows=8", "--coordinator", "a:1", "--process-id", "3"]
    )
    assert again(words, options) == [
        *("run", "kmeans", "--seed", "1"),
        *("--coordinator=a:1", "--process-id=3", "--mesh=8"),
    ]
    plain = parser().parse_args(["resume", "run"])
    assert again(words, plain) == ["run", "kmeans", "--mesh", "rows=4", "--seed", "1"]


def test_a_job_is_not_resumed_over_several_devices(tmp_path, capsys):
    (tmp_path / "command.json").write_text(json.dumps({"command": ["cluster", "points.csv"]}))
    assert main(["resume", str(tmp_path), "--mesh", "rows=2"]) == 2
    assert "`mostfw cluster`, which takes one process and one device" in capsys.readouterr().err
