"""Tests run in float64; the tests of other precisions switch inside their own context."""

import os
import signal
from importlib.metadata import version
from pathlib import Path

os.environ.setdefault("JAX_PLATFORMS", "cpu")
# Most of a test's time is compilation. `make test` asks for programs that are optimised less, by
# XLA's older emitters of loops, which take half of it, but for the tests that are marked `exact`.
# XLA aborts on a flag that it does not know: only where both are known.
if os.environ.get("MOSTFW_QUICK_COMPILE") and version("jaxlib").startswith("0.10."):
    os.environ["XLA_FLAGS"] = (
        f"{os.environ.get('XLA_FLAGS', '')} --xla_backend_optimization_level=0 "
        "--xla_cpu_use_fusion_emitters=false"
    )

import jax
import pytest
from hypothesis import HealthCheck, settings

jax.config.update("jax_enable_x64", True)

# Under nohup, and in the background of a script, Ctrl-C is ignored; tests of it need to hear it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile(
    "mostfw",
    max_examples=int(os.environ.get("MOSTFW_EXAMPLES", "25")),
    deadline=None,  # the first example compiles
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("mostfw")

# Linux grants a process 65,530 memory maps. A compiled program takes a few dozen and keeps them:
# a worker that runs a thousand tests in one go would be aborted by LLVM for want of memory.
MAPS = Path("/proc/self/maps")
MOST_MAPS = 20_000


@pytest.fixture(autouse=True, scope="module")
def programs_are_forgotten():
    yield
    if MAPS.exists() and MAPS.read_bytes().count(b"\n") > MOST_MAPS:
        jax.clear_caches()
