"""Where the time of a step goes: its parts compiled and timed one by one at the end of a run."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax

from ..frank_wolfe import direction, numbers_of, track
from ..result import Result


def time_split(result: Result, repeats: int = 30) -> dict[str, float]:
    """Median seconds of the gradient, the constraint's direction and the LMO of one step.

    The parts are compiled apart, so their sum can exceed a step, in which passes are fused. What a
    call costs that does nothing, with the same arguments, is taken off.

    >>> import numpy as np, mostfw as fw
    >>> from mostfw.experiments.parts import time_split
    >>> problem = fw.problems.covariance(data=np.eye(4), batch=2)
    >>> result = fw.solve(problem, fw.methods.most_fw(), iterations=5)
    >>> sorted(time_split(result, repeats=2))
    ['LMO', 'gradient', 'projection']
    """
    problem, method = result.problem, result.method
    with problem.precision():
        core, state = problem.on_device().core(), result.state
        key, lmo_key = jax.random.split(jax.random.PRNGKey(result.seed))
        track_ = eqx.filter_jit(track)
        direct = eqx.filter_jit(
            lambda core, x, y, state: direction(
                core, method, x, y, numbers_of(method, state.k + 1, state)
            )
        )
        minimise = eqx.filter_jit(
            lambda core, s, key, start, k: core.domain.lmo(
                s, key=key, start=start, tolerance=method.accuracy(k, state.level)
            )
        )
        x, estimate, _ = track_(core, method, state, key)
        s = direct(core, x, estimate.y, state)
        calls = {
            "gradient": (track_, (core, method, state, key)),
            "projection": (direct, (core, x, estimate.y, state)),
            "LMO": (minimise, (core, s, lmo_key, state.atom, state.k + 1)),
        }
        nothing = eqx.filter_jit(lambda *_: state.k)
        return {
            name: max(0.0, _median(repeats, part, given) - _median(repeats, nothing, given))
            for name, (part, given) in calls.items()
        }


def _median(repeats: int, call: Callable[..., Any], given: tuple[Any, ...]) -> float:
    jax.block_until_ready(call(*given))  # compiles
    spent = []
    for _ in range(repeats):
        began = time.perf_counter()
        jax.block_until_ready(call(*given))
        spent.append(time.perf_counter() - began)
    return sorted(spent)[len(spent) // 2]
