"""Lists: columns are chosen and sorted alike in all formats."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pytest
import yaml

from plimsoll_agent.terminal.base import OneLineErrors
from plimsoll_agent.terminal.columns import Column
from plimsoll_agent.terminal.formats import Shown
from plimsoll_agent.terminal.listing import Listing
from tests.unit.person import Person

ROWS = (
    ("b", 10, {"total_iops_sec": 250}, {"code": "rule", "rule": "x"}),
    ("A", None, None, {"code": "hold"}),
    ("c", 9, {}, {"code": "rule", "rule": "x"}),
    ("D", 100, {"read_iops_sec": 100, "write_iops_sec": 50}, {"code": "no-limit"}),
)


class Disks(OneLineErrors, Listing):
    """Some disks."""

    closing = ("4 disks",)

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        columns = (
            Column("guest"),
            Column("size", right=True),
            Column("actual"),
            Column("why", long=True, head="REASON"),
        )
        return columns, [(name, size, Shown(limits, "words"), why) for name, size, limits, why in ROWS]


def typed(*words: str) -> str:
    person = Person()
    assert person.types(Disks, *words) == 0
    return person.out


def listed(*words: str) -> list[str]:
    return [row["guest"] for row in json.loads(typed("-f", "json", *words))]


@pytest.mark.parametrize(
    ("words", "order"),
    [
        (("--sort-column", "size"), "cbDA"),
        (("--sort-column", "SIZE", "--sort-descending"), "DbcA"),
        (("--sort-column", "guest"), "AbcD"),
        (("--sort-column", "actual"), "DbcA"),
        (("--sort-column", "why", "--sort-column", "size"), "ADcb"),
    ],
)
def test_numbers_sort_as_numbers_and_unknown_is_last(words: Sequence[str], order: str) -> None:
    assert listed(*words) == list(order)
    assert [line[0] for line in typed(*words).splitlines()[1:5]] == list(order)


def test_programs_get_every_column_and_people_those_that_are_not_long() -> None:
    assert set(json.loads(typed("-f", "json"))[0]) == {"guest", "size", "actual", "why"}
    assert typed().splitlines()[0].split() == ["GUEST", "SIZE", "ACTUAL"]
    assert typed("--wide").splitlines()[0].split() == ["GUEST", "SIZE", "ACTUAL", "REASON"]


def test_yaml_and_json_say_the_same() -> None:
    assert yaml.safe_load(typed("-f", "yaml")) == json.loads(typed("-f", "json"))


class NoDisks(Disks):
    """None."""

    empty = "No disks."

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        return super().take_action(parsed_args)[0], []


@pytest.mark.parametrize(
    ("words", "printed"),
    [
        (("-f", "csv"), "guest,size,actual,why\n"),
        (("-f", "csv", "-c", "size"), "size\n"),
        (("-f", "value"), ""),
        (("-f", "json"), "[]"),
        (("-f", "yaml"), "[]\n"),
        ((), "No disks.\n"),
    ],
)
def test_without_rows_programs_get_what_they_can_read_and_people_a_sentence(
    words: Sequence[str], printed: str
) -> None:
    person = Person()
    assert person.types(NoDisks, *words) == 0
    assert person.out.rstrip("\n") == printed.rstrip("\n")


@pytest.mark.parametrize("name", ["why", "reason", "WHY", "Reason"])
def test_a_column_is_chosen_by_its_name_or_its_head(name: str) -> None:
    assert json.loads(typed("-f", "json", "-c", name))[1] == {"why": {"code": "hold"}}
    assert "4 disks" not in typed("-c", name)


def test_values_are_for_the_shell() -> None:
    assert typed("-f", "value", "-c", "guest", "-c", "size") == "b 10\nA -\nc 9\nD 100\n"


@pytest.mark.parametrize("option", ["--column", "--sort-column"])
def test_a_column_that_is_not_there_is_a_usage_error(option: str, caplog: pytest.LogCaptureFixture) -> None:
    person = Person()
    assert person.types(Disks, option, "sice") == 64
    assert caplog.messages == [f"{option}: no column sice; did you mean size?"]
    assert person.out == ""


class Many(Disks):
    """More than memory should hold: notes how much was written when the last row was asked for."""

    written = 0

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Sequence[str], Iterable[Sequence[Any]]]:
        def rows() -> Iterator[Sequence[Any]]:
            for number in range(4000):
                yield f"guest-{number}", number, None, None
            Many.written = self.app.stdout.tell()

        return super().take_action(parsed_args)[0], rows()


@pytest.mark.parametrize("form", ["table", "json", "yaml", "csv", "value"])
def test_in_a_pipe_rows_are_written_as_they_come(form: str) -> None:
    person = Person()
    assert person.types(Many, "-f", form) == 0
    assert "guest-3999" in person.out
    assert Many.written > 0.7 * len(person.out)


def test_json_row_by_row_is_json_as_a_whole() -> None:
    rows = json.loads(typed("-f", "json"))
    assert typed("-f", "json") == json.dumps(rows, indent=2) + "\n"
    assert typed("-f", "json", "--noindent") == json.dumps(rows) + "\n"
    person = Person()
    assert person.types(NoDisks, "-f", "json") == 0
    assert person.out == "[]\n"


def test_columns_of_a_long_table_in_a_pipe_get_no_narrower() -> None:
    person = Person()
    assert person.types(Many) == 0
    places = [line.rindex(" ") + 1 for line in person.out.splitlines() if line.endswith("-")]
    assert len(places) == 4000
    assert places == sorted(places)
