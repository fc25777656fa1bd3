"""What a pass leaves behind: how open changes ended, and what is remembered of whom."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from plimsoll_agent import history
from plimsoll_agent.approvals import Approval
from plimsoll_agent.changes import Change
from plimsoll_agent.decide import Decision, Remembered, Unmanaged, Wants
from plimsoll_agent.direction import direction
from plimsoll_agent.disk import Disk
from plimsoll_agent.entries import Conclusion, Happening, RecordedChange, RecordedEvent, Verdict
from plimsoll_agent.history import Selection
from plimsoll_agent.holds import Hold
from plimsoll_agent.ledger import Ledger, Sight, remembering, settled, yields
from plimsoll_agent.limits import Limits
from plimsoll_agent.reason import Code, Reason, Unknown, because
from plimsoll_agent.record import Record
from plimsoll_agent.sightings import Sightings, sight
from plimsoll_agent.state import Given, Memory, State, StateError
from tests.unit.values import GUEST, NOON, a_disk, a_guest, a_situation

BEFORE = NOON - timedelta(hours=1)
UNLIMITED = Limits()
LIMITS = Limits(total_iops_sec=250)
OTHERS = Limits(total_iops_sec=9)
DISK = a_disk(in_force=LIMITS, defined=LIMITS)
SILENT = Unknown(because(Code.UNANSWERED))
OURS = Remembered(LIMITS, NOON, NOON, LIMITS, DISK.attachment, kept=True, revision="aaaaaa")
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
        id_,
        BEFORE,
        "root",
        disk.named,
        disk.attachment,
        before,
        after,
        how,
        reason,
        cause,
        "aaaaaa",
        None,
        None,
        None,
    )


# --- how a change ended whose outcome was not known


@ALL
@pytest.mark.parametrize(
    ("present", "verdict", "remembered"),
    [
        pytest.param(DISK, Verdict.TOOK, OURS, id="it is in force"),
        pytest.param(replace(DISK, defined=Limits()), Verdict.TOOK, OURS, id="in force and not in the definition"),
        pytest.param(a_disk(), Verdict.DID_NOT_TAKE, None, id="no limit at all"),
        pytest.param(a_disk(in_force=OTHERS, defined=OTHERS), Verdict.DID_NOT_TAKE, None, id="another limit"),
        # libvirt has it: it was done, and then undone behind libvirt's back.
        pytest.param(replace(DISK, in_force=OTHERS), Verdict.DID_NOT_TAKE, OURS, id="only in the definition"),
        pytest.param(replace(DISK, node="9"), Verdict.GONE, None, id="attached anew"),
        pytest.param(replace(DISK, guest=a_guest(run="4")), Verdict.GONE, None, id="started anew"),
        pytest.param(replace(DISK, target="vdz"), Verdict.TOOK, OURS, id="under another letter"),
        pytest.param(replace(DISK, in_force=SILENT), None, None, id="not known"),
        pytest.param(replace(DISK, in_force=None), None, None, id="not asked"),
    ],
)
def test_how_a_change_ended_is_read_off_what_is_in_force(
    present: Disk, verdict: Verdict | None, remembered: Remembered | None, everything: bool
) -> None:
    conclusions, ours = settled([an_open()], [present], a_situation(), everything=everything)
    assert conclusions == ([Conclusion(7, verdict)] if verdict else [])
    assert ours == ({DISK.key: remembered} if remembered else {})


def test_a_disk_that_is_not_there_is_gone_only_where_everything_was_seen() -> None:
    neighbour = a_disk(volume_id=None, image="another")
    assert settled([an_open()], [neighbour], a_situation(), everything=True) == ([Conclusion(7, Verdict.GONE)], {})
    assert settled([an_open()], [neighbour], a_situation(), everything=False) == ([], {})


def test_a_change_that_lifted_a_limit_took_where_there_is_none() -> None:
    lift = an_open(after=UNLIMITED, before=LIMITS)
    conclusions, ours = settled([lift], [a_disk()], a_situation(), everything=True)
    assert conclusions == [Conclusion(7, Verdict.TOOK)]
    assert ours[DISK.key].put == Limits()


def test_each_of_many_changes_has_its_own_end() -> None:
    second = a_disk(volume_id=None, image="second", in_force=OTHERS)
    opened = [
        an_open(),
        an_open(second, 8),
        an_open(id_=9, after=OTHERS),
        an_open(a_disk(pool="x", volume_id=None), 10),
    ]
    conclusions, ours = settled(opened, [DISK, second], a_situation(), everything=True)
    assert [(c.id, c.verdict) for c in conclusions] == [
        (7, Verdict.TOOK),
        (8, Verdict.DID_NOT_TAKE),
        (9, Verdict.DID_NOT_TAKE),
        (10, Verdict.GONE),
    ]
    assert ours == {DISK.key: OURS}


OLD = Remembered(LIMITS, BEFORE, BEFORE, LIMITS, DISK.attachment, kept=True, revision="aaaaaa")


def took(change: RecordedChange, old: Remembered | None, disk: Disk = DISK) -> Remembered:
    """What is remembered of a disk on which the change was found to have taken."""
    memory = {DISK.key: old} if old else {}
    return settled([change], [disk], a_situation(memory=memory), everything=True)[1][disk.key]


def test_what_took_is_added_to_what_was_remembered_and_not_put_in_its_place() -> None:
    same = took(an_open(), OLD)
    assert same == replace(OLD, seen=NOON), "wanted since then, not since now"
    anew = took(an_open(), replace(OLD, wanted=OTHERS, put=OTHERS))
    assert anew == replace(OLD, since=NOON, seen=NOON)


def test_a_hold_that_took_is_not_what_the_sources_wanted_and_has_a_way_back() -> None:
    hold = an_open(before=OTHERS, reason=HOLD)
    assert took(hold, None) == replace(OURS, wanted=None, kept=False, revision=None, returns=OTHERS, theirs=True)
    ours = replace(OLD, wanted=OTHERS, put=OTHERS)
    assert took(hold, ours) == replace(ours, seen=NOON, put=LIMITS, returns=OTHERS)
    second = replace(ours, returns=UNLIMITED, theirs=True)
    assert took(hold, second) == replace(second, seen=NOON, put=LIMITS), "before the first hold"


def test_the_way_back_stays_known_until_it_was_seen_to_its_end() -> None:
    held = replace(OLD, wanted=None, put=OTHERS, returns=LIMITS, theirs=True)
    back = took(an_open(before=OTHERS, reason=ENDED), held)
    assert back == replace(held, seen=NOON, put=LIMITS)
    spoken = took(an_open(before=OTHERS), held)
    assert (spoken.returns, spoken.theirs) == (None, False), "a source has spoken"


def test_limits_by_hand_that_took_are_ours_and_not_what_the_sources_wanted() -> None:
    by_hand = an_open(before=OTHERS, reason=because(Code.COMMAND_LINE))
    others = replace(OLD, wanted=OTHERS, put=OTHERS)
    assert took(by_hand, others) == replace(others, seen=NOON, put=LIMITS)


def test_what_took_was_kept_whether_or_not_its_pass_came_to_say_so() -> None:
    assert took(an_open(), None).kept
    assert took(an_open(), replace(OLD, put=None, kept=False)).kept
    assert not took(an_open(reason=because(Code.COMMAND_LINE)), replace(OLD, wanted=OTHERS, kept=False)).kept


def test_a_round_that_took_counts_like_one_that_was_answered() -> None:
    fought = replace(OLD, fought=1, fought_at=BEFORE, seen=BEFORE - timedelta(minutes=5))
    assert took(an_open(before=OTHERS, cause=Code.CHANGED_BY_ANOTHER), fought).fought == 2
    assert took(an_open(before=OTHERS, cause=Code.WANTED_CHANGED), fought).fought == 0


def test_what_took_is_wanted_since_then_also_where_its_pass_did_not_come_to_remember_it() -> None:
    earlier = BEFORE - timedelta(minutes=5)
    met = replace(OLD, since=earlier, seen=earlier)
    assert took(an_open(), met) == replace(met, seen=NOON)


def test_what_its_pass_had_remembered_already_is_not_counted_again() -> None:
    fought = replace(OLD, fought=1, fought_at=BEFORE)
    change = an_open(before=OTHERS, cause=Code.CHANGED_BY_ANOTHER)
    assert took(change, fought) == replace(fought, seen=NOON)
    assert took(replace(change, result=Verdict.UNANSWERED), fought).fought == 2, "its pass knew that it was open"


def test_a_change_tells_how_the_one_before_it_ended_and_starts_from_it() -> None:
    """In force now is what the second put; the first, of another pass, took too, for the second met it."""
    third = Limits(total_iops_sec=3)
    first, second = an_open(), an_open(id_=8, before=LIMITS, after=OTHERS, reason=because(Code.COMMAND_LINE))
    disk = replace(DISK, in_force=OTHERS, defined=OTHERS)
    conclusions, ours = settled([first, second], [disk], a_situation(), everything=True)
    assert [conclusion.verdict for conclusion in conclusions] == [Verdict.TOOK] * 2
    assert ours == {DISK.key: replace(OURS, put=OTHERS)}
    late = an_open(id_=9, before=third, after=UNLIMITED)
    conclusions, _ = settled([first, second, late], [disk], a_situation(), everything=True)
    assert [conclusion.verdict for conclusion in conclusions] == [Verdict.TOOK, Verdict.TOOK, Verdict.DID_NOT_TAKE]


def test_what_is_put_back_while_the_brake_holds_stays_the_word_of_whose_it_was() -> None:
    before = replace(OLD, seen=BEFORE - timedelta(minutes=5), put=OTHERS, by_type="gold")
    assert took(an_open(before=OTHERS, reason=because(Code.WANTED_BEFORE)), before).by_type == "gold"


@pytest.mark.parametrize(
    ("wanted", "theirs", "put", "kept"),
    [(LIMITS, False, LIMITS, True), (OTHERS, False, LIMITS, False), (OTHERS, True, None, False)],
)
def test_what_an_undo_put_back_is_ours_unless_it_was_somebody_elses(
    wanted: Limits, theirs: bool, put: Limits | None, kept: bool
) -> None:
    undone = an_open(before=OTHERS, reason=because(Code.UNDONE, theirs=theirs))
    old = replace(OLD, wanted=wanted, put=OTHERS, kept=not kept)
    assert took(undone, old) == replace(old, seen=NOON, put=put, kept=kept)


# --- a ledger on real files


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(State(tmp_path), "root (ann)")


STANDING = Hold(DISK.named, OTHERS, BEFORE, NOON + timedelta(hours=1), "ann", "a test")


def a_change(disk: Disk = DISK, reason: Reason = DEFAULT, after: Limits = LIMITS) -> Change:
    return Change(disk, UNLIMITED, after, direction(UNLIMITED, after), reason, Code.NEVER_LIMITED)


def results(directory: Path) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(directory / "record.sqlite")) as database:
        return database.execute("SELECT by, result, result_at FROM change ORDER BY id").fetchall()


def test_a_change_of_a_killed_pass_is_settled_by_the_next_and_ours(ledger: Ledger, tmp_path: Path) -> None:
    ledger.intend([a_change()], BEFORE, "aaaaaa")
    assert ledger.settle([DISK], a_situation(), everything=True) == {DISK.key: OURS}
    assert results(tmp_path) == [("root (ann)", None, None)], "open, until it is remembered"
    ledger.remember(Memory({DISK.key: OURS}), NOON)
    ledger.conclude([], NOON)
    assert results(tmp_path) == [("root (ann)", "took", NOON.isoformat())]
    assert ledger.settle([DISK], a_situation(), everything=True) == {}, "once"


def test_a_change_that_cannot_be_told_yet_stays_open_for_a_later_pass(ledger: Ledger, tmp_path: Path) -> None:
    (id_,) = ledger.intend([a_change()], BEFORE, "aaaaaa")
    ledger.conclude([Conclusion(id_, Verdict.UNANSWERED)], BEFORE)
    assert ledger.settle([replace(DISK, in_force=SILENT)], a_situation(), everything=True) == {}
    assert ledger.settle([], a_situation(), everything=False) == {}
    assert results(tmp_path) == [("root (ann)", "unanswered", BEFORE.isoformat())]
    assert ledger.settle([DISK], a_situation(), everything=True) == {DISK.key: OURS}


def test_a_change_of_a_disk_that_is_gone_is_settled_where_everything_was_seen(ledger: Ledger, tmp_path: Path) -> None:
    ledger.intend([a_change()], BEFORE, "aaaaaa")
    assert ledger.settle([], a_situation(), everything=True) == {}
    ledger.conclude([], NOON)
    assert results(tmp_path) == [("root (ann)", "gone", NOON.isoformat())]


def test_an_intent_names_the_edition_that_it_was_decided_by(ledger: Ledger, tmp_path: Path) -> None:
    ledger.intend([a_change()], BEFORE, "aaaaaa")
    assert [change.edition for change in Record(State(tmp_path).record).unsettled()] == ["aaaaaa"]


NEIGHBOUR = a_disk(volume_id=None, image="another")
ENDED_HOLD, OTHER_HOLD = replace(STANDING, until=NOON), replace(STANDING, disk=NEIGHBOUR.named)


def test_a_hold_that_ended_goes_once_the_record_says_so(ledger: Ledger, tmp_path: Path) -> None:
    ledger.remember(Memory({DISK.key: OURS}, {DISK.key: ENDED_HOLD, NEIGHBOUR.key: OTHER_HOLD}), NOON)
    state = State(tmp_path)
    assert state.load_memory() == Memory({DISK.key: OURS}, {NEIGHBOUR.key: OTHER_HOLD})
    _, ended = history.entries(Record(state.record), Selection())
    assert ended == RecordedEvent(2, NOON, "root (ann)", Happening.HOLD_ENDED, DISK.named, ENDED_HOLD.reason)


def test_a_hold_that_ended_stays_while_the_record_cannot_say_so(ledger: Ledger, tmp_path: Path) -> None:
    state = State(tmp_path)
    state.record.mkdir()
    ledger.remember(Memory({}, {DISK.key: ENDED_HOLD, NEIGHBOUR.key: OTHER_HOLD}), NOON)
    assert state.load_memory() == Memory({}, {DISK.key: ENDED_HOLD, NEIGHBOUR.key: OTHER_HOLD})
    (note,) = ledger.notes
    assert note.code is Code.NO_RECORD
    assert str(state.record) in str(note.facts["detail"])


@pytest.mark.parametrize("name", ["memory", "approval", "record"])
def test_a_corrupt_file_is_set_aside_and_the_note_says_what_was_wrong(
    ledger: Ledger, tmp_path: Path, name: str
) -> None:
    state = State(tmp_path)
    path: Path = getattr(state, name)
    path.write_bytes(b"{" * 1000)
    uses: dict[str, Callable[[], object]] = {
        "memory": lambda: ledger.recall(NOON, look_only=False),
        "approval": lambda: ledger.approved(look_only=False),
        "record": lambda: ledger.settle([DISK], a_situation(), everything=True),
    }
    uses[name]()
    (note,) = ledger.notes
    assert str(note.facts["detail"]).startswith(f"{path}: ")
    assert [file.read_bytes() for file in tmp_path.glob(f"{path.name}.corrupt*")] == [b"{" * 1000]
    if name == "record":
        (started,) = history.entries(Record(path), Selection())
        assert isinstance(started, RecordedEvent)
        assert (started.at, started.by, started.what) == (NOON, "root (ann)", Happening.RECORD_STARTED)


def test_a_corrupt_memory_that_cannot_be_set_aside_does_not_keep_a_pass_from_its_record(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: Path) -> None:
        raise StateError(f"{path}: read-only")

    put_on_record(ledger, a_change())
    State(tmp_path).memory.write_text("{")
    monkeypatch.setattr("plimsoll_agent.ledger.set_aside", refused)
    assert list(ledger.recall(NOON, look_only=False).disks) == [DISK.key]


VOLUME_DISK = a_disk(in_force=LIMITS, defined=LIMITS)


def test_attachments_are_met_only_where_a_catalogue_is_to_know_of_them(ledger: Ledger) -> None:
    assert ledger.sight([VOLUME_DISK], a_situation(), ()) == Sightings()


def test_attachments_are_known_by_the_boot_and_by_what_plimsoll_put_there(tmp_path: Path) -> None:
    """What plimsoll put is nobody else's; what others put makes another mark, and the type is asked for again."""
    ledger = Ledger(State(tmp_path, boot="b1"), "root (ann)")
    unknown = replace(a_situation(), catalogue=Unknown(because(Code.NO_CATALOGUE)))
    as_met = ledger.sight([a_disk()], unknown, ())
    assert as_met == sight([a_disk()], Sightings(), {}, NOON, boot="b1")
    later = replace(unknown, sightings=as_met, now=NOON + timedelta(minutes=5))
    ours = Remembered(LIMITS, NOON, NOON, LIMITS, VOLUME_DISK.attachment)
    assert ledger.sight([VOLUME_DISK], replace(later, memory={DISK.key: ours}), ()) == as_met
    for memory in ({}, {DISK.key: replace(ours, put=None)}):
        others = ledger.sight([VOLUME_DISK], replace(later, memory=memory), ())
        assert others == sight([VOLUME_DISK], as_met, {}, later.now, boot="b1")
        assert others.volumes[DISK.key].stirred == 1
    assert ledger.sight([], later, (GUEST,)) == as_met, "its guest was not looked at"


