"""Which device a command runs on."""

from __future__ import annotations

import argparse

import jax

from ..placement import AXIS

DEVICES = ("cpu", "gpu")


def use_device(name: str | None) -> None:
    """None leaves the choice to JAX, which prefers a GPU."""
    if name is not None:
        jax.config.update("jax_platforms", "cuda" if name == "gpu" else "cpu")


def mesh_size(text: str) -> int:
    """How many devices `--mesh rows=8` asks for; whether there are so many, `solve` says."""
    axis, _, count = text.rpartition("=")
    if axis not in ("", AXIS) or not count.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not rows=NUMBER, such as rows=8")
    return int(count)
