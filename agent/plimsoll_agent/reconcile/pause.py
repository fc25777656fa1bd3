"""The pause file: while it exists, no limit of this node is written."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path

from plimsoll_agent.errors import ConfigError
from plimsoll_agent.model.reason import Code, Reason, because
from plimsoll_agent.util import files
from plimsoll_agent.util.frozen import frozen


@frozen
class Pause:
    """The file (``/etc/plimsoll/paused``). Its existence counts, not its content."""

    file: Path

    def reason(self) -> Reason | None:
        """Why nothing may be written; None where the node is not paused."""
        try:
            os.lstat(self.file)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:  # it may exist
            return because(Code.PAUSED, file=str(self.file), why=f"cannot be read: {error.strerror}")
        return because(Code.PAUSED, file=str(self.file), why=self._why())

    def _why(self) -> str:
        """The file's text; empty where it cannot be read."""
        try:
            return " ".join(files.read_whole(self.file, 1000, follow=True).decode("utf-8", "replace").split())
        except OSError:
            return ""

    def begin(self, why: str, by: str, now: datetime) -> None:
        """Raises ``ConfigError``."""
        try:
            files.write_whole(self.file, f"{why}\n(by {by}, {now:%Y-%m-%d %H:%M} UTC)\n", 0o644)
        except OSError as error:
            raise ConfigError(f"{self.file}: cannot be written: {error.strerror}") from error

    def end(self) -> bool:
        """False where there was no pause. Raises ``ConfigError``."""
        try:
            self.file.unlink()
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise ConfigError(f"{self.file}: cannot be removed: {error.strerror}") from error
        return True
