"""Matrices as heat maps."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse
import scipy.sparse.csgraph

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAMED = 40  # more rows than that are drawn without their names


@dataclasses.dataclass(frozen=True)
class Correlations:
    """A covariance matrix as correlations, related variables beside each other.

    Blue is negative, red positive, white exactly or nearly zero. The order of the variables is
    such that large correlations come near to the diagonal, which makes blocks visible.

    >>> import numpy as np
    >>> from mostfw.pictures import Correlations
    >>> Correlations(np.eye(3)).title
    '3 variables, 0% of the pairs correlated'
    """

    covariance: Any
    names: Any = None

    @property
    def title(self) -> str:
        values = correlations(self.covariance)
        pairs = np.abs(values[np.triu_indices_from(values, 1)])
        share = 100 * float(np.mean(pairs > 1e-3)) if pairs.size else 0.0
        return f"{len(values)} variables, {share:.3g}% of the pairs correlated"

    def __call__(self, axes: Axes) -> None:
        values = correlations(self.covariance)
        order = block_order(values)
        image = axes.imshow(
            values[np.ix_(order, order)], cmap="RdBu_r", vmin=-1, vmax=1, interpolation="nearest"
        )
        bar = axes.figure.colorbar(image, ax=axes, shrink=0.8)
        bar.set_label("correlation")
        axes.set_title(self.title)
        _ticks(axes, self.names, order)


def _ticks(axes: Axes, names: Any, order: np.ndarray) -> None:
    if names is None or len(order) > NAMED:
        axes.set_xlabel("variables, related ones together")
        axes.set_xticks([])
        axes.set_yticks([])
        return
    shown = [str(names[index]) for index in order]
    axes.set_xticks(range(len(order)), shown, rotation=90, fontsize=7)
    axes.set_yticks(range(len(order)), shown, fontsize=7)


def correlations(covariance: Any) -> np.ndarray:
    """D^-1/2 X D^-1/2 with D = diag X; rows without variance are 0 off the diagonal.

    >>> import numpy as np
    >>> correlations(np.array([[4.0, 1.0], [1.0, 1.0]])).tolist()
    [[1.0, 0.5], [0.5, 1.0]]
    """
    matrix = np.asarray(covariance, dtype=float)
    scale = np.sqrt(np.maximum(np.diag(matrix), 0))
    inverse = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
    found = np.clip(inverse[:, None] * matrix * inverse[None, :], -1, 1)
    np.fill_diagonal(found, 1.0)
    return found


def block_order(values: np.ndarray) -> np.ndarray:
    """An order of the rows in which those with large entries in common are neighbours: connected
    pieces one after the other, and inside a piece along the second eigenvector.

    >>> import numpy as np
    >>> block_order(np.array([[1.0, 0.0, 0.9], [0.0, 1.0, 0.0], [0.9, 0.0, 1.0]])).tolist()
    [0, 2, 1]
    """
    strengths = np.abs(values) * (np.abs(values) > 0.1)
    _, pieces = scipy.sparse.csgraph.connected_components(scipy.sparse.csr_array(strengths))
    order: list[int] = []
    sizes = np.bincount(pieces)
    for piece in np.argsort(-sizes, kind="stable"):
        members = np.flatnonzero(pieces == piece)
        if len(members) > 2:
            inside = strengths[np.ix_(members, members)]
            laplacian = np.diag(inside.sum(axis=1)) - inside
            members = members[np.argsort(np.linalg.eigh(laplacian)[1][:, 1], kind="stable")]
        order += members.tolist()
    return np.array(order)


@dataclasses.dataclass(frozen=True)
class Entries:
    """A matrix of ratings, unknown entries (NaN) left grey; the bounds are the ends of the scale.

    >>> import numpy as np
    >>> from mostfw.pictures import Entries
    >>> Entries(np.array([[1.0, np.nan]]), (1, 5), "known").title
    'known'
    """

    matrix: Any
    bounds: tuple[float, float]
    title: str

    def __call__(self, axes: Axes) -> None:
        matrix = np.asarray(self.matrix, dtype=float)
        axes.set_facecolor("0.88")
        lower, upper = self.bounds
        image = axes.imshow(
            matrix, cmap="viridis", vmin=lower, vmax=upper, aspect="auto", interpolation="nearest"
        )
        axes.figure.colorbar(image, ax=axes, shrink=0.8)
        axes.set_title(self.title)
        axes.set_xlabel("columns")
        axes.set_ylabel("rows")
