"""libvirt's events of guests: values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from plimsoll_agent.util.frozen import frozen


class EventKind(StrEnum):
    """What happened to a guest; the values are labels of metrics."""

    STARTED = "started"
    ARRIVING = "arriving"
    """It was started to receive a migration, and does not run yet."""
    RESUMED = "resumed"
    STOPPED = "stopped"
    DEVICE_ADDED = "device-added"
    DEVICE_REMOVED = "device-removed"
    TUNABLE = "tunable"
    """The limits of a disk were set, by any client of libvirt."""
    BLOCK_JOB = "block-job"
    """A block job on a disk ended."""
    JOB_ENDED = "job-ended"
    """A migration, save or snapshot of the guest ended."""
    CATALOGUE = "catalogue"
    """Not libvirt's: the catalogue has other data of its disks or its flavor."""


@frozen(kw_only=True)
class GuestEvent:
    """``target`` and ``limits`` are of ``TUNABLE``: the parameters that were set, by libvirt's names."""

    uuid: str
    name: str
    kind: EventKind
    target: str = ""
    limits: Mapping[str, object] = field(default_factory=dict, hash=False)


@frozen
class Connected:
    """Events come from now on; what happened before is unknown."""


@frozen
class Disconnected:
    """No events come until ``Connected``."""

    why: str


LinkEvent = GuestEvent | Connected | Disconnected
