"""check_plimsoll as user nagios, and etc/nagios in Nagios, NRPE and Icinga themselves."""

from __future__ import annotations

import os
import pwd
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from plimsoll_agent.model.reason import Code, because
from plimsoll_agent.monitor import pass_summary_file
from plimsoll_agent.monitor.pass_summary import LastPass
from plimsoll_agent.monitor.thresholds import MEASURES, SHIPPED, Thresholds
from plimsoll_agent.reconcile.outcome import Kind
from plimsoll_agent.store.state import State
from plimsoll_agent.util.frozen import replace
from plimsoll_monitoring.alerts import nagios as definitions
from plimsoll_monitoring.alerts.files import alerts_of
from plimsoll_monitoring.alerts.site import Site
from plimsoll_monitoring.nagios import check
from plimsoll_probes.model.finding import Finding, Verdict, Why
from plimsoll_probes.model.result import ProbeResult
from plimsoll_probes.store.history import History
from tests.functional.conftest import Ran
from tests.unit.lastpasses import a_last_disk, a_last_pass, a_name
from tests.unit.results import a_probe

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "etc/nagios"
PAGE = ROOT / "docs/reference/check_plimsoll.rst"
INSTALLED = "/usr/bin/check_plimsoll"
GROUP = 64123
"""Of the state directory: a number that no group of this machine has."""
COMMANDS = {"agent", "limits", "probe"}
STRICT = Site(
    docs_url="https://docs.site.example/",
    thresholds={"pass_age": Thresholds("", "3600"), "unlimited": Thresholds("~:5", "@10:20")},
)

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")


