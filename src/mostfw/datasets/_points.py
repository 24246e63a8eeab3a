"""The data folder, and files of points."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from .. import files


def data_folder() -> Path | None:
    """The folder that MOSTFW_DATA names, or None. The product works without it.

    >>> import os, mostfw as fw
    >>> fw.datasets.data_folder() is None or fw.datasets.data_folder().is_dir()
    True
    """
    name = os.environ.get("MOSTFW_DATA")
    folder = Path(name) if name else None
    return folder if folder is not None and folder.is_dir() else None


def read_points(path: str | Path, key: str | None = None, transpose: bool = False) -> np.ndarray:
    """A matrix with one row a point, from all files that `mostfw.files.read_table` reads.

    `key` names the array in .npz and .mat files that hold several; `transpose` is for files with
    one column a point.

    >>> import tempfile, numpy as np, mostfw as fw
    >>> with tempfile.NamedTemporaryFile(suffix=".csv") as file:
    ...     np.savetxt(file.name, np.eye(2), delimiter=",", header="a,b", comments="")
    ...     fw.datasets.read_points(file.name).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return files.read_table(path, key=key, transpose=transpose).values
