"""The roles nagios and prometheus on hosts with systemd, and with the programs that they are for."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.cloud.fleet import Fleet
from lab.cloud.layout import CHECKOUT
from lab.waiting import until
from plimsoll_agent.monitor import pass_summary_file
from plimsoll_agent.reconcile.outcome import Kind
from plimsoll_agent.store.state import State
from plimsoll_agent.util.frozen import replace
from tests.lab.playbook import Playbooks, Played
from tests.unit.lastpasses import a_last_disk, a_last_pass, a_name

# What comes first of a module makes its hosts ready, and runs two playbooks on them.
pytestmark = [pytest.mark.hosts, pytest.mark.timeout(600)]

NODES = ("r1-c2", "r2-c1")
SERVER = "r2-c3"
NRPE_FILE = "/etc/nagios/nrpe.d/plimsoll.cfg"
OBJECTS = "/etc/nagios4/conf.d/plimsoll.cfg"
PROGRAM = "/opt/lab/lib"
CHECK_NRPE = "/usr/lib/nagios/plugins/check_nrpe"
RULES = CHECKOUT / "etc/prometheus"

SERVES = f"""
set -e
groupadd --system plimsoll
mkdir -p {PROGRAM}
printf '#!/bin/sh\\nPYTHONPATH={PROGRAM} exec /usr/bin/python3 -m plimsoll_monitoring.nagios "$@"\\n' \\
    > /usr/bin/check_plimsoll
chmod 755 /usr/bin/check_plimsoll
echo 'allowed_hosts=127.0.0.1,{{server}}' > /etc/nagios/nrpe_local.cfg
systemctl start nagios-nrpe-server
"""
ASKS = """
set -e
install -d -o nagios -g nagios /var/lib/nagios4 /var/lib/nagios4/rw /var/lib/nagios4/spool \\
    /var/lib/nagios4/spool/checkresults /var/log/nagios4 /var/log/nagios4/archives /run/nagios4
install -d -o nagios -g nagios /var/lib/icinga2 /var/cache/icinga2 /var/log/icinga2 /etc/icinga2/conf.d/site
systemctl start nagios4
"""


ICINGA = """
for name in r1-c2 r2-c1 other; do
    echo "object Host \\"$name\\" { import \\"generic-host\\"; address = \\"127.0.0.1\\" }"
done > /etc/icinga2/conf.d/site/hosts.conf
rm -f /etc/icinga2/conf.d/apt.conf  # its check of this machine simulates an upgrade, for seconds of a core
systemctl start icinga2
"""
# No Grafana can be had here: what starts again is a stand-in.
PROMETHEUS = """
set -e
install -d -o prometheus -g prometheus /var/lib/prometheus /var/lib/prometheus/metrics2
mkdir -p /etc/grafana/provisioning/dashboards /var/lib/grafana
printf '[Service]\\nExecStart=/bin/sleep infinity\\n' > /etc/systemd/system/grafana-server.service
echo 'ARGS="--web.enable-lifecycle"' > /etc/default/prometheus
systemctl daemon-reload
systemctl start prometheus grafana-server
"""


class Place:
    """Two nodes and a monitoring server, as a site has them before plimsoll's roles run there."""

    def __init__(self, fleet: Fleet, home: Path) -> None:
        self.fleet = fleet
        self.inventory = home / "inventory/hosts.yml"
        self.inventory.parent.mkdir()
        self._playbooks = Playbooks(home)
        nodes, server = fleet.inventory(NODES), fleet.inventory([SERVER])["plimsoll"]
        hosts = server["children"]["region2"]["hosts"]
        text = yaml.safe_dump(nodes | {"monitoring": {"vars": server["vars"], "hosts": hosts}})
        self.inventory.write_text(f"---\n{text}")
        self.addresses = {
            name: known["ansible_host"]
            for region in nodes["plimsoll"]["children"].values()
            for name, known in region["hosts"].items()
        }
        self.server = hosts[SERVER]["ansible_host"]
        self.play = self._playbooks.play

    def on_server(self, command: str, check: bool = True) -> str:
        return self.fleet.run(SERVER, command, check=check)

    def changes(self, *words: str, playbook: str, **variables: object) -> dict[str, set[str]]:
        """What a run that goes well changes: each task's or handler's hosts."""
        return changes_of(self.play(playbook, self.inventory, *words, **variables))

    def pid(self, host: str, unit: str) -> str:
        return self.fleet.run(host, f"systemctl show -P MainPID {unit}").strip()


