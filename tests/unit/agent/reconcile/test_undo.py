"""Limits as they were: which disks are put back, which are left alone and why, and what is known afterwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from plimsoll_agent.errors import NoSuchGuest
from plimsoll_agent.model.clusters import Clusters
from plimsoll_agent.model.direction import Direction
from plimsoll_agent.model.entries import Ending, Happening, RecordedChange
from plimsoll_agent.model.hypervisor import Movement
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, Reason, because
from plimsoll_agent.policy.decide import Situation
from plimsoll_agent.policy.memory import releasing
from plimsoll_agent.policy.sources import SOURCES
from plimsoll_agent.reconcile.limit_writer import Bounds
from plimsoll_agent.reconcile.outcome import Kind, Mode, Scope
from plimsoll_agent.reconcile.undo import Agreed, Undone, UndoReport, Wish, run_undo
from plimsoll_agent.rules import loader
from plimsoll_agent.rules.model import Rules
from plimsoll_agent.store import record_query
from plimsoll_agent.store.node_store import NodeStore, hold_event
from plimsoll_agent.store.record import CorruptRecord, Record
from plimsoll_agent.store.record_query import Selection
from plimsoll_agent.store.state import StateError
from plimsoll_agent.util.frozen import replace
from tests.fakes import FakeGuest, hangs, raising
from tests.unit import told
from tests.unit.node import FSID, Node, a_volume, codes, guest, set_by_hand, uuid_of
from tests.unit.values import NOON, examples_of

UNLIMITED = Limits()
OLD, NEW, NEWER = Limits(total_iops_sec=250), Limits(total_iops_sec=900), Limits(total_iops_sec=400)
OTHERS = Limits(total_iops_sec=97)
LONG_AGO = NOON - timedelta(days=30)
TAKEN = "rules: [{name: all, match: {pool: '*'}, override: true, limits: {total_iops_sec: 900}}]\n"
"""Limits of others are taken over, as ``NEW``."""


def rules(limits: Limits | None, more: str = "") -> Rules:
    default = "" if limits is None else f"default: {{limits: {limits.in_effect() or 'unlimited'}}}\n"
    return loader.parse(default + more or "{}", "rules.yaml")


# --- on a node


class Person:
    """Undoes things on a node."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.told: list[Undone] = []

    def undo(
        self,
        since: datetime,
        *guests: str,
        agreed: Agreed | None = None,
        read_only: bool = False,
        heedless: bool = False,
        booted: datetime = LONG_AGO,
        node_store: NodeStore | None = None,
        paused: Callable[[], Reason | None] | None = None,
    ) -> UndoReport:
        node = self.node
        node.now += timedelta(minutes=1)
        self.told = []
        node_store = node_store or NodeStore(node.state, "ann")
        memory = node_store.recall(node.now, read_only=read_only)
        caution = node.caution(node_store)
        return run_undo(
            Wish(since, frozenset(guests), agreed),
            Situation(
                now=node.now,
                rules=node.rules,
                memory=memory.disks,
                holds=memory.holds,
                brake=memory.brake,
                acknowledged=memory.acknowledged,
                following=node.following,
            ),
            hypervisor=node.hypervisor,
            sources=SOURCES,
            record=Record(node.state.record),
            node_store=node_store,
            notes=node_store.notes,
            bounds=Bounds(at_once=1),
            caution=replace(
                caution,
                gate=replace(caution.gate, blocking=()) if heedless else caution.gate,
                paused=paused or node.paused,
            ),
            boot=booted,
            read_only=read_only,
            tell=self.told.append,
        )


@dataclass
class Scene:
    """A node with a guest of two disks, limited at ``OLD`` first and at ``NEW`` since ``moment``."""

    node: Node
    person: Person
    moment: datetime

    @property
    def guest(self) -> FakeGuest:
        return self.node.hypervisor.by_uuid[uuid_of(1)]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return a_scene(tmp_path, guest(1))


