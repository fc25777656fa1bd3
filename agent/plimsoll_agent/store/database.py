"""A SQLite file on the node: other processes may read it while it is written, and a crash leaves no part of one."""

from __future__ import annotations

import os
import sqlite3
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote

from plimsoll_agent.store.state import CorruptState, StateError
from plimsoll_agent.util import decoding, files

Identity = tuple[int, int]
"""Device and inode."""
Fill = Callable[[sqlite3.Connection, Path | None], object]
"""Writes the first rows of a new file; the path is the file that it replaces, if any."""

_PATIENCE = 10.0
"""Seconds to wait for a lock of another process; after a timeout, later calls do not wait."""
_SETTLE = 0.2
"""Seconds in which processes that opened a file before it was set aside finish with it."""
_WORTH_IT = 2**20
"""Free bytes below which a file is not shrunk: later rows will use them."""
_MOST_TO_REWRITE = 2**25
"""The largest file, in bytes, that is rewritten at once: other writers wait for that."""
# The queries are correct: if SQLite reports an error in one (no such column), the tables are wrong.
BROKEN = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)


class Database:
    """A file of version n was made by the first n of the ``steps``, each a script of SQL.

    A semicolon in a step may only end a statement. All missing steps run in one transaction.

    ``what`` and ``writer`` are words for errors: what the file is, and which program writes it. Raises ``StateError``
    if the file cannot be read or written, and ``corrupt`` if its content is invalid. With ``shrinks``, ``shrink`` can
    make a new file smaller after rows were deleted. A file that root makes gets the owner of ``beside``, or of the
    directory.

    It uses SQLite's rollback journal, not WAL, in which readers have to write files too. In both modes a reader can
    block writers for ever. So only the owner and root may read the file, unless it is only ever replaced (``shown``).
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
        """Create the file if it is missing, complete from the start: so an empty file is a corrupt one."""
        with self.plainly():
            if files.exists(self.path):
                return
            with self._fresh(fill, None) as fresh, suppress(FileExistsError):
                os.link(fresh, self.path)  # fails if another process was faster
            files.sync_directory(self.path.parent)

    def set_aside(self, fill: Fill | None = None) -> Path:
        """Replace a corrupt file by a new one; returns the new name of the corrupt one.

        The caller must hold a lock: no other process may do the same now.
        """
        with self.plainly():
            aside = files.name_aside(self.path)
            with self._fresh(fill, aside) as fresh, closing(sqlite3.connect(fresh, isolation_level=None)) as gate:
                # No process may write the new file until those that opened the old one have finished: by its name
                # they would take the new file's journal for the old one's, roll it back, and remove it.
                gate.execute("BEGIN EXCLUSIVE")
                os.link(self.path, aside)  # fails if there is one, and does not replace it
                # Else SQLite would roll the old file's journal back into the new file.
                with suppress(FileNotFoundError):
                    _journal(self.path).rename(_journal(aside))
                fresh.replace(self.path)
                files.sync_directory(self.path.parent)
                time.sleep(_SETTLE)
        return aside

    def replace(self, fill: Fill) -> None:
        """Replace the file, if there is one, by a new one: processes that read the old one continue to."""
        with self.plainly(), self._fresh(fill, None) as fresh:
            fresh.replace(self.path)
            files.sync_directory(self.path.parent)

    def close_to_others(self) -> None:
        """Correct the mode of a file from an earlier release, which others could read."""
        with suppress(OSError):  # a file of another user, whose process does it
            mode = self.path.lstat().st_mode
            if stat.S_ISREG(mode) and stat.S_IMODE(mode) & ~self._mode:  # never what a link leads to
                self.path.chmod(self._mode)

    @contextmanager
    def _fresh(self, fill: Fill | None, instead_of: Path | None) -> Iterator[Path]:
        """A new file under a name of its own, which is gone afterwards."""
        descriptor, name = tempfile.mkstemp(dir=self.path.parent, prefix=f".{self.path.name}.")
        try:
            beside = self._beside
            files.give_to_owner(
                descriptor, beside if beside is not None and files.exists(beside) else self.path.parent
            )
            os.close(descriptor)
            with closing(sqlite3.connect(name, isolation_level=None)) as database:
                if self._shrinks:
                    database.execute("PRAGMA auto_vacuum = INCREMENTAL")  # no effect after the first table
                database.execute("BEGIN")
                self._migrate(database)
                if fill is not None:
                    fill(database, instead_of)
                database.execute("COMMIT")
            Path(name).chmod(self._mode)  # it is complete, so others may open it
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
        """Shrink, if that is worth a transaction. A small file that was made without ``shrinks`` is rewritten once,
        with it, which takes a second at most."""
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
        """Give up to so many free pages of a file that ``shrinks`` back; returns how many are left."""
        with self.plainly(), closing(self._connect("rw")) as database:
            _synchronise(database)
            # Each step frees a page and gives no row: ``execute`` would run the first step only.
            database.executescript(f"PRAGMA incremental_vacuum({pages})")
            return int(database.execute("PRAGMA freelist_count").fetchone()[0])

    # --- reading

    def is_there(self) -> bool:
        with self.plainly():
            return files.exists(self.path)

    def identity(self) -> Identity | None:
        """Differs from that of a file that replaces this one; None if there is no file."""
        with self.plainly(), suppress(FileNotFoundError):
            status = self.path.stat()
            return status.st_dev, status.st_ino
        return None

    @contextmanager
    def look(self) -> Iterator[sqlite3.Connection | None]:
        """The file, opened for reading; None if there is none."""
        with self.plainly():
            if not files.exists(self.path):
                yield None
                return
            if not os.access(self.path, os.R_OK, effective_ids=True):
                raise StateError(f"{self.path}: only its owner and root may read it")
            with closing(self._connect("ro")) as database:
                try:
                    yield database
                except decoding.UNREADABLE as error:
                    raise self._corrupt(f"{self.path}: {decoding.complaint(error)}") from error

    def _connect(self, mode: str) -> sqlite3.Connection:
        database = sqlite3.connect(uri_of(self.path, mode), uri=True, timeout=self._patience, isolation_level=None)
        try:
            database.row_factory = sqlite3.Row
            database.text_factory = decoded
            self._check(database)
        except sqlite3.OperationalError as error:
            database.close()
            if mode == "ro" and error.sqlite_errorcode == sqlite3.SQLITE_READONLY_ROLLBACK:
                # A writer was killed. Opened for writing, SQLite rolls its transaction back.
                return self._connect("rw")
            raise
        except BaseException:
            database.close()
            raise
        return database

    def _check(self, database: sqlite3.Connection) -> None:
        version, newest = version_of(database), len(self._steps)
        if version > newest:
            raise StateError(
                f"{self.path}: written by a newer plimsoll (version {version}, known up to {newest});"
                " install that one again, or move the file away"
            )
        if version < 1:
            (tables,) = database.execute("SELECT count(*) FROM sqlite_master").fetchone()
            raise self._corrupt(f"{self.path}: is {f'not a {self._what} of plimsoll' if tables else 'empty'}")

    @contextmanager
    def plainly(self) -> Iterator[None]:
        """Errors of SQLite and of the system become ``StateError``, which names the file."""
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", None)
            if code == sqlite3.SQLITE_BUSY:  # a pass writes several times: it waits once only
                self._patience = 0.0
            if code is not None and code & 0xFF in BROKEN:
                raise self._corrupt(f"{self.path}: {error}") from error
            if code == sqlite3.SQLITE_READONLY_ROLLBACK:
                raise StateError(
                    f"{self.path}: a {self._writer} was killed while it wrote; root can read the file, and the next"
                    f" {self._writer} repairs it"
                ) from error
            raise StateError(f"{self.path}: {error}") from error
        except OSError as error:
            raise StateError(f"{self.path}: {files.reason(error)}") from error
        except ValueError as error:  # text that cannot be stored
            raise StateError(f"{self.path}: {error}") from error


def uri_of(path: Path, mode: str) -> str:
    """For SQLite; ``mode`` is ro or rw."""
    # Not Path.as_uri, which from Python 3.14 on imports an HTTP client and TLS.
    return f"file://{quote(os.fsencode(path.absolute()))}?mode={mode}"


def version_of(database: sqlite3.Connection) -> int:
    return int(database.execute("PRAGMA user_version").fetchone()[0])


def _synchronise(database: sqlite3.Connection) -> None:
    # 3 = EXTRA: with FULL the journal may reappear after a power failure, and undo the transaction.
    database.execute("PRAGMA synchronous = 3")


def _journal(path: Path) -> Path:
    return path.with_name(f"{path.name}-journal")


def decoded(text: bytes) -> str | bytes:
    """A name that is not valid text must not hide the other rows of its page."""
    try:
        return text.decode()
    except UnicodeDecodeError:
        return text


# --- values in rows


def stamp(time: datetime) -> str:
    """Always in UTC, so that times compare as text."""
    return time.astimezone(UTC).isoformat()


def time_of(value: object) -> datetime:
    time = datetime.fromisoformat(decoding.text(value))
    if time.utcoffset() != timedelta(0):
        raise ValueError(f"{value!r} is not a time in UTC")
    return time
