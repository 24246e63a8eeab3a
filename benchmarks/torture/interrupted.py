"""SIGINT and SIGTERM at random moments of the command line."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from .killed import AT_ONCE
from .trials import Row

STARTING = 0.3  # seconds in which Python itself starts, before there is a command to interrupt
LIMIT = 300


def points(folder: Path) -> Path:
    path = folder / "points.csv"
    rng = np.random.default_rng(0)
    np.savetxt(path, rng.normal(size=(60, 3)) + np.repeat(np.eye(3) * 5, 20, axis=0), delimiter=",")
    return path


def commands(folder: Path) -> dict[str, list[str]]:
    """Each would take a minute and more; its result file comes last."""
    endless = ["--gap", "0", "--iterations", str(10**7), "--json"]
    graph, nodes = folder / "graph.edges", 31
    ring = [f"{i} {(i + 1) % nodes}" for i in range(nodes)]
    chords = [f"{i} {(i + 9) % nodes}" for i in range(0, nodes, 4)]
    graph.write_text("\n".join(ring + chords))
    return {
        "run": ["run", "sparsest-cut", *endless[2:]],
        "cluster": ["cluster", str(points(folder)), "--clusters", "3", *endless],
        "cut": ["cut", str(graph), *endless],
    }


def interrupted(words: list[str], target: Path, moment: float, number: int) -> tuple[int, Any]:
    """The exit code and the result of a command that got a signal after so many seconds."""
    command = [sys.executable, "-m", "mostfw.cli", *words, str(target)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(moment)
    process.send_signal(number)
    try:
        code = process.wait(timeout=LIMIT)
    finally:
        process.kill()  # one that would not end is not left running beside what comes next
    try:
        return code, json.loads(target.read_text())
    except (OSError, ValueError) as error:
        return code, error


def status(content: Any) -> str | None:
    """How the run ended, in the JSON of any command."""
    if not isinstance(content, dict):
        return None
    run = content.get("run") or content
    return run.get("status")


def interruptions(total: int, rng: random.Random, longest: float = 12.0) -> list[Row]:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # under nohup; children would inherit it
        signal.signal(signal.SIGINT, signal.default_int_handler)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        kinds = commands(folder)

        def trial(number: int, moment: float) -> tuple[int, bool, float]:
            name = list(kinds)[number % len(kinds)]
            sent = signal.SIGTERM if number % 11 == 10 else signal.SIGINT
            began = time.monotonic()
            code, content = interrupted(kinds[name], folder / f"{number}.json", moment, sent)
            after = time.monotonic() - began - moment
            well = code == 128 + sent and status(content) is not None
            words = "a valid result" if well else f"NOT WELL: {content!r:.200}"
            print(
                f"{name}: signal {int(sent)} after {moment:.1f} s: exit {code} {after:.1f} s "
                f"later, {words}",
                flush=True,
            )
            return sent, well, after

        moments = [STARTING + rng.uniform(0, longest) for _ in range(total)]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            ends = list(pool.map(trial, range(total), moments))
    rows = []
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        own = [(well, after) for sent, well, after in ends if sent == number]
        if own:
            rows.append(
                Row(
                    f"{number.name} at random moments of `mostfw run`, `cluster` and `cut`",
                    len(own),
                    sum(well for well, _ in own),
                    f"exit code {code} and a valid result file, at most "
                    f"{max(after for _, after in own):.0f} s later",
                )
            )
    return rows
