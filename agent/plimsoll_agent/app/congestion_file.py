"""Writes the file of congestion's factors on the machine that publishes them."""

from __future__ import annotations

import logging
from pathlib import Path

from plimsoll_agent.adapters.ed25519 import BadSignature, PrivateKey, read_private, unsealed
from plimsoll_agent.catalogue.model import CatalogueError
from plimsoll_agent.congestion import published
from plimsoll_agent.congestion.published import FactorFile
from plimsoll_agent.util import files

LOG = logging.getLogger(__name__)


class CongestionFile:
    """Raises ``ConfigError`` for a key that cannot be used."""

    def __init__(self, path: Path, signing_key: Path) -> None:
        self.path = path
        self._key: PrivateKey = read_private(signing_key)

    def last(self) -> FactorFile | None:
        """The last file, if this key signed it: else its factors could be forged."""
        try:
            content, signature = unsealed(files.read_whole(self.path, published.MOST_BYTES))
            self._key.public.verify(content, signature or b"", str(self.path))
            return published.decode(content, str(self.path), states=True)
        except FileNotFoundError:
            return None
        except (OSError, BadSignature, CatalogueError) as error:
            LOG.warning("%s; all factors begin at 1, and the file is replaced", error)
            return None

    def write(self, file: FactorFile) -> None:
        """Raises ``CatalogueError``."""
        content = self._key.seal(published.encode(file))
        files.sweep(self.path.parent, (self.path.name,))
        files.save(self.path, content, CatalogueError, mode=0o644)
