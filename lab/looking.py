"""A disk by its guest and target, for tests that know it by these."""

from __future__ import annotations

from plimsoll_agent.model.disk import Disk, Guest
from plimsoll_agent.model.hypervisor import Hypervisor
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.util.frozen import replace


def disk_of(hypervisor: Hypervisor, uuid: str, target: str) -> Disk:
    """As libvirt defines it now."""
    return next(disk for disk in hypervisor.look(uuid).disks if disk.target == target)


def actual(hypervisor: Hypervisor, uuid: str, target: str) -> Limits:
    return hypervisor.actual(disk_of(hypervisor, uuid, target))


def put(hypervisor: Hypervisor, uuid: str, target: str, limits: Limits, *, alone: bool = False) -> None:
    hypervisor.set_limits(disk_of(hypervisor, uuid, target), limits, alone=alone)


def nobodys(disk: Disk, *, uuid: str | None = None, target: str | None = None) -> Disk:
    """The disk under a guest's uuid, or a letter, that is not there."""
    guest = Guest(uuid=uuid, name=disk.guest.name, run=disk.guest.run) if uuid else disk.guest
    return replace(disk, guest=guest, target=target or disk.target)
