"""Reads and writes ``LastPass`` as a file in the state directory."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from plimsoll_agent.congestion.signal import PoolKey, Wait
from plimsoll_agent.model.disk import DiskName
from plimsoll_agent.model.hypervisor import BlockStats, GuestRef
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Reason
from plimsoll_agent.model.usage import Rates, Reading
from plimsoll_agent.monitor.pass_summary import LastCatalogue, LastDisk, LastPass, Totals
from plimsoll_agent.reconcile.grade import Grade
from plimsoll_agent.reconcile.outcome import Kind, UnreachableGuest
from plimsoll_agent.store.refresh_state import Calls
from plimsoll_agent.store.state import LAST_PASS, CorruptState, State, StateError
from plimsoll_agent.util import decoding, files
from plimsoll_agent.util.decoding import count, flag, mapping, maybe, number, several, text, time, value_of
from plimsoll_agent.util.frozen import asdict, astuple, names, replace

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
        value = _from_3(value) if version == 3 else value
        return _last_pass(value if version >= 5 else {**value, "missing": []})

    return decoding.load(path, MOST_BYTES, of, StateError, corrupt=CorruptState)


def _from_3(value: Mapping[str, Any]) -> dict[str, Any]:
    """It told neither the times of requests nor guests' servers, and the next pass does."""

    def longer(numbers: list[object] | None) -> list[object] | None:
        return None if numbers is None else [*numbers, None]

    new = [disk | {"reading": longer(disk["reading"]), "rates": longer(disk["rates"])} for disk in value["disks"]]
    return {"servers": {}, **value, "disks": new}


def save(state: State, last: LastPass) -> None:
    """Replace the file as a whole. Raises ``StateError``."""
    data = _data(last)
    disks = ",".join(f"\n {json.dumps(_disk_data(disk))}" for disk in last.disks)
    head = json.dumps({"version": LAST_PASS.version} | data)
    path: Path = state.last_pass
    files.save(path, f'{head[:-1]},\n"disks": [{disks}]}}\n', StateError)


def _data(last: LastPass) -> dict[str, object]:
    return {
        "plimsoll": last.version,
        "boot": last.boot,
        "started": last.started.isoformat(),
        "ended": last.ended.isoformat(),
        "grade": last.grade.value,
        "enforcing": last.enforcing,
        "trouble": last.trouble,
        "looked": maybe(datetime.isoformat, last.looked),
        "last_good": maybe(datetime.isoformat, last.last_good),
        "phases": dict(last.phases),
        "interval": last.interval,
        "unreachable": [[each.guest.uuid, each.guest.name, each.reason.as_record()] for each in last.unreachable],
        "guests": last.guests,
        "notes": [note.as_record() for note in last.notes],
        "paused": maybe(Reason.as_record, last.paused),
        "revision": last.revision,
        "braked": last.braked,
        "braked_disks": last.braked_disks,
        "holds": last.holds,
        "sources": dict(last.sources),
        "catalogue": maybe(_catalogue_data, last.catalogue),
        "calls": asdict(last.calls),
        "busy": last.busy,
        "totals": {
            "passes": {grade.value: number for grade, number in last.totals.passes.items()},
            "outcomes": {kind.value: number for kind, number in last.totals.outcomes.items()},
            "corrected": dict(last.totals.corrected),
            "light": [[*pool, *astuple(wait)] for pool, wait in last.totals.light.items()],
        },
        "missing": [asdict(each) for each in last.missing],
        "unseen": dict(last.unseen),
        "unread": {key: [attachment, _reading_data(reading)] for key, (attachment, reading) in last.unread.items()},
        "paused_guests": sorted(last.paused_guests),
        "hung_guests": sorted(last.hung_guests),
        "healthy": sorted(last.healthy),
        "guests_to_probe": last.guests_to_probe,
        "position": last.position,
        "stage": last.stage,
        "servers": dict(last.servers),
        "wrong_since": {name: at.isoformat() for name, at in last.wrong_since.items()},
    }


def _catalogue_data(catalogue: LastCatalogue) -> dict[str, object]:
    return {
        "issued": maybe(datetime.isoformat, catalogue.issued),
        "source": catalogue.source,
        "stale_after": catalogue.stale_after,
    }


def _reading_data(reading: Reading) -> list[object]:
    return [reading.at, *astuple(reading.stats)]


