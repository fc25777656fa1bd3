"""A probe from beginning to end: in a guest whose agent is a fake, and on whose disk a fake QEMU counts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from datetime import timedelta

import pytest

from plimsoll_agent.errors import DeadlineExceeded, NotFound
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.hypervisor import BlockStats, Movement
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.memory import Remembered
from plimsoll_probes.adapters.slots import Slot
from plimsoll_probes.execute.located import locate
from plimsoll_probes.execute.runner import HereProbe, Phase, Stopped
from plimsoll_probes.execute.witness import GuestReading
from plimsoll_probes.guest.session import Premises
from plimsoll_probes.model.finding import Trouble, Verdict, Why
from plimsoll_probes.model.job import JobName
from plimsoll_probes.schedule.admission import Admission
from tests.fakeagent import Program
from tests.fakes import VOLUME, FakeDisk, FakeGuest, FakeHypervisor, raising, volume
from tests.unit.probed import IOPS, LIMIT, MIB, NOW, TARGET, UNWELL, UUID, WELL, Here, World


@pytest.fixture
def world() -> World:
    return World()


def findings(world: World) -> list[tuple[JobName, Verdict, Why]]:
    return [(result.job.name, result.finding.verdict, result.finding.why) for result in world.kept]


def test_a_guest_that_gets_its_limit_has_its_promise_kept(world: World) -> None:
    assert world.probe() is None
    (result,) = world.kept
    assert (result.finding.verdict, result.subject.target, result.subject.volume_id) == (Verdict.KEPT, "vdb", VOLUME)
    assert result.measured is not None
    assert result.measured.iops == IOPS
    assert result.counted is not None
    assert result.counted.operations == IOPS * 10
    assert result.circumstances.promised == result.circumstances.before == result.circumstances.after == LIMIT
    assert result.rule == "canaries"


def test_the_jobs_of_a_target_share_one_file_that_is_written_and_removed_once(world: World) -> None:
    world.probe(JobName.READ, JobName.WRITE)
    assert world.guest.verbs == ["look", "fill", "run", "piece", "run", "piece", "clean"]
    assert len({result.session for result in world.kept}) == 1
    assert world.kept[0].session


def test_more_than_plimsoll_set_is_over_the_limit_though_libvirt_knows_of_none(world: World) -> None:
    """Lifted through libvirt: its definition and QEMU agree, and what was put there before is what counts."""
    disk = world.guest.qemu.disks["vdb"]
    disk.actual = disk.defined = Limits()
    attached = world.hypervisor.survey(UUID).disks[0]
    world.memory[attached.key] = Remembered(
        desired=LIMIT, since=NOW, seen=NOW, applied=LIMIT, attachment=attached.attachment
    )
    world.guest.operations = 15000
    world.probe()
    assert findings(world) == [(JobName.READ, Verdict.OVER_LIMIT, Why.NOT_SET)]


@pytest.mark.parametrize("why", [Why.LIMITS_CHANGED, Why.MOVED])
def test_another_limit_or_a_migration_during_a_run_spoils_the_result(world: World, why: Why) -> None:
    def change() -> None:
        if why is Why.MOVED:
            world.guest.qemu.movement = Movement.LEAVING
        else:
            world.guest.qemu.disks["vdb"].actual = Limits(total_iops_sec=500)

    world.guest.meanwhile = change
    world.probe()
    assert findings(world) == [(JobName.READ, Verdict.INCONCLUSIVE, why)]


def test_a_guest_that_boasts_is_contradicted_by_what_qemu_counted(world: World) -> None:
    world.guest.counted = 100
    world.probe()
    assert findings(world) == [(JobName.READ, Verdict.FAILED, Why.CONTRADICTED)]
    assert world.kept[0].finding.facts == {"said": 2500, "counted": 100}


def test_a_file_that_qemu_never_saw_lies_on_no_disk_of_ours(world: World) -> None:
    """A loop device, or a guest that only says that it has written: its figures are not the cluster's."""
    world.guest._fill = lambda: Program(out=b"stopped=no\nexit=0\n")  # type: ignore[method-assign]
    world.probe()
    assert findings(world) == [(JobName.READ, Verdict.FAILED, Why.NO_DISK)]
    assert world.guest.verbs[-1] == "clean"


