"""Golden trajectories: what the methods did on small problems when this file was last made.

They guard against changes that nobody meant. `python tests/test_golden.py` makes them anew; say
in the commit why they changed. Short runs only: the LMO is discontinuous, so that rounding parts
long trajectories.
"""

import json
from pathlib import Path

import numpy as np
import pytest

import mostfw as fw
from common import (
    clustering_problem,
    covariance_problem,
    logistic_problem,
    with_unit_constant,
)

FILE = Path(__file__).with_name("golden.json")
STEPS = [1, 2, 5, 12, 30]
PARAMETERS = {"svrf": {"growth": 2}, "t-most-fw": {"tau_0": 100.0}, "t-most-fw+": {"tau_0": 100.0}}
CASES = [*fw.methods.names(), "t-most-fw", "t-most-fw+"]


def trajectory(name):
    method = with_unit_constant(name, **PARAMETERS.get(name, {}))
    if method.constraints == "sampled":
        problem = clustering_problem(batch=6, constraint_batch=9)
    elif method.constraints == "whole":
        problem = covariance_problem(batch=4)
    else:
        problem = logistic_problem(batch=3)
    result = fw.solve(problem, method, iterations=30, seed=7, record=STEPS, progress=False)
    rows = [[r.objective, sum(r.violation.values())] for r in result.history]
    return {"rows": rows, "lmo": result.counts.lmo}


@pytest.mark.parametrize("name", CASES)
def test_trajectory(name):
    want, got = json.loads(FILE.read_text())[name], trajectory(name)
    np.testing.assert_allclose(got["rows"], want["rows"], rtol=1e-6, atol=1e-9)
    assert got["lmo"] == want["lmo"]


if __name__ == "__main__":
    import jax

    jax.config.update("jax_enable_x64", True)
    FILE.write_text(json.dumps({name: trajectory(name) for name in CASES}, indent=1) + "\n")
