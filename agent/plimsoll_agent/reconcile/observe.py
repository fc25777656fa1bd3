"""The first part of a pass: finds the guests' disks and their actual limits."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from uuid import UUID

from plimsoll_agent.errors import (
    DeadlineExceeded,
    NoSuchGuest,
    NotFound,
    NotSent,
    PlimsollError,
    Rejected,
    UnreadableXML,
)
from plimsoll_agent.model.clusters import Clusters
from plimsoll_agent.model.disk import Disk, Guest
from plimsoll_agent.model.hypervisor import GuestRef, Hypervisor, Movement
from plimsoll_agent.model.limits import Limits, LimitsError
from plimsoll_agent.model.reason import Code, Reason, Unknown, because
from plimsoll_agent.model.usage import Reading
from plimsoll_agent.reconcile.outcome import Scope, UnreachableGuest
from plimsoll_agent.util.concurrency import side_by_side
from plimsoll_agent.util.frozen import frozen, replace
from plimsoll_agent.util.text import nearest, printable, several_servers

LOG = logging.getLogger(__name__)

MOVING = {Movement.LEAVING: Code.MIGRATING, Movement.ARRIVING: Code.INCOMING}


@frozen(kw_only=True)
class Observation:
    """The disks with their actual limits, and the guests that hang or are unreachable."""

    disks: tuple[Disk, ...]
    unreachable: tuple[UnreachableGuest, ...]
    hung: frozenset[str] = frozenset()
    guests: int = 0
    readings: Mapping[str, Reading] = field(default_factory=dict)
    """The disks' counters by ``Disk.key``, where they were read."""
    other_disks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By uuid the targets of the disks that are not on RBD, of each guest that was read and does not migrate."""
    kernel_mapped: tuple[str, ...] = ()
    """``instance-00000412 vdb``: the disks of these guests that the kernel maps."""
    paused_guests: frozenset[str] = frozenset()
    """The uuids of those that a person has paused."""


_MOST_MEANT = 3


@frozen(kw_only=True)
class _Look:
    """One observed guest."""

    disks: tuple[Disk, ...] = ()
    trouble: Reason | None = None
    hung: bool = False
    readings: Mapping[str, Reading] = field(default_factory=dict)
    """By target."""
    other_disks: tuple[str, ...] | None = None
    kernel_mapped: tuple[str, ...] = ()
    paused: bool = False


def observe(
    hypervisor: Hypervisor,
    scope: Scope,
    *,
    clusters: Clusters,
    needs_size: Callable[[Disk], bool] = lambda _: False,
    needs_counters: Callable[[Disk], bool] = lambda _: True,
    clock: Callable[[], float] | None = None,
    at_once: int = 4,
) -> Observation:
    """Observe every guest of the scope; the sizes of its disks are read if ``needs_size`` is true for one.

    With a ``clock`` (seconds) the disks' counters are read too, at its times, if ``needs_counters`` is true for one.

    Raises ``Unreachable`` when guests cannot be listed, ``NoSuchGuest`` for an unknown name.
    """
    guests = guests_of(hypervisor, scope)
    looks = dict(
        side_by_side(lambda guest: _look(hypervisor, guest, needs_size, needs_counters, clock), guests, at_once)
    )
    return Observation(
        disks=tuple(clusters.placed(disk) for guest in guests for disk in looks[guest].disks),
        unreachable=tuple(UnreachableGuest(guest, trouble) for guest in guests if (trouble := looks[guest].trouble)),
        hung=frozenset(guest.uuid for guest in guests if looks[guest].hung),
        guests=len(guests),
        readings={
            disk.key: looks[guest].readings[disk.target]
            for guest in guests
            for disk in looks[guest].disks
            if disk.target in looks[guest].readings
        },
        other_disks={guest.uuid: others for guest in guests if (others := looks[guest].other_disks) is not None},
        kernel_mapped=tuple(f"{guest.name} {target}" for guest in guests for target in looks[guest].kernel_mapped),
        paused_guests=frozenset(guest.uuid for guest in guests if looks[guest].paused),
    )


def guests_of(hypervisor: Hypervisor, scope: Scope) -> list[GuestRef]:
    """The running guests of the scope. Raises ``Unreachable``, and ``NoSuchGuest`` for an unknown name."""
    running = hypervisor.guests()
    guests = [guest for guest in running if guest in scope]
    absent = scope.guests - {word for guest in guests for word in (guest.name, guest.uuid)}
    if absent:
        first = sorted(absent)[0]
        hint = "" if _is_uuid(first) else _perhaps(hypervisor, running, first)
        raise NoSuchGuest(f"no running guest has the name or uuid {', '.join(sorted(absent))}{hint}")
    return guests


def _is_uuid(word: str) -> bool:
    try:
        return str(UUID(word)) == word
    except ValueError:
        return False


def guests_with(hypervisor: Hypervisor, word: str) -> Scope:
    """The guest with that name or uuid, the guests with that volume, or the only server of that name.

    Reads definitions only, so no QEMU is asked. Raises ``Unreachable``, ``NoSuchGuest``.
    """
    guests = hypervisor.guests()
    uuids = {guest.uuid for guest in guests if word in (guest.name, guest.uuid)}
    if not uuids:
        uuids = {guest.uuid for guest in guests if word in _volumes(hypervisor, guest)}
    if not uuids:
        uuids = {server.uuid for server in servers_of(hypervisor, [word]).values()}
    if not uuids:
        raise no_disk_is(word, _perhaps(hypervisor, guests, word))
    return Scope(frozenset(uuids))


def scope_of(hypervisor: Hypervisor, words: Iterable[str]) -> Scope:
    """The guests with these names or uuids, or the only servers of these names; a word that is none stays.

    Tenants choose the names of servers, so nothing may be written to these without asking. Raises ``NoSuchGuest``.
    """
    words = frozenset(words)
    servers = servers_of(hypervisor, words) if words else {}
    return Scope(frozenset(servers[word].uuid if word in servers else word for word in words))


def servers_of(hypervisor: Hypervisor, words: Iterable[str]) -> dict[str, Guest]:
    """The guest that Nova shows by each of these names. A word that is a guest's own name or uuid is none of them.

    Raises ``NoSuchGuest`` for several of one name.
    """
    guests = hypervisor.guests()
    names = {word for guest in guests for word in (guest.name, guest.uuid)}
    unknown = [word for word in words if word not in names]
    servers = [one for guest in guests if (one := _details(hypervisor, guest)) is not None] if unknown else []
    matches = {word: [server for server in servers if server.display_name == word] for word in unknown}
    for word, same in matches.items():
        if len(same) > 1:
            raise NoSuchGuest(several_servers(word, [server.name for server in same]))
    return {word: same[0] for word, same in matches.items() if same}


def no_disk_is(word: str, perhaps: str = "") -> NoSuchGuest:
    return NoSuchGuest(
        f"no RBD disk of a running guest matches {word!r}{perhaps or '; plimsoll disk list shows all'}"
    )


def _perhaps(hypervisor: Hypervisor, guests: Sequence[GuestRef], word: str) -> str:
    """``; did you mean instance-00000412 (web-1)?`` for the name that Nova shows, the beginning of a name, or a typo;
    or nothing. Of several guests whose names begin so, none is named.
    """
    displays = {guest.name: _display_name(hypervisor, guest) for guest in guests}
    begin = _called(word, displays)
    if len(begin) > 1 and word not in displays.values():
        return f"; {len(begin)} guests begin with it: give the whole name"
    if not begin:
        names = {display: name for name, display in displays.items() if display}
        near = nearest(word, [*displays, *names], cutoff=0.8)
        begin = {} if near is None else {near: None} if near in displays else {names[near]: near}
    suggestions = [name if display is None else f"{name} ({printable(display)})" for name, display in begin.items()]
    return f"; did you mean {' or '.join(suggestions[:_MOST_MEANT])}?" if suggestions else ""


def _called(word: str, displays: Mapping[str, str | None]) -> dict[str, str | None]:
    """The guests that Nova shows by this word, else those with a name that begins so (Nova's name, if that is it)."""
    return {name: display for name, display in displays.items() if display == word} or {
        name: display if display and display.startswith(word) else None
        for name, display in displays.items()
        if name.startswith(word) or (display and display.startswith(word))
    }


def _display_name(hypervisor: Hypervisor, guest: GuestRef) -> str | None:
    details = _details(hypervisor, guest)
    return None if details is None else details.display_name


def _details(hypervisor: Hypervisor, guest: GuestRef) -> Guest | None:
    """By its definition; None without an RBD disk, or where that cannot be read."""
    try:
        return next((disk.guest for disk in hypervisor.look(guest.uuid).disks), None)
    except PlimsollError:
        return None


def _volumes(hypervisor: Hypervisor, guest: GuestRef) -> set[str | None]:
    try:
        return {disk.volume_id for disk in hypervisor.look(guest.uuid).disks}
    except PlimsollError:  # the volume may still be found in another guest
        return set()


def _look(
    hypervisor: Hypervisor,
    guest: GuestRef,
    needs_size: Callable[[Disk], bool],
    needs_counters: Callable[[Disk], bool],
    clock: Callable[[], float] | None,
) -> _Look:
    try:
        look = _look_at(hypervisor, guest, needs_size)
        moving = any(isinstance(each.actual, Unknown) for each in look.disks)
        # A guest that migrates or hangs is not asked for counters: no limit depends on them.
        if clock is None or look.hung or moving or not any(map(needs_counters, look.disks)):
            return look
        return _counted(hypervisor, guest, look, clock)
    except Exception as error:  # tenants write into definitions: an unexpected error is limited to this guest
        return _Look(trouble=reason_of(error), hung=is_hung(error))


def _look_at(hypervisor: Hypervisor, guest: GuestRef, needs_size: Callable[[Disk], bool]) -> _Look:
    survey = hypervisor.survey(guest.uuid)
    if survey.movement in MOVING:
        moving = Unknown(because(MOVING[survey.movement]))
        return _Look(disks=tuple(replace(disk, actual=moving) for disk in survey.disks))
    hung = any(isinstance(answer, Exception) and is_hung(answer) for answer in survey.actual.values())
    # Another call to a hung guest would queue behind its job lock and occupy another of libvirtd's workers.
    ask = not hung and any(map(needs_size, survey.disks))
    disks = _sized(hypervisor, survey.disks) if ask else survey.disks
    results = tuple(
        replace(disk, actual=disk.defined if disk.filters else _known(survey.actual[disk.target])) for disk in disks
    )
    return _Look(
        disks=results,
        hung=hung,
        other_disks=survey.other_disks,
        kernel_mapped=survey.kernel_mapped,
        paused=survey.paused,
    )


def _counted(hypervisor: Hypervisor, guest: GuestRef, look: _Look, clock: Callable[[], float]) -> _Look:
    start = clock()
    try:
        counters = hypervisor.block_stats(guest.uuid, [disk.target for disk in look.disks])
    except Exception as error:  # no limit depends on counters
        reason_of(error)  # logs an unexpected error
        return replace(look, hung=is_hung(error))
    # QEMU read its counters at some time between the call and its answer.
    at = (start + clock()) / 2
    return replace(look, readings={target: Reading(at, stats) for target, stats in counters.items()})


def _sized(hypervisor: Hypervisor, disks: tuple[Disk, ...]) -> tuple[Disk, ...]:
    try:
        sizes = hypervisor.sizes(disks[0].guest.uuid)
    except PlimsollError:
        return disks  # the size stays unknown: only per-GiB limits depend on it
    return tuple(replace(disk, size=sizes.get(disk.target)) for disk in disks)


def _known(answer: Limits | PlimsollError | LimitsError) -> Limits | Unknown:
    return answer if isinstance(answer, Limits) else Unknown(reason_of(answer))


def is_hung(error: Exception) -> bool:
    """Whether the guest was asked and did not answer; a call that was not sent does not count."""
    return isinstance(error, DeadlineExceeded) and not isinstance(error, NotSent)


def reason_of(error: Exception) -> Reason:
    """The error as a reason; an unexpected one is logged with its traceback."""
    codes: tuple[tuple[type[Exception], Code], ...] = (
        (NotSent, Code.NOT_SENT),
        (DeadlineExceeded, Code.TIMED_OUT),
        (NotFound, Code.NOT_FOUND),
        (Rejected, Code.REJECTED),
        (LimitsError, Code.IMPOSSIBLE),
        (UnreadableXML, Code.UNREADABLE_XML),
    )
    code = next((code for kind, code in codes if isinstance(error, kind)), Code.NOT_READ)
    if code is Code.NOT_READ and not isinstance(error, PlimsollError):
        LOG.error("this is a bug in plimsoll, please report it", exc_info=error)
    return because(code, detail=str(error) or repr(error))
