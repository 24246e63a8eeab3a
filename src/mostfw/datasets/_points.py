"""The data folder, and files of points."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InvalidInputError


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
    """A matrix with one row a point from .npy, .npz, .mat, .csv, .tsv or plain text.

    `key` names the array in .npz and .mat files that hold several; `transpose` is for files with
    one column a point.

    >>> import tempfile, numpy as np, mostfw as fw
    >>> with tempfile.NamedTemporaryFile(suffix=".csv") as file:
    ...     np.savetxt(file.name, np.eye(2), delimiter=",", header="a,b", comments="")
    ...     fw.datasets.read_points(file.name).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    path = Path(path)
    if not path.is_file():
        raise InvalidInputError(f"there is no data file {str(path)!r}.")
    try:
        array = np.asarray(_read(path, key), dtype=float)
    except InvalidInputError:
        raise
    except Exception as error:
        raise InvalidInputError(
            f"data file {str(path)!r} cannot be read as numbers: {error}"
        ) from error
    if array.ndim != 2 or 0 in array.shape:
        raise InvalidInputError(
            f"data file {str(path)!r} holds an array of shape {array.shape}: rows of points needed."
        )
    return array.T if transpose else array


def _read(path: Path, key: str | None) -> Any:
    suffix = path.suffix.lower()
    if suffix == ".npy":
        return np.load(path, allow_pickle=False)
    if suffix in (".npz", ".mat"):
        if suffix == ".npz":
            held: Any = np.load(path, allow_pickle=False)
        else:
            import scipy.io

            held = scipy.io.loadmat(path)
        names = [name for name in held if not name.startswith("__")]
        if key is None and len(names) != 1:
            raise InvalidInputError(
                f"data file {str(path)!r} holds {', '.join(names) or 'nothing'}: say which with a "
                "key (--key NAME)."
            )
        if key is not None and key not in names:
            raise InvalidInputError(
                f"data file {str(path)!r} has no {key!r}: it holds {', '.join(names)}."
            )
        return held[key or names[0]]
    delimiter = {".csv": ",", ".tsv": "\t"}.get(suffix)
    with path.open() as lines:
        first = lines.readline()
    if not first.strip():
        raise InvalidInputError(f"data file {str(path)!r} is empty, or begins with an empty line.")
    skip = 0 if _numeric(first, delimiter) else 1
    return np.loadtxt(path, delimiter=delimiter, skiprows=skip, ndmin=2)


def _numeric(line: str, delimiter: str | None) -> bool:
    try:
        [float(word) for word in line.split(delimiter)]
    except ValueError:
        return False
    return True
