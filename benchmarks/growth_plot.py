"""The plot of growth: seconds a step over the size, fitted lines, the memory's limit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mostfw.report.looks import BLUE, GREEN, GREY, VERMILLION

from .rows import Row

# hue and marker both tell the curves apart, for eyes that mix up hues and for grey prints
LOOKS = {
    "k-means, most-fw": (BLUE, "o"),
    "k-means, most-fw+": (VERMILLION, "D"),
    "covariance, most-fw": (GREEN, "s"),
}


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Writes growth.svg and growth.png from the rows that hold a growth; none without such rows."""
    grown = [row for row in rows if "exponent" in row.details]
    if not grown:
        return []
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "growth"  # the same drawing gives the same file
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7.2, 4.8), layout="constrained")
    for row in grown:
        _curve(axes, row.name.removeprefix("growth, "), row.details)
    limited = next((row for row in grown if "k-means" in row.name), None)
    if limited is not None:
        sizes, limit = limited.details["sizes"], limited.details["memory_limit"]
        label = "memory limit of k-means: 12 n² numbers"
        axes.plot(sizes, limit, color=GREY, linestyle=(0, (1, 1.5)), linewidth=1.8, label=label)
    _axes(axes, sorted({n for row in grown for n in row.details["sizes"]}))
    paths = [folder / "growth.svg", folder / "growth.png"]
    for path in paths:
        figure.savefig(path, dpi=160, metadata={"Date": None} if path.suffix == ".svg" else None)
    plt.close(figure)
    return paths


def _curve(axes: Any, name: str, found: dict[str, Any]) -> None:
    colour, marker = LOOKS.get(name, (GREY, "^"))
    sizes = np.asarray(found["sizes"], float)
    line = found["constant"] * sizes ** found["exponent"]
    label = f"{name}: fitted $n^{{{found['exponent']:.2f}}}$"
    axes.plot(sizes, line, color=colour, linewidth=1.4, alpha=0.75)
    # white edges keep marks apart that lie on each other
    look = {"color": colour, "marker": marker, "markersize": 7, "markeredgecolor": "white"}
    axes.plot(sizes, found["seconds"], linestyle="", **look)
    axes.plot([], [], linewidth=1.4, label=label, **look)  # one entry for marks and line together


def _axes(axes: Any, sizes: list[int]) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(sizes, [f"{n:,}" for n in sizes])
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.minorticks_off()
    axes.set_xlabel("n (rows of the matrix X)")
    axes.set_ylabel("time a step (seconds)")
    axes.set_title("Time a step against the size of the matrix, float64", fontsize=11)
    axes.grid(True, color="#d8dce0", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9, loc="upper left")
