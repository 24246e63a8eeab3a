"""Files of arrays: .npy, .npz (also of scipy.sparse), .mat and .parquet, known by their bytes.

Nothing is unpickled, and no memory is asked for before the file is known to hold as much.
"""

from __future__ import annotations

import contextlib
import io
import math
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import scipy.sparse

from ..errors import InvalidInputError, MissingDependencyError
from . import _matlab
from ._limits import from_compressed, from_places, is_absurd, lacks_room
from ._text import (
    MOST_BYTES,
    check_unpacked,
    existing,
    is_packed,
    refusal,
    unpacked,
    unreadable,
)

_SIGNATURES = {
    b"\x93NUMPY": ".npy",
    b"PK\x03\x04": ".npz",
    b"PK\x05\x06": ".npz",  # an empty archive
    b"MATLAB": ".mat",
    b"PAR1": ".parquet",
}
_SPARSE = {"format", "shape", "data"}  # what scipy.sparse.save_npz always writes
_STORED = _SPARSE | {"indices", "indptr", "coords", "row", "col"}
_Choice = Callable[[Sequence[str]], str]  # which of these arrays is meant
ENDINGS = (".npy", ".npz", ".mat", ".parquet")
_LONGEST = 8  # bytes of a signature


class _Source(NamedTuple):
    """The bytes of a file, unpacked, and how many they are."""

    file: BinaryIO
    size: int


def kind_of(path: Path, thing: str) -> str | None:
    """The ending of the format that a file of arrays has, or None for text."""
    try:
        with path.open("rb") as file:
            start = file.read(_LONGEST)
    except OSError as error:
        raise unreadable(thing, path, error) from error
    ending = Path(path.name.lower().removesuffix(".gz")).suffix
    if packed := is_packed(start):
        try:
            start = unpacked(path, thing, _LONGEST)
        except (OSError, EOFError, zlib.error) as error:
            if ending not in ENDINGS:
                return None  # the reader of text says after which line it ends
            found = f"it cannot be unpacked ({error})"
            raise refusal(thing, path, found, "fetch or pack it again") from error
    for signature, kind in _SIGNATURES.items():
        if start.startswith(signature):
            if packed and kind == ".parquet":
                raise refusal(thing, path, "it is a packed .parquet file", "unpack it with gunzip")
            return kind
    if start.startswith(b"\x89HDF"):
        raise refusal(thing, path, "it is an HDF5 file", "save the matrix as .npy")
    if ending in ENDINGS:
        raise refusal(
            thing,
            path,
            f"it cannot be read as numbers, for it is no {ending} file inside",
            "save it again (a .mat file with -v7), or give it the ending of its format",
        )
    return None


def read_matrix(
    path: str | Path,
    *,
    key: str | None = None,
    preferred: tuple[str, ...] = (),
    thing: str = "data file",
) -> np.ndarray | scipy.sparse.csr_array:
    """The numbers of a .npy, .npz or .mat file: an array, or a sparse matrix if it holds one.

    The file may be packed with gzip. `key` names the array where there are several; without it one
    of the `preferred` names is taken. NaN and infinities are left in.

    >>> import pathlib, tempfile, numpy as np
    >>> from mostfw import files
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "some.npz")
    ...     np.savez(path, a=np.eye(2), b=np.ones(3))
    ...     files.read_matrix(path, key="b").tolist()
    [1.0, 1.0, 1.0]
    """
    path = existing(path, thing)
    kind = kind_of(path, thing)
    if kind not in _READERS:
        raise refusal(thing, path, "it is no file of arrays", "give .npy, .npz or .mat")
    if kind == ".npy" and key is not None:
        raise refusal(thing, path, f"there is no key {key!r} in a .npy file", "leave the key out")
    try:
        with _opened(path, thing) as source:
            return _READERS[kind](
                source, lambda names: _chosen(names, key, preferred, thing, path), thing, path
            )
    except InvalidInputError:
        raise
    except Exception as error:  # whatever numpy, scipy and zipfile make of damaged bytes
        raise refusal(
            thing, path, f"it cannot be read as numbers ({error})", "save it again"
        ) from error


