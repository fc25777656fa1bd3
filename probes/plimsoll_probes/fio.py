"""fio: a job as its command line, and its JSON as numbers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal

from plimsoll_agent.errors import PlimsollError

Pattern = Literal["randread", "randwrite", "randrw"]


class FioError(PlimsollError):
    """fio did not run, or what it printed is no result."""


@dataclass(frozen=True, slots=True)
class Job:
    """One run: random requests of ``block_size`` bytes on a file, past the page cache, for ``seconds``."""

    pattern: Pattern
    filename: str
    seconds: int
    size: int = 2**30
    block_size: int = 16384
    io_depth: int = 2
    jobs: int = 4

    def argv(self) -> list[str]:
        """The command line; ``randrepeat=0``, so that no two runs hit the same objects in the same order."""
        return [
            "fio",
            "--name=plimsoll",
            f"--filename={self.filename}",
            f"--rw={self.pattern}",
            f"--size={self.size}",
            f"--bs={self.block_size}",
            f"--iodepth={self.io_depth}",
            f"--numjobs={self.jobs}",
            f"--runtime={self.seconds}",
            "--time_based",
            "--direct=1",
            "--ioengine=libaio",
            "--randrepeat=0",
            "--group_reporting",
            "--output-format=json",
        ]


@dataclass(frozen=True, slots=True)
class Totals:
    """What a run did: completed operations and bytes by direction, in ``seconds`` of wall time."""

    read_operations: int
    write_operations: int
    read_bytes: int
    write_bytes: int
    seconds: float

    @property
    def operations(self) -> int:
        return self.read_operations + self.write_operations

    @property
    def bytes(self) -> int:
        return self.read_bytes + self.write_bytes

    @property
    def iops(self) -> float:
        """Mean over the whole run."""
        return self.operations / self.seconds


def parse(text: str) -> Totals:
    """fio's ``--output-format=json`` of one reporting group. Raises ``FioError``.

    fio prints complaints before the JSON at times (fio issue 1685): what stands before the first brace is the
    error's text if there is no result.
    """
    complaint, brace, rest = text.partition("{")
    try:
        (job,) = json.loads(brace + rest)["jobs"]
        if job["error"]:
            raise FioError(f"fio ended with error {job['error']}: {complaint.strip() or 'no message'}")
        read, write = job["read"], job["write"]
        if not read["runtime"] and not write["runtime"]:
            raise FioError(f"fio ran for no time at all: {complaint.strip() or 'no message'}")
        return Totals(
            read_operations=int(read["total_ios"]),
            write_operations=int(write["total_ios"]),
            read_bytes=int(read["io_bytes"]),
            write_bytes=int(write["io_bytes"]),
            # The longer of the two: in a mixed run both last as long, in a pure one the other is 0.
            seconds=max(int(read["runtime"]), int(write["runtime"])) / 1000,
        )
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise FioError(f"no result of fio: {complaint.strip() or text[:200]!r}") from error
