"""The last part of a pass, and the only place where limits are written."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from plimsoll_agent import domxml
from plimsoll_agent.changes import Change, Direction
from plimsoll_agent.crew import side_by_side
from plimsoll_agent.decide import Remembered
from plimsoll_agent.disk import Disk
from plimsoll_agent.errors import NotSent, PlimsollError, Rejected, Vanished
from plimsoll_agent.hypervisor import Hypervisor
from plimsoll_agent.ledger import Ledger
from plimsoll_agent.limits import Limits
from plimsoll_agent.observe import MOVING, is_hung, reason_of
from plimsoll_agent.outcome import Kind, Outcome, Result
from plimsoll_agent.reason import Code, Reason, Unknown, because
from plimsoll_agent.record import Conclusion, Verdict
from plimsoll_agent.state import StateError

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much a pass asks of libvirtd, which serves Nova too."""

    at_once: int = 4
    hung_guests: int = 2
    """After so many guests that do not answer, the pass writes nothing more."""


class Applier:
    """Makes the changes of one pass, guests side by side, each guest's disks one after the other."""

    def __init__(
        self, hypervisor: Hypervisor, ledger: Ledger, bounds: Bounds, now: datetime, *, hung: Collection[str]
    ) -> None:
        """``hung`` are the guests that did not answer while they were looked at."""
        self._hypervisor = hypervisor
        self._ledger = ledger
        self._bounds = bounds
        self._now = now
        self._started = time.monotonic()
        self._hung = set(hung)
        self.notes: list[Reason] = []
        """What is wrong with the record."""
        self.put: dict[str, Limits] = {}
        """What is in force now because of this pass, by ``Disk.key``."""
        self.strays: dict[str, Remembered] = {}
        """Disks that took a limit which was meant for another: ours to put right, in the next pass."""

    def apply(self, considered: Sequence[Outcome], tell: Callable[[Outcome], None]) -> list[Outcome]:
        """Every outcome in its order, with what became of the planned ones; each is told when it stands."""
        errands = [_Errand(outcome, outcome.change) for outcome in considered if outcome.change is not None]
        recorded = self._intend(errands)
        for errand in errands:
            if errand.change.direction is not Direction.TIGHTEN and not recorded:
                # Where no record can be written a limit may be tightened, never loosened.
                errand.result = Result(Kind.FAILED, because(Code.NO_RECORD, detail=""))
        guests: dict[str, list[_Errand]] = {}
        for errand in errands:
            if errand.result is None:
                guests.setdefault(errand.change.disk.guest.uuid, []).append(errand)
        in_order = iter(errands)
        pairs = [(outcome, None if outcome.change is None else next(in_order)) for outcome in considered]
        try:
            for outcome, planned in pairs:
                if planned is None or planned.result is not None:
                    tell(outcome if planned is None else planned.outcome())
            for done, _ in side_by_side(self._one_guest, list(guests.values()), self._bounds.at_once):
                for errand in done:
                    tell(errand.outcome())
        finally:
            self._conclude(errands)
        return [outcome if planned is None else planned.outcome() for outcome, planned in pairs]

    def _intend(self, errands: Sequence[_Errand]) -> bool:
        """Record the intents. False when that cannot be done."""
        if not errands:
            return True
        try:
            ids = self._ledger.intend([errand.change for errand in errands], self._now)
        except StateError as error:
            self.notes.append(because(Code.NO_RECORD, detail=str(error)))
            return False
        for errand, id_ in zip(errands, ids, strict=True):
            errand.id = id_
        return True

    def _conclude(self, errands: Sequence[_Errand]) -> None:
        ended = [
            Conclusion(errand.id, _verdict(errand.result), _detail(errand.result))
            for errand in errands
            if errand.id is not None and errand.result is not None
        ]
        now = self._now + timedelta(seconds=time.monotonic() - self._started)
        try:
            if ended:
                self._ledger.conclude(ended, now)
        except StateError as error:
            self.notes.append(because(Code.NO_RESULTS, detail=str(error)))

    def _one_guest(self, errands: list[_Errand]) -> None:
        for errand in errands:
            errand.result = self._one_disk(errand.change)
            if errand.result.kind is Kind.CHANGED:
                self.put[errand.change.disk.key] = errand.change.after

    def _one_disk(self, change: Change) -> Result:
        uuid = change.disk.guest.uuid
        if uuid in self._hung or len(self._hung) >= self._bounds.hung_guests:
            return Result(Kind.FAILED, because(Code.TOO_MANY_HUNG, hung=len(self._hung)))
        clock = time.monotonic()
        try:
            obstacle = _obstacle(change.disk, self._there(change.disk))
        except Exception as error:
            return self._trouble(uuid, error, Kind.FAILED)
        if obstacle is not None:
            return Result(Kind.LEFT_ALONE, obstacle)
        try:
            self._hypervisor.set_limits(change.disk, change.after, alone=change.leaves_group)
        except Exception as error:
            return self._trouble(uuid, error, Kind.NOT_KNOWN)
        took = time.monotonic() - clock
        try:
            return self._written(change, took)
        except Exception as error:  # what was written is written: the next pass reads it back
            self._note_hung(uuid, error)
            return Result(Kind.NOT_KNOWN, reason_of(error), took)

    def _written(self, change: Change, took: float) -> Result:
        """What became of a write that libvirt did not refuse."""
        in_force = self._hypervisor.in_force(change.disk)
        # The letter may have become another volume between the look and the write: then the write is its.
        there = self._there(change.disk)
        obstacle = _obstacle(change.disk, there)
        if obstacle is not None:
            if isinstance(there, Disk):
                self.strays[there.key] = Remembered(
                    change.after, self._now, self._now, change.after, there.attachment
                )
            return Result(Kind.NOT_KNOWN, obstacle, took)
        if in_force != change.after:
            reason = because(Code.READ_BACK_DIFFERS, in_force=in_force.in_effect())
            return Result(Kind.NOT_KNOWN, reason, took)
        self._define(change)
        return Result(Kind.CHANGED, change.reason, took)

    def _there(self, disk: Disk) -> Disk | Reason | None:
        """The disk under the letter as it stands now, why nobody may write to it, or None where there is none."""
        sighting = self._hypervisor.look(disk.guest.uuid)
        if sighting.movement in MOVING:
            return because(MOVING[sighting.movement])
        present = {other.target: other for other in domxml.parse(sighting.xml)[1]}
        return present.get(disk.target)

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


