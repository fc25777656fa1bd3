"""Entries of the record as values: changes, and events by operators; and how a row becomes one."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from plimsoll_agent.model.direction import Direction
from plimsoll_agent.model.disk import DiskName
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, Reason
from plimsoll_agent.store.database import time_of
from plimsoll_agent.util.decoding import count, maybe, text
from plimsoll_agent.util.frozen import frozen


class Ending(StrEnum):
    """How a change ended. An intent without one was under way when plimsoll was killed."""

    DONE = "done"
    REFUSED = "refused"
    TIMED_OUT = "timed-out"
    NOT_SENT = "not-sent"
    TOOK = "took"
    DID_NOT_TAKE = "did-not-take"
    GONE = "gone"

    @classmethod
    def _missing_(cls, value: object) -> Ending | None:
        """The name in records of 0.1.0."""
        return cls.TIMED_OUT if value == "unanswered" else None


TAKEN = (Ending.DONE, Ending.TOOK)
"""Endings of changes that took effect."""


class Happening(StrEnum):
    """What concerns limits and does not change one."""

    HOLD_ADDED = "hold-added"
    HOLD_ENDED = "hold-ended"
    ACKNOWLEDGED = "unknown-acknowledged"
    ACKNOWLEDGEMENT_ENDED = "acknowledgement-ended"
    APPROVED = "approved"
    PAUSED = "paused"
    RESUMED = "resumed"
    RECORD_STARTED = "record-started"
    CHANGED_EXTERNALLY = "changed-externally"
    """Something else changed a disk whose desired limits are unknown, so nothing is reverted."""


@frozen
class Event:
    """Something that happened, to the node if ``disk`` is None; ``by`` is who found or did it."""

    at: datetime
    by: str
    what: Happening
    reason: Reason | None
    disk: DiskName | None = None


@frozen
class Conclusion:
    """How the change with this id ended; ``detail`` is the error of libvirt or QEMU, if any."""

    id: int
    result: Ending
    detail: str | None = None


@frozen
class RecordedChange:
    """A row of changes; ``result`` is None while it is under way, ``revision`` None if unknown.

    A change that failed again in the same way is counted: ``at`` is the time of the first attempt, ``last_at`` of the
    last one, and ``result_at`` of the last result.
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
    revision: str | None
    result: Ending | None
    result_at: datetime | None
    detail: str | None
    times: int = 1
    last_at: datetime | None = None
    """None after one attempt."""
    retried_at: datetime | None = None
    """When an attempt began that has no known result yet; ``result`` is that of the attempts before."""
    retried_result: Ending | None = None
    """``TIMED_OUT``, or None while it is under way."""

    @property
    def open(self) -> bool:
        return self.result in (None, Ending.TIMED_OUT) or self.retried_at is not None

    @property
    def attempts(self) -> tuple[RecordedChange, ...]:
        """The change itself, and if it is being tried again, the attempt without a known result."""
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


@frozen
class RecordedEvent:
    id: int
    at: datetime
    by: str
    what: Happening
    disk: DiskName | None
    reason: Reason | None


Entry = RecordedChange | RecordedEvent


# --- rows into values


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
    return None if values["disk"] is None else DiskName.read({**values, "key": values["disk"]})


def _limits(value: Any) -> Limits:
    return Limits.from_mapping(json.loads(value))


def _reason(value: Any) -> Reason:
    return Reason.from_record(json.loads(value))
