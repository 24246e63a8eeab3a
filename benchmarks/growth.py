"""How the time of a step grows with the size of the matrix."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

import mostfw as fw

from . import instances, timing
from .rows import Case, Goal, Row, Settings

# At every size, so that every size sees the same part of a run; and so many that looks at powers of
# two, which take as long as half a step, are no larger a part of it than of a run.
STEPS = 128


def cases(settings: Settings) -> list[Case]:
    if settings.quick:
        return [Case("growth, k-means, most-fw", lambda s: [kmeans_row(s, (12, 16), plus=False)])]
    large, middle = (500, 1000, 2000, 4000, 8000), (500, 1000, 2000, 4000)
    return [
        Case("growth, k-means, most-fw", lambda s: [kmeans_row(s, large, plus=False)]),
        Case("growth, k-means, most-fw+", lambda s: [kmeans_row(s, large, plus=True)]),
        Case("growth, covariance, most-fw", lambda s: [covariance_row(s, middle)]),
    ]


def fitted_exponent(sizes: Sequence[float], seconds: Sequence[float]) -> tuple[float, float]:
    """(a, c) of the line c n^a through the points, by least squares of the logarithms.

    >>> exponent, constant = fitted_exponent([10, 100], [3e2, 3e4])
    >>> round(exponent, 6), round(constant, 6)
    (2.0, 3.0)
    """
    slope, intercept = np.polyfit(np.log(sizes), np.log(seconds), 1)
    return float(slope), float(np.exp(intercept))


def measured(
    settings: Settings,
    name: str,
    sizes: Sequence[int],
    problem_of: Callable[[int], fw.Problem],
    method: fw.Method,
    goal: Goal | None,
    note: str,
) -> Row:
    """One problem in memory at a time: at the largest size each array takes half a gigabyte."""
    seconds, matvecs, limits = [], [], []
    for n in sizes:
        problem = problem_of(n)
        rounds = settings.rounds if n < 4000 else min(2, settings.rounds)
        seconds.append(timing.alternating(rounds, timing.our_step(problem, method, STEPS))[0])
        matvecs.append(timing.run(problem, method, 8).counts.matvecs / 8)
        del problem
        limits.append(timing.memory_limit(n, repeats=5))
    exponent, constant = fitted_exponent(sizes, seconds)
    return Row(
        name,
        exponent,
        "(exponent)",
        goal=goal,
        notes=(
            "; ".join(
                f"{n}: {1e3 * s:.3g} ms, {s / limit:.2f} times the limit"
                for n, s, limit in zip(sizes, seconds, limits, strict=True)
            ),
            f"{note}; the memory's limit itself grows with {fitted_exponent(sizes, limits)[0]:.2f}",
        ),
        details={
            "sizes": list(sizes),
            "seconds": seconds,
            "first_matvecs_a_step": matvecs,
            "memory_limit": limits,
            "exponent": exponent,
            "constant": constant,
        },
    )


def kmeans_row(settings: Settings, sizes: Sequence[int], plus: bool) -> Row:
    # One kind of data for all sizes: other data would need other numbers of products.
    digits = instances.has_digits(max(sizes))
    method = instances.kmeans_method(plus)
    return measured(
        settings,
        f"growth, k-means, {method.name}",
        sizes,
        lambda n: instances.kmeans(instances.features(n, digits), plus),
        method,
        None if plus else Goal(most=2.15),
        f"features: {'digits' if digits else 'blobs in 10 dimensions'}; {STEPS} steps a round",
    )


def covariance_row(settings: Settings, sizes: Sequence[int]) -> Row:
    return measured(
        settings,
        "growth, covariance, most-fw",
        sizes,
        lambda n: fw.problems.covariance(n, batch=200),
        fw.methods.most_fw(mu_c=1.0),
        None,
        f"batch 200; {STEPS} steps a round",
    )
