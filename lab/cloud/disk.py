"""Disks as a test asks for them, and as Nova writes them for libvirt."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal
from xml.sax.saxutils import quoteattr

from . import ports
from .libvirtd import SECRET

GIB = 1024**3

Bus = Literal["virtio", "scsi"]


@dataclass(frozen=True)
class Image:
    """What a disk is made of: an RBD image, and the Cinder volume that it belongs to, if to any."""

    pool: str
    image: str
    volume_id: str | None


@dataclass(frozen=True)
class Disk:
    image: Image
    size: int
    bus: Bus = "virtio"
    # Limits that the disk is attached with, in libvirt's names.
    iotune: tuple[tuple[str, int], ...] = ()


def volume(
    size: int = GIB,
    bus: Bus = "virtio",
    serial: str | None = None,
    *,
    image: str | None = None,
    pool: str = "volumes",
    iotune: dict[str, int] | None = None,
) -> Disk:
    """A Cinder volume. Its image may bear another id than its serial, as it does after a volume migration."""
    volume_id = serial or str(uuid.uuid4())
    return Disk(Image(pool, image or f"volume-{volume_id}", volume_id), size, bus, tuple((iotune or {}).items()))


def ephemeral(
    size: int = GIB,
    bus: Bus = "virtio",
    *,
    suffix: str = "disk",
    pool: str = "vms",
    iotune: dict[str, int] | None = None,
) -> Disk:
    """A disk of the guest's own; `suffix` may be `disk.local`, `disk.eph0`, `disk.swap` and so on."""
    return Disk(Image(pool, f"{{uuid}}_{suffix}", None), size, bus, tuple((iotune or {}).items()))


def belonging_to(guest_uuid: str, disk: Disk) -> Disk:
    """The disk with its image named after the guest, where that is how images are named."""
    image = replace(disk.image, image=disk.image.image.replace("{uuid}", guest_uuid))
    return replace(disk, image=image)


def targets(disks: Sequence[Disk], taken: set[str] | None = None) -> list[str]:
    """vda, vdb, sda ... in order, one for each disk."""
    used = set(taken or ())
    chosen = []
    for disk in disks:
        prefix = "vd" if disk.bus == "virtio" else "sd"
        target = next(prefix + letter for letter in "abcdefghijklmnopqrstuvwxyz" if prefix + letter not in used)
        used.add(target)
        chosen.append(target)
    return chosen


def xml(disk: Disk, target: str) -> str:
    image = disk.image
    iotune = "".join(f"<{name}>{value}</{name}>" for name, value in disk.iotune)
    serial = f"<serial>{image.volume_id}</serial>" if image.volume_id else ""
    alias = f"<alias name='ua-{image.volume_id}'/>" if image.volume_id else ""
    return f"""\
<disk type='network' device='disk'>
  <driver name='qemu' type='raw' cache='writeback' discard='unmap'/>
  <auth username='cinder'>
    <secret type='ceph' uuid='{SECRET}'/>
  </auth>
  <source protocol='rbd' name={quoteattr(f"{image.pool}/{image.image}")}>
    <host name='127.0.0.1' port='{ports.MONITOR_V1}'/>
  </source>
  <target dev='{target}' bus='{disk.bus}'/>
  {f"<iotune>{iotune}</iotune>" if iotune else ""}
  {serial}
  {alias}
</disk>"""
