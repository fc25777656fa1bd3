"""An operator's hold: the last word while it stands, and after it what was there before, or what is desired."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from plimsoll_agent.errors import NotSent
from plimsoll_agent.model.entries import RecordedEvent
from plimsoll_agent.model.holds import Hold, active_holds
from plimsoll_agent.model.hypervisor import Movement
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, because
from plimsoll_agent.reconcile.outcome import Mode
from plimsoll_agent.rules.model import Match, Rule, Rules
from plimsoll_agent.store import record_query
from plimsoll_agent.store.node_store import NodeStore
from plimsoll_agent.store.record import Record
from plimsoll_agent.store.record_query import Selection
from plimsoll_agent.store.state import StateError
from tests.fakes import FakeGuest, raising
from tests.unit.node import DEFAULT, TIGHTER, UUIDS, Node, a_volume, codes, guest, kinds, notes, own_disk, set_by_hand
from tests.unit.values import NOON, a_disk

GOLD, HELD = Limits(total_iops_sec=3000), Limits(total_iops_sec=5000)
HOUR, AFTER = timedelta(hours=1), timedelta(hours=3)
NO_RULES = Rules()


def a_node(directory: Path, limits: Limits | None = None, rules: Rules = NO_RULES) -> Node:
    """A node with one volume, attached with these limits where some are given, after its first pass."""
    node = Node(directory, guest(1, a_volume(1, limits)), rules=rules)
    node.run()
    return node


def hold_for_two_hours(node: Node, limits: Limits | None = HELD) -> None:
    node.hold(1, "vda", limits)
    node.run()


def end(node: Node) -> None:
    """The hold's end comes, and a pass with it."""
    node.now += AFTER
    node.run()


def actual(node: Node) -> Limits:
    return node.disk(1).actual


def restart(node: Node, *, from_persistent: bool) -> FakeGuest:
    """From the persistent definition, or the way that Nova does it: written anew, without our limits."""
    again, disk = node.hypervisor.by_uuid[UUIDS[1]], node.disk(1)
    node.hypervisor.restart(again, defined=disk.persistent if from_persistent else Limits())
    return again


# --- the last word


EXEMPT = Rules(rules=(Rule(name="x", match=Match(), manage=False),))


def test_a_hold_says_who_why_and_until_when_and_ends_with_its_last_moment() -> None:
    hold = Hold(disk=a_disk().named, limits=None, since=NOON - HOUR, until=NOON, by="ann", why="a test")
    assert hold.reason.facts == {"why": "a test", "by": "ann", "until": "2026-11-20T12:00:00+00:00"}
    assert active_holds({"a": hold}, NOON - timedelta(seconds=1)) == {"a": hold}
    assert active_holds({"a": hold}, NOON) == {}


# --- in force, and not


def test_held_limits_are_guarded_and_left_to_external_changes_after_the_rounds(tmp_path: Path) -> None:
    node = a_node(tmp_path, rules=Rules(default=DEFAULT))
    hold_for_two_hours(node)
    assert actual(node) == HELD
    for _ in range(node.rounds):
        set_by_hand(node.disk(1), TIGHTER)
        node.run()
        assert actual(node) == HELD
    set_by_hand(node.disk(1), TIGHTER)
    assert codes(node.run()) == [Code.REVERTED_TOO_OFTEN]
    assert actual(node) == TIGHTER
    node.run(yes=True)
    assert actual(node) == HELD, "a person is at it now"
    end(node)
    assert actual(node) == DEFAULT


def test_a_disk_that_is_held_as_it_is_is_not_written_to(tmp_path: Path) -> None:
    node = Node(tmp_path, guest(1, a_volume(1, GOLD)), rules=Rules(default=DEFAULT))
    set_by_hand(node.disk(1), Limits())
    node.hold(1, "vda", None)
    assert codes(node.run()) == [Code.HOLD]
    set_by_hand(node.disk(1), GOLD)
    assert codes(node.run()) == [Code.HOLD]
    assert node.hypervisor.writes == []
    set_by_hand(node.disk(1), Limits())
    end(node)
    assert actual(node) == DEFAULT


