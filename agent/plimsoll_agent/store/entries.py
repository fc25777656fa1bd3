"""How a row of the record becomes an entry."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

from plimsoll_agent.model.disk import DiskName
from plimsoll_agent.model.entries import RecordedChange, RecordedEvent
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Reason
from plimsoll_agent.util.decoding import maybe, value_of


def change_of(row: sqlite3.Row) -> RecordedChange:
    values = dict(row)
    if (values["result"] is None) != (values["result_at"] is None):
        raise ValueError("has a result without its time, or a time without its result")
    values |= {
        "at": values["intended_at"],
        "disk": _disk(row),
        "before": _limits(row["before"]),
        "after": _limits(row["after"]),
        "reason": _reason(row["reason"]),
        "revision": values.get("revision", values.get("edition")),
    }
    return value_of(RecordedChange, values, "rules", "times", "last_at", "retried_at", "retried_result")


def event_of(row: sqlite3.Row) -> RecordedEvent:
    return value_of(RecordedEvent, {**dict(row), "disk": _disk(row), "reason": maybe(_reason, row["reason"])})


def _disk(row: sqlite3.Row) -> DiskName | None:
    values = dict(row)
    return None if values["disk"] is None else value_of(DiskName, {**values, "key": values["disk"]})


def _limits(value: Any) -> Limits:
    return Limits.from_mapping(json.loads(value))


def _reason(value: Any) -> Reason:
    return Reason.from_record(json.loads(value))
