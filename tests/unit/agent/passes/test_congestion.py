"""Limits are lower while the cluster is congested; memory, brake, undo and the health gate know what is desired."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from plimsoll_agent.cli.approve import PauseNode
from plimsoll_agent.congestion.following import Followed, Following
from plimsoll_agent.congestion.reduction import is_reduction
from plimsoll_agent.errors import Rejected
from plimsoll_agent.messages.record import actual_lines, entry_line
from plimsoll_agent.model.direction import Direction
from plimsoll_agent.model.hypervisor import Movement
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, Unknown, because
from plimsoll_agent.policy.decide import Situation
from plimsoll_agent.reconcile.limit_writer import Writer
from plimsoll_agent.reconcile.outcome import Kind, Mode, Result, Scope
from plimsoll_agent.reconcile.run import save_attachments
from plimsoll_agent.rules.model import Match, Rule, Rules, UnderCongestion
from plimsoll_agent.store import record_query
from plimsoll_agent.store.actual import actual
from plimsoll_agent.store.node_store import NodeStore
from plimsoll_agent.store.record import Record
from plimsoll_agent.store.state import State, StateError
from plimsoll_agent.util.frozen import replace
from tests.fakes import domain_xml
from tests.unit.agent.reconcile.test_groups import IN_A_GROUP
from tests.unit.agent.reconcile.test_undo import Person as Undoing
from tests.unit.node import FSID, Node, a_volume, changes, codes, guest, kinds, set_by_hand, uuid_of
from tests.unit.person import Person, Terminal
from tests.unit.places import settings_in
from tests.unit.values import NOON

GOLD = Limits(total_iops_sec=3000, total_iops_sec_max=6000, total_iops_sec_max_length=1)
LOWER = Limits(total_iops_sec=2190)
FLOOR = Limits(total_iops_sec=100)
SILVER = Limits(total_iops_sec=250)
GROUP = Limits(total_iops_sec=1000, group_name="g")


def rules(desired: Limits = GOLD, *others: Rule, revision: str = "1") -> Rules:
    reduced = Rule(name="all", match=Match(), congestion=UnderCongestion(FLOOR))
    return Rules(default=desired, rules=(*others, reduced), revision=revision)


def at(x: float, *pools: str) -> Following:
    each = Followed(x=x, device_class="ssd", published=x, until=NOON + timedelta(days=1), generation=1, moves=())
    return Following({(FSID, pool): each for pool in pools or ("volumes", "vms")})


def made(directory: Path) -> Path:
    directory.mkdir()
    return directory


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """One volume with its desired limits, after a pass."""
    node = Node(tmp_path, guest(1, a_volume(1)), rules=rules())
    node.run()
    node.run()
    return node


@pytest.fixture
def reduced(node: Node) -> Node:
    node.following = at(0.73)
    assert kinds(node.run()) == ["changed"]
    assert node.disk(1).actual == LOWER
    return node


def entry(node: Node) -> tuple[Limits | None, Limits | None, Limits | None]:
    (its,) = node.memory.values()
    return its.desired, its.applied, its.reduced


def test_a_disk_is_reduced_without_burst_and_restored(node: Node) -> None:
    node.following = at(0.73)
    (change,) = changes(node.run())
    assert (change.direction, change.before, change.after) == (Direction.LOWER, GOLD, LOWER)
    assert node.disk(1).actual == LOWER
    assert kinds(node.run()) == ["in-sync"]
    assert entry(node) == (GOLD, GOLD, LOWER)
    node.following = at(0.9)
    (change,) = changes(node.run())
    assert (change.direction, change.after) == (Direction.RESTORE, Limits(total_iops_sec=2700))
    node.following = at(1)
    report = node.run()
    (change,) = changes(report)
    assert (change.direction, change.after) == (Direction.RESTORE, GOLD)
    assert [each.reduced_by for each in report.outcomes] == [None]
    assert node.disk(1).actual == GOLD
    assert entry(node) == (GOLD, GOLD, None)
    assert [each.unreduced for each in node.memory.values()] == [None]
    assert kinds(node.run()) == ["in-sync"]


def test_it_is_restored_while_the_cluster_is_unhealthy_and_without_a_question(reduced: Node) -> None:
    reduced.ceph.raised, reduced.ceph.asked, reduced.following = ("SLOW_OPS",), 0, at(1)
    assert kinds(reduced.run()) == ["changed"]
    assert (reduced.disk(1).actual, reduced.ceph.asked) == (GOLD, 0)


def test_the_limits_of_before_are_reduced_while_a_raise_waits_for_the_cluster(node: Node) -> None:
    node.rules = rules(Limits(total_iops_sec=4000), revision="2")
    node.ceph.raised, node.following = ("SLOW_OPS",), at(0.73)
    node.run()
    assert node.disk(1).actual == LOWER


def test_an_own_raise_still_waits_for_the_cluster_and_the_limits_of_before_follow(reduced: Node) -> None:
    reduced.rules = rules(Limits(total_iops_sec=4000), revision="2")
    reduced.ceph.raised, reduced.following = ("SLOW_OPS",), at(0.9)
    (change,) = changes(reduced.run())
    assert (change.direction, reduced.disk(1).actual) == (Direction.RESTORE, Limits(total_iops_sec=2700))
    reduced.following = at(1)
    reduced.run()
    assert reduced.disk(1).actual == GOLD
    assert kinds(reduced.run()) == ["deferred"]
    reduced.ceph.raised = ()
    reduced.run()
    assert reduced.disk(1).actual == Limits(total_iops_sec=4000)


def test_limits_of_others_are_not_reduced_while_what_is_to_replace_them_waits_for_the_cluster(node: Node) -> None:
    """Neither those of an external change, nor those that a volume was attached with."""
    others = Limits(total_iops_sec=1500)
    override = Rule(name="gold", match=Match(pool=("volumes",)), limits=GOLD, override=True)
    node.rules = rules(GOLD, override, revision="2")
    set_by_hand(node.disk(1), others)
    node.hypervisor.by_uuid[uuid_of(2)] = guest(2, a_volume(2, others))
    node.ceph.raised, node.following = ("SLOW_OPS",), at(0.5)
    assert kinds(node.run()) == ["deferred", "deferred"]
    assert {disk.actual for disk in node.disks()} == {others}


def test_a_new_desired_limit_is_recorded_and_remembered_whole(reduced: Node) -> None:
    silver = Limits(total_iops_sec=2000)
    reduced.rules = rules(silver, revision="2")
    reduced.run()
    assert reduced.disk(1).actual == Limits(total_iops_sec=1460)
    assert entry(reduced) == (silver, silver, Limits(total_iops_sec=1460))
    assert reduced.disk(1).persistent == silver
    assert reduced.recorded("before", "after")[-1] == (
        '{"total_iops_sec": 3000, "total_iops_sec_max": 6000}',
        '{"total_iops_sec": 2000}',
    )


def test_a_change_of_a_disk_that_is_not_reduced_is_no_end_of_a_reduction(reduced: Node) -> None:
    reduced.hypervisor.by_uuid[uuid_of(2)] = guest(2, a_volume(2, pool="hdd"))
    assert [(change.after, change.reduction) for change in changes(reduced.run())] == [(GOLD, None)]


def test_the_record_has_one_entry_a_pass_and_class_and_no_change(tmp_path: Path) -> None:
    node = Node(tmp_path, *(guest(n, a_volume(n)) for n in range(4)), rules=rules())
    node.run()
    rows = node.recorded("id")
    node.following = at(0.73)
    node.run()
    node.run()
    assert node.recorded("id") == rows
    record = Record(node.state.record)
    (entry,) = record_query.entries(record, record_query.Selection(reason="congestion"))
    assert "4 disks, ssd of cluster bcebd1ee: reduced, x is 0.73" in entry_line(entry)
    intended = record_query.reduced_at(record, node.now)
    assert {each.limits for each in intended.values()} == {LOWER}
    assert len(intended) == 4


@pytest.mark.parametrize(
    "without",
    ["floor", "limit", "hold", "own limits held", "another pool"],
)
def test_never_reduced(node: Node, without: str) -> None:
    node.following = at(0.5)
    match without:
        case "floor":
            node.rules = Rules(default=GOLD)
        case "limit":
            node.rules = rules(Limits(), Rule(name="none", match=Match(), limits=Limits(), override=True))
            set_by_hand(node.disk(1), Limits())
            node.state.memory.unlink()
            node.state.record.unlink()
        case "hold":
            node.hold(1, "vda", GOLD)
        case "own limits held":
            node.hold(1, "vda", None)
        case "another pool":
            node.following = at(0.5, "vms")
    before = node.disk(1).actual
    node.run()
    assert node.disk(1).actual == before


@pytest.mark.parametrize(("restores", "after"), [((), LOWER), (("--restore",), GOLD)])
def test_a_pause_restores_only_where_it_is_asked_to_and_writes_nothing_else(
    reduced: Node, tmp_path: Path, restores: tuple[str, ...], after: Limits
) -> None:
    other = guest(2, a_volume(2, Limits(total_iops_sec=7)))
    reduced.hypervisor.by_uuid[other.uuid] = other
    settings = settings_in(tmp_path, state_dir=reduced.state.directory)
    person = Person()
    words = ("--reason", "x", *restores)
    assert person.types(PauseNode, *words, settings=settings, hypervisor=reduced.hypervisor, stdin=Terminal("")) == 0
    assert (reduced.disk(1).actual, reduced.disk(2).actual) == (after, Limits(total_iops_sec=7))
    assert ("1 disk restored" in person.out) == bool(restores)


@pytest.mark.parametrize("attached_with", [None, GOLD])
def test_without_memory_and_marks_a_pause_restores_what_the_record_has(
    tmp_path: Path, attached_with: Limits | None
) -> None:
    """Also a disk that had its limits when it was attached: the record has no change of it."""
    always = rules(GOLD, Rule(name="gold", match=Match(), limits=GOLD, override=True))
    node = Node(made(tmp_path / "state"), guest(1, a_volume(1, attached_with)), rules=always)
    node.run()
    node.following = at(0.73)
    node.run()
    assert node.disk(1).actual == LOWER
    node.state.memory.unlink()
    node.hypervisor.lose_marks()
    person = Person()
    settings = settings_in(tmp_path, state_dir=node.state.directory)
    assert person.types(PauseNode, "--reason", "x", "--restore", settings=settings, hypervisor=node.hypervisor) == 0
    assert (node.disk(1).actual, person.out.splitlines()[-1]) == (GOLD, "1 disk restored.")
    node.following, node.ceph.raised = at(1), ("SLOW_OPS",)
    assert kinds(node.run()) == ["in-sync"]


def test_a_pause_that_can_read_neither_memory_nor_record_does_not_say_that_all_is_restored(
    reduced: Node, tmp_path: Path
) -> None:
    for path in (reduced.state.memory, reduced.state.record):
        path.write_bytes(b"damaged")
    person = Person()
    settings = settings_in(tmp_path, state_dir=reduced.state.directory)
    here = reduced.hypervisor
    here.lose_marks()
    assert person.types(PauseNode, "--reason", "x", "--restore", settings=settings, hypervisor=here) == 3
    assert "memory.json" in person.err
    assert "record.sqlite" in person.err


@pytest.mark.parametrize("limits", [None, Limits(total_iops_sec=900)])
def test_a_hold_ends_the_reduction(reduced: Node, limits: Limits | None) -> None:
    reduced.hold(1, "vda", limits)
    reduced.run()
    assert reduced.disk(1).actual == (limits or GOLD)
    assert entry(reduced)[2] is None


def test_a_disk_whose_rules_end_or_whose_limits_become_unknown_is_restored(reduced: Node) -> None:
    reduced.rules = Rules(default=GOLD)
    reduced.run()
    assert reduced.disk(1).actual == GOLD


def test_a_disk_that_a_rule_leaves_alone_is_restored_first(reduced: Node) -> None:
    reduced.rules = Rules(rules=(Rule(name="off", match=Match(), manage=False),), revision="3")
    reduced.run()
    assert reduced.disk(1).actual == GOLD


def test_the_brake_weighs_what_is_desired(tmp_path: Path) -> None:
    """A reduction to a tenth of 30 disks is no edit; an edit is braked as ever, and the limits of before follow."""
    node = Node(tmp_path, *(guest(n, a_volume(n)) for n in range(9)), rules=rules())
    node.run()
    node.following = at(0.05)
    report = node.run()
    assert report.braked is None
    assert {disk.actual for disk in node.disks()} == {Limits(total_iops_sec=150)}
    node.rules = rules(Limits(total_iops_sec=30), revision="2")
    assert node.run().braked is not None
    node.following = at(1)
    report = node.run()
    assert report.braked is not None
    assert {disk.actual for disk in node.disks()} == {GOLD}


def test_a_pass_that_is_killed_after_its_write_is_no_external_change(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.following = at(0.73)
    with monkeypatch.context() as patch:
        for name in ("remember", "conclude"):
            patch.setattr(NodeStore, name, lambda *_: (_ for _ in ()).throw(StateError("killed")))
        node.run()
    assert (node.disk(1).actual, entry(node)[2]) == (LOWER, None)
    assert kinds(node.run()) == ["in-sync"]
    assert entry(node) == (GOLD, GOLD, LOWER)
    node.following = at(1)
    (change,) = changes(node.run())
    assert (change.direction, change.cause) == (Direction.RESTORE, Code.CONGESTION)


def limits_at(node: Node, moment: datetime) -> tuple[Limits | None, Limits | None]:
    """Those of the disk by the record, and those without a reduction."""
    (state,) = actual(Record(node.state.record), moment, uuid_of(1).upper(), "vda")
    return state.limits, None if state.reduction is None else state.reduction.of


def test_what_a_killed_pass_intended_and_did_not_write_was_never_in_force(
    reduced: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    reduced.following = at(0.5)
    with monkeypatch.context() as patch:
        patch.setattr(Writer, "write", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        for name in ("remember", "conclude"):
            patch.setattr(NodeStore, name, lambda *_: (_ for _ in ()).throw(StateError("killed")))
        with pytest.raises(KeyboardInterrupt):
            reduced.run()
    killed = reduced.now
    reduced.following = at(0.73)
    assert kinds(reduced.run()) == ["in-sync"]
    for moment in (killed, reduced.now):
        assert limits_at(reduced, moment) == (LOWER, GOLD)


def test_a_change_that_fails_while_reduced_leaves_the_limits_and_the_factor_of_before(reduced: Node) -> None:
    silver = Limits(total_iops_sec=2000)
    reduced.rules, reduced.following = rules(silver, revision="2"), at(0.5)
    fail = Rejected("no")

    def refuse() -> None:
        raise fail

    reduced.hypervisor.before["set_limits"] = refuse
    assert kinds(reduced.run()) == ["failed"]
    assert limits_at(reduced, reduced.now + timedelta(minutes=1)) == (LOWER, GOLD)
    entries = record_query.entries(Record(reduced.state.record), record_query.Selection(reason="congestion"))
    *_, last = (event.reason for event in entries)
    assert last is not None
    facts: dict[str, Any] = {**last.facts}
    (row,) = facts["members"]
    assert facts["failed"] is True
    assert (Limits.from_mapping(row["limits"]), Limits.from_mapping(row["of"])) == (LOWER, GOLD)
    assert kinds(reduced.run()) == ["changed"]
    moment = reduced.now + timedelta(minutes=1)
    assert limits_at(reduced, moment) == (Limits(total_iops_sec=1000), silver)


def test_a_pass_that_is_killed_after_it_raised_reduced_limits_has_raised_them(
    reduced: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    higher = Limits(total_iops_sec=5000)
    reduced.rules = rules(higher, revision="2")
    with monkeypatch.context() as patch:
        for name in ("remember", "conclude"):
            patch.setattr(NodeStore, name, lambda *_: (_ for _ in ()).throw(StateError("killed")))
        reduced.run()
    assert (reduced.disk(1).actual, entry(reduced)[1]) == (Limits(total_iops_sec=3650), GOLD)
    assert kinds(reduced.run()) == ["in-sync"]
    assert entry(reduced) == (higher, higher, Limits(total_iops_sec=3650))
    assert reduced.recorded("result")[1:] == [("took",)]


def test_what_a_refresh_finds_attached_is_not_reduced(node: Node) -> None:
    node.catalogue = Unknown(because(Code.CATALOGUE_STALE))
    node.run(Mode.OBSERVE)
    node.catalogue, node.following = None, at(0.73)
    node.run()
    store, attachments = NodeStore(node.state, "tests"), node.state.load_attachments()
    memory = store.recall(node.now, read_only=True).disks
    unknown = Unknown(because(Code.CATALOGUE_STALE))
    situation = Situation(now=node.now, rules=node.rules, memory=memory, catalogue=unknown, attachments=attachments)
    save_attachments(situation, node.hypervisor, store, node.caution(store), 1)
    assert node.state.load_attachments() == attachments
    assert attachments.volumes


def test_without_its_memory_the_record_tells_what_is_reduced(reduced: Node) -> None:
    reduced.state.memory.unlink()
    reduced.following, reduced.ceph.raised = at(1), ("SLOW_OPS",)
    reduced.run()
    assert reduced.disk(1).actual == GOLD


def test_a_reduced_disk_whose_definition_differs_is_reverted_and_stays_reduced(reduced: Node) -> None:
    """libvirt would give it the definition's limits when the guest migrates."""
    reduced.disk(1).defined = GOLD
    (change,) = changes(reduced.run())
    assert (change.cause, reduced.disk(1).actual, reduced.disk(1).defined) == (Code.CHANGED_OVER_QMP, LOWER, LOWER)
    assert kinds(reduced.run()) == ["in-sync"]


