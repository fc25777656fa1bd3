"""The volumes and guests that a pass found, for the refresher of the catalogue, with a mark for each attachment.

Between two passes a volume can be detached, retyped and attached again. So catalogue data of a volume is valid for
one attachment only. A new attachment or a restart of the guest makes a new mark, and limits are unknown until the
type is requested again. After an external change of the limit it is requested again too, as Nova may have made it;
but the mark names the same attachment, so what was fetched for that stays valid, and the change is reverted.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from plimsoll_agent.catalogue.model import CatalogueError
from plimsoll_agent.model.disk import Disk, guest_of
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.util import decoding, files
from plimsoll_agent.util.decoding import Count, Moment, as_json, data_of, mapping, value_of
from plimsoll_agent.util.frozen import frozen, replace

VERSION = 1
# A thousand attachments are some 250 KiB.
MOST_BYTES = 8 * 2**20
_CHANGES = "."
"""In a mark, before the number of external changes; there is none before the first."""


@frozen(kw_only=True)
class Attachment:
    """An attachment, and when a pass first found it."""

    mark: str
    since: Moment
    external_changes: Count = 0
    """How often its limits were changed externally."""
    found: Limits | None = None
    """The limits after the last external change: found again, they are no further change."""
    came_with: Limits | None = None
    """Its attach-time limits; None while they are unknown."""


@frozen
class Attachments:
    """The attached volumes by ``Disk.key``, and by uuid the guests whose flavor is not in their definition."""

    volumes: Mapping[str, Attachment] = field(default_factory=dict)
    guests: Mapping[str, Attachment] = field(default_factory=dict)

    def marks_of_volumes(self) -> dict[str, dict[str, datetime]]:
        """By volume id the marks of its attachments on this node, each with the time when it was first found."""
        marks: dict[str, dict[str, datetime]] = {}
        for key, attachment in self.volumes.items():
            marks.setdefault(volume_of(key), {})[attachment.mark] = attachment.since
        return marks


def same_attachment(mark: str, other: str) -> bool:
    """Whether marks are of one attachment, before and after external changes."""
    return mark.partition(_CHANGES)[0] == other.partition(_CHANGES)[0]


def volume_of(key: str) -> str:
    """The id of the volume whose disk has this ``Disk.key``."""
    return key.partition("/")[2]


def sight(
    disks: Sequence[Disk],
    before: Attachments,
    limits: Mapping[str, Limits],
    now: datetime,
    *,
    boot: str,
    unseen: Collection[str] = (),
) -> Attachments:
    """The attachments after a pass that found ``disks``; those of the guests in ``unseen`` (uuids) are unchanged.

    ``limits`` is what plimsoll set on these attachments, by ``Disk.key``.
    """
    volumes = {key: one for key, one in before.volumes.items() if guest_of(key) in unseen}
    guests = {uuid: one for uuid, one in before.guests.items() if uuid in unseen}
    for disk in disks:
        if disk.volume_id is not None:
            volumes[disk.key] = _attachment(disk, before.volumes.get(disk.key), limits.get(disk.key), now, boot)
        if disk.guest.extra_specs is None and disk.guest.by_nova:
            mark = _mark(boot, str(disk.guest.run))
            old = before.guests.get(disk.guest.uuid)
            same = old is not None and old.mark == mark and old.since <= now
            guests[disk.guest.uuid] = old if old is not None and same else Attachment(mark=mark, since=now)
    return Attachments(volumes, guests)


def _attachment(disk: Disk, before: Attachment | None, ours: Limits | None, now: datetime, boot: str) -> Attachment:
    actual = disk.actual if isinstance(disk.actual, Limits) else None
    external_changes = before.external_changes if before else 0
    mark = _mark(boot, disk.attachment, 0)
    # A version before this one hashed the number of changes into the mark.
    if before is None or not (
        same_attachment(before.mark, mark) or before.mark == _mark(boot, disk.attachment, external_changes)
    ):
        return Attachment(mark=mark, since=now, came_with=actual)
    if before.came_with is None:
        before = replace(before, came_with=actual)
    if before.since > now:  # the clock was ahead: else the catalogue would seem too old until then
        before = replace(before, since=now)
    if actual is None or actual in (ours or before.came_with, before.found):
        return before
    changes = external_changes + 1
    return Attachment(
        mark=f"{mark}{_CHANGES}{changes}",
        since=now,
        external_changes=changes,
        found=actual,
        came_with=before.came_with,
    )


def _mark(boot: str, *parts: object) -> str:
    return hashlib.sha256("\0".join(map(str, (boot, *parts))).encode()).hexdigest()[:12]


# --- values as JSON, and back ---------------------------------------------------------------------------


class UnreadableAttachments(CatalogueError):
    """The file is not what a pass wrote."""


def load(path: Path) -> Attachments | None:
    """What the last pass found, None without one. Raises ``UnreadableAttachments``, ``CatalogueError``."""

    def of(data: Any) -> Attachments:
        if data["version"] != VERSION:
            raise ValueError(f"version {data['version']!r}")
        read = partial(value_of, Attachment)
        return Attachments(mapping(read, data["volumes"]), mapping(read, data["guests"]))

    return decoding.load(path, MOST_BYTES, of, CatalogueError, corrupt=UnreadableAttachments)


def save(path: Path, attachments: Attachments) -> None:
    """Replace the file as a whole. Raises ``OSError``."""
    sections = {"volumes": attachments.volumes, "guests": attachments.guests}
    lines = (
        f"{json.dumps(name)}: {{"
        + ",".join(f"\n {json.dumps(key)}: {as_json(data_of(one))}" for key, one in sorted(entries.items()))
        + "}"
        for name, entries in sections.items()
    )
    files.write_whole(path, f'{{"version": {VERSION},\n' + ",\n".join(lines) + "}\n")
