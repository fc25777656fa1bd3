"""``plimsoll probe`` list, history, show, compare and timetable: what they say of a history, and their status."""

from __future__ import annotations

import csv
import io
import json
import re
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from plimsoll_agent.model.disk import Guest
from plimsoll_agent.rules.model import Probing
from plimsoll_agent.util.frozen import replace
from plimsoll_probes.cli import looking
from plimsoll_probes.cli.looking import ProbeHistory, ProbeList
from plimsoll_probes.cli.one import ProbeCompare, ProbeShow
from plimsoll_probes.cli.timetable import ProbeTimetable, ScheduleState, TimetableEntry, entries
from plimsoll_probes.model.finding import Verdict, Why
from plimsoll_probes.model.job import JobName
from plimsoll_probes.model.result import Circumstances, Health, Postponed
from plimsoll_probes.schedule import timetable
from plimsoll_probes.schedule.targets import PlannedTarget
from plimsoll_probes.store.history import History
from tests.fakes import FakeHypervisor
from tests.unit.node import guest, uuid_of
from tests.unit.person import Person, Terminal
from tests.unit.places import settings_in
from tests.unit.results import HOSTILE, LIMIT, MS, a_finding, a_flow, a_measurement, a_probe, a_subject
from tests.unit.values import GUEST, NOON, PROJECT

LOOKING = [ProbeList, ProbeHistory]
SHORT = a_finding(Verdict.SHORT, Why.CLUSTER_SHORT, parameter="total_iops_sec", allowed=7500.0, done=2850)
OSD_DOWN = Circumstances(
    promised=LIMIT,
    before=LIMIT,
    after=LIMIT,
    health_before=Health((), ""),
    health_after=Health(("OSD_DOWN",), "1 osds down"),
)


