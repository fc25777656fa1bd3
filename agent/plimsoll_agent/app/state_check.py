"""Checks, without writing, whether this version can read the state files of another version."""

from __future__ import annotations

import json
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from enum import StrEnum
from pathlib import Path

from plimsoll_agent.catalogue import attachments, signed_file
from plimsoll_agent.catalogue import model as catalogue
from plimsoll_agent.consoles import file as consoles_file
from plimsoll_agent.errors import PlimsollError
from plimsoll_agent.monitor import daemon_status, pass_summary_file
from plimsoll_agent.rules import loader
from plimsoll_agent.store import clock, refresh_state, state
from plimsoll_agent.store.database import BROKEN, uri_of, version_of
from plimsoll_agent.store.state import State, StateFile
from plimsoll_agent.util import decoding, files, schema
from plimsoll_agent.util.frozen import frozen
from plimsoll_agent.util.text import printable

# The error of a damaged file may be as long as the file.
_LONGEST_COMPLAINT = 200
_PATIENCE = 10.0
"""Seconds to wait for a locked database."""


class FileCondition(StrEnum):
    """Whether this version can use a file."""

    OK = "ok"
    OLDER = "older"
    """Read, and converted to the present version with the next write."""
    REPLACED = "replaced"
    """Not read by this version and not needed: a new one is written in its place."""
    NEWER = "newer"
    CORRUPT = "corrupt"
    MISSING = "missing"
    UNREADABLE = "unreadable"


_BAD = (FileCondition.NEWER, FileCondition.CORRUPT, FileCondition.UNREADABLE)


@frozen(kw_only=True)
class CheckedFile:
    """The result for a file; ``oldest`` to ``newest`` are the versions that this plimsoll reads.

    Versions are None if the file has none, or it is unknown.
    """

    path: Path
    condition: FileCondition
    version: int | None
    oldest: int | None
    newest: int | None
    detail: str | None = None
    others: bool = False
    """Only the user of ``catalogue refresh`` can read it, which is right."""

    @property
    def bad(self) -> bool:
        """Whether this version cannot use it."""
        return self.condition in _BAD and not (self.others and self.condition is FileCondition.UNREADABLE)


@frozen(kw_only=True)
class _Kind:
    """How a file is read: ``version`` reads its version, ``read`` raises if the rest is damaged."""

    path: Path
    newest: int | None
    version: Callable[[Path], int | None]
    read: Callable[[], object] = lambda: None
    oldest: int | None = 1
    lasting: bool = True
    """Whether a new version migrates it; else it writes a new one."""
    others: bool = False


class _Corrupt(Exception):
    """The file has content that plimsoll did not write; the text has the reason."""


class _OfNoUse(Exception):
    """This version cannot use the file, and does not need it; the text has the reason."""


def check(state_dir: Path, catalogue_dir: Path) -> list[CheckedFile]:
    """Every file that plimsoll keeps on a node. Nothing is written, and no older file is migrated."""
    return [_checked(kind) for kind in _kinds(State(state_dir), catalogue_dir)]


def readable() -> dict[str, tuple[int, int]]:
    """The first and the last version that this plimsoll reads, by the file's name, of those that it does not replace.

    A package has them in its scripts, to refuse an upgrade or a downgrade before it.
    """
    nowhere = Path("/")
    kinds = (kind for kind in _kinds(State(nowhere), nowhere) if kind.lasting)
    return {kind.path.name: (kind.oldest or 0, kind.newest) for kind in kinds if kind.newest is not None}


