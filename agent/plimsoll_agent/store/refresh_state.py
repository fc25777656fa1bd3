"""The directory of the catalogue: the lock of a refresh, and its notes for the next one."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from plimsoll_agent.catalogue import model as catalogue
from plimsoll_agent.catalogue import signed_file
from plimsoll_agent.catalogue.model import CatalogueError
from plimsoll_agent.store.state import Busy
from plimsoll_agent.util import decoding, files, locks
from plimsoll_agent.util.decoding import Count, Moment, as_json, data_of, value_of
from plimsoll_agent.util.frozen import frozen, replace

NAME = "refresh.json"
LOCK = "refresh.lock"
AGAIN = "again"
"""While it exists, plimsoll-catalogue.path starts plimsoll-catalogue.service, which removes it first."""
VERSION = 1
MOST_BYTES = 64 * 2**10
FIRST_PAUSE = 30.0
"""Seconds after the first failure; each further one doubles them."""
LONGEST_PAUSE = 3600.0


@frozen(kw_only=True)
class LastRegion:
    """The last region's file that was accepted."""

    where: str
    generation: Count
    digest: str
    """SHA-256 of the file: the same generation with another digest is another file."""
    etag: str | None
    modified: str | None
    """The server's Last-Modified."""
    asked: Moment
    has_all_servers: bool = True
    """As ``Region.has_all_servers``."""


@frozen
class Calls:
    """Counts of refreshes on this node that succeeded and failed, and of the calls to each service."""

    good: Count = 0
    failed: Count = 0
    of_service: Mapping[str, Count] = field(default_factory=dict)


@frozen
class NovaFailures:
    """Refreshes in a row that read all of Cinder, and in which Nova failed."""

    failures: Count = 0
    until: Moment | None = None
    """Nova is not called before then. Cinder is: new volumes and edited specs would be unknown for as long."""
    trouble: str = ""
    """The last failure."""

    def pausing(self, now: datetime) -> bool:
        return _pausing(self.until, now)


@frozen(kw_only=True)
class RefreshNotes:
    """Notes of one refresh for the next; ``failures`` counts those in a row, without Nova's."""

    failures: Count = 0
    until: Moment | None = None
    """No call is made before then."""
    trouble: str = ""
    """The last failure."""
    nova: NovaFailures = NovaFailures()
    region: LastRegion | None = None
    calls: Calls = Calls()
    begun: Moment | None = None
    """When the last refresh began that keeps its distance from others (``--spacing``)."""
    under_way: bool = False
    """Saved before the first request: where the next refresh finds it, this one was interrupted."""

    def wait(self, now: datetime, spacing: float) -> float:
        """Seconds until the next such refresh may begin. A longer time means that the clock was set back."""
        rest = 0.0 if self.begun is None else spacing - (now - self.begun).total_seconds()
        return rest if 0 < rest <= spacing else 0.0

    def pausing(self, now: datetime) -> bool:
        """Whether to make no call now."""
        return _pausing(self.until, now)

    @property
    def most_failures(self) -> tuple[int, str]:
        """How many refreshes in a row failed, be it because of Nova, and the last failure."""
        more = self.nova if self.nova.failures > self.failures else self
        return more.failures, more.trouble

    def failed(self, now: datetime, trouble: str, chance: float) -> RefreshNotes:
        """After one more failure; a random ``chance`` from 0 to 1 spreads the nodes' next calls."""
        until = _until(self.failures, now, chance)
        return replace(self._one_failed, failures=self.failures + 1, until=until, trouble=trouble)

    def beginning(self, now: datetime, chance: float) -> RefreshNotes:
        """During a refresh: with the pause if it is interrupted. No failure yet, since passes publish these notes."""
        return replace(self, until=_until(self.failures, now, chance), under_way=True)

    @property
    def ended(self) -> RefreshNotes:
        """For the next refresh: one that was interrupted counts as a failure."""
        if not self.under_way:
            return self
        trouble = "the last refresh was interrupted"
        return replace(self._one_failed, failures=self.failures + 1, trouble=trouble, under_way=False)

    def nova_failed(self, now: datetime, trouble: str, chance: float) -> RefreshNotes:
        """After one more refresh that read all of Cinder, and in which Nova failed."""
        until = _until(self.nova.failures, now, chance)
        return replace(self._one_failed.cinder_read, nova=NovaFailures(self.nova.failures + 1, until, trouble))

    @property
    def _one_failed(self) -> RefreshNotes:
        return replace(self, calls=replace(self.calls, failed=self.calls.failed + 1))

    @property
    def cinder_read(self) -> RefreshNotes:
        """After a refresh that read all of Cinder, and waits for Nova."""
        return replace(self, failures=0, until=None, trouble="")

    def succeeded(self) -> RefreshNotes:
        calls = replace(self.calls, good=self.calls.good + 1)
        return replace(self.cinder_read, nova=NovaFailures(), calls=calls)

    def asked(self, calls: Mapping[str, int]) -> RefreshNotes:
        """After so many calls to each service."""
        both = Counter(self.calls.of_service) + Counter(calls)
        return replace(self, calls=replace(self.calls, of_service=dict(both)))


