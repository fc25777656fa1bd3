"""systemd's units, users and directories: as systemd's own programs read them, and as plimsoll runs under them."""

from __future__ import annotations

import ipaddress
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest

from plimsoll_agent.config import settings as config
from plimsoll_agent.congestion.published import LASTS, encode
from plimsoll_agent.store.refresh_state import AGAIN
from plimsoll_agent.store.state import State
from plimsoll_agent.terminal.main import Plimsoll
from tests.functional.conftest import Ran
from tests.functional.webserver import key_pair
from tests.unit.agent.congestion.values import a_factor_file
from tests.unit.regionfile import a_key, keep_public

ROOT = Path(__file__).parents[2]
UNITS = ROOT / "systemd"
GUIDE = ROOT / "docs/guide/units.rst"
TIMED = ("plimsoll-enforce", "plimsoll-probe", "plimsoll-catalogue")
DAEMON = "plimsoll-daemon"
FETCH, PUBLISH = "plimsoll-congestion-fetch", "plimsoll-congestion-publish"
LASTING = (DAEMON, FETCH, PUBLISH)
SERVICES = (*TIMED, *LASTING)
WITH_LIBVIRT = ("plimsoll-enforce", "plimsoll-probe", DAEMON)
MOST_EXPOSED = 20
"""Tenths: an exposure of 2.0."""
TARGETS = ("sysinit", "basic", "shutdown", "timers", "paths", "network-online", "time-sync", "multi-user")
METRICS = "-/var/lib/prometheus/node-exporter"
"""Where Debian's node_exporter looks; without it the units start all the same."""
COMMAND = "opt/plimsoll/current/bin/plimsoll"
USERS = ("plimsoll", "plimsoll-probe", "plimsoll-catalogue", "plimsoll-publish")
GROUPS = ("plimsoll", "plimsoll-ceph", "plimsoll-catalogue", "plimsoll-publish")
STATES = ("/var/lib/plimsoll", "/var/lib/plimsoll-catalogue", "/var/lib/plimsoll-publish")

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="becomes other users")


def run(*words: str | Path, timeout: float = 60) -> Ran:
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, errors="replace", timeout=timeout)
    return Ran(done.returncode, done.stdout, done.stderr)


def settings_of(unit: Path) -> dict[str, list[str]]:
    """What a unit says, by ``Section.Key``: the words of each time that it says so. An empty one takes all back."""
    said: dict[str, list[str]] = {}
    section = ""
    for line in unit.read_text().splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line and not line.startswith("#"):
            key, _, value = line.partition("=")
            words = said.setdefault(f"{section}.{key}", [])
            words[:] = [*words, *value.split()] if value else []
    return said


def service(name: str) -> dict[str, list[str]]:
    return {
        key.partition(".")[2]: words
        for key, words in settings_of(UNITS / f"{name}.service").items()
        if key.startswith("Service.")
    }


def timer(name: str) -> dict[str, list[str]]:
    return {
        key.partition(".")[2]: words
        for key, words in settings_of(UNITS / f"{name}.timer").items()
        if key.startswith("Timer.")
    }


def seconds(span: str) -> float:
    """By systemd itself."""
    ran = run("systemd-analyze", "timespan", span)
    assert ran.status == 0, ran.err
    (us,) = re.findall(r"^ *μs: (\d+)$", ran.out, re.MULTILINE)
    return int(us) / 1e6


def drop_ins() -> dict[str, str]:
    """Those that the guide shows, by their paths."""
    shown = re.findall(
        r"^\.\. code-block:: ini\n +:caption: (/etc/systemd/system/\S+)\n\n((?: .*\n|\n)+)",
        GUIDE.read_text(),
        re.MULTILINE,
    )
    return {path: "\n".join(line.strip() for line in body.splitlines()) for path, body in shown}


# --- what systemd says of them


def a_root(tmp_path: Path) -> Path:
    """A root directory with the units, what they run, and what of systemd they name."""
    system = tmp_path / "etc/systemd/system"
    system.mkdir(parents=True)
    for unit in (*UNITS.glob("*.service"), *UNITS.glob("*.timer"), *UNITS.glob("*.path")):
        shutil.copy(unit, system)
    for target in TARGETS:
        (system / f"{target}.target").write_text("[Unit]\nDescription=what the machine has\n")
    for path in (COMMAND, "bin/sh"):
        command = tmp_path / path
        command.parent.mkdir(parents=True)
        command.write_text("#!/bin/sh\n")
        command.chmod(0o755)
    return tmp_path