def held_and_rebooted(directory: Path) -> tuple[Node, FakeGuest]:
    """Its disk had limits, is held as it is, and came back from a hard reboot without any."""
    node = a_node(directory, rules=Rules(default=DEFAULT))
    node.run()
    node.hold(1, "vda", None)
    node.run()
    (owner,) = node.hypervisor.by_uuid.values()
    node.hypervisor.restart(owner)
    return node, owner


def test_a_disk_that_is_held_as_it_is_has_its_limits_again_after_a_hard_reboot(tmp_path: Path) -> None:
    node, _ = held_and_rebooted(tmp_path)
    for _ in range(2):
        assert set(codes(node.run())) == {Code.HOLD}
        assert actual(node) == DEFAULT
    set_by_hand(node.disk(1), Limits())
    node.run()
    assert actual(node) == Limits(), "by hand, and held as it is"


@pytest.mark.parametrize("limits", [Limits(), HELD], ids=["freed", "raised"])
@pytest.mark.parametrize("is_rebooted", [True, False])
def test_a_disk_that_is_held_with_limits_set_by_hand_never_gets_plimsolls_during_the_hold(
    tmp_path: Path, limits: Limits, is_rebooted: bool
) -> None:
    node = a_node(tmp_path, rules=Rules(default=DEFAULT))
    set_by_hand(node.disk(1), limits)
    hold_for_two_hours(node, None)
    if is_rebooted:
        node.hypervisor.restart(node.hypervisor.by_uuid[UUIDS[1]])
    writes = len(node.hypervisor.writes)
    for _ in range(2):
        assert kinds(node.run()) == ["left-alone"]
    assert len(node.hypervisor.writes) == writes
    end(node)
    assert actual(node) == DEFAULT, "the default is for it, not only for disks that came without limits"
    assert kinds(node.run()) == ["in-sync"]


@pytest.mark.parametrize("limits", [Limits(), HELD], ids=["freed", "raised"])
def test_limits_set_by_hand_during_such_a_hold_are_reverted_after_it_as_an_external_change(
    tmp_path: Path, limits: Limits
) -> None:
    node = a_node(tmp_path, rules=Rules(default=DEFAULT))
    set_by_hand(node.disk(1), limits)
    hold_for_two_hours(node, None)
    node.now += AFTER
    (outcome,) = node.run().outcomes
    assert outcome.change is not None
    assert (outcome.change.cause, actual(node)) == (Code.EXTERNAL_CHANGE, DEFAULT)


def test_the_end_of_a_hold_without_limits_is_no_external_change(tmp_path: Path) -> None:
    node = a_node(tmp_path, rules=Rules(default=DEFAULT))
    hold_for_two_hours(node, Limits())
    node.now += AFTER
    (outcome,) = node.run().outcomes
    assert outcome.change is not None
    assert (outcome.change.cause, actual(node)) == (Code.DESIRED_CHANGED, DEFAULT)


def test_limits_that_the_command_line_took_away_are_no_external_change(tmp_path: Path) -> None:
    node = a_node(tmp_path, rules=Rules(default=DEFAULT))
    plain, node.rules = node.rules, node.rules.with_command_line(Limits())
    node.run(yes=True)
    assert actual(node) == Limits()
    node.rules = plain
    (outcome,) = node.run().outcomes
    assert outcome.change is not None
    assert (outcome.change.cause, actual(node)) == (Code.DESIRED_CHANGED, DEFAULT)


def test_limits_that_such_a_disk_got_back_are_known_as_plimsolls_from_the_record(tmp_path: Path) -> None:
    """Else the disk follows no rule any more where the memory is lost."""
    node = a_node(tmp_path, rules=Rules(default=DEFAULT))
    hold_for_two_hours(node, None)
    restart(node, from_persistent=False)
    node.run()
    assert actual(node) == DEFAULT
    node.state.memory.unlink()
    (guest,) = node.hypervisor.by_uuid.values()
    guest.marks = None
    node.now += AFTER
    node.run()
    node.rules = Rules(default=HELD, revision="other")
    node.run(yes=True)
    assert actual(node) == HELD


