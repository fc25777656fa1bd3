"""A log of each release, with its counts made by hand; that of Pacific is real, and in test_counts.

Those of Reef (18.2.7) and Tentacle (20.2.4) are real: of the lab, with a late disk of osd.0. The others are
reconstructed from lines that operators have published and from the messages in Ceph's sources. All are short enough
to count again. The letters below are requests, in the order in which they are first told.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest

from plimsoll_insight.slow.answers import SlowAnswer, answer_of
from plimsoll_insight.slow.counts import Counts
from plimsoll_insight.slow.events import LogClock
from plimsoll_insight.slow.log_reading import LogReading
from plimsoll_insight.slow.osd_count import OsdCount
from plimsoll_insight.slow.reading import read
from plimsoll_insight.slow.union import together

LOGS = Path(__file__).parents[2] / "data" / "ceph-dialects"


class ByHand(NamedTuple):
    span: str
    """The first and the last line that counts, in UTC."""
    requests: int
    """A request of which its own OSD and its replicas complain is one."""
    osds: dict[int, OsdCount]
    pools: dict[str | int, int]
    images: dict[str, int]


JEWEL = ByHand(
    "13:05:31 13:06:35",
    6,
    # A and B name whom they wait for, so osd.4 is not to blame; G does not: osd.9 has answered, and osd.4's own disk
    # or another replica has not. F waits for recovery, of whichever OSD. Three lines are of A. osd.9 says of A what
    # osd.4 said before: one part. "44 slow requests, 1 included below" is one more, not 44. E waits for a lock, and a
    # minute later for nothing. The metadata server's request is none of an OSD.
    {
        4: OsdCount(unknown=1, worst_age=60.268051),
        9: OsdCount(primary=1, replica=2, failed=1, boot=1, wrongly_down=1, worst_age=61.000001),
        12: OsdCount(unknown=1, replica=1, locks=1, worst_age=60.7),
    },
    pools={1: 4, 3: 2},  # A, B, C, E; F, G
    images={"5f2ae8944a": 3, "102afe660f2": 1},  # A, B, C; E by its header
)
LUMINOUS = ByHand(
    "13:01:40 13:09:30",
    6,
    # A waits for osd.6 and osd.7, C for osd.6, B for another one or its own disk. The fourth is not decoded, the
    # fifth waits for a lock, the sixth for a scrub: all of osd.6. The monitor blames osd.3 alone for 4096 s. osd.7
    # was marked down wrongly once, in two lines.
    {
        3: OsdCount(unknown=1, worst_age=4096),
        6: OsdCount(primary=2, replica=2, locks=1, worst_age=32),
        7: OsdCount(replica=1, failed=1, boot=1, wrongly_down=1, worst_age=60.2),
    },
    pools={1: 3, 9: 3},
    images={"102afe660f2": 3, "2ff4bb670932db": 2},  # one of them by its object map
)
NAUTILUS = ByHand(
    "12:42:08 12:43:31",
    40,
    # Of osd.35 one is delayed, one queued; both are told twice. osd.21 has two that wait for replicas or its own
    # disk, osd.33 is the replica of one. The oldest of osd.36 are 27, 27, 30, 29, 31: 27 + 3 + 2, and 4 others after
    # a pause. The monitor blames osd.21 alone for 34 s, and itself for 210,113.
    {
        21: OsdCount(unknown=2, worst_age=34),
        33: OsdCount(replica=1, worst_age=30.15),
        35: OsdCount(primary=2, boot=1, worst_age=31.04),
        36: OsdCount(unknown=36),
    },
    pools={54: 2, 51: 2},
    images={"5fc5542ae8944a": 2, "5924292ae8944a": 2, "aaaa542ae8944a": 1},
)
OCTOPUS = ByHand(
    "13:05:31 13:05:50",
    4,
    # Of osd.2 one is delayed, started, committed: one request; the other waits for a replica or its own disk. osd.1's
    # does too, and osd.0 has its erasure-coded part. osd.3's lines are of another zone: 60 s old, not 2 hours. The
    # monitor: 76 s.
    {
        0: OsdCount(replica=1, worst_age=30),
        1: OsdCount(unknown=1, failed=1, boot=1, worst_age=30),
        2: OsdCount(primary=1, unknown=1, worst_age=32),
        3: OsdCount(primary=1, worst_age=76),
    },
    pools={1: 3, 2: 1},
    images={"102afe660f2": 3, "77aabb00ccdd": 1},
)
QUINCY = ByHand(
    "14:11:24 14:11:45",
    21,
    # osd.2 has 9, 9, 9, 11, 13, 13, 2: 9 + 2 + 2, the last two waiting for replicas or its own disk. osd.3 has 1, 1,
    # 3, 3, 5, 4, 5: 1 + 2 + 2 + 1, and 2 after a pause of 6 s.
    {
        2: OsdCount(primary=11, unknown=2, failed=1, boot=1, worst_age=181),
        3: OsdCount(primary=8),
    },
    # 9 + 2 and 1 + 2 + 2 are of the pool that is named, and 2 and 2 + 1 of others.
    pools={"default.rgw.control": 16, "other pools": 5},
    images={},
)
SQUID = ByHand(
    "17:07:45 17:09:12",
    12,
    # osd.221 has 4, 4, 6, 6, 3: 4 + 2; then it crashes and tells all of it again, and later has 1 that waits. osd.7,
    # whose lines are in the journal of its host, has 2, 2, 5.
    {7: OsdCount(primary=5), 221: OsdCount(primary=6, unknown=1)},
    pools={"POOL-CEPH-01": 4, "other pools": 2, "volumes": 6},
    images={"102afe660f2": 2},
)
REEF = ByHand(
    "18:39:18 18:39:24",
    247,
    # osd.0 has 48, 1, 46, 1, 42, 5, 44: 48 + 45 + 41 + 39, of which 6 each time wait for replicas or its own disk.
    # osd.1 has 11, 3, 14, 14, 11: 11 + 11. osd.2 has 31, 10, 26, 22, 27: 31 + 16 + 5.
    {
        0: OsdCount(primary=42 + 39 + 35 + 33, unknown=4 * 6),
        1: OsdCount(unknown=22, worst_age=1),
        2: OsdCount(unknown=52),
    },
    pools={"volumes": 247},
    images={},
)
TENTACLE = ByHand(
    "18:39:08 18:39:16",
    65,
    # osd.0 has 11, 24, 43, 44, 24: 11 + 13 + 19 + 1, of which 6, 0, 7 and 1 are started. osd.2 has 10, 9, 11, 4, 13:
    # 10 + 2 + 9. The monitor first tells of 0, which is not none. The oldest of osd.0 is another one each time.
    {0: OsdCount(primary=6 + 7 + 1, unknown=5 + 13 + 12, worst_age=1), 2: OsdCount(unknown=21)},
    pools={"volumes": 65},
    images={"100237ec1be2": 5},
)


def counted(release: str) -> tuple[LogReading, Counts]:
    found = read(sorted((LOGS / release).iterdir()), lambda _: None, LogReading.nothing(LogClock()))
    return found, together(found.cluster, found.own, found.dumped)


def figures(count: OsdCount) -> dict[str, float]:
    names = ("primary", "replica", "locks", "waits", "unknown", "failed", "boot", "wrongly_down")
    return {name: getattr(count, name) for name in names} | {"worst_age": round(count.worst_age, 2)}


@pytest.mark.parametrize(
    ("release", "by_hand"),
    [
        ("jewel", JEWEL),
        ("luminous", LUMINOUS),
        ("nautilus", NAUTILUS),
        ("octopus", OCTOPUS),
        ("quincy", QUINCY),
        ("reef", REEF),
        ("squid", SQUID),
        ("tentacle", TENTACLE),
    ],
)
def test_a_log_has_the_counts_made_by_hand(release: str, by_hand: ByHand) -> None:
    found, whole = counted(release)
    assert (found.missed, found.examples) == (0, [])
    assert {osd: figures(count) for osd, count in whole.osds.items()} == {
        osd: figures(count) for osd, count in by_hand.osds.items()
    }
    assert whole.first is not None
    assert whole.last is not None
    moments = (datetime.fromtimestamp(each, UTC) for each in (whole.first, whole.last))
    assert " ".join(f"{moment:%H:%M:%S}" for moment in moments) == by_hand.span
    assert whole.requests == by_hand.requests
    assert (whole.pools, whole.images) == (by_hand.pools, by_hand.images)


@pytest.mark.parametrize(
    "release", ["jewel", "luminous", "nautilus", "octopus", "quincy", "reef", "squid", "tentacle"]
)
def test_times_have_a_zone_since_octopus_and_no_line_tells_locks_since_nautilus(release: str) -> None:
    found, whole = counted(release)
    assert found.clock.is_used == (release in ("jewel", "luminous", "nautilus"))
    assert any(count.told for count in whole.osds.values()) == (release in ("jewel", "luminous"))


# --- lines that were published, shortened; names of people and sites replaced

AT = "2024-03-27T18:29:18.1+0000"
METRICS = "get_health_metrics reporting"
HEALTH = "318 slow ops, oldest one blocked for 56246 sec, daemons [osd.11,osd.7] have slow ops."


def answer(path: Path, text: str | bytes) -> tuple[SlowAnswer, dict[int, int], int]:
    """The answer, how many the OSDs have at most, and how many monitors count."""
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    reading = LogReading.nothing()
    read([path], lambda _: None, reading)
    counts = together(reading.cluster, reading.own, reading.dumped)
    osds = {osd: max(each.most or 0, each.least) for osd, each in counts.osds.items() if each.least or each.most}
    return answer_of(reading, counts), osds, counts.by_monitor.number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (f"HEALTH_WARN 1 filesystem is degraded; 1 MDSs report slow metadata IOs; 3 osds down; {HEALTH}\n", 318),
        (
            f"{AT} mon.a (mon.0) 87 : cluster [WRN] overall HEALTH_WARN 1 MDSs report slow metadata IOs; {HEALTH}\n",
            318,
        ),
        (
            "2018-06-05 10:00:10.0 mon.a mon.0 10.0.0.1:6789/0 5 : cluster [ERR] overall HEALTH_ERR 119 slow requests"
            " are blocked > 32 sec; 9017 stuck requests are blocked > 4096 sec. Implicated osds 42,104\n",
            9136,
        ),
    ],
)
def test_a_summary_of_several_checks_has_all_of_osds_and_none_of_others(
    tmp_path: Path, text: str, number: int
) -> None:
    assert answer(tmp_path / "health.txt", text)[::2] == (SlowAnswer.SOME, number)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("mgr.log", f"debug {AT} 7f 0 log_channel(cluster) log [DBG] : pgmap v24: 97 pgs: 97 active+clean; 0 B\n"),
        ("peon.log", f"{AT} 7f 1 mon.a@2(peon).paxos(paxos updating c 1..2) lease_timeout -- calling new election\n"
                     f"{AT} 7f 0 log_channel(cluster) log [INF] : mon.a calling monitor election\n"),
        ("ceph-mds.a.log", f"{AT} 7f 0 log_channel(cluster) log [WRN] : evicting unresponsive client 10.0.0.1\n"),
        ("ceph-volume.log", "[2024-03-27 18:29:18,120][ceph_volume.process][INFO  ] Running command:"
                            " /usr/bin/ceph-osd --mkfs -i 3\n"),
        ("kern.log", "Mar 27 18:29:18 ceph-osd-01 kernel: [12.3] md0: resync done\n"),
        ("operator.log", "2024-03-27 18:29:18.120 I | ceph-cluster-controller: cluster status is HEALTH_OK\n"),
        ("crimson.log", f"WARN  {AT} [shard 0:main] osd - OSD::get_health_metrics: {METRICS} 2 slow"
                        " ops, oldest is m=[osd_op(client.4 1.0)]\n"),
    ],
)  # fmt: skip
def test_a_log_that_has_no_slow_requests_or_not_whose_they_are_is_no_all_clear(
    tmp_path: Path, name: str, text: str
) -> None:
    assert answer(tmp_path / name, text)[0] is not SlowAnswer.NONE


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("osd.log", f"{AT} 7f 0 log_channel(cluster) log [DBG] : 1.2f scrub ok\n"),
        (
            "mon.log",
            f"{AT} 7f 0 log_channel(cluster) log [INF] : Health check cleared: OSD_DOWN (was: 1 osds down)\n",
        ),
        ("host.log", "Mar 27 18:29:18 ceph-mds1 ceph-osd[8]: starting osd.7 at /var/lib/ceph/osd/ceph-7\n"),
        ("status.txt", "  cluster:\n    id:     1\n    health: HEALTH_OK\n"),
    ],
)
def test_a_quiet_log_that_would_have_them_is_one(tmp_path: Path, name: str, text: str) -> None:
    assert answer(tmp_path / name, text)[0] is SlowAnswer.NONE


@pytest.mark.parametrize(
    ("name", "text", "osds"),
    [
        ("journal.txt", f"Mar 27 18:29:18 ceph-mds1 ceph-osd[8]: {AT} 7f -1 osd.7 2301 {METRICS} 3 slow ops, oldest"
                        " is osd_op(client.1.0:3 1.0)\n", {7: 3}),
        ("ceph-mds1.log", f"Mar 27 18:29:18 ceph-mds1 ceph-osd[8]: {AT} 7f -1 osd.7 2301 {METRICS} 3 slow ops,"
                          " oldest is osd_op(client.1.0:3 1.0)\n", {7: 3}),
        ("both.txt", f"Mar 27 18:29:18 h ceph-mon[9]: {AT} 7f -1 mon.h@0(leader) e23 {METRICS} 20 slow ops, oldest is"
                     f" osd_failure(failed timeout osd.35 v1:10.0.0.1:6800/1 for 22sec e5 v5)\n"
                     f"Mar 27 18:29:19 h ceph-osd[8]: {AT} 7f -1 osd.7 3 {METRICS} 1 slow ops, oldest is osd_op(x)\n",
         {7: 1}),
        ("scrub.log", f"{AT} 7f -1 osd.7 3 {METRICS} 2 slow ops, oldest is replica scrub(pg: 1.f)\n", {7: 2}),
        ("mail.txt", f"{AT} 7f -1 osd.7 3 {METRICS} 2 slow ops, oldest is\nosd_op(client.1.0:3 1.0)\n", {7: 2}),
        ("export.csv", f'"2024-03-27T18:30:00Z","m","{AT} osd.7 (osd.7) 12 : cluster [WRN] 3 slow requests (by type ['
                       " 'delayed' : 3 ])\"\n"
                       f'"2024-03-27T18:30:00Z","m","{AT} osd.8 (osd.8) 13 : cluster [WRN] 9 slow requests (by type ['
                       " 'delayed' : 9 ])\"\n", {7: 3, 8: 9}),
        ("bom.log", f"\ufeff{AT} osd.7 (osd.7) 12 : cluster [WRN] 3 slow requests (by type [ 'delayed' : 3 ])\n",
         {7: 3}),
        ("syslog", "Mar 27 18:29:18 h ceph-mon[42]: osd.3 osd.3 1234 : 6 slow requests (by type [ 'delayed' : 6 ])\n",
         {3: 6}),
        ("detail.txt", "30 ops are blocked > 32.768 sec on osd.3\nosd.3 has stuck requests > 1.07374e+06 sec\n",
         {3: 30}),
    ],
)  # fmt: skip
def test_whose_they_are_is_read_where_it_stands(tmp_path: Path, name: str, text: str, osds: dict[int, int]) -> None:
    assert answer(tmp_path / name, text)[:2] == (SlowAnswer.SOME, osds)


@pytest.mark.parametrize("pack", [lzma.compress, bz2.compress, gzip.compress])
def test_a_packed_log_is_read(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    line = f"{AT} osd.7 (osd.7) 12 : cluster [WRN] 3 slow requests (by type [ 'delayed' : 3 ])\n"
    assert answer(tmp_path / "ceph.log-1", pack(line.encode()))[1] == {7: 3}


def test_a_file_that_is_no_log_and_a_line_that_is_too_long_are_no_all_clear(tmp_path: Path) -> None:
    quiet = f"{AT} mon.a (mon.0) 4 : cluster [DBG] pgmap v1\n"
    long = f"{AT} osd.0 (osd.0) 0 : cluster [WRN] {'slow request osd_op(x) currently delayed, ' * 2000}\n"
    assert answer(tmp_path / "ceph.log", quiet)[0] is SlowAnswer.NONE
    assert answer(tmp_path / "long.log", quiet + long + quiet)[0] is SlowAnswer.SOME
    assert answer(tmp_path / "end.log", (quiet + long).rstrip())[0] is SlowAnswer.CANNOT_TELL
    (tmp_path / "b.log").write_text("a,b\n1,2\n")
    reading = LogReading.nothing()
    read([tmp_path / "ceph.log", tmp_path / "b.log"], lambda _: None, reading)
    assert answer_of(reading, reading.cluster) is SlowAnswer.CANNOT_TELL
