"""Throttle groups: a write to a member is one to all, so it is made when each of them is to have these limits."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from plimsoll_agent.errors import Rejected
from plimsoll_agent.model.direction import Direction
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.entries import Ending, RecordedChange
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, Unknown, because
from plimsoll_agent.policy.decide import Desired
from plimsoll_agent.policy.diff import Change
from plimsoll_agent.reconcile.groups import in_order, judged, moved, withheld
from plimsoll_agent.reconcile.outcome import Kind, Mode, Outcome, PassReport, Result
from plimsoll_agent.rules.model import Match, Rule, Rules
from plimsoll_agent.store import record_query
from plimsoll_agent.store.record import Record
from plimsoll_agent.store.record_query import Selection
from plimsoll_agent.store.state import StateError
from plimsoll_agent.util.frozen import replace
from tests.fakes import FakeDisk, domain_xml, hangs, raising
from tests.unit import outcomes
from tests.unit.agent.reconcile.test_undo import Person
from tests.unit.node import Node, a_volume, codes, guest, kinds, set_by_hand, uuid_of
from tests.unit.outcomes import staying
from tests.unit.values import a_disk, a_guest

TARGETS = ("vda", "vdb", "vdc", "vdd")
FREE = Limits()


def shared(iops: int, name: str = "g") -> Limits:
    return Limits(total_iops_sec=iops, group_name=name)


def own(iops: int) -> Limits:
    return Limits(total_iops_sec=iops)


def desiring(**by_target: Limits | None) -> Rules:
    """A rule for each disk of guest 1; None takes the disk out of plimsoll's hands."""
    return Rules(
        rules=tuple(
            Rule(
                name=target,
                match=Match(volume=(str(a_volume(TARGETS.index(target)).volume_id),)),
                manage=limits is not None,
                limits=limits,
            )
            for target, limits in by_target.items()
        )
    )


def everywhere(limits: Limits) -> Rules:
    return Rules(rules=(Rule(name="volumes", match=Match(pool=("volumes",)), limits=limits),))


def a_node(directory: Path, *, disks: int = 2, **by_target: Limits | None) -> Node:
    """With one guest, whose disks got these limits in a first pass."""
    node = Node(directory, guest(1, *(a_volume(n) for n in range(disks))), rules=desiring(**by_target))
    node.run()
    node.hypervisor.writes.clear()
    return node


@pytest.fixture
def pair(tmp_path: Path) -> Node:
    """Two disks of one guest that share 100 IOPS."""
    return a_node(tmp_path, vda=shared(100), vdb=shared(100))


def of(node: Node, number: int = 1) -> dict[str, Limits]:
    return {target: disk.actual for target, disk in node.hypervisor.by_uuid[uuid_of(number)].disks.items()}


def attach(node: Node, target: str, limits: Limits = FREE, number: int = 1) -> FakeDisk:
    disk = replace(a_volume(TARGETS.index(target)), actual=limits, defined=limits)
    node.hypervisor.attach(node.hypervisor.by_uuid[uuid_of(number)], target, disk)
    return disk


def rows(node: Node) -> list[RecordedChange]:
    entries = record_query.entries(Record(node.state.record), Selection())
    return sorted((each for each in entries if isinstance(each, RecordedChange)), key=lambda row: row.id)


def became(report: PassReport) -> list[tuple[str, Code]]:
    return list(zip(kinds(report), codes(report), strict=True))


def truthful(node: Node, report: PassReport) -> bool:
    """Whether the report says of each disk what QEMU has in force."""
    return all(
        outcome.after.actual == node.hypervisor.by_uuid[outcome.disk.guest.uuid].disks[outcome.disk.target].actual
        for outcome in report.outcomes
    )


WITHHELD = ("deferred", Code.GROUP_WITHHELD)


# --- what slipped past gate, brake, hold and record


def test_a_disk_attached_into_a_group_while_ceph_is_unhealthy_raises_none_of_its_members(pair: Node) -> None:
    pair.rules = everywhere(shared(400))
    pair.ceph.raised = ("OSD_DOWN",)
    assert codes(pair.run()) == [Code.CLUSTER_UNHEALTHY] * 2
    attach(pair, "vdc")
    report = pair.run()
    assert kinds(report) == ["deferred"] * 3
    assert of(pair) == {"vda": shared(100), "vdb": shared(100), "vdc": FREE}
    assert truthful(pair, report)
    pair.ceph.raised = ()
    assert kinds(pair.run()) == ["changed"] * 3
    assert set(of(pair).values()) == {shared(400)}


