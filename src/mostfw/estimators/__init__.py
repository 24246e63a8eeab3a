"""scikit-learn faces: NumPy in, NumPy out, and every answer with a bound where there is one.

They need the extra `mostfw[sklearn]`.
"""

from importlib.util import find_spec

from ..errors import MissingDependencyError

if find_spec("sklearn") is None:  # pragma: no cover
    raise MissingDependencyError(
        "mostfw.estimators needs scikit-learn: pip install 'mostfw[sklearn]'."
    )

from ._completion import MatrixCompletion
from ._covariance import SparseCovariance
from ._cuts import MaxCut, SparsestCut
from ._kmeans import SDPKMeans

__all__ = ["MatrixCompletion", "MaxCut", "SDPKMeans", "SparseCovariance", "SparsestCut"]
