"""`mostfw plan`: what a run would take on so many devices, before anybody has them.

The model counts bytes. A step of k-means (problem P, most-fw) reads and writes matrices of n^2
numbers so many times, spread over the devices; beside that every device does some work of its own,
and they tell each other a vector for each product. What is fitted to measurements, what is counted
in the code, what a vendor says and what is assumed is written beside each number.
"""

from __future__ import annotations

import dataclasses
import math
import time

import jax
import jax.numpy as jnp
import numpy as np

from . import checks, memory, resources
from .errors import InvalidInputError
from .memory import in_words
from .methods import most_fw
from .problems.kmeans import kmeans
from .solving import solve

# Counted in the step, in matrices that are read or written: x moves in place (2), and the direction
# is formed of x and y (3) or, where it has no room, applied to vectors, which reads both.
UPDATE, FORM = 2, 3
READ_FORMED, READ_APPLIED = 1, 2
HELD_FORMED, HELD_APPLIED = 3, 2  # x, y, and the direction
# Counted: each product is made orthogonal to half of a basis of 26 vectors, twice, on every device.
BASIS_READ = 26
HELD_VECTORS = memory.KRYLOV_VECTORS
FEATURES = 10
# A gather for each product and four for each step (docs/scale.md), and about as many sums.
COLLECTIVES_A_STEP = 8
# Counted, not measured: the features of two points, a place in y read and written, and the draw.
BYTES_A_DRAW = 200
# Measured: products a step, the mean of 2,000 steps at N = 40,000 (docs/speed/gpu-middle.json).
PRODUCTS = 11.9
LARGEST_BATCH = 10**7  # draws a step, of which every device makes all
BATCH_SHARE = 0.001
USABLE = 0.95  # of the memory, with XLA_PYTHON_CLIENT_MEM_FRACTION=0.95
FORMED_SHARE = 0.75  # as a method decides between a direction that is formed and one applied
DEVICES = (1, 8, 64, 512)
MEASURED_STEPS, MEASURED_AHEAD = 40, 10


@dataclasses.dataclass(frozen=True)
class Machine:
    """A kind of device, and how devices of it are connected.

    >>> from mostfw.planning import MACHINES
    >>> MACHINES["h200"].memory
    141000000000.0
    """

    name: str
    memory: float  # bytes; the vendor's number
    bandwidth: float  # bytes a second; the vendor's number
    efficiency: float  # of that, which steps reach
    overhead: float  # seconds a step, however small: kernels being started
    together: int = 1  # devices of one machine, with links of their own
    link: float = math.inf  # bytes a second between these, one way; the vendor's number
    network: float = math.inf  # bytes a second of one device to other machines
    latency: float = 0.0  # seconds of a collective inside a machine; assumed
    network_latency: float = 0.0  # more, for each doubling of the machines; assumed


MACHINES = {
    "h200": Machine(
        name="NVIDIA H200",
        memory=141e9,  # NVIDIA's data sheet, as the next and the link
        bandwidth=4.8e12,
        # Fitted: the step at N = 100,000, 177.8 ms with 8.4 products that read x and y
        # (docs/speed/gpu-large.json). Nothing else is fitted to large matrices.
        efficiency=0.886,
        # Fitted: the step at N = 1000, where matrices are nothing (docs/speed/gpu-small.json).
        overhead=0.53e-3,
        together=8,
        link=450e9,  # NVLink, 900 GB/s in both directions
        network=50e9,  # InfiniBand NDR, 400 Gb/s for each GPU
        latency=20e-6,
        network_latency=10e-6,
    ),
}


