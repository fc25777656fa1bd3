"""The last part of a pass: writes intents to the record, changes to the guests, results to the record."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from plimsoll_agent.ceilings.buckets import CeilingKey
from plimsoll_agent.errors import PlimsollError
from plimsoll_agent.model.direction import Direction
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.entries import Conclusion, Ending
from plimsoll_agent.model.hypervisor import Hypervisor, Versions
from plimsoll_agent.model.marks import Marks
from plimsoll_agent.model.memory import Remembered
from plimsoll_agent.model.reason import Code, Reason, because
from plimsoll_agent.policy.adoption import marks_of_changed, marks_to_write
from plimsoll_agent.policy.decide import Situation
from plimsoll_agent.policy.diff import Change
from plimsoll_agent.policy.memory import gone_astray
from plimsoll_agent.reconcile import trial
from plimsoll_agent.reconcile.follow import write_marks
from plimsoll_agent.reconcile.groups import in_order, withheld
from plimsoll_agent.reconcile.limit_writer import Bounds, Writer
from plimsoll_agent.reconcile.outcome import Kind, Outcome, Result
from plimsoll_agent.reconcile.sharing import as_they_stayed, makes_room, needs_room, not_lowered, without_room
from plimsoll_agent.store.node_store import NodeStore
from plimsoll_agent.store.notes import Notes
from plimsoll_agent.store.state import StateError
from plimsoll_agent.util.concurrency import side_by_side
from plimsoll_agent.util.frozen import replace


class Applier:
    """Makes the changes of one pass, several guests at a time, the disks of a guest one after the other."""

    def __init__(
        self,
        hypervisor: Hypervisor,
        node_store: NodeStore,
        notes: Notes,
        bounds: Bounds,
        situation: Situation,
        *,
        hung: Collection[str],
        pause: Callable[[], Reason | None],
        retries_trial: bool = True,
    ) -> None:
        """``hung`` are the guests that did not answer while they were observed.

        ``retries_trial``: after a failed trial of the versions this pass makes another one.
        """
        self._writer = Writer(hypervisor, hung=hung, pause=pause)
        self._hypervisor = hypervisor
        self._pause = pause
        self._retries_trial = retries_trial
        self._node_store = node_store
        self._notes = notes
        self._bounds = bounds
        self._situation = situation
        self._revision = situation.revision
        self._now = situation.now
        self._started = time.monotonic()
        self._errands: list[_Errand] = []
        self._gave_up = False
        self._follows = True
        self.applied: dict[str, Change] = {}
        """The changes that this pass made, by ``Disk.key``."""
        self.ceilings = situation.ceilings
        """After ``apply``: as they are split."""

    def strays(self, memory: Mapping[str, Remembered]) -> dict[str, Remembered]:
        """What to remember of disks that got a limit meant for another; ``memory`` is the other of this pass."""
        return {
            key: gone_astray(disk, limits, memory.get(key), self._revision, self._now)
            for key, (disk, limits) in self._writer.strays.items()
        }

    def apply(self, outcomes: Sequence[Outcome], tell: Callable[[Outcome], None]) -> list[Outcome]:
        """Every outcome in its order, with the results of the planned ones; ``tell`` gets each when it is final."""
        self._errands = errands = [
            _Errand(outcome, outcome.change)
            for outcome in outcomes
            if outcome.change is not None and outcome.result.kind is Kind.PLANNED
        ]
        self._record(errands, outcomes)
        guests = _by_guest(errand for errand in errands if errand.result is None)
        by_id = {id(errand.considered): errand for errand in errands}
        pairs = [(outcome, by_id.get(id(outcome))) for outcome in outcomes]
        for outcome, own in pairs:
            if own is None or own.result is not None:
                tell(outcome if own is None else own.outcome())
        if guests:
            self._try(guests, tell)
        # What disks share is lowered on all guests before it is raised on any.
        self._write(guests, tell, lambda change: _only_reduces(change) or makes_room(change, self._situation))
        holdouts = not_lowered(_results(pairs), self._situation)
        full = without_room(holdouts, self._situation)
        if full:
            self._withhold(guests, full, tell)
        self._write(guests, tell, lambda _: True)
        after = _results(pairs)
        if self._situation.ceilings.is_split:
            self.ceilings = as_they_stayed(after, holdouts, self._situation)
            if self.ceilings != self._situation.ceilings:
                with self._notes.taking(Code.NO_RESULTS):
                    self._node_store.save_ceilings(self.ceilings)
        return after

    def _write(
        self,
        guests: Mapping[str, list[_Errand]],
        tell: Callable[[Outcome], None],
        is_meant: Callable[[Change], bool],
    ) -> None:
        batches = [[e for e in of_guest if e.result is None and is_meant(e.change)] for of_guest in guests.values()]
        for batch, _ in side_by_side(self._one_guest, list(filter(None, batches)), self._bounds.at_once):
            for errand in batch:
                tell(errand.outcome())

    def _withhold(
        self,
        guests: Mapping[str, list[_Errand]],
        full: Mapping[CeilingKey, Disk],
        tell: Callable[[Outcome], None],
    ) -> None:
        """Defer the raises within ceilings that are full, and with them those of their groups."""
        for of_guest in guests.values():
            rest = [errand for errand in of_guest if errand.result is None]
            reasons = [needs_room(errand.change, self._situation, full) for errand in rest]
            if not any(reasons):
                continue
            outcomes = [
                errand.outcome() if why is None else replace(errand.outcome(), result=Result(Kind.DEFERRED, why))
                for errand, why in zip(rest, reasons, strict=True)
            ]
            for errand, outcome in zip(rest, withheld(outcomes), strict=True):
                if outcome.result.kind is Kind.DEFERRED:
                    errand.result = outcome.result
                    tell(errand.outcome())

    def _record(self, errands: Sequence[_Errand], outcomes: Sequence[Outcome]) -> None:
        """Record the intents; those that must not be written without have their result then."""
        for errand in errands:
            if not self._follows and _only_reduces(errand.change):
                errand.result = Result(Kind.FAILED, because(Code.NO_RECORD, detail=""))
        if errands and not self._intend([errand for errand in errands if errand.result is None]):
            failures = {outcome.disk.key: outcome.result for outcome in without_record(outcomes)}
            for errand in errands:
                result = failures[errand.change.disk.key]
                errand.result = None if result.kind is Kind.PLANNED else result

    def _try(self, guests: Mapping[str, list[_Errand]], tell: Callable[[Outcome], None]) -> None:
        """Under versions for which that was not done yet, change one disk before all others, and read it back.

        If it has other limits then, one of another guest is tried; if none has its own, nothing else is changed. Only
        one pass does so at a time.
        """
        versions = self._versions()
        if versions is not None and versions == self._node_store.proven():
            return
        with self._node_store.trying():
            if versions is None or versions != self._node_store.proven():  # another pass may have done it
                self._try_alone(versions, guests, tell)

    def _try_alone(
        self, versions: Versions | None, guests: Mapping[str, list[_Errand]], tell: Callable[[Outcome], None]
    ) -> None:
        of_change = {id(each.change): each for of_guest in guests.values() for each in of_guest}
        if not self._retries_trial and versions is not None and versions == self._node_store.failed_trial():
            self._give_up(versions, "in an earlier pass; to try a guest: ", of_change.values(), tell)
            return
        wrong: dict[str, str] = {}
        for changes in trial.candidates([[each.change for each in of_guest] for of_guest in guests.values()]):
            uuid = changes[0].disk.guest.uuid
            if uuid in wrong:
                continue
            errands = [of_change[id(change)] for change in changes]
            results = self._tried(errands, tell)
            differing = [errand.change.disk for errand, result in results if trial.failed(result)]
            if differing:
                wrong[uuid] = f"{differing[0].guest.name} {differing[0].target}"
                if len(wrong) == trial.MOST_GUESTS:
                    break
            elif any(result.kind is Kind.CHANGED for _, result in results):
                if versions is not None:
                    self._node_store.prove(versions)
                return
        if wrong:
            if versions is not None:
                self._node_store.trial_failed(versions)
            where = f"{', '.join(wrong.values())}; to try another guest: "
            self._give_up(versions, where, of_change.values(), tell)

    def _tried(self, errands: list[_Errand], tell: Callable[[Outcome], None]) -> list[tuple[_Errand, Result]]:
        """The results of a guest's changes, which are made at once."""
        self._one_guest(errands)
        for errand in errands:
            tell(errand.outcome())
        return [(errand, errand.result) for errand in errands if errand.result is not None]

    def _give_up(
        self, versions: Versions | None, where: str, errands: Iterable[_Errand], tell: Callable[[Outcome], None]
    ) -> None:
        self._gave_up = True
        why = because(Code.TRIAL_FAILED, versions=str(versions or "unknown versions of libvirt and QEMU"))
        self._notes.append(replace(why, facts={**why.facts, "detail": f"{where}plimsoll enforce --guest GUEST"}))
        for errand in errands:
            if errand.result is None:
                errand.result = Result(Kind.FAILED, why)
                tell(errand.outcome())

    def _versions(self) -> Versions | None:
        try:
            return self._hypervisor.versions()
        except PlimsollError:  # then each pass tries one disk first
            return None

    def _one_guest(self, errands: list[_Errand]) -> None:
        results = self._writer.write([errand.change for errand in errands])
        for errand, result in zip(errands, results, strict=True):
            errand.result = result
            if _was_set(errand.change, result):
                self.applied[errand.change.disk.key] = errand.change

    def _intend(self, errands: Sequence[_Errand]) -> bool:
        """Record the intents. False when that cannot be done.

        Of a disk whose own limits do not change, only the entry of its device class is recorded.
        """
        own = [(errand, change) for errand in errands if (change := errand.change.own) is not None]
        try:
            if reductions := [each.change for each in errands if each.change.reduction is not None]:
                self._node_store.intend_reductions(reductions, self._now)
            ids = self._node_store.intend(
                [change for _, change in own], self._now, self._revision, self._situation.rules.revision
            )
        except StateError as error:
            self._notes.add(Code.NO_RECORD, error)
            return False
        for (errand, _), id_ in zip(own, ids, strict=True):
            errand.id = id_
        return True

    def follow(self, situation: Situation) -> None:
        """Save the factors that this pass applies, and how it splits ceilings. If that fails, nothing is reduced
        further.
        """
        try:
            if situation.following.saves:
                self._node_store.save_factors(situation.following.pools)
            if situation.ceilings.is_split:
                self._node_store.save_ceilings(situation.ceilings)
        except StateError as error:
            self._notes.add(Code.NO_RECORD, error)
            self._follows = False

    def marks(
        self, disks: Sequence[Disk], memory: Mapping[str, Remembered], *, saved: bool = True
    ) -> dict[str, Marks]:
        """By uuid the marks to write into guests; where the memory is not ``saved``, only those of changed disks."""
        if self._gave_up or self._pause() is not None:
            return {}
        if saved:
            return marks_to_write(disks, memory, self._situation.holds)
        return marks_of_changed(disks, self.applied, memory, self._situation.holds)

    def mark(self, marks: Mapping[str, Marks]) -> dict[str, Marks]:
        """Write marks into the guests; returns those that were written."""
        answering = {uuid: its for uuid, its in marks.items() if uuid not in self._writer.hung}
        return write_marks(self._hypervisor, answering, self._bounds, pause=self._pause)

    def conclude(self) -> None:
        """Record how the changes ended. Call it after they are remembered: a change that is open is settled later."""
        conclusions = [
            Conclusion(errand.id, _recorded(errand.change, errand.result), _detail(errand.result))
            for errand in self._errands
            if errand.id is not None and errand.result is not None
        ]
        now = self._now + timedelta(seconds=time.monotonic() - self._started)
        without_effect = (Kind.FAILED, Kind.DEFERRED, Kind.LEFT_ALONE)
        failures = [
            each.change
            for each in self._errands
            if each.change.reduction is not None and each.result is not None and each.result.kind in without_effect
        ]
        with self._notes.taking(Code.NO_RESULTS):
            if failures:
                self._node_store.intend_reductions(failures, now, failed=True)
            self._node_store.conclude(conclusions, now)


