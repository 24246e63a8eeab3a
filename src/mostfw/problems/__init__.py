"""From data to a Problem, and from a solution back to an answer: labels, a cut, a matrix."""

from .completion import completion
from .covariance import covariance
from .kmeans import kmeans
from .logistic import logistic
from .sparsest_cut import sparsest_cut

__all__ = ["completion", "covariance", "kmeans", "logistic", "sparsest_cut"]
