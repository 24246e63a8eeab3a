"""The instances on which conic solvers are peers: ours, the same in CVXPY, and one solver's run."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

import mostfw as fw
from mostfw.problems.covariance import block_factor
from mostfw.problems.kmeans import squared_distances

from . import instances


@dataclasses.dataclass(frozen=True)
class Instance:
    """A problem by its kind and size: what a child process needs to build it again."""

    kind: str  # "k-means", "sparsest cut" or "covariance"
    size: int

    def __str__(self) -> str:
        return f"{self.kind}, n = {self.size}"

    def points(self) -> np.ndarray:
        return instances.features(self.size)

    def graph(self) -> fw.graphs.Graph:
        return fw.datasets.karate_club() if self.size == 34 else instances.random_graph(self.size)

    def known_optimum(self) -> float | None:
        if self.kind == "sparsest cut" and self.size == 34:
            return fw.datasets.get("karate-club").optimum
        return self.problem(None).optimum

    def problem(self, optimum: float | None) -> fw.Problem:
        if self.kind == "k-means":
            return instances.kmeans(self.points(), optimum=optimum)
        if self.kind == "sparsest cut":
            return fw.problems.sparsest_cut(
                self.graph(), batch=0.05, sampling="entries", optimum=optimum
            )
        return fw.problems.covariance(self.size, batch=200)

    def loose_gap(self) -> float:
        """5%; of a covariance's own part, ||W||^2/2, for most of its objective is a constant."""
        if self.kind != "covariance":
            return 0.05
        problem = self.problem(None)
        assert problem.optimum is not None
        truth = block_factor(self.size, min(10, self.size))
        return 0.05 * float(np.sum((truth @ truth.T) ** 2)) / 2 / abs(problem.optimum)

    def posed(self) -> tuple[Any, Any]:
        """The problem in CVXPY, and its variable."""
        import cvxpy as cp

        n = self.size
        x = cp.Variable((n, n), PSD=True)
        if self.kind == "k-means":
            objective = cp.sum(cp.multiply(squared_distances(self.points()), x))
            rules = [cp.trace(x) <= instances.CLUSTERS, cp.sum(x, axis=1) == 1, x >= 0]
        elif self.kind == "sparsest cut":
            objective = cp.sum(cp.multiply(self.graph().laplacian(), x))
            rules = [cp.trace(x) <= n, n * cp.trace(x) - cp.sum(x) == n * n / 2]
            rules.append(triangles(n) @ cp.vec(x, order="C") <= 0)
        else:
            factor = block_factor(n, min(10, n))
            truth = factor @ factor.T
            objective = cp.sum_squares(x - truth) / 2
            flat = cp.vec(x, order="C")
            rules = [cp.trace(x) <= np.trace(truth), cp.norm1(flat) <= np.abs(truth).sum()]
        return cp.Problem(cp.Minimize(objective), rules), x


def triangles(n: int) -> scipy.sparse.csr_matrix:
    """The rows X_ij + X_jk - X_ik - X_jj of all middles j and pairs i < k, on vec(X)."""
    j, i, k = (index.ravel() for index in np.indices((n, n, n)))
    keep = (i < k) & (i != j) & (k != j)
    i, j, k = i[keep], j[keep], k[keep]
    columns = np.stack([i * n + j, j * n + k, i * n + k, j * n + j], axis=1)
    values = np.tile([1.0, 1.0, -1.0, -1.0], len(i))
    rows = np.repeat(np.arange(len(i)), 4)
    return scipy.sparse.csr_matrix((values, (rows, columns.ravel())), shape=(len(i), n * n))


@dataclasses.dataclass(frozen=True)
class Attempt:
    """One solver at one accuracy: its own seconds, CVXPY's before it, and X where it gave one."""

    solver: str
    accuracy: float | None  # None: as the solver comes
    status: str
    seconds: float
    posing_seconds: float
    x: np.ndarray | None

    @property
    def finished(self) -> bool:
        return self.status == "optimal" and self.x is not None

    def __str__(self) -> str:
        return f"{self.solver}{'' if self.accuracy is None else f' at {self.accuracy:g}'}"


def options_of(solver: str, accuracy: float | None, seconds: float) -> dict[str, Any]:
    if solver == "SCS":
        given = {} if accuracy is None else {"eps_abs": accuracy, "eps_rel": accuracy}
        return {"time_limit_secs": seconds, "max_iters": 10**7, **given}
    names = ("tol_gap_abs", "tol_gap_rel", "tol_feas")
    return {"time_limit": seconds, **({} if accuracy is None else dict.fromkeys(names, accuracy))}


def attempt(instance: Instance, solver: str, accuracy: float | None, seconds: float) -> Attempt:
    """Solves here, in this process."""
    import cvxpy as cp

    problem, x = instance.posed()
    began, status = time.perf_counter(), ""
    try:
        with warnings.catch_warnings():  # "may be inaccurate": the status says so, and we judge
            warnings.simplefilter("ignore", UserWarning)
            problem.solve(solver=solver, **options_of(solver, accuracy, seconds))
        status = problem.status
    except cp.SolverError as error:
        status = f"failed: {error}".splitlines()[0]
    wall = time.perf_counter() - began
    stats = problem.solver_stats
    own = (stats.solve_time or 0.0) + (stats.setup_time or 0.0) if stats is not None else wall
    return Attempt(solver, accuracy, status, own, wall - own, x.value)


def attempt_apart(
    instance: Instance, solver: str, accuracy: float | None, seconds: float
) -> Attempt:
    """Solves in a child: a solver looks at its limit only between iterations, and one of those
    can take minutes on a large instance. The child is ended at twice the limit."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "found.npz"
        asked = json.dumps([instance.kind, instance.size, solver, accuracy, seconds, str(path)])
        command = [sys.executable, "-m", "benchmarks.posed", asked]
        root = Path(__file__).parents[1]
        try:
            subprocess.run(command, check=True, timeout=2 * seconds + 30, cwd=root)
        except subprocess.TimeoutExpired:
            return Attempt(solver, accuracy, "ended from outside", 2 * seconds, 0.0, None)
        except subprocess.CalledProcessError as error:  # such as out of memory
            return Attempt(solver, accuracy, f"exit {error.returncode}", seconds, 0.0, None)
        with np.load(path) as found:
            x = found["x"] if found["x"].size else None
            times = (float(found["seconds"]), float(found["posing_seconds"]))
            return Attempt(solver, accuracy, str(found["status"]), *times, x)


def main() -> None:
    kind, size, solver, accuracy, seconds, path = json.loads(sys.argv[1])
    found = attempt(Instance(kind, size), solver, accuracy, seconds)
    np.savez(
        path,
        x=np.empty(0) if found.x is None else found.x,
        status=found.status,
        seconds=found.seconds,
        posing_seconds=found.posing_seconds,
    )


if __name__ == "__main__":
    main()
