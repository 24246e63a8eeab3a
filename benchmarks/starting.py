"""What is paid before the first step: importing the package, compiling a method."""

from __future__ import annotations

import subprocess
import sys
import time

import jax

import mostfw as fw
from mostfw.running import Run
from mostfw.trees import replaced

from . import instances
from .rows import Case, Goal, Row, Settings

# `import mostfw` alone imports nothing: what is used is imported when it is first named.
SCRIPT = "import time; t = time.perf_counter(); import mostfw; mostfw.solve, mostfw.problems; "
SCRIPT += "print(time.perf_counter() - t)"


def cases(settings: Settings) -> list[Case]:
    n = 16 if settings.quick else 1000
    names = [*fw.methods.names(), "t-most-fw", "t-most-fw+"]
    if settings.quick:
        names = ["most-fw"]
    return [
        Case("import mostfw", lambda s: [import_row(s)]),
        *(
            Case(f"compile, {name}, n = {n}", lambda s, name=name: [compile_row(name, n)])
            for name in names
        ),
    ]


def import_row(settings: Settings) -> Row:
    """The best of rounds, each in a new process; the first one reads the files from the disk."""
    command = [sys.executable, "-c", SCRIPT]
    rounds = 1 if settings.quick else max(2, settings.rounds)
    spent = [float(subprocess.check_output(command, text=True)) for _ in range(rounds)]
    return Row("import mostfw", min(spent), goal=Goal(most=1.5), details={"all": spent})


def suitable(method: fw.Method, n: int) -> fw.Problem:
    """The k-means problem, with the constraints that the method can handle."""
    problem = instances.kmeans(instances.features(n), plus=method.constraints == "sampled")
    return problem if method.constraints != "none" else replaced(problem, constraints=())


def parameters(name: str) -> dict[str, float]:
    """Those without which no step can be compiled, or not soon: the problem's own units take an
    estimate of the gradient, which of zeroth order is two million values here."""
    if name.startswith("zo-most"):
        return {"beta_0" if "-al" in name else "mu_c": 1.0}
    return {"tau_0": 1.0} if name.startswith("t-") else {}


def compile_row(name: str, n: int) -> Row:
    method = fw.methods.get(name, **parameters(name))
    problem = suitable(method, n)
    jax.clear_caches()  # as if the process were new
    began = time.perf_counter()
    run = Run(problem, method, seed=0, warm_start=None)  # measures the problem's units
    with problem.precision():
        run._compile()  # and no step
    spent = time.perf_counter() - began
    return Row(f"compile, {name}, n = {n}", spent, goal=Goal(most=5.0))
