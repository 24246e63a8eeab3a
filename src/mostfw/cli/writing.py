"""What commands write: JSON without NaN, CSV, NPZ; and that the place for it is there."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

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
    _written(target, lambda path: path.write_text(text + "\n", "utf-8"))


def write_csv(header: Sequence[str], rows: Iterable[Sequence[Any]], target: str) -> None:
    def save(path: Path) -> None:
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(header)
            writer.writerows(rows)

    _written(target, save)


def write_npz(arrays: dict[str, np.ndarray], target: str) -> None:
    def save(path: Path) -> None:
        with path.open("wb") as file:  # by its own name: savez would append .npz
            np.savez_compressed(file, allow_pickle=False, **arrays)

    _written(target, save)


def _written(target: str, save: Callable[[Path], Any]) -> None:
    try:
        save(Path(target))
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
