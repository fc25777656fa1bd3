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
    joined,
    most,
    stayed,
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


@pytest.mark.parametrize(
    ("limits", "reduced", "part"),
    [(1000, None, 100), (30, None, None), (1000, 60, 60), (1000, 400, 100), (30, 20, 20)],
)
def test_one_that_is_new_gets_what_is_left_or_a_floor(limits: int, reduced: int | None, part: int | None) -> None:
    shared = Shared(ceiling=Limits(total_iops_sec=1000), disks=2, used={}, own={"a": {IOPS: 900}})
    before = None if reduced is None else Limits(total_iops_sec=reduced)
    after = joined(shared, "new", Limits(total_iops_sec=limits), before)
    assert after.parts == {"new": {} if part is None else {IOPS: part}}
    assert (after.disks, after.allowed) == (3, {IOPS: 900 + (limits if part is None else part)})
    assert joined(after, "new", Limits(total_iops_sec=limits)) == after


def test_what_is_written_is_within_the_ceiling_a_reduction_and_never_below_the_floor() -> None:
    """Over random steps, with what each did, guests that cannot be reached, and limits that stay."""
    rng = random.Random(37)
    writes = 0
    for _ in range(count(quick=60, landing=600, soak=6000)):
        ceiling = Limits(total_iops_sec=rng.choice([20, 900, 2500]), total_bytes_sec=rng.choice([2**20, 2**24, 0]))
        limits = [rng.choice(CHOICES) for _ in range(rng.randint(1, 5))]
        kept = {"guest9/disk": rng.choice(CHOICES)} if rng.random() < 0.3 else {}
        before: dict[CeilingKey, Shared] = {}
        has: dict[str, dict[str, int]] = {}
        """What each may do since it was seen last."""
        for period in range(30):
            now = NOON + period * timedelta(seconds=30)
            unseen = {f"guest{n}/disk" for n in range(len(limits)) if rng.random() < 0.05 and period}
            whole = sharing(*limits, ceiling=ceiling, rates=[rng.choice([None, 0.0, 200.0]) for _ in limits])
            present = tuple(each for each in whole.sharers if each.key not in unseen)
            its = replace(whole, sharers=present, kept=kept)
            after = step(before, {TEAM: its}, now, unseen)
            shared = after[TEAM]
            less = [within(each.limits, shared.parts.get(each.key, {})) for each in its.sharers]
            for sharer, each in zip(its.sharers, less, strict=True):
                assert each == sharer.limits or is_reduction(each, sharer.limits)
            for rate in ceiling.rates():
                have = [most(each, rate, burst=True) or 0 for each in (*less, *kept.values())]
                absent = [has[key].get(rate, 0) for key in unseen]
                least = floor(getattr(ceiling, rate), len(limits) + len(kept))
                # Only a floor for each may be above it, and a part of 1 for reads and writes, which is 1 for each.
                pairs = sum(len(bounding(each, rate)) > 1 and most(each, rate) == 2 for each in less)
                pairs += sum(max(has[key].get(rate, 0) - shared.has(key, rate), 0) for key in unseen)
                rest = sum(most(each, rate, burst=True) or 0 for each in kept.values()) + sum(absent)
                assert sum(have) + sum(absent) <= max(getattr(ceiling, rate), rest + least * len(less)) + pairs
                for sharer, each in zip(its.sharers, less, strict=True):
                    own = most(sharer.limits, rate)
                    if own is not None:
                        assert (most(each, rate) or 0) >= min(own, least) - len(bounding(each, rate)) + 1
            has |= {
                each.key: {rate: most(now_has, rate, burst=True) or 0 for rate in ceiling.rates()}
                for each, now_has in zip(its.sharers, less, strict=True)
            }
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


def test_an_end_and_a_begin_of_sharing_are_two_of_the_twenty_splits() -> None:
    limits, before = Limits(total_iops_sec=1000), dict[CeilingKey, Shared]()
    for period in range(12):
        ceiling = Limits(total_iops_sec=1500 if period % 2 else 2500)
        before = step(before, {TEAM: sharing(limits, limits, ceiling=ceiling)}, NOON + period * timedelta(seconds=30))
    assert len(before[TEAM].moves) == 11
    alike = sharing(limits, limits, limits, ceiling=Limits(total_iops_sec=4000))
    first = step({}, {TEAM: replace(alike, sharers=alike.sharers[:2])}, NOON)
    assert step(first, {TEAM: alike}, NOON)[TEAM].moves == (), "one more that has its own limits"


def test_the_file_has_all_of_it_and_after_a_reboot_no_counters() -> None:
    limits = Limits(total_iops_sec=1000)
    its = sharing(limits, limits, ceiling=Limits(total_iops_sec=1500))
    splits = step(step({}, {TEAM: its}, NOON), {TEAM: replace(its, used={IOPS: 7.5})}, NOON)
    splits = {TEAM: stayed(splits[TEAM], {"guest0/disk": limits}, ["guest0/disk"])}
    looks = {
        "guest0/disk": LastCounters(
            "3:1", Reading(7200.5, BlockStats(read_requests=7, read_bytes=28672, write_requests=0, write_bytes=0))
        )
    }
    data = json.loads(ceilings_file.encoded(splits, looks, "boot"))
    assert ceilings_file.decoded(data, "boot") == (splits, looks)
    assert ceilings_file.decoded(data, "another") == (splits, {})
    del data["ceilings"][0]["refused"]
    assert ceilings_file.decoded(data, "boot")[0] == {TEAM: replace(splits[TEAM], refused=frozenset())}, "as it was"
