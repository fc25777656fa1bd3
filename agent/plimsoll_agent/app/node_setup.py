"""How this node is set up, as far as the command to run next depends on it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from plimsoll_agent.config.settings import Settings
from plimsoll_agent.monitor.next_command import CATALOGUE_UNIT, ENFORCE_UNIT, PROBE_UNIT, NodeSetup

_UNIT_DIRECTORIES = ("/etc/systemd/system", "/run/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system")


def node_setup(
    settings: Settings, options: Sequence[str] = (), units: Sequence[str] = _UNIT_DIRECTORIES
) -> NodeSetup:
    """For whoever runs this; ``options`` of ``plimsoll`` lead to these settings."""
    return NodeSetup(
        sudo=os.geteuid() != 0,
        options=tuple(options),
        timers=frozenset(
            unit
            for unit in (ENFORCE_UNIT, CATALOGUE_UNIT, PROBE_UNIT)
            if any((Path(directory) / f"{unit}.timer").exists() for directory in units)
        ),
        catalogue=settings.catalogue.source,
        uri=settings.uri,
        ceph_id=settings.ceph.id,
    )
