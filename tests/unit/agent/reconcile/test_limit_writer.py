"""Writing: one guest, one look before and one after, and no limit that is said to be in force and is not."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import SimpleNamespace

import pytest

from plimsoll_agent.errors import DeadlineExceeded, NotFound, NotSent, Rejected
from plimsoll_agent.model.clusters import Clusters
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.hypervisor import Movement
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, Reason, because
from plimsoll_agent.policy.diff import Change, change_between
from plimsoll_agent.reconcile import limit_writer
from plimsoll_agent.reconcile.groups import may_be_in
from plimsoll_agent.reconcile.limit_writer import Writer
from plimsoll_agent.reconcile.observe import observe
from plimsoll_agent.reconcile.outcome import Kind, Result, Scope
from plimsoll_agent.util.frozen import replace
from tests.fakes import FakeDisk, FakeHypervisor, hangs
from tests.unit.node import DEFAULT, UUIDS, a_volume, guest

OTHERS = Limits(total_iops_sec=7)


class Bench:
    """Guests of three unlimited volumes each, as they were seen, and a writer for them."""

    def __init__(self, guests: int = 1, *, hung: Collection[str] = ()) -> None:
        several = (guest(n, *(a_volume(10 * n + disk) for disk in range(3))) for n in range(1, guests + 1))
        self.hypervisor = FakeHypervisor(*several)
        self.see()
        self.stopped: Reason | None = None
        self.writer = Writer(self.hypervisor, hung=hung, pause=lambda: self.stopped)

    def see(self) -> None:
        self._seen = observe(self.hypervisor, Scope(), clusters=Clusters()).disks
        self.hypervisor.calls.clear()

    def write(
        self,
        number: int = 1,
        limits: Limits | Mapping[str, Limits] = DEFAULT,
        targets: Collection[str] = ("vda", "vdb", "vdc"),
    ) -> list[Result]:
        """These limits on each of the disks, or on each those that are given by its target."""
        guest = [disk for disk in self._seen if disk.guest.uuid == UUIDS[number]]
        after = limits if isinstance(limits, Mapping) else dict.fromkeys(targets, limits)
        return self.writer.write([_change(disk, after[disk.target], guest) for disk in guest if disk.target in after])

    def disk(self, target: str, number: int = 1) -> FakeDisk:
        return self.hypervisor.by_uuid[UUIDS[number]].disks[target]

    def attach(self, target: str, disk: FakeDisk) -> None:
        self.hypervisor.attach(self.hypervisor.by_uuid[UUIDS[1]], target, disk)

    def moves(self) -> None:
        self.hypervisor.by_uuid[UUIDS[1]].movement = Movement.LEAVING


def _change(disk: Disk, limits: Limits, guest: Collection[Disk]) -> Change:
    before, group = disk.actual, limits.group_name
    assert isinstance(before, Limits)
    members = [each for each in guest if group is not None and may_be_in(group, each)]
    change = change_between(disk, before, limits, because(Code.NODE_DEFAULT), Code.NEVER_LIMITED)
    return replace(change, members=tuple((each.key, each.defined) for each in members))


@pytest.fixture
def bench() -> Bench:
    return Bench()


def came_to(results: list[Result]) -> list[tuple[str, Code]]:
    return [(result.kind.value, result.reason.code) for result in results]


def raising(error: Exception) -> Callable[[], None]:
    def happens() -> None:
        raise error

    return happens


CHANGED = ("changed", Code.NODE_DEFAULT)


def test_a_guest_is_looked_at_once_before_all_its_disks_and_once_after(bench: Bench) -> None:
    assert came_to(bench.write()) == [CHANGED] * 3
    writes = ["set_limits", "actual"] * 3
    assert bench.hypervisor.calls == ["look", *writes, "look", *["define_limits"] * 3]
    assert {bench.disk(target).actual for target in ("vda", "vdb", "vdc")} == {DEFAULT}
    assert {bench.disk(target).persistent for target in ("vda", "vdb", "vdc")} == {DEFAULT}


def test_a_letter_that_is_another_volume_at_the_look_is_not_written_to_and_its_neighbours_are(bench: Bench) -> None:
    other = a_volume(99, OTHERS)
    bench.attach("vdb", other)
    results = bench.write()
    assert came_to(results) == [CHANGED, ("left-alone", Code.ANOTHER_DISK), CHANGED]
    assert results[1].reason.facts == {"target": "vdb", "now": other.image}
    assert other.actual == OTHERS


def test_a_letter_that_is_gone_at_the_look_is_said_to_be(bench: Bench) -> None:
    del bench.hypervisor.by_uuid[UUIDS[1]].disks["vdb"]
    results = bench.write()
    assert came_to(results) == [CHANGED, ("left-alone", Code.ANOTHER_DISK), CHANGED]
    assert results[1].reason.facts == {"target": "vdb", "now": None}


def test_a_volume_that_took_the_limit_of_another_is_told_and_named(bench: Bench) -> None:
    other = a_volume(99)
    bench.hypervisor.before["set_limits"] = lambda: bench.hypervisor.before.update(
        set_limits=lambda: bench.attach("vdb", other)
    )
    assert came_to(bench.write()) == [CHANGED, ("unknown", Code.ANOTHER_DISK), CHANGED]
    assert other.actual == DEFAULT
    assert [(disk.volume_id, limits) for disk, limits in bench.writer.strays.values()] == [(other.volume_id, DEFAULT)]
    assert other.persistent == Limits(), "what was done by mistake is not written down for the next start"


def test_two_letters_that_are_swapped_in_between_are_both_told(bench: Bench) -> None:
    disks = bench.hypervisor.by_uuid[UUIDS[1]].disks

    def swap() -> None:
        disks["vda"], disks["vdb"] = disks["vdb"], disks["vda"]

    bench.hypervisor.before["set_limits"] = swap
    assert came_to(bench.write()) == [("unknown", Code.ANOTHER_DISK)] * 2 + [CHANGED]
    assert len(bench.writer.strays) == 2


def test_after_a_disk_that_hangs_the_others_of_its_guest_are_not_tried(bench: Bench) -> None:
    bench.hypervisor.before["set_limits"] = lambda: setattr(bench.hypervisor.by_uuid[UUIDS[1]], "trouble", hangs())
    results = bench.write()
    assert came_to(results) == [("unknown", Code.TIMED_OUT)] + [("failed", Code.GUEST_TIMED_OUT)] * 2
    assert bench.hypervisor.calls == ["look", "set_limits"], "nor is it asked anything more"


def test_what_was_written_before_a_disk_hung_is_looked_at_again(bench: Bench) -> None:
    def hang() -> None:
        bench.hypervisor.by_uuid[UUIDS[1]].trouble = hangs()

    bench.hypervisor.before["set_limits"] = lambda: bench.hypervisor.before.update(set_limits=hang)
    kinds = [kind for kind, _ in came_to(bench.write())]
    assert kinds == ["changed", "unknown", "failed"]
    assert bench.hypervisor.calls.count("look") == 2


@pytest.mark.parametrize("call", ["look", "set_limits", "actual", "look again", "define_limits"])
def test_a_guest_that_hung_in_any_call_is_not_asked_again(bench: Bench, call: str) -> None:
    hung = raising(hangs())
    happens = bench.hypervisor.before
    if call == "look again":
        happens["actual"] = lambda: happens.update(look=hung)
    else:
        happens[call] = hung
    bench.write()
    bench.hypervisor.calls.clear()
    results = bench.write()
    assert came_to(results) == [("failed", Code.GUEST_TIMED_OUT)] * 3
    assert bench.hypervisor.calls == []


def test_guests_that_hang_are_left_out_and_all_others_are_written_to() -> None:
    bench = Bench(3, hung=[UUIDS[2]])
    assert came_to(bench.write(2)) == [("failed", Code.GUEST_TIMED_OUT)] * 3, "it hung when it was looked at"
    bench.hypervisor.before["look"] = raising(hangs())
    assert came_to(bench.write(1)) == [("failed", Code.TIMED_OUT)] * 3
    assert came_to(bench.write(3)) == [CHANGED] * 3
    bench.hypervisor.calls.clear()
    assert came_to(bench.write(1) + bench.write(2)) == [("failed", Code.GUEST_TIMED_OUT)] * 6
    assert bench.hypervisor.calls == []


@pytest.mark.parametrize(
    ("error", "kind", "others"),
    [
        (NotFound("gone"), Kind.LEFT_ALONE, Kind.CHANGED),
        (Rejected("no"), Kind.FAILED, Kind.CHANGED),
        (NotSent("crowded"), Kind.FAILED, Kind.CHANGED),
        (DeadlineExceeded("late"), Kind.UNKNOWN, Kind.FAILED),
        (KeyError("a bug"), Kind.UNKNOWN, Kind.CHANGED),
    ],
)
def test_only_a_write_that_hangs_costs_the_other_disks_theirs(
    bench: Bench, error: Exception, kind: Kind, others: Kind
) -> None:
    bench.hypervisor.before["set_limits"] = raising(error)
    assert [result.kind for result in bench.write()] == [kind, others, others]


@pytest.mark.parametrize(
    ("error", "kind"),
    [(NotFound("gone"), "left-alone"), (hangs(), "failed"), (Rejected("no"), "failed"), (KeyError("?"), "failed")],
)
def test_a_guest_that_cannot_be_looked_at_before_is_not_written_to(bench: Bench, error: Exception, kind: str) -> None:
    bench.hypervisor.before["look"] = raising(error)
    assert [result.kind.value for result in bench.write()] == [kind] * 3
    assert bench.hypervisor.writes == []


@pytest.mark.parametrize("error", [NotFound("gone"), hangs(), Rejected("no"), KeyError("?")])
def test_what_cannot_be_looked_at_after_is_not_called_done(bench: Bench, error: Exception) -> None:
    bench.hypervisor.before["actual"] = lambda: bench.hypervisor.before.update(look=raising(error))
    assert [result.kind for result in bench.write()] == [Kind.UNKNOWN] * 3
    assert "define_limits" not in bench.hypervisor.calls


def test_a_guest_that_vanishes_between_two_disks_takes_no_word_back(bench: Bench) -> None:
    bench.hypervisor.before["set_limits"] = lambda: bench.hypervisor.before.update(
        set_limits=lambda: bench.hypervisor.by_uuid.clear()
    )
    results = bench.write()
    assert came_to(results)[0] == ("unknown", Code.NOT_FOUND), "written, and nobody can say on what"
    assert came_to(results)[1:] == [("left-alone", Code.NOT_FOUND)] * 2


def test_what_is_read_back_decides_and_not_that_the_call_was_answered(bench: Bench) -> None:
    bench.hypervisor.before["actual"] = lambda: setattr(bench.disk("vda"), "actual", OTHERS)
    results = bench.write()
    assert came_to(results) == [("unknown", Code.READ_BACK_DIFFERS), CHANGED, CHANGED]
    assert results[0].reason.facts == {"actual": {"total_iops_sec": 7}}
    assert bench.disk("vda").persistent == Limits()


def test_what_cannot_be_read_back_is_unknown_and_says_why(bench: Bench) -> None:
    bench.hypervisor.before["actual"] = raising(Rejected("no such device"))
    results = bench.write()
    assert came_to(results) == [("unknown", Code.REJECTED), CHANGED, CHANGED]
    assert results[0].reason.facts == {"detail": "no such device"}
    assert bench.disk("vda").persistent == Limits()


def test_a_disk_whose_definition_changed_since_the_decision_is_not_written_to(bench: Bench) -> None:
    bench.disk("vdb").defined = OTHERS
    assert came_to(bench.write()) == [CHANGED, ("deferred", Code.CHANGED_SINCE), CHANGED]
    assert bench.disk("vdb").actual == Limits()


def test_a_guest_with_one_change_is_written_to(bench: Bench) -> None:
    assert came_to(bench.write(targets=("vdb",))) == [CHANGED]
    assert [target for _, target, _ in bench.hypervisor.writes] == ["vdb"]


def test_the_seconds_of_a_write_are_told_however_it_came_out(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([10.0, 13.0, 20.0, 24.0, 30.0, 35.0])
    monkeypatch.setattr(limit_writer, "time", SimpleNamespace(monotonic=lambda: next(times)))
    happens = bench.hypervisor.before

    def fails() -> None:
        happens["actual"] = lambda: setattr(bench.disk("vdc"), "actual", OTHERS)
        raise Rejected("no such device")

    happens["actual"] = lambda: happens.update(actual=fails)
    results = bench.write()
    assert came_to(results) == [CHANGED, ("unknown", Code.REJECTED), ("unknown", Code.READ_BACK_DIFFERS)]
    assert [result.seconds for result in results] == [3.0, 4.0, 5.0]


def test_a_definition_that_is_refused_is_told_in_the_log_and_takes_no_word_back(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.hypervisor.before["define_limits"] = raising(Rejected("read-only"))
    with caplog.at_level("INFO"):
        assert came_to(bench.write()) == [CHANGED] * 3
    assert caplog.messages == ["'instance-00000001' vda: not in the persistent definition: read-only"]
    assert [bench.disk(target).persistent for target in ("vda", "vdb")] == [Limits(), DEFAULT]


def test_a_guest_that_moves_at_the_look_is_left_to_the_target(bench: Bench) -> None:
    bench.moves()
    assert came_to(bench.write()) == [("left-alone", Code.MIGRATING)] * 3
    assert bench.hypervisor.calls == ["look"]


def test_a_movement_that_begins_while_it_is_written_to_is_told(bench: Bench) -> None:
    bench.hypervisor.before["set_limits"] = bench.moves
    assert came_to(bench.write()) == [("unknown", Code.MIGRATING)] * 3
    assert bench.writer.strays == {}
    assert "define_limits" not in bench.hypervisor.calls


def test_a_stop_is_heard_before_every_write_and_what_was_written_is_looked_at_again(bench: Bench) -> None:
    def pause() -> None:
        bench.stopped = because(Code.PAUSED, file="f", why="")

    bench.hypervisor.before["actual"] = pause
    assert came_to(bench.write()) == [CHANGED] + [("deferred", Code.PAUSED)] * 2
    assert bench.hypervisor.calls == ["look", "set_limits", "actual", "look"], "nor is the definition written"


def test_a_disk_that_leaves_its_group_is_taken_out_of_it(bench: Bench) -> None:
    bench.write(limits=replace(DEFAULT, group_name="all"))
    bench.see()
    assert came_to(bench.write()) == [CHANGED] * 3
    assert {bench.disk(target).actual for target in ("vda", "vdb", "vdc")} == {DEFAULT}


# --- throttle groups

G, H = replace(DEFAULT, group_name="g"), replace(DEFAULT, group_name="h")
LESS = replace(G, total_iops_sec=90)
WITHHELD = ("deferred", Code.GROUP_WITHHELD)


@pytest.fixture
def group(bench: Bench) -> Bench:
    """All disks of the guest are in group g."""
    bench.write(limits=G)
    bench.see()
    return bench


def after_one_write(bench: Bench, then: Callable[[], None]) -> None:
    """A pause begins once the first disk is written to; ``then`` happens when the second is read for the group."""

    def pause() -> None:
        bench.stopped = because(Code.PAUSED, file="f", why="")
        bench.hypervisor.before["actual"] = then

    bench.hypervisor.before["actual"] = pause


def test_all_members_are_withheld_because_of_the_one_that_failed_and_not_of_each_other(group: Bench) -> None:
    group.hypervisor.before["set_limits"] = raising(Rejected("no"))
    results = group.write(limits=LESS)
    assert came_to(results) == [("failed", Code.REJECTED), WITHHELD, WITHHELD]
    expected = {"group": "g", "target": "vda", "because": results[0].reason.as_record()}
    assert [result.reason.facts for result in results[1:]] == [expected] * 2
    assert group.hypervisor.calls == ["look", "set_limits"], "nothing was written that they could have got"


def test_a_disk_that_could_not_go_from_one_group_to_another_withholds_both(bench: Bench) -> None:
    bench.write(limits={"vda": G, "vdb": G, "vdc": H})
    bench.see()
    bench.hypervisor.before["set_limits"] = raising(Rejected("no"))
    less = {"vda": replace(H, total_iops_sec=90), "vdb": LESS, "vdc": replace(H, total_iops_sec=90)}
    results = bench.write(limits=less)
    assert came_to(results) == [("failed", Code.REJECTED), WITHHELD, WITHHELD]
    assert [result.reason.facts["group"] for result in results[1:]] == ["g", "h"]


def test_disks_of_no_group_withhold_nothing_from_each_other(bench: Bench) -> None:
    bench.hypervisor.before["set_limits"] = raising(Rejected("no"))
    assert came_to(bench.write()) == [("failed", Code.REJECTED), CHANGED, CHANGED]


def test_two_groups_that_failed_are_both_withheld(bench: Bench) -> None:
    bench.attach("vdd", a_volume(14))
    bench.see()

    def twice() -> None:
        bench.hypervisor.before["set_limits"] = raising(Rejected("no"))
        raise Rejected("no")

    bench.hypervisor.before["set_limits"] = twice
    results = bench.write(limits={"vda": G, "vdb": H, "vdc": G, "vdd": H})
    assert came_to(results) == [("failed", Code.REJECTED)] * 2 + [WITHHELD] * 2


def test_a_member_that_hangs_when_it_is_read_for_its_group_is_the_last_one_asked(group: Bench) -> None:
    after_one_write(group, raising(hangs()))
    results = group.write(limits=LESS)
    assert came_to(results) == [CHANGED, ("unknown", Code.TIMED_OUT), ("unknown", Code.TIMED_OUT)]
    assert results[2].reason.facts == {"detail": "not asked: its guest has timed out"}
    assert group.hypervisor.calls == ["look", "set_limits", "actual", "actual", "look"]
    assert came_to(group.write(limits=LESS)) == [("failed", Code.GUEST_TIMED_OUT)] * 3


def test_a_member_with_limits_of_neither_before_nor_after_is_told_with_them(group: Bench) -> None:
    after_one_write(group, lambda: setattr(group.disk("vdb"), "actual", OTHERS))
    results = group.write(limits=LESS)
    assert came_to(results) == [CHANGED, ("unknown", Code.READ_BACK_DIFFERS), CHANGED]
    assert results[1].reason.facts == {"actual": {"total_iops_sec": 7}}


def test_members_that_kept_their_limits_though_the_write_is_unknown_are_told_as_withheld(group: Bench) -> None:
    group.hypervisor.before["set_limits"] = raising(KeyError("a bug"))
    assert came_to(group.write(limits=LESS)) == [("unknown", Code.NOT_READ), WITHHELD, WITHHELD]
