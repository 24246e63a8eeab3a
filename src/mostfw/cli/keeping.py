"""`--checkpoint DIR` of the commands that run something, and `mostfw resume DIR`."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..atomic import replacing
from ..checkpoints import EVERY
from ..errors import InvalidInputError
from . import joining
from .joining import JOINING, again, without, writes

COMMAND = "command.json"
RESUMABLE = ("run", "cluster", "cut", "maxcut", "covariance", "complete", "solve")
LARGEST_BYTES = 2**20


def add_options(parser: argparse.ArgumentParser, every: bool = True) -> None:
    parser.add_argument(
        "--checkpoint",
        metavar="DIR",
        help="keep the run there; if it is there already, continue it",
    )
    if every:
        parser.add_argument(
            "--every",
            type=float,
            default=EVERY,
            metavar="SECONDS",
            help=f"between checkpoints (default {EVERY:g})",
        )


def add(commands: Any) -> None:
    """Adds `resume` to the commands of the parser."""
    resume = commands.add_parser(
        "resume",
        help="continue a run from its checkpoints",
        description="Carries out the command that made DIR once more, from its last checkpoint on.",
    )
    resume.add_argument("folder", metavar="DIR", help="what --checkpoint named")
    resume.add_argument(
        "--outside", action="store_true", help="allow it to write outside of the current folder"
    )
    joining.add_options(resume)
    resume.set_defaults(command=_resume)


def kept(options: argparse.Namespace) -> dict[str, Any]:
    """What `mostfw.solve` is told about checkpoints; the command is written down beside them."""
    if options.checkpoint is None:
        return {}
    given = {"every": options.every} if hasattr(options, "every") else {}
    given["checkpoint"] = options.checkpoint
    if not writes():
        return given
    folder = Path(options.checkpoint)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / COMMAND
        options.command_before = (path, path.read_bytes() if path.is_file() else None)
        with replacing(folder / COMMAND) as file:
            words = without(options.words, JOINING)  # which processes there are may change
            file.write(json.dumps({"command": words}, indent=1).encode() + b"\n")
    except OSError as error:
        raise InvalidInputError(
            f"--checkpoint {options.checkpoint!r} cannot be written to: {error}"
        ) from error
    return given


def undo(options: argparse.Namespace) -> None:
    """The command of a run that was refused is not the folder's."""
    path, before = getattr(options, "command_before", (None, None))
    if path is None:
        return
    if before is None:
        path.unlink(missing_ok=True)
        return
    with replacing(path) as file:
        file.write(before)


def _resume(options: argparse.Namespace) -> int:
    from . import main

    words = _command(Path(options.folder))
    spread = again(words, options)
    if words[0] != "run" and spread != words:
        raise InvalidInputError(
            f"the run in {options.folder!r} is one of `mostfw {words[0]}`, which takes one process "
            f"and one device: leave {', '.join((joining.MESH, *JOINING))} out."
        )
    if not options.outside:
        _refuse_outside(words, options.folder)
    if not options.process_id:
        print(f"mostfw {shlex.join(spread)}", file=sys.stderr)
    return main(spread)


def _command(folder: Path) -> list[str]:
    """The words of the command, with the folder as it is named now. The file may come from
    anywhere: only commands that run something are taken from it."""
    path = folder / COMMAND
    try:
        if path.stat().st_size > LARGEST_BYTES:
            raise ValueError("it is too large for a command")
        words = json.loads(path.read_text("utf-8"))["command"]
        if not (isinstance(words, list) and all(isinstance(word, str) for word in words)):
            raise ValueError("its command is no list of words")
    except OSError:
        raise InvalidInputError(
            f"{str(folder)!r} has no {COMMAND}: give the folder that --checkpoint named. A run of "
            "mostfw.solve(checkpoint=) is continued by calling it again."
        ) from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InvalidInputError(f"{str(path)!r} is damaged: {error}.") from error
    if not words or words[0] not in RESUMABLE:
        raise InvalidInputError(
            f"{str(path)!r} holds the command {' '.join(words[:1])!r}: only "
            f"{', '.join(RESUMABLE)} can be resumed."
        )
    return _with_folder(words, folder)


def _with_folder(words: Sequence[str], folder: Path) -> list[str]:
    """The command, told where its folder is now: it may have been moved."""
    return [*without(words, ["--checkpoint"]), "--checkpoint", str(folder)]


def _refuse_outside(words: Sequence[str], folder: str) -> None:
    """A folder from a stranger must not say where on this machine things are written."""
    from .parser import parser

    given = vars(parser().parse_args(words))
    here = Path.cwd().resolve()
    for name in ("out", "plot", "json"):
        target = given.get(name)
        if target and target != "-" and here not in Path(target).resolve().parents:
            raise InvalidInputError(
                f"the run in {folder!r} writes to {target!r} (--{name}), which is outside of the "
                "current folder: go to where it was started, or add --outside."
            )
