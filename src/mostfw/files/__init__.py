"""Files in: text of all sorts, tables, ratings, edges and arrays, checked and with clear errors."""

from ._arrays import read_matrix
from ._collected import EdgeList, distinct_edges
from ._edges import read_edge_list
from ._ratings import RatingTable, read_ratings
from ._tables import Table, read_table
from ._text import TextLines, open_text

__all__ = [
    "EdgeList",
    "RatingTable",
    "Table",
    "TextLines",
    "distinct_edges",
    "open_text",
    "read_edge_list",
    "read_matrix",
    "read_ratings",
    "read_table",
]
