"""``@frozen`` gives what ``dataclass(frozen=True, slots=True)`` gives."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from plimsoll_agent.util.frozen import asdict, astuple, frozen, names, of_tuple, replace


@pytest.mark.parametrize(
    "other", [("a", 1, ()), ("a", 1, ("x",)), ("a", 2, ()), ("b", 1, ()), ("a", 1, (), {"quota": "5"})]
)
def test_instances_compare_hash_and_print_like_those_of_a_dataclass(other: tuple[Any, ...]) -> None:
    @frozen
    class Row:
        name: str
        size: int = 0
        seen: tuple[str, ...] = field(default=(), compare=False)
        specs: dict[str, str] = field(default_factory=dict, hash=False)

    ours = Row

    @dataclass(frozen=True, slots=True)
    class Row:  # type: ignore[no-redef]
        name: str
        size: int = 0
        seen: tuple[str, ...] = field(default=(), compare=False)
        specs: dict[str, str] = field(default_factory=dict, hash=False)

    theirs: Any = Row
    assert (ours("a", 1) == ours(*other)) is (theirs("a", 1) == theirs(*other))
    assert (hash(ours("a", 1)) == hash(ours(*other))) is (hash(theirs("a", 1)) == hash(theirs(*other)))
    assert repr(theirs(*other)).endswith(f".{ours(*other)!r}")
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


@frozen
class Burst:
    length: int = 1

    def __post_init__(self) -> None:
        if self.length < 1:
            raise ValueError("a burst lasts a second at least")


@frozen
class Rate:
    bursts: tuple[Burst, ...]
    by_name: dict[str, Burst]


def test_nothing_changes_a_value_once_it_is_made() -> None:
    burst = Burst()
    with pytest.raises(AttributeError):
        burst.length = 0  # type: ignore[misc]


def test_a_copy_is_checked_like_the_first() -> None:
    with pytest.raises(ValueError, match="a second at least"):
        replace(Burst(), length=0)


def test_as_plain_data() -> None:
    rate = Rate((Burst(2),), {"a": Burst(3)})
    assert asdict(rate) == {"bursts": ({"length": 2},), "by_name": {"a": {"length": 3}}}
    assert astuple(Burst(2)) == (2,)
    assert names(Rate) == names(rate) == ("bursts", "by_name")


def test_a_class_made_of_another_one() -> None:
    @frozen
    class Longest(Burst):
        why: str = ""

    longest = Longest(4, "asked for")
    assert (longest.length, longest.why, longest == Burst(4)) == (4, "asked for", False)
    with pytest.raises(AttributeError):
        longest.why = "x"  # type: ignore[misc]


@frozen(kw_only=True)
class Counts:
    reads: int
    writes: int
    flushes: int | None = None


@pytest.mark.parametrize("values", [(1, 2), (1, 2, 3)])
def test_a_row_becomes_the_value_that_it_was_made_of(values: tuple[int, ...]) -> None:
    made = of_tuple(Counts, values)
    assert astuple(made) == (*values, None)[:3]
    assert of_tuple(Counts, astuple(made)) == made


@pytest.mark.parametrize(("values", "error"), [((1,), TypeError), ((1, 2, 3, 4), ValueError)])
def test_a_row_of_another_length_is_refused(values: tuple[int, ...], error: type[Exception]) -> None:
    with pytest.raises(error):
        of_tuple(Counts, values)
