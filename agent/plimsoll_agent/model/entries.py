"""Entries of the record as values: changes, and events by operators."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from plimsoll_agent.model.direction import Direction
from plimsoll_agent.model.disk import DiskName
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.model.reason import Code, Reason
from plimsoll_agent.util.decoding import Moment
from plimsoll_agent.util.frozen import frozen, replace


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
    CONGESTION = "congestion"
    """Limits were reduced under congestion, or restored: those of several disks of a device class."""
    CEILING = "ceiling"
    """The same, by ceilings that disks share."""


@frozen(kw_only=True)
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


@frozen(kw_only=True)
class RecordedChange:
    """A row of changes; ``result`` is None while it is under way.

    ``revision`` is that of rules and catalogue, ``rules`` the digest of the rules alone; each is None if unknown.

    A change that failed again in the same way is counted: ``at`` is the time of the first attempt, ``last_at`` of the
    last one, and ``result_at`` of the last result.
    """

    id: int
    at: Moment
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
    result_at: Moment | None
    detail: str | None
    rules: str | None = None
    times: Annotated[int, Meta(ge=1)] = 1
    last_at: Moment | None = None
    """None after one attempt."""
    retried_at: Moment | None = None
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
        first = replace(self, retried_at=None, retried_result=None)
        return first, replace(
            first,
            at=self.retried_at,
            result=self.retried_result,
            result_at=None,
            detail=None,
            times=1,
            last_at=None,
        )


@frozen(kw_only=True)
class RecordedEvent:
    id: int
    at: Moment
    by: str
    what: Happening
    disk: DiskName | None
    reason: Reason | None


Entry = RecordedChange | RecordedEvent