@pytest.mark.parametrize("is_rebooted", [True, False])
def test_limits_of_plimsoll_that_a_person_set_back_during_such_a_hold_are_plimsolls_again(
    tmp_path: Path, is_rebooted: bool
) -> None:
    node = a_node(tmp_path, rules=Rules(default=DEFAULT))
    set_by_hand(node.disk(1), HELD)
    hold_for_two_hours(node, None)
    set_by_hand(node.disk(1), DEFAULT)
    node.run()
    if is_rebooted:
        restart(node, from_persistent=False)
        node.run()
        assert actual(node) == DEFAULT
    end(node)
    set_by_hand(node.disk(1), HELD)
    (outcome,) = node.run().outcomes
    assert outcome.change is not None
    assert outcome.change.cause is Code.EXTERNAL_CHANGE


def test_limits_set_back_between_two_passes_at_the_end_of_such_a_hold_are_plimsolls_too(tmp_path: Path) -> None:
    node = a_node(tmp_path, rules=Rules(default=DEFAULT))
    set_by_hand(node.disk(1), HELD)
    hold_for_two_hours(node, None)
    set_by_hand(node.disk(1), DEFAULT)
    end(node)
    (entry,) = NodeStore(node.state, "ann").recall(node.now, read_only=True).disks.values()
    assert entry.applied == DEFAULT, "as a probe takes it for what is promised"


@pytest.mark.parametrize("is_killed", [False, True])
def test_limits_that_a_held_disk_got_back_after_a_hard_reboot_stay_after_the_hold(
    tmp_path: Path, is_killed: bool
) -> None:
    """They were orphaned before: only an approval removes them."""
    node = a_node(tmp_path, rules=Rules(default=DEFAULT))
    node.rules = NO_RULES
    assert codes(node.run()) == [Code.ORPHANED]
    hold_for_two_hours(node, None)
    node.hypervisor.restart(node.hypervisor.by_uuid[UUIDS[1]])
    if is_killed:
        killed(node, "define_limits")
    node.run()
    assert actual(node) == DEFAULT
    end(node)
    assert actual(node) == DEFAULT
    assert codes(node.run()) == [Code.ORPHANED]


@pytest.mark.parametrize("obstacle", ["starting", "paused", "refused", "observed"])
def test_limits_that_a_hard_reboot_took_from_a_held_disk_are_written_once_a_pass_can(
    tmp_path: Path, obstacle: str
) -> None:
    """The disk was unlimited for the rest of the hold where the first pass after the reboot did not write."""
    node, owner = held_and_rebooted(tmp_path)
    match obstacle:
        case "starting":  # libvirt's reason for its pause until QEMU runs
            owner.movement = Movement.ARRIVING
        case "paused":
            node.paused = lambda: because(Code.PAUSED, file="paused", why="")
        case "refused":
            node.hypervisor.before["set_limits"] = raising(NotSent("another job has the guest"))
    node.run(Mode.OBSERVE if obstacle == "observed" else Mode.ENFORCE)
    owner.movement, node.paused = Movement.STAYS, lambda: None
    assert actual(node) == Limits()
    node.run()
    assert actual(node) == DEFAULT


def test_a_hold_is_for_its_disk_alone(tmp_path: Path) -> None:
    node = Node(tmp_path, guest(1), guest(2))
    node.hold(1, "vda", HELD)
    node.run()
    assert [disk.actual for disk in node.disks()] == [HELD, DEFAULT, DEFAULT, DEFAULT]


def test_a_plan_shows_the_hold_and_leaves_the_disk(tmp_path: Path) -> None:
    node = a_node(tmp_path)
    node.hold(1, "vda", HELD)
    assert codes(node.run(Mode.PLAN)) == codes(node.run(Mode.OBSERVE)) == [Code.HOLD]
    assert node.hypervisor.writes == []


# --- the end


def test_after_a_hold_the_disk_goes_to_what_the_sources_say_now(tmp_path: Path) -> None:
    node = a_node(tmp_path, rules=Rules(default=DEFAULT))
    hold_for_two_hours(node)
    node.rules = Rules(default=TIGHTER)
    assert kinds(node.run()) == ["in-sync"], "not before the end"
    end(node)
    assert actual(node) == TIGHTER


def test_after_a_hold_a_disk_of_which_nothing_is_desired_goes_back_to_what_it_had(tmp_path: Path) -> None:
    node = a_node(tmp_path, rules=Rules(default=DEFAULT))
    hold_for_two_hours(node)
    node.rules = NO_RULES
    end(node)
    assert actual(node) == DEFAULT
    assert codes(node.run()) == [Code.ORPHANED]
    node.rules = Rules(default=TIGHTER)
    assert kinds(node.run()) == ["changed"], "it is still ours"


