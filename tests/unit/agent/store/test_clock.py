"""The time that a pass goes by: a wrong clock ends nothing early, and one that is right again counts again."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from plimsoll_agent.store import clock
from plimsoll_agent.store.clock import Clocks, TrustedTime, UnreadableClock, reckon
from tests import depth
from tests.unit.values import NOON

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
LAST = TrustedTime(NOON, "first", 1000.0)


def clocks(
    wall: datetime, uptime: timedelta, boot: str = "first", synchronised: Callable[[], bool] = lambda: False
) -> Clocks:
    return Clocks(wall=wall, boot=boot, uptime=1000.0 + uptime.total_seconds(), synchronised=synchronised)


def never() -> bool:
    raise AssertionError("the kernel need not be asked")


@pytest.mark.parametrize("off", [-HOUR, timedelta(0), HOUR])
def test_a_clock_that_runs_as_the_boot_clock_does_counts(off: timedelta) -> None:
    now = reckon(LAST, clocks(NOON + 40 * DAY + off, 40 * DAY, synchronised=never))
    assert (now.at, now.doubt) == (NOON + 40 * DAY + off, None)
    assert now.trusted == TrustedTime(now.at, "first", 1000.0 + 40 * 86400)


@pytest.mark.parametrize(
    ("off", "words"),
    [
        (HOUR + timedelta(seconds=1), "1 h 1 s ahead of"),
        (40 * DAY, "40 d ahead of"),
        (-HOUR - timedelta(seconds=1), "1 h 1 s behind"),
        (-400 * DAY, "400 d behind"),
    ],
)
def test_a_clock_that_was_set_while_the_node_ran_does_not_count_until_it_is_synchronised(
    off: timedelta, words: str
) -> None:
    wall = NOON + HOUR + off
    now = reckon(LAST, clocks(wall, HOUR))
    assert now.at == NOON + HOUR
    assert now.doubt == f"it is {words} the time since the last pass, and not synchronised"
    again = reckon(now.trusted, clocks(wall + HOUR, 2 * HOUR))
    assert again.at == NOON + 2 * HOUR, "it goes on"
    assert again.doubt is not None
    assert reckon(again.trusted, clocks(wall, 2 * HOUR, synchronised=lambda: True)).at == wall
    right = reckon(again.trusted, clocks(NOON + 3 * HOUR, 3 * HOUR, synchronised=never))
    assert (right.at, right.doubt) == (NOON + 3 * HOUR, None), "set right by hand"


@pytest.mark.parametrize("off", [-HOUR, timedelta(0), DAY])
def test_a_node_may_have_been_off_for_a_day(off: timedelta) -> None:
    now = reckon(LAST, clocks(NOON + off, -HOUR, "second", synchronised=never))
    assert (now.at, now.doubt) == (NOON + off, None)


@pytest.mark.parametrize("off", [-2 * HOUR, DAY + timedelta(seconds=1), 40 * DAY])
def test_a_node_that_was_off_for_longer_uses_its_last_pass_until_its_clock_is_synchronised(off: timedelta) -> None:
    wall = NOON + off
    now = reckon(LAST, clocks(wall, timedelta(minutes=-10), "second"))
    assert now.at == NOON
    assert now.doubt is not None
    later = reckon(now.trusted, clocks(wall + HOUR, timedelta(minutes=50), "second"))
    assert later.at == NOON + HOUR
    synchronised = reckon(later.trusted, clocks(wall + HOUR, HOUR, "second", synchronised=lambda: True))
    assert (synchronised.at, synchronised.doubt) == (wall + HOUR, None)


def test_where_nothing_is_known_the_clock_counts() -> None:
    assert reckon(None, clocks(NOON, HOUR, synchronised=never)).at == NOON


def test_a_run_that_is_younger_than_it_was_is_another_one() -> None:
    assert reckon(LAST, clocks(NOON + 9 * DAY, -HOUR)).at == NOON


def test_whatever_an_unsynchronised_clock_says_time_never_runs_ahead_by_more_than_the_bounds() -> None:
    """An hour for each time that the clock is set, a day for each start of the node."""
    chance = random.Random(9)
    for _ in range(depth.count(quick=50, landing=500, soak=20_000)):
        true, up, boot, off, last, slack = (
            NOON,
            timedelta(0),
            0,
            timedelta(0),
            TrustedTime(NOON, "0", 1000.0),
            timedelta(0),
        )
        for _ in range(20):
            step = chance.choice([timedelta(minutes=5), HOUR, 3 * DAY])
            true, up = true + step, up + step
            happens = chance.randrange(4)
            if happens == 0:
                boot, up, slack = boot + 1, timedelta(0), slack + DAY
            elif happens == 1:
                off, slack = timedelta(days=chance.uniform(-900, 900)), slack + HOUR
            now = reckon(last, clocks(true + off, up, str(boot)))
            assert now.at <= true + slack
            assert now.at >= last.at - HOUR
            last = now.trusted


@pytest.mark.parametrize(
    ("result", "status", "synchronised"),
    [(0, 0, True), (0, 0x2001, True), (0, 0x40, False), (5, 0, False), (-1, 0, False)],
)
def test_a_clock_is_synchronised_by_the_word_of_the_kernel(
    monkeypatch: pytest.MonkeyPatch, result: int, status: int, synchronised: bool
) -> None:
    def adjtimex(timex: Any) -> int:
        # uapi/linux/timex.h: behind the modes and four longs
        ctypes.c_int.from_buffer(timex._obj, 5 * ctypes.sizeof(ctypes.c_long)).value = status
        return result

    monkeypatch.setattr(ctypes, "CDLL", lambda _: SimpleNamespace(adjtimex=adjtimex))
    assert clock.synchronised() == synchronised


def test_what_was_trusted_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "clock.json"
    assert clock.load(path) is None
    clock.save(path, LAST)
    assert clock.load(path) == LAST


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{}", '{"version": 2}', '{"version": 1, "at": "noon", "boot": "x", "uptime": 1}', "\xff",
     '{"version": 1, "at": "2026-11-20T12:00:00+00:00", "boot": 7, "uptime": 1}',
     '{"version": 1, "at": "2026-11-20T12:00:00+00:00", "boot": "x", "uptime": "nan"}'],
)  # fmt: skip
def test_nonsense_is_called_that(tmp_path: Path, content: str) -> None:
    path = tmp_path / "clock.json"
    path.write_text(content, encoding="latin-1")
    with pytest.raises(UnreadableClock, match=str(path)):
        clock.load(path)


def test_the_clocks_of_this_machine_are_read() -> None:
    first, second = clock.read("x"), clock.read("x")
    assert second.uptime >= first.uptime > 0
    assert second.wall.utcoffset() == timedelta(0)
    assert first.synchronised() in (True, False)
