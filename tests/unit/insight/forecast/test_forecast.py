"""What is forecast of a failure, out of numbers that are exact, ranges, or unknown."""

from __future__ import annotations

import pytest

from plimsoll_agent.util.frozen import replace
from plimsoll_insight.forecast.failures import Failure, by_counts
from plimsoll_insight.forecast.forecast import Forecast, Inputs, forecast
from plimsoll_insight.forecast.ranges import Range, exactly
from plimsoll_insight.forecast.recovery import PlacementGroup

MIB = 1 << 20
HOST = Failure(
    name="host", share=exactly(0.3), objects=exactly(3000), osds=10, hosts=1, left=90, hosts_left=9,
    groups=exactly(100),
    recovering=tuple(PlacementGroup(osds=osds, lost=frozenset((1,)), part=0.5) for osds in ((1, 2), (2, 1))),
)  # fmt: skip
KNOWN = Inputs(
    write_latency=exactly(0.001),
    object_latency=exactly(0.022),
    object_size=exactly(4 * MIB),
    network=exactly(1200 * MIB),
    write_iops=exactly(1000),
    away=exactly(600),
    osd_memory=exactly(4 << 30),
    copies=exactly(3),
)


def near(found: Range | None, low: float, high: float) -> bool:
    return found is not None and (found.low, found.high) == pytest.approx((low, high), rel=1e-3)


def of(**changed: object) -> Forecast:
    return forecast(HOST, replace(KNOWN, **changed))  # type: ignore[arg-type]


def test_the_network_of_the_host_bounds_recovery() -> None:
    found = of()
    assert (found.objects_sec, found.bound) == (exactly(300), "network")
    # 180,000 writes reach each of the 3,000 objects; or fill 180,000 · 4 KiB / 4 MiB of them, one after another.
    assert near(found.stale, 175.78, 3000)
    assert near(found.clean, 0.586, 10)
    assert near(found.rebuild, 10 / 9, 10 / 9)  # on the nine hosts that stay


def test_the_slowest_of_all_bounds_counts() -> None:
    found = of(disk=exactly(4 * MIB), recovery_active=exactly(3))
    assert (found.objects_sec, found.bound) == (exactly(10), "disk")
    # 22 ms to read an object and to write it, and up to 0.1 s of sleep, in two groups beside each other.
    found = of(network=None, recovery_active=exactly(3), recovery_sleep=Range(0, 0.1), stale=exactly(20))
    assert near(found.objects_sec, 2 / 0.144, 2 / 0.044)
    assert found.bound == "settings"


def test_the_time_to_clean_has_peering_and_what_was_said_to_be_stale() -> None:
    known = {"network": None, "recovery_active": exactly(1), "stale": exactly(100), "recovery_sleep": exactly(0.056)}
    assert near(of(**known).clean, 5, 5)
    assert near(of(**known, peering=Range(1, 17)).clean, 6, 22)


def test_more_writes_than_a_log_has_entries_are_told() -> None:
    # Half of them go to each of the two groups.
    assert of(stale=exactly(1000), log_entries=exactly(500)).beyond_log is None
    assert of(stale=exactly(1002), log_entries=exactly(500)).beyond_log == 500
    assert of(write_iops=None, log_entries=exactly(500)).beyond_log is None


def test_copies_are_made_again_by_all_that_stay() -> None:
    # 90 OSDs with a place each, of which a group of three copies takes two: 45 groups at most, half of that at least.
    found = of(network=None, recovery_active=exactly(3), recovery_sleep=exactly(0.056))
    assert near(found.rebuild, 3000 / 450, 3000 / 225)


def test_uncertain_numbers_give_ranges_that_hold_the_exact_ones() -> None:
    wide = of(object_latency=Range(0.01, 0.04), write_latency=Range(0.0005, 0.002), write_iops=Range(500, 2000))
    for name in ("service", "iops_share", "iops", "stale", "clean"):
        exact, range = getattr(of(), name), getattr(wide, name)
        assert range.low <= exact.low <= exact.high <= range.high, name
        assert range.low < range.high, name


