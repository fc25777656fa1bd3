"""Congestion on a host with a real systemd: what its unit publishes there, what its daemon follows of a file that
another unit fetches, and a stop by the role while limits are reduced.
"""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from lab.cloud import Cloud, Guest
from lab.cloud.fleet import Fleet
from lab.cloud.fleethost import REAL
from lab.congested import PRIVATE, PUBLIC, signed_factors
from lab.looking import actual
from lab.waiting import until
from plimsoll_agent.adapters.ed25519 import unsealed
from plimsoll_agent.adapters.libvirt.client import Libvirt
from plimsoll_agent.congestion import published
from plimsoll_agent.congestion.published import Gap
from plimsoll_agent.model import clusters
from plimsoll_agent.model.limits import Limits
from tests.depth import DEPTH, Depth
from tests.lab.playbook import Playbooks, Played
from tests.lab.rollout import Site, fresh_site

pytestmark = [
    pytest.mark.hosts,
    pytest.mark.timeout(900),
    pytest.mark.skipif(DEPTH is not Depth.SOAK, reason="two goes of the role; test_congestion.py has the daemon"),
]

HOST = REAL.name
FACTORS, PUBLISHED = "/srv/factors.json", "/var/lib/plimsoll-publish/congestion.json"
PUBLISH, FETCH = "plimsoll-congestion-publish.service", "plimsoll-congestion-fetch.service"
FULL, REDUCED = Limits(total_iops_sec=1000), Limits(total_iops_sec=800)
RULES = {
    "default": {"limits": {"total_iops_sec": 1000}},
    "rules": [{"name": "all", "match": {"pool": "*"}, "congestion": {"floor": {"total_iops_sec": 100}}}],
}
PROMETHEUS = """
set -e
install -d -o prometheus -g prometheus /var/lib/prometheus /var/lib/prometheus/metrics2
systemctl start prometheus
"""
LONGEST = 120


@pytest.fixture(scope="module")
def site(fleet: Fleet, cloud: Cloud, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with fresh_site(tmp_path_factory.mktemp("site"), fleet, cloud.say, HOST, {}) as site:
        yield site


@contextmanager
def publishing(fleet: Fleet, fsid: str, x: float) -> Iterator[None]:
    """A file that is new each 20 seconds, as that of a publisher elsewhere."""
    over = threading.Event()

    def go_on() -> None:
        generation = 0
        while True:
            generation += 1
            file = base64.b64encode(signed_factors(fsid, x, generation)).decode()
            fleet.run(HOST, f"echo {file} | base64 -d > {FACTORS}.new; mv {FACTORS}.new {FACTORS}")
            if over.wait(20):
                return

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def states(fleet: Fleet) -> list[str]:
    return fleet.run(HOST, f"systemctl is-active {PUBLISH} {FETCH}", check=False).split()


def test_units_publish_fetch_and_follow_factors_and_a_stop_by_the_role_restores_limits(
    site: Site, fleet: Fleet, cloud: Cloud, guests: Callable[..., list[Guest]], hypervisor: Libvirt,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:  # fmt: skip
    (guest,) = guests()
    (cluster,) = clusters.read([cloud.ceph.conf]).known
    roles = Playbooks(tmp_path_factory.mktemp("roles"))
    variables = {
        "plimsoll_daemon": True, "plimsoll_mode": "enforce", "plimsoll_rules": RULES, "plimsoll_extras": ["region"],
        "plimsoll_congestion_files": [FACTORS],
        "plimsoll_congestion_key": PUBLIC,
        "plimsoll_congestion_signing_key": PRIVATE,
        "plimsoll_settings": {"prometheus": {"url": "http://127.0.0.1:9090"}, "congestion": {"mode": "enforce"}},
    }  # fmt: skip

    def play(**others: object) -> Played:
        played = roles.play("agent/site.yml", site.inventory, **variables | others)
        assert played.ok, played.failures
        return played

    def has(limits: Limits) -> bool:
        return actual(hypervisor, guest.uuid, "vdb") == limits

    fleet.run(HOST, f"{PROMETHEUS}sed -i 's/^.global.$/&\\nfsid = {cluster.fsid}/' /etc/ceph/ceph.conf")
    with publishing(fleet, cluster.fsid or "", 0.8):
        play()
        said = f"journalctl --no-pager --output=cat -n 20 -u {PUBLISH} -u {FETCH}"
        until(lambda: states(fleet) == ["active", "active"], LONGEST, lambda: fleet.run(HOST, said))
        until(lambda: has(REDUCED), LONGEST)

        until(lambda: fleet.run(HOST, f"ls {PUBLISHED}", check=False).strip() == PUBLISHED, LONGEST)
        content, _ = unsealed(fleet.run(HOST, f"cat {PUBLISHED}").encode())
        file = published.decode(content, PUBLISHED)
        assert {(each.cluster, each.x, each.why) for each in file.factors} == {(cluster.fsid, 1, Gap.NO_REQUESTS)}
        assert {pool for _, pool in file.pools} >= {"vms", "volumes"}
        assert fleet.run(HOST, f"stat -c '%a %U' {PUBLISHED}").split() == ["644", "plimsoll-publish"]

        stopped = play(plimsoll_timers="stopped")
        assert has(FULL), stopped.said
        assert states(fleet) == ["inactive", "inactive"]