@pytest.fixture
def home() -> Iterator[Path]:
    """A directory that user nagios can enter, which pytest's own are not."""
    made = Path(tempfile.mkdtemp(prefix="plimsoll-nagios-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@pytest.fixture
def state(home: Path) -> State:
    """As docs/reference/check_plimsoll.rst has it made: of root, and a group that nagios is in."""
    made = State(home / "state")
    made.directory.mkdir(mode=0o750)
    made.directory.chmod(0o750)
    if os.geteuid() == 0:
        os.chown(made.directory, 0, GROUP)
    return made


def plugin(home: Path, groups: list[int], name: str = "check_plimsoll") -> Path:
    """The program, for user nagios with these groups. It is loaded as whoever runs the tests, since nagios may not
    be let into the checkout; all that it reads it reads as nagios.
    """
    (home / "plimsoll.conf").write_text(f"[DEFAULT]\nstate_dir = {home}/state\n")
    file = home / name
    file.write_text(
        f"#!{sys.executable}\n"
        "import os, pwd, sys\n"
        "from plimsoll_monitoring.nagios.check import main\n"
        "user = pwd.getpwnam('nagios')\n"
        f"os.setgroups([user.pw_gid, *{groups}])\n"
        "os.setresgid(user.pw_gid, user.pw_gid, user.pw_gid)\n"
        "os.setresuid(user.pw_uid, user.pw_uid, user.pw_uid)\n"
        f"sys.exit(main([*sys.argv[1:], '--config-file', '{home}/plimsoll.conf', '--config-dir', '{home}']))\n"
    )
    file.chmod(0o755)
    return file


def run(*words: str | Path) -> Ran:
    # NRPE cuts at a byte, which may be in the middle of a character.
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, errors="replace", timeout=60)
    return Ran(done.returncode, done.stdout, done.stderr)


def recent(count: int = 1, kind: Kind = Kind.IN_SYNC, name: str = "instance") -> LastPass:
    now = datetime.now(UTC)
    refused = because(Code.REJECTED, detail="QEMU is busy")
    disks = [
        a_last_disk(a_name(number, guest_name=f"{name}-{number:08}"), kind=kind, reason=refused)
        for number in range(count)
    ]
    return replace(a_last_pass(*disks), started=now, ended=now, looked=now, last_good=now)


# --- as user nagios


def probed(state: State, result: ProbeResult) -> None:
    """As ``probe run`` leaves it."""
    history = History(state.probes)
    history.add(result)
    history.show(datetime.now(UTC))


@as_root
def test_nagios_reads_the_state_by_its_group_alone(home: Path, state: State) -> None:
    pass_summary_file.save(state, recent())
    probed(state, a_probe(started=datetime.now(UTC)))
    member, stranger = plugin(home, [GROUP]), plugin(home, [], "stranger")
    for subject in COMMANDS:
        ran = run(member, subject)
        assert (ran.status, ran.err) == (0, ""), ran.out
        ran = run(stranger, subject)
        assert (ran.status, ran.err) == (3, "")
        assert ran.out.count("\n") == 1
        assert f"{state.directory}" in ran.out
        assert "add this user to its group" in ran.out


@as_root
def test_settings_that_nagios_may_not_read_are_named(home: Path) -> None:
    file = plugin(home, [GROUP])
    (home / "plimsoll.conf").chmod(0o600)
    ran = run(file, "limits")
    assert ran.status == 3
    assert f"{home}/plimsoll.conf: cannot be read" in ran.out


def test_what_a_pass_wrote_is_what_the_check_reads(
    plimsoll: Callable[..., Ran], test_node: str, tmp_path: Path
) -> None:
    words = (
        sys.executable,
        "-m",
        "plimsoll_monitoring.nagios",
        "limits",
        "--config-file",
        tmp_path / "plimsoll.conf",
    )
    assert run(*words).status == 3
    (tmp_path / "rules.yaml").write_text("default: {limits: {total_iops_sec: 50}}")
    # libvirt's test driver refuses a limit without a burst.
    plimsoll("enforce", "--uri", test_node, OS_DEFAULT__MODE="enforce")
    ran = run(*words)
    assert ran.status == 1
    assert re.search(r"^WARNING failed \d", ran.out, re.MULTILINE)
    plimsoll("enforce", "--uri", test_node)
    ran = run(*words)
    assert ran.status == 1
    assert "mode is observe" in ran.out


def test_it_loads_no_hypervisor_no_http_client_and_no_command_line_of_plimsoll() -> None:
    loaded = (
        "import sys, plimsoll_monitoring.nagios.check; print(*{name.partition('.')[0] for name in sys.modules},"
        " *(name for name in sys.modules if name.startswith('plimsoll')))"
    )
    names = set(run(sys.executable, "-c", loaded).out.split())
    assert {"nagiosplugin", "plimsoll_monitoring.node.health"} <= names
    assert not names & {"libvirt", "cliff", "requests", "openstack", "matplotlib", "rich"}
    assert not {
        name
        for name in names
        if name.startswith(("plimsoll_agent.cli", "plimsoll_agent.terminal", "plimsoll_probes.cli"))
    }


def test_status_loads_neither_what_a_pass_needs_nor_what_others_need_for_plugins() -> None:
    loaded = "import sys, plimsoll_agent.terminal.main, plimsoll_monitoring.cli.status; print(*sys.modules)"
    names = set(run(sys.executable, "-c", loaded).out.split())
    assert {"cliff.app", "oslo_config.cfg", "plimsoll_agent.reconcile.pause"} <= names
    assert not names & {
        *("stevedore", "importlib.metadata", "email", "zipfile", "yaml", "libvirt", "prometheus_client"),
        *("netaddr", "rfc3986", "typing_extensions"),
        *("plimsoll_agent.app.context", "plimsoll_agent.reconcile.run", "plimsoll_agent.rules.loader"),
    }


def test_it_is_installed_under_the_name_that_the_samples_run() -> None:
    ran = run(Path(sys.executable).with_name("check_plimsoll"), "--version")
    assert (ran.status, ran.out.split()[0]) == (3, "check_plimsoll")


# --- made of one table


@pytest.mark.parametrize(
    ("part", "name"),
    [("objects", "plimsoll-objects.cfg"), ("nrpe", "nrpe-plimsoll.cfg"), ("icinga2", "icinga2-plimsoll.conf")],
)
def test_the_definitions_are_those_that_the_command_makes(plimsoll: Callable[..., Ran], part: str, name: str) -> None:
    made = plimsoll("monitoring", "nagios", "--part", part)
    assert (made.status, made.out) == (0, (SAMPLES / name).read_text()), f"plimsoll monitoring nagios --part {part}"
    rows = dict(re.findall(r"^\S+ (\w+) +(\S+ +\S+)  ", made.out, re.MULTILINE))
    for measure in MEASURES:
        assert rows[measure.name].split() == [measure.warning or "never", measure.critical or "never"]
    for alert in alerts_of(Site()):
        assert not alert.measure or re.search(rf"^\S+ {alert.measure} .*\b{alert.name}\b", made.out, re.MULTILINE)


def test_the_ranges_of_a_site_are_those_of_its_commands_and_all_others_those_of_the_node() -> None:
    found: dict[str, Thresholds] = {}
    for command in re.findall(r"^command\[\w+\]=(.+)$", definitions.nrpe_text(STRICT), re.MULTILINE):
        found |= check.thresholds(check.parser().parse_args(shlex.split(command)[1:]), SHIPPED)
    never = Thresholds("~:", "3600")  # no value is outside
    assert found == {**SHIPPED, "pass_age": never, "unlimited": STRICT.thresholds["unlimited"]}
    icinga = definitions.icinga_text(STRICT)
    said = re.findall(r'^  vars\.plimsoll_(\w+_(?:warning|critical)) = "(.*)"$', icinga, re.MULTILINE)
    assert dict(said) == {
        "pass_age_warning": "~:",
        "pass_age_critical": "3600",
        "unlimited_warning": "~:5",
        "unlimited_critical": "@10:20",
    }


def test_the_notes_of_a_check_lead_to_the_table_of_runbooks() -> None:
    page, anchor = "reference/alerts.html", "one-table"
    text = (ROOT / "docs" / page).with_suffix(".rst").read_text()
    assert "\nOne table\n---------\n" in text
    for made in (definitions.objects_text(STRICT), definitions.icinga_text(STRICT)):
        assert made.count(f"https://docs.site.example/{page}#{anchor}") == len(COMMANDS)


# --- NRPE


def nrpe_commands() -> dict[str, str]:
    text = (SAMPLES / "nrpe-plimsoll.cfg").read_text()
    return dict(re.findall(r"^command\[(\w+)\]=(.+)$", text, re.MULTILINE))


@pytest.fixture
def check_nrpe(home: Path, state: State) -> Iterator[Callable[..., Ran]]:
    """Asks a real NRPE that has our commands and runs them as nagios."""
    nagios = pwd.getpwnam("nagios")
    os.chown(state.directory, 0, nagios.pw_gid)  # of all its groups, nagios keeps those of /etc/group alone
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    checkout, venv, reach = _where_nagios_reaches(home)
    (home / "plimsoll.conf").write_text(f"[DEFAULT]\nstate_dir = {state.directory}\n")
    program = home / "check_plimsoll"
    program.write_text(
        f"#!/bin/sh\nexport PYTHONPATH={checkout}/agent:{checkout}/probes\n"
        f'exec {venv}/bin/python -m plimsoll_monitoring.nagios "$@" --config-file {home}/plimsoll.conf\n'
    )
    program.chmod(0o755)
    (home / "nrpe.cfg").write_text(
        f"server_address=127.0.0.1\nserver_port={port}\nallowed_hosts=127.0.0.1\npid_file={home}/nrpe.pid\n"
        "nrpe_user=nagios\nnrpe_group=nagios\ndont_blame_nrpe=0\ncommand_timeout=20\n"
        + (SAMPLES / "nrpe-plimsoll.cfg").read_text().replace(INSTALLED, str(program))
    )

    def ask(*words: str) -> Ran:
        return run("/usr/lib/nagios/plugins/check_nrpe", "-H", "127.0.0.1", "-p", str(port), *words)

    with (home / "nrpe.log").open("w") as log:
        daemon = subprocess.Popen([*reach, "/usr/sbin/nrpe", "-c", home / "nrpe.cfg", "-f"], stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 20
        while ask().status != 0:  # without a command it tells its version
            assert daemon.poll() is None, (home / "nrpe.log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.1)
        yield ask
    finally:
        daemon.terminate()
        daemon.wait()


def _where_nagios_reaches(home: Path) -> tuple[Path, Path, list[str]]:
    """The checkout, its Python, and what to run a daemon with so that nagios is let in: a directory above them may
    be closed to all others, and is then looked round.
    """
    user = pwd.getpwnam("nagios")
    reached = subprocess.run(
        [sys.executable, "-c", "import plimsoll_monitoring.nagios.check"],
        user=user.pw_uid,
        group=user.pw_gid,
        extra_groups=[],
        cwd="/",
        stderr=subprocess.DEVNULL,
        check=False,
    )
    if reached.returncode == 0:
        return ROOT, Path(sys.prefix), []
    places = {home / "checkout": ROOT, home / "venv": Path(sys.prefix)}
    for place in places:
        place.mkdir()
    mounts = " && ".join(f"mount --bind {there} {here}" for here, there in places.items())
    return home / "checkout", home / "venv", ["unshare", "--mount", "sh", "-c", f'{mounts} && exec "$@"', "sh"]


@as_root
def test_nrpe_runs_each_command_of_the_sample(state: State, check_nrpe: Callable[..., Ran]) -> None:
    pass_summary_file.save(state, recent())
    short = Finding(Verdict.SHORT, Why.CLUSTER_SHORT, {"parameter": "total_iops_sec", "allowed": 9.0, "done": 4.0})
    probed(state, a_probe(started=datetime.now(UTC), finding=short))
    assert set(nrpe_commands()) == {f"check_plimsoll_{subject}" for subject in COMMANDS}
    for name, status in (("agent", 0), ("limits", 0), ("probe", 1)):
        ran = check_nrpe("-c", f"check_plimsoll_{name}")
        assert ran.status == status, ran.out
        assert ran.out.startswith(f"PLIMSOLL {name.upper()} ")
    assert "probe short: instance-00000001 (canary) read: 44 % of limit 250 IOPS" in ran.out
    assert "probe_broken=1;0;;0" in ran.out
    probed(state, a_probe(started=datetime.now(UTC) + timedelta(seconds=1)))
    assert check_nrpe("-c", "check_plimsoll_probe").status == 0


@as_root
@pytest.mark.parametrize("protocol", [["-2"], ["-3"], []], ids=["2", "3", "4"])
def test_each_protocol_of_nrpe_carries_the_first_line_and_all_figures(
    state: State, check_nrpe: Callable[..., Ran], protocol: list[str]
) -> None:
    pass_summary_file.save(state, recent(500, Kind.FAILED, "ä𝄞" * 60))
    ran = check_nrpe(*protocol, "-c", "check_plimsoll_limits")
    assert ran.status == 1
    first, *more = ran.out.splitlines()
    text, _, figures = first.partition(" | ")
    assert text.startswith("PLIMSOLL LIMITS WARNING - change failed on 500 disks: ä𝄞")
    assert " and 499 more: " in text
    assert "; plimsoll record --guest " in text
    known = {measure.name for measure in MEASURES if measure.subject == "limits"} - {"at_limit"}  # of no reading
    assert {each.partition("=")[0] for each in figures.split()} == known
    assert len(more) >= (0 if protocol else 20)


# --- Nagios


@as_root
def test_nagios_takes_the_objects_and_finds_three_services_on_each_node(home: Path) -> None:
    nagios = pwd.getpwnam("nagios")
    (home / "var").mkdir()
    os.chown(home / "var", nagios.pw_uid, nagios.pw_gid)
    hosts = [
        f"define host {{\n use generic-host\n host_name compute-{number}\n address 127.0.0.1\n"
        " hostgroups +plimsoll-nodes\n max_check_attempts 3\n contact_groups admins\n}\n"
        for number in (1, 2)
    ]
    (home / "hosts.cfg").write_text("".join(hosts))
    parts = [
        Path("/etc/nagios4/objects", f"{name}.cfg") for name in ("commands", "contacts", "templates", "timeperiods")
    ]
    parts += [SAMPLES / "plimsoll-objects.cfg", home / "hosts.cfg"]
    (home / "nagios.cfg").write_text(
        "".join(f"cfg_file={part}\n" for part in parts)
        + f"resource_file=/etc/nagios4/resource.cfg\nlog_file={home}/var/nagios.log\ncheck_result_path={home}/var\n"
        f"temp_path={home}/var\nillegal_macro_output_chars=`~$&|'\"<>\n"
    )
    ran = run("/usr/sbin/nagios4", "-v", home / "nagios.cfg")
    assert ran.status == 0, ran.out
    assert "Total Warnings: 0\nTotal Errors:   0" in ran.out
    assert "Checked 6 services." in ran.out


def test_nagios_asks_for_the_commands_that_nrpe_has() -> None:
    asked = re.findall(r"check_plimsoll_nrpe!(\w+)", (SAMPLES / "plimsoll-objects.cfg").read_text())
    assert sorted(asked) == sorted(nrpe_commands())
    for command in nrpe_commands().values():
        program, *words = command.split()
        assert program == INSTALLED
        assert check.parser().parse_args(words).subject in COMMANDS


# --- Icinga


@pytest.fixture
def icinga(home: Path) -> Callable[[str], Ran]:
    """Validates our file beside these hosts, in a master's zone as in one with agents."""
    directories = ("ConfigDir", "ZonesDir", "DataDir", "LogDir", "InitRunDir", "CacheDir", "SpoolDir")
    for name in directories:
        (home / name).mkdir()
    zone = home / "ZonesDir/master"
    zone.mkdir()
    (zone / "icinga2-plimsoll.conf").write_text(definitions.icinga_text(STRICT))
    user = pwd.getpwuid(os.geteuid())
    defined = [f"Configuration.{name}={home}/{name}" for name in directories]
    defined += [f"Configuration.RunAsUser={user.pw_name}", "Configuration.RunAsGroup=" + _group(user.pw_gid)]
    (home / "icinga2.conf").write_text(
        'include <itl>\ninclude <plugins>\nconst PluginDir = "/usr/lib/nagios/plugins"\n'
        'const NodeName = "master"\nconst ZoneName = "master"\n'
        'object Endpoint "master" {}\nobject Zone "master" { endpoints = ["master"] }\n'
        'object Endpoint "compute-1" {}\n'
        'object Zone "compute-1" {\n endpoints = ["compute-1"]\n parent = "master"\n}\n'
    )

    def validate(hosts: str) -> Ran:
        (zone / "hosts.conf").write_text(hosts)
        words = [word for each in defined for word in ("-D", each)]
        return run("/usr/sbin/icinga2", "daemon", "-C", "-c", home / "icinga2.conf", *words)

    return validate


def _group(gid: int) -> str:
    return run("/usr/bin/getent", "group", str(gid)).out.partition(":")[0]


def test_icinga_takes_the_rules_for_nodes_with_an_agent_and_for_those_asked_by_nrpe(
    icinga: Callable[[str], Ran],
) -> None:
    host = 'object Host "%s" {\n check_command = "dummy"\n %s\n}\n'
    agent = host % ("compute-1", "vars.plimsoll = true\n vars.agent_endpoint = name")
    ran = icinga(agent + host % ("compute-2", "vars.plimsoll = true") + host % ("other", ""))
    assert ran.status == 0, ran.out
    assert "Instantiated 6 Services." in ran.out
    assert "warning/" not in ran.out
    ran = icinga(agent.replace("= name", '= "nobody"'))
    assert ran.status != 0, "a validator that takes an endpoint that is not there would take anything"


def test_icinga_knows_every_option_and_no_other() -> None:
    text = (SAMPLES / "icinga2-plimsoll.conf").read_text()
    known = set(re.findall(r'^    "(--[\w-]+)" =', text, re.MULTILINE))
    assert known == options() - {"--help"}
    variables = dict(
        re.findall(r'^    "--([\w-]+-(?:warning|critical))" = "\$plimsoll_(\w+)\$"$', text, re.MULTILINE)
    )
    assert len(variables) == 2 * len(MEASURES)
    assert all(option.replace("-", "_") == name for option, name in variables.items())


# --- the page


def options() -> set[str]:
    (subjects,) = (action for action in check.parser()._actions if action.dest == "subject")
    assert isinstance(subjects.choices, dict)
    every = {word for each in subjects.choices.values() for word in each._option_string_actions}
    return {word for word in every if word.startswith("--")}


def test_the_page_has_every_option_and_every_figure() -> None:
    text = PAGE.read_text()
    ranges = {word for word in options() if word.endswith(("-warning", "-critical"))}
    assert set(re.findall(r"^``(?:-\w, )?(--[\w-]+)", text, re.MULTILINE)) == options() - ranges | {
        "--FIGURE-warning",
        "--FIGURE-critical",
    }
    rows = re.findall(r"^``(\w+)``, (agent|limits|probe)\n {4}\S", text, re.MULTILINE)
    assert rows == [(each.name, each.subject) for each in MEASURES]


def test_the_page_says_how_it_ends() -> None:
    table = dict(re.findall(r"^   \* - (\d)\n     - (\w+)$", PAGE.read_text(), re.MULTILINE))
    assert table == {"0": "OK", "1": "WARNING", "2": "CRITICAL", "3": "UNKNOWN"}
