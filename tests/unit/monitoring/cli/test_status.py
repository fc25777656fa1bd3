"""``plimsoll status``: what it says of a node, where and in which width, and the status that scripts go by."""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from plimsoll_agent.app.node_setup import node_setup
from plimsoll_agent.config import settings as config
from plimsoll_agent.config.settings import ConsoleSettings, MetricsSettings, Settings
from plimsoll_agent.consoles import file as consoles_file
from plimsoll_agent.model.approvals import Approval
from plimsoll_agent.model.disk import Guest
from plimsoll_agent.model.hypervisor import GuestRef
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, Reason, because
from plimsoll_agent.monitor import daemon_status, pass_summary_file
from plimsoll_agent.monitor.pass_summary import TO_PROBE, LastCatalogue, LastDisk, LastPass, PassSetting, failed
from plimsoll_agent.monitor.thresholds import Thresholds
from plimsoll_agent.reconcile.grade import Grade
from plimsoll_agent.reconcile.outcome import Kind, Mode, UnreachableGuest
from plimsoll_agent.rules.model import Probing
from plimsoll_agent.store.state import Given, State
from plimsoll_agent.util.frozen import replace
from plimsoll_monitoring.cli.status import Status
from plimsoll_probes.model.finding import Verdict, Why
from plimsoll_probes.model.job import JobName
from plimsoll_probes.model.result import Postponed
from plimsoll_probes.schedule.targets import PlannedTarget
from plimsoll_probes.store.history import History
from tests import golden
from tests.unit.consolevalues import some_consoles
from tests.unit.daemonstatus import FULL
from tests.unit.lastpasses import BRONZE, UNTOUCHED, a_last_disk, a_last_pass, a_name, a_varied_pass
from tests.unit.node import FSID, uuid_of
from tests.unit.person import Person, Terminal
from tests.unit.results import HOSTILE, a_finding, a_probe, a_subject
from tests.unit.values import NOON
from tests.unit.widths import WIDTHS, misfits

SHORT = a_finding(Verdict.SHORT, Why.CLUSTER_SHORT, parameter="total_iops_sec", allowed=7500.0, done=2850)
AGENT_TIMED_OUT = a_finding(Verdict.FAILED, Why.AGENT_TIMED_OUT, detail="no answer")
HOURLY = Probing(timedelta(hours=1))


