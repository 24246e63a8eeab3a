"""How much memory a step needs beside the data, from the compiled program itself."""

from __future__ import annotations

import jax
import jax.numpy as jnp

import mostfw as fw
from mostfw.frank_wolfe import advance, start

from . import instances
from .rows import Case, Goal, Row, Settings


def cases(settings: Settings) -> list[Case]:
    n = 16 if settings.quick else 1000
    trimmed = fw.methods.trimmed(instances.kmeans_method(), 1.0)
    kinds = {
        "P, most-fw": (False, instances.kmeans_method(), 3.0),
        "P+, most-fw+": (True, instances.kmeans_method(plus=True), 3.0),
        "P, t-most-fw": (False, trimmed, 4.0),
    }
    if not settings.quick:
        kinds |= {
            # a multiplier for each sign; of sampled ones the value last seen, too
            "P, most-al": (False, fw.methods.most_al(), 3.0 + 1),
            "P+, most-al+": (True, fw.methods.most_al_plus(), 3.0 + 2),
            # one table for the objective and one for the sampled signs
            "P+, h-sag-cgm, two tables": (True, fw.methods.h_sag_cgm(), 3.0 + 2),
        }
    return [
        Case(
            f"memory, k-means, {name}, n = {n}",
            lambda s, name=name, kind=kind: [row(f"memory, k-means, {name}, n = {n}", n, *kind)],
        )
        for name, kind in kinds.items()
    ]


def numbers_per_step(problem: fw.Problem, method: fw.Method) -> dict[str, float]:
    """What a step holds, in units of the numbers of one point: its state, what the compiled loop
    puts beside it, and their sum. The problem's own data are not counted."""
    with problem.precision():
        core, bound = problem.on_device().core(), method.bind(problem)
        state = start(core, bound)
        fixed = (
            core,
            bound,
            jax.random.PRNGKey(0),
            jnp.asarray(0, jnp.int32),
            None,
            jnp.asarray(1, jnp.int32),
        )
        compiled = advance.lower(fixed, state).compile()  # pyright: ignore[reportFunctionMemberAccess]
        analysis = compiled.compiled.memory_analysis()
        kept = sum(leaf.nbytes for leaf in jax.tree.leaves(state))
        unit = sum(leaf.nbytes for leaf in jax.tree.leaves(state.x))
    fresh = max(0, analysis.output_size_in_bytes - analysis.alias_size_in_bytes)
    beside = analysis.temp_size_in_bytes + fresh
    found = {"state": kept / unit, "beside": beside / unit}
    return {**found, "total": found["state"] + found["beside"]}


def row(name: str, n: int, plus: bool, method: fw.Method, most: float) -> Row:
    found = numbers_per_step(instances.kmeans(instances.features(n), plus), method)
    note = f"state {found['state']:.2f} n², beside it {found['beside']:.2f} n²"
    goal = Goal(most=most)
    return Row(name, found["total"], "n²", goal=goal, notes=(note,), details=found)