def real(array: Any, what: str, thing: str, path: Path) -> np.ndarray:
    """Float64 numbers, if it is numbers that an array holds."""
    if array.dtype.kind not in "fiub":
        raise refusal(thing, path, f"{what} holds {array.dtype}", "save real numbers")
    return np.asarray(array, dtype=float)


@contextlib.contextmanager
def _opened(path: Path, thing: str) -> Iterator[_Source]:
    with path.open("rb") as file:
        if not is_packed(file.peek(2)):
            yield _Source(file, path.stat().st_size)
            return
    content = unpacked(path, thing)
    yield _Source(io.BytesIO(content), len(content))


def _read_npy(source: _Source, choose: _Choice, thing: str, path: Path) -> np.ndarray:
    return real(_npy(source.file, source.size, "it", thing, path), "it", thing, path)


def _npy(file: BinaryIO | Any, size: int, what: str, thing: str, path: Path) -> np.ndarray:
    """The array in `size` bytes, whose header is checked before it is believed."""
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    elif version == (2, 0):
        shape, _, dtype = np.lib.format.read_array_header_2_0(file)
    else:  # later ones are for names of fields, and arrays with fields are no numbers
        raise refusal(thing, path, f"{what} has .npy version {version}", "save plain numbers")
    if dtype.kind not in "fiubUS":
        raise refusal(thing, path, f"{what} holds {dtype}", "save real numbers")
    held = size - file.tell()
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize > held:
        raise refusal(
            thing,
            path,
            f"{what} promises numbers of shape {shape} ({dtype}), but {held} bytes follow",
            "fetch or save it again",
        )
    if dtype.kind in "fiub":
        _check_room(shape, what, thing, path)
    file.seek(0)
    return np.load(file, allow_pickle=False)


def _check_room(shape: Sequence[int], what: str, thing: str, path: Path) -> None:
    if lacks_room(math.prod(shape)):
        raise refusal(
            thing,
            path,
            f"{what} has shape {tuple(shape)}, and this machine has no memory left for that",
            "save a part of it",
        )


def _read_npz(source: _Source, choose: _Choice, thing: str, path: Path) -> Any:
    with zipfile.ZipFile(source.file) as archive:
        members = {
            info.filename.removesuffix(".npy"): info
            for info in archive.infolist()
            if info.filename.endswith(".npy")
        }
        if not members:
            raise refusal(
                thing,
                path,
                "it is an archive without arrays",
                "save a spreadsheet as CSV, and unpack an archive of texts",
            )

        def load(name: str) -> np.ndarray:
            info = members[name]
            check_unpacked(info.file_size, info.compress_size, thing, path)
            with archive.open(info) as file:
                return _npy(file, info.file_size, f"its array {name!r}", thing, path)

        if set(members) >= _SPARSE:
            return _sparse({name: load(name) for name in members if name in _STORED}, thing, path)
        name = choose(list(members))
        return real(load(name), f"its array {name!r}", thing, path)


def _chosen(
    names: Sequence[str], key: str | None, preferred: tuple[str, ...], thing: str, path: Path
) -> str:
    """The one array of a file, or that with this key."""
    listed = ", ".join(names[:20]) or "nothing"
    if key is not None and key not in names:
        raise refusal(thing, path, f"it has no {key!r}", f"it holds {listed}")
    if key is not None:
        return key
    found = [name for name in preferred if name in names] or names
    if len(found) != 1:
        remedy = f"call one of them {preferred[0]!r}" if preferred else "name one by a key (--key)"
        raise refusal(thing, path, f"it holds {listed}", remedy)
    return found[0]


