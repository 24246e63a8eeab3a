"""What the machine has."""

from __future__ import annotations

import os

import jax


def device_bytes() -> int | None:
    """The memory of the device that arrays go to by default; None where nobody says.

    >>> from mostfw.resources import device_bytes
    >>> (device_bytes() or 2**30) > 2**20
    True
    """
    device = jax.config.values.get("jax_default_device") or jax.local_devices()[0]
    stats = device.memory_stats() if isinstance(device, jax.Device) else None
    if stats and "bytes_limit" in stats:
        return int(stats["bytes_limit"])
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return None
