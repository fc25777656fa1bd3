"""Decides what a refresh of the catalogue requests, and makes the new catalogue from the answers. Pure.

Specs and types are two lists, read at the set interval. A volume's type is requested once an attachment, and then
rarely; a guest's flavor once a start of the guest. So a refresh of a node takes two calls, often a third.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from datetime import datetime, timedelta

from plimsoll_agent.catalogue.attachments import Attachment, Attachments, same_attachment
from plimsoll_agent.catalogue.model import SKEW, Catalogue, Lists, Server, Volume
from plimsoll_agent.catalogue.signed_file import Region
from plimsoll_agent.util.frozen import frozen, replace

MOST_UNKNOWN = 1000
"""Unknown volumes requested in one run; the rest is for the next one."""
RARELY = timedelta(days=1)
AGAIN = 50
"""Known volumes requested again in one run, which is one call."""
MOST_KNOWN = 1000
"""The same when an operator refreshes all at once; those read longest ago come first."""
# A timer with jitter may fire early; that must not skip a whole interval.
_EARLY = 0.9


@frozen(kw_only=True)
class Agenda:
    """What one run requests."""

    lists: bool
    """QoS specs and volume types."""
    unknown: tuple[str, ...] = ()
    """Volumes with an attachment that the catalogue has no data for."""
    again: tuple[str, ...] = ()
    """Known volumes that are due."""
    servers: bool = False
    """This node's guests, for their flavors."""
    left: int = 0
    """Unknown volumes left for the next run."""
    at_once: bool = False
    """An operator asked for all of it, so ``again`` may take more calls."""

    @property
    def empty(self) -> bool:
        return not (self.lists or self.unknown or self.again or self.servers)


@frozen(kw_only=True)
class TypeOf:
    """One volume from Cinder."""

    type: str | None
    """The id of its type; None for a volume without one."""
    missing: bool = False
    """Cinder has no such volume."""
    gib: int | None = None
    """Its size; None where Cinder did not return it."""
    attached: bool = True
    """False only where it is certainly not attached: then no edit of a spec changes its limits."""


@frozen
class Answers:
    """What one run read. What was not requested, or not answered, is left out."""

    lists: Lists | None = None
    volumes: Mapping[str, TypeOf] = field(default_factory=dict)
    """By volume id."""
    servers: Mapping[str, Mapping[str, str] | None] | None = None
    """By uuid the extra specs of this node's guests, None for one whose extra specs are hidden."""


def agenda(
    catalogue: Catalogue | None,
    attachments: Attachments | None,
    now: datetime,
    *,
    interval: float,
    source: str,
    nova: bool = True,
    at_once: bool = False,
) -> Agenda:
    """What is due when it is read every ``interval`` seconds; with ``at_once`` all of it is."""
    lists = catalogue is None or at_once or catalogue.source != source or due(catalogue.issued, now, interval)
    if attachments is None:
        return Agenda(lists=lists)
    volumes = catalogue.volumes if catalogue is not None else {}
    marks = attachments.marks_of_volumes()
    unknown = sorted(id for id in marks if id not in volumes or not volumes[id].marks >= marks[id].keys())
    # Known volumes are read with the lists only, however often a refresh is started.
    candidates = {id: volumes[id] for id in marks.keys() - set(unknown)} if lists else {}
    return Agenda(
        lists=lists,
        unknown=tuple(unknown[:MOST_UNKNOWN]),
        again=_again(candidates, marks, now, interval, at_once=at_once),
        servers=nova and _servers_due(catalogue, attachments, now, interval, at_once),
        left=max(0, len(unknown) - MOST_UNKNOWN),
        at_once=at_once,
    )


