"""A small real cloud on this machine, for the lab tests, the demo and the benchmarks."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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

_MODULES = {
    "Completed": "guest",
    "Flavor": "domain",
    "Image": "disk",
    "LabError": "command",
    "Request": "served",
    "Server": "domain",
    "ephemeral": "disk",
    "volume": "disk",
}


def __getattr__(name: str) -> object:
    """Imported when it is asked for: script/setup makes images before there is a virtual environment."""
    if name not in __all__:
        raise AttributeError(name)
    return getattr(importlib.import_module(f".{_MODULES.get(name, name.lower())}", __name__), name)
