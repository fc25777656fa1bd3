"""What follows a guest from node to node: marks into memory and holds, and back."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.holds import Hold
from plimsoll_agent.model.later import Later
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.marks import Mark, MarkedHold, Marks
from plimsoll_agent.model.memory import Remembered
from plimsoll_agent.model.reason import Code, Unknown, because
from plimsoll_agent.policy.adoption import (
    LEFT_FOR_GOOD,
    adopted,
    as_marked,
    awaits_adoption,
    mark_for,
    marks_of_changed,
    marks_to_write,
    with_marks,
    without_guests,
)
from plimsoll_agent.util.durations import LONGEST_EXCEPTION
from plimsoll_agent.util.frozen import replace
from tests.unit.values import NOON, VOLUME, a_disk, a_guest

HOUR = timedelta(hours=1)
DEFAULT, SPEC = Limits(total_iops_sec=250), Limits(total_iops_sec=3000)
LOWER, HIGHER = Limits(total_iops_sec=100), Limits(total_iops_sec=9000)
HELD = MarkedHold(limits=LOWER, since=NOON - HOUR, until=NOON + HOUR, by="ann", why="noisy")
MARK = Mark(desired=DEFAULT, since=NOON - HOUR, applied=DEFAULT, enforced=True)
REDUCED = replace(MARK, reduced=True)
UNKNOWN = Unknown(because(Code.TIMED_OUT, detail="x"))


def marked(mark: Mark, actual: Any = DEFAULT, **other: Any) -> Disk:
    defined = actual if isinstance(actual, Limits) else Limits()
    return a_disk(a_guest(marks=Marks({VOLUME: mark})), **{"actual": actual, "defined": defined} | other)


def held_here(limits: Limits | None = LOWER, **other: Any) -> Hold:
    return Hold(
        **{"disk": a_disk().named, "limits": limits, "since": NOON - 2 * HOUR, "until": NOON + HOUR} | WHO | other
    )


WHO: Mapping[str, Any] = {"by": "bob", "why": "of before"}
OF_BEFORE = Remembered(
    desired=SPEC, since=NOON - 9 * HOUR, seen=NOON - HOUR, applied=SPEC, attachment="1:1:elsewhere"
)


# --- limits


def test_limits_that_plimsoll_put_on_the_other_node_are_its_own_here() -> None:
    mark = replace(MARK, by_type="gold", by_rules=("night",), revision="4f21c8", restore_to=SPEC, foreign=True)
    disk = marked(mark)
    taken = adopted([disk], {}, {}, NOON).memory
    assert taken == {
        disk.key: Remembered(
            desired=DEFAULT,
            since=NOON - HOUR,
            seen=NOON,
            applied=DEFAULT,
            attachment=disk.attachment,
            restore_to=SPEC,
            foreign=True,
            enforced=True,
            by_type="gold",
            by_rules=("night",),
            revision="4f21c8",
            mark=mark.digest,
        )
    }


def test_limits_that_are_not_actual_are_not_its_own() -> None:
    """Nova gives a volume the limits of its spec again; what the sources desired of it is known even so."""
    disk = marked(replace(MARK, restore_to=SPEC, foreign=True), SPEC)
    (taken,) = adopted([disk], {}, {}, NOON).memory.values()
    assert (taken.applied, taken.restore_to, taken.foreign) == (None, None, False)
    assert (taken.desired, taken.enforced) == (DEFAULT, True)


def test_a_disk_that_was_right_already_is_adopted_as_one_that_was_never_written() -> None:
    (taken,) = adopted([marked(replace(MARK, applied=None))], {}, {}, NOON).memory.values()
    assert (taken.applied, taken.desired) == (None, DEFAULT)


@pytest.mark.parametrize(
    "disk",
    [
        pytest.param(a_disk(), id="no mark"),
        pytest.param(marked(MARK, UNKNOWN), id="not known what is in force"),
        pytest.param(marked(MARK, None), id="not asked"),
        pytest.param(marked(MARK, volume_id="another"), id="another disk's mark"),
        pytest.param(a_disk(a_guest(marks=UNKNOWN)), id="an unreadable mark"),
    ],
)
def test_without_a_mark_or_without_qemus_word_nothing_is_adopted(disk: Disk) -> None:
    taken = adopted([disk], {}, {disk.key: held_here()}, NOON)
    assert (taken.memory, taken.holds) == ({}, {disk.key: held_here()})


@pytest.mark.parametrize(
    ("mark", "actual"),
    [
        pytest.param(replace(MARK, applied=SPEC), SPEC, id="the memory knows whose they are"),
        pytest.param(MARK, SPEC, id="not in force"),
        pytest.param(replace(MARK, applied=None), DEFAULT, id="nothing was put"),
    ],
)
def test_this_stay_is_known_better_than_any_mark(mark: Mark, actual: Limits) -> None:
    disk = marked(replace(mark, hold=HELD), actual)
    known = {disk.key: replace(OF_BEFORE, attachment=disk.attachment)}
    assert adopted([disk], known, {}, NOON).memory == {}
    assert adopted([disk], known, {}, NOON).holds == {}


def test_a_memory_that_could_not_be_saved_learns_from_the_mark_what_was_put_but_no_hold() -> None:
    disk = marked(replace(MARK, hold=HELD))
    assert disk.mark is not None
    known = replace(OF_BEFORE, attachment=disk.attachment)
    taken = adopted([disk], {disk.key: known}, {}, NOON)
    assert (taken.memory[disk.key].applied, taken.holds) == (DEFAULT, {})
    assert adopted([disk], {disk.key: replace(known, mark=disk.mark.digest)}, {}, NOON).memory == {}


@pytest.mark.parametrize("attachment", [None, "1:1:elsewhere"])
def test_what_another_node_wrote_since_is_newer_than_an_earlier_stay(attachment: str | None) -> None:
    disk = marked(MARK)
    known = {disk.key: replace(OF_BEFORE, attachment=attachment, mark=replace(MARK, applied=SPEC).digest)}
    (taken,) = adopted([disk], known, {}, NOON).memory.values()
    assert (taken.applied, taken.desired) == (DEFAULT, DEFAULT)


def test_a_mark_of_this_node_is_no_news() -> None:
    """After a suspend, say: what the memory has learned meanwhile counts."""
    disk = marked(replace(MARK, hold=HELD))
    assert disk.mark is not None
    known = {disk.key: replace(OF_BEFORE, attachment=None, mark=disk.mark.digest)}
    assert adopted([disk], known, {}, NOON) == adopted([a_disk()], {}, {}, NOON)


def test_a_clock_that_is_behind_the_other_nodes_dates_nothing_into_the_future() -> None:
    disk = marked(replace(MARK, since=NOON + HOUR, hold=replace(HELD, since=NOON + HOUR, until=NOON + 2 * HOUR)))
    taken = adopted([disk], {}, {}, NOON)
    assert taken.memory[disk.key].since == NOON
    assert taken.holds[disk.key].since == NOON


# --- holds


@pytest.mark.parametrize(
    ("hold", "applied", "actual", "follows"),
    [
        pytest.param(LOWER, LOWER, LOWER, True, id="in force"),
        pytest.param(HIGHER, HIGHER, HIGHER, True, id="higher, in force"),
        pytest.param(HIGHER, DEFAULT, DEFAULT, True, id="higher, and deferred"),
        pytest.param(None, DEFAULT, DEFAULT, True, id="as it is"),
        pytest.param(None, None, DEFAULT, True, id="as it is, never written"),
        pytest.param(LOWER, LOWER, SPEC, True, id="lower than Nova's limits"),
        pytest.param(SPEC, LOWER, SPEC, True, id="the same as Nova's limits"),
        pytest.param(HIGHER, HIGHER, SPEC, False, id="higher than Nova's limits, which no source desired"),
        pytest.param(None, DEFAULT, SPEC, False, id="as it is, which it is not"),
        pytest.param(HIGHER, HIGHER, DEFAULT, True, id="higher than Nova's limits, which the sources desired"),
    ],
)
def test_a_hold_follows_where_the_disk_is_as_the_mark_says_or_it_only_lowers(
    hold: Limits | None, applied: Limits | None, actual: Limits, follows: bool
) -> None:
    disk = marked(replace(MARK, applied=applied, hold=replace(HELD, limits=hold)), actual)
    taken = adopted([disk], {}, {}, NOON)
    came = Hold(disk=disk.named, limits=hold, since=NOON - HOUR, until=NOON + HOUR, by="ann", why="noisy")
    assert taken.came == ((came,) if follows else ())
    assert taken.holds == ({disk.key: came} if follows else {})
    assert [note.code for note in taken.notes] == ([] if follows else [Code.HOLD_NOT_ADOPTED])


def test_a_hold_that_does_not_follow_is_reported() -> None:
    (note,) = adopted([marked(replace(MARK, hold=replace(HELD, limits=None)), SPEC)], {}, {}, NOON).notes
    assert note.facts["detail"] == "instance-00000001 vdb, until 2026-11-20T13:00+00:00 by ann: noisy"


def test_a_hold_longer_than_any_that_can_be_added_does_not_follow() -> None:
    for until, follows in (
        (NOON + LONGEST_EXCEPTION, True),
        (NOON + LONGEST_EXCEPTION + timedelta(seconds=1), False),
    ):
        taken = adopted([marked(replace(MARK, hold=replace(HELD, until=until)))], {}, {}, NOON)
        assert (bool(taken.holds), bool(taken.came), bool(taken.notes)) == (follows, follows, not follows)


def test_a_hold_that_has_ended_on_the_way_leaves_what_to_go_back_to() -> None:
    disk = marked(
        Mark(desired=None, since=NOON, applied=LOWER, restore_to=SPEC, hold=replace(HELD, until=NOON)), LOWER
    )
    taken = adopted([disk], {}, {}, NOON)
    assert (taken.holds, taken.came, taken.notes) == ({}, (), ())
    assert taken.memory[disk.key].restore_to == SPEC


def test_a_guest_that_comes_back_without_its_hold_has_none() -> None:
    disk, old = marked(MARK), held_here()
    taken = adopted([disk], {disk.key: OF_BEFORE}, {disk.key: old, "other/disk": old}, NOON)
    assert (taken.holds, taken.went) == ({"other/disk": old}, (old,))


def test_a_guest_that_comes_back_with_another_hold_has_that_one() -> None:
    disk, old = marked(replace(MARK, hold=HELD)), held_here()
    taken = adopted([disk], {disk.key: OF_BEFORE}, {disk.key: old}, NOON)
    assert (taken.went, [hold.by for hold in taken.came], taken.holds[disk.key].by) == ((old,), ["ann"], "ann")


def test_a_guest_that_comes_back_with_the_hold_that_it_left_with_is_not_reported() -> None:
    disk = marked(replace(MARK, hold=HELD))
    here = Hold(
        disk=disk.named,
        limits=LOWER,
        since=HELD.since,
        until=HELD.until,
        by=HELD.by,
        why=HELD.why,
        ignore_health=True,
    )
    taken = adopted([disk], {disk.key: replace(OF_BEFORE, seen=NOON)}, {disk.key: here}, NOON)
    assert (taken.holds, taken.came, taken.went) == ({disk.key: here}, (), ())


@pytest.mark.parametrize("known", [None, OF_BEFORE])
@pytest.mark.parametrize("brought", [None, HELD])
def test_a_hold_that_was_added_here_since_the_guest_came_stands(
    known: Remembered | None, brought: MarkedHold | None
) -> None:
    disk, new = marked(replace(MARK, hold=brought)), held_here(since=OF_BEFORE.seen)
    memory = {} if known is None else {disk.key: known}
    taken = adopted([disk], memory, {disk.key: new}, NOON)
    assert (taken.holds, taken.came, taken.went) == ({disk.key: new}, (), ())


def test_each_disk_is_judged_by_itself() -> None:
    """Not known, known better, put by a pass that could not save it, held, with the hold it left with, and news."""
    names = ["a", "b", "f", "c", "d", "e"]
    guest = a_guest(marks=Marks(dict.fromkeys(names, replace(MARK, hold=HELD))))
    unknown, here, unsaved, held, same, news = (
        a_disk(guest, volume_id=name, defined=DEFAULT, actual=DEFAULT if name != "a" else UNKNOWN) for name in names
    )
    memory = {
        here.key: replace(OF_BEFORE, attachment=here.attachment, applied=DEFAULT),
        unsaved.key: replace(OF_BEFORE, attachment=unsaved.attachment, applied=LOWER),
        same.key: replace(OF_BEFORE, seen=HELD.since + HOUR / 2),
    }
    left_with = Hold(
        disk=same.named, limits=HELD.limits, since=HELD.since, until=HELD.until, by=HELD.by, why=HELD.why
    )
    holds = {held.key: held_here(), same.key: left_with}
    taken = adopted([unknown, here, unsaved, held, same, news], memory, holds, NOON)
    assert taken.memory.keys() == {unsaved.key, held.key, same.key, news.key}
    assert ([hold.disk.key for hold in taken.came], taken.went) == ([news.key], ())


def test_limits_actual_that_this_node_put_in_an_earlier_stay_are_its_own_still() -> None:
    """An operator reverted them, for example, and no pass has updated the mark."""
    disk = marked(replace(MARK, applied=LOWER, restore_to=SPEC), DEFAULT)
    known = {disk.key: replace(OF_BEFORE, applied=DEFAULT)}
    (taken,) = adopted([disk], known, {}, NOON).memory.values()
    assert (taken.applied, taken.desired, taken.restore_to) == (DEFAULT, DEFAULT, None)
    known = {disk.key: replace(OF_BEFORE, applied=SPEC)}
    (taken,) = adopted([disk], known, {}, NOON).memory.values()
    assert taken.applied is None


@pytest.mark.parametrize(
    ("disk", "known", "awaits"),
    [
        pytest.param(marked(MARK, UNKNOWN), None, True, id="on the move"),
        pytest.param(marked(MARK, UNKNOWN), OF_BEFORE, True, id="on the move, known from before"),
        pytest.param(marked(MARK, UNKNOWN), replace(OF_BEFORE, mark=MARK.digest), False, id="its mark is no news"),
        pytest.param(marked(MARK, UNKNOWN), replace(OF_BEFORE, attachment=a_disk().attachment), False, id="known"),
        pytest.param(
            marked(REDUCED, UNKNOWN), replace(OF_BEFORE, mark=REDUCED.digest), True, id="reduced, its mark as before"
        ),
        pytest.param(
            marked(REDUCED, UNKNOWN),
            replace(OF_BEFORE, mark=REDUCED.digest, attachment=a_disk().attachment),
            False,
            id="reduced, and known",
        ),
        pytest.param(marked(MARK), None, False, id="adopted in this pass"),
        pytest.param(a_disk(actual=UNKNOWN), None, False, id="no mark"),
        pytest.param(a_disk(), None, False, id="no mark, and known what is in force"),
    ],
)
def test_a_mark_that_cannot_be_held_against_qemu_yet_is_for_a_later_pass(
    disk: Disk, known: Remembered | None, awaits: bool
) -> None:
    assert awaits_adoption(disk, known) is awaits


def test_a_mark_that_is_for_a_later_pass_is_not_remembered_as_known() -> None:
    """Else the later pass would take it for one of this node, and its hold would be lost."""
    on_the_move = marked(replace(MARK, hold=HELD), UNKNOWN)
    assert on_the_move.mark is not None
    memory = {on_the_move.key: OF_BEFORE}
    assert with_marks([on_the_move], memory, {}) == memory
    here = {on_the_move.key: replace(OF_BEFORE, attachment=on_the_move.attachment)}
    remembered = replace(here[on_the_move.key], mark=on_the_move.mark.digest)
    assert with_marks([on_the_move], here, {}) == {on_the_move.key: remembered}


# --- what is written


LATER = (
    Later(at=NOON + timedelta(hours=1), limits=SPEC, by_type="gold"),
    Later(at=NOON + timedelta(hours=2), limits=None),
)


def test_what_was_adopted_is_written_as_it_was() -> None:
    origin = {"by_type": "gold", "by_rules": ("night",), "revision": "4f21c8", "later": LATER}
    mark = replace(MARK, **origin, restore_to=SPEC, foreign=True, hold=HELD, released="gold")
    disk = marked(mark)
    taken = adopted([disk], {}, {}, NOON)
    assert mark_for(taken.memory[disk.key], taken.holds[disk.key]) == mark
    assert marks_to_write([disk], taken.memory, taken.holds) == {}, "nothing to write"


def test_a_disk_of_which_nothing_is_desired_or_put_has_no_mark() -> None:
    nothing = Remembered(desired=None, since=NOON, seen=NOON, applied=None, attachment="a")
    assert mark_for(None, None) is None
    assert mark_for(nothing, None) is None
    assert marks_to_write([a_disk()], {a_disk().key: nothing}, {}) == {}


@pytest.mark.parametrize("what", [{"desired": DEFAULT}, {"applied": DEFAULT}, {"restore_to": Limits()}])
def test_whatever_is_known_of_a_disk_is_told(what: Mapping[str, Any]) -> None:
    remembered = Remembered(
        **{"desired": None, "since": NOON, "seen": NOON, "applied": None, "attachment": "a"} | what
    )
    mark = mark_for(remembered, None)
    assert mark == Mark(**{"desired": None, "since": NOON, "applied": None} | what)


def test_a_hold_follows_a_disk_of_which_nothing_else_is_known() -> None:
    hold = held_here(ignore_health=True)
    expected = MarkedHold(limits=hold.limits, since=hold.since, until=hold.until, by=hold.by, why=hold.why)
    assert mark_for(None, hold) == Mark(desired=None, since=hold.since, applied=None, hold=expected)


def test_a_guests_marks_are_written_together_and_only_where_they_differ() -> None:
    ours = Remembered(desired=DEFAULT, since=NOON, seen=NOON, applied=DEFAULT, attachment="a")
    mine = a_disk(volume_id=None, image="x_disk", pool="vms")
    disks = [a_disk(), mine]
    both = Marks(
        {
            VOLUME: Mark(desired=DEFAULT, since=NOON, applied=DEFAULT),
            "vms/x_disk": Mark(desired=DEFAULT, since=NOON, applied=DEFAULT),
        }
    )
    memory = {disk.key: ours for disk in disks}
    assert marks_to_write(disks, memory, {}) == {mine.guest.uuid: both}
    written = [replace(disk, guest=a_guest(marks=both)) for disk in disks]
    assert marks_to_write(written, memory, {}) == {}
    assert marks_to_write(written[:1], memory, {}) == {mine.guest.uuid: Marks({VOLUME: both.by_disk[VOLUME]})}
    assert marks_to_write(written, {}, {}) == {mine.guest.uuid: Marks()}
    unreadable = [replace(disk, guest=a_guest(marks=UNKNOWN)) for disk in disks]
    assert marks_to_write(unreadable, {}, {}) == {mine.guest.uuid: Marks()}


def test_a_guest_that_does_not_answer_or_is_on_the_move_keeps_its_marks() -> None:
    ours = Remembered(desired=DEFAULT, since=NOON, seen=NOON, applied=DEFAULT, attachment="a")
    disks = [a_disk(), a_disk(volume_id=None, actual=UNKNOWN)]
    other = a_disk(a_guest(uuid="another"))
    memory = {disk.key: ours for disk in (*disks, other)}
    assert marks_to_write([*disks, other], memory, {}).keys() == {"another"}


def test_the_memory_knows_the_marks_that_were_written_and_of_other_guests_those_that_they_have() -> None:
    ours = Remembered(desired=DEFAULT, since=NOON, seen=NOON, applied=DEFAULT, attachment=a_disk().attachment)
    disk, without, other = a_disk(), a_disk(volume_id="new"), marked(MARK)
    other = replace(other, guest=replace(other.guest, uuid="another"))
    elsewhere = {"a/b": ours}
    memory = {each.key: ours for each in (disk, without, other)} | elsewhere
    after = with_marks(
        [disk, without, other, a_disk(volume_id="x")], memory, {disk.guest.uuid: Marks({VOLUME: MARK})}
    )
    marked_now = replace(ours, mark=MARK.digest)
    assert after == elsewhere | {disk.key: marked_now, without.key: ours, other.key: marked_now}
    assert with_marks([disk], after, {}) == after | {disk.key: ours}, "its mark is gone, and no other was written"


def test_where_nothing_can_be_saved_guests_that_were_changed_are_marked_with_the_holds_that_they_have() -> None:
    hold = held_here()
    ours = Remembered(desired=DEFAULT, since=NOON, seen=NOON, applied=DEFAULT, attachment="a")
    disk = a_disk()
    other = a_disk(a_guest(uuid="another"))
    memory, holds = {disk.key: ours, other.key: ours}, {disk.key: hold, "another/disk": hold}
    plain = mark_for(ours, None)
    assert plain is not None
    assert marks_of_changed([disk, other], [], memory, holds) == {}
    assert marks_of_changed([disk, other], {disk.key}, memory, holds) == {disk.guest.uuid: Marks({VOLUME: plain})}
    held = marked(replace(MARK, hold=as_marked(hold)))
    both = {held.guest.uuid: Marks({VOLUME: replace(plain, hold=as_marked(hold))})}
    assert marks_of_changed([held, other], {held.key}, memory, holds) == both


# --- what stays behind


def test_a_hold_is_void_when_its_guest_has_been_gone_for_a_while() -> None:
    holds = {a_disk().key: held_here()}
    at_first = without_guests(holds, lambda _: False, NOON)
    assert (at_first.went, at_first.holds) == ((), {a_disk().key: held_here(missing=NOON)})
    soon = without_guests(at_first.holds, lambda _: False, NOON + LEFT_FOR_GOOD - timedelta(seconds=1))
    assert (soon.went, soon.holds) == ((), at_first.holds)
    later = without_guests(soon.holds, lambda _: False, NOON + LEFT_FOR_GOOD)
    assert (later.went, later.holds) == ((held_here(missing=NOON),), {})


def test_a_guest_that_is_off_keeps_its_hold_and_so_does_one_whose_definition_comes_back() -> None:
    holds = {a_disk().key: held_here(missing=NOON - HOUR)}
    gone = held_here(disk=a_disk(a_guest(uuid="another")).named, missing=NOON - HOUR)
    left = without_guests({**holds, "gone": gone}, lambda uuid: uuid == a_guest().uuid, NOON)
    assert (left.went, left.holds) == ((gone,), {a_disk().key: held_here()})


def test_a_clock_that_went_back_does_not_keep_a_hold_for_ever() -> None:
    holds = {a_disk().key: held_here(missing=NOON + HOUR)}
    left = without_guests(holds, lambda _: False, NOON)
    assert left.holds == {a_disk().key: held_here(missing=NOON)}


def test_each_guest_is_asked_for_once() -> None:
    asked: list[str] = []

    def knows(uuid: str) -> bool:
        asked.append(uuid)
        return True

    without_guests({"a": held_here(), "b": held_here()}, knows, NOON)
    assert asked == [a_guest().uuid]
