"""What a person sees of probes under way, in a terminal and without one, and when the terminal goes away."""

from __future__ import annotations

import io
import re

import pytest

from plimsoll_agent.disk import Guest
from plimsoll_probes.chosen import Target
from plimsoll_probes.cli.bars import Bars, Lines, Outlet
from plimsoll_probes.job import JobName
from plimsoll_probes.runner import Phase, Progress
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
    target = Target(Guest(uuid_of(number), f"g{number}", "1", display_name=name), "/mnt")
    return Progress(target, phase, JobName.READ if phase is Phase.RUNNING else None, elapsed, seconds)


def test_a_bar_says_who_does_what_and_how_far_it_is(terminal: Terminal) -> None:
    with Bars(Outlet(terminal)) as bars:
        bars.tell(progress())
        bars.tell(progress("other", Phase.FILLING, 3, None, number=2))
    assert re.search(r"canary  read +.* 12/30 s", terminal.shown)
    assert re.search(r"other  filling +.* 3 s", terminal.shown)


def test_a_job_that_takes_longer_than_its_time_is_not_shown_as_done(terminal: Terminal) -> None:
    with Bars(Outlet(terminal)) as bars:
        bars.tell(progress(elapsed=41.2))
    assert "41 s, waiting for what is under way" in terminal.shown


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
    assert f"{SHOWN}  read " in terminal.shown.replace(f"{SHOWN}  read  kept", "")
    assert not {"\x9b", "\u202e", "\N{BOMB}"} & set(terminal.getvalue())
    assert "\x1b]8" not in terminal.getvalue()


def test_a_line_is_not_broken_where_the_terminal_ends(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is copied into mails and tickets as one."""
    monkeypatch.setenv("COLUMNS", "40")
    line = "canary  read  30 s  251 iops  p99 41 ms   kept  (limit total_iops_sec 250)"
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
        f"standard output is gone ({error}); the probes go on unheard"
    ]


def test_a_terminal_that_goes_away_ends_no_probe(terminal: Terminal, caplog: pytest.LogCaptureFixture) -> None:
    """rich ends the process where its pipe is broken: in the thread of a probe, or in its own."""
    with Bars(Outlet(terminal)) as bars:
        bars.tell(progress())
        terminal.gone = BrokenPipeError(32, "Broken pipe")
        bars.say("canary  read  kept")
        bars.tell(progress(elapsed=13))
    assert len(caplog.records) == 1
