"""The cloud's Nova, the real one, on a libvirtd of its own: it refuses to start where it finds guests of others."""

from __future__ import annotations

import secrets
import socket
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from . import databases, mariadb, novaconf, ports, servicesenv
from .command import LabError
from .daemon import Daemon
from .disk import GIB
from .layout import Layout
from .libvirtd import Libvirt
from .namespace import Namespace
from .openstack import OpenStack

PORTS = (
    *(ports.NOVA, ports.PLACEMENT, ports.GLANCE, ports.NEUTRON),
    *(ports.MARIADB, ports.RABBITMQ, ports.RABBITMQ_BETWEEN_NODES, ports.EPMD),
)
RABBITMQ_SERVER = "/usr/lib/rabbitmq/bin/rabbitmq-server"
IMAGE = "tiny"
IMAGE_SIZE = 1024**2


class Nova:
    """Its guests have a disk of their own in the pool `vms` and nothing that boots from it: only QEMU runs."""

    def __init__(self, layout: Layout, namespace: Namespace, openstack: OpenStack) -> None:
        self.openstack = openstack
        self.libvirt = Libvirt(layout, namespace, beside="nova")
        self._layout = layout
        self._namespace = namespace
        self._home = layout.root / "nova"
        self._logs = layout.logs / "openstack"
        self._environment = layout.cache_inside / servicesenv.key("nova")
        serve = mariadb.argv(self._home, "--bind-address=127.0.0.1", f"--port={ports.MARIADB}")
        self.mariadb = Daemon(
            namespace, "mariadb", serve, self._logs / "mariadb.out", lambda: _listens(ports.MARIADB)
        )
        self.rabbitmq = Daemon(
            namespace, "rabbitmq", self._rabbitmq(), self._logs / "rabbitmq.out", lambda: _listens(ports.RABBITMQ)
        )
        self.placement = self._api("placement", "placement.wsgi.api", ports.PLACEMENT)
        self.glance = self._api("glance", "glance.wsgi.api", ports.GLANCE)
        self.api = self._api("nova", "nova.wsgi.osapi_compute", ports.NOVA)
        self.conductor = self._service("conductor")
        self.scheduler = self._service("scheduler")
        self.compute = self._service("compute")
        python = f"{openstack.environment_inside}/bin/python"
        neutron = [python, f"{openstack.services}/neutron.py", str(ports.NEUTRON), str(openstack.access_log)]
        self.neutron = openstack.daemon("neutron", neutron, f"http://127.0.0.1:{ports.NEUTRON}/")

    @property
    def libvirt_uri(self) -> str:
        """Of the compute node: what plimsoll is to be run with."""
        return self.libvirt.uri

    # --- what a test does with it

    def create_flavor(self, name: str, extra_specs: Mapping[str, str] | None = None, disk_gib: int = 1) -> Any:
        compute = self.openstack.connection.compute
        flavor = compute.create_flavor(name=name, ram=64, vcpus=1, disk=disk_gib)
        if extra_specs:
            compute.create_flavor_extra_specs(flavor, dict(extra_specs))
        return flavor

    def boot(self, name: str, flavor: Any, root_volume: str | None = None) -> Any:
        """A server, when it is active; with ``root_volume``, the id of a volume, booted from that."""
        compute, image = self.openstack.connection.compute, self.openstack.connection.image
        root: dict[str, Any] = {"image_id": image.find_image(IMAGE).id}
        if root_volume:
            mapping = {"boot_index": 0, "uuid": root_volume, "source_type": "volume", "destination_type": "volume"}
            root = {"block_device_mapping": [mapping]}
        server = compute.create_server(name=name, flavor_id=flavor.id, networks="none", **root)
        return self.wait_for_server(server.id)

    def attach(self, server_id: str, volume_id: str) -> str:
        """Returns the target, vdb, say."""
        compute = self.openstack.connection.compute
        compute.create_volume_attachment(server_id, volume_id=volume_id)
        volume = self.openstack.wait_for_volume(volume_id, "in-use")
        device: str = next(one["device"] for one in volume.attachments if one["server_id"] == server_id)
        return device.removeprefix("/dev/")

    def extend(self, server_id: str, volume_id: str, size_gib: int, timeout: float = 30) -> None:
        """Of an attached volume; returns when the guest has it, of which Cinder tells Nova afterwards."""
        self.openstack.extend(volume_id, size_gib)
        guest = self.domain(server_id)
        target = next(
            found.get("dev", "")
            for disk in ET.fromstring(guest.XMLDesc()).iterfind("devices/disk")
            if disk.findtext("serial") == volume_id and (found := disk.find("target")) is not None
        )
        deadline = time.monotonic() + timeout
        while guest.blockInfo(target)[0] != size_gib * GIB:
            if time.monotonic() > deadline:
                raise LabError(f"{server_id} has {target} as it was {timeout:g} s before: see {self._logs}")
            time.sleep(0.2)

    def hard_reboot(self, server_id: str) -> None:
        """Nova makes the guest's XML anew from what it stored when its disks were attached."""
        self.openstack.connection.compute.reboot_server(server_id, "HARD")
        self.wait_for_server(server_id)

    def stop(self, server_id: str) -> None:
        self.openstack.connection.compute.stop_server(server_id)
        self.wait_for_server(server_id, "SHUTOFF")

    def start(self, server_id: str) -> None:
        self.openstack.connection.compute.start_server(server_id)
        self.wait_for_server(server_id)

    def live_migrate(self, server_id: str, host: str, timeout: float = 90) -> None:
        """Returns when it runs on that compute node."""
        compute = self.openstack.connection.compute
        compute.live_migrate_server(server_id, host=host, block_migration="auto")
        server = self.wait_for_server(server_id, timeout=timeout)
        if server.compute_host != host:
            raise LabError(f"{server.name} is on {server.compute_host} still, not on {host}: see {self._logs}")

    def delete(self, server_id: str) -> None:
        """Its volumes stay and are available again."""
        compute = self.openstack.connection.compute
        server = compute.get_server(server_id)
        compute.delete_server(server)
        compute.wait_for_delete(server, interval=0.5, wait=60)

    def wait_for_server(self, server_id: str, status: str = "ACTIVE", timeout: float = 120) -> Any:
        deadline = time.monotonic() + timeout
        while True:
            server = self.openstack.connection.compute.get_server(server_id)
            if server.status == status and not server.task_state:
                return server
            if server.status == "ERROR" or time.monotonic() > deadline:
                said = (server.fault or {}).get("message", server.task_state)
                raise LabError(f"{server.name} is {server.status}, not {status}: {said}; see {self._logs}")
            time.sleep(0.2)

    def domain(self, server_id: str) -> Any:
        """The libvirt.virDomain on the first node; a server's id is its guest's uuid."""
        return self.libvirt.shared().lookupByUUIDString(server_id)

    # --- making it

    def make(
        self,
        say: Callable[[str], None],
        ceph: Callable[[], str],
        keystone: Callable[[], object],
        openstack: Callable[[], object],
    ) -> None:
        """``keystone`` and ``openstack`` wait for Keystone and for Cinder too; ``ceph`` returns Cinder's key."""
        kept = databases.ensure_nova(self._layout.cache, say)
        self._write_files()
        databases.copy(kept, self._home)
        self.rabbitmq.start(wait=False)
        self.mariadb.start()
        for daemon in (self.placement, self.neutron, self.glance):
            daemon.start(wait=False)
        # What Nova's own do not find in Keystone's catalogue when they start, they take to be switched off.
        keystone()
        self.openstack.show_in_catalogue(*databases.OF_NOVAS_PART)
        for daemon in (self.conductor, self.api, self.scheduler):
            daemon.start(wait=False)
        self.libvirt.make(ceph())
        self.rabbitmq.wait_ready()
        self.compute.start(wait=False)
        for daemon in self._daemons:
            daemon.wait_ready()
        openstack()
        self._make_image()
        self._wait_for_the_node()

    def compute_conf(self, home: Path, libvirt_uri: str, number: int = 1) -> str:
        """The nova.conf of a compute node, which others find by its number from then on."""
        nodes = self._home / "nodes"
        nodes.mkdir(exist_ok=True)
        found = novaconf.node_home(nodes, number)
        found.unlink(missing_ok=True)
        found.symlink_to(home)
        inside = self._environment
        return novaconf.nova(home, self._logs, inside, self._layout.ceph_conf, libvirt_uri, nodes, number)

    def heal(self) -> None:
        daemons = (self.mariadb, self.rabbitmq, self.libvirt.daemon, *self._daemons)
        healed = [daemon.name for daemon in daemons if daemon.heal()]
        if healed:
            self._wait_for_the_node()

    @property
    def _daemons(self) -> tuple[Daemon, ...]:
        """In the order of their start."""
        return (
            *(self.placement, self.neutron, self.conductor, self.compute),
            *(self.scheduler, self.api, self.glance),
        )

    def _write_files(self) -> None:
        for directory in ("glance/images", "glance/staging", "state/instances", "rabbitmq"):
            (self._home / directory).mkdir(parents=True, exist_ok=True)
        inside = self._environment
        for name, text in {
            "rabbitmq.conf": novaconf.rabbitmq(),
            "enabled_plugins": "[].\n",
            "placement.conf": novaconf.placement(self._logs),
            "glance-api.conf": novaconf.glance(self._home / "glance", self._logs, inside),
            "nova.conf": self.compute_conf(self._home, self.libvirt_uri),
        }.items():
            (self._home / name).write_text(text)
        # Nova's API looks for it beside nova.conf, whatever that says.
        pipelines = self._layout.cache / servicesenv.key("nova") / "etc/nova/api-paste.ini"
        (self._home / pipelines.name).write_text(pipelines.read_text())
        # Erlang takes none that others could read.
        cookie = self._home / "rabbitmq/.erlang.cookie"
        cookie.touch(mode=0o600)
        cookie.write_text(secrets.token_hex(16))

    def _make_image(self) -> None:
        self.openstack.connection.image.create_image(
            name=IMAGE, data=bytes(IMAGE_SIZE), disk_format="raw", container_format="bare", wait=True
        )

    def _wait_for_the_node(self, timeout: float = 150) -> None:
        """Until guests can be scheduled to it."""
        compute = self.openstack.connection.compute
        deadline = time.monotonic() + timeout
        while not any(node.state == "up" for node in compute.hypervisors(details=True)):
            self._namespace.check_desired()
            alive = self._namespace.daemons()
            if ended := [daemon.name for daemon in self._daemons if daemon.name not in alive]:
                raise LabError(f"{', '.join(ended)} ended: see {self._logs}")
            if time.monotonic() > deadline:
                raise LabError(
                    f"the compute node is not there after {timeout:g} s: see {self._logs}/nova-compute.log"
                )
            time.sleep(0.5)

    def _api(self, name: str, module: str, port: int) -> Daemon:
        script = [f"{self._environment}/bin/python", f"{self.openstack.services}/serve.py"]
        argv = [*script, name, module, str(port), str(self.openstack.access_log)]
        variable = f"OS_{name.upper()}_CONFIG_DIR"
        return self.openstack.daemon(
            name if name != "nova" else "nova-api",
            argv,
            f"http://127.0.0.1:{port}/",
            {variable: str(self._home), **self._path()},
        )

    def _service(self, name: str) -> Daemon:
        return self.service(name, f"nova-{name}", self._home)

    def service(self, name: str, called: str, home: Path) -> Daemon:
        """One of Nova's, by the nova.conf in ``home``."""
        bin_ = self._environment / "bin"
        argv = [f"{bin_}/python", f"{bin_}/nova-{name}", "--config-file", str(home / "nova.conf")]
        return self.openstack.daemon(called, argv, environ=self._path())

    def _path(self) -> dict[str, str]:
        return {"PATH": self.openstack.path(self._environment)}

    def _rabbitmq(self) -> list[str]:
        home = self._home / "rabbitmq"
        environ = {
            "HOME": home,
            # Else a shell stays in front of it, and would be what is stopped and killed.
            "RUNNING_UNDER_SYSTEMD": "true",
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": ports.EPMD,
            "RABBITMQ_NODENAME": "lab@localhost",
            "RABBITMQ_DIST_PORT": ports.RABBITMQ_BETWEEN_NODES,
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_CONFIG_FILE": self._home / "rabbitmq.conf",
            "RABBITMQ_ENABLED_PLUGINS_FILE": self._home / "enabled_plugins",
            "RABBITMQ_MNESIA_BASE": home / "mnesia",
            "RABBITMQ_LOG_BASE": self._logs,
            "RABBITMQ_PID_FILE": home / "pid",
            # One scheduler that does not spin: the cores are the guests' too.
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": (
                "-kernel inet_dist_use_interface {127,0,0,1} +S 1:1 +sbwt none +sbwtdcpu none +sbwtdio none"
            ),
        }
        return ["env", *(f"{name}={value}" for name, value in environ.items()), RABBITMQ_SERVER]


def _listens(port: int) -> bool:
    with socket.socket() as attempt:
        attempt.settimeout(5)
        return attempt.connect_ex(("127.0.0.1", port)) == 0
