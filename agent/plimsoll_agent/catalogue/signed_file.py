"""The region's file: Cinder's and Nova's data of every volume and guest, made once for all nodes. Values and bytes.

Callers check the signature before they read one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import field
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from plimsoll_agent.catalogue.model import (
    CatalogueError,
    Lists,
    NewerCatalogue,
    VolumeType,
    check_envelope,
    orders_data,
    read_orders,
    read_specs,
    read_types,
    spec_data,
)
from plimsoll_agent.catalogue.orders import Of, Orders
from plimsoll_agent.catalogue.qosspec import QosSpec
from plimsoll_agent.util import decoding
from plimsoll_agent.util.decoding import Count, Moment, as_json, count, data_of, mapping, maybe, several, text, time
from plimsoll_agent.util.frozen import frozen, replace
from plimsoll_agent.util.text import minute

Value = TypeVar("Value")

NAME = "region-file.json"
"""The last one that a node accepted, as it was signed, in the catalogue's directory: a pass reads its orders."""
KIND = "plimsoll-region"
_OTHER = ("other_specs", "other_types")
"""The keys of ``Region.other``; earlier releases do not read them."""
VERSION = 1
AHEAD = timedelta(minutes=5)
"""How far the clock of the region's machine may be ahead of a node's."""
MOST_BYTES = 32 * 2**20
"""30,000 volumes are 1.3 MiB. A file of this size takes some 240 MiB of memory; a refresh may take 512."""


@frozen(kw_only=True)
class Region:
    """One state of a whole region."""

    generation: int
    issued: datetime
    begun: datetime
    """When the reading began: later changes may be missing."""
    source: str
    """The cloud it was read from, for people."""
    specs: Mapping[str, QosSpec] = field(default_factory=dict)
    types: Mapping[str, VolumeType] = field(default_factory=dict)
    volumes: Mapping[str, str | None] = field(default_factory=dict)
    """By volume id the id of its type, None for a volume without one."""
    servers: Mapping[str, Mapping[str, str] | None] = field(default_factory=dict)
    """By uuid the ``quota:`` extra specs of its flavor, None where Nova does not show any."""
    has_all_servers: bool = True
    """Without, as Nova failed, the flavor of a guest that is not in ``servers`` is unknown."""
    orders: Orders = field(default_factory=Orders)
    valid_until: datetime | None = None
    other: Lists | None = None
    """Besides ``specs`` and ``types``, while an approval of specs has stages: those that it approves, and in its last
    stage those of before."""

    def on_node(self, position: float) -> Region:
        """The region as the node with this position sees it: with the specs and types whose stage has reached it."""
        here = self.orders.on_node(position)
        # Those of before, in the last stage, may be approved too, without stages.
        in_stages = Orders(approvals=tuple(one for one in here.approvals if one.stages is not None))
        if self.other is None or not in_stages.approve(Of.SPECS, self.other.digest, self.issued):
            return self
        return replace(self, specs=self.other.specs, types=self.other.types)


@frozen(kw_only=True)
class SignedOrders:
    """The orders in a region file whose signature a pass has checked, and which file that was."""

    orders: Orders
    generation: Count
    begun: Moment
    """As ``Region.begun``."""
    file: str
    """SHA-256 of the region file."""
    key: str
    """SHA-256 of the file with the public key."""


class UnreadableRegion(CatalogueError):
    """The bytes are not a region file, or one of a newer plimsoll."""


class UnfitRegion(CatalogueError):
    """A region file that must not be used: older than the last one, or expired."""


def encode(region: Region) -> bytes:
    """The file's content, an entry a line; volumes are grouped by type, guests by their flavors' extra specs."""
    head = {
        "kind": KIND,
        "version": VERSION,
        "generation": region.generation,
        "issued": region.issued.isoformat(),
        "begun": region.begun.isoformat(),
        "valid_until": None if region.valid_until is None else region.valid_until.isoformat(),
        "source": region.source,
        # An older plimsoll reads shortened digests here, which can be forged.
        "approved": [],
    } | orders_data(region.orders)
    if not region.has_all_servers:
        head["has_all_servers"] = False
    types: dict[str | None, list[str]] = {}
    for id, type in region.volumes.items():
        types.setdefault(type, []).append(id)
    flavors: dict[str | None, list[str]] = {}
    for uuid, extra_specs in region.servers.items():
        flavor = None if extra_specs is None else json.dumps(dict(extra_specs), sort_keys=True)
        flavors.setdefault(flavor, []).append(uuid)
    sections = _lists(Lists(region.specs, region.types), "specs", "types") | {
        "volumes": [_line({"type": type, "volumes": sorted(ids)}) for type, ids in _sort(types)],
        "servers": [
            _line({"extra_specs": None if flavor is None else json.loads(flavor), "servers": sorted(uuids)})
            for flavor, uuids in _sort(flavors)
        ],
    }
    if region.other is not None:
        sections |= _lists(region.other, *_OTHER)
    lines = [f"{json.dumps(key)}: {as_json(value)}" for key, value in head.items()]
    lines += [f"{json.dumps(name)}: [{','.join(entries)}]" for name, entries in sections.items()]
    return ("{" + ",\n".join(lines) + "}\n").encode()


