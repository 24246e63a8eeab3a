"""`mostfw cluster`: k-means with a bound on every clustering."""

from __future__ import annotations

import argparse
from typing import Any

from ._common import Outcome, add_job, budgets, say_cost


def add(commands: Any) -> None:
    parser = add_job(
        commands,
        "cluster",
        "Clusters points and proves how far from the best clustering they are",
        _cluster,
        file="points, one row each: .csv, .tsv, .npy, .npz, .mat, .parquet",
    )
    parser.add_argument("--clusters", type=int, required=True)
    parser.add_argument("--batch", type=float, help="share of the distances a step; default all")
    parser.add_argument("--key", help="the array in an .npz or .mat file")
    parser.add_argument("--transpose", action="store_true", help="one column a point")
    parser.add_argument("--dtype", choices=("float32", "float64"), default="float64")


def _cluster(options: argparse.Namespace) -> Outcome:
    from ... import files
    from ...estimators import SDPKMeans
    from ...pictures import Clusters

    table = files.read_table(options.file, key=options.key, transpose=options.transpose)
    model = SDPKMeans(
        options.clusters, batch=options.batch, dtype=options.dtype, **budgets(options)
    )
    say_cost(options, model.cost(table.values))
    model.fit(table.values)
    names = table.rows or range(len(table.values))
    return Outcome(
        words=model.summary_,
        facts={
            "inertia": model.inertia_,
            "inertia_bound": model.inertia_bound_,
            "ratio": model.ratio_,
        },
        arrays={"labels": model.labels_, "centers": model.cluster_centers_},
        header=("point", "cluster"),
        rows=zip(names, model.labels_, strict=True),
        panels=lambda: [Clusters(table.values, model.labels_)],
        result=model.result_,
    )
