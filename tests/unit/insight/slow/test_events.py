"""Each dialect of a line about slow requests, by what it says."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from plimsoll_insight.slow.events import (
    Event,
    LogClock,
    MonitorReport,
    SlowCount,
    SlowRequest,
    event,
    lines,
    operation,
)
from tests import golden

JEWEL = "2016-09-19 13:05:31.343245 osd.382 10.0.0.1:6800/123 456 : cluster [WRN] "
OCTOPUS = "2021-09-19T13:05:31.343245+0000 osd.382 (osd.382) 456 : cluster [WRN] "
SQUID = "2025-09-19T15:05:31.343+0200 7f0ad8ff96c0  0 log_channel(cluster) log [WRN] : "
MON = "2021-09-19T13:05:31.343245+0000 mon.a (mon.0) 87 : cluster [WRN] "


def said(line: str, osd: int | None = None) -> Event | None:
    return event(line.encode(), osd, LogClock())


def reading(osd: str, line: str) -> str:
    return repr(said(line, None if osd == "-" else int(osd)))


def test_each_line_is_read_as_in_the_golden_file() -> None:
    golden.transcript("slow_lines.txt", reading)


def test_times_have_their_zone_and_without_one_are_utc() -> None:
    moments = [said(f"{head}1 slow requests (by type [ 'delayed' : 1 ])", 1) for head in (OCTOPUS, SQUID)]
    times = [each.time for each in moments if isinstance(each, SlowCount)]
    assert times == pytest.approx([1632056731.343245, 1758287131.343])
    assert isinstance(
        said(f"{JEWEL}1 slow requests, 1 included below; oldest blocked for > 30.9 secs"), MonitorReport
    )


@pytest.mark.parametrize(("zone", "hours"), [("UTC", 13), ("Europe/Berlin", 11), ("America/New_York", 17)])
def test_times_without_a_zone_are_read_in_the_one_that_is_given(zone: str, hours: int) -> None:
    clock = LogClock(ZoneInfo(zone))
    line = f"{JEWEL}1 slow requests, 1 included below; oldest blocked for > 30.9 secs".encode()
    found = event(line, None, clock)
    assert isinstance(found, MonitorReport)
    assert datetime.fromtimestamp(found.time, UTC).replace(microsecond=0) == datetime(
        2016, 9, 19, hours, 5, 31, 0, UTC
    )
    assert clock.is_used
    told = LogClock(ZoneInfo(zone))
    found = event(f"{OCTOPUS}1 slow requests (by type [ 'delayed' : 1 ])".encode(), None, told)
    assert isinstance(found, SlowCount)
    assert (found.time, told.is_used) == (pytest.approx(1632056731.343245), False)


@pytest.mark.parametrize("zone", ["+0200", "+02:00"])
def test_a_zone_may_have_a_colon(zone: str) -> None:
    clock = LogClock()
    assert clock.time(f"2021-09-19T15:05:31.5{zone} osd.1".encode()) == 1632056731.5
    assert not clock.is_used


@pytest.mark.parametrize(("stamp", "time"), [
    ("Sep 19 13:05:31", 1632056731.0), ("Sep 18 20:05:31", 1631995531.0), ("Sep 21 13:05:31", 1632229531.0),
    ("Jan  2 13:05:31", 1641128731.0),
])  # fmt: skip
def test_a_stamp_without_a_year_is_of_the_year_after_the_request_began(stamp: str, time: float) -> None:
    """In a copy of an old log, of which the time is that of the copy."""
    request = "osd_op(client.4140.0:39903 1.3 1:ce1654c3:::rbd_data.102afe660f2.0000000000000094:head [read 0~4])"
    clock = LogClock()
    clock.until = 1_795_000_000.0
    for begin in (
        f"slow request {request} initiated 2021-09-19T13:05:00.123456+0200 currently delayed",
        f"slow request 30.5 seconds old, received at 2021-09-19 11:05:00.1: {request} currently delayed",
    ):
        told = event(f"{stamp} host1 ceph-osd[123]: log_channel(cluster) log [WRN] : {begin}".encode(), 7, clock)
        assert isinstance(told, SlowRequest)
        assert told.time == time


def test_the_data_of_an_image_may_be_in_another_pool_than_its_name() -> None:
    inside = b"client.4140.0:39903 9.3 9:ce1654c3:::rbd_data.%s102afe660f2.0000000000000094:head [write 0~4096] e20"
    for prefix, pool in ((b"", 9), (b"4.", 4)):
        found = operation(b"osd_op", inside % prefix)
        assert (found.image, found.pool, found.image_pool) == ("102afe660f2", 9, pool)


def test_only_lines_of_interest_are_looked_at_each_once() -> None:
    text = f"first slow request\npgmap v1\n{MON}osd.2 [v2:x] boot\nbooted\nslow ops slow ops\n"
    assert [each.decode() for each in lines(text.encode())] == [
        "first slow request", f"{MON}osd.2 [v2:x] boot", "slow ops slow ops",
    ]  # fmt: skip


@pytest.mark.parametrize("begin", [
    b"slow request " + b"1" * 65_000, b"slow request osd_op(" + b"a" * 65_000, b"slow request " + b"1 " * 32_000,
    b"1 slow requests (by type [ " + b" ] most affected pool [ " * 2500, b"osd.1 failed osd." * 3500,
    b"Health check failed: " + b"1" * 65_000, b"slow request osd_op(client.1.1:1) currently " + b"a" * 65_000,
    b"slow request osd_op(" + b"rbd_data.1" * 6000 + b") initiated " * 2000,
])  # fmt: skip
def test_a_hostile_line_takes_no_time(begin: bytes) -> None:
    began = time.process_time()
    event(OCTOPUS.encode() + begin, None, LogClock())
    assert time.process_time() - began < 0.5


def test_the_id_of_an_image_that_may_be_cut_is_none() -> None:
    assert (
        operation(b"osd_op", b"client.4.0:3 1.3 1:ce1654c3:::rbd_header.102afe660f2:head [watch]").image
        == "102afe660f2"
    )
    assert operation(b"osd_op", b"client.4.0:3 1.3 1:ce1654c3:::rbd_header.102afe660").image is None
