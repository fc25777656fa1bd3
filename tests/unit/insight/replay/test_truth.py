"""A replay against the truth: one load on the throttle of single requests, under the limits before and after."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from plimsoll_agent.model.limits import Limits
from plimsoll_insight.simulate.throttle import NEVER, SECOND, Throttle
from tests import depth
from tests.unit.insight.replay.test_run import Region

STEP, STEPS = 5, 120
END = STEP * STEPS * SECOND
OWN = SECOND // 500
"""How long the disk itself takes."""
SIZE = 4096


@dataclass(frozen=True)
class Load:
    """At most ``depth`` requests are under way, and so many a second are sent; what is late is made up for.

    With a ``burst`` of so many seconds there is a pause after each, by the clock. One that began when all is served
    would come later under a lower limit, which averages over a part of a burst do not show.
    """

    begin: int
    depth: int
    rate: int
    burst: int
    pause: int


def requests(load: Load, limits: Limits) -> Iterator[tuple[int, int]]:
    """When each is served, and how long that took."""
    throttle: Throttle[int] = Throttle(limits)
    begins: list[tuple[int, int]] = []  # of those that have passed the throttle, by their ends
    following = load.begin
    waiting = sent = now = 0
    while True:
        may_send = waiting + len(begins) < load.depth
        now = max(now, min(following if may_send else NEVER, throttle.due, begins[0][0] if begins else NEVER))
        if now >= END:
            return
        for begin in throttle.wake(now):
            waiting -= 1
            heappush(begins, (now + OWN, begin))
        if begins and begins[0][0] <= now:
            end, begin = heappop(begins)
            yield end, end - begin
        elif may_send and following <= now:
            sent += 1
            following += SECOND // load.rate
            if throttle.arrive(now, SIZE, True, now):
                heappush(begins, (now + OWN, now))
            else:
                waiting += 1
            if load.burst and sent % (load.burst * load.rate) == 0:
                following += load.pause * SECOND


LOADS = st.builds(
    Load,
    begin=st.integers(0, STEP * SECOND),
    depth=st.sampled_from([1, 4, 16]),
    rate=st.integers(10, 100),
    burst=st.sampled_from([0, 5, 10, 25]),
    pause=st.integers(5, 60),
)


@settings(max_examples=depth.examples(60))
@given(
    load=LOADS, old=st.integers(15, 150), rate=st.integers(15, 150), burst=st.sampled_from([0, 0, 1.5, 3]),
    length=st.integers(1, 10), size=st.sampled_from([0, 0, 1024]),
)  # fmt: skip
def test_what_is_served_under_other_limits_is_in_the_range(
    load: Load, old: int, rate: int, burst: float, length: int, size: int
) -> None:
    new = {"total_iops_sec": rate, "size_iops_sec": size}
    if burst:
        new |= {"total_iops_sec_max": int(rate * burst), "total_iops_sec_max_length": length}
    if new == {"total_iops_sec": old, "size_iops_sec": 0}:
        return
    ends, latencies = np.array([*requests(load, Limits(total_iops_sec=old))]).T
    place = ends // (STEP * SECOND)
    counts = np.bincount(place, minlength=STEPS)
    times = np.bincount(place, latencies / SECOND, minlength=STEPS)
    latency = np.divide(times, counts, out=np.full(STEPS, np.nan), where=counts > 0)
    rates = [float(number) for number in counts / STEP]
    ratios = [each / old for each in rates]
    region = Region(rates, ratio=max(ratios), ratios=ratios, latency=[*latency], actual=old, step=STEP)
    (fate,) = region.fates(new)
    truth = sum(1 for _ in requests(load, Limits(**new))) / (STEP * STEPS)
    assert fate.served is not None
    assert fate.served.high is not None
    assert 0.98 * fate.served.low - 0.1 <= truth <= 1.02 * fate.served.high + 0.1
