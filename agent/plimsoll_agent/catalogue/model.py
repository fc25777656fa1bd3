"""The catalogue: the last data from Cinder and Nova about this node's volumes and guests, and its file.

The refresher, a separate process, writes the file (``planner``); a pass only reads it, without network and keys.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

from plimsoll_agent.catalogue.orders import Of, Orders, RegionApproval, RegionHold, RegionPause, Withdrawal
from plimsoll_agent.catalogue.qosspec import QosSpec
from plimsoll_agent.catalogue.stages import Condition, Stages
from plimsoll_agent.errors import PlimsollError
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.util import decoding, files
from plimsoll_agent.util.decoding import count, flag, mapping, maybe, several, text, time
from plimsoll_agent.util.frozen import frozen

KIND = "plimsoll-catalogue"
VERSION = 3
NAME = "catalogue.json"
# A node's catalogue is some 100 KiB. Python takes up to 34 times as much memory as the JSON is long, and a pass has
# 512 MiB (MemoryMax of its unit).
MOST_BYTES = 4 * 2**20
# Tolerated between the clock of the region's machine and a node's, and for a clock that was set back.
SKEW = timedelta(seconds=5)


class CatalogueError(PlimsollError):
    """The catalogue's file, or one that it is made from, cannot be read or written."""


class CorruptCatalogue(CatalogueError):
    """The file is not one that plimsoll wrote."""


class NewerCatalogue(CatalogueError):
    """A newer plimsoll wrote the file."""


@frozen
class VolumeType:
    """A volume type, and the id of its QoS spec."""

    id: str
    name: str
    qos_spec: str | None
    """None where the type has no spec, or where ``hidden``."""
    hidden: bool = False
    """Cinder's answer had no ``qos_specs_id``: a policy hides it from plimsoll's user."""


@frozen
class Lists:
    """QoS specs and volume types, which belong together, by their ids."""

    specs: Mapping[str, QosSpec]
    types: Mapping[str, VolumeType]

    @property
    def digest(self) -> str:
        return digest_of(self.specs, self.types)


@frozen(kw_only=True)
class Volume:
    """A volume that is attached on this node, from Cinder."""

    type: str | None
    """The id of its type; None for a volume without one."""
    marks: frozenset[str]
    """The attachments that this data is valid for (``attachments``)."""
    read: datetime
    missing: bool = False
    """Cinder has no such volume, or does not show it to plimsoll's user."""


@frozen(kw_only=True)
class Server:
    """A guest whose definition has no extra specs of its flavor, from Nova."""

    extra_specs: Mapping[str, str]
    marks: frozenset[str]
    read: datetime
    missing: bool = False
    """Nova has no such guest on this node, or does not show the extra specs."""


@dataclass(frozen=True)
class Catalogue:
    """One state of the data from the control plane."""

    generation: int
    """Rises with every change of the data; a region's file with a lower one is refused."""
    issued: datetime
    """When the specs and types were read."""
    source: str
    """Where it is from, for people: a cloud's name, or the region file's address."""
    specs: Mapping[str, QosSpec] = field(default_factory=dict)
    """By id."""
    types: Mapping[str, VolumeType] = field(default_factory=dict)
    """By id."""
    volumes: Mapping[str, Volume] = field(default_factory=dict)
    """By volume id."""
    servers: Mapping[str, Server] = field(default_factory=dict)
    """By the guest's uuid."""
    pause: RegionPause | None = None
    """That of the region in a file of version 2, without a signature; never saved."""

    @cached_property
    def revision(self) -> str:
        return self.digest

    @cached_property
    def digest(self) -> str:
        """The whole digest of these specs and types, which a region's approval names."""
        return digest_of(self.specs, self.types)

    def id_of_type(self, name: str | None) -> str:
        """Its id by its name; "" for one that is not listed."""
        return next((id for id, type in self.types.items() if type.name == name), "")

    def covers(self, since: datetime) -> bool:
        """Whether an attachment of that time was there when it was read, also where clocks differ a little."""
        return since + SKEW <= self.issued

    def age(self, now: datetime) -> timedelta:
        """How long ago it was issued; zero where a clock was set back."""
        return max(now - self.issued, timedelta())


