"""What plimsoll keeps on this node: the one home of its files below the state directory."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from plimsoll_agent import clock, files, locks, sightings
from plimsoll_agent.approvals import Approval, is_digest
from plimsoll_agent.decide import Remembered
from plimsoll_agent.disk import DiskName
from plimsoll_agent.errors import PlimsollError
from plimsoll_agent.holds import Hold
from plimsoll_agent.limits import Limits
from plimsoll_agent.reason import Code
from plimsoll_agent.sightings import Sightings

LOG = logging.getLogger(__name__)

# Python takes up to 34 times as much memory as JSON is long, and a pass has 512 MiB (MemoryMax of its unit).
MOST_BYTES = 8 * 2**20
MOST_REMEMBERED = 6 * 2**20
"""Bytes of what is remembered of disks, some 8,000 of them: tenants make guests all day."""
_LARGEST_RULES = 2**20


class StateError(PlimsollError):
    """The state directory does not let us read or write."""


class CorruptState(StateError):
    """A file is there, and is not what plimsoll wrote."""


class Busy(PlimsollError):
    """Another pass holds the lock."""

    exit_status = 75  # EX_TEMPFAIL of sysexits.h: try again


@dataclass(frozen=True, slots=True)
class StateFile:
    """One file: who writes it, which version of its format this is, and what happens without it."""

    name: str
    owner: str
    version: int | None
    what: str
    corrupt: str
    missing: str


MEMORY = StateFile(
    "memory.json",
    owner="passes, ``disk hold``",
    version=4,
    what="what was last wanted for each disk and put in force there, the holds, the revision that the brake let"
    " through, and which disks were changed much within the last hour",
    corrupt="set aside as ``memory.json.corrupt``, and made anew from the record; holds are lost, and the disks"
    " that they were on are left alone",
    missing="made anew from the record; without one this is a new node, and disks that have limits are left alone",
)
APPROVAL = StateFile(
    "approval.json",
    owner="``approve``",
    version=2,
    what="the digests that were approved, of revisions and of single disks' changes, until a pass over the whole node"
    " went through with them",
    corrupt="set aside; nothing is approved",
    missing="nothing is approved",
)
LAST_RULES = StateFile(
    "rules.last.yaml",
    owner="passes",
    version=None,
    what="the last good rules",
    corrupt="of no matter while the rules are good; else the pass stops, since there is nothing to run on",
    missing="the same",
)
RECORD = StateFile(
    "record.sqlite",
    owner="passes, ``disk hold``, ``approve``, ``pause``",
    version=3,
    what="every change of a limit",
    corrupt="set aside as ``record.sqlite.corrupt``, and begun anew; where that cannot be, limits are tightened with"
    " the journal alone, and never loosened",
    missing="begun anew",
)
SIGHTINGS = StateFile(
    "sightings.json",
    owner="passes",
    version=sightings.VERSION,
    what="which volumes, and which guests without a flavor in their definition, the last pass met:"
    " ``catalogue refresh`` reads it",
    corrupt="written anew by the next pass; what somebody else's hand made doubtful is asked for again",
    missing="the same",
)
PROBES = StateFile(
    "probes.sqlite",
    owner="``probe run``",
    version=3,
    what="the results of probes, their sums, which were put off, and which guests are chosen",
    corrupt="set aside as ``probes.sqlite.corrupt``, and begun anew, the metrics' counters too; limits do not depend"
    " on it",
    missing="begun anew",
)
PROBES_SHOWN = StateFile(
    "probes-latest.sqlite",
    owner="``probe run``",
    version=PROBES.version,
    what="of the results the newest, and of those before what ``check_plimsoll`` and ``status`` need: for users who"
    " may not read ``probes.sqlite``",
    corrupt="replaced by the next ``probe run``",
    missing="the same",
)
LAST_PASS = StateFile(
    "pass.json",
    owner="passes over the whole node",
    version=1,
    what="what the last pass came to, and the sums over all: ``status``, metrics and ``check_plimsoll`` read it",
    corrupt="begun anew by the next pass, with sums of zero; limits do not depend on it",
    missing="the same",
)
BUSY = StateFile(
    "busy.count",
    owner="passes that find the node held by another one",
    version=None,
    what="a byte for each of them",
    corrupt="it cannot be: only its length counts",
    missing="there were none",
)
CLOCK = StateFile(
    "clock.json",
    owner="passes",
    version=clock.VERSION,
    what="the time of the last pass, by the node's clock and by the one that is never set: a clock that is far off is"
    " known by it",
    corrupt="written anew by the next pass, which takes the node's clock as it is",
    missing="the same",
)
PASS_LOCK = StateFile(
    "pass.lock",
    owner="the first pass, or ``systemd-tmpfiles``",
    version=None,
    what="held by a pass, ``disk hold`` and ``undo``, one at a time; of mode 0600, so that no reader of the directory"
    " can hold it",
    corrupt="it cannot be: nothing is in it",
    missing="made; where that cannot be (a full or read-only file system), there is no pass",
)
PROBES_LOCK = StateFile(
    "probes.lock",
    owner="the first ``probe run``, or ``systemd-tmpfiles``",
    version=None,
    what="held by ``probe run``, as above; its owner is that of ``probes.sqlite``",
    corrupt="it cannot be: nothing is in it",
    missing="made; where that cannot be, nothing is probed",
)
FILES = (
    MEMORY,
    APPROVAL,
    LAST_RULES,
    RECORD,
    SIGHTINGS,
    PROBES,
    PROBES_SHOWN,
    LAST_PASS,
    BUSY,
    CLOCK,
    PASS_LOCK,
    PROBES_LOCK,
)


@dataclass(frozen=True, slots=True)
class Memory:
    """What is remembered, and the holds; both by ``Disk.key``."""

    disks: Mapping[str, Remembered] = field(default_factory=dict)
    holds: Mapping[str, Hold] = field(default_factory=dict)
    judged: str | None = None
    """The revision that a pass over the whole node went through with, and the brake kept nothing back."""
    recent: Mapping[str, datetime] = field(default_factory=dict)
    """Disks that were changed so much that the brake counts them, and when: of the last hour."""


@dataclass(frozen=True, slots=True)
class Given:
    """An approval, and who gave it when."""

    approval: Approval
    by: str
    at: datetime


@dataclass(frozen=True, slots=True)
class State:
    """The state directory (``/var/lib/plimsoll``)."""

    directory: Path
    boot: str = ""
    """What tells one run of this node from the next: libvirt counts guests and attachments anew after each."""

    @property
    def record(self) -> Path:
        return self.directory / RECORD.name

    @property
    def last_rules(self) -> Path:
        return self.directory / LAST_RULES.name

    @property
    def memory(self) -> Path:
        return self.directory / MEMORY.name

    @property
    def approval(self) -> Path:
        return self.directory / APPROVAL.name

    @property
    def sightings(self) -> Path:
        return self.directory / SIGHTINGS.name

    @property
    def last_pass(self) -> Path:
        return self.directory / LAST_PASS.name

    @property
    def clock(self) -> Path:
        return self.directory / CLOCK.name

    @property
    def busy(self) -> int:
        """How many passes have found the node held by another one."""
        try:
            return (self.directory / BUSY.name).stat().st_size
        except OSError:
            return 0

    def note_busy(self) -> None:
        """One more; who cannot note it goes without."""
        with suppress(OSError):
            files.append(self.directory / BUSY.name, b".")

    @property
    def probes(self) -> Path:
        return self.directory / PROBES.name

    @property
    def probes_shown(self) -> Path:
        return self.directory / PROBES_SHOWN.name

    def prepare(self) -> None:
        """Make the directory if it is missing. Raises ``StateError``."""
        try:
            if not self.directory.is_dir():
                self.directory.mkdir(parents=True, exist_ok=True)
                self.directory.chmod(0o750)  # whatever the umask is
        except OSError as error:
            raise StateError(f"{self.directory}: cannot be made: {error.strerror}") from error

    @contextmanager
    def locked(self, *, patience: float = 0) -> Iterator[None]:
        """Hold the node for one pass, after ``patience`` seconds of waiting at the most.

        Raises ``Busy`` while another pass runs, ``StateError`` when there is nothing to hold.
        """
        path = self.directory / PASS_LOCK.name
        try:
            lock = locks.take(path, patience)
        except BlockingIOError as error:
            raise Busy("another pass is under way on this node; this one changed nothing") from error
        except OSError as error:
            raise StateError(f"{path}: cannot be locked: {error.strerror}; nothing was changed") from error
        former = locks.take_former(self.directory)
        try:
            files.sweep(self.directory, tuple(file.name for file in FILES))
            yield
        finally:
            if former is not None:
                os.close(former)
            os.close(lock)

    def load_memory(self) -> Memory | None:
        """What is remembered, None when there is no file. Raises ``CorruptState``, ``StateError``."""
        envelope = _read(self.memory, MEMORY, {1: _memory_from_1, 2: _memory_from_2, 3: _memory_from_3})
        if envelope is None:
            return None
        same_run = envelope.get("boot") == self.boot
        try:
            disks, holds = {**envelope["disks"]}, {**envelope["holds"]}
            judged = _text_or_none(envelope["judged"])
            recent = {_text(key): _time(at) for key, at in {**envelope["recent"]}.items()}
        except _UNREADABLE as error:
            raise _corrupt(self.memory, error) from error
        known: dict[str, Remembered] = {}
        for key, value in disks.items():
            try:
                known[key] = _remembered(value, same_run)
            except _UNREADABLE as error:  # a disk whose limits nobody knows to be ours is left alone
                LOG.warning(
                    "%s: what is remembered of %r cannot be read (%s) and is forgotten", self.memory, key, error
                )
        try:
            return Memory(known, {key: _hold(key, value) for key, value in holds.items()}, judged, recent)
        except _UNREADABLE as error:  # without its hold a disk could be loosened
            raise _corrupt(self.memory, error) from error

    def save_memory(self, memory: Memory) -> None:
        """Replace the file as a whole. Raises ``StateError``."""
        newest_first = sorted(memory.disks.items(), key=lambda item: item[1].seen, reverse=True)
        kept = _fitting((key, json.dumps(_remembered_data(remembered))) for key, remembered in newest_first)
        disks = _lines(sorted(kept))
        holds = _lines((key, json.dumps(_hold_data(hold))) for key, hold in sorted(memory.holds.items()))
        recent = {key: at.isoformat() for key, at in sorted(memory.recent.items())}
        head = {"version": MEMORY.version, "boot": self.boot, "judged": memory.judged, "recent": recent}
        _save(self.memory, f'{json.dumps(head)[:-1]},\n"disks": {disks},\n"holds": {holds}}}\n')

    def load_sightings(self) -> Sightings:
        """What the last pass met; nothing where that cannot be read."""
        try:
            return sightings.load(self.sightings) or Sightings()
        except sightings.UnreadableSightings as error:
            LOG.warning("%s", error)
        except OSError as error:
            LOG.warning("%s: cannot be read: %s", self.sightings, error.strerror)
        return Sightings()

    def save_sightings(self, met: Sightings) -> None:
        """Raises ``StateError``."""
        try:
            sightings.save(self.sightings, met)
        except OSError as error:
            raise StateError(f"{self.sightings}: cannot be written: {error.strerror}") from error

    def load_approvals(self) -> tuple[Given, ...]:
        """Raises ``CorruptState``, ``StateError``."""
        envelope = _read(self.approval, APPROVAL, {1: _approvals_from_1})
        if envelope is None:
            return ()
        try:
            return tuple(_given(value) for value in [*envelope["approvals"]])
        except _UNREADABLE as error:
            raise _corrupt(self.approval, error) from error

    def save_approvals(self, given: Sequence[Given]) -> None:
        """Replace the file as a whole. Raises ``StateError``."""
        content = [
            {
                "digest": each.approval.digest,
                "remove": each.approval.remove,
                "by": each.by,
                "at": each.at.isoformat(),
            }
            for each in given
        ]
        _save(self.approval, json.dumps({"version": APPROVAL.version, "approvals": content}, indent=1) + "\n")

    def forget_approvals(self) -> None:
        """Raises ``StateError``."""
        try:
            self.approval.unlink(missing_ok=True)
        except OSError as error:
            raise StateError(f"{self.approval}: cannot be removed: {error.strerror}") from error

    def read_last_rules(self) -> bytes:
        """Raises ``OSError``."""
        return files.read_whole(self.last_rules, _LARGEST_RULES)

    def keep_rules(self, text: str) -> None:
        """Keep the text of rules that were found good. Raises ``StateError``."""
        with suppress(OSError, UnicodeDecodeError):
            if self.read_last_rules() == text.encode():
                os.utime(self.last_rules)  # its age says when they were last good
                return
        _save(self.last_rules, text)


def set_aside(path: Path) -> Path:
    """Move a corrupt file out of the way, never over an earlier one. Raises ``StateError``."""
    try:
        return path.rename(files.name_aside(path))
    except OSError as error:
        raise StateError(f"{path}: cannot be set aside: {error.strerror}") from error


def _read(
    path: Path, file: StateFile, migrations: Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]]
) -> dict[str, Any] | None:
    """The envelope in the file, brought to the version that we know; None when there is no file."""
    try:
        content = files.read_whole(path, MOST_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StateError(f"{path}: cannot be read: {error.strerror}") from error
    if len(content) > MOST_BYTES:
        raise StateError(f"{path}: is larger than {MOST_BYTES} bytes; no pass writes so much: move the file away")
    try:
        envelope: dict[str, Any] = {**json.loads(content.decode("utf-8"))}
        version, known = int(envelope["version"]), file.version or 0
        while version in migrations:
            envelope = migrations[version](envelope)
            version = envelope["version"]
    except _UNREADABLE as error:
        raise _corrupt(path, error) from error
    if version > known:
        raise StateError(
            f"{path}: written by a newer plimsoll (version {version}, known up to {known});"
            " install that one again, or move the file away"
        )
    if version != known:
        raise CorruptState(f"{path}: is corrupt: there is no version {version}")
    return envelope


def _corrupt(path: Path, error: Exception) -> CorruptState:
    # Not repr(): that of a UnicodeDecodeError has the whole file in it.
    return CorruptState(f"{path}: is corrupt: {type(error).__name__}: {error}")


def _fitting(newest_first: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Keys and their lines, without the last ones where all would be too many."""
    left = MOST_REMEMBERED
    for key, line in newest_first:
        left -= len(key) + len(line)
        if left < 0:
            return
        yield key, line


