"""Completions in time: which requests completed in which window, by a log, fio's JSON or a probe.

A row of a histogram log holds the requests that completed since the row before it, and its time is the end of that.
fio writes a row with the first request that completes after ``log_hist_msec``, and counts the next interval from
where this one should have ended (iolog.c, ``add_clat_sample``). So of a row that comes late, after a stall, only the
request that ended it completed at its time; the others had completed before the row was due. No row says when: they
are taken to have completed before the request began that ended the row, and that one to be the slowest. Those in the
last bucket cannot have completed before: they are taken to have waited since the last completion that the log knows
of. The first interval of a direction begins with its first completion.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from plimsoll_agent.errors import CannotTell, PlimsollError
from plimsoll_agent.util.frozen import frozen, replace
from plimsoll_agent.util.text import printable
from plimsoll_insight.files.packed import UnreadableLog, opened
from plimsoll_insight.hist.records import DIRECTIONS, Ints, RecordReader, Records, Unread
from plimsoll_insight.hist.scale import SCALES, Floats, Scale
from plimsoll_insight.hist.sources import LogSource, is_of_client
from plimsoll_probes.model.histogram import Histogram

_LATE = 1.5
"""A row is late when it ends so many intervals after the one before it."""
_EPOCH_MS = 10**11
"""Times from here on are of the Unix epoch (fio's log_unix_epoch): 1973; no run takes three years."""
_WITHIN = 10
_LEAST_UPTIME_MS = 60_000
_JSON_MOST = 8 << 20
_INFLATE = "fio compressed it (log_store_compressed): fio --inflate-log={} > NAME_clat_hist.1.log"
_LOST_NS = 786_432
"""What takes so long, or longer, fio 3.6 to 3.16 leave out of their logs: they copy half of the buckets, and have for
the others what is in memory (its commits 6cc0e5aa and 1fb9250b).
"""
_LEAST_ROWS = 4
"""Of a direction: fewer do not prove that a server subtracted them."""
_JSON_PARTS = 100_000
"""Objects and lists: what takes much memory for few bytes."""


@dataclass(frozen=True, eq=False)
class FlowWindows:
    """Requests of one direction, as arrays: windows after ``begin_ms`` until ``end_ms``, and counts in them."""

    scale: Scale
    direction: int
    begin_ms: Floats
    end_ms: Floats
    window: Ints
    column: Ints
    count: Ints
    since_ms: Floats | None = None
    """Of each window, since when its requests waited, where their bucket does not tell."""


@dataclass(frozen=True)
class LogExtent:
    """What a first look at a file tells."""

    first_ms: int
    last_ms: int
    interval_ms: int
    scales: frozenset[Scale]
    rows: tuple[int, ...]
    """Of each direction."""
    unread: Unread
    directions: frozenset[int]
    """Those of which a request completed."""
    is_ordered: bool = True
    """No row is earlier than the one before it of its direction."""
    damaged: str = ""
    """Why the file could be read to some place only."""
    is_subtracted: bool = False
    """Of ``fio --client``, whose server subtracts from each row what it sent as the one before: undone here."""
    may_be_subtracted: bool = False
    """The same, and the counts do not tell whether it did."""
    longest_ns: float = float("inf")
    """The lower edge of the last column with a count, where fio counted in nanoseconds."""
    simultaneous: int = 0
    """So many jobs of fio's JSON are taken to have begun together, as it does not tell when."""

    @property
    def may_be_cut(self) -> bool:
        """Its last count is just below what fio 3.6 to 3.16 leave out."""
        return _LOST_NS / 2 <= self.longest_ns < _LOST_NS

    @property
    def is_of_epoch(self) -> bool:
        return self.first_ms >= _EPOCH_MS

    @property
    def is_of_machine(self) -> bool:
        """Times since the machine's start (log_alternate_epoch_clock_id): it was long before that of the log."""
        span = max(self.last_ms - self.first_ms, self.interval_ms)
        return not self.is_of_epoch and self.first_ms > max(_WITHIN * span, _LEAST_UPTIME_MS)

    @property
    def begin_ms(self) -> int:
        return self.first_ms - self.interval_ms if self.is_of_epoch or self.is_of_machine else 0


class NoHistograms(UnreadableLog, CannotTell):
    """A file was read, and there is no histogram in it that is understood."""


def survey(source: LogSource) -> LogExtent:
    """Raises ``NoHistograms``, and ``UnreadableLog`` where the file cannot be read."""
    if source.path.suffix == ".fz":
        raise NoHistograms(f"{_name(source)}: {_INFLATE.format(_name(source))}")
    if _is_json(source):
        jobs = _json(source)
        present = frozenset(flow.direction for flow in jobs.flows)
        return LogExtent(0, jobs.last_ms, jobs.longest_ms, frozenset({_whole()}), (), Unread(), present,
                         simultaneous=jobs.simultaneous)  # fmt: skip
    first = last = None
    scales: set[Scale] = set()
    directions: set[int] = set()
    steps: list[int] = []
    rows = [0] * len(DIRECTIONS)
    lasts = [0] * len(DIRECTIONS)
    is_ordered = True
    empty, longest_ns = 0, 0.0
    damages: list[str] = []
    proof = _Proof() if is_of_client(source.path) else None
    with opened(source.path, damages.append) as stream:
        reader = RecordReader(stream)
        for records in reader:
            if proof is not None:
                proof.add(records)
            scales.add(records.scale)
            empty += len(records.time_ms) - int(np.count_nonzero(np.bincount(records.row)))
            longest_ns = max(longest_ns, _longest_ns(records))
            directions.update(np.flatnonzero(np.bincount(records.direction[records.row])).tolist())
            for direction in range(len(DIRECTIONS)):
                if len(times := records.time_ms[records.direction == direction]):
                    is_ordered &= bool(times[0] >= lasts[direction] and (np.diff(times) >= 0).all())
                    rows[direction] += len(times)
                    lasts[direction] = int(times[-1])
            first = int(records.time_ms.min()) if first is None else min(first, int(records.time_ms.min()))
            last = max(last or 0, int(records.time_ms.max()))
            if len(steps) < 2:
                steps += _steps(records)
    if first is None or last is None or not directions:
        why = "no row of a histogram log in it; fio writes them with write_hist_log"
        if first is not None:
            why = "its rows count no request, as those of fio with clat_percentiles=0 or of 3.6 to 3.16; use its JSON"
        raise NoHistograms(f"{_name(source)}: {damages[0] if damages else why}")
    if empty and longest_ns < _LOST_NS:
        raise NoHistograms(
            f"{_name(source)}: {empty} of its {sum(rows)} rows count no request, and fio writes one when a request"
            " ends: fio 3.6 to 3.16 leave out what takes 0.79 ms or longer; take fio's JSON"
        )
    return LogExtent(first, last, _interval(steps, first), frozenset(scales), tuple(rows), reader.unread,
                  frozenset(directions), is_ordered, "".join(damages),
                  proof is not None and proof.is_proven, proof is not None and proof.is_open, longest_ns)  # fmt: skip


def _longest_ns(records: Records) -> float:
    if records.scale.unit > 1:
        return float("inf")
    return float(records.scale.edges()[records.column.max()]) if len(records.column) else 0.0


class _Proof:
    """Whether a server subtracted rows in place, so that each has what the row two before has, and more.

    fio sends a row as what was added to a sum, and keeps the difference as the sum (``client.c``, ``server.c``). Of
    rows that are right some column falls from one row to the one two after, unless there are very few requests.
    """

    def __init__(self) -> None:
        self._last: dict[int, list[Ints]] = {}
        self._rows: dict[int, int] = {}
        self._falls = self._grows = False

    def add(self, records: Records) -> None:
        for direction, now in _dense(records):
            two = self._last.setdefault(direction, [])
            if len(two) == 2:
                more = now - two[0]
                self._falls |= bool((more < 0).any())
                self._grows |= bool((more > 0).any())
            self._last[direction] = [*two[-1:], now]
            self._rows[direction] = self._rows.get(direction, 0) + 1

    @property
    def is_proven(self) -> bool:
        return not self._falls and self._grows and max(self._rows.values(), default=0) >= _LEAST_ROWS

    @property
    def is_open(self) -> bool:
        return not self._falls and not self.is_proven and max(self._rows.values(), default=0) > 1


def _dense(records: Records) -> Iterator[tuple[int, Ints]]:
    """Each row's direction, and all its columns."""
    borders = np.searchsorted(records.row, np.arange(len(records.time_ms) + 1))
    for number, direction in enumerate(records.direction.tolist()):
        row = np.zeros(records.scale.columns, np.int64)
        part = slice(borders[number], borders[number + 1])
        row[records.column[part]] = records.count[part]
        yield direction, row


class _Differences:
    """Rows without what the row two before has."""

    def __init__(self) -> None:
        self._last: dict[int, list[Ints]] = {}

    def __call__(self, records: Records) -> Records:
        rows: list[Ints] = []
        for direction, now in _dense(records):
            two = self._last.setdefault(direction, [])
            rows.append(now - two[0] if len(two) == 2 else now)
            self._last[direction] = [*two[-1:], now]
        table = np.array(rows)
        row, column = np.nonzero(table)
        return replace(records, row=row, column=column, count=table[row, column])


class Log:
    """The requests of a file, from one part of the time to the next: what lies before is not parsed again."""

    def __init__(self, source: LogSource, extent: LogExtent) -> None:
        self._source, self._extent = source, extent
        start = extent.begin_ms
        self._begin = _Mark(float("-inf"), 0, tuple(_State(start, rows) for rows in extent.rows))
        self._mark = self._begin

    def flows(self, begin_ms: float, next_ms: float, end_ms: float) -> Iterator[FlowWindows]:
        """All that count from ``begin_ms`` until ``end_ms``, and some besides. The next part begins at ``next_ms``.
        Raises ``UnreadableLog``.
        """
        if _is_json(self._source):
            yield from _json(self._source).flows
            return
        next_ms, end_ms = next_ms - self._source.offset_ms, end_ms - self._source.offset_ms
        mark = self._mark if self._mark.next_ms <= begin_ms else self._begin
        states = _copies(mark.known)
        with opened(self._source.path, lambda _: None, mark.place) as stream:
            reader = RecordReader(stream)
            place = -1
            differences = _Differences()
            for records in reader:
                if self._extent.is_subtracted:
                    records = differences(records)
                if reader.place != place and self._extent.is_ordered and not self._extent.is_subtracted:
                    place = reader.place
                    if all(each.end_ms <= next_ms for each in states):
                        self._mark = _Mark(next_ms + self._source.offset_ms, mark.place + place, _copies(states))
                    if all(each.is_past(end_ms) for each in states):
                        return
                for direction, state in enumerate(states):
                    rows = np.flatnonzero(records.direction == direction)
                    if len(rows):
                        yield from _windows(records, direction, rows, state, self._extent.interval_ms, self._source)


def of_histogram(direction: int, begin_ms: float, end_ms: float, latency: Histogram) -> FlowWindows:
    """Requests that completed some time in a window."""
    columns, counts = (np.array(each, np.int64) for each in zip(*latency.buckets, strict=True))
    zeros = np.zeros(len(columns), np.int64)
    return FlowWindows(_whole(), direction, np.array([begin_ms]), np.array([end_ms]), zeros, columns, counts)


@dataclass
class _State:
    """What the rows before tell of one direction."""

    end_ms: float
    """Of the last row, or when the log began."""
    left: int
    """Rows that are still to come."""
    is_first: bool = True
    late_ends: Floats = field(default_factory=lambda: np.empty(0))
    """When rows came late: their ends,"""
    late_since: Floats = field(default_factory=lambda: np.empty(0))
    """and the last completion before each."""

    def is_past(self, moment_ms: float) -> bool:
        """No row that comes tells of anything before: of those after a late one, requests may have waited as long."""
        return not self.left or (self.end_ms > moment_ms and not (self.late_since < moment_ms).any())


@dataclass(frozen=True)
class _Mark:
    """A place in a file, and what the rows before it tell, all of which ended by ``next_ms``."""

    next_ms: float
    place: int
    known: tuple[_State, ...]


def _copies(states: Iterable[_State]) -> tuple[_State, ...]:
    return tuple(replace(each) for each in states)


def _windows(
    records: Records, direction: int, rows: Ints, state: _State, interval: int, source: LogSource
) -> Iterator[FlowWindows]:
    end = records.time_ms[rows].astype(np.float64)
    previous = max(state.end_ms, end[0] - interval) if state.is_first else state.end_ms
    begin = np.minimum(np.concatenate(([previous], end[:-1])), end)
    state.end_ms, state.is_first, state.left = float(end[-1]), False, state.left - len(rows)
    mine = (records.direction == direction)[records.row]
    window = (np.cumsum(records.direction == direction) - 1)[records.row[mine]]
    column, count = records.column[mine], records.count[mine]  # copies
    late = end - begin > _LATE * interval
    if late.any():
        late[np.bincount(window, minlength=len(rows)) == 0] = False
    offset = source.offset_ms
    until = np.where(late, begin + interval, end)
    longest = records.scale.columns - 1
    if late.any():
        # The slowest request is the last count of its row.
        slowest = np.searchsorted(window, np.flatnonzero(late), side="right") - 1
        row = window[slowest]
        ending = np.where(column[slowest] < longest, 1, 0)
        count[slowest] -= ending
        at, alone = end[row] + offset, np.arange(len(slowest))
        yield FlowWindows(records.scale, direction, at, at, alone, column[slowest], ending)
        began = end[row] - records.scale.midpoints()[column[slowest]] / 1e6
        until[row] = np.where((begin[row] < began) & (began < until[row]), began, until[row])
        others = np.bincount(window, count * (column < longest), len(rows))[row] > 0
        state.late_ends = np.concatenate((state.late_ends, end[row]))
        state.late_since = np.concatenate((state.late_since, np.where(others, until[row], begin[row])))
    if len(state.late_ends) and (overflow := np.flatnonzero(column == longest)).size:
        yield from _hold(records.scale, direction, end, np.where(late, end, begin), window, overflow, count, state,
                         offset)  # fmt: skip
    recent = state.late_ends >= state.end_ms - _longest_ms(records.scale)
    state.late_ends, state.late_since = state.late_ends[recent], state.late_since[recent]
    yield FlowWindows(records.scale, direction, begin + offset, until + offset, window, column, count)


def _hold(
    scale: Scale, direction: int, end: Floats, completions: Floats, window: Ints, overflow: Ints, count: Ints,
    state: _State, offset: int,
) -> Iterator[FlowWindows]:  # fmt: skip
    """Takes requests of the last bucket out of ``count`` that waited while a row was late: since the last completion
    before it, until its end or, of a row after it, the begin of that.
    """
    row = window[overflow]
    # Of the late rows, the first that ended while the request waited: it waited for this long at least.
    at_least = completions[row] - _longest_ms(scale)
    place = np.searchsorted(np.maximum.accumulate(state.late_ends), at_least)
    inside = place < len(state.late_ends)
    place = np.minimum(place, len(state.late_ends) - 1)
    inside &= state.late_ends[place] <= end[row]
    overflow, row = overflow[inside], row[inside]
    since = np.minimum(state.late_since[place], at_least)[inside]
    at = completions[row] + offset
    columns = np.full(len(row), scale.columns - 1)
    yield FlowWindows(scale, direction, at, at, np.arange(len(row)), columns, count[overflow], since + offset)
    count[overflow] = 0


def _longest_ms(scale: Scale) -> float:
    return float(scale.midpoints()[-1]) / 1e6


def _steps(records: Records) -> list[int]:
    return [
        int(step)
        for direction in range(len(DIRECTIONS))
        for step in np.diff(records.time_ms[records.direction == direction])
        if step > 0
    ]


def _interval(steps: list[int], first: int) -> int:
    """fio's log_hist_msec, which no log names: the middle of the times between rows, without those after a stall."""
    if not steps:
        return first if 0 < first < _EPOCH_MS else 1000
    # After a stall each request has a row; more than half of the time such rows cover little of it.
    lengths = np.sort(np.array(steps))
    coverage = np.cumsum(np.minimum(lengths, first if 0 < first < _EPOCH_MS else lengths[-1]))
    return int(lengths[np.searchsorted(coverage, coverage[-1] / 2)])


# --- fio's JSON+


_DOCUMENT = re.compile(r"^[ \t]*\{", re.MULTILINE)
_DIRECTORY_OF_JSON = 64 << 10


def _is_json(source: LogSource) -> bool:
    with opened(source.path, lambda _: None) as stream:
        begin = stream.read(_DIRECTORY_OF_JSON)
    if ".json" in source.path.suffixes or begin.lstrip().startswith(b"{"):
        return True
    # Text for people before it, with --output-format=normal,json+.
    return _DOCUMENT.search(begin.decode("utf-8", "replace")) is not None or b'"fio version"' in begin


@frozen(kw_only=True)
class _JsonJobs:
    """The requests of all jobs, the end of the last one, the longest, and ``LogExtent.simultaneous``."""

    flows: Sequence[FlowWindows]
    last_ms: int
    longest_ms: int
    simultaneous: int


def _json(source: LogSource) -> _JsonJobs:
    """Raises ``UnreadableLog``."""
    with opened(source.path) as stream:
        text = stream.read(_JSON_MOST + 1)
    if len(text) > _JSON_MOST:
        raise NoHistograms(f"{_name(source)}: more than {_JSON_MOST >> 20} MiB of JSON")
    try:
        if text.count(b"{") + text.count(b"[") > _JSON_PARTS:
            raise ValueError("too many parts")
        return _flows_of(_document(text.decode("utf-8", "replace")), source.offset_ms)
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, PlimsollError) as error:
        why = "no latencies of fio in it; they are there with --output-format=json+"
        if isinstance(error, _Together):
            why = "its directions are together (unified_rw_reporting); run fio without it"
        if isinstance(error, _Several):
            why = "several runs of fio in it, one after the other; give each in a file of its own"
        raise NoHistograms(f"{_name(source)}: {why}") from error


