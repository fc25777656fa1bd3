"""plimsoll in a container on hosts with systemd, beside a libvirtd that has users of its own, as Kolla's has."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from lab import packages
from lab.cloud import Cloud, Guest
from lab.cloud.containers import BASE, CONTAINERS_CONF, GRAPH, Store, name, storage_conf
from lab.cloud.fleet import CACHE, SHARED, Fleet
from lab.cloud.fleethost import NODE_XML, REAL
from lab.cloud.layout import CHECKOUT
from lab.cloud.libvirtd import SOCKET_GROUP
from lab.cloud.namespace import CONTAINER_USER
from lab.cloud.prometheus import Prometheus
from lab.looking import actual, put
from lab.waiting import PATIENT, until
from plimsoll_agent.adapters.libvirt.client import Libvirt
from plimsoll_agent.model.limits import Limits
from tests.depth import DEPTH, Depth
from tests.lab.playbook import Playbooks, Played
from tests.lab.rollout import BROKEN, text_of

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(600)]

Guests = Callable[..., list[Guest]]

RULES = "default: {limits: {total_iops_sec: 250, total_iops_sec_max: 250}}\n"
SETTINGS = "[DEFAULT]\nmode = enforce\n"
# libvirt's test driver takes no limit without a burst.
LIMIT = Limits(total_iops_sec=250, total_iops_sec_max=250)
# libvirtd has no user of this number.
STRANGER = 50123
UNIT = "kolla-plimsoll-container.service"


@dataclass(frozen=True)
class Host:
    """With podman, and the image."""

    fleet: Fleet
    store: Store
    image: str
    name: str = REAL.name

    def run(self, command: str, check: bool = True) -> str:
        return self.fleet.run(self.name, command, timeout=90, check=check)

    def prepare(self, cache: str) -> None:
        self.write("/etc/containers/containers.conf", CONTAINERS_CONF)
        below = [f"{SHARED}/containers/{GRAPH}", f"{CACHE}/{cache}"]
        self.write("/etc/containers/storage.conf", storage_conf("/var/lib/containers", below))
        self.run("mkdir -p /var/lib/containers && mount -t tmpfs tmpfs /var/lib/containers")

    def plimsoll(self, *words: str, check: bool = True) -> str:
        """Of the container."""
        return self.run(f"podman exec plimsoll plimsoll {shlex.join(words)}", check=check)

    def write(self, path: str, text: str) -> None:
        self.run(f"mkdir -p {Path(path).parent} && cat > {path} <<'end'\n{text}end")

    def start(self, user: int) -> None:
        """As docs/guide/containers.rst has it."""
        self.run(
            f"podman run --detach --name plimsoll --user {user}:{user} --group-add {SOCKET_GROUP}"
            " --read-only --cap-drop all --security-opt no-new-privileges --network none"
            " --volume /run/libvirt:/run/libvirt --volume /etc/plimsoll:/etc/plimsoll:ro"
            " --volume /var/lib/plimsoll:/var/lib/plimsoll --volume /var/textfile:/textfile"
            f" --env OS_METRICS__TEXTFILE_DIR=/textfile {self.image}"
        )

    def stop(self) -> None:
        """It ended by itself, with 0."""
        self.run("podman stop --time 60 plimsoll")
        assert self.run("podman inspect --format '{{.State.ExitCode}}' plimsoll").strip() == "0", self.said
        self.run("podman rm plimsoll")

    @property
    def said(self) -> str:
        return self.run("podman logs plimsoll", check=False)

    @property
    def is_healthy(self) -> bool:
        return "unhealthy" not in self.run("podman healthcheck run plimsoll 2>&1 || echo unhealthy")

    def until(self, true: Callable[[], object]) -> None:
        until(true, PATIENT, lambda: self.said)


@pytest.fixture(scope="module")
def host(cloud: Cloud, fleet: Fleet) -> Iterator[Host]:
    store = Store(fleet.shared / "containers", [cloud.layout.cache / name()])
    debs = [deb for deb in packages.debs() if "region" not in deb.name]
    image = store.run(CHECKOUT / "script/package", "container", "--base", BASE, *debs).strip()
    fleet.reset([REAL])
    host = Host(fleet, store, image)
    host.prepare(name())
    yield host
    fleet.reset([REAL])


@pytest.fixture
def prepared(host: Host) -> Iterator[Callable[[int], Host]]:
    """Its settings; and directories that this user may write."""

    def prepare(user: int) -> Host:
        host.write("/etc/plimsoll/plimsoll.conf", SETTINGS)
        host.write("/etc/plimsoll/rules.yaml", RULES)
        host.run(f"install -d -o {user} -g {user} /var/lib/plimsoll /var/textfile")
        return host

    yield prepare
    host.run("podman rm --force --time 0 --ignore plimsoll; rm -rf /etc/plimsoll /var/lib/plimsoll /var/textfile")


def recorded(host: Host) -> list[Mapping[str, object]]:
    """Without the names of servers, which are as the last pass saw them."""
    rows: list[dict[str, object]] = json.loads(host.plimsoll("record", "-f", "json"))
    return [{name: value for name, value in row.items() if name != "server"} for row in rows]


def limits(hypervisor: Libvirt, guest: Guest) -> set[Limits]:
    return {actual(hypervisor, guest.uuid, target) for target in guest.disks}


def test_the_daemon_limits_guests_and_a_new_container_goes_on_from_its_state(
    prepared: Callable[[int], Host], guests: Guests, hypervisor: Libvirt
) -> None:
    host = prepared(CONTAINER_USER)
    host.start(CONTAINER_USER)
    host.until(lambda: host.is_healthy)
    (guest,) = guests()
    host.until(lambda: limits(hypervisor, guest) == {LIMIT})
    assert host.run("podman exec plimsoll id -un").strip() == "plimsoll"
    assert "Read-only file system" in host.run("podman exec plimsoll touch /opt/plimsoll/x", check=False)
    assert host.run("stat -c %a /var/textfile/plimsoll-pass.prom").strip() == "644", "node_exporter reads it"
    assert '"PLIMSOLL_AFTER": "{\\"total_iops_sec\\": 250, \\"total_iops_sec_max\\": 250}"' in host.said
    before = recorded(host)
    host.plimsoll("pause", "--reason", "test")
    host.stop()

    host.start(CONTAINER_USER)
    host.until(lambda: host.is_healthy)
    assert recorded(host)[: len(before)] == before != []
    (paused,) = guests()
    assert "paused by /var/lib/plimsoll/paused" in host.plimsoll("enforce", "--guest", paused.uuid, check=False)
    assert limits(hypervisor, paused) == {Limits()}
    host.stop()


def test_a_user_that_libvirtd_has_not_is_refused_and_the_container_is_unhealthy(
    prepared: Callable[[int], Host],
) -> None:
    host = prepared(STRANGER)
    host.start(STRANGER)
    host.until(lambda: f"Failed to find user record for uid '{STRANGER}'" in host.said)
    assert not host.is_healthy
    host.stop()


# --- the playbooks, as on the nodes of kolla-ansible

OTHER = "r1-c2"
NEXT = "localhost/plimsoll:next"
CUT = "default: {limits: {total_iops_sec: 20, total_iops_sec_max: 20}}\n"
ONE = ("--limit", REAL.name)
"""Each container costs a second or two, and the first play has shown both hosts."""


@dataclass(frozen=True)
class Kolla:
    """The canary, which has the real libvirtd, and another host, with libvirt's test driver."""

    host: Host
    other: Host
    playbooks: Playbooks
    home: Path

    def deploy(self, *words: str, **variables: object) -> Played:
        return self._play("kolla", *words, **variables)

    def roll_back(self, *words: str, **variables: object) -> Played:
        told: dict[str, object] = {"plimsoll_delivery": "container", "plimsoll_group": "compute"}
        return self._play("rollback", *words, **told, **variables)

    def _play(self, name: str, *words: str, **variables: object) -> Played:
        return self.playbooks.play(CHECKOUT / f"ansible/playbooks/{name}.yml", self.inventory, *words, **variables)

    @property
    def inventory(self) -> Path:
        return self.home / "hosts.yml"

    def write(self, rules: str) -> None:
        for files in ("files", "other"):
            (self.home / files / "rules.yaml").write_text(rules)

    @property
    def images(self) -> dict[str, str]:
        """That run, by host."""
        ask = "podman ps --filter name=^plimsoll$ --format '{{.Image}}'"
        return {host.name: host.run(ask).strip() for host in (self.host, self.other)}


