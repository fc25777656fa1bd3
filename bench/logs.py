"""What ``hist`` and ``slow`` cost beside the tools of today, on logs made here: ``script/bench hist`` and ``slow``.

The logs are copies of real ones, kept for the tests; with ``--slow-share`` slow gets a storm as Octopus logs it,
in which that part of the lines tells one slow request each. The other tool is given with ``--peer``, as neither is in
a distribution: fio's ``tools/hist/fiologparser_hist.py`` with ``--python`` of an environment that has pandas, and
``ceph_log_parser.awk`` (github.com/linuxkidd/ceph-log-parsers), which needs gawk. Slow as they are, they get
``--part`` of the work, and the ratio is per byte. For hist give ``--part 1``: what fiologparser_hist.py takes grows
with the square of the number of logs (50 take 6 s, 150 take 32 s). Times are of the processor.
"""

from __future__ import annotations

import argparse
import gzip
import os
import random
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO

from bench.lab import say
from bench.measure import Cost, Spread, once
from bench.ways import PLIMSOLL

DATA = Path(__file__).parents[1] / "tests" / "unit" / "data"
_MIB = 1 << 20
_STATES = ("delayed", "waiting for sub ops", "waiting for rw locks", "queued for pg", "started", "commit_sent")


@dataclass(frozen=True)
class Work:
    """Files, and how the command that reads them is written."""

    whole: list[Path]
    part: list[Path]
    ours: Callable[[Sequence[Path]], list[str]]
    theirs: Callable[[Sequence[Path]], list[str]]


def main(kind: str, words: Sequence[str]) -> int:
    layout = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog=f"script/bench {kind}", description=__doc__, formatter_class=layout)
    parser.add_argument(
        "--peer", metavar="FILE", type=Path, help="the tool of today; without it only ours is measured"
    )
    parser.add_argument("--python", default=sys.executable, help="with pandas, for fiologparser_hist.py")
    parser.add_argument(
        "--part", type=float, default=0.25, help="of the work, for the other tool; default: %(default)s"
    )
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="of ours; default: %(default)s")
    parser.add_argument("--mib", type=int, default=512, help="size of the log of slow; default: %(default)s")
    parser.add_argument("--slow-share", type=float, metavar="PART", help="of the lines, such as 0.5")
    arguments = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as home:
        work = {"hist": _hist, "slow": _slow}[kind](Path(home), arguments)
        _measure(work, arguments)
    return 0


def _hist(home: Path, arguments: argparse.Namespace) -> Work:
    """512 guests, 60 rows each, as a probe of five minutes leaves them: 167 MB."""
    rows = [
        line.split(", ")
        for path in sorted((DATA / "fio-hist").glob("*.log.gz"))
        for line in gzip.decompress(path.read_bytes()).decode().splitlines()
    ]
    logs = []
    for guest in range(512):
        mine = rows[guest % len(rows) :] + rows
        lines = [
            ", ".join([str(5000 * (number // 2 + 1)), str(number % 2), *row[2:]])
            for number, row in enumerate(mine[:60])
        ]
        logs.append(home / f"g{guest}_clat_hist.1.log")
        logs[-1].write_text("\n".join(lines) + "\n")
    part = logs[: max(int(len(logs) * arguments.part), 1)]
    return Work(
        logs,
        part,
        lambda paths: [PLIMSOLL, "hist", "--interval", "5s", *map(str, paths)],
        lambda paths: [arguments.python, str(arguments.peer), "--interval", "5000", *map(str, paths)],
    )


def _slow(home: Path, arguments: argparse.Namespace) -> Work:
    text = gzip.decompress((DATA / "ceph-pacific" / "ceph.log.gz").read_bytes())
    logs = []
    for name, size in (("ceph.log", arguments.mib * _MIB), ("part.log", int(arguments.part * arguments.mib * _MIB))):
        logs.append(home / name)
        with logs[-1].open("wb") as file:
            if arguments.slow_share is not None:
                _storm(file, size, text.splitlines(keepends=True), arguments.slow_share)
            while file.tell() < size:
                file.write(text)
    return Work(
        logs[:1],
        logs[1:],
        lambda paths: [PLIMSOLL, "slow", *map(str, paths)],
        lambda paths: ["gawk", "-f", str(arguments.peer), *map(str, paths)],
    )


def _storm(file: BinaryIO, size: int, others: Sequence[bytes], share: float) -> None:
    others = [line for line in others if b"slow" not in line]
    chance = random.Random(1)
    begin = datetime(2026, 11, 21, 9, 24, tzinfo=UTC)
    number = written = 0
    while written < size:
        number += 1
        if chance.random() >= share:
            written += file.write(chance.choice(others))
            continue
        now = begin + timedelta(milliseconds=20 * number)
        since = now - timedelta(seconds=30 + 30 * chance.random())
        osd, pool = chance.randrange(24), chance.randrange(1, 4)
        image, part = 0x102AFE660F00 + chance.randrange(300), chance.randrange(1 << 14)
        written += file.write(
            f"{_logged(now)} osd.{osd} (osd.{osd}) {number} : cluster [WRN] slow request osd_op("
            f"client.{4000 + chance.randrange(200)}.0:{number} {pool}.{chance.randrange(64):x}"
            f" {pool}:{chance.randrange(1 << 32):08x}:::rbd_data.{image:x}.{part:016x}:head"
            f" [write {4096 * chance.randrange(1000)}~4096 in=4096b] snapc 0=[] ondisk+write+known_if_redirected e20)"
            f" initiated {_logged(since)} currently {chance.choice(_STATES)}\n".encode()
        )


def _logged(time: datetime) -> str:
    return f"{time:%Y-%m-%dT%H:%M:%S.%f%z}"


def _measure(work: Work, arguments: argparse.Namespace) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    size = sum(path.stat().st_size for path in work.whole)
    ours = [once(work.ours(work.whole), environment) for _ in range(arguments.runs)]
    spread = Spread.of(each.cpu for each in ours)
    say(f"plimsoll: {size / 1e6:.0f} MB, {len(work.whole)} logs: {spread.middle:.2f} s of CPU ({spread.least:.2f} to"
        f" {spread.greatest:.2f}), {size / 1e6 / spread.middle:.0f} MB/s, {_memory(ours)} MiB")  # fmt: skip
    if arguments.peer is None:
        return
    less = sum(path.stat().st_size for path in work.part)
    theirs = once(work.theirs(work.part), environment)
    say(f"{arguments.peer.name}: {less / 1e6:.0f} MB: {theirs.cpu:.2f} s, {less / 1e6 / theirs.cpu:.2f} MB/s,"
        f" {_memory([theirs])} MiB")  # fmt: skip
    say(f"plimsoll is {theirs.cpu / less / (spread.middle / size):.1f} times as fast.")


def _memory(costs: Sequence[Cost]) -> int:
    return max(each.memory for each in costs) // 1024
