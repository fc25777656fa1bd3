"""check_plimsoll: what it prints and how it ends, over real files of a pass and of probes."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plimsoll_agent.model.disk import Guest
from plimsoll_agent.model.hypervisor import GuestRef
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, because
from plimsoll_agent.monitor import daemon_status, pass_summary_file
from plimsoll_agent.monitor.pass_summary import TO_PROBE, LastCatalogue, LastDisk, LastPass
from plimsoll_agent.monitor.thresholds import MEASURE, MEASURES, SHIPPED, Level
from plimsoll_agent.reconcile.outcome import Kind, UnreachableGuest
from plimsoll_agent.rules.model import Probing
from plimsoll_agent.store import clock
from plimsoll_agent.store.state import State
from plimsoll_agent.util.frozen import replace
from plimsoll_monitoring.nagios import check
from plimsoll_monitoring.nagios.wording import output
from plimsoll_monitoring.node.health import figures_of_pass, judge
from plimsoll_probes.model.finding import Finding, Verdict, Why
from plimsoll_probes.model.result import ProbeResult
from plimsoll_probes.schedule.targets import PlannedTarget
from plimsoll_probes.store.history import History
from tests.fakes import raising
from tests.unit.daemonstatus import FULL
from tests.unit.lastpasses import BRONZE, UNTOUCHED, a_last_disk, a_last_pass, a_name
from tests.unit.node import uuid_of
from tests.unit.results import HOSTILE, a_probe, a_subject
from tests.unit.values import GUEST, NOON, examples_of

STATUS = {Level.OK: 0, Level.WARNING: 1, Level.CRITICAL: 2, Level.UNKNOWN: 3}  # Nagios' plugin API
EVIL = "a|b=1;2;3\nOK - all well\r\x1b[2J`reboot`$(reboot)$HOSTNAME$ 'x' \"y\" \\n<b>&;\u202e"
SHORT = Finding(Verdict.SHORT, Why.CLUSTER_SHORT, {"parameter": "total_iops_sec", "allowed": 7500.0, "done": 2850.0})

# A label, a value without an exponent, a unit; then ranges: of the plugin guidelines.
NUMBER = r"-?\d+(\.\d+)?"
RANGE = rf"(@?(({NUMBER}|~)?:)?({NUMBER})?)"
FIGURE = re.compile(rf"\w{{1,19}}={NUMBER}s?(;{RANGE}(;{RANGE}(;0)?)?)?")


class Ran:
    """What a monitoring system makes of what was printed: text up to the bar, figures after it, the other lines."""

    def __init__(self, status: int, out: str) -> None:
        self.status, self.out = status, out
        assert out.endswith("\n")
        self.first, *self.more = out[:-1].split("\n")
        self.text, _, told = self.first.partition(" | ")
        self.perfdata = told.split(" ") if told else []
        self.figures = dict(each.partition(";")[0].split("=") for each in self.perfdata)


Run = Callable[..., Ran]


@pytest.fixture
def state(tmp_path: Path) -> State:
    made = State(tmp_path / "state")
    made.prepare()
    (tmp_path / "plimsoll.conf").write_text(f"[DEFAULT]\nstate_dir = {tmp_path}/state\n")
    return made


@pytest.fixture
def run(state: State, capsys: pytest.CaptureFixture[str]) -> Run:
    def ran(*words: str) -> Ran:
        settings = ("--config-file", str(state.directory.parent / "plimsoll.conf"))
        status = check.main([*words, *settings] if words else [])
        out, err = capsys.readouterr()
        assert err == ""  # Icinga takes it for output
        return Ran(status, out)

    return ran


def recent(*disks: LastDisk, **other: Any) -> LastPass:
    """A pass that has just ended, by the real clock."""
    now = datetime.now(UTC)
    values = {"started": now, "ended": now, "looked": now, "last_good": now}
    return replace(a_last_pass(*disks), **values | other)


def a_failed_disk(number: int, **other: Any) -> LastDisk:
    return a_last_disk(
        a_name(number, **other), kind=Kind.FAILED, reason=because(Code.REJECTED, detail="QEMU is busy")
    )


# --- the states


@pytest.mark.parametrize(("good_pass", "status"), [(True, 3), (False, 2)])
def test_a_state_directory_without_room_is_no_green_light(
    state: State, run: Run, monkeypatch: pytest.MonkeyPatch, good_pass: bool, status: int
) -> None:
    """What passes find since is in no file."""
    ended = datetime.now(UTC) - timedelta(hours=0 if good_pass else 5)
    pass_summary_file.save(state, recent(a_last_disk(), ended=ended))
    monkeypatch.setattr("plimsoll_agent.util.files.no_room", lambda directory: "No space left on device")
    ran = run("agent", "--no-data", "ok")
    assert ran.status == status
    assert "No space left on device: what passes find now is not saved" in ran.out
    assert f"  next: df -h {state.directory}" in ran.more
    assert "state=" not in ran.first
    assert run("limits").status == 0, "told once"


def test_ok_says_what_was_looked_at_and_has_every_figure_that_is_known(state: State, run: Run) -> None:
    pass_summary_file.save(state, recent(a_last_disk(), a_last_disk(a_name(2)), interval=300.0))
    ran = run("limits")
    assert ran.status == 0
    assert re.fullmatch(r"PLIMSOLL LIMITS OK - 2 disks of 2 guests, observed \d s ago", ran.text)
    assert set(ran.figures) == {each.name for each in MEASURES if each.subject == "limits"}
    assert "failed=0;0;;0" in ran.perfdata
    assert "behind=0;0;;0" in ran.perfdata
    assert run("agent").text.startswith("PLIMSOLL AGENT OK - last pass ")


def test_critical_says_which_guest_and_what_to_do_and_the_rest_below(state: State, run: Run) -> None:
    behind = a_last_disk(a_name(3), kind=Kind.DEFERRED, reason=UNTOUCHED)
    pass_summary_file.save(state, recent(a_failed_disk(1), a_failed_disk(2), behind))
    ran = run("limits", "--failed-critical", "0")
    assert ran.status == 2
    assert ran.text == (
        "PLIMSOLL LIMITS CRITICAL - change failed on 2 disks: instance-00000001 vdb and 1 more: rejected: QEMU is"
        " busy; plimsoll record --guest instance-00000001 (also behind 1)"
    )
    assert ran.more[:4] == [
        "CRITICAL failed 2 (warning 0, critical 0): disks whose change failed",
        "  next: plimsoll record --guest instance-00000001",
        "  instance-00000001 vdb  rejected: QEMU is busy",
        "  instance-00000002 vdb  rejected: QEMU is busy",
    ]
    assert ran.more[4].startswith("WARNING behind 1 ")
    assert any(line.startswith("OK unknown 0 ") for line in ran.more)


def test_warning_ends_with_1(state: State, run: Run) -> None:
    pass_summary_file.save(state, recent(a_last_disk(actual=Limits())))
    ran = run("limits")
    assert ran.status == 1
    assert "WARNING - 1 disk unlimited: instance-00000001 vdb: " in ran.text


def test_critical_is_worse_than_unknown(state: State, run: Run) -> None:
    pass_summary_file.save(state, recent(a_failed_disk(1), looked=datetime.now(UTC) + timedelta(hours=1)))
    ran = run("limits", "--failed-critical", "0")
    assert (ran.status, ran.text[:26]) == (2, "PLIMSOLL LIMITS CRITICAL -")
    assert "observed_age unknown" in ran.text
    assert "observed_age" not in ran.figures


def test_an_agent_that_died_is_critical_by_its_age_and_the_disks_are_told_to_be_old(state: State, run: Run) -> None:
    long_ago = datetime.now(UTC) - timedelta(hours=5)
    pass_summary_file.save(state, recent(a_last_disk(), ended=long_ago, looked=long_ago))
    ran = run("agent")
    assert ran.status == 2
    # The moments are reckoned from the clock, and a busy machine runs this some seconds after it was read.
    assert re.search(r"no pass for 5 h( \d+ (s|min))*, since .*; plimsoll enforce", ran.text)
    assert run("limits").status == 1


# --- ranges


def test_a_range_on_the_command_line_replaces_that_of_the_settings_and_no_other(state: State, run: Run) -> None:
    pass_summary_file.save(state, recent(*map(a_failed_disk, (1, 2, 3))))
    with (state.directory.parent / "plimsoll.conf").open("a") as file:
        file.write("[health]\nfailed_critical = 5\nfailed_warning = 2\n")
    assert run("limits").status == 1
    assert run("limits", "--failed-critical", "2").status == 2
    assert run("limits", "--failed-warning", "3").status == 0
    assert run("limits", "--failed-warning", "").status == 0
    ran = run("limits", "--failed-critical", "@3:7", "--failed-warning", "~:4")
    assert ran.status == 2
    assert "failed=3;~:4;@3:7;0" in ran.perfdata


@pytest.mark.parametrize("measure", MEASURES, ids=lambda measure: measure.name)
@pytest.mark.parametrize("level", ["warning", "critical"])
def test_every_figure_has_its_ranges_and_they_reach_the_judge(
    state: State, run: Run, measure: Any, level: str
) -> None:
    now = datetime.now(UTC)
    catalogue = LastCatalogue(now, "openstack", 7200)
    pass_summary_file.save(state, recent(a_last_disk(), interval=300.0, catalogue=catalogue, phases={"observe": 0.5}))
    daemon_status.save(state, replace(FULL, written=now, reloaded=True))
    outside = "@0:100000"  # whatever it is, it is inside of what must not be
    ran = run(measure.subject, f"--{measure.name.replace('_', '-')}-{level}", outside)
    assert ran.status == {"warning": 1, "critical": 2}[level]
    assert any(each.startswith(f"{measure.name}=") and outside in each for each in ran.perfdata)
    assert run(measure.subject).status == 0


def test_a_daemon_that_was_killed_is_a_warning_of_the_agent_alone(state: State, run: Run) -> None:
    pass_summary_file.save(state, recent(a_last_disk()))
    daemon_status.save(state, replace(FULL, written=datetime.now(UTC) - timedelta(minutes=2)))
    ran = run("agent")
    assert ran.status == 1
    assert "the daemon (pid 4711) has written nothing since" in ran.text
    assert "daemon_faults=1;0;;0" in ran.perfdata
    assert run("limits").status == 0


# --- no data


@pytest.mark.parametrize(
    ("option", "status"), [((), 3), *((("--no-data", level.name), STATUS[level]) for level in Level)]
)
@pytest.mark.parametrize("subject", ["limits", "agent"])
def test_without_a_pass_it_is_what_was_configured(
    run: Run, subject: str, option: tuple[str, ...], status: int
) -> None:
    ran = run(subject, *option)
    assert ran.status == status
    assert "no pass over this node yet: run plimsoll enforce --mode observe" in ran.text
    assert ran.perfdata == []


def test_without_a_pass_it_says_as_shipped_what_the_judge_says() -> None:
    level = judge(figures_of_pass(None, NOON), SHIPPED).level
    assert check.parser().parse_args(["agent"]).no_data is level


@pytest.mark.parametrize("subject", ["limits", "agent", "probe"])
def test_what_cannot_be_read_is_unknown_and_said_with_its_file(state: State, run: Run, subject: str) -> None:
    (state.directory / "pass.json").write_text("damaged")
    (state.directory / "probes.sqlite").write_text("damaged, and long enough to be looked at as a database" * 20)
    ran = run(subject)
    assert ran.status == 3
    assert str(state.directory) in ran.text
    assert run(subject, "--no-data", "critical").status == 2


@pytest.mark.parametrize("subject", ["limits", "agent", "probe"])
def test_a_state_directory_that_is_not_there_is_no_node_without_trouble(run: Run, subject: str) -> None:
    ran = run(subject, "--state-dir", "/nonexistent/state")
    assert ran.status == 3
    assert "/nonexistent/state: no such directory" in ran.text


def test_a_guest_that_is_not_here_is_no_guest_without_trouble(state: State, run: Run) -> None:
    pass_summary_file.save(state, recent(a_last_disk()))
    for subject in ("limits", "probe"):
        ran = run(subject, "--guest", "elsewhere")
        assert ran.status == 3
        assert "guest elsewhere" in ran.text


# --- filters


def test_one_guest_is_judged_by_its_own_disks(state: State, run: Run) -> None:
    silent = UnreachableGuest(GuestRef(uuid_of(4), "instance-00000004"), UNTOUCHED)
    pass_summary_file.save(state, recent(a_failed_disk(1), a_last_disk(a_name(2)), unreachable=(silent,)))
    assert run("limits", "--guest", "instance-00000002").status == 0
    assert run("limits", "--guest", uuid_of(1)).status == 1
    assert run("limits", "--guest", "instance-00000004").status == 1


def test_one_volume_type_is_judged_by_its_own_disks(state: State, run: Run) -> None:
    pass_summary_file.save(state, recent(a_failed_disk(1), a_last_disk(a_name(2), volume_type="bronze")))
    assert run("limits", "--volume-type", "bronze").status == 0
    assert run("limits", "--volume-type", "gold").status == 1


def test_a_node_without_a_disk_of_the_volume_type_is_ok_and_says_that_it_has_none(state: State, run: Run) -> None:
    pass_summary_file.save(state, recent(a_last_disk()))
    report = run("limits", "--volume-type", "glod")
    assert (report.status, "no disk of volume type glod, observed" in report.text) == (0, True)


# --- probes


def keep(state: State, *results: ProbeResult) -> None:
    for result in results:
        History(state.probes).add(result)


def a_run(number: int, name: str, **other: Any) -> ProbeResult:
    subject = a_subject(guest_uuid=uuid_of(number), guest_name=f"instance-{number:08}", display_name=name)
    return a_probe(**{"subject": subject, "started": datetime.now(UTC) - timedelta(hours=1)} | other)


def test_a_broken_promise_is_a_warning_with_its_guest_and_its_number(state: State, run: Run) -> None:
    keep(state, a_run(1, "canary-1"), a_run(2, "canary-2", finding=SHORT))
    ran = run("probe")
    assert ran.status == 1
    assert ran.text.startswith(
        "PLIMSOLL PROBE WARNING - probe short: instance-00000002 (canary-2) read: 38 % of limit 250 IOPS"
    )
    assert ran.text.endswith("; plimsoll probe show 2")
    assert ran.figures == {"probe_broken": "1", "probe_failed": "0", "probe_late": "0"}, (
        "no pass: probe_off is unknown"
    )
    for guest, status in (("canary-1", 0), ("canary-2", 1), (uuid_of(2), 1), ("instance-00000001", 0)):
        assert run("probe", "--guest", guest).status == status
    keep(state, a_run(2, "canary-2", started=datetime.now(UTC)))
    assert run("probe").status == 0


def test_a_probe_whose_timer_died_is_a_warning(state: State, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    target = PlannedTarget(
        Guest(uuid=GUEST, name="instance-0000002a", run="1"),
        "/srv",
        "canaries",
        node="n",
        probing=Probing(timedelta(minutes=10)),
    )
    History(state.probes).chosen([target], datetime.now(UTC) - timedelta(minutes=21))
    ran = run("probe")
    assert ran.status == 1
    assert re.search("1 probe overdue since .*: instance-0000002a /srv; plimsoll probe timetable", ran.text)
    with monkeypatch.context() as patch:
        patch.setattr(clock, "uptime", lambda: 300.0)
        assert run("probe").status == 0, "it was missed while the node was off"
    pass_summary_file.save(state, recent(paused=because(Code.PAUSED, file="/etc/plimsoll/paused", why="racks")))
    for words in (["probe"], ["probe", "--guest", GUEST]):
        ran = run(*words)
        assert ran.status == 0, "nothing is probed in a pause"
    assert "probe_off" not in ran.figures, "it is of all guests"


def test_guests_that_a_rule_chooses_and_nothing_probes_are_a_warning(state: State, run: Run) -> None:
    since = datetime.now(UTC) - timedelta(hours=3)
    pass_summary_file.save(state, recent(a_last_disk(), guests_to_probe=1, wrong_since={TO_PROBE: since}))
    ran = run("probe")
    assert ran.status == 1
    assert re.search("WARNING - 1 guest not probed since .*: a rule chooses it, and plimsoll probe run ", ran.text)


def test_a_node_without_guests_to_be_probed_is_well_and_says_so(run: Run) -> None:
    ran = run("probe")
    assert (ran.status, ran.text) == (0, "PLIMSOLL PROBE OK - no probe targets")


def test_a_row_that_cannot_be_read_is_told_below_and_not_on_stderr(state: State, run: Run) -> None:
    keep(state, a_run(1, "canary-1"), a_run(2, "canary-2"))
    with History(state.probes)._database.write() as database:
        database.execute("UPDATE run SET verdict = 'x|y' WHERE id = 2")
    ran = run("probe")
    assert ran.status == 0
    assert any(line.startswith("note: ") and "run 2 cannot be read" in line for line in ran.more)


# --- what may not happen


@pytest.mark.parametrize(
    "words",
    [
        ("--help",),
        ("limits", "--help"),
        ("--version",),
        ("disks",),
        ("limits", "--no-such"),
        ("limits", "--failed-crit", "3"),
        ("limits", "--failed-critical", "ten"),
        ("limits", "--no-data", "fine"),
        ("limits", "--timeout", "nan"),
        ("agent", "--guest", "x"),
        ("probe", "--volume-type", "gold"),
        ("probe", "--pass-age-warning", "5"),
        (),
    ],
    ids=" ".join,
)
def test_neither_help_nor_a_wrong_command_line_is_ok_or_critical_to_nagios(run: Run, words: tuple[str, ...]) -> None:
    ran = run(*words)
    assert ran.status == 3
    assert ran.out.strip()
    if "--help" not in words and "--version" not in words:
        assert ran.first.startswith("PLIMSOLL UNKNOWN - usage: ")
        assert ran.more == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["pass"], "there is no check pass: use limits, agent or probe; see check_plimsoll --help"),
        ([], "give a check: limits, agent or probe; see check_plimsoll --help"),
        (["-v"], "give a check: limits, agent or probe; see check_plimsoll --help"),
    ],
)
def test_a_check_that_does_not_exist_is_answered_with_those_that_do(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert check.main(words) == 3
    assert capsys.readouterr().out == f"PLIMSOLL UNKNOWN - usage: {said}\n"


def test_options_may_come_before_the_check_and_count_after_it() -> None:
    options = check.options_of(["-v", "--state-dir", "/a", "--timeout", "5", "limits", "--state-dir", "/b"])
    assert (options.verbose, options.state_dir, options.timeout) == (True, Path("/b"), 5)
    assert options.no_data is Level.UNKNOWN


def test_wrong_settings_are_named_with_file_and_line_and_all_of_them_below(state: State, run: Run) -> None:
    (state.directory.parent / "plimsoll.conf").write_text("[health]\nfailed_critical = ten\nfailedcritical = 1\n")
    ran = run("limits")
    assert ran.status == 3
    assert_it_can_be_taken(ran)
    assert "plimsoll.conf:2: [health] failed_critical:" in ran.text
    assert ["5:10 or @5:10" in ran.more[0], "plimsoll.conf:3: [health] failedcritical:" in ran.more[1]] == [
        True,
        True,
    ]


def test_a_fault_of_our_own_is_unknown_in_one_line(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "measure", raising(RuntimeError("first\nsecond|third=1")))
    ran = run("limits")
    assert ran.status == 3
    assert ran.out == "PLIMSOLL LIMITS UNKNOWN - unexpected RuntimeError: first?second?third=1; please report it\n"


def test_a_disk_that_hangs_does_not_hold_the_check(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "measure", lambda *_: time.sleep(30))
    began = time.monotonic()
    ran = run("limits", "--timeout", "0.2")
    assert time.monotonic() - began < 5
    assert ran.status == 3
    assert "no answer from the files of plimsoll within 0.2 s" in ran.text


@pytest.mark.parametrize("words", [("limits",), ("--help",), ("nope",)])
def test_what_cannot_be_printed_is_unknown_in_one_line(
    state: State, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """Python's own status of a traceback, 1, is WARNING; that of output that is lost at its end, 120, is none."""
    pass_summary_file.save(state, recent(a_last_disk()))
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert check.main([*words, "--config-file", str(state.directory.parent / "plimsoll.conf")]) == 3
    assert capsys.readouterr().err == "check_plimsoll: standard output: No space left on device\n"


