"""``plimsoll probe run``: whom it probes, what its status promises, and what it leaves behind whatever happens."""

from __future__ import annotations

import fcntl
import io
import json
import os
import re
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from plimsoll_agent.config import settings as config
from plimsoll_agent.config.settings import Settings
from plimsoll_agent.errors import Unreachable
from plimsoll_agent.model.memory import BrakeMemory, Remembered
from plimsoll_agent.reconcile.health_gate import BlockingCheck
from plimsoll_agent.store import clock
from plimsoll_agent.store.clock import TrustedTime
from plimsoll_agent.store.state import Memory, State
from plimsoll_agent.util.frozen import replace
from plimsoll_probes.cli.run import ProbeRun, as_of_now
from plimsoll_probes.execute import runner
from plimsoll_probes.guest import qga_exec
from plimsoll_probes.model.finding import Verdict, Why
from plimsoll_probes.model.job import JobName
from plimsoll_probes.model.result import ProbeResult
from plimsoll_probes.store.history import LOCK, History
from tests.fakes import PROJECT, VOLUME, FakeGuest, FakeHypervisor, raising, volume
from tests.unit.nobody import as_nobody
from tests.unit.node import uuid_of
from tests.unit.person import Person
from tests.unit.probed import IOPS, LIMIT, MIB, Here, ProbedGuest
from tests.unit.results import a_probe, a_subject
from tests.unit.values import NOON, a_situation

DAY = 86400
RULES = f"rules: [{{name: canaries, match: {{project: [{PROJECT}]}}, probe: {{every: 24h, jobs: [read]}}}}]"
HOSTILE = "a\x9b2J\u202eb[red]c[/]:bomb:\nd"
PATIENT = 10.0
HEALTHY: tuple[BlockingCheck, ...] = ()
DOWN = (BlockingCheck("OSD_DOWN"),)
"""No check blocks: no cluster is asked for leave."""


class QuickGuest(ProbedGuest):
    """One whose programs have ended whenever it is asked."""

    def ask(self, request: str, seconds: int) -> str:
        self.now += 100
        return super().ask(request, seconds)


def a_guest(number: int, pool: str = "volumes", **other: Any) -> QuickGuest:
    disk = replace(volume(f"aaaaa{number:03}-001a-4ea4-a2eb-d491b58efc11", pool=pool), actual=LIMIT, defined=LIMIT)
    values = {"name": f"instance-{number:08}", "display_name": f"canary-{number}"} | other
    qemu = FakeGuest(uuid=uuid_of(number), disks={"vdb": disk}, **values)
    return QuickGuest(qemu=qemu, operations=IOPS, runtime=1)