def test_after_a_hold_limits_of_others_are_back_and_theirs(tmp_path: Path) -> None:
    node = a_node(tmp_path, GOLD, Rules(default=DEFAULT))
    hold_for_two_hours(node)
    assert actual(node) == HELD
    end(node)
    assert actual(node) == GOLD
    assert codes(node.run()) == [Code.FOREIGN_LIMIT], "the default is not for them, before as after"
    set_by_hand(node.disk(1), HELD)
    assert codes(node.run()) == [Code.FOREIGN_LIMIT], "and others may change them"


def test_limits_that_another_client_changes_during_a_hold_are_not_what_it_goes_back_to(tmp_path: Path) -> None:
    node = a_node(tmp_path, GOLD, Rules(default=DEFAULT))
    hold_for_two_hours(node, GOLD)  # as they are: there is nothing to write
    set_by_hand(node.disk(1), HELD)
    node.run()
    assert actual(node) == GOLD
    end(node)
    assert actual(node) == GOLD
    assert codes(node.run()) == [Code.FOREIGN_LIMIT], "and foreign"


@pytest.mark.parametrize("rules", [NO_RULES, Rules(default=DEFAULT)], ids=["no rules", "default"])
def test_a_hold_goes_back_to_what_was_promised_and_not_to_what_was_set_behind_libvirts_back(
    tmp_path: Path, rules: Rules
) -> None:
    node = Node(tmp_path, guest(1, a_volume(1, GOLD)), rules=rules)
    node.disk(1).actual = Limits(total_iops_sec=9999)
    hold_for_two_hours(node, TIGHTER)
    assert actual(node) == TIGHTER
    end(node)
    assert actual(node) == GOLD


@pytest.mark.parametrize("mode", [Mode.ENFORCE, Mode.OBSERVE])
def test_a_hold_that_never_came_actual_leaves_what_others_set_since(tmp_path: Path, mode: Mode) -> None:
    node = a_node(tmp_path, GOLD)
    node.ceph.raised = ("OSD_DOWN",)
    node.hold(1, "vda", HELD)
    node.run(mode)
    set_by_hand(node.disk(1), TIGHTER)
    node.run(mode)
    node.ceph.raised = ()
    end(node)
    assert actual(node) == TIGHTER


def test_a_second_hold_goes_back_to_what_was_there_before_the_first(tmp_path: Path) -> None:
    node = a_node(tmp_path, GOLD)
    hold_for_two_hours(node)
    hold_for_two_hours(node, DEFAULT)
    assert actual(node) == DEFAULT
    hold_for_two_hours(node, None)
    assert actual(node) == DEFAULT
    end(node)
    assert actual(node) == GOLD


def test_the_end_of_a_hold_is_told_once_and_the_hold_is_gone(tmp_path: Path) -> None:
    node = a_node(tmp_path)
    hold_for_two_hours(node)
    assert len(node.holds) == 1
    end(node)
    assert actual(node) == Limits(), "it had none before"
    assert codes(node.run()) == [Code.NO_LIMIT]
    assert node.holds == {}
    events = [
        entry
        for entry in record_query.entries(Record(node.state.record), Selection())
        if isinstance(entry, RecordedEvent)
    ]
    (ended,) = [event for event in events if event.what.value == "hold-ended"]
    assert ended.disk is not None
    assert (ended.disk.guest_name, ended.disk.target) == ("instance-00000001", "vda")


def test_the_end_of_a_hold_is_told_by_a_later_pass_where_this_one_cannot(tmp_path: Path) -> None:
    node = a_node(tmp_path)
    hold_for_two_hours(node)

    class FullDisk(NodeStore):
        def __init__(self) -> None:
            super().__init__(node.state, "tests")
            self._record = type("FullRecord", (Record,), {"note": _full, "intend": _full})(node.state.record)

    node.now += AFTER
    report = node.run(node_store=FullDisk())
    assert notes(report) == [Code.NO_RECORD] * 2
    assert codes(report) == [Code.NO_RECORD], "going back here would lift a limit, without a record"
    assert next(iter(node.memory.values())).applied == HELD, "the memory is kept all the same"
    node.run()
    assert actual(node) == Limits()
    assert [
        entry.what.value
        for entry in record_query.entries(Record(node.state.record), Selection(reason="hold-ended"))
        if isinstance(entry, RecordedEvent)
    ] == ["hold-ended"]


