"""What status says of consoles."""

from __future__ import annotations

from datetime import timedelta

from plimsoll_agent.consoles.model import Consoles
from plimsoll_monitoring.node import consoles
from tests.unit.consolevalues import some_consoles
from tests.unit.node import uuid_of
from tests.unit.values import NOON


def test_the_guests_that_stalled_are_named_the_newest_first_with_what_and_when() -> None:
    assert consoles.fact(some_consoles(), NOON + timedelta(minutes=5)) == (
        "3 read, 1 unreadable, 1 none; stalled within a day: instance-00000001 (web1) 5 min ago (3 hung-task,"
        " 1 io-error), instance-00000002 (web2) 2 h 5 min ago (7 disk-timeout)"
    )


def test_old_stalls_are_none_of_today() -> None:
    words = consoles.fact(some_consoles(), NOON + timedelta(days=2))
    assert words == "3 read, 1 unreadable, 1 none; no stall within a day"
    assert consoles.fact(Consoles(NOON), NOON) == "no guests"


def test_what_cannot_be_read_is_said_once_with_what_to_do() -> None:
    (remark,) = consoles.remarks(some_consoles())
    assert remark == (
        "the consoles of 1 guest cannot be read, so it is unknown whether they stalled: instance-00000004 (web4):"
        " Permission denied; let plimsoll's user read the logs (Guests that stalled, in guide/monitoring)"
    )
    assert list(consoles.remarks(Consoles(NOON))) == []


def test_the_data_has_both() -> None:
    told = consoles.data(some_consoles())
    assert told["states"] == {"read": 3, "unreadable": 1, "none": 1}
    assert [each["guest_uuid"] for each in told["stalled"]] == [uuid_of(1), uuid_of(2)]  # type: ignore[attr-defined]
    assert [each["guest_uuid"] for each in told["unreadable"]] == [uuid_of(4)]  # type: ignore[attr-defined]
