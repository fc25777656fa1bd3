"""The daemon on hosts of two regions with a real systemd: switched on and off, and in a rollout that failed."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab.cloud import Cloud
from lab.cloud.fleet import Fleet
from lab.cloud.fleethost import REAL
from tests.lab.playbook import Playbooks, Played
from tests.lab.rollout import BROKEN, Site, text_of

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(900)]

HOSTS = [REAL.name, "r2-c1"]
TIMER, DAEMON = "plimsoll-enforce.timer", "plimsoll-daemon.service"
SAMPLED = f"echo $$; while sleep 0.05; do echo $(systemctl is-active {TIMER} {DAEMON}); done"

States = dict[str, list[tuple[str, ...]]]
"""What systemd has said on each host since the beginning: the timer, then the daemon."""


@contextmanager
def sampling(fleet: Fleet, home: Path) -> Iterator[States]:
    """Ask systemd on the hosts until the end; nothing of Ansible has a part in it."""
    states: States = {}
    asking = {}
    for host in HOSTS:
        with (home / host).open("w") as output:  # a pipe that is full would end the sampling
            asking[host] = subprocess.Popen([*fleet.ssh(host), SAMPLED], stdin=subprocess.DEVNULL, stdout=output)
    try:
        for host in HOSTS:
            while (home / host).read_text().count("\n") < 2:
                time.sleep(0.05)
        yield states
    finally:
        for host, process in asking.items():
            pid, *_ = (home / host).read_text().split()
            fleet.run(host, f"kill {pid}")
            process.wait(30)
            states[host] = [tuple(line.split()) for line in (home / host).read_text().splitlines()[1:]]


@pytest.fixture(scope="module")
def site(fleet: Fleet, cloud: Cloud, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    site = Site(tmp_path_factory.mktemp("site"), fleet, cloud.say)
    fleet.reset(HOSTS)
    with site.repository({"0.1.2": BROKEN}):
        site.describe(HOSTS)
        yield site
    fleet.reset(HOSTS)


@pytest.fixture(scope="module")
def roles(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Playbooks:
    roles = Playbooks(tmp_path_factory.mktemp("roles"))
    played = roles.play("agent/site.yml", site.inventory)
    assert played.ok, played.failures
    return roles


def switched(roles: Playbooks, site: Site, on: bool) -> Played:
    played = roles.play("agent/site.yml", site.inventory, plimsoll_daemon=on)
    assert played.ok, played.failures
    return played


def active(fleet: Fleet, host: str) -> list[str]:
    return fleet.run(host, f"systemctl is-active {TIMER} {DAEMON}", check=False).split()


def test_no_moment_of_a_switch_to_the_daemon_and_back_is_without_passes(
    roles: Playbooks, site: Site, fleet: Fleet, tmp_path: Path
) -> None:
    assert [active(fleet, host) for host in HOSTS] == [["active", "inactive"]] * 2
    with sampling(fleet, tmp_path) as sampled:
        switched(roles, site, True)
        assert [active(fleet, host) for host in HOSTS] == [["active", "active"]] * 2
        switched(roles, site, False)
        assert [active(fleet, host) for host in HOSTS] == [["active", "inactive"]] * 2
    for host, states in sampled.items():
        print(f"{host}: {len(states)} samples, the daemon active in {states.count(('active', 'active'))}")
        assert all(len(each) == 2 for each in states)
        assert all("active" in each for each in states), f"nothing watched {host}: {set(states)}"
        assert ("active", "active") in states, "it was looked at while the daemon ran, too"
        assert states[0] == states[-1] == ("active", "inactive")


def test_a_failed_rollout_leaves_its_canary_paused_with_an_end_and_a_rollback_ends_that(
    roles: Playbooks, site: Site, fleet: Fleet
) -> None:
    (canary,) = [host for host in HOSTS if host != REAL.name]
    switched(roles, site, True)
    variables = {"plimsoll_daemon": True, "plimsoll_version": "0.1.2", "plimsoll_rollout_gate_timeout": 10}
    failed = site.play("rollout", f"--limit={canary}", phase="rollout whose canary fails at its plan", **variables)
    assert "Plan on the canaries" in text_of(failed)
    assert "(paused until the time in plimsoll status)" in text_of(failed)
    paused = fleet.run(canary, "cat /etc/plimsoll/paused")
    assert re.match(r"until \S+ \S+ UTC:\nrollout: ", paused), paused

    back = site.play("rollback", f"--limit={canary}", phase="rollback with the daemon", plimsoll_rollback_to="0.1.0")
    assert back.ok, text_of(back)
    assert site.versions([canary]) == {canary: "0.1.0"}
    assert active(fleet, canary) == ["active", "active"]
    fleet.run(canary, "test ! -e /etc/plimsoll/paused")
