"""`mostfw plan`: memory, messages and time of a run on devices that one may not have yet."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from ..errors import InvalidInputError
from .table import aligned

TASKS = ("kmeans",)


def add(commands: Any) -> None:
    """Adds `plan` to the commands of the parser."""
    plan = commands.add_parser(
        "plan",
        help="what a run would take on so many devices",
        description="Predicts memory, messages and time of a step of most-fw on k-means with n "
        "points over so many devices (docs/scale.md says what the model rests on).",
    )
    plan.add_argument("--n", type=_whole, required=True, help="rows of the matrix, such as 1e6")
    plan.add_argument("--devices", type=_whole, default=1)
    plan.add_argument("--device-kind", default="h200", help="h200 (default)")
    plan.add_argument("--task", choices=TASKS, default="kmeans")
    plan.add_argument("--dtype", choices=("float32", "float64"), default="float32")
    plan.add_argument(
        "--products", type=float, help="of the LMO a step (default: those of N = 40,000, measured)"
    )
    plan.add_argument("--batch", type=_whole, help="entries drawn a step")
    plan.add_argument(
        "--measure",
        action="store_true",
        help="here instead: copy memory, predict a step of size n, make some, and compare",
    )
    plan.set_defaults(command=_plan)


def _whole(text: str) -> int:
    value = float(text)
    if value != int(value):
        raise ValueError(text)
    return int(value)


def _plan(options: argparse.Namespace) -> int:
    from .. import planning
    from ..memory import in_words

    if options.measure:
        return _measure(options)
    given = {"itemsize": np.dtype(options.dtype).itemsize, "batch": options.batch}
    given["products"] = planning.PRODUCTS if options.products is None else options.products
    plans = planning.table(options.n, options.devices, options.device_kind, **given)
    machine, batch = plans[0].machine, options.batch or planning.default_batch(options.n)
    print(
        f"k-means (P, most-fw), n = {options.n:,}, {options.dtype}, {batch:,} entries drawn and "
        f"{given['products']:g} products a step, on {machine.name}\n"
    )
    print(aligned([planning.HEAD, *(plan.row() for plan in plans)]))
    (chosen,) = (plan for plan in plans if plan.devices == options.devices)
    room = planning.USABLE * machine.memory
    verdict = "fits" if chosen.fits else "does not fit"
    print(
        f"\n{chosen.devices} devices: {in_words(chosen.held)} of {in_words(room)} each, so it "
        f"{verdict}; {planning.seconds_in_words(chosen.seconds)} a step, of which "
        f"{planning.seconds_in_words(chosen.talking)} is talk."
    )
    print(
        f"Fitted: {machine.efficiency:.3g} of {in_words(machine.bandwidth)}/s, from the step at "
        f"N = 100,000 on one device, and {1e3 * machine.overhead:g} ms a step. Assumed: "
        f"{1e6 * machine.latency:g} us a collective and {1e6 * machine.network_latency:g} us more "
        f"for each doubling of the machines of {machine.together}. Several devices were not "
        "measured."
    )
    return 0


def _measure(options: argparse.Namespace) -> int:
    from .. import planning
    from ..memory import in_words

    if options.devices != 1:
        raise InvalidInputError("plan --measure is for one device: leave --devices out.")
    found = planning.measured(options.n, options.dtype)
    machine = found.plan.machine
    print(
        f"{machine.name}: copies {in_words(machine.bandwidth)}/s, a step of size 64 takes "
        f"{1e3 * machine.overhead:.3g} ms"
    )
    print(
        f"k-means, n = {options.n:,}, {options.dtype}: predicted {1e3 * found.plan.seconds:.3g} "
        f"ms a step, measured {1e3 * found.seconds:.3g} ms with {found.products:.1f} products "
        f"(predicted / measured = {found.ratio:.2f})"
    )
    print(
        f"memory: {in_words(found.plan.held)} by this model, {in_words(found.held)} by "
        "mostfw.memory.estimate"
    )
    return 0