class Shell(Person):
    """A person, or a timer, at a node with guests that are fakes."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.state = directory / "state"
        self.history = History(self.state / "probes.sqlite")
        self.machine = QuickGuest(operations=IOPS, runtime=1)
        self.rules = RULES
        self.probe: dict[str, Any] = {}
        """Other settings than the usual ones."""
        self.blocking = HEALTHY
        self.textfiles: Path | None = None
        self.has(a_guest(1))
        self.stdout = io.StringIO()
        self.agents = 0

    def has(self, *guests: QuickGuest) -> None:
        self.guests = {guest.qemu.uuid: guest for guest in guests}
        self.hypervisor = FakeHypervisor(*(guest.qemu for guest in guests))

    @property
    def guest(self) -> QuickGuest:
        return next(iter(self.guests.values()))

    def settings(self) -> Settings:
        known = config.load([], [])
        probe = replace(known.probe, seconds=1, file_size=64 * MIB, directory="/mnt", late=DAY)
        return replace(
            known,
            state_dir=self.state,
            pause_file=self.directory / "paused",
            rules_file=self.directory / "rules.yaml",
            ceph=replace(known.ceph, conf_files=(), blocking_checks=self.blocking),
            probe=replace(probe, **self.probe),
            metrics=replace(known.metrics, textfile_dir=self.textfiles),
        )

    def run(self, *words: str) -> int:
        (self.directory / "rules.yaml").write_text(self.rules)

        @contextmanager
        def agents(*_: object) -> Iterator[Callable[[str, str, int], str]]:
            self.agents += 1
            yield lambda uuid, request, seconds: self.guests[uuid].ask(request, seconds)

        # This machine is probed without libvirt.
        hypervisor = None if "--here" in words else self.hypervisor
        try:
            return self.types(
                ProbeRun,
                *words,
                settings=self.settings(),
                hypervisor=hypervisor,
                stdout=self.stdout,
                agents=agents,
                here=lambda _: Here(self.machine),
            )
        finally:
            self.stdout.seek(0)
            self.stdout.truncate()

    def told(self, *words: str) -> Any:
        """``-f json``, as a program reads it; its status aside."""
        self.run(*words, "-f", "json")
        return json.loads(self.out)

    def probed(self) -> list[str]:
        """The guests, as often as something was run in them."""
        return [guest.qemu.name for guest in self.guests.values() if guest.verbs]

    def kept(self) -> list[tuple[str, Verdict]]:
        """What is in the history."""
        return [(result.subject.guest_name, result.finding.verdict) for result in reversed(self.history.runs())]


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.setattr(qga_exec, "_FIRST_PAUSE", 0.001)  # the fakes need no time
    return Shell(tmp_path)


def eventually(true: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENT
    while not true():
        assert time.monotonic() < end
        time.sleep(0.002)


# --- which guests, which jobs


def test_only_guests_that_a_rule_chooses_are_probed(shell: Shell) -> None:
    shell.has(a_guest(1), a_guest(2, project="0" * 32), a_guest(3))
    assert shell.run() == 0
    assert shell.probed() == ["instance-00000001", "instance-00000003"]
    assert [line.split()[0] for line in shell.out.splitlines()] == ["canary-1", "canary-3"]
    assert shell.kept() == [("instance-00000001", Verdict.KEPT), ("instance-00000003", Verdict.KEPT)]


@pytest.mark.parametrize("name", ["instance-00000002", uuid_of(2), uuid_of(2).upper(), "canary-2"])
def test_a_guest_is_meant_by_any_of_its_names(shell: Shell, name: str) -> None:
    shell.has(a_guest(1), a_guest(2), a_guest(3))
    assert shell.run("--guest", name) == 0
    assert shell.probed() == ["instance-00000002"]


def test_a_name_of_two_servers_probes_neither_and_a_guests_own_name_comes_first(
    shell: Shell, caplog: pytest.LogCaptureFixture
) -> None:
    shell.has(a_guest(1), a_guest(2, display_name="canary-1"), a_guest(3, display_name="instance-00000001"))
    assert shell.run("--guest", "canary-1") == 64
    assert "2 servers are named 'canary-1': instance-00000001, instance-00000002" in caplog.text
    assert shell.run("--guest", "instance-00000001") == 0
    assert shell.probed() == ["instance-00000001"]


def test_several_guests_may_be_meant(shell: Shell) -> None:
    shell.has(a_guest(1), a_guest(2), a_guest(3))
    assert shell.run("--guest", "canary-3", "--guest", "canary-1", "--guest", uuid_of(1)) == 0
    assert shell.probed() == ["instance-00000001", "instance-00000003"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("canary-2", "no rule with probe chooses this guest, and only chosen guests are probed"),
        ("canary-3\x9b2J", "canary-3?2J: no running guest of this node with an RBD disk has this name or uuid"),
    ],
)
def test_a_guest_that_is_not_chosen_or_not_there_is_64_and_a_sentence(
    shell: Shell, name: str, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    shell.has(a_guest(1), a_guest(2, project="0" * 32))
    assert shell.run("--guest", "canary-1", "--guest", name) == 64
    assert words in caplog.text
    assert shell.probed() == []


def test_a_guest_that_could_not_be_looked_at_is_not_said_to_be_away(
    shell: Shell, caplog: pytest.LogCaptureFixture
) -> None:
    shell.has(a_guest(1), a_guest(2, xml="<no xml"))
    assert shell.run("--guest", "instance-00000002") == 1
    assert "no guest" not in caplog.text
    assert shell.run("--guest", "instance-00000001") == 0


def test_a_guest_that_could_not_be_looked_at_costs_itself_and_the_status(shell: Shell) -> None:
    shell.has(a_guest(1), a_guest(2, xml="<no xml"))
    assert shell.run() == 3
    assert shell.probed() == ["instance-00000001"]
    assert shell.err.startswith("instance-00000002")


def test_where_no_rule_chooses_anybody_that_is_said(shell: Shell) -> None:
    shell.rules = "{}"
    assert shell.run() == 0
    assert shell.out == "No guest of this node is chosen by a rule with probe; see plimsoll-rules(5).\n"
    assert shell.told() == {"results": [], "postponed": [], "nothing": "not-chosen"}
    assert not shell.state.exists()


@pytest.mark.parametrize(
    ("words", "jobs"),
    [
        ([], ["read"]),
        (["--job", "write"], ["write"]),
        (["--job", "mixed", "--job", "read"], ["mixed", "read"]),
        (["--job", "read", "--job", "read"], ["read"]),
    ],
)
def test_jobs_are_those_of_the_rule_or_those_that_are_asked_for_in_that_order(
    shell: Shell, words: list[str], jobs: list[str]
) -> None:
    told = shell.told(*words)
    assert ([result["job"]["name"] for result in told["results"]], told["nothing"]) == (jobs, None)
    shell.run(*words, "-f", "yaml")
    assert yaml.safe_load(shell.out).keys() == told.keys()


# --- what is due


def a_run_of(guest: QuickGuest, ago: timedelta = timedelta(0)) -> ProbeResult:
    subject = a_subject(guest_uuid=guest.qemu.uuid, guest_name=guest.qemu.name, directory="/mnt")
    return a_probe(started=datetime.now(UTC) - ago, subject=subject)


def test_only_what_is_due_is_probed_and_nothing_twice_in_its_time(shell: Shell) -> None:
    shell.has(a_guest(1), a_guest(2))
    shell.state.mkdir()
    shell.history.add(a_run_of(shell.guest))
    assert shell.run("--due") == 0
    assert shell.probed() == ["instance-00000002"]
    assert shell.run("--due") == 0
    assert shell.out == "Nothing is due.\n"
    assert shell.told("--due") == {"results": [], "postponed": [], "nothing": "not-due"}
    assert len(shell.kept()) == 2
    assert shell.agents == 1, "a timer that finds nothing to do needs no second connection"


def test_what_another_run_probed_while_this_one_looked_at_guests_is_not_due_any_more(shell: Shell) -> None:
    """What is due is settled under the lock; else two timers that overlap probe a guest twice."""
    shell.state.mkdir()

    def other_run() -> None:
        shell.history.add(a_run_of(shell.guest))

    shell.hypervisor.before["look"] = other_run
    assert shell.run("--due") == 0
    assert shell.probed() == []


def test_what_became_too_late_while_it_waited_is_not_begun(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    shell.has(a_guest(1), a_guest(2))
    shell.probe = {"late": DAY // 2}
    later = [timedelta(0)]

    class Later(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:  # type: ignore[override]
            return datetime.now(tz) + later[0]

    def takes_a_day() -> None:
        later[0] = timedelta(days=1)

    monkeypatch.setattr(runner, "datetime", Later)
    monkeypatch.setattr("plimsoll_probes.schedule.timetable._phase", lambda _: int(time.time()) % DAY - 60)
    for guest in shell.guests.values():
        guest.meanwhile = takes_a_day
    assert shell.run("--due") == 0
    assert len(shell.probed()) == 1


def test_a_paused_node_begins_nothing_that_is_due_and_a_person_probes_all_the_same(shell: Shell) -> None:
    (shell.directory / "paused").write_text("import\nruns")
    assert shell.run("--due") == 3
    assert shell.out.startswith("No probe starts: paused by")
    assert (shell.probed(), shell.hypervisor.calls) == ([], [])
    assert shell.told("--due") == {"results": [], "postponed": [], "nothing": "paused"}
    assert shell.err.startswith("No probe starts: paused by")
    assert shell.run() == 0
    assert shell.probed() == ["instance-00000001"]


def test_a_pause_that_begins_in_between_holds_what_was_not_begun(shell: Shell) -> None:
    shell.has(a_guest(1), a_guest(2), a_guest(3))
    for guest in shell.guests.values():
        guest.meanwhile = (shell.directory / "paused").touch
    assert shell.run("--due") == 3
    assert len(shell.probed()) == 1
    assert [one.why for one in shell.history.postponed()] == [Why.PAUSED, Why.PAUSED]
    assert shell.out.count("postponed: this node is paused") == 2


# --- a dry run


@pytest.mark.parametrize("words", [[], ["--due"], ["--here"], ["--guest", "canary-1"]])
@pytest.mark.parametrize("form", ["text", "json"])
def test_a_dry_run_touches_nothing(shell: Shell, words: list[str], form: str) -> None:
    shell.textfiles = shell.directory / "textfiles"
    shell.textfiles.mkdir()
    assert shell.run("--dry-run", *words, "-f", form) == 0
    assert "/mnt" in shell.out
    assert (shell.state.exists(), [*shell.textfiles.iterdir()]) == (False, []), "and Prometheus is told nothing"
    assert (shell.agents, shell.guest.asked, shell.machine.verbs) == (0, [], [])
    assert set(shell.hypervisor.calls) <= {"guests", "look"}
    if form == "text":
        assert shell.out.endswith("1 to probe. Dry run: nothing was done.\n")


def test_a_dry_run_needs_no_lock_and_leaves_a_corrupt_history_to_those_who_write(
    shell: Shell, caplog: pytest.LogCaptureFixture
) -> None:
    shell.state.mkdir()
    with held(shell.state / LOCK):
        assert shell.run("--dry-run") == 0
        assert shell.run("--dry-run", "--due") == 0
    corrupt(shell)
    assert shell.run("--dry-run") == 0
    assert shell.run("--dry-run", "--due") == 1
    assert "the next plimsoll probe run sets it aside" in caplog.text
    assert sorted(path.name for path in shell.state.iterdir()) == [LOCK, "probes.sqlite"]


def test_a_dry_run_says_which_guest_where_by_which_rule_and_which_jobs(shell: Shell) -> None:
    told = {"guest": "instance-00000001", "guest_uuid": uuid_of(1), "directory": "/mnt", "rule": "canaries"}
    assert shell.told("--dry-run") == [{**told, "jobs": ["read"]}]
    assert shell.told("--dry-run", "--job", "mixed", "--job", "write") == [{**told, "jobs": ["mixed", "write"]}]
    shell.run("--dry-run")
    assert shell.out.splitlines()[0] == 'instance-00000001  /mnt  read  (rule "canaries")'
    (here,) = shell.told("--dry-run", "--here", "--directory", "/srv//probes/")
    assert (here["directory"], here["rule"], here["jobs"]) == ("/srv/probes", None, ["read", "write", "mixed"])


# --- this machine


@pytest.mark.parametrize(
    ("limits", "status", "verdict"),
    [
        (["--limits", "total_iops_sec=250"], 0, "kept"),
        (["--limits", "total_iops_sec=1000"], 3, "short"),
        (["--limits", "unlimited"], 0, "no-limit"),
        ([], 3, "inconclusive"),
    ],
)
def test_this_machine_is_held_to_the_limits_that_are_said(
    shell: Shell, limits: list[str], status: int, verdict: str
) -> None:
    assert shell.run("--here", "--job", "read", *limits) == status
    assert f" {verdict}" in shell.out
    assert shell.machine.verbs == ["look", "fill", "run", "piece", "clean"]
    (result,) = shell.history.runs()
    assert (result.subject.guest_name, result.subject.disk) == (os.uname().nodename, None)


@pytest.mark.parametrize(
    "words",
    [
        ["--limits", "total_iops_sec=500"],
        ["--limits", ""],
        ["--directory", "/srv"],
        ["--directory", ""],
        ["--here", "--limits", ""],
        ["--here", "--limits", "total_iops=500"],
        ["--here", "--limits", "total_iops_sec=many"],
        ["--here", "--directory", ""],
        ["--here", "--directory", "srv"],
        ["--here", "--directory", "/dev"],
        ["--here", "--directory", "/srv/../etc"],
        ["--here", "--directory", "/srv;reboot"],
        ["--due", "--ignore-health"],
    ],
)
def test_what_cannot_be_meant_is_64_and_nothing_is_touched(shell: Shell, words: list[str]) -> None:
    assert shell.run(*words) == 64
    assert not shell.state.exists()
    assert (shell.guest.asked, shell.machine.verbs, shell.hypervisor.calls) == ([], [], [])


# --- health


def test_a_cluster_of_unknown_health_is_left_alone_unless_an_operator_says_otherwise(shell: Shell) -> None:
    shell.blocking = DOWN
    assert shell.run() == 3
    assert "postponed: Ceph is unhealthy" in shell.out
    assert shell.guest.asked == []
    (postponed,) = shell.history.postponed()
    assert postponed.why is Why.UNHEALTHY
    assert shell.run("--ignore-health") == 0
    assert shell.kept() == [("instance-00000001", Verdict.KEPT)]


# --- rules that are broken


@pytest.mark.parametrize(("operations", "verdict"), [(IOPS, Verdict.KEPT), (50, Verdict.SHORT)])
def test_broken_rules_probe_by_the_last_good_ones_with_status_1(
    shell: Shell, operations: int, verdict: Verdict
) -> None:
    shell.state.mkdir()
    (shell.state / "rules.last.yaml").write_text(RULES)
    shell.rules, shell.guest.operations = "broken", operations
    assert shell.run() == 1
    assert "Using the last good rules" in shell.err
    assert shell.kept() == [("instance-00000001", verdict)]


def test_broken_rules_without_good_ones_before_probe_no_guest(shell: Shell) -> None:
    shell.rules = "broken"
    assert shell.run() == 1
    assert shell.probed() == []


# --- alone on the node


@contextmanager
def held(path: Path) -> Iterator[None]:
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o640)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


@pytest.mark.parametrize("words", [[], ["--due"], ["--here"]])
def test_while_another_run_is_under_way_nothing_is_begun(
    shell: Shell, words: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    shell.state.mkdir()
    with held(shell.state / LOCK):
        assert shell.run(*words) == 75
        assert "another plimsoll probe run is active on this node; nothing was started" in caplog.text
        assert (shell.probed(), shell.machine.verbs) == ([], [])
    assert shell.run(*words) != 1, "the lock goes with who held it"


def test_the_lock_is_held_until_the_last_probe_is_cleaned_away(shell: Shell) -> None:
    statuses: list[int] = []

    def second() -> None:
        lock = os.open(shell.state / LOCK, os.O_RDONLY)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            statuses.append(0)
        except BlockingIOError:
            statuses.append(1)
        finally:
            os.close(lock)

    clean = shell.guest._clean

    def cleaning() -> Any:
        second()
        return clean()

    shell.guest._clean = cleaning  # type: ignore[method-assign]
    shell.run()
    assert statuses == [1]


def test_output_that_would_block_is_not_taken_for_another_run(shell: Shell) -> None:
    class Full(io.StringIO):
        def write(self, text: str, /) -> int:
            raise BlockingIOError(11, "Resource temporarily unavailable")

    shell.stdout = Full()
    assert shell.run() == 1
    assert shell.kept() == [("instance-00000001", Verdict.KEPT)]


# --- the history


def corrupt(shell: Shell) -> None:
    shell.state.mkdir(exist_ok=True)
    (shell.state / "probes.sqlite").write_text("this is no database, but it is long enough to look like one " * 99)


@pytest.mark.parametrize("words", [[], ["--due"]])
def test_a_corrupt_history_is_set_aside_and_said_and_ends_no_run(
    shell: Shell, words: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Else a timer, which reads before it writes, would fail for ever."""
    corrupt(shell)
    assert shell.run(*words) == 0
    assert "it is kept as probes.sqlite.corrupt, and a new history begun" in caplog.text
    assert (shell.state / "probes.sqlite.corrupt").read_text().startswith("this is no database")
    assert shell.kept() == [("instance-00000001", Verdict.KEPT)]


