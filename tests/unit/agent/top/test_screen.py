"""What a command that fills the screen writes to its terminal. Keys and signals: ``tests/functional/test_top.py``."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator

import pytest
from rich.text import Text

from plimsoll_agent.top.screen import Screen


class Pipe:
    def __init__(self, encoding: str = "utf-8") -> None:
        read, write = os.pipe()
        os.set_blocking(read, False)
        self.out = os.fdopen(read, "rb")
        self.into = os.fdopen(write, "w", encoding=encoding)

    def sent(self) -> str:
        return (self.out.read() or b"").decode(self.into.encoding)


@pytest.fixture(params=["utf-8"])
def pipe(request: pytest.FixtureRequest) -> Iterator[Pipe]:
    pipe = Pipe(request.param)
    yield pipe
    pipe.into.close()
    pipe.out.close()


def test_only_lines_that_changed_are_written(pipe: Pipe) -> None:
    screen = Screen(pipe.into, pipe.into, "never")
    lines = [Text(f"line {number}") for number in range(24)]
    screen.draw(lines)
    first = pipe.sent()
    assert all(f"line {number}" in first for number in range(24))
    screen.draw(lines)
    assert pipe.sent() == ""
    lines[3] = Text("another")
    screen.draw(lines)
    assert pipe.sent() == "\x1b[4;1H\x1b[2Kanother"


def test_a_line_that_only_changes_its_style_is_written(pipe: Pipe) -> None:
    screen = Screen(pipe.into, pipe.into, "always")
    screen.draw([Text("a"), Text("b")])
    pipe.sent()
    at_cursor = Text("b")
    at_cursor.stylize("reverse")
    for line in (at_cursor, Text("b", style="bold"), Text("b")):
        screen.draw([Text("a"), line])
    assert pipe.sent() == "".join(f"\x1b[2;1H\x1b[2K{b}" for b in ("\x1b[7mb\x1b[0m", "\x1b[1mb\x1b[0m", "b"))


def test_lines_that_are_no_more_are_erased(pipe: Pipe) -> None:
    screen = Screen(pipe.into, pipe.into, "never")
    screen.draw([Text("a"), Text("b")])
    pipe.sent()
    screen.draw([Text("a")])
    assert pipe.sent() == "\x1b[2;1H\x1b[2K"


def test_a_sentence_is_given_to_the_clipboard_whole_and_cannot_end_the_sequence(pipe: Pipe) -> None:
    text = "Ihr Datenträger\x07\x1b]0;x"
    Screen(pipe.into, pipe.into, "never").copy(text)
    before, _, rest = pipe.sent().partition("\x1b]52;c;")
    assert before == ""
    assert base64.b64decode(rest.removesuffix("\x07"), validate=True).decode() == text


def test_a_cursor_is_seen_without_colour(pipe: Pipe) -> None:
    screen = Screen(pipe.into, pipe.into, "never")
    line = Text("a")
    line.stylize("reverse")
    screen.draw([line])
    assert "\x1b[7m" in pipe.sent()


@pytest.mark.parametrize("pipe", ["ascii", "latin-1"], indirect=True)
def test_a_terminal_without_unicode_gets_bars_all_the_same(pipe: Pipe) -> None:
    Screen(pipe.into, pipe.into, "never").draw([Text("██░░  97 %…  数")])
    assert pipe.sent().endswith("##..  97 %~  ?")