def _full(*_: object) -> None:
    raise StateError("record.sqlite: database or disk is full")


def test_a_hold_that_needed_no_write_leaves_nothing_behind(tmp_path: Path) -> None:
    node = a_node(tmp_path, rules=Rules(default=DEFAULT))
    hold_for_two_hours(node, DEFAULT)
    node.rules = NO_RULES
    end(node)
    assert codes(node.run()) == [Code.ORPHANED]
    assert actual(node) == DEFAULT


def test_what_was_there_before_a_hold_does_not_come_back_once_a_source_has_spoken(tmp_path: Path) -> None:
    node = a_node(tmp_path, rules=Rules(default=DEFAULT))
    hold_for_two_hours(node)
    node.rules = Rules(default=HELD)  # just what the hold applied: after it there is nothing to write
    end(node)
    node.rules = NO_RULES
    assert codes(node.run()) == [Code.ORPHANED]
    assert actual(node) == HELD


def test_a_hold_whose_end_comes_while_ceph_is_unhealthy_goes_back_when_it_is_well(tmp_path: Path) -> None:
    node = a_node(tmp_path, GOLD)
    hold_for_two_hours(node, DEFAULT)
    node.ceph.raised = ("OSD_DOWN",)
    node.now += AFTER
    for _ in range(2):
        assert codes(node.run()) == [Code.CLUSTER_UNHEALTHY]
        assert actual(node) == DEFAULT
    node.ceph.raised = ()
    assert codes(node.run()) == [Code.HOLD_ENDED]
    assert actual(node) == GOLD
    assert codes(node.run()) == [Code.FOREIGN_LIMIT]


def test_a_hold_may_ignore_the_health_gate_for_as_long_as_it_stands_and_its_end_does_not(tmp_path: Path) -> None:
    node = a_node(tmp_path, GOLD)
    node.ceph.raised = ("OSD_DOWN",)
    node.hold(1, "vda", Limits(), ignore_health=True)
    node.run()
    assert actual(node) == Limits()
    set_by_hand(node.disk(1), TIGHTER)
    node.run()
    assert actual(node) == Limits(), "each pass, not the first one alone"
    node.hold(1, "vda", TIGHTER, ignore_health=True)
    node.run()
    node.now += AFTER
    assert codes(node.run()) == [Code.CLUSTER_UNHEALTHY]
    assert actual(node) == TIGHTER


def test_a_hold_that_raises_waits_for_ceph_and_one_that_lowers_does_not(tmp_path: Path) -> None:
    node = Node(tmp_path, guest(1, a_volume(1), own_disk(1)))
    node.run()
    node.hold(1, "vda", HELD)
    node.hold(1, "vdb", TIGHTER)
    node.ceph.raised = ("SLOW_OPS",)
    assert kinds(node.run()) == ["deferred", "changed"]


# --- restarts, kills, losses


@pytest.mark.parametrize("from_persistent", [True, False])
@pytest.mark.parametrize("rules", [NO_RULES, Rules(default=DEFAULT)], ids=["no rules", "default"])
def test_a_hold_outlives_restarts_of_its_guest(tmp_path: Path, rules: Rules, from_persistent: bool) -> None:
    node = a_node(tmp_path, rules=rules)
    hold_for_two_hours(node)
    restart(node, from_persistent=from_persistent)
    node.run()
    assert actual(node) == HELD
    end(node)
    assert actual(node) == (rules.default or Limits())


def test_limits_of_others_come_back_though_the_guest_was_restarted_during_the_hold(tmp_path: Path) -> None:
    node = a_node(tmp_path, GOLD, Rules(default=DEFAULT))
    hold_for_two_hours(node)
    restart(node, from_persistent=True)
    node.run()
    end(node)
    assert actual(node) == GOLD
    assert codes(node.run()) == [Code.FOREIGN_LIMIT]


def test_a_guest_that_is_off_when_its_hold_ends_goes_back_when_it_is_on_again(tmp_path: Path) -> None:
    node = a_node(tmp_path, GOLD)
    hold_for_two_hours(node)
    again = restart(node, from_persistent=True)
    del node.hypervisor.by_uuid[UUIDS[1]]
    end(node)
    node.hypervisor.by_uuid[UUIDS[1]] = again
    assert codes(node.run()) == [Code.HOLD_ENDED]
    assert actual(node) == GOLD


