"""The memory of a node to and from JSON: its disks, its holds and its brake; with earlier versions of the file."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from plimsoll_agent.model.acknowledged import Acknowledgement
from plimsoll_agent.model.approvals import Approval
from plimsoll_agent.model.holds import Hold
from plimsoll_agent.model.later import Later
from plimsoll_agent.model.memory import BrakeMemory, Remembered
from plimsoll_agent.util import decoding
from plimsoll_agent.util.decoding import as_json, data_of, several, value_of
from plimsoll_agent.util.frozen import frozen

LOG = logging.getLogger(__name__)

VERSION = 7
Entry = TypeVar("Entry", Hold, Acknowledgement)
MOST_REMEMBERED = 6 * 2**20
"""The most bytes for disks, enough for some 8,000: tenants could create any number of guests."""
_LATER_PARTS = "later", "mark", "source", "released", "taken_over"
"""Not in files of earlier releases."""


@frozen(kw_only=True)
class Memory:
    """What is remembered of disks, the holds, and the acknowledgements; all by ``Disk.key``."""

    disks: Mapping[str, Remembered] = field(default_factory=dict)
    holds: Mapping[str, Hold] = field(default_factory=dict)
    brake: BrakeMemory = field(default_factory=BrakeMemory)
    acknowledged: Mapping[str, Acknowledgement] = field(default_factory=dict)


Lines = Mapping[str, tuple[Remembered, str]]
"""Disks by ``Disk.key``, each with the text that was written last."""


def fitting(memory: Memory, before: Lines) -> Lines:
    """The disks that the file has room for: those seen last, of these first the attached ones.

    All that were rebuilt from the record were seen at once. The texts of those that are the same ``before`` are not
    made again.
    """
    room = MOST_REMEMBERED
    lines: dict[str, tuple[Remembered, str]] = {}

    def rank(item: tuple[str, Remembered]) -> tuple[datetime, bool]:
        return item[1].seen, item[1].attachment is not None

    for key, disk in sorted(memory.disks.items(), key=rank, reverse=True):
        former = before.get(key)
        line = former[1] if former and former[0] is disk else as_json(data_of(disk))
        size = len(key) + len(line)
        if size <= room:  # else a shorter one may have room: a mark may have brought the names of many rules
            room -= size
            lines[key] = disk, line
    return lines


def encoded(memory: Memory, lines: Lines, boot: str) -> str:
    """The file's text; ``lines`` are those of its disks, ``boot`` is the node's boot id."""
    disks = _lines((key, line) for key, (_, line) in sorted(lines.items()))
    holds = _lines((key, as_json(data_of(hold))) for key, hold in sorted(memory.holds.items()))
    notes = _lines((key, as_json(data_of(each))) for key, each in sorted(memory.acknowledged.items()))
    head = {"version": VERSION, "boot": boot, **data_of(memory.brake)}
    return f'{as_json(head)[:-1]},\n"disks": {disks},\n"holds": {holds},\n"acknowledged": {notes}}}\n'


def decoded(envelope: dict[str, Any], boot: str, path: Path) -> Memory:
    """The reverse of ``encoded``; ``path`` is for warnings. Raises what ``decoding.UNREADABLE`` names."""
    same_run = envelope.get("boot") == boot
    disks: dict[str, Remembered] = {}
    for key, value in {**envelope["disks"]}.items():
        try:
            disks[key] = _remembered(value, same_run)
        except decoding.UNREADABLE as error:  # plimsoll does not change a disk whose limits it does not remember
            why = decoding.complaint(error)
            LOG.warning("%s: the entry of disk %r cannot be read (%s) and is dropped", path, key, why)
    # Without its hold a disk could be raised: so a hold that cannot be read is an error.
    optional = "missing", "ignore_health", "region"
    holds = {key: _of(key, value_of(Hold, value, *optional)) for key, value in {**envelope["holds"]}.items()}
    acknowledgements: dict[str, Acknowledgement] = {}
    for key, value in {**envelope["acknowledged"]}.items():
        try:
            acknowledgements[key] = _of(key, value_of(Acknowledgement, value))
        except decoding.UNREADABLE as error:  # then its disk is counted again
            why = decoding.complaint(error)
            LOG.warning("%s: the acknowledgement of disk %r cannot be read (%s) and is dropped", path, key, why)
    let_through = several(partial(value_of, Approval), envelope.get("let_through", []))
    brake = value_of(BrakeMemory, {**envelope, "let_through": let_through}, "stopped")
    return Memory(disks=disks, holds=holds, brake=brake, acknowledged=acknowledgements)


def _remembered(value: Mapping[str, Any], same_run: bool) -> Remembered:
    own = {**value} if same_run else {**value, "attachment": None}
    if own.get("later"):
        own["later"] = several(partial(value_of, Later), own["later"])
    return value_of(Remembered, own, *_LATER_PARTS)


def _lines(values: Iterable[tuple[str, str]]) -> str:
    """A JSON object with a line for each entry: json with an indent is twenty times as slow."""
    return "{" + ",".join(f"\n {json.dumps(key)}: {value}" for key, value in values) + "}"


def _memory_from_3(envelope: dict[str, Any]) -> dict[str, Any]:
    """Version 3 had neither rules nor revision."""
    disks = {
        key: old | {"by_rules": [], "revision": None, "later": None} if isinstance(old, dict) else old
        for key, old in {**envelope["disks"]}.items()
    }
    return envelope | {"version": 4, "disks": disks, "judged": None, "recent": {}}


_RENAMED = {
    "wanted": "desired",
    "put": "applied",
    "kept": "enforced",
    "returns": "restore_to",
    "theirs": "foreign",
    "fought": "reverts",
    "fought_at": "reverted_at",
}


def _memory_from_4(envelope: dict[str, Any]) -> dict[str, Any]:
    """Version 4 had other keys."""
    disks = {
        key: {_RENAMED.get(name, name): value for name, value in old.items()} if isinstance(old, dict) else old
        for key, old in {**envelope["disks"]}.items()
    }
    return envelope | {"version": 5, "disks": disks}


def _memory_from_5(envelope: dict[str, Any]) -> dict[str, Any]:
    """Version 5 had no acknowledgements."""
    return envelope | {"version": 6, "acknowledged": {}}


def _memory_from_6(envelope: dict[str, Any]) -> dict[str, Any]:
    """Version 6 knew of no reduction, no change that is not in force yet, and no rules that an operator approved."""
    parts = dict.fromkeys(("pending", "reduced", "unreduced"))
    disks = {key: parts | old if isinstance(old, dict) else old for key, old in {**envelope["disks"]}.items()}
    return {"approved_rules": None} | envelope | {"version": 7, "disks": disks}


MIGRATIONS = {3: _memory_from_3, 4: _memory_from_4, 5: _memory_from_5, 6: _memory_from_6}
"""By the version from which each migrates."""


def _of(key: str, entry: Entry) -> Entry:
    if entry.disk.key != key:
        raise ValueError(f"is of {entry.disk.key!r}")
    return entry
