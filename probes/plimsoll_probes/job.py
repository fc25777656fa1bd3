"""What a probe does inside a guest: which requests, how many at once, for how long."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

Direction = Literal["read", "write"]


class JobName(StrEnum):
    """The three jobs that plimsoll has."""

    READ = "read"
    WRITE = "write"
    MIXED = "mixed"


@dataclass(frozen=True, slots=True)
class Job:
    """Random requests on a file of its own, past the page cache.

    ``seconds`` is how long, ``file_size`` and ``block_size`` are in bytes, ``io_depth`` counts requests of each of
    ``processes``. ``engine`` is one of fio's, or ``auto``. ``read_percent`` is for the mixed job.
    """

    name: JobName
    seconds: int = 30
    file_size: int = 2**30
    block_size: int = 16384
    io_depth: int = 2
    processes: int = 4
    read_percent: int = 50
    engine: str = "auto"

    @property
    def in_flight(self) -> int:
        """Requests that are under way at any time."""
        return self.io_depth * self.processes

    @property
    def shares(self) -> dict[Direction, float]:
        """Which part of the requests is of each direction; a direction without any is left out."""
        reads = {JobName.READ: 1.0, JobName.WRITE: 0.0, JobName.MIXED: self.read_percent / 100}[self.name]
        parts: dict[Direction, float] = {"read": reads, "write": 1 - reads}
        return {direction: share for direction, share in parts.items() if share > 0}
