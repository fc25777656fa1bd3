"""The directory of the catalogue: who may refresh, and what one refresh leaves for the next."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from plimsoll_agent import catalogue, files, locks
from plimsoll_agent.catalogue import UNREADABLE, CatalogueError, text, text_or_none, time, whole_number
from plimsoll_agent.state import Busy

NAME = "refresh.json"
LOCK = "refresh.lock"
VERSION = 1
MOST_BYTES = 64 * 2**10
FIRST_PAUSE = 30.0
"""Seconds after the first failure; each further one doubles them."""
LONGEST_PAUSE = 3600.0


@dataclass(frozen=True, slots=True)
class LastRegion:
    """The region's file that was taken last."""

    where: str
    generation: int
    digest: str
    """SHA-256 of its bytes: the same generation with others is another file."""
    etag: str | None
    modified: str | None
    """Last-Modified, as the server said it."""
    asked: datetime


@dataclass(frozen=True, slots=True)
class Calls:
    """What all refreshes on this node came to, and how often those that came to their end asked each service."""

    good: int = 0
    failed: int = 0
    of_service: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Notes:
    """What one refresh leaves for the next; ``failures`` are those in a row."""

    failures: int = 0
    until: datetime | None = None
    """Before this nobody is asked."""
    trouble: str = ""
    """What the last failure was."""
    region: LastRegion | None = None
    calls: Calls = Calls()

    def waits(self, now: datetime) -> bool:
        """Whether to ask nobody now. A time that no pause comes up to says that a clock was set back."""
        if self.until is None:
            return False
        return timedelta() < self.until - now <= timedelta(seconds=LONGEST_PAUSE)

    def failed(self, now: datetime, trouble: str, chance: float) -> Notes:
        """After one more failure; ``chance`` from 0 to 1 keeps nodes from coming back all at once."""
        seconds = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(self.failures, 20)) * (0.5 + chance / 2)
        until = now + timedelta(seconds=seconds)
        calls = replace(self.calls, failed=self.calls.failed + 1)
        return replace(self, failures=self.failures + 1, until=until, trouble=trouble, calls=calls)

    def succeeded(self) -> Notes:
        calls = replace(self.calls, good=self.calls.good + 1)
        return replace(self, failures=0, until=None, trouble="", calls=calls)

    def asked(self, calls: Mapping[str, int]) -> Notes:
        """After so many calls to each service."""
        both = Counter(self.calls.of_service) + Counter(calls)
        return replace(self, calls=replace(self.calls, of_service=dict(both)))


@dataclass(frozen=True, slots=True)
class RefreshDir:
    """``[catalogue] directory``."""

    directory: Path

    def prepare(self) -> None:
        """Make the directory if it is missing; passes have to read in it. Raises ``CatalogueError``."""
        try:
            if not self.directory.is_dir():
                self.directory.mkdir(parents=True, exist_ok=True)
                self.directory.chmod(0o755)  # whatever the umask is
        except OSError as error:
            raise CatalogueError(f"{self.directory}: cannot be made: {error.strerror}") from error

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Raises ``Busy`` while somebody else refreshes, ``CatalogueError``."""
        with locked(self.directory / LOCK):
            files.sweep(self.directory, (catalogue.NAME, NAME))
            yield

    def load_notes(self) -> Notes:
        """Nothing noted where there is no file, or none that can be read: no limit hangs on them."""
        try:
            value = json.loads(files.read_whole(self.directory / NAME, MOST_BYTES).decode("utf-8"))
            if value["version"] != VERSION:
                return Notes()
            until, region = value["until"], value["region"]
            return Notes(
                whole_number(value["failures"]),
                None if until is None else time(until),
                text(value["trouble"]),
                None if region is None else _region(region),
                _calls(value.get("calls")),
            )
        except (OSError, *UNREADABLE):
            return Notes()

    def save_notes(self, notes: Notes) -> None:
        """Raises ``CatalogueError``."""
        region = notes.region
        data = {
            "version": VERSION,
            "failures": notes.failures,
            "until": None if notes.until is None else notes.until.isoformat(),
            "trouble": notes.trouble,
            "region": None
            if region is None
            else {
                "where": region.where,
                "generation": region.generation,
                "digest": region.digest,
                "etag": region.etag,
                "modified": region.modified,
                "asked": region.asked.isoformat(),
            },
            "calls": asdict(notes.calls),
        }
        path = self.directory / NAME
        if path.is_dir():
            self.set_aside(NAME)
        try:
            files.write_whole(path, json.dumps(data, indent=1) + "\n")
        except OSError as error:
            raise CatalogueError(f"{path}: cannot be written: {error.strerror}") from error

    @property
    def obstructed(self) -> bool:
        """Whether something that is no file is in the place of the catalogue."""
        path = self.directory / catalogue.NAME
        return path.is_symlink() or (path.exists() and not path.is_file())

    def set_aside(self, name: str = catalogue.NAME) -> Path:
        """Move a corrupt catalogue out of the way. Raises ``CatalogueError``."""
        path = self.directory / name
        try:
            return path.rename(files.name_aside(path))
        except OSError as error:
            raise CatalogueError(f"{path}: cannot be set aside: {error.strerror}") from error


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock file, as a pass holds its own. Raises ``Busy``, ``CatalogueError``."""
    try:
        lock = locks.take(path)
    except BlockingIOError as error:
        raise Busy(f"{path.parent}: another refresh is under way; this one asked nobody") from error
    except OSError as error:
        raise CatalogueError(f"{path}: cannot be locked: {error.strerror}; nothing was refreshed") from error
    former = locks.take_former(path.parent)
    try:
        yield
    finally:
        if former is not None:
            os.close(former)
        os.close(lock)


def _calls(value: Any) -> Calls:
    if value is None:  # of a plimsoll that did not count
        return Calls()
    of_service = {text(service): whole_number(number) for service, number in value["of_service"].items()}
    return Calls(whole_number(value["good"]), whole_number(value["failed"]), of_service)


def _region(value: Any) -> LastRegion:
    return LastRegion(
        text(value["where"]),
        whole_number(value["generation"]),
        text(value["digest"]),
        text_or_none(value["etag"]),
        text_or_none(value["modified"]),
        time(value["asked"]),
    )
