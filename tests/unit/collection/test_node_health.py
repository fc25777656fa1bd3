"""What the gate of a rollout lets pass, and what the table of nodes shows."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from plimsoll_probes.health.status import FORMAT_VERSION
from tests.collection import plugin

health = plugin("module_utils.node_health")
table = plugin("filter.node_table")
disks = plugin("filter.disks")

BEGUN = datetime(2026, 11, 20, 14, 0, tzinfo=UTC)


def finding(name: str, level: str, value: float | None = 1, about: str = "", do: str = "") -> dict[str, object]:
    return {"name": name, "level": level, "value": value, "about": about, "do": do}


def status(*findings: dict[str, object], **made: object) -> dict[str, Any]:
    of_pass = {
        "plimsoll": "0.1.1",
        "started": (BEGUN + timedelta(seconds=1)).isoformat(),
        "result": "good",
        "enforcing": True,
        "trouble": None,
        **made,
    }
    return {
        "version": FORMAT_VERSION,
        "level": "ok",
        "complaints": [],
        "findings": list(findings),
        "pass": of_pass,
        "paused": None,
        "disks": {"states": {"in-sync": 3, "changed": 1, "deferred": 2, "failed": 1}},
        "probes": {"newest_runs": {"kept": 4, "short": 1}},
    }


def wrong(told: dict[str, Any] | None, *figures: str, warnings: bool = False) -> list[str]:
    found = health.wrong(told, BEGUN, "0.1.1", health.Tolerance(figures, warnings))
    return [sentence for _, sentence in found]


def test_a_new_pass_without_faults_is_well() -> None:
    assert wrong(status(finding("failed", "ok", 0))) == []


def test_a_pass_from_before_the_rollout_proves_nothing() -> None:
    (said,) = wrong(status(started=(BEGUN - timedelta(seconds=1)).isoformat()))
    assert "before this run" in said
    assert wrong(status(started=BEGUN.isoformat())) == [], "a pass that began at that very moment is none from before"


def test_a_pass_by_another_version_proves_nothing() -> None:
    assert wrong(status(plimsoll="0.1.0")) == ["the last pass was made by plimsoll 0.1.0, not 0.1.1"]


def test_a_node_without_a_pass_or_an_answer_is_not_well() -> None:
    assert wrong(None) == ["plimsoll status does not answer"]
    assert wrong({**status(), "pass": None}) == ["no pass yet"]


def test_a_critical_figure_stops_whatever_is_tolerated() -> None:
    told = status(finding("failed", "critical", 2, "g1 vdb and 1 more", "plimsoll disk list"))
    assert wrong(told, "failed", warnings=True) == ["critical: failed 2 (g1 vdb and 1 more); plimsoll disk list"]


def test_a_warning_stops_unless_it_is_named_or_warnings_pass() -> None:
    told = status(finding("unreachable_guests", "warning"))
    assert wrong(told) == ["warning: unreachable_guests 1"]
    assert wrong(told, "unreachable_guests") == wrong(told, warnings=True) == []
    assert wrong(told, "at_limit") != []


@pytest.mark.parametrize("name", ["failed", "probe_broken", "sources_down", "unlimited"])
def test_what_a_bad_version_would_cause_passes_only_by_its_name(name: str) -> None:
    told = status(finding(name, "warning"), enforcing=True)
    assert wrong(told, warnings=True) == [f"warning: {name} 1"]
    assert wrong(told, name) == []


def test_what_nobody_knows_is_no_warning() -> None:
    told = status(finding("observed_age", "unknown", None))
    assert wrong(told, warnings=True) == ["unknown: observed_age unknown"]


@pytest.mark.parametrize("name", ["behind", "unlimited"])
def test_disks_that_are_not_as_desired_are_a_fault_only_where_the_node_enforces(name: str) -> None:
    assert wrong(status(finding(name, "warning"), enforcing=False)) == []
    assert wrong(status(finding(name, "warning"), enforcing=True)) != []


def test_why_there_was_no_pass_stands_for_what_follows_from_it() -> None:
    told = status(finding("sources_down", "critical", about="libvirt"), trouble="libvirt cannot be reached")
    assert wrong(told) == ["libvirt cannot be reached"]


@pytest.mark.parametrize("name", ["braked", "paused"])
def test_what_only_a_person_ends_is_told_apart_from_what_may_pass(name: str) -> None:
    found = health.wrong(status(finding(name, "warning", 9)), BEGUN, "", health.Tolerance())
    assert {each for each, _ in found} & health.LASTING == {name}


# --- the table


def answer(told: dict[str, Any] | None, version: str = "0.1.1") -> dict[str, Any]:
    return {"__status_node": {"stdout": json.dumps({"version": version, "status": told})}}


def rows(**hostvars: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.node_rows(hostvars, {"r1": ["b", "a"], "r2": ["c"]}, ["r2", "r1"], "abc")
    return found


def test_the_table_is_in_the_order_of_regions_and_has_every_host() -> None:
    assert [(row["host"], row["region"]) for row in rows(a={}, b={}, c={})] == [("c", "r2"), ("b", "r1"), ("a", "r1")]


def test_a_node_that_is_not_reached_has_not_plimsoll_or_no_answer_is_three_things() -> None:
    down = {"__status_node": {"unreachable": True, "msg": "timed\nout"}}
    found = rows(a=down, b=answer(None, ""), c=answer(None))
    assert [row["level"] for row in found] == ["no answer", "absent", "unreachable"]
    assert found[2]["trouble"] == "timed out"


def test_a_row_has_what_the_node_says() -> None:
    told = status(finding("pass_age", "ok", 130), finding("failed", "critical", 1, "g1 vdb"))
    row = rows(a=answer({**told, "level": "critical"}), b={}, c={})[2]
    assert (row["version"], row["mode"], row["pass_age"], row["level"]) == ("0.1.1", "enforce", 130, "critical")
    assert row["disks"] == {"in-sync": 4, "behind": 2, "failed": 1}
    assert row["probes"] == {"runs": 5, "broken": 1}
    assert row["trouble"] == "failed (g1 vdb)"
    head, _, _, line = table.node_table([row, row, row])
    assert [name for name in ("HOST", "REGION", "VERSION", "LAST PASS", "PAUSED", "LEVEL") if name not in head] == []
    assert line.split("  ")[0].strip() == "a"
    assert "2 min ago" in line
    assert "4/2/1" in line
    assert "5/1" in line


def test_what_is_unknown_is_a_dash_and_no_zero() -> None:
    line = table.node_table(rows(a=answer({**status(), "disks": None, "probes": None}), b={}, c={}))[3]
    assert "0/0/0" not in line
    assert " - " in line


@pytest.mark.parametrize(
    ("version", "level", "said"),
    [
        (FORMAT_VERSION - 1, "older", "older version: run plimsoll status there"),
        (FORMAT_VERSION + 1, "newer", "newer version: update plimsoll here to read it"),
    ],
)
def test_a_node_of_another_format_is_skew_and_neither_a_fault_nor_unreachable(
    version: int, level: str, said: str
) -> None:
    told = {"version": version, "level": "critical", "disks": {"states": {"right": 4}}, "words": "of another version"}
    row = rows(a=answer(told), b={}, c={})[2]
    assert (row["level"], row["trouble"], row["version"]) == (level, said, "0.1.1")
    assert "disks" not in row
    assert said in table.node_table([row])[1]


# --- what became of disks


def disk(result: str, **more: object) -> dict[str, Any]:
    limits = {"before": {"total_iops_sec": 500}, "after": {}}
    return {"guest": "g1", "disk": "vdb", "result": result, "reason": {"code": "cluster-unhealthy"}, **limits, **more}


def test_every_disk_of_an_undo_is_listed_and_those_left_have_a_reason() -> None:
    report = {"disks": [disk("changed"), disk("left-alone", reason={"code": "reattached"}), disk("deferred")]}
    assert disks.disk_lines(report) == [
        "g1 vdb: total_iops_sec 500 → unlimited: done",
        "g1 vdb: total_iops_sec 500 → unlimited: left alone (reattached)",
        "g1 vdb: total_iops_sec 500 → unlimited: deferred (cluster-unhealthy)",
    ]
    assert disks.open_disks(report) == disks.disk_lines(report)[2:]


def test_of_a_pass_only_disks_that_change_or_should_have_are_listed() -> None:
    change = {"before": None, "after": {"total_iops_sec": 5}}
    reason = {"code": "timed-out", "detail": "no answer within 5 s"}
    outcomes = [
        disk("in-sync", change=None),
        disk("left-alone", change=None),
        disk("unknown", change=None, reason=reason),
        disk("failed", change=change, reason=reason),
    ]
    assert disks.disk_lines({"outcomes": outcomes}) == [
        "g1 vdb: unknown (timed-out: no answer within 5 s)",
        "g1 vdb: unknown → total_iops_sec 5: failed (timed-out: no answer within 5 s)",
    ]