def _save(path: Path, text: str) -> None:
    try:
        files.write_whole(path, text)
    except OSError as error:
        raise StateError(f"{path}: cannot be written: {error.strerror}") from error


# --- values as JSON, and back ---------------------------------------------------------------------------

_UNREADABLE = (ValueError, KeyError, TypeError, OverflowError, RecursionError)


def _lines(values: Iterable[tuple[str, str]]) -> str:
    """A JSON object, a line an entry: with an indent of its own json is twenty times as slow."""
    return "{" + ",".join(f"\n {json.dumps(key)}: {value}" for key, value in values) + "}"


def _memory_from_1(envelope: dict[str, Any]) -> dict[str, Any]:
    """Version 1 knew no holds, and not how often somebody else's hand had been met."""
    if "holds" in envelope:  # the number is what was damaged; they must not be lost in silence
        raise ValueError("holds in version 1")
    new = {"returns": None, "theirs": False, "fought": 0, "fought_at": None}
    disks = {
        key: old | new | {"kept": old.get("put") is not None} if isinstance(old, dict) else old
        for key, old in {**envelope["disks"]}.items()
    }
    return envelope | {"version": 2, "disks": disks, "holds": {}}


def _memory_from_2(envelope: dict[str, Any]) -> dict[str, Any]:
    """Version 2 did not know whose word it was that was wanted."""
    disks = {
        key: old | {"by_type": None} if isinstance(old, dict) else old for key, old in {**envelope["disks"]}.items()
    }
    return envelope | {"version": 3, "disks": disks}