def test_a_slip_that_the_brake_stopped_does_not_come_with_a_disk_that_is_attached(tmp_path: Path) -> None:
    node = Node(tmp_path, *(guest(n, a_volume(10 * n)) for n in range(1, 9)), rules=everywhere(shared(100)))
    node.run()
    node.rules = everywhere(shared(100000))
    report = node.run()
    assert report.braked is not None
    attach(node, "vdb")
    report = node.run()
    assert report.braked is not None
    assert became(report)[:2] == [("deferred", Code.BRAKED), WITHHELD]
    assert of(node) == {"vda": shared(100), "vdb": FREE}
    assert truthful(node, report)


def test_a_hold_on_a_member_keeps_its_group_as_it_is_and_this_is_said(pair: Node) -> None:
    pair.hold(1, "vdb", None)
    before = len(rows(pair))
    pair.rules = everywhere(shared(400))
    report = pair.run()
    assert became(report) == [WITHHELD, ("left-alone", Code.HOLD)]
    facts = report.outcomes[0].result.reason.facts
    because_of = report.outcomes[1].result.reason.as_record()
    assert facts == {"group": "g", "target": "vdb", "because": because_of}
    assert of(pair) == {"vda": shared(100), "vdb": shared(100)}
    assert truthful(pair, report)
    assert len(rows(pair)) == before
    pair.now += timedelta(hours=3)
    assert kinds(pair.run()) == ["changed"] * 2, "the hold has ended"
    assert set(of(pair).values()) == {shared(400)}


# --- other members that keep their group as it is


def test_a_hold_at_the_limits_of_a_group_keeps_them(pair: Node) -> None:
    pair.hold(1, "vdb", shared(100))
    pair.rules = everywhere(shared(90))
    assert became(pair.run()) == [WITHHELD, ("in-sync", Code.HOLD)]
    assert set(of(pair).values()) == {shared(100)}


def test_a_member_that_plimsoll_does_not_manage_keeps_its_group(pair: Node) -> None:
    pair.rules = desiring(vda=shared(90), vdb=None)
    assert became(pair.run()) == [WITHHELD, ("left-alone", Code.RULE_UNMANAGES)]
    assert set(of(pair).values()) == {shared(100)}


def test_a_disk_of_which_it_is_unknown_what_it_may_do_may_be_a_member(pair: Node) -> None:
    pair.rules = everywhere(shared(90))
    pair.hypervisor.before["actual"] = raising(Rejected("no"))  # of vda, when it is looked at
    assert became(pair.run()) == [("unknown", Code.REJECTED), WITHHELD]
    assert set(of(pair).values()) == {shared(100)}
    assert kinds(pair.run()) == ["changed"] * 2


def test_members_for_which_different_limits_are_desired_are_left_as_they_are(pair: Node) -> None:
    pair.rules = desiring(vda=shared(90), vdb=shared(80))
    assert became(pair.run()) == [("deferred", Code.GROUP_DISAGREES)] * 2
    assert set(of(pair).values()) == {shared(100)}


def test_a_disk_does_not_join_a_group_in_which_others_are_right_with_other_limits(pair: Node) -> None:
    attach(pair, "vdc")
    pair.rules = desiring(vda=shared(100), vdb=shared(100), vdc=shared(50))
    report = pair.run()
    assert kinds(report) == ["in-sync", "in-sync", "deferred"]
    assert codes(report)[2] is Code.GROUP_DISAGREES
    assert report.outcomes[2].result.reason.facts == {"group": "g", "target": "vda"}
    assert of(pair) == {"vda": shared(100), "vdb": shared(100), "vdc": FREE}


def test_a_disk_that_libvirt_alone_has_in_the_group_keeps_it(pair: Node) -> None:
    """libvirt writes the new limits into its definition too, and a restart takes them from there."""
    pair.disk(1, "vdb").actual = own(70)
    pair.rules = desiring(vda=shared(90), vdb=None)
    assert became(pair.run()) == [WITHHELD, ("left-alone", Code.RULE_UNMANAGES)]


