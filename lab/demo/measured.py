"""What the demo measures: fio's runs in the guest, and the requests of a disk as libvirt counts them on the host."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime

from lab.cloud import Guest
from lab.cloud.libvirtd import bindings


@dataclass
class Phase:
    """A stretch of the demo with one run of fio in it; ``verdict`` where it was a probe's."""

    name: str
    began: float
    iops: float
    seconds: float
    limit: int | None
    """IOPS, in QEMU; None where there was none."""
    verdict: str | None = None


@dataclass
class Sampler:
    """Completed requests of one disk over time, as libvirt counts them on the host, and the limit in QEMU."""

    guest: Guest
    target: str
    every: float = 0.5
    """Seconds between two counts."""
    started: float = field(default_factory=time.monotonic)
    times: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    limits: list[float] = field(default_factory=list)
    """NaN while there is none."""
    counts: list[tuple[float, int]] = field(default_factory=list)
    """Completed requests at a time."""
    began: datetime = field(default_factory=lambda: datetime.now(UTC))

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def now(self) -> float:
        return time.monotonic() - self.started

    def requests(self, seconds: float) -> int:
        """Those that were completed in the first so many seconds in which the guest ran."""
        first, *more = self.counts
        return next((count for at, count in reversed([first, *more]) if at <= first[0] + seconds), first[1])

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(10)

    def _run(self) -> None:
        domain = self.guest.domain()
        before, at = None, 0.0
        while not self._stop.wait(self.every):
            try:
                reads, _, writes, _, _ = domain.blockStats(self.target)
                limit = domain.blockIoTune(self.target)["total_iops_sec"]
            except bindings().libvirtError:  # the guest does not run
                before = None
                continue
            now = self.now()
            self.counts.append((now, reads + writes))
            if before is not None:
                self.times.append(now)
                self.rates.append((reads + writes - before) / (now - at))
                self.limits.append(limit or math.nan)
            before, at = reads + writes, now
