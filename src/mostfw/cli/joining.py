"""`--mesh`, `--coordinator`, `--processes`, `--process-id`: the devices and processes of a run."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

import jax

from .. import processes
from .devices import mesh_size

MESH = "--mesh"
JOINING = ("--coordinator", "--processes", "--process-id")
AUTO = "auto"


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        MESH,
        type=mesh_size,
        metavar="rows=NUMBER",
        help="spread matrices by rows over so many devices, of all processes (docs/scale.md)",
    )
    parser.add_argument(
        "--coordinator",
        metavar="HOST:PORT",
        help="of the first process, where several make one run; 'auto': as Slurm, Open MPI or "
        "Kubernetes say, for the other two options as well",
    )
    parser.add_argument("--processes", type=int, metavar="N", help="how many make the run")
    parser.add_argument("--process-id", type=int, metavar="I", help="which one this is, from 0 on")


def joined(options: argparse.Namespace) -> bool:
    """Joins the other processes of a run, if it has any: True where it does.

    What is not given is left to JAX's own look at the environment.
    """
    given = (options.coordinator, options.processes, options.process_id)
    if given == (None, None, None):
        return False
    coordinator = None if options.coordinator == AUTO else options.coordinator
    processes.join(coordinator, options.processes, options.process_id)
    options.joined = True
    _keep_output_clean()
    if options.mesh is None:
        options.mesh = jax.device_count()
    if not writes():
        options.quiet, options.json = True, None
    return True


def writes() -> bool:
    """Whether this process prints and writes: the first one, or the only one."""
    return jax.process_index() == 0


def _keep_output_clean() -> None:
    """Transports write notes of their own to the output, where JSON may be expected: those go to
    the errors instead."""
    sys.stdout.flush()
    own = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = os.fdopen(own, "w", buffering=1)


def without(words: Sequence[str], names: Sequence[str]) -> list[str]:
    """The words of a command without these options and their values.

    >>> from mostfw.cli.joining import without
    >>> without(["run", "--processes", "2", "--mesh=4", "--seed", "1"], ["--processes", "--mesh"])
    ['run', '--seed', '1']
    """
    made, skip = [], False
    for word in words:
        if skip or word.partition("=")[0] in names:
            skip = not skip and "=" not in word
        else:
            made.append(word)
    return made


def again(words: Sequence[str], options: argparse.Namespace) -> list[str]:
    """The words of a run that is resumed, over the devices and processes that there are now."""
    given = {
        "--coordinator": options.coordinator,
        "--processes": options.processes,
        "--process-id": options.process_id,
    }
    names = [*JOINING] if options.mesh is None else [*JOINING, MESH]
    made = without(words, names)
    made += [f"{name}={value}" for name, value in given.items() if value is not None]
    return made if options.mesh is None else [*made, f"{MESH}={options.mesh}"]