def _memory_from_3(envelope: dict[str, Any]) -> dict[str, Any]:
    """Version 3 did not know by which rules and which revision something was wanted."""
    disks = {
        key: old | {"by_rules": [], "revision": None} if isinstance(old, dict) else old
        for key, old in {**envelope["disks"]}.items()
    }
    return envelope | {"version": 4, "disks": disks, "judged": None, "recent": {}}


def _approvals_from_1(envelope: dict[str, Any]) -> dict[str, Any]:
    """Version 1 had six digits of a digest, which is not enough to tell revisions apart: it approves nothing."""
    _text(envelope["edition"])
    return {"version": 2, "approvals": []}


def _given(value: Any) -> Given:
    digest, remove = _text(value["digest"]), value["remove"]
    if not is_digest(digest) or not isinstance(remove, bool):
        raise ValueError("no approval")
    return Given(Approval(digest, remove), _text(value["by"]), _time(value["at"]))


def _remembered_data(remembered: Remembered) -> dict[str, object]:
    return {
        "wanted": _limits_data(remembered.wanted),
        "since": remembered.since.isoformat(),
        "seen": remembered.seen.isoformat(),
        "put": _limits_data(remembered.put),
        "attachment": remembered.attachment,
        "returns": _limits_data(remembered.returns),
        "theirs": remembered.theirs,
        "kept": remembered.kept,
        "by_type": remembered.by_type,
        **({} if remembered.mark is None else {"mark": remembered.mark}),
        **({} if remembered.source is None else {"source": remembered.source.value}),
        **({} if remembered.released is None else {"released": remembered.released}),
        "by_rules": list(remembered.by_rules),
        "revision": remembered.revision,
        "fought": remembered.fought,
        "fought_at": None if remembered.fought_at is None else remembered.fought_at.isoformat(),
    }


