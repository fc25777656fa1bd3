"""The one guest that really boots: fio and probes run in it."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

from . import accelerator, domain, image, recipe
from .command import LabError
from .disk import belonging_to, ephemeral, volume
from .domain import Boot, Flavor, Server
from .guest import Guest

if TYPE_CHECKING:
    from .cloud import Cloud

VOLUME_SIZE = 4 * 1024**3
# Twenty seconds under emulation, on a machine that does nothing else.
BOOT_DEADLINE = 600
# Where the volume is mounted inside the guest.
MOUNT_POINT = "/mnt/volume"


class BootedGuest:
    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._home = cloud.layout.root / "guest"
        self._record = self._home / "record.json"

    def make(self) -> str:
        built = image.ensure(self._cloud.layout.cache, self._cloud.say)
        self._home.mkdir(exist_ok=True)
        for file in (built.kernel, built.initrd):
            # The cache is hidden inside the namespace, and may be made anew while the guest runs.
            _link_or_copy(file, self._home / file.name)
        self._import(built.root)
        kvm = accelerator.kvm_boots(built, self._cloud.layout.cache)
        self._boot(kvm)
        return f"booted with {'KVM' if kvm else 'emulation'}, its agent answers"

    def running(self) -> Guest | None:
        try:
            record = json.loads(self._record.read_text())
            guest = Guest(self._cloud, record["name"], record["uuid"])
            return guest if guest.domain().isActive() else None
        except (FileNotFoundError, LabError):
            return None

    def heal(self) -> None:
        """Boot another one if the guest is gone."""
        guest = self.running()
        if guest is None:
            self._boot(json.loads(self._record.read_text())["kvm"])
        else:
            guest.wait_for_agent(BOOT_DEADLINE)

    def _import(self, root: Path) -> None:
        """As Glance keeps it and Nova uses it: an image with a protected snapshot, cloned for each guest."""
        self._cloud.ceph.rbd("import", root, f"images/{domain.IMAGE}", timeout=300)
        self._cloud.ceph.batch([{"protect": ["images", domain.IMAGE, "snap"]}])

    def another(self) -> Guest:
        """One more like it, for whoever asked: he ends it too."""
        guest = self._start(json.loads(self._record.read_text())["kvm"])
        _prepare_volume(guest)
        return guest

    def _boot(self, kvm: bool) -> None:
        guest = self._start(kvm)
        _prepare_volume(guest)
        self._record.write_text(json.dumps({"name": guest.name, "uuid": guest.uuid, "kvm": kvm}))

    def _start(self, kvm: bool) -> Guest:
        name, guest_uuid = self._cloud.next_name(), str(uuid.uuid4())
        server = Server("booted", Flavor(memory=512))
        own = belonging_to(guest_uuid, ephemeral(recipe.SIZE))
        cinders = volume(VOLUME_SIZE)
        self._cloud.ceph.batch(
            [
                {"clone": ["images", domain.IMAGE, "snap", own.image.pool, own.image.image]},
                {"create": [cinders.image.pool, cinders.image.image, cinders.size]},
            ]
        )
        boot = Boot(
            self._home / "vmlinuz",
            self._home / "initrd",
            recipe.KERNEL_ARGUMENTS if kvm else recipe.EMULATED,
            self._cloud.layout.logs / f"{name}.console",
            kvm,
        )
        guest = self._cloud.start_guest(name, guest_uuid, server, [own, cinders], boot)
        try:
            guest.wait_for_agent(BOOT_DEADLINE)
        except LabError as error:
            raise LabError(f"{error}; its console ends with: {_last_line(boot.console)}") from None
        return guest


def _last_line(console: Path) -> str:
    """The file goes with the cloud."""
    try:
        lines = console.read_text(errors="replace").splitlines()
    except OSError:
        return "nothing"
    return next((line.strip() for line in reversed(lines) if line.strip()), "nothing")


def _prepare_volume(guest: Guest) -> None:
    """A file system on the volume, as a tenant makes one."""
    for command in (
        # Written out at once and small: the kernel would fill lazy tables during the measurements.
        "mke2fs -q -t ext4 -m 0 -N 1024 -E lazy_itable_init=0,nodiscard /dev/vdb",
        f"mkdir -p {MOUNT_POINT}",
        f"mount -o noatime /dev/vdb {MOUNT_POINT}",
    ):
        done = guest.exec(command.split())
        if done.exit_code:
            raise LabError(f"{guest.name}: {command}: {done.err.strip()}")


def _link_or_copy(source: Path, to: Path) -> None:
    to.unlink(missing_ok=True)
    try:
        os.link(source, to)
    except OSError:
        shutil.copyfile(source, to)