def a_scene(directory: Path, *guests: FakeGuest, then: Limits = NEW, more: str = "") -> Scene:
    node = Node(directory, *guests, rules=rules(OLD, more))
    node.run(yes=True)
    moment = node.now + timedelta(seconds=1)
    node.rules = rules(then, more)
    node.run(yes=True)
    return Scene(node, Person(node), moment)


def results(report: UndoReport) -> dict[str, tuple[str, str]]:
    return {
        f"{one.disk.guest_name[-1]} {one.disk.target}": (one.result.kind.value, one.result.reason.code.value)
        for one in report.undone
    }


def limits_of(node: Node) -> list[Limits]:
    return [disk.actual for disk in node.disks()]


def test_limits_are_as_before_and_the_record_has_the_undoing_as_a_change_like_any_other(scene: Scene) -> None:
    report = scene.person.undo(scene.moment)
    assert limits_of(scene.node) == [OLD, OLD]
    assert report.exit_status == 0
    rows = [row for row in record_query.entries(Record(scene.node.state.record), Selection()) if row.id > 4]
    assert [(row.before, row.after, row.result, row.by) for row in rows if isinstance(row, RecordedChange)] == [
        (NEW, OLD, Ending.DONE, "ann")
    ] * 2
    assert {row.reason.code for row in rows if row.reason} == {Code.UNDONE}
    assert record_query.verify(Record(scene.node.state.record)).faults == ()


def test_what_is_reverted_goes_into_the_persistent_definition_too(scene: Scene) -> None:
    scene.person.undo(scene.moment)
    assert scene.node.disk(1).persistent == OLD


def test_an_undo_is_undone_by_another(scene: Scene) -> None:
    scene.person.undo(scene.moment)
    moment = scene.node.now
    assert scene.person.undo(moment).exit_status == 0
    assert limits_of(scene.node) == [NEW, NEW]
    scene.person.undo(moment + timedelta(seconds=1))
    assert limits_of(scene.node) == [OLD, OLD]


def test_the_next_pass_does_not_take_what_was_reverted_for_an_external_change(scene: Scene) -> None:
    scene.person.undo(scene.moment)
    report = scene.node.run()
    assert {outcome.change.cause for outcome in report.outcomes if outcome.change} == {Code.DESIRED_CHANGED}
    assert limits_of(scene.node) == [NEW, NEW], "what is desired holds again"
    assert {remembered.reverts for remembered in scene.node.memory.values()} == {0}


def test_rules_that_desire_what_was_reverted_find_it_in_sync(scene: Scene) -> None:
    scene.person.undo(scene.moment)
    scene.node.rules = rules(OLD)
    report = scene.node.run()
    assert report.count(Kind.IN_SYNC) == 2


def test_a_limit_of_another_client_is_theirs_again(tmp_path: Path) -> None:
    node = Node(tmp_path, guest(1, a_volume(1, OTHERS)), rules=rules(None))
    node.run()
    moment = node.now + timedelta(seconds=1)
    node.rules = rules(None, TAKEN)
    node.run()
    assert limits_of(node) == [NEW]
    Person(node).undo(moment)
    assert limits_of(node) == [OTHERS]
    node.rules = rules(OLD)
    assert codes(node.run()) == [Code.FOREIGN_LIMIT]
    assert limits_of(node) == [OTHERS]


def test_a_limit_of_others_that_was_reverted_stays_theirs_when_the_memory_is_lost(tmp_path: Path) -> None:
    node = Node(tmp_path, guest(1, a_volume(1, OTHERS)), rules=rules(None, TAKEN))
    moment = node.now
    node.run()
    Person(node).undo(moment)
    node.state.memory.unlink()
    node.rules = rules(OLD)
    assert codes(node.run()) == [Code.FOREIGN_LIMIT]


def test_what_plimsoll_had_put_stays_its_own_when_the_memory_is_lost(scene: Scene) -> None:
    scene.person.undo(scene.moment)
    scene.node.state.memory.unlink()
    scene.node.rules = rules(NEWER)
    scene.node.run()
    assert limits_of(scene.node) == [NEWER, NEWER]


