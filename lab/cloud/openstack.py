"""The cloud's Keystone and Cinder, the real ones; Cinder's volumes are images in the cloud's Ceph."""

from __future__ import annotations

import http.client
import importlib
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from . import databases, login, ports, serviceconf, servicesenv
from .attachment import Attachment
from .command import LabError
from .daemon import Daemon
from .layout import Layout
from .login import Login
from .namespace import Namespace
from .release import program
from .served import AccessLog, Request

PORTS = (ports.KEYSTONE, ports.CINDER)
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Made by `keystone-manage bootstrap`.
ADMIN = login.by_password("admin", "admin")


class OpenStack:
    def __init__(self, layout: Layout, namespace: Namespace) -> None:
        self.auth_url = serviceconf.AUTH_URL
        self.region = serviceconf.REGION
        self.admin = ADMIN
        self._layout = layout
        self._namespace = namespace
        self._home = layout.root / "openstack"
        self._logs = layout.logs / "openstack"
        self._log = AccessLog(self._logs / "requests.jsonl")
        self._connection: Any = None
        self._service_connection: Any = None
        environment = self.environment_inside
        self.services = self._home / "services"
        self.commands = self._home / "commands"
        self.access_log = self._log.file
        keystone = [
            *(f"{environment}/bin/python", f"{self.services}/serve.py", "keystone", "keystone.wsgi.api"),
            *(str(ports.KEYSTONE), str(self.access_log)),
        ]
        cinder = [
            *(f"{environment}/bin/python", f"{self.services}/cinder_in_one.py", str(self.access_log)),
            *("--config-file", f"{self._home}/cinder.conf"),
        ]
        self.keystone = self.daemon(
            "keystone", keystone, f"{self.auth_url}/", {"OS_KEYSTONE_CONFIG_DIR": str(self._home)}
        )
        self.cinder = self.daemon("cinder", cinder, f"http://127.0.0.1:{ports.CINDER}/healthcheck")

    @property
    def environment_inside(self) -> Path:
        """The services' Python environment as the namespace sees it."""
        return self._layout.cache_inside / servicesenv.key()

    def path(self, environment: Path) -> str:
        """For services of that Python environment: the lab's own commands come first."""
        return f"{self.commands}:{environment}/bin:{PATH}"

    def daemon(
        self, name: str, argv: Sequence[str], url: str | None = None, environ: Mapping[str, str] | None = None
    ) -> Daemon:
        """One of the services; it serves when ``url`` is answered, where it has one."""
        desired = {"PATH": self.path(self.environment_inside), "PYTHONWARNINGS": "ignore"} | dict(environ or {})
        prefix = ["env", *(f"{variable}={value}" for variable, value in desired.items())]
        log = self._logs / f"{name}.out"
        of_release = program([*prefix, *argv], self._layout.cache_inside)
        return Daemon(self._namespace, name, of_release, log, lambda: url is None or _answers(url))

    # --- who may ask

    @property
    def connection(self) -> Any:
        """openstacksdk's, as the cloud's administrator; one for this program."""
        if self._connection is None:
            self._connection = self.connect(self.admin)
        return self._connection

    def connect(self, who: Login) -> Any:
        """A new openstack.connection.Connection; the caller closes it."""
        sdk: Any = importlib.import_module("openstack")
        return sdk.connect(load_yaml_config=False, load_envvars=False, app_name="lab", **who.cloud())

    def close(self) -> None:
        for connection in (self._connection, self._service_connection):
            if connection is not None:
                connection.close()
        self._connection = self._service_connection = None

    def create_user(self, name: str, roles: Iterable[str] = ("reader",), project: str = "admin") -> Login:
        """A user with these roles on the project; roles and project are made where they are not there.

        Keystone itself brings the roles admin, manager, member, reader and service.
        """
        identity = self.connection.identity
        in_project = identity.find_project(project) or identity.create_project(name=project, domain_id="default")
        user = identity.create_user(
            name=name, password=serviceconf.PASSWORD, domain_id="default", default_project_id=in_project.id
        )
        for role in roles:
            found = identity.find_role(role) or identity.create_role(name=role)
            identity.assign_project_role_to_user(in_project, user, found)
        return login.by_password(name, project)

    def create_application_credential(
        self,
        who: Login,
        name: str,
        roles: Iterable[str] | None = None,
        access_rules: Iterable[tuple[str, str, str]] | None = None,
    ) -> Login:
        """For that user, with all of the roles or some; a rule is (service type, method, path).

        Cinder is `block-storage` in a rule, as in its `service_type` (serviceconf.py).
        """
        rules = {
            "access_rules": [
                {"service": service, "method": method, "path": path} for service, method, path in access_rules
            ]
            if access_rules is not None
            else None,
            "roles": [{"name": role} for role in roles] if roles is not None else None,
        }
        connection = self.connect(who)
        try:
            made = connection.identity.create_application_credential(
                connection.current_user_id, name, **{key: value for key, value in rules.items() if value is not None}
            )
        finally:
            connection.close()
        return login.by_application_credential(made.id, made.secret)

    def clouds_yaml(self, path: Path, **clouds: Login) -> Path:
        """Write the file that openstacksdk reads; without ``clouds`` it has one, `lab`, the administrator's."""
        return login.write_clouds_yaml(path, clouds or {"lab": self.admin})

    # --- Cinder

    def create_qos(self, name: str, specs: Mapping[str, object], consumer: str = "front-end") -> Any:
        return self.connection.block_storage.create_qos_spec(
            name=name, consumer=consumer, **{key: str(value) for key, value in specs.items()}
        )

    def create_volume_type(self, name: str, qos: Any = None) -> Any:
        """A type on Ceph, associated with that QoS spec if there is one."""
        block_storage = self.connection.block_storage
        made = block_storage.create_type(name=name, extra_specs={"volume_backend_name": "rbd"})
        if qos is not None:
            block_storage.associate_qos_spec(qos, made.id)
        return made

    def update_qos(self, qos: Any, specs: Mapping[str, object]) -> None:
        """Set these keys; the others stay."""
        self.connection.block_storage.update_qos_spec(qos, **{key: str(value) for key, value in specs.items()})

    def create_volume(
        self, volume_type: Any, size_gib: int = 1, name: str | None = None, bootable: bool = False
    ) -> Any:
        """Returns when it is available, with its image in the pool `volumes`."""
        block_storage = self.connection.block_storage
        made = block_storage.create_volume(name=name, size=size_gib, volume_type=volume_type.id)
        if bootable:
            block_storage.set_volume_bootable_status(made, True)
        (self._home / "volumes" / made.id).touch()
        return self.wait_for_volume(made.id, "available")

    def owns(self, volume_id: str | None) -> bool:
        """Whether it was made here, so that its image is Cinder's to remove; known without asking Cinder."""
        return volume_id is not None and (self._home / "volumes" / volume_id).exists()

    def wait_for_volume(self, volume_id: str, status: str, timeout: float = 60) -> Any:
        volume = self._wait_for(volume_id, lambda volume: volume.status == status, timeout)
        if volume.status != status:
            raise LabError(f"volume {volume_id} is {volume.status}, not {status}: see {self._logs}/cinder.log")
        return volume

    def extend(self, volume_id: str, size_gib: int) -> Any:
        """Attached or not."""
        self._act(volume_id, {"os-extend": {"new_size": size_gib}})
        volume = self._wait_for(volume_id, lambda volume: volume.size == size_gib and volume.status != "extending")
        if volume.size != size_gib:
            raise LabError(
                f"volume {volume_id} is {volume.status} with {volume.size} GiB: see {self._logs}/cinder.log"
            )
        return volume

    def retype(self, volume_id: str, volume_type: Any) -> Any:
        """To another type, where the volume stays as it is. In use it is refused where their QoS specs differ."""
        self._act(volume_id, {"os-retype": {"new_type": volume_type.id, "migration_policy": "never"}})
        volume = self._wait_for(
            volume_id, lambda volume: volume.volume_type == volume_type.name and volume.status != "retyping"
        )
        if volume.volume_type != volume_type.name:
            raise LabError(f"volume {volume_id} is {volume.status}, of type {volume.volume_type}")
        return volume

    def attach(self, volume_id: str, instance_uuid: str, target: str = "vdb") -> Attachment:
        """As Nova does before it plugs the disk; ``complete`` is for afterwards."""
        block_storage = self.connection.block_storage
        volume = block_storage.get_volume(volume_id)
        made = block_storage.create_attachment(volume, instance=instance_uuid)
        connector = {
            **{"host": "lab", "ip": "127.0.0.1", "initiator": "iqn.1994-05.com.redhat:lab", "multipath": False},
            **{"os_type": "linux", "platform": "x86_64", "mountpoint": f"/dev/{target}"},
        }
        updated = block_storage.update_attachment(made.id, connector=connector)
        return Attachment(made.id, volume_id, volume.size, instance_uuid, target, updated.connection_info)

    def complete(self, attachment: Attachment) -> None:
        self.connection.block_storage.complete_attachment(attachment.id)

    def detach(self, attachment: Attachment) -> None:
        """Cinder's side only."""
        if self._service_connection is None:
            self._service_connection = self.connect(login.by_password("cinder", serviceconf.SERVICE_PROJECT))
        # Without the token of a service Cinder would ask Nova whether the volume is in use.
        headers = {"X-Service-Token": self._service_connection.auth_token}
        answer = self.connection.block_storage.delete(
            f"/attachments/{attachment.id}", headers=headers, microversion="3.27"
        )
        if answer.status_code != 200:
            raise LabError(f"volume {attachment.volume_id} is not detached: {answer.status_code} {answer.text}")

    def delete_volume(self, volume_id: str) -> None:
        block_storage = self.connection.block_storage
        volume = block_storage.get_volume(volume_id)
        block_storage.delete_volume(volume)
        block_storage.wait_for_delete(volume, interval=0.2, wait=60)
        (self._home / "volumes" / volume_id).unlink(missing_ok=True)

    @contextmanager
    def cinder_policy(self, rules: Mapping[str, str]) -> Iterator[None]:
        """Other rules than Cinder's own, as an operator writes them to `policy.yaml`; read at the next request."""
        self._write_policy(rules)
        try:
            yield
        finally:
            self._write_policy({})

    def _write_policy(self, rules: Mapping[str, str]) -> None:
        file = self._home / "policy.yaml"
        new = file.with_suffix(".new")
        new.write_text(yaml.safe_dump(dict(rules)))
        new.rename(file)

    def _act(self, volume_id: str, body: dict[str, Any]) -> None:
        # 3.42 lets volumes in use be extended.
        answer = self.connection.block_storage.post(f"/volumes/{volume_id}/action", json=body, microversion="3.42")
        if answer.status_code != 202:
            raise LabError(f"volume {volume_id}: {answer.status_code} {answer.text}")

    def _wait_for(self, volume_id: str, arrived: Callable[[Any], bool], timeout: float = 60) -> Any:
        """The volume as it was seen last."""
        deadline = time.monotonic() + timeout
        while True:
            volume = self.connection.block_storage.get_volume(volume_id)
            if arrived(volume) or "error" in volume.status or time.monotonic() > deadline:
                return volume
            time.sleep(0.1)

    # --- what was asked

    def mark(self) -> int:
        """Here and now in the log of requests."""
        return self._log.mark()

    def requests_since(self, mark: int, agent: str = "") -> list[Request]:
        """What Keystone and Cinder were asked since, by clients whose User-Agent has ``agent`` in it.

        The lab's own connections begin with `lab openstacksdk`.
        """
        return [request for request in self._log.since(mark) if agent in request.agent]

    # --- making it

    def make(self, say: Callable[[str], None], ceph: Callable[[], object]) -> None:
        """``ceph`` waits for it: Cinder needs it when it starts, Keystone does not."""
        kept = databases.ensure_openstack(self._layout.cache, say)
        self._write_files()
        databases.copy(kept, self._home)
        self.keystone.start(wait=False)
        ceph()
        self.cinder.start(wait=False)
        self.keystone.wait_ready()
        self.cinder.wait_ready()
        self._wait_for_the_scheduler()

    def heal(self) -> None:
        self.keystone.heal()
        self.cinder.heal()
        self._wait_for_the_scheduler()

    def _write_files(self) -> None:
        for directory in (
            self._logs,
            *(self._home / name for name in ("state/locks", "state/coordination", "volumes")),
        ):
            directory.mkdir(parents=True, exist_ok=True)
        shutil.copytree(Path(__file__).with_name("services"), self.services, ignore=_BYTECODE)
        self.commands.mkdir()
        (self.commands / "ceph").symlink_to(self.services / "ceph.py")
        (self._home / "keystone.conf").write_text(serviceconf.keystone(self._home, self._logs))
        (self._home / "cinder.conf").write_text(
            serviceconf.cinder(self._home, self._logs, self.environment_inside, self._layout.ceph_conf)
        )
        self._write_policy({})

    def show_in_catalogue(self, *names: str) -> None:
        """These services, whose users and endpoints are in Keystone's database already."""
        identity = self.connection.identity
        for service in list(identity.services()):
            if service.name in names:
                identity.update_service(service, is_enabled=True)
        self.close()  # it holds the catalogue that it began with

    def _wait_for_the_scheduler(self, timeout: float = 60) -> None:
        """Until it knows of the pool that volumes go to."""
        deadline = time.monotonic() + timeout
        while not list(self.connection.block_storage.backend_pools()):
            self._namespace.check_desired()
            if time.monotonic() > deadline:
                raise LabError(f"Cinder knows of no pool after {timeout:g} s: see {self._logs}/cinder.log")
            time.sleep(0.2)


_BYTECODE = shutil.ignore_patterns("__pycache__")


def _answers(url: str) -> bool:
    """Whether that is answered, with whatever below an error of the server's own."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=5)
    try:
        connection.request("GET", parts.path or "/")
        return connection.getresponse().status < 500
    except OSError:
        return False
    finally:
        connection.close()