@dataclass(slots=True)
class _Errand:
    """A change in progress: its id in the record, and its result."""

    considered: Outcome
    change: Change
    id: int | None = None
    result: Result | None = None

    def outcome(self) -> Outcome:
        return replace(self.considered, result=self.result or self.considered.result)


def _results(pairs: Iterable[tuple[Outcome, _Errand | None]]) -> list[Outcome]:
    return [outcome if own is None else own.outcome() for outcome, own in pairs]


def _by_guest(errands: Iterable[_Errand]) -> dict[str, list[_Errand]]:
    """By uuid, each guest's in the order in which they are made."""
    guests: dict[str, list[_Errand]] = {}
    for errand in errands:
        guests.setdefault(errand.change.disk.guest.uuid, []).append(errand)
    for of_guest in guests.values():
        first, rest = in_order([errand.change for errand in of_guest])
        place = {change.disk.key: number for number, change in enumerate([*first, *rest])}
        of_guest.sort(key=lambda errand: place[errand.change.disk.key])
    return guests


def without_record(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The outcomes, without the planned changes that are not made without a record.

    Without a record a limit may only be lowered, or restored. A disk that is not changed also stops changes of its
    groups.
    """
    failure = Result(Kind.FAILED, because(Code.NO_RECORD, detail=""))
    return withheld(
        [
            replace(each, result=failure)
            if each.result.kind is Kind.PLANNED and each.change and _needs_record(each.change)
            else each
            for each in outcomes
        ]
    )


def _needs_record(change: Change) -> bool:
    """Whether it is not made without a record. A limit is restored then, but not reduced."""
    return change.direction.allows_more or _only_reduces(change)


def _only_reduces(change: Change) -> bool:
    return change.own is None and change.direction is Direction.LOWER


def _detail(result: Result) -> str | None:
    detail = result.reason.facts.get("detail")
    return str(detail) if detail else None


def _was_set(change: Change, result: Result) -> bool:
    """Whether the limits were in force: also where others, neither these nor those before, were read back. Those were
    set in between, so the next pass finds an external change.
    """
    if result.reason.code is not Code.READ_BACK_DIFFERS:
        return result.kind is Kind.CHANGED
    return result.reason.facts["actual"] not in (change.before.in_effect(), change.after.in_effect())


def _recorded(change: Change, result: Result) -> Ending:
    if _was_set(change, result):
        return Ending.DONE
    match result.kind:
        case Kind.UNKNOWN:
            return Ending.TIMED_OUT
        case Kind.FAILED if result.reason.code is Code.REJECTED:
            return Ending.REFUSED
        case _:
            return Ending.NOT_SENT
