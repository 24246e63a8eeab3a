"""Objectives: what is minimised, E f(x, xi), with samples, values and gradients.

An objective is a `Term` that also has values: `value(x, xi)` of one draw (an unbiased sample of
the objective, what a zeroth-order oracle may ask for) and `whole_value(x)`.
"""

from ._base import OBJECTIVES, Objective
from ._covariance import Covariance
from ._distances import SquaredDistances
from ._edges import Laplacian
from ._entries import EntryLoss
from ._functions import FiniteSum, Sampled, Smooth
from ._linear import Linear
from ._online import Online

__all__ = [
    "OBJECTIVES",
    "Covariance",
    "EntryLoss",
    "FiniteSum",
    "Laplacian",
    "Linear",
    "Objective",
    "Online",
    "Sampled",
    "Smooth",
    "SquaredDistances",
]
