"""The time that a pass goes by: the node's clock, as long as what the node knows itself backs it up.

A clock far off would end holds and rules, and forget guests that are off, all at once. CLOCK_BOOTTIME is never set,
so within one run of the node it tells how much time went by. Across a restart time cannot have gone back, and a node
that was off for more than ``_OFF`` is rarer than one whose clock is wrong: there the kernel has to say that the clock
is synchronised (adjtimex(2): chrony, ntpd, timesyncd and phc2sys all tell it). Until it does, time goes on from the
last moment that was trusted. So nothing ends or is forgotten early, and what a pass writes bears no wrong time.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from plimsoll_agent import files, spans
from plimsoll_agent.catalogue import UNREADABLE, text
from plimsoll_agent.catalogue import time as time_of

VERSION = 1
MOST_BYTES = 4096
_STEP = timedelta(hours=1)
"""More than an NTP client corrects of a clock that runs, so that it is no news when one begins to."""
_OFF = timedelta(days=1)
"""For so long a node may have been off before its clock is doubted: a repair takes hours, and a hold seldom less."""
_TIME_ERROR = 5
_STA_UNSYNC = 0x40
"""uapi/linux/timex.h: the clock is not synchronised."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A time that was trusted, and what CLOCK_BOOTTIME said then, in which run of the node."""

    at: datetime
    boot: str
    uptime: float


@dataclass(frozen=True, slots=True)
class Clocks:
    """What the node's clocks say: of the wall, and seconds since the node was started, in this run of it."""

    wall: datetime
    boot: str
    uptime: float
    synchronised: Callable[[], bool]
    """Whether the kernel says so of the first; asked only where it matters."""


@dataclass(frozen=True, slots=True)
class Now:
    """The time to go by; ``doubt`` says why it is not that of the wall clock."""

    at: datetime
    doubt: str | None
    trusted: Moment
    """To be kept for the next time."""


def reckon(last: Moment | None, clocks: Clocks) -> Now:
    """The time now; ``last`` is what was trusted before, None where nothing is known of that."""
    fresh = Moment(clocks.wall, clocks.boot, clocks.uptime)
    if last is None:
        return Now(clocks.wall, None, fresh)
    same_run = clocks.boot == last.boot and clocks.uptime >= last.uptime
    at = last.at + timedelta(seconds=clocks.uptime - last.uptime) if same_run else last.at
    off = clocks.wall - at
    if -_STEP <= off <= (_STEP if same_run else _OFF) or clocks.synchronised():
        return Now(clocks.wall, None, fresh)
    way = "ahead of" if off > timedelta(0) else "behind"
    doubt = f"it is {spans.words(abs(off))} {way} the time since the last pass, and not synchronised"
    return Now(at, doubt, Moment(at, clocks.boot, clocks.uptime))


def read(boot: str) -> Clocks:
    """The clocks of this node now."""
    return Clocks(datetime.now(UTC), boot, time.clock_gettime(time.CLOCK_BOOTTIME), synchronised)


def synchronised() -> bool:
    """What adjtimex(2) says. False also where it may not be asked."""
    try:
        import ctypes  # old versions of libffi need memory for it that units do not get

        fields = [("modes", ctypes.c_uint), *((name, ctypes.c_long) for name in ("offset", "freq", "most", "least"))]
        timex = type(
            "timex",
            (ctypes.Structure,),
            {"_fields_": [*fields, ("status", ctypes.c_int), ("rest", ctypes.c_char * 256)]},
        )()
        result = ctypes.CDLL(None).adjtimex(ctypes.byref(timex))
    except (ImportError, OSError, MemoryError, AttributeError):
        return False
    return result not in (-1, _TIME_ERROR) and not timex.status & _STA_UNSYNC


# --- what is kept from one pass to the next


class UnreadableClock(ValueError):
    """The file is not what a pass wrote."""


def load(path: Path) -> Moment | None:
    """What was trusted last; None where there is no file. Raises ``OSError``, ``UnreadableClock``."""
    try:
        data = json.loads(files.read_whole(path, MOST_BYTES).decode("utf-8"))
        if data["version"] != VERSION:
            raise ValueError(f"version {data['version']!r}")
        uptime = data["uptime"]
        if type(uptime) not in (int, float) or not 0 <= uptime < 10**12:
            raise ValueError(f"{uptime!r} is no time since a start")
        return Moment(time_of(data["at"]), text(data["boot"]), float(uptime))
    except FileNotFoundError:
        return None
    except UNREADABLE as error:
        raise UnreadableClock(f"{path}: {type(error).__name__}: {error}") from error


def save(path: Path, trusted: Moment) -> None:
    """Replace the file as a whole. Raises ``OSError``."""
    content = {"version": VERSION, "at": trusted.at.isoformat(), "boot": trusted.boot, "uptime": trusted.uptime}
    files.write_whole(path, json.dumps(content) + "\n")
