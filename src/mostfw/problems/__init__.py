"""From data to a Problem, and from a solution back to an answer: labels, a cut, a matrix."""

from .completion import completion
from .covariance import covariance
from .kmeans import kmeans
from .logistic import logistic
from .max_cut import max_cut
from .sdp import sdp
from .sparsest_cut import sparsest_cut

__all__ = ["completion", "covariance", "kmeans", "logistic", "max_cut", "sdp", "sparsest_cut"]
