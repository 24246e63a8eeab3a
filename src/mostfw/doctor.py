"""`mostfw doctor`: what this machine has, and a self-check of a few seconds."""

from __future__ import annotations

import importlib.metadata
import platform
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from . import datasets, methods, problems
from .domains import Spectrahedron
from .linalg import smallest_eigenpair
from .solving import solve

_PACKAGES = ("mostfw", "jax", "jaxlib", "equinox", "jaxtyping", "numpy", "scipy")
_OPTIONAL = ("pandas", "matplotlib", "networkx", "scikit-learn", "cvxpy")


def examine() -> bool:
    """Prints versions, devices and the checks; True if all passed."""
    print(f"python {platform.python_version()} on {platform.system()} {platform.machine()}")
    for name in _PACKAGES + _OPTIONAL:
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            version = "not installed" + (" (optional)" if name in _OPTIONAL else "")
        print(f"  {name:<14} {version}")
    for device in jax.devices():
        print(f"device {device.platform}:{device.id}  {device.device_kind}")
    folder = datasets.data_folder()
    print(f"data folder (MOSTFW_DATA): {'set' if folder else 'not set; not needed'}")
    return all([_report(name, check) for name, check in _CHECKS])


def _report(name: str, check: Callable[[], tuple[bool, str]]) -> bool:
    began = time.perf_counter()
    try:
        passed, note = check()
    except Exception as error:  # a doctor reports what hurts and goes on
        passed, note = False, f"{type(error).__name__}: {error}"
    spent = time.perf_counter() - began
    print(f"{'ok  ' if passed else 'FAIL'} {name}: {note} ({spent:.1f} s)")
    return passed


def _eigenpair() -> tuple[bool, str]:
    with jax.enable_x64(True):
        rng = np.random.default_rng(0)
        a = rng.standard_normal((120, 120))
        a = a + a.T
        pair = smallest_eigenpair(jax.numpy.asarray(a), jax.random.PRNGKey(0), tolerance=1e-8)
        error = abs(float(pair.value) - np.linalg.eigvalsh(a)[0]) / np.linalg.norm(a, 2)
    return error < 1e-8, f"relative error {error:.1e} against dense eigh"


def _degenerate() -> tuple[bool, str]:
    with jax.enable_x64(True):
        domain = Spectrahedron(40, trace=1.0)
        values = [
            float(domain.lmo(jax.numpy.asarray(m)).value) for m in (np.zeros((40, 40)), np.eye(40))
        ]
    return values == [0.0, 0.0], "LMO of the zero and identity matrices is 0"


def _short_run() -> tuple[bool, str]:
    problem = problems.sparsest_cut(datasets.karate_club(), batch=0.05)
    result = solve(problem, methods.most_fw(mu_c=1.5), iterations=400, seed=0, progress=False)
    excess = float(problem.domain.excess(result.x))
    again = solve(problem, methods.most_fw(mu_c=1.5), iterations=400, seed=0, record=7)
    same = np.array_equal(result.x, again.x)
    feasibility = result.last.metrics["feasibility"]
    return (
        excess < 1e-9 and same and feasibility < 100,
        f"400 steps of most-fw on the karate club: in the domain, repeatable to the bit: {same}",
    )


_CHECKS: list[tuple[str, Any]] = [
    ("eigenpair", _eigenpair),
    ("degenerate matrices", _degenerate),
    ("a short run", _short_run),
]
