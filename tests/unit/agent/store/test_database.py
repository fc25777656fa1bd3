"""The plumbing below the record and the history, with tables of its own: steps, first rows, and a smaller file."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from plimsoll_agent.store.database import Database, version_of
from plimsoll_agent.store.state import CorruptState, StateError
from tests.unit.sql import asked, do

STEPS = (
    "CREATE TABLE bird (name TEXT NOT NULL);",
    "ALTER TABLE bird ADD COLUMN wings INTEGER; CREATE TABLE egg (of TEXT);",
    "CREATE INDEX bird_name ON bird (name);",
)


class CorruptBirds(CorruptState):
    pass


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "birds.sqlite"


def birds(path: Path, steps: tuple[str, ...] = STEPS, *, shrinks: bool = False) -> Database:
    return Database(path, steps, what="list of birds", writer="watcher", corrupt=CorruptBirds, shrinks=shrinks)


def add(database: Database, *names: str) -> None:
    database.begin()
    with database.write() as connection:
        connection.executemany("INSERT INTO bird (name) VALUES (?)", [(name,) for name in names])


def inside(path: Path) -> tuple[int, list[object], list[object]]:
    """Version, tables and birds, as another program sees them."""
    with closing(sqlite3.connect(path)) as connection:
        tables = connection.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall()
        return version_of(connection), tables, connection.execute("SELECT name FROM bird").fetchall()


@pytest.mark.parametrize("known", [1, 2])
def test_a_file_of_any_version_becomes_what_a_new_one_is_and_keeps_its_rows(path: Path, known: int) -> None:
    add(birds(path, STEPS[:known]), "owl")
    add(birds(path), "auk")
    fresh = path.with_name("fresh.sqlite")
    add(birds(fresh), "owl", "auk")
    assert inside(path) == inside(fresh)
    assert inside(path)[0] == 3


def test_a_step_that_fails_leaves_the_file_as_it_was_also_where_those_before_it_did_not(path: Path) -> None:
    add(birds(path, STEPS[:1]), "owl")
    before = path.read_bytes()
    with pytest.raises(StateError, match="no such table"):
        add(birds(path, (*STEPS[:2], "CREATE INDEX no ON nest (name);")), "auk")
    assert path.read_bytes() == before


def test_looking_at_an_old_file_does_not_touch_it(path: Path) -> None:
    add(birds(path, STEPS[:1]), "owl")
    before = path.read_bytes()
    with birds(path).look() as connection:
        assert connection is not None
        assert version_of(connection) == 1
    assert path.read_bytes() == before


def test_first_rows_are_in_the_file_when_it_is_there_and_know_whose_place_it_took(path: Path) -> None:
    told: list[Path | None] = []

    def fill(connection: sqlite3.Connection, instead_of: Path | None) -> None:
        told.append(instead_of)
        connection.execute("INSERT INTO bird (name) VALUES ('phoenix')")

    database = birds(path)
    database.begin(fill)
    database.begin(fill)  # there is one
    assert inside(path)[2] == [("phoenix",)]
    path.write_bytes(b"ashes")
    assert database.set_aside(fill).read_bytes() == b"ashes"
    assert inside(path)[2] == [("phoenix",)]
    assert told == [None, path.with_name("birds.sqlite.corrupt")]


def test_no_process_writes_the_new_file_while_others_may_still_have_the_old_one_open(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would take the journal for that of the old file, by its name, and remove it in mid-transaction."""
    refused: list[str] = []

    def meanwhile(seconds: float) -> None:
        with closing(sqlite3.connect(path, timeout=0)) as other:
            with pytest.raises(sqlite3.OperationalError) as error:
                other.execute("INSERT INTO bird (name) VALUES ('cuckoo')")
            refused.append(f"{error.value} for {seconds} s")

    monkeypatch.setattr("plimsoll_agent.store.database.time.sleep", meanwhile)
    path.write_bytes(b"ashes")
    birds(path).set_aside()
    assert refused == ["database is locked for 0.2 s"]
    add(birds(path), "owl")
    assert inside(path)[2] == [("owl",)]


@pytest.mark.parametrize("corrupt", [False, True])
def test_first_rows_that_cannot_be_written_leave_the_directory_as_it_was(path: Path, corrupt: bool) -> None:
    def fill(connection: sqlite3.Connection, instead_of: Path | None) -> None:
        connection.execute("INSERT INTO bird (name) VALUES (NULL)")

    if corrupt:
        path.write_bytes(b"ashes")
    with pytest.raises(StateError, match="NOT NULL"):
        (birds(path).set_aside if corrupt else birds(path).begin)(fill)
    assert [(file.name, file.read_bytes()) for file in path.parent.iterdir()] == (
        [(path.name, b"ashes")] if corrupt else []
    )


def test_a_file_of_another_program_is_corrupt_under_its_own_name(path: Path) -> None:
    do(path, "CREATE TABLE fish (name)")
    with pytest.raises(CorruptBirds, match=f"^{path}: is not a list of birds of plimsoll$"):
        add(birds(path), "owl")


# --- a smaller file


def free_and_size(path: Path) -> tuple[int, int]:
    ((free,),) = asked(path, "PRAGMA freelist_count")
    return free, path.stat().st_size


@pytest.fixture
def emptied(path: Path) -> Database:
    """Of a few hundred pages, all but a few free."""
    database = birds(path, shrinks=True)
    add(database, *("owl" * 1000 for _ in range(400)))
    with database.write() as connection:
        connection.execute("DELETE FROM bird")
    return database


def test_as_many_pages_are_given_back_as_are_asked_for_and_not_more(emptied: Database, path: Path) -> None:
    free, size = free_and_size(path)
    assert free > 300
    assert emptied.shrink(100) == free - 100
    assert free_and_size(path)[0] == free - 100
    assert free_and_size(path)[1] < size - 90 * 4096
    assert emptied.shrink(10**6) == 0
    assert path.stat().st_size < 20 * 4096


def test_a_file_that_was_not_made_to_shrink_stays_as_it_is(path: Path) -> None:
    database = birds(path)
    add(database, *("owl" * 1000 for _ in range(40)))
    with database.write() as connection:
        connection.execute("DELETE FROM bird")
    before = free_and_size(path)
    assert database.shrink(10) == before[0] > 0
    assert free_and_size(path) == before
