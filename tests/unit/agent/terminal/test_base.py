"""Limits that a person gives on the command line."""

from __future__ import annotations

import argparse

import yaml

from plimsoll_agent.errors import UsageError
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.terminal.base import add_limits, given_limits, limits_from, limits_with, values_from
from tests import golden
from tests.unit.values import NINETEEN


def given(*arguments: str) -> Limits | None:
    parser = argparse.ArgumentParser()
    add_limits(parser)
    return given_limits(parser.parse_args(arguments))


def test_each_of_the_19_numbers_has_an_option_and_a_group_has_none() -> None:
    parser = argparse.ArgumentParser()
    add_limits(parser)
    options = {string for action in parser._actions for string in action.option_strings} - {"-h", "--help"}
    assert options == {f"--{name.replace('_', '-')}" for name in NINETEEN}


def test_no_limit_given_is_none_and_not_unlimited() -> None:
    assert given() is None


def answer(kind: str, text: str) -> str:
    try:
        if kind == "set":
            present, _, words = text.partition(" | ")
            found = limits_with(Limits(**yaml.safe_load(present)), values_from(words.split(" ")))
        else:
            found = limits_from(text) if kind == "limits" else given(*text.split())
    except UsageError as error:
        return f"{error} (exit status {error.exit_status})"
    assert found is not None
    return str(found.in_effect())


def test_each_word_is_the_limits_or_the_message_of_the_golden_file() -> None:
    golden.transcript("given_limits.txt", answer)