@dataclasses.dataclass(frozen=True)
class Plan:
    """What a step takes on each of so many devices; seconds and bytes."""

    machine: Machine
    n: int
    devices: int
    itemsize: int
    applied: bool
    spread_bytes: float  # held by one device of what is spread
    own_bytes: float  # held by every device
    read_bytes: float  # read or written in a step by one device
    sent_bytes: float  # told by one device to the others in a step, or about to it
    computing: float
    talking: float

    @property
    def held(self) -> float:
        return self.spread_bytes + self.own_bytes

    @property
    def fits(self) -> bool:
        return self.held <= USABLE * self.machine.memory

    @property
    def seconds(self) -> float:
        return self.computing + self.talking

    def row(self) -> tuple[str, ...]:
        way = "applied" if self.applied else "formed"
        return (
            str(self.devices),
            in_words(self.held),
            f"yes, {way}" if self.fits else "no",
            in_words(self.read_bytes),
            in_words(self.sent_bytes) if self.devices > 1 else "-",
            seconds_in_words(self.computing),
            seconds_in_words(self.talking) if self.devices > 1 else "-",
            seconds_in_words(self.seconds),
            f"{largest(self.devices, self.machine, self.itemsize):,}",
        )


def seconds_in_words(seconds: float) -> str:
    """A time.

    >>> from mostfw.planning import seconds_in_words
    >>> seconds_in_words(0.0123), seconds_in_words(12.3)
    ('12.3 ms', '12.3 s')
    """
    return f"{seconds:.3g} s" if seconds >= 1 else f"{1e3 * seconds:.3g} ms"


HEAD = ("devices", "memory each", "fits", "read a step", "told a step", "work", "talk")
HEAD += ("a step", "n up to")


def plan(
    n: int,
    devices: int = 1,
    machine: Machine | str = "h200",
    *,
    itemsize: int = 4,
    products: float = PRODUCTS,
    batch: int | None = None,
) -> Plan:
    """The prediction for k-means with n points, problem P, most-fw.

    >>> from mostfw.planning import plan
    >>> found = plan(40_000)
    >>> found.fits, found.applied, 0.7 < found.seconds / 26.1e-3 < 1.3
    (True, False, True)
    >>> plan(10**6, 8).fits, plan(10**6, 64).fits
    (False, True)
    """
    machine = _machine(machine)
    checks.whole("n", n, 1)
    checks.whole("devices", devices, 1)
    batch = default_batch(n) if batch is None else checks.whole("batch", batch, 1)
    products = checks.number("products", products, above=0)
    share = itemsize * n**2 / devices  # one matrix, as one device has it
    applied = HELD_FORMED * share > FORMED_SHARE * machine.memory
    own = itemsize * n * (HELD_VECTORS + FEATURES)
    own += itemsize * memory.NUMBERS_A_DRAW * batch
    passes = UPDATE + products * READ_APPLIED if applied else UPDATE + FORM + products
    read = share * passes + itemsize * n * BASIS_READ * products + BYTES_A_DRAW * batch
    return Plan(
        machine=machine,
        n=n,
        devices=devices,
        itemsize=itemsize,
        applied=applied,
        spread_bytes=share * (HELD_APPLIED if applied else HELD_FORMED),
        own_bytes=own,
        read_bytes=read,
        sent_bytes=itemsize * n * (products + COLLECTIVES_A_STEP / 2) if devices > 1 else 0.0,
        computing=machine.overhead + read / (machine.efficiency * machine.bandwidth),
        talking=_talking(machine, devices, itemsize * n, products),
    )


def largest(devices: int, machine: Machine | str = "h200", itemsize: int = 4) -> int:
    """The largest n that fits, to two digits.

    >>> from mostfw.planning import largest, plan
    >>> n = largest(1)
    >>> plan(n).fits, plan(int(1.2 * n)).fits
    (True, False)
    """
    low, high = 1, 2**40
    while high - low > 1:
        middle = (low + high) // 2
        fits = plan(middle, devices, machine, itemsize=itemsize).fits
        low, high = (middle, high) if fits else (low, middle)
    unit = 10 ** max(0, len(str(low)) - 2)
    return low // unit * unit


def default_batch(n: int) -> int:
    """Entries drawn a step: a thousandth, but not more than every device can make.

    >>> from mostfw.planning import default_batch
    >>> default_batch(40_000), default_batch(10**6)
    (1600000, 10000000)
    """
    return max(1, min(LARGEST_BATCH, int(BATCH_SHARE * n**2)))


