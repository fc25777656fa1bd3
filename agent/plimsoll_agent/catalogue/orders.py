"""Orders: operators' decisions for a whole region (approvals, a pause, holds), carried by the region's file. Pure.

Approvals and holds have an end, which each node checks by its own clock, so they also end where the file is old.
"""

from __future__ import annotations

from dataclasses import field
from datetime import datetime
from enum import StrEnum

from plimsoll_agent.catalogue.stages import LAST, Stages
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.holds import Hold
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, Reason, because
from plimsoll_agent.util.decoding import Count, Moment
from plimsoll_agent.util.frozen import frozen, replace


class Of(StrEnum):
    """What is approved."""

    SPECS = "specs"
    """One state of QoS specs and volume types, by its digest."""
    RULES = "rules"
    """One revision of nodes' rules, by its digest."""
    BOUNDS = "bounds"
    """Higher bounds of the nodes' brakes (``disks``, ``percent``), for any revision."""


@frozen
class RegionBrake:
    """How many attached volumes may change (``Effect``) without an approval; the larger number counts."""

    volumes: int = 50
    percent: int = 1


@frozen(kw_only=True)
class RegionApproval:
    """What the brakes of all nodes allow until its end, also on nodes that come back later."""

    of: Of
    digest: str
    """The whole digest, 64 hex digits; empty for bounds."""
    since: Moment
    until: Moment
    by: str
    why: str
    remove: frozenset[str] = frozenset()
    """Ids of the volume types whose volumes may lose their limits."""
    disks: Count = 0
    percent: Count = 0
    stages: Stages | None = None
    """It counts on a share of the nodes only, which grows; None: on all at once."""

    def stands(self, now: datetime) -> bool:
        return now < self.until

    def is_of(self, other: RegionApproval | Withdrawal) -> bool:
        """Whether both are of the same change."""
        return (self.of, self.digest) == (other.of, other.digest)

    @property
    def began(self) -> datetime:
        """When it was first approved: only before that no node had it."""
        return self.since if self.stages is None or self.stages.began is None else self.stages.began

    @property
    def complete(self) -> bool:
        """Whether it counts on all nodes."""
        return self.stages is None or self.stages.is_last


@frozen(kw_only=True)
class Withdrawal:
    """An approval with stages that was taken back: nodes that had it restore the limits of before."""

    of: Of
    digest: str
    """That of the approval."""
    before: str
    """Of specs and types: the digest of those of before, which are published again; else empty."""
    began: Moment
    """When the approval was first made: only what was changed since is restored."""
    since: Moment
    until: Moment
    by: str
    why: str

    def stands(self, now: datetime) -> bool:
        return now < self.until


@frozen(kw_only=True)
class RegionPause:
    """While it is active, no node of the region writes a limit."""

    since: Moment
    until: Moment | None
    """None: until the region's file no longer has the pause."""
    by: str
    why: str

    def stands(self, now: datetime) -> bool:
        return self.until is None or now < self.until

    @property
    def reason(self) -> Reason:
        until = None if self.until is None else self.until.isoformat(timespec="seconds")
        return because(Code.PAUSED, region=True, by=self.by, why=self.why, until=until)


@frozen(kw_only=True)
class RegionHold:
    """An operator's exception for one disk, wherever its guest runs; a hold of the node itself has precedence."""

    disk: str
    """The id of a volume, or ``Disk.key``: the guest's uuid, and the volume or the image (``pool/image``)."""
    limits: Limits | None
    """None keeps the disk's current limits."""
    since: Moment
    until: Moment
    by: str
    why: str

    def stands(self, now: datetime) -> bool:
        return now < self.until

    def means(self, disk: Disk) -> bool:
        return self.disk in (disk.key, disk.volume_id)

    def on(self, disk: Disk) -> Hold:
        return Hold(
            disk=disk.named,
            limits=self.limits,
            since=self.since,
            until=self.until,
            by=self.by,
            why=self.why,
            region=True,
        )


@frozen(kw_only=True)
class Orders:
    approvals: tuple[RegionApproval, ...] = ()
    pause: RegionPause | None = None
    holds: tuple[RegionHold, ...] = ()
    staged: tuple[RegionApproval, ...] = ()
    """Those with stages. They approve nothing by themselves: see ``on_node``."""
    withdrawals: tuple[Withdrawal, ...] = ()
    position: float | None = field(default=None, compare=False)
    """That of the node on which they count (``on_node``); None for the whole region."""

    def standing(self, now: datetime) -> Orders:
        """Those that have not ended."""
        return Orders(
            approvals=tuple(approval for approval in self.approvals if approval.stands(now)),
            pause=self.pause if self.pause is not None and self.pause.stands(now) else None,
            holds=tuple(hold for hold in self.holds if hold.stands(now)),
            staged=tuple(approval for approval in self.staged if approval.stands(now)),
            withdrawals=tuple(each for each in self.withdrawals if each.stands(now)),
        )

    def on_node(self, position: float) -> Orders:
        """As they count on the node with this position: with the approvals whose stages have reached it."""
        here = tuple(one for one in self.staged if one.stages is not None and one.stages.reach(position))
        return replace(self, approvals=(*self.approvals, *here), position=position)

    def new_stages(self, before: Orders) -> tuple[RegionApproval, ...]:
        """The approvals with stages that count here now, and did not before."""
        return tuple(
            one
            for one in self.approvals
            if one.stages is not None and not any(one.is_of(each) for each in before.approvals)
        )

    @property
    def on_all(self) -> Orders:
        """As they count on every node."""
        return self.on_node(LAST)

    def withdrawn(self, of: Of, now: datetime) -> tuple[Withdrawal, ...]:
        """The withdrawals of what was not approved again since."""
        return tuple(
            each
            for each in self.withdrawals
            if each.of is of
            and each.stands(now)
            and not any(one.is_of(each) for one in (*self.approvals, *self.staged))
        )

    def approve(self, of: Of, digest: str, now: datetime, *, removing: str | None = None) -> bool:
        """Whether that is approved; ``removing`` is the id of a volume type whose volumes lose their limits."""
        return any(
            approval.of is of
            and approval.digest == digest
            and approval.stands(now)
            and (removing is None or removing in approval.remove)
            for approval in self.approvals
        )

    def bounds(self, now: datetime) -> tuple[int, int]:
        """The highest approved bounds, disks and percent; zeros without one."""
        approvals = [one for one in self.approvals if one.of is Of.BOUNDS and one.stands(now)]
        return max((one.disks for one in approvals), default=0), max((one.percent for one in approvals), default=0)

    def hold(self, disk: Disk, now: datetime) -> Hold | None:
        """The hold on that disk; one for the disk of this guest has precedence over one for the volume."""
        matches = [hold for hold in self.holds if hold.stands(now) and hold.means(disk)]
        return min(matches, key=lambda hold: hold.disk != disk.key).on(disk) if matches else None

    def paused(self, now: datetime) -> Reason | None:
        return self.pause.reason if self.pause is not None and self.pause.stands(now) else None
