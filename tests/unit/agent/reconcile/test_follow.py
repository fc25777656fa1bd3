"""Guests that migrate between nodes with plimsoll on each: what it knows of their disks, and holds, go with them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from plimsoll_agent.errors import Rejected, Unreachable
from plimsoll_agent.model.entries import RecordedEvent
from plimsoll_agent.model.holds import Hold
from plimsoll_agent.model.hypervisor import Movement
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.marks import Mark, Marks
from plimsoll_agent.model.reason import Code, Reason, because
from plimsoll_agent.policy.adoption import LEFT_FOR_GOOD
from plimsoll_agent.reconcile.follow import write_marks
from plimsoll_agent.reconcile.limit_writer import Bounds
from plimsoll_agent.reconcile.outcome import Mode, Scope
from plimsoll_agent.rules.model import Match, Rule, Rules
from plimsoll_agent.store import record_query
from plimsoll_agent.store.node_store import Move, NodeStore
from plimsoll_agent.store.record import Record
from plimsoll_agent.store.record_query import Selection
from plimsoll_agent.store.state import State, StateError
from plimsoll_agent.util.frozen import replace
from tests.fakes import FakeGuest, FakeHypervisor, hangs, raising
from tests.unit.node import (
    DEFAULT,
    TIGHTER,
    Node,
    a_volume,
    codes,
    guest,
    kinds,
    notes,
    own_disk,
    set_by_hand,
    uuid_of,
)
from tests.unit.values import NOON

NEW = Limits(total_iops_sec=240, total_bytes_sec=104857600)
SPEC, HELD, LOW = Limits(total_iops_sec=2000), Limits(total_iops_sec=5000), Limits(total_iops_sec=100)
OVERRIDES = Rules(rules=(Rule(name="all", match=Match(), limits=DEFAULT, override=True),))


class Nodes:
    """Three compute nodes whose clocks agree, with these guests on the first."""

    def __init__(self, directory: Path, *guests: FakeGuest, rules: Rules | None = None) -> None:
        self.all = [Node(directory / "a", *guests, rules=rules), Node(directory / "b"), Node(directory / "c")]
        for name, node in zip("abc", self.all, strict=True):
            node.rules = self.all[0].rules
            node.state = State(directory / name, boot=f"boot of {name}")
            node.state.prepare()

    def migrate(self, guests: Iterable[FakeGuest], source: Node, to: Node, fresh: Limits | None = None) -> None:
        """``fresh`` is what Nova gives volumes of the QoS spec that they have."""
        for each in list(guests):
            of_nova = {t: fresh for t, d in each.disks.items() if fresh is not None and d.volume_id is not None}
            source.hypervisor.migrate(each, to.hypervisor, of_nova)

    def passes(self, rules: Rules | None = None) -> None:
        """One on each node, at the same time."""
        for node in self.all:
            node.rules = rules or node.rules
            node.run()

    def later(self, span: timedelta) -> None:
        for node in self.all:
            node.now += span


class CannotNote(NodeStore):
    """A record that takes no more events."""

    def note_moves(self, moves: Sequence[tuple[Hold, Move]], now: datetime) -> None:
        if moves:
            raise StateError("record.sqlite: database or disk is full")


def there(node: Node) -> list[FakeGuest]:
    return list(node.hypervisor.by_uuid.values())


def actual(node: Node) -> set[Limits]:
    return {disk.actual for disk in node.disks()}


def held(node: Node) -> list[str]:
    return [hold.disk.target for hold in node.holds.values()]


def events(node: Node) -> list[tuple[str, object]]:
    """What the record tells of holds, and what became of their guests."""
    entries = record_query.entries(Record(node.state.record), Selection(reason="hold"))
    told = [entry for entry in entries if isinstance(entry, RecordedEvent)]
    return sorted((event.what.value, event.reason.facts.get("moved")) for event in told if event.reason)


def nodes_with_a_hold(directory: Path, limits: Limits | None = LOW, rules: Rules | None = None) -> Nodes:
    """The hold is on vda of guest 1, on the first node, for two hours; a pass has met it."""
    nodes = Nodes(directory, guest(1), rules=rules)
    nodes.passes()
    nodes.all[0].hold(1, "vda", limits)
    nodes.passes()
    return nodes


# --- the wave


def test_a_changed_default_reaches_40_guests_that_were_migrated_over_three_nodes_and_back(tmp_path: Path) -> None:
    """Limited by rules only: no other source tells the next node whose limits these are."""
    nodes = Nodes(tmp_path, *(guest(number) for number in range(40)))
    a, b, c = nodes.all
    nodes.passes()
    for number in range(4):
        a.hold(number, "vda", LOW)
    nodes.passes()
    for number, (source, to) in enumerate([(a, b), (b, c), (c, a)]):
        nodes.migrate(there(source), source, to)
        nodes.passes()
        assert (len(there(to)), len(held(to))) == (40, 4)
        before = len(to.hypervisor.calls)
        nodes.passes()
        assert "set_marks" not in to.hypervisor.calls[before:], "nothing has changed"
        new = replace(DEFAULT, total_iops_sec=240 - number)
        nodes.passes(Rules(default=new))
        assert actual(to) == {new, LOW}
    nodes.later(timedelta(hours=2))
    nodes.passes()
    assert (actual(a), held(a)) == ({new}, [])


# --- holds


@pytest.mark.parametrize("fresh", [None, SPEC])
def test_a_hold_goes_with_its_guest_and_ends_there_on_time(tmp_path: Path, fresh: Limits | None) -> None:
    """``fresh``: Nova gives the volume the limits of its spec, and the hold lowers them again."""
    nodes = Nodes(tmp_path, guest(1, a_volume(1, fresh)), rules=OVERRIDES)
    a, b, _ = nodes.all
    nodes.passes()
    a.hold(1, "vda", LOW)
    nodes.passes()
    nodes.migrate(there(a), a, b, fresh)
    nodes.passes()
    assert (actual(b), held(b)) == ({LOW}, ["vda"])
    (hold,) = b.holds.values()
    assert (hold.by, hold.why, hold.until - hold.since) == ("ann", "a test", timedelta(hours=2))
    nodes.later(timedelta(hours=2))
    nodes.passes()
    assert (actual(b), held(b)) == ({DEFAULT}, [])
    assert events(b) == [("hold-added", "came"), ("hold-ended", None)]


def test_after_a_hold_the_disk_gets_what_it_had_before_it_on_the_other_node(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, guest(1, a_volume(1, SPEC)), rules=Rules())
    a, b, _ = nodes.all
    nodes.passes()
    a.hold(1, "vda", LOW)
    nodes.passes()
    nodes.migrate(there(a), a, b)
    nodes.later(timedelta(hours=2))
    nodes.passes()
    assert (actual(b), held(b)) == ({SPEC}, [])


def test_a_hold_that_would_raise_what_nova_gave_the_disk_does_not_follow_and_the_pass_tells(tmp_path: Path) -> None:
    nodes = nodes_with_a_hold(tmp_path, HELD, OVERRIDES)
    a, b, _ = nodes.all
    nodes.migrate(there(a), a, b)
    set_by_hand(b.disk(1), SPEC)
    report = b.run()
    assert notes(report) == [Code.HOLD_NOT_ADOPTED]
    assert (actual(b), held(b)) == ({DEFAULT}, [])
    assert notes(b.run()) == []


def test_a_hold_is_void_on_the_old_node_and_the_record_tells(tmp_path: Path) -> None:
    nodes = nodes_with_a_hold(tmp_path)
    a, b, _ = nodes.all
    nodes.migrate(there(a), a, b)
    nodes.passes()
    assert (held(a), held(b)) == (["vda"], ["vda"]), "a definition may come back"
    nodes.later(LEFT_FOR_GOOD)
    nodes.passes()
    assert (held(a), held(b)) == ([], ["vda"])
    assert events(a) == [("hold-ended", "left")]


def test_a_guest_that_is_off_keeps_its_hold(tmp_path: Path) -> None:
    nodes = nodes_with_a_hold(tmp_path)
    a = nodes.all[0]
    start = a.hypervisor.suspend(*there(a))
    nodes.later(timedelta(hours=1))
    nodes.passes()
    nodes.passes()
    assert held(a) == ["vda"]
    start()
    nodes.passes()
    assert a.disk(1).actual == LOW


@pytest.mark.parametrize("mode", [Mode.PLAN, Mode.ENFORCE])
def test_no_hold_is_void_by_a_look_or_by_a_pass_over_other_guests_or_without_a_record(
    tmp_path: Path, mode: Mode, caplog: pytest.LogCaptureFixture
) -> None:
    nodes = Nodes(tmp_path, guest(1), guest(2))
    a, b, _ = nodes.all
    nodes.passes()
    a.hold(1, "vda", LOW)
    nodes.passes()
    nodes.migrate([a.hypervisor.by_uuid[guest(1).uuid]], a, b)
    a.run()
    nodes.later(timedelta(hours=1))
    scope = Scope() if mode is Mode.PLAN else Scope(frozenset({guest(2).uuid}))
    a.run(mode, scope)
    assert held(a) == ["vda"]
    with caplog.at_level("INFO", logger="plimsoll_agent.reconcile.follow"):
        a.run(node_store=CannotNote(a.state, "tests"))
    assert held(a) == ["vda"]
    assert caplog.messages == [
        "holds of guests that may have left are kept: record.sqlite: database or disk is full"
    ], "and the log says why"
    a.run()
    assert held(a) == []


def test_a_hold_that_came_along_counts_where_it_cannot_be_recorded_and_the_report_says_so(tmp_path: Path) -> None:
    nodes = nodes_with_a_hold(tmp_path)
    a, b, _ = nodes.all
    nodes.migrate(there(a), a, b)
    report = b.run(node_store=CannotNote(b.state, "tests"))
    assert held(b) == ["vda"]
    assert because(Code.NO_RECORD, detail="record.sqlite: database or disk is full") in report.notes


def test_a_hypervisor_that_cannot_tell_leaves_holds_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = nodes_with_a_hold(tmp_path)
    a, b, _ = nodes.all
    nodes.migrate(there(a), a, b)
    a.run()
    nodes.later(timedelta(hours=1))
    monkeypatch.setattr(a.hypervisor, "knows", raising(hangs()))
    assert kinds(a.run()) == []
    assert held(a) == ["vda"]


# --- and back


def test_a_hold_that_was_ended_on_the_other_node_is_none_when_the_guest_comes_back(tmp_path: Path) -> None:
    """At once, so that the first node never missed it."""
    nodes = nodes_with_a_hold(tmp_path)
    a, b, _ = nodes.all
    nodes.migrate(there(a), a, b)
    b.run()
    b.state.save_memory(replace(b.state.load_memory(), holds={}))  # type: ignore[type-var]  # there is one
    b.run()
    assert actual(b) == {DEFAULT}
    nodes.migrate(there(b), b, a)
    a.run()
    assert (actual(a), held(a)) == ({DEFAULT}, [])
    assert events(a) == [("hold-ended", "replaced")]


def test_limits_that_were_changed_on_the_other_node_are_plimsolls_when_the_guest_comes_back(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, guest(1))
    a, b, _ = nodes.all
    nodes.passes()
    nodes.migrate(there(a), a, b)
    b.rules = Rules(default=TIGHTER)
    b.run()
    assert actual(b) == {TIGHTER}
    nodes.migrate(there(b), b, a)
    a.rules = Rules(default=NEW)
    a.run()
    assert actual(a) == {NEW}


def test_a_hold_that_ended_while_its_guest_was_suspended_does_not_come_back_with_it(tmp_path: Path) -> None:
    nodes = nodes_with_a_hold(tmp_path)
    a = nodes.all[0]
    resume = a.hypervisor.suspend(*there(a))
    a.run()
    a.state.save_memory(replace(a.state.load_memory(), holds={}))  # type: ignore[type-var]  # there is one
    resume()
    a.run()
    assert (actual(a), held(a)) == ({DEFAULT}, [])


def test_a_node_that_lost_its_memory_finds_limits_and_holds_in_the_guests(tmp_path: Path) -> None:
    nodes = nodes_with_a_hold(tmp_path)
    a = nodes.all[0]
    a.state.memory.unlink()
    a.state.record.unlink()
    a.rules = Rules(default=NEW)
    a.run()
    assert (actual(a), held(a)) == ({NEW, LOW}, ["vda"])


# --- a pass that was killed, or could not save what it knew


class FullDisk(CannotNote):
    """Neither the record nor the memory can be written."""

    def intend(self, changes: object, now: object, revision: object, rules: object = "") -> list[int]:
        raise StateError("record.sqlite: database or disk is full")

    def remember(self, memory: object, now: object) -> None:
        raise StateError("memory.json: No space left on device")


class Killed(BaseException):
    pass


class DiesBeforeTheMemory(NodeStore):
    def remember(self, memory: object, now: object) -> None:
        raise Killed


def killed(node: Node, node_store: NodeStore | None = None) -> None:
    with pytest.raises(Killed):
        node.run(node_store=node_store)


def end_hold(node: Node) -> None:
    """As ``disk hold end`` does."""
    memory = node.state.load_memory()
    assert memory is not None
    node.state.save_memory(replace(memory, holds={}))


@pytest.mark.parametrize("first", [Rules(), Rules(default=DEFAULT)])
def test_a_limit_that_was_lowered_on_a_full_disk_is_plimsolls_all_the_same(tmp_path: Path, first: Rules) -> None:
    """No record has it and no memory: the guest tells."""
    node = Node(tmp_path, guest(1, own_disk(1)), rules=first)
    node.run()
    node.rules = Rules(default=TIGHTER)
    assert kinds(node.run(node_store=FullDisk(node.state, "tests"))) == ["changed"]
    assert kinds(node.run()) == ["in-sync"]
    (remembered,) = node.memory.values()
    assert remembered.applied == TIGHTER
    node.rules = Rules(default=NEW)
    node.run()
    assert actual(node) == {NEW}


def test_a_hold_that_was_ended_does_not_come_back_from_a_mark_of_a_full_disk(tmp_path: Path) -> None:
    node = Node(tmp_path, guest(1))
    node.hold(1, "vda", LOW)
    assert "changed" in kinds(node.run(node_store=FullDisk(node.state, "tests")))
    end_hold(node)
    node.run()
    assert (actual(node), held(node)) == ({DEFAULT}, [])


def test_a_hold_goes_along_from_a_node_whose_disk_is_full(tmp_path: Path) -> None:
    nodes = nodes_with_a_hold(tmp_path)
    a, b, _ = nodes.all
    a.rules = Rules(default=TIGHTER)
    a.run(node_store=FullDisk(a.state, "tests"))
    nodes.migrate(there(a), a, b)
    b.run()
    assert (b.disk(1).actual, held(b)) == (LOW, ["vda"])


@pytest.mark.parametrize("ended", [False, True])
def test_a_pass_that_is_killed_before_it_remembers_leaves_no_hold_in_the_guest(tmp_path: Path, ended: bool) -> None:
    """The hold writes nothing, so the record does not tell of the disk either."""
    node = Node(tmp_path, guest(1, a_volume(1, LOW)))
    node.hold(1, "vda", LOW)
    killed(node, DiesBeforeTheMemory(node.state, "tests"))
    if ended:
        end_hold(node)
    node.run()
    assert held(node) == ([] if ended else ["vda"])


@pytest.mark.parametrize("after", [False, True])
def test_a_hold_that_was_ended_does_not_come_back_after_a_pass_that_was_killed_at_the_mark(
    tmp_path: Path, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = nodes_with_a_hold(tmp_path)
    a, b, _ = nodes.all
    end_hold(a)
    write = a.hypervisor.set_marks

    def dies(uuid: str, marks: Marks) -> None:
        if after:
            write(uuid, marks)
        raise Killed

    monkeypatch.setattr(a.hypervisor, "set_marks", dies)
    killed(a)
    monkeypatch.undo()
    a.run()
    assert (actual(a), held(a)) == ({DEFAULT}, [])
    nodes.migrate(there(a), a, b)
    b.run()
    assert held(b) == []


# --- what is not trusted, and what is left alone


def test_limits_that_are_not_actual_as_the_mark_says_are_those_of_others(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, guest(1, own_disk(1)))
    a, b, _ = nodes.all
    nodes.passes()
    nodes.migrate(there(a), a, b)
    set_by_hand(b.disk(1), SPEC)
    assert codes(b.run()) == [Code.FOREIGN_LIMIT]
    assert actual(b) == {SPEC}


def test_an_unreadable_mark_is_reported_and_replaced(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, guest(1))
    a = nodes.all[0]
    a.run()
    (one,) = there(a)
    good, one.marks = one.marks, '<marks version="7"/>'
    report = a.run()
    assert notes(report) == [Code.MARK_UNREADABLE]
    assert str(report.notes[0].facts["detail"]).startswith("instance-00000001: version '7'")
    assert one.marks == good
    assert notes(a.run()) == []


@pytest.mark.parametrize("mode", [Mode.PLAN, Mode.OBSERVE])
def test_no_mark_is_written_by_a_pass_that_does_not_enforce(tmp_path: Path, mode: Mode) -> None:
    nodes = Nodes(tmp_path, guest(1))
    a = nodes.all[0]
    a.run()
    (one,) = there(a)
    one.marks = None
    a.run(mode)
    assert one.marks is None


def test_nothing_is_marked_while_the_node_is_paused(tmp_path: Path) -> None:
    a = Nodes(tmp_path, guest(1)).all[0]
    a.run()
    (one,) = there(a)
    one.marks = None
    a.paused = lambda: because(Code.PAUSED, file="/etc/plimsoll/paused", why="")
    a.run()
    assert one.marks is None


@pytest.mark.parametrize("mode", [Mode.PLAN, Mode.OBSERVE])
def test_a_look_tells_of_the_guest_what_the_node_will_do(tmp_path: Path, mode: Mode) -> None:
    nodes = nodes_with_a_hold(tmp_path)
    a, b, _ = nodes.all
    nodes.migrate(there(a), a, b)
    assert Code.HOLD in codes(b.run(mode))
    assert held(b) == ([] if mode is Mode.PLAN else ["vda"])
    assert len(events(b)) == len(held(b)), "a plan records nothing"


def test_a_guest_on_the_move_is_neither_marked_nor_adopted(tmp_path: Path) -> None:
    nodes = nodes_with_a_hold(tmp_path)
    a, b, _ = nodes.all
    nodes.migrate(there(a), a, b)
    (one,) = there(b)
    one.movement = Movement.ARRIVING
    b.run()
    assert (held(b), "set_marks" in b.hypervisor.calls) == ([], False)
    one.movement = Movement.STAYS
    b.run()
    assert held(b) == ["vda"]


def test_a_guest_that_is_met_on_its_way_back_still_brings_along_the_hold_of_the_other_node(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path, guest(1, a_volume(1)))
    a, b, _ = nodes.all
    a.run()
    nodes.migrate(there(a), a, b)
    nodes.passes()
    b.hold(1, "vda", HELD)
    nodes.passes()
    nodes.migrate(there(b), b, a)
    (one,) = there(a)
    one.movement = Movement.ARRIVING
    nodes.passes()
    assert held(a) == []
    one.movement = Movement.STAYS
    a.run()
    assert held(a) == ["vda"]
    assert actual(a) == {HELD}


@pytest.mark.parametrize("error", [hangs(), Unreachable("libvirt is gone")])
def test_a_guest_that_takes_no_mark_costs_nothing_but_that(
    tmp_path: Path, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = Nodes(tmp_path, *(guest(number) for number in range(6))).all[0]

    def fails(*_words: object) -> None:
        tried.append(1)
        raise error

    tried: list[int] = []
    monkeypatch.setattr(a.hypervisor, "set_marks", fails)
    report = a.run()
    assert set(kinds(report)) == {"changed"}
    assert len(tried) == 6, "each is asked once"
    monkeypatch.undo()
    a.run()
    assert all(each.marks for each in there(a)), "the next pass tries again"


def test_a_mark_that_was_refused_is_not_remembered_and_the_end_of_a_hold_is_recorded_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = nodes_with_a_hold(tmp_path)
    a = nodes.all[0]
    nodes.later(timedelta(hours=2))
    before = {key: remembered.mark for key, remembered in a.memory.items()}
    monkeypatch.setattr(a.hypervisor, "set_marks", raising(Unreachable("libvirt is gone")))
    a.run()
    assert events(a) == [("hold-ended", None)]
    assert {key: remembered.mark for key, remembered in a.memory.items()} == before


def test_only_the_marks_that_guests_took_are_told_as_written(caplog: pytest.LogCaptureFixture) -> None:
    hypervisor = FakeHypervisor(*(guest(number) for number in range(3)))
    marks = {
        uuid_of(number): Marks({"volume": Mark(desired=DEFAULT, since=NOON, applied=DEFAULT)}) for number in range(3)
    }
    one_at_a_time = Bounds(at_once=1)

    def written(error: Exception | None = None, stop: Reason | None = None) -> list[str]:
        def happens() -> None:
            if error is not None:
                raise error

        hypervisor.before["set_marks"] = happens
        hypervisor.calls.clear()
        took = write_marks(hypervisor, marks, one_at_a_time, pause=lambda: stop)
        assert took == {uuid: marks[uuid] for uuid in took}
        return list(took)

    assert written() == [uuid_of(0), uuid_of(1), uuid_of(2)]
    with caplog.at_level("INFO"):
        assert written(Rejected("no")) == [uuid_of(1), uuid_of(2)]
    assert caplog.messages == [f"guest {uuid_of(0)} keeps its old mark: no"]
    assert written(hangs()) == [uuid_of(1), uuid_of(2)]
    assert written(stop=because(Code.PAUSED, file="f", why="")) == []
    assert hypervisor.calls == []


# --- the brake


@pytest.mark.parametrize("limits", [DEFAULT, replace(DEFAULT, total_iops_sec=20)])
def test_a_wave_meets_the_brake_only_where_the_next_node_desires_something_else(
    tmp_path: Path, limits: Limits
) -> None:
    """Nova gave all of them the limits of their specs again: to lower these again is nothing new."""
    nodes = Nodes(tmp_path, *(guest(number, a_volume(number, SPEC)) for number in range(8)), rules=OVERRIDES)
    a, b, _ = nodes.all
    a.run(yes=True)
    nodes.migrate(there(a), a, b, SPEC)
    b.rules = Rules(rules=(replace(OVERRIDES.rules[0], limits=limits),))
    report = b.run()
    assert (report.braked is None) == (limits == DEFAULT)
    assert actual(b) == {DEFAULT}, "what was desired before counts until a person approves"
