"""Seconds: of our steps, of a peer's steps, and of copying memory, the best of rounds."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

import mostfw as fw


def run(problem: fw.Problem, method: fw.Method, steps: int, seed: int = 0) -> fw.Result:
    """So many steps, looked at only at their end."""
    return fw.solve(problem, method, iterations=steps, seed=seed, record=[steps], progress=False)


def our_step(problem: fw.Problem, method: fw.Method, steps: int) -> Callable[[int], float]:
    """From a seed, seconds a step of ours; compiles and warms up here."""
    run(problem, method, min(steps, 20))
    return lambda seed: run(problem, method, steps, seed).seconds / steps


def loop_step(make: Callable[[int], Any], steps: int) -> Callable[[int], float]:
    """From a seed, seconds a step of a peer's loop, after a few that do not count."""

    def measured(seed: int) -> float:
        loop = make(seed)
        for _ in range(max(1, steps // 5)):
            loop.step()
        began = time.perf_counter()
        for _ in range(steps):
            loop.step()
        return (time.perf_counter() - began) / steps

    return measured


def alternating(rounds: int, *measured: Callable[[int], float]) -> list[float]:
    """The best of each over the rounds. They take turns, so that a slow moment hits them all."""
    found = [[function(seed) for function in measured] for seed in range(rounds)]
    return [min(column) for column in zip(*found, strict=True)]


def copy_seconds(n: int, repeats: int = 10) -> dict[str, float]:
    """Seconds to copy an n x n array in float64, by one thread and by a thread a core."""
    source, target = np.random.default_rng(0).random((2, n, n))
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    cores = max(2, cores or 2)
    parts = list(zip(np.array_split(target, cores), np.array_split(source, cores), strict=True))

    def by_threads() -> None:
        for future in [pool.submit(np.copyto, *part) for part in parts]:
            future.result()

    def seconds(copy: Callable[[], Any]) -> float:
        copy()
        spent = []
        for _ in range(repeats):
            began = time.perf_counter()
            copy()
            spent.append(time.perf_counter() - began)
        return min(spent)

    with ThreadPoolExecutor(cores) as pool:
        return {
            "one thread": seconds(lambda: np.copyto(target, source)),
            f"{cores} threads": seconds(by_threads),
        }


def limit_of(copies: dict[str, float]) -> float:
    """Seconds to move 12 n^2 numbers at the faster copy's speed, which is the harder limit: 8
    products, X read and written, y read, the direction written. A copy moves each number twice."""
    return 12 / 2 * min(copies.values())


def memory_limit(n: int, repeats: int = 10) -> float:
    """The least that a step on n x n matrices can take by the memory's speed, measured now."""
    return limit_of(copy_seconds(n, repeats))
