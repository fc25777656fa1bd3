"""What a person sees of probes under way, in a terminal and without one, and when the terminal goes away."""

from __future__ import annotations

import io
import re

import pytest

from plimsoll_agent.model.disk import Guest
from plimsoll_agent.terminal.folding import folding
from plimsoll_probes.cli.bars import Bars, Lines, Outlet
from plimsoll_probes.execute.runner import Phase, Progress
from plimsoll_probes.model.job import JobName
from plimsoll_probes.schedule.targets import Target
from tests.unit.node import uuid_of

HOSTILE = "a[red]b[/]\\:bomb:\x9b2J\u202e\n[link=http://x]"
SHOWN = "a[red]b[/]\\:bomb:?2J??[link=http://x]"


class Terminal(io.StringIO):
    """``gone`` is what writing to it comes to."""

    gone: OSError | None = None
    tried = 0

    def isatty(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        self.tried += 1
        if self.gone is not None:
            raise self.gone
        return super().write(text)

    @property
    def shown(self) -> str:
        """Without the escape sequences that are rich's own."""
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.getvalue())


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    for name in ("NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "200")
    return Terminal()


def progress(
    name: str = "canary",
    phase: Phase = Phase.RUNNING,
    elapsed: float = 12,
    seconds: float | None = 30,
    number: int = 1,
) -> Progress:
    target = Target(Guest(uuid=uuid_of(number), name=f"g{number}", run="1", display_name=name), "/mnt", None)
    return Progress(
        target=target,
        phase=phase,
        job=JobName.READ if phase is Phase.RUNNING else None,
        elapsed=elapsed,
        seconds=seconds,
    )


def test_a_bar_says_who_does_what_and_how_far_it_is(terminal: Terminal) -> None:
    with Bars(Outlet(terminal)) as bars:
        bars.tell(progress())
        bars.tell(progress("other", Phase.FILLING, 3, None, number=2))
    assert re.search(r"canary /mnt  read +.* 12/30 s", terminal.shown)
    assert re.search(r"other /mnt  filling +.* 3 s", terminal.shown)


def test_a_job_that_takes_longer_than_its_time_is_not_shown_as_done(terminal: Terminal) -> None:
    with Bars(Outlet(terminal)) as bars:
        bars.tell(progress(elapsed=41.2))
    assert "41 s, waiting for the last requests" in terminal.shown


def test_what_is_done_has_no_bar_and_a_second_probe_of_it_gets_a_new_one(terminal: Terminal) -> None:
    with Bars(Outlet(terminal)) as bars:
        bars.tell(progress(elapsed=30))
        bars.done(progress().target.key)
        bars.done(progress(number=2).target.key)
        assert bars._rich.tasks == []
        bars.tell(progress(elapsed=1))
        assert [task.completed for task in bars._rich.tasks] == [1]


def test_names_are_no_markup_no_emoji_and_no_escape_sequences(terminal: Terminal) -> None:
    """A tenant chose them: [red] would colour, [link=] would link, and :bomb: would be one."""
    with Bars(Outlet(terminal)) as bars:
        bars.tell(progress(HOSTILE))
        bars.say(f"{SHOWN}  read  kept")
    assert f"{SHOWN}  read  kept" in terminal.shown
    assert f"{SHOWN} /mnt  read " in terminal.shown.replace(f"{SHOWN}  read  kept", "")
    assert not {"\x9b", "\u202e", "\N{BOMB}"} & set(terminal.getvalue())
    assert "\x1b]8" not in terminal.getvalue()


def test_a_line_is_not_broken_where_the_terminal_ends(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is copied into mails and tickets as one."""
    monkeypatch.setenv("COLUMNS", "40")
    line = "canary  read  30 s  251 IOPS  p99 41 ms   kept  (limit 250 IOPS)"
    with Bars(Outlet(terminal)) as bars:
        bars.say(line)
    assert line in terminal.shown


def test_without_a_terminal_there_are_lines_and_nothing_else() -> None:
    stream = io.StringIO()
    with Lines(Outlet(stream), lambda line: f"<6>{line}") as lines:
        lines.tell(progress())
        lines.say("canary  read  kept")
        lines.done(progress().target.key)
    assert stream.getvalue() == "<6>canary  read  kept\n"


@pytest.mark.parametrize("error", [BrokenPipeError(32, "Broken pipe"), OSError(28, "No space left on device")])
def test_a_reader_that_went_away_is_said_once_and_not_written_to_again(
    terminal: Terminal, error: OSError, caplog: pytest.LogCaptureFixture
) -> None:
    terminal.gone = error
    outlet = Outlet(terminal)
    lines = Lines(outlet, lambda line: line)
    for _ in range(3):
        lines.say("canary  read  kept")
    assert (outlet.gone, terminal.tried) == (True, 1)
    assert [record.getMessage() for record in caplog.records] == [
        f"standard output is closed ({error}); the probes go on without output"
    ]


def test_after_its_stream_nothing_is_written_when_it_is_collected(terminal: Terminal) -> None:
    outlet = Outlet(folding(terminal))
    terminal.close()
    assert outlet.closed, "else Python flushes it, and 3.14 prints the error"


def test_a_terminal_that_goes_away_ends_no_probe(terminal: Terminal, caplog: pytest.LogCaptureFixture) -> None:
    """rich ends the process where its pipe is broken: in the thread of a probe, or in its own."""
    with Bars(Outlet(terminal)) as bars:
        bars.tell(progress())
        terminal.gone = BrokenPipeError(32, "Broken pipe")
        bars.say("canary  read  kept")
        bars.tell(progress(elapsed=13))
    assert len(caplog.records) == 1


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_without_a_terminal_each_phase_begins_with_a_line_on_the_other_stream() -> None:
    out, err = io.StringIO(), io.StringIO()
    lines = Lines(Outlet(out), str, err, Clock())
    for phase, seconds in ((Phase.LOOKING, None), (Phase.FILLING, None), (Phase.RUNNING, 30), (Phase.RUNNING, 30)):
        lines.tell(progress(phase=phase, seconds=seconds))
    lines.say("canary vdb /mnt  read  kept")
    assert out.getvalue() == "canary vdb /mnt  read  kept\n"
    assert err.getvalue().splitlines() == [
        "canary /mnt  looking at the guest",
        "canary /mnt  writing the file",
        "canary /mnt  read: running for 30 s",
    ]
    assert len(err.getvalue().splitlines()) == 3


def test_ten_seconds_of_silence_end_with_how_far_each_probe_is() -> None:
    clock, err = Clock(), io.StringIO()
    lines = Lines(Outlet(io.StringIO()), str, err, clock)
    lines.tell(progress(elapsed=0))
    lines.tell(progress("other", number=2, elapsed=0))

    def later(seconds: float, elapsed: float) -> list[str]:
        clock.now += seconds
        err.truncate(0)
        err.seek(0)
        lines.tell(progress(elapsed=elapsed))
        lines.heartbeat()
        return err.getvalue().splitlines()

    assert later(9, 9) == []
    assert later(1, 10) == ["canary /mnt  read: 10/30 s", "other /mnt  read: 0/30 s"]
    assert later(1, 11) == []
    lines.done(progress(number=2).target.key)
    assert later(25, 36) == ["canary /mnt  read: 36 s, waiting for the last requests"]
    lines.done(progress().target.key)
    clock.now += 10
    lines.heartbeat()
    assert err.getvalue().endswith("waiting for the turn of a guest\n"), "admission may take minutes"


def test_progress_that_cannot_be_printed_ends_no_probe() -> None:
    err = Terminal()
    err.gone = BrokenPipeError(32, "Broken pipe")
    lines = Lines(Outlet(io.StringIO()), str, err, Clock())
    lines.tell(progress())
    lines.tell(progress(phase=Phase.FILLING))
    assert err.tried == 1
