"""SIGKILL at random moments, resumed until done; and a disk that is full."""

from __future__ import annotations

import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import mostfw as fw
from mostfw.atomic import replacing

from .trials import METHODS, STEPS, Row, digest, method_of, problem_of, shared_out

MOST_KILLS = 4
AT_ONCE = 2  # runs side by side
OFTEN = 0.02  # seconds between checkpoints: some are being written when the kill comes
LIMIT = 600  # seconds for one start


def child(words: Sequence[str]) -> None:
    """What is killed: a run that is kept, and leaves its digest when it is done."""
    name, folder, target, steps, limit = json.loads(words[0])
    if limit is not None:  # no file may become larger: a disk that is full, for this process alone
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        warnings.simplefilter("always")
    kept = {} if folder is None else {"checkpoint": folder, "every": OFTEN}
    result = fw.solve(
        problem_of(name), method_of(name), iterations=steps, seed=7, certify=False, **kept
    )
    with replacing(target) as file:
        file.write(digest(result).encode())


def started(
    name: str, folder: Path | None, target: Path, steps: int, limit: int | None = None
) -> Any:
    given = json.dumps([name, None if folder is None else str(folder), str(target), steps, limit])
    command = [sys.executable, "-m", "benchmarks.torture", "--child", given]
    return subprocess.Popen(command, stderr=subprocess.PIPE, cwd=Path(__file__).parents[2])


def undisturbed(name: str, steps: int) -> tuple[str, float]:
    """The digest of the run as it should be, and how long its process takes."""
    with tempfile.TemporaryDirectory() as place:
        target, began = Path(place) / "digest", time.monotonic()
        process = started(name, None, target, steps)
        _, errors = process.communicate(timeout=LIMIT)
        if process.returncode:
            raise RuntimeError(errors.decode())
        return target.read_text(), time.monotonic() - began


def tormented(name: str, steps: int, seconds: float, rng: random.Random) -> tuple[str, int]:
    """The digest of a run that was killed again and again, and how often it was."""
    with tempfile.TemporaryDirectory() as place:
        folder, target = Path(place) / "kept", Path(place) / "digest"
        for kills in range(MOST_KILLS + 1):
            process = started(name, folder, target, steps)
            try:
                # the last start is left alone
                moment = rng.uniform(0.2, 1.1) * seconds if kills < MOST_KILLS else LIMIT
                _, errors = process.communicate(timeout=moment)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                continue
            if process.returncode:
                return f"exit {process.returncode}: {errors.decode()[-300:]}", kills
            return target.read_text(), kills
    return "never done", MOST_KILLS


def kills(
    total: int, rng: random.Random, share: float = 1.0, methods: Sequence[str] = METHODS
) -> list[Row]:
    """`share` shortens the runs, for tests."""
    steps = {name: max(50, int(share * STEPS[name])) for name in methods}
    names = list(shared_out(total, methods))
    expected = {name: undisturbed(name, steps[name]) for name in dict.fromkeys(names)}

    def trial(name: str, seed: float) -> tuple[bool, int]:
        wanted, seconds = expected[name]
        found, killed = tormented(name, steps[name], seconds, random.Random(seed))
        print(f"{name}: killed {killed} times, {_verdict(found, wanted)}", flush=True)
        return found == wanted, killed

    with ThreadPoolExecutor(AT_ONCE) as pool:
        ends = list(pool.map(trial, names, [rng.random() for _ in names]))
    return [
        Row(
            f"SIGKILL at random moments, resumed until done: {', '.join(expected)}",
            total,
            sum(well for well, _ in ends),
            f"killed {sum(hits for _, hits in ends)} times in all; bit for bit the undisturbed run",
        )
    ]


def _verdict(found: str, wanted: str) -> str:
    return "the same" if found == wanted else f"DIFFERENT ({found})"


def full_disk(rng: random.Random, share: float = 1.0) -> list[Row]:
    """Two ways for a disk to be full: no file may grow beyond a few bytes, and a small tmpfs."""
    steps = max(50, int(share * STEPS["most-al"]))
    wanted, _ = undisturbed("most-al", steps)
    rows = [_quota(steps, wanted, rng.randrange(1000, 20_000))]
    if os.geteuid() == 0:
        rows += _small_tmpfs(steps, wanted)
    return rows


def _quota(steps: int, wanted: str, limit: int) -> Row:
    with tempfile.TemporaryDirectory() as place:
        target = Path(place) / "digest"
        process = started("most-al", Path(place) / "kept", target, steps, limit)
        _, errors = process.communicate(timeout=LIMIT)
        well = target.exists() and target.read_text() == wanted and b"goes on" in errors
    return Row(
        "no checkpoint can be written (a limit on the size of files)",
        1,
        int(well),
        "a warning; the run goes on, and its result is that of the undisturbed one",
    )


def _small_tmpfs(steps: int, wanted: str) -> list[Row]:
    with tempfile.TemporaryDirectory() as place:
        small = Path(place) / "small"
        small.mkdir()
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(small)], capture_output=True
        )
        if mounted.returncode:  # a container that may not mount
            return []
        try:
            target = Path(place) / "digest"
            process = started("most-al", small / "kept", target, steps)
            _, errors = process.communicate(timeout=LIMIT)
            well = target.exists() and target.read_text() == wanted and b"goes on" in errors
        finally:
            subprocess.run(["umount", str(small)], check=True)
    outcome = "a warning; the run goes on, and its result is that of the undisturbed one"
    return [Row("the disk is full (a tmpfs of 64 kB)", 1, int(well), outcome)]