def add(root: Path, path: str, text: str) -> None:
    (root / path.lstrip("/")).parent.mkdir(exist_ok=True)
    (root / path.lstrip("/")).write_text(text)


def open_the_network(root: Path) -> None:
    for name in WITH_LIBVIRT:
        add(root, f"/etc/systemd/system/{name}.service.d/network.conf", (UNITS / "network.conf").read_text())


def verify(root: Path) -> Ran:
    """``verify`` ends with 0 for keys that it does not know: what it prints counts."""
    units = sorted(path.name for path in UNITS.iterdir() if path.suffix in (".service", ".timer", ".path"))
    return run("systemd-analyze", "verify", "--man=no", f"--root={root}", *units)


def test_each_service_has_its_timer_or_runs_all_the_time_and_there_is_nothing_else() -> None:
    units = {path.name for path in UNITS.iterdir()}
    assert units == {
        *(f"{name}.{kind}" for name in TIMED for kind in ("service", "timer")),
        *(f"{name}.service" for name in LASTING),
        "plimsoll-catalogue.path",
        "network.conf",
        "sysusers.conf",
        "tmpfiles.conf",
    }


def test_systemd_has_nothing_to_say_about_the_units(tmp_path: Path) -> None:
    assert verify(a_root(tmp_path)) == Ran(0, "", "")


def test_systemd_would_say_it_if_a_key_or_a_value_were_wrong(tmp_path: Path) -> None:
    root = a_root(tmp_path)
    add(root, "/etc/systemd/system/plimsoll-probe.service.d/x.conf", "[Service]\nProtectHom=true\nTasksMax=many\n")
    add(root, "/etc/systemd/system/plimsoll-probe.timer.d/x.conf", "[Timer]\nFixedRandomDela=true\n")
    complaints = verify(root).err
    assert "'ProtectHom'" in complaints
    assert "many" in complaints
    assert "'FixedRandomDela'" in complaints


def test_systemd_has_nothing_to_say_about_network_conf(tmp_path: Path) -> None:
    root = a_root(tmp_path)
    open_the_network(root)
    assert verify(root) == Ran(0, "", "")


def test_systemd_has_nothing_to_say_about_the_drop_ins_of_the_guide(tmp_path: Path) -> None:
    shown = drop_ins()
    assert len(shown) >= 6
    root = a_root(tmp_path)
    for path, text in shown.items():
        name = Path(path).parent.name.removesuffix(".d")
        assert (UNITS / name).exists(), path
        add(root, path, text)
    assert verify(root) == Ran(0, "", "")


@pytest.mark.parametrize("name", SERVICES)
@pytest.mark.parametrize("network", [False, True], ids=["as-shipped", "with-network-conf"])
def test_no_service_is_more_exposed_than_2(name: str, network: bool, tmp_path: Path) -> None:
    root = a_root(tmp_path)
    if network:
        open_the_network(root)
    ran = run(
        *("systemd-analyze", "security", "--no-pager", "--offline=true", f"--threshold={MOST_EXPOSED}"),
        *(f"--root={root}", f"{name}.service"),
    )
    assert ran.status == 0, ran.out.splitlines()[-1]
    assert "Overall exposure level" in ran.out


# --- what they run


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_runs_a_command_that_there_is(name: str) -> None:
    path, *words = service(name)["ExecStart"]
    assert path == f"/{COMMAND}"
    app = Plimsoll()
    factory, command, rest = app.command_manager.find_command(words)
    factory(app, None).get_parser(f"plimsoll {command}").parse_args(rest)


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_may_write_its_own_directory_and_metrics_and_nothing_else(name: str) -> None:
    settings = config.load([])
    own = {
        "plimsoll-enforce": {str(settings.state_dir), METRICS},
        DAEMON: {str(settings.state_dir), METRICS},
        "plimsoll-probe": {str(settings.state_dir), METRICS},
        "plimsoll-catalogue": {str(settings.catalogue.directory)},
        FETCH: {str(settings.catalogue.directory)},
        PUBLISH: {STATES[2], METRICS},
    }[name]
    said = service(name)
    assert set(said["ReadWritePaths"]) == own
    assert said["ProtectSystem"] == ["strict"]
    # It would undo the ACL of the directory with each start.
    assert not {"StateDirectory", "StateDirectoryMode"} & set(said)


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_sees_the_boot_id_by_which_a_pass_knows_its_memory_to_be_of_this_boot(name: str) -> None:
    assert service(name).get("ProcSubset", ["all"]) == ["all"]


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_that_depends_on_the_clock_waits_for_it_where_the_site_has_that_wait(name: str) -> None:
    unit = settings_of(UNITS / f"{name}.service")
    assert "time-sync.target" in unit["Unit.After"]
    assert "time-sync.target" not in unit.get("Unit.Desired", [])


