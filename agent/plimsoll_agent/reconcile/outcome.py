"""The outcome of each disk in a pass, and the report of the pass: values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from enum import StrEnum

from plimsoll_agent.model.disk import Disk, DiskName
from plimsoll_agent.model.hypervisor import GuestRef
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, Reason, Unknown
from plimsoll_agent.model.usage import Reading
from plimsoll_agent.policy.decide import Decision, Situation
from plimsoll_agent.policy.diff import Change
from plimsoll_agent.util.frozen import frozen, replace


class Mode(StrEnum):
    """How far a pass goes."""

    PLAN = "plan"
    """Nothing is written anywhere."""
    OBSERVE = "observe"
    """Desired limits are remembered; no limit is written."""
    ENFORCE = "enforce"


class Kind(StrEnum):
    IN_SYNC = "in-sync"
    PLANNED = "planned"
    CHANGED = "changed"
    DEFERRED = "deferred"
    """A change is desired but not made now: the node is paused, the brake stops it, or the cluster is unhealthy."""
    LEFT_ALONE = "left-alone"
    UNKNOWN = "unknown"
    """The actual or the desired limits are unknown: nothing is written."""
    FAILED = "failed"


class Counted(StrEnum):
    """For what the brake counts a disk."""

    REMOVED = "removed"
    """It would have no limit any more."""
    LOWERED = "lowered"
    """A limit would be cut to less than half, though another may be raised."""
    LOW = "low"
    """A limit would be set or lowered to less than the lowest in the settings."""
    ADDED = "added"
    """It would get a first limit, or one more, that is less than it used, or it is unknown what it used."""
    RAISED = "raised"
    """It could do more than one and a half times as much, or leave its throttle group."""
    MANAGED = "managed"
    """A rule left it alone, and no rule does now."""
    UNMANAGED = "unmanaged"
    """A rule would leave it alone."""


ACKNOWLEDGED, NEW = "acknowledged", "new"
"""Of unknown disks, in sums: an operator knows of it; its limits are unknown only until the next catalogue."""


@frozen
class Result:
    """A disk's result, why, and how long its call took (seconds, 0 where none was made)."""

    kind: Kind
    reason: Reason
    seconds: float = 0.0


@frozen(kw_only=True)
class Outcome:
    """One disk in one pass: the decision, the change, and the result."""

    disk: Disk
    """As observed, before any write."""
    decision: Decision
    change: Change | None
    result: Result
    acknowledgement: Reason | None = None
    """An operator's, should the disk be unknown."""
    reduced_by: Reason | None = None
    """What reduces its limits; None if nothing does, or the pass neither reduces nor restores."""

    @property
    def after(self) -> Disk:
        """The disk after the pass."""
        if self.result.kind is Kind.CHANGED and self.change is not None:
            of, after = self.change.unreduced, self.change.after
            return replace(self.disk, actual=of, defined=of, reduced=None if after == of else after)
        if self.result.kind is Kind.UNKNOWN and not isinstance(self.decision.written, Unknown):
            return replace(self.disk, actual=Unknown(self.result.reason), reduced=None)
        return self.disk

    @property
    def missed(self) -> Limits | None:
        """The limits that were desired last for an unlimited disk of which the desired ones are unknown now."""
        last = self.decision.last_desired
        return last if last is not None and not last.unlimited and self.after.actual == Limits() else None

    @property
    def acknowledged(self) -> Reason | None:
        """The acknowledgement that it is unknown; none covers a guest that does not answer."""
        result = self.result
        return (
            self.acknowledgement if result.kind is Kind.UNKNOWN and result.reason.code is not Code.TIMED_OUT else None
        )

    @property
    def failed(self) -> bool:
        """Its change failed, or its actual limits could not be found out, and no operator knows of it."""
        kind = self.result.kind
        unknown = kind is Kind.UNKNOWN and isinstance(self.after.actual, Unknown)
        return kind is Kind.FAILED or (unknown and self.acknowledged is None)


@frozen
class UnreachableGuest:
    """A guest whose disks could not be listed."""

    guest: GuestRef
    reason: Reason


@frozen
class Scope:
    """The guests of a pass: all, or some by name or uuid."""

    guests: frozenset[str] = frozenset()

    @property
    def everything(self) -> bool:
        return not self.guests

    def __contains__(self, guest: GuestRef) -> bool:
        return self.everything or guest.name in self.guests or guest.uuid in self.guests


@frozen(kw_only=True)
class Edit:
    """An edit behind deferred changes, inferred from the disks: ``gold-iops total_iops_sec 3000 → 30``."""

    source: str
    """The QoS spec, rule or flavor by its name, or the default."""
    parameter: str
    before: object
    after: object
    """A number, 0 for unlimited; or the name of a group."""
    disks: int
    origin: str = ""
    """What ``source`` is, as the code of a reason."""


