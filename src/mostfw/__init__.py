"""mostfw: stochastic Frank-Wolfe methods for problems with very many affine constraints."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ._version import __version__ as __version__

# The engine takes a second to import. It is imported when something of it is first named, so that
# the command line can answer, and listen to Ctrl-C, before.
if TYPE_CHECKING:
    from . import (
        atoms,
        certificates,
        constraints,
        datasets,
        domains,
        files,
        graphs,
        linalg,
        maps,
        memory,
        methods,
        objectives,
        oracles,
        problems,
        processes,
        scaling,
        schedules,
        sdpa,
        sets,
        smoothing,
        testing,
        theory,
        trackers,
        trees,
        trimming,
    )
    from .certificates import Certificate
    from .errors import (
        CheckpointError,
        CheckpointWarning,
        DamagedFileError,
        DataError,
        DisconnectedGraphError,
        FolderInUseError,
        InvalidInputError,
        LostProcessError,
        MissingDependencyError,
        MostFWError,
        MostFWWarning,
        NonFiniteError,
        PeerError,
        ResourceError,
        ShapeError,
        StreamError,
        UnknownNameError,
        UnsuitableMethodError,
        UnusableFolderError,
        UserCodeError,
    )
    from .method import Method
    from .problem import Problem
    from .result import Counts, History, Record, Result, Status
    from .solving import solve
    from .stopping import Certified, Tolerance
    from .sweeps import sweep

_HOMES = {
    "certificates": ("Certificate",),
    "errors": (
        "CheckpointError",
        "CheckpointWarning",
        "DamagedFileError",
        "DataError",
        "DisconnectedGraphError",
        "FolderInUseError",
        "InvalidInputError",
        "LostProcessError",
        "MissingDependencyError",
        "MostFWError",
        "MostFWWarning",
        "NonFiniteError",
        "PeerError",
        "ResourceError",
        "ShapeError",
        "StreamError",
        "UnknownNameError",
        "UnsuitableMethodError",
        "UnusableFolderError",
        "UserCodeError",
    ),
    "method": ("Method",),
    "problem": ("Problem",),
    "result": (
        "Counts",
        "History",
        "Record",
        "Result",
        "Status",
    ),
    "solving": ("solve",),
    "stopping": (
        "Certified",
        "Tolerance",
    ),
    "sweeps": ("sweep",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Certificate",
    "Certified",
    "CheckpointError",
    "CheckpointWarning",
    "Counts",
    "DamagedFileError",
    "DataError",
    "DisconnectedGraphError",
    "FolderInUseError",
    "History",
    "InvalidInputError",
    "LostProcessError",
    "Method",
    "MissingDependencyError",
    "MostFWError",
    "MostFWWarning",
    "NonFiniteError",
    "PeerError",
    "Problem",
    "Record",
    "ResourceError",
    "Result",
    "ShapeError",
    "Status",
    "StreamError",
    "Tolerance",
    "UnknownNameError",
    "UnsuitableMethodError",
    "UnusableFolderError",
    "UserCodeError",
    "atoms",
    "certificates",
    "constraints",
    "datasets",
    "domains",
    "files",
    "graphs",
    "linalg",
    "maps",
    "memory",
    "methods",
    "objectives",
    "oracles",
    "problems",
    "processes",
    "scaling",
    "schedules",
    "sdpa",
    "sets",
    "smoothing",
    "solve",
    "sweep",
    "testing",
    "theory",
    "trackers",
    "trees",
    "trimming",
]


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        found = getattr(importlib.import_module(f".{_HOME_OF[name]}", __name__), name)
    elif name in __all__:
        found = importlib.import_module(f".{name}", __name__)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
