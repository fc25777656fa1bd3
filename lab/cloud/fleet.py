"""The cloud's compute nodes for a rollout: hosts with systemd as process 1, each in a network of its own, over ssh.

All of a host ends with its daemon of the namespace: its processes, its mounts, its network, its disk. What remains,
the empty control groups, goes with `sweep`.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import yaml

from . import fleetrelease, ports
from .command import LabError, run
from .daemon import Daemon
from .fleetboot import CGROUPS, HIERARCHIES
from .fleethost import GOOD, HOSTS, REAL, Host, Identity, boot_spec
from .layout import Layout
from .libvirtd import SOCKET_GROUP
from .namespace import Namespace, kill_and_wait

# What hosts see of this machine, and may not change.
SHARED = "/run/lab"
CACHE = "/run/lab-cache"
MONITOR = f"{SHARED}/monitor.sock"
# The forwarding of the real host's 127.0.0.1 to the monitor, which listens on this machine's.
_MONITOR_SOCKET = f"""\
[Socket]
ListenStream=127.0.0.1:{ports.MONITOR_V2}
[Install]
WantedBy=sockets.target
"""
_MONITOR_SERVICE = f"""\
[Unit]
Description=The way to the lab's monitor
[Service]
ExecStart=/lib/systemd/systemd-socket-proxyd {MONITOR}
"""


class Fleet:
    """Six good hosts in two regions; those in trouble start when they are asked for."""

    def __init__(self, layout: Layout, namespace: Namespace) -> None:
        self._layout = layout
        self._namespace = namespace
        self._home = layout.root / "fleet"
        # Its pid is the one inside the namespace, where the hosts are started that look for it.
        switch = f"echo $$ > {self._home}/switch.pid && exec sleep infinity"
        self._switch = Daemon(
            namespace,
            "fleet-switch",
            ["unshare", "--net", "sh", "-c", switch],
            self._log("switch"),
            self._has_a_network_of_its_own,
        )
        self._relay = Daemon(
            namespace,
            "fleet-relay",
            [
                *("systemd-socket-activate", f"--listen={self.shared}/monitor.sock"),
                *("/lib/systemd/systemd-socket-proxyd", f"127.0.0.1:{ports.MONITOR_V2}"),
            ],
            self._log("relay"),
            (self.shared / "monitor.sock").exists,
        )

    # --- what a test does with it

    @property
    def inventory_file(self) -> Path:
        """The six good hosts as Ansible's YAML; children of group plimsoll are the regions."""
        return self._home / "inventory/hosts.yml"

    @property
    def shared(self) -> Path:
        """Hosts see it as ``SHARED``."""
        return self._home / "shared"

    @property
    def key(self) -> Path:
        return self._home / "id"

    def ssh(self, host: Host | str) -> list[str]:
        """The words before a command that is to run on the host, as root."""
        return ["ssh", *self._options(), "-i", str(self.key), f"root@{_known(host).address}"]

    def run(self, host: Host | str, command: str, timeout: float = 60, check: bool = True) -> str:
        """Output of a shell's command on the host, both kinds; raises LabError when it fails, unless told not to."""
        done = subprocess.run(
            [*self.ssh(host), f"exec 2>&1; {command}"],  # ssh has complaints of its own: a master that is slow, say
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
        )
        if check and done.returncode:
            raise LabError(f"{_known(host).name}: {command}: {(done.stdout or done.stderr).strip()[-500:]}")
        return done.stdout

    def start(self, hosts: Iterable[Host | str]) -> None:
        """Boot those that do not run, side by side; those that do are left as they are."""
        booting = [self._daemon(host) for host in map(_known, hosts) if host.kind != "down"]
        for daemon in booting:
            if not daemon.running:
                daemon.start(wait=False)
        for daemon in booting:
            daemon.wait_ready()
        if HOSTS["r2-full"] in map(_known, hosts):
            self.run("r2-full", "head -c 1G /dev/zero > /opt/filler", check=False)

    def reset(self, hosts: Iterable[Host | str]) -> None:
        """Fresh ones in their place."""
        chosen = list(map(_known, hosts))
        for host in chosen:
            self.kill(host)
        self.start(chosen)

    def kill(self, host: Host | str) -> None:
        """As when its power is cut; what was on its disk is lost too."""
        host = _known(host)
        self._end_connection(self._home / f"ssh-{host.address}")
        daemon = self._daemon(host)
        if daemon.running:
            # Not the daemon, which is but the parent of the host's process namespace.
            for child in Path(f"/proc/{daemon.pid}/task/{daemon.pid}/children").read_text().split():
                kill_and_wait(int(child))
            while daemon.running:
                time.sleep(0.02)

    def hang_up(self) -> None:
        """End the connections to all hosts, which outlive the programs that made them."""
        for path in self._home.glob("ssh-*"):
            self._end_connection(path)

    def inventory(
        self,
        hosts: Sequence[Host | str] = GOOD,
        variables: Mapping[str, object] | None = None,
        real: Mapping[str, object] | None = None,
    ) -> dict[str, Any]:
        """For Ansible: group plimsoll with ``variables``, whose children are the hosts' regions.

        ``real`` are variables of the host with the real libvirtd.
        """
        regions: dict[str, Any] = {}
        for host in map(_known, hosts):
            known: dict[str, object] = {"ansible_host": host.address, "plimsoll_libvirt_uri": host.libvirt_uri}
            if host == REAL:
                keyring = self._layout.ceph_conf.parent / "ceph.client.plimsoll.keyring"
                known |= {
                    "plimsoll_libvirt_group": str(SOCKET_GROUP),
                    "plimsoll_ceph_keyring": f"{{{{ lookup('ansible.builtin.file', '{keyring}') }}}}",
                    "plimsoll_ceph_networks": ["127.0.0.1/32"],
                    **(real or {}),
                }
            regions.setdefault(host.region, {"hosts": {}})["hosts"][host.name] = known
        connection = {
            "ansible_user": "root",
            "ansible_ssh_private_key_file": str(self.key),
            "ansible_ssh_common_args": " ".join(self._options()),
            "ansible_python_interpreter": "/usr/bin/python3",
        }
        return {
            "plimsoll": {
                "vars": connection | {"plimsoll_rollout_regions": [*regions]} | dict(variables or {}),
                "children": regions,
            }
        }

    def write_inventory(
        self,
        file: Path,
        hosts: Sequence[Host | str] = GOOD,
        variables: Mapping[str, object] | None = None,
        real: Mapping[str, object] | None = None,
    ) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("---\n" + yaml.safe_dump(self.inventory(hosts, variables, real), sort_keys=False))

    # --- making it

    def make(self) -> None:
        self._log("switch").parent.mkdir(parents=True, exist_ok=True)
        self.shared.mkdir(parents=True, exist_ok=True)
        self._make_keys()
        self.write_inventory(self.inventory_file)
        self._connect()
        self._relay.start()
        self.start(GOOD)

    def heal(self) -> None:
        if not self._switch.running:
            for host in HOSTS:
                self.kill(host)
            self._connect()
        if not self._relay.running:
            (self.shared / "monitor.sock").unlink(missing_ok=True)
            self._relay.start()
        self.start(GOOD)

    def _make_keys(self) -> None:
        for file in (self.key, self._home / "host_key"):
            run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "lab", "-f", file])
        shown = (self._home / "host_key.pub").read_text()
        (self._home / "known_hosts").write_text(f"{ports.FLEET_NETWORK}.* {shown}")

    def _options(self) -> list[str]:
        return [
            *("-o", f"UserKnownHostsFile={self._home}/known_hosts", "-o", "GlobalKnownHostsFile=/dev/null"),
            *("-o", "StrictHostKeyChecking=yes", "-o", "ConnectTimeout=5", "-o", "LogLevel=ERROR", "-F", "none"),
            # Many a session in one connection, as an operator's ssh does it.
            *("-o", "ControlMaster=auto", "-o", f"ControlPath={self._home}/ssh-%h", "-o", "ControlPersist=60"),
        ]

    def _connect(self) -> None:
        """The hosts' bridge in a network that is nobody's, and a cable to it: both end with the switch's process."""
        self._switch.start()
        ours, its = ["ip"], ["nsenter", f"--net=/proc/{self._switch.pid}/ns/net", "ip"]
        for ip, words in (
            (ours, f"link add {ports.FLEET_LINK} type veth peer name uplink netns {self._switch.pid}"),
            (ours, f"address add {ports.FLEET_NETWORK}.1/24 dev {ports.FLEET_LINK}"),
            (ours, f"link set {ports.FLEET_LINK} up"),
            (its, "link add fleet type bridge"),
            (its, "link set uplink master fleet up"),
            (its, "link set fleet up"),
        ):
            run([*ip, *words.split()])

    def _has_a_network_of_its_own(self) -> bool:
        network = Path(f"/proc/{self._switch.pid}/ns/net")
        return network.stat().st_ino != Path("/proc/self/ns/net").stat().st_ino

    def _daemon(self, host: Host) -> Daemon:
        lower = Path("/")
        if host.kind == "release":
            lower = self._layout.cache_inside / fleetrelease.tree(self._layout.cache).name
        spec = boot_spec(host, lower, self._identity(), self._binds(host))
        if host == REAL:
            spec["files"] |= self._way_to_the_monitor()
            spec["links"]["etc/systemd/system/sockets.target.wants/lab-monitor.socket"] = "../lab-monitor.socket"
        spec["root"] = str(self._home / "hosts" / host.name)
        spec["cgroup"] = cgroup(self._layout)
        file = self._home / "specs" / f"{host.name}.json"
        file.parent.mkdir(exist_ok=True, mode=0o700)
        file.write_text(json.dumps(spec))
        # Process 1 of the host would outlive a systemd-nspawn that is killed.
        own = "unshare --mount --pid --fork --kill-child --mount-proc"
        enter = f'exec nsenter --net="/proc/$(cat {self._home}/switch.pid)/ns/net" {own} "$@"'
        boot = str(Path(__file__).with_name("fleetboot.py"))
        argv = ["sh", "-c", enter, "enter", sys.executable, "-I", boot, str(file)]
        return Daemon(self._namespace, host.name, argv, self._log(host.name), lambda: _ssh_serves(host))

    def _binds(self, host: Host) -> list[str]:
        """The real host sees libvirt as one whose libvirtd runs in a container of its own."""
        libvirt = [f"--bind={self._layout.libvirt_socket.parent}:/run/libvirt"] if host == REAL else []
        return [*libvirt, f"--bind-ro={self.shared}:{SHARED}", f"--bind-ro={self._layout.cache_inside}:{CACHE}"]

    def _way_to_the_monitor(self) -> dict[str, tuple[int, str]]:
        # The first is used; by the second, guests' XML names the cluster.
        both = f"v2:127.0.0.1:{ports.MONITOR_V2}/0,v1:127.0.0.1:{ports.MONITOR_V1}/0"
        conf = f"[global]\nmon host = [{both}]\n"
        return {
            "etc/ceph/ceph.conf": (0o644, conf),
            "etc/systemd/system/lab-monitor.socket": (0o644, _MONITOR_SOCKET),
            "etc/systemd/system/lab-monitor.service": (0o644, _MONITOR_SERVICE),
        }

    def _identity(self) -> Identity:
        return Identity((self._home / "id.pub").read_text(), (self._home / "host_key").read_text())

    def _end_connection(self, path: Path) -> None:
        if path.is_socket():
            with suppress(LabError):  # ended by itself
                run(["ssh", "-O", "exit", "-S", path, "-F", "none", "host"], timeout=10)

    def _log(self, name: str) -> Path:
        return self._layout.logs / f"fleet/{name}.log"


def sweep(layout: Layout) -> None:
    """Remove the hosts' control groups, which nobody is in any more."""
    for hierarchy in HIERARCHIES:
        top = CGROUPS / hierarchy / cgroup(layout)
        for group in sorted(top.rglob("*/"), key=lambda path: len(path.parts), reverse=True):
            group.rmdir()
        with suppress(FileNotFoundError):
            top.rmdir()


def cgroup(layout: Layout) -> str:
    """Known by the root alone, so that who cleans up needs nothing that was left."""
    return f"plimsoll-lab-{sha256(str(layout.root).encode()).hexdigest()[:8]}"


def _known(host: Host | str) -> Host:
    if isinstance(host, Host):
        return host
    if host not in HOSTS:
        raise LabError(f"no host {host}: there are {', '.join(HOSTS)}")
    return HOSTS[host]


def _ssh_serves(host: Host) -> bool:
    try:
        with socket.create_connection((host.address, 22), timeout=1) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False
