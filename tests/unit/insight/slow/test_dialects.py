"""A log of each release, with its counts made by hand; that of Pacific is real, and in test_counts.

Those of Reef (18.2.7) and Tentacle (20.2.4) are real: of the lab, with a late disk of osd.0. The others are
reconstructed from lines that operators have published and from the messages in Ceph's sources. All are short enough
to count again. The letters below are requests, in the order in which they are first told.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest

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
