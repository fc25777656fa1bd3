"""A job of a probe: which requests, how many at once, for how long."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from plimsoll_agent.util.decoding import Count
from plimsoll_agent.util.frozen import frozen

Direction = Literal["read", "write"]


class JobName(StrEnum):
    READ = "read"
    WRITE = "write"
    MIXED = "mixed"


@frozen(kw_only=True)
class Job:
    """Random requests on one file, without the page cache.

    ``file_size`` and ``block_size`` are in bytes; each of ``processes`` has ``io_depth`` requests in flight.
    ``read_percent`` is for the mixed job.
    """

    name: JobName
    seconds: Count = 30
    file_size: Count = 2**30
    block_size: Count = 16384
    io_depth: Count = 2
    processes: Count = 4
    read_percent: Count = 50

    @property
    def in_flight(self) -> int:
        """Requests in flight at any time."""
        return self.io_depth * self.processes

    @property
    def shares(self) -> dict[Direction, float]:
        """The share of each direction in the requests; a direction without any is left out."""
        reads = {JobName.READ: 1.0, JobName.WRITE: 0.0, JobName.MIXED: self.read_percent / 100}[self.name]
        parts: dict[Direction, float] = {"read": reads, "write": 1 - reads}
        return {direction: share for direction, share in parts.items() if share > 0}
