"""Smallest eigenpairs and leading singular pairs, for use inside compiled loops.

Two methods stand behind both questions. A small operator is written out as a matrix and reduced
to tridiagonal form, where bisection finds the one eigenvalue that is wanted. A larger one is only
multiplied: a Krylov basis, completely reorthogonalised, with thick restarts.
"""

from ._krylov import LOOK_EVERY, RANDOM_SHARE, RESTARTS, STEPS
from ._pairs import Accuracy, Eigenpair, SingularPair, as_unit
from ._search import DENSE_BELOW, leading_singular_pair, smallest_eigenpair

__all__ = [
    "DENSE_BELOW",
    "LOOK_EVERY",
    "RANDOM_SHARE",
    "RESTARTS",
    "STEPS",
    "Accuracy",
    "Eigenpair",
    "SingularPair",
    "as_unit",
    "leading_singular_pair",
    "smallest_eigenpair",
]
