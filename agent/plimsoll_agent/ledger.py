"""What a pass leaves behind on the node: the record of its changes and the memory of what it wanted."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from plimsoll_agent.changes import Change
from plimsoll_agent.decide import Decision, Remembered, Situation, Wants
from plimsoll_agent.disk import Disk
from plimsoll_agent.limits import Limits
from plimsoll_agent.record import OpenChange, Record, Verdict
from plimsoll_agent.state import State, StateError

LOG = logging.getLogger(__name__)


class Ledger:
    """Record and memory of one node, for a pass that may write."""

    def __init__(self, state: State, by: str) -> None:
        self._state = state
        self._record = Record(state.record)
        self._by = by

    def settle(self, disks: Sequence[Disk], now: datetime, *, everything: bool) -> None:
        """Find out by what is in force how the changes ended whose outcome was not known."""
        try:
            verdicts = settled(self._record.unsettled(), disks, everything=everything)
            if verdicts:
                self._record.conclude([(id_, verdict, None) for id_, verdict in verdicts], now)
        except StateError as error:
            LOG.warning("earlier changes stay unsettled: %s", error)

    def remember(self, memory: Mapping[str, Remembered]) -> None:
        """Raises ``StateError``."""
        self._state.save_memory(memory)

    def intend(self, changes: Sequence[Change], now: datetime) -> list[int]:
        """Raises ``StateError``."""
        return self._record.intend(changes, now, self._by)

    def conclude(self, verdicts: Sequence[tuple[int, Verdict, str | None]], now: datetime) -> None:
        try:
            self._record.conclude(verdicts, now)
        except StateError as error:
            # The intents stand; the next pass settles them by reading back.
            LOG.warning("the results of %d changes are not in the record: %s", len(verdicts), error)


def settled(
    open_changes: Sequence[OpenChange], disks: Sequence[Disk], *, everything: bool
) -> list[tuple[int, Verdict]]:
    """How each open change ended; left out are those that still cannot be told.

    ``everything`` says that ``disks`` are all there are, so that one which is not among them is gone.
    """
    present = {disk.key: disk for disk in disks}
    verdicts: list[tuple[int, Verdict]] = []
    for change in open_changes:
        disk = present.get(change.disk)
        if disk is None:
            if everything:
                verdicts.append((change.id, Verdict.GONE))
        elif disk.attachment != change.attachment:
            verdicts.append((change.id, Verdict.GONE))
        elif isinstance(disk.in_force, Limits):
            took = disk.in_force == change.after
            verdicts.append((change.id, Verdict.TOOK if took else Verdict.DID_NOT_TAKE))
    return verdicts


def remembering(
    situation: Situation,
    decided: Sequence[tuple[Disk, Decision]],
    *,
    claimed: Collection[str],
    unseen: Collection[str],
) -> dict[str, Remembered]:
    """The memory after a pass: what it wants for each disk it saw, and all of the guests it did not see.

    ``claimed`` are the keys of disks whose limits plimsoll sets in this pass, ``unseen`` the uuids of guests
    that could not be looked at or were out of scope.
    """
    kept = {key: old for key, old in situation.memory.items() if key.partition("/")[0] in unseen}
    for disk, decision in decided:
        old = situation.ours(disk)
        if isinstance(decision.wanted, Wants):
            kept[disk.key] = _wanted(disk, decision.wanted, old, situation.now, disk.key in claimed)
        elif old is not None:  # still ours, though nothing is wanted of it now
            kept[disk.key] = old
    return kept


def _wanted(disk: Disk, wants: Wants, old: Remembered | None, now: datetime, claimed: bool) -> Remembered:
    since = old.since if old is not None and old.wanted == wants.limits else now
    enforced = claimed or (old is not None and old.enforced)
    return Remembered(wants.limits, wants.reason, since, disk.attachment, enforced)