CLOCK_CALLS = {
    "x86_64": {"adjtimex": 159, "clock_adjtime": 305},
    "aarch64": {"adjtimex": 171, "clock_adjtime": 266},
}
SYNCHRONISED_UNDER_A_FILTER = """
import ctypes, struct
from plimsoll_agent.store import clock
clock._TIME_ERROR, clock._STA_UNSYNC = 99, 0  # as if it were, here too
load, equal, end = 0x20, 0x15, 0x06
refused = {refused}
steps = [(load, 0, 0, 0)]
for number in refused:
    steps += [(equal, 0, 1, number), (end, 0, 0, 0x50001)]  # EPERM
steps.append((end, 0, 0, 0x7FFF0000))
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
filter = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code)))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, filter) == 0  # no new privileges, seccomp
print(clock.synchronised())
"""
"""With EPERM for these calls, as ``SystemCallErrorNumber=``."""


@pytest.mark.parametrize("name", ["plimsoll-enforce", DAEMON])
def test_a_pass_may_ask_the_kernel_whether_the_clock_is_synchronised(name: str) -> None:
    """The kernel refuses what the unit leaves out: a name that the C library does not call is of no use."""
    lines = (UNITS / f"{name}.service").read_text().splitlines()
    filters = [line.removeprefix("SystemCallFilter=") for line in lines if line.startswith("SystemCallFilter=")]
    assert not filters[-1].startswith("~"), "what is taken out before it, is in again"
    assert "ProtectClock=true" not in lines
    refused = [number for call, number in CLOCK_CALLS[platform.machine()].items() if call not in filters[-1].split()]
    program = SYNCHRONISED_UNDER_A_FILTER.format(refused=refused)
    asked = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (asked.stdout.strip(), asked.stderr) == ("True", "")


@pytest.mark.parametrize("name", LASTING)
def test_what_runs_all_the_time_comes_back_always(name: str) -> None:
    assert service(name)["Restart"] == ["always"]
    unit = settings_of(UNITS / f"{name}.service")
    (burst,), interval = unit["Unit.StartLimitBurst"], seconds(" ".join(unit["Unit.StartLimitIntervalSec"]))
    assert interval / seconds(" ".join(service(name)["RestartSec"])) < int(burst), "systemd never gives up"
    assert unit["Install.WantedBy"] == ["multi-user.target"]


def test_the_daemon_ends_in_its_time() -> None:
    said, options = service(DAEMON), dict(config.list_options())["daemon"]
    assert said["Type"] == ["notify"]
    assert said["ExecReload"] == ["/bin/sh", "-c", "'kill", "-HUP", "${MAINPID}'"]
    (longest,) = [option.type.max for option in options if option.name == "stop_timeout"]
    assert seconds(" ".join(said["TimeoutStopSec"])) > longest


def test_a_file_is_fetched_often_enough_and_where_passes_read_it() -> None:
    words = service(FETCH)["ExecStart"]
    assert 3 * seconds(words[words.index("--every") + 1]) < LASTS.total_seconds()
    assert service(FETCH)["User"] == service("plimsoll-catalogue")["User"], "it writes in the same directory"


def test_only_the_publisher_may_read_the_key_that_it_signs_with() -> None:
    said = service(PUBLISH)
    words = said["ExecStart"]
    assert Path(words[words.index("--out") + 1]).parent == Path(STATES[2])
    assert words[words.index("--signing-key") + 1] == "/etc/plimsoll/congestion.key"
    assert [name for name in SERVICES if service(name)["User"] == said["User"]] == [PUBLISH]
    assert (said["Group"], said["SupplementaryGroups"]) == (said["User"], ["plimsoll-ceph"])


