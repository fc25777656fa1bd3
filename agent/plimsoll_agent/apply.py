"""The last part of a pass, and the only place where limits are written."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from plimsoll_agent import domxml
from plimsoll_agent.changes import Change, Direction
from plimsoll_agent.crew import side_by_side
from plimsoll_agent.disk import Disk
from plimsoll_agent.errors import NotSent, PlimsollError, Rejected, Unanswered, Vanished
from plimsoll_agent.hypervisor import Hypervisor
from plimsoll_agent.ledger import Ledger
from plimsoll_agent.limits import LimitsError
from plimsoll_agent.observe import MOVING, reason_of
from plimsoll_agent.outcome import Kind, Outcome, Result
from plimsoll_agent.reason import Code, Reason, Unknown, because
from plimsoll_agent.record import Verdict
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
        self,
        hypervisor: Hypervisor,
        ledger: Ledger,
        bounds: Bounds,
        now: datetime,
        *,
        hung: Collection[str],
        may_loosen: bool,
    ) -> None:
        """``hung`` are the guests that did not answer while they were looked at."""
        self._hypervisor = hypervisor
        self._ledger = ledger
        self._bounds = bounds
        self._now = now
        self._hung = set(hung)
        self._may_loosen = may_loosen

    def apply(self, considered: Sequence[Outcome], tell: Callable[[Outcome], None]) -> list[Outcome]:
        """Every outcome in its order, with what became of the planned ones; each is told when it stands."""
        finished: dict[int, Outcome] = {}

        def finish(number: int, outcome: Outcome) -> None:
            finished[number] = outcome
            tell(outcome)

        errands: dict[int, _Errand] = {}
        for number, outcome in enumerate(considered):
            if outcome.change is None:
                finish(number, outcome)
            else:
                errands[number] = _Errand(outcome, outcome.change)
        self._intend(list(errands.values()))
        for number, errand in list(errands.items()):
            if errand.change.direction is not Direction.TIGHTEN and not self._may_loosen:
                # Where no record can be written a limit may be tightened, never loosened.
                finish(number, errand.ended(Result(Kind.FAILED, because(Code.NO_RECORD))))
                del errands[number]

        guests: dict[str, dict[int, _Errand]] = {}
        for number, errand in errands.items():
            guests.setdefault(errand.change.disk.guest.uuid, {})[number] = errand
        try:
            for _, ended in side_by_side(
                self._one_guest, [tuple(g.items()) for g in guests.values()], self._bounds.at_once
            ):
                for number, outcome in ended:
                    finish(number, outcome)
        finally:
            self._conclude(errands, finished)
        return [finished[number] for number in sorted(finished)]

    def _intend(self, errands: Sequence[_Errand]) -> None:
        if not errands or not self._may_loosen:
            return
        try:
            ids = self._ledger.intend([errand.change for errand in errands], self._now)
        except StateError as error:
            LOG.error("no record of this pass can be kept, so nothing is loosened: %s", error)
            self._may_loosen = False
            return
        for errand, id_ in zip(errands, ids, strict=True):
            errand.id = id_

    def _conclude(self, errands: dict[int, _Errand], finished: dict[int, Outcome]) -> None:
        verdicts = [
            (errand.id, _verdict(finished[number].result), None)
            for number, errand in errands.items()
            if errand.id is not None and number in finished
        ]
        if verdicts:
            self._ledger.conclude(verdicts, self._now)

    def _one_guest(self, errands: tuple[tuple[int, _Errand], ...]) -> list[tuple[int, Outcome]]:
        return [(number, errand.ended(self._one_disk(errand.change))) for number, errand in errands]

    def _one_disk(self, change: Change) -> Result:
        disk = change.disk
        uuid = disk.guest.uuid
        if uuid in self._hung or len(self._hung) >= self._bounds.hung_guests:
            return Result(Kind.FAILED, because(Code.TOO_MANY_HUNG, hung=len(self._hung)))
        clock = time.monotonic()
        try:
            obstacle = self._obstacle(disk)
            if obstacle is not None:
                return Result(Kind.LEFT_ALONE, obstacle)
        except PlimsollError as error:
            return self._trouble(uuid, error, Kind.FAILED)
        try:
            self._hypervisor.set_limits(disk, change.after, alone=change.leaves_group)
            took = time.monotonic() - clock
            in_force = self._hypervisor.in_force(disk)
            # The letter may have become another volume between the look and the write: then the write is its.
            moved = self._obstacle(disk)
        except (Rejected, Vanished, NotSent) as error:
            return self._trouble(uuid, error, Kind.FAILED)
        except (PlimsollError, LimitsError) as error:
            return self._trouble(uuid, error, Kind.NOT_KNOWN)
        if moved is not None:
            return Result(Kind.NOT_KNOWN, moved, took)
        if in_force != change.after:
            return Result(Kind.FAILED, because(Code.READ_BACK_DIFFERS, in_force=in_force.in_effect()), took)
        self._define(change)
        return Result(Kind.CHANGED, change.reason, took)

    def _obstacle(self, disk: Disk) -> Reason | None:
        """Why the disk must not be written to: read again now, since what it was a moment ago may be history."""
        sighting = self._hypervisor.look(disk.guest.uuid)
        if sighting.movement in MOVING:
            return because(MOVING[sighting.movement])
        present = {other.target: other for other in domxml.parse(sighting.xml)[1]}
        there = present.get(disk.target)
        if there is not None and there.key == disk.key and there.attachment == disk.attachment:
            return None
        return because(Code.ANOTHER_DISK, target=disk.target, now=None if there is None else there.image)

    def _trouble(self, uuid: str, error: Exception, kind: Kind) -> Result:
        if isinstance(error, Unanswered):
            self._hung.add(uuid)
        if isinstance(error, Vanished):
            kind = Kind.LEFT_ALONE
        return Result(kind, reason_of(error))

    def _define(self, change: Change) -> None:
        """The persistent definition is a best effort apart: Nova writes it anew anyway."""
        try:
            self._hypervisor.define_limits(change.disk, change.after)
        except PlimsollError as error:
            if isinstance(error, Unanswered):
                self._hung.add(change.disk.guest.uuid)
            LOG.info(
                "%r %s: not in the persistent definition: %s",
                change.disk.guest.name,
                change.disk.target,
                error,
            )


@dataclass(slots=True)
class _Errand:
    """A change on its way, with its id in the record."""

    outcome: Outcome
    change: Change
    id: int | None = None

    def ended(self, result: Result) -> Outcome:
        disk = self.outcome.disk
        if result.kind is Kind.CHANGED:
            disk = replace(disk, in_force=self.change.after, defined=self.change.after)
        elif result.kind is Kind.NOT_KNOWN:
            disk = replace(disk, in_force=Unknown(result.reason))
        return replace(self.outcome, disk=disk, result=result)


def _verdict(result: Result) -> Verdict:
    match result.kind:
        case Kind.CHANGED:
            return Verdict.DONE
        case Kind.NOT_KNOWN:
            return Verdict.UNANSWERED
        case Kind.FAILED if result.reason.code in (Code.REJECTED, Code.READ_BACK_DIFFERS):
            return Verdict.REFUSED
        case _:
            return Verdict.NOT_SENT
