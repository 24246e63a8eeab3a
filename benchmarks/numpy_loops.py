"""What a competent author would write in plain NumPy: the same arithmetic, step by step."""

from __future__ import annotations

import numpy as np


class SparsestCutLoop:
    """MOST-FW on the sparsest-cut SDP: sampled entries of L, all triangles, numpy.linalg.eigh."""

    def __init__(self, laplacian: np.ndarray, batch: int, mu_c: float, seed: int) -> None:
        self.laplacian = laplacian
        self.d = laplacian.shape[0]
        self.batch, self.mu_c = batch, mu_c
        self.rng = np.random.default_rng(seed)
        self.x = np.zeros((self.d, self.d))
        self.y = np.zeros((self.d, self.d))
        j, i, k = np.ogrid[: self.d, : self.d, : self.d]
        self.valid = (i < k) & (i != j) & (k != j)
        self.equality = self.d * np.eye(self.d) - 1.0
        self.k = 0

    def penalty(self, x: np.ndarray) -> np.ndarray:
        """G'(Gx - Proj(Gx)) of the equality (weight d) and of all triangles."""
        d = self.d
        gap = d * np.trace(x) - x.sum() - d * d / 2
        rows = x[:, :, None] + x[:, None, :] - x[None] - np.diagonal(x)[:, None, None]
        over = np.where(self.valid, np.maximum(rows, 0), 0)
        ends = over.sum(axis=2) + over.sum(axis=1)
        pull = ends - over.sum(axis=0)
        pull = (pull + pull.T) / 2
        pull[np.diag_indices(d)] -= ends.sum(axis=1) / 2
        return d * gap * self.equality + pull

    def step(self) -> None:
        self.k += 1
        k, d = self.k, self.d
        drawn = self.rng.integers(0, d * d, self.batch)
        rows, columns = np.divmod(drawn, d)
        values = self.laplacian[rows, columns] * (d * d / self.batch / 2)
        sample = np.zeros((d, d))
        np.add.at(sample, (rows, columns), values)
        sample += sample.T
        # A linear form's gradient is the same at both points, so momentum is a running mean.
        self.y += (sample - self.y) / k
        s = self.y + self.penalty(self.x) * (np.sqrt(k) / self.mu_c)
        eigenvalues, vectors = np.linalg.eigh(s)
        eta = 2 / (k + 1)
        self.x *= 1 - eta
        if eigenvalues[0] < 0:
            v = vectors[:, 0]
            self.x += (eta * d) * np.outer(v, v)
