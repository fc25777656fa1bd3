"""What plimsoll asks of a hypervisor: the words between a pass and libvirt."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from enum import StrEnum
from typing import Protocol

from plimsoll_agent.disk import Disk
from plimsoll_agent.errors import PlimsollError
from plimsoll_agent.limits import Limits, LimitsError
from plimsoll_agent.marks import Marks


class Movement(StrEnum):
    """Whether a guest is being migrated; one that is belongs to the target's agent."""

    STAYS = "stays"
    LEAVING = "leaving"
    ARRIVING = "arriving"


@dataclass(frozen=True, slots=True)
class GuestRef:
    """A running guest as the list of guests names it."""

    uuid: str
    name: str


@dataclass(frozen=True, slots=True)
class Sighting:
    """One look at a guest: its live XML, and whether it is on the move."""

    xml: str
    movement: Movement = Movement.STAYS


@dataclass(frozen=True, slots=True)
class Survey:
    """A guest with its RBD disks, and what is in force on each by target, or why that is not known.

    ``in_force`` of a guest on the move says nothing: its QEMU is not asked.
    """

    disks: tuple[Disk, ...]
    movement: Movement
    in_force: Mapping[str, Limits | PlimsollError | LimitsError]


@dataclass(frozen=True, slots=True)
class BlockStats:
    """Counters of a disk since its guest started."""

    read_requests: int
    read_bytes: int
    write_requests: int
    write_bytes: int

    def since(self, before: BlockStats) -> BlockStats | None:
        """What was done since then; None when the two cannot be counters of one run."""
        done = [now - then for now, then in zip(astuple(self), astuple(before), strict=True)]
        return None if min(done) < 0 else BlockStats(*done)


class Hypervisor(Protocol):
    """The calls, each with its deadline.

    They raise ``Unreachable`` when there is no hypervisor to ask, ``Vanished`` for a guest or disk that is
    gone, ``Rejected`` when the answer is no, and ``Unanswered`` when the deadline passed: what was asked for
    may still happen then.
    """

    def guests(self) -> Sequence[GuestRef]: ...

    def look(self, uuid: str) -> Sighting: ...

    def survey(self, uuid: str) -> Survey:
        """``look``, and ``in_force`` of every disk, with one deadline for all of it. Raises ``UnreadableXML``.

        A disk for which the answer is no costs nothing but itself. After the first that is not answered no
        other is asked: ``Unanswered`` stands for the rest, and what was told before stays told.
        """
        ...

    def in_force(self, disk: Disk) -> Limits:
        """QEMU's own word on the limits of a disk."""
        ...

    def block_stats(self, uuid: str, targets: Iterable[str]) -> Mapping[str, BlockStats]:
        """What these disks did so far, by target; absent where QEMU is busy, or has no such disk."""
        ...

    def sizes(self, uuid: str) -> Mapping[str, int]:
        """Present sizes of the disks in bytes by target, without waiting for a busy guest; absent where not known.

        QEMU reads from each image for it, with all of the guest standing still: not while the cluster stalls.
        """
        ...

    def set_limits(self, disk: Disk, limits: Limits, *, alone: bool = False) -> None:
        """Put the full set in force on the running guest (LIVE); ``alone`` takes the disk out of its group.

        Without ``alone`` a disk stays in the group that it is in, and the limits are those of the whole group.
        """
        ...

    def define_limits(self, disk: Disk, limits: Limits) -> None:
        """Write them into the persistent definition (CONFIG), if there is one and the disk stands in it."""
        ...

    def set_marks(self, uuid: str, marks: Marks) -> None:
        """Put these in the place of those in the running guest's metadata (LIVE); empty ones leave none there.

        They go with the guest in a live migration and through a suspend, and with its end.
        """
        ...

    def knows(self, uuid: str) -> bool:
        """Whether there is such a guest on this node, running or not."""
        ...
