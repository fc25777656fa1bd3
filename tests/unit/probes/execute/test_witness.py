"""What is seen of a run from outside, of a guest that hangs, restarts or changes its disks meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pytest

from plimsoll_agent.errors import DeadlineExceeded, NotFound, PlimsollError, Unreachable
from plimsoll_agent.model.clusters import Cluster, Clusters
from plimsoll_agent.model.hypervisor import BlockStats, Movement
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.memory import Remembered
from plimsoll_agent.reconcile.health_gate import BLOCKING_CHECKS, ClusterHealth, Gate
from plimsoll_agent.util.frozen import replace
from plimsoll_probes.execute.witness import Look, Watch, Witness
from plimsoll_probes.model.finding import Trouble, Why
from plimsoll_probes.model.result import Circumstances, Health, QemuCounts
from tests.fakes import FakeDisk, FakeHypervisor, hangs, raising, volume
from tests.unit.node import guest, uuid_of
from tests.unit.values import NOON, a_disk, a_situation

UUID = uuid_of(1)
LIMIT, OTHER = Limits(total_iops_sec=250), Limits(total_iops_sec=1000)
FSID = "4b5c8c0a-ff60-454b-a1b4-9747aa737d19"
CLUSTER = Cluster(Path("/etc/ceph/ceph.conf"), FSID, frozenset({"127.0.0.1:6789"}))


class Counting(FakeHypervisor):
    """``stats_trouble`` is what questions for counters are answered with."""

    stats_trouble: PlimsollError | None = None

    def block_stats(self, uuid: str, targets: Iterable[str]) -> Mapping[str, BlockStats]:
        told = super().block_stats(uuid, targets)
        if self.stats_trouble is not None:
            raise self.stats_trouble
        return told


class World:
    """A guest with one disk, its clock, and its cluster."""

    def __init__(self) -> None:
        self.disk = replace(volume(), actual=LIMIT, defined=LIMIT)
        self.guest = guest(1, self.disk)
        self.hypervisor = Counting(self.guest)
        self.now = 100.0
        self.asked: list[Cluster] = []
        self.said: Callable[[], ClusterHealth] = lambda: ClusterHealth(fsid=FSID, raised=())
        self.known: tuple[Cluster, ...] = (CLUSTER,)
        self.blocking = BLOCKING_CHECKS
        self.memory: dict[str, Remembered] = {}

    def witness(self) -> Witness:
        def ask(cluster: Cluster) -> ClusterHealth:
            self.asked.append(cluster)
            return self.said()

        gate = Gate(Clusters(self.known), ask, self.blocking)
        return Witness(self.hypervisor, UUID, lambda: a_situation(memory=self.memory), gate, lambda: self.now)

    def watch(self, seconds: float = 10) -> Watch:
        witness = self.witness()
        return Watch(witness, witness.look().disks[0], seconds)

    def passes(self, seconds: float, requests: int = 0) -> None:
        """The guest reads so often meanwhile."""
        reads, size, writes, written = self.disk.done
        self.disk.done = (reads + requests, size + requests * 4096, writes, written)
        self.now += seconds

    @property
    def readings(self) -> int:
        return self.hypervisor.calls.count("block_stats")


@pytest.fixture
def world() -> World:
    return World()


def ended(watch: Watch) -> tuple[QemuCounts | None, Circumstances]:
    return watch.end(frozen=False)


# --- the counters


def test_counters_are_read_once_a_second_however_often_it_is_told(world: World) -> None:
    """Each reading holds a worker of libvirtd, and an agent is polled ten times a second at first."""
    watch = world.watch()
    for _ in range(50):
        world.passes(0.125)
        watch.tell()
    assert world.readings == 1 + 6


def test_a_guest_whose_counters_hang_is_not_asked_again_until_the_end(world: World) -> None:
    watch = world.watch()
    world.passes(1.5)
    world.hypervisor.stats_trouble = hangs()
    for _ in range(5):
        watch.tell()
        world.passes(1.5, 100)
    assert world.readings == 2
    world.hypervisor.stats_trouble = None
    counted, _ = ended(watch)
    assert counted is not None
    assert (counted.operations, counted.seconds) == (500, 9.0)


@pytest.mark.parametrize("when", ["at the beginning", "at the end"])
def test_what_was_not_counted_on_both_sides_is_unknown(world: World, when: str) -> None:
    world.hypervisor.stats_trouble = hangs() if when == "at the beginning" else None
    watch = world.watch()
    world.passes(10, 2500)
    world.hypervisor.stats_trouble = hangs() if when == "at the end" else None
    assert ended(watch)[0] is None


def test_a_disk_that_is_not_counted_is_not_taken_for_an_idle_one(world: World) -> None:
    watch = world.watch()
    world.passes(10, 2500)
    world.guest.disks["vdz"] = world.guest.disks.pop("vda")
    assert ended(watch)[0] is None


@pytest.mark.parametrize("after", [100, 5000], ids=["less than before", "more than before"])
def test_counters_that_began_again_count_nothing(world: World, after: int) -> None:
    """Started anew in mid-run: by the end it may have counted further than it had before."""
    world.disk.done = (1000, 1000 * 4096, 0, 0)
    watch = world.watch()
    world.disk.done = (0, 0, 0, 0)
    world.passes(2, 50)
    watch.tell()
    world.passes(8, after)
    assert ended(watch)[0] is None


def test_what_qemu_counted_is_what_passed_between_begin_and_end(world: World) -> None:
    world.disk.done = (7, 7, 9, 9)
    watch = world.watch()
    world.disk.done = (107, 1007, 59, 509)
    world.passes(10)
    counted, _ = ended(watch)
    assert counted == QemuCounts(
        seconds=10.0, read_operations=100, write_operations=50, read_bytes=1000, write_bytes=500, last_rate=None
    )


def test_the_last_rate_is_that_of_the_last_part_alone(world: World) -> None:
    """A burst at the beginning must not hide what came after it, nor what came after the run its end."""
    watch = world.watch(10)
    for second in range(13):
        world.passes(1, 1000 if second < 6 else 100 if second < 10 else 7000)
        watch.tell()
    counted, _ = ended(watch)
    assert counted is not None
    assert counted.last_rate == 100


def test_a_last_part_that_was_hardly_seen_has_no_rate(world: World) -> None:
    watch = world.watch(10)
    for _ in range(7):
        world.passes(1, 250)
        watch.tell()
    world.passes(4, 1000)
    counted, _ = ended(watch)
    assert counted is not None
    assert counted.last_rate is None


# --- limits in force, and whose


def test_another_disk_under_the_same_letter_says_nothing_of_this_one(world: World) -> None:
    watch = world.watch()
    world.guest.disks["vda"] = FakeDisk("volume-another", actual=LIMIT, defined=LIMIT)
    _, met = ended(watch)
    assert (met.before, met.after) == (LIMIT, None)


def test_a_disk_that_was_replaced_before_the_run_was_not_held_to_the_others_limits(world: World) -> None:
    witness = world.witness()
    disk = witness.look().disks[0]
    world.guest.disks["vda"] = FakeDisk("volume-another", actual=LIMIT, defined=LIMIT)
    _, met = ended(Watch(witness, disk, 10))
    assert (met.before, met.after) == (None, None)


def test_limits_that_changed_during_a_run_are_shown_before_and_after(world: World) -> None:
    watch = world.watch()
    world.disk.actual = OTHER
    _, met = ended(watch)
    assert (met.promised, met.before, met.after) == (LIMIT, LIMIT, OTHER)


def test_a_reduction_that_a_pass_has_made_since_the_command_began_is_known(world: World) -> None:
    watch, (disk,) = world.watch(), world.witness().look().disks
    given = {"desired": OTHER, "since": NOON, "seen": NOON, "applied": None, "attachment": disk.attachment}
    world.memory = {disk.key: Remembered(**given, reduced=LIMIT, unreduced=OTHER)}  # type: ignore[arg-type]
    met = watch.end(frozen=False)[1]
    assert (met.promised, met.before, met.reduced) == (OTHER, LIMIT, True)


def test_a_reduction_of_before_the_disk_was_found_is_no_promise(world: World) -> None:
    """Limits of a volume that were right as attached, reduced again between two jobs of a probe."""
    world.disk.actual = world.disk.defined = Limits(total_iops_sec=200)
    witness = world.witness()
    (disk,) = witness.look().disks
    world.disk.actual = world.disk.defined = LIMIT
    given = {"desired": OTHER, "since": NOON, "seen": NOON, "applied": None, "attachment": disk.attachment}
    world.memory = {disk.key: Remembered(**given, reduced=LIMIT, unreduced=OTHER)}  # type: ignore[arg-type]
    met = Watch(witness, disk, 10).end(frozen=False)[1]
    assert (met.promised, met.before, met.reduced) == (OTHER, LIMIT, True)


def test_limits_that_qemu_does_not_tell_are_not_taken_for_none(world: World) -> None:
    world.guest.trouble = DeadlineExceeded("no answer from QEMU within 5 s")
    assert world.witness().look() == Look(world.witness().look().disks, {"vda": None}, Movement.STAYS)


def test_what_plimsoll_put_there_is_promised_whatever_libvirt_believes(world: World) -> None:
    witness = world.witness()
    disk = witness.look().disks[0]
    assert witness.promised(disk) == LIMIT
    assert not witness.is_reduced(disk, LIMIT)
    world.memory[disk.key] = Remembered(
        desired=OTHER,
        since=NOON,
        seen=NOON,
        applied=None,
        attachment=disk.attachment,
        reduced=LIMIT,
        unreduced=OTHER,
    )
    assert world.witness().promised(disk) == OTHER
    assert world.witness().is_reduced(disk, LIMIT)
    assert not world.witness().is_reduced(disk, OTHER)
    world.memory[disk.key] = Remembered(
        desired=OTHER, since=NOON, seen=NOON, applied=OTHER, attachment=disk.attachment
    )
    assert world.witness().promised(disk) == OTHER
    world.memory[disk.key] = Remembered(
        desired=OTHER, since=NOON, seen=NOON, applied=None, attachment=disk.attachment
    )
    assert world.witness().promised(disk) == LIMIT


@pytest.mark.parametrize("moves", [Movement.LEAVING, Movement.ARRIVING])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_guest_on_the_move_at_either_end_has_moved(world: World, moves: Movement, when: str) -> None:
    world.guest.movement = moves if when == "before" else Movement.STAYS
    watch = world.watch()
    world.guest.movement = moves if when == "after" else Movement.STAYS
    _, met = ended(watch)
    assert met.moved
    assert getattr(met, when) is None, "its QEMU was not asked"


@pytest.mark.parametrize(
    ("error", "why"),
    [(NotFound("the guest is gone"), Why.NOT_FOUND), (Unreachable("libvirt is gone"), Why.UNREACHABLE)],
)
def test_a_guest_that_is_gone_is_told_from_a_libvirt_that_is(world: World, error: PlimsollError, why: Why) -> None:
    watch = world.watch()
    world.hypervisor.before["look"] = raising(error)
    with pytest.raises(Trouble) as trouble:
        ended(watch)
    assert trouble.value.why is why


# --- the clusters


def test_each_cluster_is_asked_once_however_many_disks_are_on_it(world: World) -> None:
    other = Cluster(Path("/etc/ceph/other.conf"), None, frozenset({"10.0.0.9:6789"}))
    world.known = (CLUSTER, other)
    monitors = ("127.0.0.1:6789",)
    disks = [a_disk(monitors=monitors), a_disk(monitors=monitors), a_disk(monitors=("10.0.0.9:6789",))]
    witness = world.witness()
    assert set(witness.healths(disks)) == {CLUSTER, other}
    assert sorted(cluster.conf.name for cluster in world.asked) == ["ceph.conf", "other.conf"]


@pytest.mark.parametrize(
    ("said", "against"),
    [
        (ClusterHealth(fsid=FSID, raised=()), None),
        (ClusterHealth(fsid=FSID, raised=("POOL_NEAR_FULL",), words=("1 pool",)), None),
        (
            ClusterHealth(fsid=FSID, raised=("OSD_DOWN",), words=("1 osds down",), counts={"OSD_DOWN": 1}, osds=100),
            None,
        ),
        (
            ClusterHealth(fsid=FSID, raised=("OSD_DOWN",), words=("2 osds down",), counts={"OSD_DOWN": 2}, osds=100),
            "OSD_DOWN (2 of 100 OSDs)",
        ),
        (ClusterHealth(fsid=FSID, raised=("PG_BACKFILL_FULL", "X")), "PG_BACKFILL_FULL"),
        (DeadlineExceeded("no answer"), "the cluster's health is unknown: no answer"),
    ],
)
def test_what_blocks_is_a_blocking_check_and_not_to_know(
    world: World, said: ClusterHealth | PlimsollError, against: str | None
) -> None:
    def say() -> ClusterHealth:
        if isinstance(said, PlimsollError):
            raise said
        return said

    world.said = say

    def told() -> str | None:
        witness = world.witness()
        return witness.against([Health(()), *witness.healths(witness.look().disks).values()])

    assert told() == against
    world.blocking = ()
    assert told() is None


def test_a_disk_on_an_unknown_cluster_is_not_healthy(world: World) -> None:
    world.known = (replace(CLUSTER, monitors=frozenset({"10.0.0.9:6789"})),)
    witness = world.witness()
    disks = witness.look().disks
    (health,) = witness.healths(disks).values()
    assert health.raised is None
    assert "127.0.0.1:6789" in health.detail
    assert world.asked == []


def test_another_cluster_that_answers_does_not_vouch_for_this_one(world: World) -> None:
    world.said = lambda: ClusterHealth(fsid="00000000-0000-0000-0000-000000000000", raised=())
    witness = world.witness()
    assert witness.health(witness.look().disks[0]).raised is None


def test_a_disk_bears_the_name_of_its_cluster(world: World) -> None:
    assert world.witness().look().disks[0].cluster == FSID
