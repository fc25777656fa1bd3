"""The last part of a pass: intents into the record, changes into the guests, results into the record."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from plimsoll_agent.brake import revision
from plimsoll_agent.changes import Change
from plimsoll_agent.crew import side_by_side
from plimsoll_agent.decide import Remembered, Situation
from plimsoll_agent.direction import Direction
from plimsoll_agent.disk import Disk
from plimsoll_agent.entries import Conclusion, Verdict
from plimsoll_agent.following import mark
from plimsoll_agent.groups import in_order, withheld
from plimsoll_agent.hypervisor import Hypervisor
from plimsoll_agent.ledger import Ledger
from plimsoll_agent.outcome import Kind, Outcome, Result
from plimsoll_agent.reason import Code, Reason, Unknown, because
from plimsoll_agent.state import StateError
from plimsoll_agent.write import Bounds, Writer


class Applier:
    """Makes the changes of one pass, guests side by side, each guest's disks one after the other."""

    def __init__(
        self,
        hypervisor: Hypervisor,
        ledger: Ledger,
        bounds: Bounds,
        situation: Situation,
        *,
        hung: Collection[str],
        stopped: Callable[[], Reason | None],
    ) -> None:
        """``hung`` are the guests that did not answer while they were looked at."""
        self._writer = Writer(hypervisor, bounds, hung=hung, stopped=stopped)
        self._hypervisor = hypervisor
        self._stopped = stopped
        self._ledger = ledger
        self._bounds = bounds
        self._situation = situation
        self._edition = revision(situation)
        self._now = situation.now
        self._started = time.monotonic()
        self._errands: list[_Errand] = []
        self.notes: list[Reason] = []
        """What is wrong with the record."""
        self.put: dict[str, Change] = {}
        """What is in force now because of this pass, by ``Disk.key``."""

    @property
    def strays(self) -> dict[str, Remembered]:
        """Disks that took a limit which was meant for another: known for ours, so that what is wanted holds."""
        return {
            key: Remembered(limits, self._now, self._now, limits, disk.attachment)
            for key, (disk, limits) in self._writer.strays.items()
        }

    def apply(self, considered: Sequence[Outcome], tell: Callable[[Outcome], None]) -> list[Outcome]:
        """Every outcome in its order, with what became of the planned ones; each is told when it stands."""
        self._errands = errands = [
            _Errand(outcome, outcome.change)
            for outcome in considered
            if outcome.change is not None and outcome.result.kind is Kind.PLANNED
        ]
        if not self._intend(errands):
            deferred = _without_record(considered)
            for errand in errands:
                errand.result = deferred.get(errand.change.disk.key)
        guests: dict[str, list[_Errand]] = {}
        for errand in errands:
            if errand.result is None:
                guests.setdefault(errand.change.disk.guest.uuid, []).append(errand)
        for of_guest in guests.values():
            first, rest = in_order([errand.change for errand in of_guest])
            place = {change.disk.key: number for number, change in enumerate([*first, *rest])}
            of_guest.sort(key=lambda errand: place[errand.change.disk.key])
        planned = {id(errand.considered): errand for errand in errands}
        pairs = [(outcome, planned.get(id(outcome))) for outcome in considered]
        for outcome, own in pairs:
            if own is None or own.result is not None:
                tell(outcome if own is None else own.outcome())
        for done, _ in side_by_side(self._one_guest, list(guests.values()), self._bounds.at_once):
            for errand in done:
                tell(errand.outcome())
        return [outcome if own is None else own.outcome() for outcome, own in pairs]

    def _one_guest(self, errands: list[_Errand]) -> None:
        results = self._writer.write([errand.change for errand in errands])
        for errand, result in zip(errands, results, strict=True):
            errand.result = result
            if result.kind is Kind.CHANGED:
                self.put[errand.change.disk.key] = errand.change

    def _intend(self, errands: Sequence[_Errand]) -> bool:
        """Record the intents. False when that cannot be done."""
        if not errands:
            return True
        try:
            ids = self._ledger.intend([errand.change for errand in errands], self._now, self._edition)
        except StateError as error:
            self.notes.append(because(Code.NO_RECORD, detail=str(error)))
            return False
        for errand, id_ in zip(errands, ids, strict=True):
            errand.id = id_
        return True

    def mark(self, disks: Sequence[Disk], memory: Mapping[str, Remembered]) -> dict[str, Remembered]:
        """Write what is to follow the guests when they migrate. Returns the memory with the marks that they have."""
        if self._stopped() is not None:
            return dict(memory)
        return mark(self._hypervisor, disks, memory, self._situation, self._bounds, stopped=self._stopped)

    def conclude(self) -> None:
        """Tell the record how the changes ended: only when they are remembered, since what is open is not lost."""
        ended = [
            Conclusion(errand.id, _verdict(errand.result), _detail(errand.result))
            for errand in self._errands
            if errand.id is not None and errand.result is not None
        ]
        now = self._now + timedelta(seconds=time.monotonic() - self._started)
        try:
            self._ledger.conclude(ended, now)
        except StateError as error:
            self.notes.append(because(Code.NO_RESULTS, detail=str(error)))


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


def _without_record(considered: Sequence[Outcome]) -> dict[str, Result]:
    """What becomes of the planned changes that are not made without a record, by ``Disk.key``.

    A limit may be tightened then, never loosened; what is not done keeps the groups that it is in.
    """
    failed = Result(Kind.FAILED, because(Code.NO_RECORD, detail=""))
    outcomes = [
        replace(each, result=failed)
        if each.result.kind is Kind.PLANNED and each.change and each.change.direction is not Direction.TIGHTEN
        else each
        for each in considered
    ]
    return {each.disk.key: each.result for each in withheld(outcomes) if each.result.kind is not Kind.PLANNED}


def _detail(result: Result) -> str | None:
    detail = result.reason.facts.get("detail")
    return str(detail) if detail else None


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
