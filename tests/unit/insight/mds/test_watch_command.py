"""``mds watch``: what it makes of readings that fail, and of logs that are not of all ranks."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from plimsoll_agent.errors import Unreachable
from plimsoll_agent.terminal.formats import Shown
from plimsoll_agent.util.frozen import replace
from plimsoll_insight.cli import mds_watch
from plimsoll_insight.cli.mds_watch import MdsWatch
from plimsoll_insight.mds.moves import DirectoryMove
from plimsoll_insight.mds.verdict import MdsAnswer, MdsVerdict
from plimsoll_insight.mds.watch import RanksReading, spans
from plimsoll_insight.slow.events import LogClock
from tests.unit.insight.mds.ranks import counted, owned, reading
from tests.unit.insight.mds.test_exports import STARTING
from tests.unit.person import Person
from tests.unit.waitingclock import WaitingClock

OWNERS = owned({"/": 0})


def readings(monkeypatch: pytest.MonkeyPatch, *answers: object, hours: Iterable[int] = (0,)) -> list[RanksReading]:
    """``hours``: what each look at the wall clock jumps to."""
    rest, clock, jumps = iter(answers), WaitingClock(), iter(hours)
    monkeypatch.setattr(clock, "time", lambda: 3600.0 * next(jumps))
    monkeypatch.setattr(mds_watch, "time", clock)

    def answer() -> Any:
        one = next(rest)
        if isinstance(one, Exception):
            raise one
        return one

    stop: Any = clock
    seen = mds_watch._readings(answer, len(answers) - 1.0, 1.0, stop)
    return [one for one, _ in zip(seen, answers, strict=False)]


def test_a_reading_that_fails_ends_no_watch_and_its_ranks_are_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = reading(0, OWNERS, {0: counted(), 1: counted()})
    seen = readings(monkeypatch, whole, Unreachable("no answer"), whole)
    assert [each.errors for each in seen] == [{}, {0: "no answer", 1: "no answer"}, {}]
    with pytest.raises(Unreachable):
        readings(monkeypatch, Unreachable("no answer"), whole)


def test_a_clock_that_is_set_makes_no_interval_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [reading(3600.0 * each, OWNERS, {0: counted()}) for each in (0, 1)]
    first, second = readings(monkeypatch, *answers, hours=range(9))
    assert second.time - first.time == 1


def test_thrashing_before_no_rank_answered_any_more_names_what_to_pin() -> None:
    moves = tuple(
        DirectoryMove(time=each, directory=next(iter(owned({"/a": 0}))), source=0, target=1)
        for each in (0.0, 1.0, 2.0, 3.0)
    )
    verdict = MdsVerdict(answer=MdsAnswer.THRASHING, repeated={"/a": 4}, forwarded=None, uneven=None)
    view = mds_watch._View(
        verdict=verdict,
        moves=moves,
        parts=(),
        readings=(RanksReading(9.0, {}, {0: "no answer", 1: "no answer"}),),
        unknown=(),
    )
    assert list(mds_watch._next(view)) == ["Next: plimsoll mds settle --dry-run --mount DIR --pin /a=0"]


def test_a_name_that_a_tenant_chose_sends_the_terminal_nothing() -> None:
    verdict = MdsVerdict(answer=MdsAnswer.THRASHING, repeated={"/a\x1b[2J": 4}, forwarded=None, uneven=None)
    view = mds_watch._View(
        verdict=verdict, moves=(), parts=(), readings=(reading(0, OWNERS, {0: counted()}),), unknown=()
    )
    assert "\x1b" not in "".join(mds_watch._next(view))


def test_the_log_of_one_rank_is_not_that_of_all_and_calm_says_nothing_of_load(tmp_path: Path) -> None:
    logs = [tmp_path / name for name in ("a.log", "b.log")]
    logs[0].write_text(STARTING + "\n")
    logs[1].write_text("2026-11-30T09:53:47.487+0000 7f916b7fe6c0  7 mds.1.mig handle_export_discover #0x1/hot/d1\n")
    view = mds_watch._of_logs(logs[:1], LogClock())
    assert view.verdict.answer is MdsAnswer.CANNOT_TELL
    assert list(view.unknown) == ["No log of rank 1 of the same time: a rank's log has the exports from it alone."]
    person = Person()
    assert person.types(MdsWatch, *map(str, logs)) == 0
    assert "Calm: no sign of thrashing in these logs." in person.out


def test_a_log_of_one_rank_without_exports_tells_nothing_of_what_other_ranks_export(tmp_path: Path) -> None:
    log = tmp_path / "ceph-mds.a.log"
    log.write_text("2019-04-04 10:00:00.123456 7f11aa223344  1 mds.0.12 handle_mds_map i am now mds.0.12\n")
    view = mds_watch._of_logs([log], LogClock())
    assert view.verdict.answer is MdsAnswer.CANNOT_TELL
    words = "No log of another rank of the same time: a rank's log has the exports from it alone."
    assert list(view.unknown) == [words]


def test_a_daemon_s_log_is_of_its_last_rank_and_of_the_time_in_which_it_was_that(tmp_path: Path) -> None:
    line = "2026-11-{:02}T09:53:47.487+0000 7f916b7fe6c0  7 mds.{}.mig handle_export_discover from mds.9.5 \n"
    logs = {
        "a.log": line.format(1, 0) + line.format(2, 1) + line.format(3, 1),
        "a.log.1": line.format(1, 0),
        "b.log": line.format(1, 1) + line.format(2, 0) + line.format(3, 0),
        "c.log": line.format(2, 0),
    }
    for name, text in logs.items():
        (tmp_path / name).write_text(text)
    for names, answer in ((["a.log"], MdsAnswer.CANNOT_TELL), (["a.log", "a.log.1"], MdsAnswer.CANNOT_TELL),
                          (["a.log", "b.log"], MdsAnswer.CALM), (["a.log", "c.log"], MdsAnswer.CALM)):  # fmt: skip
        assert mds_watch._of_logs([tmp_path / name for name in names], LogClock()).verdict.answer is answer


def test_requests_of_a_time_in_which_no_rank_is_known_are_unknown_and_not_none() -> None:
    whole = reading(0, OWNERS, {0: counted()})
    lost = RanksReading(10.0, {}, {0: "no answer"})
    verdict = MdsVerdict(answer=MdsAnswer.CANNOT_TELL, repeated={}, forwarded=None, uneven=None)
    [row] = mds_watch._time_rows(
        mds_watch._View(verdict=verdict, moves=(), parts=spans([whole, lost]), readings=(whole, lost), unknown=())
    )
    assert dict(zip(mds_watch.TIME_COLUMNS, row, strict=True))["requests_sec"] == mds_watch._rate(0, 0.0)


def test_a_directory_with_much_of_the_load_is_listed_though_it_never_moved_and_an_unknown_load_is_not_none() -> None:
    whole = reading(0, OWNERS, {0: counted()})
    busy = replace(whole, ranks={0: replace(whole.ranks[0], loads={"/hot": 99.5, "/cold": 0.5})})
    move = DirectoryMove(time=3.0, directory=next(iter(owned({"/moved": 0}))), source=1, target=0)
    verdict = MdsVerdict(answer=MdsAnswer.CALM, repeated={}, forwarded=None, uneven=None)

    def rows(last: RanksReading) -> list[tuple[object, ...]]:
        view = mds_watch._View(verdict=verdict, moves=[move], parts=(), readings=(last,), unknown=())
        return [tuple(cell.machine_readable() if isinstance(cell, Shown) else cell for cell in row)
                for row in mds_watch._directory_rows(view)]  # fmt: skip

    last = {"time": "1970-01-01T00:00:03.000+00:00", "from": 1, "to": 0}
    assert rows(busy) == [("/moved", 0, 1, 1, last, [0], "calm"), ("/hot", 0.995, 0, 0, None, [0], "calm")]
    assert rows(whole) == [("/moved", None, 1, 1, last, [0], "calm")]
