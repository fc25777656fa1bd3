"""All commands take the same options for the same thing, and have the same formats."""

from __future__ import annotations

import argparse
import re
import sys
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType

import pytest
from cliff.lister import Lister
from cliff.show import ShowOne

from plimsoll_agent.terminal.columns import Column
from plimsoll_agent.terminal.formats import Showing
from plimsoll_agent.terminal.listing import Listing
from tests.unit.agent.terminal.test_table import LISTS

COMMANDS = entry_points(group="plimsoll.commands")


def options(command: EntryPoint) -> dict[str, argparse.Action]:
    app = argparse.Namespace(stdin=None, stdout=None, stderr=None)
    actions = command.load()(app, None).get_parser("plimsoll")._actions
    return {option: action for action in actions for option in action.option_strings}


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_what_has_formats_has_all_of_them(command: EntryPoint) -> None:
    made, has = command.load(), options(command)
    if issubclass(made, Lister | ShowOne):
        assert issubclass(made, Listing | Showing), "else its columns, colour and width are its own"
        assert set(has["-f"].choices or ()) == {"table", "json", "yaml", "csv", "value"}
        assert {"-c", "--max-width"} <= has.keys()
    elif "-f" in has:
        assert set(has["-f"].choices or ()) == {"text", "json", "yaml"}
    if issubclass(made, Lister) or command.name.endswith("_list"):
        assert {"--wide", "--sort-column", "-c", "--max-width"} <= has.keys()


def modules() -> list[ModuleType]:
    """Of all commands, and what these have beside them, such as the rows of a list."""
    for command in COMMANDS:
        command.load()
    return [module for name, module in sys.modules.items() if re.match(r"plimsoll_\w+\.cli\.", name)]


def test_every_heading_is_in_capitals() -> None:
    tuples = [each for module in modules() for each in vars(module).values() if isinstance(each, tuple)]
    heads = {part.head for each in (*tuples, *LISTS.values()) for part in each if isinstance(part, Column)}
    assert {"GUEST", "P99.9"} <= heads
    assert [head for head in heads if head[0].islower()] == []


def test_the_columns_of_every_list_are_rendered_at_every_width() -> None:
    tuples = [each for module in modules() for each in vars(module).values() if isinstance(each, tuple) and each]
    columns = {each for each in tuples if all(isinstance(part, Column) for part in each)}
    assert [each for each in columns if not any(set(each) <= set(rendered) for rendered in LISTS.values())] == []
