"""A very long run that must stay sane: `python -m benchmarks.soak`.

10^6 steps of most-fw on a max-cut SDP of side 200, in float32 and in float64. Along the way: the
point is in the domain (trace, symmetry, smallest eigenvalue), the counters are exact, what is
carried from step to step is what it would be if made anew, and steps do not become slower.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from dataclasses import dataclass, field
from statistics import median

import numpy as np

import mostfw as fw
from mostfw.frank_wolfe import RENEWED_EVERY

CHUNKS = 50  # each is timed and looked at
TENTH = CHUNKS // 10
SLOWER = 1.1
DEGREE, BATCH = 6, 0.05
# In units of eps: errors of a convex combination grow like the root of the number of steps while
# it contracts them like 1/k, so that they stay below eps sqrt(k). These leave a factor of a few.
WALK, SHORT_WALK = 4.0, 16.0


@dataclass
class Report:
    """What was seen of a run, and what of it was wrong."""

    faults: list[str] = field(default_factory=list)
    paces: list[float] = field(default_factory=list)  # seconds a step, by chunks
    products: list[float] = field(default_factory=list)  # products a step, by chunks

    def require(self, holds: bool, said: str) -> None:
        if not holds:
            self.faults.append(said)
            print(f"  WRONG: {said}", flush=True)


def problem(side: int, dtype: np.dtype) -> fw.Problem:
    """Max-cut of a ring whose nodes also have chords to distant ones."""
    rng = np.random.default_rng(0)
    ends = [(i, (i + 1) % side) for i in range(side)]
    for _ in range(DEGREE // 2 - 1):
        ends += list(zip(range(side), rng.permutation(side).tolist(), strict=True))
    edges = sorted({(min(u, v), max(u, v)) for u, v in ends if u != v})
    return fw.problems.max_cut(fw.graphs.as_graph(edges), batch=BATCH, dtype=dtype)


def look(report: Report, result: fw.Result) -> str:
    """The invariants at the point where a chunk ended; the numbers in a line."""
    state, k = result.state, result.iterations
    side, eps = result.x.shape[0], float(np.finfo(result.x.dtype).eps)
    x = np.asarray(state.x, np.float64)
    trace = float(np.trace(x)) / side - 1
    lowest = float(np.linalg.eigvalsh(x)[0])
    carried = np.asarray(state.memos[0].image, np.float64)
    memo = float(np.abs(carried - np.diagonal(x)).max())
    walked = WALK * eps * max(1.0, k) ** 0.5
    at = f"at step {k:,}"
    report.require(bool(np.all(np.isfinite(x))), f"x is not finite {at}")
    report.require(np.array_equal(x, x.T), f"x is not symmetric {at}")
    report.require(abs(trace) <= walked, f"the trace is off by {trace:.1e} {at}")
    report.require(lowest >= -walked, f"the smallest eigenvalue is {lowest:.1e} {at}")
    since = SHORT_WALK * eps * min(k, RENEWED_EVERY) ** 0.5
    report.require(memo <= since, f"the carried diagonal is off by {memo:.1e} {at}")
    batch, counts = result.problem.objective.batch, result.counts  # pyright: ignore[reportAttributeAccessIssue]
    report.require(counts.lmo == k, f"{counts.lmo} LMO calls {at}")
    spent = batch * (2 * k - 1)
    report.require(counts.gradients == spent, f"{counts.gradients} gradients, not {spent}, {at}")
    return (
        f"{k:>10,}  trace {trace:+.1e}  eigenvalue {lowest:+.1e}  memo {memo:.1e}  "
        f"violation {result.violation['diagonal']:.1e}  fallbacks {counts.fallbacks}"
    )


def soak(steps: int, side: int, dtype: np.dtype, timed: bool = True) -> Report:
    """`steps` steps in chunks, each continued from the last."""
    report, posed = Report(), problem(side, dtype)
    method, result, products = fw.methods.most_fw(), None, 0
    marks = np.unique(np.linspace(0, steps, CHUNKS + 1).round().astype(int)).tolist()
    print(f"{np.dtype(dtype)}, side {side}, {steps:,} steps", flush=True)
    for first, last in itertools.pairwise(marks):
        before = 0.0 if result is None else result.seconds
        result = fw.solve(
            posed,
            method,
            iterations=last - first,
            record=[last],
            certify=False,
            progress=False,
            warm_start=result,
        )
        report.paces.append((result.seconds - before) / (last - first))
        report.products.append((result.counts.matvecs - products) / (last - first))
        products = result.counts.matvecs
        line = look(report, result)
        if last == steps or len(report.paces) % TENTH == 0:
            pace = f"{1e6 * report.paces[-1]:.0f} us, {report.products[-1]:.1f} products a step"
            print(f"{line}  {pace}", flush=True)
    if timed:
        judge_speed(report)
    return report


def judge_speed(report: Report) -> None:
    """The last tenth against the first, medians over chunks, at the same number of products: later
    LMOs must be more exact, and take more of them."""
    first, last = median(report.paces[:TENTH]), median(report.paces[-TENTH:])
    work = max(1.0, median(report.products[-TENTH:]) / median(report.products[:TENTH]))
    ratio = last / first / work
    print(f"  a step: {1e6 * first:.0f} us at first, {1e6 * last:.0f} us at last;", end=" ")
    print(f"{ratio:.2f} at the same number of products", flush=True)
    report.require(ratio <= SLOWER, f"steps became slower, by {ratio:.2f}")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--side", type=int, default=200)
    parser.add_argument("--dtype", choices=["float32", "float64", "both"], default="both")
    parser.add_argument("--no-timing", action="store_true", help="do not judge the speed")
    options = parser.parse_args(arguments)
    kinds = ["float32", "float64"] if options.dtype == "both" else [options.dtype]
    faults = []
    for kind in kinds:
        report = soak(options.steps, options.side, np.dtype(kind), not options.no_timing)
        faults += [f"{kind}: {fault}" for fault in report.faults]
    print("\n".join(["wrong:", *faults]) if faults else "all well")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