def test_only_sightings_that_are_news_are_told(ledger: Ledger, tmp_path: Path) -> None:
    state = State(tmp_path)
    met = sight([VOLUME_DISK], Sightings(), {}, NOON, boot="")
    ledger.tell_sightings(met, met)
    assert list(tmp_path.iterdir()) == []
    ledger.tell_sightings(met, Sightings())
    assert state.load_sightings() == met


def test_what_is_remembered_is_in_the_state(ledger: Ledger, tmp_path: Path) -> None:
    ledger.remember(Memory({DISK.key: OURS}, {DISK.key: STANDING}), NOON)
    assert State(tmp_path).load_memory() == Memory({DISK.key: OURS}, {DISK.key: STANDING})
    assert ledger.recall(NOON, look_only=True) == Memory({DISK.key: OURS}, {DISK.key: STANDING})


def test_a_ledger_without_its_directory_raises_a_state_error_whatever_it_is_to_keep(tmp_path: Path) -> None:
    ledger = Ledger(State(tmp_path / "absent"), "tests")
    assert ledger.settle([], a_situation(), everything=True) == {}, "there is nothing in it"
    for use in (
        lambda: ledger.intend([a_change()], NOON, "aaaaaa"),
        lambda: ledger.conclude([Conclusion(1, Verdict.DONE)], NOON),
        lambda: ledger.remember(Memory(), NOON),
    ):
        with pytest.raises(StateError, match="absent"):
            use()


