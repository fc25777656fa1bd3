"""The daemon on a host with a real systemd and libvirtd: switched on and off, and in a rollout that failed."""

from __future__ import annotations

import itertools
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization as pem

from lab.cloud import Cloud, Guest
from lab.cloud.fleet import Fleet
from lab.cloud.fleethost import REAL
from lab.looking import actual
from lab.waiting import until
from plimsoll_agent.adapters.ed25519 import unsealed
from plimsoll_agent.adapters.libvirt.client import Libvirt
from plimsoll_agent.congestion import published
from plimsoll_agent.model import clusters
from plimsoll_agent.model.limits import Limits
from tests import depth
from tests.lab.playbook import Playbooks, Played
from tests.lab.rollout import BROKEN, Site, text_of
from tests.unit.agent.congestion.values import signed_factors
from tests.unit.regionfile import a_key, keep_public

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
    site = Site(tmp_path_factory.mktemp("site"), fleet, cloud.say)
    fleet.reset([HOST])
    with site.repository({"0.1.2": BROKEN}):
        site.describe([HOST])
        yield site
    fleet.reset([HOST])


@pytest.fixture(scope="module")
def roles(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Playbooks:
    roles = Playbooks(tmp_path_factory.mktemp("roles"))
    switched(roles, site, True)
    return roles


def switched(roles: Playbooks, site: Site, on: bool, **variables: object) -> Played:
    played = roles.play("agent/site.yml", site.inventory, plimsoll_daemon=on, **variables)
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


PUBLISHED, FACTORS = "/var/lib/plimsoll-publish/congestion.json", "/srv/factors.json"
PROMETHEUS = """
set -e
install -d -o prometheus -g prometheus /var/lib/prometheus /var/lib/prometheus/metrics2
systemctl start prometheus
"""


@pytest.mark.skipif(depth.DEPTH is not depth.Depth.SOAK, reason="takes two minutes")
def test_a_host_publishes_and_follows_factors_and_a_stop_by_the_role_restores_its_disks(
    roles: Playbooks, site: Site, fleet: Fleet, cloud: Cloud, guests: Guests, hypervisor: Libvirt, tmp_path: Path
) -> None:
    """By the units as they stand: what their sandbox refuses shows here, and in no other test."""
    (guest,) = guests()
    (cluster,) = clusters.read([cloud.ceph.conf]).known
    fleet.run(HOST, PROMETHEUS)
    key = a_key()
    private = key.key.private_bytes(pem.Encoding.PEM, pem.PrivateFormat.PKCS8, pem.NoEncryption()).decode()
    rule = {"name": "all", "match": {"pool": "*"}, "congestion": {"floor": {"total_iops_sec": 100}}}
    variables: dict[str, object] = {
        "plimsoll_mode": "enforce",
        "plimsoll_rules": {"default": {"limits": {"total_iops_sec": 1000}}, "rules": [rule]},
        "plimsoll_settings": {"congestion": {"mode": "enforce"}, "prometheus": {"url": "http://127.0.0.1:9090"}},
        "plimsoll_congestion_files": [FACTORS],
        "plimsoll_congestion_key": keep_public(tmp_path / "public.pem", key).read_text(),
        "plimsoll_congestion_signing_key": private,
    }

    def has(iops: int) -> None:
        until(lambda: actual(hypervisor, guest.uuid, "vdb") == Limits(total_iops_sec=iops), 120, lambda: iops)

    switched(roles, site, True, **variables)
    until(lambda: fleet.run(HOST, f"cat {PUBLISHED}", check=False), 90, lambda: "no file of factors")
    content, signature = unsealed(fleet.run(HOST, f"cat {PUBLISHED}").encode())
    key.public.verify(content, signature or b"", PUBLISHED)
    assert {fsid for fsid, _ in published.decode(content, PUBLISHED).pools} == {cluster.fsid}

    has(1000)
    with publishing(fleet, cluster.fsid or "", 0.8):
        has(800)
        switched(roles, site, True, **variables, plimsoll_timers="stopped")
    assert actual(hypervisor, guest.uuid, "vdb") == Limits(total_iops_sec=1000)
    assert active(fleet) == ["inactive", "inactive"]


@contextmanager
def publishing(fleet: Fleet, fsid: str, x: float) -> Iterator[None]:
    """No file expires meanwhile, which would restore disks, too."""
    over = threading.Event()

    def publish() -> None:
        for generation in itertools.count(1):
            text = signed_factors(fsid, x, generation).decode()
            fleet.run(HOST, f"cat > {FACTORS}.new << 'END'\n{text}\nEND\nmv {FACTORS}.new {FACTORS}")
            if over.wait(20):
                return

    with ThreadPoolExecutor() as pool:
        publisher = pool.submit(publish)
        try:
            yield
        finally:
            over.set()
            publisher.result()
