"""Fetches the catalogue, from the cloud or the region file; the caller saves it."""

from __future__ import annotations

import hashlib
import logging
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import field
from datetime import datetime
from pathlib import Path

from plimsoll_agent.app.cloud import connected
from plimsoll_agent.catalogue import attachments, signed_file
from plimsoll_agent.catalogue.attachments import Attachments, UnreadableAttachments
from plimsoll_agent.catalogue.model import Catalogue, CatalogueError
from plimsoll_agent.catalogue.planner import Lists, agenda, complete, due, due_at, next_catalogue, slice_of
from plimsoll_agent.catalogue.reader import gather
from plimsoll_agent.config.settings import CatalogueSettings, Settings
from plimsoll_agent.errors import ConfigError, DeadlineExceeded, PlimsollError
from plimsoll_agent.messages import catalogue as catalogue_messages
from plimsoll_agent.store.refresh_state import LastRegion, Notes
from plimsoll_agent.store.state import State
from plimsoll_agent.util import files
from plimsoll_agent.util.frozen import frozen

LOG = logging.getLogger(__name__)
SIGNATURE = ".sig"
LONGEST_SIGNATURE = 1024
# If the signature is in a file of its own, a read may come between the writes of the two files.
_TRIES = 4
_BETWEEN = 0.5
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
    notes: Notes,
    now: datetime,
    *,
    at_once: bool,
) -> Fetched:
    """Raises ``PlimsollError``; then nothing was fetched."""
    check_source(settings)
    if settings.source == "openstack":
        return _from_cloud(settings, before, attachments, now, at_once=at_once)
    return _from_region(settings, before, attachments, notes.region, now, at_once=at_once)


def _from_cloud(
    settings: CatalogueSettings,
    before: Catalogue | None,
    attachments: Attachments | None,
    now: datetime,
    *,
    at_once: bool,
) -> Fetched:
    api = connected(settings, deadline=settings.deadline / 2, total=settings.deadline)
    plan = agenda(
        before, attachments, now, interval=settings.interval, source=api.name, nova=settings.nova, at_once=at_once
    )
    last = None if before is None else Lists(before.specs, before.types)
    host = settings.host or socket.gethostname()
    result = gather(api, plan, last, host)
    servers = result.answers.servers
    if servers is not None and attachments is not None and servers.keys().isdisjoint(attachments.guests):
        LOG.warning(
            "Nova lists none of this node's guests on host %s; set [catalogue] host to the host in nova.conf",
            host,
        )
    catalogue = next_catalogue(before, result.answers, attachments, now, source=api.name)
    line = catalogue_messages.asked_line(plan, result.answers, catalogue, sum(api.calls.values()))
    remarks = (catalogue_messages.hidden_words(catalogue), catalogue_messages.hidden_flavor_words(result.answers))
    return Fetched(
        catalogue=catalogue,
        said=line,
        remarks=tuple(filter(None, remarks)),
        trouble=result.trouble,
        calls=dict(api.calls),
    )


# --- the region's file ----------------------------------------------------------------------------------


@frozen(kw_only=True)
class _Signed:
    """A region's file with a valid signature of its ``content``."""

    content: bytes
    sealed: bytes
    """With the signature in it."""
    digest: str
    """SHA-256 of the whole file, as it was fetched."""
    etag: str | None
    modified: str | None


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
    if not _is_address(where) and not Path(where).is_absolute():
        raise ConfigError(f"[catalogue] region_file: {where}: must be an absolute path or an https URL")
    source = _shown(where)
    if last is not None and last.where != source:
        last = None
    same = before is not None and last is not None and before.source == source
    has_file = last is not None and _is_kept(settings.directory, last)
    enough = same and has_file and before is not None and (attachments is None or complete(before, attachments))
    if enough and last and before and not at_once and not due(last.asked, now, _every(settings, last)):
        line = catalogue_messages.undue_line(before, due_at(last.asked, _every(settings, last)))
        return Fetched(catalogue=before, said=line, region=last)
    file = _signed(settings, where, last if enough else None)
    if file is None:
        if before is None or last is None:  # only a request with the data of an earlier file may get 304
            raise CatalogueError(f"{source}: the server replied 304 (not modified), but there is no earlier file")
        again = LastRegion(
            where=source,
            generation=last.generation,
            digest=last.digest,
            etag=last.etag,
            modified=last.modified,
            asked=now,
        )
        return Fetched(catalogue=before, said=catalogue_messages.taken_line(None, before), region=again)
    region = signed_file.decode(file.content, source)
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


def _signed(settings: CatalogueSettings, where: str, last: LastRegion | None) -> _Signed | None:
    """The file, if its signature is valid; None if it is unchanged. Raises ``PlimsollError``."""
    # Imported here: nodes without a region's file do not need it.
    from plimsoll_agent.adapters.ed25519 import BadSignature, read_public, sealed, unsealed

    key = read_public(settings.region_key)
    read = _Remote(where, settings.deadline) if _is_address(where) else _Local(Path(where))
    bad: BadSignature | None = None
    for _ in range(_TRIES):
        if bad is not None:
            time.sleep(_BETWEEN)
        try:
            page = read.file(last)
            if page is None:
                return None
            content, signature = unsealed(page.content)
            signature = read.signature() if signature is None else signature
            key.verify(content, signature, _shown(where))
        except BadSignature as error:
            bad = error
        except DeadlineExceeded:
            if bad is None:
                raise
            break
        else:
            digest = hashlib.sha256(page.content).hexdigest()
            return _Signed(
                content=content,
                sealed=sealed(content, signature),
                digest=digest,
                etag=page.etag,
                modified=page.modified,
            )
    raise bad or AssertionError


@frozen
class _Page:
    """A region's file as it was read."""

    content: bytes
    etag: str | None = None
    modified: str | None = None


class _Local:
    def __init__(self, path: Path) -> None:
        self._path = path

    def file(self, _: LastRegion | None) -> _Page | None:
        return _Page(self._read(self._path, signed_file.MOST_BYTES))

    def signature(self) -> bytes:
        return self._read(self._path.with_name(self._path.name + SIGNATURE), LONGEST_SIGNATURE)

    @staticmethod
    def _read(path: Path, most: int) -> bytes:
        try:
            content = files.read_whole(path, most + 1, follow=True)
        except OSError as error:
            raise CatalogueError(f"{path}: cannot be read: {error.strerror}") from error
        if len(content) > most:
            raise CatalogueError(f"{path}: is longer than {most} bytes")
        return content


class _Remote:
    def __init__(self, url: str, deadline: float) -> None:
        from plimsoll_agent.adapters.https import Web, check_address

        check_address(url)
        self._url = url
        self._web = Web(deadline)

    def file(self, last: LastRegion | None) -> _Page | None:
        etag, last_modified = (last.etag, last.modified) if last is not None else (None, None)
        page = self._web.fetch(self._url, signed_file.MOST_BYTES, etag=etag, last_modified=last_modified)
        return None if page is None else _Page(page.content, page.etag, page.modified)

    def signature(self) -> bytes:
        path, mark, query = self._url.partition("?")
        page = self._web.fetch(f"{path}{SIGNATURE}{mark}{query}", LONGEST_SIGNATURE)
        return page.content if page is not None else b""


def _is_address(where: str) -> bool:
    return "://" in where


def _shown(where: str) -> str:
    """The path or address, without what could be a secret."""
    from plimsoll_agent.adapters.network import plain_url

    return plain_url(where) if _is_address(where) else where
