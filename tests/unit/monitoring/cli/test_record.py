"""``plimsoll region record``: which files it reads, and how it ends without all of them."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from plimsoll_agent.config import settings as config
from plimsoll_agent.errors import Unreachable
from plimsoll_monitoring.cli.record import RegionRecord
from plimsoll_monitoring.region.answers import Series, TimeSeries
from tests.fakes import raising
from tests.unit.monitoring.region.test_shipped import AT, SAYS, as_json, lines
from tests.unit.person import Person
from tests.unit.values import VOLUME

DAY = ("--since", "2026-11-20", "--until", "2026-11-20T15:00")


class FakePrometheus:
    warnings: tuple[str, ...] = ()

    def __init__(self, values: Sequence[int | None] = ()) -> None:
        self._values = values
        self.asked: list[str] = []

    def now(self) -> float:
        return AT.timestamp() + 3600

    def as_of(self, at: float) -> None:
        self.at = at

    def query(self, promql: str) -> Sequence[Series]:
        return [Series({"region": "r1", "instance": node}, 1.0) for node in ("n1:9100", "n7:9100")]

    def over(self, promql: str, window: int, step: int) -> Sequence[TimeSeries]:
        self.asked.append(promql)
        infos, limits, flags = lines(self._values)
        answers = {"disk_info": infos, "actual_operations_per": limits, "disk_unlimited": flags}
        return next((answer for name, answer in answers.items() if name in promql and self._values), [])


def record(*words: str, prometheus: Any = None, person: Person | None = None) -> tuple[Person, int]:
    person = person or Person()
    if prometheus is None:
        return person, person.types(RegionRecord, *words, settings=config.load([], []))
    words = (*words, "--prometheus", "http://p:9090")
    return person, person.types(RegionRecord, *words, settings=config.load([], []), connect=lambda *_: prometheus)


def test_all_files_of_a_directory_are_read_with_gzip_too_and_journald_s_own_is_refused(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "n1.json").write_text(as_json())
    (tmp_path / "old/n2.json.gz").write_bytes(gzip.compress(as_json(node="n2").encode()))
    (tmp_path / "system.journal").write_bytes(b"LPKSHHRH\0\0")
    (tmp_path / "notes").write_text("nothing of a log")
    person, status = record("--from", str(tmp_path), "--volume", VOLUME, "-f", "json")
    assert [row["node"] for row in json.loads(person.out)] == ["n1", "n2"]
    assert status == 1, "not all could be read"
    assert f"{tmp_path}/system.journal: is journald's own format; give the output of journalctl -o json" in person.err
    assert f"{tmp_path}/notes: no line is of a form that this command reads" in person.err


def test_the_last_entries_are_listed_with_who_and_from_what(tmp_path: Path) -> None:
    file = tmp_path / "n1.json"
    file.write_text(as_json(at=AT - timedelta(minutes=1)) + "\n" + as_json())
    person, status = record("--from", str(file), "--last", "1", *DAY)
    assert status == 0
    assert "2026-11-20 14:02:11" in person.out
    assert "14:01:11" not in person.out
    assert all(word in person.out for word in ("root (ann)", "500 → 3000 IOPS", 'rule "gold"; done', "fields"))
    assert "The last 1 of 2 entries; --last 0 lists all." in person.out
    assert "no log has lines of n1 before 2026-11-20 14:01:11 UTC" in person.err


def test_lines_that_do_not_name_the_volume_are_counted(tmp_path: Path) -> None:
    file = tmp_path / "syslog"
    file.write_text(f"Nov 20 14:02:11 n1 plimsoll: {SAYS}\n")
    person, status = record("--from", str(file), "--volume", VOLUME, *DAY)
    assert (person.out, status) == ("no such entries\n", 0)
    assert "1 line with a time without a zone: read as UTC" in person.err
    assert "1 entry left out, of which the log does not have what you ask for" in person.err


def test_metrics_add_what_no_log_has_and_the_nodes_without_one(tmp_path: Path) -> None:
    file = tmp_path / "n1.json"
    file.write_text(as_json())
    prometheus = FakePrometheus([500, 500, 3000, 9000])
    person, _ = record("--from", str(file), "--volume", VOLUME, *DAY, "-f", "json", prometheus=prometheus)
    assert [(row["source"], row["by"]) for row in json.loads(person.out)] == [
        ("fields", "root (ann)"),
        ("metrics", None),
    ]
    assert f'volume="{VOLUME}"' in prometheus.asked[0]
    assert "no log has lines of n7" in person.err
    person, _ = record("--volume", VOLUME, *DAY, prometheus=prometheus)
    assert "unknown: metrics do not have it" in " ".join(person.out.split())


@pytest.mark.parametrize("words", [(), ("--volume", VOLUME)], ids=["any disk", "a disk that it does not have"])
def test_an_answer_that_is_incomplete_does_not_pass_for_no_entries(words: tuple[str, ...]) -> None:
    prometheus = FakePrometheus()
    prometheus.warnings = ("http://p:9090: the answer is incomplete: store gone",)
    person, status = record(*words, prometheus=prometheus)
    assert (person.out, status) == ("no such entries\n", 1)
    assert "the answer is incomplete: store gone" in person.err


def test_without_prometheus_the_logs_are_listed_all_the_same(tmp_path: Path) -> None:
    file = tmp_path / "n1.json"
    file.write_text(as_json())
    down = SimpleNamespace(query=raising(Unreachable("http://p:9090: connection refused")))
    person, status = record("--from", str(file), prometheus=down)
    assert "root (ann)" in person.out
    assert ("http://p:9090: connection refused" in person.err, status) == (True, 1)
    assert record(prometheus=down)[1] == 1, "then there is nothing to list"


def test_a_command_without_a_source_says_what_to_give(caplog: pytest.LogCaptureFixture) -> None:
    assert record()[1] == 1
    assert "no source: give --from FILE, or set [prometheus] url" in caplog.text
    assert record("--last", "-1")[1] == 64
    assert "--last must be 0 or more" in caplog.text


def test_logs_without_a_line_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory, file = tmp_path / "none", tmp_path / "n1.json"
    directory.mkdir()
    file.touch()
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO()))
    for words in ([str(directory)], [str(file)], ["-"], [str(directory), str(file)]):
        person, status = record("--from", *words)
        assert (person.out, status) == ("no such entries\n", 1)
        assert person.err == f"{', '.join(words)}: no line of a log is there\n"
    (directory / "n2.json").write_text(as_json())
    person, status = record("--from", str(directory), str(file), "-f", "value", "-c", "by")
    assert (person.out, "no line" in person.err, status) == ("root (ann)\n", False, 0), "a log may be empty"


def test_the_standard_input_is_a_file_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(as_json().encode())))
    person, _ = record("--from", "-", "-f", "value", "-c", "by")
    assert person.out == "root (ann)\n"