def put_on_record(ledger: Ledger, *changes: Change, verdict: Verdict = Verdict.DONE) -> None:
    ids = ledger.intend(changes, BEFORE, "aaaaaa")
    ledger.conclude([Conclusion(id_, verdict) for id_ in ids], BEFORE)


def test_a_memory_that_is_lost_is_made_of_what_the_record_says_was_put_in_force(ledger: Ledger) -> None:
    assert ledger.recall(NOON, look_only=False) == Memory(), "a new node"
    put_on_record(ledger, a_change(after=OTHERS), a_change())
    put_on_record(ledger, a_change(after=OTHERS), verdict=Verdict.REFUSED)
    assert ledger.recall(NOON, look_only=False).disks == {
        DISK.key: Remembered(LIMITS, BEFORE, NOON, LIMITS, attachment=None, kept=True, revision="aaaaaa")
    }
    assert ledger.notes == []


def test_limits_by_hand_and_a_specs_word_are_told_from_others_in_the_record(ledger: Ledger) -> None:
    put_on_record(ledger, a_change(reason=because(Code.COMMAND_LINE)))
    by_hand = Remembered(None, BEFORE, NOON, LIMITS, attachment=None)
    assert ledger.recall(NOON, look_only=False).disks == {DISK.key: by_hand}
    put_on_record(ledger, a_change(reason=SPEC))
    by_spec = Remembered(LIMITS, BEFORE, NOON, LIMITS, attachment=None, kept=True, by_type="gold", revision="aaaaaa")
    assert ledger.recall(NOON, look_only=False).disks == {DISK.key: by_spec}