def changes_of(played: Played) -> dict[str, set[str]]:
    assert played.ok, played.failures
    found: dict[str, set[str]] = {}
    for task, host in played.changed:
        found.setdefault(task, set()).add(host)
    return found


@pytest.fixture(scope="module")
def place(fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    fleet.reset([*NODES, SERVER])
    place = Place(fleet, tmp_path_factory.mktemp("place"))
    for node in NODES:
        fleet.run(node, SERVES.replace("{server}", place.server))
        upload(fleet, node, {PROGRAM: program(), "/var/lib/plimsoll": state(place.inventory.parent / node)})
        fleet.run(node, "chown -R root:plimsoll /var/lib/plimsoll; chmod -R o= /var/lib/plimsoll")
    place.on_server(ASKS)
    yield place
    fleet.reset([*NODES, SERVER])


def program() -> list[Path]:
    """The packages that check_plimsoll imports beside the standard library."""
    asked = (
        "import sys, plimsoll_monitoring.nagios.check\n"
        "for name, module in list(sys.modules.items()):\n"
        "    if '.' not in name and hasattr(module, '__path__'):\n"
        "        print(module.__path__[0])\n"
    )
    told = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True).stdout
    paths = [Path(line) for line in told.splitlines()]
    return [path for path in paths if "site-packages" in path.parts or CHECKOUT in path.parents]


def state(directory: Path) -> list[Path]:
    """What a good pass leaves that deferred the change of one of two disks."""
    directory.mkdir()
    now = datetime.now(UTC)
    disks = [a_last_disk(a_name(1)), a_last_disk(a_name(2), kind=Kind.DEFERRED)]
    pass_summary_file.save(
        State(directory), replace(a_last_pass(*disks), started=now, ended=now, looked=now, last_good=now)
    )
    return sorted(directory.iterdir())


def upload(fleet: Fleet, host: str, files: Mapping[str, list[Path]]) -> None:
    """Into directories there, made where they are not."""
    for directory, paths in files.items():
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as tar:
            for path in paths:
                tar.add(path, path.name)
        unpack = f"mkdir -p {directory} && tar -xzf - -C {directory}"
        subprocess.run([*fleet.ssh(host), unpack], input=packed.getvalue(), check=True, timeout=60)


# --- nagios


@dataclass(frozen=True)
class First:
    """What came of the role nagios with nothing set, on fresh hosts."""

    checked: dict[str, set[str]]
    left_by_check: list[str]
    changed: dict[str, set[str]]
    nagios: tuple[str, str]
    """Its process before and after."""


@pytest.fixture(scope="module")
def first(place: Place) -> First:
    checked = place.changes("--check", playbook="nagios/nothing.yml")
    left = [place.fleet.run(host, f"ls {NRPE_FILE} {OBJECTS} 2> /dev/null || true") for host in (*NODES, SERVER)]
    before = place.pid(SERVER, "nagios4")
    changed = place.changes(playbook="nagios/nothing.yml")
    return First(checked, left, changed, (before, place.pid(SERVER, "nagios4")))


def test_nrpe_answers_what_nagios_asks_of_the_nodes_of_the_inventory(place: Place, first: First) -> None:
    for address in place.addresses.values():
        said = place.on_server(f"{CHECK_NRPE} -H {address} -c check_plimsoll_agent")
        assert said.startswith("PLIMSOLL AGENT OK - "), said
        said = place.on_server(f"{CHECK_NRPE} -H {address} -c check_plimsoll_limits", check=False)
        assert said.startswith("PLIMSOLL LIMITS WARNING - 1 disk deferred: "), said

    def known() -> list[int]:
        objects = place.on_server("cat /var/lib/nagios4/objects.cache")
        return [objects.count(f"\thost_name\t{node}\n") for node in NODES]

    # The host and three services; Nagios writes them some time after it was told to read them.
    until(lambda: known() == [4] * len(NODES), tell=known)


