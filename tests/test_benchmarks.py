"""The peers of the benchmarks do the same arithmetic as the library."""

import sys
from pathlib import Path

import jax
import numpy as np

import mostfw as fw
from common import ring_with_chords
from mostfw import frank_wolfe
from mostfw.schedules import Power
from mostfw.smoothing import numbers_at

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.numpy_loops import SparsestCutLoop


def test_numpy_loop_has_our_direction_and_converges():
    graph = ring_with_chords(9)
    loop = SparsestCutLoop(graph.laplacian(), batch=5, mu_c=1.5, seed=0)
    for _ in range(50):
        loop.step()
    problem = fw.problems.sparsest_cut(graph, batch=5).on_device()
    method = fw.methods.most_fw(1.5).bind(problem)
    numbers = numbers_at(loop.k, method.smoothing, Power(0.0), 0.0, np.float64)
    ours = frank_wolfe.direction(problem, method, jax.numpy.asarray(loop.x), 0 * loop.y, numbers)
    theirs = loop.penalty(loop.x) * np.sqrt(loop.k) / 1.5
    np.testing.assert_allclose(ours, theirs, atol=1e-9 * np.abs(theirs).max())
    assert problem.domain.contains(loop.x)
