"""Follows what the disks of a node do, by asking the hypervisor again and again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Lock

from plimsoll_agent import domxml, usage
from plimsoll_agent.crew import side_by_side
from plimsoll_agent.disk import Disk
from plimsoll_agent.errors import PlimsollError, Unanswered
from plimsoll_agent.hypervisor import GuestRef, Hypervisor
from plimsoll_agent.limits import Limits, LimitsError
from plimsoll_agent.observe import MOVING, guests_of, is_hung, reason_of
from plimsoll_agent.outcome import Overlooked, Scope
from plimsoll_agent.reason import Code, Reason, Unknown, because
from plimsoll_agent.usage import Reading, Usage

LOOK_AGAIN = 10.0
"""Seconds after which a guest's disks and their limits are read again.

Counters cost 5 ms a guest, limits 1.4 ms a disk and the definition 0.3 ms (on 2 cores). A guest that hangs is
left in peace as long: each call to it can hold one of libvirtd's workers.
"""


@dataclass(frozen=True, slots=True)
class Sample:
    """What is known of the node's disks, and the guests that do not answer; ``guests`` is how many there are."""

    usages: tuple[Usage, ...]
    silent: tuple[Overlooked, ...]
    guests: int

    @property
    def incomplete(self) -> bool:
        """True when something could not be found out. A guest on the move is none of this node's concern."""
        unknown = (each.reason or _limits_unknown(each) for each in self.usages)
        return bool(self.silent) or any(reason and reason.code not in MOVING.values() for reason in unknown)


def _limits_unknown(each: Usage) -> Reason | None:
    return each.disk.in_force.reason if isinstance(each.disk.in_force, Unknown) else None


@dataclass(frozen=True, slots=True)
class _Followed:
    """A guest as it was seen last."""

    guest: GuestRef
    disks: tuple[Disk, ...] = ()
    looked: float | None = None
    """When its disks were read; None when they are to be read at once."""
    usages: tuple[Usage, ...] = ()
    trouble: Reason | None = None
    not_before: float | None = None
    """Until when it is left in peace."""


class Sampler:
    """Asks in rounds, from one thread; ``sample`` may be called from another while a round is under way."""

    def __init__(self, hypervisor: Hypervisor, scope: Scope, *, clock: Callable[[], float], at_once: int = 4) -> None:
        self._hypervisor = hypervisor
        self._scope = scope
        self._clock = clock
        self._at_once = at_once
        self._lock = Lock()
        self._followed: dict[str, _Followed] = {}

    def check(self) -> None:
        """Raises ``Vanished`` for a guest of the scope that does not run here, ``Unreachable``."""
        guests_of(self._hypervisor, self._scope)

    def ask(self) -> None:
        """One round: the guests that run now, and their counters. Raises ``Unreachable``.

        A guest in trouble costs what is known of it, and at most a deadline of the round.
        """
        try:
            guests = [guest for guest in self._hypervisor.guests() if guest in self._scope]
        except PlimsollError as error:
            with self._lock:
                self._followed = {u: _in_trouble(one, reason_of(error)) for u, one in self._followed.items()}
            raise
        with self._lock:
            known = self._followed
            self._followed = {guest.uuid: known.get(guest.uuid) or _Followed(guest) for guest in guests}
            followed = list(self._followed.values())
        for one, now in side_by_side(self._ask, followed, self._at_once):
            with self._lock:
                self._followed[one.guest.uuid] = now

    def sample(self) -> Sample:
        """What is known by now."""
        with self._lock:
            followed = [one for one in self._followed.values() if not _gone(one)]
        return Sample(
            usages=tuple(each for one in followed for each in one.usages),
            silent=tuple(Overlooked(one.guest, one.trouble) for one in followed if one.trouble),
            guests=len(followed),
        )

    def _ask(self, one: _Followed) -> _Followed:
        now = self._clock()
        if one.not_before is not None and now < one.not_before:
            return one
        try:
            # The counters come before the limits: that call alone does not wait for a guest that is busy.
            read = self._read(one.guest, one.disks)
            due = one.looked is None or now >= one.looked + LOOK_AGAIN
            if due and (read or not one.disks):
                one = replace(one, disks=tuple(self._look(one.guest)))
                read |= self._read(one.guest, [disk for disk in one.disks if disk.target not in read])
                if read:
                    one = replace(one, disks=tuple(map(self._with_limits, one.disks)))
                one = replace(one, looked=now)
            if not read and one.disks:
                return _in_trouble(one, one.trouble if one.trouble and one.not_before is not None else usage.BUSY)
            return _answered(one, read)
        except Exception as error:  # tenants write into definitions: what nobody foresaw costs this guest only
            hung = is_hung(error)
            return replace(
                _in_trouble(one, reason_of(error)), not_before=self._clock() + LOOK_AGAIN if hung else None
            )

    def _look(self, guest: GuestRef) -> Iterator[Disk]:
        sighting = self._hypervisor.look(guest.uuid)
        for disk in domxml.parse(sighting.xml)[1]:
            if sighting.movement in MOVING:
                yield replace(disk, in_force=Unknown(because(MOVING[sighting.movement])))
            else:
                yield disk

    def _with_limits(self, disk: Disk) -> Disk:
        if isinstance(disk.in_force, Unknown):  # of a guest on the move, and asking would wait for its end
            return disk
        return replace(disk, in_force=self._in_force(disk))

    def _in_force(self, disk: Disk) -> Limits | Unknown:
        try:
            return self._hypervisor.in_force(disk)
        except Unanswered:
            raise  # the next call would hang as well
        except (PlimsollError, LimitsError) as error:
            return Unknown(reason_of(error))

    def _read(self, guest: GuestRef, disks: Sequence[Disk]) -> dict[str, Reading]:
        if not disks:
            return {}
        asked = self._clock()
        told = self._hypervisor.block_stats(guest.uuid, [disk.target for disk in disks])
        # QEMU read its counters somewhere between the question and the answer.
        at = (asked + self._clock()) / 2
        return {target: Reading(at, stats) for target, stats in told.items()}


def _gone(one: _Followed) -> bool:
    return one.trouble is not None and one.trouble.code is Code.VANISHED


def _answered(one: _Followed, read: Mapping[str, Reading]) -> _Followed:
    usages = usage.follow(one.usages, one.disks, read)
    known = {each.disk.attachment for each in one.usages if each.reading}
    # Counters that start anew: the guest was restarted, or the letter is another disk by now.
    anew = any(each.disk.attachment in known and each.rates is None for each in usages)
    return replace(one, looked=None if anew else one.looked, usages=usages, trouble=None, not_before=None)


def _in_trouble(one: _Followed, reason: Reason) -> _Followed:
    return replace(one, looked=None, usages=usage.unanswered(one.usages, one.disks, reason), trouble=reason)