def _again(
    volumes: Mapping[str, Volume],
    marks: Mapping[str, Mapping[str, datetime]],
    now: datetime,
    interval: float,
    *,
    at_once: bool,
) -> tuple[str, ...]:
    """The volumes to request again, missing ones before those that were read longest ago."""
    reads = sorted((volume.read, id) for id, volume in volumes.items())
    stale = any(_over(RARELY, read, now) for read, _ in reads)
    missing = [
        id
        for read, id in reads
        if volumes[id].missing and (at_once or _doubled(read, min(marks[id].values()), now, interval))
    ]
    # One stale volume takes others along that will be stale soon: one call reads them all.
    oldest = [id for _, id in reads] if stale or at_once else []
    return tuple(dict.fromkeys(missing + oldest))[: MOST_KNOWN if at_once else AGAIN]


def _servers_due(
    catalogue: Catalogue | None, attachments: Attachments, now: datetime, interval: float, at_once: bool
) -> bool:
    servers = catalogue.servers if catalogue is not None else {}
    for uuid, guest in attachments.guests.items():
        server = servers.get(uuid)
        if server is None or guest.mark not in server.marks:
            return True
        # While a guest migrates in, Nova still shows it on the other node.
        if server.missing and (at_once or _doubled(server.read, guest.since, now, interval)):
            return True
    return False


def due(read: datetime, now: datetime, interval: float) -> bool:
    """Whether what was read then is due again after ``interval`` seconds, or a little before."""
    return _over(timedelta(seconds=interval * _EARLY), read, now)


def due_at(read: datetime, interval: float) -> datetime:
    return read + timedelta(seconds=interval * _EARLY)


def _over(duration: timedelta, read: datetime, now: datetime) -> bool:
    """Whether it was read longer ago than that; also where ``read`` is in the future, as a clock was set back."""
    return now - read >= duration or read - now > SKEW


def _doubled(read: datetime, since: datetime, now: datetime, interval: float) -> bool:
    """Whether to request a missing entry again: after as long as it has been missing, at most a day."""
    least = timedelta(seconds=interval * _EARLY)
    return _over(min(max(read - since, least), RARELY), read, now)


def next_catalogue(
    before: Catalogue | None, answers: Answers, attachments: Attachments | None, now: datetime, *, source: str
) -> Catalogue:
    """The catalogue after those answers, which were requested at ``now`` for these attachments.

    What is no longer attached is dropped; without ``attachments`` all is kept. The first catalogue needs
    ``answers.lists``.
    """
    lists = answers.lists
    if lists is None:
        if before is None:
            raise ValueError("no lists, and no catalogue")
        lists, issue_time = Lists(before.specs, before.types), before.issued
    else:
        issue_time = now
    volumes = dict(before.volumes) if before is not None else {}
    servers = dict(before.servers) if before is not None else {}
    if attachments is not None:
        volumes = dict(_volumes(volumes, answers.volumes, attachments, now))
        servers = dict(_servers(servers, answers.servers, attachments.guests, now))
    return _with_generation(before, Catalogue(0, issue_time, source, lists.specs, lists.types, volumes, servers))


def _volumes(
    before: Mapping[str, Volume], answers: Mapping[str, TypeOf], attachments: Attachments, now: datetime
) -> Iterator[tuple[str, Volume]]:
    for id, marks in attachments.marks_of_volumes().items():
        if id in answers:
            yield id, Volume(type=answers[id].type, marks=frozenset(marks), read=now, missing=answers[id].missing)
        elif id in before and (rest := _of_present(before[id].marks, marks)):
            yield id, replace(before[id], marks=rest)


def _servers(
    before: Mapping[str, Server],
    answers: Mapping[str, Mapping[str, str] | None] | None,
    guests: Mapping[str, Attachment],
    now: datetime,
) -> Iterator[tuple[str, Server]]:
    for uuid, guest in guests.items():
        old = before.get(uuid)
        is_covered = old is not None and guest.mark in old.marks
        extra_specs = answers.get(uuid) if answers is not None else None
        if extra_specs is not None:
            yield uuid, Server(extra_specs=extra_specs, marks=frozenset({guest.mark}), read=now)
        elif old is not None and is_covered and (answers is None or not old.missing):
            yield uuid, old  # a guest's flavor does not change until it is started again
        elif answers is not None:
            yield uuid, Server(extra_specs={}, marks=frozenset({guest.mark}), read=now, missing=True)


