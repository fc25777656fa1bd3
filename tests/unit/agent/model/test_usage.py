"""What a disk does against its limit, from two readings of its counters."""

from __future__ import annotations

import pytest

from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.hypervisor import BlockStats
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, Unknown, because
from plimsoll_agent.model.usage import Reading, TimeAtLimit, Usage, follow, unreachable
from plimsoll_agent.util.frozen import replace
from tests.unit.values import a_disk, a_guest

KIB = 1024
SILENCE = because(Code.TIMED_OUT, detail="no answer from QEMU within 5 s")


def reading(at: float, reads: int = 0, read: int = 0, writes: int = 0, written: int = 0) -> Reading:
    return Reading(at, BlockStats(read_requests=reads, read_bytes=read, write_requests=writes, write_bytes=written))


def after(limits: Limits | Unknown, second: Reading) -> Usage:
    """A disk that did nothing until second 0, and then what the reading says."""
    disk = a_disk(actual=limits)
    return follow(follow((), [disk], {"vdb": reading(0)}), [disk], {"vdb": second})[0]


def busy(disk: Disk, *iops: float, seconds: float = 10) -> tuple[Usage, ...]:
    """A disk that is read every few seconds, and what it did in each of these stretches."""
    usages, done = follow((), [disk], {"vdb": reading(0)}), 0.0
    for number, rate in enumerate(iops, 1):
        done += rate * seconds
        usages = follow(usages, [disk], {"vdb": reading(number * seconds, reads=int(done))})
    return usages


def test_latency_is_the_time_of_all_requests_by_their_number() -> None:
    def reading(at: float, reads: int, writes: int, nanoseconds: int | None, flushes: int | None = 7) -> Reading:
        return Reading(
            at,
            BlockStats(
                read_requests=reads,
                read_bytes=0,
                write_requests=writes,
                write_bytes=0,
                nanoseconds=nanoseconds,
                flushes=flushes,
            ),
        )

    def latency(*readings: Reading) -> float | None:
        disk, usages = a_disk(actual=Limits()), tuple[Usage, ...]()
        for each in readings:
            usages = follow(usages, [disk], {"vdb": each})
        assert usages[0].rates is not None
        return usages[0].rates.latency

    before = reading(0, 10, 10, 10**9)
    assert latency(before, reading(5, 25, 15, 10**9 + 80_000_000)) == 0.004
    assert latency(before, reading(5, 10, 10, 10**9)) is None, "no request: unknown, and not zero"
    assert latency(before, reading(5, 25, 15, None)) is None
    assert latency(reading(0, 10, 10, None), reading(5, 25, 15, 10**9)) is None
    flushed = 10 * 100_000 + 10 * 12_000_000
    assert latency(before, reading(5, 10, 20, 10**9 + flushed, 17)) == pytest.approx(0.00605)
    assert latency(before, reading(5, 10, 10, 10**9 + 24_000_000, 9)) == pytest.approx(0.012), "flushes alone"
    assert latency(before, reading(5, 10, 20, 10**9 + flushed, None)) is None, "an unknown part of it is flushes"


def test_rates_are_what_was_done_in_the_seconds_between() -> None:
    rates = after(Limits(), reading(4, reads=400, read=4 * KIB, writes=40, written=8 * KIB)).rates
    assert rates is not None
    assert (rates.of("read_iops_sec"), rates.of("write_iops_sec"), rates.of("total_iops_sec")) == (100, 10, 110)
    assert (rates.of("read_bytes_sec"), rates.of("write_bytes_sec"), rates.of("total_bytes_sec")) == (
        KIB,
        2 * KIB,
        3 * KIB,
    )


@pytest.mark.parametrize(
    ("limit", "share"),
    [
        ("total_iops_sec", 0.3),
        ("read_iops_sec", 0.2),
        ("write_iops_sec", 0.1),
        ("total_bytes_sec", 0.7),
        ("read_bytes_sec", 0.4),
        ("write_bytes_sec", 0.3),
    ],
)
def test_each_limit_is_held_against_what_it_is_about(limit: str, share: float) -> None:
    did = reading(1, reads=200, writes=100, read=400, written=300)
    assert after(Limits.from_mapping({limit: 1000}), did).shares == pytest.approx({limit: share})


def test_the_share_is_that_of_the_limit_that_is_closest() -> None:
    usage = after(Limits(total_iops_sec=100, write_bytes_sec=1000), reading(1, reads=50, writes=30, written=900))
    assert (usage.share, usage.share_of("iops"), usage.share_of("bytes")) == (0.9, 0.8, 0.9)


def test_a_burst_is_more_than_the_whole_limit() -> None:
    assert after(Limits(total_iops_sec=100, total_iops_sec_max=300), reading(1, reads=250)).share == 2.5


def test_a_large_request_counts_as_several_in_its_own_direction() -> None:
    limits = Limits(total_iops_sec=100, size_iops_sec=4 * KIB)
    # 10 reads of 16 KiB are 40 of 4 KiB; 20 writes of 512 bytes stay 20, and lend the reads nothing.
    usage = after(limits, reading(1, reads=10, read=160 * KIB, writes=20, written=10 * KIB))
    assert usage.share == pytest.approx(0.6)


def test_where_the_limit_is_unknown_so_is_the_share() -> None:
    usage = after(Unknown(SILENCE), reading(1, reads=250))
    assert usage.rates is not None
    assert (usage.share, usage.at_limit) == (None, None)


def test_a_disk_without_a_limit_has_no_share_of_it() -> None:
    usage = after(Limits(), reading(1, reads=250))
    assert (usage.share, usage.at_limit, usage.unlimited) == (None, None, True)


