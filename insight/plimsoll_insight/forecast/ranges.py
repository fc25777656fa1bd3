"""A number that is known only to lie between two others."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from plimsoll_agent.util.frozen import frozen


@frozen
class Range:
    low: float
    high: float

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            raise ValueError(f"{self.low:g} is not at most {self.high:g}")

    @property
    def is_exact(self) -> bool:
        return self.low == self.high

    def within(self, least: float, most: float) -> Range:
        return Range(min(max(self.low, least), most), min(max(self.high, least), most))


def exactly(value: float) -> Range:
    return Range(value, value)


def over(values: Iterable[float]) -> Range:
    """From the least of them to the most. Raises ``ValueError`` where there is none."""
    numbers = list(values)
    return Range(min(numbers), max(numbers))


def over_all(each: Iterable[Range | None]) -> Range | None:
    """From the least end of those that are known to the most; None where none is."""
    ranges = [one for one in each if one is not None]
    return Range(min(one.low for one in ranges), max(one.high for one in ranges)) if ranges else None


def rising(function: Callable[..., float], *each: Range) -> Range:
    """Of a function that rises, or stays, with each of them."""
    return Range(function(*(one.low for one in each)), function(*(one.high for one in each)))


def ratio(above: Range, below: Range) -> Range:
    """Raises ``ZeroDivisionError``."""
    return Range(above.low / below.high, above.high / below.low)


def least(each: list[Range]) -> Range:
    """Of what happens at once, the slowest."""
    return Range(min(one.low for one in each), min(one.high for one in each))


def add(one: Range, other: Range) -> Range:
    return Range(one.low + other.low, one.high + other.high)


def times(one: Range, other: Range) -> Range:
    """Of numbers from 0 on."""
    return Range(one.low * other.low, one.high * other.high)
