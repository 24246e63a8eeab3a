"""The command line: jobs on files (`mostfw cluster`, `cut`, `maxcut`, `covariance`, `complete`,
`solve`), and `methods`, `run`, `resume`, `plan`, `reproduce`, `report`, `data`, `doctor`."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import traceback
from collections.abc import Sequence

from ..errors import CheckpointError, FolderInUseError, MostFWError, PeerError
from ..interruption import listening


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command: 0 for success, 1 for a failed check or run, 2 for bad input. As one of
    several processes it returns only when all is well: after an error the process ends at once.

    After Ctrl-C a command ends at the next good moment, writes what it has, and returns 130 (143
    after SIGTERM); a second one ends it at once.

    >>> from mostfw.cli import main
    >>> main(["run", "sparsest-cut", "--method", "most-fwx", "--quiet"])
    2
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    with listening(_tell) as interruption:  # before the first import that takes long
        code = _carried_out(words)
        code = code if interruption.signal is None else 128 + interruption.signal
    if arguments is None:  # all is done and written: a late Ctrl-C must not spoil the exit code
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    return code


def _tell(words: str) -> None:
    print(f"\nmostfw: {words}", file=sys.stderr, flush=True)


def _carried_out(words: Sequence[str]) -> int:
    from .keeping import undo
    from .parser import parser

    options = parser().parse_args(words)
    options.words = words
    try:
        return options.command(options)
    except MostFWError as error:
        if isinstance(error, CheckpointError | FolderInUseError):
            undo(options)
        print(f"mostfw: {error}", file=sys.stderr, flush=True)
        return _given_up(options, 1 if isinstance(error, PeerError) else 2)
    except KeyboardInterrupt:
        print("mostfw: interrupted", file=sys.stderr, flush=True)
        return _given_up(options, 130)
    except BrokenPipeError:  # the reader (head, less) has seen enough
        sys.stderr.close()
        return 0
    except BaseException:
        if getattr(options, "joined", False):
            traceback.print_exc()
            _given_up(options, 1)
        raise


def _given_up(options: argparse.Namespace, code: int) -> int:
    """The exit code. One of several processes ends here and now: at a usual end JAX would wait for
    the others, and they for this one."""
    if getattr(options, "joined", False):
        sys.stderr.flush()
        os._exit(code)
    return code
