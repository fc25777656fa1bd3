"""Settings of the probes, apart from the others: ``execute`` does not import oslo.config."""

from __future__ import annotations

from plimsoll_agent.util.frozen import frozen


@frozen(kw_only=True)
class ProbeSettings:
    """Times are in seconds, sizes in bytes; ``tolerance`` is a fraction (0.05 is 5 %)."""

    directory: str
    seconds: int
    file_size: int
    block_size: int
    io_depth: int
    processes: int
    read_percent: int
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
