"""What the machine has."""

from __future__ import annotations

import jax


def accelerator_bytes() -> int | None:
    """The memory of the accelerator that arrays go to by default; None on a CPU.

    >>> from mostfw.resources import accelerator_bytes
    >>> (accelerator_bytes() or 2**40) > 2**20
    True
    """
    device = jax.config.values.get("jax_default_device") or jax.local_devices()[0]
    stats = device.memory_stats() if isinstance(device, jax.Device) else None
    return int(stats["bytes_limit"]) if stats and "bytes_limit" in stats else None