class Here(Person):
    """A node, and a person at it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.state = State(directory)
        self.history = History(self.state.probes)
        self.now = datetime.now(UTC)
        self.stdout: Callable[[], io.StringIO] = io.StringIO
        self.mode = "enforce"
        self.source = "none"
        self.reads_consoles = False
        self.health: dict[str, Thresholds] = {}

    def passed(self, last: LastPass, ago: timedelta = timedelta(minutes=2)) -> LastPass:
        """That pass, so long ago; all its times are moved with it."""
        by = self.now - ago - last.ended
        moved = {name: at + by for name in ("looked", "last_good") if (at := getattr(last, name)) is not None}
        if last.catalogue is not None and last.catalogue.issued is not None:
            moved["catalogue"] = replace(last.catalogue, issued=last.catalogue.issued + by)
        last = replace(last, started=last.started + by, ended=last.ended + by, **moved)
        pass_summary_file.save(self.state, last)
        return last

    def settings(self) -> Settings:
        directory = self.directory
        settings = replace(config.load([], []), mode=self.mode, state_dir=directory, pause_file=directory / "paused")
        catalogue = replace(settings.catalogue, source=self.source)
        settings = replace(settings, metrics=MetricsSettings(directory, "disk"), catalogue=catalogue)
        health = {**settings.health, **self.health}
        return replace(settings, consoles=ConsoleSettings(self.reads_consoles), health=health)

    def run(self, *words: str) -> int:
        status = self.types(Status, *words, settings=self.settings(), stdout=self.stdout())
        assert self.err == ""
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

    def problems(self) -> dict[str, str]:
        """Each with the command to run next."""
        told: dict[str, str] = {}
        for line in self.out.split("\n\n")[0].splitlines():
            if line.lstrip().startswith("next: "):
                told[[*told][-1]] = line.split("next: ")[1]
            else:
                told[line] = ""
        return {" ".join(line.split(maxsplit=1)).replace(" ", "  ", 1): do for line, do in told.items()}


@pytest.fixture
def here(tmp_path: Path) -> Here:
    return Here(tmp_path)


def good() -> LastPass:
    return a_last_pass(a_last_disk(), a_last_disk(a_name(2), volume_type=None))


# --- what it says of nodes

APPROVED = "a1" * 32
REJECTED = because(Code.REJECTED, detail="no")
HUNG = UnreachableGuest(GuestRef(uuid_of(7), "instance-00000007"), UNTOUCHED)
SILENT = because(Code.GUEST_TIMED_OUT)
FREE = a_last_disk(kind=Kind.FAILED, reason=REJECTED, actual=Limits(), desired=BRONZE)
Prepare = Callable[[Here], object]


def deferred(reason: Reason, number: int = 1, **other: Any) -> LastDisk:
    return a_last_disk(a_name(number), kind=Kind.DEFERRED, reason=reason, **other)


def unknown(reason: Reason, number: int = 1, **other: Any) -> LastDisk:
    return a_last_disk(a_name(number), kind=Kind.UNKNOWN, reason=reason, **other)


def a_braked_pass(*others: LastDisk) -> LastPass:
    """The brake defers two disks, and stops ``others``."""
    why = because(Code.BRAKED, revision=APPROVED, disks=2, of=2)
    disks = [deferred(why, number) for number in (1, 2)]
    return a_last_pass(*disks, *others, braked=APPROVED, braked_disks=2 + len(others))


def a_pass(*disks: LastDisk, **other: Any) -> Prepare:
    return lambda here: here.passed(a_last_pass(*disks, **other))


def a_good_pass(**other: Any) -> Prepare:
    return lambda here: here.passed(replace(good(), **other))


def after(last: Callable[[], LastPass], change: Prepare) -> Prepare:
    return lambda here: (here.passed(last()), change(here))


def approved(*given: tuple[str, bool, str], mode: str = "enforce", paused: bool = False) -> Prepare:
    def change(here: Here) -> None:
        here.mode = mode
        here.state.save_approvals([Given(Approval(of, remove=remove), by, here.now) for of, remove, by in given])
        if paused:
            (here.directory / "paused").touch()

    return after(a_braked_pass, change)


def set_mode(mode: str) -> Prepare:
    return lambda here: setattr(here, "mode", mode)


def braked_with_others(here: Here) -> None:
    held = because(Code.HOLD, why="import", by="ann", until=(here.now + timedelta(hours=1)).isoformat())
    before = because(Code.DESIRED_BEFORE, revision=APPROVED)
    here.passed(a_braked_pass(a_last_disk(a_name(3), reason=before), a_last_disk(a_name(4), reason=held)))


def not_fetched(here: Here) -> None:
    here.source = "openstack"
    reason = because(Code.VOLUME_NOT_FETCHED, since=here.now.isoformat())
    here.passed(a_last_pass(unknown(reason, server="db", since=here.now), a_last_disk(a_name(2))))


def hung_and_paused(here: Here) -> None:
    (here.directory / "paused").touch()
    paused = because(Code.PAUSED, file=str(here.directory / "paused"), why="y")
    disks = (unknown(SILENT, 7), unknown(SILENT, 8), deferred(paused), deferred(because(Code.MIGRATING), 2))
    here.passed(a_last_pass(*disks, unreachable=(HUNG,)))


def unknown_is_critical(here: Here) -> None:
    here.health = {"unknown": Thresholds("", "0")}
    here.passed(a_last_pass(unknown(SILENT, 7), unreachable=(HUNG,)))


def deferred_for_five_reasons(here: Here) -> None:
    codes = [Code.MIGRATING, Code.INCOMING, Code.CHANGED_SINCE, Code.NOT_APPROVED, Code.PAUSED]
    reasons = [because(code, file="/x", why="y") for code in codes for _ in range(5 - codes.index(code))]
    here.passed(a_last_pass(*(deferred(each, number) for number, each in enumerate(reasons, 1))))


def paused_since(here: Here) -> None:
    (here.directory / "paused").write_text("rack 2 is moved\n(by ann, 2026-11-20 14:02 UTC)")


def probes_short_and_failed(here: Here) -> None:
    at = here.now - timedelta(hours=1)
    other = a_subject(guest_uuid=uuid_of(2), guest_name="instance-00000002")
    here.history.add(a_probe(started=at, finding=SHORT))
    here.history.add(a_probe(started=at, subject=other, measured=None, finding=AGENT_TIMED_OUT))


def probe_due_twice_and_postponed(here: Here) -> None:
    guest = Guest(uuid=uuid_of(3), name="instance-00000003", run="1")
    here.history.chosen(
        [PlannedTarget(guest, "/var/tmp", None, node="node1", probing=HOURLY)], here.now - timedelta(hours=3)
    )
    waits = {"guest_uuid": uuid_of(3), "guest_name": "instance-00000003", "directory": "/var/tmp"}
    here.history.postpone(Postponed(**waits, at=here.now, node="node1", why=Why.UNHEALTHY, facts={"detail": "x"}))


def failed_pass(here: Here) -> None:
    last = here.passed(good(), ago=timedelta(minutes=6))
    ended = here.now - timedelta(minutes=1)
    setting = PassSetting(version="1.2.3", boot="b1", ended=ended)
    why = "qemu:///system: no such socket"
    pass_summary_file.save(here.state, failed(last, Mode.ENFORCE, why, "libvirt", ended, setting))


def not_probed(here: Here) -> None:
    here.passed(replace(good(), guests_to_probe=2, wrong_since={TO_PROBE: here.now - timedelta(hours=3)}))


def a_daemon(**other: Any) -> Prepare:
    def change(here: Here) -> None:
        ago = other.pop("ago", timedelta(0))
        daemon_status.save(here.state, replace(FULL, written=here.now - ago, **other))

    return after(good, change)


def consoles(here: Here) -> None:
    consoles_file.save(here.state, some_consoles())
    here.reads_consoles = True


NODES: dict[str, tuple[Prepare, tuple[str, ...]]] = {
    name: prepare if isinstance(prepare, tuple) else (prepare, ())
    for name, prepare in {
        "well": a_good_pass(),
        "a warning": a_good_pass(braked="a1b2c3", braked_disks=3),
        "no pass yet": lambda here: None,
        "no pass for hours, and the last one was good": lambda here: here.passed(good(), ago=timedelta(hours=5)),
        "something of everything": lambda here: here.passed(a_varied_pass()),
        "with --all": (
            after(a_varied_pass, lambda here: (here.directory / "plimsoll-pass.prom").write_text("")),
            ("--all",),
        ),
        "the worst stands first": lambda here: here.passed(a_varied_pass(), ago=timedelta(hours=5)),
        "desired limits of a disk are unknown": not_fetched,
        "a disk lost its limits while the desired ones are unknown": a_pass(
            unknown(because(Code.CATALOGUE_EXPIRED, detail="x"), actual=Limits(), desired=BRONZE)
        ),
        "unlimited, and the change failed: told once": a_pass(FREE),
        "and one that failed only": a_pass(FREE, a_last_disk(a_name(2), kind=Kind.FAILED, reason=REJECTED)),
        "the brake, and disks that it stops and does not defer": braked_with_others,
        "the brake, and one by its own digest: told once": lambda here: here.passed(
            a_braked_pass(deferred(because(Code.LARGE_CHANGE, digest="b2" * 32, percent=1.0), 3))
        ),
        "approved since": approved((APPROVED, True, "ann")),
        "approved since, in mode observe": approved((APPROVED, True, "ann"), mode="observe"),
        "approved since, on a paused node": approved((APPROVED, True, "ann"), paused=True),
        "approved without removals": approved((APPROVED, False, "ann")),
        "approved without and with removals": approved((APPROVED, False, "ann"), (APPROVED, True, "bob")),
        "another revision is approved": approved(("b2" * 32, False, "ann")),
        "a hung guest is one problem with its disks, and a pause is one": hung_and_paused,
        "what has a cause keeps its level": unknown_is_critical,
        "no good pass, after what prevents it": a_pass(
            a_last_disk(kind=Kind.FAILED, reason=REJECTED), grade=Grade.PARTIAL, last_good=None
        ),
        "no good pass, and a source is down: one fault is one problem": a_good_pass(
            grade=Grade.PARTIAL,
            last_good=None,
            sources={"libvirt": True, "rules": False, "record": True},
            trouble="rules.yaml:3: no",
        ),
        "no good pass, the last was partial": a_good_pass(grade=Grade.PARTIAL, last_good=None),
        "no good pass, the last failed": a_good_pass(grade=Grade.FAILED, last_good=None),
        "deferred for five reasons, the most frequent first": deferred_for_five_reasons,
        "paused since the last pass": after(good, paused_since),
        "a pause that is over": a_good_pass(paused=because(Code.PAUSED, file="x", why="y")),
        "a broken promise, and a failed probe": after(good, probes_short_and_failed),
        "a probe that was due twice, and postponed": after(good, probe_due_twice_and_postponed),
        "guests that a rule chooses, and nothing probes": not_probed,
        "at limit, which the settings do not watch": a_pass(
            a_last_disk(shares={"total_iops_sec": 1.0}, kind=Kind.IN_SYNC), interval=300.0
        ),
        "a pass that failed": failed_pass,
        "a healthy cluster": a_pass(a_last_disk(), healthy=frozenset({FSID})),
        "a cluster that is unhealthy": a_pass(
            deferred(because(Code.CLUSTER_UNHEALTHY, cluster=FSID, checks="OSD_DOWN (2 of 90 OSDs), SLOW_OPS"))
        ),
        "a cluster that does not answer": a_pass(
            deferred(because(Code.CLUSTER_UNREACHABLE, cluster=FSID, detail="no answer from ceph within 10 s"))
        ),
        "an unknown cluster": a_pass(deferred(because(Code.CLUSTER_UNKNOWN, monitors="10.0.0.1:6789"))),
        "mode observe of the last pass": a_pass(a_last_disk(kind=Kind.PLANNED, actual=Limits()), enforcing=False),
        "mode observe of the settings too": after(
            lambda: a_last_pass(a_last_disk(kind=Kind.PLANNED, actual=Limits()), enforcing=False), set_mode("observe")
        ),
        "a mode that was given by hand for one pass": after(good, set_mode("observe")),
        "orphaned limits": a_pass(a_last_disk(kind=Kind.LEFT_ALONE, reason=because(Code.ORPHANED, type="gold"))),
        "no usable catalogue": a_good_pass(catalogue=LastCatalogue(None, "", 7200), sources={"catalogue": False}),
        "a daemon that set a guest aside": a_daemon(reloaded=True),
        "a daemon that was killed": a_daemon(ago=timedelta(minutes=3)),
        "a daemon without events, and with earlier settings": a_daemon(
            connected_since=None, disconnected="libvirt at qemu:///system: no answer"
        ),
        "consoles, of which one cannot be read": after(good, consoles),
    }.items()
}


def screen_of(here: Here, words: tuple[str, ...], usual: Sequence[str] = ()) -> str:
    """Its status, problems, and the figures behind them; of the rows those that a good node does not have."""
    status = here.run(*words)
    problems, rows, *table = here.out.replace(str(here.directory), "STATE").split("\n\n")
    figures = " ".join(each["figure"] or "-" for each in here.told(*words)["problems"])
    shown = [line for line in rows.splitlines() if line not in usual]
    return "\n".join([f"exit status {status}: {figures}", problems, "", *shown, *table])


def test_each_node_is_shown_as_in_the_golden_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at = NOON + timedelta(hours=2)
    monkeypatch.setattr("plimsoll_monitoring.cli.status.now", lambda: at)
    screens, usual = dict[str, str](), list[str]()
    for number, (name, (prepare, words)) in enumerate(NODES.items()):
        here = Here(tmp_path / f"{number:02}")
        here.directory.mkdir()
        here.now = at
        prepare(here)
        for file in here.directory.iterdir():
            os.utime(file, (at.timestamp(), at.timestamp()))
        screens[name] = screen_of(here, words, usual)
        usual = usual or [line for line in screens[name].splitlines()[2:] if not line.startswith("passes")]
    golden.check("node_status.txt", __file__, screens)


# --- files that cannot be read


@pytest.mark.parametrize("name", ["pass.json", "probes.sqlite"])
def test_what_cannot_be_read_is_1_and_the_rest_is_shown(here: Here, name: str) -> None:
    here.passed(good())
    here.history.add(a_probe(started=here.now - timedelta(hours=1)))
    (here.directory / name).write_bytes(b"{" * 5000)
    assert here.run() == 1
    assert here.out.startswith(f"UNKNOWN  {here.directory}/{name}:")
    assert "next: plimsoll state check" in here.out
    assert ("1 kept" in here.row("probes")) is (name == "pass.json")
    assert ("good, " in here.out) is (name != "pass.json")


def test_a_state_directory_without_room_is_no_green_light(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file of the last pass may be from before the disk was full."""
    here.passed(good())
    monkeypatch.setattr("plimsoll_agent.util.files.no_room", lambda directory: "No space left on device")
    assert here.run() == 1
    ((said, do),) = here.problems().items()
    assert "No space left on device: what passes find now is not saved" in said
    assert do == f"df -h {here.directory}"


