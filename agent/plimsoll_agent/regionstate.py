"""What lies beside the region's file on the machine that makes it: what was decided there, and what was read last.

``OUT.orders`` is written by the commands of people, ``OUT.last`` by what makes the file; neither writes the other's.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from plimsoll_agent import files, locks
from plimsoll_agent.catalogue import (
    UNREADABLE,
    CatalogueError,
    CorruptCatalogue,
    NewerCatalogue,
    check_envelope,
    listed,
    orders_data,
    read_orders,
    text,
    texts,
    time,
)
from plimsoll_agent.regionorders import Orders

ORDERS, LAST = ".orders", ".last"
VERSION = 1
MOST_BYTES = 4 * 2**20
_PATIENCE = 30.0
"""Seconds."""
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class LastReading:
    """What the region's machine read and published last; digests are whole ones of specs and types."""

    at: datetime
    read: str
    published: str
    """Another one while the brake stops what was read."""
    since: datetime | None = None
    """When the brake began to stop just that; None where it does not."""
    lines: tuple[str, ...] = ()
    """What it would do, for people."""
    removals: frozenset[str] = frozenset()
    """Ids of types whose volumes would lose their limits."""
    types: Mapping[str, str] = field(default_factory=dict)
    """The names of all types by their ids."""
    orders: Orders = field(default_factory=Orders)
    """What was published with it."""


@dataclass(frozen=True, slots=True)
class RegionState:
    """The two files beside the region's file ``out``."""

    out: Path

    @property
    def orders_file(self) -> Path:
        return self.out.with_name(self.out.name + ORDERS)

    @property
    def last_file(self) -> Path:
        return self.out.with_name(self.out.name + LAST)

    def orders(self) -> Orders | None:
        """What was decided, ended or not; None where there is no file.

        Raises ``CorruptCatalogue``, ``NewerCatalogue``, ``CatalogueError``.
        """
        return _read(self.orders_file, "plimsoll-region-orders", read_orders)

    def last(self) -> LastReading | None:
        """None where nothing was read yet. Raises as ``orders``."""
        return _read(self.last_file, "plimsoll-region-last", _last)

    def save_orders(self, orders: Orders) -> None:
        """Raises ``CatalogueError``."""
        _write(self.orders_file, {"kind": "plimsoll-region-orders"}, orders_data(orders))

    def save_last(self, last: LastReading) -> None:
        """Raises ``CatalogueError``."""
        data = {
            "at": last.at.isoformat(),
            "read": last.read,
            "published": last.published,
            "since": None if last.since is None else last.since.isoformat(),
            "lines": list(last.lines),
            "removals": sorted(last.removals),
            "types": dict(last.types),
        }
        _write(self.last_file, {"kind": "plimsoll-region-last"}, data | orders_data(last.orders))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Wait until no other command changes what is decided: they take milliseconds. Raises ``CatalogueError``.

        Not the directory, which others may open and what makes the file holds for a minute.
        """
        path = self.orders_file.with_name(f"{self.orders_file.name}.lock")
        try:
            lock = locks.take(path, _PATIENCE)
        except BlockingIOError as error:
            raise CatalogueError(f"{path}: another command changes the region's orders; try again") from error
        except OSError as error:
            raise CatalogueError(f"{path}: cannot be locked: {error.strerror}") from error
        try:
            files.sweep(self.out.parent, (self.orders_file.name,))
            yield
        finally:
            os.close(lock)


def _last(envelope: Mapping[str, Any]) -> LastReading:
    return LastReading(
        time(envelope["at"]),
        text(envelope["read"]),
        text(envelope["published"]),
        None if envelope["since"] is None else time(envelope["since"]),
        tuple(map(text, listed(envelope["lines"]))),
        frozenset(map(text, listed(envelope["removals"]))),
        texts(envelope["types"]),
        read_orders(envelope),
    )


def _read(path: Path, kind: str, parse: Callable[[Mapping[str, Any]], Value]) -> Value | None:
    try:
        content = files.read_whole(path, MOST_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CatalogueError(f"{path}: cannot be read: {error.strerror}") from error
    if len(content) > MOST_BYTES:
        raise CorruptCatalogue(f"{path}: is larger than {MOST_BYTES} bytes")
    try:
        envelope = json.loads(content.decode("utf-8"))
        check_envelope(envelope, kind, VERSION, str(path))
        return parse(envelope)
    except NewerCatalogue:
        raise
    except UNREADABLE as error:
        raise CorruptCatalogue(f"{path}: is corrupt: {type(error).__name__}: {str(error)[:200]}") from error


def _write(path: Path, kind: Mapping[str, object], data: Mapping[str, object]) -> None:
    envelope = {**kind, "version": VERSION, **data}
    try:
        files.write_whole(path, json.dumps(envelope, indent=1) + "\n", mode=0o640)
    except OSError as error:
        raise CatalogueError(f"{path}: cannot be written: {error.strerror}") from error
