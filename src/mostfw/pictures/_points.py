"""Clusters of points in the plane that shows them best."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from ..report.looks import BLUE, GREEN, GREY, OCHRE, PINK, SKY, VERMILLION

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HUES = (BLUE, VERMILLION, GREEN, PINK, OCHRE, SKY, GREY)
MARKERS = "osD^vPX*h"  # beyond the hues, shapes tell clusters apart
LISTED = 14  # clusters in the legend


@dataclasses.dataclass(frozen=True)
class Clusters:
    """Points in their first two principal axes, one colour and shape a cluster.

    >>> import numpy as np
    >>> from mostfw.pictures import Clusters
    >>> Clusters(np.eye(3), np.array([0, 1, 1])).title
    '3 points in 2 clusters'
    """

    points: Any
    labels: Any

    @property
    def title(self) -> str:
        return f"{len(self.points)} points in {len(np.unique(self.labels))} clusters"

    def __call__(self, axes: Axes) -> None:
        plane, shares = principal_plane(self.points)
        size = float(np.clip(400 / np.sqrt(len(plane)), 6, 40))
        labels = np.asarray(self.labels)
        found = np.unique(labels)
        for index, label in enumerate(found):
            mine = plane[labels == label]
            axes.scatter(
                mine[:, 0],
                mine[:, 1],
                s=size,
                color=HUES[index % len(HUES)],
                marker=MARKERS[index // len(HUES) % len(MARKERS)],
                alpha=0.75,
                linewidths=0,
                label=f"{label}: {len(mine)}" if len(found) <= LISTED else None,
            )
        if len(found) <= LISTED:
            axes.legend(title="cluster: points", fontsize="small", framealpha=0.8)
        axes.set_title(self.title)
        for name, setter, share in zip(
            ("first", "second"), (axes.set_xlabel, axes.set_ylabel), shares, strict=True
        ):
            setter(f"{name} principal axis ({100 * share:.0f}% of the variance)")


def principal_plane(points: Any) -> tuple[np.ndarray, tuple[float, float]]:
    """Coordinates along the two axes of largest variance, and their shares of it.

    >>> import numpy as np
    >>> plane, shares = principal_plane(np.array([[0.0, 1.0], [2.0, 1.0], [4.0, 1.0]]))
    >>> abs(plane[:, 0]).round(6).tolist(), shares
    ([2.0, 0.0, 2.0], (1.0, 0.0))
    """
    centered = np.asarray(points, dtype=float) - np.mean(points, axis=0)
    if centered.shape[1] == 1:
        centered = np.hstack([centered, np.zeros_like(centered)])
    left, sizes, _ = np.linalg.svd(centered, full_matrices=False)
    variances = np.concatenate([sizes**2, [0.0]])
    plane = np.zeros((len(centered), 2))
    plane[:, : len(sizes[:2])] = left[:, :2] * sizes[:2]
    total = variances.sum() or 1.0
    return plane, (float(variances[0] / total), float(variances[1] / total))
