"""The text of the rules file that counts: a pass that came while the file is written would believe half of it."""

from __future__ import annotations

import os
from pathlib import Path

from plimsoll_agent.errors import ConfigError
from plimsoll_agent.store.state import NotAtRest
from plimsoll_agent.util import schema
from plimsoll_agent.util.files import Stamp, stamp_of
from plimsoll_agent.util.frozen import frozen


@frozen
class _Known:
    path: Path
    text: str | None
    """None if there is no such file."""
    trouble: str
    """Why it cannot be read."""


class RulesWatch:
    """A text counts once two looks at its file agree; ``look`` is called a second or more after the one before."""

    def __init__(self, path: Path) -> None:
        self.read(path)

    def read(self, path: Path) -> None:
        """Now, as an operator asks for it by a start or a reload."""
        self._seen = _stamp(path)
        self._take(path)

    def look(self, path: Path) -> None:
        before, self._seen = self._seen, _stamp(path)
        if self._seen == before and (self._seen != self._read or self._known.trouble):
            self._take(path)

    def text(self, path: Path) -> str | None:
        """The file's text, None without one. Any thread may ask.

        Raises ``ConfigError``, and ``NotAtRest`` while the file is another than that which was last at rest: a pass
        by the rules of before would revert what a person has just applied by the new ones.
        """
        file = self._known
        if file.path != path:  # the settings were changed just now
            return schema.read(path)
        if _stamp(path) != self._read:
            raise NotAtRest(f"{path}: it was changed just now, and counts once it is at rest")
        if file.trouble:
            raise ConfigError(file.trouble)
        return file.text

    def _take(self, path: Path) -> None:
        try:
            file = _Known(path, schema.read(path), "")
        except ConfigError as error:
            file = _Known(path, None, str(error))
        self._read, self._known = self._seen, file


def _stamp(path: Path) -> Stamp | None:
    return stamp_of(Path(os.path.realpath(path)))
