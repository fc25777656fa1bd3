"""Which volumes and guests a pass met, told to the refresher of the catalogue; and when what it knew counts no more.

A volume can be detached, given another type and attached again while nobody looks. So what Cinder said of it holds
for one attachment only, which bears a mark; another attachment, another start of the guest, or somebody else's hand
on the limit makes another mark, and the type has to be asked for again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from plimsoll_agent import files
from plimsoll_agent.catalogue import UNREADABLE, text, time, whole_number
from plimsoll_agent.disk import Disk, guest_of
from plimsoll_agent.limits import Limits

VERSION = 1
# A thousand attachments are some 250 KiB.
MOST_BYTES = 8 * 2**20


@dataclass(frozen=True, slots=True)
class Sighting:
    """An attachment as it was first met."""

    mark: str
    since: datetime
    stirred: int = 0
    """How often somebody else's hand was met on its limit."""
    found: Limits | None = None
    """What somebody else had put in force when that was last met: the same again is no news."""
    came_with: Limits | None = None
    """What was in force when it was first met; None while nobody could say."""


@dataclass(frozen=True, slots=True)
class Sightings:
    """What the node has: the attached volumes by ``Disk.key``, and guests by uuid whose flavor only Nova knows."""

    volumes: Mapping[str, Sighting] = field(default_factory=dict)
    guests: Mapping[str, Sighting] = field(default_factory=dict)

    def marks_of_volumes(self) -> dict[str, dict[str, datetime]]:
        """By volume id: the marks of its attachments on this node, and since when each was met."""
        marks: dict[str, dict[str, datetime]] = {}
        for key, sighting in self.volumes.items():
            marks.setdefault(volume_of(key), {})[sighting.mark] = sighting.since
        return marks


def volume_of(key: str) -> str:
    """The id of the volume whose disk has this ``Disk.key``."""
    return key.partition("/")[2]


def sight(
    disks: Sequence[Disk],
    before: Sightings,
    put: Mapping[str, Limits],
    now: datetime,
    *,
    boot: str,
    unseen: Collection[str] = (),
) -> Sightings:
    """What is known to be attached after this look; of guests in ``unseen`` (uuids) it stays as it was.

    ``put`` is what plimsoll put in force on these very attachments, by ``Disk.key``.
    """
    volumes = {key: one for key, one in before.volumes.items() if guest_of(key) in unseen}
    guests = {uuid: one for uuid, one in before.guests.items() if uuid in unseen}
    for disk in disks:
        if disk.volume_id is not None:
            volumes[disk.key] = _sighted(disk, before.volumes.get(disk.key), put.get(disk.key), now, boot)
        if disk.guest.extra_specs is None and disk.guest.by_nova:
            mark = _mark(boot, str(disk.guest.run))
            old = before.guests.get(disk.guest.uuid)
            same = old is not None and old.mark == mark and old.since <= now
            guests[disk.guest.uuid] = old if old is not None and same else Sighting(mark, now)
    return Sightings(volumes, guests)


def _sighted(disk: Disk, before: Sighting | None, ours: Limits | None, now: datetime, boot: str) -> Sighting:
    in_force = disk.in_force if isinstance(disk.in_force, Limits) else None
    stirred = before.stirred if before else 0
    if before is None or before.mark != _mark(boot, disk.attachment, stirred):
        return Sighting(_mark(boot, disk.attachment, 0), now, came_with=in_force)
    if before.came_with is None:
        before = replace(before, came_with=in_force)
    if before.since > now:  # a clock that was ahead must not make it doubtful for as long
        before = replace(before, since=now)
    if in_force is None or in_force in (ours or before.came_with, before.found):
        return before
    return Sighting(_mark(boot, disk.attachment, stirred + 1), now, stirred + 1, in_force, before.came_with)


def _mark(boot: str, *parts: object) -> str:
    return hashlib.sha256("\0".join(map(str, (boot, *parts))).encode()).hexdigest()[:12]


# --- values as JSON, and back ---------------------------------------------------------------------------


class UnreadableSightings(ValueError):
    """The file is not what a pass wrote."""


def load(path: Path) -> Sightings | None:
    """What the last pass met, None when there was none. Raises ``OSError``, ``UnreadableSightings``."""
    try:
        content = files.read_whole(path, MOST_BYTES)
    except FileNotFoundError:
        return None
    try:
        data = json.loads(content.decode("utf-8"))
        if data["version"] != VERSION:
            raise ValueError(f"version {data['version']!r}")
        return Sightings(
            *({key: _sighting(one) for key, one in data[name].items()} for name in ("volumes", "guests"))
        )
    except UNREADABLE as error:
        raise UnreadableSightings(f"{path}: {type(error).__name__}: {error}") from error


def save(path: Path, sightings: Sightings) -> None:
    """Replace the file as a whole. Raises ``OSError``."""
    sections = {"volumes": sightings.volumes, "guests": sightings.guests}
    lines = (
        f"{json.dumps(name)}: {{"
        + ",".join(f"\n {json.dumps(key)}: {json.dumps(_data(one))}" for key, one in sorted(entries.items()))
        + "}"
        for name, entries in sections.items()
    )
    files.write_whole(path, f'{{"version": {VERSION},\n' + ",\n".join(lines) + "}\n")


def _data(sighting: Sighting) -> dict[str, object]:
    return {
        "mark": sighting.mark,
        "since": sighting.since.isoformat(),
        "stirred": sighting.stirred,
        "found": _limits_data(sighting.found),
        "came_with": _limits_data(sighting.came_with),
    }


def _limits_data(limits: Limits | None) -> dict[str, int | str] | None:
    return None if limits is None else limits.in_effect()


def _sighting(value: Any) -> Sighting:
    return Sighting(
        text(value["mark"]),
        time(value["since"]),
        whole_number(value["stirred"]),
        _limits(value["found"]),
        _limits(value["came_with"]),
    )


def _limits(value: Any) -> Limits | None:
    return None if value is None else Limits.from_mapping({**value})
