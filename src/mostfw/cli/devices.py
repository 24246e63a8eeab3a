"""Which device a command runs on."""

from __future__ import annotations

import jax

DEVICES = ("cpu", "gpu")


def use_device(name: str | None) -> None:
    """None leaves the choice to JAX, which prefers a GPU."""
    if name is not None:
        jax.config.update("jax_platforms", "cuda" if name == "gpu" else "cpu")