def test_without_a_standard_output_there_is_a_status(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    pass_summary_file.save(state, recent(a_last_disk()))
    monkeypatch.setattr(sys, "stdout", None)
    assert check.main(["limits", "--config-file", str(state.directory.parent / "plimsoll.conf")]) == 0
    sys.stdout.close()


# --- hostile names, and agreement


def assert_it_can_be_taken(ran: Ran) -> None:
    """As Nagios, NRPE and Icinga take it: whatever was in it, nothing but our figures comes after a bar."""
    assert len(ran.text) < 200
    assert len(ran.first.encode()) < 1024  # what version 2 of NRPE's protocol carries
    assert len(ran.out.encode()) < 8192  # what Nagios reads
    assert ran.first.count("|") == (1 if ran.perfdata else 0)
    assert "|" not in "".join(ran.more)
    for line in (ran.text, *ran.more):
        assert line.isprintable()
        assert not set("`$\\\"'<&") & set(line)
    for each in ran.perfdata:
        assert FIGURE.fullmatch(each), each


def test_hostile_names_stay_where_they_are_shown(state: State, run: Run) -> None:
    disks = [a_failed_disk(number, guest_name=EVIL * 3, target=EVIL) for number in (1, 2)]
    pass_summary_file.save(state, recent(*disks, trouble=EVIL, last_good=None))
    keep(state, a_run(1, EVIL, finding=Finding(Verdict.FAILED, Why.FIO_FAILED, {"detail": EVIL})))
    for subject, status, do in (
        ("limits", 1, f"; plimsoll record --guest {uuid_of(1)}"),
        ("agent", 1, "; plimsoll p"),
    ):
        ran = run(subject)
        assert_it_can_be_taken(ran)
        assert ran.status == status
        assert do in ran.text
    ran = run("probe")
    assert_it_can_be_taken(ran)
    assert ran.text.endswith("; plimsoll probe show 1")


def test_what_was_asked_for_is_not_told_as_it_was_written(state: State, run: Run) -> None:
    pass_summary_file.save(state, recent(a_last_disk()))
    for subject in ("limits", "probe"):
        ran = run(subject, "--guest", EVIL)
        assert_it_can_be_taken(ran)
        assert ran.status == 3
    assert_it_can_be_taken(run(EVIL))


def test_the_words_make_room_for_the_figures_whatever_they_are_written_in() -> None:
    figures = [f"figure_{number}=1;{'9' * 20};{'9' * 20};0" for number in range(7)]
    ran = Ran(0, output("𝄞" * 300, figures))
    assert ran.perfdata == figures
    assert ran.text.endswith("𝄞…")
    assert_it_can_be_taken(ran)


def test_a_thousand_disks_are_told_in_what_nagios_reads_unless_a_person_asks_for_all(state: State, run: Run) -> None:
    pass_summary_file.save(state, recent(*map(a_failed_disk, range(1000))))
    ran = run("limits")
    assert_it_can_be_taken(ran)
    assert "  and 980 more: -v shows all" in ran.more
    assert any(line.startswith("OK behind") for line in ran.more)
    assert sum("QEMU is busy" in line for line in run("limits", "-v").more) == 1000


hostile = st.one_of(
    st.sampled_from([EVIL, HOSTILE, "", "x" * 400, "é€𝄞" * 90, "instance-00000001"]),
    st.text(st.characters(exclude_categories=("Cs",)), max_size=120),
)
reasons = st.one_of(st.just(UNTOUCHED), hostile.map(lambda text: because(Code.REJECTED, detail=text)))


@st.composite
def disks(draw: st.DrawFn) -> LastDisk:
    number = draw(st.integers(1, 5))
    return a_last_disk(
        a_name(number, draw(hostile), guest_name=draw(hostile)),
        kind=draw(st.sampled_from(Kind)),
        reason=draw(reasons),
        actual=draw(st.sampled_from([None, Limits(), BRONZE])),
        shares=draw(st.sampled_from([{}, {"total_iops_sec": 0.99}])),
    )


ages = st.one_of(
    st.none(), st.sampled_from([-9e4, 0, 60, 1200, 2400, 9e4]).map(lambda s: NOON - timedelta(seconds=s))
)


@st.composite
def passes(draw: st.DrawFn) -> LastPass:
    unreachable = st.builds(lambda name, why: UnreachableGuest(GuestRef(uuid_of(9), name), why), hostile, reasons)
    return replace(
        a_last_pass(*draw(st.lists(disks(), max_size=6))),
        ended=draw(ages.filter(lambda age: age is not None)),
        looked=draw(ages),
        last_good=draw(ages),
        trouble=draw(hostile),
        phases=draw(st.sampled_from([{"observe": 0.00004}, {"observe": 1e15}, {}])),
        unreachable=tuple(draw(st.lists(unreachable, max_size=2))),
        sources={"libvirt": draw(st.booleans()), "rules": draw(st.booleans())},
        catalogue=draw(st.one_of(st.none(), st.builds(LastCatalogue, ages, hostile, st.just(7200)))),
        paused=draw(st.sampled_from([None, because(Code.PAUSED, file="/x", why=EVIL)])),
        braked=draw(st.sampled_from([None, "a1b2"])),
        braked_disks=draw(st.integers(0, 9)),
        enforcing=draw(st.booleans()),
        interval=draw(st.sampled_from([None, 300.0])),
    )


@examples_of(120)
@given(last=passes())
def test_whatever_a_pass_came_to_the_check_says_what_the_judge_says_and_can_be_taken(last: LastPass) -> None:
    options = {subject: check.parser().parse_args([subject]) for subject in ("limits", "agent")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(check.config, "load", lambda *_: _Settings)
        patch.setattr(pass_summary_file, "load", lambda _: last)
        reports = {subject: check.check(options[subject], NOON) for subject in options}
    judged = {subject: _judged(last, subject) for subject in options}
    for subject, report in reports.items():
        ran = Ran(report.status, report.text)
        assert ran.status == STATUS[judged[subject]]
        assert ran.text.startswith(f"PLIMSOLL {subject.upper()} {judged[subject].name} - ")
        assert_it_can_be_taken(ran)
    whole = judge(figures_of_pass(last, NOON), SHIPPED)
    assert max(judged.values()) is whole.level, "the checks together say what status says"


class _Settings:
    health = SHIPPED
    state_dir = Path("/")
    catalogue = SimpleNamespace(source="none")
    ceph = SimpleNamespace(id="plimsoll")
    uri = "qemu:///system"


def _judged(last: LastPass, subject: str) -> Level:
    figures = [each for each in figures_of_pass(last, NOON) if MEASURE[each.name].subject == subject]
    return judge(figures, SHIPPED).level
