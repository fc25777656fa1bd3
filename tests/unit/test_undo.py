"""Limits as they were: which disks are put back, which are left alone and why, and what is known afterwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll_agent import history, rulesfile
from plimsoll_agent.clusters import Clusters
from plimsoll_agent.decide import Situation
from plimsoll_agent.direction import Direction, direction
from plimsoll_agent.entries import Happening, RecordedChange, Verdict
from plimsoll_agent.errors import NoSuchGuest
from plimsoll_agent.history import Selection
from plimsoll_agent.hypervisor import Movement
from plimsoll_agent.ledger import Ledger, hold_event, releasing
from plimsoll_agent.limits import Limits
from plimsoll_agent.outcome import Kind, Scope
from plimsoll_agent.passes import Mode
from plimsoll_agent.reason import Code, Reason, because
from plimsoll_agent.record import CorruptRecord, Record
from plimsoll_agent.rules import Rules
from plimsoll_agent.sources import SOURCES
from plimsoll_agent.state import StateError
from plimsoll_agent.undo import Agreed, Past, Undone, UndoReport, Wish, pasts, run_undo
from plimsoll_agent.undo_words import undone_line
from plimsoll_agent.write import Bounds
from tests.fakes import FakeGuest, hangs
from tests.unit.node import FSID, Node, a_volume, codes, guest, set_by_hand, uuid_of
from tests.unit.values import NOON, a_disk, a_guest, examples_of, possible_limits

UNLIMITED = Limits()
OLD, NEW, NEWER = Limits(total_iops_sec=250), Limits(total_iops_sec=900), Limits(total_iops_sec=400)
OTHERS = Limits(total_iops_sec=77)
LONG_AGO = NOON - timedelta(days=30)
TAKEN = "rules: [{name: all, match: {pool: '*'}, override: true, limits: {total_iops_sec: 900}}]\n"
"""Limits of others are taken over, as ``NEW``."""


def rules(limits: Limits | None, more: str = "") -> Rules:
    default = "" if limits is None else f"default: {{limits: {limits.in_effect() or 'unlimited'}}}\n"
    return rulesfile.parse(default + more or "{}", "rules.yaml")


# --- what the record tells: a pure function of its rows


def a_row(
    id_: int,
    before: Limits,
    after: Limits,
    *,
    minutes: int | None = None,
    number: int = 1,
    code: Reason | None = None,
    result: Verdict | None = Verdict.DONE,
    run: str = "3",
) -> RecordedChange:
    disk = a_disk(a_guest(uuid=uuid_of(number), run=run))
    at = NOON + timedelta(minutes=id_ if minutes is None else minutes)
    return RecordedChange(
        id_,
        at,
        "root",
        disk.named,
        disk.attachment,
        before,
        after,
        direction(before, after),
        code or because(Code.NODE_DEFAULT),
        Code.WANTED_CHANGED,
        None,
        result,
        None if result is None else at,
        None,
    )


def minute(number: int) -> datetime:
    return NOON + timedelta(minutes=number)


def only(found: list[Past]) -> Past:
    (past,) = found
    return past


def test_the_first_change_from_the_moment_on_tells_what_was_before_and_the_last_what_plimsoll_put() -> None:
    rows = [a_row(1, UNLIMITED, OLD), a_row(2, OLD, NEW), a_row(3, NEW, NEWER)]
    past = only(pasts(rows, minute(2), LONG_AGO, {}))
    assert (past.before, past.after) == (OLD, NEWER)


@pytest.mark.parametrize("result", [Verdict.REFUSED, Verdict.NOT_SENT, Verdict.DID_NOT_TAKE, Verdict.GONE])
def test_what_did_not_take_changed_nothing(result: Verdict) -> None:
    rows = [a_row(1, UNLIMITED, OLD), a_row(2, OLD, NEWER, result=result), a_row(3, OLD, NEW)]
    past = only(pasts(rows, minute(2), LONG_AGO, {}))
    assert (past.before, past.after) == (OLD, NEW)
    assert pasts(rows[:2], minute(2), LONG_AGO, {}) == []


def test_what_took_as_was_found_later_counts_like_what_was_seen_to_take() -> None:
    past = only(pasts([a_row(1, UNLIMITED, OLD, result=Verdict.TOOK)], NOON, LONG_AGO, {}))
    assert (past.before, past.after) == (UNLIMITED, OLD)


@pytest.mark.parametrize("result", [None, Verdict.UNANSWERED])
def test_a_disk_of_which_nobody_knows_whether_it_was_changed_is_not_passed_over(result: Verdict | None) -> None:
    past = only(pasts([a_row(1, UNLIMITED, OLD, result=result)], NOON, LONG_AGO, {}))
    assert (past.before, past.after) == (None, None)


def test_a_change_of_the_very_moment_is_undone_and_one_before_it_is_not() -> None:
    assert pasts([a_row(1, UNLIMITED, OLD)], minute(1), LONG_AGO, {})
    assert pasts([a_row(1, UNLIMITED, OLD)], minute(1) + timedelta(microseconds=1), LONG_AGO, {}) == []


def test_limits_that_plimsoll_had_put_are_its_own_and_others_are_not() -> None:
    rows = [a_row(1, UNLIMITED, OLD), a_row(2, OLD, NEW), a_row(3, OTHERS, NEW)]
    assert only(pasts(rows, minute(2), LONG_AGO, {})).theirs is False
    assert only(pasts(rows, minute(1), LONG_AGO, {})).theirs is True, (
        "before the first change plimsoll had none there"
    )
    assert only(pasts(rows, minute(3), LONG_AGO, {})).theirs is True, "somebody else had changed it in between"


def test_what_a_hold_had_replaced_is_whose_it_was_before_it() -> None:
    hold, ended = because(Code.HOLD), because(Code.HOLD_ENDED)
    theirs = [a_row(1, OTHERS, NEW, code=hold), a_row(2, NEW, OTHERS, code=ended), a_row(3, OTHERS, OLD)]
    assert only(pasts(theirs, minute(3), LONG_AGO, {})).theirs is True
    assert only(pasts(theirs, minute(2), LONG_AGO, {})).theirs is True, "what the hold had put does not come back"
    ours = [
        a_row(0, UNLIMITED, OLD),
        a_row(1, OLD, NEW, code=hold),
        a_row(2, NEW, OLD, code=ended),
        a_row(3, OLD, NEW),
    ]
    assert only(pasts(ours, minute(3), LONG_AGO, {})).theirs is False


def test_of_a_moment_in_a_hold_what_was_before_the_hold_counts() -> None:
    hold = because(Code.HOLD)
    held = [a_row(1, UNLIMITED, OLD), a_row(2, OLD, NEW, code=hold), a_row(3, NEW, NEWER, code=hold)]
    rows = [*held, a_row(4, NEWER, OLD, code=because(Code.HOLD_ENDED)), a_row(5, OLD, UNLIMITED)]
    over_at_3 = {held[0].disk.key: minute(3)}
    for since, over in ((3, {}), (4, {}), (4, over_at_3)):
        past = only(pasts(rows, minute(since), LONG_AGO, over))
        assert (past.before, past.after, past.theirs) == (OLD, UNLIMITED, False)
    assert only(pasts([*held, a_row(4, OTHERS, OLD)], minute(4), LONG_AGO, {})).before == OTHERS, (
        "another's, not the hold's"
    )
    kept = pasts([*held, a_row(4, NEWER, UNLIMITED)], minute(4), LONG_AGO, over_at_3)
    assert only(kept).before == NEWER, "the hold was over, and the sources wanted the same"
    other = pasts([*held, a_row(4, NEWER, UNLIMITED)], minute(4), LONG_AGO, {held[0].disk.key: minute(2)})
    assert only(other).before == NEW, "that of the hold before it had stayed"
    anew = [a_row(4, OTHERS, NEW, code=hold, run="4"), a_row(5, NEW, OTHERS, run="4")]
    assert only(pasts([*held, *anew], minute(5), LONG_AGO, {})).before == OTHERS, "attached anew with another limit"


def test_what_was_put_back_for_somebody_else_is_theirs_for_the_next_undo_too() -> None:
    undone = because(Code.UNDONE, since="2026-11-20T12:00:00+00:00", theirs=True)
    rows = [a_row(1, OTHERS, OLD), a_row(2, OLD, OTHERS, code=undone), a_row(3, OTHERS, NEW)]
    assert only(pasts(rows, minute(3), LONG_AGO, {})).theirs is True
    ours = [*rows[:1], a_row(2, OLD, UNLIMITED, code=because(Code.UNDONE)), a_row(3, UNLIMITED, NEW)]
    assert only(pasts(ours, minute(3), LONG_AGO, {})).theirs is False


def test_changes_on_two_attachments_or_from_before_the_node_was_started_are_of_no_one_attachment() -> None:
    one = [a_row(1, UNLIMITED, OLD), a_row(2, OLD, NEW)]
    assert only(pasts(one, NOON, LONG_AGO, {})).attachment == one[0].attachment
    assert only(pasts([one[0], a_row(2, OLD, NEW, run="4")], NOON, LONG_AGO, {})).attachment is None
    assert only(pasts(one, NOON, minute(2), {})).attachment is None
    assert only(pasts(one, NOON, minute(9), {})).attachment is None, "counted anew, the same number is another's"


@examples_of(200)
@given(
    st.lists(
        st.tuples(
            st.integers(1, 3), possible_limits(), st.sampled_from([Verdict.DONE, Verdict.TOOK, Verdict.REFUSED])
        ),
        max_size=12,
    ),
    st.integers(0, 12),
)
def test_after_any_changes_of_plimsoll_alone_each_disk_goes_back_to_what_it_had_at_the_moment(
    steps: list[tuple[int, Limits, Verdict]], cut: int
) -> None:
    now = dict.fromkeys((1, 2, 3), UNLIMITED)
    at_the_moment, put = dict(now), set[int]()
    rows = []
    for id_, (number, limits, result) in enumerate(steps, start=1):
        rows.append(a_row(id_, now[number], limits, number=number, result=result))
        if result is not Verdict.REFUSED:
            now[number] = limits
        if id_ <= cut:
            at_the_moment = dict(now)
            put |= set() if result is Verdict.REFUSED else {number}
    found = {past.disk.guest_uuid: past for past in pasts(rows, minute(cut + 1), LONG_AGO, {})}
    for number in now:
        past = found.get(uuid_of(number))
        after = now[number] if past is None else past.before
        assert after == at_the_moment[number]
        if past is not None:
            assert past.after == now[number]
            assert past.theirs == (number not in put)


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
        look_only: bool = False,
        heedless: bool = False,
        booted: datetime = LONG_AGO,
        ledger: Ledger | None = None,
        paused: Callable[[], Reason | None] | None = None,
    ) -> UndoReport:
        node = self.node
        node.now += timedelta(minutes=1)
        self.told = []
        ledger = ledger or Ledger(node.state, "ann")
        memory = ledger.recall(node.now, look_only=look_only)
        gate = node.caution(ledger).gate
        return run_undo(
            Wish(since, frozenset(guests), agreed),
            Situation(node.now, node.rules, memory.disks, memory.holds),
            hypervisor=node.hypervisor,
            sources=SOURCES,
            record=Record(node.state.record),
            ledger=ledger,
            bounds=Bounds(at_once=1),
            gate=replace(gate, blocking=()) if heedless else gate,
            paused=paused or node.paused,
            booted=booted,
            look_only=look_only,
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
    return [disk.in_force for disk in node.disks()]


def test_limits_are_as_before_and_the_record_has_the_undoing_as_a_change_like_any_other(scene: Scene) -> None:
    report = scene.person.undo(scene.moment)
    assert limits_of(scene.node) == [OLD, OLD]
    assert report.exit_status == 0
    rows = [row for row in history.entries(Record(scene.node.state.record), Selection()) if row.id > 4]
    assert [(row.before, row.after, row.result, row.by) for row in rows if isinstance(row, RecordedChange)] == [
        (NEW, OLD, Verdict.DONE, "ann")
    ] * 2
    assert {row.reason.code for row in rows if row.reason} == {Code.UNDONE}
    assert history.verify(Record(scene.node.state.record)).faults == ()


def test_what_is_put_back_goes_into_the_persistent_definition_too(scene: Scene) -> None:
    scene.person.undo(scene.moment)
    assert scene.node.disk(1).persistent == OLD


def test_an_undo_is_undone_by_another(scene: Scene) -> None:
    scene.person.undo(scene.moment)
    moment = scene.node.now
    assert scene.person.undo(moment).exit_status == 0
    assert limits_of(scene.node) == [NEW, NEW]
    scene.person.undo(moment + timedelta(seconds=1))
    assert limits_of(scene.node) == [OLD, OLD]


def test_the_next_pass_does_not_take_what_was_put_back_for_somebody_elses_hand(scene: Scene) -> None:
    scene.person.undo(scene.moment)
    report = scene.node.run()
    assert {outcome.change.cause for outcome in report.outcomes if outcome.change} == {Code.WANTED_CHANGED}
    assert limits_of(scene.node) == [NEW, NEW], "what is wanted holds again"
    assert {remembered.fought for remembered in scene.node.memory.values()} == {0}


def test_rules_that_want_what_was_put_back_find_it_right(scene: Scene) -> None:
    scene.person.undo(scene.moment)
    scene.node.rules = rules(OLD)
    report = scene.node.run()
    assert report.count(Kind.RIGHT) == 2


def test_a_limit_that_was_somebody_elses_is_theirs_again(tmp_path: Path) -> None:
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


def test_a_limit_of_others_that_was_put_back_stays_theirs_when_the_memory_is_lost(tmp_path: Path) -> None:
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


def test_a_disk_that_had_no_limit_has_none_again(tmp_path: Path) -> None:
    node = Node(tmp_path, guest(1), rules=rules(OLD))
    moment = node.now
    node.run()
    Person(node).undo(moment)
    assert limits_of(node) == [UNLIMITED, UNLIMITED]


def test_a_disk_that_somebody_changed_since_is_left_alone_and_listed(scene: Scene) -> None:
    set_by_hand(scene.node.disk(1, "vdb"), OTHERS)
    report = scene.person.undo(scene.moment)
    assert results(report)["1 vdb"] == ("left-alone", "changed-by-another")
    assert limits_of(scene.node) == [OLD, OTHERS]
    assert report.exit_status == 3


def test_a_disk_that_was_changed_behind_libvirts_back_is_left_alone(scene: Scene) -> None:
    scene.node.disk(1, "vdb").in_force = OTHERS
    assert results(scene.person.undo(scene.moment))["1 vdb"] == ("left-alone", "changed-by-another")


def test_a_guest_that_was_restarted_is_left_alone_though_it_brought_our_limits_along(scene: Scene) -> None:
    scene.node.hypervisor.restart(scene.guest, NEW)
    report = scene.person.undo(scene.moment)
    assert set(results(report).values()) == {("left-alone", "attached-anew")}
    assert limits_of(scene.node) == [NEW, NEW]
    assert report.exit_status == 1


def test_a_volume_that_was_detached_and_attached_again_is_another_attachment(scene: Scene) -> None:
    again = replace(scene.node.disk(1, "vdb"), in_force=NEW, defined=NEW)
    scene.node.hypervisor.attach(scene.guest, "vdb", again)
    assert results(scene.person.undo(scene.moment))["1 vdb"] == ("left-alone", "attached-anew")
    assert scene.node.disk(1, "vdb").in_force == NEW


def test_another_volume_at_the_same_letter_is_not_touched_and_the_one_that_was_there_is_listed(scene: Scene) -> None:
    scene.node.hypervisor.attach(scene.guest, "vdb", a_volume(5, NEW))
    report = scene.person.undo(scene.moment)
    assert results(report)["1 vdb"] == ("left-alone", "not-here")
    assert scene.node.disk(1, "vdb").in_force == NEW
    assert report.exit_status == 0, "what is gone has nothing to be put back"


def test_a_guest_that_is_gone_is_listed(scene: Scene) -> None:
    del scene.node.hypervisor.by_uuid[uuid_of(1)]
    report = scene.person.undo(scene.moment)
    assert set(results(report).values()) == {("left-alone", "not-here")}
    assert report.exit_status == 0


def test_changes_from_before_the_node_was_started_are_not_undone(scene: Scene) -> None:
    report = scene.person.undo(scene.moment, booted=scene.node.now + timedelta(seconds=1))
    assert set(results(report).values()) == {("left-alone", "attached-anew")}
    assert limits_of(scene.node) == [NEW, NEW]


def test_without_a_memory_of_the_attachment_nothing_is_put_back(scene: Scene) -> None:
    scene.node.state.memory.unlink()
    report = scene.person.undo(scene.moment)
    assert set(results(report).values()) == {("left-alone", "attached-anew")}
    assert limits_of(scene.node) == [NEW, NEW]


def test_a_guest_that_does_not_answer_keeps_nobody_else_from_being_put_back(tmp_path: Path) -> None:
    scene = a_scene(tmp_path, guest(1), guest(2))
    scene.guest.trouble = hangs()
    report = scene.person.undo(scene.moment)
    assert {key: results(report)[key] for key in ("1 vda", "1 vdb")} == dict.fromkeys(
        ("1 vda", "1 vdb"), ("not-known", "unanswered")
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
    assert results(report) == {"1 vda": ("not-known", "unanswered")}
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
    assert results(report)["1 vda"][0] == "right"
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
    assert node.disk(1).in_force == OLD
    scene.person.undo(moment)
    assert node.disk(1).in_force == NEW


def test_a_disk_that_a_rule_takes_out_of_plimsolls_hands_is_not_written_to(scene: Scene) -> None:
    scene.node.rules = rules(NEW, "rules: [{name: theirs, match: {pool: vms}, manage: false}]\n")
    assert results(scene.person.undo(scene.moment))["1 vda"] == ("left-alone", "rule-unmanages")
    assert limits_of(scene.node) == [NEW, OLD]


@pytest.mark.parametrize(
    "first", ["manage: false", "override: true, limits: unlimited}, {name: theirs, match: {pool: vms}, manage: false"]
)
def test_a_disk_of_which_nobody_knows_whether_a_rule_takes_it_out_of_plimsolls_hands_is_not_written_to(
    scene: Scene, first: str
) -> None:
    scene.node.ceph.known = Clusters(())
    far = f"match: {{pool: vms, cluster: {FSID}}}"
    scene.node.rules = rules(NEW, f"rules: [{{name: far, {far}, {first}}}]\n")
    assert results(scene.person.undo(scene.moment))["1 vda"] == ("not-known", "cluster-not-known")
    assert limits_of(scene.node) == [NEW, OLD]


def test_what_is_wanted_of_a_disk_need_not_be_known_to_undo_it(scene: Scene) -> None:
    scene.node.ceph.known = Clusters(())
    ours = f"{{name: ours, match: {{cluster: {FSID}}}, override: true, limits: unlimited}}"
    scene.node.rules = rules(NEW, f"rules: [{ours}, {{name: theirs, match: {{pool: others}}, manage: false}}]\n")
    assert scene.person.undo(scene.moment).exit_status == 0
    assert limits_of(scene.node) == [OLD, OLD]


def test_nothing_is_loosened_while_the_cluster_is_not_well_and_tightened_it_is(tmp_path: Path) -> None:
    node = Node(tmp_path, guest(1), guest(2), rules=rules(OLD))
    node.run(scope=Scope(frozenset({uuid_of(1)})))
    moment = node.now + timedelta(seconds=1)
    node.rules = rules(NEW)
    node.run()  # loosened on the one, and on the other limited for the first time
    node.ceph.raised = ("OSD_DOWN",)
    person = Person(node)
    report = person.undo(moment)
    assert limits_of(node) == [OLD, OLD, NEW, NEW]
    assert results(report)["2 vda"] == ("waits", "cluster-unwell")
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
    said = [None, because(Code.PAUSED, file="/etc/plimsoll/paused", why="stop")]
    report = scene.person.undo(scene.moment, paused=lambda: said.pop(0) if len(said) > 1 else said[0])
    assert limits_of(scene.node) == [OLD, NEW]
    assert results(report)["1 vdb"] == ("waits", "paused")


def test_what_became_another_after_it_was_shown_waits_for_another_word(scene: Scene) -> None:
    shown = scene.person.undo(scene.moment, look_only=True)
    scene.node.rules = rules(NEWER)
    scene.node.run()
    report = scene.person.undo(scene.moment, agreed=shown.agreement)
    assert set(results(report).values()) == {("waits", "not-agreed")}
    assert limits_of(scene.node) == [NEWER, NEWER]


def test_a_dry_run_writes_nowhere_and_says_what_the_real_one_then_says(scene: Scene) -> None:
    directory = scene.node.state.directory
    before = {file.name: file.read_bytes() for file in directory.iterdir()}
    scene.person.undo(scene.moment, look_only=True)
    dry = [undone_line(one) for one in scene.person.told]
    assert {file.name: file.read_bytes() for file in directory.iterdir()} == before
    assert limits_of(scene.node) == [NEW, NEW]
    scene.person.undo(scene.moment)
    assert [(undone_line(one) or "").rpartition("; done")[0] for one in scene.person.told] == dry


def test_only_the_guest_that_is_meant_is_put_back_by_its_name_or_uuid(tmp_path: Path) -> None:
    scene = a_scene(tmp_path, guest(1), guest(2), guest(3))
    report = scene.person.undo(scene.moment, "instance-00000001", uuid_of(2))
    assert limits_of(scene.node) == [OLD, OLD, OLD, OLD, NEW, NEW]
    assert len(report.undone) == 4


def test_a_guest_that_is_gone_may_be_named_and_one_that_never_was_may_not(scene: Scene) -> None:
    del scene.node.hypervisor.by_uuid[uuid_of(1)]
    assert set(results(scene.person.undo(scene.moment, "instance-00000001"))) == {"1 vda", "1 vdb"}
    with pytest.raises(NoSuchGuest, match="instance-99999999"):
        scene.person.undo(scene.moment, "instance-99999999")


def test_of_a_named_guest_only_the_others_stay_remembered_as_they_were(tmp_path: Path) -> None:
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


class Forgetful(Ledger):
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
        Person(node).undo(moment, ledger=Forgetful(node.state, "ann"))
    assert limits_of(node) == [first]
    node.rules = rules(None)
    node.run()
    (remembered,) = node.memory.values()
    assert (remembered.put, remembered.wanted, remembered.kept) == (None, NEW, False)
    assert node.recorded("result") == [("done",), ("took",)]


def test_killed_after_its_writes_it_is_done_with_when_it_is_run_again(scene: Scene) -> None:
    with pytest.raises(KeyboardInterrupt):
        scene.person.undo(scene.moment, ledger=Forgetful(scene.node.state, "ann"))
    report = scene.person.undo(scene.moment)
    assert set(results(report).values()) == {("right", "undone")}
    assert report.exit_status == 0
    assert {remembered.put for remembered in scene.node.memory.values()} == {OLD}
    assert not Record(scene.node.state.record).unsettled()


def test_what_another_pass_was_killed_over_is_settled_first(tmp_path: Path) -> None:
    node = Node(tmp_path, guest(1), rules=rules(OLD))
    moment = node.now
    with pytest.raises(KeyboardInterrupt):
        node.run(ledger=Forgetful(node.state, "tests"))
    assert limits_of(node) == [OLD, OLD]
    assert Person(node).undo(moment).exit_status == 0
    assert limits_of(node) == [UNLIMITED, UNLIMITED]
    assert node.recorded("result") == [("took",)] * 2 + [("done",)] * 2


def test_that_the_record_was_begun_anew_since_is_said_since_earlier_changes_are_not_in_it(scene: Scene) -> None:
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


def test_where_no_record_can_be_written_nothing_is_loosened(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.node.rules = rules(OLD)
    moment = scene.node.now + timedelta(seconds=1)
    scene.node.run()  # NEW → OLD: to undo it loosens

    def full(*_: object) -> list[int]:
        raise StateError("record.sqlite: database or disk is full")

    monkeypatch.setattr(Record, "intend", full)
    report = scene.person.undo(moment)
    assert set(results(report).values()) == {("failed", "no-record")}
    assert limits_of(scene.node) == [OLD, OLD]


def test_one_that_could_not_be_remembered_is_not_all_well(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise StateError("memory.json: cannot be written: No space left on device")

    monkeypatch.setattr(Ledger, "remember", full)
    report = scene.person.undo(scene.moment)
    assert limits_of(scene.node) == [OLD, OLD]
    assert [note.code for note in report.notes] == [Code.NOT_REMEMBERED]
    assert report.exit_status == 3


def test_a_disk_that_had_a_limit_of_its_own_leaves_the_group_that_it_was_put_in(tmp_path: Path) -> None:
    shared = replace(NEW, group_name="both")
    scene = a_scene(tmp_path, guest(1), then=shared)
    assert limits_of(scene.node) == [shared, shared]
    assert scene.person.undo(scene.moment).exit_status == 0
    assert limits_of(scene.node) == [OLD, OLD]


def test_directions_are_told_of_the_undoing_and_not_of_what_is_undone(scene: Scene) -> None:
    report = scene.person.undo(scene.moment)
    assert {one.change.direction for one in report.undone if one.change} == {Direction.TIGHTEN}


steps = st.lists(
    st.sampled_from(["old", "new", "newer", "unlimited", "nothing", "take", "hold", "later", "yield"]),
    min_size=1,
    max_size=6,
)


def take_a_step(node: Node, step: str) -> None:
    """One more thing that only plimsoll does to limits."""
    wanted = {"old": OLD, "new": NEW, "newer": NEWER, "unlimited": UNLIMITED}
    if step in wanted:
        node.rules = rules(wanted[step])
    elif step == "nothing":
        node.rules = rules(None)
    elif step == "take":
        node.rules = rules(None, TAKEN)
    elif step == "yield":
        node.rules = rules(None)
        planned = node.run(Mode.PLAN)
        orphans = [each.disk for each in planned.outcomes if each.result.reason.code is Code.ORPHANED]
        memory = Ledger(node.state, "ann").recall(node.now, look_only=False)
        node.state.save_memory(
            replace(memory, disks={**memory.disks, **releasing(orphans, planned.situation.memory)})
        )
    elif step == "hold":
        node.hold(1, "vda", NEWER, timedelta(minutes=20))
    else:
        node.now += timedelta(minutes=30)
    node.run()


@examples_of(40)
@given(steps, st.integers(0, 5))
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
        held = {key for key, remembered in node.memory.items() if remembered.returns is not None}
        for step in walk[cut:]:
            take_a_step(node, step)
        node.now += timedelta(hours=1)
        node.run()  # no hold stands any more
        at_the_end = standing(node)

        person = Person(node)
        for since, meant in ((moment, at_the_moment), (node.now + timedelta(minutes=1), at_the_end)):
            report = person.undo(since)
            assert report.exit_status == 0
            # A disk that the sources want as it was held was not changed.
            for key in held - {one.disk.key for one in report.undone}:
                meant[key] = at_the_end[key]
            # One that had come to the same again is not written to, and stays whose it is.
            right = {one.disk.key for one in report.undone if one.result.kind is Kind.RIGHT}
            now = standing(node)
            assert {key: limits for key, (limits, _) in now.items()} == {
                key: limits for key, (limits, _) in meant.items()
            }
            assert {key: now[key] for key in now if key not in right} == {
                key: meant[key] for key in now if key not in right
            }
        assert history.verify(Record(node.state.record)).faults == ()


def standing(node: Node) -> dict[str, tuple[Limits, bool]]:
    """What is in force, and whether plimsoll takes it for its own, by disk.

    Of a disk that is held it is what was before the hold: an exception that has ended since does not come back.
    """
    found = {}
    for number in (1, 2):
        for target in node.hypervisor.by_uuid[uuid_of(number)].disks:
            disk = node.seen(number, target)
            assert isinstance(disk.in_force, Limits)
            remembered = node.memory[disk.key]
            if remembered.returns is not None:
                found[disk.key] = (remembered.returns, not remembered.theirs)
            else:
                found[disk.key] = (disk.in_force, remembered.put == disk.in_force)
    return found