def test_the_daemon_has_the_rights_of_a_pass_and_no_others() -> None:
    """What is different is how it runs."""
    own, passes = service(DAEMON), service("plimsoll-enforce")
    assert {key for key in own.keys() | passes.keys() if own.get(key) != passes.get(key)} == {
        *(
            "Type",
            "NotifyAccess",
            "ExecStart",
            "ExecReload",
            "Restart",
            "RestartSec",
            "WatchdogSec",
            "WatchdogSignal",
        ),
        *("TimeoutStartSec", "TimeoutStopSec", "SuccessExitStatus"),
    }


@pytest.mark.parametrize("name", TIMED)
def test_nothing_starts_a_service_over_and_over_or_lets_it_run_for_ever(name: str) -> None:
    said = service(name)
    assert said["Type"] == ["oneshot"]
    assert said.get("Restart", ["no"]) == ["no"]
    # systemd's default for this type is to wait without end
    assert 60 <= seconds(" ".join(said["TimeoutStartSec"])) <= 3600
    assert seconds(" ".join(said["TimeoutStopSec"])) <= 180
    unit = settings_of(UNITS / f"{name}.service")
    (burst,) = unit["Unit.StartLimitBurst"]
    interval = seconds(" ".join(unit["Unit.StartLimitIntervalSec"]))
    assert 5 <= int(burst) <= interval / 5  # a person beside the timer, and not a loop


def test_a_probe_that_is_stopped_has_the_time_to_clean_the_guest() -> None:
    assert seconds(" ".join(service("plimsoll-probe")["TimeoutStopSec"])) >= 120
    # SIGTERM to plimsoll alone, which ends the others itself
    assert service("plimsoll-probe")["KillMode"] == ["mixed"]


def test_memory_and_tasks_are_bounded_as_the_guide_says_with_twice_the_room_of_what_was_measured() -> None:
    rows = re.findall(r"\* - ``(.+)``\n +- (\d+) MiB\n +- (\d+)\n +- (.+)\n", GUIDE.read_text())
    assert {name for name, *_ in rows} == set(SERVICES)
    for name, memory, tasks, measured in rows:
        said = service(name)
        assert (said["MemoryMax"], said["TasksMax"]) == ([f"{memory}M"], [tasks])
        assert int(memory) >= 2 * max(int(number) for number in re.findall(r"(\d+) MiB", measured))
        assert int(tasks) >= 2 * max((int(number) for number in re.findall(r"and (\d+)", measured)), default=16)


@pytest.mark.parametrize("name", SERVICES)
def test_when_memory_runs_out_a_service_goes_before_a_guest_does(name: str) -> None:
    (adjust,) = service(name)["OOMScoreAdjust"]
    assert 0 < int(adjust) <= 1000
    assert f"``OOMScoreAdjust={adjust}``" in GUIDE.read_text()


# --- who may do what


def test_each_service_has_a_user_of_its_own() -> None:
    assert [service(name)["User"] for name in TIMED] == [[name] for name in ("plimsoll", *TIMED[1:])]


@pytest.mark.parametrize("name", SERVICES)
def test_no_service_has_a_capability(name: str) -> None:
    said = service(name)
    assert said["CapabilityBoundingSet"] == said["AmbientCapabilities"] == []
    assert said["NoNewPrivileges"] == ["true"]


@pytest.mark.parametrize(
    ("name", "groups", "needs"),
    [
        ("plimsoll-catalogue", ["plimsoll"], "/etc/plimsoll/openstack.conf"),
        (FETCH, None, ""),
        (PUBLISH, ["plimsoll-ceph"], "/etc/ceph"),
    ],
)
def test_what_has_the_network_has_no_way_to_libvirt_nor_to_what_it_does_not_need(
    name: str, groups: list[str] | None, needs: str
) -> None:
    said = service(name)
    assert said.get("SupplementaryGroups") == groups
    others = {"/run/libvirt", "/etc/ceph", "/etc/plimsoll/openstack.conf"} - {needs}
    paths = {path.removeprefix("-") for path in said["InaccessiblePaths"]}
    assert others <= paths
    assert needs not in paths
    assert {"AF_INET", "AF_INET6"} <= set(said["RestrictAddressFamilies"])
    assert "PrivateNetwork" not in said


