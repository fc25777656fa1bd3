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
from tests import golden
from tests.fakes import raising
from tests.unit.values import a_disk

FSID = "4b5c8c0a-ff60-454b-a1b4-9747aa737d19"
OTHER = "c3d8a0f2-1111-4222-8333-944445555666"


def a_cluster(number: int, fsid: str | None) -> Cluster:
    return Cluster(Path(f"/etc/ceph/{number}.conf"), fsid, frozenset({f"10.0.0.{number}:6789"}))


FIRST, SECOND = a_cluster(1, FSID), a_cluster(2, OTHER)
NODE = Clusters((FIRST, SECOND))


def a_change(direction: Direction, cluster: int = 1, image: str = "disk") -> Change:
    disk = a_disk(volume_id=None, image=image, monitors=(f"10.0.0.{cluster}:6789",))
    return Change(
        disk=disk,
        before=Limits(),
        after=Limits(),
        direction=direction,
        reason=because(Code.RULE),
        cause=Code.DESIRED_CHANGED,
    )


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


def test_no_cluster_is_asked_for_what_only_lowers() -> None:
    assert kept(nobody, LOWER, a_change(Direction.LOWER, cluster=9)) == {}


def test_no_cluster_is_asked_for_nothing() -> None:
    assert kept(nobody) == {}


@EASING
def test_without_blocking_checks_no_cluster_is_asked_and_nothing_waits(change: Change) -> None:
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
def test_a_cluster_in_trouble_defers_what_raises_and_not_what_lowers(change: Change) -> None:
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
def test_a_cluster_that_does_not_answer_defers_what_raises(change: Change, error: PlimsollError) -> None:
    reasons = Gate(NODE, Ceph(first=error)).keeps([change, a_change(Direction.LOWER, image="x")])
    assert reasons == {change.disk.key: because(Code.CLUSTER_UNREACHABLE, cluster=FSID, detail=str(error))}


def test_a_silent_cluster_without_an_fsid_is_called_by_its_file() -> None:
    nameless = a_cluster(1, None)
    (reason,) = Gate(Clusters((nameless,)), raising(DeadlineExceeded("10 s"))).keeps([RAISE]).values()
    assert reason.facts["cluster"] == str(nameless.conf)


def test_the_health_of_another_cluster_is_not_taken_for_this_ones() -> None:
    reasons = Gate(NODE, Ceph(first=ClusterHealth(fsid=OTHER, raised=()))).keeps([RAISE])
    assert reasons[RAISE.disk.key].code is Code.CLUSTER_UNREACHABLE
    assert OTHER in str(reasons[RAISE.disk.key].facts["detail"])


def test_a_cluster_whose_fsid_is_in_no_file_is_believed() -> None:
    def ask(cluster: Cluster) -> ClusterHealth:
        return ClusterHealth(fsid=FSID, raised=("POOL_FULL",))

    reasons = Gate(Clusters((a_cluster(1, None),)), ask).keeps([RAISE])
    assert reasons == {RAISE.disk.key: because(Code.CLUSTER_UNHEALTHY, cluster=FSID, checks="POOL_FULL")}


@EASING
@pytest.mark.parametrize("clusters", [Clusters(), Clusters((SECOND,)), Clusters((FIRST, FIRST))])
def test_a_disk_of_an_unknown_cluster_waits_unasked(change: Change, clusters: Clusters) -> None:
    reasons = Gate(clusters, nobody).keeps([change, a_change(Direction.LOWER, image="x")])
    assert reasons == {change.disk.key: because(Code.CLUSTER_UNKNOWN, monitors="10.0.0.1:6789")}


def test_an_unknown_cluster_is_told_by_all_its_monitors() -> None:
    disk = replace(RAISE.disk, monitors=("10.0.0.8:6789", "10.0.0.9:6789"))
    reasons = Gate(NODE, nobody).keeps([replace(RAISE, disk=disk)])
    assert reasons[disk.key].facts == {"monitors": "10.0.0.8:6789, 10.0.0.9:6789"}


def test_an_unforeseen_error_is_not_taken_for_health() -> None:
    with pytest.raises(ZeroDivisionError):
        kept(Ceph(first=ZeroDivisionError()), RAISE)


