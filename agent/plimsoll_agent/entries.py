"""What stands in the record: changes, and what operators did, as values; and how a row becomes one."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from plimsoll_agent.database import text_of, text_or_none, time_of
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
    """A row of changes; ``result`` is None while it is under way, ``edition`` where no rules are known.

    The same change that failed again in the same way is counted: ``at`` is the first attempt's time, ``last_at`` the
    last one's, and ``result_at`` the time of the last result.
    """

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
    times: int = 1
    last_at: datetime | None = None
    """None while there was one attempt only."""
    retried_at: datetime | None = None
    """When the attempt began that may be under way; ``result`` is that of the attempts before."""
    retried_result: Verdict | None = None
    """``UNANSWERED``, or None while it is under way."""

    @property
    def open(self) -> bool:
        return self.result in (None, Verdict.UNANSWERED) or self.retried_at is not None

    @property
    def attempts(self) -> tuple[RecordedChange, ...]:
        """What is known, and what is open: apart, where the change is being tried again."""
        if self.retried_at is None:
            return (self,)
        known = replace(self, retried_at=None, retried_result=None)
        return known, replace(
            known,
            at=self.retried_at,
            result=self.retried_result,
            result_at=None,
            detail=None,
            times=1,
            last_at=None,
        )


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


def change_of(row: sqlite3.Row) -> RecordedChange:
    result = text_or_none(row["result"])
    result_at = None if row["result_at"] is None else time_of(row["result_at"])
    if (result is None) != (result_at is None):
        raise ValueError("has a result without its time, or a time without its result")
    disk = _disk(row)
    if disk is None:
        raise ValueError("names no disk")
    values = dict(row)
    times = values.get("times", 1)
    if type(times) is not int or times < 1:
        raise ValueError(f"{times!r} is no number of attempts")
    retried = text_or_none(values.get("retried_result"))
    return RecordedChange(
        id=row["id"],
        at=time_of(row["intended_at"]),
        by=text_of(row["by"]),
        disk=disk,
        attachment=text_of(row["attachment"]),
        before=_limits(row["before"]),
        after=_limits(row["after"]),
        direction=Direction(row["direction"]),
        reason=_reason(row["reason"]),
        cause=Code(row["cause"]),
        edition=text_or_none(values.get("edition")),
        result=None if result is None else Verdict(result),
        result_at=result_at,
        detail=text_or_none(row["detail"]),
        times=times,
        last_at=_time_or_none(values.get("last_at")),
        retried_at=_time_or_none(values.get("retried_at")),
        retried_result=None if retried is None else Verdict(retried),
    )


def event_of(row: sqlite3.Row) -> RecordedEvent:
    return RecordedEvent(
        id=row["id"],
        at=time_of(row["at"]),
        by=text_of(row["by"]),
        what=Happening(row["what"]),
        disk=_disk(row),
        reason=None if row["reason"] is None else _reason(row["reason"]),
    )


def _disk(row: sqlite3.Row) -> DiskName | None:
    values = dict(row)
    return None if values["disk"] is None else DiskName.read({**values, "key": values["disk"]})


def _time_or_none(value: object) -> datetime | None:
    return None if value is None else time_of(value)


def _limits(value: Any) -> Limits:
    limits = json.loads(value)
    if not isinstance(limits, dict):
        raise ValueError(f"{value!r} are no limits")
    return Limits.from_mapping(limits)


def _reason(value: Any) -> Reason:
    return Reason.from_record(json.loads(value))
