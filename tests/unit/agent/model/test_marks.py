"""Marks in a guest's metadata: what is written comes back, and nothing else is read."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll_agent.adapters.libvirt import domxml
from plimsoll_agent.model.later import Later
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.marks import Mark, MarkedHold, Marks, UnreadableMark, read
from plimsoll_agent.model.reason import Code, Unknown
from plimsoll_agent.util.frozen import replace
from tests.fakes import FakeGuest, domain_xml, volume
from tests.unit.values import GUEST, NOON, VOLUME, examples, possible_limits

HOLD = MarkedHold(
    limits=Limits(total_iops_sec=800),
    since=NOON,
    until=NOON + timedelta(hours=2),
    by="root (ann)",
    why="import <4711>",
)
MARK = Mark(
    desired=Limits(total_iops_sec=250),
    since=NOON,
    applied=Limits(total_iops_sec=800),
    hold=HOLD,
    restore_to=Limits(),
    foreign=True,
)

_words = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=1, max_size=60)
_times = st.datetimes(
    datetime(1980, 1, 1), datetime(2100, 1, 1), timezones=st.sampled_from([UTC, timezone(timedelta(hours=-9))])
)
_limits = st.none() | possible_limits()
_holds = st.builds(MarkedHold, limits=_limits, since=_times, until=_times, by=_words, why=_words)
_rules = st.lists(st.sampled_from(["a", "gold racks", "<&>'"]), max_size=3).map(tuple)
_later = st.builds(Later, at=_times, limits=_limits, by_type=st.sampled_from([None, "gold"]))
_marks = st.builds(
    Mark,
    desired=_limits,
    since=_times,
    applied=_limits,
    enforced=st.booleans(),
    by_type=st.none() | _words,
    by_rules=_rules,
    revision=st.none() | st.just("4f21c8"),
    later=st.none() | st.lists(_later, max_size=3).map(tuple),
    restore_to=_limits,
    foreign=st.booleans(),
)


def through_libvirt(marks: Marks) -> Marks | Unknown | None:
    """As it is read off the XML of a guest that has it."""
    guest = FakeGuest("instance-1", GUEST, {"vda": volume(VOLUME)})
    guest.marks = marks.xml if marks.by_disk else None
    return domxml.parse(domain_xml(guest))[0].marks


@examples
@given(mark=_marks, hold=st.none() | _holds, name=st.sampled_from([VOLUME, "vms/x_disk", "a/b/c<&>\"'"]))
def test_what_was_written_is_read(mark: Mark, hold: MarkedHold | None, name: str) -> None:
    marks = Marks({name: replace(mark, hold=hold)})
    back = through_libvirt(marks)
    assert isinstance(back, Marks)
    if all(word.isprintable() for word in (mark.by_type or "-", *((hold and (hold.by, hold.why)) or ()))):
        assert back == marks
    assert back.xml == marks.xml, "and is not written again"
    assert back.by_disk[name].digest == marks.by_disk[name].digest


@pytest.mark.parametrize(
    "other",
    [
        replace(MARK, desired=None),
        replace(MARK, desired=Limits()),
        replace(MARK, since=NOON + timedelta(seconds=1)),
        replace(MARK, applied=None),
        replace(MARK, enforced=True),
        replace(MARK, by_type="gold"),
        replace(MARK, released=""),
        replace(MARK, released="gold"),
        replace(MARK, restore_to=None),
        replace(MARK, by_rules=("a",)),
        replace(MARK, revision="4f21c8"),
        replace(MARK, foreign=False),
        replace(MARK, hold=None),
        replace(MARK, hold=replace(HOLD, limits=None)),
        replace(MARK, hold=replace(HOLD, until=NOON)),
        replace(MARK, hold=replace(HOLD, by="bob")),
    ],
)
def test_no_two_marks_have_one_digest_or_one_text(other: Mark) -> None:
    assert other.digest != MARK.digest
    assert Marks({"a": other}).xml != Marks({"a": MARK}).xml


def test_a_persons_words_lose_what_xml_has_no_place_for() -> None:
    odd = replace(MARK, by_type="gold\x07", hold=replace(HOLD, why="im\x00port\n\ud800" + "x" * 1000))
    back = through_libvirt(Marks({"a": odd, "b\x01": MARK, "": MARK}))
    assert isinstance(back, Marks)
    assert back.by_disk.keys() == {"a"}, "a name that cannot come back as it was is left out"
    held = back.by_disk["a"].hold
    assert held is not None
    assert held.why.startswith("im?port??xxx")
    assert back.by_disk["a"].by_type is None


def _damaged(old: str, new: str) -> str:
    text = Marks({"a": replace(MARK, enforced=True, by_type="gold")}).xml
    assert old in text
    return text.replace(old, new, 1)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param('version="1"', 'version="2"', id="another version"),
        pytest.param('version="1"', "", id="no version"),
        pytest.param('version="1"', 'version="1" more="x"', id="more of it"),
        pytest.param("<disk ", '<disk odd="x" ', id="an attribute of another"),
        pytest.param('name="a"', "", id="no name"),
        pytest.param('name="a"', 'name=""', id="an empty name"),
        pytest.param('name="a"', f'name="{"a" * 513}"', id="a long name"),
        pytest.param("</marks>", "<other/></marks>", id="another element"),
        pytest.param("</marks>", f'<disk name="a" since="{NOON.isoformat()}"/></marks>', id="a disk twice"),
        pytest.param("</disk>", "<put/></disk>", id="limits twice"),
        pytest.param("</disk>", "<more/></disk>", id="more in a disk"),
        pytest.param("</disk>", "<rule/></disk>", id="a rule of no name"),
        pytest.param("</disk>", '<rule name="a"><x/></rule></disk>', id="more in a rule"),
        pytest.param("</hold>", "<more/></hold>", id="more in a hold"),
        pytest.param('enforced="yes"', 'enforced="no"', id="a yes that is none"),
        pytest.param('total_iops_sec="250"', 'total_iops_sec="2_50"', id="no number of libvirt's"),
        pytest.param('total_iops_sec="250"', 'total_iops_sec="0250"', id="a number with a zero before it"),
        pytest.param('total_iops_sec="250"', 'total_iops_sec="-1"', id="below nothing"),
        pytest.param('total_iops_sec="250"', 'total_iops_sec="250" read_iops_sec="1"', id="impossible limits"),
        pytest.param('total_iops_sec="250"', 'iops="250"', id="no limit"),
        pytest.param('total_iops_sec="250" />', 'total_iops_sec="250"><x/></desired>', id="more in limits"),
        pytest.param(f'since="{NOON.isoformat()}"', 'since="today"', id="no time"),
        pytest.param(f'since="{NOON.isoformat()}"', 'since="2026-11-20T12:00:00"', id="no time zone"),
        pytest.param(f'since="{NOON.isoformat()}"', 'since="0001-01-01T00:00:00+23:59"', id="no time in UTC"),
        pytest.param('by="root (ann)"', "", id="a hold of nobody"),
        pytest.param('by="root (ann)"', 'by=""', id="a hold of no name"),
        pytest.param('by="root (ann)"', 'by="&#10;"', id="a name of two lines"),
    ],
)
def test_whatever_plimsoll_would_not_have_written_is_no_mark(old: str, new: str) -> None:
    with pytest.raises(UnreadableMark):
        read(ET.fromstring(_damaged(old, new)))


def test_marks_of_more_disks_than_a_guest_can_have_are_none() -> None:
    many = Marks({str(number): Mark(desired=None, since=NOON, applied=None) for number in range(1025)})
    with pytest.raises(UnreadableMark, match="1025 disks"):
        read(ET.fromstring(many.xml))


def test_an_unreadable_mark_costs_the_guest_nothing_else() -> None:
    guest = FakeGuest("instance-1", GUEST, {"vda": volume(VOLUME)}, marks=_damaged('version="1"', 'version="2"'))
    read_off, (disk,) = domxml.parse(domain_xml(guest))
    assert isinstance(read_off.marks, Unknown)
    assert read_off.marks.reason.code is Code.MARK_UNREADABLE
    assert (disk.target, disk.mark) == ("vda", None)


def test_two_marks_are_none() -> None:
    guest = FakeGuest("instance-1", GUEST, {"vda": volume(VOLUME)}, marks=Marks({"a": MARK}).xml)
    text = domain_xml(guest).replace("</plimsoll:marks>", "</plimsoll:marks><p:marks xmlns:p='urn:plimsoll:marks'/>")
    assert isinstance(domxml.parse(text)[0].marks, Unknown)


def test_a_disk_finds_its_mark_by_volume_or_image_whatever_its_letter() -> None:
    guest = FakeGuest("instance-1", GUEST, {"vdx": volume(VOLUME)}, marks=Marks({VOLUME: MARK}).xml)
    (disk,) = domxml.parse(domain_xml(guest))[1]
    assert disk.mark == MARK
