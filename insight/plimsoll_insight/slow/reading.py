"""Logs in the order of time, in one pass each."""

from __future__ import annotations

import heapq
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, BinaryIO

from plimsoll_agent.util.frozen import frozen
from plimsoll_agent.util.text import printable
from plimsoll_insight.files.packed import opened
from plimsoll_insight.slow.counts import MINUTE, Counts
from plimsoll_insight.slow.events import (
    UNKNOWN_OSD,
    Event,
    Known,
    LogClock,
    MonitorReport,
    Oldest,
    SlowCount,
    SlowRequest,
    event_of,
    lines,
    places_in,
)
from plimsoll_insight.slow.wrapped import form_of, osd_of_file, plain, unwrap

if TYPE_CHECKING:
    from plimsoll_insight.slow.columns import RequestColumns

    _Parted = tuple[RequestColumns | None, Sequence[tuple[int, bytes]]]
    """Usual requests, and the other lines with the number of requests before them."""

_BLOCK = 1 << 20
_SMALL_BLOCK = 256 << 10
"""Of several files at once."""
_LONGEST = 64 << 10
_BEGIN = 64 << 10
_MOST_OPEN = 200
_MOST_WAITING = 100_000
"""Lines of a file whose owner is not read yet."""
_MOST_RETOLD = 2000
"""Lines that wait until those are read that tell it first, and whose it is."""
_OWN = re.compile(rb"log_channel\(|get_health_metrics |slow operation observed")
"""In what daemons say, and the cluster's log has not."""
_USUAL = b" : cluster [WRN] slow request osd_op(client."
_MANY = 500
"""Lines at once: fewer are read in less time than NumPy is imported."""
_AT_ONCE = 1 << 14
_MOST_PARTS = 1000
"""Into which lines of other files cut them: each has a kilobyte of its own."""
_BY_OSD = re.compile(rb"\S+(?: [\d:.]+)? osd\.\d{1,5} \(osd\.")
_MARGIN = 60.0
"""Seconds: lines are almost in the order of time."""
_SHOWN = 5
_TELLING = re.compile(
    rb"(?m) : (?:cluster )?(?:\[(?:INF|WRN|ERR|DBG|SEC)\]|\d ) ?|"
    rb"^\S*(?: [\d:.]+)? (?:mon|osd|mgr)\.\S+ \[(?:INF|WRN|ERR|DBG)\]|"
    rb"log_channel\(cluster\)|\bosd\.\d{1,6} (?:\d+ |pg_epoch)|\bblue(?:store|fs)|\bfilestore\(|\bbdev\(|"
    rb"^(?:\(MUTED\) )?\[(?:WRN|ERR)\] [A-Z_]+: |\bceph-osd\b|\(leader\)|\bHEALTH_(?:OK|WARN|ERR)\b"
)
"""In logs that would have slow requests in them: the cluster's, an OSD's, a leading monitor's."""
_OF_MDS = re.compile(rb"\bceph-mds|\bmds[.@-]|-mds[.@-]")
_AUDIT = re.compile(rb" : audit \[| : audit \d|log_channel\(audit\)")


@dataclass
class LogReading:
    """What was read: of the cluster's logs, of OSDs' own, and of what OSDs remember."""

    cluster: Counts
    own: Counts
    dumped: Counts
    clock: LogClock
    since: float | None = None
    until: float | None = None
    """Seconds since the epoch; lines before and after do not count."""
    bytes: int = 0
    missed: int = 0
    """Lines about slow requests that are not understood,"""
    examples: list[str] = field(default_factory=list)
    """and the first few of them."""
    foreign: list[str] = field(default_factory=list)
    """Files in which nothing looks like a line of Ceph's logs,"""
    empty: list[str] = field(default_factory=list)
    """those without a byte,"""
    silent: list[str] = field(default_factory=list)
    """and logs of Ceph that never have slow requests: of audits, of other daemons."""
    outside: list[str] = field(default_factory=list)
    """Files without a line of the time that is asked for."""
    unattributed: list[str] = field(default_factory=list)
    """Files that do not tell whose they are."""
    telling: int = 0
    """Files in which slow requests would be."""

    @classmethod
    def nothing(cls, clock: LogClock | None = None, width: float = MINUTE) -> LogReading:
        """``width``: of an interval, in seconds."""
        return cls(Counts(width), Counts(width), Counts(width), clock or LogClock())

    @property
    def is_all_asked(self) -> bool:
        return self.since is None and self.until is None

    def counts(self, *, is_own: bool) -> Counts:
        return self.own if is_own else self.cluster

    def is_asked(self, time: float) -> bool:
        return (self.since is None or time >= self.since) and (self.until is None or time <= self.until)