def _remembered(value: Any, same_run: bool) -> Remembered:
    fought = value["fought"]
    theirs, kept, by_rules = value["theirs"], value["kept"], value["by_rules"]
    if not isinstance(theirs, bool) or not isinstance(kept, bool):
        raise ValueError("whose limits they were is not said")
    if type(fought) is not int or fought not in range(10**9):
        raise ValueError("how often they were fought for is no number")
    if not isinstance(by_rules, list):
        raise ValueError("the rules are no list")
    return Remembered(
        wanted=_limits_or_none(value["wanted"]),
        since=_time(value["since"]),
        seen=_time(value["seen"]),
        put=_limits_or_none(value["put"]),
        attachment=_text_or_none(value["attachment"]) if same_run else None,
        returns=_limits_or_none(value["returns"]),
        theirs=theirs,
        kept=kept,
        by_type=_text_or_none(value["by_type"]),
        by_rules=tuple(map(_text, by_rules)),
        revision=_text_or_none(value["revision"]),
        mark=_text_or_none(value.get("mark")),
        source=None if value.get("source") is None else Code(value["source"]),
        released=_text_or_none(value.get("released")),
        fought=fought,
        fought_at=None if value["fought_at"] is None else _time(value["fought_at"]),
    )


def _hold_data(hold: Hold) -> dict[str, object]:
    return {
        "disk": asdict(hold.disk),
        "limits": _limits_data(hold.limits),
        "since": hold.since.isoformat(),
        "until": hold.until.isoformat(),
        "by": hold.by,
        "why": hold.why,
        **({} if hold.missing is None else {"missing": hold.missing.isoformat()}),
        "ignore_health": hold.ignore_health,
    }


