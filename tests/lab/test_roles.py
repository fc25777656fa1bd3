"""The role agent on hosts with a real systemd, with nothing set and with much set: looked at, run, run again."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from plimsoll_agent import rulesfile
from tests import wheelhouses
from tests.lab.cloud import Guest
from tests.lab.cloud.command import run
from tests.lab.cloud.fleet import Fleet
from tests.lab.cloud.fleethost import REAL
from tests.lab.cloud.libvirtd import SOCKET_GROUP
from tests.lab.playbook import SCENARIOS, Playbooks, Played

# Each scenario is four goes of Ansible, and counts for the first test that asks for it.
pytestmark = [pytest.mark.hosts, pytest.mark.timeout(1200)]

Guests = Callable[..., list[Guest]]

BIN = Path(sys.executable).parent
PASSWORD = "a-password-of-nobody-7261"
KEY = "AQBkZXlvZm5vYm9keTcyNjE5OTk5OTk5OTk5OTk5OQ=="
CRON_LINE = "*/5 * * * * root /usr/local/sbin/limit-disks >/dev/null"
CRON = f"# limits for guests\nMAILTO=root\n{CRON_LINE}\n17 * * * * root /bin/true\n"
DAILY = "#!/bin/sh\nvirsh blkdeviotune one vda --total-iops-sec 100\n"
LOOKED_AT = (
    "find /etc /opt /usr/local /var/lib /srv -newer /root/before ! -path '/var/lib/systemd/*' 2>/dev/null; true"
)


@dataclass(frozen=True)
class Scenario:
    """What Ansible said in four goes, and what the first one left on the host."""

    looked: Played
    touched: str
    ran: Played
    again: Played
    looked_again: Played


class Site:
    """An inventory with a wheelhouse beside it, and secrets in a vault."""

    def __init__(self, home: Path, fleet: Fleet) -> None:
        self._home = home
        self._fleet = fleet
        self._playbooks = Playbooks(home)
        self._inventory = home / "inventory/hosts.yml"
        (home / "inventory/wheelhouses").mkdir(parents=True)
        built = wheelhouses.built()
        (home / "inventory/wheelhouses" / built.name).symlink_to(built)
        (home / "vault-password").write_text("opens-it\n")
        (home / "secrets.yml").write_text(f"much_password: {PASSWORD}\nmuch_key: {KEY}\n")
        run(
            [BIN / "ansible-vault", "encrypt", "--vault-password-file", home / "vault-password", home / "secrets.yml"]
        )

    @property
    def _vault(self) -> list[str]:
        return ["-e", f"@{self._home}/secrets.yml", "--vault-password-file", f"{self._home}/vault-password"]

    def play(self, playbook: str, hosts: list[str], *words: str, **variables: object) -> Played:
        self._fleet.write_inventory(self._inventory, hosts)
        return self._playbooks.play(f"agent/{playbook}.yml", self._inventory, *self._vault, *words, **variables)

    def play_loudly(self, playbook: str, hosts: list[str], *words: str) -> str:
        """All that Ansible says when it is asked to say everything."""
        self._fleet.write_inventory(self._inventory, hosts)
        playbook_file = SCENARIOS / f"agent/{playbook}.yml"
        done = subprocess.run(
            [BIN / "ansible-playbook", "-vvvv", "-i", self._inventory, *self._vault, *words, playbook_file],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self._playbooks.environment | {"ANSIBLE_STDOUT_CALLBACK": "default"},
            timeout=280,
        )
        assert done.returncode == 0, done.stdout[-3000:]
        return done.stdout

    def run_scenario(self, playbook: str, hosts: list[str]) -> Scenario:
        for host in hosts:
            self._fleet.run(host, "touch /root/before; sleep 0.1")
        looked = self.play(playbook, hosts, "--check", "--diff")
        touched = "".join(self._fleet.run(host, LOOKED_AT) for host in hosts)
        ran = self.play(playbook, hosts, "--diff")
        return Scenario(
            looked, touched, ran, self.play(playbook, hosts), self.play(playbook, hosts, "--check", "--diff")
        )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, fleet: Fleet) -> Site:
    return Site(tmp_path_factory.mktemp("site"), fleet)


@pytest.fixture(scope="module")
def nothing(site: Site, fleet: Fleet) -> Iterator[Scenario]:
    hosts = [REAL.name]
    fleet.reset(hosts)
    yield site.run_scenario("nothing", hosts)
    fleet.reset(hosts)


@pytest.fixture(scope="module")
def much(site: Site, fleet: Fleet) -> Iterator[Scenario]:
    fleet.reset(["r1-c3"])
    fleet.run("r1-c3", f"cat > /etc/cron.d/limits <<'end'\n{CRON}end")
    fleet.run("r1-c3", f"mkdir -p /etc/cron.daily; cat > /etc/cron.daily/limits <<'end'\n{DAILY}end")
    fleet.run("r1-c3", f"cat > /usr/local/sbin/limit-disks <<'end'\n{DAILY}end")
    fleet.run("r1-c3", "chmod 755 /etc/cron.daily/limits /usr/local/sbin/limit-disks")
    yield site.run_scenario("much", ["r1-c3"])
    fleet.reset(["r1-c3"])


def test_check_mode_on_a_fresh_host_says_what_would_be_done_and_does_nothing(nothing: Scenario, much: Scenario):
    for scenario in (nothing, much):
        assert scenario.looked.failures == {}
        assert scenario.touched == ""
    tasks = {task for task, _ in nothing.looked.changed}
    assert {"Have this version in force", "Write settings, rules and drop-ins"} <= tasks
    assert "/etc/plimsoll/plimsoll.conf" in nothing.looked.out
    assert "total_iops_sec: 250" in much.looked.out


def test_a_second_run_and_a_look_after_it_find_nothing_to_change(nothing: Scenario, much: Scenario):
    for scenario in (nothing, much):
        assert scenario.ran.failures == {}
        assert scenario.again.failures == {}
        assert scenario.looked_again.failures == {}
        assert scenario.again.changed == []
        assert scenario.looked_again.changed == []


def test_a_host_costs_few_tasks(nothing: Scenario, much: Scenario):
    """Each costs a region of hundreds of nodes half a minute."""
    for scenario, host in ((nothing, REAL.name), (much, "r1-c3")):
        for played in (scenario.ran, scenario.again):
            done = [task for task, which, result in played.results if which == host and not result.get("skipped")]
            assert 5 < len(done) <= 15, done


@pytest.mark.usefixtures("nothing")
def test_with_nothing_set_passes_are_made_that_change_nothing(fleet: Fleet):
    assert timers(fleet, REAL.name) == {"plimsoll-enforce.timer"}
    fleet.run(REAL, "systemctl start plimsoll-enforce.service")
    assert "The mode is observe" in fleet.run(REAL, "journalctl --no-pager -u plimsoll-enforce.service")
    assert fleet.run(REAL, "cat /etc/plimsoll/rules.yaml").split() == ["{}"]
    metrics = "/var/lib/prometheus/node-exporter/plimsoll-pass.prom"
    assert fleet.run(REAL, f"stat -c '%U %a' {metrics}").split() == ["plimsoll", "644"]


@pytest.mark.usefixtures("nothing")
def test_a_pass_reaches_a_libvirt_whose_sockets_group_has_no_name(fleet: Fleet, guests: Guests):
    """systemd starts no unit with the number of a group that is not known on the host."""
    (guest,) = guests()
    fleet.run(REAL, "systemctl start plimsoll-enforce.service")
    assert fleet.run(REAL, f"getent group {SOCKET_GROUP}").startswith("plimsoll-libvirt:")
    assert guest.uuid in fleet.run(REAL, "cat /var/lib/plimsoll/pass.json")


@pytest.mark.usefixtures("much")
def test_what_is_set_is_on_the_host(fleet: Fleet):
    written = fleet.run("r1-c3", "cat /etc/plimsoll/plimsoll.conf")
    for line in ("mode = enforce", "rounds = 3", "source = openstack", "textfile_dir = /srv/metrics/text"):
        assert line in written.splitlines()
    assert "blocking_checks = PG_AVAILABILITY,SLOW_OPS" in written.splitlines()
    rules = rulesfile.parse(fleet.run("r1-c3", "cat /etc/plimsoll/rules.yaml"), "rules.yaml")
    assert [rule.name for rule in rules.rules] == ["the cloud's own"]
    assert timers(fleet, "r1-c3") == {f"plimsoll-{name}.timer" for name in ("enforce", "catalogue", "probe")}
    calendar = fleet.run("r1-c3", "systemctl show -p TimersCalendar plimsoll-enforce.timer")
    assert re.findall(r"OnCalendar=(\S+ \S+)", calendar) == ["*-*-* *:00/2:30"]
    shown = fleet.run("r1-c3", "systemctl show plimsoll-enforce plimsoll-probe -p IPAddressAllow,PrivateNetwork")
    assert shown.count("127.0.0.1/32") == shown.count("PrivateNetwork=no") == 2


@pytest.mark.usefixtures("much")
def test_passes_and_refreshes_run_under_what_is_set(fleet: Fleet):
    fleet.run("r1-c3", "systemctl start plimsoll-enforce.service")
    assert "plimsoll_pass" in fleet.run("r1-c3", "cat /srv/metrics/text/plimsoll-pass.prom")
    # It reads its credentials, and gets as far as to what is no Keystone.
    fleet.run("r1-c3", "systemctl start plimsoll-catalogue.service", check=False)
    assert "127.0.0.1:22" in fleet.run("r1-c3", "journalctl --no-pager -u plimsoll-catalogue.service")


@pytest.mark.usefixtures("much")
def test_secrets_are_only_for_those_who_need_them(fleet: Fleet):
    for path, owners in (
        ("/etc/plimsoll/openstack.conf", "640 root plimsoll-catalogue"),
        ("/etc/ceph/ceph.client.plimsoll.keyring", "640 root plimsoll-ceph"),
    ):
        assert fleet.run("r1-c3", f"stat -c '%a %U %G' {path}").strip() == owners
    assert PASSWORD in fleet.run("r1-c3", "cat /etc/plimsoll/openstack.conf")
    assert KEY in fleet.run("r1-c3", "cat /etc/ceph/ceph.client.plimsoll.keyring")
    may_read = "runuser -u {} -- cat /etc/plimsoll/openstack.conf > /dev/null 2>&1 && echo yes || echo no"
    assert fleet.run("r1-c3", may_read.format("plimsoll-catalogue")).strip() == "yes"
    assert fleet.run("r1-c3", may_read.format("plimsoll")).strip() == "no"


def test_no_secret_is_in_what_ansible_says_or_the_host_logs(much: Scenario, fleet: Fleet, site: Site):
    """Also where it says everything, while it writes them."""
    fleet.run("r1-c3", "rm /etc/plimsoll/openstack.conf /etc/ceph/ceph.client.plimsoll.keyring")
    loud = site.play_loudly("much", ["r1-c3"], "--diff")
    assert "Write credentials" in loud
    assert PASSWORD in fleet.run("r1-c3", "cat /etc/plimsoll/openstack.conf")
    journal = fleet.run("r1-c3", "journalctl --no-pager")
    assert "ansible-plimsoll.cloud.files" in journal
    for said in (loud, much.looked.out, much.ran.out, much.again.out, much.looked_again.out, journal):
        assert PASSWORD not in said
        assert KEY not in said


def test_cron_entries_that_write_limits_are_kept_and_run_no_more(much: Scenario, fleet: Fleet):
    assert ("Take cron entries out of the way that write limits too", "r1-c3") in much.ran.changed
    lines = fleet.run("r1-c3", "cat /etc/cron.d/limits").splitlines()
    assert CRON_LINE not in lines
    assert "17 * * * * root /bin/true" in lines
    assert any(line.startswith("#") and line.endswith(CRON_LINE) for line in lines)
    assert fleet.run("r1-c3", "run-parts --test /etc/cron.daily | grep -c limits || true").strip() == "0"
    assert fleet.run("r1-c3", "cat /etc/cron.daily/.limits.plimsoll-retired") == DAILY


def test_what_was_retired_of_cron_can_be_had_back(much: Scenario, fleet: Fleet, site: Site):
    restored = site.play("restored", ["r1-c3"])
    assert restored.failures == {}
    assert fleet.run("r1-c3", "cat /etc/cron.d/limits") == CRON
    assert fleet.run("r1-c3", "cat /etc/cron.daily/limits; stat -c %a /etc/cron.daily/limits") == f"{DAILY}755\n"
    assert site.play("much", ["r1-c3"], "--tags", "enable").changed == [
        ("Take cron entries out of the way that write limits too", "r1-c3")
    ]


def test_another_interval_is_in_force_without_a_restart(much: Scenario, fleet: Fleet, site: Site):
    started = fleet.run("r1-c3", "systemctl show -p ActiveEnterTimestampMonotonic plimsoll-enforce.timer")
    played = site.play("much", ["r1-c3"], "--tags", "configure,enable", agent_interval="*:7")
    assert played.changed == [("Write settings, rules and drop-ins", "r1-c3")]
    following = fleet.run("r1-c3", "systemctl show -p NextElapseUSecRealtime --value plimsoll-enforce.timer")
    assert re.search(r":07:[0-5]\d ", following)
    assert started == fleet.run("r1-c3", "systemctl show -p ActiveEnterTimestampMonotonic plimsoll-enforce.timer")


def test_rules_and_settings_with_a_fault_do_not_replace_what_there_is(much: Scenario, fleet: Fleet, site: Site):
    before = fleet.run("r1-c3", "md5sum /etc/plimsoll/*")
    faulty = {"default": {"limits": {"total_iops_sec": 5, "read_iops_sec": 5}}}
    played = site.play("much", ["r1-c3"], "--tags", "configure", agent_rules=faulty)
    assert "/etc/plimsoll/rules.yaml:" in played.failures["r1-c3"]
    played = site.play("much", ["r1-c3"], "--tags", "configure", agent_settings={"brake": {"disk": 5}})
    assert "did you mean disks?" in played.failures["r1-c3"]
    assert fleet.run("r1-c3", "md5sum /etc/plimsoll/*") == before


def test_timers_are_stopped_where_that_is_asked_for_and_kept_where_that_is(much: Scenario, fleet: Fleet, site: Site):
    only_that = ["--tags", "enable"]
    site.play("much", ["r1-c3"], *only_that, agent_timers="stopped")
    assert timers(fleet, "r1-c3") == set()
    assert site.play("much", ["r1-c3"], *only_that, agent_timers="kept").changed == []
    assert timers(fleet, "r1-c3") == set()
    site.play("much", ["r1-c3"], *only_that)
    assert len(timers(fleet, "r1-c3")) == 3


def test_a_host_in_trouble_is_told_its_trouble_and_stops_no_other(fleet: Fleet, site: Site):
    troubles = {
        "r2-down": "ssh",
        "r2-full": "/opt/plimsoll has",
        "r2-clock": "s behind the controller's",
        "r2-release": f"plimsoll-{wheelhouses.VERSION}-debian13-cp313-x86_64.tar.gz is wanted",
    }
    fleet.start(troubles)
    played = site.play("nothing", [REAL.name, *troubles], "--tags", "preflight")
    failures = played.failures
    assert set(failures) == set(troubles)
    for host, words in troubles.items():
        assert words in failures[host]
        fleet.kill(host)
    asked = {task for task, host, _ in played.results if host == REAL.name}
    assert any(task.endswith("See that it is fit for plimsoll") for task in asked)


def timers(fleet: Fleet, host: str) -> set[str]:
    """Those of plimsoll that are enabled and active."""
    names = "plimsoll-enforce.timer plimsoll-catalogue.timer plimsoll-probe.timer"
    shown = fleet.run(host, f"systemctl show -p Id,UnitFileState,ActiveState {names}").split("\n\n")
    units = [dict(line.split("=", 1) for line in unit.split()) for unit in shown]
    return {unit["Id"] for unit in units if (unit["UnitFileState"], unit["ActiveState"]) == ("enabled", "active")}
