"""The cause of a disk's slowness, and its arithmetic. The set is closed; the docs repeat these rules.

An interval is **slow** where the disk was at limit, or its requests took three times as long as those of the median
disk of its type usually do, and 10 ms or more (``usual``: the lower quartile over a week of the type's median); also
where no request ended, although there were requests before, if they waited: a check was raised as in 2, then or at
most two minutes later (or an interval, if that is longer). They waited if the next requests that end took twice as
long as usual or more (those of several readings, while less than a tenth end), and the time that each of these and of
their flushes took beyond half of the usual adds up to the time without requests or more (half: where a guest makes up
for the stall, requests follow one another and take less than usual). They did not wait if all that they took is less
than that time, but for those that took half of it and longer than their reading is long. If none ends, or hardly any
yet while a check is raised still, they waited for ``PG_AVAILABILITY`` and ``SLOW_OPS``. Else it is unknown. Less than
a tenth of the requests of the interval before, for as long as a check may be late, is as none, where requests waited.
Without a check they waited too, if the next ones show it and took three times as long as usual (twice, where checks
are unknown), be it under 10 ms, and not by the limit, and the disk was without requests only this once, but for
pauses by a person and intervals without a reading. Without a latency, without what is usual, or with fewer than 10
requests in five minutes, of which one may have been the first in hours, an interval is unknown, unless the disk was
at limit. One without requests in a healthy cluster is not slow. What is usual for a type of fewer than five disks, or
three on a node, is unknown if it is 0.1 s or more.

The node may be cut off from a healthy cluster, for as long as no guest on it has a request, if this disk and three or
more others had some just before, and the whole node never was without before. The last intervals are unknown then. A
pass just after it fell silent, with less than a tenth of the requests before, is not what was just before.

A guest that a person paused has no request that waits, once QEMU answers: it waits for them before it is paused. With
no requests, or less than a tenth of those before, such an interval is not slow whatever check is raised, and nothing
waited before it if no request ended in it.

An interval in which the guest was asked and did not answer is slow while a check was raised, as in 2. One without a
reading, or whose pass is overdue, is slow while a check was raised, then or soon after as above, if there were
requests before and the next reading, which compares with the one before, is slow; or if the guest did not answer in
another interval of the same gap. Where that reading shows that no requests ended, the gap is a part of the time
without requests, and slow if they waited, as above. Else such an interval is **not read**: with a check; without one
if the guest did not answer; and where checks are unknown, if the next reading is slow.

Each slow interval has the first cause that applies:

1. **limit**: it used 95 % of one of its limits or more. QEMU then delays its requests.
2. **cluster**: a check was raised that was not raised in most intervals in which requests were not slow, if these
   are of three passes.
3. **neighbour**: another guest did half or more of all requests, or of all bytes, of the disk's node or pool, and
   more than the disk, and twice what the busiest other guest there does in the median interval in which the disk
   is not slow, if three of these are known.
4. **cluster**: the median disk of its type, of five or more, was slow too.
5. none, but it is the node, where the median disk of other guests on it, of three or more, was slow too; or where no
   guest on it had a request in the interval, while it may be cut off as above.
6. **limit**: it used three quarters of one of its limits or more on average, so more in bursts, which wait, and the
   limit has no burst of its own.
7. **cluster**: it is one of several slow intervals that follow one another, and in a later one of them, at most two
   minutes (or an interval) after it, a check was raised as in 2.
8. none; if it used half of such a limit, that is perhaps the cause.

The cause of the whole is the one with the most slow intervals, and of equal ones the first. It is **not slow** with
fewer than two, where half of the time or more is known, none is slow without a reading, and none is not read. It is
**unknown** where one is not read, where the last of all is slow without requests, or a pass could not read it, where
no requests end any more of a disk that was never without before and checks are unknown, where its node may be cut
off, where less is known, where fewer than three intervals are, and where most slow intervals have no cause. Intervals
of one pass count as one of the two, or three.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from enum import Enum, StrEnum, auto
from itertools import groupby, pairwise, takewhile
from statistics import median

from plimsoll_agent.model.usage import AT_LIMIT_RATIO
from plimsoll_agent.util.frozen import frozen, replace
from plimsoll_insight.explain.evidence import Evidence, Neighbour, PassInterval, SharedPlace, idle

FACTOR = 3.0
FLOOR = 0.010
"""Seconds."""
DOMINANT = 0.5
USUAL_OF_FEW = 0.1
"""Seconds; what fewer disks take all the time may be trouble all the time."""
MORE = 2.0
IN_BURSTS = 0.75
PERHAPS_IN_BURSTS = 0.5
LEAST_OF_TYPE = 5
LEAST_OF_NODE = 3
LEAST_RATE = 10 / 300
"""Requests per second."""
LATE = 120.0
"""Seconds from the last request until Ceph raises a check: it takes an OSD that hangs for a healthy one at first."""
STOPPED = ("PG_AVAILABILITY", "SLOW_OPS")
"""The checks that are raised where requests wait."""
WAITED = 2.0
"""Times what is usual: without that, busy disks add up to long waits."""
CATCHING_UP = 0.5
"""Of what is usual: requests that follow one another after a stall took 0.8 of it in the lab, and may take less."""
HARDLY = 0.1
OVERDUE = 2.0
"""Times that passes are apart, or an interval is long."""
LEAST_SLOW = 2
LEAST_KNOWN = 3


class Cause(StrEnum):
    """Why a disk is slow."""

    LIMIT = "limit"
    CLUSTER = "cluster"
    NEIGHBOUR = "neighbour"
    NOT_SLOW = "not-slow"
    UNKNOWN = "unknown"


class Unexplained(StrEnum):
    """Why the cause is unknown."""

    NOT_READ = "not-read"
    """The guest had no reading while requests may have waited."""
    TOO_LITTLE = "too-little-data"
    FEW_PASSES = "few-passes"
    """Most of the time is known, by fewer than three passes."""
    STANDS_STILL = "stands-still"
    """Requests may wait since the last pass, which is one."""
    NODE_STANDS_STILL = "node-stands-still"
    """No guest on its node has requests any more: the node may be cut off from the cluster."""
    NO_USUAL = "usual-latency-unknown"
    NODE = "node"
    """Slow or without requests, as others on its node are, and the rest of the region is not."""
    BURSTS = "bursts"
    """Slow, nothing around it is, and it used much of its limit."""
    ALONE = "alone"
    """Slow, and nothing around it is."""


@frozen
class Diagnosis:
    """The cause, with the figures that it follows from."""

    cause: Cause
    unexplained: Unexplained | None
    slow: tuple[PassInterval, ...]
    """The intervals that have this cause."""
    all_slow: int
    known: int
    total: int
    neighbour: Neighbour | None = None
    """The one that is named most often; for the operator."""
    raised: tuple[str, ...] = ()
    unread: tuple[PassInterval, ...] = ()
    """Without a reading, while requests may have waited."""
    verdicts: tuple[bool | None, ...] = ()
    """Of each interval, whether it was slow; None is unknown."""


def find(evidence: Evidence) -> Diagnosis:
    """The cause, by the rules above."""
    diagnosis, verdicts = _find(evidence)
    return replace(diagnosis, verdicts=tuple(is_slow for _, is_slow in verdicts))


def _find(evidence: Evidence) -> tuple[Diagnosis, Sequence[tuple[PassInterval, bool | None]]]:
    intervals, usual = evidence.intervals, evidence.usual
    around = _Around([each for each in intervals if _by_latency(each, usual) is False], usual)
    readings = around.without_overdue(intervals, evidence.seconds)
    late = max(LATE, evidence.seconds)
    verdicts = _with_checks_soon(around, list(around.judge(readings, late)), late)
    still = _node_still(readings)
    around.node_still = frozenset(each.at for each in readings[still.start : still.stop])
    node_stands_still = bool(still) and still.stop == len(readings)
    if node_stands_still:
        verdicts[still.start :] = [(each, is_slow or None) for each, is_slow in verdicts[still.start :]]
    slow = [each for each, is_slow in verdicts if is_slow]
    certain, total = sum(is_slow is not None for _, is_slow in verdicts), len(verdicts)
    unread = tuple(around.unread(verdicts))
    if _passes(slow) < LEAST_SLOW and all(each.read and not each.unanswered for each in slow):
        why = None
        if unread:
            why = Unexplained.NOT_READ
        elif _stands_still(verdicts, usual) or around.may_stand_still(readings, late):
            why = Unexplained.STANDS_STILL
        elif node_stands_still:
            why = Unexplained.NODE_STANDS_STILL
        elif usual is None and certain * 2 < total and any(each.latency is not None for each in intervals):
            why = Unexplained.NO_USUAL
        elif certain * 2 < total or not certain:
            why = Unexplained.TOO_LITTLE
        elif _passes([each for each, is_slow in verdicts if is_slow is not None]) < LEAST_KNOWN:
            why = Unexplained.FEW_PASSES
        elif intervals[-1].observed is not None and not intervals[-1].read:
            why = Unexplained.NOT_READ
        cause = Cause.UNKNOWN if why else Cause.NOT_SLOW
        return Diagnosis(cause, why, (), len(slow), certain, total, unread=unread), verdicts
    of_cause: dict[Cause | Unexplained, list[PassInterval]] = {}
    for each in slow:
        of_cause.setdefault(around.cause(each), []).append(each)
    first: Sequence[Cause | Unexplained] = (*Cause, *Unexplained)
    most = max(of_cause, key=lambda cause: (len(of_cause[cause]), -first.index(cause)))
    theirs = tuple(of_cause[most])
    if isinstance(most, Unexplained):
        return Diagnosis(Cause.UNKNOWN, most, theirs, len(slow), certain, total, unread=unread), verdicts
    neighbours = [around.dominant(each) for each in theirs] if most is Cause.NEIGHBOUR else []
    checks = Counter(check for each in theirs for check in around.new(each)) if most is Cause.CLUSTER else Counter()
    diagnosis = Diagnosis(
        most, None, theirs, len(slow), certain, total, _usual_one(neighbours), tuple(sorted(checks)), unread
    )
    return diagnosis, verdicts


def _stands_still(verdicts: Sequence[tuple[PassInterval, bool | None]], usual: float | None) -> bool:
    return bool(verdicts and verdicts[-1][1] and not _by_latency(verdicts[-1][0], usual))


def _with_checks_soon(
    around: _Around, verdicts: list[tuple[PassInterval, bool | None]], late: float
) -> list[tuple[PassInterval, bool | None]]:
    """Slow intervals without a cause have the checks of the next one of those that follow it which has a check."""
    soon: PassInterval | None = None
    for number in reversed(range(len(verdicts))):
        each, is_slow = verdicts[number]
        if not is_slow:
            soon = None
        elif around.new(each):
            soon = each
        elif soon and soon.at - each.at <= late and around.cause(each) in (Unexplained.BURSTS, Unexplained.ALONE):
            checks = {*(each.raised or ()), *around.new(soon)}
            verdicts[number] = replace(each, raised=tuple(sorted(checks))), is_slow
    return verdicts


def usual_of(latency: float | None, disks: Sequence[float], least: int) -> float | None:
    """What is usual by the median of this many disks at each time; None is unknown."""
    few = not disks or median(disks) < least
    return None if latency is None or (few and latency >= USUAL_OF_FEW) else latency


def _node_still(intervals: Sequence[PassInterval]) -> range:
    """The intervals in which no guest on the node has requests, for the first time."""
    none = next((number for number, each in enumerate(intervals) if _none_on_node(each)), len(intervals))
    unread = sum(1 for _ in takewhile(lambda one: not one.read, reversed(intervals[:none])))
    first = none - unread
    before = _before_the_edge(intervals[:first])
    was_busy = before and before.operations and (before.of_node_disks or 0) >= LEAST_OF_NODE
    still = sum(1 for _ in takewhile(lambda one: not one.read or _none_on_node(one), intervals[first:]))
    return range(first, first + still) if was_busy and none < len(intervals) else range(0)


def _before_the_edge(intervals: Sequence[PassInterval]) -> PassInterval | None:
    """The last of these; but where a pass came just after the node fell silent, and had hardly any requests of this
    disk and of the others, one of the pass before.
    """
    if not intervals:
        return None
    last = intervals[-1]
    earlier = next((each for each in reversed(intervals) if _time(each) != _time(last)), None)
    if earlier is None or last.operations is None or last.operations >= HARDLY * (earlier.operations or 0.0):
        return last
    others, others_earlier = _of_others(last), _of_others(earlier)
    is_silent = others is not None and others_earlier is not None and others < HARDLY * others_earlier
    return earlier if is_silent else last


def _of_others(interval: PassInterval) -> float | None:
    """The requests of the busiest other guest on the node."""
    places = (one for one in interval.neighbours if one.place is SharedPlace.NODE and one.unit == "operations")
    return next((one.rate for one in places), None)


def _none_on_node(interval: PassInterval) -> bool:
    return (
        interval.operations == 0
        and not interval.paused
        and idle(SharedPlace.NODE, "operations") in interval.neighbours
    )


def _time(interval: PassInterval) -> float:
    return interval.at if interval.observed is None else interval.observed


def _passes(intervals: Sequence[PassInterval]) -> int:
    return len({_time(each) for each in intervals})


def _by_latency(interval: PassInterval, usual: float | None) -> bool | None:
    """Whether it was slow; None is unknown."""
    if interval.share is not None and interval.share >= AT_LIMIT_RATIO:
        return True
    return None if _few(interval) or interval.latency is None or usual is None else _slow(interval.latency, usual)


def _few(interval: PassInterval) -> bool:
    return interval.operations is not None and interval.operations < LEAST_RATE


def _slow(latency: float | None, usual: float | None, floor: float = FLOOR, factor: float = FACTOR) -> bool:
    return latency is not None and usual is not None and latency >= max(factor * usual, floor)


class _Run(Enum):
    """What intervals that follow one another have in common."""

    REQUESTS = auto()
    STOPPED = auto()
    """No requests, or hardly any after many and these not slow: slow ones have waited."""
    UNREAD = auto()
    PAUSED = auto()
    """As ``STOPPED``, by a person."""


def _runs(intervals: Sequence[PassInterval], usual: float | None, late: float) -> Iterator[_Run]:
    """Of each interval, of which run it is."""
    before: list[PassInterval] = []
    for each in intervals:
        many = _many([one for one in before if each.at - one.at <= late]) or 0.0
        hardly = each.operations is not None and each.operations < HARDLY * many and not _by_latency(each, usual)
        if each.operations == 0 or hardly:
            yield _Run.PAUSED if each.paused else _Run.STOPPED
        elif each.read:
            before = [*(one for one in before if each.at - one.at <= late), each]
            yield _Run.REQUESTS
        else:
            yield _Run.UNREAD


def _with_gaps(intervals: Sequence[PassInterval], kinds: list[_Run]) -> list[_Run]:
    """Where the first reading after a gap shows that no requests ended, none ended in the gap."""
    for number in reversed(range(len(kinds) - 1)):
        gap = kinds[number] is _Run.UNREAD and not intervals[number].unanswered
        if gap and kinds[number + 1] is _Run.STOPPED:
            kinds[number] = _Run.STOPPED
    return kinds


def _many(intervals: Sequence[PassInterval]) -> float | None:
    """The most operations: a stall that begins within an interval leaves that one fewer."""
    return max((each.operations for each in intervals if each.operations is not None), default=None)


def _before(runs: Sequence[tuple[_Run, Sequence[PassInterval]]], late: float) -> PassInterval | None:
    """The last interval of these, with the most operations of those just before it; those before a pause, of one."""
    if not runs:
        return None
    last = runs[-1][1][-1]
    kind, run = runs[-1]
    if kind is _Run.PAUSED:
        run = runs[-2][1] if len(runs) > 1 else ()
    return replace(last, operations=_many([each for each in run if run[-1].at - each.at <= late]))


def _began(before: PassInterval, run: Sequence[PassInterval]) -> float:
    """Since when surely no requests have ended: a few of the first intervals may be of before the stall."""
    none = next((number for number, each in enumerate(run) if each.read and not each.operations), 0)
    return _time(run[none - 1] if none and run[none - 1].read else before)


class _Around:
    """What is there while requests are not slow, to compare with."""

    def __init__(self, calm: Sequence[PassInterval], usual: float | None) -> None:
        self._usual = usual
        checks = Counter(check for each in calm for check in each.raised or ())
        self._always = {
            check for check, number in checks.items() if number * 2 > len(calm) and _passes(calm) >= LEAST_KNOWN
        }
        rates: dict[tuple[str, str], list[float]] = {}
        for each in calm:
            most: dict[tuple[str, str], float] = {}
            for one in each.neighbours:
                key = (one.place.value, one.unit)
                most[key] = max(one.rate, most.get(key, 0.0))
            for key, rate in most.items():
                rates.setdefault(key, []).append(rate)
        self._rates = {key: median(values) for key, values in rates.items() if len(values) >= LEAST_KNOWN}
        self.node_still = frozenset[float]()
        """When its node may be cut off."""

    def judge(self, intervals: Sequence[PassInterval], late: float) -> Iterator[tuple[PassInterval, bool | None]]:
        """Each, and whether it was slow; None is unknown. A check may be raised ``late`` seconds after requests stop:
        what was without requests until then has it too.
        """
        runs = self._in_runs(intervals, late)
        never_rests = sum(kind is _Run.STOPPED for kind, _ in runs) == 1
        for number, (kind, run) in enumerate(runs):
            before = _before(runs[:number], late)
            following = [each for _, later in runs[number + 1 :] for each in later]
            after = following[0] if following else None
            if kind is _Run.PAUSED:
                verdicts = [(each, _by_latency(each, self._usual) if each.operations else False) for each in run]
            elif kind is _Run.REQUESTS:
                verdicts = [(each, _by_latency(each, self._usual)) for each in run]
            elif kind is _Run.UNREAD:
                verdicts = list(self._without_reading(before, run, after, late))
            else:
                verdicts = [
                    (each, wait if wait or not each.operations else _by_latency(each, self._usual))
                    for each, wait in self._without_requests(before, run, following, late, never_rests)
                ]
                verdicts = [(each, is_slow if each.read else is_slow or None) for each, is_slow in verdicts]
            yield from ((each, True if each.unanswered and self.new(each) else is_slow) for each, is_slow in verdicts)

    def _in_runs(self, intervals: Sequence[PassInterval], late: float) -> list[tuple[_Run, list[PassInterval]]]:
        kinds = iter(_with_gaps(intervals, [*_runs(intervals, self._usual, late)]))
        return [(kind, list(run)) for kind, run in groupby(intervals, key=lambda _: next(kinds))]

    def may_stand_still(self, intervals: Sequence[PassInterval], late: float) -> bool:
        """Whether no requests end any more, for the first time, and whether Ceph is well is unknown."""
        if not intervals or intervals[-1].operations != 0 or intervals[-1].raised is not None:
            return False
        runs = self._in_runs(intervals, late)
        before = _before(runs[:-1], late)
        return bool(
            before
            and before.operations
            and not _few(before)
            and [kind for kind, _ in runs].count(_Run.STOPPED) == 1
            and runs[-1][0] is _Run.STOPPED
        )

    def without_overdue(self, intervals: Sequence[PassInterval], seconds: float) -> list[PassInterval]:
        """While a check is raised the last reading tells nothing once the next one is overdue."""
        passes = sorted({each.observed for each in intervals if each.observed is not None})
        apart = median(later - one for one, later in pairwise(passes)) if len(passes) > 1 else seconds
        most = OVERDUE * max(apart, seconds)
        return [
            PassInterval(each.at, each.node, raised=each.raised, observed=each.observed, unanswered=each.unanswered)
            if each.observed is not None and each.at - each.observed > most and self.new(each)
            else each
            for each in intervals
        ]

    def unread(self, verdicts: Sequence[tuple[PassInterval, bool | None]]) -> Iterator[PassInterval]:
        """Without a reading while requests may have waited."""
        after: PassInterval | None = None
        intervals = list[PassInterval]()
        for each, is_slow in reversed(verdicts):
            if each.read:
                after = each
            if is_slow is not None or (each.read and not each.unanswered):
                continue
            if self.new(each) or each.unanswered or (each.raised is None and self._slow_by_others(after)):
                intervals.append(each)
        yield from reversed(intervals)

    def _slow_by_others(self, one: PassInterval | None, floor: float = FLOOR, factor: float = FACTOR) -> bool:
        """Its requests took long, and not by its limit."""
        at_limit = one is not None and one.share is not None and one.share >= AT_LIMIT_RATIO
        return one is not None and not at_limit and not _few(one) and _slow(one.latency, self._usual, floor, factor)

    def _without_reading(
        self, before: PassInterval | None, run: Sequence[PassInterval], after: PassInterval | None, late: float
    ) -> Iterator[tuple[PassInterval, bool | None]]:
        """``before`` and ``after`` are next to it: ``after`` compares with the reading of ``before``."""
        with_checks = [each for each in (*run, after) if each is not None and self.new(each)]
        has_waits = bool(before is not None and before.operations and self._slow_by_others(after))
        has_waits = has_waits or any(each.unanswered for each in run)
        soon = bool(with_checks and before is not None and with_checks[0].at - before.at <= late)
        for each in run:
            if with_checks and has_waits and (self.new(each) or (soon and each.at < with_checks[0].at)):
                yield replace(each, raised=tuple(sorted({*(each.raised or ()), *self.new(with_checks[0])}))), True
            else:
                yield each, None

    def _without_requests(
        self,
        before: PassInterval | None,
        run: Sequence[PassInterval],
        following: Sequence[PassInterval],
        late: float,
        never_rests: bool,
    ) -> Iterator[tuple[PassInterval, bool | None]]:
        """``before`` is the interval next to it, ``following`` are all after it."""
        after = following[0] if following else None
        had_requests = before is not None and bool(before.operations)
        with_checks = [each for each in (*run, after) if each is not None and self.new(each)]
        has_waits: bool | None = None
        wait = bool(with_checks and before is not None and had_requests and with_checks[0].at - before.at <= late)
        if wait and before is not None:
            has_waits = self._has_waits(before, run, following, late)
        default: bool | None = False if had_requests else None
        """Of an interval with a check: whether it was slow, where nothing can have waited from before."""
        factor = WAITED if all(each.raised is None for each in run) else FACTOR
        was_busy = never_rests and not with_checks and before and before.operations
        if was_busy and before and self._slow_by_others(after, 0.0, factor):
            has_waits = self._has_waits(before, run, following, late)
        for each in run:
            if has_waits and not with_checks:
                yield each, True
            elif wait and (self.new(each) or each.at < with_checks[0].at):
                if has_waits and not self.new(each):
                    each = replace(each, raised=(*(each.raised or ()), *sorted(self.new(with_checks[0]))))
                yield each, has_waits
            elif self.new(each):
                yield each, default
            else:
                default = False
                yield each, None if each.raised is None else False

    def _has_waits(
        self, before: PassInterval, run: Sequence[PassInterval], following: Sequence[PassInterval], late: float
    ) -> bool | None:
        """Whether there were requests that did not end in the ``run``, as the ``following`` show, in which they end:
        the first one, and where hardly any ended in it, the next ones until many do.
        """
        after = following[0] if following else None
        waits = any(check in STOPPED for each in run for check in self.new(each)) or None
        if after is None or after.operations is None:
            last = max((each.at for each in run if self.new(each)), default=None)
            return False if last is not None and run[-1].at - last > late else waits
        if after.paused and not after.operations:
            return False if after.latency is None else None
        number = took = 0.0
        since, without = _time(run[-1]), _time(run[-1]) - _began(before, run)
        for each in following:
            if each.latency is None or each.operations is None:
                break
            if each.share is not None and each.share >= AT_LIMIT_RATIO:
                return None
            # There may be as many flushes as other requests, with a latency and not among the operations.
            requests = 2 * each.operations * (_time(each) - since)
            number, took, since = number + requests, took + requests * each.latency, _time(each)
            if each.operations >= HARDLY * (before.operations or 0.0):
                break
        else:
            latest = following[-1]
            if took < without and self.new(latest) and latest.at - run[-1].at <= late:
                return waits  # those that waited may wait still
        if after.latency is None:
            return None
        if took < without:
            # Those that took longer than their reading is long had begun before it.
            return 2 * took >= without and after.latency > _time(after) - _time(run[-1])
        if self._usual is None or _few(after):
            return None
        longer = took - number * CATCHING_UP * self._usual
        return True if took >= number * WAITED * self._usual and longer >= without else None

    def cause(self, slow: PassInterval) -> Cause | Unexplained:
        if slow.share is not None and slow.share >= AT_LIMIT_RATIO:
            return Cause.LIMIT
        if self.new(slow):
            return Cause.CLUSTER
        if self.dominant(slow):
            return Cause.NEIGHBOUR
        if (slow.of_type_disks or 0) >= LEAST_OF_TYPE and _slow(slow.of_type, self._usual):
            return Cause.CLUSTER
        if slow.at in self.node_still or (
            (slow.of_node_disks or 0) >= LEAST_OF_NODE and _slow(slow.of_node, self._usual)
        ):
            return Unexplained.NODE
        usage = 0.0 if slow.share is None or slow.burst else slow.share
        if usage >= IN_BURSTS:
            return Cause.LIMIT
        return Unexplained.BURSTS if usage >= PERHAPS_IN_BURSTS else Unexplained.ALONE

    def new(self, slow: PassInterval) -> set[str]:
        """The checks that are not raised always."""
        return set(slow.raised or ()) - self._always

    def dominant(self, slow: PassInterval) -> Neighbour | None:
        own = {"operations": slow.operations, "bytes": slow.bytes}
        candidates = [
            one
            for one in slow.neighbours
            if one.share >= DOMINANT
            and one.rate > (own[one.unit] or 0.0)
            and one.rate >= MORE * self._rates.get((one.place.value, one.unit), 0.0)
        ]
        return max(candidates, key=lambda one: one.share, default=None)


def _usual_one(neighbours: Sequence[Neighbour | None]) -> Neighbour | None:
    """The guest that is named most often, where its share was largest."""
    uuids = Counter(one.uuid for one in neighbours if one)
    if not uuids:
        return None
    ((uuid, _),) = uuids.most_common(1)
    return max((one for one in neighbours if one and one.uuid == uuid), key=lambda one: one.share)
