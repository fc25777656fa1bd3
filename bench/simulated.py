"""One simulated node: what a pass met there, its catalogue, and the refresher's own code that keeps it up to date."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID

from plimsoll_agent.app.refresh import fetch, load_attachments
from plimsoll_agent.catalogue import attachments
from plimsoll_agent.catalogue import model as catalogue
from plimsoll_agent.catalogue.attachments import Attachment, Attachments
from plimsoll_agent.config.settings import Settings
from plimsoll_agent.errors import PlimsollError
from plimsoll_agent.store.refresh_state import RefreshNotes
from plimsoll_agent.util.frozen import replace


@dataclass(frozen=True)
class Node:
    """It keeps everything below ``home``, as a real one does, so that any process can act for it."""

    home: Path
    settings: Settings

    @classmethod
    def made(cls, home: Path, settings: Settings) -> Node:
        home.mkdir()
        return cls(home, replace(settings, state_dir=home, catalogue=replace(settings.catalogue, directory=home)))

    def attach(self, volumes: list[str], now: datetime) -> None:
        """Each in the place of one that was attached before; all of them where there was none."""
        met = attachments.load(self._attachments) or Attachments()
        kept = list(met.volumes.items())[len(volumes) :]
        new = {f"{_uuid()}/{id}": Attachment(mark=f"{random.getrandbits(48):012x}", since=now) for id in volumes}
        attachments.save(self._attachments, Attachments(dict(kept) | new))

    def spread_reading(self, now: datetime, over: timedelta) -> None:
        """As if the volumes had been asked for one by one, over such a time: so it is once a node ran for long."""
        known = catalogue.load(self.home)
        if known is None:
            raise RuntimeError(f"{self.home} has no catalogue")
        read = {id: replace(volume, read=now - over * random.random()) for id, volume in known.volumes.items()}
        catalogue.save(self.home, replace(known, volumes=read))

    def refresh(self, now: datetime) -> str | None:
        """What ``plimsoll catalogue refresh`` does, at a time that is given. Returns what went wrong."""
        met, complaint = load_attachments(self.settings)
        try:
            before = catalogue.load(self.home)
            fetched = fetch(self.settings.catalogue, before, met, RefreshNotes(), now, at_once=False)
            catalogue.save(self.home, fetched.catalogue)
        except PlimsollError as error:
            return str(error)
        return complaint or (str(fetched.trouble) if fetched.trouble else None)

    @property
    def _attachments(self) -> Path:
        return self.home / "attachments.json"


def _uuid() -> str:
    return str(UUID(int=random.getrandbits(128)))