_InOrder = SlowRequest | SlowCount | Oldest
"""How these count depends on those before; whatever else a line tells counts at once."""


@frozen
class _Line:
    """A line of a file."""

    event: _InOrder
    is_own: bool
    is_repeated: bool


class _Counting:
    """Counts what files say, in its order; but for usual requests, which count many at once as far as no line between
    them changes how they do.
    """

    def __init__(self, reading: LogReading) -> None:
        self._reading = reading
        self._waiting: list[RequestColumns] = []
        self._number = 0

    def add(self, piece: _Line | RequestColumns) -> None:
        if isinstance(piece, _Line):
            if not piece.is_own:
                self.finish()
            self._reading.counts(is_own=piece.is_own).add(piece.event, is_repeated=piece.is_repeated)
            return
        self._waiting.append(piece)
        self._number += len(piece.times)
        if self._number >= _AT_ONCE or len(self._waiting) >= _MOST_PARTS:
            self.finish()

    def finish(self) -> None:
        if self._waiting:
            self._reading.cluster.add_all(self._waiting[0].together(self._waiting))
        self._waiting, self._number = [], 0


def read(paths: Sequence[Path], progress: Callable[[int], None], reading: LogReading) -> LogReading:
    """All files in the order of time, as counts need it: a line that two files have comes twice at once, and counts
    once. Raises ``UnreadableLog``.
    """
    begins = {path: _first_time(path, reading.clock) for path in paths}
    waiting = sorted(paths, key=lambda path: begins[path] or 0.0, reverse=True)
    heap: list[tuple[float, int, _Line | RequestColumns, Iterator[_Line | RequestColumns]]] = []
    number = 0
    is_small = len(paths) > 1 or not reading.is_all_asked
    size = _SMALL_BLOCK if is_small else _BLOCK

    def push(pieces: Iterator[_Line | RequestColumns], at: float, number: int) -> None:
        for each in pieces:
            time = each.event.time if isinstance(each, _Line) else float(each.times[0])
            heapq.heappush(heap, (time or at, number, each, pieces))
            return

    counting = _Counting(reading)
    while waiting or heap:
        while waiting and (not heap or ((begins[waiting[-1]] or 0.0) <= heap[0][0] and len(heap) < _MOST_OPEN)):
            path = waiting.pop()
            number += 1
            push(_file(path, begins[path], reading, progress, size), 0.0, number)
        if not heap:
            continue
        at, which, piece, rest = heapq.heappop(heap)
        if isinstance(piece, _Line):
            counting.add(piece)
            push(rest, at, which)
            continue
        # Only those before whatever another file says.
        next_ = min(heap[0][0] if heap else inf, begins[waiting[-1]] or 0.0 if waiting else inf)
        now, later = piece.split(next_)
        counting.add(now)
        if later is None:
            push(rest, float(now.times[-1]), which)
        else:
            heapq.heappush(heap, (float(later.times[0]), which, later, rest))
    counting.finish()
    return reading


def _first_time(path: Path, clock: LogClock) -> float | None:
    with opened(path) as stream:
        begin = stream.read(_BEGIN)
    clock.until = path.stat().st_mtime
    form = form_of(begin)
    for line in plain(begin.split(b"\n"), form) if form != "lines" else begin.split(b"\n"):
        time = time_of(line[:600], clock)
        if time is not None:
            return time
    return None


def time_of(line: bytes, clock: LogClock) -> float | None:
    """None where it has none."""
    entry = unwrap(line)
    was_used, was_guessed, until = clock.is_used, clock.is_guessed, clock.until
    try:
        if entry.is_dated:
            return clock.time(entry.text)
        time = clock.around(entry.head or line)
        return None if clock.is_guessed and not was_guessed else time
    except ValueError:
        return None
    finally:
        clock.is_used, clock.is_guessed, clock.until = was_used, was_guessed, until