@pytest.fixture(scope="module")
def kolla(host: Host, fleet: Fleet, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kolla]:
    home = tmp_path_factory.mktemp("kolla")
    host.store.run("podman", "tag", host.image, NEXT)
    fleet.reset([OTHER])
    other = Host(fleet, host.store, host.image, OTHER)
    other.prepare(name())
    # The preflight finds it; no program listens.
    other.run("mkdir -p /run/libvirt && touch /run/libvirt/libvirt-sock")
    described = fleet.inventory([REAL, OTHER])["plimsoll"]
    hosts = described["children"][REAL.region]["hosts"]
    hosts[OTHER] |= {
        "plimsoll_kolla_files": str(home / "other"),
        "plimsoll_kolla_options": [f"--volume={NODE_XML}:{NODE_XML}:ro"],
    }
    variables = described["vars"] | {
        "plimsoll_kolla_image": host.image,
        "plimsoll_kolla_engine": "podman",
        "plimsoll_kolla_files": str(home / "files"),
        # The hosts have no controllers of these.
        "plimsoll_kolla_options": [],
        "plimsoll_kolla_catalogue": True,
        "plimsoll_rollout_limit_directory": str(home),
    }
    del variables["plimsoll_rollout_regions"]  # the group is the region
    (home / "hosts.yml").write_text(yaml.safe_dump({"compute": {"hosts": hosts, "vars": variables}}))
    kolla = Kolla(host, other, Playbooks(home), home)
    for files in ("files", "other"):
        (home / files).mkdir()
        (home / files / "openstack.conf").write_text("[openstack]\npassword = secret\n")
    (home / "files/plimsoll.conf").write_text(SETTINGS)
    # It forgets limits with each connection, as if another client removed them.
    (home / "other/plimsoll.conf").write_text(f"{SETTINGS}rounds = 1000\n[libvirt]\nuri = test://{NODE_XML}\n")
    kolla.write(RULES)
    yield kolla
    host.run("systemctl stop 'kolla-plimsoll*'")
    fleet.reset([OTHER])