@dataclass(slots=True)
class _Errand:
    """A change on its way: its id in the record, and how it ended."""

    considered: Outcome
    change: Change
    id: int | None = None
    result: Result | None = None

    def outcome(self) -> Outcome:
        result = self.result or self.considered.result
        disk = self.considered.disk
        if result.kind is Kind.CHANGED:
            disk = replace(disk, in_force=self.change.after, defined=self.change.after)
        elif result.kind is Kind.NOT_KNOWN:
            disk = replace(disk, in_force=Unknown(result.reason))
        return replace(self.considered, disk=disk, result=result)


def _detail(result: Result) -> str | None:
    detail = result.reason.facts.get("detail")
    return str(detail) if detail else None


def _obstacle(disk: Disk, there: Disk | Reason | None) -> Reason | None:
    """Why what is there now is not the disk that was meant: a letter is no identity."""
    if isinstance(there, Reason):
        return there
    if there is not None and there.key == disk.key and there.attachment == disk.attachment:
        return None
    return because(Code.ANOTHER_DISK, target=disk.target, now=None if there is None else there.image)


def _verdict(result: Result) -> Verdict:
    match result.kind:
        case Kind.CHANGED:
            return Verdict.DONE
        case Kind.NOT_KNOWN:
            return Verdict.UNANSWERED
        case Kind.FAILED if result.reason.code is Code.REJECTED:
            return Verdict.REFUSED
        case _:
            return Verdict.NOT_SENT
