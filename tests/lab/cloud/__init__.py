"""A small real cloud on this machine, for the lab tests, the demo and the benchmarks."""

from .attachment import Attachment
from .cloud import Cloud
from .command import LabError
from .daemon import Daemon
from .disk import Disk, Image, ephemeral, volume
from .domain import Flavor, Server
from .guest import Completed, Guest
from .login import Login
from .nova import Nova
from .openstack import OpenStack
from .served import Request

__all__ = [
    "Attachment",
    "Cloud",
    "Completed",
    "Daemon",
    "Disk",
    "Flavor",
    "Guest",
    "Image",
    "LabError",
    "Login",
    "Nova",
    "OpenStack",
    "Request",
    "Server",
    "ephemeral",
    "volume",
]