def test_a_rollout_runs_the_daemon_as_root_without_capabilities_and_again_changes_nothing(
    kolla: Kolla, guests: Guests, hypervisor: Libvirt
) -> None:
    checked = kolla.deploy("--check", *ONE)
    assert checked.ok, checked.out
    assert kolla.host.run("ls /etc/kolla", check=False).startswith("ls: cannot access"), "it changed nothing"
    deployed = kolla.deploy()
    assert deployed.ok, deployed.out
    passed = [host for task, host, _ in deployed.results if task == "Run passes until the node is healthy"]
    assert passed == [REAL.name, OTHER]
    assert "Plan: " in text_of(deployed)
    (guest,) = guests()
    kolla.host.until(lambda: limits(hypervisor, guest) == {LIMIT})
    status = kolla.host.run("podman exec plimsoll grep -E '^(Uid|CapEff|NoNewPrivs)' /proc/self/status").split()
    assert status == ["Uid:", "0", "0", "0", "0", "CapEff:", "0000000000000000", "NoNewPrivs:", "1"]
    secret = "/etc/plimsoll/openstack.conf"
    assert kolla.host.run(f"podman exec plimsoll_catalogue stat -c %a {secret}").strip() == "600"
    assert "No such file" in kolla.host.run(f"podman exec plimsoll stat {secret}", check=False)
    assert "No such file" in kolla.host.run("podman exec plimsoll_catalogue ls /run/libvirt", check=False)
    again = kolla.deploy(*ONE)
    assert again.ok, again.out
    assert again.changed == []


