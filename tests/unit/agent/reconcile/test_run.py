"""A whole pass, on the fake hypervisor and a real node_store in a temporary directory."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from plimsoll_agent.adapters.deadline import Deadlines
from plimsoll_agent.errors import NoSuchGuest, NotFound, NotSent, Rejected, Unreachable
from plimsoll_agent.model.clusters import Clusters
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.hypervisor import Movement, Sighting
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, because
from plimsoll_agent.reconcile.outcome import Kind, Mode, Outcome, Scope
from plimsoll_agent.rules.model import Match, Rule, Rules
from plimsoll_agent.store.node_store import NodeStore
from plimsoll_agent.store.state import State, StateError
from plimsoll_agent.util.frozen import replace
from tests.fakes import FakeHypervisor, hangs, raising
from tests.unit.node import DEFAULT, TIGHTER, UUIDS, Node, a_volume, codes, guest, kinds, notes, own_disk, set_by_hand


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path, guest(1), guest(2))


# --- modes


def test_enforce_limits_every_disk_and_the_next_pass_writes_nothing(node: Node) -> None:
    node.hypervisor.by_uuid[UUIDS[1]].paused = True
    report = node.run()
    assert (kinds(report), report.paused_guests) == (["changed"] * 4, {UUIDS[1]}), "those of a paused guest too"
    assert all(disk.actual == DEFAULT for guest in node.hypervisor.by_uuid.values() for disk in guest.disks.values())
    node.hypervisor.writes.clear()
    assert kinds(node.run()) == ["in-sync"] * 4
    assert node.hypervisor.writes == [], "a blind rewrite would empty the guests' buckets and hand out a free burst"


@pytest.mark.parametrize("mode", [Mode.PLAN, Mode.OBSERVE])
def test_only_enforce_writes_limits(node: Node, mode: Mode) -> None:
    assert kinds(node.run(mode)) == ["planned"] * 4
    assert node.hypervisor.writes == []
    assert not {"set_limits", "define_limits"} & set(node.hypervisor.calls)


def test_a_plan_leaves_no_trace_on_the_node(node: Node) -> None:
    node.run(Mode.PLAN)
    assert list(node.state.directory.iterdir()) == []


def test_a_plan_leaves_it_to_the_next_pass_to_settle_what_is_open(node: Node) -> None:
    first = node.hypervisor.by_uuid[UUIDS[1]]
    node.hypervisor.before["set_limits"] = lambda: setattr(first, "trouble", hangs())
    node.run()
    first.trouble, first.disks["vda"].actual = None, DEFAULT
    before = node.recorded("result", "result_at")
    assert kinds(node.run(Mode.PLAN))[0] == "in-sync"
    assert node.recorded("result", "result_at") == before


def test_observing_remembers_what_it_wants_but_claims_no_limit(node: Node) -> None:
    node.run(Mode.OBSERVE)
    assert [remembered.applied for remembered in node.memory.values()] == [None] * 4


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
    before = node.memory
    node.run(scope=Scope(frozenset({"instance-00000001"})))
    assert {uuid for uuid, _, _ in node.hypervisor.writes} == {UUIDS[1]}
    assert node.memory.keys() == before.keys()


def test_a_node_whose_guests_cannot_be_listed_has_no_report(node: Node) -> None:
    node.hypervisor.before["guests"] = raising(Unreachable("libvirt is down"))
    with pytest.raises(Unreachable):
        node.run()
    assert not node.state.memory.exists(), "a node that was not seen must not be taken for an empty one"


# --- limits that others set


def test_a_volume_attached_with_limits_is_left_alone(tmp_path: Path) -> None:
    node = Node(tmp_path, guest(1, a_volume(1, Limits(total_iops_sec=3000))))
    assert codes(node.run()) == [Code.FOREIGN_LIMIT]
    assert node.hypervisor.writes == []


OVERRIDING = Rules(rules=(Rule(name="ours", match=Match(pool=("volumes",)), limits=DEFAULT, override=True),))


def test_a_rule_that_overrides_takes_over_limits_of_others(tmp_path: Path) -> None:
    node = Node(tmp_path, guest(1, a_volume(1, Limits(total_iops_sec=500))), rules=OVERRIDING)
    assert kinds(node.run()) == ["changed"]


@pytest.mark.parametrize("cause", [Code.CHANGED_OVER_QMP, Code.EXTERNAL_CHANGE])
def test_a_limit_that_something_else_changed_is_put_right(node: Node, cause: Code) -> None:
    node.run()
    disk = node.disk(1, "vdb")
    disk.actual = Limits()
    if cause is Code.EXTERNAL_CHANGE:  # else by raw QMP: in libvirt's definition the limit still stands
        disk.defined = disk.actual
    report = node.run()
    assert [o.change.cause for o in report.outcomes if o.change] == [cause]
    assert disk.actual == DEFAULT


def test_a_limit_set_behind_libvirts_back_before_the_first_pass_is_nobodys_promise(tmp_path: Path) -> None:
    node = Node(tmp_path, guest(1, replace(a_volume(1), actual=Limits(total_iops_sec=90))))
    assert kinds(node.run()) == ["changed"]


def test_limits_that_come_back_with_a_restart_from_the_persistent_definition_are_still_ours(node: Node) -> None:
    node.run()
    node.hypervisor.restart(node.hypervisor.by_uuid[UUIDS[1]], defined=DEFAULT)
    node.rules = Rules(default=TIGHTER)
    assert kinds(node.run()) == ["changed"] * 4


@pytest.mark.parametrize("error", [Rejected("QEMU says no"), SystemExit()], ids=["refused", "killed"])
def test_a_write_that_was_not_made_claims_no_limits_of_others(tmp_path: Path, error: BaseException) -> None:
    node = Node(tmp_path, guest(1, a_volume(1, Limits(total_iops_sec=500))), rules=OVERRIDING)
    node.hypervisor.before["set_limits"] = raising(error)
    with suppress(SystemExit):
        node.run()
    node.rules = Rules(default=DEFAULT)
    assert codes(node.run()) == [Code.FOREIGN_LIMIT]


def test_limits_of_others_that_happen_to_be_right_are_not_claimed(tmp_path: Path) -> None:
    node = Node(tmp_path, guest(1, a_volume(1, DEFAULT)), rules=OVERRIDING)
    assert kinds(node.run()) == ["in-sync"]
    node.rules = Rules(default=TIGHTER)
    assert codes(node.run()) == [Code.FOREIGN_LIMIT]


def test_a_guest_that_is_asked_for_and_not_there_is_said(node: Node) -> None:
    with pytest.raises(NoSuchGuest, match="nobody"):
        node.run(scope=Scope(frozenset({"instance-00000001", "nobody"})))


def test_limits_that_come_back_with_a_reboot_are_the_attachments_own(node: Node) -> None:
    node.run()
    gold = Limits(total_iops_sec=3000)
    node.hypervisor.restart(node.hypervisor.by_uuid[UUIDS[1]], defined=gold)
    assert codes(node.run(scope=Scope(frozenset({UUIDS[1]})))) == [Code.FOREIGN_LIMIT] * 2


def test_a_volume_attached_again_with_limits_is_not_taken_for_the_old_attachment(node: Node) -> None:
    node.run()
    gold = Limits(total_iops_sec=3000)
    node.hypervisor.attach(node.hypervisor.by_uuid[UUIDS[1]], "vdb", a_volume(1, gold))
    assert codes(node.run(scope=Scope(frozenset({UUIDS[1]}))))[1] is Code.FOREIGN_LIMIT


# --- guests that hang, vanish, refuse or move


def test_a_guest_that_hangs_costs_no_other_guest(tmp_path: Path) -> None:
    node = Node(tmp_path, guest(1), guest(2), guest(3))
    node.hypervisor.by_uuid[UUIDS[2]].trouble = hangs()
    report = node.run()
    assert kinds(report) == ["changed", "changed", "unknown", "unknown", "changed", "changed"]
    assert report.failures == 2


def test_a_guest_that_hangs_is_asked_once(node: Node) -> None:
    node.hypervisor.by_uuid[UUIDS[1]].trouble = hangs()
    node.run()
    assert node.hypervisor.calls.count("actual") == 1 + 2 * 2, "one call to the hung one; read and read back"


def test_guests_that_hang_elsewhere_do_not_stop_a_pass_over_one_guest(tmp_path: Path) -> None:
    """It looks at them: no pass over the node has judged these rules yet."""
    node = Node(tmp_path, *map(guest, range(1, 4)))
    for number in (2, 3):
        node.hypervisor.by_uuid[UUIDS[number]].trouble = hangs()
    assert kinds(node.run(scope=Scope(frozenset({UUIDS[1]})))) == ["changed"] * 2


def test_guests_that_hang_keep_no_limit_from_the_others(tmp_path: Path) -> None:
    """Two hang, while a rule is edited, a limit is raised externally, and a guest starts."""
    node = Node(tmp_path, *map(guest, range(1, 5)))
    node.run()
    for number in (1, 2):
        node.hypervisor.by_uuid[UUIDS[number]].trouble = hangs()
    raised = node.hypervisor.by_uuid[UUIDS[3]].disks["vda"]
    raised.actual = raised.defined = Limits(total_iops_sec=9000)
    node.hypervisor.by_uuid[UUIDS[5]] = guest(5)
    assert kinds(node.run())[4:] == ["changed", "in-sync", "in-sync", "in-sync", "changed", "changed"]
    node.rules = Rules(default=replace(DEFAULT, total_iops_sec=240))
    assert kinds(node.run())[4:] == ["changed"] * 6
    assert {uuid for uuid, _, _ in node.hypervisor.writes[8:]} == {UUIDS[number] for number in (3, 4, 5)}


class Guarded:
    """A hypervisor whose calls have a deadline, of which at most four are under way. Some guests really hang."""

    def __init__(self, hypervisor: FakeHypervisor, *hung: int) -> None:
        self._hypervisor = hypervisor
        self._deadlines = Deadlines(0.5, 4)
        self._hung = {UUIDS[number] for number in hung}
        self.lid = threading.Event()

    def __getattr__(self, name: str) -> Any:
        def call(*words: Any, **more: Any) -> Any:
            return self._deadlines.call("QEMU", lambda: self._answer(name, words, more))

        return call

    def _answer(self, name: str, words: tuple[Any, ...], more: dict[str, Any]) -> Any:
        if self._hung & {word if isinstance(word, str) else word.guest.uuid for word in words[:1]}:
            self.lid.wait()
        return getattr(self._hypervisor, name)(*words, **more)


@pytest.mark.parametrize(("hung", "written"), [((), 6), ((1,), 5), ((1, 2, 3), 3), ((1, 2, 3, 4), 0)])
def test_all_guests_that_answer_are_written_to_while_one_of_four_calls_is_free(
    tmp_path: Path, hung: tuple[int, ...], written: int
) -> None:
    node = Node(tmp_path, *map(guest, range(1, 7)))
    real = node.hypervisor
    guarded = Guarded(real, *hung)
    node.hypervisor = guarded  # type: ignore[assignment]  # the same calls
    report = node.run(at_once=4)
    guarded.lid.set()
    assert {uuid for uuid, _, _ in real.writes} == {UUIDS[n] for n in range(7 - written, 7)}
    not_sent = [each.guest.uuid for each in report.unreachable if each.reason.code is Code.NOT_SENT]
    assert len(not_sent) == 6 - written - len(hung)


def test_a_write_that_is_not_answered_is_unknown_and_settled_by_the_next_pass_that_sees_the_guest(node: Node) -> None:
    first = node.hypervisor.by_uuid[UUIDS[1]]

    def stall() -> None:
        first.trouble = hangs()

    node.hypervisor.before["set_limits"] = stall
    report = node.run()
    assert kinds(report) == ["unknown", "failed", "changed", "changed"]
    assert [row[0] for row in node.recorded("result")] == ["timed-out", "not-sent", "done", "done"]

    first.xml = "<domain>"
    assert [each.guest.uuid for each in node.run().unreachable] == [UUIDS[1]]
    assert node.recorded("result")[0] == ("timed-out",)

    first.trouble = first.xml = None
    first.disks["vda"].actual = DEFAULT  # QEMU came round and did it after all
    node.run()
    assert [row[0] for row in node.recorded("result")] == ["took", "not-sent", "done", "done", "done"]


def test_an_unanswered_write_that_did_not_take_is_recorded_so(node: Node) -> None:
    first = node.hypervisor.by_uuid[UUIDS[1]]
    node.hypervisor.before["set_limits"] = lambda: setattr(first, "trouble", hangs())
    node.run()
    first.trouble = None
    node.run()
    assert node.recorded("result")[0] == ("did-not-take",)
    assert first.disks["vda"].actual == DEFAULT, "and the same pass tried again"


def test_a_guest_that_vanishes_between_list_and_look_is_no_failure(node: Node) -> None:
    node.hypervisor.before["look"] = lambda: node.hypervisor.by_uuid.__delitem__(UUIDS[1])
    report = node.run()
    assert [guest.reason.code for guest in report.unreachable] == [Code.NOT_FOUND]
    assert kinds(report) == ["changed", "changed"]
    assert report.failures == 0


def test_a_guest_that_vanishes_before_the_write_is_left_alone(tmp_path: Path) -> None:
    node = Node(tmp_path, guest(1, own_disk(1)))

    def vanish() -> None:
        del node.hypervisor.by_uuid[UUIDS[1]]

    node.hypervisor.before["actual"] = lambda: node.hypervisor.before.update(look=vanish)
    report = node.run()
    assert kinds(report) == ["left-alone"]
    assert codes(report) == [Code.NOT_FOUND]
    assert node.recorded("result") == [("not-sent",)]


def test_a_refusal_is_one_sentence_and_the_others_are_done(node: Node) -> None:
    node.hypervisor.before["set_limits"] = raising(Rejected("QEMU says no"))
    report = node.run()
    assert kinds(report) == ["failed", "changed", "changed", "changed"]
    assert report.outcomes[0].result.reason.facts["detail"] == "QEMU says no"
    assert node.recorded("result")[0] == ("refused",)


def test_a_call_that_was_never_sent_is_not_called_unknown(node: Node) -> None:
    node.hypervisor.before["set_limits"] = raising(NotSent("not asked: 4 calls hang already"))
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
    node.hypervisor.before["actual"] = lambda: setattr(moving, "movement", Movement.LEAVING)
    assert codes(node.run()) == [Code.MIGRATING]
    assert node.hypervisor.writes == []


def test_an_unreadable_definition_is_one_guests_trouble(node: Node) -> None:
    node.hypervisor.by_uuid[UUIDS[1]].xml = "<domain>"
    report = node.run()
    assert [guest.reason.code for guest in report.unreachable] == [Code.UNREADABLE_XML]
    assert kinds(report) == ["changed", "changed"]
    assert report.failures == 1


# --- identity is not a letter


def test_a_letter_that_became_another_volume_is_not_written_to(tmp_path: Path) -> None:
    node = Node(tmp_path, guest(1, a_volume(1)))
    first = node.hypervisor.by_uuid[UUIDS[1]]
    other = a_volume(2)

    def swap() -> None:
        node.hypervisor.attach(first, "vda", other)

    node.hypervisor.before["actual"] = lambda: node.hypervisor.before.update(look=swap)
    report = node.run()
    assert codes(report) == [Code.ANOTHER_DISK]
    assert node.hypervisor.writes == []
    assert other.actual == Limits()


def test_a_volume_attached_again_between_plan_and_write_is_decided_again(tmp_path: Path) -> None:
    node = Node(tmp_path, guest(1, a_volume(1)))
    first = node.hypervisor.by_uuid[UUIDS[1]]
    gold = Limits(total_iops_sec=3000)
    again = a_volume(1, gold)
    node.hypervisor.before["actual"] = lambda: node.hypervisor.before.update(
        look=lambda: node.hypervisor.attach(first, "vda", again)
    )
    assert codes(node.run()) == [Code.ANOTHER_DISK]
    assert again.actual == gold


def test_a_letter_that_changes_hands_during_the_write_is_told_and_not_called_done(tmp_path: Path) -> None:
    node = Node(tmp_path, guest(1, a_volume(1)))
    first = node.hypervisor.by_uuid[UUIDS[1]]
    node.hypervisor.before["set_limits"] = lambda: node.hypervisor.attach(first, "vda", a_volume(2))
    report = node.run()
    assert kinds(report) == ["unknown"]
    assert codes(report) == [Code.ANOTHER_DISK]


@pytest.mark.parametrize("over_qmp", [True, False])
def test_limits_that_others_replace_before_they_are_read_back_are_an_external_change(
    tmp_path: Path, over_qmp: bool
) -> None:
    """They are not those of the attachment, which would be left alone."""
    node = Node(tmp_path, guest(1, a_volume(1)))
    disk = node.hypervisor.by_uuid[UUIDS[1]].disks["vda"]

    def overtake() -> None:
        disk.actual = Limits(total_iops_sec=1)
        if not over_qmp:
            disk.defined = disk.actual

    node.hypervisor.before["set_limits"] = lambda: node.hypervisor.before.update(actual=overtake)
    report = node.run()
    assert codes(report) == [Code.READ_BACK_DIFFERS]
    assert report.failures == 1
    assert kinds(node.run()) == ["changed"]
    cause = Code.CHANGED_OVER_QMP if over_qmp else Code.EXTERNAL_CHANGE
    assert node.recorded("result", "cause") == [("done", "never-limited"), ("done", str(cause))]


def test_a_write_that_did_not_take_is_a_failure_and_tried_again(tmp_path: Path) -> None:
    node = Node(tmp_path, guest(1, a_volume(1)))
    disk = node.hypervisor.by_uuid[UUIDS[1]].disks["vda"]
    node.hypervisor.before["set_limits"] = lambda: node.hypervisor.before.update(
        actual=lambda: setattr(disk, "actual", Limits())
    )
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


def test_after_an_upgrade_one_pass_at_a_time_tries_one_disk(node: Node, tmp_path: Path) -> None:
    writes, go_on = threading.Event(), threading.Event()
    other = Node(tmp_path)
    other.hypervisor = node.hypervisor
    reports: list[list[str]] = []

    def blocks() -> None:
        writes.set()
        assert go_on.wait(10)

    node.hypervisor.before["set_limits"] = blocks
    passes = [
        threading.Thread(
            target=lambda number=number, each=each: reports.append(
                kinds(each.run(scope=Scope(frozenset({UUIDS[number]}))))
            )
        )
        for number, each in ((1, node), (2, other))
    ]
    passes[0].start()
    assert writes.wait(10)
    passes[1].start()
    passes[1].join(0.3)
    assert passes[1].is_alive()
    assert node.hypervisor.calls.count("set_limits") == 1
    go_on.set()
    for each in passes:
        each.join(10)
    assert reports == [["changed", "changed"]] * 2


def test_limits_of_a_pass_that_was_killed_are_still_ours(node: Node) -> None:
    class Killed(BaseException):
        pass

    node.state.save_versions(node.hypervisor.known_versions)
    # After the first write, before its result.
    node.hypervisor.before["set_limits"] = lambda: node.hypervisor.before.update(set_limits=raising(Killed))
    with pytest.raises(Killed):
        node.run()
    report = node.run()
    assert kinds(report) == ["in-sync", "changed", "changed", "changed"]
    assert [row[0] for row in node.recorded("result")][:4] == ["took", "did-not-take", "did-not-take", "did-not-take"]


class NoRecord(NodeStore):
    """A node_store on a full disk."""

    def intend(self, changes: object, now: object, revision: object, rules: object = "") -> list[int]:
        raise StateError("record.sqlite: database or disk is full")


def test_without_a_record_limits_are_lowered_and_nothing_is_raised(node: Node) -> None:
    no_record = NoRecord(node.state, "tests")
    node.rules = Rules(default=TIGHTER)
    assert kinds(node.run(node_store=no_record)) == ["changed"] * 4
    node.rules = Rules(default=DEFAULT)
    report = node.run(node_store=no_record)
    assert codes(report) == [Code.NO_RECORD] * 4
    assert report.failures == 4
    assert node.hypervisor.by_uuid[UUIDS[1]].disks["vda"].actual == TIGHTER


class NoMemory(NodeStore):
    def remember(self, memory: object, now: object) -> None:
        raise StateError("memory.json: cannot be written: Read-only file system")


def test_a_memory_that_cannot_be_written_is_noted(node: Node) -> None:
    report = node.run(node_store=NoMemory(node.state, "tests"))
    assert kinds(report) == ["changed"] * 4
    assert notes(report) == [Code.NOT_REMEMBERED]
    assert [row[0] for row in node.recorded("result")] == [None] * 4, "what is open cannot be lost"
    after = node.run()
    assert (kinds(after), notes(after)) == (["in-sync"] * 4, [])
    assert [row[0] for row in node.recorded("result")] == ["took"] * 4
    node.rules = Rules(default=TIGHTER)
    assert kinds(node.run()) == ["changed"] * 4, "no limit of ours is taken for another's"


def test_without_a_memory_only_guests_that_were_changed_get_a_mark(node: Node) -> None:
    """A hold whose end could not be remembered would be brought back by its mark."""
    node.run()
    node.hold(2, "vda", DEFAULT)
    set_by_hand(node.disk(1), THEIRS)
    marks = {uuid: each.marks for uuid, each in node.hypervisor.by_uuid.items()}
    node.run(node_store=NoMemory(node.state, "tests"))
    assert {uuid for uuid, each in node.hypervisor.by_uuid.items() if each.marks != marks[uuid]} <= {UUIDS[1]}


def test_where_guests_cannot_be_locked_they_keep_their_marks_and_the_log_says_why(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    class NoLocks(NodeStore):
        def lock(self, uuids: object, patience: float = 0) -> dict[str, Code]:
            raise StateError("guests.lock: cannot be written: Read-only file system")

    node.run()
    node.hold(2, "vda", DEFAULT)
    marks = {uuid: each.marks for uuid, each in node.hypervisor.by_uuid.items()}
    with caplog.at_level("INFO"):
        node.run(node_store=NoLocks(node.state, "tests"))
    assert {uuid: each.marks for uuid, each in node.hypervisor.by_uuid.items()} == marks
    words = "guests.lock: cannot be written: Read-only file system; guests keep their old marks"
    assert words in caplog.messages


def test_a_pass_killed_between_memory_and_record_is_settled_and_counts_once(node: Node) -> None:
    class Killed(BaseException):
        pass

    class DiesBeforeTheResults(NodeStore):
        def conclude(self, conclusions: object, now: object) -> None:
            raise Killed

    class DiesBeforeTheMemory(NodeStore):
        def remember(self, memory: object, now: object) -> None:
            raise Killed

    for dying in (DiesBeforeTheMemory, DiesBeforeTheMemory, DiesBeforeTheResults):
        with pytest.raises(Killed):
            node.run(node_store=dying(node.state, "tests"))
    set_by_hand(node.disk(1), THEIRS)
    with pytest.raises(Killed):
        node.run(node_store=DiesBeforeTheResults(node.state, "tests"))
    assert node.run().count(Kind.IN_SYNC) == 4
    assert fight(node, 3) == ["changed", "changed", "deferred"], "the round of the killed pass counts, and once"
    node.rules = Rules(default=TIGHTER)
    assert kinds(node.run()) == ["changed"] * 4


def test_a_limit_that_another_client_changes_between_the_look_and_the_write_is_theirs_for_now(node: Node) -> None:
    def somebody() -> None:
        node.disk(1).actual = node.disk(1).defined = Limits(total_iops_sec=10)

    before = node.hypervisor.look
    looks = 0

    def look(uuid: str) -> Sighting:
        nonlocal looks
        looks += 1
        if looks == 3:  # after each guest was looked at once
            somebody()
        return before(uuid)

    node.hypervisor.look = look  # type: ignore[method-assign]
    report = node.run()
    assert (kinds(report)[0], codes(report)[0]) == ("deferred", Code.CHANGED_SINCE)
    assert node.disk(1).actual == Limits(total_iops_sec=10), "250 was a tightening of unlimited, and is none of 10"


def test_a_record_that_is_garbage_is_set_aside_and_the_pass_is_in_the_new_one(node: Node) -> None:
    node.state.record.write_bytes(b"this is no database" * 100)
    report = node.run()
    assert kinds(report) == ["changed"] * 4
    assert notes(report) == [Code.RECORD_SET_ASIDE]
    assert [row[0] for row in node.recorded("result")] == ["done"] * 4


@pytest.mark.parametrize(("call", "result"), [("conclude", "took"), ("note_external_changes", "done")])
def test_results_that_cannot_be_recorded_are_noted(node: Node, call: str, result: str) -> None:
    node_store = NodeStore(node.state, "tests")
    setattr(node_store, call, raising(StateError("record.sqlite: database or disk is full")))
    assert notes(node.run(node_store=node_store)) == [Code.NO_RESULTS]
    node.run()
    assert [row[0] for row in node.recorded("result")] == [result] * 4


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
        node.run(at_once=4, tell=interrupted)
    written = len(node.hypervisor.writes)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("worker-")]
    assert [row[0] for row in node.recorded("result")].count("done") == written
    assert len([old for old in node.memory.values() if old.applied]) == written
    assert len(node.hypervisor.writes) == written < 18


@pytest.mark.parametrize("error", [NotSent("crowded"), Rejected("busy"), NotFound("gone"), KeyError("a bug")])
def test_a_write_that_was_made_is_ours_however_reading_it_back_ended(tmp_path: Path, error: Exception) -> None:
    node = Node(tmp_path, guest(1, a_volume(1)))
    node.hypervisor.before["set_limits"] = lambda: node.hypervisor.before.update(actual=raising(error))
    assert kinds(node.run()) == ["unknown"]
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


@pytest.mark.parametrize("call", ["look", "actual"])
def test_a_bug_that_one_guest_sets_off_costs_that_guest_only(node: Node, call: str) -> None:
    node.hypervisor.before[call] = lambda: {}["nobody foresaw this"]
    report = node.run()
    assert len(report.unreachable) == 1
    assert kinds(report) == ["changed", "changed"]
    assert report.failures == 1


def test_a_disk_that_took_anothers_limit_is_put_right_by_the_next_pass(tmp_path: Path) -> None:
    node = Node(tmp_path, guest(1, a_volume(1)))
    node.rules = Rules(
        rules=(Rule(name="small", match=Match(volume=("aaaaa001-001a-4ea4-a2eb-d491b58efc11",)), limits=TIGHTER),),
        default=DEFAULT,
    )
    other = a_volume(2)
    node.hypervisor.before["set_limits"] = lambda: node.hypervisor.attach(
        node.hypervisor.by_uuid[UUIDS[1]], "vda", other
    )
    assert codes(node.run()) == [Code.ANOTHER_DISK]
    assert other.actual == TIGHTER
    assert kinds(node.run()) == ["changed"]
    assert other.actual == DEFAULT


@pytest.mark.parametrize("is_known", [True, False])
def test_a_disk_that_took_far_lower_limits_of_another_needs_no_approval_to_be_put_right(
    tmp_path: Path, is_known: bool
) -> None:
    """No rules were edited: the brake compares with what was desired, not with limits that were meant for another."""
    other, far_more = a_volume(2), Limits(total_iops_sec=20 * TIGHTER.total_iops_sec)
    node = Node(tmp_path, guest(1, a_volume(1), *[other] * is_known))
    first, small = node.hypervisor.by_uuid[UUIDS[1]], Match(volume=("aaaaa001-001a-4ea4-a2eb-d491b58efc11",))
    node.rules = Rules(rules=(Rule(name="small", match=small, limits=TIGHTER),), default=far_more)
    node.run()
    set_by_hand(first.disks["vda"], DEFAULT)

    def swap() -> None:
        first.disks.pop("vdb", None)
        node.hypervisor.attach(first, "vda", other)

    node.hypervisor.before["set_limits"] = swap
    assert Code.ANOTHER_DISK in codes(node.run())
    assert other.actual == TIGHTER
    report = node.run()
    assert (kinds(report), report.braked) == (["changed"], None)
    assert other.actual == far_more


def test_a_guest_that_was_off_for_a_while_finds_its_limits_ours(node: Node) -> None:
    node.run()
    away = node.hypervisor.by_uuid.pop(UUIDS[1])
    node.run()
    node.hypervisor.by_uuid[UUIDS[1]] = away
    node.hypervisor.restart(away, defined=DEFAULT)
    node.rules = Rules(default=TIGHTER)
    assert kinds(node.run()) == ["changed"] * 4


def test_a_node_that_restarted_takes_no_attachment_for_an_earlier_one(node: Node) -> None:
    node.run()
    gold = Limits(total_iops_sec=3000)
    for disk in node.hypervisor.by_uuid[UUIDS[1]].disks.values():
        disk.actual = disk.defined = gold  # the same ids as before: libvirt counts from 1 after a reboot
    node.state = State(node.state.directory, boot="the next one")
    assert codes(node.run())[:2] == [Code.FOREIGN_LIMIT] * 2


def test_a_rule_that_says_unlimited_removes_the_limit(node: Node) -> None:
    node.run()
    node.rules = Rules(default=Limits())
    assert kinds(node.run()) == ["changed"] * 4
    assert node.hypervisor.by_uuid[UUIDS[1]].disks["vda"].actual == Limits()


def test_a_default_that_is_removed_removes_no_limit_and_finds_them_ours_when_it_comes_back(node: Node) -> None:
    node.run()
    node.rules = Rules()
    assert codes(node.run()) == [Code.ORPHANED] * 4
    assert node.hypervisor.by_uuid[UUIDS[1]].disks["vda"].actual == DEFAULT
    node.rules = Rules(default=TIGHTER)
    assert kinds(node.run()) == ["changed"] * 4


def test_the_persistent_definition_is_a_best_effort_apart(node: Node) -> None:
    node.hypervisor.before["define_limits"] = raising(NotFound("no such disk in the persistent definition"))
    assert kinds(node.run()) == ["changed"] * 4
    assert node.hypervisor.by_uuid[UUIDS[2]].disks["vda"].persistent == DEFAULT


# --- the health of Ceph

UNWELL = ("OSD_DOWN",)
LOOSER = Limits(total_iops_sec=300, total_bytes_sec=104857600)


@pytest.mark.parametrize("after", [LOOSER, Limits(), replace(DEFAULT, group_name="both")])
def test_a_raise_waits_until_ceph_is_healthy(node: Node, after: Limits) -> None:
    node.run()
    node.ceph.raised, node.rules = UNWELL, Rules(default=after)
    for _ in range(2):
        report = node.run()
        assert (kinds(report), codes(report)) == (["deferred"] * 4, [Code.CLUSTER_UNHEALTHY] * 4)
    assert len(node.recorded("id")) == 4, "what waits has no intent"
    assert {disk.actual for disk in node.disks()} == {DEFAULT}
    node.ceph.raised = ()
    assert kinds(node.run()) == ["changed"] * 4
    assert {disk.actual for disk in node.disks()} == {after}


def test_a_cut_goes_on_while_ceph_is_unhealthy_and_asks_no_cluster(node: Node) -> None:
    node.ceph.raised = UNWELL
    assert kinds(node.run()) == ["changed"] * 4
    node.rules = Rules(default=TIGHTER)
    assert kinds(node.run()) == ["changed"] * 4
    assert node.ceph.asked == 0


def test_a_cluster_that_does_not_answer_counts_as_unhealthy(node: Node) -> None:
    node.run()
    node.ceph.silent, node.rules = Unreachable("no answer from ceph within 10 s"), Rules(default=LOOSER)
    assert codes(node.run()) == [Code.CLUSTER_UNREACHABLE] * 4
    node.ceph.known = Clusters()
    assert codes(node.run()) == [Code.CLUSTER_UNKNOWN] * 4
    assert {disk.actual for disk in node.disks()} == {DEFAULT}


def test_each_disk_waits_for_itself(node: Node) -> None:
    node.run()
    set_by_hand(node.disk(1, "vdb"), Limits())
    node.ceph.raised = UNWELL
    node.rules = Rules(
        rules=(Rule(name="free", match=Match(guest=("instance-00000002",)), limits=LOOSER),), default=DEFAULT
    )
    assert kinds(node.run()) == ["in-sync", "changed", "deferred", "deferred"]
    assert node.ceph.asked == 1, "once for all its disks"


def test_a_plan_says_of_waiting_what_the_pass_does(node: Node) -> None:
    node.run()
    node.ceph.raised, node.rules = UNWELL, Rules(default=LOOSER)
    planned = node.run(Mode.PLAN)
    assert planned.outcomes == node.run().outcomes


def test_who_only_observes_asks_no_cluster(node: Node) -> None:
    node.run()
    node.ceph.raised, node.rules = UNWELL, Rules(default=LOOSER)
    assert kinds(node.run(Mode.OBSERVE)) == ["planned"] * 4
    assert node.ceph.asked == 0


# --- the pause

PAUSED = because(Code.PAUSED, file="/etc/plimsoll/paused", why="maintenance")


def test_a_paused_node_is_looked_at_and_nothing_is_written(node: Node) -> None:
    node.paused = lambda: PAUSED
    report = node.run()
    assert (kinds(report), codes(report)) == (["deferred"] * 4, [Code.PAUSED] * 4)
    assert node.hypervisor.writes == []
    assert node.ceph.asked == 0
    assert not node.state.record.exists()
    node.paused = lambda: None
    assert kinds(node.run()) == ["changed"] * 4
    node.paused = lambda: PAUSED
    assert kinds(node.run()) == ["in-sync"] * 4, "what is right is right on a paused node too"


def test_on_a_paused_node_a_raise_waits_for_the_pause_and_no_cluster_is_asked(node: Node) -> None:
    node.run()
    node.ceph.raised, node.rules, node.paused = UNWELL, Rules(default=LOOSER), lambda: PAUSED
    assert codes(node.run()) == [Code.PAUSED] * 4
    assert node.ceph.asked == 0


def test_a_pause_that_begins_in_mid_pass_stops_before_the_next_write(node: Node) -> None:
    node.paused = lambda: PAUSED if node.hypervisor.writes else None
    report = node.run()
    assert kinds(report) == ["changed", "deferred", "deferred", "deferred"]
    assert codes(report)[1:] == [Code.PAUSED] * 3
    assert len(node.hypervisor.writes) == 1
    assert node.recorded("result") == [("done",), ("not-sent",), ("not-sent",), ("not-sent",)]
    node.paused = lambda: None
    assert kinds(node.run()) == ["in-sync", "changed", "changed", "changed"]


# --- somebody else's hand

THEIRS = Limits(total_iops_sec=9999)


def fight(node: Node, rounds: int, every: timedelta = timedelta(minutes=5)) -> list[str]:
    """Somebody changes a disk again before each of so many passes; what those did about it."""
    done = []
    for _ in range(rounds):
        set_by_hand(node.disk(1), THEIRS)
        node.now += every - timedelta(minutes=5)
        done.append(kinds(node.run())[0])
    return done


def test_a_limit_that_another_client_keeps_changing_is_left_to_it_after_so_many_rounds(node: Node) -> None:
    node.run()
    assert fight(node, 5) == ["changed", "changed", "changed", "deferred", "deferred"]
    report = node.run(Mode.PLAN)
    assert (kinds(report)[0], codes(report)[0]) == ("deferred", Code.REVERTED_TOO_OFTEN)
    assert report.outcomes[0].result.reason.facts == {"rounds": 3}
    assert node.disk(1).actual == THEIRS
    assert kinds(report)[1:] == ["in-sync"] * 3, "the other disks are guarded as ever"


def test_limits_that_were_right_from_the_start_have_as_many_rounds(node: Node) -> None:
    set_by_hand(node.disk(1), DEFAULT)
    node.rules = Rules(rules=(Rule(name="all", match=Match(), limits=DEFAULT, override=True),))
    assert kinds(node.run())[0] == "in-sync"
    assert fight(node, 4) == ["changed", "changed", "changed", "deferred"]


@pytest.mark.parametrize("rounds", [1, 2])
def test_the_number_of_rounds_is_a_setting(node: Node, rounds: int) -> None:
    node.rounds = rounds
    node.run()
    assert fight(node, rounds + 1) == ["changed"] * rounds + ["deferred"]


def test_a_script_that_repeats_itself_does_not_use_up_the_rounds(node: Node) -> None:
    node.run()
    second = timedelta(seconds=1)
    assert fight(node, 59, second) == ["changed"] * 59, "one round, on the daemon's events"
    assert fight(node, 3) == ["changed", "changed", "deferred"]


def test_rounds_of_a_minute_end_also_where_a_client_never_pauses(node: Node) -> None:
    node.run()
    every = timedelta(seconds=10)
    assert fight(node, 14, every) == ["changed"] * 13 + ["deferred"], "rounds begin at 0, 60 and 120 s"


def test_a_person_who_says_yes_or_gives_limits_by_hand_is_in_no_quarrel(node: Node) -> None:
    node.run()
    assert fight(node, 4)[-1] == "deferred"
    assert kinds(node.run(yes=True))[0] == "changed"
    assert fight(node, 1) == ["deferred"], "said once, done once"
    node.rules = replace(node.rules, command_line=DEFAULT)
    assert kinds(node.run())[0] == "changed"


def test_new_desired_limits_are_set_and_external_changes_counted_from_zero(node: Node) -> None:
    node.run()
    fight(node, 4)
    node.rules = Rules(default=TIGHTER)
    assert kinds(node.run())[0] == "changed"
    assert fight(node, 4) == ["changed", "changed", "changed", "deferred"]


def test_a_disk_that_is_attached_again_is_not_left_to_who_changed_it_before(node: Node) -> None:
    node.run()
    fight(node, 4)
    node.hypervisor.attach(node.hypervisor.by_uuid[UUIDS[1]], "vda", own_disk(1))
    assert kinds(node.run())[0] == "changed"
    assert fight(node, 4) == ["changed", "changed", "changed", "deferred"]


def test_a_write_that_failed_is_no_round(node: Node) -> None:
    node.run()
    for _ in range(5):
        node.hypervisor.before["set_limits"] = raising(Rejected("QEMU says no"))
        assert fight(node, 1) == ["failed"]
    assert fight(node, 4) == ["changed", "changed", "changed", "deferred"]


def test_rounds_whose_answer_came_late_count_too(node: Node) -> None:
    node.run()
    for _ in range(3):
        node.hypervisor.before["set_limits"] = lambda: node.hypervisor.before.update(actual=raising(hangs()))
        assert fight(node, 1) == ["unknown"]
        assert kinds(node.run())[0] == "in-sync"
    assert fight(node, 1) == ["deferred"]


def test_reboots_that_lose_the_limits_are_put_right_and_are_nobodys_hand(node: Node) -> None:
    node.run()
    for _ in range(5):
        node.hypervisor.restart(node.hypervisor.by_uuid[UUIDS[1]])
        assert kinds(node.run()) == ["changed", "changed", "in-sync", "in-sync"]


# --- a memory that was lost


@pytest.mark.parametrize("content", [None, b"", b"{", b"\0" * 100], ids=["lost", "empty", "cut off", "zeros"])
def test_a_memory_that_is_lost_is_made_again_from_the_record(node: Node, content: bytes | None) -> None:
    node.run()
    if content is None:
        node.state.memory.unlink()
    else:
        node.state.memory.write_bytes(content)
    node.rules = Rules(default=TIGHTER)
    planned = node.run(Mode.PLAN)
    assert content is None or node.state.memory.read_bytes() == content, "a plan sets nothing aside"
    report = node.run()
    assert kinds(report) == ["changed"] * 4, "our limits are ours again"
    assert notes(planned) == notes(report) == ([] if content is None else [Code.MEMORY_SET_ASIDE])
    assert notes(node.run()) == []


def test_limits_that_another_client_changed_since_are_not_claimed_from_the_record(node: Node) -> None:
    node.run()
    node.state.memory.unlink()
    set_by_hand(node.disk(1), THEIRS)
    assert codes(node.run())[0] is Code.FOREIGN_LIMIT
    assert node.disk(1).actual == THEIRS


def test_without_memory_and_record_and_marks_limits_are_left_alone(node: Node) -> None:
    node.run()
    node.hypervisor.lose_marks()
    node.state.memory.unlink()
    node.state.record.write_bytes(b"this is no database" * 100)
    node.rules = Rules(default=TIGHTER)
    report = node.run()
    assert codes(report) == [Code.FOREIGN_LIMIT] * 4
    assert notes(report) == [Code.RECORD_SET_ASIDE]


def test_an_approval_that_is_corrupt_approves_nothing_and_is_noted(node: Node) -> None:
    node.state.approval.write_bytes(b"{")
    report = node.run()
    assert (kinds(report), notes(report)) == (["changed"] * 4, [Code.APPROVAL_SET_ASIDE])
    assert notes(node.run()) == []
