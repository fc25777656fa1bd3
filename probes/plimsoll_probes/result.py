"""What a probe measured and under which circumstances: values that are judged, stored and shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from plimsoll_agent.limits import Limits
from plimsoll_agent.rules import Objective
from plimsoll_probes.finding import Finding, Why
from plimsoll_probes.histogram import Histogram
from plimsoll_probes.job import Direction, Job


@dataclass(frozen=True, slots=True)
class Flow:
    """One direction of a run as fio tells it: requests that were completed, and how long each took."""

    operations: int
    bytes: int
    latency: Histogram
    """Completion latency, in nanoseconds."""
    latency_max: int
    """The exact maximum in nanoseconds: the histogram ends at 17.18 s."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A run as fio tells it, over ``seconds`` of wall time."""

    seconds: float
    read: Flow | None
    write: Flow | None
    unfinished: int
    """Requests that were begun and had not ended when the run did."""
    fio: str
    """fio's version."""
    engine: str
    cpu_busy: float | None
    """Which part of all the guest's CPU time was used while it ran, by whatever: 0 to 1."""

    @property
    def flows(self) -> Iterator[tuple[Direction, Flow]]:
        if self.read is not None:
            yield "read", self.read
        if self.write is not None:
            yield "write", self.write

    @property
    def operations(self) -> int:
        return sum(flow.operations for _, flow in self.flows)

    @property
    def bytes(self) -> int:
        return sum(flow.bytes for _, flow in self.flows)

    @property
    def iops(self) -> float:
        """Mean over the run."""
        return self.operations / self.seconds

    @property
    def latency(self) -> Histogram:
        """Of both directions."""
        return Histogram.merged(flow.latency for _, flow in self.flows)

    @property
    def latency_max(self) -> int:
        """In nanoseconds."""
        return max((flow.latency_max for _, flow in self.flows), default=0)


@dataclass(frozen=True, slots=True)
class Counted:
    """What QEMU counted on the disk meanwhile, the guest's other requests among them."""

    seconds: float
    read_operations: int
    write_operations: int
    read_bytes: int
    write_bytes: int
    last_rate: float | None = None
    """Operations a second in the last part of the run; None where that was not counted."""

    @property
    def operations(self) -> int:
        return self.read_operations + self.write_operations

    @property
    def bytes(self) -> int:
        return self.read_bytes + self.write_bytes


@dataclass(frozen=True, slots=True)
class Subject:
    """The guest and the disk in it that were probed. Without a disk it is not known, or there is no libvirt."""

    guest_uuid: str
    """Or, of a machine that probed itself, its machine id."""
    guest_name: str
    directory: str
    display_name: str | None = None
    project: str | None = None
    disk: str | None = None
    """``Disk.key``."""
    target: str | None = None
    pool: str | None = None
    image: str | None = None
    volume_id: str | None = None
    volume_type: str | None = None
    cluster: str | None = None
    """Ceph's fsid."""


@dataclass(frozen=True, slots=True)
class Health:
    """What the disk's cluster said of itself: the health checks that were raised; None when it did not say."""

    raised: tuple[str, ...] | None
    detail: str = ""
    """The cluster's own words on them (``1 osds down``), or why it did not say."""
    blocking: tuple[str, ...] = field(default=(), compare=False)
    """Those that no probe begins under, when the cluster was asked; they are not stored."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What was in force while a run lasted, and what else may have bent its result."""

    promised: Limits | None = None
    """What plimsoll put in force on the disk, or else what libvirt believes to be: None is not known."""
    before: Limits | None = None
    """In force by QEMU's own word when the run began; None is not known."""
    after: Limits | None = None
    """The same when it had ended."""
    health_before: Health | None = None
    health_after: Health | None = None
    frozen: bool = False
    """The guest's file systems were frozen meanwhile."""
    moved: bool = False
    """The guest was migrated meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResult:
    """One job in one guest, from beginning to end."""

    node: str
    subject: Subject
    job: Job
    started: datetime
    ended: datetime
    finding: Finding
    measured: Measured | None = None
    counted: Counted | None = None
    circumstances: Circumstances = Circumstances()
    objective: Objective | None = None
    """Which latencies it was to keep to."""
    rule: str | None = None
    """The rule that chose the guest."""
    session: str = ""
    """The same for the jobs that ran one after another on one file."""
    id: int | None = None
    """Its number in the history."""


@dataclass(frozen=True, slots=True)
class Postponed:
    """A probe that was due and was not begun, and why."""

    at: datetime
    node: str
    guest_uuid: str
    guest_name: str
    directory: str
    why: Why
    facts: Mapping[str, object]