@pytest.mark.parametrize("name", WITH_LIBVIRT)
def test_who_holds_libvirts_socket_has_no_network(name: str) -> None:
    said = service(name)
    assert said["SupplementaryGroups"] == ["libvirt"]
    assert said["PrivateNetwork"] == ["true"]
    assert said["RestrictAddressFamilies"] == ["AF_UNIX"]
    assert said["IPAddressDeny"] == ["any"]
    assert "IPAddressAllow" not in said


# RFC 5737, RFC 3849.
FOR_DOCUMENTATION = [
    ipaddress.ip_network(net) for net in ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32")
]


def exposure(root: Path, name: str) -> dict[str, object]:
    """What systemd makes of a service, by its names for what it looks at."""
    ran = run("systemd-analyze", "security", "--offline=true", "--json=short", f"--root={root}", f"{name}.service")
    assert ran.status == 0, ran.err
    return {row["json_field"]: (row["set"], row["exposure"]) for row in json.loads(ran.out)}


@pytest.mark.parametrize("name", WITH_LIBVIRT)
def test_network_conf_opens_the_network_and_nothing_else(name: str, tmp_path: Path) -> None:
    root = a_root(tmp_path)
    before = exposure(root, name)
    open_the_network(root)
    after = exposure(root, name)
    assert {what for what in after if after[what] != before[what]} == {
        "PrivateNetwork",
        "RestrictAddressFamilies_AF_INET_INET6",
        "IPAddressDeny",
    }
    said = settings_of(UNITS / "network.conf")  # of what systemd does not look at either
    assert said.keys() == {
        f"Service.{key}" for key in ("PrivateNetwork", "RestrictAddressFamilies", "IPAddressAllow")
    }


def test_network_conf_as_shipped_allows_only_addresses_for_documentation() -> None:
    allowed = [ipaddress.ip_network(net) for net in settings_of(UNITS / "network.conf")["Service.IPAddressAllow"]]
    assert {net.version for net in allowed} == {4, 6}, "it shows how to write both"
    for net in allowed:
        assert any(net.version == of.version and net.subnet_of(of) for of in FOR_DOCUMENTATION), net  # type: ignore[arg-type]


# --- when


@pytest.mark.parametrize("name", TIMED)
def test_each_node_has_a_delay_that_stays_the_same(name: str) -> None:
    said = timer(name)
    assert said["FixedRandomDelay"] == ["true"]
    assert seconds(" ".join(said["RandomizedDelaySec"])) >= 30
    assert "Persistent" not in said
    assert settings_of(UNITS / f"{name}.timer")["Install.WantedBy"] == ["timers.target"]


@pytest.mark.parametrize("name", ["plimsoll-enforce", "plimsoll-catalogue"])
def test_a_calendar_is_one(name: str) -> None:
    (calendar,) = timer(name)["OnCalendar"]
    ran = run("systemd-analyze", "calendar", "--iterations=3", "--base-time=2026-01-01 00:00:00 UTC", calendar)
    minutes = [int(minute) for minute in re.findall(r"(?:Next elapse|Iter\S* #\d): .* \d\d:(\d\d):00", ran.out)]
    assert minutes == [5, 10, 15], ran.out + ran.err


def test_limits_are_back_soon_after_a_boot() -> None:
    said = timer("plimsoll-enforce")
    assert seconds(" ".join(said["OnBootSec"])) + seconds(" ".join(said["RandomizedDelaySec"])) <= 60


def test_a_region_that_boots_together_does_not_ask_cinder_together() -> None:
    said = timer("plimsoll-catalogue")
    assert "OnBootSec" not in said
    assert seconds(" ".join(said["RandomizedDelaySec"])) >= 300  # over the whole interval


