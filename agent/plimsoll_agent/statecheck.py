"""Whether this plimsoll can read what another one left on the node: file by file, without a write."""

from __future__ import annotations

import json
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from plimsoll_agent import catalogue, clock, files, passfile, refreshdir, rulesfile, sightings, state
from plimsoll_agent.database import BROKEN, version_of
from plimsoll_agent.errors import PlimsollError
from plimsoll_agent.report import printable
from plimsoll_agent.state import State, StateFile

# Of a damaged file an error may have as much to say as the file is long.
_LONGEST_COMPLAINT = 200
_PATIENCE = 10.0
"""Seconds that we wait for whoever has a database."""
_UNREADABLE = (ValueError, KeyError, TypeError, OverflowError, RecursionError)


class Condition(StrEnum):
    """What this plimsoll makes of a file."""

    OK = "ok"
    OLDER = "older"
    """It is brought to the present version when it is next written."""
    BEGUN_ANEW = "begun-anew"
    """It is of no use to this plimsoll, and nothing hangs on it: it is written anew in its place."""
    NEWER = "newer"
    CORRUPT = "corrupt"
    MISSING = "missing"
    UNREADABLE = "unreadable"


_BAD = (Condition.NEWER, Condition.CORRUPT, Condition.UNREADABLE)


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """A file as it was found; ``oldest`` to ``newest`` are the versions that this plimsoll reads.

    Versions are None where the file has none, or it cannot be told.
    """

    path: Path
    condition: Condition
    version: int | None
    oldest: int | None
    newest: int | None
    detail: str | None = None
    others: bool = False
    """It is the refresher's alone: that nobody else can read it is as it should be."""

    @property
    def bad(self) -> bool:
        """Whether this plimsoll would not run well with it."""
        return self.condition in _BAD and not (self.others and self.condition is Condition.UNREADABLE)


@dataclass(frozen=True, slots=True)
class _Kind:
    """How a file is read: ``version`` finds which one it is of, ``read`` raises where the rest is damaged."""

    path: Path
    newest: int | None
    version: Callable[[Path], int | None]
    read: Callable[[], object] = lambda: None
    oldest: int | None = 1
    lasting: bool = True
    """What is in it is brought along from version to version; else one of another version is begun anew."""
    others: bool = False


class _Corrupt(Exception):
    """What is in the file is not what plimsoll wrote; the text says why."""


class _OfNoUse(Exception):
    """What is in the file does not help this plimsoll, and harms nothing; the text says why."""


def check(state_dir: Path, catalogue_dir: Path) -> list[CheckedFile]:
    """Every file that plimsoll keeps on a node. Nothing is written, and no older file is brought up."""
    return [_checked(kind) for kind in _kinds(State(state_dir), catalogue_dir)]


def _kinds(kept: State, catalogue_dir: Path) -> Iterator[_Kind]:
    yield _Kind(kept.memory, state.MEMORY.version, _of_json(state.MOST_BYTES), kept.load_memory)
    yield _Kind(kept.approval, state.APPROVAL.version, _of_json(state.MOST_BYTES), kept.load_approvals)
    yield _Kind(kept.last_rules, None, _of_rules, oldest=None)
    yield _Kind(kept.record, state.RECORD.version, _of_database("SELECT * FROM change LIMIT 1", state.RECORD))
    seen = sightings.VERSION
    met = _of_json(sightings.MOST_BYTES)
    yield _Kind(kept.sightings, seen, met, lambda: sightings.load(kept.sightings), oldest=seen, lasting=False)
    yield _Kind(kept.probes, state.PROBES.version, _of_database("SELECT * FROM run LIMIT 1", state.PROBES))
    shown = state.PROBES_SHOWN.version
    of_shown = _of_database("SELECT * FROM run LIMIT 1", state.PROBES_SHOWN)
    yield _Kind(kept.probes_shown, shown, of_shown, oldest=shown, lasting=False)
    last = state.LAST_PASS.version
    of_pass = _of_json(passfile.MOST_BYTES)
    yield _Kind(kept.last_pass, last, of_pass, lambda: passfile.load(kept), oldest=last, lasting=False)
    last_clock, of_clock = state.CLOCK.version, _of_json(clock.MOST_BYTES)
    yield _Kind(kept.clock, last_clock, of_clock, lambda: clock.load(kept.clock), oldest=last_clock, lasting=False)
    for file in (state.BUSY, state.PASS_LOCK, state.PROBES_LOCK):
        yield _Kind(kept.directory / file.name, None, _of_count, oldest=None)
    fetched = catalogue_dir / catalogue.NAME
    of_catalogue = _of_json(catalogue.MOST_BYTES)
    yield _Kind(fetched, catalogue.VERSION, of_catalogue, lambda: catalogue.load(catalogue_dir))
    notes = refreshdir.VERSION
    of_notes = _of_json(refreshdir.MOST_BYTES)
    yield _Kind(catalogue_dir / refreshdir.NAME, notes, of_notes, oldest=notes, lasting=False, others=True)


