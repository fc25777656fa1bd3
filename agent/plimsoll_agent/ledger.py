"""What a pass leaves behind on the node: the record of its changes and the memory of what it wanted."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from plimsoll_agent.changes import Change
from plimsoll_agent.decide import Decision, Remembered, Situation, Wants
from plimsoll_agent.disk import Disk
from plimsoll_agent.limits import Limits
from plimsoll_agent.record import Conclusion, OpenChange, Record, Verdict
from plimsoll_agent.state import State

# A guest that is off keeps its place in the memory: it brings our limits along when it is started again.
KEPT_FOR = timedelta(days=30)


class Ledger:
    """Record and memory of one node, for a pass that may write. All of it raises ``StateError``."""

    def __init__(self, state: State, by: str) -> None:
        self._state = state
        self._record = Record(state.record)
        self._by = by

    def settle(self, disks: Sequence[Disk], now: datetime, *, everything: bool) -> dict[str, Remembered]:
        """Find out by what is in force how the changes ended whose outcome was not known.

        Returns what is to be remembered of those that took: limits of a pass that was killed are ours.
        """
        conclusions, ours = settled(self._record.unsettled(), disks, now, everything=everything)
        if conclusions:
            self._record.conclude(conclusions, now)
        return ours

    def remember(self, memory: Mapping[str, Remembered]) -> None:
        self._state.save_memory(memory)

    def intend(self, changes: Sequence[Change], now: datetime) -> list[int]:
        return self._record.intend(changes, now, self._by)

    def conclude(self, conclusions: Sequence[Conclusion], now: datetime) -> None:
        """Left undone, the intents stand, and the next pass settles them."""
        self._record.conclude(conclusions, now)


def settled(
    open_changes: Sequence[OpenChange], disks: Sequence[Disk], now: datetime, *, everything: bool
) -> tuple[list[Conclusion], dict[str, Remembered]]:
    """How each open change ended, and what to remember; left out are those that still cannot be told.

    ``everything`` says that ``disks`` are all there are, so that one which is not among them is gone.
    """
    present = {disk.key: disk for disk in disks}
    conclusions: list[Conclusion] = []
    ours: dict[str, Remembered] = {}
    for change in open_changes:
        disk = present.get(change.disk)
        if disk is None:
            if everything:
                conclusions.append(Conclusion(change.id, Verdict.GONE))
        elif disk.attachment != change.attachment:
            conclusions.append(Conclusion(change.id, Verdict.GONE))
        elif isinstance(disk.in_force, Limits):
            took = disk.in_force == change.after
            conclusions.append(Conclusion(change.id, Verdict.TOOK if took else Verdict.DID_NOT_TAKE))
            if took or disk.defined == change.after:  # somebody may have come after us, behind libvirt's back
                ours[disk.key] = Remembered(change.after, now, now, change.after, disk.attachment)
    return conclusions, ours


@dataclass(frozen=True, slots=True)
class Sight:
    """What a pass saw of the node, for the memory: decisions for its disks, and guests that it did not see.

    ``put`` is what plimsoll put in force in this pass, by ``Disk.key``; ``unseen`` are the uuids of guests
    that could not be looked at or were out of scope. Whoever is in neither is away.
    """

    decided: Sequence[tuple[Disk, Decision]]
    put: Mapping[str, Limits]
    unseen: Collection[str]


def remembering(situation: Situation, sight: Sight) -> dict[str, Remembered]:
    """The memory after a pass."""
    now = situation.now
    looked_at = {disk.guest.uuid for disk, _ in sight.decided}
    kept: dict[str, Remembered] = {}
    for key, old in situation.memory.items():
        uuid = key.partition("/")[0]
        if uuid in sight.unseen:
            kept[key] = old
        elif uuid not in looked_at and now - old.seen < KEPT_FOR:
            kept[key] = replace(old, attachment=None)
    for disk, decision in sight.decided:
        old_one = situation.ours(disk)
        if isinstance(decision.wanted, Wants):
            kept[disk.key] = _remembered(disk, decision.wanted.limits, old_one, sight.put.get(disk.key), now)
        elif old_one is not None:  # still ours, though nothing is wanted of it now
            kept[disk.key] = replace(old_one, seen=now, attachment=disk.attachment)
    return kept


def _remembered(disk: Disk, wanted: Limits, old: Remembered | None, put: Limits | None, now: datetime) -> Remembered:
    since = old.since if old is not None and old.wanted == wanted else now
    if put is None and old is not None:
        put = old.put
    return Remembered(wanted, since, now, put, disk.attachment)