def _kinds(node_state: State, catalogue_dir: Path) -> Iterator[_Kind]:
    def kind(file: StateFile, version: Callable[[Path], int], read: Callable[[], object] = lambda: None) -> _Kind:
        oldest = file.version if file.oldest is None else file.oldest
        return _Kind(
            path=node_state.directory / file.name,
            newest=file.version,
            version=version,
            read=read,
            oldest=oldest,
            lasting=file.oldest is not None,
        )

    of_runs = "SELECT * FROM run LIMIT 1"
    yield kind(state.MEMORY, _of_json(state.MOST_BYTES), node_state.load_memory)
    yield kind(state.APPROVAL, _of_json(state.MOST_BYTES), node_state.load_approvals)
    yield _Kind(path=node_state.last_rules, newest=None, version=_of_rules, oldest=None)
    yield kind(state.RECORD, _of_database("SELECT * FROM change LIMIT 1", state.RECORD))
    of_attachments = _of_json(attachments.MOST_BYTES)
    yield kind(state.ATTACHMENTS, of_attachments, lambda: attachments.load(node_state.attachments))
    yield kind(state.ORDERS, _of_json(state.MOST_BYTES), node_state.load_orders)
    yield kind(state.PROBES, _of_database(of_runs, state.PROBES))
    yield kind(state.PROBES_SHOWN, _of_database(of_runs, state.PROBES_SHOWN))
    yield kind(state.LAST_PASS, _of_json(pass_summary_file.MOST_BYTES), lambda: pass_summary_file.load(node_state))
    yield kind(state.CONSOLES, _of_json(consoles_file.MOST_BYTES), lambda: consoles_file.load(node_state))
    yield kind(state.HISTOGRAMS, _of_json(state.MOST_BYTES))
    yield kind(state.DAEMON, _of_json(daemon_status.MOST_BYTES), lambda: daemon_status.load(node_state))
    yield kind(state.CLOCK, _of_json(clock.MOST_BYTES), lambda: clock.load(node_state.clock))
    yield kind(state.CREDITS, _of_json(state.MOST_BYTES), node_state.load_accounts)
    yield kind(state.FACTORS, _of_json(state.MOST_BYTES), node_state.load_factors)
    yield kind(state.CEILINGS, _of_json(state.MOST_BYTES), node_state.load_ceilings)
    yield kind(state.VERSIONS, _of_json(state.MOST_BYTES), node_state.load_versions)
    for file in (
        state.USAGE,
        state.USAGE_BEFORE,
        state.BUSY,
        state.FILE_SYSTEMS,
        state.FILE_SYSTEMS_LOCK,
        state.PASS_LOCK,
        state.GUESTS_LOCK,
        state.STORE_LOCK,
        state.DAEMON_LOCK,
        state.PROBES_LOCK,
        state.HISTOGRAMS_LOCK,
    ):
        yield _Kind(path=node_state.directory / file.name, newest=None, version=_of_count, oldest=None)
    path = catalogue_dir / catalogue.NAME
    of_catalogue = _of_json(catalogue.MOST_BYTES)
    yield _Kind(path=path, newest=catalogue.VERSION, version=of_catalogue, read=lambda: catalogue.load(catalogue_dir))
    region, of_region = signed_file.VERSION, _of_json(signed_file.MOST_BYTES)
    yield _Kind(path=catalogue_dir / signed_file.NAME, newest=region, version=of_region, oldest=region, lasting=False)
    notes = refresh_state.VERSION
    of_notes = _of_json(refresh_state.MOST_BYTES)
    yield _Kind(
        path=catalogue_dir / refresh_state.NAME,
        newest=notes,
        version=of_notes,
        oldest=notes,
        lasting=False,
        others=True,
    )


