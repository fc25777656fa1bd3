"""Writes job files for fio and parses its JSON+ output."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from plimsoll_probes.model.finding import Trouble, Why
from plimsoll_probes.model.histogram import Histogram
from plimsoll_probes.model.job import Job
from plimsoll_probes.model.result import Flow, Measured

ONE_IN_FLIGHT = ("posixaio", "psync")
"""Engines with one request of each process in flight: glibc's aio, too, has one for each open file at a time."""

# In order of preference. Nearly every fio has libaio; many guests forbid io_uring.
ENGINES = ("libaio", "io_uring", *ONE_IN_FLIGHT)

ARGV = ("fio", "--output-format=json+", "-")
"""Reads the job file from standard input."""

TEXT_MAX = 2**20
"""Characters of a result; one with all buckets of both directions has a tenth of that."""
DETAIL_MAX = 300

_FILE = re.compile(r"[A-Za-z0-9_./-]+")
_VERSION = re.compile(r"fio-[A-Za-z0-9._+-]{1,40}")
# Beyond what any run reaches, and within SQLite's integers.
_NUMBER_MAX = 2**62


def best_engine(has: Sequence[str], io_depth: int) -> str:
    """The first of ``ENGINES`` that the guest's fio has; psync first for one request at a time. Raises ``Trouble``.

    File systems may block asynchronous writes while they are submitted, as btrfs on Linux 6.18. fio's completion
    latency begins after that: with libaio and one request at a time it is a microsecond, whatever the write took.
    """
    for engine in ("psync", *ENGINES) if io_depth == 1 else ENGINES:
        if engine in has:
            return engine
    raise Trouble(Why.NO_ENGINE)


def job_file(job: Job, filename: str, cpus: str | None, engine: str) -> str:
    """The packaged job file of fio with the job's values.

    ``cpus`` are those of the guest ("0-3"). fio assigns them round robin, so there may be fewer than processes; None
    leaves this to the guest's scheduler. Raises ``ValueError`` for a device, and for a name that fio would split into
    several files.
    """
    if not _FILE.fullmatch(filename) or filename.startswith("/dev"):
        raise ValueError(f"not a file name for fio: {filename!r}")
    values = {
        "rwmixread": str(job.read_percent),
        "filename": filename,
        "size": str(job.file_size),
        "bs": str(job.block_size),
        "ioengine": engine,
        "iodepth": str(job.io_depth),
        "numjobs": str(job.processes),
        "cpus_allowed": cpus,
        "cpus_allowed_policy": "split" if cpus else None,
        "runtime": str(job.seconds),
    }
    lines = []
    for line in _resource(f"{job.name}.fio").splitlines():
        key, equals, default = line.partition("=")
        value = values.get(key, default) if equals else default
        if value is not None:
            lines.append(f"{key}{equals}{value}\n")
    return "".join(lines)


@cache
def _resource(name: str) -> str:
    return files("plimsoll_probes.guest.jobs").joinpath(name).read_text(encoding="utf-8")


def parse(text: str, job: Job, *, engine: str, cpu_busy: float | None = None) -> Measured:
    """fio's ``--output-format=json+`` of the job. Raises ``Trouble`` where fio failed or this is not its result.

    fio may print errors before the JSON (fio issue 1685): the text before the first brace is the failure's detail.
    ``total_ios`` counts requests that began, the histogram those that ended. A direction in which none ended is left
    out.
    """
    complaint, brace, rest = text.partition("{")
    if not brace:
        raise Trouble(Why.FIO_FAILED, detail=one_line(complaint) or "no output")
    if len(text) > TEXT_MAX:
        raise nonsense(f"a result of {len(text)} characters")
    try:
        whole = json.loads(brace + rest, parse_constant=_no_number)
        (group,) = whole["jobs"]
        error = _number(group["error"])
        if error:
            raise Trouble(Why.FIO_FAILED, detail=one_line(f"error {error}: {complaint.strip() or 'no message'}"))
        version = whole["fio version"]
        if not _VERSION.fullmatch(version):
            raise ValueError("not a version of fio")
        flows: dict[str, Flow] = {}
        starts = ends = milliseconds = 0
        for direction in ("read", "write"):
            side = group[direction]
            total, flow = _number(side["total_ios"]), _flow(side)
            if total < flow.operations:
                raise ValueError(f"{flow.operations} requests ended of {total}")
            if total and direction not in job.shares:
                raise ValueError(f"{direction}s in a {job.name} job")
            starts, ends = starts + total, ends + flow.operations
            milliseconds = max(milliseconds, _number(side["runtime"]))
            if flow.operations:
                flows[direction] = flow
        if not milliseconds:
            raise ValueError("a run of 0 ms")
    except RecursionError:
        raise nonsense("a result nested too deeply") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise nonsense(f"not a result of fio: {error}; {complaint.strip()}") from error
    return Measured(
        seconds=milliseconds / 1000,
        read=flows.get("read"),
        write=flows.get("write"),
        unfinished=starts - ends,
        fio=version,
        engine=engine,
        cpu_busy=cpu_busy,
    )


def _flow(side: Any) -> Flow:
    latencies = side["clat_ns"]
    # Without any request there is no "bins".
    histogram = Histogram.from_midpoints({_key(key): count for key, count in latencies.get("bins", {}).items()})
    # ``N`` came with fio 3.8.
    if _number(latencies.get("N", histogram.count)) != histogram.count:
        raise ValueError(f"{latencies['N']} latencies, and {histogram.count} in the histogram")
    return Flow(
        operations=histogram.count,
        bytes=_number(side["io_bytes"]),
        latency=histogram,
        latency_max=_number(latencies["max"]),
    )


def _key(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 20):
        raise ValueError("not a bucket of the histogram")
    return int(text)


def _number(value: object) -> int:
    if type(value) is not int or not 0 <= value <= _NUMBER_MAX:
        raise ValueError(f"not a number: {str(value)[:40]!r}")
    return value


def _no_number(name: str) -> None:
    raise ValueError(f"not a number: {name}")


def nonsense(detail: str) -> Trouble:
    return Trouble(Why.NONSENSE, detail=one_line(detail))


def one_line(text: str) -> str:
    """Text of a guest in one short line, without control characters."""
    line = "".join(sign if sign.isprintable() else " " for sign in text[: 4 * DETAIL_MAX])
    return " ".join(line.split())[:DETAIL_MAX]
