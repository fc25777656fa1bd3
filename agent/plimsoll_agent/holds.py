"""Holds: an operator's exception for one disk, with an end and a reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from plimsoll_agent.disk import DiskName
from plimsoll_agent.limits import Limits
from plimsoll_agent.reason import Code, Reason, because

LONGEST = timedelta(days=366)
"""What is to last longer belongs in a rule."""


@dataclass(frozen=True, slots=True)
class Hold:
    """What a person wants for one disk, for a time: for the disk as it is on this node, or of the whole region."""

    disk: DiskName
    limits: Limits | None
    """None leaves the disk as it is, whatever that is."""
    since: datetime
    until: datetime
    by: str
    why: str
    missing: datetime | None = None
    """Since when libvirt knows nothing of the guest, running or not."""
    ignore_health: bool = False
    """Its limits are raised or removed also while the cluster is not well."""
    region: bool = False
    """It came with the region's file: it is no part of this node's memory, and ends with that file."""

    @property
    def reason(self) -> Reason:
        flags = {name: True for name in ("ignore_health", "region") if getattr(self, name)}
        return because(Code.HOLD, why=self.why, by=self.by, until=self.until.isoformat(timespec="seconds"), **flags)

    def ended(self, now: datetime) -> bool:
        return now >= self.until


def standing_holds(holds: Mapping[str, Hold], now: datetime) -> dict[str, Hold]:
    """Those that have not ended."""
    return {key: hold for key, hold in holds.items() if not hold.ended(now)}
