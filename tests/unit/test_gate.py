"""The health gate: who is asked, and what keeps a change waiting."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from plimsoll_agent.changes import Change
from plimsoll_agent.clusters import Cluster, Clusters
from plimsoll_agent.direction import Direction
from plimsoll_agent.errors import PlimsollError, Rejected, Unanswered, Unreachable
from plimsoll_agent.gate import BLOCKING_CHECKS, Ask, ClusterHealth, Gate
from plimsoll_agent.limits import Limits
from plimsoll_agent.reason import Code, because
from tests.unit.values import a_disk

FSID = "4b5c8c0a-ff60-454b-a1b4-9747aa737d19"
OTHER = "c3d8a0f2-1111-4222-8333-944445555666"


def a_cluster(number: int, fsid: str | None) -> Cluster:
    return Cluster(Path(f"/etc/ceph/{number}.conf"), fsid, frozenset({f"10.0.0.{number}:6789"}))


FIRST, SECOND = a_cluster(1, FSID), a_cluster(2, OTHER)
NODE = Clusters((FIRST, SECOND))


def a_change(direction: Direction, cluster: int = 1, image: str = "disk") -> Change:
    disk = a_disk(volume_id=None, image=image, monitors=(f"10.0.0.{cluster}:6789",))
    return Change(disk, Limits(), Limits(), direction, because(Code.RULE), Code.WANTED_CHANGED)


class Ceph:
    """Clusters that are asked; each says what it was given to say, or raises it."""

    def __init__(self, **said: ClusterHealth | Exception | tuple[str, ...]) -> None:
        self._said = {"first": FIRST, "second": SECOND}
        self._answers = {self._said[name]: answer for name, answer in said.items()}
        self.asked: list[Cluster] = []

    def __call__(self, cluster: Cluster) -> ClusterHealth:
        self.asked.append(cluster)
        answer = self._answers[cluster]
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, ClusterHealth) else ClusterHealth(cluster.fsid or "", answer)


def nobody(cluster: Cluster) -> ClusterHealth:
    raise AssertionError(f"{cluster} was asked")


def kept(ask: Ask, *changes: Change, clusters: Clusters = NODE) -> dict[str, Code]:
    return {key: reason.code for key, reason in Gate(clusters, ask).keeps(changes).items()}


TIGHTEN, LOOSEN, LIFT = a_change(Direction.TIGHTEN), a_change(Direction.LOOSEN), a_change(Direction.LIFT)
EASING = pytest.mark.parametrize("change", [LOOSEN, LIFT], ids=["loosen", "lift"])


# --- who is asked


def test_nobody_is_asked_for_what_only_tightens() -> None:
    assert kept(nobody, TIGHTEN, a_change(Direction.TIGHTEN, cluster=9)) == {}


def test_nobody_is_asked_for_nothing() -> None:
    assert kept(nobody) == {}


@EASING
def test_without_blocking_checks_nobody_is_asked_and_nothing_waits(change: Change) -> None:
    unknown = a_change(Direction.LIFT, cluster=9, image="unknown")
    assert Gate(NODE, nobody, blocking=()).keeps([change, unknown]) == {}


def test_each_cluster_is_asked_once_and_only_where_something_is_loosened() -> None:
    ceph = Ceph(first=())
    many = [a_change(Direction.LOOSEN, image=f"disk-{number}") for number in range(50)]
    assert kept(ceph, *many, a_change(Direction.TIGHTEN, cluster=2)) == {}
    assert ceph.asked == [FIRST]


def test_two_clusters_are_asked_at_the_same_time() -> None:
    together = threading.Barrier(2, timeout=10)

    def ask(cluster: Cluster) -> ClusterHealth:
        together.wait()  # raises when the other does not come
        return ClusterHealth(cluster.fsid or "", ())

    assert kept(ask, LOOSEN, a_change(Direction.LIFT, cluster=2, image="b")) == {}


# --- what waits


@EASING
def test_a_cluster_in_trouble_keeps_what_loosens_and_not_what_tightens(change: Change) -> None:
    tighter = a_change(Direction.TIGHTEN, image="tighter")
    reasons = Gate(NODE, Ceph(first=("OSD_DOWN", "TOO_FEW_PGS", "SLOW_OPS"))).keeps([tighter, change])
    expected = because(Code.CLUSTER_UNWELL, cluster=FSID, checks="OSD_DOWN, SLOW_OPS")
    assert reasons == {change.disk.key: expected}


def test_trouble_of_another_cluster_keeps_nothing() -> None:
    ceph = Ceph(first=(), second=("PG_AVAILABILITY",))
    other = a_change(Direction.LOOSEN, cluster=2, image="other")
    assert kept(ceph, LOOSEN, other) == {other.disk.key: Code.CLUSTER_UNWELL}


@EASING
@pytest.mark.parametrize("error", [Unanswered("10 s"), Rejected("no key"), Unreachable("no ceph")])
def test_a_cluster_that_does_not_say_keeps_what_loosens(change: Change, error: PlimsollError) -> None:
    reasons = Gate(NODE, Ceph(first=error)).keeps([change, a_change(Direction.TIGHTEN, image="x")])
    assert reasons == {change.disk.key: because(Code.CLUSTER_SILENT, cluster=FSID, detail=str(error))}


def test_a_silent_cluster_without_an_fsid_is_called_by_its_file() -> None:
    nameless = a_cluster(1, None)

    def ask(cluster: Cluster) -> ClusterHealth:
        raise Unanswered("10 s")

    (reason,) = Gate(Clusters((nameless,)), ask).keeps([LOOSEN]).values()
    assert reason.facts["cluster"] == str(nameless.conf)


def test_the_health_of_another_cluster_is_not_taken_for_this_ones() -> None:
    reasons = Gate(NODE, Ceph(first=ClusterHealth(OTHER, ()))).keeps([LOOSEN])
    assert reasons[LOOSEN.disk.key].code is Code.CLUSTER_SILENT
    assert OTHER in str(reasons[LOOSEN.disk.key].facts["detail"])


def test_a_cluster_whose_fsid_is_in_no_file_is_taken_at_its_word() -> None:
    def ask(cluster: Cluster) -> ClusterHealth:
        return ClusterHealth(FSID, ("MON_DOWN",))

    reasons = Gate(Clusters((a_cluster(1, None),)), ask).keeps([LOOSEN])
    assert reasons == {LOOSEN.disk.key: because(Code.CLUSTER_UNWELL, cluster=FSID, checks="MON_DOWN")}


@EASING
@pytest.mark.parametrize("clusters", [Clusters(), Clusters((SECOND,)), Clusters((FIRST, FIRST))])
def test_a_disk_whose_cluster_nobody_knows_waits_unasked(change: Change, clusters: Clusters) -> None:
    reasons = Gate(clusters, nobody).keeps([change, a_change(Direction.TIGHTEN, image="x")])
    assert reasons == {change.disk.key: because(Code.CLUSTER_NOT_KNOWN, monitors="10.0.0.1:6789")}


def test_an_unknown_cluster_is_told_by_all_its_monitors() -> None:
    disk = replace(LOOSEN.disk, monitors=("10.0.0.8:6789", "10.0.0.9:6789"))
    reasons = Gate(NODE, nobody).keeps([replace(LOOSEN, disk=disk)])
    assert reasons[disk.key].facts == {"monitors": "10.0.0.8:6789, 10.0.0.9:6789"}


def test_what_nobody_foresaw_is_not_taken_for_health() -> None:
    with pytest.raises(ZeroDivisionError):
        kept(Ceph(first=ZeroDivisionError()), LOOSEN)


# --- which checks


def raised(check: str, blocking: tuple[str, ...] = BLOCKING_CHECKS) -> bool:
    return bool(Gate(NODE, Ceph(first=(check,)), blocking).keeps([LIFT]))


# Names from src/mon/PGMap.cc, src/osd/OSDMap.cc, src/mon/HealthMonitor.cc and the mgr's modules.
@pytest.mark.parametrize(
    "check",
    [
        "PG_AVAILABILITY",
        "SLOW_OPS",
        "OSD_DOWN",
        "MON_DOWN",
        "OSD_FULL",
        "POOL_FULL",
        "PG_BACKFILL_FULL",
        "PG_RECOVERY_FULL",
    ],
)
def test_checks_under_which_requests_hang_block(check: str) -> None:
    assert raised(check)


@pytest.mark.parametrize(
    "check",
    [
        "OSD_NEARFULL",
        "OSD_BACKFILLFULL",
        "POOL_NEARFULL",
        "POOL_NEAR_FULL",
        "POOL_BACKFILLFULL",
        "CACHE_POOL_NEAR_FULL",
        "OSD_OUT_OF_ORDER_FULL",
        "MGR_INFLUX_QUEUE_FULL",
        "PG_DEGRADED",
        "PG_NOT_SCRUBBED",
        "OSDMAP_FLAGS",
        "MON_CLOCK_SKEW",
        "MGR_DOWN",
        "RECENT_CRASH",
        "HEALTH_WARN",
    ],
)
def test_what_a_large_cluster_always_has_does_not_block(check: str) -> None:
    assert not raised(check)


@pytest.mark.parametrize(
    ("pattern", "check", "blocks"),
    [
        ("*", "ANY", True),
        ("OSD_*", "OSD_HOST_DOWN", True),
        ("OSD_?OWN", "OSD_DOWN", True),
        ("osd_down", "OSD_DOWN", False),
        ("OSD", "OSD_DOWN", False),
        ("DOWN", "OSD_DOWN", False),
    ],
)
def test_patterns_fit_whole_names_in_their_case(pattern: str, check: str, blocks: bool) -> None:
    assert raised(check, (pattern,)) is blocks
