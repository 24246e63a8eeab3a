"""mostfw: stochastic Frank-Wolfe methods for problems with very many affine constraints."""

from . import (
    constraints,
    datasets,
    domains,
    graphs,
    linalg,
    maps,
    methods,
    objectives,
    oracles,
    problems,
    schedules,
    sets,
    smoothing,
    testing,
    theory,
    trackers,
    trimming,
)
from .errors import (
    DisconnectedGraphError,
    InvalidInputError,
    MissingDependencyError,
    MostFWError,
    MostFWWarning,
    NonFiniteError,
    ShapeError,
    StreamError,
    UnknownNameError,
    UnsuitableMethodError,
)
from .method import Method
from .problem import Problem
from .result import Counts, History, Record, Result, Status
from .solve import Tolerance, solve

__version__ = "0.1.0"

__all__ = [
    "Counts",
    "DisconnectedGraphError",
    "History",
    "InvalidInputError",
    "Method",
    "MissingDependencyError",
    "MostFWError",
    "MostFWWarning",
    "NonFiniteError",
    "Problem",
    "Record",
    "Result",
    "ShapeError",
    "Status",
    "StreamError",
    "Tolerance",
    "UnknownNameError",
    "UnsuitableMethodError",
    "constraints",
    "datasets",
    "domains",
    "graphs",
    "linalg",
    "maps",
    "methods",
    "objectives",
    "oracles",
    "problems",
    "schedules",
    "sets",
    "smoothing",
    "solve",
    "testing",
    "theory",
    "trackers",
    "trimming",
]
