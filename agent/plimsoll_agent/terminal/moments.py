"""Times in the past and durations, as operators type them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from plimsoll_agent.errors import UsageError
from plimsoll_agent.util import durations, quantities
from plimsoll_agent.util.quantities import Quantity


def moment_of(option: str, text: str, now: datetime) -> datetime:
    """The time that an option gives. Raises ``UsageError``."""
    try:
        return moment(text, now)
    except (ValueError, OverflowError) as error:
        raise UsageError(
            f"{option}: {text!r} is not a time; write 2026-11-20, 2026-11-20T14:00, today, yesterday,"
            " or 2h for two hours ago"
        ) from error


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


def moment(text: str, now: datetime) -> datetime:
    """A time, a date, ``today``, ``yesterday`` or a duration ago, in UTC. Raises ``ValueError``,
    ``OverflowError``.
    """
    midnight = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if text == "today":
        return midnight
    if text == "yesterday":
        return midnight - timedelta(days=1)
    if text[-1:].isalpha() and not text.endswith("Z"):
        return now - durations.parse(text)
    time = datetime.fromisoformat(text)
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
