"""Marks: what Cinder said of an attachment holds for that one only, and is asked again no oftener than need be."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from plimsoll_agent.catalogue.attachments import (
    Attachment,
    Attachments,
    UnreadableAttachments,
    load,
    same_attachment,
    save,
    sight,
)
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, Unknown, because
from plimsoll_agent.store.state import State
from plimsoll_agent.util.frozen import replace
from tests.unit.values import GUEST, NOON, VOLUME, a_disk, a_guest

OURS, THEIRS, OTHERS = (Limits(total_iops_sec=rate) for rate in (3000, 10, 20))
DISK = a_disk(actual=OURS)
OWN = a_disk(volume_id=None, image="disk", pool="vms", node="1", target="vda")


class Watch:
    """Passes one after the other, five minutes apart."""

    def __init__(self, applied: Limits | None = OURS) -> None:
        self.applied = {} if applied is None else {DISK.key: applied}
        self.boot = "b1"
        self.now = NOON
        self.met = Attachments()

    def look(self, *disks: Disk, unseen: tuple[str, ...] = ()) -> Attachment:
        self.now += timedelta(minutes=5)
        self.met = sight(disks, self.met, self.applied, self.now, boot=self.boot, unseen=unseen)
        return self.met.volumes[DISK.key]


def finds(limits: Limits | Unknown | None) -> Disk:
    return replace(DISK, actual=limits)


@pytest.fixture
def watch() -> Watch:
    return Watch()


def test_a_mark_stays_while_nothing_happens(watch: Watch) -> None:
    """A mark of each pass's own would have the volume asked for in each, and its limits counted never."""
    first = watch.look(DISK)
    assert first == Attachment(mark=first.mark, since=NOON + timedelta(minutes=5), came_with=OURS)
    for _ in range(3):
        assert watch.look(DISK) == first


def run_again() -> Disk:
    return replace(DISK, guest=replace(DISK.guest, run="4"))


@pytest.mark.parametrize(
    "another",
    [replace(DISK, node="3"), run_again(), replace(DISK, image="volume-migrated"), replace(DISK, pool="faster")],
    ids=["detached and attached", "guest started again", "image", "pool"],
)
def test_another_attachment_has_another_mark(watch: Watch, another: Disk) -> None:
    first = watch.look(DISK)
    second = watch.look(another)
    assert second.mark != first.mark
    assert (second.since, second.external_changes, second.found) == (watch.now, 0, None)
    assert watch.look(another) == second


def test_an_attachment_after_a_start_of_the_node_has_another_mark(watch: Watch) -> None:
    """libvirt counts its guests from 1 again: the same run and the same node index may be another attachment."""
    first = watch.look(DISK)
    watch.boot = "b2"
    assert watch.look(DISK).mark != first.mark


def test_the_same_volume_in_two_guests_has_two_marks(watch: Watch) -> None:
    other = replace(DISK, guest=a_guest(uuid="2ebc1454-0d31-4367-8c90-06e18daa66f9", run="8"))
    watch.look(DISK, other)
    marks = watch.met.marks_of_volumes()
    assert marks.keys() == {VOLUME}
    assert len(marks[VOLUME]) == 2
    assert set(marks[VOLUME].values()) == {watch.now}


# --- somebody else's hand


def test_an_external_change_of_the_limit_changes_the_mark_once(watch: Watch) -> None:
    first = watch.look(DISK)
    second = watch.look(finds(THEIRS))
    assert second.mark != first.mark
    assert (second.since, second.external_changes, second.found) == (watch.now, 1, THEIRS)
    assert watch.look(finds(THEIRS)) == second, "it is left alone until Cinder was asked: the same is no news"
    assert watch.look(DISK) == second, "put back"
    assert watch.look(finds(THEIRS)) == second, "and changed back: a quarrel must not become a storm of calls"


@pytest.mark.parametrize(
    ("mark", "other", "same"),
    [
        ("m", "m", True),
        ("m", "m.1", True),
        ("m.1", "m", True),
        ("m.1", "m.12", True),
        ("m", "n", False),
        ("m.1", "n.1", False),
    ],
)
def test_an_attachment_is_the_same_before_and_after_external_changes(mark: str, other: str, same: bool) -> None:
    assert same_attachment(mark, other) is same


def former_mark(changes: int) -> str:
    """Of the version that hashed the number of external changes too."""
    return hashlib.sha256(f"b1\0{DISK.attachment}\0{changes}".encode()).hexdigest()[:12]


