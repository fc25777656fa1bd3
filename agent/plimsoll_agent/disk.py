"""A guest and one of its RBD disks, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from plimsoll_agent.limits import Limits
from plimsoll_agent.marks import Mark, Marks
from plimsoll_agent.reason import Unknown

# libvirt's default for <host name='…'/> without a port: Ceph's msgr v1 port.
MONITOR_PORT = "6789"


@dataclass(frozen=True, slots=True)
class Guest:
    """A running domain. What Nova wrote about it is None on a guest that Nova did not make."""

    uuid: str
    name: str
    run: str | None
    """libvirt's domain id: another one after every start, as long as the node itself runs."""
    display_name: str | None = None
    project: str | None = None
    project_name: str | None = None
    user: str | None = None
    flavor: str | None = None
    extra_specs: Mapping[str, str] | None = field(default=None, hash=False)
    """Its flavor's; None where the definition does not have them (Nova before 2025.2)."""
    image: str | None = None
    boots_from_volume: bool = False
    other_groups: frozenset[str] = frozenset()
    """Throttle groups of its disks that are not on RBD, which plimsoll knows nothing else of."""
    marks: Marks | Unknown | None = field(default=None, compare=False)
    """What plimsoll wrote there, on this node or on the one that the guest came from; None without any."""

    @property
    def by_nova(self) -> bool:
        """Whether Nova made it: then it has written so into the definition."""
        return any((self.display_name, self.project, self.flavor))


def guest_of(key: str) -> str:
    """The uuid of the guest whose disk has this ``Disk.key``."""
    return key.partition("/")[0]


@dataclass(frozen=True, slots=True)
class DiskName:
    """A disk, and what it and its guest are called at some time: for records and lists. ``key`` is ``Disk.key``."""

    key: str
    guest_uuid: str
    guest_name: str
    project: str | None
    target: str
    pool: str
    image: str
    volume_id: str | None

    @classmethod
    def read(cls, values: Mapping[str, object]) -> DiskName:
        """Out of what was stored. Raises ``KeyError``, and ``ValueError`` for what is no name of a disk."""
        named = {field.name: values[field.name] for field in fields(cls)}
        for part, value in named.items():
            if not isinstance(value, str) and not (value is None and part in ("project", "volume_id")):
                raise ValueError(f"{part} is no text")
        disk = cls(**named)  # type: ignore[arg-type]  # text, as was just seen
        if guest_of(disk.key) != disk.guest_uuid:
            raise ValueError(f"{disk.key!r} is no disk of guest {disk.guest_uuid}")
        return disk

    def means(self, guest: str, disk: str | None) -> bool:
        """Whether a person means it: by guest (name or uuid) and target or volume, or by the volume's id alone."""
        if disk is None and guest == self.volume_id:
            return True
        return guest in (self.guest_name, self.guest_uuid) and disk in (None, self.target, self.volume_id)


@dataclass(frozen=True, slots=True)
class Disk:
    """One RBD disk of a running guest."""

    guest: Guest
    target: str
    """What the guest's definition calls it (``vda``): for people and for libvirt's calls, never an identity."""
    pool: str
    image: str
    node: str
    """libvirt's index of the attachment: another number whenever something is attached anew in one run."""
    volume_id: str | None
    """Cinder's id, from the serial; None for a disk of the guest's own."""
    defined: Limits | Unknown
    """What libvirt's live definition says. QEMU's word is ``in_force``; where they differ, someone went behind."""
    namespace: str | None = None
    monitors: tuple[str, ...] = ()
    bus: str | None = None
    encrypted: bool = False
    alias: str | None = None
    root: bool = False
    """The first of the guest's disks, from which it boots."""
    shareable: bool = False
    """A multi-attached volume: several guests may have it at once."""
    volume_type: str | None = None
    """The name of its volume type; None where it has none, or nobody has said."""
    cluster: str | None = None
    """Ceph's fsid; None where no configuration of Ceph on this node names its monitors."""
    size: int | None = None
    """Present size in bytes as libvirt tells it; None where it was not asked."""
    in_force: Limits | Unknown | None = field(default=None)
    """What QEMU has in force; None where it was not asked."""

    @property
    def path(self) -> str:
        """The image as Ceph names it: ``pool/image``, or ``pool/namespace/image``."""
        return "/".join(filter(None, (self.pool, self.namespace, self.image)))

    @property
    def key(self) -> str:
        """Identity across passes and letters: the guest, and the volume or image."""
        return f"{self.guest.uuid}/{self.within_guest}"

    @property
    def within_guest(self) -> str:
        """Identity among the disks of its guest, on whatever node: the volume or the image."""
        return self.volume_id or self.path

    @property
    def mark(self) -> Mark | None:
        """What plimsoll wrote about it into its guest's metadata."""
        marks = self.guest.marks
        return marks.by_disk.get(self.within_guest) if isinstance(marks, Marks) else None

    @property
    def attachment(self) -> str:
        """Identity of this very attachment: another one after a restart, or a detach and attach."""
        return f"{self.guest.run}:{self.node}:{self.path}"

    @property
    def named(self) -> DiskName:
        guest = self.guest
        return DiskName(
            self.key, guest.uuid, guest.name, guest.project, self.target, self.pool, self.image, self.volume_id
        )

    @property
    def drifted(self) -> bool:
        """True when QEMU has other limits in force than libvirt believes."""
        known = isinstance(self.in_force, Limits) and isinstance(self.defined, Limits)
        return known and self.in_force != self.defined
