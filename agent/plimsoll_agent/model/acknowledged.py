"""Acknowledgements: an operator knows that one disk is unknown, and wants no alert of it until a given time."""

from __future__ import annotations

from datetime import datetime

from plimsoll_agent.model.disk import DiskName
from plimsoll_agent.model.reason import Code, Reason, because
from plimsoll_agent.util.decoding import Moment
from plimsoll_agent.util.frozen import frozen


@frozen(kw_only=True)
class Acknowledgement:
    """It ends at ``until``, or when the disk's limits are known."""

    disk: DiskName
    since: Moment
    until: Moment
    by: str
    why: str

    @property
    def reason(self) -> Reason:
        return because(Code.ACKNOWLEDGED, why=self.why, by=self.by, until=self.until.isoformat(timespec="seconds"))

    def ended(self, now: datetime) -> bool:
        return now >= self.until
