"""The cloud's own libvirtd, which no other program on the machine knows of."""

from __future__ import annotations

import base64
import importlib
import socket
import uuid
from pathlib import Path
from typing import Any

from .command import LabError
from .daemon import Daemon
from .layout import Layout
from .namespace import Namespace
from .release import program

SECRET = "457eb676-33da-42ec-9a8c-9293d545c337"

# Of no name, as when libvirtd runs in a container: the host knows its group by the number alone.
SOCKET_GROUP = 64056

LIBVIRTD_CONF = f"""\
auth_unix_ro = "none"
auth_unix_rw = "none"
unix_sock_group = "+{SOCKET_GROUP}"
unix_sock_rw_perms = "0770"
unix_sock_ro_perms = "0700"
log_filters = "3:qemu 3:util"
log_outputs = "3:file:/var/log/libvirt/libvirtd.log"
"""

QEMU_CONF = """\
user = "root"
group = "root"
dynamic_ownership = 0
remember_owner = 0
security_driver = "none"
namespaces = []
cgroup_controllers = []
# Else virtlogd would have to run as well.
stdio_handler = "file"
max_core = 0
"""

SECRET_XML = f"""\
<secret ephemeral='no' private='no'>
  <uuid>{SECRET}</uuid>
  <usage type='ceph'><name>client.cinder secret</name></usage>
</secret>
"""


# What two on one machine must not share.
DIRECTORIES = ("etc/libvirt", "run/libvirt", "var/lib/libvirt", "var/cache/libvirt", "var/log/libvirt")


class Libvirt:
    """The cloud's, or with ``beside`` one more of that name, which knows nothing of the first one's guests.

    Its directories lie below ``home`` as below the root of a machine of its own.
    """

    def __init__(
        self, layout: Layout, namespace: Namespace, beside: str | None = None, hostname: str | None = None
    ) -> None:
        """With ``hostname`` it takes its host to be called so: Nova tells its nodes apart by that."""
        self._root = layout.root
        self.home = layout.root / beside if beside else layout.root
        self._shared: Any = None
        name = f"libvirtd-{beside}" if beside else "libvirtd"
        argv = ["/usr/sbin/libvirtd"]
        if beside:
            binds = " && ".join(f"mount --bind {self.home}/{place} /{place}" for place in DIRECTORIES)
            command = f"{binds} && exec /usr/sbin/libvirtd --pid-file {self.home}/libvirtd.pid"
            argv = ["unshare", "--mount", "sh", "-c", command]
            if hostname:
                argv = ["unshare", "--mount", "--uts", "sh", "-c", f"hostname {hostname} && {command}"]
        log = self.home / "var/log/libvirt/libvirtd.out"
        self.daemon = Daemon(namespace, name, program(argv, layout.cache_inside), log, self._serves)

    @property
    def uri(self) -> str:
        return f"qemu+unix:///system?socket={self._socket}"

    @property
    def _socket(self) -> Path:
        return self.home / "run/libvirt/libvirt-sock"

    def make(self, cinder_key: str) -> None:
        """The cinder key becomes the secret that disks name in <auth>."""
        for directory in DIRECTORIES:
            for above in (self._root, self.home):  # the first one's are where the others' are mounted
                (above / directory).mkdir(parents=True, exist_ok=True)
        etc = self.home / "etc/libvirt"
        # Guests migrate only to a host with another id.
        host = f'host_uuid = "{uuid.uuid4()}"\n'
        (etc / "libvirtd.conf").write_text(LIBVIRTD_CONF + host)
        (etc / "qemu.conf").write_text(QEMU_CONF)
        self.daemon.start()
        connection = self.connect()
        try:
            secret = connection.secretDefineXML(SECRET_XML, 0)
            secret.setValue(base64.b64decode(cinder_key), 0)
        finally:
            connection.close()

    def shared(self) -> Any:
        """One connection for all handles of this program; a new one when libvirtd was restarted."""
        if self._shared is not None:
            try:
                self._shared.getLibVersion()
                return self._shared
            except bindings().libvirtError:
                self.close()
        self._shared = self.connect()
        return self._shared

    def close(self) -> None:
        if self._shared is None:
            return
        try:
            self._shared.close()
        except bindings().libvirtError:
            pass  # the other end is gone, which is what we desired
        self._shared = None

    def connect(self) -> Any:
        """A new libvirt.virConnect; the caller closes it."""
        libvirt = bindings()
        try:
            return libvirt.open(self.uri)
        except libvirt.libvirtError as error:
            raise LabError(f"libvirtd: {error}") from None

    def _serves(self) -> bool:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as attempt:
            try:
                attempt.connect(str(self._socket))
            except OSError:
                return False
        # Waits inside libvirtd until its drivers are up.
        self.connect().close()
        return True


def bindings() -> Any:
    """The libvirt module, silent on stderr: its errors are raised anyway."""
    try:
        libvirt: Any = importlib.import_module("libvirt")
    except ImportError:
        raise LabError("this Python lacks libvirt: pip install libvirt-python") from None
    libvirt.registerErrorHandler(lambda *_: None, None)
    return libvirt


def qemu_bindings() -> Any:
    return importlib.import_module("libvirt_qemu")
