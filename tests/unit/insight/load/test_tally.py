"""Sums of what disks did, beside sums made by hand."""

from __future__ import annotations

import pytest

from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.hypervisor import BlockStats
from plimsoll_agent.model.reason import Code, because
from plimsoll_agent.model.usage import Rates, Reading, Usage, follow
from plimsoll_agent.util.frozen import of_tuple
from plimsoll_insight.load.tally import Did, Intervals, LoadTally, heaviest, key_of, share_of, size_words
from tests.unit.values import a_disk, a_guest

KIB = 1024


def watched(disk: Disk, *counters: tuple[int, int, int, int], every: float = 1.0) -> LoadTally:
    """The disk's counters (read requests and bytes, write requests and bytes) at each second."""
    tally, before = LoadTally(), ()
    for number, each in enumerate(counters):
        before = follow(before, [disk], {disk.target: Reading(number * every, of_tuple(BlockStats, each))})
        tally.add(before)
    return tally


def test_what_a_disk_did_is_the_difference_of_its_counters() -> None:
    disk = a_disk()
    tally = watched(disk, (100, 9 * KIB, 5, 7), (110, 49 * KIB, 5, 7), (110, 49 * KIB, 25, 7 + 20 * 64 * KIB))
    [did] = tally.did.values()
    assert did.requests == {"read": 10, "write": 20}
    assert did.bytes == {"read": 40 * KIB, "write": 20 * 64 * KIB}
    assert (did.mean_size("read"), did.mean_size("write")) == (4 * KIB, 64 * KIB)
    assert tally.seconds == 2


def test_sizes_are_those_of_each_interval_not_their_mean() -> None:
    """300 writes of 4k, then 100 of 512k: their mean, 131k, is no request's size."""
    tally = watched(a_disk(), (0, 0, 0, 0), (0, 0, 300, 300 * 4 * KIB), (0, 0, 400, 300 * 4 * KIB + 100 * 512 * KIB))
    [did] = tally.did.values()
    assert did.usual_sizes("write") == [(4 * KIB, 0.75), (512 * KIB, 0.25)]
    assert did.usual_sizes("read") == []
    assert did.mean_size("read") is None


def over_time(*readings: tuple[float, int, int]) -> list[Did]:
    """A disk's write requests and bytes at these times, in intervals of a second from 100 s on."""
    disk, tally, before = a_disk(), LoadTally(Intervals(100.0, 1.0)), ()
    for at, requests, written in readings:
        before = follow(
            before,
            [disk],
            {
                disk.target: Reading(
                    at, BlockStats(read_requests=0, read_bytes=0, write_requests=requests, write_bytes=written)
                )
            },
        )
        tally.add(before)
    assert tally.intervals is not None
    return tally.intervals.each()


def test_each_interval_has_the_sizes_of_its_own_disks() -> None:
    """In the first second vda writes 30 of 4k, vdb 10 of 64k; in the next only vda does, 20 of 512k."""
    small, large = a_disk(target="vda"), a_disk(target="vdb", volume_id=None, image="b")
    tally, before = LoadTally(Intervals(100.0, 1.0)), ()
    after = ((0, 0), (0, 0)), ((30, 120 * KIB), (10, 640 * KIB)), ((50, 120 * KIB + 20 * 512 * KIB), (10, 640 * KIB))
    for second, counters in enumerate(after):
        read = {disk.target: Reading(100.01 + second, of_tuple(BlockStats, [0, 0, *counts]))
                for disk, counts in zip((small, large), counters, strict=True)}  # fmt: skip
        before = follow(before, [small, large], read)
        tally.add(before)
    assert tally.intervals is not None
    first, second = tally.intervals.each()
    assert (first.requests["write"], first.mean_size("write")) == (40, 760 * KIB / 40)
    assert first.usual_sizes("write") == [(4 * KIB, 0.75), (64 * KIB, 0.25)]
    assert (second.requests["write"], second.usual_sizes("write")) == (20, [(512 * KIB, 1.0)])


def test_an_interval_in_which_nothing_was_done_is_there() -> None:
    found = over_time((100.0, 0, 0), (101.0, 0, 0), (102.0, 5, 5 * 4 * KIB))
    assert [each.requests["write"] for each in found] == [0, 5]


def test_a_reading_that_comes_after_several_intervals_is_divided_among_them() -> None:
    """The guest did not answer at 101 and 102: 7 requests of 4k in three seconds are no 7 in one."""
    found = over_time((100.0, 0, 0), (103.02, 7, 7 * 4 * KIB), (104.01, 8, 8 * 4 * KIB))
    assert [each.requests["write"] for each in found] == [2, 2, 3, 1]
    assert {each.mean_size("write") for each in found} == {4 * KIB}
    assert [each.usual_sizes("write") for each in found] == [[(4 * KIB, 1.0)]] * 4


