"""The command line: jobs on files (`mostfw cluster`, `cut`, `maxcut`, `covariance`, `complete`,
`solve`), and `methods`, `run`, `reproduce`, `report`, `data`, `doctor`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from .. import __version__
from ..errors import MostFWError
from . import jobs, reproduce, run, table


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; 0 for success, 1 for a failed check or run, 2 for bad input.

    >>> from mostfw.cli import main
    >>> main(["run", "sparsest-cut", "--method", "most-fwx", "--quiet"])
    2
    """
    options = _parser().parse_args(arguments)
    try:
        return options.command(options)
    except MostFWError as error:
        print(f"mostfw: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader (head, less) has seen enough
        sys.stderr.close()
        return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mostfw", description="Stochastic Frank-Wolfe with very many affine constraints."
    )
    parser.add_argument("--version", action="version", version=f"mostfw {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    jobs.add(commands)
    table.add(commands)
    run.add(commands)
    reproduce.add(commands)
    doctor = commands.add_parser("doctor", help="devices, versions, a five-second self-check")
    doctor.set_defaults(command=_doctor)
    return parser


def _doctor(options: argparse.Namespace) -> int:
    from ..doctor import examine

    return 0 if examine() else 1
