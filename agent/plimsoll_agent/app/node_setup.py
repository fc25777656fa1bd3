"""How this node is set up, as far as the command to run next depends on it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from plimsoll_agent.config.settings import Settings
from plimsoll_agent.monitor.next_command import CATALOGUE_UNIT, ENFORCE_UNIT, FETCH_SERVICE, PROBE_UNIT, NodeSetup

_UNITS = (ENFORCE_UNIT, CATALOGUE_UNIT, PROBE_UNIT)
_DAEMON = "plimsoll-daemon.service"
_SYSTEMD = "/run/systemd/system"
"""Only where systemd runs (sd_booted(3)). In a container the package's units are files that nothing runs."""
_UNIT_DIRECTORIES = ("/etc/systemd/system", _SYSTEMD, "/usr/lib/systemd/system", "/lib/systemd/system")


def node_setup(
    settings: Settings,
    options: Sequence[str] = (),
    units: Sequence[str] = _UNIT_DIRECTORIES,
    systemd: str = _SYSTEMD,
) -> NodeSetup:
    """For whoever runs this; ``options`` of ``plimsoll`` lead to these settings."""
    timers = {unit for unit in _UNITS if _is_there(units, f"{unit}.timer")}
    container = bool(timers) and not os.path.lexists(systemd)
    if container:
        units, timers = (), set()
    wants = {unit for unit in timers if _is_there(units, f"timers.target.wants/{unit}.timer")}
    live_timers = {unit for unit in wants if not _is_masked(units, f"{unit}.timer")}
    return NodeSetup(
        sudo=os.geteuid() != 0,
        options=tuple(options),
        timers=frozenset(live_timers),
        disabled=frozenset(timers - live_timers),
        container=container,
        daemon_enabled=_is_there(units, f"multi-user.target.wants/{_DAEMON}") and not _is_masked(units, _DAEMON),
        fetcher=_is_there(units, FETCH_SERVICE),
        catalogue=settings.catalogue.source,
        uri=settings.uri,
        ceph_id=settings.ceph.id,
    )


def _is_there(directories: Sequence[str], name: str) -> bool:
    return any(os.path.lexists(Path(directory) / name) for directory in directories)


def _is_masked(directories: Sequence[str], name: str) -> bool:
    files = (Path(directory) / name for directory in directories)
    return any(file.is_symlink() and str(file.readlink()) == os.devnull for file in files)
