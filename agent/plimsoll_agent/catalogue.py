"""What Cinder and Nova said last about this node's volumes and guests: values, and the file that keeps them.

A refresher of its own writes the file (``refresh``); a pass only reads it, and needs no network and no keys.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any

from plimsoll_agent import files
from plimsoll_agent.errors import PlimsollError
from plimsoll_agent.limits import Limits
from plimsoll_agent.qosspec import QosSpec
from plimsoll_agent.regionorders import Of, Orders, RegionApproval, RegionHold, RegionPause

KIND = "plimsoll-catalogue"
VERSION = 2
NAME = "catalogue.json"
UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)
# A node's slice is some 100 KiB; whoever makes it larger than this means harm. Python takes up to 34 times as much
# memory as the JSON is long, and a pass has 512 MiB (MemoryMax of its unit).
MOST_BYTES = 4 * 2**20


class CatalogueError(PlimsollError):
    """The catalogue's file, or one that it is made from, cannot be read or written."""


class CorruptCatalogue(CatalogueError):
    """A file is there, and is not what plimsoll wrote."""


class NewerCatalogue(CatalogueError):
    """A newer plimsoll wrote it: nothing is wrong with it."""


@dataclass(frozen=True, slots=True)
class VolumeType:
    """A volume type, and the id of its QoS spec."""

    id: str
    name: str
    qos_spec: str | None
    """None where the type has no spec, or where ``hidden`` tells that nobody knows."""
    hidden: bool = False
    """Cinder did not say ``qos_specs_id`` at all: a policy hides it from whoever asked."""


@dataclass(frozen=True, slots=True)
class Volume:
    """What Cinder said of a volume that is attached on this node."""

    type: str | None
    """The id of its type; None for a volume without one."""
    marks: frozenset[str]
    """The attachments that this was asked for (``sightings``): of any other one it says nothing."""
    read: datetime
    missing: bool = False
    """Cinder knows no such volume, or does not show it to whoever asked."""


@dataclass(frozen=True, slots=True)
class Server:
    """What Nova said of a guest whose own definition does not tell its flavor's extra specs."""

    extra_specs: Mapping[str, str]
    marks: frozenset[str]
    read: datetime
    missing: bool = False
    """Nova knows no such guest on this node, or does not show the extra specs."""


@dataclass(frozen=True)
class Catalogue:
    """One state of what the control plane said."""

    generation: int
    """Rises with every change of what is published; a region's file is refused when it falls."""
    issued: datetime
    """When the specs and types were read."""
    source: str
    """Whom it is from, for people: a cloud's name, or the region file's address."""
    specs: Mapping[str, QosSpec] = field(default_factory=dict)
    """By id."""
    types: Mapping[str, VolumeType] = field(default_factory=dict)
    """By id."""
    volumes: Mapping[str, Volume] = field(default_factory=dict)
    """By volume id."""
    servers: Mapping[str, Server] = field(default_factory=dict)
    """By the guest's uuid."""
    orders: Orders = field(default_factory=Orders)
    """What was decided for the whole region, as its file had it last; nothing where there is no such file."""

    @cached_property
    def edition(self) -> str:
        """What tells these specs and types from others: the whole digest."""
        return self.digest

    @cached_property
    def digest(self) -> str:
        """The whole digest of these specs and types, which an approval of the region names."""
        return digest_of(self.specs, self.types)

    def approved(self, now: datetime, removing: str | None = None) -> bool:
        """Whether the region approved of just these specs and types; ``removing`` is the name of a volume type whose
        volumes would lose their limits by them.
        """
        type = None if removing is None else next((id for id, one in self.types.items() if one.name == removing), "")
        return self.orders.approve(Of.SPECS, self.digest, now, removing=type)

    def age(self, now: datetime) -> timedelta:
        """How long ago it was issued; never less than nothing, whatever a clock did."""
        return max(now - self.issued, timedelta())


def digest_of(specs: Mapping[str, QosSpec], types: Mapping[str, VolumeType]) -> str:
    """SHA-256 (64 hex digits) of what tells these specs and types from others; no order and no time is in it.

    Whole: of a part of it, whoever may edit a spec finds another spec with the same one in seconds.
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
    """The catalogue in that file, or with ``follow`` in the one that a link leads to; else as ``load``."""
    try:
        text = files.read_whole(path, MOST_BYTES + 1, follow=follow)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CatalogueError(f"{path}: cannot be read: {error.strerror}") from error
    if len(text) > MOST_BYTES:
        raise CorruptCatalogue(f"{path}: is larger than {MOST_BYTES} bytes")
    try:
        envelope = json.loads(text.decode("utf-8"))
        check_envelope(envelope, KIND, VERSION, str(path))
        return _catalogue(envelope)
    except UNREADABLE as error:
        raise CorruptCatalogue(f"{path}: is corrupt: {type(error).__name__}: {str(error)[:200]}") from error


def save(directory: Path, catalogue: Catalogue) -> None:
    """Replace the file as a whole; whoever may read the directory's files may read it. Raises ``CatalogueError``."""
    path = directory / NAME
    try:
        files.write_whole(path, "".join(_lines(catalogue)), mode=0o644)
    except OSError as error:
        raise CatalogueError(f"{path}: cannot be written: {error.strerror}") from error


