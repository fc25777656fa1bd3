"""Which intervals of a disk were slow, also those without requests or without a reading."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import dropwhile, pairwise
from statistics import median

from plimsoll_agent.util.frozen import replace
from plimsoll_insight.explain.evidence import PassInterval
from plimsoll_insight.explain.runs import RunKind, before_run, runs_of
from plimsoll_insight.explain.slowness import FACTOR, by_latency, is_few
from plimsoll_insight.explain.surroundings import Surroundings
from plimsoll_insight.explain.waits import WAITED, has_waits

LATE = 120.0
"""Seconds from the last request until Ceph raises a check: it takes an OSD that hangs for a healthy one at first."""
OVERDUE = 2.0
"""Times that passes are apart, or an interval is long."""

Judged = tuple[PassInterval, bool | None]
"""An interval, and whether it was slow; None is unknown."""


class IntervalJudge:
    """A check may be raised ``late`` seconds after requests stop: what was without requests until then has it too."""

    def __init__(self, around: Surroundings, usual: float | None, late: float) -> None:
        self._around, self._usual, self._late = around, usual, late

    def judge(self, intervals: Sequence[PassInterval]) -> Iterator[Judged]:
        runs = runs_of(intervals, self._usual, self._late)
        never_rests = sum(kind is RunKind.STOPPED for kind, _ in runs) == 1
        for number, (kind, run) in enumerate(runs):
            before = before_run(runs[:number], self._late)
            following = [each for _, later in runs[number + 1 :] for each in later]
            for each, is_slow in self._of_run(kind, before, run, following, never_rests=never_rests):
                yield each, True if each.unanswered and self._around.new(each) else is_slow

    def _of_run(
        self,
        kind: RunKind,
        before: PassInterval | None,
        run: Sequence[PassInterval],
        following: Sequence[PassInterval],
        *,
        never_rests: bool,
    ) -> Iterator[Judged]:
        """``before`` is the interval next to it, ``following`` are all after it."""
        match kind:
            case RunKind.PAUSED:
                yield from ((each, by_latency(each, self._usual) if each.operations else False) for each in run)
            case RunKind.REQUESTS:
                yield from ((each, by_latency(each, self._usual)) for each in run)
            case RunKind.UNREAD:
                yield from self._without_reading(before, run, following[0] if following else None)
            case RunKind.STOPPED:
                for each, wait in self._without_requests(before, run, following, never_rests=never_rests):
                    is_slow = wait if wait or not each.operations else by_latency(each, self._usual)
                    yield each, is_slow if each.read else is_slow or None

    def may_stand_still(self, intervals: Sequence[PassInterval]) -> bool:
        """Whether no requests end any more, for the first time, and whether Ceph is well is unknown, or a check may
        still be raised.
        """
        if not intervals or intervals[-1].operations != 0:
            return False
        runs = runs_of(intervals, self._usual, self._late)
        before = before_run(runs[:-1], self._late)
        return bool(
            before
            and before.operations
            and (intervals[-1].raised is None or intervals[-1].at - before.at <= self._late)
            and not is_few(before)
            and [kind for kind, _ in runs].count(RunKind.STOPPED) == 1
            and runs[-1][0] is RunKind.STOPPED
        )

    def without_overdue(self, intervals: Sequence[PassInterval], seconds: float) -> list[PassInterval]:
        """While a check is raised the last reading tells nothing once the next one is overdue."""
        passes = sorted({each.observed for each in intervals if each.observed is not None})
        apart = median(later - one for one, later in pairwise(passes)) if len(passes) > 1 else seconds
        most = OVERDUE * max(apart, seconds)
        return [
            PassInterval(
                at=each.at, node=each.node, raised=each.raised, observed=each.observed, unanswered=each.unanswered
            )
            if each.observed is not None and each.at - each.observed > most and self._around.new(each)
            else each
            for each in intervals
        ]

    def unread(self, verdicts: Sequence[Judged]) -> Iterator[PassInterval]:
        """Without a reading while requests may have waited."""
        after: PassInterval | None = None
        intervals = list[PassInterval]()
        for each, is_slow in reversed(verdicts):
            if each.read:
                after = each
            if is_slow is not None or (each.read and not each.unanswered):
                continue
            may_wait = each.raised is None and self._around.slow_by_others(after)
            if self._around.new(each) or each.unanswered or may_wait:
                intervals.append(each)
        yield from reversed(intervals)

    def _without_reading(
        self, before: PassInterval | None, run: Sequence[PassInterval], after: PassInterval | None
    ) -> Iterator[Judged]:
        """``before`` and ``after`` are next to it: ``after`` compares with the reading of ``before``."""
        with_checks = self._with_checks(run, after)
        were_waits = bool(before is not None and before.operations and self._around.slow_by_others(after))
        were_waits = were_waits or any(each.unanswered for each in run)
        soon = bool(with_checks and before is not None and with_checks[0].at - before.at <= self._late)
        for each in run:
            if with_checks and were_waits and (self._around.new(each) or (soon and each.at < with_checks[0].at)):
                checks = {*(each.raised or ()), *self._around.new(with_checks[0])}
                yield replace(each, raised=tuple(sorted(checks))), True
            else:
                yield each, None

    def _without_requests(
        self,
        before: PassInterval | None,
        run: Sequence[PassInterval],
        following: Sequence[PassInterval],
        *,
        never_rests: bool,
    ) -> Iterator[Judged]:
        with_checks = self._with_checks(run, following[0] if following else None)
        soon, waits = self._waits(before, run, following, with_checks, never_rests=never_rests)
        if waits and not with_checks:
            yield from ((each, True) for each in run)
            return
        default: bool | None = False if before is not None and before.operations else None
        """Of an interval with a check: whether it was slow, where nothing can have waited from before."""
        for each in run:
            is_new = bool(self._around.new(each))
            if soon and (is_new or each.at < with_checks[0].at):
                checks = () if is_new or not waits else sorted(self._around.new(with_checks[0]))
                yield replace(each, raised=(*(each.raised or ()), *checks)) if checks else each, waits
            elif is_new:
                yield each, default
            else:
                default = False
                yield each, None if each.raised is None else False

    def _waits(
        self,
        before: PassInterval | None,
        run: Sequence[PassInterval],
        following: Sequence[PassInterval],
        with_checks: Sequence[PassInterval],
        *,
        never_rests: bool,
    ) -> tuple[bool, bool | None]:
        """Whether a check was raised soon after the requests before, and whether some of these waited."""
        if before is None or not before.operations:
            return False, None
        # A pass came late: the reading after it has all of that time.
        following = [*dropwhile(lambda each: not each.read and not each.unanswered, following)]
        soon = bool(with_checks) and with_checks[0].at - before.at <= self._late
        if not soon and (with_checks or not never_rests or not self._is_slow_after(run, following)):
            return False, None
        return soon, has_waits(self._around, self._usual, before, run, following, self._late)

    def _is_slow_after(self, run: Sequence[PassInterval], following: Sequence[PassInterval]) -> bool:
        factor = WAITED if all(each.raised is None for each in run) else FACTOR
        return self._around.slow_by_others(following[0] if following else None, 0.0, factor)

    def _with_checks(self, run: Sequence[PassInterval], after: PassInterval | None) -> list[PassInterval]:
        return [each for each in (*run, after) if each is not None and self._around.new(each)]