class Shell(Person):
    """A person at a node with a history of probes."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.history = History(directory / "probes.sqlite")
        self.hypervisor = FakeHypervisor()
        self.rules = "{}"

    def add(self, ago: timedelta = timedelta(minutes=3), **other: Any) -> int:
        return self.history.add(a_probe(started=datetime.now(UTC) - ago, **other))

    def run(self, command: type, *words: str, **other: Any) -> int:
        (self.directory / "rules.yaml").write_text(self.rules)
        settings = settings_in(self.directory, state_dir=self.directory)
        return self.types(command, *words, settings=settings, hypervisor=self.hypervisor, **other)

    def told(self, command: type, *words: str) -> Any:
        """``-f json``, as a program reads it."""
        assert self.run(command, *words, "-f", "json") == 0
        return json.loads(self.out)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def line_of(text: str, word: str) -> str:
    (line,) = (line for line in text.splitlines() if word in line)
    return line


# --- a history that is not there, or not whole


@pytest.mark.parametrize("command", LOOKING)
def test_without_a_history_lists_are_empty_and_say_so_on_stderr(shell: Shell, command: type) -> None:
    assert shell.told(command) == []
    assert shell.err == "No probe has run on this node yet; see: plimsoll probe run\n"
    assert not shell.history.path.exists(), "who looks makes no file"


@pytest.mark.parametrize("command", [*LOOKING, ProbeShow, ProbeCompare, ProbeTimetable])
def test_a_corrupt_history_is_an_error_in_one_line_that_names_the_file(
    shell: Shell, command: type, caplog: pytest.LogCaptureFixture
) -> None:
    shell.history.path.write_text("this is no database, but it is long enough to look like one " * 99)
    words = ["1"] if command in (ProbeShow, ProbeCompare) else []
    assert shell.run(command, *words) == 1
    (record,) = caplog.records
    said = record.getMessage()
    assert said.startswith(str(shell.history.path))
    assert said.endswith("the next plimsoll probe run sets it aside and begins a new one")
    assert "\n" not in said


# --- list


def test_the_newest_of_each_job_is_listed_with_its_verdict_and_why(shell: Shell) -> None:
    shell.add(timedelta(hours=2), finding=SHORT)
    shell.add(job=JobName.MIXED, finding=SHORT, circumstances=OSD_DOWN)
    shell.add()
    assert shell.run(ProbeList) == 0
    assert "read    251  41 ms" in (read := line_of(shell.out, " read "))
    assert "250 IOPS  3 min  kept" in read
    assert "3 min" in read
    mixed = line_of(shell.out, " mixed ")
    assert "short" in mixed
    assert "38 % of limit 250 IOPS; Ceph: OSD_DOWN (1 osds down); since " in mixed
    assert shell.out.splitlines()[-1] == "2 jobs on 1 guest: 1 kept, 1 short"


def by_name(shell: Shell, name: str, *verdicts: Verdict, ago: timedelta = timedelta(minutes=3)) -> None:
    """A guest with these verdicts, job by job, a minute apart."""
    why = {Verdict.KEPT: Why.WITHIN, Verdict.SHORT: Why.CLUSTER_SHORT, Verdict.FAILED: Why.NO_FIO}
    facts = {"parameter": "total_iops_sec", "allowed": 7500.0, "done": 2850}
    for number, (job, verdict) in enumerate(zip(JobName, verdicts, strict=False)):
        subject = a_subject(guest_uuid=name, guest_name=name, display_name="a-server-with-a-long-name")
        finding = a_finding(verdict, why[verdict], **facts)
        shell.add(ago - timedelta(minutes=number), job=job, subject=subject, finding=finding)


def test_the_worst_guest_is_first_with_all_its_jobs(shell: Shell) -> None:
    by_name(shell, "instance-00000001", *[Verdict.KEPT] * 3)
    by_name(shell, "instance-00000002", *[Verdict.FAILED] * 3)
    by_name(shell, "instance-00000003", Verdict.KEPT, Verdict.KEPT, Verdict.SHORT)
    shell.history.postpone(a_postponed(timedelta(0), guest_uuid="u", guest_name="instance-00000000"))
    rows = shell.told(ProbeList)
    assert [row["guest"][-1] for row in rows] == ["3"] * 3 + ["2"] * 3 + ["0"] + ["1"] * 3
    assert [row["job"] for row in rows[:3]] == ["read", "write", "mixed"], "one row a job"


def test_on_80_columns_a_reason_is_told_once_a_guest_and_the_age_always(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    by_name(shell, "instance-00000001", *[Verdict.KEPT] * 3, ago=timedelta(days=7, hours=3))
    by_name(shell, "instance-00000002", *[Verdict.SHORT] * 3, ago=timedelta(hours=13, minutes=5))
    by_name(shell, "instance-00000002", *[Verdict.SHORT] * 3, ago=timedelta(minutes=5))
    shell.run(ProbeList, stdout=Terminal())
    assert "   AGE  VERDICT" in shell.out.replace("\x1b[0m", "").replace("\x1b[1m", "")
    lines = [re.sub(r"\x1b\[[\d;]*m", "", line) for line in shell.out.splitlines()]
    assert max(map(len, lines)) <= 80
    rows = [line for line in lines if "instance-" in line]
    assert all(re.search(r" [345] min  short \[1\]$", row) for row in rows[:3])
    assert all(row.endswith(" 7 d  kept") for row in rows[3:])
    assert [line[:3] for line in lines if line.startswith("[")] == ["[1]"]
    begun = datetime.now(UTC) - timedelta(hours=13, minutes=5)
    assert f"since {begun:%Y-%m-%d %H:}" in " ".join(lines), "of the first job"


def test_jobs_stand_in_the_order_in_which_they_run(shell: Shell) -> None:
    for job in reversed(JobName):
        shell.add(job=job)
    assert [row["job"] for row in shell.told(ProbeList)] == ["read", "write", "mixed"]


def test_a_saturated_latency_is_never_listed_as_a_number(shell: Shell) -> None:
    shell.add(measured=a_measurement(a_flow([MS, 20_000 * MS], 31_250 * MS)), finding=SHORT)
    assert shell.run(ProbeList) == 0
    assert "1.0 ms  > 17 s  31 s" in line_of(shell.out, " read ")
    (row,) = shell.told(ProbeList)
    assert row["p99"]["value"] is None
    assert row["p99"]["saturated"] is True
    assert row["max"] == 31.25


def test_what_was_not_measured_is_a_dash_and_null(shell: Shell) -> None:
    shell.add(measured=None, finding=a_finding(Verdict.FAILED, Why.NO_FIO), circumstances=Circumstances())
    assert shell.run(ProbeList) == 0
    line = line_of(shell.out, " read ")
    assert line.split()[6:13] == ["-", "-", "-", "-", "unknown", "3", "min"]
    assert "install fio in the guest" in line
    (row,) = shell.told(ProbeList)
    assert [row[name] for name in ("iops", "p50", "p99", "max", "limit")] == [None] * 5
    assert row["why"] == "no-fio"


def a_postponed(ago: timedelta, **other: Any) -> Postponed:
    values = {"guest_uuid": GUEST, "guest_name": "instance-00000001", "directory": "/var/tmp"} | other
    return Postponed(
        at=datetime.now(UTC) - ago, node="node1", why=Why.UNHEALTHY, facts={"detail": "OSD_DOWN"}, **values
    )


def test_what_was_postponed_since_is_listed_and_what_was_probed_since_is_not(shell: Shell) -> None:
    shell.add(timedelta(hours=1))
    shell.history.postpone(a_postponed(timedelta(hours=2)))
    shell.history.postpone(a_postponed(timedelta(minutes=2), guest_uuid="another", guest_name="other"))
    assert shell.run(ProbeList) == 0
    assert "Ceph is unhealthy (OSD_DOWN)" in line_of(shell.out, "other")
    assert shell.out.splitlines()[-1] == "1 job on 2 guests: 1 kept, 1 postponed"
    shell.history.postpone(a_postponed(timedelta(minutes=2)))
    assert [row["verdict"] for row in shell.told(ProbeList)] == ["kept", "postponed", "postponed"]


@pytest.mark.parametrize("words", [[], ["-f", "csv"]])
@pytest.mark.parametrize("command", [*LOOKING, ProbeShow, ProbeCompare])
def test_no_name_reaches_the_terminal_as_it_is(shell: Shell, command: type, words: list[str]) -> None:
    names = (
        "guest_name",
        "display_name",
        "directory",
        "target",
        "pool",
        "image",
        "volume_id",
        "volume_type",
        "project",
    )
    subject = a_subject(**dict.fromkeys(names, HOSTILE))
    finding = a_finding(Verdict.FAILED, Why.FIO_FAILED, detail=HOSTILE)
    met = Circumstances(health_after=Health((HOSTILE,), HOSTILE))
    measured = replace(a_measurement(a_flow([MS])), fio=HOSTILE, engine=HOSTILE)
    id_ = shell.add(
        subject=subject, finding=finding, circumstances=met, measured=measured, rule=HOSTILE, node=HOSTILE
    )
    shell.history.postpone(a_postponed(timedelta(0), guest_name=HOSTILE, directory=HOSTILE))
    one = [] if command in LOOKING else [str(id_)]
    assert shell.run(command, *one, *words) == 0
    lines = (shell.out + shell.err).split("\n")
    assert [line for line in lines if not line.isprintable()] == []
    assert any("a?[2J?b?c?d?e?f" in line for line in lines) or "\\u001b" in shell.out


# --- history


def test_on_80_columns_each_result_has_its_time(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    by_name(shell, "instance-00000001", *[Verdict.SHORT] * 3)
    shell.run(ProbeHistory, stdout=Terminal())
    rows = [line for line in shell.out.splitlines() if "a-server" in line]
    assert len(rows) == 3
    assert all(re.search(r" \d\d\d\d-\d\d-\d\d \d\d:\d\d:\d\d  \S*short ", row) for row in rows)


def test_results_are_listed_oldest_first_and_by_what_is_asked_for(shell: Shell) -> None:
    old = shell.add(timedelta(days=9))
    middle = shell.add(timedelta(hours=3), job=JobName.WRITE)
    new = shell.add()
    other = shell.add(timedelta(hours=1), subject=a_subject(guest_uuid="u2", guest_name="g2", display_name=None))

    def ids(*words: str) -> list[int]:
        return [row["id"] for row in shell.told(ProbeHistory, *words)]

    assert ids() == [old, middle, other, new]
    assert ids("--since", "7d") == [middle, other, new]
    assert ids("--job", "write") == [middle]
    assert ids("--guest", "canary", "--last", "2") == [middle, new]
    assert ids("--guest", GUEST, "--since", "7d") == [middle, new]
    assert ids("--guest", "g2") == [other]


def test_what_is_left_out_is_said_and_only_when_it_was_not_asked_for(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looking, "_LISTED", 2)
    for hours in (3, 2, 1):
        shell.add(timedelta(hours=hours))
    assert len(shell.told(ProbeHistory)) == 2
    assert "--last 0 lists all" in shell.err
    for most, number in (("1", 1), ("0", 3), ("9", 3)):
        assert len(shell.told(ProbeHistory, "--last", most)) == number
        assert shell.err == ""


def test_without_a_number_the_newest_result_is_shown(shell: Shell) -> None:
    for number in (1, 2):
        shell.add(timedelta(hours=3 - number))
    assert shell.run(ProbeShow, "-f", "json") == 0
    assert json.loads(shell.out)["id"] == 2
    assert shell.run(ProbeShow, "-f", "json", "--job", "read") == 0
    assert json.loads(shell.out)["id"] == 2


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (ProbeHistory, ["--since", "soon"]),
        (ProbeHistory, ["--last", "-1"]),
        (ProbeShow, ["1", "--guest", "canary"]),
        (ProbeShow, ["77"]),
        (ProbeShow, [str(2**70)]),
        (ProbeShow, ["--job", "mixed"]),
        (ProbeShow, ["--guest", "nobody"]),
        (ProbeShow, ["--guest", "canary", "--job", "mixed"]),
        (ProbeCompare, ["1", "--since", "soon"]),
        (ProbeTimetable, ["--until", "never"]),
    ],
)
def test_what_cannot_be_meant_is_64(shell: Shell, command: type, words: list[str]) -> None:
    shell.add()
    assert shell.run(command, *words) == 64


# --- show


def test_one_result_is_shown_with_all_that_speaks_for_or_against_it(shell: Shell) -> None:
    shell.add(timedelta(hours=3), job=JobName.MIXED)
    id_ = shell.add(
        job=JobName.MIXED,
        finding=SHORT,
        circumstances=OSD_DOWN,
        measured=a_measurement(a_flow([41 * MS] * 99), a_flow([60 * MS, 20_000 * MS], 31_250 * MS), unfinished=8),
    )
    assert shell.run(ProbeShow, "--guest", "canary", "--job", "mixed") == 0
    assert line_of(shell.out, "result").split() == ["result", str(id_)]
    for words in (
        f"canary (instance-00000001, {GUEST})",
        "random read and write, 50 % reads, 16 KiB, 4 × 2 in flight, 30 s, file of 1 GiB",
        "1 osds down",
        "101 requests in 30.0 s: 3.4 IOPS",
        "(kept until ",
    ):
        assert words in shell.out
    assert line_of(shell.out, "unfinished").split() == ["unfinished", "8"]
    table = shell.out.partition("\n\n")[2].splitlines()
    assert table[0].split() == ["OF", "REQUESTS", "RATE", "P50", "P90", "P95", "P99", "P99.9", "P99.99", "MAX"]
    assert [row.split()[:2] for row in table[1:4]] == [["read", "99"], ["write", "2"], ["both", "101"]]
    assert table[2].split("  ")[-6:] == ["> 17 s"] * 5 + [" 31 s"]


def test_json_has_the_whole_of_it(shell: Shell) -> None:
    first = shell.add(finding=SHORT)
    told = shell.told(ProbeShow, str(first))
    assert told["id"] == first
    assert sum(count for *_, count in told["measured"]["read"]["histogram_ns"]) == 7530
    assert told["since"] == told["started"]
    assert told["job"]["io_depth"] == 2


def test_what_a_cell_of_csv_cannot_hold_is_json_in_it(shell: Shell) -> None:
    shell.add()
    assert shell.run(ProbeShow, "1", "-f", "csv") == 0
    (row,) = csv.DictReader(io.StringIO(shell.out))
    assert json.loads(row["measured"])["read"]["operations"] == 7530


def test_a_result_that_is_none_is_shown_without_a_table(shell: Shell) -> None:
    shell.add(measured=None, finding=a_finding(Verdict.FAILED, Why.AGENT_ABSENT), subject=a_subject(disk=None))
    assert shell.run(ProbeShow, "1") == 0
    assert "P50" not in shell.out
    assert line_of(shell.out, "disk").split(maxsplit=1)[1] == "unknown"
    assert "hw_qemu_guest_agent=yes" in line_of(shell.out, "verdict")


# --- compare


def test_a_run_is_compared_with_the_seven_days_before_it(shell: Shell) -> None:
    for days in (1, 2, 3, 4):
        shell.add(timedelta(days=days), iops=200, latency=40 * MS)
    shell.add(timedelta(days=8), iops=1, latency=MS)
    shell.add(timedelta(days=1), subject=a_subject(guest_uuid="another"), iops=1, latency=MS)
    newest = shell.add(iops=100, latency=80 * MS, finding=SHORT)
    assert shell.run(ProbeCompare, str(newest)) == 0
    assert "4 runs in the 7 d before, 24000 requests" in shell.out
    assert "200 before, 100 now (0.50×)" in line_of(shell.out, "IOPS  ")
    assert "4 kept" in line_of(shell.out, "verdicts before")
    p99 = next(row.split() for row in shell.out.splitlines() if " p99 " in row)
    assert p99[:2] == ["read", "p99"]
    assert p99[-1] in ("1.99×", "2.00×", "2.01×")
    assert "hardly known" not in shell.out
    assert shell.told(ProbeCompare, str(newest), "--since", "36h")["then"]["runs"] == 1


def test_nothing_to_compare_with_is_said_plainly_and_too_little_too(shell: Shell) -> None:
    first = shell.add(timedelta(days=1))
    assert shell.run(ProbeCompare, str(first)) == 0
    assert "nothing to compare with: no result of this guest, directory and job in the 7 d before" in shell.out
    assert "QUANTILE" not in shell.out
    second = shell.add(circumstances=Circumstances())
    assert shell.run(ProbeCompare, str(second)) == 0
    assert "only 1 run to compare with: too few for a reliable comparison" in shell.out
    assert "with other limits than now: 1 run" in shell.out
    assert shell.told(ProbeCompare, str(first))["then"] is None


# --- timetable

HOURLY = f"rules: [{{name: canaries, match: {{project: [{PROJECT}]}}, probe: {{every: 1h}}}}]"


def test_what_comes_is_listed_for_each_guest_that_a_rule_chooses(shell: Shell) -> None:
    shell.rules = HOURLY
    shell.hypervisor = FakeHypervisor(guest(1), guest(2))
    coming = [row for row in shell.told(ProbeTimetable, "--until", "3h") if row["state"] == "coming"]
    times = [datetime.fromisoformat(row["at"]) for row in coming]
    assert times == sorted(times)
    for name in ("instance-00000001", "instance-00000002"):
        mine = [at for row, at in zip(coming, times, strict=True) if row["guest"] == name]
        assert len(mine) == 3
        assert all(later - earlier == timedelta(hours=1) for earlier, later in pairwise(mine))
    assert coming[0]["jobs"] == ["read", "write", "mixed"]
    assert coming[0]["every"] == 3600
    assert shell.run(ProbeTimetable) == 0
    assert shell.out.splitlines()[-1].startswith("2 guests, ")
    assert set(shell.hypervisor.calls) == {"guests", "look"}, "a guest's QEMU is not asked for a timetable"


def test_a_table_has_the_next_probes_of_each_guest_and_how_many_more_follow(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("plimsoll_probes.cli.timetable.now", lambda: NOON)
    shell.rules, shell.hypervisor = HOURLY.replace("1h", "5m"), FakeHypervisor(guest(1), guest(2))
    assert shell.run(ProbeTimetable) == 0
    assert [shell.out.count(f"instance-0000000{number} ") for number in (1, 2)] == [8, 8], "one is due, seven follow"
    assert re.fullmatch(
        r"… and 562 more until 2026-11-21 11:58:16 UTC \(--all lists them\)", shell.out.splitlines()[-2]
    ), shell.out
    assert shell.run(ProbeTimetable, "--all") == 0
    assert [shell.out.count(f"instance-0000000{number} ") for number in (1, 2)] == [289, 289]
    assert " more until " not in shell.out
    assert len(shell.told(ProbeTimetable)) == 578
    assert shell.run(ProbeTimetable, "--until", "30m") == 0
    assert " more until " not in shell.out


def test_why_a_guest_waits_stands_in_the_timetable(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plimsoll_probes.cli.timetable.now", lambda: NOON)
    shell.rules, shell.hypervisor = HOURLY.replace("1h", "10m"), FakeHypervisor(guest(1))
    shell.history.postpone(replace(a_postponed(timedelta(0), guest_uuid=uuid_of(1)), at=NOON))
    assert shell.run(ProbeTimetable, "--until", "5m") == 0
    assert "Ceph is unhealthy (OSD_DOWN)" in line_of(shell.out, "postponed: may start for")
    (row, *_) = shell.told(ProbeTimetable)
    assert (row["state"], row["why"]) == ("postponed", "unhealthy")


def test_a_paused_node_says_that_its_timetable_does_not_hold(shell: Shell) -> None:
    shell.rules, shell.hypervisor = HOURLY, FakeHypervisor(guest(1))
    for paused in (False, True):
        if paused:
            (shell.directory / "paused").write_text("import\nruns")
        assert shell.run(ProbeTimetable) == 0
        assert ("No probe starts: paused by" in shell.err) is paused
        assert "canaries" in shell.out


def test_without_a_rule_with_probe_the_timetable_is_empty_and_says_so(shell: Shell) -> None:
    shell.hypervisor = FakeHypervisor(guest(1))
    assert shell.run(ProbeTimetable) == 0
    sentence = "No rule with probe chooses a guest of this node; to probe one, add probe to a rule that matches it"
    assert shell.out == f"{sentence}\n"
    assert shell.told(ProbeTimetable) == []


def test_a_guest_that_cannot_be_looked_at_costs_itself_and_the_status(shell: Shell) -> None:
    shell.rules = HOURLY
    broken = replace(guest(1), name=HOSTILE, xml="<no xml")
    shell.hypervisor = FakeHypervisor(broken, guest(2))
    assert shell.run(ProbeTimetable) == 1
    assert "instance-00000002" in shell.out
    assert "cannot be parsed" in shell.err
    assert (shell.out + shell.err).replace("\n", "").isprintable()


def test_broken_rules_stop_the_timetable_with_a_sentence(shell: Shell, caplog: pytest.LogCaptureFixture) -> None:
    shell.rules = "rules: [{name: x, match: {project: [x]}, probe: {every: never}}]"
    assert shell.run(ProbeTimetable) == 1
    assert "rules.yaml:1" in caplog.text


def a_target(number: int = 1, every: timedelta = timedelta(hours=1), **other: Any) -> PlannedTarget:
    its_guest = Guest(uuid=uuid_of(number), name=f"g{number}", run="1")
    return PlannedTarget(its_guest, "/srv", "canaries", node="node1", probing=Probing(every), **other)


def states(listed: list[TimetableEntry]) -> list[ScheduleState]:
    return [entry.state for entry in listed]


TARGET = a_target()
TIME = timetable.previous(TARGET, NOON)
MINUTE = timedelta(minutes=1)
LATE = 900.0


def postponed_at(at: datetime) -> Postponed:
    return Postponed(
        at=at,
        node="node1",
        guest_uuid=TARGET.guest.uuid,
        guest_name="g1",
        directory="/srv",
        why=Why.NO_SLOT,
        facts={"detail": "3 of 3 are taken"},
    )


@pytest.mark.parametrize(
    ("last", "postponed", "after", "state"),
    [
        (None, None, 5, ScheduleState.DUE),
        (-60, None, 5, ScheduleState.DUE),
        (-60, 2, 5, ScheduleState.POSTPONED),
        (-60, -30, 5, ScheduleState.DUE),
        (2, None, 5, None),
        (4, 2, 5, None),
        (-60, None, 16, ScheduleState.MISSED),
        (-60, 2, 16, ScheduleState.MISSED),
        (None, 2, 16, ScheduleState.MISSED),
        (None, None, 16, None),
        (2, None, 16, None),
    ],
)
def test_the_last_time_of_a_guest_is_listed_until_it_was_used(
    last: int | None, postponed: int | None, after: int, state: ScheduleState | None
) -> None:
    """In minutes from that time; a guest that was never probed nor put off is new, and has missed nothing."""
    begun = {} if last is None else {TARGET.key: TIME + last * MINUTE}
    reasons = [] if postponed is None else [postponed_at(TIME + postponed * MINUTE)]
    now = TIME + after * MINUTE
    listed = entries([TARGET], begun, reasons, now, now + timedelta(hours=1), LATE)
    assert states(listed) == [*([state] if state else []), ScheduleState.COMING]
    if state is not None:
        assert listed[0].at == TIME
        assert (listed[0].postponed is not None) is (postponed == 2)


def test_a_guest_that_has_no_time_until_then_is_listed_with_its_next_one() -> None:
    weekly, ending = a_target(1, timedelta(days=7)), a_target(2, timedelta(days=7), until=NOON + timedelta(minutes=1))
    begun = dict.fromkeys((weekly.key, ending.key), NOON)
    listed = entries([weekly, ending], begun, [], NOON, NOON + timedelta(hours=1), LATE)
    assert [(entry.target, entry.at) for entry in listed] == [(weekly, timetable.following(weekly, NOON))]


@pytest.mark.parametrize("command", [ProbeShow, ProbeHistory])
def test_a_name_of_two_servers_shows_neither_and_a_guests_own_name_comes_first(
    tmp_path: Path, command: type, caplog: pytest.LogCaptureFixture
) -> None:
    shell = Shell(tmp_path)
    shell.add(subject=a_subject(guest_name="instance-00000001"))
    two = {"guest_uuid": uuid_of(2), "guest_name": "instance-00000002"}
    shell.add(timedelta(minutes=2), subject=a_subject(**two, disk=f"{uuid_of(2)}/x"))
    three = {"guest_uuid": uuid_of(3), "guest_name": "instance-00000003", "display_name": "instance-00000001"}
    shell.add(timedelta(minutes=1), subject=a_subject(**three, disk=f"{uuid_of(3)}/x"))
    assert shell.run(command, "--guest", "canary") == 64
    assert "2 servers are named 'canary': instance-00000001, instance-00000002" in caplog.text
    assert shell.run(command, "--guest", "instance-00000001") == 0
    assert "instance-00000003" not in shell.out
