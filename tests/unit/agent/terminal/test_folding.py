"""Sentences outside tables: on a terminal they end between words, no command is broken, a pipe gets them whole."""

from __future__ import annotations

import argparse
import io
import re
from typing import TextIO

import pytest
from rich.cells import cell_len

from plimsoll_agent.errors import Rejected
from plimsoll_agent.terminal.base import OneLineErrors
from plimsoll_agent.terminal.folding import Folding, folding
from plimsoll_agent.terminal.output import marked
from plimsoll_agent.terminal.wrap import folded
from tests.unit.person import Person, Terminal
from tests.unit.widths import WIDTHS

GUEST = "instance-00000412"
COMMANDS = {
    f"no RBD disk of a running guest matches '{GUEST} vdz'; plimsoll disk list shows all": "plimsoll disk list",
    f"it is not released, since its guest is unreachable: see plimsoll disk explain {GUEST} vda, or wait": (
        f"plimsoll disk explain {GUEST} vda"
    ),
    "Once they are in use, and if it is meant: plimsoll approve --remove 7f3a91c2b04d88e1 --reason TEXT": (
        "plimsoll approve --remove 7f3a91c2b04d88e1 --reason TEXT"
    ),
    "120 % of limit 250 IOPS, which QEMU reports as set: see plimsoll disk show --verify; since 09:13": (
        "plimsoll disk show --verify"
    ),
    f"next: sudo plimsoll --config-file=/etc/plimsoll/some-very-long-name-of-a-node.conf disk explain {GUEST} vda": (
        f"sudo plimsoll --config-file=/etc/plimsoll/some-very-long-name-of-a-node.conf disk explain {GUEST} vda"
    ),
}


@pytest.mark.parametrize("width", [20, 40, *WIDTHS])
@pytest.mark.parametrize(("sentence", "command"), COMMANDS.items())
def test_a_command_is_on_one_line_at_every_width(sentence: str, command: str, width: int) -> None:
    lines = folded(sentence, width)
    assert " ".join(lines).split() == sentence.split(), "each word, whole and in its place"
    assert any(command in line for line in lines)
    wide = [line for line in lines if cell_len(line) > width]
    assert all(line.startswith(command) or " " not in line for line in wide), "alone on its line"


def test_a_line_is_folded_at_words_and_keeps_its_indent() -> None:
    assert folded("  such as 100MiB, 100 MB or データベース-データベース", 20) == [
        "  such as 100MiB,",
        "  100 MB or",
        "  データベース-データベース",
    ]


def through(stream: io.StringIO, *texts: str) -> str:
    folded_stream: TextIO = folding(stream)
    for text in texts:
        folded_stream.write(text)
    folded_stream.flush()
    return stream.getvalue()


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")


SENTENCE = "the catalogue cannot be read at all: it was made by another version of plimsoll"


def test_a_terminal_gets_lines_and_a_pipe_the_whole_text() -> None:
    assert through(io.StringIO(), f"{SENTENCE}\n") == f"{SENTENCE}\n"
    lines = through(Terminal(), SENTENCE[:30], SENTENCE[30:], "\n").splitlines()
    assert max(map(len, lines)) <= 40
    assert " ".join(lines) == SENTENCE


def test_after_its_stream_nothing_is_written_when_it_is_collected() -> None:
    stream = Terminal()
    folded_stream = folding(stream)
    folded_stream.write("begun")
    stream.close()
    assert folded_stream.closed, "else Python flushes it, and 3.14 prints the error"


def test_a_question_is_shown_before_its_line_ends() -> None:
    assert (
        through(Terminal(), "one\n", "Restore limits of 3 disks? [y/N] ") == "one\nRestore limits of 3 disks? [y/N] "
    )


def test_what_is_laid_out_already_is_left_as_it_is() -> None:
    for text in (f"\x1b[1mHEAD\x1b[0m {SENTENCE}\n", f"\r{SENTENCE}\n"):
        assert through(Terminal(), text) == text


class Says(OneLineErrors):
    """Prints a long sentence."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("-f", "--format", choices=("text", "json"), default="text", help=f"{SENTENCE} --dry-run")
        parser.add_argument("--reason", required=True)
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        if parsed_args.reason == "none":
            raise Rejected(SENTENCE)
        print(SENTENCE, file=self.app.stdout)
        return 0


@pytest.mark.parametrize(("words", "lines"), [((), 2), (("-f", "json"), 1)])
def test_commands_fold_what_they_say_to_people_and_nothing_else(words: tuple[str, ...], lines: int) -> None:
    person = Person()
    assert person.types(Says, "--reason", "x", *words, stdout=Terminal()) == 0
    assert len(person.out.splitlines()) == lines
    assert person.types(Says, "--reason", "x", *words) == 0
    assert person.out == f"{SENTENCE}\n"


class Keeps(Says):
    """Prints a file."""

    prints_files = True


def test_a_file_is_printed_as_it_is() -> None:
    person = Person()
    assert person.types(Keeps, "--reason", "x", stdout=Terminal()) == 0
    assert person.out == f"{SENTENCE}\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "the following arguments are required: --reason"),
        (("--reason", "x", "--wrong"), "unrecognized arguments: --wrong"),
        # Python 3.13 quotes no choices.
        (("--reason", "x", "-f", "xml"), "argument -f/--format: invalid choice: 'xml' (choose from text, json)"),
    ],
)
def test_an_error_in_the_arguments_is_a_line_and_where_to_look(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        Person().types(Says, *words)
    assert stop.value.code == 64
    assert re.sub(r"'(text|json)'", r"\1", capsys.readouterr().err) == f"{said}\nsee: plimsoll --help\n"


def test_help_breaks_no_option(capsys: pytest.CaptureFixture[str]) -> None:
    for width in range(30, 90):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("COLUMNS", str(width))
            with pytest.raises(SystemExit):
                Person().types(Says, "--help")
        assert "--dry-run" in re.sub(r"\x1b\[\d*m", "", capsys.readouterr().out)


def test_errors_and_warnings_are_marked_for_people_and_in_colour_unless_that_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert errors_on(Terminal()) == "\x1b[1;31merror:\x1b[0m no\n\x1b[1;33mwarning:\x1b[0m perhaps\n"
    assert errors_on(Terminal(), "never") == "error: no\nwarning: perhaps\n"
    assert errors_on(io.StringIO()) == "no\nperhaps\n"
    monkeypatch.setenv("NO_COLOR", "1")
    assert errors_on(Terminal()) == "error: no\nwarning: perhaps\n"


def errors_on(stderr: io.StringIO, colour: str = "auto") -> str:
    stream = folding(stderr, marks=True)
    if isinstance(stream, Folding):
        stream.choose_colour(colour)
    for mark, text in (("error", "no"), ("warning", "perhaps")):
        stream.write(f"{marked(stream, mark, text)}\n")
    return stderr.getvalue()


def test_a_long_error_is_folded_behind_its_coloured_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = Terminal()
    folding(stream, marks=True).write(f"error: {SENTENCE}\n")
    assert max(len(re.sub(r"\x1b\[[\d;]*m", "", line)) for line in stream.getvalue().splitlines()) <= 40
    assert stream.getvalue().startswith("\x1b[1;31merror:\x1b[0m ")