def test_a_disk_that_another_client_changed_since_is_left_alone_and_listed(scene: Scene) -> None:
    set_by_hand(scene.node.disk(1, "vdb"), OTHERS)
    report = scene.person.undo(scene.moment)
    assert results(report)["1 vdb"] == ("left-alone", "external-change")
    assert limits_of(scene.node) == [OLD, OTHERS]
    assert report.exit_status == 3


def test_a_disk_that_was_changed_behind_libvirts_back_is_left_alone(scene: Scene) -> None:
    scene.node.disk(1, "vdb").actual = OTHERS
    assert results(scene.person.undo(scene.moment))["1 vdb"] == ("left-alone", "external-change")


def test_a_guest_that_was_restarted_is_left_alone_though_it_brought_our_limits_along(scene: Scene) -> None:
    scene.node.hypervisor.restart(scene.guest, NEW)
    report = scene.person.undo(scene.moment)
    assert set(results(report).values()) == {("left-alone", "reattached")}
    assert limits_of(scene.node) == [NEW, NEW]
    assert report.exit_status == 1


def test_a_volume_that_was_detached_and_attached_again_is_another_attachment(scene: Scene) -> None:
    again = replace(scene.node.disk(1, "vdb"), actual=NEW, defined=NEW)
    scene.node.hypervisor.attach(scene.guest, "vdb", again)
    assert results(scene.person.undo(scene.moment))["1 vdb"] == ("left-alone", "reattached")
    assert scene.node.disk(1, "vdb").actual == NEW


def test_another_volume_at_the_same_letter_is_not_touched_and_the_one_that_was_there_is_listed(scene: Scene) -> None:
    scene.node.hypervisor.attach(scene.guest, "vdb", a_volume(5, NEW))
    report = scene.person.undo(scene.moment)
    assert results(report)["1 vdb"] == ("left-alone", "not-here")
    assert scene.node.disk(1, "vdb").actual == NEW
    assert report.exit_status == 0, "what is gone has nothing to be put back"


def test_a_guest_that_is_gone_is_listed(scene: Scene) -> None:
    del scene.node.hypervisor.by_uuid[uuid_of(1)]
    report = scene.person.undo(scene.moment)
    assert set(results(report).values()) == {("left-alone", "not-here")}
    assert report.exit_status == 0


def test_changes_from_before_the_node_was_started_are_not_undone(scene: Scene) -> None:
    report = scene.person.undo(scene.moment, booted=scene.node.now + timedelta(seconds=1))
    assert set(results(report).values()) == {("left-alone", "reattached")}
    assert limits_of(scene.node) == [NEW, NEW]


def test_without_a_memory_of_the_attachment_nothing_is_reverted(scene: Scene) -> None:
    scene.node.state.memory.unlink()
    scene.node.hypervisor.lose_marks()
    report = scene.person.undo(scene.moment)
    assert set(results(report).values()) == {("left-alone", "reattached")}
    assert limits_of(scene.node) == [NEW, NEW]


def test_a_guest_that_does_not_answer_keeps_no_other_from_being_reverted(tmp_path: Path) -> None:
    scene = a_scene(tmp_path, guest(1), guest(2))
    scene.guest.trouble = hangs()
    report = scene.person.undo(scene.moment)
    assert {key: results(report)[key] for key in ("1 vda", "1 vdb")} == dict.fromkeys(
        ("1 vda", "1 vdb"), ("unknown", "timed-out")
    )
    assert limits_of(scene.node) == [NEW, NEW, OLD, OLD]
    assert report.exit_status == 3


def test_of_a_change_that_was_never_answered_nothing_is_known_until_the_guest_answers(tmp_path: Path) -> None:
    node = Node(tmp_path, guest(1, a_volume(1)), rules=rules(OLD))
    moment, that = node.now, node.hypervisor.by_uuid[uuid_of(1)]

    def goes_quiet() -> None:
        that.trouble = hangs()

    node.hypervisor.before["set_limits"] = goes_quiet
    node.run()
    person = Person(node)
    report = person.undo(moment)
    assert results(report) == {"1 vda": ("unknown", "timed-out")}
    assert report.exit_status == 1
    that.trouble = None
    set_by_hand(node.disk(1), OLD)  # it took in the end
    assert person.undo(moment).exit_status == 0
    assert limits_of(node) == [UNLIMITED]


