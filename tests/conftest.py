"""Tests run in float64; the tests of other precisions switch inside their own context."""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
from hypothesis import HealthCheck, settings

jax.config.update("jax_enable_x64", True)

settings.register_profile(
    "mostfw",
    max_examples=int(os.environ.get("MOSTFW_EXAMPLES", "12")),
    deadline=None,  # the first example compiles
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("mostfw")