def test_a_guest_that_is_read_late_in_each_round_is_in_the_interval_that_has_most_of_its_time() -> None:
    found = over_time((100.6, 0, 0), (101.6, 5, 5), (102.6, 6, 6))
    assert [each.requests["write"] for each in found] == [0, 5, 1]


def test_a_reading_that_is_told_twice_counts_once() -> None:
    disk, tally = a_disk(), LoadTally()
    used = Usage(
        disk=disk,
        reading=Reading(1.0, BlockStats(read_requests=0, read_bytes=0, write_requests=0, write_bytes=0)),
        rates=Rates(read_iops=0, write_iops=10, read_bytes=0, write_bytes=10 * KIB, seconds=1.0),
    )
    tally.add([used])
    tally.add([used])
    assert tally.whole.requests["write"] == 10


def test_a_disk_whose_counters_are_unknown_is_no_idle_one() -> None:
    tally = LoadTally()
    tally.add([Usage(disk=a_disk(), reason=because(Code.NOT_SENT, detail="busy"))])
    assert (len(tally.unknown), tally.did) == (1, {})


@pytest.mark.parametrize(
    ("writes", "number"), [((50, 60, 3, 5), 10 + 2), ((50, 3, 5), 2), ((50, 60, 3), 10), ((50, 60, 65), 15)]
)
def test_a_restart_takes_nothing_away_and_what_was_done_before_it_is_missing(
    writes: tuple[int, ...], number: int
) -> None:
    tally = watched(disk := a_disk(), *((0, 0, each, each) for each in writes))
    assert tally.whole.requests["write"] == number
    assert tally.unknown == ({disk.key} if 3 in writes else set())


def test_disks_are_summed_by_what_is_asked_for() -> None:
    one, other = a_guest(project="p1", name="g1"), a_guest(uuid="0" * 36, project="p2", name="g2")
    disks = [
        a_disk(one, target="vda", volume_id=None, image="a"),
        a_disk(one, target="vdb", volume_id=None, image="b", volume_type="gold"),
        a_disk(other, target="vda", volume_id=None, image="c", volume_type="gold"),
    ]
    tally = LoadTally()
    for number, disk in enumerate(disks, 1):
        tally.add(
            [
                Usage(
                    disk=disk,
                    reading=Reading(
                        number, BlockStats(read_requests=0, read_bytes=0, write_requests=0, write_bytes=0)
                    ),
                    rates=Rates(read_iops=0, write_iops=10 * number, read_bytes=0, write_bytes=0, seconds=1.0),
                )
            ]
        )

    def by(what: str) -> dict[str, tuple[int, int]]:
        return {each.name: (each.disks, each.did.requests["write"]) for each in tally.by(key_of(what))}

    assert by("guest") == {"g1": (2, 30), "g2": (1, 30)}
    assert by("project") == {"p1": (2, 30), "p2": (1, 30)}
    assert by("type") == {"gold": (2, 50), "unknown": (1, 10)}
    assert [each.did.requests["write"] for each in tally.by(key_of("volume"))] == [30, 20, 10]


def shares(*writes: int) -> tuple[list[Did], Did]:
    found, whole = [], Did()
    for count in writes:
        did = Did()
        did.requests["write"] = count
        whole.merge(did)
        found.append(did)
    return found, whole


def test_a_quarter_of_all_writes_comes_from_the_fewest_volumes_that_make_it() -> None:
    found, whole = shares(*[10] * 74, 7, 6, 90, 80, 60, 23)
    assert whole.requests["write"] == 1006
    assert heaviest(found, whole, "requests", "write") == (4, pytest.approx(253 / 1006))
    assert heaviest(*shares(5), "requests", "write") == (1, 1.0)
    assert heaviest(*shares(0, 0), "requests", "write") is None
    assert heaviest(found, whole, "bytes", "read") is None
    assert heaviest(found[:20], whole, "requests", "write") is None, "these make less than a quarter"


def test_a_share_of_nothing_is_unknown() -> None:
    [did], whole = shares(5)
    assert share_of(did, whole, "requests", "write") == 1
    assert share_of(did, whole, "requests", "read") is None


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (512, "512 B"),
        (4096, "4 KiB"),
        (1536, "1.5 KiB"),
        (65536, "64 KiB"),
        (1 << 20, "1 MiB"),
        (3.25 * 2**20, "3.2 MiB"),
        (2**30, "1 GiB"),
    ],
)
def test_sizes_in_words(size: float, words: str) -> None:
    assert size_words(size) == words
