"""What plimsoll keeps on this node: the one home of its files below the state directory.

===================  =====================  =========================================================
file                 what it is             when it cannot be read
===================  =====================  =========================================================
``memory.json``      what was last wanted   set aside as ``memory.json.corrupt``; the pass goes on as on
                     for each disk          a new node, so limits that it set before are left alone
``rules.last.yaml``  the last good rules    the pass stops: there is nothing to run on
``record.sqlite``    every change           limits are tightened with the journal alone, never loosened
``lock``             held by a pass         never read
===================  =====================  =========================================================
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from plimsoll_agent.decide import Remembered
from plimsoll_agent.errors import PlimsollError
from plimsoll_agent.limits import Limits

LOG = logging.getLogger(__name__)
MEMORY_VERSION = 1


class StateError(PlimsollError):
    """The state directory does not let us read or write."""


class Busy(PlimsollError):
    """Another pass holds the lock."""


@dataclass(frozen=True, slots=True)
class State:
    """The state directory (``/var/lib/plimsoll``)."""

    directory: Path
    boot: str = ""
    """What tells one run of this node from the next: libvirt counts guests and attachments anew after each."""

    @property
    def record(self) -> Path:
        return self.directory / "record.sqlite"

    @property
    def last_rules(self) -> Path:
        return self.directory / "rules.last.yaml"

    @property
    def memory(self) -> Path:
        return self.directory / "memory.json"

    def prepare(self) -> None:
        """Make the directory if it is missing. Raises ``StateError``."""
        try:
            if not self.directory.is_dir():
                self.directory.mkdir(parents=True, exist_ok=True)
                self.directory.chmod(0o750)  # whatever the umask is
        except OSError as error:
            raise StateError(f"{self.directory}: cannot be made: {error.strerror}") from error

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the node for one pass. Raises ``Busy`` while another pass runs, ``StateError`` without a file."""
        try:
            lock = os.open(self.directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o640)
        except OSError as error:
            raise StateError(f"{self.directory}/lock: cannot be opened: {error.strerror}") from error
        with suppress(PermissionError):  # another user's, who has set it already
            os.fchmod(lock, 0o640)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise Busy("another pass is under way on this node; this one changed nothing") from error
            yield
        finally:
            os.close(lock)

    def load_memory(self, *, set_aside: bool = True) -> dict[str, Remembered]:
        """What was wanted for each disk, by ``Disk.key``. A corrupt file is set aside, a newer one refused."""
        try:
            content = self.memory.read_bytes()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise StateError(f"{self.memory}: cannot be read: {error}") from error
        try:
            envelope = json.loads(content.decode("utf-8"))
            version, disks = int(envelope["version"]), {**envelope["disks"]}
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            LOG.warning("%s is corrupt (%s): limits that plimsoll set before are left alone", self.memory, error)
            if set_aside:
                with suppress(OSError):  # a directory that cannot be written to is reported by the save
                    self.memory.replace(self.memory.with_suffix(".json.corrupt"))
            return {}
        if version > MEMORY_VERSION:
            raise StateError(
                f"{self.memory}: written by a newer plimsoll (version {version}, known up to {MEMORY_VERSION});"
                " install that one again, or move the file away"
            )
        same_run = envelope.get("boot") == self.boot
        return {key: old for key, value in disks.items() if (old := self._remembered(key, value, same_run))}

    def _remembered(self, key: str, value: object, same_run: bool) -> Remembered | None:
        try:
            return _from_json(value, same_run)
        except (ValueError, KeyError, TypeError) as error:
            LOG.warning("%s: what is remembered of %r cannot be read (%s) and is forgotten", self.memory, key, error)
            return None

    def save_memory(self, memory: Mapping[str, Remembered]) -> None:
        """Replace the file as a whole. Raises ``StateError``."""
        disks = {key: _as_json(remembered) for key, remembered in sorted(memory.items())}
        write_whole(
            self.memory, json.dumps({"version": MEMORY_VERSION, "boot": self.boot, "disks": disks}, indent=1) + "\n"
        )

    def keep_rules(self, text: str) -> None:
        """Keep the text of rules that were found good. Raises ``StateError``."""
        with suppress(OSError, UnicodeDecodeError):
            if self.last_rules.read_text(encoding="utf-8") == text:
                os.utime(self.last_rules)  # its age says when they were last good
                return
        write_whole(self.last_rules, text)


def write_whole(path: Path, text: str, mode: int = 0o640) -> None:
    """Write a file so that a reader, or a crash, meets the old or the new one. Raises ``StateError``."""
    temporary: str | None = None
    try:
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        Path(temporary).replace(path)
        temporary = None
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    except OSError as error:
        raise StateError(f"{path}: cannot be written: {error.strerror}") from error
    finally:
        if temporary is not None:
            with suppress(OSError):
                Path(temporary).unlink()


def _as_json(remembered: Remembered) -> dict[str, object]:
    return {
        "wanted": remembered.wanted.in_effect(),
        "since": remembered.since.isoformat(),
        "seen": remembered.seen.isoformat(),
        "put": None if remembered.put is None else remembered.put.in_effect(),
        "attachment": remembered.attachment,
    }


def _from_json(value: object, same_run: bool) -> Remembered:
    if not isinstance(value, dict):
        raise ValueError(f"{value!r} is no mapping")
    attachment = value["attachment"]
    if attachment is not None and not isinstance(attachment, str):
        raise ValueError(f"{attachment!r} is no attachment")
    return Remembered(
        wanted=_limits(value["wanted"]),
        since=_time(value["since"]),
        seen=_time(value["seen"]),
        put=None if value["put"] is None else _limits(value["put"]),
        attachment=attachment if same_run else None,
    )


def _limits(value: object) -> Limits:
    if not isinstance(value, dict):
        raise ValueError(f"{value!r} are no limits")
    return Limits.from_mapping(value)


def _time(value: object) -> datetime:
    time = datetime.fromisoformat(str(value))
    if time.tzinfo is None:
        raise ValueError(f"{value!r} has no time zone")
    return time
