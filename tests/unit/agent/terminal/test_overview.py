"""The list of commands, and what is said of one that does not exist."""

from __future__ import annotations

from importlib.metadata import distribution
from types import SimpleNamespace

import pytest

from plimsoll_agent.terminal.overview import in_order, overview, unknown

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


def test_what_a_command_does_is_wrapped_beside_its_name() -> None:
    lines = list(overview({"plan": "Show what a pass would change", "disk list": "List disks"}, 30))
    assert lines == ["  disk list  List disks", "  plan       Show what a pass", "             would change"]


@pytest.mark.parametrize(
    ("typed", "first", "meant"),
    [
        ("hold add", "there is no command hold add; use:", ["disk hold add", "region hold add"]),
        (
            "hold add instance-1 vda --for 2h",
            "no command hold add instance-1 vda; use:",
            ["disk hold add", "region hold add"],
        ),
        ("hold", "there is no command hold; use:", ["disk hold add", "disk hold list", "region hold add"]),
        (
            "disk hold",
            "plimsoll disk hold: the command is incomplete; use one of:",
            ["disk hold add", "disk hold list"],
        ),
        ("list", "there is no command list; use:", ["disk hold list", "disk list"]),
        ("dsk list", "there is no command dsk list; use:", ["disk list"]),
        ("rules lint", "there is no command rules lint; use:", ["rules check", "rules test"]),
        ("plann", "there is no command plann; use:", ["plan"]),
        ("frobnicate\x1b[2J", "there is no command frobnicate?[2J; see: plimsoll --help", []),
        ("--nonsense", "there is no command --nonsense; see: plimsoll --help", []),
    ],
)
def test_an_unknown_command_is_answered_with_those_that_may_be_meant(
    typed: str, first: str, meant: list[str]
) -> None:
    line, *others = unknown(typed.split(), NAMES)
    assert first in line
    assert set(meant) <= {other.removeprefix("  plimsoll ") for other in others}
    assert bool(meant) == bool(others)


def test_a_noun_with_an_unknown_verb_is_answered_with_its_own_commands_only() -> None:
    assert [line.strip() for line in unknown(["rules", "lint"], NAMES)][1:] == [
        "plimsoll rules check",
        "plimsoll rules test",
    ]


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


def test_every_help_fits_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    points = distribution("plimsoll-agent").entry_points.select(group="plimsoll.commands")
    names = {point.name.replace("_", " "): point.load() for point in points}
    for name, command in names.items():
        text = command(SimpleNamespace(), None).get_parser(f"plimsoll {name}").format_help()
        assert [line for line in text.splitlines() if len(line) > 80] == []
    summaries = {name: command.__doc__.split("\n")[0] for name, command in names.items()}
    assert max(map(len, overview(summaries, 80))) <= 80