def test_another_list_of_attachments_starts_the_refresher_and_never_too_often_for_systemd() -> None:
    said, refresher = (
        settings_of(UNITS / "plimsoll-catalogue.path"),
        settings_of(UNITS / "plimsoll-catalogue.service"),
    )
    assert said["Path.PathChanged"] == [str(State(config.load([]).state_dir).attachments)]
    (again,) = said["Path.PathExists"]
    assert again == str(config.load([]).catalogue.directory / AGAIN)
    assert refresher["Service.ExecStartPre"] == ["-/bin/rm", "-f", again], "else systemd would start it for ever"
    assert "Path.Unit" not in said, "the service of the same name"
    words = refresher["Service.ExecStart"]
    spacing = seconds(words[words.index("--spacing") + 1])
    by_timer = 1
    minute = seconds(" ".join(refresher["Unit.StartLimitIntervalSec"]))
    assert minute / spacing + by_timer <= int(refresher["Unit.StartLimitBurst"][0])
    assert spacing + config.load([]).catalogue.deadline <= seconds(" ".join(refresher["Service.TimeoutStartSec"]))


def test_probes_wait_for_guests_to_boot_and_come_round_twice_before_one_is_late() -> None:
    said = timer("plimsoll-probe")
    assert seconds(" ".join(said["OnBootSec"])) >= 300
    every = seconds(" ".join(said["OnUnitActiveSec"])) + seconds(" ".join(said["RandomizedDelaySec"]))
    assert 2 * every <= config.load([]).probe.late


# --- users, groups and directories, by the programs that make them


@dataclass
class Machine:
    """A directory that stands for a node's root, with its own user database."""

    root: Path
    users: dict[str, tuple[int, int]] = field(default_factory=dict)
    members: dict[str, list[str]] = field(default_factory=dict)
    gids: dict[str, int] = field(default_factory=dict)

    def make_users(self) -> Ran:
        ran = run("systemd-sysusers", f"--root={self.root}", UNITS / "sysusers.conf")
        for line in (self.root / "etc/passwd").read_text().splitlines():
            name, _, uid, gid, *_ = line.split(":")
            self.users[name] = int(uid), int(gid)
        for line in (self.root / "etc/group").read_text().splitlines():
            name, _, gid, members = line.split(":")
            self.gids[name], self.members[name] = int(gid), members.split(",") if members else []
        return ran

    def make_directories(self) -> Ran:
        """By the names of this user database, in a mount namespace of its own."""
        swap = 'mount --bind "$1" /etc/passwd && mount --bind "$2" /etc/group && shift 2 && exec "$@"'
        names = (self.root / "etc/passwd", self.root / "etc/group")
        put = self.root / "etc/tmpfiles.d/plimsoll.conf"
        put.parent.mkdir(exist_ok=True)
        shutil.copy(UNITS / "tmpfiles.conf", put)
        prefixes = [f"--prefix={path}" for path in STATES]  # as the packages do
        create = ("systemd-tmpfiles", f"--root={self.root}", "--create", *prefixes)
        return run("unshare", "--mount", "sh", "-c", swap, "sh", *names, *create)

    @property
    def state(self) -> Path:
        return self.root / "var/lib/plimsoll"

    @property
    def catalogue(self) -> Path:
        return self.root / "var/lib/plimsoll-catalogue"

    @property
    def notes(self) -> Path:
        return self.catalogue / "refresh.json"

    @property
    def metrics(self) -> Path:
        return self.root / "metrics"

    def owners(self, directory: Path) -> dict[str, str]:
        """Who each file there belongs to."""
        names = {uid: name for name, (uid, _) in self.users.items()}
        return {path.name: names[path.stat().st_uid] for path in directory.iterdir()}

    def plimsoll(self, user: str, *words: str, groups: Sequence[str] = ()) -> Ran:
        """As that user, in the groups that the database puts it in and these."""
        uid, gid = self.users[user]
        more = [group for group, members in self.members.items() if user in members]
        become = as_user(uid, gid, *(self.gids[group] for group in (*more, *groups)))
        command = Path(sys.executable).with_name("plimsoll")
        return run(*become, command, "--config-file", self.root / "etc/plimsoll.conf", *words)


def as_user(uid: int, *gids: int) -> tuple[str, ...]:
    """The words before a command; the first group is its own."""
    return "setpriv", f"--reuid={uid}", f"--regid={gids[0]}", f"--groups={','.join(map(str, gids))}", "--"


def a_machine(root: Path) -> Machine:
    (root / "etc").mkdir()
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\nnagios:x:1:1::/:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\nnagios:x:1:\n")
    return Machine(root)


