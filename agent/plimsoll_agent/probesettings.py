"""How guests are probed, as the settings say it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProbeSettings:
    """Times are in seconds, sizes in bytes; ``tolerance`` is a part of one."""

    directory: str
    seconds: int
    file_size: int
    block_size: int
    io_depth: int
    processes: int
    read_percent: int
    engine: str
    keep_free: int
    grace: int
    tolerance: float
    at_once: int
    one_per_pool: bool
    late: int
    keep_days: int
    keep_mib: int
    coordination: str
    slots: int