@EASING
@pytest.mark.parametrize("blocking", [BLOCKING_CHECKS, (BlockingCheck("OSDMAP_FLAGS"),)])
def test_a_pause_of_requests_defers_whatever_checks_block(
    change: Change, blocking: tuple[BlockingCheck, ...]
) -> None:
    health = ClusterHealth(fsid=FSID, raised=("OSDMAP_FLAGS",), paused=("pauserd", "pausewr"))
    reasons = Gate(NODE, Ceph(first=health), blocking).keeps([change])
    expected = because(Code.CLUSTER_UNHEALTHY, cluster=FSID, checks="OSDMAP_FLAGS (pauserd, pausewr)")
    assert reasons == {change.disk.key: expected}


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("SLOW_OPS > 20", "MGR_DOWN (SLOW_OPS > 20 unknown)"),
        ("PG_*", "MGR_DOWN (PG_* unknown)"),
        ("MGR_*", "MGR_DOWN"),
        ("OSD_DOWN > 1%", None),
    ],
)
def test_without_a_manager_what_it_would_tell_is_unknown(entry: str, words: str | None) -> None:
    gate = Gate(NODE, Ceph(first=("MGR_DOWN",)), (BlockingCheck.read(entry),))
    assert [reason.facts["checks"] for reason in gate.keeps([RAISE]).values()] == ([words] if words else [])


@pytest.mark.parametrize("entry", ["SLOW_OPS", "SLOW_OPS > 2", "SLOW_*"])
def test_slow_requests_to_monitors_alone_defer_nothing(entry: str) -> None:
    health = ClusterHealth(fsid=FSID, raised=("SLOW_OPS",), counts={"SLOW_OPS": 7}, monitors_are_slow=True)
    gate = Gate(NODE, Ceph(first=health), (BlockingCheck.read(entry), BlockingCheck.read("OSD_DOWN")))
    assert gate.keeps([RAISE]) == {}
    assert gate.blocks(replace(health, monitors_are_slow=False)) != ()
    assert gate.blocks(replace(health, raised=("OSD_DOWN", "SLOW_OPS"))) == ("OSD_DOWN",)


# --- which checks


# --- above which number


def unwell(check: str, count: int | None, osds: int | None) -> ClusterHealth:
    return ClusterHealth(
        fsid=FSID, raised=(check,), words=(), counts={} if count is None else {check: count}, osds=osds
    )


def blocking(kind: str, text: str) -> str:
    if kind == "read":
        try:
            found = BlockingCheck.read(text)
        except ValueError as error:
            return str(error)
        assert BlockingCheck.read(str(found)) == found
        return str(found)
    entry, _, raised = text.rpartition(" | ")
    check, *numbers = raised.split()
    count, osds = (None if number == "?" else int(number) for number in [*numbers, "?", "?"][:2])
    make = BlockingCheck if kind == "pattern" else BlockingCheck.read
    entries = BLOCKING_CHECKS if kind == "shipped" else (make(entry),)
    gate = Gate(NODE, Ceph(first=unwell(check, count, osds)), entries)
    return "\n".join(f"blocks: {reason.facts['checks']}" for reason in gate.keeps([REMOVE]).values())


def test_each_check_blocks_as_in_the_golden_file() -> None:
    golden.transcript("blocking_checks.txt", blocking)


def test_of_two_entries_for_one_check_either_blocks_and_it_is_named_once() -> None:
    both = tuple(map(BlockingCheck.read, ("OSD_DOWN > 10%", "OSD_DOWN > 3", "OSD_*")))
    for entries in (both, both[::-1]):
        (said,) = Gate(NODE, nobody, entries).blocks(unwell("OSD_DOWN", 2, 1000))
        assert said == "OSD_DOWN"
    assert Gate(NODE, nobody, both[:2]).blocks(unwell("OSD_DOWN", 4, 1000)) == ("OSD_DOWN (4)",)


@pytest.mark.parametrize("check", ["REQUEST_SLOW", "REQUEST_STUCK"])
def test_slow_ops_stands_for_its_names_in_luminous_and_mimic(check: str) -> None:
    health = ClusterHealth(fsid="fsid", raised=(check,))
    assert BlockingCheck.read("SLOW_OPS").blocks(check, health) == check
    assert BlockingCheck.read(check).blocks(check, health) == check
    assert BlockingCheck.read("OSD_FULL").blocks(check, health) is None