def _lists(lists: Lists, specs: str, types: str) -> dict[str, list[str]]:
    return {
        specs: [_line(spec_data(spec)) for _, spec in sorted(lists.specs.items())],
        types: [_line(data_of(type)) for _, type in sorted(lists.types.items())],
    }


def _line(value: object) -> str:
    return "\n " + json.dumps(value)


def _sort(groups: Mapping[str | None, list[str]]) -> list[tuple[str | None, list[str]]]:
    return sorted(groups.items(), key=lambda item: item[0] or "")


def decode(content: bytes, where: str, *, whole: bool = True) -> Region:
    """The region in a file's bytes, whose signature has been checked. Raises ``UnreadableRegion``.

    Not ``whole``, it has no specs, types, volumes and guests: reading these takes most of the time.
    """
    try:
        envelope = json.loads(content.decode("utf-8"))
        check_envelope(envelope, KIND, VERSION, where)
        return _whole(_head(envelope), envelope) if whole else _head(envelope)
    except NewerCatalogue as error:
        raise UnreadableRegion(str(error)) from error
    except decoding.UNREADABLE as error:
        raise UnreadableRegion(f"{where}: cannot be read as a region file: {decoding.complaint(error)}") from error


def check_fit(region: Region, digest: str, last: tuple[int, str | None], now: datetime, where: str) -> None:
    """``last`` are the generation and the digest of the last file. Raises ``UnfitRegion``.

    A server could send yesterday's file, which is signed too.
    """
    check_follows(region, digest, last, where)
    if region.valid_until is not None and now > region.valid_until:
        raise UnfitRegion(f"{where}: was valid until {minute(region.valid_until)}")
    if region.begun - now > AHEAD:
        raise UnfitRegion(f"{where}: is from the future ({minute(region.begun)}); check the clocks")


def check_follows(region: Region, digest: str, last: tuple[int, str | None], where: str) -> None:
    """As ``check_fit``, at whatever time."""
    generation, last_digest = last
    if region.generation < generation:
        raise UnfitRegion(f"{where}: is older (generation {region.generation}) than the last one ({generation})")
    if region.generation == generation and last_digest not in (None, digest):
        raise UnfitRegion(f"{where}: has the same generation ({generation}) as the last one, but other content")


def _head(envelope: Mapping[str, Any]) -> Region:
    return Region(
        generation=count(envelope["generation"]),
        issued=time(envelope["issued"]),
        begun=time(envelope["begun"]),
        valid_until=maybe(time, envelope["valid_until"]),
        source=text(envelope["source"]),
        has_all_servers=envelope.get("has_all_servers") is not False,
        # The file of an older plimsoll has no orders. Its ``approved`` is ignored.
        orders=read_orders({**orders_data(Orders()), **envelope}),
    )


def _whole(head: Region, envelope: Mapping[str, Any]) -> Region:
    lists = _read_lists(envelope, "specs", "types")
    return replace(
        head,
        specs=lists.specs,
        types=lists.types,
        other=_read_lists(envelope, *_OTHER) if envelope.keys() & set(_OTHER) else None,
        volumes=_once_each(several(_volumes, envelope["volumes"])),
        servers=_once_each(several(_servers, envelope["servers"])),
    )


def _read_lists(envelope: Mapping[str, Any], specs: str, types: str) -> Lists:
    return Lists(read_specs(_by_id(envelope[specs])), read_types(_by_id(envelope[types])))


def _by_id(entries: Any) -> dict[str, Any]:
    by_id: dict[str, Any] = {}
    for entry in several(dict, entries):
        id = text(entry["id"])
        if id in by_id:
            raise ValueError(f"{id!r} is there twice")
        by_id[id] = entry
    return by_id


def _volumes(group: Any) -> dict[str, str | None]:
    return dict.fromkeys(several(text, group["volumes"]), maybe(text, group["type"]))


def _servers(group: Any) -> dict[str, Mapping[str, str] | None]:
    extra_specs = maybe(partial(mapping, text), group["extra_specs"])
    return dict.fromkeys(several(text, group["servers"]), extra_specs)


def _once_each(groups: Iterable[Mapping[str, Value]]) -> dict[str, Value]:
    """All of them. Raises ``ValueError`` for an id in two groups: of two types, the last would count."""
    whole: dict[str, Value] = {}
    for group in groups:
        if again := whole.keys() & group.keys():
            raise ValueError(f"{min(again)!r} is in two groups")
        whole |= group
    return whole
