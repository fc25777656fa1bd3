"""Reads and writes ``LastPass`` as a file in the state directory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from plimsoll_agent.congestion.signal import Wait
from plimsoll_agent.model.hypervisor import GuestRef
from plimsoll_agent.model.reason import Reason
from plimsoll_agent.model.usage import Rates, Reading
from plimsoll_agent.monitor.pass_summary import LastDisk, LastPass, Totals
from plimsoll_agent.reconcile.outcome import UnreachableGuest
from plimsoll_agent.store.refresh_state import Calls
from plimsoll_agent.store.state import LAST_PASS, CorruptState, State, StateError
from plimsoll_agent.util import decoding, files
from plimsoll_agent.util.decoding import as_json, count, data_of, maybe, number, several, value_of
from plimsoll_agent.util.frozen import astuple, names

# A thousand disks are some 2 MiB.
MOST_BYTES = 8 * 2**20


def load(state: State) -> LastPass | None:
    """None before the first pass. Raises ``CorruptState``, ``StateError``."""
    path = state.last_pass

    def of(value: Any) -> LastPass:
        version, current = count(value["version"]), LAST_PASS.version or 0
        if version > current:
            raise StateError(f"{path}: written by a newer version; the next pass here replaces it")
        if version not in (3, 4, 5, current):
            raise StateError(f"{path}: written by an older version; the next pass replaces it")
        if version < 5:
            value = {**value, "missing": []}
        return _last_pass(_from_3(value) if version == 3 else value)

    return decoding.load(path, MOST_BYTES, of, StateError, corrupt=CorruptState)


def _from_3(value: Mapping[str, Any]) -> dict[str, Any]:
    """It told neither the times of requests nor guests' servers, and the next pass does."""

    def longer(numbers: list[object] | None) -> list[object] | None:
        return None if numbers is None else [*numbers, None]

    new = [disk | {"reading": longer(disk["reading"]), "rates": longer(disk["rates"])} for disk in value["disks"]]
    return {**value, "servers": {}, "disks": new}


def save(state: State, last: LastPass) -> None:
    """Replace the file as a whole. Raises ``StateError``."""
    data = data_of(last)
    disks = ",".join(f"\n {as_json(_disk_data(*both))}" for both in zip(data.pop("disks"), last.disks, strict=True))
    of_other_form = {
        "plimsoll": data.pop("version"),
        "unreachable": [[each.guest.uuid, each.guest.name, each.reason.as_record()] for each in last.unreachable],
        "notes": [note.as_record() for note in last.notes],
        "paused": maybe(Reason.as_record, last.paused),
        "unread": {key: [attachment, _reading_data(reading)] for key, (attachment, reading) in last.unread.items()},
        **{name: sorted(data[name]) for name in ("paused_guests", "hung_guests", "healthy")},
    }
    data["totals"]["light"] = [[*pool, *astuple(wait)] for pool, wait in last.totals.light.items()]
    head = as_json({"version": LAST_PASS.version} | data | of_other_form)
    path: Path = state.last_pass
    files.save(path, f'{head[:-1]},\n"disks": [{disks}]}}\n', StateError)


def _reading_data(reading: Reading) -> list[object]:
    return [reading.at, *astuple(reading.stats)]


def _disk_data(data: dict[str, object], disk: LastDisk) -> dict[str, object]:
    return data | {
        "reason": disk.reason.as_record(),
        "reading": maybe(_reading_data, disk.reading),
        "acknowledged": maybe(Reason.as_record, disk.acknowledged),
    }


_OPTIONAL = (
    *("unread", "paused_guests", "hung_guests", "healthy", "guests_to_probe", "ceilings", "position", "stage"),
    "kernel_mapped",
)


def _last_pass(value: Mapping[str, Any]) -> LastPass:
    light = dict(several(_light, value["totals"].get("light", [])))
    of_other_form = {
        "version": value["plimsoll"],
        "disks": several(_disk, value["disks"]),
        "unreachable": [
            UnreachableGuest(value_of(GuestRef, {"uuid": uuid, "name": name}), Reason.from_record(reason))
            for uuid, name, reason in value["unreachable"]
        ],
        "notes": several(Reason.from_record, value["notes"]),
        "paused": maybe(Reason.from_record, value["paused"]),
        "calls": value_of(Calls, value["calls"]),
        "totals": value_of(Totals, value["totals"] | {"light": light}),
        "unread": {key: (attachment, _reading(of)) for key, (attachment, of) in value.get("unread", {}).items()},
    }
    return value_of(LastPass, {**value, **of_other_form}, *_OPTIONAL)


def _disk(value: Mapping[str, Any]) -> LastDisk:
    of_other_form = {
        "reason": Reason.from_record(value["reason"]),
        "reading": maybe(_reading, value["reading"]),
        "rates": maybe(_rates, value["rates"]),
        "acknowledged": maybe(Reason.from_record, value["acknowledged"]),
    }
    return value_of(LastDisk, {**value, **of_other_form}, "saved", "unreduced", "device_class")


def _light(value: Any) -> tuple[object, Wait]:
    cluster, pool, seconds, requests = value
    return (cluster, pool), Wait(number(seconds), number(requests))


def _reading(value: Any) -> Reading:
    if len(value) not in (6, 7):  # version 5 has no flushes
        raise ValueError(f"{len(value)} counters")
    return value_of(Reading, {"at": value[0], "stats": value[1:]})


def _rates(value: Any) -> Rates:
    if len(value) != len(names(Rates)):
        raise ValueError(f"{len(value)} rates")
    return value_of(Rates, value)