def test_a_file_that_cannot_be_read_is_not_called_a_node_without_a_pass(here: Here) -> None:
    here.state.last_pass.write_bytes(b"{")
    here.run()
    assert "no pass over" not in here.out
    assert here.row("passes") == "unknown"
    assert "the next pass writes it again" in " ".join(here.out.split())


def test_a_state_directory_that_is_not_there_is_no_traceback(tmp_path: Path) -> None:
    assert Here(tmp_path / "none").run() == 1


# --- what is wrong


def test_a_file_that_cannot_be_read_stands_before_a_promise_that_is_broken(here: Here) -> None:
    here.state.last_pass.write_bytes(b"{")
    here.history.add(a_probe(started=here.now - timedelta(hours=1), finding=SHORT))
    assert here.run() == 1
    assert [line.split()[0] for line in here.problems()] == ["UNKNOWN", "WARNING"]


def test_an_unreachable_guest_has_its_servers_name_where_a_pass_knew_it(here: Here) -> None:
    guests = (UnreachableGuest(GuestRef(uuid_of(7), "instance-00000007"), UNTOUCHED),)
    here.passed(replace(a_last_pass(), unreachable=guests, servers={uuid_of(7): "db"}))
    here.run()
    assert any("1 guest unreachable: instance-00000007 (db): " in line for line in here.problems())
    assert here.told()["guests"]["unreachable"][0]["server"] == "db"