def test_a_volume_attached_again_during_a_hold_is_held_and_goes_back_to_what_it_came_with(tmp_path: Path) -> None:
    node = a_node(tmp_path, GOLD)
    hold_for_two_hours(node)
    node.hypervisor.attach(node.hypervisor.by_uuid[UUIDS[1]], "vda", a_volume(1, DEFAULT))
    node.run()
    assert actual(node) == HELD
    end(node)
    assert actual(node) == DEFAULT


def killed(node: Node, at: str) -> None:
    """A pass that ends with kill -9 just before a call: neither its results nor its memory are saved."""

    class Killed(BaseException):
        pass

    def kill() -> None:
        raise Killed

    saved = node.state.memory.read_bytes()
    node.hypervisor.before[at] = kill
    with pytest.raises(Killed):
        node.run()
    node.state.memory.write_bytes(saved)


def unanswered(node: Node) -> None:
    """A pass whose write takes, and is not answered in time."""
    one = node.hypervisor.by_uuid[UUIDS[1]]

    def slow() -> None:
        raise TimeoutError

    node.hypervisor.before["set_limits"] = lambda: node.hypervisor.before.update(actual=slow)
    assert kinds(node.run()) == ["unknown"]
    assert one.disks["vda"].actual == HELD


@pytest.mark.parametrize(
    "interruption", [lambda node: killed(node, "define_limits"), unanswered], ids=["killed", "slow"]
)
@pytest.mark.parametrize(
    ("had", "rules"), [(GOLD, Rules(default=DEFAULT)), (None, NO_RULES)], ids=["foreign", "none"]
)
def test_a_pass_that_was_interrupted_while_it_put_a_hold_forgets_not_what_was_there_before(
    tmp_path: Path, had: Limits | None, rules: Rules, interruption: Callable[[Node], None]
) -> None:
    node = a_node(tmp_path, had, rules)
    node.hold(1, "vda", HELD)
    interruption(node)
    assert actual(node) == HELD
    assert kinds(node.run()) == ["in-sync"]
    end(node)
    assert actual(node) == (had or Limits())
    assert codes(node.run()) == [Code.FOREIGN_LIMIT if had else Code.NO_LIMIT]


def test_a_pass_that_was_killed_while_it_went_back_leaves_limits_of_others_theirs(tmp_path: Path) -> None:
    node = a_node(tmp_path, GOLD, Rules(default=DEFAULT))
    hold_for_two_hours(node)
    node.now += AFTER
    killed(node, "define_limits")
    assert actual(node) == GOLD
    node.run()
    assert codes(node.run()) == [Code.FOREIGN_LIMIT]
    assert actual(node) == GOLD


@pytest.mark.parametrize("had", [GOLD, None], ids=["foreign", "ours"])
def test_a_memory_that_is_lost_during_a_hold_raises_nothing(tmp_path: Path, had: Limits | None) -> None:
    node = a_node(tmp_path, had, Rules(default=DEFAULT))
    held = Limits(total_iops_sec=9)
    hold_for_two_hours(node, held)
    node.state.memory.unlink()
    node.hypervisor.lose_marks()
    assert codes(node.run()) == [Code.FOREIGN_LIMIT], "a limit whose history is lost is left alone"
    assert actual(node) == held
    end(node)
    assert actual(node) == held


def test_a_memory_that_is_lost_after_a_hold_takes_no_limits_of_others_for_ours(tmp_path: Path) -> None:
    node = a_node(tmp_path, GOLD, Rules(default=DEFAULT))
    hold_for_two_hours(node)
    end(node)
    node.state.memory.unlink()
    assert codes(node.run()) == [Code.FOREIGN_LIMIT]
    assert actual(node) == GOLD


def test_an_exemption_that_comes_during_a_hold_leaves_what_is_there_until_it_goes(tmp_path: Path) -> None:
    node = a_node(tmp_path, GOLD)
    hold_for_two_hours(node)
    node.rules = EXEMPT
    end(node)
    assert actual(node) == HELD
    node.rules = NO_RULES
    node.run()
    assert actual(node) == GOLD
