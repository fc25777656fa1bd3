"""The memory of the node after passes and commands side by side: what each of them changed. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeVar

from plimsoll_agent.catalogue.attachments import Attachments
from plimsoll_agent.model.disk import guest_of
from plimsoll_agent.model.memory import BrakeMemory
from plimsoll_agent.store.memory_file import Memory
from plimsoll_agent.util.frozen import replace

Value = TypeVar("Value")


def merged(base: Memory, ours: Memory, stored: Memory, locked: Collection[str]) -> Memory:
    """What to store of a pass that began with ``base`` and ends with ``ours``, while others left ``stored``.

    ``locked`` are the uuids of the guests that only this pass could change since it read ``base``. Of the disks of
    other guests, holds and acknowledgements, what others changed counts.
    """
    return Memory(
        disks=merged_entries(base.disks, ours.disks, stored.disks, locked),
        holds=_changes_of(base.holds, ours.holds, stored.holds),
        brake=_brake(base.brake, ours.brake, stored.brake),
        acknowledged=_changes_of(base.acknowledged, ours.acknowledged, stored.acknowledged),
    )


def merged_attachments(
    base: Attachments, ours: Attachments, stored: Attachments, locked: Collection[str]
) -> Attachments:
    return Attachments(
        merged_entries(base.volumes, ours.volumes, stored.volumes, locked),
        merged_entries(base.guests, ours.guests, stored.guests, locked),
    )


def merged_entries(
    base: Mapping[str, Value], ours: Mapping[str, Value], stored: Mapping[str, Value], locked: Collection[str]
) -> dict[str, Value]:
    """What is known of disks or guests, by ``Disk.key`` or uuid. An entry that others dropped comes back: the next
    pass drops it again, while a disk without an entry would be a new one to the brake.
    """
    entries = dict(stored)
    for key in base.keys() | ours.keys():
        there = stored.get(key)
        if there is None or there == base.get(key) or guest_of(key) in locked:
            _put(entries, key, ours.get(key))
    return entries


def _changes_of(
    base: Mapping[str, Value], ours: Mapping[str, Value], stored: Mapping[str, Value]
) -> dict[str, Value]:
    """What is stored, with our changes of entries that nothing else changed."""
    entries = dict(stored)
    for key in base.keys() | ours.keys():
        if ours.get(key) != base.get(key) and stored.get(key) == base.get(key):
            _put(entries, key, ours.get(key))
    return entries


def _put(entries: dict[str, Value], key: str, value: Value | None) -> None:
    if value is None:
        entries.pop(key, None)
    else:
        entries[key] = value


def _brake(base: BrakeMemory, ours: BrakeMemory, stored: BrakeMemory) -> BrakeMemory:
    """Large changes of both count; a stop by either stays. Only passes over the whole node judge, one at a time."""
    recent = _changes_of(base.recent, ours.recent, stored.recent)
    for key in ours.recent.keys() & stored.recent.keys():
        if stored.recent[key] != base.recent.get(key):
            recent[key] = max(ours.recent[key], stored.recent[key])
    judged = ours if (ours.judged, ours.let_through) != (base.judged, base.let_through) else stored
    stopped = ours.stopped if stored.stopped == base.stopped else stored.stopped
    return replace(judged, stopped=stopped, recent=recent)