def test_an_external_change_while_reduced_is_one(reduced: Node) -> None:
    set_by_hand(reduced.disk(1), Limits(total_iops_sec=500))
    (change,) = changes(reduced.run())
    assert (change.cause, change.direction) == (Code.EXTERNAL_CHANGE, Direction.RAISE)
    assert reduced.disk(1).actual == LOWER


@pytest.mark.parametrize(("raised", "after"), [((), SILVER), (("SLOW_OPS",), Limits(total_iops_sec=120))])
def test_disks_that_congestion_reduces_and_the_undo_does_not_change_stay_reduced(
    tmp_path: Path, raised: tuple[str, ...], after: Limits
) -> None:
    """Also where the cluster keeps the undo from its own raise."""
    node = Node(tmp_path, guest(1, a_volume(1)), guest(2, a_volume(2)), rules=rules(SILVER))
    node.run()
    moment = node.now + timedelta(seconds=1)
    node.rules = rules(Limits(total_iops_sec=240), revision="2")
    node.run(scope=Scope(frozenset({uuid_of(1)})))
    node.following = at(0.5)
    node.run(scope=Scope(frozenset({uuid_of(1)})))
    node.rules = rules(SILVER)
    node.run(scope=Scope(frozenset({uuid_of(2)})))
    assert [disk.actual for disk in node.disks()] == [Limits(total_iops_sec=120), Limits(total_iops_sec=125)]
    node.ceph.raised = raised
    Undoing(node).undo(moment)
    assert [disk.actual for disk in node.disks()] == [after, Limits(total_iops_sec=125)]