def test_check_mode_foresees_what_a_run_changes_and_a_second_run_changes_nothing(place: Place, first: First) -> None:
    assert first.changed == {
        "Let NRPE's user read the state": {*NODES},
        "Write NRPE's commands": {*NODES},
        "Write the objects": {SERVER},
        "Restart NRPE": {*NODES},
        "Reload Nagios or Icinga 2": {SERVER},
    }
    assert first.checked == first.changed
    assert first.left_by_check == ["", "", ""]
    assert first.nagios[0] == first.nagios[1], "reloaded, not started again"
    running = {node: place.pid(node, "nagios-nrpe-server") for node in NODES}
    assert place.changes(playbook="nagios/nothing.yml") == {}
    assert {node: place.pid(node, "nagios-nrpe-server") for node in NODES} == running


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (
            {"plimsoll_nagios_host_template": "nowhere"},
            "Template 'nowhere' specified in host definition could not be not found",
        ),
        ({"plimsoll_nagios_define_hosts": False}, "Could not find any host matching 'r1-c2'"),
    ],
)
def test_objects_that_nagios_would_not_start_with_are_refused_and_the_old_ones_stay(
    place: Place, first: First, wrong: Mapping[str, object], why: str
) -> None:
    before = place.on_server(f"cat {OBJECTS} && systemctl show -P MainPID -P StateChangeTimestamp nagios4")
    played = place.play("nagios/nothing.yml", place.inventory, "--limit", SERVER, **wrong)
    assert "nagios4 would not start with these objects" in played.failures[SERVER]
    assert why in played.failures[SERVER]
    assert played.changed == []
    assert place.on_server(f"cat {OBJECTS} && systemctl show -P MainPID -P StateChangeTimestamp nagios4") == before
    assert ".plimsoll-" not in place.on_server("ls -A /etc/nagios4")


def test_icinga_checks_the_hosts_that_a_site_defines_and_nrpe_gets_commands_without_being_started_again(
    place: Place, first: First
) -> None:
    place.on_server(ICINGA)
    running = {node: place.pid(node, "nagios-nrpe-server") for node in NODES}
    assert place.changes(playbook="nagios/much.yml") == {
        "Write NRPE's commands": {*NODES},
        "Reload NRPE": {*NODES},
        "Write the objects": {SERVER},
        "Reload Nagios or Icinga 2": {SERVER},
    }
    assert {node: place.pid(node, "nagios-nrpe-server") for node in NODES} == running
    address = place.addresses[NODES[0]]
    said = place.on_server(f"{CHECK_NRPE} -H {address} -c check_plimsoll_limits_strict", check=False)
    assert "unlimited=0;0;0;0" in said, "the range of its own"
    known = place.on_server("icinga2 daemon -C --dump-objects > /dev/null; icinga2 object list --type Service")
    for node in NODES:
        assert known.count(f"Object '{node}!plimsoll-") == 3
    assert "Object 'other!plimsoll-" not in known
    assert place.changes("--check", playbook="nagios/much.yml") == {}


# --- prometheus


def test_rules_are_read_as_soon_as_the_site_lets_prometheus_do_so(place: Place) -> None:
    place.on_server(PROMETHEUS)
    pid = place.pid(SERVER, "prometheus")
    expected = {
        "Create the rules directory": {SERVER},
        "Write rules and alerts": {SERVER},
        "Reload Prometheus by systemd": {SERVER},
    }
    assert place.changes("--check", playbook="prometheus/nothing.yml") == expected
    assert "nothing" in place.on_server("ls /etc/prometheus/plimsoll 2> /dev/null || echo nothing")
    played = place.play("prometheus/nothing.yml", place.inventory)
    assert changes_of(played) == expected
    (said,) = played.said
    assert "does not name /etc/prometheus/plimsoll/rules/*.yaml in rule_files" in said

    # As the guide has it.
    line = "rule_files:\\n  - /etc/prometheus/plimsoll/rules/*.yaml"
    place.on_server(f"sed -i 's|^rule_files:|{line}|' /etc/prometheus/prometheus.yml; systemctl reload prometheus")
    names = {group["name"] for file in RULES.glob("*.yaml") for group in yaml.safe_load(file.read_text())["groups"]}
    wait_for(lambda: {group["name"] for group in prometheus(place, "rules")["groups"]} == names)
    again = place.play("prometheus/nothing.yml", place.inventory)
    assert (again.ok, again.changed, again.said) == (True, [], [])
    assert place.pid(SERVER, "prometheus") == pid