@pytest.mark.parametrize("reason", [HOLD, ENDED])
def test_what_a_hold_put_or_put_back_is_not_claimed_from_the_record(ledger: Ledger, reason: Reason) -> None:
    put_on_record(ledger, a_change(), a_change(reason=reason, after=OTHERS))
    assert ledger.recall(NOON, look_only=False) == Memory()
    put_on_record(ledger, a_change())
    assert list(ledger.recall(NOON, look_only=False).disks) == [DISK.key]


def test_one_that_only_looks_changes_no_file(ledger: Ledger, tmp_path: Path) -> None:
    put_on_record(ledger, a_change())
    ledger.intend([a_change()], BEFORE, "aaaaaa")
    state = State(tmp_path)
    for file in (state.memory, state.approval):
        file.write_text("{")
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert list(ledger.recall(NOON, look_only=True).disks) == [DISK.key]
    assert ledger.approved(look_only=True) == ()
    assert list(ledger.settle([DISK], a_situation(), everything=True, look_only=True)) == [DISK.key]
    state.record.write_bytes(b"no record" * 100)
    assert ledger.settle([DISK], a_situation(), everything=True, look_only=True) == {}
    state.record.write_bytes(before["record.sqlite"])
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before
    assert [note.code for note in ledger.notes] == [
        Code.MEMORY_SET_ASIDE,
        Code.APPROVAL_SET_ASIDE,
        Code.RECORD_SET_ASIDE,
    ]


