"""`mostfw plan` against what was measured on one H200 (docs/speed), and against itself."""

import itertools
import json
from pathlib import Path

import pytest

import mostfw as fw
from mostfw import planning
from mostfw.cli import main
from mostfw.planning import plan

MEASURED = Path(__file__).parents[1] / "docs" / "speed"


def rows_of(part):
    rows = json.loads((MEASURED / f"gpu-{part}.json").read_text())["rows"]
    return {row["name"]: row for row in rows}


def measured_step(part, n):
    row = rows_of(part)[f"k-means, N = {n}, float32, a step"]
    return row["ours"] / 1e3, row["details"]


def test_the_fit_is_of_the_large_step_and_the_small_one():
    seconds, details = measured_step("large", 100_000)
    found = plan(100_000, products=details["matvecs_a_step"])
    assert found.applied
    assert found.seconds == pytest.approx(seconds, rel=0.01)
    small, _ = measured_step("small", 1000)
    assert plan(1000).seconds == pytest.approx(small, rel=0.1)


def test_the_middle_step_is_predicted_though_it_was_not_fitted():
    seconds, details = measured_step("middle", 40_000)
    found = plan(40_000, products=details["matvecs_a_step"])
    assert not found.applied
    assert found.seconds == pytest.approx(seconds, rel=0.3)
    assert pytest.approx(details["matvecs_a_step"], rel=0.01) == planning.PRODUCTS


def test_so_is_the_step_of_the_mesh_of_one_device():
    (row,) = rows_of("mesh").values()
    products = sum(row["details"]["products"][1]) / len(row["details"]["products"][1])
    assert plan(20_000, products=products).seconds == pytest.approx(row["theirs"] / 1e3, rel=0.3)
    assert row["ratio"] == pytest.approx(row["ours"] / row["theirs"], rel=1e-12)
    assert row["ratio"] <= 1.05


@pytest.mark.parametrize(("part", "n"), [("middle", 40_000), ("large", 100_000)])
def test_memory_is_that_of_the_measured_peaks(part, n):
    peak = rows_of(part)[f"k-means, N = {n}, float32, peak memory"]["ours"] * 1e9
    assert plan(n).held == pytest.approx(peak, rel=0.05)


def test_devices_share_the_matrices_and_talk_more_the_more_they_are():
    plans = planning.table(200_000, 8)
    for fewer, more in itertools.pairwise(plans):
        share = fewer.devices / more.devices
        per_matrix = [p.spread_bytes / (2 if p.applied else 3) for p in (fewer, more)]
        assert per_matrix[1] == pytest.approx(share * per_matrix[0])
        assert more.own_bytes == fewer.own_bytes
        assert more.talking > fewer.talking and more.computing < fewer.computing
    assert plans[0].talking == 0


def test_what_does_not_fit_is_said(capsys):
    assert main(["plan", "--n", "1e6", "--devices", "8"]) == 0
    said = capsys.readouterr().out
    assert "does not fit" in said and "not measured" in said.replace("\n", " ")
    assert main(["plan", "--n", "1e6", "--devices", "512"]) == 0
    assert "so it fits" in capsys.readouterr().out
    assert main(["plan", "--n", "1e6", "--device-kind", "abacus"]) == 2
    assert "abacus" in capsys.readouterr().err
    with pytest.raises(fw.InvalidInputError, match="devices is 0"):
        plan(1000, 0)


def test_a_step_here_is_measured_and_compared(capsys):
    assert main(["plan", "--n", "200", "--measure"]) == 0
    said = capsys.readouterr().out
    assert "predicted / measured" in said and "mostfw.memory.estimate" in said
    assert main(["plan", "--n", "200", "--devices", "2", "--measure"]) == 2
