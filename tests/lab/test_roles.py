"""The role agent on two hosts with a real systemd, one with nothing set, one with much: looked at, run, run again."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from lab import packages
from lab.cloud import Guest, ports
from lab.cloud.command import run
from lab.cloud.fleet import Fleet
from lab.cloud.fleethost import HOSTS, REAL
from lab.cloud.libvirtd import SOCKET_GROUP
from plimsoll_agent.rules import loader
from tests.lab.playbook import Playbooks, Played

# Four goes of Ansible count for the first test that asks for what they leave.
pytestmark = [pytest.mark.hosts, pytest.mark.timeout(1200)]

Guests = Callable[..., list[Guest]]

BIN = Path(sys.executable).parent
NOTHING, MUCH = REAL.name, "r1-c3"
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
    """What Ansible said in four goes on both hosts, and what the first one left on them."""

    looked: Played
    touched: str
    ran: Played
    again: Played
    looked_again: Played

    @property
    def played(self) -> tuple[Played, ...]:
        return self.looked, self.ran, self.again, self.looked_again


class Site:
    """An inventory, a repository, and secrets in a vault."""

    def __init__(self, home: Path, fleet: Fleet, repository: Mapping[str, str]) -> None:
        self._home = home
        self._repository = repository
        self._fleet = fleet
        self._playbooks = Playbooks(home)
        self._inventory = home / "inventory/hosts.yml"
        self._inventory.parent.mkdir()
        (home / "vault-password").write_text("opens-it\n")
        (home / "secrets.yml").write_text(f"much_password: {PASSWORD}\nmuch_key: {KEY}\n")
        run(
            [BIN / "ansible-vault", "encrypt", "--vault-password-file", home / "vault-password", home / "secrets.yml"]
        )

    def play(
        self, *words: str, playbook: str = "site", only: Mapping[str, Mapping[str, object]] | None = None
    ) -> Played:
        """On both hosts, or on those of ``only``, which have these variables beside theirs."""
        chosen = only if only is not None else {NOTHING: {}, MUCH: {}}
        inventory = self._fleet.inventory(sorted(chosen), self._repository)
        for region in inventory["plimsoll"]["children"].values():
            for host, known in region["hosts"].items():
                known |= chosen[host]
        inventory["much"] = {"hosts": {host: None for host in chosen if host == MUCH}}
        self._inventory.write_text(f"---\n{yaml.safe_dump(inventory)}")
        vault = ["-e", f"@{self._home}/secrets.yml", "--vault-password-file", f"{self._home}/vault-password"]
        return self._playbooks.play(f"agent/{playbook}.yml", self._inventory, *vault, *words)

    def play_much(self, *words: str, playbook: str = "site", **variables: object) -> Played:
        return self.play(*words, playbook=playbook, only={MUCH: variables})


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, fleet: Fleet) -> Iterator[Site]:
    home = tmp_path_factory.mktemp("repository")
    key = packages.repository(home, packages.debs())
    with packages.served(home, f"{ports.FLEET_NETWORK}.1") as url:
        repository = {"plimsoll_repository": url, "plimsoll_repository_key": key}
        yield Site(tmp_path_factory.mktemp("site"), fleet, repository)


@pytest.fixture(scope="module")
def scenario(site: Site, fleet: Fleet) -> Iterator[Scenario]:
    hosts = [NOTHING, MUCH]
    fleet.reset(hosts)
    fleet.run(MUCH, f"cat > /etc/cron.d/limits <<'end'\n{CRON}end")
    fleet.run(MUCH, f"mkdir -p /etc/cron.daily; cat > /etc/cron.daily/limits <<'end'\n{DAILY}end")
    fleet.run(MUCH, f"cat > /usr/local/sbin/limit-disks <<'end'\n{DAILY}end")
    fleet.run(MUCH, "chmod 755 /etc/cron.daily/limits /usr/local/sbin/limit-disks")
    for host in hosts:
        fleet.run(host, "touch /root/before; sleep 0.1")
    looked = site.play("--check", "--diff")
    touched = "".join(fleet.run(host, LOOKED_AT) for host in hosts)
    # All that Ansible says when it is asked to say everything.
    ran = site.play("--diff", "-vvvv")
    yield Scenario(looked, touched, ran, site.play(), site.play("--check", "--diff"))
    fleet.reset(hosts)


def done_on(played: Played, host: str) -> list[str]:
    """The tasks that were not skipped there."""
    return [task for task, which, result in played.own_results if which == host and not result.get("skipped")]


def said_of(played: Played, host: str) -> str:
    return json.dumps([result for _, which, result in played.results if which == host])


def test_check_mode_on_a_fresh_host_says_what_would_be_done_and_does_nothing(scenario: Scenario):
    assert scenario.looked.failures == {}
    assert scenario.touched == ""
    tasks = {task for task, host in scenario.looked.changed if host == NOTHING}
    assert {"Show what would be installed", "Write settings", "Write drop-ins of units"} <= tasks
    assert "/etc/plimsoll/plimsoll.conf" in said_of(scenario.looked, NOTHING)
    assert "total_iops_sec: 250" in said_of(scenario.looked, MUCH)


def test_a_second_run_and_a_look_after_it_find_nothing_to_change(scenario: Scenario):
    for played in (scenario.ran, scenario.again, scenario.looked_again):
        assert played.failures == {}
    assert scenario.again.changed == []
    assert scenario.looked_again.changed == []


def test_a_host_is_asked_and_told_no_more_than_it_takes(scenario: Scenario):
    """Each task costs a region of hundreds of nodes half a minute, and so what is not needed is skipped."""
    always = [
        "Validating arguments against arg spec 'main' - Installs, configures and enables plimsoll on a compute node",
        "Collect facts of the node",
        "Check the node's requirements",
        "Write credentials",
        "Let plimsoll write its metrics",
        "Start or stop timers",
    ]
    new = [
        "Write apt's source of packages",
        "Install this version with apt",
        "Write rules",
        "Write settings",
        "Create the directories of drop-ins",
        "Write drop-ins of units",
        "Reload systemd",
    ]
    once = {
        NOTHING: [*new, "Create a group for libvirt's socket"],
        MUCH: [
            *new,
            "Create the directory of node_exporter's text files",
            "Disable cron entries that write limits too",
        ],
    }
    for host, more in once.items():
        assert done_on(scenario.again, host) == always
        assert sorted(done_on(scenario.ran, host)) == sorted(always + more)


@pytest.mark.usefixtures("scenario")
def test_with_nothing_set_passes_are_made_that_change_nothing(fleet: Fleet):
    assert timers(fleet, REAL.name) == {"plimsoll-enforce.timer"}
    fleet.run(REAL, "systemctl start plimsoll-enforce.service")
    assert "Mode is observe" in fleet.run(REAL, "journalctl --no-pager -u plimsoll-enforce.service")
    assert fleet.run(REAL, "cat /etc/plimsoll/rules.yaml").split() == ["{}"]
    metrics = "/var/lib/prometheus/node-exporter/plimsoll-pass.prom"
    assert fleet.run(REAL, f"stat -c '%U %a' {metrics}").split() == ["plimsoll", "644"]


@pytest.mark.usefixtures("scenario")
def test_a_pass_reaches_a_libvirt_whose_sockets_group_has_no_name(fleet: Fleet, guests: Guests):
    """systemd starts no unit with the number of a group that is not known on the host."""
    (guest,) = guests()
    fleet.run(REAL, "systemctl start plimsoll-enforce.service")
    assert fleet.run(REAL, f"getent group {SOCKET_GROUP}").startswith("plimsoll-libvirt:")
    assert guest.uuid in fleet.run(REAL, "cat /var/lib/plimsoll/pass.json")


@pytest.mark.usefixtures("scenario")
def test_what_is_set_is_on_the_host(fleet: Fleet):
    written = fleet.run(MUCH, "cat /etc/plimsoll/plimsoll.conf")
    for line in ("mode = enforce", "rounds = 3", "source = openstack", "textfile_dir = /srv/metrics/text"):
        assert line in written.splitlines()
    assert "blocking_checks = PG_AVAILABILITY,SLOW_OPS" in written.splitlines()
    rules = loader.parse(fleet.run(MUCH, "cat /etc/plimsoll/rules.yaml"), "rules.yaml")
    assert [rule.name for rule in rules.rules] == ["the cloud's own"]
    assert timers(fleet, MUCH) == {f"plimsoll-{name}.timer" for name in ("enforce", "catalogue", "probe")}
    calendar = fleet.run(MUCH, "systemctl show -p TimersCalendar plimsoll-enforce.timer")
    assert re.findall(r"OnCalendar=(\S+ \S+)", calendar) == ["*-*-* *:00/2:30"]
    shown = fleet.run(MUCH, "systemctl show plimsoll-enforce plimsoll-probe -p IPAddressAllow,PrivateNetwork")
    assert shown.count("127.0.0.1/32") == shown.count("PrivateNetwork=no") == 2
    assert "read = true" in written.partition("[consoles]\n")[2].splitlines()[:1]
    shown = fleet.run(MUCH, "systemctl show plimsoll-enforce plimsoll-probe -p AmbientCapabilities")
    assert sorted(shown.split()) == ["AmbientCapabilities=", "AmbientCapabilities=cap_dac_read_search"]


@pytest.mark.usefixtures("scenario")
def test_passes_and_refreshes_run_under_what_is_set(fleet: Fleet):
    fleet.run(MUCH, "systemctl start plimsoll-enforce.service")
    assert "plimsoll_pass" in fleet.run(MUCH, "cat /srv/metrics/text/plimsoll-pass.prom")
    # It reads its credentials, and gets as far as to what is no Keystone.
    fleet.run(MUCH, "systemctl start plimsoll-catalogue.service", check=False)
    assert "127.0.0.1:22" in fleet.run(MUCH, "journalctl --no-pager -u plimsoll-catalogue.service")


@pytest.mark.usefixtures("scenario")
def test_secrets_are_only_for_those_who_need_them(fleet: Fleet):
    for path, owners in (
        ("/etc/plimsoll/openstack.conf", "640 root plimsoll-catalogue"),
        ("/etc/ceph/ceph.client.plimsoll.keyring", "640 root plimsoll-ceph"),
    ):
        assert fleet.run(MUCH, f"stat -c '%a %U %G' {path}").strip() == owners
    assert PASSWORD in fleet.run(MUCH, "cat /etc/plimsoll/openstack.conf")
    assert KEY in fleet.run(MUCH, "cat /etc/ceph/ceph.client.plimsoll.keyring")
    may_read = "runuser -u {} -- cat /etc/plimsoll/openstack.conf > /dev/null 2>&1 && echo yes || echo no"
    assert fleet.run(MUCH, may_read.format("plimsoll-catalogue")).strip() == "yes"
    assert fleet.run(MUCH, may_read.format("plimsoll")).strip() == "no"


def test_no_secret_is_in_what_ansible_says_or_the_host_logs(scenario: Scenario, fleet: Fleet):
    """Also where it says everything, while it writes them."""
    assert "Write credentials" in done_on(scenario.ran, MUCH)
    assert f"<{HOSTS[MUCH].address}> SSH: EXEC" in scenario.ran.out
    journal = fleet.run(MUCH, "journalctl --no-pager")
    assert "ansible-ansible.legacy.copy" in journal
    for said in (*(played.out for played in scenario.played), journal):
        assert PASSWORD not in said
        assert KEY not in said


def test_cron_entries_that_write_limits_are_kept_and_run_no_more(scenario: Scenario, fleet: Fleet):
    assert ("Disable cron entries that write limits too", MUCH) in scenario.ran.changed
    lines = fleet.run(MUCH, "cat /etc/cron.d/limits").splitlines()
    assert CRON_LINE not in lines
    assert "17 * * * * root /bin/true" in lines
    assert any(line.startswith("#") and line.endswith(CRON_LINE) for line in lines)
    assert fleet.run(MUCH, "run-parts --test /etc/cron.daily | grep -c limits || true").strip() == "0"
    assert fleet.run(MUCH, "cat /etc/cron.daily/.limits.plimsoll-retired") == DAILY


@pytest.mark.usefixtures("scenario")
def test_another_interval_is_actual_without_a_restart(fleet: Fleet, site: Site):
    started = fleet.run(MUCH, "systemctl show -p ActiveEnterTimestampMonotonic plimsoll-enforce.timer")
    played = site.play_much("--tags", "configure,enable", plimsoll_interval="*:7")
    assert played.changed == [("Write drop-ins of units", MUCH)]
    following = fleet.run(MUCH, "systemctl show -p NextElapseUSecRealtime --value plimsoll-enforce.timer")
    assert re.search(r":07:[0-5]\d ", following)
    assert started == fleet.run(MUCH, "systemctl show -p ActiveEnterTimestampMonotonic plimsoll-enforce.timer")


@pytest.mark.usefixtures("scenario")
@pytest.mark.parametrize("words", [(), ("--check",)], ids=["run", "check"])
def test_rules_and_settings_with_a_fault_end_a_run_and_a_check_and_replace_nothing(
    fleet: Fleet, site: Site, words: tuple[str, ...]
):
    before = [fleet.run(host, "find /etc/plimsoll -type f | sort | xargs md5sum") for host in (NOTHING, MUCH)]
    faulty = {
        NOTHING: {"plimsoll_settings": {"brake": {"disk": 5}}},
        MUCH: {"plimsoll_rules": {"default": {"limits": {"total_iops_sec": 5, "read_iops_sec": 5}}}},
    }
    played = site.play("--tags", "configure", *words, only=faulty)
    said = {host: json.dumps(result) for _, host, result in played.results if result.get("failed")}
    assert "did you mean disks?" in said[NOTHING]
    assert "total_iops_sec and read_iops_sec" in said[MUCH]
    assert [fleet.run(host, "find /etc/plimsoll -type f | sort | xargs md5sum") for host in (NOTHING, MUCH)] == before


@pytest.mark.usefixtures("scenario")
def test_timers_and_cron_entries_are_stopped_kept_and_had_back_as_it_is_asked_for(fleet: Fleet, site: Site):
    only_that = ["--tags", "enable"]
    site.play_much(*only_that, plimsoll_timers="stopped")
    assert timers(fleet, MUCH) == set()
    assert site.play_much(*only_that, plimsoll_timers="kept").changed == []
    assert timers(fleet, MUCH) == set()

    restored = site.play_much(playbook="restored")
    assert restored.failures == {}
    assert fleet.run(MUCH, "cat /etc/cron.d/limits") == CRON
    assert fleet.run(MUCH, "cat /etc/cron.daily/limits; stat -c %a /etc/cron.daily/limits") == f"{DAILY}755\n"

    assert site.play_much(*only_that).changed == [
        ("Disable cron entries that write limits too", MUCH),
        ("Start or stop timers", MUCH),
    ]
    assert len(timers(fleet, MUCH)) == 3


@pytest.mark.usefixtures("scenario")
def test_the_file_of_an_emptied_secret_is_removed_and_one_of_the_sites_own_stays(fleet: Fleet, site: Site):
    own = "/etc/ceph/ceph.client.plimsoll.keyring"
    fleet.run(MUCH, f"echo '# of the site' > {own}")
    emptied = {"plimsoll_openstack_conf": "", "plimsoll_ceph_keyring": "", "plimsoll_catalogue_source": "none"}
    played = site.play_much("--tags", "configure", **emptied)
    assert played.failures == {}
    assert ("Remove files that are not needed any more", MUCH) in played.changed
    assert fleet.run(MUCH, f"ls /etc/plimsoll/openstack.conf {own} 2> /dev/null || true").split() == [own]


def timers(fleet: Fleet, host: str) -> set[str]:
    """Those of plimsoll that are enabled and active."""
    names = "plimsoll-enforce.timer plimsoll-catalogue.timer plimsoll-probe.timer"
    shown = fleet.run(host, f"systemctl show -p Id,UnitFileState,ActiveState {names}").split("\n\n")
    units = [dict(line.split("=", 1) for line in unit.split()) for unit in shown]
    return {unit["Id"] for unit in units if (unit["UnitFileState"], unit["ActiveState"]) == ("enabled", "active")}
