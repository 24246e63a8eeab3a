"""The commands on files: what they print, write and draw, and how they refuse."""

import gzip
import json
from types import SimpleNamespace

import numpy as np
import pytest

import mostfw as fw
from mostfw.cli import main
from mostfw.cli.jobs.sdp import _words
from mostfw.estimators import _cost
from mostfw.problems.completion import generated_ratings
from mostfw.problems.covariance import block_factor

PNG = b"\x89PNG"


def points(folder):
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.uniform(-1, 1, (8, 2)) + centre for centre in (0.0, 6.0, 12.0)])
    lines = [f"p{i},{x},{y}" for i, (x, y) in enumerate(values)]
    (folder / "points.csv").write_text("\n".join(["name,height,width", *lines]) + "\n")


def graph(folder):
    """Two complete graphs on four nodes and one edge between them."""
    pairs = [(i, j) for i in range(4) for j in range(i)]
    edges = [*pairs, *[(i + 4, j + 4) for i, j in pairs], (0, 4)]
    (folder / "two.edges").write_text("".join(f"{i + 1} {j + 1}\n" for i, j in edges))


def returns(folder):
    factor = block_factor(12, blocks=3, seed=1)
    rows = np.random.default_rng(1).normal(size=(40, 3)) @ factor.T
    lines = [f"2024-01-{d % 28 + 1:02d};" + ";".join(map(str, row)) for d, row in enumerate(rows)]
    head = "date;" + ";".join(f"s{i}" for i in range(12))
    (folder / "returns.csv").write_text("\n".join([head, *lines]) + "\n")


def ratings(folder):
    made = generated_ratings(12, 8, rank=2, observed=0.6)
    triples = zip(made.rows, made.columns, made.values, strict=True)
    lines = [f"user{i},item{j},{value}" for i, j, value in triples]
    (folder / "ratings.csv").write_text("\n".join(["user,item,rating", *lines]) + "\n")


def program(folder):
    text = "2\n1\n2\n1 1\n0 1 1 2 1.0\n1 1 1 1 1.0\n2 1 2 2 1.0\n"
    with gzip.open(folder / "two.dat-s.gz", "wt") as file:
        file.write(text)


def carried_out(make, folder, job, file, *extra):
    """The rows of the table and the JSON of one run of a command that writes all that it can."""
    make(folder)
    targets = {"--out": "out.csv", "--plot": "out.png", "--json": "out-run.json"}
    given = [word for option, name in targets.items() for word in (option, str(folder / name))]
    assert main([job, str(folder / file), *extra, "--iterations", "400", *given]) == 0
    assert (folder / "out.png").read_bytes()[:4] == PNG
    content = json.loads((folder / "out-run.json").read_text())
    assert content["summary"] and content["run"]["iterations"] <= 400
    return [line.split(",") for line in (folder / "out.csv").read_text().splitlines()], content


def numbers(table):
    return np.array([[float(value) for value in row[1:]] for row in table[1:]])


def test_clusters_are_the_three_blobs(tmp_path):
    table, content = carried_out(points, tmp_path, "cluster", "points.csv", "--clusters", "3")
    assert table[0] == ["point", "cluster"]
    assert [row[0] for row in table[1:]] == [f"p{i}" for i in range(24)]
    labels = numbers(table).reshape(3, 8)
    assert (labels == labels[:, :1]).all() and len(set(labels[:, 0])) == 3
    assert content["inertia_bound"] <= content["inertia"] * (1 + 1e-9)


def test_cut_takes_the_one_edge(tmp_path):
    table, content = carried_out(graph, tmp_path, "cut", "two.edges")
    assert table[0] == ["node", "side"] and len(table) == 9
    assert content["cut_value"] == pytest.approx(1 / 16)
    assert content["cut_bound"] <= 1 / 16 + 1e-9


def test_max_cut_is_that_of_two_complete_graphs(tmp_path):
    table, content = carried_out(graph, tmp_path, "maxcut", "two.edges")
    assert len(table) == 9
    assert content["cut_value"] == 9  # 4 in each K_4, and the edge between them
    assert content["cut_bound"] >= 9


def test_covariance_is_psd_and_near_the_truth(tmp_path):
    table, _ = carried_out(returns, tmp_path, "covariance", "returns.csv")
    assert table[0] == ["", *(f"s{i}" for i in range(12))]
    found = numbers(table)
    assert np.linalg.eigvalsh(found)[0] >= -1e-9 * np.trace(found)
    factor = block_factor(12, blocks=3, seed=1)
    truth = factor @ factor.T
    assert np.linalg.norm(found - truth) < np.linalg.norm(truth)


def test_completed_entries_are_inside_the_bounds(tmp_path):
    table, content = carried_out(ratings, tmp_path, "complete", "ratings.csv", "--rank-bound", "2")
    found = numbers(table)
    assert content["refit"]["rank"] == 2
    assert "nothing is proved for it" in content["summary"]
    words = ["complete", str(tmp_path / "ratings.csv"), "--rank-bound", "2", "--no-refit"]
    given = ["--iterations", "400", "--quiet", "--json", str(tmp_path / "plain.json")]
    assert main([*words, *given]) == 0
    assert json.loads((tmp_path / "plain.json").read_text())["refit"] is None
    assert found.shape == (12, 8)
    assert found.min() >= 1 - 1e-3 and found.max() <= 5 + 1e-3


