"""The graphs of the sparsest cut experiment, with their known optimum."""

from __future__ import annotations

import dataclasses
import warnings

from ..errors import DataError, MissingDependencyError, MostFWWarning
from ..graphs import Graph
from ._content import read_graph
from ._karate import karate_club
from ._registry import KARATE, PRIMATES
from ._store import checked_file, state


def primate_graph(download: bool = False) -> Graph:
    """The graph mammalia-primate-association-13: 25 nodes, 181 edges.

    It comes from the data folder or the download cache; where it is in neither, `download=True`
    fetches it. Its licence keeps it out of the package.

    >>> import mostfw as fw
    >>> if fw.datasets.state("mammalia-primate-association-13").status == "present":
    ...     assert fw.datasets.primate_graph().edges == 181
    """
    graph = read_graph(checked_file(PRIMATES, download))
    return dataclasses.replace(graph, name=PRIMATES.name)


def sparsest_cut_graph(download: bool = True) -> tuple[Graph, float]:
    """The primate graph if it can be had, else the karate club; and the optimum <L, X> of its SDP.

    A wrong file in the data folder or the cache is an error: it was meant to be used.

    >>> import mostfw as fw
    >>> graph, optimum = fw.datasets.sparsest_cut_graph(download=False)
    >>> graph.name in ("mammalia-primate-association-13", "karate-club")
    True
    """
    there = state(PRIMATES).status
    try:
        return primate_graph(download), _known(PRIMATES.optimum)
    except MissingDependencyError:  # no pooch, no download
        pass
    except DataError as error:
        if there == "damaged":
            raise
        if error.state == "damaged":  # what the server sent, not what the user has
            warnings.warn(f"{error} Using {KARATE.name}.", MostFWWarning, stacklevel=2)
    return karate_club(), _known(KARATE.optimum)


def _known(optimum: float | None) -> float:
    assert optimum is not None
    return optimum
