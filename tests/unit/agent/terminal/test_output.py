"""The one decision about width and colour."""

from __future__ import annotations

import io

import pytest

from plimsoll_agent.messages.tones import Tone
from plimsoll_agent.terminal.output import Terminal, console, terminal_of
from tests.unit import person


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "COLUMNS", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")


@pytest.mark.parametrize(
    ("choice", "name", "value", "shown"),
    [
        ("auto", "TERM", "xterm", True),
        ("auto", "TERM", "dumb", False),
        ("auto", "NO_COLOR", "1", False),
        ("auto", "NO_COLOR", "", True),
        ("always", "NO_COLOR", "1", True),
        ("never", "TERM", "xterm", False),
    ],
)
def test_a_terminal_shows_colour_unless_it_is_switched_off(
    monkeypatch: pytest.MonkeyPatch, choice: str, name: str, value: str, shown: bool
) -> None:
    monkeypatch.setenv(name, value)
    assert terminal_of(person.Terminal(), choice).colour is shown
    out = person.Terminal()
    console(out, choice).print("x", style=Tone.CRITICAL.style)
    assert ("\x1b[1;31mx" in out.getvalue()) is shown


@pytest.mark.parametrize(("choice", "shown"), [("auto", False), ("always", True), ("never", False)])
def test_a_pipe_has_colour_only_where_it_is_asked_for(choice: str, shown: bool) -> None:
    out = io.StringIO()
    assert terminal_of(out, choice) == Terminal(None, shown)
    console(out, choice).print("x", style=Tone.CRITICAL.style)
    assert ("\x1b[1;31mx" in out.getvalue()) is shown


@pytest.mark.parametrize(
    ("columns", "width"), [("100", 100), ("0", 80), ("", 80), ("wide", 80), ("-5", 80), ("²", 80)]
)
def test_the_width_is_that_of_columns(monkeypatch: pytest.MonkeyPatch, columns: str, width: int) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert terminal_of(person.Terminal()).width == width
    assert terminal_of(io.StringIO()).width is None, "a pipe has no width"


def test_a_pipe_cuts_and_wraps_nothing() -> None:
    out = io.StringIO()
    console(out).print("word " * 500)
    assert out.getvalue() == f"{'word ' * 500}\n"


def test_names_are_not_taken_for_markup() -> None:
    out = io.StringIO()
    console(out).print("[red]web[/red] :smile: [link=x]y")
    assert out.getvalue() == "[red]web[/red] :smile: [link=x]y\n"


def test_a_tone_is_colour_around_the_same_text() -> None:
    assert Terminal(80, True).toned("failed", Tone.CRITICAL) == "\x1b[1;31mfailed\x1b[0m"
    assert Terminal(80, True).toned("failed", None) == "failed"
    assert Terminal(80, False).toned("failed", Tone.CRITICAL) == "failed"
