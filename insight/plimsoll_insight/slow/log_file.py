"""One log: what its lines say, in its order, and of which kind it is."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from plimsoll_agent.util.text import printable
from plimsoll_insight.files.packed import opened
from plimsoll_insight.slow import blocks
from plimsoll_insight.slow.blocks import (
    BEGIN,
    MARGIN,
    blocks_of,
    ends_before,
    is_newest_first,
    last_time,
    place_of,
    time_of,
)
from plimsoll_insight.slow.events import LogClock, lines, places_in
from plimsoll_insight.slow.log_reading import LogReading
from plimsoll_insight.slow.owner import LineOwner, LogEvent
from plimsoll_insight.slow.wrapped import OF_MDS, form_of, name_of, osd_of_file, uncoloured

if TYPE_CHECKING:
    from plimsoll_insight.slow.columns import RequestColumns
    from plimsoll_insight.slow.owner import Parted

_USUAL = b" : cluster [WRN] slow request osd_op(client."
_MANY = 500
"""Lines at once: fewer are read in less time than NumPy is imported."""
_LINES = (
    rb"(?m) : (?:(?:cluster )?\[(?:INF|WRN|ERR|DBG|SEC)\]|cluster \d ) ?|"
    rb"^\S*(?: [\d:.]+)? (?:mon|osd|mgr)\.\S+ \[(?:INF|WRN|ERR|DBG)\]|"
    rb"\bosd\.\d{1,6} (?:\d+ |pg_epoch)|"
    rb"(?:^|[0-9a-f]{5,16} +-?\d{1,2} )(?:bluestore\(|bluefs |filestore\(|bdev\()|"
    rb"^(?:\(MUTED\) )?\[(?:WRN|ERR)\] [A-Z_]+: |\(leader\)|"
)
"""Of the cluster's log, of OSDs and of a leading monitor."""
_OF_CEPH = re.compile(_LINES + rb"log_channel\(cluster\)|\bceph-osd\b|\bHEALTH_(?:OK|WARN|ERR)\b")
"""In logs of Ceph."""
_TELLING = re.compile(
    _LINES + rb"log_channel\(cluster\) log (?:\[\w+\]|\d) : (?:\d+\.[0-9a-f]+(?:s\d+)? (?:deep-)?scrub|"
    rb"slow request (?:.{0,80}: )?osd_|"
    rb"[Mm]ap e\d+ wrongly|Health |overall HEALTH_|Cluster is now|mon\.\S+ is new leader|osdmap e\d|osd\.\d)|"
    rb"\bceph-osd\[\d{1,9}\]: |(?:^|\b(?:health:?|overall) )HEALTH_(?:OK|WARN|ERR)\b"
)
"""In logs that would have slow requests in them. A manager says how all placement groups are, every monitor when it
elects another one, an MDS whom it evicts.
"""
_OF_PYTHON = re.compile(rb"(?m)^.{0,255}?\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\b.*$")
"""As cephadm and ceph-volume write them, with words of OSDs that they start."""
_AUDIT = re.compile(rb" : audit \[| : audit \d|log_channel\(audit\)")


@dataclass
class _Progress:
    """What is met in a log so far."""

    has_places: bool = False
    """Lines that may be of interest."""
    earliest: float | None = None
    """Of a file that is not in the order of time."""
    latest: float = 0.0


def pieces_of(
    path: Path, begin: float | None, reading: LogReading, progress: Callable[[int], None], size: int
) -> Iterator[LogEvent | RequestColumns]:
    """Its lines of interest; ``begin`` is the time of the first line, None of a file that is newest first."""
    before, so_far = reading.bytes, _Progress()
    mtime = path.stat().st_mtime
    whose = name_of(path)
    owner = LineOwner(osd_of_file(whose), mtime, is_of_mds=bool(OF_MDS.search(whose.encode())))
    with opened(path) as stream:
        begins = uncoloured(stream.read(BEGIN))
    form = form_of(begins)
    newest_first = is_newest_first(path, begins, form, reading.clock, mtime)
    has_window = begin is not None and form == "lines" and not reading.is_all_asked
    is_joined = begin is not None and has_window and ends_before(path, begin - MARGIN, reading.clock, mtime)
    place = 0
    if reading.since is not None and has_window and not is_joined:
        place = place_of(path, reading.since - MARGIN, reading.clock, mtime)
    with opened(path, place=place) as stream:
        each = blocks_of(stream, reading, progress, size, form)
        if newest_first or is_joined:
            lines_ = _all_lines(each, reading, so_far, mtime)
            parts = iter((_usual(lines_[::-1] if newest_first else lines_, reading.clock),))
        else:
            parts = _parts(
                _until_end(each, reading, mtime) if form == "lines" else each, reading, size, so_far, mtime
            )
        for part in parts:
            yield from owner.all_said(part, reading)
        yield from owner.finish(reading)
    begin = so_far.earliest if newest_first or is_joined else begin
    name = printable(str(path))
    if begin is not None and (
        (reading.since is not None and so_far.latest < reading.since)
        or (reading.until is not None and begin > reading.until)
    ):
        reading.outside.append(name)
        return
    if owner.is_unattributed:
        reading.unattributed.append(name)
    if not so_far.has_places and begin is None and not _OF_CEPH.search(begins):
        (reading.empty if reading.bytes == before else reading.foreign).append(name)
    elif owner.understood or owner.missed or (_is_telling(begins) and not owner.may_be_of_mds):
        reading.telling += 1
    else:
        reading.silent.append(name)


