"""A guest and its disks as Prometheus has them, with all that was measured."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field

from plimsoll_agent.util.frozen import frozen
from plimsoll_insight.explain.evidence import Evidence, LimitChange
from plimsoll_monitoring.region.answers import NodeKey


@frozen
class StepSpan:
    """Times of the first and the last step (seconds since 1970), and the time between two steps."""

    seconds: int
    step: int

    @staticmethod
    def of(seconds: int) -> StepSpan:
        """Each minute up to three hours, every five minutes up to a week, and then 2016 steps."""
        step = 60 if seconds <= 3 * 3600 else max(300, math.ceil(seconds / 2016 / 60) * 60)
        return StepSpan(seconds, step)

    def times(self, now: float) -> list[float]:
        """Of all steps, back from the present second."""
        return [float(int(now) - back * self.step) for back in reversed(range(self.seconds // self.step))]


@frozen
class Stay:
    """A guest on a node, from the first to the last step that shows it there."""

    node: NodeKey
    since: float
    until: float


@frozen
class Stall:
    """Lines by which the guest's kernel reported stalled I/O before this time."""

    at: float
    kind: str
    lines: int


@frozen(kw_only=True)
class FoundGuest:
    """A server by its last metrics in the span."""

    uuid: str
    region: str
    name: str
    server: str
    project: str
    project_name: str


@frozen(kw_only=True)
class ExplainedDisk:
    """A disk with all that was measured."""

    guest_uuid: str
    disk: str
    volume: str
    volume_type: str
    pool: str
    cluster: str
    evidence: Evidence
    limits: Mapping[str, int] | None = field(hash=False)
    """Its last actual limits; None is unknown, nothing unlimited."""
    changes: tuple[LimitChange, ...] = ()
    reverted: tuple[float, ...] = ()
    """When external changes were reverted."""
    held: tuple[tuple[float, float], ...] = ()
    """Between these times it was held, by an operator."""
    replaced: bool = False
    """Whether another volume was at its target later."""
    qos_spec: str = ""
    """The name of its type's QoS spec; empty without one, or if it is unknown."""

    @property
    def name(self) -> str:
        """``vdb``, or ``vdb (6665c608)`` of a volume that was there before another one."""
        return f"{self.disk} ({self.volume[:8] or 'before'})" if self.replaced else self.disk
