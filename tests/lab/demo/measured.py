"""What the demo measures: fio's runs in the guest, and the requests of a disk as libvirt counts them on the host."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime

from tests.lab.cloud import Guest


@dataclass
class Phase:
    """A stretch of the demo with one run of fio in it; ``verdict`` where it was a probe's."""

    name: str
    began: float
    iops: float
    seconds: float
    verdict: str | None = None


@dataclass
class Sampler:
    """Completed requests of one disk over time, as libvirt counts them on the host, and the limit in QEMU."""

    guest: Guest
    target: str
    started: float = field(default_factory=time.monotonic)
    times: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    limits: list[float] = field(default_factory=list)
    """NaN while there is none."""
    began: datetime = field(default_factory=lambda: datetime.now(UTC))

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def now(self) -> float:
        return time.monotonic() - self.started

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(10)

    def _run(self) -> None:
        domain = self.guest.domain()
        before, at = None, 0.0
        while not self._stop.wait(0.5):
            reads, _, writes, _, _ = domain.blockStats(self.target)
            now = self.now()
            if before is not None:
                self.times.append(now)
                self.rates.append((reads + writes - before) / (now - at))
                self.limits.append(domain.blockIoTune(self.target)["total_iops_sec"] or math.nan)
            before, at = reads + writes, now
