"""The small real cloud: Ceph, libvirtd and guests, in one namespace and below one directory."""

from __future__ import annotations

import shutil
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

from . import (
    disk,
    domain,
    etcd,
    fleet,
    image,
    keep,
    nagios,
    nova,
    openstack,
    ports,
    preflight,
    progress,
    prometheus,
    release,
)
from .attachment import Attachment
from .booted import BOOT_DEADLINE, BootedGuest
from .ceph import Ceph
from .command import LabError
from .daemon import Daemon, process_state
from .disk import Disk, belonging_to, targets
from .domain import Server
from .etcd import Etcd
from .fleet import Fleet
from .guest import Guest
from .layout import Layout
from .libvirtd import Libvirt, bindings
from .nagios import Nagios
from .namespace import Namespace
from .nova import Nova
from .openstack import OpenStack
from .progress import PARTS
from .prometheus import Prometheus

Say = Callable[[str], None]


class Cloud:
    """Nothing happens before `up`. Several programs may hold one: all state is on disk and in the daemons.

    ``aside``: its guests are on the second libvirtd, so that passes over all guests of the first one never meet them.
    """

    def __init__(self, root: Path | str | None = None, say: Say = print, aside: bool = False) -> None:
        self.layout = Layout.from_environment(root)
        self.namespace = Namespace(self.layout)
        self.ceph = Ceph(self.layout, self.namespace)
        self._libvirts_part = "libvirt2" if aside else "libvirt"
        self.libvirt = Libvirt(self.layout, self.namespace, beside="second" if aside else None)
        self.openstack = OpenStack(self.layout, self.namespace)
        self.nova = Nova(self.layout, self.namespace, self.openstack)
        self.etcd = Etcd(self.layout, self.namespace)
        self.prometheus = Prometheus(self.layout, self.namespace)
        self.nagios = Nagios(self.layout, self.namespace)
        self.fleet = Fleet(self.layout, self.namespace)
        self._say = say
        self._saying = threading.Lock()

    def say(self, line: str) -> None:
        """Parts come up side by side, and each has its words."""
        with self._saying:
            self._say(line)

    @property
    def libvirt_uri(self) -> str:
        return self.libvirt.uri

    @property
    def libvirtd(self) -> Daemon:
        return self.libvirt.daemon

    def connect(self) -> Any:
        """A new libvirt.virConnect; the caller closes it."""
        return self.libvirt.connect()

    # --- up and down

    def up(self, parts: Sequence[str] = ("ceph", "libvirt")) -> None:
        """Start what is not up; what is up but was stopped or killed runs again afterwards.

        Several programs may do so at once: each part is made by one of them, and the others wait for that part only.
        """
        preflight.check_root()
        self.layout.check()
        self.namespace.given_up.clear()
        chosen = progress.with_what_they_need(self._own(part) for part in parts)
        if self._own("libvirt") != "libvirt" and "libvirt" in chosen:
            raise LabError(f"of {', '.join(parts)} some have to do with the first libvirtd")
        preflight.check_packages(*self._packages(chosen))
        release.ensure(self.layout.cache, self.say)
        bindings()
        while True:
            with self.layout.locked(self.say, shared=True):
                if self._is_sound(chosen):
                    release.check(self.layout)
                    self._bring_up(chosen)
                    return
            with self.layout.locked(self.say):
                if not self._is_sound(chosen):
                    self._start_afresh()

    def _own(self, part: str) -> str:
        return self._libvirts_part if part == "libvirt" else part

    def _is_sound(self, parts: Sequence[str]) -> bool:
        return self.namespace.supervisor_pid() is not None and not progress.half_made(self.layout, parts)

    def _packages(self, parts: Sequence[str]) -> list[dict[str, str]]:
        """What these parts need beside Ceph, libvirt and QEMU."""
        needed = []
        if "guest" in parts and image.cached(self.layout.cache) is None:
            needed.append(preflight.FOR_THE_IMAGE)
        if "openstack" in parts:
            needed.append(preflight.FOR_OPENSTACK)
        if "nova" in parts:
            needed.append(preflight.FOR_NOVA)
        if "etcd" in parts:
            needed.append(preflight.FOR_ETCD)
        if "prometheus" in parts:
            needed.append(preflight.FOR_PROMETHEUS)
        if "nagios" in parts:
            needed.append(preflight.FOR_NAGIOS)
        if "fleet" in parts:
            needed.append(preflight.FOR_FLEET)
        return needed

    def down(self) -> None:
        """End everything and remove it, however it was left. What is cached stays."""
        preflight.check_root()
        self.layout.check()
        keep.tidy(self.layout.cache)
        if not self.layout.root.exists():
            return
        with self.layout.locked(self.say):
            self._wipe()
            self.openstack.close()
            self.nova.libvirt.close()
            self.libvirt.close()  # not before: a libvirtd that was stopped would never answer the farewell
            self.layout.lock.unlink()
            self.layout.root.rmdir()

    def status(self) -> dict[str, Any]:
        preflight.check_root()
        daemons = {name: (pid, process_state(pid)) for name, pid in self.namespace.daemons().items()}
        running = self.namespace.supervisor_pid() is not None
        # A libvirtd that is stopped would never answer.
        askable = daemons.get("libvirtd", (0, "gone"))[1] == "running"
        return {
            "root": str(self.layout.root),
            "parts": {part: progress.state(self.layout, part) if running else "down" for part in PARTS},
            "daemons": {name: {"pid": pid, "state": state} for name, (pid, state) in daemons.items()},
            "guests": [guest.name for guest in self.guests()] if askable else [],
            "libvirt_uri": self.libvirt_uri,
            "ceph_conf": str(self.ceph.conf),
        }

    def _start_afresh(self) -> None:
        self._wipe()
        preflight.check_space(self.layout)
        preflight.check_ports()
        release.write(self.layout)
        self.namespace.start()

    def _wipe(self) -> None:
        self.fleet.hang_up()
        self.namespace.kill()
        fleet.sweep(self.layout)
        for entry in self.layout.root.iterdir():
            if entry == self.layout.lock:
                continue
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()

    def _bring_up(self, parts: Sequence[str]) -> None:
        """Side by side, as far as they do not stand on each other. Raises what was raised first."""
        with ThreadPoolExecutor(len(parts)) as pool:
            jobs: dict[str, Future[None]] = {}
            for part in parts:
                jobs[part] = pool.submit(self._bring_up_one, part, jobs)
            try:
                wait(jobs.values())
            except BaseException:
                self.namespace.given_up.set()
                raise
        for job in jobs.values():
            job.result()

    def _bring_up_one(self, part: str, jobs: Mapping[str, Future[None]]) -> None:
        """``jobs`` has those of the parts that this one stands on."""

        def stand_on(*needs: str) -> None:
            for need in needs:
                jobs[need].result()

        makers: dict[str, tuple[Callable[[], str], Callable[[], object]]] = {
            "ceph": (self._make_ceph, self.ceph.heal),
            "libvirt": (self._make_libvirt, self.libvirt.daemon.heal),
            "libvirt2": (self._make_libvirt, self.libvirt.daemon.heal),
            "guest": (self._booted.make, self._booted.heal),
            "openstack": (lambda: self._make_openstack(stand_on), self.openstack.heal),
            "nova": (lambda: self._make_nova(jobs), self.nova.heal),
            "etcd": (self._make_etcd, self.etcd.daemon.heal),
            "prometheus": (self._make_prometheus, self.prometheus.heal),
            "nagios": (self._make_nagios, self.nagios.heal),
            "fleet": (self._make_fleet, self.fleet.heal),
        }
        make, heal = makers[part]
        if part not in ("openstack", "nova"):  # these wait when they get there
            stand_on(*progress.NEEDS[part])
        with progress.locked(self.layout, part):
            if progress.state(self.layout, part) == "up":
                stand_on(*progress.NEEDS[part])
                heal()
                return
            started = time.monotonic()
            progress.set_state(self.layout, part, "begun")
            what = make()
            progress.set_state(self.layout, part, "up")
        self.say(f"{part}: {what} in {time.monotonic() - started:.0f} s")

    def _make_ceph(self) -> str:
        self.ceph.make()
        self.ceph.wait_healthy(steady=0)
        return "monitor, manager, 3 OSDs up"

    def _make_libvirt(self) -> str:
        self.libvirt.make(self.ceph.key("client.cinder"))
        return "libvirtd up"

    def _make_openstack(self, stand_on: Callable[..., None]) -> str:
        preflight.check_ports(openstack.PORTS)
        self.openstack.make(self.say, lambda: stand_on("ceph"))
        return "Keystone and Cinder up"

    def _make_nova(self, jobs: Mapping[str, Future[None]]) -> str:
        preflight.check_ports(nova.PORTS)

        def cinder_key() -> str:
            jobs["ceph"].result()
            return self.ceph.key("client.cinder")

        def keystone() -> None:
            while not (jobs["openstack"].done() or self.openstack.keystone.serves()):
                time.sleep(0.1)

        self.nova.make(self.say, cinder_key, keystone, jobs["openstack"].result)
        return "Nova with one compute node up"

    def _make_etcd(self) -> str:
        preflight.check_ports(etcd.PORTS)
        self.etcd.make()
        return "etcd up"

    def _make_prometheus(self) -> str:
        preflight.check_ports(prometheus.PORTS)
        self.prometheus.make()
        return "Prometheus, Alertmanager, a webhook and two nodes' exporters up"

    def _make_nagios(self) -> str:
        preflight.check_ports(nagios.PORTS)
        self.nagios.make()
        return "Nagios and NRPE up"

    def _make_fleet(self) -> str:
        preflight.check_device(ports.FLEET_LINK)
        self.fleet.make()
        return "six hosts in two regions up"

    # --- guests

    def booted_guest(self) -> Guest:
        """The cloud's one guest with a system inside, booted when first asked for.

        vda is its own disk; vdb is a Cinder volume with a file system, mounted at booted.MOUNT_POINT.
        """
        guest = self._booted.running()
        if guest is None:
            self.up(["guest"])
            guest = self._booted.running()
        if guest is None:
            raise LabError("the booted guest went away")
        if guest.domain().state()[0] == bindings().VIR_DOMAIN_PAUSED:
            guest.domain().resume()
            guest.wait_for_agent(BOOT_DEADLINE)
        return guest

    def suspend_booted_guest(self) -> None:
        """Until it is asked for again: under emulation it costs a third of a core while it does nothing.

        Raises LabError.
        """
        try:
            guest = self._booted.running()
            if guest is not None:
                guest.domain().suspend()
        except bindings().libvirtError as error:
            raise LabError(f"the booted guest cannot be suspended: {error}") from None

    def another_booted_guest(self) -> Guest:
        """One more like the first; the caller destroys it."""
        self.booted_guest()
        return self._booted.another()

    @property
    def _booted(self) -> BootedGuest:
        return BootedGuest(self)

    def paused_guest(self, disks: Sequence[Disk] = (), server: Server | None = None) -> Guest:
        return self.paused_guests([disks], server)[0]

    def paused_guests(self, disks_of_each: Sequence[Sequence[Disk]], server: Server | None = None) -> list[Guest]:
        """As many guests as there are lists of disks: 8 MiB each, started paused, never run."""
        if self.namespace.supervisor_pid() is None or progress.state(self.layout, self._libvirts_part) != "up":
            self.up()
        planned = []
        for disks in disks_of_each:
            guest_uuid = str(uuid.uuid4())
            planned.append((guest_uuid, [belonging_to(guest_uuid, one) for one in disks]))
        self.ceph.batch(
            [{"create": [one.image.pool, one.image.image, one.size]} for _, disks in planned for one in disks]
        )
        paused = bindings().VIR_DOMAIN_START_PAUSED
        return [
            self.start_guest(self.next_name(), guest_uuid, server or Server(), disks, flags=paused)
            for guest_uuid, disks in planned
        ]

    def start_guest(
        self,
        name: str,
        guest_uuid: str,
        server: Server,
        disks: Sequence[Disk],
        boot: domain.Boot | None = None,
        flags: int = 0,
    ) -> Guest:
        """Defined and started, as Nova does it; the disks' images must exist."""
        attached = list(zip(disks, targets(disks), strict=True))
        text = domain.xml(name, guest_uuid, server, attached, boot)
        guest = Guest(self, name, guest_uuid)
        try:
            self.libvirt.shared().defineXML(text).createWithFlags(flags)
        except bindings().libvirtError as error:
            guest.undefine()
            raise LabError(f"{name}: {error}") from None
        return guest

    def guests(self) -> list[Guest]:
        """All that libvirtd knows of, running or not."""
        return [Guest(self, one.name(), one.UUIDString()) for one in self.libvirt.shared().listAllDomains()]

    def destroy_guests(self, guests: Iterable[Guest]) -> None:
        """End them and remove their images, except for those of Cinder's volumes."""
        images = [image for guest in guests for image in guest.undefine() if not self.openstack.owns(image.volume_id)]
        self.ceph.batch([{"remove": [image.pool, image.image]} for image in images])

    # --- Cinder's volumes on these guests

    def attach_volume(self, guest: Guest, volume_id: str) -> Attachment:
        """As Nova does it: Cinder's attachment first, then the disk with what Cinder handed out, limits too."""
        target = guest.free_target(disk.volume())
        attachment = self.openstack.attach(volume_id, guest.uuid, target)
        guest.plug(attachment.disk(), target)
        self.openstack.complete(attachment)
        return attachment

    def extend_volume(self, guest: Guest, attachment: Attachment, size_gib: int) -> None:
        """Cinder's volume, and then the disk of the guest."""
        self.openstack.extend(attachment.volume_id, size_gib)
        in_bytes = 1  # VIR_DOMAIN_BLOCK_RESIZE_BYTES
        guest.domain().blockResize(attachment.target, size_gib * disk.GIB, in_bytes)

    def detach_volume(self, guest: Guest, attachment: Attachment) -> None:
        """Not from a paused guest, which never lets go: destroy that, and have Cinder detach."""
        guest.detach(attachment.target, plugged=True)
        self.openstack.detach(attachment)

    def next_name(self) -> str:
        """instance-00000001 and so on: a number is never given twice."""
        numbers = self.layout.root / "instances"
        numbers.mkdir(exist_ok=True)
        number = sum(1 for _ in numbers.iterdir()) + 1
        while True:
            name = f"instance-{number:08x}"
            try:
                (numbers / name).touch(exist_ok=False)
            except FileExistsError:
                number += 1
                continue
            return name
