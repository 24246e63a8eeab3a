"""Data in: named data sets with their source, licence and checksum, and files of points."""

from ._digits import Points, digits_features, mnist_features
from ._graphs import primate_graph, sparsest_cut_graph
from ._karate import karate_club
from ._points import data_folder, read_points
from ._registry import DATASETS, Dataset, get
from ._store import State, fetch, listing, state

__all__ = [
    "DATASETS",
    "Dataset",
    "Points",
    "State",
    "data_folder",
    "digits_features",
    "fetch",
    "get",
    "karate_club",
    "listing",
    "mnist_features",
    "primate_graph",
    "read_points",
    "sparsest_cut_graph",
    "state",
]
