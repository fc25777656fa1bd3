"""What reading the consoles of guests costs: ``script/bench consoles``.

Each row is one kind of line, ordinary or hostile, in the log of one guest; ``all`` is a pass over the logs of a whole
node that wrote as much as is read. Times are of the processor, and include opening and reading the logs.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench.lab import say
from plimsoll_agent.adapters import console_log
from plimsoll_agent.consoles.patterns import count
from plimsoll_agent.consoles.position import MOST_BYTES

HUNG = b"[  242.654321] INFO: task jbd2/vda1-8:231 blocked for more than 120 seconds."
KINDS = {
    "ordinary": b"[    3.141593] systemd[1]: Started Journal Service, and much more that is of no interest here.",
    "matches": HUNG,
    "almost": b"INFO: task a:1 blocked for more than x seconds, timeout, I/O error, timed out, EXT4-fs error (device",
    "long": b"INFO: task " * 20 + b":1" * 300 + b" blocked for more than " * 8,
    "drivers": b"sd 0:0:0:0 nvme nvme0 ata1 " * 6 + b"timeout",
    "NUL": b"\0" * 200 + HUNG,
}


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="script/bench consoles", description=__doc__)
    parser.add_argument("--lines", type=int, default=100_000, metavar="N", help="default: %(default)s")
    arguments = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as home:
        for name, line in KINDS.items():
            _one(Path(home) / name, name, line + b"\n", arguments.lines)
        _all(Path(home), HUNG + b"\n")
    return 0


def _one(log: Path, name: str, line: bytes, lines: int) -> None:
    log.write_bytes(b"")
    known = console_log.read(str(log), None, MOST_BYTES).position
    log.write_bytes(line * lines)
    began = time.process_time()
    whole = count(log.read_bytes())
    every = time.process_time() - began
    began = time.process_time()
    new = console_log.read(str(log), known, MOST_BYTES)
    count(new.text)
    bounded = time.process_time() - began
    say(
        f"{name:9} {lines} lines, {len(line) * lines / 1e6:.1f} MB: all {every:.3f} s, {sum(whole.values())} counted;"
        f" as a pass reads it (1 MiB) {bounded:.3f} s"
    )


def _all(home: Path, line: bytes) -> None:
    logs = [home / f"guest{number}" for number in range(16)]
    for log in logs:
        log.write_bytes(b"")
    known = [console_log.read(str(log), None, MOST_BYTES).position for log in logs]
    for log in logs:
        log.write_bytes(line * (MOST_BYTES // len(line) + 1))
    began = time.process_time()
    for log, position in zip(logs, known, strict=True):
        count(console_log.read(str(log), position, MOST_BYTES).text)
    say(f"all       {len(logs)} guests with 1 MiB each, the most of a pass: {time.process_time() - began:.3f} s")