def _sparse(held: dict[str, np.ndarray], thing: str, path: Path) -> scipy.sparse.csr_array:
    """What scipy.sparse.save_npz wrote."""
    layout, shape = held["format"].item(), tuple(held["shape"].tolist())
    layout = layout.decode("ascii") if isinstance(layout, bytes) else layout
    what = "its sparse matrix"
    data = real(held["data"], what, thing, path)
    if len(shape) != 2:
        raise refusal(thing, path, f"{what} has shape {shape}", "save a matrix")
    _check_sides(shape, data.size, thing, path)
    if layout in ("csr", "csc"):
        return from_compressed(shape, data, held["indices"], held["indptr"], layout == "csr")
    if layout == "coo":
        places = held["coords"] if "coords" in held else (held["row"], held["col"])
        return from_places(shape, data, *places)
    raise refusal(thing, path, f"{what} has the format {layout!r}", "save it as csr, csc or coo")


def _check_sides(shape: Sequence[int], entries: int, thing: str, path: Path) -> None:
    """A side costs memory even where it is empty."""
    if min(shape) < 0 or is_absurd(max(shape), entries):
        raise refusal(
            thing,
            path,
            f"its sparse matrix has shape {tuple(shape)}, but {entries} entries",
            "leave rows and columns out that are empty",
        )


def _read_mat(source: _Source, choose: _Choice, thing: str, path: Path) -> Any:
    check_unpacked(source.size, source.size, thing, path)
    data = source.file.read()
    if data.startswith(b"MATLAB 7.3"):
        raise refusal(thing, path, "it is of version 7.3", "save it with -v7")
    found = {
        each.name: each
        for each in _matlab.variables(
            data, lambda count, packed: check_unpacked(count, packed, thing, path)
        )
    }
    name = choose(list(found))
    variable, what = found[name], f"its array {name!r}"
    if variable.unfit:
        raise refusal(thing, path, f"{what} holds {variable.unfit}", "save real numbers")
    _check_sides(variable.shape, variable.entries, thing, path)
    _check_room((variable.entries,), what, thing, path)
    matrix = variable.matrix()
    return matrix if scipy.sparse.issparse(matrix) else np.array(matrix, dtype=float)


_READERS = {".npy": _read_npy, ".npz": _read_npz, ".mat": _read_mat}


def dense(matrix: Any, thing: str, path: Path) -> np.ndarray:
    """A matrix with all its zeros, if that is not too large."""
    if not scipy.sparse.issparse(matrix):
        return matrix
    if 8 * math.prod(matrix.shape) > MOST_BYTES or lacks_room(math.prod(matrix.shape)):
        raise refusal(
            thing,
            path,
            f"its sparse matrix has shape {matrix.shape}, too large with all zeros",
            "save a part of it",
        )
    return matrix.toarray()


def read_parquet(path: Path, thing: str) -> tuple[list[str], list[np.ndarray], np.ndarray | None]:
    """Names and columns of a .parquet file, and the index that pandas wrote if it did."""
    try:
        from pyarrow import parquet  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise MissingDependencyError(
            f"{thing} {str(path)!r} needs the package pyarrow to be read: pip install pyarrow."
        ) from error
    try:
        with parquet.ParquetFile(path) as file:
            facts = file.metadata
            check_unpacked(8 * facts.num_rows * facts.num_columns, path.stat().st_size, thing, path)
            _check_room((facts.num_rows, facts.num_columns), "it", thing, path)
            table = file.read()
        written = (table.schema.pandas_metadata or {}).get("index_columns", [])
        columns = {name: table.column(name).to_numpy() for name in table.column_names}
    except InvalidInputError:
        raise
    except Exception as error:  # pyarrow has errors of its own
        raise refusal(thing, path, f"it cannot be read ({error})", "save it again") from error
    # pandas puts its index last, and says so.
    names = [name for name in written if isinstance(name, str) and name in columns]
    index = columns.pop(names[0]) if names else None
    return list(columns), list(columns.values()), index
