"""oslo.config, without two libraries that it imports for types of options that plimsoll does not use.

They take 25 of the 550 ms of a pass over 100 guests. Each is loaded when it is used. ``importlib.util.LazyLoader``
would load them at once: the import statement of Python 3.11 reads the module's ``__spec__``.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

from plimsoll_agent.util.on_demand import postponed


class _OnDemand(ModuleType):
    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)


for _library in ("netaddr", "rfc3986"):  # types.IPAddress, HostAddress, URI
    sys.modules.setdefault(_library, _OnDemand(_library))

with postponed("stevedore"):  # for settings from elsewhere than files, and for samples of them
    from oslo_config import cfg, iniparser, types

__all__ = ["cfg", "iniparser", "types"]
