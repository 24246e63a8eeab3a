"""Linear maps G with adjoints, whole or row by row: the left-hand sides of constraints."""

from ._base import MAPS, LinearMap
from ._coefficients import Coefficients, Diagonal
from ._general import Dense, Function, Sparse, as_map
from ._structured import Entries, Identity, RowSums, TotalSpread, Trace
from ._triangles import Triangles

__all__ = [
    "MAPS",
    "Coefficients",
    "Dense",
    "Diagonal",
    "Entries",
    "Function",
    "Identity",
    "LinearMap",
    "RowSums",
    "Sparse",
    "TotalSpread",
    "Trace",
    "Triangles",
    "as_map",
]
