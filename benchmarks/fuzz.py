"""Odd values for the whole public interface: only the library's own errors may come of them.

`python -m benchmarks.fuzz --inputs 10000 --seed 0` prints each kind of failure once, with the call
that made it. Most inputs are refused before anything is compiled; what runs is of few shapes, so
that programs are shared.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import inspect
import io
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import mostfw as fw
from mostfw.cli import main as command_line

from .fuzz_inputs import BATCHES, CALLS, CONTENTS, ESTIMATORS, PROBLEMS, READERS, TOKENS
from .fuzz_inputs import ODD as ODD_VALUES

SECONDS = 10.0  # of any call, compiling not counted
ODD = st.sampled_from(ODD_VALUES)


def attempt(call: Callable[[], Any], seconds: float | None = SECONDS) -> Any:
    """What the call returns, None if it refuses; any other error, and a warning of NumPy, is
    raised."""
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)
        try:
            found = call()
        except fw.MostFWError as error:
            assert 0 < len(str(error)) < 5000, "an error without words, or with too many"
            found = None
    if seconds is not None:
        assert time.process_time() - began < seconds, "it took too long"
    return found


@st.composite
def chosen(draw: Any, options: dict[str, list[Any]], most_odd: int = 2) -> dict[str, Any]:
    """Values for the parameters, one or two of them odd; some of the others left out."""
    names = list(options)
    odd = draw(st.lists(st.sampled_from(names), max_size=most_odd, unique=True))
    values = {name: draw(st.sampled_from(options[name])) for name in names}
    return values | {name: draw(ODD) for name in odd}


def construct(draw: Any) -> Callable[[], Any]:
    """Any class or function of the public interface."""
    function, options = draw(st.sampled_from(CALLS))
    values = draw(chosen(options))

    def call() -> None:
        made = attempt(lambda: function(**values))
        if isinstance(made, fw.Method | fw.Problem):
            assert str(made)

    return _described(call, f"{getattr(function, '__name__', function)}(**{values!r})")


def pose(draw: Any) -> Callable[[], Any]:
    """A problem of parts that need not fit together, with a method: bound, not run."""
    parts = {name: draw(st.sampled_from(_GOOD[name])) for name in ("objectives", "domains")}
    rules = [
        {"G": draw(st.sampled_from(_GOOD["maps"])), "X": draw(st.sampled_from(_GOOD["sets"]))}
        | {"batch": draw(st.sampled_from(BATCHES)), "name": str(index)}
        for index in range(draw(st.integers(0, 2)))
    ]
    name = draw(st.sampled_from(fw.methods.names()))

    def call() -> None:
        def posed() -> Any:
            constraints = [fw.constraints.Affine(**rule) for rule in rules]
            problem = fw.Problem(parts["objectives"], parts["domains"], constraints)
            fw.memory.estimate(problem, fw.methods.get(name))
            return problem

        attempt(posed, None)

    return _described(call, f"Problem({parts!r}, {rules!r}) with {name}")


def _good(module: Any) -> list[Any]:
    """What every callable of a module makes of plain values."""
    name = module.__name__
    return [
        function(**{key: values[0] for key, values in options.items()})
        for function, options in CALLS
        if inspect.isclass(function) and function.__module__.startswith(name)
    ]


_GOOD = {
    "objectives": _good(fw.objectives),
    "domains": _good(fw.domains),
    "maps": [*_good(fw.maps), fw.maps.RowSums(), fw.maps.Trace(), fw.maps.Triangles()],
    "sets": [*_good(fw.sets), fw.sets.Free()],
}

RUNS: dict[str, list[Any]] = {
    "iterations": [20, 1],
    "seconds": [None, 5.0],
    "seed": [0, 7, None],
    "stop": [None, fw.Tolerance(violation=1e-3)],
    "certify": [False],
    "record": [None, 5, [3, 7]],
    "callback": [None, lambda record: False],
    "progress": [False],
    "warm_start": [None],
}


def solve(draw: Any) -> Callable[[], Any]:
    """One of few problems with odd arguments."""
    build, names = PROBLEMS[draw(st.sampled_from(sorted(PROBLEMS)))]
    method = draw(st.sampled_from([*names, *names, *names, "h1-sfw", "zo-fw", "svrf"]))
    values = draw(chosen(RUNS))
    if _too_long(values["iterations"]):
        values["iterations"] = 20
    odd_method = draw(st.sampled_from([False, False, False, True]))
    chosen_method = draw(ODD) if odd_method else method

    def call() -> None:
        result = attempt(lambda: fw.solve(build(), chosen_method, **values), None)
        if result is not None:
            _check(result)

    return _described(call, f"solve({build.__name__}(), {chosen_method!r}, **{values!r})")


def sweep(draw: Any) -> Callable[[], Any]:
    build, names = PROBLEMS[draw(st.sampled_from(sorted(PROBLEMS)))]
    given = {
        "methods": [[names[0]] * 2],
        "seeds": [0, [1, 2]],
        "iterations": [20],
        "record": [None],
        "progress": [False],
        "callback": [None],
    }
    values = draw(chosen(given))
    if _too_long(values["iterations"]):
        values["iterations"] = 20

    def call() -> None:
        for result in attempt(lambda: fw.sweep(build(), **values), None) or []:
            _check(result)

    return _described(call, f"sweep({build.__name__}(), **{values!r})")


def _too_long(iterations: Any) -> bool:
    """A number of iterations that a run would really make."""
    return isinstance(iterations, int | np.integer) and 20 < iterations < 2**31 - 1


def _check(result: fw.Result) -> None:
    assert np.all(np.isfinite(np.asarray(result.x))), "x is not finite"
    if len(result.history):
        numbers = [result.objective, *result.violation.values()]
        assert np.all(np.isfinite(numbers)), "a measure is not finite"
    assert result.seconds < SECONDS, "it took too long"


def fit(draw: Any) -> Callable[[], Any]:
    """An estimator, at least one of its parameters or its data being odd."""
    cls, options, data = draw(st.sampled_from(ESTIMATORS))
    values, held = draw(chosen(options)), draw(st.sampled_from(data))
    plain = all(any(value is good for good in options[name]) for name, value in values.items())
    if plain or draw(st.booleans()):
        held = draw(ODD)
    if _too_long(values["max_iter"]):
        values["max_iter"] = 20

    def call() -> None:
        def fitted() -> None:
            try:
                cls(**values).fit(held)
            except (ValueError, TypeError) as error:
                # scikit-learn's own words about data and parameters, which its tests ask for
                if "sklearn" not in _place(error):
                    raise

        attempt(fitted, None)

    return _described(call, f"{cls.__name__}(**{values!r}).fit({held!r})")


def command(draw: Any) -> Callable[[], Any]:
    """A command line, in this process."""
    start = draw(
        st.sampled_from(
            [
                [],
                ["methods"],
                ["data"],
                ["run", "covariance", "--n", "3", "--quiet", "--iterations", "5", "--batch", "2"],
                ["run", "kmeans", "--clusters", "2", "--iterations", "5", "--data"],
                ["run", "sparsest-cut", "--iterations", "5", "--quiet", "--graph", "x"],
            ]
        )
    )
    words = [*start, *draw(st.lists(st.sampled_from(TOKENS), max_size=5))]
    # what would load, take minutes or look at the whole machine
    forbidden = ("--fetch", "reproduce", "doctor", "report")
    words = [word for word in words if word not in forbidden]

    def call() -> None:
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            try:
                code = attempt(lambda: command_line(words), None)
            except SystemExit as ended:
                code = ended.code
        assert code in (None, 0, 1, 2), f"exit code {code}"
        assert "Traceback" not in out.getvalue()

    return _described(call, f"main({words!r})")


def parse(draw: Any) -> Callable[[], Any]:
    """A file with some of its bytes changed, by any reader, under any ending."""
    ending = draw(st.sampled_from(sorted(CONTENTS)))
    content = draw(st.sampled_from(CONTENTS[ending]))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(content)))
        end = min(len(content), at + draw(st.integers(0, 3)))
        content = content[:at] + draw(st.binary(max_size=3)) + content[end:]
    ending = draw(st.sampled_from([ending] * 8 + ["txt", "gz", "mat"]))
    reader = draw(st.sampled_from(READERS))

    def call() -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, f"any.{ending}")
            path.write_bytes(content)
            attempt(lambda: reader(path))

    return _described(call, f"{reader.__name__}({content!r} as .{ending})")


def _described(call: Callable[[], Any], words: str) -> Callable[[], Any]:
    call.__doc__ = words
    return call


# Of all inputs, which share is of each kind: those that compile are fewer.
KINDS: dict[str, tuple[Callable[[Any], Callable[[], Any]], float]] = {
    "construct": (construct, 0.5),
    "pose": (pose, 0.06),
    "solve": (solve, 0.1),
    "sweep": (sweep, 0.04),
    "fit": (fit, 0.06),
    "command": (command, 0.06),
    "parse": (parse, 0.18),
}


def _place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    inside = [f for f in frames if "mostfw" in f.filename or "sklearn" in f.filename]
    last = (inside or frames)[-1]
    return f"{last.filename}:{last.lineno}"


def inputs(kind: str, count: int, number: int | None, use: Callable[[Callable[[], Any]], None]):
    """A function that makes so many inputs of a kind and uses each; `number` seeds them, None for
    the same ones always."""

    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        derandomize=number is None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(data=st.data())
    def run(data: Any) -> None:
        use(KINDS[kind][0](data.draw))

    return run if number is None else seed(number)(run)


def failures(kind: str, count: int, number: int | None = None) -> dict[str, str]:
    """Where something else than a refusal came out, and the first call that made it."""
    found: dict[str, str] = {}

    def use(call: Callable[[], Any]) -> None:
        try:
            call()
        except Exception as error:
            words = str(error).splitlines() or [""]
            where = f"{type(error).__name__} at {_place(error)}"
            found.setdefault(where, f"{words[0][:150]}\n    {(call.__doc__ or '')[:400]}")

    inputs(kind, count, number, use)()
    return found


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", choices=list(KINDS))
    args = parser.parse_args(argv)
    total: collections.Counter[str] = collections.Counter()
    for kind in [args.kind] if args.kind else KINDS:
        count = args.inputs if args.kind else int(args.inputs * KINDS[kind][1])
        began = time.perf_counter()
        found = failures(kind, count, args.seed)
        total[kind] = len(found)
        print(f"{kind}: {count} inputs, {time.perf_counter() - began:.0f} s", flush=True)
        for where, call in found.items():
            print(f"  {where}\n    {call}", flush=True)
    print(f"{total.total()} kinds of failure")
    return int(total.total() > 0)


if __name__ == "__main__":
    sys.exit(main())
