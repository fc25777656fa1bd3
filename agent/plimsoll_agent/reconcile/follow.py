"""Limits and holds follow guests from node to node: a pass takes over the marks in guests, and writes them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from plimsoll_agent.errors import PlimsollError
from plimsoll_agent.model.disk import Disk
from plimsoll_agent.model.hypervisor import Hypervisor
from plimsoll_agent.model.marks import Marks
from plimsoll_agent.model.reason import Code, Reason, Unknown
from plimsoll_agent.policy.adoption import adopted, without_guests
from plimsoll_agent.policy.decide import Situation
from plimsoll_agent.reconcile.limit_writer import Bounds
from plimsoll_agent.store.node_store import Move, NodeStore
from plimsoll_agent.store.notes import Notes
from plimsoll_agent.store.state import StateError
from plimsoll_agent.util.concurrency import side_by_side
from plimsoll_agent.util.frozen import replace

LOG = logging.getLogger(__name__)


def with_what_came(
    situation: Situation, disks: Sequence[Disk], node_store: NodeStore, notes: Notes, *, read_only: bool
) -> Situation:
    """The situation with the limits and holds of guests that came from other nodes."""
    adoption = adopted(disks, situation.memory, situation.holds, situation.now)
    for guest in {disk.guest.uuid: disk.guest for disk in disks}.values():
        if isinstance(guest.marks, Unknown):
            notes.add(Code.MARK_UNREADABLE, f"{guest.name}: {guest.marks.reason.facts['detail']}")
    notes += adoption.notes
    if not read_only:
        # The hold counts even if it cannot be recorded: an operator made it on the other node.
        with notes.taking(Code.NO_RECORD):
            node_store.note_moves([(hold, Move.REPLACED) for hold in adoption.went], situation.now)
            node_store.note_moves([(hold, Move.CAME) for hold in adoption.came], situation.now)
    return replace(situation, memory={**situation.memory, **adoption.memory}, holds=adoption.holds)


def without_what_left(situation: Situation, hypervisor: Hypervisor, node_store: NodeStore) -> Situation:
    """The situation without the holds of guests that have left this node, once that is recorded."""
    try:
        rest = without_guests(situation.holds, hypervisor.knows, situation.now)
        node_store.note_moves([(hold, Move.LEFT) for hold in rest.went], situation.now)
    except (PlimsollError, StateError) as error:
        LOG.info("holds of guests that may have left are kept: %s", error)
        return situation
    keys = {hold.disk.key for hold in rest.went}
    # If the guest comes back with its old mark, the mark counts again.
    memory = {key: replace(entry, mark=None) if key in keys else entry for key, entry in situation.memory.items()}
    return replace(situation, memory=memory, holds=rest.holds)


def write_marks(
    hypervisor: Hypervisor, marks: Mapping[str, Marks], bounds: Bounds, *, pause: Callable[[], Reason | None]
) -> dict[str, Marks]:
    """Write marks into guests, by their uuids; best effort. Returns those that were written.

    ``pause`` is called before each write.
    """

    def write(uuid: str) -> bool:
        if pause() is not None:
            return False
        try:
            hypervisor.set_marks(uuid, marks[uuid])
        except PlimsollError as error:
            LOG.info("guest %s keeps its old mark: %s", uuid, error)
            return False
        return True

    return {uuid: marks[uuid] for uuid, took in side_by_side(write, list(marks), bounds.at_once) if took}