def test_sysusers_makes_the_users_and_groups_of_the_units(tmp_path: Path) -> None:
    machine = a_machine(tmp_path)
    ran = machine.make_users()
    assert ran.status == 0
    assert "not a valid" not in ran.err
    # Which `remove --state` takes away again.
    assert set(machine.users) == {"root", "nagios", *USERS}
    assert set(machine.gids) == {"root", "nagios", *GROUPS}
    for name in SERVICES:
        (user,), (group,) = service(name)["User"], service(name)["Group"]
        assert machine.users[user][1] == machine.gids[group], "by hand it has the same group as in its unit"
    assert machine.members["plimsoll-ceph"] == ["plimsoll", "plimsoll-probe", "plimsoll-publish"]
    assert machine.members["plimsoll"] == ["plimsoll-catalogue"]


def test_sysusers_leaves_alone_what_is_there_already(tmp_path: Path) -> None:
    machine = a_machine(tmp_path)
    machine.make_users()
    files = tmp_path / "etc/passwd", tmp_path / "etc/group"
    before = [file.read_text() for file in files]
    assert machine.make_users() == Ran(0, "", "")
    assert [file.read_text() for file in files] == before


@pytest.fixture
def machine() -> Iterator[Machine]:
    """Below a directory that other users can enter, which pytest's own are not."""
    root = Path(tempfile.mkdtemp(prefix="plimsoll-units-"))
    root.chmod(0o755)
    machine = a_machine(root)
    assert machine.make_users().status == 0
    yield machine
    shutil.rmtree(root)


def test_each_line_of_tmpfiles_conf_is_for_a_directory_that_the_packages_have_made() -> None:
    lines = [line.split() for line in (UNITS / "tmpfiles.conf").read_text().splitlines()]
    paths = [Path(words[1]) for words in lines if words and words[0] != "#"]
    assert len(paths) == 9
    assert [path for path in paths if not any(path.is_relative_to(state) for state in STATES)] == []
    # By hand it is done in the same way.
    prefixes = " ".join(f"--prefix={state}" for state in STATES)
    assert f"   # systemd-tmpfiles --create {prefixes}\n" in re.sub(r"\\\n +", "", GUIDE.read_text())


@as_root
def test_the_state_directory_is_roots_where_the_file_of_the_guide_says_so(machine: Machine) -> None:
    (shown,) = re.findall(r":caption: /etc/tmpfiles\.d/00-plimsoll\.conf\n\n((?: +.*\n)+)", GUIDE.read_text())
    assert machine.make_directories().status == 0
    (machine.root / "etc/tmpfiles.d/00-plimsoll.conf").write_text(textwrap.dedent(shown))
    assert machine.make_directories().status == 0
    assert [path.stat().st_uid for path in (machine.state, machine.state / "probes.lock")] == [0, 0]
    assert machine.catalogue.stat().st_uid == machine.users["plimsoll-catalogue"][0]


@pytest.fixture
def node(machine: Machine, test_node: str) -> Machine:
    """With settings as an installed node has them, on libvirt's test driver."""
    for _ in range(2):  # each boot does it again
        made = machine.make_directories()
        assert (made.status, made.err) == (0, "")
    guests = machine.root / "guests"
    shutil.copytree(test_node.removeprefix("test://").removesuffix("/node.xml"), guests)
    machine.metrics.mkdir()
    for user in ("plimsoll", "plimsoll-probe"):
        assert run("setfacl", "-m", f"u:{machine.users[user][0]}:rwx", machine.metrics).status == 0
    uuid = re.findall("<uuid>(.*)</uuid>", (guests / "0.xml").read_text())[0]
    (machine.root / "etc/rules.yaml").write_text(
        "default: {limits: {total_iops_sec: 250}}\n"
        f"rules: [{{name: canary, match: {{guest: {uuid}}}, probe: {{every: 6h}}}}]\n"
    )
    _, public = key_pair(machine.root)
    (machine.root / "etc/plimsoll.conf").write_text(
        f"[DEFAULT]\nstate_dir = {machine.state}\nrules_file = {machine.root}/etc/rules.yaml\nmode = enforce\n"
        f"[libvirt]\nuri = test://{guests}/node.xml\n[metrics]\ntextfile_dir = {machine.metrics}\n"
        "[ceph]\nblocking_checks =\n"
        f"[catalogue]\nsource = region-file\ndirectory = {machine.catalogue}\n"
        f"region_file = {machine.root}/none\nregion_key = {public}\n"
    )
    guests.chmod(0o755)
    if run(*as_user(*machine.users["plimsoll"]), "test", "-r", config.__file__).status != 0:
        pytest.skip("other users cannot enter this checkout")
    return machine


