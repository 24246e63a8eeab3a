"""`python -m benchmarks.checkpointing`: our files of arrays against Orbax, where that is installed.

Two n x n arrays over the devices that there are, written and synced, and read back to where they
were; the median of rounds that take turns. Orbax is no dependency of ours: docs/adr/0012 says why.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from mostfw import container

from .rows import machine

Timed = tuple[Callable[[Path, dict], None], Callable[[Path, dict], dict]]


def ours() -> Timed:
    def write(folder: Path, arrays: dict) -> None:
        folder.mkdir()
        container.write(folder / "state", {}, arrays)

    def read(folder: Path, arrays: dict) -> dict:
        _, found = container.read(folder / "state")
        return {name: jax.device_put(found[name], a.sharding) for name, a in arrays.items()}

    return write, read


def orbax() -> Timed:
    import orbax.checkpoint as ocp  # pyright: ignore[reportMissingImports]

    checkpointer = ocp.StandardCheckpointer()

    def write(folder: Path, arrays: dict) -> None:
        checkpointer.save(folder, arrays)
        checkpointer.wait_until_finished()

    def read(folder: Path, arrays: dict) -> dict:
        like = {
            n: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=a.sharding)
            for n, a in arrays.items()
        }
        return checkpointer.restore(folder, like)

    return write, read


def timed(timed: Timed, arrays: dict, parent: Path) -> tuple[float, float]:
    folder = parent / "one"
    write, read = timed
    began = time.perf_counter()
    write(folder, arrays)
    os.sync()
    middle = time.perf_counter()
    found = jax.block_until_ready(read(folder, arrays))
    end = time.perf_counter()
    assert all(np.array_equal(found[name], array) for name, array in arrays.items())
    shutil.rmtree(folder)
    return middle - began, end - middle


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.checkpointing")
    parser.add_argument("--n", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    mesh = Mesh(np.array(jax.devices()), ("rows",))
    place = NamedSharding(mesh, PartitionSpec("rows"))
    drawn = np.random.default_rng(0).random((2, given.n, given.n), np.float32)
    arrays = {name: jax.device_put(drawn[i], place) for i, name in enumerate(("x", "y"))}
    ways = {"ours": ours()}
    if importlib.util.find_spec("orbax") is not None:
        ways["orbax"] = orbax()
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(given.rounds + 1):
            for name, way in ways.items():
                found[name].append(timed(way, arrays, Path(folder)))
    here = machine()
    print(f"{here['device']}, {here['cores']} cores, jax {here['jax']}, {here['date']}")
    size = sum(a.nbytes for a in arrays.values()) / 1e6
    for name, rounds in found.items():
        written, read = (statistics.median(column) for column in zip(*rounds[1:], strict=True))
        print(f"{name:<6} {size:.0f} MB: written in {written:.2f} s, read in {read:.2f} s")


if __name__ == "__main__":
    main()