def test_results_that_cannot_be_kept_are_shown_all_the_same(shell: Shell, caplog: pytest.LogCaptureFixture) -> None:
    shell.has(a_guest(1), a_guest(2))
    (shell.state / "probes.sqlite").mkdir(parents=True)
    told = shell.told()
    assert [(result["guest"], result["verdict"]) for result in told["results"]] == [
        ("instance-00000001", "kept"),
        ("instance-00000002", "kept"),
    ]
    assert [result["id"] for result in told["results"]] == [None, None]
    assert shell.run() == 3
    assert shell.out.count("kept") == 2
    assert str(shell.state / "probes.sqlite") in caplog.text


def test_a_state_directory_that_has_become_read_only_costs_the_history_and_no_result() -> None:
    with tempfile.TemporaryDirectory() as name:
        shell = Shell(Path(name))
        shell.directory.chmod(0o777)
        shell.run()
        assert shell.kept() == [("instance-00000001", Verdict.KEPT)]
        for path in shell.state.iterdir():
            path.chmod(0o444)
        shell.state.chmod(0o555)
        (shell.directory / "rules.yaml").unlink()
        try:
            with as_nobody():
                assert shell.run() == 3
            assert "  kept  (limit " in shell.out
            with as_nobody():
                assert shell.run("--due") == 1, "a timer would probe at every tick what is noted nowhere"
            assert len(shell.kept()) == 1
        finally:
            shell.state.chmod(0o755)


