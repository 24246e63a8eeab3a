"""`python -m benchmarks.torture`: all of it, and the table of faults in docs/reliability.md.

50 runs are killed again and again, 20 resumed from damaged checkpoints, 33 commands interrupted;
disks are full, functions raise, streams stall. Takes about half an hour on two cores. `--quick` is
the short form that the tests run. Exit code 1 if one trial did not come out well.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Sequence
from pathlib import Path

from ..rows import heading, machine
from .trials import METHODS, Row, json_of

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
BEGIN, END = "<!-- made by make torture: begin -->", "<!-- end -->"


def tortured(quick: bool, rng: random.Random) -> list[Row]:
    from . import damaged, faults, interrupted, killed

    if quick:
        methods = rng.sample(METHODS, 2)
        return [
            *killed.kills(1, rng, share=0.1, methods=methods),
            *damaged.damages(4, rng, methods),
            *interrupted.interruptions(2, rng, longest=3.0),
        ]
    return [
        *faults.faults(),
        *damaged.damages(20, rng),
        *killed.full_disk(rng),
        *interrupted.interruptions(33, rng),  # of which 30 by SIGINT
        *killed.kills(50, rng),
    ]


def table(rows: list[Row], seed: int) -> str:
    lines = [
        f"`make torture` (seed {seed}; {heading()}):",
        "",
        "| fault | tried | well | what happens |",
        "|---|---|---|---|",
        *(f"| {row.fault} | {row.tried} | {row.well} | {row.outcome} |" for row in rows),
    ]
    return "\n".join(lines)


def write_page(rows: list[Row], seed: int) -> None:
    text = PAGE.read_text("utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n{table(rows, seed)}\n{END}{after}", "utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["--child"]:
        from .killed import child

        child(words[1:])
        return 0
    parser = argparse.ArgumentParser(prog="python -m benchmarks.torture")
    parser.add_argument("--quick", action="store_true", help="a few of each, no page")
    parser.add_argument("--seed", type=int, help="of all random moments")
    parser.add_argument("--out", type=Path, default=Path("bench"), help="folder for torture.json")
    given = parser.parse_args(words)
    seed = random.randrange(2**32) if given.seed is None else given.seed
    print(f"{heading()}\nseed {seed}", flush=True)
    rows = tortured(given.quick, random.Random(seed))
    given.out.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"machine": machine(), "seed": seed, "rows": json_of(rows)}, indent=1)
    (given.out / "torture.json").write_text(text + "\n", "utf-8")
    if not given.quick:
        write_page(rows, seed)
    print(table(rows, seed))
    return 0 if all(row.passed for row in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