def _machine(given: Machine | str) -> Machine:
    if isinstance(given, Machine):
        return given
    if given not in MACHINES:
        raise InvalidInputError(
            f"the kind of device is {given!r}: there are numbers for {', '.join(MACHINES)}."
        )
    return MACHINES[given]


def _talking(machine: Machine, devices: int, vector: float, products: float) -> float:
    """Gathers of a vector, of which every device has a part: through the links of a machine, and
    before that between machines, by the networks of all devices of one at once."""
    if devices == 1:
        return 0.0
    machines = math.ceil(devices / machine.together)
    latency = machine.latency + machine.network_latency * math.log2(machines)
    each = vector / machine.link
    if machines > 1:
        each += vector / (machine.network * machine.together)
    gathers = products + COLLECTIVES_A_STEP / 2
    return gathers * each + (products + COLLECTIVES_A_STEP) * latency


def table(n: int, devices: int, machine: Machine | str = "h200", **given: float) -> list[Plan]:
    """The same for 1, 8, 64, 512 devices and for those that were asked for.

    >>> from mostfw.planning import table
    >>> [plan.devices for plan in table(1000, 2)]
    [1, 2, 8, 64, 512]
    """
    return [plan(n, count, machine, **given) for count in sorted({*DEVICES, devices})]  # pyright: ignore[reportArgumentType]


@dataclasses.dataclass(frozen=True)
class Measured:
    """A step here, as it was predicted and as it was."""

    plan: Plan
    seconds: float
    products: float
    held: int  # what `mostfw.memory` expects the run to hold

    @property
    def ratio(self) -> float:
        return self.plan.seconds / self.seconds


def measured(n: int, dtype: str = "float32") -> Measured:
    """Measures how fast this machine copies and how long a tiny step takes, predicts the step of a
    k-means run of size n from that, and makes one. Its products are the run's own."""
    checks.whole("n", n, 16)
    overhead, *_ = _steps(64, dtype)
    seconds, products, held = _steps(n, dtype)
    here = Machine(
        name=resources.processor() if resources.accelerator_bytes() is None else _kind(),
        memory=float(resources.available_bytes() or math.inf),
        bandwidth=_copying(n, dtype),
        efficiency=1.0,  # of copying, which is measured
        overhead=overhead,
    )
    batch = max(1, int(BATCH_SHARE * n**2))
    size = np.dtype(dtype).itemsize
    found = plan(n, 1, here, itemsize=size, products=products, batch=batch)
    return Measured(found, seconds, products, held)


def _kind() -> str:
    return jax.local_devices()[0].device_kind


def _copying(n: int, dtype: str, rounds: int = 10) -> float:
    """Bytes a second, read and written, of an n x n array that is moved in place."""
    with jax.enable_x64(dtype == "float64"):
        moved = jax.jit(lambda a, c: a * c, donate_argnums=0)
        array, factor = jnp.ones((n, n), dtype), jnp.ones((), dtype)
        best = math.inf
        for _ in range(rounds):
            began = time.perf_counter()
            array = jax.block_until_ready(moved(array, factor))
            best = min(best, time.perf_counter() - began)
        return 2 * array.nbytes / best


def _steps(n: int, dtype: str) -> tuple[float, float, int]:
    """Seconds and products of a step, and the bytes that the memory model expects."""
    rng = np.random.default_rng(0)
    centers = 4 * rng.standard_normal((10, FEATURES))
    points = (centers[np.arange(n) % 10] + rng.standard_normal((n, FEATURES))).astype(dtype)
    problem = kmeans(
        points, 10, batch=BATCH_SHARE, sampling="entries", sign_weight=float(n), dtype=dtype
    )
    method = most_fw(mu_c=1.0)
    result = solve(
        problem,
        method,
        iterations=MEASURED_STEPS,
        record=[MEASURED_AHEAD],
        certify=False,
        progress=False,
    )
    first, last = result.history[0], result.history[-1]
    steps = last.iteration - first.iteration
    seconds = (last.seconds - first.seconds) / steps
    products = (last.counts.matvecs - first.counts.matvecs) / steps
    return seconds, products, memory.estimate(problem, method).total