def test_a_group_of_the_same_name_in_another_guest_is_another_one(tmp_path: Path) -> None:
    node = Node(tmp_path, guest(1, a_volume(0)), guest(2, a_volume(1)), rules=everywhere(shared(100)))
    node.run()
    node.hold(2, "vda", None)
    node.rules = everywhere(shared(90))
    report = node.run()
    assert kinds(report) == ["changed", "left-alone"]
    assert (of(node, 1), of(node, 2)) == ({"vda": shared(90)}, {"vda": shared(100)})
    assert truthful(node, report)


def test_disks_of_no_group_are_not_kept_by_one_of_their_guest(tmp_path: Path) -> None:
    node = a_node(tmp_path, disks=3, vda=shared(100), vdb=shared(100), vdc=own(100))
    node.hold(1, "vdb", None)
    node.rules = desiring(vda=shared(90), vdb=shared(90), vdc=own(90))
    assert kinds(node.run()) == ["deferred", "left-alone", "changed"]
    assert of(node) == {"vda": shared(100), "vdb": shared(100), "vdc": own(90)}


# --- the writes, and the record of them


def test_each_member_has_its_row_with_its_own_limits_of_before(pair: Node) -> None:
    attach(pair, "vdc")
    pair.rules = everywhere(shared(90))
    report = pair.run()
    assert kinds(report) == ["changed"] * 3
    assert truthful(pair, report)
    assert [(row.disk.target, row.before, row.after, row.result) for row in rows(pair)[2:]] == [
        ("vda", shared(100), shared(90), Ending.DONE),
        ("vdb", shared(100), shared(90), Ending.DONE),
        ("vdc", FREE, shared(90), Ending.DONE),
    ]
    assert {ours.applied for ours in pair.memory.values()} == {shared(90)}
    assert kinds(pair.run()) == ["in-sync"] * 3


def test_a_disk_that_leaves_its_group_does_so_before_the_others_are_written(pair: Node) -> None:
    pair.rules = desiring(vda=shared(400), vdb=own(50))
    report = pair.run()
    assert kinds(report) == ["changed"] * 2
    assert [(target, limits) for _, target, limits in pair.hypervisor.writes] == [
        ("vdb", own(50)),
        ("vda", shared(400)),
    ]
    assert of(pair) == {"vda": shared(400), "vdb": own(50)}


def test_a_disk_that_could_not_leave_keeps_its_group(pair: Node) -> None:
    pair.rules = desiring(vda=shared(400), vdb=own(50))
    pair.hypervisor.before["set_limits"] = refused
    report = pair.run()
    assert became(report) == [WITHHELD, ("failed", Code.REJECTED)]
    assert set(of(pair).values()) == {shared(100)}
    assert truthful(pair, report)


def refused() -> None:
    raise Rejected("no")


def test_a_disk_that_was_to_leave_for_a_group_that_keeps_it_out_keeps_the_one_that_it_is_in(tmp_path: Path) -> None:
    node = a_node(tmp_path, disks=3, vda=shared(100), vdb=shared(100), vdc=shared(100, "h"))
    node.hold(1, "vdc", None)
    node.rules = desiring(vda=shared(400), vdb=shared(400, "h"), vdc=shared(100, "h"))
    report = node.run()
    assert became(report)[:2] == [WITHHELD] * 2
    assert of(node) == {"vda": shared(100), "vdb": shared(100), "vdc": shared(100, "h")}


def test_after_a_write_to_a_member_that_failed_the_rest_of_its_group_stays(pair: Node) -> None:
    pair.rules = everywhere(shared(90))
    pair.hypervisor.before["set_limits"] = refused
    report = pair.run()
    assert became(report) == [("failed", Code.REJECTED), WITHHELD]
    assert set(of(pair).values()) == {shared(100)}
    assert [row.result for row in rows(pair)[2:]] == [Ending.REFUSED, Ending.NOT_SENT]


def hand_on(node: Node, limits: Limits) -> None:
    for target in ("vda", "vdb"):
        set_by_hand(node.disk(1, target), limits)


def at_the_writers_look(node: Node, happens: Callable[[], object]) -> None:
    """The guest is looked at once to decide, and once more before the writes."""
    node.hypervisor.before["look"] = lambda: node.hypervisor.before.update(look=lambda: (happens(), None)[1])