def _checked(kind: _Kind) -> CheckedFile:
    def found(condition: FileCondition, version: int | None = None, detail: str | None = None) -> CheckedFile:
        text = None if detail is None else printable(detail[:_LONGEST_COMPLAINT])
        return CheckedFile(
            path=kind.path,
            condition=condition,
            version=version,
            oldest=kind.oldest,
            newest=kind.newest,
            detail=text,
            others=kind.others,
        )

    try:
        version = kind.version(kind.path)
    except FileNotFoundError:
        return found(FileCondition.MISSING)
    except (OSError, sqlite3.Error) as error:
        return found(FileCondition.UNREADABLE, detail=getattr(error, "strerror", None) or str(error))
    except _Corrupt as error:
        return found(FileCondition.CORRUPT, detail=str(error))
    except _OfNoUse as error:
        return found(FileCondition.REPLACED, detail=str(error))
    if version is None:
        return found(FileCondition.OK)
    newest, oldest = kind.newest or 0, kind.oldest or 0
    if not oldest <= version <= newest:
        if not kind.lasting:
            return found(FileCondition.REPLACED, version, "of another version; a new one replaces it")
        if version > newest:
            return found(
                FileCondition.NEWER, version, "from a newer version: install that again, or move the file away"
            )
        return found(FileCondition.CORRUPT, version, f"unknown version {version}")
    try:
        kind.read()
    except (PlimsollError, OSError, *decoding.UNREADABLE) as error:
        return found(FileCondition.CORRUPT, version, str(error).removeprefix(f"{kind.path}: "))
    if version < newest:
        return found(FileCondition.OLDER, version, f"converted to version {newest} with the next write")
    return found(FileCondition.OK, version)


def _of_json(most: int) -> Callable[[Path], int]:
    """Reads the version of a JSON file of at most so many bytes."""

    def version(path: Path) -> int:
        """Raises ``OSError``, ``_Corrupt``."""
        content = files.read_whole(path, most + 1)
        if len(content) > most:
            raise _Corrupt(f"is larger than {most} bytes")
        try:
            envelope = json.loads(content.decode("utf-8"))
            version = envelope["version"]
        except decoding.UNREADABLE as error:
            raise _Corrupt(f"{type(error).__name__}: {error}") from error
        if type(version) is not int:
            raise _Corrupt("has no version")
        return version

    return version


def _of_count(path: Path) -> None:
    """A file of which only the length or the existence counts."""
    path.stat()


def _of_rules(path: Path) -> None:
    """Rules have no version. Raises ``OSError``, ``_OfNoUse``."""
    try:
        loader.parse(files.read_whole(path, schema.LARGEST).decode("utf-8"), str(path))
    except (PlimsollError, UnicodeDecodeError) as error:
        raise _OfNoUse("not readable as rules; does not matter while the rules file is valid") from error


def _of_database(look: str, file: StateFile) -> Callable[[Path], int]:
    """Reads the version of a database on which the query ``look`` works."""

    def version(path: Path) -> int:
        """Raises ``OSError``, ``sqlite3.Error``, ``_Corrupt``."""
        files.read_whole(path, 1)  # its errors are clearer than SQLite's for a missing or unreadable file
        try:
            return _version(path, "ro", look, file)
        except sqlite3.DatabaseError as error:
            code = error.sqlite_errorcode
            if code != sqlite3.SQLITE_READONLY_ROLLBACK:
                if code & 0xFF in BROKEN:
                    raise _Corrupt(str(error)) from error
                raise
        # A writer was killed. Only a writer can roll its transaction back: that is done in a copy.
        with tempfile.TemporaryDirectory() as directory:
            copy = Path(directory) / path.name
            try:
                for ending in ("", "-journal"):
                    shutil.copyfile(f"{path}{ending}", f"{copy}{ending}")
            except FileNotFoundError:  # another writer has rolled it back since
                return version(path)
            return _version(copy, "rw", look, file)

    return version


def _version(path: Path, mode: str, look: str, file: StateFile) -> int:
    with closing(sqlite3.connect(uri_of(path, mode), uri=True, timeout=_PATIENCE, isolation_level=None)) as database:
        version = version_of(database)
        if version < 1:
            (tables,) = database.execute("SELECT count(*) FROM sqlite_master").fetchone()
            raise _Corrupt("not a database of plimsoll" if tables else "is empty")
        if version <= (file.version or 0):
            database.execute(look).fetchone()
        return version
