"""`mostfw complete`: the unknown entries of a table of ratings."""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any

import numpy as np

from ._common import Outcome, add_job, budgets, say_cost


def add(commands: Any) -> None:
    parser = add_job(
        commands,
        "complete",
        "Fills in a matrix of ratings that is of low rank and inside known bounds",
        _complete,
        file="user,item,rating a line, or a matrix with empty cells: .csv, .tsv, .npy, .npz",
    )
    parser.add_argument("--rank-bound", type=int, metavar="R", help="the rank to allow for")
    parser.add_argument("--radius", type=float, help="bound on the sum of singular values instead")
    parser.add_argument(
        "--bounds", type=float, nargs=2, default=(1.0, 5.0), metavar=("LOW", "HIGH")
    )
    parser.add_argument(
        "--no-refit", action="store_true", help="the convex problem's point, whatever predicts best"
    )
    parser.add_argument("--key", help="the array in an .npz or .mat file")


def _complete(options: argparse.Namespace) -> Outcome:
    from ... import files
    from ...estimators import MatrixCompletion
    from ...pictures import Entries

    table = files.read_ratings(options.file, key=options.key)
    shape = (len(table.row_names), len(table.column_names))
    known = np.full(shape, np.nan)
    known[table.rows, table.columns] = table.values
    bounds = (options.bounds[0], options.bounds[1])
    model = MatrixCompletion(
        options.rank_bound,
        bounds=bounds,
        radius=options.radius,
        refit=not options.no_refit,
        **budgets(options),
    )
    say_cost(options, model.cost(known))
    model.fit(known)
    return Outcome(
        words=model.summary_,
        facts={
            "rows": list(table.row_names),
            "columns": list(table.column_names),
            "refit": None if model.refit_ is None else dataclasses.asdict(model.refit_),
        },
        arrays={"matrix": model.matrix_, "singular_values": model.singular_values_},
        header=("", *table.column_names),
        rows=((name, *row) for name, row in zip(table.row_names, model.matrix_, strict=True)),
        panels=lambda: [
            Entries(known, bounds, f"known: {len(table.values)} of {known.size}"),
            Entries(model.matrix_, bounds, "completed"),
        ],
        result=model.result_,
    )
