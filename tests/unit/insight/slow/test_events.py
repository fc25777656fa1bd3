"""Each dialect of a line about slow requests, by what it says."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from plimsoll_insight.slow.events import (
    Event,
    Known,
    LogClock,
    MonitorReport,
    Oldest,
    OsdChange,
    SlowCount,
    SlowRequest,
    event,
    lines,
    operation,
)

OLD_OP = (
    "osd_op(client.4140.0:39903 rbd_data.102afe660f2.0000000000000094"
    " [write 2424832~16384] 1.ce1654c3 ack+ondisk e20)"
)
OP = (
    "osd_op(client.4140.0:39903 1.3 1:ce1654c3:::rbd_data.102afe660f2.0000000000000094:head"
    " [write 2424832~16384 in=16384b] snapc 0=[] ondisk+write+known_if_redirected e20)"
)
REPLICA = "osd_repop(client.4140.0:39903 1.3 e20/18 1:ce1654c3:::rbd_data.102afe660f2.0000000000000094:head v 20'9)"
RECEIVED = "slow request 30.112233 seconds old, received at 2016-09-19 13:05:01.343245:"
JEWEL = "2016-09-19 13:05:31.343245 osd.382 10.0.0.1:6800/123 456 : cluster [WRN] "
MIMIC = "2018-09-19 13:05:31.343245 osd.382 osd.382 10.0.0.1:6800/123 456 : cluster [WRN] "
OCTOPUS = "2021-09-19T13:05:31.343245+0000 osd.382 (osd.382) 456 : cluster [WRN] "
QUINCY = "2023-09-19T13:05:31.343245+0000 osd.382 (osd.382) 456 : cluster 3 "
"""Of a real cluster: ``mon.a (mon.0) 903 : cluster 1 Health check cleared`` (Ceph's pull request 47502)."""
WATCHED, WATCHED_JEWEL = "2023-03-22T14:11:24.860274+0000 osd.382 [WRN] ", "2017-08-19 00:19:17.540456 osd.382 [WRN] "
"""As ``ceph -w`` prints them."""
SQUID = "2025-09-19T15:05:31.343+0200 7f0ad8ff96c0  0 log_channel(cluster) log [WRN] : "
MON = "2021-09-19T13:05:31.343245+0000 mon.a (mon.0) 87 : cluster [WRN] "


def said(line: str, osd: int | None = None) -> Event | None:
    return event(line.encode(), osd, LogClock())


@pytest.mark.parametrize(
    ("line", "state", "age", "peers"),
    [
        (f"{JEWEL}{RECEIVED} {OLD_OP} currently waiting for subops from 1,22",
         "waiting for sub ops", 30.112233, (1, 22)),
        (f"{JEWEL}{RECEIVED} {OLD_OP} currently waiting for subops from 7", "waiting for sub ops", 30.112233, (7,)),
        (f"{MIMIC}{RECEIVED} {OP} currently waiting for rw locks", "waiting for rw locks", 30.112233, ()),
        (f"{MIMIC}{RECEIVED} {OP} currently reached_pg", "reached_pg", 30.112233, ()),
        (f"{MIMIC}slow request {OP} initiated 2018-09-19 13:04:31.343245 currently started", "started", 60.0, ()),
        (f"{OCTOPUS}slow request {OP} initiated 2021-09-19T13:04:31.343245+0000 currently delayed",
         "delayed", 60.0, ()),
        (f"{WATCHED_JEWEL}{RECEIVED} {OLD_OP} currently waiting for subops from 7",
         "waiting for sub ops", 30.112233, (7,)),
        # One replica has answered: the request waits for another one.
        (f"{MIMIC}{RECEIVED} {OP} currently sub_op_commit_rec from 22", "waiting for sub ops", 30.112233, ()),
    ],
)  # fmt: skip
def test_one_request_in_each_dialect(line: str, state: str, age: float, peers: tuple[int, ...]) -> None:
    found = said(line)
    assert isinstance(found, SlowRequest)
    assert (found.osd, found.state, found.peers) == (382, state, peers)
    assert found.age == pytest.approx(age)
    assert (found.operation.id, found.operation.image) == (b"client.4140.0:39903", "102afe660f2")
    assert not found.operation.is_replica


def test_the_pool_is_that_of_the_placement_group() -> None:
    found = said(f"{OCTOPUS}slow request {OP} initiated 2021-09-19T13:04:31.343245+0000 currently delayed")
    assert isinstance(found, SlowRequest)
    assert found.operation.pool == 1


def test_a_part_of_another_one_s_write_is_that_of_a_replica() -> None:
    found = said(f"{OCTOPUS}slow request {REPLICA} initiated 2021-09-19T13:04:31.343245+0000 currently started")
    assert isinstance(found, SlowRequest)
    assert found.operation.is_replica


@pytest.mark.parametrize(
    ("head", "osd"), [(OCTOPUS, None), (SQUID, 382), (JEWEL, None), (QUINCY, None), (WATCHED, None)]
)
def test_a_sum_by_state_and_pool_in_both_logs(head: str, osd: int | None) -> None:
    types = "'delayed' : 4 'waiting for sub ops' : 2"
    found = said(f"{head}6 slow requests (by type [ {types} ] most affected pool [ 'volumes' : 5 ])", osd)
    assert isinstance(found, SlowCount)
    assert (found.osd, found.number, found.pools) == (382, 6, {"volumes": 5})
    assert found.states == {"delayed": 4, "waiting for sub ops": 2}


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


@pytest.mark.parametrize(("line", "tells"), [
    (f"{MIMIC}{RECEIVED} {OP} currently reached_pg", True),
    (f"{OCTOPUS}slow request {OP} initiated 2021-09-19T13:04:31.343245+0000 currently delayed", False),
])  # fmt: skip
def test_since_nautilus_no_line_tells_locks(line: str, tells: bool) -> None:
    found = said(line)
    assert isinstance(found, SlowRequest)
    assert found.tells_locks is tells


def test_the_data_of_an_image_may_be_in_another_pool_than_its_name() -> None:
    inside = b"client.4140.0:39903 9.3 9:ce1654c3:::rbd_data.%s102afe660f2.0000000000000094:head [write 0~4096] e20"
    for prefix, pool in ((b"", 9), (b"4.", 4)):
        found = operation(b"osd_op", inside % prefix)
        assert (found.image, found.pool, found.image_pool) == ("102afe660f2", 9, pool)


def test_an_osd_s_own_log_has_the_oldest_request() -> None:
    head = "2021-09-19T13:05:31.343+0000 7f0ad8ff96c0 -1 osd.5 20 get_health_metrics"
    found = said(f"{head} reporting 3 slow ops, oldest is {OP}", 5)
    assert isinstance(found, Oldest)
    assert (found.osd, found.number, found.operation.image) == (5, 3, "102afe660f2")


@pytest.mark.parametrize(
    ("words", "osds", "age"),
    [
        ("3 slow ops, oldest one blocked for 34 sec, daemons [osd.1,osd.22] have slow ops. (SLOW_OPS)", (1, 22), 0),
        ("9 slow ops, oldest one blocked for 34 sec, daemons [osd.1,mon.7] have slow ops. (SLOW_OPS)", (1,), 0),
        ("9 slow ops, oldest one blocked for 34 sec, daemons [osd.1,osd.2]... have slow ops. (SLOW_OPS)", (1, 2), 0),
        ("9 slow ops, oldest one blocked for 34 sec, daemons [osd,1,osd,22] have slow ops. (SLOW_OPS)", (1, 22), 0),
        ("9 slow ops, oldest one blocked for 34 sec, mon.ceph-b has slow ops (SLOW_OPS)", (), 34),
        ("5 stuck requests are blocked > 4096 sec. Implicated osds 1 (REQUEST_STUCK)", (1,), 4096),
        ("1 slow ops, oldest one blocked for 4 sec, osd.1 has slow ops (SLOW_OPS)", (1,), 4),
        ("9 slow requests are blocked > 32 sec. Implicated osds 4,17 (REQUEST_SLOW)", (4, 17), 0),
        ("9 slow requests are blocked > 32 sec (REQUEST_SLOW)", (), 0),
    ],
)  # fmt: skip
def test_the_monitor_names_osds(words: str, osds: tuple[int, ...], age: int) -> None:
    for kind in ("failed", "update"):
        found = said(f"{MON}Health check {kind}: {words}")
        assert isinstance(found, MonitorReport)
        assert (found.osds, found.age) == (osds, age)


@pytest.mark.parametrize(
    ("line", "osd", "what"),
    [
        (f"{JEWEL.replace('osd.382', 'mon.0')}osd.5 10.0.0.1:6800/1 failed (3 reporters)", 5, "failed"),
        (f"{MON}osd.2 failed (root=default,host=vm) (connection refused reported by osd.0)", 2, "failed"),
        (f"{MON}osd.2 [v2:127.0.0.1:6816/7026,v1:127.0.0.1:6817/7026] boot", 2, "boot"),
        ("2023-03-22T14:11:28.182573+0000 mon.c01 [INF] osd.2 failed (root=default) (2 reporters)", 2, "failed"),
        (f"{JEWEL}map e123 wrongly marked me down", 382, "wrongly down"),
        (f"{MON}Monitor daemon marked osd.7 down, but it is still running", 7, "wrongly down"),
    ],
)  # fmt: skip
def test_osds_fail_boot_and_are_marked_down_wrongly(line: str, osd: int, what: str) -> None:
    found = said(line)
    assert isinstance(found, OsdChange)
    assert (found.osd, found.what) == (osd, what)


@pytest.mark.parametrize("words", [
    "Health check cleared: SLOW_OPS (was: 1 slow ops, oldest one blocked for 4 sec, osd.1 has slow ops)",
    "Health check cleared: REQUEST_SLOW (was: 9 slow requests are blocked > 32 sec)",
    "overall HEALTH_WARN 9 slow requests are blocked > 32 sec",
    "Health check failed: 1 MDSs report slow requests (MDS_SLOW_REQUEST)",
    "Health check cleared: MDS_SLOW_REQUEST (was: 1 MDSs report slow requests)",
])  # fmt: skip
def test_what_says_nothing_new_is_understood(words: str) -> None:
    assert isinstance(said(f"{MON}{words}"), Known)


@pytest.mark.parametrize("line", [
    f"{OCTOPUS}slow request of a kind that no release has had",
    "slow request 30 seconds old",
    "9999-99-99T99:99:99.0+0000 osd.1 (osd.1) 1 : cluster [WRN] 1 slow requests (by type [ 'delayed' : 1 ])",
    f"{SQUID}1 slow requests (by type [ 'delayed' : 1 ])",
])  # fmt: skip
def test_what_is_not_understood_is_none_and_not_zero(line: str) -> None:
    assert said(line) is None


def test_only_lines_of_interest_are_looked_at_each_once() -> None:
    text = f"first slow request\npgmap v1\n{MON}osd.2 [v2:x] boot\nbooted\nslow ops slow ops\n"
    assert [each.decode() for each in lines(text.encode())] == [
        "first slow request", f"{MON}osd.2 [v2:x] boot", "slow ops slow ops",
    ]  # fmt: skip


def test_the_second_line_about_one_mark_is_known_since_luminous() -> None:
    assert isinstance(said(f"{OCTOPUS}map e6540 wrongly marked me down at e6539"), Known)


@pytest.mark.parametrize("line", [
    OCTOPUS.replace("osd.382", "mds.0") + "1 slow requests, 1 included below; oldest blocked for > 30.9 secs",
    "2021-09-19T13:05:31.3+0000 7f0 0 log_channel(cluster) log [WRN] : Health check failed: 1 slow ops, oldest one"
    " blocked for 4 sec, osd.1 has slow ops (SLOW_OPS)",
    "2021-09-19T13:05:31.3+0000 7f0 -1 mon.a@0(leader) e1 get_health_metrics reporting 1 slow ops, oldest is log(1)",
])  # fmt: skip
def test_what_monitors_and_metadata_servers_say_of_themselves_is_known(line: str) -> None:
    assert isinstance(said(line), Known)


@pytest.mark.parametrize("head", ["", "debug ", "Mar 27 18:29:18 host1 ceph-8a1c-osd-382[131]: "])
@pytest.mark.parametrize("number", ["   -12> ", "    -1> ", "     0> "])
def test_what_an_osd_that_crashes_prints_again_is_known(head: str, number: str) -> None:
    assert isinstance(said(f"{head}{number}{SQUID}6 slow requests (by type [ 'delayed' : 6 ])", 382), Known)


@pytest.mark.parametrize(("kind", "is_replica", "pool"), [
    ("MOSDECSubOpWrite(2.1s1 20/18 ECSubWrite(tid=5, reqid=client.4140.0:39903, at_version=20'9))", True, 2),
    ("MOSDECSubOpRead(2.1s1 20/18 ECSubRead(tid=5))", True, 2),
    ("replica scrub(pg: 5.7,from:0'0,to:20'9,epoch:20)", False, None),
    ("MBackfillReserve GRANT  pgid: 1.2, query_epoch: 20", False, None),
])  # fmt: skip
def test_kinds_of_operations(kind: str, is_replica: bool, pool: int | None) -> None:
    found = said(f"{MIMIC}{RECEIVED} {kind} currently reached_pg")
    assert isinstance(found, SlowRequest)
    assert (found.state, found.operation.is_replica, found.operation.pool) == ("reached_pg", is_replica, pool)


@pytest.mark.parametrize("name", ["rbd_data.10226455667", "rbd_data.7.10226455667"])
def test_an_image_of_digits_only(name: str) -> None:
    found = said(f"{MIMIC}{RECEIVED} {OP.replace('rbd_data.102afe660f2', name)} currently reached_pg")
    assert isinstance(found, SlowRequest)
    assert found.operation.image == "10226455667"


@pytest.mark.parametrize(("head", "osd"), [
    ("debug ", None),
    ("Mar 27 18:29:18 host1 ceph-8a1c-osd-382[131]: ", 382),
    ("Mar  7 18:29:18 host1 ceph-8a1c-osd-382[131]: debug ", 382),
    ("2024-03-27T18:29:18.131313+00:00 host1 ceph-8a1c-osd-382[131]: ", 382),
])  # fmt: skip
def test_a_line_of_a_container_or_of_syslog(head: str, osd: int | None) -> None:
    found = said(f"{head}{SQUID}6 slow requests (by type [ 'delayed' : 6 ])", None if osd else 382)
    assert isinstance(found, SlowCount)
    assert found.osd == 382


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


@pytest.mark.parametrize("line", [
    f"{OCTOPUS.replace('2021', '9999')}1 slow requests (by type [ 'delayed' : 1 ])",
    f"{OCTOPUS.replace('2021', '0001')}1 slow requests (by type [ 'delayed' : 1 ])",
    f"{OCTOPUS.replace('osd.382', 'osd.32768')}1 slow requests (by type [ 'delayed' : 1 ])",
    f"{OCTOPUS}{'9' * 400} slow requests (by type [ 'delayed' : {'9' * 400} ])",
])  # fmt: skip
def test_numbers_that_nothing_has_are_not_understood(line: str) -> None:
    assert said(line) is None