def test_what_was_approved_is_told_until_it_is_used_up(ledger: Ledger, tmp_path: Path) -> None:
    assert ledger.approved(look_only=False) == ()
    approval = Approval("0123456789abcdef")
    State(tmp_path).save_approvals([Given(approval, "ann", NOON)])
    assert ledger.approved(look_only=False) == (approval,)
    ledger.use_up_approvals()
    assert ledger.approved(look_only=False) == ()


# --- the memory after a pass

WANTS = Decision(Wants(LIMITS, DEFAULT), ())
LEAVES = Decision(Unmanaged(because(Code.NO_LIMIT)), ())
UNKNOWN = Decision(Unknown(because(Code.IMPOSSIBLE)), ())
HELD = Decision(Wants(OTHERS, HOLD), (), aside=WANTS.wanted)
HELD_UNKNOWN = Decision(Wants(OTHERS, HOLD), (), aside=UNKNOWN.wanted)
SPEC = because(Code.QOS_SPEC, type="gold", spec="gold-iops", consumer="front-end")
BY_SPEC = Decision(Wants(LIMITS, SPEC), ())


def after(
    decision: Decision | None,
    old: Remembered | None = None,
    *,
    disk: Disk = DISK,
    put: Limits | None = None,
    unseen: tuple[str, ...] = (),
    braked: bool = False,
    enforcing: bool = True,
) -> Remembered | None:
    """What is remembered of the disk after a pass that decided so; None as a decision: the pass did not see it."""
    memory = {DISK.key: old} if old else {}
    decided = [(disk, decision)] if decision else []
    change = None
    if put is not None and decision is not None:
        change = replace(a_change(disk, decision.wanted.reason, put), before=disk.in_force)
    puts = {} if change is None else {DISK.key: change}
    sight = Sight(decided, puts, unseen, {DISK.key} if braked else (), enforcing, "aaaaaa")
    kept = remembering(a_situation(memory=memory), sight)
    assert kept.keys() <= {DISK.key}
    return kept.get(DISK.key)


