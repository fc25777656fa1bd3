"""The catalogue: the last data from Cinder and Nova about this node's volumes and guests, and its file.

The refresher, a separate process, writes the file (``planner``); a pass only reads it, without network and keys.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from plimsoll_agent.catalogue.orders import Of, Orders, RegionApproval, RegionHold, RegionPause, Withdrawal
from plimsoll_agent.catalogue.qosspec import QosSpec
from plimsoll_agent.catalogue.stages import StageCheck, Stages
from plimsoll_agent.errors import PlimsollError
from plimsoll_agent.util import decoding, files
from plimsoll_agent.util.decoding import Moment, as_json, count, data_of, mapping, maybe, several, value_of
from plimsoll_agent.util.frozen import frozen, replace

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


@frozen(kw_only=True)
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
    read: Moment
    missing: bool = False
    """Cinder has no such volume, or does not show it to plimsoll's user."""


@frozen(kw_only=True)
class Server:
    """A guest whose definition has no extra specs of its flavor, from Nova."""

    extra_specs: Mapping[str, str]
    marks: frozenset[str]
    read: Moment
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
        "types": {key: _type_data(type) for key, type in catalogue.types.items()},
        "volumes": {key: _marked_data(volume) for key, volume in catalogue.volumes.items()},
        "servers": {key: _marked_data(server) for key, server in catalogue.servers.items()},
    }
    for name, entries in sections.items():
        lines = ",".join(f"\n {json.dumps(key)}: {as_json(value)}" for key, value in sorted(entries.items()))
        yield f",\n{json.dumps(name)}: {{{lines}}}"
    yield "}\n"


def spec_data(spec: QosSpec) -> dict[str, object]:
    """A spec as Cinder's API has it."""
    return {"id": spec.id, "name": spec.name, "consumer": spec.consumer, "specs": dict(spec.keys)}


def read_specs(value: Any) -> dict[str, QosSpec]:
    """Raises ``ValueError`` and its like (``decoding.UNREADABLE``)."""
    specs = {key: QosSpec.read(data) for key, data in value.items()}
    for key, spec in specs.items():
        if key != spec.id:
            raise ValueError(f"spec {key!r} has the id {spec.id!r}")
    return specs


def read_types(value: Any) -> dict[str, VolumeType]:
    """Raises ``ValueError`` and its like (``decoding.UNREADABLE``)."""
    return {key: value_of(VolumeType, {**data, "id": key}) for key, data in value.items()}


def _type_data(type: VolumeType) -> dict[str, object]:
    return {name: part for name, part in data_of(type).items() if name != "id"}


def _marked_data(entry: Volume | Server) -> dict[str, object]:
    return {**data_of(entry), "marks": sorted(entry.marks)}


def orders_data(orders: Orders) -> dict[str, object]:
    """The keys ``approvals``, ``pause``, ``holds``, ``staged`` and ``withdrawals`` of a published file.

    Nodes of 0.1.0 know the first three only: to them an approval with stages is there once it counts on all nodes.
    """
    for_all = [one for one in orders.staged if one.complete]
    return {
        "approvals": [_approval_data(replace(one, stages=None)) for one in (*orders.approvals, *for_all)],
        "pause": maybe(data_of, orders.pause),
        "holds": list(map(data_of, orders.holds)),
        "staged": [_approval_data(one) for one in orders.staged if one.stages],
        "withdrawals": list(map(data_of, orders.withdrawals)),
    }


def _approval_data(one: RegionApproval) -> dict[str, object]:
    return {**data_of(one), "remove": sorted(one.remove), "stages": maybe(_stages_data, one.stages)}


def _stages_data(stages: Stages) -> dict[str, object]:
    return {**data_of(stages), "wait": int(stages.wait.total_seconds()), "without": sorted(stages.without)}


def read_orders(envelope: Mapping[str, Any]) -> Orders:
    """The reverse. An approval of an unknown kind, of a newer plimsoll, is left out and approves nothing.

    Raises ``ValueError`` and its like (``decoding.UNREADABLE``).
    """
    in_stages = tuple(_approval(one, _stages(one["stages"])) for one in _known(envelope.get("staged", [])))
    keys = {(one.of, one.digest, one.since) for one in in_stages if one.complete}
    approvals = (_approval(one, None) for one in _known(envelope["approvals"]))
    return Orders(
        approvals=tuple(one for one in approvals if (one.of, one.digest, one.since) not in keys),
        pause=maybe(_pause, envelope["pause"]),
        holds=several(partial(value_of, RegionHold), envelope["holds"]),
        staged=in_stages,
        withdrawals=tuple(value_of(Withdrawal, one) for one in _known(envelope.get("withdrawals", []))),
    )


def _known(entries: Any) -> list[Any]:
    return [one for one in several(dict, entries) if one["of"] in list(Of)]


def _approval(one: Any, stages: Stages | None) -> RegionApproval:
    return value_of(RegionApproval, {**one, "stages": stages})


def _stages(value: Any) -> Stages:
    wait = timedelta(seconds=count(value["wait"]))
    # What a newer plimsoll judges besides concerns its publisher only.
    without = [one for one in several(decoding.text, value["without"]) if one in list(StageCheck)]
    return value_of(Stages, {**value, "wait": wait, "without": without})


_pause = partial(value_of, RegionPause)


def _catalogue(envelope: dict[str, Any]) -> Catalogue:
    """Without the orders of version 2, which has no signature for them."""
    return Catalogue(
        generation=count(envelope["generation"]),
        issued=decoding.time(envelope["issued"]),
        source=decoding.text(envelope["source"]),
        specs=read_specs(envelope["specs"]),
        types=read_types(envelope["types"]),
        volumes=mapping(partial(value_of, Volume), envelope["volumes"]),
        servers=mapping(partial(value_of, Server), envelope["servers"]),
    )