@pytest.mark.parametrize("limits", [shared(100), shared(70)])
def test_a_member_that_came_after_the_decision_keeps_the_group(pair: Node, limits: Limits) -> None:
    pair.rules = desiring(vda=shared(90), vdb=shared(90))
    at_the_writers_look(pair, lambda: attach(pair, "vdc", limits))
    assert became(pair.run()) == [("deferred", Code.CHANGED_SINCE)] * 2
    assert of(pair)["vda"] == shared(100)


def test_a_member_whose_limits_were_changed_after_the_decision_keeps_the_group(pair: Node) -> None:
    attach(pair, "vdc")
    pair.rules = desiring(vda=shared(100), vdb=shared(100), vdc=shared(100))
    at_the_writers_look(pair, lambda: hand_on(pair, shared(70)))
    assert became(pair.run())[2] == ("deferred", Code.CHANGED_SINCE)
    assert of(pair) == {"vda": shared(70), "vdb": shared(70), "vdc": FREE}


def test_a_disk_of_another_group_that_came_after_the_decision_keeps_nothing(pair: Node) -> None:
    pair.rules = desiring(vda=shared(90), vdb=shared(90))
    at_the_writers_look(pair, lambda: attach(pair, "vdc", shared(70, "h")))
    assert kinds(pair.run()) == ["changed"] * 2


def test_a_disk_joins_a_group_only_after_another_has_left_it(tmp_path: Path) -> None:
    """Else the one that leaves would have the limits of the group for a while, and keep them when it cannot leave."""
    node = a_node(tmp_path, disks=3, vda=shared(100), vdb=shared(50, "h"), vdc=shared(20, "i"))
    node.rules = desiring(vda=shared(400, "h"), vdb=shared(300, "i"), vdc=own(10))
    assert kinds(node.run(Mode.PLAN)) == ["planned"] * 3
    assert kinds(node.run()) == ["changed"] * 3
    assert [target for _, target, _ in node.hypervisor.writes] == ["vdc", "vdb", "vda"]
    assert of(node) == {"vda": shared(400, "h"), "vdb": shared(300, "i"), "vdc": own(10)}


def test_disks_that_are_to_swap_their_groups_stay_where_they_are(tmp_path: Path) -> None:
    node = a_node(tmp_path, disks=3, vda=shared(100), vdb=shared(50, "h"), vdc=own(20))
    node.rules = desiring(vda=shared(400, "h"), vdb=shared(300), vdc=shared(300))
    report = node.run()
    assert became(report) == [("deferred", Code.GROUP_DISAGREES)] * 3
    assert report.outcomes[0].result.reason.facts == {"group": "h", "target": "vdb"}
    assert of(node) == {"vda": shared(100), "vdb": shared(50, "h"), "vdc": own(20)}


def after_the_first_write(node: Node, happens: Callable[[], None]) -> None:
    node.hypervisor.before["set_limits"] = lambda: node.hypervisor.before.update(actual=happens)


def test_a_pause_after_the_first_write_to_a_group_does_not_hide_what_it_did_to_the_others(pair: Node) -> None:
    pair.rules = everywhere(shared(90))
    after_the_first_write(pair, lambda: setattr(pair, "paused", lambda: because(Code.PAUSED, file="paused", why="")))
    report = pair.run()
    assert kinds(report) == ["changed"] * 2
    assert [target for _, target, _ in pair.hypervisor.writes] == ["vda"]
    assert truthful(pair, report)
    assert [row.result for row in rows(pair)[2:]] == [Ending.DONE] * 2
    assert {ours.applied for ours in pair.memory.values()} == {shared(90)}


def test_a_member_whose_own_write_was_refused_has_the_limits_of_its_group(pair: Node) -> None:
    pair.rules = everywhere(shared(90))
    after_the_first_write(pair, lambda: pair.hypervisor.before.update(set_limits=refused))
    report = pair.run()
    assert kinds(report) == ["changed"] * 2
    assert truthful(pair, report)


