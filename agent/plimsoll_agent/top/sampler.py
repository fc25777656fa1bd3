"""Samples the counters of a node's disks for ``plimsoll top``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import Lock

from plimsoll_agent.errors import DeadlineExceeded, PlimsollError
from plimsoll_agent.model import usage
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.hypervisor import GuestRef, Hypervisor
from plimsoll_agent.model.limits import Limits, LimitsError
from plimsoll_agent.model.reason import Code, Reason, Unknown, because
from plimsoll_agent.model.usage import Reading, Usage
from plimsoll_agent.reconcile.observe import MOVING, guests_of, is_hung, reason_of
from plimsoll_agent.reconcile.outcome import Scope, UnreachableGuest
from plimsoll_agent.util.concurrency import side_by_side
from plimsoll_agent.util.frozen import frozen, replace

LOOK_AGAIN = 10.0
"""Seconds after which a guest's disks and their limits are read again.

Counters take 5 ms a guest, limits 1.4 ms a disk and the definition 0.3 ms (on 2 cores). After a call hangs, the guest
is not asked again for as long: each call can occupy one of libvirtd's workers.
"""


@frozen
class Sample:
    """The node's disks, and the unreachable guests; ``guests`` is the number of all guests."""

    usages: tuple[Usage, ...]
    unreachable: tuple[UnreachableGuest, ...]
    guests: int

    @property
    def incomplete(self) -> bool:
        """True when something is unknown; guests that are migrating do not count."""
        unknown = (each.reason or _limits_unknown(each) for each in self.usages)
        return bool(self.unreachable) or any(reason and reason.code not in MOVING.values() for reason in unknown)


def _limits_unknown(each: Usage) -> Reason | None:
    return each.disk.actual.reason if isinstance(each.disk.actual, Unknown) else None


@frozen(kw_only=True)
class _Followed:
    """The last reading of a guest."""

    guest: GuestRef
    disks: tuple[Disk, ...] = ()
    looked: float | None = None
    """When its disks were read; None if they must be read in the next round."""
    usages: tuple[Usage, ...] = ()
    trouble: Reason | None = None
    not_before: float | None = None
    """It is not called before this time."""


class Sampler:
    """``ask`` makes a round, from one thread; ``sample`` may be called from another thread during a round."""

    def __init__(self, hypervisor: Hypervisor, scope: Scope, *, clock: Callable[[], float], at_once: int = 4) -> None:
        self._hypervisor = hypervisor
        self._scope = scope
        self._clock = clock
        self._at_once = at_once
        self._lock = Lock()
        self._followed: dict[str, _Followed] = {}

    def check(self) -> None:
        """Raises ``NotFound`` for a guest of the scope that does not run here, ``Unreachable``."""
        guests_of(self._hypervisor, self._scope)

    def ask(self) -> None:
        """One round: the guests that run now, and their counters. Raises ``Unreachable``.

        A guest that fails becomes unknown, and delays the round by one deadline at most.
        """
        try:
            guests = [guest for guest in self._hypervisor.guests() if guest in self._scope]
        except PlimsollError as error:
            with self._lock:
                self._followed = {u: _in_trouble(one, reason_of(error)) for u, one in self._followed.items()}
            raise
        with self._lock:
            before = self._followed
            self._followed = {guest.uuid: before.get(guest.uuid) or _Followed(guest=guest) for guest in guests}
            states = list(self._followed.values())
        for one, now in side_by_side(self._ask, states, self._at_once):
            with self._lock:
                self._followed[one.guest.uuid] = now

    def sample(self) -> Sample:
        with self._lock:
            states = [one for one in self._followed.values() if not _gone(one)]
        return Sample(
            usages=tuple(each for one in states for each in one.usages),
            unreachable=tuple(UnreachableGuest(one.guest, one.trouble) for one in states if one.trouble),
            guests=len(states),
        )

    def _ask(self, one: _Followed) -> _Followed:
        now = self._clock()
        if one.not_before is not None and now < one.not_before:
            return one
        try:
            # Counters before limits: only that call does not wait for a busy guest.
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
        except Exception as error:  # tenants write into definitions: an unexpected error is limited to this guest
            hung = is_hung(error)
            return replace(
                _in_trouble(one, reason_of(error)), not_before=self._clock() + LOOK_AGAIN if hung else None
            )

    def _look(self, guest: GuestRef) -> Iterator[Disk]:
        look = self._hypervisor.look(guest.uuid)
        for disk in look.disks:
            if look.movement in MOVING:
                yield replace(disk, actual=Unknown(because(MOVING[look.movement])))
            else:
                yield disk

    def _with_limits(self, disk: Disk) -> Disk:
        if isinstance(disk.actual, Unknown):  # its guest migrates, and the call would wait until that ends
            return disk
        return replace(disk, actual=self._actual(disk))

    def _actual(self, disk: Disk) -> Limits | Unknown:
        try:
            return self._hypervisor.actual(disk)
        except DeadlineExceeded:
            raise  # the next call would hang as well
        except (PlimsollError, LimitsError) as error:
            return Unknown(reason_of(error))

    def _read(self, guest: GuestRef, disks: Sequence[Disk]) -> dict[str, Reading]:
        if not disks:
            return {}
        start = self._clock()
        answer = self._hypervisor.block_stats(guest.uuid, [disk.target for disk in disks])
        # QEMU read its counters at some time between the call and its answer.
        at = (start + self._clock()) / 2
        return {target: Reading(at, stats) for target, stats in answer.items()}


def _gone(one: _Followed) -> bool:
    return one.trouble is not None and one.trouble.code is Code.NOT_FOUND


def _answered(one: _Followed, read: Mapping[str, Reading]) -> _Followed:
    usages = usage.follow(one.usages, one.disks, read)
    attachments = {each.disk.attachment for each in one.usages if each.reading}
    # Counters that start again: the guest was restarted, or the target is another disk now.
    restart = any(each.disk.attachment in attachments and each.rates is None for each in usages)
    return replace(one, looked=None if restart else one.looked, usages=usages, trouble=None, not_before=None)


def _in_trouble(one: _Followed, reason: Reason) -> _Followed:
    return replace(one, looked=None, usages=usage.unreachable(one.usages, one.disks, reason), trouble=reason)
