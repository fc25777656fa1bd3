"""Whole processes, timed from outside: seconds of wall and CPU time, and peak memory."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Cost:
    """One run; ``cpu`` and ``memory`` (KiB, the largest process) include its children."""

    wall: float
    cpu: float
    memory: int


def once(argv: Sequence[str], accepted: Sequence[int] = (0,)) -> Cost:
    """Run a command to its end. Raises ``RuntimeError`` with its words for another status than those accepted."""
    started = time.monotonic()
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    complaint = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stderr.close()
    if process.returncode not in accepted:
        raise RuntimeError(f"{argv[0]} ended with {process.returncode}: {complaint.decode(errors='replace')}")
    return Cost(time.monotonic() - started, usage.ru_utime + usage.ru_stime, usage.ru_maxrss)


def median(costs: Sequence[Cost]) -> Cost:
    return Cost(
        statistics.median(cost.wall for cost in costs),
        statistics.median(cost.cpu for cost in costs),
        int(statistics.median(cost.memory for cost in costs)),
    )
