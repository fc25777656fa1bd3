"""``LastPass`` as a file in the state directory, and back."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, astuple, fields
from datetime import datetime
from pathlib import Path
from typing import Any

from plimsoll_agent import files
from plimsoll_agent.catalogue import UNREADABLE, flag, text, text_or_none, time, whole_number
from plimsoll_agent.disk import DiskName
from plimsoll_agent.hypervisor import BlockStats, GuestRef
from plimsoll_agent.lastpass import Grade, LastCatalogue, LastDisk, LastPass, Totals
from plimsoll_agent.limits import Limits
from plimsoll_agent.outcome import Kind, Overlooked
from plimsoll_agent.reason import Reason
from plimsoll_agent.refreshdir import Calls
from plimsoll_agent.report import printable
from plimsoll_agent.state import LAST_PASS, CorruptState, State, StateError
from plimsoll_agent.usage import Rates, Reading

# A node's thousand disks are some 2 MiB; whoever makes it larger than this means harm.
MOST_BYTES = 8 * 2**20
# What is wrong may be as long as the file.
_LONGEST_COMPLAINT = 200


def load(state: State) -> LastPass | None:
    """None where there was no pass yet. Raises ``CorruptState``, ``StateError``."""
    path = state.last_pass
    try:
        content = files.read_whole(path, MOST_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StateError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        value = json.loads(content.decode("utf-8"))
        version = whole_number(value["version"])
        if version == LAST_PASS.version:
            return _last_pass(value)
    except UNREADABLE as error:
        why = printable(f"{type(error).__name__}: {error}"[:_LONGEST_COMPLAINT])
        raise CorruptState(f"{path}: is corrupt: {why}") from error
    raise StateError(
        f"{path}: written by another plimsoll (version {version}, known is {LAST_PASS.version}); the next pass"
        " writes it anew"
    )


def save(state: State, last: LastPass) -> None:
    """Replace the file as a whole. Raises ``StateError``."""
    data = _data(last)
    disks = ",".join(f"\n {json.dumps(_disk_data(disk))}" for disk in last.disks)
    head = json.dumps({"version": LAST_PASS.version} | data)
    path: Path = state.last_pass
    try:
        files.write_whole(path, f'{head[:-1]},\n"disks": [{disks}]}}\n')
    except OSError as error:
        raise StateError(f"{path}: cannot be written: {error.strerror}") from error


def _data(last: LastPass) -> dict[str, object]:
    return {
        "plimsoll": last.version,
        "boot": last.boot,
        "started": last.started.isoformat(),
        "ended": last.ended.isoformat(),
        "grade": last.grade.value,
        "enforcing": last.enforcing,
        "trouble": last.trouble,
        "looked": _or_none(last.looked, datetime.isoformat),
        "last_good": _or_none(last.last_good, datetime.isoformat),
        "phases": dict(last.phases),
        "interval": last.interval,
        "overlooked": [[each.guest.uuid, each.guest.name, each.reason.as_record()] for each in last.overlooked],
        "guests": last.guests,
        "notes": [note.as_record() for note in last.notes],
        "paused": _or_none(last.paused, Reason.as_record),
        "braked": last.braked,
        "braked_disks": last.braked_disks,
        "holds": last.holds,
        "sources": dict(last.sources),
        "catalogue": _or_none(last.catalogue, _catalogue_data),
        "calls": asdict(last.calls),
        "busy": last.busy,
        "totals": {
            "passes": {grade.value: number for grade, number in last.totals.passes.items()},
            "outcomes": {kind.value: number for kind, number in last.totals.outcomes.items()},
            "corrected": dict(last.totals.corrected),
        },
        "unseen": dict(last.unseen),
    }


def _catalogue_data(catalogue: LastCatalogue) -> dict[str, object]:
    return {
        "issued": _or_none(catalogue.issued, datetime.isoformat),
        "source": catalogue.source,
        "old_after": catalogue.old_after,
    }


def _disk_data(disk: LastDisk) -> dict[str, object]:
    reading = disk.reading
    return {
        "named": asdict(disk.named),
        "volume_type": disk.volume_type,
        "flavor": disk.flavor,
        "cluster": disk.cluster,
        "kind": disk.kind.value,
        "reason": disk.reason.as_record(),
        "in_force": _or_none(disk.in_force, Limits.in_effect),
        "wanted": _or_none(disk.wanted, Limits.in_effect),
        "drifted": disk.drifted,
        "corrected": disk.corrected,
        "attachment": disk.attachment,
        "reading": None if reading is None else [reading.at, *astuple(reading.stats)],
        "rates": _or_none(disk.rates, astuple),
        "shares": dict(disk.shares),
        "allowed": dict(disk.allowed),
    }


def _or_none(value: Any, data: Callable[[Any], object]) -> object:
    return None if value is None else data(value)


def _last_pass(value: Mapping[str, Any]) -> LastPass:
    totals = value["totals"]
    return LastPass(
        version=text(value["plimsoll"]),
        boot=text(value["boot"]),
        started=time(value["started"]),
        ended=time(value["ended"]),
        grade=Grade(value["grade"]),
        enforcing=flag(value["enforcing"]),
        trouble=text(value["trouble"]),
        looked=_or(value["looked"], time),
        last_good=_or(value["last_good"], time),
        phases=_numbers(value["phases"]),
        interval=_or(value["interval"], _number),
        disks=tuple(map(_disk, value["disks"])),
        overlooked=tuple(
            Overlooked(GuestRef(text(uuid), text(name)), Reason.from_record(reason))
            for uuid, name, reason in value["overlooked"]
        ),
        guests=whole_number(value["guests"]),
        notes=tuple(map(Reason.from_record, value["notes"])),
        paused=_or(value["paused"], Reason.from_record),
        braked=text_or_none(value["braked"]),
        braked_disks=whole_number(value["braked_disks"]),
        holds=whole_number(value["holds"]),
        sources={text(name): flag(up) for name, up in value["sources"].items()},
        catalogue=_or(value["catalogue"], _catalogue),
        calls=Calls(
            whole_number(value["calls"]["good"]),
            whole_number(value["calls"]["failed"]),
            _counts(value["calls"]["of_service"]),
        ),
        busy=whole_number(value["busy"]),
        totals=Totals(
            {Grade(name): number for name, number in _counts(totals["passes"]).items()},
            {Kind(name): number for name, number in _counts(totals["outcomes"]).items()},
            _counts(totals["corrected"]),
        ),
        unseen=_counts(value["unseen"]),
    )


def _catalogue(value: Mapping[str, Any]) -> LastCatalogue:
    return LastCatalogue(_or(value["issued"], time), text(value["source"]), whole_number(value["old_after"]))


def _disk(value: Mapping[str, Any]) -> LastDisk:
    return LastDisk(
        named=DiskName.read(value["named"]),
        volume_type=text_or_none(value["volume_type"]),
        flavor=text_or_none(value["flavor"]),
        cluster=text_or_none(value["cluster"]),
        kind=Kind(value["kind"]),
        reason=Reason.from_record(value["reason"]),
        in_force=_or(value["in_force"], Limits.from_mapping),
        wanted=_or(value["wanted"], Limits.from_mapping),
        drifted=flag(value["drifted"]),
        corrected=whole_number(value["corrected"]),
        attachment=text(value["attachment"]),
        reading=_or(value["reading"], _reading),
        rates=_or(value["rates"], _rates),
        shares=_numbers(value["shares"]),
        allowed=_numbers(value["allowed"]),
    )


def _reading(value: Any) -> Reading:
    at, *counters = value
    return Reading(_number(at), BlockStats(*map(whole_number, counters)))


def _rates(value: Any) -> Rates:
    rates = [_number(each) for each in value]
    if len(rates) != len(fields(Rates)):
        raise ValueError("no rates")
    return Rates(*rates)


def _or(value: Any, read: Callable[[Any], Any]) -> Any:
    return None if value is None else read(value)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise ValueError(f"{value!r} is no number from 0 on")
    return float(value)


def _numbers(value: Any) -> dict[str, float]:
    return {text(name): _number(number) for name, number in value.items()}


def _counts(value: Any) -> dict[str, int]:
    return {text(name): whole_number(number) for name, number in value.items()}
