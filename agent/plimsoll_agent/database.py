"""A SQLite file on the node that others read while it is written, and that no crash leaves half made."""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from plimsoll_agent import files
from plimsoll_agent.state import CorruptState, StateError

Identity = tuple[int, int]
"""Device and inode."""
Fill = Callable[[sqlite3.Connection, Path | None], object]
"""Writes the first rows of a new file; the path is that of the file whose place it takes, if it takes one's."""

_PATIENCE = 10.0
"""Seconds that we wait for whoever has the file; where that was in vain, not again."""
_SETTLE = 0.2
"""Seconds after which who had opened a file that was then set aside is done with it."""
_WORTH_IT = 2**20
"""Free bytes below which a file is left as it is: what is written next takes them."""
_MOST_TO_REWRITE = 2**25
"""Bytes that are written anew in one go: other writers wait for that."""
# The queries are ours and right: where SQLite finds an error in one (no such column), the tables are wrong.
BROKEN = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)

NONSENSE = (ValueError, TypeError, IndexError, RecursionError)
"""What rows raise that plimsoll did not write."""


class Database:
    """A file whose version n has the first n of the ``steps`` behind it, each a script of SQL.

    A step has no semicolon but those that end its statements: all that a file lacks are made in one transaction.

    ``what`` it is, and the ``writer`` that is killed at times, are words for the errors. Raises ``StateError``
    where the file cannot be read or written, and ``corrupt`` where what it holds is something else. With
    ``shrinks`` a new file is one that ``shrink`` makes smaller after rows were deleted. A file that root makes
    belongs to the owner of ``beside``, or to that of the directory.

    SQLite's rollback journal, not WAL: who may read a file in WAL mode has to write beside it. Either way a reader
    holds locks that no writer gets past, and none has to let go: so the file is its owner's and root's alone, unless
    it is one that is only ever replaced (``shown``).
    """

    def __init__(
        self,
        path: Path,
        steps: Sequence[str],
        *,
        what: str,
        writer: str,
        corrupt: type[CorruptState],
        shrinks: bool = False,
        beside: Path | None = None,
        shown: bool = False,
    ) -> None:
        self.path = path
        self._mode = 0o640 if shown else 0o600
        self._patience = _PATIENCE
        self._steps = tuple(steps)
        self._what = what
        self._writer = writer
        self._corrupt = corrupt
        self._shrinks = shrinks
        self._beside = beside

    # --- writing

    def begin(self, fill: Fill | None = None) -> None:
        """Make the file where there is none: whole, so that an empty one is one that somebody emptied."""
        with self.plainly():
            if self.path.exists():
                return
            with self._fresh(fill, None) as fresh, suppress(FileExistsError):
                os.link(fresh, self.path)  # another process may have been faster
            files.sync_directory(self.path.parent)

    def set_aside(self, fill: Fill | None = None) -> Path:
        """Begin a new file in the place of a corrupt one, which is kept; returns what it is called now.

        Whoever calls sees to it that nobody else does so now.
        """
        with self.plainly():
            kept = files.name_aside(self.path)
            with self._fresh(fill, kept) as fresh, closing(sqlite3.connect(fresh, isolation_level=None)) as gate:
                # Nobody writes the new file before those are done who had opened the old one: they would take its
                # journal for theirs by the name, play it back, and remove it.
                gate.execute("BEGIN EXCLUSIVE")
                os.link(self.path, kept)  # fails, and does not replace, where there is one
                # SQLite would roll the old file's journal back into the new one.
                with suppress(FileNotFoundError):
                    _journal(self.path).rename(_journal(kept))
                fresh.replace(self.path)
                files.sync_directory(self.path.parent)
                time.sleep(_SETTLE)
        return kept

    def replace(self, fill: Fill) -> None:
        """Put a new file in the place of the old one, if there is one: who reads that one goes on doing so."""
        with self.plainly(), self._fresh(fill, None) as fresh:
            fresh.replace(self.path)
            files.sync_directory(self.path.parent)

    def close_to_others(self) -> None:
        """The mode of a file that a release before this one made, which others could read."""
        with suppress(OSError):  # another user's, who does it himself
            if stat.S_IMODE(self.path.stat().st_mode) & ~self._mode:
                self.path.chmod(self._mode)

    @contextmanager
    def _fresh(self, fill: Fill | None, instead_of: Path | None) -> Iterator[Path]:
        """A new file under a name of its own, which is gone afterwards."""
        descriptor, name = tempfile.mkstemp(dir=self.path.parent, prefix=f".{self.path.name}.")
        try:
            beside = self._beside
            files.give_to_owner(descriptor, beside if beside is not None and beside.exists() else self.path.parent)
            os.close(descriptor)
            with closing(sqlite3.connect(name, isolation_level=None)) as database:
                if self._shrinks:
                    database.execute("PRAGMA auto_vacuum = INCREMENTAL")  # before the first table, or it is nothing
                database.execute("BEGIN")
                self._migrate(database)
                if fill is not None:
                    fill(database, instead_of)
                database.execute("COMMIT")
            Path(name).chmod(self._mode)  # only now may others open it
            yield Path(name)
        finally:
            Path(name).unlink(missing_ok=True)

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """One transaction: committed when the block ends, rolled back when it fails or is killed."""
        with self.plainly(), closing(self._connect("rw")) as database:
            _synchronise(database)
            database.execute("BEGIN IMMEDIATE")
            self._migrate(database)
            yield database
            database.execute("COMMIT")

    def _migrate(self, database: sqlite3.Connection) -> None:
        version = version_of(database)
        if version >= len(self._steps):
            return
        for step in self._steps[version:]:
            for statement in step.split(";"):
                database.execute(statement)
        database.execute(f"PRAGMA user_version = {len(self._steps)}")

    def give_back(self, pages: int) -> None:
        """Shrink, where that is worth a transaction. A file that was not made to shrink, and has little in it, is
        written once as one that is: that takes a second at the most."""
        with self.look() as database:
            if database is None:
                return
            names = ("page_count", "freelist_count", "page_size", "auto_vacuum")
            count, free, size, shrinks = (database.execute(f"PRAGMA {name}").fetchone()[0] for name in names)
        if free * size < _WORTH_IT:
            return
        if shrinks:
            self.shrink(pages)
        elif (count - free) * size <= _MOST_TO_REWRITE:
            with self.plainly(), closing(self._connect("rw")) as database:
                _synchronise(database)
                database.execute("PRAGMA auto_vacuum = INCREMENTAL")
                database.execute("VACUUM")

    def shrink(self, pages: int) -> int:
        """Give up to so many free pages back, of a file that ``shrinks``; returns how many are left."""
        with self.plainly(), closing(self._connect("rw")) as database:
            _synchronise(database)
            # A page a step, and no row: ``execute`` would take the first step alone.
            database.executescript(f"PRAGMA incremental_vacuum({pages})")
            return int(database.execute("PRAGMA freelist_count").fetchone()[0])

    # --- reading

    def exists(self) -> bool:
        with self.plainly():
            return self.path.exists()

    def identity(self) -> Identity | None:
        """What tells this file from one that takes its place; None where there is none."""
        with self.plainly(), suppress(FileNotFoundError):
            status = self.path.stat()
            return status.st_dev, status.st_ino
        return None

    @contextmanager
    def look(self) -> Iterator[sqlite3.Connection | None]:
        """Looks only and makes no file; None where there is none."""
        with self.plainly():
            if not self.path.exists():
                yield None
                return
            if not os.access(self.path, os.R_OK, effective_ids=True):
                raise PermissionError(errno.EACCES, "only its owner and root may read it")
            with closing(self._connect("ro")) as database:
                try:
                    yield database
                except NONSENSE as error:
                    raise self._corrupt(f"{self.path}: {error}") from error

    def _connect(self, mode: str) -> sqlite3.Connection:
        uri = f"{self.path.absolute().as_uri()}?mode={mode}"
        database = sqlite3.connect(uri, uri=True, timeout=self._patience, isolation_level=None)
        try:
            database.row_factory = sqlite3.Row
            database.text_factory = decoded
            self._check(database)
        except sqlite3.OperationalError as error:
            database.close()
            if mode == "ro" and error.sqlite_errorcode == sqlite3.SQLITE_READONLY_ROLLBACK:
                # A writer was killed: who may write takes that back, as any use of the file would.
                return self._connect("rw")
            raise
        except BaseException:
            database.close()
            raise
        return database

    def _check(self, database: sqlite3.Connection) -> None:
        version, known = version_of(database), len(self._steps)
        if version > known:
            raise StateError(
                f"{self.path}: written by a newer plimsoll (version {version}, known up to {known});"
                " install that one again, or move the file away"
            )
        if version < 1:
            (tables,) = database.execute("SELECT count(*) FROM sqlite_master").fetchone()
            raise self._corrupt(f"{self.path}: is {f'no {self._what} of plimsoll' if tables else 'empty'}")

    @contextmanager
    def plainly(self) -> Iterator[None]:
        """What SQLite and the system say, as a sentence that names the file."""
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", None)
            if code == sqlite3.SQLITE_BUSY:  # once is enough: a pass has several things to write
                self._patience = 0.0
            if code is not None and code & 0xFF in BROKEN:
                raise self._corrupt(f"{self.path}: {error}") from error
            if code == sqlite3.SQLITE_READONLY_ROLLBACK:
                raise StateError(
                    f"{self.path}: a {self._writer} was killed while it wrote; root can read it, and the next"
                    f" {self._writer} mends it"
                ) from error
            raise StateError(f"{self.path}: {error}") from error
        except OSError as error:
            raise StateError(f"{self.path}: {error.strerror or error}") from error
        except ValueError as error:  # text that cannot be stored
            raise StateError(f"{self.path}: {error}") from error


def version_of(database: sqlite3.Connection) -> int:
    return int(database.execute("PRAGMA user_version").fetchone()[0])


def _synchronise(database: sqlite3.Connection) -> None:
    # 3 = EXTRA: with FULL alone the journal may come back after a power cut, and the transaction be gone.
    database.execute("PRAGMA synchronous = 3")


def _journal(path: Path) -> Path:
    return path.with_name(f"{path.name}-journal")


def decoded(text: bytes) -> str | bytes:
    """One name that is no text must not hide the other rows of its page."""
    try:
        return text.decode()
    except UnicodeDecodeError:
        return text


# --- what stands in a row


def stamp(time: datetime) -> str:
    """In UTC always, so that times compare as text."""
    return time.astimezone(UTC).isoformat()


def text_of(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no text")
    return value


def text_or_none(value: object) -> str | None:
    return None if value is None else text_of(value)


def time_of(value: object) -> datetime:
    time = datetime.fromisoformat(text_of(value))
    if time.utcoffset() != timedelta(0):
        raise ValueError(f"{value!r} is no time in UTC")
    return time
