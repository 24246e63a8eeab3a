"""What several processes tell each other, as far as one can see it; test_joint.py has several."""

import argparse

import hypothesis.extra.numpy as hnp
import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mostfw as fw
from mostfw import cli, processes

SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, max_side=5)
DTYPES = st.sampled_from(["float64", "float32", "int64", "int32", "int8", "uint16", "bool"])


@given(hnp.arrays(DTYPES, SHAPES), st.integers(1, 7))
def test_checksums_are_the_same_wherever_an_array_is(array, slab):
    """On a device, where it may be spread, and on the host, whatever is stirred at once."""
    with jax.enable_x64(True), pytest.MonkeyPatch.context() as patch:
        patch.setattr(processes, "_SLAB", slab)
        assert int(processes._checksum(array)) == processes.checksum(array)


def test_checksums_tell_arrays_apart():
    array = np.arange(12.0).reshape(3, 4)
    other = array.copy()
    other[1, 2] = np.nextafter(other[1, 2], 9)
    different = [array, other, array[::-1], array.T, array.reshape(4, 3), array[:, ::-1]]
    assert len({processes.checksum(a) for a in different}) == len(different)


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt, MemoryError, fw.InvalidInputError, fw.PeerError]
)
def test_one_of_several_processes_ends_at_once(error, monkeypatch, capsys):
    """At a usual end JAX would wait for the others, an hour at most, and they for this one."""

    class EndedError(Exception):
        pass

    def ends(code):
        raise EndedError(code)

    def command(options):
        options.joined = True
        raise error("this one")

    options = argparse.Namespace(command=command)
    monkeypatch.setattr(
        "mostfw.cli.parser.parser", lambda: argparse.Namespace(parse_args=lambda _: options)
    )
    monkeypatch.setattr(cli.os, "_exit", ends)
    with pytest.raises(EndedError) as ended:
        cli.main(["anything"])
    codes = {KeyboardInterrupt: 130, MemoryError: 1, fw.InvalidInputError: 2, fw.PeerError: 1}
    assert ended.value.args == (codes[error],)
    assert capsys.readouterr().err
