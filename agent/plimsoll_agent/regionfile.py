"""The region's file: what Cinder and Nova say of every volume and guest, made once for all nodes. Values and bytes.

Who signs it and who carries it is not known here; whoever reads one has checked the signature over these very bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from plimsoll_agent.catalogue import (
    UNREADABLE,
    CatalogueError,
    NewerCatalogue,
    VolumeType,
    check_envelope,
    listed,
    orders_data,
    read_orders,
    read_specs,
    read_types,
    spec_data,
    text,
    texts,
    time,
    type_data,
    whole_number,
)
from plimsoll_agent.qosspec import QosSpec
from plimsoll_agent.regionorders import Orders

KIND = "plimsoll-region"
VERSION = 1
AHEAD = timedelta(minutes=5)
"""So far the clock of the region's machine may go before a node's."""
MOST_BYTES = 32 * 2**20
"""A node reads no more; 30,000 volumes are 1.3 MiB. At the bound a refresh takes some 240 MiB, and may take 512."""


@dataclass(frozen=True, slots=True)
class Region:
    """One state of a whole region."""

    generation: int
    issued: datetime
    begun: datetime
    """When the reading began: what happened later may not be in it."""
    source: str
    """The cloud it was read from, for people."""
    specs: Mapping[str, QosSpec] = field(default_factory=dict)
    types: Mapping[str, VolumeType] = field(default_factory=dict)
    volumes: Mapping[str, str | None] = field(default_factory=dict)
    """By volume id the id of its type, None for a volume without one."""
    servers: Mapping[str, Mapping[str, str] | None] = field(default_factory=dict)
    """By uuid the ``quota:`` extra specs of its flavor, None where Nova does not show any."""
    orders: Orders = field(default_factory=Orders)
    """What was decided for the whole region."""
    valid_until: datetime | None = None


class UnreadableRegion(CatalogueError):
    """The bytes are no region file, or one of a newer plimsoll."""


class UnfitRegion(CatalogueError):
    """It is a region file, and not one to go by: older than what is known, or past its time."""


def encode(region: Region) -> bytes:
    """The file's content: an entry a line; volumes by type, and guests by what their flavors say."""
    head = {
        "kind": KIND,
        "version": VERSION,
        "generation": region.generation,
        "issued": region.issued.isoformat(),
        "begun": region.begun.isoformat(),
        "valid_until": None if region.valid_until is None else region.valid_until.isoformat(),
        "source": region.source,
        # Where a plimsoll of before looks for parts of digests, which whoever edits specs can forge.
        "approved": [],
    } | orders_data(region.orders)
    types: dict[str | None, list[str]] = {}
    for id, type in region.volumes.items():
        types.setdefault(type, []).append(id)
    flavors: dict[str | None, list[str]] = {}
    for uuid, extra_specs in region.servers.items():
        flavor = None if extra_specs is None else json.dumps(dict(extra_specs), sort_keys=True)
        flavors.setdefault(flavor, []).append(uuid)
    sections: Mapping[str, list[str]] = {
        "specs": [_line(spec_data(spec)) for _, spec in sorted(region.specs.items())],
        "types": [_line({"id": id} | type_data(type)) for id, type in sorted(region.types.items())],
        "volumes": [_line({"type": type, "volumes": sorted(ids)}) for type, ids in _sorted(types)],
        "servers": [
            _line({"extra_specs": None if flavor is None else json.loads(flavor), "servers": sorted(uuids)})
            for flavor, uuids in _sorted(flavors)
        ],
    }
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
    lines += [f"{json.dumps(name)}: [{','.join(entries)}]" for name, entries in sections.items()]
    return ("{" + ",\n".join(lines) + "}\n").encode()


def _line(value: object) -> str:
    return "\n " + json.dumps(value)


def _sorted(groups: Mapping[str | None, list[str]]) -> list[tuple[str | None, list[str]]]:
    return sorted(groups.items(), key=lambda item: item[0] or "")


def decode(content: bytes, where: str) -> Region:
    """The region in a file's bytes, whose signature has been checked. Raises ``UnreadableRegion``."""
    try:
        envelope = json.loads(content.decode("utf-8"))
        check_envelope(envelope, KIND, VERSION, where)
        return _region(envelope)
    except NewerCatalogue as error:
        raise UnreadableRegion(str(error)) from error
    except UNREADABLE as error:
        # Not repr(): that of a UnicodeDecodeError has the whole file in it.
        detail = str(error) if len(str(error)) < 200 else ""
        raise UnreadableRegion(
            f"{where}: cannot be read as a region file: {type(error).__name__}{f': {detail}' if detail else ''}"
        ) from error


def check_fit(region: Region, digest: str, known: tuple[int, str | None], now: datetime, where: str) -> None:
    """``known`` are the generation and the digest of what was taken last. Raises ``UnfitRegion``.

    Whoever hands the file out could hand out one of yesterday, when a limit was another.
    """
    generation, last_digest = known
    if region.generation < generation:
        raise UnfitRegion(f"{where}: is older (generation {region.generation}) than what is known ({generation})")
    if region.generation == generation and last_digest not in (None, digest):
        raise UnfitRegion(f"{where}: has the generation {generation} of what is known, and other content")
    if region.valid_until is not None and now > region.valid_until:
        raise UnfitRegion(f"{where}: was valid until {region.valid_until:%Y-%m-%d %H:%M} UTC only")
    if region.begun - now > AHEAD:
        raise UnfitRegion(
            f"{where}: is of {region.begun:%Y-%m-%d %H:%M} UTC, which is still to come; look at the clocks"
        )


def _region(envelope: Mapping[str, Any]) -> Region:
    until = envelope["valid_until"]
    return Region(
        generation=whole_number(envelope["generation"]),
        issued=time(envelope["issued"]),
        begun=time(envelope["begun"]),
        valid_until=None if until is None else time(until),
        source=text(envelope["source"]),
        # Without them it is the file of a plimsoll that knew none. Its ``approved`` is not looked at any more.
        orders=read_orders({**orders_data(Orders()), **envelope}),
        specs=read_specs(_by_id(envelope["specs"])),
        types=read_types(_by_id(envelope["types"])),
        volumes=dict(_volumes(listed(envelope["volumes"]))),
        servers=dict(_servers(listed(envelope["servers"]))),
    )


def _by_id(entries: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for entry in listed(entries):
        id = text(entry["id"])
        if id in found:
            raise ValueError(f"{id!r} is there twice")
        found[id] = entry
    return found


def _volumes(groups: list[Any]) -> Iterator[tuple[str, str | None]]:
    for group in groups:
        type = group["type"]
        if type is not None:
            text(type)
        yield from dict.fromkeys(map(text, listed(group["volumes"])), type).items()


def _servers(groups: list[Any]) -> Iterator[tuple[str, Mapping[str, str] | None]]:
    for group in groups:
        extra_specs = None if group["extra_specs"] is None else texts(group["extra_specs"])
        yield from dict.fromkeys(map(text, listed(group["servers"])), extra_specs).items()
