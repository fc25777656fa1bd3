"""Counts of a real log beside those made by hand, of a Jewel log whose counts are stated, and their bounds."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pytest

from plimsoll_insight.slow import blocks, firsts, reading, tallies
from plimsoll_insight.slow.counts import Counts
from plimsoll_insight.slow.events import (
    Cleared,
    LogClock,
    MonitorReport,
    Oldest,
    Operation,
    OsdChange,
    SlowCount,
    SlowRequest,
    event,
)
from plimsoll_insight.slow.firsts import Once, Tellers
from plimsoll_insight.slow.log_reading import LogReading
from plimsoll_insight.slow.messages import closing_lines
from plimsoll_insight.slow.osd_count import OsdCount
from plimsoll_insight.slow.over_time import over_time
from plimsoll_insight.slow.reading import read
from plimsoll_insight.slow.tallies import OsdIntervals
from plimsoll_insight.slow.tree import CrushBucket, Tree
from plimsoll_insight.slow.union import together

SAMPLES = Path(__file__).parents[2] / "data" / "ceph-pacific"
"""A real cluster of three OSDs; osd.2 was stopped for 15 s at 09:35:15, and killed at 09:35:40."""
BY_HAND = {
    0: OsdCount(primary=3, boot=1),
    1: OsdCount(primary=7, unknown=1, boot=1, worst_age=14),
    2: OsdCount(primary=14, failed=1, boot=2, worst_age=4),
}
"""osd.0: 3 delayed. osd.1: 1 waits for sub ops or its own disk; 6 delayed at 09:35:41; 1 at 09:36:09. osd.2: 11
delayed, which become 12, then 1 at 09:36:13 and 1 at 09:36:25. Two complaints in less than ten seconds
are about the same requests."""


def found(*names: str) -> LogReading:
    return read([SAMPLES / name for name in names], lambda _: None, LogReading.nothing())


def plain(osds: dict[int, OsdCount]) -> dict[int, tuple[float, ...]]:
    names = ("primary", "replica", "locks", "waits", "unknown", "failed", "boot", "wrongly_down", "worst_age")
    return {osd: tuple(getattr(count, name) for name in names) for osd, count in osds.items()}


def test_the_cluster_s_log_has_the_counts_made_by_hand() -> None:
    read_ = found("ceph.log.gz")
    assert plain(read_.cluster.osds) == plain(BY_HAND)
    assert (read_.cluster.requests, read_.missed) == (25, 0)
    assert read_.cluster.pools == {"volumes": 25}
    assert read_.cluster.states == {"delayed": 24, "waiting for sub ops": 1}


def test_osds_own_logs_have_the_same_requests_which_count_once_together() -> None:
    read_ = found("ceph-osd.0.log.gz", "ceph.log.gz", "ceph-osd.2.log.gz", "ceph-osd.1.log.gz")
    assert [read_.own.osds[osd].total for osd in (0, 1, 2)] == [3, 8, 14]
    whole = together(read_.cluster, read_.own)
    assert plain(whole.osds) == plain(BY_HAND)
    assert whole.images == {"102afe660f2": 3}
    assert read_.missed == 0


def test_a_rotated_set_is_read_in_the_order_of_time(tmp_path: Path) -> None:
    """The complaints about one request lie in two files; read the other way round they would be two requests."""
    line = "2021-09-19T13:05:{:02}.0+0000 osd.1 (osd.1) 1 : cluster [WRN] {} slow requests (by type [ '{}' : {} ])\n"
    (tmp_path / "a.log").write_text("".join(line.format(second, 5, "delayed", 5) for second in range(30, 40)))
    (tmp_path / "b.log").write_text("".join(line.format(second, 2, "delayed", 2) for second in range(20, 30)))
    read_ = read([tmp_path / "a.log", tmp_path / "b.log"], lambda _: None, LogReading.nothing())
    assert read_.cluster.osds[1].primary == 5


def jewel(osd: int, request: int, state: str, age: float = 30.1) -> str:
    return (
        f"2016-09-19 13:05:31.343245 osd.{osd} 10.0.0.1:6800/123 456 : cluster [WRN] slow request {age} seconds old,"
        f" received at 2016-09-19 13:05:01.343245: osd_op(client.41.0:{request} rbd_data.102afe660f2.0000000000000094"
        f" [write 0~4096] 1.ce1654c3 ack+ondisk e20) currently {state}\n"
    )


def test_an_osd_has_at_least_what_its_own_log_says_at_once(tmp_path: Path) -> None:
    sums = " 0 log_channel(cluster) log [WRN] : 3 slow requests (by type [ 'delayed' : 3 ])"
    words = (sums, "-1 osd.7 23 get_health_metrics reporting 9 slow ops, oldest is osd_op(client.4.0:5 1.3 e20)")
    (tmp_path / "osd.7.log").write_text("".join(f"2026-11-21T09:35:15.0+0000 7f444444 {each}\n" for each in words))
    read_ = read([tmp_path / "osd.7.log"], lambda _: None, LogReading.nothing())
    count = together(read_.cluster, read_.own).osds[7]
    assert (count.primary, count.least, count.most) == (3, 9, None)


def test_a_request_that_an_osd_counts_and_tells_of_is_one(tmp_path: Path) -> None:
    """Of the 44 of osd.1 both wait for osd.2 and osd.3."""
    lines = [jewel(1, request, "waiting for subops from 2,3") for request in (7, 8)]
    before = lines[0].partition("slow request ")[0]
    lines.insert(0, f"{before}44 slow requests, 2 included below; oldest blocked for > 49.9 secs\n")
    (tmp_path / "ceph.log").write_text("".join(lines))
    counts = read([tmp_path / "ceph.log"], lambda _: None, LogReading.nothing()).cluster
    words = list(closing_lines(counts, None, None, is_complete=True))
    assert words[0].startswith("At least 44 slow requests from ")
    assert words[1] == "osd.1 has all at least 44 slow requests, whatever they wait for."


def test_a_jewel_log_has_the_table_of_the_host_that_was_found_by_it(tmp_path: Path) -> None:
    """443 requests slow as primary and 509 as replica on one OSD, tens on its neighbours, 1479 on the host."""
    wanted = {382: (443, 509), 383: (60, 50), 384: (80, 90), 385: (120, 127)}
    lines, number = [], 0
    for osd, (primary, replica) in wanted.items():
        for _ in range(primary):
            number += 1
            # Ceph complains of the same request again at twice its age.
            lines += [jewel(osd, number, "reached_pg"), jewel(osd, number, "reached_pg", 60.2)]
        for _ in range(replica):
            number += 1
            lines += [
                jewel(9, number, f"waiting for subops from {osd}"),
                jewel(9, number, f"waiting for subops from {osd}", 60.4),
            ]
    for _ in range(7):
        number += 1
        lines.append(jewel(382, number, "waiting for rw locks"))
    (tmp_path / "ceph.log").write_text("".join(lines))
    osds = read([tmp_path / "ceph.log"], lambda _: None, LogReading.nothing()).cluster.osds
    assert {osd: (osds[osd].primary, osds[osd].replica) for osd in wanted} == wanted
    assert osds[382].locks == 7
    assert sum(osds[osd].primary + osds[osd].replica for osd in wanted) == 1479
    assert (osds[9].primary, osds[9].waits) == (0, 0), "who waits for others is not to blame"
    assert osds[382].worst_age == 60.4, "also of those that waited for it"


def test_what_is_not_understood_is_counted_and_shown_harmless(tmp_path: Path) -> None:
    (tmp_path / "ceph.log").write_text("a slow request \x1b]31m\nmore slow ops\n" * 10)
    read_ = read([tmp_path / "ceph.log"], lambda _: None, LogReading.nothing())
    assert read_.missed == 20
    assert read_.examples[0] == "a slow request ?]31m"
    assert len(read_.examples) == 5


def test_a_file_is_foreign_where_neither_its_begin_has_a_time_nor_any_line_is_of_interest(tmp_path: Path) -> None:
    texts = {
        "foreign": "a,b\n1,2\n",
        "crashed": "  -10> 2023-09-19T13:05:31.343245+0000 7f65 1 osd.1 20 tick\n",
        "late": "-\n" * 40_000 + "2021-09-19T13:05:31.3+0000 osd.1 (osd.1) 4 : cluster [WRN] a slow request\n",
        "empty": "",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    found = read([tmp_path / name for name in texts], lambda _: None, LogReading.nothing())
    assert (found.foreign, found.empty) == ([str(tmp_path / "foreign")], [str(tmp_path / "empty")])


def test_a_last_line_without_an_end_counts_and_a_line_without_end_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_BLOCK", 1000)
    monkeypatch.setattr(blocks, "LONGEST", 5000)
    (tmp_path / "ceph.log").write_text("x" * 20_000 + "\n" + jewel(1, 1, "delayed") + jewel(1, 2, "delayed").rstrip())
    assert read([tmp_path / "ceph.log"], lambda _: None, LogReading.nothing()).cluster.osds[1].primary == 2


def test_a_pause_ends_a_count_and_a_growing_one_counts_what_it_grew_by() -> None:
    some = Counts()
    for time, number in ((0, 3), (5, 4), (10, 2), (15, 6), (60, 6)):
        some.add(SlowCount(time=time, osd=1, number=number, states={"delayed": number}, pools={"volumes": number}))
    assert some.osds[1].primary == 3 + 1 + 4 + 6
    assert some.pools["volumes"] == 14


def test_where_lines_come_each_second_a_few_that_are_missing_end_a_count() -> None:
    some = Counts()
    for time, number in ((0.0, 3), (1.02, 3), (2.1, 3), (5.2, 3), (7.3, 3)):
        some.add(SlowCount(time=time, osd=1, number=number, states={"delayed": number}, pools={"volumes": number}))
    assert some.osds[1].primary == 3 + 3


def told(osd: int, number: int, *times: float) -> list[SlowCount]:
    return [SlowCount(time=time, osd=osd, number=number, states={"delayed": number}, pools={}) for time in times]


@pytest.mark.parametrize("of_another", [(0.0, 0.5), (3.0, 1.0)])
def test_how_often_another_osd_has_a_line_changes_no_count(of_another: tuple[float, ...]) -> None:
    some = Counts()
    for event_ in (*told(8, 1, *of_another), *told(7, 50, 5.0), *told(7, 60, 9.0), *told(7, 70, 13.0)):
        some.add(event_)
    assert some.osds[7].primary == 70


def test_a_line_of_an_earlier_time_does_not_tell_how_often_lines_come() -> None:
    some = Counts()
    for event_ in (*told(7, 50, 5.0), *told(7, 50, 4.0), *told(7, 60, 9.0)):
        some.add(event_)
    assert some.osds[7].primary == 60


def test_many_that_a_stuck_osd_tells_late_are_the_same_and_a_few_after_a_long_time_are_not() -> None:
    some = Counts()
    for event_ in (*told(7, 50, 0.0, 1.0, 4.0, 7.5), *told(7, 50, 30.0)):
        some.add(event_)
    assert some.osds[7].primary == 50 + 50
    assert (some.osds[7].least, some.osds[7].most) == (50 + 50, 4 * 50), "which may be others after each gap"


def test_the_oldest_request_in_the_osd_s_own_log_tells_that_as_many_as_before_are_the_same() -> None:
    oldest = [
        Oldest(
            time=time,
            osd=7,
            number=50,
            operation=Operation(id=b"client.4.0:1", is_replica=False, pool=None, image=None, image_pool=None),
        )
        for time in (0.0, 1.0, 4.0)
    ]
    cluster, own = Counts(), Counts()
    for one, sum_ in zip(oldest, told(7, 50, 0.0, 1.0, 4.0), strict=True):
        cluster.add(sum_)
        own.add(one)
        own.add(sum_)
    assert (cluster.osds[7].most, own.osds[7].most, together(cluster, own).osds[7].most) == (100, 50, 50)


def test_a_stuck_osd_whose_oldest_request_stays_has_no_new_ones() -> None:
    some = Counts()
    for time, request, number in ((0, 1, 50), (1, 1, 50), (20, 1, 52), (40, 2, 5)):
        some.add(
            Oldest(
                time=time,
                osd=7,
                number=number,
                operation=Operation(
                    id=b"client.4.0:%d" % request, is_replica=False, pool=None, image=None, image_pool=None
                ),
            )
        )
    assert some.osds[7].reported == 52 + 5


def test_memory_does_not_grow_with_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(firsts, "_REMEMBERED", 100)
    once = Once()
    assert sum(once(number) for number in range(10_000)) == 10_000
    assert len(once._new) + len(once._old) <= 200
    monkeypatch.setattr(firsts, "_REQUESTS", 100)
    tellers = Tellers()
    assert tellers.each([b"%d" % number for number in range(10_000)], [1] * 10_000) == [None] * 10_000
    assert len(tellers._new) + len(tellers._old) <= 200
    bins = OsdIntervals(60, 600)
    for number in range(5000):
        bins.add(number * 60.0, 1, 1)
    assert len(bins.counts) <= 600
    assert (sum(bins.counts.values()), bins.width) == (5000, 960)


def test_the_first_osd_that_tells_of_a_request_is_the_same_for_one_as_for_many() -> None:
    """Of one that several tell of at once, and of one of which an earlier line told."""
    ids, osds = [b"a", b"b", b"a", b"c", b"b", b"a"], [1, 2, 3, 4, 2, 1]
    one, many = Tellers(), Tellers()
    singly = [one.each([id], [osd])[0] for id, osd in zip(ids * 2, osds * 2, strict=True)]
    assert [*many.each(ids, osds), *many.each(ids, osds)] == singly
    assert singly[:6] == [None, None, 1, None, 2, 1]


@pytest.mark.parametrize("order", [*permutations(range(3))])
def test_monitors_sums_are_the_same_in_any_order(order: tuple[int, ...]) -> None:
    """What other lines tell is counted before requests that wait to be counted at once."""
    told = [Cleared(5.0, None), Cleared(3.0, None), MonitorReport(time=4.0, osds=(1,), age=0.0, number=2)]
    some = Counts()
    for place in order:
        some.add(told[place])
    assert (some.by_monitor.end, some.by_monitor.cleared) == (4.0, 5.0)


def of_osd(osd: int, kind: str, state: str) -> str:
    inside = "client.4140.0:39903 1.3 1:ce1654c3:::rbd_data.102afe660f2.0000000000000094:head"
    return (
        f"2020-09-19T13:05:31.3+0000 osd.{osd} (osd.{osd}) 4 : cluster [WRN] slow request {kind}({inside}) initiated"
        f" 2020-09-19T13:05:01.3+0000 currently {state}"
    )


def test_locks_are_known_only_where_a_line_would_tell_them(tmp_path: Path) -> None:
    (tmp_path / "ceph.log").write_text(jewel(1, 1, "reached_pg") + of_osd(2, "osd_op", "delayed") + "\n")
    osds = read([tmp_path / "ceph.log"], lambda _: None, LogReading.nothing()).cluster.osds
    assert {osd: each.known_locks for osd, each in osds.items()} == {1: 0, 2: None}
    assert OsdCount(boot=1).known_locks == 0, "without requests there is nothing to tell"


def test_files_of_several_zones_are_read_in_the_order_of_time(tmp_path: Path) -> None:
    line = "2021-09-19T{}:05:{:02}.0{} osd.1 (osd.1) 1 : cluster [WRN] {} slow requests (by type [ 'x' : {} ])\n"
    (tmp_path / "a.log").write_text("".join(line.format(13, each, "+0000", 5, 5) for each in range(30, 40)))
    (tmp_path / "b.log").write_text("".join(line.format(15, each, "+0200", 2, 2) for each in range(20, 30)))
    read_ = read([tmp_path / "a.log", tmp_path / "b.log"], lambda _: None, LogReading.nothing())
    assert read_.cluster.osds[1].primary == 5


def test_over_time_has_all_requests_and_the_osds_and_hosts_that_may_be_the_cause() -> None:
    tree = Tree(
        bucket_of={
            1: CrushBucket((("root", "default"), ("host", "a"))),
            2: CrushBucket((("root", "default"), ("host", "a"))),
        }
    )
    some = Counts(10.0)
    for time, osd, state in (
        (0, 1, "delayed"),
        (9, 2, "delayed"),
        (11, 1, "waiting for sub ops"),
        (35, 3, "delayed"),
    ):
        some.add(SlowCount(time=time, osd=osd, number=2, states={state: 2}, pools={}))
    over = over_time(some, tree)
    assert over.width == 10
    assert [(each.begin, each.requests, dict(each.osds), dict(each.hosts)) for each in over.intervals] == [
        (0, 4, {1: 2, 2: 2}, {"a": 4}),
        (10, 2, {}, {}),
        (30, 2, {3: 2}, {}),
    ]


def test_over_time_is_as_coarse_as_the_coarser_of_what_is_known() -> None:
    some = Counts(10.0)
    for number in range(8):
        some.add(SlowCount(time=10.0 * number, osd=number, number=1, states={"delayed": 1}, pools={}))
    some.bins.widen()
    over = over_time(some, None)
    assert [(each.begin, each.requests, len(each.osds)) for each in over.intervals] == [
        (20.0 * number, 2, 2) for number in range(4)
    ]


def test_over_time_has_600_intervals_at_most() -> None:
    some = Counts(10.0)
    for number in range(5000):
        some.add(SlowCount(time=10.0 * number, osd=number % 7, number=1, states={"delayed": 1}, pools={}))
    over = over_time(some, None)
    assert (len(over.intervals), over.width) == (313, 160)
    assert sum(each.requests for each in over.intervals) == 5000


def test_logs_of_several_kinds_have_the_same_sum_in_every_view() -> None:
    """The usual thing to hand in: the cluster's log, and some OSDs' own."""
    cluster, own = Counts(), Counts()
    for some, time, osd, number in ((cluster, 30, 0, 3), (cluster, 90, 1, 4), (own, 90, 1, 10)):
        some.add(SlowCount(time=time, osd=osd, number=number, states={"delayed": number}, pools={"volumes": number}))
    own.add(
        Oldest(
            time=150,
            osd=2,
            number=5,
            operation=Operation(id=b"client.4.0:1", is_replica=False, pool=None, image=None, image_pool=None),
        )
    )
    whole = together(cluster, own, Counts())
    assert {osd: each.total for osd, each in whole.osds.items()} == {0: 3, 1: 10, 2: 5}
    assert (whole.requests, whole.states) == (18, {"delayed": 13, "unknown": 5})
    assert whole.pools == {"volumes": 13}
    assert [(each.begin, each.requests, dict(each.osds)) for each in over_time(whole, None).intervals] == [
        (0, 3, {0: 3}),
        (60, 10, {1: 10}),
        (120, 5, {}),
    ]


def test_requests_that_wait_for_others_are_of_the_log_that_has_them() -> None:
    """Their own OSD is not to blame for one of them, in either log."""
    cluster, own = Counts(), Counts()
    cluster.add(OsdChange(0, 9, "boot"))
    for request in range(3):
        operation = Operation(id=b"client.4.0:%d" % request, is_replica=False, pool=1, image=None, image_pool=None)
        own.add(SlowRequest(60, 9, "waiting for sub ops", 31.0, (4,), operation, True))
    whole = together(cluster, own)
    assert (whole.requests, whole.osds[9].total, whole.osds[4].replica, whole.pools) == (3, 0, 3, {1: 3})


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_a_request_of_which_several_osds_complain_is_one(order: tuple[int, ...]) -> None:
    lines = [of_osd(1, "osd_op", "waiting for sub ops"), *(of_osd(osd, "osd_repop", "started") for osd in (2, 3))]
    some = Counts()
    for number in order:
        said = event(lines[number].encode(), None, LogClock())
        assert said is not None
        some.add(said)
    assert (some.requests, some.bins.counts.total()) == (1, 1)
    assert {osd: each.total for osd, each in some.osds.items()} == {1: 1, 2: 1, 3: 1}


@pytest.mark.parametrize("backwards", [False, True])
def test_a_replica_s_own_complaint_counts_for_it_in_any_order_and_once(backwards: bool) -> None:
    lines = [
        of_osd(1, "osd_op", "waiting for sub ops"),
        of_osd(2, "osd_repop", "started"),
        of_osd(3, "osd_repop", "started"),
        of_osd(1, "osd_op", "waiting for subops from 2"),
    ]
    some = Counts()
    for line in reversed(lines) if backwards else lines:
        said = event(line.encode(), None, LogClock())
        assert said is not None
        some.add(said)
    assert {osd: each.replica for osd, each in some.osds.items()} == {1: 0, 2: 1, 3: 1}
    assert some.osds[1].primary == 0
    assert (some.images, some.pools) == ({"102afe660f2": 1}, {1: 1})


def test_osds_that_are_stuck_on_one_message_without_an_id_count_each() -> None:
    some = Counts()
    for osd in range(20):
        said = event(
            of_osd(osd, "osd_pg_create", "started").replace("client.4140.0:39903", "e567").encode(), None, LogClock()
        )
        assert said is not None
        some.add(said)
    assert [each.primary for each in some.osds.values()] == [1] * 20


def test_requests_that_change_their_state_are_not_new_ones() -> None:
    some = Counts()
    for number, state in enumerate(("delayed", "started", "waiting for sub ops", "delayed")):
        some.add(SlowCount(time=5.0 * number, osd=1, number=5, states={state: 5}, pools={}))
    assert (some.osds[1].total, some.requests) == (5, 5)
    some.add(SlowCount(time=20.0, osd=1, number=8, states={"started": 5, "waiting for sub ops": 3}, pools={}))
    assert some.osds[1].total == 8


def test_a_pool_gets_what_the_line_says_of_it() -> None:
    some = Counts()
    some.add(SlowCount(time=0.0, osd=1, number=5, states={"delayed": 5}, pools={"v": 2}))
    some.add(SlowCount(time=5.0, osd=1, number=7, states={"delayed": 7}, pools={"v": 3}))
    assert some.pools == {"v": 3, "other pools": 4}


def test_one_mark_is_one_though_two_lines_tell_it() -> None:
    some = Counts()
    head = "2019-09-19 09:46:40.479 osd.44 (osd.44) 4 : cluster "
    for words in ("[WRN] Monitor daemon marked osd.44 down, but it is still running",
                  "[DBG] map e6540 wrongly marked me down at e6539"):  # fmt: skip
        said = event(f"{head}{words}".encode(), None, LogClock())
        assert said is not None
        some.add(said)
    assert some.osds[44].wrongly_down == 1


def test_a_split_of_intervals_among_many_osds_is_bounded_and_keeps_the_sum() -> None:
    split = OsdIntervals(60, 100)
    for number in range(5000):
        split.add(60.0 * number, number % 7, 1)
    assert len(split.counts) <= 100
    assert sum(split.counts.values()) == 5000


def test_names_are_bounded_and_the_rest_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tallies, "MOST_BY_OSD", 1000)
    some = Counts()
    for number in range(5000):
        some.add(
            SlowCount(
                time=5.0 * number, osd=number, number=1, states={f"state {number}": 1}, pools={f"pool {number}": 1}
            )
        )
    assert (len(some.states), len(some.pools)) == (1001, 1001)
    assert (some.requests, some.states["other"]) == (5000, 4000)
