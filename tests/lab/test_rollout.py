"""A rollout's whole story, over ssh and with the collection as operators install it.

Check, rollout, again, a timer at work, upgrade, Prometheus's word, a canary that fails, rollback, hosts in trouble,
retirement.

Each chapter is a fixture that goes on from the one before; the tests say what must be true after it.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from lab.cloud import Cloud, Guest
from lab.cloud.fleet import Fleet
from lab.cloud.fleethost import REAL
from lab.cloud.prometheus import REGION, Prometheus
from lab.looking import actual, put
from lab.waiting import until
from plimsoll_agent.adapters.libvirt.client import Libvirt
from plimsoll_agent.model.limits import Limits
from tests.lab.playbook import Played
from tests.lab.rollout import BROKEN, LATEST, Site, changes_of, text_of

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(900)]

# A region of two, for a canary and the rest, and one of a canary alone. More is divided by unit tests of batches.
OTHER_CANARY = "r2-c1"
NAMES = [REAL.name, "r1-c2", OTHER_CANARY]
# libvirt's test driver takes no limit without a burst.
DESIRED = Limits(total_iops_sec=250, total_iops_sec_max=500)
SOMEBODYS = Limits(total_iops_sec=9000)
SETTINGS: dict[str, Any] = {
    "plimsoll_mode": "enforce",
    "plimsoll_rules": {"default": {"limits": dict(DESIRED.in_effect())}},
    # libvirt's test driver forgets limits with each connection, as if somebody else took them off.
    "plimsoll_settings": {"DEFAULT": {"rounds": 1000}},
}
# Of the passes of the host with the real libvirtd, in systemd's words: every 15 s. A pass takes a second of the
# processor, so the others' are every five minutes, and once the timer has been seen at work its own are, too.
OFTEN = {"plimsoll_interval": "*:*:0/15"}
PROBE = {"seconds": 6, "file_size": 2**26, "keep_free": 2**20, "grace": 10}
# Of each region one, where a second of it would tell nothing more.
CANARIES = [REAL.name, OTHER_CANARY]
OF_CANARIES = f"--limit={','.join(CANARIES)}"


def probing(guest: Guest) -> dict[str, object]:
    """The same settings, and short probes of that guest's volume."""
    canary = {
        "name": "canary",
        "match": {"guest": guest.uuid, "kind": "volume"},
        "probe": {"every": "6h", "jobs": ["read"], "directory": "/mnt/volume"},
    }
    return SETTINGS | {
        "plimsoll_probes": True,
        "plimsoll_rules": SETTINGS["plimsoll_rules"] | {"rules": [canary]},
        "plimsoll_settings": SETTINGS["plimsoll_settings"] | {"probe": PROBE},
    }


@dataclass(frozen=True)
class Chapter:
    """How a playbook ended, and which version each host of the story had then."""

    played: Played = field(repr=False)
    versions: dict[str, str]

    @property
    def ok(self) -> bool:
        return self.played.ok

    @property
    def text(self) -> str:
        return text_of(self.played)


