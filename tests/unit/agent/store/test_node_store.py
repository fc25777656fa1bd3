"""What a pass leaves behind: how open changes ended, and what is remembered of whom."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from plimsoll_agent.catalogue.attachments import Attachments, sight
from plimsoll_agent.catalogue.orders import Of, RegionApproval
from plimsoll_agent.catalogue.stages import Stages
from plimsoll_agent.messages import sentences
from plimsoll_agent.model.approvals import Approval
from plimsoll_agent.model.direction import Direction, direction
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.entries import Conclusion, Ending, Happening, RecordedChange, RecordedEvent
from plimsoll_agent.model.holds import Hold
from plimsoll_agent.model.later import Later
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.marks import Mark, Marks
from plimsoll_agent.model.memory import Pending, Remembered
from plimsoll_agent.model.reason import Code, Reason, Unknown, because
from plimsoll_agent.policy.decide import Decision, Desired, Unmanaged
from plimsoll_agent.policy.diff import Change, change_between
from plimsoll_agent.policy.memory import Findings, releasing, remembering, reverted_too_often, settled
from plimsoll_agent.store import record_query
from plimsoll_agent.store.node_store import Move, NodeStore
from plimsoll_agent.store.record import Record
from plimsoll_agent.store.record_query import Selection
from plimsoll_agent.store.retention import Retention
from plimsoll_agent.store.state import Given, Memory, State, StateError
from plimsoll_agent.util.frozen import replace
from tests.unit.sql import asked
from tests.unit.values import GUEST, NOON, VOLUME, a_disk, a_guest, a_situation

BEFORE = NOON - timedelta(hours=1)
UNLIMITED = Limits()
LIMITS = Limits(total_iops_sec=250)
OTHERS = Limits(total_iops_sec=9)
LATER = (
    Later(at=NOON + timedelta(hours=1), limits=OTHERS, by_type="gold", source=Code.QOS_SPEC),
    Later(at=NOON + timedelta(hours=2), limits=None),
)
DISK = a_disk(actual=LIMITS, defined=LIMITS)
SILENT = Unknown(because(Code.TIMED_OUT))
OURS = Remembered(
    desired=LIMITS,
    since=NOON,
    seen=NOON,
    applied=LIMITS,
    attachment=DISK.attachment,
    enforced=True,
    revision="aaaaaa",
    later=None,
)
ALL = pytest.mark.parametrize("everything", [True, False])


DEFAULT, HOLD, ENDED = because(Code.NODE_DEFAULT), because(Code.HOLD), because(Code.HOLD_ENDED)


def an_open(
    disk: Disk = DISK,
    id_: int = 7,
    after: Limits = LIMITS,
    before: Limits = UNLIMITED,
    reason: Reason = DEFAULT,
    cause: Code = Code.NEVER_LIMITED,
) -> RecordedChange:
    """A change that was under way when its pass was killed."""
    how = direction(before, after)
    return RecordedChange(
        id=id_,
        at=BEFORE,
        by="root",
        disk=disk.named,
        attachment=disk.attachment,
        before=before,
        after=after,
        direction=how,
        reason=reason,
        cause=cause,
        revision="aaaaaa",
        result=None,
        result_at=None,
        detail=None,
    )


# --- how a change ended whose outcome was not known


@ALL
@pytest.mark.parametrize(
    ("present", "result", "remembered"),
    [
        pytest.param(DISK, Ending.TOOK, OURS, id="it is in force"),
        pytest.param(replace(DISK, defined=Limits()), Ending.TOOK, OURS, id="in force and not in the definition"),
        pytest.param(a_disk(), Ending.DID_NOT_TAKE, None, id="no limit at all"),
        pytest.param(a_disk(actual=OTHERS, defined=OTHERS), Ending.DID_NOT_TAKE, None, id="another limit"),
        # libvirt has it: it was done, and then undone behind libvirt's back.
        pytest.param(replace(DISK, actual=OTHERS), Ending.DID_NOT_TAKE, OURS, id="only in the definition"),
        pytest.param(replace(DISK, node="9"), Ending.GONE, None, id="attached again"),
        pytest.param(replace(DISK, guest=a_guest(run="4")), Ending.GONE, None, id="started again"),
        pytest.param(replace(DISK, target="vdz"), Ending.TOOK, OURS, id="under another letter"),
        pytest.param(replace(DISK, actual=SILENT), None, None, id="not known"),
        pytest.param(replace(DISK, actual=None), None, None, id="not asked"),
    ],
)
def test_how_a_change_ended_is_read_off_what_is_actual(
    present: Disk, result: Ending | None, remembered: Remembered | None, everything: bool
) -> None:
    conclusions, ours = settled([an_open()], [present], a_situation(), everything=everything)
    assert conclusions == ([Conclusion(7, result)] if result else [])
    assert ours == ({DISK.key: remembered} if remembered else {})


def test_a_disk_that_is_not_there_is_gone_only_where_everything_was_seen() -> None:
    neighbour = a_disk(volume_id=None, image="another")
    assert settled([an_open()], [neighbour], a_situation(), everything=True) == (
        [Conclusion(7, Ending.GONE)],
        {},
    )
    assert settled([an_open()], [neighbour], a_situation(), everything=False) == ([], {})


def test_a_change_that_removed_a_limit_took_where_there_is_none() -> None:
    lift = an_open(after=UNLIMITED, before=LIMITS)
    conclusions, ours = settled([lift], [a_disk()], a_situation(), everything=True)
    assert conclusions == [Conclusion(7, Ending.TOOK)]
    assert ours[DISK.key].applied == Limits()


def test_each_of_many_changes_has_its_own_end() -> None:
    second = a_disk(volume_id=None, image="second", actual=OTHERS)
    opened = [
        an_open(),
        an_open(second, 8),
        an_open(id_=9, after=OTHERS),
        an_open(a_disk(pool="x", volume_id=None), 10),
    ]
    conclusions, ours = settled(opened, [DISK, second], a_situation(), everything=True)
    assert [(c.id, c.result) for c in conclusions] == [
        (7, Ending.TOOK),
        (8, Ending.DID_NOT_TAKE),
        (9, Ending.DID_NOT_TAKE),
        (10, Ending.GONE),
    ]
    assert ours == {DISK.key: OURS}


OLD = Remembered(
    desired=LIMITS,
    since=BEFORE,
    seen=BEFORE,
    applied=LIMITS,
    attachment=DISK.attachment,
    enforced=True,
    revision="aaaaaa",
)


def took(change: RecordedChange, old: Remembered | None, disk: Disk = DISK) -> Remembered:
    """What is remembered of a disk on which the change was found to have taken."""
    memory = {DISK.key: old} if old else {}
    return settled([change], [disk], a_situation(memory=memory), everything=True)[1][disk.key]


def test_what_took_is_added_to_what_was_remembered_and_not_put_in_its_place() -> None:
    same = took(an_open(), OLD)
    assert same == replace(OLD, seen=NOON), "desired since then, not since now"
    anew = took(an_open(), replace(OLD, desired=OTHERS, applied=OTHERS))
    assert anew == replace(OLD, since=NOON, seen=NOON, later=None)


def test_a_hold_that_took_is_not_what_the_sources_desired_and_has_a_way_back() -> None:
    hold = an_open(before=OTHERS, reason=HOLD)
    fresh = replace(OURS, desired=None, enforced=False, revision=None, later=())
    assert took(hold, None) == replace(fresh, restore_to=OTHERS, foreign=True)
    ours = replace(OLD, desired=OTHERS, applied=OTHERS)
    assert took(hold, ours) == replace(ours, seen=NOON, applied=LIMITS, restore_to=OTHERS)
    second = replace(ours, restore_to=UNLIMITED, foreign=True)
    assert took(hold, second) == replace(second, seen=NOON, applied=LIMITS), "before the first hold"


def test_the_way_back_stays_known_until_it_was_seen_to_its_end() -> None:
    held = replace(OLD, desired=None, applied=OTHERS, restore_to=LIMITS, foreign=True)
    back = took(an_open(before=OTHERS, reason=ENDED), held)
    assert back == replace(held, seen=NOON, applied=LIMITS)
    spoken = took(an_open(before=OTHERS), held)
    assert (spoken.restore_to, spoken.foreign) == (None, False), "a source has spoken"


def test_limits_by_hand_that_took_are_ours_and_not_what_the_sources_desired() -> None:
    by_hand = an_open(before=OTHERS, reason=because(Code.COMMAND_LINE))
    others = replace(OLD, desired=OTHERS, applied=OTHERS)
    assert took(by_hand, others) == replace(others, seen=NOON, applied=LIMITS)


def test_what_took_was_kept_whether_or_not_its_pass_came_to_say_so() -> None:
    assert took(an_open(), None).enforced
    assert took(an_open(), replace(OLD, applied=None, enforced=False)).enforced
    assert not took(an_open(reason=because(Code.COMMAND_LINE)), replace(OLD, desired=OTHERS, enforced=False)).enforced


def test_a_round_that_took_counts_like_one_that_was_answered() -> None:
    reverts = replace(OLD, reverts=1, reverted_at=BEFORE, seen=BEFORE - timedelta(minutes=5))
    assert took(an_open(before=OTHERS, cause=Code.EXTERNAL_CHANGE), reverts).reverts == 2
    assert took(an_open(before=OTHERS, cause=Code.DESIRED_CHANGED), reverts).reverts == 0


def test_what_took_is_desired_since_then_also_where_its_pass_did_not_come_to_remember_it() -> None:
    earlier = BEFORE - timedelta(minutes=5)
    pending = Pending(before=OTHERS, at=earlier, revision="aaaaaa", rules="")
    met = replace(OLD, since=earlier, seen=earlier, pending=pending)
    assert took(an_open(), met) == replace(met, seen=NOON, later=None, pending=None)


def test_what_its_pass_had_remembered_already_is_not_counted_again() -> None:
    reverts = replace(OLD, reverts=1, reverted_at=BEFORE)
    change = an_open(before=OTHERS, cause=Code.EXTERNAL_CHANGE)
    assert took(change, reverts) == replace(reverts, seen=NOON)
    assert took(replace(change, result=Ending.TIMED_OUT), reverts).reverts == 2, "its pass knew that it was open"


def test_a_change_tells_how_the_one_before_it_ended_and_starts_from_it() -> None:
    """In force now is what the second put; the first, of another pass, took too, for the second met it."""
    third = Limits(total_iops_sec=3)
    first, second = an_open(), an_open(id_=8, before=LIMITS, after=OTHERS, reason=because(Code.COMMAND_LINE))
    disk = replace(DISK, actual=OTHERS, defined=OTHERS)
    conclusions, ours = settled([first, second], [disk], a_situation(), everything=True)
    assert [conclusion.result for conclusion in conclusions] == [Ending.TOOK] * 2
    assert ours == {DISK.key: replace(OURS, applied=OTHERS)}
    late = an_open(id_=9, before=third, after=UNLIMITED)
    conclusions, _ = settled([first, second, late], [disk], a_situation(), everything=True)
    assert [conclusion.result for conclusion in conclusions] == [
        Ending.TOOK,
        Ending.TOOK,
        Ending.DID_NOT_TAKE,
    ]


def test_what_is_reverted_while_the_brake_holds_keeps_its_source() -> None:
    before = replace(OLD, seen=BEFORE - timedelta(minutes=5), applied=OTHERS, by_type="gold")
    assert took(an_open(before=OTHERS, reason=because(Code.DESIRED_BEFORE)), before).by_type == "gold"


@pytest.mark.parametrize(
    ("desired", "foreign", "applied", "kept"),
    [(LIMITS, False, LIMITS, True), (OTHERS, False, LIMITS, False), (OTHERS, True, None, False)],
)
def test_what_an_undo_reverted_is_ours_unless_it_was_of_others(
    desired: Limits, foreign: bool, applied: Limits | None, kept: bool
) -> None:
    undone = an_open(before=OTHERS, reason=because(Code.UNDONE, foreign=foreign))
    old = replace(OLD, desired=desired, applied=OTHERS, enforced=not kept)
    assert took(undone, old) == replace(old, seen=NOON, applied=applied, enforced=kept)


# --- a node_store on real files


@pytest.fixture
def node_store(tmp_path: Path) -> NodeStore:
    return NodeStore(State(tmp_path), "root (ann)")


STANDING = Hold(disk=DISK.named, limits=OTHERS, since=BEFORE, until=NOON + timedelta(hours=1), by="ann", why="a test")


def a_change(disk: Disk = DISK, reason: Reason = DEFAULT, after: Limits = LIMITS) -> Change:
    return change_between(disk, UNLIMITED, after, reason, Code.NEVER_LIMITED)


def results(directory: Path) -> list[tuple[object, ...]]:
    return asked(directory / "record.sqlite", "SELECT by, result, result_at FROM change ORDER BY id")


def test_a_change_of_a_killed_pass_is_settled_by_the_next_and_ours(node_store: NodeStore, tmp_path: Path) -> None:
    node_store.intend([a_change()], BEFORE, "aaaaaa")
    assert node_store.settle([DISK], a_situation(), everything=True) == {DISK.key: OURS}
    assert results(tmp_path) == [("root (ann)", None, None)], "open, until it is remembered"
    node_store.remember(Memory(disks={DISK.key: OURS}), NOON)
    node_store.conclude([], NOON)
    assert results(tmp_path) == [("root (ann)", "took", NOON.isoformat())]
    assert node_store.settle([DISK], a_situation(), everything=True) == {}, "once"


def test_a_change_that_cannot_be_told_yet_stays_open_for_a_later_pass(node_store: NodeStore, tmp_path: Path) -> None:
    (id_,) = node_store.intend([a_change()], BEFORE, "aaaaaa")
    node_store.conclude([Conclusion(id_, Ending.TIMED_OUT)], BEFORE)
    assert node_store.settle([replace(DISK, actual=SILENT)], a_situation(), everything=True) == {}
    assert node_store.settle([], a_situation(), everything=False) == {}
    assert results(tmp_path) == [("root (ann)", "timed-out", BEFORE.isoformat())]
    assert node_store.settle([DISK], a_situation(), everything=True) == {DISK.key: OURS}


def test_a_change_of_a_disk_that_is_gone_is_settled_where_everything_was_seen(
    node_store: NodeStore, tmp_path: Path
) -> None:
    node_store.intend([a_change()], BEFORE, "aaaaaa")
    assert node_store.settle([], a_situation(), everything=True) == {}
    node_store.conclude([], NOON)
    assert results(tmp_path) == [("root (ann)", "gone", NOON.isoformat())]


def test_an_intent_names_the_revision_that_it_was_decided_by(node_store: NodeStore, tmp_path: Path) -> None:
    node_store.intend([a_change()], BEFORE, "aaaaaa")
    assert [change.revision for change in Record(State(tmp_path).record).unsettled()] == ["aaaaaa"]


def test_what_is_lowered_without_a_record_is_reported_all_the_same(tmp_path: Path) -> None:
    told: list[object] = []
    state = State(tmp_path)
    state.record.mkdir()
    unrecorded = NodeStore(state, "root (ann)", tell=told.extend)
    lift = replace(a_change(NEIGHBOUR, after=UNLIMITED), before=LIMITS, direction=Direction.REMOVE)
    for revision in ("aaaaaa", ""):
        with pytest.raises(StateError):
            unrecorded.intend([lift, a_change()], BEFORE, revision)
        assert told == [replace(an_open(), id=0, by="root (ann)", revision=revision or None)]
        told.clear()
    with pytest.raises(StateError):
        unrecorded.intend([lift], BEFORE, "aaaaaa")
    assert told == []
    with pytest.raises(StateError):
        NodeStore(state, "root (ann)").intend([a_change()], BEFORE, "aaaaaa")


@pytest.mark.parametrize(
    ("move", "what"),
    [
        (Move.CAME, Happening.HOLD_ADDED),
        (Move.LEFT, Happening.HOLD_ENDED),
        (Move.REPLACED, Happening.HOLD_ENDED),
    ],
)
def test_a_hold_that_moves_with_its_guest_is_recorded_as_one_that_began_or_ended(
    node_store: NodeStore, tmp_path: Path, move: Move, what: Happening
) -> None:
    record = State(tmp_path).record
    node_store.note_moves([], NOON)
    assert not record.exists()
    node_store.note_moves([(STANDING, move)], NOON)
    event, _ = sorted(record_query.entries(Record(record), Selection()), key=lambda entry: -entry.id)
    reason = replace(STANDING.reason, facts={**STANDING.reason.facts, "moved": move.value})
    assert event == RecordedEvent(id=2, at=NOON, by="root (ann)", what=what, disk=DISK.named, reason=reason)


def test_what_goes_into_the_record_is_told(tmp_path: Path) -> None:
    told: list[object] = []
    NodeStore(State(tmp_path), "root (ann)", tell=told.extend).note_moves([(STANDING, Move.LEFT)], NOON)
    assert told


def test_after_its_changes_the_record_is_rid_of_what_is_too_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[object] = []

    def full(*words: object) -> None:
        asked.append(words[1:])
        raise StateError("record.sqlite: database is locked")

    monkeypatch.setattr(Record, "retain", full)
    retention = Retention(keep_days=30)
    NodeStore(State(tmp_path), "root", retention).conclude([], NOON)
    assert asked == [(retention, NOON)]
    kept = "record.sqlite: database is locked; old entries of the record were not removed; the next pass tries again"
    assert caplog.messages == [kept]
    NodeStore(State(tmp_path), "root").conclude([], NOON)
    assert len(asked) == 1


NEIGHBOUR = a_disk(volume_id=None, image="another")
ENDED_HOLD, OTHER_HOLD = replace(STANDING, until=NOON), replace(STANDING, disk=NEIGHBOUR.named)


def test_a_hold_that_ended_goes_once_the_record_says_so(node_store: NodeStore, tmp_path: Path) -> None:
    node_store.remember(Memory(disks={DISK.key: OURS}, holds={DISK.key: ENDED_HOLD, NEIGHBOUR.key: OTHER_HOLD}), NOON)
    state = State(tmp_path)
    assert state.load_memory() == Memory(disks={DISK.key: OURS}, holds={NEIGHBOUR.key: OTHER_HOLD})
    _, ended = record_query.entries(Record(state.record), Selection())
    assert ended == RecordedEvent(
        id=2, at=NOON, by="root (ann)", what=Happening.HOLD_ENDED, disk=DISK.named, reason=ENDED_HOLD.reason
    )


def test_the_end_of_a_hold_is_recorded_once_however_often_its_pass_remembers(
    node_store: NodeStore, tmp_path: Path
) -> None:
    other = replace(ENDED_HOLD, disk=NEIGHBOUR.named)
    for _ in range(3):
        node_store.remember(Memory(disks={}, holds={DISK.key: ENDED_HOLD, NEIGHBOUR.key: other}), NOON)
    events = list(record_query.entries(Record(State(tmp_path).record), Selection()))
    ended = [each.disk for each in events if isinstance(each, RecordedEvent) and each.what is Happening.HOLD_ENDED]
    assert sorted(ended, key=str) == sorted([DISK.named, NEIGHBOUR.named], key=str)


def test_a_hold_that_ended_stays_while_the_record_cannot_say_so(node_store: NodeStore, tmp_path: Path) -> None:
    state = State(tmp_path)
    state.record.mkdir()
    node_store.remember(Memory(disks={}, holds={DISK.key: ENDED_HOLD, NEIGHBOUR.key: OTHER_HOLD}), NOON)
    assert state.load_memory() == Memory(disks={}, holds={DISK.key: ENDED_HOLD, NEIGHBOUR.key: OTHER_HOLD})
    (note,) = node_store.notes
    assert note.code is Code.NO_RECORD
    assert str(state.record) in str(note.facts["detail"])


def test_a_guest_that_something_else_changed_since_is_neither_changed_nor_settled(
    node_store: NodeStore, tmp_path: Path
) -> None:
    state = State(tmp_path)
    node_store.remember(Memory(disks={DISK.key: OURS}), NOON)
    node_store.intend([a_change()], BEFORE, "aaaaaa")
    passing, another = NodeStore(state, "a pass"), NodeStore(state, "another")
    for store in (passing, another):
        assert store.recall(NOON, read_only=False).disks == {DISK.key: OURS}
    later = replace(OURS, seen=OURS.seen + timedelta(minutes=5))
    another.remember(Memory(disks={DISK.key: later}), NOON)
    passing.lock_unsettled(lambda _: True)
    assert passing.settle([DISK], a_situation(), everything=True) == {}
    assert passing.lock([GUEST]) == {GUEST: Code.CHANGED_SINCE}
    assert another.lock([GUEST]) == {GUEST: Code.GUEST_BUSY}
    passing.remember(Memory(disks={DISK.key: replace(OURS, reverts=7)}), NOON)
    assert state.load_memory() == Memory(disks={DISK.key: later})
    passing.locks.close()

    third = NodeStore(state, "a third")
    third.recall(NOON, read_only=False)
    third.lock_unsettled(lambda _: True)
    assert list(third.settle([DISK], a_situation(), everything=True)) == [DISK.key]
    assert third.lock([GUEST]) == {}
    third.locks.close()


@pytest.mark.parametrize("name", ["memory", "approval", "record"])
def test_a_corrupt_file_is_set_aside_and_the_note_says_what_was_wrong(
    node_store: NodeStore, tmp_path: Path, name: str
) -> None:
    state = State(tmp_path)
    path: Path = getattr(state, name)
    path.write_bytes(b"{" * 1000)
    uses: dict[str, Callable[[], object]] = {
        "memory": lambda: node_store.recall(NOON, read_only=False),
        "approval": lambda: node_store.approved(read_only=False),
        "record": lambda: node_store.settle([DISK], a_situation(), everything=True),
    }
    uses[name]()
    (note,) = node_store.notes
    assert str(note.facts["detail"]).startswith(f"{path}: ")
    assert [file.read_bytes() for file in tmp_path.glob(f"{path.name}.corrupt*")] == [b"{" * 1000]
    if name == "record":
        (started,) = record_query.entries(Record(path), Selection())
        assert isinstance(started, RecordedEvent)
        assert (started.at, started.by, started.what) == (NOON, "root (ann)", Happening.RECORD_STARTED)


def test_a_corrupt_memory_that_cannot_be_set_aside_does_not_keep_a_pass_from_its_record(
    node_store: NodeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: Path, error: type[StateError]) -> None:
        raise error(f"{path}: read-only")

    put_on_record(node_store, a_change())
    State(tmp_path).memory.write_text("{")
    monkeypatch.setattr("plimsoll_agent.util.files.set_aside", refused)
    assert list(node_store.recall(NOON, read_only=False).disks) == [DISK.key]


VOLUME_DISK = a_disk(actual=LIMITS, defined=LIMITS)


def test_attachments_are_met_only_where_a_catalogue_is_to_know_of_them(node_store: NodeStore) -> None:
    assert node_store.attachments([VOLUME_DISK], a_situation(), ()) == Attachments()


def test_attachments_are_known_by_the_boot_and_by_what_plimsoll_put_there(tmp_path: Path) -> None:
    """What others applied makes another mark, and the type is asked for again; what plimsoll applied does not."""
    node_store = NodeStore(State(tmp_path, boot="b1"), "root (ann)")
    unknown = replace(a_situation(), catalogue=Unknown(because(Code.NO_CATALOGUE)))
    as_met = node_store.attachments([a_disk()], unknown, ())
    assert as_met == sight([a_disk()], Attachments(), {}, NOON, boot="b1")
    later = replace(unknown, attachments=as_met, now=NOON + timedelta(minutes=5))
    ours = Remembered(desired=LIMITS, since=NOON, seen=NOON, applied=LIMITS, attachment=VOLUME_DISK.attachment)
    assert node_store.attachments([VOLUME_DISK], replace(later, memory={DISK.key: ours}), ()) == as_met
    for memory in ({}, {DISK.key: replace(ours, applied=None)}):
        others = node_store.attachments([VOLUME_DISK], replace(later, memory=memory), ())
        assert others == sight([VOLUME_DISK], as_met, {}, later.now, boot="b1")
        assert others.volumes[DISK.key].external_changes == 1
    assert node_store.attachments([], later, (GUEST,)) == as_met, "its guest was not looked at"


def test_only_new_attachments_are_saved(node_store: NodeStore, tmp_path: Path) -> None:
    state = State(tmp_path)
    met = sight([VOLUME_DISK], Attachments(), {}, NOON, boot="")
    node_store.save_attachments(met, met)
    assert list(tmp_path.iterdir()) == []
    node_store.save_attachments(met, Attachments())
    assert state.load_attachments() == met


def test_what_is_remembered_is_in_the_state(node_store: NodeStore, tmp_path: Path) -> None:
    node_store.remember(Memory(disks={DISK.key: OURS}, holds={DISK.key: STANDING}), NOON)
    assert State(tmp_path).load_memory() == Memory(disks={DISK.key: OURS}, holds={DISK.key: STANDING})
    assert node_store.recall(NOON, read_only=True) == Memory(disks={DISK.key: OURS}, holds={DISK.key: STANDING})


def test_a_ledger_without_its_directory_raises_a_state_error_whatever_it_is_to_keep(tmp_path: Path) -> None:
    node_store = NodeStore(State(tmp_path / "absent"), "tests")
    assert node_store.settle([], a_situation(), everything=True) == {}, "there is nothing in it"
    for use in (
        lambda: node_store.intend([a_change()], NOON, "aaaaaa"),
        lambda: node_store.conclude([Conclusion(1, Ending.DONE)], NOON),
        lambda: node_store.remember(Memory(), NOON),
    ):
        with pytest.raises(StateError, match="absent"):
            use()


@pytest.mark.parametrize(("position", "number"), [(5.0, 2), (0.5, 1)])
def test_the_record_has_the_stage_of_the_node_when_an_approval_reaches_it(
    node_store: NodeStore, tmp_path: Path, position: float, number: int
) -> None:
    stages = Stages(percent=(1.0, 10.0, 100.0), wait=timedelta(minutes=30), reached=2, entered=BEFORE)
    one = RegionApproval(
        of=Of.SPECS, digest="0a1b" * 16, since=BEFORE, until=NOON, by="ann", why="sale", stages=stages
    )
    everywhere = replace(one, stages=None)
    node_store.note_stages([everywhere, one], position, NOON)
    _, event = record_query.entries(Record(tmp_path / "record.sqlite"), Selection())
    assert isinstance(event, RecordedEvent)
    assert (event.what, event.at, event.by) == (Happening.APPROVED, NOON, "ann")
    assert event.reason is not None
    text = f"0a1b0a1b0a1b0a1b approved for the region, stage {number} of 3: sale"
    assert sentences.words(event.reason) == text


def test_an_approval_without_stages_makes_no_record(node_store: NodeStore, tmp_path: Path) -> None:
    one = RegionApproval(of=Of.SPECS, digest="0a1b" * 16, since=BEFORE, until=NOON, by="ann", why="sale")
    node_store.note_stages([one], 5.0, NOON)
    assert not (tmp_path / "record.sqlite").exists()


def put_on_record(node_store: NodeStore, *changes: Change, result: Ending = Ending.DONE) -> None:
    ids = node_store.intend(changes, BEFORE, "aaaaaa")
    node_store.conclude([Conclusion(id_, result) for id_ in ids], BEFORE)


def test_a_memory_that_is_lost_is_made_of_what_the_record_says_was_put_actual(node_store: NodeStore) -> None:
    assert node_store.recall(NOON, read_only=False) == Memory(), "a new node"
    put_on_record(node_store, a_change(after=OTHERS), a_change())
    put_on_record(node_store, a_change(after=OTHERS), result=Ending.REFUSED)
    assert node_store.recall(NOON, read_only=False).disks == {
        DISK.key: Remembered(
            desired=LIMITS,
            since=BEFORE,
            seen=NOON,
            applied=LIMITS,
            attachment=None,
            enforced=True,
            revision="aaaaaa",
            later=None,
        )
    }
    assert node_store.notes == []


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        (because(Code.RULE, rule="night", ceiling="most"), {"by_rules": ("night", "most")}),
        (because(Code.QOS_SPEC, type="gold", spec="gold-iops", consumer="front-end"), {"by_type": "gold"}),
        (because(Code.COMMAND_LINE), {"desired": None, "enforced": False, "revision": None}),
        (because(Code.COMMAND_LINE, ceiling="most"), {"desired": None, "enforced": False, "revision": None}),
        (because(Code.RELEASED, type="gold"), {"released": "gold"}),
        (because(Code.RELEASED), {"released": ""}),
    ],
)
def test_what_the_record_tells_of_the_source_and_of_releases(
    node_store: NodeStore, reason: Reason, expected: dict[str, Any]
) -> None:
    put_on_record(node_store, a_change(reason=reason))
    found = replace(OLD, attachment=None, since=BEFORE, seen=NOON, later=None)
    assert node_store.recall(NOON, read_only=False).disks == {DISK.key: replace(found, **expected)}


@pytest.mark.parametrize("reason", [HOLD, ENDED])
def test_what_a_hold_set_or_reverted_is_not_claimed_from_the_record(node_store: NodeStore, reason: Reason) -> None:
    put_on_record(node_store, a_change(), a_change(reason=reason, after=OTHERS))
    assert node_store.recall(NOON, read_only=False) == Memory()
    put_on_record(node_store, a_change())
    assert list(node_store.recall(NOON, read_only=False).disks) == [DISK.key]


def test_one_that_only_looks_changes_no_file(node_store: NodeStore, tmp_path: Path) -> None:
    put_on_record(node_store, a_change())
    node_store.intend([a_change()], BEFORE, "aaaaaa")
    state = State(tmp_path)
    for file in (state.memory, state.approval):
        file.write_text("{")
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert list(node_store.recall(NOON, read_only=True).disks) == [DISK.key]
    assert node_store.approved(read_only=True) == ()
    assert list(node_store.settle([DISK], a_situation(), everything=True, read_only=True)) == [DISK.key]
    state.record.write_bytes(b"no record" * 100)
    assert node_store.settle([DISK], a_situation(), everything=True, read_only=True) == {}
    state.record.write_bytes(before["record.sqlite"])
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before
    assert [note.code for note in node_store.notes] == [
        Code.MEMORY_SET_ASIDE,
        Code.APPROVAL_SET_ASIDE,
        Code.RECORD_SET_ASIDE,
    ]


def test_what_was_approved_is_told_until_it_is_used_up(node_store: NodeStore, tmp_path: Path) -> None:
    assert node_store.approved(read_only=False) == ()
    approval = Approval("0123456789abcdef")
    State(tmp_path).save_approvals([Given(approval, "ann", NOON)])
    assert node_store.approved(read_only=False) == (approval,)
    node_store.use_up_approvals()
    assert node_store.approved(read_only=False) == ()


# --- the memory after a pass

WANTS = Decision(desired=Desired(LIMITS, DEFAULT), trail=())
LEAVES = Decision(desired=Unmanaged(because(Code.NO_LIMIT)), trail=())
UNKNOWN = Decision(desired=Unknown(because(Code.IMPOSSIBLE)), trail=())
HELD = Decision(desired=Desired(OTHERS, HOLD), trail=(), aside=WANTS.desired)
HELD_UNKNOWN = Decision(desired=Desired(OTHERS, HOLD), trail=(), aside=UNKNOWN.desired)
SPEC = because(Code.QOS_SPEC, type="gold", spec="gold-iops", consumer="front-end")
BY_SPEC = Decision(desired=Desired(LIMITS, SPEC), trail=())


def after(
    decision: Decision | None,
    old: Remembered | None = None,
    *,
    disk: Disk = DISK,
    applied: Limits | None = None,
    unseen: tuple[str, ...] = (),
    braked: bool = False,
    enforcing: bool = True,
) -> Remembered | None:
    """What is remembered of the disk after a pass that decided so; None as a decision: the pass did not see it."""
    memory = {DISK.key: old} if old else {}
    decided = [(disk, decision)] if decision else []
    change = None
    if applied is not None and decision is not None:
        change = replace(a_change(disk, decision.desired.reason, applied), before=disk.actual)
    puts = {} if change is None else {DISK.key: change}
    sight = Findings(
        decided=decided,
        applied=puts,
        unseen=unseen,
        braked={DISK.key} if braked else (),
        enforcing=enforcing,
        revision="aaaaaa",
    )
    kept = remembering(a_situation(memory=memory), sight)
    assert kept.keys() <= {DISK.key}
    return kept.get(DISK.key)


FRESH = Remembered(
    desired=LIMITS, since=NOON, seen=NOON, applied=None, attachment=DISK.attachment, enforced=True, revision="aaaaaa"
)


def test_a_disk_that_is_new_is_remembered_with_what_is_desired_and_not_claimed() -> None:
    assert after(WANTS) == FRESH


def test_limits_that_were_put_actual_are_claimed() -> None:
    assert after(WANTS, applied=LIMITS) == replace(FRESH, applied=LIMITS)
    observed = replace(OLD, applied=None)
    assert after(WANTS, observed, applied=Limits()) == replace(OLD, seen=NOON, applied=Limits()), (
        "lifting is a word too"
    )


def test_a_claim_outlives_passes_that_put_nothing_and_gives_way_to_a_new_one() -> None:
    assert after(WANTS, OLD) == replace(OLD, seen=NOON)
    before = replace(OLD, applied=OTHERS)
    assert after(WANTS, before) == replace(before, seen=NOON)
    assert after(WANTS, before, applied=LIMITS) == replace(OLD, seen=NOON)


def test_limits_by_hand_are_put_and_not_taken_for_what_the_sources_want() -> None:
    by_hand = Decision(desired=Desired(LIMITS, because(Code.COMMAND_LINE)), trail=())
    others = replace(OLD, desired=OTHERS, applied=OTHERS)
    assert after(by_hand, others, applied=LIMITS) == replace(others, seen=NOON, applied=LIMITS)


def test_the_time_since_which_limits_are_desired_begins_again_with_other_limits() -> None:
    desired_others = replace(OLD, desired=OTHERS)
    assert after(WANTS, desired_others) == replace(OLD, since=NOON, seen=NOON)


@pytest.mark.parametrize("decision", [LEAVES, UNKNOWN])
def test_a_disk_of_which_nothing_is_desired_now_stays_ours(decision: Decision) -> None:
    assert after(decision, OLD) == replace(OLD, seen=NOON)
    never = replace(FRESH, desired=None, enforced=False)
    assert after(decision, never) == never, "and one that never was ours does not become it"


def test_a_disk_just_met_that_is_unknown_is_not_remembered_as_one_without_limits() -> None:
    """The brake would take its first limits for a change of what is desired, on every disk of a new node."""
    assert after(UNKNOWN) is None
    assert after(LEAVES) == replace(FRESH, desired=None, enforced=False, revision=None), (
        "that nothing is desired is an answer"
    )
    assert after(HELD_UNKNOWN) == replace(FRESH, desired=None, enforced=False, revision=None), (
        "a hold has to be remembered"
    )


@pytest.mark.parametrize("decision", [WANTS, LEAVES])
def test_a_disk_attached_again_with_other_limits_is_not_taken_for_the_old_one(decision: Decision) -> None:
    again = replace(DISK, node="9", defined=OTHERS, actual=OTHERS)
    fresh = Remembered(
        desired=LIMITS,
        since=BEFORE,
        seen=NOON,
        applied=None,
        attachment=again.attachment,
        enforced=True,
        revision="aaaaaa",
    )
    assert after(decision, OLD, disk=again) == fresh, "but what was desired of it is still known"


@pytest.mark.parametrize("decision", [WANTS, LEAVES])
def test_a_disk_that_came_back_with_our_limits_is_ours_under_its_new_attachment(decision: Decision) -> None:
    again = replace(DISK, guest=a_guest(run="4"))
    away = replace(OLD, attachment=None)
    assert after(decision, away, disk=again) == replace(OLD, seen=NOON, attachment=again.attachment)


def test_a_guest_that_was_not_looked_at_is_remembered_as_it_was() -> None:
    assert after(None, OLD, unseen=(GUEST,)) == OLD
    ancient = replace(OLD, seen=NOON - timedelta(days=400))
    assert after(None, ancient, unseen=(GUEST,)) == ancient


def test_a_guest_that_is_away_keeps_its_claim_for_30_days_and_not_its_attachment() -> None:
    assert after(None, OLD) == replace(OLD, attachment=None)
    away = replace(OLD, seen=NOON - timedelta(days=30) + timedelta(seconds=1), attachment=None)
    assert after(None, away) == away, "the days are counted from when it was seen"
    assert after(None, replace(away, seen=NOON - timedelta(days=30))) is None


def test_a_disk_that_its_guest_has_no_more_is_forgotten() -> None:
    neighbour = a_disk(volume_id=None, image="another")
    kept = remembering(
        a_situation(memory={DISK.key: OLD}), Findings(decided=[(neighbour, LEAVES)], applied={}, unseen=())
    )
    assert kept.keys() == {neighbour.key}


def test_guests_are_told_apart_by_their_whole_uuid() -> None:
    other = Remembered(desired=LIMITS, since=BEFORE, seen=BEFORE, applied=None, attachment="1:1:volumes/x")
    memory = {DISK.key: OLD, f"{GUEST}0/volumes/x": other}
    kept = remembering(a_situation(memory=memory), Findings(decided=[], applied={}, unseen=(GUEST,)))
    assert kept == {DISK.key: OLD, f"{GUEST}0/volumes/x": replace(other, attachment=None)}


def test_what_the_brake_stopped_is_not_taken_for_desired() -> None:
    others = replace(OLD, desired=OTHERS, applied=OTHERS)
    assert after(WANTS, others, braked=True) == replace(others, seen=NOON)


def test_what_is_written_for_now_is_known_for_ours_and_not_taken_for_desired() -> None:
    reduced = replace(WANTS, instead=Desired(OTHERS, because(Code.OPERATOR, why="for now")))
    assert after(reduced, OLD, applied=OTHERS) == replace(OLD, seen=NOON, applied=OTHERS)
    assert after(reduced, applied=OTHERS) == replace(FRESH, applied=OTHERS, enforced=False), "never in force yet"
    still = replace(DISK, actual=OTHERS, defined=OTHERS)
    reduced_before = replace(OLD, applied=OTHERS)
    assert after(reduced, reduced_before, disk=still) == replace(reduced_before, seen=NOON)
    assert after(WANTS, reduced_before, disk=still, applied=LIMITS) == replace(OLD, seen=NOON), "and as it was"


def test_what_the_sources_want_during_a_hold_counts_as_the_brake_has_seen_it_and_is_pending() -> None:
    old = replace(OLD, desired=OTHERS, restore_to=LIMITS)
    pending = Pending(before=OTHERS, at=NOON, revision="aaaaaa", rules="")
    then = after(HELD, old)
    assert then == replace(old, seen=NOON, desired=LIMITS, since=NOON, pending=pending)
    assert after(HELD, old, braked=True) == replace(old, seen=NOON)
    again = Desired(Limits(total_iops_sec=7), DEFAULT)
    assert after(replace(HELD, aside=again), then) == replace(then, desired=again.limits), "the limits of before stay"
    over = after(WANTS, then, applied=LIMITS)
    assert over == replace(OLD, seen=NOON, since=NOON), "it is in force"
    observed = replace(old, enforced=False)
    assert after(HELD, observed, enforcing=False) == replace(observed, seen=NOON, desired=LIMITS, since=NOON)


# --- whose word it was


@pytest.mark.parametrize(
    ("reason", "by_type"),
    [
        (SPEC, "gold"),
        (because(Code.QOS_SPEC, **SPEC.facts, ceiling="night"), None),
        (because(Code.QOS_SPEC, **SPEC.facts, floor="least"), None),
        (because(Code.FLAVOR, flavor="m1.large"), None),
        (because(Code.RULE, rule="r"), None),
    ],
    ids=["spec", "ceiling", "floor", "flavor", "rule"],
)
def test_a_specs_own_word_is_remembered_as_one_and_no_other(reason: Reason, by_type: str | None) -> None:
    """What the region approved of is one spec's word for another's, not what rules made of them."""
    for old in (OLD, replace(OLD, by_type="gold")):
        new = after(Decision(desired=Desired(LIMITS, reason), trail=()), old)
        assert new == replace(OLD, seen=NOON, by_type=by_type, by_rules=reason.rules), (
            "desired since then, by another"
        )


@pytest.mark.parametrize("by_type", ["gold", None])
@pytest.mark.parametrize("decision", [LEAVES, UNKNOWN])
def test_the_source_is_known_while_no_source_says_another(decision: Decision, by_type: str | None) -> None:
    old = replace(OLD, by_type=by_type)
    assert after(decision, old) == replace(old, seen=NOON)


@pytest.mark.parametrize(("said", "before"), [(BY_SPEC, None), (WANTS, "gold")])
def test_what_does_not_count_yet_does_not_name_a_source(said: Decision, before: str | None) -> None:
    """Of a disk that is braked the old limits are still to be weighed as whose they were."""
    old = replace(OLD, desired=OTHERS, applied=OTHERS, by_type=before)
    assert after(said, old, braked=True) == replace(old, seen=NOON)
    held = replace(old, restore_to=LIMITS)
    assert after(replace(HELD, aside=said.desired), held, braked=True) == replace(held, seen=NOON)


@pytest.mark.parametrize("decision", [LEAVES, UNKNOWN])
def test_a_disk_attached_again_keeps_its_source(decision: Decision) -> None:
    """It is so for a pass at least: Cinder has to be asked for every new attachment."""
    again = replace(DISK, node="9", defined=OTHERS, actual=OTHERS)
    new = after(decision, replace(OLD, by_type="gold"), disk=again)
    assert new is not None
    assert (new.desired, new.by_type) == (LIMITS, "gold")


def test_of_a_disk_attached_again_it_stays_known_what_was_desired_and_nothing_of_what_was_actual() -> None:
    known = replace(OLD, by_type="gold", by_rules=("night",), later=LATER, mark="1f2e", released="gold")
    again = replace(DISK, node="9", defined=OTHERS, actual=OTHERS)
    old = replace(known, restore_to=OTHERS, foreign=True, reverts=2, reverted_at=BEFORE)
    assert after(UNKNOWN, old, disk=again) == replace(known, seen=NOON, applied=None, attachment=again.attachment)


def test_a_guest_on_the_move_is_remembered_as_it_was_and_its_neighbours_as_they_are() -> None:
    mark = Mark(desired=LIMITS, since=BEFORE, applied=LIMITS)
    arriving = a_disk(a_guest(uuid="b", marks=Marks({VOLUME: mark})), actual=SILENT)
    new = a_disk(a_guest(uuid="c", marks=Marks({VOLUME: mark})), actual=SILENT)
    hanging = a_disk(a_guest(uuid="d", marks=Marks({VOLUME: mark})), actual=SILENT)
    old, known = replace(OLD, attachment="1:1:of before"), replace(OLD, attachment=hanging.attachment)
    seen = Findings(
        decided=[(each, WANTS) for each in (arriving, new, hanging, DISK)], applied={}, unseen=(), revision="aaaaaa"
    )
    kept = remembering(a_situation(memory={arriving.key: old, hanging.key: known}), seen)
    assert kept == {arriving.key: old, hanging.key: replace(known, seen=NOON), DISK.key: FRESH}


def test_a_change_that_took_effect_names_its_source() -> None:
    assert took(an_open(reason=SPEC), None).by_type == "gold"
    before = replace(OLD, desired=OTHERS, applied=OTHERS, by_type="gold")
    by_rule = took(an_open(reason=because(Code.RULE, rule="r")), replace(before, by_rules=("night",)))
    assert (by_rule.by_type, by_rule.by_rules) == (None, ("r",))
    put_back = took(an_open(reason=because(Code.DESIRED_BEFORE)), replace(before, by_rules=("night",)))
    assert (put_back.by_type, put_back.by_rules) == ("gold", ("night",))


def test_a_release_stands_after_a_change_that_took_unless_a_person_undid_something() -> None:
    released = replace(OLD, applied=OTHERS, released="gold")
    assert took(an_open(), released).released == "gold"
    assert took(an_open(reason=because(Code.UNDONE)), released).released is None


def test_a_rule_that_ends_management_ends_what_was_desired_but_not_whose_limits_they_are() -> None:
    ends = Decision(desired=Unmanaged(because(Code.RULE_UNMANAGES, rule="r")), trail=())
    old = replace(OLD, by_type="gold", by_rules=("night",))
    unmanaged = replace(OLD, seen=NOON, desired=None, enforced=False, revision=None)
    assert after(ends, old) == unmanaged
    assert after(replace(ends, ahead=AHEAD), old) == replace(unmanaged, later=LATER), "for its stated end"


def source_of(remembered: Remembered | None) -> Code | None:
    """It counts for no comparison."""
    assert remembered is not None
    return remembered.source


def test_the_kind_of_source_is_remembered_until_another_one_says_something() -> None:
    old = replace(OLD, source=Code.RULE)
    assert source_of(after(BY_SPEC, old)) is Code.QOS_SPEC
    assert source_of(after(LEAVES, old)) is Code.RULE
    assert source_of(after(BY_SPEC, old, braked=True)) is Code.RULE
    assert source_of(after(LEAVES, old, disk=replace(DISK, node="9", defined=OTHERS, actual=OTHERS))) is Code.RULE
    ends = Decision(desired=Unmanaged(because(Code.RULE_UNMANAGES, rule="r")), trail=())
    assert source_of(after(ends, old)) is Code.RULE_UNMANAGES
    old = replace(old, applied=OTHERS)
    assert source_of(took(an_open(reason=SPEC), old)) is Code.QOS_SPEC
    assert source_of(took(an_open(reason=because(Code.DESIRED_BEFORE)), old)) is Code.RULE


def test_the_kind_of_source_of_lost_memory_is_what_the_record_says(node_store: NodeStore) -> None:
    put_on_record(node_store, a_change(reason=SPEC))
    assert source_of(node_store.recall(NOON, read_only=False).disks[DISK.key]) is Code.QOS_SPEC
    put_on_record(node_store, a_change(reason=because(Code.COMMAND_LINE)))
    assert source_of(node_store.recall(NOON, read_only=False).disks[DISK.key]) is None


def test_of_a_disk_that_does_not_answer_it_counts_what_is_desired_if_something_was_before() -> None:
    hangs = replace(DISK, actual=SILENT)
    other = Decision(desired=Desired(OTHERS, DEFAULT), trail=())
    then = replace(OLD, desired=OTHERS, since=NOON, seen=NOON)
    pending = Pending(before=LIMITS, at=NOON, revision="aaaaaa", rules="")
    assert after(other, OLD, disk=hangs) == replace(then, pending=pending)
    first = replace(OLD, desired=None, enforced=False)
    assert after(other, first, disk=hangs) == replace(first, seen=NOON)


# --- released limits, and what was desired before a rule with an end

GOLD_DISK = replace(DISK, volume_type="gold")
GONE = Decision(desired=Desired(UNLIMITED, because(Code.RELEASED, type="gold")), trail=())


def test_a_release_is_of_the_type_that_the_disk_has_now() -> None:
    typeless = replace(NEIGHBOUR, volume_type=None)
    memory = {GOLD_DISK.key: OLD, typeless.key: OURS, "a/b": OURS}
    assert releasing([GOLD_DISK, typeless], memory) == {
        GOLD_DISK.key: replace(OLD, released="gold"),
        typeless.key: replace(OURS, released=""),
    }


def test_a_release_stands_until_a_source_has_an_opinion() -> None:
    old = replace(OLD, by_type="gold", by_rules=("night",), released="of before", source=Code.QOS_SPEC)
    new = after(GONE, old, disk=GOLD_DISK, applied=UNLIMITED)
    assert new == replace(old, desired=UNLIMITED, since=NOON, seen=NOON, applied=UNLIMITED, released="gold"), (
        "the origin of the limits stays known"
    )
    assert source_of(new) is Code.QOS_SPEC
    for stays in (UNKNOWN, Decision(desired=Desired(OTHERS, because(Code.COMMAND_LINE)), trail=()), HELD_UNKNOWN):
        stood = after(stays, replace(OLD, released="gold"))
        assert stood is not None
        assert stood.released == "gold", stays
    for ended in (LEAVES, WANTS, HELD):
        over = after(ended, replace(OLD, released="gold"))
        assert over is not None
        assert over.released is None, ended


AHEAD = tuple(
    (each.at, Unmanaged(because(Code.NO_LIMIT)) if each.limits is None else Desired(each.limits, SPEC))
    for each in LATER
)


@pytest.mark.parametrize("decision", [WANTS, HELD])
def test_what_comes_at_the_end_of_rules_is_remembered_also_during_a_hold(decision: Decision) -> None:
    new = after(replace(decision, ahead=AHEAD))
    assert new is not None
    assert new.later == LATER
    assert [each.source for each in new.later] == [Code.QOS_SPEC, None]
    over = after(decision, new)
    assert over is not None
    assert over.later == ()


# --- holds, and what was kept


@pytest.mark.parametrize(("foreign", "applied"), [(True, None), (False, LIMITS)])
@pytest.mark.parametrize("written", [True, False])
def test_after_a_hold_the_limits_are_whose_they_were_before_it(
    foreign: bool, applied: Limits | None, written: bool
) -> None:
    held = replace(OLD, applied=OTHERS, restore_to=LIMITS, foreign=foreign)
    disk = a_disk(actual=OTHERS, defined=LIMITS) if written else DISK
    back = after(
        Decision(desired=Desired(LIMITS, ENDED), trail=()), held, disk=disk, applied=LIMITS if written else None
    )
    assert back == replace(OLD, seen=NOON, applied=applied)


def test_what_a_source_wants_and_has_leaves_nothing_to_go_back_to() -> None:
    assert after(WANTS, replace(OLD, restore_to=OTHERS, foreign=True)) == replace(OLD, seen=NOON)


def test_the_way_back_is_what_stood_when_the_hold_came_actual() -> None:
    def way_back(old: Remembered | None, disk: Disk = DISK, **how: Any) -> tuple[Limits | None, bool]:
        new = after(HELD, old, disk=disk, **how)
        assert new is not None
        return new.restore_to, new.foreign

    as_held = replace(DISK, actual=OTHERS, defined=OTHERS)
    assert way_back(None, applied=OTHERS) == (LIMITS, True)
    assert way_back(OLD, applied=OTHERS) == (LIMITS, False)
    assert way_back(None, as_held) == (OTHERS, True), "where nothing had to be written too"
    assert way_back(replace(OLD, restore_to=UNLIMITED, foreign=True), applied=OTHERS) == (UNLIMITED, True), (
        "the first hold's"
    )
    behind = replace(DISK, actual=Limits(total_iops_sec=9999))
    assert way_back(None, behind, applied=OTHERS) == (LIMITS, True), (
        "what was set behind libvirt's back is no promise"
    )
    unread = replace(DISK, actual=OTHERS, defined=SILENT)
    assert way_back(None, unread) == (OTHERS, True), "where the definition cannot be read"
    assert way_back(None) == (None, False), "not of one that waits"
    assert way_back(None, as_held, enforcing=False) == (None, False), "nor of one that is only observed"


def test_what_an_enforcing_pass_had_actual_is_known_as_kept() -> None:
    def kept(*seen: Any, **how: Any) -> bool:
        new = after(*seen, **how)
        assert new is not None
        return new.enforced

    new, observed = a_disk(), replace(OLD, enforced=False)
    assert kept(WANTS, disk=new, applied=LIMITS), "applied"
    assert kept(WANTS), "met"
    assert not kept(WANTS, disk=new), "neither: the write was refused, or waits"
    assert not kept(WANTS, disk=replace(DISK, actual=SILENT))
    assert not kept(WANTS, enforcing=False)
    assert not kept(WANTS, observed, enforcing=False)
    assert kept(WANTS, OLD, enforcing=False), "once kept it stays so"
    assert not kept(WANTS, replace(observed, desired=OTHERS), braked=True), "what is braked is not what was desired"
    assert not kept(LEAVES), "nothing was desired"


def test_external_changes_are_counted_while_the_same_is_desired() -> None:
    def reverts(old: Remembered, cause: Code = Code.EXTERNAL_CHANGE) -> tuple[int, object]:
        change = replace(a_change(), cause=cause)
        new = remembering(
            a_situation(memory={DISK.key: old}),
            Findings(decided=[(DISK, WANTS)], applied={DISK.key: change}, unseen=()),
        )
        return new[DISK.key].reverts, new[DISK.key].reverted_at

    twice = replace(OLD, reverts=2, reverted_at=BEFORE)
    assert reverts(OLD) == (1, NOON)
    assert reverts(twice) == reverts(twice, Code.CHANGED_OVER_QMP) == (3, NOON)
    assert reverts(twice, Code.DESIRED_CHANGED) == (0, None)
    assert reverts(replace(twice, applied=OTHERS), Code.CHANGED_OVER_QMP) == (0, None), "something else was desired"
    assert reverts(replace(twice, reverted_at=NOON - timedelta(days=1))) == (1, NOON)
    assert reverts(replace(twice, reverted_at=NOON + timedelta(minutes=1))) == (1, NOON), "of a clock that was wrong"


@pytest.mark.parametrize(
    ("remembered", "left"),
    [
        (replace(OLD, reverts=3, reverted_at=NOON - timedelta(hours=23)), True),
        (replace(OLD, reverts=3, reverted_at=NOON), True),
        (replace(OLD, reverts=2, reverted_at=BEFORE), False),
        (replace(OLD, reverts=3, reverted_at=NOON - timedelta(days=1)), False),
        (replace(OLD, reverts=3, reverted_at=NOON + timedelta(minutes=1)), False),  # of a clock that was wrong
        (replace(OLD, reverts=3, reverted_at=BEFORE, applied=OTHERS), False),
        (OLD, False),
        (None, False),
    ],
)
def test_a_limit_is_left_to_another_client_after_3_rounds_within_a_day(
    remembered: Remembered | None, left: bool
) -> None:
    assert reverted_too_often(remembered, Desired(LIMITS, because(Code.NODE_DEFAULT)), 3, NOON) is left
