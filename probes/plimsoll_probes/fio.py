"""fio: a job as the file that fio reads, and its JSON+ as numbers."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from plimsoll_probes.finding import Trouble, Why
from plimsoll_probes.histogram import Histogram
from plimsoll_probes.job import Job
from plimsoll_probes.result import Flow, Measured

# In this order: Linux' own asynchronous I/O, which every fio but a stripped one has; io_uring is forbidden in many
# guests; psync has but one request of a process in flight.
ENGINES = ("libaio", "io_uring", "posixaio", "psync")

ARGV = ("fio", "--output-format=json+", "-")
"""Reads the job file on its standard input."""

TEXT_MAX = 2**20
"""Characters of a result: one with every bucket of both directions in it has a tenth of that."""
DETAIL_MAX = 300

_FILE = re.compile(r"[A-Za-z0-9_./-]+")
_VERSION = re.compile(r"fio-[A-Za-z0-9._+-]{1,40}")
# No run comes near it, and SQLite keeps it.
_NUMBER_MAX = 2**62


def engine_for(asked: str, has: Sequence[str]) -> str:
    """The engine for a job, of those that the guest's fio has. Raises ``Trouble``."""
    wanted = ENGINES if asked == "auto" else (asked,)
    for engine in wanted:
        if engine in has:
            return engine
    raise Trouble(Why.NO_ENGINE, engine=asked, has=[engine for engine in ENGINES if engine in has])


def job_file(job: Job, filename: str, cpus: str | None, engine: str) -> str:
    """The job as a file that fio reads: the packaged one with the job's values in the place of its own.

    ``cpus`` are those that the guest has ("0-3"). They are dealt out round robin, so there may be fewer than
    processes; None leaves it to the guest's scheduler. Raises ``ValueError`` for a name that fio would take for
    several files, and for a device.
    """
    if not _FILE.fullmatch(filename) or filename.startswith("/dev"):
        raise ValueError(f"fio is not to be told of the file {filename!r}")
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
    for line in _packaged(f"{job.name}.fio").splitlines():
        key, equals, default = line.partition("=")
        value = values.get(key, default) if equals else default
        if value is not None:
            lines.append(f"{key}{equals}{value}\n")
    return "".join(lines)


@cache
def _packaged(name: str) -> str:
    return files("plimsoll_probes.jobs").joinpath(name).read_text(encoding="utf-8")


def parse(text: str, job: Job, *, engine: str, cpu_busy: float | None = None) -> Measured:
    """fio's ``--output-format=json+`` of the job. Raises ``Trouble``: it failed, or this is no result of it.

    fio prints complaints before the JSON at times (fio issue 1685): what stands before the first brace is the
    failure's detail. ``total_ios`` counts requests that were begun, the histogram those that ended. A direction in
    which none ended is left out.
    """
    complaint, brace, rest = text.partition("{")
    if not brace:
        raise Trouble(Why.FIO_FAILED, detail=bounded(complaint) or "it said nothing")
    if len(text) > TEXT_MAX:
        raise nonsense(f"a result of {len(text)} characters")
    try:
        whole = json.loads(brace + rest, parse_constant=_no_number)
        (group,) = whole["jobs"]
        error = _number(group["error"])
        if error:
            raise Trouble(Why.FIO_FAILED, detail=bounded(f"error {error}: {complaint.strip() or 'no message'}"))
        version = whole["fio version"]
        if not _VERSION.fullmatch(version):
            raise ValueError("a version that is none")
        flows: dict[str, Flow] = {}
        begun = ended = milliseconds = 0
        for direction in ("read", "write"):
            side = group[direction]
            total, flow = _number(side["total_ios"]), _flow(side)
            if total < flow.operations:
                raise ValueError(f"{flow.operations} requests ended of {total}")
            if total and direction not in job.shares:
                raise ValueError(f"{direction}s in a {job.name} job")
            begun, ended = begun + total, ended + flow.operations
            milliseconds = max(milliseconds, _number(side["runtime"]))
            if flow.operations:
                flows[direction] = flow
        if not milliseconds:
            raise ValueError("a run of no time at all")
    except RecursionError:
        raise nonsense("a result nested beyond reason") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise nonsense(f"no result of fio: {error}; {complaint.strip()}") from error
    return Measured(
        seconds=milliseconds / 1000,
        read=flows.get("read"),
        write=flows.get("write"),
        unfinished=begun - ended,
        fio=version,
        engine=engine,
        cpu_busy=cpu_busy,
    )


def _flow(side: Any) -> Flow:
    latencies = side["clat_ns"]
    # Without a single request there are no bins at all.
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
        raise ValueError("a bucket that is none")
    return int(text)


def _number(value: object) -> int:
    if type(value) is not int or not 0 <= value <= _NUMBER_MAX:
        raise ValueError(f"a number that is none: {str(value)[:40]!r}")
    return value


def _no_number(name: str) -> None:
    raise ValueError(f"a number that is none: {name}")


def nonsense(detail: str) -> Trouble:
    return Trouble(Why.NONSENSE, detail=bounded(detail))


def bounded(text: str) -> str:
    """Words of a guest on one short line, without what would move a terminal's cursor."""
    kept = "".join(sign if sign.isprintable() else " " for sign in text[: 4 * DETAIL_MAX])
    return " ".join(kept.split())[:DETAIL_MAX]
