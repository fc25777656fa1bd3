"""Whether guests stall, while a drill is recorded. Pure: time is an argument.

A disk counts that completed requests in 90 % of its last readings; it has stalled since the last reading in which it
completed one, also where it cannot be read since. While all is well in the cluster, a disk without requests is idle.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field

from plimsoll_insight.drill.phases import UNSEEN
from plimsoll_insight.drill.status import Status

READINGS, LEAST = 30, 5
"""Of a disk that are looked at, and from how many on it may count as busy."""
BUSY = 0.9


@dataclass
class _Disk:
    served: deque[bool] = field(default_factory=lambda: deque(maxlen=READINGS))
    """Its readings until the last with a completed request, which was at ``since``."""
    since: float = 0.0
    without: int = 0
    """Readings after that."""

    @property
    def is_busy(self) -> bool:
        return len(self.served) >= LEAST and sum(self.served) >= BUSY * len(self.served)


class Stalls:
    """``bound`` in seconds. From any thread."""

    def __init__(self, bound: float) -> None:
        self._bound = bound
        self._disks: dict[int, _Disk] = {}
        self._well = True
        self._lock = threading.Lock()
        self.any_busy = False
        """Whether there ever was a disk that could have stalled."""

    def saw(self, number: int, at: float, *, served: bool) -> None:
        """A reading of a disk, and whether it completed requests since the one before."""
        with self._lock:
            disk = self._disks.setdefault(number, _Disk(since=at))
            if not served:
                disk.without += 1
                return
            if self._well or not disk.is_busy:  # else it had stalled, which makes it no less busy
                disk.served.extend([False] * min(disk.without, READINGS))
            disk.served.append(True)
            disk.since, disk.without = at, 0
            self.any_busy = self.any_busy or disk.is_busy

    def only(self, numbers: set[int]) -> None:
        """The others are gone: their guest was shut down, or has migrated."""
        with self._lock:
            self._disks = {number: disk for number, disk in self._disks.items() if number in numbers}

    def beyond(self, now: float, cluster: Status | None) -> dict[int, float]:
        """Disks that have stalled for longer than the bound, with how long in seconds.

        An unknown cluster is not taken for well; one that is well may not yet know of an OSD that failed.
        """
        with self._lock:
            self._well = cluster is not None and cluster.is_well
            found: dict[int, float] = {}
            for number, disk in self._disks.items():
                if disk.is_busy and (length := now - disk.since) > self._bound:
                    if not self._well:
                        found[number] = length
                    elif length > self._bound + UNSEEN:
                        disk.served.clear()  # idle
            return found
