"""Looks whether there is another catalogue, or other orders for the region, and which guests they concern."""

from __future__ import annotations

from plimsoll_agent.app.fetched import RegionOrders, load_catalogue, region_orders
from plimsoll_agent.app.node import state_of
from plimsoll_agent.catalogue import model as catalogue
from plimsoll_agent.catalogue import signed_file
from plimsoll_agent.catalogue.changes import changed_guests
from plimsoll_agent.catalogue.model import Catalogue, CatalogueError
from plimsoll_agent.config.settings import Settings
from plimsoll_agent.util.files import Stamp, stamp_of

EVERY = 1.0
"""Seconds between two looks at a file, each of which is one call of stat(2)."""


class CatalogueWatch:
    def __init__(self, settings: Settings) -> None:
        """What is there now is known to the first pass over the node."""
        self._stamps: tuple[Stamp | None, ...] = ()
        self._known: Catalogue | None = None
        self._orders = RegionOrders()
        self.changed(settings)

    def changed(self, settings: Settings) -> frozenset[str] | None:
        """The uuids of the guests that they concern; None: they may concern every guest."""
        if settings.catalogue.source == "none":
            return frozenset()
        directory, key = settings.catalogue.directory, settings.catalogue.region_key
        stamps = tuple(map(stamp_of, (directory / catalogue.NAME, directory / signed_file.NAME, key)))
        if stamps == self._stamps:
            return frozenset()
        try:
            latest = load_catalogue(settings.catalogue)
        except CatalogueError:  # a pass reports it
            latest = None
        state = state_of(settings)
        orders = region_orders(settings.catalogue, state, keep=False)
        guests = changed_guests(self._known, latest, state.load_attachments())
        same = (orders.orders, orders.unknown is None) == (self._orders.orders, self._orders.unknown is None)
        self._stamps, self._known, self._orders = stamps, latest, orders
        return guests if same else None