def test_one_reading_says_nothing() -> None:
    usage = follow((), [a_disk(actual=Limits(total_iops_sec=100))], {"vdb": reading(9, reads=10**6)})[0]
    assert (usage.rates, usage.share, usage.at_limit, usage.reason) == (None, None, None, None)


# --- starting afresh


def test_counters_that_go_backwards_start_afresh_and_forget_the_wall() -> None:
    disk = a_disk(actual=Limits(total_iops_sec=100))
    usages = follow(busy(disk, 100, 100), [disk], {"vdb": reading(30, reads=5)})
    assert (usages[0].rates, usages[0].at_limit) == (None, None)
    assert follow(usages, [disk], {"vdb": reading(31, reads=55)})[0].share == 0.5


def test_another_disk_under_the_same_letter_starts_afresh() -> None:
    disk = a_disk(actual=Limits(total_iops_sec=100))
    another = replace(disk, node="7")
    usages = follow(busy(disk, 100), [another], {"vdb": reading(20, reads=10**6)})
    assert (usages[0].rates, usages[0].at_limit) == (None, None)


def test_two_readings_of_one_moment_say_nothing() -> None:
    assert after(Limits(total_iops_sec=100), reading(0, reads=5)).rates is None


def test_a_guest_that_was_busy_is_unknown_and_what_it_did_since_is_not_now() -> None:
    disk = a_disk(actual=Limits(total_iops_sec=100))
    missed = follow(busy(disk, 100, 100), [disk], {})
    assert missed[0].reason is not None
    assert missed[0].rates is None
    again = follow(missed, [disk], {"vdb": reading(40, reads=3000)})
    assert again[0].rates is None, "an average over the gap is not what it does now"
    assert again[0].at_limit == TimeAtLimit(1, 20), "what is known of the last minute stays known"


def test_what_is_actual_on_a_guest_that_does_not_answer_is_unknown() -> None:
    disk = a_disk(actual=Limits(total_iops_sec=100))
    usage = unreachable(busy(disk, 100), [disk], SILENCE)[0]
    assert (usage.rates, usage.share, usage.reason) == (None, None, SILENCE)
    assert usage.disk.actual == Unknown(SILENCE)


# --- disks that share a limit

GROUP = Limits(total_iops_sec=100, group_name="g")


def pair(limits: Limits, *, known: bool = True, other: Disk | None = None) -> tuple[Usage, ...]:
    """vdb does 60 a second, vdc 30."""
    disks = [a_disk(actual=limits), other or a_disk(target="vdc", node="3", actual=limits)]
    first = {"vdb": reading(0), "vdc": reading(0)} if known else {"vdb": reading(0)}
    return follow(
        follow((), disks, first), disks, {"vdb": reading(1, reads=60), "vdc": reading(1, reads=20, writes=10)}
    )


def test_disks_of_a_group_use_one_limit_together() -> None:
    assert [(usage.share, usage.sharing) for usage in pair(GROUP)] == [(0.9, 2), (0.9, 2)]


def test_a_limit_of_each_disk_is_its_own() -> None:
    assert [usage.share for usage in pair(Limits(total_iops_sec=100))] == [0.6, 0.3]


def test_a_group_of_which_one_disk_is_unknown_is_unknown() -> None:
    assert [usage.share for usage in pair(GROUP, known=False)] == [None, None]


def test_a_disk_of_another_group_does_not_count() -> None:
    other = a_disk(target="vdc", node="3", actual=replace(GROUP, group_name="h"))
    assert [usage.share for usage in pair(GROUP, other=other)] == [0.6, 0.3]


def test_a_group_does_not_reach_beyond_its_guest() -> None:
    elsewhere = a_disk(a_guest(uuid="another", run="9"), actual=GROUP)
    usages = follow((), [elsewhere], {"vdb": reading(0)})
    assert follow(usages, [elsewhere], {"vdb": reading(1, reads=30)})[0].share == 0.3


# --- time at their limit


def test_the_time_at_limit_is_a_share_of_the_seconds_that_are_known() -> None:
    at_limit = busy(a_disk(actual=Limits(total_iops_sec=100)), 100, 10, 96, 94)[0].at_limit
    assert at_limit is not None
    assert (at_limit.share, at_limit.seconds) == (0.5, 40)


def test_longer_stretches_weigh_more() -> None:
    disk = a_disk(actual=Limits(total_iops_sec=100))
    usages = follow(busy(disk, 0), [disk], {"vdb": reading(40, reads=3000)})
    assert usages[0].at_limit is not None
    assert usages[0].at_limit.share == 0.75


def test_the_wall_of_more_than_a_minute_ago_is_forgotten_to_the_second() -> None:
    # 7 stretches of 25 s: of the third from the end, 10 s are within the last minute.
    at_limit = busy(a_disk(actual=Limits(total_iops_sec=100)), 100, 100, 100, 100, 100, 0, 0, seconds=25)[0].at_limit
    assert at_limit is not None
    assert (at_limit.share, at_limit.seconds) == (pytest.approx(1 / 6), 60)


def test_a_disk_that_was_unknown_for_a_minute_has_no_time_at_limit() -> None:
    disk = a_disk(actual=Limits(total_iops_sec=100))
    missed = unreachable(busy(disk, 100, 0), [disk], SILENCE)
    again = follow(missed, [disk], {"vdb": reading(100)})
    assert again[0].at_limit is None
    assert follow(again, [disk], {"vdb": reading(110)})[0].at_limit == TimeAtLimit(0, 10)
