"""``@frozen`` gives what ``dataclass(frozen=True, slots=True)`` gives, apart from the refusal to assign."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from plimsoll_agent.util.frozen import frozen


@pytest.mark.parametrize(
    "other", [("a", 1, ()), ("a", 1, ("x",)), ("a", 2, ()), ("b", 1, ()), ("a", 1, (), {"quota": "5"})]
)
def test_instances_compare_hash_and_print_like_those_of_a_dataclass(other: tuple[Any, ...]) -> None:
    @frozen
    class Row:
        name: str
        size: int = 0
        seen: tuple[str, ...] = field(default=(), compare=False, repr=False)
        specs: dict[str, str] = field(default_factory=dict, hash=False)

    ours = Row

    @dataclass(frozen=True, slots=True)
    class Row:  # type: ignore[no-redef]
        name: str
        size: int = 0
        seen: tuple[str, ...] = field(default=(), compare=False, repr=False)
        specs: dict[str, str] = field(default_factory=dict, hash=False)

    theirs: Any = Row
    assert (ours("a", 1) == ours(*other)) is (theirs("a", 1) == theirs(*other))
    assert (hash(ours("a", 1)) == hash(ours(*other))) is (hash(theirs("a", 1)) == hash(theirs(*other)))
    assert repr(ours(*other)) == repr(theirs(*other))
    assert replace(ours("a"), size=3).size == 3
    assert not hasattr(ours("a"), "__dict__")


def test_two_classes_with_the_same_values_differ() -> None:
    @frozen
    class Guest:
        name: str

    @frozen(kw_only=True)
    class Disk:
        name: str

    assert Guest("a") != Disk(name="a")
    with pytest.raises(TypeError):
        Disk("a")  # type: ignore[misc]


def test_a_class_keeps_its_own_methods() -> None:
    @frozen
    class Name:
        text: str

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Name) and self.text.lower() == other.text.lower()

        def __hash__(self) -> int:
            return hash(self.text.lower())

    assert Name("A") == Name("a")
    assert {Name("A")} == {Name("a")}


def test_a_class_without_fields_and_one_with_a_single_one() -> None:
    @frozen
    class Nothing:
        pass

    @frozen
    class Share:
        of: float

    assert Nothing() == Nothing()
    unknown = float("nan")
    assert Share(unknown) == Share(unknown), "as in a dataclass, the same object is equal to itself"
