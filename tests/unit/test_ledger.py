"""What a pass leaves behind: how open changes ended, and what is remembered of whom."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from plimsoll_agent.changes import Change, Direction
from plimsoll_agent.decide import Decision, Remembered, Unmanaged, Wants
from plimsoll_agent.disk import Disk
from plimsoll_agent.ledger import Ledger, Sight, remembering, settled
from plimsoll_agent.limits import Limits
from plimsoll_agent.reason import Code, Unknown, because
from plimsoll_agent.record import Conclusion, OpenChange, Verdict
from plimsoll_agent.state import State, StateError
from tests.unit.values import GUEST, NOON, a_disk, a_guest, a_situation

BEFORE = NOON - timedelta(hours=1)
LIMITS = Limits(total_iops_sec=250)
OTHERS = Limits(total_iops_sec=9)
DISK = a_disk(in_force=LIMITS, defined=LIMITS)
SILENT = Unknown(because(Code.UNANSWERED))
OURS = Remembered(LIMITS, NOON, NOON, LIMITS, DISK.attachment)
ALL = pytest.mark.parametrize("everything", [True, False])


def an_open(disk: Disk = DISK, id_: int = 7, after: Limits = LIMITS) -> OpenChange:
    return OpenChange(id_, disk.key, disk.attachment, after)


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
    conclusions, ours = settled([an_open()], [present], NOON, everything=everything)
    assert conclusions == ([Conclusion(7, verdict)] if verdict else [])
    assert ours == ({DISK.key: remembered} if remembered else {})


def test_a_disk_that_is_not_there_is_gone_only_where_everything_was_seen() -> None:
    neighbour = a_disk(volume_id=None, image="another")
    assert settled([an_open()], [neighbour], NOON, everything=True) == ([Conclusion(7, Verdict.GONE)], {})
    assert settled([an_open()], [neighbour], NOON, everything=False) == ([], {})


def test_a_change_that_lifted_a_limit_took_where_there_is_none() -> None:
    lift = an_open(after=Limits())
    conclusions, ours = settled([lift], [a_disk()], NOON, everything=True)
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
    conclusions, ours = settled(opened, [DISK, second], NOON, everything=True)
    assert [(c.id, c.verdict) for c in conclusions] == [
        (7, Verdict.TOOK),
        (8, Verdict.DID_NOT_TAKE),
        (9, Verdict.DID_NOT_TAKE),
        (10, Verdict.GONE),
    ]
    assert ours == {DISK.key: OURS}


# --- a ledger on real files


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(State(tmp_path), "root (ann)")


def a_change(disk: Disk = DISK) -> Change:
    return Change(disk, Limits(), LIMITS, Direction.TIGHTEN, because(Code.NODE_DEFAULT), Code.NEVER_LIMITED)


def results(directory: Path) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(directory / "record.sqlite")) as database:
        return database.execute("SELECT by, result, result_at FROM change ORDER BY id").fetchall()


def test_a_change_of_a_killed_pass_is_settled_by_the_next_and_ours(ledger: Ledger, tmp_path: Path) -> None:
    ledger.intend([a_change()], BEFORE)
    assert ledger.settle([DISK], NOON, everything=True) == {DISK.key: OURS}
    assert results(tmp_path) == [("root (ann)", "took", NOON.isoformat())]
    assert ledger.settle([DISK], NOON, everything=True) == {}, "once"


def test_a_change_that_cannot_be_told_yet_stays_open_for_a_later_pass(ledger: Ledger, tmp_path: Path) -> None:
    (id_,) = ledger.intend([a_change()], BEFORE)
    ledger.conclude([Conclusion(id_, Verdict.UNANSWERED)], BEFORE)
    assert ledger.settle([replace(DISK, in_force=SILENT)], NOON, everything=True) == {}
    assert ledger.settle([], NOON, everything=False) == {}
    assert results(tmp_path) == [("root (ann)", "unanswered", BEFORE.isoformat())]
    assert ledger.settle([DISK], NOON, everything=True) == {DISK.key: OURS}


def test_what_is_remembered_is_in_the_state(ledger: Ledger, tmp_path: Path) -> None:
    ledger.remember({DISK.key: OURS})
    assert State(tmp_path).load_memory() == {DISK.key: OURS}


def test_a_ledger_without_its_directory_raises_a_state_error_whatever_is_asked(tmp_path: Path) -> None:
    ledger = Ledger(State(tmp_path / "absent"), "tests")
    for use in (
        lambda: ledger.settle([], NOON, everything=True),
        lambda: ledger.intend([a_change()], NOON),
        lambda: ledger.conclude([Conclusion(1, Verdict.DONE)], NOON),
        lambda: ledger.remember({}),
    ):
        with pytest.raises(StateError, match="absent"):
            use()


# --- the memory after a pass

WANTS = Decision(Wants(LIMITS, because(Code.NODE_DEFAULT)), ())
LEAVES = Decision(Unmanaged(because(Code.NO_LIMIT)), ())
UNKNOWN = Decision(Unknown(because(Code.IMPOSSIBLE)), ())
OLD = Remembered(LIMITS, BEFORE, BEFORE, LIMITS, DISK.attachment)


def after(
    decision: Decision | None,
    old: Remembered | None = None,
    *,
    disk: Disk = DISK,
    put: Limits | None = None,
    unseen: tuple[str, ...] = (),
) -> Remembered | None:
    """What is remembered of the disk after a pass that decided so; None as a decision: the pass did not see it."""
    memory = {DISK.key: old} if old else {}
    decided = [(disk, decision)] if decision else []
    sight = Sight(decided, {DISK.key: put} if put is not None else {}, unseen)
    kept = remembering(a_situation(memory=memory), sight)
    assert kept.keys() <= {DISK.key}
    return kept.get(DISK.key)


def test_a_disk_that_is_new_is_remembered_with_what_is_wanted_and_not_claimed() -> None:
    assert after(WANTS) == Remembered(LIMITS, NOON, NOON, None, DISK.attachment)


def test_limits_that_were_put_in_force_are_claimed() -> None:
    assert after(WANTS, put=LIMITS) == Remembered(LIMITS, NOON, NOON, LIMITS, DISK.attachment)
    observed = replace(OLD, put=None)
    assert after(WANTS, observed, put=Limits()) == replace(OLD, seen=NOON, put=Limits()), "lifting is a word too"


def test_a_claim_outlives_passes_that_put_nothing_and_gives_way_to_a_new_one() -> None:
    assert after(WANTS, OLD) == replace(OLD, seen=NOON)
    before = replace(OLD, put=OTHERS)
    assert after(WANTS, before) == replace(before, seen=NOON)
    assert after(WANTS, before, put=LIMITS) == replace(OLD, seen=NOON)


def test_since_when_something_is_wanted_begins_anew_with_something_else() -> None:
    wanted_others = replace(OLD, wanted=OTHERS)
    assert after(WANTS, wanted_others) == replace(OLD, since=NOON, seen=NOON)


@pytest.mark.parametrize("decision", [LEAVES, UNKNOWN])
def test_a_disk_of_which_nothing_is_wanted_now_stays_ours(decision: Decision) -> None:
    assert after(decision, OLD) == replace(OLD, seen=NOON)
    assert after(decision) is None, "and one that never was ours does not become it"


@pytest.mark.parametrize("decision", [WANTS, LEAVES])
def test_a_disk_attached_anew_with_other_limits_is_not_taken_for_the_old_one(decision: Decision) -> None:
    again = replace(DISK, node="9", defined=OTHERS, in_force=OTHERS)
    fresh = Remembered(LIMITS, NOON, NOON, None, again.attachment)
    assert after(decision, OLD, disk=again) == (fresh if decision is WANTS else None)


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
    assert kept == {}


def test_guests_are_told_apart_by_their_whole_uuid() -> None:
    other = Remembered(LIMITS, BEFORE, BEFORE, None, "1:1:volumes/x")
    memory = {DISK.key: OLD, f"{GUEST}0/volumes/x": other}
    kept = remembering(a_situation(memory=memory), Sight([], {}, (GUEST,)))
    assert kept == {DISK.key: OLD, f"{GUEST}0/volumes/x": replace(other, attachment=None)}
