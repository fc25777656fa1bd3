"""The first part of a pass: what is there, and what is in force on it."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace

from plimsoll_agent import domxml
from plimsoll_agent.crew import side_by_side
from plimsoll_agent.disk import Disk
from plimsoll_agent.errors import PlimsollError, Rejected, Unanswered, Vanished
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
    moving: frozenset[str] = frozenset()
    hung: frozenset[str] = frozenset()


@dataclass(slots=True)
class _Look:
    """One guest as it was seen; built up while it is looked at."""

    disks: list[Disk] = field(default_factory=list)
    trouble: Reason | None = None
    movement: Movement = Movement.STAYS
    hung: bool = False


def observe(hypervisor: Hypervisor, scope: Scope, *, sizes: bool = False, at_once: int = 4) -> Observation:
    """Look at every guest of the scope.

    Raises ``Unreachable`` when they cannot be listed, ``Vanished`` for a name that nobody bears.
    """
    guests = [guest for guest in hypervisor.guests() if guest in scope]
    absent = scope.guests - {word for guest in guests for word in (guest.name, guest.uuid)}
    if absent:
        raise Vanished(f"no guest runs here by the name or uuid of {', '.join(sorted(absent))}")
    looks = dict(side_by_side(lambda guest: _look(hypervisor, guest, sizes), guests, at_once))
    return Observation(
        disks=tuple(disk for guest in guests for disk in looks[guest].disks),
        overlooked=tuple(Overlooked(guest, trouble) for guest in guests if (trouble := looks[guest].trouble)),
        moving=frozenset(guest.uuid for guest in guests if looks[guest].movement is not Movement.STAYS),
        hung=frozenset(guest.uuid for guest in guests if looks[guest].hung),
    )


def _look(hypervisor: Hypervisor, guest: GuestRef, sizes: bool) -> _Look:
    look = _Look()
    try:
        sighting = hypervisor.look(guest.uuid)
        disks = domxml.parse(sighting.xml)[1]
        look.movement = sighting.movement
    except (PlimsollError, domxml.UnreadableXML) as error:
        look.trouble = reason_of(error)
        look.hung = isinstance(error, Unanswered)
        return look
    except Exception as error:  # tenants write into definitions: what we did not foresee costs this guest only
        LOG.exception("%r: this is a bug in plimsoll, please report it", guest.name)
        look.trouble = because(Code.NOT_LOOKED_AT, detail=repr(error))
        return look
    if look.movement is not Movement.STAYS:
        moving = Unknown(because(MOVING[look.movement]))
        look.disks = [replace(disk, in_force=moving) for disk in disks]
        return look
    if sizes and disks:
        disks = _sized(hypervisor, disks)
    silence: Unknown | None = None
    for disk in disks:
        # A second call would queue behind the guest's job lock and hold one more of libvirtd's workers.
        in_force = silence or _in_force(hypervisor, disk)
        if isinstance(in_force, Unknown) and in_force.reason.code is Code.UNANSWERED:
            silence, look.hung = in_force, True
        look.disks.append(replace(disk, in_force=in_force))
    return look


def _sized(hypervisor: Hypervisor, disks: tuple[Disk, ...]) -> tuple[Disk, ...]:
    try:
        sizes = hypervisor.sizes(disks[0].guest.uuid)
    except PlimsollError:
        return disks  # not known: shown as such, and nothing but a per-GiB limit depends on it
    return tuple(replace(disk, size=sizes.get(disk.target)) for disk in disks)


def _in_force(hypervisor: Hypervisor, disk: Disk) -> Limits | Unknown:
    try:
        return hypervisor.in_force(disk)
    except (PlimsollError, LimitsError) as error:
        return Unknown(reason_of(error))


def reason_of(error: Exception) -> Reason:
    codes: tuple[tuple[type[Exception], Code], ...] = (
        (Unanswered, Code.UNANSWERED),
        (Vanished, Code.VANISHED),
        (Rejected, Code.REJECTED),
        (LimitsError, Code.IMPOSSIBLE),
        (domxml.UnreadableXML, Code.UNREADABLE_XML),
    )
    code = next((code for kind, code in codes if isinstance(error, kind)), Code.NOT_LOOKED_AT)
    return because(code, detail=str(error))
