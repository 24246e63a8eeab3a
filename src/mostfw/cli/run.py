"""`mostfw run`: one method on one problem, as a summary or as JSON."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from .. import datasets, methods, oracles, problems
from ..errors import InvalidInputError
from ..problem import Problem
from ..problems.covariance import SAMPLINGS as ROW_SAMPLINGS
from ..problems.kmeans import SAMPLINGS as KMEANS_SAMPLINGS
from ..problems.sparsest_cut import SAMPLINGS as CUT_SAMPLINGS
from ..result import Result
from ..solving import solve
from . import joining
from .devices import DEVICES, use_device
from .keeping import add_options, kept
from .writing import check_folder, write_json

_ORACLES = {
    "cge": oracles.CGE(),
    "kwsa": oracles.KWSA(),
    "rdsa": oracles.RDSA(),
    "i-rdsa": oracles.IRDSA(),
}


def add(commands: Any) -> None:
    """Adds `run` to the commands of the parser."""
    run = commands.add_parser("run", help="run one method on one problem")
    kinds = run.add_subparsers(required=True, metavar="PROBLEM")
    for name, build, fill in (
        ("sparsest-cut", _sparsest_cut, _cut_options),
        ("kmeans", _kmeans, _kmeans_options),
        ("covariance", _covariance, _covariance_options),
    ):
        one = kinds.add_parser(name)
        fill(one)
        _run_options(one)
        one.set_defaults(command=_run, build=build)


def _run_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--method",
        default="most-fw",
        help="a name from `mostfw methods`; default: the paper's most-fw (for whole constraints). "
        "mostfw.solve without a method chooses by the problem: cgal, most-al or most-al+",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a parameter of the method, e.g. mu_c=1.5, tau_0=5, oracle=i-rdsa; repeatable",
    )
    parser.add_argument("--batch", type=_batch, help="fraction (0.05, 1.0) or count (32)")
    parser.add_argument("--iterations", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, help="a time budget")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--optimum", type=float, help="the known optimal value")
    parser.add_argument("--record", type=int, help="evaluate every so many iterations")
    parser.add_argument("--dtype", choices=("float32", "float64"), default="float64")
    parser.add_argument("--device", choices=DEVICES)
    joining.add_options(parser)
    parser.add_argument("--json", metavar="FILE", help="write the run there ('-': to the output)")
    parser.add_argument("--quiet", action="store_true", help="no progress bar, no summary")
    add_options(parser)


def _cut_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--graph", help="edge list; default: the karate club, which ships along")
    parser.add_argument("--constraint-batch", type=_batch, help="sample the triangles (P+)")
    parser.add_argument(
        "--sampling",
        choices=CUT_SAMPLINGS,
        help="of the objective: shuffled passes over its edges (default) or entries, or entries "
        "with replacement as in the paper",
    )


def _kmeans_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", required=True, help="points: .npy, .npz, .mat, .csv, .tsv")
    parser.add_argument("--key", help="the array in an .npz or .mat file")
    parser.add_argument("--transpose", action="store_true", help="one column a point")
    parser.add_argument("--clusters", type=int, required=True)
    parser.add_argument("--constraint-batch", type=_batch, help="sample the signs (P+)")
    parser.add_argument(
        "--sampling",
        choices=KMEANS_SAMPLINGS,
        help="of the distances: shuffled passes (default), entries with replacement as in the "
        "paper, or random blocks",
    )
    parser.add_argument("--sign-weight", type=float, default=1000.0)


def _covariance_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--n", type=int, help="dimension of a generated block-sparse covariance")
    parser.add_argument("--data", help="rows of vectors instead: .npy, .npz, .mat, .csv, .tsv")
    parser.add_argument("--key", help="the array in an .npz or .mat file")
    parser.add_argument(
        "--sampling",
        choices=ROW_SAMPLINGS,
        help="of the rows of --data: shuffled passes (default), or with replacement as in the "
        "paper",
    )
    parser.add_argument("--trace", type=float, help="trace bound; default: the truth's")
    parser.add_argument("--l1-radius", type=float, help="bound on ||X||_1; default: the truth's")
    parser.add_argument("--data-seed", type=int, default=0, help="of the generated covariance")


def _batch(text: str) -> float | int:
    try:
        return int(text)
    except ValueError:
        return float(text)


def _sparsest_cut(options: argparse.Namespace) -> Problem:
    return problems.sparsest_cut(
        options.graph or datasets.karate_club(),
        batch=options.batch,
        constraint_batch=options.constraint_batch,
        sampling=options.sampling,
        optimum=options.optimum,
        dtype=options.dtype,
    )


def _kmeans(options: argparse.Namespace) -> Problem:
    return problems.kmeans(
        datasets.read_points(options.data, options.key, options.transpose),
        options.clusters,
        batch=options.batch,
        constraint_batch=options.constraint_batch,
        sampling=options.sampling,
        sign_weight=options.sign_weight,
        optimum=options.optimum,
        dtype=options.dtype,
    )


def _covariance(options: argparse.Namespace) -> Problem:
    if (options.n is None) == (options.data is None):
        raise InvalidInputError("run covariance needs either --n or --data.")
    data = None if options.data is None else datasets.read_points(options.data, options.key)
    return problems.covariance(
        options.n,
        data=data,
        batch=200 if options.batch is None and data is None else options.batch,
        sampling=options.sampling,
        trace=options.trace,
        l1_radius=options.l1_radius,
        seed=options.data_seed,
        dtype=options.dtype,
    )


def parameters(pairs: Sequence[str]) -> dict[str, Any]:
    """`["mu_c=1.5", "hessian=true"]` as a dictionary.

    >>> from mostfw.cli.run import parameters
    >>> parameters(["mu_c=1.5", "relative=true"])
    {'mu_c': 1.5, 'relative': True}
    """
    found: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise InvalidInputError(f"--set {pair!r} is not of the form NAME=VALUE.")
        found[name] = _value(name, text)
    return found


def _value(name: str, text: str) -> Any:
    if name == "oracle":
        if text.lower() not in _ORACLES:
            raise InvalidInputError(f"oracle is {text!r}: give one of {', '.join(_ORACLES)}.")
        return _ORACLES[text.lower()]
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return int(text) if name == "growth" else float(text)
    except ValueError:
        raise InvalidInputError(f"--set {name}={text}: {text!r} is not a number.") from None


def _run(options: argparse.Namespace) -> int:
    use_device(options.device)
    joining.joined(options)
    check_folder("--json", options.json)
    given = parameters(options.set)
    method = methods.get(options.method, **given)
    result = solve(
        options.build(options),
        method,
        iterations=options.iterations,
        seconds=options.seconds,
        seed=options.seed,
        record=options.record,
        progress=False if options.quiet else None,
        mesh=options.mesh,
        **kept(options),
    )
    if options.json:
        _write(result, given, options.json)
    if not options.quiet and options.json != "-":
        print(summary(result))
    return 0


def _write(result: Result, given: dict[str, Any], target: str) -> None:
    content = result.to_dict()
    content["parameters"] = {
        name: value if isinstance(value, int | float) else str(value)
        for name, value in given.items()
    }
    write_json(content, target)


def summary(result: Result) -> str:
    """The end of a run in a few lines."""
    last = result.last
    lines = [f"{result.problem.name}: {result.method.name}, {result.iterations} iterations"]
    gap = "" if last.relative_gap is None else f"  (relative gap {last.relative_gap:+.2e})"
    lines.append(f"objective  {last.objective:.8g}{gap}")
    for name, value in last.violation.items():
        lines.append(f"violation  {name} {value:.2e}, relative {last.relative_violation[name]:.2e}")
    lines += [f"{name:<10} {value:.6g}" for name, value in last.metrics.items()]
    counts = last.counts
    lines.append(
        f"calls      {counts.lmo} LMO ({counts.lmo_skipped} skipped), "
        f"{counts.gradients} gradients, {counts.values} values, "
        f"{counts.constraints} constraint rows, {counts.matvecs} matvecs"
        + (f", {counts.fallbacks} fallbacks" if counts.fallbacks else "")
    )
    lines.append(
        f"time       {result.seconds:.2f} s, compiling {result.compile_seconds:.2f} s; "
        f"ended because {result.status}"
    )
    if result.certificate is not None:
        lines.append(f"certified  {result.certificate}")
    elif result.evidence:
        lines.append(f"evidence   {result.evidence}")
    return "\n".join(lines)