def _hold(key: str, value: Any) -> Hold:
    disk, ignore_health = DiskName.read(value["disk"]), value.get("ignore_health", False)
    if not isinstance(ignore_health, bool):
        raise ValueError("whether a hold ignores the health gate is not said")
    if disk.key != key:
        raise ValueError(f"a hold for {disk.key!r}")
    return Hold(
        disk=disk,
        limits=_limits_or_none(value["limits"]),
        since=_time(value["since"]),
        until=_time(value["until"]),
        by=_text(value["by"]),
        why=_text(value["why"]),
        missing=None if value.get("missing") is None else _time(value["missing"]),
        ignore_health=ignore_health,
    )


def _limits_data(limits: Limits | None) -> dict[str, int | str] | None:
    return None if limits is None else limits.in_effect()


def _limits_or_none(value: object) -> Limits | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise ValueError("no limits")
    return Limits.from_mapping(value)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"a {type(value).__name__} is no text")
    return value


def _text_or_none(value: object) -> str | None:
    return None if value is None else _text(value)


def _time(value: object) -> datetime:
    """Raises ``ValueError``, and ``OverflowError`` for a time that is none in UTC."""
    time = datetime.fromisoformat(_text(value))
    if time.tzinfo is None:
        raise ValueError(f"{value!r} has no time zone")
    time.astimezone(UTC)
    return time
