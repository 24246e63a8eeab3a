"""Where a run stands, on disk: written while it goes on, and read when it is taken up again."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
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

from . import container, placement, processes, shards
from ._version import __version__
from .atomic import alone_in
from .errors import (
    CheckpointError,
    CheckpointWarning,
    DamagedFileError,
    PeerError,
)
from .frank_wolfe import State
from .identity import Table, difference, table_of
from .method import Method
from .problem import Problem
from .resources import cores, processor
from .result import Counts, History, Record

FORMAT = 1
SPREAD_FORMAT = 2  # rows are in files of their own, see shards.py
KEPT = 2  # the newest ones: should the last be damaged, the one before it is there
EVERY = 60.0  # seconds
_NAME = re.compile(r"checkpoint-(\d{12})\.mostfw")
_NESTED = ("violation", "relative_violation", "metrics")
_STATE, _HISTORY = "state", "history"
LISTED = 8  # checkpoints that may be tried, newest first: two are kept, should all go well


@dataclasses.dataclass(frozen=True)
class Identity:
    """What must be the same for a run to be continued: `tables` by the words that name them."""

    tables: Mapping[str, Table]
    facts: Mapping[str, Any]

    @staticmethod
    def of(problem: Problem, method: Method, seed: int, start: State) -> Identity:
        """`start` is the state that the run began with, which a warm start gives."""
        first = int(start.k)
        tables = {"problem": table_of(problem.core()), "method": table_of(method)}
        own = ".".join(__version__.split(".")[:2])  # a later 0.1.x reads what 0.1.0 wrote
        facts = {"mostfw": own, "dtype": problem.dtype_name, "seed": seed, "first": first}
        facts["start"] = digest(start) if first else None
        return Identity(tables, facts)

    def difference(self, header: Mapping[str, Any]) -> str | None:
        """How the run of a header is another one, in words."""
        words = {
            "mostfw": "version of mostfw",
            "first": "iteration at which the run began",
            "start": "warm start",
        }
        for name, value in self.facts.items():
            if header.get(name) != value:
                return f"its {words.get(name, name)} is {header.get(name)!r}, this run's {value!r}"
        for name, table in self.tables.items():
            there = header.get(name)
            found = difference(there if isinstance(there, dict) else {}, table)
            if found is not None:
                return f"its {name} is another one: {found}"
        return None


@dataclasses.dataclass(frozen=True)
class Saved:
    """A run as a checkpoint holds it."""

    state: State
    history: History
    extra: Record | None  # one that only the end of a piece of the run brought
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
        with processes.in_step("opening the folder of its checkpoints"):
            if processes.first():
                self._held.enter_context(alone_in(self.folder))
                for scratch in self.folder.glob(".checkpoint-*.new"):  # of one that was killed
                    with contextlib.suppress(OSError):
                        scratch.unlink()
        if processes.count() > 1:
            shards.check_shared(self.folder)
        return self

    def __exit__(self, *_: Any) -> None:
        self._held.close()

    def load(self, template: Any) -> Saved | None:
        """The newest checkpoint that is whole, in the shape of `template`; None where there is
        none yet. One of another run is refused."""
        damaged: list[DamagedFileError] = []
        for path in self._newest():
            saved = self._tried(path, template, damaged)
            if saved is None:
                continue
            self._last = int(saved.state.k)
            for found in damaged:
                self._set_aside(found)
            return saved
        if damaged:
            raise CheckpointError(
                f"no checkpoint in {str(self.folder)!r} is whole ({damaged[0]}): give another "
                "folder, or remove this one, to begin anew."
            )
        return None

    def _newest(self) -> list[Path]:
        """The newest checkpoints, newest first: those that the first process sees."""
        seen = [float(path.stem.partition("-")[2]) for path in reversed(self._files())][:LISTED]
        seen += [-1.0] * (LISTED - len(seen))
        return [self._file(int(k)) for k in processes.gathered(*seen)[0] if k >= 0]

    def _file(self, k: int) -> Path:
        return self.folder / f"checkpoint-{k:012d}.mostfw"

    def _tried(self, path: Path, template: Any, damaged: list[DamagedFileError]) -> Saved | None:
        """What the checkpoint holds, or one more that is damaged: to all, if to one process."""
        saved, error = None, None
        with processes.in_step("reading a checkpoint"):
            try:
                saved = self._read(path, template)
            except DamagedFileError as found:
                error = found
            except OSError as found:
                raise CheckpointError(f"{str(path)!r} cannot be read now: {found}.") from found
        if processes.gathered(error is not None)[:, 0].any():
            elsewhere = f"{str(path)!r} is damaged: another process says so."
            damaged.append(error or DamagedFileError(elsewhere, path))
            return None
        return saved

    def _set_aside(self, error: DamagedFileError) -> None:
        """Out of the way, so that it does not count as the newest."""
        if not processes.first():
            return
        warnings.warn(f"{error} The one before it is used.", CheckpointWarning, 2)
        with contextlib.suppress(OSError):
            error.path.replace(error.path.with_suffix(".damaged"))

    def _files(self) -> list[Path]:
        return sorted(path for path in self.folder.iterdir() if _NAME.fullmatch(path.name))

    def _read(self, path: Path, template: Any) -> Saved:
        header, arrays = container.read(path)
        if header.get("format") not in (FORMAT, SPREAD_FORMAT):
            raise CheckpointError(
                f"{str(path)!r} has format {header.get('format')!r}; this version of mostfw reads "
                f"{FORMAT} and {SPREAD_FORMAT}. Continue it with the version that wrote it, or "
                "begin anew."
            )
        found = self.identity.difference(header)
        if found is not None:
            raise CheckpointError(
                f"{str(path)!r} is of another run: {found}. Give this run a folder of its own."
            )
        rows: Mapping[str, Any] = {}
        if header["format"] == SPREAD_FORMAT:
            rows = shards.read(self.folder, header, path)
        saved = _unpacked(path, header, {**arrays, **rows}, template)
        named = int(path.stem.partition("-")[2])
        if not self.identity.facts["first"] <= int(saved.state.k) == named:
            raise DamagedFileError(f"{str(path)!r} is of iteration {int(saved.state.k)}.", path)
        self._note_environment(path, header)
        return saved

    def _note_environment(self, path: Path, header: Mapping[str, Any]) -> None:
        there = header.get("environment")
        found = difference(there if isinstance(there, dict) else {}, environment())
        if found is not None and processes.first():
            warnings.warn(
                f"{str(path)!r} was written elsewhere ({found}): the run is continued, but its "
                "last digits may not be those of an undisturbed one.",
                CheckpointWarning,
                2,
            )

    @property
    def due(self) -> bool:
        return time.monotonic() - self._written_at >= self.every

    def save(
        self, state: State, history: History, facts: Mapping[str, Any], extra: bool = False
    ) -> None:
        """Writes a checkpoint; `extra` says that the last record is not one of the undisturbed run.
        If that fails (a full disk), warns, and the run goes on."""
        k = int(state.k)
        if k == self._last:
            self._written_at = time.monotonic()
            return
        try:
            columns, layout = _packed(history)
            header = {
                "format": FORMAT,
                "environment": environment(),
                **self.identity.facts,
                **self.identity.tables,
                "history": layout,
                "extra": extra,
                "facts": dict(facts),
            }
            arrays = {f"{_STATE}{name}": leaf for name, leaf in _named(state).items()}
            spread, whole = shards.split(arrays)
            if spread:  # every process writes, and then the first commits
                header |= {"format": SPREAD_FORMAT, **shards.write(self.folder, k, spread)}
            with processes.in_step("writing a checkpoint"):
                if processes.first():
                    container.write(self._file(k), header, whole | columns)
                    self._remove_old()
            self._last, self._failing = k, False
        except (OSError, ValueError, PeerError) as error:
            # once, not every minute; of several processes those that failed say why, and the first
            says = processes.first() or not isinstance(error, PeerError)
            if says and not self._failing:
                last = f"that of iteration {self._last} is" if self._last >= 0 else "there is none"
                warnings.warn(
                    f"no checkpoint could be written at iteration {k} to {str(self.folder)!r} "
                    f"({error}); the run goes on, and {last} the last one.",
                    CheckpointWarning,
                    2,
                )
            self._failing = True
        self._written_at = time.monotonic()

    def _remove_old(self) -> None:
        files = self._files()
        for old in files[:-KEPT]:
            old.unlink(missing_ok=True)
        kept = {int(path.stem.partition("-")[2]) for path in files[-KEPT:]}
        shards.remove_unused(self.folder, kept)


def digest(tree: Any) -> str:
    """A checksum of all numbers of a tree.

    >>> import numpy as np
    >>> from mostfw.checkpoints import digest
    >>> digest([np.ones(2)]) == digest([np.ones(2)]), digest([np.ones(2)]) == digest([np.ones(3)])
    (True, False)
    """
    found = hashlib.sha256()
    for leaf in jax.tree.leaves(tree):
        shape = ",".join(map(str, np.shape(leaf)))
        found.update(f"{shape} {processes.checksum(leaf):08x} ".encode())
    return found.hexdigest()[:12]


def environment() -> dict[str, str]:
    """What the last bits of a run depend on beside the problem.

    >>> from mostfw.checkpoints import environment
    >>> sorted(environment())
    ['cores', 'device', 'jax', 'jaxlib', 'processor']
    """
    device = jax.config.values.get("jax_default_device") or jax.local_devices()[0]
    kind = device.device_kind if isinstance(device, jax.Device) else str(device)
    versions = {name: importlib.metadata.version(name) for name in ("jax", "jaxlib")}
    return {**versions, "device": kind, "processor": processor(), "cores": str(cores())}


def _named(tree: Any) -> dict[str, Any]:
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    return {jax.tree_util.keystr(path): leaf for path, leaf in leaves}


def _packed(history: History) -> tuple[dict[str, np.ndarray], dict[str, list[str]]]:
    """The records as columns, for there may be a million of them; and what the columns are. What
    one record does not have, as other metrics of an earlier piece, is NaN in a column of its own
    kind: `absent` says where."""
    if not history:
        return {}, {}
    rows = [_flat(record) for record in history]
    names = list(dict.fromkeys(name for row in rows for name in row))
    values = np.array([[row.get(name, np.nan) for name in names] for row in rows], float)
    absent = np.array([[name not in row for name in names] for row in rows], bool)
    counts = np.array([dataclasses.astuple(record.counts) for record in history], np.int64)
    iterations = np.array([record.iteration for record in history], np.int64)
    columns = {
        "iteration": iterations,
        "values": values.reshape(len(rows), len(names)),
        "absent": absent.reshape(len(rows), len(names)),
        "counts": counts,
    }
    return {f"{_HISTORY}.{name}": column for name, column in columns.items()}, {"names": names}


def _flat(record: Record) -> dict[str, float]:
    """The numbers of a record by kind and name, `violation/rows`; not the counts."""
    found = {"seconds": record.seconds, "objective": record.objective}
    if record.relative_gap is not None:
        found["relative_gap"] = record.relative_gap
    for kind in _NESTED:
        found |= {f"{kind}/{name}": value for name, value in getattr(record, kind).items()}
    return found


def _unpacked(
    path: Path, header: Mapping[str, Any], arrays: Mapping[str, Any], template: Any
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
        leaves = [jnp.array(np.asarray(leaf)) for leaf in leaves]
    state = jax.tree.unflatten(jax.tree.structure(template), leaves)
    state = placement.placed(state, template.x)
    try:
        history = _records(header["history"], arrays)
        extra = history.pop() if header["extra"] and history else None
        return Saved(state, history, extra, dict(header["facts"]))
    except (KeyError, IndexError, TypeError, ValueError) as error:  # its checksum fits, yet
        raise DamagedFileError(
            f"{str(path)!r} was not written by mostfw: {error!r}.", path
        ) from error


def _records(layout: Mapping[str, list[str]], arrays: Mapping[str, np.ndarray]) -> History:
    if not layout:
        return History()
    names = [str(name) for name in layout["names"]]
    iterations, values, absent, counts = (
        arrays[f"{_HISTORY}.{name}"].tolist()
        for name in ("iteration", "values", "absent", "counts")
    )
    history = History()
    for iteration, row, missing, counted in zip(iterations, values, absent, counts, strict=True):
        there = zip(names, row, missing, strict=True)
        found = {name: value for name, value, gone in there if not gone}
        nested = {
            kind: {
                name.partition("/")[2]: value
                for name, value in found.items()
                if name.startswith(f"{kind}/")
            }
            for kind in _NESTED
        }
        plain = (found["seconds"], found["objective"], found.get("relative_gap"))
        history.append(Record(iteration, *plain, counts=Counts(*counted), **nested))
    return history
