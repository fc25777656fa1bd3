"""How a row of the record becomes an entry."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

from plimsoll_agent.model.direction import Direction
from plimsoll_agent.model.disk import DiskName
from plimsoll_agent.model.entries import Ending, Happening, RecordedChange, RecordedEvent
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, Reason
from plimsoll_agent.store.database import time_of
from plimsoll_agent.util.decoding import count, maybe, text, value_of


def change_of(row: sqlite3.Row) -> RecordedChange:
    result = maybe(Ending, row["result"])
    result_at = maybe(time_of, row["result_at"])
    if (result is None) != (result_at is None):
        raise ValueError("has a result without its time, or a time without its result")
    disk = _disk(row)
    if disk is None:
        raise ValueError("has no disk")
    values = dict(row)
    times = count(values.get("times", 1))
    if times < 1:
        raise ValueError(f"{times!r} attempts are not possible")
    return RecordedChange(
        id=row["id"],
        at=time_of(row["intended_at"]),
        by=text(row["by"]),
        disk=disk,
        attachment=text(row["attachment"]),
        before=_limits(row["before"]),
        after=_limits(row["after"]),
        direction=Direction(row["direction"]),
        reason=_reason(row["reason"]),
        cause=Code(row["cause"]),
        revision=maybe(text, values.get("revision", values.get("edition"))),
        rules=maybe(text, values.get("rules")),
        result=result,
        result_at=result_at,
        detail=maybe(text, row["detail"]),
        times=times,
        last_at=maybe(time_of, values.get("last_at")),
        retried_at=maybe(time_of, values.get("retried_at")),
        retried_result=maybe(Ending, values.get("retried_result")),
    )


def event_of(row: sqlite3.Row) -> RecordedEvent:
    return RecordedEvent(
        id=row["id"],
        at=time_of(row["at"]),
        by=text(row["by"]),
        what=Happening(row["what"]),
        disk=_disk(row),
        reason=maybe(_reason, row["reason"]),
    )


def _disk(row: sqlite3.Row) -> DiskName | None:
    values = dict(row)
    return None if values["disk"] is None else value_of(DiskName, {**values, "key": values["disk"]})


def _limits(value: Any) -> Limits:
    return Limits.from_mapping(json.loads(value))


def _reason(value: Any) -> Reason:
    return Reason.from_record(json.loads(value))
