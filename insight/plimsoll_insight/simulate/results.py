"""What a simulation gives: of disks that are alike, over all the time and in each period."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from plimsoll_agent.util.frozen import frozen
from plimsoll_insight.simulate.latency import percentile
from plimsoll_insight.simulate.scenario import Disks


@frozen(kw_only=True)
class Slice:
    """Disks that are alike in one period; ``end`` and latencies in seconds, None where no request ended."""

    end: float
    iops: float
    p50: float | None
    p95: float | None
    p99: float | None
    limit: float | None
    """Requests a second of one disk, the mean of all; None where they are unlimited."""


@frozen(kw_only=True)
class SimulatedOutcome:
    """Of disks that are alike; latencies and waits in seconds, None where no request ended."""

    disks: Disks
    sent: int
    """Requests that guests made after the warm-up, with those that are under way at the end."""
    unsent: int
    requests: Sequence[int]
    """Of each disk, those that ended after the warm-up and before the end."""
    mean: float | None
    """Latency."""
    latencies: Mapping[int, int]
    services: Mapping[int, int]
    """The same without the wait in the throttle."""
    slices: Sequence[Slice]

    def percentile(self, fraction: float) -> float | None:
        return percentile(self.latencies, fraction)

    @property
    def unfinished(self) -> int:
        """Requests that were still under way at the end."""
        return max(0, self.sent - self.unsent - sum(self.latencies.values()))


@frozen(kw_only=True)
class SimulationResult:
    outcomes: Sequence[SimulatedOutcome]
    events: int
    """What happened in the model: arrivals, departures from throttles, services of OSDs, ends."""
    requests: int
    recovered: int
    """Objects."""
    stale: int
    """Objects that still are at the end."""


def jain(values: Sequence[float]) -> float | None:
    """(Σx)² / (n · Σx²): 1 where all get the same, 1/n where one gets all; None where none gets anything.

    R. Jain, D. Chiu, W. Hawe, DEC-TR-301, 1984.
    """
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else None
