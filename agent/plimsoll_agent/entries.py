"""What stands in the record: changes, and what operators did, as values; and how a row becomes one."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from plimsoll_agent.direction import Direction
from plimsoll_agent.disk import DiskName
from plimsoll_agent.limits import Limits
from plimsoll_agent.reason import Code, Reason


class Verdict(StrEnum):
    """How a change ended. An intent without one was under way when plimsoll was killed."""

    DONE = "done"
    REFUSED = "refused"
    UNANSWERED = "unanswered"
    NOT_SENT = "not-sent"
    TOOK = "took"
    DID_NOT_TAKE = "did-not-take"
    GONE = "gone"


class Happening(StrEnum):
    """What bears on limits and is no change of one."""

    HOLD_ADDED = "hold-added"
    HOLD_ENDED = "hold-ended"
    APPROVED = "approved"
    PAUSED = "paused"
    RESUMED = "resumed"
    RECORD_STARTED = "record-started"


@dataclass(frozen=True, slots=True)
class Event:
    """Something that an operator did; about the node where ``disk`` is None."""

    at: datetime
    by: str
    what: Happening
    reason: Reason | None
    disk: DiskName | None = None


@dataclass(frozen=True, slots=True)
class Conclusion:
    """How the change of an id ended; ``detail`` is what libvirt or QEMU said, where it said something."""

    id: int
    verdict: Verdict
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class RecordedChange:
    """A row of changes; ``result`` is None while it is under way, ``edition`` where no rules are known."""

    id: int
    at: datetime
    by: str
    disk: DiskName
    attachment: str
    before: Limits
    after: Limits
    direction: Direction
    reason: Reason
    cause: Code
    edition: str | None
    result: Verdict | None
    result_at: datetime | None
    detail: str | None

    @property
    def open(self) -> bool:
        return self.result in (None, Verdict.UNANSWERED)


@dataclass(frozen=True, slots=True)
class RecordedEvent:
    """A row of events."""

    id: int
    at: datetime
    by: str
    what: Happening
    disk: DiskName | None
    reason: Reason | None


Entry = RecordedChange | RecordedEvent


# --- rows into values

NONSENSE = (ValueError, TypeError, IndexError, RecursionError)
"""What rows raise that plimsoll did not write."""


def stamp(time: datetime) -> str:
    """In UTC always, so that times compare as text."""
    return time.astimezone(UTC).isoformat()


def change_of(row: sqlite3.Row) -> RecordedChange:
    result = _maybe(row["result"])
    result_at = None if row["result_at"] is None else _time(row["result_at"])
    if (result is None) != (result_at is None):
        raise ValueError("has a result without its time, or a time without its result")
    disk = _disk(row)
    if disk is None:
        raise ValueError("names no disk")
    return RecordedChange(
        id=row["id"],
        at=_time(row["intended_at"]),
        by=_known(row["by"]),
        disk=disk,
        attachment=_known(row["attachment"]),
        before=_limits(row["before"]),
        after=_limits(row["after"]),
        direction=Direction(row["direction"]),
        reason=_reason(row["reason"]),
        cause=Code(row["cause"]),
        edition=_maybe(row["edition"]) if "edition" in row.keys() else None,  # noqa: SIM118 - no mapping
        result=None if result is None else Verdict(result),
        result_at=result_at,
        detail=_maybe(row["detail"]),
    )


def event_of(row: sqlite3.Row) -> RecordedEvent:
    return RecordedEvent(
        id=row["id"],
        at=_time(row["at"]),
        by=_known(row["by"]),
        what=Happening(row["what"]),
        disk=_disk(row),
        reason=None if row["reason"] is None else _reason(row["reason"]),
    )


def _disk(row: sqlite3.Row) -> DiskName | None:
    values = dict(row)
    return None if values["disk"] is None else DiskName.read({**values, "key": values["disk"]})


def decoded(text: bytes) -> str | bytes:
    """One name that is no text must not hide the other rows of its page."""
    try:
        return text.decode()
    except UnicodeDecodeError:
        return text


def _known(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no text")
    return value


def _maybe(value: object) -> str | None:
    return None if value is None else _known(value)


def _limits(value: Any) -> Limits:
    limits = json.loads(value)
    if not isinstance(limits, dict):
        raise ValueError(f"{value!r} are no limits")
    return Limits.from_mapping(limits)


def _reason(value: Any) -> Reason:
    return Reason.from_record(json.loads(value))


def _time(value: object) -> datetime:
    time = datetime.fromisoformat(_known(value))
    if time.utcoffset() != timedelta(0):
        raise ValueError(f"{value!r} is no time in UTC")
    return time