def test_iops_fall_as_the_service_time_rises() -> None:
    # 0.3 · 45 + 0.7 · 1 = 14.2 ms instead of 1.
    assert near(of().service, 0.0142, 0.0142)
    assert near(of().iops, 1000 / 14.2, 1000 / 14.2)


@pytest.mark.parametrize(
    ("unknown", "figure", "options"),
    [
        ("write_latency", "service", ("--write-latency",)),
        ("write_iops", "stale", ("--write-iops",)),
        ("away", "clean", ("--away",)),
        ("network", "objects_sec", ("--network", "--disk", "--recovery-active")),
        ("osd_memory", "memory", ("--osd-memory",)),
        ("copies", "memory", ("--copies",)),
    ],
)
def test_what_is_unknown_is_asked_for_and_no_zero(unknown: str, figure: str, options: tuple[str, ...]) -> None:
    found = of(**{unknown: None})
    assert getattr(found, figure) is None
    assert found.unknown[figure] == options
    assert getattr(of(), figure) is not None


def test_without_the_time_away_all_objects_may_be_missing_in_memory() -> None:
    # 10 OSDs of 4 GiB: 100 logs of 3000 entries, and 3 copies that may each miss 300 objects, are less than a fifth.
    assert near(of(away=None).memory, 10 * (4 << 30), 12 * (4 << 30))
    many = replace(HOST, objects=exactly(3e8))
    found = forecast(many, replace(KNOWN, away=None))
    copies = 22 * 4 * MIB
    # What was written to more often than its log tells is compared object by object, not kept: 3e5, not 3e7.
    assert near(found.memory, 10 * (4 << 30), 10 * ((4 << 30) + 3e5 * 1000 + 3e5 * 3 * 600 + copies))


def test_small_osds_hold_more_in_copies_of_objects_than_a_fifth() -> None:
    few = {"osd_memory": exactly(100 * MIB), "stale": exactly(3000), "log_entries": exactly(3)}
    logs, missing = 100 * 3 * 1000, 900 * 600  # of 3 copies of 300 objects
    most = 100 * MIB + logs + missing + 28 * 4 * MIB
    assert near(of(**few, max_backfills=Range(1, 4)).memory, 1000 * MIB, 10 * most)
    assert near(of(**few, object_size=None).memory, 1000 * MIB, 1200 * MIB)


def test_by_counts_all_is_of_the_lost_domains() -> None:
    found = by_counts(10, 2, 3, exactly(1000), 12)
    # Of 120 triples of 10 domains, 56 avoid two of them.
    assert near(found.share, 1 - 56 / 120, 1 - 56 / 120)
    assert (found.osds, found.left, found.hosts) == (24, 96, 2)
    assert near(found.objects, 1000 * (1 - 56 / 120), 1000 * (1 - 56 / 120))


def test_of_racks_the_network_and_the_memory_are_those_of_their_hosts() -> None:
    """20 hosts of 12 OSDs in each: all of them receive, and each has the memory of its own OSDs only."""
    inputs = Inputs(
        network=exactly(1000.0), object_size=exactly(1000.0), osd_memory=exactly(1000.0), copies=exactly(3.0),
        pgs_per_osd=exactly(100.0), log_entries=exactly(1.0),
    )  # fmt: skip
    racks = forecast(by_counts(10, 1, 3, exactly(1000.0), 240, hosts=20), inputs)
    host = forecast(by_counts(200, 1, 3, exactly(1000.0), 12), inputs)
    assert (racks.failure.hosts, racks.failure.hosts_left) == (20, 180)
    assert (racks.objects_sec, host.objects_sec) == (exactly(20.0), exactly(1.0))
    assert near(racks.rebuild, 300 / 180, 300 / 180)
    assert racks.memory is not None
    assert racks.memory.low == 12 * 1000


@pytest.mark.parametrize(("domains", "lost", "copies"), [(3, 3, 3), (3, 0, 3), (2, 1, 3)])
def test_what_cannot_be_lost_is_refused(domains: int, lost: int, copies: int) -> None:
    with pytest.raises(ValueError, match=f"{lost} of {domains} failure domains"):
        by_counts(domains, lost, copies, None, None)
