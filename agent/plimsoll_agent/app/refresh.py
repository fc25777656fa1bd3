"""Fetches the catalogue, from the cloud or the region file; the caller saves it."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import field
from datetime import datetime
from pathlib import Path

from plimsoll_agent.app import signed_source
from plimsoll_agent.app.cloud import connected
from plimsoll_agent.app.signed_source import Signed, SignedSource, shown, signed
from plimsoll_agent.catalogue import attachments, signed_file
from plimsoll_agent.catalogue.attachments import Attachments, UnreadableAttachments
from plimsoll_agent.catalogue.model import Catalogue, CatalogueError, Lists
from plimsoll_agent.catalogue.planner import agenda, complete, due, due_at, next_catalogue, slice_of
from plimsoll_agent.catalogue.reader import gather
from plimsoll_agent.config.settings import CatalogueSettings, Settings
from plimsoll_agent.errors import ConfigError, PlimsollError
from plimsoll_agent.messages import catalogue as catalogue_messages
from plimsoll_agent.store.refresh_state import LastRegion, NovaFailures, RefreshNotes
from plimsoll_agent.store.state import State
from plimsoll_agent.util import files
from plimsoll_agent.util.frozen import frozen, replace

LOG = logging.getLogger(__name__)
AN_ANSWER_304 = 30.0
"""Seconds after which a web server is asked for a newer file, if it can reply that there is none."""


@frozen(kw_only=True)
class Fetched:
    """The result of a refresh, to be stored or compared."""

    catalogue: Catalogue
    said: str
    """The line that reports it."""
    remarks: tuple[str, ...] = ()
    """Warnings."""
    trouble: PlimsollError | None = None
    """The error that ended the refresh early."""
    is_novas: bool = False
    """It is Nova's: all that was to be read of Cinder was."""
    nova_waits: bool = False
    """Nova was not asked, because it failed before."""
    region: LastRegion | None = None
    region_file: bytes | None = None
    """The region file with its signature in it, to be kept for passes; None if they have it already."""
    calls: Mapping[str, int] = field(default_factory=dict)
    """Calls to each service."""


def load_attachments(settings: Settings) -> tuple[Attachments | None, str | None]:
    """The attachments of the last pass (None: unknown), and what is wrong with their file."""
    path = State(settings.state_dir).attachments
    try:
        return attachments.load(path), None
    except UnreadableAttachments:
        return None, f"{path}: unreadable; known volumes stay in the catalogue, new ones are not fetched"
    except CatalogueError as error:
        return None, f"{error}; known volumes stay in the catalogue"


def follow(refresh: Callable[[], int], attachments_now: Callable[[], object], ask_again: Callable[[], None]) -> int:
    """Refresh, and ask for another one if attachments changed since: systemd does not watch their file then.

    Returns the status. After a failure the timer is next.
    """
    before = attachments_now()
    status = refresh()
    if status in (0, 3) and attachments_now() != before:
        ask_again()
    return status


def check_source(settings: CatalogueSettings) -> None:
    """Raises ``ConfigError`` if there is no source."""
    if settings.source == "none":
        raise ConfigError("[catalogue] source is none: nothing to fetch; set openstack or region-file")


def fetch(
    settings: CatalogueSettings,
    before: Catalogue | None,
    attachments: Attachments | None,
    notes: RefreshNotes,
    now: datetime,
    *,
    at_once: bool,
) -> Fetched:
    """Raises ``PlimsollError``; then nothing was fetched."""
    check_source(settings)
    if settings.source == "openstack":
        return _from_cloud(settings, before, attachments, notes.nova, now, at_once=at_once)
    return _from_region(settings, before, attachments, notes.region, now, at_once=at_once)


