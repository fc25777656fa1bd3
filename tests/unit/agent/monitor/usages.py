"""Disks with their use, and what is desired for them."""

from __future__ import annotations

from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.hypervisor import BlockStats
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, Unknown, because
from plimsoll_agent.model.usage import Reading, Usage, follow
from plimsoll_agent.policy.decide import Decision, Desired, Unmanaged
from plimsoll_agent.reconcile.consider import outcome_of
from plimsoll_agent.top.rows import Planned
from tests.unit.values import a_disk, a_guest

NODE_LIMITS = Limits(total_iops_sec=250, total_bytes_sec=104857600)
SILENCE = because(Code.TIMED_OUT, detail="no answer from QEMU within 5 s")


def using(disk: Disk, iops: float = 100, of_bytes: float = 2**20, seconds: float = 2) -> Usage:
    """A disk that reads so much."""
    done = BlockStats(
        read_requests=int(iops * seconds), read_bytes=int(of_bytes * seconds), write_requests=0, write_bytes=0
    )
    before = follow(
        (),
        [disk],
        {disk.target: Reading(0, BlockStats(read_requests=0, read_bytes=0, write_requests=0, write_bytes=0))},
    )
    return follow(before, [disk], {disk.target: Reading(seconds, done)})[0]


def disk_named(name: str, number: int = 0, limits: Limits | Unknown = NODE_LIMITS, **other: object) -> Disk:
    guest = a_guest(name=name, uuid=f"guest-{number}", display_name=name)
    return a_disk(guest, **{"target": "vda", "actual": limits, **other})


def desiring(desired: Limits | Unknown | None, *disks: Disk) -> Planned:
    """These limits are desired for the disks; None: no source has an opinion."""
    answer: Desired | Unmanaged | Unknown
    if desired is None:
        answer = Unmanaged(because(Code.NO_LIMIT))
    else:
        answer = desired if isinstance(desired, Unknown) else Desired(desired, because(Code.NODE_DEFAULT))
    return Planned(outcomes={disk.key: outcome_of(disk, Decision(desired=answer, trail=())) for disk in disks})