def _file(
    path: Path, begin: float | None, reading: LogReading, progress: Callable[[int], None], size: int
) -> Iterator[_Line | RequestColumns]:
    """Its lines of interest."""
    before, is_of_interest, latest = reading.bytes, False, 0.0
    owner = _Owner(osd_of_file(path.name), is_of_mds=bool(_OF_MDS.search(path.name.encode())))
    mtime = path.stat().st_mtime
    begins = b""
    with opened(path) as stream:
        begins = stream.read(_BEGIN)
    form = form_of(begins)
    place = 0
    if reading.since is not None and begin is not None and form == "lines":
        place = _place(path, reading.since - _MARGIN, reading.clock)
    with opened(path, place=place) as stream:
        blocks = _blocks(stream, reading, progress, size, form)
        waiting: list[bytes] = []
        for block in blocks:
            if reading.until is not None and form == "lines":
                first = time_of(block[: block.find(b"\n")][:600], reading.clock)
                if first is not None and first > reading.until + _MARGIN:
                    break
            if reading.since is not None:
                latest = max(latest, _last_time(block, reading.clock) or latest)
            places = places_in(block)
            is_of_interest |= bool(places)
            if len(places) >= _MANY and (columns := _columns(block)):
                yield from owner.all_said(_usual(waiting, reading.clock), reading, mtime)
                waiting = []
                yield from owner.all_said(columns.of_block(block, places, _LONGEST, reading.clock), reading, mtime)
                continue
            waiting += lines(block, _LONGEST, places)
            if sum(map(len, waiting)) >= size:
                yield from owner.all_said(_usual(waiting, reading.clock), reading, mtime)
                waiting = []
        yield from owner.all_said(_usual(waiting, reading.clock), reading, mtime)
        yield from owner.finish(reading)
    name = printable(str(path))
    if begin is not None and (
        (reading.since is not None and latest < reading.since)
        or (reading.until is not None and begin > reading.until)
    ):
        reading.outside.append(name)
        return
    if owner.is_unattributed:
        reading.unattributed.append(name)
    if not is_of_interest and begin is None and not _TELLING.search(begins):
        (reading.empty if reading.bytes == before else reading.foreign).append(name)
    elif (
        owner.understood
        or owner.missed
        or (_TELLING.search(begins) and not (_AUDIT.search(begins) and not _other(begins)))
    ):
        reading.telling += 1
    else:
        reading.silent.append(name)


def _usual(lines: Sequence[bytes], clock: LogClock) -> _Parted:
    """By columns where there are many."""
    if len(lines) >= _MANY and (columns := _columns(*lines)):
        parts: _Parted = columns.requests(lines, clock)
        return parts
    return None, [(0, line) for line in lines]


def _columns(*texts: bytes) -> ModuleType | None:
    """What reads usual requests, where there are some."""
    if any(_USUAL in text for text in texts):
        with suppress(ImportError):  # NumPy may not be installed: so each line is read for itself
            from plimsoll_insight.slow import columns

            return columns
    return None


def _of_time(usual: RequestColumns, reading: LogReading) -> Iterator[RequestColumns]:
    requests = usual if reading.is_all_asked else usual.select([*map(reading.is_asked, usual.times.tolist())])
    if len(requests.times):
        yield requests


def _last_time(block: bytes, clock: LogClock) -> float | None:
    """Of the last lines that have one."""
    for line in reversed(block[-_LONGEST:].rstrip().split(b"\n")[-20:]):
        time = time_of(line[:600], clock)
        if time is not None:
            return time
    return None


def _other(begin: bytes) -> bool:
    """Whether there is more than the monitors' record of commands."""
    return bool(re.search(rb" : cluster (?:\[|\d)|log_channel\(cluster\)", begin))


def _blocks(
    stream: BinaryIO, reading: LogReading, progress: Callable[[int], None], size: int, form: str
) -> Iterator[bytes]:
    """Whole lines; of other forms, its entries as lines."""
    if form != "lines":
        parts: list[bytes] = []
        for line in plain((line for block in _whole(stream, reading, progress, size) for line in
                           block.splitlines(keepends=True)), form):  # fmt: skip
            parts.append(line if line.endswith(b"\n") else line + b"\n")
            if len(parts) >= 1000:
                yield b"".join(parts)
                parts = []
        yield b"".join(parts)
        return
    yield from _whole(stream, reading, progress, size)


def _whole(stream: BinaryIO, reading: LogReading, progress: Callable[[int], None], size: int) -> Iterator[bytes]:
    rest, is_cut = b"", False
    while block := stream.read(size):
        reading.bytes += len(block)
        end = block.rfind(b"\n") + 1
        if end:
            begin = block.find(b"\n") + 1 if is_cut else 0
            # In one step: a block is copied once.
            yield b"".join((rest, memoryview(block)[begin:end]))
            rest, is_cut = block[end:], False
        elif not is_cut:
            rest += block
        if len(rest) > _LONGEST:
            rest, is_cut = b"", True
        progress(reading.bytes)
    if rest and not is_cut:
        yield rest + b"\n"


