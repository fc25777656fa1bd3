"""The memory of a node to and from JSON: its disks, its holds and its brake; with earlier versions of the file."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Any

from plimsoll_agent.model.acknowledged import Acknowledgement
from plimsoll_agent.model.approvals import Approval, is_digest
from plimsoll_agent.model.disk import DiskName
from plimsoll_agent.model.holds import Hold
from plimsoll_agent.model.later import Later
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.memory import BrakeMemory, Pending, Remembered
from plimsoll_agent.model.reason import Code
from plimsoll_agent.util import decoding
from plimsoll_agent.util.decoding import count, flag, mapping, maybe, several, text, time
from plimsoll_agent.util.frozen import asdict, frozen

LOG = logging.getLogger(__name__)

VERSION = 6
MOST_REMEMBERED = 6 * 2**20
"""The most bytes for disks, enough for some 8,000: tenants could create any number of guests."""


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
    """The disks that the file has room for. The texts of those that are the same ``before`` are not made again."""
    room = MOST_REMEMBERED
    lines: dict[str, tuple[Remembered, str]] = {}
    for key, disk in sorted(memory.disks.items(), key=lambda item: item[1].seen, reverse=True):
        former = before.get(key)
        line = former[1] if former and former[0] is disk else json.dumps(_remembered_data(disk))
        size = len(key) + len(line)
        if size <= room:  # else a shorter one may have room: a mark may have brought the names of many rules
            room -= size
            lines[key] = disk, line
    return lines


def encoded(memory: Memory, lines: Lines, boot: str) -> str:
    """The file's text; ``lines`` are those of its disks, ``boot`` is the node's boot id."""
    disks = _lines((key, line) for key, (_, line) in sorted(lines.items()))
    holds = _lines((key, json.dumps(_hold_data(hold))) for key, hold in sorted(memory.holds.items()))
    notes = _lines((key, json.dumps(_acknowledged_data(each))) for key, each in sorted(memory.acknowledged.items()))
    head = {"version": VERSION, "boot": boot, **_brake_data(memory.brake)}
    return f'{json.dumps(head)[:-1]},\n"disks": {disks},\n"holds": {holds},\n"acknowledged": {notes}}}\n'


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
    holds = {key: _hold(key, value) for key, value in {**envelope["holds"]}.items()}
    acknowledgements: dict[str, Acknowledgement] = {}
    for key, value in {**envelope["acknowledged"]}.items():
        try:
            acknowledgements[key] = _acknowledgement(key, value)
        except decoding.UNREADABLE as error:  # then its disk is counted again
            why = decoding.complaint(error)
            LOG.warning("%s: the acknowledgement of disk %r cannot be read (%s) and is dropped", path, key, why)
    return Memory(disks=disks, holds=holds, brake=_brake(envelope), acknowledged=acknowledgements)


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


MIGRATIONS = {3: _memory_from_3, 4: _memory_from_4, 5: _memory_from_5}
"""By the version from which each migrates."""


def read_approval(value: Any) -> Approval:
    """Raises what ``decoding.UNREADABLE`` names."""
    if not is_digest(text(value["digest"])):
        raise ValueError("not an approval")
    return Approval(value["digest"], flag(value["remove"]))


def _brake_data(brake: BrakeMemory) -> dict[str, object]:
    let_through = [asdict(each) for each in brake.let_through]
    return {
        "judged": brake.judged,
        **({"let_through": let_through} if let_through else {}),
        **({} if brake.approved_rules is None else {"approved_rules": brake.approved_rules}),
        **({} if brake.stopped is None else {"stopped": brake.stopped}),
        "recent": {key: at.isoformat() for key, at in sorted(brake.recent.items())},
    }


def _brake(envelope: dict[str, Any]) -> BrakeMemory:
    return BrakeMemory(
        judged=maybe(text, envelope["judged"]),
        let_through=several(read_approval, envelope.get("let_through", [])),
        approved_rules=maybe(text, envelope.get("approved_rules")),
        stopped=maybe(text, envelope.get("stopped")),
        recent=mapping(time, envelope["recent"]),
    )


def _later_data(later: tuple[Later, ...] | None) -> list[dict[str, object]] | None:
    if later is None:
        return None
    return [
        {
            "at": each.at.isoformat(),
            "limits": _limits_data(each.limits),
            "by_type": each.by_type,
            "source": None if each.source is None else each.source.value,
        }
        for each in later
    ]


def _later(value: Any) -> Later:
    limits = maybe(Limits.from_mapping, value["limits"])
    return Later(
        at=time(value["at"]),
        limits=limits,
        by_type=maybe(text, value["by_type"]),
        source=maybe(Code, value["source"]),
    )


def _pending_data(pending: Pending) -> dict[str, object]:
    return {
        "before": _limits_data(pending.before),
        "at": pending.at.isoformat(),
        "revision": pending.revision,
        "rules": pending.rules,
    }


def _pending(value: Any) -> Pending:
    return Pending(
        before=Limits.from_mapping(value["before"]),
        at=time(value["at"]),
        revision=maybe(text, value["revision"]),
        rules=text(value["rules"]),
    )


def _remembered_data(disk: Remembered) -> dict[str, object]:
    return {
        "desired": _limits_data(disk.desired),
        "since": disk.since.isoformat(),
        "seen": disk.seen.isoformat(),
        "applied": _limits_data(disk.applied),
        "attachment": disk.attachment,
        "restore_to": _limits_data(disk.restore_to),
        "foreign": disk.foreign,
        "enforced": disk.enforced,
        "by_type": disk.by_type,
        **({} if disk.later == () else {"later": _later_data(disk.later)}),
        **({} if disk.mark is None else {"mark": disk.mark}),
        **({} if disk.source is None else {"source": disk.source.value}),
        **({} if disk.released is None else {"released": disk.released}),
        **({} if disk.taken_over is None else {"taken_over": disk.taken_over.isoformat()}),
        **({} if disk.pending is None else {"pending": _pending_data(disk.pending)}),
        "by_rules": list(disk.by_rules),
        "revision": disk.revision,
        "reverts": disk.reverts,
        "reverted_at": None if disk.reverted_at is None else disk.reverted_at.isoformat(),
    }


def _remembered(value: Any, same_run: bool) -> Remembered:
    return Remembered(
        desired=maybe(Limits.from_mapping, value["desired"]),
        since=time(value["since"]),
        seen=time(value["seen"]),
        applied=maybe(Limits.from_mapping, value["applied"]),
        attachment=maybe(text, value["attachment"]) if same_run else None,
        restore_to=maybe(Limits.from_mapping, value["restore_to"]),
        foreign=flag(value["foreign"]),
        enforced=flag(value["enforced"]),
        by_type=maybe(text, value["by_type"]),
        by_rules=several(text, value["by_rules"]),
        revision=maybe(text, value["revision"]),
        later=maybe(partial(several, _later), value.get("later", [])),
        mark=maybe(text, value.get("mark")),
        source=maybe(Code, value.get("source")),
        released=maybe(text, value.get("released")),
        taken_over=maybe(time, value.get("taken_over")),
        pending=maybe(_pending, value.get("pending")),
        reverts=count(value["reverts"], below=10**9),
        reverted_at=maybe(time, value["reverted_at"]),
    )


def _hold_data(hold: Hold) -> dict[str, object]:
    return {
        "disk": asdict(hold.disk),
        "limits": _limits_data(hold.limits),
        "since": hold.since.isoformat(),
        "until": hold.until.isoformat(),
        "by": hold.by,
        "why": hold.why,
        **({} if hold.missing is None else {"missing": hold.missing.isoformat()}),
        "ignore_health": hold.ignore_health,
    }


def _hold(key: str, value: Any) -> Hold:
    disk = DiskName.read(value["disk"])
    if disk.key != key:
        raise ValueError(f"a hold for {disk.key!r}")
    return Hold(
        disk=disk,
        limits=maybe(Limits.from_mapping, value["limits"]),
        since=time(value["since"]),
        until=time(value["until"]),
        by=text(value["by"]),
        why=text(value["why"]),
        missing=maybe(time, value.get("missing")),
        ignore_health=flag(value.get("ignore_health", False)),
    )


def _acknowledged_data(acknowledgement: Acknowledgement) -> dict[str, object]:
    return {
        "disk": asdict(acknowledgement.disk),
        "since": acknowledgement.since.isoformat(),
        "until": acknowledgement.until.isoformat(),
        "by": acknowledgement.by,
        "why": acknowledgement.why,
    }


def _acknowledgement(key: str, value: Any) -> Acknowledgement:
    disk = DiskName.read(value["disk"])
    if disk.key != key:
        raise ValueError(f"an acknowledgement of {disk.key!r}")
    return Acknowledgement(
        disk=disk,
        since=time(value["since"]),
        until=time(value["until"]),
        by=text(value["by"]),
        why=text(value["why"]),
    )


def _limits_data(limits: Limits | None) -> dict[str, int | str] | None:
    return None if limits is None else limits.in_effect()
