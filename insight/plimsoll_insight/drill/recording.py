"""The file of a drill: a JSON object a line, appended as it happens, so that all but a last part of a line survives.

``t`` is seconds since the Unix epoch. The first line is a head; the others have one of these keys:

``ceph``    the status
``disks``   what disks did, each in the time since it was read last; one that is not there did nothing
``disk``    the number that a disk has in this file; again where it comes back
``gone``    the numbers of disks that are gone, as their guest was shut down or has migrated: unknown from then on
            (since version 3)
``event``   a line of the cluster's log
``change``  a change that plimsoll made
``mark``    what an operator did
``gap``     a source that did not answer, from ``since`` until ``t``
``probe``   what a probe of a guest measured, from ``since`` until ``t`` (since version 2)
``store``   the size of the monitor's store, in bytes (since version 2)
``end``     the recording ended so
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from plimsoll_agent.errors import PlimsollError
from plimsoll_agent.util import files
from plimsoll_agent.util.decoding import UNREADABLE
from plimsoll_agent.util.frozen import asdict, frozen, replace
from plimsoll_insight.drill.status import ClusterCounts, LogLine
from plimsoll_probes.model.histogram import Histogram

VERSION = 3
_READABLE = (1, 2, VERSION)
_HEAD = "plimsoll_drill"
_WATCHED = {"ceph", "disks", "gap", "end"}
"""Lines that show how far it was watched."""


class RecordingError(PlimsollError):
    """A recording cannot be read or written."""


@frozen
class DrillDisk:
    guest: str
    uuid: str
    target: str

    @property
    def words(self) -> str:
        return f"{self.guest} {self.target}"


@frozen(kw_only=True)
class DrillSample:
    """What disks did, each with its number. ``latency`` is the mean of a request in microseconds; None is unknown."""

    time: float
    numbers: list[int]
    ends: list[float]
    """When each was read, in seconds after ``time``."""
    seconds: list[float]
    """The time since it was read before."""
    requests: list[float]
    latency: list[float | None]
    unknown: list[int]
    part: int = 0
    """Which of several recordings it is from."""


@frozen(kw_only=True)
class ProbeJob:
    """A job of a probe. ``latency``: fio's buckets with their counts; ``slowest`` in nanoseconds."""

    began: float
    ended: float
    guest: str
    latency: tuple[tuple[int, int], ...]
    slowest: int


@frozen(kw_only=True)
class RecordingGap:
    source: str
    since: float
    until: float
    why: str


@frozen
class Note:
    """Of a mark, by an operator, or of a change."""

    time: float
    text: str
    by: str = ""


@dataclass
class Recording:
    """All that the file has. Times are in its order."""

    began: float
    node: str
    interval: float
    statuses: list[tuple[float, ClusterCounts]] = field(default_factory=list)
    done: list[DrillSample] = field(default_factory=list)
    disks: dict[int, DrillDisk] = field(default_factory=dict)
    gone: set[int] = field(default_factory=set)
    """Those that are not there any more."""
    events: list[LogLine] = field(default_factory=list)
    changes: list[Note] = field(default_factory=list)
    marks: list[Note] = field(default_factory=list)
    gaps: list[RecordingGap] = field(default_factory=list)
    probed: list[ProbeJob] = field(default_factory=list)
    stores: list[int] = field(default_factory=list)
    ended: str | None = None
    """How; None where it was cut off, or is under way."""
    last: float = 0.0
    damaged: int = 0
    """Lines that are not understood."""
    parts: list[list[int]] = field(default_factory=list)
    """Which disks each of several recordings has; empty where it is one."""


class RecordingWriter:
    """Appends lines, from any thread; each is given to the system at once."""

    def __init__(self, descriptor: int, path: Path) -> None:
        self._descriptor, self._path = descriptor, path
        self._lock = threading.Lock()

    @classmethod
    def begin(cls, path: Path, began: float, node: str, interval: float) -> RecordingWriter:
        """Raises ``RecordingError``, also where there is such a file."""
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640)
        except FileExistsError as error:
            raise RecordingError(f"{path}: there is such a file; give another name") from error
        except OSError as error:
            raise RecordingError(f"{path}: {files.reason(error)}") from error
        writer = cls(descriptor, path)
        writer.write(began, {_HEAD: VERSION, "node": node, "interval": interval})
        return writer

    @classmethod
    def more(cls, path: Path) -> RecordingWriter:
        """To a recording that has begun. Raises ``RecordingError``."""
        with _lines(path) as lines:
            _head(path, next(lines, b""))
        try:
            descriptor = files.open_regular(path, os.O_RDWR | os.O_APPEND, follow=True)
            size = os.fstat(descriptor).st_size
            if os.pread(descriptor, 1, size - 1) != b"\n":  # it was killed while it wrote
                os.write(descriptor, b"\n")
        except OSError as error:
            raise RecordingError(f"{path}: {files.reason(error)}") from error
        return cls(descriptor, path)

    def write(self, time: float, line: Mapping[str, Any]) -> None:
        """Raises ``RecordingError``."""
        content = json.dumps({"t": round(time, 3), **line}, separators=(",", ":")).encode() + b"\n"
        try:
            with self._lock:
                while content:
                    content = content[os.write(self._descriptor, content) :]
        except OSError as error:
            raise RecordingError(f"{self._path}: {files.reason(error)}") from error


def status_line(status: ClusterCounts) -> dict[str, object]:
    return {"ceph": asdict(status)}


