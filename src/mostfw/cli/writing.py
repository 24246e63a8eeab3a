"""What commands write: JSON without NaN, CSV, NPZ; and that the place for it is there."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..atomic import replacing
from ..errors import InvalidInputError


def check_folder(option: str, file: str | None) -> None:
    """Refuses a file whose folder is missing: before a long run, not after it."""
    if file not in (None, "-") and not Path(file).resolve().parent.is_dir():
        raise InvalidInputError(
            f"{option} {file!r}: its folder does not exist; make it first, before a long run."
        )


def write_json(content: Any, target: str) -> None:
    """To a file, or to the output for '-'."""
    text = json.dumps(plain(content), indent=1, allow_nan=False)
    if target == "-":
        print(text)
        return
    _written(target, lambda file: file.write(f"{text}\n".encode()))


def write_csv(header: Sequence[str], rows: Iterable[Sequence[Any]], target: str) -> None:
    def save(file: BinaryIO) -> None:
        text = io.TextIOWrapper(file, newline="", encoding="utf-8")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
        text.detach()  # flushed, and the file stays open

    _written(target, save)


def write_npz(arrays: dict[str, np.ndarray], target: str) -> None:
    # an open file, for to a name savez would append .npz
    _written(target, lambda file: np.savez_compressed(file, allow_pickle=False, **arrays))


def _written(target: str, save: Callable[[BinaryIO], Any]) -> None:
    try:
        with replacing(target) as file:
            save(file)
    except OSError as error:
        raise InvalidInputError(f"the result cannot be written to {target!r}: {error}") from error


def plain(value: Any) -> Any:
    """JSON has no NaN, infinity or arrays: they become null and lists.

    >>> import numpy as np
    >>> plain({"a": np.array([1.0, np.nan])})
    {'a': [1.0, None]}
    """
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    return value