@pytest.fixture(scope="module")
def site(fleet: Fleet, cloud: Cloud, booted: Guest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    site = Site(tmp_path_factory.mktemp("site"), fleet, cloud.say)
    fleet.reset(NAMES)
    with site.repository({"0.1.1": {}, "0.1.2": BROKEN}):
        site.describe(NAMES, OFTEN, **SETTINGS)
        yield site
    # Wherever the story ended: the guests of later tests are nobody's to limit.
    fleet.reset(NAMES)
    hypervisor = Libvirt(cloud.libvirt_uri, deadline=5, at_once=4)
    for target in booted.disks:
        put(hypervisor, booted.uuid, target, Limits())
    hypervisor.close()


@pytest.fixture(scope="module")
def limits_of(cloud: Cloud, booted: Guest) -> Callable[[], Limits]:
    def ask() -> Limits:
        hypervisor = Libvirt(cloud.libvirt_uri, deadline=5, at_once=4)
        try:
            return actual(hypervisor, booted.uuid, "vda")
        finally:
            hypervisor.close()

    return ask


# --- check


@pytest.fixture(scope="module")
def checked(site: Site, booted: Guest) -> Chapter:
    return Chapter(
        site.play("rollout", "--check", OF_CANARIES, phase="check on fresh hosts"), site.versions(CANARIES)
    )


def test_a_check_of_fresh_hosts_says_what_would_change_on_each(checked: Chapter) -> None:
    assert checked.ok, checked.text
    assert all(changes_of(checked.played)[name] for name in CANARIES)


def test_a_check_changes_nothing(checked: Chapter, fleet: Fleet, limits_of: Callable[[], Limits]) -> None:
    assert set(checked.versions.values()) == {"none"}
    places = "/opt/plimsoll /etc/plimsoll /var/lib/plimsoll /etc/systemd/system/plimsoll* /etc/ceph/*.keyring"
    assert fleet.run(REAL, f"ls -d {places} 2>/dev/null; getent passwd plimsoll", check=False) == ""
    assert limits_of() != DESIRED


# --- rollout


@pytest.fixture(scope="module")
def before_limits(checked: Chapter, fleet: Fleet) -> str:
    """The moment before the first of them, in the node's own time."""
    return fleet.run(REAL, "date --utc +%FT%TZ").strip()


@pytest.fixture(scope="module")
def rolled_out(before_limits: str, site: Site) -> Chapter:
    return Chapter(site.play("rollout", phase="rollout of 0.1.0"), site.versions(NAMES))


def test_a_rollout_brings_the_version_to_all_hosts(rolled_out: Chapter) -> None:
    assert rolled_out.ok, rolled_out.text
    assert rolled_out.versions == dict.fromkeys(NAMES, "0.1.0")


def test_a_rollout_shows_the_canarys_plan_before_it_enforces(rolled_out: Chapter) -> None:
    tasks = [name for name, host, _ in rolled_out.played.results if host == REAL.name]
    assert tasks.index("Show the canaries' plan") < tasks.index("Run passes until the node is healthy")
    assert f"→ {DESIRED.total_iops_sec} IOPS (burst {DESIRED.total_iops_sec_max} IOPS)" in rolled_out.text


def test_hosts_are_done_region_by_region_and_each_region_begins_with_its_canary(rolled_out: Chapter) -> None:
    done = [host for name, host, _ in rolled_out.played.results if name == "Run passes until the node is healthy"]
    assert done == NAMES
    assert rolled_out.text.index("region1, the first part: 1 of 1 healthy") < rolled_out.text.index(
        "region2, canary: 1 of 1 healthy"
    )


@pytest.mark.parametrize("name", NAMES)
def test_each_host_has_its_timer(rolled_out: Chapter, fleet: Fleet, name: str) -> None:
    timers = "systemctl is-enabled plimsoll-enforce.timer; systemctl is-active plimsoll-enforce.timer"
    assert fleet.run(name, f"{timers}; systemctl is-system-running").split() == ["enabled", "active", "running"]


@pytest.fixture(scope="module")
def again(rolled_out: Chapter, site: Site) -> Played:
    """By the oldest ansible-core, as the upgrade below."""
    return site.play("rollout", OF_CANARIES, phase="the same again", oldest=True)


def test_a_second_run_changes_nothing(again: Played) -> None:
    assert again.ok, text_of(again)
    assert changes_of(again) == dict.fromkeys(CANARIES, 0), again.changed


# --- the timer


def test_the_timer_reverts_an_external_change_on_a_real_guest(
    again: Played, fleet: Fleet, cloud: Cloud, booted: Guest, limits_of: Callable[[], Limits]
) -> None:
    assert limits_of() == DESIRED, "as the rollout left it"
    passing = "systemctl show -P ActiveState plimsoll-enforce.service"
    until(lambda: fleet.run(REAL, passing).strip() == "inactive", LATEST)  # else that pass may see the change
    hypervisor = Libvirt(cloud.libvirt_uri, deadline=5, at_once=4)
    try:
        before = int(fleet.run(REAL, "date +%s"))
        put(hypervisor, booted.uuid, "vda", SOMEBODYS)
    finally:
        hypervisor.close()
    started = time.monotonic()
    while limits_of() != DESIRED:
        assert time.monotonic() - started < LATEST, "no pass of the timer put it back"
        time.sleep(0.5)
    cloud.say(f"rollout: the timer put a limit back after {time.monotonic() - started:.0f} s")
    triggered = 'date +%s --date="$(systemctl show -P LastTriggerUSec plimsoll-enforce.timer)"'
    assert int(fleet.run(REAL, triggered)) >= before, "and nobody else started it"


def test_passes_run_as_their_user_within_their_hardening(again: Played, fleet: Fleet) -> None:
    unit = "plimsoll-enforce.service"
    uid = fleet.run(REAL, "id -u plimsoll").strip()
    said = fleet.run(REAL, f"journalctl -u {unit} -o json --output-fields=_UID,_TRANSPORT").splitlines()
    own = [entry for entry in map(json.loads, said) if entry.get("_TRANSPORT") == "stdout"]
    assert {entry["_UID"] for entry in own} == {uid}
    assert uid != "0"
    security = json.loads(fleet.run(REAL, f"systemd-analyze security --json=short --no-pager {unit} || true") or "[]")
    assert security, "systemd knows the unit"
    fleet.run(REAL, f"systemd-analyze security --threshold=20 {unit}")
    # What the unit may not do, it is kept from: the drop-in opens the way to the monitor and to nothing else.
    shown = fleet.run(REAL, f"systemctl show -p NoNewPrivileges -p ProtectSystem {unit}")
    assert set(shown.split()) == {"NoNewPrivileges=yes", "ProtectSystem=strict"}


# --- upgrade


@pytest.fixture(scope="module")
def upgraded(again: Played, site: Site, booted: Guest) -> Chapter:
    """From here on the real guest is probed, too."""
    site.describe(NAMES, **probing(booted), plimsoll_version="0.1.1")
    return Chapter(site.play("rollout", phase="upgrade to 0.1.1", oldest=True), site.versions(NAMES))


def test_an_upgrade_reaches_all_hosts(upgraded: Chapter) -> None:
    assert upgraded.ok, upgraded.text
    assert upgraded.versions == dict.fromkeys(NAMES, "0.1.1")


def test_the_gate_has_the_canarys_guests_probed(upgraded: Chapter, booted: Guest) -> None:
    probes = [name for name, *_ in upgraded.played.results].index("Probe the canaries' guests")
    assert probes < [name for name, *_ in upgraded.played.results].index("Check the batch")
    assert re.search(r"\bread\b.* kept ", upgraded.text), upgraded.text


def test_an_upgrade_keeps_the_record(upgraded: Chapter, fleet: Fleet, booted: Guest) -> None:
    assert re.search(rf"{booted.name} +vda", fleet.run(REAL, "plimsoll record"))


# --- what Prometheus says of the region


@pytest.fixture(scope="module")
def asking(upgraded: Chapter, site: Site, prometheus: Prometheus) -> Iterator[Callable[[str], Chapter]]:
    """One host once more, and nothing but the gate: what decides is Prometheus."""
    asks = {
        "plimsoll_rollout_prometheus_url": prometheus.url,
        "plimsoll_rollout_prometheus_timeout": 0,
        "plimsoll_rollout_region_label": REGION,
    }
    site.describe(NAMES, **SETTINGS, **asks, plimsoll_version="0.1.1")
    prometheus.forget(10)
    prometheus.use_rules()
    words = ["--tags=gate", f"--limit={OTHER_CANARY}"]
    yield lambda phase: Chapter(site.play("rollout", *words, phase=phase), {})
    prometheus.clear()


def test_a_region_that_prometheus_does_not_know_is_not_gone_on_with(asking: Callable[[str], Chapter]) -> None:
    asked = asking("Prometheus knows nothing")
    assert not asked.ok
    assert "STOPPED at region2, canary: 1 of 1 healthy Prometheus: no node of the region is known" in asked.text


def test_a_firing_alert_stops_the_rollout_and_its_end_lets_it_go_on(
    asking: Callable[[str], Chapter], prometheus: Prometheus, fleet: Fleet
) -> None:
    told = fleet.run(REAL, "cat /var/lib/prometheus/node-exporter/plimsoll-pass.prom")
    # The file of its probes is not there, and guests without probes are an alert.
    told = re.sub(r"(?m)^plimsoll_pass_guests_to_probe .*\n", "", told)
    metrics = prometheus.textfiles("node-1") / "plimsoll-pass.prom"
    metrics.write_text(re.sub(r"(?m)^(plimsoll_pass_last\w*_timestamp_seconds\S*) .*", r"\1 1e9", told))
    prometheus.wait_for('ALERTS{alertname="PlimsollPassOverdue", alertstate="firing"}', bool, 30)
    stopped = asking("an alert fires")
    assert not stopped.ok
    assert "PlimsollPassOverdue node-1" in stopped.text

    metrics.write_text(told)
    prometheus.wait_for('ALERTS{alertstate="firing"}', lambda found: not found, 30)
    assert asking("no alert fires").ok


# --- a canary that fails


@pytest.fixture(scope="module")
def stopped(upgraded: Chapter, site: Site, booted: Guest) -> Chapter:
    site.describe(NAMES, **probing(booted), plimsoll_version="0.1.2", plimsoll_rollout_gate_timeout=10)
    return Chapter(site.play("rollout", phase="rollout of 0.1.2, whose canary fails"), site.versions(NAMES))


def test_a_failing_canary_stops_the_rollout_before_any_other_host(stopped: Chapter) -> None:
    assert not stopped.ok
    assert stopped.versions == dict.fromkeys(NAMES, "0.1.1") | {REAL.name: "0.1.2"}
    reached = {host for task, host, _ in stopped.played.results if task == "Read the node's state"}
    assert reached == {REAL.name}, "others were not even asked"


def test_it_says_why_and_how_to_go_on_or_back(stopped: Chapter, site: Site) -> None:
    assert REAL.name in stopped.text
    for way in ("go-on", "back"):
        file = site.limits / f"rollout-{way}.limit"
        assert f"--limit @{file}" in stopped.text
    assert "rollout-back.limit -e plimsoll_rollback_to=0.1.1-1" in stopped.text
    assert (site.limits / "rollout-back.limit").read_text().split() == [REAL.name]
    assert (site.limits / "rollout-go-on.limit").read_text().split() == NAMES


# --- rollback


@pytest.fixture(scope="module")
def rolled_back(stopped: Chapter, site: Site, fleet: Fleet, before_limits: str) -> Chapter:
    limit = f"--limit=@{site.limits}/rollout-back.limit"
    told = {"plimsoll_rollback_to": "0.1.1", "plimsoll_rollback_limits_since": before_limits}
    asked = site.play("rollback", limit, phase="rollback, limits too, without the number of disks", **told)
    wanted = re.search(r"plimsoll_rollback_disks=(\d+)", Chapter(asked, {}).text)
    assert wanted, "it fails without a number, and prints it"
    assert (
        fleet.run(REAL, "plimsoll record --reason undone").strip()
        == "No such entries; plimsoll record lists the last ones."
    )
    told["plimsoll_rollback_disks"] = wanted[1]
    played = site.play("rollback", limit, phase="rollback, limits too", **told)
    return Chapter(played, site.versions(NAMES))


def test_a_rollback_leaves_no_host_with_the_bad_version(rolled_back: Chapter, fleet: Fleet) -> None:
    assert rolled_back.ok, rolled_back.text
    assert rolled_back.versions == dict.fromkeys(NAMES, "0.1.1")
    assert fleet.run(REAL, "systemctl is-active plimsoll-enforce.timer").strip() == "active"


def test_a_rollback_keeps_the_state(rolled_back: Chapter, fleet: Fleet, booted: Guest) -> None:
    assert re.search(rf"{booted.name} +vda", fleet.run(REAL, "plimsoll record"))
    assert fleet.run(REAL, "plimsoll state check > /dev/null && echo good").strip() == "good"


def test_a_rollback_restores_limits_and_no_pass_changes_that(
    rolled_back: Chapter, fleet: Fleet, booted: Guest, limits_of: Callable[[], Limits]
) -> None:
    assert re.search(rf"{booted.name}\b.* vda", rolled_back.text), "each disk is told of"
    # It fails, as all that it would do waits for the end of the pause.
    fleet.run(REAL, "systemctl start plimsoll-enforce.service", check=False)
    assert limits_of() == Limits()


def test_it_says_how_passes_write_limits_again(
    rolled_back: Chapter, fleet: Fleet, limits_of: Callable[[], Limits]
) -> None:
    resume = "/usr/bin/plimsoll resume --reason mended"
    assert resume in rolled_back.text
    fleet.run(REAL, f"{resume} && systemctl start plimsoll-enforce.service")
    assert limits_of() == DESIRED


# --- undo


def test_an_undo_restores_the_limits_on_all_hosts_and_keeps_their_version(
    rolled_back: Chapter, site: Site, fleet: Fleet, before_limits: str, limits_of: Callable[[], Limits]
) -> None:
    written = "plimsoll resume --reason mended; systemctl start plimsoll-enforce.service"
    fleet.run(REAL, written)
    assert limits_of() == DESIRED
    since = {"plimsoll_undo_since": before_limits, "plimsoll_undo_yes": True}
    undone = Chapter(site.play("undo", phase="undo", **since), site.versions(NAMES))
    assert undone.ok, undone.text
    assert undone.versions == rolled_back.versions
    assert re.search(rf"{REAL.name}: \d+ restored", undone.text)
    assert fleet.run(REAL, "systemctl is-active plimsoll-enforce.timer").strip() == "active"
    fleet.run(REAL, "systemctl start plimsoll-enforce.service", check=False)
    assert limits_of() == Limits(), "the host is paused"
    fleet.run(REAL, written)
    assert limits_of() == DESIRED


# --- the table


def test_status_shows_each_host_with_its_version(rolled_back: Chapter, site: Site) -> None:
    played = site.play("status", phase="status")
    assert played.ok
    for name in NAMES:
        (line,) = [line for line in played.said if line.startswith(f"{name}: ")]
        assert re.match(rf"{name}: (OK|WARNING) .* by plimsoll 0\.1\.1, mode enforce", line), line


# --- hosts in trouble

FRESH = "r2-c2"
METRICS = "/var/lib/prometheus/node-exporter"
TROUBLED = [OTHER_CANARY, "r2-down", "r2-full", "r2-clock", "r2-release", FRESH]


@pytest.fixture(scope="module")
def troubled(rolled_back: Chapter, site: Site, fleet: Fleet) -> Chapter:
    """In the batch with a good host that is fresh, behind a canary that is good."""
    fleet.reset([FRESH])
    fleet.start(["r2-full", "r2-clock", "r2-release"])
    site.describe(
        TROUBLED,
        **SETTINGS,
        plimsoll_version="0.1.1",
        plimsoll_rollout_fraction=100,
        plimsoll_rollout_max_fail_percentage=100,
        # It has no setfacl, which is told before anything is asked for.
        plimsoll_textfile_dir=f"{{{{ '' if inventory_hostname == 'r2-release' else '{METRICS}' }}}}",
    )
    played = site.play("rollout", phase="rollout to a batch with four hosts in trouble")
    return Chapter(played, site.versions([FRESH]))


@pytest.mark.parametrize(
    ("host", "words"),
    [
        ("r2-down", ["is unreachable"]),
        ("r2-full", ["/opt/plimsoll has", "MiB free and needs"]),
        ("r2-clock", ["s behind the controller's"]),
        ("r2-release", ["apt debian13 Release' does not have a Release file"]),
    ],
)
def test_a_host_in_trouble_is_reported_with_what_is_wrong(troubled: Chapter, host: str, words: list[str]) -> None:
    lines = [line for line in [*troubled.played.said, troubled.played.failures.get(host, "")] if line]
    told = " ".join(line for line in lines if host in line or line == troubled.played.failures.get(host))
    for word in words:
        assert word in told, troubled.text


def test_the_rest_of_their_batch_is_as_configured(troubled: Chapter, fleet: Fleet) -> None:
    assert troubled.versions == {FRESH: "0.1.1"}
    assert fleet.run(FRESH, "systemctl is-active plimsoll-enforce.timer").strip() == "active"


# --- retirement


RETIRED = (REAL.name, "r1-c2")
PLACES = (
    "/opt/plimsoll /usr/bin/plimsoll /lib/systemd/system/plimsoll* /etc/systemd/system/plimsoll* /etc/ceph/*.keyring "
    "/etc/apt/sources.list.d/plimsoll*"
)


@pytest.fixture(scope="module")
def retired(troubled: Chapter, site: Site) -> Chapter:
    lifting = f"{{{{ 'remove' if inventory_hostname == '{REAL.name}' else 'leave' }}}}"
    site.describe(NAMES, **SETTINGS, plimsoll_version="0.1.1", plimsoll_retire_limits=lifting)
    played = site.play("retire", f"--limit={','.join(RETIRED)}", phase="retirement of two")
    return Chapter(played, site.versions(NAMES))


@pytest.mark.parametrize("name", RETIRED)
def test_a_retired_host_has_no_plimsoll(retired: Chapter, fleet: Fleet, name: str) -> None:
    assert retired.ok, retired.text
    assert fleet.run(name, f"ls -d {PLACES} 2>/dev/null", check=False) == ""
    assert fleet.run(name, "systemctl list-timers --all --no-legend 'plimsoll*'") == ""
    assert retired.versions == dict.fromkeys(NAMES, "0.1.1") | dict.fromkeys(RETIRED, "none")


def test_guests_have_no_limits_where_that_was_told(
    retired: Chapter, booted: Guest, limits_of: Callable[[], Limits]
) -> None:
    assert re.search(rf"{booted.name}\b.* vda", retired.text)
    assert limits_of() == Limits()
