"""The first part of a pass: what is there, and what is in force on it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from plimsoll_agent import domxml
from plimsoll_agent.clusters import Clusters
from plimsoll_agent.crew import side_by_side
from plimsoll_agent.disk import Disk
from plimsoll_agent.errors import NoSuchGuest, NotSent, PlimsollError, Rejected, Unanswered, Vanished
from plimsoll_agent.hypervisor import GuestRef, Hypervisor, Movement
from plimsoll_agent.limits import Limits, LimitsError
from plimsoll_agent.outcome import Overlooked, Scope
from plimsoll_agent.reason import Code, Reason, Unknown, because
from plimsoll_agent.usage import Reading

LOG = logging.getLogger(__name__)

MOVING = {Movement.LEAVING: Code.MIGRATING, Movement.ARRIVING: Code.INCOMING}


@dataclass(frozen=True, slots=True)
class Observation:
    """What the node looked like: the disks with their limits in force, and the guests that hang or hide."""

    disks: tuple[Disk, ...]
    overlooked: tuple[Overlooked, ...]
    hung: frozenset[str] = frozenset()
    guests: int = 0
    readings: Mapping[str, Reading] = field(default_factory=dict)
    """The disks' counters by ``Disk.key``, where they were asked for and told."""


@dataclass(frozen=True, slots=True)
class _Look:
    """One guest as it was seen."""

    disks: tuple[Disk, ...] = ()
    trouble: Reason | None = None
    hung: bool = False
    readings: Mapping[str, Reading] = field(default_factory=dict)
    """By target."""


def observe(
    hypervisor: Hypervisor,
    scope: Scope,
    *,
    clusters: Clusters,
    sized: Callable[[Disk], bool] = lambda _: False,
    clock: Callable[[], float] | None = None,
    at_once: int = 4,
) -> Observation:
    """Look at every guest of the scope; ``sized`` tells of which disks the size is asked for.

    With a ``clock`` (seconds) the disks' counters are read as well, at its times.

    Raises ``Unreachable`` when they cannot be listed, ``NoSuchGuest`` for a name that none has.
    """
    guests = guests_of(hypervisor, scope)
    looks = dict(side_by_side(lambda guest: _look(hypervisor, guest, sized, clock), guests, at_once))
    return Observation(
        disks=tuple(clusters.placed(disk) for guest in guests for disk in looks[guest].disks),
        overlooked=tuple(Overlooked(guest, trouble) for guest in guests if (trouble := looks[guest].trouble)),
        hung=frozenset(guest.uuid for guest in guests if looks[guest].hung),
        guests=len(guests),
        readings={
            disk.key: looks[guest].readings[disk.target]
            for guest in guests
            for disk in looks[guest].disks
            if disk.target in looks[guest].readings
        },
    )


def guests_of(hypervisor: Hypervisor, scope: Scope) -> list[GuestRef]:
    """The running guests of the scope. Raises ``Unreachable``, and ``NoSuchGuest`` for a name that none has."""
    guests = [guest for guest in hypervisor.guests() if guest in scope]
    absent = scope.guests - {word for guest in guests for word in (guest.name, guest.uuid)}
    if absent:
        raise NoSuchGuest(f"no guest runs here by the name or uuid of {', '.join(sorted(absent))}")
    return guests


def _look(
    hypervisor: Hypervisor, guest: GuestRef, sized: Callable[[Disk], bool], clock: Callable[[], float] | None
) -> _Look:
    try:
        look = _look_at(hypervisor, guest, sized)
        moving = any(isinstance(each.in_force, Unknown) for each in look.disks)
        # One that is on the move, or does not answer well, is left in peace: no limit hangs on its counters.
        if clock is None or look.hung or moving or not look.disks:
            return look
        return _counted(hypervisor, guest, look, clock)
    except Exception as error:  # tenants write into definitions: what nobody foresaw costs this guest only
        return _Look(trouble=reason_of(error), hung=is_hung(error))


def _look_at(hypervisor: Hypervisor, guest: GuestRef, sized: Callable[[Disk], bool]) -> _Look:
    survey = hypervisor.survey(guest.uuid)
    if survey.movement in MOVING:
        moving = Unknown(because(MOVING[survey.movement]))
        return _Look(tuple(replace(disk, in_force=moving) for disk in survey.disks))
    hung = any(isinstance(told, Exception) and is_hung(told) for told in survey.in_force.values())
    # One more call to a guest that hangs would queue behind its job lock and hold one more of libvirtd's workers.
    ask = not hung and any(map(sized, survey.disks))
    disks = _sized(hypervisor, survey.disks) if ask else survey.disks
    return _Look(tuple(replace(disk, in_force=_known(survey.in_force[disk.target])) for disk in disks), hung=hung)


def _counted(hypervisor: Hypervisor, guest: GuestRef, look: _Look, clock: Callable[[], float]) -> _Look:
    asked = clock()
    try:
        told = hypervisor.block_stats(guest.uuid, [disk.target for disk in look.disks])
    except Exception as error:  # whatever it is, no limit hangs on counters
        reason_of(error)  # logs what nobody foresaw
        return replace(look, hung=is_hung(error))
    # QEMU read its counters somewhere between the question and the answer.
    at = (asked + clock()) / 2
    return replace(look, readings={target: Reading(at, stats) for target, stats in told.items()})


def _sized(hypervisor: Hypervisor, disks: tuple[Disk, ...]) -> tuple[Disk, ...]:
    try:
        sizes = hypervisor.sizes(disks[0].guest.uuid)
    except PlimsollError:
        return disks  # not known: shown as such, and nothing but a per-GiB limit depends on it
    return tuple(replace(disk, size=sizes.get(disk.target)) for disk in disks)


def _known(told: Limits | PlimsollError | LimitsError) -> Limits | Unknown:
    return told if isinstance(told, Limits) else Unknown(reason_of(told))


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
