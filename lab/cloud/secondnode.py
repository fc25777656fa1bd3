"""One more compute node of the cloud's Nova, beside the first, for migrations: while a test needs it."""

from __future__ import annotations

import time

from . import novaconf
from .command import LabError
from .layout import Layout
from .libvirtd import Libvirt
from .namespace import Namespace
from .nova import Nova


class SecondNode:
    """Its guests are not those of the first; both have their disks in the same Ceph."""

    host = f"{novaconf.HOST}2"

    def __init__(self, layout: Layout, namespace: Namespace, nova: Nova) -> None:
        self.libvirt = Libvirt(layout, namespace, beside="nova2", hostname=self.host)
        self._nova = nova
        self._home = self.libvirt.home
        self.compute = nova.service("compute", "nova-compute2", self._home)

    def make(self, cinder_key: str, timeout: float = 60) -> None:
        """Returns when guests can be migrated to it."""
        (self._home / "state/instances").mkdir(parents=True, exist_ok=True)
        self.libvirt.make(cinder_key)
        (self._home / "nova.conf").write_text(self._nova.compute_conf(self._home, self.libvirt.uri, number=2))
        self.compute.start()
        self._schedule(on=True)
        deadline = time.monotonic() + timeout
        compute = self._nova.openstack.connection.compute
        while not any(node.name == self.host and node.state == "up" for node in compute.hypervisors(details=True)):
            if not self.compute.running or time.monotonic() > deadline:
                raise LabError(f"{self.host} does not come up: see nova-compute2.log")
            time.sleep(0.2)

    def end(self) -> None:
        """Its guests must be gone; nothing is scheduled to it from then on."""
        self._schedule(on=False)
        self.compute.kill()
        self.libvirt.close()
        self.libvirt.daemon.kill()

    def _schedule(self, *, on: bool) -> None:
        compute = self._nova.openstack.connection.compute
        for service in compute.services(host=self.host, binary="nova-compute"):
            (compute.enable_service if on else compute.disable_service)(service)
