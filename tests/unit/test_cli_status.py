"""``plimsoll status``: what it says of a node, where and in which width, and the status that scripts go by."""

from __future__ import annotations

import argparse
import io
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from plimsoll_agent import config, passfile
from plimsoll_agent.config import MetricsSettings, Settings
from plimsoll_agent.disk import Guest
from plimsoll_agent.lastpass import Grade, LastCatalogue, LastPass, Setting, failed
from plimsoll_agent.outcome import Kind
from plimsoll_agent.reason import Code, because
from plimsoll_agent.rules import Probing
from plimsoll_agent.state import State
from plimsoll_probes.chosen import Planned
from plimsoll_probes.cli.status import Status
from plimsoll_probes.finding import Verdict, Why
from plimsoll_probes.history import History
from plimsoll_probes.result import Postponed
from tests.unit.lastpasses import BRONZE, a_last_disk, a_last_pass, a_name, a_varied_pass
from tests.unit.node import uuid_of
from tests.unit.probes import HOSTILE, a_finding, a_probe, a_subject

SHORT = a_finding(Verdict.SHORT, Why.CLUSTER_SHORT, parameter="total_iops_sec", allowed=7500.0, done=2850)
AGENT_SILENT = a_finding(Verdict.FAILED, Why.AGENT_SILENT, detail="no answer")
HOURLY = Probing(timedelta(hours=1))


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Here:
    """A node, and a person at it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.state = State(directory)
        self.history = History(self.state.probes)
        self.now = datetime.now(UTC)
        self.out = ""
        self.stdout: Callable[[], io.StringIO] = io.StringIO

    def passed(self, last: LastPass, ago: timedelta = timedelta(minutes=2)) -> LastPass:
        """That pass, so long ago; all its times are moved with it."""
        by = self.now - ago - last.ended
        moved = {name: at + by for name in ("looked", "last_good") if (at := getattr(last, name)) is not None}
        if last.catalogue is not None and last.catalogue.issued is not None:
            moved["catalogue"] = replace(last.catalogue, issued=last.catalogue.issued + by)
        last = replace(last, started=last.started + by, ended=last.ended + by, **moved)
        passfile.save(self.state, last)
        return last

    def run(self, *words: str) -> int:
        here = self

        class Command(Status):
            """It, with these settings."""

            def settings(self, parsed_args: argparse.Namespace) -> Settings:
                directory = here.directory
                settings = replace(config.load([], []), state_dir=directory, pause_file=directory / "paused")
                return replace(settings, metrics=MetricsSettings(directory, "disk"))

        app: Any = SimpleNamespace(stdout=self.stdout(), stderr=io.StringIO())
        command = Command(app, None)
        status = int(command.run(command.get_parser("plimsoll status").parse_args(words)))
        self.out = app.stdout.getvalue()
        assert app.stderr.getvalue() == ""
        return status

    def told(self, *words: str) -> Any:
        self.run("-f", "json", *words)
        return json.loads(self.out)

    def row(self, name: str) -> str:
        """What the screen says of it, in one line."""
        lines = iter(self.out.splitlines())
        found = next(line for line in lines if line.startswith(f"{name} "))
        for line in lines:
            if not line.startswith("  "):
                break
            found += f" {line.strip()}"
        return " ".join(found.removeprefix(name).split())


@pytest.fixture
def here(tmp_path: Path) -> Here:
    return Here(tmp_path)


def good() -> LastPass:
    return a_last_pass(a_last_disk(), a_last_disk(a_name(2), volume_type=None))


# --- the status that scripts go by


def test_a_node_that_is_well_is_0(here: Here) -> None:
    here.passed(good())
    assert here.run() == 0
    assert here.out.splitlines()[0] == "All is well."


def test_a_warning_is_3(here: Here) -> None:
    here.passed(replace(good(), braked="a1b2c3", braked_disks=3))
    assert here.run() == 3


def test_a_node_without_a_pass_is_1_and_told_what_to_do(here: Here) -> None:
    assert here.run() == 1
    assert here.out.startswith("1 thing is wrong:\nUNKNOWN   no pass over this node yet; run plimsoll plan")


def test_no_pass_for_an_hour_is_critical_whatever_the_last_one_was(here: Here) -> None:
    here.passed(good(), ago=timedelta(hours=1))
    assert here.run() == 3
    assert here.out.splitlines()[1].startswith("CRITICAL  no pass over all guests for 1 h")


@pytest.mark.parametrize("name", ["pass.json", "probes.sqlite"])
def test_what_cannot_be_read_is_1_and_the_rest_is_shown(here: Here, name: str) -> None:
    here.passed(good())
    here.history.add(a_probe(started=here.now - timedelta(hours=1)))
    (here.directory / name).write_bytes(b"{" * 5000)
    assert here.run() == 1
    complaint = "".join(here.out.split())  # a long path is broken in its middle
    assert f"UNKNOWN{here.directory}/{name}:" in complaint
    assert ("1 kept" in here.row("probes")) is (name == "pass.json")
    assert ("last good" in here.out) is (name != "pass.json")


def test_a_file_that_cannot_be_read_is_not_called_a_node_without_a_pass(here: Here) -> None:
    here.state.last_pass.write_bytes(b"{")
    here.run()
    assert "no pass over this node yet" not in here.out
    assert here.row("last pass") == "not known"
    assert "the next pass over all guests begins it anew" in " ".join(here.out.split())


def test_a_state_directory_that_is_not_there_is_no_traceback(tmp_path: Path) -> None:
    assert Here(tmp_path / "none").run() == 1


# --- what is wrong


def test_the_worst_stands_first_with_what_to_do(here: Here) -> None:
    here.passed(a_varied_pass())
    here.run()
    head, *wrong = here.out.split("\n\n")[0].splitlines()
    levels = [line.split()[0] for line in wrong if not line.startswith(" ")]
    assert levels == sorted(levels), "CRITICAL before WARNING"
    assert head == f"{len(levels)} things are wrong:"
    assert "CRITICAL  change failed: instance-00000003 vdb; plimsoll disk list" in wrong


def test_a_promise_that_is_broken_stands_before_a_file_that_cannot_be_read(here: Here) -> None:
    here.state.last_pass.write_bytes(b"{")
    here.history.add(a_probe(started=here.now - timedelta(hours=1), finding=SHORT))
    assert here.run() == 1
    assert [line.split()[0] for line in here.out.splitlines()[1:] if line[:1].isupper()][:2] == [
        "CRITICAL",
        "UNKNOWN",
    ]


def test_what_two_measures_say_alike_is_said_once(here: Here) -> None:
    here.run()
    assert here.out.count("no pass over this node yet") == 1


def test_a_broken_promise_and_a_failed_probe_are_told(here: Here) -> None:
    here.passed(good())
    here.history.add(a_probe(started=here.now - timedelta(hours=1), finding=SHORT))
    other = a_subject(guest_uuid=uuid_of(2), guest_name="instance-00000002")
    here.history.add(
        a_probe(started=here.now - timedelta(hours=1), subject=other, measured=None, finding=AGENT_SILENT)
    )
    assert here.run() == 3
    said = " ".join(here.out.split())
    assert "CRITICAL promise broken: instance-00000001 (canary) read: short: 38 % of total_iops_sec 250" in said
    assert "WARNING probe failed: instance-00000002" in said
    assert here.row("probes").startswith("none chosen; newest runs: 1 short, 1 failed; the last one 59 min")


def test_a_probe_that_was_due_twice_and_put_off_is_late(here: Here) -> None:
    here.passed(good())
    target = Planned(Guest(uuid_of(3), "instance-00000003", "1"), "/var/tmp", node="node1", probing=HOURLY)
    here.history.chosen([target], here.now - timedelta(hours=3))
    waits = {"guest_uuid": uuid_of(3), "guest_name": "instance-00000003", "directory": "/var/tmp"}
    here.history.postpone(Postponed(**waits, at=here.now, node="node1", why=Why.UNHEALTHY, facts={"detail": "x"}))
    assert here.run() == 3
    assert here.row("probes") == "1 chosen; none was probed yet; 1 late; 1 put off"


def test_a_measure_that_the_settings_do_not_watch_is_not_wrong(here: Here) -> None:
    wall = a_last_disk(shares={"total_iops_sec": 1.0}, kind=Kind.RIGHT)
    here.passed(a_last_pass(wall, interval=300.0))
    assert here.run() == 0
    assert here.row("limits").endswith("1 at the wall in the last 5 min")


# --- the screen


def test_a_pass_that_failed_says_why_and_how_old_the_rest_is(here: Here) -> None:
    last = here.passed(good(), ago=timedelta(minutes=6))
    ended = here.now - timedelta(minutes=1)
    setting = Setting(version="1.2.3", boot="b1", enforcing=True, ended=ended)
    passfile.save(here.state, failed(last, "qemu:///system: no such socket", "libvirt", ended, setting))
    assert here.run() == 3
    assert here.row("last pass") == "1 min ago: FAILED, mode enforce"
    assert here.row("remarks") == "qemu:///system: no such socket"
    assert here.row("sources") == "NO good answer of libvirt"
    assert here.row("disks") == "2: 2 right; as they were 6 min 2 s ago"


def test_the_rows_say_what_the_pass_came_to(here: Here) -> None:
    here.passed(a_varied_pass())
    here.run()
    assert here.row("last pass") == "2 min ago: left something undone, took 1.7 s, mode enforce"
    assert here.row("last good") == "12 min ago"
    assert here.row("passes") == "10 good, 2 partial, 0 failed so far; 4 found the node held by another one"
    assert here.row("catalogue") == "from openstack, 17 min ago; 20 refreshes, 1 failed"
    assert here.row("guests") == "3 looked at, 1 silent"
    assert here.row("disks") == "4: 1 right, 1 changed, 1 not known, 1 failed"
    assert here.row("limits").startswith("1 disk without one though one is wanted, 0 at the wall in the last 5 min")
    assert here.row("brake") == "3 disks waiting for plimsoll approve a1b2c3"
    assert here.row("holds").startswith("1 exception of operators")
    assert "disk full" in here.row("remarks")


def test_orphaned_limits_are_counted(here: Here) -> None:
    here.passed(a_last_pass(a_last_disk(kind=Kind.LEFT_ALONE, reason=because(Code.ORPHANED, type="gold"))))
    here.run()
    assert ", 1 orphaned (see: plimsoll plan)" in here.row("limits")


def test_types_stand_below_with_a_column_for_each_state_that_there_is(here: Here) -> None:
    here.passed(a_varied_pass())
    here.run()
    table = here.out.split("\n\n")[2].splitlines()
    assert table[0].split("  ")[0] == "TYPE"
    columns = "TYPE DISKS RIGHT CHANGED NOT KNOWN FAILED UNLIMITED AT WALL IOPS BYTES/S"
    assert " ".join(table[0].split()) == columns
    assert [row.split()[0] for row in table[1:]] == ["-", "bronze", "gold"]
    assert table[1].split()[-3:] == ["-", "-", "-"], "of what nobody has read nothing is known, and no zero"
    assert table[2].split()[-4:] == ["0", "0", "0", "B"]


def test_a_pause_is_told_as_it_is_now_though_the_last_pass_met_none(here: Here) -> None:
    here.passed(good())
    (here.directory / "paused").write_text("rack 2 is moved")
    here.run()
    assert here.row("paused").endswith("paused: rack 2 is moved")
    (here.directory / "paused").unlink()
    here.passed(replace(good(), paused=because(Code.PAUSED, file="x", why="y")))
    here.run()
    assert here.row("paused") == "no longer, but the last pass was"


def test_files_are_told_with_their_age_and_those_of_metrics_too(here: Here) -> None:
    here.passed(good())
    (here.directory / "plimsoll-pass.prom").write_text("")
    here.run()
    assert [part.split()[0] for part in here.row("files").split(", ")] == ["pass.json", "plimsoll-pass.prom"]


def test_a_catalogue_that_does_not_count_is_not_given_an_age(here: Here) -> None:
    here.passed(replace(good(), catalogue=LastCatalogue(None, "", 7200), sources={"catalogue": False}))
    assert here.run() == 3
    assert here.row("catalogue") == "none that counts"
    assert "CRITICAL  no good answer of: catalogue" in here.out


# --- how it looks


def test_no_line_is_longer_than_100_columns_where_it_can_be_broken(here: Here) -> None:
    here.passed(replace(a_varied_pass(), trouble="word " * 60))
    here.run()
    assert max(map(len, here.out.splitlines())) <= 100


def test_without_a_terminal_there_is_no_colour(here: Here) -> None:
    here.passed(a_varied_pass())
    here.run()
    assert "\x1b" not in here.out


@pytest.mark.parametrize(
    ("name", "value", "coloured"), [("TERM", "xterm", True), ("TERM", "dumb", False), ("NO_COLOR", "1", False)]
)
def test_a_terminal_has_colour_unless_somebody_wants_none(
    here: Here, monkeypatch: pytest.MonkeyPatch, name: str, value: str, coloured: bool
) -> None:
    for variable in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv(name, value)
    here.passed(a_varied_pass())
    here.stdout = _Terminal
    here.run()
    assert ("\x1b[1;31mCRITICAL\x1b[0m  " in here.out) is coloured
    assert "CRITICAL" in here.out, "colour is never the only one to say it"


def test_a_narrow_terminal_has_lines_of_its_own_width(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "72")
    monkeypatch.setenv("TERM", "dumb")
    here.passed(a_varied_pass())
    here.stdout = _Terminal
    here.run()
    facts = here.out.split("\n\n")[1]
    assert max(map(len, facts.splitlines())) <= 72


def test_what_guests_and_types_are_called_cannot_command_a_terminal(here: Here) -> None:
    disk = a_last_disk(
        a_name(1, HOSTILE, guest_name=HOSTILE), volume_type=HOSTILE, kind=Kind.FAILED, in_force=None, wanted=BRONZE
    )
    last = replace(a_last_pass(disk), trouble=HOSTILE, version=HOSTILE, sources={HOSTILE: False}, braked=HOSTILE)
    here.passed(replace(last, braked_disks=1, catalogue=LastCatalogue(last.ended, HOSTILE, 7200)))
    here.history.add(a_probe(started=here.now, subject=a_subject(display_name=HOSTILE, guest_name=HOSTILE)))
    here.run()
    assert [line for line in here.out.split("\n") if not line.isprintable()] == []


# --- for programs


def test_as_json_it_says_the_same_and_unknown_is_null(here: Here) -> None:
    here.passed(a_varied_pass())
    told = here.told()
    assert (told["version"], told["level"], told["complaints"]) == (1, "critical", [])
    assert [each["name"] for each in told["findings"] if each["level"] == "critical"] == ["sources_down", "failed"]
    assert told["disks"]["states"]["not-known"] == 1
    assert [each["volume_type"] for each in told["disks"]["by_type"]] == [None, "bronze", "gold"]
    assert told["guests"]["silent"][0]["guest_uuid"] == uuid_of(4)
    assert told["pass"]["result"] == Grade.PARTIAL
    assert told["paused"] is None, "there is no pause file now"
    assert told["sources"] == {"libvirt": True, "rules": False, "record": True, "catalogue": True}


def test_as_json_a_node_without_a_pass_knows_nothing_rather_than_zeros(here: Here) -> None:
    told = here.told()
    assert [told[name] for name in ("pass", "sources", "guests", "disks", "holds", "catalogue")] == [None] * 6
    assert told["level"] == "unknown"


def test_one_value_can_be_asked_for(here: Here) -> None:
    here.passed(good())
    here.run("-f", "json", "-c", "level")
    assert json.loads(here.out) == {"level": "ok"}
    here.run("-c", "disks")
    assert here.out.split() == ["disks", "2:", "2", "right"]


@pytest.mark.parametrize("form", ["yaml", "csv"])
def test_the_other_forms_have_all_of_it_too(here: Here, form: str) -> None:
    here.passed(a_varied_pass())
    assert here.run("-f", form) == 3
    assert "change failed" not in here.out
    for name in ("findings", "by_type", "lock_busy", "newest_runs"):
        assert name in here.out