def test_who_was_put_off_and_cannot_be_noted_is_said_all_the_same(shell: Shell) -> None:
    shell.blocking = DOWN
    (shell.state / "probes.sqlite").mkdir(parents=True)
    assert shell.run() == 3
    assert "postponed: Ceph is unhealthy" in shell.out


def test_without_a_history_that_can_be_read_it_is_unknown_what_is_due(shell: Shell) -> None:
    """Then nothing is: a timer would probe the same guests every few minutes."""
    (shell.state / "probes.sqlite").mkdir(parents=True)
    assert shell.run("--due") == 1
    assert shell.probed() == []


def test_a_result_says_since_when_there_is_trouble(shell: Shell) -> None:
    shell.state.mkdir()
    shell.history.add(a_run_of(shell.guest, timedelta(hours=2)))
    shell.guest.operations = 50
    assert shell.run() == 3
    assert "; since " in shell.out


@pytest.mark.parametrize("words", [(), ("--due",)])
def test_a_clock_that_is_far_ahead_for_one_run_removes_no_result(
    shell: Shell, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "synchronised", lambda: False)
    now = datetime.now(UTC)
    state = State(shell.state)
    state.prepare()
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    clock.save(state.clock, TrustedTime(now - timedelta(days=200), boot, clock.uptime()))
    shell.history.add(a_run_of(shell.guest, timedelta(days=201)))
    shell.run(*words)
    assert len(shell.kept()) == 2


