"""A whole pass, on the fake hypervisor and a real ledger in a temporary directory."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from plimsoll_agent.apply import Bounds
from plimsoll_agent.decide import Situation
from plimsoll_agent.disk import Disk
from plimsoll_agent.errors import NotSent, Rejected, Unreachable, Vanished
from plimsoll_agent.hypervisor import Movement
from plimsoll_agent.ledger import Ledger
from plimsoll_agent.limits import Limits
from plimsoll_agent.outcome import Kind, Outcome, PassReport, Scope
from plimsoll_agent.passes import Mode, run_pass
from plimsoll_agent.reason import Code
from plimsoll_agent.rules import Match, Rule, Rules
from plimsoll_agent.sources import SOURCES
from plimsoll_agent.state import State, StateError
from tests.fakes import FakeDisk, FakeGuest, FakeHypervisor, hangs, volume

NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
DEFAULT = Limits(total_iops_sec=250, total_bytes_sec=104857600)
TIGHTER = Limits(total_iops_sec=100, total_bytes_sec=104857600)
UUIDS = [f"0000000{n}-0000-4000-8000-000000000000" for n in range(9)]
EVERYTHING = Scope()


def guest(number: int, *disks: FakeDisk) -> FakeGuest:
    letters = {f"vd{'abcdef'[n]}": disk for n, disk in enumerate(disks or (own_disk(number), a_volume(number)))}
    return FakeGuest(f"instance-0000000{number}", UUIDS[number], letters)


def own_disk(number: int) -> FakeDisk:
    return FakeDisk(image=f"{UUIDS[number]}_disk", pool="vms")


def a_volume(number: int) -> FakeDisk:
    return volume(f"aaaaaaa{number}-001a-4ea4-a2eb-d491b58efc11")


class Node:
    """A node with its state, on which passes run one after the other; the clock moves five minutes each time."""

    def __init__(self, directory: Path, *guests: FakeGuest) -> None:
        self.hypervisor = FakeHypervisor(*guests)
        self.state = State(directory)
        self.rules = Rules(default=DEFAULT)
        self.now = NOON
        self.told: list[Outcome] = []

    def run(
        self, mode: Mode = Mode.ENFORCE, scope: Scope = EVERYTHING, ledger: Ledger | None = None, hung: int = 2
    ) -> PassReport:
        self.now += timedelta(minutes=5)
        self.told.clear()
        return run_pass(
            scope,
            Situation(self.now, self.rules, self.state.load_memory()),
            mode,
            hypervisor=self.hypervisor,
            sources=SOURCES,
            ledger=ledger or Ledger(self.state, "tests"),
            bounds=Bounds(at_once=1, hung_guests=hung),
            tell=self.told.append,
        )

    def recorded(self, *columns: str) -> list[tuple[object, ...]]:
        with sqlite3.connect(self.state.record) as database:
            return database.execute(f"SELECT {', '.join(columns)} FROM change ORDER BY id").fetchall()


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path, guest(1), guest(2))


def kinds(report: PassReport) -> list[str]:
    return [outcome.result.kind.value for outcome in report.outcomes]


def codes(report: PassReport) -> list[Code]:
    return [outcome.result.reason.code for outcome in report.outcomes]


# --- modes


def test_enforce_limits_every_disk_and_the_next_pass_writes_nothing(node: Node) -> None:
    assert kinds(node.run()) == ["changed"] * 4
    assert all(
        disk.in_force == DEFAULT for guest in node.hypervisor.by_uuid.values() for disk in guest.disks.values()
    )
    node.hypervisor.writes.clear()
    assert kinds(node.run()) == ["right"] * 4
    assert node.hypervisor.writes == [], "a blind rewrite would empty the guests' buckets and hand out a free burst"


@pytest.mark.parametrize("mode", [Mode.PLAN, Mode.OBSERVE])
def test_only_enforce_writes_limits(node: Node, mode: Mode) -> None:
    assert kinds(node.run(mode)) == ["planned"] * 4
    assert node.hypervisor.writes == []
    assert not {"set_limits", "define_limits"} & set(node.hypervisor.calls)


def test_a_plan_leaves_no_trace_on_the_node(node: Node) -> None:
    node.run(Mode.PLAN)
    assert list(node.state.directory.iterdir()) == []


def test_observing_remembers_what_it_wants_but_claims_no_limit(node: Node) -> None:
    node.run(Mode.OBSERVE)
    assert [remembered.put for remembered in node.state.load_memory().values()] == [None] * 4


def test_a_node_that_observed_does_what_its_plan_said_once_it_may(node: Node) -> None:
    planned = [outcome.change for outcome in node.run(Mode.OBSERVE).outcomes]
    enforced = [outcome.change for outcome in node.run().outcomes]
    assert [(c.before, c.after, c.direction) for c in planned if c] == [
        (c.before, c.after, c.direction) for c in enforced if c
    ]


def test_each_outcome_is_told_once_as_it_stands(node: Node) -> None:
    report = node.run()
    assert sorted(node.told, key=lambda o: o.disk.key) == sorted(report.outcomes, key=lambda o: o.disk.key)


def test_a_pass_over_some_guests_touches_no_other_and_forgets_nothing(node: Node) -> None:
    node.run(Mode.OBSERVE)
    before = node.state.load_memory()
    node.run(scope=Scope(frozenset({"instance-00000001"})))
    assert {uuid for uuid, _, _ in node.hypervisor.writes} == {UUIDS[1]}
    assert node.state.load_memory().keys() == before.keys()


def test_a_node_whose_guests_cannot_be_listed_has_no_report(node: Node) -> None:
    def down() -> None:
        raise Unreachable("libvirt is down")

    node.hypervisor.before["guests"] = down
    with pytest.raises(Unreachable):
        node.run()
    assert not node.state.memory.exists(), "a node that was not seen must not be taken for an empty one"


# --- limits that others set


def test_a_volume_attached_with_limits_is_left_alone(tmp_path: Path) -> None:
    gold = Limits(total_iops_sec=3000)
    node = Node(tmp_path, guest(1, replace(a_volume(1), in_force=gold, defined=gold)))
    assert codes(node.run()) == [Code.FOREIGN_LIMIT]
    assert node.hypervisor.writes == []


def test_a_rule_that_overrides_takes_over_limits_of_others(tmp_path: Path) -> None:
    gold = Limits(total_iops_sec=3000)
    node = Node(tmp_path, guest(1, replace(a_volume(1), in_force=gold, defined=gold)))
    node.rules = Rules(rules=(Rule(name="ours", match=Match(pool=("volumes",)), limits=DEFAULT, override=True),))
    assert kinds(node.run()) == ["changed"]


def test_a_limit_loosened_behind_libvirts_back_is_put_right(node: Node) -> None:
    node.run()
    disk = node.hypervisor.by_uuid[UUIDS[1]].disks["vdb"]
    disk.in_force = Limits()  # raw QMP: libvirt's definition still has the limit
    report = node.run()
    assert [o.change.cause for o in report.outcomes if o.change] == [Code.BEHIND_LIBVIRT]
    assert disk.in_force == DEFAULT


def test_a_limit_changed_through_libvirt_is_put_right(node: Node) -> None:
    node.run()
    disk = node.hypervisor.by_uuid[UUIDS[1]].disks["vdb"]
    disk.in_force = disk.defined = Limits(total_iops_sec=9999)
    report = node.run()
    assert [o.change.cause for o in report.outcomes if o.change] == [Code.CHANGED_BY_ANOTHER]
    assert disk.in_force == DEFAULT


def test_a_limit_set_behind_libvirts_back_before_the_first_pass_is_nobodys_promise(tmp_path: Path) -> None:
    node = Node(tmp_path, guest(1, replace(a_volume(1), in_force=Limits(total_iops_sec=9))))
    assert kinds(node.run()) == ["changed"]


def test_limits_that_come_back_with_a_restart_from_the_persistent_definition_are_still_ours(node: Node) -> None:
    node.run()
    node.hypervisor.restart(node.hypervisor.by_uuid[UUIDS[1]], defined=DEFAULT)
    node.rules = Rules(default=TIGHTER)
    assert kinds(node.run()) == ["changed"] * 4


def test_a_refused_write_claims_no_limits_of_others(tmp_path: Path) -> None:
    gold = Limits(total_iops_sec=3000)
    node = Node(tmp_path, guest(1, replace(a_volume(1), in_force=gold, defined=gold)))
    node.rules = Rules(rules=(Rule(name="ours", match=Match(pool=("volumes",)), limits=DEFAULT, override=True),))

    def refuse() -> None:
        raise Rejected("QEMU says no")

    node.hypervisor.before["set_limits"] = refuse
    assert kinds(node.run()) == ["failed"]
    node.rules = Rules(default=DEFAULT)
    assert codes(node.run()) == [Code.FOREIGN_LIMIT]


def test_limits_of_others_that_happen_to_be_right_are_not_claimed(tmp_path: Path) -> None:
    node = Node(tmp_path, guest(1, replace(a_volume(1), in_force=DEFAULT, defined=DEFAULT)))
    node.rules = Rules(rules=(Rule(name="ours", match=Match(pool=("volumes",)), limits=DEFAULT, override=True),))
    assert kinds(node.run()) == ["right"]
    node.rules = Rules(default=TIGHTER)
    assert codes(node.run()) == [Code.FOREIGN_LIMIT]


def test_a_guest_that_is_asked_for_and_not_there_is_said(node: Node) -> None:
    with pytest.raises(Vanished, match="nobody"):
        node.run(scope=Scope(frozenset({"instance-00000001", "nobody"})))


def test_limits_that_come_back_with_a_reboot_are_the_attachments_own(node: Node) -> None:
    node.run()
    gold = Limits(total_iops_sec=3000)
    node.hypervisor.restart(node.hypervisor.by_uuid[UUIDS[1]], defined=gold)
    assert codes(node.run(scope=Scope(frozenset({UUIDS[1]})))) == [Code.FOREIGN_LIMIT] * 2


def test_a_reboot_that_loses_the_limits_is_put_right(node: Node) -> None:
    node.run()
    node.hypervisor.restart(node.hypervisor.by_uuid[UUIDS[1]])
    assert kinds(node.run()) == ["changed", "changed", "right", "right"]


def test_a_volume_attached_anew_with_limits_is_not_taken_for_the_old_attachment(node: Node) -> None:
    node.run()
    gold = Limits(total_iops_sec=3000)
    node.hypervisor.attach(
        node.hypervisor.by_uuid[UUIDS[1]], "vdb", replace(a_volume(1), in_force=gold, defined=gold)
    )
    assert codes(node.run(scope=Scope(frozenset({UUIDS[1]}))))[1] is Code.FOREIGN_LIMIT


# --- guests that hang, vanish, refuse or move


def test_a_guest_that_hangs_costs_nobody_else(tmp_path: Path) -> None:
    node = Node(tmp_path, guest(1), guest(2), guest(3))
    node.hypervisor.by_uuid[UUIDS[2]].trouble = hangs()
    report = node.run()
    assert kinds(report) == ["changed", "changed", "not-known", "not-known", "changed", "changed"]
    assert report.failures == 2


def test_a_guest_that_hangs_is_asked_once(node: Node) -> None:
    node.hypervisor.by_uuid[UUIDS[1]].trouble = hangs()
    node.run()
    assert node.hypervisor.calls.count("in_force") == 1 + 2 * 2, "one call to the hung one; read and read back"


def test_after_two_hung_guests_nothing_more_is_written(tmp_path: Path) -> None:
    node = Node(tmp_path, guest(1), guest(2), guest(3))
    for number in (1, 2):
        node.hypervisor.by_uuid[UUIDS[number]].trouble = hangs()
    report = node.run()
    assert codes(report)[4:] == [Code.TOO_MANY_HUNG] * 2
    assert node.hypervisor.writes == []


def test_a_write_that_is_not_answered_is_not_known_and_settled_by_the_next_pass(node: Node) -> None:
    first = node.hypervisor.by_uuid[UUIDS[1]]

    def stall() -> None:
        first.trouble = hangs()

    node.hypervisor.before["set_limits"] = stall
    report = node.run()
    assert kinds(report) == ["not-known", "failed", "changed", "changed"]
    assert [row[0] for row in node.recorded("result")] == ["unanswered", "not-sent", "done", "done"]

    first.trouble = None
    first.disks["vda"].in_force = DEFAULT  # QEMU came round and did it after all
    node.run()
    assert [row[0] for row in node.recorded("result")] == ["took", "not-sent", "done", "done", "done"]


def test_an_unanswered_write_that_did_not_take_is_recorded_so(node: Node) -> None:
    first = node.hypervisor.by_uuid[UUIDS[1]]
    node.hypervisor.before["set_limits"] = lambda: setattr(first, "trouble", hangs())
    node.run()
    first.trouble = None
    node.run()
    assert node.recorded("result")[0] == ("did-not-take",)
    assert first.disks["vda"].in_force == DEFAULT, "and the same pass tried again"


def test_a_guest_that_vanishes_between_list_and_look_is_no_failure(node: Node) -> None:
    node.hypervisor.before["look"] = lambda: node.hypervisor.by_uuid.__delitem__(UUIDS[1])
    report = node.run()
    assert [guest.reason.code for guest in report.overlooked] == [Code.VANISHED]
    assert kinds(report) == ["changed", "changed"]
    assert report.failures == 0


def test_a_guest_that_vanishes_before_the_write_is_left_alone(tmp_path: Path) -> None:
    node = Node(tmp_path, guest(1, own_disk(1)))

    def vanish() -> None:
        del node.hypervisor.by_uuid[UUIDS[1]]

    node.hypervisor.before["in_force"] = lambda: node.hypervisor.before.update(look=vanish)
    report = node.run()
    assert kinds(report) == ["left-alone"]
    assert codes(report) == [Code.VANISHED]
    assert node.recorded("result") == [("not-sent",)]


def test_a_refusal_is_one_sentence_and_the_others_are_done(node: Node) -> None:
    def refuse() -> None:
        raise Rejected("QEMU says no")

    node.hypervisor.before["set_limits"] = refuse
    report = node.run()
    assert kinds(report) == ["failed", "changed", "changed", "changed"]
    assert report.outcomes[0].result.reason.facts["detail"] == "QEMU says no"
    assert node.recorded("result")[0] == ("refused",)


def test_a_call_that_was_never_sent_is_not_called_unknown(node: Node) -> None:
    def crowded() -> None:
        raise NotSent("not asked: 4 calls hang already")

    node.hypervisor.before["set_limits"] = crowded
    assert kinds(node.run())[0] == "failed"
    assert node.recorded("result")[0] == ("not-sent",)


@pytest.mark.parametrize(
    ("movement", "code"), [(Movement.LEAVING, Code.MIGRATING), (Movement.ARRIVING, Code.INCOMING)]
)
def test_a_migrating_guest_is_left_alone_without_a_call_to_its_qemu(
    tmp_path: Path, movement: Movement, code: Code
) -> None:
    node = Node(tmp_path, guest(1))
    node.hypervisor.by_uuid[UUIDS[1]].movement = movement
    report = node.run()
    assert codes(report) == [code, code]
    assert report.failures == 0
    assert node.hypervisor.calls == ["guests", "look"]


def test_a_guest_that_begins_to_migrate_before_the_write_is_left_alone(tmp_path: Path) -> None:
    node = Node(tmp_path, guest(1, own_disk(1)))
    moving = node.hypervisor.by_uuid[UUIDS[1]]
    node.hypervisor.before["in_force"] = lambda: setattr(moving, "movement", Movement.LEAVING)
    assert codes(node.run()) == [Code.MIGRATING]
    assert node.hypervisor.writes == []


def test_an_unreadable_definition_is_one_guests_trouble(node: Node) -> None:
    node.hypervisor.by_uuid[UUIDS[1]].xml = "<domain>"
    report = node.run()
    assert [guest.reason.code for guest in report.overlooked] == [Code.UNREADABLE_XML]
    assert kinds(report) == ["changed", "changed"]
    assert report.failures == 1


# --- identity is not a letter


def test_a_letter_that_became_another_volume_is_not_written_to(tmp_path: Path) -> None:
    node = Node(tmp_path, guest(1, a_volume(1)))
    first = node.hypervisor.by_uuid[UUIDS[1]]
    other = a_volume(2)

    def swap() -> None:
        node.hypervisor.attach(first, "vda", other)

    node.hypervisor.before["in_force"] = lambda: node.hypervisor.before.update(look=swap)
    report = node.run()
    assert codes(report) == [Code.ANOTHER_DISK]
    assert node.hypervisor.writes == []
    assert other.in_force == Limits()


def test_a_volume_attached_anew_between_plan_and_write_is_decided_anew(tmp_path: Path) -> None:
    node = Node(tmp_path, guest(1, a_volume(1)))
    first = node.hypervisor.by_uuid[UUIDS[1]]
    gold = Limits(total_iops_sec=3000)
    again = replace(a_volume(1), in_force=gold, defined=gold)
    node.hypervisor.before["in_force"] = lambda: node.hypervisor.before.update(
        look=lambda: node.hypervisor.attach(first, "vda", again)
    )
    assert codes(node.run()) == [Code.ANOTHER_DISK]
    assert again.in_force == gold


def test_a_letter_that_changes_hands_during_the_write_is_told_and_not_called_done(tmp_path: Path) -> None:
    node = Node(tmp_path, guest(1, a_volume(1)))
    first = node.hypervisor.by_uuid[UUIDS[1]]
    node.hypervisor.before["set_limits"] = lambda: node.hypervisor.attach(first, "vda", a_volume(2))
    report = node.run()
    assert kinds(report) == ["not-known"]
    assert codes(report) == [Code.ANOTHER_DISK]


def test_a_write_that_did_not_take_is_a_failure(tmp_path: Path) -> None:
    node = Node(tmp_path, guest(1, a_volume(1)))
    disk = node.hypervisor.by_uuid[UUIDS[1]].disks["vda"]

    def undo() -> None:
        disk.in_force = Limits(total_iops_sec=1)

    node.hypervisor.before["set_limits"] = lambda: node.hypervisor.before.update(in_force=undo)
    report = node.run()
    assert codes(report) == [Code.READ_BACK_DIFFERS]
    assert report.failures == 1
    assert kinds(node.run()) == ["changed"], "the next pass tries again, and takes nothing for somebody else's"
    assert node.recorded("result") == [("did-not-take",), ("done",)]


# --- record and memory


def test_the_intent_is_on_the_disk_before_the_call(node: Node) -> None:
    seen: list[Sequence[object]] = []
    node.hypervisor.before["set_limits"] = lambda: seen.extend(node.recorded("disk", "after", "result"))
    node.run()
    assert len(seen) == 4
    assert {row[2] for row in seen} == {None}


def test_limits_of_a_pass_that_was_killed_are_still_ours(node: Node) -> None:
    class Killed(BaseException):
        pass

    def kill() -> None:
        raise Killed

    node.hypervisor.before["define_limits"] = kill  # after the first write, before its result
    with pytest.raises(Killed):
        node.run()
    report = node.run()
    assert kinds(report) == ["right", "changed", "changed", "changed"]
    assert [row[0] for row in node.recorded("result")][:4] == ["took", "did-not-take", "did-not-take", "did-not-take"]


class NoRecord(Ledger):
    """A ledger on a full disk."""

    def intend(self, changes: object, now: object) -> list[int]:
        raise StateError("record.sqlite: database or disk is full")


def test_without_a_record_limits_are_tightened(node: Node) -> None:
    report = node.run(ledger=NoRecord(node.state, "tests"))
    assert kinds(report) == ["changed"] * 4


def test_without_a_record_nothing_is_loosened(node: Node) -> None:
    node.rules = Rules(default=TIGHTER)
    node.run()
    node.rules = Rules(default=DEFAULT)
    report = node.run(ledger=NoRecord(node.state, "tests"))
    assert codes(report) == [Code.NO_RECORD] * 4
    assert report.failures == 4
    assert node.hypervisor.by_uuid[UUIDS[1]].disks["vda"].in_force == TIGHTER


def test_a_memory_that_cannot_be_written_is_noted(node: Node) -> None:
    class NoMemory(Ledger):
        def remember(self, memory: object) -> None:
            raise StateError("memory.json: cannot be written: Read-only file system")

    report = node.run(ledger=NoMemory(node.state, "tests"))
    assert kinds(report) == ["changed"] * 4
    assert [note.code for note in report.notes] == [Code.NOT_REMEMBERED]
    assert [row[0] for row in node.recorded("result")] == ["done"] * 4, "the record is kept all the same"


def test_a_record_that_is_garbage_is_noted_and_limits_are_tightened(node: Node) -> None:
    node.state.record.write_bytes(b"this is no database" * 100)
    report = node.run()
    assert kinds(report) == ["changed"] * 4
    assert {note.code for note in report.notes} == {Code.NOT_SETTLED, Code.NO_RECORD}


def test_results_that_cannot_be_recorded_are_noted(node: Node) -> None:
    class NoResults(Ledger):
        def conclude(self, conclusions: object, now: object) -> None:
            raise StateError("record.sqlite: database or disk is full")

    report = node.run(ledger=NoResults(node.state, "tests"))
    assert [note.code for note in report.notes] == [Code.NO_RESULTS]
    node.run()
    assert [row[0] for row in node.recorded("result")] == ["took"] * 4


# --- a pass that is interrupted


def test_nothing_is_written_after_a_pass_was_interrupted(tmp_path: Path) -> None:
    told = threading.Event()

    class WaitsForTheFirstWord(FakeHypervisor):
        def set_limits(self, asked: Disk, limits: Limits, *, alone: bool = False) -> None:
            if len(self.writes) >= 2:
                told.wait(5)
            super().set_limits(asked, limits, alone=alone)

    def interrupted(outcome: Outcome) -> None:
        told.set()
        raise KeyboardInterrupt

    node = Node(tmp_path)
    node.hypervisor = WaitsForTheFirstWord(*(guest(number) for number in range(9)))

    with pytest.raises(KeyboardInterrupt):
        run_pass(
            EVERYTHING,
            Situation(NOON, node.rules),
            Mode.ENFORCE,
            hypervisor=node.hypervisor,
            sources=SOURCES,
            ledger=Ledger(node.state, "tests"),
            bounds=Bounds(at_once=4),
            tell=interrupted,
        )
    written = len(node.hypervisor.writes)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("hand-")]
    assert [row[0] for row in node.recorded("result")].count("done") == written
    assert len([old for old in node.state.load_memory().values() if old.put]) == written
    assert len(node.hypervisor.writes) == written < 18


def test_a_pass_that_was_killed_before_its_write_claims_no_limits_of_others(tmp_path: Path) -> None:
    gold = Limits(total_iops_sec=3000)
    node = Node(tmp_path, guest(1, replace(a_volume(1), in_force=gold, defined=gold)))
    node.rules = Rules(rules=(Rule(name="ours", match=Match(pool=("volumes",)), limits=DEFAULT, override=True),))

    node.hypervisor.before["set_limits"] = lambda: (_ for _ in ()).throw(SystemExit)
    with pytest.raises(SystemExit):
        node.run()
    node.rules = Rules(default=DEFAULT)
    assert codes(node.run()) == [Code.FOREIGN_LIMIT]


@pytest.mark.parametrize("error", [NotSent("crowded"), Rejected("busy"), Vanished("gone"), KeyError("a bug")])
def test_a_write_that_was_made_is_ours_whatever_became_of_reading_it_back(tmp_path: Path, error: Exception) -> None:
    node = Node(tmp_path, guest(1, a_volume(1)))

    def fail() -> None:
        raise error

    node.hypervisor.before["set_limits"] = lambda: node.hypervisor.before.update(in_force=fail)
    assert kinds(node.run()) == ["not-known"]
    node.rules = Rules(default=TIGHTER)
    assert kinds(node.run()) == ["changed"]
    assert node.recorded("result") == [("took",), ("done",)]


def test_a_definition_that_became_unreadable_costs_its_own_disk(node: Node) -> None:
    first = node.hypervisor.by_uuid[UUIDS[1]]
    looks = 0

    def garble() -> None:
        nonlocal looks
        looks += 1
        if looks == 3:  # after each guest was looked at once
            first.xml = "<domain>"
        else:
            node.hypervisor.before["look"] = garble

    node.hypervisor.before["look"] = garble
    assert kinds(node.run()) == ["failed", "failed", "changed", "changed"]


@pytest.mark.parametrize("call", ["look", "in_force"])
def test_a_bug_that_one_guest_sets_off_costs_that_guest_only(node: Node, call: str) -> None:
    node.hypervisor.before[call] = lambda: {}["nobody foresaw this"]
    report = node.run()
    assert len(report.overlooked) == 1
    assert kinds(report) == ["changed", "changed"]
    assert report.failures == 1


def test_a_disk_that_took_anothers_limit_is_put_right_by_the_next_pass(tmp_path: Path) -> None:
    node = Node(tmp_path, guest(1, a_volume(1)))
    node.rules = Rules(
        rules=(Rule(name="small", match=Match(volume=("aaaaaaa1-001a-4ea4-a2eb-d491b58efc11",)), limits=TIGHTER),),
        default=DEFAULT,
    )
    other = a_volume(2)
    node.hypervisor.before["set_limits"] = lambda: node.hypervisor.attach(
        node.hypervisor.by_uuid[UUIDS[1]], "vda", other
    )
    assert codes(node.run()) == [Code.ANOTHER_DISK]
    assert other.in_force == TIGHTER
    assert kinds(node.run()) == ["changed"]
    assert other.in_force == DEFAULT


def test_a_guest_that_was_off_for_a_while_finds_its_limits_ours(node: Node) -> None:
    node.run()
    away = node.hypervisor.by_uuid.pop(UUIDS[1])
    node.run()
    node.hypervisor.by_uuid[UUIDS[1]] = away
    node.hypervisor.restart(away, defined=DEFAULT)
    node.rules = Rules(default=TIGHTER)
    assert kinds(node.run()) == ["changed"] * 4


def test_a_guest_that_stays_away_is_forgotten_in_the_end(node: Node) -> None:
    node.run()
    del node.hypervisor.by_uuid[UUIDS[1]]
    node.now += timedelta(days=29)
    node.run()
    assert len(node.state.load_memory()) == 4
    node.now += timedelta(days=2)
    node.run()
    assert len(node.state.load_memory()) == 2


def test_a_node_that_restarted_takes_no_attachment_for_an_earlier_one(node: Node) -> None:
    node.run()
    gold = Limits(total_iops_sec=3000)
    for disk in node.hypervisor.by_uuid[UUIDS[1]].disks.values():
        disk.in_force = disk.defined = gold  # the same ids as before: libvirt counts from 1 after a reboot
    node.state = State(node.state.directory, boot="the next one")
    assert codes(node.run())[:2] == [Code.FOREIGN_LIMIT] * 2


def test_a_rule_that_says_unlimited_lifts_the_limit(node: Node) -> None:
    node.run()
    node.rules = Rules(default=Limits())
    assert kinds(node.run()) == ["changed"] * 4
    assert node.hypervisor.by_uuid[UUIDS[1]].disks["vda"].in_force == Limits()


def test_a_default_that_is_removed_lifts_nothing(node: Node) -> None:
    node.run()
    node.rules = Rules()
    assert codes(node.run()) == [Code.NO_LIMIT] * 4
    assert node.hypervisor.by_uuid[UUIDS[1]].disks["vda"].in_force == DEFAULT


def test_a_default_that_comes_back_finds_its_old_limits_ours(node: Node) -> None:
    node.run()
    node.rules = Rules()
    node.run()
    node.rules = Rules(default=TIGHTER)
    assert kinds(node.run()) == ["changed"] * 4


def test_the_persistent_definition_is_a_best_effort_apart(node: Node) -> None:
    def gone() -> None:
        raise Vanished("no such disk in the persistent definition")

    node.hypervisor.before["define_limits"] = gone
    assert kinds(node.run()) == ["changed"] * 4
    assert node.hypervisor.by_uuid[UUIDS[2]].disks["vda"].persistent == DEFAULT


def test_a_disk_that_is_gone_is_forgotten(node: Node) -> None:
    node.run()
    del node.hypervisor.by_uuid[UUIDS[1]].disks["vdb"]
    node.run()
    assert len(node.state.load_memory()) == 3


def test_since_when_something_is_wanted_survives_passes_that_want_the_same(node: Node) -> None:
    node.run()
    first = node.now
    node.run()
    assert {remembered.since for remembered in node.state.load_memory().values()} == {first}
    node.rules = Rules(default=TIGHTER)
    node.run()
    assert {remembered.since for remembered in node.state.load_memory().values()} == {node.now}


def test_counts_are_of_disks(node: Node) -> None:
    report = node.run()
    assert (report.count(Kind.CHANGED), report.count(Kind.RIGHT)) == (4, 0)
