"""The one table of what is shown in which colour, for all commands of the agent, of the probes and of the region.

Red: limits do not hold, or a guest does not get what was promised. Yellow: it is deferred until a pass or a person
acts. Magenta: it could not be found out. Faint: plimsoll does nothing about it. What is as it should be has none, so
that the rest is seen. The text beside a colour says the same. The report of probes has colours of its own, which
people can tell apart who see no red, no green or no blue.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum


class Tone(Enum):
    """A colour: parameters of SGR (ECMA-48), and rich's style."""

    CRITICAL = ("1;31", "bold red")
    WARNING = ("1;33", "bold yellow")
    UNKNOWN = ("1;35", "bold magenta")
    BUSY = ("33", "yellow")
    GOOD = ("32", "green")
    FAINT = ("2", "dim")
    HEADING = ("1", "bold")

    def __init__(self, sgr: str, style: str) -> None:
        self.sgr = sgr
        self.style = style


TONES: Mapping[str, Tone] = {
    # of a node or a region, as Nagios has them
    "CRITICAL": Tone.CRITICAL,
    "WARNING": Tone.WARNING,
    "UNKNOWN": Tone.UNKNOWN,
    "OK": Tone.GOOD,
    # of a disk; unlimited is told only where a limit is desired
    "unlimited": Tone.CRITICAL,
    "failed": Tone.CRITICAL,
    "deferred": Tone.WARNING,
    "planned": Tone.WARNING,
    "far-from-desired": Tone.WARNING,
    "unknown": Tone.UNKNOWN,
    "new": Tone.UNKNOWN,  # until the next catalogue
    "acknowledged": Tone.FAINT,
    "left-alone": Tone.FAINT,
    "at-limit": Tone.BUSY,  # less than what is wrong: a limit that is used does its work
    # of a change that is not made yet: to a tenth or less, to less than half
    "cut": Tone.CRITICAL,
    "lowered": Tone.WARNING,
    # of a change in the record
    "refused": Tone.CRITICAL,
    "did-not-take": Tone.CRITICAL,
    "not-sent": Tone.WARNING,
    "timed-out": Tone.UNKNOWN,
    "under-way": Tone.UNKNOWN,
    "gone": Tone.FAINT,
    # of a probe; a broken promise is short, over-limit or slow
    "short": Tone.CRITICAL,
    "over-limit": Tone.CRITICAL,
    "broken": Tone.CRITICAL,
    "slow": Tone.WARNING,
    "late": Tone.WARNING,
    "inconclusive": Tone.UNKNOWN,
    "reduced": Tone.WARNING,
    "no-limit": Tone.FAINT,
    "postponed": Tone.FAINT,
}
_WORST = (Tone.CRITICAL, Tone.UNKNOWN, Tone.WARNING, Tone.BUSY, Tone.FAINT)


def rich_style(state: str) -> str:
    """rich's style of a state."""
    tone = TONES.get(state)
    return "" if tone is None else tone.style


def worst(states: Iterable[str]) -> Tone | None:
    """The tone of something in all these states."""
    tones = {TONES.get(state) for state in states}
    return next((tone for tone in _WORST if tone in tones), None)
