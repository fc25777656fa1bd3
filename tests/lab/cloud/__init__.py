"""A small real cloud on this machine, for the lab tests, the demo and the benchmarks."""

from .cloud import Cloud
from .command import LabError
from .daemon import Daemon
from .disk import Disk, Image, ephemeral, volume
from .domain import Flavor, Server
from .guest import Completed, Guest

__all__ = [
    "Cloud",
    "Completed",
    "Daemon",
    "Disk",
    "Flavor",
    "Guest",
    "Image",
    "LabError",
    "Server",
    "ephemeral",
    "volume",
]