def test_a_disk_that_could_not_join_does_not_have_the_limits_of_the_group(pair: Node) -> None:
    attach(pair, "vdc")
    pair.rules = everywhere(shared(90))
    second = lambda: pair.hypervisor.before.update(set_limits=refused)  # noqa: E731
    after_the_first_write(pair, lambda: after_the_first_write(pair, second))
    report = pair.run()
    assert became(report)[2] == ("failed", Code.REJECTED)
    assert truthful(pair, report)
    assert of(pair)["vdc"] == FREE


def test_a_write_to_a_member_that_was_not_answered_may_have_changed_the_others(pair: Node) -> None:
    def takes_and_hangs() -> None:
        hand_on(pair, shared(90))
        raise hangs()

    attach(pair, "vdc")
    pair.rules = everywhere(shared(90))
    pair.hypervisor.before["set_limits"] = takes_and_hangs
    report = pair.run()
    assert became(report) == [("unknown", Code.TIMED_OUT)] * 2 + [("failed", Code.GUEST_TIMED_OUT)]
    assert [row.result for row in rows(pair)[2:]] == [Ending.TIMED_OUT] * 2 + [Ending.NOT_SENT]
    assert kinds(pair.run()) == ["in-sync", "in-sync", "changed"]
    assert [row.result for row in rows(pair)[2:]] == [Ending.TOOK] * 2 + [
        Ending.NOT_SENT,
        Ending.DONE,
    ]


def test_a_member_that_cannot_be_read_after_its_group_was_written_is_unknown(pair: Node) -> None:
    pair.rules = everywhere(shared(90))

    def pauses_and_hangs() -> None:
        pair.paused = lambda: because(Code.PAUSED, file="paused", why="")
        pair.hypervisor.before["actual"] = refused

    pair.hypervisor.before["set_limits"] = lambda: pair.hypervisor.before.update(
        actual=pauses_and_hangs,
    )
    report = pair.run()
    assert became(report)[1] == ("unknown", Code.REJECTED)


