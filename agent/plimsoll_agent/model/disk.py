"""A guest and one of its RBD disks, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.marks import Mark, Marks
from plimsoll_agent.model.reason import Code, Reason, Unknown, because
from plimsoll_agent.util.frozen import frozen, replace

# libvirt's default for <host name='…'/> without a port: Ceph's msgr v1 port.
MONITOR_PORT = "6789"


@frozen(kw_only=True)
class Guest:
    """A running domain. The fields that Nova writes are None on a guest that Nova did not create."""

    uuid: str
    name: str
    run: str | None
    """libvirt's domain id: a new one at every start, until the node reboots.

    After a restart of libvirtd the highest ones of guests that have stopped are given again.
    """
    display_name: str | None = None
    project: str | None = None
    project_name: str | None = None
    user: str | None = None
    flavor: str | None = None
    extra_specs: Mapping[str, str] | None = field(default=None, hash=False)
    """Its flavor's; None if the definition lacks them (Nova before 2025.2)."""
    image: str | None = None
    boots_from_volume: bool = False
    other_groups: frozenset[str] = frozenset()
    """Throttle groups of its disks that are not on RBD."""
    filter_groups: frozenset[str] = frozenset()
    """Throttle groups that its definition has for throttle filters, whatever disks use them."""
    marks: Marks | Unknown | None = field(default=None, compare=False)
    """What plimsoll wrote into its metadata, on this node or on the one before; None without any."""

    other_disks: tuple[str, ...] = field(default=(), compare=False)
    """The targets of its disks that QEMU does not open on RBD."""

    kernel_mapped: tuple[str, ...] = field(default=(), compare=False)
    """Those of them that are on RBD all the same, as the kernel maps the image (``/dev/rbd0``)."""

    consoles: tuple[str, ...] = field(default=(), compare=False)
    """Files on this node to which its consoles are logged."""

    @property
    def by_nova(self) -> bool:
        """Whether Nova created it: then its definition has Nova's metadata."""
        return any((self.display_name, self.project, self.flavor))


def guest_of(key: str) -> str:
    """The uuid of the guest whose disk has this ``Disk.key``."""
    return key.partition("/")[0]


def filtered(filters: tuple[tuple[str, Limits | Unknown], ...]) -> Reason:
    """The groups of throttle filters, each with its limits; None where they are unknown."""
    groups = {name: limits.in_effect() if isinstance(limits, Limits) else None for name, limits in filters}
    return because(Code.THROTTLE_FILTERS, groups=groups)


@frozen(kw_only=True)
class DiskName:
    """The names of a disk and its guest at some time, for records and lists. ``key`` is ``Disk.key``."""

    key: str
    guest_uuid: str
    guest_name: str
    project: str | None
    target: str
    pool: str
    image: str
    volume_id: str | None

    def __post_init__(self) -> None:
        if guest_of(self.key) != self.guest_uuid:
            raise ValueError(f"{self.key!r} is not a disk of guest {self.guest_uuid}")

    def means(self, guest: str, disk: str | None) -> bool:
        """Whether these words name it: a guest (name or uuid) and a target or volume, or a volume's id alone."""
        if disk is None and guest == self.volume_id:
            return True
        return guest in (self.guest_name, self.guest_uuid) and disk in (None, self.target, self.volume_id)


@frozen(kw_only=True)
class Disk:
    """One RBD disk of a running guest."""

    guest: Guest
    target: str
    """Its name in the guest's definition (``vda``): for people and for libvirt's calls, never an identity."""
    pool: str
    image: str
    node: str
    """libvirt's index of the attachment: a new number for each attachment while the guest runs."""
    volume_id: str | None
    """Cinder's id, from the serial; None for a disk that is not a volume."""
    defined: Limits | Unknown
    """The limits in libvirt's live definition. Where ``actual`` differs, they were changed over QMP."""
    filters: tuple[tuple[str, Limits | Unknown], ...] = ()
    """Its throttle filters: each one's group and the limits of that. libvirt refuses to read or set other limits of
    such a disk; ``defined`` and ``actual`` are what the filters leave together."""
    namespace: str | None = None
    snapshot: str | None = None
    """The image's snapshot that it is; None for the image itself."""
    monitors: tuple[str, ...] = ()
    conf: str | None = None
    """The ceph.conf that QEMU reads for it; None for the default one, or none."""
    bus: str | None = None
    encrypted: bool = False
    alias: str | None = None
    root: bool = False
    """The guest's first disk, from which it boots."""
    shareable: bool = False
    """A multi-attached volume: several guests may have it at once."""
    volume_type: str | None = None
    """The name of its volume type; None if it has none or it is unknown."""
    cluster: str | None = None
    """Ceph's fsid; None if no Ceph configuration on this node names its monitors."""
    size: int | None = None
    """Its size in bytes, from libvirt; None if it was not read."""
    actual: Limits | Unknown | None = field(default=None)
    """QEMU's limits; None if they were not read. Of a disk that is reduced, those that it has without that."""
    reduced: Limits | None = None
    """QEMU's limits, where plimsoll has reduced them under congestion."""

    @property
    def path(self) -> str:
        """The image as Ceph names it: ``pool/image``, or ``pool/namespace/image``."""
        return "/".join(filter(None, (self.pool, self.namespace, self.image)))

    @property
    def key(self) -> str:
        """Identity across passes, whatever the target: the guest, and the volume or image."""
        return f"{self.guest.uuid}/{self.within_guest}"

    @property
    def within_guest(self) -> str:
        """Identity among the disks of its guest, on any node: the volume or the image, or a snapshot of it."""
        name = self.volume_id or self.path
        return f"{name}@{self.snapshot}" if self.snapshot else name

    @property
    def mark(self) -> Mark | None:
        """Its mark in its guest's metadata."""
        marks = self.guest.marks
        return marks.by_disk.get(self.within_guest) if isinstance(marks, Marks) else None

    @property
    def attachment(self) -> str:
        """Identity of the attachment: a new one after a restart, or a detach and attach."""
        return f"{self.guest.run}:{self.node}:{self.path}"

    @property
    def named(self) -> DiskName:
        guest = self.guest
        return DiskName(
            key=self.key,
            guest_uuid=guest.uuid,
            guest_name=guest.name,
            project=guest.project,
            target=self.target,
            pool=self.pool,
            image=self.image,
            volume_id=self.volume_id,
        )

    @property
    def behind_filters(self) -> Reason | None:
        """Why its limits are not set: its throttle filters; None without any."""
        return filtered(self.filters) if self.filters else None

    @property
    def in_force(self) -> Limits | Unknown | None:
        """QEMU's limits."""
        return self.actual if self.reduced is None else self.reduced

    @property
    def found(self) -> Disk:
        """The disk as it was observed, whatever plimsoll knows of its limits."""
        if self.reduced is None:
            return self
        return replace(self, actual=self.reduced, defined=self.reduced, reduced=None)

    @property
    def drifted(self) -> bool:
        """Whether QEMU's limits differ from those in libvirt's definition."""
        comparable = isinstance(self.actual, Limits) and isinstance(self.defined, Limits)
        return comparable and self.actual != self.defined
