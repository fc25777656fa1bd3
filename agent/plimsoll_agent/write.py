"""Limits are written here and nowhere else: one guest, looked at again before and after, its disks in turn."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from plimsoll_agent import domxml
from plimsoll_agent.changes import Change
from plimsoll_agent.disk import Disk
from plimsoll_agent.errors import NotSent, PlimsollError, Rejected, Vanished
from plimsoll_agent.groups import moved
from plimsoll_agent.hypervisor import Hypervisor
from plimsoll_agent.limits import Limits
from plimsoll_agent.observe import MOVING, is_hung, reason_of
from plimsoll_agent.outcome import Kind, Result
from plimsoll_agent.reason import Code, Reason, because

LOG = logging.getLogger(__name__)

_WRITTEN = (Kind.CHANGED, Kind.NOT_KNOWN)
"""What may be in force after a call to QEMU."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much a pass asks of libvirtd, which serves Nova too."""

    at_once: int = 4
    hung_guests: int = 2
    """After so many guests that do not answer, the pass writes nothing more."""


class Writer:
    """Makes the changes of one pass, a guest at a time; several threads may each be at a guest of their own."""

    def __init__(
        self,
        hypervisor: Hypervisor,
        bounds: Bounds,
        *,
        hung: Collection[str],
        stopped: Callable[[], Reason | None],
    ) -> None:
        """``hung`` are guests that did not answer when looked at; ``stopped`` is asked before each write."""
        self._hypervisor = hypervisor
        self._bounds = bounds
        self._hung = set(hung)
        self._stopped = stopped
        self.strays: dict[str, tuple[Disk, Limits]] = {}
        """Disks, by key, that took limits which were meant for another."""

    def write(self, changes: Sequence[Change]) -> list[Result]:
        """What became of the changes, all of one guest, in their order."""
        uuid = changes[0].disk.guest.uuid
        if self._gives_up(uuid):
            return [self._not_tried() for _ in changes]
        try:
            there = self._there(uuid)
        except Exception as error:
            return [self._trouble(uuid, error, Kind.FAILED) for _ in changes]
        results: list[Result] = []
        withheld: dict[str | None, Reason] = {}
        for change in changes:
            result = self._one(change, there, withheld)
            results.append(result)
            if result.kind is not Kind.CHANGED:  # a member that is not as it was to be keeps its group as it is
                withheld |= dict.fromkeys(
                    {change.before.group_name, change.after.group_name}, _kept_by(change, result)
                )
        results = [
            self._along(change, result, changes, results) for change, result in zip(changes, results, strict=True)
        ]
        if any(result.kind is Kind.CHANGED for result in results):
            results = self._looked_at_again(uuid, changes, results)
        for change, result in zip(changes, results, strict=True):
            if result.kind is Kind.CHANGED and self._stopped() is None:
                self._define(change)
        return results

    def _one(
        self, change: Change, there: Mapping[str, Disk] | Reason, withheld: Mapping[str | None, Reason]
    ) -> Result:
        uuid = change.disk.guest.uuid
        reason = self._stopped()
        if reason is not None:
            return Result(Kind.WAITS, reason)
        if self._gives_up(uuid):
            return self._not_tried()
        obstacle = _obstacle(change.disk, there)
        if obstacle is not None:
            return Result(Kind.LEFT_ALONE, obstacle)
        # The change was judged, by the gate too, against what was there before.
        if not isinstance(there, Reason) and (
            there[change.disk.target].defined != change.disk.defined or moved(change, there.values())
        ):
            return Result(Kind.WAITS, because(Code.CHANGED_MEANWHILE))
        if change.after.group_name is not None and change.after.group_name in withheld:
            return Result(Kind.WAITS, withheld[change.after.group_name])
        clock = time.monotonic()
        try:
            self._hypervisor.set_limits(change.disk, change.after, alone=change.leaves_group)
        except Exception as error:
            return self._trouble(uuid, error, Kind.NOT_KNOWN)
        took = time.monotonic() - clock
        try:
            in_force = self._hypervisor.in_force(change.disk)
        except Exception as error:  # what was written is written: the next pass reads it back
            self._note_hung(uuid, error)
            return Result(Kind.NOT_KNOWN, reason_of(error), took)
        if in_force != change.after:
            reason = because(Code.READ_BACK_DIFFERS, in_force=in_force.in_effect())
            return Result(Kind.NOT_KNOWN, reason, took)
        return Result(Kind.CHANGED, change.reason, took)

    def _along(self, change: Change, result: Result, changes: Sequence[Change], results: Sequence[Result]) -> Result:
        """A disk that was not written to has the limits of its group all the same, once another member was."""
        group = change.after.group_name
        if group is None or group != change.before.group_name or result.kind in _WRITTEN:
            return result
        pairs = zip(changes, results, strict=True)
        written = [each for other, each in pairs if other.after.group_name == group and each.kind in _WRITTEN]
        if not written:
            return result
        uuid = change.disk.guest.uuid
        if uuid in self._hung:
            return Result(Kind.NOT_KNOWN, written[-1].reason)
        try:
            in_force = self._hypervisor.in_force(change.disk)
        except Exception as error:
            self._note_hung(uuid, error)
            return Result(Kind.NOT_KNOWN, reason_of(error))
        if in_force == change.after:
            return Result(Kind.CHANGED, change.reason)
        if in_force == change.before:
            return result
        return Result(Kind.NOT_KNOWN, because(Code.READ_BACK_DIFFERS, in_force=in_force.in_effect()))

    def _looked_at_again(self, uuid: str, changes: Sequence[Change], results: Sequence[Result]) -> list[Result]:
        """A letter may have become another volume between the look and the write: then the write is its."""
        try:
            there = self._there(uuid)
        except Exception as error:
            self._note_hung(uuid, error)
            reason = reason_of(error)
            return [replace(r, kind=Kind.NOT_KNOWN, reason=reason) if r.kind is Kind.CHANGED else r for r in results]
        seen: list[Result] = []
        for change, result in zip(changes, results, strict=True):
            obstacle = _obstacle(change.disk, there)
            if result.kind is Kind.CHANGED and obstacle is not None:
                result = replace(result, kind=Kind.NOT_KNOWN, reason=obstacle)
                if not isinstance(there, Reason) and (other := there.get(change.disk.target)) is not None:
                    self.strays[other.key] = (other, change.after)
            seen.append(result)
        return seen

    def _there(self, uuid: str) -> Mapping[str, Disk] | Reason:
        """The guest's disks by target as they stand now, or why nobody may write to them."""
        sighting = self._hypervisor.look(uuid)
        if sighting.movement in MOVING:
            return because(MOVING[sighting.movement])
        return {disk.target: disk for disk in domxml.parse(sighting.xml)[1]}

    def _gives_up(self, uuid: str) -> bool:
        return uuid in self._hung or len(self._hung) >= self._bounds.hung_guests

    def _not_tried(self) -> Result:
        return Result(Kind.FAILED, because(Code.TOO_MANY_HUNG, hung=len(self._hung)))

    def _trouble(self, uuid: str, error: Exception, unanswered: Kind) -> Result:
        """A call that came to nothing; ``unanswered`` is what it means when nobody knows what it came to."""
        self._note_hung(uuid, error)
        if isinstance(error, Vanished):
            return Result(Kind.LEFT_ALONE, reason_of(error))
        certain = isinstance(error, (Rejected, NotSent))
        return Result(Kind.FAILED if certain else unanswered, reason_of(error))

    def _note_hung(self, uuid: str, error: Exception) -> None:
        if is_hung(error):
            self._hung.add(uuid)

    def _define(self, change: Change) -> None:
        """The persistent definition is a best effort apart: Nova writes it anew anyway."""
        try:
            self._hypervisor.define_limits(change.disk, change.after)
        except PlimsollError as error:
            self._note_hung(change.disk.guest.uuid, error)
            LOG.info("%r %s: not in the persistent definition: %s", change.disk.guest.name, change.disk.target, error)


def _kept_by(change: Change, result: Result) -> Reason:
    group = change.after.group_name or change.before.group_name
    return because(Code.GROUP_WITHHELD, group=group, target=change.disk.target, because=result.reason.as_record())


def _obstacle(disk: Disk, there: Mapping[str, Disk] | Reason) -> Reason | None:
    """Why what is there now is not the disk that was meant: a letter is no identity."""
    if isinstance(there, Reason):
        return there
    now = there.get(disk.target)
    if now is not None and now.key == disk.key and now.attachment == disk.attachment:
        return None
    return because(Code.ANOTHER_DISK, target=disk.target, now=None if now is None else now.image)
