"""What disks that share a ceiling may have, and when that changes."""

from __future__ import annotations

import json
import random
from datetime import timedelta

import pytest

from plimsoll_agent.ceilings.buckets import (
    MOST_MOVES,
    WITHIN,
    CeilingKey,
    LastCounters,
    Shared,
    Sharer,
    Sharing,
    Whose,
    bounding,
    most,
    part_of,
    step,
    within,
)
from plimsoll_agent.ceilings.split import floor
from plimsoll_agent.congestion.reduction import is_reduction
from plimsoll_agent.model.hypervisor import BlockStats
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.usage import Reading
from plimsoll_agent.store import ceilings_file
from plimsoll_agent.util.frozen import replace
from tests.depth import count
from tests.unit.values import NOON

IOPS, BYTES = "total_iops_sec", "total_bytes_sec"
TEAM = CeilingKey(Whose.PROJECT, "p", "team")
CHOICES = [
    Limits(total_iops_sec=1000),
    Limits(total_iops_sec=400, total_iops_sec_max=900, total_bytes_sec=2**24),
    Limits(read_iops_sec=300, write_iops_sec=700),
    Limits(total_iops_sec=3, total_bytes_sec=2**30),
    Limits(total_bytes_sec=2**22),
]


def sharing(*limits: Limits, ceiling: Limits, rates: list[float | None] | None = None) -> Sharing:
    sharers = [
        Sharer(key=f"guest{n}/disk", limits=each, rates={} if rates is None else {IOPS: rates[n]})
        for n, each in enumerate(limits)
    ]
    return Sharing(ceiling=ceiling, disks=len(sharers), sharers=tuple(sharers))


def test_within_lowers_and_takes_the_burst() -> None:
    burst = Limits(total_iops_sec=400, total_iops_sec_max=900, total_bytes_sec=2**24, total_bytes_sec_max=2**25)
    assert within(burst, {IOPS: 300}) == Limits(total_iops_sec=300, total_bytes_sec=2**24, total_bytes_sec_max=2**25)
    assert within(burst, {IOPS: 500}).total_iops_sec == 400
    assert within(Limits(read_iops_sec=300, write_iops_sec=700), {IOPS: 500}) == Limits(
        read_iops_sec=150, write_iops_sec=350
    )
    assert within(Limits(total_iops_sec=400), {"read_iops_sec": 100}) == Limits(total_iops_sec=100)
    assert within(Limits(total_bytes_sec=400), {IOPS: 100}) == Limits(total_bytes_sec=400)


@pytest.mark.parametrize(("limits", "own"), [(1000, 100), (30, 30)])
def test_one_that_is_new_gets_what_is_left_or_a_floor(limits: int, own: int) -> None:
    shared = Shared(ceiling=Limits(total_iops_sec=1000), disks=2, allowed={IOPS: 900}, used={})
    assert part_of(shared, "new", Limits(total_iops_sec=limits)) == ({IOPS: own} if limits > 100 else {})


def test_what_is_written_is_within_the_ceiling_a_reduction_and_never_below_the_floor() -> None:
    """Over random steps, with what each did, guests that cannot be reached, and limits that stay."""
    rng = random.Random(37)
    writes = 0
    for _ in range(count(quick=60, landing=600, soak=6000)):
        ceiling = Limits(total_iops_sec=rng.choice([20, 900, 2500]), total_bytes_sec=rng.choice([2**20, 2**24, 0]))
        limits = [rng.choice(CHOICES) for _ in range(rng.randint(1, 5))]
        kept = tuple(rng.choice(CHOICES) for _ in range(rng.choice([0, 0, 1])))
        before: dict[CeilingKey, Shared] = {}
        for period in range(30):
            now = NOON + period * timedelta(seconds=30)
            unseen = {f"guest{n}" for n in range(len(limits)) if rng.random() < 0.05 and period}
            whole = sharing(*limits, ceiling=ceiling, rates=[rng.choice([None, 0.0, 200.0]) for _ in limits])
            present = tuple(each for each in whole.sharers if each.key.partition("/")[0] not in unseen)
            its = replace(whole, sharers=present, kept=kept)
            after = step(before, {TEAM: its}, now, unseen)
            shared = after[TEAM]
            less = [within(each.limits, shared.parts.get(each.key, {})) for each in its.sharers]
            for sharer, each in zip(its.sharers, less, strict=True):
                assert each == sharer.limits or is_reduction(each, sharer.limits)
            for rate in ceiling.rates():
                have = [most(each, rate, burst=True) or 0 for each in (*less, *kept)]
                absent = [part.get(rate, 0) for key, part in shared.parts.items() if key.partition("/")[0] in unseen]
                least = floor(getattr(ceiling, rate), len(limits) + len(kept))
                # Only a floor for each may be above it, and a part of 1 for reads and writes, which is 1 for each.
                pairs = sum(len(bounding(each, rate)) > 1 and most(each, rate) == 2 for each in less)
                rest = sum(most(each, rate, burst=True) or 0 for each in kept) + sum(absent)
                assert sum(have) + sum(absent) <= max(getattr(ceiling, rate), rest + least * len(less)) + pairs
                for sharer, each in zip(its.sharers, less, strict=True):
                    own = most(sharer.limits, rate)
                    if own is not None:
                        assert (most(each, rate) or 0) >= min(own, least) - len(bounding(each, rate)) + 1
            writes += bool(before) and before[TEAM].parts != shared.parts
            before = after
    assert writes > 100


def test_a_ceiling_is_split_twenty_times_an_hour_and_by_need_again_after_it() -> None:
    ceiling, limits, before = Limits(total_iops_sec=1500), Limits(total_iops_sec=1000), dict[CeilingKey, Shared]()
    moves = []
    for period in range(130):
        now = NOON + period * timedelta(seconds=30)
        rates = [None, 0.0] if period % 2 else [0.0, None]
        after = step(before, {TEAM: sharing(limits, limits, ceiling=ceiling, rates=rates)}, now)
        if before and after[TEAM].parts != before[TEAM].parts:
            moves.append(now)
        before = after
    assert all(sum(at - WITHIN < each <= at for each in moves) <= MOST_MOVES for at in moves)
    assert [each for each in moves if each > NOON + WITHIN]


def test_the_file_has_all_of_it_and_after_a_reboot_no_counters() -> None:
    limits = Limits(total_iops_sec=1000)
    its = sharing(limits, limits, ceiling=Limits(total_iops_sec=1500))
    splits = step(step({}, {TEAM: its}, NOON), {TEAM: replace(its, used={IOPS: 7.5})}, NOON)
    looks = {"guest0/disk": LastCounters("3:1", Reading(7200.5, BlockStats(7, 28672, 0, 0)))}
    data = json.loads(ceilings_file.encoded(splits, looks, "boot"))
    assert ceilings_file.decoded(data, "boot") == (splits, looks)
    assert ceilings_file.decoded(data, "another") == (splits, {})
