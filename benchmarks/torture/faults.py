"""One of each: faults of the user's code, of data, of streams and of the machine."""

from __future__ import annotations

import itertools
import tempfile
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import mostfw as fw
from mostfw import container
from mostfw.atomic import alone_in

from .trials import Row, problem_of

ROWS = np.random.default_rng(0).normal(size=(200, 4, 3))


def expected(error: type[Exception], call: Callable[[], Any], *words: str) -> str | None:
    """What the error says, if it is the one that should come; None if not."""
    try:
        call()
    except error as caught:
        return str(caught) if all(word in str(caught) for word in words) else None
    return None


def black_box(fails: Callable[[int], bool]) -> fw.Problem:
    calls = itertools.count(1)

    def simulator(x: Any) -> np.ndarray:
        if fails(next(calls)):
            raise ValueError("the simulator ran out of fuel")
        return np.asarray(np.sum(np.asarray(x) ** 2), x.dtype)

    def value(x: jax.Array) -> jax.Array:
        number = jax.ShapeDtypeStruct((), x.dtype)
        return jax.pure_callback(simulator, number, x, vmap_method="sequential")

    return fw.Problem(fw.objectives.Smooth(value), fw.domains.Simplex(3), dtype=np.float64)


def online(stream: Any) -> fw.Problem:
    def loss(x: jax.Array, batch: jax.Array) -> jax.Array:
        return jnp.mean((batch @ x - 1) ** 2)

    objective = fw.objectives.Online(loss, stream, batch=4, holdout=ROWS[0])
    return fw.Problem(objective, fw.domains.L1Ball(3, 1.0))


def function_raises() -> tuple[bool, str]:
    error = _raised(
        fw.UserCodeError,
        lambda: fw.solve(black_box(lambda n: n > 300), "zo-sfw", iterations=500, certify=False),
    )
    well = error is not None and error.result.iterations == error.iteration - 1
    return well, "an error with the iteration and the term; the run up to it is on the error"


def function_hiccups() -> tuple[bool, str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fw.MostFWWarning)
        result = fw.solve(black_box(lambda n: n == 200), "zo-sfw", iterations=100, certify=False)
    return result.iterations == 100, "asked again, a warning, and the run goes on"


def value_becomes_nan() -> tuple[bool, str]:
    def value(x: jax.Array) -> jax.Array:
        near = jnp.abs(x[0] - 0.8) < 0.02  # of the optimum, so after some steps
        return jnp.sum((x - target) ** 2) + jnp.where(near, jnp.nan, 0.0) * x[0]

    target = jnp.array([0.8, 0.1, 0.1])

    problem = fw.Problem(fw.objectives.Smooth(value), fw.domains.Simplex(3), dtype=np.float64)
    error = _raised(fw.NonFiniteError, lambda: fw.solve(problem, "sfw", iterations=500, record=1))
    well = error is not None and bool(np.all(np.isfinite(error.result.x)))
    return well, "an error with the iteration and the term; the last good point is on the error"


def callback_raises() -> tuple[bool, str]:
    def broken(record: fw.Record) -> None:
        if record.iteration >= 20:
            raise KeyError("column")

    error = _raised(
        fw.UserCodeError,
        lambda: fw.solve(problem_of("most-fw"), "most-fw", iterations=50, callback=broken),
    )
    well = error is not None and error.result.iterations == error.iteration
    return well, "an error with the iteration; the run up to it is on the error"


def _stream(kind: str) -> Any:
    for number, row in enumerate(ROWS):
        if number != 37:
            yield row
        elif kind == "stalls":
            threading.Event().wait(300)
        elif kind == "raises":
            raise OSError("the socket closed")
        elif kind != "ends":
            yield {"NaN": row * np.nan, "another shape": row[:2], "text": "words"}[kind]
        else:
            return


def stream_breaks(kind: str) -> tuple[bool, str]:
    error = _raised(fw.StreamError, lambda: fw.solve(online(_stream(kind)), "sfw", iterations=200))
    well = error is not None and error.result.iterations == 37
    return well, "an error with the minibatch; all steps before it are on the error"


def stream_ends() -> tuple[bool, str]:
    result = fw.solve(online(_stream("ends")), "sfw", iterations=200)
    well = (result.status, result.iterations) == (fw.Status.STREAM_ENDED, 37)
    return well, "a status, not an error"


def stream_stalls() -> tuple[bool, str]:
    result = fw.solve(online(_stream("stalls")), "sfw", iterations=200, seconds=1.0)
    well = (result.status, result.iterations) == (fw.Status.SECONDS, 37)
    return well, "the time budget holds"


def folder_in_use() -> tuple[bool, str]:
    with tempfile.TemporaryDirectory() as folder, alone_in(folder):
        found = expected(
            fw.FolderInUseError,
            lambda: fw.solve(problem_of("most-fw"), "most-fw", iterations=5, checkpoint=folder),
            "in use by another run",
        )
    return found is not None, "the second one is refused"


def another_run() -> tuple[bool, str]:
    problem = problem_of("most-fw")
    with tempfile.TemporaryDirectory() as folder:
        fw.solve(problem, "most-fw", iterations=5, checkpoint=folder)
        found = expected(
            fw.CheckpointError,
            lambda: fw.solve(problem, "cgal", iterations=5, checkpoint=folder),
            "its method is another one",
        )
    return found is not None, "refused, and the difference named"


def too_large() -> tuple[bool, str]:
    n = 10**6
    objective = fw.objectives.Smooth(jnp.trace)
    problem = fw.Problem(objective, fw.domains.Spectrahedron(n, trace=1.0), dtype=np.float64)
    error = _raised(fw.ResourceError, lambda: fw.solve(problem, "most-fw", iterations=5))
    return error is not None, "refused before anything is allocated, with what would fit"


def hostile_folder() -> tuple[bool, str]:
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "checkpoint-000000000009.mostfw"
        container.write(path, {"format": 1, "facts": "none"}, {})
        found = expected(
            fw.CheckpointError,
            lambda: fw.solve(problem_of("most-fw"), "most-fw", iterations=5, checkpoint=place),
        )
    return found is not None, "refused; nothing in it is carried out"


def _raised(error: type[Exception], call: Callable[[], Any]) -> Any:
    try:
        call()
    except error as caught:
        return caught
    return None


FAULTS: dict[str, Callable[[], tuple[bool, str]]] = {
    "a black box raises": function_raises,
    "a black box raises once": function_hiccups,
    "a function's value becomes NaN": value_becomes_nan,
    "the callback raises": callback_raises,
    "a stream raises": lambda: stream_breaks("raises"),
    "a stream gives NaN": lambda: stream_breaks("NaN"),
    "a stream changes its shape": lambda: stream_breaks("another shape"),
    "a stream gives text": lambda: stream_breaks("text"),
    "a stream ends early": stream_ends,
    "a stream stalls": stream_stalls,
    "two processes on one folder": folder_in_use,
    "a checkpoint of another run": another_run,
    "a forged checkpoint with a right checksum": hostile_folder,
    "a problem larger than the memory (n = 10^6)": too_large,
}


def faults() -> list[Row]:
    rows = []
    for name, trial in FAULTS.items():
        well, outcome = trial()
        print(f"{name}: {outcome if well else 'NOT WELL'}", flush=True)
        rows.append(Row(name, 1, int(well), outcome))
    return rows
