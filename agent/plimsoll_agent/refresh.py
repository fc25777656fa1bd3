"""What a refresh of the catalogue asks for, and what becomes of the answers. Pure: it asks nobody itself.

Specs and types come in two lists, as often as the settings say. A volume's type is asked for once an attachment,
and then rarely; a guest's flavor once a start of the guest. So a node costs two calls a refresh, and often a third.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from plimsoll_agent.catalogue import Catalogue, Server, Volume, VolumeType
from plimsoll_agent.qosspec import QosSpec
from plimsoll_agent.regionfile import Region
from plimsoll_agent.sightings import Sighting, Sightings

MOST_UNKNOWN = 1000
"""Unknown volumes asked for in one run; the rest is for the next one."""
RARELY = timedelta(days=1)
AGAIN = 50
"""Known volumes asked for again in one run, which is one call."""
MOST_KNOWN = 1000
"""The same when somebody asks for all of them at once; those read longest ago come first."""
# A timer with jitter may come somewhat early; it must not leave a whole interval out for that.
_EARLY = 0.9
# Between the clock of the region's machine and a node's, and for a clock that was set back.
SKEW = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class Agenda:
    """What is to be asked for in one run."""

    lists: bool
    """QoS specs and volume types."""
    unknown: tuple[str, ...] = ()
    """Volumes with an attachment that nobody has asked for."""
    again: tuple[str, ...] = ()
    """Known volumes whose turn it is."""
    servers: bool = False
    """This node's guests, for their flavors."""
    left: int = 0
    """Unknown volumes that have to wait for the next run."""
    at_once: bool = False
    """Somebody asked for all of it, and the calls for ``again`` are worth it."""

    @property
    def empty(self) -> bool:
        return not (self.lists or self.unknown or self.again or self.servers)


@dataclass(frozen=True, slots=True)
class Lists:
    """QoS specs and volume types, which belong together, by their ids."""

    specs: Mapping[str, QosSpec]
    types: Mapping[str, VolumeType]


@dataclass(frozen=True, slots=True)
class TypeOf:
    """What Cinder said of one volume: the id of its type, None for none; or that there is no such volume."""

    type: str | None
    missing: bool = False
    gib: int | None = None
    """Its size; None where that was not told."""
    attached: bool = True
    """False only where it surely is not: then no edit of a spec reaches it."""


@dataclass(frozen=True, slots=True)
class Answers:
    """What one run brought. What was not asked for, or not answered, is not in it."""

    lists: Lists | None = None
    volumes: Mapping[str, TypeOf] = field(default_factory=dict)
    """By volume id."""
    servers: Mapping[str, Mapping[str, str] | None] | None = None
    """By uuid the extra specs of this node's guests, None for one whose extra specs are hidden."""


def agenda(
    catalogue: Catalogue | None,
    sightings: Sightings | None,
    now: datetime,
    *,
    interval: float,
    source: str,
    nova: bool = True,
    at_once: bool = False,
) -> Agenda:
    """What is due after ``interval`` seconds; ``at_once`` is somebody who asks for all of it now."""
    lists = catalogue is None or at_once or catalogue.source != source or due(catalogue.issued, now, interval)
    if sightings is None:
        return Agenda(lists)
    volumes = catalogue.volumes if catalogue is not None else {}
    marks = sightings.marks_of_volumes()
    unknown = sorted(id for id in marks if id not in volumes or not volumes[id].marks >= marks[id].keys())
    again: list[str] = []
    if lists:  # not more often than these, however often somebody starts a refresh
        known = sorted((volumes[id].read, id) for id in marks.keys() - set(unknown))
        stale = any(_over(RARELY, read, now) for read, _ in known)
        missing = [id for _, id in known if volumes[id].missing]
        hoped = [
            id for id in missing if at_once or _doubled(volumes[id].read, min(marks[id].values()), now, interval)
        ]
        # With the first that is stale go those that will be soon: a call for many costs as much as one for it alone.
        oldest = [id for _, id in known] if stale or at_once else []
        again = list(dict.fromkeys(hoped + oldest))[: MOST_KNOWN if at_once else AGAIN]
    return Agenda(
        lists,
        tuple(unknown[:MOST_UNKNOWN]),
        tuple(again),
        nova and _servers_due(catalogue, sightings, now, interval, at_once),
        max(0, len(unknown) - MOST_UNKNOWN),
        at_once,
    )


def _servers_due(
    catalogue: Catalogue | None, sightings: Sightings, now: datetime, interval: float, at_once: bool
) -> bool:
    known = catalogue.servers if catalogue is not None else {}
    for uuid, guest in sightings.guests.items():
        server = known.get(uuid)
        if server is None or guest.mark not in server.marks:
            return True
        # Where a guest migrates in, Nova names the other node for a while.
        if server.missing and (at_once or _doubled(server.read, guest.since, now, interval)):
            return True
    return False


def due(read: datetime, now: datetime, interval: float) -> bool:
    """Whether what was read then is to be asked for again, after so many seconds or a little before."""
    return _over(timedelta(seconds=interval * _EARLY), read, now)


def _over(span: timedelta, read: datetime, now: datetime) -> bool:
    """Whether it was read longer ago than that; a time that is still to come says that a clock was set back."""
    return now - read >= span or read - now > SKEW