@frozen
class Earlier:
    """Disks with a large change of the last hour, which count too."""

    at: datetime
    disks: int
    source: str | None
    """The volume type or the rule by its name, or the code of another source; None if that is unknown now."""


@frozen(kw_only=True)
class Braked:
    """What the brake stopped: the keys of the disks, out of how many, and under which revision."""

    revision: str
    """The whole digest."""
    catalogue: str | None
    """The catalogue's part of the revision."""
    keys: frozenset[str]
    of: int
    removed: int
    raised: int
    lowered: int
    low: int = 0
    added: int = 0
    managed: int = 0
    unmanaged: int = 0
    many: bool = True
    """They are too many; else each is deferred for itself."""
    alone: Mapping[str, Reason] = field(default_factory=dict, hash=False)
    """By ``Disk.key`` why a disk is deferred whatever the number of others."""
    edits: tuple[Edit, ...] = ()
    earlier: tuple[Earlier, ...] = ()
    """Other disks that were counted, the first change first."""
    left: tuple[float, ...] = ()
    """What its cuts leave of the limits that were desired last: the different shares, the smallest first."""
    named: Mapping[str, DiskName] = field(default_factory=dict, hash=False, compare=False)
    """The disks' names by ``Disk.key``; the report does not have an outcome of each."""


@frozen(kw_only=True)
class PassReport:
    """All about a pass: lists, metrics, checks and messages are views of it."""

    mode: Mode
    scope: Scope
    situation: Situation
    """What the decisions are based on, as the pass found it."""
    seconds: float
    outcomes: tuple[Outcome, ...]
    unreachable: tuple[UnreachableGuest, ...]
    """Those whose disks could not be listed."""
    notes: tuple[Reason, ...] = ()
    braked: Braked | None = None
    paused: Reason | None = None
    guests: int = 0
    """How many guests were observed."""
    phases: Mapping[str, float] = field(default_factory=dict)
    """The seconds of each part, by its name."""
    readings: Mapping[str, Reading] = field(default_factory=dict)
    """The disks' counters by ``Disk.key``, where they were read."""
    other_disks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By uuid the targets of the disks that are not on RBD, of each guest that was read and does not migrate."""
    kernel_mapped: tuple[str, ...] = ()
    """As in ``Observation``."""
    large: int = 0
    """How many disks the brake counted, of all that it looked at, also where it stops none."""
    considered: int = 0
    """How many those are."""
    paused_guests: frozenset[str] = frozenset()
    """The uuids of those that a person has paused."""
    hung_guests: frozenset[str] = frozenset()
    """The uuids of those that were asked for limits or counters, and did not answer."""
    healthy: frozenset[str] = frozenset()
    """The clusters, by fsid, that were asked and let changes through; the others' changes have the reason."""
    complaint: str = ""
    """What is wrong with the rules, if the pass used the last good ones."""

    @property
    def started(self) -> datetime:
        return self.situation.now

    def count(self, *kinds: Kind) -> int:
        return sum(outcome.result.kind in kinds for outcome in self.outcomes)

    def is_new(self, outcome: Outcome) -> bool:
        """Whether its limits are unknown only until the next catalogue, as it was attached after this one."""
        return outcome.result.kind is Kind.UNKNOWN and self.situation.awaits_catalogue(
            outcome.disk, outcome.result.reason
        )

    def state(self, outcome: Outcome) -> str:
        """The kind of its result; ``ACKNOWLEDGED`` or ``NEW`` for unknown disks that ``unknown`` does not count."""
        if outcome.acknowledged is not None:
            return ACKNOWLEDGED
        return NEW if self.is_new(outcome) else outcome.result.kind.value

    @property
    def unknown(self) -> int:
        """Disks whose limits are unknown and should be known, and of which no operator knows."""
        return sum(self.state(each) == Kind.UNKNOWN for each in self.outcomes)

    @property
    def unreachable_guests(self) -> tuple[UnreachableGuest, ...]:
        """``unreachable``, and the guests that libvirt lists but whose QEMU does not answer."""
        hung = {
            outcome.disk.guest.uuid: UnreachableGuest(
                GuestRef(outcome.disk.guest.uuid, outcome.disk.guest.name), outcome.result.reason
            )
            for outcome in self.outcomes
            if outcome.result.kind is Kind.UNKNOWN and outcome.result.reason.code is Code.TIMED_OUT
        }
        return (*self.unreachable, *hung.values())

    @property
    def failures(self) -> int:
        """How many disks and guests failed; a guest that has stopped does not count."""
        departures = sum(guest.reason.code is Code.NOT_FOUND for guest in self.unreachable)
        return sum(outcome.failed for outcome in self.outcomes) + len(self.unreachable) - departures
