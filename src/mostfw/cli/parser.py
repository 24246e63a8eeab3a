"""All commands and their options."""

from __future__ import annotations

import argparse

from .._version import __version__
from . import jobs, keeping, plan, reproduce, run, table


def parser() -> argparse.ArgumentParser:
    """The parser of `mostfw`.

    >>> from mostfw.cli.parser import parser
    >>> parser().parse_args(["resume", "folder"]).folder
    'folder'
    """
    made = argparse.ArgumentParser(
        prog="mostfw", description="Stochastic Frank-Wolfe with very many affine constraints."
    )
    made.add_argument("--version", action="version", version=f"mostfw {__version__}")
    commands = made.add_subparsers(required=True, metavar="COMMAND")
    jobs.add(commands)
    table.add(commands)
    run.add(commands)
    keeping.add(commands)
    plan.add(commands)
    reproduce.add(commands)
    doctor = commands.add_parser("doctor", help="devices, versions, a five-second self-check")
    doctor.set_defaults(command=_doctor)
    return made


def _doctor(options: argparse.Namespace) -> int:
    from ..doctor import examine

    return 0 if examine() else 1
