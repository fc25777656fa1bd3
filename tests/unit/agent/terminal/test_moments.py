"""Moments as operators type them, in one grammar for all commands."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime, timedelta, timezone

import pytest

from plimsoll_agent.errors import UsageError
from plimsoll_agent.terminal.moments import moment, moment_of, window

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def at(day: int, hour: int, minute: int = 0, second: int = 0) -> datetime:
    return datetime(2026, 11, day, hour, minute, second, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("2026-11-20", at(20, 0)),
        ("2026-11-20T14:00", at(20, 14)),
        ("2026-11-20 14:00:05", at(20, 14, 0, 5)),
        ("2026-11-20T14:00+09:00", at(20, 5)),
        ("2026-11-20T14:00Z", at(20, 14)),
        ("today", at(20, 0)),
        ("today 08:30", at(20, 8, 30)),
        ("yesterday", at(19, 0)),
        ("yesterday 22:00", at(19, 22)),
        ("yesterday 22:00+02:00", at(19, 20)),
        ("90s", NOON - timedelta(seconds=90)),
        ("2h", NOON - timedelta(hours=2)),
        ("1d12h", NOON - timedelta(hours=36)),
        # The last one: of today until now, and of yesterday where it is still to come.
        ("11:59:30", at(20, 11, 59, 30)),
        ("12:00", NOON),
        ("12:01", at(19, 12, 1)),
        ("22:00", at(19, 22)),
        ("14:00+02:00", NOON),
        ("14:01+02:00", at(19, 12, 1)),
        # There it is tomorrow already, and that hour was an hour ago.
        ("01:00+14:00", at(20, 11)),
        ("23:00-12:00", at(20, 11)),
    ],
)
def test_a_moment_is_in_utc_unless_it_has_a_zone(text: str, meant: datetime) -> None:
    assert moment(text, NOON) == meant
    assert moment(text, NOON).utcoffset() == timedelta(0)


def test_today_is_the_day_in_utc_wherever_one_is() -> None:
    assert moment("today", NOON.astimezone(timezone(timedelta(hours=14)))) == at(20, 0)


@pytest.mark.parametrize(
    "text", ["24:00", "14", "14:0", "today 14", "yesterday 2h", "tomorrow", "22:00 yesterday", " ", ""]
)
def test_what_is_no_moment_is_refused_with_the_ways_to_write_one(text: str) -> None:
    with pytest.raises(UsageError, match=r"--at: .* is not a time; write 14:00, yesterday 22:00"):
        moment_of("--at", text, NOON)


def asked(since: str | None = None, until: str | None = None) -> argparse.Namespace:
    return argparse.Namespace(since=since, until=until)


@pytest.mark.parametrize(
    ("options", "since", "until", "words", "again"),
    [
        (asked(), at(19, 12), NOON, "the last 24h", "--since 24h"),
        (asked("6h"), at(20, 6), NOON, "the last 6h", "--since 6h"),
        (
            asked("08:00"),
            at(20, 8),
            NOON,
            "the time from 2026-11-20 08:00 to 12:00 UTC",
            "--since 2026-11-20T08:00Z",
        ),
        (
            asked("22:00", "02:00"),
            at(19, 22),
            at(20, 2),
            "the time from 2026-11-19 22:00 to 2026-11-20 02:00 UTC",
            "--since 2026-11-19T22:00Z --until 2026-11-20T02:00Z",
        ),
        (
            asked(None, "02:00"),
            at(19, 2),
            at(20, 2),
            "the time from 2026-11-19 02:00 to 2026-11-20 02:00 UTC",
            "--since 2026-11-19T02:00Z --until 2026-11-20T02:00Z",
        ),
        # What is to come is not known yet.
        (
            asked("11:00", "2026-11-21"),
            at(20, 11),
            NOON,
            "the time from 2026-11-20 11:00 to 12:00 UTC",
            "--since 2026-11-20T11:00Z --until 2026-11-20T12:00Z",
        ),
    ],
)
def test_a_window_has_both_ends_and_how_to_ask_for_it_again(
    options: argparse.Namespace, since: datetime, until: datetime, words: str, again: str
) -> None:
    found = window(options, NOON, "24h")
    assert (found.since, found.until, found.words, found.options) == (since, until, words, again)


@pytest.mark.parametrize(
    "options", [asked("02:00", "22:00"), asked("2026-11-21"), asked("soon"), asked(None, "soon")]
)
def test_a_window_without_a_beginning_before_its_end_is_a_usage_error(options: argparse.Namespace) -> None:
    with pytest.raises(UsageError, match=r"--(since|until)"):
        window(options, NOON, "24h")