def test_an_upgrade_finds_the_marks_of_the_version_before(watch: Watch) -> None:
    """Another mark would leave each volume of the node unknown until Cinder was asked."""
    assert watch.look(DISK).mark == former_mark(0)
    changed = Attachment(mark=former_mark(2), since=NOON, external_changes=2, found=THEIRS, came_with=OURS)
    watch.met = Attachments({DISK.key: changed})
    assert watch.look(DISK) == changed
    for mark in (former_mark(1), former_mark(3)):
        watch.met = Attachments({DISK.key: replace(changed, mark=mark)})
        assert watch.look(DISK) == Attachment(mark=former_mark(0), since=watch.now, came_with=OURS), (
            "another attachment"
        )


def test_another_change_by_another_hand_is_news(watch: Watch) -> None:
    marks = [watch.look(disk).mark for disk in (DISK, finds(THEIRS), finds(OTHERS), finds(THEIRS), finds(Limits()))]
    assert len(set(marks)) == 5
    assert watch.met.volumes[DISK.key].external_changes == 4


def test_what_plimsoll_set_is_no_external_change(watch: Watch) -> None:
    first = watch.look(DISK)
    watch.applied[DISK.key] = OTHERS
    assert watch.look(finds(OTHERS)) == first


def test_where_plimsoll_put_nothing_a_hand_on_what_the_attachment_came_with_is_a_hand() -> None:
    """Nova brings the right limit mostly: then plimsoll never puts one, and a retype would stay unseen."""
    watch = Watch(applied=None)
    first = watch.look(finds(THEIRS))
    second = watch.look(finds(OTHERS))
    assert second.mark != first.mark
    assert (second.since, second.external_changes, second.found, second.came_with) == (watch.now, 1, OTHERS, THEIRS)
    assert watch.look(finds(OTHERS)) == second, "the same is no news"
    assert watch.look(finds(THEIRS)) == second, "put back"
    assert watch.look(finds(Limits())).external_changes == 2


def test_what_it_came_with_is_learned_later_where_it_was_unknown_at_first() -> None:
    """A guest that hung when it was met first has not been meddled with because it answers now."""
    watch = Watch(applied=None)
    first = watch.look(finds(Unknown(because(Code.TIMED_OUT, detail="?"))))
    assert first.came_with is None
    assert watch.look(finds(None)) == first
    known = watch.look(finds(THEIRS))
    assert known == replace(first, came_with=THEIRS), "no other mark, and met when it was met"
    assert watch.look(finds(OTHERS)).external_changes == 1, "and from then on it is watched"


@pytest.mark.parametrize("applied", [OURS, Limits()], ids=["limited", "removed"])
def test_attach_time_limits_are_external_once_plimsoll_set_something(applied: Limits) -> None:
    watch = Watch(applied=None)
    first = watch.look(finds(THEIRS))
    watch.applied[DISK.key] = applied
    assert watch.look(finds(applied)) == first
    assert watch.look(finds(THEIRS)).external_changes == 1


@pytest.mark.parametrize("actual", [None, Unknown(because(Code.TIMED_OUT, detail="?"))])
def test_an_unreachable_guest_has_no_external_change(watch: Watch, actual: Limits | Unknown | None) -> None:
    first = watch.look(DISK)
    assert watch.look(finds(actual)) == first


def test_a_hand_on_an_earlier_attachment_is_forgotten_with_it(watch: Watch) -> None:
    watch.look(DISK)
    watch.look(finds(THEIRS))
    again = watch.look(replace(run_again(), actual=OTHERS))
    assert again == Attachment(mark=again.mark, since=watch.now, came_with=OTHERS), "nor what that one came with"


# --- who is looked at


def test_a_guest_that_was_not_looked_at_keeps_its_marks(watch: Watch) -> None:
    first = watch.look(DISK, OWN)
    before = watch.met
    other = a_disk(a_guest(uuid="2ebc1454-0d31-4367-8c90-06e18daa66f9"))
    assert watch.look(other, unseen=(GUEST,)) == first
    assert watch.met.guests[GUEST] == before.guests[GUEST]


def test_a_disk_that_vanished_is_not_listed_any_more(watch: Watch) -> None:
    """Else the refresher would ask for volumes that left the node, and for ever."""
    watch.look(DISK, OWN)
    watch.met = sight([OWN], watch.met, watch.applied, watch.now, boot="b1")
    assert (watch.met.volumes, watch.met.guests.keys()) == ({}, {GUEST})
    watch.met = sight([], watch.met, watch.applied, watch.now, boot="b1")
    assert watch.met == Attachments()


def test_disks_of_the_guests_own_are_not_asked_of_cinder() -> None:
    assert not sight([OWN], Attachments(), {}, NOON, boot="b1").volumes


