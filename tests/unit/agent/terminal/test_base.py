"""Limits that a person gives on the command line."""

from __future__ import annotations

import argparse

import pytest

from plimsoll_agent.errors import UsageError
from plimsoll_agent.model.limits import Limits
from plimsoll_agent.terminal.base import add_limits, given_limits, limits_from, limits_with, values_from
from plimsoll_agent.util.frozen import replace
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


def test_a_zero_is_a_limit_that_was_given_and_removes() -> None:
    assert given("--total-iops-sec", "0") == Limits()


def test_a_number_may_have_a_unit() -> None:
    expected = Limits(total_iops_sec=2000, total_bytes_sec=1572864)
    assert given("--total-iops-sec", "2k", "--total-bytes-sec=1.5MiB") == expected
    assert limits_from("total_iops_sec=2k,total_bytes_sec=1.5MiB") == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("total_iops_sec=eight", "--limits: total_iops_sec: must be a whole number"),
        ("total_iops_sec", "--limits: total_iops_sec: must be a whole number"),
        ("total_bytes_sec=100m", "--limits: total_bytes_sec: '100m' is ambiguous"),
    ],
)
def test_a_value_of_limits_that_is_no_number_is_named(text: str, words: str) -> None:
    with pytest.raises(UsageError) as error:
        limits_from(text)
    assert str(error.value).startswith(words)


PARTS = Limits(read_iops_sec=500, read_iops_sec_max=900, write_iops_sec=300, total_bytes_sec=100)


@pytest.mark.parametrize(
    ("words", "limits"),
    [
        (["write_iops_sec=200"], replace(PARTS, write_iops_sec=200)),
        (["read_iops_sec=0"], Limits(write_iops_sec=300, total_bytes_sec=100)),
        (["read_iops_sec=950"], replace(PARTS, read_iops_sec=950, read_iops_sec_max=0, read_iops_sec_max_length=0)),
        (
            ["total_iops_sec=1k,read_iops_sec=0", "write_iops_sec=0"],
            Limits(total_iops_sec=1000, total_bytes_sec=100),
        ),
    ],
)
def test_set_changes_what_it_names_and_a_burst_goes_with_its_limit(words: list[str], limits: Limits) -> None:
    assert limits_with(PARTS, values_from(words)) == limits


@pytest.mark.parametrize(
    ("present", "word", "message"),
    [
        (
            PARTS,
            "total_iops_sec=200",
            "--set: total_iops_sec and read_iops_sec exclude each other; remove one. The disk has read_iops_sec 500,"
            " write_iops_sec 300: change that instead, or remove it too: --set read_iops_sec=0"
            " --set write_iops_sec=0",
        ),
        (
            Limits(total_iops_sec=200),
            "read_iops_sec=5",
            "--set: total_iops_sec and read_iops_sec exclude each other; remove one. The disk has total_iops_sec 200:"
            " change that instead, or remove it too: --set total_iops_sec=0",
        ),
        (
            Limits(),
            "total_iops_sec_max=5",
            "--set: total_iops_sec_max needs total_iops_sec: a burst rises",
        ),
        (Limits(), "total_iops=5", "--set: no such limit: total_iops; did you mean total_iops_sec"),
        (Limits(), "", "--set: is empty; write --set total_iops_sec=500"),
    ],
)
def test_a_set_that_clashes_with_what_the_disk_has_says_what_to_write(
    present: Limits, word: str, message: str
) -> None:
    with pytest.raises(UsageError) as error:
        limits_with(present, values_from([word]))
    assert str(error.value).startswith(message)


def test_what_is_given_is_the_full_set() -> None:
    assert given("--read-iops-sec", "300", "--read-iops-sec-max=600", "--read-iops-sec-max-length", "10") == Limits(
        read_iops_sec=300, read_iops_sec_max=600, read_iops_sec_max_length=10
    )


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["--total-iops-sec=5", "--read-iops-sec=5"], ["total_iops_sec", "read_iops_sec"]),
        (["--total-iops-sec=-1"], ["--total-iops-sec: must be a whole number"]),
        (["--total-bytes-sec", "100m"], ["--total-bytes-sec: '100m' is ambiguous"]),
        (["--total-iops-sec-max=5", "--size-iops-sec=4096"], ["total_iops_sec_max", "size_iops_sec"]),
    ],
)
def test_an_impossible_set_is_a_usage_error_that_names_all_it_is_made_of(
    arguments: list[str], names: list[str]
) -> None:
    with pytest.raises(UsageError) as error:
        given(*arguments)
    assert all(name in str(error.value) for name in names)
    assert error.value.exit_status == 64, "2 would say that there are changes"
