"""Run folders: each holds one run's spec, environment, log, history, and a mark when complete."""

from __future__ import annotations

import csv
import dataclasses
import datetime
import hashlib
import importlib.metadata
import io
import json
import platform
import shutil
import tomllib
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .._version import __version__
from ..atomic import replacing
from ..errors import InvalidInputError, MostFWWarning
from ..resources import cores, processor

SPEC, HISTORY, MARK, LOG, ENVIRONMENT = (
    "spec.toml",
    "history.csv",
    "complete.json",
    "log.txt",
    "environment.json",
)
Value = str | int | float | bool


@dataclasses.dataclass(frozen=True)
class Spec:
    """All that decides the numbers of one run.

    `gap` and `violation` name the columns of the history that the figure looks at; merit is the
    sum of their absolute values.

    >>> from mostfw.experiments.folders import Spec
    >>> Spec(4, "tune", "sparsest-cut", "hfw", 10, 0, {"mu_c": 1.0}).folder
    'figure-4/sparsest-cut/tune/hfw_mu_c=1_seed=0'
    """

    figure: int
    stage: str
    task: str
    method: str
    iterations: int
    seed: int
    parameters: Mapping[str, Value] = dataclasses.field(default_factory=dict)
    options: Mapping[str, Value] = dataclasses.field(default_factory=dict)
    gap: str = "relative_gap"
    violation: Sequence[str] = ()
    version: str = __version__

    @property
    def folder(self) -> str:
        """The run's place in the output folder: readable, and different for runs of one study."""
        words = [self.method, *(f"{k}={_short(v)}" for k, v in self.parameters.items())]
        name = "_".join([*words, f"seed={self.seed}"]).replace("/", "-")
        return f"figure-{self.figure}/{self.task}/{self.stage}/{name}"

    def to_toml(self) -> str:
        tables = []
        lines = []
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, Mapping):
                body = [f"{key} = {_toml(item)}" for key, item in value.items()]
                tables.append("\n".join([f"[{field.name}]", *body]))
            else:
                lines.append(f"{field.name} = {_toml(value)}")
        return "\n".join(lines) + "\n\n" + "\n\n".join(tables) + "\n"

    @staticmethod
    def from_toml(text: str) -> Spec:
        found = tomllib.loads(text)
        found["violation"] = tuple(found["violation"])
        return Spec(**found)


def _short(value: Value) -> str:
    return f"{value:g}" if isinstance(value, int | float) else value


def _toml(value: Any) -> str:
    """Strings and flat lists are written in TOML nearly as in JSON, numbers as Python does."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return str(value).lower() if isinstance(value, bool) else repr(value)


@dataclasses.dataclass(frozen=True)
class RunFolder:
    """One run on disk.

    It is complete only when its mark is there and fits both the spec asked for and the history
    beside it; everything else is begun anew.

    >>> from pathlib import Path
    >>> from mostfw.experiments.folders import RunFolder, Spec
    >>> RunFolder(Path("nowhere")).is_complete(Spec(1, "rate", "known", "hfw", 10, 0))
    False
    """

    path: Path

    def is_complete(self, spec: Spec) -> bool:
        try:
            mark = json.loads((self.path / MARK).read_text("utf-8"))
            written = (self.path / SPEC).read_text("utf-8")
            history = (self.path / HISTORY).read_bytes()
        except (OSError, ValueError):
            return False
        return (
            isinstance(mark, dict)
            and written == spec.to_toml()
            and mark.get("spec") == digest(spec)
            and mark.get("history") == _digest(history)
        )

    def begin(self, spec: Spec) -> None:
        """An empty folder with the spec and where it runs."""
        if self.path.exists():
            shutil.rmtree(self.path)
        self.path.mkdir(parents=True)
        write(self.path / SPEC, spec.to_toml())
        write(self.path / ENVIRONMENT, json.dumps(environment(), indent=1) + "\n")

    def log(self, line: str) -> None:
        """A line for people; a run does not end because it cannot be written."""
        stamp = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        try:
            with (self.path / LOG).open("a", encoding="utf-8") as file:
                file.write(f"{stamp} {line}\n")
        except OSError as error:
            path = str(self.path / LOG)
            warnings.warn(f"{path!r} cannot be written: {error}", MostFWWarning, 2)

    def finish(self, spec: Spec, rows: Sequence[Mapping[str, Any]], **facts: Any) -> None:
        """The history, and last of all the mark: a run killed before has none."""
        text = _csv(rows)
        write(self.path / HISTORY, text)
        mark = {
            "spec": digest(spec),
            "history": _digest(text.encode()),
            **facts,
        }
        write(self.path / MARK, json.dumps(mark, indent=1) + "\n")


@dataclasses.dataclass(frozen=True)
class Run:
    """A complete run as read back from its folder."""

    spec: Spec
    history: dict[str, np.ndarray]
    facts: dict[str, Any]
    environment: dict[str, Any]

    def gap(self) -> np.ndarray:
        return np.abs(self.history[self.spec.gap])

    def violation(self) -> np.ndarray:
        columns = [np.abs(self.history[name]) for name in self.spec.violation]
        return np.sum(columns, axis=0) if columns else np.zeros(len(self.history["iteration"]))

    def merit(self) -> np.ndarray:
        return self.gap() + self.violation()

    def signed_gap(self) -> np.ndarray:
        """Below 0 the objective is better than the optimum, on the infeasible side."""
        return self.history[self.spec.gap]

    def last(self, column: str) -> float:
        return float(self.history[column][-1])


def read_run(path: Path) -> Run | None:
    """The run in a folder, or None where it is not complete."""
    try:
        spec = Spec.from_toml((path / SPEC).read_text("utf-8"))
    except (OSError, ValueError, TypeError, KeyError):
        return None
    if not RunFolder(path).is_complete(spec):
        return None
    with (path / HISTORY).open(newline="") as file:
        rows = list(csv.DictReader(file))
    columns = {name: np.array([_number(row[name]) for row in rows]) for name in rows[0]}
    try:
        around = json.loads((path / ENVIRONMENT).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return Run(spec, columns, json.loads((path / MARK).read_text("utf-8")), around)


def _number(text: str) -> float:
    return float(text) if text else float("nan")


def _csv(rows: Sequence[Mapping[str, Any]]) -> str:
    if not rows:
        raise InvalidInputError("a run without a single record cannot be kept.")
    file = io.StringIO()
    writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({k: "" if v is None else repr(v) for k, v in row.items()})
    return file.getvalue()


def write(path: Path, text: str) -> None:
    """All or nothing, in a folder that is made if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        file.write(text.encode())


def environment() -> dict[str, str]:
    """Versions, processor and devices; no names of people or machines.

    >>> from mostfw.experiments.folders import environment
    >>> "python" in environment()
    True
    """
    import jax

    names = ("jax", "jaxlib", "equinox", "numpy", "scipy")
    devices = sorted({device.device_kind for device in jax.devices()})
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "processor": processor(),
        "cores": str(cores()),
        "device": ", ".join(devices),
        "mostfw": __version__,
        **{name: importlib.metadata.version(name) for name in names},
    }


def digest(spec: Spec) -> str:
    """Two specs with the same digest ask for the same numbers."""
    return _digest(spec.to_toml().encode())


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
