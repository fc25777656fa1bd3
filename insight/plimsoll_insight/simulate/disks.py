"""The disks of a simulation: each with its throttle, and all that are alike with what they send."""

from __future__ import annotations

import random
from math import inf

from plimsoll_agent.model.limits import Limits
from plimsoll_insight.simulate.latency import percentile
from plimsoll_insight.simulate.results import Slice
from plimsoll_insight.simulate.scenario import Disks
from plimsoll_insight.simulate.throttle import NEVER, SECOND, Throttle


def nanoseconds(seconds: float) -> int:
    return NEVER if seconds == inf else round(seconds * SECOND)


class SimulatedDisk:
    """A disk of a guest, and what it has done so far."""

    __slots__ = (
        "alike",
        "ended",
        "gate",
        "idle",
        "latency",
        "member",
        "node",
        "number",
        "requests",
        "running",
        "unsent",
    )

    def __init__(self, number: int, alike: AlikeDisks, node: int) -> None:
        self.number, self.alike, self.node = number, alike, node
        self.gate: ThrottleGate | None = None
        self.member = 0
        self.running = True
        self.idle = 0
        """Of a closed loop: requests of its queue that ended while the node was lost; they go on when it returns."""
        self.requests = 0
        """Those that end before the end, also if they are still under way."""
        self.ended = 0
        """With a controller: those that ended, as of its last period."""
        self.latency = 0
        """Of these, as QEMU counts it, with the wait in its throttle: a sum in nanoseconds."""
        self.unsent = 0


Request = tuple[SimulatedDisk, int, int, bool]
"""The disk, when it came, its size, and whether it writes."""


class ThrottleGate:
    """A throttle, and when the heap has its next ``_WAKE``."""

    __slots__ = ("due", "throttle")

    def __init__(self, limits: Limits, disks: int) -> None:
        self.throttle: Throttle[Request] = Throttle(limits, disks)
        self.due = NEVER


class AlikeDisks:
    """Disks that are alike, what they send, and what was seen of them."""

    def __init__(self, disks: Disks, seed: str) -> None:
        self.kind = disks
        self.random = random.Random(seed).random  # noqa: S311  # a model, the same each time
        self.interval = SECOND / disks.iops if disks.iops else 0.0
        self.is_regular = disks.arrivals == "regular"
        self.begins = nanoseconds(disks.begins)
        self.ends = nanoseconds(disks.ends)
        self.members: list[SimulatedDisk] = []
        self.latencies: dict[int, int] = {}
        self.services: dict[int, int] = {}
        self.open: dict[int, dict[int, int]] = {}
        """By the number of the period."""
        self.slices: list[Slice] = []
        self.arrivals = 0
        self.sum = 0
        """Of latencies."""
        self.before: list[tuple[int, int]] = []
        """Requests and unsent ones of each disk at the end of the warm-up."""

    def close(self, number: int, begin: float, end: float) -> None:
        cells = self.open.pop(number, {})
        limits = [_requests_limit(disk) for disk in self.members]
        self.slices.append(
            Slice(
                end=end,
                iops=sum(cells.values()) / (end - begin),
                p50=percentile(cells, 0.5),
                p95=percentile(cells, 0.95),
                p99=percentile(cells, 0.99),
                limit=None if inf in limits else sum(limits) / len(limits),
            )
        )


def _requests_limit(disk: SimulatedDisk) -> float:
    if disk.gate is None:
        return inf
    limits = disk.gate.throttle.limits
    return float(limits.total_iops_sec or limits.read_iops_sec + limits.write_iops_sec or inf)