def test_an_image_comes_with_an_approval_of_the_canarys_plan(
    kolla: Kolla, guests: Guests, hypervisor: Libvirt
) -> None:
    (guest,) = guests()
    kolla.host.until(lambda: limits(hypervisor, guest) == {LIMIT})
    kolla.write(CUT)
    asked = kolla.deploy(plimsoll_kolla_image=NEXT, plimsoll_kolla_catalogue=False)
    assert not asked.ok
    wanted = re.search(r"plimsoll_rollout_approve=([0-9a-f]{64})", text_of(asked))
    assert wanted, asked.out
    assert kolla.images == dict.fromkeys((REAL.name, OTHER), kolla.host.image)
    assert "rollout:" in kolla.host.run("cat /var/lib/plimsoll/paused")
    assert kolla.other.run("cat /etc/kolla/plimsoll/rules.yaml") == RULES, "only the canary was begun"

    approved: dict[str, object] = {"plimsoll_rollout_approve": wanted[1], "plimsoll_kolla_catalogue": False}
    deployed = kolla.deploy(*ONE, plimsoll_kolla_image=NEXT, **approved)
    assert deployed.ok, deployed.out
    assert kolla.images == {REAL.name: NEXT, OTHER: kolla.host.image}
    assert limits(hypervisor, guest) == {Limits(total_iops_sec=20, total_iops_sec_max=20)}
    # A key and a container that are not needed any more.
    assert kolla.host.run("find /etc/kolla /etc/systemd -name 'openstack.conf' -o -name 'kolla-plimsoll-cat*'") == ""


def test_a_fault_in_the_rules_ends_the_play_and_the_daemon_runs_on(kolla: Kolla) -> None:
    kolla.write("default: {limits: {total_iops: 250}}\n")
    failed = kolla.deploy(plimsoll_kolla_catalogue=False)
    kolla.write(CUT)
    assert not failed.ok
    assert "total_iops is not a key here" in failed.out
    assert kolla.host.run("cat /etc/kolla/plimsoll/rules.yaml") == CUT
    assert kolla.host.run(f"systemctl is-active {UNIT}").strip() == "active"


def test_without_a_socket_of_libvirt_the_role_changes_nothing(kolla: Kolla) -> None:
    told: dict[str, object] = {"plimsoll_kolla_libvirt_directory": "/run/none", "plimsoll_kolla_catalogue": False}
    limited = [*ONE, "--tags", "preflight"]
    played = kolla.deploy(*limited, **told)
    assert "/run/none has neither libvirt-sock nor virtqemud-sock" in text_of(played)
    assert played.changed == []
    kolla.host.run("mkdir /run/none && touch /run/none/virtqemud-sock")
    played = kolla.deploy(*limited, **told)
    kolla.host.run("rm -r /run/none")
    assert played.ok, played.out


SOAK = pytest.mark.skipif(DEPTH is not Depth.SOAK, reason="takes two minutes; the story above goes the same way")


@SOAK
def test_an_image_goes_with_the_limits_that_it_set(
    kolla: Kolla, cloud: Cloud, guests: Guests, hypervisor: Libvirt
) -> None:
    files = kolla.home / "files"
    # Limits are raised where Ceph's health is known.
    (files / "ceph.conf").write_text(kolla.host.run("cat /etc/ceph/ceph.conf"))
    keyring = "ceph.client.plimsoll.keyring"
    (files / keyring).write_text((cloud.layout.ceph_conf.parent / keyring).read_text())
    kolla.write(RULES)
    told: dict[str, object] = {"plimsoll_kolla_catalogue": False}
    deployed = kolla.deploy(*ONE, **told)
    assert deployed.ok, deployed.out
    (guest,) = guests()
    kolla.host.until(lambda: limits(hypervisor, guest) == {LIMIT})
    before = kolla.host.run("sleep 1; date --utc +%FT%TZ").strip()
    kolla.write(CUT)
    told |= {"plimsoll_kolla_image": NEXT}  # as in globals.yml
    wanted = re.search(r"plimsoll_rollout_approve=([0-9a-f]{64})", text_of(kolla.deploy(*ONE, **told)))
    assert wanted
    assert kolla.deploy(*ONE, **told, plimsoll_rollout_approve=wanted[1]).ok
    assert limits(hypervisor, guest) == {Limits(total_iops_sec=20, total_iops_sec_max=20)}

    told |= {"plimsoll_rollback_to": kolla.host.image, "plimsoll_rollback_limits_since": before}
    counted = kolla.roll_back(*ONE, **told)
    number = re.search(r"plimsoll_rollback_disks=(\d+)", text_of(counted))
    assert number, counted.out
    assert limits(hypervisor, guest) == {Limits(total_iops_sec=20, total_iops_sec_max=20)}
    rolled_back = kolla.roll_back(*ONE, **told, plimsoll_rollback_disks=number[1])
    assert rolled_back.ok, rolled_back.out
    assert kolla.images[REAL.name] == kolla.host.image
    assert limits(hypervisor, guest) == {LIMIT}
    assert "rolled back to the limits before" in kolla.host.run("cat /var/lib/plimsoll/paused")
    assert "podman exec plimsoll plimsoll resume --reason mended" in text_of(rolled_back)
    kolla.host.plimsoll("resume", "--reason", "mended")