def _checked(kind: _Kind) -> CheckedFile:
    def found(condition: Condition, version: int | None = None, detail: str | None = None) -> CheckedFile:
        said = None if detail is None else printable(detail[:_LONGEST_COMPLAINT])
        return CheckedFile(kind.path, condition, version, kind.oldest, kind.newest, said, kind.others)

    try:
        version = kind.version(kind.path)
    except FileNotFoundError:
        return found(Condition.MISSING)
    except (OSError, sqlite3.Error) as error:
        return found(Condition.UNREADABLE, detail=getattr(error, "strerror", None) or str(error))
    except _Corrupt as error:
        return found(Condition.CORRUPT, detail=str(error))
    except _OfNoUse as error:
        return found(Condition.BEGUN_ANEW, detail=str(error))
    if version is None:
        return found(Condition.OK)
    newest, oldest = kind.newest or 0, kind.oldest or 0
    if not oldest <= version <= newest:
        if not kind.lasting:
            return found(Condition.BEGUN_ANEW, version, "of another version; it is begun anew")
        if version > newest:
            return found(
                Condition.NEWER, version, "written by a newer plimsoll: install that one again, or move the file away"
            )
        return found(Condition.CORRUPT, version, f"there is no version {version}")
    try:
        kind.read()
    except (PlimsollError, OSError, *_UNREADABLE) as error:
        return found(Condition.CORRUPT, version, str(error).removeprefix(f"{kind.path}: "))
    if version < newest:
        return found(Condition.OLDER, version, f"brought to version {newest} when it is next written")
    return found(Condition.OK, version)


def _of_json(most: int) -> Callable[[Path], int]:
    """Reads the version of a JSON file, of no more bytes than its own readers take."""

    def version(path: Path) -> int:
        """Raises ``OSError``, ``_Corrupt``."""
        content = files.read_whole(path, most + 1)
        if len(content) > most:
            raise _Corrupt(f"is larger than {most} bytes")
        try:
            envelope = json.loads(content.decode("utf-8"))
            version = envelope["version"]
        except _UNREADABLE as error:
            raise _Corrupt(f"{type(error).__name__}: {error}") from error
        if type(version) is not int:
            raise _Corrupt("says no version")
        return version

    return version


def _of_count(path: Path) -> None:
    """A file of which only the length counts, or that it is there."""
    path.stat()


def _of_rules(path: Path) -> None:
    """Rules have no version. Raises ``OSError``, ``_OfNoUse``."""
    try:
        rulesfile.parse(files.read_whole(path, rulesfile.LARGEST).decode("utf-8"), str(path))
    except (PlimsollError, UnicodeDecodeError) as error:
        raise _OfNoUse("no rules that this plimsoll reads; of no matter while the rules file is good") from error


def _of_database(look: str, file: StateFile) -> Callable[[Path], int]:
    """Reads the version of a database that has what is looked for."""

    def version(path: Path) -> int:
        """Raises ``OSError``, ``sqlite3.Error``, ``_Corrupt``."""
        files.read_whole(path, 1)  # says what SQLite does not: that it is missing, or that nobody may read it
        try:
            return _version(path, "ro", look, file)
        except sqlite3.DatabaseError as error:
            code = error.sqlite_errorcode
            if code != sqlite3.SQLITE_READONLY_ROLLBACK:
                if code & 0xFF in BROKEN:
                    raise _Corrupt(str(error)) from error
                raise
        # Whoever wrote was killed in the middle. Only a writer can take that back: of a copy.
        with tempfile.TemporaryDirectory() as directory:
            copy = Path(directory) / path.name
            try:
                for ending in ("", "-journal"):
                    shutil.copyfile(f"{path}{ending}", f"{copy}{ending}")
            except FileNotFoundError:  # another writer has taken it back meanwhile
                return version(path)
            return _version(copy, "rw", look, file)

    return version


def _version(path: Path, mode: str, look: str, file: StateFile) -> int:
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    with closing(sqlite3.connect(uri, uri=True, timeout=_PATIENCE, isolation_level=None)) as database:
        version = version_of(database)
        if version < 1:
            (tables,) = database.execute("SELECT count(*) FROM sqlite_master").fetchone()
            raise _Corrupt("is no database of plimsoll" if tables else "is empty")
        if version <= (file.version or 0):
            database.execute(look).fetchone()
        return version
