"""Lone participles are found where a variable or a parameter is bound, and public classes of one name."""

from __future__ import annotations

import pytest

from tests.names import by_place, in_python, twins


@pytest.mark.parametrize(
    "source",
    [
        "told = 1",
        "_told = 1",
        "told: int = 1",
        "told += 1",
        "one, told = pair",
        "for told in rows: ...",
        "with file as told: ...",
        "[0 for told in rows]",
        "if told := ask(): ...",
        "def answer(told): ...",
        "def answer(*, told: str): ...",
        "lambda told: told",
        "counted = 1",
    ],
)
def test_a_participle_is_found_where_it_is_bound(source: str) -> None:
    (one,) = in_python("m.py", source)
    assert str(one).startswith("m.py:1: ")
    assert one.name in str(one)


@pytest.mark.parametrize(
    "source",
    [
        "last_told = 1",
        "speed = need = bound = desired = 1",
        "status.told = told",
        "def told(): ...",
        "def wait(paused: bool): ...",
        "class Status:\n    told: str = ''",
        "ask(told=1)",
    ],
)
def test_a_noun_a_field_a_function_and_a_bool_are_not(source: str) -> None:
    assert not list(in_python("m.py", source))


def test_a_class_whose_name_another_module_has_is_found_there() -> None:
    (one,) = twins({"a.py": "class Step: ...", "b.py": "class Stage: ...\nclass Step: ..."})
    assert str(one).startswith("b.py:2: Step is a class of a.py too")


@pytest.mark.parametrize("source", ["class _Step: ...", "class Step(a.Step): ...", "def f():\n    class Step: ..."])
def test_a_private_class_and_one_that_extends_the_other_are_not(source: str) -> None:
    assert not list(twins({"a.py": "class Step: ...", "b.py": source}))


FIELDS = "".join(f"    {name}: int\n" for name in "abcd")


@pytest.mark.parametrize("decorator", ["@frozen", "@frozen(rename=False)"])
def test_a_value_of_four_fields_that_is_made_by_place_is_found(decorator: str) -> None:
    (one,) = by_place("m.py", f"{decorator}\nclass Usage:\n{FIELDS}")
    assert str(one) == "m.py:2: Usage has 4 fields: say frozen(kw_only=True)"


@pytest.mark.parametrize(
    "source",
    [
        f"@frozen(kw_only=True)\nclass Usage:\n{FIELDS}",
        f"@frozen\nclass Usage:\n{FIELDS.partition('    d')[0]}",
        f"@frozen\nclass Metric:\n{FIELDS}",
        f"class Usage:\n{FIELDS}",
    ],
    ids=["by name", "three", "a row", "no value"],
)
def test_one_that_is_made_by_name_and_one_of_few_fields_are_not(source: str) -> None:
    assert not list(by_place("m.py", source))
