"""Whose lines those of a log are, and what they say."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from plimsoll_agent.util.frozen import frozen
from plimsoll_insight.slow.events import (
    UNKNOWN_OSD,
    Event,
    Known,
    MonitorReport,
    Muted,
    OfOthers,
    Oldest,
    SlowCount,
    SlowRequest,
    event_of,
)
from plimsoll_insight.slow.log_reading import LogReading
from plimsoll_insight.slow.wrapped import OF_MDS, WrappedEntry, unwrap

if TYPE_CHECKING:
    from plimsoll_insight.slow.columns import RequestColumns

    Parted = tuple[RequestColumns | None, Sequence[tuple[int, bytes]]]
    """Usual requests, and the other lines with the number of requests before them."""

_MOST_WAITING = 100_000
"""Lines of a file whose owner is not read yet."""
_MOST_RETOLD = 2000
"""Lines that wait until those are read that tell it first, and whose it is."""
_OWN = re.compile(rb"log_channel\(|get_health_metrics |slow operation observed|slow aio_wait|stalled (?:read|aio) ")
"""In what daemons say, and the cluster's log has not."""
_BY_OSD = re.compile(rb"\S+(?: [\d:.]+)? osd\.\d{1,5} \(osd\.")
_TOLD_BY_OTHERS = re.compile(rb"\bosd\.\d{1,5} \d{1,9} |\bHealth (?:check|detail)|\boverall HEALTH_")
"""No MDS says that: its name is a host's, then."""
_SUM = re.compile(rb"(?:^|log_channel\(cluster\) log (?:\[\w+\]|\d) : )\d{1,9} slow requests, \d{1,9} included below")
"""Of an OSD until Mimic, or of an MDS."""
_InOrder = SlowRequest | SlowCount | Oldest
"""How these count depends on those before; whatever else a line tells counts at once."""


@frozen
class LogEvent:
    """A line that says something."""

    event: _InOrder
    is_own: bool
    is_repeated: bool


def _of_time(usual: RequestColumns, reading: LogReading) -> Iterator[RequestColumns]:
    requests = usual if reading.is_all_asked else usual.select([*map(reading.is_asked, usual.times.tolist())])
    if len(requests.times):
        yield requests


