"""What became of each disk in a pass, and the report of the pass: values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from plimsoll_agent.changes import Change
from plimsoll_agent.decide import Decision, Situation
from plimsoll_agent.disk import Disk
from plimsoll_agent.hypervisor import GuestRef
from plimsoll_agent.reason import Code, Reason
from plimsoll_agent.usage import Reading

_CONTRADICTIONS = (Code.TYPE_NOT_LISTED, Code.SPEC_HIDDEN, Code.SPEC_NOT_LISTED, Code.QOS_SPEC_UNREADABLE)


class Kind(StrEnum):
    """How a disk came out of a pass."""

    RIGHT = "right"
    PLANNED = "planned"
    CHANGED = "changed"
    WAITS = "waits"
    """A change is wanted, and is not made now: it is paused, braked, or the cluster is not well."""
    LEFT_ALONE = "left-alone"
    NOT_KNOWN = "not-known"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Result:
    """How a disk came out, why, and how long its call took (seconds, 0 where none was made)."""

    kind: Kind
    reason: Reason
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """One disk in one pass: what was decided, what was to be changed, and what became of it."""

    disk: Disk
    decision: Decision
    change: Change | None
    result: Result


@dataclass(frozen=True, slots=True)
class Overlooked:
    """A guest whose disks could not even be listed."""

    guest: GuestRef
    reason: Reason


@dataclass(frozen=True, slots=True)
class Scope:
    """Which guests a pass is about: all, or some by name or uuid."""

    guests: frozenset[str] = frozenset()

    @property
    def everything(self) -> bool:
        return not self.guests

    def __contains__(self, guest: GuestRef) -> bool:
        return self.everything or guest.name in self.guests or guest.uuid in self.guests


@dataclass(frozen=True, slots=True)
class Edit:
    """An edit behind deferred changes, as the disks tell: ``gold-iops total_iops_sec 3000 → 30``."""

    source: str
    """The QoS spec, rule or flavor by its name, or the default."""
    parameter: str
    before: object
    after: object
    """A number, 0 for unlimited; or the name of a group."""
    disks: int


@dataclass(frozen=True, slots=True)
class Braked:
    """What the brake stopped: the keys of the disks, out of how many, and by which state of the rules."""

    edition: str
    """The revision, as a whole digest."""
    catalogue: str | None
    """The edition of the catalogue among it."""
    keys: frozenset[str]
    of: int
    released: int
    loosened: int
    cut: int
    many: bool = True
    """They are too many; else each is deferred for itself."""
    alone: Mapping[str, Reason] = field(default_factory=dict, hash=False)
    """By ``Disk.key`` why each disk is deferred that is, whatever the number of others."""
    edits: tuple[Edit, ...] = ()


@dataclass(frozen=True, slots=True)
class PassReport:
    """The central record of a pass: lists, metrics, checks and words are views of it."""

    scope: Scope
    situation: Situation
    """What was decided on, as the pass found it."""
    seconds: float
    outcomes: tuple[Outcome, ...]
    overlooked: tuple[Overlooked, ...]
    notes: tuple[Reason, ...] = ()
    braked: Braked | None = None
    paused: Reason | None = None
    guests: int = 0
    """How many there were to look at."""
    phases: Mapping[str, float] = field(default_factory=dict)
    """Seconds that each part took, by its name."""
    readings: Mapping[str, Reading] = field(default_factory=dict)
    """The counters of the disks by ``Disk.key``, where they were asked for and told."""

    @property
    def started(self) -> datetime:
        return self.situation.now

    def count(self, *kinds: Kind) -> int:
        return sum(outcome.result.kind in kinds for outcome in self.outcomes)

    @property
    def doubts(self) -> int:
        """Disks that are left alone because the catalogue contradicts itself, or what it said of them before."""
        memory = self.situation.memory
        codes = [(outcome.disk.key, outcome.result.reason.code) for outcome in self.outcomes]
        return sum(code in _CONTRADICTIONS or (code is Code.VOLUME_MISSING and key in memory) for key, code in codes)

    @property
    def failures(self) -> int:
        """Disks and guests that something went wrong with; a guest that is gone is not one."""
        gone = sum(guest.reason.code is Code.VANISHED for guest in self.overlooked)
        return self.count(Kind.FAILED, Kind.NOT_KNOWN) + len(self.overlooked) - gone