def check_envelope(envelope: Any, kind: str, version: int, where: str) -> None:
    """Every published file says what it is. Raises ``ValueError``, ``NewerCatalogue``."""
    if not isinstance(envelope, dict) or envelope.get("kind") != kind:
        raise ValueError(f"is no {kind}")
    if type(envelope.get("version")) is not int or envelope["version"] < 1:
        raise ValueError("says no version")
    if envelope["version"] > version:
        raise NewerCatalogue(
            f"{where}: written by a newer plimsoll (version {envelope['version']}, known up to {version})"
        )


# --- values as JSON, and back ---------------------------------------------------------------------------


def _lines(catalogue: Catalogue) -> Iterator[str]:
    """An entry a line, so that two of them can be compared with diff."""
    head = {
        "kind": KIND,
        "version": VERSION,
        "generation": catalogue.generation,
        "issued": catalogue.issued.isoformat(),
        "source": catalogue.source,
    } | orders_data(catalogue.orders)
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
    """Raises ``ValueError`` and its like (``UNREADABLE``)."""
    specs = {key: QosSpec.read(data) for key, data in value.items()}
    for key, spec in specs.items():
        if key != spec.id:
            raise ValueError(f"spec {key!r} says that it is {spec.id!r}")
    return specs


def read_types(value: Any) -> dict[str, VolumeType]:
    """Raises ``ValueError`` and its like (``UNREADABLE``)."""
    return {
        key: VolumeType(key, text(data["name"]), text_or_none(data["qos_spec"]), flag(data["hidden"]))
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
    """The keys ``approvals``, ``pause`` and ``holds`` of a published file."""
    return {
        "approvals": [
            {"of": one.of.value, "digest": one.digest, "remove": sorted(one.remove)}
            | {"disks": one.disks, "percent": one.percent}
            | _span_data(one)
            for one in orders.approvals
        ],
        "pause": None if orders.pause is None else _span_data(orders.pause),
        "holds": [
            {"disk": one.disk, "limits": None if one.limits is None else one.limits.in_effect()} | _span_data(one)
            for one in orders.holds
        ],
    }


def _span_data(one: RegionApproval | RegionPause | RegionHold) -> dict[str, object]:
    until = None if one.until is None else one.until.isoformat()
    return {"since": one.since.isoformat(), "until": until, "by": one.by, "why": one.why}


def read_orders(envelope: Mapping[str, Any]) -> Orders:
    """The reverse. An approval of a kind that only a newer plimsoll knows is left out: it lets nothing through.

    Raises ``ValueError`` and its like (``UNREADABLE``).
    """
    pause = envelope["pause"]
    return Orders(
        tuple(
            RegionApproval(
                Of(one["of"]),
                text(one["digest"]),
                *_span(one),
                _marks(one["remove"]),
                whole_number(one["disks"]),
                whole_number(one["percent"]),
            )
            for one in listed(envelope["approvals"])
            if one["of"] in list(Of)
        ),
        None
        if pause is None
        else RegionPause(
            time(pause["since"]),
            None if pause["until"] is None else time(pause["until"]),
            text(pause["by"]),
            text(pause["why"]),
        ),
        tuple(
            RegionHold(
                text(one["disk"]),
                None if one["limits"] is None else Limits.from_mapping({**one["limits"]}),
                *_span(one),
            )
            for one in listed(envelope["holds"])
        ),
    )


def _span(one: Mapping[str, Any]) -> tuple[datetime, datetime, str, str]:
    return time(one["since"]), time(one["until"]), text(one["by"]), text(one["why"])


def listed(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"a {type(value).__name__} is no list")
    return value


def _catalogue(envelope: dict[str, Any]) -> Catalogue:
    if envelope["version"] == 1:  # an approval was a part of a digest there, and counts no more
        envelope = envelope | orders_data(Orders())
    return Catalogue(
        generation=whole_number(envelope["generation"]),
        issued=time(envelope["issued"]),
        source=text(envelope["source"]),
        specs=read_specs(envelope["specs"]),
        types=read_types(envelope["types"]),
        volumes={
            key: Volume(text_or_none(data["type"]), _marks(data["marks"]), time(data["read"]), flag(data["missing"]))
            for key, data in envelope["volumes"].items()
        },
        servers={
            key: Server(texts(data["extra_specs"]), _marks(data["marks"]), time(data["read"]), flag(data["missing"]))
            for key, data in envelope["servers"].items()
        },
        orders=read_orders(envelope),
    )


def text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"a {type(value).__name__} is no text")
    return value


def text_or_none(value: Any) -> str | None:
    return None if value is None else text(value)


def texts(value: Any) -> dict[str, str]:
    return {text(key): text(one) for key, one in {**value}.items()}


def flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} is neither true nor false")
    return value


def whole_number(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is no number from 0 on")
    return value


def time(value: Any) -> datetime:
    """Raises ``ValueError``, and ``OverflowError`` for a time that is none in UTC."""
    moment = datetime.fromisoformat(text(value))
    if moment.tzinfo is None:
        raise ValueError(f"{value!r} has no time zone")
    return moment.astimezone(UTC)


def _marks(value: Any) -> frozenset[str]:
    return frozenset(map(text, listed(value)))
