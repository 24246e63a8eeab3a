"""Domains: compact convex sets C over which a linear function is easy to minimise.

LMO means argmin, everywhere: `domain.lmo(s)` gives an atom z with <s, z> = min over C of <s, .>.
"""

from ._balls import L1Ball, L2Ball, Simplex
from ._base import DOMAINS, Domain, LinearMinimum
from ._least import Least, lowest_sum
from ._polytopes import Birkhoff, Box, KSparse, LinfBall, Product
from ._spectral import NuclearBall, Spectrahedron

__all__ = [
    "DOMAINS",
    "Birkhoff",
    "Box",
    "Domain",
    "KSparse",
    "L1Ball",
    "L2Ball",
    "Least",
    "LinearMinimum",
    "LinfBall",
    "NuclearBall",
    "Product",
    "Simplex",
    "Spectrahedron",
    "lowest_sum",
]