def _until_end(each: Iterator[bytes], reading: LogReading, mtime: float) -> Iterator[bytes]:
    """The blocks up to the time that is asked for."""
    for block in each:
        if reading.until is not None:
            first = time_of(block[: block.find(b"\n")][:600], reading.clock, mtime)
            if first is not None and first > reading.until + MARGIN:
                return
        yield block


def _parts(
    each: Iterator[bytes], reading: LogReading, size: int, so_far: _Progress, mtime: float
) -> Iterator[Parted]:
    """By columns of a block, where many lines of it are usual requests; else of several blocks, line by line."""
    waiting: list[bytes] = []
    for block in each:
        if reading.since is not None:
            so_far.latest = max(so_far.latest, last_time(block, reading.clock, mtime) or so_far.latest)
        places = places_in(block)
        so_far.has_places |= bool(places)
        if len(places) >= _MANY and (columns := _columns(block)):
            yield _usual(waiting, reading.clock)
            waiting = []
            yield columns.of_block(block, places, blocks.LONGEST, reading.clock)
            continue
        waiting += lines(block, blocks.LONGEST, places)
        if sum(map(len, waiting)) >= size:
            yield _usual(waiting, reading.clock)
            waiting = []
    yield _usual(waiting, reading.clock)


def _all_lines(each: Iterator[bytes], reading: LogReading, so_far: _Progress, mtime: float) -> list[bytes]:
    """Of a file that is not in the order of time: as a whole, since a window of time may be anywhere in it."""
    waiting: list[bytes] = []
    size = 0
    for block in each:
        ends = (
            time_of(block[: block.find(b"\n")][:600], reading.clock, mtime),
            last_time(block, reading.clock, mtime),
        )
        times = [time for time in ends if time is not None]
        so_far.latest = max(so_far.latest, *times)
        so_far.earliest = min(times if so_far.earliest is None else [so_far.earliest, *times], default=None)
        places = places_in(block)
        so_far.has_places |= bool(places)
        texts = lines(block, blocks.LONGEST, places)
        waiting += texts
        size += sum(map(len, texts))
        if size > blocks.LARGEST:
            reading.miss(f"more than {blocks.LARGEST >> 20} MiB of them, not in the order of time: sort them")
            break
    return waiting


def _is_telling(begin: bytes) -> bool:
    """Whether slow requests would be in it. An audit is of the monitors' commands."""
    begin = _OF_PYTHON.sub(b"", begin)
    return bool(_TELLING.search(begin) and not (_AUDIT.search(begin) and not _other(begin)))


def _usual(lines: Sequence[bytes], clock: LogClock) -> Parted:
    """By columns where there are many."""
    if len(lines) >= _MANY and (columns := _columns(*lines)):
        parts: Parted = columns.requests(lines, clock)
        return parts
    return None, [(0, line) for line in lines]


def _columns(*texts: bytes) -> ModuleType | None:
    """What reads usual requests, where there are some."""
    if any(_USUAL in text for text in texts):
        with suppress(ImportError):  # NumPy may not be installed: so each line is read for itself
            from plimsoll_insight.slow import columns

            return columns
    return None


def _other(begin: bytes) -> bool:
    """Whether there is more than the monitors' record of commands."""
    return bool(re.search(rb" : cluster (?:\[|\d)|log_channel\(cluster\)", begin))