@SOAK
def test_a_container_of_its_own_probes_guests_and_the_canary_is_judged_by_it(
    kolla: Kolla, booted: Guest, hypervisor: Libvirt
) -> None:
    canary = {
        "name": "canary",
        "match": {"guest": booted.uuid, "kind": "volume"},
        "probe": {"every": "6h", "jobs": ["read"], "directory": "/mnt/volume"},
    }
    kolla.write(yaml.safe_dump({**yaml.safe_load(RULES), "rules": [canary]}))
    settings = kolla.home / "files/plimsoll.conf"
    settings.write_text(f"{SETTINGS}[probe]\nseconds = 6\nfile_size = 64MiB\nkeep_free = 1MiB\ngrace = 10\n")
    told = {"plimsoll_kolla_probes": True, "plimsoll_kolla_catalogue": False, "plimsoll_rollout_probe_timeout": 120}
    played = kolla.deploy(*ONE, **told)
    settings.write_text(SETTINGS)
    assert played.ok, played.out
    assert re.search(r"\bread\b.* kept ", text_of(played)), text_of(played)
    names = kolla.host.run("podman ps --format '{{.Names}}'").split()
    assert sorted(names) == ["plimsoll", "plimsoll_probe"]
    for target in booted.disks:
        put(hypervisor, booted.uuid, target, Limits())


@SOAK
def test_a_canary_whose_passes_fail_stops_the_rollout_and_the_image_before_is_named(kolla: Kolla) -> None:
    debs = packages.debs("0.1.1", BROKEN)
    broken = kolla.host.store.run(CHECKOUT / "script/package", "container", "--base", BASE, *debs).strip()
    told = {"plimsoll_kolla_image": broken, "plimsoll_kolla_catalogue": False, "plimsoll_rollout_gate_timeout": 10}
    before = kolla.images
    stopped = kolla.deploy(**told)
    assert not stopped.ok
    assert "STOPPED at compute, canary: 0 of 1 healthy" in text_of(stopped)
    assert f"-e plimsoll_rollback_to={before[REAL.name]}" in text_of(stopped)
    assert "-e plimsoll_delivery=container -e plimsoll_group=compute" in text_of(stopped)
    assert kolla.images == before | {REAL.name: broken}
    rolled_back = kolla.roll_back(
        f"--limit=@{kolla.home}/rollout-back.limit", **told | {"plimsoll_rollback_to": before[REAL.name]}
    )
    assert rolled_back.ok, rolled_back.out
    assert kolla.images == before


@SOAK
def test_a_region_that_prometheus_does_not_know_stops_the_rollout(kolla: Kolla, prometheus: Prometheus) -> None:
    asks = {"plimsoll_rollout_prometheus_url": prometheus.url, "plimsoll_rollout_prometheus_timeout": 0}
    asked = kolla.deploy("--tags=gate", *ONE, **asks, plimsoll_kolla_catalogue=False)
    assert not asked.ok
    assert "Prometheus: no node of the region is known" in text_of(asked)
