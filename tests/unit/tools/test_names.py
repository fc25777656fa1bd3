"""Lone participles are found where a variable or a parameter is bound, and a room's number only becomes smaller."""

from __future__ import annotations

import pytest

from tests.names import Found, in_python, judged


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
    assert one.line == 1


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


def test_a_room_has_no_more_than_before_and_says_when_it_has_fewer() -> None:
    every = [Found("agent/store/a.py", 3, "told"), Found("agent/store/b.py", 4, "found")]
    assert list(judged(every, {"agent/store": 2})) == []
    more = list(judged(every, {"agent/store": 1}))
    assert more[0].startswith("agent/store/a.py:3: told is a participle")
    assert more[-1] == "agent/store: 2 of them, and 1 were there before"
    assert "agent/store: 2 of them, and 0 were there before" in list(judged(every, {}))
    assert list(judged(every, {"agent/store": 3})) == [
        "agent/store: only 2 are left: write that number into LEFT in tests/names.py"
    ]
    assert list(judged([], {"agent/store": 1})) == [
        "agent/store: only 0 are left: write that number into LEFT in tests/names.py"
    ]