def test_a_guest_that_migrates_is_left_alone(scene: Scene) -> None:
    scene.guest.movement = Movement.LEAVING
    assert set(results(scene.person.undo(scene.moment)).values()) == {("left-alone", "migrating")}
    assert limits_of(scene.node) == [NEW, NEW]


def test_a_disk_that_is_as_before_already_is_not_written_to(scene: Scene) -> None:
    set_by_hand(scene.node.disk(1, "vda"), OLD)
    scene.node.hypervisor.writes.clear()
    report = scene.person.undo(scene.moment)
    assert results(report)["1 vda"][0] == "in-sync"
    assert [target for _, target, _ in scene.node.hypervisor.writes] == ["vdb"]
    assert report.exit_status == 0


@pytest.mark.parametrize("limits", [NEW, None])
def test_a_held_disk_keeps_what_it_is_held_at(scene: Scene, limits: Limits | None) -> None:
    scene.node.hold(1, "vda", limits)
    assert results(scene.person.undo(scene.moment))["1 vda"] == ("left-alone", "hold")
    assert limits_of(scene.node) == [NEW, OLD]


def test_of_a_moment_in_a_hold_that_took_the_place_of_another_what_was_before_both_counts(scene: Scene) -> None:
    node, record = scene.node, Record(scene.node.state.record)
    node.hold(1, "vda", NEWER)
    node.run()
    (hold,) = node.holds.values()
    again = [hold_event(hold, what, node.now, "ann") for what in (Happening.HOLD_ENDED, Happening.HOLD_ADDED)]
    record.note(again)
    moment = node.now + timedelta(seconds=1)
    node.rules = rules(OLD)
    node.now += timedelta(hours=3)
    node.run()
    assert node.disk(1).actual == OLD
    scene.person.undo(moment)
    assert node.disk(1).actual == NEW


def test_a_hold_that_came_along_with_its_guest_counts_before_a_pass_has_met_it(scene: Scene) -> None:
    scene.node.hold(1, "vda", NEW)
    scene.node.run()
    scene.node.state.memory.unlink()
    assert results(scene.person.undo(scene.moment))["1 vda"] == ("left-alone", "hold")
    assert scene.node.holds, "and it is kept"


def test_what_is_desired_and_judged_stays_as_it_was_whatever_the_rules_say_now(scene: Scene) -> None:
    """An undo is no pass that a brake has weighed: an edit is still an edit afterwards."""
    before = NodeStore(scene.node.state, "ann").recall(scene.node.now, read_only=True)
    scene.node.rules = rules(OTHERS)
    scene.person.undo(scene.moment)
    after = NodeStore(scene.node.state, "ann").recall(scene.node.now, read_only=True)
    assert after.brake == before.brake
    for key, disk in after.disks.items():
        assert (disk.desired, disk.revision) == (before.disks[key].desired, before.disks[key].revision)
        assert disk.applied == OLD


def test_what_was_reverted_follows_a_guest_that_migrates(scene: Scene) -> None:
    scene.person.undo(scene.moment)
    marks = [scene.node.seen(1, target).mark for target in ("vda", "vdb")]
    assert [mark and mark.applied for mark in marks] == [OLD, OLD]


def test_a_disk_that_a_rule_takes_out_of_plimsolls_hands_is_not_written_to(scene: Scene) -> None:
    scene.node.rules = rules(NEW, "rules: [{name: foreign, match: {pool: vms}, manage: false}]\n")
    assert results(scene.person.undo(scene.moment))["1 vda"] == ("left-alone", "rule-unmanages")
    assert limits_of(scene.node) == [NEW, OLD]


