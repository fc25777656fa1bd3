"""What a pass does so that limits and holds follow guests from node to node: take over marks, and write them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from plimsoll_agent.adoption import adopted, marks_to_write, without_guests
from plimsoll_agent.crew import side_by_side
from plimsoll_agent.decide import Remembered, Situation
from plimsoll_agent.disk import Disk
from plimsoll_agent.errors import PlimsollError
from plimsoll_agent.hypervisor import Hypervisor
from plimsoll_agent.ledger import Ledger, Move
from plimsoll_agent.marks import Mark, Marks
from plimsoll_agent.observe import is_hung
from plimsoll_agent.reason import Code, Reason, Unknown, because
from plimsoll_agent.state import StateError
from plimsoll_agent.write import Bounds

LOG = logging.getLogger(__name__)


def with_what_came(
    situation: Situation, disks: Sequence[Disk], ledger: Ledger, *, look_only: bool
) -> tuple[Situation, list[Reason]]:
    """The situation with what guests brought along from other nodes, and what is to be said of it."""
    taken = adopted(disks, situation.memory, situation.holds, situation.now)
    notes = [*_unreadable(disks), *taken.notes]
    if not look_only:
        # The hold counts all the same where no record can be written: it is somebody's word of the other node.
        try:
            ledger.note_moves([(hold, Move.REPLACED) for hold in taken.went], situation.now)
            ledger.note_moves([(hold, Move.CAME) for hold in taken.came], situation.now)
        except StateError as error:
            notes.append(because(Code.NO_RECORD, detail=str(error)))
    memory = {**situation.memory, **taken.memory}
    return replace(situation, memory=memory, holds=taken.holds), notes


def _unreadable(disks: Iterable[Disk]) -> list[Reason]:
    guests = {disk.guest.uuid: disk.guest for disk in disks}.values()
    return [
        because(Code.MARK_UNREADABLE, detail=f"{guest.name}: {guest.marks.reason.facts['detail']}")
        for guest in guests
        if isinstance(guest.marks, Unknown)
    ]


def without_what_left(situation: Situation, hypervisor: Hypervisor, ledger: Ledger) -> Situation:
    """The situation without the holds of guests that have left this node; not before the record tells."""
    try:
        left = without_guests(situation.holds, hypervisor.knows, situation.now)
        ledger.note_moves([(hold, Move.LEFT) for hold in left.went], situation.now)
    except (PlimsollError, StateError) as error:
        LOG.info("holds of guests that may have left stay: %s", error)
        return situation
    gone = {hold.disk.key for hold in left.went}
    # Should the guest come back with the very mark that it left with, that counts.
    memory = {key: replace(known, mark=None) if key in gone else known for key, known in situation.memory.items()}
    return replace(situation, memory=memory, holds=left.holds)


def mark(
    hypervisor: Hypervisor,
    disks: Sequence[Disk],
    memory: Mapping[str, Remembered],
    situation: Situation,
    bounds: Bounds,
    *,
    stopped: Callable[[], Reason | None],
) -> dict[str, Remembered]:
    """Write what is to follow the guests, where it is other than what they have; best effort.

    ``stopped`` is asked before each write.
    Returns the memory with the marks that the disks have now.
    """
    wanted = marks_to_write(disks, memory, situation.holds)
    hung: set[str] = set()

    def write(uuid: str) -> bool:
        if len(hung) >= bounds.hung_guests or stopped() is not None:
            return False
        try:
            hypervisor.set_marks(uuid, wanted[uuid])
        except PlimsollError as error:
            LOG.info("guest %s keeps the mark that it has: %s", uuid, error)
            if is_hung(error):
                hung.add(uuid)
            return False
        return True

    took = {uuid for uuid, done in side_by_side(write, list(wanted), bounds.at_once) if done}
    now = {disk.key: _mark_of(disk, wanted if disk.guest.uuid in took else {}) for disk in disks}
    return {
        key: known if key not in now else replace(known, mark=None if (its := now[key]) is None else its.digest)
        for key, known in memory.items()
    }


def _mark_of(disk: Disk, written: Mapping[str, Marks]) -> Mark | None:
    marks = written.get(disk.guest.uuid)
    return disk.mark if marks is None else marks.by_disk.get(disk.within_guest)