def _from_cloud(
    settings: CatalogueSettings,
    before: Catalogue | None,
    attachments: Attachments | None,
    nova: NovaFailures,
    now: datetime,
    *,
    at_once: bool,
) -> Fetched:
    api = connected(settings, deadline=settings.deadline / 2, total=settings.deadline)
    plan = agenda(
        before, attachments, now, interval=settings.interval, source=api.name, nova=settings.nova, at_once=at_once
    )
    last = None if before is None else Lists(before.specs, before.types)
    host = settings.node_name
    waits = plan.servers and nova.pausing(now) and not at_once
    result = gather(api, replace(plan, servers=False) if waits else plan, last, host)
    servers = result.answers.servers
    if servers is not None and attachments is not None and servers.keys().isdisjoint(attachments.guests):
        LOG.warning(
            "Nova lists none of this node's guests on host %s; set [catalogue] host to the host in nova.conf",
            host,
        )
    catalogue = next_catalogue(before, result.answers, attachments, now, source=api.name)
    line = catalogue_messages.asked_line(plan, result.answers, catalogue, sum(api.calls.values()))
    remarks = (
        catalogue_messages.hidden_words(catalogue),
        catalogue_messages.hidden_flavor_words(result.answers),
        catalogue_messages.nova_waits_line(nova) if waits else None,
    )
    return Fetched(
        catalogue=catalogue,
        said=line,
        remarks=tuple(filter(None, remarks)),
        trouble=result.trouble,
        is_novas=result.is_novas,
        nova_waits=waits,
        calls=dict(api.calls),
    )


# --- the region's file ----------------------------------------------------------------------------------


def _from_region(
    settings: CatalogueSettings,
    before: Catalogue | None,
    attachments: Attachments | None,
    last: LastRegion | None,
    now: datetime,
    *,
    at_once: bool,
) -> Fetched:
    where = settings.region_file
    if not where:
        raise ConfigError("[catalogue] region_file: not set, though source is region-file")
    signed_source.check(where, "[catalogue] region_file")
    source = shown(where)
    if last is not None and last.where != source:
        last = None
    same = before is not None and last is not None and before.source == source
    has_all_servers = last is None or last.has_all_servers
    has_all = before is not None and (
        attachments is None or complete(before, attachments, has_all_servers=has_all_servers)
    )
    enough = same and has_all and last is not None and _is_kept(settings.directory, last)
    if enough and last and before and not at_once and not due(last.asked, now, _every(settings, last)):
        line = catalogue_messages.undue_line(before, due_at(last.asked, _every(settings, last)))
        return Fetched(catalogue=before, said=line, region=last)
    place = SignedSource(
        where=where, key=settings.region_key, deadline=settings.deadline, most=signed_file.MOST_BYTES
    )
    file = signed(place, last.etag, last.modified) if enough and last is not None else signed(place)
    if file is None:
        return _unmodified(before, last, now, source)
    return _of_file(file, settings.position, before, attachments, last, now, source)


def _unmodified(before: Catalogue | None, last: LastRegion | None, now: datetime, source: str) -> Fetched:
    if before is None or last is None:  # only a request with the data of an earlier file may get 304
        raise CatalogueError(f"{source}: the server replied 304 (not modified), but there is no earlier file")
    again = replace(last, where=source, asked=now)
    return Fetched(catalogue=before, said=catalogue_messages.taken_line(None, before), region=again)


def _of_file(
    file: Signed,
    position: float,
    before: Catalogue | None,
    attachments: Attachments | None,
    last: LastRegion | None,
    now: datetime,
    source: str,
) -> Fetched:
    """What a file of the region has for this node. Raises ``CatalogueError`` for an older one."""
    region = signed_file.decode(file.content, source).on_node(position)
    version = (last.generation, last.digest) if last else (0, None)
    if before is not None and before.source == source and before.generation > version[0]:
        version = before.generation, None
    signed_file.check_fit(region, file.digest, version, now, source)
    catalogue = slice_of(before, region, attachments, source=source)
    note = LastRegion(
        where=source,
        generation=region.generation,
        digest=file.digest,
        etag=file.etag,
        modified=file.modified,
        asked=now,
        has_all_servers=region.has_all_servers,
    )
    remark = catalogue_messages.hidden_words(catalogue)
    return Fetched(
        catalogue=catalogue,
        said=catalogue_messages.taken_line(region, catalogue),
        remarks=(remark,) if remark else (),
        region=note,
        region_file=file.sealed,
    )


def _is_kept(directory: Path, last: LastRegion) -> bool:
    """Whether passes have that file."""
    from plimsoll_agent.adapters.ed25519 import unsealed

    try:
        content = files.read_whole(directory / signed_file.NAME, signed_file.MOST_BYTES + 1)
    except OSError:
        return False
    # Where its signature was in a file of its own, it was fetched without.
    return last.digest in (hashlib.sha256(each).hexdigest() for each in (content, unsealed(content)[0]))


def _every(settings: CatalogueSettings, last: LastRegion) -> float:
    """Seconds between two requests."""
    conditional = last.etag is not None or last.modified is not None
    return min(settings.interval, AN_ANSWER_304) if conditional else settings.interval
