"""Balances in the metadata of volumes: what is written, what is left, and what Cinder may answer meanwhile."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from plimsoll_agent.catalogue.api import Refused
from plimsoll_agent.errors import DeadlineExceeded, PlimsollError, Unreachable
from plimsoll_agent.qos import balances
from plimsoll_agent.qos.apply import How
from plimsoll_agent.qos.balances import KEY, Balance, BalanceChange
from plimsoll_agent.qos.messages import BalanceCounts, balances_sum
from tests.fakecinder import FakeCinder

NOW = datetime(2026, 12, 1, 11, 5, 40, tzinfo=UTC)
AT = NOW - timedelta(seconds=70)


def planned(before: str | None, percent: int | None, step: int = 5) -> list[str | None]:
    """What is written."""
    balance = None if percent is None else Balance(percent, AT)
    return [change.after for change in balances.plan({"v": before}, {"v": balance}, NOW, step)]


@pytest.mark.parametrize(
    ("before", "percent", "after"),
    [
        (None, 73, ["73 % at 2026-12-01 11:04 UTC"]),
        ("73 % at 2026-12-01 10:00 UTC", 77, []),
        ("73 % at 2026-12-01 10:00 UTC", 78, ["78 % at 2026-12-01 11:04 UTC"]),
        ("73 % at 2026-12-01 10:00 UTC", 68, ["68 % at 2026-12-01 11:04 UTC"]),
        # Its ends are told though the last move is small, once.
        ("3 % at 2026-12-01 10:00 UTC", 0, ["0 % at 2026-12-01 11:04 UTC"]),
        ("97 % at 2026-12-01 10:00 UTC", 100, ["100 % at 2026-12-01 11:04 UTC"]),
        ("0 % at 2026-12-01 10:00 UTC", 0, []),
        ("0 % at 2026-12-01 10:00 UTC", 4, []),
        # After a day the time is renewed, not before.
        ("73 % at 2026-11-30 11:06 UTC", 73, []),
        ("73 % at 2026-11-30 11:05 UTC", 73, ["73 % at 2026-12-01 11:04 UTC"]),
        # Another run wrote it since Prometheus observed ours.
        ("50 % at 2026-12-01 11:05 UTC", 73, []),
        # What a tenant wrote counts for no more than a call.
        ("100 % at 2999-01-01 00:00 UTC", 73, ["73 % at 2026-12-01 11:04 UTC"]),
        ("73 % at 2026-13-01 10:00 UTC", 73, ["73 % at 2026-12-01 11:04 UTC"]),
        ("all of it", 73, ["73 % at 2026-12-01 11:04 UTC"]),
        ("", 73, ["73 % at 2026-12-01 11:04 UTC"]),
        ("٧٣ % at 2026-12-01 10:00 UTC", 73, ["73 % at 2026-12-01 11:04 UTC"]),
        # Credits that ended.
        ("73 % at 2026-12-01 10:00 UTC", None, [None]),
        ("", None, [None]),
        (None, None, []),
    ],
)
def test_only_what_moved_is_written(before: str | None, percent: int | None, after: list[str | None]) -> None:
    assert planned(before, percent) == after


def test_a_volume_of_which_nothing_is_known_keeps_what_it_has() -> None:
    there = {"v": "73 % at 2026-12-01 10:00 UTC", "w": None}
    assert balances.plan(there, {}, NOW, 5) == []
    assert balances.plan({}, {"of another region": Balance(5, AT)}, NOW, 5) == []


def test_the_largest_moves_come_first() -> None:
    there = {"a": "50 % at 2026-12-01 10:00 UTC", "b": "50 % at 2026-12-01 10:00 UTC", "c": None}
    known = {"a": Balance(60, AT), "b": Balance(30, AT), "c": Balance(99, AT)}
    assert [change.volume for change in balances.plan(there, known, NOW, 5)] == ["c", "b", "a"]


def written(cinder: FakeCinder, *texts: str | None) -> list[tuple[How, bool]]:
    """The results for each volume of the fake."""
    changes = [
        BalanceChange(volume["id"], volume["metadata"].get(KEY), text)
        for volume, text in zip(cinder.volumes, texts, strict=True)
    ]
    return [(one.how, one.gone) for one in balances.write(changes, cinder)]


def test_a_tenants_own_metadata_stays(cinder: FakeCinder) -> None:
    cinder.volumes[0]["metadata"]["own"] = "1"
    assert written(cinder, "5 %", "6 %", "7 %") == [(How.DONE, False)] * 3
    assert cinder.volumes[0]["metadata"] == {"own": "1", KEY: "5 %"}
    assert written(cinder, None, "6 %", "7 %")[0] == (How.DONE, False)
    assert cinder.volumes[0]["metadata"] == {"own": "1"}


def test_volumes_and_keys_that_go_in_between_are_no_fault(cinder: FakeCinder) -> None:
    cinder.volumes[2]["metadata"][KEY] = "8 %"
    gone = cinder.volumes[0]["id"]

    def before(method: str, path: str) -> None:
        if gone in path:
            cinder.volumes[:] = [volume for volume in cinder.volumes if volume["id"] != gone]

    cinder.before = before
    assert written(cinder, "5 %", None, None) == [(How.DONE, True), (How.DONE, True), (How.DONE, False)]


@pytest.mark.parametrize(
    ("error", "how", "ends"),
    [
        (Refused("forbidden (403) by its policy volume:create_volume_metadata", 403), How.REFUSED, True),
        (Refused("too many requests (429)", 429), How.REFUSED, True),
        (Refused("server error (503)", 503), How.REFUSED, True),
        (Unreachable("connection refused"), How.REFUSED, True),
        (DeadlineExceeded("no answer within 60 s"), How.TIMED_OUT, True),
        # Of this volume alone: it is uploaded as an image now, for example.
        (Refused("request refused (400): not allowed for volumes in uploading status", 400), How.REFUSED, False),
        (Refused("server error (500)", 500), How.REFUSED, False),
    ],
)
def test_what_all_volumes_would_be_refused_is_asked_once(
    cinder: FakeCinder, error: PlimsollError, how: How, ends: bool
) -> None:
    def before(method: str, path: str) -> None:
        if cinder.volumes[0]["id"] in path:
            raise error

    cinder.before = before
    rest = How.NOT_TRIED if ends else How.DONE
    assert [one[0] for one in written(cinder, "5 %", "6 %", "7 %")] == [how, rest, rest]
    assert len(cinder.writes()) == (1 if ends else 3)


def test_of_two_runs_at_once_the_second_finds_little_to_do(cinder: FakeCinder) -> None:
    known = {volume["id"]: Balance(73, AT) for volume in cinder.volumes}
    there = balances.shown(cinder)
    once: list[int] = []

    def other() -> None:
        cinder.between = lambda: None
        once.append(len([*balances.write(balances.plan(balances.shown(cinder), known, NOW, 5), cinder)]))

    cinder.between = other
    assert all(one.how is How.DONE for one in balances.write(balances.plan(there, known, NOW, 5), cinder))
    assert once == [2], "all but the one that was written before it read"
    assert set(balances.shown(cinder).values()) == {"73 % at 2026-12-01 11:04 UTC"}
    assert balances.plan(balances.shown(cinder), known, NOW, 5) == []


def test_all_volumes_are_read_in_a_call_a_page() -> None:
    cinder = FakeCinder(page=10)
    for _ in range(50):
        cinder.volume(None, 1)
    assert len(balances.shown(cinder)) == 50
    assert len(cinder.asked) == 6, "one more, where the last page is full"


@pytest.fixture
def cinder() -> FakeCinder:
    """With three volumes."""
    cinder = FakeCinder()
    for _ in range(3):
        cinder.volume(None, 1)
    return cinder


def test_the_sum_has_every_volume_once(cinder: FakeCinder) -> None:
    there = {"v": None, **{volume["id"]: None for volume in cinder.volumes}, "unknown": None}
    changes = balances.plan(there, {id: Balance(5, AT) for id in there if id != "unknown"}, NOW, 5)
    results = [*balances.write(changes[:-1], cinder)]
    counts = BalanceCounts(volumes=5, unknown=1, changes=len(changes), later=1, calls=sum(cinder.calls.values()))
    assert balances_sum(counts, results) == (
        "5 attached volumes: 3 written, 0 removed, 0 unchanged, 1 unknown, 1 left to the next run (--most);"
        " 3 calls to Cinder."
    )
    assert balances_sum(counts, None) == (
        "5 attached volumes: 3 to write, 0 unchanged, 1 unknown, 1 left to the next run (--most); 3 calls to Cinder."
        " Dry run: nothing is written."
    )