def test_a_stall_fails_the_job_and_the_rest_is_not_said_to_have_stalled(world: World) -> None:
    world.guest.stalls = True
    world.probe(JobName.READ, JobName.WRITE, JobName.MIXED)
    assert findings(world) == [
        (JobName.READ, Verdict.FAILED, Why.UNFINISHED),
        (JobName.WRITE, Verdict.FAILED, Why.NOT_REACHED),
        (JobName.MIXED, Verdict.FAILED, Why.NOT_REACHED),
    ]
    assert world.kept[0].finding.facts["done"] == 812
    assert world.kept[0].finding.facts["unfinished"] == 8


@pytest.mark.parametrize(
    "trouble", [NotFound("the guest is gone"), DeadlineExceeded("no answer from QEMU within 5 s")]
)
def test_a_guest_that_is_lost_during_a_run_is_cleaned_away_all_the_same(
    world: World, trouble: NotFound | DeadlineExceeded
) -> None:
    """The look after the run fails: what is in the guest must go, should it be there still."""

    def lose() -> None:
        world.guest.qemu.trouble = trouble

    world.guest.meanwhile = lose
    world.probe()
    assert [result.finding.verdict for result in world.kept] != [Verdict.KEPT]
    assert world.guest.verbs[-1] == "clean"


def test_a_guest_without_an_agent_fails_each_job_and_gets_no_file(world: World) -> None:
    world.guest.disabled.add("guest-exec")
    world.probe(JobName.READ, JobName.MIXED)
    assert [(verdict, why) for _, verdict, why in findings(world)] == [(Verdict.FAILED, Why.EXEC_FORBIDDEN)] * 2
    assert world.guest.verbs == []


def test_a_frozen_guest_is_no_failure(world: World) -> None:
    world.guest.frozen = True
    world.probe()
    assert findings(world) == [(JobName.READ, Verdict.INCONCLUSIVE, Why.FROZEN)]


def test_a_freeze_that_ends_in_time_spoils_one_result_and_not_the_next(world: World) -> None:
    guest, sleep = world.guest, world.guest.sleep

    def freeze() -> None:
        guest.frozen = not world.kept

    def thaw(seconds: float) -> None:
        sleep(seconds)
        guest.frozen = guest.frozen and guest.asked[-1] == "guest-exec"

    guest.meanwhile, guest.sleep = freeze, thaw  # type: ignore[method-assign]
    world.probe(JobName.READ, JobName.WRITE)
    assert [(verdict, why) for _, verdict, why in findings(world)] == [
        (Verdict.INCONCLUSIVE, Why.FROZEN),
        (Verdict.KEPT, Why.WITHIN),
    ]


def test_nothing_is_asked_of_a_guest_whose_cluster_is_unhealthy(world: World) -> None:
    world.health = lambda: UNWELL
    postponed = world.probe()
    assert postponed is not None
    assert (postponed.why, postponed.facts) == (Why.UNHEALTHY, {"detail": "OSD_DOWN (1 of 3 OSDs)"})
    assert (world.kept, world.guest.asked) == ([], [])


def test_a_cluster_that_does_not_answer_is_not_healthy(world: World) -> None:
    world.health = raising(DeadlineExceeded("no answer from Ceph within 10 s"))
    postponed = world.probe()
    assert postponed is not None
    assert postponed.why is Why.UNHEALTHY


def test_a_person_may_probe_an_unhealthy_cluster(world: World) -> None:
    world.health, world.heeds_health = lambda: UNWELL, False
    assert world.probe(JobName.READ, JobName.WRITE) is None
    assert len(world.kept) == 2
    health = world.kept[0].circumstances.health_before
    assert health is not None
    assert health.raised == ("OSD_DOWN",)


def test_the_rest_waits_when_a_result_and_the_cluster_say_that_it_is_in_trouble(world: World) -> None:
    """The first job finds the storm: two more must not be poured into it."""

    def break_() -> None:
        world.health = lambda: UNWELL

    world.guest.meanwhile, world.guest.operations = break_, 800
    postponed = world.probe(JobName.READ, JobName.WRITE, JobName.MIXED)
    assert findings(world) == [(JobName.READ, Verdict.SHORT, Why.CLUSTER_SHORT)]
    assert postponed is not None
    assert postponed.why is Why.UNHEALTHY
    assert world.kept[0].circumstances.health_after is not None
    assert world.kept[0].circumstances.health_after.detail == "1 osds down"
    assert world.guest.verbs[-1] == "clean"