FRESH = Remembered(LIMITS, NOON, NOON, None, DISK.attachment, kept=True, revision="aaaaaa")


def test_a_disk_that_is_new_is_remembered_with_what_is_wanted_and_not_claimed() -> None:
    assert after(WANTS) == FRESH


def test_limits_that_were_put_in_force_are_claimed() -> None:
    assert after(WANTS, put=LIMITS) == replace(FRESH, put=LIMITS)
    observed = replace(OLD, put=None)
    assert after(WANTS, observed, put=Limits()) == replace(OLD, seen=NOON, put=Limits()), "lifting is a word too"


def test_a_claim_outlives_passes_that_put_nothing_and_gives_way_to_a_new_one() -> None:
    assert after(WANTS, OLD) == replace(OLD, seen=NOON)
    before = replace(OLD, put=OTHERS)
    assert after(WANTS, before) == replace(before, seen=NOON)
    assert after(WANTS, before, put=LIMITS) == replace(OLD, seen=NOON)


def test_limits_by_hand_are_put_and_not_taken_for_what_the_sources_want() -> None:
    by_hand = Decision(Wants(LIMITS, because(Code.COMMAND_LINE)), ())
    others = replace(OLD, wanted=OTHERS, put=OTHERS)
    assert after(by_hand, others, put=LIMITS) == replace(others, seen=NOON, put=LIMITS)


def test_since_when_something_is_wanted_begins_anew_with_something_else() -> None:
    wanted_others = replace(OLD, wanted=OTHERS)
    assert after(WANTS, wanted_others) == replace(OLD, since=NOON, seen=NOON)


@pytest.mark.parametrize("decision", [LEAVES, UNKNOWN])
def test_a_disk_of_which_nothing_is_wanted_now_stays_ours(decision: Decision) -> None:
    assert after(decision, OLD) == replace(OLD, seen=NOON)
    never = replace(FRESH, wanted=None, kept=False)
    assert after(decision, never) == never, "and one that never was ours does not become it"


def test_a_disk_just_met_of_which_nobody_can_tell_is_not_remembered_as_one_without_limits() -> None:
    """The brake would take its first limits for a change of what is wanted, on every disk of a new node."""
    assert after(UNKNOWN) is None
    assert after(LEAVES) == replace(FRESH, wanted=None, kept=False, revision=None), (
        "that nothing is wanted is an answer"
    )
    assert after(HELD_UNKNOWN) == replace(FRESH, wanted=None, kept=False, revision=None), (
        "a hold has to be remembered"
    )