def digest_of(specs: Mapping[str, QosSpec], types: Mapping[str, VolumeType]) -> str:
    """SHA-256 (64 hex digits) of these specs and types, whatever their order and time of reading.

    Never shortened: another spec with the same short digest can be found in seconds.
    """
    content = {
        "specs": {key: [spec.name, spec.consumer, dict(spec.keys)] for key, spec in specs.items()},
        "types": {key: [type.name, type.qos_spec, type.hidden] for key, type in types.items()},
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def load(directory: Path) -> Catalogue | None:
    """The catalogue of this node, None when there is none yet.

    Raises ``CorruptCatalogue``, ``NewerCatalogue``, ``CatalogueError``.
    """
    return read(directory / NAME)


def read(path: Path, *, follow: bool = False) -> Catalogue | None:
    """The catalogue in that file, with ``follow`` also through a link; else as ``load``."""

    def of(envelope: Any) -> Catalogue:
        check_envelope(envelope, KIND, VERSION, str(path))
        return _catalogue(envelope)

    return decoding.load(path, MOST_BYTES, of, CatalogueError, corrupt=CorruptCatalogue, follow=follow)


def save(directory: Path, catalogue: Catalogue) -> None:
    """Replace the file as a whole, readable by every user. Raises ``CatalogueError``."""
    path = directory / NAME
    files.save(path, "".join(_lines(catalogue)), CatalogueError, mode=0o644)


def check_envelope(envelope: Any, kind: str, version: int, where: str) -> None:
    """Check the file's kind and version. Raises ``ValueError``, ``NewerCatalogue``."""
    if not isinstance(envelope, dict) or envelope.get("kind") != kind:
        raise ValueError(f"is not a {kind} file")
    if type(envelope.get("version")) is not int or envelope["version"] < 1:
        raise ValueError("has no version")
    if envelope["version"] > version:
        raise NewerCatalogue(
            f"{where}: written by a newer plimsoll (version {str(envelope['version'])[:20]}, known up to {version})"
        )


# --- values as JSON, and back ---------------------------------------------------------------------------


def _lines(catalogue: Catalogue) -> Iterator[str]:
    """An entry a line, so that diff can compare two files."""
    head = {
        "kind": KIND,
        "version": VERSION,
        "generation": catalogue.generation,
        "issued": catalogue.issued.isoformat(),
        "source": catalogue.source,
    }
    yield "{" + ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in head.items())
    sections: Mapping[str, Mapping[str, object]] = {
        "specs": {key: spec_data(spec) for key, spec in catalogue.specs.items()},
        "types": {key: type_data(type) for key, type in catalogue.types.items()},
        "volumes": {key: _volume_data(volume) for key, volume in catalogue.volumes.items()},
        "servers": {key: _server_data(server) for key, server in catalogue.servers.items()},
    }
    for name, entries in sections.items():
        lines = ",".join(f"\n {json.dumps(key)}: {json.dumps(value)}" for key, value in sorted(entries.items()))
        yield f",\n{json.dumps(name)}: {{{lines}}}"
    yield "}\n"


def spec_data(spec: QosSpec) -> dict[str, object]:
    """A spec as Cinder's API has it."""
    return {"id": spec.id, "name": spec.name, "consumer": spec.consumer, "specs": dict(spec.keys)}


def type_data(type: VolumeType) -> dict[str, object]:
    return {"name": type.name, "qos_spec": type.qos_spec, "hidden": type.hidden}


def read_specs(value: Any) -> dict[str, QosSpec]:
    """Raises ``ValueError`` and its like (``decoding.UNREADABLE``)."""
    specs = {key: QosSpec.read(data) for key, data in value.items()}
    for key, spec in specs.items():
        if key != spec.id:
            raise ValueError(f"spec {key!r} has the id {spec.id!r}")
    return specs


def read_types(value: Any) -> dict[str, VolumeType]:
    """Raises ``ValueError`` and its like (``decoding.UNREADABLE``)."""
    return {
        key: VolumeType(key, text(data["name"]), maybe(text, data["qos_spec"]), flag(data["hidden"]))
        for key, data in value.items()
    }


def _volume_data(volume: Volume) -> dict[str, object]:
    return {
        "type": volume.type,
        "marks": sorted(volume.marks),
        "read": volume.read.isoformat(),
        "missing": volume.missing,
    }


def _server_data(server: Server) -> dict[str, object]:
    return {
        "extra_specs": dict(server.extra_specs),
        "marks": sorted(server.marks),
        "read": server.read.isoformat(),
        "missing": server.missing,
    }


def orders_data(orders: Orders) -> dict[str, object]:
    """The keys ``approvals``, ``pause``, ``holds``, ``staged`` and ``withdrawals`` of a published file.

    Nodes of 0.1.0 know the first three only: to them an approval with stages is there once it counts on all nodes.
    """
    for_all = [one for one in orders.staged if one.complete]
    return {
        "approvals": [_approval_data(one) for one in (*orders.approvals, *for_all)],
        "pause": None if orders.pause is None else _until_data(orders.pause),
        "holds": [
            {"disk": one.disk, "limits": None if one.limits is None else one.limits.in_effect()} | _until_data(one)
            for one in orders.holds
        ],
        "staged": [_approval_data(one) | {"stages": _stages_data(one.stages)} for one in orders.staged if one.stages],
        "withdrawals": [
            {"of": one.of.value, "digest": one.digest, "before": one.before, "began": one.began.isoformat()}
            | _until_data(one)
            for one in orders.withdrawals
        ],
    }