def slice_of(before: Catalogue | None, region: Region, attachments: Attachments | None, *, source: str) -> Catalogue:
    """This node's part of the region's file.

    Its data of a volume is valid only for attachments older than its reading: before a later one, the volume may have
    been retyped.
    """
    volumes = dict(before.volumes) if before is not None else {}
    servers = dict(before.servers) if before is not None else {}
    if attachments is not None:
        volumes = dict(_volumes_of(region, volumes, attachments))
        servers = dict(_servers_of(region, servers, attachments.guests))
    return Catalogue(
        region.generation,
        region.begun,
        source,
        region.specs,
        region.types,
        volumes,
        servers,
    )


def complete(catalogue: Catalogue, attachments: Attachments, *, has_all_servers: bool = True) -> bool:
    """Whether this catalogue has all that its region file has of these attachments."""
    volumes, servers = catalogue.volumes, catalogue.servers
    return all(
        not catalogue.covers(since) or (id in volumes and mark in volumes[id].marks)
        for id, marks in attachments.marks_of_volumes().items()
        for mark, since in marks.items()
    ) and all(
        not has_all_servers
        or not catalogue.covers(guest.since)
        or (uuid in servers and guest.mark in servers[uuid].marks)
        for uuid, guest in attachments.guests.items()
    )


def _volumes_of(
    region: Region, before: Mapping[str, Volume], attachments: Attachments
) -> Iterator[tuple[str, Volume]]:
    for id, marks in attachments.marks_of_volumes().items():
        earlier = frozenset(mark for mark, since in marks.items() if since + SKEW <= region.begun)
        if earlier:
            is_known = id in region.volumes
            yield id, Volume(type=region.volumes.get(id), marks=earlier, read=region.begun, missing=not is_known)
        elif id in before and (rest := _of_present(before[id].marks, marks)):
            yield id, replace(before[id], marks=rest)


def _of_present(marks: Iterable[str], present: Iterable[str]) -> frozenset[str]:
    """Those of present attachments, also from before an external change."""
    return frozenset(mark for mark in marks if any(same_attachment(mark, each) for each in present))


def _servers_of(
    region: Region, before: Mapping[str, Server], guests: Mapping[str, Attachment]
) -> Iterator[tuple[str, Server]]:
    for uuid, guest in guests.items():
        old = before.get(uuid)
        is_covered = old is not None and guest.mark in old.marks
        is_told = uuid in region.servers or (region.has_all_servers and not is_covered)
        if guest.since + SKEW <= region.begun and is_told:
            extra_specs = region.servers.get(uuid)
            yield (
                uuid,
                Server(
                    extra_specs=extra_specs or {},
                    marks=frozenset({guest.mark}),
                    read=region.begun,
                    missing=extra_specs is None,
                ),
            )
        elif old is not None and is_covered:
            yield uuid, old


def _with_generation(before: Catalogue | None, after: Catalogue) -> Catalogue:
    """With the generation of the one before where only times of reading changed, else with the next."""
    if before is None:
        return replace(after, generation=1)
    has_changed = content(before) != content(after)
    return replace(after, generation=before.generation + int(has_changed))


def content(catalogue: Catalogue) -> tuple[object, ...]:
    """A catalogue's data without the times of reading."""
    return (
        dict(catalogue.specs),
        dict(catalogue.types),
        {id: (volume.type, volume.missing, volume.marks) for id, volume in catalogue.volumes.items()},
        {
            uuid: (dict(server.extra_specs), server.missing, server.marks)
            for uuid, server in catalogue.servers.items()
        },
        catalogue.source,
    )