def test_results_that_are_too_old_go_after_a_run(shell: Shell) -> None:
    shell.state.mkdir()
    shell.history.add(a_run_of(shell.guest, timedelta(days=1000)))
    shell.run()
    assert len(shell.kept()) == 1


# --- exit statuses


def short(guest: QuickGuest) -> None:
    guest.operations = 50


def fails(guest: QuickGuest) -> None:
    guest.disabled.add("guest-exec")


def odd(guest: QuickGuest) -> None:
    def ask(request: str, seconds: int) -> str:
        raise RuntimeError("nobody foresaw")

    guest.ask = ask  # type: ignore[method-assign]


def fine(guest: QuickGuest) -> None:
    """As it is."""


@pytest.mark.parametrize(
    ("what", "status"),
    [
        ([fine, fine], 0),
        ([fine, short], 3),
        ([short, short], 3),
        ([fine, fails], 3),
        ([fails, fails], 1),
        ([short, fails], 3),
        ([fine, odd], 3),
        ([odd, odd], 1),
        ([fails, odd], 1),
    ],
)
def test_the_status_says_whether_all_some_or_none_is_as_promised(
    shell: Shell, what: Sequence[Callable[[QuickGuest], None]], status: int
) -> None:
    guests = [a_guest(1), a_guest(2)]
    for befalls, guest in zip(what, guests, strict=True):
        befalls(guest)
    shell.has(*guests)
    assert shell.run() == status


