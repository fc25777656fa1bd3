"""What a probe measured, and under which circumstances."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from datetime import datetime
from sys import float_info
from typing import Annotated

from msgspec import Meta

from plimsoll_agent.model.limits import Limits
from plimsoll_agent.rules.model import Objective
from plimsoll_agent.util.decoding import Amount, Count
from plimsoll_agent.util.frozen import frozen
from plimsoll_probes.model.finding import Finding, Why
from plimsoll_probes.model.histogram import Histogram
from plimsoll_probes.model.job import Direction, Job


@frozen(kw_only=True)
class Flow:
    """One direction of a run as fio measured it: the completed requests and their latencies."""

    operations: Count
    bytes: Count
    latency: Histogram
    """Completion latency, in nanoseconds."""
    latency_max: Count
    """The exact maximum in nanoseconds, also beyond the histogram's last bucket."""


@frozen(kw_only=True)
class Measured:
    """A run as fio measured it, over ``seconds`` of wall time."""

    seconds: Annotated[float, Meta(gt=0, le=float_info.max)]
    read: Flow | None
    write: Flow | None
    unfinished: Count
    """Requests that began and had not ended at the end of the run."""
    fio: str
    """fio's version."""
    engine: str
    cpu_busy: Amount | None
    """The share of the guest's CPU time that was used during the run, by fio or others: 0 to 1."""

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


@frozen(kw_only=True)
class QemuCounts:
    """What QEMU counted on the disk during the run, including other requests of the guest."""

    seconds: Amount
    read_operations: Count
    write_operations: Count
    read_bytes: Count
    write_bytes: Count
    last_rate: Amount | None = None
    """Operations a second in the last part of the run; None where unknown."""

    @property
    def operations(self) -> int:
        return self.read_operations + self.write_operations

    @property
    def bytes(self) -> int:
        return self.read_bytes + self.write_bytes


@frozen(kw_only=True)
class Subject:
    """The guest and its disk that were probed. The disk may be unknown; a machine that probes itself has none."""

    guest_uuid: str
    """The machine id where a machine probed itself."""
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


@frozen
class Health:
    """The health of the disk's cluster: the checks that were raised; None where it is unknown."""

    raised: tuple[str, ...] | None
    detail: str = ""
    """Ceph's text on the checks (``1 osds down``), or why the health is unknown."""
    blocking: tuple[str, ...] = field(default=(), compare=False)
    """Those of the checks that prevent a probe; they are not stored."""


@frozen(kw_only=True)
class Circumstances:
    """The limits during a run, and what may have disturbed it."""

    promised: Limits | None = None
    """The limits that plimsoll set on the disk, or else libvirt's; None where unknown."""
    before: Limits | None = None
    """The limits that QEMU reported when the run began; None where unknown."""
    after: Limits | None = None
    """The limits that QEMU reported after the run."""
    health_before: Health | None = None
    health_after: Health | None = None
    frozen: bool = False
    """The guest's file systems were frozen during the run."""
    moved: bool = False
    """The guest was migrated during the run."""
    reduced: bool = False
    """plimsoll had reduced the limits, under congestion or by a ceiling: those ``before``, not the promised ones."""


@frozen(kw_only=True)
class ProbeResult:
    """One job in one guest, from beginning to end."""

    node: str
    subject: Subject
    job: Job
    started: datetime
    ended: datetime
    finding: Finding
    measured: Measured | None = None
    counted: QemuCounts | None = None
    circumstances: Circumstances = Circumstances()
    objective: Objective | None = None
    """The latencies that its requests should keep."""
    rule: str | None = None
    """The rule that chose the guest."""
    session: str = ""
    """The same for all jobs that ran on one file."""
    id: int | None = None
    """Its number in the history."""


@frozen(kw_only=True)
class Postponed:
    """A probe that was due and did not begin, and why."""

    at: datetime
    node: str
    guest_uuid: str
    guest_name: str
    directory: str
    why: Why
    facts: Mapping[str, object]
