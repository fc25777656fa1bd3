"""The cause of a disk's slowness, and its arithmetic. The set is closed; the docs repeat these rules.

An interval is **slow** where the disk was at limit, as in 1, or its requests took three times as long as those of the
median disk of its type usually do, and 10 ms or more (``usual``: the lower quartile over a week of the type's
median); also where no request ended, although there were requests before, if they waited: a check was raised as in 2,
then or at most two minutes later (or an interval, if that is longer). They waited if the next requests that end took
twice as long as usual or more (those of several readings, while less than a tenth end), and the time that each of
these and of their flushes took beyond half of the usual adds up to the time without requests or more (half: where a
guest makes up for the stall, requests follow one another and take less than usual). They did not wait if all that
they took is less than that time, but for those that took half of it and longer than their reading is long. If none
ends, or hardly any yet while a check is raised still, they waited for ``PG_AVAILABILITY`` and ``SLOW_OPS``. Else it
is unknown. Less than a tenth of the requests of the interval before, for as long as a check may be late, is as none,
where requests waited. Without a check they waited too, if the next ones show it and took three times as long as usual
(twice, where checks are unknown), be it under 10 ms, and not by the limit, and the disk was without requests only
this once, but for pauses by a person and intervals without a reading. Without a latency, without what is usual, or
with fewer than 10 requests in five minutes, of which one may have been the first in hours, an interval is unknown,
unless the disk was at limit. One without requests in a healthy cluster is not slow. What is usual for a type of fewer
than five disks, or three on a node, is unknown if it is 0.1 s or more.

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

1. **limit**: it used 95 % of one of its limits or more. QEMU then delays its requests. Where the limit has a burst an
   average of all of it may be one that nothing waited for: then it counts only if requests took long, or if that is
   unknown.
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
the last two or more, of two minutes or more, have no reading, where no requests end any more of a disk that was never
without before and checks are unknown, where its node may be cut off, where less is known, where fewer than three
intervals are, and where most slow intervals have no cause. Intervals of one pass count as one of the two, or three.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import takewhile

from plimsoll_agent.util.frozen import replace
from plimsoll_insight.explain.diagnosis import Cause, Diagnosis, Unexplained
from plimsoll_insight.explain.evidence import Evidence, Neighbour, PassInterval
from plimsoll_insight.explain.judgement import LATE, IntervalJudge, Judged
from plimsoll_insight.explain.slowness import LEAST_KNOWN, by_latency, passes
from plimsoll_insight.explain.standstill import node_still, stands_still
from plimsoll_insight.explain.surroundings import Surroundings

LEAST_SLOW = 2


def find(evidence: Evidence) -> Diagnosis:
    """The cause, by the rules above."""
    intervals, usual, late = evidence.intervals, evidence.usual, max(LATE, evidence.seconds)
    around = Surroundings([each for each in intervals if by_latency(each, usual) is False], usual)
    judge = IntervalJudge(around, usual, late)
    readings = judge.without_overdue(intervals, evidence.seconds)
    verdicts = _with_checks_soon(around, list(judge.judge(readings)), late)
    node_stands_still = _note_node_still(around, readings, verdicts)
    slow = [each for each, is_slow in verdicts if is_slow]
    diagnosis = Diagnosis(
        cause=Cause.NOT_SLOW,
        unexplained=None,
        slow=(),
        all_slow=len(slow),
        known=sum(is_slow is not None for _, is_slow in verdicts),
        total=len(verdicts),
        unread=tuple(judge.unread(verdicts)),
        verdicts=tuple(is_slow for _, is_slow in verdicts),
    )
    if passes(slow) >= LEAST_SLOW or not all(each.read and not each.unanswered for each in slow):
        return _by_cause(diagnosis, slow, around)
    if diagnosis.unread:
        why: Unexplained | None = Unexplained.NOT_READ
    elif stands_still(verdicts, usual):
        why = Unexplained.STANDS_STILL
    elif node_stands_still:
        why = Unexplained.NODE_STANDS_STILL
    elif judge.may_stand_still(readings):
        why = Unexplained.STANDS_STILL
    else:
        why = _too_little(evidence, verdicts)
    return diagnosis if why is None else replace(diagnosis, cause=Cause.UNKNOWN, unexplained=why)


def _note_node_still(around: Surroundings, readings: Sequence[PassInterval], verdicts: list[Judged]) -> bool:
    """Whether the node stands still up to the end: then nothing is certain since it does."""
    still = node_still(readings)
    around.node_still = frozenset(each.at for each in readings[still.start : still.stop])
    if not still or still.stop < len(readings):
        return False
    verdicts[still.start :] = [(each, is_slow or None) for each, is_slow in verdicts[still.start :]]
    return True


def _too_little(evidence: Evidence, verdicts: Sequence[Judged]) -> Unexplained | None:
    """Why too little is known to say that it was not slow."""
    intervals = evidence.intervals
    certain = [each for each, is_slow in verdicts if is_slow is not None]
    is_most = bool(certain) and len(certain) * 2 >= len(verdicts)
    if not is_most and evidence.usual is None and any(each.latency is not None for each in intervals):
        return Unexplained.NO_USUAL
    if not is_most:
        return Unexplained.TOO_LITTLE
    if passes(certain) < LEAST_KNOWN:
        return Unexplained.FEW_PASSES
    end = [*takewhile(lambda each: not each.read, reversed(intervals))]
    is_over = len(end) > 1 and len(end) * evidence.seconds >= LATE
    return Unexplained.NOT_READ if is_over or any(each.observed is not None for each in end) else None


def _by_cause(diagnosis: Diagnosis, slow: Sequence[PassInterval], around: Surroundings) -> Diagnosis:
    """With the cause that has the most slow intervals."""
    of_cause: dict[Cause | Unexplained, list[PassInterval]] = {}
    for each in slow:
        of_cause.setdefault(around.cause(each), []).append(each)
    first: Sequence[Cause | Unexplained] = (*Cause, *Unexplained)
    most = max(of_cause, key=lambda cause: (len(of_cause[cause]), -first.index(cause)))
    theirs = tuple(of_cause[most])
    if isinstance(most, Unexplained):
        return replace(diagnosis, cause=Cause.UNKNOWN, unexplained=most, slow=theirs)
    neighbours = [around.dominant(each) for each in theirs] if most is Cause.NEIGHBOUR else []
    checks = {check for each in theirs for check in around.new(each)} if most is Cause.CLUSTER else set()
    return replace(diagnosis, cause=most, slow=theirs, neighbour=_usual_one(neighbours), raised=tuple(sorted(checks)))


def _with_checks_soon(around: Surroundings, verdicts: list[Judged], late: float) -> list[Judged]:
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


def _usual_one(neighbours: Sequence[Neighbour | None]) -> Neighbour | None:
    """The guest that is named most often, where its share was largest."""
    uuids = Counter(one.uuid for one in neighbours if one)
    if not uuids:
        return None
    ((uuid, _),) = uuids.most_common(1)
    return max((one for one in neighbours if one and one.uuid == uuid), key=lambda one: one.share)
