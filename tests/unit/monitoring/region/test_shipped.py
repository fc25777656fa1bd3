"""Logs of nodes and limits over time: what each proves, each entry once, and what none of them has."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from plimsoll_agent.app import audit
from plimsoll_agent.model.direction import Direction
from plimsoll_agent.model.entries import Ending, Happening, RecordedChange, RecordedEvent
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, because
from plimsoll_agent.util.frozen import replace
from plimsoll_monitoring.region import shipped
from plimsoll_monitoring.region.answers import TimeSeries
from plimsoll_monitoring.region.shipped import Logs, RowOrigin, ShippedRow, ShippedSelection
from tests.unit.values import GUEST, PROJECT, VOLUME, a_disk

AT = datetime(2026, 11, 20, 14, 2, 11, tzinfo=UTC)
NOW = AT + timedelta(hours=1)
CHANGE = RecordedChange(
    id=17,
    at=AT,
    by="root (ann)",
    disk=a_disk().named,
    attachment="a1",
    before=Limits(total_iops_sec=500),
    after=Limits(total_iops_sec=3000),
    direction=Direction.RAISE,
    reason=because(Code.RULE, rule="gold"),
    cause=Code.DESIRED_CHANGED,
    revision=None,
    result=Ending.DONE,
    result_at=AT,
    detail=None,
)
PAUSED = RecordedEvent(
    id=3, at=AT, by="ann", what=Happening.PAUSED, disk=None, reason=because(Code.OPERATOR, why="racks")
)
SAYS = audit.fields(CHANGE)["MESSAGE"]
WHO = {"guest": CHANGE.disk.guest_name, "disk": CHANGE.disk.target}


def fields(entry: RecordedChange | RecordedEvent) -> dict[str, str]:
    kind = audit.EVENT if isinstance(entry, RecordedEvent) else audit.CHANGE
    return {"MESSAGE_ID": kind} | audit.fields(entry)


def as_json(entry: RecordedChange | RecordedEvent = CHANGE, node: str = "n1", at: datetime = AT) -> str:
    """A line of ``journalctl -o json``."""
    stamp = {"__REALTIME_TIMESTAMP": str(int(at.timestamp() * 1e6) + 250_000), "_HOSTNAME": node}
    return json.dumps(stamp | fields(entry))


def read(*lines: str) -> Logs:
    logs = Logs(NOW)
    for line in lines:
        logs.read(line + "\n")
    return logs


def rows(*lines: str, **wanted: Any) -> list[ShippedRow]:
    return shipped.selected(shipped.once(read(*lines).rows), ShippedSelection(**wanted))[0]


def test_all_fields_of_a_change_come_from_the_journal() -> None:
    (row,) = rows(as_json())
    assert (row.at, row.node, row.volume, row.project) == (AT.replace(microsecond=250_000), "n1", VOLUME, PROJECT)
    assert (row.change, row.why, row.by) == ("500 → 3000 IOPS", 'rule "gold"; done', "root (ann)")
    assert (row.before, row.after) == ({"total_iops_sec": 500}, {"total_iops_sec": 3000})
    assert (row.reason, row.cause, row.result, row.record_id) == ("rule", "desired-changed", "done", 17)
    assert row.origin is RowOrigin.FIELDS


@pytest.mark.parametrize(
    "line",
    [
        f"2026-11-20T14:02:11+0000 n1 plimsoll[812]: {SAYS}",
        f"2026-11-20T15:02:11+01:00 n1 plimsoll: {SAYS}",
        f"2026-11-20T14:02:11.000000Z n1 plimsoll[812]: {SAYS}",
        f"Nov 20 14:02:11 n1 plimsoll[812]: {SAYS}",
        f"<13>Nov 20 14:02:11 n1 plimsoll: {SAYS}",
        f"<13>1 2026-11-20T14:02:11Z n1 plimsoll 812 - - {SAYS}",
        f'<13>1 2026-11-20T14:02:11Z n1 plimsoll - - [meta x="1"] {SAYS}',
    ],
)
def test_a_line_of_text_has_who_and_why_and_no_volume(line: str) -> None:
    (row,) = rows(line)
    assert (row.at, row.node, row.guest, row.disk) == (AT, "n1", WHO["guest"], WHO["disk"])
    assert (row.change, row.why, row.by) == ("500 → 3000 IOPS", 'rule "gold"; done', "root (ann)")
    assert (row.volume, row.project, row.origin) == (None, None, RowOrigin.TEXT)


@pytest.mark.parametrize(
    ("line", "node", "at"),
    [
        (json.dumps(fields(CHANGE)), None, None),
        (json.dumps({"log": json.dumps(fields(CHANGE)) + "\n", "time": "2026-11-20T14:02:11.123456789Z"}), None, AT),
        (
            json.dumps(
                {
                    "__REALTIME_TIMESTAMP": str(int(AT.timestamp() * 1e6)),
                    "_HOSTNAME": "n1",
                    "MESSAGE": json.dumps(fields(CHANGE)),
                }
            ),
            "n1",
            AT,
        ),
        (f"2026-11-20T14:02:11Z n1 podman[4]: {json.dumps(fields(CHANGE))}", "n1", AT),
        (f"plimsoll | {json.dumps(fields(CHANGE))}", None, None),
    ],
    ids=["alone", "docker", "journald driver", "syslog", "compose"],
)
def test_a_container_s_line_of_fields_is_read_with_what_stands_around_it(
    line: str, node: str | None, at: datetime | None
) -> None:
    (row,) = rows(line)
    assert (row.node, row.at and row.at.replace(microsecond=0)) == (node, at)
    assert (row.volume, row.by, row.origin) == (VOLUME, "root (ann)", RowOrigin.FIELDS)


def test_actions_of_operators_are_entries_too() -> None:
    text = f"2026-11-20T14:02:11Z n2 plimsoll: {audit.fields(PAUSED)['MESSAGE']}"
    found = [(row.node, row.what, row.change, row.why, row.by) for row in rows(as_json(PAUSED), text)]
    assert sorted(found) == [("n1", "paused", "paused", "racks", "ann"), ("n2", "paused", "paused", "racks", "ann")]
    assert not rows(as_json(PAUSED), text, volume=VOLUME), "they are of no volume"


def test_an_entry_of_several_logs_is_listed_once_with_all_its_fields() -> None:
    text = f"2026-11-20T14:02:11+0000 n1.example.net plimsoll[812]: {SAYS}"
    (row,) = rows(text, as_json(), as_json(), text)
    assert row.origin is RowOrigin.FIELDS
    assert len(rows(as_json(), as_json(node="n2"), as_json(at=AT + timedelta(seconds=5)))) == 3


def test_what_is_no_entry_is_left_out_and_shows_from_when_on_there_are_lines() -> None:
    logs = read(
        "2026-11-20T10:22:00Z n7 sshd[1]: session opened",
        "2026-11-20T13:00:00Z n7 plimsoll[4]: the settings were read",
        '{"__REALTIME_TIMESTAMP": "x", "_HOSTNAME": "n8"}',
        "{",
        "",
        "\x00\x7f nothing",
    )
    assert not logs.rows
    assert list(logs.spans) == ["n7"]
    since = AT.replace(hour=9)
    assert shipped.gaps(logs.spans, ["n7.example.net:9100", "n9:9100"], ShippedSelection(since=since), NOW) == [
        "no log has lines of n7 before 2026-11-20 10:22:00 UTC",
        "no log has lines of n7 after 2026-11-20 13:00:00 UTC",
        "no log has lines of n9",
    ]
    assert shipped.gaps(logs.spans, [], ShippedSelection(nodes=("n5",)), NOW) == ["no log has lines of n5"]
    many = shipped.gaps({}, [f"n{number}" for number in range(30)], ShippedSelection(), NOW)
    assert many[-1] == "and 20 more such gaps"


def test_a_time_without_a_year_is_the_last_one_and_without_a_zone_is_counted() -> None:
    logs = read(f"Dec 31 23:59:59 n1 plimsoll: {SAYS}", f"Feb 29 10:00:00 n1 plimsoll: {SAYS}")
    assert [row.at for row in logs.rows] == [datetime(2025, 12, 31, 23, 59, 59, tzinfo=UTC), None]
    assert logs.zoneless == 2


@pytest.mark.parametrize(
    ("wanted", "sure", "unsure"),
    [
        ({}, 3, 0),
        ({"volume": VOLUME}, 1, 1),
        ({"volume": "another"}, 0, 1),
        ({"project": PROJECT}, 1, 1),
        ({"server": GUEST}, 1, 1),
        ({"server": CHANGE.disk.guest_name}, 2, 0),
        ({"server": "another"}, 0, 0),
        ({"nodes": ("n2",)}, 1, 0),
        ({"nodes": ("n1.example.net:9100",)}, 2, 0),
        ({"since": AT, "until": AT + timedelta(seconds=1)}, 3, 0),
        ({"since": AT + timedelta(seconds=1)}, 0, 0),
        ({"until": AT}, 0, 0),
    ],
)
def test_what_a_line_does_not_say_is_no_answer(wanted: dict[str, Any], sure: int, unsure: int) -> None:
    logs = read(as_json(), as_json(PAUSED), f"2026-11-20T14:02:11Z n2 plimsoll: {SAYS}")
    found, left_out = shipped.selected(shipped.once(logs.rows), ShippedSelection(**wanted))
    assert (len(found), left_out) == (sure, unsure)


def test_entries_come_in_the_order_of_time() -> None:
    later = as_json(replace(CHANGE, id=18), at=AT + timedelta(minutes=1))
    early = f"2026-11-20T14:00:00Z n2 plimsoll: {SAYS}"
    assert [row.node for row in rows(later, as_json(node="n3"), early)] == ["n2", "n3", "n1"]


def test_text_of_a_guest_is_safe_to_show() -> None:
    (row,) = rows("2026-11-20T14:02:11Z n1 plimsoll: a\x1b[2J vda  1 → 2 IOPS   why; done   by me")
    assert "\x1b" not in f"{row.guest}{row.change}{row.by}"


# --- metrics


def lines(values: Sequence[int | None], instance: str = "n1:9100") -> tuple[list[TimeSeries], ...]:
    """``plimsoll_disk_info``, the limit of a disk and whether it has none, a value a minute: 0 is unlimited, None
    unknown.
    """
    labels = {
        "region": "r1",
        "instance": instance,
        "uuid": GUEST,
        "domain": CHANGE.disk.guest_name,
        "target_device": CHANGE.disk.target,
        "volume": VOLUME,
        "project": PROJECT,
    }
    start = AT.timestamp() - 60
    known = {start + 60 * number: 1.0 for number in range(len(values))}
    limits = {start + 60 * number: float(value) for number, value in enumerate(values) if value}
    flags = {start + 60 * number: float(value == 0) for number, value in enumerate(values) if value is not None}
    limit = TimeSeries(labels | {"parameter": "total_iops_sec"}, limits)
    return [TimeSeries(labels, known)], [limit], [TimeSeries(labels, flags)]


def test_metrics_show_when_a_limit_was_changed_and_not_by_whom() -> None:
    raised, removed = shipped.changes_of(*lines([500, 500, 3000, 0]))
    assert (raised.not_before, raised.at) == (AT, AT + timedelta(minutes=1))
    assert (raised.change, removed.change) == ("500 → 3000 IOPS", "3000 IOPS → unlimited")
    assert (raised.by, raised.why, raised.volume, raised.origin) == (None, None, VOLUME, RowOrigin.METRICS)


def test_a_disk_whose_limits_were_unknown_for_a_time_was_not_changed() -> None:
    assert not shipped.changes_of(*lines([500, None, 500]))
    (raised,) = shipped.changes_of(*lines([None, 500, None, 3000]))
    assert (raised.change, raised.not_before) == ("500 → 3000 IOPS", AT)
    (limited,) = shipped.changes_of(*lines([0, None, 500]))
    assert (limited.change, limited.at) == ("unlimited → 500 IOPS", AT + timedelta(minutes=1))


def test_a_change_that_a_log_has_is_not_listed_again_from_metrics() -> None:
    metrics = shipped.changes_of(*lines([500, 500, 3000]))
    assert [row.origin for row in shipped.once([*read(as_json()).rows, *metrics])] == [RowOrigin.FIELDS]
    text = f"2026-11-20T14:02:11Z n1 plimsoll: {SAYS}"
    assert [row.origin for row in shipped.once([*read(text).rows, *metrics])] == [RowOrigin.TEXT]
    before = as_json(at=AT - timedelta(minutes=10))
    assert len(shipped.once([*read(before).rows, *metrics])) == 1, "metrics are of a later pass"
    old = as_json(at=AT - timedelta(hours=1))
    assert len(shipped.once([*read(old).rows, *metrics])) == 2, "that is another one"


def test_a_disk_that_came_to_another_node_has_not_changed() -> None:
    here, there = lines([500, 500]), lines([3000, 3000], "n2:9100")
    assert not shipped.changes_of(*(both + its for both, its in zip(here, there, strict=True)))
