"""The uniform sparsest cut and its semidefinite relaxation."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import equinox as eqx
import jax
import numpy as np

from .. import domains, maps, objectives, sets
from ..constraints import Affine
from ..errors import InvalidInputError
from ..graphs import as_graph
from ..problem import Problem


def sparsest_cut(
    graph: Any,
    *,
    batch: float | int | None = None,
    constraint_batch: float | int | None = None,
    optimum: float | None = None,
    dtype: Any = np.float64,
) -> Problem:
    """min <L, X> over {X psd, tr X <= d}, d tr X - 1'X1 = d^2/2, all triangle inequalities.

    L is the Laplacian, d the number of nodes. `batch` samples the entries of L; `constraint_batch`
    the triangles, which makes the problem P+. The equality is always whole, with weight d. The
    metric `feasibility` is |equality| + sqrt(2 sum of squared triangle violations), as published.

    >>> import mostfw as fw
    >>> square = fw.graphs.as_graph([(0, 1), (1, 2), (2, 3), (3, 0)])
    >>> problem = fw.problems.sparsest_cut(square)
    >>> [constraint.name for constraint in problem.constraints]
    ['equality', 'triangles']
    """
    graph = as_graph(graph)
    d = graph.nodes
    if d < 3:
        raise InvalidInputError(f"graph {graph.name!r} has {d} nodes: a sparsest cut needs 3.")
    graph.require_connected()
    laplacian = graph.laplacian().astype(dtype)

    equality = Affine(maps.TotalSpread(), sets.Point(d * d / 2.0), weight=d, name="equality")
    triangles = Affine(maps.Triangles(), sets.Orthant(-1), name="triangles", batch=constraint_batch)

    return Problem(
        objectives.Linear(laplacian, batch=batch),
        domains.Spectrahedron(d, trace=float(d)),
        [equality, triangles],
        optimum=optimum,
        metrics={"feasibility": Feasibility(equality, triangles)},
        answer=lambda x: best_cut(laplacian, x),
        name=f"sparsest-cut {graph.name}",
        dtype=dtype,
    )


class Feasibility(eqx.Module):
    """|equality| + sqrt(2 sum of squared triangle violations), the published measure."""

    equality: Affine
    triangles: Affine

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.equality.violation(x) + math.sqrt(2) * self.triangles.violation(x)


@dataclasses.dataclass(frozen=True)
class Cut:
    """A cut: the smaller side, edges (weight) cut, and value edges/(|A| |B|)."""

    side: tuple[int, ...]
    edges: float
    value: float


def best_cut(laplacian: np.ndarray, x: np.ndarray) -> Cut:
    """The best cut among sweeps over the embedding: distances from each node, and main axes.

    >>> import numpy as np
    >>> from mostfw.problems.sparsest_cut import best_cut
    >>> path = np.array([[1.0, -1, 0, 0], [-1, 2, -1, 0], [0, -1, 2, -1], [0, 0, -1, 1]])
    >>> best_cut(path, np.outer([-1, -1, 1, 1], [-1.0, -1, 1, 1])).value
    0.25
    """
    d = laplacian.shape[0]
    gram = np.asarray(x, dtype=float)
    squares = np.diag(gram)
    distances = squares[:, None] + squares[None, :] - 2 * gram
    _, axes = np.linalg.eigh((gram + gram.T) / 2)
    best: Cut | None = None
    for score in [*distances, *axes.T[-min(d, 8) :]]:
        order = np.argsort(score, kind="stable")
        inside = np.zeros(d)
        for size, node in enumerate(order[:-1], start=1):
            inside[node] = 1
            edges = float(inside @ laplacian @ inside)
            value = edges / (size * (d - size))
            if best is None or value < best.value:
                side = order[:size] if 2 * size <= d else order[size:]
                best = Cut(tuple(sorted(int(i) for i in side)), edges, value)
    assert best is not None
    return best