@as_root
def test_what_one_user_fetches_of_congestion_passes_of_another_read(node: Machine) -> None:
    now = datetime.now(UTC)
    file = a_factor_file(issued=now, valid_until=now + LASTS)
    (node.root / "congestion.json").write_bytes(a_key().seal(encode(file)))
    key = keep_public(node.root / "congestion.pub", a_key())
    with (node.root / "etc/plimsoll.conf").open("a") as settings:
        settings.write(f"[congestion]\nfiles = {node.root}/congestion.json\nkey = {key}\n")
    assert node.plimsoll("plimsoll-catalogue", "congestion", "fetch") == Ran(0, "", "")
    assert node.owners(node.catalogue)["congestion-0.json"] == "plimsoll-catalogue"
    node.plimsoll("plimsoll", "enforce")
    told = json.loads(node.plimsoll("plimsoll", "status", "-f", "json").out)
    assert told["sources"]["congestion"], told["pass"]["notes"]


@as_root
def test_the_units_users_share_the_state_directory(node: Machine) -> None:
    refreshed = node.plimsoll("plimsoll-catalogue", "catalogue", "refresh")
    assert "/none: cannot be read: No such file or directory" in refreshed.err
    for _ in range(2):
        enforced = node.plimsoll("plimsoll", "enforce")
        assert "ermission" not in enforced.out + enforced.err
    # Fails where the target's time has just come: libvirt's test driver has no guest agent.
    probed = node.plimsoll("plimsoll-probe", "probe", "run", "--due")
    assert probed.status in (0, 1)
    assert "ermission" not in probed.out + probed.err

    passes = {
        "clock.json",
        "memory.json",
        "pass.json",
        "pass.lock",
        "guests.lock",
        "store.lock",
        "record.sqlite",
        "rules.last.yaml",
        "attachments.json",
        "usage.jsonl",
    }
    probes = {"probes.lock", "probes.sqlite", "probes-latest.sqlite"}
    assert node.owners(node.state) == dict.fromkeys(passes, "plimsoll") | dict.fromkeys(probes, "plimsoll-probe")
    assert {path.stat().st_gid for path in node.state.iterdir()} == {node.gids["plimsoll"]}
    assert node.owners(node.metrics) == {"plimsoll-pass.prom": "plimsoll", "plimsoll-probe.prom": "plimsoll-probe"}
    # A pass tells how many refreshes failed: it may read what the refresher notes, which others may not.
    readers = {user for user, ids in node.users.items() if run(*as_user(*ids), "test", "-r", node.notes).status == 0}
    assert readers == {"root", "plimsoll", "plimsoll-probe", "plimsoll-catalogue"}


@as_root
def test_what_root_probed_by_hand_is_a_history_that_the_unit_goes_on_with(node: Machine) -> None:
    node.plimsoll("root", "probe", "run", "--job", "read")
    probes = {"probes.lock", "probes.sqlite", "probes-latest.sqlite"}
    assert node.owners(node.state) == dict.fromkeys(
        ("pass.lock", "guests.lock", "store.lock"), "plimsoll"
    ) | dict.fromkeys(probes, "plimsoll-probe")
    goes_on = node.plimsoll("plimsoll-probe", "probe", "run", "--due")
    assert (goes_on.status, goes_on.err) == (0, "")


@as_root
def test_a_member_of_the_group_reads_the_state_and_cannot_write_it(node: Machine) -> None:
    node.plimsoll("plimsoll", "enforce")
    told = node.plimsoll("nagios", "status", groups=["plimsoll"]).out
    assert re.search(r"^passes +last \d+ s ago", told, re.MULTILINE), told
    before = {path.name: path.read_bytes() for path in node.state.iterdir()}
    assert "ermission denied" in node.plimsoll("nagios", "enforce", groups=["plimsoll"]).err
    assert {path.name: path.read_bytes() for path in node.state.iterdir()} == before
    assert not node.state.stat().st_mode & 0o007, "others do not even see what is there"