def _disk_data(disk: LastDisk) -> dict[str, object]:
    return {
        "named": asdict(disk.named),
        "volume_type": disk.volume_type,
        "flavor": disk.flavor,
        "cluster": disk.cluster,
        "kind": disk.kind.value,
        "reason": disk.reason.as_record(),
        "actual": maybe(Limits.in_effect, disk.actual),
        "desired": maybe(Limits.in_effect, disk.desired),
        "drifted": disk.drifted,
        "corrected": disk.corrected,
        "attachment": disk.attachment,
        "reading": maybe(_reading_data, disk.reading),
        "rates": maybe(astuple, disk.rates),
        "shares": dict(disk.shares),
        "allowed": dict(disk.allowed),
        "saved": dict(disk.saved),
        "server": disk.server,
        "project_name": disk.project_name,
        "is_new": disk.is_new,
        "acknowledged": maybe(Reason.as_record, disk.acknowledged),
        "held_until": maybe(datetime.isoformat, disk.held_until),
        "since": maybe(datetime.isoformat, disk.since),
    }


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
        looked=maybe(time, value["looked"]),
        last_good=maybe(time, value["last_good"]),
        phases=mapping(number, value["phases"]),
        interval=maybe(number, value["interval"]),
        disks=several(_disk, value["disks"]),
        unreachable=tuple(
            UnreachableGuest(GuestRef(text(uuid), text(name)), Reason.from_record(reason))
            for uuid, name, reason in value["unreachable"]
        ),
        guests=count(value["guests"]),
        notes=several(Reason.from_record, value["notes"]),
        paused=maybe(Reason.from_record, value["paused"]),
        revision=text(value["revision"]),
        braked=maybe(text, value["braked"]),
        braked_disks=count(value["braked_disks"]),
        holds=count(value["holds"]),
        sources=mapping(flag, value["sources"]),
        catalogue=maybe(_catalogue, value["catalogue"]),
        calls=Calls(
            count(value["calls"]["good"]),
            count(value["calls"]["failed"]),
            mapping(count, value["calls"]["of_service"]),
        ),
        busy=count(value["busy"]),
        totals=Totals(
            {Grade(name): passes for name, passes in mapping(count, totals["passes"]).items()},
            {Kind(name): outcomes for name, outcomes in mapping(count, totals["outcomes"]).items()},
            mapping(count, totals["corrected"]),
            dict(several(_light, totals.get("light", []))),
        ),
        missing=several(partial(value_of, DiskName), value["missing"]),
        unseen=mapping(count, value["unseen"]),
        unread=mapping(lambda pair: (text(pair[0]), _reading(pair[1])), value.get("unread", {})),
        paused_guests=frozenset(several(text, value.get("paused_guests", []))),
        hung_guests=frozenset(several(text, value.get("hung_guests", []))),
        healthy=frozenset(several(text, value.get("healthy", []))),
        guests_to_probe=count(value.get("guests_to_probe", 0)),
        position=maybe(number, value.get("position")),
        stage=maybe(text, value.get("stage")),
        servers=mapping(text, value["servers"]),
        wrong_since=mapping(time, value["wrong_since"]),
    )


def _catalogue(value: Mapping[str, Any]) -> LastCatalogue:
    return LastCatalogue(maybe(time, value["issued"]), text(value["source"]), count(value["stale_after"]))


def _disk(value: Mapping[str, Any]) -> LastDisk:
    return LastDisk(
        named=value_of(DiskName, value["named"]),
        volume_type=maybe(text, value["volume_type"]),
        flavor=maybe(text, value["flavor"]),
        cluster=maybe(text, value["cluster"]),
        kind=Kind(value["kind"]),
        reason=Reason.from_record(value["reason"]),
        actual=maybe(Limits.from_mapping, value["actual"]),
        desired=maybe(Limits.from_mapping, value["desired"]),
        drifted=flag(value["drifted"]),
        corrected=count(value["corrected"]),
        attachment=text(value["attachment"]),
        reading=maybe(_reading, value["reading"]),
        rates=maybe(_rates, value["rates"]),
        shares=mapping(number, value["shares"]),
        allowed=mapping(number, value["allowed"]),
        saved=mapping(number, value.get("saved", {})),
        server=maybe(text, value["server"]),
        project_name=maybe(text, value["project_name"]),
        is_new=flag(value["is_new"]),
        acknowledged=maybe(Reason.from_record, value["acknowledged"]),
        held_until=maybe(time, value["held_until"]),
        since=maybe(time, value["since"]),
    )


def _light(value: Any) -> tuple[PoolKey, Wait]:
    cluster, pool, seconds, requests = value
    return (text(cluster), text(pool)), Wait(number(seconds), number(requests))


def _reading(value: Any) -> Reading:
    at, reads, read_bytes, writes, write_bytes, nanoseconds, *flushes = value
    numbers = map(count, (reads, read_bytes, writes, write_bytes))
    (flush_requests,) = flushes or (None,)  # version 5 has none
    stats = replace(BlockStats(*numbers), nanoseconds=maybe(count, nanoseconds), flushes=maybe(count, flush_requests))
    return Reading(number(at), stats)


def _rates(value: Any) -> Rates:
    if len(value) != len(names(Rates)):
        raise ValueError("no rates")
    *rates, latency = value
    return replace(Rates(*map(number, rates)), latency=maybe(number, latency))
