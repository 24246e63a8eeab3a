"""How a run converged."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from ..report.looks import BLUE, GREEN, GREY, OCHRE, PINK, VERMILLION
from ..result import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes

VIOLATIONS = (VERMILLION, GREEN, OCHRE, PINK)


@dataclasses.dataclass(frozen=True)
class Convergence:
    """The relative violations of a run, and how far its objective is from what is known.

    That is the optimum where it is known, else the certified bound: then the distance cannot
    fall below what is left between the bound and the optimum.

    >>> import numpy as np, mostfw as fw
    >>> from mostfw.pictures import Convergence
    >>> problem = fw.Problem(fw.objectives.Linear(np.array([3.0, 1.0])), fw.domains.Simplex(2))
    >>> Convergence(fw.solve(problem, "sfw", iterations=20)).title
    'sfw, 20 iterations'
    """

    result: Result

    @property
    def title(self) -> str:
        return f"{self.result.method.name}, {self.result.iterations} iterations"

    def __call__(self, axes: Axes) -> None:
        history, certificate = self.result.history, self.result.certificate
        steps = history.column("iteration")
        if history[-1].relative_gap is not None:
            distance, name = np.abs(history.column("relative_gap")), "gap to the known optimum"
        elif certificate is not None and np.isfinite(certificate.lower):
            size = max(abs(certificate.lower), abs(certificate.objective)) or 1.0
            distance = np.abs(history.column("objective") - certificate.lower) / size
            name = "objective against its certified bound"
        else:
            distance, name = np.abs(history.column("objective")), "objective"
        marker = "o" if len(steps) == 1 else ""  # one point makes no line
        axes.plot(steps, _positive(distance), marker=marker, color=BLUE, label=name)
        ends, drawn = [float(distance[-1])], [distance]
        for colour, constraint in zip(VIOLATIONS, history[-1].relative_violation, strict=False):
            values = history.column(f"relative_violation.{constraint}")
            label = f"violation: {constraint}"
            axes.plot(
                steps,
                _positive(values),
                marker=marker,
                color=colour,
                linestyle="dashed",
                label=label,
            )
            ends.append(float(values[-1]))
            drawn.append(values)
        # A violation that passes 0 on its way would stretch the axis over ten decades.
        lowest = min((end for end in ends if end > 0), default=1e-6)
        # A run that was interrupted before its first step has the iteration 0.
        axes.set_xscale("log" if steps.min() > 0 else "symlog")
        axes.set_yscale("log" if max(map(np.nanmax, drawn)) > 0 else "linear")
        if axes.get_ylim()[0] < lowest / 100:
            axes.set_ylim(bottom=lowest / 100)
        axes.set_xlabel("iteration")
        axes.set_ylabel("relative")
        axes.set_title(self.title)
        axes.grid(color=GREY, alpha=0.25, linewidth=0.6)
        axes.legend(fontsize="small", framealpha=0.8)


def _positive(values: np.ndarray) -> np.ndarray:
    """A logarithmic axis has no place for 0."""
    return np.where(values > 0, values, np.nan)
