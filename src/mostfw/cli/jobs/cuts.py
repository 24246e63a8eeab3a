"""`mostfw cut` and `mostfw maxcut`: cuts of a graph with a bound on every cut."""

from __future__ import annotations

import argparse
from typing import Any

from ... import graphs
from ._common import Outcome, add_job, budgets, say_cost

GRAPH = "edge list (0- or 1-based), Matrix Market, METIS, DIMACS, Gset, adjacency; gzip too"


def add(commands: Any) -> None:
    add_job(
        commands,
        "cut",
        "Finds a sparse cut of a graph and proves how sparse any cut can be",
        _cut,
        file=GRAPH,
    )
    add_job(
        commands,
        "maxcut",
        "Finds a large cut of a graph and proves how large any cut can be",
        _max_cut,
        file=GRAPH,
    )


def _cut(options: argparse.Namespace) -> Outcome:
    from ...estimators import SparsestCut

    return _outcome(options, SparsestCut(**budgets(options)))


def _max_cut(options: argparse.Namespace) -> Outcome:
    from ...estimators import MaxCut

    return _outcome(options, MaxCut(**budgets(options)))


def _outcome(options: argparse.Namespace, model: Any) -> Outcome:
    from ...pictures import CutPicture

    graph = graphs.read_graph(options.file)
    say_cost(options, model.cost(graph))
    model.fit(graph)
    names = graph.names or range(graph.nodes)
    return Outcome(
        words=model.summary_,
        facts={"cut_value": model.cut_value_, "cut_bound": model.cut_bound_},
        arrays={"labels": model.labels_},
        header=("node", "side"),
        rows=zip(names, model.labels_, strict=True),
        panels=lambda: [CutPicture(graph, model.labels_)],
        result=model.result_,
    )
