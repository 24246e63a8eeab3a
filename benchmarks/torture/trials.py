"""What every kind of torture hands back, and the runs that are tortured."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np

import mostfw as fw

METHODS = ("most-fw", "most-fw+", "t-most-fw+", "zo-most-fw", "h-spider-fw", "most-al")
# Iterations that take some seconds, so that there is time to kill them.
STEPS = {
    "most-fw": 12_000,
    "most-fw+": 12_000,
    "t-most-fw+": 12_000,
    "zo-most-fw": 1500,
    "h-spider-fw": 4000,
    "most-al": 12_000,
}


@dataclasses.dataclass(frozen=True)
class Row:
    """One kind of fault: how often it was tried, how often it came out well, and how."""

    fault: str
    tried: int
    well: int
    outcome: str

    @property
    def passed(self) -> bool:
        return self.tried > 0 and self.well == self.tried


def problem_of(name: str) -> fw.Problem:
    """A small sparsest cut, with sampled constraints for the methods that sample them."""
    sampled = fw.methods.get(name).constraints == "sampled"
    return fw.problems.sparsest_cut(
        fw.datasets.karate_club(), batch=0.05, constraint_batch=0.05 if sampled else None
    )


def method_of(name: str) -> fw.Method:
    """Trimmed ones skip most calls, so that checkpoints are written while they do."""
    return (
        fw.methods.get(name, tau_0=8.0, relative=True)
        if name[:2] == "t-"
        else (fw.methods.get(name))
    )


def digest(result: fw.Result) -> str:
    """Of all that the run computed: state, point, counts and history, but not its seconds."""
    found = hashlib.sha256()
    for leaf in jax.tree.leaves((result.state, result.x)):
        found.update(np.asarray(leaf).tobytes())
    for record in result.history:
        found.update(repr(dataclasses.replace(record, seconds=0.0)).encode())
    return found.hexdigest()


def shared_out(total: int, kinds: Sequence[str]) -> Iterator[str]:
    """`total` trials over the kinds, in turn."""
    for number in range(total):
        yield kinds[number % len(kinds)]


def json_of(rows: list[Row]) -> list[dict[str, Any]]:
    return [dataclasses.asdict(row) | {"passed": row.passed} for row in rows]