@frozen
class RefreshDir:
    """``[catalogue] directory``."""

    directory: Path

    def prepare(self) -> None:
        """Create the directory if it is missing, readable for passes. Raises ``CatalogueError``."""
        files.prepare(self.directory, 0o755, CatalogueError)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Raises ``Busy`` during another refresh, ``CatalogueError``."""
        with locked(self.directory / LOCK):
            files.sweep(self.directory, (catalogue.NAME, signed_file.NAME, NAME))
            yield

    def ask_again(self) -> None:
        """Ask systemd for another refresh, if possible; else that of the timer is next."""
        path = self.directory / AGAIN
        with suppress(OSError):
            # By root no link of the directory's owner is followed.
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o640)
            try:
                os.utime(handle)
                files.give_to_owner(handle, self.directory)
            finally:
                os.close(handle)

    def load_notes(self) -> RefreshNotes:
        """Empty if the file is missing or cannot be read: no limit depends on them."""
        try:
            return decoding.load(self.directory / NAME, MOST_BYTES, _notes, CatalogueError) or RefreshNotes()
        except CatalogueError:
            return RefreshNotes()

    def save_notes(self, notes: RefreshNotes) -> None:
        """Raises ``CatalogueError``."""
        data = {"version": VERSION, **data_of(notes)}
        path = self.directory / NAME
        if files.is_directory(path):
            self.set_aside(NAME)
        files.save(path, as_json(data, indent=1) + "\n", CatalogueError)

    def save_region_file(self, content: bytes) -> None:
        """Readable by every user: its signature counts, and not who wrote it. Raises ``CatalogueError``."""
        path = self.directory / signed_file.NAME
        if files.is_directory(path):
            self.set_aside(signed_file.NAME)
        files.save(path, content, CatalogueError, mode=0o644)

    @property
    def obstructed(self) -> bool:
        """Whether there is something in the place of the catalogue that is not a regular file."""
        path = self.directory / catalogue.NAME
        return path.is_symlink() or (files.exists(path) and not files.is_regular(path))

    def set_aside(self, name: str = catalogue.NAME) -> Path:
        """Raises ``CatalogueError``."""
        return files.set_aside(self.directory / name, CatalogueError)


def locked(path: Path) -> AbstractContextManager[None]:
    """Hold a refresh's lock file. Raises ``Busy``, ``CatalogueError``."""
    busy = Busy(f"{path.parent}: another refresh is under way; this one made no call")
    return locks.held(path, busy, CatalogueError, "; nothing was refreshed", former=True)


def _until(failures: int, now: datetime, chance: float) -> datetime:
    seconds = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(failures, 20)) * (0.5 + chance / 2)
    return now + timedelta(seconds=seconds)


def _pausing(until: datetime | None, now: datetime) -> bool:
    """A pause longer than ``LONGEST_PAUSE`` means that the clock was set back."""
    return until is not None and timedelta() < until - now <= timedelta(seconds=LONGEST_PAUSE)


def _notes(value: Any) -> RefreshNotes:
    if value["version"] != VERSION:
        return RefreshNotes()
    # Early releases wrote neither ``calls`` nor ``begun``, later ones no ``nova`` or ``under_way``.
    calls = value_of(Calls, value["calls"]) if "calls" in value else Calls()
    nova = value_of(NovaFailures, value["nova"]) if "nova" in value else NovaFailures()
    return value_of(RefreshNotes, {**value, "calls": calls, "nova": nova}, "begun", "under_way")