def _place(path: Path, since: float, clock: LogClock) -> int:
    """Where in a file in the order of time that moment is; 0 of one that is compressed. By bisection."""
    with path.open("rb") as file:
        if file.read(4).startswith((b"\x1f\x8b", b"\x28\xb5\x2f\xfd")):
            return 0
        low, high = 0, file.seek(0, 2)
        while high - low > _SMALL_BLOCK:
            middle = (low + high) // 2
            file.seek(middle)
            begin = file.read(_BEGIN)
            times = (time_of(line[:600], clock) for line in begin.split(b"\n")[1:-1])
            time = next((each for each in times if each is not None), None)
            if time is None or time >= since:
                high = middle
            else:
                low = middle
        file.seek(low)
        return low + len(file.readline()) if low else 0


class _Owner:
    """Whose lines those of a file are: as a line of the same process or thread says, else the only OSD of which lines
    speak, else as the file's name says.
    """

    def __init__(self, by_name: int | None, *, is_of_mds: bool) -> None:
        self._by_name, self._is_of_mds = by_name, is_of_mds and by_name is None
        self._of: dict[bytes, int] = {}
        self._osds: set[int] = set()
        """Of which lines speak."""
        self._retold: list[bytes] = []
        self._waiting: defaultdict[bytes, list[bytes]] = defaultdict(list)
        self._number = 0
        self.is_unattributed = False
        self.understood = self.missed = 0
        """Lines that tell something, and those that are not understood."""

    def all_said(self, lines: _Parted, reading: LogReading, until: float) -> Iterator[_Line | RequestColumns]:
        """What lines of a file that was written ``until`` then say."""
        usual, others = lines
        first = 0
        for number, line in others:
            reading.clock.until = until
            entry = unwrap(line)
            if (
                entry.osd is None
                and (self._is_of_mds or _OF_MDS.search(entry.head))
                and not _BY_OSD.match(entry.text)
            ):
                continue  # its requests are those of files
            osd = entry.osd if entry.osd is not None else self._of.get(entry.who, self._by_name)
            if entry.is_retold and len(self._retold) < _MOST_RETOLD:
                self._retold.append(line)
                continue
            if entry.is_retold:
                yield from self._recall(line, None, reading)
                continue
            event = event_of(entry, osd, reading.clock)
            if usual is not None and number > first and (event is None or isinstance(event, _InOrder)):
                yield from _of_time(usual.part(first, number), reading)
                first = number
            is_own = not entry.is_dated or bool(_OWN.search(entry.text))
            if isinstance(event, Oldest):
                self._osds.add(event.osd)
            if isinstance(event, Oldest) and entry.who and entry.who not in self._of:
                self._of[entry.who] = event.osd
                for waiting in self._waiting.pop(entry.who, ()):
                    yield from self._recall(waiting, event.osd, reading)
            if event is None and is_own and osd is None and self._number < _MOST_WAITING:
                self._number += 1
                self._waiting[entry.who].append(line)
                continue
            yield from self._count(event, line, reading, is_own=is_own, is_repeated=entry.is_repeated)
        if usual is not None:
            self.understood += len(usual.times)
            yield from _of_time(usual.part(first), reading)

    def finish(self, reading: LogReading) -> Iterator[_Line]:
        """Those of which no line of the same process tells whose they are."""
        whose = min(self._osds) if len(self._osds) == 1 else None
        for waiting in self._waiting.values():
            for line in waiting:
                yield from self._recall(line, whose, reading)
        for line in self._retold:
            yield from self._recall(line, None, reading)

    def _recall(self, line: bytes, osd: int | None, reading: LogReading) -> Sequence[_Line]:
        entry = unwrap(line)
        event = event_of(entry, UNKNOWN_OSD if osd is None else osd, reading.clock)
        if osd is None and (entry.is_retold or len(self._osds) > 1) and isinstance(event, SlowCount):
            event = _at_once(event)
        if osd is None and not entry.is_retold and isinstance(event, _InOrder):
            self.is_unattributed = True
        return self._count(event, line, reading, is_own=True, is_repeated=entry.is_repeated)

    def _count(
        self, event: Event | None, line: bytes, reading: LogReading, *, is_own: bool, is_repeated: bool
    ) -> Sequence[_Line]:
        """Counts it, but for what counts in order."""
        if event is None:
            reading.missed += 1
            self.missed += 1
            if len(reading.examples) < _SHOWN:
                reading.examples.append(printable(line[:200].decode("utf-8", "replace")))
            return ()
        self.understood += type(event) is not Known
        if isinstance(event, Known) or reading.is_asked(event.time):
            if isinstance(event, _InOrder):
                return (_Line(event, is_own, is_repeated),)
            reading.counts(is_own=is_own).add(event, is_repeated=is_repeated)
        return ()


def _at_once(count: SlowCount) -> MonitorReport:
    """Of one OSD of several: which lines are of the same one is unknown, and so is how its number has grown."""
    return MonitorReport(count.time, (), 0.0, count.number)
