"""What was found in the consoles of a node's guests: values, and how a reading changes them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from datetime import datetime
from enum import StrEnum

from plimsoll_agent.consoles.patterns import StallKind
from plimsoll_agent.consoles.position import ConsolePosition
from plimsoll_agent.util.decoding import Count, Moment
from plimsoll_agent.util.frozen import frozen, replace

TIMED_OUT = "timed out"


class ConsoleState(StrEnum):
    """Whether it is known what a guest's console says."""

    READ = "read"
    UNREADABLE = "unreadable"
    NONE = "none"
    """Its definition has no console that is logged to a file."""


@frozen
class Stalls:
    """Lines of one kind: how many since plimsoll reads this guest's console, and when the last was found."""

    lines: Count
    last: Moment


@frozen(kw_only=True)
class ConsoleReading:
    """What one pass read of a guest."""

    at: datetime
    """The log's mtime, or the time of the reading: never a time that the guest wrote."""
    lines: Mapping[StallKind, int]
    files: Mapping[str, ConsolePosition]
    skipped: int
    """Bytes that were more than a pass reads."""
    trouble: str | None = None
    """Why a log cannot be read."""


@frozen(kw_only=True)
class GuestConsole:
    """A guest; ``files`` is by path, how far each of its logs was read."""

    name: str
    server: str | None
    """Its name in Nova."""
    project: str | None
    tried: Moment
    stalls: Mapping[StallKind, Stalls] = field(default_factory=dict)
    files: Mapping[str, ConsolePosition] = field(default_factory=dict)
    trouble: str | None = None

    @property
    def state(self) -> ConsoleState:
        if self.trouble is not None:
            return ConsoleState.UNREADABLE
        return ConsoleState.READ if self.files else ConsoleState.NONE

    @property
    def last(self) -> datetime | None:
        """When it stalled last, by a line of any kind."""
        return max((each.last for each in self.stalls.values()), default=None)

    def after(self, reading: ConsoleReading, now: datetime) -> GuestConsole:
        """With what was read at ``now``."""
        stalls = dict(self.stalls)
        for kind, lines in reading.lines.items():
            before = stalls.get(kind)
            stalls[kind] = Stalls(lines + (0 if before is None else before.lines), reading.at)
        return replace(self, tried=now, stalls=stalls, files=reading.files, trouble=reading.trouble)


@frozen
class Consoles:
    """The guests by uuid, as of ``read``."""

    read: Moment
    guests: Mapping[str, GuestConsole] = field(default_factory=dict)
    skipped: Count = 0
    """Bytes so far that were more than a pass reads, those of guests that are gone included."""

    def in_state(self, state: ConsoleState) -> tuple[GuestConsole, ...]:
        return tuple(guest for guest in self.guests.values() if guest.state is state)

    @property
    def stalled(self) -> Iterator[tuple[str, GuestConsole]]:
        """Guests with a line, the newest first."""
        rows = ((guest.last, uuid, guest) for uuid, guest in self.guests.items() if guest.last is not None)
        yield from ((uuid, guest) for _, uuid, guest in sorted(rows, key=lambda each: each[:2], reverse=True))

    @property
    def projects(self) -> dict[str, datetime]:
        """When a guest of each project stalled last."""
        last: dict[str, datetime] = {}
        for _, guest in self.stalled:
            if guest.project is not None and guest.last is not None:
                last.setdefault(guest.project, guest.last)
        return last