def test_program_has_its_optimum(tmp_path):
    table, content = carried_out(program, tmp_path, "solve", "two.dat-s.gz")
    assert table[0] == ["block", "row", "column", "value"]
    assert content["value"] == pytest.approx(2.0, rel=1e-2)
    assert content["upper_bound"] >= 2.0 - 1e-9


def test_other_formats_and_the_words(tmp_path, capsys):
    graph(tmp_path)
    words = ["cut", str(tmp_path / "two.edges"), "--iterations", "400"]
    assert main([*words, "--out", str(tmp_path / "out.npz")]) == 0
    assert np.load(tmp_path / "out.npz")["labels"].sum() == 4
    said = capsys.readouterr().out
    assert "iterations of" in said and "Wrote" in said
    assert main([*words, "--out", str(tmp_path / "out.json"), "--quiet"]) == 0
    assert len(json.loads((tmp_path / "out.json").read_text())["labels"]) == 8
    assert capsys.readouterr().out == ""
    assert main([*words, "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["cut_value"] == pytest.approx(1 / 16)


JOBS = {
    "cluster": (points, "points.csv", ["--clusters", "3"]),
    "cut": (graph, "two.edges", []),
    "maxcut": (graph, "two.edges", []),
    "covariance": (returns, "returns.csv", []),
    "complete": (ratings, "ratings.csv", ["--rank-bound", "2"]),
    "solve": (program, "two.dat-s.gz", []),
}


@pytest.mark.parametrize("job", JOBS)
def test_the_cost_is_said_before_and_what_does_not_fit_is_refused(
    job, tmp_path, capsys, monkeypatch
):
    make, file, extra = JOBS[job]
    make(tmp_path)
    words = [job, str(tmp_path / file), *extra, "--iterations", "5"]
    assert main(words) == 0
    assert "This will take about" in capsys.readouterr().err
    assert main([*words, "--quiet"]) == 0
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(_cost, "machine_bytes", lambda: 1000)
    assert main([*words, "--quiet"]) == 2
    assert "but this machine has 1 kB: " in capsys.readouterr().err


BAD = {
    "empty": ("", "cluster"),
    "header only": ("a,b\n", "cluster"),
    "ragged": ("1,2\n3\n", "cluster"),
    "text": ("1,2\n3,x\n", "cluster"),
    "nan": ("1,2\n3,nan\n", "covariance"),
    "one row": ("1,2\n", "covariance"),
    "no edges": ("# nothing\n", "cut"),
    "bad weight": ("1 2 x\n", "cut"),
    "two weights": ("1 2 3.0\n2 1 4.0\n", "maxcut"),
    "no ratings": ("user,item,rating\n", "complete"),
    "bad rating": ("user,item,rating\na,b,good\n", "complete"),
    "no program": ("", "solve"),
    "wrong block": ("1\n1\n2\n1.0\n1 2 1 1 1.0\n", "solve"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_files_are_refused_by_name(case, tmp_path, capsys):
    text, job = BAD[case]
    path = tmp_path / "input.csv"
    path.write_text(text)
    extra = ["--clusters", "2"] if job == "cluster" else []
    assert main([job, str(path), *extra, "--quiet"]) == 2
    assert "input.csv" in capsys.readouterr().err


@pytest.mark.parametrize(
    "options", [["--out", "x.txt"], ["--plot", "x.gif"], ["--out", "no/such/x.csv"]]
)
def test_targets_are_checked_before_the_run(options, tmp_path, capsys):
    graph(tmp_path)
    assert main(["cut", str(tmp_path / "two.edges"), *options]) == 2
    assert options[1] in capsys.readouterr().err


def test_missing_files_are_refused(capsys):
    assert main(["cut", "nowhere.edges"]) == 2
    assert "nowhere.edges" in capsys.readouterr().err


def test_trace_bound_is_asked_for(tmp_path, capsys):
    path = tmp_path / "free.dat-s"
    path.write_text("1\n1\n2\n1.0\n0 1 1 1 -1.0\n1 1 1 2 1.0\n")
    assert main(["solve", str(path)]) == 2
    assert "trace" in capsys.readouterr().err
    assert main(["solve", str(path), "--trace-bound", "4", "--iterations", "50"]) == 0
    # with larger traces there may be more
    assert "no feasible Y of trace <= 4.0 has more than" in capsys.readouterr().out


def test_words_of_a_program_say_how_sure_its_bound_is():
    """And round it up: the program's own problem is a maximum."""
    certificate = fw.Certificate.of(lower=-2.00000001, objective=-2.0)
    record = SimpleNamespace(relative_violation={})
    result = SimpleNamespace(certificate=certificate, last=record)
    assert "no feasible Y has more than 2.0000001 (proved)" in _words(result, 2.0, None)