def sample_line(sample: DrillSample) -> dict[str, object]:
    columns = {
        "n": sample.numbers,
        "e": [round(each, 2) for each in sample.ends],
        "s": [round(each, 3) for each in sample.seconds],
        "r": sample.requests,
        "l": sample.latency,
    }
    return {"disks": {**columns, **({"u": sample.unknown} if sample.unknown else {})}}


def job_line(job: ProbeJob) -> dict[str, object]:
    return {"probe": job.guest, "since": round(job.began, 3), "b": job.latency, "slowest": job.slowest}


def read(path: Path) -> Recording:
    """Also of one that is under way, or was cut off. Raises ``RecordingError``."""
    with _lines(path) as lines:
        recording = _head(path, next(lines, b""))
        for line in lines:
            try:
                entry = json.loads(line)
                time = float(entry["t"])
                _add(recording, time, entry)
            except UNREADABLE:
                recording.damaged += 1
                continue
            if recording.ended is None or "end" in entry:  # what is marked later makes it no longer
                recording.last = max(recording.last, time if _WATCHED & entry.keys() else 0.0)
    _sort(recording)
    return recording


def merge(recordings: Sequence[Recording]) -> Recording:
    """Of one drill: of several nodes, or one after the other of a node. A disk in several of them is one."""
    if len(recordings) == 1:
        return recordings[0]
    whole = Recording(
        min(each.began for each in recordings),
        ", ".join(dict.fromkeys(each.node for each in recordings)),
        max(each.interval for each in recordings),
        last=max(each.last for each in recordings),
        ended=recordings[-1].ended if all(each.ended for each in recordings) else None,
        damaged=sum(each.damaged for each in recordings),
    )
    numbers: dict[DrillDisk, int] = {}
    events: dict[tuple[float, str, int], LogLine] = {}
    for part, each in enumerate(recordings):
        of = {number: numbers.setdefault(name, len(numbers)) for number, name in each.disks.items()}
        whole.parts.append(sorted(of.values()))
        for sample in each.done:
            both = [of[number] for number in sample.numbers], [of[number] for number in sample.unknown]
            whole.done.append(replace(sample, numbers=both[0], unknown=both[1], part=part))
        events |= {(line.time, line.who, line.number): line for line in each.events}
        for name in ("statuses", "changes", "marks", "gaps", "probed", "stores"):
            getattr(whole, name).extend(getattr(each, name))
    whole.disks = {number: name for name, number in numbers.items()}
    whole.events = sorted(events.values(), key=lambda line: line.time)
    _sort(whole)
    return whole


def _sort(recording: Recording) -> None:
    recording.statuses.sort(key=lambda one: one[0])
    recording.done.sort(key=lambda one: one.time)
    for notes in (recording.marks, recording.changes):
        notes.sort(key=lambda note: note.time)


class _lines:  # noqa: N801  # a context manager, as open
    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> Iterator[bytes]:
        try:
            self._file = os.fdopen(files.open_regular(self._path, os.O_RDONLY, follow=True), "rb")
        except OSError as error:
            raise RecordingError(f"{self._path}: {files.reason(error)}") from error
        return iter(self._file)

    def __exit__(self, *_: object) -> None:
        self._file.close()


def _head(path: Path, line: bytes) -> Recording:
    try:
        head = json.loads(line)
        version = head[_HEAD]
        if version in _READABLE:
            began = float(head["t"])
            return Recording(began, str(head["node"]), float(head["interval"]), last=began)
    except UNREADABLE as error:
        raise RecordingError(f"{path}: not a recording of plimsoll drill record") from error
    raise RecordingError(f"{path}: has format {version}, this plimsoll knows {VERSION} and before")


def _add(recording: Recording, time: float, entry: Mapping[str, Any]) -> None:
    match entry:
        case {"ceph": of}:
            recording.statuses.append((time, ClusterCounts(**{**of, "checks": tuple(of["checks"])})))
        case {"disks": of}:
            recording.done.append(
                DrillSample(
                    time=time,
                    numbers=of["n"],
                    ends=of["e"],
                    seconds=of["s"],
                    requests=of["r"],
                    latency=of["l"],
                    unknown=[*of.get("u", []), *sorted(recording.gone)],
                )
            )
        case {"disk": [number, guest, uuid, target]}:
            recording.disks[int(number)] = DrillDisk(str(guest), str(uuid), str(target))
            recording.gone.discard(int(number))
        case {"gone": numbers}:
            recording.gone |= {int(number) for number in numbers} & recording.disks.keys()
        case {"event": {"who": who, "number": number, "level": level, "text": text}}:
            recording.events.append(
                LogLine(time=time, who=str(who), number=int(number), level=str(level), text=str(text))
            )
        case {"change": text}:
            recording.changes.append(Note(time, str(text)))
        case {"mark": text, "by": by}:
            recording.marks.append(Note(time, str(text), str(by)))
        case {"probe": guest, "since": since, "b": buckets, "slowest": slowest}:
            latency = Histogram(tuple((int(index), int(count)) for index, count in buckets))
            recording.probed.append(
                ProbeJob(
                    began=float(since), ended=time, guest=str(guest), latency=latency.buckets, slowest=int(slowest)
                )
            )
        case {"store": size}:
            recording.stores.append(int(size))
        case {"gap": source, "since": since, "why": why}:
            recording.gaps.append(RecordingGap(source=str(source), since=float(since), until=time, why=str(why)))
        case {"end": how}:
            recording.ended = str(how)
        case _:
            raise ValueError("unknown kind")