class LineOwner:
    """Whose lines those of a file are: as a line of the same process or thread says, else the only OSD of which lines
    speak, else as the file's name says.
    """

    def __init__(self, by_name: int | None, until: float, *, is_of_mds: bool) -> None:
        """Of a file that was written ``until`` then."""
        self._by_name, self._is_of_mds = by_name, is_of_mds and by_name is None
        self._until = until
        self._of: dict[bytes, int] = {}
        self._osds: set[int] = set()
        """Of which lines speak."""
        self._retold: list[bytes] = []
        self._waiting: defaultdict[bytes, list[bytes]] = defaultdict(list)
        self._of_mds: set[bytes] = set()
        """Threads that tell of requests to files: their sums have the same words as those of OSDs until Mimic."""
        self._number = 0
        self._muted: bytes | None = None
        """A line that names muted checks, as long as none tells what they are."""
        self._has_muted = False
        self.is_unattributed = False
        self.may_be_of_mds = False
        """Whether there are sums that may be of requests to files."""
        self.understood = self.missed = 0
        """Lines that tell something, and those that are not understood."""

    def all_said(self, lines: Parted, reading: LogReading) -> Iterator[LogEvent | RequestColumns]:
        """What lines of the file say."""
        usual, others = lines
        first = 0
        for number, line in others:
            reading.clock.until = self._until
            entry = unwrap(line)
            if entry.osd is None and self._is_of_an_mds(entry):
                continue  # its requests are those of files
            osd = entry.osd if entry.osd is not None else self._of.get(entry.who)
            if osd is None and (self._number >= _MOST_WAITING or not entry.who.endswith(b"]")):
                osd = self._by_name  # but for a process, of which a later line may tell
            if entry.is_retold:
                yield from self._retell(line, reading)
                continue
            event = event_of(entry, osd, reading.clock)
            if usual is not None and number > first and (event is None or isinstance(event, _InOrder)):
                yield from _of_time(usual.part(first, number), reading)
                first = number
            is_own = not entry.is_dated or bool(_OWN.search(entry.text))
            if isinstance(event, OfOthers) and not event.monitors and is_own and entry.who:
                self._of_mds.add(entry.who)
            if isinstance(event, Oldest):
                yield from self._own(event.osd, entry.who, reading)
            if event is None and is_own and osd is None and self._number < _MOST_WAITING:
                self._number += 1
                self._waiting[entry.who].append(line)
                continue
            yield from self._count(event, line, reading, is_own=is_own, is_repeated=entry.is_repeated)
        if usual is not None:
            self.understood += len(usual.times)
            yield from _of_time(usual.part(first), reading)

    def finish(self, reading: LogReading) -> Iterator[LogEvent]:
        """Those of which no line of the same process tells whose they are."""
        whose = min(self._osds) if len(self._osds) == 1 else None
        if not self._osds or self._by_name in self._osds:
            whose = self._by_name
        for who, waiting in self._waiting.items():
            self.may_be_of_mds |= who in self._of_mds
            for line in waiting if who not in self._of_mds else ():
                yield from self._recall(line, whose, reading)
        for line in self._retold:
            yield from self._recall(line, None, reading)
        if self._muted is not None and not self._has_muted:
            self._miss(self._muted, reading)

    def _is_of_an_mds(self, entry: WrappedEntry) -> bool:
        begin = entry.text[:600]
        if entry.is_of_mds is not None:
            return entry.is_of_mds and not _BY_OSD.match(begin) and not _TOLD_BY_OTHERS.search(begin)
        if not (_SUM.search(begin) and (self._is_of_mds or OF_MDS.search(entry.head))):
            return False
        self.may_be_of_mds = True
        return True

    def _own(self, osd: int, who: bytes, reading: LogReading) -> Iterator[LogEvent]:
        """What lines said before of which this one tells whose they are."""
        self._osds.add(osd)
        if who and who not in self._of:
            self._of[who] = osd
            for line in self._waiting.pop(who, ()):
                yield from self._recall(line, osd, reading)

    def _retell(self, line: bytes, reading: LogReading) -> Sequence[LogEvent]:
        if len(self._retold) < _MOST_RETOLD:
            self._retold.append(line)
            return ()
        return self._recall(line, None, reading)

    def _recall(self, line: bytes, osd: int | None, reading: LogReading) -> Sequence[LogEvent]:
        reading.clock.until = self._until  # other files are read in between
        entry = unwrap(line)
        event = event_of(entry, UNKNOWN_OSD if osd is None else osd, reading.clock)
        if osd is None and (entry.is_retold or len(self._osds) > 1) and isinstance(event, SlowCount):
            event = _at_once(event)
        if osd is None and not entry.is_retold and isinstance(event, _InOrder):
            self.is_unattributed = True
        return self._count(event, line, reading, is_own=True, is_repeated=entry.is_repeated)

    def _count(
        self, event: Event | None, line: bytes, reading: LogReading, *, is_own: bool, is_repeated: bool
    ) -> Sequence[LogEvent]:
        """Counts it, but for what counts in order."""
        if event is None:
            self._miss(line, reading)
            return ()
        if isinstance(event, Muted):
            self._muted = line
        elif isinstance(event, OfOthers):
            reading.note(event)
        self._has_muted |= b"(MUTED" in line
        self.understood += not isinstance(event, Known)
        if isinstance(event, Known) or reading.is_asked(event.time):
            if isinstance(event, _InOrder):
                return (LogEvent(event, is_own, is_repeated),)
            reading.counts(is_own=is_own).add(event, is_repeated=is_repeated)
        return ()

    def _miss(self, line: bytes, reading: LogReading) -> None:
        reading.miss(line[:200].decode("utf-8", "replace").strip())
        self.missed += 1


def _at_once(count: SlowCount) -> MonitorReport:
    """Of one OSD of several: which lines are of the same one is unknown, and so is how its number has grown."""
    return MonitorReport(time=count.time, osds=(), age=0.0, number=count.number)