@pytest.mark.parametrize(
    "first",
    ["manage: false", "override: true, limits: unlimited}, {name: foreign, match: {pool: vms}, manage: false"],
)
def test_a_disk_of_which_it_is_unknown_whether_a_rule_leaves_it_unmanaged_is_not_written_to(
    scene: Scene, first: str
) -> None:
    scene.node.ceph.known = Clusters(())
    far = f"match: {{pool: vms, cluster: {FSID}}}"
    scene.node.rules = rules(NEW, f"rules: [{{name: far, {far}, {first}}}]\n")
    assert results(scene.person.undo(scene.moment))["1 vda"] == ("unknown", "cluster-unknown")
    assert limits_of(scene.node) == [NEW, OLD]


def test_what_is_desired_of_a_disk_need_not_be_known_to_undo_it(scene: Scene) -> None:
    scene.node.ceph.known = Clusters(())
    ours = f"{{name: ours, match: {{cluster: {FSID}}}, override: true, limits: unlimited}}"
    scene.node.rules = rules(NEW, f"rules: [{ours}, {{name: foreign, match: {{pool: others}}, manage: false}}]\n")
    assert scene.person.undo(scene.moment).exit_status == 0
    assert limits_of(scene.node) == [OLD, OLD]


def test_nothing_is_raised_while_the_cluster_is_unhealthy_and_lowered_it_is(tmp_path: Path) -> None:
    node = Node(tmp_path, guest(1), guest(2), rules=rules(OLD))
    node.run(scope=Scope(frozenset({uuid_of(1)})))
    moment = node.now + timedelta(seconds=1)
    node.rules = rules(NEW)
    node.run()  # raised on the one, and on the other limited for the first time
    node.ceph.raised = ("OSD_DOWN",)
    person = Person(node)
    report = person.undo(moment)
    assert limits_of(node) == [OLD, OLD, NEW, NEW]
    assert results(report)["2 vda"] == ("deferred", "cluster-unhealthy")
    assert report.exit_status == 3
    node.ceph.raised = ()
    assert person.undo(moment).exit_status == 0
    assert limits_of(node) == [OLD, OLD, UNLIMITED, UNLIMITED]


def test_a_person_who_says_so_is_not_kept_by_the_cluster_which_is_not_even_asked(tmp_path: Path) -> None:
    node = Node(tmp_path, guest(1), rules=rules(OLD))
    moment = node.now
    node.run()
    node.ceph.raised, node.ceph.asked = ("OSD_DOWN",), 0
    assert Person(node).undo(moment, heedless=True).exit_status == 0
    assert (limits_of(node), node.ceph.asked) == ([UNLIMITED, UNLIMITED], 0)


def test_a_pause_in_the_middle_stops_the_rest(scene: Scene) -> None:
    said = [None, None, because(Code.PAUSED, file="/etc/plimsoll/paused", why="stop")]
    report = scene.person.undo(scene.moment, paused=lambda: said.pop(0) if len(said) > 1 else said[0])
    assert limits_of(scene.node) == [OLD, NEW]
    assert results(report)["1 vdb"] == ("deferred", "paused")
    assert (report.since, report.paused, report.of) == (scene.moment, said[0], 2)
    assert report.seconds > 0


def test_what_became_another_after_it_was_shown_waits_for_another_word(scene: Scene) -> None:
    shown = scene.person.undo(scene.moment, read_only=True)
    scene.node.rules = rules(NEWER)
    scene.node.run()
    report = scene.person.undo(scene.moment, agreed=shown.agreement)
    assert set(results(report).values()) == {("deferred", "not-approved")}
    assert limits_of(scene.node) == [NEWER, NEWER]


def test_a_dry_run_writes_nowhere_and_says_what_the_real_one_then_says(scene: Scene) -> None:
    directory = scene.node.state.directory
    before = {file.name: file.read_bytes() for file in directory.iterdir()}
    scene.person.undo(scene.moment, read_only=True)
    dry = told.undone(scene.person.told)
    assert {file.name: file.read_bytes() for file in directory.iterdir()} == before
    assert limits_of(scene.node) == [NEW, NEW]
    scene.person.undo(scene.moment)
    assert [line.partition("  undo of")[0] for line in told.undone(scene.person.told)] == dry