@pytest.mark.parametrize("decision", [WANTS, LEAVES])
def test_a_disk_attached_anew_with_other_limits_is_not_taken_for_the_old_one(decision: Decision) -> None:
    again = replace(DISK, node="9", defined=OTHERS, in_force=OTHERS)
    fresh = Remembered(LIMITS, BEFORE, NOON, None, again.attachment, kept=True, revision="aaaaaa")
    assert after(decision, OLD, disk=again) == fresh, "but what was wanted of it is still known"


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
    kept = remembering(a_situation(memory={DISK.key: OLD}), Sight([(neighbour, LEAVES)], {}, ()))
    assert kept.keys() == {neighbour.key}


def test_guests_are_told_apart_by_their_whole_uuid() -> None:
    other = Remembered(LIMITS, BEFORE, BEFORE, None, "1:1:volumes/x")
    memory = {DISK.key: OLD, f"{GUEST}0/volumes/x": other}
    kept = remembering(a_situation(memory=memory), Sight([], {}, (GUEST,)))
    assert kept == {DISK.key: OLD, f"{GUEST}0/volumes/x": replace(other, attachment=None)}


def test_what_the_brake_stopped_is_not_taken_for_wanted() -> None:
    others = replace(OLD, wanted=OTHERS, put=OTHERS)
    assert after(WANTS, others, braked=True) == replace(others, seen=NOON)


def test_during_a_hold_what_the_sources_wanted_before_it_stays_known() -> None:
    old = replace(OLD, wanted=OTHERS, returns=LIMITS)
    assert after(HELD, old) == replace(old, seen=NOON)
    new = after(HELD)
    assert new is not None
    assert new.wanted is None, "nor does what they want now count before the hold ends: the brake has not seen it"


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
        new = after(Decision(Wants(LIMITS, reason), ()), old)
        assert new == replace(OLD, seen=NOON, by_type=by_type, by_rules=reason.rules), "wanted since then, by another"


@pytest.mark.parametrize("by_type", ["gold", None])
@pytest.mark.parametrize("decision", [LEAVES, UNKNOWN])
def test_whose_word_it_was_is_known_while_nobody_says_another(decision: Decision, by_type: str | None) -> None:
    old = replace(OLD, by_type=by_type)
    assert after(decision, old) == replace(old, seen=NOON)


@pytest.mark.parametrize(("said", "before"), [(BY_SPEC, None), (WANTS, "gold")])
def test_what_does_not_count_yet_does_not_say_whose_word_it_was(said: Decision, before: str | None) -> None:
    """Of a disk that is braked, or held, the old limits are still to be weighed as whose they were."""
    old = replace(OLD, wanted=OTHERS, put=OTHERS, by_type=before)
    assert after(said, old, braked=True) == replace(old, seen=NOON)
    held = replace(old, returns=LIMITS)
    assert after(replace(HELD, aside=said.wanted), held) == replace(held, seen=NOON)
    new = after(replace(HELD, aside=said.wanted))
    assert new is not None
    assert new.by_type is None, "not before the hold ends"


@pytest.mark.parametrize("decision", [LEAVES, UNKNOWN])
def test_a_disk_attached_anew_is_still_known_by_whose_word_it_was(decision: Decision) -> None:
    """It is so for a pass at least: Cinder has to be asked for every new attachment."""
    again = replace(DISK, node="9", defined=OTHERS, in_force=OTHERS)
    new = after(decision, replace(OLD, by_type="gold"), disk=again)
    assert new is not None
    assert (new.wanted, new.by_type) == (LIMITS, "gold")


def test_a_change_that_took_says_whose_word_it_was() -> None:
    assert took(an_open(reason=SPEC), None).by_type == "gold"
    before = replace(OLD, wanted=OTHERS, put=OTHERS, by_type="gold")
    assert took(an_open(reason=because(Code.RULE, rule="r")), before).by_type is None


def test_a_rule_that_ends_management_ends_whose_word_it_was() -> None:
    ends = Decision(Unmanaged(because(Code.RULE_UNMANAGES, rule="r")), ())
    assert after(ends, replace(OLD, by_type="gold")) == replace(OLD, seen=NOON)


# --- holds, and what was kept


@pytest.mark.parametrize(("theirs", "put"), [(True, None), (False, LIMITS)])
@pytest.mark.parametrize("written", [True, False])
def test_after_a_hold_the_limits_are_whose_they_were_before_it(
    theirs: bool, put: Limits | None, written: bool
) -> None:
    held = replace(OLD, put=OTHERS, returns=LIMITS, theirs=theirs)
    disk = a_disk(in_force=OTHERS, defined=LIMITS) if written else DISK
    back = after(Decision(Wants(LIMITS, ENDED), ()), held, disk=disk, put=LIMITS if written else None)
    assert back == replace(OLD, seen=NOON, put=put)


