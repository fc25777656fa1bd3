"""Whether guests stall, while a drill is recorded. Pure: time is an argument.

A disk is busy while it completes requests in 90 % of its last readings. One that was busy in the minute before the
cluster was seen not to be well, or since, has stalled since the last reading in which it completed one, also where it
cannot be read. While all is well, a disk without requests is idle.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field
from math import inf

from plimsoll_insight.drill.phases import UNSEEN
from plimsoll_insight.drill.status import ClusterCounts

READINGS, LEAST = 30, 5
"""Of a disk that are looked at, and from how many on it may count as busy."""
BUSY = 0.9


@dataclass
class _Disk:
    served: deque[bool] = field(default_factory=lambda: deque(maxlen=READINGS))
    since: float = 0.0
    """The last reading with a completed request,"""
    busy: float = -inf
    """and the last one at which it was busy."""


class StallWatch:
    """``bound`` in seconds. From any thread."""

    def __init__(self, bound: float) -> None:
        self._bound = bound
        self._disks: dict[int, _Disk] = {}
        self._trouble: float | None = None
        """Since when the cluster is unhealthy."""
        self._lock = threading.Lock()
        self.any_busy = False
        """Whether there ever was a disk that could have stalled."""

    def saw(self, number: int, at: float, *, served: bool) -> None:
        """A reading of a disk, and whether it completed requests since the one before."""
        with self._lock:
            disk = self._disks.setdefault(number, _Disk(since=at))
            disk.served.append(served)
            if not served:
                return
            disk.since = at
            if len(disk.served) >= LEAST and sum(disk.served) >= BUSY * len(disk.served):
                disk.busy, self.any_busy = at, True

    def only(self, numbers: set[int]) -> None:
        """The others are gone: their guest was shut down, or has migrated."""
        with self._lock:
            self._disks = {number: disk for number, disk in self._disks.items() if number in numbers}

    def beyond(self, now: float, cluster: ClusterCounts | None) -> dict[int, float]:
        """Disks that have stalled for longer than the bound, with how long in seconds.

        An unknown cluster is not taken for well; one that is well may not yet know of an OSD that failed.
        """
        with self._lock:
            if cluster is not None and cluster.is_well:
                self._trouble = None
                return {}
            self._trouble = now if self._trouble is None else self._trouble
            return {
                number: now - disk.since for number, disk in self._disks.items()
                if now - disk.since > self._bound and disk.busy >= self._trouble - UNSEEN
            }  # fmt: skip