def test_probes_of_a_guest_with_the_same_verdict_are_one_problem(here: Here) -> None:
    for job in (JobName.READ, JobName.WRITE, JobName.MIXED):
        here.history.add(a_probe(job=job, started=here.now - timedelta(hours=1), finding=AGENT_TIMED_OUT))
    here.run()
    (line,) = [line for line in here.problems() if "probe failed" in line]
    (jobs,) = re.findall(r"instance-00000001 \(canary\) ([a-z, ]+): ", line)
    assert sorted(jobs.split(", ")) == ["mixed", "read", "write"]


def test_what_was_missed_while_the_node_was_off_is_not_overdue(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    here.passed(a_last_pass())
    probe_due_twice_and_postponed(here)
    assert (here.run(), "overdue" in here.out) == (3, True)
    monkeypatch.setattr("plimsoll_agent.store.clock.uptime", lambda: 300.0)
    assert (here.run(), "overdue" in here.out) == (0, False)


def test_without_root_commands_begin_with_sudo(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    here.passed(replace(good(), braked="a1b2c3", braked_disks=3))
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    here.run()
    assert [*here.problems().values()] == ["sudo plimsoll plan"]


# --- how it looks


def a_node_of(number: int) -> LastPass:
    """Guests with the longest names that Nova makes, every third disk in trouble."""
    kinds = (Kind.IN_SYNC, Kind.IN_SYNC, Kind.FAILED)
    disks = [
        a_last_disk(
            a_name(at),
            kind=kinds[at % 3],
            reason=because(Code.REJECTED, detail=f"no {at}"),
            server=f"web-{at} of the shop",
        )
        for at in range(1, number + 1)
    ]
    return a_last_pass(*disks, catalogue=LastCatalogue(NOON - timedelta(hours=3), "region-file", 7200))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("number", [1, 50, 500])
def test_rows_are_broken_between_words_to_fit_the_terminal(
    here: Here, monkeypatch: pytest.MonkeyPatch, width: int, number: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr("plimsoll_monitoring.cli.status.now", lambda: here.now)  # both runs tell the same ages
    here.passed(replace(a_node_of(number), trouble="word " * 60))
    here.stdout = Terminal
    here.run()
    wide = here.out
    here.stdout = io.StringIO
    here.run()
    assert misfits(wide, here.out, width) == []
    assert wide.split() == here.out.split(), "no word is broken, and none is left out"
    assert len(wide.splitlines()) <= 24, "a screen"


def test_a_width_that_is_asked_for_is_that_of_facts_too(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plimsoll_monitoring.cli.status.now", lambda: here.now)  # both runs tell the same ages
    here.passed(a_node_of(500))
    here.run()
    pipe = here.out
    here.run("--max-width", "60")
    facts = here.out.split("\n\n")[1]
    assert misfits(facts, pipe, 60) == []
    assert len(facts.splitlines()) > len(pipe.split("\n\n")[1].splitlines())


def test_in_a_pipe_a_problem_is_one_line(here: Here) -> None:
    here.passed(replace(a_varied_pass(), trouble="word " * 60))
    here.run()
    assert "\x1b" not in here.out
    assert any(line.startswith("WARNING") and line.count("word") == 60 for line in here.out.splitlines())


def test_a_terminal_shows_levels_in_colour(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    here.passed(a_varied_pass())
    here.stdout = Terminal
    here.run()
    assert "\x1b[1;33mWARNING\x1b[0m  " in here.out


def test_what_guests_and_types_are_called_cannot_command_a_terminal(here: Here) -> None:
    disk = a_last_disk(
        a_name(1, HOSTILE, guest_name=HOSTILE), volume_type=HOSTILE, kind=Kind.FAILED, actual=None, desired=BRONZE
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
    assert (told["version"], told["level"], told["complaints"]) == (3, "warning", [])
    assert [each["name"] for each in told["findings"] if each["name"] in ("failed", "sources_down")] == [
        "sources_down",
        "failed",
    ]
    assert told["disks"]["states"]["unknown"] == 1
    assert [each["volume_type"] for each in told["disks"]["by_type"]] == [None, "bronze", "gold"]
    assert told["guests"]["unreachable"][0]["guest_uuid"] == uuid_of(4)
    assert told["pass"]["result"] == Grade.PARTIAL
    assert told["paused"] is None, "there is no pause file now"
    assert told["sources"] == {
        "libvirt": True,
        "rules": False,
        "record": True,
        "writes": True,
        "disks": True,
        "catalogue": True,
    }


@pytest.mark.parametrize(("name", "source"), [("pass.json", "pass"), ("probes.sqlite", "probes")])
def test_as_json_a_file_that_cannot_be_read_has_a_code_beside_its_sentence(
    here: Here, name: str, source: str
) -> None:
    here.passed(good())
    (here.directory / name).write_bytes(b"{" * 5000)
    told = here.told()
    (text,) = told["complaints"]
    (problem,) = [each for each in told["problems"] if each["figure"] is None]
    assert (problem["text"], problem["reason"]) == (text, {"code": "not-read", "source": source, "detail": text})


def test_as_json_a_node_without_a_pass_knows_nothing_rather_than_zeros(here: Here) -> None:
    told = here.told()
    assert [told[name] for name in ("pass", "sources", "guests", "disks", "holds", "catalogue")] == [None] * 6
    assert told["level"] == "unknown"


def test_one_value_can_be_asked_for(here: Here) -> None:
    here.passed(good())
    here.run("-f", "json", "-c", "level")
    assert json.loads(here.out) == {"level": "ok"}
    here.run("-c", "disks")
    assert here.out.split() == ["disks", "2:", "2", "in", "sync"]


@pytest.mark.parametrize("form", ["yaml", "csv"])
def test_the_other_forms_have_all_of_it_too(here: Here, form: str) -> None:
    here.passed(a_varied_pass())
    assert here.run("-f", form) == 3
    assert "change failed" not in here.out
    for name in ("problems", "findings", "by_type", "lock_busy", "newest_runs"):
        assert name in here.out


# --- the daemon


def test_a_daemon_is_shown_with_the_guests_that_it_has_set_aside(here: Here) -> None:
    here.passed(good())
    assert (here.run(), here.told()["daemon"]) == (0, None)
    daemon_status.save(here.state, replace(FULL, written=here.now, reloaded=True))
    assert here.run() == 0
    assert here.row("daemon").startswith("runs; events since 2026-11-20 11:00 UTC: 16; passes over guests: 9;")
    told = here.told()["daemon"]
    assert told["runs"]
    assert [each["guest"] for each in told["set_aside"]] == ["instance-00000001"]


@pytest.mark.parametrize("enabled", [True, False])
def test_a_daemon_that_is_enabled_and_never_started_is_told(
    here: Here, enabled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    setup = replace(node_setup(config.load([], []), (), [], os.devnull), daemon_enabled=enabled)
    monkeypatch.setattr("plimsoll_monitoring.cli.status.node_setup", lambda *_: setup)
    here.passed(good())
    words = "INFO  the daemon is enabled and does not run: only the timer's passes set limits"
    assert here.run() == 0
    assert (words in here.out) is enabled
    daemon_status.save(here.state, replace(FULL, written=here.now))
    here.run()
    assert words not in here.out
    here.state.daemon.write_text("{}")
    here.run()
    assert words not in here.out, "what cannot be read is unknown"


def test_a_daemon_that_was_killed_a_moment_ago_is_a_problem_at_once(here: Here) -> None:
    here.passed(good())
    with here.state.daemon_locked():
        daemon_status.save(here.state, replace(FULL, written=here.now, reloaded=True))
        assert here.run() == 0
    assert here.run() == 3
    ((text, _),) = here.problems().items()
    assert f"the daemon (pid 4711) was killed or crashed after {here.now:%H:%M} UTC: only the timer's passes" in text
    assert here.row("daemon").startswith("does not run any more; ")


# --- consoles


def test_disks_that_the_kernel_maps_are_no_silent_all_clear(here: Here) -> None:
    mapped = ("instance-00000412 vdb",)
    here.passed(a_last_pass(kernel_mapped=mapped))
    here.run()
    head, remark, *_ = here.out.splitlines()
    assert head.startswith("OK    no disks that QEMU opens on RBD; last pass ")
    told = "1 disk on RBD that the kernel maps is not limited by plimsoll: instance-00000412 vdb"
    assert remark == f"INFO  {told}"
    assert here.told()["disks"]["kernel_mapped"] == 1
    here.passed(replace(good(), kernel_mapped=mapped))
    here.run()
    assert told in here.out


def test_consoles_are_shown_where_they_are_read(here: Here) -> None:
    here.passed(good())
    consoles_file.save(here.state, some_consoles())
    here.run()
    assert "consoles" not in here.out
    assert here.told()["consoles"] is None
    here.reads_consoles = True
    here.run()
    assert here.row("consoles").startswith("3 read, 1 unreadable, 1 none; ")
    assert "it is unknown whether they stalled" in " ".join(here.out.split())
    assert here.told()["consoles"]["states"]["unreadable"] == 1


def test_damaged_counts_of_consoles_are_left_to_the_next_pass(here: Here) -> None:
    here.passed(good())
    here.reads_consoles = True
    here.state.consoles.write_text("{")
    assert here.run() == 0
    assert here.told()["consoles"] is None
