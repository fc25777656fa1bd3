"""Whole processes, timed from outside: seconds of wall and CPU time, and peak memory."""

from __future__ import annotations

import json
import shlex
import statistics
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

WIDEST = 300
"""Characters of a command in a message."""


@dataclass(frozen=True)
class Cost:
    """One run; ``cpu`` and ``memory`` (KiB, the largest process) include its children."""

    started: float
    """By ``time.monotonic``, which all processes of a machine read alike."""
    wall: float
    cpu: float
    memory: int


def once(argv: Sequence[str], environment: Mapping[str, str], statuses: Sequence[int] = (0,)) -> Cost:
    """Run a command to its end. Raises ``RuntimeError`` with its words for another status."""
    with tempfile.NamedTemporaryFile() as told:
        launch = [sys.executable, "-I", "-S", str(Path(__file__).with_name("launch.py")), told.name]
        ended = subprocess.run([*launch, *argv], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment)
        answer = json.loads(told.read() or b"{}")
    if answer.get("status") not in statuses:
        complaint = ended.stderr.decode(errors="replace")
        raise RuntimeError(f"{shown(argv)} ended with {answer.get('status')}: {complaint}")
    return Cost(**answer["cost"])


def shown(argv: Sequence[str]) -> str:
    """The command for a message: some are given hundreds of files."""
    return textwrap.shorten(shlex.join(argv), WIDEST, placeholder=" …")


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