def test_prometheus_scrapes_the_nodes_of_all_regions_and_grafana_finds_the_dashboards(place: Place) -> None:
    place.on_server(f"{PROMETHEUS}rm -rf /etc/prometheus/plimsoll; sed -i /plimsoll/d /etc/prometheus/prometheus.yml")
    pids = {unit: place.pid(SERVER, unit) for unit in ("prometheus", "grafana-server")}
    recorded = place.inventory.parent / "rules.yaml"
    recorded.write_text(
        (RULES / "plimsoll-rules.yaml").read_text().replace("topk by (region) (10,", "topk by (region) (9,")
    )
    alerts = place.inventory.parent / "alerts.yaml"
    alerts.write_text((RULES / "plimsoll-alerts.yaml").read_text().replace("> 900", "> 1234"))
    changes = place.changes(playbook="prometheus/much.yml")
    assert {"Reload Prometheus by its lifecycle API", "Restart Grafana"} <= changes.keys()
    wait_for(lambda: "site/rules" in str(prometheus(place, "rules")))
    rules = prometheus(place, "rules")
    overdue = next(
        rule for group in rules["groups"] for rule in group["rules"] if rule["name"] == "PlimsollPassOverdue"
    )
    assert "> 1234" in overdue["query"]
    assert "topk by (region) (9," in str(rules)
    said = overdue["annotations"]
    assert said["runbook_url"].startswith("https://docs.example.com/plimsoll/reference/alerts.html#")
    assert said["dashboard"].startswith("https://grafana.example.com/d/plimsoll-node?")
    wait_for(lambda: len(nodes(place)) == 2)
    assert nodes(place) == {
        (f"{place.addresses['r1-c2']}:9101", "region1", "r1-c2"),
        (f"{place.addresses['r2-c1']}:9101", "region2", "r2-c1"),
    }
    provider = yaml.safe_load(place.on_server("cat /etc/grafana/provisioning/dashboards/plimsoll.yaml"))
    where = provider["providers"][0]["options"]["path"]
    for file in (CHECKOUT / "etc/grafana").glob("*.json"):
        there = file.read_text().replace("docs.example.org", "docs.example.com")
        assert json.loads(place.on_server(f"cat {where}/{file.name}")) == json.loads(there)
    after = {unit: place.pid(SERVER, unit) for unit in pids}
    assert after["prometheus"] == pids["prometheus"], "reloaded, not started again"
    assert after["grafana-server"] != pids["grafana-server"]

    assert place.changes("--check", playbook="prometheus/much.yml") == {}
    alerts.write_text(alerts.read_text().replace("by (region, instance)", "by (region, instance", 1))
    before = place.on_server("cat /etc/prometheus/site/rules/*")
    refused = place.play("prometheus/much.yml", place.inventory)
    assert f"{alerts}: " in refused.failures[SERVER]
    assert "region:plimsoll_alerts_evaluated:count" in refused.failures[SERVER]
    assert refused.changed == []
    assert place.on_server("cat /etc/prometheus/site/rules/*") == before
    assert {unit: place.pid(SERVER, unit) for unit in pids} == after


def prometheus(place: Place, what: str) -> Any:
    """What its API says."""
    url = f"http://127.0.0.1:9090/api/v1/{what}"
    answer = place.on_server(f"python3 -c 'import urllib.request as u; print(u.urlopen(\"{url}\").read().decode())'")
    return json.loads(answer)["data"]


def nodes(place: Place) -> set[tuple[str, str, str]]:
    return {
        (target["labels"]["instance"], target["labels"]["region"], target["labels"]["node"])
        for target in prometheus(place, "targets")["activeTargets"]
        if target["labels"]["job"] == "plimsoll-nodes"
    }


def wait_for(arrived: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not arrived():
        assert time.monotonic() < deadline
        time.sleep(0.5)
