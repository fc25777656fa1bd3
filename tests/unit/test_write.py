"""Writing: one guest, one look before and one after, and no limit that is said to be in force and is not."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from types import SimpleNamespace

import pytest

from plimsoll_agent import write
from plimsoll_agent.changes import Change
from plimsoll_agent.clusters import Clusters
from plimsoll_agent.direction import direction
from plimsoll_agent.disk import Disk
from plimsoll_agent.errors import NotSent, Rejected, Unanswered, Vanished
from plimsoll_agent.hypervisor import Movement
from plimsoll_agent.limits import Limits
from plimsoll_agent.observe import observe
from plimsoll_agent.outcome import Kind, Result, Scope
from plimsoll_agent.reason import Code, Reason, because
from plimsoll_agent.write import Bounds, Writer
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
        self.writer = Writer(self.hypervisor, Bounds(), hung=hung, stopped=lambda: self.stopped)

    def see(self) -> None:
        self._seen = observe(self.hypervisor, Scope(), clusters=Clusters()).disks
        self.hypervisor.calls.clear()

    def write(
        self, number: int = 1, limits: Limits = DEFAULT, targets: Collection[str] = ("vda", "vdb", "vdc")
    ) -> list[Result]:
        disks = [disk for disk in self._seen if disk.guest.uuid == UUIDS[number] and disk.target in targets]
        return self.writer.write([_change(disk, limits) for disk in disks])

    def disk(self, target: str, number: int = 1) -> FakeDisk:
        return self.hypervisor.by_uuid[UUIDS[number]].disks[target]

    def attach(self, target: str, disk: FakeDisk) -> None:
        self.hypervisor.attach(self.hypervisor.by_uuid[UUIDS[1]], target, disk)

    def moves(self) -> None:
        self.hypervisor.by_uuid[UUIDS[1]].movement = Movement.LEAVING


def _change(disk: Disk, limits: Limits) -> Change:
    before = disk.in_force
    assert isinstance(before, Limits)
    how = direction(before, limits)
    return Change(disk, before, limits, how, because(Code.NODE_DEFAULT), Code.NEVER_LIMITED)


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
    writes = ["set_limits", "in_force"] * 3
    assert bench.hypervisor.calls == ["look", *writes, "look", *["define_limits"] * 3]
    assert {bench.disk(target).in_force for target in ("vda", "vdb", "vdc")} == {DEFAULT}
    assert {bench.disk(target).persistent for target in ("vda", "vdb", "vdc")} == {DEFAULT}


def test_a_letter_that_is_another_volume_at_the_look_is_not_written_to_and_its_neighbours_are(bench: Bench) -> None:
    other = a_volume(99, OTHERS)
    bench.attach("vdb", other)
    results = bench.write()
    assert came_to(results) == [CHANGED, ("left-alone", Code.ANOTHER_DISK), CHANGED]
    assert results[1].reason.facts == {"target": "vdb", "now": other.image}
    assert other.in_force == OTHERS


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
    assert came_to(bench.write()) == [CHANGED, ("not-known", Code.ANOTHER_DISK), CHANGED]
    assert other.in_force == DEFAULT
    assert [(disk.volume_id, limits) for disk, limits in bench.writer.strays.values()] == [(other.volume_id, DEFAULT)]
    assert other.persistent == Limits(), "what was done by mistake is not written down for the next start"


def test_two_letters_that_are_swapped_meanwhile_are_both_told(bench: Bench) -> None:
    disks = bench.hypervisor.by_uuid[UUIDS[1]].disks

    def swap() -> None:
        disks["vda"], disks["vdb"] = disks["vdb"], disks["vda"]

    bench.hypervisor.before["set_limits"] = swap
    assert came_to(bench.write()) == [("not-known", Code.ANOTHER_DISK)] * 2 + [CHANGED]
    assert len(bench.writer.strays) == 2


def test_after_a_disk_that_hangs_the_others_of_its_guest_are_not_tried(bench: Bench) -> None:
    bench.hypervisor.before["set_limits"] = lambda: setattr(bench.hypervisor.by_uuid[UUIDS[1]], "trouble", hangs())
    results = bench.write()
    assert came_to(results) == [("not-known", Code.UNANSWERED)] + [("failed", Code.TOO_MANY_HUNG)] * 2
    assert bench.hypervisor.calls == ["look", "set_limits"], "nor is it asked anything more"


def test_what_was_written_before_a_disk_hung_is_looked_at_again(bench: Bench) -> None:
    def hang() -> None:
        bench.hypervisor.by_uuid[UUIDS[1]].trouble = hangs()

    bench.hypervisor.before["set_limits"] = lambda: bench.hypervisor.before.update(set_limits=hang)
    kinds = [kind for kind, _ in came_to(bench.write())]
    assert kinds == ["changed", "not-known", "failed"]
    assert bench.hypervisor.calls.count("look") == 2


@pytest.mark.parametrize("call", ["look", "set_limits", "in_force", "look again", "define_limits"])
def test_a_guest_that_hung_in_any_call_is_not_asked_again(bench: Bench, call: str) -> None:
    hung = raising(hangs())
    happens = bench.hypervisor.before
    if call == "look again":
        happens["in_force"] = lambda: happens.update(look=hung)
    else:
        happens[call] = hung
    bench.write()
    bench.hypervisor.calls.clear()
    results = bench.write()
    assert came_to(results) == [("failed", Code.TOO_MANY_HUNG)] * 3
    assert [result.reason.facts for result in results] == [{"hung": 1}] * 3
    assert bench.hypervisor.calls == []


def test_after_two_hung_guests_no_other_is_touched() -> None:
    bench = Bench(3, hung=[UUIDS[2]])
    assert came_to(bench.write(2)) == [("failed", Code.TOO_MANY_HUNG)] * 3, "it hung when it was looked at"
    assert came_to(bench.write(3)) == [CHANGED] * 3
    bench.hypervisor.before["look"] = raising(hangs())
    bench.write(1)
    bench.hypervisor.calls.clear()
    assert came_to(bench.write(3)) == [("failed", Code.TOO_MANY_HUNG)] * 3
    assert bench.hypervisor.calls == []


@pytest.mark.parametrize(
    ("error", "kind", "others"),
    [
        (Vanished("gone"), Kind.LEFT_ALONE, Kind.CHANGED),
        (Rejected("no"), Kind.FAILED, Kind.CHANGED),
        (NotSent("crowded"), Kind.FAILED, Kind.CHANGED),
        (Unanswered("late"), Kind.NOT_KNOWN, Kind.FAILED),
        (KeyError("a bug"), Kind.NOT_KNOWN, Kind.CHANGED),
    ],
)
def test_only_a_write_that_hangs_costs_the_other_disks_theirs(
    bench: Bench, error: Exception, kind: Kind, others: Kind
) -> None:
    bench.hypervisor.before["set_limits"] = raising(error)
    assert [result.kind for result in bench.write()] == [kind, others, others]


@pytest.mark.parametrize(
    ("error", "kind"),
    [(Vanished("gone"), "left-alone"), (hangs(), "failed"), (Rejected("no"), "failed"), (KeyError("?"), "failed")],
)
def test_a_guest_that_cannot_be_looked_at_before_is_not_written_to(bench: Bench, error: Exception, kind: str) -> None:
    bench.hypervisor.before["look"] = raising(error)
    assert [result.kind.value for result in bench.write()] == [kind] * 3
    assert bench.hypervisor.writes == []


@pytest.mark.parametrize("error", [Vanished("gone"), hangs(), Rejected("no"), KeyError("?")])
def test_what_cannot_be_looked_at_after_is_not_called_done(bench: Bench, error: Exception) -> None:
    bench.hypervisor.before["in_force"] = lambda: bench.hypervisor.before.update(look=raising(error))
    assert [result.kind for result in bench.write()] == [Kind.NOT_KNOWN] * 3
    assert "define_limits" not in bench.hypervisor.calls


def test_a_guest_that_vanishes_between_two_disks_takes_no_word_back(bench: Bench) -> None:
    bench.hypervisor.before["set_limits"] = lambda: bench.hypervisor.before.update(
        set_limits=lambda: bench.hypervisor.by_uuid.clear()
    )
    results = bench.write()
    assert came_to(results)[0] == ("not-known", Code.VANISHED), "written, and nobody can say on what"
    assert came_to(results)[1:] == [("left-alone", Code.VANISHED)] * 2


def test_what_is_read_back_decides_and_not_that_the_call_was_answered(bench: Bench) -> None:
    bench.hypervisor.before["in_force"] = lambda: setattr(bench.disk("vda"), "in_force", OTHERS)
    results = bench.write()
    assert came_to(results) == [("not-known", Code.READ_BACK_DIFFERS), CHANGED, CHANGED]
    assert results[0].reason.facts == {"in_force": {"total_iops_sec": 7}}
    assert bench.disk("vda").persistent == Limits()


def test_what_cannot_be_read_back_is_not_known_and_says_why(bench: Bench) -> None:
    bench.hypervisor.before["in_force"] = raising(Rejected("no such device"))
    results = bench.write()
    assert came_to(results) == [("not-known", Code.REJECTED), CHANGED, CHANGED]
    assert results[0].reason.facts == {"detail": "no such device"}
    assert bench.disk("vda").persistent == Limits()


def test_a_disk_whose_definition_changed_since_the_decision_is_not_written_to(bench: Bench) -> None:
    bench.disk("vdb").defined = OTHERS
    assert came_to(bench.write()) == [CHANGED, ("waits", Code.CHANGED_MEANWHILE), CHANGED]
    assert bench.disk("vdb").in_force == Limits()


def test_a_guest_with_one_change_is_written_to(bench: Bench) -> None:
    assert came_to(bench.write(targets=("vdb",))) == [CHANGED]
    assert [target for _, target, _ in bench.hypervisor.writes] == ["vdb"]


def test_the_seconds_of_a_write_are_told_however_it_came_out(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([10.0, 13.0, 20.0, 24.0, 30.0, 35.0])
    monkeypatch.setattr(write, "time", SimpleNamespace(monotonic=lambda: next(times)))
    happens = bench.hypervisor.before

    def fails() -> None:
        happens["in_force"] = lambda: setattr(bench.disk("vdc"), "in_force", OTHERS)
        raise Rejected("no such device")

    happens["in_force"] = lambda: happens.update(in_force=fails)
    results = bench.write()
    assert came_to(results) == [CHANGED, ("not-known", Code.REJECTED), ("not-known", Code.READ_BACK_DIFFERS)]
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
    assert came_to(bench.write()) == [("not-known", Code.MIGRATING)] * 3
    assert bench.writer.strays == {}
    assert "define_limits" not in bench.hypervisor.calls


def test_a_stop_is_heard_before_every_write_and_what_was_written_is_looked_at_again(bench: Bench) -> None:
    def pause() -> None:
        bench.stopped = because(Code.PAUSED, file="f", why="")

    bench.hypervisor.before["in_force"] = pause
    assert came_to(bench.write()) == [CHANGED] + [("waits", Code.PAUSED)] * 2
    assert bench.hypervisor.calls == ["look", "set_limits", "in_force", "look"], "nor is the definition written"


def test_a_disk_that_leaves_its_group_is_taken_out_of_it(bench: Bench) -> None:
    bench.write(limits=replace(DEFAULT, group_name="all"))
    bench.see()
    assert came_to(bench.write()) == [CHANGED] * 3
    assert {bench.disk(target).in_force for target in ("vda", "vdb", "vdc")} == {DEFAULT}
