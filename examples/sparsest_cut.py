"""The sparsest cut of a social network, with a bound on every other cut, and a picture of it.

    python examples/sparsest_cut.py karate.png

The network is Zachary's karate club: who of its 34 members met outside of it.
"""

import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

import mostfw as fw
from mostfw.pictures import Convergence, CutPicture, draw
from mostfw.problems.sparsest_cut import Cut
from mostfw.rounding import rounded_down


class Answer(NamedTuple):
    cut: Cut
    bound: float  # no cut has a smaller value
    picture: Path


def main(picture: str | Path = "karate.png", iterations: int = 5000) -> Answer:
    graph = fw.datasets.karate_club()
    problem = fw.problems.sparsest_cut(graph)
    result = fw.solve(problem, iterations=iterations, seed=0, stop=fw.Certified(gap=1e-2))
    cut = result.answer
    bound = 2 * result.certificate.lower / graph.nodes**2  # of edges cut over |A| |B|

    rest = graph.nodes - len(cut.side)
    print(f"{cut.edges:g} friendships join {len(cut.side)} members to the other {rest}.")
    print(f"The cut's value is {cut.value:.5f}; no cut has less than {rounded_down(bound, 4)}.")
    print("The smaller side:", *cut.side)
    sides = np.isin(np.arange(graph.nodes), cut.side)
    draw(picture, CutPicture(graph, sides), Convergence(result))
    print(f"Drawn to {picture}.")
    return Answer(cut, bound, Path(picture))


if __name__ == "__main__":
    main(*sys.argv[1:2])
