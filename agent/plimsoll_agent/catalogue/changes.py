"""Which guests a new catalogue concerns. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from plimsoll_agent.catalogue.attachments import Attachments, volume_of
from plimsoll_agent.catalogue.model import Catalogue, Server, Volume
from plimsoll_agent.model.disk import guest_of

Entry = TypeVar("Entry", Volume, Server)


def changed_guests(
    before: Catalogue | None, after: Catalogue | None, attachments: Attachments
) -> frozenset[str] | None:
    """The uuids of the guests for whose disks or flavor it has other data; None: it may concern every guest.

    When a volume was read is not its data.
    """
    if before is None or after is None:
        return frozenset() if before is after else None
    if (before.specs, before.types, before.source) != (after.specs, after.types, after.source):
        return None
    volumes = _differences(before.volumes, after.volumes, lambda each: (each.type, each.missing, each.marks))
    guests = _differences(before.servers, after.servers, lambda each: (each.extra_specs, each.missing, each.marks))
    return frozenset({guest_of(key) for key in attachments.volumes if volume_of(key) in volumes} | guests)


def _differences(
    before: Mapping[str, Entry], after: Mapping[str, Entry], data: Callable[[Entry], object]
) -> set[str]:
    def of(entries: Mapping[str, Entry], id: str) -> object:
        return data(entries[id]) if id in entries else None

    return {id for id in {*before, *after} if of(before, id) != of(after, id)}
