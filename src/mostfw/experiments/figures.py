"""The figures of the paper's section IV, and one of ours, as data: what is run, with what.

Every method of a comparison is tuned over the same grid of mu_c: one seed, a tenth of the
iterations, by merit. `--quick` changes sizes and lengths only.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from .. import methods as presets
from .folders import Spec, Value

GRID = (0.01, 0.05, 0.2, 1.0, 5.0, 20.0, 100.0)


@dataclasses.dataclass(frozen=True)
class Trim:
    """T-`method` at several tau_0.

    `shares` are tau_0 in units of 2 L_G D/mu_c; the `paper`'s own tau_0 is run as it stands.
    """

    method: str
    shares: tuple[float, ...]
    paper: float
    options: Mapping[str, Value] = dataclasses.field(default_factory=dict)

    def thresholds(self, unit: float) -> tuple[float, ...]:
        own = (float(f"{share * unit:.2e}") for share in self.shares)  # readable, and the same
        return tuple(sorted({*own, self.paper}))  # whatever the last bits of the unit are


@dataclasses.dataclass(frozen=True)
class Twin:
    """A method that takes the mu_c of another one, such as a zeroth-order form of its parent."""

    method: str
    parent: str
    parameters: Mapping[str, Value] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Methods on one problem: tuned, run with several seeds, then trimmed."""

    figure: int
    task: str
    options: Mapping[str, Value]
    iterations: int
    methods: tuple[str, ...]
    violation: tuple[str, ...]
    gap: str = "relative_gap"
    twins: tuple[Twin, ...] = ()
    untuned: tuple[str, ...] = ()  # run as they are, beside the tuned ones
    trims: tuple[Trim, ...] = ()
    grid: tuple[float, ...] = GRID
    seeds: int = 3
    reference: Mapping[str, Value] | None = None  # iterations and tolerance, if it must be found
    extra: tuple[tuple[str, Mapping[str, Value]], ...] = ()  # (stage, options) for the last method

    def _spec(self, stage: str, method: str, seed: int, parameters: Any, **changes: Any) -> Spec:
        return Spec(
            figure=self.figure,
            stage=stage,
            task=self.task,
            method=method,
            iterations=changes.get("iterations", self.iterations),
            seed=seed,
            parameters=parameters,
            options={**self.options, **changes.get("options", {})},
            gap=self.gap,
            violation=self.violation,
        )

    def references(self) -> list[Spec]:
        """The runs that find the optimum, for the comparison and for trimming at another size."""
        if self.reference is None:
            return []
        steps = self.reference["iterations"]
        settings = {"tolerance": self.reference["tolerance"]}
        sizes = [{}, *(trim.options for trim in self.trims if trim.options)]
        specs = []
        for size in sizes:
            options = {**size, **settings}
            spec = self._spec("reference", "splitting", 0, size, iterations=steps, options=options)
            spec = dataclasses.replace(spec, gap="relative_gap", violation=())
            if spec not in specs:
                specs.append(spec)
        return specs

    def tuning(self) -> list[Spec]:
        short = max(1, self.iterations // 10)
        return [
            self._spec("tune", method, 0, {"mu_c": mu_c}, iterations=short)
            for method in self.methods
            for mu_c in self.grid
        ]

    def finals(self, chosen: Mapping[str, float]) -> list[Spec]:
        entries = [(method, method, {}) for method in self.methods]
        entries += [(twin.method, twin.parent, twin.parameters) for twin in self.twins]
        given = [
            (method, {"mu_c": chosen[parent], **parameters})
            for method, parent, parameters in entries
            if parent in chosen
        ]
        given += [(method, {}) for method in self.untuned]
        return [
            self._spec("final", method, seed, parameters)
            for method, parameters in given
            for seed in range(self.seeds)
        ]

    def trimmed(self, chosen: Mapping[str, float], scale: Callable[[Spec], float]) -> list[Spec]:
        """`scale` gives 2 L_G D of a run's problem."""
        specs = []
        for trim in self.trims:
            if trim.method not in chosen:
                continue
            mu_c = {"mu_c": chosen[trim.method]}
            plain = self._spec("trim", trim.method, 0, mu_c, options=trim.options)
            thresholds = trim.thresholds(scale(plain) / chosen[trim.method])
            # at another size the untrimmed method is run anew, which is what tau_0 = 0 means
            for tau_0 in (0.0, *thresholds) if trim.options else thresholds:
                parameters = {**mu_c, "tau_0": tau_0}
                name = f"t-{trim.method}"
                specs.append(self._spec("trim", name, 0, parameters, options=trim.options))
        return specs

    def extras(self, chosen: Mapping[str, float]) -> list[Spec]:
        method = self.methods[-1]
        if method not in chosen:
            return []
        mu_c = {"mu_c": chosen[method]}
        return [self._spec(stage, method, 0, mu_c, options=o) for stage, o in self.extra]

    def with_optimum(self, spec: Spec, optimum: Mapping[str, float]) -> Spec:
        """The spec with the optimum that a reference found for its size."""
        key = size_of(spec)
        if key not in optimum:
            return spec
        return dataclasses.replace(spec, options={**spec.options, "optimum": optimum[key]})


def size_of(spec: Spec) -> str:
    """What tells the problems of one comparison apart."""
    return str(spec.options.get("count", ""))


@dataclasses.dataclass(frozen=True)
class Rates:
    """Figure 1: methods on a problem whose optimum is known, for their slopes."""

    iterations: int
    seeds: int = 3
    mu_c: float = 1.0
    methods: tuple[str, ...] = (
        "hfw", "shcgm", "most-fw", "zo-most-fw", "h1-sfw", "most-fw+", "zo-most-fw+",
        "sfw", "1-sfw", "orgfw",
    )  # fmt: skip
    exponents: tuple[float, ...] = (1 / 6, 5 / 24)  # of Remark 3; most-fw+ itself has 1/4
    figure: int = 1
    task: str = "known"

    def runs(self) -> list[Spec]:
        entries: list[tuple[str, dict[str, Value]]] = []
        for name in self.methods:
            free = presets.get(name).constraints == "none"
            entries.append((name, {} if free else {"mu_c": self.mu_c}))
        for b in self.exponents:
            entries.append(("most-fw+", {"mu_c": self.mu_c, "b": b}))
        return [
            Spec(
                figure=self.figure,
                stage="rate",
                task=self.task,
                method=name,
                iterations=self.iterations,
                seed=seed,
                parameters=parameters,
                options={"rows": 2, "dense_records": 200},
                violation=() if "mu_c" not in parameters else ("violation.bound",),
            )
            for name, parameters in entries
            for seed in range(self.seeds)
        ]


Figure = Rates | Comparison


@dataclasses.dataclass(frozen=True)
class Data:
    """Which data the figures use; a figure that is not run needs none."""

    graph: str = "karate-club"
    graph_optimum: float = 0.0
    digits: str = "mnist-digits"


def plan(
    data: Data, quick: bool, seeds: int | None = None, literal: bool = False
) -> dict[int, list[Figure]]:
    """What each figure runs; `literal` gives Figure 2 the paper's swapped bounds.

    >>> from mostfw.experiments.figures import Data, plan
    >>> found = plan(Data("karate-club", 15.9, "mnist-digits"), quick=True)
    >>> sorted(found), found[4][0].methods[-2:]
    ([1, 2, 3, 4, 5], ('most-fw', 'most-fw+'))
    """
    figures: dict[int, list[Figure]] = {
        1: [Rates(iterations=30_000 if quick else 200_000)],
        2: [_covariance(quick, literal)],
        3: [_kmeans(data, quick)],
        4: [_sparsest_cut(data, quick)],
        5: [_completion(quick), _logistic(quick)],
    }
    if seeds is None:
        return figures
    return {
        number: [dataclasses.replace(part, seeds=seeds) for part in parts]
        for number, parts in figures.items()
    }


def _covariance(quick: bool, literal: bool) -> Comparison:
    options: dict[str, Value] = {"n": 200 if quick else 1000, "batch": 200}
    swapped: dict[str, Value] = {"bounds": "literal"}
    return Comparison(
        figure=2,
        task="covariance",
        options=options | swapped if literal else options,
        iterations=1000 if quick else 10_000,
        methods=("hfw", "shcgm", "most-fw"),
        gap="relative_error",
        violation=("l1_excess",),
        trims=(Trim("most-fw", (0.001, 0.002, 0.003, 0.01, 0.03, 0.1, 0.3), 3.5),),
        extra=() if literal else (("literal", swapped),),
    )


def _kmeans(data: Data, quick: bool) -> Comparison:
    folder = data.digits == "folder"
    count = 120 if quick else 1000
    options = {
        "data": _digits_name(folder, count),
        "count": count,
        "clusters": 10,
        "batch": 0.01,
        "constraint_batch": 0.01,
        "sign_weight": float(count),  # 1000 at N = 1000, as in the baselines' codes
        "lmo_tolerance": 1e-2,
    }
    larger = 160 if quick else 2000
    size = {"data": _digits_name(folder, larger), "count": larger}
    return Comparison(
        figure=3,
        task="kmeans",
        options=options,
        iterations=4000 if quick else 100_000,
        methods=("hfw", "shcgm", "h1-sfw", "most-fw", "most-fw+"),
        violation=("relative_violation.rows", "relative_violation.sign"),
        trims=(
            Trim("most-fw", (0.3, 0.5, 0.7, 1.0, 1.5), 5.0, size),
            Trim("most-fw+", (0.001, 0.003, 0.01, 0.03, 0.1), 14.0, size),
        ),
        reference={"iterations": 3000, "tolerance": 1e-3 if quick else 1e-4},
    )


def _digits_name(folder: bool, count: int) -> str:
    if not folder:
        return "mnist-digits"
    return "mnist-softmax-1000" if count == 1000 else "mnist-softmax-10000"


def _sparsest_cut(data: Data, quick: bool) -> Comparison:
    return Comparison(
        figure=4,
        task="sparsest-cut",
        options={
            "graph": data.graph,
            "batch": 0.05,
            "constraint_batch": 0.05,
            "optimum": data.graph_optimum,
        },
        iterations=1200 if quick else 100_000,
        methods=("shcgm", "h1-sfw", "h-spider-fw", "h-sag-cgm", "most-fw", "most-fw+"),
        violation=("relative_violation.equality", "relative_violation.triangles"),
        twins=(Twin("zo-most-fw", "most-fw"), Twin("zo-most-fw+", "most-fw+")),
        trims=(
            Trim("most-fw", (0.05, 0.07, 0.08, 0.09, 0.1, 0.2), 1.0),
            Trim("most-fw+", (0.0001, 0.0003, 0.001, 0.003, 0.01), 5.0),
        ),
    )


def _completion(quick: bool) -> Comparison:
    rows, columns = (60, 40) if quick else (300, 200)
    return Comparison(
        figure=5,
        task="completion",
        options={
            "rows": rows,
            "columns": columns,
            "rank": 4,
            "radius_share": 0.9,
            "batch": 0.02,
            "constraint_batch": 0.02,
        },
        iterations=2000 if quick else 20_000,
        methods=("hfw", "shcgm", "h1-sfw", "most-fw", "most-fw+"),
        untuned=("cgal", "most-al", "most-al+"),
        violation=("relative_violation.box",),
        reference={"iterations": 5000, "tolerance": 1e-4},
    )


def _logistic(quick: bool) -> Comparison:
    return Comparison(
        figure=5,
        task="logistic",
        options={
            "rows": 200 if quick else 500,
            "dimension": 20 if quick else 50,
            "batch": 0.02,
            "constraint_batch": 0.02,
        },
        iterations=3000 if quick else 50_000,
        methods=("hfw", "shcgm", "h1-sfw", "most-fw", "most-fw+"),
        untuned=("cgal", "most-al", "most-al+"),
        violation=("relative_violation.scores",),
        twins=(
            Twin("zo-most-fw", "most-fw", {"oracle": "CGE"}),
            Twin("zo-most-fw", "most-fw", {"oracle": "IRDSA"}),
            Twin("zo-most-fw", "most-fw", {"oracle": "RDSA"}),
        ),
        reference={"iterations": 500, "tolerance": 1e-6},
    )
