"""Who is late: chosen by a rule, due twice, and not begun."""

from __future__ import annotations

from datetime import timedelta

import pytest

from plimsoll_probes.model.job import JobName
from plimsoll_probes.schedule.late import Late, late
from plimsoll_probes.schedule.targets import ChosenTarget
from tests.unit.values import GUEST, NOON

HOUR = timedelta(hours=1)
LONG_AGO = NOON - timedelta(days=30)


def a_target(uuid: str = GUEST, since: timedelta = timedelta(days=30), every: timedelta = 4 * HOUR) -> ChosenTarget:
    return ChosenTarget(
        guest_uuid=uuid,
        guest_name="instance-00000001",
        directory="/var/tmp",
        rule="canaries",
        jobs=(JobName.READ,),
        every=every,
        since=NOON - since,
        seen=NOON,
    )


@pytest.mark.parametrize(
    ("ago", "is_late"), [(HOUR, False), (8 * HOUR, False), (8 * HOUR + timedelta(seconds=1), True)]
)
def test_a_guest_is_late_when_it_was_due_twice(ago: timedelta, is_late: bool) -> None:
    found = late([a_target()], {(GUEST, "/var/tmp"): NOON - ago}, NOON)
    assert [each.last for each in found] == ([NOON - ago] if is_late else [])


def test_a_guest_that_was_chosen_just_now_is_not_late_whenever_it_was_probed_before() -> None:
    assert late([a_target(since=HOUR)], {(GUEST, "/var/tmp"): LONG_AGO}, NOON) == ()


def test_a_guest_that_was_never_probed_is_late_from_when_it_was_chosen() -> None:
    assert late([a_target(since=10 * HOUR)], {}, NOON) == (Late(a_target(since=10 * HOUR), None),)


@pytest.mark.parametrize(("uptime", "is_late"), [(HOUR, False), (8 * HOUR, False), (9 * HOUR, True)])
def test_what_was_missed_while_the_node_was_off_is_not_late(uptime: timedelta, is_late: bool) -> None:
    boot = NOON - uptime
    cases = late([a_target()], {(GUEST, "/var/tmp"): LONG_AGO}, NOON, boot)
    assert [each.since for each in cases] == ([boot] if is_late else [])


def test_a_probe_of_another_directory_makes_no_guest_punctual() -> None:
    assert len(late([a_target()], {(GUEST, "/srv"): NOON}, NOON)) == 1


def test_the_longest_waiting_come_first() -> None:
    targets = [a_target("b"), a_target("a"), a_target("c", since=20 * HOUR)]
    begun = {("a", "/var/tmp"): NOON - 12 * HOUR, ("b", "/var/tmp"): NOON - 15 * HOUR}
    assert [each.target.guest_uuid for each in late(targets, begun, NOON)] == ["c", "b", "a"]
