"""Lines about disks and about all of them, with a sign, words and a severity; not laid out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from enum import StrEnum

from plimsoll_agent.util.frozen import frozen

REMEDY = "plimsoll plan --all"


class Severity(StrEnum):
    """How bad it is for the guest, or how uncertain. The words of a line say the same."""

    CUT = "cut"
    """A limit is removed, or cut to a tenth or less; or a change failed."""
    LOWERED = "lowered"
    """A limit is cut to less than half, or a change is deferred."""
    UNKNOWN = "unknown"
    SET = "set"
    PLAIN = "plain"
    FAINT = "left-alone"


@frozen(kw_only=True)
class DiskLine:
    """A disk: its sign, its names, what is changed and why. All text is printable."""

    sign: str
    """``+`` set where unlimited, ``~`` change, ``-`` remove, ``!`` deferred or failed, ``?`` unknown, ``=`` held."""
    names: tuple[str, ...]
    """Guest, server (may be empty), disk."""
    what: str
    why: str
    severity: Severity = Severity.PLAIN
    share: float = 0.0
    """The share of the time that is known in which the disk would have been at its new limits."""


@frozen
class Alike:
    """Lines that differ in nothing but the disk."""

    lines: tuple[DiskLine, ...]


@frozen
class TextLine:
    """A line about all disks. ``head`` is a word in the margin (``BRAKE``)."""

    text: str
    severity: Severity = Severity.PLAIN
    head: str = ""


@frozen
class CommandLine:
    """A command to type, behind its occasion."""

    when: str
    command: str


Line = DiskLine | Alike | TextLine | CommandLine


_ORDER = (Severity.CUT, Severity.LOWERED, Severity.PLAIN, Severity.SET)


def alike(lines: Sequence[DiskLine]) -> Iterator[Alike]:
    """Those that feel it most first, then the worst, deferred ones last, by their reason; lines that differ only in
    the disk are one ``Alike``.
    """
    groups: dict[tuple[str, str, str, Severity], list[DiskLine]] = {}
    for line in lines:
        groups.setdefault((line.sign, line.what, line.why, line.severity), []).append(line)

    reasons = Counter(line.why for line in lines if line.sign == "!")
    place = {why: number for number, (why, _) in enumerate(reasons.most_common())}  # those alike in their order

    def rank(group: list[DiskLine]) -> tuple[bool, float, int, int, int]:
        first = group[0]
        severity = _ORDER.index(first.severity) if first.severity in _ORDER else 9
        return first.sign == "!", -first.share, severity, place.get(first.why, 0), -len(group)

    for group in sorted(groups.values(), key=rank):
        yield Alike(tuple(group))
