"""Pictures of answers: clusters, cuts, covariances, completed matrices, and how a run converged.

Each picture is a panel; `draw` puts one or several side by side into a file.
"""

from ._canvas import Panel, check_target, draw
from ._convergence import Convergence
from ._graphs import CutPicture
from ._matrices import Correlations, Entries
from ._points import Clusters

__all__ = [
    "Clusters",
    "Convergence",
    "Correlations",
    "CutPicture",
    "Entries",
    "Panel",
    "check_target",
    "draw",
]
