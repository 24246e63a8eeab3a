"""`mostfw covariance`: a psd and sparse covariance of the columns of a table."""

from __future__ import annotations

import argparse
from typing import Any

from ._common import Outcome, add_job, budgets, say_cost


def add(commands: Any) -> None:
    parser = add_job(
        commands,
        "covariance",
        "Estimates a sparse covariance matrix from rows of observations",
        _covariance,
        file="one row an observation, one column a variable: .csv, .tsv, .npy, .npz, .parquet",
    )
    parser.add_argument("--alpha", type=float, help="how dense; default: chosen from the data")
    parser.add_argument("--trace", type=float, help="bound on the trace; default: the sample's")
    parser.add_argument("--key", help="the array in an .npz or .mat file")


def _covariance(options: argparse.Namespace) -> Outcome:
    from ... import files
    from ...estimators import SparseCovariance
    from ...pictures import Correlations

    table = files.read_table(options.file, key=options.key, at_least_rows=2)
    model = SparseCovariance(options.alpha, options.trace, **budgets(options))
    say_cost(options, model.cost(table.values))
    model.fit(table.values)
    count = table.values.shape[1]
    names = table.columns or tuple(f"x{index}" for index in range(count))
    return Outcome(
        words=model.summary_,
        facts={"variables": list(names), "samples": len(table.values)},
        arrays={"covariance": model.covariance_, "location": model.location_},
        header=("", *names),
        rows=((name, *row) for name, row in zip(names, model.covariance_, strict=True)),
        panels=lambda: [Correlations(model.covariance_, names)],
        result=model.result_,
    )
