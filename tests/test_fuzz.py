"""Odd values and damaged files, drawn at random: only refusals by name may come of them."""

import warnings

import numpy as np
import pytest
from benchmarks import fuzz

import mostfw as fw

INPUTS = 500  # in all; `python -m benchmarks.fuzz --inputs 10000` has more


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(fuzz.KINDS))
def test_only_refusals_come_of_odd_inputs(kind, capsys):
    count = int(INPUTS * fuzz.KINDS[kind][1])
    found = fuzz.failures(kind, count)
    capsys.readouterr()  # progress bars that were asked for
    assert not found, "\n".join(f"{where}: {call}" for where, call in found.items())


def test_failures_are_seen():
    def wrong():
        raise KeyError("not ours")

    def warned():
        return np.float64(1e300) * np.full(3, 1e300)

    def refused():
        raise fw.InvalidInputError("ours")

    with pytest.raises(KeyError):
        fuzz.attempt(wrong)
    with pytest.raises(RuntimeWarning):
        fuzz.attempt(warned)
    assert fuzz.attempt(refused) is None
    with warnings.catch_warnings(), pytest.raises(AssertionError, match="too long"):
        fuzz.attempt(lambda: 1, seconds=0.0)
