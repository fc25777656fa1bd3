"""``plimsoll status``: what it says of a node, where and in which width, and the status that scripts go by."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from plimsoll_agent.config import settings as config
from plimsoll_agent.config.settings import ConsoleSettings, MetricsSettings, Settings
from plimsoll_agent.consoles import file as consoles_file
from plimsoll_agent.model.approvals import Approval
from plimsoll_agent.model.disk import Guest
from plimsoll_agent.model.hypervisor import GuestRef
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, Reason, because
from plimsoll_agent.monitor import daemon_status, pass_summary_file
from plimsoll_agent.monitor.pass_summary import TO_PROBE, LastCatalogue, LastDisk, LastPass, Setting, failed
from plimsoll_agent.monitor.thresholds import Thresholds
from plimsoll_agent.reconcile.grade import Grade
from plimsoll_agent.reconcile.outcome import Kind, Mode, UnreachableGuest
from plimsoll_agent.rules.model import Probing
from plimsoll_agent.store.state import Given, State
from plimsoll_agent.util.frozen import replace
from plimsoll_monitoring.cli.status import Status
from plimsoll_monitoring.node.health import since_words
from plimsoll_probes.model.finding import Verdict, Why
from plimsoll_probes.model.job import JobName
from plimsoll_probes.model.result import Postponed
from plimsoll_probes.schedule.targets import Planned
from plimsoll_probes.store.history import History
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
        return replace(settings, consoles=ConsoleSettings(self.reads_consoles))

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


# --- the status that scripts go by


def test_a_node_that_is_well_is_0(here: Here) -> None:
    here.passed(good())
    assert here.run() == 0
    assert here.out.splitlines()[0] == "OK  2 disks: 2 in sync; last pass 2 min ago"


def test_a_warning_is_3(here: Here) -> None:
    here.passed(replace(good(), braked="a1b2c3", braked_disks=3))
    assert here.run() == 3


def test_a_node_without_a_pass_is_1_and_told_what_to_do(here: Here) -> None:
    assert here.run() == 1
    assert here.problems() == {"UNKNOWN  no pass over this node yet": "plimsoll enforce --mode observe"}


def test_no_pass_for_hours_is_critical_whatever_the_last_one_was(here: Here) -> None:
    here.passed(good(), ago=timedelta(hours=5))
    assert here.run() == 3
    assert here.out.startswith("CRITICAL  no pass for 5 h")


@pytest.mark.parametrize("name", ["pass.json", "probes.sqlite"])
def test_what_cannot_be_read_is_1_and_the_rest_is_shown(here: Here, name: str) -> None:
    here.passed(good())
    here.history.add(a_probe(started=here.now - timedelta(hours=1)))
    (here.directory / name).write_bytes(b"{" * 5000)
    assert here.run() == 1
    assert here.out.startswith(f"UNKNOWN  {here.directory}/{name}:")
    assert "next: plimsoll state check" in here.out
    assert ("1 kept" in here.row("probes")) is (name == "pass.json")
    assert ("last good" in here.out) is (name != "pass.json")


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


def test_the_worst_stands_first_with_the_command_to_run_next(here: Here) -> None:
    here.passed(a_varied_pass(), ago=timedelta(hours=5))
    here.run()
    wrong = here.problems()
    levels = [line.split()[0] for line in wrong]
    order = ["CRITICAL", "UNKNOWN", "WARNING", "INFO"]
    assert levels == sorted(levels, key=order.index)
    assert levels[0] == "CRITICAL"
    (rejected,) = (line for line in wrong if "unlimited" in line)
    assert rejected.endswith("1 disk unlimited: instance-00000003 vdb: rejected: no")
    assert wrong[rejected] == "plimsoll record --guest instance-00000003"


def test_a_file_that_cannot_be_read_stands_before_a_promise_that_is_broken(here: Here) -> None:
    here.state.last_pass.write_bytes(b"{")
    here.history.add(a_probe(started=here.now - timedelta(hours=1), finding=SHORT))
    assert here.run() == 1
    assert [line.split()[0] for line in here.problems()] == ["UNKNOWN", "WARNING"]


def test_a_disk_whose_desired_limits_are_unknown_is_a_problem(here: Here) -> None:
    here.source = "openstack"
    reason = because(Code.VOLUME_NOT_FETCHED, since=here.now.isoformat())
    unsure = a_last_disk(kind=Kind.UNKNOWN, reason=reason, server="db", since=here.now)
    here.passed(a_last_pass(unsure, a_last_disk(a_name(2))))
    assert here.run() == 3
    ((line, do),) = here.problems().items()
    assert re.match(r"WARNING  1 disk unknown since .*: instance-00000001 \(db\) vdb: volume not fetched", line)
    assert do == "plimsoll enforce --refresh"
    assert here.row("disks") == "2: 1 in sync, 1 unknown"


def test_a_disk_that_lost_its_limits_while_the_desired_ones_are_unknown_is_told_as_unlimited(here: Here) -> None:
    reason = because(Code.CATALOGUE_EXPIRED, detail="x")
    here.passed(a_last_pass(a_last_disk(kind=Kind.UNKNOWN, reason=reason, actual=Limits(), desired=BRONZE)))
    assert here.run() == 3
    line = next(iter(here.problems()))
    assert line.startswith("WARNING  1 disk unlimited: instance-00000001 vdb: unlimited, ")
    assert " desired last; the catalogue of Cinder and Nova is too old to be used" in line
    assert here.row("limits").startswith("1 unlimited where a limit is desired")


def test_a_disk_is_told_once_though_it_is_unlimited_and_its_change_failed(here: Here) -> None:
    free = a_last_disk(kind=Kind.FAILED, reason=because(Code.REJECTED, detail="no"), actual=Limits(), desired=BRONZE)
    here.passed(a_last_pass(free))
    here.run()
    assert [line.split(": ")[0] for line in here.problems()] == ["WARNING  1 disk unlimited"]
    other = a_last_disk(a_name(2), kind=Kind.FAILED, reason=because(Code.REJECTED, detail="no"))
    here.passed(a_last_pass(free, other))
    here.run()
    told = [line.split(": ")[0] for line in here.problems()]
    assert told == ["WARNING  1 disk unlimited", "WARNING  change failed on 1 disk"]


def a_braked_pass(*others: LastDisk) -> LastPass:
    """The brake defers two disks, and stops ``others``."""
    why = because(Code.BRAKED, revision="a1" * 32, disks=2, of=2)
    disks = [a_last_disk(a_name(at), kind=Kind.DEFERRED, reason=why) for at in (1, 2)]
    return a_last_pass(*disks, *others, braked="a1" * 32, braked_disks=2 + len(others))


def test_the_brake_has_one_count_and_tells_what_becomes_of_disks_that_are_not_deferred(here: Here) -> None:
    before = because(Code.DESIRED_BEFORE, revision="a1" * 32)
    held = because(Code.HOLD, why="import", by="ann", until=(here.now + timedelta(hours=1)).isoformat())
    here.passed(a_braked_pass(a_last_disk(a_name(3), reason=before), a_last_disk(a_name(4), reason=held)))
    here.run()
    ((line, _),) = here.problems().items()
    others = "(of them 1 gets its previous limit, 1 held or unreachable)"
    assert re.fullmatch(rf"WARNING  4 disks deferred by the brake.* {re.escape(others)}: revision .*", line)
    assert here.row("brake") == f"4 disks deferred {others} until plimsoll approve a1a1a1a1a1a1a1a1"


def test_disks_that_the_brake_defers_are_told_once(here: Here) -> None:
    large = because(Code.LARGE_CHANGE, digest="b2" * 32, percent=1.0)
    here.passed(a_braked_pass(a_last_disk(a_name(3), kind=Kind.DEFERRED, reason=large)))
    here.run()
    ((line, do),) = here.problems().items()
    assert line.startswith("WARNING  3 disks deferred by the brake")
    assert line.endswith("revision a1a1a1a1a1a1a1a1 needs approval")
    assert do == "plimsoll plan"


@pytest.mark.parametrize(
    ("mode", "paused", "which"),
    [
        ("enforce", False, "next pass"),
        ("observe", False, "first pass in mode enforce"),
        ("enforce", True, "first pass after the pause"),
    ],
)
def test_an_approval_since_the_last_pass_is_told_with_the_pass_that_applies_it(
    here: Here, mode: str, paused: bool, which: str
) -> None:
    here.passed(a_braked_pass())
    here.state.save_approvals([Given(Approval("a1" * 32, remove=True), "ann", here.now)])
    here.mode = mode
    if paused:
        (here.directory / "paused").touch()
    here.run()
    told = f"revision a1a1a1a1a1a1a1a1 approved by ann {here.now:%H:%M} UTC; the {which} applies it"
    assert any(line.endswith(told) for line in here.problems())
    assert here.row("brake") == f"2 disks deferred: {told}"


def test_an_approval_without_removals_says_so_unless_another_has_them(here: Here) -> None:
    here.passed(a_braked_pass())
    without = Given(Approval("a1" * 32), "ann", here.now)
    here.state.save_approvals([without])
    here.run()
    assert here.row("brake").endswith("UTC, without removals; the next pass applies it")
    here.state.save_approvals([without, Given(Approval("a1" * 32, remove=True), "bob", here.now)])
    here.run()
    assert "approved by bob" in here.row("brake")
    assert "without removals" not in here.out


def test_an_approval_of_another_revision_or_an_unreadable_one_counts_as_none(here: Here) -> None:
    here.passed(a_braked_pass())
    here.state.save_approvals([Given(Approval("b2" * 32), "ann", here.now)])
    here.run()
    assert "needs approval" in here.out
    here.state.approval.write_text("{")
    assert here.run() == 3
    assert "an approval since the last pass is not shown" in " ".join(here.out.split())


def test_an_unreachable_guest_has_its_servers_name_where_a_pass_knew_it(here: Here) -> None:
    guests = (UnreachableGuest(GuestRef(uuid_of(7), "instance-00000007"), UNTOUCHED),)
    here.passed(replace(a_last_pass(), unreachable=guests, servers={uuid_of(7): "db"}))
    here.run()
    assert any("1 guest unreachable: instance-00000007 (db): " in line for line in here.problems())
    assert here.told()["guests"]["unreachable"][0]["server"] == "db"


def test_a_hung_guest_is_one_problem_with_its_disks_and_a_pause_is_one(here: Here) -> None:
    hung = UnreachableGuest(GuestRef(uuid_of(7), "instance-00000007"), UNTOUCHED)
    unknown = because(Code.GUEST_TIMED_OUT, seconds=6)
    paused = because(Code.PAUSED, file=str(here.directory / "paused"), why="y")
    (here.directory / "paused").touch()
    here.passed(
        replace(
            a_last_pass(
                a_last_disk(a_name(7), kind=Kind.UNKNOWN, reason=unknown),
                a_last_disk(a_name(8), kind=Kind.UNKNOWN, reason=unknown),
                a_last_disk(a_name(1), kind=Kind.DEFERRED, reason=paused),
                a_last_disk(a_name(2), kind=Kind.DEFERRED, reason=because(Code.MIGRATING)),
            ),
            unreachable=(hung,),
        )
    )
    here.run()
    told = [line.removeprefix("WARNING  ").split(": ")[0] for line in here.problems()]
    assert told == ["nothing is written (1 disk deferred)", "1 disk deferred", "1 disk unknown", UNREACHABLE]


UNREACHABLE = "1 guest unreachable (1 disk unknown)"


def test_what_is_told_with_its_cause_keeps_its_level(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = here.settings()
    critical = {**settings.health, "unknown": Thresholds("", "0")}
    monkeypatch.setattr(here, "settings", lambda: replace(settings, health=critical))
    hung = UnreachableGuest(GuestRef(uuid_of(7), "instance-00000007"), UNTOUCHED)
    disk = a_last_disk(a_name(7), kind=Kind.UNKNOWN, reason=because(Code.GUEST_TIMED_OUT, seconds=6))
    here.passed(replace(a_last_pass(disk), unreachable=(hung,)))
    here.run()
    (line,) = here.problems()
    assert line.startswith(f"CRITICAL  {UNREACHABLE}")


def test_probes_of_a_guest_with_the_same_verdict_are_one_problem(here: Here) -> None:
    for job in (JobName.READ, JobName.WRITE, JobName.MIXED):
        here.history.add(a_probe(job=job, started=here.now - timedelta(hours=1), finding=AGENT_TIMED_OUT))
    here.run()
    (line,) = [line for line in here.problems() if "probe failed" in line]
    (jobs,) = re.findall(r"instance-00000001 \(canary\) ([a-z, ]+): ", line)
    assert sorted(jobs.split(", ")) == ["mixed", "read", "write"]


def test_that_there_was_no_good_pass_is_told_after_what_prevents_it(here: Here) -> None:
    failing = a_last_disk(kind=Kind.FAILED, reason=because(Code.REJECTED, detail="no"))
    here.passed(a_last_pass(failing, grade=Grade.PARTIAL, last_good=None))
    here.run()
    assert [line.split()[1:4] for line in here.problems()] == [["change", "failed", "on"], ["no", "good", "pass"]]


def test_where_a_source_is_down_a_missing_good_pass_leads_to_it(here: Here) -> None:
    sources = {"libvirt": True, "rules": False, "record": True}
    here.passed(replace(good(), grade=Grade.PARTIAL, last_good=None, sources=sources, trouble="rules.yaml:3: no"))
    here.run()
    ((line, do),) = here.problems().items()  # one fault is one problem
    assert line.startswith("WARNING  source down")
    assert do == "plimsoll rules check"


@pytest.mark.parametrize(
    ("grade", "do"), [(Grade.PARTIAL, "plimsoll plan"), (Grade.FAILED, "plimsoll enforce --mode observe")]
)
def test_without_a_good_pass_the_next_command_depends_on_the_last_one(here: Here, grade: Grade, do: str) -> None:
    here.passed(replace(good(), grade=grade, last_good=None))
    here.run()
    assert [next_ for line, next_ in here.problems().items() if "no good pass yet" in line] == [do]


def test_disks_are_told_by_reason_the_most_frequent_first(here: Here) -> None:
    codes = [Code.MIGRATING, Code.INCOMING, Code.CHANGED_SINCE, Code.NOT_APPROVED, Code.PAUSED]
    reasons = [because(code, file="/x", why="y") for code in codes for _ in range(5 - codes.index(code))]
    disks = [a_last_disk(a_name(at), kind=Kind.DEFERRED, reason=each) for at, each in enumerate(reasons, 1)]
    here.passed(a_last_pass(*disks))
    here.run()
    told = [line.removeprefix("WARNING  ").split(" deferred")[0] for line in here.problems()]
    assert told == ["5 disks", "4 disks", "3 disks", "3 disks"]
    assert "3 disks deferred for 2 other reasons" in here.out
    assert [each["figure"] for each in here.told()["problems"]] == ["behind"] * 4


def test_without_root_commands_begin_with_sudo(here: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    here.passed(replace(good(), braked="a1b2c3", braked_disks=3))
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    here.run()
    assert [*here.problems().values()] == ["sudo plimsoll plan"]


def test_a_pause_that_the_last_pass_did_not_meet_is_a_problem_now(here: Here) -> None:
    here.passed(good())
    (here.directory / "paused").write_text("rack 2 is moved\n(by ann, 2026-11-20 14:02 UTC)")
    assert here.run() == 3
    ((line, do),) = here.problems().items()
    assert line.startswith("WARNING  nothing is written: paused")
    assert do == "plimsoll resume --reason TEXT"
    assert "rack 2 is moved (by ann, 2026-11-20 14:02 UTC)" in here.row("pause")


def test_what_two_measures_say_alike_is_said_once(here: Here) -> None:
    here.run()
    assert here.out.split("\n\n")[0].count("no pass over this node yet") == 1


def test_a_broken_promise_and_a_failed_probe_are_told(here: Here) -> None:
    here.passed(good())
    here.history.add(a_probe(started=here.now - timedelta(hours=1), finding=SHORT))
    other = a_subject(guest_uuid=uuid_of(2), guest_name="instance-00000002")
    here.history.add(
        a_probe(started=here.now - timedelta(hours=1), subject=other, measured=None, finding=AGENT_TIMED_OUT)
    )
    assert here.run() == 3
    said = " ".join(here.out.split())
    assert "WARNING probe short: instance-00000001 (canary) read: 38 % of limit 250 IOPS" in said
    assert "WARNING probe failed: instance-00000002" in said
    expected = "no guest to be probed, or no probe run --due yet (plimsoll probe timetable); newest: "
    assert here.row("probes").startswith(f"{expected}1 short, 1 failed (59 min")


def test_a_probe_that_was_due_twice_and_put_off_is_late(here: Here) -> None:
    here.passed(good())
    target = Planned(
        Guest(uuid=uuid_of(3), name="instance-00000003", run="1"), "/var/tmp", None, node="node1", probing=HOURLY
    )
    here.history.chosen([target], here.now - timedelta(hours=3))
    waits = {"guest_uuid": uuid_of(3), "guest_name": "instance-00000003", "directory": "/var/tmp"}
    here.history.postpone(Postponed(**waits, at=here.now, node="node1", why=Why.UNHEALTHY, facts={"detail": "x"}))
    assert here.run() == 3
    assert here.row("probes") == "1 guest to be probed as of 3 h ago; 1 overdue; 1 postponed; no result yet"


def test_a_measure_that_the_settings_do_not_watch_is_not_wrong(here: Here) -> None:
    wall = a_last_disk(shares={"total_iops_sec": 1.0}, kind=Kind.IN_SYNC)
    here.passed(a_last_pass(wall, interval=300.0))
    assert here.run() == 0
    assert here.row("limits") == "0 unlimited where a limit is desired; 1 at limit in the last 5 min"


# --- the screen


def test_a_pass_that_failed_says_why_and_how_old_the_rest_is(here: Here) -> None:
    last = here.passed(good(), ago=timedelta(minutes=6))
    ended = here.now - timedelta(minutes=1)
    setting = Setting(version="1.2.3", boot="b1", ended=ended)
    why = "qemu:///system: no such socket"
    pass_summary_file.save(here.state, failed(last, Mode.ENFORCE, why, "libvirt", ended, setting))
    assert here.run() == 3
    assert here.row("passes").startswith("last 1 min ago: FAILED; last good 6 min")
    (line,) = (each for each in here.problems() if "libvirt" in each)
    assert line.endswith(": libvirt: qemu:///system: no such socket")
    assert "since" in line
    assert here.problems()[line] == "virsh list"
    assert here.row("disks") == "2: 2 in sync; observed 6 min 2 s ago"


def test_the_rows_say_what_the_pass_came_to(here: Here) -> None:
    here.passed(a_varied_pass())
    here.run("--all")
    assert here.row("passes") == "last 2 min ago: partial, 1.7 s; last good 12 min ago"
    assert here.row("mode") == "enforce"
    assert here.row("so far") == "10 good, 2 partial, 0 failed; 4 skipped, since another pass was running"
    assert here.row("sources") == "DOWN: rules; up: libvirt, record, writes, disks, catalogue"
    assert here.row("catalogue") == "from openstack, 17 min ago; 20 refreshes, 1 failed"
    assert here.row("guests") == "3 reachable, 1 unreachable"
    assert here.row("disks") == "4: 2 in sync, 1 failed, 1 unknown"
    limits = "1 unlimited where a limit is desired; 0 at limit in the last 5 min; 4 external changes reverted so far"
    assert here.row("limits") == limits
    stopped = "3 disks deferred (of them 3 held or unreachable) until plimsoll approve a1b2c3d4e5f60718"
    assert here.row("brake") == stopped
    assert here.row("holds") == "1 (plimsoll disk hold list)"
    assert here.row("cluster") == f"{FSID[:8]}: not asked: a pass asks only before it raises or removes a limit"
    assert "INFO     the results are not in the record of changes" in here.out


@pytest.mark.parametrize(
    ("reason", "row"),
    [
        (None, "no check that defers changes (asked 2 min 2 s ago)"),
        (
            because(Code.CLUSTER_UNHEALTHY, cluster=FSID, checks="OSD_DOWN (2 of 90 OSDs), SLOW_OPS"),
            "OSD_DOWN (2 of 90 OSDs), SLOW_OPS (asked 2 min 2 s ago): 1 disk deferred",
        ),
        (
            because(Code.CLUSTER_UNREACHABLE, cluster=FSID, detail="no answer from ceph within 10 s"),
            "health unknown (asked 2 min 2 s ago): no answer from ceph within 10 s: 1 disk deferred",
        ),
    ],
)
def test_the_row_of_a_cluster_tells_its_health_and_when_it_was_asked(
    here: Here, reason: Reason | None, row: str
) -> None:
    disk = a_last_disk() if reason is None else a_last_disk(kind=Kind.DEFERRED, reason=reason)
    here.passed(replace(a_last_pass(disk), healthy=frozenset({FSID} if reason is None else ())))
    here.run()
    assert here.row("cluster") == f"{FSID[:8]}: {row}"
    here.passed(replace(a_last_pass(a_last_disk()), enforcing=False))
    here.run()
    assert here.row("cluster") == f"{FSID[:8]}: not asked: mode observe writes nothing"


def test_what_is_rarely_asked_for_is_left_to_long(here: Here) -> None:
    here.passed(a_varied_pass())
    here.run()
    facts = [line.split()[0] for line in here.out.split("\n\n")[1].splitlines()]
    assert facts == [
        "passes",
        "mode",
        "disks",
        "guests",
        "limits",
        "brake",
        "holds",
        "cluster",
        "catalogue",
        "probes",
    ]
    assert len(here.out.split("\n\n")) == 2, "no table of types"


def test_a_disk_on_an_unknown_cluster_is_told_what_is_missing_and_where_to_look(here: Here) -> None:
    reason = because(Code.CLUSTER_UNKNOWN, monitors="10.0.0.1:6789")
    here.passed(a_last_pass(a_last_disk(kind=Kind.DEFERRED, reason=reason)))
    here.run()
    said = " ".join(here.out.split())
    assert (
        "Ceph's health unknown: no ceph.conf with mon_host 10.0.0.1:6789; add its path to [ceph] conf_files" in said
    )
    assert "next: plimsoll settings ceph" in said


def test_disks_that_wait_for_a_healthy_cluster_are_told_with_what_to_ask_ceph(here: Here) -> None:
    reason = because(Code.CLUSTER_UNHEALTHY, cluster=FSID, checks="SLOW_OPS")
    here.passed(a_last_pass(a_last_disk(kind=Kind.DEFERRED, reason=reason)))
    here.run()
    assert [*here.problems().values()] == ["ceph --id plimsoll health detail"]


def test_mode_observe_is_told_as_what_it_means(here: Here) -> None:
    here.passed(a_last_pass(a_last_disk(kind=Kind.PLANNED, actual=Limits()), enforcing=False))
    assert here.run() == 3
    ((line, do),) = here.problems().items()
    assert line.endswith("1 disk unlimited: instance-00000001 vdb: mode is observe: nothing is written")
    assert do == "plimsoll plan"
    assert here.row("mode") == "observe: the last pass wrote no limit; the settings have mode enforce"
    here.mode = "observe"
    here.run()
    assert here.row("mode") == "observe: no limit is written until mode = enforce in the settings"


def test_a_mode_that_was_given_by_hand_for_one_pass_is_told(here: Here) -> None:
    here.mode = "observe"
    here.passed(good())
    assert here.run() == 0
    assert "INFO  the last pass was in mode enforce; the settings have mode observe" in here.out


def test_orphaned_limits_are_counted(here: Here) -> None:
    here.passed(a_last_pass(a_last_disk(kind=Kind.LEFT_ALONE, reason=because(Code.ORPHANED, type="gold"))))
    here.run()
    assert here.row("limits").endswith("; 1 orphaned (plimsoll plan)")


def test_types_stand_below_with_a_column_for_each_state_that_there_is(here: Here) -> None:
    here.passed(a_varied_pass())
    here.run("--all")
    table = here.out.split("\n\n")[2].splitlines()
    assert table[0].split("  ")[0] == "TYPE"
    columns = "TYPE DISKS IN SYNC CHANGED UNKNOWN FAILED UNLIMITED AT LIMIT IOPS BYTES/S"
    assert " ".join(table[0].split()) == columns
    assert [row.split()[0] for row in table[1:]] == ["-", "bronze", "gold"]
    assert table[1].split()[-3:] == ["-", "-", "-"], "of what nobody has read nothing is known, and no zero"
    assert table[2].split()[-4:] == ["0", "0", "0", "B"]


def test_a_pause_that_is_over_is_no_problem(here: Here) -> None:
    here.passed(replace(good(), paused=because(Code.PAUSED, file="x", why="y")))
    assert here.run() == 0
    assert "INFO  the last pass was paused, the node is not any more" in here.out


def test_files_are_told_with_their_age_and_those_of_metrics_too(here: Here) -> None:
    here.passed(good())
    (here.directory / "plimsoll-pass.prom").write_text("")
    here.run("--all")
    assert [part.split()[0] for part in here.row("files").split(", ")] == ["pass.json", "plimsoll-pass.prom"]


def test_a_catalogue_that_does_not_count_is_not_given_an_age(here: Here) -> None:
    here.passed(replace(good(), catalogue=LastCatalogue(None, "", 7200), sources={"catalogue": False}))
    assert here.run() == 3
    assert here.row("catalogue") == "none usable"
    assert "WARNING  source down: catalogue" in here.out


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


def test_guests_that_a_rule_chooses_and_nothing_probes_are_a_problem(here: Here) -> None:
    since = here.now - timedelta(hours=3)
    here.passed(replace(good(), guests_to_probe=2, wrong_since={TO_PROBE: since}))
    assert here.run() == 3
    ((text, do),) = here.problems().items()
    assert (
        f"2 guests not probed since {since_words(since, here.now)}: a rule chooses them, and plimsoll probe run"
        in text
    )
    assert do == "plimsoll probe timetable"


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


def test_a_daemon_that_was_killed_is_a_problem(here: Here) -> None:
    here.passed(good())
    daemon_status.save(here.state, replace(FULL, written=here.now - timedelta(minutes=3)))
    assert here.run() == 3
    assert "the daemon (pid 4711) has written nothing since" in " ".join(here.out.split())
    assert "systemctl status plimsoll-daemon.service" in here.out
    assert here.row("daemon").startswith("does not run any more; ")
    told = here.told()
    assert not told["daemon"]["runs"]
    assert [each["figure"] for each in told["problems"]] == ["daemon_faults"], "what else it told is old"


def test_a_daemon_that_was_killed_a_moment_ago_is_a_problem_at_once(here: Here) -> None:
    here.passed(good())
    with here.state.daemon_locked():
        daemon_status.save(here.state, replace(FULL, written=here.now, reloaded=True))
        assert here.run() == 0
    assert here.run() == 3
    ((text, _),) = here.problems().items()
    assert f"the daemon (pid 4711) was killed or crashed after {here.now:%H:%M} UTC: only the timer's passes" in text
    assert here.row("daemon").startswith("does not run any more; ")


def test_a_daemon_without_events_and_with_earlier_settings_has_two_problems(here: Here) -> None:
    here.passed(good())
    deaf = replace(FULL, written=here.now, connected_since=None, disconnected="libvirt at qemu:///system: no answer")
    daemon_status.save(here.state, deaf)
    assert here.run() == 3
    told = [(each["text"], each["next"]) for each in here.told()["problems"]]
    assert [text for text, _ in told] == [
        "the daemon has no events: libvirt at qemu:///system: no answer",
        "the daemon uses earlier settings: plimsoll.conf:3: rounds: must be at least 1",
    ]
    assert "virsh list" in told[0][1]


# --- consoles


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


def test_a_console_that_cannot_be_read_is_no_problem_of_the_node(here: Here) -> None:
    here.passed(good())
    consoles_file.save(here.state, some_consoles())
    here.reads_consoles = True
    assert here.run() == 0


def test_damaged_counts_of_consoles_are_left_to_the_next_pass(here: Here) -> None:
    here.passed(good())
    here.reads_consoles = True
    here.state.consoles.write_text("{")
    assert here.run() == 0
    assert here.told()["consoles"] is None