def test_an_unforeseen_error_costs_its_guest_only_and_is_called_a_bug(
    shell: Shell, caplog: pytest.LogCaptureFixture
) -> None:
    shell.has(a_guest(1), a_guest(2, name=HOSTILE.replace("\n", "")), a_guest(3))
    shell.guests[uuid_of(2)].meanwhile = raising(RuntimeError("nobody foresaw"))
    assert shell.run() == 3
    assert [name for name, _ in shell.kept()] == ["instance-00000001", "instance-00000003"]
    (record,) = [record for record in caplog.records if "this is a bug in plimsoll" in record.getMessage()]
    assert record.exc_info
    assert record.getMessage().isprintable()
    assert shell.guests[uuid_of(2)].verbs == ["look", "fill", "run", "clean"]


def test_a_region_that_is_unreachable_by_these_settings_ends_the_run_with_the_reason(
    shell: Shell, caplog: pytest.LogCaptureFixture
) -> None:
    shell.has(a_guest(1), a_guest(2))
    shell.probe = {"coordination": "zookeeper://127.0.0.1"}
    with handlers(signal.SIGTERM, action=not_ours):
        assert shell.run() == 1
        assert signal.getsignal(signal.SIGTERM) is not_ours, "signals are what they were"
    (record,) = caplog.records
    assert record.getMessage().startswith("[probe] coordination")
    assert shell.probed() == []


# --- signals


