"""Moments as operators type them, in one grammar for all commands."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime, timedelta, timezone

from plimsoll_agent.errors import UsageError
from plimsoll_agent.terminal.moments import moment, moment_of, window
from tests import golden

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def test_today_is_the_day_in_utc_wherever_one_is() -> None:
    assert moment("today", NOON.astimezone(timezone(timedelta(hours=14)))) == datetime(2026, 11, 20, tzinfo=UTC)


def answer(kind: str, text: str) -> str:
    try:
        if kind == "moment":
            return str(moment_of("--at", text, NOON))
        since, until = (None if part == "-" else part for part in text.split(" | "))
        found = window(argparse.Namespace(since=since, until=until), NOON, "24h")
        return f"{found.since} to {found.until}: {found.words}: {found.options}"
    except UsageError as error:
        return str(error)


def test_each_moment_and_window_is_what_the_golden_file_has() -> None:
    golden.transcript("moments.txt", answer)
