"""Probes of the region: who is late, and what belongs to which row."""

from __future__ import annotations

import pytest

from plimsoll_agent.util.frozen import replace
from plimsoll_monitoring.promql import SeriesSelection
from plimsoll_monitoring.region.answers import Series
from plimsoll_monitoring.region.probes import ProbesBy, ProbeTarget, kept_ratio, proving, questions, rows

NOW = 1_800_000_000.0
HOUR = 3600.0
PROBED = ProbeTarget(("r1", "n1"), "u1", "i1", "/var/tmp", NOW - HOUR, 6 * HOUR, NOW - 90 * HOUR, None, None, {})


@pytest.mark.parametrize(
    ("change", "late"),
    [
        ({}, False),
        ({"last": NOW - 11 * HOUR}, False),
        ({"last": NOW - 13 * HOUR}, True),
        ({"last": None}, True),  # chosen long ago, and never probed
        ({"last": None, "chosen": NOW - HOUR}, False),  # chosen just now
        ({"last": NOW - 13 * HOUR, "chosen": NOW - HOUR}, False),  # chosen anew
        ({"last": NOW - 13 * HOUR, "boot": NOW - HOUR}, False),  # missed while the node was off
        ({"last": NOW - 14 * HOUR, "boot": NOW - 13 * HOUR}, True),
        ({"last": NOW - 13 * HOUR, "every": None}, False),  # nobody wants it any more
        ({"last": None, "chosen": None}, False),  # nobody knows since when
    ],
)
def test_late_is_what_was_due_twice_and_not_made(change: dict[str, float | None], late: bool) -> None:
    assert replace(PROBED, **change).late(NOW) is late  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("runs", "ratio", "number"),
    [
        ({}, None, 0),
        ({"failed": 3.0, "inconclusive": 2.0}, None, 0),
        ({"kept": 3.0, "no-limit": 1.0, "failed": 9.0}, 1.0, 4),
        ({"kept": 1.0, "short": 1.0, "slow": 1.0, "over-limit": 1.0}, 0.25, 4),
    ],
)
def test_runs_that_prove_nothing_neither_keep_nor_break(
    runs: dict[str, float], ratio: float | None, number: int
) -> None:
    assert (kept_ratio(runs), proving(runs)) == (ratio, number)


def series(value: float, uuid: str, **labels: str) -> Series:
    guest = {"region": "r1", "instance": "n1", "uuid": uuid, "domain": f"i-{uuid}", "directory": "/var/tmp"}
    return Series(guest | labels, value)


def answers(by: ProbesBy, **told: list[Series]) -> dict[str, list[Series]]:
    return {name: told.get(name, []) for name in questions(SeriesSelection(), by)}


def two_guests(by: ProbesBy) -> dict[str, list[Series]]:
    """u1 (gold, of p1) broke a promise in one of two directories; of u2, which was never probed, nothing is told."""
    return answers(
        by,
        known=[
            series(1, "u1", volume_type="gold", project="p1"),
            series(1, "u1", volume_type="gold", project="p1", directory="/srv"),
        ],
        probe_verdicts=[
            series(1, "u1", probe="read", verdict="short"),
            series(1, "u1", probe="write", verdict="slow"),
            series(1, "u1", probe="read", verdict="kept", directory="/srv"),
        ],
        probe_every=[series(HOUR, "u2")],
        probe_chosen=[series(NOW - 9 * HOUR, "u2")],
        probe_postponed=[series(NOW, "u2", why="unhealthy")],
    )


@pytest.mark.parametrize(
    ("by", "name", "groups"),
    [
        (ProbesBy.TYPE, "volume_type", {"gold": (1, 1, 0, 0), None: (1, 0, 1, 1)}),
        (ProbesBy.PROJECT, "project", {"p1": (1, 1, 0, 0), None: (1, 0, 1, 1)}),
        (ProbesBy.NODE, "instance", {"n1": (2, 1, 1, 1)}),
        (ProbesBy.GUEST, "uuid", {"u1": (1, 1, 0, 0), "u2": (1, 0, 1, 1)}),
    ],
)
def test_a_guest_counts_once_in_its_row_and_one_without_a_type_is_not_lost(
    by: ProbesBy, name: str, groups: dict[str | None, tuple[int, ...]]
) -> None:
    found = rows(two_guests(by), by, SeriesSelection(), NOW)
    assert {row.labels[name]: (row.guests, row.broken, row.late, row.postponed) for row in found} == groups


def test_a_guest_that_has_moved_is_as_its_new_node_says() -> None:
    def on(node: str, last: float, verdict: str) -> dict[str, Series]:
        there = {"instance": node}
        return {
            "probe_verdicts": series(1, "u1", probe="read", verdict=verdict, **there),
            "probe_last": series(last, "u1", **there),
        }

    both = on("n1", NOW - 120 * HOUR, "short"), on("n2", NOW - HOUR, "kept")
    told = {name: [each[name] for each in both] for name in both[0]}
    (row,) = rows(answers(ProbesBy.TYPE, **told), ProbesBy.TYPE, SeriesSelection(), NOW)
    assert (row.guests, row.broken) == (1, 0)


def test_guests_whose_type_is_unknown_are_not_of_the_type_that_is_asked_for() -> None:
    found = rows(two_guests(ProbesBy.GUEST), ProbesBy.GUEST, SeriesSelection(types=("gold",)), NOW)
    assert [row.labels["uuid"] for row in found] == ["u1"]


def test_where_nodes_keep_sums_only_the_number_of_guests_is_unknown_and_not_zero() -> None:
    of = {"region": "r1", "volume_type": "gold"}
    (row,) = rows(
        answers(ProbesBy.TYPE, runs=[Series({**of, "verdict": "kept"}, 2.0)]), ProbesBy.TYPE, SeriesSelection(), NOW
    )
    assert (row.guests, row.broken, row.late, row.postponed) == (None,) * 4
    assert row.kept == 1.0


def test_rows_come_by_the_promises_they_broke_then_by_their_slowest() -> None:
    def of(name: str, value: float, **labels: str) -> Series:
        return Series({"region": "r1", "volume_type": name, **labels}, value)

    told = answers(
        ProbesBy.TYPE,
        runs=[
            of("good", 9.0, verdict="kept"),
            of("slower", 9.0, verdict="kept"),
            of("bad", 1.0, verdict="short"),
            of("nothing", 1.0, verdict="failed"),
        ],
        p99=[of("good", 0.1), of("slower", 0.9)],
    )
    found = [row.labels["volume_type"] for row in rows(told, ProbesBy.TYPE, SeriesSelection(), NOW)]
    assert found == ["bad", "slower", "good", "nothing"]
