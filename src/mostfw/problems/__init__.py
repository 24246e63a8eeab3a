"""From data to a Problem, and from a solution back to an answer: labels, a cut, a matrix."""

from .covariance import covariance
from .kmeans import kmeans
from .sparsest_cut import sparsest_cut

__all__ = ["covariance", "kmeans", "sparsest_cut"]