def test_only_the_guest_that_is_meant_is_reverted_by_its_name_or_uuid(tmp_path: Path) -> None:
    scene = a_scene(tmp_path, guest(1), guest(2), guest(3))
    report = scene.person.undo(scene.moment, "instance-00000001", uuid_of(2))
    assert limits_of(scene.node) == [OLD, OLD, OLD, OLD, NEW, NEW]
    assert len(report.undone) == 4


def test_a_guest_that_is_gone_may_be_named_and_one_that_never_was_may_not(scene: Scene) -> None:
    del scene.node.hypervisor.by_uuid[uuid_of(1)]
    assert set(results(scene.person.undo(scene.moment, "instance-00000001"))) == {"1 vda", "1 vdb"}
    with pytest.raises(NoSuchGuest, match="instance-99999999"):
        scene.person.undo(scene.moment, "instance-99999999")


def test_of_a_named_guest_only_the_others_stay_remembered(tmp_path: Path) -> None:
    scene = a_scene(tmp_path, guest(1), guest(2))
    before = scene.node.memory
    scene.person.undo(scene.moment, "instance-00000001")
    after = scene.node.memory
    assert {key: after[key] for key in after if key.startswith(uuid_of(2))} == {
        key: before[key] for key in before if key.startswith(uuid_of(2))
    }


def test_disks_that_were_not_changed_since_are_not_mentioned(scene: Scene) -> None:
    report = scene.person.undo(scene.node.now + timedelta(seconds=1))
    assert (report.undone, report.exit_status) == ((), 0)
    assert limits_of(scene.node) == [NEW, NEW]


class Forgetful(NodeStore):
    """Killed before it could remember what was done."""

    def remember(self, *_: object) -> None:
        raise KeyboardInterrupt


@pytest.mark.parametrize("first", [OTHERS, UNLIMITED])
def test_killed_after_its_writes_whose_limits_they_are_is_found_out_by_the_next_pass(
    tmp_path: Path, first: Limits
) -> None:
    node = Node(tmp_path, guest(1, a_volume(1, first)), rules=rules(None, TAKEN))
    moment = node.now
    node.run()
    with pytest.raises(KeyboardInterrupt):
        Person(node).undo(moment, node_store=Forgetful(node.state, "ann"))
    assert limits_of(node) == [first]
    node.rules = rules(None)
    node.run()
    (remembered,) = node.memory.values()
    assert (remembered.applied, remembered.desired, remembered.enforced) == (None, NEW, False)
    assert node.recorded("result") == [("done",), ("took",)]


def test_killed_after_its_writes_it_is_done_with_when_it_is_run_again(scene: Scene) -> None:
    with pytest.raises(KeyboardInterrupt):
        scene.person.undo(scene.moment, node_store=Forgetful(scene.node.state, "ann"))
    report = scene.person.undo(scene.moment)
    assert set(results(report).values()) == {("in-sync", "undone")}
    assert report.exit_status == 0
    assert {remembered.applied for remembered in scene.node.memory.values()} == {OLD}
    assert not Record(scene.node.state.record).unsettled()


def test_what_another_pass_was_killed_over_is_settled_first(tmp_path: Path) -> None:
    node = Node(tmp_path, guest(1), rules=rules(OLD))
    moment = node.now
    with pytest.raises(KeyboardInterrupt):
        node.run(node_store=Forgetful(node.state, "tests"))
    assert limits_of(node) == [OLD, OLD]
    assert Person(node).undo(moment).exit_status == 0
    assert limits_of(node) == [UNLIMITED, UNLIMITED]
    assert node.recorded("result") == [("took",)] * 2 + [("done",)] * 2