class _Lost(Slot):
    """A slot that is lost after so many jobs."""

    def __init__(self, times: int) -> None:
        self.times = times
        self.asked: list[float] = []

    def ensure(self, seconds: float) -> None:
        self.asked.append(seconds)
        if len(self.asked) > self.times:
            raise Trouble(Why.NO_SLOT, detail="etcd does not answer")


def test_a_slot_that_cannot_be_kept_ends_the_probe_before_the_next_job(world: World) -> None:
    world.held = _Lost(2)  # the filling, and one job
    postponed = world.probe(JobName.READ, JobName.WRITE)
    assert [name for name, *_ in findings(world)] == [JobName.READ]
    assert postponed is not None
    assert postponed.why is Why.NO_SLOT
    assert world.guest.verbs == ["look", "fill", "run", "piece", "clean"]


def test_a_slot_is_ensured_for_longer_than_the_guest_lets_a_job_live(world: World) -> None:
    """Else a node that was killed frees its slot while its fio still runs."""
    world.held = held = _Lost(99)
    requests: list[dict[str, object]] = []
    ask = world.guest.ask

    def listening(request: str, seconds: int) -> str:
        requests.append(json.loads(request))
        return ask(request, seconds)

    world.guest.ask = listening  # type: ignore[method-assign]
    world.probe()
    lives: dict[str, float] = {}
    for request in requests:
        words = request.get("arguments", {}).get("arg", [])  # type: ignore[attr-defined]
        if "plimsoll-probe" in words:
            # timeout -k AFTER SECONDS
            lives[words[words.index("plimsoll-probe") + 1]] = float(words[1]) + float(words[2])
    fill, run = held.asked
    assert fill >= lives["fill"]
    assert run >= lives["run"]


def test_who_stops_plimsoll_gets_no_result_and_no_file_stays(world: World) -> None:
    world.guest.meanwhile = world.stop.set
    with pytest.raises(Stopped):
        world.probe(JobName.READ, JobName.WRITE)
    assert world.kept == []
    assert world.guest.verbs == ["look", "fill", "run", "clean"]


def test_a_time_that_passed_while_it_waited_for_its_turn_is_not_made_up_for(world: World) -> None:
    assert world.probe(until=NOW - timedelta(seconds=1)) is None
    assert (world.kept, world.guest.asked) == ([], [])


def test_health_is_asked_when_the_turn_has_come(world: World) -> None:
    """What the cluster said before minutes of waiting for another probe says nothing of now."""
    waited: list[bool] = []
    world.health = lambda: UNWELL if waited else WELL

    class Waits(Admission):
        @contextmanager
        def turn(self, disks: Sequence[Disk]) -> Iterator[tuple[str, ...]]:
            waited.append(True)
            with super().turn(disks) as names:
                yield names

    world.admission = Waits(lambda _: nullcontext(world.held), one_per_pool=False)
    postponed = world.probe()
    assert postponed is not None
    assert (postponed.why, world.guest.asked) == (Why.UNHEALTHY, [])


def test_a_disk_that_is_detached_while_a_probe_waits_does_not_hide_the_counters_of_the_others(world: World) -> None:
    """The guest reports the serial of vdb; QEMU counts that the file is on vdc."""
    qemu = world.guest.qemu
    qemu.disks |= {"vdc": volume(OTHER), "vdd": OWN}
    world.guest.on = "vdc"

    class Detaches(Admission):
        @contextmanager
        def turn(self, disks: Sequence[Disk]) -> Iterator[tuple[str, ...]]:
            del qemu.disks["vdd"]
            with super().turn(disks) as names:
                yield names

    world.admission = Detaches(lambda _: nullcontext(world.held), one_per_pool=False)
    world.probe()
    assert [result.subject.target for result in world.kept] == ["vdc"]


def test_who_stops_plimsoll_waits_for_no_look_at_a_guest_whose_turn_comes_afterwards(world: World) -> None:
    world.stop.set()
    with pytest.raises(Stopped):
        world.probe()
    assert world.guest.asked == []


def test_how_far_it_is_can_be_followed(world: World) -> None:
    world.probe()
    phases = [progress.phase for progress in world.seen]
    assert list(dict.fromkeys(phases)) == [Phase.LOOKING, Phase.FILLING, Phase.RUNNING]
    running = [progress.elapsed for progress in world.seen if progress.phase is Phase.RUNNING]
    assert running == sorted(running)
    assert running[-1] > 9
    assert world.seen[-1].seconds == 10


# --- which disk it was

OTHER = "11111111-2222-3333-4444-555555555555"


