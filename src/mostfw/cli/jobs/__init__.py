"""Commands on files: `cluster`, `cut`, `maxcut`, `covariance`, `complete`, `solve`."""

from typing import Any

from . import cluster, complete, covariance, cuts, sdp


def add(commands: Any) -> None:
    """Adds all of them to the parser."""
    for job in (cluster, cuts, covariance, complete, sdp):
        job.add(commands)