def test_nova_is_asked_only_for_guests_of_its_own_whose_flavor_is_unknown() -> None:
    guests = [
        a_guest(uuid="a"),
        a_guest(uuid="b", extra_specs={}),
        a_guest(uuid="c", display_name=None, project=None, project_name=None, flavor=None),
    ]
    met = sight([replace(OWN, guest=guest) for guest in guests], Attachments(), {}, NOON, boot="b1")
    assert met.guests.keys() == {"a"}


def test_a_guests_flavor_is_asked_again_when_it_runs_again_and_not_before() -> None:
    """A resize starts it anew, and nothing else changes a flavor."""
    first = sight([OWN, DISK], Attachments(), {}, NOON, boot="b1").guests[GUEST]
    later = NOON + timedelta(minutes=5)
    attached = replace(DISK, node="9")
    assert sight([OWN, attached], Attachments(guests={GUEST: first}), {}, later, boot="b1").guests[GUEST] == first
    again = replace(OWN, guest=replace(OWN.guest, run="4"))
    second = sight([again], Attachments(guests={GUEST: first}), {}, later, boot="b1").guests[GUEST]
    assert (second.mark != first.mark, second.since) == (True, later)


# --- the file

MET = Attachments(
    {DISK.key: Attachment(mark="a1", since=NOON, external_changes=2, found=THEIRS, came_with=OTHERS)},
    {GUEST: Attachment(mark="b2", since=NOON)},
)


def test_what_is_written_is_what_is_read(tmp_path: Path) -> None:
    """Limits that came back as others would count as an external change in each pass; the fuzzing writes others."""
    others = {"g/☃": Attachment(mark="c3", since=NOON + timedelta(microseconds=1), found=Limits())}
    met = Attachments({**MET.volumes, **others}, {**MET.guests, **others})
    save(tmp_path / "attachments.json", met)
    assert load(tmp_path / "attachments.json") == met


def test_where_there_are_none_there_are_none(tmp_path: Path) -> None:
    assert load(tmp_path / "attachments.json") is None


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    path = tmp_path_factory.mktemp("written") / "attachments.json"
    save(path, MET)
    whole: Mapping[str, Any] = json.loads(path.read_text())
    return whole


def read(path: Path, content: bytes) -> Attachments | None:
    """What it is read as; None when it says that it cannot be. Others pass through."""
    path.write_bytes(content)
    try:
        return load(path)
    except UnreadableAttachments as error:
        complaint = str(error)
    assert complaint.startswith(f"{path}: ")
    return None


@pytest.mark.parametrize("place", ["mark", "since", "external_changes", "found", "came_with"])
@pytest.mark.parametrize(
    "value", [5, -1, True, "x", "2026-11-20T12:00:00", [], {"total_iops_sec": "5"}, {"iops": 5}, 1e400], ids=str
)
def test_a_part_that_is_something_else_is_unreadable_or_what_it_says(
    tmp_path: Path, written: Mapping[str, Any], place: str, value: object
) -> None:
    whole = json.loads(json.dumps(written))
    whole["volumes"][DISK.key][place] = value
    met = read(tmp_path / "attachments.json", json.dumps(whole).encode())
    fits = (place == "mark" and isinstance(value, str)) or (
        place == "external_changes" and type(value) is int and value >= 0
    )
    assert (met is not None) == fits


def test_another_version_is_unreadable(tmp_path: Path, written: Mapping[str, Any]) -> None:
    """A pass writes it anew anyway."""
    assert read(tmp_path / "attachments.json", json.dumps({**written, "version": 2}).encode()) is None


@pytest.mark.parametrize("content", [b"", b"{", b'{"version": 2}'])
def test_a_pass_that_cannot_read_what_the_last_one_met_has_met_nothing(tmp_path: Path, content: bytes) -> None:
    state = State(tmp_path, boot="b1")
    state.save_attachments(MET)
    assert state.load_attachments() == MET
    state.attachments.write_bytes(content)
    assert state.load_attachments() == Attachments()
    state.attachments.unlink()
    state.attachments.mkdir()
    assert state.load_attachments() == Attachments()


def test_marks_are_found_by_the_volume_whoever_has_it() -> None:
    earlier: datetime = NOON - timedelta(hours=1)
    met = Attachments(
        {
            "g1/v": Attachment(mark="a", since=NOON),
            "g2/v": Attachment(mark="b", since=earlier),
            "g1/w": Attachment(mark="c", since=NOON),
        }
    )
    assert met.marks_of_volumes() == {"v": {"a": NOON, "b": earlier}, "w": {"c": NOON}}


def test_a_clock_that_was_ahead_makes_nothing_doubtful_for_as_long(watch: Watch) -> None:
    watch.now = NOON + timedelta(days=1)
    first = watch.look(DISK)
    watch.now = NOON
    again = watch.look(DISK)
    assert (again.mark, again.since) == (first.mark, watch.now)