def test_that_the_record_was_begun_again_since_is_said_since_earlier_changes_are_not_in_it(scene: Scene) -> None:
    Record(scene.node.state.record).set_aside(scene.node.now, "tests")
    scene.node.now += timedelta(hours=1)
    later = scene.node.now
    scene.node.rules = rules(NEWER)
    scene.node.run()
    report = scene.person.undo(scene.moment)
    assert [note.code for note in report.notes] == [Code.RECORD_SET_ASIDE]
    assert report.exit_status == 3
    assert scene.person.undo(later).notes == (), "from then on all is in it"


def test_limits_of_which_a_record_that_was_moved_away_would_tell_are_counted(scene: Scene) -> None:
    scene.node.state.record.unlink()
    report = scene.person.undo(scene.moment)
    assert (report.undone, report.unrecorded, report.exit_status) == ((), 2, 3)
    scene.node.rules = rules(NEW, "rules: [{name: own, match: {pool: vms}, override: true, limits: unlimited}]\n")
    scene.node.run(yes=True)  # begins another
    report = scene.person.undo(scene.moment)
    assert (results(report), report.unrecorded, report.exit_status) == ({"1 vda": ("changed", "undone")}, 1, 3)
    assert scene.person.undo(scene.node.now + timedelta(minutes=1)).exit_status == 0, "from then on all is in it"


def test_where_plimsoll_put_nothing_a_missing_record_is_no_loss(tmp_path: Path) -> None:
    node = Node(tmp_path, guest(1), guest(2, a_volume(2, OTHERS)), rules=rules(None))
    node.run()
    report = Person(node).undo(node.now)
    assert (node.state.record.exists(), report.unrecorded, report.exit_status) == (False, 0, 0)


def test_a_damaged_record_is_an_error_and_not_nothing_to_do(scene: Scene) -> None:
    scene.node.state.record.write_bytes(b"damaged" * 999)
    with pytest.raises(CorruptRecord):
        scene.person.undo(scene.moment)
    assert limits_of(scene.node) == [NEW, NEW]


