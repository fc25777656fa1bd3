"""Whole processes, timed from outside: seconds of wall and CPU time, and peak memory."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Cost:
    """One run; ``cpu`` and ``memory`` (KiB, the largest process) include its children."""

    started: float
    """By ``time.monotonic``, which all processes of a machine read alike."""
    wall: float
    cpu: float
    memory: int


def once(argv: Sequence[str], environment: Mapping[str, str]) -> Cost:
    """Run a command to its end. Raises ``RuntimeError`` with its words for a status other than 0."""
    started = time.monotonic()
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment)
    assert process.stderr is not None
    complaint = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.monotonic() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stderr.close()
    if process.returncode != 0:
        raise RuntimeError(f"{' '.join(argv)} ended with {process.returncode}: {complaint.decode(errors='replace')}")
    return Cost(started, wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss)


@dataclass(frozen=True)
class Spread:
    """The median of several runs, and the least and greatest of them."""

    middle: float
    least: float
    greatest: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        every = sorted(values)
        return cls(statistics.median(every), every[0], every[-1])


Span = tuple[float, float]
"""From when to when."""


def covered(spans: Iterable[Span]) -> float:
    """Seconds in which at least one of them was under way: what goes on side by side counts once."""
    seconds = 0.0
    end = float("-inf")
    for began, ended in sorted(spans):
        seconds += max(0.0, ended - max(began, end))
        end = max(end, ended)
    return seconds
