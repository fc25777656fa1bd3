"""The record and the history of probes: a database file, or rows of one as JSON, ``{table: {column: value}}``."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

from plimsoll_agent.model.entries import RecordedChange
from plimsoll_agent.store import record_query
from plimsoll_agent.store.record import Record
from plimsoll_agent.store.record_query import Selection
from plimsoll_agent.store.state import StateError
from plimsoll_probes.store.history import History
from tests.fuzz import scratch
from tests.fuzz.refusals import assert_clear
from tests.fuzz.targets.memory import assert_same
from tests.unit.values import OF_0_1_0

_FILES = ("record.sqlite", "probes.sqlite")


@cache
def _template(name: str) -> bytes:
    return (OF_0_1_0 / name).read_bytes()


def _filled(name: str, tables: dict[str, Any]) -> Path | None:
    """A database of 0.1.0 with these values in each of its rows; None where SQLite refuses them."""
    path = scratch.file(name, _template(name))
    try:
        with closing(sqlite3.connect(path)) as database, database:
            database.execute("PRAGMA synchronous = OFF")
            database.execute("PRAGMA journal_mode = MEMORY")
            known = {table for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            for table in known & tables.keys():
                columns = {row[1] for row in database.execute(f"PRAGMA table_info({table})")}
                for column in columns & tables[table].keys():
                    database.execute(f"UPDATE {table} SET {column} = ?", (tables[table][column],))
    except (sqlite3.Error, AttributeError, TypeError, ValueError, OverflowError):
        return None
    return path


def _read_record(record: Record) -> None:
    changes: list[RecordedChange] = []
    for read in (record.unsettled, record.taken, lambda: record_query.last_of_each(record).values()):
        try:
            changes += read()
        except StateError as error:
            assert_clear(error, str(record.path))
    for query in (
        lambda: list(record_query.entries(record, Selection())),
        lambda: record_query.verify(record),
        lambda: record_query.begun(record),
        lambda: record_query.last_pass(record),
    ):
        try:
            query()
        except StateError as error:
            assert_clear(error, str(record.path))
    with closing(sqlite3.connect(record.path)) as database:
        for change in changes:
            (row,) = database.execute("SELECT before, after FROM change WHERE id = ?", (change.id,)).fetchall()
            for limits, written in zip((change.before, change.after), row, strict=True):
                assert_same(limits, json.loads(written))


def _read_history(history: History) -> None:
    for read in (
        history.latest,
        history.postponed,
        history.chosen_targets,
        history.tallies,
        history.last_good,
        lambda: history.get(1),
    ):
        try:
            read()
        except StateError as error:
            assert_clear(error)


def target(data: bytes) -> None:
    paths: list[Path | None]
    if data.startswith(b"SQLite format 3\0"):
        paths = [scratch.file(name, data) for name in _FILES]
    else:
        try:
            tables = json.loads(data)
        except (ValueError, RecursionError):
            return
        if not isinstance(tables, dict):
            return
        paths = [_filled(name, tables) for name in _FILES]
    record, history = paths
    if record is not None:
        _read_record(Record(record))
    if history is not None:
        _read_history(History(history))
