"""The time of a pass: the node's clock, if it agrees with the time since the last pass.

A wrong clock would end all holds and rules at once, and forget guests that are off. CLOCK_BOOTTIME is never set, so
until a reboot it measures the time since the last pass. After a reboot the time must not be earlier, and at most
``_OFF`` later. A clock that differs is used only if the kernel reports it as synchronised (adjtimex(2), which chrony,
ntpd, timesyncd and phc2sys update). Until then the time continues from the last one that was trusted.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from plimsoll_agent.errors import PlimsollError
from plimsoll_agent.util import decoding, durations, files
from plimsoll_agent.util.decoding import Moment, as_json, data_of, value_of
from plimsoll_agent.util.frozen import frozen

VERSION = 1
MOST_BYTES = 4096
_STEP = timedelta(hours=1)
"""More than an NTP client corrects when it starts."""
_OFF = timedelta(days=1)
"""How long a node may have been off before its clock is suspect: a repair takes hours."""
_LONGEST_RUN = 10**12
"""Seconds; more would overflow a time."""
_TIME_ERROR = 5
_STA_UNSYNC = 0x40
"""uapi/linux/timex.h: the clock is not synchronised."""


@frozen
class TrustedTime:
    """A trusted time, with CLOCK_BOOTTIME and the boot id at that time."""

    at: Moment
    boot: str
    uptime: Annotated[float, Meta(ge=0, lt=_LONGEST_RUN)]


@frozen(kw_only=True)
class Clocks:
    """The node's clock, its boot id, and the seconds since it booted."""

    wall: datetime
    boot: str
    uptime: float
    synchronised: Callable[[], bool]
    """Whether the kernel reports the clock as synchronised; called only if needed."""


@frozen
class Now:
    """The time to use; ``doubt`` is why it differs from the node's clock."""

    at: datetime
    doubt: str | None
    trusted: TrustedTime
    """To be stored for the next pass."""


def reckon(last: TrustedTime | None, clocks: Clocks) -> Now:
    """The time now; ``last`` is the last trusted time, None if there is none."""
    fresh = TrustedTime(clocks.wall, clocks.boot, clocks.uptime)
    if last is None:
        return Now(clocks.wall, None, fresh)
    same_run = clocks.boot == last.boot and clocks.uptime >= last.uptime
    at = last.at + timedelta(seconds=clocks.uptime - last.uptime) if same_run else last.at
    off = clocks.wall - at
    if -_STEP <= off <= (_STEP if same_run else _OFF) or clocks.synchronised():
        return Now(clocks.wall, None, fresh)
    way = "ahead of" if off > timedelta(0) else "behind"
    doubt = f"it is {durations.words(abs(off))} {way} the time since the last pass, and not synchronised"
    return Now(at, doubt, TrustedTime(at, clocks.boot, clocks.uptime))


def read(boot: str) -> Clocks:
    """The clocks now."""
    return Clocks(wall=datetime.now(UTC), boot=boot, uptime=uptime(), synchronised=synchronised)


def synchronised() -> bool:
    """By adjtimex(2). False also if it may not be called."""
    try:
        import ctypes  # old versions of libffi need memory for it that systemd units do not get

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


def uptime() -> float:
    """Seconds since the node booted, while it slept too."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def boot(now: datetime) -> datetime:
    """When the node booted, by the same clock as ``now``."""
    return now - timedelta(seconds=uptime())


# --- the file


class UnreadableClock(PlimsollError):
    """The file cannot be read, or no pass wrote it."""


def load(path: Path) -> TrustedTime | None:
    """The last trusted time; None if there is no file. Raises ``UnreadableClock``."""

    def of(data: Any) -> TrustedTime:
        if data["version"] != VERSION:
            raise ValueError(f"version {data['version']!r}")
        return value_of(TrustedTime, data)

    return decoding.load(path, MOST_BYTES, of, UnreadableClock)


def save(path: Path, moment: TrustedTime) -> None:
    """Raises ``OSError``."""
    files.write_whole(path, as_json({"version": VERSION} | data_of(moment)) + "\n")
