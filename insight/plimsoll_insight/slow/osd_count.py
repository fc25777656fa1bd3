"""How many slow requests one OSD has, and what monitors reported of all of them."""

from __future__ import annotations

from dataclasses import dataclass, field

from plimsoll_agent.util.frozen import replace
from plimsoll_insight.slow.events import MonitorReport


@dataclass(slots=True)
class OsdCount:
    """Of one OSD. ``primary`` are its own slow requests, ``replica`` those of others that wait for it."""

    primary: int = 0
    replica: int = 0
    locks: int = 0
    """Its own that wait for a lock: a hot object, rather than a slow disk. Only where the line tells it."""
    waits: int = 0
    """Its own that wait for other OSDs that no line names, or for the network: it is not to blame."""
    unknown: int = 0
    """Its own of which no line tells what they wait for."""
    failed: int = 0
    boot: int = 0
    wrongly_down: int = 0
    worst_age: float = 0.0
    told: int = 0
    """Its own of which the line would tell a wait for a lock."""
    started: int = 0
    """Of ``primary``, those that sums call started: its own where their pool is replicated, which no sum tells."""
    reported: int = 0
    """By the sums of its own log, which do not tell the state: ``unknown`` where no other line has its requests."""
    reported_least: int = 0
    """Of these, those that are not the same for certain."""
    at_once: int = 0
    """Its own at one moment, at least: lines of some of them, or of a monitor, say how many there were."""
    twice: int = 0
    """Of these counted, some may be counted twice: lines are missing, and none tells whether they are the same."""
    again: int = 0
    """Not counted: as many as before lines that are missing, which may be others."""
    stalls: int = 0
    """Slow operations of its BlueStore that lines tell."""
    is_named: bool = False
    """A monitor names it: it has one at least."""

    @property
    def known_locks(self) -> int | None:
        """None where it has requests, and no line of them would tell."""
        own = self.primary + self.locks + self.waits + self.unknown
        return self.locks if self.told or not own else None

    @property
    def total(self) -> int:
        return self.primary + self.replica + self.locks + self.waits + self.unknown

    @property
    def least(self) -> int:
        return max(self.total - self.twice, self.at_once, int(self.is_named))

    @property
    def most(self) -> int | None:
        """None where there may be any number more."""
        return self.total + self.again if self.total >= self.least else None

    @property
    def blamed(self) -> int:
        """Requests that this OSD itself may be the cause of."""
        return self.primary + self.replica


@dataclass(slots=True)
class MonitorSums:
    """What monitors reported of all OSDs: at least ``number`` requests at once, the oldest for ``oldest`` seconds."""

    number: int = 0
    oldest: float = 0.0
    osds: set[int] = field(default_factory=set)
    others: bool = False
    """Daemons that are no OSDs, or that no line names, may have some too."""
    begin: float | None = None
    end: float | None = None
    """Of the last line that tells of some."""
    cleared: float | None = None
    stalls: bool = False
    """BlueStore of OSDs that no line names was slow."""

    def add(self, report: MonitorReport) -> None:
        self.number = max(self.number, report.number, len(report.osds))
        self.oldest = max(self.oldest, report.oldest, report.age)
        self.osds.update(report.osds)
        self.others |= report.others
        self.begin = report.time if self.begin is None else min(self.begin, report.time)
        if self.end is None or report.time >= self.end:
            self.end = report.time
            if self.cleared is not None and report.time > self.cleared:
                self.cleared = None

    def merge(self, other: MonitorSums) -> None:
        self.stalls |= other.stalls
        if other.begin is None or other.end is None:
            return
        report = MonitorReport(
            time=other.end,
            osds=tuple(other.osds),
            age=0.0,
            number=other.number,
            oldest=other.oldest,
            others=other.others,
        )
        self.add(replace(report, time=other.begin))
        self.add(report)
        if other.cleared is not None:
            self.clear(other.cleared)

    def clear(self, time: float) -> None:
        if self.end is None or time >= self.end:
            self.cleared = time if self.cleared is None else max(self.cleared, time)
