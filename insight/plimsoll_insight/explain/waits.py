"""Whether requests waited that did not end in a run of intervals, by those that end after it."""

from __future__ import annotations

from collections.abc import Sequence

from plimsoll_agent.model.usage import AT_LIMIT_RATIO
from plimsoll_agent.util.frozen import frozen
from plimsoll_insight.explain.evidence import PassInterval
from plimsoll_insight.explain.runs import HARDLY, began
from plimsoll_insight.explain.slowness import is_few, time_of
from plimsoll_insight.explain.surroundings import Surroundings

STOPPED = ("PG_AVAILABILITY", "SLOW_OPS")
"""The checks that are raised where requests wait."""
WAITED = 2.0
"""Times what is usual: without that, busy disks add up to long waits."""
CATCHING_UP = 0.5
"""Of what is usual: requests that follow one another after a stall took 0.8 of it in the lab, and may take less."""


@frozen
class _Ending:
    """Requests that end after the run."""

    number: float
    took: float
    """The seconds of all."""
    is_whole: bool
    """Many end at last; else those that waited may wait still."""


def has_waits(
    around: Surroundings,
    usual: float | None,
    before: PassInterval,
    run: Sequence[PassInterval],
    following: Sequence[PassInterval],
    late: float,
) -> bool | None:
    """Whether there were requests that did not end in the ``run``, as the ``following`` show, in which they end:
    the first one, and where hardly any ended in it, the next ones until many do.
    """
    after = following[0] if following else None
    waits = any(check in STOPPED for each in run for check in around.new(each)) or None
    if after is None or after.operations is None:
        last = max((each.at for each in run if around.new(each)), default=None)
        return False if last is not None and run[-1].at - last > late else waits
    if after.paused and not after.operations:
        return False if after.latency is None else None
    ending = _ending(before, run, following)
    if ending is None:
        return None
    without, latest = time_of(run[-1]) - began(before, run), following[-1]
    if not ending.is_whole and ending.took < without and around.new(latest) and latest.at - run[-1].at <= late:
        return waits  # those that waited may wait still
    return _add_up(ending, without, after, run, usual)


def _add_up(
    ending: _Ending, without: float, after: PassInterval, run: Sequence[PassInterval], usual: float | None
) -> bool | None:
    """Whether the time that they took has that ``without`` requests in it."""
    took = ending.took
    if after.latency is None:
        return None
    if took < without:
        # Those that took longer than their reading is long had begun before it.
        return 2 * took >= without and after.latency > time_of(after) - time_of(run[-1])
    if usual is None or is_few(after):
        return None
    longer = took - ending.number * CATCHING_UP * usual
    return True if took >= ending.number * WAITED * usual and longer >= without else None


def _ending(before: PassInterval, run: Sequence[PassInterval], following: Sequence[PassInterval]) -> _Ending | None:
    """None where the limit delayed them."""
    number = took = 0.0
    since = time_of(run[-1])
    for each in following:
        if each.latency is None or each.operations is None:
            return _Ending(number, took, True)
        if each.share is not None and each.share >= AT_LIMIT_RATIO:
            return None
        # There may be as many flushes as other requests, with a latency and not among the operations.
        requests = 2 * each.operations * (time_of(each) - since)
        number, took, since = number + requests, took + requests * each.latency, time_of(each)
        if each.operations >= HARDLY * (before.operations or 0.0):
            return _Ending(number, took, True)
    return _Ending(number, took, False)
