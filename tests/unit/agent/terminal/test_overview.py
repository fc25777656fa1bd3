"""The list of commands, and what is said of one that does not exist."""

from __future__ import annotations

import argparse
from importlib.metadata import distribution

import pytest

from plimsoll_agent.terminal.main import Plimsoll
from plimsoll_agent.terminal.overview import ALIASES, GROUPS, in_order, overview, unknown

COMMANDS = {
    point.name.replace("_", " "): point.load()
    for point in distribution("plimsoll-agent").entry_points.select(group="plimsoll.commands")
}
NAMES = [
    "rules check",
    "rules test",
    "monitoring rules",
    "plan",
    "enforce",
    "disk list",
    "disk show",
    "disk hold add",
    "disk hold list",
    "region hold add",
    "record",
]


def summary_of(name: str) -> str:
    return str(COMMANDS[name].__doc__).partition("\n")[0].rstrip(".") if name in COMMANDS else f"what {name} does"


def test_the_general_help_fits_one_screen_and_has_each_command_once() -> None:
    lines = list(overview(COMMANDS, summary_of))
    assert len(lines) <= 50
    assert max(map(len, lines)) <= 80
    listed = [name for _, members in GROUPS for name in members]
    assert len(listed) == len(set(listed))
    for name in set(COMMANDS) - ALIASES:
        words = name.split()
        assert any(" ".join(words[:length]) in listed for length in range(len(words), 0, -1)), name
    assert "  disk hold ...         Hold one disk at its limits, or at others, for a time" in lines
    text = "\n".join(lines)
    assert [option for option in options_of(Plimsoll().parser) if option not in text] == []


def options_of(parser: argparse.ArgumentParser) -> list[str]:
    return [
        action.option_strings[-1]
        for action in parser._actions
        if action.dest not in ("deferred_help", "verbose_level")
    ]


def test_a_noun_alone_lists_its_commands_with_what_each_does() -> None:
    assert list(unknown(["disk", "hold"], NAMES, summary_of)) == [
        "disk hold is not a whole command; use one of:",
        "  disk hold add   Hold a disk, or many, at its limits, or at others, for a time",
        "  disk hold list  List the holds on this node",
    ]


@pytest.mark.parametrize(
    ("typed", "first", "meant"),
    [
        ("hold add", "there is no command hold add; did you mean:", ["disk hold add", "region hold add"]),
        ("hold add instance-1 vda --for 2h", "there is no command hold add instance-1 vda; did you mean:",
         ["disk hold add", "region hold add"]),
        ("hold", "there is no command hold; did you mean:", ["disk hold", "region hold"]),
        ("list", "there is no command list; did you mean:", ["disk list", "disk hold list"]),
        ("disk lst", "there is no command disk lst; did you mean:", ["disk list"]),
        ("dsk list", "there is no command dsk list; did you mean:", ["disk list"]),
        ("rules lint", "there is no command rules lint; did you mean:", ["rules check", "rules test"]),
        ("disk frobnicate", "there is no command disk frobnicate; did you mean:", ["disk"]),
        ("plann", "there is no command plann; did you mean:", ["plan"]),
        ("frobnicate\x1b[2J", "there is no command frobnicate?[2J; see: plimsoll --help", []),
        ("--nonsense", "there is no command --nonsense; see: plimsoll --help", []),
    ],
)  # fmt: skip
def test_an_unknown_command_is_answered_with_the_one_or_two_that_may_be_meant(
    typed: str, first: str, meant: list[str]
) -> None:
    line, *others = unknown(typed.split(), NAMES, summary_of)
    assert line == first
    assert [other.removeprefix("  plimsoll ") for other in others] == meant


@pytest.mark.parametrize(
    ("typed", "ordered"),
    [
        ("-f json disk list", "disk list -f json"),
        ("--uri x:///s disk show web-1 -f json", "disk show web-1 --uri x:///s -f json"),
        ("disk show plan", "disk show plan"),
        ("nonsense disk list", "nonsense disk list"),
        ("plan -f json", "plan -f json"),
    ],
)
def test_options_may_come_before_the_words_of_a_command(typed: str, ordered: str) -> None:
    assert in_order(typed.split(), NAMES) == ordered.split()
