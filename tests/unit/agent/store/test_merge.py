"""What passes and commands side by side leave in the memory: nothing is lost, whatever their order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll_agent.catalogue.attachments import Attachment, Attachments
from plimsoll_agent.model.acknowledged import Acknowledgement
from plimsoll_agent.model.approvals import Approval
from plimsoll_agent.model.holds import Hold
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.memory import BrakeMemory, Remembered
from plimsoll_agent.store.memory_file import Memory
from plimsoll_agent.store.merge import merged, merged_attachments
from plimsoll_agent.util.frozen import replace
from tests.unit.values import GUEST, NOON, a_disk

DISK = a_disk()
KEY = DISK.key
HOLD = Hold(disk=DISK.named, limits=None, since=NOON, until=NOON + timedelta(hours=2), by="ann", why="a restore")
GIVEN = Acknowledgement(disk=DISK.named, since=NOON, until=NOON + timedelta(days=2), by="ann", why="known")
LATER = NOON + timedelta(minutes=5)


def entry(iops: int) -> Remembered:
    return Remembered(desired=Limits(total_iops_sec=iops), since=NOON, seen=NOON, applied=None, attachment=None)


OLD, OURS, THEIRS = entry(100), entry(200), entry(300)


@pytest.mark.parametrize(
    ("base", "ours", "stored", "locked", "after"),
    [
        (OLD, OURS, OLD, False, OURS),
        (OLD, OLD, THEIRS, False, THEIRS),
        (OLD, OURS, THEIRS, False, THEIRS),
        (OLD, OURS, THEIRS, True, OURS),
        (None, OURS, None, False, OURS),
        (None, OURS, THEIRS, False, THEIRS),
        (None, OURS, THEIRS, True, OURS),
        (None, None, THEIRS, False, THEIRS),
        (OLD, None, OLD, False, None),
        (OLD, None, THEIRS, False, THEIRS),
        (OLD, None, THEIRS, True, None),
        (OLD, OURS, None, False, OURS),
        (OLD, OLD, None, False, OLD),
    ],
    ids=lambda each: str(each.desired.total_iops_sec) if isinstance(each, Remembered) else None,
)
def test_a_disk_is_as_whoever_had_its_guest_left_it(
    base: Remembered | None,
    ours: Remembered | None,
    stored: Remembered | None,
    locked: bool,
    after: Remembered | None,
) -> None:
    found = merged(disks(base), disks(ours), disks(stored), {GUEST} if locked else ())
    assert found == disks(after)
    assert KEY.partition("/")[0] == GUEST


def disks(one: Remembered | None) -> Memory:
    return Memory(disks={} if one is None else {KEY: one})


@pytest.mark.parametrize(
    ("base", "ours", "stored", "after"),
    [
        ("", "", "held", "held"),
        ("held", "held", "", ""),
        ("held", "", "held", ""),
        ("", "held", "", "held"),
        ("held", "", "another", "another"),
        ("held", "another", "", ""),
        ("", "held", "another", "another"),
    ],
)
def test_of_a_hold_the_operators_word_counts(base: str, ours: str, stored: str, after: str) -> None:
    def memory(word: str) -> Memory:
        why = {} if not word else {KEY: replace(HOLD, why=word)}
        return Memory(holds=why, acknowledged={key: replace(GIVEN, why=hold.why) for key, hold in why.items()})

    assert merged(memory(base), memory(ours), memory(stored), {GUEST}) == memory(after)


APPROVED = (Approval("a" * 64, remove=False),)


@pytest.mark.parametrize(
    ("base", "ours", "stored", "after"),
    [
        ({}, {"recent": {"a": NOON}}, {"recent": {"b": NOON}}, {"recent": {"a": NOON, "b": NOON}}),
        ({}, {"recent": {"a": NOON}}, {"recent": {"a": LATER}}, {"recent": {"a": LATER}}),
        ({}, {"recent": {"a": LATER}}, {"recent": {"a": NOON}}, {"recent": {"a": LATER}}),
        ({"recent": {"a": LATER}}, {"recent": {"a": NOON}}, {"recent": {"a": LATER}}, {"recent": {"a": NOON}}),
        ({"recent": {"a": NOON}}, {}, {"recent": {"a": NOON, "b": NOON}}, {"recent": {"b": NOON}}),
        ({"judged": "x"}, {"judged": "y", "let_through": APPROVED}, {"judged": "x"}, None),
        ({"judged": "x"}, {"judged": "x"}, {"judged": "y", "let_through": APPROVED}, None),
        ({}, {"approved_rules": "r"}, {"stopped": "y"}, {"approved_rules": "r", "stopped": "y"}),
        ({}, {"stopped": "y"}, {"judged": "x"}, {"judged": "x", "stopped": "y"}),
        ({}, {"judged": "x"}, {"stopped": "y"}, {"judged": "x", "stopped": "y"}),
        ({"stopped": "y"}, {"judged": "y"}, {"stopped": "y"}, {"judged": "y"}),
    ],
)
def test_the_brake_counts_the_changes_of_both_and_keeps_a_stop(
    base: Mapping[str, object], ours: Mapping[str, object], stored: Mapping[str, object], after: object
) -> None:
    def memory(words: object) -> Memory:
        assert isinstance(words, dict)
        return Memory(brake=BrakeMemory(**words))

    expected = memory({"judged": "y", "let_through": APPROVED} if after is None else after)
    assert merged(memory(base), memory(ours), memory(stored), ()) == expected


def test_attachments_that_another_pass_found_stay() -> None:
    a, b = Attachment(mark="a", since=NOON), Attachment(mark="b", since=NOON)
    ours, stored = Attachments({f"{GUEST}/a": a}, {GUEST: a}), Attachments({"other/b": b}, {"other": b})
    both = Attachments({**ours.volumes, **stored.volumes}, {**ours.guests, **stored.guests})
    assert merged_attachments(Attachments(), ours, stored, ()) == both


# --- in any order

KEYS = ("a/1", "a/2", "b/1")


@dataclass
class Pass:
    """It decides on all disks, or on those of a guest that only it changes; ``stamp`` is what it remembers."""

    guest: str | None
    base: Memory
    stamp: int
    touched: set[str] = field(default_factory=set)
    """What others stored since it began."""


@given(st.lists(st.tuples(st.sampled_from(["node", "a", "b", "hold", "end"]), st.integers(0, 2)), max_size=30))
def test_whatever_the_order_nothing_is_lost(steps: list[tuple[str, int]]) -> None:
    """Passes over the node one at a time, over guests each alone at its guest; holds only where no guest pass is."""
    stored, running, expected, holds = Memory(disks=dict.fromkeys(KEYS, entry(1))), [], dict.fromkeys(KEYS, 1), {}  # type: ignore[var-annotated]
    for stamp, (what, choice) in enumerate(steps, start=2):
        busy = {one.guest for one in running}
        if what == "hold":
            key = KEYS[choice]
            if key[0] not in busy:
                holds[key] = replace(HOLD, why=str(stamp))
                stored = replace(stored, holds={**stored.holds, key: holds[key]})
        elif what != "end":
            guest = None if what == "node" else what
            if guest not in busy:
                running.append(Pass(guest, stored, stamp))
        elif choice < len(running):
            one = running.pop(choice)
            decided = {key for key in KEYS if one.guest in (None, key[0])}
            ours = replace(one.base, disks={**one.base.disks, **{key: entry(one.stamp) for key in decided}})
            stored = merged(one.base, ours, stored, () if one.guest is None else {one.guest})
            won = {key for key in decided if one.guest or key not in one.touched}
            expected |= dict.fromkeys(won, one.stamp)
            for other in running:
                other.touched |= won
        assert {key: each.desired.total_iops_sec for key, each in stored.disks.items() if each.desired} == expected
        assert stored.holds == holds
