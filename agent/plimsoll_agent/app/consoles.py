"""Reads what is new in the console logs of a node's guests, after a pass; an error here is no error of the pass."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from functools import partial

from plimsoll_agent.adapters import console_log
from plimsoll_agent.adapters.console_log import NewText
from plimsoll_agent.adapters.deadline import Deadlines, SharedCalls, StillHangs
from plimsoll_agent.consoles import file
from plimsoll_agent.consoles.model import TIMED_OUT, ConsoleReading, Consoles, GuestConsole
from plimsoll_agent.consoles.patterns import StallKind, count
from plimsoll_agent.consoles.position import MOST_BYTES, ConsolePosition
from plimsoll_agent.errors import DeadlineExceeded
from plimsoll_agent.reconcile.outcome import PassReport
from plimsoll_agent.store.state import State, StateError
from plimsoll_agent.util.frozen import frozen, replace

LOG = logging.getLogger(__name__)

SECONDS = 5.0
"""For all logs together: they may be on a file system that hangs."""
MOST_OF_ALL = 16 * 2**20
"""Bytes of all guests in a pass; the others have their turn first in the next one."""

MOST_HANGING = 4
"""Logs of so many guests, where reading hangs: then none is read until one of these calls returns."""
_CALLS = SharedCalls(MOST_HANGING)
"""Of this process: a daemon would have another thread that hangs after each pass."""

Read = Callable[[str, ConsolePosition | None, int], NewText]


@frozen
class _Turn:
    """A guest whose logs are to be read."""

    uuid: str
    paths: tuple[str, ...]
    console: GuestConsole


def read_consoles(
    state: State,
    report: PassReport,
    now: datetime,
    *,
    read: Read = console_log.read,
    seconds: float = SECONDS,
    most: int = MOST_OF_ALL,
) -> Consoles:
    """What all consoles have told so far, which is also stored; the caller must hold the node's lock.

    Raises ``StateError`` if it cannot be stored.
    """
    try:
        before = file.load(state) or Consoles(now)
    except StateError as error:
        LOG.warning("%s; starting a new one", error)
        before = Consoles(now)
    turns = sorted(_turns(before, report), key=lambda turn: (turn.console.tried, turn.uuid))
    guests: dict[str, GuestConsole] = {turn.uuid: turn.console for turn in turns}
    skipped_bytes, budget, end = before.skipped, most, time.monotonic() + seconds
    with closing(Deadlines(seconds, 1, _CALLS)) as deadlines:
        for turn in turns:
            rest = end - time.monotonic()
            if budget <= 0 or rest <= 0:
                break
            one = partial(_read, turn, now, read, min(MOST_BYTES, budget))
            try:
                reading, size = deadlines.call("the console logs", one, turn.uuid, rest)
            except DeadlineExceeded as error:
                guests[turn.uuid] = replace(turn.console, tried=now, trouble=TIMED_OUT)
                if isinstance(error, StillHangs):
                    continue
                break
            guests[turn.uuid] = turn.console.after(reading, now)
            skipped_bytes += reading.skipped
            budget -= size
    consoles = Consoles(now, guests, skipped_bytes)
    file.save(state, consoles)
    return consoles


def _turns(before: Consoles, report: PassReport) -> Iterator[_Turn]:
    """Guests with an RBD disk that the pass found, and those it knows from before that are unreachable now."""
    never = datetime.min.replace(tzinfo=UTC)
    guests = {outcome.disk.guest.uuid: outcome.disk.guest for outcome in report.outcomes}
    for uuid, guest in guests.items():
        console = before.guests.get(uuid) or GuestConsole(name="", server=None, project=None, tried=never)
        console = replace(console, name=guest.name, server=guest.display_name, project=guest.project)
        yield _Turn(uuid, guest.consoles, console)
    for each in report.unreachable:
        former = before.guests.get(each.guest.uuid)
        if former is not None and each.guest.uuid not in guests:
            yield _Turn(each.guest.uuid, tuple(former.files), former)


def _read(turn: _Turn, now: datetime, read: Read, most: int) -> tuple[ConsoleReading, int]:
    """What is new in its logs, and how many bytes that were."""
    lines: dict[StallKind, int] = {}
    files: dict[str, ConsolePosition] = {}
    at, size, skipped_bytes, trouble = now, 0, 0, None
    for path in turn.paths:
        last = turn.console.files.get(path)
        try:
            new = read(path, last, most - size)
        except (OSError, ValueError, OverflowError) as error:  # ValueError: a path or a time that Python refuses
            trouble = getattr(error, "strerror", None) or "unreadable"
            if last is not None:
                files[path] = last
            continue
        files[path] = new.position
        size += len(new.text)
        skipped_bytes += new.skipped
        for kind, number in count(new.text).items():
            lines[kind] = lines.get(kind, 0) + number
            at = new.written if turn.console.tried <= new.written <= now else now
    return ConsoleReading(at=at, lines=lines, files=files, skipped=skipped_bytes, trouble=trouble), size
