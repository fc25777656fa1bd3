"""Text for people: names that tenants chose, times and ages, plurals, the nearest known word."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from plimsoll_agent.util import durations

# Comparing a longer one would take long.
_LONGEST_WORD = 255
_MOST_NAMED = 3


def ago(earlier: datetime, now: datetime) -> str:
    """``3 min ago``; ``0 s ago`` after the clock was set back."""
    return f"{durations.words(now - earlier)} ago"


def second(time: datetime) -> str:
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def minute(time: datetime) -> str:
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def both_ends(first: datetime, last: datetime) -> tuple[str, str]:
    """Of a time span in UTC: ``2026-11-22 14:00`` and ``15:20 UTC``, the last with its day where that is another."""
    return f"{first:%Y-%m-%d %H:%M}", f"{last:%H:%M} UTC" if first.date() == last.date() else minute(last)


def printable(text: str) -> str:
    """Text of unknown origin, safe to show: control, format and line characters become question marks."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else "?" for character in text)


def plural(number: int | str, one: str, many: str | None = None) -> str:
    """``1 volume``, ``2 volumes``, ``no volumes``; ``many`` is an irregular plural."""
    return f"{number} {one if number == 1 else many or f'{one}s'}"


def several_servers(name: str, guests: Sequence[str]) -> str:
    """The error where a name is that of several servers; ``guests`` are libvirt's names."""
    names = ", ".join(map(printable, guests[:_MOST_NAMED]))
    more = f" and {len(guests) - _MOST_NAMED} more" if len(guests) > _MOST_NAMED else ""
    return f"{len(guests)} servers are named {name!r}: {names}{more}; give one of these names"


def first_few(names: Sequence[str], most: int, between: str = ", ") -> str:
    """``a, b and 10 more``."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{between.join(names[:most])}{more}"


def nearest(word: str, candidates: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The known word that was probably meant, ignoring case."""
    import difflib  # here, since every command imports this module and few need difflib

    words = {each.lower(): each for each in candidates}
    near = difflib.get_close_matches(word[:_LONGEST_WORD].lower(), words, n=1, cutoff=cutoff)
    return words[near[0]] if near else None


def meant(word: str, candidates: Iterable[str]) -> str:
    """``did you mean limits?``, or all known words if none is near."""
    words = list(candidates)
    near = nearest(word, words)
    return f"known are {', '.join(words)}" if near is None else f"did you mean {near}?"


def rounded(value: float) -> str:
    """Three digits, without an exponent: ``0.0123``, ``38.4``, ``1200``."""
    return f"{float(f'{value:.3g}'):.12g}"


def ranged(low: str, high: str) -> str:
    """``20–29 s``, ``800 ms–1.6 s``; a range of one value is that value."""
    number, _, unit = low.partition(" ")
    has_one_unit = bool(unit) and " " not in unit and high.endswith(f" {unit}") and high.count(" ") == 1
    return low if low == high else f"{number}–{high}" if has_one_unit else f"{low}–{high}"
