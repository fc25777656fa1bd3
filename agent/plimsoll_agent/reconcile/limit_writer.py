"""The only module that writes limits: a guest's disks in turn, with a check of the guest before and after."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence

from plimsoll_agent.errors import NotFound, NotSent, PlimsollError, Rejected
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.hypervisor import Hypervisor
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, Reason, because
from plimsoll_agent.policy.diff import Change
from plimsoll_agent.reconcile.groups import moved
from plimsoll_agent.reconcile.observe import MOVING, is_hung, reason_of
from plimsoll_agent.reconcile.outcome import Kind, Result
from plimsoll_agent.util.frozen import frozen, replace

LOG = logging.getLogger(__name__)

_WRITTEN = (Kind.CHANGED, Kind.UNKNOWN)
"""The results after which the new limits may be in force."""


@frozen
class Bounds:
    """Limits the load on libvirtd, which serves Nova too."""

    at_once: int = 4
    """Calls, hung ones included. While none is free, the hypervisor sends no more."""


class Writer:
    """Makes the changes of one pass, one guest a thread."""

    def __init__(
        self,
        hypervisor: Hypervisor,
        *,
        hung: Collection[str],
        pause: Callable[[], Reason | None],
    ) -> None:
        """``hung`` are guests that did not answer when observed; ``pause`` is called before each write."""
        self._hypervisor = hypervisor
        self.hung = set(hung)
        """Guests that have missed a deadline: nothing more is asked of them."""
        self._pause = pause
        self.strays: dict[str, tuple[Disk, Limits]] = {}
        """Disks, by key, that got limits meant for another."""

    def write(self, changes: Sequence[Change]) -> list[Result]:
        """The results of the changes, all of one guest, in their order."""
        uuid = changes[0].disk.guest.uuid
        if uuid in self.hung:
            return [_not_tried() for _ in changes]
        try:
            there = self._there(uuid)
        except Exception as error:
            return [self._trouble(uuid, error, Kind.FAILED) for _ in changes]
        pairs: list[tuple[Change, Result]] = []
        obstacles: dict[str, Reason] = {}
        for change in changes:
            result = self._one(change, there, obstacles)
            pairs.append((change, result))
            if result.kind is not Kind.CHANGED:  # a member that was not changed prevents changes of its groups
                obstacles = _kept_by(change, result) | obstacles
        results = [self._along(change, result, pairs) for change, result in pairs]
        if any(result.kind is Kind.CHANGED for result in results):
            results = self._looked_at_again(uuid, changes, results)
        for change, result in zip(changes, results, strict=True):
            if result.kind is Kind.CHANGED and self._pause() is None:
                self._define(change)
        return results

    def _one(self, change: Change, there: Mapping[str, Disk] | Reason, obstacles: Mapping[str, Reason]) -> Result:
        uuid = change.disk.guest.uuid
        reason = self._pause()
        if reason is not None:
            return Result(Kind.DEFERRED, reason)
        if uuid in self.hung:
            return _not_tried()
        obstacle = _obstacle(change.disk, there)
        if obstacle is not None:
            return Result(Kind.LEFT_ALONE, obstacle)
        # The change was judged, also by the gate, by what was observed.
        if not isinstance(there, Reason) and (
            there[change.disk.target].defined != change.disk.defined or moved(change, there.values())
        ):
            return Result(Kind.DEFERRED, because(Code.CHANGED_SINCE))
        if change.after.group_name is not None and change.after.group_name in obstacles:
            return Result(Kind.DEFERRED, obstacles[change.after.group_name])
        clock = time.monotonic()
        try:
            self._hypervisor.set_limits(change.disk, change.after, alone=change.leaves_group)
        except Exception as error:
            return self._trouble(uuid, error, Kind.UNKNOWN)
        took = time.monotonic() - clock
        try:
            actual = self._hypervisor.actual(change.disk)
        except Exception as error:  # the limits are written: the next pass reads them back
            self._note_hung(uuid, error)
            return Result(Kind.UNKNOWN, reason_of(error), took)
        if actual != change.after:
            reason = because(Code.READ_BACK_DIFFERS, actual=actual.in_effect())
            return Result(Kind.UNKNOWN, reason, took)
        return Result(Kind.CHANGED, change.reason, took)

    def _along(self, change: Change, result: Result, pairs: Sequence[tuple[Change, Result]]) -> Result:
        """The result of a disk that was not written itself, but may have got limits through another group member."""
        group = change.after.group_name
        if group is None or group != change.before.group_name or result.kind in _WRITTEN:
            return result
        if not any(other.after.group_name == group and each.kind in _WRITTEN for other, each in pairs):
            return result
        uuid = change.disk.guest.uuid
        if uuid in self.hung:
            return Result(Kind.UNKNOWN, because(Code.TIMED_OUT, detail="not asked: its guest has timed out"))
        try:
            actual = self._hypervisor.actual(change.disk)
        except Exception as error:
            self._note_hung(uuid, error)
            return Result(Kind.UNKNOWN, reason_of(error))
        if actual == change.after:
            return Result(Kind.CHANGED, change.reason)
        if actual == change.before:
            return result
        return Result(Kind.UNKNOWN, because(Code.READ_BACK_DIFFERS, actual=actual.in_effect()))

    def _looked_at_again(self, uuid: str, changes: Sequence[Change], results: Sequence[Result]) -> list[Result]:
        """The results after another look: between look and write a target may have become another volume."""
        try:
            there = self._there(uuid)
        except Exception as error:
            self._note_hung(uuid, error)
            reason = reason_of(error)
            return [replace(r, kind=Kind.UNKNOWN, reason=reason) if r.kind is Kind.CHANGED else r for r in results]
        final: list[Result] = []
        for change, result in zip(changes, results, strict=True):
            obstacle = _obstacle(change.disk, there)
            if result.kind is Kind.CHANGED and obstacle is not None:
                result = replace(result, kind=Kind.UNKNOWN, reason=obstacle)
                if not isinstance(there, Reason) and (other := there.get(change.disk.target)) is not None:
                    self.strays[other.key] = (other, change.after)
            final.append(result)
        return final

    def _there(self, uuid: str) -> Mapping[str, Disk] | Reason:
        """The guest's disks by target as they are now, or why they must not be written."""
        look = self._hypervisor.look(uuid)
        if look.movement in MOVING:
            return because(MOVING[look.movement])
        return {disk.target: disk for disk in look.disks}

    def _trouble(self, uuid: str, error: Exception, otherwise: Kind) -> Result:
        """The result of a failed call; ``otherwise`` is its kind where the effect of the call is unknown."""
        self._note_hung(uuid, error)
        if isinstance(error, NotFound):
            return Result(Kind.LEFT_ALONE, reason_of(error))
        certain = isinstance(error, (Rejected, NotSent))
        return Result(Kind.FAILED if certain else otherwise, reason_of(error))

    def _note_hung(self, uuid: str, error: Exception) -> None:
        if is_hung(error):
            self.hung.add(uuid)

    def _define(self, change: Change) -> None:
        """Set the limits in the persistent definition too; best effort, since Nova rewrites it anyway.

        Without a reduction under congestion: a guest that starts again has its own limits.
        """
        if change.own is None:
            return
        try:
            self._hypervisor.define_limits(change.disk, change.unreduced)
        except PlimsollError as error:
            self._note_hung(change.disk.guest.uuid, error)
            LOG.info("%r %s: not in the persistent definition: %s", change.disk.guest.name, change.disk.target, error)


def _not_tried() -> Result:
    return Result(Kind.FAILED, because(Code.GUEST_TIMED_OUT))


def _kept_by(change: Change, result: Result) -> dict[str, Reason]:
    """Why the groups that the disk is in, or should join, are not changed."""
    target, why = change.disk.target, result.reason.as_record()
    return {
        group: because(Code.GROUP_WITHHELD, group=group, target=target, because=why)
        for group in (change.before.group_name, change.after.group_name)
        if group is not None
    }


def _obstacle(disk: Disk, there: Mapping[str, Disk] | Reason) -> Reason | None:
    """Why the target is not the same disk any more."""
    if isinstance(there, Reason):
        return there
    now = there.get(disk.target)
    if now is not None and now.key == disk.key and now.attachment == disk.attachment:
        return None
    return because(Code.ANOTHER_DISK, target=disk.target, now=None if now is None else now.image)