def _doubled(read: datetime, since: datetime, now: datetime, interval: float) -> bool:
    """Whether to ask again for what was not there: after as long a time as it has been missed, a day at the most."""
    least = timedelta(seconds=interval * _EARLY)
    return _over(min(max(read - since, least), RARELY), read, now)


def refreshed(
    before: Catalogue | None, answers: Answers, sightings: Sightings | None, now: datetime, *, source: str
) -> Catalogue:
    """The catalogue after those answers, which were asked for at ``now`` by these sightings.

    What is no longer sighted is dropped; without sightings nothing is. The first catalogue needs ``answers.lists``.
    """
    lists = answers.lists
    if lists is None:
        if before is None:
            raise ValueError("no lists, and no catalogue")
        lists, issued = Lists(before.specs, before.types), before.issued
    else:
        issued = now
    volumes = dict(before.volumes) if before is not None else {}
    servers = dict(before.servers) if before is not None else {}
    if sightings is not None:
        volumes = dict(_volumes(volumes, answers.volumes, sightings, now))
        servers = dict(_servers(servers, answers.servers, sightings.guests, now))
    return _numbered(before, Catalogue(0, issued, source, lists.specs, lists.types, volumes, servers))


def _volumes(
    before: Mapping[str, Volume], told: Mapping[str, TypeOf], sightings: Sightings, now: datetime
) -> Iterator[tuple[str, Volume]]:
    for id, marks in sightings.marks_of_volumes().items():
        if id in told:
            yield id, Volume(told[id].type, frozenset(marks), now, told[id].missing)
        elif id in before and (kept := before[id].marks & marks.keys()):
            yield id, replace(before[id], marks=kept)


def _servers(
    before: Mapping[str, Server],
    told: Mapping[str, Mapping[str, str] | None] | None,
    guests: Mapping[str, Sighting],
    now: datetime,
) -> Iterator[tuple[str, Server]]:
    for uuid, guest in guests.items():
        old = before.get(uuid)
        covered = old is not None and guest.mark in old.marks
        extra_specs = told.get(uuid) if told is not None else None
        if extra_specs is not None:
            yield uuid, Server(extra_specs, frozenset({guest.mark}), now)
        elif old is not None and covered and (told is None or not old.missing):
            yield uuid, old  # a flavor stays the same from a start to the next, whoever names the guest now
        elif told is not None:
            yield uuid, Server({}, frozenset({guest.mark}), now, missing=True)


def sliced(before: Catalogue | None, region: Region, sightings: Sightings | None, *, source: str) -> Catalogue:
    """This node's part of the region's file.

    What it says of a volume counts for attachments only that are older than its reading: another type may have been
    given before a later one.
    """
    volumes = dict(before.volumes) if before is not None else {}
    servers = dict(before.servers) if before is not None else {}
    if sightings is not None:
        volumes = dict(_volumes_of(region, volumes, sightings))
        servers = dict(_servers_of(region, servers, sightings.guests))
    return Catalogue(
        region.generation,
        region.begun,
        source,
        region.specs,
        region.types,
        volumes,
        servers,
        region.orders,
    )


def complete(catalogue: Catalogue, sightings: Sightings) -> bool:
    """Whether the region's file that this was cut from has no more to say of what is sighted now."""
    volumes, servers = catalogue.volumes, catalogue.servers
    told = catalogue.issued - SKEW
    return all(
        since > told or (id in volumes and mark in volumes[id].marks)
        for id, marks in sightings.marks_of_volumes().items()
        for mark, since in marks.items()
    ) and all(
        guest.since > told or (uuid in servers and guest.mark in servers[uuid].marks)
        for uuid, guest in sightings.guests.items()
    )


def _volumes_of(region: Region, before: Mapping[str, Volume], sightings: Sightings) -> Iterator[tuple[str, Volume]]:
    for id, marks in sightings.marks_of_volumes().items():
        covered = frozenset(mark for mark, since in marks.items() if since + SKEW <= region.begun)
        if covered:
            known = id in region.volumes
            yield id, Volume(region.volumes.get(id), covered, region.begun, missing=not known)
        elif id in before and (kept := before[id].marks & marks.keys()):
            yield id, replace(before[id], marks=kept)


def _servers_of(
    region: Region, before: Mapping[str, Server], guests: Mapping[str, Sighting]
) -> Iterator[tuple[str, Server]]:
    for uuid, guest in guests.items():
        old = before.get(uuid)
        covered = old is not None and guest.mark in old.marks
        if guest.since + SKEW <= region.begun and (uuid in region.servers or not covered):
            extra_specs = region.servers.get(uuid)
            yield uuid, Server(extra_specs or {}, frozenset({guest.mark}), region.begun, missing=extra_specs is None)
        elif old is not None and covered:
            yield uuid, old


def _numbered(before: Catalogue | None, after: Catalogue) -> Catalogue:
    """With the generation of the one before where nothing but times of reading is new, else with the next."""
    if before is None:
        return replace(after, generation=1)
    changed = content(before) != content(after)
    return replace(after, generation=before.generation + int(changed))


def content(catalogue: Catalogue) -> tuple[object, ...]:
    """What a catalogue says, without the times at which it was read."""
    return (
        dict(catalogue.specs),
        dict(catalogue.types),
        {id: (volume.type, volume.missing, volume.marks) for id, volume in catalogue.volumes.items()},
        {
            uuid: (dict(server.extra_specs), server.missing, server.marks)
            for uuid, server in catalogue.servers.items()
        },
        catalogue.source,
        catalogue.orders,
    )
