"""The pause file: while it exists, or until the end that it states, no limit of this node is written."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

from plimsoll_agent.errors import ConfigError
from plimsoll_agent.model.reason import Code, Reason, because
from plimsoll_agent.util import files
from plimsoll_agent.util.frozen import frozen

_UNTIL = re.compile(r"until (\d{4}-\d\d-\d\d \d\d:\d\d) UTC:", re.ASCII)


@frozen
class Pause:
    """The file (``/etc/plimsoll/paused``). Its existence counts, and of its content the end in its first line.

    An earlier release does not know such an end: there the pause lasts until the file is removed.
    """

    file: Path

    def reason(self, now: datetime) -> Reason | None:
        """Why nothing may be written; None where the node is not paused, or its pause has ended."""
        try:
            os.lstat(self.file)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:  # it may exist
            return because(Code.PAUSED, file=str(self.file), why=f"cannot be read: {error.strerror}")
        text = self._text()
        until = _until(text)
        if until is not None and now >= until:
            return None
        end = {} if until is None else {"until": until.isoformat()}
        return because(Code.PAUSED, file=str(self.file), why=" ".join(text.split()), **end)

    def _text(self) -> str:
        """Empty where it cannot be read."""
        try:
            return files.read_whole(self.file, 1000, follow=True).decode("utf-8", "replace")
        except OSError:
            return ""

    def begin(self, why: str, by: str, now: datetime, until: datetime | None = None) -> None:
        """``until`` is in whole minutes. Raises ``ConfigError``."""
        first = "" if until is None else f"until {until:%Y-%m-%d %H:%M} UTC:\n"
        try:
            files.write_whole(self.file, f"{first}{why}\n(by {by}, {now:%Y-%m-%d %H:%M} UTC)\n", 0o644)
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


def end_after(span: timedelta, now: datetime) -> datetime:
    """The first whole minute after that time."""
    return (now + span).replace(second=0, microsecond=0) + timedelta(minutes=1)


def _until(text: str) -> datetime | None:
    """None where the first line states no end."""
    match = _UNTIL.fullmatch(text.partition("\n")[0].rstrip())
    try:
        return datetime.strptime(match[1], "%Y-%m-%d %H:%M").replace(tzinfo=UTC) if match else None
    except ValueError:  # the 31st of February
        return None