def test_what_a_source_wants_and_has_leaves_nothing_to_go_back_to() -> None:
    assert after(WANTS, replace(OLD, returns=OTHERS, theirs=True)) == replace(OLD, seen=NOON)


def test_the_way_back_is_what_stood_when_the_hold_came_in_force() -> None:
    def way_back(old: Remembered | None, disk: Disk = DISK, **how: Any) -> tuple[Limits | None, bool]:
        new = after(HELD, old, disk=disk, **how)
        assert new is not None
        return new.returns, new.theirs

    as_held = replace(DISK, in_force=OTHERS, defined=OTHERS)
    assert way_back(None, put=OTHERS) == (LIMITS, True)
    assert way_back(OLD, put=OTHERS) == (LIMITS, False)
    assert way_back(None, as_held) == (OTHERS, True), "where nothing had to be written too"
    assert way_back(replace(OLD, returns=UNLIMITED, theirs=True), put=OTHERS) == (UNLIMITED, True), "the first hold's"
    behind = replace(DISK, in_force=Limits(total_iops_sec=9999))
    assert way_back(None, behind, put=OTHERS) == (LIMITS, True), "what was set behind libvirt's back is no promise"
    unread = replace(DISK, in_force=OTHERS, defined=SILENT)
    assert way_back(None, unread) == (OTHERS, True), "where the definition cannot be read"
    assert way_back(None) == (None, False), "not of one that waits"
    assert way_back(None, as_held, enforcing=False) == (None, False), "nor of one that is only observed"


def test_what_an_enforcing_pass_had_in_force_is_known_as_kept() -> None:
    def kept(*seen: Any, **how: Any) -> bool:
        new = after(*seen, **how)
        assert new is not None
        return new.kept

    new, observed = a_disk(), replace(OLD, kept=False)
    assert kept(WANTS, disk=new, put=LIMITS), "put"
    assert kept(WANTS), "met"
    assert not kept(WANTS, disk=new), "neither: the write was refused, or waits"
    assert not kept(WANTS, disk=replace(DISK, in_force=SILENT))
    assert not kept(WANTS, enforcing=False)
    assert not kept(WANTS, observed, enforcing=False)
    assert kept(WANTS, OLD, enforcing=False), "once kept it stays so"
    assert not kept(WANTS, replace(observed, wanted=OTHERS), braked=True), "what is braked is not what was wanted"
    assert not kept(LEAVES), "nothing was wanted"


def test_somebody_elses_hand_is_counted_while_the_same_is_wanted() -> None:
    def fought(old: Remembered, cause: Code = Code.CHANGED_BY_ANOTHER) -> tuple[int, object]:
        change = replace(a_change(), cause=cause)
        new = remembering(a_situation(memory={DISK.key: old}), Sight([(DISK, WANTS)], {DISK.key: change}, ()))
        return new[DISK.key].fought, new[DISK.key].fought_at

    twice = replace(OLD, fought=2, fought_at=BEFORE)
    assert fought(OLD) == (1, NOON)
    assert fought(twice) == fought(twice, Code.BEHIND_LIBVIRT) == (3, NOON)
    assert fought(twice, Code.WANTED_CHANGED) == (0, None)
    assert fought(replace(twice, put=OTHERS), Code.BEHIND_LIBVIRT) == (0, None), "something else was wanted"
    assert fought(replace(twice, fought_at=NOON - timedelta(days=1))) == (1, NOON)
    assert fought(replace(twice, fought_at=NOON + timedelta(minutes=1))) == (1, NOON), "of a clock that was wrong"


@pytest.mark.parametrize(
    ("remembered", "left"),
    [
        (replace(OLD, fought=3, fought_at=NOON - timedelta(hours=23)), True),
        (replace(OLD, fought=3, fought_at=NOON), True),
        (replace(OLD, fought=2, fought_at=BEFORE), False),
        (replace(OLD, fought=3, fought_at=NOON - timedelta(days=1)), False),
        (replace(OLD, fought=3, fought_at=NOON + timedelta(minutes=1)), False),  # of a clock that was wrong
        (replace(OLD, fought=3, fought_at=BEFORE, put=OTHERS), False),
        (OLD, False),
        (None, False),
    ],
)
def test_a_limit_is_left_to_somebody_else_after_3_rounds_within_a_day(
    remembered: Remembered | None, left: bool
) -> None:
    assert yields(remembered, LIMITS, 3, NOON) is left
