"""What ``plimsoll daemon`` costs over hours: ``script/bench churn``.

Paused guests with two disks; first nothing happens, then one stops or starts every few seconds. Memory, threads and
descriptors of the daemon are read from the kernel each minute, its CPU time at the ends of both parts. Beside it
stands what passes of the timer, a process each, take for the same guests.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import measure
from bench.lab import in_lab, say
from lab.cloud import Cloud, Guest
from lab.cloud.disk import ephemeral, volume
from lab.command import PLIMSOLL
from lab.daemon import daemon_on
from lab.node import Node

SIZE = 2**30
RULES = "default: {limits: {total_iops_sec: 250}}\n"
TIMER = 300
"""Seconds between two passes of the timer."""
PASSES = 5
PAUSED = 1  # VIR_DOMAIN_START_PAUSED
HOUR = 3600


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="script/bench churn", description=__doc__)
    parser.add_argument("--guests", type=int, default=100, metavar="N", help="default: %(default)s")
    parser.add_argument("--minutes", type=int, default=60, metavar="N", help="with changes; default: %(default)s")
    parser.add_argument("--idle", type=int, default=5, metavar="N", help="minutes before; default: %(default)s")
    parser.add_argument("--each", type=float, default=3, metavar="S", help="seconds per change; default: %(default)s")
    arguments = parser.parse_args(words)
    return in_lab(lambda cloud: _measured(cloud, arguments))


@dataclass(frozen=True)
class Vitals:
    memory: int
    """Resident bytes."""
    threads: int
    descriptors: int
    cpu: float
    """Seconds since its start."""

    @classmethod
    def of(cls, pid: int) -> Vitals:
        fields = (line.partition(":") for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        status = {name: value.strip() for name, _, value in fields}
        stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return cls(
            int(status["VmRSS"].split()[0]) * 1024,
            int(status["Threads"]),
            len(list(Path(f"/proc/{pid}/fd").iterdir())),
            (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK"),
        )

    def __str__(self) -> str:
        return f"{self.memory / 2**20:.1f} MiB, {self.threads} threads, {self.descriptors} descriptors"


def _measured(cloud: Cloud, arguments: argparse.Namespace) -> None:
    say(f"starting {arguments.guests} guests")
    guests = cloud.paused_guests([[ephemeral(SIZE), volume(SIZE)] for _ in range(arguments.guests)])
    try:
        with tempfile.TemporaryDirectory() as home:
            node = Node(Path(home), cloud, RULES)
            with daemon_on(node, installed=True) as daemon:
                pid = daemon.process.pid
                idle = _watched(pid, 60 * arguments.idle, lambda _: time.sleep(1))
                changes = _Changes(guests, arguments.each)
                churn = _watched(pid, 60 * arguments.minutes, changes.one)
                passes = daemon.told()
            _tell(idle, f"nothing happens for {arguments.idle} min")
            _tell(churn, f"{changes.made} starts and stops in {arguments.minutes} min")
            say(f"passes over a guest: {dict(passes.passes)}; over the node: {dict(passes.full_passes)}")
            changes.start_all()
            words = ["--config-file", str(node.settings), "enforce"]
            timer = [measure.once([PLIMSOLL, *words], node.environment) for _ in range(PASSES)]
            cost = measure.Spread.of(one.cpu for one in timer).middle
            say(f"by the timer: {cost:.2f} s of CPU a pass, {cost * HOUR / TIMER:.0f} s an hour")
    finally:
        cloud.destroy_guests(guests)


class _Changes:
    """A guest that runs is stopped, one that does not is started; the same guests in each run."""

    def __init__(self, guests: Sequence[Guest], each: float) -> None:
        self._guests = guests
        self._each = each
        self._stopped: list[Guest] = []
        self._chance = random.Random(7)
        self.made = 0

    def one(self, began: float) -> None:
        guest = self._chance.choice(self._guests)
        if guest in self._stopped:
            self._start(guest)
        else:
            guest.domain().destroy()
            self._stopped.append(guest)
        self.made += 1
        time.sleep(max(0.0, began + self._each - time.monotonic()))

    def start_all(self) -> None:
        for guest in list(self._stopped):
            self._start(guest)

    def _start(self, guest: Guest) -> None:
        guest.domain().createWithFlags(PAUSED)
        self._stopped.remove(guest)


def _watched(pid: int, seconds: float, change: Callable[[float], object]) -> list[tuple[float, Vitals]]:
    """Vitals at the beginning, each minute, and at the end, each with its time."""
    began = time.monotonic()
    seen = [(began, Vitals.of(pid))]
    while (now := time.monotonic()) < began + seconds:
        change(now)
        if now >= seen[-1][0] + 60:
            seen.append((now, Vitals.of(pid)))
            say(f"after {(now - began) / 60:.0f} min: {seen[-1][1]}")
    return [*seen, (time.monotonic(), Vitals.of(pid))]


def _tell(seen: Sequence[tuple[float, Vitals]], what: str) -> None:
    (began, first), (ended, last) = seen[0], seen[-1]
    settled = [vitals.memory for at, vitals in seen if at >= began + (ended - began) / 6] or [last.memory]
    say(
        f"{what}: memory at most {max(vitals.memory for _, vitals in seen) / 2**20:.1f} MiB, "
        f"from the first sixth on {100 * (max(settled) / min(settled) - 1):.1f} % between least and most; "
        f"threads {first.threads} to {last.threads}, descriptors {first.descriptors} to {last.descriptors}; "
        f"{(last.cpu - first.cpu) * HOUR / (ended - began):.0f} s of CPU an hour"
    )