class _Together(ValueError):
    """No direction has requests of its own."""


class _Several(ValueError):
    """Runs of which only the last one would count."""


def _document(text: str) -> Mapping[str, Any]:
    """The last one of fio: with status-interval it prints all again, with what came since. Raises ``ValueError``.

    fio may print lines of errors first (its issue 1685), and text for people before and after.
    """
    decoder, place = json.JSONDecoder(), 0
    last: Mapping[str, Any] | None = None
    while (begin := _DOCUMENT.search(text, place)) is not None:
        try:
            document, place = decoder.raw_decode(text, begin.end() - 1)
        except ValueError:
            place = begin.end()
            continue
        if isinstance(document, dict) and ("jobs" in document or "client_stats" in document):
            if last is not None and _is_another_run(last, document):
                raise _Several("runs")
            last = document
    if last is None:
        raise ValueError("no document")
    return last


def _is_another_run(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Than that before: of other jobs, or begun after it. ``elapsed`` are the seconds of a run, and one more."""
    jobs = _jobs(now)
    begin = int(now.get("timestamp_ms") or 0) - 1000 * max((int(job.get("elapsed") or 0) for job in jobs), default=0)
    is_dated = "timestamp_ms" in now and all("elapsed" in job for job in jobs)
    names = [{str(job.get("jobname")) for job in _jobs(each)} for each in (before, now)]
    return not names[0] <= names[1] or (is_dated and begin > int(before.get("timestamp_ms") or begin))


def _jobs(document: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Those of ``fio --client`` without the sum of all, which is there where there are several."""
    jobs = [*(document.get("jobs") or ()), *(document.get("client_stats") or ())]
    alone = [job for job in jobs if job.get("jobname") != "All clients"]
    return alone or jobs


def _bins(part: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Of latencies of the same requests those from the submission to the completion, else of all their time."""
    for kind in ("clat_ns", "lat_ns"):
        bins = (part.get(kind) or {}).get("bins")
        if bins:
            return dict(bins)
    return None


def _flows_of(document: Mapping[str, Any], offset_ms: int) -> _JsonJobs:
    jobs = [(job, parts) for job in _jobs(document) if (parts := list(_parts(job)))]
    if not jobs and any(_bins(job.get("mixed") or {}) for job in _jobs(document)):
        raise _Together("mixed")
    if not jobs:
        raise ValueError("no bins")
    # One after another, with stonewall; fio 3.33 does not tell when each began.
    starts = [max(int(job.get("job_start") or 0), 0) for job, _ in jobs]
    first, last, longest, flows = min(starts), 0, 0, []
    for start, (_, parts) in zip(starts, jobs, strict=True):
        begin = start - first if first else 0
        for number, runtime, latency in parts:
            flows.append(of_histogram(number, offset_ms + begin, offset_ms + begin + runtime, latency))
            last, longest = max(last, begin + runtime), max(longest, runtime)
    if last >= _EPOCH_MS:
        raise ValueError("no times of one run")
    return _JsonJobs(
        flows=flows, last_ms=last, longest_ms=longest, simultaneous=0 if first or len(jobs) == 1 else len(jobs)
    )


def _parts(job: Mapping[str, Any]) -> Iterator[tuple[int, int, Histogram]]:
    """Of each direction with requests: how long it ran in ms, and their latencies."""
    for number, direction in enumerate(DIRECTIONS):
        part = job.get(direction) or {}
        if bins := _bins(part):
            runtime = int(part["runtime"])
            latency = Histogram.from_midpoints({int(middle): count for middle, count in bins.items()})
            if latency.buckets and 0 < runtime < _EPOCH_MS:
                yield number, runtime, latency


def _name(source: LogSource) -> str:
    return printable(str(source.path))


def _whole() -> Scale:
    return SCALES[29 << 6]