def disks(*known: FakeDisk) -> tuple[Disk, ...]:
    guest = FakeGuest("instance-0000002a", UUID, dict(zip(("vda", "vdb", "vdc"), known, strict=False)))
    return FakeHypervisor(guest).survey(UUID).disks


def premises(device: str = "vdb", serial: str = "") -> Premises:
    return Premises(
        directory="/mnt",
        engines=("libaio",),
        cpus="0",
        device=device,
        serial=serial,
        size=2**30,
        filesystem="ext4",
        free=2**30,
    )


def reading(**written: int) -> GuestReading:
    return GuestReading(
        0,
        {
            target: BlockStats(read_requests=0, read_bytes=0, write_requests=0, write_bytes=bytes_)
            for target, bytes_ in written.items()
        },
    )


OWN = FakeDisk("6695eb01_disk", pool="vms")


def test_the_disk_is_the_one_that_was_written_to_whatever_the_guest_calls_it() -> None:
    found = locate(
        disks(OWN, volume()), premises("sdz"), reading(vda=5, vdb=7), reading(vda=5 + 1000, vdb=7 + MIB), MIB
    )
    assert found.target == "vdb"


def test_of_two_disks_that_were_written_to_the_serial_decides_and_then_the_name() -> None:
    three = disks(OWN, volume(), volume(OTHER))
    nothing, much = reading(vda=0, vdb=0, vdc=0), reading(vda=MIB, vdb=MIB, vdc=MIB)
    assert locate(three, premises("vda", VOLUME[:20]), nothing, much, MIB).volume_id == VOLUME
    assert locate(three, premises("vda", ""), nothing, much, MIB).target == "vda"


def test_a_serial_of_a_disk_that_was_never_written_is_a_lie() -> None:
    two = disks(OWN, volume())
    found = locate(two, premises("vdb", VOLUME[:20]), reading(vda=0, vdb=0), reading(vda=MIB, vdb=0), MIB)
    assert found.target == "vda"


def test_without_counters_the_guest_is_asked_and_believed_only_if_it_names_one_of_its_disks() -> None:
    two = disks(OWN, volume())
    assert locate(two, premises("sda", VOLUME[:20]), None, reading(vda=0, vdb=0), MIB).target == "vdb"
    with pytest.raises(Trouble) as trouble:
        locate(two, premises("sda", ""), None, None, MIB)
    assert trouble.value.why is Why.NO_DISK


def test_without_counters_the_only_rbd_disk_is_not_taken_for_a_disk_of_another_kind() -> None:
    """The file may be on a local disk, which is not among these."""
    only = disks(volume())
    assert locate(only, premises("vda"), None, None, MIB).target == "vda"
    assert locate(only, premises("sdz", VOLUME[:20]), None, None, MIB).target == "vda"
    with pytest.raises(Trouble) as trouble:
        locate(only, premises("vdb"), None, None, MIB)
    assert trouble.value.why is Why.NO_DISK


@pytest.mark.parametrize("shown", [20, 36])
def test_a_serial_is_one_of_virtio_or_scsi(shown: int) -> None:
    """On SCSI the names depend on the order in which the guest finds its disks."""
    three = disks(OWN, volume(), volume(OTHER))
    assert locate(three, premises("vda", OTHER[:shown]), None, None, MIB).volume_id == OTHER


@pytest.mark.parametrize("serial", [OTHER[:19], OTHER + "0", ""])
def test_what_is_no_serial_of_a_volume_leaves_the_name(serial: str) -> None:
    three = disks(OWN, volume(), volume(OTHER))
    assert locate(three, premises("vdb", serial), None, None, MIB).target == "vdb"


# --- this machine itself


@pytest.mark.parametrize(
    ("limits", "verdict"),
    [(LIMIT, Verdict.KEPT), (Limits(), Verdict.NO_LIMIT), (None, Verdict.INCONCLUSIVE)],
    ids=["said", "said to be none", "not said"],
)
def test_a_machine_is_held_against_what_its_owner_says(world: World, limits: Limits | None, verdict: Verdict) -> None:
    """What nobody said is not known, which is neither kept nor unlimited."""
    probe = HereProbe(desk=world.desk(), shell=Here(world.guest), limits=limits, slot=lambda: nullcontext(Slot()))
    assert probe.run(TARGET, (JobName.READ,)) is None
    assert [result.finding.verdict for result in world.kept] == [verdict]
    assert world.guest.verbs[-1] == "clean"
