"""Tests run in float64; the tests of other precisions switch inside their own context."""

import os

os.environ.setdefault("JAX_ENABLE_X64", "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

from hypothesis import HealthCheck, settings

settings.register_profile(
    "mostfw",
    max_examples=int(os.environ.get("MOSTFW_EXAMPLES", "25")),
    deadline=None,  # the first example compiles
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("mostfw")
