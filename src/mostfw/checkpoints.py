"""Where a run stands, on disk: written while it goes on, and read when it is taken up again."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.metadata
import re
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from . import container, placement
from ._version import __version__
from .atomic import alone_in
from .errors import CheckpointError, CheckpointWarning, DamagedFileError
from .frank_wolfe import State
from .identity import Table, difference, table_of
from .method import Method
from .problem import Problem
from .result import Counts, History, Record

FORMAT = 1
KEPT = 2  # the newest ones: should the last be damaged, the one before it is there
EVERY = 60.0  # seconds
_NAME = re.compile(r"checkpoint-(\d{12})\.mostfw")
_NESTED = ("violation", "relative_violation", "metrics")
_STATE, _HISTORY = "state", "history"


@dataclasses.dataclass(frozen=True)
class Identity:
    """What must be the same for a run to be continued: `tables` by the words that name them."""

    tables: Mapping[str, Table]
    facts: Mapping[str, Any]

    @staticmethod
    def of(problem: Problem, method: Method, seed: int, first: int) -> Identity:
        tables = {"problem": table_of(problem.core()), "method": table_of(method)}
        own = ".".join(__version__.split(".")[:2])  # a later 0.1.x reads what 0.1.0 wrote
        facts = {"mostfw": own, "dtype": problem.dtype_name, "seed": seed, "first": first}
        return Identity(tables, facts)

    def difference(self, header: Mapping[str, Any]) -> str | None:
        """How the run of a header is another one, in words."""
        words = {
            "mostfw": "version of mostfw",
            "first": "iteration at which the run began",
        }
        for name, value in self.facts.items():
            if header.get(name) != value:
                return f"its {words.get(name, name)} is {header.get(name)!r}, this run's {value!r}"
        for name, table in self.tables.items():
            found = difference(header.get(name) or {}, table)
            if found is not None:
                return f"its {name} is another one: {found}"
        return None


@dataclasses.dataclass(frozen=True)
class Saved:
    """A run as a checkpoint holds it."""

    state: State
    history: History
    facts: dict[str, Any]  # what else the run wanted to be kept, as JSON


class Checkpoints:
    """The checkpoints of one run in one folder, which no other process may use meanwhile.

    >>> import tempfile
    >>> import numpy as np, mostfw as fw
    >>> problem = fw.Problem(fw.objectives.Linear(np.array([3.0, 1.0])), fw.domains.Simplex(2))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     first = fw.solve(problem, "sfw", iterations=10, checkpoint=folder)
    ...     longer = fw.solve(problem, "sfw", iterations=20, checkpoint=folder)
    >>> longer.iterations, longer.counts.lmo
    (20, 20)
    """

    def __init__(self, folder: str | Path, identity: Identity, every: float = EVERY) -> None:
        self.folder, self.identity, self.every = Path(folder), identity, every
        self._held = contextlib.ExitStack()
        self._written_at = time.monotonic()
        self._last = -1  # iteration of the newest checkpoint that is whole
        self._failing = False

    def __enter__(self) -> Checkpoints:
        try:
            self._held.enter_context(alone_in(self.folder))
        except OSError as error:
            raise CheckpointError(
                f"the folder {str(self.folder)!r} cannot hold checkpoints: {error}"
            ) from error
        for scratch in self.folder.glob(".checkpoint-*.new"):  # of a process that was killed
            scratch.unlink(missing_ok=True)
        return self

    def __exit__(self, *_: Any) -> None:
        self._held.close()

    def load(self, template: Any) -> Saved | None:
        """The newest checkpoint that is whole, in the shape of `template`; None where there is
        none yet. One of another run is refused."""
        damaged = []
        for path in reversed(self._files()):
            try:
                saved = self._read(path, template)
            except DamagedFileError as error:
                damaged.append(path)
                warnings.warn(f"{error} The one before it is used.", CheckpointWarning, 2)
                continue
            self._last = int(saved.state.k)
            for found in damaged:  # out of the way, so that it does not count as the newest
                found.replace(found.with_suffix(".damaged"))
            return saved
        if damaged:
            raise CheckpointError(
                f"no checkpoint in {str(self.folder)!r} is whole: {len(damaged)} are damaged. "
                "Remove the folder, or give another one, to begin anew."
            )
        return None

    def _files(self) -> list[Path]:
        return sorted(path for path in self.folder.iterdir() if _NAME.fullmatch(path.name))

    def _read(self, path: Path, template: Any) -> Saved:
        header, arrays = container.read(path)
        if header.get("format") != FORMAT:
            raise CheckpointError(
                f"{str(path)!r} has format {header.get('format')!r}; this version of mostfw reads "
                f"{FORMAT}. Continue it with the version that wrote it, or begin anew."
            )
        found = self.identity.difference(header)
        if found is not None:
            raise CheckpointError(
                f"{str(path)!r} is of another run: {found}. Give this run a folder of its own."
            )
        self._note_environment(path, header)
        return _unpacked(path, header, arrays, template)

    def _note_environment(self, path: Path, header: Mapping[str, Any]) -> None:
        found = difference(header.get("environment") or {}, environment())
        if found is not None:
            warnings.warn(
                f"{str(path)!r} was written elsewhere ({found}): the run is continued, but its "
                "last digits may not be those of an undisturbed one.",
                CheckpointWarning,
                2,
            )

    @property
    def due(self) -> bool:
        return time.monotonic() - self._written_at >= self.every

    def save(self, state: State, history: History, facts: Mapping[str, Any]) -> None:
        """Writes a checkpoint. If that fails (a full disk), warns, and the run goes on."""
        k = int(state.k)
        self._written_at = time.monotonic()
        if k == self._last:
            return
        columns, layout = _packed(history)
        header = {
            "format": FORMAT,
            "environment": environment(),
            **self.identity.facts,
            **self.identity.tables,
            "history": layout,
            "facts": dict(facts),
        }
        arrays = {f"{_STATE}{name}": leaf for name, leaf in _named(state).items()}
        try:
            container.write(self.folder / f"checkpoint-{k:012d}.mostfw", header, arrays | columns)
            self._last, self._failing = k, False
            for old in self._files()[:-KEPT]:
                old.unlink(missing_ok=True)
        except OSError as error:
            if not self._failing:  # once, not every minute
                last = f"that of iteration {self._last} is" if self._last >= 0 else "there is none"
                warnings.warn(
                    f"no checkpoint could be written at iteration {k} to {str(self.folder)!r} "
                    f"({error}); the run goes on, and {last} the last one.",
                    CheckpointWarning,
                    2,
                )
            self._failing = True
        self._written_at = time.monotonic()


def environment() -> dict[str, str]:
    """What the last bits of a run depend on beside the problem.

    >>> from mostfw.checkpoints import environment
    >>> sorted(environment())
    ['device', 'jax', 'jaxlib']
    """
    device = jax.config.values.get("jax_default_device") or jax.local_devices()[0]
    kind = device.device_kind if isinstance(device, jax.Device) else str(device)
    versions = {name: importlib.metadata.version(name) for name in ("jax", "jaxlib")}
    return {**versions, "device": kind}


def _named(tree: Any) -> dict[str, Any]:
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    return {jax.tree_util.keystr(path): leaf for path, leaf in leaves}


def _packed(history: History) -> tuple[dict[str, np.ndarray], dict[str, list[str]]]:
    """The records as columns, for there may be a million of them; and what the columns are."""
    if not history:
        return {}, {}
    last = history[-1]
    layout = {name: list(getattr(last, name)) for name in _NESTED}
    layout["known"] = [] if last.relative_gap is None else ["relative_gap"]
    columns: dict[str, np.ndarray] = {
        "iteration": np.array([record.iteration for record in history], np.int64),
        "seconds": np.array([record.seconds for record in history]),
        "objective": np.array([record.objective for record in history]),
    }
    for name in layout["known"]:
        columns[name] = np.array([getattr(record, name) for record in history], float)
    for name in _NESTED:
        values = [[getattr(record, name)[key] for key in layout[name]] for record in history]
        columns[name] = np.array(values, float).reshape(len(history), len(layout[name]))
    counts = [dataclasses.astuple(record.counts) for record in history]
    columns["counts"] = np.array(counts, np.int64)
    return {f"{_HISTORY}.{name}": column for name, column in columns.items()}, layout


def _unpacked(
    path: Path, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray], template: Any
) -> Saved:
    wanted = {f"{_STATE}{name}": leaf for name, leaf in _named(template).items()}
    for name, leaf in wanted.items():
        found = arrays.get(name)
        if found is None or (found.shape, str(found.dtype)) != (leaf.shape, str(leaf.dtype)):
            held = "absent" if found is None else f"{found.dtype} {found.shape}"
            raise CheckpointError(
                f"{str(path)!r} does not fit this run: {name!r} is {held} there and "
                f"{leaf.dtype} {leaf.shape} here. Begin anew in another folder."
            )
    leaves = [arrays[name] for name in wanted]
    if not placement.active():  # copies, for the loop gives its buffers away
        leaves = [jnp.array(leaf) for leaf in leaves]
    state = jax.tree.unflatten(jax.tree.structure(template), leaves)
    state = placement.placed(state, template.x)
    try:
        return Saved(state, _records(header["history"], arrays), dict(header["facts"]))
    except (KeyError, IndexError, TypeError, ValueError) as error:  # its checksum fits, yet
        raise DamagedFileError(f"{str(path)!r} was not written by mostfw: {error!r}.") from error


def _records(layout: Mapping[str, list[str]], arrays: Mapping[str, np.ndarray]) -> History:
    if not layout:
        return History()
    columns = {
        name.removeprefix(f"{_HISTORY}."): array.tolist()
        for name, array in arrays.items()
        if name.startswith(f"{_HISTORY}.")
    }
    count = len(columns["iteration"])
    gaps = columns.get("relative_gap", [None] * count)
    nested = {
        name: [dict(zip(layout[name], row, strict=True)) for row in columns[name]]
        for name in _NESTED
    }
    return History(
        Record(
            iteration=columns["iteration"][i],
            seconds=columns["seconds"][i],
            objective=columns["objective"][i],
            relative_gap=gaps[i],
            counts=Counts(*columns["counts"][i]),
            **{name: rows[i] for name, rows in nested.items()},
        )
        for i in range(count)
    )
