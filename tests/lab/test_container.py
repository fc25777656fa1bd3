"""plimsoll in a container on a host with systemd, beside a libvirtd that has users of its own, as Kolla's has."""

from __future__ import annotations

import json
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
from lab.cloud.fleethost import REAL
from lab.cloud.layout import CHECKOUT
from lab.cloud.libvirtd import SOCKET_GROUP
from lab.cloud.namespace import CONTAINER_USER
from lab.looking import actual
from lab.waiting import PATIENT, until
from plimsoll_agent.adapters.libvirt.client import Libvirt
from plimsoll_agent.model.limits import Limits
from tests.lab.playbook import Playbooks, Played

pytestmark = [pytest.mark.hosts, pytest.mark.timeout(600)]

Guests = Callable[..., list[Guest]]

RULES = "default: {limits: {total_iops_sec: 250}}\n"
SETTINGS = "[DEFAULT]\nmode = enforce\n"
LIMIT = Limits(total_iops_sec=250)
# libvirtd has no user of this number.
STRANGER = 50123
UNIT = "kolla-plimsoll-container.service"


@dataclass(frozen=True)
class Host:
    """With podman, and the image."""

    fleet: Fleet
    image: str

    def run(self, command: str, check: bool = True) -> str:
        return self.fleet.run(REAL, command, timeout=90, check=check)

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
    host = Host(fleet, image)
    host.write("/etc/containers/containers.conf", CONTAINERS_CONF)
    below = [f"{SHARED}/containers/{GRAPH}", f"{CACHE}/{name()}"]
    host.write("/etc/containers/storage.conf", storage_conf("/var/lib/containers", below))
    host.run("mkdir -p /var/lib/containers && mount -t tmpfs tmpfs /var/lib/containers")
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
    found: list[Mapping[str, object]] = json.loads(host.plimsoll("record", "-f", "json"))
    return found


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
    assert '"PLIMSOLL_AFTER": "{\\"total_iops_sec\\": 250}"' in host.said
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


# --- the role, as on the nodes of kolla-ansible


@dataclass(frozen=True)
class Kolla:
    host: Host
    playbooks: Playbooks
    files: Path
    inventory: Path

    def deploy(self, *words: str, **variables: object) -> Played:
        return self.playbooks.play(CHECKOUT / "ansible/playbooks/kolla.yml", self.inventory, *words, **variables)


@pytest.fixture(scope="module")
def kolla(host: Host, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kolla]:
    home = tmp_path_factory.mktemp("kolla")
    inventory = host.fleet.inventory([REAL])["plimsoll"]
    hosts = inventory["children"][REAL.region]["hosts"]
    (home / "files").mkdir()
    variables = inventory["vars"] | {
        "plimsoll_kolla_image": host.image,
        "plimsoll_kolla_engine": "podman",
        "plimsoll_kolla_files": str(home / "files"),
        # The host has no controllers of these.
        "plimsoll_kolla_options": [],
        "plimsoll_kolla_catalogue": True,
    }
    (home / "hosts.yml").write_text(yaml.safe_dump({"compute": {"hosts": hosts, "vars": variables}}))
    (home / "files/plimsoll.conf").write_text(SETTINGS)
    (home / "files/rules.yaml").write_text(RULES)
    (home / "files/openstack.conf").write_text("[openstack]\npassword = secret\n")
    yield Kolla(host, Playbooks(home), home / "files", home / "hosts.yml")
    host.run("systemctl stop 'kolla-plimsoll*'")


def test_the_role_runs_the_daemon_as_root_without_capabilities_and_again_changes_nothing(
    kolla: Kolla, guests: Guests, hypervisor: Libvirt
) -> None:
    checked = kolla.deploy("--check")
    assert checked.ok, checked.out
    deployed = kolla.deploy()
    assert deployed.ok, deployed.out
    (guest,) = guests()
    kolla.host.until(lambda: limits(hypervisor, guest) == {LIMIT})
    status = kolla.host.run("podman exec plimsoll grep -E '^(Uid|CapEff|NoNewPrivs)' /proc/self/status").split()
    assert status == ["Uid:", "0", "0", "0", "0", "CapEff:", "0000000000000000", "NoNewPrivs:", "1"]
    secret = "/etc/plimsoll/openstack.conf"
    assert kolla.host.run(f"podman exec plimsoll_catalogue stat -c %a {secret}").strip() == "600"
    assert "No such file" in kolla.host.run(f"podman exec plimsoll stat {secret}", check=False)
    assert "No such file" in kolla.host.run("podman exec plimsoll_catalogue ls /run/libvirt", check=False)
    again = kolla.deploy()
    assert again.ok, again.out
    assert again.changed == []


def test_a_key_and_a_container_that_are_not_needed_any_more_are_removed(kolla: Kolla) -> None:
    (kolla.files / "openstack.conf").unlink()
    deployed = kolla.deploy(plimsoll_kolla_catalogue=False)
    assert deployed.ok, deployed.out
    assert kolla.host.run("podman ps --format '{{.Names}}'").split() == ["plimsoll"]
    assert kolla.host.run("find /etc/kolla /etc/systemd -name 'openstack.conf' -o -name 'kolla-plimsoll-cat*'") == ""


def test_a_fault_in_the_rules_ends_the_play_and_the_daemon_runs_on(kolla: Kolla) -> None:
    (kolla.files / "rules.yaml").write_text("default: {limits: {total_iops: 250}}\n")
    failed = kolla.deploy()
    assert not failed.ok
    assert "total_iops is not a key here" in failed.out
    assert kolla.host.run("cat /etc/kolla/plimsoll/rules.yaml") == RULES
    assert kolla.host.run(f"systemctl is-active {UNIT}").strip() == "active"


def test_without_a_socket_of_libvirt_the_role_changes_nothing(kolla: Kolla) -> None:
    played = kolla.deploy(plimsoll_kolla_libvirt_directory="/run/none")
    assert "/run/none has neither libvirt-sock nor virtqemud-sock" in played.failures[REAL.name]
    assert played.changed == []
    kolla.host.run("mkdir /run/none && touch /run/none/virtqemud-sock")
    played = kolla.deploy("--tags", "preflight", plimsoll_kolla_libvirt_directory="/run/none")
    kolla.host.run("rm -r /run/none")
    assert played.ok, played.out
