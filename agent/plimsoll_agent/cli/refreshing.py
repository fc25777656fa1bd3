"""Fetches what becomes the catalogue, from the cloud or from the region's file; whoever calls keeps it."""

from __future__ import annotations

import hashlib
import logging
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from plimsoll_agent import catalogue_words, files, regionfile, sightings
from plimsoll_agent.catalogue import Catalogue, CatalogueError
from plimsoll_agent.cli.cloud import connected
from plimsoll_agent.config import CatalogueSettings, Settings
from plimsoll_agent.errors import ConfigError, PlimsollError, Unanswered
from plimsoll_agent.gather import gather
from plimsoll_agent.refresh import Lists, agenda, complete, due, refreshed, sliced
from plimsoll_agent.refreshdir import LastRegion, Notes
from plimsoll_agent.sightings import Sightings, UnreadableSightings
from plimsoll_agent.state import State

LOG = logging.getLogger(__name__)
SIGNATURE = ".sig"
LONGEST_SIGNATURE = 1024
# The file and its signature may be two: a reader may come between the writing of the one and of the other.
_TRIES = 4
_BETWEEN = 0.5


@dataclass(frozen=True, slots=True)
class Fetched:
    """What a refresh found, to be kept or compared."""

    catalogue: Catalogue
    said: str
    """The line that tells it."""
    remarks: tuple[str, ...] = ()
    """What is not as it should be, though there is a catalogue."""
    trouble: PlimsollError | None = None
    """What ended the asking before its time."""
    region: LastRegion | None = None
    calls: Mapping[str, int] = field(default_factory=dict)
    """How often each service was asked."""


def load_sightings(settings: Settings) -> tuple[Sightings | None, str | None]:
    """What the last pass met, None where nobody knows; and what is wrong with it."""
    path = State(settings.state_dir).sightings
    try:
        return sightings.load(path), None
    except UnreadableSightings:
        return None, f"{path}: is not what a pass wrote; the volumes that are known stay, and no others are asked for"
    except OSError as error:
        return None, f"{path}: cannot be read: {error.strerror}; the volumes that are known stay"


def check_source(settings: CatalogueSettings) -> None:
    """Raises ``ConfigError`` where nobody is to be asked."""
    if settings.source == "none":
        raise ConfigError("[catalogue] source is none: there is nobody to ask; choose openstack or region-file")


def fetch(
    settings: CatalogueSettings,
    before: Catalogue | None,
    met: Sightings | None,
    notes: Notes,
    now: datetime,
    *,
    at_once: bool,
) -> Fetched:
    """Raises ``PlimsollError``; then nothing is known that was not before."""
    check_source(settings)
    if settings.source == "openstack":
        return _from_cloud(settings, before, met, now, at_once=at_once)
    return _from_region(settings, before, met, notes.region, now, at_once=at_once)


def _from_cloud(
    settings: CatalogueSettings, before: Catalogue | None, met: Sightings | None, now: datetime, *, at_once: bool
) -> Fetched:
    api = connected(settings, deadline=settings.deadline / 2, total=settings.deadline)
    asked = agenda(before, met, now, interval=settings.interval, source=api.name, nova=settings.nova, at_once=at_once)
    known = None if before is None else Lists(before.specs, before.types)
    host = settings.host or socket.gethostname()
    gathered = gather(api, asked, known, host)
    named = gathered.answers.servers
    if named is not None and met is not None and named.keys().isdisjoint(met.guests):
        LOG.warning(
            "Nova has none of this node's guests on host %s: is that the name in its nova.conf? ([catalogue] host)",
            host,
        )
    found = refreshed(before, gathered.answers, met, now, source=api.name)
    said = catalogue_words.asked_line(asked, gathered.answers, found, sum(api.calls.values()))
    remarks = (catalogue_words.hidden_words(found), catalogue_words.hidden_flavor_words(gathered.answers))
    return Fetched(found, said, tuple(filter(None, remarks)), gathered.trouble, calls=dict(api.calls))


