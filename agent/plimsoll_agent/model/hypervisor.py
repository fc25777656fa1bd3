"""The hypervisor as a protocol: what a pass calls, and the values that come back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Protocol

from plimsoll_agent.errors import PlimsollError
from plimsoll_agent.model.disk import Disk, Guest
from plimsoll_agent.model.limits import Limits, LimitsError
from plimsoll_agent.model.marks import Marks
from plimsoll_agent.util.decoding import Count
from plimsoll_agent.util.frozen import astuple, frozen, of_tuple


class Movement(StrEnum):
    """Whether a guest is being migrated; such a guest is left to the daemon on the target node."""

    STAYS = "stays"
    LEAVING = "leaving"
    ARRIVING = "arriving"


@frozen
class GuestRef:
    """A running guest in the list of guests."""

    uuid: str
    name: str


@frozen(kw_only=True)
class Sighting:
    """A guest's RBD disks from its live definition, and whether it is migrating."""

    guest: Guest
    disks: tuple[Disk, ...]
    movement: Movement = Movement.STAYS
    paused: bool = False
    """Whether a person has paused it: by libvirt's reason, so not for an I/O error or a migration."""


@frozen(kw_only=True)
class Survey:
    """A guest's RBD disks, and by target the actual limits of each, or why they are unknown.

    ``actual`` of a migrating guest is empty: its QEMU is not asked. Where ``movement`` is unknown it is ``STAYS``,
    and all of ``actual`` is unknown.
    """

    disks: tuple[Disk, ...]
    movement: Movement
    actual: Mapping[str, Limits | PlimsollError | LimitsError]
    other_disks: tuple[str, ...] = ()
    """As in ``Guest``."""
    kernel_mapped: tuple[str, ...] = ()
    """As in ``Guest``."""
    paused: bool = False
    """As in ``Sighting``."""


@frozen(array_like=True, kw_only=True)
class BlockStats:
    """Counters of a disk since its guest started."""

    read_requests: Count
    read_bytes: Count
    write_requests: Count
    write_bytes: Count
    nanoseconds: Count | None = None
    """What these requests and flushes took, all added; requests wait at their limit too. None is unknown.

    With a cache (Nova's ``disk_cachemodes``) a write is there at once, and it is the flush that waits for Ceph.
    """
    flushes: Count | None = None
    """None is unknown."""

    def since(self, before: BlockStats) -> BlockStats | None:
        """What was done since then; None if one counter is lower: the guest was restarted."""
        pairs = zip(astuple(self), astuple(before), strict=True)
        work = [None if now is None or then is None else now - then for now, then in pairs]
        if any(each is not None and each < 0 for each in work):
            return None
        return of_tuple(BlockStats, work)


@frozen
class Versions:
    """The versions of libvirt and of the QEMU that it starts, as libvirt's numbers: 9000000 is 9.0.0.

    libvirt does not tell the QEMU of a guest that was started before an upgrade.
    """

    libvirt: Count
    qemu: Count

    def __str__(self) -> str:
        return f"libvirt {_dotted(self.libvirt)} and QEMU {_dotted(self.qemu)}"


def _dotted(number: int) -> str:
    return f"{number // 1_000_000}.{number // 1000 % 1000}.{number % 1000}"


class Hypervisor(Protocol):
    """The calls, each with its deadline.

    They raise ``Unreachable`` if there is no connection, ``NotFound`` for a guest or disk that is gone, ``Rejected``
    for an error, and ``DeadlineExceeded`` after the deadline: then the call may still take effect later.
    """

    def versions(self) -> Versions: ...

    def guests(self) -> Sequence[GuestRef]: ...

    def look(self, uuid: str) -> Sighting:
        """Reads the definition only: QEMU is not asked. Raises ``UnreadableXML``."""
        ...

    def survey(self, uuid: str) -> Survey:
        """``look``, and ``actual`` of every disk, with one deadline for all of it.

        An error affects one disk only. After the first call that times out no other is made: the other disks get
        ``DeadlineExceeded``, and those read before keep their result.
        """
        ...

    def actual(self, disk: Disk) -> Limits:
        """The disk's limits as QEMU reports them."""
        ...

    def block_stats(self, uuid: str, targets: Iterable[str]) -> Mapping[str, BlockStats]:
        """Counters of these disks by target; absent if QEMU is busy, or has no such disk."""
        ...

    def sizes(self, uuid: str) -> Mapping[str, int]:
        """Sizes of the disks in bytes by target; absent if unknown. A busy guest is not waited for.

        QEMU reads from each image for this and halts the whole guest: not to be called while the cluster stalls.
        """
        ...

    def set_limits(self, disk: Disk, limits: Limits, *, alone: bool = False) -> None:
        """Set the full set on the running guest (LIVE); ``alone`` takes the disk out of its group.

        Without ``alone`` the disk stays in its group, and the limits are set for the whole group.
        """
        ...

    def define_limits(self, disk: Disk, limits: Limits) -> None:
        """Write them into the persistent definition (CONFIG), if there is one that has the disk."""
        ...

    def set_marks(self, uuid: str, marks: Marks) -> None:
        """Replace the marks in the running guest's metadata (LIVE); empty ones remove them.

        They survive a live migration and a suspend, and end when the guest stops.
        """
        ...

    def knows(self, uuid: str) -> bool:
        """Whether this node has such a guest, running or not."""
        ...
