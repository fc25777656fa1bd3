"""oslo.config, without libraries that it imports for uses that plimsoll seldom or never has.

They take 25 of the 550 ms of a pass over 100 guests.
"""

from __future__ import annotations

from plimsoll_agent.util.on_demand import postponed

# For settings from elsewhere than files, and for samples of them; for types.IPAddress, HostAddress and URI.
with postponed("stevedore", "netaddr", "rfc3986"):
    from oslo_config import cfg, iniparser, types

__all__ = ["cfg", "iniparser", "types"]