def test_a_pause_writes_nothing_and_observe_neither(reduced: Node) -> None:
    reduced.following = at(1)
    reduced.paused = lambda: because(Code.PAUSED, file="paused", why="")
    reduced.run()
    reduced.paused = lambda: None
    reduced.run(Mode.OBSERVE)
    reduced.run(Mode.PLAN)
    assert reduced.disk(1).actual == LOWER
    assert entry(reduced)[2] == LOWER


def test_without_a_record_nothing_is_reduced_but_everything_restored(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.following = at(0.73)
    with monkeypatch.context() as patch:
        patch.setattr(Record, "note", lambda *_: (_ for _ in ()).throw(StateError("disk full")))
        assert kinds(node.run()) == ["failed"]
        assert node.disk(1).actual == GOLD
    node.run()
    monkeypatch.setattr(Record, "note", lambda *_: (_ for _ in ()).throw(StateError("disk full")))
    node.following = at(1)
    assert kinds(node.run()) == ["changed"]
    assert node.disk(1).actual == GOLD


def test_a_factor_that_cannot_be_saved_reduces_nothing(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(State, "save_factors", lambda *_: (_ for _ in ()).throw(StateError("disk full")))
    node.following = replace(at(0.73), saves=True)
    (outcome,) = node.run().outcomes
    assert outcome.result == Result(Kind.FAILED, because(Code.NO_RECORD, detail=""))
    assert node.disk(1).actual == GOLD


def migrated(reduced: Node, directory: Path, limits: Limits) -> Node:
    """The target of its guest, whose disk has these limits there."""
    marks = next(iter(reduced.hypervisor.by_uuid.values())).marks
    assert ' reduced="yes"' in str(marks)
    target = Node(made(directory / "target"), guest(1, a_volume(1, limits)), rules=rules())
    next(iter(target.hypervisor.by_uuid.values())).marks = marks
    return target


def test_the_target_of_a_migration_takes_no_limits_of_others_for_reduced_ones(reduced: Node, tmp_path: Path) -> None:
    assert codes(migrated(reduced, tmp_path, Limits(total_iops_sec=9000)).run()) == [Code.FOREIGN_LIMIT]


def test_the_first_pass_of_the_target_of_a_migration_restores(reduced: Node, tmp_path: Path) -> None:
    target = migrated(reduced, tmp_path, LOWER)
    target.ceph.raised = ("SLOW_OPS",)
    (change,) = changes(target.run())
    assert (change.direction, target.disk(1).actual) == (Direction.RESTORE, GOLD)


def test_a_guest_that_comes_back_with_the_same_mark_is_restored_though_a_pass_saw_it_arrive(reduced: Node) -> None:
    (server,) = reduced.hypervisor.by_uuid.values()
    server.run, server.movement = 2, Movement.ARRIVING
    reduced.run()
    server.movement, reduced.following = Movement.STAYS, at(1)
    (change,) = changes(reduced.run())
    assert (change.direction, reduced.disk(1).actual) == (Direction.RESTORE, GOLD)


def test_a_group_is_reduced_as_one_or_not_at_all(tmp_path: Path) -> None:
    def members(second: str) -> Node:
        node = Node(made(tmp_path / second), guest(1, a_volume(1), a_volume(2, pool=second)), rules=rules(GROUP))
        node.run()
        node.following = at(0.5, "volumes")
        node.run()
        return node

    assert {disk.actual.total_iops_sec for disk in members("hdd").disks()} == {1000}
    node = members("volumes")
    assert {disk.actual.total_iops_sec for disk in node.disks()} == {500}
    node.following, node.ceph.raised = at(1), ("SLOW_OPS",)
    node.run()
    assert {disk.actual for disk in node.disks()} == {GROUP}


def test_a_group_is_restored_for_a_disk_that_joins_it_and_is_not_reduced(tmp_path: Path) -> None:
    node = Node(tmp_path, guest(1, a_volume(1)), rules=rules(GROUP))
    node.run()
    node.following = at(0.5, "volumes")
    node.run()
    assert node.disk(1).actual.total_iops_sec == 500
    node.hypervisor.attach(node.hypervisor.by_uuid[uuid_of(1)], "vdb", a_volume(2, pool="hdd"))
    node.run()
    assert [disk.actual for disk in node.disks()] == [GROUP, GROUP]


def test_a_group_that_a_disk_of_another_kind_is_in_is_not_reduced(tmp_path: Path) -> None:
    node = Node(tmp_path, guest(1, a_volume(1)), rules=rules(GROUP))
    node.run()
    there = node.hypervisor.by_uuid[uuid_of(1)]
    there.xml = domain_xml(there).replace("</devices>", f"{IN_A_GROUP}</devices>")
    node.following = at(0.5)
    assert (kinds(node.run()), node.disk(1).actual) == (["in-sync"], GROUP)


def test_a_group_stays_reduced_while_a_member_that_is_to_leave_it_waits_for_the_cluster(tmp_path: Path) -> None:
    leaver = Rule(name="gold", match=Match(pool=("vms",)), limits=GOLD, override=True)
    node = Node(tmp_path, guest(1, a_volume(1), a_volume(2)), rules=rules(GROUP, leaver))
    node.run()
    node.following = at(0.5)
    node.run()
    node.disk(1, "vdb").pool, node.ceph.raised = "vms", ("SLOW_OPS",)
    for _ in range(2):
        assert kinds(node.run()) == ["in-sync", "deferred"]
        assert {disk.actual.total_iops_sec for disk in node.disks()} == {500}


def test_a_group_over_two_device_classes_is_not_reduced_and_other_disks_of_its_guest_are(tmp_path: Path) -> None:
    grouped = [a_volume(1, GROUP), a_volume(2, GROUP, pool="fast")]
    one = Rule(name="group", match=Match(pool=("volumes", "fast")), limits=GROUP, override=True)
    node = Node(tmp_path, guest(1, *grouped, a_volume(3, pool="vms")), rules=rules(GOLD, one))
    node.run()
    ssd, hdd = (Followed(x=0.73, device_class=its, published=0.73, until=NOON + timedelta(days=1), generation=1)
                for its in ("ssd", "hdd"))  # fmt: skip
    node.following = Following({(FSID, "volumes"): ssd, (FSID, "fast"): hdd, (FSID, "vms"): ssd})
    node.run()
    assert [disk.actual for disk in node.disks()] == [GROUP, GROUP, LOWER]


def test_a_group_with_a_held_member_is_restored_and_another_disk_of_its_guest_is_not(tmp_path: Path) -> None:
    one = Rule(name="group", match=Match(pool=("volumes",)), limits=GROUP, override=True)
    node = Node(tmp_path, guest(1, a_volume(1), a_volume(2), a_volume(3, pool="vms")), rules=rules(GOLD, one))
    node.run()
    node.following = at(0.5)
    node.run()
    node.hold(1, "vda", None)
    node.following = at(0.73)
    node.run()
    assert [disk.actual for disk in node.disks()] == [GROUP, GROUP, LOWER]


def test_at_factor_one_outcomes_are_the_same(tmp_path: Path) -> None:
    outcomes = []
    for name, following in (("without", Following()), ("at 1", at(1))):
        node = Node(
            made(tmp_path / name), guest(1, a_volume(1), a_volume(2, Limits(total_iops_sec=7))), rules=rules()
        )
        node.following = following
        report = node.run()
        outcomes.append([(kinds(report), codes(report), changes(report), [disk.actual for disk in node.disks()])])
    assert outcomes[0] == outcomes[1]


def test_a_guest_that_starts_again_has_its_own_limits(reduced: Node) -> None:
    assert reduced.disk(1).persistent == GOLD


def test_the_limit_of_a_disk_at_any_time_is_in_the_record(node: Node) -> None:
    """Each pass with its limits; then what the record has of each of these times."""
    expected: list[tuple[datetime, Limits]] = []
    for x, desired in (
        (0.73, GOLD),
        (0.5, GOLD),
        (0.5, Limits(total_iops_sec=2000)),
        (1, Limits(total_iops_sec=2000)),
    ):
        node.following, node.rules = at(x), rules(desired, revision=str(desired))
        node.run()
        expected.append((node.now + timedelta(minutes=1), node.disk(1).actual))
    record, volume = Record(node.state.record), node.seen(1, "vda").volume_id or ""
    assert [limits.total_iops_sec for _, limits in expected] == [2190, 1500, 1000, 2000]
    for moment, limits in expected:
        (state,) = actual(record, moment, volume, None)
        assert state.limits == limits
    (line, *_) = actual_lines(actual(record, expected[0][0], volume, None)[0])
    assert "2190 IOPS" in line
    assert "x 0.73 × 3000 IOPS" in line


def test_whatever_happens_limits_stay_between_floor_and_what_they_are_without_congestion(tmp_path: Path) -> None:
    """Two nodes with the same history, one of them under congestion: it has the limits of the other, or less of them
    down to the floor, and the same memory and record. With a factor of 1 both are alike.
    """
    rng, reductions = random.Random(37), 0
    choices = [GOLD, Limits(total_iops_sec=2500), Limits(read_iops_sec=900, write_iops_sec=400), GROUP, Limits()]
    choices += [Limits(total_iops_sec=60), Limits(total_iops_sec=3500, total_bytes_sec=2**26)]
    for round_ in range(4):
        directories = [made(tmp_path / f"{round_}-{name}") for name in ("without", "with")]
        nodes = [
            Node(each, guest(1, a_volume(1), a_volume(2)), guest(2, a_volume(3)), rules=rules())
            for each in directories
        ]
        for step in range(15):
            x = rng.choice([1, 1, 0.05, 0.3, 0.73, round(rng.uniform(0.05, 1), 4)])
            changed, unwell = rng.random() < 0.3, rng.random() < 0.4
            desired, held, number = rng.choice(choices), rng.random() < 0.15, rng.choice([1, 2])
            for node in nodes:
                node.following = at(x) if node is nodes[1] else Following()
                if changed:
                    node.rules = rules(desired, revision=f"{round_} {step}")
                node.ceph.raised = ("SLOW_OPS",) if unwell else ()
                if held:
                    node.hold(number, "vda", Limits(total_iops_sec=700), timedelta(minutes=12))
                node.run()
            without, under = ([*node.disks()] for node in nodes)
            for one, other in zip(without, under, strict=True):
                full, less = one.actual, other.actual
                assert less == full or (is_reduction(less, full) and x < 1)
                assert all(min(getattr(full, base), 100) <= getattr(less, base) for base in full.rates())
                reductions += less != full
            pairs = zip(*(sorted(node.memory.items()) for node in nodes), strict=True)
            assert all(
                (a.desired, a.applied, a.enforced) == (b.desired, b.applied, b.enforced) for (_, a), (_, b) in pairs
            )
            assert nodes[0].recorded("disk", "before", "after") == nodes[1].recorded("disk", "before", "after")
    assert reductions > 20
