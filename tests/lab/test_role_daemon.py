"""The daemon on a host with a real systemd and libvirtd: switched on and off, and in a rollout that failed."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab.cloud import Cloud, Guest
from lab.cloud.fleet import Fleet
from lab.cloud.fleethost import REAL
from tests.lab.playbook import Playbooks, Played
from tests.lab.rollout import BROKEN, Site, fresh_site, text_of

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(900)]

Guests = Callable[..., list[Guest]]

HOST = REAL.name
TIMER, DAEMON = "plimsoll-enforce.timer", "plimsoll-daemon.service"
SAMPLED = f"echo $$; while sleep 0.05; do echo $(systemctl is-active {TIMER} {DAEMON}); done"

States = list[tuple[str, ...]]
"""What systemd has said since the beginning: the timer, then the daemon."""


@contextmanager
def sampling(fleet: Fleet, file: Path) -> Iterator[States]:
    """Ask systemd on the host until the end; nothing of Ansible has a part in it."""
    states: States = []
    with file.open("w") as output:  # a pipe that is full would end the sampling
        # An ssh makes what it inherits non-blocking, with which Ansible does not begin.
        asking = subprocess.Popen(
            [*fleet.ssh(HOST), SAMPLED], stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.DEVNULL
        )
    try:
        while file.read_text().count("\n") < 2:
            time.sleep(0.05)
        yield states
    finally:
        pid, *_ = file.read_text().split()
        fleet.run(HOST, f"kill {pid}")
        asking.wait(30)
        states += [tuple(line.split()) for line in file.read_text().splitlines()[1:]]


@pytest.fixture(scope="module")
def site(fleet: Fleet, cloud: Cloud, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with fresh_site(tmp_path_factory.mktemp("site"), fleet, cloud.say, HOST, {"0.1.2": BROKEN}) as site:
        yield site


@pytest.fixture(scope="module")
def roles(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Playbooks:
    roles = Playbooks(tmp_path_factory.mktemp("roles"))
    switched(roles, site, True)
    return roles


def switched(roles: Playbooks, site: Site, on: bool) -> Played:
    played = roles.play("agent/site.yml", site.inventory, plimsoll_daemon=on)
    assert played.ok, played.failures
    return played


def active(fleet: Fleet) -> list[str]:
    return fleet.run(HOST, f"systemctl is-active {TIMER} {DAEMON}", check=False).split()


def test_a_failed_rollout_leaves_its_canary_paused_with_an_end_and_a_rollback_ends_that(
    roles: Playbooks, site: Site, fleet: Fleet, guests: Guests
) -> None:
    guests()  # else the version that cannot decide would have nothing to decide
    variables = {"plimsoll_daemon": True, "plimsoll_version": "0.1.2", "plimsoll_rollout_gate_timeout": 10}
    failed = site.play("rollout", phase="rollout whose canary fails at its plan", **variables)
    assert "Plan on the canaries" in text_of(failed)
    assert "(paused until the time in plimsoll status)" in text_of(failed)
    paused = fleet.run(HOST, "cat /etc/plimsoll/paused")
    assert re.match(r"until \S+ \S+ UTC:\nrollout: ", paused), paused

    back = site.play("rollback", phase="rollback with the daemon", plimsoll_rollback_to="0.1.0")
    assert back.ok, text_of(back)
    assert site.versions([HOST]) == {HOST: "0.1.0"}
    assert active(fleet) == ["active", "active"]
    fleet.run(HOST, "test ! -e /etc/plimsoll/paused")


def test_no_moment_of_a_switch_to_the_timer_and_back_is_without_passes(
    roles: Playbooks, site: Site, fleet: Fleet, tmp_path: Path
) -> None:
    assert active(fleet) == ["active", "active"]
    with sampling(fleet, tmp_path / "states") as states:
        switched(roles, site, False)
        assert active(fleet) == ["active", "inactive"]
        switched(roles, site, True)
        assert active(fleet) == ["active", "active"]
    print(f"{len(states)} samples, the daemon active in {states.count(('active', 'active'))}")
    assert all(len(each) == 2 for each in states)
    assert all("active" in each for each in states), f"nothing watched the host: {set(states)}"
    assert ("active", "inactive") in states, "it was looked at while the daemon did not run, too"
    assert states[0] == states[-1] == ("active", "active")
