"""The health gate: who is asked, and what keeps a change waiting."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from plimsoll_agent.errors import DeadlineExceeded, PlimsollError, Rejected, Unreachable
from plimsoll_agent.model.clusters import Cluster, Clusters
from plimsoll_agent.model.direction import Direction
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, because
from plimsoll_agent.policy.diff import Change
from plimsoll_agent.reconcile.health_gate import BLOCKING_CHECKS, Ask, BlockingCheck, ClusterHealth, Gate
from plimsoll_agent.util.frozen import replace
from tests.unit.values import a_disk

FSID = "4b5c8c0a-ff60-454b-a1b4-9747aa737d19"
OTHER = "c3d8a0f2-1111-4222-8333-944445555666"


def a_cluster(number: int, fsid: str | None) -> Cluster:
    return Cluster(Path(f"/etc/ceph/{number}.conf"), fsid, frozenset({f"10.0.0.{number}:6789"}))


FIRST, SECOND = a_cluster(1, FSID), a_cluster(2, OTHER)
NODE = Clusters((FIRST, SECOND))


def a_change(direction: Direction, cluster: int = 1, image: str = "disk") -> Change:
    disk = a_disk(volume_id=None, image=image, monitors=(f"10.0.0.{cluster}:6789",))
    return Change(disk, Limits(), Limits(), direction, because(Code.RULE), Code.DESIRED_CHANGED)


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
        return answer if isinstance(answer, ClusterHealth) else ClusterHealth(fsid=cluster.fsid or "", raised=answer)


def nobody(cluster: Cluster) -> ClusterHealth:
    raise AssertionError(f"{cluster} was asked")


def kept(ask: Ask, *changes: Change, clusters: Clusters = NODE) -> dict[str, Code]:
    return {key: reason.code for key, reason in Gate(clusters, ask).keeps(changes).items()}


LOWER, RAISE, REMOVE = a_change(Direction.LOWER), a_change(Direction.RAISE), a_change(Direction.REMOVE)
EASING = pytest.mark.parametrize("change", [RAISE, REMOVE], ids=["raise", "remove"])


# --- who is asked


def test_nobody_is_asked_for_what_only_lowers() -> None:
    assert kept(nobody, LOWER, a_change(Direction.LOWER, cluster=9)) == {}


def test_nobody_is_asked_for_nothing() -> None:
    assert kept(nobody) == {}


@EASING
def test_without_blocking_checks_nobody_is_asked_and_nothing_waits(change: Change) -> None:
    unknown = a_change(Direction.REMOVE, cluster=9, image="unknown")
    assert Gate(NODE, nobody, blocking=()).keeps([change, unknown]) == {}


def test_each_cluster_is_asked_once_and_only_where_something_is_raised() -> None:
    ceph = Ceph(first=())
    many = [a_change(Direction.RAISE, image=f"disk-{number}") for number in range(50)]
    assert kept(ceph, *many, a_change(Direction.LOWER, cluster=2)) == {}
    assert ceph.asked == [FIRST]


def test_two_clusters_are_asked_at_the_same_time() -> None:
    together = threading.Barrier(2, timeout=10)

    def ask(cluster: Cluster) -> ClusterHealth:
        together.wait()  # raises when the other does not come
        return ClusterHealth(fsid=cluster.fsid or "", raised=())

    assert kept(ask, RAISE, a_change(Direction.REMOVE, cluster=2, image="b")) == {}


# --- what waits


@EASING
def test_a_cluster_in_trouble_keeps_what_loosens_and_not_what_lowers(change: Change) -> None:
    tighter = a_change(Direction.LOWER, image="tighter")
    reasons = Gate(NODE, Ceph(first=("PG_AVAILABILITY", "TOO_FEW_PGS", "SLOW_OPS"))).keeps([tighter, change])
    expected = because(Code.CLUSTER_UNHEALTHY, cluster=FSID, checks="PG_AVAILABILITY, SLOW_OPS")
    assert reasons == {change.disk.key: expected}


@EASING
def test_a_hold_that_ignores_health_is_let_through_and_what_comes_after_it_is_not(change: Change) -> None:
    def held(code: Code, *, ignore: bool) -> Change:
        return replace(change, reason=because(code, **({"ignore_health": True} if ignore else {})))

    gate = Gate(NODE, Ceph(first=("SLOW_OPS",)))
    assert gate.keeps([held(Code.HOLD, ignore=True)]) == {}
    assert gate.keeps([held(Code.HOLD, ignore=False)])
    assert gate.keeps([held(Code.HOLD_ENDED, ignore=True)])


def test_trouble_of_another_cluster_keeps_nothing() -> None:
    ceph = Ceph(first=(), second=("PG_AVAILABILITY",))
    other = a_change(Direction.RAISE, cluster=2, image="other")
    assert kept(ceph, RAISE, other) == {other.disk.key: Code.CLUSTER_UNHEALTHY}


@EASING
@pytest.mark.parametrize("error", [DeadlineExceeded("10 s"), Rejected("no key"), Unreachable("no ceph")])
def test_a_cluster_that_does_not_say_keeps_what_loosens(change: Change, error: PlimsollError) -> None:
    reasons = Gate(NODE, Ceph(first=error)).keeps([change, a_change(Direction.LOWER, image="x")])
    assert reasons == {change.disk.key: because(Code.CLUSTER_UNREACHABLE, cluster=FSID, detail=str(error))}


def test_a_silent_cluster_without_an_fsid_is_called_by_its_file() -> None:
    nameless = a_cluster(1, None)

    def ask(cluster: Cluster) -> ClusterHealth:
        raise DeadlineExceeded("10 s")

    (reason,) = Gate(Clusters((nameless,)), ask).keeps([RAISE]).values()
    assert reason.facts["cluster"] == str(nameless.conf)


def test_the_health_of_another_cluster_is_not_taken_for_this_ones() -> None:
    reasons = Gate(NODE, Ceph(first=ClusterHealth(fsid=OTHER, raised=()))).keeps([RAISE])
    assert reasons[RAISE.disk.key].code is Code.CLUSTER_UNREACHABLE
    assert OTHER in str(reasons[RAISE.disk.key].facts["detail"])


def test_a_cluster_whose_fsid_is_in_no_file_is_taken_at_its_word() -> None:
    def ask(cluster: Cluster) -> ClusterHealth:
        return ClusterHealth(fsid=FSID, raised=("POOL_FULL",))

    reasons = Gate(Clusters((a_cluster(1, None),)), ask).keeps([RAISE])
    assert reasons == {RAISE.disk.key: because(Code.CLUSTER_UNHEALTHY, cluster=FSID, checks="POOL_FULL")}


@EASING
@pytest.mark.parametrize("clusters", [Clusters(), Clusters((SECOND,)), Clusters((FIRST, FIRST))])
def test_a_disk_whose_cluster_nobody_knows_waits_unasked(change: Change, clusters: Clusters) -> None:
    reasons = Gate(clusters, nobody).keeps([change, a_change(Direction.LOWER, image="x")])
    assert reasons == {change.disk.key: because(Code.CLUSTER_UNKNOWN, monitors="10.0.0.1:6789")}


def test_an_unknown_cluster_is_told_by_all_its_monitors() -> None:
    disk = replace(RAISE.disk, monitors=("10.0.0.8:6789", "10.0.0.9:6789"))
    reasons = Gate(NODE, nobody).keeps([replace(RAISE, disk=disk)])
    assert reasons[disk.key].facts == {"monitors": "10.0.0.8:6789, 10.0.0.9:6789"}


def test_what_nobody_foresaw_is_not_taken_for_health() -> None:
    with pytest.raises(ZeroDivisionError):
        kept(Ceph(first=ZeroDivisionError()), RAISE)


# --- which checks


def raised(check: str, blocking: tuple[BlockingCheck, ...] = BLOCKING_CHECKS) -> bool:
    return bool(Gate(NODE, Ceph(first=(check,)), blocking).keeps([REMOVE]))


# Names from src/mon/PGMap.cc, src/osd/OSDMap.cc, src/mon/HealthMonitor.cc and the mgr's modules.
@pytest.mark.parametrize(
    "check",
    [
        "PG_AVAILABILITY",
        "SLOW_OPS",
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
        "MON_DOWN",
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
    assert raised(check, (BlockingCheck(pattern),)) is blocks


# --- above which number


def unwell(check: str, count: int | None, osds: int | None) -> ClusterHealth:
    return ClusterHealth(
        fsid=FSID, raised=(check,), words=(), counts={} if count is None else {check: count}, osds=osds
    )


def why(text: str, check: str, count: int | None, osds: int | None = None) -> str | None:
    """What keeps a change waiting where this entry stands alone."""
    gate = Gate(NODE, Ceph(first=unwell(check, count, osds)), (BlockingCheck.read(text),))
    return next((str(reason.facts["checks"]) for reason in gate.keeps([REMOVE]).values()), None)


@pytest.mark.parametrize(
    ("down", "osds", "said"),
    [
        (1, 3, "OSD_DOWN (1 of 3 OSDs)"),
        (1, 99, "OSD_DOWN (1 of 99 OSDs)"),
        (1, 100, None),
        (2, 100, "OSD_DOWN (2 of 100 OSDs)"),
        (12, 1200, None),
        (13, 1200, "OSD_DOWN (13 of 1200 OSDs)"),
        (0, 100, None),
    ],
)
def test_a_rolling_upgrade_of_a_large_cluster_does_not_block(down: int, osds: int, said: str | None) -> None:
    reasons = Gate(NODE, Ceph(first=unwell("OSD_DOWN", down, osds))).keeps([REMOVE])
    assert [reason.facts["checks"] for reason in reasons.values()] == ([] if said is None else [said])


@pytest.mark.parametrize(
    ("down", "osds", "said"),
    [
        (None, 1000, "OSD_DOWN (number unknown)"),
        (1, None, "OSD_DOWN (1 OSDs, total unknown)"),
        (1, 0, "OSD_DOWN (1 OSDs, total unknown)"),
    ],
)
def test_an_unknown_number_blocks(down: int | None, osds: int | None, said: str) -> None:
    assert why("OSD_DOWN > 1%", "OSD_DOWN", down, osds) == said


@pytest.mark.parametrize(
    ("text", "check", "count", "said"),
    [
        ("OSD_DOWN > 3", "OSD_DOWN", 3, None),
        ("OSD_DOWN > 3", "OSD_DOWN", 4, "OSD_DOWN (4)"),
        ("SLOW_OPS > 20", "SLOW_OPS", None, "SLOW_OPS (number unknown)"),
        ("PG_*_FULL > 1", "PG_BACKFILL_FULL", 2, "PG_BACKFILL_FULL (2)"),
        ("PG_*_FULL > 1", "PG_BACKFILL_FULL", 1, None),
        ("SLOW_OPS > 0", "SLOW_OPS", None, "SLOW_OPS"),
        ("OSD_DOWN > 0.5%", "SLOW_OPS", 1, None),
    ],
)
def test_a_check_blocks_above_its_number(text: str, check: str, count: int | None, said: str | None) -> None:
    assert why(text, check, count) == said


@pytest.mark.parametrize(("down", "blocks"), [(5, False), (6, True)])
def test_a_share_is_taken_exactly(down: int, blocks: bool) -> None:
    assert bool(why("OSD_DOWN > 0.1%", "OSD_DOWN", down, 5000)) is blocks


def test_of_two_entries_for_one_check_either_blocks_and_it_is_named_once() -> None:
    both = tuple(map(BlockingCheck.read, ("OSD_DOWN > 10%", "OSD_DOWN > 3", "OSD_*")))
    for entries in (both, both[::-1]):
        (said,) = Gate(NODE, nobody, entries).blocks(unwell("OSD_DOWN", 2, 1000))
        assert said == "OSD_DOWN"
    assert Gate(NODE, nobody, both[:2]).blocks(unwell("OSD_DOWN", 4, 1000)) == ("OSD_DOWN (4)",)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("OSD_DOWN>1%", "OSD_DOWN > 1%"),
        ("  OSD_DOWN  >  0.50 % ", "OSD_DOWN > 0.5%"),
        ("SLOW_OPS >20", "SLOW_OPS > 20"),
        ("SLOW_OPS > 0", "SLOW_OPS"),
        ("PG_*_FULL", "PG_*_FULL"),
        ("SLOW_OPS > 999999999", "SLOW_OPS > 999999999"),
    ],
)
def test_an_entry_may_be_written_in_several_ways_and_is_written_in_one(written: str, read: str) -> None:
    assert str(BlockingCheck.read(written)) == read
    assert BlockingCheck.read(read) == BlockingCheck.read(written)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("osd_down > 1%", "is not a health check (write SLOW_OPS, "),
        ("OSD_DOWN >", "is not a health check (write "),
        ("OSD_DOWN > -1", "is not a health check (write "),
        ("OSD_DOWN > 1.5", "is not a health check (write "),
        ("OSD_DOWN >= 3", "is not a health check (write "),
        ("OSD_DOWN < 3", "is not a health check (write "),
        ("OSD_DOWN > nan", "is not a health check (write "),
        ("OSD_DOWN 1%", "is not a health check (write "),
        ("", "is not a health check (write "),
        ("SLOW_OPS > 1%", "only OSD_DOWN can have a percentage (write a number: SLOW_OPS > 1)"),
        ("OSD_* > 1%", "only OSD_DOWN can have a percentage"),
        ("OSD_DOWN > 100%", "never blocks (write a percentage below 100)"),
    ],
)
def test_what_is_no_entry_is_refused_in_one_line(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=r"^[^\n]+$") as caught:
        BlockingCheck.read(text)
    assert complaint in str(caught.value)


@pytest.mark.parametrize("check", ["REQUEST_SLOW", "REQUEST_STUCK"])
def test_slow_ops_stands_for_its_names_in_luminous_and_mimic(check: str) -> None:
    health = ClusterHealth(fsid="fsid", raised=(check,))
    assert BlockingCheck.read("SLOW_OPS").blocks(check, health) == check
    assert BlockingCheck.read(check).blocks(check, health) == check
    assert BlockingCheck.read("OSD_FULL").blocks(check, health) is None
