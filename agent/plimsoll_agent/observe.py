"""The first part of a pass: what is there, and what is in force on it."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace

from plimsoll_agent import domxml
from plimsoll_agent.clusters import Clusters
from plimsoll_agent.crew import side_by_side
from plimsoll_agent.disk import Disk
from plimsoll_agent.errors import NotSent, PlimsollError, Rejected, Unanswered, Vanished
from plimsoll_agent.hypervisor import GuestRef, Hypervisor, Movement
from plimsoll_agent.limits import Limits, LimitsError
from plimsoll_agent.outcome import Overlooked, Scope
from plimsoll_agent.reason import Code, Reason, Unknown, because

LOG = logging.getLogger(__name__)

MOVING = {Movement.LEAVING: Code.MIGRATING, Movement.ARRIVING: Code.INCOMING}


@dataclass(frozen=True, slots=True)
class Observation:
    """What the node looked like: the disks with their limits in force, and the guests that hang or hide."""

    disks: tuple[Disk, ...]
    overlooked: tuple[Overlooked, ...]
    hung: frozenset[str] = frozenset()


@dataclass(slots=True)
class _Look:
    """One guest as it was seen; built up while it is looked at."""

    disks: list[Disk] = field(default_factory=list)
    trouble: Reason | None = None
    hung: bool = False


def observe(
    hypervisor: Hypervisor, scope: Scope, *, clusters: Clusters, sizes: bool = False, at_once: int = 4
) -> Observation:
    """Look at every guest of the scope.

    Raises ``Unreachable`` when they cannot be listed, ``Vanished`` for a name that nobody bears.
    """
    guests = [guest for guest in hypervisor.guests() if guest in scope]
    absent = scope.guests - {word for guest in guests for word in (guest.name, guest.uuid)}
    if absent:
        raise Vanished(f"no guest runs here by the name or uuid of {', '.join(sorted(absent))}")
    looks = dict(side_by_side(lambda guest: _look(hypervisor, guest, sizes), guests, at_once))
    return Observation(
        disks=tuple(_placed(disk, clusters) for guest in guests for disk in looks[guest].disks),
        overlooked=tuple(Overlooked(guest, trouble) for guest in guests if (trouble := looks[guest].trouble)),
        hung=frozenset(guest.uuid for guest in guests if looks[guest].hung),
    )


def _placed(disk: Disk, clusters: Clusters) -> Disk:
    cluster = clusters.of(disk)
    return disk if cluster is None else replace(disk, cluster=cluster.fsid)


def _look(hypervisor: Hypervisor, guest: GuestRef, sizes: bool) -> _Look:
    look = _Look()
    try:
        _look_at(hypervisor, guest, sizes, look)
    except Exception as error:  # tenants write into definitions: what nobody foresaw costs this guest only
        return _Look(trouble=reason_of(error), hung=is_hung(error))
    return look


def _look_at(hypervisor: Hypervisor, guest: GuestRef, sizes: bool, look: _Look) -> None:
    sighting = hypervisor.look(guest.uuid)
    disks = domxml.parse(sighting.xml)[1]
    if sighting.movement in MOVING:
        moving = Unknown(because(MOVING[sighting.movement]))
        look.disks = [replace(disk, in_force=moving) for disk in disks]
        return
    if sizes and disks:
        disks = _sized(hypervisor, disks)
    silence: Unknown | None = None
    for disk in disks:
        # A second call would queue behind the guest's job lock and hold one more of libvirtd's workers.
        in_force = silence or _in_force(hypervisor, disk, look)
        if look.hung and isinstance(in_force, Unknown):
            silence = in_force
        look.disks.append(replace(disk, in_force=in_force))


def _sized(hypervisor: Hypervisor, disks: tuple[Disk, ...]) -> tuple[Disk, ...]:
    try:
        stats = hypervisor.block_stats(disks[0].guest.uuid)
    except PlimsollError:
        return disks  # not known: shown as such, and nothing but a per-GiB limit depends on it
    sizes = {target: known.capacity for target, known in stats.items()}
    return tuple(replace(disk, size=sizes.get(disk.target)) for disk in disks)


def _in_force(hypervisor: Hypervisor, disk: Disk, look: _Look) -> Limits | Unknown:
    try:
        return hypervisor.in_force(disk)
    except (PlimsollError, LimitsError) as error:
        look.hung = look.hung or is_hung(error)
        return Unknown(reason_of(error))


def is_hung(error: Exception) -> bool:
    """True for a guest that was asked and does not answer; a call that was not even sent says nothing of it."""
    return isinstance(error, Unanswered) and not isinstance(error, NotSent)


def reason_of(error: Exception) -> Reason:
    """The reason that an error is; one that nobody foresaw is logged with its traceback."""
    codes: tuple[tuple[type[Exception], Code], ...] = (
        (NotSent, Code.NOT_SENT),
        (Unanswered, Code.UNANSWERED),
        (Vanished, Code.VANISHED),
        (Rejected, Code.REJECTED),
        (LimitsError, Code.IMPOSSIBLE),
        (domxml.UnreadableXML, Code.UNREADABLE_XML),
    )
    code = next((code for kind, code in codes if isinstance(error, kind)), Code.NOT_LOOKED_AT)
    if code is Code.NOT_LOOKED_AT and not isinstance(error, PlimsollError):
        LOG.error("this is a bug in plimsoll, please report it", exc_info=error)
    return because(code, detail=str(error) or repr(error))
