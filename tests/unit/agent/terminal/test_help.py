"""Help of each command, as a terminal shows it."""

from __future__ import annotations

import argparse
import re
import shlex
from importlib.metadata import distribution
from types import SimpleNamespace

import pytest

from plimsoll_agent.terminal.help import continued, description_of
from plimsoll_agent.terminal.listing import Listing
from plimsoll_agent.terminal.main import Plimsoll, plain_parser

POINTS = list(distribution("plimsoll-agent").entry_points.select(group="plimsoll.commands"))
DOC = """Do something.

It does it
well.

Exit status:
    0   done
    64  usage, and
        whatever else

Examples:
    plimsoll do
"""


def parser_of(name: str) -> argparse.ArgumentParser:
    point = next(point for point in POINTS if point.name == name)
    parser: argparse.ArgumentParser = point.load()(SimpleNamespace(), None).get_parser(
        f"plimsoll {name.replace('_', ' ')}"
    )
    return parser


def shown(*, coloured: bool = False) -> list[str]:
    parser = plain_parser(argparse.ArgumentParser(prog="plimsoll do", description=DOC))
    parser.add_argument("guest", metavar="GUEST", help="its name")
    parser.add_argument("disk", metavar="DISK", nargs="?", help="its target")
    parser.add_argument("--for", required=True, metavar="TIME", help="how long")
    parser.add_argument("--uri", metavar="URI", help="another")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--last", action="store_true", help="the last pass")
    which.add_argument("--since", metavar="MOMENT", help="%(metavar)s of the first")
    parser.add_argument("-f", "--format", metavar="FORMAT", help="of the output")
    parser.color = coloured  # type: ignore[attr-defined]
    return parser.format_help().splitlines()


def test_help_is_a_summary_usage_examples_options_and_statuses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert shown() == [
        "Do something.",
        "",
        "usage: plimsoll do GUEST [DISK] --for TIME (--last | --since MOMENT) [options]",
        "",
        "examples:",
        "  plimsoll do",
        "",
        "It does it well.",
        "",
        "arguments:",
        "  GUEST  its name",
        "  DISK   its target",
        "",
        "options:",
        "  --for TIME      how long",
        "  --uri URI       another",
        "  --last          the last pass",
        "  --since MOMENT  MOMENT of the first",
        "",
        "output:",
        "  -f, --format FORMAT  of the output",
        "",
        "exit status:",
        "  0   done",
        "  64  usage, and whatever else",
    ]


def test_colours_do_not_move_a_column(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    coloured = shown(coloured=True)
    assert "\x1b[1moptions:\x1b[0m" in coloured
    assert [re.sub(r"\x1b\[\d*m", "", line) for line in coloured] == shown()


@pytest.mark.parametrize("name", [point.name for point in POINTS])
def test_every_help_fits_80_columns_and_has_three_examples_that_are_right(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    parser = parser_of(name)
    assert [line for line in parser.format_help().splitlines() if len(line) > 80] == []
    description = description_of(parser.description or "")
    assert len(description.examples) == 3
    assert len(set(description.examples)) == 3
    assert {number for number, _ in description.statuses} >= {"0"}
    for example in description.examples:
        program, *words = shlex.split(example)
        verb = name.removesuffix("_list").split("_") if name == "record_list" else name.split("_")
        assert (program, words[: len(verb)]) == ("plimsoll", verb)
        try:
            parser.parse_args(Plimsoll().parser.parse_known_args(words[len(verb) :])[1])
        except SystemExit:
            pytest.fail(f"{example}: {capsys.readouterr().err}")


def test_the_options_of_every_list_are_in_a_group_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lists = [point.name for point in POINTS if issubclass(point.load(), Listing)]
    assert "disk_list" in lists
    for name in lists:
        text = parser_of(name).format_help()
        own, _, output = text.partition("\noutput:\n")
        assert "--sort-column" in output
        assert "--noindent" not in own


def test_a_command_that_is_wider_goes_on_behind_a_backslash() -> None:
    assert continued("plimsoll do X --one a --two b --three c", 24) == [
        "plimsoll do X --one a \\",
        "    --two b --three c",
    ]
