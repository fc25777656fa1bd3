"""Moments and durations, as operators type them: one grammar for every command that looks back."""

from __future__ import annotations

import argparse
import re
from datetime import UTC, datetime, time, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from plimsoll_agent.errors import UsageError
from plimsoll_agent.util import durations, quantities
from plimsoll_agent.util.frozen import frozen
from plimsoll_agent.util.quantities import Quantity
from plimsoll_agent.util.text import both_ends

EXAMPLES = "14:00, yesterday 22:00, 2026-11-20, 2026-11-20T14:00+01:00, or 2h for two hours ago"
_CLOCK = re.compile(r"\d\d:\d\d(:\d\d)?([+-]\d\d:?\d\d|Z)?", re.ASCII)


@frozen(kw_only=True)
class Window:
    """What a command looks at: from ``since`` to before ``until``."""

    since: datetime
    until: datetime
    words: str
    """``the last 6h``, or both ends."""
    options: str
    """As another command takes it: ``--since 6h``."""

    @property
    def seconds(self) -> int:
        return int((self.until - self.since).total_seconds())


def add_window(parser: argparse.ArgumentParser, what: str, default: str | None = None) -> None:
    """``--since`` and ``--until``, which ``window`` reads; ``what`` is what they choose."""
    ending = "" if default is None else f"; default: {default}"
    parser.add_argument("--since", metavar="MOMENT", help=f"{what} from then on: {EXAMPLES}{ending}")
    parser.add_argument("--until", metavar="MOMENT", help=f"{what} before then; default: now")


def window(parsed_args: argparse.Namespace, now: datetime, default: str) -> Window:
    """What ``--since`` and ``--until`` say; ``default`` is a duration before the end. Raises ``UsageError``."""
    since, until = ends(parsed_args, now)
    until = min(until or now, now)
    since = since or until - durations.parse(default)
    if since >= until:
        raise UsageError(f"--since {parsed_args.since} is not before now")
    duration = parsed_args.since or default
    if parsed_args.until is None and _is_duration(duration):
        return Window(since=since, until=until, words=f"the last {duration}", options=f"--since {duration}")
    begin, end = both_ends(since, until)
    words = f"the time from {begin} to {end}"
    options = f"--since {since:%Y-%m-%dT%H:%MZ}" + (f" --until {until:%Y-%m-%dT%H:%MZ}" if parsed_args.until else "")
    return Window(since=since, until=until, words=words, options=options)


def ends(parsed_args: argparse.Namespace, now: datetime) -> tuple[datetime | None, datetime | None]:
    """``--since`` and ``--until``, None for one that is not given. Raises ``UsageError``."""
    since, until = (
        None if text is None else moment_of(option, text, now)
        for option, text in (("--since", parsed_args.since), ("--until", parsed_args.until))
    )
    if since is not None and until is not None and since >= until:
        raise UsageError("--since must be before --until")
    return since, until


def moment_of(option: str, text: str, now: datetime) -> datetime:
    """The time that an option gives. Raises ``UsageError``."""
    try:
        return moment(text, now)
    except (ValueError, OverflowError) as error:
        raise UsageError(f"{option}: {text!r} is not a time; write {EXAMPLES}") from error


def seconds_of(option: str, text: str) -> int:
    """Seconds, or a duration with its unit. Raises ``UsageError``."""
    try:
        return quantities.read(text, Quantity.SECONDS)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from error


def time_of(option: str, text: str) -> float:
    """Seconds, whole or not, or a duration. Raises ``UsageError``."""
    try:
        return quantities.read_time(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from error


def zone_of(name: str | None) -> tzinfo:
    """Of ``--timezone``. Raises ``UsageError``."""
    try:
        return UTC if name is None else ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise UsageError(f"--timezone {name}: no such zone; write it as Europe/Berlin or UTC") from error


def moment(text: str, now: datetime) -> datetime:
    """A time, in UTC unless it names a zone. Raises ``ValueError``, ``OverflowError``.

    ``14:00`` is the last one before now; ``today`` and ``yesterday`` are their midnights, or a time on that day; a
    date is its midnight; a duration is so long ago.
    """
    day, _, clock = text.partition(" ")
    midnight = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    days = {"today": midnight, "yesterday": midnight - timedelta(days=1)}
    if day in days:
        return datetime.combine(days[day], _clock(clock)).astimezone(UTC) if clock else days[day]
    if _CLOCK.fullmatch(text):
        # With a zone, the last one may be of tomorrow there, or of the day before yesterday.
        each = (datetime.combine(midnight + timedelta(days=ahead), _clock(text)) for ahead in (1, 0, -1, -2))
        return next(at for at in each if at <= now).astimezone(UTC)
    if _is_duration(text):
        return now - durations.parse(text)
    at = datetime.fromisoformat(text)
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


def _clock(text: str) -> time:
    """A time of the day, which has a zone then."""
    if not _CLOCK.fullmatch(text):
        raise ValueError(f"{text!r} is no time of the day")
    at = time.fromisoformat(text)
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at


def _is_duration(text: str) -> bool:
    return text[-1:].isalpha() and not text.endswith("Z") and text not in ("today", "yesterday")
