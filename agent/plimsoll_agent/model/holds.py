"""Holds: an operator's exception for one disk, with an end and a reason."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from plimsoll_agent.model.disk import DiskName
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, Reason, because
from plimsoll_agent.util.decoding import Moment
from plimsoll_agent.util.frozen import frozen


@frozen(kw_only=True)
class Hold:
    """An operator's exception for one disk, for a time."""

    disk: DiskName
    limits: Limits | None
    """None leaves the disk's limits unchanged."""
    since: Moment
    until: Moment
    by: str
    why: str
    missing: Moment | None = None
    """Since when libvirt has no such guest, running or not."""
    ignore_health: bool = False
    """Its limits may be raised or removed while the cluster is unhealthy."""
    region: bool = False
    """It came with the region's file, and ends with it; this node does not store it."""

    @property
    def reason(self) -> Reason:
        flags = {name: True for name in ("ignore_health", "region") if getattr(self, name)}
        return because(Code.HOLD, why=self.why, by=self.by, until=self.until.isoformat(timespec="seconds"), **flags)

    def ended(self, now: datetime) -> bool:
        return now >= self.until


def active_holds(holds: Mapping[str, Hold], now: datetime) -> dict[str, Hold]:
    return {key: hold for key, hold in holds.items() if not hold.ended(now)}