def _approval_data(one: RegionApproval) -> dict[str, object]:
    return (
        {"of": one.of.value, "digest": one.digest, "remove": sorted(one.remove)}
        | {"disks": one.disks, "percent": one.percent}
        | _until_data(one)
    )


def _stages_data(stages: Stages) -> dict[str, object]:
    return {
        "percent": list(stages.percent),
        "wait": int(stages.wait.total_seconds()),
        "before": stages.before,
        "types": list(stages.types),
        "at_limit": stages.at_limit,
        "without": sorted(stages.without),
        "reached": stages.reached,
        "entered": None if stages.entered is None else stages.entered.isoformat(),
        "began": None if stages.began is None else stages.began.isoformat(),
    }


def _until_data(one: RegionApproval | RegionPause | RegionHold | Withdrawal) -> dict[str, object]:
    until = None if one.until is None else one.until.isoformat()
    return {"since": one.since.isoformat(), "until": until, "by": one.by, "why": one.why}


def read_orders(envelope: Mapping[str, Any]) -> Orders:
    """The reverse. An approval of an unknown kind, of a newer plimsoll, is left out and approves nothing.

    Raises ``ValueError`` and its like (``decoding.UNREADABLE``).
    """
    in_stages = tuple(_approval(one, _stages(one["stages"])) for one in _known(envelope.get("staged", [])))
    keys = {(one.of, one.digest, one.since) for one in in_stages if one.complete}
    approvals = map(_approval, _known(envelope["approvals"]))
    return Orders(
        tuple(one for one in approvals if (one.of, one.digest, one.since) not in keys),
        maybe(_pause, envelope["pause"]),
        tuple(
            RegionHold(
                text(one["disk"]),
                maybe(Limits.from_mapping, one["limits"]),
                *_until(one),
            )
            for one in several(dict, envelope["holds"])
        ),
        in_stages,
        tuple(map(_withdrawal, _known(envelope.get("withdrawals", [])))),
    )


def _known(entries: Any) -> list[Any]:
    return [one for one in several(dict, entries) if one["of"] in list(Of)]


def _approval(one: Any, stages: Stages | None = None) -> RegionApproval:
    return RegionApproval(
        Of(one["of"]),
        text(one["digest"]),
        *_until(one),
        _marks(one["remove"]),
        count(one["disks"]),
        count(one["percent"]),
        stages,
    )


def _stages(value: Any) -> Stages:
    return Stages(
        percent=several(_share, value["percent"]),
        wait=timedelta(seconds=count(value["wait"])),
        before=text(value["before"]),
        types=several(text, value["types"]),
        at_limit=_share(value["at_limit"]),
        # What a newer plimsoll judges besides concerns its publisher only.
        without=frozenset(Condition(one) for one in several(text, value["without"]) if one in list(Condition)),
        reached=count(value["reached"]),
        entered=maybe(time, value["entered"]),
        began=maybe(time, value["began"]),
    )


def _share(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 100:
        raise ValueError(f"{value!r} is no per cent")
    return float(value)


def _withdrawal(one: Any) -> Withdrawal:
    since, until, by, why = _until(one)
    return Withdrawal(
        of=Of(one["of"]),
        digest=text(one["digest"]),
        before=text(one["before"]),
        began=time(one["began"]),
        since=since,
        until=until,
        by=by,
        why=why,
    )


def _pause(value: Any) -> RegionPause:
    return RegionPause(
        since=time(value["since"]), until=maybe(time, value["until"]), by=text(value["by"]), why=text(value["why"])
    )


def _until(one: Mapping[str, Any]) -> tuple[datetime, datetime, str, str]:
    return time(one["since"]), time(one["until"]), text(one["by"]), text(one["why"])


def _catalogue(envelope: dict[str, Any]) -> Catalogue:
    return Catalogue(
        generation=count(envelope["generation"]),
        issued=time(envelope["issued"]),
        source=text(envelope["source"]),
        specs=read_specs(envelope["specs"]),
        types=read_types(envelope["types"]),
        volumes=mapping(_volume, envelope["volumes"]),
        servers=mapping(_server, envelope["servers"]),
        # Later versions have no orders: these stay in the region's file, with its signature.
        pause=maybe(_pause, envelope["pause"]) if envelope["version"] == 2 else None,
    )


def _volume(data: Any) -> Volume:
    return Volume(
        type=maybe(text, data["type"]),
        marks=_marks(data["marks"]),
        read=time(data["read"]),
        missing=flag(data["missing"]),
    )


def _server(data: Any) -> Server:
    extra_specs = mapping(text, data["extra_specs"])
    return Server(
        extra_specs=extra_specs, marks=_marks(data["marks"]), read=time(data["read"]), missing=flag(data["missing"])
    )


def _marks(value: Any) -> frozenset[str]:
    return frozenset(several(text, value))
