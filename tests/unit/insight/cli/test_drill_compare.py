"""``plimsoll drill compare`` and ``report``: what a recording does not know is unknown, not nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from plimsoll_insight.cli.drill_compare import DrillCompare
from plimsoll_insight.cli.drill_report import DrillReport
from tests import schemas
from tests.unit.insight.drill.recorded import Second, drill, write
from tests.unit.person import Person


@pytest.fixture
def person() -> Person:
    return Person()


def test_an_incident_without_the_cluster_has_no_costs(person: Person, tmp_path: Path) -> None:
    write(tmp_path / "drill", [(rate, None) for rate, _ in drill()[:28]], end=False)
    assert person.types(DrillCompare, str(tmp_path / "drill"), "-f", "json") == 0
    schemas.hold("drill compare", person.out, "json")
    [row] = json.loads(person.out)
    assert (row["peering"], row["degraded"], row["stalls"]) == (None, None, 1)
    assert row["unknown"] == row["outage_seconds"] == 8
    person.types(DrillReport, str(tmp_path / "drill"))
    assert "impact score  unknown\n" in person.out
    assert "degraded      unknown\n" in person.out
    person.types(DrillReport, str(tmp_path / "drill"), "-f", "json")
    schemas.hold("drill report", person.out, "json")
    [incident] = json.loads(person.out)["incidents"]
    assert (incident["peering_pg_seconds"], incident["peering_pg_seconds_range"]) == (None, None)


def test_where_no_disk_was_watched_stalls_are_unknown(person: Person, tmp_path: Path) -> None:
    write(tmp_path / "drill", drill(), disks=0)
    person.types(DrillCompare, str(tmp_path / "drill"), "-f", "json")
    schemas.hold("drill compare", person.out, "json")
    [row] = json.loads(person.out)
    assert (row["stalls"], row["stalled"], row["peering"]) == (None, None, 64)
    assert person.types(DrillCompare, str(tmp_path / "drill"), "-c", "stalls", "-c", "stalled", "-f", "value") == 0


def test_a_recording_in_which_no_failure_would_be_seen_is_not_told_as_one_without(
    person: Person, tmp_path: Path
) -> None:
    seconds: list[Second] = [(rate, None) for rate, _ in drill(normal=3)[:15]]
    write(tmp_path / "drill", seconds, end=False)
    assert person.types(DrillCompare, str(tmp_path / "drill")) == 0
    assert "unknown whether anything failed" in person.err
    assert person.out == "Nothing is known to have failed in these recordings.\n"
    person.types(DrillReport, str(tmp_path / "drill"))
    assert "incidents  unknown\n" in person.out
    person.types(DrillReport, str(tmp_path / "drill"), "-f", "json")
    schemas.hold("drill report", person.out, "json")
    assert json.loads(person.out)["incidents"] is None
