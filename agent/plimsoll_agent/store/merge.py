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


def merged(base: Memory, ours: Memory, current: Memory, uuids: Collection[str]) -> Memory:
    """What to store of a pass that began with ``base`` and ends with ``ours``, while others left ``current``.

    ``uuids`` are those of the guests that only this pass could change since it read ``base``. Of the disks of
    other guests, holds and acknowledgements, what others changed counts.
    """
    return Memory(
        disks=merged_entries(base.disks, ours.disks, current.disks, uuids),
        holds=_changes_of(base.holds, ours.holds, current.holds),
        brake=_brake(base.brake, ours.brake, current.brake),
        acknowledged=_changes_of(base.acknowledged, ours.acknowledged, current.acknowledged),
    )


def merged_attachments(
    base: Attachments, ours: Attachments, current: Attachments, uuids: Collection[str]
) -> Attachments:
    return Attachments(
        merged_entries(base.volumes, ours.volumes, current.volumes, uuids),
        merged_entries(base.guests, ours.guests, current.guests, uuids),
    )


def merged_entries(
    base: Mapping[str, Value], ours: Mapping[str, Value], current: Mapping[str, Value], uuids: Collection[str]
) -> dict[str, Value]:
    """What is known of disks or guests, by ``Disk.key`` or uuid. An entry that others dropped comes back: the next
    pass drops it again, while a disk without an entry would be a new one to the brake.
    """
    entries = dict(current)
    for key in base.keys() | ours.keys():
        there = current.get(key)
        if there is None or there == base.get(key) or guest_of(key) in uuids:
            _put(entries, key, ours.get(key))
    return entries


def _changes_of(
    base: Mapping[str, Value], ours: Mapping[str, Value], current: Mapping[str, Value]
) -> dict[str, Value]:
    """What is stored, with our changes of entries that nothing else changed."""
    entries = dict(current)
    for key in base.keys() | ours.keys():
        if ours.get(key) != base.get(key) and current.get(key) == base.get(key):
            _put(entries, key, ours.get(key))
    return entries


def _put(entries: dict[str, Value], key: str, value: Value | None) -> None:
    if value is None:
        entries.pop(key, None)
    else:
        entries[key] = value


def _brake(base: BrakeMemory, ours: BrakeMemory, current: BrakeMemory) -> BrakeMemory:
    """Large changes of both count; a stop by either stays. Only passes over the whole node judge, one at a time."""
    recent = _changes_of(base.recent, ours.recent, current.recent)
    for key in ours.recent.keys() & current.recent.keys():
        if current.recent[key] != base.recent.get(key):
            recent[key] = max(ours.recent[key], current.recent[key])
    judgement = ours if replace(ours, stopped=None, recent={}) != replace(base, stopped=None, recent={}) else current
    stop = ours.stopped if current.stopped == base.stopped else current.stopped
    return replace(judgement, stopped=stop, recent=recent)