def test_where_no_record_can_be_written_nothing_is_raised(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.node.rules = rules(OLD)
    moment = scene.node.now + timedelta(seconds=1)
    scene.node.run()  # NEW → OLD: to undo it raises
    monkeypatch.setattr(Record, "intend", raising(StateError("record.sqlite: database or disk is full")))
    report = scene.person.undo(moment)
    assert set(results(report).values()) == {("failed", "no-record")}
    assert limits_of(scene.node) == [OLD, OLD]


def test_one_that_could_not_be_remembered_is_not_all_well(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        NodeStore, "remember", raising(StateError("memory.json: cannot be written: No space left on device"))
    )
    report = scene.person.undo(scene.moment)
    assert limits_of(scene.node) == [OLD, OLD]
    assert [note.code for note in report.notes] == [Code.NOT_REMEMBERED]
    assert report.exit_status == 3


def test_an_undo_ends_no_acknowledgement(scene: Scene) -> None:
    """It knows what it puts back, not what is desired."""
    scene.node.acknowledge(1, "vda")
    before = scene.node.acknowledged
    assert scene.person.undo(scene.moment).exit_status == 0
    assert scene.node.acknowledged == before


def test_a_disk_that_had_a_limit_of_its_own_leaves_the_group_that_it_was_put_in(tmp_path: Path) -> None:
    shared = replace(NEW, group_name="both")
    scene = a_scene(tmp_path, guest(1), then=shared)
    assert limits_of(scene.node) == [shared, shared]
    assert scene.person.undo(scene.moment).exit_status == 0
    assert limits_of(scene.node) == [OLD, OLD]


def test_directions_are_those_of_the_undo_and_not_of_what_is_undone(scene: Scene) -> None:
    report = scene.person.undo(scene.moment)
    assert {one.change.direction for one in report.undone if one.change} == {Direction.LOWER}


steps = st.lists(
    st.sampled_from(["old", "new", "newer", "unlimited", "nothing", "take", "hold", "later", "yield"]),
    min_size=1,
    max_size=6,
)


def take_a_step(node: Node, step: str) -> None:
    """One more thing that only plimsoll does to limits."""
    desired = {"old": OLD, "new": NEW, "newer": NEWER, "unlimited": UNLIMITED}
    if step in desired:
        node.rules = rules(desired[step])
    elif step == "nothing":
        node.rules = rules(None)
    elif step == "take":
        node.rules = rules(None, TAKEN)
    elif step == "yield":
        node.rules = rules(None)
        planned = node.run(Mode.PLAN)
        orphans = [each.disk for each in planned.outcomes if each.result.reason.code is Code.ORPHANED]
        memory = NodeStore(node.state, "ann").recall(node.now, read_only=False)
        node.state.save_memory(
            replace(memory, disks={**memory.disks, **releasing(orphans, planned.situation.memory)})
        )
    elif step == "hold":
        node.hold(1, "vda", NEWER, timedelta(minutes=20))
    else:
        node.now += timedelta(minutes=30)
    node.run(yes=True)


@examples_of(40)
@given(steps, st.integers(0, 5))
@example(["new", "unlimited", "hold"], 0)
def test_after_any_passes_limits_and_whose_they_are_go_back_to_any_moment_and_forth_again(
    walk: list[str], cut: int
) -> None:
    cut = min(cut, len(walk) - 1)
    with TemporaryDirectory() as directory:
        node = Node(Path(directory), guest(1), guest(2, a_volume(2, OTHERS), a_volume(3)), rules=rules(None))
        node.run()
        for step in walk[:cut]:
            take_a_step(node, step)
        moment, at_the_moment = node.now + timedelta(seconds=1), standing(node)
        held = {key for key, remembered in node.memory.items() if remembered.restore_to is not None}
        for step in walk[cut:]:
            take_a_step(node, step)
        node.now += timedelta(hours=1)
        node.run(yes=True)  # no hold stands any more
        at_the_end = standing(node)

        person = Person(node)
        for since, meant in ((moment, at_the_moment), (node.now + timedelta(minutes=1), at_the_end)):
            report = person.undo(since)
            assert report.exit_status == 0
            # A disk that the sources want as it was held was not changed.
            for key in held - {one.disk.key for one in report.undone}:
                meant[key] = at_the_end[key]
            # One that had come to the same again is not written to, and stays whose it is.
            right = {one.disk.key for one in report.undone if one.result.kind is Kind.IN_SYNC}
            now = standing(node)
            assert {key: limits for key, (limits, _) in now.items()} == {
                key: limits for key, (limits, _) in meant.items()
            }
            assert {key: now[key] for key in now if key not in right} == {
                key: meant[key] for key in now if key not in right
            }
        assert record_query.verify(Record(node.state.record)).faults == ()


def standing(node: Node) -> dict[str, tuple[Limits, bool]]:
    """What is in force, and whether plimsoll takes it for its own, by disk.

    Of a disk that is held it is what was before the hold: an exception that has ended since does not come back.
    """
    found = {}
    for number in (1, 2):
        for target in node.hypervisor.by_uuid[uuid_of(number)].disks:
            disk = node.seen(number, target)
            assert isinstance(disk.actual, Limits)
            remembered = node.memory[disk.key]
            if remembered.restore_to is not None:
                found[disk.key] = (remembered.restore_to, not remembered.foreign)
            else:
                found[disk.key] = (disk.actual, remembered.applied == disk.actual)
    return found


def test_a_disk_that_got_its_limits_back_while_held_as_it_is_has_them_after_an_undo(tmp_path: Path) -> None:
    node = Node(tmp_path, guest(1, a_volume(1)), rules=rules(OLD))
    node.run(yes=True)
    node.hold(1, "vda", None)
    node.run()
    node.hypervisor.restart(node.hypervisor.by_uuid[uuid_of(1)], defined=Limits())
    node.run()
    moment = node.now + timedelta(seconds=1)
    node.now += timedelta(hours=3)
    node.run()
    node.rules = rules(NEW)
    node.run(yes=True)
    Person(node).undo(moment)
    assert node.disk(1).actual == OLD
