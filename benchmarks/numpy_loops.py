"""What a competent author would write in plain NumPy: the same arithmetic, step by step."""

from __future__ import annotations

import numpy as np
from scipy.sparse.linalg import eigsh


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


class EigshLMO:
    """The atom K vv' of the smallest eigenvalue by ARPACK, the last vector as its start."""

    def __init__(self, n: int, trace: float) -> None:
        self.trace, self.start = trace, np.ones(n) / np.sqrt(n)

    def move(self, x: np.ndarray, s: np.ndarray, eta: float) -> None:
        """x + eta (z - x) in place, z the minimiser of <s, z>."""
        values, vectors = eigsh(s, k=1, which="SA", tol=1e-6, v0=self.start)
        self.start = vectors[:, 0]
        x *= 1 - eta
        if values[0] < 0:
            x += (eta * self.trace) * np.outer(self.start, self.start)


class CovarianceLoop:
    """MOST-FW on the sparse covariance: batches of N(0, FF'), an l1 projection by sorting."""

    def __init__(
        self, factor: np.ndarray, batch: int, trace: float, radius: float, mu_c: float, seed: int
    ) -> None:
        n = factor.shape[0]
        self.factor, self.batch, self.radius, self.mu_c = factor, batch, radius, mu_c
        self.rng, self.lmo = np.random.default_rng(seed), EigshLMO(n, trace)
        self.x, self.before, self.y = (np.zeros((n, n)) for _ in range(3))
        self.k = 0

    def penalty(self, x: np.ndarray) -> np.ndarray:
        """X - Proj(X) onto the l1 ball."""
        size = np.abs(x)
        if size.sum() <= self.radius:
            return np.zeros_like(x)
        falling = np.sort(size, axis=None)[::-1]
        above = np.cumsum(falling) - self.radius
        last = np.nonzero(falling * np.arange(1, falling.size + 1) > above)[0][-1]
        return np.clip(x, -above[last] / (last + 1), above[last] / (last + 1))

    def step(self) -> None:
        self.k += 1
        k = self.k
        w = self.rng.standard_normal((self.batch, self.factor.shape[1])) @ self.factor.T
        # the gradient is X - ww', so the sample enters the recursion with its weight 1/k only
        self.y = (1 - 1 / k) * (self.y - self.before) + self.x - (w.T @ w) / (self.batch * k)
        s = self.y + self.penalty(self.x) * (np.sqrt(k) / self.mu_c)
        self.before[:] = self.x
        self.lmo.move(self.x, s, 2 / (k + 1))


class KMeansLoop:
    """MOST-FW on the k-means SDP: sampled distances, whole row sums and signs."""

    def __init__(
        self,
        distances: np.ndarray,
        clusters: int,
        batch: float,
        weight: float,
        mu_c: float,
        seed: int,
    ) -> None:
        self.distances, self.n = distances, distances.shape[0]
        self.batch = int(np.ceil(batch * self.n**2))
        self.weight, self.mu_c = weight, mu_c
        self.rng, self.lmo = np.random.default_rng(seed), EigshLMO(self.n, float(clusters))
        self.x, self.y = (np.zeros((self.n, self.n)) for _ in range(2))
        self.k = 0

    def rows(self, x: np.ndarray) -> np.ndarray:
        """G'(Gx - Proj(Gx)) of the row sums, symmetric."""
        gap = x.sum(axis=1) - 1
        return (gap[:, None] + gap[None, :]) / 2

    def penalty(self, x: np.ndarray) -> np.ndarray:
        return self.rows(x) + self.weight * np.minimum(x, 0)

    def sampled_distances(self, y: np.ndarray, c: float) -> None:
        """Adds c times an unbiased, symmetric sample of D into y."""
        i, j = self.rng.integers(0, self.n, (2, self.batch))
        values = self.distances[i, j] * (c * self.n**2 / self.batch / 2)
        np.add.at(y, (i, j), values)
        np.add.at(y, (j, i), values)

    def step(self) -> None:
        self.k += 1
        k = self.k
        self.y *= 1 - 1 / k  # a linear form: momentum is a running mean
        self.sampled_distances(self.y, 1 / k)
        s = self.y + self.penalty(self.x) * (np.sqrt(k) / self.mu_c)
        self.lmo.move(self.x, s, 2 / (k + 1))


class KMeansPlusLoop(KMeansLoop):
    """MOST-FW+: a sample of the signs too, both points on the same sample, each with its mu."""

    def __init__(self, *settings, constraint_batch: float = 0.01) -> None:
        super().__init__(*settings)
        self.signs = int(np.ceil(constraint_batch * self.n**2))
        self.before = np.zeros_like(self.x)

    def step(self) -> None:
        self.k += 1
        k, gamma = self.k, 1 / self.k
        last, now = (k**0.25 / self.mu_c, (k + 1) ** 0.25 / self.mu_c)
        i, j = self.rng.integers(0, self.n, (2, self.signs))
        scale = self.weight * self.n**2 / self.signs / 2
        old = np.minimum(self.before[i, j], 0) * last * (1 - gamma)
        values = scale * (np.minimum(self.x[i, j], 0) * now - old)
        self.y *= 1 - gamma
        np.add.at(self.y, (i, j), values)
        np.add.at(self.y, (j, i), values)
        self.sampled_distances(self.y, gamma)
        self.before[:] = self.x
        self.lmo.move(self.x, self.y + self.rows(self.x) * now, 2 / (k + 1))
