"""Looks whether there is another catalogue, and which guests it concerns."""

from __future__ import annotations

from plimsoll_agent.app.context import load_catalogue, state_of
from plimsoll_agent.catalogue import model as catalogue
from plimsoll_agent.catalogue.changes import changed_guests
from plimsoll_agent.catalogue.model import Catalogue, CatalogueError
from plimsoll_agent.config.settings import Settings

EVERY = 1.0
"""Seconds between two looks at a file, each of which is one call of stat(2)."""


class CatalogueWatch:
    def __init__(self, settings: Settings) -> None:
        """What is there now is known to the first pass over the node."""
        self._stamp: tuple[int, ...] | None = None
        self._known: Catalogue | None = None
        self.changed(settings)

    def changed(self, settings: Settings) -> frozenset[str] | None:
        """The uuids of the guests that it concerns; None: it may concern every guest."""
        if settings.catalogue.source == "none":
            return frozenset()
        stamp = _stamp(settings)
        if stamp == self._stamp:
            return frozenset()
        try:
            found = load_catalogue(settings.catalogue)
        except CatalogueError:  # a pass reports it
            found = None
        guests = changed_guests(self._known, found, state_of(settings).load_attachments())
        self._stamp, self._known = stamp, found
        return guests


def _stamp(settings: Settings) -> tuple[int, ...] | None:
    try:
        file = (settings.catalogue.directory / catalogue.NAME).stat()
    except OSError:
        return None
    return file.st_ino, file.st_size, file.st_mtime_ns
