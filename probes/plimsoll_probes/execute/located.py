"""Finds the disk that a file in a guest is on."""

from __future__ import annotations

from collections.abc import Sequence

from plimsoll_agent.model.disk import Disk
from plimsoll_agent.util.frozen import replace
from plimsoll_probes.execute.witness import GuestReading
from plimsoll_probes.guest.session import Premises
from plimsoll_probes.model.finding import Trouble, Why
from plimsoll_probes.model.result import Subject
from plimsoll_probes.schedule.targets import Target

# At least this share of the file's bytes is written to its disk; the file system may still cache the rest.
_MOST = 0.95
# Characters that virtio and SATA show of a serial; SCSI shows 36, which is all of a volume's UUID.
_SERIAL = 20


def locate(
    disks: Sequence[Disk], premises: Premises, before: GuestReading | None, after: GuestReading | None, size: int
) -> Disk:
    """The disk that the file is on: the one on which QEMU counted the file's bytes while the guest wrote it.

    Where several disks had as many written, or QEMU's counters are unknown, what the guest reports decides: first the
    serial, or the part of it that is shown, then the name. Raises ``Trouble``, also where counters are unknown and
    the guest reports none of its RBD disks: it may have others.
    """
    writes = _writes(disks, before, after)
    candidates = [disk for disk in disks if writes is None or writes.get(disk.target, 0) >= size * _MOST]
    serial = premises.serial if len(premises.serial) >= _SERIAL else None
    by_serial = [disk for disk in candidates if serial and disk.volume_id and disk.volume_id.startswith(serial)]
    by_name = [disk for disk in candidates if disk.target == premises.device]
    for group in (by_serial, by_name, candidates if writes is not None else []):
        if len(group) == 1:
            return group[0]
    raise Trouble(Why.NO_DISK, directory=premises.directory, device=premises.device)


def _writes(disks: Sequence[Disk], before: GuestReading | None, after: GuestReading | None) -> dict[str, int] | None:
    """Bytes written by target between two readings; None where they are unknown for any disk."""
    if before is None or after is None:
        return None
    targets = {disk.target for disk in disks}
    if not (targets <= set(before.stats) and targets <= set(after.stats)):
        return None
    return {target: after.stats[target].write_bytes - before.stats[target].write_bytes for target in targets}


def subject_of(target: Target, disk: Disk | None) -> Subject:
    guest = target.guest
    who = Subject(
        guest_uuid=guest.uuid,
        guest_name=guest.name,
        directory=target.directory,
        display_name=guest.display_name,
        project=guest.project,
    )
    if disk is None:
        return who
    return replace(
        who,
        disk=disk.key,
        target=disk.target,
        pool=disk.pool,
        image=disk.image,
        volume_id=disk.volume_id,
        volume_type=disk.volume_type,
        cluster=disk.cluster,
    )