@contextmanager
def handlers(*numbers: int, action: Any) -> Iterator[None]:
    before = {number: signal.signal(number, action) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def not_ours(number: int, frame: object) -> None:
    """Whoever calls this was not stopped."""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_probes_keeps_the_results_and_leaves_no_file(
    shell: Shell, number: signal.Signals, caplog: pytest.LogCaptureFixture
) -> None:
    shell.has(a_guest(1), a_guest(2), a_guest(3))

    def interrupt() -> None:
        del shell.hypervisor.by_uuid[uuid_of(3)]  # whoever looks at it now has a result to tell
        os.kill(os.getpid(), number)
        eventually(lambda: number.name in caplog.text)
        os.kill(os.getpid(), number)
        time.sleep(0.02)

    shell.guests[uuid_of(2)].meanwhile = interrupt
    with handlers(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, action=not_ours):
        assert shell.run("--job", "read", "--job", "write") == 1
        assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == [not_ours] * 3
    assert shell.kept() == [("instance-00000001", Verdict.KEPT)] * 2
    assert shell.guests[uuid_of(2)].verbs == ["look", "fill", "run", "clean"]
    assert shell.guests[uuid_of(3)].asked == []
    assert shell.out.count("kept") == 2
    assert [record.getMessage() for record in caplog.records if number.name in record.getMessage()] == [
        f"{number.name}: stopping the running probes and removing their files"
    ]


def test_who_ignores_a_signal_goes_on_ignoring_it(shell: Shell) -> None:
    """Under nohup a terminal that goes away is nobody's business."""
    shell.guest.meanwhile = lambda: os.kill(os.getpid(), signal.SIGHUP)
    with handlers(signal.SIGHUP, action=signal.SIG_IGN):
        assert shell.run() == 0


# --- what is said


def test_json_is_one_document_of_results_and_what_was_put_off(shell: Shell) -> None:
    shell.has(a_guest(1), a_guest(2))
    told = shell.told("--job", "write", "--job", "read")
    assert set(told) == {"results", "postponed", "nothing"}
    assert [(one["guest"], one["job"]["name"]) for one in told["results"]] == [
        (f"instance-0000000{number}", job) for number in (1, 2) for job in ("write", "read")
    ]
    assert [one["id"] for one in told["results"]] == [1, 2, 3, 4]
    shell.blocking = DOWN
    assert [one["why"] for one in shell.told()["postponed"]] == ["unhealthy", "unhealthy"]


def hostile(**other: Any) -> QuickGuest:
    return a_guest(1, name=HOSTILE, display_name=HOSTILE, **other)


@pytest.mark.parametrize("words", [[], ["--dry-run"]])
@pytest.mark.parametrize("blocking", [HEALTHY, DOWN])
def test_no_name_reaches_the_terminal_as_it_is(
    shell: Shell, words: list[str], blocking: tuple[BlockingCheck, ...]
) -> None:
    shell.has(hostile())
    shell.blocking = blocking
    shell.run(*words)
    assert "a?2J?b[red]c[/]:bomb:?d" in shell.out
    assert [line for line in shell.out.split("\n") if not line.isprintable()] == []


def test_a_program_reads_names_as_they_are(shell: Shell) -> None:
    shell.has(hostile())
    assert shell.told()["results"][0]["guest"] == HOSTILE
    assert shell.out.isascii()


def test_no_name_reaches_a_terminal_with_bars_as_it_is(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm-256color")
    shell.has(hostile())
    shell.stdout = Terminal()
    assert shell.run() == 0
    assert re.search(r"a\?2J\?b\[red\]c\[/\]:bomb:\?d \S+ \S+  read ", shell.out)
    assert not {"\x9b", "\u202e", "\N{BOMB}"} & set(shell.out)
    assert shell.out.count("  kept  (limit 250 IOPS)") == 1


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_reader_that_goes_away_leaves_no_probe_half_done(
    shell: Shell, form: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Gone(io.StringIO):
        def write(self, text: str, /) -> int:
            raise BrokenPipeError(32, "Broken pipe")

    shell.has(a_guest(1), a_guest(2))
    shell.stdout = Gone()
    assert shell.run("--job", "read", "--job", "write", "-f", form) == 1
    assert len(shell.kept()) == 4
    assert [guest.verbs[-1] for guest in shell.guests.values()] == ["clean", "clean"]
    assert caplog.text.count("standard output is closed") == 1


# --- how many at once


class Crowd:
    """How many of the guests run something at the same time."""

    def __init__(self, shell: Shell, together: int = 1) -> None:
        self.most = 0
        self._on = 0
        self._lock = threading.Lock()
        self._together = threading.Barrier(together)
        for guest in shell.guests.values():
            guest.meanwhile = self._runs

    def _runs(self) -> None:
        with self._lock:
            self._on += 1
            self.most = max(self.most, self._on)
        self._together.wait(PATIENT)
        time.sleep(0.02)
        with self._lock:
            self._on -= 1


def test_as_many_guests_are_probed_at_once_as_the_settings_say_and_no_more(shell: Shell) -> None:
    shell.has(*map(a_guest, range(1, 7)))
    shell.probe = {"at_once": 2}
    crowd = Crowd(shell, together=2)
    assert shell.run() == 0
    assert crowd.most == 2
    assert len(shell.kept()) == 6


def test_one_at_a_time_unless_the_settings_say_otherwise(shell: Shell) -> None:
    shell.has(*map(a_guest, range(1, 4)))
    crowd = Crowd(shell)
    assert shell.run() == 0
    assert crowd.most == 1


def test_two_guests_on_one_pool_are_never_probed_at_once_if_so_set(shell: Shell) -> None:
    shell.has(*map(a_guest, range(1, 5)))
    shell.probe = {"at_once": 4, "one_per_pool": True}
    crowd = Crowd(shell)
    assert shell.run() == 0
    assert crowd.most == 1
    assert len(shell.kept()) == 4


def test_every_job_of_a_rule_is_kept_under_the_name_of_the_rule_and_one_session(shell: Shell) -> None:
    shell.run("--job", "read", "--job", "mixed")
    results = shell.history.runs()
    assert {(result.rule, result.session) for result in results} == {("canaries", results[0].session)}
    assert {result.job.name for result in results} == {JobName.READ, JobName.MIXED}


# --- metrics


@pytest.fixture
def watched(shell: Shell) -> Shell:
    """A node whose node_exporter reads what is there."""
    shell.textfiles = shell.directory / "textfiles"
    shell.textfiles.mkdir()
    return shell


def told_prometheus(shell: Shell) -> str:
    """Its file, which is then gone."""
    assert shell.textfiles is not None
    file = shell.textfiles / "plimsoll-probe.prom"
    text = file.read_text()
    file.unlink()
    return text


def test_what_was_found_and_what_is_chosen_is_told_to_prometheus(watched: Shell) -> None:
    watched.has(a_guest(1), a_guest(2))
    assert watched.run("--due") == 0
    assert watched.run("--guest", "canary-1") == 0
    text = told_prometheus(watched)
    assert 'plimsoll_probe_verdict{directory="/mnt",domain="instance-00000001"' in text
    assert (
        f'plimsoll_probe_interval_seconds{{directory="/mnt",domain="instance-00000002",uuid="{uuid_of(2)}"}} 86400'
        in text
    )
    assert "plimsoll_probe_latency_seconds_count{" in text


def test_where_no_directory_is_set_none_is_written_to(shell: Shell) -> None:
    assert shell.run() == 0
    assert sorted(path.name for path in shell.directory.iterdir()) == ["rules.yaml", "state"]


def libvirt_is_down(shell: Shell) -> None:
    def down() -> None:
        raise Unreachable("libvirt is down")

    shell.hypervisor.before["guests"] = down


def paused(shell: Shell) -> None:
    (shell.directory / "paused").touch()


def not_due(shell: Shell) -> None:
    shell.state.mkdir()
    shell.history.add(a_run_of(shell.guest))


def fails_all(shell: Shell) -> None:
    fails(shell.guest)


def nobody_chosen(shell: Shell) -> None:
    shell.rules = "{}"


@pytest.mark.parametrize(
    ("state", "status"), [(libvirt_is_down, 1), (paused, 3), (not_due, 0), (nobody_chosen, 0), (fails_all, 1)]
)
def test_metrics_are_written_however_the_run_ends_and_leave_its_status(
    watched: Shell, state: Callable[[Shell], None], status: int
) -> None:
    """Else a file that grew old would be taken for a timer that stands still."""
    state(watched)
    assert watched.run("--due") == status
    assert "\nplimsoll_probe_written_timestamp_seconds " in told_prometheus(watched)


@pytest.mark.parametrize(("state", "status"), [(lambda _: None, 3), (libvirt_is_down, 1), (paused, 3)])
def test_metrics_that_cannot_be_written_are_one_line_and_status_3_where_it_would_be_0(
    shell: Shell, state: Callable[[Shell], None], status: int, caplog: pytest.LogCaptureFixture
) -> None:
    shell.textfiles = shell.directory / "none"
    state(shell)
    assert shell.run("--due") == status
    lines = [message for message in caplog.messages if "metrics cannot be written" in message]
    assert lines == [
        f"{shell.textfiles}/plimsoll-probe.prom: the metrics cannot be written: No such file or directory;"
        " see textfile_dir in [metrics]"
    ]


def test_what_is_chosen_is_kept_since_when_though_nothing_is_due(watched: Shell) -> None:
    watched.has(a_guest(1), a_guest(2))
    assert watched.run("--due") == 0
    one, _ = watched.history.chosen_targets()
    watched.has(a_guest(1))
    assert watched.run("--due") == 0
    (still,) = watched.history.chosen_targets()
    assert (still.guest_uuid, still.since, still.rule) == (one.guest_uuid, one.since, "canaries")
    assert still.seen > one.seen
    watched.rules = "{}"
    assert watched.run("--due") == 0
    assert watched.history.chosen_targets() == ()


@pytest.mark.parametrize("words", [[], ["--guest", "canary-2"]])
def test_a_run_by_hand_promises_no_other(watched: Shell, words: list[str]) -> None:
    """Nobody is to be told of a timer that does not run, or of probes that are late."""
    watched.has(a_guest(1), a_guest(2))
    assert watched.run(*words) == 0
    assert watched.history.chosen_targets() == ()
    text = told_prometheus(watched)
    assert "plimsoll_probe_interval_seconds" not in text
    assert "plimsoll_probe_round_timestamp_seconds" not in text
    assert watched.run("--due") == 0
    assert "\nplimsoll_probe_round_timestamp_seconds " in told_prometheus(watched)


def test_a_guest_that_is_meant_leaves_the_others_chosen(shell: Shell) -> None:
    shell.has(a_guest(1), a_guest(2))
    assert shell.run("--due") == 0
    assert shell.run("--guest", "canary-2") == 0
    assert len(shell.history.chosen_targets()) == 2


def test_a_guest_that_cannot_be_looked_at_stays_chosen(shell: Shell) -> None:
    shell.has(a_guest(1), a_guest(2))
    shell.run("--due")
    shell.has(a_guest(1), a_guest(2, xml="<no xml"))
    shell.run("--due")
    assert [each.guest_name for each in shell.history.chosen_targets()] == ["instance-00000001", "instance-00000002"]


def test_this_machine_is_not_among_the_chosen(watched: Shell) -> None:
    watched.run("--due")
    assert watched.run("--here", "--job", "read", "--limits", "unlimited") == 0
    assert [each.guest_name for each in watched.history.chosen_targets()] == ["instance-00000001"]
    assert f'domain="{os.uname().nodename}"' in told_prometheus(watched)


def test_a_run_knows_what_passes_have_remembered_since_it_began(tmp_path: Path) -> None:
    state, key = State(tmp_path), f"{uuid_of(1)}/{VOLUME}"
    situation = a_situation(memory={})
    assert as_of_now(situation, state) == situation, "there is no memory"
    entry = Remembered(desired=LIMIT, since=NOON, seen=NOON, applied=LIMIT, attachment="1:1")
    state.save_memory(Memory(disks={key: entry}, holds={}, brake=BrakeMemory(), acknowledged={}))
    assert as_of_now(situation, state).memory == {key: entry}
    state.memory.write_text("{")
    assert as_of_now(situation, state) == situation
