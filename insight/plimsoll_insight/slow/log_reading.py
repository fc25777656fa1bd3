"""What was read of logs: the counts, and what is unknown."""

from __future__ import annotations

from dataclasses import dataclass, field

from plimsoll_agent.util.text import printable
from plimsoll_insight.slow.counts import MINUTE, Counts
from plimsoll_insight.slow.events import LogClock, OfOthers

_SHOWN = 5
_MOST_MONITORS = 100


@dataclass
class LogReading:
    """What was read: of the cluster's logs, of OSDs' own, and of what OSDs remember."""

    cluster: Counts
    own: Counts
    dumped: Counts
    clock: LogClock
    since: float | None = None
    until: float | None = None
    """Seconds since the epoch; lines before and after do not count."""
    bytes: int = 0
    missed: int = 0
    """Lines about slow requests that are not understood,"""
    examples: list[str] = field(default_factory=list)
    """and the first few of them."""
    foreign: list[str] = field(default_factory=list)
    """Files in which nothing looks like a line of Ceph's logs,"""
    empty: list[str] = field(default_factory=list)
    """those without a byte,"""
    silent: list[str] = field(default_factory=list)
    """and logs of Ceph that never have slow requests: of audits, of other daemons."""
    outside: list[str] = field(default_factory=list)
    """Files without a line of the time that is asked for."""
    unattributed: list[str] = field(default_factory=list)
    """Files that do not tell whose they are."""
    monitors: set[str] = field(default_factory=set)
    """Those that have slow requests of their own."""
    has_of_mds: bool = False
    """Whether metadata servers have some."""
    full: set[int] = field(default_factory=set)
    """OSDs that may have had more than they remember."""
    telling: int = 0
    """Files in which slow requests would be."""

    @classmethod
    def nothing(cls, clock: LogClock | None = None, width: float = MINUTE) -> LogReading:
        """``width``: of an interval, in seconds."""
        return cls(Counts(width), Counts(width), Counts(width), clock or LogClock())

    @property
    def is_all_asked(self) -> bool:
        return self.since is None and self.until is None

    def counts(self, *, is_own: bool) -> Counts:
        return self.own if is_own else self.cluster

    def miss(self, line: str) -> None:
        """It speaks of slow requests, and is not understood."""
        self.missed += 1
        if len(self.examples) < _SHOWN:
            self.examples.append(printable(line[:200]))

    def note(self, others: OfOthers) -> None:
        """What does not count."""
        if self.is_asked(others.time):
            self.has_of_mds |= not others.monitors
            self.monitors.update(others.monitors[: _MOST_MONITORS - len(self.monitors)])

    def is_asked(self, time: float) -> bool:
        return (self.since is None or time >= self.since) and (self.until is None or time <= self.until)
