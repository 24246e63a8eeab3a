"""Checkpoints that were cut short or changed."""

from __future__ import annotations

import random
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path

import mostfw as fw

from .trials import METHODS, Row, digest, method_of, problem_of, shared_out

STEPS = 300


def damage(path: Path, rng: random.Random) -> str:
    """Cuts the file short or flips one bit of it; what was done."""
    content = bytearray(path.read_bytes())
    if rng.random() < 0.5:
        length = rng.randrange(len(content))
        path.write_bytes(bytes(content[:length]))
        return f"cut to {length} bytes"
    place = rng.randrange(len(content))
    content[place] ^= 1 << rng.randrange(8)
    path.write_bytes(bytes(content))
    return f"a bit of byte {place} flipped"


def damages(total: int, rng: random.Random, methods: Sequence[str] = METHODS) -> list[Row]:
    expected: dict[str, str] = {}
    recovered = refused = wrong = 0
    for name in shared_out(total, methods):
        problem, method = problem_of(name), method_of(name)

        def run(steps: int, folder: str | None, problem=problem, method=method) -> fw.Result:
            return fw.solve(
                problem, method, iterations=steps, record=50, certify=False, checkpoint=folder
            )

        if name not in expected:
            expected[name] = digest(run(STEPS, None))
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore", fw.CheckpointWarning)
            for steps in (100, 200):
                run(steps, folder)
            files = sorted(Path(folder).glob("*.mostfw"))
            what = [damage(path, rng) for path in files[-rng.choice((1, 1, 1, 2)) :]]
            try:
                same = digest(run(STEPS, folder)) == expected[name]
                recovered, wrong = recovered + same, wrong + (not same)
                ending = "recovered" if same else "WRONG"
            except fw.CheckpointError:
                ending = "refused" if len(what) == 2 else "WRONG: one was whole"
                refused, wrong = refused + (len(what) == 2), wrong + (len(what) != 2)
        print(f"{name}: {'; '.join(what)}: {ending}", flush=True)
    return [
        Row(
            "the newest checkpoint, or both, cut short or one bit flipped",
            total,
            recovered + refused,
            f"{recovered} recovered from the one before it, {refused} refused by name, "
            f"{wrong} wrong",
        )
    ]
