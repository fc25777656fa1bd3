"""Fetches the files of congestion's factors, for passes, which have no network."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from pathlib import Path

from plimsoll_agent.adapters.ed25519 import unsealed
from plimsoll_agent.app import signed_source
from plimsoll_agent.app.signed_source import SignedSource, shown, signed
from plimsoll_agent.catalogue.model import CatalogueError
from plimsoll_agent.config.settings import Settings
from plimsoll_agent.congestion import published
from plimsoll_agent.congestion.published import FactorFile
from plimsoll_agent.errors import ConfigError, PlimsollError
from plimsoll_agent.util import files

_DEADLINE = 10.0
"""Seconds for each file: a slow server must not make the others expire."""


class Fetcher:
    """Knows what it fetched last. Raises ``ConfigError`` where there is nothing to fetch."""

    def __init__(self, settings: Settings) -> None:
        self._names = settings.congestion.files
        if not self._names:
            raise ConfigError("[congestion] files: not set: congestion is switched off, nothing to fetch")
        for name in self._names:
            signed_source.check(name, "[congestion] files")
        self._key = settings.congestion.key
        self._directory = settings.catalogue.directory
        self._last: dict[int, tuple[str | None, str | None]] = {}
        """What a web server said of a file."""

    def fetch(self, now: datetime) -> list[str]:
        """Fetch each file; returns what is wrong, a line a file. The earlier one of a file that fails stays."""
        faults = list[str]()
        for index, name in enumerate(self._names):
            try:
                self._fetch(index, name, now)
            except PlimsollError as error:
                self._last.pop(index, None)
                faults.append(str(error))
        return faults

    def _fetch(self, index: int, name: str, now: datetime) -> None:
        source = SignedSource(where=name, key=self._key, deadline=_DEADLINE, most=published.MOST_BYTES)
        path = self._directory / published.NAME.format(index)
        last = self._on_disk(path)
        page = signed(source, *((None, None) if last is None else self._last.get(index, (None, None))))
        file = last if page is None else published.decode(page.content, shown(name))
        if file is not None:
            # The same file as before may have expired since: the server goes on with the file of a dead publisher.
            published.check_fit(file, 0 if last is None else last.generation, now, shown(name))
        if page is not None:
            files.sweep(self._directory, (path.name,))
            files.save(path, page.sealed, CatalogueError, mode=0o644)
            self._last[index] = page.etag, page.modified

    @staticmethod
    def _on_disk(path: Path) -> FactorFile | None:
        """The file that is there; None without a good one."""
        with suppress(OSError, CatalogueError):
            content, _ = unsealed(files.read_whole(path, published.MOST_BYTES))
            return published.decode(content, str(path))
        return None