def test_without_a_record_a_disk_that_may_not_leave_keeps_its_group(
    pair: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair.rules = desiring(vda=shared(90), vdb=own(50))
    monkeypatch.setattr(Record, "intend", raising(StateError("record: no space left on device")))
    report = pair.run()
    assert became(report) == [WITHHELD, ("failed", Code.NO_RECORD)]
    assert set(of(pair).values()) == {shared(100)}
    assert sorted(pair.told, key=lambda o: o.disk.key) == sorted(report.outcomes, key=lambda o: o.disk.key)


def test_without_a_record_a_group_is_lowered_all_the_same(pair: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    pair.rules = everywhere(shared(90))
    monkeypatch.setattr(Record, "intend", raising(StateError("record: no space left on device")))
    assert kinds(pair.run()) == ["changed"] * 2


# --- disks that are not on RBD


IN_A_GROUP = (
    "<disk type='file' device='disk'><source file='/var/lib/nova/disk'/><target dev='vdz' bus='virtio'/>"
    "<iotune><total_iops_sec>70</total_iops_sec><group_name>g</group_name></iotune></disk>"
)


def test_a_group_that_a_disk_of_another_kind_is_in_is_left_as_it_is(pair: Node) -> None:
    there = pair.hypervisor.by_uuid[uuid_of(1)]
    pair.rules = desiring(vda=shared(90), vdb=shared(90, "h"))
    there.xml = domain_xml(there).replace("</devices>", f"{IN_A_GROUP}</devices>")
    plan = pair.run(Mode.PLAN)
    assert became(plan) == [("deferred", Code.GROUP_OF_OTHERS), ("planned", Code.RULE)]
    assert plan.outcomes[0].result.reason.facts == {"group": "g"}
    there.xml = None
    at_the_writers_look(
        pair, lambda: setattr(there, "xml", domain_xml(there).replace("</devices>", f"{IN_A_GROUP}</devices>"))
    )
    assert became(pair.run())[0] == ("deferred", Code.CHANGED_SINCE)
    assert pair.disk(1, "vda").actual == shared(100)


# --- undoing


def test_an_undo_of_a_whole_group_reverts_every_member(pair: Node) -> None:
    moment = pair.now + timedelta(seconds=1)
    pair.rules = everywhere(shared(90))
    pair.run()
    assert Person(pair).undo(moment).exit_status == 0
    assert set(of(pair).values()) == {shared(100)}


def test_an_undo_of_one_member_while_another_stays_leaves_both(pair: Node) -> None:
    moment = pair.now + timedelta(seconds=1)
    pair.rules = everywhere(shared(90))
    pair.run()
    set_by_hand(pair.disk(1, "vdb"), shared(80))
    pair.disk(1, "vda").actual = pair.disk(1, "vda").defined = shared(90)
    report = Person(pair).undo(moment)
    assert [(each.result.kind, each.result.reason.code) for each in report.undone] == [
        (Kind.DEFERRED, Code.GROUP_WITHHELD),
        (Kind.LEFT_ALONE, Code.EXTERNAL_CHANGE),
    ]
    assert of(pair) == {"vda": shared(90), "vdb": shared(80)}


# --- values

SOMEBODY = a_guest()
WHY = because(Code.NODE_DEFAULT)
planned = partial(outcomes.planned, reason=WHY)


def disk(target: str, actual: Limits | Unknown | None, defined: Limits | Unknown | None = None) -> Disk:
    known = defined or (actual if isinstance(actual, Limits) else FREE)
    return a_disk(SOMEBODY, target=target, volume_id=None, image=target, actual=actual, defined=known)


def stays(there: Disk, kind: Kind = Kind.IN_SYNC) -> Outcome:
    return staying(there, Desired(FREE, WHY), kind, WHY)


def directions(*outcomes: Outcome) -> list[Direction | None]:
    return [None if each.change is None else each.change.direction for each in judged(outcomes)]


def kept(*outcomes: Outcome) -> list[Code | None]:
    """Why each is deferred."""
    return [
        after.result.reason.code if after.result.kind is Kind.DEFERRED else None for after in withheld(list(outcomes))
    ]


LOWER, RAISE = Direction.LOWER, Direction.RAISE


def test_a_change_of_a_group_has_the_loosest_direction_that_it_has_for_any_member() -> None:
    new, low, high = disk("vda", FREE), disk("vdb", shared(100)), disk("vdc", shared(500))
    assert directions(planned(new, shared(400))) == [LOWER]
    assert directions(planned(new, shared(400)), stays(high)) == [LOWER, None]
    assert directions(planned(new, shared(400)), stays(low)) == [RAISE, None]
    assert directions(stays(low), planned(new, shared(400)), stays(high)) == [None, RAISE, None]
    assert directions(planned(new, shared(400)), stays(disk("vdb", shared(100, "h")))) == [LOWER, None]
    assert directions(planned(new, own(400)), stays(low)) == [LOWER, None], "it joins no group"
    assert directions(planned(new, shared(100)), stays(low)) == [LOWER, None], "they have these very limits"


def test_a_change_knows_its_members_by_what_was_defined_for_them() -> None:
    unknown = Unknown(because(Code.TIMED_OUT, detail=""))
    there = [
        disk("vda", FREE),
        disk("vdb", shared(100)),
        disk("vdc", own(70), defined=shared(90)),
        disk("vdd", shared(100, "h")),
        disk("vde", unknown),
    ]
    outcomes = judged([planned(there[0], shared(100)), *(stays(each) for each in there[1:])])
    (change,) = (each.change for each in outcomes if each.change is not None)
    members = [there[1], there[2], there[4]]
    assert change.members == tuple((each.key, each.defined) for each in members)
    assert not moved(change, there)
    assert moved(change, [there[0], there[1], there[4]]), "one has gone"
    assert moved(change, [*there, disk("vdf", shared(100))]), "one has come"
    assert moved(change, [*there, disk("vdf", FREE, defined=unknown)]), "one may have come"
    assert moved(change, [*there[:1], replace(there[1], defined=shared(99)), *there[2:]])
    assert not moved(change, [*there, disk("vdf", own(1))])
    assert not moved(replace(change, after=own(1)), []), "of no group"


def test_who_is_not_to_be_changed_keeps_a_group_unless_it_is_right_with_just_these_limits() -> None:
    mine, yours = disk("vda", shared(100)), disk("vdb", shared(100))
    assert kept(planned(mine, shared(90)), planned(yours, shared(90))) == [None, None]
    assert kept(planned(mine, shared(90)), planned(yours, own(90))) == [None, None], "it leaves"
    assert kept(planned(mine, shared(90)), stays(yours)) == [Code.GROUP_DISAGREES, None]
    assert kept(planned(mine, shared(90)), stays(disk("vdb", shared(90)))) == [None, None]
    for kind in (Kind.LEFT_ALONE, Kind.UNKNOWN, Kind.FAILED):
        assert kept(planned(mine, shared(90)), stays(disk("vdb", shared(90)), kind)) == [
            Code.GROUP_WITHHELD,
            None,
        ]
    held = replace(stays(disk("vdb", shared(90))), result=Result(Kind.IN_SYNC, because(Code.HOLD)))
    assert kept(planned(mine, shared(90)), held) == [Code.GROUP_WITHHELD, None]
    assert kept(planned(mine, shared(90)), planned(yours, shared(80))) == [Code.GROUP_DISAGREES] * 2
    assert kept(planned(mine, own(90)), stays(yours, Kind.LEFT_ALONE)) == [None, None], "it leaves the group"
    waiting = replace(planned(yours, shared(90)), result=Result(Kind.DEFERRED, because(Code.BRAKED)))
    assert kept(planned(mine, shared(90)), waiting) == [Code.GROUP_WITHHELD, Code.BRAKED]
    another = replace(SOMEBODY, uuid=uuid_of(5))
    elsewhere = stays(replace(yours, guest=another), Kind.LEFT_ALONE)
    assert kept(elsewhere, planned(mine, shared(90)), elsewhere) == [None, None, None]


def test_a_disk_behind_throttle_filters_is_in_no_group_but_theirs_which_no_other_disk_joins() -> None:
    unknown, theirs = Unknown(because(Code.THROTTLE_FILTERS, groups={"limit0": None})), "throttle-limit0"
    of_both = replace(SOMEBODY, filter_groups=frozenset({theirs}))
    mine = replace(disk("vda", FREE), guest=of_both)
    behind = stays(replace(disk("vdb", unknown), guest=of_both, filters=(("limit0", unknown),)), Kind.LEFT_ALONE)
    assert kept(planned(mine, shared(90)), behind) == [None, None]
    reason = withheld([planned(mine, shared(90, theirs)), behind])[0].result.reason
    assert reason == because(Code.GROUP_OF_FILTERS, group=theirs)


def test_a_change_that_is_deferred_defers_those_of_the_group_that_its_disk_was_to_leave() -> None:
    first = planned(disk("vda", shared(100)), shared(90))
    second = planned(disk("vdb", shared(100)), shared(70, "h"))
    third = planned(disk("vdc", shared(100, "h")), shared(70, "i"))
    last = stays(disk("vdd", shared(70, "i")), Kind.LEFT_ALONE)
    assert kept(first, second, third) == [None, None, None]
    assert kept(first, second, third, last) == [Code.GROUP_WITHHELD] * 3 + [None]
    facts = withheld([first, second, third, last])[0].result.reason.facts
    assert (facts["group"], facts["target"]) == ("g", "vdb")


def test_changes_that_need_not_wait_for_each_other_keep_their_order() -> None:
    def change(target: str, before: Limits, after: Limits) -> Change:
        made = planned(disk(target, before), after).change
        assert made is not None
        return made

    stays_in, alone = change("vda", shared(1), shared(2)), change("vdb", own(1), own(2))
    assert in_order([stays_in, alone]) == ([stays_in, alone], [])
    leaves, joins = change("vdc", shared(1), FREE), change("vdd", own(1), shared(2))
    assert in_order([joins, stays_in, alone, leaves]) == ([alone, leaves, joins, stays_in], [])
    first, second = change("vda", shared(1), shared(1, "h")), change("vdb", shared(1, "h"), shared(1))
    assert in_order([first, alone, second, joins]) == ([alone], [first, second, joins])


def test_outcomes_keep_their_order_whatever_guests_they_are_of() -> None:
    other = replace(SOMEBODY, uuid=uuid_of(1), name="other")
    mixed = [
        planned(disk("vda", shared(100)), shared(90)),
        planned(replace(disk("vda", shared(100)), guest=other), shared(90)),
        planned(disk("vdb", shared(100)), shared(90)),
        stays(replace(disk("vdb", shared(100)), guest=other)),
    ]
    assert [each.disk for each in judged(mixed)] == [each.disk for each in mixed]
    assert kept(*mixed) == [None, Code.GROUP_DISAGREES, None, None]
