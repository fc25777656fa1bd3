"""The files beside the region's file on the machine that makes it: its orders, and what was read last.

Operators' commands write ``OUT.orders``; ``plimsoll region refresh`` writes ``OUT.last``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path
from typing import Any, TypeVar

from plimsoll_agent.catalogue.model import (
    CatalogueError,
    CorruptCatalogue,
    check_envelope,
    orders_data,
    read_orders,
)
from plimsoll_agent.catalogue.orders import Orders
from plimsoll_agent.catalogue.stages import ConditionFinding
from plimsoll_agent.util import decoding, files, locks
from plimsoll_agent.util.decoding import Moment, as_json, data_of, value_of
from plimsoll_agent.util.frozen import frozen

ORDERS, LAST = ".orders", ".last"
VERSION = 1
MOST_BYTES = 4 * 2**20
Value = TypeVar("Value")


@frozen(kw_only=True)
class LastReading:
    """What the region's machine read and published last, as digests of specs and types."""

    at: Moment
    read: str
    published: str
    """Differs from ``read`` while the brake stops what was read."""
    since: Moment | None = None
    """When the brake first stopped ``read``; None where it does not."""
    lines: tuple[str, ...] = ()
    """What ``read`` would do, for people."""
    removals: frozenset[str] = frozenset()
    """Ids of types whose volumes would lose their limits."""
    types: Mapping[str, str] = field(default_factory=dict)
    """The names of all types by their ids."""
    orders: Orders = field(default_factory=Orders)
    """The orders that were published with it."""
    touched: frozenset[str] = frozenset()
    """Ids of types whose volumes get other limits by what was read."""
    stops: tuple[ConditionFinding, ...] = ()
    """What stops the next stage of an approval."""


@frozen
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
        """The orders, ended ones too; None where there is no file.

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
        data = data_of(last) | {"removals": sorted(last.removals), "touched": sorted(last.touched)}
        del data["orders"]
        _write(self.last_file, {"kind": "plimsoll-region-last"}, data | orders_data(last.orders))

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Wait until no other command changes the orders, which takes milliseconds. Raises ``CatalogueError``.

        The lock is a file: ``plimsoll region refresh`` locks the directory for a minute, and others may open it.
        """
        path = self.orders_file.with_name(f"{self.orders_file.name}.lock")
        with locks.for_a_change(path, "the region's orders", CatalogueError):
            files.sweep(self.out.parent, (self.orders_file.name,))
            yield


def _last(envelope: Mapping[str, Any]) -> LastReading:
    # Files of earlier releases have neither ``touched`` nor ``stops``.
    return value_of(LastReading, {**envelope, "orders": read_orders(envelope)}, "touched", "stops")


def _read(path: Path, kind: str, parse: Callable[[Mapping[str, Any]], Value]) -> Value | None:
    def of(envelope: Any) -> Value:
        check_envelope(envelope, kind, VERSION, str(path))
        return parse(envelope)

    return decoding.load(path, MOST_BYTES, of, CatalogueError, corrupt=CorruptCatalogue)


def _write(path: Path, kind: Mapping[str, object], data: Mapping[str, object]) -> None:
    envelope = {**kind, "version": VERSION, **data}
    files.save(path, as_json(envelope, indent=1) + "\n", CatalogueError)