# --- the region's file ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Signed:
    """A region's file whose signature was checked, over just the ``content``."""

    content: bytes
    digest: str
    """SHA-256 of the file as it came."""
    etag: str | None
    modified: str | None


def _from_region(
    settings: CatalogueSettings,
    before: Catalogue | None,
    met: Sightings | None,
    last: LastRegion | None,
    now: datetime,
    *,
    at_once: bool,
) -> Fetched:
    where = settings.region_file
    if not where:
        raise ConfigError("[catalogue] source is region-file, and region_file does not say which")
    if not _is_address(where) and not Path(where).is_absolute():
        raise ConfigError(f"[catalogue] region_file: {where}: must be an absolute path, or an https address")
    shown = _shown(where)
    if last is not None and last.where != shown:
        last = None
    same = before is not None and last is not None and before.source == shown
    enough = same and before is not None and (met is None or complete(before, met))
    if enough and last and before and not at_once and not due(last.asked, now, settings.interval):
        return Fetched(before, catalogue_words.taken_line(None, before), region=last)
    signed = _signed(settings, where, last if enough else None)
    if signed is None:
        if before is None or last is None:  # 304 is asked for with what was kept of an earlier one
            raise CatalogueError(f"{shown}: the server says that nothing changed, and nothing was known")
        kept = LastRegion(shown, last.generation, last.digest, last.etag, last.modified, now)
        return Fetched(before, catalogue_words.taken_line(None, before), region=kept)
    region = regionfile.decode(signed.content, shown)
    known = (last.generation, last.digest) if last else (0, None)
    if before is not None and before.source == shown and before.generation > known[0]:
        known = before.generation, None
    regionfile.check_fit(region, signed.digest, known, now, shown)
    found = sliced(before, region, met, source=shown)
    taken = LastRegion(shown, region.generation, signed.digest, signed.etag, signed.modified, now)
    remark = catalogue_words.hidden_words(found)
    return Fetched(found, catalogue_words.taken_line(region, found), (remark,) if remark else (), region=taken)


def _signed(settings: CatalogueSettings, where: str, last: LastRegion | None) -> _Signed | None:
    """The file with a good signature, None when it is the last one still. Raises ``PlimsollError``."""
    # Here: what only nodes without a region's file run needs neither of them.
    from plimsoll_agent.adapters.ed25519 import BadSignature, read_public, unsealed

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
            key.verify(content, read.signature() if signature is None else signature, _shown(where))
        except BadSignature as error:
            bad = error
        except Unanswered:
            if bad is None:
                raise
            break  # the time is over with trying
        else:
            return _Signed(content, hashlib.sha256(page.content).hexdigest(), page.etag, page.modified)
    raise bad or AssertionError


@dataclass(frozen=True, slots=True)
class _Page:
    """A region's file as it came."""

    content: bytes
    etag: str | None = None
    modified: str | None = None


class _Local:
    def __init__(self, path: Path) -> None:
        self._path = path

    def file(self, last: LastRegion | None) -> _Page | None:
        return _Page(self._read(self._path, regionfile.MOST_BYTES))

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
        etag, modified = (last.etag, last.modified) if last is not None else (None, None)
        page = self._web.fetch(self._url, regionfile.MOST_BYTES, etag=etag, modified=modified)
        return None if page is None else _Page(page.content, page.etag, page.modified)

    def signature(self) -> bytes:
        path, mark, query = self._url.partition("?")
        page = self._web.fetch(f"{path}{SIGNATURE}{mark}{query}", LONGEST_SIGNATURE)
        return page.content if page is not None else b""


def _is_address(where: str) -> bool:
    return "://" in where


def _shown(where: str) -> str:
    """Where it is from, without what could be a secret in an address."""
    from plimsoll_agent.adapters.network import plain_url

    return plain_url(where) if _is_address(where) else where
